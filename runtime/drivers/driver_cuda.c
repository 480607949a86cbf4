/* driver_cuda.c: CUDA by libcuda.so.1 (12.0 or later for tensor maps; 11.0 for the rest). Prototypes and
 * numbers are cuda.h's. */
#define _GNU_SOURCE
#include "runtime/drivers/driver_gpu.h"
#include "runtime/drivers/gpu_facts.h"
#include "runtime/drivers/scratch.h"
#include <stdio.h>

enum {
    A_MAX_GRID_X = 5,
    A_WARP = 10,
    A_CLOCK = 13,
    A_MULTIPROCESSORS = 16,
    A_L2 = 38,
    A_MAJOR = 75,
    A_MINOR = 76,
    A_SHARED_OPTIN = 97,
    MEMORY_UNIFIED = 4,
};

typedef struct CudaCopy2D { /* CUDA_MEMCPY2D */
    size_t src_x, src_y;
    int src_type;
    const void *src_host;
    void *src_device, *src_array;
    size_t src_pitch;
    size_t dst_x, dst_y;
    int dst_type;
    void *dst_host;
    void *dst_device, *dst_array;
    size_t dst_pitch;
    size_t width, height;
} CudaCopy2D;

/* The row of targets.def that suits a device best: one with the device's own instructions if it is for
 * exactly this architecture, otherwise the newest row that is not newer than the device. */
static const Target *best_target(int arch)
{
    const Target *best = NULL;
    for (size_t i = 0; target_at(i); i++) {
        const Target *t = target_at(i);
        if (t->kind != TARGET_CUDA || t->arch > arch || (target_has(t, TF_ARCH_SPECIFIC) && t->arch != arch))
            continue;
        if (!best || t->arch > best->arch || (t->arch == best->arch && target_has(t, TF_ARCH_SPECIFIC)))
            best = t;
    }
    return best;
}

static tile_status read_device(GpuDriver *g, DriverError *e)
{
    DriverInfo *info = &g->base.info;
    int major = 0, minor = 0, l2 = 0, shared = 0, grid = 0, r;
    size_t bytes = 0;
    if ((r = g->device_name(info->name, sizeof info->name, g->device)) ||
        (r = g->device_attribute(&major, A_MAJOR, g->device)) ||
        (r = g->device_attribute(&minor, A_MINOR, g->device)) ||
        (r = g->device_attribute(&info->multiprocessors, A_MULTIPROCESSORS, g->device)) ||
        (r = g->device_attribute(&info->warp, A_WARP, g->device)) ||
        (r = g->device_attribute(&l2, A_L2, g->device)) ||
        (r = g->device_attribute(&shared, A_SHARED_OPTIN, g->device)) ||
        (r = g->device_attribute(&grid, A_MAX_GRID_X, g->device)) ||
        (r = g->total_memory(&bytes, g->device)) || (r = g->driver_version(&info->version)))
        return gpudrv_result(g, r, "asking the device what it is", e);
    if (g->device_attribute(&info->clock_khz, A_CLOCK, g->device)) info->clock_khz = 0;
    info->name[sizeof info->name - 1] = 0;
    g->arch = major * 10 + minor;
    info->l2_bytes = l2;
    info->shared_bytes = shared;
    info->max_blocks = grid;
    info->memory_bytes = (int64_t)bytes;
    info->dl.device_type = kDLCUDA;
    const Target *t = best_target(g->arch);
    if (!t) {
        driver_error(e, "%s is sm_%d; kernels need sm_80 or later", info->name, g->arch);
        return TILE_ERROR_UNSUPPORTED;
    }
    format_text(info->target, sizeof info->target, "%s", t->name);
    return TILE_OK;
}

static tile_status start(GpuDriver *g, const DriverDesc *d, DriverError *e)
{
    static const char *const names[] = { "libcuda.so.1", "libcuda.so", NULL };
    tile_status st = gpudrv_open_library(g, d->driver_library, names, true, "CUDA", e);
    if (st) return st;
    int r, count = 0;
    if ((r = g->init(0)) || (r = g->device_count(&count))) {
        st = gpudrv_result(g, r, "starting the CUDA driver", e);
        return st == TILE_ERROR_DRIVER ? TILE_ERROR_NO_DEVICE : st;
    }
    if (d->device < 0 || d->device >= count) {
        driver_error(e, "no CUDA device %d: there %s %d", d->device, count == 1 ? "is" : "are", count);
        return TILE_ERROR_NO_DEVICE;
    }
    if ((r = g->device_get(&g->device, d->device))) return gpudrv_result(g, r, "opening the device", e);
    g->base.info.dl.device_id = d->device;
    if ((st = read_device(g, e))) return st;
    if (d->native_context) g->context = d->native_context;
    else {
        if ((r = g->primary_retain(&g->context, g->device)))
            return gpudrv_result(g, r, "creating the device's context", e);
        g->own_context = true;
    }
    return TILE_OK;
}

