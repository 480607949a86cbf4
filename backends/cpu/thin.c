/* thin.c: products of a few rows. Each element of B is multiplied so few times that packing it costs more
 * than it saves. So B is not packed: it is computed where it is multiplied, along the axis whose elements lie
 * side by side in memory. A is packed as rows, and the sums stay in registers.
 *
 *     elements side by side along N (strips)      strips of B's columns; k runs down; a row of A is broadcast
 *     elements side by side along K (dots)        some columns of B; k runs in vectors, whose lanes are added
 *                                                 at the end
 *
 * Where B has few columns the operands change places: A is computed where it is multiplied, in dots. */
#include "backends/cpu/memory.h"
#include "backends/cpu/mma.h"
#include "backends/cpu/plan.h"
#include "backends/cpu/thin.h"

enum {
    CHEAP = 6,         /* instructions for a vector of an operand */
    ROWS_AT_ONCE = 4,  /* of B, before the sums are moved, */
    STAGED_ROWS = 16,  /* and where their vectors are kept for several groups of rows of A */
    MOST_PARTS = 4,    /* vectors of a row of B at once, where there are 32 registers */
    BYTES_AHEAD = 8192 /* that memory delivers in the 200 to 300 ns until it answers, at 30 GB/s */
};

/* The units in which a thin product may run instead of the one that multiplies packed operands, best first.
 */
static int kinds_for(const CpuTarget *t, MmaKind k, MmaKind *out)
{
    int n = 0;
    if ((k == MMA_I16_PAIRS || k == MMA_I8_QUADS) && !t->arm && t->has & CPU_VNNI) out[n++] = MMA_I8_THIN;
    if (k == MMA_I8_QUADS && !t->arm) out[n++] = MMA_I16_PAIRS;
    if (k == MMA_F32 || k == MMA_F64 || k == MMA_I16_PAIRS || k == MMA_BF16_PAIRS) out[n++] = k;
    if (k == MMA_BF16_PAIRS) out[n++] = MMA_F32;
    return n;
}

/* Whether the operand is computed for this product alone, and need not be stored: each group of rows computes
 * it again. */
static bool is_virtual(Plan *p, const Instr *i, Value *v, int64_t rows)
{
    if (!v->def || v->def->block != i->block || ir_use_count(v) != 1 || plan_has_buffer(p, v)) return false;
    return rows <= (plan_cost_at(p, v) > CHEAP ? MOST_AT_ONCE : MOST_THIN_ROWS);
}

static Thinness thinness_in(Plan *p, const Instr *i, MmaKind k)
{
    Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    int64_t m = a->type->shape[0], deep = b->type->shape[0], n = b->type->shape[1];
    int64_t lanes = mma_vector_lanes(p->target, k), group = mma_group(mma_operand_type(k, b));
    bool whole_dots = deep % (lanes * group) == 0;
    if (is_virtual(p, i, b, m)) {
        if (plan_natural_axis(p, b) == 1) return n % lanes || deep % group ? THIN_NONE : THIN_STRIPS;
        return whole_dots && n >= LEAST_COLUMNS ? THIN_DOTS : THIN_NONE;
    }
    bool columns = is_virtual(p, i, a, n) && plan_natural_axis(p, a) == 1;
    return columns && whole_dots && m >= LEAST_COLUMNS ? THIN_DOTS_OF_A : THIN_NONE;
}

Thinness mma_thinness(Plan *p, const Instr *i, MmaKind *kind)
{
    MmaKind kinds[4];
    int n = kinds_for(p->target, *kind, kinds);
    for (int k = 0; k < n; k++) {
        Thinness t = thinness_in(p, i, kinds[k]);
        if (t == THIN_NONE) continue;
        /* Pairs of bf16 of several groups of rows are bound by products, and packed ones are multiplied
         * faster. */
        if (t == THIN_STRIPS && kinds[k] == MMA_BF16_PAIRS && ir_operand(i, 0)->type->shape[0] > MOST_AT_ONCE)
            return THIN_NONE;
        *kind = kinds[k];
        return t;
    }
    return THIN_NONE;
}

/* acc + dot products of four 8-bit integers each. x86 multiplies an unsigned operand by a signed one: of two
 * operands of one sign, the highest bit of each element of B is inverted, which makes i8 greater by 128 and
 * u8 smaller, and of the other sign. The sums are then off by 128 times those of A. */
