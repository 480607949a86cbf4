/* rounded-integers: takes a float that is rounded, clamped and converted to a small integer from the low bits
 * of one sum.
 *
 *   %r = round %x; %c = min (max %r, 0), 15          %c = minnum (maxnum %x, 0), 15
 *   %q = cast %c : u8                          ->    %q = cast (bitcast (add %c, 12582912) : u32) : u8
 *
 * The sum with 1.5 * 2^23 rounds to a whole number, ties to even, and its last bits are those of the number,
 * as two's complement has them. Units that convert and round take eight cycles for a warp on NVIDIA's GPUs,
 * those that add take one. Bounds that are whole numbers may be applied before rounding. NaN, which becomes
 * 0, is replaced before the bounds.
 *
 * Requires: f32; integers of 8 or 16 bits, whose own bounds the conversion applies; bounds, if there are any,
 * that are whole numbers with 0 between them; no other use of what is rounded and clamped. Keeps: everything.
 */
#include "passes/kernel/kernel.h"
#include <math.h>

static const double MAGIC = 12582912; /* 1.5 * 2^23 */

typedef struct Rounded {
    Value *x; /* is rounded */
    double low, high;
} Rounded;

/* The whole number that all elements are. */
static bool is_whole(const Value *v, double *c) { return ir_is_const_float(v, c) && *c == floor(*c); }

static bool is_bounded(Op op) { return op == OP_MIN || op == OP_MAX || op == OP_CLAMP; }

/* Notes the bounds; false: they are not known, or a second pair. */
static bool take_bounds(const Instr *i, Rounded *r)
{
    double low = -INFINITY, high = INFINITY;
    if (i->op != OP_MIN && !is_whole(ir_operand(i, 1), &low)) return false;
    if (i->op != OP_MAX && !is_whole(ir_operand(i, i->op == OP_CLAMP ? 2 : 1), &high)) return false;
    if ((isfinite(low) && isfinite(r->low)) || (isfinite(high) && isfinite(r->high))) return false;
    if (isfinite(low)) r->low = low;
    if (isfinite(high)) r->high = high;
    return true;
}

static bool find(const Instr *cast, Rounded *r)
{
    const Type *to = ir_result(cast)->type;
    Value *v = ir_operand(cast, 0);
    if (to->kind != TYPE_TILE || v->type->dtype != DT_F32 || !dtype_is_int(to->dtype) ||
        dtype_bits(to->dtype) > 16)
        return false;
    int bits = dtype_bits(to->dtype) - dtype_is_signed(to->dtype);
    double most = ldexp(1, bits) - 1, least = dtype_is_signed(to->dtype) ? -most - 1 : 0;
    *r = (Rounded){ NULL, -INFINITY, INFINITY };
    for (; v->def && is_bounded(v->def->op); v = ir_operand(v->def, 0))
        if (ir_use_count(v) != 1 || !take_bounds(v->def, r)) return false;
    if (!v->def || v->def->op != OP_ROUND || ir_use_count(v) != 1) return false;
    r->x = ir_operand(v->def, 0);
    if (r->low < least) r->low = least; /* the conversion saturates */
    if (r->high > most) r->high = most;
    return r->low <= 0 && r->high >= 0; /* because NaN becomes 0 whatever the bounds are */
}

static Value *all(Builder *b, double c, const Type *t)
{ return ir_splat(b, ir_const_float(b, DT_F32, c), t->rank, t->shape); }

/* Erases what computed the value, as far as nobody reads it: what is left would hold registers by all counts.
 */
static void erase_unread(Value *v, const Value *last)
{
    while (v != last && !v->uses) {
        Instr *i = v->def;
        v = ir_operand(i, 0);
        ir_erase(i);
    }
}

/* Quotients of a row by its largest magnitude that need no bounds, unless the divisor is NaN or infinite:
 * then all of them are NaN or 0, and the divisor is no number. */
static bool is_within(const Rounded *r, ScaledRow *row)
{
    const Instr *d = r->x->def;
    if (!d || d->op != OP_DIV || !kernel_scaled_row(ir_operand(d, 0), ir_operand(d, 1), row)) return false;
    const double most = row->factor * (1 + 0x1p-22) - 0.5;
    return row->divisor->type->kind == TYPE_SCALAR && most < r->high && -most > r->low;
}

static Value *bounded(Builder *b, const Rounded *r)
{
    const Type *t = r->x->type;
    Value *x = r->x;
    ScaledRow row;
    if (is_within(r, &row)) {
        Builder behind = ir_after(row.divisor->def);
        Value *finite = ir_bin(&behind, OP_LT, row.divisor, ir_const_float(&behind, DT_F32, INFINITY));
        return ir_op(b, OP_WHERE, NULL, NO_ATTRS, ir_splat(b, finite, t->rank, t->shape), x, all(b, 0, t));
    }
    Value *low = all(b, r->low, t);
    if (r->low != 0) /* NaN becomes 0 */
        x = ir_op(b, OP_WHERE, NULL, NO_ATTRS, ir_bin(b, OP_EQ, x, x), x, all(b, 0, t));
    x = ir_bin(b, OP_MAXNUM, x, low);
    return ir_bin(b, OP_MINNUM, x, all(b, r->high, t));
}

static void visit(void *user, Instr *i)
{
    Session *s = user;
    Rounded r;
    if (i->op != OP_CAST || !find(i, &r)) return;
    Builder b = ir_before(i);
    const Type *t = r.x->type;
    Value *x = bounded(&b, &r);
    x = ir_bin(&b, OP_ADD, x, all(&b, MAGIC, t));
    x = ir_emit(&b, OP_BITCAST, &x, 1, NO_ATTRS, type_with_dtype(s, t, DT_U32));
    ir_replace(ir_result(i), ir_cast(&b, x, ir_result(i)->type->dtype));
    Value *clamped = ir_operand(i, 0);
    ir_erase(i);
    erase_unread(clamped, r.x);
}

bool kernel_pass_rounded_integers(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    ir_walk(c->f->body, visit, c->s);
    return kernel_grew(c, before);
}
