/* mma_pack.c: the operands of products in panels: values are packed as they are stored (mma_pack_store), and
 * a tile whose axes lie the other way in memory is transposed on its way (transpose_emit). mma.c multiplies
 * what lies here. */
#include "backends/cpu/mma.h"
#include <stdio.h>

static LLVMValueRef piece_of(Gen *g, LLVMValueRef v, int from, int n)
{
    int mask[64];
    if (n == gen_lanes(v)) return v;
    if (n == 1) return LLVMBuildExtractElement(g->b, v, gen_int(g, from), "");
    for (int k = 0; k < n; k++) mask[k] = from + k;
    return gen_shuffle(g, v, NULL, mask, n);
}

/* Address of element (row, column) of panels; `row` counts groups in FORM_GROUPS. */
static LLVMValueRef panel_ptr(Gen *g, const Buf *b, LLVMValueRef row, LLVMValueRef column)
{
    int group = b->form == FORM_GROUPS ? mma_group(b->dtype) : 1;
    int64_t unit = dtype_bytes(b->dtype) * group, rows = b->depth;
    LLVMValueRef panel = LLVMBuildUDiv(g->b, column, gen_int(g, b->nr), ""),
                 in = LLVMBuildURem(g->b, column, gen_int(g, b->nr), "");
    LLVMValueRef at = gen_iadd(g, gen_iadd(g, gen_imul(g, panel, rows * b->nr), gen_imul(g, row, b->nr)), in);
    return gen_ptr(g, gen_buf(g, b, 0), gen_imul(g, at, unit));
}

/* Elements of type `from` as the operand holds them. */
static LLVMValueRef as_packed(Gen *g, const Buf *b, DType from, LLVMValueRef v)
{
    v = convert(g, b->dtype, from, v);
    if (!b->offset_128) return v;
    LLVMValueRef high = LLVMConstInt(g->i8, 0x80, false);
    return LLVMBuildXor(g->b, v, gen_lanes(v) > 1 ? gen_splat(g, high, gen_lanes(v)) : high, "");
}

void mma_pack_store(Eval *e, const Buf *b, DType from, LLVMValueRef v, LLVMValueRef row, LLVMValueRef column)
{
    Gen *g = e->g;
    int bytes = dtype_bytes(b->dtype), lanes = gen_lanes(v);
    v = as_packed(g, b, from, v);
    if (b->form == FORM_ROWS) {
        gen_store(g, b->dtype, v,
            gen_ptr(g, gen_buf(g, b, 0), gen_imul(g, gen_iadd(g, gen_imul(g, row, b->ld), column), bytes)));
        return;
    }
    int width = mma_vector_lanes(g->target, b->dtype == DT_F64 ? MMA_F64 : MMA_F32);
    if (width > lanes) width = lanes;
    for (int at = 0; at < lanes; at += width) {
        LLVMValueRef x = piece_of(g, v, at, width), c = gen_iadd(g, column, gen_int(g, at));
        if (b->form == FORM_PANELS) {
            gen_store(g, b->dtype, x, panel_ptr(g, b, row, c));
            continue;
        }
        /* A group holds rows r * group and on. Its first row is written first and clears the others. */
        int group = mma_group(b->dtype);
        LLVMValueRef ptr = panel_ptr(g, b, LLVMBuildUDiv(g->b, row, gen_int(g, group), ""), c);
        LLVMTypeRef t = gen_vec(g->i32, width);
        LLVMValueRef in = LLVMBuildTrunc(g->b, LLVMBuildURem(g->b, row, gen_int(g, group), ""), g->i32, "");
        LLVMValueRef later = LLVMBuildICmp(g->b, LLVMIntNE, in, LLVMConstInt(g->i32, 0, false), "");
        LLVMValueRef keep = gen_splat(g, LLVMBuildSExt(g->b, later, g->i32, ""), width);
        LLVMValueRef bits = LLVMConstInt(g->i32, (unsigned)dtype_bits(b->dtype), false);
        LLVMValueRef shift = gen_splat(g, LLVMBuildMul(g->b, in, bits, ""), width);
        LLVMValueRef old = LLVMBuildLoad2(g->b, t, ptr, "");
        LLVMSetAlignment(old, 4);
        if (b->dtype == DT_F16) x = LLVMBuildBitCast(g->b, x, gen_vec(g->i16, width), "");
        LLVMValueRef w = LLVMBuildShl(g->b, LLVMBuildZExt(g->b, x, t, ""), shift, "");
        LLVMSetAlignment(
            LLVMBuildStore(g->b, LLVMBuildOr(g->b, w, LLVMBuildAnd(g->b, old, keep, ""), ""), ptr), 4);
    }
}

