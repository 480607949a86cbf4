/* costs: what the choice without a table sees of every configuration of a kernel's `tune` block at one shape,
 * as JSON: what estimates are fitted on.
 *
 *     costs FILE KERNEL TARGET [NAME=VALUE ...]             extents and consts; tensors are taken as
 *         contiguous and 16-byte aligned
 *     costs --configs=LIST FILE KERNEL TARGET [NAME=VALUE ...]   not the whole block: the configurations of
 *         LIST, one a line, NAME=VALUE ...
 *     costs --choose FILE KERNEL TARGET [NAME=VALUE ...]    what the library would choose, of how many it
 *         looked at, and how long that took
 * t:TENSOR among NAME=VALUE: its last two axes are exchanged in memory */
#define _GNU_SOURCE
#include "bench/gpu/source.h"
#include "frontend/frontend.h"
#include "runtime/compile/compile.h"
#include "runtime/choice/search.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t extent_of(const FrontBinding *b, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (name && !strcmp(b[i].name, name) && b[i].value.kind == FRONT_INT) return b[i].value.i;
    return 1024;
}

static int n_words;
static char **words;

static bool turned(const FrontParam *q)
{
    for (int i = 0; i < n_words; i++)
        if (q->rank > 1 && !strncmp(words[i], "t:", 2) && !strcmp(words[i] + 2, q->name)) return true;
    return false;
}

static int unit_axis(const FrontParam *q) { return q->rank - 1 - turned(q); }

static int64_t row_bytes(const FrontParam *q, const FrontBinding *b, size_t n)
{
    DType d = q->type_known ? q->dtype : DT_F16;
    for (size_t i = 0; i < n; i++)
        if (!q->type_known && !strcmp(b[i].name, q->type_name)) d = b[i].value.type;
    return q->dims[unit_axis(q)].name ? extent_of(b, n, q->dims[unit_axis(q)].name) * dtype_bytes(d) : 16;
}

static const int64_t (*strides_of(Session *s, const FrontKernel *k, const FrontBinding *b, size_t n))
    [TILE_MAX_RANK] {
        int64_t (*strides)[TILE_MAX_RANK] = (int64_t (*)[TILE_MAX_RANK])arena_array(
            &s->arena, int64_t, (size_t)(k->n_params + 1) * TILE_MAX_RANK);
        int at = 0;
        for (int i = 0; i < k->n_params; i++) {
            const FrontParam *q = &k->params[i];
            if (q->kind >= FRONT_CONST) continue;
            int64_t pitch = 1;
            for (int a = q->rank - 1; a >= 0; a--) {
                int axis = turned(q) && a >= q->rank - 2 ? 2 * q->rank - 3 - a : a;
                strides[at][axis] = pitch;
                pitch *= q->dims[axis].name ? extent_of(b, n, q->dims[axis].name) : 1;
            }
            at++;
        }
        return (const int64_t (*)[TILE_MAX_RANK])strides;
    }

static void facts_of(Session *s, const FrontKernel *k, const FrontBinding *b, size_t n, LaunchFacts *f)
{
    ParamFacts *p = arena_array(&s->arena, ParamFacts, (size_t)k->n_params + 1);
    bool *dim16 = arena_array(&s->arena, bool, (size_t)k->n_dims + 1);
    int at = 0;
    for (int d = 0; d < k->n_dims; d++) dim16[d] = extent_of(b, n, k->dims[d]) % 16 == 0;
    for (int i = 0; i < k->n_params; i++) {
        const FrontParam *q = &k->params[i];
        if (q->kind >= FRONT_CONST) continue;
        int64_t bytes = q->rank ? row_bytes(q, b, n) : 16;
        bool wide = bytes % 16 == 0;
        p[at++] = (ParamFacts){ .align = 16,
            .unit_axis = unit_axis(q),
            .stride_mask = wide ? ~0u : 0,
            .grain = wide || bytes % 4 ? 0
                     : bytes % 8       ? 4
                                       : 8,
            .sign = 1 };
    }
    *f = (LaunchFacts){
        .params = p, .n_params = at, .dim16 = dim16, .n_dims = k->n_dims, .fits32 = true, .extents31 = true
    };
}

typedef struct Ask {
    const char *path, *text;
    size_t n;
    const FrontBinding *b;
    size_t nb;
    const int64_t (*strides)[TILE_MAX_RANK];
} Ask;

static Ast *parse(void *user, Session *s)
{
    const Ask *a = user;
    Ast *ast = frontend_parse(s, diag_add_source(s, a->path, "", a->text, a->n), NULL, NULL);
    return frontend_check(ast) ? ast : NULL;
}

/* Of the dimensions' names only the first source knows: the fact that a dimension has one extent in all
 * parameters serves to find it. */
