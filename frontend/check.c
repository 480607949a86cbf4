/* check.c: what can be said of a program without binding anything: names, arities, duplicates, the words that
 * attributes take, clauses, hints, tune and instantiate. Types and shapes are checked by lowering, where they
 * are concrete. A kernel that is never lowered gets these errors all the same. */
#include "frontend/habits.h"
#include "frontend/lower.h"
#include "frontend/program.h"

typedef struct Name Name;
struct Name {
    const char *name;
    Loc loc;
    bool is_var;
    int level;
    Name *outer, *hidden;
    bool is_array;
};

typedef struct Check {
    Session *s;
    Ast *ast;
    Name *names;          /* in scope, innermost first */
    NameMap map;          /* the innermost of each name */
    NameMap items, tuned; /* kernels, functions and constants; tune blocks by kernel */
    int level;
    const Node *kernel;  /* or NULL */
    const Node *tensors; /* the kernel whose optional tensors `has` may name, or NULL */
    bool in_fn, in_extent;
} Check;

static Diag *fault(Check *c, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static Diag *fault(Check *c, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&c->s->arena, fmt, ap);
    va_end(ap);
    return diag_error(c->s, loc, "%s", text);
}

static void hint(Check *c, Diag *d, const char *text) { diag_note(c->s, d, (Loc){ 0, 0, 0 }, "%s", text); }

/* --- names ------------------------------------------------------------------------------------------- */

static Name *find(const Check *c, const char *name) { return names_get(&c->map, name); }

static void leave_to(Check *c, Name *outer)
{
    for (; c->names != outer; c->names = c->names->outer)
        names_put(&c->s->arena, &c->map, c->names->name, c->names->hidden);
}

static void declare(Check *c, const char *name, Loc loc, bool is_var)
{
    if (!strcmp(name, "_")) return;
    Name *old = find(c, name);
    if (old && old->level == c->level) {
        diag_note(c->s, fault(c, loc, "`%s` is declared twice", name), old->loc, "first here");
        return;
    }
    Name *n = arena_new(&c->s->arena, Name);
    *n = (Name){ name, loc, is_var, c->level, c->names, old };
    c->names = n;
    names_put(&c->s->arena, &c->map, name, n);
}

static bool is_type(const char *name)
{
    DType d;
    return dtype_parse(name, strlen(name), &d);
}

/* Does an axis of a tensor have this name as its extent? */
static bool is_extent(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; kernel && i < kernel->kids[0]->n; i++) {
        const Node *p = kernel->kids[0]->kids[i];
        for (uint32_t k = 1; p->kind == N_PTENSOR && k < p->n; k++)
            if (p->kids[k]->kind == N_NAME && p->kids[k]->name == name) return true;
    }
    return false;
}

static bool is_dimension(const Node *kernel, const char *name)
{ return is_extent(kernel, name) && !program_is_scalar(kernel, name); }

static const Node *find_tensor(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; kernel && i < kernel->kids[0]->n; i++)
        if (kernel->kids[0]->kids[i]->kind == N_PTENSOR && kernel->kids[0]->kids[i]->name == name)
            return kernel->kids[0]->kids[i];
    return NULL;
}

typedef struct Near {
    const char *wanted, *best;
    int distance;
} Near;

static void consider(Near *n, const char *name)
{
    int d = diag_distance(n->wanted, strlen(n->wanted), name);
    if (d < n->distance && 2 * d < (int)strlen(name)) {
        n->best = name;
        n->distance = d;
    }
}

/* A name that the writer may have meant, one or two letters away. */
static void suggest(Check *c, Diag *d, const char *wanted, bool function)
{
    if (function ? habit_of_call(c->s, d, wanted) : habit_of_name(c->s, d, wanted)) return;
    Near near = { wanted, NULL, 3 };
    int most = 1000;
    for (const Name *n = c->names; n && most--; n = n->outer) consider(&near, n->name);
    for (uint32_t i = 0; c->kernel && i < c->kernel->kids[0]->n; i++) {
        const Node *p = c->kernel->kids[0]->kids[i];
        for (uint32_t k = 1; p->kind == N_PTENSOR && k < p->n; k++)
            if (p->kids[k]->kind == N_NAME) consider(&near, p->kids[k]->name);
    }
    for (int i = 0; function && i < builtin_count(); i++) consider(&near, builtin_name(builtin_at(i)));
    for (size_t i = 0; function && i < c->ast->items.len && i < 1000; i++)
        if (c->ast->items.data[i]->kind == N_FN) consider(&near, c->ast->items.data[i]->name);
    const char *keyword = near.best ? NULL : habit_keyword(wanted, strlen(wanted));
    if (near.best || keyword)
        diag_note(c->s, d, (Loc){ 0, 0, 0 }, "did you mean `%s`?", near.best ? near.best : keyword);
}

