/* example_fit.c: see example.h. */
#include "runtime/choice/search/search.h"
#include "tests/emit/example.h"

static Ast *parse(void *path, Session *s) { return example_parse(s, path); }

/* Extents that nothing binds are 1024. */
static bool shape(void *user, const Compiled *c, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    (void)user;
    int64_t grid[3] = { 1, 1, 1 };
    for (int d = 0; d < c->n_dims; d++) dims[d] = c->dims[d].extent >= 0 ? c->dims[d].extent : 1024;
    *env = (EvalEnv){ .dims = dims };
    if (eval_reads_scalars(c->grid) || !eval_run(c->grid, env, grid, 3)) return false;
    memcpy(env->grid, grid, sizeof grid);
    *programs = grid[0] * grid[1] * grid[2];
    return true;
}

int example_fit(Session *s, const char *path, Ast *ast, const char *kernel, const FrontBinding *given, int n,
    const Target *t, FrontBinding *out, int most)
{
    const FrontKernel *k = frontend_kernel_find(ast, kernel);
    ParamFacts *params = arena_array(&s->arena, ParamFacts, (size_t)k->n_params + 1);
    bool *dim16 = arena_array(&s->arena, bool, (size_t)k->n_dims + 1);
    CompileOptions o = compile_options_default(t);
    SearchResult r;
    int n_params = 0;
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *p = &k->params[i];
        if (p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE) continue;
        params[n_params++] =
            p->kind == FRONT_SCALAR
                ? (ParamFacts){ .unit_axis = -1, .sign = -1 }
                : (ParamFacts){ .align = 16, .unit_axis = p->rank - 1, .stride_mask = ~0u, .sign = -1 };
    }
    for (int d = 0; d < k->n_dims; d++) dim16[d] = true;
    LaunchFacts facts = { params, n_params, dim16, k->n_dims, true, true };
    SearchProblem p = { .parse = parse,
        .shape = shape,
        .user = (void *)path,
        .kernel = kernel,
        .bindings = given,
        .n_bindings = n,
        .facts = &facts,
        .options = &o,
        .device = device_of_target(t),
        .threads = 1,
        .only_if_needed = true };
    p.device.model = NULL; /* by the number of programs alone */
    if (!search_configuration(s, &p, &r) || !r.n || n + r.n > most) return 0;
    memcpy(out, given, (size_t)n * sizeof *out);
    memcpy(out + n, r.config, (size_t)r.n * sizeof *out);
    return n + r.n;
}