static const FrontKernel *asked;
static bool shape(void *user, const Compiled *c, int64_t *dims, EvalEnv *env, int64_t *programs)
{
    const Ask *a = user;
    int64_t grid[3] = { 1, 1, 1 };
    for (int d = 0; d < c->n_dims; d++) {
        int at = 0;
        dims[d] = c->dims[d].extent;
        for (int i = 0; i < asked->n_params && dims[d] < 0; i++) {
            if (asked->params[i].kind >= FRONT_CONST) continue;
            if (at++ == c->dims[d].param)
                dims[d] = extent_of(a->b, a->nb, asked->params[i].dims[c->dims[d].axis].name);
        }
    }
    *env = (EvalEnv){ .dims = dims, .strides = a->strides };
    if (!eval_run(c->grid, env, grid)) return false;
    for (int i = eval_results(c->grid); i < 3; i++) grid[i] = 1;
    memcpy(env->grid, grid, sizeof grid);
    *programs = grid[0] * grid[1] * grid[2];
    return true;
}

static int bind_all(Session *s, const FrontKernel *k, int argc, char **argv, FrontBinding *b)
{
    int nb = 0;
    for (int i = 0; i < argc; i++) {
        char *eq = strchr(argv[i], '=');
        const char *why;
        if (!eq) continue;
        b[nb].name = arena_strndup(&s->arena, argv[i], (size_t)(eq - argv[i]));
        if (frontend_parse_value(s, k, b[nb].name, eq + 1, &b[nb].value, &why)) nb++;
    }
    return nb;
}

static CostDevice device_of(const Target *t)
{ return (CostDevice){ device_model(t), t, t->n_sms, t->l2_bytes }; }

static int choose(int argc, char **argv)
{
    size_t n = 0;
    char *text = argc > 3 ? read_all(argv[1], &n) : NULL;
    Session s;
    session_init(&s, allocator_libc);
    if (!text || setjmp(s.oom)) return 1;
    Ask ask = { .path = argv[1], .text = text, .n = n };
    Ast *ast = parse(&ask, &s);
    const FrontKernel *k = asked = ast ? frontend_kernel_find(ast, argv[2]) : NULL;
    const Target *target = target_find(argv[3]);
    if (!k || !target) return 1;
    FrontBinding *b = arena_array(&s.arena, FrontBinding, (size_t)argc),
                 *fixed = arena_array(&s.arena, FrontBinding, (size_t)argc);
    ask.b = b;
    ask.nb = (size_t)bind_all(&s, k, argc - 4, argv + 4, b);
    ask.strides = strides_of(&s, k, b, ask.nb);
    int nf = 0;
    for (size_t i = 0; i < ask.nb; i++) {
        bool dim = false, key = false;
        for (int d = 0; d < k->n_dims; d++) dim |= !strcmp(k->dims[d], b[i].name);
        for (int d = 0; d < k->n_keys; d++) key |= !strcmp(k->keys[d], b[i].name);
        if (!dim || key) fixed[nf++] = b[i];
    }
    LaunchFacts facts;
    facts_of(&s, k, b, ask.nb, &facts);
    CompileOptions o = compile_options_default(target);
    SearchProblem p = { .parse = parse,
        .shape = shape,
        .user = &ask,
        .kernel = argv[2],
        .bindings = fixed,
        .n_bindings = nf,
        .facts = &facts,
        .options = &o,
        .device = device_of(target),
        .shared_bytes = target->shared_bytes };
    SearchResult r;
    double begin = clock_ms();
    if (!search_configuration(&s, &p, &r)) return 1;
    printf("%s: %.1f us by %s (declared %.1f), of %d, in %.0f ms\n", search_text(&s, &r), r.ns * 1e-3,
        bound_name(r.bound), r.declared_ns * 1e-3, r.tried, clock_ms() - begin);
    session_free(&s);
    free(text);
    return 0;
}

/* The line of a list of configurations; -1: there is none. */
static int config_line(
    Session *s, const FrontKernel *k, const char *list, int64_t line, FrontBinding *b, size_t most)
{
    for (; line && list; line--)
        if ((list = strchr(list, '\n'))) list++;
    if (!list || !*list) return -1;
    const char *end = strchr(list, '\n');
    char *text = arena_strndup(&s->arena, list, end ? (size_t)(end - list) : strlen(list)), *words[64],
         *rest = text;
    int n = 0;
    for (char *w; (w = strtok_r(rest, " ,", &rest)) && n < 64 && (size_t)n < most;) words[n++] = w;
    return bind_all(s, k, n, words, b);
}

