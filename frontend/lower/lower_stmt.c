/* lower_stmt.c: statements but ifs and loops: bindings, assignments, returns, and lists of statements. */
#include "frontend/lower/lower_flow.h"

/* --- bindings and assignments ------------------------------------------------------------------------ */

static V variable_value(Lower *l, V v, Loc loc, const char *name)
{
    if (v.kind == V_ERROR) return v;
    Value *x = lower_materialize(l, v, loc);
    if (!x) return value_error();
    if (!x->name) ir_set_name(x, name);
    return value_ir(x);
}

/* Why the call gives no value, where another form of it does. */
static const char *void_note(const Node *call)
{
    if (call->kind != N_CALL || strncmp(call->name, "atomic", strlen("atomic"))) return NULL;
    return "it does with tiles of indices: `atomic_add(X[i + arange(n)], v)` gives the old values";
}

/* v: of the expression `value`. */
static void bind_name(Lower *l, const Node *name, V v, const Node *value, bool is_var)
{
    const Loc loc = value->loc;
    if (v.kind == V_VOID) v = lower_error_note(l, value->loc, void_note(value), "this call gives no value");
    if (!strcmp(name->name, "_")) return;
    if (is_var) v = variable_value(l, v, loc, name->name);
    else if (v.kind == V_IR && !v.value->name) ir_set_name(v.value, name->name);
    lower_scope_add(l, name->name, name->loc, v, is_var);
}

/* What the call gives, or what gives more; NULL: there is nothing to say. */
static const char *count_note(const Node *call)
{
    if (call->kind != N_CALL) return NULL;
    if (!strcmp(call->name, "program_id") || !strcmp(call->name, "num_programs"))
        return "it gives a number for each axis of the `grid` clause";
    if (!strcmp(call->name, "sort"))
        return "`topk(x, n)` gives elements and their positions, all in order if the axis has n of them";
    return NULL;
}

/* The value of the expression n, which gives a tuple for so many names; or an error. */
static V tuple_for(Lower *l, const Node *n, V v, int names)
{
    if (v.kind == V_ERROR || (v.kind == V_TUPLE && v.n == names)) return v;
    return lower_error_note(l, n->loc, count_note(n), "%d names for %s", names,
        v.kind == V_TUPLE ? value_describe(l, v) : "a single value");
}

static void lower_bind(Lower *l, const Node *n)
{
    bool is_var = n->kind == N_VAR;
    V v = lower_expr(l, n->kids[0]);
    if (!n->op) {
        if (is_var && v.kind == V_TUPLE)
            v = lower_error(
                l, n->kids[0]->loc, "a variable cannot hold a tuple: name its parts, `var (a, b) = ...`");
        bind_name(l, n->kids[1], v, n->kids[0], is_var);
        Var *var = n->kids[1]->kind == N_NAME ? lower_scope_find(l, n->kids[1]->name) : NULL;
        if (var) var->began_as_integer = v.kind == V_INT;
        if (var && v.kind == V_INT) var->began_as = (int64_t)v.big;
        return;
    }
    int names = (int)n->n - 1;
    v = tuple_for(l, n->kids[0], v, names);
    for (int k = 0; k < names; k++)
        bind_name(l, n->kids[k + 1], v.kind == V_TUPLE ? v.items[k] : value_error(), n->kids[0], is_var);
}

/* `var name[length] = value`: each element has the value, or its own of a tuple. */
static void lower_array(Lower *l, const Node *n)
{
    int64_t length;
    bool ok = lower_const_int(l, n->kids[0], "the length of an array", 1, LIMIT_ARRAY, &length);
    V v = lower_expr(l, n->kids[1]);
    if (ok && v.kind == V_TUPLE && v.n != length)
        v = lower_error(
            l, n->kids[1]->loc, "an array of %d elements and %s", (int)length, value_describe(l, v));
    if (ok && v.kind != V_TUPLE) v = variable_value(l, v, n->kids[1]->loc, n->name);
    if (!ok || v.kind == V_ERROR) {
        lower_scope_add(l, n->name, n->name_loc, value_error(), true);
        return;
    }
    Var *array = lower_scope_add(l, n->name, n->name_loc, value_void(), false);
    array->elements = arena_array(&l->s->arena, Var, (size_t)length);
    array->n_elements = (int)length;
    for (int k = 0; k < length; k++)
        array->elements[k] = (Var){ .name = n->name,
            .v = variable_value(l, v.kind == V_TUPLE ? v.items[k] : v, n->kids[1]->loc, n->name),
            .is_var = true,
            .loc = n->name_loc };
}

