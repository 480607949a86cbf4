/* emit_copy.c: copies to shared memory: their place in a loop, addresses that advance from iteration to
 * iteration, and copies of rows at arbitrary addresses.
 *
 * A copy of a loop of products reads a window that moves by the same distance in every iteration. A thread's
 * address of it is one pointer, set before the loop and moved at the end of each iteration; what the pieces
 * of a thread add to it and to its place in the stage does not change. Without the pointer the address is
 * worked out in each iteration: many instructions beside the products, in a chain long enough for ptxas to
 * put the wait for the next step behind all products (bench/notes/decisions.md, "Behind the decisions"). */
#include "backends/gpu/memory/emit_copy.h"

/* The value of v when the loop's counter has its first value. slope_in_loop has ensured that v consists of
 * sums and products. */
static const char *at_start(Emit *e, const Value *v, const Instr *loop)
{
    const Block *body = loop->blocks[0];
    int64_t c;
    if (v == body->args[0]) return str(e, "(i64)%s", name_of(e, ir_operand(loop, 0)));
    if (ir_is_const(v, &c)) return str(e, "%lldll", (long long)c);
    if (ir_defined_outside(v, body)) return str(e, "(i64)%s", name_of(e, v));
    if (v->def->n_operands == 1) return at_start(e, ir_operand(v->def, 0), loop);
    const char *a = at_start(e, ir_operand(v->def, 0), loop), *b = at_start(e, ir_operand(v->def, 1), loop);
    return str(e, "(%s %s %s)", a, v->def->op == OP_ADD ? "+" : v->def->op == OP_SUB ? "-" : "*", b);
}

static void place(Emit *e, const Instr *copy, const Instr *loop)
{
    const Type *view = ir_operand(copy, 0)->type;
    const LayoutShared *s = layouts_shared(&e->plan->layouts, view);
    Window w;
    int64_t step, slopes[TILE_MAX_RANK];
    window_of(e, copy, &w);
    if (!ir_is_const(ir_operand(loop, 2), &step)) return;
    for (int a = 0; a < w.rank; a++) {
        if (w.picked >> a & 1) slopes[a] = 0;
        else if (!slope_in_loop(w.offset[a], loop->blocks[0], &slopes[a])) return;
    }
    const CopyLayout threads = copy_layout(e, copy, &w, s);
    const Layout *l = threads.window;
    const Param *p = &e->f->params[w.param];
    const char *at = slot_name(e, SLOT_DATA, w.param, 0, p->type->dtype), *by = NULL;
    Index *c[TILE_MAX_RANK];
    for (int a = 0; a < w.rank; a++) {
        if (w.picked >> a & 1) continue;
        const char *stride = p->stride[a] != FACT_UNKNOWN ? str(e, "%lldll", (long long)p->stride[a])
                                                          : slot_name(e, SLOT_STRIDE, w.param, a, DT_INDEX);
        at = str(e, "%s + %s * %s", at, at_start(e, w.offset[a], loop), stride);
        if (!slopes[a]) continue;
        const char *part = str(e, "%lldll * %s", (long long)(slopes[a] * step), stride);
        by = by ? str(e, "%s + %s", by, part) : part;
    }
    for (int a = 0; a < l->rank; a++) c[a] = thread_coord(e, l, a);
    CopyPlace x = { copy, tmp(e, p->name), by, NULL, { NULL } };
    /* Hold strides in registers: otherwise ptxas reads them from constant memory again before each piece. */
    for (int a = 0; a < w.rank; a++) {
        if (w.tile_axis[a] < 0 || w.picked >> a & 1 || p->stride[a] != FACT_UNKNOWN || !e->f->fits32)
            continue;
        x.stride[a] = tmp(e, "stride");
        line(e, "i32 %s = (i32)%s;", x.stride[a], slot_name(e, SLOT_STRIDE, w.param, a, DT_INDEX));
        line(e, "%s(%s);", use(e, "pin_word"), x.stride[a]);
    }
    uint32_t *own, seen;
    if (threads.matrix && linear_offsets(e, threads.matrix, s, 1, &own, &seen)) {
        Index *zero[TILE_MAX_RANK];
        copy_coords(e, &threads, index_number(e, 0), zero);
        x.to = shared_offset(e, s, zero);
        line(e, "%s(%s);", use(e, "pin_word"), x.to);
    }
    line(e, "const %s *%s = %s + %s;", pointee(p->type->dtype), x.at, at, window_index(e, &w, c));
    vec_push(&e->s->arena, &e->places, x);
}

static void places_in(Emit *e, const Block *b, const Instr *loop)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op == OP_COPY) place(e, i, loop);
        else if (i->op == OP_IF)
            for (int k = 0; k < i->n_blocks; k++) places_in(e, i->blocks[k], loop);
    }
}

/* Returns how many places there were before, for copies_moved. Places are text: none where it is not wanted.
 */
