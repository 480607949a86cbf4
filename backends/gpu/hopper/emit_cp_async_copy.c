/* emit_cp_async_copy.c: of cp.async producers: lines of a window from memory to the staging area, by aligned
 * vectors around them (cp.async). */
#include "backends/gpu/hopper/emit_cp_async.h"
#include "backends/gpu/hopper/emit_roles.h"

/* The part of a line that is in range, from its first element on. ends: whether the window comes near the end
 * of the tensor, `end`. */
typedef struct Reach {
    const char *ptr, *limit, *ends, *end;
} Reach;

/* Copies so many bytes of a vector. The vector that contains the end of the tensor is copied byte by byte,
 * because tools report a copy that reads less than its width as a read beyond the end. This is slow, so no
 * other vector is copied in this way, even if it is not read whole (bench/notes/convolutions.md,
 * "Convolution"). */
static void copy_part(const CpAsync *x, const Reach *r, const char *to, const char *from, const char *size)
{
    Emit *e = x->e;
    line(e, "if (%s && (u32)(%s - 1) < 15u%s) %s(%s, %s, %s);", r->ends, size,
        r->end ? str(e, " && (u64)%s + 16 > %s", from, r->end) : "", use(e, "copy_tail_b128"), to, from,
        size);
    line(e, "else %s(%s, %s, %s);", use(e, "cp_async_part_b128"), to, from, size);
}

/* Emits the copy of vector `piece` of line n to `to`: declares its address and how much of it is in range. */
static void copy_piece(const CpAsync *x, const Reach *r, const char *piece, const char *to, const char *guard)
{
    Emit *e = x->e;
    const Window *w = &x->w;
    Index *c[TILE_MAX_RANK];
    cp_async_line_coords(x, "n", c);
    const char *rows = window_condition(e, w, c, true), *index = window_index(e, w, c),
               *there = both_conditions(e, guard, rows);
    line(e, "const u64 p = (u64)(%s + (%s));", r->ptr, index);
    line(e, "const i32 left = (i32)(p & 15) + %s - 16 * %s;", cp_async_scaled(e, r->limit, x->way.bytes),
        piece);
    if (w->masked) there = both_conditions(e, there, str(e, "%s > 0", r->limit));
    if (x->heads)
        there = both_conditions(e, there,
            str(e, "16 * %s + 16 > (i32)(p & 15) + %s", piece,
                cp_async_scaled(e, str(e, "%s_now", x->f->first), x->way.bytes)));
    there = both_conditions(e, there, "left > 0");
    line(e, "const bool some = %s;", without_branches(e, there));
    line(e, "const void *const from = some ? (const void *)((p + 16 * %s) & ~15ull) : %s;", piece, r->ptr);
    line(e, "const i32 size = some ? left < 16 ? left : 16 : 0;");
    copy_part(x, r, to, "from", "size");
}

