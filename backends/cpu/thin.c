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

enum {
    CHEAP = 6,        /* instructions for a vector of an operand */
    MOST_AT_ONCE = 4, /* rows, or columns of dots */
    MOST_SUMS = 8,    /* vectors of sums at once: enough that each multiply-add finds the last one finished */
    ROWS_AT_ONCE = 4, /* of B, before the sums are moved */
    BYTES_AT_ONCE = 64 /* of memory along a row: a line */
};

static bool takes(MmaKind k) { return k == MMA_F32 || k == MMA_F64 || k == MMA_I16_PAIRS; }

/* Whether the operand is computed for this product alone, and need not be stored: each group of rows computes
 * it again. */
static bool is_virtual(Plan *p, const Instr *i, Value *v, int64_t rows)
{
    if (!v->def || v->def->block != i->block || ir_use_count(v) != 1 || plan_has_buffer(p, v)) return false;
    return rows <= (plan_cost_at(p, v) > CHEAP ? MOST_AT_ONCE : MOST_THIN_ROWS);
}

Thinness mma_thinness(Plan *p, const Instr *i, MmaKind k)
{
    Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    if (!takes(k)) return THIN_NONE;
    int64_t m = a->type->shape[0], deep = b->type->shape[0], n = b->type->shape[1];
    int64_t lanes = mma_vector_lanes(p->target, k), group = mma_group(mma_operand_type(k, b));
    bool whole_dots = deep % (lanes * group) == 0;
    if (is_virtual(p, i, b, m)) {
        if (plan_natural_axis(p, b) == 1) return n % lanes || deep % group ? THIN_NONE : THIN_STRIPS;
        return whole_dots && n >= MOST_AT_ONCE ? THIN_DOTS : THIN_NONE;
    }
    bool columns = is_virtual(p, i, a, n) && plan_natural_axis(p, a) == 1;
    return columns && whole_dots && m >= MOST_AT_ONCE ? THIN_DOTS_OF_A : THIN_NONE;
}

typedef struct Thin {
    Gen *g;
    Step *s;
    Value *b;
    DType from, as;   /* the type of B, and that products run in */
    int lanes, rows;  /* of a vector of sums; of the sums that are computed at once, */
    int64_t m;        /* of all of them, */
    LLVMValueRef row; /* of which this is the first row */
    int64_t n, k;
    LLVMTypeRef vec;
    bool whole; /* all that B is computed from is in range; else short code, as it runs at edges alone */
} Thin;

/* Lanes [at, at + n) of v, and zeros up to `lanes`. */
static LLVMValueRef part(Gen *g, LLVMValueRef v, int at, int n, int lanes)
{
    int mask[64], have = gen_lanes(v);
    if (have == n && n == lanes) return v;
    if (have == 1) v = LLVMBuildBitCast(g->b, v, LLVMVectorType(LLVMTypeOf(v), 1), "");
    for (int k = 0; k < lanes; k++) mask[k] = k < n ? at + k : have;
    return gen_shuffle(g, v, LLVMConstNull(LLVMTypeOf(v)), mask, lanes);
}

/* acc + a b; with pairs, the elements of a vector of twice as many lanes. */
static LLVMValueRef multiply_add(Thin *t, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    Gen *g = t->g;
    if (t->s->mma == MMA_I16_PAIRS) return mma_add_i16_pairs(g, acc, a, b);
    LLVMValueRef v[] = { a, b, acc };
    return gen_intrinsic(g, g->target->fma ? "llvm.fma" : "llvm.fmuladd", &t->vec, 1, v, 3);
}

/* B at (k, column), `width` elements along the axis. */
static LLVMValueRef elements(Thin *t, LLVMValueRef k, LLVMValueRef column, int axis, int width)
{
    Eval e;
    bool turned = t->s->thin == THIN_DOTS_OF_A;
    LLVMValueRef coord[TILE_MAX_RANK] = { turned ? column : k, turned ? k : column };
    eval_init(&e, t->g, width);
    return nest_eval(&e, t->b, coord, turned ? 1 - axis : axis);
}

