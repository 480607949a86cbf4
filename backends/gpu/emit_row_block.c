/* emit_row_block.c: rows that lie in memory as one piece (passes/kernel/layout/row_block.c), through shared
 * memory.
 *
 *     memory:   |aaaaaaa bbbbbbb ccccccc ..|    16 bytes a lane, whatever row they belong to
 *     shared:   |aaaaaaa bbbbbbb ccccccc ..|    an element or word a lane, from the row that it works on
 *
 * Of the last program, whose rows may end before the tile does, the vector that crosses the end goes in
 * pieces. */
#include "backends/gpu/emit.h"

typedef struct RowBlock {
    Emit *e;
    const Window *w;
    const Layout *l;
    const char *ptr, *shared;
    const char *dense;     /* the condition that they are one piece */
    const char *stride;    /* elements from row to row */
    const char *rows;      /* that are in range; NULL: all */
    const char *before;    /* the window's first row, which may be below 0; NULL: it is not */
    const char *left;      /* bytes of the rows that are in range; NULL: all */
    DType bits;            /* of an element */
    int n, bytes, vectors; /* rows; of an element; of a thread */
    bool words;            /* the elements of a word are in neighbouring registers */
    int64_t row, all;      /* elements of a row; bytes of all rows */
} RowBlock;

bool goes_as_row_block(const Emit *e, const Instr *i)
{ return !is_hip(e) && !e->guard && e->role < 0 && kernel_row_block(e->f, e->plan, i); }

/* The condition that the positions along other axes are in range; "": they are. */
static const char *others_inside(const RowBlock *b, int outer)
{
    Emit *e = b->e;
    const Window *w = b->w;
    const char *all = "";
    for (int a = 0; a < w->rank; a++)
        if (a != w->unit && a != outer)
            all = both_conditions(e, all,
                str(e, "(u64)(i64)%s < (u64)%s", name_of(e, w->offset[a]), window_extent(e, w->param, a)));
    return all;
}

static bool begin_block(
    RowBlock *b, Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr)
{
    DType d = e->f->params[w->param].type->dtype;
    if (!goes_as_row_block(e, i)) return false;
    *b = (RowBlock){ .e = e, .w = w, .l = l, .ptr = ptr, .bits = bits_type(d), .bytes = dtype_bytes(d) };
    int outer = w->unit - 1, n = l->tile[w->tile_axis[outer]];
    b->row = l->tile[w->unit_tile];
    b->all = n * b->row * b->bytes;
    b->vectors = (int)((b->all + 16 * (int64_t)e->threads - 1) / (16 * (int64_t)e->threads));
    b->shared = tmp(e, "sh");
    b->n = n;
    LayoutVector v;
    layout_vector(l, w->unit_tile, (uint32_t)b->bytes, 4, 16, &v);
    b->words = v.bytes == 4 && b->row * b->bytes % 4 == 0 && layout_regs(l) % v.n == 0;
    for (uint32_t k = 0; k < v.n; k++) b->words = b->words && v.reg[k] == k;
    b->dense = tmp(e, "dense");
    b->stride = window_stride(e, w->param, outer);
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", b->shared, (long long)scratch(e, b->all));
    if (w->masked && !e->ranges) e->ranges = ranges_new(e->f);
    if (w->masked && range_of(e->ranges, w->offset[outer]).lo < 0) b->before = name_of(e, w->offset[outer]);
    line(e, "const bool %s = %s == %lld && ((u64)%s & 15) == 0%s;", b->dense, b->stride, (long long)b->row,
        ptr, b->before ? str(e, " && %s >= 0", b->before) : "");
    if (!w->masked) return true;
    b->rows = tmp(e, "rows");
    b->left = tmp(e, "left");
    const char *extent = window_extent(e, w->param, outer), *from = name_of(e, w->offset[outer]);
    const char *here = str(e, "((i64)%s - (i64)%s)", extent, from);
    const char *rows = rows_left(e, w->offset[outer], here, n), *inside = others_inside(b, outer);
    line(e, "const i32 %s = %s;", b->rows, *inside ? str(e, "!(%s) ? 0 : %s", inside, rows) : rows);
    line(e, "const i32 %s = %s * %lld;", b->left, b->rows, (long long)b->row * b->bytes);
    return true;
}

/* Opens a loop over the vectors of a thread; `at` is the byte at which the vector begins. */
static void begin_vectors(const RowBlock *b)
{
    line(b->e, "if (%s) {", b->dense);
    b->e->indent++;
    begin_unrolled(b->e, "v", b->vectors);
    line(b->e, "const i32 at = (tid + %d * v) * 16;", b->e->threads);
}

/* Opens a loop over the elements of a thread, of rows with gaps: `at` is the place in memory, `to` in shared
 * memory. */
static void begin_elements(const RowBlock *b)
{
    Emit *e = b->e;
    line(e, "else {");
    e->indent++;
    line(e, "for (i32 k = warp; k < %s; k += %d) {", b->rows ? b->rows : str(e, "%d", b->n), e->threads / 32);
    e->indent++;
    if (b->before) line(e, "if (%s + k < 0) continue;", b->before);
    line(e, "for (i32 j = lane; j < %lld; j += 32) {", (long long)b->row);
    e->indent++;
    line(e, "const %s *const at = %s + k * (i64)%s + j;", pointee(b->bits), b->ptr, b->stride);
    line(e, "const u32 to = %s + (k * %lld + j) * %d;", b->shared, (long long)b->row, b->bytes);
}

static void end_blocks(Emit *e, int n)
{
    for (int k = 0; k < n; k++) end_block(e);
}

