/* draw.c: shapes, texts and legends; see draw.h. */
#include "tools/draw/draw.h"
#include <math.h>

/* --- the page ---------------------------------------------------------------------------------------- */

void draw_begin(Text *t, double width, double height)
{
    text_printf(t,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
        "fill=\"white\"/>\n",
        width, height, width, height);
}

void draw_end(Text *t) { text_puts(t, "</svg>\n"); }
void draw_group(Text *t, const char *attributes) { text_printf(t, "<g%s>\n", attributes); }
void draw_group_end(Text *t) { text_puts(t, "</g>\n"); }

void draw_escape(Text *t, const char *s)
{
    for (; *s; s++) switch (*s) {
        case '<': text_puts(t, "&lt;"); break;
        case '>': text_puts(t, "&gt;"); break;
        case '&': text_puts(t, "&amp;"); break;
        case '"': text_puts(t, "&quot;"); break;
        default:
            if ((unsigned char)*s >= 32 || *s == '\n' || *s == '\t') text_putc(t, *s);
        }
}

/* --- shapes ------------------------------------------------------------------------------------------ */

/* A coordinate with at most one digit after the point. */
static void number(Text *t, const char *before, double v)
{
    double tenth = nearbyint(v * 10) / 10;
    if (tenth == 0) tenth = 0; /* no sign */
    if (tenth == nearbyint(tenth)) text_printf(t, "%s%.0f", before, tenth);
    else text_printf(t, "%s%.1f", before, tenth);
}

static void attribute(Text *t, const char *name, double v)
{
    text_printf(t, " %s=\"", name);
    number(t, "", v);
    text_putc(t, '"');
}

static void style(Text *t, DrawStyle s)
{
    text_printf(t, " fill=\"%s\"", s.fill ? s.fill : "none");
    if (!s.stroke) return;
    text_printf(t, " stroke=\"%s\"", s.stroke);
    if (s.width > 0 && s.width != 1) attribute(t, "stroke-width", s.width);
    if (s.dash) text_printf(t, " stroke-dasharray=\"%s\"", s.dash);
}

static void end_shape(Text *t, const char *name, const char *tip)
{
    if (!tip) {
        text_puts(t, "/>\n");
        return;
    }
    text_puts(t, "><title>");
    draw_escape(t, tip);
    text_printf(t, "</title></%s>\n", name);
}

void draw_rect(Text *t, double x, double y, double width, double height, DrawStyle s, const char *tip)
{
    text_puts(t, "<rect");
    attribute(t, "x", x);
    attribute(t, "y", y);
    attribute(t, "width", width);
    attribute(t, "height", height);
    if (s.corner > 0) attribute(t, "rx", s.corner);
    style(t, s);
    end_shape(t, "rect", tip);
}

void draw_circle(Text *t, double x, double y, double radius, DrawStyle s, const char *tip)
{
    text_puts(t, "<circle");
    attribute(t, "cx", x);
    attribute(t, "cy", y);
    attribute(t, "r", radius);
    style(t, s);
    end_shape(t, "circle", tip);
}

void draw_line(Text *t, double x1, double y1, double x2, double y2, DrawStyle s)
{
    text_puts(t, "<line");
    attribute(t, "x1", x1);
    attribute(t, "y1", y1);
    attribute(t, "x2", x2);
    attribute(t, "y2", y2);
    style(t, s);
    end_shape(t, "line", NULL);
}

void draw_lines(Text *t, const double *xy, int n, bool closed, DrawStyle s)
{
    if (n < 1) return;
    text_puts(t, "<path d=\"");
    for (int i = 0; i < n; i++) {
        number(t, i ? "L" : "M", xy[2 * i]);
        number(t, " ", xy[2 * i + 1]);
    }
    text_puts(t, closed ? "Z\"" : "\"");
    style(t, s);
    end_shape(t, "path", NULL);
}

/* --- texts ------------------------------------------------------------------------------------------- */

/* The width of a character in thousandths of the size, in DejaVu Sans: of the usual fonts the widest. */
static int letter_width(unsigned char c)
{
    if ((c & 0xc0) == 0x80) return 0; /* the rest of a character of UTF-8 */
    if (c >= 0xe0) return 1050;
    if (c >= 0x80) return 700;
    if (strchr("iljI|'", c)) return 345;
    if (strchr(" .,:;!()[]ft/\\-", c)) return 400;
    if (strchr("mwMW%@", c)) return 1000;
    if (strchr("+=<>~#&", c)) return 840;
    if (c >= 'A' && c <= 'Z') return 770;
    return 640;
}

double draw_text_width(const char *s, double size)
{
    double w = 0;
    for (; *s; s++) w += letter_width((unsigned char)*s);
    return w * size / 1000;
}

