/* lower_ordered_proof.c: proves that additions in a fixed order give the same sum in every run
 * (lower_ordered.c), or warns. It proves two things:
 *
 * - Programs of one chain add to an element at equal steps, or at steps that grow with the number of the
 *   program. The first holds where the place of the element determines the step: windows at `j*T +: T` of
 *   different j do not overlap, so that an element determines `j`. The second holds where the step follows
 *   from the program alone and does not fall.
 * - Programs of different chains add to different elements: the element determines the coordinates of the
 *   chain.
 *
 * A Proof collects the values that an element determines. It starts with what follows from the launch, and
 * looks at the offset of each axis as a sum of terms. If all terms but one are determined, and a change of
 * that one by 1 moves the window by at least its extent, that one is determined too. The same holds for the
 * two terms of `h*G + g` with g in 0 .. G. */
#include "frontend/lower/lower.h"
#include <stdlib.h>

enum { MOST_DETERMINED = 64, MOST_TERMS = 16, DEPTH = 24, MOST_FACTOR = 1 << 20 };

typedef struct Proof {
    const Func *f;
    const Value *determined[MOST_DETERMINED];
    int n;
    bool chains; /* of programs of different chains: their coordinates are not known to be the same */
} Proof;

/* A term of a sum: x, times a number or (scale) a value. */
typedef struct Term {
    const Value *x, *scale;
    int64_t by;
} Term;

static const Value *plain(const Value *v)
{
    while (v->def && v->def->op == OP_CAST && dtype_is_int(ir_operand(v->def, 0)->type->dtype))
        v = ir_operand(v->def, 0);
    return v;
}

/* Whether both are the same number, in one program. */
static bool alike(const Value *a, const Value *b, int depth)
{
    a = plain(a), b = plain(b);
    if (a == b) return true;
    const Instr *x = a->def, *y = b->def;
    int64_t m, n;
    if (!depth || !x || !y || x->op != y->op || a->index != b->index || x->n_operands != y->n_operands)
        return false;
    if (ir_is_const(a, &m) && ir_is_const(b, &n)) return m == n;
    if (x->op == OP_DIM) return ir_attr_int(x, ATTR_DIM, -1) == ir_attr_int(y, ATTR_DIM, -2);
    if (x->op == OP_PROGRAM_ID || x->op == OP_NUM_PROGRAMS)
        return ir_attr_int(x, ATTR_AXIS, 0) == ir_attr_int(y, ATTR_AXIS, 0);
    if (!op_is_pure(x->op) || x->n_blocks || !x->n_operands) return false;
    for (int k = 0; k < x->n_operands; k++)
        if (!alike(ir_operand(x, k), ir_operand(y, k), depth - 1)) return false;
    return true;
}

/* Whether `v` is the same for all programs that add to the element. */
static bool is_determined(const Proof *p, const Value *v, int depth)
{
    int64_t n;
    v = plain(v);
    for (int k = 0; k < p->n; k++)
        if (alike(p->determined[k], v, DEPTH)) return true;
    const Instr *d = v->def;
    if (!depth || (!d && v->block->parent)) return false; /* what a loop carries */
    if (!d || ir_is_const(v, &n) || d->op == OP_DIM || d->op == OP_NUM_PROGRAMS) return true;
    if (d->op == OP_PROGRAM_ID) return !p->chains && ir_attr_int(d, ATTR_AXIS, 0) > 0;
    if (!op_is_pure(d->op) || d->n_blocks || !d->n_operands) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!is_determined(p, ir_operand(d, k), depth - 1)) return false;
    return true;
}

/* MOST_FACTOR keeps products of two factors far below 2^63. */
static bool is_small(int64_t factor) { return factor > -MOST_FACTOR && factor < MOST_FACTOR; }

/* The terms of a sum that are not determined; false: there are too many. */
static bool terms_of(const Proof *p, const Value *v, int64_t by, Term *t, int *n, int depth)
{
    v = plain(v);
    if (is_determined(p, v, DEPTH)) return true;
    const Instr *d = v->def;
    if (d && depth && (d->op == OP_ADD || d->op == OP_SUB))
        return terms_of(p, ir_operand(d, 0), by, t, n, depth - 1) &&
               terms_of(p, ir_operand(d, 1), d->op == OP_SUB ? -by : by, t, n, depth - 1);
    for (int k = 0; d && d->op == OP_MUL && depth && k < 2; k++) {
        const Value *x = ir_operand(d, k), *other = ir_operand(d, 1 - k);
        int64_t m;
        if (ir_is_const(other, &m) && is_small(m) && is_small(by))
            return terms_of(p, x, by * m, t, n, depth - 1);
        if (!is_determined(p, other, DEPTH) || *n == MOST_TERMS) continue;
        t[(*n)++] = (Term){ plain(x), other, by };
        return true;
    }
    if (*n == MOST_TERMS) return false;
    t[(*n)++] = (Term){ v, NULL, by };
    return true;
}

