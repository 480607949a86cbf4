/* emit_row_gaps.c: several rows with gaps between them, from shared memory to memory by aligned vectors of 16
 * bytes (passes/kernel/layout/row_block.c).
 *
 *     shared:   |...aaaa|aaaaaaaa|a.......|                rows begin an odd number of vectors apart, as far
 *               |...bbbbb|bbbbbbbb|....                    behind a vector as in memory
 *     memory:   |...aaaa|aaaaaaaa|a..bbbbb|bbbbbbbb|....   a lane has a vector of a row
 *
 * Vectors that lie wholly in a row are stored as such. What is left at both ends of each row goes by element,
 * that of several rows in one access of a warp. */
#include "backends/gpu/memory/emit_row_block.h"

enum { VECTOR = 16 };

/* How the threads of a program share its rows. */
typedef struct RowShares {
    int lanes, steps;  /* threads of a row; vectors of each of them in a row */
    int rows, vectors; /* at once; vectors of a thread in all */
} RowShares;

static int row_bytes(const RowBlock *b) { return (int)b->row * b->bytes; }

int row_gaps_pitch(const RowBlock *b)
{
    int vectors = (row_bytes(b) + 2 * (VECTOR - 1)) / VECTOR;
    return (vectors | 1) * VECTOR;
}

/* As many lanes for a row, a power of two, as leave each thread the fewest vectors. */
static RowShares shares_of(const RowBlock *b)
{
    RowShares best = { 0 };
    int threads = b->e->threads, vectors = (row_bytes(b) + 2 * (VECTOR - 1)) / VECTOR;
    for (int lanes = 1; lanes <= threads && threads % lanes == 0; lanes *= 2) {
        RowShares t = { lanes, (vectors + lanes - 1) / lanes, threads / lanes, 0 };
        t.vectors = t.steps * ((b->n + t.rows - 1) / t.rows);
        if (!best.vectors || t.vectors <= best.vectors) best = t;
    }
    return best;
}

void row_gaps_begin(RowBlock *b)
{
    Emit *e = b->e;
    b->begin = tmp(e, "begin");
    b->between = tmp(e, "between");
    line(e, "const u32 %s = (u32)(u64)%s, %s = (u32)%s * %d;", b->begin, b->ptr, b->between, b->stride,
        b->bytes);
}

/* How far behind a multiple of 16 bytes the row begins. */
static const char *lead(const RowBlock *b, const char *row)
{ return str(b->e, "(%s + (u32)(%s) * %s & 15)", b->begin, row, b->between); }

const char *row_gaps_place(const RowBlock *b, const char *row, const char *column)
{
    return str(b->e, "%s + (u32)(%s) * %d + %s + (u32)(%s) * %d", b->shared, row, row_gaps_pitch(b),
        lead(b, row), column, b->bytes);
}

/* The distance of row k from the first one, in elements. */
static const char *row_offset(const RowBlock *b)
{ return str(b->e, b->e->f->fits32 ? "k * (i32)%s" : "(i64)k * %s", b->stride); }

/* Stores the elements at the ends of rows that share a vector with a gap: a lane for each of those that may
 * be before the first and behind the last whole vector, so that one access of a warp has those of several
 * rows. */
static void store_ends(const RowBlock *b)
{
    Emit *e = b->e;
    int each = VECTOR / b->bytes, lanes = 2 * each, at_once = e->threads / lanes;
    const char *get = use(e, str(e, "lds_%s", dtype_name(b->bits))), *type = pointee(b->bits);
    begin_unrolled(e, "r", (b->n + at_once - 1) / at_once);
    line(e, "const i32 k = tid / %d + r * %d, x = tid %% %d;", lanes, at_once, each);
    line(e, "const i32 lead = (i32)%s / %d, end = (lead + %lld) %% %d;", lead(b, "k"), b->bytes,
        (long long)b->row, each);
    line(e, "const bool last = tid %% %d >= %d;", lanes, each);
    const char *in =
        str(e, "k < %s && (last ? x < end : lead && x >= lead)", b->rows ? b->rows : str(e, "%d", b->n));
    if (b->before) in = str(e, "%s && %s + k >= 0", in, b->before);
    line(e, "const i32 j = (last ? %lld - end : -lead) + x;", (long long)b->row);
    line(e, "if (%s) %s((%s *)(%s + %s + j), %s(%s));", in, use(e, str(e, "stg_%s", dtype_name(b->bits))),
        type, b->ptr, row_offset(b), get, row_gaps_place(b, "k", "j"));
    end_block(e);
}

/* Stores the vectors that lie wholly in their rows. `k` is the row; `from`, the byte of the thread's first
 * vector of it behind the multiple of 16 at or before its begin; `at`, the same behind the begin. */
static void store_vectors(const RowBlock *b)
{
    Emit *e = b->e;
    RowShares t = shares_of(b);
    const char *store = str(e, "stg%s_b128", window_hint(e, b->w, ACCESS_VECTOR)), *in = "";
    int rows = t.vectors / t.steps;
    if (rows * t.rows > b->n || b->rows) in = str(e, "k < %s && ", b->rows ? b->rows : str(e, "%d", b->n));
    if (b->before) in = str(e, "%s%s + k >= 0 && ", in, b->before);
    begin_unrolled(e, "r", rows);
    line(e, "const i32 k = tid / %d + r * %d, from = tid %% %d * 16, at = from - (i32)%s;", t.lanes, t.rows,
        t.lanes, lead(b, "k"));
    line(e, "const u32 here = %s + k * %d + from;", b->shared, row_gaps_pitch(b));
    line(e, "u8 *const row = (u8 *)(%s + %s) + at;", b->ptr, row_offset(b));
    for (int v = 0; v < t.steps; v++) {
        int behind = v * t.lanes * VECTOR;
        line(e, "if (%s%sat <= %d) {", in, v ? "" : "at >= 0 && ", row_bytes(b) - VECTOR - behind);
        e->indent++;
        line(e, "u32 words[4];");
        line(e, "%s(words, here + %d);", use(e, "lds_b128"), behind);
        line(e, "%s(row + %d, words);", use(e, store), behind);
        end_block(e);
    }
    end_block(e);
}

void row_gaps_store(const RowBlock *b)
{
    store_vectors(b);
    store_ends(b);
}
