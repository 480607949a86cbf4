/* emit_body.h: the body of a kernel as a list of statements, and the values that statements declare.
 *
 * An expression is C text with references. Where it reads a declared value, it holds a reference to the
 * value's node instead of the value's name. `declare` makes a node and returns a reference to it; `str` and
 * `line` carry references along like any other text. A statement counts the references that it holds when it
 * is added to a body. When the body is complete, body_print leaves out the declarations that no statement
 * refers to, and writes the names of the others where their references stand. Nothing ever searches the
 * text for names. A conjunction that may be computed with or without branches is a mark too (AND). */
#pragma once
#include "ir/ir.h"

typedef struct Emit Emit;

/* `&&` in a condition; `&` between two marks ALL_TERMS (without_branches). */
#define AND "\2"
#define ALL_TERMS "\3"

/* A value that a statement declares: `const TYPE name = EXPRESSION;`, where the expression has no effects. Or
 * a function of the prelude. */
typedef struct ValueNode {
    const char *name;
    struct Statement *declaration; /* NULL: a function */
    int uses;                      /* references in statements that are not left out */
} ValueNode;

typedef enum StatementKind {
    STATEMENT_TEXT,
    STATEMENT_VALUE,    /* declares a value; left out when nothing reads it */
    STATEMENT_POSITION, /* #line, and the line of the spec as a comment; left out when no statement follows
                           before the next one. Its text holds no references. */
} StatementKind;

typedef struct Statement {
    struct Statement *next;
    const char *text;
    StatementKind kind;
    int indent; /* levels */
    bool gone;  /* left out */
} Statement;

typedef struct Body {
    Statement *first, *last;
} Body;

/* Adds a statement to the body that is being written, at the current indentation. */
void line(Emit *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same without indentation: a preprocessor directive. */
void directive(Emit *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds a statement to another body. */
void line_in(Emit *, Body *, int indent, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Adds a position, which is one or two lines of text without references. */
void add_position(Emit *, const char *text);
/* Adds all statements of `from` after those of `to`. */
void body_append(Body *to, const Body *from);

/* Declares the scalar or view `v`, whose expression has no effects, and makes a reference to it v's storage.
 */
const char *declare(Emit *, const Value *v, const char *expr);
/* Declares a value of a C type in some body; returns a reference. */
const char *declare_in(Emit *, Body *, int indent, const char *type, const char *name, const char *expr);
/* Makes the node of a function of the prelude; returns a reference. */
const char *refer_to_function(Emit *, const char *name, ValueNode **node);
/* An expression with the names of the values in place of references, to derive a new name from it. */
const char *spelled(Emit *, const char *expr);

/* Leaves out the declarations that nothing reads, and writes the rest. */
void body_print(Emit *, Body *, Text *out);
