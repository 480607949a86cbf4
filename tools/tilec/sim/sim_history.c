/* sim_history.c: `tilec sim --history=h.md`: a Markdown file that grows by one row for each placement. Each
 * launch and device has a section; what else stands in the file stays as it is. */
#include "tools/tilec/sim/sim.h"
#include "ir/support/number.h"
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char table_head[] = "| iteration | remap | L2 hit | to the first | to the best so far | time | "
                                 "to the first | to the best so far "
                                 "| |\n|---|---|---|---|---|---|---|---|---|\n";
enum { MOST_BYTES = 1 << 24, COLUMNS = 9 };

/* What the rows so far say, in percent and milliseconds. */
typedef struct Past {
    int64_t rows;
    bool any; /* one that is not refused */
    double first_rate, first_ms, best_rate, best_ms;
} Past;

static void remember(Past *p, double rate, double ms)
{
    if (!p->any) *p = (Past){ p->rows, true, rate, ms, rate, ms };
    if (rate > p->best_rate) p->best_rate = rate;
    if (ms < p->best_ms) p->best_ms = ms;
}

static void close_folder(void *p) { close((int)(intptr_t)p); }

/* Runs that append to one history at a time would lose each other's rows: each holds a lock on the file's
 * folder from its reading to the end of the run. Where there are no locks, nothing is locked. */
static void lock_folder(Tool *t, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *folder = slash ? arena_strndup(&t->arena, path, (size_t)(slash - path) + 1) : ".";
    ToolCleanup *cleanup = arena_new(&t->arena, ToolCleanup);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    tool_at_end(t, cleanup, close_folder, (void *)(intptr_t)fd);
    while (flock(fd, LOCK_EX) && errno == EINTR) continue;
}

/* --- reading ----------------------------------------------------------------------------------------- */

/* The cells of a row; a bar behind a backslash belongs to its cell. */
static int split_row(Arena *a, const char *line, size_t n, const char *cell[COLUMNS])
{
    int cells = 0;
    if (!n || line[0] != '|') return 0;
    for (size_t from = 1, k = 1; k < n; k++) {
        if (line[k] != '|' || line[k - 1] == '\\') continue;
        if (cells == COLUMNS) return 0;
        cell[cells++] = arena_strndup(a, line + from, k - from);
        from = k + 1;
    }
    return cells;
}

/* "12.5%" or, of a placement that was refused, "(12.5%)". */
static bool read_cell(const char *text, const char *unit, double *out, bool *refused)
{
    char *end;
    while (*text == ' ') text++;
    *refused = *text == '(';
    *out = number_read(text + *refused, &end);
    if (end == text + *refused || !(*out >= 0) || *out > 1e15) return false;
    while (*end == ' ') end++;
    if (strncmp(end, unit, strlen(unit))) return false;
    end += strlen(unit);
    if (*refused && *end++ != ')') return false;
    while (*end == ' ') end++;
    return !*end;
}

static bool read_row(Arena *a, const char *line, size_t n, Past *past)
{
    const char *cell[COLUMNS];
    double rate, ms;
    bool refused, also;
    if (split_row(a, line, n, cell) != COLUMNS) return false;
    if (strtoll(cell[0], NULL, 10) != past->rows + 1) return false;
    if (!read_cell(cell[2], "%", &rate, &refused) || !read_cell(cell[5], "ms", &ms, &also)) return false;
    past->rows++;
    if (!refused) remember(past, rate, ms);
    return refused == also;
}

static bool begins(const char *line, size_t n, const char *with)
{ return n >= strlen(with) && !memcmp(line, with, strlen(with)); }

/* Where the next row of the section goes. */
typedef struct Section {
    size_t at;  /* behind its heading and the last row of its table; 0: there is no such section */
    bool table; /* it has the head of one */
} Section;

static bool find_section(
    Input *in, const char *path, const FileText *file, const char *heading, Past *past, Section *out)
{
    bool inside = false;
    int line = 1;
    for (const char *p = file->data; *p; line++) {
        size_t n = strcspn(p, "\n"), whole = n + (p[n] == '\n');
        if (n && p[n - 1] == '\r') n--;
        bool is_heading = begins(p, n, "## ");
        if (is_heading) inside = n == strlen(heading) && !memcmp(p, heading, n);
        bool row = inside && begins(p, n, "|");
        bool head = row && (begins(p, n, "| iteration |") || begins(p, n, "|---|"));
        if (row && !head && !read_row(&in->session.arena, p, n, past)) {
            tool_error(in->tool, "%s:%d: no row of a history of placements", path, line);
            return false;
        }
        p += whole;
        if (row || (is_heading && inside)) out->at = (size_t)(p - file->data);
        out->table |= head;
    }
    return true;
}

