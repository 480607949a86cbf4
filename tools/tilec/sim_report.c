/* sim_report.c: the results of `tilec sim` as a table, as JSON and as a picture. */
#include "tools/tilec/json.h"
#include "tools/tilec/sim.h"

static const char *bytes_of(Arena *a, double b)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    int u = 0;
    while (b >= 999.5 && u < 4) {
        b /= 1000;
        u++;
    }
    return arena_printf(a, "%.*f %s", u && b < 99.95 ? 2 : 0, b, units[u]);
}

static const char *label(Arena *a, const SimCase *c)
{ return strcmp(c->name, c->placed) ? arena_printf(a, "%s = %s", c->name, c->placed) : c->name; }

const SimCase *sim_reference(const SimReport *r)
{
    for (int k = 0; k < r->n; k++)
        if (!strcmp(r->cases[k].name, "none")) return &r->cases[k];
    for (int k = 0; k < r->n; k++)
        if (!r->cases[k].refused) return &r->cases[k];
    return NULL;
}

/* The speed relative to `none`, with everything overlapped and with nothing overlapped. */
static double ratio(double none, double mine) { return mine > 0 ? none / mine : 1; }

/* --- table ------------------------------------------------------------------------------------------- */

static void print_assumptions(const SimReport *r, Text *t)
{
    unsigned g = sim_trace_assumptions(r->trace);
    if (g & SIM_ASSUMED_ADDRESS)
        text_puts(t, "Some addresses depend on data: they are spread evenly over the tensor.\n");
    if (g & SIM_ASSUMED_MASK) text_puts(t, "Some masks depend on data: all their elements count as set.\n");
    if (g & SIM_ASSUMED_CONDITION)
        text_puts(t, "Some conditions depend on data: the way with more accesses is taken.\n");
    if (g & SIM_ASSUMED_TRIP_COUNT)
        text_printf(t, "Some trip counts depend on data: they count as %d.\n", SIM_ASSUMED_TRIPS);
}

enum { MOST_NAME = 64 };

/* A rate with its error, in brackets where a placement drops tiles. */
static const char *rate_text(Arena *a, const SimCase *c, SimLevel l, double error)
{
    const char *text = arena_printf(a, "%.1f%% +- %4.2f%%", 100 * sim_rate(l), 100 * error);
    return c->refused ? arena_printf(a, "[%s]", text) : text;
}

static void print_case(const SimReport *r, const SimCase *c, int width, Text *t)
{
    Arena *a = t->arena;
    const SimResult *x = &c->result;
    const SimCase *than = sim_reference(r);
    const char *l1 = arena_printf(a, c->refused ? "[%.1f%%]" : "%.1f%%", 100 * sim_rate(x->l1));
    text_printf(t, "%-*s %7s %16s ", width, label(a, c), l1, rate_text(a, c, x->l2, x->l2_error));
    text_printf(t, "%16s", r->device->llc_bytes ? rate_text(a, c, x->llc, x->llc_error) : "-");
    if (c->refused) {
        double tiles = (double)sim_trace_programs(r->trace);
        text_printf(t, "   refused: %s; %lld of %.0f tiles run (%.1f%%)\n", c->refused, (long long)c->tiles,
            tiles, 100 * (double)c->tiles / tiles);
        return;
    }
    text_printf(t, " %12s %12s  %10.4f .. %8.4f %4.2f .. %4.2f  %+6.1f pp %+9.4f ms  %s\n",
        bytes_of(a, x->read_bytes), bytes_of(a, x->write_bytes), x->seconds * 1e3, x->apart * 1e3,
        ratio(than->result.seconds, x->seconds), ratio(than->result.apart, x->apart),
        100 * (sim_rate(x->l2) - sim_rate(than->result.l2)), (x->apart - than->result.apart) * 1e3, x->bound);
}