/* The packed operand's elements from k on that belong to row `row` of the sums. */
static LLVMValueRef a_at(Thin *t, int row, LLVMValueRef k)
{
    const Buf *b = t->s->thin == THIN_DOTS_OF_A ? t->s->b : t->s->a;
    int bytes = dtype_bytes(b->dtype);
    LLVMValueRef in = gen_iadd(t->g, gen_imul(t->g, t->row, b->ld), k);
    return gen_ptr(t->g, gen_buf(t->g, b, row * b->ld * bytes), gen_imul(t->g, in, bytes));
}

static LLVMValueRef sum_at(Thin *t, const Buf *b, int row, LLVMValueRef column)
{
    bool turned = t->s->thin == THIN_DOTS_OF_A;
    int64_t of_row = turned ? 1 : t->n, of_column = turned ? t->m : 1;
    int bytes = dtype_bytes(b->dtype);
    LLVMValueRef in = gen_iadd(t->g, gen_imul(t->g, t->row, of_row), gen_imul(t->g, column, of_column));
    return gen_ptr(t->g, gen_buf(t->g, b, row * of_row * bytes), gen_imul(t->g, in, bytes));
}

/* --- strips ------------------------------------------------------------------------------------------ */

enum { MAX_PARTS = MOST_SUMS };

/* Adds the products of row k to the sums of a strip: acc[row * parts + part]. With pairs, of rows k and k +
 * 1, whose elements take turns in a vector; `both`: there is a second row. */
static void strip_step(Thin *t, LLVMValueRef k, LLVMValueRef column, int width, int parts, LLVMValueRef *acc)
{
    Gen *g = t->g;
    bool pairs = t->s->mma == MMA_I16_PAIRS;
    LLVMValueRef b[MAX_PARTS], x = elements(t, k, column, 1, width), y = LLVMConstNull(LLVMTypeOf(x));
    if (!pairs) x = convert(g, t->as, t->from, x);
    else y = elements(t, gen_iadd(g, k, gen_int(g, 1)), column, 1, width);
    for (int v = 0; v < parts; v++) {
        int mask[64];
        for (int j = 0; j < 2 * t->lanes; j++) mask[j] = v * t->lanes + j / 2 + (j % 2 ? width : 0);
        b[v] = pairs ? convert(g, t->as, t->from, gen_shuffle(g, x, y, mask, 2 * t->lanes))
                     : part(g, x, v * t->lanes, t->lanes, t->lanes);
    }
    for (int r = 0; r < t->rows; r++) {
        LLVMTypeRef one = pairs ? g->i32 : gen_type(g, t->as, 1);
        LLVMValueRef a = LLVMBuildLoad2(g->b, one, a_at(t, r, k), "");
        LLVMSetAlignment(a, (unsigned)dtype_bytes(t->s->a->dtype));
        a = gen_splat(g, a, t->lanes);
        for (int v = 0; v < parts; v++) acc[r * parts + v] = multiply_add(t, acc[r * parts + v], a, b[v]);
    }
}

/* Adds the products of `deep` rows of B from row k on to the sums of `width` columns, a whole number of
 * vectors, from `column` on. `from`: where the sums so far are. */
static void strip_rows(Thin *t, LLVMValueRef from, LLVMValueRef k, int deep, LLVMValueRef column, int width)
{
    Gen *g = t->g;
    Step *s = t->s;
    int parts = width / t->lanes, n = parts * t->rows, bytes = dtype_bytes(s->buf->dtype);
    LLVMValueRef acc[MOST_SUMS], at[MOST_SUMS], first = gen_iadd(g, gen_imul(g, t->row, t->n), column);
    for (int c = 0; c < n; c++) {
        at[c] = gen_imul(g, gen_iadd(g, first, gen_int(g, c / parts * t->n + c % parts * t->lanes)), bytes);
        acc[c] = gen_load(g, s->buf->dtype, t->lanes, gen_ptr(g, from, at[c]));
    }
    for (int d = 0; d < deep; d += mma_group(s->a->dtype))
        strip_step(t, gen_iadd(g, k, gen_int(g, d)), column, width, parts, acc);
    for (int c = 0; c < n; c++) gen_store(g, s->buf->dtype, acc[c], gen_ptr(g, gen_buf(g, s->buf, 0), at[c]));
}

/* The same for all rows, which find the elements of B in the first cache. */
static void strip(Thin *t, LLVMValueRef from, LLVMValueRef k, int deep, LLVMValueRef column, int width)
{
    Loop l;
    t->row = gen_loop(t->g, &l, gen_int(t->g, 0), gen_int(t->g, t->m), t->rows);
    strip_rows(t, from, k, deep, column, width);
    gen_loop_end(t->g, &l);
}

