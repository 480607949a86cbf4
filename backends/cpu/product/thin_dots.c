/* thin_dots.c: products of few rows or columns in dots: k runs in vectors, whose lanes are added at the end.
 * Elements that have few values are looked up (thin_tables.c). */
#include "backends/cpu/product/thin.h"
#include "backends/cpu/plan/plan.h"

enum { OF_LOOKUPS = 4 }; /* registers, besides those of tables and sums */

/* Lanes [at, at + n) of v, and zeros up to `lanes`. */
static LLVMValueRef part(Gen *g, LLVMValueRef v, int at, int n, int lanes)
{
    int mask[64], have = gen_lanes(v);
    if (have == n && n == lanes) return v;
    if (have == 1) v = LLVMBuildBitCast(g->b, v, LLVMVectorType(LLVMTypeOf(v), 1), "");
    for (int k = 0; k < lanes; k++) mask[k] = k < n ? at + k : have;
    return gen_shuffle(g, v, LLVMConstNull(LLVMTypeOf(v)), mask, lanes);
}

/* Adds the sums of the lanes of n vectors to n sums that lie side by side. */
static void put_sums(Thin *t, int row, LLVMValueRef column, LLVMValueRef *v, int n)
{
    Gen *g = t->g;
    const Buf *to = t->s->buf;
    LLVMValueRef x = thin_sums_of_lanes(t, v, n);
    if (n == 1) x = LLVMBuildExtractElement(g->b, x, gen_int(g, 0), "");
    if (t->s->acc) x = thin_add(t, gen_load(g, to->dtype, n, thin_sum_at(t, t->s->acc, row, column)), x);
    gen_store(g, to->dtype, x, thin_sum_at(t, to, row, column));
}

/* How many of n vectors are added at once. */
static int at_once(const Thin *t, int n)
{
    int some = 1;
    while (n % (2 * some) == 0 && 2 * some <= t->lanes) some *= 2;
    return some;
}

/* acc[column * rows + row] to the sums, where columns or rows lie side by side. */
static void put_all(Thin *t, LLVMValueRef column, int columns, LLVMValueRef *acc)
{
    Gen *g = t->g;
    bool turned = t->s->thin == THIN_DOTS_OF_A;
    LLVMValueRef v[MAX_SUMS];
    if (turned) { /* the rows of a column, and the next column if these are all */
        int all = t->m == t->rows ? columns * t->rows : t->rows, some = at_once(t, all);
        for (int c = 0; c < columns * t->rows; c += some)
            put_sums(t, c % t->rows, gen_iadd(g, column, gen_int(g, c / t->rows)), acc + c, some);
        return;
    }
    int some = at_once(t, columns);
    for (int r = 0; r < t->rows; r++)
        for (int c = 0; c < columns; c += some) {
            for (int k = 0; k < some; k++) v[k] = acc[(c + k) * t->rows + r];
            put_sums(t, r, gen_iadd(g, column, gen_int(g, c)), v, some);
        }
}

/* --- products ---------------------------------------------------------------------------------------- */

/* Elements along K that are computed at once: as many as a line has, and a whole number of vectors. */
static int dot_width(const Thin *t)
{
    if (t->index || (t->with && t->with->index)) return thin_looked_up(t);
    int least = t->lanes * mma_group(t->as), width = t->whole ? BYTES_AT_ONCE / dtype_bytes(t->from) : least;
    while (width > least && (width > BYTES_AT_ONCE || t->k % width)) width /= 2;
    return width < least ? least : width;
}

/* How far from a column is what comes BYTES_AHEAD later in windows of `bytes` bytes of short columns: in
 * another column, or in a later window, or behind the end of the tensor's rows in those of the next window.
 */