static void print_moved(const SimReport *r, Text *t)
{
    const SimMoved *m = &r->moved;
    if (m->why_not) {
        text_printf(t, "Sectors and banks are not counted: %s.\n", m->why_not);
        return;
    }
    Arena *a = t->arena;
    text_printf(t, "Of tensors, accesses ask for %s and move %s in sectors of %d bytes",
        bytes_of(a, m->asked), bytes_of(a, m->sectors), m->sector);
    if (m->banks > 0)
        text_printf(t, "; of shared memory they ask for %s, and its banks are busy for %s",
            bytes_of(a, m->shared), bytes_of(a, m->banks));
    text_puts(t, ".\n");
}

void sim_print(const SimReport *r, Text *t)
{
    const SimDevice *d = r->device;
    const int64_t *g = sim_trace_grid(r->trace);
    text_printf(t, "%s on %s: %lld chiplet%s of %lld compute units, %lld KiB of L2 each", r->title, d->name,
        (long long)d->chiplets, d->chiplets > 1 ? "s" : "", (long long)d->units,
        (long long)d->l2_bytes / 1024);
    if (d->llc_bytes) text_printf(t, ", %lld MiB of last-level cache", (long long)d->llc_bytes >> 20);
    text_printf(t, "\n%lld programs (%lld x %lld x %lld), %lld a compute unit at a time; tensors of %s",
        (long long)sim_trace_programs(r->trace), (long long)g[0], (long long)g[1], (long long)g[2],
        (long long)r->per_unit, bytes_of(t->arena, (double)sim_trace_bytes(r->trace)));
    if (r->n && r->cases[0].result.sample > 1)
        text_printf(t, "; one block of lines in %lld followed", (long long)r->cases[0].result.sample);
    int width = 26;
    for (int k = 0; k < r->n; k++) {
        int n = (int)strlen(label(t->arena, &r->cases[k]));
        if (n > width) width = n > MOST_NAME ? MOST_NAME : n;
    }
    bool to_none = !sim_reference(r) || !strcmp(sim_reference(r)->name, "none");
    text_printf(t, "\n\n%-*s %7s %16s %16s %12s %12s  %22s %12s  %20s  %s\n", width, "remap", "L1 hit",
        "L2 hit", "last-level hit", "from memory", "to memory", "ms, best to worst",
        to_none ? "x none" : "x first", to_none ? "L2, ms to none" : "L2, ms to first", "at best by");
    for (int k = 0; k < r->n; k++) print_case(r, &r->cases[k], width, t);
    print_moved(r, t);
    print_assumptions(r, t);
}

/* --- JSON -------------------------------------------------------------------------------------------- */

static void json_level(Text *t, const char *name, SimLevel l, double error)
{
    text_printf(t, "\"%s\": {\"lines\": %.0f, \"hit_rate\": %.6f, \"error\": %.6f}, ", name, l.accesses,
        sim_rate(l), error);
}

static void json_refused(const SimReport *r, const SimCase *c, Text *t)
{
    text_puts(t, "\"refused\": {\"why\": ");
    json_string(t, c->refused);
    text_printf(t, ", \"programs\": [%lld", (long long)c->clash.a);
    if (c->verdict == EVAL_COLLISION) text_printf(t, ", %lld", (long long)c->clash.b);
    text_printf(t, "], \"become\": %lld, \"tiles_run\": %lld, \"tiles\": %lld}, ", (long long)c->clash.to,
        (long long)c->tiles, (long long)sim_trace_programs(r->trace));
}

static void json_moved(const SimMoved *m, Text *t)
{
    text_printf(t,
        "\"sector_bytes\": %d, \"asked_bytes\": %.0f, \"moved_bytes\": %.0f, \"shared_bytes\": %.0f, "
        "\"bank_bytes\": %.0f,\n ",
        m->sector, m->asked, m->sectors, m->shared, m->banks);
}

