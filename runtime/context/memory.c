/* memory.c: tensors, copies, streams, events: the helpers of tile.h over the driver's table. */
#include "runtime/context/context.h"
#include <stdio.h>

/* Opens the body of a helper function: checks the context, and makes the driver's failure the context's. */
#define OPS(c) \
    if (!(c)) return TILE_ERROR_INVALID_ARGUMENT; \
    const DriverOps *ops = (c)->driver->ops; \
    DriverError e = { "" }
#define DO(c, call) context_driver_fail((c), (call), &e, "")
#define NEED(c, cond, what) \
    do { \
        if (!(cond)) return context_fail((c), TILE_ERROR_INVALID_ARGUMENT, "%s: " what, __func__); \
    } while (0)

tile_status tile_context_synchronize(tile_context *c)
{
    OPS(c);
    return DO(c, ops->synchronize(c->driver, &e));
}

tile_status tile_memory_alloc(tile_context *c, tile_memory kind, size_t bytes, void **out)
{
    OPS(c);
    NEED(c, out, "out is NULL");
    *out = NULL;
    NEED(c, kind == TILE_MEMORY_DEVICE || kind == TILE_MEMORY_PINNED, "no such kind of memory");
    if (!bytes) return TILE_OK;
    tile_status st = DO(c, ops->memory_alloc(c->driver, kind, bytes, out, &e));
    if (st) *out = NULL;
    return st;
}

tile_status tile_memory_free(tile_context *c, tile_memory kind, void *p)
{
    OPS(c);
    return p ? DO(c, ops->memory_free(c->driver, kind, p, &e)) : TILE_OK;
}

tile_status tile_copy(tile_context *c, void *dst, const void *src, size_t bytes, void *stream)
{
    OPS(c);
    if (!bytes) return TILE_OK;
    NEED(c, dst && src, "an address is NULL");
    return DO(c, ops->copy(c->driver, dst, src, bytes, stream, &e));
}

tile_status tile_copy_2d(tile_context *c, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t width, size_t rows, void *stream)
{
    OPS(c);
    if (!width || !rows) return TILE_OK;
    NEED(c, dst && src, "an address is NULL");
    NEED(c, rows == 1 || (dst_pitch >= width && src_pitch >= width), "a pitch is less than the width");
    return DO(c, ops->copy_2d(c->driver, dst, dst_pitch, src, src_pitch, width, rows, stream, &e));
}

tile_status tile_fill(tile_context *c, void *dst, uint8_t value, size_t bytes, void *stream)
{
    OPS(c);
    if (!bytes) return TILE_OK;
    NEED(c, dst, "the address is NULL");
    return DO(c, ops->fill(c->driver, dst, value, bytes, stream, &e));
}

/* --- tensors ----------------------------------------------------------------------------------------- */

/* A DLTensor with its shape and strides after it, and the data that is needed to free it. */
typedef struct OwnTensor {
    DLTensor t;
    tile_memory kind;
    int64_t shape[TILE_MAX_RANK], strides[TILE_MAX_RANK];
} OwnTensor;

static DLDataType dl_type(DType d)
{
    uint8_t code = d == DT_BF16         ? kDLBfloat
                   : d == DT_F8E4M3     ? 10
                   : d == DT_F8E5M2     ? 12
                   : d == DT_BOOL       ? 6
                   : dtype_is_float(d)  ? kDLFloat
                   : dtype_is_signed(d) ? kDLInt
                                        : kDLUInt;
    return (DLDataType){ code, (uint8_t)dtype_bits(d), 1 };
}

