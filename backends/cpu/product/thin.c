/* thin.c: products of a few rows. Each element of B is multiplied so few times that packing it costs more
 * than it saves. So B is not packed: it is computed where it is multiplied, along the axis whose elements lie
 * side by side in memory. A is packed as rows, and the sums stay in registers.
 *
 *     elements side by side along N (strips)      strips of B's columns; k runs down; a row of A is broadcast
 *     elements side by side along K (dots)        some columns of B; k runs in vectors, whose lanes are added
 *                                                 at the end
 *
 * Where B has few columns the operands change places: A is computed where it is multiplied, in dots. */
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/product/mma.h"
#include "backends/cpu/plan/plan.h"
#include "backends/cpu/product/thin.h"

enum {
    CHEAP = 6,         /* instructions for a vector of an operand */
    ROWS_AHEAD = 60,   /* of B in strips: bench/notes/cpu_zen4.md, "Few rows: how far ahead, ..."; */
    PART_OF_SECOND = 8 /* and the most of the second cache that they take */
};

/* The units in which a thin product may run instead of the one that multiplies packed operands, best first.
 */
static int kinds_for(const Plan *p, const Instr *i, MmaKind k, MmaKind *out)
{
    const CpuTarget *t = p->target;
    bool a_is_unsigned;
    int n = 0;
    if ((k == MMA_I16_PAIRS || k == MMA_I8_QUADS) && !t->arm && t->has & CPU_VNNI) out[n++] = MMA_I8_THIN;
    if (k == MMA_I16_PAIRS && mma_pairs(p, i, &a_is_unsigned)) out[n++] = MMA_I8_PAIRS;
    if (k == MMA_I8_QUADS && !t->arm) out[n++] = MMA_I16_PAIRS;
    if (k == MMA_F32 || k == MMA_F64 || k == MMA_I16_PAIRS || k == MMA_BF16_PAIRS) out[n++] = k;
    if (k == MMA_BF16_PAIRS) out[n++] = MMA_F32;
    return n;
}

/* Whether the operand is computed for this product alone, and need not be stored: each group of rows computes
 * it again, unless it is cheap. */
static bool is_virtual(Plan *p, const Instr *i, Value *v, int64_t rows, bool cheap)
{
    if (!v->def || v->def->block != i->block || ir_use_count(v) != 1 || plan_has_buffer(p, v)) return false;
    return rows <= (!cheap && plan_cost_at(p, v) > CHEAP ? MOST_AT_ONCE : MOST_THIN_ROWS);
}

static Thinness thinness_in(Plan *p, const Instr *i, MmaKind k)
{
    Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    int64_t m = a->type->shape[0], deep = b->type->shape[0], n = b->type->shape[1];
    int64_t lanes = mma_vector_lanes(p->target, k), group = mma_group(mma_operand_type(k, b));
    bool whole_dots = deep % (lanes * group) == 0;
    if (is_virtual(p, i, b, m, false)) {
        bool strips = plan_natural_axis(p, b) == 1;
        if (strips && k != MMA_I8_PAIRS && n % lanes == 0 && deep % group == 0) return THIN_STRIPS;
        if (!strips && whole_dots && n >= LEAST_COLUMNS) return THIN_DOTS;
    }
    if (m < LEAST_COLUMNS || !whole_dots || plan_natural_axis(p, a) != 1) return THIN_NONE;
    bool columns = is_virtual(p, i, a, n, mma_table(p, k, a));
    return columns ? THIN_DOTS_OF_A : THIN_NONE;
}

