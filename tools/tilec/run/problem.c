/* problem.c: see problem.h. */
#define _GNU_SOURCE
#include "tools/tilec/run/problem.h"
#include "ir/support/number.h"
#include "ir/support/session.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_CONFIG = 64 };

/* --- what a launch would promise --------------------------------------------------------------------- */

static int64_t extent_of(const ProblemView *v, const char *name)
{
    for (int i = 0; i < v->n_given; i++)
        if (name && !strcmp(v->given[i].name, name) && v->given[i].value.kind == FRONT_INT)
            return v->given[i].value.i;
    return PROBLEM_EXTENT;
}

/* Of an axis that is written as a name or a number; 1 for other expressions. */
static int64_t extent_of_dim(const ProblemView *v, const FrontDim *d)
{
    char *end;
    if (d->name) return extent_of(v, d->name);
    int64_t n = strtoll(d->text, &end, 10);
    return *end || n < 1 ? 1 : n;
}

/* The number that a word gives for this scalar, or its default, or 1. */
static double scalar_of(const ProblemView *v, const FrontParam *q)
{
    const size_t n = strlen(q->name);
    char *end;
    for (int i = 0; i < v->problem->n_words; i++) {
        const char *word = v->problem->words[i];
        if (!strncmp(word, q->name, n) && word[n] == '=') return number_read(word + n + 1, &end);
    }
    if (q->default_value.kind == FRONT_INT) return (double)q->default_value.i;
    return q->default_value.kind == FRONT_FLOAT ? q->default_value.f : 1;
}

static void set_scalars(ProblemView *v, Session *s)
{
    Scalar *scalars = arena_array(&s->arena, Scalar, (size_t)v->kernel->n_params + 1);
    int at = 0;
    for (int i = 0; i < v->kernel->n_params; i++) {
        const FrontParam *q = &v->kernel->params[i];
        if (q->kind >= FRONT_CONST) continue;
        double x = q->kind == FRONT_SCALAR ? scalar_of(v, q) : 0;
        bool real = q->kind == FRONT_SCALAR && q->type_known && !dtype_is_int(q->dtype);
        scalars[at++] = real ? scalar_float(x) : scalar_int((int64_t)x);
    }
    v->scalars = scalars;
}

static bool is_transposed(const ProblemView *v, const FrontParam *q)
{
    for (int i = 0; i < v->problem->n_words; i++) {
        const char *word = v->problem->words[i];
        if (q->rank > 1 && !strncmp(word, "t:", 2) && !strcmp(word + 2, q->name)) return true;
    }
    return false;
}

/* Elements by which the rows of tensors of more than one axis lie further apart than they are long. */
static int64_t padding(const ProblemView *v, const FrontParam *q)
{
    const size_t n = strlen(q->name);
    int64_t found = 0;
    for (int i = 0; i < v->problem->n_words && q->rank > 1; i++) {
        const char *word = v->problem->words[i];
        if (strncmp(word, "p:", 2)) continue;
        if (word[2] >= '0' && word[2] <= '9') found = strtoll(word + 2, NULL, 10);
        else if (!strncmp(word + 2, q->name, n) && word[2 + n] == ':') return strtoll(word + 3 + n, NULL, 10);
    }
    return found;
}

static int unit_axis(const ProblemView *v, const FrontParam *q) { return q->rank - 1 - is_transposed(v, q); }

static int element_bytes(const ProblemView *v, const FrontParam *q)
{
    DType d = q->type_known ? q->dtype : DT_F16;
    for (int i = 0; i < v->n_given; i++)
        if (!q->type_known && !strcmp(v->given[i].name, q->type_name)) d = v->given[i].value.type;
    return dtype_bytes(d);
}

/* What the launch would find of rows that begin `bytes` apart and have `own` bytes (ParamFacts.grain). */
static int grain_of(int64_t bytes, int64_t own)
{
    if (bytes % 16 == 0) return own % 16 ? 0 : 16;
    return bytes % 4 || own % 4 ? 0 : bytes % 8 || own % 8 ? 4 : 8;
}

