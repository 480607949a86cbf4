/* bench_write.c: the results of a bench as text, CSV, JSON, Markdown and a plot. */
#include "tools/draw/draw.h"
#include "tools/tilec/bench/bench.h"
#include "tools/tilec/json.h"
#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static double tflops(const BenchRow *r)
{ return r->time.median > 0 ? r->work.flops * 1e-9 / r->time.median : 0; }
static double gbs(const BenchRow *r)
{ return r->time.median > 0 ? r->work.bytes * 1e-6 / r->time.median : 0; }

/* How many times as fast as the other; 0: there is no other. */
static double ratio(const BenchRow *r, const BenchRow *other)
{ return r->time.n && other && r->time.median > 0 ? other->time.median / r->time.median : 0; }

static double to_baseline(const Bench *b, const BenchRow *r) { return ratio(r, bench_baseline(b, r->size)); }
static double to_previous(const Bench *b, const BenchRow *r) { return ratio(r, bench_previous(b, r)); }

static const char *name_of(const Bench *b, const BenchRow *r) { return b->columns.data[r->column].name; }

/* "correct", "the same code as tiled", "wrong: ..", "failed: ..", or "". */
static const char *verdict(const Bench *b, const BenchRow *r)
{
    Arena *a = &b->tool->arena;
    const char *config = *r->config ? arena_printf(a, "; %s", r->config) : "";
    switch (r->state) {
    case BENCH_FAILED: return arena_printf(a, "failed: %s", r->reason);
    case BENCH_WRONG: return arena_printf(a, "wrong: %s", r->reason);
    case BENCH_SAME:
        return arena_printf(a, "the same code as %s%s%s%s", r->reason, config, *r->why ? ": " : "", r->why);
    case BENCH_ABSENT: return arena_printf(a, "left out: %s", r->reason);
    case BENCH_OK: break;
    }
    if (r->checked == BENCH_UNCHECKED) return *config ? config + 2 : *r->reason ? r->reason : "";
    return arena_printf(a, "%s%s", r->checked == BENCH_REFERENCE ? "reference" : "correct", config);
}

/* The cells of a row, for the text and for Markdown. Cells that no row of the table has are left out. */
typedef enum Cell {
    CELL_MEDIAN,
    CELL_LEAST,
    CELL_SPREAD,
    CELL_TFLOPS,
    CELL_GBS,
    CELL_PEAK,
    CELL_BASELINE,
    CELL_PREVIOUS,
    CELLS
} Cell;
static const char *const titles[CELLS] = { "median ms", "least ms", "spread", "TFLOPS", "GB/s", "of peak",
    "baseline", "previous" };

/* Rates have as many digits as this spread of the times leaves them, if the measured one is smaller. */
static const double LEAST_SPREAD = 0.02;

static const char *cell(const Bench *b, const BenchRow *r, Cell which)
{
    Arena *a = &b->tool->arena;
    double spread = measure_spread(&r->time), rate_spread = spread < LEAST_SPREAD ? LEAST_SPREAD : spread,
           to = 0;
    if (!r->time.n) return "-";
    switch (which) {
    case CELL_MEDIAN: return measure_text(a, r->time.median, spread);
    case CELL_LEAST: return measure_text(a, r->time.least, spread);
    case CELL_SPREAD: return arena_printf(a, "%.1f%%", 100 * spread);
    case CELL_TFLOPS: return r->work.flops > 0 ? measure_text(a, tflops(r), rate_spread) : "-";
    case CELL_GBS: return measure_text(a, gbs(r), rate_spread);
    case CELL_PEAK: return r->peak > 0 ? arena_printf(a, "%.0f%% %s", 100 * r->peak, r->bound) : "-";
    case CELL_BASELINE: to = to_baseline(b, r); break;
    case CELL_PREVIOUS: to = to_previous(b, r); break;
    case CELLS: break;
    }
    return to > 0 ? arena_printf(a, "%.2fx", to) : "-";
}

