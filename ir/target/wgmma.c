/* wgmma.c: the products that wgmma has (PTX ISA 9.7.15.2): of which types, and with how many columns.
 * Passes that make one, and the prelude that writes one, ask here; ptxas refuses all others. */
#include "ir/target/matrix.h"
#include <string.h>

static const WgmmaType types[] = {
    { DT_F16, "f16", "f16", "wgmma_k16" },
    { DT_BF16, "bf16", "bf16", "wgmma_k16" },
    { DT_F32, "tf32", "tf32", "wgmma_k8" },
    { DT_F8E4M3, "f8e4m3", "e4m3", "wgmma_k32" },
    { DT_F8E5M2, "f8e5m2", "e5m2", "wgmma_k32" },
    { DT_I8, "i8", "s8", "wgmma_k32" },
    { DT_U8, "u8", "u8", "wgmma_k32" },
};

const WgmmaType *wgmma_type(DType d)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (types[k].dtype == d) return &types[k];
    return NULL;
}

const WgmmaType *wgmma_named(const char *name, size_t len)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (strlen(types[k].name) == len && !strncmp(types[k].name, name, len)) return &types[k];
    return NULL;
}

bool wgmma_columns(DType d, int64_t n)
{
    if (n < 8 || n > 256 || n % 8) return false;
    return !dtype_is_int(d) || n == 8 || n == 24 || n % 16 == 0;
}

bool wgmma_has(DType a, DType b, int64_t n)
{
    if (!wgmma_type(a) || !wgmma_type(b) || !wgmma_columns(a, n)) return false;
    /* The operands may be bytes of two kinds, but not an integer and a float. */
    return a == b || (dtype_bytes(a) == 1 && dtype_bytes(b) == 1 && dtype_is_int(a) == dtype_is_int(b));
}
