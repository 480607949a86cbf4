/* emit_shift.c: rows that begin at no multiple of 16 bytes, by accesses of 16 bytes
 * (passes/kernel/layout/unaligned_vectors.c says where that pays).
 *
 * A lane's run of 16 bytes lies in two aligned vectors: a load reads both and takes the bytes in between
 * (funnel_b128). It may read up to 15 bytes on either side of the run, so a program whose window comes near
 * an end of the tensor goes by element: one branch a program, none a lane.
 *
 *     | row begins at byte s of a vector        lane:     0     |     1     |     2
 *     |....aaaaaaaaaaaabbbb|bbbbbbbbbbbbcccc|               a (16 bytes)  b           c
 *
 * A store rotates each run by s; a vector is then the upper part of a lane's run and the lower part of the
 * run before, which is the lane before's (the last lane's of the register before): one exchange. Vectors at
 * the ends of a chain of runs, which others share, go in pieces of 8, 4, 2 and 1 bytes. */
#include "backends/gpu/emit.h"
#include "ir/text.h"
#include <stdlib.h>

typedef struct Shift {
    Emit *e;
    const Window *w;
    const Layout *l;
    const char *ptr, *limit;  /* elements of the tile along the unit axis that are there: an expression, or a
                                 number as text */
    int64_t known;            /* the same where it is known, or -1 */
    int bytes, n, vectors;    /* of an element; elements of a run; runs of a lane */
    const char *at;           /* of a run being written: its coordinate along the unit axis, */
    const char *index, *rows; /* its element offset, whether its row is there */
    bool one_row;             /* all runs of a warp are of one row, at which ptr then stands */
    bool at_row;              /* it does */
} Shift;

static bool begin(Emit *e, const Window *w, const Layout *l, DType d, Shift *s)
{
    int bytes = dtype_bytes(d);
    ShiftChain c;
    *s = (Shift){ .e = e, .w = w, .l = l, .bytes = bytes, .known = -1, .one_row = true };
    if (is_hip(e) || e->guard || e->plan->options.no_shift || w->unit_tile < 0 || w->step[w->unit] != 1 ||
        bytes > 4 || d == DT_BOOL)
        return false;
    if (!kernel_shift_chain(&e->s->arena, l, w->unit_tile, bytes, &c)) return false;
    s->n = c.n;
    s->vectors = c.vectors;
    int32_t x[TILE_MAX_RANK];
    for (uint32_t r = 0; r < layout_regs(l) + layout_lanes(l); r++) {
        layout_element(l, r < layout_regs(l) ? r : 0, r < layout_regs(l) ? 0 : r - layout_regs(l), 0, 0, x);
        for (int a = 0; a < l->rank; a++) s->one_row &= a == w->unit_tile || x[a] == 0;
    }
    return true;
}

static bool offset_known(Shift *s) /* not below 0? */
{
    const Value *o = s->w->offset[s->w->unit];
    if (!s->e->ranges) s->e->ranges = ranges_new(s->e->f);
    return range_of(s->e->ranges, o).lo >= 0;
}

static void find_limit(Shift *s)
{
    Emit *e = s->e;
    const Window *w = s->w;
    int tile = s->l->tile[w->unit_tile];
    const Value *o = w->offset[w->unit];
    int64_t off, extent = e->f->dims[e->f->params[w->param].dims[w->unit]].extent;
    bool fixed = ir_is_const(o, &off);
    s->known = !w->masked ? tile : fixed && extent >= 0 ? (extent - off < tile ? extent - off : tile) : -1;
    if (s->known >= 0) {
        s->limit = str(e, "%lld", (long long)s->known);
        return;
    }
    const char *left = tmp(e, "left");
    const char *all = window_extent(e, w->param, w->unit);
    line(e, "const i64 %s = (i64)%s - %s;", left, all,
        fixed ? str(e, "%lldll", (long long)off) : str(e, "(i64)%s", name_of(e, o)));
    s->limit = tmp(e, "limit");
    line(e, "const i32 %s = %s < %d ? (i32)%s : %d;", s->limit, left, tile, left, tile);
}