size_t copies_placed(Emit *e, const Instr *loop)
{
    size_t before = e->places.len;
    if (!e->measure && !is_hip(e) && e->role < 0 && target_has(e->target, TF_CP_ASYNC) &&
        ir_holds(loop->blocks[0], OP_COPY_WAIT))
        places_in(e, loop->blocks[0], loop);
    return before;
}

void copies_moved(Emit *e, size_t before)
{
    for (size_t k = before; k < e->places.len; k++)
        if (e->places.data[k].by) line(e, "%s += %s;", e->places.data[k].at, e->places.data[k].by);
    e->places.len = before;
}

const CopyPlace *copy_place(const Emit *e, const Instr *copy)
{
    for (size_t k = 0; k < e->places.len; k++)
        if (e->places.data[k].copy == copy) return &e->places.data[k];
    return NULL;
}

const char *copy_index(Emit *e, const CopyPlace *p, const Window *w, Index *const *own)
{
    const char *x = NULL;
    Index *rest[TILE_MAX_RANK];
    bool any = false;
    for (int a = 0; a < w->rank; a++) {
        int t = w->tile_axis[a];
        if (t < 0) continue;
        if (w->picked >> a & 1) {
            rest[t] = index_number(e, 0);
            continue;
        }
        rest[t] = p->stride[a] ? index_number(e, 0) : own[t];
        any |= !index_is(rest[t], 0);
        if (!p->stride[a] || index_is(own[t], 0)) continue;
        const char *part = index_text(e, own[t]);
        if (w->step[a] != 1) part = str(e, "(%s * %lld)", part, (long long)w->step[a]);
        part = str(e, "%s * %s", part, p->stride[a]);
        x = x ? str(e, "%s + %s", x, part) : part;
    }
    if (!any) return x ? x : "0";
    const char *y = window_index(e, w, rest);
    return x ? str(e, "%s + %s", x, y) : y;
}

/* --- rows that begin anywhere
 * -------------------------------------------------------------------------------------------------------
 * cp.async takes 4, 8 or 16 bytes that lie at multiples of that. Elements of one or two bytes whose rows do
 * not (K = 1023) are loaded by aligned vectors around them, two for 16 bytes, and shifted in registers. Every
 * aligned vector that is read holds an element of the row: the second one is read where the next 14 bytes are
 * the row's as well, so that nothing past the tensor is touched, and the first one begins at the tensor's
 * first byte or later, which is aligned. Elements at the end of a row are loaded one at a time. Up to four
 * pairs of a thread are on their way at once. */

bool copy_runs_along(const Window *w, const Layout *l, const LayoutShared *s)
{ return w->unit_tile >= 0 && l->rank - w->unit_tile == s->rank - s->order[0]; }

static bool fits_shifted(
    const Emit *e, const Window *w, const Layout *l, const LayoutShared *s, DType d, int wide)
{
    LayoutVector v;
    int32_t first[TILE_MAX_RANK], c[TILE_MAX_RANK];
    int regs = (int)layout_regs(l);
    if (dtype_bytes(d) > 2 || d == DT_BOOL || !copy_runs_along(w, l, s) || w->step[w->unit] != 1 ||
        e->f->params[w->param].align % 16 || regs % wide)
        return false;
    if (layout_lanes(l) * layout_warps(l) != (uint32_t)e->threads) return false;
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) return false;
    layout_vector(l, w->unit_tile, (uint32_t)dtype_bytes(d), 16, 16, &v);
    if ((int)v.n != wide) return false;
    for (int k = 0; k < wide; k++)
        if (v.reg[k] != (uint32_t)k) return false;
    layout_element(l, 0, 0, 0, 0, first);
    for (int r = 0; r < regs; r += wide) { /* the vectors of a thread are in one column */
        layout_element(l, (uint32_t)r, 0, 0, 0, c);
        if (c[w->unit_tile] != first[w->unit_tile]) return false;
    }
    return true;
}

/* A copy of rows at arbitrary addresses, in pieces of 16 bytes (`wide` elements), of which a thread has `n`.
 * */
typedef struct ShiftedCopy {
    const Window *w;
    const CopyLayout *threads;
    const LayoutShared *s;
    DType d;
    int wide, n;
    const CopyPlace *place;
    const char *ptr, *base; /* of the tensor, of the stage */
    const char *off;        /* the offset of piece v in the stage; NULL: computed from coordinates */
} ShiftedCopy;

/* The coordinates of register r, and its element offset. */
static const char *place_register(Emit *e, const ShiftedCopy *x, Index *r, Index **c)
{
    Index *own[TILE_MAX_RANK];
    for (int a = 0; a < x->threads->window->rank; a++) {
        c[a] = coord(e, x->threads->window, a, r);
        own[a] = x->place ? register_coord(e, x->threads->window, a, r) : c[a];
    }
    return x->place ? copy_index(e, x->place, x->w, own) : window_index(e, x->w, c);
}

static const char *piece_address(Emit *e, const ShiftedCopy *x)
{
    Index *c[TILE_MAX_RANK];
    copy_coords(e, x->threads, index_linear(e, x->wide, "v", 0), c);
    return str(e, "%s + %s", x->base, x->off ? x->off : shared_offset(e, x->s, c));
}

