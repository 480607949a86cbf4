/* arguments.c: a launch's arguments: read, checked against the kernel's parameters and each other, its
 * dimensions bound to their extents. */
#define _GNU_SOURCE
#include "runtime/launch/launch.h"
#include "ir/analysis/range.h"
#include <math.h>
#include <stdio.h>

typedef struct RawTensor {
    char *data;
    const int64_t *shape, *strides;
    int rank;
} RawTensor;

static const char *dl_name(DLDataType t, char *buf, size_t room)
{
    const char *base = t.code == kDLInt      ? "i"
                       : t.code == kDLUInt   ? "u"
                       : t.code == kDLFloat  ? "f"
                       : t.code == kDLBfloat ? "bf"
                                             : "type ";
    format_text(buf, room, "%s%d%s", base, t.bits, t.lanes == 1 ? "" : " of several lanes");
    return buf;
}

/* DLPack codes of later versions: 6 bool; 10 float8_e4m3fn, 12 float8_e5m2. Bytes that travel as unsigned are
 * accepted for fp8 and bool. */
static bool dtype_matches(const KernelParam *p, DLDataType t)
{
    if (t.lanes != 1 || t.bits != p->dl_bits) return false;
    if (t.code == p->dl_code && p->dtype != DT_BOOL && p->size > 1) return true;
    if (p->dtype == DT_BOOL) return t.code == 6 || t.code == kDLUInt;
    if (p->dtype == DT_F8E4M3) return t.code == 10 || t.code == kDLUInt;
    if (p->dtype == DT_F8E5M2) return t.code == 12 || t.code == kDLUInt;
    return t.code == p->dl_code;
}

static bool device_matches(const tile_context *c, DLDevice d)
{
    int type = (int)d.device_type;
    switch (c->driver->ops->kind) {
    case TARGET_CPU: return type == kDLCPU || type == kDLCUDAHost || type == 11;
    case TARGET_CUDA:
        return (type == kDLCUDA && d.device_id == c->driver->info.dl.device_id) || type == kDLCUDAHost ||
               type == 13;
    case TARGET_HIP: return (type == 10 && d.device_id == c->driver->info.dl.device_id) || type == 11;
    }
    return false;
}

COLD tile_status launch_bad(tile_kernel *k, tile_status st, int i, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    format_args(text, sizeof text, fmt, ap);
    va_end(ap);
    if (i < 0) return context_fail(k->context, st, "%s: %s", k->title, text);
    return context_fail(k->context, st, "%s: argument %d (%s): %s", k->title, i + 1, k->params[i].name, text);
}

static COLD tile_status null_tensor(tile_kernel *k, int i)
{
    return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, i, "the tensor is NULL%s",
        k->params[i].optional ? "; tile_arg_none() leaves an optional tensor out" : "");
}

static tile_status read_dltensor(tile_kernel *k, int i, const DLTensor *t, RawTensor *out)
{
    const KernelParam *p = &k->params[i];
    char name[40];
    if (!t) return null_tensor(k, i);
    if (!dtype_matches(p, t->dtype))
        return launch_bad(k, TILE_ERROR_DTYPE, i, "elements are %s, the kernel takes %s",
            dl_name(t->dtype, name, sizeof name), dtype_name(p->dtype));
    if (!device_matches(k->context, t->device))
        return launch_bad(k, TILE_ERROR_DEVICE, i,
            "lies on DLPack device (%d, %d), the context's is (%d, %d)", (int)t->device.device_type,
            t->device.device_id, (int)k->context->driver->info.dl.device_type,
            k->context->driver->info.dl.device_id);
    *out = (RawTensor){ dl_address(t), t->shape, t->strides, t->ndim };
    return TILE_OK;
}

static tile_status read_raw(tile_kernel *k, int i, const tile_tensor *t, RawTensor *out)
{
    const KernelParam *p = &k->params[i];
    if (!t) return null_tensor(k, i);
    if (t->dtype != TILE_NONE && t->dtype != p->public)
        return launch_bad(k, TILE_ERROR_DTYPE, i, "elements are %s, the kernel takes %s",
            tile_dtype_name(t->dtype), dtype_name(p->dtype));
    *out = (RawTensor){ t->data, t->shape, t->strides, t->rank < 0 ? p->rank : t->rank };
    return TILE_OK;
}

static COLD tile_status bad_extent(tile_kernel *k, int i, int d, int64_t n, int64_t stride)
{
    if (n < 0) return launch_bad(k, TILE_ERROR_SHAPE, i, "axis %d has %lld elements", d, (long long)n);
    return launch_bad(k, TILE_ERROR_SHAPE, i,
        "axis %d, %lld elements with a stride of %lld, reaches beyond memory", d, (long long)n,
        (long long)stride);
}

