/* emit_combined_scan.c: scans by a fn, which have the layout of kernel_row_layout: a run of positions a
 * thread.
 *
 * A long run is scanned in pieces that do not wait for each other, since each step of a fn may wait for the
 * step before it for as long as an exponential takes:
 *
 *     x0 x1 x2 x3 | x4 x5 x6 x7     -> both pieces in step; then x4 .. x7 with x3, and with what lanes before
 *                                      have, in one step */
#include "backends/gpu/axis/emit_combined.h"

/* A scan. `part` is the combination of a thread's registers. `before` is, for each run, the combination of
 * all positions before it, if `has` holds: a scan from the end has its padding in front. */
typedef struct Scan {
    Combined q;
    Runs w;
    bool back, padded;
    int pieces; /* of a thread's run */
    const char *before[IR_MAX_COMBINED], *total[IR_MAX_COMBINED], *has;
    const char *ahead[IR_MAX_COMBINED]; /* by piece: the combination of all pieces of the run ahead of it,
                                           which the first one has none of; one more: of all pieces */
} Scan;

static int pieces_of(const Scan *s)
{
    enum { LEAST = 8, MOST = 4 };
    int pieces = 1;
    if (s->w.groups > 1 || (s->back && s->padded)) return 1;
    while (pieces < MOST && s->w.per % (2 * pieces) == 0 && s->w.per / (2 * pieces) >= LEAST) pieces *= 2;
    return pieces;
}

/* Piece number k of the way through the run. */
static int piece(const Scan *s, int k) { return s->back ? s->pieces - 1 - k : k; }

/* What each piece has ahead of it in the run. */
static void join_pieces(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    const int length = s->w.per / s->pieces;
    if (s->pieces == 1) return;
    declare_parts(e, q, "ahead", s->pieces + 1, s->ahead);
    for (int k = 1; k <= s->pieces; k++) {
        const int from = piece(s, k - 1), at = k < s->pieces ? piece(s, k) : s->pieces;
        Position to = entry(e, q, s->ahead, str(e, "%d", at)),
                 known = entry(e, q, s->ahead, str(e, "%d", from)),
                 end = entry(e, q, q->part, str(e, "%d", from * length + (s->back ? 0 : length - 1)));
        if (k > 1) end = apply(e, q, &known, &end);
        assign(e, q, "", &to, &end);
    }
}

/* Combines what is ahead of each piece of the run with what is ahead of the run. */
static void lead_pieces(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    if (s->pieces == 1) return;
    Position before = entry(e, q, s->before, "0");
    for (int k = 1; k < s->pieces; k++) {
        Position to = entry(e, q, s->ahead, str(e, "%d", piece(s, k))), r = apply(e, q, &before, &to);
        assign(e, q, s->has, &to, &r);
    }
    Position first = entry(e, q, s->ahead, str(e, "%d", piece(s, 0)));
    assign(e, q, "", &first, &before);
}

/* The condition that the run which is `runs` runs further along the axis begins inside of the tile. */
static const char *run_inside(Emit *e, const Scan *s, int runs)
{
    return str(e, "%s + %d < %d", index_text(e, thread_coord(e, s->q.l, s->q.axis)), runs * s->w.per,
        s->q.l->tile[s->q.axis]);
}

static const char *both(Emit *e, const char *a, const char *b) { return *b ? str(e, "%s && %s", a, b) : a; }

static void scan_runs_of_threads(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    int n = s->w.per * s->w.groups;
    declare_parts(e, q, "run", n, q->part);
    begin_unrolled(e, "i", n);
    for (int k = 0; k < q->n; k++)
        line(e, "%s[i] = %s;", q->part[k], element(e, ir_operand(q->i, k), q->l, index_variable(e, "i")));
    end_block(e);
    s->pieces = pieces_of(s);
    const int length = s->w.per / s->pieces;
    if (s->w.per == 1) return;
    directive(e, "#pragma unroll");
    if (s->back) line(e, "for (int i = %d; i >= 0; i--) {", length - 2);
    else line(e, "for (int i = 1; i < %d; i++) {", length);
    e->indent++;
    begin_unrolled(e, "g", s->w.groups * s->pieces);
    Position to = entry(e, q, q->part, str(e, "g * %d + i", length)),
             from = entry(e, q, q->part, str(e, "g * %d + i %s 1", length, s->back ? "+" : "-"));
    Position r = apply(e, q, &from, &to);
    const char *place = index_text(e, thread_coord(e, q->l, q->axis));
    assign(e, q, s->back && s->padded ? str(e, "%s + i + 1 < %d", place, q->l->tile[q->axis]) : "", &to, &r);
    end_block(e);
    end_block(e);
    join_pieces(e, s);
}

