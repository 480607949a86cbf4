/* mma.c: matrix products.
 *
 *     acc[M][N] += A[M][K] B[K][N]      A: rows (FORM_ROWS), B: panels of nr columns (FORM_PANELS,
 *                                       FORM_PAIRS), acc: dense
 *
 * For each panel of B and each block of mr rows of A, mr x nv vectors of acc stay in registers while k runs:
 * nv loads of B and mr broadcasts of A for mr * nv multiply-adds. mr and nv fit the register file
 * (mma_block_shape). Packing converts once to what the products run in: f32 for f16, fp8 and f32; pairs of
 * bf16 for vdpbf16ps; pairs of 16-bit integers for i8. */
#include "backends/cpu/cpu.h"
#include <stdio.h>

MmaKind mma_kind(const CpuTarget *t, const Instr *i)
{
    DType a = ir_operand(i, 0)->type->dtype;
    if (a == DT_F64) return MMA_F64;
    if (a == DT_I8 || a == DT_U8) return MMA_I16_PAIRS;
    return a == DT_BF16 && t->bf16 && t->avx512 ? MMA_BF16_PAIRS : MMA_F32;
}

static int vector_lanes(const CpuTarget *t, MmaKind k) { return t->vector_bytes / (k == MMA_F64 ? 8 : 4); }
static bool is_pairs(MmaKind k) { return k == MMA_BF16_PAIRS || k == MMA_I16_PAIRS; }

/* Every extra shape of block (rows or columns left over) is code to compile: worth a few percent of run time.
 */
void mma_block_shape(const CpuTarget *t, MmaKind k, int64_t m, int64_t n, int *mr, int *nv)
{
    int64_t vectors = (n + vector_lanes(t, k) - 1) / vector_lanes(t, k);
    double best = 1e300;
    for (int v = 1; v <= 4; v++) {
        int most = (t->n_vector_regs - (t->avx2 ? 1 : 2) - v) /
                   v; /* without fused multiply-adds the product needs a place */
        if (most > 14) most = 14;
        for (int r = most; r >= 1; r--) {
            int64_t blocks = (m + r - 1) / r, rows = (m + blocks - 1) / blocks,
                    panels = (vectors + v - 1) / v;
            if (rows != r && r > 1) continue;     /* a smaller r makes the same blocks */
            double issue = (double)(vectors * m); /* multiply-adds */
            double loads =
                (double)(blocks * vectors) + 0.6 * (double)(panels * m); /* B vectors, broadcasts of A */
            double latency = rows * v < 10 ? 10.0 / (double)(rows * v) : 1;
            int shapes = (1 + (m % blocks != 0)) * (1 + (vectors % v != 0 && vectors > v));
            double score = issue * latency + 0.25 * loads + 0.02 * (double)(blocks * panels) +
                           0.04 * (shapes - 1) * issue;
            if (score < best) {
                best = score;
                *mr = r;
                *nv = v;
            }
        }
    }
}

/* --- packing ----------------------------------------------------------------------------------------- */

static LLVMValueRef imul(Gen *g, LLVMValueRef a, int64_t k)
{ return LLVMBuildMul(g->b, a, gen_int(g, k), ""); }
static LLVMValueRef iadd(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->b, a, b, ""); }

static LLVMValueRef piece_of(Gen *g, LLVMValueRef v, int from, int n)
{
    int mask[64];
    if (n == gen_lanes(v)) return v;
    if (n == 1) return LLVMBuildExtractElement(g->b, v, gen_int(g, from), "");
    for (int k = 0; k < n; k++) mask[k] = from + k;
    return gen_shuffle(g, v, NULL, mask, n);
}

/* Address of element (row, column) of panels; `row` counts pairs in FORM_PAIRS. */
static LLVMValueRef panel_ptr(Gen *g, const Buf *b, LLVMValueRef row, LLVMValueRef column)
{
    bool pairs = b->form == FORM_PAIRS;
    int64_t unit = dtype_bytes(b->dtype) * (pairs ? 2 : 1),
            rows = pairs ? (b->shape[0] + 1) / 2 : b->shape[0];
    LLVMValueRef panel = LLVMBuildUDiv(g->b, column, gen_int(g, b->nr), ""),
                 in = LLVMBuildURem(g->b, column, gen_int(g, b->nr), "");
    LLVMValueRef at = iadd(g, iadd(g, imul(g, panel, rows * b->nr), imul(g, row, b->nr)), in);
    return gen_ptr(g, gen_buf(g, b, 0), imul(g, at, unit));
}

