/* ffi.h: calls by the stable C ABI of tvm-ffi (docs/embedding.md): its arguments are read into those of a
 * launcher, and errors are raised in the library that loaded the code. launch.c includes it for objects;
 * tilec copies the text between the marks into every bundle, before gpu_ffi.c's. Everything is static.
 *
 * The declarations are those of tvm/ffi/c_api.h and dlpack.h, as far as they are needed. Whoever includes the
 * text defines find_loaded before it. */
#pragma once
#include "tools/aot/check.h"
/* begin */
/* --- tvm-ffi ----------------------------------------------------------------------------------------- */

enum { FFI_NONE = 0, FFI_INT = 1, FFI_BOOL = 2, FFI_FLOAT = 3, FFI_DLTENSOR = 7, FFI_TENSOR = 70 };
enum { FFI_CPU = 1, FFI_CUDA = 2, FFI_CUDA_HOST = 3, FFI_ROCM = 10, FFI_ROCM_HOST = 11, FFI_MANAGED = 13 };
enum { FFI_OBJECT_BYTES = 24 }; /* the head of an object, behind which a tensor has its DLTensor */

typedef struct FfiAny { /* TVMFFIAny */
    int32_t type;
    uint32_t length;
    union {
        int64_t i;
        double f;
        void *p;
    } v;
} FfiAny;

typedef struct FfiPlace { /* DLDevice */
    int32_t type, id;
} FfiPlace;

typedef struct FfiTensor { /* DLTensor */
    void *data;
    FfiPlace place;
    int32_t rank;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t *shape, *strides;
    uint64_t offset;
} FfiTensor;

/* Weak: resolved where the process has the library in its global scope, else looked up when needed. */
extern void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) __attribute__((weak));

/* Raises the text of the last error. */
static int ffi_raise(int status)
{
    const char *kind = "ValueError", *name = "TVMFFIErrorSetRaisedFromCStr";
    if (status == TILE_LAUNCH_DTYPE) kind = "TypeError";
    if (status == TILE_LAUNCH_OUT_OF_MEMORY) kind = "MemoryError";
    if (status == TILE_LAUNCH_UNSUPPORTED || status == 7 || status >= 16) kind = "RuntimeError";
    void (*raise)(const char *, const char *) = TVMFFIErrorSetRaisedFromCStr;
    if (!raise) *(void **)&raise = find_loaded(name);
    if (raise) raise(kind, error_text);
    return -1;
}

static const FfiTensor *ffi_tensor(const FfiAny *a)
{
    if (a->type == FFI_DLTENSOR) return a->v.p;
    return a->type == FFI_TENSOR ? (const void *)((const char *)a->v.p + FFI_OBJECT_BYTES) : NULL;
}

static bool ffi_is_there(FfiPlace at, FfiPlace p)
{
    if (p.type == at.type) return p.type == FFI_CPU || p.id == at.id;
    if (at.type == FFI_CPU) return p.type == FFI_CUDA_HOST || p.type == FFI_ROCM_HOST;
    if (at.type == FFI_CUDA) return p.type == FFI_CUDA_HOST || p.type == FFI_MANAGED;
    return p.type == FFI_ROCM_HOST;
}

/* Bools and fp8 may also travel as unsigned bytes. */
static bool ffi_type_fits(const int64_t *param, const FfiTensor *t)
{
    bool byte = param[6] >= 6 && t->code == 1;
    return t->lanes == 1 && t->bits == 8 * param[2] && (byte || t->code == param[6]);
}

/* Do all tensors have the element types of this launcher? */
static bool ffi_types_fit(const int64_t *plan, const FfiAny *args, int32_t n)
{
    for (int32_t i = 0; i < n && i < plan[1]; i++) {
        const FfiTensor *t = ffi_tensor(&args[i]);
        if (t && plan_param(plan, i)[0] != PLAN_SCALAR && !ffi_type_fits(plan_param(plan, i), t))
            return false;
    }
    return true;
}

/* --- scalars */