static void unknown_name(Check *c, const Node *n)
{
    if (!strcmp(n->name, "break") || !strcmp(n->name, "continue")) {
        hint(c, fault(c, n->loc, "there is no `%s`", n->name),
            "a loop ends by its bound or its `while` condition; an `if` guards what is to be left out");
        return;
    }
    Diag *d = fault(c, n->loc, "unknown name `%s`", n->name);
    if (c->in_extent) {
        hint(c, d,
            "a dimension's name stands by itself in one of the tensors; else declare a `const int` or an "
            "integer scalar");
        return;
    }
    for (size_t i = 0; c->in_fn && d && i < c->ast->items.len; i++) {
        if (c->ast->items.data[i]->kind != N_KERNEL || !is_dimension(c->ast->items.data[i], n->name))
            continue;
        hint(c, d,
            "a fn sees its parameters and global constants only; hand the dimension over, or use extent(X, "
            "axis)");
        return;
    }
    suggest(c, d, n->name, false);
}

static void check_name(Check *c, const Node *n)
{
    if (c->in_extent && program_is_scalar(c->kernel, n->name)) return; /* it may stand further on */
    if (c->in_extent && find_tensor(c->kernel, n->name)) {
        hint(c, fault(c, n->loc, "`%s` is a tensor", n->name),
            "an extent is made of dimensions, integer scalars and constants");
        return;
    }
    if (find(c, n->name) || is_dimension(c->kernel, n->name) || is_type(n->name) || !strcmp(n->name, "inf") ||
        !strcmp(n->name, "nan"))
        return;
    if (ast_find_fn(c->ast, n->name) || builtin_find(n->name))
        fault(c, n->loc, "`%s` is a function: call it with (...)", n->name);
    else unknown_name(c, n);
}

static void check_type_name(Check *c, const Node *type, bool is_const)
{
    if (is_type(type->name)) return;
    const Name *n = find(c, type->name);
    bool word = !strcmp(type->name, "int") || !strcmp(type->name, "float");
    if (n || (is_const && (word || !strcmp(type->name, "type")))) return;
    Diag *d = fault(c, type->loc, "unknown type `%s`", type->name);
    if (word) hint(c, d, "`int` and `float` are for constants; a scalar is of i32, i64, index, f32, ...");
    else habit_of_type(c->s, d, type->name);
}

/* --- expressions ------------------------------------------------------------------------------------- */

static void check_expr(Check *, const Node *);

static void check_word(Check *c, const Node *n, AttrKey key, const char *what)
{
    if (n->kind == N_NAME && attr_enum_parse(key, n->name, strlen(n->name)) >= 0) return;
    Text t;
    text_init(&t, &c->s->arena);
    for (int i = 0; attr_enum_name(key, i); i++)
        text_printf(&t, "%s%s", i ? ", " : "", attr_enum_name(key, i));
    fault(c, n->loc, "%s must be one of %s", what, t.data);
}

static void check_combine(Check *c, const Node *n)
{
    const Node *fn = n->kind == N_NAME ? ast_find_fn(c->ast, n->name) : NULL;
    if (!fn)
        hint(c, fault(c, n->loc, "combine must be the name of a fn of two values"),
            "fn larger(a, b) { return max(a, b); } ... combine = larger");
    else if (fn->kids[0]->n != 2)
        fault(c, n->loc, "`%s` takes %d argument%s; a combine function takes two", fn->name,
            (int)fn->kids[0]->n, fn->kids[0]->n == 1 ? "" : "s");
}

/* An argument given by name; true when it is a word and no expression. */
static bool check_argument(Check *c, const Node *call, const Node *a)
{
    bool atomic = !strncmp(call->name, "atomic_", 7);
    if (!strcmp(a->name, "cache")) check_word(c, a->kids[0], ATTR_CACHE, "cache");
    else if (!strcmp(a->name, "precision")) check_word(c, a->kids[0], ATTR_PRECISION, "precision");
    else if (!strcmp(a->name, "scope")) check_word(c, a->kids[0], ATTR_SCOPE, "scope");
    else if (!strcmp(a->name, "order") && atomic) check_word(c, a->kids[0], ATTR_SEM, "order");
    else if (!strcmp(a->name, "combine")) check_combine(c, a->kids[0]);
    else return false;
    return true;
}

