/* emit_row_start.c: rows that begin at no multiple of 16 bytes, by the aligned vectors that hold them.
 *
 * A program that does the same with every element of a row may hold the row from the aligned address before
 * its start on. No vector is shifted; the first and the last one are partly outside of the row:
 *
 *     lane:     0        |     1     |     2           coordinate of register 0 of lane 0: -lead
 *     |....aaaaaaaaaaaa|bbbbbbbbbbbbbbbb|cccc....|     lead: elements between that address and the row
 *
 * The coordinates of all tiles of the row then begin at -lead, so that masks and offsets stay as they are.
 *
 * A vector of one dimension that all programs read (weights) is shifted by the same amount in every lane.
 *
 * Requires: a kernel without control flow, whose tiles of a row all have one layout with room for the lead;
 * operations by element, reductions along the row, loads and stores of whole rows that begin at the same
 * distance from an aligned address, and of whole vectors. */
#include "backends/gpu/emit_shift.h"

enum { MOST_WORDS = 48 }; /* of a row and of weights in a thread; with more, registers spill */

typedef struct Found {
    Emit *e;
    const Layout *layout;
    int weights;
    bool same;
} Found;

static void visit(void *user, Instr *i)
{
    Found *x = user;
    MemParts m;
    x->weights += i->op == OP_LOAD && ir_mem_parts(i, &m) && m.rank == 1;
    for (int k = 0; k < i->n_results + i->n_operands && x->same; k++) {
        const Value *v = k < i->n_results ? &i->results[k] : ir_operand(i, k - i->n_results);
        if (!kernel_is_row_tile(v->type) || (!v->type->layout && kernel_is_cheap(v))) continue;
        const Layout *l = v->type->layout ? layout_of(x->e, v) : NULL;
        if (!x->layout) x->layout = l;
        x->same &= l && layout_equal(l, x->layout);
    }
}

static const RowStart *row_start(Emit *e, const Layout *l)
{
    RowStart *r = &e->row_start;
    if (!r->searched) {
        Found x = { .e = e };
        int bytes = is_hip(e) || e->guard || e->role >= 0 ? 0 : kernel_row_start(e->f, e->plan);
        r->searched = true;
        x.same = bytes > 0;
        if (bytes) ir_walk(e->f->body, visit, &x);
        ShiftChain c;
        if (!x.same || !x.layout || x.layout->rank != 1 || !x.layout->separable ||
            *unique_holder(e, x.layout) || !kernel_shift_chain(&e->s->arena, x.layout, 0, bytes, &c) ||
            x.layout->cover[0] < x.layout->tile[0] + c.n - 1 ||
            (int)layout_regs(x.layout) * (4 + x.weights * bytes) > 4 * MOST_WORDS)
            return NULL;
        r->layout = x.layout;
        r->n = c.n;
    }
    return r->layout && layout_equal(l, r->layout) ? r : NULL;
}

/* Declares the lead and the coordinate of register 0 at the first access. */
static void begin_row(Emit *e, const char *ptr, int bytes)
{
    RowStart *r = &e->row_start;
    if (r->lead) return;
    const char *lead = tmp(e, "lead"), *from = tmp(e, "from");
    const char *first = index_text(e, thread_coord(e, r->layout, 0));
    line(e, "const i32 %s = (i32)((u32)(u64)%s & 15) / %d;", lead, ptr, bytes);
    line(e, "const i32 %s = %s - %s;", from, first, lead);
    r->lead = lead;
    r->first = first;
    r->coord = from;
}

/* The least and the largest place from the aligned address that vector v has in any thread. */
static void places(const Layout *l, int reg, int32_t *least, int32_t *most)
{
    int32_t c[TILE_MAX_RANK];
    layout_element(l, (uint32_t)reg, 0, 0, 0, c);
    *least = *most = c[0];
    for (uint32_t b = 0; b < layout_blocks(l); b++)
        for (uint32_t w = 0; w < layout_warps(l); w++) {
            layout_element(l, (uint32_t)reg, layout_lanes(l) - 1, w, b, c);
            if (c[0] > *most) *most = c[0];
        }
}

