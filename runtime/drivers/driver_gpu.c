/* driver_gpu.c: the operations that CUDA and HIP have alike; see driver_gpu.h. The numbers of results and
 * attributes used here agree between the two (cuda.h of CUDA 13, hip_runtime_api.h of HIP 5 and 6). */
#define _GNU_SOURCE
#include "runtime/drivers/driver_gpu.h"
#include "runtime/drivers/gpu_facts.h"
#include "runtime/drivers/link.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    R_OUT_OF_MEMORY = 2,
    R_NO_DEVICE = 100,
    R_INVALID_DEVICE = 101,
    R_NO_BINARY = 209,
    R_INVALID_PTX = 218,
    R_NOT_READY = 600,
    R_ILLEGAL_ADDRESS = 700,
    R_LAUNCH_OUT_OF_RESOURCES = 701,
    R_LAUNCH_TIMEOUT = 702,
    R_CONTEXT_DESTROYED = 709,
    R_ASSERT = 710,
    R_STACK_ERROR = 714,
    R_ILLEGAL_INSTRUCTION = 715,
    R_MISALIGNED = 716,
    R_ADDRESS_SPACE = 717,
    R_INVALID_PC = 718,
    R_LAUNCH_FAILED = 719,
    F_STATIC_SHARED = 1,
    F_LOCAL = 3,
    F_REGISTERS = 4,
    F_MAX_DYNAMIC_SHARED = 8,
    STREAM_NON_BLOCKING = 1,
    R_NOT_INITIALIZED = 3,
    R_FORKED = -1, /* R_FORKED is a code of this library; the driver is not asked about it. */
};

GpuDriver *gpudrv_new(const DriverOps *ops, const DriverDesc *d)
{
    GpuDriver *g = d->alloc.realloc(d->alloc.user, NULL, 0, sizeof *g);
    if (!g) return NULL;
    memset(g, 0, sizeof *g);
    g->base.ops = ops;
    g->alloc = d->alloc;
    g->forks = fork_count();
    if (d->compiler_library)
        format_text(g->compiler_library, sizeof g->compiler_library, "%s", d->compiler_library);
    lock_init(&g->rtc_lock);
    lock_init(&g->scratch_lock);
    return g;
}

void gpudrv_free(GpuDriver *g)
{
    rtc_close(g->rtc);
    lock_destroy(&g->rtc_lock);
    lock_destroy(&g->scratch_lock);
    if (g->library) dlclose(g->library);
    g->alloc.realloc(g->alloc.user, g, sizeof *g, 0);
}

tile_status gpudrv_open_library(
    GpuDriver *g, const char *path, const char *const *names, bool cuda, const char *what, DriverError *e)
{
    char tried[200] = "";
    const char *opened = path;
    if (path) {
        g->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!g->library) {
            driver_error(e, "cannot open %s driver: %s", what, dlerror());
            return TILE_ERROR_NO_DEVICE;
        }
    }
    for (int i = 0; !g->library && names[i]; i++) {
        g->library = dlopen(opened = names[i], RTLD_NOW | RTLD_LOCAL);
        size_t n = strlen(tried);
        format_text(tried + n, sizeof tried - n, "%s%s", i ? ", " : "", names[i]);
    }
    if (!g->library) {
        driver_error(e, "no %s driver on this machine (looked for %s)", what, tried);
        return TILE_ERROR_NO_DEVICE;
    }
#define FN(field, args, cuda_name, hip_name, required) \
    do { \
        const char *name = cuda ? cuda_name : hip_name; \
        if (!*name) break; \
        *(void **)&g->field = dlsym(g->library, name); \
        if (!g->field && required) { \
            driver_error(e, "%s is no %s driver, or too old: it has no %s", opened, what, name); \
            return TILE_ERROR_UNSUPPORTED; \
        } \
    } while (0);
#include "runtime/drivers/gpu.def"
#undef FN
    return TILE_OK;
}

bool gpudrv_forked(const GpuDriver *g) { return g->forks != fork_count(); }

