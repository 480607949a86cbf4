/* test_ops.c: every operation on every dtype it takes, compiled by the CPU backend, against the interpreter:
 * element-wise ones on the values where they are delicate, the others on shapes with odd extents, along each
 * axis. Equal to the bit, but for functions (4 ulp) and sums of floats.
 *
 * test_ops [part [all]]   part: elem, cast, shape, reduce, scan, sort, index, mma; all: every kernel for
 * every processor */
#include "op_kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- values ------------------------------------------------------------------------------------------ */

static uint64_t seed = 1;
static uint64_t next(void)
{
    seed += 0x9E3779B97F4A7C15ull;
    uint64_t z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

enum { N_VALUES = 23 * 29 };

/* Delicate values against each other in every pairing (operand 0 walks them fast, operand 1 slowly), then
 * random bits. */
static void delicate(DType d, int operand, Scalar *out)
{
    static const double f[] = { 0, -0.0, 1, -1, 0.5, 2.5, -3.5, 1e-3, 100, -447, 65504, 3e38, -3e38, 1e-40,
        INFINITY, -INFINITY, NAN, 7, 0.1, -2, 3, 2147483648.0, 255.5 };
    static const int64_t v[] = { 0, 1, -1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, -128, 255, 32767,
        -32768, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN };
    for (int i = 0; i < N_VALUES; i++) {
        int k = operand == 0 ? i % 23 : operand == 1 ? i / 23 % 23 : (i * 7 + 3) % 23;
        if (i >= 23 * 23) out[i] = scalar_of_bits(d, d == DT_BOOL ? next() & 1 : next());
        else
            out[i] =
                dtype_is_float(d) ? scalar_float(scalar_round(d, f[k])) : scalar_int(scalar_wrap(d, v[k]));
    }
}

static void gentle(DType d, Scalar *out, int n)
{
    for (int i = 0; i < n; i++)
        out[i] = dtype_is_float(d) ? scalar_float(scalar_round(d, (double)(int)(next() % 33) / 8 - 2))
                                   : scalar_int(scalar_wrap(d, (int64_t)(next() % 17) - 5));
}

static char label[128];
static const char *name_of(Op op, DType d)
{
    snprintf(label, sizeof label, "%s %s", op_info[op].name, dtype_name(d));
    return label;
}

/* Variables around it that change are only read again after a jump by the loops that hold them: gcc's warning
 * is about those. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic ignored "-Wclobbered"
#endif
#define KERNEL(k) \
    Kernel k##_, *k = &k##_; \
    kernel_begin(k); \
    if (!setjmp(k->s.oom))

/* --- parts ------------------------------------------------------------------------------------------- */

static bool takes(Op op, DType d)
{
    bool f = dtype_is_float(d), integer = !f && d != DT_BOOL;
    switch (op_family(op)) {
    case OPS_ARITHMETIC: return op == OP_REM || op == OP_CDIV ? integer : d != DT_BOOL;
    case OPS_BITS: return op == OP_SHL || op == OP_SHR ? integer : !f;
    case OPS_COMPARE:
    case OPS_SELECT: return true;
    case OPS_FUNCTION: return f;
    case OPS_RANDOM: return integer;
    case OPS_CONVERSION: /* test_cast */
    case OPS_CONSTANT:
    case OPS_LAUNCH:
    case OPS_TOKEN:
    case OPS_SHAPE:
    case OPS_REDUCE:
    case OPS_ARG:
    case OPS_COMBINED:
    case OPS_SCAN:
    case OPS_SORT:
    case OPS_PRODUCT:
    case OPS_MEMORY:
    case OPS_MESSAGE:
    case OPS_CONTROL:
    case OPS_CALL:
    case OPS_TERMINATOR:
    case OPS_REGISTERS:
    case OPS_SHARED:
    case OPS_RING:
    case OPS_ROLES:
    case OPS_ORDER:
    case OPS_PLACE:
    case OPS_COLLECTIVE: return false;
    }
    return false;
}

static void test_elem(Op op, DType d)
{
    static Scalar values[3][N_VALUES];
    KERNEL(k)
    {
        kernel_open_func(k);
        Value *v[3];
        int64_t n = N_VALUES;
        for (int o = 0; o < op_info[op].n_operands; o++) {
            DType t = op == OP_WHERE && o == 0    ? DT_BOOL
                      : op == OP_PHILOX && o == 0 ? (dtype_bits(d) == 64 ? DT_U64 : DT_U32)
                                                  : d;
            delicate(t, o, values[o]);
            v[o] = kernel_load_all(k, kernel_tensor(k, PARAM_IN, t, 1, &n, values[o], N_VALUES));
        }
        bool exact = op == OP_SQRT || op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND,
             fn = op_family(op) == OPS_FUNCTION && !exact;
        k->slack = fn ? (d == DT_F32 || d == DT_F64 ? 4 : 1) : 0;
        kernel_output(k, ir_emit(&k->b, op, v, op_info[op].n_operands, NO_ATTRS, NULL));
        kernel_finish(k, name_of(op, d));
    }
    kernel_end(k);
}

static void part_elem(void)
{
    for (int op = 0; op < OP_COUNT; op++)
        for (int d = 0; d < DT_COUNT; d++)
            if ((op_info[op].flags & (OPF_ELEM | OPF_KERNEL)) == OPF_ELEM && takes((Op)op, (DType)d))
                test_elem((Op)op, (DType)d);
}

static void part_cast(void)
{
    static Scalar values[N_VALUES];
    int64_t n = N_VALUES;
    for (int from = 0; from < DT_COUNT; from++)
        for (int to = 0; to < DT_COUNT; to++)
            for (int bits = 0; bits < 2; bits++) {
                if (bits && (dtype_bits((DType)from) != dtype_bits((DType)to) || to == DT_BOOL)) continue;
                KERNEL(k)
                {
                    kernel_open_func(k);
                    delicate((DType)from, 0, values);
                    Value *x =
                        kernel_load_all(k, kernel_tensor(k, PARAM_IN, (DType)from, 1, &n, values, N_VALUES));
                    kernel_output(k, ir_op(&k->b, bits ? OP_BITCAST : OP_CAST,
                                         type_with_dtype(&k->s, x->type, (DType)to), NO_ATTRS, x));
                    snprintf(label, sizeof label, "%s %s to %s", bits ? "bitcast" : "cast",
                        dtype_name((DType)from), dtype_name((DType)to));
                    kernel_finish(k, label);
                }
                kernel_end(k);
            }
}

static const int64_t shapes[][3] = { { 5, 7, 33 }, { 3, 1, 20 }, { 17, 34, 1 }, { 1, 1, 67 } };

static void part_shape(void)
{
    static Scalar values[1300];
    static const DType widths[] = { DT_BOOL, DT_U8, DT_F16, DT_F32, DT_I64 };
    for (size_t w = 0, d = widths[0]; w < 5; d = ++w < 5 ? widths[w] : 0)
        for (size_t sh = 0; sh < sizeof shapes / sizeof *shapes; sh++) {
            KERNEL(k)
            {
                kernel_open_func(k);
                const int64_t *e = shapes[sh];
                gentle((DType)d, values, 1300);
                if (d == DT_BOOL)
                    for (int i = 0; i < 1300; i++) values[i].i &= 1;
                Value *x = kernel_load_all(k, kernel_tensor(k, PARAM_IN, (DType)d, 3, e, values, 1300));
                int64_t order[][3] = { { 2, 0, 1 }, { 1, 0, 2 }, { 2, 1, 0 } }, flat = e[0] * e[1] * e[2],
                        two[2] = { e[1], e[0] * e[2] };
                for (int o = 0; o < 3; o++)
                    kernel_output(
                        k, ir_op(&k->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order[o], 3)), x));
                kernel_output(
                    k, ir_op(&k->b, OP_RESHAPE, type_tile(&k->s, (DType)d, 2, two), NO_ATTRS,
                           ir_op(&k->b, OP_RESHAPE, type_tile(&k->s, (DType)d, 1, &flat), NO_ATTRS, x)));
                kernel_finish(k, name_of(OP_PERMUTE, (DType)d));
            }
            kernel_end(k);
            KERNEL(q)
            {
                kernel_open_func(q);
                const int64_t *e = shapes[sh];
                gentle((DType)d, values, 1300);
                if (d == DT_BOOL)
                    for (int i = 0; i < 1300; i++) values[i].i &= 1;
                Value *x = kernel_load_all(q, kernel_tensor(q, PARAM_IN, (DType)d, 3, e, values, 1300));
                Value *y = kernel_load_all(q, kernel_tensor(q, PARAM_IN, (DType)d, 3, e, values + 7, 1200));
                for (int a = 0; a < 3; a++) {
                    Value *c = ir_op(&q->b, OP_CONCAT, NULL, ATTRS(a_int(ATTR_AXIS, a)), x, y, x);
                    int64_t cut[3] = { e[0], e[1], e[2] };
                    cut[a] = e[a] + 1;
                    kernel_output(q, ir_op(&q->b, OP_SLICE, type_tile(&q->s, (DType)d, 3, cut),
                                         ATTRS(a_int(ATTR_AXIS, a), a_int(ATTR_START, 1)), c));
                }
                kernel_finish(q, name_of(OP_CONCAT, (DType)d));
            }
            kernel_end(q);
        }
}