static int run_first(const RowStart *r, int v)
{
    int32_t least, most;
    places(r->layout, v * r->n, &least, &most);
    return least;
}

/* The coordinate of the first element of run v. */
static const char *run_place(Emit *e, const RowStart *r, int v)
{ return str(e, "%s + %d", r->coord, run_first(r, v)); }

/* Whether run v, or what is read up to `more` elements behind it, may reach over the end of the row. */
static bool near_end(const RowStart *r, int v, int more)
{
    int32_t least, most;
    places(r->layout, v * r->n, &least, &most);
    return most + r->n + more > r->layout->tile[0];
}

/* Declares a pointer to the thread's first run, from which the others have constant distances. */
static const char *row_from(Emit *e, const char *ptr, DType d)
{
    const char *from = tmp(e, "first");
    line(e, "const %s *const %s = %s + %s;", pointee(d), from, ptr, e->row_start.coord);
    return from;
}

/* The end of the tensor: every row has a stride of at least 0. */
static const char *tensor_end(Emit *e, const Window *w)
{
    const Param *p = &e->f->params[w->param];
    const char *end = str(e, "%s + %s", slot_name(e, SLOT_DATA, w->param, 0, p->type->dtype),
        window_extent(e, w->param, w->unit));
    for (int a = 0; a < w->rank; a++)
        if (a != w->unit)
            end = str(e, "%s + ((i64)%s - 1) * %s", end, window_extent(e, w->param, a),
                window_stride(e, w->param, a));
    return end;
}

/* The condition that a row begins as far from an aligned address as the first one did. */
static const char *begins_alike(Emit *e, const char *ptr, int bytes)
{ return str(e, "((u32)(u64)%s & 15) == (u32)%s * %d", ptr, e->row_start.lead, bytes); }

/* The last row of a tensor goes by element, as its last vector may reach over the end of the tensor. */
static void load_row(Emit *e, const Window *w, const RowStart *r, const char *ptr, const char *to, DType d)
{
    int n = r->n, tile = r->layout->tile[0], vectors = (int)layout_regs(r->layout) / n;
    const char *load = window_load_fn(e, w, 16), *whole = begins_alike(e, ptr, dtype_bytes(d));
    for (int a = 0; a < w->rank; a++)
        if (a != w->unit && e->f->params[w->param].stride[a] == FACT_UNKNOWN)
            whole = both_conditions(e, whole, str(e, "%s >= 0", window_stride(e, w->param, a)));
    line(e, "if (%s && (u64)(%s + %d) + 16 <= (u64)(%s)) {", whole, ptr, tile, tensor_end(e, w));
    e->indent++;
    const char *from = row_from(e, ptr, d);
    for (int v = 0; v < vectors; v++) {
        const char *at = str(e, "%s + %d", from, run_first(r, v));
        if (near_end(r, v, 0))
            at = str(e, "(%s < %d ? %s : %s - %s)", run_place(e, r, v), tile, at, ptr, r->lead);
        line(e, "%s(&%s[%d], %s);", load, to, v * n / per_word(d), at);
    }
    end_block(e);
    line(e, "else {");
    e->indent++;
}

/* Eight bytes of a vector of weights at element `at`. Those that no run needs, before and behind the vector,
 * are read from its start; behind the last whole eight bytes, single elements. */
static void load_piece(Shift *s, int word, const char *at, bool first, bool last)
{
    Emit *e = s->e;
    DType d = e->f->params[s->w->param].type->dtype;
    int tile = s->l->tile[0], each = 8 / s->bytes, end = tile / each * each, in_word = per_word(d);
    const char *cond = first ? str(e, "%s >= 0", at) : "";
    if (last) cond = both_conditions(e, cond, str(e, "%s < %d", at, end));
    line(e, "%s(%s, %s + %s);", window_load_fn(e, s->w, 8), str(e, "&x[%d]", word), s->ptr,
        *cond ? str(e, "(%s ? %s : 0)", cond, at) : at);
    if (!last || end == tile) return;
    line(e, "if (%s == %d) {", at, end);
    e->indent++;
    for (int k = end; k < tile; k++) {
        int at_word = word + (k - end) / in_word, within = (k - end) % in_word;
        if (s->bytes == 4) line(e, "%s(&x[%d], %s + %d);", use(e, "ldg_nc_b32"), at_word, s->ptr, k);
        else
            line(e, "x[%d] %s (u32)%s((const u16 *)%s + %d) << %d;", at_word, within ? "|=" : "=",
                use(e, "ldg_u16"), s->ptr, k, 16 * within);
    }
    end_block(e);
}