static int fn_parameter(const Node *fn, const char *name)
{
    for (uint32_t i = 0; i < fn->kids[0]->n; i++)
        if (fn->kids[0]->kids[i]->name == name) return (int)i;
    return -1;
}

static void check_fn_call(Check *c, const Node *call, const Node *fn)
{
    uint32_t n = fn->kids[0]->n, given = 0;
    bool *have = arena_array(&c->s->arena, bool, n + 1);
    for (uint32_t i = 0; i < call->n; i++) {
        const Node *a = call->kids[i];
        int k = a->kind == N_ARG ? fn_parameter(fn, a->name) : (int)i;
        if (k < 0) {
            fault(c, a->name_loc, "`%s` has no parameter `%s`", fn->name, a->name);
            return;
        }
        if (k >= (int)n) {
            fault(c, a->loc, "`%s` takes %d argument%s", fn->name, (int)n, n == 1 ? "" : "s");
            return;
        }
        if (have[k]) {
            fault(c, a->loc, "argument `%s` is given twice", fn->kids[0]->kids[k]->name);
            return;
        }
        have[k] = true;
        given++;
    }
    for (uint32_t k = 0; k < n && given < n; k++)
        if (!have[k] && !fn->kids[0]->kids[k]->kids[0]) {
            fault(c, call->loc, "`%s` needs the argument `%s`", fn->name, fn->kids[0]->kids[k]->name);
            return;
        }
}

/* `has(X)`: X is an optional tensor of the kernel, wherever a constant may stand, or a value of a fn. */
static void check_has(Check *c, const Node *n)
{
    const Node *a = n->n == 1 ? n->kids[0] : NULL;
    if (a && a->kind == N_ARG) a = a->kids[0];
    const Node *p = a && a->kind == N_NAME ? find_tensor(c->tensors, a->name) : NULL;
    const Name *own = p ? find(c, a->name) : NULL;
    if (!p || (own && own->loc.begin != p->name_loc.begin)) {
        check_expr(c, a);
        return;
    }
    if (!p->u)
        hint(c, fault(c, a->loc, "`%s` is always given", a->name),
            arena_printf(&c->s->arena, "a launch may leave out an optional tensor: `%s %s[...]?`",
                p->kids[0]->name, p->name));
}

static void check_call(Check *c, const Node *n)
{
    /* A variable may have the name of a function: calls mean the function. A name of a type converts. */
    const Node *fn = ast_find_fn(c->ast, n->name);
    const Builtin *b = fn ? NULL : builtin_find(n->name);
    CallArgs args;
    if (!fn && !b && (find(c, n->name) || is_type(n->name))) {
        if (n->n != 1 || n->kids[0]->kind == N_ARG)
            fault(c, n->loc, "a cast takes one value: `%s(x)`", n->name);
    } else if (fn) check_fn_call(c, n, fn);
    else if (b && c->in_extent && (!strcmp(n->name, "program_id") || !strcmp(n->name, "num_programs")))
        fault(c, n->loc, "`%s` has no meaning in the extent of a tensor", n->name);
    else if (b) call_match(c->s, n, b, NULL, true, &args);
    else if (names_get(&c->ast->kernels, n->name))
        hint(c, fault(c, n->name_loc, "`%s` is a kernel: it is launched, not called", n->name),
            "what kernels share goes into a `fn`");
    else suggest(c, fault(c, n->name_loc, "unknown function `%s`", n->name), n->name, true);
    if (b && !strcmp(n->name, "has")) {
        check_has(c, n);
        return;
    }
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *a = n->kids[i];
        if (a->kind == N_STRING && b && (!strcmp(n->name, "print") || !strcmp(n->name, "assert"))) continue;
        if (a->kind == N_LIST) {
            for (uint32_t k = 0; k < a->n; k++) check_expr(c, a->kids[k]);
            continue;
        }
        if (a->kind != N_ARG) check_expr(c, a);
        else if (!b || !check_argument(c, n, a)) {
            if (a->kids[0]->kind == N_LIST)
                for (uint32_t k = 0; k < a->kids[0]->n; k++) check_expr(c, a->kids[0]->kids[k]);
            else if (a->kids[0]->kind != N_STRING || strcmp(a->name, "text")) check_expr(c, a->kids[0]);
        }
    }
}

