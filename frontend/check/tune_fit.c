/* tune_fit.c: the entry `fit (TM = 8, TN = 8)` of a tune block. Between the values that their domains list,
 * multiples of these steps may be chosen too: sizes of tiles into which the extents of a launch divide better
 * (runtime/choice/search/search_sizes.c). */
#include "frontend/check/check.h"
#include "frontend/program_info.h"

enum { MOST_STEP = 1 << 16 };

static const Node *domain_named(const Node *block, const char *name)
{
    for (uint32_t i = 0; i < block->n; i++)
        if (block->kids[i]->kind == N_DOMAIN && block->kids[i]->name == name) return block->kids[i];
    return NULL;
}

void check_fit(Check *c, const Node *block, const Node *e)
{
    const Node *args = e->kids[0];
    if (!args->n) check_fault(c, e->loc, "`fit` names no constant");
    for (uint32_t k = 0; k < args->n; k++) {
        const Node *a = args->kids[k];
        if (a->kind != N_ARG) {
            check_note(c, check_fault(c, a->loc, "`fit` gives a step to each constant by its name"),
                "fit (TM = 8, TN = 8)");
            continue;
        }
        if (!domain_named(block, a->name))
            check_fault(c, a->name_loc, "`%s` has no domain, between whose values one may fit", a->name);
        for (uint32_t j = 0; j < k; j++)
            if (args->kids[j]->name == a->name)
                check_fault(c, a->name_loc, "`fit` names `%s` twice", a->name);
        const Node *step = a->kids[0];
        if (step->kind != N_INT || step->u < 1 || step->u > MOST_STEP)
            check_fault(c, step->loc, "a step of `fit` is a number from 1 to %d", MOST_STEP);
    }
}

void describe_fit(const Node *block, FrontDomain *domains, int n)
{
    for (uint32_t i = 0; i < block->n; i++) {
        const Node *e = block->kids[i];
        if (e->kind != N_CLAUSE || strcmp(e->name, "fit")) continue;
        for (uint32_t k = 0; k < e->kids[0]->n; k++)
            for (int d = 0; d < n; d++)
                if (domains[d].name == e->kids[0]->kids[k]->name)
                    domains[d].step = (int64_t)e->kids[0]->kids[k]->kids[0]->u;
    }
}
