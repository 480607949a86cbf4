/* memory.h: what window.c, prefetch.c, memory.c, indexed.c and runs.c have in common. */
#pragma once
#include "backends/cpu/cpu.h"

enum { LINE = 64 };

static inline LLVMValueRef icmp(Gen *g, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildICmp(g->b, p, a, b, ""); }
static inline LLVMValueRef both(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return !a ? b : !b ? a : LLVMBuildAnd(g->b, a, b, ""); }
static inline LLVMValueRef smaller(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildSelect(g->b, icmp(g, LLVMIntSLT, a, b), a, b, ""); }
static inline LLVMValueRef larger(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildSelect(g->b, icmp(g, LLVMIntSGT, a, b), a, b, ""); }

static inline LLVMValueRef to_register(Gen *g, DType d, LLVMValueRef v)
{ return d == DT_BOOL ? LLVMBuildICmp(g->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "") : v; }

static inline LLVMValueRef to_memory(Gen *g, DType d, LLVMValueRef v)
{ return d == DT_BOOL ? LLVMBuildZExt(g->b, v, gen_vec(g->i8, gen_lanes(v)), "") : v; }

/* window.c: bytes from one element to the next along an axis; its extent; address and range of the row
 * through coord (axis va left open; va < 0: the element itself, and hi is its i1 or NULL). */
LLVMValueRef memory_stride(Gen *, int param, int axis, int bytes);
LLVMValueRef memory_extent(Gen *, int param, int axis);
WindowRow *memory_row(Eval *, Window *, LLVMValueRef *coord, int va);

/* memory.c: lets a store of integers go past the caches. */
void memory_bypass(Gen *, LLVMValueRef store);

/* A chunk of `lanes` elements side by side, of which the first has the position `first` of the `extent` that
 * begin at `row`: `pad` in place of those that are out of range, or all if not `ok` (NULL: it holds), or
 * under the mask (NULL: none; only where memory_has_masks). */
LLVMValueRef memory_run(Gen *, DType, int lanes, LLVMValueRef row, LLVMValueRef first, LLVMValueRef extent,
    LLVMValueRef ok, LLVMValueRef mask, LLVMValueRef pad);
/* The same of a store: elements that are out of range, or that the mask leaves out, stay as they are. */
void memory_store_run(Gen *, DType, LLVMValueRef v, LLVMValueRef row, LLVMValueRef first, LLVMValueRef extent,
    LLVMValueRef ok, LLVMValueRef mask);
/* Whether the processor reads and writes some elements of a vector as fast as all of them. */
bool memory_has_masks(const Gen *, int lanes);

/* runs.c: a chunk of a gather, if it is a run; NULL: it is not. And of a scatter; false: it is not. */
LLVMValueRef memory_gather_run(Eval *, const MemParts *, LLVMValueRef pad, LLVMValueRef *coord, int va);
bool memory_scatter_run(Eval *, const MemParts *, LLVMValueRef *coord, int va);

/* line_ends.c: a row that begins within a line is computed aside. */
void line_ends_aside(Gen *, WindowRow *);

/* indexed.c: adds v to the element at ptr, atomically and in no order. */
void memory_add(Gen *, DType, LLVMValueRef v, LLVMValueRef ptr);

/* prefetch.c: how near the next window is wanted: a locality of llvm.prefetch, or -1; how far it is; notes
 * the nests that share the work. */
int memory_next(Gen *, const Instr *, const Window *);
LLVMValueRef memory_distance(Gen *, LLVMValueRef base);
void memory_note_walks(Gen *, const Instr *, Window *);
/* The only product that the load is an operand of, in the same block; NULL: there is none, or the load has
 * other uses. */
const Instr *memory_product(const Instr *load);
void memory_prefetch(Gen *, LLVMValueRef ptr, int locality);
