/* eval_grid.c: grids and remaps as they are evaluated (eval.h): the number of programs, and whether a remap
 * is a permutation of them. */
#include "ir/interp/eval.h"
#include "ir/analysis/range.h"

static EvalVerdict check_all(const EvalCode *e, EvalEnv *env, int64_t n, uint64_t *seen, EvalClash *clash)
{
    for (int64_t w = 0; w < n; w++) {
        int64_t to[EVAL_MAX_RESULTS];
        *clash = (EvalClash){ .a = w };
        env->linear = w;
        if (!eval_run(e, env, to, EVAL_MAX_RESULTS)) return EVAL_FAILED;
        clash->to = to[0];
        if (to[0] < 0 || to[0] >= n) return EVAL_OUT_OF_RANGE;
        if (!(seen[to[0] / 64] >> (to[0] % 64) & 1)) {
            seen[to[0] / 64] |= 1ull << (to[0] % 64);
            continue;
        }
        clash->b = w;
        for (clash->a = 0; clash->a < w; clash->a++) {
            int64_t first[EVAL_MAX_RESULTS];
            env->linear = clash->a;
            if (eval_run(e, env, first, EVAL_MAX_RESULTS) && first[0] == to[0]) break;
        }
        return EVAL_COLLISION;
    }
    return EVAL_BIJECTION;
}

bool eval_grid_size(const int64_t *extent, int n, int64_t *programs)
{
    *programs = 1;
    for (int i = 0; i < n; i++)
        if (extent[i] <= 0) {
            *programs = 0;
            return true;
        }
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(*programs, extent[i], programs) || *programs > RANGE_MAX_PROGRAMS)
            return false;
    return true;
}

const char *eval_grid_text(const int64_t *extent, int n, char out[EVAL_GRID_TEXT])
{
    int64_t product = 1;
    bool beyond = false;
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        beyond |= __builtin_mul_overflow(product, extent[i], &product);
        at += (size_t)format_text(
            out + at, EVAL_GRID_TEXT - at, "%s%lld", i ? " x " : "", (long long)extent[i]);
    }
    if (n == 1 || beyond) format_text(out + at, EVAL_GRID_TEXT - at, " programs");
    else format_text(out + at, EVAL_GRID_TEXT - at, " (%lld programs)", (long long)product);
    return out;
}

EvalVerdict eval_check_remap(const EvalCode *e, EvalEnv *env, int64_t n, Allocator alloc, EvalClash *clash)
{
    *clash = (EvalClash){ 0 };
    if (n > EVAL_MAX_CHECKED) return EVAL_NOT_CHECKED;
    if (eval_results(e) < 1) return EVAL_FAILED;
    size_t bytes = ((size_t)(n > 0 ? n : 1) + 63) / 64 * 8;
    uint64_t *seen = alloc.realloc(alloc.user, NULL, 0, bytes);
    if (!seen) return EVAL_NO_MEMORY;
    memset(seen, 0, bytes);
    EvalVerdict v = check_all(e, env, n, seen, clash);
    alloc.realloc(alloc.user, seen, bytes, 0);
    return v;
}
