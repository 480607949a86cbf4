/* steps_ahead.c: loads of a loop issued some steps before the one that uses them, for prefetch.c and
 * load_ahead.c.
 *
 *   for j { %x = load B[j..]; %t = add %w, %x; ... }
 *
 * becomes, two steps ahead,
 *
 *   %a = load B[lo..]; %b = load B[lo+1..]
 *   for j with (%x = %a, %y = %b) { %t = add %w, %x; %z = load B[j+2..]; ...; yield %y, %z }
 */
#include "passes/kernel/pipeline/steps_ahead.h"

/* Adds the instructions of the body from which v is computed. False when something else than the counter
 * varies. */
static bool slice_of(const Value *v, const Block *body, AheadSlice *s, int depth)
{
    const Instr *d = v->def;
    if (!d) return v->block != body || v->index == 0;
    if (d->block != body) return ir_defined_outside(v, body);
    if (depth > 40 || d->n_blocks || !(op_info[d->op].flags & OPF_PURE) || d->op == OP_WGMMA ||
        d->op == OP_WGMMA_WAIT || s->n >= AHEAD_MOST)
        return false;
    for (int k = 0; k < s->n; k++)
        if (s->instr[k] == d) return true;
    for (int k = 0; k < d->n_operands; k++)
        if (!slice_of(ir_operand(d, k), body, s, depth + 1)) return false;
    s->instr[s->n++] = d;
    return true;
}

bool ahead_possible(const Func *f, const Instr *loop, const Instr *i, AheadSlice *slice)
{
    MemParts m;
    if (!ir_mem_parts(i, &m) || m.token || m.mask || f->params[m.param].kind != PARAM_IN ||
        !ir_result(i)->uses)
        return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!slice_of(ir_operand(i, k), loop->blocks[0], slice, 0)) return false;
    return true;
}

/* The load of the step with counter `at`. */
static Value *load_at(Session *s, Builder *b, Value *counter, Value *at, const AheadSlice *slice, Instr *load)
{
    ValueMap map;
    b->loc = load->loc;
    value_map_init(&map, &s->arena);
    value_map_set(&map, counter, at);
    for (int k = 0; k < slice->n; k++) ir_clone(b, slice->instr[k], &map);
    Instr *copy = ir_clone(b, load, &map);
    ir_set_attr(s, copy, a_int(ATTR_LATENCY, 1)); /* the hint is fulfilled */
    return ir_result(copy);
}

/* The last instruction of the body that reads the value, also through operations that only repeat it or give
 * it another shape. A load before it would need other registers than the value, and be waited for where its
 * result is moved to them. */
static Instr *last_reader(Block *body, const Value *v)
{
    Instr *last = ir_last_use_in(body, v);
    for (const Use *u = v->uses; u; u = u->next) {
        const Op op = u->user->op;
        if (u->user->block != body || (op != OP_BROADCAST && op != OP_RESHAPE && op != OP_SPLAT)) continue;
        Instr *behind = last_reader(body, ir_result(u->user)), *i = last;
        while (i && i != behind) i = i->next;
        if (i) last = behind;
    }
    return last;
}

/* Whether the loop is known to have so many steps. What its range proves of a load holds in its steps
 * alone. */
static bool has_steps(const Instr *loop, int64_t steps)
{
    int64_t lo, hi, by;
    return ir_is_const(ir_operand(loop, 0), &lo) && ir_is_const(ir_operand(loop, 1), &hi) &&
           ir_is_const(ir_operand(loop, 2), &by) && lo + (steps - 1) * by < hi;
}

/* v of 64 bits, times a number. */
static Value *wide(Builder *b, Value *v, int times)
{
    int64_t c;
    if (ir_is_const(v, &c)) return ir_const_int(b, DT_I64, c * times);
    v = ir_cast(b, v, DT_I64);
    return times == 1 ? v : ir_bin(b, OP_MUL, v, ir_const_int(b, DT_I64, times));
}

