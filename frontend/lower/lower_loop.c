/* lower_loop.c: loops. Bodies are lowered into loose blocks with every variable that might change as an
 * argument; what did not change is taken out again before the instruction is built. A `for` whose body
 * returns is built as a `while` that counts: the return ends the loop. */
#include "frontend/lower/lower_flow.h"

/* Erases the instructions behind `mark` (NULL: the start of the block) up to `end`. */
static void erase_between(Instr *mark, Instr *end)
{
    for (Instr *i = end, *prev; i && i != mark; i = prev) {
        prev = i->prev;
        ir_erase(i);
    }
}

/* Erases what was lowered into a loose block. */
static void discard(Block *b) { erase_between(NULL, b->last); }

/* The types of a function's return values are known once a `return` was lowered. A loop needs them before its
 * body: the body is lowered once for that and thrown away. */
static void learn_returns(Lower *l, const Node *loop, const char *name)
{
    if (l->frame->is_kernel || l->frame->n_returns != -1 || l->frame->probing || !flow_returns(loop)) return;
    Branch b = { loop->kids[loop->n - 1], NULL, 0, 0 };
    Vars vars = flow_changeable(l, &b, 1);
    V *before = flow_values(l, vars);
    Builder outer = l->b;
    Block *scratch = ir_block_new(l->func, NULL);
    Scope inner;
    l->b = ir_at_end(scratch);
    lower_scope_push(l, &inner);
    if (name)
        lower_scope_add(l, name, loop->name_loc,
            value_ir(ir_block_arg(scratch, type_scalar(l->s, DT_INDEX), name)), false);
    int errors = l->s->n_errors;
    l->frame->probing = true;
    lower_branch(l, b, false);
    l->frame->probing = false;
    if (l->s->n_errors > errors) l->stopped = true; /* Otherwise the errors would be reported twice. */
    lower_scope_pop(l);
    l->b = outer;
    flow_set_values(vars, before);
    discard(scratch);
}

typedef struct Carried {
    Var *var;
    V before;
    Value *init, *arg[2];
} Carried;
typedef VEC(Carried) CarriedList;

/* Every variable that the loop may change, as a value before it and an argument of each of the loop's blocks.
 */
static CarriedList enter_loop(Lower *l, const Node *loop, Block *const *blocks, int n_blocks)
{
    Branch b[2] = { { loop->kids[loop->n - 1], NULL, 0, 0 } };
    Vars vars = flow_changeable(l, b, 1);
    CarriedList list = { 0 };
    bool returns = flow_returns(loop);
    for (int k = 0; returns && k < l->frame->n_returns && k < MAX_RETURNS; k++)
        if (l->frame->returns[k].v.kind == V_VOID && l->frame->types[k])
            l->frame->returns[k].v = flow_zero(l, l->frame->types[k]);
    if (vars.len > LIMIT_CARRIED) {
        flow_too_many(l, loop->loc, vars.len);
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
static void keep_changed(
    CarriedList *list, Value **passed, Value **next, Value **condition, Block *const *blocks, int n_blocks)
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
            for (int a = 0; a < blocks[k]->n_args; a++)
                if (blocks[k]->args[a] == c.arg[k]) blocks[k]->args[a] = NULL;
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
            lower_error(l, l->frame->return_loc, "returns of different types: `%s` and `%s`",
                type_string(l->s, next[i]->type), type_string(l->s, list.data[i].init->type));
            next[i] = NULL;
        }
        if (!next[i]) next[i] = list.data[i].arg[0];
    }
    return next;
}

/* From here on the variables are the loop's results, from number `first` on. */
static void leave_loop(Lower *l, Instr *i, CarriedList list, int first)
{
    for (size_t k = 0; k < list.len; k++) {
        Value *result = &i->results[(size_t)first + k];
        list.data[k].var->v = value_ir(result);
        ir_set_name(result, list.data[k].var->name);
    }
}

/* --- loops that end by a test ------------------------------------------------------------------------ */

