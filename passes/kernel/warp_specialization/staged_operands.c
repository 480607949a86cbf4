/* staged-operands: a step of warp-specialization: a left operand that is a transposed tile of registers goes
 * through shared memory, from where all warpgroups read it.
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
 * Transposing in registers would move every element to another warp. In shared memory it is a matter of the
 * descriptor: the tile is written as its threads hold it, and wgmma reads it in the other order. With two
 * stages one barrier a step suffices. A warp that writes a stage has passed the barrier of the step before,
 * at which every warp arrived after the product of the step before that one was complete. The barrier behind
 * the loop does the same for the first step of the next program.
 *
 * Requires: 16-bit elements; a product in a counted loop; a panel layout that wgmma can describe. Keeps:
 * everything. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

enum { STAGES = 2 };

bool roles_staged(Roles *c, const Instr *product)
{
    const Value *t = ir_operand(product, 0);
    const Instr *permute = t->def, *loop = product->block->parent;
    if (kernel_skips(c->p, PASS_STAGED_OPERANDS) || !permute || permute->op != OP_PERMUTE ||
        permute->block != product->block || t->type->rank != 2 || dtype_bytes(t->type->dtype) != 2 || !loop ||
        loop->op != OP_FOR || ir_use_count(ir_result(permute)) != 1)
        return false;
    const Value *x = ir_operand(permute, 0);
    if (!x->def || x->def->op == OP_LOAD || x->def->block != product->block) return false;
    const int32_t tile[2] = { (int32_t)x->type->shape[0], (int32_t)x->type->shape[1] };
    return x->type->shape[1] % 64 == 0 && layout_wgmma_shared(&c->s->arena, tile, 0, 1, 2, 0) != NULL;
}

int64_t roles_staged_bytes(Roles *c)
{
    int64_t all = 0;
    for (size_t k = 0; k < c->products.len; k++) {
        const Instr *i = c->products.data[k];
        if (roles_staged(c, i)) all += STAGES * type_elements(ir_operand(i, 0)->type) * 2;
    }
    return all;
}

static Value *buffer(Roles *c, const Type *t)
{
    Func *f = c->f;
    Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = f->loc };
    const int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] };
    const LayoutShared *s = layout_wgmma_shared(&c->s->arena, tile, 0, 1, 2, 0);
    return ir_emit(&b, OP_SHARED_ALLOC, NULL, 0, NO_ATTRS,
        type_shared(c->s, t->dtype, 3, (int64_t[]){ STAGES, tile[0], tile[1] },
            layouts_shared_text(&c->p->layouts, s)));
}

static void stage(Roles *c, Instr *product)
{
    Instr *permute = ir_operand(product, 0)->def, *loop = product->block->parent;
    Value *x = ir_operand(permute, 0), *at = loop->blocks[0]->args[0], *buf = buffer(c, x->type);
    Builder b = ir_before(permute);
    Value *mask = ir_const_int(&b, at->type->dtype, STAGES - 1), *by = ir_operand(loop, 2),
          *from = ir_bin(&b, OP_SUB, at, ir_operand(loop, 0));
    int64_t step;
    if (!ir_is_const(by, &step) || step != 1) from = ir_bin(&b, OP_DIV, from, by);
    Value *stage = ir_bin(&b, OP_AND, from, mask);
    Value *view = ir_emit(&b, OP_SHARED_STAGE, (Value *[]){ buf, stage }, 2, NO_ATTRS, NULL);
    ir_build(&b, OP_SHARED_WRITE, (Value *[]){ view, x }, 2, NO_ATTRS, NULL, 0);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    Value *transposed = roles_transposed_view(c, &b, view);
    transposed->name = x->name;
    ir_replace(ir_result(permute), transposed);
    ir_erase(permute);
    b = ir_after(loop);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}

bool roles_stage_operands(void *user)
{
    Roles *c = user;
    bool changed = false;
    for (size_t k = 0; k < c->products.len; k++) {
        if (!roles_staged(c, c->products.data[k])) continue;
        stage(c, c->products.data[k]);
        changed = true;
    }
    return changed;
}
