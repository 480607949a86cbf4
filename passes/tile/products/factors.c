/* factors: applies the factors of products where this takes less work.
 *
 * Kernels often apply the scales of fp8 and int8 operands in each step. Then the product of each step is a
 * sum of its own, and each of its elements is multiplied by each scale.
 *
 * 1. Factors that do not change in a loop multiply the loop's sum behind it:
 *
 *   %n = for %k .. with (%s = 0) {                       %n = for %k .. with (%s = 0) {
 *     %p = mma %a, %b, 0 : f32[128, 256]
 *     %q = mul %p, %scale                       ->         %x = mma %a, %b, %s : f32[128, 256]
 *     %x = add %s, %q                                      yield %x
 *     yield %x                                           }
 *   }                                                    %y = mul %n, %scale
 *
 * Loads that only the factors need move with them, so that no register holds them in the loop. If the loop
 * does not run, a factor counts as 1, so that an infinite one does not change the sum, which is zero. This
 * test is left out if constant bounds show that the loop runs.
 *
 * 2. A factor that is the same for all elements of a row, a column or the tile is multiplied with the next
 * one, if that is so for the same elements:
 *
 *   %q = mul %p, (broadcast %rows : f32[128, 128])       %r = mul %rows, (splat %block) : f32[128, 1]
 *   %x = mul %q, (splat %block : f32[128, 128])   ->     %x = mul %p, (broadcast %r : f32[128, 128])
 *
 * Bound: of the first, that of `mma` for the sum of all steps, times the factors, and a rounding for each
 * factor, as in each step before; infinities and NaN of factors and operands may come out as each other. In
 * the second form, as many roundings as before, unless the product of the factors leaves the range of f32.
 *
 * Requires: licm, so that what is loaded for factors stands before the loop. For the first form: a sum that
 * begins at zero and has no other use in the loop; operands of f16 or fp8, whose sums stay finite in f32.
 * Does not handle: bf16 and f32, whose sums may overflow where scaled ones do not; `fast_accum`, with which
 * the sum of all steps would be less exact than that of one; factors that are part of an operand. */
#include "passes/pass.h"

enum { MAX_FACTORS = 4 };

/* --- 1: factors behind the loop --------------------------------------------------------------------- */

typedef struct Scaled {
    Value *factor[MAX_FACTORS]; /* in the order in which they multiply */
    int n;
    Instr *first, *last; /* of the products that add to each other; the first begins at zero */
} Scaled;

static bool is_zero(const Value *v)
{
    const Instr *i = v->def;
    double r;
    return ir_is_const_float(i && i->op == OP_SPLAT ? ir_operand(i, 0) : v, &r) && r == 0;
}

static bool is_used_once(const Value *v) { return v->uses && !v->uses->next; }

static bool is_small(const Value *operand)
{
    DType d = operand->type->dtype;
    return d == DT_F16 || d == DT_F8E4M3 || d == DT_F8E5M2;
}

/* Repeats or renames elements of its operand. */
static bool is_shape(const Instr *d)
{ return d->op == OP_SPLAT || d->op == OP_BROADCAST || d->op == OP_RESHAPE; }

/* Whether each step has the same value: computed before the loop, or shaped anew from such a value. */
static bool is_invariant(const Value *v, const Block *body)
{
    const Instr *d = v->def;
    if (ir_defined_outside(v, body)) return true;
    return d && is_shape(d) && is_invariant(ir_operand(d, 0), body);
}

/* Whether the loop runs at all, of all that is known here; NULL: it does. */
static Value *runs(Builder *b, const Instr *loop)
{
    Value *from = ir_operand(loop, 0), *to = ir_operand(loop, 1);
    int64_t first, end;
    if (ir_is_const(from, &first) && ir_is_const(to, &end) && first < end) return NULL;
    return ir_bin(b, OP_LT, from, to);
}

/* The factor, or 1 where the loop does not run: its sum is zero then, and stays what it is whatever the
 * factor. */
static Value *guarded(Builder *b, Value *factor, Value *runs)
{
    if (!runs) return factor;
    Value *one = ir_const_float(b, DT_F32, 1);
    if (is_tile(factor)) {
        runs = ir_splat(b, runs, factor->type->rank, factor->type->shape);
        one = ir_splat(b, one, factor->type->rank, factor->type->shape);
    }
    return ir_op(b, OP_WHERE, NULL, NO_ATTRS, runs, factor, one);
}

