/* launch.c: the long way of a launch, for what memo.c does not know: read and check the arguments, make the key, find the variant, evaluate the grid, fill the slots,
 * hand over to the driver. When the variant is there, nothing here allocates, locks or compiles. */
#define _GNU_SOURCE
#include "runtime/kernel.h"
#include <math.h>
#include <stdio.h>

/* --- arguments ----------------------------------------------------------------------------------------------------------------- */

typedef struct RawTensor { char *data; const int64_t *shape, *strides; int rank; } RawTensor;

static const char *dl_name(DLDataType t, char *buf, size_t room)
{
    const char *base = t.code == kDLInt ? "i" : t.code == kDLUInt ? "u" : t.code == kDLFloat ? "f" : t.code == kDLBfloat ? "bf" : "type ";
    snprintf(buf, room, "%s%d%s", base, t.bits, t.lanes == 1 ? "" : " of several lanes");
    return buf;
}

/* DLPack codes of later versions: 6 bool; 10 float8_e4m3fn, 12 float8_e5m2. Bytes that travel as unsigned are accepted for fp8 and bool. */
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
    case TARGET_CUDA: return (type == kDLCUDA && d.device_id == c->driver->info.dl.device_id) || type == kDLCUDAHost || type == 13;
    case TARGET_HIP: return (type == 10 && d.device_id == c->driver->info.dl.device_id) || type == 11;
    }
    return false;
}

#define COLD __attribute__((cold, noinline))

static COLD tile_status bad(tile_kernel *k, tile_status st, int i, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (i < 0) return context_fail(k->context, st, "%s: %s", k->title, text);
    return context_fail(k->context, st, "%s: argument %d (%s): %s", k->title, i + 1, k->params[i].name, text);
}

static tile_status read_dltensor(tile_kernel *k, int i, const DLTensor *t, RawTensor *out)
{
    const KernelParam *p = &k->params[i];
    char name[40];
    if (!t) return bad(k, TILE_ERROR_INVALID_ARGUMENT, i, "the tensor is NULL");
    if (!dtype_matches(p, t->dtype)) return bad(k, TILE_ERROR_DTYPE, i, "elements are %s, the kernel takes %s", dl_name(t->dtype, name, sizeof name), dtype_name(p->dtype));
    if (!device_matches(k->context, t->device))
        return bad(k, TILE_ERROR_DEVICE, i, "lies on DLPack device (%d, %d), the context's is (%d, %d)", (int)t->device.device_type, t->device.device_id,
                   (int)k->context->driver->info.dl.device_type, k->context->driver->info.dl.device_id);
    *out = (RawTensor){ t->data ? (char *)t->data + t->byte_offset : NULL, t->shape, t->strides, t->ndim };
    return TILE_OK;
}

static tile_status read_raw(tile_kernel *k, int i, const tile_tensor *t, RawTensor *out)
{
    const KernelParam *p = &k->params[i];
    if (!t) return bad(k, TILE_ERROR_INVALID_ARGUMENT, i, "the tensor is NULL");
    if (t->dtype != TILE_NONE && t->dtype != p->public)
        return bad(k, TILE_ERROR_DTYPE, i, "elements are %s, the kernel takes %s", tile_dtype_name(t->dtype), dtype_name(p->dtype));
    *out = (RawTensor){ t->data, t->shape, t->strides, t->rank < 0 ? p->rank : t->rank };
    return TILE_OK;
}

static COLD tile_status bad_extent(tile_kernel *k, int i, int d, int64_t n, int64_t stride)
{
    if (n < 0) return bad(k, TILE_ERROR_SHAPE, i, "axis %d has %lld elements", d, (long long)n);
    if (stride == 0) return bad(k, TILE_ERROR_OVERLAP, i, "is written to, but axis %d repeats its elements (stride 0)", d);
    return bad(k, TILE_ERROR_SHAPE, i, "axis %d, %lld elements with a stride of %lld, reaches beyond memory", d, (long long)n, (long long)stride);
}

