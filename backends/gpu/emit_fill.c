/* emit_fill.c: sm_90a: rings that filler warps fill (passes/kernel/fill.c says what is done and why).
 *
 *     bytes of a line        |....aaaa|aaaaaaaa|bbbbbbbb|cc......|        aligned vectors in the warp's stage, zeros behind the row's end
 *     of the slot             aaaaaaaaaaaabbbb bbbbcc..                   two of them at a time, funnelled into place
 *
 * In a loop the window of the step before is taken from the stage while this step's is on its way: what that needs to know of it (where its first line began, whether one is there at all) is kept
 * from turn to turn, and the last one is done behind the loop. PTX ISA 9.7.9.25 (cp.async), 9.7.13.4 (fence.proxy.async). */
#include "backends/gpu/emit.h"

typedef struct Filler {
    Emit *e;
    const Fill *f;
    Window w;
    FillWay way;
    const LayoutShared *slot;
    int warps;
    bool aligned, heads;            /* lines begin at multiples of 16 bytes; some may begin before their row */
} Filler;

static void begin(Emit *e, const Fill *f, Filler *x)
{
    const Type *t = ir_operand(f->instr, 0)->type;
    *x = (Filler){ .e = e, .f = f, .way = f->way, .slot = layouts_shared(&e->plan->layouts, t), .warps = e->plan->filler_warps };
    window_of(e, f->instr, &x->w);
    if (!e->ranges) e->ranges = ranges_new(e->f);
    x->aligned = x->w.align % 16 == 0;
    x->heads = x->w.masked && range_of(e->ranges, x->w.offset[x->w.unit]).lo < 0;
}

static const char *scaled(Emit *e, const char *x, int64_t by) { return by == 1 ? x : str(e, "%s * %lld", x, (long long)by); }

/* Coordinates of line `n`, an expression: those of all axes but that of the line, the last one fastest. */
static void line_coords(const Filler *x, const char *n, const char **c)
{
    Emit *e = x->e;
    int64_t below = 1;
    for (int a = x->way.rank - 1; a >= 0; a--) {
        c[a] = "0";
        if (a == x->way.axis) continue;
        c[a] = x->way.shape[a] == 1 ? "0" : below == 1 ? n : str(e, "(%s) / %lld", n, (long long)below);
        below *= x->way.shape[a];
        if (below < x->way.lines && x->way.shape[a] > 1) c[a] = str(e, "(%s) %% %lld", c[a], (long long)x->way.shape[a]);
        if (strcmp(c[a], "0")) c[a] = str(e, "(%s)", c[a]);
    }
}

/* Where the element at these coordinates lies in the slot: declares a u32; its name. */
static const char *slot_place(const Filler *x, const char *const *c)
{
    const char *m[2] = { "0", "0" };
    for (int side = 0; side < 2; side++) {
        int64_t below = 1;
        for (int a = side ? x->way.rank - 1 : x->way.split - 1; a >= (side ? x->way.split : 0); a--) {
            if (strcmp(c[a], "0")) m[side] = !strcmp(m[side], "0") ? scaled(x->e, c[a], below) : str(x->e, "%s + %s", m[side], scaled(x->e, c[a], below));
            below *= x->way.shape[a];
        }
        if (strcmp(m[side], "0")) m[side] = str(x->e, "(%s)", m[side]);
    }
    return shared_offset(x->e, x->slot, m);
}

/* What the coordinates of a line add to its first byte, modulo 2^32. */
static const char *line_bytes(const Filler *x, const char *const *c)
{
    Emit *e = x->e;
    const char *sum = x->f->low;
    for (int a = 0; a < x->w.rank; a++) {
        int t = x->w.tile_axis[a];
        if (t < 0 || t == x->way.axis || !strcmp(c[t], "0")) continue;
        sum = str(e, "%s + (u32)%s * ((u32)%s * %lldu)", sum, c[t], window_stride(e, x->w.param, a), (long long)(x->w.step[a] * x->way.bytes));
    }
    return sum;
}

/* All of them unrolled, what does not change from step to step would be kept for each: more registers than fillers have. */
enum { AT_ONCE = 4 };

static void begin_some(Emit *e, const char *v, int n)
{
    text_printf(e->out, "#pragma unroll %d\n", AT_ONCE);
    line(e, "for (int %s = 0; %s < %d; %s++) {", v, v, n, v);
    e->indent++;
}

/* --- memory to the stage ---------------------------------------------------------------------------------------------------------- */

/* What of a line is there, from its first element on; ends: does the window come near the tensor's end? */
typedef struct Reach { const char *ptr, *limit, *ends; } Reach;

/* Line `j` of the warp's k-th class. */
static const char *straight_line(const Filler *x, const char *k, const char *j) { return str(x->e, "warp + %d * (%s) + %d * (%s)", x->warps, k, x->way.classes, j); }

/* Unit `at` of the warp: declares n, the lane's line; says when there is one. */
static const char *unit_line(const Filler *x, const char *at)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    const char *unit = str(e, "(warp * %d + %s)", y->share, at), *guard = y->share * x->warps > y->units ? str(e, "%s < %d", unit, y->units) : "", *own = y->group > 1 ? str(e, " + lane / %d", y->per) : "";
    if (y->straight) {
        line(e, "const i32 n = %s;", straight_line(x, str(e, "%s / %d", at, y->of_class), str(e, "%s %% %d * %d%s", at, y->of_class, y->group, own)));
        return y->classes % x->warps ? str(e, "warp + %d * (%s / %d) < %d", x->warps, at, y->of_class, y->classes) : "";
    }
    if (y->classes == 1) line(e, "const i32 n = %s * %d%s;", unit, y->group, own);
    else line(e, "const i32 n = %s / %d + %d * (%s %% %d * %d%s);", unit, y->of_class, y->classes, unit, y->of_class, y->group, own);
    if ((int64_t)y->units * y->group > y->lines) guard = both_conditions(e, guard, str(e, "n < %lld", (long long)y->lines));
    return guard;
}