/* --- transposing ------------------------------------------------------------------------------------- */

/* x[i] are n vectors of n pieces of `piece` elements; transposed in place in log2 n rounds of two-operand
 * shuffles. */
static void transpose(Gen *g, LLVMValueRef *x, int n, int piece)
{
    int all = n * piece;
    for (int d = n / 2; d; d /= 2)
        for (int i = 0; i < n; i++) {
            if (i & d) continue;
            int lo[64], hi[64];
            for (int j = 0; j < all; j++) {
                bool other = j / piece & d;
                lo[j] = other ? all + j - d * piece : j;
                hi[j] = other ? all + j : j + d * piece;
            }
            LLVMValueRef a = x[i], b = x[i + d];
            x[i] = gen_shuffle(g, a, b, lo, all);
            x[i + d] = gen_shuffle(g, a, b, hi, all);
        }
}

typedef struct Transpose {
    Gen *g;
    Step *s;
    int t, l;
    LLVMValueRef coord[TILE_MAX_RANK];
} Transpose;

/* The value along axis t, although it may have the very buffer that is being filled. */
static LLVMValueRef transpose_eval(Transpose *u, int lanes)
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

static void transpose_put(Transpose *u, LLVMValueRef v)
{
    Eval e;
    eval_init(&e, u->g, gen_lanes(v));
    if (u->s->buf->form == FORM_DENSE) buf_store(&e, u->s->buf, v, u->coord, u->l);
    else mma_pack_store(&e, u->s->buf, u->s->value->type->dtype, v, u->coord[0], u->coord[1]);
}

/* Address of position (t0, l0) in the buffer, and the distance in bytes from there to (t0 + 1, l0); of
 * groups, to the next group. */
