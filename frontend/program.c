/* program.c: what a program offers: kernels and their parameters, instances, tuning. */
#include <stdio.h>
#include <stdlib.h>
#include "ir/interp/eval.h"
#include "ir/hints.h"
#include "frontend/check/check.h"
#include "frontend/lower/lower.h"
#include "frontend/parse/parse.h"
#include "frontend/program.h"
#include "frontend/program_info.h"
#include "ir/support/number.h"

const Node *program_kernel_node(const Ast *ast, const FrontKernel *k)
{ return ((const KernelInfo *)k)->node; }

/* --- parameters -------------------------------------------------------------------------------------- */

static bool is_const_param(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++) {
        const Node *p = kernel->kids[0]->kids[i];
        if (p->kind == N_PCONST && p->name == name) return true;
    }
    return false;
}

static bool is_const_name(const Ast *ast, const Node *kernel, const char *name)
{ return is_const_param(kernel, name) || names_get(&ast->consts, name) != NULL; }

bool program_takes_value(const Node *p) { return p->kind == N_PCONST || (p->kind == N_PTENSOR && p->u); }

bool program_is_scalar(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++) {
        const Node *p = kernel->kids[0]->kids[i];
        if (p->kind == N_PSCALAR && p->name == name) return true;
    }
    return false;
}

/* Whether the expression of an extent names a dimension or a scalar, which only a launch knows. */
static bool from_launch(const Ast *ast, const Node *kernel, const Node *n)
{
    if (!n) return false;
    if (n->kind == N_NAME) {
        DType d;
        bool word =
            dtype_parse(n->name, strlen(n->name), &d) || !strcmp(n->name, "inf") || !strcmp(n->name, "nan");
        return program_is_scalar(kernel, n->name) || (!is_const_name(ast, kernel, n->name) && !word);
    }
    for (uint32_t i = 0; i < n->n; i++)
        if (from_launch(ast, kernel, n->kids[i])) return true;
    return false;
}

static const char *source_text(Session *s, Loc loc)
{
    const Source *src = diag_source(s, loc.file);
    return src && loc.end <= src->len ? session_intern(s, src->text + loc.begin, loc.end - loc.begin) : "";
}

/* A dimension as written, global constants as their values: for callers, who do not know the file's. */
static void dim_text(Session *s, const Ast *ast, const Node *kernel, Lower *eval, const Node *n,
    const char *text, uint32_t *at, Loc whole, Text *out)
{
    __int128 value;
    if (!n) return;
    if (n->kind == N_NAME && names_get(&ast->consts, n->name) && !is_const_param(kernel, n->name) &&
        value_to_int(lower_expr(eval, n), &value)) {
        text_printf(out, "%.*s%lld", (int)(n->loc.begin - *at), text + (*at - whole.begin), (long long)value);
        *at = n->loc.end;
    }
    for (uint32_t i = 0; i < n->n; i++) dim_text(s, ast, kernel, eval, n->kids[i], text, at, whole, out);
}

/* Without comments, and with one blank for any white space: the text stands in messages and headers. */
static const char *on_one_line(Session *s, const char *text)
{
    Text out;
    text_init(&out, &s->arena);
    while (*text) {
        size_t blank = strspn(text, " \t\r\n"), skip = blank;
        if (text[0] == '/' && text[1] == '/') skip = strcspn(text, "\n");
        if (text[0] == '/' && text[1] == '*') {
            const char *end = strstr(text + 2, "*/");
            skip = end ? (size_t)(end - text) + 2 : strlen(text);
        }
        if (!skip) text_putc(&out, *text++);
        else if (out.len && out.data[out.len - 1] != ' ') text_putc(&out, ' ');
        text += skip;
    }
    while (out.len && out.data[out.len - 1] == ' ') out.len--;
    return session_intern(s, out.len ? out.data : "", out.len);
}

static const char *dim_as_written(Session *s, const Ast *ast, const Node *kernel, Lower *eval, const Node *n)
{
    const char *text = source_text(s, n->loc);
    uint32_t at = n->loc.begin;
    Text out;
    text_init(&out, &s->arena);
    if (!*text) return text;
    dim_text(s, ast, kernel, eval, n, text, &at, n->loc, &out);
    text_puts(&out, text + (at - n->loc.begin));
    return on_one_line(s, out.data);
}

static void add_dimension(Session *s, KernelInfo *info, const char *name, const char **dims)
{
    for (int d = 0; d < info->k.n_dims; d++)
        if (dims[d] == name) return;
    dims[info->k.n_dims++] = name;
}

/* The number of a derived extent; equal texts are one. */
static int add_derived(KernelInfo *info, const char *text, const char **derived)
{
    for (int d = 0; d < info->k.n_derived; d++)
        if (derived[d] == text) return d;
    derived[info->k.n_derived] = text;
    return info->k.n_derived++;
}

