/* emit_scan.c: running sums, products and extremes along one axis. They want the layout of kernel_row_layout:
 * a thread holds a run of consecutive elements, lanes and then warps the runs after it. emit_combined_scan.c
 * has scans by a function of the program. */
#include "backends/gpu/emit.h"

bool runs_of(const Layout *l, int axis, Runs *r)
{
    int32_t c[TILE_MAX_RANK];
    int n = (int)layout_regs(l);
    r->per = 1;
    for (; r->per < n; r->per++) {
        layout_element(l, (uint32_t)r->per, 0, 0, 0, c);
        if (c[axis] != r->per) break;
    }
    r->groups = n / r->per;
    bool ok = n % r->per == 0;
    for (int k = 0; k < n; k++) {
        layout_element(l, (uint32_t)k, 0, 0, 0, c);
        ok = ok && c[axis] == k % r->per;
    }
    for (r->lanes = 1; r->lanes < (int)layout_lanes(l); r->lanes *= 2) {
        layout_element(l, 0, (uint32_t)r->lanes, 0, 0, c);
        if (c[axis] != r->lanes * r->per) break;
    }
    for (int b = r->lanes; b < (int)layout_lanes(l); b *= 2) {
        layout_element(l, 0, (uint32_t)b, 0, 0, c);
        ok = ok && c[axis] == 0;
    }
    return ok;
}

void scan_runs(Emit *e, const Instr *i, const Layout *l, int axis, Runs *r)
{
    RowStrips *s = arena_new(&e->s->arena, RowStrips);
    *r = (Runs){ 0 };
    if (runs_of(l, axis, r)) return;
    if (kernel_row_strips(&e->s->arena, l, axis, s)) *r = (Runs){ s->per, s->runs, s->lanes, s };
    else ir_fail(e->s, i->loc, "%s over a layout that is not in order", op_info[i->op].name);
}

/* A scan that is being emitted. `run` is the array of all registers. `before` has, for each run, the
 * combination of all runs before it. */
typedef struct Scan {
    Instr *instr;
    const Layout *l;
    int axis;
    bool back;
    DType acc;
    const char *type, *run, *before, *none;
    const char
        *strip; /* by run: the combination of all lanes' runs of its strip, then of all strips up to it */
    Runs w;
} Scan;

static const char *joined(Emit *e, const Scan *s, const char *x, const char *y)
{ return combine_expr(e, s->instr, s->acc, x, y); }

/* The last position of run g. */
static const char *end_of_run(Emit *e, const Scan *s)
{ return str(e, "%s[g * %d + %d]", s->run, s->w.per, s->back ? 0 : s->w.per - 1); }

static void scan_in_thread(Emit *e, const Scan *s)
{
    int per = s->w.per;
    if (per == 1) return;
    directive(e, "#pragma unroll");
    if (s->back) line(e, "for (int i = %d; i >= 0; i--) {", per - 2);
    else line(e, "for (int i = 1; i < %d; i++) {", per);
    e->indent++;
    const char *at = str(e, "%s[g * %d + i]", s->run, per),
               *from = str(e, "%s[g * %d + i %s 1]", s->run, per, s->back ? "+" : "-");
    line(e, "%s = %s;", at, joined(e, s, from, at));
    end_block(e);
}

/* Whether the lanes of a warp have all of a row, one element each: what they combine for the lanes behind
 * them is the result. Floats keep the order of their sums. */
static bool ends_in_lanes(const Scan *s)
{ return s->w.per == 1 && s->w.lanes > 1 && s->l->tile[s->axis] <= s->w.lanes && dtype_is_int(s->acc); }

/* Computes the combination of the runs of the lanes before this one; whole: of this one too, the result. */
static void scan_across_lanes(Emit *e, const Scan *s, const char *total, const char *shuffle, bool whole)
{
    int lanes = s->w.lanes;
    const char *t = s->type;
    if (lanes == 1) return;
    line(e, "%s %s = %s;", t, total, end_of_run(e, s));
    for (int d = 1; d < lanes; d *= 2) {
        const char *y = tmp(e, "y"), *sum = tmp(e, "sum");
        line(e, "const %s %s = %s(%s, lane %s %d);", t, y, shuffle, total, s->back ? "+" : "-", d);
        line(e, "const %s %s = %s;", t, sum, joined(e, s, y, total));
        if (s->back) line(e, "if ((lane & %d) + %d < %d) %s = %s;", lanes - 1, d, lanes, total, sum);
        else line(e, "if ((lane & %d) >= %d) %s = %s;", lanes - 1, d, total, sum);
    }
    if (whole) {
        line(e, "%s[g] = %s;", s->run, total);
        return;
    }
    const char *y = tmp(e, "y");
    line(e, "const %s %s = %s(%s, lane %s 1);", t, y, shuffle, total, s->back ? "+" : "-");
    line(e, "if ((lane & %d) != %d) %s[g] = %s;", lanes - 1, s->back ? lanes - 1 : 0, s->before, y);
}

