/* key.c: what code is specialized on, as the few words that find a variant: from the arguments, and back to
 * the facts that the compiler is told. */
#include "runtime/launch/kernel.h"

tile_status kernel_key(tile_kernel *k, const LaunchArgs *l, uint64_t *key)
{
    int masks = (k->n_dims + 63) / 64;
    uint64_t *at = key + 1 + masks, *facts = at + k->n_key_dims, far = 0;
    memset(key, 0, (size_t)k->key_words * 8);
    for (int d = 0; d < k->n_dims; d++) {
        int64_t n = l->dims[d];
        key[1 + d / 64] |= (uint64_t)(n > 0 && (n & 15) == 0) << d % 64;
        if (k->dims[d].key) *at++ = (uint64_t)n;
    }
    for (int i = 0; i < k->n_params; i++) {
        uint32_t f = l->views[i].facts;
        far |= f;
        facts[i / 4] |= (uint64_t)(f & FACT_KEY) << 16 * (i % 4);
    }
    key[0] = (uint64_t)!(far & FACT_FAR) | (uint64_t)!(far & FACT_LONG) << 1;
    int row = k->n_rows ? kernel_tune_row(k, l, key) + 1 : 0, choice = 0;
    tile_status st = !row && k->chooser ? kernel_choice(k, l, key, &choice) : TILE_OK;
    if (choice) row = k->n_rows + choice;
    key[0] |= (uint64_t)row << 8;
    return st;
}

static unsigned facts_of(const tile_kernel *k, const uint64_t *key, int i)
{
    const uint64_t *facts = key + 1 + (k->n_dims + 63) / 64 + k->n_key_dims;
    return (unsigned)(facts[i / 4] >> 16 * (i % 4)) & FACT_KEY;
}

bool kernel_key_gives(const tile_kernel *k, const uint64_t *key, int i)
{ return !(facts_of(k, key, i) & FACT_ABSENT); }

void kernel_facts(
    const tile_kernel *k, const uint64_t *key, ParamFacts *params, bool *dim16, LaunchFacts *out)
{
    for (int d = 0; d < k->n_dims; d++) dim16[d] = key[1 + d / 64] >> d % 64 & 1;
    for (int i = 0; i < k->n_params; i++) {
        unsigned f = facts_of(k, key, i);
        params[i] = (ParamFacts){ .align = f & FACT_ALIGNED ? 16 : 0,
            .unit_axis = (int)(f >> FACT_UNIT & 15) - 1,
            .stride_mask = f >> FACT_STRIDES & 255,
            .sign = (int)(f >> FACT_SIGN & 3) - 1 };
        if (k->params[i].kind != PARAM_SCALAR) params[i].grain = (int)(f >> FACT_GRAIN & 3) * 4;
    }
    *out = (LaunchFacts){ .params = params,
        .n_params = k->n_params,
        .dim16 = dim16,
        .n_dims = k->n_dims,
        .fits32 = key[0] & 1,
        .extents31 = key[0] >> 1 & 1 };
}