void mma_pack_store(Eval *e, const Buf *b, DType from, LLVMValueRef v, LLVMValueRef row, LLVMValueRef column)
{
    Gen *g = e->g;
    int bytes = dtype_bytes(b->dtype), lanes = gen_lanes(v);
    v = convert(g, b->dtype, from, v);
    if (b->form == FORM_ROWS) {
        gen_store(g, b->dtype, v,
            gen_ptr(g, gen_buf(g, b, 0), imul(g, iadd(g, imul(g, row, b->ld), column), bytes)));
        return;
    }
    int width = vector_lanes(g->target, b->dtype == DT_F64 ? MMA_F64 : MMA_F32);
    if (width > lanes) width = lanes;
    for (int at = 0; at < lanes; at += width) {
        LLVMValueRef x = piece_of(g, v, at, width), c = iadd(g, column, gen_int(g, at));
        if (b->form == FORM_PANELS) {
            gen_store(g, b->dtype, x, panel_ptr(g, b, row, c));
            continue;
        }
        /* a pair holds rows 2r and 2r + 1; the even row comes first and clears the other half */
        LLVMValueRef ptr = panel_ptr(g, b, LLVMBuildLShr(g->b, row, gen_int(g, 1), ""), c);
        LLVMTypeRef t = gen_vec(g->i32, width);
        LLVMValueRef odd = LLVMBuildTrunc(g->b, LLVMBuildAnd(g->b, row, gen_int(g, 1), ""), g->i32, "");
        LLVMValueRef keep = gen_splat(g, LLVMBuildNeg(g->b, odd, ""), width);
        LLVMValueRef shift = gen_splat(g, LLVMBuildShl(g->b, odd, LLVMConstInt(g->i32, 4, false), ""), width);
        LLVMValueRef old = LLVMBuildLoad2(g->b, t, ptr, "");
        LLVMSetAlignment(old, 4);
        LLVMValueRef w = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, x, t, ""), shift, "");
        LLVMSetAlignment(
            LLVMBuildStore(g->b, LLVMBuildOr(g->b, w, LLVMBuildAnd(g->b, old, keep, ""), ""), ptr), 4);
    }
}

/* --- turning ----------------------------------------------------------------------------------------- */

/* x[i] are n vectors of n elements; transposed in place in log2 n rounds of two-operand shuffles. */
static void transpose(Gen *g, LLVMValueRef *x, int n)
{
    for (int d = n / 2; d; d /= 2)
        for (int i = 0; i < n; i++) {
            if (i & d) continue;
            int lo[64], hi[64];
            for (int j = 0; j < n; j++) {
                lo[j] = j & d ? n + j - d : j;
                hi[j] = j & d ? n + j : j + d;
            }
            LLVMValueRef a = x[i], b = x[i + d];
            x[i] = gen_shuffle(g, a, b, lo, n);
            x[i + d] = gen_shuffle(g, a, b, hi, n);
        }
}

typedef struct Turn {
    Gen *g;
    Step *s;
    int t, l;
    LLVMValueRef coord[TILE_MAX_RANK];
} Turn;

/* The value along axis t, although it may have the very buffer that is being filled. */
static LLVMValueRef turn_eval(Turn *u, int lanes)
{
    Gen *g = u->g;
    Eval e;
    eval_init(&e, g, lanes);
    ValInfo *info = plan_info(g->plan, u->s->value);
    Buf *own = info->buf;
    if (own == u->s->buf) info->buf = NULL;
    LLVMValueRef v = nest_eval(&e, u->s->value, u->coord, u->t);
    info->buf = own;
    return v;
}

static void turn_put(Turn *u, LLVMValueRef v)
{
    Eval e;
    eval_init(&e, u->g, gen_lanes(v));
    if (u->s->buf->form == FORM_DENSE) buf_store(&e, u->s->buf, v, u->coord, u->l);
    else mma_pack_store(&e, u->s->buf, u->s->value->type->dtype, v, u->coord[0], u->coord[1]);
}

/* Address of position (t0, l0) in the buffer, and the distance in bytes from there to (t0 + 1, l0) (pairs: t0
 * + 2). */