/* The run at register `r`, an expression. */
static void place(Shift *s, const char *r)
{
    Emit *e = s->e;
    const char *c[TILE_MAX_RANK];
    coords_at(e, s->l, r, c);
    s->at = c[s->w->unit_tile];
    s->rows = window_condition(e, s->w, c, true);
    for (int a = 0; a < s->l->rank; a++) {
        if (a != s->w->unit_tile && s->l->cover[a] != s->l->tile[a])
            s->rows = both_conditions(e, s->rows, str(e, "%s < %d", c[a], s->l->tile[a]));
        if (a != s->w->unit_tile && s->at_row) c[a] = "0";
    }
    s->index = window_index(e, s->w, c);
}

/* From here on ptr is the warp's row (or the window's first, where that is not there and is read). */
static void go_to_row(Shift *s, bool reads)
{
    Emit *e = s->e;
    const char *c[TILE_MAX_RANK];
    if (!s->one_row) return;
    place(s, "0");
    coords_at(e, s->l, "0", c);
    c[s->w->unit_tile] = "0";
    const char *index = window_index(e, s->w, c), *row = tmp(e, "row");
    s->at_row = true;
    if (!strcmp(index, "0")) return;
    if (reads && *s->rows) index = str(e, "(%s ? %s : 0)", s->rows, index);
    line(e, "const %s *const %s = %s + %s;", pointee(e->f->params[s->w->param].type->dtype), row, s->ptr,
        index);
    s->ptr = row;
}

/* Do all threads' runs at vector v end before the limit (where: -1), lie wholly behind it (1), or may one
 * cross it or come so near that bytes of an aligned vector do (0)? near: elements that count as near. */
static int against_limit(const Shift *s, int v, int near)
{
    int32_t c[TILE_MAX_RANK];
    bool before = true, behind = true;
    if (s->known < 0) return 0;
    for (uint32_t b = 0; b < layout_blocks(s->l); b++)
        for (uint32_t w = 0; w < layout_warps(s->l); w++)
            for (uint32_t lane = 0; lane < layout_lanes(s->l); lane++) {
                layout_element(s->l, (uint32_t)(v * s->n), lane, w, b, c);
                int64_t at = c[s->w->unit_tile];
                before &= at + s->n <= s->known;
                behind &= at - near >= s->known;
            }
    return before ? -1 : behind ? 1 : 0;
}

/* First and last byte of the window and of the tensor apart by enough: then aligned vectors around runs lie
 * in the tensor. */
static const char *far_from_ends(Shift *s)
{
    Emit *e = s->e;
    const Window *w = s->w;
    const Param *p = &e->f->params[w->param];
    const char *data = slot_name(e, SLOT_DATA, w->param, 0, p->type->dtype), *last = s->limit,
               *end = window_extent(e, w->param, w->unit), *first = "", *begin = "";
    bool low = p->align % 16 != 0;
    for (int a = 0; a < w->rank; a++) {
        if (a == w->unit) continue;
        const char *stride = window_stride(e, w->param, a), *extent = window_extent(e, w->param, a), *count;
        int tile = w->tile_axis[a] < 0 ? 1 : s->l->tile[w->tile_axis[a]];
        bool known = p->stride[a] != FACT_UNKNOWN;
        const char *all = str(e, "((i64)%s - 1) * %s", extent, stride);
        int64_t off;
        if (!known) {
            all = str(e, "(%s > 0 ? %s : 0)", stride, all);
            begin = str(e, "%s + (%s < 0 ? ((i64)%s - 1) * %s : 0)", begin, stride, extent, stride);
            low = true;
        }
        end = str(e, "%s + %s", end, all);
        if (tile == 1) continue;
        count = str(e, "%d", tile);
        if (w->masked) {
            const char *left = str(e, "((i64)%s - %s)", extent,
                ir_is_const(w->offset[a], &off) ? str(e, "%lldll", (long long)off)
                                                : str(e, "(i64)%s", name_of(e, w->offset[a])));
            count = str(e, "(%s < %d ? %s : %d)", left, tile, left, tile);
        }
        const char *span = str(e, "((i64)%s - 1) * %s * %lld", count, stride, (long long)w->step[a]);
        if (!known) {
            first = str(e, "%s + (%s < 0 ? %s : 0)", first, stride, span);
            span = str(e, "(%s > 0 ? %s : 0)", stride, span);
        }
        last = str(e, "%s + %s", last, span);
    }
    const char *far = str(e, "(u64)(%s + %s) + 32 <= (u64)(%s + %s)", s->ptr, last, data, end);
    return low ? str(e, "%s && (u64)(%s%s) - 16 >= (u64)(%s%s)", far, s->ptr, first, data, begin) : far;
}

