/* empty.c: launches on tensors without elements. A tile has at least one element, so where an extent is 0 on
 * which code is specialized there may be no variant to compile, and need not be: nothing is computed where no
 * output has an element, or the grid no program. A sealed context, in which no variant can be compiled,
 * answers by the outputs alone. */
#define _GNU_SOURCE
#include "runtime/launch/kernel.h"

static bool no_output_has_elements(const tile_kernel *k, const LaunchArgs *l)
{
    bool outputs = false;
    for (int i = 0; i < k->n_params; i++) {
        if (k->params[i].kind != PARAM_OUT && k->params[i].kind != PARAM_INOUT) continue;
        if (l->views[i].word) return false;
        outputs = true;
    }
    return outputs;
}

static bool unnamed_zero(const tile_kernel *k, const LaunchArgs *l)
{
    for (int i = 0; k->anonymous && i < k->n_params; i++)
        for (int a = 0; a < k->params[i].rank && !(l->views[i].facts & FACT_ABSENT); a++)
            if ((k->params[i].dim[a] < 0 || k->params[i].dim[a] >= k->front->n_dims) &&
                l->views[i].extent[a] == 0)
                return true;
    return false;
}

typedef struct Ask {
    tile_kernel *k;
    const LaunchArgs *l;
    const uint64_t *key;
    bool *nothing;
} Ask;

/* Computes and checks dimensions and grid from the kernel's clauses alone. */
static tile_status ask_clauses(Session *s, void *p)
{
    Ask *q = p;
    tile_kernel *k = q->k;
    tile_context *c = k->context;
    Variant v = { 0 };
    int64_t programs;
    EvalEnv env;
    CompileOptions o = kernel_compile_options(k);
    size_t n;
    const FrontBinding *b = variant_bindings(k, q->key, &s->arena, &n);
    Ast *ast = module_parse(k->module, s);
    if (!ast || !compile_clauses(&(CompileJob){ s, ast, k->name, b, n, NULL, &o }, &v.compiled)) {
        context_report(c, s, compile_title(s, k->name, b, n));
        return TILE_ERROR_COMPILE;
    }
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)v.compiled.n_dims + 1);
    tile_status st = kernel_grid(k, &v.compiled, q->l, dims, &env, &programs);
    bool zero = false;
    for (int d = 0; d < v.compiled.n_dims; d++) zero |= v.compiled.dims[d].extent == 0;
    *q->nothing = !st && (programs == 0 || (zero && no_output_has_elements(k, q->l)));
    return st;
}

tile_status kernel_nothing(tile_kernel *k, const LaunchArgs *l, const uint64_t *key, bool *nothing)
{
    bool zero = false, unnamed = unnamed_zero(k, l);
    for (int d = 0; d < k->n_dims; d++) zero |= k->dims[d].specialized && l->dims[d] == 0;
    *nothing = ((zero && !k->anonymous) || context_sealed(k->context)) && no_output_has_elements(k, l);
    if (*nothing || (!zero && !unnamed)) return TILE_OK;
    return context_in_session(k->context, k->title, ask_clauses, &(Ask){ k, l, key, nothing });
}