/* So many bytes of a vector. The tensor's last ones by themselves: a copy that reads less than it is wide is one that tools take for a read behind the end. */
static void copy_part(const Filler *x, const Reach *r, const char *to, const char *from, const char *size)
{
    Emit *e = x->e;
    line(e, "if (%s && (u32)(%s - 1) < 15u) %s(%s, %s, %s);", r->ends, size, use(e, "copy_tail_b128"), to, from, size);
    line(e, "else %s(%s, %s, %s);", use(e, "cp_async_part_b128"), to, from, size);
}

/* The vector `piece` of line n: declares where it lies and how much of it is there, and copies that much to `to`. */
static void copy_piece(const Filler *x, const Reach *r, const char *piece, const char *to, const char *guard)
{
    Emit *e = x->e;
    const Window *w = &x->w;
    const char *c[TILE_MAX_RANK];
    line_coords(x, "n", c);
    const char *rows = window_condition(e, w, c, true), *index = window_index(e, w, c), *there = both_conditions(e, guard, rows);
    line(e, "const u64 p = (u64)(%s + (%s));", r->ptr, index);
    line(e, "const i32 left = (i32)(p & 15) + %s - 16 * %s;", scaled(e, r->limit, x->way.bytes), piece);
    if (w->masked) there = both_conditions(e, there, str(e, "%s > 0", r->limit));
    if (x->heads) there = both_conditions(e, there, str(e, "16 * %s + 16 > (i32)(p & 15) + %s", piece, scaled(e, str(e, "%s_now", x->f->first), x->way.bytes)));
    there = both_conditions(e, there, "left > 0");
    line(e, "const bool some = %s;", without_branches(e, there));
    line(e, "const void *const from = some ? (const void *)((p + 16 * %s) & ~15ull) : %s;", piece, r->ptr);
    line(e, "const i32 size = some ? left < 16 ? left : 16 : 0;");
    copy_part(x, r, to, "from", "size");
}

/* Coordinates of the line of row `r` that is the `k`-th along the axis of blocks. */
static void block_coords(const Filler *x, const char *r, const char *k, const char **c)
{
    Emit *e = x->e;
    int64_t below = 1;
    for (int a = x->way.rank - 1; a >= 0; a--) {
        c[a] = a == x->way.beside ? k : "0";
        if (a == x->way.axis || a == x->way.beside || x->way.shape[a] == 1) continue;
        c[a] = below == 1 ? r : str(e, "(%s) / %lld", r, (long long)below);
        below *= x->way.shape[a];
        if (below < x->way.rows) c[a] = str(e, "(%s) %% %lld", c[a], (long long)x->way.shape[a]);
        c[a] = str(e, "(%s)", c[a]);
    }
}

static void open_rows(const Filler *x)
{
    Emit *e = x->e;
    text_puts(e->out, "#pragma unroll 1\n");
    line(e, "for (int k = 0; k < %d; k++) {", x->way.mine);
    e->indent++;
    line(e, "const i32 row = warp + %d * k;", x->warps);
    if (x->way.rows % x->warps) line(e, "if (row >= %d) break;", x->way.rows);
}

