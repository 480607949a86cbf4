/* grid.c: how many programs a launch has: the variant's grid evaluated for its extents, and the proof that a
 * remap of the programs is a permutation. */
#include "runtime/launch/launch.h"
#include "ir/analysis/range.h"

/* Sorts the extents by the variant's dimensions. Axes with a dimension's name were compared when they were
 * bound. */
static tile_status bind_dims(
    tile_kernel *k, const Compiled *c, const View *views, const EvalEnv *env, int64_t *dims)
{
    for (int i = 0; i < c->n_dims; i++)
        dims[i] =
            c->dims[i].extent >= 0 ? c->dims[i].extent : views[c->dims[i].param].extent[c->dims[i].axis];
    if (c->extents && compiled_derive(c, env, dims) < -1)
        return launch_bad(k, TILE_ERROR_SHAPE, -1, "the expression of an extent does not end");
    for (int p = 0; k->anonymous && p < c->n_params; p++)
        for (int a = 0; a < k->params[p].rank; a++)
            if (c->params[p].dims[a] >= 0 && views[p].extent[a] != dims[c->params[p].dims[a]])
                return launch_bad(k, TILE_ERROR_SHAPE, p, "axis %d (%s) has %lld elements, not %lld", a,
                    k->params[p].text[a] ? k->params[p].text[a] : "?", (long long)views[p].extent[a],
                    (long long)dims[c->params[p].dims[a]]);
    return TILE_OK;
}

/* Code for every target counts programs in 32 bits. */
static COLD tile_status grid_too_large(tile_kernel *k, const int64_t *extent, int n)
{
    char text[EVAL_GRID_TEXT];
    return launch_bad(k, TILE_ERROR_GRID, -1,
        "the grid of %s is too large for %s; at most %d programs run in one launch",
        eval_grid_text(extent, n, text), k->context->target->name, RANGE_MAX_PROGRAMS);
}

static tile_status eval_grid(tile_kernel *k, const EvalCode *grid, EvalEnv *env, int64_t *programs)
{
    int64_t extent[3] = { 1, 1, 1 };
    int n = eval_results(grid);
    *programs = 0;
    if (!eval_run(grid, env, extent, 3))
        return launch_bad(k, TILE_ERROR_GRID, -1, "the grid's expression does not end");
    for (int i = 0; i < 3; i++) env->grid[i] = i < n ? extent[i] : 1;
    return eval_grid_size(extent, n, programs) ? TILE_OK : grid_too_large(k, extent, n);
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
        atomic_store_explicit(
            &v->remap_good[atomic_fetch_add(&v->remap_next, 1) % REMAP_VERDICTS], hash, memory_order_release);
        return TILE_OK;
    case EVAL_COLLISION:
        return launch_bad(k, TILE_ERROR_REMAP, -1,
            "the remap is no permutation of the %lld programs: programs %lld and %lld both become %lld",
            (long long)programs, (long long)clash.a, (long long)clash.b, (long long)clash.to);
    case EVAL_OUT_OF_RANGE:
        return launch_bad(k, TILE_ERROR_REMAP, -1,
            "the remap sends program %lld to %lld, outside of the %lld programs", (long long)clash.a,
            (long long)clash.to, (long long)programs);
    case EVAL_NOT_CHECKED:
        return launch_bad(k, TILE_ERROR_REMAP, -1,
            "a grid of %lld programs is too large to check its remap (at most %d)", (long long)programs,
            EVAL_MAX_CHECKED);
    case EVAL_FAILED:
        return launch_bad(k, TILE_ERROR_REMAP, -1, "the remap's expression does not end for program %lld",
            (long long)clash.a);
    case EVAL_NO_MEMORY: break;
    }
    return context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
}

/* The result holds for one grid and one set of values that the remap may read, so all of them are part of its
 * name. */
static tile_status verify_remap(
    tile_kernel *k, Variant *v, EvalEnv *env, int64_t programs, const LaunchArgs *l, const int64_t *dims)
{
    uint64_t h = (uint64_t)programs;
    for (int i = 0; i < 3; i++) h = mix(h, (uint64_t)env->grid[i]);
    for (int i = 0; i < v->compiled.n_dims; i++) h = mix(h, (uint64_t)dims[i]);
    for (int i = 0; i < k->n_params; i++) {
        if (k->params[i].kind == PARAM_SCALAR) h = mix(h, l->views[i].word);
        else
            for (int a = 0; a < k->params[i].rank; a++) h = mix(h, (uint64_t)l->strides[i][a]);
    }
    h |= 1; /* 0 marks a free place */
    for (int i = 0; i < REMAP_VERDICTS; i++)
        if (atomic_load_explicit(&v->remap_good[i], memory_order_acquire) == h) return TILE_OK;
    return check_remap(k, v, env, programs, h);
}

tile_status kernel_grid(
    tile_kernel *k, const Compiled *c, const LaunchArgs *l, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    *env = (EvalEnv){
        .dims = dims, .scalars = l->scalars, .strides = (const int64_t (*)[TILE_MAX_RANK])l->strides
    };
    tile_status st = bind_dims(k, c, l->views, env, dims);
    return st ? st : eval_grid(k, c->grid, env, programs);
}

/* Does everything between the key and the driver: dimensions, grid, remap. */
tile_status launch_grid(
    tile_kernel *k, Variant *v, const LaunchArgs *l, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    tile_status st = kernel_grid(k, &v->compiled, l, dims, env, programs);
    return st || !*programs || !v->compiled.remap ? st : verify_remap(k, v, env, *programs, l, dims);
}
