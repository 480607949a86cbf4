/* auto.c: the constants whose value the compiler chooses, `const int TN = auto`. From what a constant decides
 * (program_keys.c) follow the values that it may take, which become a domain of the kernel's tune block, and
 * the value that it has where nothing is known of a launch. docs/tuning.md has the table. */
#include "frontend/lower/lower.h"
#include "frontend/program.h"
#include "frontend/program_info.h"

enum {
    MOST_VALUES = 9,
    MOST_SUMS = 1 << 15,     /* elements of a tile of sums: all registers of a multiprocessor's half */
    MOST_ELEMENTS = 1 << 14, /* of a tile that is not multiplied */
    MOST_TRIES = 1 << 16,    /* configurations that `require` allows and that are compared */
};

/* The values that an `auto` constant may take, in order, and its default. */
typedef struct AutoSpace {
    int n, otherwise;
    int64_t value[MOST_VALUES];
} AutoSpace;

static const AutoSpace flags = { 2, 0, { 0, 1 } };
static const AutoSpace depths = { 3, 3, { 2, 3, 4 } };
static const AutoSpace bands = { 3, 8, { 1, 8, 16 } };
static const AutoSpace sides = { 6, 128, { 16, 32, 64, 96, 128, 256 } }; /* of a tile of sums */
/* Of a tile of sums that more than two constants size, as the images, rows and columns of a convolution do.
 */
static const AutoSpace parts = { 9, 16, { 1, 2, 4, 8, 16, 32, 64, 128, 256 } };
static const AutoSpace steps = { 4, 32, { 16, 32, 64, 128 } };   /* of a loop around products */
static const AutoSpace squares = { 4, 32, { 16, 32, 64, 128 } }; /* last axis and another one */
/* An axis that is not the last one, beside vectors along it, such as a scale for each row. */
static const AutoSpace scaled_rows = { 8, 16, { 1, 2, 4, 8, 16, 32, 64, 128 } };
/* The same where it is an axis of records, which lie side by side in memory. */
static const AutoSpace records = { 9, 16, { 2, 4, 8, 16, 32, 64, 128, 256, 512 } };
static const AutoSpace rows = { 7, 8, { 1, 2, 4, 8, 16, 32, 64 } }; /* an axis that is not the last */
static const AutoSpace lengths = { 9, 1024, { 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192 } };

static bool is_flag(const AutoConst *a) { return a->param->kids[1]->kind == N_BOOL; }

/* Constants that size the tiles of sums. */
static int count_sides(const KernelInfo *info)
{
    int n = 0;
    for (int i = 0; i < info->n_autos; i++) n += info->autos[i].grid && info->autos[i].tile;
    return info->k.products ? n : 0;
}

static const AutoSpace *space_of(const KernelInfo *info, const AutoConst *a)
{
    if (is_flag(a)) return &flags;
    if (!a->tile && a->latency) return &depths;
    if (!a->tile && a->raster) return &bands;
    if (info->k.products && a->grid && count_sides(info) > 2) return &parts;
    if (info->k.products && a->grid && a->front && !a->side) return &rows; /* a batch of matrices */
    if (info->k.products && a->grid) return &sides;
    if (info->k.products) return &steps;
    if (!a->other && !a->record) return &lengths;
    if (a->last || !a->vector) return a->last ? &squares : &rows;
    return a->other ? &scaled_rows : &records;
}

bool program_depends(const Node *params, const Node *n, const char *name)
{
    bool asked[params->n + 1], found = program_mentions(n, name);
    for (uint32_t i = params->n; i-- > 0 && !found;) { /* a default names constants before it */
        const Node *p = params->kids[i];
        asked[i] = p->kind == N_PCONST && !p->op && program_mentions(n, p->name);
        for (uint32_t k = i + 1; k < params->n && p->kind == N_PCONST && !p->op; k++)
            asked[i] |= asked[k] && program_mentions(params->kids[k]->kids[1], p->name);
        found = asked[i] && program_mentions(p->kids[1], name);
    }
    return found;
}

