/* lower_if.c: ifs, and what follows a statement that may have returned. See lower_flow.h. */
#include "frontend/lower/lower_flow.h"

/* Brings the two sides of an if to one type. Only return values can differ: literals adapt, an unset side
 * gets zeros, which are never looked at because `done` says so. */
static bool unify(Lower *l, Builder *then_b, Builder *else_b, V *a, V *b)
{
    Loc loc = l->frame->return_loc;
    Builder at = l->b;
    bool ok = true;
    if (a->kind != V_VOID && b->kind != V_VOID) {
        if (value_is_number(*a) && value_is_number(*b) && (value_is_untyped(*a) || value_is_untyped(*b)))
            ok = lower_same_dtype(l, loc, "returns", a, b);
    } else {
        V *set = a->kind == V_VOID ? b : a, *unset = a->kind == V_VOID ? a : b;
        *set = lower_concretize(l, *set, loc);
        const Type *t = flow_type(l, *set);
        l->b = unset == a ? *then_b : *else_b;
        if (t) *unset = flow_zero(l, t);
    }
    l->b = at;
    const Type *ta = flow_type(l, *a), *tb = flow_type(l, *b);
    if (ok && (!ta || !tb)) {
        lower_error(l, loc, "the returned value depends on the path: %s and %s", value_describe(l, *a),
            value_describe(l, *b));
        ok = false;
    } else if (ok && ta != tb) {
        lower_error(l, loc, "returns of different types: `%s` and `%s`", type_string(l->s, tb),
            type_string(l->s, ta));
        ok = false;
    }
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

void lower_branch(Lower *l, Branch b, bool tail)
{
    if (b.body) {
        if (b.body->kind == N_BLOCK) lower_block(l, b.body, tail && b.from == b.n);
        else lower_stmt(l, b.body, tail && b.from == b.n);
    }
    if (b.from < b.n) lower_list(l, b.rest, b.from, b.n, tail);
}

/* In tail position nothing reads a kernel's `done` any more; for a function the flag must be known to be set
 * on both sides. */
static V join_done(Lower *l, V a, V b, bool tail)
{
    bool x, y;
    if (!tail) return value_void();
    if (value_to_bool(a, &x) && value_to_bool(b, &y) && x && y) return value_bool(true);
    return l->frame->is_kernel || l->frame->n_returns <= 0 ? value_bool(true) : value_void();
}

/* The two sides of an if on their way together. */
typedef struct Join {
    Block *blocks[2];
    Builder end[2];
    Value *yields[2][IR_MAX_RESULTS];
    const Type *types[IR_MAX_RESULTS];
    Var *carried[IR_MAX_RESULTS];
    int n;
} Join;

/* `v` is `a` after the one side and `b` after the other. */
static void join_variable(Lower *l, Loc loc, Join *j, Var *v, V a, V b)
{
    v->v = a;
    if (flow_same(a, b)) return;
    v->v = value_error();
    if (a.kind == V_ERROR || b.kind == V_ERROR || flow_too_many(l, loc, (size_t)j->n) ||
        !unify(l, &j->end[0], &j->end[1], &a, &b))
        return;
    j->yields[0][j->n] = into(l, &j->end[0], a, loc);
    j->yields[1][j->n] = into(l, &j->end[1], b, loc);
    if (!j->yields[0][j->n] || !j->yields[1][j->n]) return;
    j->types[j->n] = j->yields[0][j->n]->type;
    j->carried[j->n++] = v;
}

/* The `if` at the builder's place; the variables that differed are its results. */
static Instr *join(Lower *l, Loc loc, Join *j, Value *cond)
{
    for (int k = 0; k < 2; k++) {
        j->end[k].loc = loc;
        ir_build(&j->end[k], OP_YIELD, j->yields[k], j->n, NO_ATTRS, NULL, 0);
    }
    l->b.loc = loc;
    Instr *i = ir_build(&l->b, OP_IF, &cond, 1, NO_ATTRS, j->types, j->n);
    for (int k = 0; k < 2; k++) flow_attach(i, k, j->blocks[k]);
    for (int k = 0; k < j->n; k++) j->carried[k]->v = value_ir(&i->results[k]);
    return i;
}

static void if_else(Lower *l, Loc loc, Value *cond, Branch then_branch, Branch else_branch, bool tail)
{
    Branch both[2] = { then_branch, else_branch };
    Vars vars = flow_changeable(l, both, 2);
    V *before = flow_values(l, vars), *after[2];
    Builder outer = l->b;
    Join j = { .n = 0 };
    for (int k = 0; k < 2; k++) {
        flow_set_values(vars, before);
        j.blocks[k] = ir_block_new(l->func, NULL);
        l->b = ir_at_end(j.blocks[k]);
        l->b.loc = loc;
        lower_branch(l, both[k], tail);
        after[k] = flow_values(l, vars);
        j.end[k] = l->b;
    }
    l->b = outer;
    for (size_t i = 0; i < vars.len; i++) {
        V a = after[0][i], b = after[1][i];
        Var *v = vars.data[i];
        if (v == &l->frame->done) {
            V done = join_done(l, a, b, tail);
            if (done.kind != V_VOID) {
                v->v = done;
                continue;
            }
        }
        join_variable(l, loc, &j, v, a, b);
    }
    Instr *i = join(l, loc, &j, cond);
    for (int k = 0; k < j.n; k++) ir_set_name(&i->results[k], j.carried[k]->name);
}

void lower_guarded(Lower *l, Branch b, bool tail)
{
    bool known;
    if (flow_done_known(l, &known)) {
        if (!known) lower_branch(l, b, tail);
        return;
    }
    if (l->frame->done.v.kind != V_IR || !lower_enter_blocks(l, l->b.loc, 1)) return;
    Value *go = ir_un(&l->b, OP_NOT, l->frame->done.v.value);
    bool returned_after = false;
    V done = l->frame->done.v;
    /* Inside the branch, the path has not returned. */
    l->frame->done.v = value_bool(false);
    Branch all[1] = { b };
    Vars vars = flow_changeable(l, all, 1);
    V *before = flow_values(l, vars);
    Builder outer = l->b;
    Join j = { .blocks = { ir_block_new(l->func, NULL), ir_block_new(l->func, NULL) } };
    Loc loc = l->b.loc;
    l->b = ir_at_end(j.blocks[0]);
    l->b.loc = loc;
    lower_branch(l, b, false);
    j.end[0] = l->b;
    j.end[1] = ir_at_end(j.blocks[1]);
    j.end[1].loc = loc;
    l->b = outer;
    returned_after = flow_done(l);
    for (size_t i = 0; i < vars.len; i++) {
        Var *v = vars.data[i];
        V a = v->v, e = v == &l->frame->done ? value_bool(true) : before[i];
        if (v == &l->frame->done && returned_after) continue;
        join_variable(l, loc, &j, v, a, e);
    }
    join(l, loc, &j, go);
    lower_leave_blocks(l, 1);
    if (returned_after) l->frame->done.v = value_bool(true);
    else if (!flow_branch_returns(b)) l->frame->done.v = done;
}

bool lower_guarded_condition(Lower *l, const Node *n, const char *what, V *out)
{
    V done = l->frame->done.v;
    if (done.kind != V_IR || lower_is_pure(l, n)) return flow_condition(l, n, what, out);
    if (!lower_enter_blocks(l, n->loc, 1)) return false;
    Value *go = ir_un(&l->b, OP_NOT, done.value);
    Vars tokens = flow_changeable(l, NULL, 0);
    V *before = flow_values(l, tokens);
    Var result = { .name = "go" };
    Builder outer = l->b;
    Join j = { .blocks = { ir_block_new(l->func, NULL), ir_block_new(l->func, NULL) } };
    l->b = ir_at_end(j.blocks[0]);
    l->b.loc = n->loc;
    bool ok = flow_condition(l, n, what, out);
    j.end[0] = l->b;
    j.end[1] = ir_at_end(j.blocks[1]);
    j.end[1].loc = n->loc;
    l->b = outer;
    for (size_t i = 0; i < tokens.len; i++)
        join_variable(l, n->loc, &j, tokens.data[i], tokens.data[i]->v, before[i]);
    join_variable(l, n->loc, &j, &result, ok ? *out : value_bool(true), value_bool(false));
    join(l, n->loc, &j, go);
    lower_leave_blocks(l, 1);
    *out = result.v;
    return ok;
}

void lower_if(Lower *l, const Node *n, Branch rest, bool tail)
{
    Branch then_branch = { n->kids[1], NULL, 0, 0 }, else_branch = { n->kids[2], NULL, 0, 0 };
    bool rest_in_else = rest.from < rest.n && flow_always_returns(n->kids[1]);
    bool rest_in_then = rest.from < rest.n && !rest_in_else && flow_always_returns(n->kids[2]);
    if (rest_in_else) {
        else_branch.rest = rest.rest;
        else_branch.from = rest.from;
        else_branch.n = rest.n;
    }
    if (rest_in_then) {
        then_branch.rest = rest.rest;
        then_branch.from = rest.from;
        then_branch.n = rest.n;
    }
    V c;
    if (!flow_condition(l, n->kids[0], "if", &c)) {
        /* Lower the branches too, to report their own errors. */
        c = value_bool(true);
    }
    Value *cond = lower_materialize(l, c, n->kids[0]->loc);
    if (!cond || !lower_enter_blocks(l, n->loc, 1)) return;
    if_else(l, n->loc, cond, then_branch, else_branch, tail);
    lower_leave_blocks(l, 1);
}

const Node *lower_const_if(Lower *l, const Node *n)
{
    while (n && n->kind == N_IF && n->op) {
        bool c;
        if (!lower_const_bool(l, n->kids[0], "the condition of `const if`", &c)) return NULL;
        n = n->kids[c ? 1 : 2];
    }
    return n;
}
