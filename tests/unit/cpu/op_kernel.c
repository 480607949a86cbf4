/* op_kernel.c: see op_kernel.h. Results are equal to the bit, but for functions and sums of floats, which
 * have a slack. */
#include "op_kernel.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int failures, checks;
bool everywhere;
const BackendOptions *kernel_only;
static const char *const cpus[] = { NULL, "x86-64-v3" };

void kernel_begin(Kernel *k)
{
    memset(k, 0, sizeof *k);
    session_init(&k->s, allocator_libc);
}

void kernel_open_func(Kernel *k)
{
    k->f = ir_func_new(ir_module_new(&k->s), "op", true);
    k->b = ir_at_end(k->f->body);
}

int kernel_tensor(
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

Value *kernel_load_all(Kernel *k, int t)
{
    const Type *type = k->param[t]->type;
    Value *v[1 + TILE_MAX_RANK];
    int n = 0;
    v[n++] = k->param[t];
    for (int a = 0; a < type->rank; a++) v[n++] = ir_index(&k->b, 0);
    Attrs attrs = ATTRS(a_ints(ATTR_EXTENTS, k->args[t].shape, type->rank));
    return ir_emit(&k->b, OP_LOAD, v, n, attrs, NULL);
}

Value *kernel_token_of(Kernel *k, int t)
{
    return k->token[t] ? k->token[t]
                       : (k->token[t] = ir_emit(&k->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, t)), NULL));
}

void kernel_store_all(Kernel *k, int t, Value *x)
{
    Value *v[3 + TILE_MAX_RANK];
    int n = 0, rank = k->param[t]->type->rank;
    v[n++] = k->param[t];
    for (int a = 0; a < rank; a++) v[n++] = ir_index(&k->b, 0);
    v[n++] = x;
    v[n++] = kernel_token_of(k, t);
    k->token[t] = ir_emit(&k->b, OP_STORE, v, n, ATTRS(a_ints(ATTR_EXTENTS, k->args[t].shape, rank)), NULL);
}

void kernel_output(Kernel *k, Value *x)
{
    int64_t one = 1;
    if (x->type->kind == TYPE_SCALAR) x = ir_splat(&k->b, x, 1, &one);
    int t = kernel_tensor(k, PARAM_OUT, x->type->dtype, x->type->rank, x->type->shape, NULL, 0);
    kernel_store_all(k, t, x);
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

static bool run_compiled(Kernel *k, const char *what, const BackendOptions *o)
{
    CpuRun r = { 0 };
    reset(k);
    bool ok = cpu_run_compile(&k->s, k->f, o, &r) && cpu_run_bind(&k->s, k->f, k->args, &r) &&
              cpu_run_launch(&r) == 0;
    if (ok) compare(k, what, o->cpu);
    cpu_run_free(&r);
    return ok;
}

void kernel_product(Kernel *k, const DType types[3], const int64_t size[3], int turned, const Scalar *a,
    const Scalar *b, const Scalar *c, int n)
{
    char label[96];
    int64_t rows = size[0], columns = size[1], deep = size[2], order[2] = { 1, 0 };
    int64_t as[2] = { turned & 1 ? deep : rows, turned & 1 ? rows : deep },
            bs[2] = { turned & 2 ? columns : deep, turned & 2 ? deep : columns }, cs[2] = { rows, columns };
    kernel_open_func(k);
    Value *x = kernel_load_all(k, kernel_tensor(k, PARAM_IN, types[0], 2, as, a, n)),
          *y = kernel_load_all(k, kernel_tensor(k, PARAM_IN, types[1], 2, bs, b, n));
    if (turned & 1) x = ir_op(&k->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, 2)), x);
    if (turned & 2) y = ir_op(&k->b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, 2)), y);
    Value *acc = kernel_load_all(k, kernel_tensor(k, PARAM_IN, types[2], 2, cs, c, n));
    Value *zero = ir_splat(&k->b,
        dtype_is_float(types[2]) ? ir_const_float(&k->b, types[2], 0) : ir_const_int(&k->b, types[2], 0), 2,
        cs);
    kernel_output(k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, acc));
    kernel_output(k, ir_op(&k->b, OP_MMA, NULL, NO_ATTRS, x, y, zero));
    snprintf(label, sizeof label, "mma %s %s, %lldx%lldx%lld, turned %d", dtype_name(types[0]),
        dtype_name(types[1]), (long long)rows, (long long)columns, (long long)deep, turned);
    kernel_finish(k, label);
}

void kernel_finish(Kernel *k, const char *what)
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
    for (size_t c = everywhere ? 0 : (size_t)checks % n_cpus; ok && c < n_cpus && !kernel_only;
        c += everywhere ? 1 : n_cpus) {
        if (cpus[c] && !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) continue;
        BackendOptions o = { .opt_level = 2 + checks / (int)n_cpus % 2, .cpu = cpus[c], .verify_each = true };
        ok = run_compiled(k, what, &o);
    }
    if (ok && kernel_only) ok = run_compiled(k, what, kernel_only);
    if (!ok) {
        printf("%s: failed\n", what);
        failures++;
    }
}

void kernel_end(Kernel *k)
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
