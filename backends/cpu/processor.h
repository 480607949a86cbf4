/* processor.h: what code for the CPU depends on: the processor and its features. */
#pragma once
#include "backends/backend.h"

/* Features of processors, as far as code depends on them. */
enum {
    CPU_FMA = 1,    /* fused multiply-adds; on x86-64 also AVX2 */
    CPU_AVX512 = 2, /* F, BW, VL, DQ */
    CPU_VNNI = 4, /* dot products of pairs of 16-bit integers, and of four u8 and four i8, added to 32 bits */
    CPU_BF16 = 8, /* dot products of pairs of bf16 */
    CPU_DOT = 16, /* Arm: dot products of four 8-bit integers of one sign */
    CPU_MIXED_DOT = 32, /* Arm: of four unsigned and four signed ones */
    CPU_AVX_VNNI = 64,  /* CPU_VNNI with vectors of 32 bytes, without AVX-512 */
    CPU_AMX_BF16 = 128, /* products of tiles of bf16 */
    CPU_AMX_F16 = 256,  /* of f16 */
    CPU_AMX_I8 = 512,   /* of 8-bit integers */
    CPU_AMX = CPU_AMX_BF16 | CPU_AMX_F16 | CPU_AMX_I8
};

/* What differs between processors, by costs.def. */
typedef enum CpuCost {
#define COST(NAME, UNIT, USUAL) \
    COST_##NAME \
    ,
#define ON(PROCESSOR, NAME, VALUE)
#include "backends/cpu/costs.def"
#undef COST
#undef ON
    N_COSTS
} CpuCost;

/* The abilities of the processor. */
typedef struct CpuTarget {
    const char *triple, *cpu, *features; /* for LLVM */
    int vector_bytes;                    /* 64, 32, 16 */
    int n_vector_regs;
    unsigned has;                      /* CPU_.. */
    bool arm;                          /* AArch64; else x86-64 */
    bool fma, avx512;                  /* CPU_FMA, CPU_AVX512 */
    int64_t first_cache, second_cache; /* bytes */
    int64_t third_cache;               /* which cores share; 0: not known */
    int cost[N_COSTS];
    bool amx_model; /* BackendOptions.amx_model */
    const char
        *amx_refused; /* why there is no AMX although the processor has it; NULL: there is, or it lacks it */
    const char *level_error; /* what is wrong with TILE_CPU_LEVEL; NULL: nothing */
} CpuTarget;

/* Whether the code is for this machine's own processor; what the processor can do, and if it is this
 * machine's, at most the level that TILE_CPU_LEVEL asks for; whether its name is known, else a diagnostic. */
bool cpu_is_host(const BackendOptions *, const Target *);
void cpu_resolve(Session *, const BackendOptions *, const Target *, const char *triple, CpuTarget *out);
/* The multiply-adds of products of this type that a core does in a cycle, by units.def (unit.c). */
double cpu_product_rate(const CpuTarget *, DType);
/* The sizes of this machine's caches, as text. */
void cpu_caches(Text *);
/* What code depends on besides the module, by inexpensive questions (identity.c); NULL: they do not tell. */
const char *cpu_identity(Session *, const BackendOptions *, const Target *);
bool cpu_check_name(Session *, const CpuTarget *);
/* Asks the operating system, once for the process, to let it use AMX. NULL, or why not. */
const char *amx_permission(void);
