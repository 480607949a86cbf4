/* emit_shift.c: rows that begin at no multiple of 16 bytes, by accesses of 16 bytes
 * (passes/kernel/layout/unaligned_vectors.c says where that pays).
 *
 * A lane's run of 16 bytes lies in two aligned vectors: a load reads both and takes the bytes in between
 * (funnel_b128). It may read up to 15 bytes on either side of the run, so a program whose window comes near
 * an end of the tensor goes by element: one branch a program, none a lane.
 *
 *     | row begins at byte s of a vector        lane:     0     |     1     |     2
 *     |....aaaaaaaaaaaabbbb|bbbbbbbbbbbbcccc|               a (16 bytes)  b           c */
#include "backends/gpu/elements/emit_pairs.h"
#include "backends/gpu/memory/emit_shift.h"

/* What a layout says of shifted vectors. */
typedef struct ShiftedLayout {
    const Layout *layout;
    int axis, bytes, width, n, vectors;
    bool can, one_row;
} ShiftedLayout;

/* Most accesses have the layout of the one before. */
static const ShiftedLayout *shifted_layout(Emit *e, const Layout *l, int axis, int bytes, int width)
{
    ShiftChain c;
    int32_t x[TILE_MAX_RANK];
    if (!e->shifted) e->shifted = arena_new(&e->s->arena, ShiftedLayout);
    ShiftedLayout *known = e->shifted;
    if (known->layout == l && known->axis == axis && known->bytes == bytes && known->width == width)
        return known;
    *known = (ShiftedLayout){ .layout = l, .axis = axis, .bytes = bytes, .width = width, .one_row = true };
    known->can = kernel_shift_chain(&e->s->arena, l, axis, bytes, width, &c);
    if (!known->can) return known;
    known->n = c.n;
    known->vectors = c.vectors;
    for (uint32_t r = 0; r < layout_regs(l) + layout_lanes(l); r++) {
        layout_element(l, r < layout_regs(l) ? r : 0, r < layout_regs(l) ? 0 : r - layout_regs(l), 0, 0, x);
        for (int a = 0; a < l->rank; a++) known->one_row &= a == axis || x[a] == 0;
    }
    return known;
}

bool shift_begin(Emit *e, const Window *w, const Layout *l, DType d, int width, Shift *s)
{
    int bytes = dtype_bytes(d);
    *s = (Shift){ .e = e, .w = w, .l = l, .bytes = bytes, .known = -1, .one_row = true };
    s->width = width;
    s->words = width / 4;
    if (is_hip(e) || e->guard || kernel_skips(e->plan, PASS_UNALIGNED_VECTORS) || w->unit_tile < 0 ||
        w->step[w->unit] != 1 || bytes > 4 || d == DT_BOOL)
        return false;
    const ShiftedLayout *known = shifted_layout(e, l, w->unit_tile, bytes, width);
    s->n = known->n;
    s->vectors = known->vectors;
    s->one_row = known->one_row;
    return known->can;
}

bool shift_offset_known(Shift *s) /* not below 0? */
{
    const Value *o = s->w->offset[s->w->unit];
    if (!s->e->ranges) s->e->ranges = ranges_new(s->e->f);
    return range_of(s->e->ranges, o).lo >= 0;
}

const char *rows_left(Emit *e, const Value *offset, const char *left, int most)
{
    if (!e->ranges) e->ranges = ranges_new(e->f);
    const char *far = range_of(e->ranges, offset).hi > INT32_MAX ? str(e, "%s < 0 ? 0 : ", left) : "";
    return str(e, "%s%s < %d ? (i32)%s : %d", far, left, most, left, most);
}

void shift_find_limit(Shift *s)
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
    line(e, "const i32 %s = %s;", s->limit, rows_left(e, o, left, tile));
}