static void copy_blocks(const Filler *x, const Reach *r, const char *stage)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    const Window *w = &x->w;
    const char *c[TILE_MAX_RANK], *rows = "", *own = y->group > 1 ? str(e, "lane / %d", y->per) : "0", *piece = y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per);
    int chans = (int)y->shape[y->beside], along = 0;
    while (w->tile_axis[along] != y->beside) along++;
    line(e, "const i64 far = (i64)%s * %lldll;", window_stride(e, w->param, along), (long long)(w->step[along] * y->group * y->bytes));
    open_rows(x);
    block_coords(x, "row", str(e, "(%s)", own), c);
    for (int a = 0; w->masked && a < w->rank; a++)
        if (a != w->unit && a != along) rows = both_conditions(e, rows, axis_condition(e, w, a, w->tile_axis[a] < 0 ? "0" : c[w->tile_axis[a]]));
    line(e, "const u64 p = (u64)(%s + (%s));", r->ptr, window_index(e, w, c));
    line(e, "const i32 left = (i32)(p & 15) + %s - 16 * %s;", scaled(e, r->limit, y->bytes), piece);
    const char *there = both_conditions(e, rows, w->masked ? str(e, "%s > 0", r->limit) : "");
    if (x->heads) there = both_conditions(e, there, str(e, "16 * %s + 16 > (i32)(p & 15) + %s", piece, scaled(e, str(e, "%s_now", x->f->first), y->bytes)));
    there = both_conditions(e, there, str(e, "left > 0 && %s < %d", piece, y->vectors));
    line(e, "const i32 size = %s ? left < 16 ? left : 16 : 0;", without_branches(e, there));
    line(e, "const u8 *const q = (const u8 *)((p + 16 * %s) & ~15ull);", piece);
    line(e, "const u32 to = %s + (k * %d + %s) * %d + 16 * %s;", stage, chans, own, y->pitch, piece);
    if (y->per > y->vectors) { line(e, "if (%s < %d) {", piece, y->vectors); e->indent++; }
    const char *last = w->masked ? axis_condition(e, w, along, str(e, "%d", chans - 1)) : "";
    for (int some = 0; some < 2; some++) {          /* most windows have all lines: nothing is asked of each then */
        line(e, some ? "} else {" : "if (%s) {", both_conditions(e, last, str(e, "!%s", r->ends)));
        e->indent++;
        line(e, "const u8 *at = q;");
        begin_unrolled(e, "g", chans / y->group);
        const char *in = some && w->masked ? axis_condition(e, w, along, str(e, "(%s + g * %d)", own, y->group)) : "";
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

static void copy_lines(const Filler *x, const Reach *r, const char *stage)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    int whole = (int)((y->line * y->bytes + 15) / 16), per = y->per < whole ? y->per : whole;
    const char *guard;
    if (y->turned) {
        int all = y->share * y->vectors;
        begin_some(e, "v", (all + 31) / 32);
        line(e, "const i32 u = lane + 32 * v, at = u / %d, piece = u %% %d, n = warp * %d + at;", y->vectors, y->vectors, y->share);
        guard = (int64_t)y->share * x->warps > y->lines ? str(e, "n < %lld", (long long)y->lines) : "";
        if (all % 32) { line(e, "if (u < %d) {", all); e->indent++; }
        copy_piece(x, r, "piece", str(e, "%s + at * %d + 16 * piece", stage, y->pitch), guard);
        if (all % 32) end_block(e);
        end_block(e);
        return;
    }
    /* the vectors of a line by the lanes that take its runs, the one behind them by a lane a line */
    begin_some(e, "v", y->share);
    guard = unit_line(x, "v");
    for (int part = 0; part * per < whole; part++) {
        const char *piece = y->per == 32 && part ? str(e, "(lane + %d)", 32 * part) : y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per), *has = guard;
        bool some = whole - part * per < y->per;
        if (some) { line(e, "if (%s < %d) {", piece, whole); e->indent++; }
        else line(e, "{"), e->indent++;
        copy_piece(x, r, piece, str(e, "%s + (v * %d%s) * %d + 16 * %s", stage, y->group, y->group > 1 ? str(e, " + lane / %d", y->per) : "", y->pitch, piece), has);
        end_block(e);
    }
    end_block(e);
    if (x->aligned) return;
    int lines = y->share * y->group;
    begin_some(e, "v", (lines + 31) / 32);
    if (y->straight) {
        int each = y->of_class * y->group;
        line(e, "const i32 at = lane + 32 * v, n = %s;", straight_line(x, str(e, "at / %d", each), str(e, "at %% %d", each)));
        guard = str(e, "warp + %d * (at / %d) < %d", x->warps, each, y->classes);
    } else line(e, "const i32 at = lane + 32 * v, unit = warp * %d + at / %d;", y->share, y->group);
    if (y->straight) ;
    else if (y->classes == 1) line(e, "const i32 n = unit * %d + at %% %d;", y->group, y->group);
    else line(e, "const i32 n = unit / %d + %d * (unit %% %d * %d + at %% %d);", y->of_class, y->classes, y->of_class, y->group, y->group);
    if (!y->straight) guard = str(e, "unit < %d && n < %lld", y->units, (long long)y->lines);
    if (lines % 32) { line(e, "if (at < %d) {", lines); e->indent++; }
    copy_piece(x, r, str(e, "%d", whole), str(e, "%s + at * %d + %d", stage, y->pitch, 16 * whole), guard);
    if (lines % 32) end_block(e);
    end_block(e);
}

/* The tensor's axis that is the tile's outermost axis of lines. */
static int outer_axis(const Filler *x)
{
    int a = 0;
    while (x->w.tile_axis[a] != x->way.outer) a++;
    return a;
}

/* Where all of the outermost axis is there, what a lane copies of each of a class's lines is the same: so much, so many bytes further on. */
static void copy_straight(const Filler *x, const Reach *r, const char *stage)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    const Window *w = &x->w;
    int whole = (int)((y->line * y->bytes + 15) / 16), out = outer_axis(x);
    const char *inside = !w->masked ? "true" : both_conditions(e, axis_condition(e, w, out, "0"), axis_condition(e, w, out, str(e, "%lld", (long long)y->shape[y->outer] - 1)));
    const char *piece = y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per), *own = y->group > 1 ? str(e, "lane / %d", y->per) : "0", *c[TILE_MAX_RANK], *rows = "", *there;
    line(e, "if (%s) {", both_conditions(e, strcmp(inside, "true") ? inside : "", str(e, "!%s", r->ends)));
    e->indent++;
    line(e, "const i64 far = (i64)%s * %lldll;", window_stride(e, w->param, out), (long long)(w->step[out] * y->classes * y->group / y->inner * y->bytes));
    text_puts(e->out, "#pragma unroll 1\n");
    line(e, "for (int k = 0; k < %d; k++) {", y->mine);
    e->indent++;
    if (y->classes % x->warps) line(e, "if (warp + %d * k >= %d) break;", x->warps, y->classes);
    line(e, "const i32 n = %s;", straight_line(x, "k", own));
    line_coords(x, "n", c);
    for (int a = 0; w->masked && a < w->rank; a++)
        if (a != w->unit && a != out) rows = both_conditions(e, rows, axis_condition(e, w, a, w->tile_axis[a] < 0 ? "0" : c[w->tile_axis[a]]));
    line(e, "const u64 p = (u64)(%s + (%s));", r->ptr, window_index(e, w, c));
    line(e, "const i32 left = (i32)(p & 15) + %s - 16 * %s;", scaled(e, r->limit, y->bytes), piece);
    there = both_conditions(e, rows, w->masked ? str(e, "%s > 0", r->limit) : "");
    if (x->heads) there = both_conditions(e, there, str(e, "16 * %s + 16 > (i32)(p & 15) + %s", piece, scaled(e, str(e, "%s_now", x->f->first), y->bytes)));
    there = both_conditions(e, there, "left > 0");
    line(e, "const i32 size = %s ? left < 16 ? left : 16 : 0;", without_branches(e, there));
    line(e, "const u8 *const q = (const u8 *)((p + 16 * %s) & ~15ull);", piece);
    line(e, "const u32 to = %s + (k * %d + %s) * %d + 16 * %s;", stage, y->of_class * y->group, own, y->pitch, piece);
    if (whole < y->per) { line(e, "if (%s < %d) {", piece, whole); e->indent++; }
    begin_unrolled(e, "g", y->of_class);
    line(e, "%s(to + g * %d, q + g * far, size);", use(e, "cp_async_part_b128"), y->group * y->pitch);
    end_block(e);
    if (whole < y->per) end_block(e);
    int lines = y->of_class * y->group;
    if (!x->aligned) {
        begin_unrolled(e, "v", (lines + 31) / 32);
        line(e, "const i32 at = lane + 32 * v, n = %s;", straight_line(x, "k", "at"));
        if (lines % 32) { line(e, "if (at < %d) {", lines); e->indent++; }
        copy_piece(x, r, str(e, "%d", whole), str(e, "%s + (k * %d + at) * %d + %d", stage, lines, y->pitch, 16 * whole), "");
        if (lines % 32) end_block(e);
        end_block(e);
    }
    end_block(e);
    e->indent--;
    line(e, "} else {");
    e->indent++;
    copy_lines(x, r, stage);
    end_block(e);
}