static bool shown(const Bench *b, Cell which)
{
    for (size_t i = 0; i < b->rows.len; i++) {
        const BenchRow *r = &b->rows.data[i];
        if (which == CELL_TFLOPS ? r->work.flops > 0 : which == CELL_PEAK ? r->peak > 0 : true)
            return which < CELL_BASELINE || b->columns.len > 1;
    }
    return false;
}

/* --- text -------------------------------------------------------------------------------------------- */

static int name_width(const Bench *b)
{
    int most = 4;
    for (size_t i = 0; i < b->columns.len; i++)
        if ((int)strlen(b->columns.data[i].name) > most) most = (int)strlen(b->columns.data[i].name);
    return most;
}

static void head(const Bench *b, Text *t)
{
    text_printf(t, "%s on %s, %s\n", b->kernel, b->device, b->target);
    if (b->noise) text_printf(t, "warning: %s\n", b->noise);
}

static bool size_has_rows(const Bench *b, size_t size)
{
    for (size_t i = 0; i < b->rows.len; i++)
        if (b->rows.data[i].size == size) return true;
    return false;
}

static void text_row(const Bench *b, const BenchRow *r, int width, Text *t)
{
    text_printf(t, "  %-*s", width, name_of(b, r));
    for (int k = 0; k < CELLS && r->time.n; k++)
        if (shown(b, k)) text_printf(t, "  %*s", k == CELL_PEAK ? 14 : 9, cell(b, r, k));
    const char *say = verdict(b, r);
    if (*say) text_printf(t, "  %s", say);
    text_putc(t, '\n');
}

void bench_text(const Bench *b, Text *t)
{
    int width = name_width(b);
    head(b, t);
    for (size_t size = 0; size < b->sweep.sizes.len; size++) {
        const char *title = sweep_title(&b->tool->arena, &b->sweep, size);
        if (!size_has_rows(b, size)) continue;
        text_printf(t, "%s%s  %-*s", title, *title ? ":\n" : "", width, b->ladder ? "step" : "");
        for (int k = 0; k < CELLS; k++)
            if (shown(b, k)) text_printf(t, "  %*s", k == CELL_PEAK ? 14 : 9, titles[k]);
        text_putc(t, '\n');
        for (size_t i = 0; i < b->rows.len; i++)
            if (b->rows.data[i].size == size) text_row(b, &b->rows.data[i], width, t);
    }
    if (!b->ladder) return;
    text_puts(t, "steps:\n");
    for (size_t i = 0; i < b->columns.len; i++)
        if (*b->columns.data[i].text)
            text_printf(t, "  %-*s  %s\n", width, b->columns.data[i].name, b->columns.data[i].text);
}

/* --- Markdown ---------------------------------------------------------------------------------------- */

static void markdown_text(Text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '|' || *s == '\\' || *s == '<') text_putc(t, '\\');
        text_putc(t, *s);
    }
}

static void markdown_titles(const Bench *b, Text *t)
{
    text_printf(t, "\n| %s |", b->ladder ? "step" : "provider");
    if (b->ladder) text_puts(t, " what changed |");
    for (int k = 0; k < CELLS; k++)
        if (shown(b, k)) text_printf(t, " %s |", titles[k]);
    text_printf(t, " result |\n|---|%s", b->ladder ? "---|" : "");
    for (int k = 0; k < CELLS; k++)
        if (shown(b, k)) text_puts(t, "---:|");
    text_puts(t, "---|\n");
}

static void markdown_row(const Bench *b, const BenchRow *r, Text *t)
{
    text_puts(t, "| ");
    markdown_text(t, name_of(b, r));
    text_puts(t, " | ");
    if (b->ladder) markdown_text(t, b->columns.data[r->column].text);
    if (b->ladder) text_puts(t, " | ");
    for (int k = 0; k < CELLS; k++)
        if (shown(b, k)) text_printf(t, "%s | ", cell(b, r, k));
    markdown_text(t, verdict(b, r));
    text_puts(t, " |\n");
}

