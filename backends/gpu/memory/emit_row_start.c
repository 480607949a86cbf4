/* emit_row_start.c: rows that begin within a word, by the words that hold them. Words have 4 bytes, or 16
 * where rows are kept in shared memory.
 *
 * A program that does the same with every element of a row may hold the row from the word on in which it
 * begins. No word is shifted; the first and the last one are partly outside of the row:
 *
 *     lane:     0    |  1 |  2              coordinate of register 0 of lane 0: -lead
 *     |..aa|bbbb|cccc|....                  lead: elements between the begin of that word and the row
 *
 * The coordinates of all tiles of the row then begin at -lead, so that masks and offsets stay as they are. An
 * access of a warp covers 128 bytes, as those of rows of f32 do.
 *
 * A vector of one dimension that all programs read (weights) begins with the row, not with its first word
 * (emit_row_weights.c). Rows that are kept in shared memory are worked through in parts
 * (passes/kernel/pipeline/keep_rows.c), each of which begins so.
 *
 * A result's row that begins at another distance from a word is stored by whole words, too: each lane takes
 * what it lacks of a word from the lane before (stg_across of backends/cuda/prelude_shift.def).
 *
 * Requires: a kernel without control flow, whose tiles of a row all have one layout with room for the lead;
 * operations by element, reductions along the row, loads and stores of whole rows, and loads of whole
 * vectors. */
#include "backends/gpu/memory/emit_row_start.h"

typedef struct Found {
    Emit *e;
    const Layout *layout;
    bool same;
} Found;

static void visit(void *user, Instr *i)
{
    Found *x = user;
    for (int k = 0; k < i->n_results + i->n_operands && x->same; k++) {
        const Value *v = k < i->n_results ? &i->results[k] : ir_operand(i, k - i->n_results);
        if (!kernel_is_row_tile(v->type) || (!v->type->layout && kernel_is_cheap(v))) continue;
        const Layout *l = v->type->layout ? layout_of(x->e, v) : NULL;
        if (!x->layout) x->layout = l;
        x->same &= l && layout_equal(l, x->layout);
    }
}

/* The bytes of which a row may be held from a multiple on: a line of L1, as far as the layout has room for
 * what lies before the row, and that lies in the thread's first word. */
static int line_of(const RowStart *r)
{
    int bytes = r->unit / r->n, line = ROW_LINE, room = r->layout->cover[0] - r->layout->tile[0];
    int next = row_runs(r) > 1 ? row_run_first(r, 1) * bytes : line;
    while (line > r->unit && (line / bytes - 1 > room || line > next)) line /= 2;
    return line;
}

const RowStart *row_start(Emit *e, const Layout *l)
{
    RowStart *r = &e->row_start;
    const RowParts *parts = &e->plan->row_parts;
    if (!r->searched && parts->start.bytes) {
        r->searched = true;
        r->n = parts->start.unit / parts->start.bytes;
        r->unit = parts->start.unit;
        r->line = parts->line;
        r->layout = parts->layout;
        r->row = (int)parts->row;
    }
    if (!r->searched) {
        Found x = { .e = e };
        RowStartAccess row = { 0 };
        if (!is_hip(e) && !e->guard && e->role < 0) row = kernel_row_start(e->f, e->plan);
        r->searched = true;
        x.same = row.bytes > 0;
        if (row.bytes) ir_walk(e->f->body, visit, &x);
        r->n = row.bytes ? row.unit / row.bytes : 1;
        r->unit = row.unit;
        if (!x.same || !x.layout || !row.leads || !kernel_row_runs(x.layout, r->n) ||
            *unique_holder(e, x.layout) || x.layout->cover[0] < x.layout->tile[0] + r->n - 1)
            return NULL;
        r->layout = x.layout;
        r->row = x.layout->tile[0];
        r->line = line_of(r);
    }
    return r->layout && layout_equal(l, r->layout) ? r : NULL;
}

RowPart row_part_of(const RowStart *r, const Window *w)
{
    int64_t off = 0;
    ir_is_const(w->offset[w->unit], &off);
    return (RowPart){ r, off == 0, r->row - off };
}

static bool same_row(const Window *a, const Window *b)
{
    if (a->param != b->param || a->unit != b->unit) return false;
    for (int k = 0; k < a->rank; k++)
        if (k != a->unit && a->offset[k] != b->offset[k]) return false;
    return true;
}