static void set_strides(ProblemView *v, Session *s)
{
    int64_t (*strides)[TILE_MAX_RANK] = (int64_t (*)[TILE_MAX_RANK])arena_array(
        &s->arena, int64_t, (size_t)(v->kernel->n_params + 1) * TILE_MAX_RANK);
    int at = 0;
    for (int i = 0; i < v->kernel->n_params; i++) {
        const FrontParam *q = &v->kernel->params[i];
        int64_t pitch = 1;
        if (q->kind >= FRONT_CONST) continue;
        for (int a = q->rank - 1; a >= 0; a--) {
            int axis = is_transposed(v, q) && a >= q->rank - 2 ? 2 * q->rank - 3 - a : a;
            strides[at][axis] = pitch;
            pitch *= extent_of_dim(v, &q->dims[axis]);
            if (a == q->rank - 1) pitch += padding(v, q);
        }
        at++;
    }
    v->strides = (const int64_t (*)[TILE_MAX_RANK])strides;
}

/* The bounds of a tensor that atomics change, if it is small. */
static void bound_words(const ProblemView *v, const FrontParam *q, int64_t *most)
{
    int64_t words = 1;
    for (int a = 0; a < q->rank && words <= LAUNCH_MOST_WORDS; a++) words *= extent_of_dim(v, &q->dims[a]);
    for (int a = 0; a < q->rank && words > 0 && words <= LAUNCH_MOST_WORDS; a++)
        for (int d = 0; d < v->kernel->n_dims && q->dims[a].name; d++)
            if (!strcmp(v->kernel->dims[d], q->dims[a].name))
                most[d] = launch_facts_bound(launch_facts_code(extent_of_dim(v, &q->dims[a]), true));
}

static bool is_key(const FrontKernel *k, const char *dim)
{
    for (int i = 0; dim && i < k->n_keys; i++)
        if (!strcmp(k->keys[i], dim)) return true;
    return false;
}

/* As a launch (KernelParam.dense). */
static int dense_axes(const FrontKernel *k, const FrontParam *q)
{
    int n = 0;
    while (!k->products && n + 1 < q->rank && is_key(k, q->dims[q->rank - 1 - n].name) &&
           is_key(k, q->dims[q->rank - 2 - n].name))
        n++;
    return n;
}

/* The axes along which rows begin at multiples of 16 bytes, a bit each. */
static uint32_t wide_axes(const ProblemView *v, const FrontParam *q, int at)
{
    uint32_t wide = 0;
    for (int a = 0; a < q->rank; a++)
        if (extent_of_dim(v, &q->dims[a]) == 1 || v->strides[at][a] * element_bytes(v, q) % 16 == 0)
            wide |= 1u << a;
    return wide;
}

static void set_facts(ProblemView *v, Session *s)
{
    const FrontKernel *k = v->kernel;
    ParamFacts *p = arena_array(&s->arena, ParamFacts, (size_t)k->n_params + 1);
    bool *dim16 = arena_array(&s->arena, bool, (size_t)k->n_dims + 1);
    int at = 0;
    int64_t *most = arena_array(&s->arena, int64_t, (size_t)k->n_dims + 1);
    for (int d = 0; d < k->n_dims; d++) {
        dim16[d] = extent_of(v, k->dims[d]) % 16 == 0;
        for (int i = 0; i < k->n_counted; i++)
            if (!strcmp(k->counted[i], k->dims[d])) most[d] = launch_facts_most(extent_of(v, k->dims[d]));
    }
    for (int i = 0; i < k->n_params && i < 64; i++)
        if (k->atomics >> i & 1) bound_words(v, &k->params[i], most);
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *q = &k->params[i];
        if (q->kind >= FRONT_CONST) continue;
        const char *row = q->rank ? q->dims[unit_axis(v, q)].name : NULL;
        int size = element_bytes(v, q);
        int64_t own = row ? extent_of(v, row) * size : 16, bytes = row ? own + padding(v, q) * size : 16;
        bool wide = bytes % 16 == 0;
        p[at] = (ParamFacts){ .align = 16,
            .unit_axis = unit_axis(v, q),
            .stride_mask = wide_axes(v, q, at),
            .grain = wide && q->rank < 2 ? 0 : grain_of(bytes, own),
            .dense = padding(v, q) || is_transposed(v, q) ? 0 : dense_axes(k, q),
            .gaps = row && q->rank > 1 && !is_transposed(v, q) && ir_gaps_matter(own, bytes, size),
            .sign = !q->rank && q->type_known && q->dtype == DT_INDEX ? SIGN_SMALL : 1 };
        at++;
    }
    v->facts = (LaunchFacts){ .params = p,
        .n_params = at,
        .dim16 = dim16,
        .n_dims = k->n_dims,
        .fits32 = true,
        .extents31 = true,
        .most = most };
}