static tile_status read_tensor(tile_kernel *k, int i, const tile_arg *a, View *v, int64_t *strides)
{
    const KernelParam *p = &k->params[i];
    RawTensor t = { NULL, NULL, NULL, 0 };
    if (a->kind != TILE_ARG_DLTENSOR && a->kind != TILE_ARG_TENSOR) return bad(k, TILE_ERROR_DTYPE, i, "a tensor is wanted");
    tile_status st = a->kind == TILE_ARG_DLTENSOR ? read_dltensor(k, i, a->value.dltensor, &t) : read_raw(k, i, a->value.tensor, &t);
    if (st) return st;
    if (t.rank != p->rank) return bad(k, TILE_ERROR_SHAPE, i, "has %d axes, the kernel takes %d", t.rank, p->rank);
    if (p->rank && !t.shape) return bad(k, TILE_ERROR_INVALID_ARGUMENT, i, "the shape is NULL");
    /* Reach and number of elements stay below 2^55, so that sums and products with an element's size cannot overflow later. */
    int64_t elements = 1, dense = 1, below = 0, above = 0, step, most = INT64_MAX / 256;
    uint64_t unit = 0, mask = 0, size = (uint64_t)p->size, offs = 0;     /* offs: bytes of strides, of the unit axis's extent and the base, joined: the zeros below are what all have */
    bool far = false;
    int64_t longest = 0;
    for (int d = p->rank; d-- > 0;) {
        int64_t n = v->extent[d] = t.shape[d], stride = t.strides ? t.strides[d] : dense;
        if (n <= 1) {
            if (n < 0) return bad_extent(k, i, d, n, 1);
            far |= n == 0;
            elements *= n;
            stride = d == p->rank - 1 ? 1 : size < 16 ? 16 / p->size : 1;       /* never multiplied by anything but 0: the value is ours to choose */
            if (stride == 1 && !unit) unit = (uint64_t)d + 1;
        } else {
            bool bad_reach = __builtin_mul_overflow(n - 1, stride, &step) || __builtin_mul_overflow(dense, n, &dense);
            if (step < 0) below += step;
            else above += step;
            bad_reach |= step > most || step < -most || dense > most || above - below > most;
            if (bad_reach || (stride == 0 && p->kind != PARAM_IN)) return bad_extent(k, i, d, n, bad_reach ? stride | 1 : stride);
            elements *= n;
            longest = n > longest ? n : longest;
            if (stride == 1) unit = (uint64_t)d + 1;
        }
        mask |= (uint64_t)((((uint64_t)stride * size) & 15) == 0) << d;
        offs |= (uint64_t)(stride != 1 ? stride : n) * size;
        strides[d] = stride;
    }
    uintptr_t base = (uintptr_t)t.data;
    far |= below < 0 || longest >= FITS32_EXTENT || (above - below + 1) * p->size >= INT32_MAX;
    v->data = t.data;
    v->word = (uint64_t)elements;
    v->lo = base + (uintptr_t)(below * p->size);
    v->hi = elements ? base + (uintptr_t)((above + 1) * p->size) : v->lo;       /* without elements it overlaps nothing */
    /* Tensors without elements promise no alignment: their address may be NULL. */
    offs |= base;
    bool aligned = elements && (base & 15) == 0, whole = aligned && (mask | (unit ? 1ull << (unit - 1) : 0)) == (1ull << p->rank) - 1;
    uint64_t grain = !elements || whole || offs & 3 ? 0 : offs & 4 ? size < 4 : size < 8 ? 2 : 0;
    v->facts = (uint32_t)((uint64_t)aligned | unit << FACT_UNIT | mask << FACT_STRIDES | grain << FACT_GRAIN) |
               (above - below + 1 == elements ? FACT_DENSE : 0) | (far ? FACT_FAR : 0) | (longest > INT32_MAX ? FACT_LONG : 0);
    if (!t.data && elements) return bad(k, TILE_ERROR_INVALID_ARGUMENT, i, "the data pointer is NULL");
    if (base & (size - 1)) return bad(k, TILE_ERROR_ALIGNMENT, i, "the address is no multiple of %d, the size of an element", p->size);
    return TILE_OK;
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
    case DT_I64: case DT_INDEX: case DT_U64:        /* u64: the bits; negative numbers are the upper half */
    case DT_F8E4M3: case DT_F8E5M2: case DT_F16: case DT_BF16: case DT_F32: case DT_F64: case DT_COUNT: return true;
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
        if (a->kind != TILE_ARG_INT) return bad(k, TILE_ERROR_DTYPE, i, a->kind == TILE_ARG_FLOAT ? "an integer is wanted" : "a number is wanted");
        if (!fits(p->dtype, a->value.i)) return bad(k, TILE_ERROR_DTYPE, i, "%lld does not fit %s", (long long)a->value.i, dtype_name(p->dtype));
        v->word = (uint64_t)a->value.i;
        value->i = a->value.i;
        sign = p->dtype != DT_U64 && a->value.i < 0 ? -1 : 0;      /* zero and positive are one: counters start at 0 */
    }
    v->data = NULL;
    v->facts = (uint32_t)(sign + 1) << FACT_SIGN;
    return TILE_OK;
}

