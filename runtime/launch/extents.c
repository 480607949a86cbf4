/* extents.c: the extents that a launch wants of one of its tensors, from the arguments that are there: what a
 * caller allocates an output by. It evaluates the kernel's clauses and compiles no body. */
#define _GNU_SOURCE
#include "runtime/launch/launch.h"

typedef struct Wanted {
    tile_kernel *k;
    const tile_arg *args;
    size_t param;
    int64_t *extents;
} Wanted;

static bool shape_of(const tile_arg *a, int rank, const int64_t **shape)
{
    const DLTensor *d = a->kind == TILE_ARG_DLTENSOR ? a->value.dltensor : NULL;
    const tile_tensor *t = a->kind == TILE_ARG_TENSOR ? a->value.tensor : NULL;
    *shape = d ? d->shape : t ? t->shape : NULL;
    return *shape && (d ? d->ndim : t->rank < 0 ? rank : t->rank) == rank;
}

/* Binds the dimensions that tensors name, and which optional tensors are given. Bindings of the caller stay.
 * */
static FrontBinding *known_dims(const Wanted *w, Arena *arena, size_t *n)
{
    const tile_kernel *k = w->k;
    FrontBinding *b = arena_array(arena, FrontBinding, (size_t)(k->n_bindings + k->n_dims + k->n_params) + 1);
    bool *seen = arena_array(arena, bool, (size_t)k->n_dims + 1);
    memcpy(b, k->bindings, (size_t)k->n_bindings * sizeof *b);
    *n = (size_t)k->n_bindings;
    for (int i = 0; i < k->n_params; i++) {
        const int64_t *shape;
        bool given = (size_t)i == w->param || w->args[i].kind != TILE_ARG_NONE;
        if (k->params[i].optional && k->params[i].bound < 0)
            b[(*n)++] = (FrontBinding){ k->params[i].name, { FRONT_BOOL, { .b = given } } };
        if (k->params[i].kind == PARAM_SCALAR || (size_t)i == w->param ||
            !shape_of(&w->args[i], k->params[i].rank, &shape))
            continue;
        for (int a = 0; a < k->params[i].rank; a++) {
            int d = k->params[i].dim[a];
            if (d < 0 || d >= k->front->n_dims || k->dims[d].bound >= 0 || seen[d] || shape[a] < 0) continue;
            seen[d] = true;
            b[(*n)++] = (FrontBinding){ k->dims[d].name, { FRONT_INT, { .i = shape[a] } } };
        }
    }
    return b;
}

/* A dimension without an extent on which a value of the block of extents depends; NULL: there is none. */
static const Dim *unknown_in(const Func *f, const Value *v)
{
    const Dim *found = NULL;
    const Instr *i = v->def;
    if (!i) return NULL;
    if (i->op == OP_DIM) {
        const Dim *d = &f->dims[ir_attr_int(i, ATTR_DIM, 0)];
        return d->extent < 0 ? d : NULL;
    }
    for (int k = 0; k < i->n_operands && !found; k++) found = unknown_in(f, ir_operand(i, k));
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x && !found; x = x->next)
            for (int k = 0; k < x->n_operands && !found; k++) found = unknown_in(f, ir_operand(x, k));
    return found;
}

static tile_status derive(const Wanted *w, const Func *f, Session *s, int64_t *values)
{
    tile_kernel *k = w->k;
    Scalar *scalars = arena_array(&s->arena, Scalar, (size_t)k->n_params + 1);
    int64_t *dims = arena_array(&s->arena, int64_t, (size_t)f->n_dims + 1);
    if (!f->extents) return TILE_OK;
    for (int d = 0; d < f->n_dims; d++) dims[d] = f->dims[d].extent < 0 ? 0 : f->dims[d].extent;
    for (int i = 0; i < k->n_params; i++) {
        View ignored;
        if (k->params[i].kind != PARAM_SCALAR || !w->args[i].kind) continue;
        tile_status st = launch_scalar_value(k, i, &w->args[i], &ignored, &scalars[i]);
        if (st) return st;
    }
    EvalEnv env = { .dims = dims, .scalars = scalars };
    if (!ir_eval_block(f, f->extents, &env, values, ir_terminator(f->extents)->n_operands))
        return launch_bad(k, TILE_ERROR_SHAPE, -1, "the expression of an extent does not end");
    return TILE_OK;
}

static tile_status find_extents(const Wanted *w, const Func *f, Session *s)
{
    tile_kernel *k = w->k;
    int64_t values[EVAL_MAX_RESULTS];
    const Param *p = &f->params[w->param];
    int me = (int)w->param;
    tile_status st = derive(w, f, s, values);
    for (int a = 0; a < p->type->rank && !st; a++) {
        const Dim *d = &f->dims[p->dims[a]], *missing = d->extent < 0 && !d->text ? d : NULL;
        const Value *v = ir_dim_value(f, p->dims[a]);
        int n = 0;
        if (v) missing = unknown_in(f, v);
        for (const Dim *x = f->dims; x < d; x++) n += x->text != NULL;
        if (missing)
            return launch_bad(k, TILE_ERROR_SHAPE, me,
                "dimension %s is not known: no tensor that is given has it, and no binding names it (%s=...)",
                missing->name, missing->name);
        w->extents[a] = v ? values[n] : d->extent;
        if (w->extents[a] < 0)
            return launch_bad(k, TILE_ERROR_SHAPE, me, "axis %d (%s) would have %lld elements", a,
                k->params[me].text[a], (long long)w->extents[a]);
    }
    return st;
}

static tile_status answer(Session *s, void *p)
{
    Wanted *w = p;
    tile_kernel *k = w->k;
    size_t n;
    FrontBinding *b = known_dims(w, &s->arena, &n);
    Ast *ast = module_parse(k->module, s);
    Module *m = ast ? frontend_lower_clauses(ast, k->name, b, n) : NULL;
    if (!m) context_report(k->context, s, k->title);
    return m ? find_extents(w, ir_func_find(m, k->name), s) : TILE_ERROR_COMPILE;
}

tile_status tile_kernel_extents(
    tile_kernel *k, const tile_arg *args, size_t n_args, size_t i, int64_t *extents)
{
    FLOAT_STATE_DEFAULT();
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (n_args != (size_t)k->n_params || !args || !extents)
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, -1,
            "tile_kernel_extents: takes %d arguments and room for extents", k->n_params);
    if (i >= n_args || k->params[i].kind == PARAM_SCALAR)
        return launch_bad(
            k, TILE_ERROR_INVALID_ARGUMENT, -1, "tile_kernel_extents: argument %zu is no tensor", i + 1);
    return context_in_session(k->context, k->title, answer, &(Wanted){ k, args, i, extents });
}