tile_status gpudrv_result(GpuDriver *g, int r, const char *what, DriverError *e)
{
    if (r == 0) return TILE_OK;
    if (r == R_NOT_READY) return TILE_PENDING;
    if (r == R_FORKED) {
        driver_error(e,
            "%s: this process was forked after its %s context was opened, and a driver does not work across "
            "fork(); open the context in the child, "
            "and use the device in the parent only after the last fork",
            what, g->base.ops->name);
        return TILE_ERROR_UNSUPPORTED;
    }
    const char *name = NULL, *text = NULL;
    if (g->error_name_cuda) {
        g->error_name_cuda(r, &name);
        g->error_text_cuda(r, &text);
    } else if (g->error_name) {
        name = g->error_name(r);
        text = g->error_text(r);
    }
    driver_error(e, "%s: %s (%d)%s%s%s", what, name ? name : "unknown error", r, text ? ": " : "",
        text ? text : "",
        r == R_NOT_INITIALIZED && fork_count()
            ? "; a child of a process that used the driver before fork() cannot use it"
            : "");
    switch (r) {
    case R_OUT_OF_MEMORY: return TILE_ERROR_OUT_OF_MEMORY;
    case R_NO_DEVICE:
    case R_INVALID_DEVICE: return TILE_ERROR_NO_DEVICE;
    case R_LAUNCH_OUT_OF_RESOURCES: return TILE_ERROR_RESOURCES;
    case R_ILLEGAL_ADDRESS:
    case R_LAUNCH_TIMEOUT:
    case R_CONTEXT_DESTROYED:
    case R_ASSERT:
    case R_STACK_ERROR:
    case R_ILLEGAL_INSTRUCTION:
    case R_MISALIGNED:
    case R_ADDRESS_SPACE:
    case R_INVALID_PC:
    case R_LAUNCH_FAILED: return TILE_ERROR_DEVICE_FAULT;
    default: return TILE_ERROR_DRIVER;
    }
}

int gpudrv_enter(GpuDriver *g, GpuScope *s)
{
    if (gpudrv_forked(g)) return R_FORKED;
    if (g->context_get) {
        int r = g->context_get(&s->context);
        return r || s->context == g->context ? r : g->context_set(g->context);
    }
    int r = g->device_current(&s->device);
    return r || s->device == g->device ? r : g->device_set(g->device);
}

void gpudrv_leave(GpuDriver *g, const GpuScope *s)
{
    if (g->context_get) {
        if (s->context != g->context) g->context_set(s->context);
    } else if (s->device != g->device) g->device_set(s->device);
}

/* Runs one driver call in the device's context and returns its status from the function around it. */
#define CALL(g, what, call) \
    do { \
        GpuScope scope_; \
        int r_ = gpudrv_enter((g), &scope_); \
        if (r_) return gpudrv_result((g), r_, "making the device current", e); \
        r_ = (call); \
        gpudrv_leave((g), &scope_); \
        return r_ ? gpudrv_result((g), r_, (what), e) : TILE_OK; \
    } while (0)

static Rtc *rtc_of(GpuDriver *g, DriverError *e, tile_status *st)
{
    *st = TILE_OK;
    lock_enter(&g->rtc_lock);
    if (!g->rtc)
        *st = rtc_open(
            g->base.ops->kind, g->compiler_library[0] ? g->compiler_library : NULL, g->alloc, &g->rtc, e);
    Rtc *rtc = g->rtc;
    lock_leave(&g->rtc_lock);
    return rtc;
}

/* Code for an older member of the family runs natively only if it is compiled for the device itself (a cubin
 * of sm_80 does not load on sm_90). Text with instructions of one chip is only used on that chip, which
 * context.c ensures. */
tile_status gpudrv_compile(Driver *d, DriverCompile *c, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    tile_status st;
    Rtc *rtc = rtc_of(g, e, &st);
    if (!rtc) return st;
    atomic_store(&g->prepared, true);
    char arch[32];
    if (d->ops->kind == TARGET_CUDA && c->target->arch != g->arch)
        format_text(arch, sizeof arch, "sm_%d", g->arch);
    else format_text(arch, sizeof arch, "%s", strchr(c->target->name, ':') + 1);
    st = rtc_compile(rtc, c, arch, c->form == DRIVER_BINARY ? RTC_BINARY : RTC_PTX, e);
    if (st || c->form != DRIVER_LINKED) return st;
    char beside[512];
    rtc_path(rtc, beside, sizeof beside);
    return link_ptx(g->alloc, beside, arch, &c->binary, e);
}

const char *gpudrv_compiler_version(Driver *d, char *path, size_t room)
{
    DriverError ignored;
    tile_status st;
    Rtc *rtc = rtc_of((GpuDriver *)d, &ignored, &st);
    if (!rtc) return "";
    rtc_path(rtc, path, room);
    return rtc_version(rtc);
}

