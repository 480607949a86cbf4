/* chart.c: line charts with axes; see draw.h. */
#include "tools/draw/draw.h"
#include <math.h>

enum { LEFT = 72, RIGHT = 24, MAX_TICKS = 64 };

/* --- axes -------------------------------------------------------------------------------------------- */

static double scaled(const DrawAxis *a, double v)
{ return a->scale == DRAW_LOG2 ? log2(v) : a->scale == DRAW_LOG10 ? log10(v) : v; }

static bool has_place(const DrawAxis *a, double v)
{ return isfinite(v) && (a->scale == DRAW_LINEAR || v > 0); }

/* From 0 to 1 within the range. */
static double place(const DrawAxis *a, double v)
{
    double lo = scaled(a, a->lo), hi = scaled(a, a->hi);
    return hi > lo ? (scaled(a, v) - lo) / (hi - lo) : 0.5;
}

double draw_plane_x(const DrawPlane *p, double v) { return p->left + p->width * place(&p->x, v); }
double draw_plane_y(const DrawPlane *p, double v) { return p->top + p->height * (1 - place(&p->y, v)); }

/* 1, 2 or 5 times a power of ten, at least `least`. */
static double round_step(double least)
{
    double power = pow(10, floor(log10(least)));
    double times = least / power;
    return power * (times <= 1.0001 ? 1 : times <= 2.0001 ? 2 : times <= 5.0001 ? 5 : 10);
}

/* The values with a tick; at most `most` of them have a number. */
static int ticks(const DrawAxis *a, int most, double out[MAX_TICKS])
{
    int n = 0;
    if (a->scale == DRAW_LINEAR) {
        double step = round_step((a->hi - a->lo) / most);
        for (double k = ceil(a->lo / step - 1e-9); k * step <= a->hi + step * 1e-9 && n < MAX_TICKS; k++)
            out[n++] = k * step;
        return n;
    }
    double lo = ceil(scaled(a, a->lo) - 1e-9), hi = floor(scaled(a, a->hi) + 1e-9);
    double step = ceil((hi - lo + 1) / most);
    if (step < 1) step = 1;
    for (double k = lo; k <= hi && n < MAX_TICKS; k += step)
        out[n++] = a->scale == DRAW_LOG2 ? exp2(k) : pow(10, k);
    return n;
}

void draw_plane(const DrawPlane *p, Text *t)
{
    static const DrawStyle grid = { .stroke = "#e4e4e4" }, frame = { .stroke = "#444444" };
    double at[MAX_TICKS], bottom = p->top + p->height;
    int most = (int)(p->width / 62), n = ticks(&p->x, most < 2 ? 2 : most, at);
    for (int i = 0; i < n; i++) {
        double x = draw_plane_x(p, at[i]);
        draw_line(t, x, p->top, x, bottom + 4, grid);
        draw_text(t, x, bottom + 17, (DrawFont){ .size = 11, .anchor = DRAW_MIDDLE },
            draw_number(t->arena, at[i], p->x.scale == DRAW_LOG2));
    }
    most = (int)(p->height / 32);
    n = ticks(&p->y, most < 2 ? 2 : most, at);
    for (int i = 0; i < n; i++) {
        double y = draw_plane_y(p, at[i]);
        draw_line(t, p->left - 4, y, p->left + p->width, y, grid);
        draw_text(t, p->left - 7, y + 4, (DrawFont){ .size = 11, .anchor = DRAW_END },
            draw_number(t->arena, at[i], p->y.scale == DRAW_LOG2));
    }
    draw_rect(t, p->left, p->top, p->width, p->height, frame, NULL);
    if (p->x.label)
        draw_text_fit(t, p->left + p->width / 2, bottom + 36, p->width, (DrawFont){ .anchor = DRAW_MIDDLE },
            p->x.label);
    if (p->y.label)
        draw_text_fit(t, p->left - 52, p->top + p->height / 2, p->height,
            (DrawFont){ .anchor = DRAW_MIDDLE, .turn = -90 }, p->y.label);
}

/* --- series ------------------------------------------------------------------------------------------ */

static bool drawn(const DrawPlane *p, const DrawSeries *s, int i)
{
    return has_place(&p->x, s->x[i]) && has_place(&p->y, s->y[i]) && place(&p->x, s->x[i]) > -1e-9 &&
           place(&p->x, s->x[i]) < 1 + 1e-9;
}

static double clipped(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }

static double y_of(const DrawPlane *p, double v)
{ return clipped(draw_plane_y(p, v), p->top, p->top + p->height); }

static void spread(const DrawPlane *p, const DrawSeries *s, int i, const char *colour, Text *t)
{
    if (!s->low || !s->high || !has_place(&p->y, s->low[i]) || !has_place(&p->y, s->high[i])) return;
    double x = draw_plane_x(p, s->x[i]), low = y_of(p, s->low[i]), high = y_of(p, s->high[i]);
    if (low - high < 1) return; /* hidden by the point */
    draw_line(t, x, low, x, high, (DrawStyle){ .stroke = colour });
    draw_line(t, x - 3, low, x + 3, low, (DrawStyle){ .stroke = colour });
    draw_line(t, x - 3, high, x + 3, high, (DrawStyle){ .stroke = colour });
}

