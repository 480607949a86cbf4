/* pack_tail.c: of pack: the programs behind the last whole pack.
 *
 *   ... program                 ->     %whole = le (add %base, n), %programs
 *                                      if %whole { ... n programs at once }
 *                                      else { for %i = %base to %programs { ... program %i } } */
#include "passes/tile/program/pack.h"

/* --- programs that store nothing --------------------------------------------------------------------- */

/* c if the value is c times the program's coordinate, or more by a constant; 0: it is not. */
static int64_t times_coordinate(const Pack *p, const Value *v)
{
    int64_t k;
    const Instr *i = v->def;
    if (!i) return 0;
    if (i->op == OP_PROGRAM_ID) return ir_attr_int(i, ATTR_AXIS, 0) == p->axis;
    for (int a = 0; i->op == OP_ADD && a < 2; a++)
        if (ir_is_const(ir_operand(i, 1 - a), &k) && k >= 0) return times_coordinate(p, ir_operand(i, a));
    if (i->op != OP_MUL) return 0;
    for (int a = 0; a < 2; a++)
        if (ir_is_const(ir_operand(i, 1 - a), &k) && k > 0 && k <= INT32_MAX)
            return k * times_coordinate(p, ir_operand(i, a));
    return 0;
}

/* Whether the tensor's axis has at most c elements for each program of the grid's axis. */
static bool axis_ends(const Pack *p, int param, int axis, int64_t c)
{
    const Value *n = ir_operand(ir_terminator(p->f->grid), p->axis);
    int dim = p->f->params[param].dims[axis];
    int64_t k;
    if (ir_is_const(n, &k)) return p->f->dims[dim].extent >= 0 && p->f->dims[dim].extent <= k * c;
    if (n->def && n->def->op == OP_CDIV && ir_is_const(ir_operand(n->def, 1), &k) && k > 0 && k <= c)
        n = ir_operand(n->def, 0);
    return n->def && n->def->op == OP_DIM && ir_attr_int(n->def, ATTR_DIM, -1) == dim;
}

static bool has_effect(const void *pack, const Instr *i)
{
    const Pack *p = pack;
    MemParts m;
    if (!op_has(i->op, OPF_WRITE)) return false;
    if (i->op != OP_STORE || !ir_mem_parts(i, &m)) return true;
    for (int a = 0; a < m.rank; a++) {
        int64_t c = times_coordinate(p, m.idx[a]);
        if (c > 0 && axis_ends(p, m.param, a, c)) return false;
    }
    return true;
}

bool pack_drops_tail(const Pack *p) { return !ir_any_in(p->f->body, has_effect, p); }

/* --- programs one by one ------------------------------------------------------------------------------- */

/* The last state of the memory that `t` is a state of, in the block; NULL: it is not found. */
static Value *chain_end(const Block *b, Value *t)
{
    for (const Use *u = t->uses; u;) {
        Instr *a = ir_within(b, u->user);
        MemParts m;
        Value *now = NULL;
        if (!a) {
            u = u->next;
            continue;
        }
        if (op_info[a->op].flags & OPF_TERM) return t;
        if (ir_mem_parts(a, &m)) now = m.token_out;
        for (int k = 3; a->op == OP_FOR && k < a->n_operands; k++)
            if (ir_operand(a, k) == t) now = &a->results[k - 3];
        for (int n = 0; a->op == OP_IF && n < 2 && !now; n++) {
            const Value *end = chain_end(a->blocks[n], t);
            const Instr *y = ir_terminator(a->blocks[n]);
            for (int k = 0; end && k < y->n_operands; k++)
                if (ir_operand(y, k) == end) now = &a->results[k];
        }
        if (!now) return NULL;
        t = now;
        u = t->uses;
    }
    return t;
}

typedef struct Chains {
    Value *first[IR_MAX_RESULTS], *last[IR_MAX_RESULTS];
    int n;
} Chains;

static bool find_chains(const Pack *p, Chains *c)
{
    c->n = 0;
    for (Instr *i = p->f->body->first; i; i = i->next) {
        if (i->op != OP_TOKEN) continue;
        if (c->n == IR_MAX_RESULTS) return false;
        c->first[c->n] = ir_result(i);
        c->last[c->n] = chain_end(p->f->body, ir_result(i));
        if (!c->last[c->n]) return false;
        c->n += c->last[c->n] != c->first[c->n];
    }
    return true;
}

static void one_by_one(Pack *p, Block *blk, const Value *whole, const Chains *c)
{
    Builder b = ir_at_end(blk);
    Value *ops[IR_MAX_RESULTS + 3] = { p->base, p->programs, ir_index(&b, 1) };
    for (int k = 0; k < c->n; k++) ops[k + 3] = c->first[k];
    Instr *loop = ir_build(&b, OP_FOR, ops, c->n + 3, ATTRS(a_int(ATTR_LOOP, LOOP_EDGE)), NULL, 0);
    Builder in = ir_at_end(loop->blocks[0]);
    ValueMap map;
    value_map_init(&map, p->c->scratch);
    value_map_set(&map, ir_operand(p->base->def, 0), loop->blocks[0]->args[0]);
    for (int k = 0; k < c->n; k++) value_map_set(&map, c->first[k], loop->blocks[0]->args[k + 1]);
    for (const Instr *i = whole->def->next; i != p->guard; i = i->next) {
        bool id = i->op == OP_PROGRAM_ID && ir_attr_int(i, ATTR_AXIS, 0) == p->axis;
        if (id) value_map_set(&map, &i->results[0], loop->blocks[0]->args[0]);
        if (!id && i->op != OP_TOKEN) ir_clone(&in, i, &map);
    }
    for (int k = 0; k < c->n; k++) ops[k] = value_map_get(&map, c->last[k]);
    ir_build(&in, OP_YIELD, ops, c->n, NO_ATTRS, NULL, 0);
    ir_build(&b, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
}

bool pack_tail_begin(Pack *p, Value *whole)
{
    Chains c;
    if (!find_chains(p, &c)) return false;
    Builder b = ir_before(ir_terminator(p->f->body));
    p->guard = ir_build(&b, OP_IF, &whole, 1, ATTRS(a_int(ATTR_RARE, 1)), NULL, 0);
    one_by_one(p, p->guard->blocks[1], whole, &c);
    return true;
}

void pack_tail_end(Pack *p, Value *whole)
{
    Builder in = ir_at_end(p->guard->blocks[0]);
    for (Instr *i = whole->def->next, *next; i != p->guard; i = next) {
        next = i->next;
        if (i->op == OP_TOKEN) continue;
        ir_unlink(i);
        ir_place(&in, i);
    }
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
}
