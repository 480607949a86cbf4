/* lower_stmt.c: statements to structured IR. A `var` is an SSA value that changes; loops and ifs carry those that their bodies
 * change. Bodies are lowered into loose blocks first, with every variable that might change as a block argument; what did
 * not change is taken out again before the instruction is built.
 *
 * An early return sets the frame's `done` flag and the frame's return values, which are carried like variables. What follows a
 * statement that may have returned stands under `if !done`. Where nothing follows the whole (tail position),
 *     if c { ...; return; }  rest     becomes     if c { ... } else { rest }     and no flag is needed. */
#include "frontend/lower.h"

typedef VEC(Var *) Vars;
typedef struct Branch { const Node *body; Node *const *rest; uint32_t from, n; } Branch;

static void lower_list(Lower *, Node *const *kids, uint32_t from, uint32_t n, bool tail);
static void lower_stmt(Lower *, const Node *, bool tail);
static void lower_guarded(Lower *, Branch, bool tail);

static bool has_return(const Node *n)
{
    if (!n) return false;
    if (n->kind == N_RETURN) return true;
    if (n->kind < N_BLOCK) return false;
    for (uint32_t i = 0; i < n->n; i++) if (has_return(n->kids[i])) return true;
    return false;
}

static bool branch_returns(Branch b)
{
    bool r = has_return(b.body);
    for (uint32_t i = b.from; i < b.n && !r; i++) r = has_return(b.rest[i]);
    return r;
}

/* On every path, whatever the conditions are. */
static bool always_returns(const Node *n)
{
    if (!n) return false;
    if (n->kind == N_RETURN) return true;
    if (n->kind == N_IF) return always_returns(n->kids[1]) && always_returns(n->kids[2]);
    if (n->kind == N_BLOCK)
        for (uint32_t i = 0; i < n->n; i++) if (always_returns(n->kids[i])) return true;
    return false;
}

/* --- what a body may change ---------------------------------------------------------------------------------------------------------- */

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
            Var *v = name->kind == N_NAME ? lower_scope_find(l, name->name) : NULL;
            if (v && v->is_var) add_var(l, vars, v);
        }
        return;
    }
    if (n->kind < N_BLOCK) return;
    for (uint32_t i = 0; i < n->n; i++) collect_assigned(l, n->kids[i], vars);
}

/* Variables assigned in the branches, every token, and the return state where there is a return. */
static Vars changeable(Lower *l, const Branch *b, int n)
{
    Vars vars = { 0 };
    bool returns = false;
    l->mark++;
    for (int k = 0; k < n; k++) {
        collect_assigned(l, b[k].body, &vars);
        for (uint32_t i = b[k].from; i < b[k].n; i++) collect_assigned(l, b[k].rest[i], &vars);
        returns |= branch_returns(b[k]);
    }
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].token.v.kind == V_IR) vec_push(&l->s->arena, &vars, &l->params[i].token);
    if (returns) {
        vec_push(&l->s->arena, &vars, &l->frame->done);
        for (int i = 0; i < MAX_RETURNS; i++) vec_push(&l->s->arena, &vars, &l->frame->returns[i]);
    }
    return vars;
}

static V *values_of(Lower *l, Vars vars)
{
    V *v = arena_array(&l->s->arena, V, vars.len + 1);
    for (size_t i = 0; i < vars.len; i++) v[i] = vars.data[i]->v;
    return v;
}

static void set_values(Vars vars, const V *v) { for (size_t i = 0; i < vars.len; i++) vars.data[i]->v = v[i]; }

static bool same(V a, V b)
{
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case V_IR: return a.value == b.value;
    case V_INT: return a.big == b.big;
    case V_FLOAT: return a.f == b.f;
    case V_CONST: return a.dtype == b.dtype && scalar_bits(a.dtype, a.c) == scalar_bits(b.dtype, b.c);
    case V_TYPE: return a.dtype == b.dtype;
    case V_VOID: case V_ERROR: case V_NONE: return true;
    case V_TUPLE: case V_TENSOR: case V_STRING: return false;
    }
    return false;
}

static bool has_done(const Lower *l, bool *value) { return value_to_bool(l->frame->done.v, value); }
static bool surely_done(const Lower *l) { bool d; return has_done(l, &d) && d; }

static bool too_many(Lower *l, Loc loc, size_t n)
{
    if (n <= IR_MAX_RESULTS - 2) return false;
    lower_error(l, loc, "more than %d variables change in this statement", IR_MAX_RESULTS - 2);
    return true;
}

