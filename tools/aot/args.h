/* args.h: the part of a launch that is the same on every device, once its arguments have been read
 * (check.h): dimensions, grid, remap, slots. launch.c compiles it into objects for the CPU; tilec copies the
 * text between the marks into every bundle, before gpu.c. Everything is static. */
#pragma once
#include "tools/aot/check.h"
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

/* The words behind a program. */
static const int64_t *behind(const int64_t *p) { return p + 3 + 4 * p[0] + 6 * p[1] + p[2]; }

/* Was the variant compiled for another extent of this dim, which launches may choose? */
static bool is_other(const Launch *l, const int64_t *dim, int64_t have)
{
    int64_t shared = dim[1] >= 0 ? l->params[dim[1]].dims[dim[2]] : -1;
    return dim[0] >= 0 && have != dim[0] && shared >= 0 && plan_bounds(l->plan)[shared] != -2;
}

/* Binds the dims of a variant, and moves *p behind them. TILE_LAUNCH_NO_VARIANT: one has another extent. */
static int bind_dims(Launch *l, const int64_t **p)
{
    const int64_t *dims = *p + 1, n = **p;
    int status = TILE_LAUNCH_OK;
    l->plan_dims = *p;
    *p = dims + 3 * n;
    for (int i = 0; i < l->n_params; i++) *p += l->params[i].rank;
    for (int64_t d = 0; d < n; d++, dims += 3) {
        int64_t have = dims[1] >= 0 ? l->params[dims[1]].shape[dims[2]] : dims[0];
        if (is_other(l, dims, have)) status = TILE_LAUNCH_NO_VARIANT;
        l->dims[d] = dims[0] >= 0 ? dims[0] : have;
    }
    return status;
}

/* Compares the tensors' extents with those of the variant, the derived ones among them. */
static int check_axes(Launch *l, const int64_t *derived)
{
    const int64_t *dims = l->plan_dims + 1, n = l->plan_dims[0], *axis = dims + 3 * n;
    for (int64_t d = 0; d < n; d++)
        if (dims[3 * d] == -2) l->dims[d] = *derived++;
    for (int i = 0; i < l->n_params; i++)
        for (int a = 0; a < l->params[i].rank; a++, axis++)
            if (l->params[i].shape[a] != l->dims[*axis])
                return breach(l->plan, TILE_LAUNCH_SHAPE, i, "axis %d (%s) has %lld elements, not %lld", a,
                    axis_text(l->plan, i, a), (long long)l->params[i].shape[a], (long long)l->dims[*axis]);
    return TILE_LAUNCH_OK;
}

/* Walks the programs; the first whose place is outside of them or taken is explained. */
static int check_remap(const Launch *l, const int64_t *remap)
{
    const char *say = "a grid of %lld programs is too large to check its remap (at most %d)";
    if (l->programs > PLAN_MAX_CHECKED)
        return breach(l->plan, TILE_LAUNCH_REMAP, -1, say, (long long)l->programs, PLAN_MAX_CHECKED);
    unsigned char *seen = calloc((size_t)l->programs / 8 + 1, 1);
    if (!seen) return fail(TILE_LAUNCH_OUT_OF_MEMORY, "out of memory");
    int64_t i = 0, earlier = 0, to = 0, same = -1;
    for (; i < l->programs; i++) {
        evaluate(l, remap, i, &to);
        if (to < 0 || to >= l->programs || seen[to / 8] >> to % 8 & 1) break;
        seen[to / 8] |= (unsigned char)(1u << to % 8);
    }
    free(seen);
    if (i == l->programs) return TILE_LAUNCH_OK;
    if (to < 0 || to >= l->programs)
        return breach(l->plan, TILE_LAUNCH_REMAP, -1,
            "the remap sends program %lld to %lld, outside of the %lld programs", (long long)i, (long long)to,
            (long long)l->programs);
    for (; same != to; earlier++) evaluate(l, remap, earlier, &same);
    return breach(l->plan, TILE_LAUNCH_REMAP, -1,
        "the remap is no permutation of the %lld programs: programs %lld and %lld both become %lld",
        (long long)l->programs, (long long)earlier - 1, (long long)i, (long long)to);
}

