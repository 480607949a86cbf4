/* bench_against.c: `--against=openblas,torch`: the same result by another library, where it is found. A
 * provider takes part when the kernel's extents have the form of its operation; its result is checked as a
 * step's is. */
#include "tools/tilec/bench/bench.h"
#include "ir/support/number.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

/* What the names of the kernel's extents say that it computes. */
typedef enum Operation { NO_OPERATION, MATRIX_PRODUCT, ATTENTION } Operation;

typedef struct Operands {
    Operation operation;
    const Parameter *in[3], *out;
} Operands;

static bool same_dims(const Parameter *a, int i, const Parameter *b, int k)
{ return !strcmp(a->info.dims[i], b->info.dims[k]); }

/* C[m, n] from A[m, k] and B[k, n]. */
static bool is_product(const Operands *o)
{
    const Parameter *a = o->in[0], *b = o->in[1], *c = o->out;
    return !o->in[2] && a->info.rank == 2 && b->info.rank == 2 && c->info.rank == 2 &&
           same_dims(a, 0, c, 0) && same_dims(a, 1, b, 0) && same_dims(b, 1, c, 1) && !same_dims(a, 0, a, 1);
}

/* O[.., m, d] from Q[.., m, d], K[.., n, d] and V[.., n, d]. */
static bool is_attention(const Operands *o)
{
    const Parameter *q = o->in[0], *k = o->in[1], *v = o->in[2], *out = o->out;
    int r = q->info.rank;
    if (!v || r < 3 || k->info.rank != r || v->info.rank != r || out->info.rank != r) return false;
    return same_dims(q, r - 1, k, r - 1) && same_dims(k, r - 2, v, r - 2) && same_dims(q, r - 2, out, r - 2);
}

/* The tensors that the launch gives: two or three inputs and one output. */
static Operands operands_of(const Run *r)
{
    Operands o = { 0 };
    int n = 0;
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (p->info.kind == TILE_PARAM_SCALAR || p->left_out) continue;
        bool input = p->info.kind == TILE_PARAM_IN;
        if (input ? n == 3 : p->info.kind != TILE_PARAM_OUT || o.out) return (Operands){ 0 };
        if (input) o.in[n++] = p;
        else o.out = p;
    }
    if (n < 2 || !o.out) return (Operands){ 0 };
    o.operation = is_product(&o) ? MATRIX_PRODUCT : is_attention(&o) ? ATTENTION : NO_OPERATION;
    return o;
}

static bool dense(const Parameter *p)
{
    int64_t step = 1;
    for (int a = p->host.rank; a-- > 0; step *= p->host.shape[a])
        if (p->host.shape[a] > 1 && p->host.strides[a] != step) return false;
    return true;
}

/* --- OpenBLAS ---------------------------------------------------------------------------------------- */

static void *open_blas(void)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return library ? library : dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
}

typedef void SgemmFn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
    const float *b, int ldb, float beta, float *c, int ldc);
typedef void DgemmFn(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
    const double *b, int ldb, double beta, double *c, int ldc);

typedef struct Blas {
    SgemmFn *single;
    DgemmFn *wide;
    const Operands *o;
} Blas;

static void multiply(const Blas *x)
{
    enum { ROW_MAJOR = 101, AS_IT_IS = 111 };
    const Parameter *a = x->o->in[0], *b = x->o->in[1], *c = x->o->out;
    int m = (int)c->host.shape[0], n = (int)c->host.shape[1], k = (int)a->host.shape[1];
    if (c->host.dtype == DT_F32)
        x->single(ROW_MAJOR, AS_IT_IS, AS_IT_IS, m, n, k, 1, a->device, k, b->device, n, 0, c->device, n);
    else x->wide(ROW_MAJOR, AS_IT_IS, AS_IT_IS, m, n, k, 1, a->device, k, b->device, n, 0, c->device, n);
}

