/* emit_loop.c: for, while and if: values that blocks carry are variables of C, assigned where a block ends.
 *
 * Arrays are copied then, unless both are one: what a `while` carries of a product in flight
 * (passes/kernel/pipeline/rotate_carried.c) must not be moved before it is waited for, so its next value is
 * made in its place.
 */
#include "backends/gpu/gpu.h"
#include "backends/gpu/hopper/emit_roles.h"
#include "backends/gpu/memory/emit_along.h"

/* Declares one C variable for a scalar, or for the address of a view. */
static bool by_word(const Value *v) { return v->type->kind == TYPE_SCALAR || v->type->kind == TYPE_SHARED; }
static const char *word_type(const Value *v)
{ return v->type->kind == TYPE_SHARED ? "u32" : ctype(v->type->dtype); }

static const char *declare_value(Emit *e, const Value *v)
{
    const char *n = name_of(e, v);
    if (v->type->kind == TYPE_TILE) return declare_tile(e, v);
    if (by_word(v)) line(e, "%s %s;", word_type(v), n);
    e->storage[v->id] = n;
    return n;
}

typedef struct Assigned {
    const Value *from;
    const Layout *l;
} Assigned;

static const char *assigned_element(Emit *e, const void *user, Index *i)
{
    const Assigned *a = user;
    return element(e, a->from, a->l, i);
}

static void assign(Emit *e, const Value *to, const Value *from)
{
    const char *dst = e->storage[to->id];
    if (by_word(to)) {
        const char *src = name_of(e, from);
        if (src != dst) line(e, "%s = %s;", dst, src);
        return;
    }
    if (to->type->kind != TYPE_TILE) return;
    const char *src = e->storage[from->id];
    if (src == dst) return;
    const Layout *l = layout_of(e, to);
    int words = array_len(to->type->dtype, (int)layout_regs(l));
    if (src) {
        begin_unrolled(e, "i", words);
        line(e, "%s[i] = %s[i];", dst, src);
        end_block(e);
        return;
    }
    fill_words(e, to->type->dtype, (int)layout_regs(l), dst, assigned_element, &(Assigned){ from, l });
}

/* Assigns values[k] to args[k] for all k, as if at once. */
static void assign_all(Emit *e, Value *const *args, Value *const *values, int n)
{
    const char **saved = arena_array(&e->s->arena, const char *, (size_t)n);
    for (int k = 0; k < n; k++) {
        bool clash = false;
        if (args[k]->type->kind == TYPE_TOKEN) continue;
        for (int j = 0; j < k; j++) {
            const char *src = by_word(values[k]) ? name_of(e, values[k]) : e->storage[values[k]->id];
            clash |= src && src == e->storage[args[j]->id];
        }
        if (!clash) continue;
        saved[k] = tmp(e, "old");
        const char *src = name_of(e, values[k]);
        if (by_word(values[k])) line(e, "const %s %s = %s;", word_type(values[k]), saved[k], src);
        else {
            int words = array_len(values[k]->type->dtype, (int)layout_regs(layout_of(e, values[k])));
            line(e, "%s %s[%d];", array_type(values[k]->type->dtype), saved[k], words);
            begin_unrolled(e, "i", words);
            line(e, "%s[i] = %s[i];", saved[k], registers_of(e, values[k]));
            end_block(e);
        }
    }
    for (int k = 0; k < n; k++) {
        if (args[k]->type->kind == TYPE_TOKEN) continue;
        const char *keep = e->storage[values[k]->id];
        if (saved[k]) e->storage[values[k]->id] = saved[k];
        assign(e, args[k], values[k]);
        e->storage[values[k]->id] = keep;
    }
}

static void uses_of(const Instr *i, Value **out, int from)
{
    for (int k = from; k < i->n_operands; k++) out[k - from] = ir_operand(i, k);
}

/* CTAs that take programs by stride may step beyond 2^31: they count without signs. */
static void emit_for_head(Emit *e, const Instr *i, const char *iv)
{
    const char *t = ctype(i->blocks[0]->args[0]->type->dtype), *start = name_of(e, ir_operand(i, 0)),
               *end = name_of(e, ir_operand(i, 1)), *step = name_of(e, ir_operand(i, 2));
    int64_t one = 0;
    if (ir_attr_int(i, ATTR_BACKWARDS, 0))
        line(e, "for (%s %s = %s - 1; %s >= %s; %s--) {", t, iv, end, iv, start, iv);
    else if (e->plan->resident && ir_loop_is(i, LOOP_STATIC))
        line(e, "for (%s %s = %s; (u32)%s < (u32)%s; %s = (%s)((u32)%s + (u32)%s)) {", t, iv, start, iv, end,
            iv, t, iv, step);
    else if (ir_is_const(ir_operand(i, 2), &one) && one == 1)
        line(e, "for (%s %s = %s; %s < %s; %s++) {", t, iv, start, iv, end, iv);
    else line(e, "for (%s %s = %s; %s < %s; %s += %s) {", t, iv, start, iv, end, iv, step);
}