/* --- bindings ---------------------------------------------------------------------------------------- */

static int bind_words(Session *s, const FrontKernel *k, int n, char *const *words, FrontBinding *b, int most)
{
    int nb = 0;
    for (int i = 0; i < n && nb < most; i++) {
        const char *eq = strchr(words[i], '='), *why;
        if (!eq) continue;
        b[nb].name = arena_strndup(&s->arena, words[i], (size_t)(eq - words[i]));
        if (frontend_parse_value(s, k, b[nb].name, eq + 1, &b[nb].value, &why)) nb++;
    }
    return nb;
}

/* Extents are known from tensors, unless tiles are as large as they are. */
static bool is_free_extent(const FrontKernel *k, const char *name)
{
    bool dim = false, key = false;
    for (int d = 0; d < k->n_dims; d++) dim |= !strcmp(k->dims[d], name);
    for (int d = 0; d < k->n_keys; d++) key |= !strcmp(k->keys[d], name);
    return dim && !key;
}

static bool view_bound(
    const Problem *p, Session *s, Ast *ast, const FrontBinding *given, int n, ProblemView *v)
{
    *v = (ProblemView){ .problem = p, .given = given, .n_given = n, .ast = ast };
    v->kernel = v->ast ? frontend_kernel_find(v->ast, p->kernel) : NULL;
    if (!v->kernel) return false;
    v->tune = frontend_tune(v->ast, p->kernel);
    v->fixed = arena_array(&s->arena, FrontBinding, (size_t)n + MOST_CONFIG);
    for (int i = 0; i < n; i++)
        if (!is_free_extent(v->kernel, given[i].name)) v->fixed[v->n_fixed++] = given[i];
    set_scalars(v, s);
    set_strides(v, s);
    set_facts(v, s);
    return true;
}

bool problem_view_bound(const Problem *p, Session *s, const FrontBinding *given, int n, ProblemView *v)
{ return view_bound(p, s, p->parse(p->user, s), given, n, v); }

bool problem_view(const Problem *p, Session *s, ProblemView *v)
{
    Ast *ast = p->parse(p->user, s);
    const FrontKernel *k = ast ? frontend_kernel_find(ast, p->kernel) : NULL;
    if (!k) return false;
    FrontBinding *given = arena_array(&s->arena, FrontBinding, (size_t)p->n_words + 1);
    int n = bind_words(s, k, p->n_words, p->words, given, p->n_words);
    return view_bound(p, s, ast, given, n, v);
}

static CompileOptions options_of(const ProblemView *v)
{
    const Problem *p = v->problem;
    return p->options ? *p->options : compile_options_default(p->device.target);
}

bool problem_config(const ProblemView *v, int64_t number, FrontBinding *out)
{ return frontend_tune_config_with(v->ast, v->tune, number, NULL, 0, out); }

int problem_read_config(const ProblemView *v, Session *s, const char *text, FrontBinding *out, int most)
{
    char *words[MOST_CONFIG], *rest = arena_strndup(&s->arena, text, strlen(text));
    int n = 0;
    for (char *w; n < MOST_CONFIG && (w = strtok_r(rest, " ,\n", &rest));) words[n++] = w;
    return bind_words(s, v->kernel, n, words, out, most);
}