static LLVMValueRef add_quads(Thin *t, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    Gen *g = t->g;
    LLVMTypeRef type = gen_vec(g->i8, 4 * t->lanes);
    bool swap = (t->from == DT_U8) != t->inverts;
    LLVMValueRef x = LLVMBuildBitCast(g->b, swap ? b : a, type, ""),
                 y = LLVMBuildBitCast(g->b, swap ? a : b, type, "");
    return gen_intrinsic(g, t->lanes == 16 ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256",
        NULL, 0, (LLVMValueRef[]){ acc, x, y }, 3);
}

static LLVMValueRef high_bits(const Thin *t)
{ return gen_splat(t->g, LLVMConstInt(t->g->i8, 0x80, false), 4 * t->lanes); }

static LLVMValueRef invert(const Thin *t, LLVMValueRef b)
{ return t->inverts ? LLVMBuildXor(t->g->b, b, high_bits(t), "") : b; }

/* acc + a b; with pairs, the elements of a vector of twice as many lanes; with groups of four, of four times.
 */
LLVMValueRef thin_multiply_add(Thin *t, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    Gen *g = t->g;
    if (t->s->mma == MMA_I8_THIN) return add_quads(t, acc, a, b);
    if (t->s->mma == MMA_BF16_PAIRS) return mma_add_bf16_pairs(g, acc, a, b);
    if (t->s->mma == MMA_I16_PAIRS) return mma_add_i16_pairs(g, acc, a, b);
    LLVMValueRef v[] = { a, b, acc };
    return gen_intrinsic(g, g->target->fma ? "llvm.fma" : "llvm.fmuladd", &t->vec, 1, v, 3);
}

/* Whether loads of B fetch what is ahead. */
static void fetch(Thin *t, bool on)
{
    for (int k = 0; k < t->windows.n; k++) t->windows.w[k]->ahead = on ? t->windows.ahead[k] : NULL;
}

/* B at (k, column), `width` elements along the axis. */
LLVMValueRef thin_elements(Thin *t, LLVMValueRef k, LLVMValueRef column, int axis, int width)
{
    Eval e;
    bool turned = t->s->thin == THIN_DOTS_OF_A;
    LLVMValueRef coord[TILE_MAX_RANK] = { turned ? column : k, turned ? k : column };
    eval_init(&e, t->g, width);
    return nest_eval(&e, t->b, coord, turned ? 1 - axis : axis);
}

/* The packed operand's elements from k on that belong to row `row` of the sums. */
LLVMValueRef thin_a_at(Thin *t, int row, LLVMValueRef k)
{
    const Buf *b = t->s->thin == THIN_DOTS_OF_A ? t->s->b : t->s->a;
    int bytes = dtype_bytes(b->dtype);
    LLVMValueRef in = gen_iadd(t->g, gen_imul(t->g, t->row, b->ld), k);
    return gen_ptr(t->g, gen_buf(t->g, b, row * b->ld * bytes), gen_imul(t->g, in, bytes));
}

LLVMValueRef thin_sum_at(Thin *t, const Buf *b, int row, LLVMValueRef column)
{
    bool turned = t->s->thin == THIN_DOTS_OF_A;
    int64_t of_row = turned ? 1 : t->n, of_column = turned ? t->m : 1;
    int bytes = dtype_bytes(b->dtype);
    LLVMValueRef in = gen_iadd(t->g, gen_imul(t->g, t->row, of_row), gen_imul(t->g, column, of_column));
    return gen_ptr(t->g, gen_buf(t->g, b, row * of_row * bytes), gen_imul(t->g, in, bytes));
}

/* What the inverted bits add to the sums of each row of A: by the instruction that multiplies, with these
 * bits in place of B. Of strips every lane has the sum, of dots a part. */
static void sum_rows(Thin *t)
{
    Gen *g = t->g;
    bool strips = t->s->thin == THIN_STRIPS;
    Loop rows, along;
    t->offsets = gen_alloca(g, LLVMArrayType2(t->vec, (uint64_t)t->m), "offsets");
    LLVMValueRef zero = LLVMConstNull(t->vec);
    t->row = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->m), 1);
    LLVMValueRef k = gen_loop(g, &along, gen_int(g, 0), gen_int(g, t->k), strips ? 4 : 4 * t->lanes);
    LLVMValueRef sum = LLVMBuildPhi(g->b, t->vec, ""), a;
    LLVMAddIncoming(sum, &zero, &along.before, 1);
    if (strips) {
        a = LLVMBuildLoad2(g->b, g->i32, thin_a_at(t, 0, k), "");
        LLVMSetAlignment(a, 1);
        a = gen_splat(g, a, t->lanes);
    } else {
        a = gen_load(g, t->packed, 4 * t->lanes, thin_a_at(t, 0, k));
    }
    LLVMValueRef next = add_quads(t, sum, a, high_bits(t));
    LLVMBasicBlockRef latch = gen_here(g);
    LLVMAddIncoming(sum, &next, &latch, 1);
    gen_loop_end(g, &along);
    LLVMBuildStore(g->b, next, LLVMBuildGEP2(g->b, t->vec, t->offsets, &t->row, 1, ""));
    gen_loop_end(g, &rows);
}

