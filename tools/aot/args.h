/* args.h: the part of a launch that is the same on every device: reading the arguments, the promises they
 * keep, dimensions, grid, remap, slots. launch.c compiles it into objects for the CPU; tilec copies the text
 * between the marks into every bundle, before gpu.c. Everything is static. */
#pragma once
#include "tools/aot/launch.h"
#include "tools/aot/plan.h"
#include <stdlib.h>
/* begin */
/* --- programs of the plan ---------------------------------------------------------------------------- */

static int64_t wrap(int64_t v, int64_t type)
{
    switch (type) {
    case WORD_BOOL: return v != 0;
    case WORD_I8: return (int8_t)v;
    case WORD_I16: return (int16_t)v;
    case WORD_I32: return (int32_t)v;
    case WORD_U8: return (uint8_t)v;
    case WORD_U16: return (uint16_t)v;
    case WORD_U32: return (uint32_t)v;
    default: return v;
    }
}

static int bits_of(int64_t type)
{
    static const signed char bits[] = { 8, 8, 16, 32, 64, 8, 16, 32, 64 };
    return type <= WORD_U64 ? bits[type] : 64;
}

static bool is_unsigned(int64_t type) { return type >= WORD_U8 || type == WORD_BOOL; }
static bool less(int64_t a, int64_t b, int64_t type)
{ return is_unsigned(type) ? (uint64_t)a < (uint64_t)b : a < b; }
static int64_t negate(int64_t a) { return (int64_t)(0 - (uint64_t)a); }

/* Quotient or remainder: x / 0 and x % 0 are 0, the most negative number divided by -1 wraps. */
static int64_t divide(int64_t a, int64_t b, int64_t type, bool remainder)
{
    if (!b) return 0;
    if (is_unsigned(type))
        return (int64_t)(remainder ? (uint64_t)a % (uint64_t)b : (uint64_t)a / (uint64_t)b);
    if (b == -1) return remainder ? 0 : negate(a);
    return remainder ? a % b : a / b;
}

static int64_t shift_right(int64_t a, uint64_t by, int64_t type)
{
    if (is_unsigned(type)) return by < (uint64_t)bits_of(type) ? (int64_t)((uint64_t)a >> by) : 0;
    return a >> (by < (uint64_t)bits_of(type) ? by : 63);
}

static int64_t step(const int64_t *s, int64_t a, int64_t b, int64_t c)
{
    int64_t t = s[1];
    uint64_t amount = (uint64_t)b & (bits_of(t) == 64 ? ~0ull : (1ull << bits_of(t)) - 1);
    switch (s[0]) {
    case STEP_CONST: return wrap(s[5], t);
    case STEP_NEG: return wrap(negate(a), t);
    case STEP_ABS: return wrap(!is_unsigned(t) && a < 0 ? negate(a) : a, t);
    case STEP_ADD: return wrap((int64_t)((uint64_t)a + (uint64_t)b), t);
    case STEP_SUB: return wrap((int64_t)((uint64_t)a - (uint64_t)b), t);
    case STEP_MUL: return wrap((int64_t)((uint64_t)a * (uint64_t)b), t);
    case STEP_FMA: return wrap((int64_t)((uint64_t)a * (uint64_t)b + (uint64_t)c), t);
    case STEP_DIV: return wrap(divide(a, b, t, false), t);
    case STEP_REM: return wrap(divide(a, b, t, true), t);
    case STEP_CDIV: return wrap(divide(a, b, t, false) + (divide(a, b, t, true) != 0), t);
    case STEP_MIN: return less(b, a, t) ? b : a;
    case STEP_MAX: return less(a, b, t) ? b : a;
    case STEP_CLAMP: a = less(a, b, t) ? b : a; return less(c, a, t) ? c : a;
    case STEP_AND: return a & b;
    case STEP_OR: return a | b;
    case STEP_XOR: return a ^ b;
    case STEP_NOT: return t == WORD_BOOL ? !a : wrap(~a, t);
    case STEP_SHL: return amount < (uint64_t)bits_of(t) ? wrap((int64_t)((uint64_t)a << amount), t) : 0;
    case STEP_SHR: return wrap(shift_right(a, amount, t), t);
    case STEP_EQ: return a == b;
    case STEP_NE: return a != b;
    case STEP_LT: return less(a, b, t);
    case STEP_LE: return !less(b, a, t);
    case STEP_GT: return less(b, a, t);
    case STEP_GE: return !less(a, b, t);
    case STEP_WHERE: return a ? b : c;
    case STEP_CAST: return wrap(a, t);
    }
    return 0;
}

