/* lower_optional.c: optional tensors, `in T X[N]?`. Whether one is given is known while a kernel is lowered:
 * it is bound by name to true or false. One that is not given keeps its place among the parameters as a
 * tensor of extents 0, so that arguments keep their numbers; it binds no dimension, and only `has` may ask
 * for it. */
#include "frontend/lower/lower_clauses.h"

static bool is_absent(const Lower *l, const char *name)
{ return frontend_absent(l->bindings, l->n_bindings, name); }

static V absent(const char *name) { return (V){ .kind = V_ABSENT, .text = name }; }

void lower_presence(Lower *l, const Node *params)
{
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        V given = { .kind = V_TENSOR, .param = -1 };
        if (p->kind == N_PTENSOR && p->u)
            lower_scope_add(l, p->name, p->name_loc, is_absent(l, p->name) ? absent(p->name) : given, false);
    }
}

void lower_absent_tensor(Lower *l, const Node *p)
{
    int dims[TILE_MAX_RANK], rank = (int)p->n - 1, index = l->func->n_params;
    DType d = DT_F32;
    lower_param_type(l, p->kids[0], &d);
    for (int a = 0; a < rank; a++) dims[a] = ir_dim_new(l->func, NULL, 0);
    ParamKind kind = p->op == IO_IN ? PARAM_IN : p->op == IO_OUT ? PARAM_OUT : PARAM_INOUT;
    const Type *t = type_tensor(l->s, d, rank);
    ir_param_new(l->func, p->name, kind, t, dims);
    l->func->params[index].loc = p->loc;
    l->params[l->n_params++] = (KParam){
        .var = lower_scope_add(l, p->name, p->name_loc, absent(p->name), false), .kind = kind, .type = t
    };
}

bool lower_is_absent(Lower *l, const Node *n, V v)
{
    if (v.kind != V_ABSENT) return false;
    const char *here = n->kind == N_NAME ? n->name : v.text;
    lower_error_note(l, n->loc,
        arena_printf(
            &l->s->arena, "`const if has(%s) { ... }` or `has(%s) ? ... : ...` guards its use", here, here),
        "the optional tensor `%s` is not given in this specialization", v.text);
    return true;
}

static bool names(const FrontParam *p, const char *dim)
{
    for (int a = 0; a < p->rank; a++)
        if (p->dims[a].name && !strcmp(p->dims[a].name, dim)) return true;
    return false;
}

bool lower_dim_is_given(const Lower *l, const FrontKernel *k, const char *dim)
{
    for (int i = 0; i < k->n_params; i++)
        if (names(&k->params[i], dim) && !(k->params[i].optional && is_absent(l, k->params[i].name)))
            return true;
    return false;
}

/* A dimension that was bound by name has its value all the same. */
bool lower_absent_dim(Lower *l, const Node *n, V *out)
{
    const FrontKernel *k = l->front;
    const FrontParam *owner = NULL;
    for (int i = 0; k && i < k->n_params && !owner; i++)
        if (names(&k->params[i], n->name)) owner = &k->params[i];
    if (!owner || lower_dim_is_given(l, k, n->name)) return false;
    const FrontValue *b = lower_find_binding(l, n->name);
    if (b && b->kind == FRONT_INT) *out = value_index(b->i);
    else
        *out = lower_error_note(l, n->loc,
            arena_printf(&l->s->arena,
                "`const if has(%s) { ... }` guards its use; a tensor that is always given, or %s %s=..., "
                "makes it known",
                owner->name, lower_binder(l), n->name),
            "dimension `%s` is not known: `%s`, which has it, is not given in this specialization", n->name,
            owner->name);
    return true;
}

V lower_has(Lower *l, const Call *c)
{
    V v = lower_expr(l, ARG(c, 0));
    if (v.kind == V_ERROR) return v;
    if (v.kind == V_TENSOR || v.kind == V_ABSENT) return value_bool(v.kind == V_TENSOR);
    return lower_error(l, ARG(c, 0)->loc, "`has` takes a tensor, not %s", value_describe(l, v));
}
