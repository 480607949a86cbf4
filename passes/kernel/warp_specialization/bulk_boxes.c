/* bulk_boxes.c: the boxes in which TMA stores the accumulators of a warp (bulk_store.c): 16 rows of at most
 * 128 bytes. Where the rows of the tile are no multiple of 64 bytes, boxes of 32 bytes would divide them. TMA
 * writes each row of a box by itself, so that these would take up to four times as many writes: boxes of 128
 * bytes are taken, the last of which begins where the tile ends less 128 bytes and writes what the one before
 * has written once more. */
#include "passes/kernel/warp_specialization/bulk_store.h"
#include <string.h>

static int span_of(int64_t bytes)
{ return bytes % 128 == 0 ? 128 : bytes % 64 == 0 ? 64 : bytes % 32 == 0 ? 32 : 0; }

/* The row of the box in which the coordinates are: the axes except `unit`, in order, the last one fastest.
 * The extents of boxes are powers of two. */
static int row_in(const BulkBoxes *b, int rank, const int32_t *c)
{
    int row = 0;
    for (int a = 0; a < rank; a++)
        if (a != b->unit) row = row * b->box[a] + (c[a] & (b->box[a] - 1));
    return row;
}

static bool shape_boxes(const Layout *l, int bytes, bool may_overlap, BulkBoxes *b)
{
    int rest = 16, row = l->tile[b->unit] * bytes;
    b->row_bytes = span_of(row);
    if (!b->row_bytes || (bytes == 2 && b->row_bytes < 32)) return false;
    b->overlaps = may_overlap && bytes == 2 && b->row_bytes < 64 && row > 128;
    if (b->overlaps) b->row_bytes = 128;
    b->bytes = 16 * b->row_bytes;
    b->box[b->unit] = b->row_bytes / bytes;
    for (int a = l->rank - 1; a >= 0; a--) {
        if (l->cover[a] != l->tile[a]) return false;
        if (a == b->unit) continue;
        b->box[a] = rest < l->tile[a] ? rest : l->tile[a];
        if (l->tile[a] % b->box[a] || rest % b->box[a]) return false;
        rest /= b->box[a];
    }
    return rest == 1;
}

/* The difference of a lane's coordinates from those of lane 0, which must be the same in all warps. */
static bool lane_steps(const Layout *l, const BulkBoxes *b, int32_t (*step)[TILE_MAX_RANK])
{
    for (uint32_t w = 0; w < layout_warps(l); w++)
        for (uint32_t lane = 0; lane < 32; lane++) {
            int32_t c[TILE_MAX_RANK];
            layout_element(l, 0, lane, w, 0, c);
            for (int a = 0; a < l->rank; a++) {
                if (w && c[a] - b->warp[w][a] != step[lane][a]) return false;
                step[lane][a] = c[a] - b->warp[w][a];
            }
        }
    return l->separable; /* All registers must add the same constant for all lanes. */
}

/* Whether lanes lie as those of a fragment do, relative to lane 0. far: how far they reach along each axis.
 */
static bool fragment_like(const Layout *l, const BulkBoxes *b, int32_t (*step)[TILE_MAX_RANK], int32_t *far)
{
    memset(far, 0, l->rank * sizeof *far);
    for (int lane = 0; lane < 32; lane++) {
        const int32_t *s = step[lane];
        for (int a = 0; a < l->rank; a++) {
            if (s[a] < 0 || s[a] >= b->box[a]) return false;
            if (s[a] > far[a]) far[a] = s[a];
        }
        if (s[b->unit] != 2 * (lane % 4) || row_in(b, l->rank, s) != lane / 4) return false;
    }
    return true;
}

/* Whether all lanes are in the box at `origin` in which lane 0 has `base`. */
static bool stays_in_box(
    const Layout *l, const BulkBoxes *b, const int32_t *far, const int32_t *base, const int32_t *origin)
{
    for (int a = 0; a < l->rank; a++)
        if (base[a] - origin[a] + far[a] >= b->box[a]) return false;
    return true;
}

/* Where the boxes along `unit` begin in which column `c` lies: at multiples of their extent, the last one
 * where the tile ends less that extent. Returns their number, 0 to 2. */
static int begins_of(const Layout *l, const BulkBoxes *b, int32_t c, int32_t *begin)
{
    int32_t box = b->box[b->unit], last = l->tile[b->unit] - box, n = 0;
    if (!b->overlaps || c / box * box <= last) begin[n++] = c / box * box;
    if (b->overlaps && c >= last) begin[n++] = last;
    return n;
}

