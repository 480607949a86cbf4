/* sim_plot.c: the results of `tilec sim` as a picture: hit rates as bars, and for each placement a map of the
 * grid that is coloured by chiplet. A map is a slice of the grid. The slice is chosen so that it shows all
 * chiplets, for all placements at once if one slice does. */
#include "tools/tilec/explain/explain_pictures.h"
#include "tools/tilec/sim/sim.h"

enum {
    BAR = 11,
    BARS = 400, /* width of 100% */
    LABELS = 230,
    MAP = 240,     /* the longer side of a map */
    PANEL_W = 312, /* with its axes */
    PANEL_H = 336,
    COLUMNS = 3,
    MOST_CELLS = 96, /* along an axis; of more programs some are drawn */
    TRIED = 16,      /* positions of the third axis */
    WIDER = 4,       /* steps between programs that are drawn */
    NO_CHIPLET = 255,
    CHIPLETS = 256,
    LEGEND = 64,
    LEAST = 76 /* the shorter side of a map */
};

/* Two axes of the grid at one position of the third one. A grid of one axis is wrapped into columns. */
typedef struct Slice {
    int down, right, fixed;
    int64_t at;                             /* of the axis `fixed` */
    int64_t rows, columns;                  /* programs */
    int64_t step_i, step_j;                 /* of which every so many-th is drawn */
    int64_t stride_i, stride_j, first, end; /* in program ids */
    bool wrapped;
} Slice;

static int64_t shown(int64_t n, int64_t step) { return (n + step - 1) / step; }

/* The program of a cell, -1: none. */
static int64_t program_at(const Slice *s, int64_t i, int64_t j)
{
    int64_t p = s->first + i * s->step_i * s->stride_i + j * s->step_j * s->stride_j;
    return p < s->end ? p : -1;
}

/* How many chiplets the slice shows. */
static int chiplets_in(const Slice *s, const SimCase *c)
{
    bool seen[CHIPLETS] = { false };
    int n = 0;
    for (int64_t i = 0; i < shown(s->rows, s->step_i); i++)
        for (int64_t j = 0; j < shown(s->columns, s->step_j); j++) {
            int64_t p = program_at(s, i, j);
            int x = p < 0 ? NO_CHIPLET : c->chiplet_of[p];
            n += x != NO_CHIPLET && !seen[x];
            seen[x] = true;
        }
    return n;
}

static int chiplets_of(const SimCase *c, int64_t programs)
{
    bool seen[CHIPLETS] = { false };
    int n = 0;
    for (int64_t p = 0; p < programs; p++) {
        n += c->chiplet_of[p] != NO_CHIPLET && !seen[c->chiplet_of[p]];
        seen[c->chiplet_of[p]] = true;
    }
    return n;
}

static void set_steps(Slice *s, int64_t more)
{
    s->step_i = shown(s->rows, MOST_CELLS) + (s->rows > MOST_CELLS ? more : 0);
    s->step_j = shown(s->columns, MOST_CELLS) + (s->columns > MOST_CELLS ? more : 0);
    if (s->step_i < 1) s->step_i = 1;
    if (s->step_j < 1) s->step_j = 1;
}

static Slice wrapped_slice(int64_t programs, int axis)
{
    Slice s = { .down = axis, .wrapped = true, .rows = 1, .stride_i = 1, .end = programs };
    while (s.rows * s.rows < programs) s.rows++;
    s.stride_j = s.rows;
    s.columns = (programs + s.rows - 1) / s.rows;
    return s;
}

static Slice plane_slice(const int64_t *g, int fixed, int64_t at)
{
    const int64_t stride[3] = { 1, g[0], g[0] * g[1] };
    Slice s = { .down = fixed == 0, .right = fixed == 2 ? 1 : 2, .fixed = fixed, .at = at };
    s.rows = g[s.down];
    s.columns = g[s.right];
    s.stride_i = stride[s.down];
    s.stride_j = stride[s.right];
    s.first = at * stride[fixed];
    s.end = g[0] * g[1] * g[2];
    return s;
}

/* Whether the slice shows more of the placements' chiplets than the best one; then it is the best. */
static bool take_better(
    const SimCase *const *cases, int n, const int *all, const Slice *s, double *best, Slice *out)
{
    double least = 1;
    for (int k = 0; k < n && least > *best; k++) {
        double part = all[k] ? (double)chiplets_in(s, cases[k]) / all[k] : 1;
        if (part < least) least = part;
    }
    if (least <= *best) return false;
    *best = least;
    *out = *s;
    return true;
}

/* The first slice that shows all chiplets of these placements, else the one that shows most of them. Planes
 * of the first two axes are tried first, and only those with two axes of more than one program. */