/* Declares whether vectors around the window's lines may reach behind the tensor's last element. */
static const char *ends_near(const Filler *x, const char *ptr)
{
    Emit *e = x->e;
    const Window *w = &x->w;
    const char *c[TILE_MAX_RANK], *all = "1", *ends = tmp(e, "ends");
    for (int a = 0; a < x->way.rank; a++) c[a] = str(e, "%lld", (long long)(a == x->way.axis ? 0 : x->way.shape[a] - 1));
    for (int a = 0; a < w->rank; a++) all = str(e, "%s + (i64)(%s - 1) * %s", all, window_extent(e, w->param, a), window_stride(e, w->param, a));
    line(e, "const bool %s = (u64)(%s + (%s)) + %lld > (u64)(%s + (%s));", ends, ptr, window_index(e, w, c), (long long)(x->way.line * x->way.bytes + 16),
         slot_name(e, SLOT_DATA, w->param, 0, e->f->params[w->param].type->dtype), all);
    return ends;
}

static void start_lines(const Filler *x, const char *stage, const char *low)
{
    Emit *e = x->e;
    const Window *w = &x->w;
    const char *o = name_of(e, w->offset[w->unit]);
    Reach r = { .ptr = window_pointer(e, w), .limit = str(e, "%lld", (long long)x->way.line) };
    line(e, "const u32 %s = (u32)(u64)%s;", low, r.ptr);
    r.ends = ends_near(x, r.ptr);
    if (w->masked) {
        const char *left = tmp(e, "left");
        line(e, "const i64 %s = (i64)%s - %s;", left, window_extent(e, w->param, w->unit), o);
        r.limit = tmp(e, "limit");
        line(e, "const i32 %s = %s < 0 ? 0 : %s < %lld ? (i32)%s : %lld;", r.limit, left, left, (long long)x->way.line, left, (long long)x->way.line);
    }
    if (x->heads) line(e, "const i32 %s_now = %s >= 0 ? 0 : %s < -%lld ? %lld : (i32)-%s;", x->f->first, o, o, (long long)x->way.line, (long long)x->way.line, o);
    line(e, "{");       /* several windows of a step have names of their own */
    e->indent++;
    if (x->way.blocks) copy_blocks(x, &r, stage);
    else if (x->way.straight) copy_straight(x, &r, stage);
    else copy_lines(x, &r, stage);
    end_block(e);
    line(e, "%s();", use(e, "cp_async_commit"));
}

/* --- the stage to a slot ----------------------------------------------------------------------------------------------------------- */

/* The words of a run from those around it. */
static void funnel(const Filler *x, const char *w, const char *around, const char *begins)
{
    Emit *e = x->e;
    int words = x->way.run / 4;
    if (x->way.run < 16) {
        for (int k = 0; k < words; k++) line(e, "%s[%d] = %s(%s[%d], %s[%d], 0x3210u + 0x1111u * (%s & 3));", w, k, use(e, "byte_perm"), around, k, around, k + 1, begins);
        return;
    }
    if (!x->way.uniform) { line(e, "%s(%s, %s, %s);", use(e, "funnel_b128"), w, around, begins); return; }
    for (int word = 0; word < 4; word++) {      /* words are chosen by the code that is taken, not by instructions */
        line(e, word == 3 ? "else {" : word ? "else if (%s >> 2 == %d) {" : "if (%s >> 2 == %d) {", begins, word);
        e->indent++;
        for (int k = 0; k < 4; k++) line(e, "%s[%d] = %s(%s[%d], %s[%d], 0x3210u + 0x1111u * (%s & 3));", w, k, use(e, "byte_perm"), around, k + word, around, k + word + 1 < 8 ? k + word + 1 : 7, begins);
        end_block(e);
    }
}