static LLVMValueRef ahead_of_short(Thin *t, int i, LLVMValueRef column, int64_t bytes, int columns)
{
    Gen *g = t->g;
    const Window *w = t->windows.w[i];
    LLVMValueRef window = t->windows.ahead[i], stride = thin_stride(w);
    int64_t by = BYTES_AHEAD / (bytes * columns) * columns; /* columns */
    if (by < t->n) {
        LLVMValueRef within = icmp(g, LLVMIntSLT, column, gen_int(g, t->n - by));
        LLVMValueRef next = gen_iadd(g, window, gen_imul(g, stride, by - t->n));
        return LLVMBuildSelect(g->b, within, gen_imul(g, stride, by), next, "");
    }
    int axis = w->axis[stride == w->stride[0]], element = dtype_bytes(w->dtype);
    LLVMValueRef far = gen_imul(g, window, (by + t->n - 1) / t->n);
    LLVMValueRef end = gen_imul(g, memory_extent(g, w->m.param, axis), element);
    LLVMValueRef at = gen_iadd(g, gen_imul(g, gen_scalar_i64(g, w->m.idx[axis]), element), far);
    LLVMValueRef next = gen_iadd(g, LLVMBuildSub(g->b, far, end, ""), gen_imul(g, stride, t->n));
    return LLVMBuildSelect(g->b, icmp(g, LLVMIntSLT, at, end), far, next, "");
}

/* How far from element k of a column is what comes BYTES_AHEAD later, of `columns` columns at once: in the
 * same columns, or behind their end in the next ones. */
static LLVMValueRef ahead_of(Thin *t, int i, LLVMValueRef k, LLVMValueRef column, int columns)
{
    Gen *g = t->g;
    const Window *w = t->windows.w[i];
    LLVMValueRef window = t->windows.ahead[i], stride = thin_stride(w);
    int64_t ahead = BYTES_AHEAD / columns, bytes = dtype_bytes(w->dtype), all = t->k * bytes;
    if (t->in_order) return gen_int(g, BYTES_AHEAD);
    if (all <= ahead) return ahead_of_short(t, i, column, all, columns);
    LLVMValueRef next = gen_iadd(g, column, gen_int(g, columns)),
                 back = LLVMBuildMul(g->b, column, stride, "");
    LLVMValueRef more = LLVMBuildSelect(g->b, icmp(g, LLVMIntSLT, next, gen_int(g, t->n)),
        gen_imul(g, stride, columns), LLVMBuildSub(g->b, window, back, ""), "");
    LLVMValueRef within = icmp(g, LLVMIntSLT, gen_imul(g, k, bytes), gen_int(g, all - ahead));
    more = gen_iadd(g, more, gen_int(g, ahead - all));
    return LLVMBuildSelect(g->b, within, gen_int(g, ahead), more, "");
}

/* Whether the columns of a window are a line each, as groups of weights of 4 bits are. Memory delivers single
 * lines of many rows in less than half the time that it takes for as many lines side by side, so that the
 * window is fetched with those of the next iterations, PIECE bytes of a column at once. Where AVX-512 is,
 * single lines were as fast (bench/results/cpu.md). */
enum { PIECE = 256, LINES_OF_PIECE = PIECE / LINE };
static bool in_pieces(const Thin *t, int i)
{
    int64_t bytes = t->k * dtype_bytes(t->windows.w[i]->dtype);
    return !t->g->target->avx512 && !t->in_order && bytes == LINE && t->n % LINES_OF_PIECE == 0;
}

/* Asks for `each` lines beside columns from `column` on: in as many iterations as a piece has lines, all
 * lines of the next pieces of all columns are asked for, one column after the other. Behind the end of the
 * tensor's rows the next ones are those of the next window. */
