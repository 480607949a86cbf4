/* paired_programs.c: lets one program compute the products of several neighbouring ones that share their left
 * operand.
 *
 *   grid { yield %n }                                 grid { yield cdiv %n, 2 }
 *   %j = program_id                                   %j0 = mul program_id, 2; %j1 = add %j0, 1
 *   %s = for .. with (%x = %zero) {            ->     %s0, %s1 = for .. with (%x0 = %zero, %x1 = %zero) {
 *     %a = load %A[..]                                  %a = load %A[..]
 *     %b = load %B[.., mul %j, 128]                     %b0 = load %B[.., mul %j0, 128]
 *     yield mma %a, %b, %x                              %y0 = mma %a, %b0, %x0
 *   }                                                   %b1 = load %B[.., mul %j1, 128]
 *   store %C[.., mul %j, 128] = %s                      yield %y0, mma %a, %b1, %x1
 *                                                     }
 *                                                     store %C[.., ..] = %s0; store %C[.., ..] = %s1
 *
 * A program whose columns something else bounds (blocks that have a scale, heads, records of 128 columns)
 * has a small tile, for which shared memory is read more often than the matrix unit allows. Two sums of such
 * tiles that share the rows of the left operand read as much as one large tile. What does not depend on the
 * program's coordinate is loaded and computed once. Each program computes what it computed before, in the
 * same order, so that the results are equal to the bit.
 *
 * Requires: the hint `pack`. Programs have no order among themselves except through atomics with an order, so
 * that running them in step is one of the orders that the language allows, as long as none waits for another.
 * Keeps: every element. Does not handle: loops with products or stores whose bounds differ between the
 * programs, stores and products under a condition, `while`, prints and assertions (which name their program),
 * calls, atomics with an order, the number of programs along the axis; programs past the last one, unless
 * they store to tensors that they do not read, so that the last one may take their place, or what they store
 * is dropped; kernels with hints for a cluster, a placement or a written schedule, which are
 * about programs as they are. */
#include "passes/tile/program/paired_programs.h"

bool paired_is_own(const Paired *x, Value *v)
{
    if (v->id < x->p.values) return pack_is_varying(&x->p, v);
    return v->type->kind != TYPE_TOKEN && value_map_get(&x->map[1], v) != v;
}

bool paired_is_done_by_each(const Paired *x, const Instr *i)
{
    bool own = false, adds = op_has(i->op, OPF_WRITE) && (i->op != OP_STORE || ir_adds(i));
    for (int k = 0; k < i->n_results; k++) own |= paired_is_own(x, &i->results[k]);
    for (int k = 0; k < i->n_operands && op_has(i->op, OPF_WRITE); k++)
        own |= paired_is_own(x, ir_operand(i, k));
    return own || adds;
}

static bool is_product(const void *unused, const Instr *i)
{
    (void)unused;
    return op_family(i->op) == OPS_PRODUCT;
}

static bool has_states(const Instr *i)
{
    bool states = false;
    for (int k = 0; k < i->n_results; k++) states |= i->results[k].type->kind == TYPE_TOKEN;
    return states;
}

/* Whether all programs run the steps of a loop together, so that each step has those of every program. Other
 * loops follow each other. */
static bool runs_together(const Instr *i)
{ return i->op == OP_FOR && (has_states(i) || ir_any(i, is_product, NULL)); }

/* --- whether it keeps the meaning, and gains anything ---------------------------------------------- */

static bool may_block(Paired *x, const Block *b);

static bool may_control(Paired *x, const Instr *i)
{
    if (i->op == OP_WHILE) return false;
    if (!runs_together(i) && (has_states(i) || ir_has_effects(i) || ir_any(i, is_product, NULL)))
        return false;
    for (int k = 0; k < 3 && runs_together(i); k++)
        if (paired_is_own(x, ir_operand(i, k))) return false;
    if (runs_together(i) && i->n_results * (int)x->p.n + 3 > IR_MAX_RESULTS) return false;
    for (int k = 0; k < i->n_blocks; k++)
        if (!may_block(x, i->blocks[k])) return false;
    return true;
}

static bool may_multiply(Paired *x, const Instr *i)
{
    bool left = paired_is_own(x, ir_operand(i, 0)), right = paired_is_own(x, ir_operand(i, 1));
    x->shared += !left && right;
    return !left || !paired_is_own(x, ir_result(i));
}