bool launch_scalar(tile_kernel *k, int i, const tile_arg *a, View *v)
{
    Scalar ignored;
    return read_scalar(k, i, a, v, &ignored) == TILE_OK;
}

static COLD tile_status disagree(tile_kernel *k, int d, int64_t have, int i, int axis, int64_t seen)
{
    for (int p = 0; p < k->n_params; p++)
        for (int a = 0; a < k->params[p].rank; a++)
            if (k->params[p].dim[a] == d && (p != i || a != axis) && k->dims[d].bound < 0)
                return bad(k, TILE_ERROR_SHAPE, -1, "dimension %s is %lld in %s (axis %d) but %lld in %s (axis %d)", k->dims[d].name, (long long)have,
                           k->params[p].name, a, (long long)seen, k->params[i].name, axis);
    return bad(k, TILE_ERROR_SHAPE, i, "dimension %s is bound to %lld, but axis %d has %lld", k->dims[d].name, (long long)have, axis, (long long)seen);
}

tile_status kernel_bind(tile_kernel *k, const tile_arg *args, size_t n, const LaunchArgs *l)
{
    if (n != (size_t)k->n_params) return bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "takes %d arguments, %zu were given", k->n_params, n);
    if (n && !args) return bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "the list of arguments is NULL");
    for (int d = 0; d < k->n_dims; d++) l->dims[d] = k->dims[d].bound;
    for (int i = 0; i < k->n_params; i++) {
        const KernelParam *p = &k->params[i];
        View *v = &l->views[i];
        tile_status st = p->kind == PARAM_SCALAR ? read_scalar(k, i, &args[i], v, &l->scalars[i]) : read_tensor(k, i, &args[i], v, l->strides[i]);
        if (st) return st;
        for (int a = 0; a < p->rank; a++) {
            int d = p->dim[a];
            if (d < 0) continue;
            if (l->dims[d] < 0) l->dims[d] = v->extent[a];
            else if (l->dims[d] != v->extent[a]) return disagree(k, d, l->dims[d], i, a, v->extent[a]);
        }
    }
    return TILE_OK;
}

/* --- overlap ---------------------------------------------------------------------------------------------------------------------- */

/* Only what is certain: interleaved views of one buffer, such as alternate columns, may pass. */
static bool overlap(const View *a, const View *b)
{
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    bool a_dense = a->facts & FACT_DENSE, b_dense = b->facts & FACT_DENSE;
    return x == y || (a_dense && b_dense) || (a_dense && y >= a->lo && y < a->hi) || (b_dense && x >= b->lo && x < b->hi);
}

static tile_status check_overlap(tile_kernel *k, const View *views)
{
    for (int i = 0; i < k->n_params; i++) {
        const View *v = &views[i];
        if (k->params[i].kind != PARAM_OUT && k->params[i].kind != PARAM_INOUT) continue;
        for (int j = 0; j < k->n_params; j++) {
            const View *w = &views[j];
            if (k->params[j].kind == PARAM_SCALAR || v->lo >= w->hi || w->lo >= v->hi || i == j) continue;
            if (overlap(v, w)) return bad(k, TILE_ERROR_OVERLAP, i > j && k->params[j].kind != PARAM_IN ? j : i, "is written to and overlaps %s",
                                          k->params[i > j && k->params[j].kind != PARAM_IN ? i : j].name);
        }
    }
    return TILE_OK;
}

bool launch_apart(tile_kernel *k, const View *views) { return check_overlap(k, views) == TILE_OK; }

/* --- the key --------------------------------------------------------------------------------------------------------------------------- */

