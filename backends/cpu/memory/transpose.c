/* transpose.c: transposes tiles in blocks of registers on their way to a buffer, if elements that are
 * neighbours in memory are not neighbours in the buffer. A window that is wholly in range is transposed
 * straight from memory; other tiles are transposed chunk by chunk as they are computed. */
#include "backends/cpu/memory/transpose.h"
#include "backends/cpu/memory/memory.h"
#include <stdio.h>

void transpose_vectors(Gen *g, LLVMValueRef *x, int n, int piece)
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

LLVMValueRef transpose_eval(Transpose *u, int lanes)
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

void transpose_put(Transpose *u, LLVMValueRef v)
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
    case FORM_PANELS: *stride = b->nr * bytes; return mma_panel_ptr(g, b, t0, l0);
    case FORM_GROUPS:
        *stride = b->nr * 4;
        return mma_panel_ptr(g, b, LLVMBuildUDiv(g->b, t0, gen_int(g, mma_group(b->dtype)), ""), l0);
    case FORM_ROWS:
        *stride = b->ld * bytes;
        return gen_ptr(g, gen_buf(g, b, 0), gen_imul(g, gen_iadd(g, gen_imul(g, t0, b->ld), l0), bytes));
    case FORM_COLUMNS: /* mma_pack_columns */
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

/* For 32-bit elements: four columns of n rows, which lie `apart` bytes from each other. Register r gets row
 * 4 l + r in its 128-bit lane l, four elements of it; two rounds of shuffles within lanes then make the
 * columns, which go to rows `stride` bytes apart. */
