/* fmt_lines.c: where lines end. A unit is a statement, a declaration, an entry, or what stands before or
 * after a block's braces; it begins a line. Inside it the line breaks of the source stay, and more are added
 * where a line is too long. */
#include "frontend/fmt/fmt.h"
#include "parser.h"

typedef struct Unit {
    int first, end;
    int indent;
    bool blank, kernel, wrapped, several; /* wrapped: a line was too long; several: it has several lines */
    int head;                             /* its first token */
    int filled; /* a bracket in which a line was too long: its further breaks are chosen anew */
    int params; /* of a kernel, the `)` of its parameters; -1 */
} Unit;

static bool kernel_brace(const Fmt *f, const Unit *u, int i)
{
    int kind = f->items.data[u->head].kind;
    return f->items.data[i].block && f->items.data[i].kind == '{' && (kind == KERNEL || kind == FN);
}

/* Whether the item and the one before it are words of one phrase: `kernel NAME`, `in f16 X`, `key (..)`. */
static bool one_phrase(const FmtItem *before, const FmtItem *item)
{
    if (item->kind == '(') return before->role == FMT_CLAUSE;
    if (item->role == FMT_CLAUSE) return false;
    switch (before->kind) {
    case KERNEL:
    case FN:
    case TUNE:
    case INSTANTIATE:
    case LADDER:
    case IMPORT:
    case CONST:
    case LET:
    case VAR:
    case FOR:
    case OUT:
    case INOUT: return true;
    case IN: return item->kind == IDENT;
    case IDENT: return item->kind == IDENT || item->kind == IN;
    default: return false;
    }
}

/* Whether a line may end before item i. */
static bool may_break(const Fmt *f, const Unit *u, int i)
{
    const FmtItem *items = f->items.data, *item = &items[i];
    if (i <= u->head || item->before < 0) return false;
    const FmtItem *before = &items[item->before];
    if (item->kind == ',' || item->kind == ';' || item->kind == ELSE) return false;
    if (fmt_is_close(item) && !item->block) return item->match >= 0 && items[item->match].hangs;
    if (fmt_is_open(before) && !before->block) return true;
    if (item->block || before->block) return kernel_brace(f, u, i);
    if (one_phrase(before, item)) return false;
    return item->space > 0;
}

static int break_indent(const Fmt *f, const Unit *u, int i)
{
    const FmtItem *items = f->items.data, *item = &items[i];
    int open = item->parent;
    if (i == u->first) return u->indent;
    if (item->kind == FMT_COMMENT && fmt_next(f, i) < u->end && open < u->first)
        item = &items[fmt_next(f, i)];
    if (item->kind == ELSE || (item->block && !item->one_line && item->kind == '{')) return u->indent;
    if (fmt_is_close(item) && item->match >= u->first) return items[item->match].base;
    if (open < u->first) return u->indent + FMT_INDENT;
    if (items[open].hangs || items[open].block) return items[open].base + FMT_INDENT;
    return items[open].column;
}

/* The first `const` of a kernel's parameters. */
static bool first_const(const Fmt *f, const Unit *u, int i)
{
    const FmtItem *items = f->items.data, *item = &items[i];
    if (!u->kernel || u->params < 0 || item->parent != items[u->params].match || item->kind != CONST)
        return false;
    for (int k = i - 1; k > item->parent; k--)
        if (items[k].kind == CONST) return false;
    return true;
}

/* What a break before this token disturbs, by how strongly the token binds. */
static int binding(const FmtItem *item)
{
    switch (item->kind) {
    case '?':
    case ':': return 5;
    case OROR: return 10;
    case ANDAND: return 20;
    case EQ:
    case NE:
    case LE:
    case GE:
    case '<':
    case '>': return 30;
    case DOTDOT: return 60;
    default: return item->role == FMT_SUM ? 40 : item->role == FMT_PRODUCT ? 50 : 250;
    }
}

/* How much a break before item i disturbs: least for outer brackets, and for what binds least. */
static int disturbance(const Fmt *f, const Unit *u, int i)
{
    const FmtItem *items = f->items.data, *item = &items[i], *before = &items[item->before];
    int base = 100 * item->depth;
    if (before->kind == '=' || before->kind == RETURN) return base + (item->parent < u->first ? 240 : 75);
    if (fmt_is_open(before)) return base + 90;
    if (before->kind == ',') return first_const(f, u, i) ? base - 50 : base;
    if (item->role == FMT_CLAUSE || before->kind == ';') return base;
    return base + binding(item);
}

/* Which of the items from..i begins the next line, when the line is too long at item i; columns: where they
 * begin. -1: none. */