/* The offset of row t->row + r. */
LLVMValueRef thin_offset_of(Thin *t, int r)
{
    LLVMValueRef at = gen_iadd(t->g, t->row, gen_int(t->g, r));
    return LLVMBuildLoad2(t->g->b, t->vec, LLVMBuildGEP2(t->g->b, t->vec, t->offsets, &at, 1, ""), "");
}

/* --- strips ------------------------------------------------------------------------------------------ */

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
    return invert(t, convert(g, t->as, t->from, row[0]));
}

/* A strip's vectors of row k, or of the rows of a group. */
static void strip_vectors(Thin *t, LLVMValueRef k, LLVMValueRef column, int parts, LLVMValueRef *b)
{
    Gen *g = t->g;
    for (int v = 0; v < parts; v++) {
        fetch(t, v * t->lanes * dtype_bytes(t->from) % LINE == 0);
        b[v] = group_of_rows(t, k, gen_iadd(g, column, gen_int(g, v * t->lanes)));
    }
    fetch(t, true);
}

static LLVMValueRef staged(Thin *t, int at)
{ return gen_ptr(t->g, t->stage, gen_int(t->g, (int64_t)at * t->lanes * 4)); }

/* Keeps the vectors of `deep` rows for all rows of A: so they are converted once, and rows that are a power
 * of two apart, which displace each other in the first cache, are read once. */
static void stage(Thin *t, LLVMValueRef k, int deep, LLVMValueRef column, int parts)
{
    Gen *g = t->g;
    int group = mma_group(t->as);
    LLVMValueRef b[MAX_SUMS];
    for (int d = 0; d < deep; d += group) {
        strip_vectors(t, gen_iadd(g, k, gen_int(g, d)), column, parts, b);
        for (int v = 0; v < parts; v++) LLVMBuildStore(g->b, b[v], staged(t, d / group * parts + v));
    }
}

/* Adds the products of row k + d to the sums of a strip, or of the rows of a group: acc[row * parts + part].
 */
static void strip_step(Thin *t, LLVMValueRef from, int d, LLVMValueRef column, int parts, LLVMValueRef *acc)
{
    Gen *g = t->g;
    int group = mma_group(t->as);
    bool grouped = group > 1;
    LLVMValueRef b[MAX_SUMS], k = gen_iadd(g, from, gen_int(g, d));
    LLVMTypeRef type = gen_type(g, t->as, group * t->lanes);
    if (!t->stage) strip_vectors(t, k, column, parts, b);
    for (int v = 0; t->stage && v < parts; v++)
        b[v] = LLVMBuildLoad2(g->b, type, staged(t, d / group * parts + v), "");
    for (int r = 0; r < t->rows; r++) {
        LLVMTypeRef one = grouped ? g->i32 : gen_type(g, t->as, 1);
        LLVMValueRef a = LLVMBuildLoad2(g->b, one, thin_a_at(t, r, k), "");
        LLVMSetAlignment(a, (unsigned)dtype_bytes(t->s->a->dtype));
        a = gen_splat(g, a, t->lanes);
        for (int v = 0; v < parts; v++)
            acc[r * parts + v] = thin_multiply_add(t, acc[r * parts + v], a, b[v]);
    }
}

/* Adds the products of `deep` rows of B from row k on to the sums of `width` columns, a whole number of
 * vectors, from `column` on. `from`: where the sums so far are. */
