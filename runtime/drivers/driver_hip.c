/* driver_hip.c: HIP by libamdhip64.so of any major version. Prototypes and numbers are those of HIP 5 and 6,
 * which agree for all that is used here; what changed between them (the struct of device properties) is read
 * without knowing its layout. */
#define _GNU_SOURCE
#include "runtime/drivers/driver_gpu.h"
#include "runtime/drivers/gpu_facts.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    A_CLOCK = 5,
    A_L2 = 19,
    A_MULTIPROCESSORS = 63,
    A_SHARED = 74,
    A_WARP = 87,
    COPY_DEFAULT = 4,
    PROPERTIES_ROOM = 16384
};

static tile_status read_arch(GpuDriver *g, DriverError *e)
{
    DriverInfo *info = &g->base.info;
    int (*newer)(void *, int) = NULL; /* HIP 6 exports the reader of the new struct under another name. */
    *(void **)&newer = dlsym(g->library, "hipGetDevicePropertiesR0600");
    char *props = g->alloc.realloc(g->alloc.user, NULL, 0, PROPERTIES_ROOM), arch[24];
    if (!props) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    memset(props, 0, PROPERTIES_ROOM);
    int r = newer ? newer(props, g->device) : g->properties(props, g->device);
    bool found = !r && gpu_find_arch(props, PROPERTIES_ROOM, arch, sizeof arch);
    g->alloc.realloc(g->alloc.user, props, PROPERTIES_ROOM, 0);
    if (r) return gpudrv_result(g, r, "asking the device what it is", e);
    if (!found) {
        driver_error(e, "the HIP driver does not tell the architecture of %s", info->name);
        return TILE_ERROR_UNSUPPORTED;
    }
    format_text(info->target, sizeof info->target, "hip:%s", arch);
    const Target *t = target_find(info->target);
    if (!t) {
        driver_error(e, "%s is %s, which no target row serves", info->name, arch);
        return TILE_ERROR_UNSUPPORTED;
    }
    g->arch = t->arch;
    return TILE_OK;
}

static tile_status read_device(GpuDriver *g, DriverError *e)
{
    DriverInfo *info = &g->base.info;
    size_t bytes = 0;
    int r, v = 0;
    if ((r = g->device_name(info->name, sizeof info->name, g->device)) ||
        (r = g->total_memory(&bytes, g->device)) || (r = g->driver_version(&info->version)))
        return gpudrv_result(g, r, "asking the device what it is", e);
    info->name[sizeof info->name - 1] = 0;
    tile_status st = read_arch(g, e);
    if (st) return st;
    const Target *t = target_find(info->target);
    info->dl.device_type = kDLROCM;
    info->memory_bytes = (int64_t)bytes;
    /* launch.c also ensures that the product of CTAs and threads is below 2^32. */
    info->max_blocks = INT32_MAX;
    /* Attribute numbers are positions in an enum of the vendor. An impossible answer means that they have
     * moved, and the row of the table is used instead. */
    info->multiprocessors =
        g->device_attribute(&v, A_MULTIPROCESSORS, g->device) || v < 1 || v > 4096 ? t->n_sms : v;
    info->warp = t->wave;
    info->shared_bytes =
        g->device_attribute(&v, A_SHARED, g->device) || v < 16384 || v > 1 << 20 ? t->shared_bytes : v;
    info->l2_bytes = g->device_attribute(&v, A_L2, g->device) || v < 1 << 16 ? t->l2_bytes : v;
    info->clock_khz = g->device_attribute(&v, A_CLOCK, g->device) || v < 100000 ? 0 : v;
    return TILE_OK;
}

static tile_status start(GpuDriver *g, const DriverDesc *d, DriverError *e)
{
    static const char *const names[] = { "libamdhip64.so", "libamdhip64.so.8", "libamdhip64.so.7",
        "libamdhip64.so.6", "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so", NULL };
    tile_status st = gpudrv_open_library(g, d->driver_library, names, false, "HIP", e);
    if (st) return st;
    *(void **)&g->error_name = dlsym(g->library, "hipGetErrorName");
    *(void **)&g->error_text = dlsym(g->library, "hipGetErrorString");
    if (!g->error_text) g->error_name = NULL;
    int r, count = 0;
    if ((r = g->init(0)) || (r = g->device_count(&count))) {
        st = gpudrv_result(g, r, "starting the HIP driver", e);
        return st == TILE_ERROR_DRIVER ? TILE_ERROR_NO_DEVICE : st;
    }
    if (d->device < 0 || d->device >= count) {
        driver_error(e, "no HIP device %d: there %s %d", d->device, count == 1 ? "is" : "are", count);
        return TILE_ERROR_NO_DEVICE;
    }
    if ((r = g->device_get(&g->device, d->device))) return gpudrv_result(g, r, "opening the device", e);
    g->base.info.dl.device_id = d->device;
    return read_device(g, e);
}

static void hip_close(Driver *d) { gpudrv_free((GpuDriver *)d); }

static tile_status hip_open(const DriverDesc *d, Driver **out, DriverError *e)
{
    if (d->native_context) {
        driver_error(e, "native_context is CUDA's: HIP has none");
        return TILE_ERROR_INVALID_ARGUMENT;
    }
    GpuDriver *g = gpudrv_new(&driver_hip, d);
    if (!g) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    tile_status st = start(g, d, e);
    if (st) {
        hip_close(&g->base);
        return st;
    }
    *out = &g->base;
    return TILE_OK;
}

static tile_status hip_copy(Driver *d, void *dst, const void *src, size_t n, void *stream, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (!r) {
        r = g->copy_hip(dst, src, n, COPY_DEFAULT, stream);
        gpudrv_leave(g, &scope);
    }
    return gpudrv_result(g, r, "copy", e);
}

static tile_status hip_copy_2d(Driver *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t width, size_t rows, void *stream, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (!r) {
        r = g->copy_2d_hip(dst, dst_pitch, src, src_pitch, width, rows, COPY_DEFAULT, stream);
        gpudrv_leave(g, &scope);
    }
    return gpudrv_result(g, r, "strided copy", e);
}

const DriverOps driver_hip = {
    .name = "hip",
    .kind = TARGET_HIP,
    .memory_word = "HIP memory",
    .open = hip_open,
    .close = hip_close,
    .copy = hip_copy,
    .copy_2d = hip_copy_2d,
    GPU_OPS,
};