/* The counter of a `for` that is built as a `while`: an argument of each of its two blocks. */
typedef struct Counter {
    Value *lo, *hi, *by, *arg[2];
} Counter;

/* The test, in the first block. It asks whether the path has returned, too. */
static Value *loop_test(Lower *l, const Node *n, const Counter *count)
{
    V done = l->frame->done.v, c;
    if (count) c = value_ir(ir_bin(&l->b, OP_LT, count->arg[0], count->hi));
    else if (!lower_guarded_condition(l, n->kids[0], "while", &c)) c = value_bool(false);
    Value *go = lower_materialize(l, c, n->kids[0]->loc);
    return done.kind == V_IR ? ir_bin(&l->b, OP_AND, go, ir_un(&l->b, OP_NOT, done.value)) : go;
}

/* Ends the two blocks and builds the instruction around them. A counter is the first value that the loop
 * carries. */
static void build_while(Lower *l, const Node *n, Block *const *blocks, Builder *ends, CarriedList list,
    const Counter *count, Value *go, Value *const *passed, Value *const *next)
{
    Value *init[IR_MAX_RESULTS], *test[IR_MAX_RESULTS + 1] = { go }, *yield[IR_MAX_RESULTS];
    const Type *types[IR_MAX_RESULTS];
    int k = 0;
    if (count) {
        init[k] = count->lo;
        test[k + 1] = count->arg[0];
        yield[k] = ir_bin(&ends[1], OP_ADD, count->arg[1], count->by);
        types[k++] = count->lo->type;
    }
    for (size_t i = 0; i < list.len; i++, k++) {
        init[k] = list.data[i].init;
        test[k + 1] = passed[i];
        yield[k] = next[i];
        types[k] = init[k]->type;
    }
    ir_build(&ends[0], OP_CONDITION, test, k + 1, NO_ATTRS, NULL, 0);
    ir_build(&ends[1], OP_YIELD, yield, k, NO_ATTRS, NULL, 0);
    l->b.loc = n->loc;
    Instr *loop = ir_build(&l->b, OP_WHILE, init, k, NO_ATTRS, types, k);
    flow_attach(loop, 0, blocks[0]);
    flow_attach(loop, 1, blocks[1]);
    leave_loop(l, loop, list, count != NULL);
}

/* A `while`, or a `for` that a `return` may leave. */
static void lower_tested(Lower *l, const Node *n, Counter *count)
{
    Block *blocks[2] = { ir_block_new(l->func, NULL), ir_block_new(l->func, NULL) };
    for (int k = 0; k < 2 && count; k++)
        count->arg[k] = ir_block_arg(blocks[k], type_scalar(l->s, DT_INDEX), n->name);
    CarriedList list = enter_loop(l, n, blocks, 2);
    Builder outer = l->b, ends[2];
    Scope inner;
    for (size_t i = 0; i < list.len; i++) list.data[i].var->v = value_ir(list.data[i].arg[0]);
    l->b = ir_at_end(blocks[0]);
    l->b.loc = n->loc;
    Value *go = loop_test(l, n, count), **passed = next_values(l, list, n->loc);
    ends[0] = l->b;
    for (size_t i = 0; i < list.len; i++) list.data[i].var->v = value_ir(list.data[i].arg[1]);
    if (l->frame->done.v.kind == V_IR) l->frame->done.v = value_bool(false);
    l->b = ir_at_end(blocks[1]);
    l->b.loc = n->loc;
    lower_scope_push(l, &inner);
    if (count) lower_scope_add(l, n->name, n->name_loc, value_ir(count->arg[1]), false);
    lower_branch(l, (Branch){ n->kids[n->n - 1], NULL, 0, 0 }, false);
    lower_scope_pop(l);
    l->b.loc = n->loc;
    Value **next = next_values(l, list, n->loc);
    ends[1] = l->b;
    keep_changed(&list, passed, next, &go, blocks, 2);
    l->b = outer;
    if (flow_too_many(l, n->loc, list.len + (count != NULL))) {
        l->stopped = true;
        return;
    }
    build_while(l, n, blocks, ends, list, count, go, passed, next);
}