void bench_markdown(const Bench *b, Text *t)
{
    text_printf(t, "# %s on %s, %s\n", b->kernel, b->device, b->target);
    if (b->noise) text_printf(t, "\nWarning: %s.\n", b->noise);
    for (size_t size = 0; size < b->sweep.sizes.len; size++) {
        const char *title = sweep_title(&b->tool->arena, &b->sweep, size);
        if (!size_has_rows(b, size)) continue;
        if (*title) text_printf(t, "\n## %s\n", title);
        markdown_titles(b, t);
        for (size_t i = 0; i < b->rows.len; i++)
            if (b->rows.data[i].size == size) markdown_row(b, &b->rows.data[i], t);
    }
}

/* --- CSV and JSON ------------------------------------------------------------------------------------ */

static const char *const state_names[] = { "ok", "same", "absent", "wrong", "failed" };
static const char *const checked_names[] = { "unchecked", "reference", "correct" };

static void csv_text(Text *t, const char *s)
{
    if (!s[strcspn(s, ",\"\n")]) {
        text_puts(t, s);
        return;
    }
    text_putc(t, '"');
    for (; *s; s++) {
        if (*s == '"') text_putc(t, '"');
        text_putc(t, *s);
    }
    text_putc(t, '"');
}

/* An empty field for what is not known. */
static void csv_number(Text *t, double v)
{
    if (v > 0) text_printf(t, ",%.9g", v);
    else text_putc(t, ',');
}

void bench_csv(const Bench *b, Text *t)
{
    for (size_t k = 0; k < b->sweep.names.len; k++) text_printf(t, "%s,", b->sweep.names.data[k]);
    text_puts(t, "step,state,median_ms,least_ms,most_ms,low_ms,high_ms,launches,flops,bytes,tflops,gb_per_s,"
                 "of_peak,to_baseline,to_previous,config,reason\n");
    for (size_t i = 0; i < b->rows.len; i++) {
        const BenchRow *r = &b->rows.data[i];
        const Measured *m = &r->time;
        for (size_t k = 0; k < b->sweep.names.len; k++)
            text_printf(t, "%lld,", (long long)b->sweep.sizes.data[r->size].values[k]);
        csv_text(t, name_of(b, r));
        text_printf(t, ",%s", state_names[r->state]);
        const double numbers[] = { m->median, m->least, m->most, m->low, m->high, m->n, r->work.flops,
            r->work.bytes, tflops(r), gbs(r), r->peak, to_baseline(b, r), to_previous(b, r) };
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) csv_number(t, numbers[k]);
        text_putc(t, ',');
        csv_text(t, r->config);
        text_putc(t, ',');
        csv_text(t, r->reason);
        text_putc(t, '\n');
    }
}

static void json_number(Text *t, const char *name, double v)
{
    if (v > 0) text_printf(t, ", \"%s\": %.9g", name, v);
    else text_printf(t, ", \"%s\": null", name);
}

static void json_row(const Bench *b, const BenchRow *r, Text *t)
{
    const Measured *m = &r->time;
    text_puts(t, "{\"size\": {");
    for (size_t k = 0; k < b->sweep.names.len; k++)
        text_printf(t, "%s\"%s\": %lld", k ? ", " : "", b->sweep.names.data[k],
            (long long)b->sweep.sizes.data[r->size].values[k]);
    text_puts(t, "}, \"step\": ");
    json_string(t, name_of(b, r));
    const char *result = r->state == BENCH_WRONG  ? "wrong"
                         : r->state > BENCH_WRONG ? "unchecked"
                                                  : checked_names[r->state == BENCH_ABSENT ? 0 : r->checked];
    text_printf(t, ", \"state\": \"%s\", \"result\": \"%s\"", state_names[r->state], result);
    json_number(t, "median_ms", m->median);
    json_number(t, "least_ms", m->least);
    json_number(t, "most_ms", m->most);
    json_number(t, "low_ms", m->low);
    json_number(t, "high_ms", m->high);
    text_printf(t, ", \"launches\": %d", m->n);
    json_number(t, "flops", r->work.flops);
    json_number(t, "bytes", r->work.bytes);
    json_number(t, "tflops", tflops(r));
    json_number(t, "gb_per_s", gbs(r));
    json_number(t, "of_peak", r->peak);
    json_number(t, "to_baseline", to_baseline(b, r));
    json_number(t, "to_previous", to_previous(b, r));
    text_printf(t, ", \"deviation\": %.6g, \"config\": ", isfinite(r->worst) ? r->worst : 1e300);
    json_string(t, r->config);
    text_puts(t, ", \"reason\": ");
    json_string(t, r->reason);
    if (*r->why) {
        text_puts(t, ", \"why\": ");
        json_string(t, r->why);
    }
    text_putc(t, '}');
}

