/* exp2.c: exp becomes exp2, which GPUs and the CPU backend have as an instruction or a short polynomial, and the factors that
 * stand before it become one: of `exp(x * scale - max)` one fma and one exp2 an element remain.
 *
 *     for .. with (%m = -inf) {                        for .. with (%u = -inf) {
 *       %s = mul %qk, %scale                             %t = where %mask, %qk, -inf
 *       %s1 = where %mask, %s, -inf                      %un = max %u, reduce_max %t           (max of unscaled scores)
 *       %mn = max %m, reduce_max %s1           ->        %k = mul %un, -(scale * log2 e)       (one a row)
 *       %p = exp(%s1 - %mn)                              %p = exp2(fma(%t, scale * log2 e, %k))
 *       yield %mn                                        yield %un
 *     }                                                }
 *
 * A factor c moves through max, min, reductions by them, where, shapes and loop-carried values only if c > 0 is known: a constant, a
 * parameter whose range the launch promised (Param.lo > 0: a launch key), or arithmetic on these that cannot underflow to 0. A carried
 * value that starts without the factor (an attention sink) starts divided by it.
 * Rounding is monotonic, so max(fl(c*x)) = fl(c*max(x)) to the bit: the carried maximum, if the program uses it elsewhere, is
 * given back exactly as c * u. Minus infinities (masked positions) stay; so do NaN.
 *
 * Bound: exp2(fl(x * log2 e)) differs from exp(x) by a relative (1 + |x|) * 2^-23; with the fma by (1 + |x| + |max|) * 2^-23. Scores beyond 2^127 / log2 e
 * in magnitude overflow in the product; finite masking constants of that size keep the form (a - b) * log2 e, which does not.
 *
 * f32 only: in f16 and bf16 the product would lose what exp, computed in f32 there, keeps; f64 has no faster exp2.
 *
 * Requires: fold and licm before (factors as splats of scalars, defined outside of loops). Keeps: everything. */
#include "passes/pass.h"
#include <float.h>
#include <math.h>

static const double LOG2E = 1.44269504088896340736;
enum { MAX_DEPTH = 64, MAX_SEARCH = 400 };

typedef struct Pair { Value *old, *fresh; } Pair;
typedef struct Carried { Block *body; int k, fresh; } Carried;      /* carried value `k` has its unscaled twin `fresh` */

typedef struct Exp2 {
    PassContext *c;
    Value *scale;               /* the scalar factor on its way out */
    VEC(Pair) pairs;
    VEC(Carried) carried;
    VEC(Value *) visited;
    const Value *noted;         /* the factor whose unknown sign was reported */
    int64_t turned, fused, moved;
} Exp2;

/* --- what is known of scalars ------------------------------------------------------------------------------------------------ */