static void check_expr(Check *c, const Node *n)
{
    if (!n) return;
    switch (ast_expression(n)) {
    case EXPR_NAME: check_name(c, n); return;
    case EXPR_CALL: check_call(c, n); return;
    case EXPR_STRING: fault(c, n->loc, "a string stands only in print and assert"); return;
    case EXPR_NONE:
        hint(c, fault(c, n->loc, "None stands only in a subscript"), "x[:, None] adds an axis");
        return;
    case EXPR_LIST:
        hint(c, fault(c, n->loc, "a list in brackets is a shape and no value"),
            "full([M, N], 0.0, f32) makes a tile");
        return;
    case EXPR_INDEX:
        check_expr(c, n->kids[0]);
        for (uint32_t i = 1; i < n->n; i++)
            if (n->kids[i]->kind != N_NONE && n->kids[i]->kind != N_ALL) check_expr(c, n->kids[i]);
        return;
    case EXPR_ERROR:
    case EXPR_INT:
    case EXPR_FLOAT:
    case EXPR_BOOL:
    case EXPR_TUPLE:
    case EXPR_UNARY:
    case EXPR_BINARY:
    case EXPR_COND:
    case EXPR_ARG:
    case EXPR_ALL:
    case EXPR_WINDOW:
    case EXPR_TABLE: break;
    }
    for (uint32_t i = 0; i < n->n; i++) check_expr(c, n->kids[i]);
}

static void check_hint_arguments(Check *c, const Node *clause, const char *const *known, int n_known)
{
    const Node *args = clause->kids[0];
    for (uint32_t i = 0; i < args->n && !diag_full(c->s); i++) {
        const Node *a = args->kids[i];
        bool found = false;
        if (a->kind != N_ARG) {
            fault(c, a->loc, "`%s` takes arguments by name", clause->name);
            continue;
        }
        for (int k = 0; k < n_known; k++) found |= !strcmp(known[k], a->name);
        if (!found) {
            Text t;
            text_init(&t, &c->s->arena);
            for (int k = 0; k < n_known; k++) text_printf(&t, "%s`%s`", k ? ", " : "it takes ", known[k]);
            hint(c, fault(c, a->name_loc, "`%s` has no argument `%s`", clause->name, a->name), t.data);
        }
        if (a->text2 && !call_target_known(a->text2))
            hint(c, fault(c, a->name_loc, "unknown target `%s`", a->text2),
                "a family (cuda, hip, cpu) or a chip (sm_90a, gfx942, ...)");
        for (uint32_t j = 0; j < i; j++)
            if (args->kids[j]->kind == N_ARG && args->kids[j]->name == a->name &&
                args->kids[j]->text2 == a->text2)
                fault(c, a->name_loc, "argument `%s` is given twice", a->name);
        if (a->kids[0]->kind != N_STRING) check_expr(c, a->kids[0]);
    }
    if (clause->kids[1]) fault(c, clause->kids[1]->loc, "`%s` takes no `=`", clause->name);
}

static void check_loop_hint(Check *c, const Node *clause)
{
    static const char *const known[] = { "unroll" };
    if (!strcmp(clause->name, "hint")) check_hint_arguments(c, clause, known, 1);
    else
        hint(c, fault(c, clause->name_loc, "unknown clause `%s`", clause->name),
            "a loop takes `hint (unroll = n)`");
}

/* --- statements -------------------------------------------------------------------------------------- */

static void check_block(Check *, const Node *);

static void check_target(Check *c, const Node *t)
{
    if (t->kind == N_TUPLE) {
        for (uint32_t i = 0; i < t->n; i++) check_target(c, t->kids[i]);
        return;
    }
    if (t->kind == N_INDEX) {
        const Name *array = t->kids[0]->kind == N_NAME ? find(c, t->kids[0]->name) : NULL;
        check_expr(c, t);
        if (array && array->is_array) return;
        hint(c, fault(c, t->loc, "an element cannot be assigned"),
            "store(X[...], value) writes a tensor; a tile changes as a whole: x = where(...)");
        return;
    }
    if (t->kind == N_ERROR) return;
    if (t->kind != N_NAME) {
        fault(c, t->loc, "only a variable can be assigned");
        return;
    }
    if (!strcmp(t->name, "_")) return;
    const Name *n = find(c, t->name);
    if (!n && !is_dimension(c->kernel, t->name)) {
        hint(c, fault(c, t->loc, "unknown variable `%s`", t->name),
            arena_printf(&c->s->arena, "`var %s = ...` declares it", t->name));
    } else if (n && n->is_array) {
        hint(c, fault(c, t->loc, "`%s` is an array of variables", t->name),
            arena_printf(&c->s->arena, "assign its elements: `%s[0] = ...`", t->name));
    } else if (!n || !n->is_var) {
        Diag *d = fault(c, t->loc, "`%s` cannot be assigned: it is not a `var`", t->name);
        if (n) diag_note(c->s, d, n->loc, "declared here; a name that is assigned is declared by `var`");
    }
}