void kernel_key(tile_kernel *k, const LaunchArgs *l, uint64_t *key)
{
    int masks = (k->n_dims + 63) / 64;
    uint64_t *at = key + 1 + masks, *facts = at + k->n_key_dims, far = 0;
    memset(key, 0, (size_t)k->key_words * 8);
    for (int d = 0; d < k->n_dims; d++) {
        int64_t n = l->dims[d];
        key[1 + d / 64] |= (uint64_t)(n > 0 && (n & 15) == 0) << d % 64;
        if (k->dims[d].key) *at++ = (uint64_t)n;
    }
    for (int i = 0; i < k->n_params; i++) {
        uint32_t f = l->views[i].facts;
        far |= f;
        facts[i / 4] |= (uint64_t)(f & FACT_KEY) << 16 * (i % 4);
    }
    key[0] = (uint64_t)!(far & FACT_FAR) | (uint64_t)!(far & FACT_LONG) << 1;
    int row = k->n_rows ? kernel_tune_row(k, l->dims) + 1 : 0;
    if (!row && k->chooser && (row = kernel_choice(k, l, key))) row += k->n_rows;
    key[0] |= (uint64_t)row << 8;
}

void kernel_facts(const tile_kernel *k, const uint64_t *key, ParamFacts *params, bool *dim16, LaunchFacts *out)
{
    const uint64_t *facts = key + 1 + (k->n_dims + 63) / 64 + k->n_key_dims;
    for (int d = 0; d < k->n_dims; d++) dim16[d] = key[1 + d / 64] >> d % 64 & 1;
    for (int i = 0; i < k->n_params; i++) {
        unsigned f = (unsigned)(facts[i / 4] >> 16 * (i % 4)) & 0xffff;
        params[i] = (ParamFacts){ .align = f & FACT_ALIGNED ? 16 : 0, .unit_axis = (int)(f >> FACT_UNIT & 15) - 1, .stride_mask = f >> FACT_STRIDES & 255,
                                  .sign = (int)(f >> FACT_SIGN & 3) - 1 };
        if (k->params[i].kind != PARAM_SCALAR) params[i].grain = (int)(f >> FACT_GRAIN & 3) * 4;
    }
    *out = (LaunchFacts){ .params = params, .n_params = k->n_params, .dim16 = dim16, .n_dims = k->n_dims, .fits32 = key[0] & 1, .extents31 = key[0] >> 1 & 1 };
}

/* --- grid ------------------------------------------------------------------------------------------------------------------------------- */

/* Extents by the variant's dimensions. Axes with a dimension's name were compared when they were bound. */
static tile_status bind_dims(tile_kernel *k, const Compiled *c, const View *views, int64_t *dims)
{
    for (int i = 0; i < c->n_dims; i++) dims[i] = c->dims[i].extent >= 0 ? c->dims[i].extent : views[c->dims[i].param].extent[c->dims[i].axis];
    for (int p = 0; k->anonymous && p < c->n_params; p++)
        for (int a = 0; a < k->params[p].rank; a++)
            if (k->params[p].dim[a] < 0 && views[p].extent[a] != dims[c->params[p].dims[a]])
                return bad(k, TILE_ERROR_SHAPE, p, "axis %d (%s) has %lld elements, not %lld", a, k->params[p].text[a] ? k->params[p].text[a] : "?",
                           (long long)views[p].extent[a], (long long)dims[c->params[p].dims[a]]);
    return TILE_OK;
}

static tile_status eval_grid(tile_kernel *k, const EvalCode *grid, EvalEnv *env, int64_t *programs)
{
    int64_t extent[3] = { 1, 1, 1 };
    int n = eval_results(grid);
    *programs = 0;
    if (!eval_run(grid, env, extent)) return bad(k, TILE_ERROR_GRID, -1, "the grid's expression does not end");
    int64_t total = 1;
    bool none = false;
    for (int i = 0; i < n; i++) none |= extent[i] <= 0;
    for (int i = 0; i < 3; i++) {
        env->grid[i] = i < n ? extent[i] : 1;
        if (!none && __builtin_mul_overflow(total, env->grid[i], &total)) return bad(k, TILE_ERROR_GRID, -1, "more than 2^63 programs");
    }
    *programs = none ? 0 : total;
    return TILE_OK;
}