static const char *as_bytes(Shift *s, const char *elements)
{ return s->bytes == 1 ? elements : str(s->e, "(%s) * %d", elements, s->bytes); }

static const char *pad_bits(Emit *e, const Value *pad, DType d)
{
    if (!pad) return "0";
    if (per_word(d) > 1) return pad_word(e, pad, d);
    return d == DT_F32 ? str(e, "%s(%s)", use(e, "float_word"), name_of(e, pad))
                       : str(e, "(u32)%s", name_of(e, pad));
}

enum { AT_ONCE = 4 }; /* runs loaded before any is put in place: registers for their vectors */

/* An element offset that is there for every thread: the run's own, or the window's first. */
static const char *there(Shift *s, const char *cond)
{ return *cond ? str(s->e, "(%s ? %s : 0)", cond, s->index) : s->index; }

static const char *inside_limit(Shift *s, bool ragged)
{ return both_conditions(s->e, s->rows, ragged ? str(s->e, "%s < %s", s->at, s->limit) : ""); }

static const char *run_at(Shift *s, int first)
{ return first ? str(s->e, "%d * v + %d", s->n, first * s->n) : str(s->e, "%d * v", s->n); }

/* Rows that are aligned: whole vectors, and pieces of that in which the row ends. */
static void load_aligned(Shift *s, const char *to, const Value *pad, int first, int count, bool ragged)
{
    Emit *e = s->e;
    DType d = e->f->params[s->w->param].type->dtype;
    int step = s->n / per_word(d);
    const char *run = tmp(e, "run"), *load = window_load_fn(e, s->w, 16);
    bool pieces = ragged && (s->known < 0 || s->known % s->n);
    if (!count) return;
    begin_unrolled(e, "v", count);
    place(s, run_at(s, first));
    line(e, "u32 *const %s = (u32 *)&%s[%d * v + %d];", run, to, step, first * step);
    const char *whole =
                   both_conditions(e, s->rows, ragged ? str(e, "%s + %d <= %s", s->at, s->n, s->limit) : ""),
               *some = pieces ? both_conditions(e, s->rows,
                                    str(e, "%s < %s && %s + %d > %s", s->at, s->limit, s->at, s->n, s->limit))
                              : "";
    line(e, "%s(%s, %s + %s);", load, run, s->ptr, there(s, whole));
    if (pieces) {
        line(e, "u32 part[4];");
        line(e, "%s(part, %s + %s, (u32)(%s) & 15);", use(e, "ldg_nc_low_b128"), s->ptr, there(s, some),
            as_bytes(s, s->limit));
    }
    if (*whole) {
        const char *none = s->w->masked ? pad_bits(e, pad, d) : str(e, "%s[q]", run),
                   *other = pieces ? str(e, "%s ? part[q] : %s", some, none) : none;
        begin_unrolled(e, "q", 4);
        if (pieces || s->w->masked) line(e, "%s[q] = %s ? %s[q] : %s;", run, whole, run, other);
        end_block(e);
        if (pieces && pad) {
            const char *keep = use(e, "keep_low_b128"), *bits = pad_bits(e, pad, d);
            line(e, "if (%s) %s(%s, (i32)((u32)(%s) & 15), %s);", some, keep, run, as_bytes(s, s->limit),
                bits);
        }
    }
    end_block(e);
}

static const char *shift_of(Shift *s, const char *p)
{ return str(s->e, "(u32)(u64)(%s) & %d", p, 16 - s->bytes); }

