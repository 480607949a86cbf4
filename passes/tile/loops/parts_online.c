/* parts_online.c: reductions of the pass parts that run in the same pass as a reduction that they depend on.
 *
 *   %m = reduce_max %x                           for each part, for each place of a part (%m, %s = -inf, 0):
 *   %e = exp (sub %x, broadcast %m)        ->      %n = max %m, %x;  %b = where(%n == -inf, 0, %n)
 *   %s = reduce_sum %e                             %s = %s * exp(%m - %b) + exp(%x - %b);  %m = %n
 *                                                %M = reduce_max %m;  %S = reduce_sum(%s * exp(%m - %M))
 *
 * Algebra: the summed value is written as a sum of powers exp(k (x - m) + c), times constants, with constants
 * k and c, where m is the maximum (k > 0) or minimum (k < 0) of the same x. With any b instead of m it
 * becomes exp(k (m - b)) times as large, so a sum about one b becomes the sum about another by one factor.
 * Each exponent is at most c, and each factor at most 1, so nothing overflows that does not as written.
 *
 * Infinities and NaN: while all of a place's elements are -inf, b is 0 and the powers are 0. If all elements
 * of the axis are, the last factor is exp(-inf + inf), a NaN, as written. A NaN or +inf makes m and the sum
 * NaN or +inf as written.
 *
 * Neighbouring elements that one access loads are joined before the carried values are, so that a factor is
 * computed once for them. */
#include "passes/tile/loops/parts.h"
#include <math.h>

/* --- which reductions ---------------------------------------------------------------------------------- */

/* FREE: does not depend on the lead. LINEAR: x * its operand + m * its result + c. POWER: a sum of
 * exp(rate * (operand - result) + constant) times constants. OTHER: depends on the lead in another way, or on
 * another reduction of its pass. */
typedef enum Kind { FREE, LINEAR, POWER, OTHER } Kind;
typedef struct Form {
    Kind kind;
    double x, m, c, rate;
} Form;
typedef struct Forms {
    const Parts *p;
    const Instr *lead;
    int pass; /* behind that of the lead */
    Form *of; /* by mark */
    bool *known;
} Forms;

static Form form_of(Forms *, const Value *);

static Form linear(double x, double m, double c) { return (Form){ LINEAR, x, m, c, 0 }; }
static bool constant(const Form *f) { return f->kind == LINEAR && f->x == 0 && f->m == 0 && isfinite(f->c); }
static bool depends(const Form *f) { return f->kind >= POWER || (f->kind == LINEAR && f->m != 0); }

static Form scaled(Form f, double by)
{
    if (f.kind == POWER) return f;
    return linear(f.x * by, f.m * by, f.c * by);
}

static bool sum_of_forms(const Form *a, const Form *b, double sign, Form *out)
{
    if (a->kind == LINEAR && b->kind == LINEAR)
        *out = linear(a->x + sign * b->x, a->m + sign * b->m, a->c + sign * b->c);
    else if (a->kind == POWER && b->kind == POWER && a->rate == b->rate) *out = *a;
    else return false;
    return true;
}

static bool product_of_forms(const Form *a, const Form *b, Form *out)
{
    if (constant(a) && b->kind != FREE) *out = scaled(*b, a->c);
    else if (constant(b) && a->kind != FREE) *out = scaled(*a, b->c);
    else if (a->kind == POWER && b->kind == POWER) *out = (Form){ .kind = POWER, .rate = a->rate + b->rate };
    else return false;
    return true;
}

static bool power(const Form *a, double log_base, Form *out)
{
    *out = (Form){ .kind = POWER, .rate = a->x * log_base };
    return a->kind == LINEAR && a->x == -a->m && a->x != 0 && isfinite(a->rate) && isfinite(a->c);
}

/* A zero is refused: where an infinite maximum makes NaN of powers, it hides them, and factors would not. */
static bool chosen(const Form *f, Form *out)
{
    *out = f[1];
    return f[0].kind == FREE && f[1].kind == POWER && f[2].kind == POWER && f[1].rate == f[2].rate;
}

static bool widens(const Instr *i)
{
    DType from = ir_operand(i, 0)->type->dtype, to = ir_result(i)->type->dtype;
    return dtype_is_float(from) && dtype_is_float(to) && dtype_bits(to) >= 32 &&
           dtype_bits(to) >= dtype_bits(from);
}

