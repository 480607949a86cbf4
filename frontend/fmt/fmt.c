/* fmt.c: see fmt.h: reads a file, has it laid out, writes the lines, and checks that the tokens and comments
 * are those of the source. */
#include "frontend/fmt/fmt.h"
#include "frontend/parse/parse.h"
#include <limits.h>

/* --- comments at the ends of lines ------------------------------------------------------------------- */

static int code_columns(const Fmt *f, const FmtLine *line)
{
    int columns = line->indent;
    for (int i = line->first; i < line->end; i++)
        columns += (i > line->first ? f->items.data[i].space : 0) + f->items.data[i].width;
    return columns;
}

/* Comments of adjacent lines that stand in one column of the source. */
typedef struct Column {
    int source; /* that column, as far as the code was moved as well */
    int least;  /* the first column behind the code, two blanks included */
    int most;   /* the last column at which the comments fit that can fit */
    int shift;  /* how far the code was moved */
} Column;

/* The column of the line's comment in the source, moved with its code; -1 when the code was elsewhere. */
static int source_column(const Fmt *f, const FmtLine *line, Column *c)
{
    const FmtItem *items = f->items.data;
    int column = fmt_column(f, line->comment);
    if (line->first == line->end) return column + c->shift;
    if (items[line->first].line != items[line->comment].line) return -1;
    if (line->first && !items[line->first].newlines) return -1;
    c->shift = line->indent - fmt_column(f, line->first);
    return column + c->shift;
}

static void widen(const Fmt *f, const FmtLine *line, Column *c)
{
    int comment = f->items.data[line->comment].width;
    int least = line->first == line->end ? line->indent + 1 : code_columns(f, line) + 2;
    if (least > c->least) c->least = least;
    if (least + comment <= f->width && f->width - comment < c->most) c->most = f->width - comment;
}

/* The columns of the comments of all lines: adjacent comments in one column stay in one, those that are too
 * far to the right move to the left. */
static int *comment_columns(const Fmt *f)
{
    size_t n = f->lines.len;
    int *columns = arena_array(f->arena, int, n + 1);
    for (size_t i = 0; i < n;) {
        const FmtLine *line = &f->lines.data[i];
        Column c = { .most = INT_MAX };
        if (line->comment < 0) {
            i++;
            continue;
        }
        c.source = source_column(f, line, &c);
        widen(f, line, &c);
        size_t end = i + 1;
        for (; end < n && f->lines.data[end].comment >= 0 && !f->lines.data[end].blank; end++) {
            line = &f->lines.data[end];
            bool alone = line->first == line->end;
            if (!alone && (c.source < 0 || source_column(f, line, &c) != c.source)) break;
            widen(f, line, &c);
        }
        int column = c.source < c.most ? c.source : c.most;
        for (; i < end; i++) columns[i] = column > c.least ? column : c.least;
    }
    return columns;
}

/* --- text -------------------------------------------------------------------------------------------- */

static void put_blanks(Text *out, int n)
{
    while (n-- > 0) text_putc(out, ' ');
}

/* A comment whose first character stands in column `to`. Its further lines are moved as far as the first. */
static void put_comment(const Fmt *f, int i, int to, Text *out)
{
    const FmtItem *item = &f->items.data[i];
    const char *p = f->text + item->begin, *end = f->text + item->end;
    for (int shift = to - fmt_column(f, i);; p++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *last = stop ? stop : end;
        while (last > p && strchr(" \t\r\f\v", last[-1])) last--;
        text_write(out, p, (size_t)(last - p));
        if (!stop) return;
        text_putc(out, '\n');
        int blanks = 0;
        for (p = stop + 1; p < end && (*p == ' ' || *p == '\t'); p++)
            blanks += *p == '\t' ? FMT_INDENT - blanks % FMT_INDENT : 1;
        bool empty = p < end && (*p == '\n' || *p == '\r');
        if (!empty) put_blanks(out, blanks + shift);
        p--;
    }
}

static void put_line(const Fmt *f, const FmtLine *line, int column, Text *out)
{
    const FmtItem *items = f->items.data;
    int at = line->first < line->end ? line->indent : 0;
    if (line->blank) text_putc(out, '\n');
    put_blanks(out, at);
    for (int i = line->first; i < line->end; i++) {
        int space = i > line->first ? items[i].space : 0;
        put_blanks(out, space);
        at += space;
        if (items[i].kind == FMT_COMMENT) put_comment(f, i, at, out);
        else text_write(out, f->text + items[i].begin, items[i].end - items[i].begin);
        at += items[i].width;
    }
    if (line->comment >= 0) {
        put_blanks(out, column - at);
        put_comment(f, line->comment, column, out);
    }
    text_putc(out, '\n');
}

bool frontend_format(Session *s, uint32_t file, int width, Text *out)
{
    Arena *arena = &s->arena;
    Fmt f = { .session = s, .arena = arena, .width = width };
    Text text;
    if (!parse_alone(s, file)) return false;
    fmt_read(&f, file);
    fmt_space(&f);
    fmt_align(&f);
    fmt_lay(&f);
    text_init(&text, arena);
    text_puts(&text, "");
    const int *columns = comment_columns(&f);
    for (size_t i = 0; i < f.lines.len; i++) put_line(&f, &f.lines.data[i], columns[i], &text);
    if (!fmt_same(&f, diag_add_source(s, "formatted", NULL, text.data ? text.data : "", text.len))) {
        diag_error(s, (Loc){ file, 0, 0 }, "the formatted text would have other tokens");
        return false;
    }
    if (text.len) text_write(out, text.data, text.len);
    return true;
}