static void time_blas(Bench *b, const Blas *x, Measured *out)
{
    enum { MAX = 10000 };
    int64_t repeat = 0, start = clock_ns(), limit = (int64_t)(b->seconds * 1e9);
    double *ms = arena_array(&b->tool->arena, double, MAX);
    int n = 0;
    args_int(b->tool, b->args, FLAG_REPEAT, 1, MAX, &repeat);
    for (; n < (repeat ? repeat : MAX) && (repeat || n < 3 || clock_ns() - start < limit); n++) {
        int64_t begin = clock_ns();
        multiply(x);
        ms[n] = (double)(clock_ns() - begin) * 1e-6;
    }
    *out = measure_summary(ms, n);
}

static const char *run_blas(Bench *b, Run *r, const Operands *o, Reference *ref, BenchRow *row)
{
    void *library = open_blas(), *single = library ? dlsym(library, "cblas_sgemm") : NULL,
         *wide = library ? dlsym(library, "cblas_dgemm") : NULL,
         *set = library ? dlsym(library, "openblas_set_num_threads") : NULL;
    DType d = o->operation == MATRIX_PRODUCT ? o->out->host.dtype : DT_COUNT;
    Blas x = { .o = o };
    int64_t threads = 0;
    if ((d != DT_F32 && d != DT_F64) || o->in[0]->host.dtype != d || o->in[1]->host.dtype != d)
        return "the kernel is no product of two matrices of f32 or f64 by the names of its extents";
    if (!dense(o->in[0]) || !dense(o->in[1])) return "it takes row-major matrices without gaps";
    if (!single || !wide) return "the library lacks cblas_sgemm or cblas_dgemm";
    memcpy(&x.single, &single, sizeof single);
    memcpy(&x.wide, &wide, sizeof wide);
    args_int(b->tool, b->args, FLAG_THREADS, 0, 4096, &threads);
    void (*set_threads)(int);
    memcpy(&set_threads, &set, sizeof set);
    if (set && threads) set_threads((int)threads);
    multiply(&x); /* not counted */
    bench_check_results(b, r, ref, row);
    time_blas(b, &x, &row->time);
    return NULL; /* The library stays: its threads may still be running. */
}

/* --- PyTorch ----------------------------------------------------------------------------------------- */

/* Reads raw tensors, computes, writes the result, and prints a time for each launch: on a GPU between two
 * events, as tilec's own launches are timed, with --graph around a graph of several. */
static const char torch_program[] =
    "import sys, time, torch\n"
    "operation, device, threads, repeat, causal, scale, folder, graph, n = sys.argv[1:10]\n"
    "types = {'f16': torch.float16, 'bf16': torch.bfloat16, 'f32': torch.float32, 'f64': torch.float64}\n"
    "tensors = []\n"
    "for i in range(int(n)):\n"
    "    kind, *shape = sys.argv[10 + i].split(',')\n"
    "    data = bytearray(open(f'{folder}/in{i}', 'rb').read())\n"
    "    tensors.append(torch.frombuffer(data, dtype=types[kind]).reshape([int(x) for x in "
    "shape]).to(device))\n"
    "if int(threads): torch.set_num_threads(int(threads))\n"
    "def compute():\n"
    "    if operation == 'product': return torch.matmul(tensors[0], tensors[1])\n"
    "    return torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal == '1',\n"
    "        scale=float(scale) if scale != '-' else None)\n"
    "def wait():\n"
    "    if device == 'cuda': torch.cuda.synchronize()\n"
    "result = compute()\n"
    "wait()\n"
    "open(f'{folder}/out', 'wb').write(bytes(result.to(types[sys.argv[10 + "
    "int(n)]]).contiguous().cpu().flatten()"
    ".view(torch.uint8).tolist()))\n"
    "launches = 16 if int(graph) else 1\n"
    "run = compute\n"
    "if int(graph):\n"
    "    captured = torch.cuda.CUDAGraph()\n"
    "    with torch.cuda.graph(captured):\n"
    "        for i in range(launches): compute()\n"
    "    run = captured.replay\n"
    "    run()\n"
    "def timed():\n"
    "    if device == 'cuda':\n"
    "        begin, end = (torch.cuda.Event(enable_timing=True) for i in range(2))\n"
    "        begin.record()\n"
    "        run()\n"
    "        end.record()\n"
    "        end.synchronize()\n"
    "        return begin.elapsed_time(end) / launches\n"
    "    start = time.perf_counter()\n"
    "    run()\n"
    "    return (time.perf_counter() - start) * 1e3\n"
    "begin = time.perf_counter()\n"
    "count = 0\n"
    "while count < int(repeat) if int(repeat) else count < 3 or time.perf_counter() - begin < 1:\n"
    "    print(timed())\n"
    "    count += 1\n";

