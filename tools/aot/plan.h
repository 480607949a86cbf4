/* plan.h: what an ahead-of-time launcher knows of its kernels, as one array of 64-bit words: written by tilec
 * (tools/tilec/compile/plan.c), read by launch.c, which is compiled once, when tilec is built, and put into
 * every object that tilec writes.
 *
 *   plan     = PLAN_VERSION, parameters, consts, variants, dims, names; then that many of each but the last
 *   param    = PlanKind, element type, its bytes, axes, 1 if a sign is asked for, 1 if it is optional, the
 *              DLPack code of the element type, and of each of PLAN_MAX_RANK axes the dim that tensors share;
 *              -1: an extent of its own
 *   dim      = its extent if all variants were compiled for the same one by its name, else -1; -2: its
 *              name is an expression
 *   const    = ChoiceKind
 *   variant  = words of it, level, assume, entry, first message, a value for each const, 1 or 0 for each
 *              optional parameter: is it given;
 *              dims, then each: extent, -1 or -2, param, axis;  for each parameter's axes in turn: its dim
 *              slots, then each: SlotKind, param, index
 *              scratch bytes, workspace bytes, workspace bytes a thread, 1 if neighbours among the programs
 *              share lines of the output;  programs: extents, grid, remap, work
 *   program  = inputs, steps, results;  each input: SlotKind, param, index, type;  each step: op, type, a,
 *            b, c, value;  each result: a word
 * level: LEVEL_.. of a processor (ir/target/cpu_level.h); 0 on a GPU. assume: what must hold of the
 * arguments. entry: index into the code that comes with the plan. An extent of -2 is derived: it is what the
 * program of extents gives for it, a result for each such dim in their order. The words of a program: its
 * inputs, then what its steps compute. The first variant that fits is taken. work: that of one program
 * (ir/analysis/work.h), without results where it is not known.
 *
 * names: the word at which the names begin, as characters in the order of a little-endian machine. Each ends
 * with a 0, and they are in this order: the kernel with its bindings, as in libtile's messages; for each
 * parameter its name, its element type and its axes as written; the dims; the consts; the .tile file; the
 * messages of checks, in which a variant's begin at its first message. */
/* begin */
#ifndef TILE_PLAN_H
#define TILE_PLAN_H

enum {
    PLAN_VERSION = 6,
    PLAN_HEAD = 6,
    PLAN_PARAM_WORDS = 15,
    PLAN_VARIANT_HEAD = 5,
    PLAN_SIZES = 4, /* words between the slots and the programs */
    PLAN_MAX_RANK = 8,
    PLAN_MAX_WORDS = 128,
    PLAN_MAX_PARAMS = 256,
    PLAN_MAX_SLOTS = 2048,
    PLAN_MAX_DIMS = 512,
    PLAN_MAX_DERIVED = 64,
    PLAN_MAX_CONSTS = 64,
    PLAN_MAX_CHECKED = 1 << 24, /* programs of a grid with a remap */
    PLAN_SMALL = 1 << 28        /* extents of 32-bit code stay below */
};
#define PLAN_MAX_EXTENT (((int64_t)1 << 48) - 1)
enum { PLAN_IN, PLAN_OUT, PLAN_INOUT, PLAN_SCALAR };
enum { CHOICE_INT, CHOICE_BOOL, CHOICE_FLOAT };                             /* a double's bits */
enum { PLAN_ANY, PLAN_ALIGNED = 1, PLAN_DIVISIBLE = 2, PLAN_POSITIVE = 4 }; /* bits, as Assume in input.h */
enum {
    PLAN_DATA,
    PLAN_EXTENT,
    PLAN_STRIDE,
    PLAN_WORD,
    PLAN_GRID,
    PLAN_TENSOR_MAP,
    PLAN_CHECK,
    PLAN_SCHEDULER,
    PLAN_WORKSPACE,
    PLAN_PRINT,
    PLAN_LINEAR
}; /* SlotKind, and a remap's argument */

/* Types of steps: bits and sign. Floats do not occur in steps; as a parameter's element type they do. */
enum {
    WORD_BOOL,
    WORD_I8,
    WORD_I16,
    WORD_I32,
    WORD_I64,
    WORD_U8,
    WORD_U16,
    WORD_U32,
    WORD_U64,
    WORD_F32,
    WORD_F64,
    WORD_OTHER
};

enum {
    STEP_CONST,
    STEP_NEG,
    STEP_ABS,
    STEP_ADD,
    STEP_SUB,
    STEP_MUL,
    STEP_DIV,
    STEP_REM,
    STEP_CDIV,
    STEP_MIN,
    STEP_MAX,
    STEP_FMA,
    STEP_CLAMP,
    STEP_AND,
    STEP_OR,
    STEP_XOR,
    STEP_NOT,
    STEP_SHL,
    STEP_SHR,
    STEP_EQ,
    STEP_NE,
    STEP_LT,
    STEP_LE,
    STEP_GT,
    STEP_GE,
    STEP_WHERE,
    STEP_CAST
};
#endif
/* end */
