/* check.h: the arguments of a launch: read, checked and, where something is wrong, explained. The checks,
 * their order and their texts are those of libtile (runtime/launch/arguments.c), so that a program meets the
 * same message in both. args.h includes it; tilec copies the text between the marks into every bundle, before
 * args.h's. Everything is static. */
#pragma once
#include "tools/aot/launch.h"
#include "tools/aot/plan.h"
#include <stdarg.h>
#include <stdio.h>
/* begin */
/* --- the last error ---------------------------------------------------------------------------------- */

static _Thread_local char error_text[800];

static int fail(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(error_text, sizeof error_text, format, list);
    va_end(list);
    return status;
}

/* --- the plan's names -------------------------------------------------------------------------------- */

static const int64_t *plan_param(const int64_t *plan, int64_t i)
{ return plan + PLAN_HEAD + PLAN_PARAM_WORDS * i; }
static const int64_t *plan_bounds(const int64_t *plan) { return plan_param(plan, plan[1]); }
static const int64_t *plan_variants(const int64_t *plan) { return plan_bounds(plan) + plan[4] + plan[2]; }

static const char *name_at(const int64_t *plan, int64_t number)
{
    const char *name = (const char *)(plan + plan[5]);
    while (number-- > 0) name += strlen(name) + 1;
    return name;
}

/* The number of the name of a parameter; behind it stand its element type and its axes. */
static int64_t param_number(const int64_t *plan, int64_t param)
{
    int64_t number = 1;
    for (int64_t i = 0; i < param; i++) number += 2 + plan_param(plan, i)[3];
    return number;
}

static const char *param_name(const int64_t *plan, int64_t i) { return name_at(plan, param_number(plan, i)); }
static const char *axis_text(const int64_t *plan, int64_t i, int64_t axis)
{ return name_at(plan, param_number(plan, i) + 2 + axis); }
static const char *dim_name(const int64_t *plan, int64_t d)
{ return name_at(plan, param_number(plan, plan[1]) + d); }

/* What is wrong with argument i, or, where i is negative, with the launch. */
static int breach(const int64_t *plan, int status, int i, const char *format, ...)
{
    char text[600];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (i < 0) return fail(status, "%s: %s", name_at(plan, 0), text);
    return fail(status, "%s: argument %d (%s): %s", name_at(plan, 0), i + 1, param_name(plan, i), text);
}

/* --- arguments --------------------------------------------------------------------------------------- */

typedef struct Param {
    int kind, type, bytes, rank;
    bool sign, optional, given, dense; /* dense: no gaps between its elements, in whatever order */
    const int64_t *dims, *shape;
    int64_t strides[PLAN_MAX_RANK], elements;
    uintptr_t lo, hi; /* the bytes that it touches */
} Param;

typedef struct Launch {
    const int64_t *plan;
    const tile_launch_arg *args;
    Param params[PLAN_MAX_PARAMS];
    int n_params, level, assume;
    int64_t shared[PLAN_MAX_DIMS];                  /* extents of the dims that tensors share */
    int64_t dims[PLAN_MAX_DIMS], grid[3], programs; /* of a variant */
    const int64_t *work;                            /* its program that computes the work of a program */
    const int64_t *plan_dims;                       /* of the variant that was matched last */
} Launch;

static uintptr_t address(const Launch *l, int i) { return (uintptr_t)l->args[i].view.data; }

/* How far elements lie before and behind the first one, in elements; an axis of stride 0 or -1; whether some
 * axis has no elements. */
typedef struct Axes {
    int64_t below, above;
    int repeated;
    bool empty;
} Axes;

static int beyond_memory(const Launch *l, int i, int64_t axis, int64_t n, int64_t stride)
{
    return breach(l->plan, TILE_LAUNCH_SHAPE, i,
        "axis %d, %lld elements with a stride of %lld, reaches beyond memory", (int)axis, (long long)n,
        (long long)stride);
}

