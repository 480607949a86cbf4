/* column-strips: element-wise work behind a product, strip of columns by strip, where a whole tile of each
 * operand beside the sums would not fit registers.
 *
 *   %b = load B[%j] : [256]                      %s0 = slice %acc {start = 0} : [128, 64]
 *   %y = mul %acc, (broadcast %b) : [128, 256]   %b0 = load B[%j] : [64]
 *   %z = cast %y : f16[128, 256]            ->   %z0 = cast (mul %s0, (broadcast %b0))
 *   store C[..] = %z                             .. three more strips ..
 *                                                store C[..] = (concat %z0, %z1, %z2, %z3)
 *
 * The vendor's compiler moves no load behind a later access, so that a thread would hold all that was loaded
 * at once, beside the sums: two rows of weights for 256 columns take 128 registers, as many as the sums. The
 * registers of a strip's sums are free when the strip is done. Slices and concatenations rename registers.
 *
 * Requires: NVIDIA; layouts; sums of a product, or parts of their columns that lie where the sums are
 * (of_sums.c), in a block that runs once a program; threads that hold more than leaves registers for
 * addresses; strips in which each thread has of each strip what it has of the first (layout_part); loads that
 * no write stands behind before the strips, or tiles that come through rings by whole stages (ring_tiles.c).
 * A load may stand under a condition of the program, with zeros elsewhere (multicast). What can not be cut
 * (what others read too) is computed whole, and cut then. Keeps: everything. */
#include "passes/kernel/layout/strips.h"

enum {
    OTHERS = 36, /* registers for addresses and masks */
    WIDEST = 64, /* columns of a strip; of narrower ones each access has a mask of its own */
    NARROWEST = 16,
    FUNCTION = 20,       /* the cost (ops.def) of an operation that takes registers of its own .. */
    BESIDE_FUNCTION = 40 /* .. so many, as the vendor's compiler computes it for several elements at once */
};

/* The members are element-wise, from the sums, which they follow in their block. */
static void find_members(Strips *x)
{
    int axis = x->sum->type->rank - 1;
    strips_add(x, x->sum, axis);
    for (Instr *i = x->sum->def->next; i; i = i->next) {
        const Value *r = i->n_results == 1 ? ir_result(i) : NULL;
        if (!r || !(op_info[i->op].flags & OPF_ELEM) || !type_same_shape(r->type, x->sum->type) ||
            r->type->layout != x->sum->type->layout)
            continue;
        bool reads = false;
        for (int k = 0; k < i->n_operands; k++) reads |= strips_member(x, ir_operand(i, k));
        if (reads) strips_add(x, r, axis);
    }
    strips_find_roots(x, x->sum->def->next);
}

static int room(const KernelPlan *p)
{ return (p->consumer_registers ? p->consumer_registers : hoist_registers_at(p, p->min_ctas)) - OTHERS; }

/* Whether what is cut has a function that takes many instructions. */
static bool has_function(const Strips *x)
{
    for (const Instr *i = x->sum->def->next; i; i = i->next)
        if (i->n_results == 1 && strips_is_cut(x, ir_result(i)) && op_info[i->op].cost >= FUNCTION)
            return true;
    return false;
}

/* The columns of strips; 0: threads have registers for whole tiles, or hold no less with strips. */
static int64_t columns_for(Strips *x)
{
    StripsHeld held = { 0 };
    int64_t columns = WIDEST;
    bool function = has_function(x);
    for (size_t k = 0; k < x->roots.len; k++)
        strips_count(x, x->roots.data[k], x->axis[x->roots.data[k]->id], &held);
    if (held.whole + held.cut <= room(x->h.p) - (function ? BESIDE_FUNCTION : 0) || (!held.cut && !function))
        return 0;
    while (columns >= NARROWEST && !strips_exist(x, columns)) columns /= 2;
    return columns < NARROWEST ? 0 : columns;
}

