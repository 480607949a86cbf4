/* emit_row_block.c: rows that lie in memory as one piece (passes/kernel/layout/row_block.c), through shared
 * memory.
 *
 *     memory:   |aaaaaaa bbbbbbb ccccccc ..|    16 bytes a lane, whatever row they belong to
 *     shared:   |aaaaaaa bbbbbbb ccccccc ..|    an element or word a lane, from the row that it works on
 *
 * In the last program, rows may end before the tile does; the vector that crosses their end is moved in
 * pieces. */
#include "backends/gpu/memory/emit_row_block.h"

bool goes_as_row_block(const Emit *e, const Instr *i)
{ return !is_hip(e) && !e->guard && e->role < 0 && kernel_row_block(e->f, e->plan, i) != ROWS_DIRECTLY; }

/* Bytes of which every row begins at a multiple, 16 at most. */
static int rows_at_multiples(const Emit *e, const Window *w)
{
    const Param *q = &e->f->params[w->param];
    int64_t bytes = range_gcd(q->align, 16);
    for (int a = 0; a < w->rank; a++)
        if (a != w->unit) bytes = range_gcd(bytes, ir_row_step(e->f, q, a) * dtype_bytes(q->type->dtype));
    return (int)bytes;
}

/* The condition that the positions along axes before the rows are in range; "": they are. A row has all of
 * the axes behind. */
static const char *others_inside(const RowBlock *b)
{
    Emit *e = b->e;
    const Window *w = b->w;
    const char *all = "";
    for (int a = 0; a < b->outer; a++)
        all = both_conditions(e, all,
            str(e, "(u64)(i64)%s < (u64)%s", name_of(e, w->offset[a]), window_extent(e, w->param, a)));
    return all;
}

/* The condition that all rows lie without a gap. */
static const char *without_gaps(const RowBlock *b)
{
    Emit *e = b->e;
    int64_t inner = b->row;
    const char *all = "";
    for (int a = b->outer; a < b->w->unit; inner /= b->l->tile[++a - b->outer])
        all =
            both_conditions(e, all, str(e, "%s == %lld", window_stride(e, b->w->param, a), (long long)inner));
    return all;
}

/* The place of element `j` of a row, relative to the row's begin. */
static const char *in_row(const RowBlock *b)
{
    Emit *e = b->e;
    int64_t inner = b->row;
    const char *all = "";
    for (int a = b->outer + 1; a < b->w->unit; a++) {
        int64_t whole = inner;
        inner /= b->l->tile[a - b->outer];
        all = str(e, "%sj %% %lld / %lld * (i64)%s + ", all, (long long)whole, (long long)inner,
            window_stride(e, b->w->param, a));
    }
    return inner == b->row ? "j" : str(e, "%sj %% %lld", all, (long long)inner);
}

static bool begin_block(
    RowBlock *b, Emit *e, const Instr *i, const Window *w, const Layout *l, const char *ptr)
{
    DType d = e->f->params[w->param].type->dtype;
    if (!goes_as_row_block(e, i)) return false;
    *b = (RowBlock){ .e = e, .w = w, .l = l, .ptr = ptr, .bits = bits_type(d), .bytes = dtype_bytes(d) };
    int outer = b->outer = w->rank - l->rank, n = l->tile[0];
    b->row = 1;
    for (int a = 1; a < l->rank; a++) b->row *= l->tile[a];
    b->all = n * b->row * b->bytes;
    b->vectors = (int)((b->all + 16 * (int64_t)e->threads - 1) / (16 * (int64_t)e->threads));
    b->shared = tmp(e, "sh");
    b->apart = kernel_row_block(e->f, e->plan, i) == ROWS_APART;
    b->whole = b->apart ? (int)range_gcd(rows_at_multiples(e, w), b->row * b->bytes) : 16;
    b->n = n;
    LayoutVector v;
    layout_vector(l, w->unit_tile, (uint32_t)b->bytes, 4, 16, &v);
    b->words = b->bytes < 4 && v.bytes == 4 && b->row * b->bytes % 4 == 0 && layout_regs(l) % v.n == 0 &&
               b->whole % 4 == 0;
    for (uint32_t k = 0; k < v.n; k++) b->words = b->words && v.reg[k] == k;
    b->dense = tmp(e, "dense");
    b->stride = window_stride(e, w->param, outer);
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", b->shared,
        (long long)scratch(e, b->apart ? b->n * row_gaps_pitch(b) : b->all));
    if (w->masked && !e->ranges) e->ranges = ranges_new(e->f);
    if (w->masked && range_of(e->ranges, w->offset[outer]).lo < 0) b->before = name_of(e, w->offset[outer]);
    if (b->apart) row_gaps_begin(b);
    else
        line(e, "const bool %s = %s && ((u64)%s & 15) == 0%s;", b->dense, without_gaps(b), ptr,
            b->before ? str(e, " && %s >= 0", b->before) : "");
    if (!w->masked) return true;
    b->rows = tmp(e, "rows");
    b->left = tmp(e, "left");
    const char *extent = window_extent(e, w->param, outer), *from = name_of(e, w->offset[outer]);
    const char *here = str(e, "((i64)%s - (i64)%s)", extent, from);
    const char *rows = rows_left(e, w->offset[outer], here, n), *inside = others_inside(b);
    line(e, "const i32 %s = %s;", b->rows, *inside ? str(e, "!(%s) ? 0 : %s", inside, rows) : rows);
    if (b->apart) return true;
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
    line(e, "for (i32 k = warp; k < %s; k += %d) {", b->rows && !b->filled ? b->rows : str(e, "%d", b->n),
        e->threads / 32);
    e->indent++;
    if (b->before && !b->filled) line(e, "if (%s + k < 0) continue;", b->before);
    line(e, "for (i32 j = lane; j < %lld; j += 32) {", (long long)b->row);
    e->indent++;
    line(e, "const %s *const at = %s + k * (i64)%s + %s;", pointee(b->bits), b->ptr, b->stride, in_row(b));
    line(e, "const u32 to = %s + (k * %lld + j) * %d;", b->shared, (long long)b->row, b->bytes);
}

