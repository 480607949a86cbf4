/* emit_order.c: program order between the threads of a CTA.
 *
 * A later operation on a tensor may read or overwrite in one thread what another thread has written. So a
 * barrier stands between the two operations, unless the pair is proven harmless. The chain of tokens names
 * the operations before one; a pair is harmless when
 *   - both read,
 *   - both are stores of scalars (thread 0 does those, in order),
 *   - both are relaxed atomics of one kind whose old values nobody wants,
 *   - their windows lie apart: along one axis the offsets differ by a constant that spans a window, or
 *   - their windows are the same and every thread touches the elements it touched before: same layout, no
 *       element held twice.
 * Across the iterations of a loop, offsets are compared as functions of its counter; any other value that
 * changes inside the loop proves nothing. The programs that a persistent loop runs one after the other have
 * no order.
 *
 * Loads that first-reads freed of their token are in no chain. All of them are before the first write. */
#include "backends/gpu/emit.h"

typedef struct Pair {
    Emit *e;
    const Instr *i; /* the later one */
    MemParts m;
    /* the body of the outermost loop that starts a new iteration between the two; NULL: none */
    const Block *repeats;
    const Block *seen[8]; /* loops whose earlier iterations are being examined */
    int n_seen, budget;
} Pair;

static const Value *uncast(const Value *v)
{
    while (v->def && v->def->op == OP_CAST) {
        const Value *x = ir_operand(v->def, 0);
        if (!dtype_is_int(x->type->dtype) || !dtype_is_signed(x->type->dtype) ||
            dtype_bits(x->type->dtype) < 32 || dtype_bits(v->type->dtype) < 32)
            break;
        v = x;
    }
    return v;
}

static bool difference(const Value *a, const Value *b, int depth, int64_t *k);

/* As `difference`, if one side adds a constant to something or subtracts one from it. */
static bool difference_of_sum(const Value *a, const Value *b, int depth, int64_t *k)
{
    for (int side = 0; side < 2; side++) {
        const Instr *d = side ? b->def : a->def;
        if (!d || (d->op != OP_ADD && d->op != OP_SUB)) continue;
        for (int q = 0; q < (d->op == OP_ADD ? 2 : 1); q++) {
            const Value *rest = ir_operand(d, q);
            int64_t x;
            if (!ir_is_const(ir_operand(d, 1 - q), &x)) continue;
            if (d->op == OP_SUB) x = -x;
            if (!difference(side ? a : rest, side ? rest : b, depth + 1, k)) continue;
            *k += side ? -x : x;
            return true;
        }
    }
    return false;
}

/* As `difference`, if operand q of a and operand r of b are a summand that both have, or an equal constant
 * factor. The bounds exclude overflow. */
static bool difference_without(const Instr *a, int q, const Instr *b, int r, int depth, int64_t *k)
{
    enum { MOST_FACTOR = 1 << 24 };
    const int64_t most = 1ll << 36;
    const Value *same = uncast(ir_operand(a, q)), *left = ir_operand(a, 1 - q), *right = ir_operand(b, 1 - r);
    int64_t x, y;
    if (a->op == OP_ADD) return same == uncast(ir_operand(b, r)) && difference(left, right, depth + 1, k);
    if (!ir_is_const(same, &x) || !ir_is_const(ir_operand(b, r), &y) || x != y) return false;
    if (x <= -MOST_FACTOR || x >= MOST_FACTOR || !difference(left, right, depth + 1, k)) return false;
    if (*k <= -most || *k >= most) return false;
    *k *= x;
    return true;
}

/* Computes a - b, if that is a constant. */
static bool difference(const Value *a, const Value *b, int depth, int64_t *k)
{
    enum { MOST_DEPTH = 16 };
    int64_t x, y;
    a = uncast(a);
    b = uncast(b);
    *k = 0;
    if (a == b) return true;
    if (depth > MOST_DEPTH) return false;
    if (ir_is_const(a, &x) && ir_is_const(b, &y)) {
        *k = x - y;
        return true;
    }
    if (difference_of_sum(a, b, depth, k)) return true;
    if (!a->def || !b->def || a->def->op != b->def->op || (a->def->op != OP_MUL && a->def->op != OP_ADD))
        return false;
    for (int q = 0; q < 2; q++)
        for (int r = 0; r < 2; r++)
            if (difference_without(a->def, q, b->def, r, depth, k)) return true;
    return false;
}