/* Whether all that comes through rings behind the sums is cut, and read by what has been counted. */
static bool cuts_rings(const Strips *x)
{
    bool all = true;
    for (size_t k = 0; k < x->rings.reads.len && all; k++) {
        const Value *v = ir_result(x->rings.reads.data[k]);
        all = strips_is_cut(x, v) && x->strip[v->id];
    }
    return all;
}

/* Sums, or a part of their columns that is made of them by slices and reshapes. */
typedef struct Sums {
    Value *value;
    Instr *of; /* what gives the sums themselves */
} Sums;

static bool try_sum(KernelContext *c, const Sums *sums, bool rings)
{
    Strips x;
    RingTiles tiles = { 0 };
    Value *sum = sums->value;
    if (rings && !ring_tiles_find(&c->s->arena, sums->of->next, &tiles)) return false;
    strips_init(&x, c, sum->def->block);
    x.rings = tiles;
    x.sum = sum;
    x.length = sum->type->shape[sum->type->rank - 1];
    find_members(&x);
    if (!x.roots.len || !x.first) return false;
    strips_find_taken(&x);
    x.extent = columns_for(&x);
    if (!x.extent || !cuts_rings(&x) || !strips_precede(&x)) return false;
    strips_cut(&x);
    ir_sweep(sum->def->block);
    for (size_t k = 0; k < x.rings.reads.len; k++) ir_erase(x.rings.reads.data[k]);
    return true;
}

/* Whether the block runs once a program. */
static bool runs_once(const Block *b)
{
    for (const Instr *i = b->parent; i; i = i->block->parent)
        if ((i->op == OP_FOR || i->op == OP_WHILE) && !ir_over_programs(i)) return false;
    return true;
}

static bool is_product(Op op) { return op == OP_MMA_SYNC || op == OP_WGMMA_WAIT || op == OP_WGMMA_PROMOTED; }

/* Whether the value has sums of a product: its own, or those of a loop with products. */
static bool holds_sums(const Instr *i, const Value *v)
{
    return v->type->kind == TYPE_TILE && v->type->layout && v->type->rank == 2 && v->uses &&
           (is_product(i->op) ||
               ((i->op == OP_FOR || i->op == OP_WHILE) &&
                   (ir_is_or_holds(i, OP_MMA_SYNC) || ir_is_or_holds(i, OP_WGMMA_PROMOTED))));
}

typedef struct Found {
    KernelContext *c;
    VEC(Sums) sums;
} Found;

static void note_sums(Found *x, Value *v, Instr *of)
{
    Sums sums = { v, of };
    vec_push(&x->c->s->arena, &x->sums, sums);
}

/* Parts of the columns, which lie where the sums are (of_sums.c). */
static void find_parts(Found *x, Value *v, Instr *of)
{
    for (Use *u = v->uses; u; u = u->next) {
        Instr *i = u->user;
        if ((i->op != OP_SLICE && i->op != OP_RESHAPE) || i->block != of->block || !ir_result(i)->uses)
            continue;
        if (ir_result(i)->type->rank == 2 && ir_result(i)->type->layout) note_sums(x, ir_result(i), of);
        find_parts(x, ir_result(i), of);
    }
}

static void find_sums(void *user, Instr *i)
{
    Found *x = user;
    if (!runs_once(i->block)) return;
    for (int k = 0; k < i->n_results; k++)
        if (holds_sums(i, &i->results[k])) {
            note_sums(x, &i->results[k], i);
            find_parts(x, &i->results[k], i);
        }
}

bool kernel_pass_column_strips(KernelContext *c)
{
    Found x = { .c = c };
    bool changed = false;
    ir_walk(c->f->body, find_sums, &x);
    for (size_t k = 0; k < x.sums.len; k++) {
        const Sums *sums = &x.sums.data[k];
        if (!sums->value->def->block) continue; /* strips of other sums are in its place */
        changed |= try_sum(c, sums, true) || try_sum(c, sums, false);
    }
    return changed;
}
