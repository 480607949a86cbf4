/* ahead: the producer knows its next program before it is done with this one.
 *
 *   for %program = .. {tickets} { coordinates and offsets of %program; puts; for j { puts } }
 * becomes
 *   for %program = .. {tickets} with (what puts need = of the first program) {
 *     puts; for j { at the first step near the end: %next = ticket_ask; coordinates and offsets of %next; puts }
 *   }
 *
 * The counter lies in global memory and coordinates take divisions: 3400 cycles in all between the last load of one program and the first
 * of the next (H100, attention), in one thread that otherwise waits for slots. Near the end is as many steps before it as the deepest ring has slots:
 * then rings are full and consumers busy. Not earlier, so that programs go to the CTAs that are done first.
 *
 * Requires: the inner loop runs at least once, by its bounds' ranges; what it needs of the program is pure scalar arithmetic. */
#include "ir/range.h"
#include "passes/kernel/overlap.h"

typedef struct Ahead { Session *s; Func *f; Block *home; Instr *loop; bool *chain, *of_program; Instrs instrs; Values live; } Ahead;

static bool is_chain(const Instr *i)
{
    if (i->n_blocks || (!(op_info[i->op].flags & OPF_PURE) && i->op != OP_OPAQUE) || i->op == OP_PROGRAM_COORD) return false;
    for (int k = 0; k < i->n_results; k++) if (i->results[k].type->kind != TYPE_SCALAR) return false;
    return i->n_results > 0;
}

static void note_use(Ahead *a, Value *v)
{
    if (!a->of_program[v->id]) return;
    for (size_t k = 0; k < a->live.len; k++) if (a->live.data[k] == v) return;
    vec_push(&a->s->arena, &a->live, v);
}

static void uses_in(Ahead *a, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) note_use(a, ir_operand(i, k));
    for (int b = 0; b < i->n_blocks; b++)
        for (const Instr *x = i->blocks[b]->first; x; x = x->next) uses_in(a, x);
}

static bool holds_op(const Block *b, Op op)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op == op) return true;
        for (int k = 0; k < i->n_blocks; k++) if (holds_op(i->blocks[k], op)) return true;
    }
    return false;
}

static bool plan(Ahead *a, Instr *outer)
{
    Arena *arena = &a->s->arena;
    a->home = outer->blocks[0];
    a->chain = arena_array(arena, bool, a->f->module->next_id);
    a->of_program = arena_array(arena, bool, a->f->module->next_id);
    if (outer->n_results) return false;
    for (Instr *i = a->home->first; i; i = i->next) if (i->op == OP_FOR && holds_op(i->blocks[0], OP_RING_PUT)) a->loop = i;
    if (!a->loop || a->loop->n_results) return false;
    Ranges *r = ranges_new(a->f);
    if (range_of(r, ir_operand(a->loop, 0)).hi >= range_of(r, ir_operand(a->loop, 1)).lo) return false;
    a->of_program[a->home->args[0]->id] = true;
    for (Instr *i = a->home->first; i && i != a->loop; i = i->next) {
        bool depends = false;
        for (int k = 0; k < i->n_operands; k++) depends |= a->of_program[ir_operand(i, k)->id];
        if (i->op == OP_PROGRAM_COORD) { ir_replace(ir_result(i), ir_operand(i, 0)); continue; }
        if (!is_chain(i)) { if (depends && i->n_results) return false; continue; }
        vec_push(arena, &a->instrs, i);
        for (int k = 0; k < i->n_results; k++) { a->chain[i->results[k].id] = true; a->of_program[i->results[k].id] = depends; }
    }
    for (Instr *i = a->home->first; i; i = i->next) {
        bool own = false;
        for (int k = 0; k < i->n_results; k++) own |= a->chain[i->results[k].id];
        if (!own) uses_in(a, i);
    }
    for (size_t k = 0; k < a->live.len; k++) if (a->live.data[k] == a->home->args[0]) return false;
    return a->live.len > 0;
}

