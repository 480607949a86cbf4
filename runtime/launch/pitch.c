/* pitch.c: inputs whose rows lie where the copy engine (TMA) does not reach, or across what a matrix unit
 * takes.
 *
 *   X: rows of 137 f16, 137 elements apart   --copy-->   X': the same rows, 144 elements apart
 *   launch on X                                         launch on X'
 *
 * TMA takes strides and addresses that are multiples of 16 bytes. Where an input has others, a kernel's own
 * warps bring its elements, in many times as many instructions, and again for each program that reads them.
 * So a launch is estimated in both forms (choose.c), and if the copies pay, they are made first: in memory
 * that is allocated and freed in the order of the stream, by a tile kernel of this file, two tensors a
 * launch where one kernel serves both. Afterwards the kernel itself is launched on the copies, through the
 * ordinary way. In the same manner inputs of two axes and 1 or 4 bytes an element are transposed: of these
 * wgmma takes operands only with K contiguous.
 *
 * Requires: a target with TMA and a driver with memory in the order of streams; a kernel whose configuration
 * is chosen by estimate (a `tune` block, no entry of a table); inputs of 1, 2 or 4 bytes an element with one
 * axis of stride 1, whose other axes form rows at one distance. Not in checked contexts, nor as declared. */
#define _GNU_SOURCE
#include "runtime/launch/pitch.h"
#include "runtime/choice/estimate/device_model.h"
#include <math.h>

enum {
    MOST_DECISIONS = 256, /* more are made anew by each launch */
    MOST_FAILURES = 4     /* of the driver in a row, which may pass */
};

/* What was decided for launches of one key and these extents. */
struct PitchDecision {
    struct PitchDecision *older;
    size_t bytes;
    int number;
    atomic_bool given_up; /* the launch on copies failed, or did so MOST_FAILURES times by the driver */
    atomic_int failures;  /* of the driver, since it last succeeded */
    PitchForm form;
    size_t n;
    uint64_t words[];
};

/* --- whether they are copied ------------------------------------------------------------------------- */

static bool possible(const tile_kernel *k)
{
    const tile_context *c = k->context;
    return k->chooser && c->driver->ops->scratch_alloc && target_has(c->target, TF_TMA) &&
           !(c->flags & (TILE_CONTEXT_CHECKED | TILE_CONTEXT_AS_DECLARED));
}

/* A launch that may copy. */
typedef struct Deciding {
    tile_kernel *k;
    const DeviceModel *m;
    const tile_arg *args;
    const LaunchArgs *l;
    double most;    /* the longest time that copies may take */
    bool no_memory; /* something could not be estimated for want of the host's memory */
} Deciding;

/* Whether what was asked for has an answer. */
static bool answered(Deciding *d, tile_status st)
{
    d->no_memory |= st == TILE_ERROR_OUT_OF_MEMORY;
    return !st;
}

/* The estimate of a launch with these arguments; 0: there is none. */
static double estimate(Deciding *d, tile_kernel *k, const LaunchArgs *l)
{
    uint64_t key[k->key_words];
    if (!answered(d, kernel_key(k, l, key))) return 0;
    if ((key[0] >> 8) > 0 && (int)(key[0] >> 8) <= k->n_rows) return 0;
    double ns = kernel_choice_estimate(k, l, key);
    d->no_memory |= ns < 0;
    return fmax(ns, 0);
}

/* The bytes that an element of a converted or computed input is made of. */
static int bytes_read(const tile_kernel *k, const ConvertedForm *f, int param)
{
    const ComputedInput *c = f ? converted_by_operations(f, param) : NULL;
    int bytes = c ? 0 : k->params[param].size;
    for (int i = 0; c && i < c->n; i++) {
        const KernelParam *q = &k->params[c->from[i].param];
        /* Of whole rows, tables that all leading elements share stay in L2. */
        bool table = c->columns && q->rank < k->params[param].rank, again = false;
        for (int j = 0; j < i; j++) again |= c->columns && c->from[j].param == c->from[i].param;
        bytes += c->from[i].axis < 0 && !table && !again ? q->size : 0;
    }
    return bytes;
}

/* What L2 holds of the copies need not go to memory; but what was written before must leave L2 for them. */
static double copies_take(tile_kernel *k, const DeviceModel *m, const Pitch *p)
{
    double each = m->launch + m->begin + m->latency + m->memory_latency + m->end, read = 0, bytes = 0;
    int launches = 0;
    for (int i = 0; i < p->n; i += pitch_go_together(k, p, i) ? 2 : 1) launches++;
    for (int i = 0; i < p->n; i++) {
        const PitchedTensor *t = &p->tensor[i];
        double copy = (double)(t->rows * t->to * t->size);
        read += t->converted ? (double)(t->rows * t->columns * bytes_read(k, p->converted, t->param)) : copy;
        bytes += copy;
    }
    double most = m->dirty_most * m->l2_bytes;
    double written = fmax(bytes - most, fmin(m->dirty * bytes, most));
    return launches * each + (read + written) / (m->copy_memory * m->memory);
}

/* The estimate of the launch on copies of this form; INFINITY: the copies take too long, or there is none. */
static double estimate_copied(Deciding *d, const PitchForm *form)
{
    tile_kernel *k = d->k;
    Pitch p;
    pitch_find(k, d->l, form, &p);
    double copies = copies_take(k, d->m, &p);
    if (!p.n || copies > d->most) return INFINITY;
    memcpy(p.args, d->args, (size_t)k->n_params * sizeof *d->args);
    /* No address is read: each is aligned, and that is all that counts. */
    pitch_place(&p, d->l, (char *)(uintptr_t)4096);
    LAUNCH_ARGS(copied, k);
    bool bound = answered(d, kernel_bind(p.kernel, p.args, (size_t)k->n_params, &copied));
    double then = bound ? estimate(d, p.kernel, &copied) : 0;
    return then > 0 ? then + copies : INFINITY;
}