static bool determine(Proof *p, const Value *v)
{
    if (p->n < MOST_DETERMINED) p->determined[p->n++] = v;
    return true;
}

/* g of `h*G + g`: the counter of a loop from 0 to G. */
static bool counts_below(const Value *g, const Term *other)
{
    const Instr *loop = g->def ? NULL : g->block->parent;
    int64_t lo, hi;
    if (!loop || loop->op != OP_FOR || g->index || !ir_is_const(ir_operand(loop, 0), &lo) || lo < 0)
        return false;
    const Value *end = ir_operand(loop, 1);
    if (other->scale) return other->by == 1 && alike(end, other->scale, DEPTH);
    return ir_is_const(end, &hi) && hi <= other->by;
}

/* Adds what the offset of a window of `extent` along one axis determines. */
static bool learn(Proof *p, const Value *offset, int64_t extent)
{
    Term t[MOST_TERMS];
    int n = 0;
    if (!terms_of(p, offset, 1, t, &n, DEPTH) || !n) return false;
    if (n == 1 && !t[0].scale) return llabs(t[0].by) >= extent && determine(p, t[0].x);
    for (int k = 0; n == 2 && extent == 1 && k < 2; k++) {
        const Term *g = &t[k], *h = &t[1 - k];
        if (!g->scale && g->by == 1 && (h->scale || h->by > 1) && counts_below(g->x, h))
            return determine(p, g->x) && determine(p, h->x);
    }
    return false;
}

static void learn_all(Proof *p, const Instr *store)
{
    MemParts m;
    const Attr *e = ir_attr(store, ATTR_EXTENTS), *steps = ir_attr(store, ATTR_STEPS);
    ir_mem_parts(store, &m);
    for (bool more = true; more && p->n + 2 < MOST_DETERMINED;) {
        more = false;
        for (int a = 0; a < m.rank; a++) {
            int64_t n = e->v[a] < 1 ? 1 : (e->v[a] - 1) * (steps ? steps->v[a] : 1) + 1;
            more |= learn(p, m.idx[a], n);
        }
    }
}

/* Whether `v` follows from the launch and the program alone. */
static bool of_program(const Value *v, int depth)
{
    const Proof launch = { .n = 0 };
    const Instr *d = plain(v)->def;
    if (is_determined(&launch, v, depth)) return true;
    if (!d || !depth) return false;
    if (d->op == OP_PROGRAM_ID) return true;
    if (!op_is_pure(d->op) || d->n_blocks || !d->n_operands) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!of_program(ir_operand(d, k), depth - 1)) return false;
    return true;
}

static bool steps_agree(const OrderedStore *o, const OrderedStore *other)
{
    MemParts a, b;
    Proof p = { .n = 0 };
    if (of_program(o->step, DEPTH) && of_program(other->step, DEPTH))
        return o == other && !lower_ordered_falls(o->step);
    learn_all(&p, o->store);
    bool known = is_determined(&p, o->step, DEPTH);
    if (o == other || !known) return known;
    /* another addition to the tensor: of the same windows at the same steps */
    ir_mem_parts(o->store, &a);
    ir_mem_parts(other->store, &b);
    bool same = alike(o->step, other->step, DEPTH);
    for (int k = 0; k < a.rank; k++) same &= alike(a.idx[k], b.idx[k], DEPTH);
    return same;
}

/* The first axis of the grid whose coordinate an element does not determine; 0: none. */
static int free_axis(const Func *f, const OrderedStore *o)
{
    Proof p = { .chains = true };
    const Instr *grid = ir_terminator(f->grid);
    int64_t extent;
    learn_all(&p, o->store);
    for (int a = 1; a < grid->n_operands; a++) {
        bool known = ir_is_const(ir_operand(grid, a), &extent) && extent <= 1;
        for (int k = 0; k < p.n; k++)
            known |= p.determined[k]->def && p.determined[k]->def->op == OP_PROGRAM_ID &&
                     ir_attr_int(p.determined[k]->def, ATTR_AXIS, 0) == a;
        if (!known) return a;
    }
    return 0;
}

void lower_ordered_prove(Lower *l)
{
    for (size_t k = 0; k < l->ordered.len; k++) {
        const OrderedStore *o = &l->ordered.data[k];
        const Value *tensor = ir_operand(o->store, 0);
        bool agree = true;
        for (size_t j = 0; j < l->ordered.len && agree; j++)
            if (ir_operand(l->ordered.data[j].store, 0)->index == tensor->index)
                agree = steps_agree(o, &l->ordered.data[j]);
        const char *name = l->params[tensor->index].var->name;
        int axis = l->func->grid ? free_axis(l->func, o) : 0;
        if (!agree)
            diag_warning(l->s, o->at,
                "nothing shows that all programs add to an element of `%s` at equal steps, or at steps that "
                "grow with program_id(0): if they do not, sums differ from run to run",
                name);
        else if (axis)
            diag_warning(l->s, o->at,
                "nothing shows that programs that differ in program_id(%d) add to different elements of "
                "`%s`: if they do not, sums differ from run to run",
                axis, name);
    }
}