/* --- writing ----------------------------------------------------------------------------------------- */

static const char *in_brackets(Arena *a, bool brackets, const char *text)
{ return brackets ? arena_printf(a, "(%s)", text) : text; }

static const char *points(Arena *a, const SimCase *c, bool known, double rate, double than)
{ return known ? in_brackets(a, c->refused != NULL, arena_printf(a, "%+.2f points", rate - than)) : "-"; }

static const char *slower(Arena *a, const SimCase *c, bool known, double ms, double than)
{ return known ? in_brackets(a, c->refused != NULL, arena_printf(a, "%+.6f ms", ms - than)) : "-"; }

static void put_name(Text *t, const SimCase *c)
{
    text_puts(t, "`");
    for (const char *p = c->name; *p; p++) {
        if (*p == '|') text_putc(t, '\\');
        text_putc(t, *p == '\n' || *p == '`' ? ' ' : *p);
    }
    text_puts(t, "`");
    if (strcmp(c->name, c->placed)) text_printf(t, " = `%s`", c->placed);
}

static void put_row(const SimReport *r, const SimCase *c, Past *past, Text *t)
{
    Arena *a = t->arena;
    double rate = 100 * sim_rate(c->result.l2), ms = c->result.apart * 1e3;
    /* As the row says them, so that rows compare alike whether they are read again or not. */
    rate = (double)(int64_t)(rate * 100 + 0.5) / 100;
    ms = (double)(int64_t)(ms * 1e6 + 0.5) / 1e6;
    text_printf(t, "| %lld | ", (long long)++past->rows);
    put_name(t, c);
    text_printf(t, " | %s | %s | %s | %s | %s | %s | ",
        in_brackets(a, c->refused != NULL, arena_printf(a, "%.2f%%", rate)),
        points(a, c, past->any, rate, past->first_rate), points(a, c, past->any, rate, past->best_rate),
        in_brackets(a, c->refused != NULL, arena_printf(a, "%.6f ms", ms)),
        slower(a, c, past->any, ms, past->first_ms), slower(a, c, past->any, ms, past->best_ms));
    if (c->refused)
        text_printf(t, "refused: %s; %lld of %lld tiles run ", c->refused, (long long)c->tiles,
            (long long)sim_trace_programs(r->trace));
    text_puts(t, "|\n");
    if (!c->refused) remember(past, rate, ms);
}

static const char *heading_of(Arena *a, const SimReport *r, bool sampled)
{
    Text t;
    text_init(&t, a);
    text_printf(&t, "## `%s` on %s", r->title, r->device->name);
    if (r->per_unit > 1) text_printf(&t, ", %lld a compute unit", (long long)r->per_unit);
    if (r->drift > 0) text_printf(&t, ", drift %lld", (long long)r->drift);
    if (sampled) text_printf(&t, ", one block of lines in %lld", (long long)r->cases[0].result.sample);
    return t.data;
}

bool sim_history(Input *in, const SimReport *r, const char *path, Text *t)
{
    Arena *a = &in->tool->arena;
    FileText file = { "", 0 };
    struct stat st;
    Past past = { 0 };
    Section place = { 0 };
    const char *heading = heading_of(a, r, r->n && r->cases[0].result.sample > 1);
    if (!strcmp(path, "-")) {
        tool_error(in->tool, "--history wants a file that it can read again");
        return false;
    }
    lock_folder(in->tool, path);
    if (stat(path, &st) ? errno != ENOENT : S_ISREG(st.st_mode))
        if (!file_read(in->tool, path, MOST_BYTES, &file)) return false;
    if (memchr(file.data, 0, file.len)) {
        tool_error(in->tool, "%s: no history of placements: it has a zero byte", path);
        return false;
    }
    if (!find_section(in, path, &file, heading, &past, &place)) return false;
    size_t at = place.at ? place.at : file.len;
    text_write(t, file.data, at);
    if (t->len && t->data[t->len - 1] != '\n') text_putc(t, '\n');
    if (!place.at) text_printf(t, "%s%s\n", file.len ? "\n" : "", heading);
    if (!place.table) text_printf(t, "\n%s", table_head);
    for (int k = 0; k < r->n; k++) put_row(r, &r->cases[k], &past, t);
    text_write(t, file.data + at, file.len - at);
    return true;
}