static uint64_t mix(uint64_t h, int64_t w)
{
    h = (h ^ (uint64_t)w) * 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

/* A remap that was found to be a permutation is not walked again for the same grid and the same of all that
 * it may read. */
static int check_remap_once(const Launch *l, const int64_t *remap)
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
    for (int i = 0; i < 16; i++)
        if (__atomic_load_n(&good[i], __ATOMIC_RELAXED) == h) return TILE_LAUNCH_OK;
    int status = check_remap(l, remap);
    if (!status) __atomic_store_n(&good[h >> 1 & 15], h, __ATOMIC_RELAXED);
    return status;
}

static int grid_too_large(const Launch *l, int64_t n, const char *target)
{
    char text[120];
    const int64_t *g = l->grid;
    int64_t all = 1;
    bool beyond = false;
    int at = 0;
    for (int64_t i = 0; i < n && i < 3; i++) {
        beyond |= __builtin_mul_overflow(all, g[i], &all);
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i ? " x " : "", (long long)g[i]);
    }
    if (n == 1 || beyond) snprintf(text + at, sizeof text - (size_t)at, " programs");
    else snprintf(text + at, sizeof text - (size_t)at, " (%lld programs)", (long long)all);
    return breach(l->plan, TILE_LAUNCH_GRID, -1,
        "the grid of %s is too large for %s; at most %d programs run in one launch", text, target, INT32_MAX);
}

/* Derived extents, grid and remap of a variant; `p` stands behind its dims. No programs: l->programs is 0. */
static int find_programs(Launch *l, const int64_t *p, const char *target)
{
    int64_t derived[PLAN_MAX_DERIVED];
    const int64_t *grid = evaluate(l, p + 1 + 3 * p[0] + PLAN_SIZES, 0, derived);
    int status = check_axes(l, derived);
    if (status) return status;
    for (int i = 0; i < 3; i++) l->grid[i] = 1;
    l->programs = 1;
    const int64_t *remap = evaluate(l, grid, 0, l->grid);
    l->work = behind(remap);
    for (int i = 0; i < 3; i++)
        if (l->grid[i] <= 0) l->programs = 0;
    for (int i = 0; i < 3 && l->programs; i++)
        if (__builtin_mul_overflow(l->programs, l->grid[i], &l->programs) || l->programs > INT32_MAX)
            return grid_too_large(l, grid[2], target); /* The code counts programs in 32 bits. */
    return l->programs && remap[2] ? check_remap_once(l, remap) : TILE_LAUNCH_OK;
}

/* The variant `v` of a plan against arguments, the optional ones among them, and consts: *p is set behind its
 * dims. */
static int match_variant(
    Launch *l, const int64_t *v, const int64_t *consts, int64_t n_consts, const int64_t **p)
{
    *p = v + PLAN_VARIANT_HEAD;
    if (v[2] & ~(int64_t)l->assume) return TILE_LAUNCH_NO_VARIANT;
    for (int64_t c = 0; c < n_consts; c++)
        if ((*p)[c] != consts[c]) return TILE_LAUNCH_NO_VARIANT;
    *p += n_consts;
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].optional && *(*p)++ != l->params[i].given) return TILE_LAUNCH_NO_VARIANT;
    return bind_dims(l, p);
}

static int no_variant(const int64_t *plan)
{
    return breach(plan, TILE_LAUNCH_NO_VARIANT, -1,
        "nothing was compiled for these extents, consts and optional tensors");
}

static uint64_t slot(const Launch *l, const int64_t *s, const int64_t *own, const void *sink)
{
    switch (s[0]) {
    case PLAN_DATA: return (uint64_t)address(l, (int)s[1]);
    case PLAN_WORD: return l->args[s[1]].word;
    case PLAN_CHECK:
    case PLAN_SCHEDULER: return (uint64_t)(uintptr_t)own;
    case PLAN_PRINT: return (uint64_t)(uintptr_t)sink;
    case PLAN_EXTENT:
    case PLAN_STRIDE:
    case PLAN_GRID: return (uint64_t)input(l, s, 0);
    }
    return 0;
}

/* end */