static Value *uniform(Value *v)
{
    while (is_tile(v) && v->def && (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST || v->def->op == OP_RESHAPE)) v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

/* A lower bound of a float scalar, after rounding; -inf when nothing is known. *hi likewise. */
static double float_range(const Func *f, Value *v, double *hi, int depth)
{
    double a, b, ah, bh;
    *hi = INFINITY;
    if (ir_is_const_float(v, &a)) { *hi = a; return a; }
    if (depth > 8) return -INFINITY;
    if (!v->def) {
        if (v->block->parent || v->block != f->body || f->params[v->index].kind != PARAM_SCALAR) return -INFINITY;
        *hi = f->params[v->index].hi;
        return f->params[v->index].lo;
    }
    if (v->type->dtype != DT_F32) return -INFINITY;
    switch ((int)v->def->op) {
    case OP_MUL: case OP_DIV:
        a = float_range(f, ir_operand(v->def, 0), &ah, depth + 1);
        b = float_range(f, ir_operand(v->def, 1), &bh, depth + 1);
        if (!(a > 0 && b > 0)) return -INFINITY;
        *hi = v->def->op == OP_MUL ? ah * bh : ah / b;
        return (float)(v->def->op == OP_MUL ? a * b : a / bh);
    case OP_RSQRT: case OP_SQRT:
        a = float_range(f, ir_operand(v->def, 0), &ah, depth + 1);
        if (!(a > 0)) return -INFINITY;
        *hi = v->def->op == OP_SQRT ? sqrt(ah) : 1 / sqrt(a);
        return v->def->op == OP_SQRT ? sqrt(a) * 0.99 : 0.99 / sqrt(ah);
    default: return -INFINITY;
    }
}

static bool positive(const Func *f, Value *v)
{
    double hi, lo = float_range(f, v, &hi, 0);
    return lo > 0 && hi >= lo;
}

static bool same_scale(const Value *a, const Value *b)
{
    double x, y;
    return a == b || (ir_is_const_float(a, &x) && ir_is_const_float(b, &y) && x == y);
}

/* The other operand of a multiplication by the scalar `scale`; with scale NULL by any scalar, which is stored in *found. */
static Value *factor(const Instr *i, Value *scale, Value **found)
{
    if (i->op != OP_MUL) return NULL;
    for (int k = 1; k >= 0; k--) {
        Value *u = uniform(ir_operand(i, k));
        if (!u || (scale && !same_scale(u, scale))) continue;
        if (found) *found = u;
        return ir_operand(i, 1 - k);
    }
    return NULL;
}

/* Operations that a positive factor passes, with the operands that carry it from `first` on. */
static bool transparent(Op op, int *first)
{
    *first = 0;
    switch ((int)op) {
    case OP_WHERE: *first = 1; return true;
    case OP_MAX: case OP_MIN: case OP_MAXNUM: case OP_MINNUM: case OP_REDUCE_MAX: case OP_REDUCE_MIN:
    case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_SLICE: case OP_SPLAT:
        return true;
    default: return false;
    }
}

/* The first factor found on the way to `v`, or NULL. */
static Value *find_scale(Value *v, int *budget)
{
    int first;
    Value *c;
    if (!v->def || --*budget < 0) return NULL;
    if (factor(v->def, NULL, &c)) return c;
    if (!transparent(v->def->op, &first)) return NULL;
    for (int k = first; k < v->def->n_operands; k++)
        if ((c = find_scale(ir_operand(v->def, k), budget))) return c;
    return NULL;
}

/* A finite constant that the product with log2 e may push over the edge hides in `v` (a mask of -FLT_MAX). */
static bool hides_huge(Value *v, int depth)
{
    double x;
    int first;
    if (ir_is_const_float(v, &x)) return isfinite(x) && fabs(x) > FLT_MAX / 4;
    if (!v->def || depth > 8 || !transparent(v->def->op, &first)) return false;
    for (int k = first; k < v->def->n_operands; k++) if (hides_huge(ir_operand(v->def, k), depth + 1)) return true;
    return false;
}

/* --- the value divided by the scale ------------------------------------------------------------------------------------------- */

/* A loop's carried value, by argument or result; k < 0: it is neither. */
static Block *carried_of(Value *v, int *k)
{
    Instr *loop = v->def ? v->def : v->block->parent;
    *k = -1;
    if (!loop || loop->op != OP_FOR) return NULL;
    *k = v->def ? v->index : v->index - 1;
    return *k >= 0 ? loop->blocks[0] : NULL;
}

static bool can_unscale(Exp2 *e, Value *v, int depth);

/* The first value of a carried one: if the factor is not in it, it is divided, once before the loop. */
static bool divisible_init(Exp2 *e, Value *v, int depth)
{
    size_t known = e->visited.len;
    if (can_unscale(e, v, depth)) return true;
    e->visited.len = known;
    return !hides_huge(v, 0);
}

static bool divides_init(Exp2 *e, Value *v)
{
    double x;
    if (ir_is_const_float(v, &x) && (x == 0 || isinf(x))) return false;
    e->visited.len = 0;
    return !can_unscale(e, v, 0);
}

static bool can_unscale(Exp2 *e, Value *v, int depth)
{
    double x;
    int first, k;
    for (size_t n = 0; n < e->visited.len; n++) if (e->visited.data[n] == v) return true;      /* assumed; refuted elsewhere or not at all */
    vec_push(e->c->scratch, &e->visited, v);
    if (depth > MAX_DEPTH) return false;
    if (ir_is_const_float(v, &x)) return x == 0 || isinf(x);
    Block *body = carried_of(v, &k);
    if (body) {
        bool outside = ir_is_const_float(e->scale, NULL) || ir_defined_outside(e->scale, body);
        return outside && divisible_init(e, ir_operand(body->parent, k + 3), depth + 1) && can_unscale(e, ir_operand(ir_terminator(body), k), depth + 1);
    }
    if (!v->def) return false;
    if (factor(v->def, e->scale, NULL)) return true;
    if (!transparent(v->def->op, &first)) return false;
    bool all_const = true;      /* would name the scale where it may not be defined yet */
    for (k = first; k < v->def->n_operands; k++) {
        if (!can_unscale(e, ir_operand(v->def, k), depth + 1)) return false;
        all_const &= ir_is_const_float(ir_operand(v->def, k), NULL);
    }
    return !all_const;
}

static Value *unscale(Exp2 *e, Value *v);

static Value *unscale_carried(Exp2 *e, Block *body, int k, bool argument)
{
    int fresh = -1;
    for (size_t n = 0; n < e->carried.len; n++)
        if (e->carried.data[n].body == body && e->carried.data[n].k == k) fresh = e->carried.data[n].fresh;
    if (fresh < 0) {
        Value *init = ir_operand(body->parent, k + 3);
        Builder b = ir_before(body->parent);
        if (divides_init(e, init)) init = ir_bin(&b, OP_DIV, init, ir_splat(&b, e->scale, is_tile(init) ? init->type->rank : 0, init->type->shape));
        else init = unscale(e, init);
        fresh = body->parent->n_results;
        ir_add_carried(body->parent, init, NULL);
        vec_push(e->c->scratch, &e->carried, ((Carried){ body, k, fresh }));
        Value *next = unscale(e, ir_operand(ir_terminator(body), k));
        ir_set_operand(ir_terminator(body), fresh, next);
    }
    return argument ? body->args[fresh + 1] : &body->parent->results[fresh];
}

static Value *unscale(Exp2 *e, Value *v)
{
    int first, k;
    if (ir_is_const_float(v, NULL)) return v;
    for (size_t n = 0; n < e->pairs.len; n++) if (e->pairs.data[n].old == v) return e->pairs.data[n].fresh;
    Block *body = carried_of(v, &k);
    if (body) return unscale_carried(e, body, k, !v->def);
    Value *x = factor(v->def, e->scale, NULL), *ops[3];
    if (x) return x;
    Instr *i = v->def;
    transparent(i->op, &first);
    for (k = 0; k < i->n_operands; k++) ops[k] = k < first ? ir_operand(i, k) : unscale(e, ir_operand(i, k));
    Builder b = ir_after(i);
    b.loc = i->loc;
    Value *u = ir_emit(&b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, v->type);
    vec_push(e->c->scratch, &e->pairs, ((Pair){ v, u }));
    return u;
}

/* What else used the scaled values gets the unscaled ones times the scale; what nobody uses is left to dce. */
static void give_back(Exp2 *e, Value *old, Value *fresh, Builder b)
{
    if (!old->uses) return;
    Value *c = ir_splat(&b, e->scale, old->type->kind == TYPE_TILE ? old->type->rank : 0, old->type->shape);
    ir_replace(old, ir_bin(&b, OP_MUL, fresh, c));
}

static void give_all_back(Exp2 *e)
{
    for (size_t n = 0; n < e->carried.len; n++) {
        Carried *x = &e->carried.data[n];
        Builder start = { .module = x->body->func->module, .block = x->body, .before = x->body->first, .loc = x->body->parent->loc };
        give_back(e, x->body->args[x->k + 1], x->body->args[x->fresh + 1], start);
        give_back(e, &x->body->parent->results[x->k], &x->body->parent->results[x->fresh], ir_after(x->body->parent));
    }
    for (size_t n = 0; n < e->pairs.len; n++) give_back(e, e->pairs.data[n].old, e->pairs.data[n].fresh, ir_after(e->pairs.data[n].fresh->def));
}

/* --- the exponentials ------------------------------------------------------------------------------------------------------------ */

static Value *splat_like(Builder *b, Value *scalar, const Type *t)
{
    return ir_splat(b, scalar, t->kind == TYPE_TILE ? t->rank : 0, t->shape);
}

/* The scalar scale * log2 e; a scale of NULL counts as 1. */
static Value *to_log2(Builder *b, Value *scale, double sign)
{
    double c;
    if (!scale) return ir_const_float(b, DT_F32, (float)(sign * LOG2E));
    if (ir_is_const_float(scale, &c)) return ir_const_float(b, DT_F32, (float)(sign * c * LOG2E));
    return ir_bin(b, OP_MUL, scale, ir_const_float(b, DT_F32, (float)(sign * LOG2E)));
}

static Value *fused(Builder *b, Value *a, Value *m, Value *scale)
{
    Value *c = splat_like(b, to_log2(b, scale, 1), a->type), *n = splat_like(b, to_log2(b, scale, -1), m->type);
    return ir_op(b, OP_FMA, NULL, NO_ATTRS, a, c, ir_bin(b, OP_MUL, m, n));
}

/* Repeated along an axis or everywhere: its product with a constant is cheap. */
static bool repeats(const Value *v) { return v->def && (v->def->op == OP_BROADCAST || v->def->op == OP_SPLAT); }

static const char *name_of(const Value *v) { return v->name ? v->name : "a factor"; }

/* exp(a - m), both scaled by one factor: moves it out. NULL: there is none, or its sign is not known. */
static Value *try_scaled(Exp2 *e, Instr *exp, Value *a, Value *m)
{
    const Func *f = exp->block->func;
    int budget = MAX_SEARCH;
    Value *scale = find_scale(a, &budget);
    if (!scale) scale = find_scale(m, &budget);
    if (!scale || ir_is_const(scale, NULL)) return NULL;
    e->scale = scale;
    e->visited.len = e->pairs.len = e->carried.len = 0;
    if (!can_unscale(e, a, 0) || !can_unscale(e, m, 0)) return NULL;
    if (!positive(f, scale)) {
        if (!scale->def && e->noted != scale) diag_perf(e->c->session, exp->loc, "exp: the sign of '%s' is not known, so its product stays beside the maximum; a launch key '%s > 0' would leave one fma", name_of(scale), name_of(scale));
        e->noted = scale;
        return NULL;
    }
    double c;
    if (ir_is_const_float(scale, &c)) {         /* one constant for all uses, before all loops */
        Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = exp->loc };
        e->scale = ir_const_float(&b, DT_F32, c);
    }
    Instr *sub = ir_operand(exp, 0)->def;
    Value *ua = unscale(e, ir_operand(sub, 0)), *um = unscale(e, ir_operand(sub, 1));
    Builder b = ir_before(exp);
    Value *y = fused(&b, ua, um, e->scale);
    give_all_back(e);
    e->moved++;
    e->fused++;
    return y;
}

