/* few_indices.c: how a warp gathers elements that lie beside each other and have few indices, such as weights
 * of channels of many elements each.
 *
 *   %at = div (arange 61940), 3097       32 lanes have 4 elements each, so that a warp has 128 beside each
 *   gather W[%g, %at] : [61940]          other, 8 times: the indices of each 128 are two at most
 *
 * Lane k reads for group k of its warp, and hands both elements to all lanes by a shuffle where they choose
 * (backends/gpu/memory/emit_alike.c): two accesses and a register or two, whatever a lane has of the tile.
 *
 * Only reads the IR. */
#include "passes/kernel/gather/few_indices.h"

enum {
    LANES = 32,
    LEAST_BOTH = 4,  /* elements that are worth two accesses and the choice between them */
    LEAST_GROUPS = 4 /* vectors that are worth a shuffle each, where one access would read each of them */
};

/* Whether lanes have n consecutive registers beside each other, lane after lane, in each of the groups, and
 * groups are equally far apart. */
static bool has_groups(const Layout *l, int n, FewIndices *w)
{
    int32_t at, next;
    const int regs = (int)layout_regs(l);
    if (regs % n || regs / n > LANES) return false;
    layout_element(l, 0, 0, 0, 0, &w->first);
    for (int k = 0; k < LANES; k++) {
        layout_element(l, 0, (uint32_t)k, 0, 0, &at);
        if (at != w->first + k * n) return false;
    }
    w->n = n;
    w->groups = regs / n;
    w->apart = 0;
    if (w->groups > 1) layout_element(l, (uint32_t)n, 0, 0, 0, &next);
    if (w->groups > 1) w->apart = next - w->first;
    for (int r = 0; r < regs; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, &at);
        if (at != w->first + r / n * w->apart + r % n) return false;
    }
    return true;
}

/* Whether no register holds an element of the tile, which is a function of coordinates. */
static bool is_virtual(const Value *v)
{
    if (v->type->kind != TYPE_TILE) return true;
    if (v->type->layout || !v->def) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (!is_virtual(ir_operand(v->def, k))) return false;
    return true;
}

/* Whether the lanes of a warp read for each other. alike: the elements that have one index for sure. */
static bool by_lanes(
    const Func *f, Ranges **ranges, const Instr *i, const Layout *l, int alike, FewIndices *w)
{
    enum { MOST = 16 };
    MemParts m;
    bool found = false;
    if (!ir_mem_parts(i, &m) || m.result->type->rank != 1 || !l->separable || layout_lanes(l) != LANES)
        return false;
    for (int a = 0; a < m.rank; a++)
        if (!is_virtual(m.idx[a])) return false;
    /* A shuffle hands a word to all lanes, for two elements at least. */
    const int bytes = dtype_bytes(m.result->type->dtype), least = bytes == 2 ? 2 : LEAST_BOTH;
    for (int n = MOST; n >= least && !found; n /= 2) found = has_groups(l, n, w);
    if (!found || (int)layout_regs(l) < LEAST_BOTH) return false;
    w->alike = alike >= w->n;
    if (w->alike && w->groups < LEAST_GROUPS) return false;
    w->step = kernel_gather_step(f, ranges, i, RUN_WHOLE);
    return w->step.by >= (int64_t)w->n * LANES && is_virtual(w->step.counter);
}

/* The vectors of a lane along the axis, of at most n elements. */
static int vector_of(const Layout *l, int axis, DType d, int n, LayoutVector *v)
{
    const uint32_t bytes = (uint32_t)dtype_bytes(d), pw = bytes < 4 ? 4 / bytes : 1;
    *v = (LayoutVector){ .n = 1 };
    if (n < 2 || d == DT_BOOL || (uint32_t)n * bytes < 4) return 1;
    const uint32_t align = (uint32_t)n * bytes;
    layout_vector(l, axis, bytes, align > 16 ? 16 : align, 16, v);
    /* Elements that share a word of the registers must be neighbours. */
    bool plain = !(v->n & (v->n - 1)) && layout_regs(l) % v->n == 0 && v->n % pw == 0 && v->bytes >= 4;
    for (uint32_t k = 0; k < v->n; k++)
        plain = plain && v->reg[k] % pw == k % pw && v->reg[k] / pw == v->reg[k / pw * pw] / pw;
    if (!plain) v->n = 1;
    return (int)v->n;
}

/* Takes two accesses for each vector of a lane, if they read more than two vectors of elements that are
 * alike, `one` elements each. */
static void by_ends(const Func *f, Ranges **ranges, const Instr *i, const Layout *l, int one, FewIndices *w)
{
    const DType d = ir_result(i)->type->dtype;
    const int axis = ir_result(i)->type->rank - 1;
    LayoutVector v;
    for (int n = 16 / dtype_bytes(d); n >= LEAST_BOTH; n /= 2) {
        const GatherStep step = kernel_gather_step(f, ranges, i, n);
        const int both = step.by >= n ? vector_of(l, axis, d, n, &v) : 1;
        if (both < LEAST_BOTH || both <= 2 * one) continue;
        *w = (FewIndices){ .way = GATHER_BOTH, .axis = axis, .v = v, .step = step };
        return;
    }
}

FewIndices kernel_few_indices(
    const Func *f, Ranges **ranges, const Instr *i, const Layout *l, const Target *t)
{
    FewIndices w = { .way = GATHER_EACH };
    if (i->op != OP_GATHER || ir_result(i)->type->kind != TYPE_TILE || !ir_result(i)->type->rank) return w;
    const DType d = ir_result(i)->type->dtype;
    const int alike = kernel_alike_run(f, ranges, i, &w.axis);
    if (t->kind == TARGET_CUDA && by_lanes(f, ranges, i, l, alike, &w)) w.way = GATHER_LANES;
    if (w.way == GATHER_LANES) return w;
    const int one = vector_of(l, w.axis, d, alike, &w.v);
    if (one > 1) w.way = GATHER_ALIKE;
    by_ends(f, ranges, i, l, one, &w);
    return w;
}

int kernel_few_words(const FewIndices *w, const Instr *gather, const Layout *l)
{
    const int bytes = dtype_bytes(ir_result(gather)->type->dtype), regs = (int)layout_regs(l),
              each = (bytes + 3) / 4, two = bytes == 2 ? 1 : 2 * each;
    switch (w->way) {
    case GATHER_LANES: return two;
    case GATHER_BOTH: return regs / (int)w->v.n * two;
    case GATHER_ALIKE: return regs / (int)w->v.n * each;
    case GATHER_EACH: break;
    }
    return (regs * bytes + 3) / 4;
}