static void fetch_pieces(Thin *t, int i, LLVMValueRef column, int each)
{
    Gen *g = t->g;
    const Window *w = t->windows.w[i];
    LLVMValueRef stride = thin_stride(w), lines = gen_int(g, LINES_OF_PIECE);
    int axis = w->axis[stride == w->stride[0]], element = dtype_bytes(w->dtype);
    LLVMValueRef end = gen_imul(g, memory_extent(g, w->m.param, axis), element);
    LLVMValueRef at = gen_imul(g, gen_scalar_i64(g, w->m.idx[axis]), element);
    LLVMValueRef in = LLVMBuildURem(g->b, at, gen_int(g, PIECE), "");
    LLVMValueRef piece = LLVMBuildSub(g->b, gen_int(g, PIECE), in, ""); /* the next one, from `at` */
    LLVMValueRef other = LLVMBuildSub(g->b, gen_imul(g, stride, t->n), end, "");
    LLVMValueRef within = icmp(g, LLVMIntSLT, gen_iadd(g, at, piece), end);
    piece = gen_iadd(g, piece, LLVMBuildSelect(g->b, within, gen_int(g, 0), other, ""));
    LLVMValueRef first = LLVMBuildUDiv(g->b, gen_imul(g, in, t->n), gen_int(g, PIECE), "");
    LLVMValueRef of = gen_iadd(g, first, LLVMBuildUDiv(g->b, column, lines, ""));
    LLVMValueRef line = gen_imul(g, LLVMBuildURem(g->b, column, lines, ""), LINE);
    LLVMValueRef to = gen_ptr(g, thin_place(t, w, gen_int(g, 0), of), gen_iadd(g, piece, line));
    for (int c = 0; c < each; c++, to = gen_ptr(g, to, gen_int(g, LINE))) {
        if (c > 0 && c % LINES_OF_PIECE == 0)
            to = gen_ptr(g, to, LLVMBuildSub(g->b, stride, gen_int(g, PIECE), ""));
        memory_prefetch(g, to, w->locality);
    }
}

/* Asks for the lines that come BYTES_AHEAD later than `width` elements of some columns: for its part of them,
 * where there are several groups of rows. */
void thin_fetch_lines(Thin *t, LLVMValueRef k, LLVMValueRef column, int columns, int width)
{
    Gen *g = t->g;
    int groups = (int)(t->m / t->rows), each = (columns + groups - 1) / groups;
    LLVMValueRef first =
        LLVMBuildUDiv(g->b, gen_imul(g, t->row, columns), gen_int(g, (int64_t)t->rows * groups), "");
    for (int i = 0; t->whole && !t->fetched && i < t->windows.n; i++) {
        const Window *w = t->windows.w[i];
        if (!thin_fetches(t, i)) continue;
        if (in_pieces(t, i)) {
            fetch_pieces(t, i, gen_iadd(g, column, first), each);
            continue;
        }
        LLVMValueRef ahead = ahead_of(t, i, k, column, columns);
        for (int c = 0; c < each; c++) {
            LLVMValueRef at = thin_place(t, w, k, gen_iadd(g, column, gen_iadd(g, first, gen_int(g, c))));
            for (int line = 0; line < width * dtype_bytes(w->dtype); line += LINE)
                memory_prefetch(g, gen_ptr(g, gen_ptr(g, at, ahead), gen_int(g, line)), w->locality);
        }
    }
}

/* Sums of pairs take two registers for each sum. LLVM would load the rows of the packed operand once for all
 * columns and keep them, for which AVX2 has no registers left: their loads stay where they are, as those of
 * tables do (is_ordered in thin_tables.c). */
static void dot_step(Thin *t, LLVMValueRef k, int width, LLVMValueRef column, int columns, LLVMValueRef *acc)
{
    Gen *g = t->g;
    int vector = t->lanes * mma_group(t->as);
    for (int c = 0; c < columns; c++) {
        LLVMValueRef x = thin_elements(t, k, gen_iadd(g, column, gen_int(g, c)), 0, width);
        x = convert(g, t->as, t->from, x);
        if (t->inverts) x = LLVMBuildXor(g->b, x, gen_splat(g, LLVMConstInt(g->i8, 0x80, false), width), "");
        for (int at = 0; at < width; at += vector)
            for (int r = 0; r < t->rows; r++) {
                LLVMValueRef from = thin_a_at(t, r, gen_iadd(g, k, gen_int(g, at)));
                LLVMValueRef a = gen_load(g, t->as, vector, from), b = part(g, x, at, vector, vector);
                LLVMSetVolatile(a, t->pairs && t->rows > 1);
                LLVMValueRef *to = &acc[c * t->rows + r];
                *to = t->pairs ? thin_add_pairs(t, &t->waiting[c * t->rows + r], *to, a, b)
                               : thin_multiply_add(t, *to, a, b);
            }
    }
}