static void cuda_close(Driver *d)
{
    GpuDriver *g = (GpuDriver *)d;
    scratch_close(g);
    if (g->own_context && !gpudrv_forked(g)) g->primary_release(g->device);
    gpudrv_free(g);
}

static tile_status cuda_open(const DriverDesc *d, Driver **out, DriverError *e)
{
    GpuDriver *g = gpudrv_new(&driver_cuda, d);
    if (!g) {
        driver_error(e, "out of memory");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    tile_status st = start(g, d, e);
    if (st) {
        cuda_close(&g->base);
        return st;
    }
    *out = &g->base;
    return TILE_OK;
}

static tile_status cuda_copy(Driver *d, void *dst, const void *src, size_t n, void *stream, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (!r) {
        r = g->copy_cuda(dst, src, n, stream);
        gpudrv_leave(g, &scope);
    }
    return gpudrv_result(g, r, "copy", e);
}

static tile_status cuda_copy_2d(Driver *d, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t width, size_t rows, void *stream, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    CudaCopy2D c = { .src_type = MEMORY_UNIFIED,
        .src_device = (void *)(uintptr_t)src,
        .src_pitch = src_pitch,
        .dst_type = MEMORY_UNIFIED,
        .dst_device = dst,
        .dst_pitch = dst_pitch,
        .width = width,
        .height = rows };
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (!r) {
        r = g->copy_2d_cuda(&c, stream);
        gpudrv_leave(g, &scope);
    }
    return gpudrv_result(g, r, "strided copy", e);
}

/* CUtensorMapDataType. Types that the unit does not know are copied as unsigned words of their size: it
 * interprets only out-of-range elements, which it fills with zero bits. */
int gpudrv_map_dtype(DType d)
{
    switch (d) {
    case DT_BOOL:
    case DT_I8:
    case DT_U8:
    case DT_F8E4M3:
    case DT_F8E5M2: return 0;
    case DT_I16:
    case DT_U16: return 1;
    case DT_U32: return 2;
    case DT_I32: return 3;
    case DT_U64: return 4;
    case DT_I64:
    case DT_INDEX: return 5;
    case DT_F16: return 6;
    case DT_F32: return 7;
    case DT_F64: return 8;
    case DT_BF16: return 9;
    case DT_COUNT: break;
    }
    return 0;
}

static tile_status cuda_tensor_map(Driver *d, const DriverTensorMap *t, void *out, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    const TensorMapDesc *m = t->desc;
    uint64_t extents[5], strides[5];
    uint32_t spans[5], steps[5];
    int size = dtype_bytes(m->dtype);
    if (m->pixels ? !g->tensor_map_im2col : !g->tensor_map) {
        driver_error(e, "the CUDA driver (%d) has no cuTensorMapEncode%s: version 12.0 or later is needed",
            g->base.info.version, m->pixels ? "Im2col" : "Tiled");
        return TILE_ERROR_UNSUPPORTED;
    }
    if (!gpu_map_shape(m->rank, m->axes, m->split, size, t->extents, t->strides, extents, strides)) {
        driver_error(e, "tensor map: an axis has no elements, or is no multiple of its panels");
        return TILE_ERROR_INTERNAL;
    }
    int swizzle = gpu_map_swizzle(m->swizzle_bytes);
    gpu_map_boxes(m->rank, m->box, m->step, spans, steps);
    GpuScope scope; /* Encoding requires a current context. The driver of the emulator has none. */
    int r = g->context ? gpudrv_enter(g, &scope) : 0;
    if (r) return gpudrv_result(g, r, "making the device current", e);
    int promotion = gpu_map_promotion(m->rank, m->split, t->data, strides),
        dtype = gpudrv_map_dtype(m->dtype);
    if (m->pixels)
        r = g->tensor_map_im2col(out, dtype, (uint32_t)m->rank, t->data, extents, strides, m->lower, m->upper,
            m->box[0], (uint32_t)m->pixels, steps, 0, swizzle, promotion, 0);
    else
        r = g->tensor_map(
            out, dtype, (uint32_t)m->rank, t->data, extents, strides, spans, steps, 0, swizzle, promotion, 0);
    if (g->context) gpudrv_leave(g, &scope);
    return r ? gpudrv_result(g, r, "encoding a tensor map", e) : TILE_OK;
}

static bool cuda_stream_number(Driver *d, void *stream, uint64_t *number)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    unsigned long long id;
    if (!g->stream_id || gpudrv_enter(g, &scope)) return false;
    int r = g->stream_id(stream, &id);
    gpudrv_leave(g, &scope);
    *number = id;
    return !r;
}

const DriverOps driver_cuda = {
    .name = "cuda",
    .kind = TARGET_CUDA,
    .memory_word = "CUDA memory",
    .open = cuda_open,
    .close = cuda_close,
    .copy = cuda_copy,
    .copy_2d = cuda_copy_2d,
    .tensor_map = cuda_tensor_map,
    .scratch_there = scratch_there,
    .scratch_alloc = scratch_alloc,
    .scratch_free = scratch_free,
    .stream_number = cuda_stream_number,
    GPU_OPS,
};