static void begin_word(Shift *s, const char *shift, int word)
{
    line(s->e,
        word == 3 ? "else {"
        : word    ? "else if (%s >> 2 == %d) {"
                  : "if (%s >> 2 == %d) {",
        shift, word);
    s->e->indent++;
}

/* The shift, of which the words are known. */
static const char *in_word(Shift *s, const char *shift, int word)
{
    if (s->bytes == 4) return str(s->e, "%du", 4 * word);
    return word ? str(s->e, "%du + (%s & 3)", 4 * word, shift) : str(s->e, "(%s & 3)", shift);
}

/* Rows that are not: the vectors around each run, then what lies between. */
static void load_around(Shift *s, const char *to, const char *shift, int first, int count, bool ragged)
{
    Emit *e = s->e;
    DType d = e->f->params[s->w->param].type->dtype;
    const char *around = tmp(e, "around"), *load = window_load_fn(e, s->w, 16),
               *place_run = use(e, "funnel_b128");
    int step = s->n / per_word(d);
    line(e, "u32 %s[%d];", around, 8 * count);
    begin_unrolled(e, "v", count);
    place(s, run_at(s, first));
    const char *at = there(s, inside_limit(s, ragged));
    if (s->one_row) {
        line(e, "%s(&%s[8 * v], %s + %s);", load, around, str(e, "%s_low", shift), at);
        line(e, "%s(&%s[8 * v + 4], %s + %s);", load, around, str(e, "%s_high", shift), at);
    } else {
        line(e, "const u64 p = (u64)(%s + %s);", s->ptr, at);
        line(e, "%s(&%s[8 * v], (const void *)(p & ~15ull));", load, around);
        line(e, "%s(&%s[8 * v + 4], (const void *)((p + 15) & ~15ull));", load, around);
    }
    end_block(e);
    for (int word = 0; word < (s->one_row ? 4 : 1);
        word++) { /* words are chosen by the code that is taken, not by instructions */
        if (s->one_row) begin_word(s, shift, word);
        begin_unrolled(e, "v", count);
        place(s, run_at(s, first));
        const char *by = s->one_row
                             ? in_word(s, shift, word)
                             : shift_of(s, str(e, "%s + %s", s->ptr, there(s, inside_limit(s, ragged))));
        line(
            e, "%s((u32 *)&%s[%d * v + %d], &%s[8 * v], %s);", place_run, to, step, first * step, around, by);
        end_block(e);
        if (s->one_row) end_block(e);
    }
}

/* Does the row end before the tile does, whatever the launch? Then some threads never find their elements. */
static bool ends_inside(const Shift *s) { return s->known >= 0 && s->known < s->l->tile[s->w->unit_tile]; }

/* Does every thread find all of the tile there? "": always. Only where the row may be long enough. */
static const char *all_there(Shift *s)
{
    Emit *e = s->e;
    const Window *w = s->w;
    const char *x = s->known >= 0 ? "" : str(e, "%s >= %d", s->limit, s->l->tile[w->unit_tile]);
    for (int a = 0; a < w->rank && w->masked; a++)
        if (a != w->unit && w->tile_axis[a] >= 0 && s->l->tile[w->tile_axis[a]] > 1) {
            const char *from = name_of(e, w->offset[a]), *all = window_extent(e, w->param, a);
            x = both_conditions(e, x, str(e, "(i64)%s + %d <= %s", from, s->l->tile[w->tile_axis[a]], all));
        }
    return x;
}

static void pad_runs(Shift *s, const char *to, const Value *pad)
{
    Emit *e = s->e;
    DType d = e->f->params[s->w->param].type->dtype;
    const char *whole = ends_inside(s) ? "" : all_there(s);
    line(e, *whole ? "if (!(%s)) {" : "{", whole);
    e->indent++;
    begin_unrolled(e, "v", s->vectors);
    place(s, run_at(s, 0));
    const char *left = as_bytes(s, str(e, "%s - %s", s->limit, s->at));
    if (*s->rows) left = str(e, "%s ? %s : 0", s->rows, left);
    const char *keep = use(e, "keep_low_b128"), *bits = pad_bits(e, pad, d);
    line(e, "const i32 left = %s;", left);
    line(e, "if (left < 16) %s((u32 *)&%s[%d * v], left, %s);", keep, to, s->n / per_word(d), bits);
    end_block(e);
    end_block(e);
}

