/* driver_cpu.c: the host as a device. Memory is the C library's, streams exist in name only (work is done
 * when a launch returns), events are clock readings. A launch spreads the grid over as many threads as its
 * work is worth (ir/analysis/threads.h), of the driver's pool or of the caller's; each thread takes pieces of
 * the programs from a shared counter, so that uneven programs balance. */
#define _GNU_SOURCE
#include "runtime/drivers/driver.h"
#include "runtime/context/fork.h"
#include "ir/target/cpu_level.h"
#include "ir/target/processors.h"
#include "ir/analysis/threads.h"
#include "runtime/drivers/pool.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SCRATCH_SLOTS = 64 };

/* Scratch memory is reused: a thread takes a free block, or makes one. Blocks record their size. */
typedef struct Scratch {
    size_t bytes;
    char pad[56];
} Scratch;

typedef struct CpuDriver {
    Driver base;
    Allocator alloc;
    int threads;
    Pool *pool;
    tile_run_threads_fn *run_threads; /* the caller's pool; NULL: none */
    void *run_threads_user;
    _Atomic(Scratch *) scratch[SCRATCH_SLOTS];
    _Atomic int64_t done, total; /* of the launch that began last, while it runs */
} CpuDriver;

typedef struct CpuFunction {
    CpuModule *module;
    CpuKernelFn *fn;
} CpuFunction;
typedef struct CpuEvent {
    _Atomic int64_t ns;
} CpuEvent; /* 0: not recorded */

static void cpu_name(char *out, size_t room)
{
    format_text(out, room, "host CPU");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        format_text(out, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f) fclose(f);
}

/* TILE_CPU_LEVEL may ask for a level that does not exist here. Without it the processor is not asked. */
static bool level_is_known(DriverError *e)
{
    char error[200] = "";
    if (!getenv("TILE_CPU_LEVEL")) return true;
    cpu_level_asked(cpu_level_read(), error, sizeof error);
    if (error[0]) driver_error(e, "%s", error);
    return !error[0];
}

