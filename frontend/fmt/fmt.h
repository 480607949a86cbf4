/* fmt.h: the formatter of `tilec fmt`: the same tokens and comments with the tree's indentation and spacing.
 *
 * fmt_tokens.c splits the source into items (tokens of lexer.l, and comments) and decides the blanks between
 * them; fmt_align.c finds assignments that stand in columns; fmt_lines.c decides where lines end; fmt.c calls
 * them, writes the text and compares it with the source. */
#pragma once
#include "frontend/frontend.h"

enum { FMT_WIDTH = 110, FMT_WIDTH_LEAST = 40, FMT_INDENT = 4 };

/* Writes source `file` to `out`, formatted for lines of `width` columns. Imports are not followed. False,
 * with diagnostics in the session, when the file does not parse; then nothing is written. A line is longer
 * than `width` only where it holds one long token or a comment. */
bool frontend_format(Session *, uint32_t file, int width, Text *out);

/* --- what the files of the formatter share ------------------------------------------------------------ */

typedef enum FmtRole { FMT_PLAIN, FMT_UNARY, FMT_PRODUCT, FMT_SUM, FMT_OPTIONAL, FMT_CLAUSE } FmtRole;

/* A token or a comment. */
typedef struct FmtItem {
    int kind;            /* the token's code, or FMT_COMMENT */
    uint32_t begin, end; /* bytes of the source */
    int line;            /* line of `begin`, from 0 */
    int space;           /* blanks before it, unless it begins a line */
    int width;           /* columns; of a comment of several lines: its first line */
    int parent;          /* the bracket around it, or -1 */
    int match;           /* of a bracket: its partner, or -1 */
    int before;          /* the token before it, comments left out; -1: none */
    int link;            /* the next operator of the same piece of an expression, or -1 */
    int column, base; /* of an open bracket, when laid: the column of what it holds; its line's indentation */
    uint16_t depth;   /* open brackets around it */
    uint16_t level;   /* open blocks around it */
    uint8_t newlines; /* before it: 0, 1, or 2 where there is a blank line */
    uint8_t role;     /* FmtRole */
    bool tight;       /* an operator without blanks around it */
    bool block;       /* a brace of a block */
    bool entries;     /* a brace of a block of entries, as of `tune` */
    bool one_line;    /* of a block's `{`: the block stays on one line */
    bool ends_line;   /* a comment after which a line ends */
    bool hangs;       /* of an open bracket, when laid: its content begins on a new line */
} FmtItem;
enum { FMT_COMMENT = -2 };

typedef struct FmtLine {
    int first, end; /* items; equal when the line is a comment in the column of the one above */
    int indent;
    int comment; /* the item that ends the line as a comment, or -1 */
    bool blank;  /* a blank line before it */
} FmtLine;

typedef struct Fmt {
    Session *session;
    Arena *arena;
    const char *text;
    int width;
    VEC(FmtItem) items;
    VEC(FmtLine) lines;
} Fmt;

/* Fills `items` from the text of `file`, without their blanks. */
void fmt_read(Fmt *, uint32_t file);
/* Whether the text of `file` has the same tokens and comments, but for blanks inside of comments. */
bool fmt_same(const Fmt *, uint32_t file);
/* Decides roles, blocks and blanks. */
void fmt_space(Fmt *);
/* Widens the blanks before `=` where the source has them in a column. */
void fmt_align(Fmt *);
void fmt_lay(Fmt *);
/* The column of an item in the source, from 0. */
int fmt_column(const Fmt *, int item);
/* The next token, comments left out; items.len: none. */
int fmt_next(const Fmt *, int item);
/* Columns of n bytes of UTF-8. */
int fmt_columns(const char *, size_t n);
/* Whether the token ends an operand, so that an operator that follows has two. */
bool fmt_ends_operand(int kind);
static inline bool fmt_is_open(const FmtItem *i)
{ return i->kind == '(' || i->kind == '[' || i->kind == '{'; }
static inline bool fmt_is_close(const FmtItem *i)
{ return i->kind == ')' || i->kind == ']' || i->kind == '}'; }
