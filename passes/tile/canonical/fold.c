/* fold: computes constants, applies exact identities, and does work on equal elements once.
 *
 *   %c = add %k3, %k4                      const 7
 *   %s = splat %a ; %t = splat %b          %u = add %a, %b        one addition, not a tile of them
 *   %u = add %s, %t                 ->     splat %u
 *   %s = broadcast %x : f32[64, 32]        %u = exp %x : f32[64, 1]
 *   %u = exp %s                            broadcast %u
 *   for %i = %0 to %1 { .. }               its body, once
 *
 * Every rule is exact to the bit, NaN payloads apart: x + 0.0 stays (it turns -0 into +0), x * 0.0 stays,
 * and floats are not reassociated. Integers wrap, so they are reassociated freely. Constants go to the
 * right of commutative operations; x - 3 becomes x + -3.
 *
 * Requires: nothing. Keeps: everything. Does not handle: what needs ranges (divisibility.c), or constants
 * from the launch (specialize.c). */
#include "ir/interp/scalar.h"
#include "passes/pass.h"
#include <math.h>

enum { MAX_ROUNDS = 16 };

typedef struct Fold {
    PassContext *c;
    int64_t constants, identities, shrunk, flattened;
} Fold;

/* --- looking at values ------------------------------------------------------------------------------- */

/* The scalar that every element of `v` equals, or NULL. */
static Value *uniform(Value *v)
{
    while (is_tile(v)) {
        if (!v->def || !op_has(v->def->op, OPF_MOVES) || v->def->n_operands != 1) return NULL;
        v = ir_operand(v->def, 0);
    }
    return type_is_value(v->type) ? v : NULL;
}

static bool constant(const Value *v, Scalar *out)
{ return dtype_is_float(v->type->dtype) ? ir_is_const_float(v, &out->f) : ir_is_const(v, &out->i); }

static bool is_int_const(const Value *v, int64_t want)
{
    int64_t x;
    return !dtype_is_float(v->type->dtype) && ir_is_const(v, &x) && x == want;
}

static bool is_float_const(const Value *v, double want)
{
    double x;
    return dtype_is_float(v->type->dtype) && ir_is_const_float(v, &x) && x == want &&
           signbit(x) == signbit(want);
}

static bool is_one(const Value *v) { return is_int_const(v, 1) || is_float_const(v, 1.0); }

static Value *build_scalar(Builder *b, const Type *t, Scalar v)
{ return dtype_is_float(t->dtype) ? build_float(b, t, v.f) : build_int(b, t, v.i); }

static const Instr *def_of(const Value *v, Op op) { return v->def && v->def->op == op ? v->def : NULL; }

/* --- element-wise operations on constants, equal elements, broadcasts -------------------------------- */

static bool evaluate(const Instr *i, Scalar *out)
{
    Scalar in[3];
    if (i->n_operands < 1 || i->n_operands > 3) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!constant(ir_operand(i, k), &in[k])) return false;
    DType d = ir_operand(i, i->op == OP_WHERE ? 1 : 0)->type->dtype, to = i->results[0].type->dtype;
    if (i->op == OP_CAST) {
        *out = scalar_cast(to, d, in[0]);
        return true;
    }
    if (i->op == OP_BITCAST) {
        *out = scalar_bitcast(to, d, in[0]);
        return true;
    }
    return scalar_op(i->op, d, in, out);
}

static Value *fold_constant(Fold *f, Builder *b, Instr *i)
{
    Scalar v;
    if (!(op_info[i->op].flags & OPF_ELEM) || i->n_results != 1 || !evaluate(i, &v)) return NULL;
    f->constants++;
    return build_scalar(b, i->results[0].type, v);
}

/* The tile type of which the operands are broadcasts (others may be uniform), or NULL. */
static const Type *common_source(const Instr *i)
{
    const Type *t = NULL;
    for (int k = 0; k < i->n_operands; k++) {
        const Instr *d = def_of(ir_operand(i, k), OP_BROADCAST);
        if (!d) {
            if (!uniform(ir_operand(i, k))) return NULL;
            continue;
        }
        const Type *from = ir_operand(d, 0)->type;
        if (t && !type_same_shape(t, from)) return NULL;
        t = from;
    }
    return t;
}

/* Computes element-wise operations on tiles with repeated elements on the scalar, or on the tile before the
 * broadcast. */
