/* mma.h: what mma.c and mma_pack.c share. */
#pragma once
#include "backends/cpu/cpu.h"

static inline int mma_vector_lanes(const CpuTarget *t, MmaKind k)
{ return t->vector_bytes / (k == MMA_F64 ? 8 : 4); }

/* A tile register of AMX: rows of 64 bytes. */
enum { AMX_ROWS = 16, AMX_ROW_BYTES = 64 };
static inline bool mma_is_amx(MmaKind k) { return k == MMA_AMX_BF16 || k == MMA_AMX_F16 || k == MMA_AMX_I8; }

enum { MAX_VECTORS = 8, /* of a panel */ MAX_JOINED = 9 /* products by AMX that are computed at once */ };

/* unit.c: the vectors of multiply-adds that the unit starts in a cycle. */
double mma_starts(const CpuTarget *, MmaKind);

/* A product that is being emitted. */
typedef struct MmaProduct {
    Gen *g;
    Step *s;
    int lanes;
    int64_t m, n, k;
    LLVMTypeRef vec;
    DType acc;
    LLVMValueRef a, b, from, to; /* the addresses; from: NULL means that the sum starts at zero */
    /* For AMX: the operands of the products that are computed at once, the last one first, and the bytes from
     * row to row of A. */
    struct {
        LLVMValueRef a, b, a_row;
    } parts[MAX_JOINED];
    int n_parts;
    /* The windows of A and B that the next step of the loop packs: `rows` rows of `bytes` bytes that are side
     * by side, `stride` bytes apart. */
    struct {
        LLVMValueRef at, stride;
        int64_t rows, bytes;
    } next[2];
    int n_next;
    LLVMValueRef real[3]; /* how many rows, columns and elements along K are in range; NULL: all */
    int64_t blocks;       /* of the accumulator; each fetches a part of the next windows */
    /* Bytes from row to row of A and of the sums as they begin and in the end, from panel to panel of B, and
     * the panels and steps along K: constants, or in a function that products share what it is called with
     * (mma_shared.c). steps: that function's alone. */
    LLVMValueRef a_row, from_row, to_row, panel_bytes, panels, steps;
    bool shared;
    LLVMValueRef too_much[MAX_VECTORS]; /* of the columns of this panel, if A has an offset of 128 */
} MmaProduct;
void amx_product(MmaProduct *);
/* The product by AMX before `s` in its block, from whose sums it goes on in the same tile registers; NULL:
 * there is none. */
Step *amx_before(const Steps *in, const Step *s);
/* Block number `block` fetches its part of the next windows into the second cache, so that memory works while
 * the product is computed. */
void mma_fetch(MmaProduct *, LLVMValueRef block);

/* mma_shared.c: whether the product shares a function with another one of its block of steps; then the part
 * of the function's name that both have, and their own arguments. */
bool mma_shares(const MmaProduct *);
int mma_add_shared(MmaProduct *, LLVMValueRef *arguments, int n, Text *name);
/* Takes them in the function, from parameter `at` on. */
void mma_take_shared(MmaProduct *, LLVMValueRef function, unsigned at);
static inline int64_t mma_steps(const Step *s)
{
    int64_t group = mma_group(s->a->dtype);
    return (ir_operand(s->instr, 0)->type->shape[1] + group - 1) / group;
}
/* mma_block.c: computes mr rows from row0 and nv vectors of the panel at `column`, of which `columns` columns
 * are real. */
void mma_block(MmaProduct *, int mr, int nv, int64_t columns, LLVMValueRef row0, LLVMValueRef panel,
    LLVMValueRef column);
void mma_sum_columns(MmaProduct *, int nv, LLVMValueRef panel);
/* acc + a * b, or the dot products of a's and b's groups, by the unit of the product. */
LLVMValueRef mma_multiply_add(MmaProduct *, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
/* acc + dot products of pairs of bf16, and of 16-bit integers. */
LLVMValueRef mma_add_bf16_pairs(Gen *, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef mma_add_i16_pairs(Gen *, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
/* mma_pack.c: x: vectors of as many rows as a group has. Makes of them vectors of groups, as integers of 32
 * bits, of ascending columns. */
void mma_interleave(Gen *, LLVMValueRef *x, int group);
enum { MOST_THIN_ROWS = 16 }; /* of a thin product: the sums of some vectors of each row fit the registers */
/* thin.c: whether the product has so few rows that B is multiplied as it is computed, and how, and the unit
 * that it then takes; and such products. */
Thinness mma_thinness(Plan *, const Instr *, MmaKind *);
void thin_emit(Gen *, Step *);
/* thin_tables.c: the value of 4 bits of which the left operand of a product is a table along K; NULL: it is
 * none. */
Value *mma_table(const Plan *, MmaKind, Value *);
/* thin_pairs.c: the largest sum of two products of the 8-bit operands, where the processor has an instruction
 * for such sums and they fit its 16 bits, and whether the left operand is the unsigned one; else 0. */
int mma_pairs(const Plan *, const Instr *, bool *a_is_unsigned);
/* The product together with which the next one of the block, `s`, is computed; NULL: none. */
Step *mma_before(const Steps *in, const Step *s);
/* repeat.c: whether the instruction may be computed again, as it changes nothing. */
bool cpu_can_be_repeated(const Instr *);
/* thin_loop.c: around a loop, what such products of it leave to its end. */
void thin_loop_begin(Gen *, const Step *loop);
void thin_loop_end(Gen *, const Step *loop);
/* thin_blocks.c: the loop itself from `lo` on, of `trips` iterations, if it is done in blocks; false: not. */
bool thin_blocks(Gen *, Step *loop, LLVMValueRef lo, LLVMValueRef step, LLVMValueRef trips);

static inline LLVMValueRef gen_imul(Gen *g, LLVMValueRef a, int64_t k)
{ return LLVMBuildMul(g->b, a, gen_int(g, k), ""); }
static inline LLVMValueRef gen_iadd(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildAdd(g->b, a, b, ""); }
/* n / by, rounded up. */
static inline LLVMValueRef mma_parts_of(Gen *g, LLVMValueRef n, int64_t by)
{ return LLVMBuildUDiv(g->b, gen_iadd(g, n, gen_int(g, by - 1)), gen_int(g, by), ""); }

/* in_place.c: the dense buffer that serves as operand A of a product by AMX; NULL: there is none. */
Buf *plan_in_place(Plan *, Value *a, DType);
/* Whether the window that makes operand A, so deep along K, can be multiplied where it lies in memory, if all
 * of it is in range. */
bool in_place_window(const Func *, const Instr *mma, int64_t depth);

/* as_written.c: rows whose maximum need not be speculated, before the plan. */
void cpu_as_written(Func *, const CpuTarget *);
/* few_rows.c: versions of the kernel for programs of which few rows lie inside the output. */
void cpu_few_rows(Session *, Func *);
/* few_columns.c: turns the sums of products of few columns, before the plan. */
void cpu_few_columns(Session *, Func *, const CpuTarget *);
/* keep.c: the part of an operand B, in groups of rows, that programs pack: others find it packed. */
double keep_grouped_part(const Func *, const Instr *mma);
/* repeat.c: a loop of products by AMX gets several products in an iteration, before the plan. */
void cpu_repeat(Session *, const CpuTarget *, Instr *loop);
/* deepen.c: makes the products of loops over K deeper, before the plan. */
void cpu_deepen(Session *, Func *, const CpuTarget *);
/* How many elements along K one product will have. */
int64_t cpu_product_depth(Session *, Func *, const CpuTarget *, const Instr *mma);
