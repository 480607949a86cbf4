/* parse.h: what the parts of the reader of IR text share: parse_token.c reads tokens, parse_value.c types,
 * values and attributes, parse.c instructions and functions.
 *
 * Recursive descent over the text, one token ahead. The first error ends the work: the token becomes the end
 * of the text, from which every loop leaves by itself. */
#pragma once
#include "ir/text/text.h"

typedef enum TokenKind { TOK_END, TOK_NAME, TOK_VALUE, TOK_NUMBER, TOK_STRING, TOK_PUNCT } TokenKind;

typedef struct Token {
    TokenKind kind;
    const char *at; /* NAME, NUMBER: the text; VALUE: the name without % and .id; PUNCT: the character */
    size_t len;
    uint32_t begin, end, id;
    bool first_on_line;
} Token;

typedef struct Parser {
    Session *s;
    const Source *src;
    uint32_t file, pos;
    Token tok;
    bool failed;
    int depth;
    Module *module;
    Func *func;
    Value **values;
    size_t n_values, cap_values; /* by id: open addressing */
} Parser;

typedef VEC(Attr) AttrList;
typedef VEC(const Type *) Types;
typedef struct Name {
    const char *name;
    uint32_t id;
    Loc loc;
} Name;
typedef VEC(Name) Names;

/* parse_token.c. Reports the first error of the text; later ones are dropped. */
__attribute__((format(printf, 3, 4))) void irread_fail(Parser *, Loc, const char *fmt, ...);
static inline Loc irread_here(const Parser *p) { return (Loc){ p->file, p->tok.begin, p->tok.end }; }
static inline char irread_char(const Parser *p, uint32_t pos)
{ return pos < p->src->len ? p->src->text[pos] : '\0'; }
void irread_next(Parser *);
bool irread_is_punct(const Parser *, char c);
bool irread_text_is(const Token *, const char *s);
bool irread_is_name(const Parser *, const char *s);
const char *irread_found(Parser *); /* the token, for a message */
/* Take the token where it is this one; irread_expect reports another one. */
bool irread_accept(Parser *, char c);
bool irread_accept_name(Parser *, const char *s);
void irread_expect(Parser *, char c);
void irread_expect_name(Parser *, const char *s);
const char *irread_name(Parser *, const char *what); /* interned */
/* Decimal integers of 64 bits; those above the largest signed one are kept as their two's complement bits if
 * `wide`. */
int64_t irread_integer(Parser *, bool wide);
int64_t irread_integer_in(Parser *, int64_t lo, int64_t hi, const char *what);
double irread_number(Parser *);
const char *irread_string(Parser *);

/* parse_value.c */
const Type *irread_type(Parser *);
void irread_define(Parser *, Value *, Name); /* from here on, the value has this name and number */
Name irread_value_name(Parser *);
Value *irread_use(Parser *);
void irread_uses(Parser *, ValueList *out); /* one or more, with commas between */
int64_t irread_dim_ref(Parser *);
/* `{` opens attributes when a name and `=` follow, else a block. */
void irread_optional_attributes(Parser *, AttrList *out);