/* --- a launch ---------------------------------------------------------------------------------------- */

typedef struct Param {
    int64_t kind, type, bytes, rank, sign, optional, given;
    const int64_t *shape;
    int64_t strides[PLAN_MAX_RANK];
    bool dense;
} Param;

typedef struct Launch {
    const tile_launch_arg *args;
    Param params[PLAN_MAX_PARAMS];
    int n_params, level, assume, failed;
    int64_t dims[PLAN_MAX_DIMS], grid[3], programs;
    const int64_t *plan_dims; /* of the variant that matched last */
    int64_t axis, wanted;     /* the axis of argument `failed` that does not have the derived extent */
} Launch;

static int64_t input(const Launch *l, const int64_t *in, int64_t linear)
{
    switch (in[0]) {
    case PLAN_EXTENT: return l->dims[in[2]];
    case PLAN_STRIDE: return l->params[in[1]].strides[in[2]];
    case PLAN_WORD: return wrap((int64_t)l->args[in[1]].word, in[3]);
    case PLAN_GRID: return in[2] < 0 ? l->programs : l->grid[in[2]];
    default: return linear;
    }
}

/* Runs a program and returns the words behind it. */
static const int64_t *evaluate(const Launch *l, const int64_t *p, int64_t linear, int64_t *results)
{
    int64_t w[PLAN_MAX_WORDS], n_inputs = p[0], n_steps = p[1], n_results = p[2];
    p += 3;
    for (int64_t i = 0; i < n_inputs; i++, p += 4) w[i] = input(l, p, linear);
    for (int64_t i = 0; i < n_steps; i++, p += 6) w[n_inputs + i] = step(p, w[p[2]], w[p[3]], w[p[4]]);
    for (int64_t i = 0; i < n_results; i++) results[i] = w[*p++];
    return p;
}

static uintptr_t address(const Launch *l, int i) { return (uintptr_t)l->args[i].view.data; }

/* Bytes [*lo, *hi) that a tensor touches. False: none, or none that is known. */
static bool span(const Launch *l, int i, uintptr_t *lo, uintptr_t *hi)
{
    const Param *p = &l->params[i];
    *lo = *hi = address(l, i);
    for (int64_t a = 0; a < p->rank; a++) {
        if (p->shape[a] == 0) return false;
        int64_t far;
        if (__builtin_mul_overflow((p->shape[a] - 1) * p->bytes, p->strides[a], &far)) return false;
        if (far < 0) *lo += (uintptr_t)far;
        else *hi += (uintptr_t)far;
    }
    *hi += (uintptr_t)p->bytes;
    return true;
}

/* Tensors without gaps overlap when their bytes do; of others that is not known. */
static bool overlap(const Launch *l)
{
    for (int i = 0; i < l->n_params; i++) {
        uintptr_t lo, hi, lo2, hi2;
        if (l->params[i].kind != PLAN_OUT && l->params[i].kind != PLAN_INOUT) continue;
        if (!l->params[i].dense || !span(l, i, &lo, &hi)) continue;
        for (int k = 0; k < l->n_params; k++)
            if (k != i && l->params[k].kind != PLAN_SCALAR && l->params[k].dense && span(l, k, &lo2, &hi2) &&
                lo < hi2 && lo2 < hi)
                return true;
    }
    return false;
}

/* Strides (row-major where not given), whether there are gaps, whether the argument is aligned and small, and
 * its rows of 16s. */
