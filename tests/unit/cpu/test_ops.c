/* test_ops.c: every operation on every dtype it takes, compiled by the CPU backend, against the interpreter:
 * element-wise ones on the values where they are delicate, the others on shapes with odd extents, along each
 * axis. Equal to the bit, but for functions (4 ulp) and sums of floats.
 *
 * test_ops [part [all]]   part: elem, cast, shape, reduce, scan, sort, index, mma; all: every kernel for
 * every processor */
#include "cpu_run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_TENSORS = 6 };
static int failures, checks;
static bool everywhere; /* every kernel for every processor, not in turn */
static const char *const cpus[] = { NULL, "x86-64-v3" };

/* A kernel under construction: tensors of fixed extents, one program. */
typedef struct Kernel {
    Session s;
    Func *f;
    Builder b;
    Value *param[MAX_TENSORS], *token[MAX_TENSORS];
    InterpArg args[MAX_TENSORS];
    void *data[MAX_TENSORS], *copy[MAX_TENSORS], *start[MAX_TENSORS];
    size_t bytes[MAX_TENSORS];
    int n;
    double slack; /* relative difference allowed in float results */
} Kernel;

static void begin(Kernel *k)
{
    memset(k, 0, sizeof *k);
    session_init(&k->s, allocator_libc);
}

static void open_func(Kernel *k)
{
    k->f = ir_func_new(ir_module_new(&k->s), "op", true);
    k->b = ir_at_end(k->f->body);
}

static int tensor(
    Kernel *k, ParamKind kind, DType d, int rank, const int64_t *shape, const Scalar *values, int n_values)
{
    int dims[TILE_MAX_RANK], at = k->n++;
    int64_t n = 1;
    for (int a = 0; a < rank; a++) dims[a] = ir_dim_new(k->f, NULL, shape[a]);
    char name[8];
    snprintf(name, sizeof name, "T%d", at);
    k->param[at] = ir_param_new(k->f, name, kind, type_tensor(&k->s, d, rank), dims);
    for (int a = rank - 1; a >= 0; a--) {
        k->args[at].shape[a] = shape[a];
        k->args[at].stride[a] = n;
        n *= shape[a];
    }
    k->bytes[at] = (size_t)n * (size_t)dtype_bytes(d);
    k->data[at] = aligned_alloc(64, (k->bytes[at] + 127) & ~(size_t)63);
    k->start[at] = malloc(k->bytes[at]);
    k->copy[at] = malloc(k->bytes[at]);
    memset(k->start[at], 0, k->bytes[at]);
    for (int64_t i = 0; values && i < n; i++)
        scalar_store(d, values[i % n_values], (char *)k->start[at] + i * dtype_bytes(d));
    k->args[at].data = k->data[at];
    return at;
}

static Value *load_all(Kernel *k, int t)
{
    const Type *type = k->param[t]->type;
    Value *v[1 + TILE_MAX_RANK];
    int n = 0;
    v[n++] = k->param[t];
    for (int a = 0; a < type->rank; a++) v[n++] = ir_index(&k->b, 0);
    Attrs attrs = ATTRS(a_ints(ATTR_EXTENTS, k->args[t].shape, type->rank));
    return ir_emit(&k->b, OP_LOAD, v, n, attrs, NULL);
}

static Value *token_of(Kernel *k, int t)
{
    return k->token[t] ? k->token[t]
                       : (k->token[t] = ir_emit(&k->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, t)), NULL));
}

static void store_all(Kernel *k, int t, Value *x)
{
    Value *v[3 + TILE_MAX_RANK];
    int n = 0, rank = k->param[t]->type->rank;
    v[n++] = k->param[t];
    for (int a = 0; a < rank; a++) v[n++] = ir_index(&k->b, 0);
    v[n++] = x;
    v[n++] = token_of(k, t);
    k->token[t] = ir_emit(&k->b, OP_STORE, v, n, ATTRS(a_ints(ATTR_EXTENTS, k->args[t].shape, rank)), NULL);
}

