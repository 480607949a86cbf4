/* counters.c: see counters.h. The order of calls is that of CUPTI's documents: the host profiler makes a
 * config from the names of metrics, the range profiler counts a range by it in as many passes as it asks for,
 * and the host profiler makes values of what was counted. Between two counted launches nothing of CUPTI is
 * enabled. */
#include "tools/tilec/bench/counters.h"
#include "tools/tilec/bench/cupti.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PASSES = 64 };

/* Those that a chip does not have are left out. */
static const char *const wanted[] = { "sm__cycles_elapsed.max", "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_tensor.sum", "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l1tex__t_sector_hit_rate.pct", "l1tex__data_bank_conflicts_pipe_lsu.sum", "lts__t_bytes.sum",
    "lts__t_sector_hit_rate.pct", "dram__bytes_read.sum", "dram__bytes_write.sum" };
enum { WANTED = sizeof wanted / sizeof *wanted };

#define CUPTI_SYMBOL(field, type, symbol) static const char symbol_##field[] = symbol;
CUPTI_CALLS(CUPTI_SYMBOL)
#undef CUPTI_SYMBOL

struct Counters {
    Arena *arena;
    void *library, *driver, *context, *host, *profiler;
    int device;
    bool initialized;
    const char *names[WANTED], *units[WANTED];
    size_t n;
    uint8_t *config, *image;
    size_t config_bytes, image_bytes;
    const char *why;
    int (*release)(int);
    int (*result_text)(int, const char **);
    struct {
#define CUPTI_FIELD(field, type, symbol) int (*field)(type *);
        CUPTI_CALLS(CUPTI_FIELD)
#undef CUPTI_FIELD
    } call;
};

