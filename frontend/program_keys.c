/* program_keys.c: which dimensions of a kernel are tile extents. Code is specialized on those: they are the
 * keys of a launch. The walk follows each compile-time use of a name back through constants and calls of
 * functions to the dimensions that it depends on. It runs before anything is bound. */
#include "frontend/check/call.h"
#include "frontend/lower/lower.h"
#include "frontend/program.h"
#include "frontend/program_info.h"

/* Names in scope with the expression they stand for, so that a compile-time use can be followed back to
 * dimensions. */
typedef struct Env Env;
struct Env {
    const char *name;
    const Node *init;
    const Env *init_env;
    unsigned *demanded; /* the uses that it was followed for: see use_mask */
    const Env *outer;
};

/* What a compile-time use decides, for `auto` constants. */
typedef struct AutoUse {
    bool tile, last, vector, record, other, latency, front, side;
    const char *along;
    Loc fixed;
} AutoUse;

typedef struct Keys {
    Session *s;
    const Ast *ast;
    KernelInfo *info;
    int64_t *steps;
    int depth, recursion, branches; /* branches: of `const if` around what is walked */
    AutoUse use;                    /* of what is demanded now */
    bool *divides;                  /* per dimension: FrontKernel.divisors */
    /* The first 64 tensors that atomics by element combine with something, and those that are accessed in
     * another way. ordered: some atomic orders other accesses. */
    uint64_t combined, others;
    bool ordered;
} Keys;

/* Counts work; false: the budget is spent, which find_keys reports. */
static bool count(Keys *k) { return ++*k->steps <= LIMIT_WALK; }

static void walk(Keys *, const Node *, const Env *);

/* The hops count as work too, sixteen for one. */
static const Env *lookup(Keys *k, const Env *e, const char *name)
{
    int64_t hops = 0;
    for (; e && e->name != name; e = e->outer) hops++;
    *k->steps += hops / 16;
    return e;
}

static const Env *extend(Keys *k, const Env *outer, const char *name, const Node *init, const Env *init_env)
{
    Env *e = arena_new(&k->s->arena, Env);
    *e = (Env){ name, init, init_env, arena_new(&k->s->arena, unsigned), outer };
    return e;
}

static const Node *tensor_param(Keys *k, const Node *n, const Env *env)
{
    for (int hops = 0; n && n->kind == N_NAME && hops < 64; hops++) {
        const Env *e = lookup(k, env, n->name);
        if (!e) {
            const Node *params = k->info->node->kids[0];
            for (uint32_t i = 0; i < params->n; i++)
                if (params->kids[i]->kind == N_PTENSOR && params->kids[i]->name == n->name)
                    return params->kids[i];
            return NULL;
        }
        n = e->init;
        env = e->init_env;
    }
    return NULL;
}

static void mark_dimension(Keys *k, const char *name, Loc at)
{
    for (int d = 0; d < k->info->k.n_dims; d++) {
        if (k->info->k.dims[d] != name) continue;
        if (!k->info->key_locs[d].file) k->info->key_locs[d] = at;
        if (!k->branches) k->info->key_always[d] = true;
    }
}

/* A bit for each kind of use. A name is followed once for each, so that `auto` constants learn of all. */
static unsigned use_mask(const Keys *k)
{
    const AutoUse *u = &k->use;
    return 1u | (unsigned)!k->branches << 6 | (unsigned)u->tile << 1 | (unsigned)u->last << 2 |
           (unsigned)u->other << 3 | (unsigned)u->latency << 4 | (unsigned)(u->fixed.file != 0) << 5 |
           (unsigned)u->vector << 7 | (unsigned)u->record << 8 | (unsigned)u->front << 9 |
           (unsigned)u->side << 10;
}

/* Returns the default of another constant of the kernel, on which its value depends; else NULL. */
static const Node *mark_auto(Keys *k, const char *name)
{
    const Node *params = k->info->node->kids[0];
    for (uint32_t i = 0; i < params->n && k->info->n_autos; i++)
        if (params->kids[i]->kind == N_PCONST && params->kids[i]->name == name && !params->kids[i]->op)
            return params->kids[i]->kids[1];
    for (int i = 0; i < k->info->n_autos; i++) {
        AutoConst *a = &k->info->autos[i];
        if (a->param->name != name) continue;
        a->tile |= k->use.tile;
        a->last |= k->use.last && !k->use.vector;
        a->vector |= k->use.vector;
        a->record |= k->use.record;
        a->other |= k->use.other;
        a->front |= k->use.front;
        a->side |= k->use.side;
        a->latency |= k->use.latency;
        if (k->use.along) {
            a->many |= a->along && a->along != k->use.along;
            a->along = k->use.along;
        }
        if (k->use.fixed.file && !a->fixed.file) a->fixed = k->use.fixed;
    }
    return NULL;
}