/* Whether the constant sizes a tile that begins at zero, as sums of products do: a side of the tiles that a
 * program takes one after the other, where the grid does not count them. */
static bool sizes_zeros(const Node *params, const Node *n, const char *name)
{
    if (!n) return false;
    if (n->kind == N_CALL && !strcmp(n->name, "zeros") && n->n)
        return program_depends(params, n->kids[0], name);
    for (uint32_t i = 0; i < n->n; i++)
        if (sizes_zeros(params, n->kids[i], name)) return true;
    return false;
}

void list_autos(Session *s, KernelInfo *info)
{
    const Node *params = info->node->kids[0], *clauses = info->node->kids[1];
    info->autos = arena_array(&s->arena, AutoConst, (size_t)params->n + 1);
    for (uint32_t i = 0; i < params->n; i++) {
        if (params->kids[i]->kind != N_PCONST || !params->kids[i]->op) continue;
        AutoConst *a = &info->autos[info->n_autos++];
        *a = (AutoConst){ .param = params->kids[i] };
        for (uint32_t k = 0; k < clauses->n; k++) {
            bool named = program_depends(params, clauses->kids[k]->kids[0], a->param->name);
            a->grid |= named && !strcmp(clauses->kids[k]->name, "grid");
            a->raster |= named && !strcmp(clauses->kids[k]->name, "raster");
        }
    }
}

static void set_default(const AutoConst *a, int64_t v) { a->param->kids[1]->u = (uint64_t)v; }

/* A tile of several such constants has about as many elements as one of fewer. */
static int64_t default_of(const KernelInfo *info, const AutoConst *a)
{
    const AutoSpace *space = space_of(info, a);
    bool beside = false;
    if (space == &parts && count_sides(info) > 3) return space->otherwise / 2;
    for (int i = 0; i < info->n_autos; i++) {
        const AutoConst *b = &info->autos[i];
        beside |= b != a && b->tile && space_of(info, b) == &rows;
    }
    return space == &lengths && beside ? space->otherwise / rows.otherwise : space->otherwise;
}

/* Evaluates the defaults of the kernel's consts again. */
static void evaluate_defaults(Session *s, Ast *ast, KernelInfo *info)
{
    const Node *params = info->node->kids[0];
    FrontParam *out = (FrontParam *)info->k.params;
    Lower *eval = lower_eval_begin(ast, NULL, NULL, 0);
    int errors = s->n_errors;
    lower_presence(eval, params);
    for (uint32_t i = 0; i < params->n && s->n_errors == errors; i++)
        if (params->kids[i]->kind == N_PCONST) out[i].default_value = lower_eval_param(eval, params->kids[i]);
}

/* An extent of a tensor that depends on the constant, or NULL. */
static const Node *extent_of(const KernelInfo *info, const AutoConst *a)
{
    const Node *params = info->node->kids[0];
    for (uint32_t i = 0; i < params->n; i++)
        for (uint32_t k = 1; params->kids[i]->kind == N_PTENSOR && k < params->kids[i]->n; k++)
            if (program_depends(params, params->kids[i]->kids[k], a->param->name))
                return params->kids[i]->kids[k];
    return NULL;
}

/* Reports a constant whose value results depend on, or that decides nothing. */
static void check_auto(Session *s, const KernelInfo *info, const AutoConst *a)
{
    const char *name = a->param->name;
    const Node *extent = extent_of(info, a);
    Diag *d;
    if (extent) {
        d = diag_error(s, extent->loc, "the extent of a tensor depends on `%s`, which is `auto`", name);
        diag_note(s, d, (Loc){ 0 }, "the caller must know it: give `%s` a value", name);
    } else if (a->fixed.file) {
        d = diag_error(s, a->fixed,
            "this window begins at a fixed place, so that the results depend on `%s`, which is `auto`", name);
        if (a->along)
            diag_note(
                s, d, (Loc){ 0 }, "`0 +: %s` is the whole axis; else give `%s` a value", a->along, name);
        else diag_note(s, d, (Loc){ 0 }, "give `%s` a value", name);
    } else if (!is_flag(a) && !a->tile && !a->grid && !a->latency && !a->raster) {
        d = diag_error(s, a->param->kids[1]->loc, "`%s` is `auto` and sizes nothing", name);
        diag_note(s, d, (Loc){ 0 },
            "an `auto` constant is an extent of tiles or of the grid, a `latency` or a raster's group; a "
            "hint that is left out is chosen without it");
    }
}

