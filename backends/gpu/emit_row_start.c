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
 * A vector of one dimension that all programs read (weights) begins with the row, not with its first word: it
 * is read element by element, or, where words have 16 bytes, as two aligned vectors that are shifted. Rows
 * that are kept in shared memory are worked through in parts (passes/kernel/pipeline/keep_rows.c), each of
 * which begins so.
 *
 * Requires: a kernel without control flow, whose tiles of a row all have one layout with room for the lead;
 * operations by element, reductions along the row, loads and stores of whole rows that begin at the same
 * distance from a word, and of whole vectors. */
#include "backends/gpu/emit_shift.h"

enum { VECTOR = 16 }; /* bytes of the widest access of a lane */

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

/* The part of a row that a window is: all of it, unless rows are worked through in parts. */
typedef struct Part {
    const RowStart *r;
    bool first;   /* it begins with the row */
    int64_t rest; /* elements of the row from its begin on */
} Part;

static const RowStart *row_start(Emit *e, const Layout *l)
{
    RowStart *r = &e->row_start;
    const RowParts *parts = &e->plan->row_parts;
    if (!r->searched && parts->start.bytes) {
        r->searched = true;
        r->n = parts->start.unit / parts->start.bytes;
        r->unit = parts->start.unit;
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
    }
    return r->layout && layout_equal(l, r->layout) ? r : NULL;
}

static Part part_of(const RowStart *r, const Window *w)
{
    int64_t off = 0;
    ir_is_const(w->offset[w->unit], &off);
    return (Part){ r, off == 0, r->row - off };
}

/* A row of a tensor, and the condition that it begins as far from an aligned address as the first row. */
typedef struct RowAlike {
    Window w;
    const char *cond;
} RowAlike;

typedef struct RowsAlike {
    VEC(RowAlike) all;
} RowsAlike;

static bool same_row(const Window *a, const Window *b)
{
    if (a->param != b->param || a->unit != b->unit) return false;
    for (int k = 0; k < a->rank; k++)
        if (k != a->unit && a->offset[k] != b->offset[k]) return false;
    return true;
}

/* The condition for all parts of the row, which begin at multiples of words from its begin. */
static const char *begins_alike(Emit *e, const Window *w, const char *ptr, int bytes)
{
    RowStart *r = &e->row_start;
    for (size_t k = 0; k < r->alike->all.len; k++)
        if (same_row(&r->alike->all.data[k].w, w)) return r->alike->all.data[k].cond;
    const char *cond = tmp(e, "alike");
    line(e, "const bool %s = ((u32)(u64)%s & %d) == (u32)%s * %d;", cond, ptr, r->unit - 1, r->lead, bytes);
    vec_push(&e->s->arena, &r->alike->all, ((RowAlike){ *w, cond }));
    return cond;
}