static int read_tensor(Launch *l, int i, bool *aligned, bool *divisible)
{
    Param *p = &l->params[i];
    const tile_view *v = &l->args[i].view;
    int64_t step = 1, extent = 0;
    bool empty = false, repeats = false;
    p->shape = v->shape;
    if (!v->shape && p->rank) return TILE_LAUNCH_SHAPE;
    for (int64_t a = p->rank; a-- > 0;) {
        if (v->shape[a] < 0) return TILE_LAUNCH_SHAPE;
        empty |= v->shape[a] == 0;
        p->strides[a] = v->strides ? v->strides[a] : step;
        if (v->shape[a] == 1)
            p->strides[a] = a + 1 == p->rank ? 1
                            : p->bytes < 16  ? 16 / p->bytes
                                             : 1; /* It is only ever multiplied by 0, so any value will do. */
        repeats |= v->shape[a] > 1 && p->strides[a] == 0 && (p->kind == PLAN_OUT || p->kind == PLAN_INOUT);
        if (v->shape[a] != 1 && p->strides[a] != step) p->dense = false;
        if (v->shape[a] && __builtin_mul_overflow(step, v->shape[a], &step)) return TILE_LAUNCH_SHAPE;
        int64_t far = 0;
        bool big = v->shape[a] < 1 || v->shape[a] >= PLAN_SMALL || (p->strides[a] < 0 && v->shape[a] > 1) ||
                   __builtin_mul_overflow(p->strides[a], v->shape[a] * p->bytes, &far);
        if (big || __builtin_add_overflow(extent, far < 0 ? -far : far, &extent) || extent > INT32_MAX) {
            *aligned = false;
            extent = 0;
        }
        *aligned &=
            a + 1 == p->rank ? p->strides[a] == 1 : p->strides[a] * p->bytes % 16 == 0 && p->strides[a] >= 0;
    }
    *aligned &= address(l, i) % 16 == 0;
    *divisible &= !p->rank || v->shape[p->rank - 1] % 16 == 0;
    if (!v->data && !empty) return TILE_LAUNCH_INVALID;
    if (repeats && !empty) return TILE_LAUNCH_OVERLAP;
    return address(l, i) % (uintptr_t)p->bytes ? TILE_LAUNCH_ALIGNMENT : TILE_LAUNCH_OK;
}

static bool is_positive(const Param *p, uint64_t word)
{
    float f;
    double d;
    uint32_t low = (uint32_t)word;
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &word, sizeof d);
    return p->type == WORD_F64 ? d > 0 && d - d == 0 : f > 0 && f - f == 0;
}

/* An optional tensor without an address is not given: it has no elements and promises nothing. */
static Param start_param(const int64_t *p, const tile_launch_arg *a)
{
    static const int64_t none[PLAN_MAX_RANK];
    Param q = { .kind = p[0],
        .type = p[1],
        .bytes = p[2],
        .rank = p[3],
        .sign = p[4],
        .optional = p[5],
        .given = !p[5] || a->view.data,
        .shape = none };
    q.dense = q.given;
    return q;
}

/* `failed` is the parameter at fault. */
static int read_params(Launch *l, const int64_t *p)
{
    bool aligned = true, divisible = true, positive = true;
    for (int i = 0; i < l->n_params; i++, p += PLAN_PARAM_WORDS) {
        l->params[i] = start_param(p, &l->args[i]);
        bool tensor = p[0] != PLAN_SCALAR && l->params[i].given;
        int status = tensor ? read_tensor(l, i, &aligned, &divisible) : TILE_LAUNCH_OK;
        if (status) {
            l->failed = i;
            return status;
        }
        if (p[4] && !is_positive(&l->params[i], l->args[i].word)) positive = false;
    }
    l->assume = (aligned ? PLAN_ALIGNED : 0) | (aligned && divisible ? PLAN_DIVISIBLE : 0) |
                (positive ? PLAN_POSITIVE : 0);
    l->failed = -1;
    return overlap(l) ? TILE_LAUNCH_OVERLAP : TILE_LAUNCH_OK;
}

/* Binds the dims of a variant; TILE_LAUNCH_NO_VARIANT when one has another extent than it was compiled for.
 * *p moves behind them. */
static int bind_dims(Launch *l, const int64_t **p)
{
    const int64_t *dims = *p + 1, n = **p, *axis = dims + 3 * n;
    int status = TILE_LAUNCH_OK;
    l->plan_dims = *p;
    for (int64_t d = 0; d < n; d++)
        l->dims[d] = dims[3 * d + 1] >= 0 ? l->params[dims[3 * d + 1]].shape[dims[3 * d + 2]] : dims[3 * d];
    for (int i = 0; i < l->n_params; i++)
        for (int64_t a = 0; a < l->params[i].rank; a++, axis++) {
            int64_t want = dims[3 * *axis], have = l->params[i].shape[a];
            if (have != l->dims[*axis]) return TILE_LAUNCH_SHAPE;
            if (want >= 0 && have != want) status = TILE_LAUNCH_NO_VARIANT;
        }
    *p = axis;
    return status;
}

static bool is_permutation(const Launch *l, const int64_t *remap, bool *memory)
{
    unsigned char *seen = calloc((size_t)l->programs / 8 + 1, 1);
    bool ok = seen != NULL;
    *memory = ok;
    for (int64_t i = 0, to; ok && i < l->programs; i++) {
        evaluate(l, remap, i, &to);
        ok = to >= 0 && to < l->programs && !(seen[to / 8] >> to % 8 & 1);
        if (ok) seen[to / 8] |= (unsigned char)(1u << to % 8);
    }
    free(seen);
    return ok;
}