/* Strides (row-major where not given) and reach. */
static int read_axes(Launch *l, int i, Axes *out)
{
    Param *p = &l->params[i];
    const tile_view *v = &l->args[i].view;
    int64_t dense = 1, far;
    *out = (Axes){ 0, 0, -1, false };
    p->elements = 1;
    for (int64_t a = p->rank; a-- > 0;) {
        int64_t n = v->shape[a], stride = v->strides ? v->strides[a] : dense;
        if (n < 0)
            return breach(l->plan, TILE_LAUNCH_SHAPE, i, "axis %d has %lld elements", (int)a, (long long)n);
        if (n <= 1) /* never multiplied by anything but 0: the value is ours to choose */
            stride = a + 1 == p->rank ? 1 : p->bytes < 16 ? 16 / p->bytes : 1;
        else {
            bool bad =
                __builtin_mul_overflow(n - 1, stride, &far) || __builtin_mul_overflow(dense, n, &dense);
            if (bad || far > PLAN_MAX_EXTENT || far < -PLAN_MAX_EXTENT || dense > PLAN_MAX_EXTENT)
                return beyond_memory(l, i, a, n, stride);
            if (far < 0) out->below += far;
            else out->above += far;
            if (out->above - out->below > PLAN_MAX_EXTENT) return beyond_memory(l, i, a, n, stride);
            if (stride == 0) out->repeated = (int)a;
        }
        out->empty |= n == 0;
        p->elements *= n;
        p->strides[a] = stride;
    }
    return TILE_LAUNCH_OK;
}

/* Whether the argument is aligned and small, and its rows of 16s. */
static void read_promises(const Launch *l, int i, bool *aligned, bool *divisible)
{
    const Param *p = &l->params[i];
    int64_t extent = 0;
    for (int64_t a = p->rank; a-- > 0;) {
        int64_t n = p->shape[a], stride = p->strides[a], far = 0;
        bool big = n < 1 || n >= PLAN_SMALL || (stride < 0 && n > 1) ||
                   __builtin_mul_overflow(stride, n * p->bytes, &far);
        if (big || __builtin_add_overflow(extent, far < 0 ? -far : far, &extent) || extent > INT32_MAX) {
            *aligned = false;
            extent = 0;
        }
        *aligned &= a + 1 == p->rank ? stride == 1 : stride * p->bytes % 16 == 0 && stride >= 0;
    }
    *aligned &= address(l, i) % 16 == 0;
    *divisible &= !p->rank || p->shape[p->rank - 1] % 16 == 0;
}

static bool is_written(const Param *p) { return p->kind == PLAN_OUT || p->kind == PLAN_INOUT; }