/* Where the grid counts tiles along one axis or none, programs take tiles one after the other: their sides
 * are then those of the sums, up to two. */
static void find_sides(KernelInfo *info)
{
    const Node *n = info->node;
    int sides = count_sides(info);
    for (int i = 0; i < info->n_autos && info->k.products; i++) {
        AutoConst *a = &info->autos[i];
        bool sizes = false;
        for (uint32_t k = 2; k < n->n; k++) sizes |= sizes_zeros(n->kids[0], n->kids[k], a->param->name);
        if (a->grid || !a->tile || !sizes || sides >= 2) continue;
        a->grid = true;
        sides++;
    }
}

void set_auto_defaults(Session *s, Ast *ast, KernelInfo *info)
{
    find_sides(info);
    for (int i = 0; i < info->n_autos; i++) {
        set_default(&info->autos[i], default_of(info, &info->autos[i]));
        check_auto(s, info, &info->autos[i]);
    }
    evaluate_defaults(s, ast, info);
}

/* --- the tune block ---------------------------------------------------------------------------------- */

static FrontDomain domain_of(Session *s, const KernelInfo *info, const AutoConst *a)
{
    const AutoSpace *space = space_of(info, a);
    FrontValue *values = arena_array(&s->arena, FrontValue, MOST_VALUES);
    for (int i = 0; i < space->n; i++)
        values[i] = is_flag(a) ? (FrontValue){ FRONT_BOOL, { .b = space->value[i] != 0 } }
                               : (FrontValue){ FRONT_INT, { .i = space->value[i] } };
    return (FrontDomain){ .name = a->param->name,
        .n = space->n,
        .values = values,
        .derived = true,
        .along = a->many ? NULL : a->along,
        .order_only = space == &bands,
        .loc = a->param->kids[1]->loc };
}

static int domain_named(const FrontTune *t, const char *name)
{
    for (int d = 0; d < t->n; d++)
        if (!strcmp(t->domains[d].name, name)) return d;
    return -1;
}

static int64_t as_number(FrontValue v) { return v.kind == FRONT_BOOL ? v.b : v.i; }

/* How far a configuration is from the defaults, in powers of two. */
static int64_t distance(const KernelInfo *info, const FrontBinding *config)
{
    int64_t all = 0;
    for (int i = 0; i < info->n_autos; i++) {
        const AutoConst *a = &info->autos[i];
        int64_t v = as_number(config[domain_named(info->tune, a->param->name)].value),
                u = (int64_t)a->param->kids[1]->u;
        int apart = __builtin_clzll((uint64_t)v | 1) - __builtin_clzll((uint64_t)u | 1);
        all += 2 * (apart < 0 ? -apart : apart) + (v != u);
    }
    return all;
}

/* The number of a configuration in which `auto` constants have their defaults; -1: a domain lacks one. */
static int64_t number_of_defaults(const KernelInfo *info)
{
    const FrontTune *t = info->tune;
    int64_t number = 0;
    for (int d = 0; d < t->n; d++) {
        const FrontDomain *domain = &t->domains[d];
        const AutoConst *a = NULL;
        int v = 0;
        for (int i = 0; i < info->n_autos && !a; i++)
            if (!strcmp(info->autos[i].param->name, domain->name)) a = &info->autos[i];
        while (a && v < domain->n && as_number(domain->values[v]) != (int64_t)a->param->kids[1]->u) v++;
        if (v == domain->n) return -1;
        number = number * domain->n + v;
    }
    return number;
}