/* A new output that takes all of `x`. */
static void output(Kernel *k, Value *x)
{
    int64_t one = 1;
    if (x->type->kind == TYPE_SCALAR) x = ir_splat(&k->b, x, 1, &one);
    int t = tensor(k, PARAM_OUT, x->type->dtype, x->type->rank, x->type->shape, NULL, 0);
    store_all(k, t, x);
}

static bool same(DType d, Scalar a, Scalar b, double slack)
{
    if (!dtype_is_float(d)) return a.i == b.i;
    if (isnan(a.f) || isnan(b.f)) return isnan(a.f) && isnan(b.f);
    if (a.f == b.f) return true;
    double unit = d == DT_F64      ? 0x1p-52
                  : d == DT_F32    ? 0x1p-23
                  : d == DT_F16    ? 0x1p-10
                  : d == DT_BF16   ? 0x1p-7
                  : d == DT_F8E4M3 ? 0x1p-3
                                   : 0x1p-2;
    double least = d == DT_F64      ? 0x1p-1074
                   : d == DT_F32    ? 0x1p-149
                   : d == DT_F16    ? 0x1p-24
                   : d == DT_BF16   ? 0x1p-133
                   : d == DT_F8E4M3 ? 0x1p-9
                                    : 0x1p-16;
    return slack > 0 && fabs(a.f - b.f) <= slack * unit * fabs(b.f) + (slack >= 1 ? least : 0);
}

static void compare(Kernel *k, const char *what, const char *cpu)
{
    for (int t = 0; t < k->n; t++) {
        const Param *p = &k->f->params[t];
        if (p->kind == PARAM_IN) continue;
        DType d = p->type->dtype;
        int size = dtype_bytes(d);
        for (size_t i = 0; i < k->bytes[t]; i += (size_t)size) {
            Scalar got = scalar_load(d, (char *)k->data[t] + i),
                   want = scalar_load(d, (char *)k->copy[t] + i);
            if (same(d, got, want, k->slack)) continue;
            if (dtype_is_float(d))
                printf("%s on %s: %s[%zu] is %.17g, want %.17g\n", what, cpu ? cpu : "host", p->name,
                    i / (size_t)size, got.f, want.f);
            else
                printf("%s on %s: %s[%zu] is %lld, want %lld\n", what, cpu ? cpu : "host", p->name,
                    i / (size_t)size, (long long)got.i, (long long)want.i);
            failures++;
            return;
        }
    }
}

static void reset(Kernel *k)
{
    for (int t = 0; t < k->n; t++) memcpy(k->data[t], k->start[t], k->bytes[t]);
}

