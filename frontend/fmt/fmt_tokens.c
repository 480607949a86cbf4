/* fmt_tokens.c: source text -> tokens and comments, and the blanks between them. */
#include "frontend/fmt/fmt.h"
#include "frontend/parse/parse.h"
#include "parser.h"

int tile_yylex(TILE_YYSTYPE *, Loc *, void *scanner);

int fmt_columns(const char *s, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n; i++) columns += (s[i] & 0xc0) != 0x80;
    return columns;
}

int fmt_column(const Fmt *f, int item)
{
    uint32_t end = f->items.data[item].begin, begin = end;
    int column = 0;
    while (begin && f->text[begin - 1] != '\n') begin--;
    for (uint32_t i = begin; i < end; i++)
        if (f->text[i] == '\t') column += FMT_INDENT - column % FMT_INDENT;
        else column += (f->text[i] & 0xc0) != 0x80;
    return column;
}

int fmt_next(const Fmt *f, int item)
{
    do item++;
    while (item < (int)f->items.len && f->items.data[item].kind == FMT_COMMENT);
    return item;
}

/* --- items ------------------------------------------------------------------------------------------- */

/* Reads the items of a text into f->items, or compares them with those. */
typedef struct Reader {
    Fmt *f;
    const char *text;
    uint32_t at; /* what lies before was read */
    int line, newlines;
    bool compares, differs;
    size_t compared; /* items */
} Reader;

/* Whether two comments are equal but for blanks. */
static bool same_comment(const char *a, const char *a_end, const char *b, const char *b_end)
{
    for (;;) {
        while (a < a_end && strchr(" \t\r\n\f\v", *a)) a++;
        while (b < b_end && strchr(" \t\r\n\f\v", *b)) b++;
        if (a == a_end || b == b_end) return a == a_end && b == b_end;
        if (*a++ != *b++) return false;
    }
}

static void compare(Reader *r, int kind, uint32_t begin, uint32_t end)
{
    const Fmt *f = r->f;
    const FmtItem *item = r->compared < f->items.len ? &f->items.data[r->compared] : NULL;
    bool same = item && item->kind == kind;
    r->at = end;
    r->compared++;
    if (same && kind == FMT_COMMENT)
        same = same_comment(f->text + item->begin, f->text + item->end, r->text + begin, r->text + end);
    else if (same)
        same = item->end - item->begin == end - begin &&
               !memcmp(f->text + item->begin, r->text + begin, end - begin);
    r->differs |= !same;
}

static void add(Reader *r, int kind, uint32_t begin, uint32_t end)
{
    Fmt *f = r->f;
    if (r->compares) {
        compare(r, kind, begin, end);
        return;
    }
    const char *text = f->text + begin, *stop = memchr(text, '\n', end - begin);
    size_t first = stop ? (size_t)(stop - text) : end - begin;
    while (kind == FMT_COMMENT && first && strchr(" \t\r\f\v", text[first - 1])) first--;
    FmtItem item = { .kind = kind, .begin = begin, .end = end, .line = r->line, .parent = -1, .match = -1 };
    item.newlines = (uint8_t)(r->newlines > 2 ? 2 : r->newlines);
    item.width = fmt_columns(text, first);
    item.ends_line = kind == FMT_COMMENT && (text[1] == '/' || stop);
    vec_push(f->arena, &f->items, item);
    for (uint32_t i = begin; i < end; i++) r->line += f->text[i] == '\n';
    r->newlines = 0;
    r->at = end;
}

/* Blanks and comments up to byte `end`. */
static void read_gap(Reader *r, uint32_t end)
{
    const char *text = r->text;
    while (r->at < end) {
        if (text[r->at] != '/') {
            r->newlines += text[r->at] == '\n';
            r->line += text[r->at++] == '\n';
            continue;
        }
        uint32_t stop = r->at + 2;
        if (text[r->at + 1] == '/') {
            while (stop < end && text[stop] != '\n') stop++;
            uint32_t last = stop;
            while (last > r->at + 2 && strchr(" \t\r\f\v", text[last - 1])) last--;
            add(r, FMT_COMMENT, r->at, last);
            r->at = stop;
        } else {
            while (stop + 1 < end && !(text[stop] == '*' && text[stop + 1] == '/')) stop++;
            add(r, FMT_COMMENT, r->at, stop + 2 < end ? stop + 2 : end);
        }
    }
}

