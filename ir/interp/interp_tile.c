/* interp_tile.c: the interpreter's shape operations, reductions, scans, sorting and matrix products. See
 * interp.h. */
#include "ir/interp/interp_impl.h"
#include <math.h>
#include <stdlib.h>

/* --- shape ------------------------------------------------------------------------------------------- */

/* out[c] = x[base + sum of c[a] * step[a]] over the result's box. */
static void pick(Interp *in, const Instr *i, const Scalar *x, int64_t base, const int64_t *step)
{
    const Type *t = i->results[0].type;
    Scalar *out = interp_value(in, &i->results[0]);
    int64_t c[TILE_MAX_RANK] = { 0 };
    int rank = interp_rank(t);
    interp_count(in, i, type_elements(t));
    do {
        int64_t at = base;
        for (int a = 0; a < rank; a++) at += c[a] * step[a];
        *out++ = x[at];
    } while (interp_next(rank, t->shape, c));
}

static void run_concat(Interp *in, const Instr *i)
{
    const Type *t = i->results[0].type;
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0), outer = 1, inner = 1;
    Scalar *out = interp_value(in, &i->results[0]);
    interp_count(in, i, type_elements(t));
    for (int a = 0; a < axis; a++) outer *= t->shape[a];
    for (int a = (int)axis + 1; a < t->rank; a++) inner *= t->shape[a];
    for (int64_t o = 0; o < outer; o++)
        for (int k = 0; k < i->n_operands; k++) {
            int64_t n = ir_operand(i, k)->type->shape[axis] * inner;
            memcpy(out, interp_value(in, ir_operand(i, k)) + o * n, (size_t)n * sizeof *out);
            out += n;
        }
}

bool interp_shape_op(Interp *in, const Instr *i)
{
    if (i->n_results != 1 || !type_is_value(i->results[0].type)) return false;
    const Type *t = i->results[0].type;
    int64_t step[TILE_MAX_RANK] = { 0 }, st[TILE_MAX_RANK] = { 0 };
    const Scalar *x = i->n_operands ? interp_value(in, ir_operand(i, 0)) : NULL;
    if (i->n_operands) interp_strides(ir_operand(i, 0)->type, st);
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: pick(in, i, x, 0, step); return true;
    case SHAPE_ARANGE: {
        Scalar *out = interp_value(in, &i->results[0]);
        interp_count(in, i, t->shape[0]);
        for (int64_t k = 0; k < t->shape[0]; k++)
            out[k].i =
                scalar_wrap(t->dtype, (int64_t)((uint64_t)ir_attr_int(i, ATTR_START, 0) + (uint64_t)k));
        return true;
    }
    case SHAPE_BROADCAST:
        for (int a = 0; a < t->rank; a++) step[a] = ir_operand(i, 0)->type->shape[a] == 1 ? 0 : st[a];
        pick(in, i, x, 0, step);
        return true;
    case SHAPE_RESHAPE:
        interp_count(in, i, type_elements(t));
        memcpy(interp_value(in, &i->results[0]), x, (size_t)type_elements(t) * sizeof *x);
        return true;
    case SHAPE_PERMUTE:
        for (int a = 0; a < t->rank; a++) step[a] = st[ir_attr(i, ATTR_ORDER)->v[a]];
        pick(in, i, x, 0, step);
        return true;
    case SHAPE_SLICE:
        pick(in, i, x, ir_attr_int(i, ATTR_START, 0) * st[ir_attr_int(i, ATTR_AXIS, 0)], st);
        return true;
    case SHAPE_CONCAT: run_concat(in, i); return true;
    }
    return false;
}

/* --- along an axis ----------------------------------------------------------------------------------- */

/* One line along the axis: n elements of x, `st` apart. */
typedef struct Line {
    const Scalar *x;
    int64_t n, st;
} Line;

static Scalar rounded(DType d, double x) { return scalar_float(scalar_round(d, x)); }

static Scalar apply(Op op, DType d, Scalar a, Scalar b)
{
    Scalar v[3] = { a, b, b }, out = a;
    scalar_op(op, d, v, &out);
    return out;
}

/* The degree to which `a` is preferred to `b` as a maximum (minimum). NaN is preferred to everything. */
static bool better(DType d, bool max, Scalar a, Scalar b)
{
    if (dtype_is_float(d)) {
        if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && !isnan(b.f);
        return max ? a.f > b.f : a.f < b.f;
    }
    return apply(max ? OP_GT : OP_LT, d, a, b).i != 0;
}