static int best_break(Fmt *f, const Unit *u, int from, int i, const int *columns)
{
    int best = -1, least = 0;
    for (int k = from; k <= i; k++) {
        FmtItem *items = f->items.data;
        if (items[k].kind == FMT_COMMENT || !may_break(f, u, k)) continue;
        int before = items[k].before;
        bool opened = fmt_is_open(&items[before]) && !items[before].block, hung = items[before].hangs;
        if (opened) items[before].hangs = true;
        bool gains = break_indent(f, u, k) < columns[k - from];
        if (opened) items[before].hangs = hung;
        int d = disturbance(f, u, k);
        if (!gains || (best >= 0 && d > least)) continue;
        best = k;
        least = d;
    }
    return best;
}

static bool source_breaks(const Fmt *f, const Unit *u, int i)
{
    const FmtItem *items = f->items.data, *item = &items[i];
    if (items[i - 1].ends_line || (item->kind == FMT_COMMENT && item->newlines)) return true;
    if (u->kernel && u->several && u->params >= 0 && item->before == u->params && item->kind != FMT_COMMENT)
        return true;
    if (u->kernel && u->several && kernel_brace(f, u, i) && !item->one_line) return true;
    if (item->parent >= u->first && item->parent == u->filled && !first_const(f, u, i)) return false;
    return item->kind != FMT_COMMENT && item->newlines && may_break(f, u, i);
}

typedef struct Layer {
    Fmt *f;
    Unit *u;
    FmtLine line;
    int column;
    VEC(int) columns; /* of the items of the line */
} Layer;

static void begin_line(Layer *l, int i, bool blank)
{
    Fmt *f = l->f;
    FmtItem *items = f->items.data;
    int before = items[i].before;
    if (i > l->u->first && before >= l->u->first && fmt_is_open(&items[before]) && !items[before].block)
        items[before].hangs = true;
    l->line = (FmtLine){ .first = i, .end = i, .comment = -1, .blank = blank };
    l->line.indent = l->column = break_indent(f, l->u, i);
    l->columns.len = 0;
}

static void end_line(Layer *l, int end)
{
    const FmtItem *last = &l->f->items.data[end - 1];
    bool comment = end - 1 > l->line.first && last->kind == FMT_COMMENT && last->ends_line;
    l->line.end = end - comment;
    if (comment) l->line.comment = end - 1;
    vec_push(l->f->arena, &l->f->lines, l->line);
    l->u->several = true;
}

static void lay_unit(Fmt *f, Unit *u)
{
    Layer l = { .f = f, .u = u };
    FmtItem *items = f->items.data;
    size_t before = f->lines.len;
    int searched = 0; /* no line can end before these items */
    begin_line(&l, u->first, u->blank);
    for (int i = u->first; i < u->end; i++) {
        if (i > l.line.first && source_breaks(f, u, i)) {
            end_line(&l, i);
            begin_line(&l, i, items[i].newlines > 1);
        } else if (i > l.line.first) l.column += items[i].space;
        vec_push(f->arena, &l.columns, l.column);
        l.column += items[i].width;
        items[i].column = l.column;
        items[i].base = l.line.indent;
        items[i].hangs = false;
        if (l.column <= f->width || items[i].kind == FMT_COMMENT) continue;
        u->wrapped = true;
        int from = searched > l.line.first ? searched : l.line.first + 1;
        int k = best_break(f, u, from, i, l.columns.data + (from - l.line.first));
        if (k < 0) searched = i + 1;
        if (k < 0) continue;
        end_line(&l, k);
        begin_line(&l, k, false);
        u->filled = items[k].parent;
        i = k - 1;
    }
    end_line(&l, u->end);
    u->several = f->lines.len - before > 1;
}

/* --- units ------------------------------------------------------------------------------------------- */

static int unit_end(const Fmt *f, int i)
{
    const FmtItem *items = f->items.data;
    int n = (int)f->items.len, parent;
    if (items[i].kind == '}' && items[i].block) {
        int next = fmt_next(f, i);
        if (next >= n || items[next].kind != ELSE) return i + 1;
        i = next;
    }
    while (i < n && items[i].kind == FMT_COMMENT) i++;
    for (parent = i < n ? items[i].parent : -1; i < n; i++) {
        if (items[i].parent != parent || items[i].kind == FMT_COMMENT) continue;
        if (items[i].kind == ';') return i + 1;
        if (items[i].kind != '{' || !items[i].block) continue;
        if (!items[i].one_line || items[i].match < 0) return i + 1;
        int next = fmt_next(f, i = items[i].match);
        if (next >= n || items[next].kind != ELSE) return i + 1;
    }
    return n;
}

/* The blocks of one line in the unit get lines of their own; false: there are none. */
static bool open_blocks(Fmt *f, const Unit *u)
{
    FmtItem *items = f->items.data;
    bool any = false;
    for (int i = u->first; i < u->end; i++) {
        if (items[i].kind != '{' || !items[i].block || !items[i].one_line) continue;
        items[i].one_line = false;
        any = true;
        i = items[i].match;
    }
    return any;
}