/* The same behind the loop. What is repeated is tested before it is repeated. */
static Value *behind(PassContext *c, Builder *b, Value *v, Value *runs)
{
    ValueMap map;
    const Instr *d = v->def;
    if (!d || !is_shape(d)) return guarded(b, v, runs);
    value_map_init(&map, c->scratch);
    Value *of = ir_operand(d, 0);
    value_map_set(&map, of, behind(c, b, of, runs));
    return ir_result(ir_clone(b, d, &map));
}

static bool find_products(Instr *last, Scaled *s)
{
    s->first = s->last = last;
    for (Instr *i = last;; i = ir_operand(i, 2)->def) {
        if (!i || i->op != OP_MMA || ir_attr(i, ATTR_PARTS) || i->block != last->block ||
            !is_used_once(ir_result(i)))
            return false;
        if (!is_small(ir_operand(i, 0)) || !is_small(ir_operand(i, 1))) return false;
        if (ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_FAST_ACCUM) return false;
        s->first = i;
        if (is_zero(ir_operand(i, 2))) return true;
    }
}

/* Whether the value is a product times factors that do not change. */
static bool is_scaled(Value *v, const Block *body, Scaled *s)
{
    Value *factor[MAX_FACTORS];
    int n = 0;
    while (v->def && v->def->op == OP_MUL && v->def->block == body && is_used_once(v) && n < MAX_FACTORS) {
        Value *a = ir_operand(v->def, 0), *b = ir_operand(v->def, 1);
        if (!is_invariant(a, body) && !is_invariant(b, body)) return false;
        factor[n++] = is_invariant(b, body) ? b : a;
        v = is_invariant(b, body) ? a : b;
    }
    s->n = n;
    for (int k = 0; k < n; k++) s->factor[k] = factor[n - 1 - k];
    return n && v->def && v->def->block == body && find_products(v->def, s);
}

/* Whether the k-th value that the loop carries is only added to such a product. */
static Instr *scaled_sum(Instr *loop, int k, Scaled *s)
{
    Block *body = loop->blocks[0];
    Value *sum = body->args[k + 1], *next = ir_operand(ir_terminator(body), k);
    Instr *add = next->def;
    if (!is_tile(sum) || sum->type->dtype != DT_F32 || !is_zero(ir_operand(loop, 3 + k))) return NULL;
    if (!add || add->op != OP_ADD || add->block != body || !is_used_once(next) || !is_used_once(sum))
        return NULL;
    int side = ir_operand(add, 0) == sum ? 0 : ir_operand(add, 1) == sum ? 1 : -1;
    return side >= 0 && is_scaled(ir_operand(add, 1 - side), body, s) ? add : NULL;
}

/* A choice that `guarded` made. */
static bool is_guard(const Instr *d, const Value *runs)
{
    if (!runs || d->op != OP_WHERE) return false;
    const Instr *test = ir_operand(d, 0)->def;
    return ir_operand(d, 0) == runs || (test && test->op == OP_SPLAT && ir_operand(test, 0) == runs);
}

/* Loads a factor where it is needed now, so that no register holds it in the loop. */
static void sink(Value *v, Instr *user, const Value *runs)
{
    Instr *d = v->def;
    if (!d || d->block != user->block || !is_used_once(v)) return;
    if (!is_shape(d) && !is_guard(d, runs) && !is_constant_read(d)) return;
    Builder b = ir_before(user);
    ir_unlink(d);
    ir_place(&b, d);
    for (int k = 0; k < d->n_operands; k++) sink(ir_operand(d, k), d, runs);
}

/* What a factor is made of in front of the loop. */
static Value *in_front(Value *v, const Block *body)
{
    while (!ir_defined_outside(v, body)) v = ir_operand(v->def, 0);
    return v;
}

/* Erases what only shaped a factor in front of the loop, so that it does not count as a use. */
static void erase_shapes(Value *v)
{
    while (v->def && v->def->block && is_shape(v->def) && !ir_is_used(v->def)) {
        Instr *d = v->def;
        v = ir_operand(d, 0);
        ir_erase(d);
    }
}