/* Copies all pieces from the aligned vectors around them, a few at a time. */
static void copy_around(Emit *e, ShiftedCopy *x, const char *origin, const uint32_t *pieces, uint32_t seen)
{
    int some = x->n % 4 == 0 ? 4 : x->n % 2 == 0 ? 2 : 1;
    Index *c[TILE_MAX_RANK];
    const char *raw = tmp(e, "raw"), *at = tmp(e, "at"), *around = use(e, "ldg_nc_around_b128"),
               *put = use(e, "sts_b128");
    directive(e, "#pragma unroll 1");
    line(e, "for (int g = 0; g < %d; g += %d) {", x->n, some);
    e->indent++;
    line(e, "u32 %s[%d][8] = { { 0 } };", raw, some);
    line(e, "const %s *%s[%d];", pointee(x->d), at, some);
    const char *index = place_register(e, x, index_linear(e, x->wide, "v", 0), c),
               *cond = window_condition(e, x->w, c, true);
    if (origin) x->off = linear_address(e, origin, pieces, seen, x->n, x->wide, index_variable(e, "v"));
    begin_unrolled(e, "q", some);
    line(e, "const int v = g + q;");
    line(e, "%s[q] = %s + %s;", at, x->ptr, index);
    line(e, "%s%s%s%s(%s[q], %s[q]);", *cond ? "if (" : "", cond, *cond ? ") " : "", around, raw, at);
    end_block(e);
    begin_unrolled(e, "q", some);
    line(e, "const int v = g + q;");
    line(e, "%s(%s[q], %s[q], (u32)(u64)%s[q] & 15);", use(e, "funnel_b128"), raw, raw, at);
    line(e, "%s(%s, %s[q]);", put, piece_address(e, x), raw);
    end_block(e);
    end_block(e);
}

/* Copies all pieces element by element. */
static void copy_elements(Emit *e, const ShiftedCopy *x)
{
    DType bits = bits_type(x->d);
    const char *t = tmp(e, "w"), *load = use(e, str(e, "ldg_%s", dtype_name(bits)));
    Index *c[TILE_MAX_RANK];
    directive(e, "#pragma unroll 1");
    line(e, "for (int v = 0; v < %d; v++) {", x->n);
    e->indent++;
    line(e, "u32 %s[4];", t);
    for (int word = 0; word < 4; word++) {
        const char *xs[4];
        for (int k = 0; k < x->wide / 4; k++) {
            Index *r = index_linear(e, x->wide, "v", word * (x->wide / 4) + k);
            const char *index = place_register(e, x, r, c),
                       *cond = both_conditions(e, window_condition(e, x->w, c, true),
                           axis_condition(e, x->w, x->w->unit, index_text(e, c[x->w->unit_tile])));
            xs[k] = str(e, "%s(%s + %s)", load, x->ptr, index);
            if (*cond) xs[k] = str(e, "(%s ? %s : 0)", cond, xs[k]);
        }
        line(e, "%s[%d] = %s;", t, word, pack_expr(e, bits, xs, x->wide / 4));
    }
    line(e, "%s(%s, %s);", use(e, "sts_b128"), piece_address(e, x), t);
    end_block(e);
}

bool emit_shifted_copy(
    Emit *e, const Instr *i, const Window *w, const CopyLayout *threads, const LayoutShared *s)
{
    const Layout *l = threads->window;
    const Type *view = ir_operand(i, 0)->type;
    int size = dtype_bytes(view->dtype), wide = 16 / (size ? size : 1);
    if (!threads->matrix || !fits_shifted(e, w, l, s, view->dtype, wide)) return false;
    note_wide(e, WAY_SHIFTED, false, w, l, 16);
    ShiftedCopy x = { .w = w,
        .threads = threads,
        .s = s,
        .d = view->dtype,
        .wide = wide,
        .n = (int)layout_regs(l) / wide,
        .place = copy_place(e, i) };
    Index *c[TILE_MAX_RANK];
    const char *origin = NULL;
    x.ptr = x.place ? x.place->at : window_pointer(e, w);
    x.base = name_of(e, ir_operand(i, 0));
    uint32_t *pieces = NULL, seen = 0;
    if (!e->measure && linear_offsets(e, threads->matrix, s, wide, &pieces, &seen)) {
        copy_coords(e, threads, index_number(e, 0), c);
        origin = x.place && x.place->to ? x.place->to : shared_offset(e, s, c);
    }
    coords_at(e, l, index_number(e, 0), c);
    const char *column = index_text(e, c[w->unit_tile]), *end = str(e, "%s + %d", column, 2 * wide - 2),
               *first_in = axis_condition(e, w, w->unit, column),
               *whole = both_conditions(e, first_in, axis_condition(e, w, w->unit, end));
    line(e, *whole ? "if (%s) {" : "{", whole);
    e->indent++;
    copy_around(e, &x, origin, pieces, seen);
    end_block(e);
    if (!*whole) return true;
    line(e, "else {");
    e->indent++;
    copy_elements(e, &x);
    end_block(e);
    return true;
}