void lower_while(Lower *l, const Node *n)
{
    learn_returns(l, n, NULL);
    lower_tested(l, n, NULL);
}

/* --- for --------------------------------------------------------------------------------------------- */

/* `hint (unroll = n)` of a loop; 0: none. */
static int64_t loop_unroll(Lower *l, const Node *hint)
{
    const Node *a = hint ? lower_hint_argument(l, hint, "unroll") : NULL;
    int64_t n = 0;
    return a && lower_const_int(l, a, "unroll", 1, 64, &n) ? n : 0;
}

/* A `for` that runs to its end. */
static void lower_counted(Lower *l, const Node *n, const Counter *count, Attr unroll)
{
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
    lower_branch(l, (Branch){ n->kids[4], NULL, 0, 0 }, false);
    lower_scope_pop(l);
    l->b.loc = n->loc;
    Value **next = next_values(l, list, n->loc);
    Builder end = l->b;
    keep_changed(&list, NULL, next, NULL, &body, 1);
    l->b = outer;
    if (flow_too_many(l, n->loc, list.len)) {
        l->stopped = true;
        return;
    }
    ir_build(&end, OP_YIELD, next, (int)list.len, NO_ATTRS, NULL, 0);
    Value *operands[IR_MAX_RESULTS + 3] = { count->lo, count->hi, count->by };
    const Type *types[IR_MAX_RESULTS];
    for (size_t i = 0; i < list.len; i++) {
        operands[i + 3] = list.data[i].init;
        types[i] = list.data[i].init->type;
    }
    l->b.loc = n->loc;
    Instr *loop = ir_build(
        &l->b, OP_FOR, operands, (int)list.len + 3, (Attrs){ &unroll, unroll.i != 0 }, types, (int)list.len);
    flow_attach(loop, 0, body);
    leave_loop(l, loop, list, 0);
}

void lower_for(Lower *l, const Node *n)
{
    Value *lo = lower_index_value(l, n->kids[0], "the start of a loop"),
          *hi = lower_index_value(l, n->kids[1], "the end of a loop");
    int64_t step = 1;
    bool ok = !n->kids[2] || lower_const_int(l, n->kids[2], "the step of a loop", 1, INT32_MAX, &step);
    if (!lo || !hi || !ok) lo = hi = ir_index(&l->b, 0);
    Counter count = { lo, hi, ir_index(&l->b, step), { NULL, NULL } };
    Attr unroll = a_int(ATTR_UNROLL, loop_unroll(l, n->kids[3]));
    learn_returns(l, n, n->name);
    if (flow_returns(n)) lower_tested(l, n, &count);
    else lower_counted(l, n, &count, unroll);
}

/* --- const for --------------------------------------------------------------------------------------- */

typedef struct ConstLoop {
    int64_t lo, by, count;
} ConstLoop;

static int64_t count_instrs(const Instr *from)
{
    int64_t n = 0;
    for (const Instr *i = from; i; i = i->next) {
        n++;
        for (int k = 0; k < i->n_blocks; k++) n += count_instrs(i->blocks[k]->first);
    }
    return n;
}

/* One iteration, with the counter as a constant. False after an error. */
static bool lower_iteration(Lower *l, const Node *n, const ConstLoop *c, int64_t k)
{
    Scope inner;
    int errors = l->s->n_errors;
    lower_scope_push(l, &inner);
    lower_scope_add(l, n->name, n->name_loc, value_int(c->lo + k * c->by), false);
    lower_guarded(l, (Branch){ n->kids[4], NULL, 0, 0 }, false);
    lower_scope_pop(l);
    return l->s->n_errors == errors;
}

/* Lowers it as a `for`. After an error, what was lowered so far cannot be used, since it refers to the body:
 * the kernel is lowered once more, with this loop unrolled, and the diagnostics of the attempt are dropped.
 */
