/* thin.h: what thin.c and thin_dots.c share: a product of few rows or columns that is being emitted. Of one
 * of few columns, "A" and "B" are the other operand each, "rows" its columns. */
#pragma once
#include "backends/cpu/memory.h"
#include "backends/cpu/mma.h"

enum {
    MOST_AT_ONCE = 4,   /* rows */
    LEAST_COLUMNS = 4,  /* of dots, */
    MOST_COLUMNS = 8,   /* and the most of them at once */
    MAX_SUMS = 16,      /* vectors of sums at once: see most_sums */
    BYTES_AT_ONCE = 64, /* of memory along a row: a line */
};

/* Half of the registers: enough that each multiply-add finds the last one finished. */
static inline int most_sums(const CpuTarget *t)
{ return t->n_vector_regs >= 2 * MAX_SUMS ? MAX_SUMS : MAX_SUMS / 2; }

enum { MAX_WINDOWS = 8 };

/* The windows that B is computed from, and how far ahead each is fetched. */
typedef struct Windows {
    Gen *g;
    Window *w[MAX_WINDOWS], saved[MAX_WINDOWS];
    LLVMValueRef ahead[MAX_WINDOWS];
    int n;
    bool too_many;
} Windows;

typedef struct Thin {
    Gen *g;
    Step *s;
    Value *b;
    DType from, as;   /* the type of B, and that products run in */
    DType packed;     /* of the other operand, which is packed */
    int lanes, rows;  /* of a vector of sums; of the sums that are computed at once, */
    int64_t m;        /* of all of them, */
    LLVMValueRef row; /* of which this is the first row */
    int64_t n, k;
    LLVMTypeRef vec;
    bool whole;   /* all that B is computed from is in range; else short code, as it runs at edges alone */
    bool inverts; /* the highest bit of each element of B is inverted (add_quads) */
    LLVMValueRef offsets; /* then: a vector for each row, by which its products are too large */
    Windows windows;
    LLVMValueRef stage; /* not NULL: where the vectors of some rows of B are kept for all rows of A */
    Value *index;       /* not NULL: B is a table of this (thin_index) */
} Thin;

/* acc + a b; with pairs, the elements of a vector of twice as many lanes; with groups of four, of four times.
 */
LLVMValueRef thin_multiply_add(Thin *, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
/* B at (k, column), `width` elements along the axis. */
LLVMValueRef thin_elements(Thin *, LLVMValueRef k, LLVMValueRef column, int axis, int width);
/* The address of the packed operand's elements from k on that belong to row t->row + `row` of the sums; and
 * of a sum. */
LLVMValueRef thin_a_at(Thin *, int row, LLVMValueRef k);
LLVMValueRef thin_sum_at(Thin *, const Buf *, int row, LLVMValueRef column);
/* The offset of row t->row + r. */
LLVMValueRef thin_offset_of(Thin *, int r);

/* thin_dots.c: packs the few columns of B as rows; the product in dots; and the value of which B is a table.
 */
void thin_columns_as_rows(Thin *);
void thin_dots(Thin *);
Value *thin_index(Thin *);
