/* prepare.c: compiles the variants that a range of extents takes, before there is a launch. It walks through
 * all combinations of the extents, makes the key of each as its launch would, and compiles every key that it
 * meets for the first time, several at once (async.c). */
#define _GNU_SOURCE
#include "runtime/launch/pitch.h"
#include <sched.h>

enum { MOST_COMBINATIONS = 1 << 20, MOST_THREADS = 64 };

/* The keys that were met: `words` behind one another, and a table of their numbers + 1 by hash. */
typedef struct KeySet {
    VEC(uint64_t) words;
    uint32_t *slot;
    size_t cap, n;
} KeySet;

typedef struct Preparing {
    tile_kernel *k;
    const tile_prepare_desc *desc;
    Session *s;
    KeySet keys;
    const tile_dim_range **range; /* of each of the kernel's named dimensions; NULL: bound, or a tensor's that
                                     is left out */
    int64_t *extent;              /* the combination that is looked at */
    tile_arg *args;
    tile_tensor *tensors;
    int64_t (*shape)[TILE_MAX_RANK];
    tile_compile *flight[MOST_THREADS];
    int n_flight, most;
    size_t variants;             /* that launches of the range take */
    tile_status status, refused; /* refused: a variant was missing in a sealed context */
} Preparing;

/* --- keys -------------------------------------------------------------------------------------------- */

static size_t place_of(const KeySet *s, const uint64_t *key, int words)
{
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < words; i++) {
        h = (h ^ key[i]) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    size_t at = h & (s->cap - 1);
    while (s->slot[at] &&
           memcmp(&s->words.data[(s->slot[at] - 1) * (size_t)words], key, (size_t)words * sizeof *key))
        at = (at + 1) & (s->cap - 1);
    return at;
}

/* True when the key was not there. */
static bool add_key(Preparing *p, const uint64_t *key)
{
    KeySet *s = &p->keys;
    int words = p->k->key_words;
    if (2 * (s->n + 1) > s->cap) {
        s->cap = s->cap ? 2 * s->cap : 64;
        s->slot = arena_array(&p->s->arena, uint32_t, s->cap);
        for (size_t i = 0; i < s->n; i++)
            s->slot[place_of(s, &s->words.data[i * (size_t)words], words)] = (uint32_t)i + 1;
    }
    size_t at = place_of(s, key, words);
    if (s->slot[at]) return false;
    for (int i = 0; i < words; i++) vec_push(&p->s->arena, &s->words, key[i]);
    s->slot[at] = (uint32_t)++s->n;
    return true;
}

/* --- compilations under way -------------------------------------------------------------------------- */

/* The first failure is the one that is reported: waiting for another would replace its text. */
static void finish_oldest(Preparing *p)
{
    if (!p->status) p->status = tile_compile_wait(p->flight[0]);
    tile_compile_destroy(p->flight[0]);
    p->n_flight--;
    memmove(p->flight, p->flight + 1, (size_t)p->n_flight * sizeof *p->flight);
}

static tile_status start(Preparing *p)
{
    while (p->n_flight >= p->most) finish_oldest(p);
    if (p->status) return p->status;
    tile_status st =
        tile_kernel_compile_async(p->k, p->args, (size_t)p->k->n_params, &p->flight[p->n_flight]);
    if (!st) p->n_flight++;
    return st;
}

/* --- one combination --------------------------------------------------------------------------------- */

/* Extents that are expressions of others follow when these are known. */
static tile_status set_shapes(Preparing *p)
{
    const tile_kernel *k = p->k;
    for (int i = 0; i < k->n_params; i++)
        for (int a = 0; a < k->params[i].rank; a++) {
            int d = k->params[i].dim[a];
            bool named = d >= 0 && d < k->front->n_dims;
            p->shape[i][a] = !named ? -1 : k->dims[d].bound >= 0 ? k->dims[d].bound : p->extent[d];
        }
    for (int i = 0; i < k->n_params; i++) {
        bool derived = false;
        for (int a = 0; a < k->params[i].rank; a++) derived |= p->shape[i][a] < 0;
        if (!derived || p->args[i].kind == TILE_ARG_NONE) continue;
        tile_status st = tile_kernel_extents(p->k, p->args, (size_t)k->n_params, (size_t)i, p->shape[i]);
        if (st) return st;
    }
    return TILE_OK;
}