/* The chain of this program, by the map's values of it. */
static void work_out(Ahead *a, Builder *b, Value *program, ValueMap *map)
{
    value_map_init(map, &a->s->arena);
    value_map_set(map, a->home->args[0], program);
    for (size_t k = 0; k < a->instrs.len; k++) ir_clone(b, a->instrs.data[k], map);
}

static void replace_outside_chain(Ahead *a, Value *old, Value *by)
{
    for (Use *u = old->uses, *next; u; u = next) {
        next = u->next;
        Instr *i = u->user;
        bool own = i->block == a->home && i->n_results && a->chain[i->results[0].id];
        if (!own) ir_set_operand(i, (int)(u - i->operands), by);
    }
}

static void rebuild(Ahead *a, Instr *outer, int steps)
{
    Builder b = ir_before(outer);
    b.loc = a->loop->loc;
    ValueMap first;
    size_t n = a->live.len;
    work_out(a, &b, ir_operand(outer, 0), &first);
    Value *program = a->home->args[0];
    for (size_t k = 0; k < n; k++) {
        Value *v = a->live.data[k];
        outer = ir_add_carried(outer, value_map_get(&first, v), NULL);
        a->home = outer->blocks[0];
        Value *arg = a->home->args[k + 1];
        ir_set_name(arg, v->name);
        replace_outside_chain(a, v, arg);
        a->loop = ir_add_carried(a->loop, arg, NULL);
        ir_set_name(a->loop->blocks[0]->args[k + 1], v->name);
    }
    (void)program;
    Block *body = a->loop->blocks[0];
    b = (Builder){ .module = a->f->module, .block = body, .before = body->first, .loc = a->loop->loc };
    Value *j = body->args[0], *step = ir_operand(a->loop, 2), *hi = ir_operand(a->loop, 1), *ahead = j, *before = NULL;
    for (int k = 0; k < steps; k++) { before = ahead; ahead = ir_bin(&b, OP_ADD, ahead, step); }
    Value *at_first = ir_bin(&b, OP_EQ, j, ir_operand(a->loop, 0)), *not_yet = ir_bin(&b, OP_LT, before, hi);
    Value *now = ir_bin(&b, OP_AND, ir_bin(&b, OP_GE, ahead, hi), ir_bin(&b, OP_OR, at_first, not_yet));
    const Type *types[IR_MAX_RESULTS];
    Value *out[IR_MAX_RESULTS];
    for (size_t k = 0; k < n; k++) types[k] = body->args[k + 1]->type;
    Instr *cond = ir_build(&b, OP_IF, &now, 1, NO_ATTRS, types, (int)n);
    Builder in = ir_at_end(cond->blocks[0]);
    in.loc = a->loop->loc;
    ValueMap next;
    work_out(a, &in, ir_emit(&in, OP_TICKET_ASK, NULL, 0, NO_ATTRS, a->home->args[0]->type), &next);
    for (size_t k = 0; k < n; k++) out[k] = value_map_get(&next, a->live.data[k]);
    ir_build(&in, OP_YIELD, out, (int)n, NO_ATTRS, NULL, 0);
    in = ir_at_end(cond->blocks[1]);
    for (size_t k = 0; k < n; k++) out[k] = body->args[k + 1];
    ir_build(&in, OP_YIELD, out, (int)n, NO_ATTRS, NULL, 0);
    for (size_t k = 0; k < n; k++) {
        ir_set_operand(ir_terminator(body), (int)k, &cond->results[k]);
        ir_set_operand(ir_terminator(a->home), (int)k, &a->loop->results[k]);
    }
    for (size_t k = a->instrs.len; k-- > 0;) {      /* in place, only what no program changes is still used */
        bool used = false;
        for (int r = 0; r < a->instrs.data[k]->n_results; r++) used |= a->instrs.data[k]->results[r].uses != NULL;
        if (!used) ir_erase(a->instrs.data[k]);
    }
}

bool kernel_ahead(Session *s, Func *f, Block *producer, int steps)
{
    for (Instr *i = producer->first; i; i = i->next) {
        Ahead a = { .s = s, .f = f };
        if (!ir_attr_int(i, ATTR_TICKETS, 0)) continue;
        if (!plan(&a, i)) return false;
        rebuild(&a, i, steps);
        return true;
    }
    return false;
}