static void four_columns(
    Gen *g, LLVMTypeRef elem, int n, LLVMValueRef from, LLVMValueRef apart, LLVMValueRef to, int64_t stride)
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
    for (int r = 0; r < 4; r++) {
        LLVMValueRef part[4] = { NULL };
        for (int k = 0; k < n / 4; k++) {
            part[k] = LLVMBuildLoad2(g->b, quad, gen_ptr(g, from, gen_imul(g, apart, 4 * k + r)), "");
            LLVMSetAlignment(part[k], 4);
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
        LLVMSetAlignment(LLVMBuildStore(g->b, x[r], gen_ptr(g, to, gen_int(g, r * stride))), 4);
}

static bool by_fours(const Gen *g, LLVMTypeRef elem, int n)
{ return (elem == g->f32 || elem == g->i32) && n % 4 == 0; }

/* void (from, apart, to): n vectors of n elements, which lie `apart` bytes from each other, transposed, to
 * rows `stride` bytes apart. */
static LLVMValueRef transposer(Gen *g, LLVMTypeRef elem, int n, int64_t stride, LLVMTypeRef *type)
{
    char name[64];
    char *text = LLVMPrintTypeToString(elem);
    format_text(name, sizeof name, "tile.transpose.%s.%d.%lld", text, n, (long long)stride);
    LLVMDisposeMessage(text);
    *type = LLVMFunctionType(g->voidt, (LLVMTypeRef[]){ g->ptr, g->i64, g->ptr }, 3, false);
    LLVMValueRef f = helper_find(g, name), x[64];
    if (f) return f;
    Helper h;
    f = helper_begin(g, &h, name, *type);
    LLVMValueRef from = LLVMGetParam(f, 0), apart = LLVMGetParam(f, 1), to = LLVMGetParam(f, 2);
    if (by_fours(g, elem, n)) {
        Loop l;
        LLVMValueRef c = gen_loop(g, &l, gen_int(g, 0), gen_int(g, n), 4);
        four_columns(g, elem, n, gen_ptr(g, from, gen_imul(g, c, 4)), apart,
            gen_ptr(g, to, gen_imul(g, c, stride)), stride);
        gen_loop_end(g, &l);
    } else {
        for (int k = 0; k < n; k++) {
            x[k] = LLVMBuildLoad2(g->b, gen_vec(elem, n), gen_ptr(g, from, gen_imul(g, apart, k)), "");
            LLVMSetAlignment(x[k], 1);
        }
        transpose_vectors(g, x, n, 1);
        for (int k = 0; k < n; k++)
            LLVMSetAlignment(LLVMBuildStore(g->b, x[k], gen_ptr(g, to, gen_int(g, k * stride))), 1);
    }
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
    v = u->s->buf->form == FORM_DENSE ? convert(g, stored, d, v) : mma_as_packed(g, u->s->buf, d, v);
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
    LLVMValueRef apart = gen_int(g, n * group * dtype_bytes(stored));
    LLVMBuildCall2(g->b, type, f, (LLVMValueRef[]){ tmp, apart, to }, 3, "");
}

/* --- straight from memory ---------------------------------------------------------------------------- */

/* The window whose elements the buffer holds as they are in memory; NULL: it is something else. */
static const Window *as_it_lies(const Transpose *u)
{
    const Buf *b = u->s->buf;
    const Value *v = u->s->value;
    DType d = v->type->dtype;
    bool same = b->form == FORM_DENSE || ((b->form == FORM_PANELS || b->form == FORM_ROWS) && b->dtype == d);
    if (!same || b->offset_128 || d == DT_BOOL || !v->def || v->def->op != OP_LOAD) return NULL;
    const Window *w = u->g->windows[v->id];
    return w && w->rank == v->type->rank && w->dtype == d && !w->not_unit[u->t] ? w : NULL;
}

/* Prefetches `rows` rows of the next window, from row `first` along axis l. The lines of a row follow each
 * other in a loop, which has been faster than to ask for several at once (bench/notes/cpu_zen3.md,
 * "Prefetches in loops"). */
static void fetch_rows(Gen *g, const Window *w, int t, int l, LLVMValueRef first, int64_t rows)
{
    LLVMValueRef bytes = gen_int(g, w->shape[t] * dtype_bytes(w->dtype));
    LLVMValueRef window = gen_ptr(g, w->base, w->ahead);
    for (int64_t r = 0; r < rows; r++) {
        Loop lines;
        LLVMValueRef row = LLVMBuildMul(g->b, gen_iadd(g, first, gen_int(g, r)), w->stride[l], "");
        LLVMValueRef at = LLVMBuildPtrToInt(g->b, gen_ptr(g, window, row), g->i64, "");
        LLVMValueRef line = LLVMBuildAnd(g->b, at, gen_int(g, -LINE), "");
        line = gen_loop(g, &lines, line, LLVMBuildAdd(g->b, at, bytes, ""), LINE);
        memory_prefetch(g, LLVMBuildIntToPtr(g->b, line, g->ptr, ""), w->locality);
        gen_loop_end(g, &lines);
    }
}

/* The nest that follows the step if all it does is store the transposed tile, one row of the buffer at a
 * time; otherwise NULL. */
static const Step *stores_transposed(const Step *s, const Window *w)
{
    const Step *n = s->next;
    bool plane = w && w->rank == 2 && s->buf->form == FORM_DENSE;
    if (!plane || !n || n->kind != STEP_NEST || n->rank != 2 || s->order[0] != 0 ||
        n->shape[0] != w->shape[0])
        return NULL;
    const Sink *k = n->sinks;
    return k && !k->next && k->kind == SINK_STORE && k->value == s->value ? n : NULL;
}

/* In row `row` of such a nest, prefetches a part of the next window: memory would otherwise only be written
 * while the tile is stored. Rows are prefetched in order, which memory delivers fastest. */
void transpose_fetch(Gen *g, const Step *nest, LLVMValueRef row)
{
    const Sink *k = nest->sinks;
    const Window *w = k && k->value && k->value->def ? g->windows[k->value->id] : NULL;
    if (!w || w->fetched_by != nest || !w->ahead) return;
    int64_t rows = w->shape[1], of = nest->shape[0];
    if (rows >= of) {
        fetch_rows(g, w, 0, 1, gen_imul(g, row, rows / of), rows / of);
        return;
    }
    If begins;
    LLVMValueRef each = gen_int(g, of / rows);
    gen_if(g, &begins, icmp(g, LLVMIntEQ, LLVMBuildURem(g->b, row, each, ""), gen_int(g, 0)));
    fetch_rows(g, w, 0, 1, LLVMBuildUDiv(g->b, row, each, ""), 1);
    gen_endif(g, &begins);
}

/* Blocks of n rows of the window, from whose memory they are transposed; [0, tm) along t, [0, lm) along l. */
static void transpose_blocks(Transpose *u, const Window *w, int n, int64_t tm, int64_t lm)
{
    Gen *g = u->g;
    Loop a, b;
    int64_t stride = 0;
    int bytes = dtype_bytes(w->dtype);
    LLVMTypeRef elem = gen_mem_type(g, w->dtype, 1), type;
    int step = by_fours(g, elem, n) ? 4 : n;
    LLVMValueRef apart = w->stride[u->l];
    LLVMValueRef l0 = gen_loop(g, &a, gen_int(g, 0), gen_int(g, lm), n), rows = w->base;
    for (int x = 0; x < w->rank; x++)
        if (x != u->t)
            rows = gen_ptr(g, rows, LLVMBuildMul(g->b, x == u->l ? l0 : u->coord[x], w->stride[x], ""));
    if (w->ahead && !w->fetched_by && w->rank == 2) fetch_rows(g, w, u->t, u->l, l0, n);
    LLVMValueRef t0 = gen_loop(g, &b, gen_int(g, 0), gen_int(g, tm), step);
    LLVMValueRef from = gen_ptr(g, rows, gen_imul(g, t0, bytes)), to = transpose_to(u, t0, l0, &stride);
    if (step == 4) four_columns(g, elem, n, from, apart, to, stride);
    else {
        LLVMValueRef f = transposer(g, elem, n, stride, &type);
        LLVMBuildCall2(g->b, type, f, (LLVMValueRef[]){ from, apart, to }, 3, "");
    }
    gen_loop_end(g, &b);
    gen_loop_end(g, &a);
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

/* The same, chunk by chunk as they are computed. */
static void evaluate_blocks(Transpose *u, int n, int group, int64_t tm, int64_t lm)
{
    Gen *g = u->g;
    Loop a, b;
    LLVMValueRef l0 = gen_loop(g, &a, gen_int(g, 0), gen_int(g, lm), n);
    LLVMValueRef t0 = gen_loop(g, &b, gen_int(g, 0), gen_int(g, tm), group * n);
    transpose_block(u, t0, l0, n, group);
    gen_loop_end(g, &b);
    gen_loop_end(g, &a);
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
        If whole;
        const Window *w = as_it_lies(u);
        LLVMValueRef in_range = w ? window_is_whole(g, w) : NULL;
        if (w && !w->is_unit[u->t]) in_range = both(g, in_range, w->unit[u->t]);
        if (w && in_range) gen_if(g, &whole, in_range);
        if (w) transpose_blocks(u, w, n, tm, lm);
        if (w && in_range) gen_else(g, &whole);
        if (!w || in_range) evaluate_blocks(u, n, group, tm, lm);
        if (w && in_range) gen_endif(g, &whole);
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

void transpose_emit(Gen *g, Step *s)
{
    Transpose u = { .g = g, .s = s, .t = s->order[0], .l = s->order[1] };
    if (s->instr->op == OP_LOAD && !g->windows[ir_result(s->instr)->id]) memory_window(g, s->instr);
    Window *w = s->instr->op == OP_LOAD ? g->windows[ir_result(s->instr)->id] : NULL;
    if (w && w->ahead && ir_result(s->instr) == s->value) w->fetched_by = stores_transposed(s, w);
    mma_clear_padding(g, s->buf);
    if (s->buf->form == FORM_COLUMNS) mma_pack_columns(&u);
    else if (u.t == u.l) mma_pack_groups(&u);
    else transpose_axes(&u, 0);
}