tile_status tile_tensor_create(
    tile_context *c, tile_memory kind, tile_dtype dtype, int rank, const int64_t *shape, DLTensor **out)
{
    if (!c) return TILE_ERROR_INVALID_ARGUMENT;
    NEED(c, out, "out is NULL");
    *out = NULL;
    DType d = dtype_of_public(dtype);
    NEED(c, d != DT_COUNT, "no such element type");
    if (rank < 0 || rank > TILE_MAX_RANK)
        return context_fail(
            c, TILE_ERROR_SHAPE, "tile_tensor_create: %d axes; 0 to %d are possible", rank, TILE_MAX_RANK);
    NEED(c, !rank || shape, "the shape is NULL");
    OwnTensor *o = context_alloc(c, sizeof *o);
    if (!o) return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    int64_t n = 1, bytes = 0;
    bool bad = false;
    for (int a = rank; a-- > 0;) {
        o->shape[a] = shape[a];
        o->strides[a] = n;
        bad |= shape[a] < 0 || __builtin_mul_overflow(n, shape[a], &n);
    }
    bad |= __builtin_mul_overflow(n, (int64_t)dtype_bytes(d), &bytes);
    tile_status st = bad ? context_fail(c, TILE_ERROR_SHAPE,
                               "tile_tensor_create: a negative extent, or more bytes than memory has")
                         : tile_memory_alloc(c, kind, (size_t)bytes, &o->t.data);
    if (st) {
        context_free(c, o, sizeof *o);
        return st;
    }
    o->kind = kind;
    o->t.device = c->driver->info.dl;
    if (kind == TILE_MEMORY_PINNED && o->t.device.device_type == kDLCUDA)
        o->t.device = (DLDevice){ kDLCUDAHost, 0 };
    if (kind == TILE_MEMORY_PINNED && (int)o->t.device.device_type == 10)
        o->t.device = (DLDevice){ (DLDeviceType)11, 0 };
    o->t.ndim = rank;
    o->t.dtype = dl_type(d);
    o->t.shape = o->shape;
    o->t.strides = o->strides;
    *out = &o->t;
    return TILE_OK;
}

void tile_tensor_destroy(tile_context *c, DLTensor *t)
{
    if (!c || !t) return;
    OwnTensor *o = (OwnTensor *)t;
    tile_memory_free(c, o->kind, o->t.data);
    context_free(c, o, sizeof *o);
}

/* The shape of a copy after merging axes that both sides traverse in the same way: innermost first, strides
 * in bytes. */
typedef struct Axes {
    int n;
    int64_t extent[TILE_MAX_RANK], dst[TILE_MAX_RANK], src[TILE_MAX_RANK];
} Axes;

static void strides_of(const DLTensor *t, int64_t *out)
{
    int64_t dense = 1;
    for (int a = t->ndim; a-- > 0;) {
        out[a] = t->strides ? t->strides[a] : dense;
        dense *= t->shape[a];
    }
}

static Axes merge(const DLTensor *dst, const DLTensor *src, int64_t size)
{
    Axes x = { .n = 1, .extent = { size }, .dst = { 1 }, .src = { 1 } };
    int64_t ds[TILE_MAX_RANK], ss[TILE_MAX_RANK];
    strides_of(dst, ds);
    strides_of(src, ss);
    for (int a = dst->ndim; a-- > 0;) {
        if (dst->shape[a] == 1) continue;
        int64_t d = ds[a] * size, s = ss[a] * size;
        int top = x.n - 1;
        if (d == x.dst[top] * x.extent[top] && s == x.src[top] * x.extent[top])
            x.extent[top] *= dst->shape[a];
        else if (x.n < TILE_MAX_RANK) {
            x.extent[x.n] = dst->shape[a];
            x.dst[x.n] = d;
            x.src[x.n++] = s;
        } else x.n = TILE_MAX_RANK + 1;
        if (x.n > TILE_MAX_RANK) break;
    }
    return x;
}

