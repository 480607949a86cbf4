/* measure: times configurations of kernels on the device: what a device model is fitted on (fit.c).
 *
 *     tile_bench_measure [--target=cuda] [--kernels=FOLDER] [--seconds=N] [--from=N] [--passes=N] LIST > TSV
 *
 * A line of LIST is a problem and a configuration, with a tab between them, as sample.sh writes them:
 *     gemm gemm T=f16 M=4096 N=4096 K=4096<tab>TM=128, TN=256, TK=64, STAGES=4, GROUP=8, persistent=1
 * The words of the problem are a file of FOLDER, a kernel, then extents, consts, t:TENSOR for a tensor whose
 * last two axes are exchanged in memory, and p:N or p:TENSOR:N for rows that lie N elements further apart.
 * The lines of TSV are those of LIST with the time of a launch in microseconds behind them: the median of
 * some launches, each with cold caches. With --passes=N all configurations of a problem are timed N times
 * over, in another order each time, and all times are printed: the least of many times is low by chance, so
 * that some passes say which configuration is the best, and others how long that one takes (fit.c).
 *
 * All configurations are compiled first, in as many threads as there are processors. After N seconds (default
 * 600) the rest of the list is left out, and the last line on standard error says so. --from=N leaves out the
 * first N lines. A launch that faults or does not end within some seconds ends the process with status 3 and
 * the text `resume --from=N` on standard error, where N is the first line of the next problem. 77: no
 * device. */
#define _GNU_SOURCE
#include "bench/gpu/source.h"
#include "tile/tile.h"
#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SKIP = 77,
    RESUME = 3,
    HANGS_AFTER = 8, /* seconds */
    MOST_LINES = 1 << 16,
    MOST_WORDS = 48,
    MOST_PARAMS = 16,
    MOST_RANK = 8,
    LAUNCHES = 9,
    LAUNCHES_SLOW = 3,
    SLOW = 4, /* A few launches suffice for configurations that are so many times slower than the best of
                 their problem. */
    FLUSH_BYTES = 128 << 20,
    ALIGNED = 1024,
    MOST_THREADS = 64,
    MOST_PASSES = 4,
};

/* A tensor of one problem, but for its address. */
typedef struct Shape {
    int64_t extent[MOST_RANK], stride[MOST_RANK];
    size_t bytes;
} Shape;

typedef struct Line {
    char *text, *config, *words[MOST_WORDS], *config_words[MOST_WORDS];
    int n_words, n_config;
    tile_kernel *kernel;
    Shape shape[MOST_PARAMS];
    tile_tensor tensor[MOST_PARAMS];
    tile_arg arg[MOST_PARAMS];
    int n_args;
    bool ready; /* there is code for it */
    double us[MOST_PASSES];
} Line;