static Slice choose(const SimReport *r, const SimCase *const *cases, int n, const int *all)
{
    const int64_t *g = sim_trace_grid(r->trace), programs = sim_trace_programs(r->trace);
    int axes = (g[0] > 1) + (g[1] > 1) + (g[2] > 1);
    double best = -1;
    Slice out = { 0 };
    for (int fixed = axes < 2 ? -1 : 2; best < 1 && fixed >= (axes < 2 ? -1 : 0); fixed--) {
        if (axes == 2 && g[fixed] > 1) continue;
        int64_t tried = fixed < 0 || g[fixed] < 1 ? 1 : g[fixed] < TRIED ? g[fixed] : TRIED;
        for (int64_t k = 0; k < tried && best < 1; k++) {
            Slice s = fixed < 0 ? wrapped_slice(programs, g[1] > 1   ? 1
                                                          : g[2] > 1 ? 2
                                                                     : 0)
                                : plane_slice(g, fixed, k * g[fixed] / tried);
            for (int64_t more = 0; more < WIDER && best < 1; more++) {
                set_steps(&s, more);
                take_better(cases, n, all, &s, &best, &out);
                if (s.rows <= MOST_CELLS && s.columns <= MOST_CELLS) break;
            }
        }
    }
    return out;
}

/* --- drawing ----------------------------------------------------------------------------------------- */

static const char *colour(Arena *a, int chiplet)
{ return chiplet == NO_CHIPLET ? "#dddddd" : draw_colour(a, chiplet); }

static const char *case_text(Arena *a, const SimCase *c)
{ return c->refused ? arena_printf(a, "[%s]", sim_label(a, c)) : sim_label(a, c); }

static void draw_bar(
    Text *t, double x, double y, const char *what, double rate, double error, const char *fill)
{
    double end = x + rate * BARS;
    draw_rect(t, x, y, rate * BARS, BAR - 1, (DrawStyle){ .fill = fill }, NULL);
    if (error > 0)
        draw_line(t, end - error * BARS, y + BAR / 2, end + error * BARS, y + BAR / 2,
            (DrawStyle){ .stroke = "black" });
    draw_text(t, end + error * BARS + 4, y + BAR - 2, (DrawFont){ .size = 9 },
        arena_printf(t->arena, "%s %.1f%%", what, 100 * rate));
}

/* The rates from 0 to 100%; returns the height. */
static double draw_rates(const SimReport *r, double top, Text *t)
{
    const double x = 20 + LABELS, row = 2 * BAR + 8, height = r->n * row;
    for (int k = 0; k <= 100; k += 25) {
        draw_line(t, x + k * BARS / 100.0, top, x + k * BARS / 100.0, top + height + 4,
            (DrawStyle){ .stroke = "#cccccc" });
        draw_text(t, x + k * BARS / 100.0, top + height + 16, (DrawFont){ .size = 11, .anchor = DRAW_MIDDLE },
            arena_printf(t->arena, "%d%%", k));
    }
    draw_text(t, x + BARS / 2.0, top + height + 32, (DrawFont){ .anchor = DRAW_MIDDLE }, "hits");
    for (int k = 0; k < r->n; k++) {
        const SimResult *s = &r->cases[k].result;
        double y = top + 4 + k * row;
        draw_text_fit(t, 20, y + BAR + 4, LABELS - 10, (DrawFont){ 0 }, case_text(t->arena, &r->cases[k]));
        draw_bar(t, x, y, "L2", sim_rate(s->l2), s->l2_error, draw_colour(t->arena, 0));
        if (r->device->llc_bytes)
            draw_bar(t, x, y + BAR, "last level", sim_rate(s->llc), s->llc_error, "#aabbcc");
    }
    return height + 40;
}

/* "axis 2 at 5, every 3rd of axis 0; 7 of 8 chiplets". */
static const char *slice_text(Arena *a, const SimReport *r, const Slice *s, int in, int all)
{
    Text t;
    text_init(&t, a);
    if (!s->wrapped && sim_trace_grid(r->trace)[s->fixed] > 1)
        text_printf(&t, "axis %d at %lld", s->fixed, (long long)s->at);
    if (s->wrapped) text_printf(&t, "axis %d in columns of %lld", s->down, (long long)s->rows);
    if (s->step_i > 1)
        text_printf(&t, "%s1 in %lld %s", t.len ? ", " : "", (long long)s->step_i, "downwards");
    if (s->step_j > 1)
        text_printf(&t, "%s1 in %lld %s", t.len ? ", " : "", (long long)s->step_j, "to the right");
    if (in < all) text_printf(&t, "%s%d of %d chiplets", t.len ? "; " : "", in, all);
    return t.len ? t.data : NULL;
}

