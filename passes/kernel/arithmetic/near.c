/* near: computes the exponents of a softmax with one fma an element, where no row is far from zero.
 *
 *   %p = exp2((%x * scale - broadcast %m) * c)      three operations an element, right for all finite inputs
 *
 * becomes
 *
 *   %far  = warpgroup_any(not |%m| <= 2^10 / c)
 *   %x', %k, %n = if %far { yield %x * scale - broadcast %m, c, 0 } else { yield %x, scale * c, %m * -c }
 *   %p = exp2(fma(%x', %k, broadcast %n))
 *
 * fma(x, scale c, -(m c)) rounds m c once, which moves the exponent by up to |m c| 2^-24; that is at most
 * 2^-14 while |m c| <= 2^10. Rows beyond that (scores of 1e9, masks of -1e30) compute their difference
 * first. It takes x's registers, so that the code behind is the same. A warp decides for its rows, and
 * either form is right for each of them.
 *
 * Bound: of the exponential of the difference as the program rounds it, a relative (1 + |d| + |m c|)
 * 2^-22, with d the exponent. The fma rounds by |d| 2^-24. scale c and m c are rounded by 2^-24 of what
 * they give, (|d| + 2 |m c|) 2^-24. The program rounds x * scale, (|d| + |m c|) 2^-24, which the fma does
 * not. All of this is multiplied by ln 2, and the instruction adds 2^-22. NaN and infinite m are far;
 * infinite x have infinite exponents in both forms. Where scale * c might overflow, the limit is -1, and
 * all rows are far.
 *
 * Where products are asynchronous (wgmma) and the loop loads %m anew in each step, as backward attention
 * loads the sums of its rows, the choice would stand between the product and all that needs it. There one fma
 * takes the difference, and nothing is chosen:
 *
 *   %p = exp2(fma(%x, scale, broadcast -%m) * c)    two operations an element; rounds the difference once
 *
 * Requires: each warp holds whole rows, where a warp chooses; loops with products, where an operation an
 * element matters. Does not handle: exponents under the maximum of an online softmax, for which lazy-rescale
 * decides. */
#include "passes/kernel/arithmetic/near.h"
#include <float.h>
#include <math.h>

static const double NEAR = 0x1p10, BIG_FACTOR = 0x1p100;