/* One run of each line of a class; `word`: in which its lines begin, -1: as `begins` says. Several are read before the first is written: the compiler keeps the order of both. */
static void take_class(const Filler *x, const char *from, const char *place, int word)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    int words = y->run / 4, raw = x->aligned ? words : y->run == 16 ? 8 : words + 1, some = y->of_class % AT_ONCE == 0 ? AT_ONCE : y->of_class % 2 == 0 ? 2 : 1;
    text_puts(e->out, y->of_class > 2 * AT_ONCE ? "#pragma unroll 2\n" : "#pragma unroll\n");
    line(e, "for (int g = 0; g < %d; g += %d) {", y->of_class, some);
    e->indent++;
    line(e, "u32 around[%d][%d];", some, raw);
    begin_unrolled(e, "m", some);
    const char *at = str(e, "%s + (g + m) * %d", from, y->group * y->pitch);
    if (x->aligned) line(e, "%s(around[m], %s);", use(e, str(e, "lds_b%d", y->run * 8)), at);
    else if (y->run == 16) line(e, "%s(around[m], %s); %s(around[m] + 4, %s + 16);", use(e, "lds_b128"), at, use(e, "lds_b128"), at);
    else for (int k = 0; k <= words; k++) line(e, "%s(around[m] + %d, %s + (begins & 12) + %d);", use(e, "lds_b32"), k, at, 4 * k);
    end_block(e);
    begin_unrolled(e, "m", some);
    line(e, "u32 w[%d];", words);
    for (int k = 0, first = word > 0 ? word : 0; k < words; k++) {
        if (x->aligned) line(e, "w[%d] = around[m][%d];", k, k);
        else line(e, "w[%d] = %s(around[m][%d], around[m][%d], bytes);", k, use(e, "byte_perm"), first + k, first + k + 1 < raw ? first + k + 1 : raw - 1);
        if (x->heads) line(e, "w[%d] &= keep[%d];", k, k);
    }
    line(e, "%s(%s + (g + m) * %lld, w);", use(e, str(e, "sts_b%d", y->run * 8)), place, (long long)y->slot_step);
    end_block(e);
    end_block(e);
}

static void take_straight(const Filler *x, const char *stage, const char *to)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    int words = y->run / 4, runs = (int)(y->line * y->bytes / y->run);
    const char *piece = y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per), *own = y->group > 1 ? str(e, "lane / %d", y->per) : "0", *c[TILE_MAX_RANK];
    if (x->heads) {
        line(e, "u32 keep[%d];", words);
        for (int k = 0; k < words; k++) line(e, "keep[%d] = %s(0, ~0u, %s - %d * %s - %d);", k, use(e, "low_bytes"), scaled(e, x->f->first, y->bytes), y->run, piece, 4 * k);
    }
    text_puts(e->out, "#pragma unroll 1\n");
    line(e, "for (int k = 0; k < %d; k++) {", y->mine);
    e->indent++;
    if (y->classes % x->warps) line(e, "if (warp + %d * k >= %d) break;", x->warps, y->classes);
    line_coords(x, straight_line(x, "k", "0"), c);      /* all of its lines begin alike */
    if (!x->aligned) line(e, "const u32 begins = (%s) & 15, bytes = 0x3210u + 0x1111u * (begins & 3);", line_bytes(x, c));
    line(e, "const i32 n = %s;", straight_line(x, "k", own));
    line(e, "const u32 from = %s + (k * %d + %s) * %d + %d * %s;", stage, y->of_class * y->group, own, y->pitch, y->run, piece);
    line_coords(x, "n", c);
    c[y->axis] = scaled(e, piece, y->run / y->bytes);
    const char *o = slot_place(x, c);
    line(e, "const u32 place = %s + %s;", to, o);
    if (runs < y->per) { line(e, "if (%s < %d) {", piece, runs); e->indent++; }
    if (x->aligned || y->run < 16) take_class(x, "from", "place", -1);
    else
        for (int word = 0; word < 4; word++) {      /* words are chosen by the code that is taken, not by instructions */
            line(e, word == 3 ? "else {" : word ? "else if (begins >> 2 == %d) {" : "if (begins >> 2 == %d) {", word);
            e->indent++;
            take_class(x, "from", "place", word);
            end_block(e);
        }
    if (runs < y->per) end_block(e);
    end_block(e);
}

static void take_runs(const Filler *x, const char *stage, const char *to)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    const char *c[TILE_MAX_RANK], *guard, *has;
    int words = y->run / 4, runs = (int)(y->line * y->bytes / y->run), raw = x->aligned ? words : y->run == 16 ? 8 : words + 1;
    for (int part = 0; part < y->parts; part++) {
        const char *piece = y->per == 32 && part ? str(e, "(lane + %d)", 32 * part) : y->per == 32 ? "lane" : str(e, "(lane %% %d)", y->per);
        const char *place = str(e, "%s + (v * %d%s) * %d + %d * %s", stage, y->group, y->group > 1 ? str(e, " + lane / %d", y->per) : "", y->pitch, y->run, piece);
        /* so many at a time: all are read before the first is put in place */
        text_puts(e->out, "#pragma unroll 1\n");
        line(e, "for (int u = 0; u < %d; u += %d) {", y->share, AT_ONCE);
        e->indent++;
        line(e, "u32 around[%d][%d];", AT_ONCE, raw);
        text_puts(e->out, "#pragma unroll\n");
        line(e, "for (int k = 0; k < %d; k++) {", AT_ONCE);
        e->indent++;
        line(e, "const int v = u + k;");
        has = both_conditions(e, y->share % AT_ONCE ? str(e, "v < %d", y->share) : "", (part + 1) * y->per > runs ? str(e, "%s < %d", piece, runs) : "");
        if (*has) { line(e, "if (%s) {", has); e->indent++; }
        if (x->aligned) line(e, "%s(around[k], %s);", use(e, str(e, "lds_b%d", y->run * 8)), place);
        else if (y->run == 16) line(e, "%s(around[k], %s); %s(around[k] + 4, %s + 16);", use(e, "lds_b128"), place, use(e, "lds_b128"), place);
        else {
            unit_line(x, "v");
            line_coords(x, "n", c);
            line(e, "const u32 begins = (%s) & 12;", line_bytes(x, c));
            for (int k = 0; k <= words; k++) line(e, "%s(around[k] + %d, %s + begins + %d);", use(e, "lds_b32"), k, place, 4 * k);
        }
        if (*has) end_block(e);
        end_block(e);
        text_puts(e->out, "#pragma unroll\n");
        line(e, "for (int k = 0; k < %d; k++) {", AT_ONCE);
        e->indent++;
        line(e, "const int v = u + k;");
        guard = unit_line(x, "v");
        guard = both_conditions(e, guard, has);
        line_coords(x, "n", c);
        if (x->aligned) line(e, "u32 *const w = around[k];");
        else {
            line(e, "u32 w[%d];", words);
            line(e, "const u32 begins = (%s) & 15;", line_bytes(x, c));
            funnel(x, "w", "around[k]", "begins");
        }
        if (x->heads) {
            line(e, "if (%s) {", x->f->first);
            e->indent++;
            line(e, "const i32 none = %s - %d * %s;", scaled(e, x->f->first, y->bytes), y->run, piece);
            for (int k = 0; k < words; k++) line(e, "w[%d] = %s(0, w[%d], none - %d);", k, use(e, "low_bytes"), k, 4 * k);
            end_block(e);
        }
        c[y->axis] = scaled(e, piece, y->run / y->bytes);
        if (*guard) { line(e, "if (%s) {", guard); e->indent++; }
        line(e, "%s(%s + %s, w);", use(e, str(e, "sts_b%d", y->run * 8)), to, slot_place(x, c));
        if (*guard) end_block(e);
        end_block(e);
        end_block(e);
    }
}

