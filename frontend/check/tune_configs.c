/* tune_configs.c: the `config (...)` entries of a tune block, each a whole configuration. Their names become
 * domains with all values that the entries give them, and of the products only those that an entry lists are
 * configurations. */
#include "frontend/check/check.h"
#include "frontend/program_info.h"

static bool is_config(const Node *e) { return e->kind == N_CLAUSE && !strcmp(e->name, "config"); }

static const Node *argument(const Node *config, const char *name)
{
    for (uint32_t i = 0; i < config->kids[0]->n; i++)
        if (config->kids[0]->kids[i]->name == name) return config->kids[0]->kids[i];
    return NULL;
}

static void check_argument(Check *c, const Node *block, const Node *e, uint32_t at, const Node *kernel)
{
    const Node *a = e->kids[0]->kids[at];
    bool known = false;
    if (a->kind != N_ARG) {
        check_note(c, check_fault(c, a->loc, "a configuration gives its values by name"),
            "config (TM = 128, TN = 64)");
        return;
    }
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++)
        known |= kernel->kids[0]->kids[i]->kind == N_PCONST && kernel->kids[0]->kids[i]->name == a->name;
    if (!known && !check_is_dimension(kernel, a->name) && !frontend_hint_name(a->name))
        check_fault(
            c, a->name_loc, "kernel `%s` has no const, type or dimension `%s`", kernel->name, a->name);
    for (uint32_t i = 0; i < block->n; i++)
        if (block->kids[i]->kind == N_DOMAIN && block->kids[i]->name == a->name)
            check_fault(c, a->name_loc, "`%s` has a domain, and its value is given here too", a->name);
    for (uint32_t k = 0; k < at; k++)
        if (e->kids[0]->kids[k]->name == a->name)
            check_fault(c, a->name_loc, "the configuration gives `%s` twice", a->name);
    if (check_is_placement(kernel, a->name)) check_placement(c, a->kids[0]);
    else check_expr(c, a->kids[0]);
}

void check_configs(Check *c, const Node *block, const Node *kernel)
{
    const Node *first = NULL;
    for (uint32_t i = 0; i < block->n && !diag_full(c->s); i++) {
        const Node *e = block->kids[i];
        if (!is_config(e)) continue;
        if (!e->kids[0]->n) check_fault(c, e->loc, "the configuration gives no value");
        for (uint32_t k = 0; k < e->kids[0]->n; k++) check_argument(c, block, e, k, kernel);
        for (uint32_t k = 0; first && k < first->kids[0]->n; k++)
            if (!argument(e, first->kids[0]->kids[k]->name))
                diag_note(c->s,
                    check_fault(c, e->loc, "the configuration gives no value for `%s`",
                        first->kids[0]->kids[k]->name),
                    first->loc, "the first one does");
        if (first && e->kids[0]->n > first->kids[0]->n)
            diag_note(c->s, check_fault(c, e->loc, "the configuration has more names than the first one"),
                first->loc, "first here");
        if (!first) first = e;
    }
}

static bool same(FrontValue a, FrontValue b)
{
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case FRONT_INT:
    case FRONT_UINT: return a.i == b.i;
    case FRONT_FLOAT: return a.f == b.f;
    case FRONT_BOOL: return a.b == b.b;
    case FRONT_TYPE: return a.type == b.type;
    case FRONT_TEXT: return !strcmp(a.text, b.text);
    case FRONT_NOTHING: return true;
    }
    return false;
}

static FrontValue value_of(Lower *eval, const Node *kernel, const Node *arg)
{
    const Node *param = NULL;
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++)
        if (program_takes_value(kernel->kids[0]->kids[i]) && kernel->kids[0]->kids[i]->name == arg->name)
            param = kernel->kids[0]->kids[i];
    return lower_eval_domain_value(eval, check_is_placement(kernel, arg->name), param, arg->kids[0]);
}

int describe_configs(Session *s, Lower *eval, KernelInfo *info, const Node *block, FrontDomain *out)
{
    const Node *first = NULL;
    int n = 0, names = 0;
    for (uint32_t i = 0; i < block->n; i++) {
        if (!is_config(block->kids[i])) continue;
        if (!first) first = block->kids[i];
        n++;
    }
    if (!first) return 0;
    names = (int)first->kids[0]->n;
    TuneConfigs *t = &info->configs;
    t->n = n;
    t->n_names = names;
    t->values = arena_array(&s->arena, FrontValue, (size_t)n * (size_t)names + 1);
    for (int d = 0; d < names; d++) {
        const Node *at = first->kids[0]->kids[d];
        FrontValue *values = arena_array(&s->arena, FrontValue, (size_t)n + 1);
        out[d] = (FrontDomain){ .name = at->name, .values = values, .loc = at->loc };
        int k = 0;
        for (uint32_t i = 0; i < block->n; i++) {
            if (!is_config(block->kids[i])) continue;
            FrontValue v = value_of(eval, info->node, argument(block->kids[i], at->name));
            bool known = false;
            for (int j = 0; j < out[d].n; j++) known |= same(values[j], v);
            if (!known) values[out[d].n++] = v;
            t->values[k++ * names + d] = v;
        }
    }
    return names;
}

/* The names of the entries are the first of the block's domains. */
bool configs_list(const TuneConfigs *t, const FrontBinding *config)
{
    for (int k = 0; k < t->n; k++) {
        int d = 0;
        while (d < t->n_names && same(t->values[k * t->n_names + d], config[d].value)) d++;
        if (d == t->n_names) return true;
    }
    return t->n == 0;
}