static void copy_blocks(const CpAsync *x, const Reach *r, const char *staging)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    const Window *w = &x->w;
    Index *c[TILE_MAX_RANK];
    const char *rows = "", *own = y->group > 1 ? str(e, "lane / %d", y->per) : "0",
               *piece = y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per);
    int chans = (int)y->shape[y->beside], along = 0;
    while (w->tile_axis[along] != y->beside) along++;
    line(e, "const i64 far = (i64)%s * %lldll;", window_stride(e, w->param, along),
        (long long)(w->step[along] * y->group * y->bytes));
    cp_async_open_rows(x);
    cp_async_block_coords(x, "row", index_other(e, "(%s)", own), c);
    for (int a = 0; w->masked && a < w->rank; a++)
        if (a != w->unit && a != along)
            rows = both_conditions(e, rows, axis_condition(e, w, a, tile_coord(e, w, a, c)));
    line(e, "const u64 p = (u64)(%s + (%s));", r->ptr, window_index(e, w, c));
    line(e, "const i32 left = (i32)(p & 15) + %s - 16 * %s;", cp_async_scaled(e, r->limit, y->bytes), piece);
    const char *there = both_conditions(e, rows, w->masked ? str(e, "%s > 0", r->limit) : "");
    if (x->heads)
        there = both_conditions(e, there,
            str(e, "16 * %s + 16 > (i32)(p & 15) + %s", piece,
                cp_async_scaled(e, str(e, "%s_now", x->f->first), y->bytes)));
    there = both_conditions(e, there, str(e, "left > 0 " AND " %s < %d", piece, y->vectors));
    line(e, "const i32 size = %s ? left < 16 ? left : 16 : 0;", without_branches(e, there));
    line(e, "const u8 *const q = (const u8 *)((p + 16 * %s) & ~15ull);", piece);
    line(e, "const u32 to = %s + (k * %d + %s) * %d + 16 * %s;", staging, chans, own, y->pitch, piece);
    if (y->per > y->vectors) {
        line(e, "if (%s < %d) {", piece, y->vectors);
        e->indent++;
    }
    const char *last = w->masked ? axis_condition(e, w, along, str(e, "%d", chans - 1)) : "";
    /* Most windows have all lines in range; their branch tests no line. */
    for (int some = 0; some < 2; some++) {
        line(e, some ? "} else {" : "if (%s) {", both_conditions(e, last, str(e, "!%s", r->ends)));
        e->indent++;
        line(e, "const u8 *at = q;");
        begin_unrolled(e, "g", chans / y->group);
        const char *in =
            some && w->masked ? axis_condition(e, w, along, str(e, "(%s + g * %d)", own, y->group)) : "";
        if (some) {
            line(e, *in ? "const i32 part = %s ? size : 0;" : "const i32 part = size;", in);
            copy_part(x, r, str(e, "to + g * %d", y->group * y->pitch), "at", "part");
        } else line(e, "%s(to + g * %d, at, size);", use(e, "cp_async_part_b128"), y->group * y->pitch);
        line(e, "at += far;");
        end_block(e);
        e->indent--;
    }
    line(e, "}");
    if (y->per > y->vectors) end_block(e);
    end_block(e);
}

static void open_if(Emit *e, const char *cond)
{
    line(e, "if (%s) {", cond);
    e->indent++;
}

/* Copies lines that are transposed in the ring: each lane copies one vector of a line. */
static void copy_transposed_lines(const CpAsync *x, const Reach *r, const char *staging)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int all = y->share * y->vectors;
    fill_begin_some(e, "v", (all + 31) / 32);
    line(e, "const i32 u = lane + 32 * v, at = u / %d, piece = u %% %d, n = warp * %d + at;", y->vectors,
        y->vectors, y->share);
    const char *guard =
        (int64_t)y->share * x->warps > y->lines ? str(e, "n < %lld", (long long)y->lines) : "";
    if (all % 32) open_if(e, str(e, "u < %d", all));
    copy_piece(x, r, "piece", str(e, "%s + at * %d + 16 * piece", staging, y->pitch), guard);
    if (all % 32) end_block(e);
    end_block(e);
}

/* Copies the `whole` vectors of a line, by the lanes that take its runs. */
static void copy_whole(const CpAsync *x, const Reach *r, const char *staging, int whole)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int per = y->per < whole ? y->per : whole;
    fill_begin_some(e, "v", y->share);
    const char *guard = cp_async_unit_line(x, "v"), *own = y->group > 1 ? str(e, " + lane / %d", y->per) : "";
    for (int part = 0; part * per < whole; part++) {
        const char *piece = cp_async_piece(x, part);
        bool some = whole - part * per < y->per;
        if (some) open_if(e, str(e, "%s < %d", piece, whole));
        else line(e, "{"), e->indent++;
        copy_piece(x, r, piece,
            str(e, "%s + (v * %d%s) * %d + 16 * %s", staging, y->group, own, y->pitch, piece), guard);
        end_block(e);
    }
    end_block(e);
}