static uint64_t mix(uint64_t h, uint64_t w)
{
    h = (h ^ w) * 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

static COLD tile_status check_remap(tile_kernel *k, Variant *v, EvalEnv *env, int64_t programs, uint64_t hash)
{
    EvalClash clash = { 0 };
    tile_context *c = k->context;
    switch (eval_check_remap(v->compiled.remap, env, programs, c->alloc, &clash)) {
    case EVAL_BIJECTION:
        atomic_store_explicit(&v->remap_good[atomic_fetch_add(&v->remap_next, 1) % REMAP_VERDICTS], hash, memory_order_release);
        return TILE_OK;
    case EVAL_COLLISION:
        return bad(k, TILE_ERROR_REMAP, -1, "the remap is no permutation of the %lld programs: programs %lld and %lld both become %lld", (long long)programs,
                   (long long)clash.a, (long long)clash.b, (long long)clash.to);
    case EVAL_OUT_OF_RANGE:
        return bad(k, TILE_ERROR_REMAP, -1, "the remap sends program %lld to %lld, outside of the %lld programs", (long long)clash.a, (long long)clash.to, (long long)programs);
    case EVAL_NOT_CHECKED:
        return bad(k, TILE_ERROR_REMAP, -1, "a grid of %lld programs is too large to check its remap (at most %d)", (long long)programs, EVAL_MAX_CHECKED);
    case EVAL_FAILED:
        return bad(k, TILE_ERROR_REMAP, -1, "the remap's expression does not end for program %lld", (long long)clash.a);
    case EVAL_NO_MEMORY: break;
    }
    return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* The verdict holds for one grid and one set of values that the remap may read: all of them go into its name. */
static tile_status verify_remap(tile_kernel *k, Variant *v, EvalEnv *env, int64_t programs, const LaunchArgs *l, const int64_t *dims)
{
    uint64_t h = (uint64_t)programs;
    for (int i = 0; i < 3; i++) h = mix(h, (uint64_t)env->grid[i]);
    for (int i = 0; i < v->compiled.n_dims; i++) h = mix(h, (uint64_t)dims[i]);
    for (int i = 0; i < k->n_params; i++) {
        if (k->params[i].kind == PARAM_SCALAR) h = mix(h, l->views[i].word);
        else for (int a = 0; a < k->params[i].rank; a++) h = mix(h, (uint64_t)l->strides[i][a]);
    }
    h |= 1;     /* 0 marks a free place */
    for (int i = 0; i < REMAP_VERDICTS; i++)
        if (atomic_load_explicit(&v->remap_good[i], memory_order_acquire) == h) return TILE_OK;
    return check_remap(k, v, env, programs, h);
}

tile_status kernel_grid(tile_kernel *k, const Compiled *c, const LaunchArgs *l, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    tile_status st = bind_dims(k, c, l->views, dims);
    if (st) return st;
    *env = (EvalEnv){ .dims = dims, .scalars = l->scalars, .strides = (const int64_t (*)[TILE_MAX_RANK])l->strides };
    return eval_grid(k, c->grid, env, programs);
}

/* Everything between the key and the driver: dimensions, grid, remap. */
static tile_status plan(tile_kernel *k, Variant *v, const LaunchArgs *l, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    tile_status st = kernel_grid(k, &v->compiled, l, dims, env, programs);
    return st || !*programs || !v->compiled.remap ? st : verify_remap(k, v, env, *programs, l, dims);
}

/* The variant for the arguments; NULL, and success, where there is nothing to compute. */
static inline tile_status choose(tile_kernel *k, const LaunchArgs *l, Variant **out)
{
    uint64_t key[k->key_words];
    bool nothing;
    kernel_key(k, l, key);
    if ((*out = kernel_ready(k, key))) return TILE_OK;
    tile_status st = kernel_nothing(k, l, key, &nothing);
    return st || nothing ? st : kernel_variant(k, key, out);
}

static int64_t blocks_of(const tile_context *c, const LaunchShape *s, int64_t programs)
{
    int64_t blocks = programs, most = (int64_t)s->persistent * c->driver->info.multiprocessors, ctas = s->cluster > 1 ? s->cluster : 1;
    if (s->persistent) {        /* a cluster takes as many programs as it has CTAs */
        blocks = (blocks + ctas - 1) / ctas;
        most = most / ctas > 0 ? most / ctas : 1;
        if (blocks > most) blocks = most;
    }
    return blocks * ctas;       /* else a program is a cluster */
}

static size_t workspace_of(const tile_context *c, const LaunchShape *s, int64_t blocks)
{
    int64_t sharers = c->driver->ops->kind == TARGET_CPU ? c->driver->info.multiprocessors : blocks;
    return (size_t)(s->workspace_bytes + s->workspace_per_block * sharers);
}

/* --- launch ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct LaunchState {
    tile_kernel *k;
    Variant *v;
    const LaunchArgs *args;
    const int64_t *dims;
    const EvalEnv *env;
    const tile_launch_desc *desc;
    const tile_arg *given;
    size_t workspace;
    CheckRecord *check;
    Printer *printer;
} LaunchState;

static tile_status fill_slots(const LaunchState *l, uint64_t *slots, void **params, unsigned char (*maps)[128])
{
    const Compiled *c = &l->v->compiled;
    const Artifact *a = &c->artifact;
    for (int i = 0; i < a->n_slots; i++) {
        const Slot *s = &a->slots[i];
        params[i] = &slots[i];
        switch (s->kind) {
        case SLOT_DATA: slots[i] = (uint64_t)(uintptr_t)l->args->views[s->param].data; break;
        case SLOT_EXTENT: slots[i] = (uint64_t)l->dims[s->index]; break;
        case SLOT_STRIDE: slots[i] = (uint64_t)l->args->strides[s->param][s->index]; break;
        case SLOT_SCALAR: slots[i] = l->args->views[s->param].word; break;
        case SLOT_GRID: slots[i] = (uint64_t)(s->index < 0 ? l->env->grid[0] * l->env->grid[1] * l->env->grid[2] : l->env->grid[s->index]); break;
        case SLOT_TENSOR_MAP: {
            const TensorMapDesc *m = &a->maps[s->index];
            DriverTensorMap t = { m, l->args->views[m->param].data, l->args->views[m->param].extent, l->args->strides[m->param] };
            DriverError e;
            tile_status st = l->k->context->driver->ops->tensor_map(l->k->context->driver, &t, maps[s->index], &e);
            if (st) return bad(l->k, st, m->param, "%s", e.text);
            params[i] = maps[s->index];
            break;
        }
        case SLOT_CHECK: slots[i] = (uint64_t)(uintptr_t)l->check; break;
        case SLOT_TICKETS: {
            void *t = context_ticket(l->k->context, l->desc->stream);
            if (!t) return TILE_ERROR_RESOURCES;
            slots[i] = (uint64_t)(uintptr_t)t;
            break;
        }
        case SLOT_PRINT: slots[i] = (uint64_t)(uintptr_t)l->printer; break;
        case SLOT_WORKSPACE: slots[i] = (uint64_t)(uintptr_t)l->desc->workspace; break;
        }
    }
    return TILE_OK;
}

static COLD tile_status check_failed(tile_kernel *k, const Variant *v, const CheckRecord *r)
{
    const Artifact *a = &v->compiled.artifact;
    const char *what = r->message < (uint32_t)a->n_messages ? a->messages[r->message] : "check failed";
    return context_fail(k->context, TILE_ERROR_CHECK, "%s:%u: %s: %s (program %lld)", k->module->sources.files.data[0].name, r->line, k->title, what,
                        (long long)r->program);
}

tile_status launch_driver(tile_kernel *k, const Variant *v, const uint64_t *slots, void **params, int64_t programs, int64_t blocks, void *stream)
{
    tile_context *c = k->context;
    const LaunchShape *s = &v->compiled.artifact.shape;
    DriverLaunch d = { .slots = slots, .params = params, .programs = programs, .blocks = blocks, .threads = s->threads, .shared_bytes = (size_t)s->shared_bytes,
                       .cluster = s->cluster, .scratch_bytes = (size_t)s->scratch_bytes, .stream = stream };
    DriverError e;
    tile_status st = c->driver->ops->launch(c->driver, v->function, &d, &e);
    if (st) return context_driver_fail(c, st, &e, v->title);
    context_launched(c, v->title);
    return TILE_OK;
}

static tile_status hand_over(const LaunchState *l, int64_t programs, int64_t blocks)
{
    const Artifact *a = &l->v->compiled.artifact;
    uint64_t slots[a->n_slots + 1];
    void *params[a->n_slots + 1];
    _Alignas(64) unsigned char maps[a->n_maps + 1][128];
    tile_status st = fill_slots(l, slots, params, maps);
    if (!st) st = launch_driver(l->k, l->v, slots, params, programs, blocks, l->desc->stream);
    if (!st) memo_keep(l->k, l->v, l->given, l->args, &(MemoMade){ slots, maps, programs, blocks, l->workspace });
    return st;
}

/* A checked launch waits for its record. */
static COLD tile_status checked_launch(LaunchState *l, int64_t programs, int64_t blocks)
{
    tile_context *c = l->k->context;
    const DriverOps *ops = c->driver->ops;
    DriverError e;
    void *record = NULL;
    tile_status st = ops->memory_alloc(c->driver, TILE_MEMORY_PINNED, sizeof(CheckRecord), &record, &e);
    if (st) return context_driver_fail(c, st, &e, l->k->title);
    memset(record, 0, sizeof(CheckRecord));
    l->check = record;
    st = hand_over(l, programs, blocks);
    if (!st && (st = ops->stream_synchronize(c->driver, l->desc->stream, &e))) context_driver_fail(c, st, &e, l->k->title);
    CheckRecord copy = *l->check;
    DriverError ignored;
    ops->memory_free(c->driver, TILE_MEMORY_PINNED, record, &ignored);
    return st ? st : copy.failed ? check_failed(l->k, l->v, &copy) : TILE_OK;
}

static tile_status run_launch(LaunchState *l, int64_t programs, int64_t blocks)
{
    return l->k->context->flags & TILE_CONTEXT_CHECKED ? checked_launch(l, programs, blocks) : hand_over(l, programs, blocks);
}

static COLD tile_status printing_launch(LaunchState *l, int64_t programs, int64_t blocks)
{
    Printer printer;
    printer_open(&printer, l->k->context, l->k->title);
    l->printer = &printer;
    tile_status st = run_launch(l, programs, blocks);
    printer_close(&printer);
    return st;
}

static tile_status check_size(tile_kernel *k, const LaunchShape *s, int64_t programs, int64_t blocks)
{
    const tile_context *c = k->context;
    TargetKind kind = c->driver->ops->kind;
    if (kind != TARGET_CPU && blocks > c->driver->info.max_blocks)
        return bad(k, TILE_ERROR_GRID, -1, "%lld programs; the device takes at most %lld in one launch", (long long)programs, (long long)c->driver->info.max_blocks);
    if (kind == TARGET_HIP && blocks * s->threads >= (int64_t)1 << 32)
        return bad(k, TILE_ERROR_GRID, -1, "%lld programs of %d threads: HIP takes less than 2^32 threads in one launch", (long long)programs, s->threads);
    return TILE_OK;
}

tile_status tile_launch(tile_kernel *k, const tile_arg *args, size_t n_args, const tile_launch_desc *desc)
{
    tile_status st;
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (memo_launch(k, args, n_args, desc, &st)) return st;
    tile_launch_desc d;
    if (!context_take_desc(&d, sizeof d, desc, sizeof(size_t))) return bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "struct_size of the launch descriptor is not set");
    LAUNCH_ARGS(a, k);
    Variant *v = NULL;
    st = kernel_bind(k, args, n_args, &a);
    if (!st) st = check_overlap(k, a.views);
    if (!st) st = choose(k, &a, &v);
    if (st || !v) return st;

    const LaunchShape *shape = &v->compiled.artifact.shape;
    int64_t extents[v->compiled.n_dims + 1], programs;
    EvalEnv env;
    if ((st = plan(k, v, &a, extents, &env, &programs)) || programs == 0) return st;
    int64_t blocks = blocks_of(k->context, shape, programs);
    if ((st = check_size(k, shape, programs, blocks))) return st;
    size_t workspace = workspace_of(k->context, shape, blocks);
    if (workspace && (!d.workspace || d.workspace_size < workspace || (uintptr_t)d.workspace % 256))
        return bad(k, TILE_ERROR_WORKSPACE, -1, "needs a workspace of %zu bytes at a multiple of 256; %zu bytes %s given", workspace, d.workspace_size,
                   d.workspace ? "were" : "and no address were");
    LaunchState l = { .k = k, .v = v, .args = &a, .dims = extents, .env = &env, .desc = &d, .given = args, .workspace = workspace };
    return v->prints ? printing_launch(&l, programs, blocks) : run_launch(&l, programs, blocks);
}

/* --- questions ------------------------------------------------------------------------------------------------------------------------------ */

typedef struct Answer { Variant *v; int64_t programs, blocks; } Answer;     /* v NULL: there is nothing to compute */

static tile_status ask(tile_kernel *k, const tile_arg *args, size_t n_args, Answer *out)
{
    LAUNCH_ARGS(a, k);
    *out = (Answer){ 0 };
    tile_status st = kernel_bind(k, args, n_args, &a);
    if (!st) st = choose(k, &a, &out->v);
    if (st || !out->v) return st;
    int64_t extents[out->v->compiled.n_dims + 1];
    EvalEnv env;
    if ((st = plan(k, out->v, &a, extents, &env, &out->programs))) return st;
    out->blocks = blocks_of(k->context, &out->v->compiled.artifact.shape, out->programs);
    return TILE_OK;
}

tile_status tile_kernel_compile(tile_kernel *k, const tile_arg *args, size_t n_args)
{
    Answer a;
    return k ? ask(k, args, n_args, &a) : TILE_ERROR_INVALID_ARGUMENT;
}

tile_status tile_kernel_workspace(tile_kernel *k, const tile_arg *args, size_t n_args, size_t *bytes)
{
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (!bytes) return bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "tile_kernel_workspace: bytes is NULL");
    Answer a;
    *bytes = 0;
    tile_status st = ask(k, args, n_args, &a);
    if (!st && a.v) *bytes = workspace_of(k->context, &a.v->compiled.artifact.shape, a.blocks);
    return st;
}

