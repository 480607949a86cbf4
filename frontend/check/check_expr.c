/* check_expr.c: checks expressions: names, calls and their arguments, attributes, and the arguments of
 * clauses. */
#include "frontend/check/check.h"
#include "frontend/parse/habits.h"

static void check_word(Check *c, const Node *n, AttrKey key, const char *what)
{
    if (n->kind == N_NAME && attr_enum_parse(key, n->name, strlen(n->name)) >= 0) return;
    Text t;
    text_init(&t, &c->s->arena);
    for (int i = 0; attr_enum_name(key, i); i++)
        text_printf(&t, "%s%s", i ? ", " : "", attr_enum_name(key, i));
    check_fault(c, n->loc, "%s must be one of %s", what, t.data);
}

static void check_combine(Check *c, const Node *n)
{
    const Node *fn = n->kind == N_NAME ? ast_find_fn(c->ast, n->name) : NULL;
    if (!fn)
        check_note(c, check_fault(c, n->loc, "combine must be the name of a fn of two values"),
            "fn larger(a, b) { return max(a, b); } ... combine = larger");
    else if (fn->kids[0]->n != 2)
        check_fault(c, n->loc, "`%s` takes %d argument%s; a combine function takes two", fn->name,
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
            check_fault(c, a->name_loc, "`%s` has no parameter `%s`", fn->name, a->name);
            return;
        }
        if (k >= (int)n) {
            check_fault(c, a->loc, "`%s` takes %d argument%s", fn->name, (int)n, n == 1 ? "" : "s");
            return;
        }
        if (have[k]) {
            check_fault(c, a->loc, "argument `%s` is given twice", fn->kids[0]->kids[k]->name);
            return;
        }
        have[k] = true;
        given++;
    }
    for (uint32_t k = 0; k < n && given < n; k++)
        if (!have[k] && !fn->kids[0]->kids[k]->kids[0]) {
            Diag *d = check_fault(
                c, call->loc, "`%s` needs the argument `%s`", fn->name, fn->kids[0]->kids[k]->name);
            if (d) diag_note(c->s, d, fn->loc, "declared here");
            return;
        }
}

/* `has(X)`: X is an optional tensor of the kernel, wherever a constant may stand, or a value of a fn. */
static void check_has(Check *c, const Node *n)
{
    const Node *a = n->n == 1 ? n->kids[0] : NULL;
    if (a && a->kind == N_ARG) a = a->kids[0];
    const Node *p = a && a->kind == N_NAME ? check_find_tensor(c->tensors, a->name) : NULL;
    const Name *own = p ? check_find(c, a->name) : NULL;
    if (!p || (own && own->loc.begin != p->name_loc.begin)) {
        check_expr(c, a);
        return;
    }
    if (!p->u)
        check_note(c, check_fault(c, a->loc, "`%s` is always given", a->name),
            arena_printf(&c->s->arena, "a launch may leave out an optional tensor: `%s %s[...]?`",
                p->kids[0]->name, p->name));
}

/* Checks what is called: a function of the source (fn), an operation (b), or neither; then the call is a
 * conversion or a fault. */
static void check_called(Check *c, const Node *n, const Node *fn, const Builtin *b)
{
    CallArgs args;
    if (fn) check_fn_call(c, n, fn);
    else if (b && c->in_extent && (!strcmp(n->name, "program_id") || !strcmp(n->name, "num_programs")))
        check_fault(c, n->loc, "`%s` has no meaning in the extent of a tensor", n->name);
    else if (b) call_match(c->s, n, b, NULL, true, &args);
    else if (check_find(c, n->name) || check_is_type(n->name)) {
        if (n->n != 1 || n->kids[0]->kind == N_ARG)
            check_fault(c, n->loc, "a cast takes one value: `%s(x)`", n->name);
    } else if (names_get(&c->ast->kernels, n->name))
        check_note(c, check_fault(c, n->name_loc, "`%s` is a kernel: it is launched, not called", n->name),
            "what kernels share goes into a `fn`");
    else check_suggest(c, check_fault(c, n->name_loc, "unknown function `%s`", n->name), n->name, true);
}

/* A value, or a list in brackets, which is a shape here. */
static void check_value_or_list(Check *c, const Node *a)
{
    if (a->kind != N_LIST) check_expr(c, a);
    else
        for (uint32_t k = 0; k < a->n; k++) check_expr(c, a->kids[k]);
}

static void check_call(Check *c, const Node *n)
{
    /* A variable may have the name of a function; a call means the function. A call of a type's name is a
     * conversion. */
    const Node *fn = ast_find_fn(c->ast, n->name);
    const Builtin *b = fn ? NULL : builtin_find(n->name);
    check_called(c, n, fn, b);
    if (b && !strcmp(n->name, "has")) {
        check_has(c, n);
        return;
    }
    bool texts = b && (!strcmp(n->name, "print") || !strcmp(n->name, "assert"));
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *a = n->kids[i];
        if (a->kind == N_ARG) {
            if (b && check_argument(c, n, a)) continue;
            a = a->kids[0];
            if (a->kind == N_STRING && !strcmp(n->kids[i]->name, "text")) continue;
        } else if (a->kind == N_STRING && texts) continue;
        check_value_or_list(c, a);
    }
}

void check_expr(Check *c, const Node *n)
{
    if (!n) return;
    switch (ast_expression(n)) {
    case EXPR_NAME: check_name(c, n); return;
    case EXPR_CALL: check_call(c, n); return;
    case EXPR_STRING: check_fault(c, n->loc, "a string stands only in print and assert"); return;
    case EXPR_NONE:
        check_note(c, check_fault(c, n->loc, "None stands only in a subscript"), "x[:, None] adds an axis");
        return;
    case EXPR_LIST:
        check_note(c, check_fault(c, n->loc, "a list in brackets is a shape and no value"),
            "full([M, N], 0.0, f32) makes a tile; `concat(a, b)` takes its tiles without brackets");
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

void check_hint_arguments(Check *c, const Node *clause, const char *const *known, int n_known)
{
    const Node *args = clause->kids[0];
    for (uint32_t i = 0; i < args->n && !diag_full(c->s); i++) {
        const Node *a = args->kids[i];
        bool found = false;
        if (a->kind != N_ARG) {
            check_fault(c, a->loc, "`%s` takes arguments by name", clause->name);
            continue;
        }
        for (int k = 0; k < n_known; k++) found |= !strcmp(known[k], a->name);
        if (!found) {
            Text t;
            text_init(&t, &c->s->arena);
            for (int k = 0; k < n_known; k++) text_printf(&t, "%s`%s`", k ? ", " : "it takes ", known[k]);
            Diag *d = check_fault(c, a->name_loc, "`%s` has no argument `%s`", clause->name, a->name);
            const char *habit = habit_note(HABIT_ARGUMENT, a->name, strlen(a->name));
            check_note(c, d, habit ? habit : t.data);
        }
        if (a->text2 && !call_target_known(a->text2))
            check_note(c, check_fault(c, a->name_loc, "unknown target `%s`", a->text2),
                "a family (cuda, hip, cpu) or a chip (sm_90a, gfx942, ...)");
        for (uint32_t j = 0; j < i; j++)
            if (args->kids[j]->kind == N_ARG && args->kids[j]->name == a->name &&
                args->kids[j]->text2 == a->text2)
                check_fault(c, a->name_loc, "argument `%s` is given twice", a->name);
        if (a->kids[0]->kind != N_STRING) check_expr(c, a->kids[0]);
    }
    if (clause->kids[1]) check_fault(c, clause->kids[1]->loc, "`%s` takes no `=`", clause->name);
}
