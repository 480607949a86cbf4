/* asserted.c: extents that follow from the asserts of a kernel: `assert(P == (H + 2*PAD - R)/STRIDE + 1)`
 * gives P. It also evaluates whether the asserts hold for given extents. Only asserts that every program
 * reaches count, that is, outside of branches and loops; the terms of `&&` count one by one. An expression is
 * computed from integers, the kernel's integer constants, and names whose values the caller knows; others
 * give nothing. */
#include "frontend/parse/ast.h"
#include "frontend/program.h"
#include <string.h>

typedef struct Known {
    const Ast *ast;
    const Node *body;
    FrontNumberFn *number;
    void *user;
    int steps; /* left: constants may name each other many times over */
} Known;

enum { MOST_STEPS = 1 << 12 };

/* The value of a constant of the file, or of one declared in the kernel outside of branches and loops. */
static const Node *constant(const Known *k, const char *name)
{
    const Node *global = names_get(&k->ast->consts, name);
    for (uint32_t i = 0; i < k->body->n; i++) {
        const Node *n = k->body->kids[i];
        if (n && n->kind == N_CONSTANT && n->name == name) return n->kids[1];
    }
    return global ? global->kids[1] : NULL;
}

static bool binary(int op, int64_t a, int64_t b, int64_t *out)
{
    if (op == OPR_ADD) return !__builtin_add_overflow(a, b, out);
    if (op == OPR_SUB) return !__builtin_sub_overflow(a, b, out);
    if (op == OPR_MUL) return !__builtin_mul_overflow(a, b, out);
    if ((op != OPR_DIV && op != OPR_REM) || a < 0 || b <= 0) return false;
    *out = op == OPR_DIV ? a / b : a % b;
    return true;
}

static bool call(const char *name, int64_t a, int64_t b, int64_t *out)
{
    if (!strcmp(name, "min")) *out = a < b ? a : b;
    else if (!strcmp(name, "max")) *out = a > b ? a : b;
    else if (strcmp(name, "cdiv") != 0 || a < 0 || b <= 0) return false;
    else *out = a / b + (a % b != 0);
    return true;
}

static bool value_of(Known *k, const Node *n, int64_t *out)
{
    int64_t a, b;
    if (k->steps-- <= 0) return false;
    const Node *known = n->kind == N_NAME ? constant(k, n->name) : NULL;
    if (known) return value_of(k, known, out);
    if (n->kind == N_NAME) return k->number(k->user, n->name, out);
    if (n->kind == N_INT) {
        *out = (int64_t)n->u;
        return n->u <= INT64_MAX;
    }
    if ((n->kind != N_BINARY && n->kind != N_CALL) || n->n != 2) return false;
    if (!value_of(k, n->kids[0], &a) || !value_of(k, n->kids[1], &b)) return false;
    return n->kind == N_BINARY ? binary(n->op, a, b, out) : call(n->name, a, b, out);
}

/* The extent by the first of the terms that tells it. */
static bool told(Known *k, const Node *condition, const char *dim, int64_t *extent)
{
    if (condition->kind != N_BINARY) return false;
    const Node *left = condition->kids[0], *right = condition->kids[1];
    if (condition->op == OPR_LAND) return told(k, left, dim, extent) || told(k, right, dim, extent);
    return condition->op == OPR_EQ && left->kind == N_NAME && !strcmp(left->name, dim) &&
           value_of(k, right, extent) && *extent > 0;
}

static bool is_comparison(int op)
{ return op == OPR_EQ || op == OPR_NE || op == OPR_LT || op == OPR_LE || op == OPR_GT || op == OPR_GE; }

static bool compares(int op, int64_t a, int64_t b)
{
    if (op == OPR_EQ || op == OPR_NE) return (a == b) == (op == OPR_EQ);
    if (op == OPR_LT || op == OPR_GE) return (a < b) == (op == OPR_LT);
    return (a > b) == (op == OPR_GT);
}

/* Whether the condition is known to be false. */
static bool refuted(Known *k, const Node *condition)
{
    int64_t a, b;
    if (condition->kind != N_BINARY) return false;
    const Node *left = condition->kids[0], *right = condition->kids[1];
    if (condition->op == OPR_LAND) return refuted(k, left) || refuted(k, right);
    if (condition->op == OPR_LOR) return refuted(k, left) && refuted(k, right);
    return is_comparison(condition->op) && value_of(k, left, &a) && value_of(k, right, &b) &&
           !compares(condition->op, a, b);
}

/* The condition of an assert; NULL: the statement is none. */
static const Node *asserted(const Node *statement)
{
    const Node *c = statement && statement->kind == N_EXPR ? statement->kids[0] : NULL;
    return c && c->kind == N_CALL && !strcmp(c->name, "assert") && c->n ? c->kids[0] : NULL;
}

bool frontend_asserts_refuted(const Ast *ast, const FrontKernel *kernel, FrontNumberFn *number, void *user)
{
    Known k = { ast, program_kernel_node(ast, kernel)->kids[2], number, user, MOST_STEPS };
    for (uint32_t i = 0; i < k.body->n; i++) {
        const Node *c = asserted(k.body->kids[i]);
        if (c && refuted(&k, c)) return true;
    }
    return false;
}

bool frontend_asserted_extent(const Ast *ast, const FrontKernel *kernel, const char *dim,
    FrontNumberFn *number, void *user, int64_t *extent)
{
    Known k = { ast, program_kernel_node(ast, kernel)->kids[2], number, user, MOST_STEPS };
    for (uint32_t i = 0; i < k.body->n; i++) {
        const Node *c = asserted(k.body->kids[i]);
        if (c && told(&k, c, dim, extent)) return true;
    }
    return false;
}
