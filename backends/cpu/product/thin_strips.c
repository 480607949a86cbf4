/* thin_strips.c: products of few rows in strips of columns: k runs down, and each element of a row of A is
 * multiplied by vectors of a row of B, or of a group of rows.
 *
 * Of one to four rows of A, a vector of B is used where it is loaded. Of more, some rows of B are staged:
 * converted, and interleaved if a group has several, in the order of memory, into a part of the first cache,
 * from where all rows of A read them. Memory works while they are multiplied: each step asks for as many
 * lines of later rows as it uses. */
#include "backends/cpu/product/thin.h"
#include "backends/cpu/plan/plan.h"

enum {
    ROWS_AT_ONCE = 4,    /* of B, before the sums are moved, */
    HALVES_AT_ONCE = 16, /* and where these are in halves, unless rows meet: */
    MEETING = 2048,      /* bytes, half of a way of the first cache, of which rows are a multiple apart */
    MOST_PARTS = 4,      /* vectors of a row of B at once, where there are 32 registers */
    PART_OF_FIRST = 4,   /* of the first cache that rows of B are staged in */
    SPAN_BYTES = 512     /* of a row of B */
};

/* Rows k and on of B, as many as a group has, `t->lanes` columns from `column` on: the elements of each
 * column side by side. */
static LLVMValueRef group_of_rows(Thin *t, LLVMValueRef k, LLVMValueRef column)
{
    Gen *g = t->g;
    int group = mma_group(t->as), mask[64];
    LLVMValueRef row[4];
    for (int r = 0; r < group; r++)
        row[r] = thin_elements(t, gen_iadd(g, k, gen_int(g, r)), column, 1, t->lanes);
    for (int n = group, width = t->lanes; n > 1; n /= 2, width *= 2)
        for (int r = 0; r < n / 2; r++) {
            for (int j = 0; j < 2 * width; j++) mask[j] = j;
            row[r] = gen_shuffle(g, row[2 * r], row[2 * r + 1], mask, 2 * width);
        }
    for (int j = 0; j < group * t->lanes; j++) mask[j] = j % group * t->lanes + j / group;
    if (group > 1) row[0] = gen_shuffle(g, row[0], row[0], mask, group * t->lanes);
    return thin_invert(t, convert(g, t->as, t->from, row[0]));
}

/* The sums of some rows of A and of a strip: acc[row * parts + part], `together` parts of which are computed
 * from the same registers (thin_halves.c; 1: each by itself). */
typedef struct Sums {
    int parts, n, together;
    LLVMValueRef acc[MAX_SUMS], at[MAX_SUMS];
} Sums;

/* A strip's vectors of row k, or of the rows of a group. */
static void strip_vectors(Thin *t, LLVMValueRef k, LLVMValueRef column, const Sums *x, LLVMValueRef *b)
{
    Gen *g = t->g;
    for (int v = 0; v < x->parts; v += x->together) {
        LLVMValueRef at = gen_iadd(g, column, gen_int(g, v * t->lanes));
        thin_fetch(t, v * t->lanes * dtype_bytes(t->from) % LINE == 0);
        if (x->together > 1) thin_vectors_of_halves(t, k, at, b + v);
        else b[v] = group_of_rows(t, k, at);
    }
    thin_fetch(t, true);
}

/* --- sums -------------------------------------------------------------------------------------------- */

/* `from`: where the sums so far are. */
static void take_sums(Thin *t, Sums *x, LLVMValueRef from, LLVMValueRef column, int width)
{
    Gen *g = t->g;
    const Buf *to = t->s->buf;
    LLVMValueRef first = gen_iadd(g, gen_imul(g, t->row, t->n), column);
    x->parts = width / t->lanes;
    x->n = x->parts * t->rows;
    x->together = x->parts % thin_halves(t) ? 1 : thin_halves(t);
    for (int c = 0; c < x->n; c++) {
        int part = c % x->parts, of = part % x->together; /* of those that are computed together */
        int64_t in = c / x->parts * t->n + (part - of) * t->lanes + of * t->lanes / (x->together > 1 ? 2 : 1);
        x->at[c] = gen_imul(g, gen_iadd(g, first, gen_int(g, in)), dtype_bytes(to->dtype));
        LLVMValueRef at = gen_ptr(g, from, x->at[c]);
        x->acc[c] =
            x->together > 1 ? thin_load_halves(t, at, x->together) : gen_load(g, to->dtype, t->lanes, at);
    }
}

static void put_sums(Thin *t, const Sums *x)
{
    Gen *g = t->g;
    const Buf *to = t->s->buf;
    for (int c = 0; c < x->n; c++) {
        LLVMValueRef at = gen_ptr(g, gen_buf(g, to, 0), x->at[c]);
        if (x->together > 1) thin_store_halves(t, x->acc[c], at, x->together);
        else gen_store(g, to->dtype, x->acc[c], at);
    }
}