/* log2 e times the argument of exp, in as few operations as can be. */
static Value *exponent(Exp2 *e, Instr *exp)
{
    Value *x = ir_operand(exp, 0), *y, *c;
    Builder b = ir_before(exp);
    if (x->def && x->def->op == OP_SUB) {
        Value *a = ir_operand(x->def, 0), *m = ir_operand(x->def, 1);
        if ((y = try_scaled(e, exp, a, m))) return y;
        if ((repeats(m) || !is_tile(m)) && !hides_huge(a, 0) && !hides_huge(m, 0)) { e->fused++; return fused(&b, a, m, NULL); }
    }
    if (x->def && (y = factor(x->def, NULL, &c)))
        return ir_bin(&b, OP_MUL, y, splat_like(&b, to_log2(&b, c, 1), y->type));
    if (x->def && x->def->op == OP_NEG) return ir_bin(&b, OP_MUL, ir_operand(x->def, 0), splat_like(&b, to_log2(&b, NULL, -1), x->type));
    return ir_bin(&b, OP_MUL, x, splat_like(&b, to_log2(&b, NULL, 1), x->type));
}

typedef struct Found { Arena *arena; VEC(Instr *) exps; } Found;

static void collect(void *user, Instr *i)
{
    Found *f = user;
    if (i->op == OP_EXP && i->results[0].type->dtype == DT_F32) vec_push(f->arena, &f->exps, i);
}

static bool exp2_func(PassContext *c, Func *f)
{
    Found found = { c->scratch };
    Exp2 e = { .c = c };
    ir_walk(f->body, collect, &found);
    for (size_t n = 0; n < found.exps.len; n++) {
        Instr *i = found.exps.data[n];
        Value *y = exponent(&e, i);
        Builder b = ir_before(i);
        replace_value(&i->results[0], ir_emit(&b, OP_EXP2, &y, 1, (Attrs){ i->attrs, i->n_attrs }, NULL));
        e.turned++;
    }
    pass_count(c, "exp turned into exp2", e.turned);
    pass_count(c, "differences fused into one fma", e.fused);
    pass_count(c, "factors moved through max", e.moved);
    return e.turned > 0;
}

bool pass_exp2(PassContext *c, Module *m) { return pass_each_func(c, m, exp2_func); }