static Value *fold_repeated(Fold *f, Builder *b, Instr *i)
{
    Value *ops[3];
    if (!(op_info[i->op].flags & OPF_ELEM) || !is_tile(&i->results[0]) || i->n_operands > 3) return NULL;
    bool all_uniform = true;
    for (int k = 0; k < i->n_operands; k++) all_uniform &= uniform(ir_operand(i, k)) != NULL;
    const Type *small = all_uniform ? NULL : common_source(i), *result = i->results[0].type;
    if (!all_uniform && !small) return NULL;
    int rank = small ? small->rank : 0;
    const int64_t *shape = small ? small->shape : NULL;
    for (int k = 0; k < i->n_operands; k++) {
        const Instr *d = small ? def_of(ir_operand(i, k), OP_BROADCAST) : NULL;
        ops[k] = d ? ir_operand(d, 0) : ir_splat(b, uniform(ir_operand(i, k)), rank, shape);
    }
    const Type *t = type_value(f->c->session, result->dtype, rank, shape);
    Value *v = ir_emit(b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, t);
    f->shrunk++;
    return small ? ir_op(b, OP_BROADCAST, result, NO_ATTRS, v) : ir_splat(b, v, result->rank, result->shape);
}

/* --- shape ------------------------------------------------------------------------------------------- */

static Value *fold_shape(Fold *f, Builder *b, Instr *i)
{
    if (i->op != OP_BROADCAST && i->op != OP_RESHAPE && i->op != OP_SLICE && i->op != OP_PERMUTE &&
        i->op != OP_CONCAT)
        return NULL;
    Value *x = ir_operand(i, 0);
    const Type *t = i->results[0].type;
    if (i->op == OP_CONCAT) return i->n_operands == 1 ? x : NULL;
    Value *u = uniform(x);
    if (u && !(i->op == OP_RESHAPE && x == u))
        return t->kind == TYPE_TILE ? ir_splat(b, u, t->rank, t->shape) : u;
    if (i->op != OP_PERMUTE && x->type == t) return x;
    const Instr *d = def_of(x, i->op);
    if (d && (i->op == OP_BROADCAST || i->op == OP_RESHAPE))
        return ir_op(b, i->op, t, NO_ATTRS, ir_operand(d, 0));
    if (i->op == OP_RESHAPE && x->type->kind == TYPE_SCALAR) return ir_splat(b, x, t->rank, t->shape);
    return NULL; /* Permutes of permutes are simplified by load-order. */
}

/* --- identities -------------------------------------------------------------------------------------- */

static Value *zero_like(Builder *b, const Instr *i) { return build_int(b, i->results[0].type, 0); }

/* (x op c1) op c2, integers: x op (c1 op c2) */
static Value *reassociate(Builder *b, Instr *i, Value *x, Value *y)
{
    Scalar c[2], v;
    const Instr *d = def_of(x, i->op);
    if (!d || !constant(y, &c[1]) || !constant(ir_operand(d, 1), &c[0])) return NULL;
    if (!scalar_op(i->op, y->type->dtype, c, &v)) return NULL;
    return ir_bin(b, i->op, ir_operand(d, 0), build_scalar(b, y->type, v));
}

static Value *fold_add(Builder *b, Instr *i, Value *x, Value *y, bool integer)
{
    if (is_int_const(y, 0) || is_float_const(y, -0.0)) return x;
    if (!integer) return NULL;
    const Instr *d = def_of(x, OP_SUB); /* (a - y) + y */
    if (d && ir_operand(d, 1) == y) return ir_operand(d, 0);
    return reassociate(b, i, x, y);
}

static Value *fold_sub(Builder *b, Instr *i, Value *x, Value *y, bool integer)
{
    int64_t c;
    if (is_int_const(y, 0) || is_float_const(y, 0.0)) return x;
    if (!integer) return NULL;
    if (x == y) return zero_like(b, i);
    if (ir_is_const(y, &c))
        return ir_bin(
            b, OP_ADD, x, build_int(b, y->type, scalar_wrap(y->type->dtype, (int64_t)(0 - (uint64_t)c))));
    const Instr *d = def_of(x, OP_ADD); /* (a + y) - y, (y + a) - y */
    if (d && ir_operand(d, 1) == y) return ir_operand(d, 0);
    if (d && ir_operand(d, 0) == y) return ir_operand(d, 1);
    return NULL;
}

/* A power of two whose reciprocal is as exact: dividing by it is multiplying by that. */
static bool exact_reciprocal(DType d, double c)
{
    int e;
    if (c == 0 || !isfinite(c) || fabs(frexp(c, &e)) != 0.5) return false;
    double r = 1 / c, least = scalar_least_normal(d);
    return fabs(r) >= least && fabs(c) >= least && scalar_round(d, r) == r;
}