/* The window begins in the tensor and has a whole run in its rows. */
static const char *begins_inside(Shift *s)
{
    Emit *e = s->e;
    const Window *w = s->w;
    const char *x = "";
    if (!w->masked) return x;
    if (!offset_known(s)) x = str(e, "%s >= 0", name_of(e, w->offset[w->unit]));
    if (s->known < 0) x = both_conditions(e, x, str(e, "%s >= %d", s->limit, s->n));
    const char *c[TILE_MAX_RANK];
    for (int a = 0; a < s->l->rank; a++) c[a] = "0";
    return both_conditions(e, x, window_condition(e, w, c, true));
}

ShiftDone emit_shifted_load(
    Emit *e, const Window *w, const Layout *l, const char *ptr, const char *to, const Value *pad)
{
    Shift s;
    LayoutVector v;
    DType d = e->f->params[w->param].type->dtype;
    if (e->f->params[w->param].kind != PARAM_IN || !begin(e, w, l, d, &s) ||
        (window_vector(e, w, l, d, &v) > 1 && v.bytes == 16 && window_whole_vectors(e, w, (int)v.n)))
        return SHIFT_NONE;
    bool aligned = w->align % 16 == 0;
    s.ptr = ptr;
    find_limit(&s);
    if (s.known >= 0 && s.known < s.n) return SHIFT_NONE;
    const char *fast = begins_inside(&s), *shift = NULL;
    if (!aligned) fast = both_conditions(e, fast, far_from_ends(&s));
    line(e, *fast ? "if (%s) {" : "{", fast);
    e->indent++;
    /* runs that end before the limit in all threads need no care */
    int whole = 0;
    while (whole < s.vectors && against_limit(&s, whole, 0) < 0) whole++;
    if (aligned) {
        load_aligned(&s, to, pad, 0, whole, false);
        load_aligned(&s, to, pad, whole, s.vectors - whole, true);
    } else {
        go_to_row(&s, true);
        if (s.one_row) {
            const char *t = pointee(d);
            shift = tmp(e, "shift");
            line(e, "const u32 %s = %s;", shift, shift_of(&s, s.ptr));
            line(e, "const %s *const %s_low = %s - %s / %d, *const %s_high = %s_low + (%s ? %d : 0);", t,
                shift, s.ptr, shift, s.bytes, shift, shift, shift, s.n);
        }
        for (int k = 0; k < s.vectors; k += AT_ONCE)
            load_around(
                &s, to, shift, k, s.vectors - k < AT_ONCE ? s.vectors - k : AT_ONCE, k + AT_ONCE > whole);
        if (w->masked) pad_runs(&s, to, pad);
    }
    end_block(e);
    if (!*fast) return SHIFT_ALL;
    line(e, "else {");
    e->indent++;
    return SHIFT_PART;
}

/* --- stores ------------------------------------------------------------------------------------------ */

/* Vectors: an array of all aligned vectors, each with what the run before has of it; rest: words that the
 * last lane of run v hands on. */
typedef struct Exchange {
    const char *vectors, *rest, *shift, *first, *holder;
    const ShiftChain *chain;
} Exchange;

/* For the vector in which run v (an expression) begins: `at`, the run's address, `s`, its shift, `k`, the
 * coordinate of the vector's first element. */
static void begin_vector(Shift *s, const Exchange *x, const char *v)
{
    Emit *e = s->e;
    place(s, irtext_digit(*v) ? str(e, "%d", s->n * atoi(v)) : str(e, "%d * %s", s->n, v));
    line(
        e, "const %s *const at = %s + %s;", pointee(e->f->params[s->w->param].type->dtype), s->ptr, s->index);
    line(e, "const u32 s = %s;", s->one_row ? x->shift : shift_of(s, "at"));
    line(e, "u8 *const p = (u8 *)at - s;");
    line(e, "const i32 k = %s - (i32)s / %d;", s->at, s->bytes);
}

