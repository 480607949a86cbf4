/* window.h: windows of tensors, their loads and stores, gathers, scatters and atomics (window.c, memory.c,
 * prefetch.c, indexed.c). cpu.h includes it. */
#pragma once

struct Window {
    MemParts m;
    Instr *instr;
    DType dtype;
    int rank;                                          /* of the tile */
    int axis[TILE_MAX_RANK];                           /* tensor axis of each tile axis */
    LLVMValueRef base;                                 /* address of element (0, ..., 0) of the window */
    LLVMValueRef stride[TILE_MAX_RANK];                /* bytes per step along each tile axis */
    LLVMValueRef lo[TILE_MAX_RANK], hi[TILE_MAX_RANK]; /* the positions in range; NULL: all are */
    /* i1: the position along a dropped axis is out of range; NULL: never */
    LLVMValueRef outside;
    /* i1: elements are contiguous; NULL: that is known at compile time (is_unit) */
    LLVMValueRef unit[TILE_MAX_RANK];
    bool is_unit[TILE_MAX_RANK], not_unit[TILE_MAX_RANK];
    LLVMValueRef pad;
    /* The distance in bytes to the place that the same load reads next, for a prefetch; NULL: no prefetch. */
    LLVMValueRef ahead;
    int locality; /* the locality of that prefetch, as in llvm.prefetch */
    /* For whole rows: the nests over the row share the prefetching in proportion to their work. These are the
     * sum of their work, the largest, and that of the nests already emitted. */
    int walks, work, most, done;
    Window *next_walked;
    /* As many rows of a matrix operand further on are fetched while it is packed; 0: the product fetches the
     * next window, or nothing is fetched. */
    int rows_ahead;
    const Step
        *fetched_by;     /* the nest that stores the transposed tile and fetches the next one (transpose.c) */
    bool in_product;     /* the product that takes the window fetches the next one (memory_product) */
    LLVMValueRef stream; /* i1: the store bypasses the caches; NULL: it does not */
    LLVMValueRef aside;  /* where rows are computed that begin within lines (line_ends.c); NULL: nowhere */
    int64_t shape[TILE_MAX_RANK];
};
struct WindowRow {
    Window *w;
    LLVMValueRef coord[TILE_MAX_RANK];
    int va;
    LLVMValueRef ptr, lo, hi; /* hi: below every position where the whole row is out of range */
    /* The same by what windows with equal columns share: i1, the row is in range (NULL: always), and where it
     * ends then. */
    LLVMValueRef ok, end;
    LLVMValueRef cut, to; /* i1: the row is computed aside, and goes there; NULL: never */
    WindowRow *next;
};
Window *memory_window(Gen *, Instr *);
/* Whether the whole window is in range (i1; NULL: always). */
LLVMValueRef window_is_whole(Gen *, const Window *);
/* Whether it is known that no element of the row is in range: the code is that of rows which are not in range
 * as a whole, and the row is never cut off. */
bool memory_row_is_out(const Eval *row, const WindowRow *);
LLVMValueRef memory_load(Eval *, Instr *, LLVMValueRef *coord, int va);
/* Nests over the rows of a window each fetch a part of the next window's, by their work: memory is busy
 * during all of them. */
bool memory_walks(const Window *, const Step *);
int memory_work(Gen *, const Step *);
void memory_fetch_part(Eval *, Window *, const Step *, LLVMValueRef *coord, int va);
void memory_store(Eval *, Window *, LLVMValueRef value, LLVMValueRef *coord, int va);
LLVMValueRef memory_gather(Eval *, Instr *, LLVMValueRef *coord, int va);
void memory_scatter(Eval *, Instr *, LLVMValueRef *coord, int va);
LLVMValueRef memory_atomic(Eval *, Instr *, LLVMValueRef *coord, int va);
/* The tile axis along which the tensor's elements are known to be contiguous, or -1. */
int memory_unit_axis(const Func *, const Instr *);