static void move_behind(PassContext *c, Instr *loop, int k, Instr *add, const Scaled *s)
{
    Block *body = loop->blocks[0];
    Value *sum = body->args[k + 1], *result = &loop->results[k], *scaled = result;
    Builder b = ir_after(loop);
    b.loc = add->loc;
    Instr *first = NULL;
    Value *test = runs(&b, loop), *outer[MAX_FACTORS];
    for (int f = 0; f < s->n; f++) {
        outer[f] = in_front(s->factor[f], body);
        scaled = ir_bin(&b, OP_MUL, scaled, behind(c, &b, s->factor[f], test));
        if (!first) first = scaled->def;
    }
    ir_replace(result, scaled);
    ir_set_operand(first, 0, result);
    ir_set_operand(s->first, 2, sum);
    ir_set_operand(ir_terminator(body), k, ir_result(s->last));
    ir_erase(add);
    ir_sweep(body); /* what multiplied must not count as a use */
    for (int f = 0; f < s->n; f++) erase_shapes(outer[f]);
    for (Instr *i = first; i; i = i == scaled->def ? NULL : i->next)
        for (int f = 0; f < i->n_operands; f++)
            if (ir_operand(i, f) != result && i->op == OP_MUL) sink(ir_operand(i, f), i, test);
}

/* --- 2: factors that multiply each other ------------------------------------------------------------- */

/* The value that a factor repeats, a scalar where it is the same for all elements; NULL: each has its own. */
static Value *repeated(const Value *factor)
{
    const Instr *d = factor->def;
    if (!d || (d->op != OP_SPLAT && d->op != OP_BROADCAST)) return NULL;
    Value *of = ir_operand(d, 0);
    for (const Value *v = of; is_tile(v) && v->def; v = ir_operand(v->def, 0)) {
        if (v->def->op == OP_SPLAT) return ir_operand(v->def, 0);
        if (v->def->op != OP_BROADCAST && v->def->op != OP_RESHAPE) break;
    }
    return of;
}

/* The product of two values that factors repeat, which has the shape of the larger one; NULL: both differ
 * along axes of their own. */
static Value *join(Builder *b, Value *one, Value *other)
{
    if (!is_tile(one) && is_tile(other)) return join(b, other, one);
    if (is_tile(one) && !is_tile(other)) other = ir_splat(b, other, one->type->rank, one->type->shape);
    return one->type == other->type ? ir_bin(b, OP_MUL, one, other) : NULL;
}

static Value *repeat(Builder *b, Value *v, const Type *t)
{ return is_tile(v) ? ir_op(b, OP_BROADCAST, t, NO_ATTRS, v) : ir_splat(b, v, t->rank, t->shape); }

static bool is_product(const Value *v) { return v->def && v->def->op == OP_MMA; }

/* Of a multiplication of `v` by what is repeated: the factor's place among its operands; -1: none. */
static int factor_of(const Instr *mul)
{
    if (!mul || mul->op != OP_MUL || !is_tile(ir_result(mul))) return -1;
    return repeated(ir_operand(mul, 1)) ? 1 : repeated(ir_operand(mul, 0)) ? 0 : -1;
}

static bool join_factors(Instr *outer)
{
    int o = factor_of(outer);
    Instr *inner = o < 0 ? NULL : ir_operand(outer, 1 - o)->def;
    int i = factor_of(inner);
    if (i < 0 || !is_product(ir_operand(inner, 1 - i)) || !is_used_once(ir_result(inner))) return false;
    Builder b = ir_before(outer);
    b.loc = outer->loc;
    Value *both = join(&b, repeated(ir_operand(inner, i)), repeated(ir_operand(outer, o)));
    if (!both) return false;
    Value *product = ir_operand(inner, 1 - i);
    ir_set_operand(outer, o, repeat(&b, both, ir_result(outer)->type));
    replace_value(ir_result(inner), product);
    return true;
}

/* --- the pass ---------------------------------------------------------------------------------------- */

static void visit(void *joined, Instr *i) { *(int64_t *)joined += join_factors(i); }

static int64_t late_factors(PassContext *c, Instr *loop)
{
    int64_t n = 0;
    Scaled s;
    for (int k = 0; k < loop->n_results; k++) {
        Instr *add = scaled_sum(loop, k, &s);
        if (!add) continue;
        move_behind(c, loop, k, add, &s);
        n += s.n;
    }
    return n;
}

static bool factors_func(PassContext *c, Func *f)
{
    InstrList loops = { 0 };
    int64_t late = 0, joined = 0;
    ir_collect(c->scratch, f->body, OP_FOR, &loops);
    for (size_t k = 0; k < loops.len; k++) late += late_factors(c, loops.data[k]);
    ir_walk(f->body, visit, &joined);
    pass_count(c, "factors behind loops", late);
    pass_count(c, "factors multiplied with each other", joined);
    return late + joined > 0;
}

bool pass_factors(PassContext *c, Module *m) { return pass_each_func(c, m, factors_func); }
