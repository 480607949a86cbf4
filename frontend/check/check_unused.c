/* check_unused.c: warnings about kernels that compile and cannot be right: an `out` tensor that no path
 * stores, or that is read before it is stored, a grid axis whose program id nothing uses. All are read from
 * the syntax tree, for all bindings at once: a store under any condition counts, and so does a use in any
 * function that the kernel calls. */
#include "frontend/program_info.h"
#include "frontend/check/call.h"
#include "frontend/check/check.h"

static bool is_atomic(const char *name) { return !strncmp(name, "atomic_", 7); }

static bool writes(const char *name)
{ return !strcmp(name, "store") || !strcmp(name, "scatter") || is_atomic(name); }

/* Whether some path may store the tensor: it is the target of a store, or handed to a function, or named in
 * any other way than as the tensor that a builtin reads or asks about. */
static bool may_store(const Node *n, const char *name)
{
    if (!n) return false;
    if (n->kind == N_NAME) return n->name == name;
    bool call = n->kind == N_CALL && builtin_find(n->name);
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *k = n->kids[i];
        bool target = i == 0; /* arguments with names may stand in any order */
        if (call && k && k->kind == N_ARG) {
            target = !strcmp(k->name, "window");
            k = k->kids[0];
        }
        if (call && k && target && writes(n->name) && program_mentions(k, name)) return true;
        if (call && k && k->kind == N_NAME && k->name == name) continue;
        bool window = call && k && k->kind == N_INDEX && k->kids[0]->kind == N_NAME;
        for (uint32_t j = 1; window && j < k->n; j++)
            if (may_store(k->kids[j], name)) return true;
        if (!window && may_store(k, name)) return true;
    }
    return false;
}

/* Whether what a call of this name does depends on what its window holds. */
static bool reads_window(const char *called)
{
    return !strcmp(called, "load") || !strcmp(called, "gather") ||
           (is_atomic(called) && strcmp(called, "atomic_exch"));
}

/* Where the node reads the tensor; NULL: nowhere. */
static const Node *read_of(const Node *n, const char *name)
{
    if (!n) return NULL;
    bool reads = n->kind == N_CALL && builtin_find(n->name) && reads_window(n->name);
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *k = n->kids[i], *of = k && k->kind == N_ARG ? k->kids[0] : k;
        if (reads && of && of->kind == N_INDEX && of->kids[0]->kind == N_NAME && of->kids[0]->name == name)
            return of;
        const Node *in = read_of(k, name);
        if (in) return in;
    }
    return NULL;
}

/* The first statement that names the tensor reads it, and a store in it comes behind the read: a statement
 * without a block evaluates what it stores first. */
static void check_read_first(Check *c, const Node *body, const Node *p)
{
    uint32_t i = 0;
    while (i < body->n && !program_mentions(body->kids[i], p->name)) i++;
    const Node *first = i < body->n ? body->kids[i] : NULL, *read = read_of(first, p->name);
    bool simple = first && (first->kind == N_EXPR || first->kind == N_LET || first->kind == N_VAR ||
                               first->kind == N_ASSIGN);
    if (!read || (!simple && may_store(first, p->name))) return;
    check_note(c, diag_warning(c->s, read->loc, "the `out` tensor `%s` is read before it is stored", p->name),
        "what it holds then is not defined; a tensor that the caller has filled is `inout`");
}

static void check_outputs(Check *c, const Node *kernel)
{
    const Node *params = kernel->kids[0];
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        if (p->kind != N_PTENSOR || p->op != IO_OUT) continue;
        if (may_store(kernel->kids[2], p->name)) {
            check_read_first(c, kernel->kids[2], p);
            continue;
        }
        check_note(c, diag_warning(c->s, p->name_loc, "no path stores the `out` tensor `%s`", p->name),
            "store its elements, or remove the parameter; a tensor that may stay as it is is `inout`");
    }
}

/* --- program ids ------------------------------------------------------------------------------------- */

static bool calls(const Node *n, bool (*which)(const Ast *, const char *), const Ast *ast)
{
    if (!n) return false;
    if (n->kind == N_CALL && which(ast, n->name)) return true;
    for (uint32_t i = 0; i < n->n; i++)
        if (calls(n->kids[i], which, ast)) return true;
    return false;
}

static bool is_program_id(const Ast *ast, const char *name) { return !strcmp(name, "program_id"); }
static bool is_any_atomic(const Ast *ast, const char *name) { return is_atomic(name); }
static bool is_function(const Ast *ast, const char *name) { return names_get(&ast->fns, name) != NULL; }