static void no_effect(Check *c, const Node *n)
{
    const Node *e = n->kids[0], *inner = e->kind == N_UNARY ? e->kids[0] : e;
    Diag *d = fault(c, n->loc, "this statement has no effect");
    if (inner != e && inner->kind == N_UNARY && inner->op == e->op && (e->op == OPR_PLUS || e->op == OPR_NEG))
        hint(c, d,
            arena_printf(&c->s->arena, "write `%s %s= 1`",
                inner->kids[0]->kind == N_NAME ? inner->kids[0]->name : "j", ast_operator_text(e->op)));
}

static void check_stmt(Check *c, const Node *n)
{
    switch (ast_statement(n)) {
    case STMT_LET:
    case STMT_VAR:
        check_expr(c, n->kids[0]);
        for (uint32_t i = 1; i < n->n; i++) declare(c, n->kids[i]->name, n->kids[i]->loc, n->kind == N_VAR);
        return;
    case STMT_ARRAY: {
        check_expr(c, n->kids[0]);
        check_expr(c, n->kids[1]);
        declare(c, n->name, n->name_loc, true);
        Name *array = find(c, n->name);
        if (array) array->is_array = true;
        return;
    }
    case STMT_CONSTANT:
        check_type_name(c, n->kids[0], true);
        check_expr(c, n->kids[1]);
        declare(c, n->name, n->name_loc, false);
        return;
    case STMT_ASSIGN:
        check_expr(c, n->kids[1]);
        check_target(c, n->kids[0]);
        return;
    case STMT_EXPR: {
        int errors = c->s->n_errors;
        check_expr(c, n->kids[0]);
        if (n->kids[0]->kind != N_CALL && n->kids[0]->kind != N_ERROR && c->s->n_errors == errors)
            no_effect(c, n);
        return;
    }
    case STMT_FOR:
        for (int i = 0; i < 3; i++) check_expr(c, n->kids[i]);
        if (n->kids[3]) check_loop_hint(c, n->kids[3]);
        c->level++;
        {
            Name *outer = c->names;
            declare(c, n->name, n->name_loc, false);
            check_block(c, n->kids[4]);
            leave_to(c, outer);
        }
        c->level--;
        return;
    case STMT_WHILE:
        check_expr(c, n->kids[0]);
        check_block(c, n->kids[1]);
        return;
    case STMT_IF:
        check_expr(c, n->kids[0]);
        check_block(c, n->kids[1]);
        if (n->kids[2]) {
            if (n->kids[2]->kind == N_BLOCK) check_block(c, n->kids[2]);
            else check_stmt(c, n->kids[2]);
        }
        return;
    case STMT_RETURN:
        check_expr(c, n->kids[0]);
        if (c->kernel && n->kids[0])
            hint(c, fault(c, n->loc, "a kernel returns nothing"),
                "results leave a kernel through `out` tensors");
        return;
    case STMT_BLOCK: check_block(c, n); return;
    }
}

static void check_block(Check *c, const Node *n)
{
    if (!n || n->kind != N_BLOCK) return;
    Name *outer = c->names;
    c->level++;
    for (uint32_t i = 0; i < n->n && !diag_full(c->s); i++) {
        check_stmt(c, n->kids[i]);
        if (n->kids[i]->kind == N_RETURN && i + 1 < n->n) {
            diag_warning(c->s, n->kids[i + 1]->loc, "this statement is never reached");
            for (i++; i < n->n; i++) check_stmt(c, n->kids[i]);
        }
    }
    c->level--;
    leave_to(c, outer);
}

/* --- kernels ----------------------------------------------------------------------------------------- */