/* "D=64; Q: 16-byte aligned, axis 3 contiguous; ..." */
static void describe(tile_kernel *k, const Variant *v, char *out, size_t room)
{
    ParamFacts facts[k->n_params + 1];
    bool dim16[k->n_dims + 1];
    LaunchFacts all;
    kernel_facts(k, v->key, facts, dim16, &all);
    size_t n = (size_t)snprintf(out, room, "%s", v->compiled.spec);
#define ADD(...) do { if (n < room) n += (size_t)snprintf(out + n, room - n, __VA_ARGS__); } while (0)
    for (int d = 0; d < k->n_dims; d++)
        if (dim16[d]) ADD("%s%s%%16=0", n ? "; " : "", k->dims[d].name);
    for (int i = 0; i < k->n_params; i++) {
        if (k->params[i].kind == PARAM_SCALAR) continue;
        ADD("%s%s:%s", n ? "; " : "", k->params[i].name, facts[i].align ? " aligned 16" : " unaligned");
        if (facts[i].grain) ADD(", rows of whole %d bytes", facts[i].grain);
        if (facts[i].unit_axis >= 0) ADD(", unit stride on axis %d", facts[i].unit_axis);
    }
    if (!all.fits32) ADD("%s64-bit offsets", n ? "; " : "");
    if (!all.extents31) ADD("; extents of 2^31 and more");
#undef ADD
}

