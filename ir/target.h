/* target.h: what a target is and can do. One row of targets.def each. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum TargetKind { TARGET_CPU, TARGET_CUDA, TARGET_HIP } TargetKind;

enum {
    TF_CP_ASYNC = 1,
    TF_LDMATRIX = 2,
    TF_MMA_SYNC = 4,
    TF_MMA_FP8 = 8,
    TF_TMA = 16,
    TF_WGMMA = 32,
    TF_ARCH_SPECIFIC = 64,
    TF_MFMA = 128,
    TF_MFMA_FP8 = 256, /* gfx942's fp8 is FNUZ: OCP fp8 is widened there; gfx950's is OCP */
    TF_LDS_DMA = 512,
    TF_LDS_DMA_16 = 1024,
    TF_WMMA = 2048,
};

typedef struct Target {
    const char *name; /* "cuda:sm_90a" */
    TargetKind kind;
    int arch;             /* 90; 0x942 */
    int wave;             /* threads of a warp or wave */
    int64_t shared_bytes; /* per block, dynamic */
    int max_registers, n_sms;
    int64_t l2_bytes;
    int64_t sm_shared_bytes; /* of a multiprocessor, for all of its CTAs */
    int sm_registers, sm_threads, sm_ctas;
    unsigned features;
} Target;

/* A matrix instruction whose sums of fp8 products keep fewer bits than f32's 24: sums.def. */
typedef struct UnitSum {
    TargetKind kind;
    int arch;
    const char *instr; /* as ir/layout.h names it */
    int bits;          /* of a sum, the leading one included */
    int promote;       /* a multiple of its K: after so many positions a sum is to go on in f32 */
} UnitSum;

/* NULL: the instruction adds fp8 products to 24 bits, or has none of them. */
const UnitSum *target_unit_sum(const Target *, const char *instr);

/* The table's row, or NULL. */
const Target *target_find(const char *name);
/* Row i, or NULL past the end. */
const Target *target_at(size_t i);
static inline bool target_has(const Target *t, unsigned feature)
{ return (t->features & feature) == feature; }