static int strip_parts(const Thin *t)
{
    int parts = t->whole ? MOST_SUMS : 1;
    while (parts * t->rows > MOST_SUMS || parts * t->lanes * dtype_bytes(t->from) > BYTES_AT_ONCE) parts /= 2;
    return parts;
}

/* Some rows of B at a time, from one end of the window to the other: memory is read in the order in which it
 * lies, and few rows are in the caches at once, which are in the same sets where rows are a power of two
 * apart. */
static void strips(Thin *t)
{
    Gen *g = t->g;
    Step *s = t->s;
    int width = strip_parts(t) * t->lanes, deep = t->whole ? ROWS_AT_ONCE : mma_group(s->a->dtype);
    while (t->k % deep) deep /= 2;
    LLVMValueRef buf = gen_buf(g, s->buf, 0);
    if (!s->acc) LLVMBuildMemSet(g->b, buf, LLVMConstInt(g->i8, 0, false), gen_int(g, s->buf->bytes), 64);
    Loop rows, columns;
    LLVMValueRef k = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->k), deep), from = buf;
    if (s->acc)
        from = LLVMBuildSelect(
            g->b, LLVMBuildICmp(g->b, LLVMIntEQ, k, gen_int(g, 0), ""), gen_buf(g, s->acc, 0), buf, "");
    int64_t done = t->n / width * width;
    if (done) {
        LLVMValueRef c = gen_loop(g, &columns, gen_int(g, 0), gen_int(g, done), width);
        strip(t, from, k, deep, c, width);
        gen_loop_end(g, &columns);
    }
    for (; width >= t->lanes; width /= 2)
        for (; t->n - done >= width; done += width) strip(t, from, k, deep, gen_int(g, done), width);
    gen_loop_end(g, &rows);
}

/* --- dots -------------------------------------------------------------------------------------------- */

/* The sum of the lanes, halves first. */
static LLVMValueRef sum_of_lanes(Thin *t, LLVMValueRef v)
{
    Gen *g = t->g;
    for (int n = t->lanes / 2; n; n /= 2) {
        LLVMValueRef low = part(g, v, 0, n, n), high = part(g, v, n, n, n);
        v = dtype_is_float(t->as) ? LLVMBuildFAdd(g->b, low, high, "") : LLVMBuildAdd(g->b, low, high, "");
    }
    return LLVMBuildExtractElement(g->b, v, gen_int(g, 0), "");
}

/* Elements along K that are computed at once: as many as a line has, and a whole number of vectors. */
static int dot_width(const Thin *t)
{
    int least = t->lanes * mma_group(t->as), width = t->whole ? BYTES_AT_ONCE / dtype_bytes(t->from) : least;
    while (width > least && (width > BYTES_AT_ONCE || t->k % width)) width /= 2;
    return width < least ? least : width;
}

static void dot_step(Thin *t, LLVMValueRef k, LLVMValueRef column, int columns, LLVMValueRef *acc)
{
    Gen *g = t->g;
    int width = dot_width(t), at_once = t->lanes * mma_group(t->as);
    for (int c = 0; c < columns; c++) {
        LLVMValueRef x = elements(t, k, gen_iadd(g, column, gen_int(g, c)), 0, width);
        x = convert(g, t->as, t->from, x);
        for (int at = 0; at < width; at += at_once)
            for (int r = 0; r < t->rows; r++) {
                LLVMValueRef from = a_at(t, r, gen_iadd(g, k, gen_int(g, at)));
                LLVMValueRef a = gen_load(g, t->as, at_once, from), b = part(g, x, at, at_once, at_once);
                acc[c * t->rows + r] = multiply_add(t, acc[c * t->rows + r], a, b);
            }
    }
}

