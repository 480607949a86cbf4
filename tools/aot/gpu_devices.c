/* gpu_devices.c: devices for programs without a vendor's header: a bundle's functions that open one,
 * allocate, copy and wait. tilec copies the text between the marks into the C file of a bundle, behind
 * gpu.c's. */
#include "tools/aot/gpu.c"
/* begin */
/* --- devices for programs without a vendor's header -------------------------------------------------- */

#define ON_DEVICE(what, call) \
    do { \
        Api *a; \
        Home *h; \
        Scope scope; \
        int status_ = api_of(d->queue.kind, &a); \
        if (status_ || (status_ = home_of(a, &d->queue, d->name, &h))) return status_; \
        int result_ = enter(a, h, &scope); \
        if (!result_) { \
            result_ = (call); \
            leave(a, h, &scope); \
        } \
        return result_ ? driver_failed(a, result_, d->name, what) : TILE_LAUNCH_OK; \
    } while (0)

static int gpu_alloc(const tile_device *d, size_t bytes, void **memory)
{ ON_DEVICE("allocating memory", a->memory_alloc(memory, bytes ? bytes : 1)); }
static int gpu_release(const tile_device *d, void *memory)
{ ON_DEVICE("freeing memory", memory ? a->memory_free(memory) : 0); }
static int gpu_synchronize(const tile_device *d)
{ ON_DEVICE("waiting for the stream", a->stream_sync(d->queue.stream)); }

static int copy_and_wait(const Api *a, const tile_device *d, void *to, const void *from, size_t bytes)
{
    int result = a->copy_cuda ? a->copy_cuda(to, from, bytes, d->queue.stream)
                              : a->copy_hip(to, from, bytes, 4, d->queue.stream);
    return result ? result : a->stream_sync(d->queue.stream);
}
static int gpu_copy(const tile_device *d, void *to, const void *from, size_t bytes)
{ ON_DEVICE("copying", copy_and_wait(a, d, to, from, bytes)); }

static int cpu_alloc(const tile_device *d, size_t bytes, void **memory)
{
    *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    return *memory ? TILE_LAUNCH_OK : fail(TILE_LAUNCH_OUT_OF_MEMORY, "%s: out of memory", d->name);
}
static int cpu_release(const tile_device *d, void *memory)
{
    (void)d;
    free(memory);
    return TILE_LAUNCH_OK;
}
static int cpu_copy(const tile_device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    memcpy(to, from, bytes);
    return TILE_LAUNCH_OK;
}
static int cpu_synchronize(const tile_device *d)
{
    (void)d;
    return TILE_LAUNCH_OK;
}

static int open_gpu(int kind, int ordinal, tile_device *d)
{
    Api *a;
    Home *h;
    int handle = 0, n = 0, result, status = api_of(kind, &a);
    if (status) return status;
    if ((result = a->device_count(&n))) return driver_failed(a, result, "device", "counting devices");
    if (ordinal < 0 || ordinal >= n)
        return fail(TILE_LAUNCH_NO_DEVICE, "there is no device %d: there are %d", ordinal, n);
    *d = (tile_device){ .queue = { .kind = kind },
        .ordinal = ordinal,
        .alloc = gpu_alloc,
        .release = gpu_release,
        .copy = gpu_copy,
        .synchronize = gpu_synchronize };
    if ((result = a->device_get(&handle, ordinal)) ||
        (result = a->device_name(d->name, sizeof d->name, handle)))
        return driver_failed(a, result, "device", "asking its name");
    if (kind == TILE_ON_HIP) d->queue.context = (void *)(intptr_t)(ordinal + 1);
    else if ((result = a->primary_retain(&d->queue.context, handle)))
        return driver_failed(a, result, d->name, "making a context");
    if ((status = home_of(a, &d->queue, d->name, &h))) return status;
    snprintf(d->target, sizeof d->target, "%s", h->target);
    for (int i = 0; i < N_IMAGES; i++)
        if (image_fits(&images[i], h)) return TILE_LAUNCH_OK;
    return fail(TILE_LAUNCH_UNSUPPORTED, "nothing was compiled for %s (%s)", d->name, d->target);
}

static int bundle_open(int kind, int ordinal, bool cpu, tile_device *d)
{
    for (int k = TILE_ON_CUDA; k <= TILE_ON_HIP; k++) {
        bool has = false;
        for (int i = 0; i < N_IMAGES; i++) has |= images[i].device == k;
        if (kind != k && !(kind == TILE_ON_ANY && has)) continue;
        int status = open_gpu(k, ordinal, d);
        if (!status || kind == k) return status;
    }
    if (kind != TILE_ON_CPU && kind != TILE_ON_ANY)
        return fail(TILE_LAUNCH_INVALID, "there is no device of kind %d", kind);
    if (!cpu) return fail(TILE_LAUNCH_NO_DEVICE, "no device that this bundle has code for");
    *d = (tile_device){ .queue = { .kind = TILE_ON_CPU },
        .name = "CPU",
        .target = "cpu",
        .alloc = cpu_alloc,
        .release = cpu_release,
        .copy = cpu_copy,
        .synchronize = cpu_synchronize };
    return TILE_LAUNCH_OK;
}
/* end */