static void strip_rows(Thin *t, LLVMValueRef from, LLVMValueRef k, int deep, LLVMValueRef column, int width)
{
    Gen *g = t->g;
    Step *s = t->s;
    int parts = width / t->lanes, n = parts * t->rows, bytes = dtype_bytes(s->buf->dtype);
    LLVMValueRef acc[MAX_SUMS], at[MAX_SUMS], first = gen_iadd(g, gen_imul(g, t->row, t->n), column);
    for (int c = 0; c < n; c++) {
        at[c] = gen_imul(g, gen_iadd(g, first, gen_int(g, c / parts * t->n + c % parts * t->lanes)), bytes);
        acc[c] = gen_load(g, s->buf->dtype, t->lanes, gen_ptr(g, from, at[c]));
    }
    for (int d = 0; d < deep; d += mma_group(s->a->dtype)) strip_step(t, k, d, column, parts, acc);
    for (int c = 0; c < n; c++) gen_store(g, s->buf->dtype, acc[c], gen_ptr(g, gen_buf(g, s->buf, 0), at[c]));
}

/* The same for all rows, which find the elements of B in the first cache. */
static void strip(Thin *t, LLVMValueRef from, LLVMValueRef k, int deep, LLVMValueRef column, int width)
{
    Loop l;
    if (t->stage) stage(t, k, deep, column, width / t->lanes);
    t->row = gen_loop(t->g, &l, gen_int(t->g, 0), gen_int(t->g, t->m), t->rows);
    strip_rows(t, from, k, deep, column, width);
    gen_loop_end(t->g, &l);
}

static int strip_parts(const Thin *t)
{
    int most = most_sums(t->g->target), parts = t->whole ? most : 1, bytes = t->lanes * dtype_bytes(t->from);
    while (
        parts * t->rows > most || (parts * bytes > BYTES_AT_ONCE && (most < MAX_SUMS || parts > MOST_PARTS)))
        parts /= 2;
    return parts;
}

/* The sums so far, less the offsets. */
static void take_offsets(Thin *t)
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

/* The columns of a window that are read from its first row to its last before the next ones are: where the
 * registers hold MOST_PARTS vectors of each row, two strips. A load that moves along a row three times makes
 * the processor fetch what lies beyond the end of the window (bench/NOTES.md, "Products of few rows on Zen
 * 4"). */
static int64_t span_of(const Thin *t)
{
    int64_t span = most_sums(t->g->target) == MAX_SUMS ? 2 * MOST_PARTS * t->lanes : t->n;
    return span < t->n ? span : t->n;
}

/* Some rows of B at a time, from one end of the window to the other, `strips` strips from `column` on: memory
 * is read in the order in which it lies, and few rows are in the caches at once, which are in the same sets
 * where rows are a power of two apart. */
static void strip_span(Thin *t, LLVMValueRef column, int width, int64_t strips, int deep)
{
    Gen *g = t->g;
    Step *s = t->s;
    Loop rows, columns;
    LLVMValueRef buf = gen_buf(g, s->buf, 0);
    LLVMValueRef k = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->k), deep), from = buf;
    if (s->acc && !t->inverts)
        from = LLVMBuildSelect(
            g->b, LLVMBuildICmp(g->b, LLVMIntEQ, k, gen_int(g, 0), ""), gen_buf(g, s->acc, 0), buf, "");
    if (strips == 1) {
        strip(t, from, k, deep, column, width);
    } else {
        LLVMValueRef c = gen_loop(g, &columns, gen_int(g, 0), gen_int(g, strips * width), width);
        strip(t, from, k, deep, LLVMBuildAdd(g->b, column, c, ""), width);
        gen_loop_end(g, &columns);
    }
    gen_loop_end(g, &rows);
}

static void strips(Thin *t)
{
    Gen *g = t->g;
    Step *s = t->s;
    int parts = strip_parts(t), width = parts * t->lanes, deep = mma_group(s->a->dtype);
    bool several = t->m > t->rows, stages = several && deep > 1;
    if (t->whole) deep = stages ? STAGED_ROWS : ROWS_AT_ONCE;
    if (t->whole && several && !stages && most_sums(g->target) == MAX_SUMS) deep *= 2;
    while (t->k % deep) deep /= 2;
    if (stages) t->stage = gen_alloca(g, LLVMArrayType2(t->vec, (uint64_t)(deep * parts)), "stage");
    if (t->inverts) take_offsets(t);
    else if (!s->acc)
        LLVMBuildMemSet(
            g->b, gen_buf(g, s->buf, 0), LLVMConstInt(g->i8, 0, false), gen_int(g, s->buf->bytes), 64);
    int64_t of_span = (t->whole ? span_of(t) : t->n) / width, span = of_span * width,
            done = span ? t->n / span * span : 0;
    if (done) {
        Loop l;
        strip_span(t, gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), span), width, of_span, deep);
        gen_loop_end(g, &l);
    }
    for (; width >= t->lanes; width /= 2)
        for (; t->n - done >= width; done += width) strip_span(t, gen_int(g, done), width, 1, deep);
}