/* Adds the products of row k of B, or of the rows of a group, whose vectors are b. */
static void multiply_row(Thin *t, LLVMValueRef k, const LLVMValueRef *b, Sums *x)
{
    Gen *g = t->g;
    LLVMTypeRef one = mma_group(t->as) > 1 ? g->i32 : gen_type(g, t->as, 1);
    for (int r = 0; r < t->rows; r++) {
        LLVMValueRef a = LLVMBuildLoad2(g->b, one, thin_a_at(t, r, k), "");
        LLVMSetAlignment(a, (unsigned)dtype_bytes(t->s->a->dtype));
        a = gen_splat(g, a, t->lanes);
        for (int v = 0; v < x->parts; v++) {
            LLVMValueRef *acc = &x->acc[r * x->parts + v];
            *acc = thin_multiply_add(t, *acc, a, b[v]);
        }
    }
}

/* The sums so far, less the offsets. */
void thin_take_offsets(Thin *t)
{
    Gen *g = t->g;
    const Buf *to = t->s->buf;
    Loop rows, columns;
    t->row = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->m), 1);
    LLVMValueRef less = thin_offset_of(t, 0),
                 c = gen_loop(g, &columns, gen_int(g, 0), gen_int(g, t->n), t->lanes);
    LLVMValueRef old =
        t->s->acc ? gen_load(g, to->dtype, t->lanes, thin_sum_at(t, t->s->acc, 0, c)) : LLVMConstNull(t->vec);
    gen_store(g, to->dtype, LLVMBuildSub(g->b, old, less, ""), thin_sum_at(t, to, 0, c));
    gen_loop_end(g, &columns);
    gen_loop_end(g, &rows);
}

/* --- staged rows ------------------------------------------------------------------------------------- */

static bool stages(const Thin *t) { return t->m > t->rows; }

/* The columns of a window that are read from its first row to its last before the next ones are. Staged rows
 * are read by SPAN_BYTES. Others by two strips, where the registers hold MOST_PARTS vectors of each row: a
 * load that moves along a row three times makes the processor fetch what lies beyond the end of the window
 * (bench/notes/cpu_zen4.md, "Products of few rows on Zen 4"). */
int64_t thin_span(const Thin *t)
{
    int64_t span = most_sums(t->g->target) == MAX_SUMS ? 2 * MOST_PARTS * t->lanes : t->n;
    if (stages(t)) span = SPAN_BYTES / dtype_bytes(t->from);
    return span < t->n ? span : t->n;
}

/* Vector `column` / lanes of the group of staged rows that begins with row d. */
static LLVMValueRef staged(Thin *t, LLVMValueRef d, LLVMValueRef column)
{
    Gen *g = t->g;
    int rows = mma_group(t->as), bytes = rows * dtype_bytes(t->as); /* of a column of the group */
    LLVMValueRef group = LLVMBuildUDiv(g->b, d, gen_int(g, rows), "");
    return gen_ptr(g, t->stage, gen_imul(g, gen_iadd(g, gen_imul(g, group, thin_span(t)), column), bytes));
}

/* Stages columns from c on of the span that begins at `column`, of the group of rows that begins with row d:
 * as many as fill vectors of each row. */
static void stage_piece(Thin *t, LLVMValueRef k, LLVMValueRef d, LLVMValueRef column, LLVMValueRef c)
{
    Gen *g = t->g;
    int group = mma_group(t->as), width = group * t->lanes;
    LLVMValueRef x[MAX_GROUP], row = gen_iadd(g, k, d), from = gen_iadd(g, column, c);
    for (int r = 0; r < group; r++)
        x[r] = convert(g, t->as, t->from, thin_elements(t, gen_iadd(g, row, gen_int(g, r)), from, 1, width));
    if (group > 1) mma_interleave(g, x, group);
    for (int r = 0; r < group; r++) {
        LLVMValueRef v = x[r];
        if (t->inverts) v = thin_invert(t, LLVMBuildBitCast(g->b, v, gen_vec(g->i8, group * t->lanes), ""));
        LLVMBuildStore(g->b, v, staged(t, d, gen_iadd(g, c, gen_int(g, r * t->lanes))));
    }
}

static void stage(Thin *t, LLVMValueRef k, int deep, LLVMValueRef column, int64_t columns)
{
    Gen *g = t->g;
    Loop rows;
    int group = mma_group(t->as), piece = group * t->lanes;
    LLVMValueRef d = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, deep), group);
    for (int64_t c = 0; c < columns;) {
        LLVMValueRef at = gen_int(g, c);
        int width = columns - c < piece ? t->lanes : piece;
        if (width == piece) stage_piece(t, k, d, column, at);
        else
            LLVMBuildStore(
                g->b, group_of_rows(t, gen_iadd(g, k, d), gen_iadd(g, column, at)), staged(t, d, at));
        c += width;
    }
    gen_loop_end(g, &rows);
}