static LLVMValueRef turn_to(Turn *u, LLVMValueRef t0, LLVMValueRef l0, int64_t *stride)
{
    Gen *g = u->g;
    const Buf *b = u->s->buf;
    int bytes = dtype_bytes(b->dtype);
    switch (b->form) {
    case FORM_PANELS: *stride = b->nr * bytes; return panel_ptr(g, b, t0, l0);
    case FORM_PAIRS:
        *stride = b->nr * 4;
        return panel_ptr(g, b, LLVMBuildLShr(g->b, t0, gen_int(g, 1), ""), l0);
    case FORM_ROWS:
        *stride = b->ld * bytes;
        return gen_ptr(g, gen_buf(g, b, 0), imul(g, iadd(g, imul(g, t0, b->ld), l0), bytes));
    case FORM_DENSE: break;
    }
    LLVMValueRef at = gen_int(g, 0);
    int64_t s = bytes;
    for (int a = b->rank - 1; a >= 0; a--) {
        at = iadd(g, at, imul(g, a == u->t ? t0 : a == u->l ? l0 : u->coord[a], s));
        if (a == u->t) *stride = s;
        s *= b->shape[a];
    }
    return gen_ptr(g, gen_buf(g, b, 0), at);
}

/* For 32-bit elements: four columns at a time. Register r gets row 4 l + r in its 128-bit lane l, four
 * elements of it; two rounds of shuffles within lanes then make the columns. A loop over n / 4 groups: a
 * quarter of the code of the general way, and no slower. */
static void transpose_by_4(
    Gen *g, LLVMTypeRef elem, int n, int64_t stride, LLVMValueRef from, LLVMValueRef to)
{
    LLVMTypeRef quad = gen_vec(elem, 4);
    LLVMValueRef x[4], y[4];
    int mask[64], lo[16], hi[16], even[16], odd[16];
    for (int k = 0; k < 64; k++) mask[k] = k;
    for (int k = 0; k < n;
        k++) { /* of pairs of registers: a0 b0 a1 b1 | a2 b2 a3 b3 in each lane; then halves of lanes */
        int lane = k / 4 * 4, in = k % 4;
        lo[k] = lane + in / 2 + (in % 2 ? n : 0);
        hi[k] = lo[k] + 2;
        even[k] = in < 2 ? lane + in : n + lane + in - 2;
        odd[k] = even[k] + 2;
    }
    Loop l;
    LLVMValueRef c = gen_loop(g, &l, gen_int(g, 0), gen_int(g, n), 4);
    LLVMValueRef source = gen_ptr(g, from, imul(g, c, 4)), target = gen_ptr(g, to, imul(g, c, stride));
    for (int r = 0; r < 4; r++) {
        LLVMValueRef part[4] = { NULL };
        for (int k = 0; k < n / 4; k++) {
            part[k] = LLVMBuildLoad2(g->b, quad, gen_ptr(g, source, gen_int(g, (4 * k + r) * n * 4)), "");
            LLVMSetAlignment(part[k], 16);
        }
        for (int m = n / 4, w = 4; m > 1; m /= 2, w *= 2)
            for (int k = 0; k < m / 2; k++)
                part[k] = gen_shuffle(g, part[2 * k], part[2 * k + 1], mask, 2 * w);
        x[r] = part[0];
    }
    for (int r = 0; r < 2; r++) {
        y[2 * r] = gen_shuffle(g, x[2 * r], x[2 * r + 1], lo, n);
        y[2 * r + 1] = gen_shuffle(g, x[2 * r], x[2 * r + 1], hi, n);
    }
    x[0] = gen_shuffle(g, y[0], y[2], even, n);
    x[1] = gen_shuffle(g, y[0], y[2], odd, n);
    x[2] = gen_shuffle(g, y[1], y[3], even, n);
    x[3] = gen_shuffle(g, y[1], y[3], odd, n);
    for (int r = 0; r < 4; r++)
        LLVMSetAlignment(LLVMBuildStore(g->b, x[r], gen_ptr(g, target, gen_int(g, r * stride))), 4);
    gen_loop_end(g, &l);
}