static const char *any_of(Emit *e, const char *a, const char *b)
{ return !*a || !*b ? "" : str(e, "(%s || %s)", a, b); }

/* Whole vectors. A chain's first is that if the row begins there. tails: instead the pieces before the limit,
 * wherever that is. */
static void store_vectors(Shift *s, const Exchange *x, bool tails)
{
    Emit *e = s->e;
    int n = s->vectors, count = 0;
    int32_t *inner = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int v = 0; v < n; v++) count += inner[v] = x->chain->before[v] >= 0;
    begin_unrolled(e, "v", n);
    begin_vector(s, x, "v");
    const char *apart =
        count == n ? "" : any_of(e, "s == 0", x->chain->lanes > 1 ? str(e, "!%s", x->first) : "false");
    if (count && count < n) apart = any_of(e, str(e, "%s", index_formula(e, inner, n, "v")), apart);
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows), apart);
    if (!tails)
        line(e, "%s(%s, p, &%s[4 * v]);",
            use(e, str(e, "stg_if%s_b128", window_hint(e, s->w, ACCESS_VECTOR))),
            both_conditions(e, mine, str(e, "k + %d <= %s", s->n, s->limit)), x->vectors);
    else
        line(e, "if (%s) %s(true, p, &%s[4 * v], %s, %d);",
            both_conditions(e, mine, str(e, "k < %s && k + %d > %s", s->limit, s->n, s->limit)),
            use(e, "stg_low_b128"), x->vectors, as_bytes(s, str(e, "%s - k", s->limit)), s->bytes);
    end_block(e);
}

static void begin_edge(Shift *s, const Exchange *x, int v)
{
    line(s->e, "{");
    s->e->indent++;
    begin_vector(s, x, str(s->e, "%d", v));
}

/* The vector in which the row ends, if run v begins in it. */
static void store_tail(Shift *s, const Exchange *x, int v)
{
    Emit *e = s->e;
    begin_edge(s, x, v);
    const char *apart = x->chain->before[v] >= 0
                            ? ""
                            : any_of(e, "s == 0", x->chain->lanes > 1 ? str(e, "!%s", x->first) : "false");
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows), apart);
    line(e, "%s(%s, p, &%s[%d], %s, %d);", use(e, "stg_low_b128"),
        both_conditions(e, mine, str(e, "k < %s && k + %d > %s", s->limit, s->n, s->limit)), x->vectors,
        4 * v, as_bytes(s, str(e, "%s - k", s->limit)), s->bytes);
    end_block(e);
}

/* The vector in which the chain begins, with run v: others have its first bytes. */
static void store_head(Shift *s, const Exchange *x, int v)
{
    Emit *e = s->e;
    int32_t c[TILE_MAX_RANK];
    bool whole = s->known >= 0; /* does every chain have a whole run, or nothing? */
    for (uint32_t b = 0; b < layout_blocks(s->l) && whole; b++)
        for (uint32_t w = 0; w < layout_warps(s->l); w++) {
            layout_element(s->l, (uint32_t)(v * s->n), 0, w, b, c);
            whole &= c[s->w->unit_tile] + s->n <= s->known || c[s->w->unit_tile] >= s->known;
        }
    begin_edge(s, x, v);
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows),
        both_conditions(e, x->chain->lanes > 1 ? x->first : "", "s"));
    line(e, "%s(%s, p, &%s[%d], s, %d);", use(e, "stg_high_b128"),
        both_conditions(e, mine, str(e, "%s + %d <= %s", s->at, s->n, s->limit)), x->vectors, 4 * v,
        s->bytes);
    if (!whole) {
        const char *to = as_bytes(s, str(e, "%s - k", s->limit));
        line(e, "if (%s) %s(p, &%s[%d], s, %s < 16 ? %s : 16);",
            both_conditions(
                e, mine, str(e, "%s < %s && %s + %d > %s", s->at, s->limit, s->at, s->n, s->limit)),
            use(e, "stg_mid_b128"), x->vectors, 4 * v, to, to);
    }
    end_block(e);
}