static LLVMValueRef transpose_to(Transpose *u, LLVMValueRef t0, LLVMValueRef l0, int64_t *stride)
{
    Gen *g = u->g;
    const Buf *b = u->s->buf;
    int bytes = dtype_bytes(b->dtype);
    switch (b->form) {
    case FORM_PANELS: *stride = b->nr * bytes; return panel_ptr(g, b, t0, l0);
    case FORM_GROUPS:
        *stride = b->nr * 4;
        return panel_ptr(g, b, LLVMBuildUDiv(g->b, t0, gen_int(g, mma_group(b->dtype)), ""), l0);
    case FORM_ROWS:
        *stride = b->ld * bytes;
        return gen_ptr(g, gen_buf(g, b, 0), gen_imul(g, gen_iadd(g, gen_imul(g, t0, b->ld), l0), bytes));
    case FORM_COLUMNS: /* pack_columns */
    case FORM_DENSE: break;
    }
    LLVMValueRef at = gen_int(g, 0);
    int64_t s = bytes;
    for (int a = b->rank - 1; a >= 0; a--) {
        at = gen_iadd(g, at, gen_imul(g, a == u->t ? t0 : a == u->l ? l0 : u->coord[a], s));
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
    /* Interleave pairs of registers: a0 b0 a1 b1 | a2 b2 a3 b3 in each lane; then exchange halves of lanes.
     */
    for (int k = 0; k < n; k++) {
        int lane = k / 4 * 4, in = k % 4;
        lo[k] = lane + in / 2 + (in % 2 ? n : 0);
        hi[k] = lo[k] + 2;
        even[k] = in < 2 ? lane + in : n + lane + in - 2;
        odd[k] = even[k] + 2;
    }
    Loop l;
    LLVMValueRef c = gen_loop(g, &l, gen_int(g, 0), gen_int(g, n), 4);
    LLVMValueRef source = gen_ptr(g, from, gen_imul(g, c, 4)),
                 target = gen_ptr(g, to, gen_imul(g, c, stride));
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
    transpose(g, x, n, 1);
    for (int k = 0; k < n; k++)
        LLVMSetAlignment(
            LLVMBuildStore(g->b, x[k], gen_ptr(g, LLVMGetParam(f, 1), gen_int(g, k * stride))), 1);
    LLVMBuildRetVoid(g->b);
    helper_end(g, &h);
    return f;
}

/* n x n blocks of elements, or of groups of them that lie along the transposed axis. */
static void transpose_block(Transpose *u, LLVMValueRef t0, LLVMValueRef l0, int n, int group)
{
    Gen *g = u->g;
    DType d = u->s->value->type->dtype, stored = u->s->buf->form == FORM_DENSE ? d : u->s->buf->dtype;
    LLVMTypeRef elem = group > 1 ? g->i32 : gen_mem_type(g, stored, 1), vec = gen_vec(elem, n);
    LLVMValueRef tmp = gen_alloca(g, LLVMArrayType2(vec, (uint64_t)n), "block");
    Loop l;
    u->coord[u->t] = t0;
    LLVMValueRef i = gen_loop(g, &l, gen_int(g, 0), gen_int(g, n), 1);
    u->coord[u->l] = gen_iadd(g, l0, i);
    LLVMValueRef v = transpose_eval(u, group * n);
    v = u->s->buf->form == FORM_DENSE ? convert(g, stored, d, v) : as_packed(g, u->s->buf, d, v);
    if (group > 1) v = LLVMBuildBitCast(g->b, v, vec, "");
    LLVMValueRef cell = LLVMBuildGEP2(g->b, vec, tmp, &i, 1, "");
    if (stored == DT_BOOL) v = LLVMBuildZExt(g->b, v, vec, "");
    LLVMBuildStore(g->b, v, cell);
    gen_loop_end(g, &l);
    u->coord[u->l] = l0;
    int64_t stride = 0;
    LLVMValueRef to = transpose_to(u, t0, l0, &stride);
    LLVMTypeRef type;
    LLVMValueRef f = transposer(g, elem, n, stride, &type);
    LLVMBuildCall2(g->b, type, f, (LLVMValueRef[]){ tmp, to }, 2, "");
}

/* Positions [t0, t1) x [l0, l1) one by one. */
static void transpose_rest(Transpose *u, int64_t t0, int64_t t1, int64_t l0, int64_t l1)
{
    if (t0 >= t1 || l0 >= l1) return;
    Loop a, b;
    u->coord[u->t] = gen_loop(u->g, &a, gen_int(u->g, t0), gen_int(u->g, t1), 1);
    u->coord[u->l] = gen_loop(u->g, &b, gen_int(u->g, l0), gen_int(u->g, l1), 1);
    transpose_put(u, transpose_eval(u, 1));
    gen_loop_end(u->g, &b);
    gen_loop_end(u->g, &a);
}

static void transpose_plane(Transpose *u)
{
    Gen *g = u->g;
    const int64_t *shape = u->s->value->type->shape;
    int64_t nt = shape[u->t], nl = shape[u->l];
    int group = u->s->buf->form == FORM_GROUPS ? mma_group(u->s->buf->dtype) : 1;
    int n = u->s->buf->dtype == DT_F64 ? plan_lanes(g->target) / 2
                                       : plan_lanes(g->target); /* divides a panel's columns */
    while (n > 1 && (n > nl || group * n > nt)) n /= 2;
    int64_t step = group * n, tm = n > 1 ? nt / step * step : 0, lm = n > 1 ? nl / n * n : 0;
    if (nt % group) { /* the part of a group at the end */
        LLVMBuildMemSet(
            g->b, gen_buf(g, u->s->buf, 0), LLVMConstInt(g->i8, 0, false), gen_int(g, u->s->buf->bytes), 64);
    }
    if (tm && lm) {
        Loop a, b;
        LLVMValueRef l0 = gen_loop(g, &a, gen_int(g, 0), gen_int(g, lm), n);
        LLVMValueRef t0 = gen_loop(g, &b, gen_int(g, 0), gen_int(g, tm), step);
        transpose_block(u, t0, l0, n, group);
        gen_loop_end(g, &b);
        gen_loop_end(g, &a);
    }
    transpose_rest(u, 0, tm, lm, nl);
    transpose_rest(u, tm, nt, 0, nl);
}

static void transpose_axes(Transpose *u, int axis)
{
    const Type *t = u->s->value->type;
    if (axis == t->rank) {
        transpose_plane(u);
        return;
    }
    if (axis == u->t || axis == u->l) {
        transpose_axes(u, axis + 1);
        return;
    }
    if (t->shape[axis] == 1) {
        u->coord[axis] = gen_int(u->g, 0);
        transpose_axes(u, axis + 1);
        return;
    }
    Loop l;
    u->coord[axis] = gen_loop(u->g, &l, gen_int(u->g, 0), gen_int(u->g, t->shape[axis]), 1);
    transpose_axes(u, axis + 1);
    gen_loop_end(u->g, &l);
}

void mma_clear_padding(Gen *g, const Buf *b)
{
    int64_t along_k = b->shape[b->form == FORM_ROWS], tile = AMX_ROW_BYTES / dtype_bytes(b->dtype);
    if ((b->form == FORM_ROWS && along_k % mma_group(b->dtype)) || (b->in_tiles && along_k % tile))
        LLVMBuildMemSet(g->b, gen_buf(g, b, 0), LLVMConstInt(g->i8, 0, false), gen_int(g, b->bytes), 64);
}

/* --- groups of rows ---------------------------------------------------------------------------------- */

enum { LANE_BYTES = 16, LANE_WORDS = 4 }; /* in which shuffles of bytes stay */

/* Elements of a and b in turn, `unit` at a time, from the lower or the upper half of each lane. */
static LLVMValueRef unpack(Gen *g, LLVMValueRef a, LLVMValueRef b, int bytes, int unit, bool upper)
{
    int mask[64], n = gen_lanes(a), of_lane = LANE_BYTES / bytes;
    for (int j = 0; j < n; j++) {
        int in = j % of_lane, from = in / unit / 2 * unit + in % unit + (upper ? of_lane / 2 : 0);
        mask[j] = j / of_lane * of_lane + from + (in / unit % 2 ? n : 0);
    }
    return gen_shuffle(g, a, b, mask, n);
}

/* The vectors are of whole lanes. */
void mma_interleave(Gen *g, LLVMValueRef *x, int group)
{
    LLVMValueRef y[MAX_GROUP];
    int bytes = 4 / group, words = gen_lanes(x[0]) * bytes / 4, lanes = words / LANE_WORDS;
    for (int k = 0; k < group; k++) y[k] = unpack(g, x[k / 2 * 2], x[k / 2 * 2 + 1], bytes, 1, k % 2);
    if (group == 2) memcpy(x, y, 2 * sizeof *x);
    for (int k = 0; k < group && group == 4; k++) x[k] = unpack(g, y[k / 2], y[k / 2 + 2], bytes, 2, k % 2);
    /* Lane l of x[k] has the columns LANE_WORDS (group l + k) and on. */
    for (int k = 0; k < group; k++) y[k] = x[k] = LLVMBuildBitCast(g->b, x[k], gen_vec(g->i32, words), "");
    if (lanes == 4 && group == 4) transpose(g, x, 4, LANE_WORDS);
    else if (lanes > 1)
        for (int k = 0; k < group; k++) {
            int mask[16], first = k * lanes % group;
            for (int j = 0; j < words; j++) {
                int at = k * lanes + j / LANE_WORDS;
                mask[j] = at / group * LANE_WORDS + j % LANE_WORDS + (at % group == first ? 0 : words);
            }
            x[k] = gen_shuffle(g, y[first], y[(first + 1) % group], mask, words);
        }
}

/* The same for rows that are short: one vector of all groups. */
static LLVMValueRef interleave_short(Gen *g, const LLVMValueRef *x, int group)
{
    int n = gen_lanes(x[0]), mask[128];
    LLVMValueRef pair[2];
    for (int k = 0; k < 2 * n; k++) mask[k] = k / 2 + (k % 2 ? n : 0);
    for (int k = 0; k < group / 2; k++) {
        LLVMValueRef a = x[2 * k], b = x[2 * k + 1];
        if (n == 1) {
            pair[k] = LLVMGetPoison(gen_vec(LLVMTypeOf(a), 2));
            pair[k] = LLVMBuildInsertElement(g->b, pair[k], a, gen_int(g, 0), "");
            pair[k] = LLVMBuildInsertElement(g->b, pair[k], b, gen_int(g, 1), "");
        } else pair[k] = gen_shuffle(g, a, b, mask, 2 * n);
        if (group == 4) pair[k] = LLVMBuildBitCast(g->b, pair[k], n == 1 ? g->i16 : gen_vec(g->i16, n), "");
    }
    return group == 4 ? interleave_short(g, pair, 2) : pair[0];
}

/* Stores the chunks x of all rows of a group, as the operand holds them, at a column. */
static void store_group(Gen *g, const Buf *to, LLVMValueRef *x, LLVMValueRef row, LLVMValueRef column)
{
    int group = mma_group(to->dtype), n = gen_lanes(x[0]), words = plan_lanes(g->target), pieces = 1;
    LLVMValueRef in = LLVMBuildUDiv(g->b, row, gen_int(g, group), "");
    if (n > words && n * 4 / group % LANE_BYTES == 0) {
        mma_interleave(g, x, group);
        pieces = group;
    } else if (n <= words) x[0] = interleave_short(g, x, group);
    else { /* More than a vector may lie in two panels. */
        LLVMValueRef all = LLVMBuildBitCast(g->b, interleave_short(g, x, group), gen_vec(g->i32, n), "");
        pieces = n / words;
        for (int k = 0; k < pieces; k++) x[k] = piece_of(g, all, k * words, words);
    }
    for (int k = 0; k < pieces; k++) {
        LLVMValueRef c = gen_iadd(g, column, gen_int(g, k * n / pieces));
        LLVMSetAlignment(LLVMBuildStore(g->b, x[k], panel_ptr(g, to, in, c)), 4);
    }
}

/* The elements of a row of a group, as the operand holds them, as integers. */
static LLVMValueRef row_of_group(Gen *g, const Buf *to, DType from, LLVMValueRef v)
{
    LLVMTypeRef t = mma_group(to->dtype) == 4 ? g->i8 : g->i16;
    int n = gen_lanes(v);
    return LLVMBuildBitCast(g->b, as_packed(g, to, from, v), n == 1 ? t : gen_vec(t, n), "");
}

void mma_pack_group(
    Eval *e, const Buf *b, DType from, const LLVMValueRef *values, LLVMValueRef row, LLVMValueRef column)
{
    LLVMValueRef x[MAX_GROUP];
    for (int k = 0; k < mma_group(b->dtype); k++) x[k] = row_of_group(e->g, b, from, values[k]);
    store_group(e->g, b, x, row, column);
}

/* Packs `n` columns, a whole number of lanes, of a group of rows, of which `rows` are there. */
static void pack_group(Transpose *u, LLVMValueRef row, int rows, LLVMValueRef column, int n)
{
    Gen *g = u->g;
    const Buf *to = u->s->buf;
    LLVMValueRef x[MAX_GROUP] = { NULL };
    u->coord[1] = column;
    for (int k = 0; k < mma_group(to->dtype); k++) {
        u->coord[0] = gen_iadd(g, row, gen_int(g, k));
        x[k] = k < rows ? row_of_group(g, to, u->s->value->type->dtype, transpose_eval(u, n))
                        : LLVMConstNull(LLVMTypeOf(x[0]));
    }
    store_group(g, to, x, row, column);
}

static void pack_rows(Transpose *u, LLVMValueRef row, int rows)
{
    Gen *g = u->g;
    int64_t columns = u->s->value->type->shape[1], done = 0;
    int bytes = dtype_bytes(u->s->buf->dtype);
    for (int n = g->target->vector_bytes / bytes; n * bytes >= LANE_BYTES; n /= 2) {
        int64_t end = done + (columns - done) / n * n;
        if (end == done) continue;
        Loop l;
        LLVMValueRef c = gen_loop(g, &l, gen_int(g, done), gen_int(g, end), n);
        pack_group(u, row, rows, c, n);
        gen_loop_end(g, &l);
        done = end;
    }
    for (int k = 0; k < rows && done < columns; k++) {
        Loop l;
        u->coord[0] = gen_iadd(g, row, gen_int(g, k));
        u->coord[1] = gen_loop(g, &l, gen_int(g, done), gen_int(g, columns), 1);
        transpose_put(u, transpose_eval(u, 1));
        gen_loop_end(g, &l);
    }
}

/* Packs rows whose elements lie side by side as groups along K: all rows of a group at once. */
static void pack_groups(Transpose *u)
{
    Gen *g = u->g;
    int group = mma_group(u->s->buf->dtype);
    int64_t rows = u->s->value->type->shape[0], whole = rows / group * group;
    Loop l;
    if (whole) {
        pack_rows(u, gen_loop(g, &l, gen_int(g, 0), gen_int(g, whole), group), group);
        gen_loop_end(g, &l);
    }
    if (rows > whole) pack_rows(u, gen_int(g, whole), (int)(rows - whole));
}

static void pack_part_of_column(void *user, LLVMValueRef row, int lanes)
{
    Transpose *u = user;
    Gen *g = u->g;
    const Buf *b = u->s->buf;
    u->coord[0] = row;
    LLVMValueRef at = gen_iadd(g, gen_imul(g, u->coord[1], b->ld), row);
    LLVMValueRef v = as_packed(g, b, u->s->value->type->dtype, transpose_eval(u, lanes));
    gen_store(g, b->dtype, v, gen_ptr(g, gen_buf(g, b, 0), gen_imul(g, at, dtype_bytes(b->dtype))));
}

/* Packs the operand A column by column, as its elements lie. */
static void pack_columns(Transpose *u)
{
    Gen *g = u->g;
    const int64_t *shape = u->s->value->type->shape;
    Loop l;
    u->coord[1] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, shape[1]), 1);
    gen_lines(g, shape[0], pack_part_of_column, u);
    gen_loop_end(g, &l);
}

void transpose_emit(Gen *g, Step *s)
{
    Transpose u = { .g = g, .s = s, .t = s->order[0], .l = s->order[1] };
    if (s->instr->op == OP_LOAD && !g->windows[ir_result(s->instr)->id]) memory_window(g, s->instr);
    mma_clear_padding(g, s->buf);
    if (s->buf->form == FORM_COLUMNS) pack_columns(&u);
    else if (u.t == u.l) pack_groups(&u);
    else transpose_axes(&u, 0);
}
