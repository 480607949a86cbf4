/* emit_transpose.c: a product's result transposed: through shared memory in matrices of 8 x 8, which stmatrix
 * transposes as it writes. PTX ISA 9.7.15.3.4 (stmatrix).
 *
 * A lane of an accumulator has two neighbours of one column of what is wanted. Written one at a time, each
 * element is an access of two bytes, in which lanes meet in one bank (bench/notes/products.md, "Products").
 * Each stmatrix writes 32 by 8, or 16 by 8, in rows of 16 bytes; rows are padded by 16 bytes, so that the
 * eight of a matrix lie in different banks. Where a lane has two neighbouring rows as well (paired-rows), it
 * puts them into words, which go to different banks for the same reason. Then each thread reads what its own
 * layout asks for: 16 bytes at a time, or fewer where rows of memory begin at no multiple of 16. */
#include "backends/gpu/emit.h"

/* Which rows the eight groups of four lanes have: of a matrix of 8 x 8; every other one, the next ones being
 * in the next word; or 0, 1, 8, 9, .., as half words have them (half_words.c). */
typedef enum LaneRows { ROWS_BESIDE, ROWS_IN_PAIRS, ROWS_OF_HALVES } LaneRows;

/* Words of 16-bit pairs of an accumulator: lane l of word q has row row[q] + that of its group + the warp's,
 * and columns col[q] + 2 (l mod 4) + the warp's and the next. */
typedef struct Pairs {
    int words, warps;
    LaneRows lanes;
    int32_t *row, *col, *warp_row, *warp_col;
} Pairs;

static int row_of_group(const Pairs *p, int group)
{
    if (p->lanes == ROWS_OF_HALVES) return group % 2 + group / 2 * 8;
    return p->lanes == ROWS_IN_PAIRS ? 2 * group : group;
}

/* Whether a matrix may begin at this row: the rows of its other lanes are sums with it. */
static bool begins_matrix(const Pairs *p, int row) { return !(row & (p->lanes == ROWS_OF_HALVES ? 25 : 7)); }

/* Whether the lanes of warp `w` have the elements of word `q` that Pairs says; one: the first lane alone. */
static bool lanes_hold_pairs(const Layout *l, const Pairs *p, int q, int w, bool one)
{
    const bool linear = layout_lanes_linear(l);
    int32_t c[TILE_MAX_RANK];
    for (int t = 0; t < (one ? 2 : 64); t++) {
        const int lane = t / 2;
        if (linear && lane & (lane - 1)) continue; /* the exclusive or of lanes that are looked at */
        layout_element(l, (uint32_t)(2 * q + t % 2), (uint32_t)lane, (uint32_t)w, 0, c);
        if (c[0] != p->row[q] + p->warp_row[w] + row_of_group(p, lane / 4) ||
            c[1] != p->col[q] + p->warp_col[w] + lane % 4 * 2 + t % 2)
            return false;
    }
    return true;
}

static bool pairs_of(Emit *e, const Layout *l, Pairs *p)
{
    Arena *a = &e->s->arena;
    int32_t c[TILE_MAX_RANK];
    int words = p->words = (int)layout_regs(l) / 2, warps = p->warps = (int)layout_warps(l);
    if (l->rank != 2 || layout_lanes(l) != 32 || layout_regs(l) % 4 || l->cover[0] != l->tile[0] ||
        l->cover[1] != l->tile[1])
        return false;
    layout_element(l, 0, 8, 0, 0, c);
    p->lanes = c[0] == 8 ? ROWS_OF_HALVES : c[0] == 4 ? ROWS_IN_PAIRS : ROWS_BESIDE;
    p->row = arena_array(a, int32_t, (size_t)words);
    p->col = arena_array(a, int32_t, (size_t)words);
    p->warp_row = arena_array(a, int32_t, (size_t)warps);
    p->warp_col = arena_array(a, int32_t, (size_t)warps);
    for (int w = 0; w < warps; w++) {
        layout_element(l, 0, 0, (uint32_t)w, 0, c);
        if (!begins_matrix(p, c[0]) || c[1] % 8) return false;
        p->warp_row[w] = c[0];
        p->warp_col[w] = c[1];
    }
    for (int q = 0; q < words; q++) {
        layout_element(l, (uint32_t)(2 * q), 0, 0, 0, c);
        p->row[q] = c[0] - p->warp_row[0];
        p->col[q] = c[1] - p->warp_col[0];
        const bool next = p->lanes == ROWS_IN_PAIRS && q % 2;
        if (next && (p->row[q] != p->row[q - 1] + 1 || p->col[q] != p->col[q - 1])) return false;
        if (!begins_matrix(p, p->row[q] - next) || p->col[q] % 8) return false;
        const bool known = l->separable && q; /* where the lanes of this word are, the first one has told */
        for (int w = 0; w < (known ? 1 : warps); w++)
            if (!lanes_hold_pairs(l, p, q, w, known)) return false;
    }
    return true;
}

