/* lower.c: frontend_lower: a kernel's parameters, bindings and body. */
#include <stdio.h>
#include "frontend/lower/lower.h"
#include "frontend/lower/lower_clauses.h"
#include "ir/interp/eval.h"
#include "frontend/program.h"
#include "ir/hints.h"

const Node *ast_find_fn(const Ast *ast, const char *name) { return names_get(&ast->fns, name); }

/* --- constants --------------------------------------------------------------------------------------- */

/* On a value in the place of a constant. */
static const char *not_constant_note(V v)
{ return v.kind == V_IR ? "it is known at run time only; `let` names such a value" : NULL; }

V lower_const_value(Lower *l, const Node *type, V v, Loc loc)
{
    DType d;
    __int128 i;
    if (v.kind == V_ERROR) return v;
    if (!strcmp(type->name, "type"))
        return v.kind == V_TYPE
                   ? v
                   : lower_error(l, loc, "expected a type like f32, not %s", value_describe(l, v));
    if (!strcmp(type->name, "int"))
        return value_to_int(v, &i) ? value_int(i)
                                   : lower_error_note(l, loc, not_constant_note(v),
                                         "expected an integer constant, not %s", value_describe(l, v));
    if (!strcmp(type->name, "float")) {
        if (value_to_int(v, &i)) return value_float((double)i);
        if (v.kind == V_CONST && dtype_is_float(v.dtype)) return value_float(v.c.f);
        return v.kind == V_FLOAT
                   ? v
                   : lower_error(l, loc, "expected a floating constant, not %s", value_describe(l, v));
    }
    Var *named = lower_scope_find(l, type->name);
    if (named && named->v.kind == V_TYPE) d = named->v.dtype;
    else if (!dtype_parse(type->name, strlen(type->name), &d))
        return lower_error(l, type->loc, "unknown type `%s`", type->name);
    if (value_is_untyped(v)) return lower_adapt(l, v, d, loc);
    if (v.kind == V_CONST && v.dtype == d) return v;
    return lower_error(l, loc, "expected a constant `%s`, not %s", dtype_name(d),
        v.kind == V_IR ? "a value known at run time only" : value_describe(l, v));
}

void lower_const(Lower *l, const Node *n)
{
    if (n->kids[1] && n->kids[1]->kind == N_TABLE) {
        lower_scope_add(l, n->name, n->name_loc, lower_table(l, n->kids[0], n->kids[1]), false);
        return;
    }
    V v = lower_expr(l, n->kids[1]);
    lower_scope_add(l, n->name, n->name_loc, lower_const_value(l, n->kids[0], v, n->kids[1]->loc), false);
}

static V bound_value(FrontValue v)
{
    switch (v.kind) {
    case FRONT_INT: return value_int(v.i);
    case FRONT_UINT: return value_int((uint64_t)v.i);
    case FRONT_FLOAT: return value_float(v.f);
    case FRONT_BOOL: return value_bool(v.b);
    case FRONT_TYPE: return value_type(v.type);
    case FRONT_TEXT:
    case FRONT_NOTHING: return value_error();
    }
    return value_error();
}

const FrontValue *lower_find_binding(const Lower *l, const char *name)
{
    for (size_t i = l->n_bindings; i-- > 0;)
        if (!strcmp(l->bindings[i].name, name)) return &l->bindings[i].value;
    return NULL;
}

static void bind_consts(Lower *l, const Node *params)
{
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        if (p->kind != N_PCONST) continue;
        const FrontValue *b = lower_find_binding(l, p->name);
        V v;
        if (b) v = lower_const_value(l, p->kids[0], bound_value(*b), p->loc);
        else if (p->kids[1]) {
            lower_const(l, p);
            continue;
        } else
            v = lower_error_note(l, p->loc,
                l->s->binder
                    ? arena_printf(&l->s->arena, "give it with %s %s=..., or with a default here",
                          l->s->binder, p->name)
                    : arena_printf(&l->s->arena, "give it with -D %s=..., or in `instantiate`", p->name),
                "const `%s` has no value", p->name);
        lower_scope_add(l, p->name, p->name_loc, v, false);
    }
}