/* A vector of weights: its runs all have the same distance from a multiple of 8 bytes. Words are selected
 * without branches, so that the registers of a run last no longer than until its weights are used. */
static void load_weights(
    Emit *e, const Window *w, const RowStart *r, const char *ptr, const char *to, DType d)
{
    int n = r->n, bytes = dtype_bytes(d), vectors = (int)layout_regs(r->layout) / n;
    Shift s = { .e = e, .w = w, .l = r->layout, .ptr = ptr, .bytes = bytes };
    const char *shift = tmp(e, "shift"), *begin = tmp(e, "begin");
    line(e, "const u32 %s = (u32)(8 - %s * %d) & 7;", shift, r->lead, bytes);
    line(e, "const i32 %s = %s - (i32)%s / %d;", begin, r->coord, shift, bytes);
    for (int v = 0; v < vectors; v++) {
        line(e, "{");
        e->indent++;
        line(e, "u32 x[6];");
        for (int q = 0; q < 3; q++) {
            line(e, "const i32 at%d = %s + %d;", q, begin, run_first(r, v) + q * 8 / bytes);
            load_piece(&s, 2 * q, str(e, "at%d", q), run_first(r, v) < n, near_end(r, v, 8 / bytes));
        }
        line(e, "%s((u32 *)&%s[%d], x, %s);", use(e, "funnel_b64"), to, v * n / per_word(d), shift);
        end_block(e);
    }
}

ShiftDone emit_row_load(Emit *e, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    const RowStart *r = row_start(e, l);
    DType d = e->f->params[w->param].type->dtype;
    if (!r) return SHIFT_NONE;
    begin_row(e, ptr, dtype_bytes(d));
    if (w->rank == 1) load_weights(e, w, r, ptr, to, d);
    else load_row(e, w, r, ptr, to, d);
    return w->rank == 1 ? SHIFT_ALL : SHIFT_PART;
}

ShiftDone emit_row_store(
    Emit *e, const Window *w, const Layout *l, DType d, const char *ptr, const char *from)
{
    const RowStart *r = row_start(e, l);
    if (!r) return SHIFT_NONE;
    int n = r->n, tile = l->tile[0], vectors = (int)layout_regs(l) / n, bytes = dtype_bytes(d);
    const char *store = use(e, str(e, "stg_if%s_b128", window_hint(e, w, ACCESS_VECTOR)));
    line(e, "if (%s) {", begins_alike(e, ptr, bytes));
    e->indent++;
    const char *first = row_from(e, ptr, d);
    for (int v = 0; v < vectors; v++) {
        int place = run_first(r, v);
        const char *at = run_place(e, r, v), *inside = place < n ? str(e, "%s >= 0", at) : "",
                   *words = str(e, "(const u32 *)&%s[%d]", from, v * n / per_word(d)),
                   *to = str(e, "(void *)(%s + %d)", first, place);
        if (near_end(r, v, 0)) inside = both_conditions(e, inside, str(e, "%s + %d <= %d", at, n, tile));
        line(e, "%s(%s, %s, %s);", store, *inside ? inside : "true", to, words);
        if (place < n)
            line(e, "if (%s < 0) %s(true, %s, %s, (u32)(%s * %d), %d);", at, use(e, "stg_high_b128"), to,
                words, r->lead, bytes, bytes);
        if (near_end(r, v, 0))
            line(e, "if (%s < %d && %s + %d > %d) %s(true, %s, %s, (u32)((%d - (%s)) * %d), %d);", at, tile,
                at, n, tile, use(e, "stg_low_b128"), to, words, tile, at, bytes, bytes);
    }
    end_block(e);
    line(e, "else {");
    e->indent++;
    return SHIFT_PART;
}
