/* bench.c: tile_bench_cpu: our kernels and their peers in one run, on the same threads.
 *
 *     tile_bench_cpu --threads=2 [--only=gemm] [--seconds=1]
 *
 * Prints one table: our figure, the peer's, their ratio, and the ratio aimed at. Every result is checked against the peer's or
 * a plain loop before it is timed. Nothing is written: figures worth keeping are copied into bench/RESULTS.md by hand, with date and machine. */
#include "bench.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

double bench_median(const Bench *b, BenchFn *f, void *arg)
{
    enum { MOST = 1001 };
    double times[MOST], start = bench_now();
    int n = 0;
    f(arg);
    f(arg);
    for (start = bench_now(); n < MOST && (n < 5 || bench_now() - start < b->seconds); n++) {
        double t = bench_now();
        f(arg);
        times[n] = bench_now() - t;
    }
    qsort(times, (size_t)n, sizeof *times, by_value);
    return times[n / 2];
}

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
    snprintf(path, sizeof path, "%s/%s.tile", b->kernels, file);
    snprintf(copy, sizeof copy, "%s", consts);
    for (char *w; (w = strtok_r(rest, " ", &rest)) && n < 16; n++) {
        char *equals = strchr(w, '=');
        *equals = 0;
        bindings[n] = (tile_binding){.name = w, .kind = TILE_BIND_TEXT, .value.text = equals + 1};
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
    l->tensors[l->n] = (tile_tensor){.data = data, .shape = shape, .rank = rank};
    l->args[l->n] = tile_arg_tensor(&l->tensors[l->n]);
    l->n++;
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
    (void)tile_launch(l->kernel, l->args, (size_t)l->n, NULL);     /* bench_try was there first */
}

void bench_free(BenchLaunch *l)
{
    if (l->kernel) tile_kernel_destroy(l->kernel);
    l->kernel = NULL;
}

void bench_row(const char *row, const char *unit, double ours, const char *peer_name, double peer, double goal)
{
    if (peer > 0) printf("%-44s %9.1f %9.1f %-8s %6.2f   %-10s %s\n", row, ours, peer, unit, ours / peer, peer_name, ours / peer >= goal ? "" : "short");
    else printf("%-44s %9.1f %9s %-8s %6s\n", row, ours, "-", unit, "-");
    fflush(stdout);
}

static uint16_t to_bf16(float v) { uint32_t b; memcpy(&b, &v, 4); return (uint16_t)((b + 0x7fff + (b >> 16 & 1)) >> 16); }
static float from_bf16(uint16_t v) { uint32_t b = (uint32_t)v << 16; float f; memcpy(&f, &b, 4); return f; }

void *bench_random(tile_dtype type, int64_t n, uint64_t seed)
{
    size_t size = tile_dtype_size(type);
    void *data = aligned_alloc(64, ((size_t)n * size + 63) / 64 * 64);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float v = (float)(seed >> 40) * 0x1p-23f - 1;
        if (type == TILE_F32) ((float *)data)[i] = v;
        else if (type == TILE_F16) ((_Float16 *)data)[i] = (_Float16)v;
        else ((uint16_t *)data)[i] = to_bf16(v);
    }
    return data;
}

double bench_value(tile_dtype type, const void *array, int64_t i)
{
    return type == TILE_F32 ? ((const float *)array)[i] : type == TILE_F16 ? (double)((const _Float16 *)array)[i] : from_bf16(((const uint16_t *)array)[i]);
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

int main(int argc, char **argv)
{
    Bench b = {.kernels = TILE_KERNELS, .threads = (int)sysconf(_SC_NPROCESSORS_ONLN), .seconds = 1};
    for (int i = 1; i < argc; i++) {
        const char *v;
        if ((v = value_of(argv[i], "--threads"))) b.threads = atoi(v);
        else if ((v = value_of(argv[i], "--only"))) b.only = v;
        else if ((v = value_of(argv[i], "--seconds"))) b.seconds = atof(v);
        else if ((v = value_of(argv[i], "--kernels"))) b.kernels = v;
        else return fprintf(stderr, "usage: tile_bench_cpu [--threads=N] [--only=TEXT] [--seconds=S] [--kernels=FOLDER]\n"), 2;
    }
    char why[400];
    tile_context_desc desc = {.struct_size = sizeof desc, .target = "cpu", .threads = b.threads, .flags = TILE_CONTEXT_NO_CACHE, .on_diagnostic = on_diagnostic};
    if (tile_context_create_error(&desc, &b.context, why, sizeof why) != TILE_OK) return fprintf(stderr, "cpu: %s\n", why), 1;
    tile_device_info info = {.struct_size = sizeof info};
    tile_context_device(b.context, &info);
    printf("%s, %d thread%s, medians of at least 5 runs and %g s\n\n", info.name, b.threads, b.threads == 1 ? "" : "s", b.seconds);
    printf("%-44s %9s %9s %-8s %6s\n", "", "ours", "peer", "unit", "ratio");
    bench_products(&b);
    bench_attention(&b);
    bench_streams(&b);
    bench_overhead(&b);
    bench_compile(&b);
    tile_context_destroy(b.context);
    peer_close();
    return b.failures > 0;
}