/* The variant of a launch with these arguments, which may be copies of the combination's (pitch.c). */
static tile_status look_for(Preparing *p, const LaunchArgs *l)
{
    tile_kernel *k = p->k;
    uint64_t key[k->key_words];
    bool nothing = false;
    tile_status st = kernel_key(k, l, key);
    if (st || !add_key(p, key)) return st;
    if (!kernel_ready(k, key)) {
        Variant *v;
        st = kernel_nothing(k, l, key, &nothing);
        if (!st && !nothing) st = context_sealed(k->context) ? launch_variant(k, l, &v) : start(p);
    }
    p->variants += !st && !nothing;
    return st;
}

/* The variant of a launch of the kernel on converted inputs (converted.c), which has keys of its own. */
static tile_status compile_converted(Preparing *p, tile_kernel *converted, const LaunchArgs *l)
{
    Variant *v = NULL;
    tile_status st = launch_variant(converted, l, &v);
    p->variants += v != NULL;
    return st;
}

static tile_status look_at(Preparing *p)
{
    tile_kernel *k = p->k;
    size_t n = (size_t)k->n_params;
    LAUNCH_ARGS(l, k);
    LAUNCH_ARGS(copied, k);
    Pitch pitch;
    tile_status st = set_shapes(p);
    if (!st) st = kernel_bind(k, p->args, n, &l);
    if (st || !pitch_wanted(k, p->args, n, &l, &pitch)) return st ? st : look_for(p, &l);
    tile_status copies = pitch_compile(k, &l, &pitch);
    if (pitch_gives_up(&pitch, copies)) return look_for(p, &l);
    st = kernel_bind(pitch.kernel, pitch.args, n, &copied);
    if (!st) st = pitch.kernel == k ? look_for(p, &copied) : compile_converted(p, pitch.kernel, &copied);
    if (pitch.kernel != k && pitch_gives_up(&pitch, st)) return look_for(p, &l);
    return st ? st : copies;
}

/* --- all combinations -------------------------------------------------------------------------------- */

static tile_status check_range(const tile_kernel *k, const tile_dim_range *r, int64_t *n)
{
    *n = 0;
    if (!r->name || r->first < 0 || r->last < r->first || r->step < 0 ||
        (r->step == 0 && r->first == 0 && r->last))
        return context_fail(k->context, TILE_ERROR_INVALID_ARGUMENT,
            "%s: tile_kernel_prepare: the range of %s has no extents: %lld to %lld in steps of %lld",
            k->title, r->name ? r->name : "a dimension without a name", (long long)r->first,
            (long long)r->last, (long long)r->step);
    if (r->step) *n = (r->last - r->first) / r->step, *n += *n < INT64_MAX;
    else
        for (int64_t e = r->first; ++*n, e && e <= r->last / 2;) e *= 2;
    return TILE_OK;
}

static int dimension(const tile_kernel *k, const char *name)
{
    for (int d = 0; d < k->front->n_dims; d++)
        if (!strcmp(k->dims[d].name, name)) return d;
    return -1;
}

/* Each range to its dimension; *total is the number of combinations. */
static tile_status take_ranges(Preparing *p, int64_t *total)
{
    const tile_kernel *k = p->k;
    *total = 1;
    for (size_t i = 0; i < p->desc->n_dims; i++) {
        const tile_dim_range *r = &p->desc->dims[i];
        int64_t n;
        tile_status st = check_range(k, r, &n);
        if (st) return st;
        int d = dimension(k, r->name);
        if (d < 0 || p->range[d] || k->dims[d].bound >= 0)
            return context_fail(k->context, TILE_ERROR_INVALID_ARGUMENT, "%s: tile_kernel_prepare: %s %s",
                k->title, r->name,
                d < 0         ? "is no dimension of the kernel"
                : p->range[d] ? "has two ranges"
                              : "was bound when the kernel was made");
        if (n > MOST_COMBINATIONS / *total)
            return context_fail(k->context, TILE_ERROR_INVALID_ARGUMENT,
                "%s: tile_kernel_prepare: the ranges have more than %d combinations", k->title,
                MOST_COMBINATIONS);
        p->range[d] = r;
        p->extent[d] = r->first;
        *total *= n;
    }
    for (int i = 0; i < k->n_params; i++)
        for (int a = 0; a < k->params[i].rank && p->args[i].kind != TILE_ARG_NONE; a++) {
            int d = k->params[i].dim[a];
            if (d >= 0 && d < k->front->n_dims && !p->range[d] && k->dims[d].bound < 0)
                return launch_bad(p->k, TILE_ERROR_SHAPE, i, "dimension %s has no range", k->dims[d].name);
        }
    return TILE_OK;
}