/* Everything `n` depends on must be known at compile time. `at` is where it is needed. A list of what is
 * still to do instead of recursion: chains of `let` may be long. */
static void demand(Keys *k, const Node *first, const Env *env, Loc at)
{
    VEC(struct {
        const Node *node;
        const Env *env;
    })
    todo = { 0 };
    unsigned uses = use_mask(k);
    typedef __typeof__(*todo.data) Item;
    vec_push(&k->s->arena, &todo, ((Item){ first, env }));
    while (todo.len && count(k)) {
        Item item = todo.data[--todo.len];
        const Node *n = item.node;
        if (!n) continue;
        if (n->kind == N_NAME) {
            const Env *e = lookup(k, item.env, n->name);
            if (!e) mark_dimension(k, n->name, at);
            const Node *otherwise = e ? NULL : mark_auto(k, n->name);
            if (otherwise) vec_push(&k->s->arena, &todo, ((Item){ otherwise, NULL }));
            if (!e || (*e->demanded & uses) == uses) continue;
            *e->demanded |= uses;
            vec_push(&k->s->arena, &todo, ((Item){ e->init, e->init_env }));
            continue;
        }
        if (n->kind == N_CALL && !strcmp(n->name, "has")) continue; /* reads nothing of the tensor */
        const Node *t = n->kind == N_CALL && !strcmp(n->name, "extent") && n->n >= 2
                            ? tensor_param(k, n->kids[0], item.env)
                            : NULL;
        for (uint32_t i = 1; t && i < t->n; i++)
            if (n->kids[1]->kind != N_INT || n->kids[1]->u == i - 1)
                vec_push(&k->s->arena, &todo, ((Item){ t->kids[i], NULL }));
        for (uint32_t i = 0; !t && i < n->n; i++)
            vec_push(&k->s->arena, &todo, ((Item){ n->kids[i], item.env }));
    }
}

static void demand_here(Keys *k, const Node *n, const Env *env)
{
    if (n) demand(k, n, env, n->loc);
}

static void demand_for(Keys *k, AutoUse use, const Node *n, const Env *env)
{
    k->use = use;
    demand_here(k, n, env);
    k->use = (AutoUse){ 0 };
}

/* Whether the axes behind this one are of a few elements, which the source gives as numbers: the components
 * of a record, or the channels of a pixel. Records that follow each other lie side by side in memory, as
 * elements along the last axis do. */
static bool is_of_records(const Node *tensor, uint32_t axis)
{
    enum { MOST_COMPONENTS = 64 };
    uint64_t all = 1;
    for (uint32_t i = axis + 1; i < tensor->n; i++) {
        if (tensor->kids[i]->kind != N_INT || tensor->kids[i]->u > MOST_COMPONENTS) return false;
        all *= tensor->kids[i]->u;
    }
    return axis + 1 < tensor->n && all <= MOST_COMPONENTS;
}

/* The extent of a window along axis `axis` of the tensor's node, whose axes come after its type. axes:
 * those that the tile has, of which `before` come before this one. */
static void demand_window(
    Keys *k, const Node *window, const Node *tensor, uint32_t axis, int axes, int before, const Env *env)
{
    const Node *extent = window->kids[1], *dim = tensor && axis < tensor->n ? tensor->kids[axis] : NULL;
    bool fixed = dim && window->kids[0]->kind == N_INT && extent->kind == N_NAME;
    bool record = dim && is_of_records(tensor, axis);
    AutoUse use = { .tile = true,
        .last = dim && axis + 1 == tensor->n,
        .vector = dim && axis + 1 == tensor->n && axes == 1,
        .record = record,
        .other = dim && axis + 1 < tensor->n && !record,
        .front = axes == 3 && !before,
        .side = axes != 3 || before,
        .along = dim && dim->kind == N_NAME ? dim->name : NULL,
        .fixed = fixed ? window->loc : (Loc){ 0 } };
    demand_for(k, use, extent, env);
}