/* The variable that a target of an assignment names; NULL after an error. */
static Var *target_variable(Lower *l, const Node *target)
{
    const Node *name = target->kind == N_INDEX ? target->kids[0] : target;
    Var *var = name->kind == N_NAME ? lower_scope_find(l, name->name) : NULL;
    int64_t k;
    if (target->kind == N_INDEX && var && var->v.kind == V_ERROR) return NULL;
    if (target->kind == N_INDEX && var && var->elements) {
        if (target->n == 2 && target->kids[1]->kind != N_ALL && target->kids[1]->kind != N_WINDOW &&
            target->kids[1]->kind != N_NONE)
            return lower_const_int(
                       l, target->kids[1], "the subscript of an array", 0, var->n_elements - 1, &k)
                       ? &var->elements[k]
                       : NULL;
        lower_error(l, target->loc, "an array of variables takes one constant subscript");
    } else if (target->kind == N_INDEX) {
        lower_error_note(l, target->loc,
            "store(X[...], value) writes a tensor; a tile changes as a whole: x = where(...)",
            "an element cannot be assigned");
    } else if (target->kind != N_NAME) {
        lower_error(l, target->loc, "only a variable can be assigned");
    } else if (!var) {
        lower_error_note(l, target->loc,
            arena_printf(
                &l->s->arena, "`let %s = ...` declares it, or `var` if it is assigned again", target->name),
            "unknown variable `%s`", target->name);
    } else if (!var->is_var && !var->elements) {
        lower_error(l, target->loc, "`%s` cannot be assigned: it is not a `var`", target->name);
    } else return var;
    return NULL;
}

static void assign_variable(Lower *l, Var *var, V v, Loc loc)
{
    if (v.kind == V_ERROR || var->v.kind == V_ERROR) return;
    const Type *t = var->v.value->type;
    if (value_is_untyped(v)) v = lower_adapt(l, v, t->dtype, loc);
    if (v.kind == V_ERROR) return;
    if ((v.kind != V_CONST && v.kind != V_IR) || flow_type(l, v) != t) {
        if (v.kind == V_TENSOR || v.kind == V_VOID) {
            lower_error(
                l, loc, "`%s` is `%s`; this is %s", var->name, type_string(l->s, t), value_describe(l, v));
            return;
        }
        lower_error_note(l, loc, lower_assign_note(l, var, v), "`%s` is `%s`; the value is %s", var->name,
            type_string(l->s, t), value_describe(l, v));
        return;
    }
    /* Name only values that have no name: after `m = m_new`, the value keeps the name m_new. */
    Value *x = lower_materialize(l, v, loc);
    if (!x->name) ir_set_name(x, var->name);
    var->v = value_ir(x);
}

static void assign_name(Lower *l, const Node *target, V v, Loc loc)
{
    if (target->kind == N_NAME && !strcmp(target->name, "_")) return;
    Var *var = target_variable(l, target);
    if (!var || v.kind == V_ERROR) return;
    if (!var->elements) {
        assign_variable(l, var, v, loc);
        return;
    }
    if (v.kind != V_TUPLE || v.n != var->n_elements)
        lower_error_note(l, loc,
            arena_printf(&l->s->arena, "assign a tuple of %d values, or an element: `%s[0] = ...`",
                var->n_elements, target->name),
            "`%s` is an array of %d variables; the value is %s", target->name, var->n_elements,
            value_describe(l, v));
    else
        for (int k = 0; k < v.n; k++) assign_variable(l, &var->elements[k], v.items[k], loc);
}

static void lower_assign(Lower *l, const Node *n)
{
    const Node *target = n->kids[0];
    V v;
    if (n->op) {
        Node op = {
            .kind = N_BINARY, .op = n->op, .n = 2, .loc = n->loc, .kids = (Node *[]){ n->kids[0], n->kids[1] }
        };
        v = lower_expr(l, &op);
        if (v.kind == V_ERROR) return;
    } else v = lower_expr(l, n->kids[1]);
    if (target->kind != N_TUPLE) {
        assign_name(l, target, v, n->kids[1]->loc);
        return;
    }
    v = tuple_for(l, n->kids[1], v, (int)target->n);
    for (uint32_t k = 0; k < target->n; k++)
        assign_name(l, target->kids[k], v.kind == V_TUPLE ? v.items[k] : value_error(), n->kids[1]->loc);
}

/* --- return ------------------------------------------------------------------------------------------ */