/* void (from, to): n vectors of n elements side by side, transposed, to rows `stride` bytes apart. */
static LLVMValueRef transposer(Gen *g, LLVMTypeRef elem, int n, int64_t stride, LLVMTypeRef *type)
{
    char name[64];
    char *text = LLVMPrintTypeToString(elem);
    format_text(name, sizeof name, "tile.transpose.%s.%d.%lld", text, n, (long long)stride);
    LLVMDisposeMessage(text);
    *type = LLVMFunctionType(g->voidt, (LLVMTypeRef[]){ g->ptr, g->ptr }, 2, false);
    LLVMValueRef f = helper_find(g, name), x[64];
    if (f) return f;
    Helper h;
    f = helper_begin(g, &h, name, *type);
    if ((elem == g->f32 || elem == g->i32) && n % 4 == 0) {
        transpose_by_4(g, elem, n, stride, LLVMGetParam(f, 0), LLVMGetParam(f, 1));
        LLVMBuildRetVoid(g->b);
        helper_end(g, &h);
        return f;
    }
    LLVMTypeRef vec = gen_vec(elem, n);
    for (int k = 0; k < n; k++) {
        LLVMValueRef at = gen_int(g, k);
        x[k] = LLVMBuildLoad2(g->b, vec, LLVMBuildGEP2(g->b, vec, LLVMGetParam(f, 0), &at, 1, ""), "");
    }
    transpose(g, x, n);
    for (int k = 0; k < n; k++)
        LLVMSetAlignment(
            LLVMBuildStore(g->b, x[k], gen_ptr(g, LLVMGetParam(f, 1), gen_int(g, k * stride))), 1);
    LLVMBuildRetVoid(g->b);
    helper_end(g, &h);
    return f;
}

static void turn_block(Turn *u, LLVMValueRef t0, LLVMValueRef l0, int n, bool pairs)
{
    Gen *g = u->g;
    DType d = u->s->value->type->dtype, stored = u->s->buf->form == FORM_DENSE ? d : u->s->buf->dtype;
    LLVMTypeRef elem = pairs ? g->i32 : gen_mem_type(g, stored, 1), vec = gen_vec(elem, n);
    LLVMValueRef tmp = gen_alloca(g, LLVMArrayType2(vec, (uint64_t)n), "block");
    Loop l;
    u->coord[u->t] = t0;
    LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, n), 1);
    u->coord[u->l] = iadd(g, l0, i);
    LLVMValueRef v = convert(g, stored, d, turn_eval(u, pairs ? 2 * n : n));
    if (pairs) v = LLVMBuildBitCast(g->b, v, vec, "");
    LLVMValueRef cell = LLVMBuildGEP2(g->b, vec, tmp, &i, 1, "");
    if (stored == DT_BOOL) v = LLVMBuildZExt(g->b, v, vec, "");
    LLVMBuildStore(g->b, v, cell);
    gen_loop_end(g, &l);
    u->coord[u->l] = l0;
    int64_t stride = 0;
    LLVMValueRef to = turn_to(u, t0, l0, &stride);
    LLVMTypeRef type;
    LLVMValueRef f = transposer(g, elem, n, stride, &type);
    LLVMBuildCall2(g->b, type, f, (LLVMValueRef[]){ tmp, to }, 2, "");
}

/* Positions [t0, t1) x [l0, l1) one by one. */
static void turn_rest(Turn *u, int64_t t0, int64_t t1, int64_t l0, int64_t l1)
{
    if (t0 >= t1 || l0 >= l1) return;
    Loop a, b;
    u->coord[u->t] = gen_loop(u->g, &a, gen_int(u->g, t0), gen_int(u->g, t1), 1);
    u->coord[u->l] = gen_loop(u->g, &b, gen_int(u->g, l0), gen_int(u->g, l1), 1);
    turn_put(u, turn_eval(u, 1));
    gen_loop_end(u->g, &b);
    gen_loop_end(u->g, &a);
}