static void combine_block(Kernel *k, Instr *i, DType d)
{
    Builder b = ir_at_end(i->blocks[0]);
    Value *r = d == DT_BOOL ? ir_bin(&b, OP_XOR, i->blocks[0]->args[0], i->blocks[0]->args[1])
                            : ir_bin(&b, OP_MAX, i->blocks[0]->args[0], i->blocks[0]->args[1]);
    ir_build(&b, OP_YIELD, &r, 1, NO_ATTRS, NULL, 0);
}

static bool reduces(Op op, DType d)
{
    if (op == OP_REDUCE || op == OP_SCAN) return true;
    if (op == OP_REDUCE_ANY || op == OP_REDUCE_ALL) return d == DT_BOOL;
    return d != DT_BOOL;
}

static Value *constant(Kernel *k, DType d, Scalar v)
{ return dtype_is_float(d) ? ir_const_float(&k->b, d, v.f) : ir_const_int(&k->b, d, v.i); }

static void test_reduce(Op op, DType d, int axis, const int64_t *e, int variant)
{
    static Scalar values[1300];
    KERNEL(k)
    {
        kernel_open_func(k);
        if (variant == 2) delicate(d, 2, values);
        else gentle(d, values, 1300);
        if (d == DT_BOOL)
            for (int i = 0; i < 1300; i++) values[i].i &= 1;
        bool product = op == OP_REDUCE_PROD || op == OP_SCAN_PROD;
        for (int i = 0; product && i < 1300; i++)
            if (dtype_is_float(d)) values[i].f = i % 5 ? 1 : i % 2 ? 0.5 : 2;
        Value *x =
            kernel_load_all(k, kernel_tensor(k, PARAM_IN, d, 3, e, values, variant == 2 ? N_VALUES : 1300));
        Attrs attrs =
            ATTRS(a_int(ATTR_AXIS, axis), a_int(op >= OP_SCAN_SUM ? ATTR_REVERSE : ATTR_DROP, variant & 1));
        if (op == OP_REDUCE || op == OP_SCAN) {
            Instr *i = ir_build(&k->b, op, &x, 1, attrs, NULL, 0);
            combine_block(k, i, d);
            kernel_output(k, ir_result(i));
        } else {
            kernel_output(k, ir_emit(&k->b, op, &x, 1, attrs, NULL));
        }
        bool sum = op == OP_REDUCE_SUM || op == OP_SCAN_SUM;
        k->slack = sum && dtype_is_float(d) ? (dtype_bits(d) < 32 ? 1 : 64) : 0;
        kernel_finish(k, name_of(op, d));
    }
    kernel_end(k);
}