static void read_items(Reader *r, uint32_t file)
{
    const Source *source = diag_source(r->f->session, file);
    Parse p = { .session = r->f->session, .file = file };
    TILE_YYSTYPE value;
    Loc loc;
    r->text = source->text;
    void *scanner = parse_lexer_new(&p, source->text, source->len);
    for (int kind; (kind = tile_yylex(&value, &loc, scanner)) > 0;) {
        read_gap(r, loc.begin);
        add(r, kind, loc.begin, loc.end);
    }
    read_gap(r, (uint32_t)source->len);
}

void fmt_read(Fmt *f, uint32_t file)
{
    const Source *source = diag_source(f->session, file);
    f->text = source->text;
    f->items.cap = source->len / 3 + 64; /* about as many as a program has */
    f->items.data = arena_array(f->arena, FmtItem, f->items.cap);
    read_items(&(Reader){ .f = f }, file);
}

bool fmt_same(const Fmt *f, uint32_t file)
{
    Fmt copy = *f;
    Reader r = { .f = &copy, .compares = true };
    read_items(&r, file);
    return !r.differs && r.compared == f->items.len;
}

/* --- brackets and roles ------------------------------------------------------------------------------ */

bool fmt_ends_operand(int kind)
{
    return kind == IDENT || kind == INT || kind == FLOAT || kind == STRING || kind == TRUE || kind == FALSE ||
           kind == NONE || kind == ')' || kind == ']';
}

/* The part of an expression that is read now, in one bracket: operators of a sum of products. */
typedef struct Piece {
    int first, last; /* its operators, linked; -1: none */
    bool window;     /* it follows `+:` */
} Piece;

enum { MOST_OPEN = 256 };
typedef struct Brackets {
    Fmt *f;
    int open[MOST_OPEN], n, level;
    Piece piece[MOST_OPEN + 1];
    int head; /* the first token of the item of the file */
} Brackets;

/* The operators of a piece: a product is tight if all of its operators are so in the source, and in a
 * window's start; a sum only in brackets or in a ladder, and if it has no products. */
static void end_piece(Brackets *b, bool window)
{
    Piece *piece = &b->piece[b->n];
    FmtItem *items = b->f->items.data;
    const FmtItem *open = b->n ? &items[b->open[b->n - 1]] : NULL;
    /* Names with hyphens stand in brackets, or in an entry: `step one-warp "..";`. */
    bool products = false, bracket = open && (open->kind != '{' || open->entries);
    for (int i = piece->first; i >= 0; i = items[i].link) products |= items[i].role == FMT_PRODUCT;
    for (int i = piece->first; i >= 0;) {
        if (items[i].role == FMT_SUM) {
            items[i].tight = items[i].tight && bracket && !products;
            i = items[i].link;
            continue;
        }
        bool tight = true;
        int end = i;
        for (; end >= 0 && items[end].role == FMT_PRODUCT; end = items[end].link) tight &= items[end].tight;
        for (; i != end; i = items[i].link) items[i].tight = tight || window || piece->window;
    }
    *piece = (Piece){ -1, -1, window };
}

static bool tight_in_source(const Fmt *f, int i)
{
    const FmtItem *item = &f->items.data[i];
    return i > 0 && i + 1 < (int)f->items.len && item[-1].end == item->begin && item[1].begin == item->end &&
           item[-1].kind != FMT_COMMENT && item[1].kind != FMT_COMMENT;
}

