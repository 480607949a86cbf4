/* mask-branch: makes masks that are true for a whole tile cost one uniform branch.
 *
 *   %w = where %cond, %x, %y       ->   %w = if <%cond holds for every element> { yield %x }
 *                                            else { yield where %cond, %x, %y }
 *
 * It applies to selects in loops with products whose condition is a virtual tile: comparisons of index
 * tiles, joined by and / or. Each index tile is bounded by two scalars (arange by its ends, sums by sums,
 * products and quotients by constants). A comparison holds everywhere if the bounds say so. The loop stays
 * one loop, so that products can be in flight across the border between masked and unmasked steps. On GPUs
 * this pass replaces mask-peel for such loops.
 *
 * Requires: products chosen (mma-select). Keeps: everything. Does not handle: conditions that are held in
 * registers. */
#include "passes/kernel/kernel.h"

typedef struct Bounds {
    Value *lo, *hi;
} Bounds;

static bool bounds_of(Builder *b, Value *v, Bounds *out, int *steps)
{
    if (v->type->kind == TYPE_SCALAR) {
        out->lo = out->hi = v;
        return true;
    }
    if (!v->def || --*steps < 0) return false;
    Instr *d = v->def;
    DType t = v->type->dtype;
    Bounds x, y;
    int64_t c;
    if (d->op == OP_SPLAT) {
        out->lo = out->hi = ir_operand(d, 0);
        return true;
    }
    if (d->op == OP_ARANGE) {
        int64_t start = ir_attr_int(d, ATTR_START, 0);
        out->lo = ir_const_int(b, t, start);
        out->hi = ir_const_int(b, t, start + v->type->shape[0] - 1);
        return true;
    }
    if (op_has(d->op, OPF_WHOLE)) return bounds_of(b, ir_operand(d, 0), out, steps);
    if (d->op == OP_ADD || d->op == OP_SUB) {
        if (!bounds_of(b, ir_operand(d, 0), &x, steps) || !bounds_of(b, ir_operand(d, 1), &y, steps))
            return false;
        out->lo = ir_bin(b, d->op, x.lo, d->op == OP_ADD ? y.lo : y.hi);
        out->hi = ir_bin(b, d->op, x.hi, d->op == OP_ADD ? y.hi : y.lo);
        return true;
    }
    if (d->op == OP_MUL || d->op == OP_DIV) {
        if (!ir_is_const(ir_operand(d, 1), &c) || c < (d->op == OP_DIV) ||
            !bounds_of(b, ir_operand(d, 0), &x, steps))
            return false;
        out->lo = ir_bin(b, d->op, x.lo, ir_const_int(b, t, c));
        out->hi = ir_bin(b, d->op, x.hi, ir_const_int(b, t, c));
        return true;
    }
    if (d->op != OP_CAST) return false;
    DType from = ir_operand(d, 0)->type->dtype;
    if (!dtype_is_int(from) || dtype_bits(t) < 32 || dtype_bits(from) > dtype_bits(t)) return false;
    if (!dtype_is_signed(t) || !dtype_is_signed(from) || !bounds_of(b, ir_operand(d, 0), &x, steps))
        return false;
    out->lo = ir_cast(b, x.lo, t);
    out->hi = ir_cast(b, x.hi, t);
    return true;
}

/* A scalar that is true only if every element of the bool tile is true. NULL: there is no such scalar. */
static Value *everywhere(Builder *b, Value *v, int *steps)
{
    if (v->type->kind == TYPE_SCALAR) return v;
    if (!v->def || --*steps < 0) return NULL;
    Instr *d = v->def;
    Bounds x, y;
    if (d->op == OP_SPLAT) return ir_operand(d, 0);
    if (op_has(d->op, OPF_WHOLE)) return everywhere(b, ir_operand(d, 0), steps);
    if (d->op == OP_AND || d->op == OP_OR) {
        Value *p = everywhere(b, ir_operand(d, 0), steps),
              *q = p ? everywhere(b, ir_operand(d, 1), steps) : NULL;
        return q ? ir_bin(b, d->op, p, q) : NULL;
    }
    if (op_family(d->op) != OPS_COMPARE || d->op == OP_EQ || d->op == OP_NE) return NULL;
    DType t = ir_operand(d, 0)->type->dtype;
    if (!dtype_is_signed(t) || dtype_bits(t) < 32) return NULL;
    if (!bounds_of(b, ir_operand(d, 0), &x, steps) || !bounds_of(b, ir_operand(d, 1), &y, steps)) return NULL;
    bool less = d->op == OP_LT || d->op == OP_LE;
    return ir_bin(b, d->op, less ? x.hi : x.lo, less ? y.lo : y.hi);
}

static bool holds_product(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next)
        if (i->op == OP_MMA_SYNC || op_is_wgmma(i->op) || i->op == OP_MMA) return true;
    return false;
}

typedef struct MaskBranches {
    Session *s;
    InstrList selects;
} MaskBranches;

static void find(void *user, Instr *i)
{
    MaskBranches *c = user;
    const Instr *loop = i->block->parent;
    if (i->op == OP_WHERE && ir_result(i)->type->kind == TYPE_TILE && loop && loop->op == OP_FOR &&
        holds_product(i->block) && kernel_is_cheap(ir_operand(i, 0)) && !kernel_is_cheap(ir_result(i)))
        vec_push(&c->s->arena, &c->selects, i);
}

static void branch_around_masks(Session *s, Func *f)
{
    MaskBranches c = { .s = s };
    ir_walk(f->body, find, &c);
    for (size_t k = 0; k < c.selects.len; k++) {
        Instr *w = c.selects.data[k];
        Builder b = ir_before(w);
        /* The most operations to examine; each use of a value counts, because each use is computed again. */
        int steps = 64;
        Value *all = everywhere(&b, ir_operand(w, 0), &steps);
        if (!all) continue;
        const Type *t = ir_result(w)->type;
        Instr *cond = ir_build(&b, OP_IF, &all, 1, NO_ATTRS, &t, 1);
        ir_replace(ir_result(w), ir_result(cond));
        Builder in = ir_at_end(cond->blocks[0]);
        Value *x = ir_operand(w, 1);
        ir_build(&in, OP_YIELD, &x, 1, NO_ATTRS, NULL, 0);
        in = ir_at_end(cond->blocks[1]);
        ir_unlink(w);
        ir_place(&in, w);
        Value *r = ir_result(w);
        ir_build(&in, OP_YIELD, &r, 1, NO_ATTRS, NULL, 0);
    }
}

bool kernel_pass_mask_branch(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    branch_around_masks(c->s, c->f);
    return kernel_grew(c, before);
}