static bool has_torch(void) { return !system("python3 -c 'import torch' >/dev/null 2>&1"); }

static bool put_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, n, f) == n;
    return f && !fclose(f) && ok;
}

static const char *torch_shape(Arena *a, const Parameter *p)
{
    Text t;
    text_init(&t, a);
    text_puts(&t, dtype_name(p->host.dtype));
    for (int k = 0; k < p->host.rank; k++) text_printf(&t, ",%lld", (long long)p->host.shape[k]);
    return t.data;
}

/* A const named CAUSAL, in either case, says whether keys beyond the query count. */
static bool is_causal(const Run *r)
{
    const FrontKernel *k = frontend_kernel_find(module_program(r->module), r->kernel_name);
    bool causal = false;
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *p = &k->params[i];
        if (strcmp(p->name, "CAUSAL") && strcmp(p->name, "causal")) continue;
        causal = p->default_value.kind == FRONT_BOOL && p->default_value.b;
        for (size_t b = 0; b < r->n_bindings; b++)
            if (!strcmp(r->bindings[b].name, p->name)) causal = !strcmp(r->bindings[b].value.text, "true");
    }
    return causal;
}

/* The only floating scalar of attention is the factor of the scores; "-" where there is none. */
static const char *scale_of(const Run *r)
{
    const char *scale = "-";
    for (size_t i = 0; i < r->n_params; i++)
        if (r->params[i].info.kind == TILE_PARAM_SCALAR && r->launch_args[i].kind == TILE_ARG_FLOAT)
            scale = arena_printf(&r->tool->arena, "%.17g", r->launch_args[i].value.f);
    return scale;
}

static const char *torch_command(Bench *b, Run *r, const Operands *o, const char *folder)
{
    Text t;
    int64_t repeat = 0, threads = 0;
    int n = o->in[2] ? 3 : 2;
    args_int(b->tool, b->args, FLAG_REPEAT, 1, 10000, &repeat);
    args_int(b->tool, b->args, FLAG_THREADS, 0, 4096, &threads);
    text_init(&t, &b->tool->arena);
    text_printf(&t, "python3 '%s/program.py' %s %s %lld %lld %d %s '%s' %d %d", folder,
        o->operation == ATTENTION ? "attention" : "product",
        context_target(r->context)->kind == TARGET_CPU ? "cpu" : "cuda", (long long)threads,
        (long long)repeat, is_causal(r), scale_of(r), folder, args_has(b->args, FLAG_GRAPH), n);
    for (int i = 0; i < n; i++) text_printf(&t, " %s", torch_shape(&b->tool->arena, o->in[i]));
    text_printf(&t, " %s 2>'%s/errors'", dtype_name(o->out->host.dtype), folder);
    return t.data;
}

/* The last line of what the program wrote to stderr: Python's exception. */
static const char *torch_failure(Bench *b, const char *folder)
{
    FileText errors;
    if (!file_read(b->tool, arena_printf(&b->tool->arena, "%s/errors", folder), 1 << 20, &errors))
        return "the program for PyTorch failed";
    while (errors.len && strchr(" \n", errors.data[errors.len - 1])) errors.len--;
    size_t start = errors.len;
    while (start && errors.data[start - 1] != '\n') start--;
    return arena_printf(&b->tool->arena, "the program for PyTorch failed: %.*s",
        (int)(errors.len - start < 200 ? errors.len - start : 200), errors.data + start);
}

