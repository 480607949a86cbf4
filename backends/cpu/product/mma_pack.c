/* mma_pack.c: the operands of products in panels: values are packed as they are stored (mma_pack_store), and
 * a tile whose axes lie the other way in memory is transposed on its way (transpose.c). mma.c multiplies
 * what lies here. */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/memory/transpose.h"

static LLVMValueRef piece_of(Gen *g, LLVMValueRef v, int from, int n)
{
    int mask[64];
    if (n == gen_lanes(v)) return v;
    if (n == 1) return LLVMBuildExtractElement(g->b, v, gen_int(g, from), "");
    for (int k = 0; k < n; k++) mask[k] = from + k;
    return gen_shuffle(g, v, NULL, mask, n);
}

LLVMValueRef mma_panel_ptr(Gen *g, const Buf *b, LLVMValueRef row, LLVMValueRef column)
{
    int group = b->form == FORM_GROUPS ? mma_group(b->dtype) : 1;
    int64_t unit = dtype_bytes(b->dtype) * group, rows = b->depth;
    LLVMValueRef panel = LLVMBuildUDiv(g->b, column, gen_int(g, b->nr), ""),
                 in = LLVMBuildURem(g->b, column, gen_int(g, b->nr), "");
    LLVMValueRef at = gen_iadd(g, gen_iadd(g, gen_imul(g, panel, rows * b->nr), gen_imul(g, row, b->nr)), in);
    return gen_ptr(g, gen_buf(g, b, 0), gen_imul(g, at, unit));
}

LLVMValueRef mma_as_packed(Gen *g, const Buf *b, DType from, LLVMValueRef v)
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
    v = mma_as_packed(g, b, from, v);
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
            gen_store(g, b->dtype, x, mma_panel_ptr(g, b, row, c));
            continue;
        }
        /* A group holds rows r * group and on. Its first row is written first and clears the others. */
        int group = mma_group(b->dtype);
        LLVMValueRef ptr = mma_panel_ptr(g, b, LLVMBuildUDiv(g->b, row, gen_int(g, group), ""), c);
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
    if (lanes == 4 && group == 4) transpose_vectors(g, x, 4, LANE_WORDS);
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
        LLVMSetAlignment(LLVMBuildStore(g->b, x[k], mma_panel_ptr(g, to, in, c)), 4);
    }
}

/* The elements of a row of a group, as the operand holds them, as integers. */
static LLVMValueRef row_of_group(Gen *g, const Buf *to, DType from, LLVMValueRef v)
{
    LLVMTypeRef t = mma_group(to->dtype) == 4 ? g->i8 : g->i16;
    int n = gen_lanes(v);
    return LLVMBuildBitCast(g->b, mma_as_packed(g, to, from, v), n == 1 ? t : gen_vec(t, n), "");
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
void mma_pack_groups(Transpose *u)
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
    LLVMValueRef v = mma_as_packed(g, b, u->s->value->type->dtype, transpose_eval(u, lanes));
    gen_store(g, b->dtype, v, gen_ptr(g, gen_buf(g, b, 0), gen_imul(g, at, dtype_bytes(b->dtype))));
}

/* Packs the operand A column by column, as its elements lie. */
void mma_pack_columns(Transpose *u)
{
    Gen *g = u->g;
    const int64_t *shape = u->s->value->type->shape;
    Loop l;
    u->coord[1] = gen_loop(g, &l, gen_int(g, 0), gen_int(g, shape[1]), 1);
    gen_lines(g, shape[0], pack_part_of_column, u);
    gen_loop_end(g, &l);
}