void sim_json(const SimReport *r, Text *t)
{
    const int64_t *g = sim_trace_grid(r->trace);
    unsigned assumptions = sim_trace_assumptions(r->trace);
    text_puts(t, "{\"kernel\": ");
    json_string(t, r->title);
    text_puts(t, ", \"device\": ");
    json_string(t, r->device->name);
    text_printf(t,
        ", \"grid\": [%lld, %lld, %lld], \"per_unit\": %lld, \"line_bytes\": %lld, \"tensor_bytes\": %lld,\n "
        "\"guessed\": {\"addresses\": %s, \"masks\": %s, \"conditions\": %s, \"trip_counts\": %s},\n ",
        (long long)g[0], (long long)g[1], (long long)g[2], (long long)r->per_unit, (long long)r->device->line,
        (long long)sim_trace_bytes(r->trace), assumptions & SIM_ASSUMED_ADDRESS ? "true" : "false",
        assumptions & SIM_ASSUMED_MASK ? "true" : "false",
        assumptions & SIM_ASSUMED_CONDITION ? "true" : "false",
        assumptions & SIM_ASSUMED_TRIP_COUNT ? "true" : "false");
    if (!r->moved.why_not) json_moved(&r->moved, t);
    text_puts(t, "\"remaps\": [");
    for (int k = 0; k < r->n; k++) {
        const SimResult *x = &r->cases[k].result;
        text_puts(t, k ? ",\n  {\"name\": " : "\n  {\"name\": ");
        json_string(t, r->cases[k].name);
        text_puts(t, ", \"placed\": ");
        json_string(t, r->cases[k].placed);
        text_printf(
            t, ", \"programs\": %lld, \"sample\": %lld, ", (long long)x->programs, (long long)x->sample);
        if (r->cases[k].refused) json_refused(r, &r->cases[k], t);
        json_level(t, "l1", x->l1, 0);
        json_level(t, "l2", x->l2, x->l2_error);
        json_level(t, "last_level", x->llc, x->llc_error);
        text_printf(t,
            "\"read_bytes\": %.0f, \"written_bytes\": %.0f, \"flops\": %.0f, \"seconds_overlapped\": %.9g, "
            "\"seconds_apart\": %.9g, \"bound\": \"%s\"}",
            x->read_bytes, x->write_bytes, x->flops_8 + x->flops_16 + x->flops_32, x->seconds, x->apart,
            x->bound);
    }
    text_puts(t, "\n ]}\n");
}

/* --- picture ----------------------------------------------------------------------------------------- */

enum { BAR = 22, BARS_W = 560, MAP = 288, MAX_CELLS = 96, COLUMNS = 3, BAR_LETTERS = 26, MAP_LETTERS = 38 };

/* Hues a golden angle apart: neighbours differ, any number of chiplets has colours. */
static void colour(Text *t, int chiplet)
{
    if (chiplet == 255) text_puts(t, "#dddddd");
    else text_printf(t, "hsl(%d,%d%%,%d%%)", chiplet * 137 % 360, 65, 45 + 12 * (chiplet % 3));
}

static void xml_text(Text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '<') text_puts(t, "&lt;");
        else if (*s == '&') text_puts(t, "&amp;");
        else text_putc(t, *s);
    }
}

/* A label of at most so many letters; a formula may be longer. */
static void svg_label(Text *t, const SimCase *c, int most)
{
    const char *text = label(t->arena, c);
    int n = (int)strlen(text);
    if (c->refused) text = arena_printf(t->arena, "[%s]", text);
    xml_text(t, n > most ? arena_printf(t->arena, "%.*s..", most - 2, text) : text);
}

static void svg_bar(Text *t, int y, const char *what, double rate, double error, const char *fill)
{
    text_printf(t, "<rect x=\"200\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>", y, rate * 300,
        BAR / 2 - 1, fill);
    if (error > 0)
        text_printf(t, "<path d=\"M%.1f %dH%.1f\" stroke=\"black\"/>", 200 + 300 * (rate - error),
            y + BAR / 4, 200 + 300 * (rate + error));
    text_printf(t, "<text x=\"%.1f\" y=\"%d\" font-size=\"9\">%s %.1f%%</text>\n", 204 + 300 * rate,
        y + BAR / 2 - 2, what, 100 * rate);
}

