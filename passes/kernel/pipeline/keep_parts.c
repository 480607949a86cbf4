/* keep_parts.c: of keep_rows.c: the parts in which a program works through its rows, and their layout.
 *
 *     part 0: | thread 0 | thread 1 | .. |    part 1: | thread 0 | thread 1 | .. |
 *
 * Parts of aligned rows have the layout that the row has, a few registers at a time. Rows that begin anywhere
 * are divided anew, into vectors of 16 bytes, since registers would hold them by narrower words. */
#include "passes/kernel/pipeline/keep_rows.h"

enum {
    LEAST_BYTES = 16, /* of a part, for each thread */
    MOST_BYTES = 64,
    LINE = 128, /* bytes of L1 that an access of a warp takes at a time */
};

static int32_t coordinate(const Layout *l, uint32_t reg, uint32_t lane, uint32_t warp, uint32_t block)
{
    int32_t c[TILE_MAX_RANK];
    layout_element(l, reg, lane, warp, block, c);
    return c[0];
}

/* Whether so many registers from each multiple of them on hold what the layout of a part says. */
static bool repeats(const Keep *k, const Layout *part)
{
    const Layout *l = k->whole;
    if (!part || !part->separable || layout_regs(part) != (uint32_t)k->regs ||
        layout_warps(part) != layout_warps(l) || layout_blocks(part) != layout_blocks(l) ||
        part->cover[0] != k->chunk)
        return false;
    for (uint32_t r = 0; r < layout_regs(l); r++)
        if (coordinate(l, r, 0, 0, 0) !=
            coordinate(part, r % (uint32_t)k->regs, 0, 0, 0) + (int32_t)(r / (uint32_t)k->regs * k->chunk))
            return false;
    for (uint32_t b = 0; b < layout_blocks(l); b++)
        for (uint32_t w = 0; w < layout_warps(l); w++)
            for (uint32_t t = 0; t < layout_lanes(l); t++)
                if (coordinate(l, 0, t, w, b) != coordinate(part, 0, t, w, b)) return false;
    return true;
}

static void take_part(Keep *k, const Layout *part)
{
    k->part = part;
    k->slice = layout_slice(&k->c->s->arena, part, 0, true);
    k->row_value = layouts_text(&k->c->p->layouts, layout_slice(&k->c->s->arena, k->whole, 0, true));
}

bool keep_find_vectors(Keep *k)
{
    const KernelPlan *p = k->c->p;
    int n = k->start.unit / k->start.bytes, ctas = p->cluster > 1 ? p->cluster : 1;
    int32_t chunk = n * p->target->wave * p->warps * ctas, order = 0;
    k->chunk = chunk;
    k->regs = n;
    k->line = LINE;
    k->parts = (int)((k->row + n - 1 + chunk - 1) / chunk);
    while (k->row + k->line / k->start.bytes - 1 > (int64_t)k->parts * chunk) k->line /= 2;
    const Layout *part = layout_coalesced(
        &k->c->s->arena, 1, &chunk, &order, k->start.bytes, k->start.unit, p->target->wave, p->warps * ctas);
    if (part && ctas > 1) part = layout_split_blocks(&k->c->s->arena, part, ctas);
    if (!part || k->parts < 2 || layout_regs(part) != (uint32_t)n || part->cover[0] != chunk ||
        !kernel_row_runs(part, n))
        return false;
    k->many = k->parts > KEEP_MOST_PARTS;
    if (k->many) return false;
    take_part(k, part);
    return true;
}

bool keep_find_parts(Keep *k, int bytes)
{
    const KernelPlan *p = k->c->p;
    Arena *a = &k->c->s->arena;
    const Layout *l = k->whole;
    int regs = (int)layout_regs(l), run = 1, ctas = p->cluster > 1 ? p->cluster : 1;
    int32_t order = 0;
    if (l->rank != 1 || !l->separable) return false;
    while (run < regs && coordinate(l, (uint32_t)run, 0, 0, 0) == coordinate(l, 0, 0, 0, 0) + run) run++;
    for (int n = run; n <= regs / 2 && n * bytes <= MOST_BYTES; n += run) {
        if ((regs + n - 1) / n > KEEP_MOST_PARTS || n * bytes < LEAST_BYTES) continue;
        int32_t chunk = coordinate(l, (uint32_t)n, 0, 0, 0);
        k->chunk = chunk;
        k->regs = n;
        k->parts = (regs + n - 1) / n; /* the last one may lie partly behind all registers */
        const Layout *part =
            layout_coalesced(a, 1, &chunk, &order, bytes, run * bytes, p->target->wave, p->warps * ctas);
        if (part && ctas > 1) part = layout_split_blocks(a, part, ctas);
        if (!repeats(k, part)) continue;
        take_part(k, part);
        return true;
    }
    return false;
}

Value *keep_unknown(Builder *b, DType t, int64_t n)
{
    Value *v = ir_const_int(b, t, n);
    return ir_emit(b, OP_OPAQUE, &v, 1, NO_ATTRS, NULL);
}

Value *keep_places(Keep *k, Builder *b, const Instr *arange, int p)
{
    const DType dt = arange->results[0].type->dtype;
    const Type *t = type_tile(k->c->s, dt, 1, &k->chunk);
    const int64_t begin = ir_attr_int(arange, ATTR_START, 0) + p * (int64_t)k->chunk,
                  start = k->start.leads ? 0 : begin;
    Value *at = ir_result(ir_build_raw(b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, start)), &t, 1));
    if (!k->start.leads) return at;
    Value *from = keep_unknown(b, dt, begin);
    from = ir_result(ir_build_raw(b, OP_SPLAT, &from, 1, NO_ATTRS, &t, 1));
    return ir_bin(b, OP_ADD, at, from);
}