/* Declares the lead and the coordinate of register 0 at the first access. */
static void begin_row(Emit *e, const Window *w, const char *ptr, int bytes)
{
    RowStart *r = &e->row_start;
    if (r->lead) return;
    const char *lead = tmp(e, "lead"), *from = tmp(e, "from");
    const char *first = index_text(e, thread_coord(e, r->layout, 0));
    line(e, "const i32 %s = (i32)((u32)(u64)%s & %d) / %d;", lead, ptr, r->unit - 1, bytes);
    line(e, "const i32 %s = %s - %s;", from, first, lead);
    r->lead = lead;
    r->first = first;
    r->coord = from;
    r->alike = arena_new(&e->s->arena, RowsAlike);
    vec_push(&e->s->arena, &r->alike->all, ((RowAlike){ *w, "" }));
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

/* Whether run v may reach over the end of the row. */
static bool near_end(const Part *p, int v)
{
    int32_t least, most;
    places(p->r->layout, v * p->r->n, &least, &most);
    return most + p->r->n > p->rest;
}

/* Whether run v may begin before the row. */
static bool near_begin(const Part *p, int v) { return p->first && run_first(p->r, v) < p->r->n; }

static int runs(const RowStart *r) { return (int)layout_regs(r->layout) / r->n; }

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

/* The condition that the words which hold this part of a row can be read. The last row of a tensor goes by
 * element, as its last word may reach over the end of the tensor. */
static const char *can_read_words(Emit *e, const Window *w, const Part *p, const char *ptr, DType d)
{
    const char *can = begins_alike(e, w, ptr, dtype_bytes(d));
    bool ends = false;
    for (int v = 0; v < runs(p->r); v++) ends |= near_end(p, v);
    if (!ends && !p->first) return can;
    for (int a = 0; a < w->rank; a++)
        if (a != w->unit && e->f->params[w->param].stride[a] == FACT_UNKNOWN)
            can = both_conditions(e, can, str(e, "%s >= 0", window_stride(e, w->param, a)));
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

/* Ends it, and opens another one for rows that cannot be accessed so, if there are any. */
static ShiftDone end_words(Emit *e, const char *can)
{
    end_block(e);
    if (!*can) return SHIFT_ALL;
    line(e, "else {");
    e->indent++;
    return SHIFT_PART;
}

static ShiftDone load_row(
    Emit *e, const Window *w, const RowStart *r, const char *ptr, const char *to, DType d)
{
    Part p = part_of(r, w);
    const char *load = window_load_fn(e, w, r->unit), *can = can_read_words(e, w, &p, ptr, d);
    begin_words(e, can);
    const char *from = row_from(e, ptr, d);
    for (int v = 0; v < runs(r); v++) {
        const char *at = str(e, "%s + %d", from, run_first(r, v));
        if (near_end(&p, v))
            at =
                str(e, "(%s < %lld ? %s : %s - %s)", run_place(e, r, v), (long long)p.rest, at, ptr, r->lead);
        line(e, "%s(&%s[%d], %s);", load, to, v * r->n / per_word(d), at);
    }
    return end_words(e, can);
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
    Part p = part_of(r, w);
    begin_row(e, w, ptr, dtype_bytes(d));
    const char *can = can_read_words(e, w, &p, ptr, d);
    begin_words(e, can);
    const char *from = row_from(e, ptr, d);
    for (int v = 0; v < runs(r); v++) {
        const char *at = str(e, "%s + %d", from, run_first(r, v)), *in = "true";
        if (near_end(&p, v)) {
            in = str(e, "%s < %lld", run_place(e, r, v), (long long)p.rest);
            at = str(e, "(%s ? %s : %s - %s)", in, at, ptr, r->lead);
        }
        line(e, "%s(%s + %d, %s, %s);", copy, to, v * apart, at, in);
    }
    return end_words(e, can);
}

/* Run v of a vector of weights, element by element; those beside the vector are read from its start. */
static void load_elements(
    Emit *e, const Window *w, const Part *p, int v, const char *from, const char *to, DType d)
{
    const RowStart *r = p->r;
    int bytes = r->unit / r->n, first = run_first(r, v), in_word = per_word(d);
    const char *word = "", *start = slot_name(e, SLOT_DATA, w->param, 0, d),
               *fn = use(e, bytes == 4 ? "ldg_nc_b32" : str(e, "ldg_%s", dtype_name(bits_type(d))));
    for (int k = 0; k < r->n; k++) {
        const char *inside = near_begin(p, v) ? str(e, "%s + %d >= 0", r->coord, first + k) : "",
                   *at = str(e, "%s + %d", from, first + k);
        if (near_end(p, v))
            inside =
                both_conditions(e, inside, str(e, "%s + %d < %lld", r->coord, first + k, (long long)p->rest));
        if (*inside) at = str(e, "(%s ? %s : %s)", inside, at, start);
        if (bytes == 4) {
            line(e, "%s(&%s[%d], %s);", fn, to, v * r->n + k, at);
            continue;
        }
        const char *x = str(e, "(u32)(u%d)%s(%s)", 8 * bytes, fn, at);
        word = k % in_word ? str(e, "%s | %s << %d", word, x, 8 * bytes * (k % in_word)) : x;
        if (k % in_word == in_word - 1) line(e, "%s[%d] = %s;", to, (v * r->n + k) / in_word, word);
    }
}

/* Where weights are read around the runs of a row: the part's first element, the thread's first vector, the
 * one before it unless the row begins at a vector, and how many elements that is before. */
typedef struct Around {
    const char *part, *low, *high, *before;
} Around;

static Around around_row(Emit *e, const RowStart *r, const char *ptr, DType d)
{
    Around a = { ptr, tmp(e, "low"), tmp(e, "high"), tmp(e, "before") };
    line(e, "const i32 %s = %s ? %d : 0;", a.before, r->lead, r->n);
    line(e, "const %s *const %s = %s + %s, *const %s = %s - %s;", pointee(d), a.high, ptr, r->first, a.low,
        a.high, a.before);
    return a;
}

/* The elements of the vector in which the weights end, which may reach over the end of their tensor: the one
 * or two threads that need them read them one by one, as the vector at or behind their place. */
static void load_last(
    Emit *e, const Part *p, const Around *from, const char *place, const char *around, DType d)
{
    int n = p->r->n, bytes = p->r->unit / n, left = (int)((p->rest % n + n) % n), in_word = per_word(d);
    long long begin = (long long)p->rest - left;
    const char *word = "",
               *fn = use(e, bytes == 4 ? "ldg_nc_b32" : str(e, "ldg_%s", dtype_name(bits_type(d))));
    if (!left) return;
    line(e, "if (%s == %lld || %s - %s == %lld) {", place, begin, place, from->before, begin);
    e->indent++;
    for (int k = 0; k < left; k++) {
        const char *at = str(e, "%s + %lld", from->part, begin + k);
        if (bytes == 4) {
            line(e, "%s(&%s[%d], %s);", fn, around, 4 + k, at);
            continue;
        }
        const char *x = str(e, "(u32)(u%d)%s(%s)", 8 * bytes, fn, at);
        word = k % in_word ? str(e, "%s | %s << %d", word, x, 8 * bytes * (k % in_word)) : x;
        if (k % in_word == in_word - 1 || k + 1 == left)
            line(e, "%s[%d] = %s;", around, 4 + k / in_word, word);
    }
    for (int k = 0; k < (left + in_word - 1) / in_word; k++)
        line(e, "%s[%d] = %s - %s == %lld ? %s[%d] : %s[%d];", around, k, place, from->before, begin, around,
            4 + k, around, k);
    end_block(e);
}

/* Run v of a vector of weights by the two aligned vectors around it: the row begins `lead` elements before
 * its part, and weights begin with it. In place of vectors before the weights, or that reach over their end,
 * the first one is read: nothing needs them, but for load_last. */
static void load_around(
    Emit *e, const Window *w, const Part *p, int v, const Around *from, const char *to, DType d)
{
    const RowStart *r = p->r;
    int first = run_first(r, v), bytes = r->unit / r->n;
    const char *load = window_load_fn(e, w, r->unit), *low = str(e, "%s + %d", from->low, first),
               *high = str(e, "%s + %d", from->high, first), *next = high, *around = tmp(e, "around"),
               *place = str(e, "%s + %d", r->first, first);
    bool last = near_end(p, v);
    if (last) {
        const char *start = slot_name(e, SLOT_DATA, w->param, 0, d);
        long long most = (long long)p->rest - r->n;
        low = str(e, "(%s - %s <= %lld ? %s : %s)", place, from->before, most, low, start);
        next = str(e, "(%s <= %lld ? %s : %s)", place, most, high, start);
    }
    if (near_begin(p, v)) low = str(e, "(%s >= %d ? %s : %s)", place, r->n, low, next);
    line(e, "u32 %s[8];", around);
    line(e, "%s(%s, %s);", load, around, low);
    line(e, "%s(%s + 4, %s);", load, around, next);
    if (last) load_last(e, p, from, place, around, d);
    line(e, "%s((u32 *)&%s[%d], %s, (16 - %s * %d) & 15);", use(e, "funnel_b128"), to, v * r->n / per_word(d),
        around, r->lead, bytes);
}

/* A vector of weights of a row that begins within a word. By elements where words have 4 bytes: neighbouring
 * lanes have neighbouring elements. */
static void load_weights(
    Emit *e, const Window *w, const RowStart *r, const char *ptr, const char *to, DType d)
{
    Part p = part_of(r, w);
    if (r->unit == VECTOR) {
        Around from = around_row(e, r, ptr, d);
        for (int v = 0; v < runs(r); v++) load_around(e, w, &p, v, &from, to, d);
        return;
    }
    const char *from = row_from(e, ptr, d);
    for (int v = 0; v < runs(r); v++) load_elements(e, w, &p, v, from, to, d);
}

ShiftDone emit_row_load(Emit *e, const Window *w, const Layout *l, const char *ptr, const char *to)
{
    const RowStart *r = row_start(e, l);
    DType d = e->f->params[w->param].type->dtype;
    if (!r) return SHIFT_NONE;
    begin_row(e, w, ptr, dtype_bytes(d));
    if (w->rank > 1) return load_row(e, w, r, ptr, to, d);
    load_weights(e, w, r, ptr, to, d);
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
    Emit *e, const Window *w, const Part *p, int v, const char *from, const char *to, DType d)
{
    int n = p->r->n, bytes = p->r->unit / n;
    bool first = near_begin(p, v), last = near_end(p, v);
    const char *at = run_place(e, p->r, v), *whole = first ? str(e, "%s >= 0", at) : "";
    if (last) whole = both_conditions(e, whole, str(e, "%s + %d <= %lld", at, n, (long long)p->rest));
    const char *store = use(e, str(e, "stg%s_b%d", window_hint(e, w, ACCESS_VECTOR), 8 * p->r->unit));
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

ShiftDone emit_row_store(
    Emit *e, const Window *w, const Layout *l, DType d, const char *ptr, const char *from)
{
    const RowStart *r = row_start(e, l);
    if (!r) return SHIFT_NONE;
    Part p = part_of(r, w);
    const char *can = begins_alike(e, w, ptr, dtype_bytes(d));
    begin_words(e, can);
    const char *first = row_from(e, ptr, d);
    for (int v = 0; v < runs(r); v++)
        store_word(e, w, &p, v, from, str(e, "%s + %d", first, run_first(r, v)), d);
    return end_words(e, can);
}

void note_shifted(Emit *e, bool write, const Window *w, const Layout *l)
{
    const RowStart *r = &e->row_start;
    bool words = r->layout && layout_equal(l, r->layout);
    int bytes = !words ? 16 : w->rank == 1 ? r->unit / r->n : r->unit;
    note_wide(e, words ? WAY_VECTORS : WAY_SHIFTED, write, w, l, bytes);
}