/* The defaults become those of the allowed configuration that is nearest to them. Names of the block that
 * are not `auto` keep their declared values. */
static void choose_defaults(Session *s, Ast *ast, KernelInfo *info)
{
    const FrontTune *t = info->tune;
    FrontBinding *config = arena_array(&s->arena, FrontBinding, (size_t)t->n + 1),
                 *fixed = arena_array(&s->arena, FrontBinding, (size_t)info->k.n_params + 1);
    int64_t count = frontend_tune_count(t), best = -1, least = INT64_MAX;
    int n = 0, tries = 0;
    for (int i = 0; i < info->k.n_params; i++)
        if (info->k.params[i].kind >= FRONT_CONST && !info->k.params[i].automatic &&
            info->k.params[i].default_value.kind != FRONT_NOTHING)
            fixed[n++] = (FrontBinding){ info->k.params[i].name, info->k.params[i].default_value };
    if (frontend_tune_config_with(ast, t, number_of_defaults(info), fixed, n, config)) return;
    for (int64_t k = 0; k < count && tries < MOST_TRIES && !s->n_errors; k++) {
        if (!frontend_tune_config_with(ast, t, k, fixed, n, config)) continue;
        int64_t now = distance(info, config);
        tries++;
        if (now < least) {
            least = now;
            best = k;
        }
    }
    if (s->n_errors) return;
    if (best < 0) {
        Diag *d = diag_error(s, info->require ? info->require->loc : t->loc,
            "no value of the `auto` constants of kernel `%s` is allowed", info->k.name);
        diag_note(
            s, d, info->autos[0].param->kids[1]->loc, "%lld combinations are possible", (long long)count);
        return;
    }
    frontend_tune_config_with(ast, t, best, fixed, n, config);
    for (int i = 0; i < info->n_autos; i++)
        set_default(&info->autos[i], as_number(config[domain_named(t, info->autos[i].param->name)].value));
    evaluate_defaults(s, ast, info);
}

void describe_autos(Session *s, Ast *ast, KernelInfo *info)
{
    const FrontTune *given = info->tune;
    FrontTune *t = arena_new(&s->arena, FrontTune);
    int n = given ? given->n : 0;
    FrontDomain *domains = arena_array(&s->arena, FrontDomain, (size_t)(n + info->n_autos) + 1);
    *t = given ? *given : (FrontTune){ .kernel = info->k.name, .loc = info->k.loc };
    if (n) memcpy(domains, given->domains, (size_t)n * sizeof *domains);
    t->domains = domains;
    if (!t->n_keys) {
        t->keys = info->k.dims;
        t->n_keys = info->k.n_dims;
    }
    for (int i = 0; i < info->n_autos; i++)
        if (!given || domain_named(given, info->autos[i].param->name) < 0)
            domains[t->n++] = domain_of(s, info, &info->autos[i]);
    info->tune = t;
    if (frontend_tune_count(t) > LIMIT_TUNE_CONFIGS) {
        diag_error(s, t->loc, "the tune block of `%s` has more than %d combinations, with those of `auto`",
            info->k.name, LIMIT_TUNE_CONFIGS);
        return;
    }
    choose_defaults(s, ast, info);
}

/* Tiles of sums are as large as the product of the constants that shape the grid, other tiles at most as the
 * product of all. What a tune block gives is not counted. */
bool autos_allow(const KernelInfo *info, const FrontBinding *config)
{
    int64_t all = 1;
    int n = 0;
    for (int i = 0; i < info->n_autos; i++) {
        const AutoConst *a = &info->autos[i];
        int d = domain_named(info->tune, a->param->name);
        if (d < 0 || !info->tune->domains[d].derived || !a->tile || (info->k.products && !a->grid)) continue;
        all *= as_number(config[d].value);
        n++;
    }
    return n < 2 || all <= (info->k.products ? MOST_SUMS : MOST_ELEMENTS);
}