/* Takes what the last lane of a strip has combined, which is all of the strip. */
static void take_strip(Emit *e, const Scan *s, const char *total, const char *shuffle)
{
    int lanes = s->w.lanes;
    const char *last = s->back ? str(e, "(lane & %d)", ~(lanes - 1)) : str(e, "(lane | %d)", lanes - 1);
    if (lanes == 1) line(e, "%s[g] = %s;", s->strip, end_of_run(e, s));
    else line(e, "%s[g] = %s(%s, %s);", s->strip, shuffle, total, last);
}

/* Combines what is before each run with the strips before its own. */
static void join_strips(Emit *e, const Scan *s)
{
    for (int k = 0; k < s->w.groups; k++) {
        int g = s->back ? s->w.groups - 1 - k : k, from = s->back ? -1 : s->w.strips->before[g];
        for (int h = g; h < s->w.groups && s->back; h++)
            if (s->w.strips->before[h] == g) from = h;
        if (from < 0) continue;
        const char *all = str(e, "%s[%d]", s->strip, from), *before = str(e, "%s[%d]", s->before, g),
                   *own = str(e, "%s[%d]", s->strip, g);
        line(e, "%s = %s;", before, joined(e, s, all, before));
        line(e, "%s = %s;", own, joined(e, s, all, own));
    }
}

/* cells: of each lane of a warp, those of so many strips that follow each other. Each becomes the combination
 * of all strips up to it. */
static void scan_strips(Emit *e, const Scan *s, const char *cell, int cells, const char *shuffle)
{
    const int wave = e->target->wave;
    const char *total = tmp(e, "total"), *y = tmp(e, "y"), *sum = tmp(e, "sum");
    for (int k = 1; k < cells; k++) {
        const char *at = str(e, "%s[%d]", cell, s->back ? cells - 1 - k : k),
                   *from = str(e, "%s[%d]", cell, s->back ? cells - k : k - 1);
        line(e, "%s = %s;", at, joined(e, s, from, at));
    }
    line(e, "%s %s = %s[%d];", s->type, total, cell, s->back ? 0 : cells - 1);
    directive(e, "#pragma unroll");
    line(e, "for (int apart = 1; apart <= %d; apart *= 2) {", wave / 2);
    e->indent++;
    line(e, "const %s %s = %s(%s, lane %s apart);", s->type, y, shuffle, total, s->back ? "+" : "-");
    line(e, "const %s %s = %s;", s->type, sum, joined(e, s, y, total));
    if (s->back) line(e, "if (lane + apart < %d) %s = %s;", wave, total, sum);
    else line(e, "if (lane >= apart) %s = %s;", total, sum);
    end_block(e);
    const char *others = tmp(e, "others");
    line(e, "const %s %s = %s(%s, lane %s 1);", s->type, others, shuffle, total, s->back ? "+" : "-");
    if (s->back) line(e, "if (lane < %d) {", wave - 1);
    else line(e, "if (lane > 0) {");
    e->indent++;
    for (int k = 0; k < cells; k++) {
        const char *at = str(e, "%s[%d]", cell, k);
        line(e, "%s = %s;", at, joined(e, s, others, at));
    }
    end_block(e);
}

/* The same for strips of one row that all warps share: each writes the totals of its own, and reads all. */
static void join_strips_of_warps(Emit *e, const Scan *s, const char *shuffle)
{
    const RowStrips *r = s->w.strips;
    const int wave = e->target->wave, step = s->back ? 1 : -1;
    int cells = 1;
    while (cells * wave < r->count) cells *= 2;
    const DType in = s->acc == DT_BOOL ? DT_U8 : s->acc;
    scratch(e, r->count * ctype_bytes(in));
    const char *sh = shared_pointer(e, ctype(in), 0), *cell = tmp(e, "cell"), *first = tmp(e, "first");
    line(e, "const int %s = %s;", first, entry_text(e, r->of_warp, (int)layout_warps(s->l), "warp"));
    barrier(e);
    line(e, "if (lane == 0) {");
    e->indent++;
    for (int g = 0; g < r->runs; g++) line(e, "%s[%s + %d] = %s[%d];", sh, first, r->place[g], s->strip, g);
    end_block(e);
    barrier(e);
    line(e, "%s %s[%d];", s->type, cell, cells);
    for (int k = 0; k < cells; k++)
        line(e, "%s[%d] = lane * %d + %d < %d ? %s[lane * %d + %d] : %s;", cell, k, cells, k, r->count, sh,
            cells, k, s->none);
    scan_strips(e, s, cell, cells, shuffle);
    for (int g = 0; g < r->runs; g++) {
        const char *at = tmp(e, "at"), *all = tmp(e, "all"), *before = str(e, "%s[%d]", s->before, g);
        line(e, "const int %s = %s + %d;", at, first, r->place[g] + step);
        line(e, "%s %s = %s;", s->type, all, s->none);
        for (int k = 0; k < cells; k++) {
            const char *of = str(e, "%s(%s[%d], %s / %d)", shuffle, cell, k, at, cells);
            const char *y = tmp(e, "y");
            line(e, "const %s %s = %s;", s->type, y, of);
            line(e, "if (%s >= 0 && %s < %d && %s %% %d == %d) %s = %s;", at, at, r->count, at, cells, k, all,
                y);
        }
        line(e, "%s = %s;", before, joined(e, s, all, before));
    }
}

