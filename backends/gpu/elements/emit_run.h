/* emit_run.h: what runs of element-wise operations (emit_elements.c, emit_pairs.c) share, and declare beside
 * their values. */
#pragma once
#include "backends/gpu/emit.h"

/* pack_expr of elements of v (emit_tile.c). Those of a cast to fp8 are computed: their NaN has any sign. */
const char *pack_word_of(Emit *, const Value *v, const char *const *elems, int n);
/* Declares the entry of a lookup's table that this lane holds. */
void declare_table(Emit *, const Instr *);
/* The cosine that a run computes of the operand of sine i, or the sine of that of cosine i; NULL: none. */
const Instr *sincos_partner(Emit *, const Instr *i, uint32_t mark);
/* Whether the partner comes before i, which then has its names already. */
bool sincos_is_done(const Instr *i, const Instr *partner);
/* Declares element x of both, whose operand is `arg`. Returns the name of i's, and that of the other. */
const char *emit_sincos(
    Emit *, const Instr *i, const Instr *partner, int x, const char *arg, const char **other);
/* How many elements that follow each other in registers take their random bits together (emit_random.c): 4 or
 * 2 that are side by side along an axis along which the counter counts from a multiple of as many; 4 where it
 * counts from anywhere; or 1. */
int random_elements_of_block(Emit *, const Instr *, const Layout *);
/* In how many steps of four, at most, elements lie side by side whose counter begins anywhere; 0: it begins
 * at multiples of four, or elements are computed one by one. */
int random_steps(Emit *, const Instr *, const Layout *);
/* Declares in front of a run the blocks that its steps hand on. */
void declare_random_blocks(Emit *, const Instr *first, const Instr *last, uint32_t mark, const Layout *);
/* Computes the random bits of so many elements of one step, of the seed args[0] and the first counter
 * args[1], and gives expressions of them. */
void emit_random_block(
    Emit *, const Instr *, const Layout *, const char *step, const char *const *args, const char **words);
/* emit_element.c: the bytes of which the operation makes floats, or those to whose floats it adds a whole
 * number; NULL: it does neither, or has it done by the unit that converts, which takes four times as long as
 * others. *plus: the number, or 0. The float of the byte at register i of a tile that is held in words, and
 * the number added to it by the same sum; NULL: it is not held. The function of a word and of a byte's place
 * in it, and its result with what is added. */
const Value *byte_to_float_plus(const Emit *, const Instr *, double *plus);
const char *byte_to_float(Emit *, const Value *, double plus, const Layout *, Index *i);
const char *byte_float_fn(Emit *, DType, double plus);
const char *byte_float_plus(Emit *, DType, const char *x, double plus);
/* Scalars of an instruction in its C declaration (emit.c). */
void emit_elementwise(Emit *, Instr *);

/* Operations of a run that one arm of a selection alone needs (emit_arms.c). */
typedef struct Arms {
    const Instr *first;
    uint32_t mark; /* of the run */
    void *user;
    /* Whether elements of the operation are computed one by one, and by it alone. */
    bool (*alone)(void *user, const Instr *);
    /* Declares element x of the operation; the expression of element x of a value; what it is called. */
    void (*emit)(void *user, const Instr *, int x);
    const char *(*element)(void *user, const Value *, int x);
    void (*name)(void *user, const Value *, int x, const char *);
    const Instr **of;   /* by value: the selection into whose arm it moves; NULL: none */
    unsigned char *arm; /* by value: 1 + the operand of the selection whose operations move; 0: none */
    const Value
        *seed; /* of random numbers in arms, whose keys are computed in front of the run; NULL: none */
    const char *keys;
} Arms;

/* Finds the arms of the run that end at `last`. False: there are none. */
bool arms_find(Arms *, Emit *, const Instr *last);
/* Whether the operation is computed in an arm. */
bool arms_move(const Arms *, const Instr *);
/* Declares in front of the run what its arms share. */
void arms_begin(Arms *, Emit *, const Instr *last);
/* The expression of an operation of the run. */
const char *arms_expr(const Arms *, Emit *, const Instr *, const char *const *args);
/* Declares element x of the selection, with its arm. False: it has no arm of its own. */
bool arms_emit(const Arms *, Emit *, const Instr *, int x);