tile_status tile_tensor_copy(tile_context *c, const DLTensor *dst, const DLTensor *src, void *stream)
{
    if (!c) return TILE_ERROR_INVALID_ARGUMENT;
    NEED(c, dst && src, "a tensor is NULL");
    if (dst->ndim != src->ndim || dst->ndim < 0 || dst->ndim > TILE_MAX_RANK)
        return context_fail(
            c, TILE_ERROR_SHAPE, "tile_tensor_copy: %d axes to %d axes", src->ndim, dst->ndim);
    if (memcmp(&dst->dtype, &src->dtype, sizeof dst->dtype))
        return context_fail(c, TILE_ERROR_DTYPE, "tile_tensor_copy: element types differ");
    int64_t n = 1, size = (int64_t)dst->dtype.bits * dst->dtype.lanes / 8;
    for (int a = 0; a < dst->ndim; a++) {
        if (dst->shape[a] != src->shape[a] || dst->shape[a] < 0)
            return context_fail(c, TILE_ERROR_SHAPE,
                "tile_tensor_copy: axis %d has %lld elements here, %lld there", a, (long long)src->shape[a],
                (long long)dst->shape[a]);
        n *= dst->shape[a];
    }
    if (!n) return TILE_OK;
    NEED(c, dst->data && src->data, "the data pointer is NULL");
    char *to = dl_address(dst);
    const char *from = dl_address(src);
    Axes x = merge(dst, src, size);
    if (x.n == 1) return tile_copy(c, to, from, (size_t)x.extent[0], stream);
    if (x.n == 2 && x.dst[1] >= x.extent[0] && x.src[1] >= x.extent[0])
        return tile_copy_2d(c, to, (size_t)x.dst[1], from, (size_t)x.src[1], (size_t)x.extent[0],
            (size_t)x.extent[1], stream);
    return context_fail(
        c, TILE_ERROR_UNSUPPORTED, "tile_tensor_copy: these strides need more than one strided copy");
}

/* --- streams and events ------------------------------------------------------------------------------ */

tile_status tile_stream_create(tile_context *c, void **out)
{
    OPS(c);
    NEED(c, out, "out is NULL");
    *out = NULL;
    return DO(c, ops->stream_create(c->driver, out, &e));
}

tile_status tile_stream_destroy(tile_context *c, void *stream)
{
    OPS(c);
    if (stream) context_forget_stream(c, stream);
    return stream ? DO(c, ops->stream_destroy(c->driver, stream, &e)) : TILE_OK;
}

tile_status tile_stream_synchronize(tile_context *c, void *stream)
{
    OPS(c);
    return DO(c, ops->stream_synchronize(c->driver, stream, &e));
}

tile_status tile_stream_wait(tile_context *c, void *stream, void *event)
{
    OPS(c);
    NEED(c, event, "the event is NULL");
    return DO(c, ops->stream_wait(c->driver, stream, event, &e));
}

tile_status tile_event_create(tile_context *c, void **out)
{
    OPS(c);
    NEED(c, out, "out is NULL");
    *out = NULL;
    return DO(c, ops->event_create(c->driver, out, &e));
}

tile_status tile_event_destroy(tile_context *c, void *event)
{
    OPS(c);
    return event ? DO(c, ops->event_destroy(c->driver, event, &e)) : TILE_OK;
}

tile_status tile_event_record(tile_context *c, void *event, void *stream)
{
    OPS(c);
    NEED(c, event, "the event is NULL");
    return DO(c, ops->event_record(c->driver, event, stream, &e));
}

tile_status tile_event_query(tile_context *c, void *event)
{
    OPS(c);
    NEED(c, event, "the event is NULL");
    return DO(c, ops->event_query(c->driver, event, &e));
}

tile_status tile_event_synchronize(tile_context *c, void *event)
{
    OPS(c);
    NEED(c, event, "the event is NULL");
    return DO(c, ops->event_synchronize(c->driver, event, &e));
}

tile_status tile_event_elapsed(tile_context *c, void *start, void *end, double *ms)
{
    FLOAT_STATE_DEFAULT();
    OPS(c);
    NEED(c, start && end && ms, "an event or the result is NULL");
    *ms = 0;
    return DO(c, ops->event_elapsed(c->driver, start, end, ms, &e));
}