void bench_json(const Bench *b, Text *t)
{
    text_puts(t, "{\"kernel\": ");
    json_string(t, b->kernel);
    text_puts(t, ", \"device\": ");
    json_string(t, b->device);
    text_puts(t, ", \"target\": ");
    json_string(t, b->target);
    text_printf(t, ",\n \"load\": %.2f, \"processors\": %d, \"warning\": ", b->load.load, b->load.processors);
    if (b->noise) json_string(t, b->noise);
    else text_puts(t, "null");
    text_puts(t, ",\n \"steps\": [");
    for (size_t i = 0; i < b->columns.len; i++) {
        text_puts(t, i ? ", {\"name\": " : "{\"name\": ");
        json_string(t, b->columns.data[i].name);
        text_puts(t, ", \"text\": ");
        json_string(t, b->columns.data[i].text);
        text_printf(t, ", \"provider\": %s}", b->columns.data[i].provider ? "true" : "false");
    }
    text_puts(t, "],\n \"results\": [");
    for (size_t i = 0; i < b->rows.len; i++) {
        text_puts(t, i ? ",\n  " : "\n  ");
        json_row(b, &b->rows.data[i], t);
    }
    text_puts(t, "\n ]}\n");
}

/* --- the plot ---------------------------------------------------------------------------------------- */

/* Whether two sizes are points of one line: they differ in the first --sweep option only. */
static bool same_line(const Sweep *s, size_t a, size_t b)
{
    for (size_t k = s->first; k < s->names.len; k++)
        if (s->sizes.data[a].values[k] != s->sizes.data[b].values[k]) return false;
    return true;
}

static const char *line_name(const Bench *b, int column, size_t size)
{
    Text t;
    text_init(&t, &b->tool->arena);
    text_puts(&t, b->columns.data[column].name);
    for (size_t k = b->sweep.first; k < b->sweep.names.len; k++)
        text_printf(&t, ", %s=%lld", b->sweep.names.data[k], (long long)b->sweep.sizes.data[size].values[k]);
    return t.data;
}

static DrawSeries series_of(const Bench *b, int column, size_t first, bool products)
{
    Arena *a = &b->tool->arena;
    size_t most = b->sweep.sizes.len;
    double *v = arena_array(a, double, 4 * most + 1), *x = v, *y = v + most, *low = y + most,
           *high = low + most;
    int n = 0;
    for (size_t size = first; size < most; size++) {
        const BenchRow *r = bench_row(b, size, column);
        if (!r || !same_line(&b->sweep, first, size)) continue;
        double work = products ? r->work.flops * 1e-9 : r->work.bytes * 1e-6;
        x[n] = sweep_at(&b->sweep, size);
        y[n] = r->time.median > 0 ? work / r->time.median : (double)NAN;
        low[n] = r->time.low > 0 ? work / r->time.high : (double)NAN;
        high[n++] = r->time.low > 0 ? work / r->time.low : (double)NAN;
    }
    return (
        DrawSeries){ .name = line_name(b, column, first), .x = x, .y = y, .low = low, .high = high, .n = n };
}

static const char *axis_label(const Bench *b)
{
    Text t;
    text_init(&t, &b->tool->arena);
    for (size_t k = 0; k < b->sweep.first; k++)
        text_printf(&t, "%s%s", k ? " = " : "", b->sweep.names.data[k]);
    return t.data ? t.data : "";
}