Thinness mma_thinness(Plan *p, const Instr *i, MmaKind *kind)
{
    MmaKind kinds[4];
    int n = kinds_for(p, i, *kind, kinds);
    for (int k = 0; k < n; k++) {
        Thinness t = thinness_in(p, i, kinds[k]);
        if (t == THIN_NONE) continue;
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

LLVMValueRef thin_invert(const Thin *t, LLVMValueRef b)
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

void thin_fetch(Thin *t, bool on)
{
    for (int k = 0; k < t->windows.n; k++) t->windows.w[k]->ahead = on ? t->windows.ahead[k] : NULL;
}

/* The axis of the window along which its elements lie side by side. */
static int axis_along(const Window *w) { return w->is_unit[0] ? 0 : 1; }

bool thin_fetches(const Thin *t, int i)
{
    const Window *w = t->windows.w[i];
    bool strips = t->s->thin == THIN_STRIPS;
    if (w->rank != 2 || !t->windows.ahead[i]) return false;
    int along = axis_along(w);
    return w->shape[along] == (strips ? t->n : t->k) && w->shape[1 - along] == (strips ? t->k : t->n);
}

LLVMValueRef thin_stride(const Window *w) { return w->stride[1 - axis_along(w)]; }

LLVMValueRef thin_place(Thin *t, const Window *w, LLVMValueRef k, LLVMValueRef column)
{
    Gen *g = t->g;
    bool strips = t->s->thin == THIN_STRIPS;
    LLVMValueRef in = gen_imul(g, strips ? column : k, dtype_bytes(w->dtype));
    LLVMValueRef at = LLVMBuildMul(g->b, strips ? k : column, thin_stride(w), "");
    return gen_ptr(g, gen_ptr(g, w->base, at), in);
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
 * bits in place of B. Of strips and by words every lane has the sum, of other dots a part. */
static void sum_rows(Thin *t)
{
    Gen *g = t->g;
    bool strips = t->s->thin == THIN_STRIPS || thin_by_words(t);
    Loop rows, along;
    t->offsets = t->s->lanes;
    if (!t->offsets) t->offsets = gen_alloca(g, LLVMArrayType2(t->vec, (uint64_t)t->m), "offsets");
    t->row = gen_loop(g, &rows, gen_int(g, 0), gen_int(g, t->m), 1);
    LLVMValueRef first = t->s->lanes ? thin_offset_of(t, 0) : LLVMConstNull(t->vec);
    LLVMValueRef k = gen_loop(g, &along, gen_int(g, 0), gen_int(g, t->k), strips ? 4 : 4 * t->lanes);
    LLVMValueRef sum = LLVMBuildPhi(g->b, t->vec, ""), a;
    LLVMAddIncoming(sum, &first, &along.before, 1);
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

/* How far ahead the window is fetched into the second cache: of strips, some rows of the window or of the
 * next one; of dots, see thin_dots.c. */
static LLVMValueRef distance(Thin *t, Window *w)
{
    int64_t rows = ROWS_AHEAD, row = thin_span(t) * dtype_bytes(w->dtype);
    if (w->rank != 2 || !w->ahead || t->s->thin != THIN_STRIPS) return w->ahead;
    while (rows > 1 && rows * row > t->g->target->second_cache / PART_OF_SECOND) rows /= 2;
    return gen_imul(t->g, thin_stride(w), rows);
}

static void product(Thin *t, void *user)
{
    (void)user;
    if (t->inverts) sum_rows(t);
    if (t->s->thin == THIN_STRIPS) thin_strips(t);
    else thin_dots(t);
}

void thin_assume_whole(Thin *t)
{
    for (int k = 0; k < t->windows.n; k++) {
        Window *w = t->windows.w[k];
        t->windows.saved[k] = *w;
        w->outside = NULL;
        for (int a = 0; a < w->rank; a++) w->lo[a] = w->hi[a] = NULL;
    }
    t->whole = true;
}

static void assume_no_more(Thin *t)
{
    t->whole = false;
    for (int k = 0; k < t->windows.n; k++) *t->windows.w[k] = t->windows.saved[k];
}

/* The code if all windows are whole: their loads are of vectors, without a test. */
static void whole_code(Thin *t, ThinCode *code, void *user)
{
    thin_assume_whole(t);
    if (t->with) thin_assume_whole(t->with);
    code(t, user);
    if (t->with) assume_no_more(t->with);
    assume_no_more(t);
}

void thin_find_windows(Thin *t, LLVMValueRef *whole)
{
    Windows *x = &t->windows;
    x->g = t->g;
    plan_leaves(t->g->plan, t->b, true, add_window, x);
    for (int k = 0; k < x->n; k++) {
        *whole = both(t->g, *whole, window_is_whole(t->g, x->w[k]));
        x->ahead[k] = distance(t, x->w[k]);
    }
}

void thin_guard(Thin *t, LLVMValueRef whole, ThinCode *code, void *user)
{
    Gen *g = t->g;
    bool too_many = t->windows.too_many || (t->with && t->with->windows.too_many);
    if (too_many || !whole) {
        t->whole = !too_many;
        if (t->with) t->with->whole = t->whole;
        code(t, user);
        return;
    }
    If f;
    gen_if(g, &f, whole);
    whole_code(t, code, user);
    gen_else(g, &f);
    code(t, user);
    gen_endif(g, &f);
}

void thin_init(Thin *t, Gen *g, Step *s)
{
    bool turned = s->thin == THIN_DOTS_OF_A;
    Value *b = ir_operand(s->instr, !turned);
    const Type *r = ir_result(s->instr)->type;
    *t = (Thin){ .g = g,
        .s = s,
        .b = b,
        .from = b->type->dtype,
        .as = mma_operand_type(s->mma, b),
        .packed = ir_operand(s->instr, turned)->type->dtype,
        .lanes = mma_vector_lanes(g->target, s->mma),
        .m = r->shape[turned],
        .n = r->shape[!turned],
        .k = b->type->shape[turned] };
    if (turned) thin_index(t);
    thin_find_pairs(t);
    for (t->rows = t->index || t->pairs ? MOST_OF_TABLES : MOST_AT_ONCE; t->m % t->rows; t->rows--);
    t->inverts = thin_inverts(s);
    t->vec = gen_type(g, r->dtype, t->lanes);
}

/* Packs an operand that is not packed yet, and finds the windows of the other one. `whole`: the condition
 * that all are. */
static void thin_init_all(Thin *t, Gen *g, Step *s, LLVMValueRef *whole)
{
    thin_init(t, g, s);
    if (s->thin == THIN_DOTS_OF_A) thin_columns_as_rows(t);
    thin_find_windows(t, whole);
}

/* Lets the loads of B fetch what is ahead. */
static void set_ahead(Thin *t)
{
    for (int k = 0; k < t->windows.n; k++) {
        Window *w = t->windows.w[k];
        w->ahead = t->windows.ahead[k];
        if (w->ahead) w->locality = 2;
    }
}

Step *mma_before(const Steps *in, const Step *s)
{
    Step *before = NULL;
    const Value *sums = ir_operand(s->instr, 2);
    for (Step *i = in->first; i; i = i->next)
        if (i->kind != STEP_WINDOW && i->kind != STEP_SCALAR) before = i;
    if (!before || before->kind != STEP_MMA || ir_result(before->instr) != sums || ir_use_count(sums) != 1)
        return NULL;
    const Type *x = ir_operand(before->instr, 0)->type, *y = ir_operand(s->instr, 0)->type;
    bool alike = before->thin == s->thin && before->mma == s->mma && x->dtype == y->dtype &&
                 x->shape[1] == y->shape[1];
    return alike && s->thin != THIN_STRIPS && !thin_inverts(s) && !thin_inverts(before) && !before->with
               ? before
               : NULL;
}

void thin_emit(Gen *g, Step *s)
{
    Thin t, with;
    LLVMValueRef whole = NULL;
    if (s->joined) return;
    thin_init_all(&t, g, s->with ? s->with : s, &whole);
    if (s->with) {
        thin_init_all(&with, g, s, &whole);
        t.rows = with.rows = t.rows < with.rows ? t.rows : with.rows;
        t.with = &with;
        set_ahead(&with);
    }
    set_ahead(&t);
    thin_guard(&t, whole, product, NULL);
}