bool lower_enter_blocks(Lower *l, Loc loc, int levels)
{
    if (l->nesting + levels > LIMIT_BLOCKS) {
        lower_error_note(l, loc, "early returns in loops and called functions count too", "loops and ifs are nested more than %d deep", LIMIT_BLOCKS);
        l->stopped = true;
        return false;
    }
    l->nesting += levels;
    if (l->nesting > l->deepest) l->deepest = l->nesting;
    return true;
}

void lower_leave_blocks(Lower *l, int levels) { l->nesting -= levels; }

/* --- if -------------------------------------------------------------------------------------------------------------------------------- */

static V zero_like(Lower *l, const Type *t)
{
    Value *z = dtype_is_float(t->dtype) ? ir_const_float(&l->b, t->dtype, 0) : ir_const_int(&l->b, t->dtype, 0);
    return value_ir(t->kind == TYPE_TILE ? ir_splat(&l->b, z, t->rank, t->shape) : z);
}

static const Type *type_of_value(Lower *l, V v)
{
    return v.kind == V_IR ? v.value->type : v.kind == V_CONST ? type_scalar(l->s, v.dtype) : NULL;
}

/* Brings the two sides of an if to one type. Only return values can differ: literals adapt, an unset side gets zeros, which are
 * never looked at because `done` says so. */
static bool unify(Lower *l, Builder *then_b, Builder *else_b, V *a, V *b)
{
    Loc loc = l->frame->return_loc;
    Builder at = l->b;
    bool ok = true;
    if (a->kind != V_VOID && b->kind != V_VOID) {
        if (value_is_number(*a) && value_is_number(*b) && (value_is_untyped(*a) || value_is_untyped(*b))) ok = lower_same_dtype(l, loc, "returns", a, b);
    } else {
        V *set = a->kind == V_VOID ? b : a, *unset = a->kind == V_VOID ? a : b;
        *set = lower_concretize(l, *set, loc);
        const Type *t = type_of_value(l, *set);
        l->b = unset == a ? *then_b : *else_b;
        if (t) *unset = zero_like(l, t);
    }
    l->b = at;
    const Type *ta = type_of_value(l, *a), *tb = type_of_value(l, *b);
    if (ok && (!ta || !tb)) { lower_error(l, loc, "the returned value depends on the path: %s and %s", value_describe(l, *a), value_describe(l, *b)); ok = false; }
    else if (ok && ta != tb) { lower_error(l, loc, "returns of different types: `%s` and `%s`", type_string(l->s, tb), type_string(l->s, ta)); ok = false; }
    return ok;
}

static Value *into(Lower *l, Builder *b, V v, Loc loc)
{
    Builder at = l->b;
    l->b = *b;
    Value *x = lower_materialize(l, v, loc);
    l->b = at;
    return x;
}

static void attach(Instr *i, int k, Block *b)
{
    i->blocks[k] = b;
    b->parent = i;
}

static void run_branch(Lower *l, Branch b, bool tail)
{
    if (b.body) {
        if (b.body->kind == N_BLOCK) lower_block(l, b.body, tail && b.from == b.n);
        else lower_stmt(l, b.body, tail && b.from == b.n);
    }
    if (b.from < b.n) lower_list(l, b.rest, b.from, b.n, tail);
}

/* In tail position nothing reads a kernel's `done` any more; for a function the flag must be known to be set on both sides. */
static V join_done(Lower *l, V a, V b, bool tail)
{
    bool x, y;
    if (!tail) return value_void();
    if (value_to_bool(a, &x) && value_to_bool(b, &y) && x && y) return value_bool(true);
    return l->frame->is_kernel || l->frame->n_returns <= 0 ? value_bool(true) : value_void();
}