static uint64_t mix(uint64_t h, int64_t w)
{
    h = (h ^ (uint64_t)w) * 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

/* A remap that was found to be a permutation is not walked again for the same grid and the same of all that
 * it may read. */
static bool is_known_permutation(const Launch *l, const int64_t *remap, bool *memory)
{
    static uint64_t good[16];
    uint64_t h = mix((uint64_t)(uintptr_t)remap, l->programs);
    for (int i = 0; i < 3; i++) h = mix(h, l->grid[i]);
    for (int i = 0; i < l->n_params; i++) {
        const Param *p = &l->params[i];
        if (p->kind == PLAN_SCALAR) h = mix(h, (int64_t)l->args[i].word);
        for (int64_t a = 0; p->kind != PLAN_SCALAR && a < p->rank; a++)
            h = mix(mix(h, p->shape[a]), p->strides[a]);
    }
    h |= 1; /* 0 marks a free place */
    *memory = true;
    for (int i = 0; i < 16; i++)
        if (__atomic_load_n(&good[i], __ATOMIC_RELAXED) == h) return true;
    if (!is_permutation(l, remap, memory)) return false;
    __atomic_store_n(&good[h >> 1 & 15], h, __ATOMIC_RELAXED);
    return true;
}

/* Compares the derived extents with what their program gives. */
static int check_derived(Launch *l, const int64_t *results)
{
    const int64_t *d = l->plan_dims + 1;
    for (int64_t i = 0, n = 0; i < l->plan_dims[0]; i++, d += 3) {
        if (d[0] != -2 || l->dims[i] == results[n++]) continue;
        l->failed = (int)d[1];
        l->axis = d[2];
        l->wanted = results[n - 1];
        return TILE_LAUNCH_SHAPE;
    }
    return TILE_LAUNCH_OK;
}

/* Derived extents, grid and remap of a variant; `p` stands behind its dims. No programs: l->programs is 0. */
static int find_programs(Launch *l, const int64_t *p)
{
    int64_t derived[PLAN_MAX_DERIVED];
    const int64_t *grid = evaluate(l, p + 1 + 3 * p[0] + 3, 0, derived);
    int status = check_derived(l, derived);
    if (status) return status;
    for (int i = 0; i < 3; i++) l->grid[i] = 1;
    l->programs = 1;
    const int64_t *remap = evaluate(l, grid, 0, l->grid);
    for (int i = 0; i < 3; i++)
        if (l->grid[i] <= 0) l->programs = 0;
    for (int i = 0; i < 3 && l->programs; i++)
        if (__builtin_mul_overflow(l->programs, l->grid[i], &l->programs) || l->programs > INT32_MAX)
            return TILE_LAUNCH_GRID; /* The code counts programs in 32 bits. */
    bool memory = true;
    if (!l->programs || !remap[2]) return TILE_LAUNCH_OK;
    if (l->programs <= 1 << 24 && is_known_permutation(l, remap, &memory)) return TILE_LAUNCH_OK;
    return memory ? TILE_LAUNCH_REMAP : TILE_LAUNCH_OUT_OF_MEMORY;
}

/* The variant `v` of a plan against arguments, the optional ones among them, and consts: *p is set behind its
 * dims. */
static int match_variant(
    Launch *l, const int64_t *v, const int64_t *consts, int64_t n_consts, const int64_t **p)
{
    *p = v + 4;
    if (v[2] & ~(int64_t)l->assume) return TILE_LAUNCH_NO_VARIANT;
    for (int64_t c = 0; c < n_consts; c++)
        if ((*p)[c] != consts[c]) return TILE_LAUNCH_NO_VARIANT;
    *p += n_consts;
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].optional && *(*p)++ != l->params[i].given) return TILE_LAUNCH_NO_VARIANT;
    return bind_dims(l, p);
}

static uint64_t slot(const Launch *l, const int64_t *s, const int64_t *own, const void *sink)
{
    switch (s[0]) {
    case PLAN_DATA: return (uint64_t)address(l, (int)s[1]);
    case PLAN_WORD: return l->args[s[1]].word;
    case PLAN_CHECK:
    case PLAN_TICKETS: return (uint64_t)(uintptr_t)own;
    case PLAN_PRINT: return (uint64_t)(uintptr_t)sink;
    case PLAN_EXTENT:
    case PLAN_STRIDE:
    case PLAN_GRID: return (uint64_t)input(l, s, 0);
    }
    return 0;
}

/* end */
