/* check_stmt.c: checks statements: declarations, assignments, loops and blocks. */
#include "frontend/check/check.h"

static void check_loop_hint(Check *c, const Node *clause)
{
    static const char *const known[] = { "unroll" };
    if (!strcmp(clause->name, "hint")) check_hint_arguments(c, clause, known, 1);
    else
        check_note(c, check_fault(c, clause->name_loc, "unknown clause `%s`", clause->name),
            "a loop takes `hint (unroll = n)`");
}

/* `oper` is the operator of an assignment such as `+=`; OPR_NONE for `=`. */
static void check_target(Check *c, const Node *t, int oper)
{
    if (t->kind == N_TUPLE) {
        for (uint32_t i = 0; i < t->n; i++) check_target(c, t->kids[i], oper);
        return;
    }
    if (t->kind == N_INDEX) {
        const Name *array = t->kids[0]->kind == N_NAME ? check_find(c, t->kids[0]->name) : NULL;
        check_expr(c, t);
        if (array && array->is_array) return;
        bool tensor = t->kids[0]->kind == N_NAME && check_find_tensor(c->kernel, t->kids[0]->name);
        check_note(c, check_fault(c, t->loc, "an element cannot be assigned"),
            tensor && oper == OPR_ADD
                ? "atomic_add(X[...], value) adds to a tensor; a sum of one program is a `var` that is stored"
                : "store(X[...], value) writes a tensor; a tile changes as a whole: x = where(...)");
        return;
    }
    if (t->kind == N_ERROR) return;
    if (t->kind != N_NAME) {
        check_fault(c, t->loc, "only a variable can be assigned");
        return;
    }
    if (!strcmp(t->name, "_")) return;
    const Name *n = check_find(c, t->name);
    if (!n && !check_is_dimension(c->kernel, t->name)) {
        check_note(c, check_fault(c, t->loc, "unknown variable `%s`", t->name),
            arena_printf(
                &c->s->arena, "`let %s = ...` declares it, or `var` if it is assigned again", t->name));
        check_declare(c, t->name, t->loc, true); /* its uses are not reported again */
    } else if (n && n->is_array && oper == OPR_NONE) {
        return; /* all its elements, of a tuple */
    } else if (n && n->is_array) {
        check_note(c, check_fault(c, t->loc, "`%s` is an array of variables", t->name),
            arena_printf(&c->s->arena, "assign its elements: `%s[0] = ...`", t->name));
    } else if (!n || !n->is_var) {
        Diag *d = check_fault(c, t->loc, "`%s` cannot be assigned: it is not a `var`", t->name);
        if (n && n->is_parameter)
            diag_note(
                c->s, d, n->loc, "a parameter keeps its value; `var y = %s;` begins as it does", t->name);
        else if (n) diag_note(c->s, d, n->loc, "declared here; a name that is assigned is declared by `var`");
    }
}

static void no_effect(Check *c, const Node *n)
{
    const Node *e = n->kids[0], *inner = e->kind == N_UNARY ? e->kids[0] : e;
    Diag *d = check_fault(c, n->loc, "this statement has no effect");
    if (inner != e && inner->kind == N_UNARY && inner->op == e->op && (e->op == OPR_PLUS || e->op == OPR_NEG))
        check_note(c, d,
            arena_printf(&c->s->arena, "write `%s %s= 1`",
                inner->kids[0]->kind == N_NAME ? inner->kids[0]->name : "j", ast_operator_text(e->op)));
}

static void check_for(Check *c, const Node *n)
{
    for (int i = 0; i < 3; i++) check_expr(c, n->kids[i]);
    if (n->kids[3]) check_loop_hint(c, n->kids[3]);
    Name *outer = c->names;
    c->level++;
    check_declare(c, n->name, n->name_loc, false);
    check_block(c, n->kids[4]);
    check_leave_to(c, outer);
    c->level--;
}

static void check_stmt(Check *c, const Node *n)
{
    switch (ast_statement(n)) {
    case STMT_LET:
    case STMT_VAR:
        check_expr(c, n->kids[0]);
        for (uint32_t i = 1; i < n->n; i++)
            check_declare(c, n->kids[i]->name, n->kids[i]->loc, n->kind == N_VAR);
        return;
    case STMT_ARRAY: {
        check_expr(c, n->kids[0]);
        check_expr(c, n->kids[1]);
        check_declare(c, n->name, n->name_loc, true);
        Name *array = check_find(c, n->name);
        if (array) array->is_array = true;
        return;
    }
    case STMT_CONSTANT:
        check_type_name(c, n->kids[0], true);
        check_expr(c, n->kids[1]);
        check_declare(c, n->name, n->name_loc, false);
        return;
    case STMT_ASSIGN:
        check_expr(c, n->kids[1]);
        check_target(c, n->kids[0], n->op);
        return;
    case STMT_EXPR: {
        int errors = c->s->n_errors;
        check_expr(c, n->kids[0]);
        if (n->kids[0]->kind != N_CALL && n->kids[0]->kind != N_ERROR && c->s->n_errors == errors)
            no_effect(c, n);
        return;
    }
    case STMT_FOR: check_for(c, n); return;
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
            check_note(c, check_fault(c, n->loc, "a kernel returns nothing"),
                "results leave a kernel through `out` tensors");
        return;
    case STMT_BLOCK: check_block(c, n); return;
    }
}

void check_block(Check *c, const Node *n)
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
    check_leave_to(c, outer);
}