/* The bits of a float of 8 or 16 bits: to nearest, ties to even; fp8 saturates. */
static uint64_t ffi_narrow(int64_t code, double x)
{
    uint64_t u, bits;
    memcpy(&u, &x, sizeof u);
    int fraction = code == 10   ? 3
                   : code == 12 ? 2
                   : code == 4  ? 7
                                : 10,
        least = code == 10  ? -6
                : code == 4 ? -126
                            : -14,
        width = code >= 10 ? 8 : 16, e = (int)(u >> 52 & 0x7ff) - 1023;
    uint64_t sign = u >> 63 << (width - 1), whole = (u & 0xfffffffffffffull) | 1ull << 52,
             most = code == 10   ? 0x7e
                    : code == 12 ? 0x7b
                    : code == 4  ? 0x7f80
                                 : 0x7c00;
    if (x != x) return sign | (code == 10 ? 0x7f : code == 12 ? 0x7e : code == 4 ? 0x7fc0 : 0x7e00);
    if (e == 1024) return sign | most;
    int shift = 52 - fraction + (e < least ? least - e : 0);
    if (shift > 53) return sign;
    bits = whole >> shift;
    uint64_t rest = whole & ((1ull << shift) - 1), half = 1ull << (shift - 1);
    bits += rest > half || (rest == half && (bits & 1));
    if (e >= least) bits += (uint64_t)(e - least) << fraction;
    return sign | (bits > most ? most : bits);
}

static bool ffi_fits(int64_t type, int64_t v)
{
    switch (type) {
    case WORD_BOOL: return v == 0 || v == 1;
    case WORD_I8: return v == (int8_t)v;
    case WORD_I16: return v == (int16_t)v;
    case WORD_I32: return v == (int32_t)v;
    case WORD_U8: return v == (uint8_t)v;
    case WORD_U16: return v == (uint16_t)v;
    case WORD_U32: return v == (uint32_t)v;
    default: return true; /* u64: the bits */
    }
}

static int ffi_read_scalar(const int64_t *plan, int i, const FfiAny *a, uint64_t *word)
{
    const int64_t *p = plan_param(plan, i);
    bool whole = a->type == FFI_INT || a->type == FFI_BOOL;
    if (p[1] >= WORD_F32 && (whole || a->type == FFI_FLOAT)) {
        double f = whole ? (double)a->v.i : a->v.f;
        float narrow = (float)f;
        *word = 0;
        if (p[1] == WORD_F64) memcpy(word, &f, sizeof f);
        else if (p[1] == WORD_F32) memcpy(word, &narrow, sizeof narrow);
        else *word = ffi_narrow(p[6], f);
        return TILE_LAUNCH_OK;
    }
    if (!whole)
        return breach(
            plan, TILE_LAUNCH_DTYPE, i, a->type == FFI_FLOAT ? "an integer is wanted" : "a number is wanted");
    if (!ffi_fits(p[1], a->v.i))
        return breach(plan, TILE_LAUNCH_DTYPE, i, "%lld does not fit %s", (long long)a->v.i,
            name_at(plan, param_number(plan, i) + 1));
    *word = (uint64_t)a->v.i;
    return TILE_LAUNCH_OK;
}

static int ffi_read_const(const int64_t *plan, int64_t c, const FfiAny *a, int64_t *value)
{
    int64_t kind = plan_bounds(plan)[plan[4] + c];
    const char *name = dim_name(plan, plan[4] + c);
    bool whole = a->type == FFI_INT || a->type == FFI_BOOL;
    double f = whole ? (double)a->v.i : a->v.f;
    if (!whole && !(kind == CHOICE_FLOAT && a->type == FFI_FLOAT))
        return breach(plan, TILE_LAUNCH_DTYPE, -1, "the const %s: %s is wanted", name,
            kind == CHOICE_FLOAT ? "a number" : "an integer");
    if (kind == CHOICE_FLOAT) memcpy(value, &f, sizeof f);
    else *value = kind == CHOICE_BOOL ? a->v.i != 0 : a->v.i;
    return TILE_LAUNCH_OK;
}

