/* eval.h: loop nests over tiles, and the evaluation of virtual tiles at a chunk of elements (nest.c, eval.c).
 * cpu.h includes it. */
#pragma once

typedef struct Memo {
    Value *value;
    LLVMValueRef coord[TILE_MAX_RANK];
    int va;
    LLVMValueRef result;
    struct Memo *next;
} Memo;
typedef struct WindowRow WindowRow;

/* The places of evaluation. Code of a chunk goes to the builder's position. Code that is the same for the
 * whole row goes to the end of `row`, a block without a terminator yet. */
typedef struct Eval {
    Gen *g;
    int lanes;
    LLVMBasicBlockRef row; /* NULL: the chunk is the whole row, with one position for all */
    struct Eval *row_eval; /* the evaluation at the position of the row, with lanes = 1 */
    Memo **memo;           /* chains by value; `memo_room` of them, a power of two */
    uint32_t n_memo, memo_room;
    WindowRow *rows;
    /* The nest whose tiles are computed here, even if their sinks are not yet emitted; or NULL. */
    Step *step;
    LLVMValueRef at; /* where the chunk begins along the last axis of the nest; NULL: in no nest */
    /* For the evaluation of a row: chunks assume that windows are in range and that their elements are
     * contiguous for the whole row. `plain` is the condition for this (an i1 of the row; NULL: it always
     * holds). */
    bool assume;
    LLVMValueRef plain;
    /* What `plain` consists of: windows whose elements are side by side (i1; NULL: always), and for which
     * chunks of the nest those that may be cut off are all in range (NULL: for all). */
    LLVMValueRef side, from, upto;
    int n_cut;  /* of the windows that may be cut off */
    bool apart; /* one of them moves otherwise than the nest's chunks do: for which is not known */
} Eval;

/* `v` (a tile) at coord[0..rank), axis va (if >= 0) covering lanes coord[va] .. + lanes. */
LLVMValueRef nest_eval(Eval *, Value *v, LLVMValueRef *coord, int va);
/* Whether it is read from a buffer there, and not computed. */
bool nest_reads_buffer(const Eval *, Value *v);
/* From now on `v` is x there. */
void eval_assume(Eval *, Value *v, LLVMValueRef *coord, int va, LLVMValueRef x);
void nest_emit(Gen *, Step *);
/* Coordinates of a value of type `t` from those of squeezed axes; returns the axis of the last (-1: none). */
int unsqueeze(Gen *, const Type *t, LLVMValueRef *squeezed, int n, LLVMValueRef *coord);
void eval_init(Eval *, Gen *, int lanes);
/* Work that belongs to the row: moves the builder to the row's end, and back. */
typedef struct RowPlace {
    LLVMBasicBlockRef back;
    bool moved;
} RowPlace;
RowPlace row_enter(Eval *);
void row_leave(Eval *, RowPlace);
/* below_maximum.c. The reduction `op` whose results v repeats along the axis that it went along, each for the
 * row that it is of; NULL: v is something else. */
const Instr *eval_repeated(const Value *v, Op op);
/* The factor by which v is another value multiplied, a positive constant in reach of f32; 0: it is none. */
double eval_positive_factor(const Value *v, Value **of);
/* Whether v is x less a maximum that x is one of, or a positive multiple: at most 0, or a NaN. */
bool eval_is_below_0(const Func *, Value *v);
/* Whether v is a power of such a difference: of [0, 1], or a NaN. */
bool eval_is_at_most_1(const Func *, const Value *v);
/* quotient.c: x / y for a y that is the same in the whole row; whether it takes less time than to divide. */
LLVMValueRef quotient_of_row(Eval *, LLVMValueRef x, LLVMValueRef y, bool in_0_1);
bool quotient_pays(const CpuTarget *);
/* exponential.c, on f32: of x <= 0 and of NaN, 2^(factor x) likewise; 2^(factor x) for results of 16 bits
 * (plan_need), of any x or of such. */
LLVMValueRef vector_exp_below_0(Gen *, LLVMValueRef x);
LLVMValueRef vector_exp2_below_0(Gen *, LLVMValueRef x, double factor);
LLVMValueRef vector_exp2_narrow(Gen *, LLVMValueRef x, double factor, bool below_0);
/* 2^(factor (x - most)) for results of 16 bits, of numbers of f16 and one value of f32 for a row; factor is 1
 * or log2 e. `below_0` says that no x is above `most`. vector_row_power makes what the row has in common, of
 * a `most` of one lane; repeated to the lanes of x, it serves each x of the row. `lanes` are those of x. */
enum { ROW_POWER_TERMS = 4 };
typedef struct RowPower {
    double factor;
    int n_terms;
    LLVMValueRef least, /* of x; NULL: there is no limit */
        shift, terms[ROW_POWER_TERMS];
} RowPower;
bool vector_has_row_powers(Gen *, LLVMValueRef x, bool below_0);
RowPower vector_row_power(Gen *, LLVMValueRef most, double factor, int lanes);
LLVMValueRef vector_exp2_of_row(Gen *, LLVMValueRef x, const RowPower *);