/* The slot runs across the lines: an element of each of so many as follow each other. */
static void take_across(const Filler *x, const char *stage, const char *to)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    int group = y->run / y->bytes, per = 4 / y->bytes;
    int64_t all = y->share / group * y->line;
    const char *c[TILE_MAX_RANK], *guard = all % 32 ? str(e, "u < %lld", (long long)all) : "", *bits = y->bytes == 1 ? "u8" : y->bytes == 2 ? "u16" : "u32";
    begin_some(e, "v", (int)((all + 31) / 32));
    line(e, "const i32 u = lane + 32 * v, at = u / %lld * %d, x = u %% %lld, n = warp * %d + at;", (long long)y->line, group, (long long)y->line, y->share);
    if ((int64_t)y->share * x->warps > y->lines) guard = both_conditions(e, guard, str(e, "n < %lld", (long long)y->lines));
    if (*guard) { line(e, "if (%s) {", guard); e->indent++; }
    line(e, "u32 w[%d];", y->run / 4);
    for (int k = 0; k < group; k++) {
        line_coords(x, str(e, "n + %d", k), c);
        const char *begins = x->aligned ? "0" : str(e, "((%s) & 15)", line_bytes(x, c));
        const char *one = str(e, "(u32)%s(%s + (at + %d) * %d + %s + %s)", use(e, str(e, "lds_%s", bits)), stage, k, y->pitch, begins, scaled(e, "x", y->bytes));
        if (x->heads) one = str(e, "(x >= %s ? %s : 0)", x->f->first, one);
        if (k % per) line(e, "w[%d] |= %s << %d;", k / per, one, k % per * y->bytes * 8);
        else line(e, "w[%d] = %s;", k / per, one);
    }
    line_coords(x, "n", c);
    c[y->axis] = "x";
    line(e, "%s(%s + %s, w);", use(e, str(e, "sts_b%d", y->run * 8)), to, slot_place(x, c));
    if (*guard) end_block(e);
    end_block(e);
}

/* Blocks of 8 lines by 8 elements, four at a time: ldmatrix takes them turned over, stmatrix puts an element's eight neighbours side by side. Elements before the line's first (of the vector in which it begins)
 * and behind its last go to the lane's own bytes behind the stage. */
static void take_blocks(const Filler *x, const char *stage, const char *to)
{
    Emit *e = x->e;
    const FillWay *y = &x->way;
    int chans = (int)y->shape[y->beside], fours = (y->vectors + 3) / 4, chunks = chans / 8, side = y->axis < y->split ? 0 : 1, panel = x->slot->panel * 2, some = chunks % 4 == 0 && fours <= 2 ? 4 : chunks % 2 ? 1 : 2;        /* a block at a place of each is 4 registers */
    const char *c[TILE_MAX_RANK], *m[2];
    line(e, "const u32 nowhere = %s + %d + 16 * lane;", stage, y->pitch * y->share);
    open_rows(x);
    block_coords(x, "row", "0", c);
    if (x->aligned) line(e, "const i32 before = 0;");
    else line(e, "const i32 before = (i32)((%s) & 15) / 2;", line_bytes(x, c));
    line(e, "const i32 place = lane - before, n = row * %lld + place;", (long long)y->line);
    m[side] = "n";
    m[1 - side] = "0";
    const char *o = shared_offset(e, x->slot, m);
    line(e, "const u32 from = %s + (k * %d + lane %% 8) * %d;", stage, chans, y->pitch);
    text_printf(e->out, "#pragma unroll %d\n", chunks / some > 2 ? 2 : 1);
    line(e, "for (int h = 0; h < %d; h += %d) {", chunks, some);
    e->indent++;
    line(e, "u32 d[%d][%d][4];", some, fours);
    begin_unrolled(e, "j", some);
    begin_unrolled(e, "g", fours);
    const char *piece = y->vectors % 4 ? str(e, "(4 * g + lane / 8 < %d ? 4 * g + lane / 8 : %d)", y->vectors, y->vectors - 1) : "(4 * g + lane / 8)";
    line(e, "%s(d[j][g], from + (h + j) * %d + 16 * %s);", use(e, "ldmatrix_x4_trans"), 8 * y->pitch, piece);
    end_block(e);
    end_block(e);
    if (x->heads) {
        line(e, "if (%s) {", x->f->first);
        e->indent++;
        begin_unrolled(e, "g", fours);
        begin_unrolled(e, "b", 4);
        line(e, "const bool none = 8 * (4 * g + b) + lane / 4 - before < %s;", x->f->first);
        begin_unrolled(e, "j", some);
        line(e, "d[j][g][b] = none ? 0 : d[j][g][b];");
        end_block(e);
        end_block(e);
        end_block(e);
        end_block(e);
    }
    begin_unrolled(e, "j", some);
    begin_unrolled(e, "g", fours);
    const char *chunk = chans * 2 > panel ? str(e, "((%s + g * %d) ^ (h + j) %% %d * 16) + (h + j) / %d * %d", o, 32 * x->slot->pitch, panel / 16, panel / 16, x->slot->panel_bytes) : str(e, "((%s + g * %d) ^ (h + j) * 16)", o, 32 * x->slot->pitch);
    line(e, "%s((u32)(place + 32 * g) < %lldu ? %s + %s : nowhere, d[j][g]);", use(e, "stmatrix_x4"), (long long)y->line, to, chunk);
    end_block(e);
    end_block(e);
    end_block(e);
    end_block(e);
}