static void describe_dims(Session *s, const Ast *ast, KernelInfo *info, Lower *eval, const Node *p,
    FrontParam *f, const char **dims, const char **derived)
{
    for (uint32_t d = 1; d < p->n && f->rank < TILE_MAX_RANK; d++, f->rank++) {
        const Node *n = p->kids[d];
        FrontDim *dim = &f->dims[f->rank];
        bool launch = from_launch(ast, info->node, n);
        *dim = (FrontDim){ .text = dim_as_written(s, ast, info->node, eval, n), .derived = -1 };
        if (launch && n->kind == N_NAME && !program_is_scalar(info->node, n->name)) {
            dim->name = n->name;
            add_dimension(s, info, n->name, dims);
        } else if (launch) dim->derived = add_derived(info, dim->text, derived);
    }
}

static void describe_params(Session *s, const Ast *ast, KernelInfo *info, Lower *eval)
{
    const Node *params = info->node->kids[0];
    FrontParam *out = arena_array(&s->arena, FrontParam, params->n + 1);
    const char **dims = arena_array(&s->arena, const char *, params->n *TILE_MAX_RANK + 1);
    const char **derived = arena_array(&s->arena, const char *, params->n *TILE_MAX_RANK + 1);
    info->k.params = out;
    info->k.dims = dims;
    info->k.derived = derived;
    info->k.n_params = (int)params->n;
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        FrontParam *f = &out[i];
        f->name = p->name;
        f->loc = p->loc;
        f->type_name = p->kids[0]->name;
        f->type_known = dtype_parse(f->type_name, strlen(f->type_name), &f->dtype);
        if (p->kind == N_PTENSOR) {
            f->kind = p->op == IO_IN ? FRONT_IN : p->op == IO_OUT ? FRONT_OUT : FRONT_INOUT;
            f->optional = p->u != 0;
            describe_dims(s, ast, info, eval, p, f, dims, derived);
        } else {
            f->kind = p->kind == N_PSCALAR            ? FRONT_SCALAR
                      : !strcmp(f->type_name, "type") ? FRONT_CONST_TYPE
                                                      : FRONT_CONST;
            f->automatic = p->kind == N_PCONST && p->op;
            if (p->kind == N_PCONST) f->default_value = lower_eval_param(eval, p);
        }
    }
    if (info->k.n_derived > EVAL_MAX_RESULTS)
        diag_error(s, info->k.loc,
            "the tensors of kernel `%s` have more than %d extents that a launch derives", info->k.name,
            EVAL_MAX_RESULTS);
    /* Scalars come last, because their types and defaults may name consts that follow them. */
    for (uint32_t i = 0; i < params->n; i++)
        if (params->kids[i]->kind == N_PSCALAR)
            out[i].default_value = lower_eval_param(eval, params->kids[i]);
}

static void describe_grid(Session *s, const Ast *ast, KernelInfo *info, Lower *eval, const Node *extents)
{
    info->k.grid_rank = (int)extents->n;
    for (uint32_t i = 0; i < extents->n && i < 3; i++)
        info->k.grid[i] = dim_as_written(s, ast, info->node, eval, extents->kids[i]);
}

static KernelInfo *describe_kernel(Session *s, Ast *ast, Lower *eval, const Node *n)
{
    KernelInfo *info = arena_new(&s->arena, KernelInfo);
    info->node = n;
    info->k.name = n->name;
    info->k.loc = n->name_loc;
    lower_eval_scope(eval, NULL);
    lower_presence(eval, n->kids[0]);
    describe_params(s, ast, info, eval);
    for (uint32_t i = 0; i < n->kids[1]->n; i++)
        if (!strcmp(n->kids[1]->kids[i]->name, "grid"))
            describe_grid(s, ast, info, eval, n->kids[1]->kids[i]->kids[0]);
        else info->k.hinted = true;
    list_autos(s, info);
    program_find_keys(s, ast, info);
    if (info->n_autos) set_auto_defaults(s, ast, info);
    return info;
}

/* --- tune and instantiate ---------------------------------------------------------------------------- */

static FrontDomain describe_domain(Session *s, Lower *eval, const Node *kernel, const Node *d)
{
    FrontValue *values = arena_array(&s->arena, FrontValue, d->n + 1);
    const Node *param = NULL;
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++)
        if (program_takes_value(kernel->kids[0]->kids[i]) && kernel->kids[0]->kids[i]->name == d->name)
            param = kernel->kids[0]->kids[i];
    for (uint32_t i = 0; i < d->n; i++)
        values[i] = lower_eval_domain_value(eval, check_is_placement(kernel, d->name), param, d->kids[i]);
    return (FrontDomain){ .name = d->name, .n = (int)d->n, .values = values, .loc = d->loc };
}