void emit_for(Emit *e, Instr *i)
{
    Block *b = i->blocks[0];
    Value *vals[IR_MAX_RESULTS];
    for (int k = 0; k < i->n_results; k++) {
        if (b->args[k + 1]->type->kind == TYPE_TOKEN) continue;
        declare_value(e, b->args[k + 1]);
        assign(e, b->args[k + 1], ir_operand(i, k + 3));
    }
    const char *iv = name_of(e, b->args[0]);
    e->storage[b->args[0]->id] = iv;
    size_t places = copies_placed(e, i), counters = emit_counters_open(e, i), along = emit_along_open(e, i);
    directive(e, "#pragma unroll %d", gpu_rounds_together(e->f, e->plan, e->role >= 0, i));
    if (ir_loop_is(i, LOOP_DYNAMIC) && e->role >= 0) emit_scheduler_loop(e, i);
    else emit_for_head(e, i, iv);
    Iteration iteration = { .counter = iv }, *around = e->iteration;
    Body body = { 0 }, *out = e->out;
    e->indent++;
    if (is_hip(e)) {
        iteration.indent = e->indent;
        e->iteration = &iteration;
        e->out = &body;
    }
    emit_block(e, b);
    uses_of(ir_terminator(b), vals, 0);
    assign_all(e, b->args + 1, vals, i->n_results);
    copies_moved(e, places);
    emit_counters_step(e, counters);
    e->along.len = along;
    if (is_hip(e)) {
        e->iteration = around;
        e->out = out;
        body_append(out, &iteration.pre);
        body_append(out, &body);
    }
    end_block(e);
    emit_cp_async_left(e, i);
    if (ir_loop_is(i, LOOP_DYNAMIC) && e->role == 0)
        line(e, "%s(%s, gridDim.x);", use(e, "scheduler_done"), slot_name(e, SLOT_SCHEDULER, 0, 0, DT_U64));
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = e->storage[b->args[k + 1]->id];
}

/* --- while ------------------------------------------------------------------------------------------- */

static bool only_within(Block *b, const Value *v, const Instr *by)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (ir_within(b, u->user) != by) return false;
    return true;
}

/* The next value that a `while` carries is computed in the registers of the current one when a product gives
 * it. The product writes there, or to its accumulator, if the current value has no other reader. */
static void place_next(Emit *e, Block *b, int k)
{
    Value *v = ir_operand(ir_terminator(b), k), *arg = b->args[k];
    bool flies = false;
    while (v->def && v->def->block == b && (v->def->op == OP_WGMMA || v->def->op == OP_WGMMA_WAIT) &&
           ir_use_count(v) == 1) {
        Value *from = ir_operand(v->def, v->def->op == OP_WGMMA ? 2 : v->index);
        flies |= v->def->op == OP_WGMMA;
        if (!from->type->layout) {
            if (!arg->uses) e->place[v->id] = e->storage[arg->id];
            return;
        }
        v = from;
    }
    if (!flies || v == arg || !v->def || v->def->block != b || ir_use_count(v) != 1) return;
    bool in_place = v->def->op == OP_IF || (op_info[v->def->op].flags & OPF_ELEM);
    if (!arg->uses || (in_place && only_within(b, arg, v->def))) e->place[v->id] = e->storage[arg->id];
}

/* The result of a wait that only the loop uses: its registers are those of the loop. */
static bool begins_in_place(const Instr *loop, const Value *v)
{ return v->def && v->def->op == OP_WGMMA_WAIT && v->def->block == loop->block && ir_use_count(v) == 1; }

void emit_while(Emit *e, Instr *i)
{
    Block *c = i->blocks[0], *b = i->blocks[1];
    Value *vals[IR_MAX_RESULTS + 1];
    for (int k = 0; k < i->n_results; k++) {
        if (c->args[k]->type->kind == TYPE_TOKEN) continue;
        if (begins_in_place(i, ir_operand(i, k)))
            e->storage[c->args[k]->id] = e->storage[ir_operand(i, k)->id];
        else {
            declare_value(e, c->args[k]);
            assign(e, c->args[k], ir_operand(i, k));
        }
        e->storage[b->args[k]->id] = e->storage[c->args[k]->id];
    }
    if (!e->place) e->place = arena_array(&e->s->arena, const char *, e->n_values);
    for (int k = 0; k < i->n_results; k++)
        if (c->args[k]->type->kind == TYPE_TILE) place_next(e, b, k);
    directive(e, "#pragma unroll 1");
    line(e, "for (;;) {");
    e->indent++;
    emit_block(e, c);
    const Instr *t = ir_terminator(c);
    const char *cond = tmp(e, "go");
    line(e, "const bool %s = %s;", cond, name_of(e, ir_operand(t, 0)));
    uses_of(t, vals, 1);
    assign_all(e, c->args, vals, i->n_results);
    line(e, "if (!%s) break;", cond);
    emit_block(e, b);
    uses_of(ir_terminator(b), vals, 0);
    for (int k = 0; k < i->n_results; k++)
        if (vals[k]->def && vals[k]->def->op == OP_WGMMA &&
            e->storage[vals[k]->id] != e->storage[c->args[k]->id])
            ir_fail(e->s, vals[k]->def->loc, "a product in flight would be moved at the end of its loop");
    assign_all(e, c->args, vals, i->n_results);
    end_block(e);
    for (int k = 0; k < i->n_results; k++) e->storage[i->results[k].id] = e->storage[c->args[k]->id];
}

void emit_if(Emit *e, Instr *i)
{
    bool other = ir_terminator(i->blocks[1]) != i->blocks[1]->first;
    for (int k = 0; k < i->n_results; k++) other |= i->results[k].type->kind != TYPE_TOKEN;
    for (int k = 0; k < i->n_results; k++)
        if (i->results[k].type->kind != TYPE_TOKEN) declare_value(e, &i->results[k]);
    for (int b = 0; b < (other ? 2 : 1); b++) {
        if (b == 0) line(e, "if (%s) {", name_of(e, ir_operand(i, 0)));
        else line(e, "} else {");
        e->indent++;
        emit_block(e, i->blocks[b]);
        const Instr *y = ir_terminator(i->blocks[b]);
        for (int k = 0; k < i->n_results; k++)
            if (i->results[k].type->kind != TYPE_TOKEN) assign(e, &i->results[k], ir_operand(y, k));
        if (other && b == 0) e->indent--;
        else end_block(e);
    }
}