/* Where the sums of a column and a row stay in lanes. */
static LLVMValueRef lanes_at(Thin *t, LLVMValueRef column, int c, int r)
{
    Gen *g = t->g;
    LLVMValueRef at = gen_iadd(g, gen_imul(g, gen_iadd(g, column, gen_int(g, c)), t->m), t->row);
    at = gen_iadd(g, at, gen_int(g, r));
    return LLVMBuildGEP2(g->b, t->vec, t->s->lanes, &at, 1, "");
}

/* What the sums of `columns` columns from `column` on begin with. */
void thin_load_lanes(Thin *t, LLVMValueRef column, int columns, LLVMValueRef *acc)
{
    Gen *g = t->g;
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < t->rows; r++) {
            LLVMValueRef *x = &acc[c * t->rows + r];
            if (t->s->lanes) *x = LLVMBuildLoad2(g->b, t->vec, lanes_at(t, column, c, r), "");
            else *x = t->inverts ? LLVMBuildNeg(g->b, thin_offset_of(t, r), "") : LLVMConstNull(t->vec);
        }
}

void thin_store_lanes(Thin *t, LLVMValueRef column, int columns, const LLVMValueRef *acc)
{
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < t->rows; r++)
            LLVMBuildStore(t->g->b, acc[c * t->rows + r], lanes_at(t, column, c, r));
}

void thin_take_lanes(Thin *t, LLVMValueRef column, int columns)
{
    LLVMValueRef acc[MAX_SUMS];
    thin_load_lanes(t, column, columns, acc);
    put_all(t, column, columns, acc);
}

/* Adds the products of `width` elements from k on of some columns. */
static void add_step(Thin *t, LLVMValueRef k, int width, LLVMValueRef column, int columns, const Table *table,
    LLVMValueRef *acc)
{
    if (t->index) thin_table_step(t, k, column, columns, table, acc);
    else dot_step(t, k, width, column, columns, acc);
}

static void tables_of(Thin *t, LLVMValueRef column, int columns, Table *table)
{
    for (int c = 0; t->index && c < columns; c++)
        table[c] = thin_table(t, gen_iadd(t->g, column, gen_int(t->g, c)));
}

void thin_add_dots(Thin *t, LLVMValueRef column, int columns, LLVMValueRef *acc)
{
    Gen *g = t->g;
    LLVMValueRef phi[MAX_SUMS], first[MAX_SUMS];
    Table table[MAX_SUMS], next[MAX_SUMS];
    Loop l;
    int n = columns * t->rows, width = dot_width(t);
    Waiting waiting[MAX_SUMS] = { { NULL, 0 } };
    t->waiting = waiting;
    tables_of(t, column, columns, table);
    if (t->with) {
        t->with->row = t->row;
        t->with->waiting = waiting;
        tables_of(t->with, column, columns, next);
    }
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, t->k), width);
    for (int c = 0; c < n; c++) {
        first[c] = acc[c];
        acc[c] = phi[c] = LLVMBuildPhi(g->b, t->vec, "");
        LLVMAddIncoming(phi[c], &first[c], &l.before, 1);
    }
    thin_fetch_lines(t, k, column, columns, width);
    add_step(t, k, width, column, columns, table, acc);
    if (t->with) add_step(t->with, k, width, column, columns, next, acc);
    for (int c = 0; t->pairs && c < n; c++) acc[c] = thin_add_waiting(t, &waiting[c], acc[c]);
    LLVMBasicBlockRef latch = gen_here(g);
    for (int c = 0; c < n; c++) LLVMAddIncoming(phi[c], &acc[c], &latch, 1);
    gen_loop_end(g, &l);
}