static KernelInfo *info_of(const struct Program *g, const char *name)
{
    for (size_t i = 0; i < g->kernels.len; i++)
        if (!strcmp(g->kernels.data[i]->k.name, name)) return g->kernels.data[i];
    return NULL;
}

const KernelInfo *program_info(const Ast *ast, const char *kernel) { return info_of(ast->program, kernel); }

static void describe_tune(Session *s, Ast *ast, Lower *eval, KernelInfo *info, const Node *n)
{
    FrontTune *t = arena_new(&s->arena, FrontTune);
    size_t most = n->n + 1;
    for (uint32_t i = 0; i < n->n; i++)
        if (n->kids[i]->kind == N_CLAUSE) most += n->kids[i]->kids[0]->n;
    FrontDomain *domains = arena_array(&s->arena, FrontDomain, most);
    lower_eval_scope(eval, info->node);
    t->kernel = info->k.name;
    t->domains = domains;
    t->loc = n->name_loc;
    t->n = describe_configs(s, eval, info, n, domains);
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *e = n->kids[i];
        if (e->kind == N_DOMAIN) {
            domains[t->n++] = describe_domain(s, eval, info->node, e);
            continue;
        }
        const Node *args = e->kids[0];
        if (!strcmp(e->name, "config") || !strcmp(e->name, "fit")) continue;
        if (!strcmp(e->name, "require")) {
            info->require = args->n ? args->kids[0] : NULL;
            continue;
        }
        const char **keys = arena_array(&s->arena, const char *, args->n + 1);
        for (uint32_t k = 0; k < args->n; k++) keys[k] = args->kids[k]->name ? args->kids[k]->name : "";
        t->keys = keys;
        t->n_keys = (int)args->n;
    }
    describe_fit(n, domains, t->n);
    info->tune = t;
    /* Report an ill-typed `require` here, and not during tuning. */
    if (info->require)
        frontend_tune_config(ast, t, 0, arena_array(&s->arena, FrontBinding, (size_t)t->n + 1));
}

static void describe_instance(Session *s, Ast *ast, Lower *eval, KernelInfo *info, const Node *n)
{
    FrontDomain *domains = arena_array(&s->arena, FrontDomain, n->n + 1);
    lower_eval_scope(eval, NULL);
    for (uint32_t i = 0; i < n->n; i++) domains[i] = describe_domain(s, eval, info->node, n->kids[i]);
    vec_push(
        &s->arena, &ast->program->instances, ((FrontInstance){ info->k.name, (int)n->n, domains, n->loc }));
}

void program_build(Ast *ast)
{
    Session *s = ast->session;
    ast->program = arena_new(&s->arena, struct Program);
    struct Program *g = ast->program;
    Lower *eval = lower_eval_begin(ast, NULL, NULL, 0);
    for (size_t i = 0; i < ast->items.len && !diag_full(s); i++) {
        if (ast->items.data[i]->kind != N_KERNEL) continue;
        KernelInfo *info = describe_kernel(s, ast, eval, ast->items.data[i]);
        vec_push(&s->arena, &g->kernels, info);
        names_put(&s->arena, &g->by_name, info->k.name, info);
    }
    for (size_t i = 0; i < ast->items.len && !diag_full(s); i++) {
        const Node *n = ast->items.data[i];
        KernelInfo *info = n->kind == N_TUNE || n->kind == N_INSTANCE || n->kind == N_LADDER
                               ? names_get(&g->by_name, n->name)
                               : NULL;
        if (!info) continue;
        if (n->kind == N_TUNE) describe_tune(s, ast, eval, info, n);
        else if (n->kind == N_LADDER) describe_ladder(s, eval, info, n);
        else describe_instance(s, ast, eval, info, n);
    }
    for (size_t i = 0; i < g->kernels.len && !s->n_errors; i++)
        if (g->kernels.data[i]->n_autos) describe_autos(s, ast, g->kernels.data[i]);
}

int frontend_kernel_count(const Ast *ast) { return ast->program ? (int)ast->program->kernels.len : 0; }
const FrontKernel *frontend_kernel(const Ast *ast, int i) { return &ast->program->kernels.data[i]->k; }
int frontend_instance_count(const Ast *ast) { return ast->program ? (int)ast->program->instances.len : 0; }
const FrontInstance *frontend_instance(const Ast *ast, int i) { return &ast->program->instances.data[i]; }

const FrontKernel *frontend_kernel_find(const Ast *ast, const char *name)
{
    KernelInfo *i = ast->program ? info_of(ast->program, name) : NULL;
    return i ? &i->k : NULL;
}

const FrontTune *frontend_tune(const Ast *ast, const char *kernel)
{
    KernelInfo *i = ast->program ? info_of(ast->program, kernel) : NULL;
    return i ? i->tune : NULL;
}