/* Asks for the lines that the rows which come `ahead` later have in place of row k's, or of those of its
 * group, in a strip: for its part of them, where there are several groups of rows of A. */
static void fetch_lines(Thin *t, LLVMValueRef k, LLVMValueRef column, int width)
{
    Gen *g = t->g;
    int group = mma_group(t->as), groups = (int)(t->m / t->rows);
    for (int i = 0; i < t->windows.n; i++) {
        const Window *w = t->windows.w[i];
        if (!thin_fetches(t, i)) continue;
        int64_t bytes = (int64_t)width * dtype_bytes(w->dtype), of_row = bytes < LINE ? 1 : bytes / LINE;
        int64_t lines = group * of_row, each = (lines + groups - 1) / groups;
        LLVMValueRef first =
            LLVMBuildUDiv(g->b, gen_imul(g, t->row, lines), gen_int(g, (int64_t)t->rows * groups), "");
        for (int64_t l = 0; l < each; l++) {
            LLVMValueRef line = gen_iadd(g, first, gen_int(g, l)), per = gen_int(g, group);
            LLVMValueRef row = gen_iadd(g, k, LLVMBuildURem(g->b, line, per, ""));
            LLVMValueRef in = gen_imul(g, LLVMBuildUDiv(g->b, line, per, ""), LINE);
            LLVMValueRef at = gen_ptr(g, thin_place(t, w, row, column), in);
            memory_prefetch(g, gen_ptr(g, at, t->windows.ahead[i]), w->locality);
        }
    }
}

/* Adds the products of `deep` staged rows of B, the first of which is row k, to the sums of a strip that
 * begins at column c of the span. */
static void staged_rows(
    Thin *t, LLVMValueRef from, LLVMValueRef k, int deep, LLVMValueRef column, LLVMValueRef c, int width)
{
    Gen *g = t->g;
    Sums x;
    Loop l;
    LLVMValueRef phi[MAX_SUMS], first[MAX_SUMS], b[MAX_SUMS], start = gen_iadd(g, column, c);
    LLVMTypeRef type = gen_type(g, t->as, mma_group(t->as) * t->lanes);
    take_sums(t, &x, from, start, width);
    LLVMValueRef d = gen_loop(g, &l, gen_int(g, 0), gen_int(g, deep), mma_group(t->as));
    for (int i = 0; i < x.n; i++) {
        first[i] = x.acc[i];
        x.acc[i] = phi[i] = LLVMBuildPhi(g->b, t->vec, "");
        LLVMAddIncoming(phi[i], &first[i], &l.before, 1);
    }
    fetch_lines(t, gen_iadd(g, k, d), start, width);
    for (int v = 0; v < x.parts; v++)
        b[v] = LLVMBuildLoad2(g->b, type, staged(t, d, gen_iadd(g, c, gen_int(g, v * t->lanes))), "");
    multiply_row(t, gen_iadd(g, k, d), b, &x);
    LLVMBasicBlockRef latch = gen_here(g);
    for (int i = 0; i < x.n; i++) LLVMAddIncoming(phi[i], &x.acc[i], &latch, 1);
    gen_loop_end(g, &l);
    put_sums(t, &x);
}

/* As many rows as fit their part of the first cache. */
static int stage_depth(const Thin *t)
{
    int deep = mma_group(t->as);
    int64_t row = thin_span(t) * dtype_bytes(t->as);
    while (t->k % (2 * deep) == 0 && 2 * deep * row <= t->g->target->first_cache / PART_OF_FIRST) deep *= 2;
    return deep;
}

/* --- strips ------------------------------------------------------------------------------------------ */

/* Adds the products of `deep` rows of B from row k on to the sums of `width` columns, a whole number of
 * vectors, from column c of the span on. `from`: where the sums so far are. */
static void strip(
    Thin *t, LLVMValueRef from, LLVMValueRef k, int deep, LLVMValueRef column, LLVMValueRef c, int width)
{
    Gen *g = t->g;
    Sums x;
    Loop l;
    LLVMValueRef b[MAX_SUMS], start = gen_iadd(g, column, c);
    t->row = gen_loop(g, &l, gen_int(g, 0), gen_int(g, t->m), t->rows);
    if (t->stage) {
        staged_rows(t, from, k, deep, column, c, width);
    } else {
        take_sums(t, &x, from, start, width);
        for (int d = 0; d < deep; d += mma_group(t->as)) {
            LLVMValueRef row = gen_iadd(g, k, gen_int(g, d));
            strip_vectors(t, row, start, &x, b);
            multiply_row(t, row, b, &x);
        }
        put_sums(t, &x);
    }
    gen_loop_end(g, &l);
}