/* Adds the products of one column after the other: two products, whose windows are one step deep, would
 * otherwise keep the sums of pairs of all columns. */
static void one_by_one(Thin *t, LLVMValueRef column, int columns, LLVMValueRef *acc)
{
    thin_fetch_lines(t, gen_int(t->g, 0), column, columns, dot_width(t));
    t->fetched = true;
    for (int c = 0; c < columns; c++)
        thin_add_dots(t, gen_iadd(t->g, column, gen_int(t->g, c)), 1, acc + c * t->rows);
    t->fetched = false;
}

/* The sums of `columns` columns from `column` on, of some rows. */
static void dot_rows(Thin *t, LLVMValueRef column, int columns)
{
    LLVMValueRef acc[MAX_SUMS];
    thin_load_lanes(t, column, columns, acc);
    if (t->pairs && t->with && t->whole && dot_width(t) == t->k) one_by_one(t, column, columns, acc);
    else thin_add_dots(t, column, columns, acc);
    if (t->s->lanes) thin_store_lanes(t, column, columns, acc);
    else put_all(t, column, columns, acc);
}

/* As many columns as a vector has lanes, one after the other. Of four rows at a time the sums of their lanes
 * become vectors along the columns. */
static void dot_block(Thin *t, LLVMValueRef column)
{
    Gen *g = t->g;
    LLVMValueRef acc[MAX_SUMS], of[2][MAX_SUMS / ROWS_OF_BLOCK], v[MAX_SUMS];
    int width = dot_width(t), groups = t->rows / ROWS_OF_BLOCK;
    if (width == t->k) thin_fetch_lines(t, gen_int(g, 0), column, t->lanes, width);
    t->fetched = width == t->k;
    for (int c = 0; c < ROWS_OF_BLOCK; c++) {
        for (int h = 0; h < 2; h++) {
            LLVMValueRef at = gen_iadd(g, column, gen_int(g, c + h * ROWS_OF_BLOCK));
            thin_load_lanes(t, at, 1, acc);
            thin_add_dots(t, at, 1, acc);
            for (int k = 0; k < groups; k++) of[h][k] = thin_sums_within(t, acc + k * ROWS_OF_BLOCK);
        }
        for (int k = 0; k < groups; k++)
            v[k * ROWS_OF_BLOCK + c] = thin_add_halves(t, of[0][k], of[1][k], t->lanes);
    }
    t->fetched = false;
    for (int k = 0; k < groups; k++) thin_transpose_sums(t, v + k * ROWS_OF_BLOCK);
    for (int r = 0; r < t->rows; r++) {
        LLVMValueRef x = v[r];
        if (t->s->acc)
            x = thin_add(t, gen_load(g, t->s->buf->dtype, t->lanes, thin_sum_at(t, t->s->acc, r, column)), x);
        gen_store(g, t->s->buf->dtype, x, thin_sum_at(t, t->s->buf, r, column));
    }
}

static void dot(Thin *t, LLVMValueRef column, int columns, bool block)
{
    Loop l;
    t->row = gen_loop(t->g, &l, gen_int(t->g, 0), gen_int(t->g, t->m), t->rows);
    if (block) dot_block(t, column);
    else dot_rows(t, column, columns);
    gen_loop_end(t->g, &l);
}

int thin_columns(const Thin *t)
{
    int columns = t->whole ? MOST_COLUMNS : 1;
    int tables = thin_table_parts(t), room = t->g->target->n_vector_regs - OF_LOOKUPS;
    while (columns * t->rows > most_sums(t->g->target) || columns > t->n ||
           (columns > 1 && tables && columns * (tables + t->rows) > room))
        columns /= 2;
    return columns;
}

/* Whether columns are multiplied in blocks of as many as a vector has lanes: sums of integers, which are
 * wanted along the columns. */