/* Is there anything in the vector behind the last of the chain that ends with run v? */
static bool has_rest(const Shift *s, const ShiftChain *chain, int v)
{
    int32_t c[TILE_MAX_RANK];
    for (int q = 0; q < s->vectors; q++)
        if (chain->before[q] == v) return false;
    if (s->known < 0) return true;
    for (uint32_t b = 0; b < layout_blocks(s->l); b++)
        for (uint32_t w = 0; w < layout_warps(s->l); w++) {
            layout_element(s->l, (uint32_t)(v * s->n), 0, w, b, c);
            if (c[s->w->unit_tile] + s->n * (chain->lanes - 1) < s->known)
                return true; /* some of the last lane's run */
        }
    return false;
}

/* That vector: its first s bytes are the last lane's. */
static void store_rest(Shift *s, const Exchange *x, int v)
{
    Emit *e = s->e;
    int run = s->n * x->chain->lanes;
    begin_edge(s, x, v);
    line(e, "const i32 n = %s;", as_bytes(s, str(e, "%s - (k + %d)", s->limit, run)));
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows),
        both_conditions(e, x->chain->lanes > 1 ? x->first : "", "s && n > 0"));
    line(e, "%s(%s, p + %d, &%s[%d], n < (i32)s ? n : s, %d);", use(e, "stg_low_b128"), mine, run * s->bytes,
        x->rest, 4 * v, s->bytes);
    end_block(e);
}

/* Runs rotated, what lanes lack exchanged: the aligned vectors. by: the shift; words: of it, or -1 where only
 * the thread knows. */
static void exchange(Shift *s, const Exchange *x, const char *from, DType d, const char *by, int words)
{
    Emit *e = s->e;
    const ShiftChain *chain = x->chain;
    int n = s->vectors, needed = words < 0 ? 4 : words + (s->bytes < 4), heads = 0;
    int32_t *before = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int v = 0; v < n; v++) {
        heads += chain->before[v] < 0;
        before[v] = chain->before[v] < 0 ? v : chain->before[v];
    }
    const char *other = x->rest;
    begin_unrolled(e, "v", n);
    place(s, str(e, "%d * v", s->n));
    line(e, "%s(&%s[4 * v], (const u32 *)&%s[%d * v], %s);", use(e, "rotate_b128"), x->vectors, from,
        s->n / per_word(d), by ? by : shift_of(s, str(e, "%s + %s", s->ptr, s->index)));
    end_block(e);
    if (!needed) return;
    begin_unrolled(e, "v", n);
    begin_unrolled(e, "q", needed);
    const char *mine = str(e, "%s[4 * v + q]", x->vectors);
    if (chain->lanes > 1)
        mine = str(e, "%s(%s, (lane & ~%d) | ((lane - 1) & %d))", use(e, "shuffle_index_u32"), mine,
            chain->lanes - 1, chain->lanes - 1);
    line(e, "%s[4 * v + q] = %s;", other, mine);
    end_block(e);
    end_block(e);
    begin_unrolled(e, "v", n);
    place(s, str(e, "%d * v", s->n));
    line(e, "const u32 s = %s;", by ? by : shift_of(s, str(e, "%s + %s", s->ptr, s->index)));
    begin_unrolled(e, "q", needed);
    const char *prior = str(e, "%s[4 * v + q]", other);
    if (heads < n) {
        const char *back = str(e, "%s[4 * (%s) + q]", other, index_formula(e, before, n, "v"));
        prior = chain->lanes > 1 ? str(e, "(%s ? %s : %s)", x->first, back, prior) : back;
    }
    line(e, "%s[4 * v + q] = %s(%s, %s[4 * v + q], (i32)s - 4 * q);", x->vectors, use(e, "low_bytes"), prior,
        x->vectors);
    end_block(e);
    end_block(e);
}