static void check_fn(Check *c, const Node *fn)
{
    Name *outer = c->names;
    if (fn->kids[0]->n > LIMIT_PARAMS) {
        fault(c, fn->name_loc, "a fn has at most %d parameters", LIMIT_PARAMS);
        return;
    }
    c->level++;
    c->in_fn = true;
    for (uint32_t i = 0; i < fn->kids[0]->n; i++) {
        const Node *p = fn->kids[0]->kids[i];
        check_expr(c, p->kids[0]);
        declare(c, p->name, p->loc, false);
    }
    check_block(c, fn->kids[1]);
    c->in_fn = false;
    c->level--;
    leave_to(c, outer);
}

/* Consts come first: types and extents of the others are made of them. */
static void check_params(Check *c, const Node *params)
{
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        if (p->kind != N_PCONST) continue;
        check_type_name(c, p->kids[0], true);
        const Node *kernel = c->kernel;
        c->kernel = NULL;
        check_expr(c, p->kids[1]);
        c->kernel = kernel;
        declare(c, p->name, p->name_loc, false);
    }
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        if (p->kind == N_PCONST || p->kind == N_ERROR) continue;
        check_type_name(c, p->kids[0], false);
        declare(c, p->name, p->name_loc, false);
        DType d;
        bool whole = p->kind == N_PSCALAR &&
                     (!dtype_parse(p->kids[0]->name, strlen(p->kids[0]->name), &d) || dtype_is_int(d));
        if (is_extent(c->kernel, p->name) && !whole)
            fault(c, p->name_loc, "`%s` is a dimension as well as a parameter", p->name);
        if (p->kind == N_PSCALAR) {
            check_expr(c, p->kids[1]);
            continue;
        }
        if (p->n - 1 > TILE_MAX_RANK) fault(c, p->loc, "a tensor has at most %d axes", TILE_MAX_RANK);
        c->in_extent = true;
        for (uint32_t k = 1; k < p->n; k++)
            if (p->kids[k]->kind != N_NAME) check_expr(c, p->kids[k]);
        c->in_extent = false;
    }
}

static void check_remap(Check *c, const Node *clause)
{
    static const char *const words[] = { "auto", "xcd", "chunk", "head", "none" };
    const Node *args = clause->kids[0];
    if (!args->n && clause->kids[1] && clause->kids[1]->kind == N_NAME) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (!strcmp(words[i], clause->kids[1]->name)) return;
        fault(c, clause->kids[1]->loc, "remap must be an expression or one of auto, xcd, chunk, head, none");
        return;
    }
    if (args->n != 1 || args->kids[0]->kind != N_NAME || !clause->kids[1]) {
        hint(c, fault(c, clause->loc, "remap names the linear program id and gives the one to run instead"),
            "remap (w) = (w % 8) * (num_programs() / 8) + w / 8");
        return;
    }
    Name *outer = c->names;
    c->level++;
    declare(c, args->kids[0]->name, args->kids[0]->loc, false);
    check_expr(c, clause->kids[1]);
    c->level--;
    leave_to(c, outer);
}

const char *const frontend_hints[] = { "occupancy", "warps", "cluster", "cluster_axis", "split_k", "stages",
    "persistent", "warp_specialize", "cp_async_producer", "pingpong", "schedule", NULL };

static void check_clauses(Check *c, const Node *kernel)
{
    static const char *const raster[] = { "group" };
    const Node *clauses = kernel->kids[1];
    bool grid = false;
    for (uint32_t i = 0; i < clauses->n && !diag_full(c->s); i++) {
        const Node *k = clauses->kids[i];
        for (uint32_t j = 0; j < i; j++)
            if (clauses->kids[j]->name == k->name) {
                diag_note(c->s, fault(c, k->name_loc, "clause `%s` is given twice", k->name),
                    clauses->kids[j]->name_loc, "first here");
                break;
            }
        if (!strcmp(k->name, "grid")) {
            const Node *args = k->kids[0];
            grid = true;
            if (args->n < 1 || args->n > 3)
                fault(c, k->loc, "a grid has one to three axes, not %d", (int)args->n);
            if (k->kids[1]) fault(c, k->kids[1]->loc, "`grid` takes no `=`");
            for (uint32_t a = 0; a < args->n; a++) {
                if (args->kids[a]->kind == N_ARG) fault(c, args->kids[a]->loc, "grid extents have no names");
                else check_expr(c, args->kids[a]);
            }
        } else if (!strcmp(k->name, "remap")) check_remap(c, k);
        else if (!strcmp(k->name, "raster")) check_hint_arguments(c, k, raster, 1);
        else if (!strcmp(k->name, "hint"))
            check_hint_arguments(c, k, frontend_hints, sizeof frontend_hints / sizeof *frontend_hints - 1);
        else
            hint(c, fault(c, k->name_loc, "unknown clause `%s`", k->name),
                "there are grid, remap, raster and hint");
    }
    if (!grid)
        hint(c, fault(c, kernel->name_loc, "kernel `%s` has no grid clause", kernel->name),
            "`grid (cdiv(N, BLOCK))` after the parameters says how many programs run");
}