/* Consts that are numbers, with their values. */
static void note_consts(Lower *l, const Node *params)
{
    l->func->consts = arena_array(&l->s->arena, KernelConst, params->n);
    for (uint32_t i = 0; i < params->n; i++) {
        const Var *x = params->kids[i]->kind == N_PCONST ? lower_scope_find(l, params->kids[i]->name) : NULL;
        if (!x || !value_is_known(x->v)) continue;
        KernelConst *c = &l->func->consts[l->func->n_consts++];
        *c = (KernelConst){ .name = x->name, .dtype = DT_INDEX };
        if (x->v.kind == V_CONST) c->dtype = x->v.dtype;
        if (x->v.kind == V_FLOAT) c->dtype = DT_F64;
        if (x->v.kind == V_INT) c->i = (int64_t)x->v.big;
        else if (x->v.kind == V_FLOAT) c->f = x->v.f;
        else if (dtype_is_float(c->dtype)) c->f = x->v.c.f;
        else c->i = x->v.c.i;
    }
}

/* --- parameters -------------------------------------------------------------------------------------- */

bool lower_param_type(Lower *l, const Node *type, DType *out)
{
    Var *v = lower_scope_find(l, type->name);
    if (v && v->v.kind == V_TYPE) {
        *out = v->v.dtype;
        return true;
    }
    if (v && v->v.kind == V_ERROR) return false;
    if (dtype_parse(type->name, strlen(type->name), out)) return true;
    lower_error(l, type->loc, "unknown type `%s`", type->name);
    return false;
}

static int dim_named(Lower *l, const char *name)
{
    for (int d = 0; d < l->func->n_dims; d++)
        if (l->func->dims[d].name && !strcmp(l->func->dims[d].name, name)) return d;
    const FrontValue *b = lower_find_binding(l, name);
    int64_t extent = -1;
    if (b && b->kind == FRONT_INT && b->i >= 0) extent = b->i;
    else if (b) {
        lower_error(l, l->func->loc, "dimension `%s` must be an integer of at least 0", name);
        extent = 1;
    }
    return ir_dim_new(l->func, name, extent);
}

/* Whether the dimensions that an extent names are bound and it names no scalars. It is then a constant. */
static bool extent_is_known(const Lower *l, const Node *kernel, const Node *n)
{
    if (!n) return true;
    if (n->kind == N_NAME && program_is_scalar(kernel, n->name)) return false;
    for (int d = 0; n->kind == N_NAME && d < l->func->n_dims; d++)
        if (l->func->dims[d].name && !strcmp(l->func->dims[d].name, n->name))
            return l->func->dims[d].extent >= 0;
    for (uint32_t i = 0; i < n->n; i++)
        if (!extent_is_known(l, kernel, n->kids[i])) return false;
    return true;
}

static int dim_derived(Lower *l, const char *text)
{
    for (int d = 0; d < l->func->n_dims; d++)
        if (l->func->dims[d].text && !strcmp(l->func->dims[d].text, text)) return d;
    return ir_dim_derive(l->func, text);
}

static void bind_tensor(Lower *l, const Node *kernel, const Node *p, const FrontParam *front)
{
    int dims[TILE_MAX_RANK], rank = (int)p->n - 1;
    DType d = DT_F32;
    bool ok = lower_param_type(l, p->kids[0], &d);
    for (int i = 0; i < rank; i++) {
        int64_t extent = 1;
        const Node *n = p->kids[i + 1];
        if (front->dims[i].name) {
            dims[i] = dim_named(l, n->name);
            continue;
        }
        if (front->dims[i].derived >= 0 && !extent_is_known(l, kernel, n)) {
            dims[i] = dim_derived(l, front->dims[i].text);
            continue;
        }
        ok &= lower_const_int(l, n, "the extent of a tensor", 0, INT64_MAX, &extent);
        dims[i] = ir_dim_new(l->func, NULL, extent);
    }
    ParamKind kind = p->op == IO_IN ? PARAM_IN : p->op == IO_OUT ? PARAM_OUT : PARAM_INOUT;
    const Type *t = type_tensor(l->s, d, rank);
    int index = l->func->n_params;
    ir_param_new(l->func, p->name, kind, t, dims);
    l->func->params[index].loc = p->loc;
    V v = { .kind = ok ? V_TENSOR : V_ERROR, .param = index };
    l->params[l->n_params++] =
        (KParam){ .var = lower_scope_add(l, p->name, p->name_loc, v, false), .kind = kind, .type = t };
}