static Value *fold_div(Builder *b, Instr *i, Value *x, Value *y, bool integer)
{
    double c;
    if (is_one(y)) return x;
    if (integer && (is_int_const(x, 0) || is_int_const(y, 0))) return zero_like(b, i);
    if (!integer && ir_is_const_float(y, &c) && exact_reciprocal(y->type->dtype, c))
        return ir_bin(b, OP_MUL, x, build_float(b, y->type, 1 / c));
    return NULL;
}

static Value *fold_bits(Builder *b, Instr *i, Value *x, Value *y)
{
    int64_t ones = x->type->dtype == DT_BOOL ? 1 : scalar_wrap(x->type->dtype, -1);
    if (i->op == OP_XOR) return is_int_const(y, 0) ? x : x == y ? zero_like(b, i) : NULL;
    bool and = i->op == OP_AND;
    if (x == y || is_int_const(y, and ? ones : 0)) return x;
    if (is_int_const(y, and ? 0 : ones)) return y;
    return NULL;
}

static Value *fold_minmax(Builder *b, Instr *i, Value *x, Value *y, bool integer)
{
    bool max = i->op == OP_MAX || i->op == OP_MAXNUM, num = i->op == OP_MAXNUM || i->op == OP_MINNUM;
    Scalar c;
    if (x == y) return x;
    if (constant(y, &c) && !num) { /* The identity element: a NaN passes through it. */
        Scalar id = max ? scalar_lowest(y->type->dtype) : scalar_highest(y->type->dtype);
        if (integer ? c.i == id.i : c.f == id.f && isinf(id.f)) return x;
    }
    if (!integer) return NULL;
    const Instr *d = def_of(x, i->op); /* max(max(a, y), y) */
    if (d && (ir_operand(d, 0) == y || ir_operand(d, 1) == y)) return x;
    return reassociate(b, i, x, y);
}

static Value *fold_compare(Builder *b, Instr *i, Value *x, Value *y, bool integer)
{
    if (x != y || !integer) return NULL;
    return build_int(b, i->results[0].type, i->op == OP_EQ || i->op == OP_LE || i->op == OP_GE);
}

static Value *fold_not(Builder *b, Value *x)
{
    static const Op inverse[][2] = { { OP_EQ, OP_NE }, { OP_LT, OP_GE }, { OP_GT, OP_LE }, { OP_NE, OP_EQ },
        { OP_GE, OP_LT }, { OP_LE, OP_GT } };
    const Instr *d = x->def;
    if (!d) return NULL;
    if (d->op == OP_NOT) return ir_operand(d, 0);
    for (size_t k = 0; k < sizeof inverse / sizeof *inverse; k++)
        if (d->op == inverse[k][0] && dtype_is_int(ir_operand(d, 0)->type->dtype))
            return ir_bin(b, inverse[k][1], ir_operand(d, 0), ir_operand(d, 1));
    return NULL;
}

static Value *fold_where(Builder *b, Instr *i)
{
    Value *c = ir_operand(i, 0), *x = ir_operand(i, 1), *y = ir_operand(i, 2);
    int64_t k;
    if (x == y) return x;
    if (ir_is_const(c, &k)) return k ? x : y;
    if (x->type->dtype == DT_BOOL && is_int_const(x, 1) && is_int_const(y, 0)) return c;
    const Instr *d = def_of(c, OP_NOT);
    if (d) return ir_op(b, OP_WHERE, NULL, NO_ATTRS, ir_operand(d, 0), y, x);
    return NULL;
}

/* Every value of dtype `from` is one of `to`. */
static bool exact_cast(DType to, DType from)
{
    if (to == from) return true;
    if (dtype_is_float(from)) {
        if (!dtype_is_float(to)) return false;
        return to == DT_F64 || to == DT_F32 ? dtype_bits(from) < dtype_bits(to)
                                            : to == DT_F16 && dtype_bits(from) == 8;
    }
    if (from == DT_BOOL) return true;
    if (dtype_is_float(to))
        return dtype_bits(from) < (to == DT_F64 ? 53 : to == DT_F32 ? 24 : to == DT_F16 ? 11 : 0);
    if (to == DT_BOOL) return false;
    if (dtype_bits(from) == dtype_bits(to)) return dtype_is_signed(from) == dtype_is_signed(to);
    return dtype_bits(from) < dtype_bits(to) && (dtype_is_signed(to) || !dtype_is_signed(from));
}