/* The form without the transposes of what it converts. */
static PitchForm with_converted(PitchForm form, const tile_kernel *k, ConvertedForm *converted)
{
    form.converted = converted;
    for (int i = 0; i < k->n_params && i < 64; i++)
        if (converted->to[i] != DT_COUNT) form.transposed &= ~((uint64_t)1 << i);
    return form;
}

/* Transposes one tensor after the other, as long as that is faster, and then converts where that is. */
static PitchForm decide(Deciding *d, const uint64_t *key, uint64_t transposable)
{
    tile_kernel *k = d->k;
    const DeviceModel *m = d->m;
    double as_it_is = m ? estimate(d, k, d->l) : 0, now = as_it_is;
    PitchForm best = { 0 };
    if (!(as_it_is > 0)) return best;
    d->most = m->copies_most * as_it_is;
    double copied = estimate_copied(d, &(PitchForm){ .copied = true });
    best.copied = copied < m->copied_most * as_it_is;
    if (best.copied) now = copied;
    for (int i = 0; i < 64; i++) {
        if (!(transposable >> i & 1)) continue;
        PitchForm more = best;
        more.transposed |= (uint64_t)1 << i;
        double transposed = estimate_copied(d, &more);
        if (transposed > m->transposed_most * now) continue;
        best = more;
        now = transposed;
    }
    ConvertedForm *form;
    if (!answered(d, converted_form(k, key, &form)) || !form) return best;
    PitchForm converted = with_converted(best, k, form);
    return estimate_copied(d, &converted) < m->copied_most * now ? converted : best;
}

/* --- what was decided -------------------------------------------------------------------------------- */

static struct PitchDecision *recall(struct PitchDecision *d, const uint64_t *words, size_t n)
{
    while (d && (d->n != n || memcmp(d->words, words, n * sizeof *words))) d = d->older;
    return d;
}

/* NULL: it is not kept. */
static struct PitchDecision *remember(tile_kernel *k, const PitchForm *form, const uint64_t *words, size_t n)
{
    struct PitchDecision *first = atomic_load(&k->decisions), *d = NULL;
    size_t bytes = sizeof *d + n * sizeof *words;
    if (!first || first->number < MOST_DECISIONS) d = context_alloc(k->context, bytes);
    if (!d) return NULL;
    *d = (struct PitchDecision){ .bytes = bytes, .form = *form, .n = n };
    memcpy(d->words, words, n * sizeof *words);
    do {
        d->older = first;
        d->number = first ? first->number + 1 : 1;
    } while (!atomic_compare_exchange_strong(&k->decisions, &first, d));
    return d;
}

bool pitch_gives_up(Pitch *p, tile_status st)
{
    if (!st || st == TILE_ERROR_SEALED || st == TILE_ERROR_WORKSPACE || st == TILE_ERROR_DEVICE_FAULT)
        return false;
    struct PitchDecision *d = p->decision;
    p->for_now = st == TILE_ERROR_OUT_OF_MEMORY;
    if (st == TILE_ERROR_DRIVER && d) p->for_now = atomic_fetch_add(&d->failures, 1) + 1 < MOST_FAILURES;
    if (!p->for_now && d) atomic_store_explicit(&d->given_up, true, memory_order_relaxed);
    return true;
}

void pitch_succeeded(const Pitch *p)
{
    struct PitchDecision *d = p->decision;
    if (d && atomic_load_explicit(&d->failures, memory_order_relaxed)) atomic_store(&d->failures, 0);
}

bool pitch_wanted(tile_kernel *k, const tile_arg *args, size_t n, const LaunchArgs *l, Pitch *p)
{
    if (!possible(k)) return false;
    uint64_t asked = pitch_transposable(k, l);
    pitch_find(k, l, &(PitchForm){ .copied = true }, p);
    if (!p->n && !asked && !converted_possible(k, l)) return false;
    size_t n_words = (size_t)(k->key_words + k->n_dims) + 2;
    uint64_t words[n_words];
    if (kernel_key(k, l, words)) return false;
    memcpy(words + k->key_words, l->dims, (size_t)k->n_dims * sizeof *l->dims);
    words[n_words - 2] = asked;
    words[n_words - 1] = p->bytes;
    struct PitchDecision *known =
        recall(atomic_load_explicit(&k->decisions, memory_order_acquire), words, n_words);
    Deciding d = { .k = k, .m = kernel_device_model(k), .args = args, .l = l };
    PitchForm form = known ? known->form : decide(&d, words, asked);
    if (!known && !d.no_memory) known = remember(k, &form, words, n_words);
    p->for_now = d.no_memory;
    if (known && atomic_load_explicit(&known->given_up, memory_order_relaxed)) return false;
    pitch_find(k, l, &form, p);
    p->decision = known;
    memcpy(p->args, args, n * sizeof *args);
    pitch_place(p, l, (char *)(uintptr_t)4096);
    return p->n > 0 && k->context->driver->ops->scratch_there(k->context->driver);
}

void pitch_close(tile_kernel *k)
{
    pitch_close_copies(k);
    converted_close(k);
    for (struct PitchDecision *d = atomic_load(&k->decisions), *older; d; d = older) {
        older = d->older;
        context_free(k->context, d, d->bytes);
    }
}