static Scalar reduce_line(Op op, DType d, Line l)
{
    bool product = op == OP_REDUCE_PROD, is_float = dtype_is_float(d);
    if (op == OP_REDUCE_SUM || product) {
        double f = product;
        Scalar acc = scalar_int(product);
        for (int64_t k = 0; k < l.n; k++) {
            Scalar x = l.x[k * l.st];
            if (is_float) f = product ? f * x.f : f + x.f;
            else acc = apply(product ? OP_MUL : OP_ADD, d, acc, x);
        }
        return is_float ? rounded(d, f) : acc;
    }
    if (op == OP_ARGMAX || op == OP_ARGMIN) {
        int64_t best = 0;
        for (int64_t k = 1; k < l.n; k++)
            if (better(d, op == OP_ARGMAX, l.x[k * l.st], l.x[best * l.st])) best = k;
        return scalar_int(best);
    }
    Op each = op == OP_REDUCE_MAX   ? OP_MAX
              : op == OP_REDUCE_MIN ? OP_MIN
              : op == OP_REDUCE_ANY ? OP_OR
                                    : OP_AND;
    Scalar acc = l.x[0];
    for (int64_t k = 1; k < l.n; k++) acc = apply(each, d, acc, l.x[k * l.st]);
    return acc;
}

/* acc = block(acc, next), each of as many values as the operation has operands. */
static void combine(Interp *in, const Instr *i, Scalar *acc, const Scalar *next)
{
    const Block *c = i->blocks[0];
    int n = i->n_operands;
    for (int k = 0; k < n; k++) {
        *interp_value(in, c->args[k]) = acc[k];
        *interp_value(in, c->args[n + k]) = next[k];
    }
    interp_block(in, c);
    for (int k = 0; k < n; k++) acc[k] = *interp_value(in, ir_operand(c->last, k));
}

/* A line of reduce or scan, whose first element is `at` and whose next one `st` further; the results of a
 * reduction go to `to`. */
static void combine_line(Interp *in, const Instr *i, int64_t at, int64_t n, int64_t st, int64_t to)
{
    Scalar acc[IR_MAX_COMBINED], next[IR_MAX_COMBINED];
    bool scan = i->op == OP_SCAN, reverse = scan && ir_attr_int(i, ATTR_REVERSE, 0);
    for (int64_t p = 0; p < n; p++) {
        int64_t from = at + (reverse ? n - 1 - p : p) * st;
        for (int k = 0; k < i->n_operands; k++) next[k] = interp_value(in, ir_operand(i, k))[from];
        if (p) combine(in, i, acc, next);
        else memcpy(acc, next, sizeof acc);
        for (int k = 0; k < i->n_operands && scan; k++) interp_value(in, &i->results[k])[from] = acc[k];
    }
    for (int k = 0; k < i->n_operands && !scan; k++) interp_value(in, &i->results[k])[to] = acc[k];
}

static void scan_line(Interp *in, const Instr *i, DType d, Line l, Scalar *out)
{
    bool reverse = ir_attr_int(i, ATTR_REVERSE, 0), product = i->op == OP_SCAN_PROD;
    double f = product;
    Scalar acc = scalar_int(product);
    for (int64_t k = 0; k < l.n; k++) {
        int64_t at = (reverse ? l.n - 1 - k : k) * l.st;
        Scalar x = l.x[at];
        if (i->op == OP_SCAN_MAX) acc = k ? apply(OP_MAX, d, acc, x) : x;
        else if (dtype_is_float(d)) {
            f = product ? f * x.f : f + x.f;
            acc = rounded(d, f);
        } else acc = apply(product ? OP_MUL : OP_ADD, d, acc, x);
        out[at] = acc;
    }
}

static void along_axis(Interp *in, const Instr *i)
{
    const Value *xv = ir_operand(i, 0);
    const Type *t = xv->type;
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0), outer = 1, inner = 1, n = t->shape[axis];
    const Scalar *x = interp_value(in, xv);
    Scalar *out = interp_value(in, &i->results[0]);
    interp_count(in, i, type_elements(t));
    for (int a = 0; a < axis; a++) outer *= t->shape[a];
    for (int a = (int)axis + 1; a < t->rank; a++) inner *= t->shape[a];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t e = 0; e < inner; e++) {
            Line l = { x + o * n * inner + e, n, inner };
            if (i->op == OP_REDUCE || i->op == OP_SCAN)
                combine_line(in, i, o * n * inner + e, n, inner, o * inner + e);
            else if (op_family(i->op) == OPS_SCAN) scan_line(in, i, t->dtype, l, out + o * n * inner + e);
            else out[o * inner + e] = reduce_line(i->op, t->dtype, l);
        }
}

/* --- sort, topk -------------------------------------------------------------------------------------- */