/* What is bounded by no less than the number to which a cast to fp8 saturates; NULL: nothing is. */
static Value *saturated_anyway(const Value *x, DType to)
{
    const Instr *d = x->def;
    Scalar low, high;
    if (!d || dtype_bits(to) != 8 || !dtype_is_float(to) || !dtype_is_float(x->type->dtype)) return NULL;
    double most = scalar_cast(to, DT_F32, scalar_float(INFINITY)).f;
    bool above = d->op == OP_MAX || d->op == OP_CLAMP, below = d->op == OP_MIN || d->op == OP_CLAMP;
    if (!above && !below) return NULL;
    if (above && (!constant(ir_operand(d, 1), &low) || !(low.f <= -most))) return NULL;
    if (below && (!constant(ir_operand(d, above ? 2 : 1), &high) || !(high.f >= most))) return NULL;
    return ir_operand(d, 0);
}

static Value *fold_cast(Builder *b, Instr *i)
{
    Value *x = ir_operand(i, 0), *free = saturated_anyway(x, i->results[0].type->dtype);
    DType to = i->results[0].type->dtype;
    if (x->type->dtype == to) return x;
    if (free) return ir_cast(b, free, to);
    const Instr *d = def_of(x, OP_CAST);
    if (!d || !exact_cast(x->type->dtype, ir_operand(d, 0)->type->dtype)) return NULL;
    /* A cast from integer to float to integer saturates, but a cast from integer to integer wraps. The
     * infinity of f8e5m2 is lost in a cast to f8e5m2. */
    DType from = ir_operand(d, 0)->type->dtype;
    if (dtype_is_int(from) && dtype_is_float(x->type->dtype) && dtype_is_int(to) && !exact_cast(to, from))
        return NULL;
    if (from == DT_F8E5M2 && to == from) return NULL;
    return ir_cast(b, ir_operand(d, 0), to);
}

static Value *fold_arithmetic(Builder *b, Instr *i, Value *x, Value *y, bool integer)
{
    const Instr *d;
    switch (op_as_arithmetic(i->op)) {
    case ARITHMETIC_ADD: return fold_add(b, i, x, y, integer);
    case ARITHMETIC_SUB: return fold_sub(b, i, x, y, integer);
    case ARITHMETIC_MUL:
        if (is_one(y)) return x;
        if (is_int_const(y, 0)) return y;
        return integer ? reassociate(b, i, x, y) : NULL;
    case ARITHMETIC_DIV: return fold_div(b, i, x, y, integer);
    case ARITHMETIC_CDIV: return is_int_const(y, 1) ? x : NULL;
    case ARITHMETIC_REM:
        return is_int_const(y, 1) || is_int_const(x, 0) || is_int_const(y, 0) ? zero_like(b, i) : NULL;
    case ARITHMETIC_FMA: return is_one(y) ? ir_bin(b, OP_ADD, x, ir_operand(i, 2)) : NULL;
    case ARITHMETIC_MIN:
    case ARITHMETIC_MAX:
    case ARITHMETIC_MINNUM:
    case ARITHMETIC_MAXNUM: return fold_minmax(b, i, x, y, integer);
    case ARITHMETIC_NEG: d = def_of(x, OP_NEG); return d ? ir_operand(d, 0) : NULL;
    case ARITHMETIC_ABS:
    case ARITHMETIC_CLAMP: return NULL;
    }
    return NULL;
}

static Value *fold_identity(Builder *b, Instr *i)
{
    if (!op_is_elementwise(i->op)) return NULL;
    if (op_has(i->op, OPF_COMM) &&
        ir_is_const(ir_operand(i, 0), NULL) + ir_is_const_float(ir_operand(i, 0), NULL)) {
        Value *x = ir_operand(i, 0), *y = ir_operand(i, 1);
        Scalar s;
        if (!constant(y, &s)) {
            ir_set_operand(i, 0, y);
            ir_set_operand(i, 1, x);
        }
    }
    Value *x = ir_operand(i, 0), *y = i->n_operands > 1 ? ir_operand(i, 1) : NULL;
    bool integer = !dtype_is_float(x->type->dtype);
    if (op_family(i->op) == OPS_ARITHMETIC) return fold_arithmetic(b, i, x, y, integer);
    if (op_family(i->op) == OPS_COMPARE) return fold_compare(b, i, x, y, integer);
    if (i->op == OP_SHL || i->op == OP_SHR) return is_int_const(y, 0) || is_int_const(x, 0) ? x : NULL;
    if (i->op == OP_AND || i->op == OP_OR || i->op == OP_XOR) return fold_bits(b, i, x, y);
    if (i->op == OP_NOT) return fold_not(b, x);
    if (i->op == OP_WHERE) return fold_where(b, i);
    return i->op == OP_CAST ? fold_cast(b, i) : NULL;
}

