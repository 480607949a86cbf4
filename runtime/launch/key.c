/* key.c: what code is specialized on, as the few words that find a variant: from the arguments, and back to
 * the facts that the compiler is told. */
#include "runtime/launch/kernel.h"

/* Where in a key the bits of rows with gaps begin, those of axes without, and the bytes of counted
 * dimensions.
 */
static int counts_at(const tile_kernel *k) { return k->key_words - (k->n_counted + 7) / 8; }
static int dense_at(const tile_kernel *k) { return counts_at(k) - k->dense_words; }
static int gaps_at(const tile_kernel *k) { return dense_at(k) - k->gap_words; }

/* Whether rows of the tensor have gaps of which code should know. */
static bool has_gaps(const tile_kernel *k, const LaunchArgs *l, int i)
{
    const KernelParam *p = &k->params[i];
    const View *v = &l->views[i];
    const int last = p->rank - 1;
    if (!p->rows || v->facts & FACT_ABSENT || (v->facts >> FACT_UNIT & 15) != (unsigned)p->rank) return false;
    return v->extent[last - 1] > 1 &&
           ir_gaps_matter(v->extent[last] * p->size, l->strides[i][last - 1] * p->size, p->size);
}

/* What the key says of each counted extent: a number for launch_facts_bound. */
static void count_extents(const tile_kernel *k, const LaunchArgs *l, uint8_t *codes)
{
    for (int d = 0; d < k->n_dims; d++)
        codes[d] = k->dims[d].counted ? launch_facts_code(l->dims[d], false) : 0;
    for (int i = 0; i < k->n_params; i++) {
        const KernelParam *p = &k->params[i];
        int64_t words = 1;
        for (int a = 0; a < p->rank && words <= LAUNCH_MOST_WORDS; a++)
            words *= l->views[i].extent[a] > 0 ? l->views[i].extent[a] : 0;
        for (int a = 0; a < p->rank && p->atomics && words && words <= LAUNCH_MOST_WORDS; a++)
            if (p->dim[a] >= 0 && k->dims[p->dim[a]].counted)
                codes[p->dim[a]] = launch_facts_code(l->views[i].extent[a], true);
    }
}

/* Whether the axes of the tensor whose strides the code may know have no gaps. */
static bool is_dense(const tile_kernel *k, const LaunchArgs *l, int i)
{
    const KernelParam *p = &k->params[i];
    const View *v = &l->views[i];
    if (!p->dense || v->facts & FACT_ABSENT || (v->facts >> FACT_UNIT & 15) != (unsigned)p->rank)
        return false;
    for (int a = p->rank - 2, stride = 1; a >= p->rank - 1 - p->dense; a--) {
        if (v->extent[a + 1] > INT32_MAX / stride) return false;
        stride *= (int)v->extent[a + 1];
        if (l->strides[i][a] != stride || !stride) return false;
    }
    return true;
}

/* The key but for the configuration. */
static void promises_of(const tile_kernel *k, const LaunchArgs *l, uint64_t *key)
{
    int masks = (k->n_dims + 63) / 64;
    uint64_t *at = key + 1 + masks, *facts = at + k->n_key_dims, far = 0;
    uint64_t *counts = key + counts_at(k);
    uint8_t codes[k->n_dims + 1];
    memset(key, 0, (size_t)k->key_words * 8);
    if (k->n_counted) count_extents(k, l, codes);
    for (int d = 0, c = 0; d < k->n_dims; d++) {
        int64_t n = l->dims[d];
        if (k->dims[d].counted) {
            counts[c / 8] |= (uint64_t)codes[d] << 8 * (c % 8);
            c++;
        }
        key[1 + d / 64] |= (uint64_t)(n > 0 && (n & 15) == 0) << d % 64;
        if (k->dims[d].key) *at++ = (uint64_t)n;
    }
    for (int i = 0; i < k->n_params; i++) {
        uint32_t f = l->views[i].facts;
        far |= f;
        facts[i / 4] |= (uint64_t)(f & FACT_KEY) << 16 * (i % 4);
        if (k->params[i].rows) key[gaps_at(k) + i / 64] |= (uint64_t)has_gaps(k, l, i) << i % 64;
        if (k->params[i].dense) key[dense_at(k) + i / 64] |= (uint64_t)is_dense(k, l, i) << i % 64;
    }
    key[0] = (uint64_t)!(far & FACT_FAR) | (uint64_t)!(far & FACT_LONG) << 1 |
             (uint64_t)*l->collapsed << KEY_COLLAPSED;
}

