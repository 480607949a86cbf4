/* pack_varies.c: of pack: which values differ between programs that run in step, and the proof that running
 * them in step keeps their meaning.
 *
 * Programs have no order among themselves except through atomics with an order (docs/language.md, Memory), so
 * that doing each operation for all programs before the next one is one of the orders that the language
 * allows, as long as no program waits for another one. A program can wait only in a `while`, or by an atomic
 * with an order. What one program does by itself keeps its order, because tokens keep theirs. */
#include "passes/tile/program/pack.h"

typedef struct Legal {
    const Pack *p;
    /* inside an `if` whose condition varies, both of whose blocks will run, or a loop whose end varies, which
       will run as long as the longest one does */
    bool guarded;
    bool chosen; /* inside such an `if`: who does not take its block may have any number there */
} Legal;

static bool any_varies(const Pack *p, const Instr *i)
{
    bool any = false;
    for (int k = 0; k < i->n_operands; k++) any |= pack_is_varying(p, ir_operand(i, k));
    return any;
}

/* Records that a value varies; true if that is new. */
static bool note(Pack *p, const Value *v)
{
    if (v->type->kind == TYPE_TOKEN || p->varies[v->id]) return false;
    return p->varies[v->id] = true;
}

static bool note_block(Pack *p, const Block *b);

static bool note_carried(Pack *p, const Instr *i)
{
    const Block *body = i->blocks[i->op == OP_WHILE];
    bool more = false;
    int first = i->op == OP_FOR ? 3 : 0, arg = i->op == OP_FOR;
    for (int k = 0; k < i->n_results; k++) {
        bool v = pack_loop_differs(p, i) || pack_is_varying(p, ir_operand(i, k + first)) ||
                 pack_is_varying(p, ir_operand(ir_terminator(body), k)) ||
                 pack_is_varying(p, body->args[k + arg]);
        for (int b = 0; b < i->n_blocks && v; b++) more |= note(p, i->blocks[b]->args[k + arg]);
        if (v) more |= note(p, &i->results[k]);
    }
    return more;
}

static bool note_if(Pack *p, const Instr *i)
{
    bool more = false, all = pack_is_varying(p, ir_operand(i, 0));
    for (int k = 0; k < i->n_results; k++) {
        bool v = all;
        for (int b = 0; b < 2; b++) v |= pack_is_varying(p, ir_operand(ir_terminator(i->blocks[b]), k));
        if (v) more |= note(p, &i->results[k]);
    }
    return more;
}

static bool note_instr(Pack *p, const Instr *i)
{
    bool more = false;
    if (op_family(i->op) != OPS_COMBINED)
        for (int k = 0; k < i->n_blocks; k++) more |= note_block(p, i->blocks[k]);
    if (i->op == OP_FOR || i->op == OP_WHILE) return note_carried(p, i) || more;
    if (i->op == OP_IF) return note_if(p, i) || more;
    bool varies = any_varies(p, i) || i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS ||
                  (i->op == OP_PROGRAM_ID && ir_attr_int(i, ATTR_AXIS, 0) == p->axis);
    for (int k = 0; k < i->n_results && varies; k++) more |= note(p, &i->results[k]);
    return more;
}

static bool note_block(Pack *p, const Block *b)
{
    bool more = false;
    for (const Instr *i = b->first; i; i = i->next) more |= note_instr(p, i);
    return more;
}

static bool may_block(const Legal *l, const Block *b);

/* A load's and a store's mask is no part of the language; a pad that varies would need a gather of its own.
 */
static bool may_access(const Legal *l, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m)) return false;
    bool window = i->op == OP_LOAD || i->op == OP_STORE;
    if ((window && m.mask) || (m.pad && pack_is_varying(l->p, m.pad))) return false;
    if (l->guarded && m.token) return false;
    return ir_attr_int(i, ATTR_SEM, SEM_RELAXED) == SEM_RELAXED;
}

/* An `if` whose condition varies runs both of its blocks, which therefore have no effect; then results are
 * chosen. */
static bool may_control(const Legal *l, const Instr *i)
{
    Legal in = *l;
    if (i->op == OP_FOR &&
        (pack_is_varying(l->p, ir_operand(i, 0)) || pack_is_varying(l->p, ir_operand(i, 2))))
        return false;
    if (l->chosen && pack_loop_differs(l->p, i)) return false; /* all would wait for a loop that none runs */
    if (i->op == OP_WHILE) { /* it may wait for what another program stores, and is left as it is */
        if (l->guarded || ir_has_effects(i) || any_varies(l->p, i) ||
            pack_is_varying(l->p, ir_operand(ir_terminator(i->blocks[0]), 0)))
            return false;
        for (int k = 0; k < i->n_results; k++)
            if (i->results[k].type->kind == TYPE_TOKEN || pack_is_varying(l->p, &i->results[k])) return false;
    }
    in.chosen |= i->op == OP_IF && pack_is_varying(l->p, ir_operand(i, 0));
    in.guarded |= in.chosen || pack_loop_differs(l->p, i);
    for (int k = 0; k < i->n_results && in.guarded; k++)
        if (i->results[k].type->kind == TYPE_TOKEN) return false;
    for (int k = 0; k < i->n_blocks; k++)
        if (!may_block(&in, i->blocks[k])) return false;
    return true;
}

static bool is_varying(void *pack, Value *v) { return pack_is_varying(pack, v); }
static bool is_same(void *pack, Value *v) { return !is_varying(pack, v); }

/* The block of a reduction or scan combines elements, of which it is given two. It may read nothing else that
 * varies. */
static bool may_combine(const Legal *l, const Instr *i)
{
    for (const Instr *x = i->blocks[0]->first; x; x = x->next)
        if (!ir_all_operands(x, is_same, (void *)l->p)) return false;
    return true;
}

static bool may(const Legal *l, const Instr *i)
{
    OpFamily family = op_family(i->op);
    if (family == OPS_PRODUCT || family == OPS_CALL) return false;
    if (family == OPS_MESSAGE) return false; /* a print, and an assertion that fails, name their program */
    if (family == OPS_MEMORY) return may_access(l, i);
    if (family == OPS_COMBINED) return may_combine(l, i);
    if (family == OPS_TOKEN) return i->op == OP_TOKEN;
    return family != OPS_CONTROL || may_control(l, i);
}

static bool may_block(const Legal *l, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_results; k++) {
            const Type *t = i->results[k].type;
            if (pack_is_varying(l->p, &i->results[k]) && t->kind == TYPE_TILE && t->rank == TILE_MAX_RANK)
                return false;
        }
        if (!may(l, i)) return false;
    }
    return true;
}

void pack_find_varying(Pack *p)
{
    p->values = p->f->module->next_id;
    p->varies = arena_array(p->c->scratch, bool, p->values);
    while (note_block(p, p->f->body)) {}
}

bool pack_varies(Pack *p)
{
    Legal l = { .p = p };
    pack_find_varying(p);
    return may_block(&l, p->f->body);
}

typedef struct Loops {
    const Pack *p;
    int all, unlike; /* loops; those of which programs run different numbers of steps */
    bool combine;    /* tiles by a function, as grouped-steps does for several steps together */
} Loops;

static void count_loops(void *loops, Instr *i)
{
    Loops *l = loops;
    l->all += is_loop(i);
    l->combine |= op_family(i->op) == OPS_COMBINED;
    l->unlike += pack_loop_differs(l->p, i);
}

bool pack_has_unlike_loops(const Pack *p)
{
    Loops l = { .p = p };
    ir_walk(p->f->body, count_loops, &l);
    return l.all && l.all == l.unlike && !l.combine;
}
