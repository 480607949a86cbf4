/* exp2: replaces exp by exp2, which GPUs and the CPU backend have as an instruction or a short polynomial,
 * and moves the factor that scores have in common out of the maximum over them.
 *
 *   for .. with (%m = -inf) {                        for .. with (%m = -inf) {
 *     %s = mul %qk, %scale                             %t = where %mask, %qk, -inf
 *     %s1 = where %mask, %s, -inf                      %r = mul (reduce_max %t), %scale      once a row
 *     %mn = max %m, reduce_max %s1           ->        %mn = max %m, %r
 *     %p = exp(%s1 - %mn)                              %p = exp2((%t * %scale - %mn) * log2 e)
 *     yield %mn                                        yield %mn
 *   }                                                }
 *
 * A factor c moves through max, min, reductions by them, where and shapes only if c > 0 is known: it is a
 * constant, a parameter whose range the launch promised (Param.lo > 0, a launch key), or arithmetic on
 * these that cannot underflow to 0. Rounding is monotonic, so max(fl(c*x)) = fl(c*max(x)) to the bit.
 * Minus infinities (masked positions) and NaN stay.
 *
 * The difference always comes first, and is rounded as the program rounds it. The form exp2(fma(x, log2 e,
 * -(m log2 e))) is an operation shorter, but m log2 e is rounded once, by up to |m| 2^-24; with scores of
 * 1e9 that is a factor of e^60. Where it is right, and worth it, passes/kernel/arithmetic/near.c takes it.
 *
 * Bound: exp2(fl(x * log2 e)) differs from exp(x) by a relative (1 + |x|) * 2^-22, for every x. A product
 * with log2 e that overflows has an exponential that overflows too.
 *
 * Requires: fold and licm before (factors are splats of scalars, defined outside of loops). Keeps:
 * everything else. Does not handle: f16 and bf16, where the product would lose what exp, computed in f32
 * there, keeps; f64, which has no faster exp2. */
#include "ir/analysis/factor.h"
#include "passes/pass.h"
#include <float.h>
#include <math.h>

static const double LOG2E = 1.44269504088896340736;
enum { MAX_DEPTH = 64, MAX_SEARCH = 400 };

typedef struct Pair {
    Value *old, *fresh;
} Pair;

typedef struct Exp2 {
    PassContext *c;
    Value *scale; /* the scalar factor that is being moved out */
    VEC(Pair) pairs;
    VEC(Value *) visited;
    const Value *noted; /* the factor whose unknown sign was already reported */
    int64_t turned, moved;
} Exp2;

/* --- the value divided by the scale ------------------------------------------------------------------ */

/* Operations that a positive factor passes, with the operands that carry it from `first` on. */
static bool transparent(Op op, int *first)
{
    bool extreme = op == OP_MAX || op == OP_MIN || op == OP_MAXNUM || op == OP_MINNUM ||
                   op == OP_REDUCE_MAX || op == OP_REDUCE_MIN;
    *first = op == OP_WHERE;
    return extreme || op == OP_WHERE || (op_has(op, OPF_MOVES) && op_info[op].n_operands == 1);
}

/* The first factor found on the way to `v`, or NULL. */
static Value *find_scale(Value *v, int *budget)
{
    int first;
    Value *c;
    if (!v->def || --*budget < 0) return NULL;
    if (factor_of(v->def, NULL, &c)) return c;
    if (!transparent(v->def->op, &first)) return NULL;
    for (int k = first; k < v->def->n_operands; k++)
        if ((c = find_scale(ir_operand(v->def, k), budget))) return c;
    return NULL;
}

static bool can_unscale(Exp2 *e, Value *v, int depth)
{
    double x;
    int first;
    for (size_t n = 0; n < e->visited.len; n++)
        if (e->visited.data[n] == v) return true; /* The condition is refuted elsewhere, or not at all. */
    vec_push(e->c->scratch, &e->visited, v);
    if (depth > MAX_DEPTH) return false;
    if (ir_is_const_float(v, &x)) return x == 0 || isinf(x);
    if (!v->def) return false;
    if (factor_of(v->def, e->scale, NULL)) return true;
    if (!transparent(v->def->op, &first)) return false;
    bool all_const = true; /* The scale may not be defined yet at that place. */
    for (int k = first; k < v->def->n_operands; k++) {
        if (!can_unscale(e, ir_operand(v->def, k), depth + 1)) return false;
        all_const &= ir_is_const_float(ir_operand(v->def, k), NULL);
    }
    return !all_const;
}