static int read_tensor(Launch *l, int i, bool *aligned, bool *divisible)
{
    Param *p = &l->params[i];
    const tile_view *v = &l->args[i].view;
    uintptr_t base = address(l, i);
    Axes x;
    p->shape = v->shape;
    if (!v->shape && p->rank) return breach(l->plan, TILE_LAUNCH_INVALID, i, "the shape is NULL");
    int status = read_axes(l, i, &x);
    if (status) return status;
    if (x.repeated >= 0 && p->elements && is_written(p))
        return breach(l->plan, TILE_LAUNCH_OVERLAP, i,
            "is written to, but axis %d repeats its elements (stride 0)", x.repeated);
    p->dense = x.above - x.below + 1 == p->elements;
    p->lo = base + (uintptr_t)(x.below * p->bytes);
    p->hi = p->elements ? base + (uintptr_t)((x.above + 1) * p->bytes) : p->lo;
    if (!v->data && p->elements) return breach(l->plan, TILE_LAUNCH_INVALID, i, "the data pointer is NULL");
    if (base & ((uintptr_t)p->bytes - 1)) /* a power of two */
        return breach(l->plan, TILE_LAUNCH_ALIGNMENT, i,
            "the address is no multiple of %d, the size of an element", p->bytes);
    read_promises(l, i, aligned, divisible);
    return TILE_LAUNCH_OK;
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

/* An optional tensor without an address is not given: it has no elements and promises nothing. The strides of
 * others are read_axes' to set. */
static void start_param(Param *p, const int64_t *plan, const tile_launch_arg *a)
{
    static const int64_t none[PLAN_MAX_RANK];
    p->kind = (int)plan[0];
    p->type = (int)plan[1];
    p->bytes = (int)plan[2];
    p->rank = (int)plan[3];
    p->sign = plan[4] != 0;
    p->optional = plan[5] != 0;
    p->given = !plan[5] || a->view.data;
    p->dense = false;
    p->dims = plan + 7;
    p->shape = none;
    p->elements = 0;
    p->lo = p->hi = 0;
    if (!p->given) memset(p->strides, 0, sizeof p->strides);
}

/* Axis `axis` of argument i has `seen` elements, but its dimension has another extent already. */
static int disagree(const Launch *l, int64_t d, int i, int64_t axis, int64_t seen)
{
    const int64_t *plan = l->plan;
    for (int p = 0; p <= i && plan_bounds(plan)[d] < 0; p++)
        for (int a = 0; a < l->params[p].rank && l->params[p].given; a++)
            if (l->params[p].dims[a] == d && (p != i || a != axis))
                return breach(plan, TILE_LAUNCH_SHAPE, -1,
                    "dimension %s is %lld in %s (axis %d) but %lld in %s (axis %d)", dim_name(plan, d),
                    (long long)l->shared[d], param_name(plan, p), a, (long long)seen, param_name(plan, i),
                    (int)axis);
    return breach(plan, TILE_LAUNCH_SHAPE, i, "dimension %s is bound to %lld, but axis %d has %lld",
        dim_name(plan, d), (long long)l->shared[d], (int)axis, (long long)seen);
}

/* Arguments that are both without gaps overlap when their bytes do; of others it is known when they start at
 * one address, or when one starts within the bytes of another that has no gaps. */
static bool overlaps(const Launch *l, int i, int k)
{
    const Param *p = &l->params[i], *q = &l->params[k];
    uintptr_t x = address(l, i), y = address(l, k);
    if (p->lo >= q->hi || q->lo >= p->hi) return false;
    return x == y || (p->dense && q->dense) || (p->dense && y >= p->lo && y < p->hi) ||
           (q->dense && x >= q->lo && x < q->hi);
}

static int check_overlap(const Launch *l)
{
    for (int i = 0; i < l->n_params; i++)
        for (int k = 0; is_written(&l->params[i]) && k < l->n_params; k++) {
            if (l->params[k].kind == PLAN_SCALAR || i == k || !overlaps(l, i, k)) continue;
            bool other = i > k && is_written(&l->params[k]);
            return breach(l->plan, TILE_LAUNCH_OVERLAP, other ? k : i, "is written to and overlaps %s",
                param_name(l->plan, other ? i : k));
        }
    return TILE_LAUNCH_OK;
}

/* The first `n` arguments. Extents of dimensions that tensors share go to l->shared. */
static int read_some(Launch *l, const int64_t *plan, int n)
{
    bool aligned = true, divisible = true, positive = true;
    l->plan = plan;
    l->n_params = n;
    memcpy(l->shared, plan_bounds(plan), (size_t)plan[4] * sizeof *l->shared);
    for (int i = 0; i < n; i++) {
        Param *p = &l->params[i];
        start_param(p, plan_param(plan, i), &l->args[i]);
        bool tensor = p->kind != PLAN_SCALAR && p->given;
        int status = tensor ? read_tensor(l, i, &aligned, &divisible) : TILE_LAUNCH_OK;
        if (status) return status;
        for (int a = 0; tensor && a < p->rank; a++) {
            int64_t d = p->dims[a];
            if (d < 0) continue;
            if (l->shared[d] < 0) l->shared[d] = p->shape[a];
            else if (l->shared[d] != p->shape[a]) return disagree(l, d, i, a, p->shape[a]);
        }
        if (p->sign && !is_positive(p, l->args[i].word)) positive = false;
    }
    l->assume = (aligned ? PLAN_ALIGNED : 0) | (aligned && divisible ? PLAN_DIVISIBLE : 0) |
                (positive ? PLAN_POSITIVE : 0);
    return TILE_LAUNCH_OK;
}

static int read_params(Launch *l, const int64_t *plan)
{
    int status = read_some(l, plan, (int)plan[1]);
    return status ? status : check_overlap(l);
}
/* end */