/* Where row x of what is transposed lies: where the rows of a matrix are 0, 1, 8, 9, .., its 16 bytes have
 * them side by side, so that bits 3 and 4 of a row's number stand before bits 1 and 2. */
static int place_of(const Pairs *p, int row)
{
    if (p->lanes != ROWS_OF_HALVES) return row;
    return (row & ~31) | (row & 1) | (row >> 2 & 6) | (row << 2 & 24);
}

static const char *place_text(Emit *e, const Pairs *p, const char *x)
{
    if (p->lanes != ROWS_OF_HALVES) return x;
    return str(e, "(((%s) & ~31) | ((%s) & 1) | ((%s) >> 2 & 6) | ((%s) << 2 & 24))", x, x, x, x);
}

static const int32_t *places(Emit *e, const Pairs *p, const int32_t *rows, int n)
{
    int32_t *at = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int k = 0; k < n; k++) at[k] = place_of(p, rows[k]);
    return at;
}

/* Writes the matrices of 8 x 8 of `src`, four or two at a time, each transposed. */
static void write_matrices(Emit *e, const Pairs *p, const char *src, const char *base, int pitch)
{
    int each = p->words % 4 ? 2 : 4;
    const int32_t *rows = places(e, p, p->row, p->words), *of_warps = places(e, p, p->warp_row, p->warps);
    const char *q = tmp(e, "q"), *place = tmp(e, "at"), *fn = use(e, str(e, "stmatrix_x%d_trans", each));
    begin_unrolled(e, q, p->words / each);
    line(e, "const int %s = %d * %s + (lane >> 3)%s;", place, each, q, each == 2 ? " % 2" : "");
    line(e, "%s(%s + (%s + %s + (lane & 7)) * %d + (%s + %s) * 2, &%s[%d * %s]);", fn, base,
        entry_text(e, p->col, p->words, place), entry_text(e, p->warp_col, p->warps, "warp"), pitch,
        entry_text(e, rows, p->words, place), entry_text(e, of_warps, p->warps, "warp"), src, each, q);
    end_block(e);
}

/* Writes pairs of rows: a word of each two columns. */
static void write_pairs(Emit *e, const Pairs *p, const char *src, const char *base, int pitch)
{
    const char *fn = use(e, "sts_b32"), *perm = use(e, "byte_perm"), *q = tmp(e, "q"), *place = tmp(e, "at");
    int32_t *rows = arena_array(&e->s->arena, int32_t, (size_t)p->words / 2),
            *cols = arena_array(&e->s->arena, int32_t, (size_t)p->words / 2);
    for (int k = 0; k < p->words / 2; k++) {
        rows[k] = p->row[2 * k];
        cols[k] = p->col[2 * k];
    }
    begin_unrolled(e, q, p->words / 2);
    line(e, "const u32 %s = %s + (%s + %s + lane %% 4 * 2) * %d + (%s + %s + lane / 4 * 2) * 2;", place, base,
        entry_text(e, cols, p->words / 2, q), entry_text(e, p->warp_col, p->warps, "warp"), pitch,
        entry_text(e, rows, p->words / 2, q), entry_text(e, p->warp_row, p->warps, "warp"));
    for (int k = 0; k < 2; k++) {
        line(e, "const u32 %s%c = %s(%s[2 * %s], %s[2 * %s + 1], 0x%xu);", place, "ab"[k], perm, src, q, src,
            q, k ? 0x7632 : 0x5410);
        line(e, "%s(%s + %d, &%s%c);", fn, place, k * pitch, place, "ab"[k]);
    }
    end_block(e);
}

