/* emit_pairs.h: a run of element-wise operations in which words are computed on (emit_pairs.c), for the sums
 * of products of bytes in it (emit_dots.c). */
#pragma once
#include "backends/gpu/elements/emit_run.h"

enum {
    /* how a value of the run is computed; MASK: the result of a comparison, with all bits of each half set or
       clear; TRUTHS: the comparison of four bytes, or what is made of such, with the top bit of each byte set
       where it holds, the others clear (emit_truths.c); DOTS: the sum of four products in place of the first
       of them, and zeros; QUOTIENTS: four with one test */
    ELEMENTS,
    WORDS,
    MASK,
    TRUTHS,
    DOTS,
    QUOTIENTS
};

typedef struct Paired {
    Emit *e;
    Instr *first, *last;
    const Layout *l;
    uint32_t mark;
    int p, at; /* the elements of a step; the first of them when there is no loop */
    bool loop;
    unsigned char *how;        /* by value */
    bool *asked;               /* by value: a truth that is computed by elements */
    const char **elem, **word; /* by value, at most four entries for each */
    Arms arms;
} Paired;

/* Whether the instruction is of the run. */
bool paired_has(const Paired *, const Instr *);
/* Whether an instruction of the run makes the value. */
static inline bool paired_in_run(const Paired *r, const Value *v) { return v->def && paired_has(r, v->def); }
/* Whether the value has elements of 8 bits, four of which lie in each word. */
bool paired_bytes(const Paired *, const Value *);
/* The tile in registers that has such words: the value itself, or one that a broadcast takes as it is, as
 * where lanes have the copies; NULL: there is none. */
const Value *paired_held(const Paired *, const Value *);
/* emit_bytes.c: whether four bytes are computed at a time; the word of the result. */
bool paired_bytes_fit(const Paired *, const Instr *);
const char *paired_bytes_expr(Paired *, const Instr *);
/* emit_widened.c: whether a conversion to 16 bits makes two elements at a time; word q of its result. */
bool paired_widens(const Paired *, const Instr *);
const char *paired_widened(Paired *, const Instr *, int q);
/* Word q of a sum or difference that subtracts what such a conversion would subtract with its other operand;
 * NULL: it is none. */
const char *paired_unbiased(Paired *, const Instr *, int q);
/* Whether a word with two elements of the value costs no conversion of its own. */
bool paired_has_words(const Paired *, const Value *);
/* emit_half_integers.c: whether two integers of 16 bits are computed at a time; word q of the result; whether
 * four of them become bytes; the word of these. */
bool paired_integers(const Paired *, const Instr *);
const char *paired_integer_word(Paired *, const Instr *, int q);
bool paired_narrows(const Paired *, const Instr *);
const char *paired_narrowed(Paired *, const Instr *);
/* The scalar that is in all places of the tile; NULL: none. */
const Value *paired_repeated(const Paired *, const Value *);
/* The word of a constant of 16 or 8 bits in all places. */
bool paired_constant(const Paired *, const Value *, uint32_t *bits);
/* The register of element x of the group. */
Index *paired_place(const Paired *, int x);
/* Word q of the group, and element x of it. */
bool paired_stored(const Paired *, const Value *); /* in an array in the layout of the run */
const char *paired_word(Paired *, const Value *, int q);
const char *paired_element(Paired *, const Value *, int x);
/* Whether the product is one of bytes, of whose results only sums of four neighbours are asked for, whatever
 * they are in; and whether the run can compute them so. */
bool dots_wanted(Emit *, const Instr *, const Layout *);
bool paired_dots(Paired *, const Instr *);
/* Declares the four elements of a product of which only the sum is asked for, or of a sum of such a product
 * and something else. False: i is neither. */
bool emit_dots(Paired *, const Instr *);
/* Whether four elements of the division can be computed together; the reciprocal of a divisor that the whole
 * tile has, in front of the run; and the four quotients. */
bool quotients_wanted(const Paired *, const Instr *);
void declare_reciprocal(Paired *, const Instr *);
void emit_quotients(Paired *, const Instr *);
/* emit_paired_elements.c: declares what is computed element by element; finds the arms of selections. */
void paired_elements(Paired *, const Instr *);
void paired_arms(Paired *);
/* emit_byte_sums.c: whether the value is a part of a sum of bytes that is kept in halves; whether a sum has
 * such parts; the array of the odd half; and the word of the sum at `slot` of arrays, NULL where it is a
 * part, which is declared and stored then. */
bool byte_sum_is_part(const Emit *, const Value *);
bool byte_sum_of_parts(const Emit *, const Instr *);
/* Whether such a sum takes the value; the arrays of its halves; half of the word that begins `bytes` behind
 * the beginning of two words. */
bool byte_sum_takes(const Emit *, const Value *);
const char *byte_sum_even(Emit *, const Value *);
const char *byte_sum_odd(Emit *, const Value *);
const char *byte_sum_slide(Emit *, const char *first, const char *second, int bytes, bool odd);
const char *byte_sum(Paired *, const Instr *, const char *slot);
/* emit_truths.c: whether the value has its truths in words, and whether the operation can make such; whether
 * a run with the operation may gain by steps of four elements; whether what is planned takes fewer
 * instructions than elements would. */
bool is_truth(const Paired *, const Value *);
bool gives_truths(const Paired *, const Instr *);
bool truths_wanted(const Paired *, const Instr *);
bool truths_pay(const Paired *);
/* Has truths that nobody takes by words computed by elements, or all of them. False: there are none. */
bool truths_leave(Paired *, bool all);
/* Whether later runs may take the words; the array of them beside that of the elements. */
bool truths_go_on(const Paired *, const Value *);
void declare_truths(Emit *, const Value *, int regs);
/* The word of a truth; element x of one; a selection of bytes by one; the words and elements at their places
 * in arrays. */
const char *truths_expr(Paired *, const Instr *);
const char *truth_element(Paired *, const Value *, int x);
const char *chosen_bytes(Paired *, const Instr *);
void store_truths(Paired *, const Value *, const char *slot);