static bool may(Paired *x, const Instr *i)
{
    const int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    const OpFamily family = op_family(i->op);
    if (family == OPS_CALL || family == OPS_MESSAGE || i->op == OP_JOIN_TOKENS) return false;
    if (family == OPS_PRODUCT) return may_multiply(x, i);
    if (family == OPS_CONTROL) return may_control(x, i);
    if (family == OPS_MEMORY && ir_attr_int(i, ATTR_SEM, SEM_RELAXED) != SEM_RELAXED) return false;
    return i->op != OP_NUM_PROGRAMS || (axis >= 0 && axis != x->p.axis);
}

static bool may_block(Paired *x, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next)
        if (!may(x, i)) return false;
    return true;
}

/* Whether a program that runs twice, one time after the other, leaves what it leaves when it runs once: it
 * stores to tensors that it does not read. */
static bool writes_otherwise(const void *paired, const Instr *i)
{
    const Paired *x = paired;
    MemParts m;
    if (!ir_mem_parts(i, &m) || x->p.f->params[m.param].kind == PARAM_IN) return false;
    return i->op != OP_STORE || ir_adds(i) || x->p.f->params[m.param].kind != PARAM_OUT;
}

/* Whether programs past the last one do no harm, or there are none. */
static bool ends_well(Paired *x)
{
    const Value *programs = ir_operand(ir_terminator(x->p.f->grid), x->p.axis);
    if (range_of(ranges_new(x->p.f), programs).div % x->p.n == 0) return true;
    if (x->n_wide && pack_drops_tail(&x->p)) return true; /* windows side by side stay so */
    x->again = !ir_any_in(x->p.f->body, writes_otherwise, x);
    if (x->again) x->n_wide = 0;
    return x->again || pack_drops_tail(&x->p);
}

static bool gains(Paired *x, PassContext *c, Func *f, int axis)
{
    const int64_t n = f->hints.pack;
    *x = (Paired){ .p = { .c = c, .f = f, .axis = axis, .n = n } };
    pack_find_varying(&x->p);
    if (!may_block(x, f->body) || !x->shared) return false;
    paired_find_wide(x);
    return ends_well(x);
}

/* --- the programs in one ------------------------------------------------------------------------- */

/* The states of the tensors behind the instructions from `from` on, up to `last`; NULL: they use none. */
static Value **states_behind(const Paired *x, const Instr *from, const Instr *last)
{
    Value **state = arena_array(x->p.c->scratch, Value *, (size_t)x->p.f->n_params);
    MemParts m;
    for (const Instr *i = from;; i = i->next) {
        if (ir_mem_parts(i, &m) && m.token_out) state[m.param] = m.token_out;
        if (i == last) return state;
    }
}

/* What uses a state of memory behind `last` uses the state that the copies leave: all but the first of them.
 */
static void go_on_from(Value *before, Value *behind, const Instr *last, const Instr *end)
{
    for (Use *u = before->uses, *next; u; u = next) {
        const Instr *copy = last->next;
        next = u->next;
        while (copy != end && copy != u->user) copy = copy->next;
        if (copy == end) ir_set_operand(u->user, (int)(u - u->user->operands), behind);
    }
}

/* Whether the program has its result: a coordinate, or columns of a wide product. */
static bool is_there(const Paired *x, const Instr *i, int program)
{
    Value *v = i->n_results ? &i->results[0] : NULL;
    return v && v->type->kind != TYPE_TOKEN && value_map_get(&x->map[program], v) != v;
}

/* Copies what each program does by itself of the instructions from `from` on, up to `end`: first all of one
 * program, then all of the next, so that one product's result at a time is in registers. */
static void copy_up_to(Paired *x, const Instr *from, Instr *end)
{
    if (from == end) return;
    Builder b = ir_before(end);
    const Instr *last = end->prev;
    const size_t n = (size_t)x->p.f->n_params;
    Value **state = states_behind(x, from, last), **first = arena_array(x->p.c->scratch, Value *, n);
    MemParts m, copied;
    for (size_t k = 0; k < n; k++) first[k] = state[k];
    for (int s = 1; s < x->p.n; s++)
        for (const Instr *i = from;; i = i->next) {
            const bool own = paired_is_done_by_each(x, i) && !is_there(x, i, s),
                       has_state = own && ir_mem_parts(i, &m) && m.token_out;
            if (has_state) value_map_set(&x->map[s], m.token, state[m.param]);
            if (own) {
                const Instr *copy = ir_clone(&b, i, &x->map[s]);
                if (has_state && ir_mem_parts(copy, &copied)) state[m.param] = copied.token_out;
            }
            if (i == last) break;
        }
    for (size_t k = 0; k < n; k++)
        if (state[k] != first[k]) go_on_from(first[k], state[k], last, end);
}