/* The plane of the first two grid axes at 0 of the third; a grid of one axis is wrapped into rows. */
static void svg_map(const SimReport *r, const SimCase *c, int x0, int y0, Text *t)
{
    const int64_t *g = sim_trace_grid(r->trace);
    int64_t rows = g[0], columns = g[1], n = g[0] * g[1];
    if (columns == 1) {
        for (rows = 1; rows * rows < n;) rows++;
        columns = rows ? (n + rows - 1) / rows : 0;
    }
    int64_t step_i = rows / MAX_CELLS + 1, step_j = columns / MAX_CELLS + 1,
            shown_i = (rows + step_i - 1) / step_i, shown_j = (columns + step_j - 1) / step_j;
    int64_t most = shown_i > shown_j ? shown_i : shown_j;
    double cell = most ? (double)(MAP - 32) / (double)most : 1;
    text_printf(t, "<text x=\"%d\" y=\"%d\">", x0, y0 - 6);
    svg_label(t, c, MAP_LETTERS);
    text_printf(t, "</text><g shape-rendering=\"crispEdges\">");
    for (int64_t i = 0; i < shown_i; i++)
        for (int64_t j = 0, run; j < shown_j; j += run) {
            int64_t at = i * step_i + j * step_j * rows;
            run = 1;
            if (at >= n) continue;
            while (j + run < shown_j && i * step_i + (j + run) * step_j * rows < n &&
                   c->chiplet_of[i * step_i + (j + run) * step_j * rows] == c->chiplet_of[at])
                run++;
            text_printf(t, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"",
                x0 + (double)j * cell, y0 + (double)i * cell, (double)run * cell, cell);
            colour(t, c->chiplet_of[at]);
            text_puts(t, "\"/>");
        }
    text_puts(t, "</g>\n");
}

void sim_svg(const SimReport *r, Text *t)
{
    const int64_t *g = sim_trace_grid(r->trace);
    int bars = 60 + r->n * (BAR + 8), maps = (r->n + COLUMNS - 1) / COLUMNS, height = bars + 60 + maps * MAP,
        width = COLUMNS * MAP + 40;
    text_printf(t,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
        width, height);
    text_puts(t, "<text x=\"20\" y=\"24\" font-size=\"14\">");
    xml_text(t, r->title);
    text_printf(t, " on %s: hits in L2%s</text>\n", r->device->name,
        r->device->llc_bytes ? " and in the last-level cache" : "");
    for (int k = 0; k < r->n; k++) {
        const SimResult *x = &r->cases[k].result;
        int y = 44 + k * (BAR + 8);
        text_printf(t, "<text x=\"20\" y=\"%d\">", y + 14);
        svg_label(t, &r->cases[k], BAR_LETTERS);
        text_puts(t, "</text>");
        svg_bar(t, y, "L2", sim_rate(x->l2), x->l2_error, "#4477aa");
        if (r->device->llc_bytes)
            svg_bar(t, y + BAR / 2, "last level", sim_rate(x->llc), x->llc_error, "#aabbcc");
    }
    text_printf(t,
        "<text x=\"20\" y=\"%d\">Which chiplet ran which tile: grid axis 0 (%lld) downwards, axis 1 (%lld) "
        "to the right%s</text>",
        bars + 10, (long long)g[0], (long long)g[1],
        g[1] == 1  ? ", wrapped"
        : g[2] > 1 ? ", at 0 of axis 2"
                   : "");
    for (int64_t x = 0; x < r->device->chiplets && x < 32; x++) {
        text_printf(
            t, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"", (int)(20 + x * 26), bars + 18);
        colour(t, (int)x);
        text_printf(t, "\"/><text x=\"%d\" y=\"%d\" font-size=\"9\">%lld</text>", (int)(34 + x * 26),
            bars + 28, (long long)x);
    }
    text_putc(t, '\n');
    for (int k = 0; k < r->n; k++)
        svg_map(r, &r->cases[k], 20 + k % COLUMNS * MAP, bars + 60 + k / COLUMNS * MAP, t);
    text_puts(t, "</svg>\n");
}