/* The factor of the loop's counter in v; false when v changes in the loop in another way. */
static bool slope(const Value *v, const Block *body, int depth, int64_t *c)
{
    int64_t x, y;
    v = uncast(v);
    *c = 0;
    if (v == body->args[0]) {
        *c = 1;
        return true;
    }
    if (ir_defined_outside(v, body)) return true;
    if (!v->def || depth > 16) return false;
    if (ir_is_const(v, &x)) return true;
    const Value *a = v->def->n_operands == 2 ? ir_operand(v->def, 0) : NULL,
                *b = a ? ir_operand(v->def, 1) : NULL;
    if (!a || (v->def->op != OP_ADD && v->def->op != OP_SUB && v->def->op != OP_MUL)) return false;
    if (!slope(a, body, depth + 1, &x) || !slope(b, body, depth + 1, &y)) return false;
    if (v->def->op == OP_MUL) {
        int64_t f;
        if (!x && !y) return true;
        if (!ir_is_const(x ? b : a, &f) || f < -(1 << 24) || f > 1 << 24) return false;
        *c = f * (x ? x : y);
    } else *c = v->def->op == OP_ADD ? x + y : x - y;
    return *c > -(1ll << 40) && *c < 1ll << 40;
}

bool slope_in_loop(const Value *v, const Block *body, int64_t *c) { return slope(v, body, 0, c); }

static int64_t span(const Instr *i, int axis)
{
    const Attr *ext = ir_attr(i, ATTR_EXTENTS), *st = ir_attr(i, ATTR_STEPS);
    int64_t n = ext->v[axis] < 1 ? 1 : ext->v[axis], s = st ? st->v[axis] : 1;
    return (n - 1) * (s < 0 ? -s : s) + 1;
}

static bool forwards(const Instr *i, int axis)
{
    const Attr *st = ir_attr(i, ATTR_STEPS);
    return !st || st->v[axis] > 0;
}

static bool is_window(const Instr *i)
{ return (i->op == OP_LOAD || i->op == OP_STORE) && ir_attr(i, ATTR_EXTENTS); }
static const Value *moved(const MemParts *m) { return m->result ? m->result : m->values[0]; }

/* Which thread accesses an element of a window: the one that holds it; of stored rows that are exchanged to
 * aligned vectors, another one of the row; of rows that lie as one piece, any. */
typedef enum { BY_HOLDER, BY_EXCHANGE, AS_ONE_PIECE } AccessedBy;

static AccessedBy way_of(Emit *e, const Instr *i)
{
    if (goes_as_row_block(e, i)) return AS_ONE_PIECE;
    return i->op == OP_STORE && store_exchanges(e, i) ? BY_EXCHANGE : BY_HOLDER;
}

/* Whether the threads and registers of every element agree, and each element is held once. */
static bool same_threads(const Pair *p, const Instr *before, const MemParts *b)
{
    const Value *x = moved(&p->m), *y = moved(b);
    if (x->type->kind != TYPE_TILE || y->type->kind != TYPE_TILE || !x->type->layout || !y->type->layout)
        return false;
    if (way_of(p->e, p->i) != way_of(p->e, before)) return false;
    if (!ir_same_window(p->i, before)) return false;
    const Layout *l = layout_of(p->e, x);
    LayoutTerm terms[LAYOUT_MAX_TERMS];
    if (!layout_equal(l, layout_of(p->e, y))) return false;
    /* For two stores, the thread that holds an element does both. */
    return layout_unique_terms(l, terms) == 0 || (p->i->op == OP_STORE && before->op == OP_STORE);
}

/* Whether it adds elements of 16 bits, for which a whole word is swapped, also with an element of another
 * thread in it. */
static bool adds_halves(const Instr *i, const MemParts *m)
{ return ir_adds(i) && dtype_bytes(m->tensor->type->dtype) < 4; }

static bool windows_apart(const Pair *p, const Instr *before, const MemParts *b)
{
    bool same = true;
    int64_t k, c, step = 0;
    if (!is_window(p->i) || !is_window(before) || adds_halves(p->i, &p->m) || adds_halves(before, b))
        return false;
    if (p->repeats && !ir_is_const(ir_operand(p->repeats->parent, 2), &step)) step = 0;
    for (int a = 0; a < p->m.rank; a++) {
        bool known = difference(p->m.idx[a], b->idx[a], 0, &k);
        c = 0;
        if (known && p->repeats) known = slope(b->idx[a], p->repeats, 0, &c) && (!c || step > 0);
        if (!known || k || c) same = false;
        if (!known || !forwards(p->i, a) || !forwards(before, a)) continue;
        if (c >= 0 && c * step + k >= span(before, a)) return true;
        if (c <= 0 && c * step + k <= -span(p->i, a)) return true;
    }
    return same && same_threads(p, before, b);
}