_Static_assert(sizeof(Scalar) == 8, "three to a Keyed");
typedef struct Keyed {
    Scalar v;
    int64_t at;
    DType d;
} Keyed;

/* Ascending, NaN largest; equal ones by position. */
static int ascending(const void *pa, const void *pb)
{
    const Keyed *a = pa, *b = pb;
    bool nan_a = dtype_is_float(a->d) && isnan(a->v.f), nan_b = dtype_is_float(a->d) && isnan(b->v.f);
    int by_value = 0;
    if (nan_a || nan_b) by_value = nan_a - nan_b;
    else if (apply(OP_LT, a->d, a->v, b->v).i) by_value = -1;
    else if (apply(OP_GT, a->d, a->v, b->v).i) by_value = 1;
    return by_value ? by_value : a->at < b->at ? -1 : a->at > b->at;
}

static int descending(const void *pa, const void *pb)
{
    const Keyed *a = pa, *b = pb;
    Keyed x = *a, y = *b;
    x.at = y.at = 0;
    int by_value = ascending(&y, &x);
    return by_value ? by_value : a->at < b->at ? -1 : a->at > b->at;
}

static void run_sort(Interp *in, const Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    int64_t n = t->shape[t->rank - 1], rows = type_elements(t) / n,
            keep = i->results[0].type->shape[t->rank - 1];
    const Scalar *x = interp_value(in, ir_operand(i, 0));
    Scalar *out = interp_value(in, &i->results[0]),
           *positions = i->op == OP_TOPK ? interp_value(in, &i->results[1]) : NULL;
    if (n > in->n_keys) {
        in->keys = interp_buffer(in, i->loc, 3 * n);
        in->n_keys = n;
    }
    Keyed *keys = in->keys;
    bool down = i->op == OP_TOPK || ir_attr_int(i, ATTR_REVERSE, 0);
    interp_count(in, i, 16 * type_elements(t));
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t k = 0; k < n; k++) keys[k] = (Keyed){ x[r * n + k], k, t->dtype };
        qsort(keys, (size_t)n, sizeof *keys, down ? descending : ascending);
        for (int64_t k = 0; k < keep; k++) {
            out[r * keep + k] = keys[k].v;
            if (positions) positions[r * keep + k].i = keys[k].at;
        }
    }
}

/* --- mma --------------------------------------------------------------------------------------------- */

static double tf32(double x)
{
    if (!isfinite(x) || x == 0) return x;
    int e;
    double m = frexp(x, &e);
    double r = ldexp(rint(ldexp(m, 11)), e - 11);
    return (float)r;
}

static void run_mma(Interp *in, const Instr *i)
{
    const Type *ta = ir_operand(i, 0)->type, *tb = ir_operand(i, 1)->type;
    int64_t m = ta->shape[0], k = ta->shape[1], n = tb->shape[1];
    const Scalar *a = interp_value(in, ir_operand(i, 0)), *b = interp_value(in, ir_operand(i, 1)),
                 *c = interp_value(in, ir_operand(i, 2));
    Scalar *out = interp_value(in, &i->results[0]);
    DType d = i->results[0].type->dtype;
    int64_t rows = m / ir_attr_int(i, ATTR_PARTS, 1); /* of each product */
    bool is_int = !dtype_is_float(d), low = ir_attr_int(i, ATTR_PRECISION, PRECISION_FULL) == PRECISION_TF32;
    interp_count(in, i, m * n);
    for (int64_t r = 0; r < m; r++) {
        const Scalar *right = b + r / rows * k * n;
        for (int64_t s = 0; s < n; s++) {
            interp_count(in, i, k / 8);
            if (is_int) {
                uint64_t acc = (uint64_t)c[r * n + s].i;
                for (int64_t q = 0; q < k; q++) acc += (uint64_t)(a[r * k + q].i * right[q * n + s].i);
                out[r * n + s].i = scalar_wrap(d, (int64_t)acc);
                continue;
            }
            double acc = c[r * n + s].f;
            for (int64_t q = 0; q < k; q++) {
                double x = a[r * k + q].f, y = right[q * n + s].f;
                acc += low ? tf32(x) * tf32(y) : x * y;
            }
            out[r * n + s] = rounded(d, acc);
        }
    }
}

bool interp_reduce_op(Interp *in, const Instr *i)
{
    OpFamily f = op_family(i->op);
    if (f == OPS_SORT) run_sort(in, i);
    else if (i->op == OP_MMA) run_mma(in, i);
    else if (f == OPS_REDUCE || f == OPS_ARG || f == OPS_COMBINED || f == OPS_SCAN) along_axis(in, i);
    else return false;
    return true;
}