const char *problem_config_text(Session *s, const FrontBinding *b, int n)
{
    Text t;
    text_init(&t, &s->arena);
    text_puts(&t, "");
    for (int i = 0; i < n; i++) {
        text_printf(&t, "%s%s=", i ? ", " : "", b[i].name);
        frontend_print_value(b[i].value, &t);
    }
    return arena_strndup(&s->arena, t.data, t.len);
}

/* --- counting and choosing --------------------------------------------------------------------------- */

/* The extents, scalars and programs of a launch of what was compiled. A compiled dimension is known by the
 * parameter and axis that it is read from, a derived one by its expression. */
static bool shape(void *user, const Compiled *c, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    const ProblemView *v = user;
    int64_t grid[3] = { 1, 1, 1 };
    for (int d = 0; d < c->n_dims; d++) {
        int at = 0;
        dims[d] = c->dims[d].extent;
        for (int i = 0; i < v->kernel->n_params && dims[d] < 0; i++) {
            if (v->kernel->params[i].kind >= FRONT_CONST) continue;
            if (at++ == c->dims[d].param)
                dims[d] = extent_of(v, v->kernel->params[i].dims[c->dims[d].axis].name);
        }
    }
    *env = (EvalEnv){ .dims = dims, .scalars = v->scalars, .strides = v->strides };
    if (compiled_derive(c, env, dims) == -2 || !eval_run(c->grid, env, grid, 3)) return false;
    for (int i = eval_results(c->grid); i < 3; i++) grid[i] = 1;
    memcpy(env->grid, grid, sizeof grid);
    *programs = grid[0] * grid[1] * grid[2];
    return true;
}

void problem_count(const ProblemView *v, Session *s, const FrontBinding *config, int n, ProblemCount *out)
{
    *out = (ProblemCount){ 0 };
    CompileOptions o = options_of(v);
    Compiled compiled;
    GpuCode code;
    Func *f;
    double begin = clock_ms();
    if (n > MOST_CONFIG) return;
    if (n) memcpy(v->fixed + v->n_fixed, config, (size_t)n * sizeof *config);
    CompileJob job = { s, v->ast, v->problem->kernel, v->fixed, (size_t)(v->n_fixed + n), &v->facts, &o };
    out->ok = compile_lowered(&job, NULL, &compiled, &f, &code);
    out->lower_ms = clock_ms() - begin;
    if (!out->ok) return;
    out->fits =
        code.shared_bytes <= v->problem->device.shared_bytes && code.planned_registers <= code.lane_registers;
    begin = clock_ms();
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)compiled.n_dims + 1), programs;
    EvalEnv env;
    out->ok = shape((void *)v, &compiled, dims, &env, &programs);
    if (out->ok && v->problem->device.model)
        cost_count(s, f, &code, &env, programs, &v->problem->device, &out->cost);
    out->count_ms = clock_ms() - begin;
}

static Ast *parse(void *user, Session *s)
{
    const ProblemView *v = user;
    Ast *shared = frontend_share(s, v->ast);
    return shared ? shared : v->problem->parse(v->problem->user, s);
}

static int64_t extent(void *user, const char *name) { return extent_of(user, name); }

SearchProblem problem_search(const ProblemView *v, const CompileOptions *o)
{
    return (SearchProblem){ .parse = parse,
        .shape = shape,
        .extent = extent,
        .user = (void *)v,
        .kernel = v->problem->kernel,
        .bindings = v->fixed,
        .n_bindings = v->n_fixed,
        .facts = &v->facts,
        .options = o,
        .device = v->problem->device,
        .thorough = v->problem->thorough };
}

bool problem_choose(const ProblemView *v, Session *s, SearchResult *r)
{
    const CompileOptions o = options_of(v);
    const SearchProblem p = problem_search(v, &o);
    return search_configuration(s, &p, r);
}