static void lower_return(Lower *l, const Node *n)
{
    Frame *f = l->frame;
    int errors = l->s->n_errors;
    V v = n->kids[0] ? lower_expr(l, n->kids[0]) : value_void();
    bool tuple = v.kind == V_TUPLE;
    int count = v.kind == V_VOID ? 0 : tuple ? v.n : 1;
    const V *items = tuple ? v.items : &v;
    if (f->is_kernel && n->kids[0])
        lower_error_note(
            l, n->loc, "results leave a kernel through `out` tensors", "a kernel returns nothing");
    else if (count > MAX_RETURNS) lower_error(l, n->loc, "a function returns at most %d values", MAX_RETURNS);
    else if (v.kind == V_ERROR || f->is_kernel)
        ;
    else if (f->n_returns >= 0 && (f->n_returns != count || f->tuple != tuple))
        lower_error(l, n->loc, "this return gives %d value%s, another one %d", count, count == 1 ? "" : "s",
            f->n_returns);
    else {
        f->n_returns = count;
        f->tuple = tuple;
        f->return_loc = n->loc;
        for (int k = 0; k < count; k++) {
            f->returns[k].v = items[k];
            if (value_is_untyped(items[k]) && !f->types[k])
                f->types[k] = type_scalar(l->s, items[k].kind == V_INT ? DT_INDEX : DT_F32);
            else if (flow_type(l, items[k])) f->types[k] = flow_type(l, items[k]);
        }
    }
    if (v.kind == V_ERROR || l->s->n_errors > errors) {
        f->failed = true;
        for (int k = 0; k < MAX_RETURNS; k++) f->returns[k].v = value_error();
    }
    f->done.v = value_bool(true);
}

Frame lower_frame_new(const Node *n, bool is_kernel)
{
    Frame f = { .node = n,
        .is_kernel = is_kernel,
        .n_returns = -1,
        .done = { .name = "done", .v = value_bool(false) },
        .return_loc = n->loc };
    for (int k = 0; k < MAX_RETURNS; k++) f.returns[k] = (Var){ .name = "result", .v = value_void() };
    return f;
}

V lower_frame_result(Lower *l, Frame *f)
{
    if (f->failed || l->stopped) return value_error();
    if (f->n_returns <= 0) return value_void();
    bool done;
    if (!value_to_bool(f->done.v, &done) || !done)
        return lower_error(
            l, f->return_loc, "`%s` returns a value here, but not on every path", f->node->name);
    V items[MAX_RETURNS];
    for (int k = 0; k < f->n_returns; k++) {
        if (f->returns[k].v.kind == V_ERROR) return value_error();
        items[k] = f->returns[k].v;
    }
    return f->tuple ? value_tuple(l, f->n_returns, items) : items[0];
}

/* --- statements -------------------------------------------------------------------------------------- */

static void dispatch(Lower *l, const Node *n, bool tail)
{
    l->b.loc = n->loc;
    switch (ast_statement(n)) {
    case STMT_LET:
    case STMT_VAR: lower_bind(l, n); return;
    case STMT_ARRAY: lower_array(l, n); return;
    case STMT_CONSTANT: lower_const(l, n); return;
    case STMT_ASSIGN: lower_assign(l, n); return;
    case STMT_EXPR:
        if (n->kids[0]->kind != N_CALL && n->kids[0]->kind != N_ERROR) {
            lower_error(l, n->loc, "this statement has no effect");
            return;
        }
        lower_expr(l, n->kids[0]);
        return;
    case STMT_FOR:
        if (n->op) {
            lower_const_for(l, n);
            return;
        }
        if (!lower_enter_blocks(l, n->loc, 1)) return;
        lower_for(l, n);
        lower_leave_blocks(l, 1);
        return;
    case STMT_WHILE:
        if (!lower_enter_blocks(l, n->loc, 1)) return;
        lower_while(l, n);
        lower_leave_blocks(l, 1);
        return;
    case STMT_IF:
        if (n->op) {
            n = lower_const_if(l, n);
            if (n) lower_stmt(l, n, tail);
            return;
        }
        lower_if(l, n, (Branch){ 0 }, tail);
        return;
    case STMT_RETURN: lower_return(l, n); return;
    case STMT_BLOCK: lower_block(l, n, tail); return;
    }
}

void lower_stmt(Lower *l, const Node *n, bool tail)
{
    if (!n || !lower_descend(l, n->loc)) return;
    dispatch(l, n, tail);
    l->recursion--;
}

void lower_list(Lower *l, Node *const *kids, uint32_t from, uint32_t n, bool tail)
{
    for (uint32_t i = from; i < n && !l->stopped; i++) {
        if (flow_done(l)) return;
        if (l->frame->done.v.kind == V_IR) {
            l->b.loc = kids[i]->loc;
            lower_guarded(l, (Branch){ NULL, kids, i, n }, tail);
            return;
        }
        const Node *s = kids[i];
        if (s->kind == N_IF && s->op) {
            s = lower_const_if(l, s);
            if (!s) continue;
        }
        bool last = i + 1 == n;
        if (s->kind == N_IF && tail && !last &&
            (flow_always_returns(s->kids[1]) || flow_always_returns(s->kids[2]))) {
            if (!lower_step(l, s->loc)) return;
            l->b.loc = s->loc;
            lower_if(l, s, (Branch){ NULL, kids, i + 1, n }, tail);
            return;
        }
        lower_stmt(l, s, tail && last);
    }
}

void lower_block(Lower *l, const Node *block, bool tail)
{
    Scope inner;
    if (!block || block->kind == N_ERROR) return;
    lower_scope_push(l, &inner);
    lower_list(l, block->kids, 0, block->n, tail);
    lower_scope_pop(l);
}
