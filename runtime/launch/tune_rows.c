/* tune_rows.c: the entries of a tuning table that fit a kernel, and which of them is for a launch. */
#include "runtime/choice/cost/cost.h"
#include "runtime/launch/kernel_parts.h"
#include <stdlib.h>

/* log2(v) in units of 1 / ONE, accurate to a few units, which suffices for distances between shapes. */
static int64_t log2_fixed(int64_t v)
{
    /* BEND: the coefficient of the parabola between powers of two, in the same units */
    enum { ONE = 1 << 16, BEND = 22550 };
    if (v < 1) return -ONE;
    int e = 63 - __builtin_clzll((uint64_t)v);
    uint64_t m = e > 16 ? (uint64_t)v >> (e - 16) : (uint64_t)v << (16 - e); /* 1.16 */
    uint64_t x = m - ONE;
    return ((int64_t)e << 16) + (int64_t)(x + (x * (ONE - x) >> 16) * BEND / ONE);
}

/* Reads the words of a key that tile_kernel_write_choices wrote; false: another version of the library did.
 */
static bool read_promises(tile_kernel *k, const char *text, TuneRow *row)
{
    uint64_t *words = arena_array(&k->session.arena, uint64_t, (size_t)k->key_words + 1);
    int n = 0;
    for (char *end; *text && n < k->key_words; text = end + (*end == '.'), n++) {
        words[n] = strtoull(text, &end, 16);
        if (end == text || (*end && *end != '.')) return false;
    }
    row->promises = words;
    return n == k->key_words && !*text;
}

/* Whether the entry may bind this extent: it speaks for one launch alone, which has it. */
static bool binds_own_extent(const TuneEntry *e, const TuneItem *bound)
{
    for (int i = 0; i < e->n_key && *e->promises; i++)
        if (!strcmp(e->key[i].name, bound->name)) return tune_same_value(&e->key[i].value, &bound->value);
    return false;
}

/* bf16 in place of f16: the code is the same except for the names of instructions. */
static bool types_alike(const FrontValue *a, const FrontValue *b)
{
    return a->kind == FRONT_TYPE && b->kind == FRONT_TYPE && dtype_bytes(a->type) == dtype_bytes(b->type) &&
           dtype_is_float(a->type) == dtype_is_float(b->type);
}

/* Takes over an item of the entry's key: an extent, whether an optional tensor is given, or a const, which
 * the kernel must have with this value or a type like it. */
static bool fit_key(tile_kernel *k, const TuneItem *item, TuneRow *row)
{
    int d = kernel_front_dim(k->front, item->name);
    if (d >= 0 && item->value.kind == FRONT_INT) {
        row->dims[row->n] = d;
        row->values[row->n] = item->value.i;
        row->log2[row->n++] = log2_fixed(item->value.i);
        return true;
    }
    const FrontParam *p = kernel_front_param(k->front, item->name);
    if (p && p->optional) {
        row->tensors[row->n_tensors++] = (FrontBinding){ p->name, item->value };
        return true;
    }
    const FrontValue *bound = kernel_bound_value(k, item->name);
    FrontValue wanted = item->value;
    kernel_adapt(p, &wanted);
    if (!bound) return false;
    if (tune_same_value(bound, &wanted)) return true;
    row->apart += 1 << 14;
    return types_alike(bound, &wanted);
}

/* Takes over an item of the entry's configuration, unless the caller has bound it. False: the entry was
 * written for another version of the kernel, or was found with another value than the caller has bound. */
static bool fit_config(tile_kernel *k, const TuneEntry *e, const TuneItem *item, TuneRow *row)
{
    const FrontParam *p = kernel_front_param(k->front, item->name);
    bool extent = kernel_front_dim(k->front, item->name) >= 0 && binds_own_extent(e, item);
    if (!kernel_is_const(p) && !extent && !frontend_hint_name(item->name)) return false;
    FrontValue value = item->value;
    const FrontValue *given = NULL;
    kernel_adapt(p, &value);
    for (int b = 0; b < k->n_bindings; b++)
        if (!strcmp(k->bindings[b].name, item->name)) given = &k->bindings[b].value;
    if (given) return tune_same_value(given, &value);
    row->config[row->n_config++] = (FrontBinding){ item->name, value };
    return true;
}