static void turn_plane(Turn *u)
{
    Gen *g = u->g;
    const int64_t *shape = u->s->value->type->shape;
    int64_t nt = shape[u->t], nl = shape[u->l];
    bool pairs = u->s->buf->form == FORM_PAIRS;
    int n = u->s->buf->dtype == DT_F64 ? plan_lanes(g->target) / 2
                                       : plan_lanes(g->target); /* divides a panel's columns */
    while (n > 1 && (n > nl || (pairs ? 2 : 1) * n > nt)) n /= 2;
    int64_t step = pairs ? 2 * n : n, tm = n > 1 ? nt / step * step : 0, lm = n > 1 ? nl / n * n : 0;
    if (pairs && nt % 2) { /* the half pair at the end */
        LLVMBuildMemSet(
            g->b, gen_buf(g, u->s->buf, 0), LLVMConstInt(g->i8, 0, false), gen_int(g, u->s->buf->bytes), 64);
    }
    if (tm && lm) {
        Loop a, b;
        LLVMValueRef l0 = gen_loop(g, &a, gen_int(g, 0), gen_int(g, lm), n);
        LLVMValueRef t0 = gen_loop(g, &b, gen_int(g, 0), gen_int(g, tm), step);
        turn_block(u, t0, l0, n, pairs);
        gen_loop_end(g, &b);
        gen_loop_end(g, &a);
    }
    turn_rest(u, 0, tm, lm, nl);
    turn_rest(u, tm, nt, 0, nl);
}

static void turn_axes(Turn *u, int axis)
{
    const Type *t = u->s->value->type;
    if (axis == t->rank) {
        turn_plane(u);
        return;
    }
    if (axis == u->t || axis == u->l) {
        turn_axes(u, axis + 1);
        return;
    }
    if (t->shape[axis] == 1) {
        u->coord[axis] = gen_int(u->g, 0);
        turn_axes(u, axis + 1);
        return;
    }
    Loop l;
    u->coord[axis] = gen_loop(u->g, &l, gen_int(u->g, 0), gen_int(u->g, t->shape[axis]), 1);
    turn_axes(u, axis + 1);
    gen_loop_end(u->g, &l);
}

void mma_clear_padding(Gen *g, const Buf *b)
{
    if (b->form == FORM_ROWS && b->ld > b->shape[1] && dtype_bits(b->dtype) == 16 && b->shape[1] % 2)
        LLVMBuildMemSet(g->b, gen_buf(g, b, 0), LLVMConstInt(g->i8, 0, false), gen_int(g, b->bytes), 64);
}

void turn_emit(Gen *g, Step *s)
{
    Turn u = { .g = g, .s = s, .t = s->order[0], .l = s->order[1] };
    if (s->instr->op == OP_LOAD && !g->windows[ir_result(s->instr)->id]) memory_window(g, s->instr);
    mma_clear_padding(g, s->buf);
    turn_axes(&u, 0);
}

/* --- the product ------------------------------------------------------------------------------------- */

typedef struct Kernel {
    Gen *g;
    Step *s;
    int lanes;
    int64_t m, n, k;
    LLVMTypeRef vec;
    DType acc;
    LLVMValueRef a, b, from, to; /* addresses; from: NULL starts at zero */
} Kernel;

static LLVMValueRef multiply_add(Kernel *x, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
    Gen *g = x->g;
    int bytes = g->target->vector_bytes;
    if (x->s->mma == MMA_BF16_PAIRS) {
        LLVMTypeRef t = LLVMVectorType(LLVMBFloatTypeInContext(g->ctx), (unsigned)bytes / 2);
        LLVMValueRef v[] = { acc, LLVMBuildBitCast(g->b, a, t, ""), LLVMBuildBitCast(g->b, b, t, "") };
        return gen_intrinsic(g,
            bytes == 64   ? "llvm.x86.avx512bf16.dpbf16ps.512"
            : bytes == 32 ? "llvm.x86.avx512bf16.dpbf16ps.256"
                          : "llvm.x86.avx512bf16.dpbf16ps.128",
            NULL, 0, v, 3);
    }
    if (x->s->mma == MMA_I16_PAIRS) {
        LLVMTypeRef t = gen_vec(g->i16, bytes / 2);
        LLVMValueRef v[] = { LLVMBuildBitCast(g->b, a, t, ""), LLVMBuildBitCast(g->b, b, t, "") };
        const char *name = bytes == 64   ? "llvm.x86.avx512.pmaddw.d.512"
                           : bytes == 32 ? "llvm.x86.avx2.pmadd.wd"
                                         : "llvm.x86.sse2.pmadd.wd";
        return LLVMBuildAdd(g->b, acc, gen_intrinsic(g, name, NULL, 0, v, 2), "");
    }
    LLVMValueRef v[] = { a, b, acc };
    return gen_intrinsic(
        g, g->target->avx2 ? "llvm.fma" : "llvm.fmuladd", (LLVMTypeRef[]){ LLVMTypeOf(acc) }, 1, v, 3);
}