static void if_else(Lower *l, Loc loc, Value *cond, Branch then_branch, Branch else_branch, bool tail)
{
    Branch both[2] = { then_branch, else_branch };
    Vars vars = changeable(l, both, 2);
    V *before = values_of(l, vars), *after[2];
    Builder outer = l->b, end[2];
    Block *blocks[2];
    for (int k = 0; k < 2; k++) {
        set_values(vars, before);
        blocks[k] = ir_block_new(l->func, NULL);
        l->b = ir_at_end(blocks[k]);
        l->b.loc = loc;
        run_branch(l, both[k], tail);
        after[k] = values_of(l, vars);
        end[k] = l->b;
    }
    l->b = outer;
    Value *yields[2][IR_MAX_RESULTS];
    const Type *types[IR_MAX_RESULTS];
    Var *carried[IR_MAX_RESULTS];
    int n = 0;
    for (size_t i = 0; i < vars.len; i++) {
        V a = after[0][i], b = after[1][i];
        Var *v = vars.data[i];
        if (v == &l->frame->done) {
            V done = join_done(l, a, b, tail);
            if (done.kind != V_VOID) { v->v = done; continue; }
        }
        v->v = a;
        if (same(a, b)) continue;
        if (a.kind == V_ERROR || b.kind == V_ERROR) { v->v = value_error(); continue; }
        if (too_many(l, loc, (size_t)n) || !unify(l, &end[0], &end[1], &a, &b)) { v->v = value_error(); continue; }
        yields[0][n] = into(l, &end[0], a, loc);
        yields[1][n] = into(l, &end[1], b, loc);
        if (!yields[0][n] || !yields[1][n]) { v->v = value_error(); continue; }
        types[n] = yields[0][n]->type;
        carried[n++] = v;
    }
    for (int k = 0; k < 2; k++) {
        end[k].loc = loc;
        ir_build(&end[k], OP_YIELD, yields[k], n, NO_ATTRS, NULL, 0);
    }
    l->b.loc = loc;
    Instr *i = ir_build(&l->b, OP_IF, &cond, 1, NO_ATTRS, types, n);
    attach(i, 0, blocks[0]);
    attach(i, 1, blocks[1]);
    for (int k = 0; k < n; k++) {
        carried[k]->v = value_ir(&i->results[k]);
        ir_set_name(&i->results[k], carried[k]->name);
    }
}

/* The branch, under `if !done` where the path may have returned already. */
static void lower_guarded(Lower *l, Branch b, bool tail)
{
    bool known;
    if (has_done(l, &known)) {
        if (!known) run_branch(l, b, tail);
        return;
    }
    if (l->frame->done.v.kind != V_IR || !lower_enter_blocks(l, l->b.loc, 1)) return;
    Value *go = ir_un(&l->b, OP_NOT, l->frame->done.v.value);
    bool returned_after = false;
    V done = l->frame->done.v;
    /* Inside, the path has not returned. */
    l->frame->done.v = value_bool(false);
    Branch all[1] = { b };
    Vars vars = changeable(l, all, 1);
    V *before = values_of(l, vars);
    Block *blocks[2] = { ir_block_new(l->func, NULL), ir_block_new(l->func, NULL) };
    Builder outer = l->b, end[2];
    Loc loc = l->b.loc;
    l->b = ir_at_end(blocks[0]);
    l->b.loc = loc;
    run_branch(l, b, false);
    end[0] = l->b;
    end[1] = ir_at_end(blocks[1]);
    end[1].loc = loc;
    l->b = outer;
    returned_after = surely_done(l);
    Value *yields[2][IR_MAX_RESULTS];
    const Type *types[IR_MAX_RESULTS];
    Var *carried[IR_MAX_RESULTS];
    int n = 0;
    for (size_t i = 0; i < vars.len; i++) {
        Var *v = vars.data[i];
        V a = v->v, e = v == &l->frame->done ? value_bool(true) : before[i];
        if (v == &l->frame->done && returned_after) continue;
        if (same(a, e)) continue;
        if (a.kind == V_ERROR || e.kind == V_ERROR) { v->v = value_error(); continue; }
        if (too_many(l, loc, (size_t)n) || !unify(l, &end[0], &end[1], &a, &e)) { v->v = value_error(); continue; }
        yields[0][n] = into(l, &end[0], a, loc);
        yields[1][n] = into(l, &end[1], e, loc);
        if (!yields[0][n] || !yields[1][n]) { v->v = value_error(); continue; }
        types[n] = yields[0][n]->type;
        carried[n++] = v;
    }
    for (int k = 0; k < 2; k++) ir_build(&end[k], OP_YIELD, yields[k], n, NO_ATTRS, NULL, 0);
    Instr *i = ir_build(&l->b, OP_IF, &go, 1, NO_ATTRS, types, n);
    attach(i, 0, blocks[0]);
    attach(i, 1, blocks[1]);
    for (int k = 0; k < n; k++) carried[k]->v = value_ir(&i->results[k]);
    lower_leave_blocks(l, 1);
    if (returned_after) l->frame->done.v = value_bool(true);
    else if (!branch_returns(b)) l->frame->done.v = done;
}

/* A scalar bool, as IR or known. */
static bool condition(Lower *l, const Node *n, const char *what, V *out)
{
    *out = lower_expr(l, n);
    if (out->kind == V_ERROR) return false;
    if ((out->kind != V_CONST && out->kind != V_IR) || value_dtype(*out) != DT_BOOL) {
        lower_error(l, n->loc, "the condition of `%s` must be bool, not %s", what, value_describe(l, *out));
        return false;
    }
    if (!value_rank(*out)) return true;
    lower_error_note(l, n->loc, "reduce it: any(...) or all(...), or choose by element with where(...)", "the condition of `%s` must be a scalar, not %s", what, value_describe(l, *out));
    return false;
}