/* An optional tensor that the launch leaves out: no elements, no address, no promises. */
static tile_status read_none(tile_kernel *k, int i, View *v, int64_t *strides)
{
    const KernelParam *p = &k->params[i];
    if (!p->optional)
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, i,
            "a tensor is wanted; only an optional one, `%s[...]?`, may be left out", p->name);
    if (p->bound > 0)
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, i,
            "the kernel was made with %s=true; leave that binding out to launch without the tensor", p->name);
    memset(v->extent, 0, sizeof v->extent);
    memset(strides, 0, sizeof v->extent);
    v->data = NULL;
    v->word = 0;
    v->lo = v->hi = 0;
    v->facts = FACT_ABSENT;
    return TILE_OK;
}

/* Reads the axes of one tensor in one pass. */
typedef struct Axes {
    int64_t elements, longest;
    /* The distance of the lowest and the highest element from the first one, in elements. */
    int64_t below, above;
    uint64_t unit, mask; /* 1 + the axis of stride 1; the set of axes whose strides TMA accepts */
    /* The strides in bytes and the extent of the unit axis, combined by or: only the zero bits that all have
     * at the low end matter. */
    uint64_t offs;
    bool empty;   /* some axis has no elements */
    int repeated; /* an axis of stride 0, or -1 */
} Axes;

/* Extents, reach and number of elements are at most RANGE_MAX_EXTENT, on which code relies. Sums, and
 * products with an element's size, do not overflow. */
static inline tile_status read_axes(
    tile_kernel *k, int i, const RawTensor *t, View *v, int64_t *strides, Axes *out)
{
    const KernelParam *p = &k->params[i];
    int64_t elements = 1, dense = 1, below = 0, above = 0, step, most = RANGE_MAX_EXTENT, longest = 0;
    uint64_t unit = 0, mask = 0, size = (uint64_t)p->size, offs = 0;
    bool empty = false;
    int repeated = -1;
    for (int d = p->rank; d-- > 0;) {
        int64_t n = v->extent[d] = t->shape[d], stride = t->strides ? t->strides[d] : dense;
        if (n <= 1) {
            if (n < 0) return bad_extent(k, i, d, n, 1);
            empty |= n == 0;
            elements *= n;
            stride = d == p->rank - 1 ? 1
                     : size < 16      ? 16 / p->size
                                      : 1; /* It is only ever multiplied by 0, so any value will do. */
            if (stride == 1 && !unit) unit = (uint64_t)d + 1;
        } else {
            bool bad_reach =
                __builtin_mul_overflow(n - 1, stride, &step) || __builtin_mul_overflow(dense, n, &dense);
            if (step < 0) below += step;
            else above += step;
            bad_reach |= step > most || step < -most || dense > most || above - below > most;
            if (bad_reach) return bad_extent(k, i, d, n, stride);
            if (stride == 0) repeated = d;
            elements *= n;
            longest = n > longest ? n : longest;
            if (stride == 1) unit = (uint64_t)d + 1;
        }
        uint64_t apart = (uint64_t)stride * size; /* TMA accepts strides below 2^40 that are not negative. */
        mask |= (uint64_t)(!(apart & 15) & !(apart >> 40)) << d;
        offs |= (uint64_t)(stride != 1 ? stride : n) * size;
        strides[d] = stride;
    }
    *out = (Axes){ elements, longest, below, above, unit, mask, offs, empty, repeated };
    return TILE_OK;
}

/* The facts on which code may rely. Tensors without elements promise no alignment, because their address may
 * be NULL. */
static inline uint32_t tensor_facts(const KernelParam *p, uintptr_t base, const Axes *x)
{
    uint64_t size = (uint64_t)p->size, offs = x->offs | base;
    bool far = x->empty || x->below < 0 || x->longest >= FITS32_EXTENT ||
               (x->above - x->below + 1) * p->size >= INT32_MAX;
    bool aligned = x->elements && (base & 15) == 0,
         whole = aligned && (x->mask | (x->unit ? 1ull << (x->unit - 1) : 0)) == (1ull << p->rank) - 1;
    uint64_t grain = !x->elements || offs & 3 ? 0 : offs & 4 ? size < 4 : 2 * (size < 8);
    if (whole) grain = offs & 15 || p->rank < 2 ? 0 : 3;
    return (uint32_t)((uint64_t)aligned | x->unit << FACT_UNIT | x->mask << FACT_STRIDES |
                      grain << FACT_GRAIN) |
           (x->above - x->below + 1 == x->elements ? FACT_DENSE : 0) | (far ? FACT_FAR : 0) |
           (x->longest > INT32_MAX ? FACT_LONG : 0);
}