static LLVMValueRef tail_mask(Gen *g, int lanes, int on)
{
    LLVMValueRef *m = arena_array(g->arena, LLVMValueRef, (size_t)lanes);
    for (int k = 0; k < lanes; k++) m[k] = LLVMConstInt(g->i1, k < on, false);
    return LLVMConstVector(m, (unsigned)lanes);
}

/* acc vector v of row r of a block; `on` lanes of it exist. */
static LLVMValueRef acc_load(Kernel *x, LLVMValueRef ptr, int on)
{
    Gen *g = x->g;
    if (on == x->lanes) return gen_load(g, x->acc, x->lanes, ptr);
    LLVMTypeRef types[] = { x->vec, g->ptr };
    LLVMValueRef v[] = { ptr, tail_mask(g, x->lanes, on), LLVMConstNull(x->vec) };
    return gen_intrinsic(g, "llvm.masked.load", types, 2, v, 3);
}

static void acc_store(Kernel *x, LLVMValueRef value, LLVMValueRef ptr, int on)
{
    Gen *g = x->g;
    if (on == x->lanes) {
        gen_store(g, x->acc, value, ptr);
        return;
    }
    LLVMTypeRef types[] = { x->vec, g->ptr };
    LLVMValueRef v[] = { value, ptr, tail_mask(g, x->lanes, on) };
    gen_intrinsic(g, "llvm.masked.store", types, 2, v, 3);
}

enum { MAX_ACC = 64 };

/* mr rows from row0, nv vectors of the panel at column; `columns` of them are real. */
static void block(
    Kernel *x, int mr, int nv, int64_t columns, LLVMValueRef row0, LLVMValueRef panel, LLVMValueRef column)
{
    Gen *g = x->g;
    Step *s = x->s;
    int acc_bytes = dtype_bytes(x->acc), vbytes = x->lanes * acc_bytes, abytes = dtype_bytes(s->a->dtype);
    bool pairs = is_pairs(s->mma);
    int64_t steps = pairs ? (x->k + 1) / 2 : x->k, aunit = pairs ? 4 : abytes,
            bstep = s->b->nr * (pairs ? 4 : abytes);
    LLVMValueRef at = imul(g, iadd(g, imul(g, row0, x->n), column), acc_bytes), init[MAX_ACC], acc[MAX_ACC],
                 phi[MAX_ACC];
    LLVMValueRef from = x->from ? gen_ptr(g, x->from, at) : NULL, to = gen_ptr(g, x->to, at);
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++) {
            int on = columns - v * x->lanes < x->lanes ? (int)(columns - v * x->lanes) : x->lanes;
            init[r * nv + v] =
                from ? acc_load(x, gen_ptr(g, from, gen_int(g, r * x->n * acc_bytes + v * vbytes)), on)
                     : LLVMConstNull(x->vec);
        }
    LLVMValueRef arow = gen_ptr(g, x->a, imul(g, row0, s->a->ld * abytes));
    int unroll = 1;
    while (unroll * mr * nv < 16 && unroll < 4 && steps % (2 * unroll) == 0) unroll *= 2;
    Loop l;
    LLVMValueRef k = gen_loop(g, &l, gen_int(g, 0), gen_int(g, steps), unroll);
    for (int c = 0; c < mr * nv; c++) acc[c] = phi[c] = LLVMBuildPhi(g->b, x->vec, "");
    LLVMValueRef ak = gen_ptr(g, arow, imul(g, k, aunit)), bk = gen_ptr(g, panel, imul(g, k, bstep));
    for (int u = 0; u < unroll; u++) {
        LLVMValueRef b[8];
        for (int v = 0; v < nv; v++) {
            LLVMTypeRef t = pairs ? gen_vec(g->i32, x->lanes) : x->vec;
            b[v] = LLVMBuildLoad2(g->b, t, gen_ptr(g, bk, gen_int(g, u * bstep + v * vbytes)), "");
            LLVMSetAlignment(b[v], 4);
        }
        for (int r = 0; r < mr; r++) {
            LLVMTypeRef t = pairs ? g->i32 : gen_type(g, x->acc, 1);
            LLVMValueRef one =
                LLVMBuildLoad2(g->b, t, gen_ptr(g, ak, gen_int(g, u * aunit + r * s->a->ld * abytes)), "");
            LLVMSetAlignment(one, (unsigned)abytes);
            LLVMValueRef a = gen_splat(g, one, x->lanes);
            for (int v = 0; v < nv; v++) acc[r * nv + v] = multiply_add(x, acc[r * nv + v], a, b[v]);
        }
    }
    LLVMBasicBlockRef latch = gen_here(g), before = l.before;
    gen_loop_end(g, &l);
    for (int c = 0; c < mr * nv; c++)
        LLVMAddIncoming(
            phi[c], (LLVMValueRef[]){ init[c], acc[c] }, (LLVMBasicBlockRef[]){ before, latch }, 2);
    for (int r = 0; r < mr; r++)
        for (int v = 0; v < nv; v++) {
            int on = columns - v * x->lanes < x->lanes ? (int)(columns - v * x->lanes) : x->lanes;
            acc_store(x, acc[r * nv + v], gen_ptr(g, to, gen_int(g, r * x->n * acc_bytes + v * vbytes)), on);
        }
}