/* A table of constants, which values may subscript. */
static bool is_table(Keys *k, const Node *n, const Env *env)
{
    for (int hops = 0; n && n->kind == N_NAME && hops < 64; hops++) {
        const Env *e = lookup(k, env, n->name);
        const Node *global = e ? NULL : names_get(&k->ast->consts, n->name);
        if (!e) return global && global->kids[1] && global->kids[1]->kind == N_TABLE;
        n = e->init;
        env = e->init_env;
    }
    return n && n->kind == N_TABLE;
}

/* Positions of `arange` from which a tile of one axis is made size another axis than the last one of the tile
 * that it becomes. What was reduced or computed by a function is not looked into. */
static void demand_positions(Keys *k, const Node *n, const Env *env, int depth)
{
    enum { DEEP = 12 };
    if (!n || depth > DEEP || !count(k)) return;
    if (n->kind == N_NAME) {
        const Env *e = lookup(k, env, n->name);
        if (e && e->init) demand_positions(k, e->init, e->init_env, depth + 1);
        return;
    }
    DType cast;
    const bool call = n->kind == N_CALL,
               through = !call || !strcmp(n->name, "gather") || dtype_parse(n->name, strlen(n->name), &cast);
    if (call && !strcmp(n->name, "arange") && n->n) {
        demand_for(k, (AutoUse){ .tile = true, .other = true }, n->kids[0], env);
        return;
    }
    for (uint32_t i = 0; i < n->n && through; i++)
        demand_positions(k, n->kids[i]->kind == N_ARG ? n->kids[i]->kids[0] : n->kids[i], env, depth + 1);
}

/* Whether the subscripts put the only axis of a tile in front of a new one: `x[:, None]`. */
static bool puts_in_front(const Node *n)
{ return n->n == 3 && n->kids[1]->kind == N_ALL && n->kids[2]->kind == N_NONE; }

/* Subscripts of tiles are constants, those of tensors and tables may be values. */
static void walk_index(Keys *k, const Node *n, const Env *env)
{
    const Node *t = tensor_param(k, n->kids[0], env);
    bool constant = !t && !is_table(k, n->kids[0], env);
    if (!t) walk(k, n->kids[0], env);
    if (constant && puts_in_front(n)) demand_positions(k, n->kids[0], env, 0);
    int axes = 0, before = 0;
    for (uint32_t i = 1; i < n->n; i++) axes += n->kids[i]->kind == N_ALL || n->kids[i]->kind == N_WINDOW;
    for (uint32_t i = 1; i < n->n; i++) {
        const Node *a = n->kids[i];
        if (a->kind == N_ALL) {
            if (t && i < t->n) demand(k, t->kids[i], NULL, a->loc);
            before++;
            continue;
        }
        if (a->kind == N_WINDOW) {
            walk(k, a->kids[0], env);
            if (constant) demand_here(k, a->kids[0], env);
            demand_window(k, a, t, i, axes, before, env);
            before++;
            demand_here(k, a->kids[2], env);
            continue;
        }
        walk(k, a, env);
        if (constant && a->kind != N_NONE) demand_here(k, a, env);
    }
}

static const Node *argument(const Node *call, uint32_t position, const char *name)
{
    for (uint32_t i = 0; i < call->n; i++) {
        if (call->kids[i]->kind == N_ARG && !strcmp(call->kids[i]->name, name)) return call->kids[i]->kids[0];
        if (call->kids[i]->kind != N_ARG && i == position) return call->kids[i];
    }
    return NULL;
}

static void walk_fn(Keys *k, const Node *call, const Node *fn, const Env *env)
{
    if (k->depth >= LIMIT_CALLS) return;
    const Env *inner = NULL;
    const Node *params = fn->kids[0];
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *a = argument(call, i, params->kids[i]->name);
        inner = extend(k, inner, params->kids[i]->name, a ? a : params->kids[i]->kids[0], a ? env : NULL);
    }
    k->depth++;
    walk(k, fn->kids[1], inner);
    k->depth--;
}

/* An atomic by element that combines in any order. */
static bool combines_elements(const Node *call)
{
    static const char *const names[] = { "atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or",
        "atomic_xor" };
    bool combines = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) combines |= !strcmp(call->name, names[i]);
    for (uint32_t a = 1; combines && a < call->kids[0]->n; a++) {
        NodeKind kind = call->kids[0]->kids[a]->kind;
        combines = kind != N_WINDOW && kind != N_ALL;
    }
    return combines;
}