/* A program that takes its work from a counter needs no id, and a function may ask for it. */
static bool ids_elsewhere(const Ast *ast, const Node *body)
{
    if (calls(body, is_any_atomic, ast)) return true;
    bool functions = calls(body, is_function, ast);
    for (size_t i = 0; i < ast->items.len && functions; i++) {
        const Node *fn = ast->items.data[i];
        if (fn->kind == N_FN && (calls(fn, is_program_id, ast) || calls(fn, is_any_atomic, ast))) return true;
    }
    return false;
}

/* Whether the name is used behind its declaration. */
static bool used(const Node *n, const char *name)
{
    if (!n) return false;
    if (n->kind == N_NAME) return n->name == name;
    uint32_t end = n->kind == N_LET || n->kind == N_VAR ? 1 : n->n;
    for (uint32_t i = 0; i < end && i < n->n; i++)
        if (used(n->kids[i], name)) return true;
    return false;
}

static const Node *id_call(const Node *n)
{ return n && n->kind == N_CALL && !strcmp(n->name, "program_id") ? n : NULL; }

/* Whether a call of program_id gives the id of that axis, alone or among others. */
static bool gives(const Node *call, uint32_t axis)
{
    const Node *a = call->n ? call->kids[0] : NULL;
    if (a && a->kind == N_ARG) a = a->kids[0];
    return !a || a->kind != N_INT || a->u == axis;
}

/* Whether the statement only names ids, and which name the axis gets. */
static const char *named(const Node *n, uint32_t axis)
{
    bool declares = (n->kind == N_LET || n->kind == N_VAR) && id_call(n->kids[0]);
    if (!declares) return NULL;
    return n->n == 2 ? n->kids[1]->name : axis + 1 < n->n ? n->kids[axis + 1]->name : NULL;
}

static bool axis_used(const Node *n, uint32_t axis, const Node *body)
{
    if (!n) return false;
    const char *name = named(n, axis);
    if (name) return gives(n->kids[0], axis) && (!strcmp(name, "_") || used(body, name));
    if (id_call(n) && gives(n, axis)) return true;
    for (uint32_t i = 0; i < n->n; i++)
        if (axis_used(n->kids[i], axis, body)) return true;
    return false;
}

static bool is_one(const Ast *ast, const Node *n)
{
    const Node *global = n->kind == N_NAME ? names_get(&ast->consts, n->name) : NULL;
    if (global) n = global->kids[1];
    return n->kind == N_INT && n->u == 1;
}

static const Node *grid_of(const Node *kernel)
{
    const Node *clauses = kernel->kids[1];
    for (uint32_t i = 0; i < clauses->n; i++)
        if (!strcmp(clauses->kids[i]->name, "grid")) return clauses->kids[i]->kids[0];
    return NULL;
}

static void check_axes(Check *c, const Node *kernel)
{
    const Node *grid = grid_of(kernel), *body = kernel->kids[2];
    if (!grid || ids_elsewhere(c->ast, body)) return;
    for (uint32_t a = 0; a < grid->n; a++) {
        if (is_one(c->ast, grid->kids[a]) || axis_used(body, a, body)) continue;
        Diag *d = diag_warning(c->s, grid->kids[a]->loc,
            "nothing uses `program_id(%u)`: all programs along this axis of the grid do the same", a);
        diag_note(c->s, d, (Loc){ 0 },
            "choose by it what a program works on, or remove the axis; `let _ = program_id(%u);` says that "
            "it is meant",
            a);
    }
}

void check_unused(Check *c, const Node *kernel)
{
    check_outputs(c, kernel);
    check_axes(c, kernel);
}

/* --- the grid as written ----------------------------------------------------------------------------- */

static const char *text_of(Session *s, const Node *n)
{
    const Source *src = diag_source(s, n->loc.file);
    if (!src || n->loc.end > src->len) return NULL;
    return arena_strndup(&s->arena, src->text + n->loc.begin, n->loc.end - n->loc.begin);
}

void frontend_fault_grid(
    const Ast *ast, const char *kernel, Session *s, const int64_t *extent, FaultGrid *out)
{
    const Node *grid = NULL;
    *out = (FaultGrid){ 0 };
    for (size_t i = 0; i < ast->items.len; i++) {
        const Node *n = ast->items.data[i];
        if (n->kind == N_KERNEL && !strcmp(n->name, kernel)) grid = grid_of(n);
    }
    out->rank = grid ? (int)grid->n : 1;
    for (int k = 0; k < 3; k++) out->extent[k] = extent[k];
    for (int k = 0; grid && k < out->rank && k < 3; k++) {
        const Node *n = grid->kids[k];
        if (n->kind != N_BINARY || n->op != OPR_DIV) continue;
        out->floor[k].loc = n->loc;
        out->floor[k].numerator = text_of(s, n->kids[0]);
        out->floor[k].divisor = text_of(s, n->kids[1]);
        if (!out->floor[k].divisor) out->floor[k].numerator = NULL;
    }
}