/* Copies the vector after them, with one lane for each line. */
static void copy_last(const CpAsync *x, const Reach *r, const char *staging, int whole)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int lines = y->share * y->group, each = y->of_class * y->group;
    const char *guard;
    fill_begin_some(e, "v", (lines + 31) / 32);
    if (y->straight) {
        line(e, "const i32 at = lane + 32 * v, n = %s;",
            cp_async_straight_line(x, str(e, "at / %d", each), str(e, "at %% %d", each)));
        guard = str(e, "warp + %d * (at / %d) < %d", x->warps, each, y->classes);
    } else {
        line(e, "const i32 at = lane + 32 * v, unit = warp * %d + at / %d;", y->share, y->group);
        if (y->classes == 1) line(e, "const i32 n = unit * %d + at %% %d;", y->group, y->group);
        else
            line(e, "const i32 n = unit / %d + %d * (unit %% %d * %d + at %% %d);", y->of_class, y->classes,
                y->of_class, y->group, y->group);
        guard = str(e, "unit < %d " AND " n < %lld", y->units, (long long)y->lines);
    }
    if (lines % 32) open_if(e, str(e, "at < %d", lines));
    copy_piece(x, r, str(e, "%d", whole), str(e, "%s + at * %d + %d", staging, y->pitch, 16 * whole), guard);
    if (lines % 32) end_block(e);
    end_block(e);
}

static void copy_lines(const CpAsync *x, const Reach *r, const char *staging)
{
    int whole = (int)((x->way.line * x->way.bytes + 15) / 16);
    if (x->way.transposed) copy_transposed_lines(x, r, staging);
    else {
        copy_whole(x, r, staging, whole);
        if (!x->aligned) copy_last(x, r, staging, whole);
    }
}

/* The axis of the tensor that corresponds to the outermost axis of lines. */
static int outer_axis(const CpAsync *x)
{
    int a = 0;
    while (x->w.tile_axis[a] != x->way.outer) a++;
    return a;
}

/* Copies the vectors after the whole ones of the lines of class k, with one lane for each line. */
static void copy_last_straight(const CpAsync *x, const Reach *r, const char *staging, int whole)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    int lines = y->of_class * y->group;
    begin_unrolled(e, "v", (lines + 31) / 32);
    line(e, "const i32 at = lane + 32 * v, n = %s;", cp_async_straight_line(x, "k", "at"));
    if (lines % 32) open_if(e, str(e, "at < %d", lines));
    copy_piece(x, r, str(e, "%d", whole),
        str(e, "%s + (k * %d + at) * %d + %d", staging, lines, y->pitch, 16 * whole), "");
    if (lines % 32) end_block(e);
    end_block(e);
}

/* Copies the same vector of each line of a class, of which c is the first; `some`: of those that are in
 * range. */
static void copy_class(const CpAsync *x, const Reach *r, Index *const *c, bool some)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    const Window *w = &x->w;
    int out = outer_axis(x), step = y->classes * y->group / y->inner;
    const char *to = str(e, "to + g * %d", y->group * y->pitch);
    begin_unrolled(e, "g", y->of_class);
    if (some) {
        const char *in =
            w->masked ? axis_condition(e, w, out, str(e, "(%s + g * %d)", tile_coord(e, w, out, c), step))
                      : "";
        line(e, *in ? "const i32 part = %s ? size : 0;" : "const i32 part = size;", in);
        line(e, "const u8 *const at = q + g * far;");
        copy_part(x, r, to, "at", "part");
    } else line(e, "%s(%s, q + g * far, size);", use(e, "cp_async_part_b128"), to);
    end_block(e);
}

