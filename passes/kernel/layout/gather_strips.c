/* gather-strips: gathers whose positions are computed, strip of columns by strip, where a thread would hold
 * the positions of a whole tile beside more than it has registers for.
 *
 *   %at = .. : i32[128, 128]                     %at0 = .. : i32[128, 32]
 *   %w = gather W[%h, %at] : [128, 128]     ->   %w0 = gather W[%h, %at0] : [128, 32]
 *   %x = add %s, %w : [128, 128]                 %x0 = add (slice %s {start = 0}), %w0
 *                                                .. three more strips ..
 *                                                %x = concat %x0, %x1, %x2, %x3
 *
 * All positions would be computed before the first element is read, since branches (of exact quotients, of
 * tests that an index is in range) keep the vendor's compiler from moving one before the other. It would
 * spill sums that a loop carries for them, such as those of attention with a bias by buckets of distance.
 *
 * Requires: NVIDIA; layouts; a gather of a tensor that is only read, without a mask, and positions that are
 * element-wise functions in the gather's block, or need no registers; nothing that strips would load, since
 * that has no register before it is read and loads of several strips would no longer be under way together;
 * more words held there than leaves registers for addresses; strips in which each thread has of each strip
 * what it has of the first (layout_part). Keeps: everything; each element is computed as before. */
#include "passes/kernel/layout/strips.h"
#include "passes/kernel/schedule/live.h"

enum {
    OTHERS = 36,          /* registers for addresses and masks */
    FUNCTION = 20,        /* the cost (ops.def) of an operation that takes registers of its own .. */
    BESIDE_FUNCTION = 40, /* .. so many, as the vendor's compiler computes it for several elements at once */
    FORCED_WORDS = 2,     /* of a strip wherever it is possible */
    FEW_WORDS = 16        /* of a strip, which keep as many loads under way */
};

typedef struct Found {
    Instr *gather;
    int64_t held; /* words of a thread, with the result */
} Found;

typedef struct Search {
    KernelContext *c;
    Hoist h;
    VEC(Found) all;
} Search;

static int64_t words_of(void *user, const Value *v)
{
    Search *x = user;
    return v->type->kind == TYPE_TILE && v->type->layout ? hoist_words(&x->h, v) : 0;
}

static void note(void *user, const Instr *i, int64_t words)
{
    Search *x = user;
    if (i->op != OP_GATHER || !strips_gather(x->c->f, i)) return;
    Found found = { (Instr *)i, words };
    vec_push(&x->c->s->arena, &x->all, found);
}

/* The gather and what is made of it element by element in its block. */
static void find_members(Strips *x, Instr *gather)
{
    const Type *t = ir_result(gather)->type;
    strips_add(x, ir_result(gather), t->rank - 1);
    for (Instr *i = gather->next; i; i = i->next) {
        const Value *r = i->n_results == 1 ? ir_result(i) : NULL;
        if (!r || !(op_info[i->op].flags & OPF_ELEM) || !type_same_shape(r->type, t) ||
            r->type->layout != t->layout)
            continue;
        bool reads = false;
        for (int k = 0; k < i->n_operands; k++) reads |= strips_member(x, ir_operand(i, k));
        if (reads) strips_add(x, r, t->rank - 1);
    }
    strips_find_roots(x, gather);
}

/* What strips compute: whether it is anything that registers would hold, whether it is a function, and
 * whether they load. */
typedef struct Computed {
    bool any, function, loads;
} Computed;

static Computed computed_for(const Strips *x)
{
    Computed c = { 0 };
    for (const Instr *i = x->block->first; i; i = i->next) {
        if (!i->n_results || i->results[0].id >= x->values || !x->taken[i->results[0].id]) continue;
        c.any |= i->results[0].type->layout && op_is_elementwise(i->op);
        c.loads |= strips_is_load(i);
        c.function |= op_info[i->op].cost >= FUNCTION;
    }
    return c;
}

static bool try_gather(KernelContext *c, const Found *found)
{
    Strips x;
    const Value *v = ir_result(found->gather);
    int64_t room =
        (c->p->consumer_registers ? c->p->consumer_registers : hoist_registers_at(c->p, c->p->min_ctas)) -
        OTHERS;
    bool forced = kernel_forces(c->p, PASS_GATHER_STRIPS);
    if (!forced && found->held <= room - BESIDE_FUNCTION) return false;
    strips_init(&x, c, found->gather->block);
    x.length = v->type->shape[v->type->rank - 1];
    x.gathers = x.apart = true;
    find_members(&x, found->gather);
    if (!x.roots.len || !x.first) return false;
    strips_find_taken(&x);
    Computed computed = computed_for(&x);
    if (computed.function) room -= BESIDE_FUNCTION;
    if (!forced && (!computed.any || computed.loads || found->held <= room)) return false;
    int64_t words = hoist_words(&x.h, v), extent = x.length;
    while (words > (forced ? FORCED_WORDS : FEW_WORDS) && extent % 2 == 0 && strips_exist(&x, extent / 2))
        words /= 2, extent /= 2;
    if (extent == x.length || !strips_exist(&x, extent) || !strips_precede(&x)) return false;
    strips_cut(&x);
    ir_sweep(x.block);
    return true;
}

bool kernel_pass_gather_strips(KernelContext *c)
{
    Search x = { .c = c, .h = { .s = c->s, .f = c->f, .p = c->p } };
    bool changed = false;
    live_count(&c->s->arena, c->f, &(LiveCount){ words_of, note, &x });
    for (size_t k = 0; k < x.all.len; k++)
        if (x.all.data[k].gather->block) changed |= try_gather(c, &x.all.data[k]);
    return changed;
}