static bool form_of_sum(const Instr *i, const Form *f, Form *out)
{
    Form product;
    if (i->op == OP_ADD) return sum_of_forms(&f[0], &f[1], 1, out);
    if (i->op == OP_SUB) return sum_of_forms(&f[0], &f[1], -1, out);
    return i->op == OP_FMA && product_of_forms(&f[0], &f[1], &product) &&
           sum_of_forms(&product, &f[2], 1, out);
}

static bool form_by_rule(const Instr *i, const Form *f, Form *out)
{
    Op op = i->op;
    *out = f[0];
    if (op == OP_SPLAT || op == OP_BROADCAST) return true;
    if (op == OP_CAST) return widens(i);
    if (op == OP_WHERE) return chosen(f, out);
    if (!dtype_is_float(ir_result(i)->type->dtype)) return false;
    if (op == OP_EXP || op == OP_EXP2) return power(&f[0], op == OP_EXP ? 1 : log(2), out);
    if (op == OP_MUL) return product_of_forms(&f[0], &f[1], out);
    if (op == OP_NEG || op == OP_DIV) {
        double by = op == OP_NEG ? -1 : 1 / f[1].c;
        *out = scaled(f[0], by);
        return f[0].kind != FREE && (op == OP_NEG || (constant(&f[1]) && f[1].c != 0));
    }
    return form_of_sum(i, f, out);
}

/* A tile of the long axis must have the lead's shape; any other value must be a scalar, or a tile of that
 * rank that broadcasts to it. */
static bool fits(const Forms *x, const Type *t)
{
    const Type *whole = ir_operand(x->lead, 0)->type;
    if (t->kind != TYPE_TILE) return true;
    bool same = t->rank == whole->rank;
    for (int a = 0; same && a < t->rank; a++) same = t->shape[a] == whole->shape[a] || t->shape[a] == 1;
    return same;
}

static Form derive(Forms *x, const Instr *i)
{
    Form f[3] = { 0 }, out;
    bool any = false, fit = fits(x, ir_result(i)->type);
    for (int k = 0; k < i->n_operands; k++) {
        Form one = form_of(x, ir_operand(i, k));
        any |= depends(&one);
        fit &= fits(x, ir_operand(i, k)->type);
        if (k < 3) f[k] = one;
    }
    if (i->n_results == 1 && i->n_operands <= 3 && (fit || !any) && form_by_rule(i, f, &out)) return out;
    return (Form){ .kind = any ? OTHER : FREE };
}

static Form form_of(Forms *x, const Value *v)
{
    double c;
    const Instr *i = v->def;
    if (v == ir_operand(x->lead, 0)) return linear(1, 0, 0);
    if (v == ir_result(x->lead)) return linear(0, 1, 0);
    if (!i || !i->n_results) return (Form){ FREE };
    if (parts_reduces(x->p, i) && x->p->pass[i->mark] + 1 >= x->pass) return (Form){ OTHER };
    if (ir_is_const_float(v, &c)) return linear(0, 0, c);
    if (x->known[i->mark]) return x->of[i->mark];
    x->known[i->mark] = true;
    return x->of[i->mark] = derive(x, i);
}

static bool may_lead(const Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    return (i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN) && dtype_is_float(t->dtype) &&
           dtype_bits(t->dtype) >= 16 && (t->rank == 1 || !ir_attr_int(i, ATTR_DROP, 0));
}

/* Whether the operand of `i` is a sum of powers about the result of `lead`. */
static bool follows(Parts *p, const Instr *i, const Instr *lead, int pass, double *rate)
{
    size_t n = i->mark + 1;
    Forms x = { .p = p, .lead = lead, .pass = pass };
    x.of = arena_array(p->c->scratch, Form, n);
    x.known = arena_array(p->c->scratch, bool, n);
    Form f = form_of(&x, ir_operand(i, 0));
    *rate = f.rate;
    return f.kind == POWER && (lead->op == OP_REDUCE_MAX ? f.rate > 0 : f.rate < 0);
}

bool parts_online(Parts *p, const Instr *i, int pass)
{
    const Type *t = ir_operand(i, 0)->type;
    if (!pass || i->op != OP_REDUCE_SUM || !dtype_is_float(t->dtype) || dtype_bits(t->dtype) < 32)
        return false;
    for (Instr *l = i->prev; l; l = l->prev) {
        double rate;
        if (!parts_reduces(p, l) || p->pass[l->mark] != pass - 1 || !may_lead(l) || p->lead[l->mark])
            continue;
        if (ir_attr_int(l, ATTR_DROP, 0) != ir_attr_int(i, ATTR_DROP, 0) ||
            ir_operand(l, 0)->type->rank != t->rank || !follows(p, i, l, pass, &rate))
            continue;
        p->lead[i->mark] = l;
        p->rate[i->mark] = rate;
        return true;
    }
    return false;
}