static Value *splatted(Value *v)
{
    v = ir_repeated(v);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

static Value *splat_as(Builder *b, Value *scalar, const Type *t)
{ return ir_splat(b, scalar, t->rank, t->shape); }
static Value *f32_as(Builder *b, double v, const Type *t)
{ return splat_as(b, ir_const_float(b, DT_F32, v), t); }

bool kernel_near_find(Value *exponent, KernelNear *n)
{
    Instr *times = exponent->def;
    if (!times || times->op != OP_MUL || exponent->type->kind != TYPE_TILE || exponent->type->dtype != DT_F32)
        return false;
    for (const Use *u = exponent->uses; u; u = u->next)
        if (u->user->op != OP_EXP2) return false;
    Instr *sub = ir_operand(times, 0)->def;
    Value *c = splatted(ir_operand(times, 1));
    if (!c || !sub || sub->op != OP_SUB || sub->block != times->block || ir_result(sub)->uses->next)
        return false;
    Instr *repeated = ir_operand(sub, 1)->def, *scaled = ir_operand(sub, 0)->def;
    if (!repeated || repeated->op != OP_BROADCAST) return false;
    *n = (KernelNear){ times, ir_operand(sub, 0), NULL, c, ir_operand(repeated, 0) };
    if (scaled && scaled->op == OP_MUL && splatted(ir_operand(scaled, 1))) {
        n->x = ir_operand(scaled, 0);
        n->scale = splatted(ir_operand(scaled, 1));
    }
    return !kernel_is_cheap(n->x) && !kernel_is_cheap(n->row);
}

/* The largest |row| for which a row is near. It is finite. */
static Value *limit(Builder *b, const KernelNear *n)
{
    double c, scale = 1;
    bool known = ir_is_const_float(n->c, &c);
    Value *finite = ir_const_float(b, DT_F32, FLT_MAX), *most;
    if (known) most = ir_const_float(b, DT_F32, (float)fmin(NEAR / fabs(c), FLT_MAX));
    else {
        Value *factor = ir_un(b, OP_ABS, n->c), *near = ir_const_float(b, DT_F32, NEAR);
        most = ir_bin(b, OP_MIN, ir_bin(b, OP_DIV, near, factor), finite);
    }
    if (known && (!n->scale || ir_is_const_float(n->scale, &scale)))
        return fabs(c * scale) <= BIG_FACTOR ? most : ir_const_float(b, DT_F32, -1);
    Value *k = ir_un(b, OP_ABS, n->scale ? ir_bin(b, OP_MUL, n->scale, n->c) : n->c);
    Value *small = ir_bin(b, OP_LE, k, ir_const_float(b, DT_F32, BIG_FACTOR));
    return ir_op(b, OP_WHERE, NULL, NO_ATTRS, small, most, ir_const_float(b, DT_F32, -1));
}

Value *kernel_near_is(Builder *b, const KernelNear *n, Value *row)
{
    Value *most = splat_as(b, limit(b, n), row->type), *size = ir_un(b, OP_ABS, row);
    return ir_bin(b, OP_LE, size, most);
}

/* The factor of the exponent in one fma: scale * c. */
static Value *joint_factor(Builder *b, const KernelNear *n)
{
    double c, scale;
    if (!n->scale) return n->c;
    if (ir_is_const_float(n->c, &c) && ir_is_const_float(n->scale, &scale))
        return ir_const_float(b, DT_F32, (float)(scale * c));
    return ir_bin(b, OP_MUL, n->scale, n->c);
}

void kernel_near_types(const KernelNear *n, const Type *out[3])
{
    out[0] = n->x->type;
    out[1] = n->c->type;
    out[2] = n->row->type;
}

void kernel_near_arm(Builder *b, const KernelNear *n, Value *row, bool far, Value *out[3])
{
    const Type *t = n->x->type;
    double c;
    if (far) {
        Value *s = n->scale ? ir_bin(b, OP_MUL, n->x, splat_as(b, n->scale, t)) : n->x;
        out[0] = ir_bin(b, OP_SUB, s, ir_emit(b, OP_BROADCAST, &row, 1, NO_ATTRS, t));
        out[1] = n->c;
        out[2] = f32_as(b, 0, row->type);
        return;
    }
    Value *minus = ir_is_const_float(n->c, &c) ? ir_const_float(b, DT_F32, -c) : ir_un(b, OP_NEG, n->c);
    out[0] = n->x;
    out[1] = joint_factor(b, n);
    out[2] = ir_bin(b, OP_MUL, row, splat_as(b, minus, row->type));
}

void kernel_near_take(const KernelNear *n, Value *chosen)
{
    Builder b = ir_before(n->times);
    const Type *t = n->x->type;
    Value *shift = chosen + 2;
    Value *added = ir_emit(&b, OP_BROADCAST, &shift, 1, NO_ATTRS, t), *factor = splat_as(&b, chosen + 1, t);
    Value *e = ir_op(&b, OP_FMA, NULL, NO_ATTRS, chosen, factor, added);
    ir_replace(ir_result(n->times), e);
}

static void choose(const KernelNear *n, Value *far)
{
    Builder b = ir_before(n->times);
    const Type *types[3];
    Value *out[3], *near = ir_un(&b, OP_NOT, far);
    kernel_near_types(n, types);
    Instr *choice = ir_build(&b, OP_IF, &near, 1, ATTRS(a_int(ATTR_RARE, 1)), types, 3);
    for (int k = 0; k < 2; k++) {
        Builder in = ir_at_end(choice->blocks[k]);
        in.loc = n->times->loc;
        kernel_near_arm(&in, n, n->row, k == 1, out);
        ir_build(&in, OP_YIELD, out, 3, NO_ATTRS, NULL, 0);
    }
    kernel_near_take(n, choice->results);
    ir_sweep(b.block);
}

static bool in_loop_of_products(const Instr *i)
{
    const Instr *loop = i->block->parent;
    if (!loop || loop->op != OP_FOR) return false;
    for (const Instr *k = i->block->first; k; k = k->next)
        if (k->op == OP_MMA || k->op == OP_MMA_SYNC || op_is_wgmma(k->op)) return true;
    return false;
}

/* Whether each step of the loop computes the row anew, and not from its products. */
static bool is_loaded(const Value *row, const Block *step)
{
    const Instr *i = row->def;
    if (!i || i->block != step) return false;
    if (i->op == OP_LOAD || i->op == OP_SHARED_READ) return true; /* from memory, or from a ring */
    bool moved = op_has(i->op, OPF_PURE) && i->n_operands == 1 && op_family(i->op) != OPS_REDUCE;
    return moved && is_loaded(ir_operand(i, 0), step);
}

/* x * scale - row becomes one fma. */
static void fuse_difference(const KernelNear *n)
{
    Instr *difference = ir_operand(n->times, 0)->def;
    Builder b = ir_before(difference);
    const Type *t = n->x->type;
    Value *minus = ir_un(&b, OP_NEG, n->row), *rows = ir_emit(&b, OP_BROADCAST, &minus, 1, NO_ATTRS, t),
          *fused = ir_op(&b, OP_FMA, NULL, NO_ATTRS, n->x, splat_as(&b, n->scale, t), rows);
    ir_replace(ir_result(difference), fused);
    ir_sweep(b.block);
}

static bool comes_behind(const Instr *i, const Instr *place)
{
    for (const Instr *k = place; k; k = k->next)
        if (k == i) return i != place;
    return false;
}

static bool is_within(const Block *b, const Block *outer)
{
    while (b != outer && b->parent) b = b->parent->block;
    return b == outer;
}

/* Makes the factor available at the builder's position, after the row: moves a constant there, or moves the
 * position behind a factor of the row's block. False: the factor belongs to a nested block. */
static bool bring(Builder *b, const Value *factor)
{
    double c;
    const Block *home = factor ? factor->def ? factor->def->block : factor->block : NULL;
    if (!home || (home != b->block && !is_within(home, b->block))) return true; /* around it */
    Instr *def = factor->def, *place = b->before;
    if (home == b->block && (!def || !place || (def != place && !comes_behind(def, place)))) return true;
    if (home == b->block && (def == place || !ir_is_const_float(factor, &c))) b->before = def->next;
    else if (ir_is_const_float(factor, &c)) {
        ir_unlink(def);
        ir_place(b, def);
    } else return false;
    return true;
}

static void take_one_fma(KernelContext *c, bool whole_rows)
{
    Session *s = c->s;
    Func *f = c->f;
    bool asynchronous = target_has(c->p->target, TF_WGMMA);
    InstrList powers = { 0 };
    KernelNear n;
    ir_collect(&s->arena, f->body, OP_EXP2, &powers);
    for (size_t k = 0; k < powers.len; k++) {
        if (!powers.data[k]->block || /* swept with an earlier one */
            !in_loop_of_products(powers.data[k]) || !kernel_near_find(ir_operand(powers.data[k], 0), &n))
            continue;
        if (asynchronous && n.scale && is_loaded(n.row, n.times->block)) {
            fuse_difference(&n);
            continue;
        }
        if (!whole_rows) continue;
        Block *at = n.row->def ? n.row->def->block : n.row->block;
        Builder b = n.row->def ? ir_after(n.row->def)
                               : (Builder){ .module = f->module, .block = at, .before = at->first };
        b.loc = n.times->loc;
        if (!bring(&b, n.c) || !bring(&b, n.scale)) continue;
        Value *far = ir_un(&b, OP_NOT, kernel_near_is(&b, &n, n.row));
        far = ir_emit(&b, OP_WARPGROUP_ANY, &far, 1, NO_ATTRS, NULL);
        ir_set_name(far, "far");
        choose(&n, far);
    }
}

bool kernel_pass_near(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    take_one_fma(c, kernel_whole_rows(c));
    return kernel_grew(c, before);
}
