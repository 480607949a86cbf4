/* require.c: the condition of a `tune` block's `require`, and its parts. */
#include <string.h>
#include "frontend/lower/lower.h"
#include "frontend/program.h"
#include "frontend/program_info.h"

FrontJoin frontend_condition_parts(const FrontCondition *c, const FrontCondition *part[3])
{
    FrontJoin join = c->kind == N_COND                          ? FRONT_SELECT
                     : c->kind == N_BINARY && c->op == OPR_LAND ? FRONT_ALL
                     : c->kind == N_BINARY && c->op == OPR_LOR  ? FRONT_ANY
                                                                : FRONT_ASK;
    for (uint32_t k = 0; k < c->n && join != FRONT_ASK; k++) part[k] = c->kids[k];
    return join;
}

/* Parts that decide nothing are not asked: they may divide by zero. */
bool program_condition_holds(Lower *eval, const Node *c)
{
    const Node *part[3] = { NULL };
    bool ok = false;
    switch (frontend_condition_parts(c, part)) {
    case FRONT_ALL: return program_condition_holds(eval, part[0]) && program_condition_holds(eval, part[1]);
    case FRONT_ANY: return program_condition_holds(eval, part[0]) || program_condition_holds(eval, part[1]);
    case FRONT_SELECT:
        return program_condition_holds(eval, part[program_condition_holds(eval, part[0]) ? 1 : 2]);
    case FRONT_ASK: break;
    }
    return lower_const_bool(eval, c, "the condition of `require`", &ok) && ok;
}

const FrontCondition *frontend_require(const Ast *ast, const FrontTune *t)
{
    const KernelInfo *info = program_info(ast, t->kernel);
    return info->configs.n || info->n_autos ? NULL : info->require;
}

bool frontend_condition_names(const Ast *ast, const FrontTune *t, const FrontCondition *c, const char *name)
{ return program_depends(program_info(ast, t->kernel)->node->kids[0], c, name); }

struct FrontAsk {
    Lower *eval;
    const Node *kernel, *consts; /* consts: the parameters that the condition depends on */
    const FrontCondition *condition;
};

/* Whether the type or the default of the parameter has the name of another one. */
static bool needs(const Node *p, const char *name)
{ return !strcmp(p->kids[0]->name ? p->kids[0]->name : "", name) || program_mentions(p->kids[1], name); }

FrontAsk *frontend_ask_begin(Ast *ast, const FrontTune *t, const FrontCondition *c)
{
    Arena *arena = &ast->session->arena;
    const Node *kernel = program_info(ast, t->kernel)->node, *params = kernel->kids[0];
    Node *consts = arena_new(arena, Node), **kids = arena_array(arena, Node *, (size_t)params->n + 1);
    FrontAsk *a = arena_new(arena, FrontAsk);
    *consts = *params;
    consts->kids = kids + params->n;
    consts->n = 0;
    for (uint32_t i = params->n; i-- > 0;) {
        Node *p = params->kids[i];
        bool needed = p->kind == N_PCONST && program_mentions(c, p->name);
        for (uint32_t k = 0; k < consts->n && p->kind == N_PCONST; k++)
            needed |= needs(consts->kids[k], p->name);
        if (!needed) continue;
        *--consts->kids = p;
        consts->n++;
    }
    *a = (FrontAsk){ lower_eval_begin(ast, NULL, NULL, 0), kernel, consts, c };
    return a;
}

bool frontend_ask(FrontAsk *a, const FrontBinding *bindings, int n)
{
    lower_eval_again(a->eval, a->kernel, a->consts, bindings, (size_t)n);
    return program_condition_holds(a->eval, a->condition);
}