static Value *unscale(Exp2 *e, Value *v)
{
    int first;
    if (ir_is_const_float(v, NULL)) return v;
    for (size_t n = 0; n < e->pairs.len; n++)
        if (e->pairs.data[n].old == v) return e->pairs.data[n].fresh;
    Value *x = factor_of(v->def, e->scale, NULL), *ops[3];
    if (x) return x;
    Instr *i = v->def;
    transparent(i->op, &first);
    for (int k = 0; k < i->n_operands; k++)
        ops[k] = k < first ? ir_operand(i, k) : unscale(e, ir_operand(i, k));
    Builder b = ir_after(i);
    b.loc = i->loc;
    Value *u = ir_emit(&b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, v->type);
    vec_push(e->c->scratch, &e->pairs, ((Pair){ v, u }));
    return u;
}

/* --- the factor behind a value instead of before it -------------------------------------------------- */

static bool extremum(Op op) { return op == OP_REDUCE_MAX || op == OP_REDUCE_MIN; }

/* v, which is something times the scale, becomes the product of that and the scale, in its last step. */
static void scale_last(Exp2 *e, Value *v)
{
    if (factor_of(v->def, e->scale, NULL)) return;
    Value *u = unscale(e, v);
    Builder b = ir_after(u->def);
    b.loc = v->def->loc;
    ir_replace(
        v, ir_bin(&b, OP_MUL, u, ir_splat(&b, e->scale, is_tile(v) ? v->type->rank : 0, v->type->shape)));
}

/* The maxima from which `v` is computed, without those of earlier iterations. */
static void find_maxima(Exp2 *e, Value *v, ValueList *found, int *budget)
{
    int first;
    if (!v->def || --*budget < 0 || !transparent(v->def->op, &first)) return;
    if (extremum(v->def->op)) vec_push(e->c->scratch, found, v);
    else
        for (int k = first; k < v->def->n_operands; k++) find_maxima(e, ir_operand(v->def, k), found, budget);
}

/* --- the exponentials -------------------------------------------------------------------------------- */

static const char *name_of(const Value *v) { return v->name ? v->name : "a factor"; }

/* A factor that all of `v` has and that may move; NULL: there is none, or its sign is not known. */
static Value *movable(Exp2 *e, Instr *exp, Value *v)
{
    const Func *f = exp->block->func;
    int budget = MAX_SEARCH;
    double c;
    e->scale = find_scale(v, &budget);
    e->visited.len = e->pairs.len = 0;
    if (!e->scale || !can_unscale(e, v, 0)) return NULL;
    if (!factor_is_positive(f, e->scale)) {
        Value *scale = e->scale;
        if (!scale->def && e->noted != scale)
            diag_perf(e->c->session, exp->loc,
                "exp: the sign of `%s` is not known, so its product stays beside the maximum; a launch key "
                "`%s > 0` would leave one fma",
                name_of(scale), name_of(scale));
        e->noted = scale;
        return NULL;
    }
    if (ir_is_const_float(e->scale, &c)) { /* Make one constant for all uses, before all loops. */
        Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = exp->loc };
        e->scale = ir_const_float(&b, DT_F32, c);
    }
    return e->scale;
}

/* In exp(a - m), moves a factor of a behind the operations that choose among its elements, and out of the
 * maxima in m. */
static void move_factor(Exp2 *e, Instr *exp, const Instr *sub)
{
    ValueList maxima = { 0 };
    int budget = MAX_SEARCH;
    if (!movable(e, exp, ir_operand(sub, 0))) return;
    find_maxima(e, ir_operand(sub, 1), &maxima, &budget);
    for (size_t k = 0; k < maxima.len; k++) {
        size_t known = e->visited.len;
        if (!can_unscale(e, maxima.data[k], 0)) {
            e->visited.len = known;
            continue;
        }
        scale_last(e, maxima.data[k]);
        e->moved++;
    }
    scale_last(e, ir_operand(sub, 0));
}

/* Computes log2 e times the argument of exp, in as few operations as possible. */
static Value *exponent(Exp2 *e, Instr *exp)
{
    Value *x = ir_operand(exp, 0), *y, *c;
    double k = 1;
    if (x->def && x->def->op == OP_SUB) move_factor(e, exp, x->def);
    Builder b = ir_before(exp);
    if (x->def && (y = factor_of(x->def, NULL, &c)) && ir_is_const_float(c, &k) && fabs(k) < FLT_MAX / 2)
        x = y;
    else if (x->def && x->def->op == OP_NEG) {
        x = ir_operand(x->def, 0);
        k = -1;
    } else k = 1;
    return ir_bin(&b, OP_MUL, x, build_float(&b, x->type, (float)(k * LOG2E)));
}

typedef struct Found {
    Arena *arena;
    VEC(Instr *) exps;
} Found;

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
    pass_count(c, "factors moved out of maxima", e.moved);
    return e.turned > 0;
}

bool pass_exp2(PassContext *c, Module *m) { return pass_each_func(c, m, exp2_func); }
