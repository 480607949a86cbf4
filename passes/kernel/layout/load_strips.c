/* load-strips: work on tiles that are loaded, strip by strip, where a thread would hold more of them than it
 * has registers for.
 *
 *   %x = load X[%i, %j] : f16[2048, 128]         %x0 = load X[%i, %j] : f16[128, 128]
 *   %y = load Y[%i, %j] : f16[2048, 128]         %y0 = load Y[%i, %j] : f16[128, 128]
 *   %z = max %x, %y : f16[2048, 128]         ->  %s0 = reduce_sum (max %x0, %y0) {axis = 1} : f16[128]
 *   %s = reduce_sum %z {axis = 1} : f16[2048]    .. 15 more strips ..
 *                                                %s = concat %s0, %s1, ..
 *
 * The program determines the size of a tile, and a topk, a sort or a product behind a reduction may need all
 * of its rows at once. The reduction itself does not need all of its operand at once.
 *
 * Requires: NVIDIA; layouts; loads that element-wise operations, reductions along other axes, reshapes and
 * broadcasts alone read, in one block, and behind which nothing is written before the strips; strips of which
 * each thread holds the same part as of the first one (layout_part). The results of a strip are held until
 * the last strip is done. The strips begin with their loads, so that these are under way together. Keeps:
 * everything; each element is computed as before. */
#include "passes/kernel/layout/strips.h"

enum {
    OTHERS = 36,      /* registers for addresses and masks */
    FEW_WORDS = 8,    /* of a load that is not worth strips */
    LEAST_STRIP = 16, /* words of a strip's loads, so that enough bytes are under way */
    VECTOR = 16       /* bytes */
};

/* The result's axis that `axis` of the operand is; -1: none, or not as a whole. */
static int axis_after(const Instr *i, int axis)
{
    const Type *t = ir_result(i)->type;
    for (int a = 0; a < t->rank; a++)
        if (t->shape[a] > 1 && strips_operand_axis(i, a) == axis) return a;
    return -1;
}

/* Whether strips of the result can be made of strips of an operand. */
static bool passes_on(const Instr *i)
{
    OpFamily f = op_family(i->op);
    return op_is_elementwise(i->op) || i->op == OP_BROADCAST || i->op == OP_RESHAPE || f == OPS_REDUCE ||
           f == OPS_ARG;
}

/* Makes a member of the result, if an operand is one or the load. */
static void look_at(Strips *x, const Instr *i)
{
    const Value *r = i->n_results == 1 ? ir_result(i) : NULL;
    int axis = -1;
    if (!r || r->type->kind != TYPE_TILE || !r->type->layout || !passes_on(i)) return;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        if (v->id >= x->values || x->axis[v->id] < 0) continue;
        int after = op_reduces(i->op) && ir_attr_int(i, ATTR_AXIS, 0) == x->axis[v->id]
                        ? -1
                        : axis_after(i, x->axis[v->id]);
        if (after < 0 || (axis >= 0 && axis != after)) return;
        axis = after;
    }
    if (axis >= 0 && r->type->shape[axis] == x->length) strips_add(x, r, axis);
}

/* The loads of what is counted begin the strips, in their order. */
static void note_loads(Strips *x)
{
    for (Instr *i = x->block->first; i; i = i->next)
        if (i->op == OP_LOAD && x->strip[i->results[0].id] && strips_is_cut(x, &i->results[0]))
            vec_push(&x->h.s->arena, &x->loads, i);
}

static int registers_of(const KernelPlan *p)
{ return p->consumer_registers ? p->consumer_registers : hoist_registers_at(p, p->min_ctas); }

/* The widest strips that have registers beside what is held. false: threads can hold all loads, or there are
 * no strips. */
static bool choose_extent(Strips *x)
{
    StripsHeld held = { 0 };
    int registers = registers_of(x->h.p);
    for (size_t k = 0; k < x->roots.len; k++)
        strips_count(x, x->roots.data[k], x->axis[x->roots.data[k]->id], &held);
    if (held.cut + held.whole <= registers) return false;
    for (size_t k = 0; k < x->roots.len; k++) held.whole += hoist_words(&x->h, x->roots.data[k]);
    if (held.whole >= registers) return false; /* what strips leave does not fit either */
    int64_t room = registers - OTHERS - held.whole;
    if (room < LEAST_STRIP) room = LEAST_STRIP;
    for (int64_t n = 2; n <= x->length; n++)
        if (x->length % n == 0 && held.cut <= room * n && strips_exist(x, x->length / n)) return true;
    return false;
}

/* Whether no load is shifted, and all rows of strips begin at multiples of a vector as those of the tiles do.
 */
static bool keeps_vectors(const Strips *x)
{
    for (size_t k = 0; k < x->loads.len; k++) {
        const Instr *i = x->loads.data[k];
        const Value *v = &i->results[0];
        int along;
        kernel_unit_axis(x->h.f, i, &along);
        if (ir_attr(i, ATTR_SHIFTED) ||
            (along == x->axis[v->id] && x->extent * dtype_bytes(v->type->dtype) % VECTOR))
            return false;
    }
    return true;
}

/* Strips of the load along the axis, of all that is made of it before `end`; NULL: of all. *first: the first
 * reader of what that leaves. */
static bool try_until(KernelContext *c, Instr *load, int axis, const Instr *end, Instr **first)
{
    Strips x;
    strips_init(&x, c, load->block);
    for (uint32_t k = 0; k < x.values; k++) x.axis[k] = -1;
    x.axis[load->results[0].id] = axis;
    x.length = load->results[0].type->shape[axis];
    for (const Instr *i = load->next; i != end; i = i->next) look_at(&x, i);
    strips_find_roots(&x, load->next);
    *first = x.first;
    if (!x.roots.len || !x.first || !strips_precede(&x)) return false;
    *first = NULL;
    strips_find_taken(&x);
    if (!choose_extent(&x)) return false;
    note_loads(&x);
    if (!keeps_vectors(&x)) return false;
    strips_cut(&x);
    ir_sweep(x.block);
    return true;
}

/* What needs a whole result ends the strips. */
static bool try_axis(KernelContext *c, Instr *load, int axis)
{
    Instr *first = NULL, *end;
    do {
        end = first;
        if (try_until(c, load, axis, end, &first)) return true;
    } while (first && first != end);
    return false;
}

typedef struct Search {
    KernelContext *c;
    Hoist h;
    InstrList loads;
    int64_t words; /* of all loads */
} Search;

static void note_load(void *user, Instr *i)
{
    Search *x = user;
    if (i->op != OP_LOAD) return;
    x->words += hoist_words(&x->h, &i->results[0]);
    if (!ir_attr(i, ATTR_SHIFTED) && hoist_words(&x->h, &i->results[0]) > FEW_WORDS)
        vec_push(&x->c->s->arena, &x->loads, i);
}

/* Makes strips of one of the loads, of whose block others may be gone then. */
static bool try_one(KernelContext *c)
{
    Search x = { .c = c, .h = { .s = c->s, .f = c->f, .p = c->p } };
    ir_walk(c->f->body, note_load, &x);
    if (x.words <= registers_of(c->p)) return false;
    for (size_t k = 0; k < x.loads.len; k++) {
        const Type *t = x.loads.data[k]->results[0].type;
        for (int a = 0; a < t->rank; a++)
            if (t->shape[a] > 1 && try_axis(c, x.loads.data[k], a)) return true;
    }
    return false;
}

bool kernel_pass_load_strips(KernelContext *c)
{
    bool changed = false;
    while (try_one(c)) changed = true;
    return changed;
}
