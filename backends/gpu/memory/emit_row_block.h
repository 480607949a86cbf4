/* emit_row_block.h: several rows on their way through shared memory (passes/kernel/layout/row_block.c). */
#pragma once
#include "backends/gpu/emit.h"

typedef struct RowBlock {
    Emit *e;
    const Window *w;
    const Layout *l;
    const char *ptr, *shared;
    const char *dense;           /* the condition that they are one piece */
    const char *begin, *between; /* bytes of the first row's address, and from row to row, in 32 bits */
    const char *stride;          /* elements from row to row */
    int outer;                   /* the tensor's axis along which rows follow each other */
    const char *rows;            /* that are in range; NULL: all */
    const char *before;          /* the window's first row, which may be below 0; NULL: it is not */
    const char *left;            /* bytes of the rows that are in range; NULL: all */
    DType bits;                  /* of an element */
    int n, bytes, vectors;       /* rows; of an element; of a thread */
    bool words;                  /* the elements of a word are in neighbouring registers */
    bool filled;                 /* shared memory gets zeros where nothing is in range */
    bool apart;                  /* each row goes by the vectors around it (emit_row_gaps.c) */
    int whole;                   /* bytes at multiples of which each row begins and ends, 16 at most */
    int64_t row, all;            /* elements of a row; bytes of all rows */
} RowBlock;

/* emit_row_gaps.c: rows that are stored with gaps between them. The bytes from row to row in shared memory,
 * an odd number of vectors, so that few lanes meet in a bank; the declarations that its other functions use;
 * the place of an element there, whose row and column are texts; and what is copied from there. */
int row_gaps_pitch(const RowBlock *);
void row_gaps_begin(RowBlock *);
const char *row_gaps_place(const RowBlock *, const char *row, const char *column);
void row_gaps_store(const RowBlock *);
