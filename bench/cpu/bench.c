/* bench.c: tile_bench_cpu: our kernels and their peers in one run, on the same threads.
 *
 *     tile_bench_cpu                     the whole table, on one thread and on all, in half an hour
 *     tile_bench_cpu --threads=2 --only=gemm --seconds=1 --python=VENV/bin/python
 *     tile_bench_cpu --only="gemm f32" --consts="TM=96 TN=96"    another configuration than is chosen
 *     tile_bench_cpu --kernels=KERNELS --folder=HERE             on a machine without this source
 *
 * Ours and the peer run in turn; a figure is the best of its runs, a ratio the median over rounds of the best
 * of one side by the best of the other, so that what else the machine does hits both. One thread is timed by
 * its processor time. Peers are optional: OpenBLAS (dlopen),
 * PyTorch (a Python that has it: --python), memcpy. Every result is checked before it is timed. Nothing is
 * written: figures worth keeping are copied into bench/results/cpu.md by hand, with date and machine. */
#define _DEFAULT_SOURCE
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#include <unistd.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static double least(const double *x, int n)
{
    double best = x[0];
    for (int i = 1; i < n; i++)
        if (x[i] < best) best = x[i];
    return best;
}

/* Seconds of a call: of processor time if it runs on this thread alone. */
static bool alone;
static double clock_of_calls(void)
{
    struct timespec t;
    clock_gettime(alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double timed(BenchFn *f, void *arg)
{
    double t = clock_of_calls();
    f(arg);
    return clock_of_calls() - t;
}

/* Idle threads of either side go on spinning for a while and would take a core from the other. */
static void rest(const Bench *b)
{
    if (b->threads > 1) nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
}

BenchPair bench_pair(const Bench *b, BenchFn *ours, void *arg, double (*peer)(void *), void *peer_arg)
{
    enum { MOST = 500, ROUNDS = 5 };
    double mine[MOST], theirs[MOST], ratio[ROUNDS], share = b->seconds / ROUNDS / 2;
    int n = 0, m = 0;
    alone = b->threads == 1;
    ours(arg);
    for (int r = 0; r < ROUNDS; r++) {
        int n0 = n, m0 = m;
        rest(b);
        ours(arg);
        for (double start = bench_now();
            n < MOST / ROUNDS * (r + 1) && (n < n0 + 2 || bench_now() - start < share); n++)
            mine[n] = timed(ours, arg);
        ratio[r] = 0;
        if (!peer) continue;
        rest(b);
        peer(peer_arg);
        for (double start = bench_now();
            m < MOST / ROUNDS * (r + 1) && (m < m0 + 2 || bench_now() - start < share); m++)
            theirs[m] = peer(peer_arg);
        ratio[r] = least(theirs + m0, m - m0) / least(mine + n0, n - n0);
    }
    return (BenchPair){ least(mine, n), m ? least(theirs, m) : 0, median(ratio, ROUNDS) };
}

double bench_call(void *arg)
{
    const BenchCall *c = arg;
    return timed(c->fn, c->arg);
}

bool bench_wants_some(const Bench *b, const char *beginning)
{ return bench_wanted(b, beginning) || !strncmp(b->only, beginning, strlen(beginning)); }

bool bench_wanted(const Bench *b, const char *row) { return !b->only || strstr(row, b->only); }

static bool complain(Bench *b, const char *what, tile_status status)
{
    char text[600];
    tile_context_error(b->context, text, sizeof text);
    fprintf(stderr, "%s: %s: %s\n", what, tile_status_name(status), text);
    b->failures++;
    return false;
}

bool bench_load(Bench *b, const char *file, const char *name, const char *consts, BenchLaunch *l)
{
    char path[512], copy[256], *rest = copy;
    tile_binding bindings[16];
    size_t n = 0;
    memset(l, 0, sizeof *l);
    snprintf(path, sizeof path, "%s%s%s.tile", strchr(file, '/') ? "" : b->kernels,
        strchr(file, '/') ? "" : "/", file);
    snprintf(copy, sizeof copy, "%s %s", consts, b->consts ? b->consts : "");
    for (char *w; (w = strtok_r(rest, " ", &rest)) && n < 16; n++) {
        char *equals = strchr(w, '=');
        *equals = 0;
        bindings[n] = (tile_binding){ .name = w, .kind = TILE_BIND_TEXT, .value.text = equals + 1 };
    }
    tile_module *module;
    tile_status status = tile_module_load_file(b->context, path, NULL, &module);
    if (status != TILE_OK) return complain(b, path, status);
    status = tile_kernel_create(module, name, bindings, n, &l->kernel);
    tile_module_destroy(module);
    return status == TILE_OK || complain(b, name, status);
}

void bench_tensor(BenchLaunch *l, void *data, int rank, const int64_t *shape)
{
    l->tensors[l->n] = (tile_tensor){ .data = data, .shape = shape, .rank = rank };
    l->args[l->n] = tile_arg_tensor(&l->tensors[l->n]);
    l->n++;
}

void bench_matrix(BenchLaunch *l, void *data, int64_t rows, int64_t columns, bool turned)
{
    int64_t *shape = l->shapes[l->n], *strides = l->strides[l->n];
    shape[0] = rows, shape[1] = columns;
    strides[0] = turned ? 1 : columns, strides[1] = turned ? rows : 1;
    bench_tensor(l, data, 2, shape);
    l->tensors[l->n - 1].strides = strides;
}

void bench_scalar(BenchLaunch *l, double v) { l->args[l->n++] = tile_arg_float(v); }

bool bench_try(Bench *b, BenchLaunch *l)
{
    tile_status status = tile_launch(l->kernel, l->args, (size_t)l->n, NULL);
    return status == TILE_OK || complain(b, "launch", status);
}

void bench_launch(void *arg)
{
    BenchLaunch *l = arg;
    (void)tile_launch(l->kernel, l->args, (size_t)l->n, NULL); /* bench_try was there first */
}

void bench_free(BenchLaunch *l)
{
    if (l->kernel) tile_kernel_destroy(l->kernel);
    l->kernel = NULL;
}

static void print_row(const char *row, const char *ours, const char *peer, const char *unit,
    const char *ratio, const char *must, bool ok, const char *peer_name)
{
    printf("%-46s %9s %9s %-8s %6s %6s  %-6s%s\n", row, ours, peer, unit, ratio, must,
        must[0] == '-' ? ""
        : ok           ? "ok"
                       : "short",
        peer_name);
    fflush(stdout);
}

void bench_row(Bench *b, const char *row, const char *unit, double amount, BenchPair t, const char *peer_name,
    double must)
{
    char name[96], ours[32], peer[32] = "-", ratio[32] = "-", goal[32] = "-";
    bool has = t.peer > 0;
    snprintf(name, sizeof name, "%s, %d thread%s", row, b->threads, b->threads == 1 ? "" : "s");
    snprintf(ours, sizeof ours, "%.1f", amount / t.ours);
    if (has) snprintf(peer, sizeof peer, "%.1f", amount / t.peer);
    if (has) snprintf(ratio, sizeof ratio, "%.2f", t.ratio);
    if (has) snprintf(goal, sizeof goal, "%.2f", must);
    if (has && t.ratio < must) b->short_of++;
    print_row(name, ours, peer, unit, ratio, goal, t.ratio >= must, has ? peer_name : "");
}

void bench_limit(Bench *b, const char *row, const char *unit, double figure, double most)
{
    char ours[32], goal[32];
    snprintf(ours, sizeof ours, "%.2f", figure);
    snprintf(goal, sizeof goal, "%g", most);
    if (figure > most) b->short_of++;
    print_row(row, ours, "-", unit, "-", goal, figure <= most, "");
}

static uint16_t to_bf16(float v)
{
    uint32_t b;
    memcpy(&b, &v, 4);
    return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
static float from_bf16(uint16_t v)
{
    uint32_t b = (uint32_t)v << 16;
    float f;
    memcpy(&f, &b, 4);
    return f;
}

/* Huge pages where the system gives them on request only, as most give them to large arrays anyway; ours and
 * the peers work on the same. */
void *bench_random(tile_dtype type, int64_t n, uint64_t seed)
{
    enum { HUGE = 2 << 20, PATTERN = 1 << 20 };
    size_t size = tile_dtype_size(type), bytes = (size_t)n * size;
    size_t align = bytes >= 4 * HUGE ? HUGE : 64;
    char *data = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (!data) return fprintf(stderr, "out of memory: %zu bytes\n", bytes), exit(1), NULL;
    if (align == HUGE) madvise(data, bytes, MADV_HUGEPAGE);
    for (int64_t i = 0; i < n && i < PATTERN; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float v = (float)(seed >> 40) * 0x1p-23f - 1;
        if (type == TILE_F32) ((float *)data)[i] = v;
        else if (type == TILE_F16) ((_Float16 *)data)[i] = (_Float16)v;
        else if (type == TILE_BF16) ((uint16_t *)data)[i] = to_bf16(v);
        else data[i] = (char)(v * 100);
    }
    size_t period = ((size_t)PATTERN - 7) * size; /* Not a power of two, so that rows differ. */
    for (size_t at = (size_t)PATTERN * size; at < bytes; at += period)
        memcpy(data + at, data, bytes - at < period ? bytes - at : period);
    return data;
}

double bench_value(tile_dtype type, const void *array, int64_t i)
{
    return type == TILE_F32   ? ((const float *)array)[i]
           : type == TILE_F16 ? (double)((const _Float16 *)array)[i]
                              : from_bf16(((const uint16_t *)array)[i]);
}

static void on_diagnostic(void *user, const tile_diagnostic *d)
{
    if (d->severity == TILE_SEVERITY_ERROR) fputs(d->rendered, stderr);
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool run(Bench *b, bool overhead)
{
    char why[400];
    tile_context_desc desc = { .struct_size = sizeof desc,
        .target = "cpu",
        .threads = b->threads,
        .flags = TILE_CONTEXT_NO_CACHE,
        .on_diagnostic = on_diagnostic };
    if (tile_context_create_error(&desc, &b->context, why, sizeof why) != TILE_OK)
        return fprintf(stderr, "cpu: %s\n", why), false;
    bench_products(b);
    bench_attention(b);
    bench_convolutions(b);
    bench_sorting(b);
    bench_streams(b);
    if (overhead) bench_overhead(b);
    tile_context_destroy(b->context);
    return true;
}

static bool heading(const Bench *b)
{
    char why[400];
    tile_context *c;
    tile_context_desc desc = { .struct_size = sizeof desc, .target = "cpu", .flags = TILE_CONTEXT_NO_CACHE };
    if (tile_context_create_error(&desc, &c, why, sizeof why) != TILE_OK)
        return fprintf(stderr, "cpu: %s\n", why), false;
    tile_device_info info = { .struct_size = sizeof info };
    tile_context_device(c, &info);
    tile_context_destroy(c);
    time_t now = time(NULL);
    char date[32], load[64] = "?";
    strftime(date, sizeof date, "%Y-%m-%d %H:%M", localtime(&now));
    FILE *f = fopen("/proc/loadavg", "r");
    if (f && !fgets(load, sizeof load, f)) strcpy(load, "?");
    if (f) fclose(f);
    load[strcspn(load, " \n")] = 0;
    printf("%s, %d threads, %s, load average %s; medians of five rounds, ours and the peer in turn with a "
           "rest between, %g s\n\n",
        info.name, b->threads, date, load, b->seconds);
    printf("%-46s %9s %9s %-8s %6s %6s\n", "", "ours", "peer", "unit", "ratio", "must");
    return true;
}

int main(int argc, char **argv)
{
    int all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    Bench b = { .kernels = TILE_KERNELS, .folder = BENCH_FOLDER, .seconds = 1.5, .python = "python3" };
    setenv("OMP_WAIT_POLICY", "passive", 0); /* Spinning threads of one side would slow down the other. */
    for (int i = 1; i < argc; i++) {
        const char *v;
        if ((v = value_of(argv[i], "--threads"))) b.threads = atoi(v);
        else if ((v = value_of(argv[i], "--only"))) b.only = v;
        else if ((v = value_of(argv[i], "--seconds"))) b.seconds = atof(v);
        else if ((v = value_of(argv[i], "--consts"))) b.consts = v;
        else if ((v = value_of(argv[i], "--kernels"))) b.kernels = v;
        else if ((v = value_of(argv[i], "--folder"))) b.folder = v;
        else if ((v = value_of(argv[i], "--python"))) b.python = v;
        else
            return fprintf(stderr,
                       "usage: tile_bench_cpu [--threads=N] [--only=TEXT] [--seconds=S] [--consts=CONSTS] "
                       "[--kernels=FOLDER] [--folder=FOLDER] [--python=PYTHON]\n"),
                   2;
    }
    int only = b.threads;
    b.threads = only ? only : all;
    if (!heading(&b)) return 1;
    if (!only && all > 1) {
        b.threads = 1;
        if (!run(&b, false)) return 1;
        b.threads = all;
    }
    if (!run(&b, true)) return 1;
    bench_compile(&b);
    peer_close();
    printf("\n%d short of what they must reach, %d failed\n", b.short_of, b.failures);
    return b.failures > 0;
}