static tile_status read_tensor(tile_kernel *k, int i, const tile_arg *a, View *v, int64_t *strides)
{
    const KernelParam *p = &k->params[i];
    RawTensor t = { NULL, NULL, NULL, 0 };
    if (a->kind == TILE_ARG_NONE) return read_none(k, i, v, strides);
    if (p->optional && !p->bound)
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, i,
            "the kernel was made with %s=false; pass tile_arg_none(), or leave that binding out", p->name);
    if (a->kind != TILE_ARG_DLTENSOR && a->kind != TILE_ARG_TENSOR)
        return launch_bad(k, TILE_ERROR_DTYPE, i, "a tensor is wanted");
    tile_status st = a->kind == TILE_ARG_DLTENSOR ? read_dltensor(k, i, a->value.dltensor, &t)
                                                  : read_raw(k, i, a->value.tensor, &t);
    if (st) return st;
    if (t.rank != p->rank)
        return launch_bad(k, TILE_ERROR_SHAPE, i, "has %d axes, the kernel takes %d%s", t.rank, p->rank,
            !t.rank && a->kind == TILE_ARG_TENSOR ? " (a rank of -1 stands for the kernel's)" : "");
    if (p->rank && !t.shape) return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, i, "the shape is NULL");
    Axes x = { 0 };
    if ((st = read_axes(k, i, &t, v, strides, &x))) return st;
    if (x.repeated >= 0 && x.elements && p->kind != PARAM_IN)
        return launch_bad(k, TILE_ERROR_OVERLAP, i,
            "is written to, but axis %d repeats its elements (stride 0)", x.repeated);
    uintptr_t base = (uintptr_t)t.data;
    v->data = t.data;
    v->word = (uint64_t)x.elements;
    v->lo = base + (uintptr_t)(x.below * p->size);
    v->hi = x.elements ? base + (uintptr_t)((x.above + 1) * p->size)
                       : v->lo; /* A tensor without elements overlaps nothing. */
    v->facts = tensor_facts(p, base, &x);
    if (!t.data && x.elements)
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, i, "the data pointer is NULL");
    if (base & ((uint64_t)p->size - 1))
        return launch_bad(
            k, TILE_ERROR_ALIGNMENT, i, "the address is no multiple of %d, the size of an element", p->size);
    return TILE_OK;
}

void launch_reread(tile_kernel *k, int i, View *v, int64_t *strides)
{
    int64_t shape[TILE_MAX_RANK], apart[TILE_MAX_RANK];
    Axes x = { 0 };
    memcpy(shape, v->extent, sizeof shape);
    memcpy(apart, strides, sizeof apart);
    read_axes(k, i, &(RawTensor){ v->data, shape, apart, k->params[i].rank }, v, strides, &x);
    v->facts = tensor_facts(&k->params[i], (uintptr_t)v->data, &x);
}

static bool fits(DType d, int64_t v)
{
    switch (d) {
    case DT_BOOL: return v == 0 || v == 1;
    case DT_I8: return v == (int8_t)v;
    case DT_I16: return v == (int16_t)v;
    case DT_I32: return v == (int32_t)v;
    case DT_U8: return v == (uint8_t)v;
    case DT_U16: return v == (uint16_t)v;
    case DT_U32: return v == (uint32_t)v;
    case DT_I64:
    case DT_INDEX:
    case DT_U64: /* For u64, these are the bits; negative numbers represent the upper half. */
    case DT_F8E4M3:
    case DT_F8E5M2:
    case DT_F16:
    case DT_BF16:
    case DT_F32:
    case DT_F64:
    case DT_COUNT: return true;
    }
    return true;
}

static tile_status read_scalar(tile_kernel *k, int i, const tile_arg *a, View *v, Scalar *value)
{
    const KernelParam *p = &k->params[i];
    int sign;
    if (p->real && (a->kind == TILE_ARG_FLOAT || a->kind == TILE_ARG_INT)) {
        double f = a->kind == TILE_ARG_FLOAT ? a->value.f : (double)a->value.i;
        if (p->dtype == DT_F32) {
            float narrow = (float)f;
            uint32_t bits;
            memcpy(&bits, &narrow, 4);
            v->word = bits;
            value->f = narrow;
        } else {
            value->f = scalar_round(p->dtype, f);
            v->word = scalar_bits(p->dtype, *value);
        }
        sign = value->f > 0 && value->f < HUGE_VAL ? 1 : value->f == 0 ? 0 : -1;
    } else {
        if (a->kind != TILE_ARG_INT)
            return launch_bad(k, TILE_ERROR_DTYPE, i,
                a->kind == TILE_ARG_FLOAT ? "an integer is wanted" : "a number is wanted");
        if (!fits(p->dtype, a->value.i))
            return launch_bad(
                k, TILE_ERROR_DTYPE, i, "%lld does not fit %s", (long long)a->value.i, dtype_name(p->dtype));
        v->word = (uint64_t)a->value.i;
        value->i = a->value.i;
        /* Zero and positive numbers are one class, because counters start at 0. Indices below the bound of
         * extents are a class of their own: arithmetic with them fits 32 bits. */
        sign = p->dtype != DT_U64 && a->value.i < 0                          ? -1
               : p->dtype == DT_INDEX && a->value.i < (int64_t)FITS32_EXTENT ? SIGN_SMALL
                                                                             : 0;
    }
    v->data = NULL;
    v->facts = (uint32_t)(sign + 1) << FACT_SIGN;
    return TILE_OK;
}