/* head: the first token of the item of the file */
static FmtRole role_of(const Fmt *f, int i, int head)
{
    const FmtItem *items = f->items.data, *item = &items[i];
    int before = item->before, kind = before < 0 ? 0 : items[before].kind;
    bool binary = before >= 0 && fmt_ends_operand(kind);
    switch (item->kind) {
    case '!':
    case '~': return FMT_UNARY;
    case '+':
    case '-': return binary ? FMT_SUM : FMT_UNARY;
    case '*':
    case '/':
    case '%': return FMT_PRODUCT;
    case SHL:
    case SHR:
    case '&':
    case '|':
    case '^': return FMT_SUM;
    case '?': {
        int next = fmt_next(f, i), after = next < (int)f->items.len ? items[next].kind : 0;
        return after == ',' || after == ')' ? FMT_OPTIONAL : FMT_PLAIN;
    }
    case IDENT: {
        int next = fmt_next(f, i);
        int after = next < (int)f->items.len ? items[next].kind : 0;
        bool call = after == '(', header = item->parent < 0 && items[head].kind == KERNEL;
        bool entry = item->parent >= 0 && items[item->parent].entries && (kind == '{' || kind == ';');
        return (call && (binary || entry)) || (after == '=' && binary && header) ? FMT_CLAUSE : FMT_PLAIN;
    }
    default: return FMT_PLAIN;
    }
}

static void open_bracket(Brackets *b, int i)
{
    FmtItem *items = b->f->items.data, *item = &items[i];
    int before = item->before < 0 ? 0 : items[item->before].kind;
    if (item->kind == '{' && before != IN && before != '=') {
        bool top = item->parent < 0;
        item->block = true;
        item->entries =
            top ? items[b->head].kind != KERNEL && items[b->head].kind != FN : items[item->parent].entries;
        b->level++;
    }
    if (b->n == MOST_OPEN) ir_fail(b->f->session, (Loc){ 0, 0, 0 }, "fmt: brackets are too deep");
    b->open[b->n++] = i;
    b->piece[b->n] = (Piece){ -1, -1, false };
}

static void close_bracket(Brackets *b, int i)
{
    FmtItem *items = b->f->items.data, *item = &items[i];
    if (!b->n) return;
    int open = b->open[--b->n];
    item->match = open;
    item->block = items[open].block;
    items[open].match = i;
    if (item->block) item->level = (uint16_t)--b->level;
}

/* An operator joins the piece of its bracket, and a separator ends the piece. */
static void join_piece(Brackets *b, int i)
{
    Piece *piece = &b->piece[b->n];
    FmtItem *items = b->f->items.data, *item = &items[i];
    if (item->role == FMT_PRODUCT || item->role == FMT_SUM) {
        item->tight = tight_in_source(b->f, i);
        item->link = -1;
        if (piece->last >= 0) items[piece->last].link = i;
        else piece->first = i;
        piece->last = i;
    } else if (item->role != FMT_UNARY && !fmt_ends_operand(item->kind) && !fmt_is_open(item))
        end_piece(b, item->kind == PLUSCOLON);
}

static void find_roles(Fmt *f)
{
    Brackets *b = arena_new(f->arena, Brackets);
    *b = (Brackets){ .f = f, .piece = { { -1, -1, false } } };
    int before = -1;
    for (int i = 0; i < (int)f->items.len; i++) {
        FmtItem *item = &f->items.data[i];
        int kind = before < 0 ? ';' : f->items.data[before].kind;
        item->before = before;
        item->parent = b->n ? b->open[b->n - 1] : -1;
        item->depth = (uint16_t)b->n;
        item->level = (uint16_t)b->level;
        if (item->kind == FMT_COMMENT) continue;
        if (!b->n && (kind == ';' || kind == '}')) b->head = i;
        item->role = (uint8_t)role_of(f, i, b->head);
        if (fmt_is_close(item)) {
            end_piece(b, false);
            close_bracket(b, i);
        } else join_piece(b, i);
        if (fmt_is_open(item)) open_bracket(b, i);
        before = i;
    }
}