static bool refuse(Counters *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(Counters *c, const char *fmt, ...)
{
    Text t;
    va_list ap;
    if (c->why) return false;
    text_init(&t, c->arena);
    va_start(ap, fmt);
    text_vprintf(&t, fmt, ap);
    va_end(ap);
    c->why = t.data;
    return false;
}

static bool check(Counters *c, const char *what, int result)
{
    const char *text = NULL;
    if (!result) return true;
    if (result == CUPTI_NO_PRIVILEGES || result == CUPTI_NO_PRIVILEGES_VIRTUALIZED)
        return refuse(c, "the driver lets only administrators read them (%s: error %d)", what, result);
    if (c->result_text) c->result_text(result, &text);
    return refuse(c, "%s failed: %s (error %d)", what, text ? text : "unknown", result);
}

#define CALL(c, field, argument) check(c, symbol_##field, (c)->call.field(argument))

/* --- opening ----------------------------------------------------------------------------------------- */

static void *open_in(Arena *a, const char *root, const char *folder)
{ return root && *root ? dlopen(arena_printf(a, "%s%s/libcupti.so", root, folder), RTLD_NOW) : NULL; }

static bool open_library(Counters *c)
{
    static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so" };
    const char *named = getenv("TILE_CUPTI");
    const char *const roots[] = { getenv("CUDA_PATH"), getenv("CUDA_HOME"), "/usr/local/cuda" };
    if (named && !(c->library = dlopen(named, RTLD_NOW))) return refuse(c, "TILE_CUPTI: %s", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names && !c->library; i++)
        c->library = dlopen(names[i], RTLD_NOW);
    for (size_t i = 0; i < sizeof roots / sizeof *roots && !c->library; i++)
        if (!(c->library = open_in(c->arena, roots[i], "/extras/CUPTI/lib64")))
            c->library = open_in(c->arena, roots[i], "/lib64");
    if (!c->library) return refuse(c, "CUPTI is not found here (libcupti.so)");
    void *f = dlsym(c->library, "cuptiGetResultString");
    memcpy(&c->result_text, &f, sizeof f);
#define CUPTI_FIND(field, type, symbol) \
    f = dlsym(c->library, symbol); \
    if (!f) return refuse(c, "this CUPTI has no %s; that of CUDA 12.6 and later has", symbol); \
    memcpy(&c->call.field, &f, sizeof f);
    CUPTI_CALLS(CUPTI_FIND)
#undef CUPTI_FIND
    return true;
}

/* The context that libtile uses: the device's primary one. */
static bool open_driver(Counters *c)
{
    int (*retain)(void **, int) = NULL;
    c->driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *f = c->driver ? dlsym(c->driver, "cuDevicePrimaryCtxRetain") : NULL,
         *g = c->driver ? dlsym(c->driver, "cuDevicePrimaryCtxRelease_v2") : NULL;
    if (!f || !g) return refuse(c, "the driver has no primary contexts");
    memcpy(&retain, &f, sizeof f);
    memcpy(&c->release, &g, sizeof g);
    return check(c, "cuDevicePrimaryCtxRetain", retain(&c->context, c->device));
}

/* A metric that the chip lacks must not be added: CUPTI then refuses all that follow. */
static bool find_metrics(Counters *c)
{
    for (size_t i = 0; i < WANTED; i++) {
        CuptiMetric m = { .size = CUPTI_SIZE(CuptiMetric, kind), .host = c->host, .name = wanted[i] };
        int result = c->call.metric(&m);
        if (result == CUPTI_INVALID_METRIC_NAME) continue;
        if (!check(c, symbol_metric, result)) return false;
        c->names[c->n] = wanted[i];
        c->units[c->n++] = m.unit && *m.unit ? arena_strdup(c->arena, m.unit) : "count";
    }
    return c->n || refuse(c, "CUPTI knows no counter of this chip");
}

static bool make_config(Counters *c)
{
    CuptiMetrics m = { .size = CUPTI_SIZE(CuptiMetrics, n), .host = c->host, .names = c->names, .n = c->n };
    CuptiConfigSize s = { .size = CUPTI_SIZE(CuptiConfigSize, bytes), .host = c->host };
    if (!CALL(c, metrics, &m) || !CALL(c, config_size, &s)) return false;
    c->config = arena_alloc(c->arena, s.bytes + 1);
    c->config_bytes = s.bytes;
    CuptiConfig config = {
        .size = CUPTI_SIZE(CuptiConfig, config), .host = c->host, .bytes = s.bytes, .config = c->config
    };
    return CALL(c, config, &config);
}

static bool open_host(Counters *c)
{
    CuptiNothing nothing = { .size = CUPTI_SIZE(CuptiNothing, reserved) };
    CuptiChip chip = { .size = CUPTI_SIZE(CuptiChip, name), .device = (size_t)c->device };
    CuptiHost host = { .size = CUPTI_SIZE(CuptiHost, host) };
    c->initialized = CALL(c, initialize, &nothing);
    if (!c->initialized || !CALL(c, chip, &chip)) return false;
    host.chip = chip.name;
    if (!CALL(c, host, &host)) return false;
    c->host = host.host;
    return find_metrics(c) && make_config(c);
}

Counters *counters_open(Arena *a, TargetKind kind, int device, const char **why)
{
    Counters *c = arena_new(a, Counters);
    *c = (Counters){ .arena = a, .device = device };
    *why = NULL;
    if (kind != TARGET_CUDA) refuse(c, "they are read on NVIDIA GPUs alone, through CUPTI");
    else if (open_library(c) && open_driver(c) && open_host(c)) return c;
    *why = c->why;
    counters_close(c);
    return NULL;
}

/* The libraries stay loaded: both keep threads. */
void counters_close(Counters *c)
{
    if (!c) return;
    CuptiHostEnd end = { .size = CUPTI_SIZE(CuptiHostEnd, host), .host = c->host };
    CuptiNothing nothing = { .size = CUPTI_SIZE(CuptiNothing, reserved) };
    if (c->host) CALL(c, host_end, &end);
    if (c->initialized) CALL(c, finish, &nothing);
    if (c->context) c->release(c->device);
    c->host = c->context = NULL;
    c->initialized = false;
}

/* --- counting ---------------------------------------------------------------------------------------- */

/* Room for one range, and the way in which it is counted. */
static bool set_up(Counters *c)
{
    CuptiImageSize s = { .size = CUPTI_SIZE(CuptiImageSize, bytes),
        .profiler = c->profiler,
        .names = c->names,
        .n = c->n,
        .ranges = 1,
        .nodes = 1 };
    if (!CALL(c, image_size, &s)) return false;
    if (s.bytes > c->image_bytes || !c->image) c->image = arena_alloc(c->arena, s.bytes + 1);
    c->image_bytes = s.bytes;
    CuptiImage image = {
        .size = CUPTI_SIZE(CuptiImage, image), .profiler = c->profiler, .bytes = s.bytes, .image = c->image
    };
    CuptiSetup setup = { .size = CUPTI_SIZE(CuptiSetup, level),
        .profiler = c->profiler,
        .config_bytes = c->config_bytes,
        .config = c->config,
        .image_bytes = c->image_bytes,
        .image = c->image,
        .ranges = CUPTI_RANGES_OF_USER,
        .replay = CUPTI_REPLAY_BY_USER,
        .most_ranges = 1,
        .levels = 1,
        .first_level = 1,
        .level = 1 };
    return CALL(c, image, &image) && CALL(c, setup, &setup);
}

static bool run_pass(Counters *c, const CountedLaunch *l, bool *done)
{
    CuptiProfiler p = { .size = CUPTI_SIZE(CuptiProfiler, profiler), .profiler = c->profiler };
    CuptiPush push = { .size = CUPTI_SIZE(CuptiPush, range), .profiler = c->profiler, .range = "launch" };
    CuptiStop stop = { .size = CUPTI_SIZE(CuptiStop, done), .profiler = c->profiler };
    if (l->prepare(l->user)) return refuse(c, "a launch failed");
    if (!CALL(c, start, &p) || !CALL(c, push, &push)) return false;
    bool launched = !l->launch(l->user) || refuse(c, "a launch failed");
    bool ended = CALL(c, pop, &p) && CALL(c, stop, &stop);
    *done = stop.done;
    return launched && ended;
}

static bool run_passes(Counters *c, const CountedLaunch *l)
{
    bool done = false;
    for (int pass = 0; pass < MOST_PASSES && !done; pass++)
        if (!run_pass(c, l, &done)) return false;
    CuptiDecode d = { .size = CUPTI_SIZE(CuptiDecode, dropped), .profiler = c->profiler };
    if (!done) return refuse(c, "CUPTI asks for more than %d passes", MOST_PASSES);
    return CALL(c, decode, &d);
}

size_t counters_count(Counters *c, const CountedLaunch *l, const CounterValue **values, const char **why)
{
    double *v = arena_array(c->arena, double, WANTED);
    CounterValue *out = arena_array(c->arena, CounterValue, WANTED);
    CuptiEnable enable = { .size = CUPTI_SIZE(CuptiEnable, profiler), .context = c->context };
    bool ok = CALL(c, enable, &enable);
    if (ok) {
        c->profiler = enable.profiler;
        ok = set_up(c) && run_passes(c, l);
        CuptiValues get = { .size = CUPTI_SIZE(CuptiValues, values),
            .host = c->host,
            .image = c->image,
            .bytes = c->image_bytes,
            .names = c->names,
            .n = c->n,
            .values = v };
        ok = ok && CALL(c, values, &get);
        CuptiProfiler p = { .size = CUPTI_SIZE(CuptiProfiler, profiler), .profiler = c->profiler };
        ok = CALL(c, disable, &p) && ok;
    }
    *why = c->why;
    for (size_t i = 0; i < c->n && ok; i++) out[i] = (CounterValue){ c->names[i], c->units[i], v[i] };
    *values = out;
    return ok ? c->n : 0;
}