static tile_status cpu_open(const DriverDesc *d, Driver **out, DriverError *e)
{
    if (d->device) {
        driver_error(e, "no CPU device %d: there is 1", d->device);
        return TILE_ERROR_NO_DEVICE;
    }
    if (!level_is_known(e)) return TILE_ERROR_UNSUPPORTED;
    CpuDriver *c = d->alloc.realloc(d->alloc.user, NULL, 0, sizeof *c);
    if (!c) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    memset(c, 0, sizeof *c);
    c->alloc = d->alloc;
    c->threads = d->threads > 0 ? d->threads : processors_usable();
    c->run_threads = d->run_threads;
    c->run_threads_user = d->run_threads_user;
    if (!(c->pool = pool_new(d->alloc))) {
        d->alloc.realloc(d->alloc.user, c, sizeof *c, 0);
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    DriverInfo *info = &c->base.info;
    c->base.ops = &driver_cpu;
    cpu_name(info->name, sizeof info->name);
    format_text(info->target, sizeof info->target, "cpu");
    info->dl.device_type = kDLCPU;
    fork_count(); /* Forks are counted from now on. */
    info->multiprocessors = c->threads;
    info->warp = 1;
    info->max_blocks = INT64_MAX;
    info->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    info->l2_bytes = l2 > 0 ? l2 : 0;
    *out = &c->base;
    return TILE_OK;
}

static void cpu_close(Driver *d)
{
    CpuDriver *c = (CpuDriver *)d;
    pool_free(c->pool);
    for (int i = 0; i < SCRATCH_SLOTS; i++) free(atomic_load(&c->scratch[i]));
    c->alloc.realloc(c->alloc.user, c, sizeof *c, 0);
}

static tile_status cpu_module_load(
    Driver *d, const Artifact *a, DriverModule **module, DriverFunction **function, DriverError *e)
{
    CpuDriver *c = (CpuDriver *)d;
    const Backend *b = driver_backend(TARGET_CPU);
    if (!b) {
        driver_error(e, "this build has no CPU backend");
        return TILE_ERROR_UNSUPPORTED;
    }
    CpuFunction *f = c->alloc.realloc(c->alloc.user, NULL, 0, sizeof *f);
    if (!f) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    f->module = b->load(a->data, a->size, a->entry, &f->fn, e->text, sizeof e->text);
    if (!f->module) {
        c->alloc.realloc(c->alloc.user, f, sizeof *f, 0);
        return TILE_ERROR_DRIVER;
    }
    *module = (DriverModule *)f;
    *function = (DriverFunction *)f;
    return TILE_OK;
}

static void cpu_module_unload(Driver *d, DriverModule *m)
{
    CpuDriver *c = (CpuDriver *)d;
    CpuFunction *f = (CpuFunction *)m;
    driver_backend(TARGET_CPU)->unload(f->module);
    c->alloc.realloc(c->alloc.user, f, sizeof *f, 0);
}

static Scratch *scratch_take(CpuDriver *c, size_t bytes)
{
    for (int i = 0; i < SCRATCH_SLOTS; i++) {
        Scratch *s = atomic_exchange(&c->scratch[i], NULL);
        if (!s) continue;
        if (s->bytes >= bytes) return s;
        free(s);
        break;
    }
    Scratch *s = NULL;
    if (posix_memalign((void **)&s, 64, sizeof *s + ((bytes + 63) & ~(size_t)63))) return NULL;
    s->bytes = bytes;
    return s;
}

static void scratch_give(CpuDriver *c, Scratch *s)
{
    for (int i = 0; i < SCRATCH_SLOTS; i++) {
        Scratch *none = NULL;
        if (atomic_compare_exchange_strong(&c->scratch[i], &none, s)) return;
    }
    free(s);
}

/* The data that the threads of one launch share. */
typedef struct Run {
    CpuDriver *c;
    CpuKernelFn *fn;
    const DriverLaunch *l;
    int64_t threads, next; /* next: see threads_take */
    _Atomic int64_t done;
    _Atomic int failed, no_memory;
    bool alone;
} Run;

/* Milliseconds from a cheap clock with a resolution of a few. */
static int64_t coarse_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void count_done(Run *r, int64_t n)
{
    int64_t done = n;
    if (r->alone)
        atomic_store_explicit(
            &r->done, done += atomic_load_explicit(&r->done, memory_order_relaxed), memory_order_relaxed);
    else done += atomic_fetch_add_explicit(&r->done, n, memory_order_relaxed);
    atomic_store_explicit(&r->c->done, done, memory_order_relaxed);
}

/* Runs programs [begin, end) in pieces that take a fraction of a second, so that the count of finished
 * programs advances. `piece`: the programs of the next piece; 1 at first, and more when a whole piece took no
 * time. False: a check failed. The rest runs all the same, because programs of other threads may wait for it.
 */
static bool run_pieces(Run *r, int64_t begin, int64_t end, int64_t *piece, void *scratch, bool again)
{
    enum { MOST = 4096 };
    bool ok = true;
    for (int64_t n; begin < end; begin += n, again = true) {
        n = end - begin < *piece ? end - begin : *piece;
        bool timed = n == *piece && n < MOST;
        int64_t start = timed ? coarse_ms() : 0;
        ok &= !r->fn(r->l->slots, begin, begin + n, scratch, again);
        count_done(r, n);
        if (timed && coarse_ms() == start) *piece *= 64;
    }
    return ok;
}

static void run_share(void *run)
{
    Run *r = run;
    const DriverLaunch *l = r->l;
    Scratch *s = NULL;
    /* Few programs of many are already a piece. */
    bool pieces = r->alone ? l->programs > 1 : l->programs / r->threads > 128;
    int64_t piece = pieces ? 1 : INT32_MAX, begin, end;
    if (l->scratch_bytes && !(s = scratch_take(r->c, l->scratch_bytes))) {
        atomic_store(&r->no_memory, 1);
        return;
    }
    for (bool again = false; threads_take(&r->next, l->programs, r->threads, l->neighbours, &begin, &end);
        again = true)
        if (!run_pieces(r, begin, end, &piece, s ? s + 1 : NULL, again)) {
            atomic_store(&r->failed, 1);
            break;
        }
    if (s) scratch_give(r->c, s);
}

/* For a thread of the caller's pool, which may have any floating-point state. */
static void run_for_caller(void *run, int i)
{
    FLOAT_STATE_DEFAULT();
    run_share(run);
}

static void run_team(Run *r, int threads)
{
    CpuDriver *c = r->c;
    if (c->run_threads) c->run_threads(c->run_threads_user, threads, run_for_caller, r);
    else if (threads_in_region(dlsym)) run_share(r);
    else pool_run(c->pool, threads, run_share, r);
}

/* A failed check is not a failed launch, because the caller reads the check record. */
static tile_status cpu_launch(Driver *d, DriverFunction *function, const DriverLaunch *l, DriverError *e)
{
    CpuDriver *c = (CpuDriver *)d;
    Run r = { .c = c, .fn = ((CpuFunction *)function)->fn, .l = l };
    int threads = (int)l->blocks;
    r.alone = threads <= 1;
    r.threads = threads;
    atomic_store_explicit(&c->done, 0, memory_order_relaxed);
    atomic_store_explicit(&c->total, l->programs, memory_order_relaxed);
    if (threads > 1) run_team(&r, threads);
    else run_share(&r);
    atomic_store_explicit(&c->total, 0, memory_order_relaxed);
    if (atomic_load(&r.no_memory)) {
        driver_error(e, "out of memory: %zu bytes of scratch for each thread", l->scratch_bytes);
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    return TILE_OK;
}

static tile_status cpu_memory_alloc(Driver *d, tile_memory kind, size_t bytes, void **out, DriverError *e)
{
    if (bytes > SIZE_MAX - 256 || posix_memalign(out, 256, (bytes + 255) & ~(size_t)255)) {
        *out = NULL;
        driver_error(e, "out of memory: %zu bytes", bytes);
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    return TILE_OK;
}

static tile_status cpu_memory_free(Driver *d, tile_memory kind, void *p, DriverError *e)
{
    free(p);
    return TILE_OK;
}

static tile_status cpu_copy(Driver *d, void *dst, const void *src, size_t n, void *stream, DriverError *e)
{
    memmove(dst, src, n);
    return TILE_OK;
}

static tile_status cpu_copy_2d(Driver *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t width, size_t rows, void *stream, DriverError *e)
{
    for (size_t r = 0; r < rows; r++)
        memmove((char *)dst + r * dst_pitch, (const char *)src + r * src_pitch, width);
    return TILE_OK;
}

static tile_status cpu_fill(Driver *d, void *dst, uint8_t v, size_t n, void *stream, DriverError *e)
{
    memset(dst, v, n);
    return TILE_OK;
}

static tile_status small_new(Driver *d, void **out, DriverError *e)
{
    CpuDriver *c = (CpuDriver *)d;
    *out = c->alloc.realloc(c->alloc.user, NULL, 0, sizeof(CpuEvent));
    if (!*out) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    memset(*out, 0, sizeof(CpuEvent));
    return TILE_OK;
}

static tile_status small_free(Driver *d, void *p, DriverError *e)
{
    CpuDriver *c = (CpuDriver *)d;
    if (p) c->alloc.realloc(c->alloc.user, p, sizeof(CpuEvent), 0);
    return TILE_OK;
}

static tile_status cpu_stream_synchronize(Driver *d, void *stream, DriverError *e) { return TILE_OK; }
static tile_status cpu_stream_wait(Driver *d, void *stream, void *event, DriverError *e) { return TILE_OK; }

static tile_status cpu_event_record(Driver *d, void *event, void *stream, DriverError *e)
{
    atomic_store(&((CpuEvent *)event)->ns, clock_ns());
    return TILE_OK;
}

static tile_status cpu_event_done(Driver *d, void *event, DriverError *e) { return TILE_OK; }

static tile_status cpu_event_elapsed(Driver *d, void *start, void *end, double *ms, DriverError *e)
{
    int64_t a = atomic_load(&((CpuEvent *)start)->ns), b = atomic_load(&((CpuEvent *)end)->ns);
    if (!a || !b) {
        driver_error(e, "time between events: an event was never recorded");
        return TILE_ERROR_INVALID_ARGUMENT;
    }
    *ms = (double)(b - a) * 1e-6;
    return TILE_OK;
}

static tile_status cpu_synchronize(Driver *d, DriverError *e) { return TILE_OK; }

static void cpu_progress(Driver *d, int64_t *done, int64_t *total)
{
    CpuDriver *c = (CpuDriver *)d;
    *total = atomic_load_explicit(&c->total, memory_order_relaxed);
    *done = *total ? atomic_load_explicit(&c->done, memory_order_relaxed) : 0;
}

const DriverOps driver_cpu = {
    .name = "cpu",
    .kind = TARGET_CPU,
    .memory_word = "memory",
    .open = cpu_open,
    .close = cpu_close,
    .module_load = cpu_module_load,
    .module_unload = cpu_module_unload,
    .launch = cpu_launch,
    .memory_alloc = cpu_memory_alloc,
    .memory_free = cpu_memory_free,
    .copy = cpu_copy,
    .copy_2d = cpu_copy_2d,
    .fill = cpu_fill,
    .stream_create = small_new,
    .stream_destroy = small_free,
    .stream_synchronize = cpu_stream_synchronize,
    .stream_wait = cpu_stream_wait,
    .event_create = small_new,
    .event_destroy = small_free,
    .event_record = cpu_event_record,
    .event_query = cpu_event_done,
    .event_synchronize = cpu_event_done,
    .event_elapsed = cpu_event_elapsed,
    .synchronize = cpu_synchronize,
    .progress = cpu_progress,
};
