/* keep_rows.h: of hoist-loads: rows that are kept in shared memory (keep_rows.c), how they are divided into
 * parts (keep_parts.c), and how these are joined in front of reductions (keep_reduced.c). */
#pragma once
#include "passes/kernel/pipeline/hoist_loads.h"

enum { KEEP_MOST_PARTS = 32 };

typedef struct Keep {
    Hoist *c;
    const Layout *whole, *part, *slice; /* of a row, of a part of it, and of a reduced part */
    const char *row_value;              /* the layout of reduced rows */
    int64_t row, chunk;                 /* elements of a row, of a part */
    int line;                      /* bytes: rows that begin anywhere are kept from a multiple of it on */
    int parts, regs;               /* regs: of a part */
    InstrList wide;                /* what works on rows, in order */
    InstrList rows, others;        /* loads that are kept; loads of this segment that are not */
    RowStartAccess start;          /* rows that begin anywhere */
    uint32_t *seen;                /* by value: the segment that needs it */
    ValueMap map[KEEP_MOST_PARTS]; /* the parts of values in this segment */
    int64_t bytes;                 /* of a CTA's rows */
    bool ok, many, places; /* many: more parts than there may be; more threads would do. places: of elements
                              along the row are asked for */
} Keep;

/* Finds the smallest part for which a thread has an access of a row, or 16 bytes. `bytes`: of an element.
 * False: there is none. */
bool keep_find_parts(Keep *, int bytes);
/* Parts of rows that begin anywhere: a vector for each thread, from the aligned address before the row on. */
bool keep_find_vectors(Keep *);
/* A number of which no later pass knows anything. */
Value *keep_unknown(Builder *, DType, int64_t n);
/* Positions of part `p`. Where a row begins within a vector, its parts begin some elements earlier than they
 * say (emit_row_start.c), so that no range of places may be known: those of a part would lie behind those of
 * the part before. */
Value *keep_places(Keep *, Builder *, const Instr *arange, int p);
/* The 16-bit floats whose largest (smallest) magnitude is reduced once they are widened; NULL: it is none. */
Value *keep_narrow_magnitudes(const Keep *, const Instr *end);
/* The part of a row in front of a reduction, with what lies beside the row made neutral. */
Value *keep_within_row(Keep *, Builder *, Value *, int p, Op reduction);
/* Adds a part to those before it; NULL: there is none yet. Sums of products are fused. */
Value *keep_join(Builder *, Value *before, Value *x, Op reduction);