/* The run at register `r`. */
void shift_place(Shift *s, Index *r)
{
    Emit *e = s->e;
    Index *c[TILE_MAX_RANK];
    coords_at(e, s->l, r, c);
    s->at = index_text(e, c[s->w->unit_tile]);
    s->rows = window_condition(e, s->w, c, true);
    for (int a = 0; a < s->l->rank; a++) {
        if (a != s->w->unit_tile && s->l->cover[a] != s->l->tile[a])
            s->rows = both_conditions(e, s->rows, str(e, "%s < %d", index_text(e, c[a]), s->l->tile[a]));
        if (a != s->w->unit_tile && s->at_row) c[a] = index_number(e, 0);
    }
    s->index = window_index(e, s->w, c);
}

/* Makes ptr point to the row of the warp from here on, or to the first row of the window if the warp's row is
 * out of range and is read. */
void shift_go_to_row(Shift *s, bool reads)
{
    Emit *e = s->e;
    Index *c[TILE_MAX_RANK], *zero = index_number(e, 0);
    if (!s->one_row) return;
    shift_place(s, zero);
    coords_at(e, s->l, zero, c);
    c[s->w->unit_tile] = zero;
    bool first = true; /* the row of the warp is the first one of the window */
    for (int a = 0; a < s->l->rank; a++) first = first && index_is(c[a], 0);
    const char *index = window_index(e, s->w, c), *row = tmp(e, "row");
    s->at_row = true;
    if (first) return;
    if (reads && *s->rows) index = str(e, "(%s ? %s : 0)", s->rows, index);
    line(e, "const %s *const %s = %s + %s;", pointee(e->f->params[s->w->param].type->dtype), row, s->ptr,
        index);
    s->ptr = row;
}

/* Compares the runs of all threads at vector v with the limit. -1: all end before it. 1: all are wholly
 * beyond it. 0: one may cross it, or come so near that the bytes of an aligned vector do. near: the distance
 * in elements that counts as near. */
int shift_against_limit(const Shift *s, int v, int near)
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

/* The condition that the window is far enough from both ends of the tensor, so that the aligned vectors
 * around its runs are inside the tensor. */
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

const char *shift_as_bytes(Shift *s, const char *elements)
{ return s->bytes == 1 ? elements : str(s->e, "(%s) * %d", elements, s->bytes); }

static const char *pad_bits(Emit *e, const Value *pad, DType d)
{
    if (!pad) return "0";
    if (per_word(d) > 1) return pad_word(e, pad, d);
    return d == DT_F32 ? str(e, "%s(%s)", use(e, "float_word"), name_of(e, pad))
                       : str(e, "(u32)%s", name_of(e, pad));
}

/* the runs that are loaded before the first is put in place, because their vectors take registers */
enum { AT_ONCE = 4 };

/* An element offset that is in range for every thread: that of its run, or the window's first. */
static const char *there(Shift *s, const char *cond)
{ return *cond ? str(s->e, "(%s ? %s : 0)", cond, s->index) : s->index; }

static const char *inside_limit(Shift *s, bool ragged)
{ return both_conditions(s->e, s->rows, ragged ? str(s->e, "%s < %s", s->at, s->limit) : ""); }

Index *shift_run_at(Shift *s, int first) { return index_linear(s->e, s->n, "v", first * s->n); }

/* Accesses aligned rows: whole vectors, and the pieces of the vector in which the row ends. */
static void load_aligned(Shift *s, const char *to, const Value *pad, int first, int count, bool ragged)
{
    Emit *e = s->e;
    DType d = e->f->params[s->w->param].type->dtype;
    int step = s->n / per_word(d);
    const char *run = tmp(e, "run"), *load = window_load_fn(e, s->w, 16);
    bool pieces = ragged && (s->known < 0 || s->known % s->n);
    if (!count) return;
    begin_unrolled(e, "v", count);
    shift_place(s, shift_run_at(s, first));
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
            shift_as_bytes(s, s->limit));
    }
    if (*whole) {
        const char *none = s->w->masked ? pad_bits(e, pad, d) : str(e, "%s[q]", run),
                   *other = pieces ? str(e, "%s ? part[q] : %s", some, none) : none;
        begin_unrolled(e, "q", 4);
        if (pieces || s->w->masked) line(e, "%s[q] = %s ? %s[q] : %s;", run, whole, run, other);
        end_block(e);
        if (pieces && pad) {
            const char *keep = use(e, "keep_low_b128"), *bits = pad_bits(e, pad, d);
            line(e, "if (%s) %s(%s, (i32)((u32)(%s) & 15), %s);", some, keep, run,
                shift_as_bytes(s, s->limit), bits);
        }
    }
    end_block(e);
}

