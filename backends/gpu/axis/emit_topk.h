/* emit_topk.h: what the ways to the largest few of a row share (emit_topk.c, emit_topk_few.c). */
#pragma once
#include "backends/gpu/axis/emit_best.h"

/* Elements of the row as integers in its order (sort_key), TAKEN where a round took one or none is. */
typedef struct TopkRounds {
    const char *keys;  /* of all registers */
    const char *most;  /* of each row: the largest key that is left */
    const char *own;   /* of each row: where the thread itself has it, or NOWHERE */
    const char *owned; /* of each row: the element there; NULL: nothing uses elements */
    /* Elements come from their keys, where registers do not hold both. minus: of each row, whether the
     * thread's own is -0.0; minus_bits: a bit for each element; NULL for integers, whose keys tell all. */
    bool from_keys;
    const char *minus, *minus_bits;
} TopkRounds;

/* Where results of topk lie in shared memory: values at base, positions `at` bytes behind; those that
 * something uses. */
typedef struct TopkCells {
    const char *base;
    int64_t at;
    bool values, places;
} TopkCells;

/* Whether a key of 32 bits holds each element, and TAKEN beside them. */
bool topk_has_keys(DType);
/* Whether keys and elements beside them take more registers than a thread well has. */
bool topk_keys_are_many(const Emit *, const Best *);
/* The elements of each row that have the keys r->most, into r->owned. */
void topk_elements_of_keys(Emit *, const Best *, const TopkRounds *r);
/* Stores element n of each row, under a condition on register i of the rows ("": always). */
void topk_store(
    Emit *, const Best *, const TopkCells *to, int64_t k, const char *n, const char *cond, const char *value);
/* One search for each element; the keys are there, and `free` bytes of the scratch area are in use. */
void topk_by_rounds(Emit *, const Best *, const Value *x, const TopkCells *to, const TopkRounds *keys,
    int64_t k, int64_t free);
/* emit_topk_few.c: whether each warp finds the largest few of one row among candidates, which take so many
 * bytes of shared memory behind `free`. */
enum { TOPK_CANDIDATE_BYTES = 32 * 12 }; /* of a warp: keys, positions, elements */
bool topk_takes_candidates(const Emit *, const Best *, const TopkCells *, int64_t k);
void topk_by_candidates(
    Emit *, const Best *, const Value *x, const TopkCells *to, TopkRounds *keys, int64_t k, int64_t free);
/* Whether lanes merge the largest two of what each has. */
bool topk_takes_pairs(const Emit *, const Best *, const TopkCells *, int64_t k);
void topk_by_pairs(Emit *, const Best *, const Value *x, const TopkCells *to, TopkRounds *keys, int64_t free);