/* The place in shared memory of an element. */
static const char *element_place(const RowBlock *b, Index *const *c, const Type *t)
{
    Emit *e = b->e;
    if (b->apart) return row_gaps_place(b, index_text(e, c[0]), index_text(e, c[1]));
    return str(e, "%s + (%s) * %d", b->shared, row_major(e, c, t), b->bytes);
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

/* The byte of the block at which the element lies. */
static int64_t byte_of(const RowBlock *b, const int32_t *at)
{
    int64_t n = 0;
    for (int a = 0; a < b->l->rank; a++) n = n * b->l->tile[a] + at[a];
    return n * b->bytes;
}

/* The registers of a thread in the order of memory, in pieces of `bytes` that follow each other and begin at
 * multiples of them, for every thread; 0: there are none of a word or more. */
static int pieces_of(const RowBlock *b, uint32_t *order)
{
    const Layout *l = b->l;
    int32_t at[TILE_MAX_RANK];
    int n = (int)layout_regs(l);
    int64_t *offset = arena_array(&b->e->s->arena, int64_t, (size_t)n);
    if (!l->separable) return 0;
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) return 0;
    for (int r = 0; r < n; r++) {
        layout_element(l, (uint32_t)r, 0, 0, 0, at);
        offset[r] = byte_of(b, at);
        int k = r;
        for (; k > 0 && offset[order[k - 1]] > offset[r]; k--) order[k] = order[k - 1];
        order[k] = (uint32_t)r;
    }
    int most = b->whole;
    for (uint32_t t = 0; t < layout_lanes(l) * layout_warps(l); t++) {
        layout_element(l, 0, t % layout_lanes(l), t / layout_lanes(l), 0, at);
        while (most >= 4 && byte_of(b, at) % most) most /= 2;
    }
    for (; most >= 4 && most >= b->bytes; most /= 2) {
        int per = most / b->bytes;
        bool whole = n % per == 0;
        for (int k = 0; k < n && whole; k++)
            whole = k % per ? offset[order[k]] == offset[order[k - 1]] + b->bytes &&
                                  (b->bytes < 4 || order[k] == order[k - 1] + 1)
                            : offset[order[k]] % most == 0;
        if (whole) return most;
    }
    return 0;
}

/* Reads whole words of elements of 4 and 8 bytes into a thread's registers; false: there are none. */
static bool load_pieces(const RowBlock *b, const Type *t, const char *to, const char *pad)
{
    Emit *e = b->e;
    uint32_t *order = arena_array(&e->s->arena, uint32_t, layout_regs(b->l));
    int bytes = b->bytes < 4 ? 0 : pieces_of(b, order), n = bytes / b->bytes;
    if (!bytes) return false;
    for (uint32_t k = 0; k < layout_regs(b->l); k += (uint32_t)n) {
        Index *c[TILE_MAX_RANK] = { 0 };
        coords_at(e, b->l, index_number(e, (int)order[k]), c);
        const char *in = window_condition(e, b->w, c, true);
        line(e, "%s%s(&%s[%u], %s);", *in ? str(e, "if (%s) ", in) : "", use(e, str(e, "lds_b%d", 8 * bytes)),
            to, order[k], element_place(b, c, t));
        if (!*in) continue;
        line(e, "else {");
        e->indent++;
        for (int x = 0; x < n; x++) line(e, "%s[%u] = %s;", to, order[k] + (uint32_t)x, pad);
        end_block(e);
    }
    return true;
}

