/* start: how long a fresh process waits for its first attention: the driver's own start, reading the source,
 * the first launch with an empty cache and with the entry there, and the host time of a warm launch.
 *
 *     tile_bench_start [--target=cuda] [--kernels=FOLDER] [--runs=N]
 *
 * Each run is a process of its own with a cache folder of its own, used twice; the CUDA driver's and NVRTC's
 * own cache is off (they keep what they compiled, and hide the time that a first user waits). Prints medians
 * and extremes. 77 where there is no device. */
#define _GNU_SOURCE
#include "tile/tile.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIP = 77, MOST = 50, FIELDS = 7 };
typedef struct Case {
    const char *title, *d, *causal;
    int64_t shape[4];
} Case;
static const Case cases[] = { { "causal D128", "128", "true", { 4, 32, 1024, 128 } },
    { "full D64", "64", "false", { 4, 32, 1024, 64 } } };
static const char *const fields[FIELDS] = { "context", "source", "first launch", "of it the choice",
    "the vendor's compiler", "loading", "warm launch" };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* "chosen among 40 configurations in 9.12 ms", "compiled in 700.12 ms, 650.00 of them in the vendor's
 * compiler, 1.20 loading" */
static void take_times(void *user, const tile_diagnostic *d)
{
    const char *compiler = strstr(d->message, " ms, "), *loading = strstr(d->message, "compiler, "),
               *choice = strstr(d->message, "configurations in ");
    double *out = user;
    if (d->severity == TILE_SEVERITY_ERROR) fputs(d->rendered, stderr);
    else if (d->severity == TILE_SEVERITY_DEBUG && choice) out[0] = atof(choice + 18);
    else if (d->severity == TILE_SEVERITY_DEBUG && compiler && loading) {
        out[1] = atof(compiler + 5);
        out[2] = atof(loading + 10);
    }
}

/* In the child: milliseconds into out, in the order of fields. */
static tile_status once(
    const Case *c, const char *target, const char *folder, double *out, char *why, size_t room)
{
    tile_context_desc d = { .struct_size = sizeof d,
        .target = target,
        .debug = "time",
        .on_diagnostic = take_times,
        .on_diagnostic_user = out + 3 };
    tile_context *ctx;
    tile_module *m = NULL;
    tile_kernel *k = NULL;
    DLTensor *t[4] = { 0 };
    char path[1000];
    double start = now_ms(), t1, t2;
    tile_status st = tile_context_create_error(&d, &ctx, why, room);
    if (st) return st;
    t1 = now_ms();
    snprintf(path, sizeof path, "%s/attention.tile", folder);
    tile_binding b[] = { { "CAUSAL", TILE_BIND_TEXT, { .text = c->causal } } };
    st = tile_module_load_file(ctx, path, NULL, &m);
    if (!st) st = tile_kernel_create(m, "attention", b, 1, &k);
    t2 = now_ms();
    for (int i = 0; i < 4 && !st; i++)
        st = tile_tensor_create(ctx, TILE_MEMORY_DEVICE, TILE_F16, 4, c->shape, &t[i]);
    tile_arg a[5] = { tile_arg_dltensor(t[0]), tile_arg_dltensor(t[1]), tile_arg_dltensor(t[2]),
        tile_arg_dltensor(t[3]), tile_arg_float(0.125) };
    double t3 = now_ms(), t4, t5;
    if (!st) st = tile_launch(k, a, 5, NULL);
    t4 = now_ms();
    if (!st) st = tile_context_synchronize(ctx);
    t5 = now_ms();
    for (int i = 0; i < 100 && !st; i++) st = tile_launch(k, a, 5, NULL);
    out[0] = t1 - start;
    out[1] = t2 - t1;
    out[2] = t4 - t3;
    out[6] = (now_ms() - t5) / 100;
    if (st) tile_context_error(ctx, why, room);
    else st = tile_context_synchronize(ctx);
    for (int i = 0; i < 4; i++)
        if (t[i]) tile_tensor_destroy(ctx, t[i]);
    tile_kernel_destroy(k);
    tile_module_destroy(m);
    tile_context_destroy(ctx);
    return st;
}

/* A process for it. */
static int run(const Case *c, const char *target, const char *folder, double *out)
{
    int pipes[2], status = 0;
    if (pipe(pipes)) return 1;
    pid_t pid = fork();
    if (pid == 0) {
        char why[600] = "";
        double t[FIELDS] = { 0 };
        tile_status st = once(c, target, folder, t, why, sizeof why);
        if (st) printf("%s: %s\n", st == TILE_ERROR_NO_DEVICE ? "SKIP" : "FAIL", why), fflush(stdout);
        bool sent = write(pipes[1], t, sizeof t) == (ssize_t)sizeof t;
        _exit(st == TILE_ERROR_NO_DEVICE ? SKIP : st || !sent);
    }
    close(pipes[1]);
    bool got = pid > 0 && read(pipes[0], out, FIELDS * sizeof *out) == (ssize_t)(FIELDS * sizeof *out);
    close(pipes[0]);
    if (pid > 0) waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : !got;
}

static int by_value(const void *a, const void *b)
{ return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static void show(const char *title, const char *what, double (*t)[FIELDS], int n)
{
    printf("%s, %s:", title, what);
    for (int f = 0; f < FIELDS; f++) {
        double v[MOST];
        for (int i = 0; i < n; i++) v[i] = t[i][f];
        qsort(v, (size_t)n, sizeof *v, by_value);
        printf("%s %s %.4g ms (%.4g - %.4g)", f ? "," : "", fields[f], v[n / 2], v[0], v[n - 1]);
    }
    printf("\n");
    fflush(stdout); /* The next run is a child process, which would print it again. */
}

static int measure(const Case *c, const char *target, const char *folder, int runs)
{
    static double cold[MOST][FIELDS], cached[MOST][FIELDS];
    int bad = 0;
    for (int i = 0; i < runs && !bad; i++) {
        char cache[] = "start-cache-XXXXXX", command[64];
        if (!mkdtemp(cache)) return 1;
        setenv("TILE_CACHE_DIR", cache, 1);
        setenv("CUDA_CACHE_DISABLE", "1", 1);
        bad = run(c, target, folder, cold[i]);
        if (!bad) bad = run(c, target, folder, cached[i]);
        snprintf(command, sizeof command, "rm -rf %s", cache);
        bad |= system(command) != 0 && !bad;
    }
    if (bad) return bad;
    show(c->title, "cold", cold, runs);
    show(c->title, "from the disk cache", cached, runs);
    return 0;
}

int main(int argc, char **argv)
{
    const char *target = "cuda", *folder = "examples/kernels";
    int runs = 5, bad = 0;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--target=", 9)) target = argv[i] + 9;
        else if (!strncmp(argv[i], "--kernels=", 10)) folder = argv[i] + 10;
        else if (!strncmp(argv[i], "--runs=", 7)) runs = atoi(argv[i] + 7);
        else {
            fprintf(stderr, "tile_bench_start: bad arguments; see the head of start.c\n");
            return 2;
        }
    }
    if (runs < 1 || runs > MOST) runs = 5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !bad; i++)
        bad = measure(&cases[i], target, folder, runs);
    return bad;
}