const char *shift_of(Shift *s, const char *p)
{ return str(s->e, "(u32)(u64)(%s) & %d", p, s->width - s->bytes); }

void shift_begin_word(Shift *s, const char *shift, int word)
{
    bool last = word == s->words - 1;
    line(s->e,
        last && !word ? "{"
        : last        ? "else {"
        : word        ? "else if (%s >> 2 == %d) {"
                      : "if (%s >> 2 == %d) {",
        shift, word);
    s->e->indent++;
}

/* The shift within a word, when the whole words of the shift are known. */
const char *shift_in_word(Shift *s, const char *shift, int word)
{
    if (s->bytes == 4) return str(s->e, "%du", 4 * word);
    return word ? str(s->e, "%du + (%s & 3)", 4 * word, shift) : str(s->e, "(%s & 3)", shift);
}

/* Accesses rows that are not aligned: reads the vectors around each run and extracts the run. */
static void load_around(Shift *s, const char *to, const char *shift, int first, int count, bool ragged)
{
    Emit *e = s->e;
    DType d = e->f->params[s->w->param].type->dtype;
    const char *around = tmp(e, "around"), *load = window_load_fn(e, s->w, 16),
               *place_run = use(e, "funnel_b128");
    int step = s->n / per_word(d);
    line(e, "u32 %s[%d];", around, 8 * count);
    begin_unrolled(e, "v", count);
    shift_place(s, shift_run_at(s, first));
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
    /* Words are selected by branches, which cost less than selecting by instructions. */
    for (int word = 0; word < (s->one_row ? 4 : 1); word++) {
        if (s->one_row) shift_begin_word(s, shift, word);
        begin_unrolled(e, "v", count);
        shift_place(s, shift_run_at(s, first));
        const char *by = s->one_row
                             ? shift_in_word(s, shift, word)
                             : shift_of(s, str(e, "%s + %s", s->ptr, there(s, inside_limit(s, ragged))));
        line(
            e, "%s((u32 *)&%s[%d * v + %d], &%s[8 * v], %s);", place_run, to, step, first * step, around, by);
        end_block(e);
        if (s->one_row) end_block(e);
    }
}

/* Whether the row ends before the tile in every launch. Then some threads never have elements in range. */
static bool ends_inside(const Shift *s) { return s->known >= 0 && s->known < s->l->tile[s->w->unit_tile]; }

/* The condition that all of the tile is in range for every thread; "": always. Asked only if the row may be
 * long enough. */
