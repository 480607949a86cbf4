/* lower_flow.c: what lowering asks of statements before it lowers them: whether they return, and which
 * variables they may change. */
#include "frontend/lower/lower_flow.h"

bool flow_returns(const Node *n)
{
    if (!n) return false;
    if (n->kind == N_RETURN) return true;
    if (n->kind < N_BLOCK) return false;
    for (uint32_t i = 0; i < n->n; i++)
        if (flow_returns(n->kids[i])) return true;
    return false;
}

bool flow_branch_returns(Branch b)
{
    bool r = flow_returns(b.body);
    for (uint32_t i = b.from; i < b.n && !r; i++) r = flow_returns(b.rest[i]);
    return r;
}

bool flow_always_returns(const Node *n)
{
    if (!n) return false;
    if (n->kind == N_RETURN) return true;
    if (n->kind == N_IF) return flow_always_returns(n->kids[1]) && flow_always_returns(n->kids[2]);
    if (n->kind == N_BLOCK)
        for (uint32_t i = 0; i < n->n; i++)
            if (flow_always_returns(n->kids[i])) return true;
    return false;
}

static void add_var(Lower *l, Vars *vars, Var *v)
{
    if (v->mark == l->mark) return;
    v->mark = l->mark;
    vec_push(&l->s->arena, vars, v);
}

static void collect_assigned(Lower *l, const Node *n, Vars *vars)
{
    if (!n) return;
    if (n->kind == N_ASSIGN) {
        const Node *t = n->kids[0];
        for (uint32_t i = 0; i < (t->kind == N_TUPLE ? t->n : 1); i++) {
            const Node *name = t->kind == N_TUPLE ? t->kids[i] : t;
            bool element = name->kind == N_INDEX && name->kids[0]->kind == N_NAME;
            Var *v = element                ? lower_scope_find(l, name->kids[0]->name)
                     : name->kind == N_NAME ? lower_scope_find(l, name->name)
                                            : NULL;
            for (int e = 0; v && e < v->n_elements; e++) add_var(l, vars, &v->elements[e]);
            if (v && v->is_var && !element) add_var(l, vars, v);
        }
        return;
    }
    if (n->kind < N_BLOCK) return;
    for (uint32_t i = 0; i < n->n; i++) collect_assigned(l, n->kids[i], vars);
}

Vars flow_changeable(Lower *l, const Branch *b, int n)
{
    Vars vars = { 0 };
    bool returns = false;
    l->mark++;
    for (int k = 0; k < n; k++) {
        collect_assigned(l, b[k].body, &vars);
        for (uint32_t i = b[k].from; i < b[k].n; i++) collect_assigned(l, b[k].rest[i], &vars);
        returns |= flow_branch_returns(b[k]);
    }
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].token.v.kind == V_IR) vec_push(&l->s->arena, &vars, &l->params[i].token);
    if (returns) {
        vec_push(&l->s->arena, &vars, &l->frame->done);
        for (int i = 0; i < MAX_RETURNS; i++) vec_push(&l->s->arena, &vars, &l->frame->returns[i]);
    }
    return vars;
}

V *flow_values(Lower *l, Vars vars)
{
    V *v = arena_array(&l->s->arena, V, vars.len + 1);
    for (size_t i = 0; i < vars.len; i++) v[i] = vars.data[i]->v;
    return v;
}

void flow_set_values(Vars vars, const V *v)
{
    for (size_t i = 0; i < vars.len; i++) vars.data[i]->v = v[i];
}

bool flow_same(V a, V b)
{
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_IR: return a.value == b.value;
    case V_INT: return a.big == b.big;
    case V_FLOAT: return a.f == b.f;
    case V_CONST: return a.dtype == b.dtype && scalar_bits(a.dtype, a.c) == scalar_bits(b.dtype, b.c);
    case V_TYPE: return a.dtype == b.dtype;
    case V_VOID:
    case V_ERROR:
    case V_NONE: return true;
    case V_TUPLE:
    case V_TENSOR:
    case V_ABSENT:
    case V_STRING:
    case V_TABLE: return false;
    }
    return false;
}

bool flow_done_known(const Lower *l, bool *value) { return value_to_bool(l->frame->done.v, value); }
bool flow_done(const Lower *l)
{
    bool d;
    return flow_done_known(l, &d) && d;
}

bool flow_too_many(Lower *l, Loc loc, size_t n)
{
    if (n <= IR_MAX_RESULTS - 2) return false;
    lower_error(l, loc, "more than %d variables change in this statement", IR_MAX_RESULTS - 2);
    return true;
}

bool lower_enter_blocks(Lower *l, Loc loc, int levels)
{
    if (l->nesting + levels > LIMIT_BLOCKS) {
        lower_error_note(l, loc, "early returns in loops and called functions count too",
            "loops and ifs are nested more than %d deep", LIMIT_BLOCKS);
        l->stopped = true;
        return false;
    }
    l->nesting += levels;
    if (l->nesting > l->deepest) l->deepest = l->nesting;
    return true;
}

void lower_leave_blocks(Lower *l, int levels) { l->nesting -= levels; }

V flow_zero(Lower *l, const Type *t)
{
    Value *z =
        dtype_is_float(t->dtype) ? ir_const_float(&l->b, t->dtype, 0) : ir_const_int(&l->b, t->dtype, 0);
    return value_ir(t->kind == TYPE_TILE ? ir_splat(&l->b, z, t->rank, t->shape) : z);
}

const Type *flow_type(Lower *l, V v)
{ return v.kind == V_IR ? v.value->type : v.kind == V_CONST ? type_scalar(l->s, v.dtype) : NULL; }
void flow_attach(Instr *i, int k, Block *b)
{
    i->blocks[k] = b;
    b->parent = i;
}

bool flow_condition(Lower *l, const Node *n, const char *what, V *out)
{
    *out = lower_expr(l, n);
    if (out->kind == V_ERROR) return false;
    if ((out->kind != V_CONST && out->kind != V_IR) || value_dtype(*out) != DT_BOOL) {
        lower_error_note(l, n->loc, lower_condition_note(l, n, *out),
            "the condition of `%s` must be bool, not %s", what, value_describe(l, *out));
        return false;
    }
    if (!value_rank(*out)) return true;
    lower_error_note(l, n->loc, "reduce it: any(...) or all(...), or choose by element with where(...)",
        "the condition of `%s` must be a scalar, not %s", what, value_describe(l, *out));
    return false;
}
