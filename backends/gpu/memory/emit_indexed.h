/* emit_indexed.h: gathers, scatters and atomic operations while they are emitted (emit_indexed.c), for
 * gathers whose neighbours have few indices (emit_alike.c). */
#pragma once
#include "backends/gpu/emit.h"

/* A gather, scatter or atomic operation that is being emitted. */
typedef struct Indexed {
    const Instr *instr;
    MemParts m;
    const Layout *l; /* the layout of the elements; NULL: there is one element */
    DType d, bits;   /* of an element; in which a gather has it until words are packed */
    bool atomic;
    int64_t sem;
    /* the condition that selects one of the threads that hold an element; "": all threads do the access */
    const char *holder;
    const char *result; /* the array or scalar that receives results; NULL: none, or through shared memory */
    /* When several threads hold an element, one of them does the atomic operation, and the others get the old
     * value through shared memory at this address. NULL: each element has one thread. */
    const char *shared;
    bool gathered; /* changes the words that shared memory has of the tensor (emit_gathered.c) */
} Indexed;

/* The element of an operand that register r holds. */
const char *indexed_value(Emit *, const Value *, const Layout *, Index *r);
/* The condition that the index `ix` of the axis is in range. */
const char *indexed_within(Emit *, const MemParts *, int axis, const char *ix);
/* The distance that the index `ix` of the axis is from the tensor's first element. */
const char *indexed_distance(Emit *, const MemParts *, int axis, const char *ix);
/* The condition of the access of register r, whose coordinates go to c, and its offset in the tensor. */
const char *indexed_condition(Emit *, const Indexed *, Index *r, Index **c, const char **at);
/* Declares the address of the element at this offset. */
const char *indexed_pointer(Emit *, const Indexed *, const char *base, const char *at);
/* What elements hold that are not accessed. */
const char *indexed_padding(Emit *, const Indexed *);
/* Emits the access of register r at pointer p. `old` receives the previous value. */
void indexed_access(Emit *, const Indexed *, const char *old, const char *p, Index *r);
/* The word of n elements that were accessed. */
const char *indexed_word(Emit *, const Indexed *, const char *const *xs, int n);

/* Gathers elements of a lane that follow each other by one or two accesses for all of them (emit_alike.c).
 * False: each of them may have indices of its own. */
bool emit_alike(Emit *, const Indexed *, const char *base);
/* Writes the elements of such a gather that waits for `opaque`. False: it does not. */
bool emit_alike_take(Emit *, const Instr *opaque);