/* Notes what FrontKernel.atomics follows from. */
static void note_accesses(Keys *k, const Node *call, const Env *env)
{
    const Node *params = k->info->node->kids[0],
               *order = argument(call, 3 + !strcmp(call->name, "atomic_cas"), "order");
    bool atomic = !strncmp(call->name, "atomic_", 7);
    k->ordered |= atomic && order && (order->kind != N_NAME || strcmp(order->name, "relaxed") != 0);
    for (uint32_t j = 0; j < call->n; j++) {
        const Node *a = call->kids[j]->kind == N_ARG ? call->kids[j]->kids[0] : call->kids[j],
                   *tensor = a->kind == N_INDEX ? tensor_param(k, a->kids[0], env) : NULL;
        uint64_t *noted = !j && atomic && tensor && combines_elements(call) ? &k->combined : &k->others;
        for (uint32_t i = 0; i < params->n && i < 64 && tensor; i++)
            if (params->kids[i] == tensor) *noted |= 1ull << i;
    }
}

static void walk_call(Keys *k, const Node *n, const Env *env)
{
    static const struct {
        const char *call;
        uint32_t position;
        const char *name;
    } constant[] = {
        { "arange", 0, "count" },
        { "topk", 1, "count" },
        { "split", 1, "parts" },
        { "shift", 1, "count" },
    };
    static const char *const named[] = { "axis", "start", "latency", "drop", "reverse", "descending",
        "approx", "ftz" };
    for (uint32_t i = 0; i < n->n; i++)
        walk(k, n->kids[i]->kind == N_ARG ? n->kids[i]->kids[0] : n->kids[i], env);
    const Node *fn = ast_find_fn(k->ast, n->name);
    if (fn) {
        walk_fn(k, n, fn, env);
        return;
    }
    for (size_t i = 0; i < sizeof constant / sizeof *constant; i++)
        if (!strcmp(n->name, constant[i].call))
            demand_for(
                k, (AutoUse){ .tile = i == 0 }, argument(n, constant[i].position, constant[i].name), env);
    note_accesses(k, n, env);
    k->info->k.products |= !strcmp(n->name, "mma");
    k->info->k.gathers |= !strcmp(n->name, "gather");
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        demand_for(
            k, (AutoUse){ .latency = !strcmp(named[i], "latency") }, argument(n, UINT32_MAX, named[i]), env);
}

static void walk_block(Keys *k, const Node *n, const Env *env)
{
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *s = n->kids[i];
        walk(k, s, env);
        if (s->kind == N_LET && !s->op) env = extend(k, env, s->kids[1]->name, s->kids[0], env);
        else if (s->kind == N_LET || s->kind == N_VAR)
            for (uint32_t j = 1; j < s->n; j++) env = extend(k, env, s->kids[j]->name, NULL, NULL);
        else if (s->kind == N_ARRAY) env = extend(k, env, s->name, NULL, NULL);
        else if (s->kind == N_CONSTANT) env = extend(k, env, s->name, s->kids[1], env);
    }
}

/* Whether the expression is a product of dimensions and numbers, be they known by other names; notes the
 * dimensions. */
static bool is_of_dimensions(Keys *k, const Node *n, const Env *env, bool *of, int depth)
{
    enum { DEEP = 16 };
    if (!n || depth > DEEP || !count(k)) return false;
    if (n->kind == N_INT) return true;
    if (n->kind == N_BINARY && n->op == OPR_MUL)
        return is_of_dimensions(k, n->kids[0], env, of, depth + 1) &&
               is_of_dimensions(k, n->kids[1], env, of, depth + 1);
    if (n->kind != N_NAME) return false;
    const Env *e = lookup(k, env, n->name);
    if (e) return is_of_dimensions(k, e->init, e->init_env, of, depth + 1);
    for (int d = 0; d < k->info->k.n_dims; d++)
        if (k->info->k.dims[d] == n->name) return of[d] = true;
    return false;
}

static void note_divisor(Keys *k, const Node *n, const Env *env)
{
    bool *of = arena_array(&k->s->arena, bool, (size_t)k->info->k.n_dims + 1);
    if (!is_of_dimensions(k, n, env, of, 0)) return;
    for (int d = 0; d < k->info->k.n_dims; d++) k->divides[d] |= of[d];
}