static void lower_if(Lower *l, const Node *n, Branch rest, bool tail)
{
    Branch then_branch = { n->kids[1], NULL, 0, 0 }, else_branch = { n->kids[2], NULL, 0, 0 };
    bool rest_in_else = rest.from < rest.n && always_returns(n->kids[1]);
    bool rest_in_then = rest.from < rest.n && !rest_in_else && always_returns(n->kids[2]);
    if (rest_in_else) { else_branch.rest = rest.rest; else_branch.from = rest.from; else_branch.n = rest.n; }
    if (rest_in_then) { then_branch.rest = rest.rest; then_branch.from = rest.from; then_branch.n = rest.n; }
    V c;
    if (!condition(l, n->kids[0], "if", &c)) {
        /* Look into the branches for their own errors. */
        c = value_bool(true);
    }
    Value *cond = lower_materialize(l, c, n->kids[0]->loc);
    if (!cond || !lower_enter_blocks(l, n->loc, 1)) return;
    if_else(l, n->loc, cond, then_branch, else_branch, tail);
    lower_leave_blocks(l, 1);
}

static const Node *const_if_choice(Lower *l, const Node *n)
{
    while (n && n->kind == N_IF && n->op) {
        bool c;
        if (!lower_const_bool(l, n->kids[0], "the condition of `const if`", &c)) return NULL;
        n = n->kids[c ? 1 : 2];
    }
    return n;
}

/* --- loops ------------------------------------------------------------------------------------------------------------------------------ */

/* Erases what was lowered into a loose block. */
static void discard(Block *b)
{
    for (Instr *i = b->last, *prev; i; i = prev) {
        prev = i->prev;
        ir_erase(i);
    }
}

/* The types of a function's return values are known once a `return` was lowered. A loop needs them before its body: the body is
 * lowered once for that and thrown away. */
static void learn_returns(Lower *l, const Node *loop, const char *name)
{
    if (l->frame->is_kernel || l->frame->n_returns != -1 || l->frame->probing || !has_return(loop)) return;
    Branch b = { loop->kids[loop->n - 1], NULL, 0, 0 };
    Vars vars = changeable(l, &b, 1);
    V *before = values_of(l, vars);
    Builder outer = l->b;
    Block *scratch = ir_block_new(l->func, NULL);
    Scope inner;
    l->b = ir_at_end(scratch);
    lower_scope_push(l, &inner);
    if (name) lower_scope_add(l, name, loop->name_loc, value_ir(ir_block_arg(scratch, type_scalar(l->s, DT_INDEX), name)), false);
    int errors = l->s->n_errors;
    l->frame->probing = true;
    run_branch(l, b, false);
    l->frame->probing = false;
    if (l->s->n_errors > errors) l->stopped = true;     /* else they would be reported twice */
    lower_scope_pop(l);
    l->b = outer;
    set_values(vars, before);
    discard(scratch);
}

typedef struct Carried { Var *var; V before; Value *init, *arg[2]; } Carried;
typedef VEC(Carried) CarriedList;

/* Every variable that the loop may change, as a value before it and an argument of each of the loop's blocks. */
static CarriedList enter_loop(Lower *l, const Node *loop, Block *const *blocks, int n_blocks)
{
    Branch b[2] = { { loop->kids[loop->n - 1], NULL, 0, 0 } };
    Vars vars = changeable(l, b, 1);
    CarriedList list = { 0 };
    bool returns = has_return(loop);
    for (int k = 0; returns && k < l->frame->n_returns && k < MAX_RETURNS; k++)
        if (l->frame->returns[k].v.kind == V_VOID && l->frame->types[k]) l->frame->returns[k].v = zero_like(l, l->frame->types[k]);
    if (vars.len > LIMIT_CARRIED) {
        too_many(l, loop->loc, vars.len);
        l->stopped = true;
        vars.len = 0;
    }
    for (size_t i = 0; i < vars.len; i++) {
        Carried c = { vars.data[i], vars.data[i]->v, NULL, { NULL, NULL } };
        if (!value_is_number(c.before)) continue;
        if (!(c.init = lower_materialize(l, c.before, loop->loc))) continue;
        for (int k = 0; k < n_blocks; k++) c.arg[k] = ir_block_arg(blocks[k], c.init->type, c.var->name);
        vec_push(&l->s->arena, &list, c);
    }
    return list;
}