typedef struct Rows {
    const Pairs *pairs;
    int elements; /* of a row, with those that pad it */
} Rows;

/* The position of an element in such rows. */
static const char *in_rows(Emit *e, Index *const *c, const void *rows)
{
    const Rows *r = rows;
    return str(
        e, "(%s) * %d + %s", index_text(e, c[0]), r->elements, place_text(e, r->pairs, index_text(e, c[1])));
}

/* Reads the rows, `pitch` bytes apart, in vectors of n elements; by element if n is 1. */
static void read_rows(Emit *e, const Pairs *p, const Value *r, const char *base, int pitch, int n)
{
    const Layout *to = layout_of(e, r);
    Rows rows = { p, pitch / 2 };
    if (n == 1) {
        fill_elements(e, r, base, in_rows, &rows);
        return;
    }
    const char *result = declare_tile(e, r), *load = use(e, str(e, "lds_b%d", 16 * n));
    begin_unrolled(e, "v", (int)layout_regs(to) / n);
    Index *c[2], *reg = index_linear(e, n, "v", 0);
    coords_at(e, to, reg, c);
    const char *in = tile_condition(e, to, reg, c);
    if (p->lanes == ROWS_OF_HALVES) {
        const char *at = tmp(e, "from"), *column = index_text(e, c[1]);
        line(e, "const u32 %s = %s + (%s) * %d + %s * 2;", at, base, index_text(e, c[0]), pitch,
            place_text(e, p, column));
        for (int k = 0; k < n / 2; k++)
            line(e, "%s%s%s%s(&%s[%d * v + %d], %s + %d);", *in ? "if (" : "", in, *in ? ") " : "",
                use(e, "lds_b32"), result, n / 2, k, at, 2 * place_of(p, 2 * k));
    } else
        line(e, "%s%s%s%s(&%s[%d * v], %s + (%s) * %d + (%s) * 2);", *in ? "if (" : "", in, *in ? ") " : "",
            load, result, n / 2, base, index_text(e, c[0]), pitch, index_text(e, c[1]));
    end_block(e);
}

/* The elements that a lane of the layout has side by side, in registers that follow each other. */
static int side_by_side(const Layout *l)
{
    LayoutVector v;
    layout_vector(l, 1, 2, 16, 16, &v);
    for (uint32_t k = 0; k < v.n; k++)
        if (v.reg[k] != k) return 1;
    return (v.n & (v.n - 1)) || layout_regs(l) % v.n ? 1 : (int)v.n;
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
    Pairs pairs;
    if (!pairs_of(e, from, &pairs) || to->rank != 2 || to->tile[1] % 8) return false;
    int pitch = to->tile[1] * 2 + 16;
    int64_t at = scratch(e, (int64_t)to->tile[0] * pitch);
    const char *base = tmp(e, "sh"), *src = array_of(e, x, from);
    line(e, "/* %s transposed, in %s */", name_of(e, x),
        pairs.lanes == ROWS_IN_PAIRS ? "pairs of rows" : "matrices of 8 x 8");
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", base, (long long)at);
    barrier(e);
    (pairs.lanes == ROWS_IN_PAIRS ? write_pairs : write_matrices)(e, &pairs, src, base, pitch);
    barrier(e);
    read_rows(e, &pairs, r, base, pitch, side_by_side(to));
    return true;
}