static const char *all_there(Shift *s)
{
    Emit *e = s->e;
    const Window *w = s->w;
    const char *x = s->known >= 0 ? "" : str(e, "%s >= %d", s->limit, s->l->tile[w->unit_tile]);
    for (int a = 0; a < w->rank && w->masked; a++)
        if (a != w->unit && w->tile_axis[a] >= 0 && s->l->tile[w->tile_axis[a]] > 1) {
            const char *from = name_of(e, w->offset[a]), *all = window_extent(e, w->param, a);
            const int64_t span = (s->l->tile[w->tile_axis[a]] - 1) * w->step[a] + 1;
            x = both_conditions(e, x, str(e, "(i64)%s + %lld <= %s", from, (long long)span, all));
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
    shift_place(s, shift_run_at(s, 0));
    const char *left = shift_as_bytes(s, str(e, "%s - %s", s->limit, s->at));
    if (*s->rows) left = str(e, "%s ? %s : 0", s->rows, left);
    const char *keep = use(e, "keep_low_b128"), *bits = pad_bits(e, pad, d);
    line(e, "const i32 left = %s;", left);
    line(e, "if (left < 16) %s((u32 *)&%s[%d * v], left, %s);", keep, to, s->n / per_word(d), bits);
    end_block(e);
    end_block(e);
}

/* The condition that the window begins inside the tensor and has a whole run in its rows. */
static const char *begins_inside(Shift *s)
{
    Emit *e = s->e;
    const Window *w = s->w;
    const char *x = "";
    if (!w->masked) return x;
    if (!shift_offset_known(s)) x = str(e, "%s >= 0", name_of(e, w->offset[w->unit]));
    if (s->known < 0) x = both_conditions(e, x, str(e, "%s >= %d", s->limit, s->n));
    Index *c[TILE_MAX_RANK];
    for (int a = 0; a < s->l->rank; a++) c[a] = index_number(e, 0);
    return both_conditions(e, x, window_condition(e, w, c, true));
}

ShiftDone emit_shifted_load(
    Emit *e, const Window *w, const Layout *l, const char *ptr, const char *to, const Value *pad)
{
    Shift s;
    LayoutVector v;
    DType d = e->f->params[w->param].type->dtype;
    ShiftDone row = emit_row_load(e, w, l, ptr, to);
    if (row != SHIFT_NONE) return row;
    if (e->f->params[w->param].kind != PARAM_IN || !shift_begin(e, w, l, d, 16, &s) ||
        (window_vector(e, w, l, d, &v) > 1 && v.bytes == 16 && window_whole_vectors(e, w, (int)v.n)))
        return SHIFT_NONE;
    bool aligned = w->align % 16 == 0;
    s.ptr = ptr;
    shift_find_limit(&s);
    if (s.known >= 0 && s.known < s.n) return SHIFT_NONE;
    const char *fast = begins_inside(&s), *shift = NULL;
    if (!aligned) fast = both_conditions(e, fast, far_from_ends(&s));
    line(e, *fast ? "if (%s) {" : "{", fast);
    e->indent++;
    /* Runs that end before the limit in all threads need no test. */
    int whole = 0;
    while (whole < s.vectors && shift_against_limit(&s, whole, 0) < 0) whole++;
    if (aligned) {
        load_aligned(&s, to, pad, 0, whole, false);
        load_aligned(&s, to, pad, whole, s.vectors - whole, true);
    } else {
        shift_go_to_row(&s, true);
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

/* Word k of the run of operand a that the loop is at, and then of the same run of operand b. */
static const char *word_of_two(Emit *e, const char *a, const char *b, int words, int k)
{ return str(e, "%s[%d * v + %d]", k < words ? a : b, words, k % words); }

void emit_slide(Emit *e, const Instr *i)
{
    const Value *x = ir_operand(i, 0), *y = ir_operand(i, 1);
    DType d = x->type->dtype;
    const char *to = declare_tile(e, ir_result(i)), *a = registers_of(e, x), *b = registers_of(e, y);
    int start = (int)ir_attr_int(i, ATTR_START, 0), in_word = per_word(d),
        run = (int)ir_attr_int(i, ATTR_COUNT, 16 / dtype_bytes(d)), words = run / in_word,
        whole = start / in_word, bytes = start % in_word * dtype_bytes(d);
    int runs = (int)layout_regs(layout_of(e, x)) / run;
    bool halves = byte_sum_takes(e, ir_result(i));
    const char *half[2] = { byte_sum_even(e, ir_result(i)), byte_sum_odd(e, ir_result(i)) };
    if (halves) line(e, "u32 %s[%d], %s[%d];", half[0], words * runs, half[1], words * runs);
    begin_unrolled(e, "v", runs);
    for (int k = 0; k < words; k++) {
        const char *first = word_of_two(e, a, b, words, k + whole),
                   *second = bytes ? word_of_two(e, a, b, words, k + whole + 1) : first;
        line(e, "%s[%d * v + %d] = %s;", to, words, k,
            bytes ? str(e, "%s(%s, %s, 0x%xu)", use(e, "byte_perm"), first, second, 0x3210 + 0x1111 * bytes)
                  : first);
        for (int odd = 0; odd < 2 && halves; odd++)
            line(e, "%s[%d * v + %d] = %s;", half[odd], words, k,
                byte_sum_slide(e, first, second, bytes, odd));
    }
    end_block(e);
}