void gpudrv_compiler_prepare(Driver *d)
{
    GpuDriver *g = (GpuDriver *)d;
    DriverError ignored;
    tile_status st;
    char arch[32];
    Rtc *rtc =
        d->ops->kind == TARGET_CUDA && !atomic_exchange(&g->prepared, true) ? rtc_of(g, &ignored, &st) : NULL;
    format_text(arch, sizeof arch, "sm_%d", g->arch);
    if (rtc) rtc_prepare(rtc, arch);
}

/* --- beside the capture of a graph --- */

/* A capture in the global mode forbids allocations, loading and waits to all threads but those whose own mode
 * is relaxed. Returns the thread's mode before; -1: the driver has no modes. */
enum { CAPTURE_RELAXED = 2 };
static int exchange_capture_mode(GpuDriver *g, int mode)
{ return mode >= 0 && g->capture_mode && !g->capture_mode(&mode) ? mode : -1; }

/* --- modules --- */

static int load_function(GpuDriver *g, const Artifact *a, void **module, void **function, const char **what)
{
    *what = "loading the module";
    int r = g->module_load(module, a->data);
    if (r) {
        *module = NULL;
        return r;
    }
    *what = "finding the kernel in its module";
    r = g->module_function(function, *module, a->entry);
    if (!r && a->shape.shared_bytes > GPU_SHARED_UNASKED && g->base.ops->kind == TARGET_CUDA) {
        *what = "asking for shared memory";
        r = g->function_set(*function, F_MAX_DYNAMIC_SHARED, (int)a->shape.shared_bytes);
    }
    return r;
}

tile_status gpudrv_module_load(
    Driver *d, const Artifact *a, DriverModule **module, DriverFunction **function, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    void *m = NULL, *f = NULL;
    const char *what;
    int r = gpudrv_enter(g, &scope);
    if (r) return gpudrv_result(g, r, "making the device current", e);
    int mode = exchange_capture_mode(g, CAPTURE_RELAXED);
    r = load_function(g, a, &m, &f, &what);
    if (r && m) g->module_unload(m);
    exchange_capture_mode(g, mode);
    gpudrv_leave(g, &scope);
    e->refused = r && gpu_image_refused(r) && d->ops->kind == TARGET_CUDA;
    if (r) return gpudrv_result(g, r, what, e);
    *module = (DriverModule *)m;
    *function = (DriverFunction *)f;
    return TILE_OK;
}

void gpudrv_module_unload(Driver *d, DriverModule *m)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    if (gpudrv_enter(g, &scope)) return;
    g->module_unload(m);
    gpudrv_leave(g, &scope);
}

tile_status gpudrv_occupancy(
    Driver *d, DriverFunction *f, int threads, size_t shared, int *blocks, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "occupancy", g->occupancy(blocks, f, threads, shared));
}

static bool of_another_context(GpuDriver *g, void *stream)
{
    void *owner = NULL;
    int device = 0;
    if (!stream) return false;
    if (g->stream_context) return !g->stream_context(stream, &owner) && owner != g->context;
    return g->stream_device && !g->stream_device(stream, &device) && device != g->device;
}

/* Explains a failed launch beyond the driver's error number. */
static tile_status launch_failed(
    GpuDriver *g, int r, DriverFunction *f, const DriverLaunch *l, DriverError *e)
{
    int registers = 0;
    tile_status st = gpudrv_result(g, r, "launch", e);
    if (st == TILE_ERROR_DRIVER && of_another_context(g, l->stream)) {
        driver_error(e, "the stream belongs to another context than the kernel's");
        return TILE_ERROR_INVALID_ARGUMENT;
    }
    if (st == TILE_ERROR_RESOURCES && !g->function_get(&registers, F_REGISTERS, f) && registers) {
        size_t n = strlen(e->text);
        format_text(e->text + n, sizeof e->text - n,
            " (%d threads of %d registers, %zu bytes of shared memory)", l->threads, registers,
            l->shared_bytes);
    }
    return st;
}

static int launch_early(GpuDriver *g, DriverFunction *f, const DriverLaunch *l)
{
    GpuLaunchAttribute a;
    GpuLaunchConfig c = gpu_early_launch(l->blocks, l->threads, (int64_t)l->shared_bytes, l->stream, &a);
    return g->launch_ex(&c, f, l->params, NULL);
}