/* Whether the entry is for this kernel with these consts. Fills in the row. */
static bool fit_row(tile_kernel *k, const TuneEntry *e, TuneRow *row)
{
    Arena *a = &k->session.arena;
    size_t n = (size_t)e->n_key + 1;
    if (strcmp(e->kernel, k->name) || (*e->target && strcmp(e->target, k->context->target->name)))
        return false;
    *row = (TuneRow){ .dims = arena_array(a, int, n),
        .log2 = arena_array(a, int64_t, n),
        .values = arena_array(a, int64_t, n),
        .tensors = arena_array(a, FrontBinding, n),
        .config = arena_array(a, FrontBinding, (size_t)e->n_config + 1),
        .apart = *e->device && strcmp(e->device, k->context->driver->info.name) ? 1 << 15 : 0 };
    for (int i = 0; i < e->n_key; i++)
        if (!fit_key(k, &e->key[i], row)) return false;
    for (int i = 0; i < e->n_config; i++)
        if (!fit_config(k, e, &e->config[i], row)) return false;
    return !*e->promises || (!row->apart && read_promises(k, e->promises, row));
}

void kernel_take_rows(tile_kernel *k)
{
    if (!k->tune) return;
    k->rows = arena_array(&k->session.arena, TuneRow, (size_t)k->tune->file.n + 1);
    for (int i = 0; i < k->tune->file.n; i++)
        if (fit_row(k, &k->tune->file.entries[i], &k->rows[k->n_rows])) k->n_rows++;
}

/* The factors of two of an extent, up to 16, because code is specialized on what divides an extent. */
static int64_t twos(int64_t v) { return v ? __builtin_ctzll((uint64_t)v | 16) : 4; }

static bool gives_its_tensors(const tile_kernel *k, const TuneRow *row, const View *views)
{
    for (int i = 0; i < row->n_tensors; i++)
        for (int p = 0; p < k->n_params; p++)
            if (!strcmp(k->params[p].name, row->tensors[i].name) &&
                (views[p].facts & FACT_ABSENT) != (row->tensors[i].value.b ? 0 : FACT_ABSENT))
                return false;
    return true;
}

/* Whether a row that is for one launch alone is for this one. */
static bool is_its_launch(const tile_kernel *k, const TuneRow *row, const int64_t *dims, const uint64_t *key)
{
    if (memcmp(row->promises, key, (size_t)k->key_words * sizeof *key)) return false;
    for (int j = 0; j < row->n; j++)
        if (dims[row->dims[j]] != row->values[j]) return false;
    return true;
}

/* When estimates are available, an entry is not used for launches whose extents differ by more than a factor
 * of two in total, or that are as far away by other differences. Measured entries speak of axes as they were
 * given. */
int kernel_tune_row(const tile_kernel *k, const LaunchArgs *l, const uint64_t *key)
{
    const int64_t *dims = l->dims;
    int best = -1;
    int64_t least = k->chooser && device_model(k->context->target) ? (1 << 16) + 1 : INT64_MAX;
    for (int i = 0; i < k->n_rows; i++) {
        if (k->rows[i].promises) {
            if (is_its_launch(k, &k->rows[i], dims, key)) return i;
            continue;
        }
        if (*l->collapsed || !gives_its_tensors(k, &k->rows[i], l->views)) continue;
        int64_t distance = k->rows[i].apart;
        for (int j = 0; j < k->rows[i].n; j++) {
            int64_t n = dims[k->rows[i].dims[j]], d = log2_fixed(n) - k->rows[i].log2[j],
                    t = twos(n) - twos(k->rows[i].values[j]);
            distance += (d < 0 ? -d : d) + ((t < 0 ? -t : t) << 13);
        }
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}