static void drop_args(Block *b)
{
    int n = 0;
    for (int k = 0; k < b->n_args; k++) {
        if (!b->args[k]) continue;
        b->args[n] = b->args[k];
        b->args[n]->index = n;
        n++;
    }
    b->n_args = n;
}

/* Takes what the loop left alone out of the lists; the rest has its next value in `next`. */
static void keep_changed(CarriedList *list, Value **passed, Value **next, Value **condition, Block *const *blocks, int n_blocks)
{
    size_t n = 0;
    for (size_t i = 0; i < list->len; i++) {
        Carried c = list->data[i];
        bool changed = next[i] != c.arg[n_blocks - 1] || (n_blocks == 2 && passed[i] != c.arg[0]);
        if (changed) {
            list->data[n] = c;
            if (passed) passed[n] = passed[i];
            next[n++] = next[i];
            continue;
        }
        for (int k = 0; k < n_blocks; k++) {
            ir_replace(c.arg[k], c.init);
            if (condition && *condition == c.arg[k]) *condition = c.init;
            for (size_t j = 0; j < list->len; j++) {
                if (passed && passed[j] == c.arg[k]) passed[j] = c.init;
                if (next[j] == c.arg[k]) next[j] = c.init;
            }
            for (int a = 0; a < blocks[k]->n_args; a++) if (blocks[k]->args[a] == c.arg[k]) blocks[k]->args[a] = NULL;
        }
        c.var->v = c.before;
    }
    list->len = n;
    for (int k = 0; k < n_blocks; k++) drop_args(blocks[k]);
}

/* The value of each variable at the end of a body, as IR of the type it had. */
static Value **next_values(Lower *l, CarriedList list, Loc loc)
{
    Value **next = arena_array(&l->s->arena, Value *, list.len + 1);
    for (size_t i = 0; i < list.len; i++) {
        V v = list.data[i].var->v;
        if (value_is_untyped(v)) v = lower_adapt(l, v, list.data[i].init->type->dtype, loc);
        next[i] = value_is_number(v) ? lower_materialize(l, v, loc) : NULL;
        if (next[i] && next[i]->type != list.data[i].init->type) {
            lower_error(l, l->frame->return_loc, "returns of different types: `%s` and `%s`", type_string(l->s, next[i]->type), type_string(l->s, list.data[i].init->type));
            next[i] = NULL;
        }
        if (!next[i]) next[i] = list.data[i].arg[0];
    }
    return next;
}

static void leave_loop(Lower *l, Instr *i, CarriedList list)
{
    for (size_t k = 0; k < list.len; k++) {
        list.data[k].var->v = value_ir(&i->results[k]);
        ir_set_name(&i->results[k], list.data[k].var->name);
    }
}

/* `hint (unroll = n)` of a loop; 0: none. */
static int64_t loop_unroll(Lower *l, const Node *hint)
{
    const Node *a = hint ? lower_hint_argument(l, hint, "unroll") : NULL;
    int64_t n = 0;
    return a && lower_const_int(l, a, "unroll", 1, 64, &n) ? n : 0;
}

static void lower_for(Lower *l, const Node *n)
{
    Value *lo = lower_index_value(l, n->kids[0], "the start of a loop"), *hi = lower_index_value(l, n->kids[1], "the end of a loop");
    int64_t step = 1;
    bool ok = !n->kids[2] || lower_const_int(l, n->kids[2], "the step of a loop", 1, INT32_MAX, &step);
    if (!lo || !hi || !ok) lo = hi = ir_index(&l->b, 0);
    Value *by = ir_index(&l->b, step);
    learn_returns(l, n, n->name);
    Block *body = ir_block_new(l->func, NULL);
    Value *counter = ir_block_arg(body, type_scalar(l->s, DT_INDEX), n->name);
    CarriedList list = enter_loop(l, n, &body, 1);
    Builder outer = l->b;
    Scope inner;
    for (size_t i = 0; i < list.len; i++) list.data[i].var->v = value_ir(list.data[i].arg[0]);
    l->b = ir_at_end(body);
    l->b.loc = n->loc;
    lower_scope_push(l, &inner);
    lower_scope_add(l, n->name, n->name_loc, value_ir(counter), false);
    lower_guarded(l, (Branch){ n->kids[4], NULL, 0, 0 }, false);
    lower_scope_pop(l);
    l->b.loc = n->loc;
    Value **next = next_values(l, list, n->loc);
    Builder end = l->b;
    keep_changed(&list, NULL, next, NULL, &body, 1);
    l->b = outer;
    if (too_many(l, n->loc, list.len)) { l->stopped = true; return; }
    ir_build(&end, OP_YIELD, next, (int)list.len, NO_ATTRS, NULL, 0);
    Value *operands[IR_MAX_RESULTS + 3] = { lo, hi, by };
    const Type *types[IR_MAX_RESULTS];
    for (size_t i = 0; i < list.len; i++) { operands[i + 3] = list.data[i].init; types[i] = list.data[i].init->type; }
    l->b.loc = n->loc;
    Attr unroll = a_int(ATTR_UNROLL, loop_unroll(l, n->kids[3]));
    Instr *loop = ir_build(&l->b, OP_FOR, operands, (int)list.len + 3, (Attrs){ &unroll, unroll.i != 0 }, types, (int)list.len);
    attach(loop, 0, body);
    leave_loop(l, loop, list);
}

