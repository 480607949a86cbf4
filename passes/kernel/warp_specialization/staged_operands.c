/* staged-operands: a step of warp-specialization: operands that are computed in registers, and that wgmma
 * takes from shared memory only, are written there by the consumers. These are left operands that are a
 * transposed tile of registers, and right operands.
 *
 *   for i { %x = ...; %t = permute %x; %r = mma_sync %t, %b, %c }
 *
 * becomes
 *
 *   %buf = shared_alloc ... [2 stages]
 *   for i { %x = ...; %v = shared_stage %buf, ((i - lo) / step) & 1; shared_write %v, %x; barrier
 *           %t = shared_transpose %v; %r = mma_sync %t, %b, %c }
 *   barrier
 *
 * Transposing in registers would move every element to another warp, and all warpgroups read all of a right
 * operand. In shared memory the order is a matter of the descriptor: the tile is written as its threads hold
 * it, and wgmma reads it in either order. With two stages one barrier a step suffices. A warp that writes a
 * stage has passed the barrier of the step before, at which every warp arrived after the product of the step
 * before that one was complete. The barrier behind the loop does the same for the first step of the next
 * program. A right operand that is computed from what the step loads is written a step ahead
 * (stage_ahead.c).
 *
 * Requires: a product in a counted loop; a panel layout that wgmma can describe; of a left operand 16-bit
 * elements; of a right one of other sizes, K along its rows in memory. Keeps: everything. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

enum { STAGES = 2, MAX_WALK = 32 };

/* Whether the product stands in a loop of steps, and what writes its operand in it. */
static bool in_steps(Roles *c, const Instr *product)
{
    const Instr *loop = product->block->parent;
    return !kernel_skips(c->p, PASS_STAGED_OPERANDS) && loop && loop->op == OP_FOR && !ir_over_programs(loop);
}

static bool is_computed_in(const Value *x, const Block *body)
{ return x->type->kind == TYPE_TILE && x->def && x->def->op != OP_LOAD && x->def->block == body; }

/* The computed left operand of a product that wgmma reads from shared memory: the tile that is written, its
 * layout, and the transposition between them. */
typedef struct LeftOperand {
    Value *x;
    const LayoutShared *layout;
    Instr *permute; /* NULL: none */
} LeftOperand;

static bool left_operand(Roles *c, const Instr *product, LeftOperand *l)
{
    Value *t = ir_operand(product, 0);
    Instr *permute = t->def && t->def->op == OP_PERMUTE ? t->def : NULL;
    if ((!permute && !c->by_columns) || t->type->kind != TYPE_TILE || t->type->rank != 2 ||
        dtype_bytes(t->type->dtype) != 2 || !in_steps(c, product))
        return false;
    if (permute && (permute->block != product->block || ir_use_count(ir_result(permute)) != 1)) return false;
    Value *x = permute ? ir_operand(permute, 0) : t;
    if (!is_computed_in(x, product->block) || x->type->shape[1] % (permute ? 64 : 16)) return false;
    const int32_t tile[2] = { (int32_t)x->type->shape[0], (int32_t)x->type->shape[1] };
    *l = (LeftOperand){ x, layout_wgmma_shared(&c->s->arena, tile, permute ? 0 : 1, 1, 2, 0), permute };
    return l->layout != NULL;
}

bool roles_staged(Roles *c, const Instr *product)
{
    LeftOperand l;
    return left_operand(c, product, &l);
}

/* The axis along which the tile lies in memory, as far as it is computed element by element; else the last.
 */
static int fast_axis(Roles *c, const Value *x, int depth)
{
    const Instr *i = x->def;
    int axis = 1;
    if (!i || depth > MAX_WALK || x->type->kind != TYPE_TILE || x->type->rank != 2) return -1;
    if (i->op == OP_LOAD) kernel_unit_axis(c->f, i, &axis);
    if (i->op == OP_LOAD) return axis == 0 ? 0 : 1;
    if (i->op == OP_SHARED_READ) return layouts_shared(&c->p->layouts, ir_operand(i, 0)->type)->order[0];
    axis = -1;
    for (int k = 0; op_is_elementwise(i->op) && k < i->n_operands && axis < 0; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE && ir_operand(i, k)->def &&
            ir_operand(i, k)->def->op != OP_BROADCAST && ir_operand(i, k)->def->op != OP_SPLAT)
            axis = fast_axis(c, ir_operand(i, k), depth + 1);
    return axis;
}

bool roles_right_operand(Roles *c, Instr *product, RightOperand *r)
{
    Value *b = ir_operand(product, 1);
    const Instr *permute = b->def && b->def->op == OP_PERMUTE ? b->def : NULL;
    if (!in_steps(c, product) || b->type->kind != TYPE_TILE || b->type->rank != 2) return false;
    if (roles_load_behind(c, b)) return false;
    if (permute && (permute->block != product->block || ir_use_count(b) != 1)) return false;
    *r = (RightOperand){ product, permute ? ir_operand(permute, 0) : b, NULL, permute != NULL };
    if (!is_computed_in(r->x, product->block)) return false;
    const int32_t tile[2] = { (int32_t)r->x->type->shape[0], (int32_t)r->x->type->shape[1] };
    int bytes = dtype_bytes(b->type->dtype), k_axis = permute ? 1 : 0, fast = fast_axis(c, r->x, 0);
    if (fast < 0) fast = 1;
    if (bytes != 2 && fast != k_axis) return false;
    r->layout = layout_wgmma_shared(&c->s->arena, tile, k_axis, fast, bytes, 0);
    return r->layout != NULL;
}