/* --- groups -------------------------------------------------------------------------------------------- */

enum { ACCESS_BITS = 128 };

bool parts_leads(const Parts *p, const Instr *i)
{
    for (const Instr *x = i->next; x; x = x->next)
        if (x->mark && p->lead[x->mark] == i) return true;
    return false;
}

int64_t parts_group(const Parts *p, const Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    int64_t group = ACCESS_BITS / 8;
    if (op_family(i->op) != OPS_REDUCE) return 1;
    for (const Instr *x = p->f->body->first; x; x = x->next) {
        if (x->op != OP_LOAD || !parts_is_long(p, ir_result(x))) continue;
        int64_t wide = ACCESS_BITS / dtype_bits(ir_result(x)->type->dtype);
        if (wide < group) group = wide;
    }
    return parts_long_axis(p, t) == t->rank - 1 && t->rank < TILE_MAX_RANK && p->part % group == 0 ? group
                                                                                                   : 1;
}

/* `t` with its last axis divided into groups, which are a further axis of extent `last`; 0: no axis. */
static const Type *grouped(const Parts *p, const Type *t, int64_t group, int64_t last)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = t->shape[a];
    shape[t->rank - 1] /= group;
    shape[t->rank] = last;
    return type_tile(p->c->session, t->dtype, t->rank + (last > 0), shape);
}

const Type *parts_carried(const Parts *p, const Sum *s, const Type *x)
{ return s->group > 1 ? grouped(p, x, s->group, 1) : x; }

/* The groups of a part of the axis as a further axis. */
static Value *in_groups(Parts *p, Builder *b, const Sum *s, Value *x)
{
    if (s->group == 1) return x;
    return ir_op(b, OP_RESHAPE, grouped(p, x->type, s->group, s->group), NO_ATTRS, x);
}

/* Each group's elements joined. */
static Value *join_groups(Builder *b, const Sum *s, Value *x)
{
    if (s->group == 1) return x;
    return ir_op(b, s->old->op, NULL, ATTRS(a_int(ATTR_AXIS, x->type->rank - 1), a_int(ATTR_DROP, 0)), x);
}

/* --- one pass ------------------------------------------------------------------------------------------ */

static Value *exponential(Builder *b, double rate, Value *below, Value *above)
{
    Value *d = ir_bin(b, OP_SUB, below, above);
    if (rate != 1) d = ir_bin(b, OP_MUL, d, build_float(b, d->type, rate));
    return ir_un(b, OP_EXP, d);
}

/* A value for each element of a tile of type `x`, in groups. */
static Value *widened(Parts *p, Builder *b, const Sum *s, Value *v, const Type *x)
{
    const Type *t = v->type;
    if (t->kind != TYPE_TILE) return ir_splat(b, v, x->rank, x->shape);
    if (t->rank < x->rank) {
        if (t->shape[s->axis] > 1) v = in_groups(p, b, s, v);
        else v = ir_op(b, OP_RESHAPE, grouped(p, t, 1, 1), NO_ATTRS, v);
    }
    if (type_elements(v->type) == type_elements(x)) return v;
    return ir_op(b, OP_BROADCAST, type_with_dtype(p->c->session, x, t->dtype), NO_ATTRS, v);
}

/* The part of a value, with the lead's base for its result: a tile of type `x`, in groups. */
static Value *about_base(Parts *p, Builder *b, const Sum *lead, Value *v, const Type *x)
{
    Value *ops[3];
    Instr *i = v->def;
    if (v == ir_operand(lead->old, 0)) return lead->x;
    if (!i || p->pass[i->mark] + parts_reduces(p, i) <= p->pass[lead->old->mark])
        return widened(p, b, lead, parts_need(p, b, v), x);
    if (value_map_get(&p->map, v) != v) return value_map_get(&p->map, v);
    for (int k = 0; k < i->n_operands && i != lead->old; k++)
        ops[k] = about_base(p, b, lead, ir_operand(i, k), x);
    if (i == lead->old) ops[0] = widened(p, b, lead, lead->base, x);
    else if (i->op != OP_SPLAT && i->op != OP_BROADCAST)
        ops[0] = ir_emit(b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs },
            type_with_dtype(p->c->session, x, ir_result(i)->type->dtype));
    value_map_set(&p->map, v, ops[0]);
    return ops[0];
}

/* The base of exponents: the value so far, or 0 while that is infinite because no element was finite. */
static void rebase(Builder *b, Sum *s, Value *before, Value *now)
{
    Value *none = ir_bin(b, OP_EQ, now, parts_neutral(b, now->type, s->join));
    s->before = before;
    s->base = ir_op(b, OP_WHERE, NULL, NO_ATTRS, none, build_float(b, now->type, 0), now);
}