/* total: the combination of a run and those of lower (back: higher) lanes; before: of those lanes alone. */
static void scan_lanes(Emit *e, Scan *s)
{
    Combined *q = &s->q;
    int all = s->w.lanes - 1;
    bool mask = s->back && s->padded;
    declare_parts(e, q, "before", s->w.groups, s->before);
    declare_parts(e, q, "total", s->w.groups, s->total);
    line(e, "const bool %s = %s;", s->has = tmp(e, "has"),
        s->w.lanes == 1
            ? "false"
            : both(e, str(e, "(lane & %d) != %d", all, s->back ? all : 0), mask ? run_inside(e, s, 1) : ""));
    begin_unrolled(e, "g", s->w.groups);
    Position total = entry(e, q, s->total, "g"), before = entry(e, q, s->before, "g"),
             run = entry(e, q, q->part, str(e, "g * %d + %d", s->w.per, s->back ? 0 : s->w.per - 1));
    if (s->pieces > 1) run = entry(e, q, s->ahead, str(e, "%d", s->pieces));
    assign(e, q, "", &total, &run);
    assign(e, q, "", &before, &run);
    for (int d = 1; d < s->w.lanes; d *= 2) {
        Position y = shuffled(e, q, "shuffle_from", &total, str(e, "lane %s %d", s->back ? "+" : "-", d)),
                 sum = apply(e, q, &y, &total);
        const char *there = s->back ? str(e, "(lane & %d) + %d < %d", all, d, s->w.lanes)
                                    : str(e, "(lane & %d) >= %d", all, d);
        assign(e, q, both(e, there, mask ? run_inside(e, s, d) : ""), &total, &sum);
    }
    if (s->w.lanes > 1)
        before = shuffled(e, q, "shuffle_from", &total, str(e, "lane %s 1", s->back ? "+" : "-"));
    Position to = entry(e, q, s->before, "g");
    if (s->w.lanes > 1) assign(e, q, "", &to, &before);
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
    shared_room(e, q, rows * parts, room);
    barrier(e);
    begin_unrolled(e, "g", s->w.groups);
    Position to = entry(e, q, room, str(e, "%s * %lld + %s", rank, (long long)rows, row)),
             from = entry(e, q, s->total, "g");
    assign(e, q, str(e, "(lane & %d) == %d", s->w.lanes - 1, s->back ? 0 : s->w.lanes - 1), &to, &from);
    end_block(e);
    barrier(e);
    const char *some = tmp(e, "some");
    line(e, "const bool %s = %s %s %d;", some, rank, s->back ? "<" : ">", s->back ? last : 0);
    begin_unrolled(e, "g", s->w.groups);
    line(e, "if (%s) {", some);
    e->indent++;
    declare_parts(e, q, "sum", 1, sum);
    to = entry(e, q, sum, "0");
    from = entry(e, q, room, str(e, "%lld + %s", (long long)rows * (s->back ? last : 0), row));
    assign(e, q, "", &to, &from);
    if (s->back) line(e, "for (int w = %d; w > %s; w--) {", last - 1, rank);
    else line(e, "for (int w = 1; w < %s; w++) {", rank);
    e->indent++;
    from = entry(e, q, room, str(e, "w * %lld + %s", (long long)rows, row));
    append(e, q, "", &to, &from);
    end_block(e);
    from = entry(e, q, s->before, "g");
    append(e, q, s->has, &to, &from);
    assign(e, q, "", &from, &to);
    end_block(e);
    end_block(e);
    s->has = str(e, "(%s || %s)", s->has, some);
}

void emit_combined_scan(Emit *e, const Combined *of)
{
    Scan scan = { .q = *of }, *s = &scan;
    Combined *q = &s->q;
    s->back = ir_attr_int(q->i, ATTR_REVERSE, 0);
    s->padded = q->l->cover[q->axis] != q->l->tile[q->axis];
    scan_runs(e, q->i, q->l, q->axis, &s->w);
    scan_runs_of_threads(e, s);
    scan_lanes(e, s);
    scan_warps(e, s);
    lead_pieces(e, s);
    const int length = s->w.per / s->pieces;
    begin_unrolled(e, "i", s->w.per * s->w.groups);
    Position before = entry(e, q, s->pieces > 1 ? s->ahead : s->before, str(e, "i / %d", length)),
             own = entry(e, q, q->part, "i"), r = apply(e, q, &before, &own);
    const char *has = s->has;
    if (s->pieces > 1) has = str(e, "i / %d != %d || %s", length, piece(s, 0), s->has);
    assign(e, q, has, &own, &r);
    end_block(e);
    for (int k = 0; k < q->n; k++) pack_registers(e, &q->i->results[k], q->part[k], type_of(q, k));
}