/* --- whole windows ----------------------------------------------------------------------------------- */

static void add_window(void *user, Value *leaf, bool same)
{
    Windows *x = user;
    if (!leaf->def || leaf->def->op != OP_LOAD || leaf->type->kind != TYPE_TILE) return;
    Window *w = x->g->windows[leaf->id];
    if (!w || plan_info(x->g->plan, leaf)->buf) return;
    if (x->n == MAX_WINDOWS) x->too_many = true;
    else x->w[x->n++] = w;
}

/* Whether the whole window is in range (i1; NULL: always). */
static LLVMValueRef window_is_whole(Gen *g, const Window *w)
{
    LLVMValueRef ok = w->outside ? LLVMBuildNot(g->b, w->outside, "") : NULL;
    for (int t = 0; t < w->rank; t++) {
        if (!w->hi[t]) continue;
        ok = both(g, ok, icmp(g, LLVMIntSGE, w->hi[t], gen_int(g, w->shape[t])));
        ok = both(g, ok, icmp(g, LLVMIntSLE, w->lo[t], gen_int(g, 0)));
    }
    return ok;
}

/* How far ahead the window is fetched into the second cache, in bytes of memory in the order of the product:
 * of strips, rows of the window or of the next one; of dots, where rows of the window are long, along them.
 */
static LLVMValueRef distance(Thin *t, Window *w)
{
    Gen *g = t->g;
    if (w->rank != 2 || !w->ahead) return w->ahead;
    int along = w->is_unit[0] ? 0 : 1, bytes = dtype_bytes(w->dtype);
    if (t->s->thin == THIN_STRIPS) {
        int64_t rows = ROWS_AT_ONCE;
        while (rows * span_of(t) * bytes < BYTES_AHEAD) rows *= 2;
        return gen_imul(g, w->stride[1 - along], rows);
    }
    int64_t ahead = BYTES_AHEAD / MOST_COLUMNS;
    return w->shape[along] * bytes > ahead ? gen_int(g, ahead) : w->ahead;
}

static void product(Thin *t)
{
    if (t->inverts) sum_rows(t);
    if (t->s->thin == THIN_STRIPS) strips(t);
    else thin_dots(t);
}

/* The product if all windows are whole: their loads are of vectors, without a test. */
static void whole_product(Thin *t, Windows *x)
{
    for (int k = 0; k < x->n; k++) {
        Window *w = x->w[k];
        x->saved[k] = *w;
        w->outside = NULL;
        for (int a = 0; a < w->rank; a++) w->lo[a] = w->hi[a] = NULL;
    }
    t->whole = true;
    product(t);
    t->whole = false;
    for (int k = 0; k < x->n; k++) *x->w[k] = x->saved[k];
}

void thin_emit(Gen *g, Step *s)
{
    bool turned = s->thin == THIN_DOTS_OF_A;
    Value *b = ir_operand(s->instr, !turned);
    const Type *r = ir_result(s->instr)->type;
    Thin t = { .g = g,
        .s = s,
        .b = b,
        .from = b->type->dtype,
        .as = mma_operand_type(s->mma, b),
        .packed = ir_operand(s->instr, turned)->type->dtype,
        .lanes = mma_vector_lanes(g->target, s->mma),
        .m = r->shape[turned],
        .n = r->shape[!turned],
        .k = b->type->shape[turned] };
    for (t.rows = MOST_AT_ONCE; t.m % t.rows; t.rows--);
    if (turned) t.index = thin_index(&t);
    t.inverts = s->mma == MMA_I8_THIN && t.packed == t.from;
    t.vec = gen_type(g, r->dtype, t.lanes);
    if (turned) thin_columns_as_rows(&t);
    Windows *x = &t.windows;
    x->g = g;
    plan_leaves(g->plan, b, true, add_window, x);
    LLVMValueRef whole = NULL;
    for (int k = 0; k < x->n; k++) {
        whole = both(g, whole, window_is_whole(g, x->w[k]));
        x->ahead[k] = x->w[k]->ahead = distance(&t, x->w[k]);
        if (x->w[k]->ahead) x->w[k]->locality = 2;
    }
    if (x->too_many || !whole) {
        t.whole = !whole && !x->too_many;
        product(&t);
        return;
    }
    If f;
    gen_if(g, &f, whole);
    whole_product(&t, x);
    gen_else(g, &f);
    product(&t);
    gen_endif(g, &f);
}
