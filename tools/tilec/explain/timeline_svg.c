/* timeline_svg.c: draws a timeline (timeline.h). */
#include "tools/tilec/explain/timeline.h"
#include "tools/draw/draw.h"

enum { LEFT = 110, STEP = 62, ROW = 24, GAP = 30, TOP = 52 };

static const struct {
    const char *name, *fill;
} lanes[LANE_COUNT] = {
    { "copies", "#66ccee" },
    { "waits", "#cccccc" },
    { "matrix unit", "#ee8899" },
    { "arithmetic", "#ddcc77" },
    { "memory", "#88ccaa" },
};

/* The column at which step `n` begins: arithmetic is as wide as its number of operations, up to six times the
 * rest. Every step has one span. */
static double x_of(const Track *k, int n)
{
    double x = LEFT;
    for (size_t i = 0; i < k->spans.len && k->spans.data[i].begin < n; i++) {
        int ops = 1;
        for (const char *p = k->spans.data[i].text; k->spans.data[i].lane == LANE_MATH && *p; p++)
            ops += *p == ',';
        x += (double)(STEP * (ops < 2 ? 2 : ops > 12 ? 12 : ops)) / 2;
    }
    return x;
}

static void draw_span(const Track *k, const Span *s, double y, int part, Text *t)
{
    double x = x_of(k, s->begin), width = x_of(k, s->end > s->begin ? s->end : s->begin + 1) - x - 4;
    const char *tip = s->line ? arena_printf(t->arena, "%s (line %d)", s->text, s->line) : s->text;
    draw_rect(t, x, y + part * ROW, width, ROW - 4,
        (DrawStyle){ .fill = lanes[s->lane].fill,
            .stroke = s->open ? "black" : NULL,
            .dash = s->open ? "3 2" : NULL,
            .corner = 3 },
        tip);
    draw_text_fit(t, x + 4, y + part * ROW + ROW - 10, width - 8, (DrawFont){ .size = 10 },
        s->lane == LANE_MATH ? s->text : s->name);
}

/* Products that overlap lie in two rows. */
static int lane_rows(const Track *k, int lane)
{
    int n = 0, until = -1, rows = 0;
    for (size_t i = 0; i < k->spans.len; i++) {
        const Span *s = &k->spans.data[i];
        if ((int)s->lane != lane) continue;
        n++;
        if (s->begin < until) rows = 2;
        if (s->end > until) until = s->end;
    }
    return n ? rows ? rows : 1 : 0;
}

static const char *track_title(Arena *a, const Track *k)
{
    return k->line ? arena_printf(a, "%s: one iteration of the loop at line %d", k->title, k->line)
                   : arena_printf(a, "%s: the whole program", k->title);
}

/* Its height; draws where `t` is given. */
static double draw_track(const Track *k, double y, Text *t)
{
    double top = y + 24, begin = top;
    if (t) draw_text(t, 8, y + 14, (DrawFont){ .bold = true }, track_title(t->arena, k));
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        int rows = lane_rows(k, lane), n = 0;
        if (t && rows) {
            draw_text_fit(t, 8, top + 14, LEFT - 12, (DrawFont){ 0 }, lanes[lane].name);
            draw_line(t, 8, top + rows * ROW - 2, x_of(k, k->steps), top + rows * ROW - 2,
                (DrawStyle){ .stroke = "#dddddd" });
            for (size_t i = 0; i < k->spans.len; i++)
                if ((int)k->spans.data[i].lane == lane) draw_span(k, &k->spans.data[i], top, n++ % rows, t);
        }
        top += rows * ROW;
    }
    for (int s = 0; t && s < k->steps; s++) /* the axis: the steps' numbers */
        draw_text_fit(t, x_of(k, s), top + 11, x_of(k, s + 1) - x_of(k, s),
            (DrawFont){ .size = 10, .fill = "#555555" }, arena_printf(t->arena, "%d", s + 1));
    return top - begin + 24 + GAP;
}

static double larger(double a, double b) { return a > b ? a : b; }

void timeline_svg(const char *title, const Timeline *line, Text *t)
{
    static const char note[] =
        "steps in program order, not times; a dashed product is waited for in the next iteration";
    double width = larger(500, larger(draw_text_width(title, 14), draw_text_width(note, 11)) + 4);
    double height = TOP, y = TOP;
    DrawKey keys[LANE_COUNT];
    for (size_t k = 0; k < line->len; k++) {
        const Track *track = &line->data[k];
        width = larger(width,
            larger(x_of(track, track->steps), 1.1 * draw_text_width(track_title(t->arena, track), 12)));
        height += draw_track(track, 0, NULL);
    }
    draw_begin(t, width + 12, height + 24);
    draw_text(t, 8, 20, (DrawFont){ .size = 14 }, title);
    draw_text(t, 8, 38, (DrawFont){ .size = 11, .fill = "#555555" }, note);
    for (size_t k = 0; k < line->len; k++) y += draw_track(&line->data[k], y, t);
    for (int lane = 0; lane < LANE_COUNT; lane++)
        keys[lane] = (DrawKey){ lanes[lane].name, { .fill = lanes[lane].fill } };
    draw_legend(t, 8, height - 8, width - 8, keys, LANE_COUNT);
    draw_end(t);
}