static bool lower_as_loop(Lower *l, const Node *n, const ConstLoop *c)
{
    Session *s = l->s;
    Diag *last = s->last_diag;
    DiagFn *on_diag = s->on_diag;
    int errors = s->n_errors, warnings = s->n_warnings, perf = s->n_perf;
    Counter count = { ir_index(&l->b, c->lo), ir_index(&l->b, c->lo + c->count * c->by),
        ir_index(&l->b, c->by), { NULL, NULL } };
    s->on_diag = NULL;
    lower_counted(l, n, &count, a_int(ATTR_UNROLL, 0));
    s->on_diag = on_diag;
    if (l->again) return false;
    if (s->n_errors > errors || l->stopped) {
        diag_forget(s, last, errors);
        s->n_warnings = warnings;
        s->n_perf = perf;
        vec_push(&s->arena, &l->unrolled, n);
        l->again = l->stopped = true;
        return false;
    }
    for (Diag *d = last ? last->next : s->diags; d && on_diag; d = d->next) on_diag(s->on_diag_user, s, d);
    return true;
}

static bool must_unroll(const Lower *l, const Node *n)
{
    for (size_t i = 0; i < l->unrolled.len; i++)
        if (l->unrolled.data[i] == n) return true;
    return flow_returns(n) || l->in_clause || l->in_combine || l->frame->probing;
}

/* After the first iteration, which stands behind `mark`: where all iterations together are many instructions,
 * the loop is one at run time, if its body does not need the counter, or a variable that it changes, as a
 * constant. The first iteration is then erased. `start`: the values of `vars` before it. */
static bool lower_grown(Lower *l, const Node *n, const ConstLoop *c, Vars vars, const V *start, Instr *mark)
{
    int64_t instrs = count_instrs(mark ? mark->next : l->b.block->first);
    if (instrs * c->count <= LIMIT_GROWTH || must_unroll(l, n)) return false;
    for (size_t i = 0; i < vars.len; i++)
        if (start[i].kind != V_IR && !flow_same(start[i], vars.data[i]->v)) return false;
    flow_set_values(vars, start);
    Instr *end = l->b.block->last;
    if (!lower_as_loop(l, n, c)) return true;
    erase_between(mark, end);
    diag_perf(l->s, n->loc,
        "`const for` of %lld iterations with %lld operations each is a loop at run time; at most %d "
        "operations are unrolled",
        (long long)c->count, (long long)instrs, LIMIT_GROWTH);
    return true;
}

void lower_const_for(Lower *l, const Node *n)
{
    const int64_t most = (int64_t)1 << 40;
    ConstLoop c = { .by = 1 };
    int64_t hi;
    bool ok = lower_const_int(l, n->kids[0], "the start of `const for`", -most, most, &c.lo);
    ok &= lower_const_int(l, n->kids[1], "the end of `const for`", -most, most, &hi);
    ok &= !n->kids[2] || lower_const_int(l, n->kids[2], "the step of `const for`", 1, most, &c.by);
    if (!ok) return;
    c.count = hi > c.lo ? (hi - c.lo + c.by - 1) / c.by : 0;
    if (c.count > LIMIT_UNROLL) {
        lower_error_note(l, n->loc, "a plain `for` runs at run time",
            "`const for` of %lld iterations; at most %d are unrolled", (long long)c.count, LIMIT_UNROLL);
        return;
    }
    Branch body = { n->kids[4], NULL, 0, 0 };
    Vars vars = flow_changeable(l, &body, 1);
    V *start = flow_values(l, vars);
    Block *block = l->b.block;
    Instr *mark = block->last;
    for (int64_t k = 0; k < c.count && !flow_done(l) && lower_step(l, n->loc); k++) {
        if (!lower_iteration(l, n, &c, k)) return;
        if (k == 0 && l->b.block == block && lower_grown(l, n, &c, vars, start, mark)) return;
    }
}