static int count(int argc, char **argv, const char *list)
{
    size_t n = 0;
    char *text = argc > 3 ? read_all(argv[1], &n) : NULL;
    if (!text) {
        fprintf(stderr, "costs FILE KERNEL TARGET [NAME=VALUE ...]\n");
        return 2;
    }
    bool first = true;
    int64_t total = 1;
    printf("[");
    for (int64_t c = 0; c < total; c++) {
        Session s;
        session_init(&s, allocator_libc);
        if (setjmp(s.oom)) {
            session_free(&s);
            continue;
        }
        double begin = clock_ms();
        Ast *ast = frontend_parse(&s, diag_add_source(&s, argv[1], "", text, n), NULL, NULL);
        const FrontKernel *k = frontend_check(ast) ? frontend_kernel_find(ast, argv[2]) : NULL;
        const FrontTune *t = k ? frontend_tune(ast, argv[2]) : NULL;
        const Target *target = target_find(argv[3]);
        if (!t || !target) {
            fprintf(stderr, "no such kernel with a tune block, or target\n");
            return 1;
        }
        int nc = t->n;
        total = list ? INT64_MAX : frontend_tune_count(t);
        FrontBinding *b = arena_array(&s.arena, FrontBinding, (size_t)(argc + t->n)),
                     *config = arena_array(&s.arena, FrontBinding, (size_t)t->n + 64);
        FrontBinding *all = arena_array(&s.arena, FrontBinding, (size_t)(argc + t->n + k->n_dims) + 64);
        size_t nb = 0, na = 0;
        nb = (size_t)bind_all(&s, k, argc - 4, argv + 4, b);
        if (list && (nc = config_line(&s, k, list, c, config, 64)) < 0) {
            session_free(&s);
            break;
        }
        if (!list && !frontend_tune_config_with(ast, t, c, NULL, 0, config)) {
            session_free(&s);
            continue;
        }
        for (size_t i = 0; i < nb; i++) {
            bool dim = false, key = false;
            for (int d = 0; d < k->n_dims; d++) dim |= !strcmp(k->dims[d], b[i].name);
            for (int d = 0; d < k->n_keys; d++) key |= !strcmp(k->keys[d], b[i].name);
            if (!dim || key) all[na++] = b[i];
        }
        for (int i = 0; i < nc; i++) all[na++] = config[i];
        LaunchFacts facts;
        facts_of(&s, k, b, nb, &facts);
        CompileOptions o = compile_options_default(target);
        Compiled compiled;
        GpuCode code;
        Func *f;
        bool ok = compile_lowered(&s, ast, argv[2], all, na, &facts, &o, &compiled, &f, &code);
        double lowered = clock_ms();
        const CostDevice device = device_of(target);
        Cost cost = { 0 };
        if (ok) {
            int64_t *dims = arena_array(&s.arena, int64_t, (size_t)f->n_dims + 1), grid[3] = { 1, 1, 1 };
            for (int d = 0; d < f->n_dims; d++)
                dims[d] = f->dims[d].extent >= 0 ? f->dims[d].extent : extent_of(b, nb, f->dims[d].name);
            EvalEnv env = { .dims = dims, .strides = strides_of(&s, k, b, nb) };
            if (!eval_run(compiled.grid, &env, grid)) ok = false;
            for (int a = eval_results(compiled.grid); a < 3; a++) grid[a] = 1;
            memcpy(env.grid, grid, sizeof grid);
            if (ok && device.model)
                cost_count(&s, f, &code, &env, grid[0] * grid[1] * grid[2], &device, &cost);
        }
        double end = clock_ms();
        printf("%s{\"config\": \"", first ? "" : ",\n");
        first = false;
        for (int i = 0; i < nc; i++) {
            Text v;
            text_init(&v, &s.arena);
            frontend_print_value(config[i].value, &v);
            printf("%s%s=%s", i ? ", " : "", config[i].name, v.data);
        }
        printf("\", \"ok\": %s, \"lower_ms\": %.2f, \"count_ms\": %.2f", ok ? "true" : "false",
            lowered - begin, end - lowered);
#define D(x) printf(", \"" #x "\": %.6g", (double)cost.x)
        D(wgmma);
        D(mma);
        D(feed);
        D(shared);
        D(alu);
        D(special);
        D(in);
        D(out);
        D(wasted);
        D(filled);
        D(given);
        D(torn);
        D(joins);
        D(loading);
        D(panels);
        D(scalar);
        D(steps);
        D(again);
        D(turns);
        D(stalls);
        D(meets);
        D(heaviest);
        D(unique);
        D(memory);
        D(ring);
        D(slots);
        D(ahead);
        D(programs);
        D(groups);
        D(consumers);
        D(threads);
        D(registers);
        D(words);
        D(held);
        D(room);
        D(persistent);
        D(overlapped);
        D(bulk);
        D(cluster);
        D(shared_bytes);
        Bound bound = BOUND_PROGRAMS;
        if (ok && device.model) printf(", \"estimate\": %.6g", cost_estimate(&cost, &device, &bound));
        printf(", \"limit\": \"%s\"}", bound_name(bound));
        session_free(&s);
    }
    printf("]\n");
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    n_words = argc;
    words = argv;
    if (argc > 1 && !strcmp(argv[1], "--choose")) return choose(argc - 1, argv + 1);
    if (argc < 2 || strncmp(argv[1], "--configs=", 10)) return count(argc, argv, NULL);
    size_t n;
    char *list = read_all(argv[1] + 10, &n);
    if (!list) {
        fprintf(stderr, "cannot read %s\n", argv[1] + 10);
        return 2;
    }
    int status = count(argc - 1, argv + 1, list);
    free(list);
    return status;
}