/* Rows that are aligned: whole vectors, and pieces of that in which the row ends. */
static void store_aligned(Shift *s, const char *from, const char *holder, DType d)
{
    Emit *e = s->e;
    bool pieces = s->known < 0 || s->known % s->n, inside = s->known == s->l->cover[s->w->unit_tile];
    begin_unrolled(e, "v", s->vectors);
    place(s, run_at(s, 0));
    const char *mine = both_conditions(e, holder, s->rows),
               *whole =
                   both_conditions(e, mine, inside ? "" : str(e, "%s + %d <= %s", s->at, s->n, s->limit)),
               *words = str(e, "(const u32 *)&%s[%d * v]", from, s->n / per_word(d));
    if (*whole)
        line(e, "%s(%s, (void *)(%s + %s), %s);",
            use(e, str(e, "stg_if%s_b128", window_hint(e, s->w, ACCESS_VECTOR))), whole, s->ptr, s->index,
            words);
    else
        line(e, "%s(%s + %s, %s);", use(e, str(e, "stg%s_b128", window_hint(e, s->w, ACCESS_VECTOR))), s->ptr,
            s->index, words);
    if (pieces) {
        const char *some = both_conditions(
            e, mine, str(e, "%s < %s && %s + %d > %s", s->at, s->limit, s->at, s->n, s->limit));
        line(e, "%s(%s, (void *)(%s + %s), %s, (u32)(%s) & 15, %d);", use(e, "stg_low_b128"), some, s->ptr,
            s->index, words, as_bytes(s, s->limit), s->bytes);
    }
    end_block(e);
}

static void store_exchanged(Shift *s, const char *from, const char *holder, DType d, const ShiftChain *chain)
{
    Emit *e = s->e;
    Exchange x = { .vectors = tmp(e, "vectors"), .rest = tmp(e, "other"), .chain = chain, .holder = holder };
    x.first = str(e, "((lane & %d) == 0)", chain->lanes - 1);
    line(e, "u32 %s[%d], %s[%d];", x.vectors, 4 * s->vectors, x.rest, 4 * s->vectors);
    go_to_row(s, false);
    if (s->one_row) {
        x.shift = tmp(e, "shift");
        line(e, "const u32 %s = %s;", x.shift, shift_of(s, s->ptr));
        for (int word = 0; word < 4; word++) {
            begin_word(s, x.shift, word);
            exchange(s, &x, from, d, in_word(s, x.shift, word), word);
            end_block(e);
        }
    } else exchange(s, &x, from, d, NULL, -1);
    store_vectors(s, &x, false);
    if (s->known < 0) {
        int tile = s->l->tile[s->w->unit_tile];
        line(e, tile == s->l->cover[s->w->unit_tile] ? "if (%s < %d) {" : "{", s->limit, tile);
        e->indent++;
        store_vectors(s, &x, true);
        end_block(e);
    }
    for (int k = 0; k < s->vectors; k++) {
        if (chain->before[k] < 0) store_head(s, &x, k);
        if (s->known >= 0 && against_limit(s, k, s->n - 1) == 0) store_tail(s, &x, k);
        if (has_rest(s, chain, k)) store_rest(s, &x, k);
    }
}

ShiftDone emit_shifted_store(
    Emit *e, const Window *w, const Layout *l, DType d, const char *ptr, const char *from)
{
    Shift s;
    ShiftChain chain;
    LayoutVector v;
    if (!begin(e, w, l, d, &s) ||
        (window_vector(e, w, l, d, &v) > 1 && v.bytes == 16 && window_whole_vectors(e, w, (int)v.n)))
        return SHIFT_NONE;
    kernel_shift_chain(&e->s->arena, l, w->unit_tile, s.bytes, &chain);
    s.ptr = ptr;
    find_limit(&s);
    const char *slow = w->masked && !offset_known(&s) ? name_of(e, w->offset[w->unit]) : NULL,
               *holder = unique_holder(e, l);
    line(e, slow ? "if (%s >= 0) {" : "{", slow);
    e->indent++;
    if (w->align % 16 == 0) store_aligned(&s, from, holder, d);
    else store_exchanged(&s, from, holder, d, &chain);
    end_block(e);
    if (!slow) return SHIFT_ALL;
    line(e, "else {");
    e->indent++;
    return SHIFT_PART;
}