static void finish(const Filler *x, const char *stage, int newer)
{
    Emit *e = x->e;
    const char *ring = x->f->ring->name, *slot = x->f->ring->depth > 1 ? str(e, "%s_slot", ring) : "0", *to = tmp(e, "to");
    line(e, "%s(%d);", use(e, "cp_async_wait"), newer);
    line(e, "%s();", use(e, "warp_sync"));
    line(e, "%s(%s_empty + 8 * %s, %s_phase ^ 1);", use(e, "mbar_wait"), ring, slot, ring);
    line(e, "const u32 %s = %s + %s * %lld;", to, ring, slot, (long long)x->f->ring->bytes);
    line(e, "{");
    e->indent++;
    if (x->way.blocks) take_blocks(x, stage, to);
    else if (x->way.turned) take_across(x, stage, to);
    else if (x->way.straight) take_straight(x, stage, to);
    else take_runs(x, stage, to);
    end_block(e);
    line(e, "%s();", use(e, "warp_sync"));
    line(e, "if (lane == 0) %s(%s_full + 8 * %s);", use(e, "mbar_arrive"), ring, slot);
    if (x->f->ring->depth == 1) line(e, "%s_phase ^= 1;", ring);
    else line(e, "if (++%s_slot == %d) { %s_slot = 0; %s_phase ^= 1; }", ring, x->f->ring->depth, ring, ring);
}

/* --- where ------------------------------------------------------------------------------------------------------------------------------ */

/* The loop of which a step's window is taken from the stage a step later: the one around, if nothing in it waits for another loop. */
static const Instr *late_in(const Instr *fill)
{
    const Instr *loop = fill->block->parent;
    if (!loop || loop->op != OP_FOR || ir_attr_int(loop, ATTR_TICKETS, 0)) return NULL;
    for (const Instr *i = fill->block->first; i; i = i->next) if (i->op == OP_FOR) return NULL;
    return loop;
}

static int late_beside(const Instr *fill)
{
    int n = 0;
    for (const Instr *i = fill->block->first; i; i = i->next) n += i->op == OP_RING_FILL && !ir_attr_int(i, ATTR_SLOT, 0);
    return n;
}

/* --- rows that lie anywhere ---------------------------------------------------------------------------------------------------------
 * Whole pieces of 16 bytes go from memory straight to the slot, where a thread has one in each pass. A slot is full when its copies have arrived, which fillers see a turn
 * later: until then they hold it (`head` is the slot that is being filled), and start the next one's. */

static bool by_rows(const Instr *fill) { return ir_attr_int(fill, ATTR_PARTS, 0) > 0; }

static void publish(Emit *e, const Fill *f, int newer)
{
    const char *ring = f->ring->name;
    line(e, "%s(%d);", use(e, "cp_async_wait"), newer);
    line(e, "%s();", use(e, "fence_proxy_async"));
    line(e, "%s();", use(e, "warp_sync"));
    line(e, "if (lane == 0) %s(%s_full + 8 * %s_slot);", use(e, "mbar_arrive"), ring, ring);
    line(e, "if (++%s_slot == %d) %s_slot = 0;", ring, f->ring->depth, ring);
}

static void copy_rows(Emit *e, const Fill *f, const Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    const LayoutShared *s = layouts_shared(&e->plan->layouts, t);
    int64_t pass = ir_attr_int(i, ATTR_SLOT, 0), passes = ir_attr_int(i, ATTR_PARTS, 1), rows = s->tile[0];
    int pieces, wide = 16 / dtype_bytes(t->dtype);
    const char *ring = f->ring->name;
    Window w;
    window_of(e, i, &w);
    kernel_fill_passes(e->plan, rows, s->tile[1], dtype_bytes(t->dtype), &pieces);
    if (!pass) line(e, "%s(%s_empty + 8 * %s_head, %s_turn ^ 1);", use(e, "mbar_wait"), ring, ring, ring);
    const char *row = name_of(e, ir_operand(i, 2 + w.rank)), *column = str(e, "tid %% %d * %d", pieces, wide), *c[TILE_MAX_RANK] = { column }, *in = tmp(e, "in");
    bool last = (pass + 1) * (e->plan->filler_warps * 32 / pieces) > rows;
    if (last) { line(e, "if (%s < %lld) {", row, (long long)rows); e->indent++; }
    const char *ptr = window_pointer(e, &w), *cond = window_condition(e, &w, c, false), *index = window_index(e, &w, c);
    line(e, "const bool %s = %s;", in, *cond ? cond : "true");
    const char *place = shared_offset(e, s, (const char *[]){ row, column });
    line(e, "%s(%s + %s_head * %lld + %s, %s + (%s ? %s : 0), %s);", use(e, "cp_async_b128"), ring, ring, (long long)f->ring->bytes, place, ptr, in, index, in);
    if (last) end_block(e);
    if (pass + 1 < passes) return;
    line(e, "%s();", use(e, "cp_async_commit"));
    line(e, "if (++%s_head == %d) { %s_head = 0; %s_turn ^= 1; }", ring, f->ring->depth, ring, ring);
    if (!f->late) { publish(e, f, 0); return; }
    line(e, "if (%s_open) {", ring);
    e->indent++;
    publish(e, f, late_beside(i));
    end_block(e);
    line(e, "%s_open = true;", ring);
}