tile_status tile_kernel_variant(tile_kernel *k, const tile_arg *args, size_t n_args, tile_variant_info *info)
{
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (!info || info->struct_size < sizeof(size_t)) return bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "tile_kernel_variant: struct_size is not set");
    Answer a;
    tile_status st = ask(k, args, n_args, &a);
    if (st) return st;
    if (!a.v) {
        tile_variant_info none = { .struct_size = info->struct_size, .registers = -1, .spill_bytes = -1, .stack_bytes = -1, .specialization = "no elements: nothing to compute" };
        memcpy(info, &none, info->struct_size < sizeof none ? info->struct_size : sizeof none);
        return TILE_OK;
    }
    const Artifact *f = &a.v->compiled.artifact;
    tile_variant_info d = { .struct_size = info->struct_size, .threads = f->shape.threads, .registers = f->registers, .spill_bytes = f->spill_bytes,
                            .stack_bytes = f->stack_bytes, .programs = a.programs, .from_cache = a.v->from_cache, .compile_ms = a.v->ms };
    d.shared_bytes = (uint64_t)(f->shape.shared_bytes + (f->static_shared_bytes > 0 ? f->static_shared_bytes : 0));
    describe(k, a.v, d.specialization, sizeof d.specialization);
    memcpy(info, &d, info->struct_size < sizeof d ? info->struct_size : sizeof d);
    return TILE_OK;
}
