/* mma.h: what mma.c and mma_pack.c share. */
#pragma once
#include "backends/cpu/cpu.h"

static inline int mma_vector_lanes(const CpuTarget *t, MmaKind k)
{ return t->vector_bytes / (k == MMA_F64 ? 8 : 4); }

/* A tile register of AMX: rows of 64 bytes. */
enum { AMX_ROWS = 16, AMX_ROW_BYTES = 64 };
static inline bool mma_is_amx(MmaKind k) { return k == MMA_AMX_BF16 || k == MMA_AMX_F16 || k == MMA_AMX_I8; }

/* A product that is being emitted. */
typedef struct MmaProduct {
    Gen *g;
    Step *s;
    int lanes;
    int64_t m, n, k;
    LLVMTypeRef vec;
    DType acc;
    LLVMValueRef a, b, from, to; /* the addresses; from: NULL means that the sum starts at zero */
} MmaProduct;
void amx_product(MmaProduct *);

static inline LLVMValueRef gen_imul(Gen *g, LLVMValueRef a, int64_t k)
{ return LLVMBuildMul(g->b, a, gen_int(g, k), ""); }
static inline LLVMValueRef gen_iadd(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildAdd(g->b, a, b, ""); }