static bool commute(const Pair *p, const Instr *before, const MemParts *b)
{
    const Instr *pair[2] = { p->i, before };
    for (int k = 0; k < 2; k++) {
        const MemParts *m = k ? b : &p->m;
        if (ir_adds(pair[k])) continue;
        if (pair[k]->op != OP_ATOMIC_RMW || (m->result && m->result->uses) ||
            ir_attr_int(pair[k], ATTR_SEM, SEM_RELAXED) != SEM_RELAXED)
            return false;
    }
    int64_t what = ir_attr_int(p->i, ATTR_RMW, 0);
    return what == ir_attr_int(before, ATTR_RMW, 0) && what != RMW_EXCH;
}

static bool harmless(const Pair *p, const Instr *before, const MemParts *b)
{
    bool reads = before->op == OP_LOAD || before->op == OP_GATHER,
         also = p->i->op == OP_LOAD || p->i->op == OP_GATHER;
    if (reads && also) return true;
    if (p->i->op == OP_STORE && before->op == OP_STORE && moved(&p->m)->type->kind == TYPE_SCALAR &&
        moved(b)->type->kind == TYPE_SCALAR)
        return true;
    return commute(p, before, b) || windows_apart(p, before, b);
}

/* Whether loads without a token (first-reads) read what the operation may write: they come before every write
 * of the program, also those of the other threads. */
static bool follows_first_reads(const Pair *p)
{
    for (const Use *u = p->m.tensor->uses; u; u = u->next) {
        MemParts m;
        bool read = u->user->op == OP_LOAD || u->user->op == OP_GATHER;
        if (read && ir_mem_parts(u->user, &m) && !m.token && !harmless(p, u->user, &m)) return true;
    }
    return false;
}

static bool must_meet(Pair *p, const Value *token);

static bool within(const Block *b, const Block *outer)
{
    while (b && b != outer) b = b->parent ? b->parent->block : NULL;
    return b != NULL;
}

/* Examines the operations before a loop, and, for an operation inside it, those of its earlier iterations. */
static bool must_meet_loop(Pair *p, const Value *token)
{
    const Block *body = token->block;
    const Instr *loop = body->parent;
    if (loop->op != OP_FOR || token->index < 1) return true;
    const Value *init = ir_operand(loop, token->index + 2),
                *next = ir_operand(ir_terminator(body), token->index - 1);
    if (must_meet(p, init)) return true;
    if (next == token || ir_over_programs(loop)) return false;
    for (int k = 0; k < p->n_seen; k++)
        if (p->seen[k] == body) return false;
    if (p->n_seen == 8) return true;
    const Block *repeats = p->repeats;
    if (within(p->i->block, body) && (!repeats || within(repeats, body))) p->repeats = body;
    p->seen[p->n_seen++] = body;
    bool meet = must_meet(p, next);
    p->n_seen--;
    p->repeats = repeats;
    return meet;
}

/* Whether the threads need a barrier before p->i because of the operations behind this token. */
static bool must_meet(Pair *p, const Value *token)
{
    const Instr *d = token->def;
    if (p->budget-- <= 0) return true;
    if (!d) return token->block->parent ? must_meet_loop(p, token) : false;
    if (d->op == OP_TOKEN) return follows_first_reads(p);
    if (d->op == OP_JOIN_TOKENS) {
        for (int k = 0; k < d->n_operands; k++)
            if (must_meet(p, ir_operand(d, k))) return true;
        return false;
    }
    if (d->op == OP_IF) {
        for (int k = 0; k < 2; k++)
            if (must_meet(p, ir_operand(ir_terminator(d->blocks[k]), token->index))) return true;
        return false;
    }
    if (d->op == OP_FOR) {
        const Block *body = d->blocks[0];
        return must_meet(p, ir_operand(ir_terminator(body), token->index)) ||
               must_meet(p, ir_operand(d, token->index + 3));
    }
    MemParts before;
    if (ir_is_semaphore(d) && ir_attr(d, ATTR_WRITER) && ir_mem_parts(d, &before))
        return must_meet(p, before.token); /* the writer's */
    if (!ir_mem_parts(d, &before) || !before.token || before.param != p->m.param) return true;
    if (!harmless(p, d, &before)) return true;
    for (size_t k = 0; k < p->e->met.len; k++)
        if (p->e->met.data[k] == d) return false; /* they met there */
    return must_meet(p, before.token);
}

void keep_order(Emit *e, const Instr *i)
{
    Pair p = { .e = e, .i = i, .budget = 64 };
    if (!ir_mem_parts(i, &p.m) || !p.m.token || !must_meet(&p, p.m.token)) return;
    memory_barrier(e);
    vec_push(&e->s->arena, &e->met, i);
}