static void bind_scalar(Lower *l, const Node *p)
{
    DType d = DT_F32;
    bool ok = lower_param_type(l, p->kids[0], &d);
    int index = l->func->n_params;
    Value *arg = ir_param_new(l->func, p->name, PARAM_SCALAR, type_scalar(l->s, d), NULL);
    l->func->params[index].loc = p->loc;
    V v = ok ? value_ir(arg) : value_error();
    l->params[l->n_params++] = (KParam){
        .var = lower_scope_add(l, p->name, p->name_loc, v, false), .kind = PARAM_SCALAR, .type = arg->type
    };
}

static void bind_params(Lower *l, const Node *kernel, const FrontKernel *front)
{
    const Node *params = kernel->kids[0];
    l->params = arena_array(&l->s->arena, KParam, params->n + 1);
    /* Bind dimension names first, so that an extent like 2*N may come before N. */
    for (int d = 0; d < front->n_dims; d++)
        if (lower_dim_is_given(l, front, front->dims[d])) dim_named(l, front->dims[d]);
    for (uint32_t i = 0; i < params->n; i++) {
        const Node *p = params->kids[i];
        bool optional = p->kind == N_PTENSOR && p->u;
        if (optional && frontend_absent(l->bindings, l->n_bindings, p->name)) lower_absent_tensor(l, p);
        else if (p->kind == N_PTENSOR) bind_tensor(l, kernel, p, &front->params[i]);
        else if (p->kind == N_PSCALAR) bind_scalar(l, p);
    }
    for (int i = 0; i < l->n_params; i++) l->params[i].dims = l->func->params[i].dims;
    l->dims = arena_array(&l->s->arena, Value *, (size_t)l->func->n_dims + 1);
}

/* --- the blocks of a kernel -------------------------------------------------------------------------- */

Value *lower_dim(Lower *l, int d)
{
    if (l->dims && l->dims[d]) return l->dims[d];
    Value *v = ir_emit(&l->b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, d)), NULL);
    if (l->dims) l->dims[d] = v;
    return v;
}

static void lower_body(Lower *l, const Node *block, const Node *kernel)
{
    Frame frame = lower_frame_new(kernel, true);
    l->frame = &frame;
    lower_enter_block(l, l->func->body, 0);
    for (int d = 0; d < l->func->n_dims; d++)
        if (l->func->dims[d].extent < 0) lower_dim(l, d);
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].type->kind == TYPE_TENSOR && l->params[i].kind != PARAM_IN)
            l->params[i].token.v =
                value_ir(ir_emit(&l->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, i)), NULL));
    lower_block(l, block, true);
    lower_ordered_end(l, kernel->loc);
    l->b.loc = kernel->loc;
    ir_build(&l->b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
    for (Instr *i = l->func->body->first, *next; i; i = next) {
        next = i->next;
        if ((i->op == OP_DIM || i->op == OP_TOKEN) && !ir_is_used(i)) ir_erase(i);
    }
}

/* --- the whole --------------------------------------------------------------------------------------- */

static void lower_globals(Lower *l)
{
    for (size_t i = 0; i < l->ast->items.len; i++)
        if (l->ast->items.data[i]->kind == N_CONSTANT) lower_const(l, l->ast->items.data[i]);
}

/* "D=64, CAUSAL=true": what was bound, in the order of declaration. */
static const char *specialization(Lower *l, const FrontKernel *k)
{
    Text t;
    text_init(&t, &l->s->arena);
    text_puts(&t, "");
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < (pass ? k->n_params : k->n_dims); i++) {
            const char *name = pass ? k->params[i].name : k->dims[i];
            if (pass && k->params[i].kind < FRONT_CONST && !k->params[i].optional) continue;
            const FrontValue *v = lower_find_binding(l, name);
            if (!v) continue;
            text_printf(&t, "%s%s=", t.len ? ", " : "", name);
            frontend_print_value(*v, &t);
        }
    return t.data;
}

const char *lower_binder(const Lower *l) { return l->s->binder ? l->s->binder : "-D"; }