static Line lines[MOST_LINES];
static int n_lines, next_line, passes = 1;
static tile_context *context;
static tile_module *modules[64];
static char *module_names[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *pool; /* tensors of one problem at a time */
static size_t pool_bytes;
static const char *folder = "examples/kernels";
static double deadline;

/* What the watchdog reads: the problem that is timed, lines first .. last of the list, and when its launches
 * began; 0: nothing runs. */
static int first_line, last_line, skipped;
static _Atomic double busy_since;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- lines ------------------------------------------------------------------------------------------- */

static int split(char *text, const char *separators, char **out)
{
    int n = 0;
    for (char *rest = text, *w; n < MOST_WORDS && (w = strtok_r(rest, separators, &rest));) out[n++] = w;
    return n;
}

static bool read_line(Line *l, char *text)
{
    char *tab = strchr(text, '\t');
    if (!tab || *text == '#') return false;
    *tab = 0;
    /* A list that was measured before has times at the end of its lines. */
    char *end = strchr(tab + 1, '\t');
    if (end) *end = 0;
    l->text = strdup(text);
    l->config = strdup(tab + 1);
    l->n_words = split(text, " ", l->words);
    l->n_config = split(tab + 1, ", ", l->config_words);
    return l->n_words >= 2;
}

static tile_module *module_of(const char *name)
{
    int i = 0;
    char path[1000];
    for (; module_names[i]; i++)
        if (!strcmp(module_names[i], name)) return modules[i];
    tile_module_desc d = { .struct_size = sizeof d, .tune_file = "" };
    snprintf(path, sizeof path, "%s/%s.tile", folder, name);
    if (i < 63 && !tile_module_load_file(context, path, &d, &modules[i])) module_names[i] = strdup(name);
    return modules[i];
}

static bool extent_of(const Line *l, const char *dim, int64_t *out)
{
    char *end;
    size_t n = strlen(dim);
    *out = strtoll(dim, &end, 10);
    if (*dim && !*end) return true;
    for (int i = 2; i < l->n_words; i++)
        if (!strncmp(l->words[i], dim, n) && l->words[i][n] == '=') {
            *out = strtoll(l->words[i] + n + 1, NULL, 10);
            return true;
        }
    return false;
}

/* Is `word` NAME=VALUE with the name of an extent? */
static bool names_extent(tile_kernel *k, const char *word)
{
    tile_param_info p = { .struct_size = sizeof p };
    for (size_t i = 0; !tile_kernel_param(k, i, &p); i++)
        for (int a = 0; a < p.rank; a++) {
            size_t n = strlen(p.dims[a]);
            if (!strncmp(word, p.dims[a], n) && word[n] == '=') return true;
        }
    return false;
}

static int bind(char *const *words, int n, tile_kernel *but_extents_of, tile_binding *out)
{
    int bound = 0;
    for (int i = 0; i < n; i++) {
        char *eq = strchr(words[i], '=');
        if (!eq || (but_extents_of && names_extent(but_extents_of, words[i]))) continue;
        out[bound++] =
            (tile_binding){ strndup(words[i], (size_t)(eq - words[i])), TILE_BIND_TEXT, { .text = eq + 1 } };
    }
    return bound;
}

/* The kernel with the line's constants and its configuration. */
static tile_kernel *open_kernel(const Line *l)
{
    tile_binding b[2 * MOST_WORDS];
    tile_kernel *plain = NULL, *k = NULL;
    tile_module *m = module_of(l->words[0]);
    if (!m || tile_kernel_create(m, l->words[1], NULL, 0, &plain)) return NULL;
    int n = bind(l->words + 2, l->n_words - 2, plain, b);
    n += bind(l->config_words, l->n_config, NULL, b + n);
    tile_kernel_destroy(plain);
    return tile_kernel_create(m, l->words[1], b, (size_t)n, &k) ? NULL : k;
}

static bool is_transposed(const Line *l, const tile_param_info *p)
{
    for (int i = 2; i < l->n_words; i++)
        if (p->rank > 1 && !strncmp(l->words[i], "t:", 2) && !strcmp(l->words[i] + 2, p->name)) return true;
    return false;
}

/* Elements by which the tensor's rows lie further apart than they are long. */
static int64_t padding(const Line *l, const tile_param_info *p)
{
    const size_t n = strlen(p->name);
    int64_t found = 0;
    for (int i = 2; i < l->n_words && p->rank > 1; i++) {
        const char *word = l->words[i];
        if (strncmp(word, "p:", 2)) continue;
        if (isdigit((unsigned char)word[2])) found = strtoll(word + 2, NULL, 10);
        else if (!strncmp(word + 2, p->name, n) && word[2 + n] == ':') return strtoll(word + 3 + n, NULL, 10);
    }
    return found;
}

static bool set_shape(Shape *s, const Line *l, const tile_param_info *p)
{
    int64_t pitch = 1;
    bool transposed = is_transposed(l, p);
    for (int a = p->rank - 1; a >= 0; a--) {
        int axis = transposed && a >= p->rank - 2 ? 2 * p->rank - 3 - a : a;
        if (!extent_of(l, p->dims[axis], &s->extent[axis])) return false;
        s->stride[axis] = pitch;
        pitch *= s->extent[axis];
        if (a == p->rank - 1) pitch += padding(l, p);
    }
    s->bytes = (size_t)pitch * tile_dtype_size(p->dtype);
    return true;
}

/* Arguments of the line, whose addresses say no more than how tensors are aligned. */
static bool set_arguments(Line *l)
{
    tile_param_info p = { .struct_size = sizeof p };
    l->n_args = (int)tile_kernel_param_count(l->kernel);
    if (l->n_args > MOST_PARAMS) return false;
    for (int i = 0; i < l->n_args; i++) {
        Shape *s = &l->shape[i];
        if (tile_kernel_param(l->kernel, (size_t)i, &p)) return false;
        if (p.kind == TILE_PARAM_SCALAR) {
            bool floats = p.dtype >= TILE_F8E4M3 && p.dtype <= TILE_F64;
            l->arg[i] = floats ? tile_arg_float(0.125) : tile_arg_int(1);
            continue;
        }
        if (!set_shape(s, l, &p)) return false;
        l->tensor[i] = (tile_tensor){ (void *)ALIGNED, s->extent, s->stride, p.rank, TILE_NONE };
        l->arg[i] = tile_arg_tensor(&l->tensor[i]);
    }
    return true;
}

/* --- compiling --------------------------------------------------------------------------------------- */

static void *compile(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        int i = next_line < n_lines ? next_line++ : -1;
        pthread_mutex_unlock(&lock);
        if (i < 0) return NULL;
        Line *l = &lines[i];
        l->ready = l->ready && now() < deadline && !tile_kernel_compile(l->kernel, l->arg, (size_t)l->n_args);
    }
}