/* Adds the combination of the warps before this one, through shared memory. */
static void scan_across_warps(Emit *e, const Scan *s)
{
    int parts, groups = s->w.groups, lanes = s->w.lanes;
    const char *rank = warp_rank(e, s->l, s->axis, &parts);
    if (parts == 1) return;
    DType cell = s->acc == DT_BOOL ? DT_U8 : s->acc;
    const Layout *keep = layout_slice(&e->s->arena, s->l, s->axis, true);
    int64_t rows;
    int32_t *first = arena_array(&e->s->arena, int32_t, (size_t)groups);
    const int32_t *of = register_map(e, s->l, keep);
    for (int g = 0; g < groups; g++) first[g] = of ? of[g * s->w.per] : g * s->w.per;
    const char *row =
        row_number(e, keep, s->axis, index_entry(e, first, groups, index_variable(e, "g")), &rows);
    scratch(e, rows * parts * ctype_bytes(cell));
    const char *sh = shared_pointer(e, ctype(cell), 0);
    barrier(e);
    begin_unrolled(e, "g", groups);
    const char *own = end_of_run(e, s), *whole = tmp(e, "whole"), *before = str(e, "%s[g]", s->before);
    line(e, "const %s %s = %s;", s->type, whole, joined(e, s, before, own));
    line(e, "if ((lane & %d) == %d) %s[%s * %lld + %s] = %s;", lanes - 1, s->back ? 0 : lanes - 1, sh, rank,
        (long long)rows, row, whole);
    end_block(e);
    barrier(e);
    begin_unrolled(e, "g", groups);
    const char *sum = tmp(e, "sum");
    line(e, "%s %s = %s;", s->type, sum, s->none);
    if (s->back) line(e, "for (int w = %d; w > %s; w--) {", parts - 1, rank);
    else line(e, "for (int w = 0; w < %s; w++) {", rank);
    e->indent++;
    line(e, "%s = %s;", sum, joined(e, s, sum, str(e, "%s[w * %lld + %s]", sh, (long long)rows, row)));
    end_block(e);
    line(e, "%s[g] = %s;", s->before, joined(e, s, sum, before));
    end_block(e);
}

/* Combines what is before each run with its elements. */
static void join_runs(Emit *e, const Scan *s, int n)
{
    if (!s->w.strips) scan_across_warps(e, s);
    begin_unrolled(e, "i", n);
    const char *before = str(e, "%s[i / %d]", s->before, s->w.per);
    line(e, "%s[i] = %s;", s->run, joined(e, s, before, str(e, "%s[i]", s->run)));
    end_block(e);
}

void emit_scan(Emit *e, Instr *i)
{
    Value *x = ir_operand(i, 0);
    Scan s = { .instr = i,
        .l = layout_of(e, x),
        .axis = (int)ir_attr_int(i, ATTR_AXIS, 0),
        .back = ir_attr_int(i, ATTR_REVERSE, 0),
        .acc = combined_wide(x->type->dtype) };
    int n = (int)layout_regs(s.l);
    s.none = combine_identity(e, i, s.acc);
    s.type = ctype(s.acc);
    s.run = tmp(e, "run");
    s.before = tmp(e, "before");
    scan_runs(e, i, s.l, s.axis, &s.w);
    line(e, "%s %s[%d], %s[%d];", s.type, s.run, n, s.before, s.w.groups);
    if (s.w.strips) line(e, "%s %s[%d];", s.type, s.strip = tmp(e, "strip"), s.w.groups);
    begin_unrolled(e, "i", n);
    Index *r = index_variable(e, "i");
    const char *cond = inside_tile(e, s.l, r),
               *v = cast_expr(e, x->type->dtype, s.acc, element(e, x, s.l, r));
    line(e, "%s[i] = %s;", s.run, *cond ? str(e, "%s ? %s : %s", cond, v, s.none) : v);
    end_block(e);
    bool whole = ends_in_lanes(&s);
    begin_unrolled(e, "g", s.w.groups);
    scan_in_thread(e, &s);
    const char *total = tmp(e, "total"), *shuffle = use(e, str(e, "shuffle_from_%s", dtype_name(s.acc)));
    line(e, "%s[g] = %s;", s.before, s.none);
    scan_across_lanes(e, &s, total, shuffle, whole);
    if (s.w.strips) take_strip(e, &s, total, shuffle);
    end_block(e);
    if (s.w.strips && s.w.strips->before) join_strips(e, &s);
    else if (s.w.strips) join_strips_of_warps(e, &s, shuffle);
    if (!whole) join_runs(e, &s, n);
    pack_registers(e, ir_result(i), s.run, combined_type(i, s.acc));
}