/* The condition that the vector has its bytes up to `more` in the tile. */
static const char *in_tile(const RowBlock *b, const char *end, int more)
{
    bool full = !b->left && b->all == (int64_t)b->vectors * b->e->threads * 16;
    if (!end) return full ? "true" : str(b->e, "at < %lld", (long long)b->all);
    return str(b->e, more ? "at + %d <= %s" : "at + %d < %s", more, end);
}

bool emit_row_block_load(
    Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    RowBlock b;
    MemParts m;
    if (!begin_block(&b, e, i, w, l, ptr)) return false;
    ir_mem_parts(i, &m);
    DType d = m.tensor->type->dtype;
    note_wide(e, WAY_COPY, false, w, NULL, 16);
    const char *words = tmp(e, "piece");
    line(e, "u32 %s[%d];", words, 4 * b.vectors);
    begin_vectors(&b);
    line(e, "if (%s) %s(&%s[4 * v], (const u8 *)%s + at);", in_tile(&b, b.left, 16), window_load_fn(e, w, 16),
        words, ptr);
    if (b.left)
        line(e, "else if (at < %s) %s(&%s[4 * v], (const u8 *)%s + at, (u32)(%s - at));", b.left,
            use(e, e->f->params[w->param].kind == PARAM_IN ? "ldg_nc_low_b128" : "ldg_low_b128"), words, ptr,
            b.left);
    end_blocks(e, 2);
    barrier(e);
    begin_vectors(&b);
    line(e, "if (%s) %s(%s + at, &%s[4 * v]);", in_tile(&b, NULL, 0), use(e, "sts_b128"), b.shared, words);
    end_blocks(e, 2);
    begin_elements(&b);
    line(e, "%s(to, %s(at));", use(e, str(e, "sts_%s", dtype_name(b.bits))),
        use(e, str(e, "ldg_%s", dtype_name(b.bits))));
    end_blocks(e, 3);
    barrier(e);
    note_elements(e, false, l, m.result->type, NULL);
    const char *fn = use(e, b.words ? "lds_w32" : str(e, "lds_%s", dtype_name(b.bits))),
               *pad = pad_value(e, m.pad, d);
    if (m.pad && b.bits != d)
        pad = str(e, "%s(%s)", use(e, str(e, "bits_%s_%s", dtype_name(d), dtype_name(b.bits))), pad);
    int regs = (int)layout_regs(l), per = per_word(d);
    for (int g = 0; g < array_len(d, regs); g++) {
        Index *c[TILE_MAX_RANK] = { 0 };
        const char *xs[4];
        int here = regs - g * per < per ? regs - g * per : per;
        for (int k = 0; k < (b.words ? 1 : here); k++) {
            Index *r = index_number(e, g * per + k);
            coords_at(e, l, r, c);
            const char *cond =
                both_conditions(e, tile_condition(e, l, r, c), window_condition(e, w, c, true));
            xs[k] = str(e, "%s(%s + (%s) * %d)", fn, b.shared, row_major(e, c, m.result->type), b.bytes);
            if (*cond) xs[k] = str(e, "(%s ? %s : %s)", cond, xs[k], b.words ? pad_word(e, m.pad, d) : pad);
        }
        line(e, "%s[%d] = %s;", to, g, b.words ? xs[0] : pack_expr(e, b.bits, xs, here));
    }
    return true;
}

bool emit_row_block_store(
    Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr, const char *from)
{
    RowBlock b;
    MemParts m;
    if (!begin_block(&b, e, i, w, l, ptr)) return false;
    ir_mem_parts(i, &m);
    note_wide(e, WAY_COPY, true, w, NULL, 16);
    note_elements(e, true, l, m.values[0]->type, NULL);
    const char *put = use(e, b.words ? "sts_w32" : str(e, "sts_%s", dtype_name(b.bits))),
               *holder = unique_holder(e, l);
    barrier(e);
    int per = b.words ? per_word(b.bits) : 1;
    for (int k = 0; k < (int)layout_regs(l); k += per) {
        Index *c[TILE_MAX_RANK] = { 0 }, *r = index_number(e, k);
        coords_at(e, l, r, c);
        const char *cond = both_conditions(e, holder, tile_condition(e, l, r, c)),
                   *what = str(e, "%s(%s + (%s) * %d, %s);", put, b.shared,
                       row_major(e, c, m.values[0]->type), b.bytes,
                       b.words ? str(e, "%s[%d]", from, k / per) : stored_element(e, from, b.bits, r));
        if (*cond) line(e, "if (%s) %s", cond, what);
        else line(e, "%s", what);
    }
    barrier(e);
    begin_vectors(&b);
    const char *store = str(e, "stg%s_b128", window_hint(e, w, ACCESS_VECTOR));
    line(e, "if (%s) {", in_tile(&b, NULL, 0));
    e->indent++;
    line(e, "u32 words[4];");
    line(e, "%s(words, %s + at);", use(e, "lds_b128"), b.shared);
    const char *whole = b.left ? str(e, "if (at + 16 <= %s) ", b.left) : "";
    line(e, "%s%s((u8 *)%s + at, words);", whole, use(e, store), ptr);
    if (b.left)
        line(e, "else if (at < %s) %s(true, (u8 *)%s + at, words, (u32)(%s - at), %d);", b.left,
            use(e, "stg_low_b128"), ptr, b.left, b.bytes);
    end_blocks(e, 3);
    begin_elements(&b);
    line(e, "%s((%s *)at, %s(to));", use(e, str(e, "stg_%s", dtype_name(b.bits))), pointee(b.bits),
        use(e, str(e, "lds_%s", dtype_name(b.bits))));
    end_blocks(e, 3);
    return true;
}
