/* emit_index.h: numbers of registers, words and places, as data until they are written.
 *
 * Formulas for tables, sums and coordinates are built and combined as nodes. Whoever must know that one is 0,
 * or linear in a loop counter, asks the node, and index_text writes it once. Nothing reads the text. */
#pragma once
#include "backends/gpu/emit_body.h"

typedef enum IndexKind {
    INDEX_NUMBER,   /* add */
    INDEX_VARIABLE, /* scale * text + add, with scale > 0 and add >= 0 */
    INDEX_DIGITS,   /* a sum of digits of `of`, each times its weight, + add */
    INDEX_BITS,     /* the exclusive or of table[1 << b] for each bit b that is set in `of` */
    INDEX_ENTRY,    /* table[of] */
    INDEX_SUM,      /* of + add */
    INDEX_OTHER,    /* any other expression of C: text */
} IndexKind;

/* of / below % size: a digit of a mixed-radix number. */
typedef struct IndexDigit {
    int below, size, weight;
} IndexDigit;

typedef struct Index {
    IndexKind kind;
    int scale, add, n;        /* n: `of` is at least 0 and less than n */
    const char *text;         /* the name of the variable, or the expression */
    struct Index *of;         /* what the formula depends on */
    const IndexDigit *digits; /* n_digits of them, without those of weight 0 */
    int n_digits;
    const int32_t *table; /* n entries: the values of the formula */
    const char *written;  /* by index_text; NULL before */
} Index;

Index *index_number(Emit *, int);
Index *index_variable(Emit *, const char *name);
/* scale * name + add, with scale > 0 and add >= 0. */
Index *index_linear(Emit *, int scale, const char *name, int add);
/* An expression that is known by its text alone. */
Index *index_other(Emit *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* table[i] for 0 <= i < n, as a formula that the compiler folds once loops are unrolled. Copies the table. */
Index *index_entry(Emit *, const int32_t *table, int n, Index *i);
/* i + add, with add >= 0. */
Index *index_plus(Emit *, Index *i, int add);

bool index_is(const Index *, int number);
/* Whether the index is *scale * *name + *add, with *scale > 0 and *add >= 0. */
bool index_is_linear(const Index *, int *scale, const char **name, int *add);
/* The value of the index for the value `v` of its variable, in *out; false: it is not known. */
bool index_value(const Index *, int v, int *out);
/* The name of the variable; NULL: there is none, or it is not known. */
const char *index_name(const Index *);
/* Whether two indices are equal for every value of their variables, as far as their formulas show it. */
bool index_equal(const Index *, const Index *);

/* The expression of C. Formulas are in parentheses unless they are a name or a number. */
const char *index_text(Emit *, Index *);
/* The same without the parentheses around a sum of digits of a variable, to make it part of another sum. */
const char *index_summand(Emit *, Index *);
/* The text of index_entry for a variable. */
const char *entry_text(Emit *, const int32_t *table, int n, const char *variable);