/* Runs what was built on both and compares. */
static void finish(Kernel *k, const char *what)
{
    checks++;
    ir_build(&k->b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
    k->f->grid = ir_block_new(k->f, NULL);
    for (int t = 0; t < k->n; t++) ir_block_arg(k->f->grid, k->f->params[t].type, k->f->params[t].name);
    Builder g = ir_at_end(k->f->grid);
    Value *one = ir_index(&g, 1);
    ir_build(&g, OP_YIELD, &one, 1, NO_ATTRS, NULL, 0);
    reset(k);
    bool ok = ir_verify(k->f->module) && interp_run(&k->s, k->f, k->args, k->n);
    for (int t = 0; t < k->n; t++) memcpy(k->copy[t], k->data[t], k->bytes[t]);
    size_t n_cpus = sizeof cpus / sizeof *cpus;
    for (size_t c = everywhere ? 0 : (size_t)checks % n_cpus; ok && c < n_cpus;
        c += everywhere ? 1 : n_cpus) {
        if (cpus[c] && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) continue;
        CpuRun r = { 0 };
        BackendOptions o = { .opt_level = 2, .cpu = cpus[c], .verify_each = true };
        reset(k);
        ok = cpu_run_compile(&k->s, k->f, &o, &r) && cpu_run_bind(&k->s, k->f, k->args, &r) &&
             cpu_run_launch(&r) == 0;
        if (ok) compare(k, what, cpus[c]);
        cpu_run_free(&r);
    }
    if (!ok) {
        printf("%s: failed\n", what);
        failures++;
    }
}

static void end(Kernel *k)
{
    if (k->s.n_errors) {
        Text t;
        text_init(&t, &k->s.arena);
        diag_render_all(&k->s, &t);
        printf("%s", t.data);
        failures++;
    }
    for (int t = 0; t < k->n; t++) {
        free(k->data[t]);
        free(k->copy[t]);
        free(k->start[t]);
    }
    session_free(&k->s);
}

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
    begin(k); \
    if (!setjmp(k->s.oom))

/* --- parts ------------------------------------------------------------------------------------------- */

static bool takes(Op op, DType d)
{
    bool f = dtype_is_float(d), b = d == DT_BOOL;
    switch ((int)op) {
    case OP_REM:
    case OP_CDIV:
    case OP_SHL:
    case OP_SHR: return !f && !b;
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_NOT: return !f;
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_WHERE: return true;
    case OP_PHILOX: return !f && !b;
    case OP_CAST:
    case OP_BITCAST: return false;
    default: return op >= OP_EXP && op <= OP_ROUND ? f : !b;
    }
}

static void test_elem(Op op, DType d)
{
    static Scalar values[3][N_VALUES];
    KERNEL(k)
    {
        open_func(k);
        Value *v[3];
        int64_t n = N_VALUES;
        for (int o = 0; o < op_info[op].n_operands; o++) {
            DType t = op == OP_WHERE && o == 0    ? DT_BOOL
                      : op == OP_PHILOX && o == 0 ? (dtype_bits(d) == 64 ? DT_U64 : DT_U32)
                                                  : d;
            delicate(t, o, values[o]);
            v[o] = load_all(k, tensor(k, PARAM_IN, t, 1, &n, values[o], N_VALUES));
        }
        bool fn = op >= OP_EXP && op <= OP_SIGMOID && op != OP_SQRT;
        k->slack = fn ? (d == DT_F32 || d == DT_F64 ? 4 : 1) : 0;
        output(k, ir_emit(&k->b, op, v, op_info[op].n_operands, NO_ATTRS, NULL));
        finish(k, name_of(op, d));
    }
    end(k);
}

static void part_elem(void)
{
    for (int op = 0; op < OP_COUNT; op++)
        for (int d = 0; d < DT_COUNT; d++)
            if (op_info[op].flags & OPF_ELEM && takes((Op)op, (DType)d)) test_elem((Op)op, (DType)d);
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
                    open_func(k);
                    delicate((DType)from, 0, values);
                    Value *x = load_all(k, tensor(k, PARAM_IN, (DType)from, 1, &n, values, N_VALUES));
                    output(k, ir_op(&k->b, bits ? OP_BITCAST : OP_CAST,
                                  type_with_dtype(&k->s, x->type, (DType)to), NO_ATTRS, x));
                    snprintf(label, sizeof label, "%s %s to %s", bits ? "bitcast" : "cast",
                        dtype_name((DType)from), dtype_name((DType)to));
                    finish(k, label);
                }
                end(k);
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
                open_func(k);
                const int64_t *e = shapes[sh];
                gentle((DType)d, values, 1300);
                if (d == DT_BOOL)
                    for (int i = 0; i < 1300; i++) values[i].i &= 1;
                Value *x = load_all(k, tensor(k, PARAM_IN, (DType)d, 3, e, values, 1300));
                int64_t order[][3] = { { 2, 0, 1 }, { 1, 0, 2 }, { 2, 1, 0 } }, flat = e[0] * e[1] * e[2],
                        two[2] = { e[1], e[0] * e[2] };
                for (int o = 0; o < 3; o++)
                    output(k, ir_op(&k->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order[o], 3)), x));
                output(k, ir_op(&k->b, OP_RESHAPE, type_tile(&k->s, (DType)d, 2, two), NO_ATTRS,
                              ir_op(&k->b, OP_RESHAPE, type_tile(&k->s, (DType)d, 1, &flat), NO_ATTRS, x)));
                finish(k, name_of(OP_PERMUTE, (DType)d));
            }
            end(k);
            KERNEL(q)
            {
                open_func(q);
                const int64_t *e = shapes[sh];
                gentle((DType)d, values, 1300);
                if (d == DT_BOOL)
                    for (int i = 0; i < 1300; i++) values[i].i &= 1;
                Value *x = load_all(q, tensor(q, PARAM_IN, (DType)d, 3, e, values, 1300));
                Value *y = load_all(q, tensor(q, PARAM_IN, (DType)d, 3, e, values + 7, 1200));
                for (int a = 0; a < 3; a++) {
                    Value *c = ir_op(&q->b, OP_CONCAT, NULL, ATTRS(a_int(ATTR_AXIS, a)), x, y, x);
                    int64_t cut[3] = { e[0], e[1], e[2] };
                    cut[a] = e[a] + 1;
                    output(q, ir_op(&q->b, OP_SLICE, type_tile(&q->s, (DType)d, 3, cut),
                                  ATTRS(a_int(ATTR_AXIS, a), a_int(ATTR_START, 1)), c));
                }
                finish(q, name_of(OP_CONCAT, (DType)d));
            }
            end(q);
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
        open_func(k);
        if (variant == 2) delicate(d, 2, values);
        else gentle(d, values, 1300);
        if (d == DT_BOOL)
            for (int i = 0; i < 1300; i++) values[i].i &= 1;
        bool product = op == OP_REDUCE_PROD || op == OP_SCAN_PROD;
        for (int i = 0; product && i < 1300; i++)
            if (dtype_is_float(d)) values[i].f = i % 5 ? 1 : i % 2 ? 0.5 : 2;
        Value *x = load_all(k, tensor(k, PARAM_IN, d, 3, e, values, variant == 2 ? N_VALUES : 1300));
        Attrs attrs =
            ATTRS(a_int(ATTR_AXIS, axis), a_int(op >= OP_SCAN_SUM ? ATTR_REVERSE : ATTR_DROP, variant & 1));
        if (op == OP_REDUCE || op == OP_SCAN) {
            Instr *i = ir_build(&k->b, op, &x, 1, attrs, NULL, 0);
            combine_block(k, i, d);
            output(k, ir_result(i));
        } else {
            output(k, ir_emit(&k->b, op, &x, 1, attrs, NULL));
        }
        bool sum = op == OP_REDUCE_SUM || op == OP_SCAN_SUM;
        k->slack = sum && dtype_is_float(d) ? (dtype_bits(d) < 32 ? 1 : 64) : 0;
        finish(k, name_of(op, d));
    }
    end(k);
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
        for (int variant = 0; variant < 3; variant++) {
            KERNEL(k)
            {
                open_func(k);
                int64_t e[2] = { 3, variant == 1 ? 128 : 37 };
                if (variant == 2) gentle((DType)d, values, N_VALUES);
                else delicate((DType)d, 2, values);
                /* zeros of both signs are equal: keep one, as the place of the other is not defined by sort
                 */
                for (int i = 0; i < N_VALUES; i++)
                    if (dtype_is_float((DType)d) && values[i].f == 0) values[i].f = 0;
                Value *x = load_all(k, tensor(k, PARAM_IN, (DType)d, 2, e, values, N_VALUES));
                output(k, ir_op(&k->b, OP_SORT, NULL, ATTRS(a_int(ATTR_REVERSE, variant & 1)), x));
                Instr *t = ir_build(&k->b, OP_TOPK, &x, 1, ATTRS(a_int(ATTR_COUNT, 9)), NULL, 0);
                output(k, &t->results[0]);
                output(k, &t->results[1]);
                finish(k, name_of(OP_TOPK, (DType)d));
            }
            end(k);
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
            open_func(k);
            gentle((DType)d, values, 64);
            if (d == DT_BOOL)
                for (int i = 0; i < 64; i++) values[i].i &= 1;
            int x = tensor(k, PARAM_IN, (DType)d, 1, &n, values, 64),
                y = tensor(k, PARAM_INOUT, (DType)d, 1, &n, values + 3, 50);
            Value *at = load_all(k, tensor(k, PARAM_IN, d % 2 ? DT_I32 : DT_INDEX, 1, &m, index, 40)),
                  *on = load_all(k, tensor(k, PARAM_IN, DT_BOOL, 1, &m, mask, 40));
            Value *pad = constant(k, (DType)d, dtype_is_float((DType)d) ? scalar_float(1) : scalar_int(1));
            Value *g = ir_op(&k->b, OP_GATHER, NULL, ATTRS(a_int(ATTR_HAS_MASK, 1), a_int(ATTR_HAS_PAD, 1)),
                k->param[x], at, on, pad);
            output(k, g);
            k->token[y] = ir_op(&k->b, OP_SCATTER, NULL, ATTRS(a_int(ATTR_HAS_MASK, 1)), k->param[y], at, g,
                on, token_of(k, y));
            finish(k, name_of(OP_GATHER, (DType)d));
        }
        end(k);
        bool f = dtype_is_float((DType)d),
             ok = d != DT_BOOL && (dtype_bits((DType)d) >= 32 || d == DT_F16 || d == DT_BF16);
        for (int rmw = 0; ok && rmw <= RMW_COUNT_; rmw++) {
            bool cas = rmw == RMW_COUNT_;
            if ((f && rmw >= RMW_AND && !cas) || (cas && dtype_bits((DType)d) < 32)) continue;
            KERNEL(q)
            {
                open_func(q);
                gentle((DType)d, values, 64);
                int y = tensor(q, PARAM_INOUT, (DType)d, 1, &few, values + 3, 50);
                Value *at = load_all(q, tensor(q, PARAM_IN, DT_INDEX, 1, &m, small, 40)),
                      *on = load_all(q, tensor(q, PARAM_IN, DT_BOOL, 1, &m, mask, 40));
                Value *x = load_all(q, tensor(q, PARAM_IN, (DType)d, 1, &m, values, 40));
                Value *v[] = { q->param[y], at, x, cas ? x : on, cas ? on : token_of(q, y),
                    cas ? token_of(q, y) : NULL };
                Attrs attrs =
                    ATTRS(a_int(ATTR_HAS_MASK, 1), a_int(ATTR_SEM, rmw % 4), a_int(ATTR_RMW, cas ? 0 : rmw));
                Instr *i =
                    ir_build(&q->b, cas ? OP_ATOMIC_CAS : OP_ATOMIC_RMW, v, cas ? 6 : 5, attrs, NULL, 0);
                output(q, &i->results[0]);
                finish(q, name_of(i->op, (DType)d));
            }
            end(q);
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
        { 64, 3, 7 }, { 70, 130, 40 } };
    static Scalar a[9000], b[9000], c[9200];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++)
            for (int turned = 0; turned < 4; turned++) {
                KERNEL(k)
                {
                    open_func(k);
                    const int64_t *e = sizes[z];
                    int64_t m = e[0], n = e[1], kk = e[2], order[2] = { 1, 0 };
                    int64_t as[2] = { turned & 1 ? kk : m, turned & 1 ? m : kk },
                            bs[2] = { turned & 2 ? n : kk, turned & 2 ? kk : n }, cs[2] = { m, n };
                    gentle(types[t][0], a, 9000);
                    gentle(types[t][1], b, 9000);
                    gentle(types[t][2], c, 9200);
                    Value *x = load_all(k, tensor(k, PARAM_IN, types[t][0], 2, as, a, 9000)),
                          *y = load_all(k, tensor(k, PARAM_IN, types[t][1], 2, bs, b, 9000));
                    if (turned & 1)
                        x = ir_op(&k->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, 2)), x);
                    if (turned & 2)
                        y = ir_op(&k->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, 2)), y);
                    Value *acc = load_all(k, tensor(k, PARAM_IN, types[t][2], 2, cs, c, 9200));
                    Value *zero = ir_splat(&k->b, constant(k, types[t][2], (Scalar){ 0 }), 2, cs);
                    output(k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, acc));
                    output(k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, zero));
                    snprintf(label, sizeof label, "mma %s %s, %lldx%lldx%lld, turned %d",
                        dtype_name(types[t][0]), dtype_name(types[t][1]), (long long)m, (long long)n,
                        (long long)kk, turned);
                    finish(k, label);
                }
                end(k);
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