/* --- tensors */

static const char *ffi_type_name(const FfiTensor *t, char *text, size_t room)
{
    const char *base = t->code == 0   ? "i"
                       : t->code == 1 ? "u"
                       : t->code == 2 ? "f"
                       : t->code == 4 ? "bf"
                                      : "type ";
    snprintf(text, room, "%s%d%s", base, t->bits, t->lanes == 1 ? "" : " of several lanes");
    return text;
}

/* No elements: the address says nothing, but where a tensor is optional it must not be NULL. */
static void *ffi_address(const FfiTensor *t)
{
    void *nowhere = (void *)(uintptr_t)64;
    for (int32_t a = 0; !t->data && a < t->rank; a++)
        if (t->shape[a] == 0) return nowhere;
    return t->data ? (char *)t->data + t->offset : NULL;
}

static int ffi_read_tensor(const int64_t *plan, int i, FfiPlace at, const FfiAny *a, tile_view *view)
{
    const int64_t *p = plan_param(plan, i);
    const FfiTensor *t = ffi_tensor(a);
    const char *name = param_name(plan, i), *type = name_at(plan, param_number(plan, i) + 1);
    char text[40];
    *view = (tile_view){ NULL, NULL, NULL };
    if (a->type == FFI_NONE && p[5]) return TILE_LAUNCH_OK;
    if (a->type == FFI_NONE)
        return breach(plan, TILE_LAUNCH_INVALID, i,
            "a tensor is wanted; only an optional one, `%s[...]?`, may be left out", name);
    if (!t) return breach(plan, TILE_LAUNCH_DTYPE, i, "a tensor is wanted");
    if (!ffi_type_fits(p, t))
        return breach(plan, TILE_LAUNCH_DTYPE, i, "elements are %s, the kernel takes %s",
            ffi_type_name(t, text, sizeof text), type);
    if (!ffi_is_there(at, t->place))
        return breach(plan, TILE_LAUNCH_DEVICE, i,
            "lies on DLPack device (%d, %d), the context's is (%d, %d)", (int)t->place.type, (int)t->place.id,
            (int)at.type, (int)at.id);
    if (t->rank != p[3])
        return breach(
            plan, TILE_LAUNCH_SHAPE, i, "has %d axes, the kernel takes %d", (int)t->rank, (int)p[3]);
    *view = (tile_view){ p[5]      ? ffi_address(t)
                         : t->data ? (char *)t->data + t->offset
                                   : NULL,
        t->shape, t->strides };
    return TILE_LAUNCH_OK;
}

/* The arguments of a call as those of a launcher: parameters in the kernel's order, then the consts that the
 * launcher takes. Of several faults the first argument's is told, as everywhere. */
static int ffi_read(
    const int64_t *plan, const FfiAny *args, int32_t n, FfiPlace at, tile_launch_arg *out, int64_t *consts)
{
    int status = TILE_LAUNCH_OK, n_params = (int)plan[1];
    if (n != plan[1] + plan[2])
        return breach(plan, TILE_LAUNCH_INVALID, -1, "takes %d arguments, %d were given",
            (int)(plan[1] + plan[2]), (int)n);
    for (int i = 0; i < n_params && !status; i++) {
        if (plan_param(plan, i)[0] == PLAN_SCALAR) status = ffi_read_scalar(plan, i, &args[i], &out[i].word);
        else status = ffi_read_tensor(plan, i, at, &args[i], &out[i].view);
        if (!status || !i) continue;
        char text[sizeof error_text];
        Launch before = { .args = out };
        memcpy(text, error_text, sizeof text);
        int earlier = read_some(&before, plan, i);
        if (earlier) return earlier;
        memcpy(error_text, text, sizeof text);
    }
    for (int64_t c = 0; c < plan[2] && !status; c++)
        status = ffi_read_const(plan, c, &args[n_params + c], &consts[c]);
    return status;
}
/* end */
