/* draw.h: the drawing library of the command: pictures as SVG, written into a Text.
 *
 * draw.c has the shapes and texts, chart.c the charts with axes. Coordinates are in pixels, x to the right
 * and y downwards. Texts are escaped here, and their widths are estimated from a table of a wide sans-serif
 * font, so that a text that fits by draw_text_width fits with every usual font. Nothing here depends on the
 * locale, and the same calls give the same bytes everywhere. */
#pragma once
#include "ir/support/arena.h"

typedef enum DrawAnchor { DRAW_START, DRAW_MIDDLE, DRAW_END } DrawAnchor;

/* How a shape looks. Absent (NULL, 0): no fill, no outline, a line of width 1, no dashes, square corners. */
typedef struct DrawStyle {
    const char *fill, *stroke; /* colours of SVG */
    double width;              /* of the outline */
    const char *dash;          /* "3 2": 3 pixels drawn, 2 left out */
    double corner;             /* radius of a rectangle's corners */
} DrawStyle;

/* How a text looks. Absent (0, NULL): 12 pixels high, black, beginning at x. */
typedef struct DrawFont {
    double size;
    DrawAnchor anchor;
    bool bold;
    const char *fill;
    int turn; /* degrees, clockwise around (x, y): -90 for the label of a y axis */
} DrawFont;

/* The picture's first and last line: a white page of that size. Every other call stands between them. */
void draw_begin(Text *, double width, double height);
void draw_end(Text *);
/* Shapes up to draw_group_end share what `attributes` says, which is text of SVG: " shape-rendering=..". */
void draw_group(Text *, const char *attributes);
void draw_group_end(Text *);

/* `tip` (or NULL) is shown while the pointer is on the shape. */
void draw_rect(Text *, double x, double y, double width, double height, DrawStyle, const char *tip);
void draw_circle(Text *, double x, double y, double radius, DrawStyle, const char *tip);
void draw_line(Text *, double x1, double y1, double x2, double y2, DrawStyle);
/* Lines through n points x0, y0, x1, y1, ..; `closed` joins the last to the first. */
void draw_lines(Text *, const double *xy, int n, bool closed, DrawStyle);

/* A text with its base line at y. */
void draw_text(Text *, double x, double y, DrawFont, const char *text);
/* The same in at most `room` pixels: a longer text is cut and ends in three points, and the whole of it is
 * the tip. Where not even one letter fits, nothing is drawn. */
void draw_text_fit(Text *, double x, double y, double room, DrawFont, const char *text);
/* At least the width of the text on the page. */
double draw_text_width(const char *text, double size);
/* Text between tags: <, >, & and quotation marks are escaped, and bytes that XML does not allow are
 * dropped. */
void draw_escape(Text *, const char *text);

/* A colour for the n-th of several things: eight that colour-blind readers can tell apart, then hues a golden
 * angle apart. Allocated in the arena. */
const char *draw_colour(Arena *, int n);
/* A number for a label, with at most 4 digits: "0.25", "128", "16k", "2M"; powers of two from 1024 are given
 * in units of 1024 ("16Ki") when `binary`. */
const char *draw_number(Arena *, double, bool binary);

/* One entry of a legend: a coloured box and a name. */
typedef struct DrawKey {
    const char *name;
    DrawStyle style;
} DrawKey;
/* Entries side by side from (x, y) downwards, wrapped at x + room; returns the height. `t` may be a sink. */
double draw_legend(Text *t, double x, double y, double room, const DrawKey *, int n);

/* --- charts ------------------------------------------------------------------------------------------ */

typedef enum DrawScale { DRAW_LINEAR, DRAW_LOG2, DRAW_LOG10 } DrawScale;

/* An axis. lo == hi: the range comes from the series. Logarithmic axes leave out values of 0 and less. */
typedef struct DrawAxis {
    const char *label;
    DrawScale scale;
    double lo, hi;
} DrawAxis;

typedef enum DrawMark { DRAW_LINE_AND_POINTS, DRAW_LINE, DRAW_POINTS } DrawMark;

/* One line of a chart: n points. low and high (or NULL) give each point a bar, its spread. A point whose x or
 * y is NaN is left out, and the line has a gap there. */
typedef struct DrawSeries {
    const char *name; /* in the legend; NULL: not there */
    const double *x, *y, *low, *high;
    int n;
    DrawMark mark;
    const char *colour;        /* NULL: draw_colour by number */
    const char *dash;          /* as in DrawStyle */
    const char *const *labels; /* a text beside each point, or NULL */
} DrawSeries;

typedef struct DrawChart {
    const char *title, *note; /* note: a second line in small letters, or NULL */
    DrawAxis x, y;
    const DrawSeries *series;
    int n;
    double width, height; /* of the picture; 0: 760 by 440 */
} DrawChart;

/* A whole picture: title, axes with ticks and labels, grid lines, series, and a legend below. */
void draw_chart(const DrawChart *, Text *);

/* The plane of a chart, for pictures that draw more than series into it. */
typedef struct DrawPlane {
    DrawAxis x, y;
    double left, top, width, height; /* of the plane, in pixels */
} DrawPlane;
double draw_plane_x(const DrawPlane *, double value);
double draw_plane_y(const DrawPlane *, double value);
/* Frame, grid lines, ticks, numbers and labels. Needs 64 pixels on the left and 44 below. */
void draw_plane(const DrawPlane *, Text *);
/* A series in it, clipped to the frame. */
void draw_series(const DrawPlane *, const DrawSeries *, const char *colour, Text *);
