/* mma.h: what mma.c and mma_pack.c share. */
#pragma once
#include "backends/cpu/cpu.h"

static inline int mma_vector_lanes(const CpuTarget *t, MmaKind k)
{ return t->vector_bytes / (k == MMA_F64 ? 8 : 4); }

static inline LLVMValueRef gen_imul(Gen *g, LLVMValueRef a, int64_t k)
{ return LLVMBuildMul(g->b, a, gen_int(g, k), ""); }
static inline LLVMValueRef gen_iadd(Gen *g, LLVMValueRef a, LLVMValueRef b)
{ return LLVMBuildAdd(g->b, a, b, ""); }