static void check_kernel(Check *c, const Node *n)
{
    Name *outer = c->names;
    if (n->kids[0]->n > LIMIT_KERNEL_PARAMS) {
        fault(c, n->name_loc, "a kernel has at most %d parameters", LIMIT_KERNEL_PARAMS);
        return;
    }
    c->kernel = c->tensors = n;
    c->level++;
    check_params(c, n->kids[0]);
    check_clauses(c, n);
    check_block(c, n->kids[2]);
    c->level--;
    c->kernel = c->tensors = NULL;
    leave_to(c, outer);
}

/* --- tune and instantiate ---------------------------------------------------------------------------- */

static const Node *kernel_named(const Check *c, const char *name)
{ return names_get(&c->ast->kernels, name); }

static bool is_optional(const Node *kernel, const char *name)
{
    const Node *p = find_tensor(kernel, name);
    return p && p->u;
}

static bool has_const(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++)
        if (kernel->kids[0]->kids[i]->kind == N_PCONST && kernel->kids[0]->kids[i]->name == name) return true;
    return false;
}

static void check_domains(Check *c, const Node *n, const Node *kernel, bool hints)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < n->n && !diag_full(c->s); i++) {
        const Node *d = n->kids[i];
        if (d->kind != N_DOMAIN) continue;
        bool known = has_const(kernel, d->name) || is_dimension(kernel, d->name) ||
                     (hints ? frontend_hint_name(d->name) : is_optional(kernel, d->name));
        if (hints && is_optional(kernel, d->name)) {
            hint(c, fault(c, d->name_loc, "whether `%s` is given is not tuned: a launch decides it", d->name),
                arena_printf(&c->s->arena, "`require (...)` may ask for `has(%s)`", d->name));
        } else if (!known) {
            Diag *e = fault(
                c, d->name_loc, "kernel `%s` has no const, type or dimension `%s`", kernel->name, d->name);
            if (hints)
                hint(c, e,
                    "a tune block may also set occupancy, warps, raster_group, cluster, cluster_axis, "
                    "split_k, stages, persistent, warp_specialize, cp_async_producer and pingpong");
        }
        if (!d->n) fault(c, d->loc, "the domain of `%s` is empty", d->name);
        for (uint32_t j = 0; j < i; j++)
            if (n->kids[j]->kind == N_DOMAIN && n->kids[j]->name == d->name) {
                fault(c, d->name_loc, "`%s` has two domains", d->name);
                break;
            }
        for (uint32_t v = 0; v < d->n; v++) check_expr(c, d->kids[v]);
        if (product <= LIMIT_TUNE_CONFIGS) product *= d->n ? d->n : 1;
    }
    if (product > LIMIT_TUNE_CONFIGS)
        fault(c, n->loc, "the domains have more than %d combinations", LIMIT_TUNE_CONFIGS);
}