const FrontLadder *frontend_ladder(const Ast *ast, const char *kernel)
{
    KernelInfo *i = ast->program ? info_of(ast->program, kernel) : NULL;
    return i ? i->ladder : NULL;
}

int64_t frontend_tune_count(const FrontTune *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->n; d++) n *= t->domains[d].n;
    return n;
}

/* Configuration k with what `fixed` binds. False: there is no such number. */
static bool config_with(
    const FrontTune *t, int64_t k, const FrontBinding *fixed, int n_fixed, FrontBinding *out)
{
    if (k < 0 || k >= frontend_tune_count(t)) return false;
    for (int d = t->n - 1; d >= 0; k /= t->domains[d].n, d--) {
        out[d] = (FrontBinding){ t->domains[d].name, t->domains[d].values[k % t->domains[d].n] };
        for (int i = 0; i < n_fixed; i++)
            if (!strcmp(fixed[i].name, out[d].name)) out[d].value = fixed[i].value;
    }
    return true;
}

static bool holds(const Ast *ast, const FrontTune *t, const Node *condition, const FrontBinding *fixed,
    int n_fixed, const FrontBinding *config)
{
    const KernelInfo *info = info_of(ast->program, t->kernel);
    FrontBinding *all = arena_array(&ast->session->arena, FrontBinding, (size_t)(n_fixed + t->n) + 1);
    memcpy(all, fixed, (size_t)n_fixed * sizeof *all);
    memcpy(all + n_fixed, config, (size_t)t->n * sizeof *all);
    return program_condition_holds(
        lower_eval_begin((Ast *)ast, info->node, all, (size_t)(n_fixed + t->n)), condition);
}

bool frontend_tune_config_with(
    const Ast *ast, const FrontTune *t, int64_t k, const FrontBinding *fixed, int n_fixed, FrontBinding *out)
{
    const KernelInfo *info = info_of(ast->program, t->kernel);
    if (!config_with(t, k, fixed, n_fixed, out)) return false;
    if (!configs_list(&info->configs, out) || !autos_allow(info, out)) return false;
    return !info->require || holds(ast, t, info->require, fixed, n_fixed, out);
}

bool frontend_tune_config(const Ast *ast, const FrontTune *t, int64_t k, FrontBinding *out)
{ return frontend_tune_config_with(ast, t, k, (FrontBinding[1]){ { 0 } }, 0, out); }

bool program_mentions(const Node *n, const char *name)
{
    if (!n) return false;
    if (n->kind == N_NAME && !strcmp(n->name, name)) return true;
    for (uint32_t i = 0; i < n->n; i++)
        if (program_mentions(n->kids[i], name)) return true;
    return false;
}

bool frontend_grid_names(const Ast *ast, const char *kernel, const char *name)
{
    const KernelInfo *info = ast->program ? info_of(ast->program, kernel) : NULL;
    for (uint32_t i = 0; info && i < info->node->kids[1]->n; i++)
        if (!strcmp(info->node->kids[1]->kids[i]->name, "grid") &&
            program_mentions(info->node->kids[1]->kids[i]->kids[0], name))
            return true;
    for (int i = 0; info && i < info->n_autos; i++)
        if (info->autos[i].grid && !strcmp(info->autos[i].param->name, name)) return true;
    return false;
}

static const char *tiled(const Node *n, const char *name)
{
    const char *found = NULL;
    if (n->kind == N_CALL && !strcmp(n->name, "cdiv") && n->n == 2 && n->kids[0]->kind == N_NAME &&
        n->kids[1]->kind == N_NAME && !strcmp(n->kids[1]->name, name))
        return n->kids[0]->name;
    for (uint32_t i = 0; i < n->n && !found; i++)
        if (n->kids[i]) found = tiled(n->kids[i], name);
    return found;
}

const char *frontend_grid_tiles(const Ast *ast, const char *kernel, const char *name)
{
    const KernelInfo *info = ast->program ? info_of(ast->program, kernel) : NULL;
    const char *found = NULL;
    for (uint32_t i = 0; info && i < info->node->kids[1]->n && !found; i++)
        if (!strcmp(info->node->kids[1]->kids[i]->name, "grid"))
            found = tiled(info->node->kids[1]->kids[i]->kids[0], name);
    return found;
}

bool frontend_placement_name(const char *name) { return !strcmp(name, "remap"); }
bool frontend_placement_word(const char *word)
{
    static const char *const words[] = { "auto", "xcd", "chunk", "head", "none" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i], word)) return true;
    return false;
}

bool frontend_hint_name(const char *name) { return hint_find(name) || frontend_placement_name(name); }

bool frontend_absent(const FrontBinding *b, size_t n, const char *name)
{
    while (n--)
        if (!strcmp(b[n].name, name)) return b[n].value.kind == FRONT_BOOL && !b[n].value.b;
    return false;
}