static void lower_while(Lower *l, const Node *n)
{
    learn_returns(l, n, NULL);
    Block *blocks[2] = { ir_block_new(l->func, NULL), ir_block_new(l->func, NULL) };
    CarriedList list = enter_loop(l, n, blocks, 2);
    Builder outer = l->b;
    V c;
    for (size_t i = 0; i < list.len; i++) list.data[i].var->v = value_ir(list.data[i].arg[0]);
    l->b = ir_at_end(blocks[0]);
    l->b.loc = n->loc;
    V done = l->frame->done.v;
    if (!condition(l, n->kids[0], "while", &c)) c = value_bool(false);
    Value *go = lower_materialize(l, c, n->kids[0]->loc);
    if (done.kind == V_IR) go = ir_bin(&l->b, OP_AND, go, ir_un(&l->b, OP_NOT, done.value));
    Value **passed = next_values(l, list, n->loc);
    Builder test = l->b;
    for (size_t i = 0; i < list.len; i++) list.data[i].var->v = value_ir(list.data[i].arg[1]);
    if (done.kind == V_IR) l->frame->done.v = value_bool(false);
    l->b = ir_at_end(blocks[1]);
    l->b.loc = n->loc;
    run_branch(l, (Branch){ n->kids[1], NULL, 0, 0 }, false);
    l->b.loc = n->loc;
    Value **next = next_values(l, list, n->loc);
    Builder end = l->b;
    keep_changed(&list, passed, next, &go, blocks, 2);
    l->b = outer;
    if (too_many(l, n->loc, list.len)) { l->stopped = true; return; }
    Value *operands[IR_MAX_RESULTS + 1];
    operands[0] = go;
    for (size_t i = 0; i < list.len; i++) operands[i + 1] = passed[i];
    ir_build(&test, OP_CONDITION, operands, (int)list.len + 1, NO_ATTRS, NULL, 0);
    ir_build(&end, OP_YIELD, next, (int)list.len, NO_ATTRS, NULL, 0);
    const Type *types[IR_MAX_RESULTS];
    for (size_t i = 0; i < list.len; i++) { operands[i] = list.data[i].init; types[i] = list.data[i].init->type; }
    l->b.loc = n->loc;
    Instr *loop = ir_build(&l->b, OP_WHILE, operands, (int)list.len, NO_ATTRS, types, (int)list.len);
    attach(loop, 0, blocks[0]);
    attach(loop, 1, blocks[1]);
    leave_loop(l, loop, list);
}

static void lower_const_for(Lower *l, const Node *n)
{
    const int64_t most = (int64_t)1 << 40;
    int64_t lo, hi, by = 1;
    bool ok = lower_const_int(l, n->kids[0], "the start of `const for`", -most, most, &lo);
    ok &= lower_const_int(l, n->kids[1], "the end of `const for`", -most, most, &hi);
    ok &= !n->kids[2] || lower_const_int(l, n->kids[2], "the step of `const for`", 1, most, &by);
    if (!ok) return;
    int64_t count = hi > lo ? (hi - lo + by - 1) / by : 0;
    if (count > LIMIT_UNROLL) {
        lower_error_note(l, n->loc, "a plain `for` runs at run time", "`const for` of %lld iterations; at most %d are unrolled", (long long)count, LIMIT_UNROLL);
        return;
    }
    for (int64_t k = 0; k < count && !surely_done(l) && lower_step(l, n->loc); k++) {
        Scope inner;
        int errors = l->s->n_errors;
        lower_scope_push(l, &inner);
        lower_scope_add(l, n->name, n->name_loc, value_int(lo + k * by), false);
        lower_guarded(l, (Branch){ n->kids[4], NULL, 0, 0 }, false);
        lower_scope_pop(l);
        if (l->s->n_errors > errors) return;
    }
}

/* --- bindings and assignments --------------------------------------------------------------------------------------------------------- */

