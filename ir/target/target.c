/* target.c: see target.h. */
#include "ir/target/target.h"
#include <string.h>

enum {
    CP_ASYNC = TF_CP_ASYNC,
    LDMATRIX = TF_LDMATRIX,
    MMA_SYNC = TF_MMA_SYNC,
    MMA_FP8 = TF_MMA_FP8,
    TMA = TF_TMA,
    WGMMA = TF_WGMMA,
    ARCH_SPECIFIC = TF_ARCH_SPECIFIC,
    MFMA = TF_MFMA,
    MFMA_FP8 = TF_MFMA_FP8,
    LDS_DMA = TF_LDS_DMA,
    LDS_DMA_16 = TF_LDS_DMA_16,
    WMMA = TF_WMMA,
    BF16_ARITHMETIC = TF_BF16_ARITHMETIC,
    EARLY_START = TF_EARLY_START,
    RED_VECTOR = TF_RED_VECTOR,
    HALF_EXTREMES = TF_HALF_EXTREMES,
    F16_FLUSHES = TF_F16_FLUSHES,
    MAX_OF_NANS = TF_MAX_OF_NANS,
};

static const Target targets[] = {
#define TARGET(NAME, FAMILY, ARCH, SHARED, SMS, L2, MEMORY, SM_SHARED, SM_REGISTERS, SM_THREADS, SM_CTAS, \
    CLUSTER, CHIPLETS, MATRIX, LDS, FEATURES) \
    { \
        FAMILY_##FAMILY, .name = NAME \
        , .arch = ARCH, .shared_bytes = SHARED, .n_sms = SMS, .l2_bytes = L2, .memory_rate = MEMORY, \
            .sm_shared_bytes = SM_SHARED, .sm_registers = SM_REGISTERS, .sm_threads = SM_THREADS, \
            .sm_ctas = SM_CTAS, .cluster_ctas = CLUSTER, .chiplets = CHIPLETS, .matrix = MATRIX_##MATRIX, \
            .lds = LDS_##LDS, .features = FEATURES \
    } \
    ,
#include "ir/target/targets.def"
#undef TARGET
};

const Target *target_at(size_t i) { return i < sizeof targets / sizeof *targets ? &targets[i] : NULL; }

const Target *target_find(const char *name)
{
    for (size_t i = 0; target_at(i); i++)
        if (!strcmp(targets[i].name, name)) return &targets[i];
    return NULL;
}

static const UnitSum sums[] = {
#define SUM(unit, instr, bits, promote) { MATRIX_##unit, instr, bits, promote },
#include "ir/target/sums.def"
#undef SUM
};

const UnitSum *target_unit_sum(const Target *t, const char *instr)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (sums[i].unit == t->matrix && !strcmp(sums[i].instr, instr)) return &sums[i];
    return NULL;
}