/* A lane copies the same part of each line of a class, at a constant distance. */
static void copy_classes(const CpAsync *x, const Reach *r, const char *staging, bool some)
{
    Emit *e = x->e;
    const CpAsyncWay *y = &x->way;
    const Window *w = &x->w;
    int whole = (int)((y->line * y->bytes + 15) / 16), out = outer_axis(x);
    const char *piece = y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per),
               *own = y->group > 1 ? str(e, "lane / %d", y->per) : "0", *rows = "", *there;
    Index *c[TILE_MAX_RANK];
    directive(e, "#pragma unroll 1");
    line(e, "for (int k = 0; k < %d; k++) {", y->mine);
    e->indent++;
    if (y->classes % x->warps) line(e, "if (warp + %d * k >= %d) break;", x->warps, y->classes);
    line(e, "const i32 n = %s;", cp_async_straight_line(x, "k", own));
    cp_async_line_coords(x, "n", c);
    for (int a = 0; w->masked && a < w->rank; a++)
        if (a != w->unit && a != out)
            rows = both_conditions(e, rows, axis_condition(e, w, a, tile_coord(e, w, a, c)));
    line(e, "const u64 p = (u64)(%s + (%s));", r->ptr, window_index(e, w, c));
    line(e, "const i32 left = (i32)(p & 15) + %s - 16 * %s;", cp_async_scaled(e, r->limit, y->bytes), piece);
    there = both_conditions(e, rows, w->masked ? str(e, "%s > 0", r->limit) : "");
    if (x->heads)
        there = both_conditions(e, there,
            str(e, "16 * %s + 16 > (i32)(p & 15) + %s", piece,
                cp_async_scaled(e, str(e, "%s_now", x->f->first), y->bytes)));
    there = both_conditions(e, there, "left > 0");
    line(e, "const i32 size = %s ? left < 16 ? left : 16 : 0;", without_branches(e, there));
    line(e, "const u8 *const q = (const u8 *)((p + 16 * %s) & ~15ull);", piece);
    line(e, "const u32 to = %s + (k * %d + %s) * %d + 16 * %s;", staging, y->of_class * y->group, own,
        y->pitch, piece);
    if (whole < y->per) {
        line(e, "if (%s < %d) {", piece, whole);
        e->indent++;
    }
    copy_class(x, r, c, some);
    if (whole < y->per) end_block(e);
    if (!x->aligned) copy_last_straight(x, r, staging, whole);
    end_block(e);
}

/* Where the outermost axis is in range completely, no line is asked whether it is. */
static void copy_straight(const CpAsync *x, const Reach *r, const char *staging)
{
    Emit *e = x->e;
    const Window *w = &x->w;
    int out = outer_axis(x);
    const char *inside = "";
    for (int64_t n = 0, last = x->way.shape[x->way.outer] - 1; w->masked && n < 2; n++)
        inside = both_conditions(e, inside, axis_condition(e, w, out, str(e, "%lld", (long long)(n * last))));
    line(e, "const i64 far = (i64)%s * %lldll;", window_stride(e, w->param, out),
        (long long)(w->step[out] * x->way.classes * x->way.group / x->way.inner * x->way.bytes));
    for (int some = 0; some < 2; some++) {
        line(e, some ? "} else {" : "if (%s) {", both_conditions(e, inside, str(e, "!%s", r->ends)));
        e->indent++;
        copy_classes(x, r, staging, some);
        e->indent--;
    }
    line(e, "}");
}

/* Whether the elements of an axis may lie backwards in memory, as those of a view may. */
static bool may_go_back(const Emit *e, const Window *w, int axis)
{ return e->f->params[w->param].stride[axis] == FACT_UNKNOWN || e->f->params[w->param].stride[axis] < 0; }