void bench_plot(const Bench *b, Text *t)
{
    Arena *a = &b->tool->arena;
    size_t sizes = b->sweep.sizes.len, n = 0;
    DrawSeries *series = arena_array(a, DrawSeries, b->columns.len * sizes + 1);
    double least = INFINITY, most = 0;
    for (size_t size = 0; size < sizes; size++) {
        least = fmin(least, sweep_at(&b->sweep, size));
        most = fmax(most, sweep_at(&b->sweep, size));
    }
    for (size_t c = 0; c < b->columns.len; c++)
        for (size_t size = 0; size < sizes; size++) {
            bool first = true;
            for (size_t before = 0; before < size; before++) first &= !same_line(&b->sweep, before, size);
            if (first) series[n++] = series_of(b, (int)c, size, shown(b, CELL_TFLOPS));
        }
    const DrawChart chart = { .title = arena_printf(a, "%s on %s", b->kernel, b->device),
        .note = b->noise ? b->noise : "median, with the quartiles of the launches",
        .x = { axis_label(b), least > 0 && most >= 8 * least ? DRAW_LOG2 : DRAW_LINEAR, 0, 0 },
        .y = { shown(b, CELL_TFLOPS) ? "TFLOPS" : "GB/s", DRAW_LINEAR, 0, 0 },
        .series = series,
        .n = (int)n };
    draw_chart(&chart, t);
}

/* --- files ------------------------------------------------------------------------------------------- */

int bench_check_directory(Bench *b)
{
    struct stat st;
    const char *slash, *parent = ".";
    size_t n = strlen(b->directory);
    while (n > 1 && b->directory[n - 1] == '/') n--; /* DIR/ is DIR */
    b->directory = arena_strndup(&b->tool->arena, b->directory, n);
    slash = strrchr(b->directory, '/');
    if (slash) parent = arena_strndup(&b->tool->arena, b->directory, (size_t)(slash - b->directory) + 1);
    bool there = !stat(b->directory, &st);
    if (there && !S_ISDIR(st.st_mode))
        return tool_error(b->tool, "--output-dir %s is no folder", b->directory);
    if (!there && access(parent, W_OK | X_OK))
        return tool_error(b->tool, "cannot make the folder %s: %s", b->directory, strerror(errno));
    if (there && access(b->directory, W_OK | X_OK))
        return tool_error(b->tool, "cannot write to the folder %s: %s", b->directory, strerror(errno));
    return EXIT_OK;
}

static void add(Bench *b, Outputs *o, const char *path, void (*write)(const Bench *, Text *))
{
    Text *t = arena_new(&b->tool->arena, Text);
    text_init(t, &b->tool->arena);
    write(b, t);
    outputs_add(b->tool, o, path, t->data, t->len);
}

static void write_log(const Bench *b, Text *t) { text_write(t, b->log.data, b->log.len); }

static void write_profile(const Bench *b, Text *t) { profile_json(&b->profile, b->device, t); }

int bench_outputs(Bench *b, Outputs *o)
{
    static const struct {
        const char *ending;
        void (*write)(const Bench *, Text *);
    } forms[] = { { "txt", bench_text }, { "csv", bench_csv }, { "json", bench_json },
        { "md", bench_markdown }, { "svg", bench_plot }, { "log", write_log } };
    if (b->directory && mkdir(b->directory, 0777) && errno != EEXIST)
        return tool_error(b->tool, "cannot make the folder %s: %s", b->directory, strerror(errno));
    for (size_t i = 0; i < sizeof forms / sizeof *forms && b->directory; i++)
        add(b, o, arena_printf(&b->tool->arena, "%s/%s.%s", b->directory, b->kernel, forms[i].ending),
            forms[i].write);
    const char *json = args_last(b->args, FLAG_JSON, NULL), *plot = args_last(b->args, FLAG_PLOT, NULL),
               *csv = args_last(b->args, FLAG_CSV, NULL);
    const char *profile = args_last(b->args, FLAG_PROFILE, NULL);
    if (profile) add(b, o, profile, write_profile);
    if (json) add(b, o, json, bench_json);
    if (csv) add(b, o, csv, bench_csv);
    if (plot) add(b, o, plot, bench_plot);
    return EXIT_OK;
}
