/* parse.h: what lexer.l and parser.y call; parse.c implements it. */
#pragma once
#include "frontend/parse/ast.h"

typedef struct Parse {
    Session *session;
    Ast *ast;
    uint32_t file;
    uint32_t at;        /* the scanner's byte offset */
    Loc before;         /* the token before the one just read */
    uint32_t lex_error; /* end of the last token that the scanner refused; 0: none */
    Loc comment;        /* where an open comment began */
    int brackets;
    bool too_deep; /* reported once a file */
    bool unclosed; /* a `}` was missing before an item; then every item behind it stands in that block */
    bool formula;  /* the text is one expression (formula.c) */
    Node *result;
    VEC(Node *) imports;
} Parse;

void *parse_lexer_new(Parse *, const char *text, size_t len);
int parse_run(void *scanner, Parse *);
/* Reads one source into p->result and p->imports; p->result stays NULL after an error that leaves no tree. */
void parse_source(Parse *);
/* Whether source `file` has the grammar of a program; its imports are not read. Diagnostics go to the
 * session. */
bool parse_alone(Session *, uint32_t file);

/* for the scanner */
const char *parse_name(Parse *, const char *, size_t);
Node *parse_int(Parse *, Loc, const char *, size_t);
Node *parse_float(Parse *, Loc, const char *, size_t);
Node *parse_string(Parse *, Loc, const char *, size_t);
/* A decimal number without sign to the nearest double; false when it is no number. Independent of the locale.
 */
bool parse_decimal(Session *, const char *, size_t, double *);
void parse_bad_number(Parse *, Loc, const char *, size_t);
void parse_bad_bytes(Parse *, Loc, const char *, size_t);
void parse_lex_error(Parse *, Loc, const char *message, const char *note);
void parse_open(Parse *, Loc);
void parse_close(Parse *);

/* Whether the token just read stands where an item begins: there `ladder` is a keyword, and elsewhere a name.
 */
bool parse_begins_item(const Parse *);

/* for the grammar */
Node *parse_node(Parse *, NodeKind, Loc);
Node *parse_node_of(Parse *, NodeKind, Loc, Node **kids, size_t n);
Node *parse_named(Parse *, Node *, const char *name, Loc);
Node *parse_oper(Node *, int op);
Node *parse_word(Parse *, const char *name, Loc);
Node *parse_bool(Parse *, Loc, int);
NodeList parse_push(Parse *, NodeList, Node *);
NodeList parse_prepend(Parse *, Node *, NodeList);
Node *parse_append(Parse *, Node *list, Node *);
Node *parse_list(Parse *, NodeKind, Loc, NodeList);
Node *parse_tuple(Parse *, Loc, Node *first, NodeList rest);
Node *parse_table(Parse *, Loc, Node *length, NodeList entries);
Node *parse_tensor(
    Parse *, Loc, int io, const char *type, Loc type_loc, const char *name, Loc name_loc, NodeList dims);
Node *parse_optional(Node *tensor, int optional);
/* The const parameter; where its default is the word `auto`, a value that auto.c will replace stands there.
 */
Node *parse_auto(Parse *, Node *param);
Node *parse_bind(Parse *, NodeKind, Loc, Node *target, Node *value);
Node *parse_for(Parse *, Loc, int is_const, const char *name, Loc name_loc, Node *lo, Node *hi, Node *step,
    Node *hint, Node *body);
Node *parse_const_if(Node *);
Node *parse_index(Parse *, Loc, Node *base, NodeList axes);
Node *parse_arg(Parse *, Loc, const char *target, const char *name, Loc name_loc, Node *value);
/* A step of a ladder; `word` must be `step`. */
Node *parse_step(Parse *, Loc, const char *word, Loc word_loc, Node *step);
/* "a-b", interned. */
const char *parse_hyphen(Parse *, const char *a, const char *b);
Node *parse_import(Parse *, Loc, Node *path);
void parse_file(Parse *, Loc, NodeList items);

void parse_syntax_error(Parse *, Loc, const char *token, const char *const *expected, int n);
void parse_too_deep(Parse *, Loc);