static bool in_blocks(const Thin *t)
{
    bool vectors =
        t->g->target->vector_bytes == HALVES && !dtype_is_float(t->as) && t->lanes == 2 * ROWS_OF_BLOCK;
    return vectors && t->whole && t->s->thin == THIN_DOTS && t->rows % ROWS_OF_BLOCK == 0 && t->n >= t->lanes;
}

void thin_dots(Thin *t)
{
    Gen *g = t->g;
    for (int i = 0; t->whole && i < t->windows.n; i++)
        if (thin_fetches(t, i)) t->windows.w[i]->ahead = NULL;
    for (int i = 0; t->with && t->whole && i < t->with->windows.n; i++)
        if (thin_fetches(t->with, i)) t->with->windows.w[i]->ahead = NULL;
    Loop l;
    if (thin_by_words(t)) {
        thin_words(t, gen_loop(g, &l, gen_int(g, 0), gen_int(g, t->n), t->lanes));
        gen_loop_end(g, &l);
        return;
    }
    bool block = in_blocks(t);
    int columns = block ? t->lanes : thin_columns(t);
    int64_t done = t->n / columns * columns;
    dot(t, gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), columns), columns, block);
    gen_loop_end(g, &l);
    for (; done < t->n; done++) dot(t, gen_int(g, done), 1, false);
}

/* Where element k of a packed column lies: for tables, in the order of their vectors. */
static LLVMValueRef packed_place(const Thin *t, LLVMValueRef k)
{
    Gen *g = t->g;
    LLVMValueRef places[MOST_LOOKED_UP], most = gen_int(g, thin_looked_up(t));
    int n = thin_table_vectors(t), lanes = thin_looked_up(t) / n;
    if (!t->index) return k;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < lanes; i++)
            places[thin_table_element(t, j, i)] = LLVMConstInt(g->i64, (uint64_t)(j * lanes + i), false);
    LLVMValueRef in = LLVMBuildURem(g->b, k, most, ""), all = LLVMConstVector(places, (unsigned)(n * lanes));
    return gen_iadd(g, LLVMBuildSub(g->b, k, in, ""), LLVMBuildExtractElement(g->b, all, in, ""));
}

/* Stores elements k and on of a packed column. */
static void put_packed(Thin *t, LLVMValueRef row, LLVMValueRef k, LLVMValueRef x)
{
    Gen *g = t->g;
    Buf *to = t->s->b;
    int width = gen_lanes(x), bytes = dtype_bytes(to->dtype), mask[MOST_LOOKED_UP];
    LLVMValueRef first = gen_imul(g, row, to->ld), at = width == 1 ? packed_place(t, k) : k;
    LLVMValueRef ptr = gen_ptr(g, gen_buf(g, to, 0), gen_imul(g, gen_iadd(g, first, at), bytes));
    if (!t->index || width == 1) {
        gen_store(g, to->dtype, x, ptr);
        return;
    }
    int n = thin_table_vectors(t), lanes = width / n;
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < lanes; i++) mask[i] = thin_table_element(t, j, i);
        gen_store(
            g, to->dtype, gen_shuffle(g, x, x, mask, lanes), gen_ptr(g, ptr, gen_int(g, j * lanes * bytes)));
    }
}

void thin_columns_as_rows(Thin *t)
{
    Gen *g = t->g;
    Buf *to = t->s->b;
    Value *v = ir_operand(t->s->instr, 1);
    Loop columns, along;
    LLVMValueRef coord[TILE_MAX_RANK];
    int width = plan_natural_axis(g->plan, v) != 0 ? 1
                : t->index                         ? thin_looked_up(t)
                                                   : t->lanes * mma_group(t->as);
    coord[1] = gen_loop(g, &columns, gen_int(g, 0), gen_int(g, t->m), 1);
    coord[0] = gen_loop(g, &along, gen_int(g, 0), gen_int(g, t->k), width);
    Eval e;
    eval_init(&e, g, width);
    put_packed(t, coord[1], coord[0], convert(g, to->dtype, v->type->dtype, nest_eval(&e, v, coord, 0)));
    gen_loop_end(g, &along);
    gen_loop_end(g, &columns);
}