static void part_reduce(Op from, Op to)
{
    for (int op = (int)from; op <= (int)to; op++)
        for (int d = 0; d < DT_COUNT; d++)
            for (int axis = 0; axis < 3; axis++)
                for (size_t sh = 0; sh < sizeof shapes / sizeof *shapes; sh++) {
                    bool order_free = op == OP_REDUCE_MAX || op == OP_REDUCE_MIN || op == OP_ARGMAX ||
                                      op == OP_ARGMIN || op == OP_SCAN_MAX;
                    bool main_type = d == DT_F32 || d == DT_F16 || d == DT_BOOL || d == DT_I64;
                    if (!reduces((Op)op, (DType)d) ||
                        (sh && (axis != (int)sh % 3 || (!main_type && !everywhere))))
                        continue;
                    test_reduce((Op)op, (DType)d, axis, shapes[sh], axis & 1);
                    if (order_free) test_reduce((Op)op, (DType)d, axis, shapes[sh], 2);
                }
}

static void part_sort(void)
{
    static Scalar values[N_VALUES];
    for (int d = 1; d < DT_COUNT; d++)
        for (int variant = 0; variant < 6; variant++) { /* short and long rows, few and many results */
            KERNEL(k)
            {
                static const int64_t elements[] = { 37, 128, 200, 300, 127, 260 },
                                     counts[] = { 9, 40, 9, 33, 32, 5 };
                kernel_open_func(k);
                int64_t e[2] = { 3, elements[variant] };
                if (variant == 2) gentle((DType)d, values, N_VALUES);
                else delicate((DType)d, 2, values);
                /* Zeros of both signs are equal. Keep one, because sort does not define the place of the
                 * other. */
                for (int i = 0; i < N_VALUES; i++)
                    if (dtype_is_float((DType)d) && values[i].f == 0) values[i].f = 0;
                Value *x = kernel_load_all(k, kernel_tensor(k, PARAM_IN, (DType)d, 2, e, values, N_VALUES));
                kernel_output(k, ir_op(&k->b, OP_SORT, NULL, ATTRS(a_int(ATTR_REVERSE, variant & 1)), x));
                Instr *t =
                    ir_build(&k->b, OP_TOPK, &x, 1, ATTRS(a_int(ATTR_COUNT, counts[variant])), NULL, 0);
                kernel_output(k, &t->results[0]);
                kernel_output(k, &t->results[1]);
                kernel_finish(k, name_of(OP_TOPK, (DType)d));
            }
            kernel_end(k);
        }
}

