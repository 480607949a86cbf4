/* dma.c: tiles that go from memory to LDS without registers (buffer_load ... lds of gfx942 and gfx950).
 *
 * An instruction writes what its lanes fetch to LDS in the order of the lanes, one word each (gfx950:
 * four). The swizzle must therefore be applied to the address in memory: offset o of the tile holds the
 * element whose place, swizzled, is o. A swizzle XORs chunk bits with row bits above them, which it leaves
 * as they are, so that swizzling o gives that place back. */
#include "passes/kernel/kernel.h"

int kernel_dma_bytes(const Target *t) { return target_has(t, TF_LDS_DMA_16) ? 16 : 4; }

void kernel_dma_place(const LayoutShared *s, uint32_t o, int32_t *row, int32_t *bytes)
{
    uint8_t shift[28];
    uint32_t mask[28], x = o;
    int n = layout_shared_terms(s, shift, mask);
    for (int k = 0; k < n; k++) x ^= o >> shift[k] & mask[k];
    uint32_t panel = (uint32_t)s->panel_bytes, pitch = (uint32_t)s->pitch;
    *row = (int32_t)(x % panel / pitch);
    *bytes = (int32_t)(x / panel * (uint32_t)s->panel * s->elem_bytes + x % pitch);
}

static bool power(int64_t x) { return x > 0 && !(x & (x - 1)); }

bool kernel_dma_map(Arena *a, const LayoutShared *s, int size, int threads, DmaMap *m)
{
    int64_t bytes = (int64_t)s->tile[0] * s->tile[1] * s->elem_bytes, pass = (int64_t)size * threads;
    if (s->rank != 2 || s->bytes != bytes || bytes % pass || !power(s->pitch) || !power(s->panel_bytes) ||
        !power(pass))
        return false;
    if ((int64_t)s->panel * s->elem_bytes != s->pitch && s->panel < s->tile[s->order[0]]) return false;
    m->count = (int)(bytes / pass);
    m->row = arena_array(a, int32_t, (size_t)m->count);
    m->col = arena_array(a, int32_t, (size_t)m->count);
    for (int v = 0; v < m->count; v++) {
        kernel_dma_place(s, (uint32_t)(v * pass), &m->row[v], &m->col[v]);
        for (int t = 0; t < threads; t++)
            for (int b = 0; b < size; b += s->elem_bytes) {
                int32_t row, col, own_row, own_col, c[2];
                uint32_t o = (uint32_t)(v * pass + t * size + b);
                kernel_dma_place(s, o, &row, &col);
                kernel_dma_place(s, (uint32_t)(t * size), &own_row, &own_col);
                c[s->order[0]] = col / s->elem_bytes;
                c[s->order[1]] = row;
                if (row != m->row[v] + own_row || col != (m->col[v] ^ own_col) + b ||
                    row >= s->tile[s->order[1]] || c[s->order[0]] >= s->tile[s->order[0]] ||
                    layout_shared_offset(s, c) != o)
                    return false;
            }
    }
    return true;
}
