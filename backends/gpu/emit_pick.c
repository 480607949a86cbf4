/* emit_pick.c: a part of a tile whose elements each lane holds itself, without shared memory: registers are
 * picked, and elements of 8 and 16 bits put together in words.
 *
 *   %e : [64, 2], a lane has [k, 0] and [k, 1]
 *   %a = slice %e {axis = 1, start = 1}             ->   a[0] = pack(get(e[0], 1), get(e[1], 1)) */
#include "backends/gpu/emit.h"

/* Whether thread (lane, warp) of both layouts begins at the same coordinate. Both are separable. */
static bool same_threads(const Layout *a, const Layout *b)
{
    int32_t x[TILE_MAX_RANK], y[TILE_MAX_RANK];
    if (layout_lanes(a) != layout_lanes(b) || layout_warps(a) != layout_warps(b) || layout_blocks(a) != 1 ||
        layout_blocks(b) != 1)
        return false;
    for (uint32_t k = 0; k < layout_lanes(a) * layout_warps(a); k++) {
        uint32_t lane = k % layout_lanes(a), warp = k / layout_lanes(a);
        layout_element(a, 0, lane, warp, 0, x);
        layout_element(b, 0, lane, warp, 0, y);
        for (int d = 0; d < a->rank; d++)
            if (x[d] != y[d]) return false;
    }
    return true;
}

/* The register of `from` that holds what register r of `to` does, `start` further along the axis; -1: another
 * thread's. */
static int register_of(const Layout *from, const Layout *to, uint32_t r, int axis, int64_t start)
{
    int32_t x[TILE_MAX_RANK], y[TILE_MAX_RANK];
    layout_element(to, r, 0, 0, 0, y);
    y[axis] += (int32_t)start;
    for (uint32_t s = 0; s < layout_regs(from); s++) {
        bool same = true;
        layout_element(from, s, 0, 0, 0, x);
        for (int d = 0; d < from->rank && same; d++) same = x[d] == y[d];
        if (same) return (int)s;
    }
    return -1;
}

bool emit_pick(Emit *e, Instr *slice)
{
    Value *r = ir_result(slice);
    const Value *x = ir_operand(slice, 0);
    if (slice->op != OP_SLICE || !e->storage[x->id]) return false;
    const Layout *from = layout_of(e, x), *to = layout_of(e, r);
    int axis = (int)ir_attr_int(slice, ATTR_AXIS, 0), n = (int)layout_regs(to);
    if (!from->separable || !to->separable || !same_threads(from, to)) return false;
    int *source = arena_array(&e->s->arena, int, (size_t)n);
    for (int k = 0; k < n; k++) {
        source[k] = register_of(from, to, (uint32_t)k, axis, ir_attr_int(slice, ATTR_START, 0));
        if (source[k] < 0) return false;
    }
    DType d = r->type->dtype;
    int in_word = per_word(d);
    const char *out = declare_tile(e, r);
    for (int w = 0; w < array_len(d, n); w++) {
        const char *v[4];
        int here = n - w * in_word < in_word ? n - w * in_word : in_word;
        for (int k = 0; k < here; k++) v[k] = element(e, x, from, index_number(e, source[w * in_word + k]));
        line(e, "%s[%d] = %s;", out, w, pack_expr(e, d, v, here));
    }
    return true;
}