static int strip_parts(const Thin *t)
{
    int most = most_sums(t->g->target), parts = t->whole ? most : 1, bytes = t->lanes * dtype_bytes(t->from);
    while (
        parts * t->rows > most || (parts * bytes > BYTES_AT_ONCE && (most < MAX_SUMS || parts > MOST_PARTS)))
        parts /= 2;
    return parts;
}

/* All strips of the rows from k on of a span. */
static void strips_of_span(
    Thin *t, LLVMValueRef from, LLVMValueRef k, int deep, LLVMValueRef column, int64_t columns)
{
    Gen *g = t->g;
    int width = strip_parts(t) * t->lanes;
    int64_t done = columns / width * width;
    Loop l;
    if (done) {
        LLVMValueRef c = gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), width);
        strip(t, from, k, deep, column, c, width);
        gen_loop_end(g, &l);
    }
    for (; width >= t->lanes; width /= 2)
        for (; columns - done >= width; done += width)
            strip(t, from, k, deep, column, gen_int(g, done), width);
}

/* Some rows of B at a time, from one end of the window to the other, `columns` columns from `column` on:
 * memory is read in the order in which it lies, and few rows are in the caches at once, which are in the same
 * sets where rows are a power of two apart. */
static void span(Thin *t, LLVMValueRef column, int64_t columns, int deep)
{
    Gen *g = t->g;
    const Step *s = t->s;
    Loop rows;
    LLVMValueRef buf = gen_buf(g, s->buf, 0);
    LLVMValueRef k = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->k), deep), from = buf;
    if (s->acc && (!t->inverts || s->lanes))
        from = LLVMBuildSelect(
            g->b, LLVMBuildICmp(g->b, LLVMIntEQ, k, gen_int(g, 0), ""), gen_buf(g, s->acc, 0), buf, "");
    if (t->stage) {
        for (int i = 0; i < t->windows.n; i++)
            if (thin_fetches(t, i)) t->windows.w[i]->ahead = NULL;
        stage(t, k, deep, column, columns);
        thin_fetch(t, true);
    }
    strips_of_span(t, from, k, deep, column, columns);
    gen_loop_end(g, &rows);
}

static void spans(Thin *t, int deep)
{
    Gen *g = t->g;
    Loop l;
    int64_t columns = thin_span(t), done = t->n / columns * columns;
    span(t, gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), columns), columns, deep);
    gen_loop_end(g, &l);
    if (done < t->n) span(t, gen_int(g, done), t->n - done, deep);
}

/* Whether the rows of a window that B is computed from meet in few sets of the first cache: what the
 * processor fetches ahead of each of many rows is then displaced by that of the others. */
static LLVMValueRef rows_meet(Thin *t)
{
    Gen *g = t->g;
    LLVMValueRef any = LLVMConstInt(g->i1, 0, false), far = gen_int(g, MEETING);
    for (int i = 0; i < t->windows.n; i++) {
        if (!thin_fetches(t, i)) continue;
        LLVMValueRef rest = LLVMBuildURem(g->b, thin_stride(t->windows.w[i]), far, "");
        any = LLVMBuildOr(g->b, any, icmp(g, LLVMIntEQ, rest, gen_int(g, 0)), "");
    }
    return any;
}

/* Strips whose sums are in halves. */
static void spans_of_halves(Thin *t, int deep)
{
    If f;
    int most = HALVES_AT_ONCE;
    while (t->k % most) most /= 2;
    if (most <= deep) {
        spans(t, deep);
        return;
    }
    gen_if(t->g, &f, rows_meet(t));
    spans(t, deep);
    gen_else(t->g, &f);
    spans(t, most);
    gen_endif(t->g, &f);
}

void thin_strips(Thin *t)
{
    Gen *g = t->g;
    const Step *s = t->s;
    int deep = mma_group(t->as);
    bool halves = t->whole && !stages(t) && thin_halves(t) > 1 && strip_parts(t) % thin_halves(t) == 0;
    t->stage = NULL;
    if (t->whole && stages(t)) {
        deep = stage_depth(t);
        uint64_t vectors = (uint64_t)(deep / mma_group(t->as) * thin_span(t) / t->lanes);
        t->stage = gen_alloca(g, LLVMArrayType2(t->vec, vectors), "stage");
    } else if (t->whole) {
        deep = ROWS_AT_ONCE;
        while (t->k % deep) deep /= 2;
    }
    if (t->inverts && !s->lanes) thin_take_offsets(t);
    else if (!s->acc)
        LLVMBuildMemSet(
            g->b, gen_buf(g, s->buf, 0), LLVMConstInt(g->i8, 0, false), gen_int(g, s->buf->bytes), 64);
    if (halves) spans_of_halves(t, deep);
    else spans(t, deep);
    t->stage = NULL;
}
