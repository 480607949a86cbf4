/* sort.h: what sort.c and sort_few.c share. */
#pragma once
#include "backends/cpu/cpu.h"

/* A sort, or the choice of the largest elements, that is being emitted. */
typedef struct Sort {
    Gen *g;
    Instr *i;
    const Buf *from, *keys;
    int64_t n, count;       /* elements of a row; results */
    bool descending, alone; /* alone: keys have no positions */
    LLVMTypeRef half, key;  /* the types of the ordered value, and of the pair of value and position */
    LLVMValueRef coord[TILE_MAX_RANK];
    LLVMValueRef sorted; /* the address of the keys in order, when they are */
} Sort;

static inline LLVMValueRef sort_add(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildAdd(g->b, a, b, ""); }

static inline LLVMValueRef sort_key_at(Sort *s, LLVMValueRef array, LLVMValueRef k)
{ return LLVMBuildGEP2(s->g->b, s->key, array, &k, 1, ""); }

static inline LLVMValueRef sort_array(Sort *s) { return gen_buf(s->g, s->keys, 0); }

static inline LLVMValueRef sort_load_key(Sort *s, LLVMValueRef ptr)
{ return LLVMBuildLoad2(s->g->b, s->key, ptr, ""); }

/* The value of element k of the row as an integer of the same order, and its key. */
LLVMValueRef sort_value(Sort *, LLVMValueRef k);
LLVMValueRef sort_key(Sort *, LLVMValueRef value, LLVMValueRef k);
/* Of topk: leaves the keys of the largest elements in `sorted`. */
void sort_keep_best(Sort *);