static void next_combination(Preparing *p)
{
    for (int d = p->k->front->n_dims; d-- > 0;) {
        const tile_dim_range *r = p->range[d];
        if (!r) continue;
        int64_t e = p->extent[d], room = r->last - e;
        if (r->step ? r->step <= room : e && e <= room) {
            p->extent[d] += r->step ? r->step : e;
            return;
        }
        p->extent[d] = r->first;
    }
}

/* The arguments but for their extents. No address is read: each is aligned, and that is all that counts. */
static tile_status take_args(Preparing *p)
{
    tile_kernel *k = p->k;
    const tile_prepare_desc *d = p->desc;
    if (d->args && d->n_args != (size_t)k->n_params)
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, -1,
            "tile_kernel_prepare: takes %d arguments, found %zu", k->n_params, d->n_args);
    for (int i = 0; i < k->n_params; i++) {
        const KernelParam *q = &k->params[i];
        bool given = d->args && d->args[i].kind != TILE_ARG_NONE;
        if (q->kind != PARAM_SCALAR) {
            bool left_out = q->optional && (q->bound == 0 || (d->args && !given && q->bound < 0));
            p->tensors[i] = (tile_tensor){ (void *)4096, p->shape[i], NULL, q->rank, TILE_NONE };
            p->args[i] = left_out ? tile_arg_none() : tile_arg_tensor(&p->tensors[i]);
        } else if (given) p->args[i] = d->args[i];
        else if (q->otherwise.kind == FRONT_FLOAT) p->args[i] = tile_arg_float(q->otherwise.f);
        else if (q->otherwise.kind == FRONT_BOOL) p->args[i] = tile_arg_int(q->otherwise.b);
        else p->args[i] = tile_arg_int(q->otherwise.kind == FRONT_NOTHING ? 1 : q->otherwise.i);
    }
    return TILE_OK;
}

static tile_status prepare_all(Preparing *p)
{
    tile_kernel *k = p->k;
    Arena *a = &p->s->arena;
    int64_t total;
    p->range = arena_array(a, const tile_dim_range *, (size_t)k->n_dims + 1);
    p->extent = arena_array(a, int64_t, (size_t)k->n_dims + 1);
    p->args = arena_array(a, tile_arg, (size_t)k->n_params + 1);
    p->tensors = arena_array(a, tile_tensor, (size_t)k->n_params + 1);
    p->shape = arena_alloc(a, ((size_t)k->n_params + 1) * sizeof *p->shape);
    tile_status st = take_args(p);
    if (!st) st = take_ranges(p, &total);
    for (int64_t i = 0; !st && i < total; i++, next_combination(p)) {
        st = look_at(p);
        if (st == TILE_ERROR_SEALED) {
            p->refused = st; /* the list gets the others too */
            st = TILE_OK;
        }
    }
    return st ? st : p->refused;
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

tile_status tile_kernel_prepare(tile_kernel *k, const tile_prepare_desc *desc, size_t *variants)
{
    FLOAT_STATE_DEFAULT();
    tile_prepare_desc d;
    Session s;
    if (variants) *variants = 0;
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (!context_take_desc(&d, sizeof d, desc, sizeof(size_t)) || (d.n_dims && !d.dims) || d.threads < 0)
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, -1,
            "tile_kernel_prepare: struct_size is not set, dims is NULL, or threads is negative");
    session_init(&s, k->context->alloc);
    Preparing p = { .k = k, .desc = &d, .s = &s };
    p.most = d.threads ? d.threads : processors();
    if (p.most > MOST_THREADS) p.most = MOST_THREADS;
    int jumped = setjmp(s.oom);
    tile_status st = jumped ? context_session_failed(k->context, &s, jumped, k->title) : prepare_all(&p);
    if (st) p.status = st;
    while (p.n_flight) finish_oldest(&p);
    session_free(&s);
    if (variants) *variants = p.variants;
    return p.status;
}
