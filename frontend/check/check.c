/* check.c: checks what a program says before anything is bound: names, the number of arguments, duplicates,
 * the words that attributes take, clauses, hints, tune blocks and instances. Lowering checks types and
 * shapes, because they are concrete there. The check also covers kernels that are never lowered.
 *
 * Names are in check_names.c, expressions in check_expr.c, statements in check_stmt.c, and tune blocks in
 * check_tune.c. This file has kernels, functions and the program. */
#include "frontend/check/check.h"
#include "frontend/program.h"

static void check_fn(Check *c, const Node *fn)
{
    Name *outer = c->names;
    c->ended = (NameMap){ 0 };
    c->unknown = (NameMap){ 0 };
    if (fn->kids[0]->n > LIMIT_PARAMS) {
        check_fault(c, fn->name_loc, "a fn has at most %d parameters", LIMIT_PARAMS);
        return;
    }
    c->level++;
    c->in_fn = true;
    for (uint32_t i = 0; i < fn->kids[0]->n; i++) {
        const Node *p = fn->kids[0]->kids[i];
        check_expr(c, p->kids[0]);
        check_declare(c, p->name, p->loc, false);
        Name *name = check_find(c, p->name);
        if (name) name->is_parameter = true;
    }
    check_block(c, fn->kids[1]);
    c->in_fn = false;
    c->level--;
    check_leave_to(c, outer);
}

/* Consts come first: types and extents of the others are made of them. */
static void check_params(Check *c, const Node *params)
{
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        if (p->kind != N_PCONST) continue;
        check_type_name(c, p->kids[0], true);
        if (p->op && strcmp(p->kids[0]->name, "int") && strcmp(p->kids[0]->name, "bool"))
            check_note(c,
                check_fault(
                    c, p->kids[1]->loc, "`auto` chooses an `int` or a `bool`, not `%s`", p->kids[0]->name),
                "const int TN = auto");
        const Node *kernel = c->kernel;
        c->kernel = NULL;
        check_expr(c, p->kids[1]);
        c->kernel = kernel;
        check_declare(c, p->name, p->name_loc, false);
    }
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        if (p->kind == N_PCONST || p->kind == N_ERROR) continue;
        if (p->kind == N_PSCALAR && check_is_type(p->name) && !check_is_type(p->kids[0]->name)) {
            const char *name = p->kids[0]->name;
            check_note(c, check_fault(c, p->loc, "the type of a parameter stands before its name"),
                arena_printf(&c->s->arena, "write `%s %s`", p->name, name));
            check_declare(c, name, p->kids[0]->loc, false);
            continue;
        }
        check_type_name(c, p->kids[0], false);
        check_declare(c, p->name, p->name_loc, false);
        DType d;
        bool whole = p->kind == N_PSCALAR &&
                     (!dtype_parse(p->kids[0]->name, strlen(p->kids[0]->name), &d) || dtype_is_int(d));
        if (check_is_extent(c->kernel, p->name) && !whole)
            check_fault(c, p->name_loc, "`%s` is a dimension as well as a parameter", p->name);
        if (p->kind == N_PSCALAR) {
            check_expr(c, p->kids[1]);
            continue;
        }
        if (p->n - 1 > TILE_MAX_RANK) check_fault(c, p->loc, "a tensor has at most %d axes", TILE_MAX_RANK);
        c->in_extent = true;
        for (uint32_t k = 1; k < p->n; k++)
            if (p->kids[k]->kind != N_NAME) check_expr(c, p->kids[k]);
        c->in_extent = false;
    }
}

/* The expression of a remap, in which its names hold. */
static void check_remap_formula(Check *c, const Node *clause)
{
    const Node *names = clause->kids[0];
    Name *outer = c->names;
    c->level++;
    for (uint32_t i = 0; i < names->n; i++)
        check_declare(c, names->kids[i]->name, names->kids[i]->loc, false);
    check_expr(c, clause->kids[1]);
    c->level--;
    check_leave_to(c, outer);
}

static void check_remap(Check *c, const Node *clause)
{
    const Node *args = clause->kids[0];
    if (!args->n && clause->kids[1] && clause->kids[1]->kind == N_NAME) {
        if (frontend_placement_word(clause->kids[1]->name)) return;
        check_fault(
            c, clause->kids[1]->loc, "remap must be an expression or one of auto, xcd, chunk, head, none");
        return;
    }
    if (args->n != 1 || args->kids[0]->kind != N_NAME || !clause->kids[1]) {
        check_note(c,
            check_fault(c, clause->loc, "remap names the linear program id and gives the one to run instead"),
            "remap (w) = (w % 8) * (num_programs() / 8) + w / 8");
        return;
    }
    check_remap_formula(c, clause);
}

const char *const frontend_hints[] = { "occupancy", "warps", "pack", "cluster", "cluster_axis", "split_k",
    "stages", "persistent", "warp_specialize", "cp_async_producer", "deterministic", "pingpong", "stream_k",
    "schedule", NULL };