tile_status launch_scalar_value(tile_kernel *k, int i, const tile_arg *a, View *v, Scalar *value)
{ return read_scalar(k, i, a, v, value); }

bool launch_scalar(tile_kernel *k, int i, const tile_arg *a, View *v)
{
    Scalar ignored;
    return read_scalar(k, i, a, v, &ignored) == TILE_OK;
}

static COLD tile_status disagree(
    tile_kernel *k, const View *views, int d, int64_t have, int i, int axis, int64_t seen)
{
    for (int p = 0; p <= i; p++)
        for (int a = 0; a < k->params[p].rank && !(views[p].facts & FACT_ABSENT); a++)
            if (k->params[p].dim[a] == d && (p != i || a != axis) && k->dims[d].bound < 0)
                return launch_bad(k, TILE_ERROR_SHAPE, -1,
                    "dimension %s is %lld in %s (axis %d) but %lld in %s (axis %d)", k->dims[d].name,
                    (long long)have, k->params[p].name, a, (long long)seen, k->params[i].name, axis);
    return launch_bad(k, TILE_ERROR_SHAPE, i, "dimension %s is bound to %lld, but axis %d has %lld",
        k->dims[d].name, (long long)have, axis, (long long)seen);
}

tile_status kernel_bind(tile_kernel *k, const tile_arg *args, size_t n, const LaunchArgs *l)
{
    if (n != (size_t)k->n_params)
        return launch_bad(
            k, TILE_ERROR_INVALID_ARGUMENT, -1, "takes %d arguments, %zu were given", k->n_params, n);
    if (n && !args) return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "the list of arguments is NULL");
    for (int d = 0; d < k->n_dims; d++) l->dims[d] = k->dims[d].bound;
    *l->collapsed = 0;
    for (int i = 0; i < k->n_params; i++) {
        const KernelParam *p = &k->params[i];
        View *v = &l->views[i];
        tile_status st = p->kind == PARAM_SCALAR ? read_scalar(k, i, &args[i], v, &l->scalars[i])
                                                 : read_tensor(k, i, &args[i], v, l->strides[i]);
        if (st) return st;
        for (int a = 0; a < p->rank && !(v->facts & FACT_ABSENT); a++) {
            int d = p->dim[a];
            if (d < 0) continue;
            if (l->dims[d] < 0) l->dims[d] = v->extent[a];
            else if (l->dims[d] != v->extent[a])
                return disagree(k, l->views, d, l->dims[d], i, a, v->extent[a]);
        }
    }
    return TILE_OK;
}

/* --- overlap ----------------------------------------------------------------------------------------- */

/* Reports only overlaps that are certain: interleaved views of one buffer, such as alternate columns, may
 * pass. */
static bool overlap(const View *a, const View *b)
{
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    bool a_dense = a->facts & FACT_DENSE, b_dense = b->facts & FACT_DENSE;
    return x == y || (a_dense && b_dense) || (a_dense && y >= a->lo && y < a->hi) ||
           (b_dense && x >= b->lo && x < b->hi);
}

tile_status launch_overlap(tile_kernel *k, const View *views)
{
    for (int i = 0; i < k->n_params; i++) {
        const View *v = &views[i];
        if (k->params[i].kind != PARAM_OUT && k->params[i].kind != PARAM_INOUT) continue;
        for (int j = 0; j < k->n_params; j++) {
            const View *w = &views[j];
            if (k->params[j].kind == PARAM_SCALAR || v->lo >= w->hi || w->lo >= v->hi || i == j) continue;
            if (overlap(v, w))
                return launch_bad(k, TILE_ERROR_OVERLAP, i > j && k->params[j].kind != PARAM_IN ? j : i,
                    "is written to and overlaps %s",
                    k->params[i > j && k->params[j].kind != PARAM_IN ? i : j].name);
        }
    }
    return TILE_OK;
}

bool launch_apart(tile_kernel *k, const View *views) { return launch_overlap(k, views) == TILE_OK; }
