/* emit_combined_scan.c: scans by a fn, of one tile or of several that lie alike (emit_combined.c).
 *
 * A thread combines each of its runs, lanes and warps exchange these, and each position then takes the
 * combination of all positions before it. There is no neutral element, so `has` says whether there are any.
 * What lies beyond the tile is behind all of its positions, so that only a scan from the end has to skip it.
 *
 * Rows are in runs of threads (kernel_row_layout), or in strips as accesses have them (kernel_row_strips):
 * then the combinations of whole strips are scanned, too. */
#include "backends/gpu/axis/combined.h"

/* before: for each run, the combination of all positions before it, if `has` holds. total: of the run and the
 * runs of its lanes before it. strip: of its whole strip, then of all strips up to it. `start`: where the
 * runs begin, from the thread's first position on. `mask`: a scan from the end, which has its padding in
 * front. */
typedef struct Scan {
    Combined q;
    Runs w;
    bool back, mask, alone;
    int32_t *start;
    const char *before[IR_MAX_COMBINED], *total[IR_MAX_COMBINED], *strip[IR_MAX_COMBINED], *has;
} Scan;

static const char *both(Emit *e, const char *a, const char *b) { return *b ? str(e, "%s && %s", a, b) : a; }

/* The condition that what lies `on` positions behind the begin of run g is in the tile. */
static const char *position_inside(Emit *e, const Scan *s, const char *on)
{
    return str(e, "%s + %s + %s < %d", index_text(e, thread_coord(e, s->q.l, s->q.axis)),
        entry_text(e, s->start, s->w.groups, "g"), on, s->q.l->tile[s->q.axis]);
}

/* Position `at` of run g, a text or the number of the first or the last one. */
static Position of_run(Emit *e, const Scan *s, const char *at)
{ return combined_entry(e, &s->q, s->q.part, str(e, "g * %d + %s", s->w.per, at)); }

static const char *first_of_run(Emit *e, const Scan *s) { return str(e, "%d", s->back ? s->w.per - 1 : 0); }

static const char *last_of_run(Emit *e, const Scan *s) { return str(e, "%d", s->back ? 0 : s->w.per - 1); }

/* Begins the loop over the positions of run g behind its first one. */
static void begin_positions(Emit *e, const Scan *s)
{
    directive(e, "#pragma unroll");
    if (s->back) line(e, "for (int i = %d; i >= 0; i--) {", s->w.per - 2);
    else line(e, "for (int i = 1; i < %d; i++) {", s->w.per);
    e->indent++;
}

/* What operand k is widened from, if registers hold it as it was loaded; else NULL. */
static const Value *narrow_operand(const Combined *q, int k)
{
    const Value *v = ir_operand(q->i, k);
    if (!v->def || v->def->op != OP_CAST) return NULL;
    const Value *x = ir_operand(v->def, 0);
    const bool held = x->def && (x->def->op == OP_LOAD || x->def->op == OP_OPAQUE);
    return held && x->type->layout == v->type->layout && x->type->dtype != DT_BOOL &&
                   dtype_bytes(x->type->dtype) < dtype_bytes(v->type->dtype)
               ? x
               : NULL;
}

/* Widens such operands again, so that nothing wider is held while threads exchange. Not on AMD, where nothing
 * was measured. */
static void take_runs_again(Emit *e, const Scan *s)
{
    const Combined *q = &s->q;
    for (int k = 0; k < q->n && e->target->kind == TARGET_CUDA; k++) {
        const Value *x = narrow_operand(q, k);
        if (!x) continue;
        const DType d = x->type->dtype;
        begin_unrolled(e, "i", array_len(d, s->w.per * s->w.groups));
        line(e, "%s(%s[i]);", use(e, "pin_word"), registers_of(e, x));
        end_block(e);
        begin_unrolled(e, "i", s->w.per * s->w.groups);
        line(e, "%s[i] = %s;", q->part[k],
            cast_expr(e, d, combined_type_of(q, k), element(e, x, q->l, index_variable(e, "i"))));
        end_block(e);
    }
}

static void take_runs(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    int n = s->w.per * s->w.groups;
    combined_arrays(e, q, "run", n, q->part);
    begin_unrolled(e, "i", n);
    for (int k = 0; k < q->n; k++)
        line(e, "%s[i] = %s;", q->part[k], element(e, ir_operand(q->i, k), q->l, index_variable(e, "i")));
    end_block(e);
}

/* Scans the positions of run g behind its first one. */
static void scan_positions(Emit *e, const Scan *s)
{
    const Combined *q = &s->q;
    if (s->w.per == 1) return;
    begin_positions(e, s);
    Position own = of_run(e, s, "i"), from = of_run(e, s, s->back ? "i + 1" : "i - 1"),
             r = combined_apply(e, q, &from, &own);
    combined_assign(e, q, s->mask ? position_inside(e, s, "i + 1") : "", &own, &r);
    end_block(e);
}

