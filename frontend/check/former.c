/* former.c: hints by the names that they had before (ir/former_names.def). The tree gets today's names right
 * behind the parser, with one warning a kernel and name, so that nothing behind it knows the old ones. */
#include "frontend/parse/ast.h"
#include "frontend/parse/parse.h"
#include "ir/former_names.h"
#include <string.h>

static const char *current(Session *s, const char *name)
{
    const char *now = name ? former_name(FORMER_HINT, name, strlen(name)) : NULL;
    return now ? session_intern(s, now, strlen(now)) : NULL;
}

static void rename_node(Session *s, Node *n, bool warn)
{
    const char *now = current(s, n->name);
    if (!now) return;
    if (warn)
        diag_warning(s, n->name_loc,
            "the hint `%s` is called `%s` now; the old name is accepted in this version", n->name, now);
    n->name = now;
}

/* Names in the expressions of a tune block; the domain that declares one has warned already. */
static void rename_uses(Session *s, Node *n)
{
    if (n->kind == N_NAME) rename_node(s, n, false);
    for (uint32_t i = 0; i < n->n; i++)
        if (n->kids[i]) rename_uses(s, n->kids[i]);
}

/* Whether the kernel declares a const of this name, which is then no hint. */
static bool declares(const Node *kernel, const char *name)
{
    const Node *params = kernel->kids[0];
    for (uint32_t i = 0; i < params->n; i++)
        if (params->kids[i]->name && !strcmp(params->kids[i]->name, name)) return true;
    return false;
}

static const Node *kernel_of(const Ast *ast, const Node *tune)
{
    for (size_t i = 0; i < ast->items.len; i++)
        if (ast->items.data[i]->kind == N_KERNEL && ast->items.data[i]->name == tune->name)
            return ast->items.data[i];
    return NULL;
}

static void rename_in_tune(const Ast *ast, Node *tune)
{
    const Node *kernel = kernel_of(ast, tune);
    bool found = false;
    for (uint32_t i = 0; i < tune->n; i++) {
        Node *d = tune->kids[i];
        if (d->kind != N_DOMAIN || (kernel && declares(kernel, d->name)) || !current(ast->session, d->name))
            continue;
        rename_node(ast->session, d, true);
        found = true;
    }
    for (uint32_t i = 0; found && i < tune->n; i++)
        if (tune->kids[i]->kind == N_CLAUSE) rename_uses(ast->session, tune->kids[i]);
}

void rename_former_hints(Ast *ast)
{
    for (size_t i = 0; i < ast->items.len; i++) {
        Node *n = ast->items.data[i];
        if (n->kind == N_TUNE) rename_in_tune(ast, n);
        if (n->kind != N_KERNEL) continue;
        const Node *clauses = n->kids[1];
        for (uint32_t k = 0; k < clauses->n; k++) {
            if (strcmp(clauses->kids[k]->name, "hint")) continue;
            const Node *args = clauses->kids[k]->kids[0];
            for (uint32_t a = 0; a < args->n; a++)
                if (args->kids[a]->kind == N_ARG) rename_node(ast->session, args->kids[a], true);
        }
    }
}