static void check_tune(Check *c, const Node *n)
{
    const Node *kernel = kernel_named(c, n->name);
    if (!kernel) {
        fault(c, n->name_loc, "no kernel `%s`", n->name);
        return;
    }
    const Node *o = names_get(&c->tuned, n->name);
    if (o)
        diag_note(c->s, fault(c, n->name_loc, "kernel `%s` has two tune blocks", n->name), o->name_loc,
            "first here");
    else names_put(&c->s->arena, &c->tuned, n->name, (Node *)n);
    check_domains(c, n, kernel, true);
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *e = n->kids[i];
        if (e->kind != N_CLAUSE) continue;
        const Node *args = e->kids[0];
        for (uint32_t j = 0; j < i; j++)
            if (n->kids[j]->kind == N_CLAUSE && n->kids[j]->name == e->name) {
                Diag *d = fault(c, e->name_loc, "`%s` is given twice", e->name);
                hint(c, d,
                    !strcmp(e->name, "require") ? "one condition: require (A && B)" : "one list: key (M, N)");
                break;
            }
        if (!strcmp(e->name, "require")) {
            Name *names = c->names;
            c->tensors = kernel;
            c->level++;
            for (uint32_t p = 0; p < kernel->kids[0]->n; p++)
                if (kernel->kids[0]->kids[p]->kind == N_PCONST)
                    declare(c, kernel->kids[0]->kids[p]->name, kernel->kids[0]->kids[p]->loc, false);
            for (uint32_t d = 0; d < n->n; d++) /* hints that are chosen */
                if (n->kids[d]->kind == N_DOMAIN && frontend_hint_name(n->kids[d]->name) &&
                    !has_const(kernel, n->kids[d]->name))
                    declare(c, n->kids[d]->name, n->kids[d]->loc, false);
            if (args->n != 1 || args->kids[0]->kind == N_ARG)
                fault(c, e->loc, "`require` takes one condition");
            else check_expr(c, args->kids[0]);
            c->level--;
            c->tensors = NULL;
            leave_to(c, names);
        } else if (!strcmp(e->name, "key")) {
            for (uint32_t k = 0; k < args->n; k++) {
                const Node *a = args->kids[k];
                for (uint32_t j = 0; j < k && a->kind == N_NAME; j++)
                    if (args->kids[j]->kind == N_NAME && args->kids[j]->name == a->name) {
                        fault(c, a->loc, "key `%s` is given twice", a->name);
                        break;
                    }
                if (a->kind != N_NAME) fault(c, a->loc, "a key is the name of a dimension or const");
                else if (is_optional(kernel, a->name))
                    hint(c, fault(c, a->loc, "`%s` is an optional tensor and no key", a->name),
                        "leave it out: an entry is always for one choice of the tensors that are given");
                else if (!has_const(kernel, a->name) && !is_dimension(kernel, a->name))
                    fault(
                        c, a->loc, "kernel `%s` has no const, type or dimension `%s`", kernel->name, a->name);
            }
        } else
            hint(c, fault(c, e->name_loc, "unknown entry `%s`", e->name),
                "a tune block has domains (`TM in {64, 128};`), `key (...)` and `require (...)`");
    }
}

/* --- the program ------------------------------------------------------------------------------------- */

/* Kernels, functions and global constants share their names. */
static void check_item_name(Check *c, size_t i)
{
    const Node *n = c->ast->items.data[i];
    if (n->kind != N_KERNEL && n->kind != N_FN && n->kind != N_CONSTANT) return;
    if (n->kind != N_KERNEL && (is_type(n->name) || builtin_find(n->name))) {
        fault(c, n->name_loc, "`%s` is a name of the language", n->name);
        return;
    }
    const Node *o = names_get(&c->items, n->name);
    if (o)
        diag_note(c->s, fault(c, n->name_loc, "`%s` is declared twice", n->name), o->name_loc, "first here");
    else names_put(&c->s->arena, &c->items, n->name, (Node *)n);
}

bool frontend_check(Ast *ast)
{
    Check c = { .s = ast->session, .ast = ast };
    if (c.s->n_errors) return false;
    rename_former_hints(ast);
    for (size_t i = 0; i < ast->items.len && !diag_full(c.s); i++) check_item_name(&c, i);
    for (size_t i = 0; i < ast->items.len; i++) {
        const Node *n = ast->items.data[i];
        if (n->kind != N_CONSTANT) continue;
        check_type_name(&c, n->kids[0], true);
        check_expr(&c, n->kids[1]);
        if (!find(&c, n->name)) declare(&c, n->name, n->name_loc, false);
    }
    for (size_t i = 0; i < ast->items.len && !diag_full(c.s); i++) {
        const Node *n = ast->items.data[i];
        if (n->kind == N_KERNEL) check_kernel(&c, n);
        else if (n->kind == N_FN) check_fn(&c, n);
        else if (n->kind == N_TUNE) check_tune(&c, n);
        else if (n->kind == N_INSTANCE) {
            const Node *kernel = kernel_named(&c, n->name);
            if (kernel) check_domains(&c, n, kernel, false);
            else fault(&c, n->name_loc, "no kernel `%s`", n->name);
        }
    }
    if (c.s->n_errors) return false;
    program_build(ast);
    return c.s->n_errors == 0;
}