/* total: the combination of a run and those of lower (back: higher) lanes; before: of those lanes alone. */
static void scan_lanes(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    int all = s->w.lanes - 1;
    combined_arrays(e, q, "before", s->w.groups, s->before);
    combined_arrays(e, q, "total", s->w.groups, s->total);
    line(e, "bool %s[%d];", s->has = tmp(e, "has"), s->w.groups);
    begin_unrolled(e, "g", s->w.groups);
    Position total = combined_entry(e, q, s->total, "g"), before = combined_entry(e, q, s->before, "g"),
             run = of_run(e, s, s->w.strips ? first_of_run(e, s) : last_of_run(e, s));
    combined_assign(e, q, "", &total, &run);
    if (s->w.per > 1 && s->w.strips) {
        begin_positions(e, s);
        Position at = of_run(e, s, "i"), r = combined_apply(e, q, &total, &at);
        const char *inside = s->mask ? position_inside(e, s, "i + 1") : "";
        for (int k = 0; k < q->n; k++)
            r.v[k] = *inside ? str(e, "%s ? %s : %s", inside, r.v[k], at.v[k]) : r.v[k];
        combined_assign(e, q, "", &total, &r);
        end_block(e);
    }
    for (int d = 1; d < s->w.lanes; d *= 2) {
        Position y = combined_shuffled(
                     e, q, "shuffle_from", &total, str(e, "lane %s %d", s->back ? "+" : "-", d)),
                 sum = combined_apply(e, q, &y, &total);
        const char *there = s->back ? str(e, "(lane & %d) + %d < %d", all, d, s->w.lanes)
                                    : str(e, "(lane & %d) >= %d", all, d);
        const char *inside = s->mask ? position_inside(e, s, str(e, "%d", d * s->w.per)) : "";
        combined_assign(e, q, both(e, there, inside), &total, &sum);
    }
    if (s->w.lanes > 1)
        run = combined_shuffled(e, q, "shuffle_from", &total, s->back ? "lane + 1" : "lane - 1");
    combined_assign(e, q, "", &before, &run);
    const char *others = str(e, "(lane & %d) != %d", all, s->back ? all : 0);
    if (s->w.lanes == 1) others = "false";
    else if (s->mask) others = both(e, others, position_inside(e, s, str(e, "%d", s->w.per)));
    line(e, "%s[g] = %s;", s->has, others);
    end_block(e);
}

/* Combines the results of the warps before this one with `before`. */
static void scan_warps(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    const char *room[IR_MAX_COMBINED], *sum[IR_MAX_COMBINED];
    int parts, span = s->w.lanes * s->w.per;
    int64_t rows;
    const char *rank = warp_rank(e, q->l, q->axis, &parts);
    if (parts == 1) return;
    int last = (q->l->tile[q->axis] - 1) / span; /* of the warps that hold positions of the tile */
    int32_t *first = arena_array(&e->s->arena, int32_t, (size_t)s->w.groups);
    const int32_t *of = register_map(e, q->l, q->keep);
    for (int g = 0; g < s->w.groups; g++) first[g] = of ? of[g * s->w.per] : g * s->w.per;
    const char *row =
        row_number(e, q->keep, q->axis, index_entry(e, first, s->w.groups, index_variable(e, "g")), &rows);
    combined_room(e, q, rows * parts, room);
    barrier(e);
    begin_unrolled(e, "g", s->w.groups);
    Position to = combined_entry(e, q, room, str(e, "%s * %lld + %s", rank, (long long)rows, row)),
             from = combined_entry(e, q, s->total, "g");
    combined_assign(
        e, q, str(e, "(lane & %d) == %d", s->w.lanes - 1, s->back ? 0 : s->w.lanes - 1), &to, &from);
    end_block(e);
    barrier(e);
    const char *some = tmp(e, "some");
    line(e, "const bool %s = %s %s %d;", some, rank, s->back ? "<" : ">", s->back ? last : 0);
    begin_unrolled(e, "g", s->w.groups);
    line(e, "if (%s) {", some);
    e->indent++;
    combined_arrays(e, q, "sum", 1, sum);
    to = combined_entry(e, q, sum, "0");
    from = combined_entry(e, q, room, str(e, "%lld + %s", (long long)rows * (s->back ? last : 0), row));
    combined_assign(e, q, "", &to, &from);
    if (s->back) line(e, "for (int w = %d; w > %s; w--) {", last - 1, rank);
    else line(e, "for (int w = 1; w < %s; w++) {", rank);
    e->indent++;
    from = combined_entry(e, q, room, str(e, "w * %lld + %s", (long long)rows, row));
    combined_append(e, q, "", &to, &from);
    end_block(e);
    from = combined_entry(e, q, s->before, "g");
    combined_append(e, q, str(e, "%s[g]", s->has), &to, &from);
    combined_assign(e, q, "", &from, &to);
    line(e, "%s[g] = true;", s->has);
    end_block(e);
    end_block(e);
}