/* The word of the elements that these registers hold, by one byte permutation for each two of their words. */
static const char *word_of(const RowBlock *b, const char *from, const uint32_t *reg)
{
    Emit *e = b->e;
    const char *all = NULL;
    uint32_t words[4], n = 0, kept = 0x3210;
    int in_word = per_word(b->bits);
    for (int k = 0; k < in_word; k++) {
        uint32_t w = reg[k] / (uint32_t)in_word, known = 0;
        while (known < n && words[known] != w) known++;
        if (known == n) words[n++] = w;
    }
    bool same = n == 1;
    for (int k = 0; k < in_word; k++) same = same && reg[k] % (uint32_t)in_word == (uint32_t)k;
    if (same) return str(e, "%s[%u]", from, words[0]);
    for (uint32_t w = 0; w == 0 || w < n; w += w ? 1 : 2) {
        uint32_t which = kept;
        for (int k = 0; k < 4; k++) {
            uint32_t r = reg[k / b->bytes], of = r / (uint32_t)in_word;
            uint32_t byte = r % (uint32_t)in_word * (uint32_t)b->bytes + (uint32_t)(k % b->bytes);
            bool first = !w && of == words[0], second = n > 1 && of == words[w ? w : 1];
            if (first || second) which = (which & ~(15u << 4 * k)) | (byte + (first ? 0 : 4)) << 4 * k;
        }
        all = str(e, "%s(%s, %s, 0x%xu)", use(e, "byte_perm"), w ? all : str(e, "%s[%u]", from, words[0]),
            str(e, "%s[%u]", from, n > 1 ? words[w ? w : 1] : words[0]), which);
    }
    return all;
}

/* Reads whole words of elements of 1 and 2 bytes into a thread's registers, of a block that has zeros where
 * nothing is in range; false: there are none. */
static bool load_words(const RowBlock *b, const Type *t, const char *to)
{
    Emit *e = b->e;
    uint32_t regs = layout_regs(b->l), *order = arena_array(&e->s->arena, uint32_t, regs),
             *place = arena_array(&e->s->arena, uint32_t, regs);
    int bytes = b->bytes < 4 && (b->filled || !b->w->masked) ? pieces_of(b, order) : 0,
        in_word = per_word(b->bits);
    if (!bytes) return false;
    const char *words = tmp(e, "words");
    line(e, "u32 %s[%u];", words, regs / (uint32_t)in_word);
    for (uint32_t k = 0; k < regs; k++) {
        place[order[k]] = k;
        if (k % (uint32_t)(bytes / b->bytes)) continue;
        Index *c[TILE_MAX_RANK] = { 0 };
        coords_at(e, b->l, index_number(e, (int)order[k]), c);
        line(e, "%s(&%s[%u], %s);", use(e, str(e, "lds_b%d", 8 * bytes)), words, k / (uint32_t)in_word,
            element_place(b, c, t));
    }
    for (uint32_t g = 0; g < regs / (uint32_t)in_word; g++)
        line(e, "%s[%u] = %s;", to, g, word_of(b, words, place + g * (uint32_t)in_word));
    return true;
}

/* Copies rows from memory to shared memory. */
static void load_piece(const RowBlock *b)
{
    Emit *e = b->e;
    const char *words = tmp(e, "piece");
    line(e, "u32 %s[%d];", words, 4 * b->vectors);
    begin_vectors(b);
    line(e, "if (%s) %s(&%s[4 * v], (const u8 *)%s + at);", in_tile(b, b->left, 16),
        window_load_fn(e, b->w, 16), words, b->ptr);
    if (b->left)
        line(e, "else if (at < %s) %s(&%s[4 * v], (const u8 *)%s + at, (u32)(%s - at));", b->left,
            use(e, e->f->params[b->w->param].kind == PARAM_IN ? "ldg_nc_low_b128" : "ldg_low_b128"), words,
            b->ptr, b->left);
    if (b->filled) line(e, "else for (int k = 0; k < 4; k++) %s[4 * v + k] = 0;", words);
    end_blocks(e, 2);
    barrier(e);
    begin_vectors(b);
    line(e, "if (%s) %s(%s + at, &%s[4 * v]);", in_tile(b, NULL, 0), use(e, "sts_b128"), b->shared, words);
    end_blocks(e, 2);
    begin_elements(b);
    const char *from = str(e, "%s(at)", use(e, str(e, "ldg_%s", dtype_name(b->bits))));
    if (b->filled)
        from =
            str(e, "k < %s%s ? %s : 0", b->rows, b->before ? str(e, " && %s + k >= 0", b->before) : "", from);
    line(e, "%s(to, %s);", use(e, str(e, "sts_%s", dtype_name(b->bits))), from);
    end_blocks(e, 3);
    barrier(e);
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
    b.filled = b.rows && b.bytes < 4 && (!m.pad || kernel_is_zero(m.pad));
    load_piece(&b);
    note_elements(e, false, l, m.result->type, NULL);
    if (load_words(&b, m.result->type, to)) return true;
    if (load_pieces(&b, m.result->type, to, pad_value(e, m.pad, d))) return true;
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
            const char *cond = both_conditions(
                e, tile_condition(e, l, r, c), b.filled ? "" : window_condition(e, w, c, true));
            xs[k] = str(e, "%s(%s)", fn, element_place(&b, c, m.result->type));
            if (*cond) xs[k] = str(e, "(%s ? %s : %s)", cond, xs[k], b.words ? pad_word(e, m.pad, d) : pad);
        }
        line(e, "%s[%d] = %s;", to, g, b.words ? xs[0] : pack_expr(e, b.bits, xs, here));
    }
    return true;
}