static void walk_kind(Keys *k, const Node *n, const Env *env)
{
    if (n->kind == N_BINARY && (n->op == OPR_DIV || n->op == OPR_REM)) note_divisor(k, n->kids[1], env);
    if (n->kind == N_INDEX) {
        walk_index(k, n, env);
    } else if (n->kind == N_LIST) {
        for (uint32_t i = 0; i < n->n; i++) demand_for(k, (AutoUse){ .tile = true }, n->kids[i], env);
    } else if (n->kind == N_CALL) {
        walk_call(k, n, env);
    } else if (n->kind == N_BLOCK) {
        walk_block(k, n, env);
    } else if (n->kind == N_ARRAY) {
        demand_here(k, n->kids[0], env);
        walk(k, n->kids[1], env);
    } else if (n->kind == N_CONSTANT) {
        demand_here(k, n->kids[1], env);
    } else if (n->kind == N_FOR) {
        k->info->k.loops |= !n->op;
        for (int i = 0; i < 3; i++) {
            walk(k, n->kids[i], env);
            if (n->op || i == 2) demand_here(k, n->kids[i], env);
        }
        walk(k, n->kids[4], extend(k, env, n->name, NULL, NULL));
    } else {
        bool branches = n->kind == N_IF && n->op;
        k->info->k.loops |= n->kind == N_WHILE;
        if (branches) demand_here(k, n->kids[0], env);
        for (uint32_t i = 0; i < n->n; i++) {
            k->branches += branches && i > 0;
            walk(k, n->kids[i], env);
            k->branches -= branches && i > 0;
        }
    }
}

/* Too deep a nest of functions counts as too much work. */
static void walk(Keys *k, const Node *n, const Env *env)
{
    if (!n || !count(k)) return;
    if (++k->recursion > LIMIT_RECURSION) *k->steps = LIMIT_WALK + 1;
    else walk_kind(k, n, env);
    k->recursion--;
}

static bool is_counted(const FrontKernel *k, const char *dim)
{
    for (int i = 0; i < k->grid_rank && i < 3; i++)
        if (!strcmp(k->grid[i], dim)) return true;
    return false;
}

/* FrontKernel.counted; after the keys are known. */
static void list_counted(Session *s, const KernelInfo *info, FrontKernel *k)
{
    const char **counted = arena_array(&s->arena, const char *, (size_t)k->n_dims + 1);
    for (int d = 0; d < k->n_dims && k->grid_rank > 1 && !k->products && !k->loops; d++)
        if (!info->key_locs[d].file && is_counted(k, k->dims[d])) counted[k->n_counted++] = k->dims[d];
    k->counted = counted;
}

void program_find_keys(Session *s, const Ast *ast, KernelInfo *info)
{
    Keys k = { .s = s, .ast = ast, .info = info, .steps = &ast->program->steps };
    k.divides = arena_array(&s->arena, bool, (size_t)info->k.n_dims + 1);
    info->key_always = arena_array(&s->arena, bool, (size_t)info->k.n_dims + 1);
    info->key_locs = arena_array(&s->arena, Loc, (size_t)info->k.n_dims + 1);
    walk(&k, info->node->kids[2], NULL);
    if (*k.steps > LIMIT_WALK)
        diag_error(s, info->k.loc, "kernel `%s` is too large, or the functions it calls expand too far",
            info->k.name);
    const char **keys = arena_array(&s->arena, const char *, (size_t)info->k.n_dims + 1);
    for (int d = 0; d < info->k.n_dims; d++)
        if (info->key_locs[d].file) keys[info->k.n_keys++] = info->k.dims[d];
    info->k.keys = keys;
    const char **divisors = arena_array(&s->arena, const char *, (size_t)info->k.n_dims + 1);
    for (int d = 0; d < info->k.n_dims; d++)
        if (k.divides[d]) divisors[info->k.n_divisors++] = info->k.dims[d];
    info->k.divisors = divisors;
    info->k.atomics = k.ordered || info->k.products ? 0 : k.combined & ~k.others;
    list_counted(s, info, &info->k);
}

Loc *program_key_location(const Ast *ast, const FrontKernel *k, const char *name)
{
    KernelInfo *info = (KernelInfo *)k;
    for (int d = 0; d < k->n_dims; d++)
        if (!strcmp(k->dims[d], name) && info->key_locs[d].file) return &info->key_locs[d];
    return NULL;
}

bool program_key_always(const FrontKernel *k, const char *name)
{
    const KernelInfo *info = (const KernelInfo *)k;
    for (int d = 0; d < k->n_dims; d++)
        if (!strcmp(k->dims[d], name)) return info->key_always[d];
    return true;
}