/* Takes what the last lane of each strip has combined, which is all of the strip. */
static void take_strips(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    int lanes = s->w.lanes;
    combined_arrays(e, q, "strip", s->w.groups, s->strip);
    begin_unrolled(e, "g", s->w.groups);
    Position to = combined_entry(e, q, s->strip, "g"), all = combined_entry(e, q, s->total, "g");
    const char *last = s->back ? str(e, "(lane & %d)", ~(lanes - 1)) : str(e, "(lane | %d)", lanes - 1);
    if (lanes > 1) all = combined_shuffled(e, q, "shuffle_from", &all, last);
    combined_assign(e, q, "", &to, &all);
    end_block(e);
}

/* Puts the combination `all` of strips before run g in front of what is before it, if `condition` holds. */
static void put_before(Emit *e, const Scan *s, int g, const Position *all, const char *condition)
{
    const char *at = str(e, "%d", g);
    Position before = combined_entry(e, &s->q, s->before, at), r = combined_apply(e, &s->q, all, &before);
    for (int k = 0; k < s->q.n; k++) r.v[k] = str(e, "%s[%d] ? %s : %s", s->has, g, r.v[k], all->v[k]);
    combined_assign(e, &s->q, condition, &before, &r);
    line(e, "%s[%d] = %s;", s->has, g, *condition ? str(e, "%s[%d] || %s", s->has, g, condition) : "true");
}

/* Strips of rows that a warp has: those that begin beyond the tile hold nothing. */
static void join_strips(Emit *e, const Scan *s)
{
    const Combined *q = &s->q;
    for (int k = 0; k < s->w.groups; k++) {
        int g = s->back ? s->w.groups - 1 - k : k, from = s->back ? -1 : s->w.strips->before[g];
        for (int h = g; h < s->w.groups && s->back; h++)
            if (s->w.strips->before[h] == g) from = h;
        if (from < 0 || (s->mask && s->start[from] >= q->l->tile[q->axis])) continue;
        Position all = combined_entry(e, q, s->strip, str(e, "%d", from)),
                 own = combined_entry(e, q, s->strip, str(e, "%d", g)),
                 sum = combined_apply(e, q, &all, &own);
        put_before(e, s, g, &all, "");
        combined_assign(e, q, "", &own, &sum);
    }
}

/* cells: of each lane of a warp, so many strips that follow each other, of which `inside` hold something.
 * Each becomes the combination of all strips up to it. */
static void scan_strips(Emit *e, const Scan *s, const char *const *cell, int cells, int inside)
{
    const Combined *q = &s->q;
    const int wave = e->target->wave;
    const char *total[IR_MAX_COMBINED], *sign = s->back ? "+" : "-";
    for (int k = 1; k < cells; k++) {
        const int at = s->back ? cells - 1 - k : k;
        Position own = combined_entry(e, q, cell, str(e, "%d", at)),
                 from = combined_entry(e, q, cell, str(e, "%d", s->back ? at + 1 : at - 1)),
                 sum = combined_apply(e, q, &from, &own);
        combined_assign(
            e, q, s->back ? str(e, "lane * %d + %d < %d", cells, at + 1, inside) : "", &own, &sum);
    }
    combined_arrays(e, q, "total", 1, total);
    Position all = combined_entry(e, q, total, "0"),
             last = combined_entry(e, q, cell, str(e, "%d", s->back ? 0 : cells - 1));
    combined_assign(e, q, "", &all, &last);
    directive(e, "#pragma unroll");
    line(e, "for (int apart = 1; apart < %d; apart *= 2) {", wave);
    e->indent++;
    Position y = combined_shuffled(e, q, "shuffle_from", &all, str(e, "lane %s apart", sign)),
             sum = combined_apply(e, q, &y, &all);
    const char *there = s->back ? str(e, "lane + apart < %d && (lane + apart) * %d < %d", wave, cells, inside)
                                : "lane >= apart";
    combined_assign(e, q, there, &all, &sum);
    end_block(e);
    Position others = combined_shuffled(e, q, "shuffle_from", &all, str(e, "lane %s 1", sign));
    for (int k = 0; k < cells; k++) {
        Position own = combined_entry(e, q, cell, str(e, "%d", k)), r = combined_apply(e, q, &others, &own);
        const char *some =
            s->back ? str(e, "lane < %d && (lane + 1) * %d < %d", wave - 1, cells, inside) : "lane > 0";
        combined_assign(e, q, some, &own, &r);
    }
}