/* Pairs and boxes of a warp. Boxes that overlap take the columns of all rows. */
static bool count_boxes(const Layout *l, BulkBoxes *b)
{
    int pairs = (int)layout_regs(l) / 2, columns = l->tile[b->unit] / 8 * 2;
    b->pairs = 2 * b->box[b->unit] / 8;
    if (b->overlaps) b->n = pairs / columns * ((columns + b->pairs - 1) / b->pairs);
    else b->n = pairs / b->pairs;
    return pairs % (b->overlaps ? columns : b->pairs) == 0 && b->n > 0;
}

/* Puts pair `q` of registers, which begins at `c`, to box `o`; *n boxes are known. */
static bool put_pair(BulkBoxes *b, int rank, int q, const int32_t *c, const int32_t *o, int *n)
{
    int row = row_in(b, rank, c), col = c[b->unit] - o[b->unit], k = 0;
    while (k < *n && memcmp(b->origin[k], o, sizeof b->origin[0])) k++;
    if (row % 8 || col % 8 || k == b->n) return false;
    if (k == *n) memcpy(b->origin[(*n)++], o, sizeof b->origin[0]);
    int at = k * b->pairs + col / 8 * 2 + row / 8;
    if (b->pair[at] >= 0) return false;
    b->pair[at] = q;
    b->half[at] = row / 8;
    b->col[at] = col;
    return true;
}

static bool find_boxes(Arena *a, const Layout *l, int unit, int bytes, bool may_overlap, BulkBoxes *b)
{
    int regs = (int)layout_regs(l);
    *b = (BulkBoxes){ .unit = unit, .warps = (int)layout_warps(l) };
    if (layout_lanes(l) != 32 || regs % 2 || l->rank < 2 || !shape_boxes(l, bytes, may_overlap, b) ||
        !count_boxes(l, b))
        return false;
    b->origin = arena_alloc(a, sizeof *b->origin * (size_t)b->n);
    b->warp = arena_alloc(a, sizeof *b->warp * (size_t)b->warps);
    b->pair = arena_array(a, int32_t, (size_t)(b->n * b->pairs));
    b->half = arena_array(a, int32_t, (size_t)(b->n * b->pairs));
    b->col = arena_array(a, int32_t, (size_t)(b->n * b->pairs));
    for (int w = 0; w < b->warps; w++) {
        memset(b->warp[w], 0, sizeof b->warp[w]);
        layout_element(l, 0, 0, (uint32_t)w, 0, b->warp[w]);
        if (b->overlaps && b->warp[w][unit]) return false;
        for (int x = 0; x < l->rank; x++)
            if (b->warp[w][x] % b->box[x]) return false;
        for (int v = 0; v < w; v++)
            if (!memcmp(b->warp[v], b->warp[w], sizeof b->warp[w])) return false;
    }
    int32_t step[32][TILE_MAX_RANK], far[TILE_MAX_RANK];
    if (!lane_steps(l, b, step) || !fragment_like(l, b, step, far)) return false;
    memset(b->pair, 0xff, sizeof *b->pair * (size_t)(b->n * b->pairs));
    int n = 0;
    for (int q = 0; q < regs / 2; q++) {
        int32_t c[TILE_MAX_RANK] = { 0 }, d[TILE_MAX_RANK] = { 0 }, o[TILE_MAX_RANK] = { 0 }, begin[2];
        layout_element(l, (uint32_t)(2 * q), 0, 0, 0, c);
        layout_element(l, (uint32_t)(2 * q + 1), 0, 0, 0, d);
        d[unit]--;
        if (memcmp(c, d, sizeof c)) return false;
        for (int x = 0; x < l->rank; x++) o[x] = c[x] - c[x] % b->box[x];
        for (int k = begins_of(l, b, c[unit], begin); k-- > 0;) {
            o[unit] = begin[k];
            if (!stays_in_box(l, b, far, c, o) || !put_pair(b, l->rank, q, c, o, &n)) return false;
        }
    }
    /* stmatrix takes four consecutive words. */
    for (int k = 0; bytes == 2 && k < b->n * b->pairs; k++)
        if (b->pair[k] < 0 || b->pair[k] != b->pair[k - k % 4] + k % 4) return false;
    return true;
}

bool kernel_bulk_boxes(Arena *a, const Layout *l, int unit, int bytes, BulkBoxes *b)
{ return find_boxes(a, l, unit, bytes, false, b); }

bool kernel_store_boxes(Arena *a, const Layout *l, const Instr *store, int unit, BulkBoxes *b)
{
    MemParts m;
    if (!ir_mem_parts(store, &m)) return false;
    bool once = ir_adds(store) || store->op != OP_STORE || ir_attr(store, ATTR_IM2COL);
    return find_boxes(a, l, unit, dtype_bytes(m.values[0]->type->dtype), !once, b);
}
