/* emit_transpose.c: a product's result transposed: through shared memory in matrices of 8 x 8, which stmatrix
 * transposes as it writes. PTX ISA 9.7.15.3.4 (stmatrix).
 *
 * A lane of an accumulator has two neighbours of one column of what is wanted. Written one at a time, each
 * element is an access of two bytes, in which lanes meet in one bank (bench/NOTES.md, Products). Each
 * stmatrix writes 32 by 8, rows of 16 bytes; rows are padded by 16 bytes, so that the eight of a matrix lie
 * in different banks. Then each thread reads 16 bytes at a time of what its own layout asks for. */
#include "backends/gpu/emit.h"

/* Words of 16-bit pairs: lane l of word q has row row[q] + l/4 + the warp's, and columns col[q] + 2 (l mod 4)
 * and the next. */
static bool fragments(Emit *e, const Layout *l, int32_t *row, int32_t *col, int32_t *warp)
{
    int regs = (int)layout_regs(l), warps = (int)layout_warps(l);
    int32_t first[TILE_MAX_RANK], c[TILE_MAX_RANK];
    if (l->rank != 2 || layout_lanes(l) != 32 || regs % 8 || l->cover[0] != l->tile[0] ||
        l->cover[1] != l->tile[1])
        return false;
    for (int w = 0; w < warps; w++) {
        layout_element(l, 0, 0, (uint32_t)w, 0, first);
        if (first[1] || first[0] % 8) return false;
        warp[w] = first[0];
    }
    for (int q = 0; q < regs / 2; q++) {
        layout_element(l, (uint32_t)(2 * q), 0, 0, 0, c);
        row[q] = c[0] - warp[0];
        col[q] = c[1];
        if (row[q] % 8 || col[q] % 8) return false;
        for (int t = 0; t < 64 * warps; t++) {
            layout_element(l, (uint32_t)(2 * q + t % 2), (uint32_t)(t / 2 % 32), (uint32_t)(t / 64), 0, c);
            if (c[0] != row[q] + warp[t / 64] + t / 2 % 32 / 4 || c[1] != col[q] + t / 2 % 4 * 2 + t % 2)
                return false;
        }
    }
    return true;
}

bool emit_transposed(Emit *e, Instr *i)
{
    Value *x = ir_operand(i, 0), *r = ir_result(i);
    const Attr *order = i->op == OP_PERMUTE ? ir_attr(i, ATTR_ORDER) : NULL;
    DType d = r->type->dtype;
    if (!order || order->n != 2 || order->v[0] != 1 || is_hip(e) || !target_has(e->target, TF_WGMMA) ||
        dtype_bytes(d) != 2 || x->type->kind != TYPE_TILE || r->type->kind != TYPE_TILE)
        return false;
    const Layout *from = layout_of(e, x), *to = layout_of(e, r);
    int words = (int)layout_regs(from) / 2, regs = (int)layout_regs(to);
    int32_t *row = arena_array(&e->s->arena, int32_t, (size_t)words + 1),
            *col = arena_array(&e->s->arena, int32_t, (size_t)words + 1),
            *warp = arena_array(&e->s->arena, int32_t, (size_t)layout_warps(from) + 1);
    LayoutVector v;
    if (!fragments(e, from, row, col, warp) || to->rank != 2 || to->cover[0] != to->tile[0] ||
        to->cover[1] != to->tile[1] || to->tile[1] % 8)
        return false;
    layout_vector(to, 1, 2, 16, 16, &v);
    if (v.n != 8 || regs % 8) return false;
    for (uint32_t k = 0; k < 8; k++)
        if (v.reg[k] != k) return false;
    int pitch = to->tile[1] * 2 + 16;
    int64_t at = scratch(e, (int64_t)to->tile[0] * pitch);
    const char *base = tmp(e, "sh"), *src = array_of(e, x, from), *q = tmp(e, "q"), *place = tmp(e, "at");
    line(e, "/* %s transposed, in matrices of 8 x 8 */", name_of(e, x));
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", base, (long long)at);
    barrier(e);
    begin_unrolled(e, q, words / 4);
    line(e, "const int %s = 4 * %s + (lane >> 3);", place, q);
    line(e, "%s(%s + (%s + (lane & 7)) * %d + (%s + %s) * 2, &%s[4 * %s]);", use(e, "stmatrix_x4_trans"),
        base, entry_text(e, col, words, place), pitch, entry_text(e, row, words, place),
        entry_text(e, warp, (int)layout_warps(from), "warp"), src, q);
    end_block(e);
    barrier(e);
    const char *result = declare_tile(e, r);
    begin_unrolled(e, "v", regs / 8);
    Index *c[2];
    coords_at(e, to, index_linear(e, 8, "v", 0), c);
    line(e, "%s(&%s[4 * v], %s + (%s) * %d + (%s) * 2);", use(e, "lds_b128"), result, base,
        index_text(e, c[0]), pitch, index_text(e, c[1]));
    end_block(e);
    return true;
}