static void points(const DrawPlane *p, const DrawSeries *s, int i, const char *colour, Text *t)
{
    double x = draw_plane_x(p, s->x[i]), y = y_of(p, s->y[i]);
    const char *tip = arena_printf(t->arena, "%s: %s, %s", s->name ? s->name : "",
        draw_number(t->arena, s->x[i], p->x.scale == DRAW_LOG2), draw_number(t->arena, s->y[i], false));
    spread(p, s, i, colour, t);
    draw_circle(t, x, y, 3, (DrawStyle){ .fill = colour }, tip);
    if (!s->labels || !s->labels[i]) return;
    double width = draw_text_width(s->labels[i], 10), right = p->left + p->width;
    bool before = x + 6 + width > right; /* the label lies to the left of its point */
    draw_text_fit(t, before ? x - 6 : x + 6, clipped(y - 5, p->top + 10, p->top + p->height - 2),
        before ? x - 6 - p->left : right - x - 6,
        (DrawFont){ .size = 10, .anchor = before ? DRAW_END : DRAW_START }, s->labels[i]);
}

void draw_series(const DrawPlane *p, const DrawSeries *s, const char *colour, Text *t)
{
    double *xy = arena_array(t->arena, double, 2 * (size_t)s->n + 2);
    DrawStyle line = { .stroke = colour, .width = 1.8, .dash = s->dash };
    for (int i = 0, n = 0; i <= s->n && s->mark != DRAW_POINTS; i++) {
        if (i < s->n && drawn(p, s, i)) {
            xy[2 * n] = draw_plane_x(p, s->x[i]);
            xy[2 * n++ + 1] = y_of(p, s->y[i]);
            continue;
        }
        if (n > 1) draw_lines(t, xy, n, false, line);
        n = 0;
    }
    for (int i = 0; i < s->n && s->mark != DRAW_LINE; i++)
        if (drawn(p, s, i)) points(p, s, i, colour, t);
}

/* --- charts ------------------------------------------------------------------------------------------ */

static void include(DrawAxis *a, double v)
{
    if (!has_place(a, v)) return;
    if (!(v >= a->lo)) a->lo = v; /* lo and hi begin as NaN */
    if (!(v <= a->hi)) a->hi = v;
}

/* The range of all points; a y axis that is linear begins at 0. */
static void find_range(const DrawChart *c, DrawAxis *a, bool is_y)
{
    if (a->lo != a->hi) return;
    a->lo = a->hi = (double)NAN;
    for (int k = 0; k < c->n; k++)
        for (int i = 0; i < c->series[k].n; i++) {
            const DrawSeries *s = &c->series[k];
            include(a, is_y ? s->y[i] : s->x[i]);
            if (is_y && s->low && s->high && isfinite(s->y[i])) {
                include(a, s->low[i]);
                include(a, s->high[i]);
            }
        }
    if (!(a->lo <= a->hi)) a->lo = a->hi = 1; /* no point */
    if (is_y && a->scale == DRAW_LINEAR) {
        if (a->lo > 0) a->lo = 0;
        a->hi += (a->hi - a->lo) * 0.06;
    } else if (is_y) {
        a->hi *= 1.2;
        a->lo /= 1.2;
    }
    if (a->lo < a->hi) return;
    a->hi = a->scale == DRAW_LINEAR ? a->hi + 1 : a->hi * 2;
    a->lo = a->scale == DRAW_LINEAR ? a->lo - !is_y : a->lo / 2;
}

void draw_chart(const DrawChart *c, Text *t)
{
    double width = c->width > 0 ? c->width : 760, height = c->height > 0 ? c->height : 440;
    DrawKey *keys = arena_array(t->arena, DrawKey, (size_t)c->n + 1);
    const char **colours = arena_array(t->arena, const char *, (size_t)c->n + 1);
    int n = 0;
    for (int k = 0; k < c->n; k++) {
        colours[k] = c->series[k].colour ? c->series[k].colour : draw_colour(t->arena, k);
        if (c->series[k].name) keys[n++] = (DrawKey){ c->series[k].name, { .fill = colours[k] } };
    }
    Text nothing;
    text_sink(&nothing, t->arena);
    double legend = draw_legend(&nothing, LEFT, 0, width - LEFT - RIGHT, keys, n), top = c->note ? 54 : 38;
    DrawPlane p = { c->x, c->y, LEFT, top, width - LEFT - RIGHT, height - top - 52 - legend };
    find_range(c, &p.x, false);
    find_range(c, &p.y, true);
    draw_begin(t, width, height);
    if (c->title) draw_text_fit(t, LEFT, 24, width - LEFT - 8, (DrawFont){ .size = 14 }, c->title);
    if (c->note)
        draw_text_fit(t, LEFT, 42, width - LEFT - 8, (DrawFont){ .size = 11, .fill = "#555555" }, c->note);
    draw_plane(&p, t);
    for (int k = 0; k < c->n; k++) draw_series(&p, &c->series[k], colours[k], t);
    draw_legend(t, LEFT, p.top + p.height + 48, width - LEFT - RIGHT, keys, n);
    draw_end(t);
}