static void join_block(Paired *x, Block *b);

/* Lets a loop carry what all programs carry. Returns the loop, which is another instruction then. */
static Instr *join_loop(Paired *x, Instr *loop)
{
    const int carried = loop->n_results, first = 3, others = (int)x->p.n - 1;
    int own[IR_MAX_RESULTS], n = 0;
    for (int k = 0; k < carried; k++)
        if (paired_is_own(x, &loop->results[k])) own[n++] = k;
    for (int j = 0; j < n * others; j++) {
        Value *begin = ir_operand(loop, own[j / others] + first);
        loop = ir_add_carried(loop, value_map_get(&x->map[1 + j % others], begin), NULL);
    }
    Block *body = loop->blocks[0];
    for (int j = 0; j < n * others; j++)
        value_map_set(&x->map[1 + j % others], body->args[own[j / others] + 1], body->args[carried + j + 1]);
    join_block(x, body);
    for (int j = 0; j < n * others; j++) {
        ValueMap *map = &x->map[1 + j % others];
        Instr *yield = ir_terminator(body);
        ir_set_operand(yield, carried + j, value_map_get(map, ir_operand(yield, own[j / others])));
        value_map_set(map, &loop->results[own[j / others]], &loop->results[carried + j]);
    }
    return loop;
}

static void join_block(Paired *x, Block *b)
{
    const Instr *from = b->first;
    for (Instr *i = b->first; i; i = i->next) {
        const bool together = runs_together(i);
        if (!together && i != ir_terminator(b)) continue;
        copy_up_to(x, from, i);
        Instr *wide = together ? paired_widen(x, i) : NULL;
        if (together) i = wide ? wide : join_loop(x, i);
        from = i->next;
    }
}

/* The coordinate of each program, in front of the body. */
static void divide_coordinate(Paired *x)
{
    InstrList ids = { 0 };
    Func *f = x->p.f;
    ir_collect(x->p.c->scratch, f->body, OP_PROGRAM_ID, &ids);
    Builder b = ir_before(f->body->first);
    Value *id = ir_emit(&b, OP_PROGRAM_ID, NULL, 0, ATTRS(a_int(ATTR_AXIS, x->p.axis)), NULL);
    Value *own = ir_bin(&b, OP_MUL, id, ir_index(&b, x->p.n)), *last = NULL;
    if (x->again) {
        Value *programs = extent_emit(&b, ir_operand(ir_terminator(f->grid), x->p.axis));
        last = ir_bin(&b, OP_SUB, programs, ir_index(&b, 1));
    }
    for (int s = 1; s < x->p.n; s++) {
        Value *next = ir_bin(&b, OP_ADD, own, ir_index(&b, s));
        value_map_set(&x->map[s], own, last ? ir_bin(&b, OP_MIN, next, last) : next);
    }
    for (size_t k = 0; k < ids.len; k++) {
        if (ir_attr_int(ids.data[k], ATTR_AXIS, 0) != x->p.axis) continue;
        ir_replace(ir_result(ids.data[k]), own);
        ir_erase(ids.data[k]);
    }
}

static bool paired_programs_func(PassContext *c, Func *f)
{
    Paired x;
    int axis = 0, axes = f->is_kernel && f->grid ? ir_terminator(f->grid)->n_operands : 0;
    if (f->hints.pack < 2 || f->hints.pack > MOST_PAIRED || f->packed) return false;
    if (f->remap || f->hints.remap || f->hints.schedule || f->hints.cluster > 1) return false;
    while (axis < axes && !gains(&x, c, f, axis)) axis++;
    if (axis >= axes) return false;
    for (int s = 1; s < x.p.n; s++) value_map_init(&x.map[s], c->scratch);
    divide_coordinate(&x);
    join_block(&x, f->body);
    pack_shrink_grid(f, axis, x.p.n);
    pass_count(c, "programs with products in one", x.p.n);
    return true;
}

bool pass_paired_programs(PassContext *c, Module *m) { return pass_each_func(c, m, paired_programs_func); }
