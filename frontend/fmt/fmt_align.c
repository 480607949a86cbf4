/* fmt_align.c: assignments of adjacent lines that the source aligns at their `=` stay aligned. */
#include "frontend/fmt/fmt.h"
#include "parser.h"
#include <stdlib.h>

/* An assignment that begins a line. */
typedef struct Assignment {
    int first, equal, end; /* items; `end` is past its `;` */
    int column;            /* of the `=` in the source, from the beginning of the statement */
    int left, whole; /* columns up to the `=`, with one blank before it; of the statement, if on one line */
    bool wide;       /* more than one blank before the `=` */
} Assignment;

static bool is_assignment(int kind)
{
    return kind == '=' || kind == ADDEQ || kind == SUBEQ || kind == MULEQ || kind == DIVEQ || kind == REMEQ ||
           kind == ANDEQ || kind == OREQ || kind == XOREQ || kind == SHLEQ || kind == SHREQ;
}

/* The statement of items [i, end) as an assignment; false when it is none, or its left side has several
 * lines. */
static bool read_assignment(const Fmt *f, int i, int end, Assignment *a)
{
    const FmtItem *items = f->items.data;
    int kind = items[i].kind, parent = items[i].parent;
    if ((kind != LET && kind != VAR && kind != CONST && kind != IDENT) || (i && !items[i].newlines))
        return false;
    *a = (Assignment){ .first = i, .equal = -1, .end = end };
    for (int k = i; k < end; k++) {
        if (items[k].line != items[i].line || items[k].kind == FMT_COMMENT) {
            a->whole = 0;
            return a->equal >= 0;
        }
        if (a->equal < 0 && items[k].parent == parent && is_assignment(items[k].kind)) {
            a->equal = k;
            a->left = a->whole + 1;
            a->column = fmt_column(f, k) - fmt_column(f, i);
            a->wide = items[k].begin > items[k - 1].end + 1;
        }
        a->whole += (k > i ? items[k].space : 0) + items[k].width;
    }
    return a->equal >= 0;
}

/* Whether the two follow each other, line after line. */
static bool adjacent(const Fmt *f, const Assignment *a, const Assignment *b)
{
    const FmtItem *items = f->items.data;
    return items[a->first].parent == items[b->first].parent &&
           items[a->end - 1].line + 1 == items[b->first].line;
}

/* Assignments with their `=` in one column. */
static void align(Fmt *f, const Assignment *group, size_t n)
{
    FmtItem *items = f->items.data;
    int left = 0;
    bool wide = false;
    for (size_t i = 0; i < n; i++) {
        wide |= group[i].wide;
        if (group[i].left > left) left = group[i].left;
    }
    if (n < 2 || !wide) return;
    for (size_t i = 0; i < n; i++) {
        int indent = FMT_INDENT * items[group[i].first].level;
        if (group[i].whole && indent + group[i].whole + left - group[i].left > f->width) return;
    }
    for (size_t i = 0; i < n; i++) items[group[i].equal].space = 1 + left - group[i].left;
}

static int by_column(const void *a, const void *b)
{
    const Assignment *x = a, *y = b;
    return x->column != y->column ? (x->column > y->column) - (x->column < y->column)
                                  : (x->first > y->first) - (x->first < y->first);
}

/* A run of assignments on adjacent lines: those with one column are aligned. */
static void align_run(Fmt *f, Assignment *run, size_t n)
{
    if (n < 2) return;
    qsort(run, n, sizeof *run, by_column);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && run[end].column == run[i].column; end++) {}
        align(f, run + i, end - i);
    }
}

void fmt_align(Fmt *f)
{
    const FmtItem *items = f->items.data;
    int n = (int)f->items.len, first = -1;
    VEC(Assignment) run = { 0 };
    for (int i = 0; i < n; i++) {
        Assignment a;
        bool outside = items[i].parent < 0 || items[items[i].parent].block;
        if (items[i].kind == FMT_COMMENT) continue;
        if (first < 0) first = i;
        if (!outside) continue;
        bool brace = items[i].block && (items[i].kind == '{' || items[i].kind == '}');
        if (items[i].kind != ';' && !brace) continue;
        if (!brace && read_assignment(f, first, i + 1, &a)) {
            if (run.len && !adjacent(f, &run.data[run.len - 1], &a)) {
                align_run(f, run.data, run.len);
                run.len = 0;
            }
            vec_push(f->arena, &run, a);
        }
        first = -1;
    }
    align_run(f, run.data, run.len);
}