static void draw_cells(const Slice *s, const SimCase *c, double x, double y, double w, double h, Text *t)
{
    int64_t rows = shown(s->rows, s->step_i), columns = shown(s->columns, s->step_j);
    draw_group(t, " shape-rendering=\"crispEdges\"");
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0, run; j < columns; j += run) {
            int64_t p = program_at(s, i, j), q;
            run = 1;
            if (p < 0) continue;
            while (j + run < columns && (q = program_at(s, i, j + run)) >= 0 &&
                   c->chiplet_of[q] == c->chiplet_of[p])
                run++;
            draw_rect(t, x + (double)j * w, y + (double)i * h, (double)run * w, h,
                (DrawStyle){ .fill = colour(t->arena, c->chiplet_of[p]) }, NULL);
        }
    draw_group_end(t);
}

static void draw_panel(
    const SimReport *r, const SimCase *c, const Slice *s, int all, double left, double top, Text *t)
{
    Arena *a = t->arena;
    int64_t rows = shown(s->rows, s->step_i), columns = shown(s->columns, s->step_j),
            most = rows > columns ? rows : columns;
    double cell = most ? (double)MAP / (double)most : MAP, x = left + 46, y = top + 40;
    /* A few cells are stretched, so that the texts at the axes have room. */
    double w = columns && columns * cell < LEAST ? (double)LEAST / (double)columns : cell,
           h = rows && rows * cell < LEAST ? (double)LEAST / (double)rows : cell;
    const char *note = slice_text(a, r, s, chiplets_in(s, c), all);
    draw_text_fit(t, left + 8, top + 14, PANEL_W - 16, (DrawFont){ 0 }, case_text(a, c));
    if (note)
        draw_text_fit(t, left + 8, top + 30, PANEL_W - 16, (DrawFont){ .size = 10, .fill = "#555555" }, note);
    draw_cells(s, c, x, y, w, h, t);
    picture_axes(t, x, y, w * (double)columns, h * (double)rows,
        s->wrapped ? "in the column" : arena_printf(a, "axis %d", s->down),
        s->wrapped ? "columns" : arena_printf(a, "axis %d", s->right), s->rows, s->columns);
}

/* The chiplets that are there, and where no program ran. */
static double draw_keys(const SimReport *r, double y, double room, Text *t)
{
    DrawKey keys[LEGEND + 1];
    int n = 0;
    bool dropped = false;
    for (int k = 0; k < r->n; k++) dropped |= r->cases[k].refused != NULL;
    for (int64_t x = 0; x < r->device->chiplets && x < LEGEND; x++)
        keys[n++] = (DrawKey){ arena_printf(t->arena, "chiplet %lld", (long long)x),
            { .fill = colour(t->arena, (int)x) } };
    if (dropped) keys[n++] = (DrawKey){ "no program", { .fill = colour(t->arena, NO_CHIPLET) } };
    return draw_legend(t, 20, y, room, keys, n);
}

/* One slice for all placements, or each its own, if none shows all chiplets of all. */
static void choose_slices(const SimReport *r, int *all, Slice *slices, Arena *a)
{
    const SimCase **cases = arena_array(a, const SimCase *, (size_t)r->n + 1);
    for (int k = 0; k < r->n; k++) {
        cases[k] = &r->cases[k];
        all[k] = chiplets_of(cases[k], sim_trace_programs(r->trace));
    }
    Slice common = choose(r, cases, r->n, all);
    for (int k = 0; k < r->n; k++) {
        bool shows = chiplets_in(&common, cases[k]) == all[k];
        slices[k] = shows ? common : choose(r, &cases[k], 1, &all[k]);
    }
}

void sim_svg(const SimReport *r, Text *t)
{
    Arena *a = t->arena;
    int *all = arena_array(a, int, (size_t)r->n + 1), maps = (r->n + COLUMNS - 1) / COLUMNS;
    Slice *slices = arena_array(a, Slice, (size_t)r->n + 1);
    choose_slices(r, all, slices, a);
    const char *title = arena_printf(a, "%s on %s: hits in L2%s", r->title, r->device->name,
                   r->device->llc_bytes ? " and in the last-level cache" : ""),
               *second = "Which chiplet ran which program of the grid";
    double width = picture_width(COLUMNS * PANEL_W + 40, title, second), room = width - 40;
    Text nothing;
    text_sink(&nothing, a);
    double bars = draw_rates(r, 0, &nothing), keys = draw_keys(r, 0, room, &nothing), top = 44 + bars + 30;
    draw_begin(t, width, top + keys + 10 + maps * PANEL_H);
    draw_text(t, 20, 24, (DrawFont){ .size = 14 }, title);
    draw_rates(r, 40, t);
    draw_text(t, 20, top - 12, (DrawFont){ .size = 14 }, second);
    draw_keys(r, top, room, t);
    for (int k = 0; k < r->n; k++)
        draw_panel(r, &r->cases[k], &slices[k], all[k], 20 + k % COLUMNS * PANEL_W,
            top + keys + 10 + k / COLUMNS * PANEL_H, t);
    draw_end(t);
}
