/* dce: removes what nothing observes: unused values, loads, results and carried values of loops and ifs.
 *
 *   %r0, %r1 = for %i = .. with (%a = %x, %b = %y) {     %r1 = for %i = .. with (%b = %y) {
 *     %c = add %a, %k                                      %d = mul %b, %k
 *     %d = mul %b, %k                               ->     yield %d
 *     yield %c, %d                                       }
 *   }                         ; %r0 is unused            ; even though %a and %c use each other
 *
 * The pass marks what is needed, backwards from what has effects (stores, atomics, prints, assertions and
 * the functions' own results), and then removes the rest. A load on a token chain whose value is unused
 * leaves the chain: its token becomes the one that it took.
 *
 * Requires: nothing. Keeps: everything. It assumes that a loop without effects and with unused results
 * ends. Does not handle: dead stores. */
#include "passes/pass.h"

typedef struct Dce {
    PassContext *c;
    uint8_t *live;       /* by value id */
    VEC(Value *) values; /* live values whose definitions are not yet examined */
    int64_t instrs, carried;
} Dce;

enum { INSTR_LIVE = 1 };

static void mark_instr(Dce *d, Instr *i);

static void mark(Dce *d, Value *v)
{
    if (d->live[v->id]) return;
    d->live[v->id] = 1;
    vec_push(d->c->scratch, &d->values, v);
}

static void mark_operands(Dce *d, Instr *i, int from, int to)
{
    for (int k = from; k < to; k++) mark(d, ir_operand(i, k));
}

/* Marks the values that an instruction needs to run at all. Values that it only passes on are marked when
 * they are used. */
static void mark_instr(Dce *d, Instr *i)
{
    if (i->mark == INSTR_LIVE) return;
    i->mark = INSTR_LIVE;
    if (i->op == OP_FOR) mark_operands(d, i, 0, 3);
    else if (i->op == OP_IF) mark_operands(d, i, 0, 1);
    else if (i->op == OP_WHILE) mark(d, ir_operand(ir_terminator(i->blocks[0]), 0));
    else {
        mark_operands(d, i, 0, i->n_operands);
        for (int k = 0; k < i->n_blocks; k++) { /* For reduce and scan, the whole block is live. */
            Instr *end = ir_terminator(i->blocks[k]);
            mark_operands(d, end, 0, end->n_operands);
        }
    }
    if (i->block->parent) mark_instr(d, i->block->parent);
}

/* Carried value k of a loop: all of its places are live together. */
static void mark_carried(Dce *d, Instr *loop, int k)
{
    if (loop->op == OP_FOR) {
        mark(d, ir_operand(loop, 3 + k));
        mark(d, ir_operand(ir_terminator(loop->blocks[0]), k));
        mark(d, loop->blocks[0]->args[1 + k]);
    } else {
        mark(d, ir_operand(loop, k));
        mark(d, ir_operand(ir_terminator(loop->blocks[0]), k + 1));
        mark(d, ir_operand(ir_terminator(loop->blocks[1]), k));
        mark(d, loop->blocks[0]->args[k]);
        mark(d, loop->blocks[1]->args[k]);
    }
    mark(d, &loop->results[k]);
    mark_instr(d, loop);
}

static void trace(Dce *d, Value *v)
{
    Instr *i = v->def;
    MemParts p;
    if (!i) {
        Instr *loop = v->block->parent;
        if (!loop || !is_loop(loop)) return;
        int k = v->index - (loop->op == OP_FOR);
        if (k >= 0) mark_carried(d, loop, k);
        else mark_instr(d, loop);
        return;
    }
    if (is_loop(i)) {
        mark_carried(d, i, v->index);
        return;
    }
    if (i->op == OP_IF) {
        mark(d, ir_operand(ir_terminator(i->blocks[0]), v->index));
        mark(d, ir_operand(ir_terminator(i->blocks[1]), v->index));
    } else if ((i->op == OP_LOAD || i->op == OP_GATHER) && v->type->kind == TYPE_TOKEN &&
               ir_mem_parts(i, &p)) {
        mark(d, p.token);
        return;
    }
    mark_instr(d, i);
}

static void mark_roots(Dce *d, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        i->mark = 0;
        for (int k = 0; k < i->n_blocks; k++) mark_roots(d, i->blocks[k]);
    }
    for (Instr *i = b->first; i; i = i->next)
        if ((op_info[i->op].flags & OPF_WRITE) || (!b->parent && (op_info[i->op].flags & OPF_TERM)))
            mark_instr(d, i);
}

static bool carried_live(const Dce *d, const Instr *i, int k) { return d->live[i->results[k].id]; }

static void sweep(Dce *d, Block *b)
{
    for (Instr *i = b->last, *prev; i; i = prev) {
        MemParts p;
        prev = i->prev;
        if (op_info[i->op].flags & OPF_TERM) continue;
        if (i->mark != INSTR_LIVE) {
            if (ir_mem_parts(i, &p) && p.token && p.token_out) ir_replace(p.token_out, p.token);
            ir_erase(i);
            d->instrs++;
            continue;
        }
        if (i->op == OP_REDUCE || i->op == OP_SCAN) {
            sweep(d, i->blocks[0]);
            continue;
        }
        for (int k = i->n_results; (is_loop(i) || i->op == OP_IF) && k-- > 0;)
            if (!carried_live(d, i, k)) {
                ir_drop_carried(i, k);
                d->carried++;
            }
        for (int k = 0; k < i->n_blocks; k++) sweep(d, i->blocks[k]);
    }
}

static bool dce_func(PassContext *c, Func *f)
{
    Block *roots[FUNC_ROOTS];
    int n = func_roots(f, roots);
    Dce d = { .c = c, .live = arena_alloc(c->scratch, f->module->next_id) };
    for (int k = 0; k < n; k++) mark_roots(&d, roots[k]);
    while (d.values.len) trace(&d, d.values.data[--d.values.len]);
    for (int k = 0; k < n; k++) sweep(&d, roots[k]);
    pass_count(c, "instructions removed", d.instrs);
    pass_count(c, "carried values removed", d.carried);
    return d.instrs + d.carried > 0;
}

bool pass_dce(PassContext *c, Module *m) { return pass_each_func(c, m, dce_func); }
