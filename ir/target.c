/* target.c: see target.h. */
#include "ir/target.h"
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
};

static const Target targets[] = {
#define TARGET( \
    name, kind, arch, wave, shared, regs, sms, l2, sm_shared, sm_regs, sm_threads, sm_ctas, features) \
    { name, TARGET_##kind, arch, wave, shared, regs, sms, l2, sm_shared, sm_regs, sm_threads, sm_ctas, \
        features },
#include "ir/targets.def"
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
#define SUM(kind, arch, instr, bits, promote) { TARGET_##kind, arch, instr, bits, promote },
#include "ir/sums.def"
#undef SUM
};

const UnitSum *target_unit_sum(const Target *t, const char *instr)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (sums[i].kind == t->kind && sums[i].arch == t->arch && !strcmp(sums[i].instr, instr))
            return &sums[i];
    return NULL;
}
