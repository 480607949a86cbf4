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
    TF_MFMA_FP8 = 256, /* fp8 of gfx942 is FNUZ, so OCP fp8 is widened there; fp8 of gfx950 is OCP */
    TF_LDS_DMA = 512,
    TF_LDS_DMA_16 = 1024,
    TF_WMMA = 2048,
    TF_BF16_ARITHMETIC = 4096, /* add, sub and mul of two bf16 at once (PTX ISA: sm_90) */
    TF_EARLY_START =
        8192, /* griddepcontrol: the kernel itself waits for its predecessor in the stream (PTX ISA: sm_90) */
    TF_F16_FLUSHES = 1 << 14, /* the matrix unit treats denormal f16 and bf16 as 0, in operands and results
                                 (CDNA2 ISA 7.3) */
    TF_RED_VECTOR = 1 << 16,  /* red of two and four f32 at once (PTX ISA: sm_90) */
    TF_MAX_OF_NANS = 1 << 15, /* v_maximum3_f32: the maximum that keeps NaN is one instruction (CDNA4 ISA) */
    TF_HALF_EXTREMES = 1 << 17, /* min and max of two integers of 16 bits at once (PTX ISA: sm_90) */
};

/* Generations of matrix units. A row of matrix.def, sums.def and backends/hip/matrix.c names those that have
 * its instruction. */
typedef enum MatrixUnit {
    MATRIX_NONE = 0,
    MATRIX_AMPERE = 1,
    MATRIX_ADA = 2,
    MATRIX_HOPPER = 4,
    MATRIX_BLACKWELL = 8,
    MATRIX_CDNA2 = 16,
    MATRIX_CDNA3 = 32,
    MATRIX_CDNA4 = 64,
    MATRIX_RDNA3 = 128,
} MatrixUnit;

/* How a chip's LDS serves an access (passes/kernel/amd/lds.c). */
typedef enum LdsChip { LDS_NONE, LDS_CDNA, LDS_CDNA4, LDS_RDNA3 } LdsChip;

typedef struct Target {
    const char *name; /* "cuda:sm_90a" */
    TargetKind kind;
    const char *triple;       /* CPU: LLVM's name of another machine than this one; else NULL */
    int arch;                 /* 90; 0x942 */
    int wave;                 /* threads of a warp or wave */
    int cta_threads;          /* at most */
    int64_t shared_bytes;     /* of a CTA, dynamic, at most */
    int64_t cta_shared_bytes; /* the bytes of each CTA's shared memory that the system uses in addition */
    int max_registers;        /* of a thread */
    int register_step;        /* the registers of a thread are allocated in multiples of this */
    /* The registers of a thread that a plan leaves free, because the compiler spills otherwise. */
    int spare_registers;
    int n_sms;               /* the multiprocessors of the largest common device */
    int64_t l2_bytes;        /* of that part */
    int memory_rate;         /* of that part: bytes that its memory moves in a ns */
    int memory_wait;         /* ns from a load to its data when memory is busy; 0: not known */
    int sector_bytes;        /* the least that L2 asks of memory */
    int request_bytes;       /* the piece in which L2 serves a request of a multiprocessor */
    int simds;               /* of a multiprocessor; each has an equal part of its registers and threads */
    int64_t sm_shared_bytes; /* of a multiprocessor, for all of its CTAs */
    int sm_registers, sm_threads;
    int sm_ctas;      /* the most CTAs that a multiprocessor holds; 0: as many as its threads allow */
    int cluster_ctas; /* the most CTAs of a cluster; 1: there are no clusters */
    int chiplets;     /* the chiplets to which workgroups are distributed in turn */
    MatrixUnit matrix;
    LdsChip lds;
    unsigned features;
} Target;

/* A matrix instruction whose sums of fp8 products keep fewer bits than f32's 24: sums.def. */
typedef struct UnitSum {
    MatrixUnit unit;
    const char *instr; /* as ir/layout/layout.h names it */
    int bits;          /* the bits of a sum, including the leading one */
    /* A multiple of its K: the number of positions after which a sum must continue in f32. */
    int promote;
} UnitSum;

/* NULL: the instruction adds fp8 products to 24 bits, or has none of them. */
const UnitSum *target_unit_sum(const Target *, const char *instr);

/* The table's row, or NULL. */
const Target *target_find(const char *name);
/* Row i, or NULL past the end. */
const Target *target_at(size_t i);
static inline bool target_has(const Target *t, unsigned feature)
{ return (t->features & feature) == feature; }

/* Bytes of loads that a multiprocessor must have under way so that memory is busy: its part of what memory
 * moves while one load waits. */
static inline int64_t target_bytes_under_way(const Target *t)
{ return t->n_sms ? (int64_t)t->memory_rate * t->memory_wait / t->n_sms : 0; }

/* Registers of each thread where so many threads share a multiprocessor, as the hardware gives them out: each
 * SIMD has its part of the registers, and a warp too many on one of them costs those of all. This may be more
 * than a thread can name. */
static inline int target_registers_each(const Target *t, int threads)
{
    int warps = (threads + t->wave - 1) / t->wave, of_simd = (warps + t->simds - 1) / t->simds;
    return t->sm_registers / t->simds / (of_simd * t->wave) / t->register_step * t->register_step;
}