static void text(Text *t, double x, double y, DrawFont f, const char *s, const char *tip)
{
    static const char *const anchor[] = { "", " text-anchor=\"middle\"", " text-anchor=\"end\"" };
    text_puts(t, "<text");
    attribute(t, "x", x);
    attribute(t, "y", y);
    text_puts(t, anchor[f.anchor]);
    if (f.size > 0 && f.size != 12) attribute(t, "font-size", f.size);
    if (f.bold) text_puts(t, " font-weight=\"bold\"");
    if (f.fill) text_printf(t, " fill=\"%s\"", f.fill);
    if (f.turn) {
        text_printf(t, " transform=\"rotate(%d", f.turn);
        number(t, " ", x);
        number(t, " ", y);
        text_puts(t, ")\"");
    }
    text_putc(t, '>');
    if (tip) {
        text_puts(t, "<title>");
        draw_escape(t, tip);
        text_puts(t, "</title>");
    }
    draw_escape(t, s);
    text_puts(t, "</text>\n");
}

void draw_text(Text *t, double x, double y, DrawFont f, const char *s) { text(t, x, y, f, s, NULL); }

/* Bold letters are a tenth wider. */
static double font_width(DrawFont f, const char *s)
{ return draw_text_width(s, f.size > 0 ? f.size : 12) * (f.bold ? 1.1 : 1); }

void draw_text_fit(Text *t, double x, double y, double room, DrawFont f, const char *s)
{
    if (font_width(f, s) <= room) {
        text(t, x, y, f, s, NULL);
        return;
    }
    size_t n = strlen(s);
    char *cut = arena_array(t->arena, char, n + 4);
    while (n) {
        n--;
        while (n && ((unsigned char)s[n] & 0xc0) == 0x80) n--; /* whole characters */
        memcpy(cut, s, n);
        memcpy(cut + n, "...", 4);
        if (n && font_width(f, cut) <= room) {
            text(t, x, y, f, cut, s);
            return;
        }
    }
}

/* --- colours, numbers, legends ----------------------------------------------------------------------- */

const char *draw_colour(Arena *a, int n)
{
    /* Okabe and Ito's palette, the yellow darkened for a white page. */
    static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
        "#7f7f7f", "#b8a800" };
    enum { N = sizeof colours / sizeof *colours };
    if (n >= 0 && n < N) return colours[n];
    return arena_printf(a, "hsl(%d,60%%,%d%%)", (int)((unsigned)n * 137u % 360u), 35 + 15 * (n % 3));
}

/* Up to four digits, without zeros at the end. */
static const char *digits(Arena *a, double v, const char *unit)
{
    double size = fabs(v);
    int places = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
    char *s = arena_printf(a, "%.*f", places, v);
    if (strchr(s, '.')) {
        size_t n = strlen(s);
        while (s[n - 1] == '0') s[--n] = 0;
        if (s[n - 1] == '.') s[--n] = 0;
    }
    return arena_printf(a, "%s%s", s, unit);
}

const char *draw_number(Arena *a, double v, bool binary)
{
    static const char *const decimal_units[] = { "", "k", "M", "G", "T", "P" };
    static const char *const binary_units[] = { "", "Ki", "Mi", "Gi", "Ti", "Pi" };
    double size = fabs(v), step = binary ? 1024 : 1000;
    int unit = 0;
    if (!isfinite(v)) return v != v ? "nan" : v < 0 ? "-inf" : "inf";
    if (size == 0) return "0";
    if (size < 0.001) return arena_printf(a, "%.3g", v);
    /* Below a multiple of 1024 the number itself is shorter than its quotient: 1536. */
    while (unit < 5 && size >= step && (!binary || fmod(size, 1024) == 0 || size >= 1e6)) {
        size /= step;
        v /= step;
        unit++;
    }
    return digits(a, v, (binary ? binary_units : decimal_units)[unit]);
}

double draw_legend(Text *t, double x, double y, double room, const DrawKey *keys, int n)
{
    enum { BOX = 12, ROW = 18 };
    double at = x, top = y;
    for (int i = 0; i < n; i++) {
        double width = BOX + 6 + draw_text_width(keys[i].name, 12);
        if (width > room) width = room;
        if (at > x && at + width > x + room) {
            at = x;
            y += ROW;
        }
        draw_rect(t, at, y, BOX, BOX, keys[i].style, NULL);
        draw_text_fit(t, at + BOX + 6, y + 10.5, room - BOX - 6, (DrawFont){ 0 }, keys[i].name);
        at += width + 16;
    }
    return n ? y + ROW - top : 0;
}