bool roles_staged_right(Roles *c, Instr *product)
{
    RightOperand r;
    return roles_right_operand(c, product, &r);
}

/* Whether a product before product k reads the same tile, so that it is written once for both. */
static bool written_before(Roles *c, size_t k, const LeftOperand *l)
{
    LeftOperand other;
    for (size_t j = 0; j < k; j++)
        if (c->products.data[j]->block == c->products.data[k]->block &&
            left_operand(c, c->products.data[j], &other) && other.x == l->x &&
            layout_shared_equal(other.layout, l->layout))
            return true;
    return false;
}

int64_t roles_staged_bytes(Roles *c)
{
    int64_t all = 0;
    RightOperand r;
    LeftOperand l;
    for (size_t k = 0; k < c->products.len; k++) {
        Instr *i = c->products.data[k];
        if (left_operand(c, i, &l) && !written_before(c, k, &l)) all += STAGES * type_elements(l.x->type) * 2;
        if (roles_right_operand(c, i, &r)) all += STAGES * kernel_ring_bytes(r.layout);
    }
    return all;
}

Value *roles_stage_buffer(Roles *c, const Type *t, const LayoutShared *s)
{
    Func *f = c->f;
    Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = f->loc };
    return ir_emit(&b, OP_SHARED_ALLOC, NULL, 0, NO_ATTRS,
        type_shared(c->s, t->dtype, 3, (int64_t[]){ STAGES, t->shape[0], t->shape[1] },
            layouts_shared_text(&c->p->layouts, s)));
}

Value *roles_stage_of(Builder *b, const Instr *loop, Value *at, Value *buf)
{
    Value *mask = ir_const_int(b, at->type->dtype, STAGES - 1), *by = ir_operand(loop, 2),
          *from = ir_bin(b, OP_SUB, at, ir_operand(loop, 0));
    int64_t step;
    if (!ir_is_const(by, &step) || step != 1) from = ir_bin(b, OP_DIV, from, by);
    Value *stage = ir_bin(b, OP_AND, from, mask);
    return ir_emit(b, OP_SHARED_STAGE, (Value *[]){ buf, stage }, 2, NO_ATTRS, NULL);
}

/* The stage to which the tile was written in this layout for another product of the block; NULL: it was not.
 */
static Value *written_stage(Roles *c, const LeftOperand *l, const Block *body)
{
    for (const Use *u = l->x->uses; u; u = u->next)
        if (u->user->op == OP_SHARED_WRITE && u->user->block == body && ir_operand(u->user, 1) == l->x &&
            layout_shared_equal(layouts_shared(&c->p->layouts, ir_operand(u->user, 0)->type), l->layout))
            return ir_operand(u->user, 0);
    return NULL;
}

static void stage(Roles *c, Instr *product, const LeftOperand *l)
{
    Instr *permute = l->permute, *loop = product->block->parent;
    Value *view = written_stage(c, l, product->block);
    Builder b = ir_before(permute ? permute : product);
    if (!view) {
        Value *buf = roles_stage_buffer(c, l->x->type, l->layout);
        view = roles_stage_of(&b, loop, loop->blocks[0]->args[0], buf);
        ir_build(&b, OP_SHARED_WRITE, (Value *[]){ view, l->x }, 2, NO_ATTRS, NULL, 0);
        ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
        Builder behind = ir_after(loop);
        ir_build(&behind, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    }
    if (permute) view = roles_transposed_view(c, &b, view);
    if (permute || !view->name) view->name = l->x->name;
    ir_set_operand(product, 0, view);
    if (permute) ir_erase(permute);
}

static void stage_right(Roles *c, Instr *product, const RightOperand *r)
{
    Instr *loop = product->block->parent, *permute = r->transposed ? ir_operand(product, 1)->def : NULL;
    Value *buf = roles_stage_buffer(c, r->x->type, r->layout);
    Builder b = ir_before(product);
    Value *view = roles_stage_of(&b, loop, loop->blocks[0]->args[0], buf);
    ir_build(&b, OP_SHARED_WRITE, (Value *[]){ view, r->x }, 2, NO_ATTRS, NULL, 0);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    if (permute) view = roles_transposed_view(c, &b, view);
    view->name = r->x->name;
    ir_set_operand(product, 1, view);
    if (permute) ir_erase(permute);
    b = ir_after(loop);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}

bool roles_stage_operands(void *user)
{
    Roles *c = user;
    bool changed = false;
    RightOperand r;
    LeftOperand l;
    for (size_t k = 0; k < c->products.len; k++) {
        Instr *i = c->products.data[k];
        if (left_operand(c, i, &l)) stage(c, i, &l), changed = true;
        if (!roles_right_operand(c, i, &r)) continue;
        if (!roles_stage_ahead(c, i->block)) stage_right(c, i, &r);
        changed = true;
    }
    return changed;
}
