/* backwards: a loop that reads what a loop before it has read begins where that one has ended.
 *
 *   for %j { sum of X[%j*1024] }                      for %j { .. }
 *   for %j { store Y[%j*1024] = f(X[%j*1024]) }  -->  for %j { .. } {backwards = 1}
 *
 * What was read last is still in the caches, which the rows of all running programs exceed together. In the
 * order of the first loop, each window would have left them just before it is read again.
 *
 * Requires: a loop by ones that carries nothing but the order of its stores, whose steps load from tensors
 * that are only read, and store windows that lie apart: along one axis, by at least their extent from step to
 * step. Ranges prove that neither these positions nor the counter wrap. Keeps: everything. Does not handle
 * loops with copies in flight, and loops that carry sums, which would be rounded otherwise. */
#include "ir/analysis/range.h"
#include "passes/kernel/kernel.h"
#include <stdlib.h>

enum { DEEP = 8 };

static bool is_inside(const Block *b, const Instr *loop)
{
    while (b && b != loop->blocks[0]) b = b->parent ? b->parent->block : NULL;
    return b != NULL;
}

typedef struct Reversal {
    const Func *f;
    const Instr *loop;
    Ranges *ranges;
    uint64_t reads; /* a bit for each tensor that is loaded from */
    /* by parameter: the offset by which what is stored in different steps lies apart, and its axis */
    const Value **at;
    int *axis;
    bool stores, no;
} Reversal;

/* How much v grows from step to step, if it depends on nothing else that changes in the loop and does not
 * wrap; false: that is not known. */
static bool slope_of(const Reversal *r, const Value *v, int deep, int64_t *slope)
{
    const Instr *d = v->def, *loop = r->loop;
    int64_t a, b, c;
    *slope = v == loop->blocks[0]->args[0];
    if (*slope || !is_inside(d ? d->block : v->block, loop)) return true;
    if (!d || !deep || !dtype_is_int(v->type->dtype)) return false;
    if (d->op == OP_CONST || d->op == OP_DIM) return true;
    if (d->op == OP_CAST)
        return slope_of(r, ir_operand(d, 0), deep - 1, slope) &&
               (!*slope || range_fits(range_of(r->ranges, ir_operand(d, 0)), v->type->dtype));
    if (d->op != OP_ADD && d->op != OP_SUB && d->op != OP_MUL) return false;
    if (!slope_of(r, ir_operand(d, 0), deep - 1, &a) || !slope_of(r, ir_operand(d, 1), deep - 1, &b))
        return false;
    if ((a || b) && !range_exact(r->ranges, v)) return false;
    if (d->op == OP_ADD) return !__builtin_add_overflow(a, b, slope);
    if (d->op == OP_SUB) return !__builtin_sub_overflow(a, b, slope);
    if (!a && !b) return true;
    const bool first = !b; /* the operand that grows */
    return (first || !a) && ir_is_const(ir_operand(d, first), &c) &&
           !__builtin_mul_overflow(first ? a : b, c, slope);
}

/* Whether counting from the end down to the start does not wrap, be there any step or none. */
static bool counts_down(Ranges *r, const Instr *loop)
{
    const int64_t least = range_of_dtype(loop->blocks[0]->args[0]->type->dtype).lo;
    return range_of(r, ir_operand(loop, 0)).lo > least && range_of(r, ir_operand(loop, 1)).lo > least;
}

/* Whether what the store writes in different steps lies apart, beside other stores to the tensor too. */
static bool apart(Reversal *r, const Instr *store)
{
    const Attr *extents = ir_attr(store, ATTR_EXTENTS);
    MemParts m;
    if (!ir_mem_parts(store, &m) || ir_attr(store, ATTR_STEPS) || ir_adds(store) || ir_orders(store))
        return false;
    for (int a = 0; a < m.rank; a++) {
        int64_t slope, extent = extents && extents->v[a] > 0 ? extents->v[a] : 1;
        if (r->at[m.param] && (r->at[m.param] != m.idx[a] || r->axis[m.param] != a)) continue;
        if (!slope_of(r, m.idx[a], DEEP, &slope) || llabs(slope) < extent) continue;
        r->at[m.param] = m.idx[a];
        r->axis[m.param] = a;
        return true;
    }
    return false;
}

static void look_at(void *user, Instr *i)
{
    Reversal *r = user;
    MemParts m;
    if (i->op == OP_FOR || i->op == OP_YIELD) return;
    if (i->op == OP_LOAD && ir_mem_parts(i, &m)) {
        r->reads |= 1ull << m.param % 64;
        r->no |= m.token || r->f->params[m.param].kind != PARAM_IN || kernel_kept(i);
    } else if (i->op == OP_STORE) {
        r->stores = true;
        r->no |= !apart(r, i);
    } else {
        bool whole = dtype_is_int(i->n_results ? i->results[0].type->dtype : DT_F32);
        /* Quotients may be counters that the loop carries (strength-reduction). */
        r->no |= !(op_info[i->op].flags & OPF_PURE) || i->n_blocks ||
                 ((i->op == OP_DIV || i->op == OP_REM) && whole);
    }
}

static bool only_tokens(const Instr *loop)
{
    for (int k = 0; k < loop->n_results; k++)
        if (loop->results[k].type->kind != TYPE_TOKEN) return false;
    return loop->n_results > 0;
}

static void note_reads(void *user, Instr *i)
{
    MemParts m;
    uint64_t *reads = user;
    if (i->op == OP_LOAD && ir_mem_parts(i, &m) && ir_result(i)->type->kind == TYPE_TILE)
        *reads |= 1ull << m.param % 64;
}

bool kernel_pass_backwards(KernelContext *c)
{
    uint64_t read = 0;
    bool changed = false;
    Ranges *ranges = NULL;
    if (c->specialized) return false;
    for (Instr *i = c->f->body->first; i; i = i->next) {
        int64_t step;
        if (i->op != OP_FOR) continue;
        Reversal r = { .f = c->f,
            .loop = i,
            .at = arena_array(&c->s->arena, const Value *, (size_t)c->f->n_params),
            .axis = arena_array(&c->s->arena, int, (size_t)c->f->n_params) };
        if (!ir_over_programs(i) && !ir_loop_is(i, LOOP_EDGE) && only_tokens(i) &&
            ir_is_const(ir_operand(i, 2), &step) && step == 1) {
            if (!ranges) ranges = ranges_new(c->f);
            r.ranges = ranges;
            ir_walk(i->blocks[0], look_at, &r);
            if (!r.no && r.stores && (r.reads & read) && counts_down(ranges, i)) {
                ir_set_attr(c->s, i, a_int(ATTR_BACKWARDS, 1));
                changed = true;
                continue;
            }
        }
        ir_walk(i->blocks[0], note_reads, &read);
    }
    return changed;
}