/* The sums of `columns` columns from `column` on, of some rows: acc[column * rows + row]. */
static void dot_rows(Thin *t, LLVMValueRef column, int columns)
{
    Gen *g = t->g;
    const Buf *to = t->s->buf;
    LLVMValueRef acc[MOST_SUMS], phi[MOST_SUMS], zero = LLVMConstNull(t->vec);
    Loop l;
    int n = columns * t->rows;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, t->k), dot_width(t));
    for (int c = 0; c < n; c++) {
        acc[c] = phi[c] = LLVMBuildPhi(g->b, t->vec, "");
        LLVMAddIncoming(phi[c], &zero, &l.before, 1);
    }
    dot_step(t, k, column, columns, acc);
    LLVMBasicBlockRef latch = gen_here(g);
    for (int c = 0; c < n; c++) LLVMAddIncoming(phi[c], &acc[c], &latch, 1);
    gen_loop_end(g, &l);
    for (int c = 0; c < n; c++) {
        LLVMValueRef at = gen_iadd(g, column, gen_int(g, c / t->rows)), v = sum_of_lanes(t, acc[c]);
        if (t->s->acc) {
            LLVMValueRef old = gen_load(g, to->dtype, 1, sum_at(t, t->s->acc, c % t->rows, at));
            v = dtype_is_float(to->dtype) ? LLVMBuildFAdd(g->b, old, v, "") : LLVMBuildAdd(g->b, old, v, "");
        }
        gen_store(g, to->dtype, v, sum_at(t, to, c % t->rows, at));
    }
}

static void dot(Thin *t, LLVMValueRef column, int columns)
{
    Loop l;
    t->row = gen_loop(t->g, &l, gen_int(t->g, 0), gen_int(t->g, t->m), t->rows);
    dot_rows(t, column, columns);
    gen_loop_end(t->g, &l);
}

static void dots(Thin *t)
{
    Gen *g = t->g;
    int columns = t->whole ? MOST_AT_ONCE : 1;
    while (columns * t->rows > MOST_SUMS) columns /= 2;
    int64_t done = t->n / columns * columns;
    Loop l;
    dot(t, gen_loop(g, &l, gen_int(g, 0), gen_int(g, done), columns), columns);
    gen_loop_end(g, &l);
    for (; done < t->n; done++) dot(t, gen_int(g, done), 1);
}

/* --- whole windows ----------------------------------------------------------------------------------- */

enum { MAX_WINDOWS = 8 };

/* The windows that B is computed from. */
typedef struct Windows {
    Gen *g;
    Window *w[MAX_WINDOWS], saved[MAX_WINDOWS];
    int n;
    bool too_many;
} Windows;

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

static void product(Thin *t)
{
    if (t->s->thin == THIN_STRIPS) strips(t);
    else dots(t);
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

/* Packs the few columns of B as rows. */
static void columns_as_rows(Thin *t)
{
    Gen *g = t->g;
    Buf *to = t->s->b;
    Value *v = ir_operand(t->s->instr, 1);
    Loop columns, along;
    LLVMValueRef coord[TILE_MAX_RANK];
    int width = plan_natural_axis(g->plan, v) == 0 ? t->lanes * mma_group(t->as) : 1;
    coord[1] = gen_loop(g, &columns, gen_int(g, 0), gen_int(g, t->m), 1);
    coord[0] = gen_loop(g, &along, gen_int(g, 0), gen_int(g, t->k), width);
    Eval e;
    eval_init(&e, g, width);
    LLVMValueRef x = convert(g, to->dtype, v->type->dtype, nest_eval(&e, v, coord, 0));
    LLVMValueRef at = gen_iadd(g, gen_imul(g, coord[1], to->ld), coord[0]);
    gen_store(g, to->dtype, x, gen_ptr(g, gen_buf(g, to, 0), gen_imul(g, at, dtype_bytes(to->dtype))));
    gen_loop_end(g, &along);
    gen_loop_end(g, &columns);
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
        .lanes = mma_vector_lanes(g->target, s->mma),
        .m = r->shape[turned],
        .n = r->shape[!turned],
        .k = b->type->shape[turned] };
    for (t.rows = MOST_AT_ONCE; t.m % t.rows; t.rows--);
    t.vec = gen_type(g, r->dtype, t.lanes);
    if (turned) columns_as_rows(&t);
    Windows x = { .g = g };
    plan_leaves(g->plan, b, true, add_window, &x);
    LLVMValueRef whole = NULL;
    for (int k = 0; k < x.n; k++) whole = both(g, whole, window_is_whole(g, x.w[k]));
    if (x.too_many || !whole) {
        t.whole = !whole && !x.too_many;
        product(&t);
        return;
    }
    If f;
    gen_if(g, &f, whole);
    whole_product(&t, &x);
    gen_else(g, &f);
    product(&t);
    gen_endif(g, &f);
}