/* 0, 1, .. along one axis of a tile of the shape of `t`, times `by`. */
static Value *counted(Parts *p, Builder *b, const Type *t, int axis, int64_t by)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = a == axis ? t->shape[a] : 1;
    const Type *line = type_tile(p->c->session, DT_INDEX, 1, &t->shape[axis]);
    Value *l = ir_emit(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), line);
    if (by != 1) l = ir_bin(b, OP_MUL, l, build_int(b, line, by));
    l = ir_op(b, OP_RESHAPE, type_tile(p->c->session, DT_INDEX, t->rank, shape), NO_ATTRS, l);
    return ir_op(b, OP_BROADCAST, type_with_dtype(p->c->session, t, DT_INDEX), NO_ATTRS, l);
}

/* Which elements of the part are before the end of the axis, in groups; NULL: all. */
static Value *inside(Parts *p, Builder *b, const Sum *s, const Type *x)
{
    if (s->group == 1 || p->length % p->part == 0) return parts_inside(p, b, x, s->axis);
    Value *at = counted(p, b, x, x->rank - 2, s->group);
    at = ir_bin(b, OP_ADD, at, counted(p, b, x, x->rank - 1, 1));
    at = ir_bin(b, OP_ADD, at, ir_splat(b, p->at, x->rank, x->shape));
    return ir_bin(b, OP_LT, at, build_int(b, at->type, p->length));
}

/* The powers of this part about the lead's base, 0 behind the end of the axis. */
static Value *followed(Parts *p, Builder *b, const Sum *s, Value **carried)
{
    const Sum *l = s->lead;
    Value *x = about_base(p, b, l, ir_operand(s->old, 0), l->x->type), *in = inside(p, b, s, x->type);
    if (in) x = ir_op(b, OP_WHERE, NULL, NO_ATTRS, in, x, build_float(b, x->type, 0));
    Value *before = ir_cast(b, l->before, s->dtype), *base = ir_cast(b, l->base, s->dtype);
    *carried = ir_bin(b, OP_MUL, *carried, exponential(b, p->rate[s->old->mark], before, base));
    return x;
}

/* The operand in groups, neutral behind the end of the axis. */
static Value *operand(Parts *p, Builder *b, const Sum *s)
{
    if (s->group == 1) return parts_operand(p, b, s);
    Value *x = ir_cast(b, parts_need(p, b, ir_operand(s->old, 0)), s->dtype);
    x = in_groups(p, b, s, x);
    Value *in = inside(p, b, s, x->type);
    return in ? ir_op(b, OP_WHERE, NULL, NO_ATTRS, in, x, parts_neutral(b, x->type, s->join)) : x;
}

Value *parts_join(Parts *p, Builder *b, Sum *s, Value *carried)
{
    Value *before = carried;
    s->x = s->lead ? followed(p, b, s, &carried) : operand(p, b, s);
    Value *now = ir_bin(b, s->join, carried, join_groups(b, s, s->x));
    if (s->leads) rebase(b, s, before, now);
    return now;
}

static Value *reduced(Builder *b, const Sum *s, Value *v)
{ return ir_op(b, s->old->op, NULL, ATTRS(a_int(ATTR_AXIS, s->axis), a_int(ATTR_DROP, s->drop)), v); }

/* Carried values of groups without the axis of the group. */
static Value *ungrouped(Parts *p, Builder *b, const Sum *s, Value *v)
{
    const Type *t = v->type;
    return s->group == 1
               ? v
               : ir_op(b, OP_RESHAPE, type_tile(p->c->session, t->dtype, t->rank - 1, t->shape), NO_ATTRS, v);
}

Value *parts_finish(Parts *p, Builder *b, const Sum *s, Value *carried, Value *lead)
{
    carried = ungrouped(p, b, s, carried);
    if (s->lead) {
        lead = ungrouped(p, b, s, lead);
        Value *all = s->lead->total;
        all = all->type->kind == TYPE_TILE ? ir_op(b, OP_BROADCAST, lead->type, NO_ATTRS, all)
                                           : ir_splat(b, all, lead->type->rank, lead->type->shape);
        double rate = p->rate[s->old->mark];
        Value *f = exponential(b, rate, ir_cast(b, lead, s->dtype), ir_cast(b, all, s->dtype));
        carried = ir_bin(b, OP_MUL, carried, f);
    }
    return reduced(b, s, carried);
}