/* All row blocks of one panel: as equal as can be. */
static void panel_rows(Kernel *x, int nv, int64_t columns, LLVMValueRef panel, LLVMValueRef column)
{
    Gen *g = x->g;
    int64_t blocks = (x->m + x->s->mr - 1) / x->s->mr, rows = x->m / blocks, more = x->m % blocks;
    Loop l;
    if (more) {
        LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, more), 1);
        block(x, (int)rows + 1, nv, columns, imul(g, i, rows + 1), panel, column);
        gen_loop_end(g, &l);
    }
    LLVMValueRef i = gen_loop(g, &l, gen_int(g, more), gen_int(g, blocks), 1);
    block(x, (int)rows, nv, columns, iadd(g, imul(g, i, rows), gen_int(g, more)), panel, column);
    gen_loop_end(g, &l);
}

static void product(Kernel *x)
{
    Gen *g = x->g;
    Step *s = x->s;
    int64_t nr = s->b->nr, full = x->n / nr, rest = x->n % nr;
    int64_t panel_bytes = nr * (is_pairs(s->mma) ? (x->k + 1) / 2 * 4 : x->k * dtype_bytes(s->b->dtype));
    Loop l;
    if (full) {
        LLVMValueRef j = gen_loop(g, &l, gen_int(g, 0), gen_int(g, full), 1);
        panel_rows(x, s->nv, nr, gen_ptr(g, x->b, imul(g, j, panel_bytes)), imul(g, j, nr));
        gen_loop_end(g, &l);
    }
    if (rest)
        panel_rows(x, (int)((rest + x->lanes - 1) / x->lanes), rest,
            gen_ptr(g, x->b, gen_int(g, full * panel_bytes)), gen_int(g, full * nr));
}

/* A function for each shape: kernels repeat products (peeled loops), and code is what compile time goes to.
 */
void mma_emit(Gen *g, Step *s)
{
    const Type *a = ir_operand(s->instr, 0)->type, *r = ir_result(s->instr)->type;
    Kernel x = { .g = g,
        .s = s,
        .lanes = vector_lanes(g->target, s->mma),
        .m = r->shape[0],
        .n = r->shape[1],
        .k = a->shape[1],
        .acc = r->dtype };
    char name[96];
    format_text(name, sizeof name, "tile.mma.%d.%lldx%lldx%lld.%lld.%d", s->mma, (long long)x.m,
        (long long)x.n, (long long)x.k, (long long)s->a->ld, s->zero_acc);
    LLVMTypeRef type =
        LLVMFunctionType(g->voidt, (LLVMTypeRef[]){ g->ptr, g->ptr, g->ptr, g->ptr }, 4, false);
    LLVMValueRef f = helper_find(g, name);
    if (!f) {
        Helper h;
        f = helper_begin(g, &h, name, type);
        x.vec = gen_type(g, x.acc, x.lanes);
        x.a = LLVMGetParam(f, 0);
        x.b = LLVMGetParam(f, 1);
        x.from = s->acc ? LLVMGetParam(f, 2) : NULL;
        x.to = LLVMGetParam(f, 3);
        product(&x);
        LLVMBuildRetVoid(g->b);
        helper_end(g, &h);
    }
    LLVMValueRef args[] = { gen_buf(g, s->a, 0), gen_buf(g, s->b, 0), gen_buf(g, s->acc ? s->acc : s->buf, 0),
        gen_buf(g, s->buf, 0) };
    LLVMBuildCall2(g->b, type, f, args, 4, "");
}