static const RowAlike *row_alike(const Emit *e, const Window *w)
{
    const RowsAlike *r = e->row_start.alike;
    for (size_t k = 0; k < r->all.len; k++)
        if (same_row(&r->all.data[k].w, w)) return &r->all.data[k];
    return NULL;
}

/* Parts have constant distances from the first one, so that one pointer serves all of them. */
static void add_row(Emit *e, const Window *w, const char *ptr, const char *cond)
{
    const RowStart *r = &e->row_start;
    RowAlike a = { *w, cond, NULL };
    if (r->unit == ROW_VECTOR && row_part_of(r, w).first) {
        a.from = tmp(e, "row");
        line(e, "const %s *const %s = %s + %s;", pointee(e->f->params[w->param].type->dtype), a.from, ptr,
            r->coord);
    }
    vec_push(&e->s->arena, &r->alike->all, a);
}

/* The condition for all parts of the row, which begin at multiples of words from its begin. */
static const char *begins_alike(Emit *e, const Window *w, const char *ptr, int bytes)
{
    const RowStart *r = &e->row_start;
    const RowAlike *known = row_alike(e, w);
    if (known) return known->cond;
    const char *cond = tmp(e, "alike");
    line(e, "const bool %s = ((u32)(u64)%s & %d) == (u32)%s * %d;", cond, ptr, r->n * bytes - 1, r->within,
        bytes);
    add_row(e, w, ptr, cond);
    return cond;
}

/* The thread's first access of this part of the row. */
static const char *row_part_from(Emit *e, const Window *w, const char *ptr, DType d)
{
    const RowAlike *a = row_alike(e, w);
    if (!a || !a->from) return row_from(e, ptr, d);
    return str(e, "%s + %lld", a->from, (long long)(e->row_start.row - row_part_of(&e->row_start, w).rest));
}