static V variable_value(Lower *l, V v, Loc loc, const char *name)
{
    if (v.kind == V_ERROR) return v;
    Value *x = lower_materialize(l, v, loc);
    if (!x) return value_error();
    if (!x->name) ir_set_name(x, name);
    return value_ir(x);
}

static void bind_name(Lower *l, const Node *name, V v, Loc loc, bool is_var)
{
    if (v.kind == V_VOID) v = lower_error(l, loc, "this call gives no value");
    if (!strcmp(name->name, "_")) return;
    if (is_var) v = variable_value(l, v, loc, name->name);
    else if (v.kind == V_IR && !v.value->name) ir_set_name(v.value, name->name);
    lower_scope_add(l, name->name, name->loc, v, is_var);
}

static void lower_bind(Lower *l, const Node *n)
{
    bool is_var = n->kind == N_VAR;
    V v = lower_expr(l, n->kids[0]);
    if (!n->op) {
        if (is_var && v.kind == V_TUPLE) v = lower_error(l, n->kids[0]->loc, "a variable cannot hold a tuple: name its parts, `var (a, b) = ...`");
        bind_name(l, n->kids[1], v, n->kids[0]->loc, is_var);
        return;
    }
    int names = (int)n->n - 1;
    if (v.kind != V_ERROR && (v.kind != V_TUPLE || v.n != names))
        v = lower_error(l, n->kids[0]->loc, "%d names for %s", names, v.kind == V_TUPLE ? value_describe(l, v) : "a single value");
    for (int k = 0; k < names; k++) bind_name(l, n->kids[k + 1], v.kind == V_TUPLE ? v.items[k] : value_error(), n->kids[0]->loc, is_var);
}

static void assign_name(Lower *l, const Node *target, V v, Loc loc)
{
    Var *var = target->kind == N_NAME ? lower_scope_find(l, target->name) : NULL;
    if (target->kind == N_NAME && !strcmp(target->name, "_")) return;
    if (target->kind == N_INDEX) {
        lower_error_note(l, target->loc, "store(X[...], value) writes a tensor; a tile changes as a whole: x = where(...)", "an element cannot be assigned");
        return;
    }
    if (target->kind != N_NAME) { lower_error(l, target->loc, "only a variable can be assigned"); return; }
    if (!var) {
        lower_error_note(l, target->loc, arena_printf(&l->s->arena, "`var %s = ...` declares it", target->name), "unknown variable `%s`", target->name);
        return;
    }
    if (!var->is_var) {
        lower_error(l, target->loc, "`%s` cannot be assigned: it is not a `var`", target->name);
        return;
    }
    if (v.kind == V_ERROR || var->v.kind == V_ERROR) return;
    const Type *t = var->v.value->type;
    if (value_is_untyped(v)) v = lower_adapt(l, v, t->dtype, loc);
    if (v.kind == V_ERROR) return;
    if ((v.kind != V_CONST && v.kind != V_IR) || type_of_value(l, v) != t) {
        if (v.kind == V_TENSOR || v.kind == V_VOID) { lower_error(l, loc, "`%s` is `%s`; this is %s", target->name, type_string(l->s, t), value_describe(l, v)); return; }
        lower_error_note(l, loc, "a variable keeps its type and shape", "`%s` is `%s`; the value is %s", target->name, type_string(l->s, t), value_describe(l, v));
        return;
    }
    /* A fresh name only for a fresh value: `m = m_new` leaves m_new its own. */
    Value *x = lower_materialize(l, v, loc);
    if (!x->name) ir_set_name(x, target->name);
    var->v = value_ir(x);
}

static void lower_assign(Lower *l, const Node *n)
{
    const Node *target = n->kids[0];
    V v;
    if (n->op) {
        Node op = { .kind = N_BINARY, .op = n->op, .n = 2, .loc = n->loc, .kids = (Node *[]){ n->kids[0], n->kids[1] } };
        v = lower_expr(l, &op);
        if (v.kind == V_ERROR) return;
    } else v = lower_expr(l, n->kids[1]);
    if (target->kind != N_TUPLE) { assign_name(l, target, v, n->kids[1]->loc); return; }
    if (v.kind != V_ERROR && (v.kind != V_TUPLE || v.n != (int)target->n))
        v = lower_error(l, n->kids[1]->loc, "%d names for %s", (int)target->n, v.kind == V_TUPLE ? value_describe(l, v) : "a single value");
    for (uint32_t k = 0; k < target->n; k++) assign_name(l, target->kids[k], v.kind == V_TUPLE ? v.items[k] : value_error(), n->kids[1]->loc);
}

/* --- return ------------------------------------------------------------------------------------------------------------------------------- */