tile_status gpudrv_launch(Driver *d, DriverFunction *f, const DriverLaunch *l, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (r) return gpudrv_result(g, r, "making the device current", e);
    if (l->early_start && g->launch_ex) r = launch_early(g, f, l);
    else
        r = g->launch(f, (unsigned)l->blocks, 1, 1, (unsigned)l->threads, 1, 1, (unsigned)l->shared_bytes,
            l->stream, l->params, NULL);
    tile_status st = r ? launch_failed(g, r, f, l, e) : TILE_OK;
    gpudrv_leave(g, &scope);
    return st;
}

bool gpudrv_capturing(Driver *d, void *stream)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int status = 0;
    if (!g->stream_capturing || gpudrv_enter(g, &scope)) return false;
    int r = g->stream_capturing(stream, &status);
    gpudrv_leave(g, &scope);
    return !r && status != 0;
}

tile_status gpudrv_memory_alloc(Driver *d, tile_memory kind, size_t bytes, void **out, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    if (kind == TILE_MEMORY_PINNED) CALL(g, "allocating pinned memory", g->host_alloc(out, bytes, 0));
    CALL(g, "allocating device memory", g->memory_alloc(out, bytes));
}

/* In a stream of its own, which does not wait for the default stream: what is done in that one would become
 * part of a capture, or end it. */
static int zero_aside(GpuDriver *g, void *p, size_t bytes)
{
    void *stream;
    int r = g->stream_create(&stream, STREAM_NON_BLOCKING);
    if (r) return r;
    r = g->fill(p, 0, bytes, stream);
    if (!r) r = g->stream_sync(stream);
    g->stream_destroy(stream);
    return r;
}

static int zeroed(GpuDriver *g, size_t bytes, void **out)
{
    int r = g->memory_alloc(out, bytes);
    if (r) return r;
    r = zero_aside(g, *out, bytes);
    if (r) g->memory_free(*out);
    return r;
}

tile_status gpudrv_memory_zeroed(Driver *d, size_t bytes, void **out, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (r) return gpudrv_result(g, r, "making the device current", e);
    int mode = exchange_capture_mode(g, CAPTURE_RELAXED);
    r = zeroed(g, bytes, out);
    exchange_capture_mode(g, mode);
    gpudrv_leave(g, &scope);
    return gpudrv_result(g, r, "allocating device memory", e);
}

tile_status gpudrv_memory_free(Driver *d, tile_memory kind, void *p, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    if (kind == TILE_MEMORY_PINNED) CALL(g, "freeing pinned memory", g->host_free(p));
    CALL(g, "freeing device memory", g->memory_free(p));
}

tile_status gpudrv_fill(Driver *d, void *dst, uint8_t v, size_t n, void *stream, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "fill", g->fill(dst, v, n, stream));
}

tile_status gpudrv_stream_create(Driver *d, void **out, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "creating a stream", g->stream_create(out, STREAM_NON_BLOCKING));
}

tile_status gpudrv_stream_destroy(Driver *d, void *s, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "destroying a stream", g->stream_destroy(s));
}

tile_status gpudrv_stream_synchronize(Driver *d, void *s, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "waiting for a stream", g->stream_sync(s));
}

tile_status gpudrv_stream_wait(Driver *d, void *s, void *event, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "making a stream wait for an event", g->stream_wait(s, event, 0));
}

tile_status gpudrv_event_create(Driver *d, void **out, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "creating an event", g->event_create(out, 0));
}

tile_status gpudrv_event_destroy(Driver *d, void *event, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "destroying an event", g->event_destroy(event));
}

tile_status gpudrv_event_record(Driver *d, void *event, void *s, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "recording an event", g->event_record(event, s));
}

tile_status gpudrv_event_query(Driver *d, void *event, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "querying an event", g->event_query(event));
}

tile_status gpudrv_event_synchronize(Driver *d, void *event, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "waiting for an event", g->event_sync(event));
}

tile_status gpudrv_event_elapsed(Driver *d, void *start, void *end, double *ms, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    float f = 0;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (r) return gpudrv_result(g, r, "making the device current", e);
    r = g->event_elapsed(&f, start, end);
    gpudrv_leave(g, &scope);
    *ms = f;
    return gpudrv_result(g, r, "time between events", e);
}

tile_status gpudrv_synchronize(Driver *d, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CALL(g, "waiting for the device", g->synchronize());
}