static bool keys_bound(Lower *l, const FrontKernel *k)
{
    bool ok = true;
    for (int i = 0; i < k->n_keys; i++) {
        if (lower_find_binding(l, k->keys[i]) || !lower_dim_is_given(l, k, k->keys[i])) continue;
        if (!program_key_always(k, k->keys[i])) continue; /* its branch, if it is taken, needs it */
        Loc loc = k->loc, *at = program_key_location(l->ast, k, k->keys[i]);
        lower_error_note(l, at ? *at : loc,
            arena_printf(&l->s->arena, "bind it: `instantiate %s(%s in {...});` in the file, or %s %s=...",
                k->name, k->keys[i], lower_binder(l), k->keys[i]),
            "dimension `%s` is a tile extent here and must be known at compile time", k->keys[i]);
        ok = false;
    }
    return ok;
}

/* Constants are evaluated with a function at hand although they never emit anything that stays. */
static void begin(Lower *l, const char *name, Scope *globals)
{
    l->module = ir_module_new(l->s);
    l->func = ir_func_new(l->module, name, true);
    l->b = ir_at_end(ir_block_new(l->func, NULL));
    lower_scope_push(l, globals);
    l->globals = globals;
}

/* Hints that have domains in a tune block. */
static void bind_hints(Lower *l, const Node *kernel)
{
    for (size_t i = 0; i < l->n_bindings; i++) {
        const FrontBinding *b = &l->bindings[i];
        const HintInfo *hint = hint_find(b->name);
        const char *name = hint ? session_intern(l->s, hint->name, strlen(hint->name)) : NULL;
        if (hint && b->value.kind == FRONT_INT && !lower_scope_find(l, name))
            lower_scope_add(l, name, kernel ? kernel->loc : (Loc){ 0 }, bound_value(b->value), false);
    }
}

Lower *lower_eval_begin(Ast *ast, const Node *kernel, const FrontBinding *bindings, size_t n)
{
    Lower *l = arena_new(&ast->session->arena, Lower);
    l->s = ast->session;
    l->ast = ast;
    l->bindings = bindings;
    l->n_bindings = n;
    begin(l, "constants", arena_new(&l->s->arena, Scope));
    lower_globals(l);
    lower_eval_scope(l, kernel);
    bind_hints(l, kernel);
    return l;
}

static void eval_scope(Lower *l, const Node *kernel, const Node *consts)
{
    l->scope = l->globals;
    lower_scope_push(l, arena_new(&l->s->arena, Scope));
    if (!kernel) return;
    lower_presence(l, kernel->kids[0]);
    bind_consts(l, consts);
}

void lower_eval_scope(Lower *l, const Node *kernel)
{ eval_scope(l, kernel, kernel ? kernel->kids[0] : NULL); }

void lower_eval_again(
    Lower *l, const Node *kernel, const Node *consts, const FrontBinding *bindings, size_t n)
{
    l->bindings = bindings;
    l->n_bindings = n;
    l->steps = 0;
    l->stopped = false;
    eval_scope(l, kernel, consts);
    bind_hints(l, kernel);
}

static FrontValue front_int(__int128 v)
{ return (FrontValue){ v > INT64_MAX ? FRONT_UINT : FRONT_INT, { .i = (int64_t)v } }; }

static FrontValue front_value(V v)
{
    switch (v.kind) {
    case V_INT: return front_int(v.big);
    case V_FLOAT: return (FrontValue){ FRONT_FLOAT, { .f = v.f } };
    case V_TYPE: return (FrontValue){ FRONT_TYPE, { .type = v.dtype } };
    case V_CONST:
        if (v.dtype == DT_BOOL) return (FrontValue){ FRONT_BOOL, { .b = v.c.i != 0 } };
        if (dtype_is_float(v.dtype)) return (FrontValue){ FRONT_FLOAT, { .f = v.c.f } };
        return front_int(v.dtype == DT_U64 ? (__int128)(uint64_t)v.c.i : v.c.i);
    case V_ERROR:
    case V_VOID:
    case V_IR:
    case V_TUPLE:
    case V_TENSOR:
    case V_ABSENT:
    case V_NONE:
    case V_STRING:
    case V_TABLE: break;
    }
    return (FrontValue){ FRONT_NOTHING };
}

FrontValue lower_eval_param(Lower *l, const Node *p)
{
    if (!p->kids[1]) return (FrontValue){ FRONT_NOTHING };
    lower_const(l, p);
    return front_value(l->scope->vars->v);
}