static int columns_of(const Fmt *f, int first, int end)
{
    int columns = 0;
    for (int i = first; i < end; i++)
        columns += (i > first ? f->items.data[i].space : 0) + f->items.data[i].width;
    return columns;
}

/* An entry that follows another on its line stays there, if there is room. */
static bool joins_line(Fmt *f, const Unit *u)
{
    const FmtItem *items = f->items.data, *item = &items[u->first];
    FmtLine *last = f->lines.len ? &f->lines.data[f->lines.len - 1] : NULL;
    if (!last || last->comment >= 0 || item->newlines || item->parent < 0 || !items[item->parent].entries)
        return false;
    if (last->end != u->first || items[last->end - 1].kind != ';' || item->kind == '}') return false;
    for (int i = u->first; i < u->end; i++)
        if ((i > u->first && items[i].newlines) || items[i].kind == FMT_COMMENT) return false;
    int width = last->indent + columns_of(f, last->first, last->end) + 1 + columns_of(f, u->first, u->end);
    if (width > f->width) return false;
    last->end = u->end;
    return true;
}

/* Comments behind the unit on its last line; the next item to lay. */
static int trailing_comment(Fmt *f, int i)
{
    const FmtItem *items = f->items.data;
    int n = (int)f->items.len, end = i;
    while (end < n && items[end].kind == FMT_COMMENT && !items[end].newlines &&
           !(end > i && items[end - 1].ends_line))
        end++;
    if (end == i || (end < n && !items[end].newlines && !items[end - 1].ends_line)) return i;
    FmtLine *last = &f->lines.data[f->lines.len - 1];
    last->comment = end - 1;
    last->end = end - 1;
    return end;
}

/* Comments on a line of their own; one in the column of the comment above it, it belongs to that one. */
static void lay_comment(Fmt *f, int i, int end, int indent, bool blank)
{
    FmtLine *last = f->lines.len ? &f->lines.data[f->lines.len - 1] : NULL;
    FmtLine line = { .first = i, .end = end, .indent = indent, .comment = -1, .blank = blank };
    int column = fmt_column(f, i);
    if (last && last->comment >= 0 && end == i + 1 && f->items.data[i].newlines == 1 && column > indent &&
        column == fmt_column(f, last->comment)) {
        line.end = i;
        line.comment = i;
    }
    vec_push(f->arena, &f->lines, line);
}

static void fill_unit(const Fmt *f, Unit *u)
{
    u->end = unit_end(f, u->first);
    u->head = u->first;
    while (u->head + 1 < u->end && f->items.data[u->head].kind == FMT_COMMENT) u->head++;
    u->kernel = f->items.data[u->head].kind == KERNEL;
    u->wrapped = u->several = false;
    u->params = u->filled = -1;
    for (int i = u->first; u->kernel && i < u->end && u->params < 0; i++)
        if (f->items.data[i].kind == '(') u->params = f->items.data[i].match;
    /* A header that does not fit into its line has its clauses on a line of their own. */
    bool brace = u->end > u->first && f->items.data[u->end - 1].kind == '{';
    u->several = u->kernel && brace && u->indent + columns_of(f, u->first, u->end) > f->width;
}

/* The end of the comments from item i on that have a line to themselves; i when a token follows on that line.
 */
static int comment_line(const Fmt *f, int i)
{
    int n = (int)f->items.len, end = i;
    const FmtItem *items = f->items.data;
    while (end < n && items[end].kind == FMT_COMMENT && (end == i || !items[end].newlines))
        if (items[end++].ends_line) return end;
    return end == n || items[end].newlines || (items[end].kind == '}' && items[end].block) ? end : i;
}

void fmt_lay(Fmt *f)
{
    int n = (int)f->items.len, level = 0;
    bool opened = true, several = false;
    for (int i = 0; i < n;) {
        const FmtItem *item = &f->items.data[i];
        bool close = item->kind == '}' && item->block;
        if (close && level) level--;
        Unit u = {
            .first = i, .indent = FMT_INDENT * level, .blank = item->newlines > 1 && !opened && !close
        };
        int comments = item->kind == FMT_COMMENT ? comment_line(f, i) : i;
        if (comments > i) {
            lay_comment(f, i, comments, u.indent, u.blank);
            i = comments;
            opened = false;
            continue;
        }
        size_t lines = f->lines.len;
        fill_unit(f, &u);
        if (opened || several || !joins_line(f, &u)) {
            lay_unit(f, &u);
            if (u.wrapped && open_blocks(f, &u)) {
                f->lines.len = lines;
                fill_unit(f, &u);
                lay_unit(f, &u);
            }
        }
        several = u.several;
        const FmtItem *last = &f->items.data[u.end - 1];
        opened = last->kind == '{' && last->block && !last->one_line;
        level += opened;
        i = trailing_comment(f, u.end);
    }
}