static void lower_return(Lower *l, const Node *n)
{
    Frame *f = l->frame;
    int errors = l->s->n_errors;
    V v = n->kids[0] ? lower_expr(l, n->kids[0]) : value_void();
    bool tuple = v.kind == V_TUPLE;
    int count = v.kind == V_VOID ? 0 : tuple ? v.n : 1;
    const V *items = tuple ? v.items : &v;
    if (f->is_kernel && n->kids[0]) lower_error_note(l, n->loc, "results leave a kernel through `out` tensors", "a kernel returns nothing");
    else if (count > MAX_RETURNS) lower_error(l, n->loc, "a function returns at most %d values", MAX_RETURNS);
    else if (v.kind == V_ERROR || f->is_kernel) ;
    else if (f->n_returns >= 0 && (f->n_returns != count || f->tuple != tuple))
        lower_error(l, n->loc, "this return gives %d value%s, another one %d", count, count == 1 ? "" : "s", f->n_returns);
    else {
        f->n_returns = count;
        f->tuple = tuple;
        f->return_loc = n->loc;
        for (int k = 0; k < count; k++) {
            f->returns[k].v = items[k];
            if (value_is_untyped(items[k]) && !f->types[k]) f->types[k] = type_scalar(l->s, items[k].kind == V_INT ? DT_INDEX : DT_F32);
            else if (type_of_value(l, items[k])) f->types[k] = type_of_value(l, items[k]);
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
    Frame f = { .node = n, .is_kernel = is_kernel, .n_returns = -1, .done = { .name = "done", .v = value_bool(false) }, .return_loc = n->loc };
    for (int k = 0; k < MAX_RETURNS; k++) f.returns[k] = (Var){ .name = "result", .v = value_void() };
    return f;
}

V lower_frame_result(Lower *l, Frame *f)
{
    if (f->failed || l->stopped) return value_error();
    if (f->n_returns <= 0) return value_void();
    bool done;
    if (!value_to_bool(f->done.v, &done) || !done)
        return lower_error(l, f->return_loc, "`%s` returns a value here, but not on every path", f->node->name);
    V items[MAX_RETURNS];
    for (int k = 0; k < f->n_returns; k++) {
        if (f->returns[k].v.kind == V_ERROR) return value_error();
        items[k] = f->returns[k].v;
    }
    return f->tuple ? value_tuple(l, f->n_returns, items) : items[0];
}

/* --- statements --------------------------------------------------------------------------------------------------------------------------- */

static void dispatch(Lower *l, const Node *n, bool tail)
{
    l->b.loc = n->loc;
    switch ((int)n->kind) {
    case N_LET: case N_VAR: lower_bind(l, n); return;
    case N_CONSTANT: lower_const(l, n); return;
    case N_ASSIGN: lower_assign(l, n); return;
    case N_EXPR:
        if (n->kids[0]->kind != N_CALL && n->kids[0]->kind != N_ERROR) { lower_error(l, n->loc, "this statement has no effect"); return; }
        lower_expr(l, n->kids[0]);
        return;
    case N_FOR:
        if (n->op) { lower_const_for(l, n); return; }
        if (!lower_enter_blocks(l, n->loc, 1)) return;
        lower_for(l, n);
        lower_leave_blocks(l, 1);
        return;
    case N_WHILE:
        if (!lower_enter_blocks(l, n->loc, 1)) return;
        lower_while(l, n);
        lower_leave_blocks(l, 1);
        return;
    case N_IF:
        if (n->op) { n = const_if_choice(l, n); if (n) lower_stmt(l, n, tail); return; }
        lower_if(l, n, (Branch){ 0 }, tail);
        return;
    case N_RETURN: lower_return(l, n); return;
    case N_BLOCK: lower_block(l, n, tail); return;
    default: return;
    }
}

static void lower_stmt(Lower *l, const Node *n, bool tail)
{
    if (!n || !lower_descend(l, n->loc)) return;
    dispatch(l, n, tail);
    l->recursion--;
}

static void lower_list(Lower *l, Node *const *kids, uint32_t from, uint32_t n, bool tail)
{
    for (uint32_t i = from; i < n && !l->stopped; i++) {
        if (surely_done(l)) return;
        if (l->frame->done.v.kind == V_IR) {
            l->b.loc = kids[i]->loc;
            lower_guarded(l, (Branch){ NULL, kids, i, n }, tail);
            return;
        }
        const Node *s = kids[i];
        if (s->kind == N_IF && s->op) {
            s = const_if_choice(l, s);
            if (!s) continue;
        }
        bool last = i + 1 == n;
        if (s->kind == N_IF && tail && !last && (always_returns(s->kids[1]) || always_returns(s->kids[2]))) {
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