static void part_index(void)
{
    static Scalar values[64], index[40], small[40], mask[40];
    for (int i = 0; i < 40; i++) {
        index[i].i = i == 5 ? -1 : i == 9 ? 64 : i * 11 % 64;
        mask[i].i = i % 7 != 3;
        small[i].i = i % 9 - 1;
    }
    int64_t n = 64, m = 40, few = 7;
    for (int d = 0; d < DT_COUNT; d++) {
        KERNEL(k)
        {
            kernel_open_func(k);
            gentle((DType)d, values, 64);
            if (d == DT_BOOL)
                for (int i = 0; i < 64; i++) values[i].i &= 1;
            int x = kernel_tensor(k, PARAM_IN, (DType)d, 1, &n, values, 64),
                y = kernel_tensor(k, PARAM_INOUT, (DType)d, 1, &n, values + 3, 50);
            Value *at = kernel_load_all(
                      k, kernel_tensor(k, PARAM_IN, d % 2 ? DT_I32 : DT_INDEX, 1, &m, index, 40)),
                  *on = kernel_load_all(k, kernel_tensor(k, PARAM_IN, DT_BOOL, 1, &m, mask, 40));
            Value *pad = constant(k, (DType)d, dtype_is_float((DType)d) ? scalar_float(1) : scalar_int(1));
            Value *g = ir_op(&k->b, OP_GATHER, NULL, ATTRS(a_int(ATTR_HAS_MASK, 1), a_int(ATTR_HAS_PAD, 1)),
                k->param[x], at, on, pad);
            kernel_output(k, g);
            k->token[y] = ir_op(&k->b, OP_SCATTER, NULL, ATTRS(a_int(ATTR_HAS_MASK, 1)), k->param[y], at, g,
                on, kernel_token_of(k, y));
            kernel_finish(k, name_of(OP_GATHER, (DType)d));
        }
        kernel_end(k);
        bool f = dtype_is_float((DType)d),
             ok = d != DT_BOOL && (dtype_bits((DType)d) >= 32 || d == DT_F16 || d == DT_BF16);
        for (int rmw = 0; ok && rmw <= RMW_COUNT_; rmw++) {
            bool cas = rmw == RMW_COUNT_;
            if ((f && rmw >= RMW_AND && !cas) || (cas && dtype_bits((DType)d) < 32)) continue;
            KERNEL(q)
            {
                kernel_open_func(q);
                gentle((DType)d, values, 64);
                int y = kernel_tensor(q, PARAM_INOUT, (DType)d, 1, &few, values + 3, 50);
                Value *at = kernel_load_all(q, kernel_tensor(q, PARAM_IN, DT_INDEX, 1, &m, small, 40)),
                      *on = kernel_load_all(q, kernel_tensor(q, PARAM_IN, DT_BOOL, 1, &m, mask, 40));
                Value *x = kernel_load_all(q, kernel_tensor(q, PARAM_IN, (DType)d, 1, &m, values, 40));
                Value *v[] = { q->param[y], at, x, cas ? x : on, cas ? on : kernel_token_of(q, y),
                    cas ? kernel_token_of(q, y) : NULL };
                Attrs attrs =
                    ATTRS(a_int(ATTR_HAS_MASK, 1), a_int(ATTR_SEM, rmw % 4), a_int(ATTR_RMW, cas ? 0 : rmw));
                Instr *i =
                    ir_build(&q->b, cas ? OP_ATOMIC_CAS : OP_ATOMIC_RMW, v, cas ? 6 : 5, attrs, NULL, 0);
                kernel_output(q, &i->results[0]);
                kernel_finish(q, name_of(i->op, (DType)d));
            }
            kernel_end(q);
        }
    }
}