static void unknown_clause(Check *c, const Node *k)
{
    static const char *const known[] = { "grid", "remap", "raster", "hint" };
    Diag *d = check_fault(c, k->name_loc, "unknown clause `%s`", k->name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (diag_distance(k->name, strlen(k->name), known[i]) <= 2) {
            diag_note(c->s, d, (Loc){ 0, 0, 0 }, "did you mean `%s`?", known[i]);
            return;
        }
    check_note(c, d, "there are grid, remap, raster and hint");
}

static void check_clauses(Check *c, const Node *kernel)
{
    static const char *const raster[] = { "group" };
    const Node *clauses = kernel->kids[1];
    bool grid = false;
    for (uint32_t i = 0; i < clauses->n && !diag_full(c->s); i++) {
        const Node *k = clauses->kids[i];
        for (uint32_t j = 0; j < i; j++)
            if (clauses->kids[j]->name == k->name) {
                diag_note(c->s, check_fault(c, k->name_loc, "clause `%s` is given twice", k->name),
                    clauses->kids[j]->name_loc, "first here");
                break;
            }
        if (!strcmp(k->name, "grid")) {
            const Node *args = k->kids[0];
            grid = true;
            if (args->n < 1 || args->n > 3)
                check_fault(c, k->loc, "a grid has one to three axes, not %d", (int)args->n);
            if (k->kids[1]) check_fault(c, k->kids[1]->loc, "`grid` takes no `=`");
            for (uint32_t a = 0; a < args->n; a++) {
                if (args->kids[a]->kind == N_ARG)
                    check_fault(c, args->kids[a]->loc, "grid extents have no names");
                else check_expr(c, args->kids[a]);
            }
        } else if (!strcmp(k->name, "remap")) check_remap(c, k);
        else if (!strcmp(k->name, "raster")) check_hint_arguments(c, k, raster, 1);
        else if (!strcmp(k->name, "hint"))
            check_hint_arguments(c, k, frontend_hints, sizeof frontend_hints / sizeof *frontend_hints - 1);
        else unknown_clause(c, k);
    }
    if (!grid)
        check_note(c, check_fault(c, kernel->name_loc, "kernel `%s` has no grid clause", kernel->name),
            "`grid (cdiv(N, BLOCK))` after the parameters says how many programs run");
}

static void check_kernel(Check *c, const Node *n)
{
    Name *outer = c->names;
    c->ended = (NameMap){ 0 };
    c->unknown = (NameMap){ 0 };
    if (n->kids[0]->n > LIMIT_KERNEL_PARAMS) {
        check_fault(c, n->name_loc, "a kernel has at most %d parameters", LIMIT_KERNEL_PARAMS);
        return;
    }
    c->kernel = c->tensors = n;
    c->level++;
    check_params(c, n->kids[0]);
    check_clauses(c, n);
    check_block(c, n->kids[2]);
    c->level--;
    c->kernel = c->tensors = NULL;
    check_leave_to(c, outer);
}

/* Kernels, functions and global constants share their names. */
static void check_item_name(Check *c, size_t i)
{
    const Node *n = c->ast->items.data[i];
    if (n->kind != N_KERNEL && n->kind != N_FN && n->kind != N_CONSTANT) return;
    if (n->kind != N_KERNEL && (check_is_type(n->name) || builtin_find(n->name))) {
        check_fault(c, n->name_loc, "`%s` is a name of the language", n->name);
        return;
    }
    const Node *o = names_get(&c->items, n->name);
    if (o)
        diag_note(
            c->s, check_fault(c, n->name_loc, "`%s` is declared twice", n->name), o->name_loc, "first here");
    else names_put(&c->s->arena, &c->items, n->name, (Node *)n);
}

/* What all items of the file see. */
static void check_globals(Check *c)
{
    const Ast *ast = c->ast;
    for (size_t i = 0; i < ast->items.len && !diag_full(c->s); i++) check_item_name(c, i);
    for (size_t i = 0; i < ast->items.len; i++) {
        const Node *n = ast->items.data[i];
        if (n->kind != N_CONSTANT) continue;
        check_type_name(c, n->kids[0], true);
        check_expr(c, n->kids[1]);
        if (!check_find(c, n->name)) check_declare(c, n->name, n->name_loc, false);
    }
}

bool check_formula(Ast *ast, const Node *kernel, const Node *clause)
{
    Check c = { .s = ast->session, .ast = ast };
    int errors = c.s->n_errors;
    check_globals(&c);
    c.kernel = kernel;
    c.level++;
    check_params(&c, kernel->kids[0]);
    check_remap_formula(&c, clause);
    return c.s->n_errors == errors;
}

bool frontend_check(Ast *ast)
{
    Check c = { .s = ast->session, .ast = ast };
    if (c.s->n_errors) return false;
    rename_former_hints(ast);
    check_globals(&c);
    for (size_t i = 0; i < ast->items.len && !diag_full(c.s); i++) {
        const Node *n = ast->items.data[i];
        if (n->kind == N_KERNEL) check_kernel(&c, n);
        else if (n->kind == N_FN) check_fn(&c, n);
        else if (n->kind == N_TUNE) check_tune(&c, n);
        else if (n->kind == N_LADDER) check_ladder(&c, n);
        else if (n->kind == N_INSTANCE) {
            const Node *kernel = names_get(&ast->kernels, n->name);
            if (kernel) check_domains(&c, n, kernel, false);
            else check_fault(&c, n->name_loc, "no kernel `%s`", n->name);
        }
    }
    if (c.s->n_errors) return false;
    for (size_t i = 0; i < ast->items.len; i++)
        if (ast->items.data[i]->kind == N_KERNEL) check_unused(&c, ast->items.data[i]);
    program_build(ast);
    return c.s->n_errors == 0;
}