/* Strips of one row that all warps share: each writes the totals of its own, and reads all. */
static void join_strips_of_warps(Emit *e, const Scan *s)
{
    const Combined *q = &s->q;
    const RowStrips *r = s->w.strips;
    const int wave = e->target->wave, strip = r->per * r->lanes;
    const int inside = (q->l->tile[q->axis] + strip - 1) / strip;
    const char *room[IR_MAX_COMBINED], *cell[IR_MAX_COMBINED], *first = tmp(e, "first");
    int cells = 1;
    while (cells * wave < r->count) cells *= 2;
    combined_room(e, q, r->count, room);
    line(e, "const int %s = %s;", first, entry_text(e, r->of_warp, (int)layout_warps(q->l), "warp"));
    barrier(e);
    line(e, "if (lane == 0) {");
    e->indent++;
    for (int g = 0; g < r->runs; g++) {
        Position to = combined_entry(e, q, room, str(e, "%s + %d", first, r->place[g])),
                 from = combined_entry(e, q, s->strip, str(e, "%d", g));
        combined_assign(e, q, "", &to, &from);
    }
    end_block(e);
    barrier(e);
    combined_arrays(e, q, "cell", cells, cell);
    for (int k = 0; k < cells; k++) {
        const char *at = str(e, "lane * %d + %d", cells, k);
        if (cells * wave > r->count) at = str(e, "%s < %d ? %s : 0", at, r->count, at);
        Position to = combined_entry(e, q, cell, str(e, "%d", k)), from = combined_entry(e, q, room, at);
        combined_assign(e, q, "", &to, &from);
    }
    scan_strips(e, s, cell, cells, inside);
    for (int g = 0; g < r->runs; g++) {
        const char *at = tmp(e, "at"), *all[IR_MAX_COMBINED];
        line(e, "const int %s = %s + %d;", at, first, r->place[g] + (s->back ? 1 : -1));
        combined_arrays(e, q, "all", 1, all);
        Position to = combined_entry(e, q, all, "0");
        for (int k = 0; k < cells; k++) {
            Position own = combined_entry(e, q, cell, str(e, "%d", k)),
                     y = combined_shuffled(e, q, "shuffle_from", &own, str(e, "%s / %d", at, cells));
            combined_assign(e, q, k ? str(e, "%s %% %d == %d", at, cells, k) : "", &to, &y);
        }
        put_before(e, s, g, &to, s->back ? str(e, "%s < %d", at, inside) : str(e, "%s >= 0", at));
    }
}

/* Scans each run of a strip behind what is before it. Longer runs are scanned already, and what is before
 * them is combined with each position: to hold their elements for a second scan takes more registers. */
static void scan_behind(Emit *e, const Scan *s)
{
    const Combined *q = &s->q;
    const bool strips = s->w.strips != NULL;
    if (s->alone) return;
    begin_unrolled(e, strips ? "g" : "i", strips ? s->w.groups : s->w.per * s->w.groups);
    const char *run = strips ? "g" : str(e, "i / %d", s->w.per);
    Position before = combined_entry(e, q, s->before, run),
             own = strips ? of_run(e, s, first_of_run(e, s)) : combined_entry(e, q, q->part, "i"),
             r = combined_apply(e, q, &before, &own);
    combined_assign(e, q, str(e, "%s[%s]", s->has, run), &own, &r);
    if (strips) scan_positions(e, s);
    end_block(e);
}

void emit_combined_scan(Emit *e, const Combined *q)
{
    Scan s = { .q = *q, .back = ir_attr_int(q->i, ATTR_REVERSE, 0) };
    int parts;
    s.mask = s.back && q->l->cover[q->axis] != q->l->tile[q->axis];
    scan_runs(e, q->i, q->l, q->axis, &s.w);
    s.start = arena_array(&e->s->arena, int32_t, (size_t)s.w.groups);
    for (int g = 0; g < s.w.groups && s.w.strips; g++)
        s.start[g] = s.w.strips->place[g] * s.w.per * s.w.lanes;
    if (!s.w.strips) warp_rank(e, q->l, q->axis, &parts);
    s.alone = s.w.lanes == 1 && !s.w.strips && parts == 1;
    take_runs(e, &s);
    if (!s.w.strips) {
        begin_unrolled(e, "g", s.w.groups);
        scan_positions(e, &s);
        end_block(e);
    }
    if (!s.alone) {
        scan_lanes(e, &s);
        if (s.w.strips) take_strips(e, &s);
        if (!s.w.strips) scan_warps(e, &s);
        else if (s.w.strips->before) join_strips(e, &s);
        else join_strips_of_warps(e, &s);
        if (s.w.strips) take_runs_again(e, &s);
    }
    scan_behind(e, &s);
    for (int k = 0; k < q->n; k++) pack_registers(e, &q->i->results[k], s.q.part[k], combined_type_of(q, k));
}