void emit_fill_stage(Emit *e, Instr *fill, const RingInfo *r)
{
    if (by_rows(fill)) {
        if (!ir_attr_int(fill, ATTR_SLOT, 0)) vec_push(&e->s->arena, &e->fills, ((Fill){ .instr = fill, .ring = r, .late = late_in(fill) }));
        return;
    }
    const char *n = r->name;
    Fill f = { .instr = fill, .ring = r, .stage = str(e, "%s_stage", n), .low = str(e, "%s_low", n), .first = str(e, "%s_first", n), .turn = str(e, "%s_turn", n), .late = late_in(fill) };
    if (!kernel_fill_way(e->f, e->plan, fill, ir_operand(fill, 0)->type, &f.way)) ir_fail(e->s, fill->loc, "fillers have no way to this slot");
    f.bytes = f.way.stage;
    int64_t bytes = (int64_t)(f.late ? FILL_STAGES : 1) * e->plan->filler_warps * f.way.stage;
    e->shared_bytes = (e->shared_bytes + 127) / 128 * 128;
    f.at = e->shared_bytes;
    const Type *t = type_shared(e->s, DT_U8, 3, (int64_t[]){ f.late ? FILL_STAGES : 1, f.way.blocks ? f.way.share * e->plan->filler_warps : f.way.stage / f.way.pitch * e->plan->filler_warps, f.way.pitch }, NULL);
    vec_push(&e->s->arena, &e->shared_map, ((SharedUse){ str(e, "rows of %s", n), t, e->shared_bytes, bytes, fill->loc }));
    e->shared_bytes += bytes;
    vec_push(&e->s->arena, &e->fills, f);
}

/* What fillers keep from turn to turn. */
void emit_fill_state(Emit *e)
{
    for (size_t k = 0; k < e->fills.len; k++) {
        const Fill *f = &e->fills.data[k];
        Filler x;
        if (by_rows(f->instr)) {
            line(e, "u32 %s_head = 0, %s_turn = 0;", f->ring->name, f->ring->name);
            if (f->late) line(e, "bool %s_open = false;", f->ring->name);
            continue;
        }
        begin(e, f, &x);
        line(e, "const u32 %s = shared_base + %lld + warp * %d;", f->stage, (long long)f->at, f->bytes);
        line(e, "u32 %s = 0, %s = 0;", f->low, f->turn);
        if (x.heads) line(e, "i32 %s = 0;", f->first);
    }
}

static const char *stage_of(Emit *e, const Fill *f, const char *turn) { return str(e, "%s + %s * %d", f->stage, turn, f->bytes * e->plan->filler_warps); }

void emit_fill(Emit *e, Instr *i)
{
    const Fill *f = NULL;
    Filler x;
    for (size_t k = 0; k < e->fills.len; k++) if (e->fills.data[k].instr == i || (by_rows(i) && e->fills.data[k].ring->value == ir_operand(i, 0))) f = &e->fills.data[k];
    if (by_rows(i)) { copy_rows(e, f, i); return; }
    begin(e, f, &x);
    const char *low = tmp(e, "low"), *stage = tmp(e, "stage");
    if (!f->late) {
        start_lines(&x, f->stage, low);
        line(e, "%s = %s;", f->low, low);
        if (x.heads) line(e, "%s = %s_now;", f->first, f->first);
        finish(&x, f->stage, 0);
        return;
    }
    /* turn: 0 nothing in the stages yet, else 1 or 2 by where the window before lies */
    line(e, "const u32 %s = %s;", stage, stage_of(e, f, str(e, "(%s == 1)", f->turn)));
    start_lines(&x, stage, low);
    line(e, "if (%s) {", f->turn);
    e->indent++;
    const char *before = tmp(e, "before");
    line(e, "const u32 %s = %s;", before, stage_of(e, f, str(e, "(%s == 2)", f->turn)));
    finish(&x, before, late_beside(i));
    end_block(e);
    line(e, "%s = %s; %s = %s == 1 ? 2 : 1;", f->low, low, f->turn, f->turn);
    if (x.heads) line(e, "%s = %s_now;", f->first, f->first);
}

void emit_fills_left(Emit *e, const Instr *loop)
{
    for (size_t k = 0; k < e->fills.len && e->role == ROLE_FILLER; k++) {
        const Fill *f = &e->fills.data[k];
        Filler x;
        if (f->late != loop) continue;
        if (by_rows(f->instr)) {
            line(e, "if (%s_open) {", f->ring->name);
            e->indent++;
            publish(e, f, 0);
            line(e, "%s_open = false;", f->ring->name);
            end_block(e);
            continue;
        }
        begin(e, f, &x);
        const char *before = tmp(e, "before");
        line(e, "if (%s) {", f->turn);
        e->indent++;
        line(e, "const u32 %s = %s;", before, stage_of(e, f, str(e, "(%s == 2)", f->turn)));
        finish(&x, before, 0);
        line(e, "%s = 0;", f->turn);
        end_block(e);
    }
}