static void part_mma(void)
{
    static const DType types[][3] = { { DT_F32, DT_F32, DT_F32 }, { DT_F16, DT_F16, DT_F32 },
        { DT_BF16, DT_BF16, DT_F32 }, { DT_F64, DT_F64, DT_F64 }, { DT_I8, DT_I8, DT_I32 },
        { DT_U8, DT_I8, DT_I32 }, { DT_U8, DT_U8, DT_I32 }, { DT_F8E4M3, DT_F8E5M2, DT_F32 },
        { DT_F8E5M2, DT_F8E5M2, DT_F32 } };
    static const int64_t sizes[][3] = { { 1, 1, 1 }, { 16, 16, 16 }, { 33, 47, 21 }, { 5, 100, 64 },
        { 64, 3, 7 }, { 70, 130, 40 }, { 3, 40, 64 }, { 40, 4, 64 } };
    static Scalar a[9000], b[9000], c[9000];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++)
            for (int turned = 0; turned < 4; turned++) {
                KERNEL(k)
                {
                    gentle(types[t][0], a, 9000);
                    gentle(types[t][1], b, 9000);
                    gentle(types[t][2], c, 9000);
                    kernel_product(k, types[t], sizes[z], turned, a, b, c, 9000);
                }
                kernel_end(k);
            }
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    everywhere = argc > 2;
#define PART(name, call) \
    if (!*only || !strcmp(only, name)) call
    PART("elem", part_elem());
    PART("cast", part_cast());
    PART("shape", part_shape());
    PART("reduce", part_reduce(OP_REDUCE_SUM, OP_REDUCE));
    PART("scan", part_reduce(OP_SCAN_SUM, OP_SCAN));
    PART("sort", part_sort());
    PART("index", part_index());
    PART("mma", part_mma());
    printf("%d kernels, %d failures\n", checks, failures);
    return failures || !checks;
}