FrontValue lower_eval_domain_value(Lower *l, bool placement, const Node *param, const Node *value)
{
    if (placement) return (FrontValue){ FRONT_TEXT, { .text = value->name ? value->name : "none" } };
    V v = lower_expr(l, value);
    __int128 i;
    bool given;
    if (param && param->kind == N_PTENSOR) {
        if (v.kind != V_ERROR && !value_to_bool(v, &given))
            v = lower_error_note(l, value->loc, "true: it is given; false: it is not",
                "`%s` is an optional tensor: expected true or false, not %s", param->name,
                value_describe(l, v));
    } else if (param) v = lower_const_value(l, param->kids[0], v, value->loc);
    else if (v.kind != V_ERROR && (!value_to_int(v, &i) || i < 0 || i > INT64_MAX))
        v = lower_error(l, value->loc, "expected an integer of at least 0, not %s", value_describe(l, v));
    return front_value(v);
}

/* What is lowered. */
typedef struct LowerJob {
    Ast *ast;
    const char *kernel;
    const FrontBinding *bindings;
    size_t n_bindings;
    const char *target;  /* its name, or NULL */
    bool with_body;      /* false: the clauses alone, as a launch evaluates them */
    const Node *formula; /* a remap clause in place of the kernel's own, or NULL */
} LowerJob;

/* again: whether what it gives is of no use, and the kernel has to be lowered once more. */
static Module *lower_once(const LowerJob *job, Nodes *unrolled, bool *again)
{
    Session *s = job->ast->session;
    const FrontKernel *k = frontend_kernel_find(job->ast, job->kernel);
    int errors = s->n_errors;
    if (!k) {
        diag_error(s, (Loc){ 0, 0, 0 }, "no kernel `%s`", job->kernel);
        return NULL;
    }
    const Node *kernel = program_kernel_node(job->ast, k);
    Lower l = { .s = s,
        .ast = job->ast,
        .bindings = job->bindings,
        .n_bindings = job->n_bindings,
        .target = job->target,
        .front = k,
        .unrolled = *unrolled };
    Scope globals, params;
    begin(&l, job->kernel, &globals);
    l.func->loc = kernel->name_loc;
    if (job->with_body && !keys_bound(&l, k)) return NULL;
    lower_globals(&l);
    lower_scope_push(&l, &params);
    lower_presence(&l, kernel->kids[0]);
    bind_consts(&l, kernel->kids[0]);
    note_consts(&l, kernel->kids[0]);
    Frame frame = lower_frame_new(kernel, true);
    l.frame = &frame;
    bind_params(&l, kernel, k);
    if (s->n_errors > errors) return NULL;
    lower_extents(&l, kernel->kids[0], k);
    if (s->n_errors > errors) return NULL;
    const Node *grid = lower_find_clause(kernel, "grid"),
               *remap = job->formula ? job->formula : lower_find_clause(kernel, "remap");
    if (grid) lower_grid(&l, grid);
    if (remap) lower_remap(&l, remap);
    lower_hints(&l, kernel);
    if (s->n_errors == errors) lower_body(&l, job->with_body ? kernel->kids[2] : NULL, kernel);
    *unrolled = l.unrolled;
    *again = l.again;
    l.func->spec = specialization(&l, k);
    return s->n_errors > errors ? NULL : l.module;
}

static Module *lower_kernel(LowerJob job)
{
    Nodes unrolled = { 0 };
    Module *m;
    bool again;
    do {
        again = false;
        m = lower_once(&job, &unrolled, &again);
    } while (again);
    return m;
}

Module *frontend_lower(Ast *ast, const char *name, const FrontBinding *bindings, size_t n, const char *target)
{ return lower_kernel((LowerJob){ ast, name, bindings, n, target, true, NULL }); }

Module *frontend_lower_clauses(Ast *ast, const char *name, const FrontBinding *bindings, size_t n)
{ return lower_kernel((LowerJob){ ast, name, bindings, n, NULL, false, NULL }); }

Module *lower_formula(Ast *ast, const char *name, const FrontBinding *bindings, size_t n, const Node *clause)
{ return lower_kernel((LowerJob){ ast, name, bindings, n, NULL, false, clause }); }