/* Declares the lead and the coordinate of register 0 at the first access. */
static void begin_row(Emit *e, const Window *w, const char *ptr, int bytes)
{
    RowStart *r = &e->row_start;
    if (r->lead) return;
    const char *lead = tmp(e, "lead"), *from = tmp(e, "from");
    const char *first = index_text(e, thread_coord(e, r->layout, 0));
    line(e, "const i32 %s = (i32)((u32)(u64)%s & %d) / %d;", lead, ptr, r->line - 1, bytes);
    line(e, "const i32 %s = %s - %s;", from, first, lead);
    r->lead = lead;
    r->first = first;
    r->within = lead;
    if (r->line > r->unit) {
        r->first = tmp(e, "aligned");
        r->within = tmp(e, "within");
        line(
            e, "const i32 %s = %s & %d, %s = %s + %s;", r->within, lead, r->n - 1, r->first, from, r->within);
    }
    r->coord = from;
    r->alike = arena_new(&e->s->arena, RowsAlike);
    add_row(e, w, ptr, "");
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

int row_run_first(const RowStart *r, int v)
{
    int32_t least, most;
    places(r->layout, v * r->n, &least, &most);
    return least;
}

/* The coordinate of the first element of run v. */
static const char *run_place(Emit *e, const RowStart *r, int v)
{ return str(e, "%s + %d", r->coord, row_run_first(r, v)); }

bool row_near_end(const RowPart *p, int v)
{
    int32_t least, most;
    places(p->r->layout, v * p->r->n, &least, &most);
    return most + p->r->n > p->rest;
}

bool row_near_begin(const RowPart *p, int v)
{ return p->first && row_run_first(p->r, v) * (p->r->unit / p->r->n) < p->r->line; }

/* The condition that the access holds something of the row; "": each does. Where none does, the one is read
 * with which the part begins. */
static const char *holds_row(Emit *e, const RowPart *p, int v)
{
    const char *x = "";
    if (row_near_begin(p, v) && p->r->line > p->r->unit)
        x = str(e, "%s > -%d", run_place(e, p->r, v), p->r->n);
    if (row_near_end(p, v))
        x = both_conditions(e, x, str(e, "%s < %lld", run_place(e, p->r, v), (long long)p->rest));
    return x;
}

int row_runs(const RowStart *r) { return (int)layout_regs(r->layout) / r->n; }

const char *row_from(Emit *e, const char *ptr, DType d)
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

/* The condition that the words which hold this part of a row can be read. The last row of a tensor goes by
 * element, as its last word may reach over the end of the tensor, and so does the first row of a tensor that
 * may itself begin within a word. */
static const char *can_read_words(Emit *e, const Window *w, const RowPart *p, const char *ptr, DType d)
{
    const char *can = begins_alike(e, w, ptr, dtype_bytes(d));
    bool ends = false;
    for (int v = 0; v < row_runs(p->r); v++) ends |= row_near_end(p, v);
    if (!ends && !p->first) return can;
    const Param *q = &e->f->params[w->param];
    for (int a = 0; a < w->rank; a++)
        if (a != w->unit && q->stride[a] == FACT_UNKNOWN)
            can = both_conditions(e, can, str(e, "%s >= 0", window_stride(e, w->param, a)));
    if (p->first && q->align % p->r->unit)
        can = both_conditions(e, can,
            str(e, "(u64)(%s - %s) >= (u64)%s", ptr, e->row_start.within,
                slot_name(e, SLOT_DATA, w->param, 0, d)));
    if (!ends) return can;
    return both_conditions(e, can,
        str(e, "(u64)(%s + %lld) + %d <= (u64)(%s)", ptr, (long long)p->rest, p->r->unit, tensor_end(e, w)));
}

/* Opens a block for accesses by words. */
static void begin_words(Emit *e, const char *can)
{
    line(e, *can ? "if (%s) {" : "{", can);
    e->indent++;
}

/* Ends it, and opens another one for rows that cannot be accessed so, if there are any. That of stores is
 * kept apart, where it is long: as instructions under a predicate it would cost all rows its time. */
static ShiftDone end_words(Emit *e, const char *can, bool apart)
{
    end_block(e);
    if (!*can) return SHIFT_ALL;
    line(e, "else {");
    e->indent++;
    if (apart) line(e, "%s();", use(e, "stay_branch"));
    return SHIFT_PART;
}

static ShiftDone load_row(
    Emit *e, const Window *w, const RowStart *r, const char *ptr, const char *to, DType d)
{
    RowPart p = row_part_of(r, w);
    const char *load = window_load_fn(e, w, r->unit), *can = can_read_words(e, w, &p, ptr, d);
    begin_words(e, can);
    const char *from = row_part_from(e, w, ptr, d);
    for (int v = 0; v < row_runs(r); v++) {
        const char *at = str(e, "%s + %d", from, row_run_first(r, v));
        const char *in = holds_row(e, &p, v);
        if (*in) at = str(e, "(%s ? %s : %s - %s)", in, at, ptr, r->within);
        line(e, "%s(&%s[%d], %s);", load, to, v * r->n / per_word(d), at);
    }
    return end_words(e, can, false);
}

int emit_row_words(Emit *e, const Layout *l)
{
    const RowStart *r = row_start(e, l);
    return r ? r->unit : 0;
}

ShiftDone emit_row_copies(
    Emit *e, const Window *w, const Layout *l, const char *ptr, const char *to, int apart)
{
    const RowStart *r = row_start(e, l);
    DType d = e->f->params[w->param].type->dtype;
    const char *copy = use(e, str(e, "cp_async_b%d", 8 * r->unit));
    RowPart p = row_part_of(r, w);
    begin_row(e, w, ptr, dtype_bytes(d));
    const char *can = can_read_words(e, w, &p, ptr, d);
    begin_words(e, can);
    const char *from = row_part_from(e, w, ptr, d);
    for (int v = 0; v < row_runs(r); v++) {
        const char *at = str(e, "%s + %d", from, row_run_first(r, v)), *in = holds_row(e, &p, v);
        if (*in) at = str(e, "(%s ? %s : %s - %s)", in, at, ptr, r->within);
        line(e, "%s(%s + %d, %s, %s);", copy, to, v * apart, at, *in ? in : "true");
    }
    return end_words(e, can, false);
}

ShiftDone emit_row_load(Emit *e, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    const RowStart *r = row_start(e, l);
    DType d = e->f->params[w->param].type->dtype;
    if (!r) return SHIFT_NONE;
    begin_row(e, w, ptr, dtype_bytes(d));
    if (w->rank > 1) return load_row(e, w, r, ptr, to, d);
    emit_row_weights(e, w, r, ptr, to);
    return SHIFT_ALL;
}

/* Element k of the run at register `reg` of `from`. */
static void store_element(Emit *e, const char *to, const char *from, int reg, int bytes)
{
    int in_word = bytes < 4 ? 4 / bytes : 1;
    if (bytes == 4) line(e, "%s((void *)(%s), &%s[%d]);", use(e, "stg_b32"), to, from, reg);
    else
        line(e, "%s((u%d *)(%s), (u%d)(%s[%d] >> %d));", use(e, str(e, "stg_u%d", 8 * bytes)), 8 * bytes, to,
            8 * bytes, from, reg / in_word, 8 * bytes * (reg % in_word));
}

/* Stores run v, which may reach over the begin or the end of the row: the word, or its elements inside. */
static void store_word(
    Emit *e, const Window *w, const RowPart *p, int v, const char *from, const char *to, DType d)
{
    int n = p->r->n, bytes = dtype_bytes(d);
    bool first = row_near_begin(p, v), last = row_near_end(p, v);
    const char *at = run_place(e, p->r, v), *whole = first ? str(e, "%s >= 0", at) : "";
    if (last) whole = both_conditions(e, whole, str(e, "%s + %d <= %lld", at, n, (long long)p->rest));
    const char *store = use(e, str(e, "stg%s_b%d", window_hint(e, w, ACCESS_VECTOR), 8 * n * bytes));
    if (*whole) line(e, "if (%s)", whole);
    line(e, "%s((void *)(%s), &%s[%d]);", store, to, from, v * n / per_word(d));
    if (!*whole) return;
    line(e, last ? "else if (%s < %lld) {" : "else {", at, (long long)p->rest);
    e->indent++;
    for (int k = 0; k < n; k++) {
        const char *inside = first ? str(e, "%s + %d >= 0", at, k) : "";
        if (last) inside = both_conditions(e, inside, str(e, "%s + %d < %lld", at, k, (long long)p->rest));
        line(e, "if (%s)", inside);
        store_element(e, str(e, "%s + %d", to, k), from, v * n + k, bytes);
    }
    end_block(e);
}

/* Stores run v of a row that begins at another distance from a word than the one that is held: each lane's
 * run lies across two words of memory, and takes what it lacks of the first one from the lane before. */
static void store_across(
    Emit *e, const Window *w, const RowPart *p, int v, const char *from, const char *to, DType d)
{
    enum { FAR = 4096 }; /* bytes that are more than those of a warp's access */
    int bytes = dtype_bytes(d), wide = p->r->n * bytes;
    const char *at = run_place(e, p->r, v), *begin = str(e, "-%d", wide), *end = str(e, "%d", FAR);
    if (row_near_begin(p, v)) begin = str(e, "-(%s) * %d", at, bytes);
    if (row_near_end(p, v)) end = str(e, "(%lld - (%s)) * %d", (long long)p->rest, at, bytes);
    const bool halves = bytes == 2 && wide == 4;
    const char *fn = use(e, halves ? "stg_across_h32" : str(e, "stg_across_b%d", 8 * wide));
    line(e, "%s((void *)(%s), (const u32 *)&%s[%d], lane, %s, %s%s);", fn, to, from,
        v * p->r->n / per_word(d), begin, end, halves ? "" : str(e, ", %d", bytes));
}

ShiftDone emit_row_store(
    Emit *e, const Window *w, const Layout *l, DType d, const char *ptr, const char *from)
{
    const RowStart *r = row_start(e, l);
    if (!r) return SHIFT_NONE;
    RowPart p = row_part_of(r, w);
    const char *can = begins_alike(e, w, ptr, dtype_bytes(d));
    begin_words(e, can);
    const char *first = row_part_from(e, w, ptr, d);
    for (int v = 0; v < row_runs(r); v++)
        store_word(e, w, &p, v, from, str(e, "%s + %d", first, row_run_first(r, v)), d);
    if (end_words(e, can, r->unit == ROW_VECTOR) == SHIFT_ALL) return SHIFT_ALL;
    first = row_part_from(e, w, ptr, d);
    for (int v = 0; v < row_runs(r); v++)
        store_across(e, w, &p, v, from, str(e, "%s + %d", first, row_run_first(r, v)), d);
    end_block(e);
    return SHIFT_ALL;
}

void note_shifted(Emit *e, bool write, const Window *w, const Layout *l)
{
    const RowStart *r = &e->row_start;
    bool words = r->layout && layout_equal(l, r->layout);
    int bytes = !words ? 16 : w->rank == 1 ? r->unit / r->n : r->unit;
    note_wide(e, words ? WAY_VECTORS : WAY_SHIFTED, write, w, l, bytes);
}