/* Whether the loop has more than `steps` steps from the counter `from` on, which is one of its own or the
 * first one. What is left of a loop that runs has no more bits than the counter, without a sign; of one that
 * does not run the result means nothing. */
static Value *goes_on(Builder *b, const Instr *loop, Value *from, int steps)
{
    Value *end = ir_operand(loop, 1), *by = wide(b, ir_operand(loop, 2), steps);
    int64_t c;
    if (from->type->dtype == DT_I32 && ir_is_const(by, &c) && c <= INT32_MAX)
        return ir_bin(b, OP_LT, ir_const_int(b, DT_U32, c), ir_cast(b, ir_bin(b, OP_SUB, end, from), DT_U32));
    return ir_bin(b, OP_LT, ir_bin(b, OP_ADD, wide(b, from, 1), by), wide(b, end, 1));
}

/* The counter `steps` steps behind `from`, or `from` where the loop has ended before, which `within` rules
 * out. */
static Value *later(Builder *b, const Instr *loop, Value *from, int steps, bool within)
{
    if (!steps) return from;
    Value *by = ir_cast(b, wide(b, ir_operand(loop, 2), steps), from->type->dtype),
          *after = ir_bin(b, OP_ADD, from, by);
    if (within) return after;
    Value *pick[3] = { goes_on(b, loop, from, steps), after, from };
    return ir_emit(b, OP_WHERE, pick, 3, NO_ATTRS, NULL);
}

/* Adds the value that the step carries to the next one in place of `v`. */
static Instr *carry(Instr *loop, Value *first, Value *next, Value **carried)
{
    loop = ir_add_carried(loop, first, next);
    *carried = loop->blocks[0]->args[loop->blocks[0]->n_args - 1];
    return loop;
}

Instr *ahead_split(Session *s, Instr *loop, int steps)
{
    ValueMap map;
    Builder b = ir_before(loop);
    Value *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1);
    Value *n = ir_const_int(&b, DT_I64, steps), *none = ir_const_int(&b, DT_I64, 0), *from = wide(&b, lo, 1);
    Value *all = ir_bin(&b, OP_SUB, wide(&b, hi, 1), from);
    Value *most = ir_bin(&b, OP_MAX, ir_bin(&b, OP_SUB, all, n), none);
    Value *times = ir_bin(&b, OP_MUL, ir_bin(&b, OP_DIV, most, n), n);
    Value *end = ir_cast(&b, ir_bin(&b, OP_ADD, from, times), hi->type->dtype);
    value_map_init(&map, &s->arena);
    Instr *main = ir_clone(&b, loop, &map);
    ir_set_operand(main, 1, end);
    ir_set_operand(loop, 0, end);
    for (int k = 0; k < loop->n_results; k++) ir_set_operand(loop, 3 + k, &main->results[k]);
    return main;
}

Instr *ahead_load(Session *s, Instr *loop, Instr *load, const AheadSlice *slice, int steps, bool within)
{
    Block *body = loop->blocks[0];
    Value *counter = body->args[0], *first[AHEAD_MOST], *carried = NULL;
    Builder b = ir_before(loop);
    for (int k = 0; k < steps; k++) {
        first[k] = load_at(s, &b, counter, later(&b, loop, ir_operand(loop, 0), k, false), slice, load);
        if (!has_steps(loop, 1)) ir_unprove(s, first[k]->def);
    }
    Instr *last = last_reader(body, ir_result(load));
    b = last && !(op_info[last->op].flags & OPF_TERM) ? ir_after(last) : ir_before(ir_terminator(body));
    Value *next = load_at(s, &b, counter, later(&b, loop, counter, steps, within), slice, load);
    for (int k = steps; k-- > 0;) {
        loop = carry(loop, first[k], next, &carried);
        next = carried;
    }
    ir_replace(ir_result(load), carried);
    ir_erase(load);
    return loop;
}
