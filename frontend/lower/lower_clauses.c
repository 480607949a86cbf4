/* lower_clauses.c: the clauses of a kernel: grid, remap and hints, and the extents that a launch derives. */
#include "frontend/lower/lower.h"
#include "frontend/lower/lower_clauses.h"
#include "ir/interp/eval.h"
#include "ir/hints.h"

void lower_enter_block(Lower *l, Block *block, int first)
{
    l->args = block->args + first;
    l->b = ir_at_end(block);
    l->b.loc = l->func->loc;
    memset(l->dims, 0, sizeof *l->dims * (size_t)l->func->n_dims);
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].var->v.kind == V_IR) l->params[i].var->v = value_ir(l->args[i]);
}

static void add_param_args(Lower *l, Block *b)
{
    for (int i = 0; i < l->n_params; i++) ir_block_arg(b, l->params[i].type, l->func->params[i].name);
}

const Node *lower_find_clause(const Node *kernel, const char *name)
{
    const Node *clauses = kernel->kids[1];
    for (uint32_t i = 0; i < clauses->n; i++)
        if (!strcmp(clauses->kids[i]->name, name)) return clauses->kids[i];
    return NULL;
}

void lower_extents(Lower *l, const Node *params, const FrontKernel *front)
{
    Value *values[EVAL_MAX_RESULTS];
    int n = 0;
    for (int d = 0; d < l->func->n_dims; d++) n += l->func->dims[d].text != NULL;
    if (!n) return;
    n = 0;
    Block *b = ir_block_new(l->func, NULL);
    add_param_args(l, b);
    lower_enter_block(l, b, 0);
    l->in_clause = true;
    for (int d = 0; d < l->func->n_dims; d++) {
        const Node *found = NULL;
        for (uint32_t i = 0; i < params->n && l->func->dims[d].text; i++)
            for (int a = 0; a < front->params[i].rank && !found; a++)
                if (front->params[i].dims[a].derived >= 0 &&
                    !strcmp(front->params[i].dims[a].text, l->func->dims[d].text))
                    found = params->kids[i]->kids[a + 1];
        Value *v = found ? lower_index_value(l, found, "the extent of a tensor") : NULL;
        if (v) values[n++] = v;
    }
    l->in_clause = false;
    ir_build(&l->b, OP_YIELD, values, n, NO_ATTRS, NULL, 0);
    l->func->extents = b;
}

void lower_grid(Lower *l, const Node *clause)
{
    Block *b = ir_block_new(l->func, NULL);
    Value *extents[3];
    const Node *args = clause->kids[0];
    add_param_args(l, b);
    lower_enter_block(l, b, 0);
    l->in_clause = true;
    int n = 0;
    for (uint32_t i = 0; i < args->n && i < 3; i++) {
        Value *v = lower_index_value(l, args->kids[i], "a grid extent");
        if (v) extents[n++] = v;
    }
    l->b.loc = clause->loc;
    ir_build(&l->b, OP_YIELD, extents, n, NO_ATTRS, NULL, 0);
    l->func->grid = b;
    l->in_clause = false;
}

/* The names of a formula behind that of the program: the number of programs, and the extents of the grid. */
static void add_counts(Lower *l, const Node *names)
{
    int rank = ir_terminator(l->func->grid)->n_operands;
    for (uint32_t k = 1; k < names->n; k++) {
        int axis = (int)k - 2;
        V v = axis >= rank
                  ? value_index(1)
                  : value_ir(ir_emit(&l->b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, axis)), NULL));
        lower_scope_add(l, names->kids[k]->name, names->kids[k]->loc, v, false);
    }
}

void lower_remap(Lower *l, const Node *clause)
{
    Block *b = ir_block_new(l->func, NULL);
    const Node *name = clause->kids[0]->n ? clause->kids[0]->kids[0] : NULL;
    if (!clause->kids[0]->n) {
        l->func->hints.remap = clause->kids[1]->name;
        return;
    }
    Value *id = ir_block_arg(b, type_scalar(l->s, DT_INDEX), name->name);
    Scope inner;
    add_param_args(l, b);
    lower_enter_block(l, b, 1);
    l->in_clause = true;
    lower_scope_push(l, &inner);
    lower_scope_add(l, name->name, name->loc, value_ir(id), false);
    add_counts(l, clause->kids[0]);
    Value *v = lower_index_value(l, clause->kids[1], "the result of remap");
    lower_scope_pop(l);
    l->in_clause = false;
    l->b.loc = clause->loc;
    if (v) ir_build(&l->b, OP_YIELD, &v, 1, NO_ATTRS, NULL, 0);
    l->func->remap = b;
}

/* The clause's argument `name` for this target: a chip's before its family's before the plain one. */
const Node *lower_hint_argument(const Lower *l, const Node *clause, const char *name)
{
    const Node *best = NULL;
    int best_rank = -1;
    for (uint32_t i = 0; clause && i < clause->kids[0]->n; i++) {
        const Node *a = clause->kids[0]->kids[i];
        if (a->kind != N_ARG || strcmp(a->name, name)) continue;
        int rank = a->text2 ? call_target_match(a->text2, l->target) : 0;
        if ((a->text2 && !rank) || rank <= best_rank) continue;
        best = a->kids[0];
        best_rank = rank;
    }
    return best;
}

static void lower_hint(
    Lower *l, const Node *clause, const char *argument, const char *binding, int64_t most, int base, int *out)
{
    const FrontValue *b = lower_find_binding(l, binding);
    int64_t v;
    if (b && b->kind == FRONT_INT && !lower_scope_find(l, session_intern(l->s, binding, strlen(binding)))) {
        if (b->i >= 0 && b->i <= most) *out = (int)b->i + base;
        else
            lower_error(l, l->func->loc, "hint `%s` must be from 0 to %lld, not %lld", binding,
                (long long)most, (long long)b->i);
        return;
    }
    const Node *a = lower_hint_argument(l, clause, argument);
    if (a && lower_const_int(l, a, argument, 0, most, &v)) *out = (int)v + base;
}

void lower_hints(Lower *l, const Node *kernel)
{
    Hints *h = &l->func->hints;
    const Node *hint = lower_find_clause(kernel, "hint"), *raster = lower_find_clause(kernel, "raster");
#define HINT(name, most, base, search, reader) \
    lower_hint(l, &h->name == &h->raster_group ? raster : hint, \
        &h->name == &h->raster_group ? "group" : #name, #name, most, base, &h->name);
#include "ir/hints.def"
#undef HINT
    const FrontValue *placement = lower_find_binding(l, "remap");
    if (placement && placement->kind == FRONT_TEXT) h->remap = placement->text;
    const Node *schedule = lower_hint_argument(l, hint, "schedule");
    if (schedule && schedule->kind == N_STRING) h->schedule = schedule->name;
    else if (schedule) lower_error(l, schedule->loc, "schedule is a string");
}