/* --- control flow ------------------------------------------------------------------------------------ */

/* A block that runs exactly once takes the place of its instruction. */
static void flatten(Fold *f, Instr *i, Block *b)
{
    Instr *end = ir_terminator(b);
    splice_before(i, b);
    for (int k = 0; k < i->n_results; k++) ir_replace(&i->results[k], ir_operand(end, k));
    ir_erase(i);
    f->flattened++;
}

static bool fold_if(Fold *f, Instr *i)
{
    int64_t c;
    if (!ir_is_const(ir_operand(i, 0), &c)) return false;
    flatten(f, i, i->blocks[c ? 0 : 1]);
    return true;
}

/* A carried value that never changes is its first value. */
static bool fold_carried(Fold *f, Instr *i)
{
    bool any = false;
    Instr *end = ir_terminator(i->blocks[0]);
    for (int k = i->n_results; k-- > 0;) {
        Value *arg = i->blocks[0]->args[k + 1], *init = ir_operand(i, k + 3), *next = ir_operand(end, k);
        if (next != arg && next != init) continue;
        ir_replace(arg, init);
        ir_replace(&i->results[k], init);
        ir_drop_carried(i, k);
        f->identities++;
        any = true;
    }
    return any;
}

static bool fold_for(Fold *f, Instr *i)
{
    int64_t lo, hi, step;
    if (fold_carried(f, i)) return true;
    bool empty = ir_operand(i, 0) == ir_operand(i, 1);
    if (!empty) {
        if (!ir_is_const(ir_operand(i, 0), &lo) || !ir_is_const(ir_operand(i, 1), &hi)) return false;
        empty = hi <= lo;
        if (!empty && (!ir_is_const(ir_operand(i, 2), &step) || step <= 0 ||
                          (uint64_t)hi - (uint64_t)lo > (uint64_t)step))
            return false;
    }
    if (empty) {
        for (int k = 0; k < i->n_results; k++) ir_replace(&i->results[k], ir_operand(i, k + 3));
        ir_erase(i);
        f->flattened++;
        return true;
    }
    for (int k = 0; k < i->blocks[0]->n_args; k++)
        ir_replace(i->blocks[0]->args[k], ir_operand(i, k ? k + 2 : 0));
    flatten(f, i, i->blocks[0]);
    return true;
}

/* --- driver ------------------------------------------------------------------------------------------ */

static bool fold_instr(Fold *f, Instr *i)
{
    if (i->op == OP_IF) return fold_if(f, i);
    if (i->op == OP_FOR) return fold_for(f, i);
    if (i->n_results != 1 || !ir_is_used(i)) return false;
    Builder b = ir_before(i);
    Value *v = fold_constant(f, &b, i);
    if (!v) v = fold_repeated(f, &b, i);
    if (!v) {
        v = fold_shape(f, &b, i);
        if (!v) v = fold_identity(&b, i);
        f->identities += v != NULL;
    }
    if (!v) return false;
    replace_value(&i->results[0], v);
    return true;
}

static bool fold_block(Fold *f, Block *b)
{
    bool progress = false;
    for (Instr *i = b->first, *next; i; i = next) {
        for (int k = 0; k < i->n_blocks; k++) progress |= fold_block(f, i->blocks[k]);
        next = i->next;
        progress |= fold_instr(f, i);
    }
    return progress;
}

static bool fold_func(PassContext *c, Func *func)
{
    Block *roots[FUNC_ROOTS];
    int n = func_roots(func, roots), round = 0;
    Fold f = { c };
    bool progress = false, again = true;
    for (; again && round < MAX_ROUNDS; round++) {
        again = false;
        for (int k = 0; k < n; k++) again |= fold_block(&f, roots[k]);
        progress |= again;
    }
    pass_count(c, "constants", f.constants);
    pass_count(c, "identities", f.identities);
    pass_count(c, "done once for equal elements", f.shrunk);
    pass_count(c, "control flow removed", f.flattened);
    return progress;
}

bool pass_fold(PassContext *c, Module *m) { return pass_each_func(c, m, fold_func); }
