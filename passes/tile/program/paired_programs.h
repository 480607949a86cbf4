/* paired_programs.h: between the files of paired-programs: the pass (paired_programs.c), and sums of
 * neighbouring programs that are one (paired_wide.c). */
#pragma once
#include "passes/tile/program/pack.h"

enum {
    MOST_PAIRED = 4, /* programs */
    MOST_WIDE = 8    /* loops */
};

/* A loop that adds one product, whose right operands of neighbouring programs lie side by side. */
typedef struct Wide {
    Instr *loop, *product, *load;
    Instr *permute; /* of the loaded tile; NULL: none */
    int carried;    /* which carried value is the sum */
    int axis;       /* of the window */
} Wide;

typedef struct Paired {
    Pack p;                    /* the axis, and what differs between programs */
    ValueMap map[MOST_PAIRED]; /* from a value of the first program to that of another one */
    bool again;                /* programs past the last one do what the last one does */
    int shared;                /* products that share their left operand, and have right ones of their own */
    Wide wide[MOST_WIDE];
    int n_wide;
} Paired;

/* Whether each program has a value of its own: one that varied before programs became one, or one made since,
 * such as the coordinate and the results of a loop that carries more, for which each has another. */
bool paired_is_own(const Paired *, Value *);

/* Whether each program has to do it by itself. */
bool paired_is_done_by_each(const Paired *, const Instr *);

/* paired_wide.c */
void paired_find_wide(Paired *); /* the loops of the body whose sums can be one */
/* Makes one sum of those of all programs, of which each gets its columns behind the loop. Returns the loop,
 * which is another instruction then; NULL: it is none of those that were found. */
Instr *paired_widen(Paired *, Instr *loop);
