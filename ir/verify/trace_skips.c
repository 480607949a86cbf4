/* trace_skips.c: which operations a run of a role (traces.c) passes over: those whose results decide neither
 * what the role does with rings, stages and products, nor how it goes on. Most of a role's scalars are
 * addresses, and most of its loops' operations compute tiles. */
#include "ir/verify/trace_cells.h"

typedef struct Skips {
    Session *s;
    bool *needed;       /* by value id */
    const Instr **skip; /* by the id of an operation's first result: where to go on; NULL: it is run */
    VEC(const Value *) left;
} Skips;

static void need(Skips *k, const Value *v)
{
    if (k->needed[v->id]) return;
    k->needed[v->id] = true;
    vec_push(&k->s->arena, &k->left, v);
}

static void need_all(Skips *k, const Instr *i)
{
    for (int o = 0; o < i->n_operands; o++) need(k, ir_operand(i, o));
}

/* Whether the run looks at the operation whatever becomes of its results: at its stages, or for the ring or
 * the program that it takes. */
static bool looks_at(const Instr *i)
{
    if (trace_runs(i->op) || i->op == OP_WGMMA || i->op == OP_PROGRAM_COORD) return true;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_SHARED) return true;
    for (int k = 0; k < i->n_results; k++)
        if (i->results[k].type->kind == TYPE_SHARED) return true;
    return false;
}

/* What decides how the role goes on. */
static void add_roots(void *user, Instr *i)
{
    Skips *k = user;
    if (i->op == OP_FOR)
        for (int bound = 0; bound < 3; bound++) need(k, ir_operand(i, bound));
    else if (i->op == OP_WHILE) need(k, ir_operand(i->blocks[0]->last, 0));
    else if (i->op == OP_IF) need(k, ir_operand(i, 0));
    else if (i->op == OP_RING_PUT && ir_attr(i, ATTR_PARTS)) need(k, ir_operand(i, i->n_operands - 1));
    for (int o = 0; o < i->n_operands; o++)
        if (ir_operand(i, o)->type->kind == TYPE_SHARED || i->op == OP_PROGRAM_COORD)
            need(k, ir_operand(i, o));
}

/* Where a result of an `if`, `for` or `while`, or an argument of its blocks, comes from. */
static void need_sources(Skips *k, const Instr *control, const Value *v)
{
    int n = v->index;
    if (control->op == OP_IF) {
        for (int b = 0; b < 2; b++) need(k, ir_operand(control->blocks[b]->last, n));
    } else if (control->op == OP_FOR) {
        if (!v->def && n == 0) return; /* The bounds are needed anyhow. */
        if (!v->def) n--;
        need(k, ir_operand(control, 3 + n));
        need(k, ir_operand(control->blocks[0]->last, n));
    } else {
        need(k, ir_operand(control, n));
        need(k, ir_operand(control->blocks[0]->last, 1 + n));
        need(k, ir_operand(control->blocks[1]->last, n));
    }
}

static bool decides_nothing(const Skips *k, const Instr *i)
{
    if (!i->n_results || looks_at(i)) return false;
    for (int r = 0; r < i->n_results; r++)
        if (k->needed[i->results[r].id]) return false;
    return true;
}

/* An operation that is run is where those go on that are passed over before it. */
static void note_skips(void *user, Instr *i)
{
    const Skips *k = user;
    if (decides_nothing(k, i)) return;
    for (const Instr *before = i->prev; before && decides_nothing(k, before); before = before->prev)
        k->skip[before->results[0].id] = i;
}

const Instr *const *trace_skips(Session *s, const Func *f)
{
    size_t values = f->module->next_id + 1;
    Skips k = { .s = s,
        .needed = arena_array(&s->arena, bool, values),
        .skip = arena_array(&s->arena, const Instr *, values) };
    ir_walk(f->body, add_roots, &k);
    while (k.left.len) {
        const Value *v = k.left.data[--k.left.len];
        const Instr *from = v->def ? v->def : v->block->parent;
        if (from && op_family(from->op) == OPS_CONTROL) need_sources(&k, from, v);
        else if (v->def) need_all(&k, from);
    }
    ir_walk(f->body, note_skips, &k);
    return k.skip;
}