const char *cp_async_tensor_end(Emit *e, const Window *w)
{
    const char *all = "1";
    for (int a = 0; a < w->rank; a++) {
        const char *stride = window_stride(e, w->param, a);
        const char *last = str(e, "(i64)(%s - 1) * %s", window_extent(e, w->param, a), stride);
        all = may_go_back(e, w, a) ? str(e, "%s + (%s > 0 ? %s : 0)", all, stride, last)
                                   : str(e, "%s + %s", all, last);
    }
    return str(
        e, "(u64)(%s + (%s))", slot_name(e, SLOT_DATA, w->param, 0, e->f->params[w->param].type->dtype), all);
}

/* Declares whether vectors around the lines of the window may reach beyond the last element of the tensor.
 * The last line reaches furthest, unless lines go backwards, of which any may. */
static void ends_near(const CpAsync *x, Reach *r)
{
    Emit *e = x->e;
    const Window *w = &x->w;
    Index *c[TILE_MAX_RANK];
    r->ends = tmp(e, "ends");
    for (int a = 0; a < x->way.rank; a++)
        c[a] = index_number(e, a == x->way.axis ? 0 : (int)x->way.shape[a] - 1);
    const char *end = cp_async_tensor_end(e, w), *back = "";
    for (int a = 0; a < w->rank; a++)
        if (!(w->picked >> a & 1) && may_go_back(e, w, a))
            back = str(e, "%s || %s < 0", back, window_stride(e, w->param, a));
    /* Windows copied as blocks gain nothing from this (bench/notes/decisions.md, "The emitter"). */
    if (!x->way.blocks) {
        r->end = tmp(e, "end");
        line(e, "const u64 %s = %s;", r->end, end);
        end = r->end;
    }
    line(e, "const bool %s = (u64)(%s + (%s)) + %lld > %s%s;", r->ends, r->ptr, window_index(e, w, c),
        (long long)(x->way.line * x->way.bytes + 16), end, back);
}

void cp_async_start_lines(const CpAsync *x, const char *staging, const char *low)
{
    Emit *e = x->e;
    const Window *w = &x->w;
    const char *o = name_of(e, w->offset[w->unit]);
    Reach r = { .ptr = window_pointer(e, w), .limit = str(e, "%lld", (long long)x->way.line) };
    if (x->way.first) {
        const char *window = r.ptr;
        r.ptr = tmp(e, "lines");
        line(e, "const %s *const %s = %s + %lld;", pointee(e->f->params[w->param].type->dtype), r.ptr, window,
            (long long)x->way.first);
        o = str(e, "(%s + %lld)", o, (long long)x->way.first);
    }
    line(e, "const u32 %s = (u32)(u64)%s;", low, r.ptr);
    ends_near(x, &r);
    if (w->masked) {
        const char *left = tmp(e, "left");
        line(e, "const i64 %s = (i64)%s - %s;", left, window_extent(e, w->param, w->unit), o);
        r.limit = tmp(e, "limit");
        /* A window that lies entirely before its row reads nothing: the memory around it may not be part of
         * the tensor. */
        if (x->heads) {
            const char *first = str(e, "%s_now", x->f->first);
            line(e, "const i32 %s = %s >= 0 ? 0 : %s < -%lld ? %lld : (i32)-%s;", first, o, o,
                (long long)x->way.line, (long long)x->way.line, o);
            line(e, "const i32 %s = %s <= %s || %s == %lld ? 0 : %s < %lld ? (i32)%s : %lld;", r.limit, left,
                first, first, (long long)x->way.line, left, (long long)x->way.line, left,
                (long long)x->way.line);
        } else
            line(e, "const i32 %s = %s < 0 ? 0 : %s < %lld ? (i32)%s : %lld;", r.limit, left, left,
                (long long)x->way.line, left, (long long)x->way.line);
    }
    /* A scope, because several windows of a step declare the same names. */
    line(e, "{");
    e->indent++;
    if (x->way.blocks) copy_blocks(x, &r, staging);
    else if (x->way.straight) copy_straight(x, &r, staging);
    else copy_lines(x, &r, staging);
    end_block(e);
    line(e, "%s();", use(e, "cp_async_commit"));
}