/* Writes whole words of a thread's registers to shared memory; false: they hold none. */
static bool store_pieces(const RowBlock *b, const Type *t, const char *from, const char *holder)
{
    Emit *e = b->e;
    uint32_t *order = arena_array(&e->s->arena, uint32_t, layout_regs(b->l));
    int bytes = pieces_of(b, order), in_word = per_word(b->bits);
    if (!bytes) return false;
    const char *put = use(e, str(e, "sts_b%d", 8 * bytes));
    for (uint32_t k = 0; k < layout_regs(b->l); k += (uint32_t)(bytes / b->bytes)) {
        Index *c[TILE_MAX_RANK] = { 0 };
        const char *words = tmp(e, "words"), *all = "";
        coords_at(e, b->l, index_number(e, (int)order[k]), c);
        if (b->bytes >= 4) words = str(e, "&%s[%u]", from, order[k]);
        for (int w = 0; b->bytes < 4 && w < bytes / 4; w++)
            all = str(e, "%s%s%s", all, w ? ", " : "", word_of(b, from, order + k + w * in_word));
        if (*all) line(e, "const u32 %s[%d] = { %s };", words, bytes / 4, all);
        line(e, "%s%s(%s, %s);", *holder ? str(e, "if (%s) ", holder) : "", put, element_place(b, c, t),
            words);
    }
    return true;
}

static void store_elements(const RowBlock *b, const Type *t, const char *from, const char *holder)
{
    Emit *e = b->e;
    const char *put = use(e, b->words ? "sts_w32" : str(e, "sts_%s", dtype_name(b->bits)));
    int per = b->words ? per_word(b->bits) : 1;
    for (int k = 0; k < (int)layout_regs(b->l); k += per) {
        Index *c[TILE_MAX_RANK] = { 0 }, *r = index_number(e, k);
        coords_at(e, b->l, r, c);
        const char *cond = both_conditions(e, holder, tile_condition(e, b->l, r, c)),
                   *what = str(e, "%s(%s, %s);", put, element_place(b, c, t),
                       b->words ? str(e, "%s[%d]", from, k / per) : stored_element(e, from, b->bits, r));
        if (*cond) line(e, "if (%s) %s", cond, what);
        else line(e, "%s", what);
    }
}

/* Copies rows from shared memory to memory. */
static void store_piece(const RowBlock *b)
{
    Emit *e = b->e;
    begin_vectors(b);
    const char *store = str(e, "stg%s_b128", window_hint(e, b->w, ACCESS_VECTOR));
    line(e, "if (%s) {", in_tile(b, NULL, 0));
    e->indent++;
    line(e, "u32 words[4];");
    line(e, "%s(words, %s + at);", use(e, "lds_b128"), b->shared);
    const char *whole = b->left ? str(e, "if (at + 16 <= %s) ", b->left) : "";
    line(e, "%s%s((u8 *)%s + at, words);", whole, use(e, store), b->ptr);
    if (b->left)
        line(e, "else if (at < %s) %s(true, (u8 *)%s + at, words, (u32)(%s - at), %d);", b->left,
            use(e, "stg_low_b128"), b->ptr, b->left, b->bytes);
    end_blocks(e, 3);
    begin_elements(b);
    line(e, "%s((%s *)at, %s(to));", use(e, str(e, "stg_%s", dtype_name(b->bits))), pointee(b->bits),
        use(e, str(e, "lds_%s", dtype_name(b->bits))));
    end_blocks(e, 3);
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
    barrier(e);
    const char *holder = unique_holder(e, l);
    if (!store_pieces(&b, m.values[0]->type, from, holder))
        store_elements(&b, m.values[0]->type, from, holder);
    barrier(e);
    if (b.apart) row_gaps_store(&b);
    else store_piece(&b);
    return true;
}