/* --- blocks of one line ------------------------------------------------------------------------------ */

/* The `{` of the block after `} else`, or of the one after `} else if ...`; -1: none. */
static int next_of_chain(const Fmt *f, int close)
{
    int n = (int)f->items.len, i = fmt_next(f, close);
    if (i >= n || f->items.data[i].kind != ELSE) return -1;
    int parent = f->items.data[i].parent;
    for (i = fmt_next(f, i); i < n; i = fmt_next(f, i)) {
        const FmtItem *item = &f->items.data[i];
        if (item->block && item->kind == '{' && item->parent == parent) return i;
    }
    return -1;
}

/* A block stays on one line if it is on one; the blocks of an if and its else alike. */
static void find_blocks_of_one_line(Fmt *f)
{
    FmtItem *items = f->items.data;
    int n = (int)f->items.len;
    for (int i = 0; i < n; i++)
        if (items[i].block && items[i].kind == '{' && items[i].match >= 0)
            items[i].one_line = items[i].line == items[items[i].match].line;
    for (int back = 0; back < 2; back++)
        for (int k = 0; k < n; k++) {
            int i = back ? k : n - 1 - k;
            int next = items[i].block && items[i].kind == '}' ? next_of_chain(f, i) : -1;
            if (next < 0 || items[i].match < 0) continue;
            FmtItem *block = &items[items[i].match];
            block->one_line = items[next].one_line = block->one_line && items[next].one_line;
        }
}

/* --- blanks ------------------------------------------------------------------------------------------ */

static bool is_word(char c)
{ return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

/* Whether the two tokens would be read as others if they touched. */
static bool must_part(const Fmt *f, const FmtItem *a, const FmtItem *b)
{
    char x = f->text[a->end - 1], y = f->text[b->begin];
    if (is_word(x) && is_word(y)) return true;
    if (y == '.') return x == '.' || (is_word(x) && a->kind != IDENT);
    if (x == '/' && (y == '/' || y == '*')) return true;
    if (y == '=') return strchr("=!<>+-*/%&|^", x) != NULL;
    return (x == y && strchr("&|<>", x)) || (x == '+' && y == ':');
}

static int blanks_inside_braces(const FmtItem *open, bool empty, int before)
{ return open->block ? 1 : !empty && before != IN; }

/* Blanks between two tokens that follow each other. */
static int blanks(const Fmt *f, int i)
{
    const FmtItem *items = f->items.data, *b = &items[i], *a = &items[b->before];
    const FmtItem *open = a->kind == '{' ? a : b->kind == '}' && b->match >= 0 ? &items[b->match] : NULL;
    if (open) {
        int before = open->before < 0 ? 0 : items[open->before].kind;
        return blanks_inside_braces(open, a->kind == '{' && b->kind == '}', before);
    }
    if (b->kind == ')' || b->kind == ']' || b->kind == ',' || b->kind == ';') return 0;
    if (a->kind == '(' || a->kind == '[' || a->kind == '.' || b->kind == '.') return 0;
    if (a->role == FMT_UNARY || b->role == FMT_OPTIONAL || a->tight || b->tight) return 0;
    if (b->kind == '[') return !fmt_ends_operand(a->kind);
    if (b->kind == '(' && a->kind == IDENT) return a->role == FMT_CLAUSE;
    return 1;
}

void fmt_space(Fmt *f)
{
    find_roles(f);
    find_blocks_of_one_line(f);
    for (int i = 1; i < (int)f->items.len; i++) {
        FmtItem *item = &f->items.data[i], *last = item - 1;
        bool after = last->kind == FMT_COMMENT;
        if (item->kind == FMT_COMMENT) item->space = last->kind != '(' && last->kind != '[';
        else if (after)
            item->space = !(item->kind == ')' || item->kind == ']' || item->kind == ',' || item->kind == ';');
        else item->space = blanks(f, i);
        if (!item->space && !after && item->kind != FMT_COMMENT) item->space = must_part(f, last, item);
    }
}