/* False: it failed, or printed no time. All that it prints is read, else it would die of a closed pipe. */
static bool read_times(Bench *b, const char *command, Measured *out)
{
    enum { MAX = 10000 };
    double *ms = arena_array(&b->tool->arena, double, MAX);
    char line[128], *end;
    int n = 0;
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f)) {
        double value = number_read(line, &end);
        if (end != line && n < MAX) ms[n++] = value;
    }
    if (!f || pclose(f) || !n) return false;
    *out = measure_summary(ms, n);
    return true;
}

static const char *compute_by_torch(
    Bench *b, Run *r, const Operands *o, const char *folder, Reference *ref, BenchRow *row)
{
    Arena *a = &b->tool->arena;
    FileText result;
    Measured time;
    bool ok = put_file(arena_printf(a, "%s/program.py", folder), torch_program, sizeof torch_program - 1);
    for (int i = 0; i < 3 && o->in[i]; i++)
        ok &= put_file(arena_printf(a, "%s/in%d", folder, i), o->in[i]->host.data, o->in[i]->host.bytes);
    if (!ok) return "its inputs cannot be written to a temporary folder";
    if (!read_times(b, torch_command(b, r, o, folder), &time)) return torch_failure(b, folder);
    if (!file_read(b->tool, arena_printf(a, "%s/out", folder), o->out->host.bytes + 1, &result) ||
        result.len != o->out->host.bytes ||
        tile_copy(r->context, o->out->device, result.data, result.len, NULL) ||
        tile_context_synchronize(r->context))
        return "its result has another size than the kernel's";
    row->time = time;
    bench_check_results(b, r, ref, row);
    return NULL;
}

static const char *run_torch(Bench *b, Run *r, const Operands *o, Reference *ref, BenchRow *row)
{
    static const char *const files[] = { "program.py", "in0", "in1", "in2", "out", "errors" };
    Arena *a = &b->tool->arena;
    const char *base = getenv("TMPDIR");
    char *folder = arena_printf(a, "%s/tilecXXXXXX", base && *base && !strchr(base, '\'') ? base : "/tmp");
    if (o->operation == NO_OPERATION)
        return "the kernel is neither a product of matrices nor attention by the names of its extents";
    for (int i = 0; i < 3 && o->in[i]; i++)
        if (!dense(o->in[i]) || dtype_bytes(o->in[i]->host.dtype) < 2 ||
            !dtype_is_float(o->in[i]->host.dtype))
            return "it takes row-major tensors of f16, bf16, f32 or f64";
    if (!mkdtemp(folder)) return "there is no temporary folder";
    const char *why = compute_by_torch(b, r, o, folder, ref, row);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(arena_printf(a, "%s/%s", folder, files[i]));
    rmdir(folder);
    return why;
}

/* --- all --------------------------------------------------------------------------------------------- */

int against_open(Bench *b)
{
    Strings names = args_list(b->tool, b->args, FLAG_AGAINST);
    for (size_t i = 0; i < names.len; i++) {
        const char *name = names.data[i];
        bool blas = !strcmp(name, "openblas"), torch = !strcmp(name, "torch");
        if (!blas && !torch)
            return tool_usage(b->tool, "there is no provider `%s`; there are openblas and torch", name);
        bool cpu = !strncmp(b->target, "cpu", 3);
        bool found = blas ? cpu && open_blas() : has_torch();
        if (found)
            vec_push(&b->tool->arena, &b->columns, ((BenchColumn){ name, "another library", NULL, true }));
        else if (blas && !cpu) tool_warning(b->tool, "openblas is left out: it computes on the CPU only");
        else
            tool_warning(b->tool, "%s is left out: %s is not found here", name,
                blas ? "libopenblas.so.0" : "python3 with the package torch");
    }
    return EXIT_OK;
}

void against_run(Bench *b, Run *r, Reference *ref, BenchRow *row)
{
    Operands o = operands_of(r);
    bool blas = !strcmp(b->columns.data[row->column].name, "openblas");
    const char *why = blas ? run_blas(b, r, &o, ref, row) : run_torch(b, r, &o, ref, row);
    if (!why) return;
    row->state = BENCH_ABSENT;
    row->reason = why;
}