/* Adds the configuration `row` of the table to the key; -1: one that is chosen. */
static tile_status configure(tile_kernel *k, const LaunchArgs *l, int row, uint64_t *key)
{
    int choice = 0;
    tile_status st = row < 0 && k->chooser ? kernel_choice(k, l, key, &choice) : TILE_OK;
    key[0] |= (uint64_t)(choice ? k->n_rows + choice : row + 1) << 8;
    return st;
}

/* The key of an equal launch on fewer axes. False: there is none, and the arguments are as they were. */
static bool collapsed_key(tile_kernel *k, const LaunchArgs *l, uint64_t *key, tile_status *st)
{
    LAUNCH_ARGS(old, k);
    size_t n = (size_t)k->n_params, dims = (size_t)k->n_dims;
    memcpy(old.views, l->views, n * sizeof *l->views);
    memcpy(old.strides, l->strides, n * sizeof *l->strides);
    memcpy(l->given, l->dims, dims * sizeof *l->dims);
    for (unsigned pairs; (pairs = *l->collapsed = collapse_launch(k, l));) {
        promises_of(k, l, key);
        if (collapse_may_hold(k, key, pairs)) {
            *st = configure(k, l, kernel_tune_row(k, l, key), key);
            if (*st || collapse_holds(k, key, pairs)) return true;
        }
        memcpy(l->views, old.views, n * sizeof *l->views); /* again without what does not hold */
        memcpy(l->strides, old.strides, n * sizeof *l->strides);
        memcpy(l->dims, l->given, dims * sizeof *l->dims);
    }
    return false;
}

tile_status kernel_key(tile_kernel *k, const LaunchArgs *l, uint64_t *key)
{
    tile_status st;
    promises_of(k, l, key);
    int row = kernel_tune_row(k, l, key);
    if (row < 0 && k->n_pairs && !*l->collapsed) {
        if (collapsed_key(k, l, key, &st)) return st;
        promises_of(k, l, key);
    }
    return configure(k, l, row, key);
}

static unsigned facts_of(const tile_kernel *k, const uint64_t *key, int i)
{
    const uint64_t *facts = key + 1 + (k->n_dims + 63) / 64 + k->n_key_dims;
    return (unsigned)(facts[i / 4] >> 16 * (i % 4)) & FACT_KEY;
}

bool kernel_key_gives(const tile_kernel *k, const uint64_t *key, int i)
{ return !(facts_of(k, key, i) & FACT_ABSENT); }

void kernel_facts(const tile_kernel *k, const uint64_t *key, ParamFacts *params, bool *dim16, int64_t *most,
    LaunchFacts *out)
{
    const uint64_t *counts = key + counts_at(k);
    for (int d = 0, c = 0; d < k->n_dims; d++) {
        dim16[d] = key[1 + d / 64] >> d % 64 & 1;
        most[d] = k->dims[d].counted ? launch_facts_bound(counts[c / 8] >> 8 * (c % 8) & 255) : 0;
        c += k->dims[d].counted;
    }
    for (int i = 0; i < k->n_params; i++) {
        unsigned f = facts_of(k, key, i);
        params[i] = (ParamFacts){ .align = f & FACT_ALIGNED ? 16 : 0,
            .unit_axis = (int)(f >> FACT_UNIT & 15) - 1,
            .stride_mask = f >> FACT_STRIDES & 255,
            .sign = (int)(f >> FACT_SIGN & 3) - 1 };
        const int grain = (int)(f >> FACT_GRAIN & 3);
        if (k->params[i].kind != PARAM_SCALAR) params[i].grain = grain ? 2 << grain : 0;
        params[i].gaps = k->params[i].rows && key[gaps_at(k) + i / 64] >> i % 64 & 1;
        if (k->params[i].dense && key[dense_at(k) + i / 64] >> i % 64 & 1)
            params[i].dense = k->params[i].dense;
    }
    *out = (LaunchFacts){ .params = params,
        .n_params = k->n_params,
        .dim16 = dim16,
        .n_dims = k->n_dims,
        .most = most,
        .fits32 = key[0] & 1,
        .extents31 = key[0] >> 1 & 1,
        .ones = collapse_ones(k, (unsigned)(key[0] >> KEY_COLLAPSED) & ((1u << MOST_PAIRS) - 1)) };
}