static void compile_all(void)
{
    pthread_t thread[MOST_THREADS];
    long n = sysconf(_SC_NPROCESSORS_ONLN), started = 0;
    if (n > MOST_THREADS) n = MOST_THREADS;
    while (started < n && !pthread_create(&thread[started], NULL, compile, NULL)) started++;
    for (long i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* --- timing ------------------------------------------------------------------------------------------ */

/* Fills memory with numbers that are finite and not small in every floating type, by repeating a pattern. */
static tile_status fill_pool(size_t bytes)
{
    enum { PATTERN = 1 << 24 };
    static uint16_t pattern[PATTERN / 2];
    tile_status st = TILE_OK;
    uint32_t x = 2463534242u;
    for (size_t i = 0; !pattern[1] && i < PATTERN / 2; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        pattern[i] = (uint16_t)((x & 0x8000) | (0x3000 + (x >> 16) % 0x0a00));
    }
    for (size_t at = 0; at < bytes && !st; at += PATTERN) {
        size_t n = bytes - at < PATTERN ? bytes - at : PATTERN;
        st = at ? tile_copy(context, pool + at, pool, n, NULL) : tile_copy(context, pool, pattern, n, NULL);
    }
    return st ? st : tile_stream_synchronize(context, NULL);
}

static size_t place(Line *l)
{
    size_t at = 0;
    for (int i = 0; i < l->n_args; i++) {
        if (l->arg[i].kind != TILE_ARG_TENSOR) continue;
        l->tensor[i].data = pool + at;
        at += (l->shape[i].bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    return at;
}

static int by_value(const void *a, const void *b)
{ return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

/* In all passes. */
static bool is_timed(const Line *l)
{
    bool all = true;
    for (int k = 0; k < passes; k++) all = all && l->us[k] > 0;
    return all;
}

static void print_problem(int from, int to)
{
    for (int i = from; i < to; i++) {
        if (!is_timed(&lines[i])) continue;
        printf("%s\t%s", lines[i].text, lines[i].config);
        for (int k = 0; k < passes; k++) printf("\t%.3f", lines[i].us[k]);
        printf("\n");
    }
    fflush(stdout);
}

/* The device is lost: says how to go on in another process. */
static void give_up(const char *why)
{
    print_problem(first_line, last_line);
    fprintf(stderr, "%s in %s; resume --from=%d\n", why, lines[first_line].text, skipped + last_line);
    _exit(RESUME);
}

static void *watch(void *unused)
{
    for (;;) {
        sleep(1);
        double since = atomic_load(&busy_since);
        if (since > 0 && now() - since > HANGS_AFTER) give_up("a launch does not end");
    }
    return NULL;
}

/* Times of `n` launches with cold caches, in microseconds. */
static tile_status launches(
    Line *l, const tile_launch_desc *d, void *flush, void **begin, void **end, int n, double *us)
{
    tile_status st = TILE_OK;
    double ms = 0;
    atomic_store(&busy_since, now());
    for (int i = 0; i < n && !st; i++) {
        st = tile_fill(context, flush, 0, FLUSH_BYTES, NULL);
        if (!st) st = tile_event_record(context, begin[i], NULL);
        if (!st) st = tile_launch(l->kernel, l->arg, (size_t)l->n_args, d);
        if (!st) st = tile_event_record(context, end[i], NULL);
    }
    tile_status waited = tile_stream_synchronize(context, NULL);
    atomic_store(&busy_since, 0);
    if (!st) st = waited;
    for (int i = 0; i < n && !st; i++) {
        st = tile_event_elapsed(context, begin[i], end[i], &ms);
        us[i] = ms * 1e3;
    }
    return st;
}

/* The median after a launch that is not counted; 0: a launch was refused. */
static double time_of(Line *l, void *flush, void **begin, void **end, double best)
{
    tile_launch_desc d = { .struct_size = sizeof d };
    double us[LAUNCHES];
    tile_status st = tile_kernel_workspace(l->kernel, l->arg, (size_t)l->n_args, &d.workspace_size);
    if (!st && d.workspace_size) {
        st = tile_memory_alloc(context, TILE_MEMORY_DEVICE, d.workspace_size, &d.workspace);
        if (!st) st = tile_fill(context, d.workspace, 0, d.workspace_size, NULL);
    }
    if (!st) st = launches(l, &d, flush, begin, end, 1, us);
    int n = us[0] > SLOW * best ? LAUNCHES_SLOW : LAUNCHES;
    if (!st) st = launches(l, &d, flush, begin, end, n, us);
    tile_memory_free(context, TILE_MEMORY_DEVICE, d.workspace);
    if (st == TILE_ERROR_DEVICE_FAULT) give_up("a launch faults");
    if (st) return 0;
    qsort(us, (size_t)n, sizeof *us, by_value);
    return us[n / 2];
}

static void *events[2][LAUNCHES];

static bool set_up(void **flush)
{
    for (int l = 0; l < n_lines; l++) {
        size_t n = place(&lines[l]);
        if (lines[l].ready && n > pool_bytes) pool_bytes = n;
    }
    for (int i = 0; i < LAUNCHES; i++)
        if (tile_event_create(context, &events[0][i]) || tile_event_create(context, &events[1][i]))
            return false;
    return !tile_memory_alloc(context, TILE_MEMORY_DEVICE, FLUSH_BYTES, flush) &&
           !tile_memory_alloc(context, TILE_MEMORY_DEVICE, pool_bytes + 1, (void **)&pool);
}

/* The lines of a problem once, in an order of their own, so that neither the first ones nor the last ones
 * always meet a cold card. */
static void time_pass(int from, int to, int pass, void *flush, unsigned *random)
{
    int order[to - from];
    double best = 1e30;
    for (int i = 0; i < to - from; i++) order[i] = from + i;
    for (int i = to - from - 1; i > 0; i--) {
        *random = *random * 1664525u + 1013904223u;
        int j = (int)((*random >> 8) % (unsigned)(i + 1)), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (int i = 0; i < to - from && now() < deadline; i++) {
        Line *l = &lines[order[i]];
        if (!l->ready) continue;
        size_t bytes = place(l);
        if (!i && !pass && fill_pool(bytes)) return;
        double us = l->us[pass] = time_of(l, flush, events[0], events[1], best);
        if (us > 0 && us < best) best = us;
    }
}

/* Lines of one problem lie together in the list. */
static void time_problem(int from, int to, void *flush, unsigned *random)
{
    first_line = from;
    last_line = to;
    for (int pass = 0; pass < passes; pass++) time_pass(from, to, pass, flush, random);
    print_problem(from, to);
}

/* --- the whole --------------------------------------------------------------------------------------- */

static bool open_context(const char *target)
{
    char why[600];
    tile_context_desc d = {
        .struct_size = sizeof d, .target = target, .flags = TILE_CONTEXT_NO_CACHE | TILE_CONTEXT_AS_DECLARED
    };
    tile_device_info info = { .struct_size = sizeof info };
    if (tile_context_create_error(&d, &context, why, sizeof why)) {
        fprintf(stderr, "SKIP: %s\n", why);
        return false;
    }
    if (!tile_context_device(context, &info))
        printf("# %s, %s: problem, configuration, microseconds\n", info.name, info.target);
    return true;
}

/* Opens the kernels of all lines but the first `skip`. */
static void prepare_lines(char *text, int skip)
{
    for (char *rest = text, *t; n_lines < MOST_LINES && (t = strtok_r(rest, "\n", &rest));) {
        Line *l = &lines[n_lines];
        if (!read_line(l, t)) continue;
        if (skipped < skip) {
            skipped++;
            continue;
        }
        l->kernel = open_kernel(l);
        l->ready = l->kernel && set_arguments(l);
        n_lines++;
    }
}

int main(int argc, char **argv)
{
    const char *target = "cuda";
    double seconds = 600, begin = now();
    int at = 1, timed = 0, refused = 0, skip = 0;
    pthread_t watchdog;
    unsigned random = 1;
    void *flush = NULL;
    size_t size;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strncmp(argv[at], "--target=", 9)) target = argv[at] + 9;
        else if (!strncmp(argv[at], "--kernels=", 10)) folder = argv[at] + 10;
        else if (!strncmp(argv[at], "--seconds=", 10)) seconds = atof(argv[at] + 10);
        else if (!strncmp(argv[at], "--from=", 7)) skip = atoi(argv[at] + 7);
        else if (!strncmp(argv[at], "--passes=", 9)) passes = atoi(argv[at] + 9);
        else break;
    }
    char *text = at + 1 == argc ? read_all(argv[at], &size) : NULL;
    if (!text || passes < 1 || passes > MOST_PASSES) {
        fprintf(stderr, "tile_bench_measure [--target=T] [--kernels=FOLDER] [--seconds=N] [--from=N] "
                        "[--passes=N] LIST\n");
        return 2;
    }
    deadline = begin + seconds;
    if (!open_context(target)) return SKIP;
    prepare_lines(text, skip);
    pthread_create(&watchdog, NULL, watch, NULL);
    compile_all();
    fprintf(stderr, "%d lines compiled in %.0f s\n", n_lines, now() - begin);
    if (!set_up(&flush)) {
        fprintf(stderr, "no memory on the device\n");
        return 1;
    }
    for (int from = 0, to; from < n_lines; from = to) {
        for (to = from + 1; to < n_lines && !strcmp(lines[to].text, lines[from].text);) to++;
        time_problem(from, to, flush, &random);
    }
    for (int i = 0; i < n_lines; i++) {
        timed += is_timed(&lines[i]);
        refused += !lines[i].ready;
    }
    fprintf(stderr, "%d of %d lines timed in %.0f s, %d do not compile%s\n", timed, n_lines, now() - begin,
        refused, now() > deadline ? "; the time was up" : "");
    return 0;
}
