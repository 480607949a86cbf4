/* tune_check.c: a candidate counts only if it computes what the first good one computes. Outputs hold NaNs
 * before the launch, so that elements left out show; afterwards every element is compared, or, while
 * candidates are many and results large, samples of them. */
#define _GNU_SOURCE
#include "runtime/tune/tuner.h"
#include <math.h>

enum { SAMPLED_BYTES = 16 << 20, RUN = 64 }; /* larger results are first compared by runs of RUN elements */

/* The most by which two correct results may differ, relative to the root mean square, because of rounding to
 * the type and other orders of summation. */
static double tolerance_of(const tile_tune *t, DType d)
{
    if (t->desc.tolerance > 0) return t->desc.tolerance;
    switch (d) {
    case DT_F64: return 1e-10;
    case DT_F32: return 1e-4;
    case DT_F16: return 2e-3;
    case DT_BF16: return 1.6e-2;
    case DT_F8E4M3: return 8e-2;
    case DT_F8E5M2: return 1.6e-1;
    case DT_BOOL:
    case DT_I8:
    case DT_I16:
    case DT_I32:
    case DT_I64:
    case DT_U8:
    case DT_U16:
    case DT_U32:
    case DT_U64:
    case DT_INDEX:
    case DT_COUNT: return 0;
    }
    return 0;
}

static double value_at(DType d, const char *p)
{
    uint64_t bits = 0;
    memcpy(&bits, p, (size_t)dtype_bytes(d));
    Scalar s = scalar_of_bits(d, bits);
    return dtype_is_float(d) ? s.f : dtype_is_signed(d) ? (double)s.i : (double)(uint64_t)s.i;
}

/* --- before ------------------------------------------------------------------------------------------ */

tile_status tune_check_begin(tile_tune *t)
{
    const tile_kernel *k = t->kernel;
    t->outputs = arena_array(&t->session.arena, TuneOutput, (size_t)k->n_params + 1);
    t->checks = !(t->desc.flags & TILE_TUNE_NO_CHECK);
    for (int i = 0; i < k->n_params; i++) {
        const View *v = &t->bound.views[i];
        if ((k->params[i].kind != PARAM_OUT && k->params[i].kind != PARAM_INOUT) || v->hi == v->lo) continue;
        TuneOutput *o = &t->outputs[t->n_outputs++];
        *o = (TuneOutput){ .param = i,
            .bytes = v->hi - v->lo,
            .lo = v->lo,
            .dense = v->facts & FACT_DENSE,
            .view = v,
            .strides = t->bound.strides[i] };
        tile_status st = tile_memory_alloc(t->context, TILE_MEMORY_DEVICE, o->bytes, &o->saved);
        if (!st) st = tile_copy(t->context, o->saved, (void *)o->lo, o->bytes, t->stream);
        if (st) return st;
        if (!t->checks) continue;
        o->host_bytes = o->bytes;
        o->want = context_alloc(t->context, o->bytes);
        o->have = context_alloc(t->context, o->bytes);
        if (!o->want || !o->have)
            return context_fail(
                t->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory for the results that are compared");
    }
    return tile_stream_synchronize(t->context, t->stream);
}

void tune_check_end(tile_tune *t)
{
    for (int i = 0; i < t->n_outputs; i++) {
        TuneOutput *o = &t->outputs[i];
        tile_memory_free(t->context, TILE_MEMORY_DEVICE, o->saved);
        context_free(t->context, o->want, o->host_bytes);
        context_free(t->context, o->have, o->host_bytes);
        *o = (TuneOutput){ 0 };
    }
    t->n_outputs = 0;
}

/* --- elements in the order of their axes ------------------------------------------------------------- */

typedef struct Walk {
    const View *v;
    const int64_t *strides;
    int rank;
    int64_t index[TILE_MAX_RANK], offset;
} Walk;

static void walk_to(Walk *w, int64_t element)
{
    w->offset = 0;
    for (int a = w->rank; a-- > 0;) {
        int64_t n = w->v->extent[a];
        w->index[a] = element % n;
        element /= n;
        w->offset += w->index[a] * w->strides[a];
    }
}

static void walk_on(Walk *w)
{
    for (int a = w->rank; a-- > 0;) {
        w->offset += w->strides[a];
        if (++w->index[a] < w->v->extent[a]) return;
        w->offset -= w->strides[a] * w->v->extent[a];
        w->index[a] = 0;
    }
}

static Walk walk_of(const tile_tune *t, const TuneOutput *o)
{ return (Walk){ .v = o->view, .strides = o->strides, .rank = t->kernel->params[o->param].rank }; }

/* Writes NaN, or all bits set, to every element and nothing else, because another tensor may be between them.
 * */
static tile_status poison_between(tile_tune *t, TuneOutput *o)
{
    size_t size = (size_t)t->kernel->params[o->param].size;
    Walk w = walk_of(t, o);
    tile_status st = tile_copy(t->context, o->have, o->saved, o->bytes, t->stream);
    if (!st) st = tile_stream_synchronize(t->context, t->stream);
    char *base = o->have + ((uintptr_t)o->view->data - o->lo);
    for (uint64_t e = 0; e < o->view->word && !st; e++, walk_on(&w))
        memset(base + w.offset * (int64_t)size, 0xff, size);
    if (!st) st = tile_copy(t->context, (void *)o->lo, o->have, o->bytes, t->stream);
    return st ? st : tile_stream_synchronize(t->context, t->stream);
}

tile_status tune_restore(tile_tune *t, bool poison)
{
    tile_status st = TILE_OK;
    for (int i = 0; i < t->n_outputs && !st; i++) {
        TuneOutput *o = &t->outputs[i];
        bool spoil = poison && t->checks && t->kernel->params[o->param].kind == PARAM_OUT;
        if (spoil && o->dense) st = tile_fill(t->context, (void *)o->lo, 0xff, o->bytes, t->stream);
        else st = tile_copy(t->context, (void *)o->lo, o->saved, o->bytes, t->stream);
    }
    for (int i = 0; i < t->n_outputs && !st; i++)
        if (poison && t->checks && t->kernel->params[t->outputs[i].param].kind == PARAM_OUT &&
            !t->outputs[i].dense)
            st = poison_between(t, &t->outputs[i]);
    return st ? st : tile_stream_synchronize(t->context, t->stream);
}

/* --- after ------------------------------------------------------------------------------------------- */

typedef struct Difference {
    double error, total;
    int64_t n, bad;
    double have, want;
} Difference;

static double rms_of(const tile_tune *t, const TuneOutput *o)
{
    DType d = t->kernel->params[o->param].dtype;
    Walk w = walk_of(t, o);
    const char *base = o->want + ((uintptr_t)o->view->data - o->lo);
    double sum = 0;
    int64_t n = 0, step = (int64_t)o->view->word / (1 << 20) + 1;
    for (int64_t e = 0; e < (int64_t)o->view->word; e += step, n++) {
        walk_to(&w, e);
        double x = value_at(d, base + w.offset * t->kernel->params[o->param].size);
        if (isfinite(x)) sum += x * x;
    }
    return n ? sqrt(sum / (double)n) : 0;
}

/* Compares elements first .. first + n. One element may differ by more than the root mean square of all does:
 * by 16 times the tolerance, of itself and of the rest. */
static void compare(
    const tile_tune *t, const TuneOutput *o, double tolerance, int64_t first, int64_t n, Difference *out)
{
    DType d = t->kernel->params[o->param].dtype;
    int64_t size = t->kernel->params[o->param].size, at = (int64_t)((uintptr_t)o->view->data - o->lo);
    bool exact = tolerance == 0;
    Walk w = walk_of(t, o);
    walk_to(&w, first);
    for (int64_t e = 0; e < n; e++, walk_on(&w)) {
        const char *p = o->have + at + w.offset * size, *q = o->want + at + w.offset * size;
        out->n++;
        if (!memcmp(p, q, (size_t)size)) {
            if (!exact) {
                double x = value_at(d, q);
                if (isfinite(x)) out->total += x * x;
            }
            continue;
        }
        double have = value_at(d, p), want = value_at(d, q), off = have - want;
        bool good =
            !exact && ((isnan(have) && isnan(want)) || fabs(off) <= 16 * tolerance * (fabs(want) + o->rms));
        if (isfinite(want) && isfinite(have)) {
            out->error += off * off;
            out->total += want * want;
        }
        if (!good && !out->bad++) {
            out->have = have;
            out->want = want;
        }
    }
}

static void compare_output(
    const tile_tune *t, const TuneOutput *o, bool full, double tolerance, Difference *out)
{
    int64_t n = (int64_t)o->view->word;
    full |= o->bytes <= SAMPLED_BYTES;
    if (full) {
        compare(t, o, tolerance, 0, n, out);
        return;
    }
    int64_t runs = SAMPLED_BYTES / 8 / (RUN * t->kernel->params[o->param].size), step = n / runs;
    uint64_t draw = 0x9e3779b97f4a7c15ull;
    for (int64_t r = 0; r < runs; r++, draw = draw * 6364136223846793005ull + 1442695040888963407ull) {
        int64_t first = r * step + (int64_t)(draw >> 33) % (step > RUN ? step - RUN : 1);
        compare(t, o, tolerance, r == runs - 1 ? n - RUN : first, RUN, out);
    }
}

static void judge(tile_tune *t, Candidate *c, bool full)
{
    for (int i = 0; i < t->n_outputs && c->state == TILE_TUNE_TIMED; i++) {
        const TuneOutput *o = &t->outputs[i];
        const KernelParam *p = &t->kernel->params[o->param];
        double tolerance = tolerance_of(t, p->dtype);
        Difference d = { 0 };
        compare_output(t, o, full, tolerance, &d);
        double deviation = d.total > 0 ? sqrt(d.error / d.total) : d.error > 0 ? INFINITY : 0;
        if (deviation > c->deviation) c->deviation = deviation;
        if (d.bad)
            tune_fail(c, TILE_TUNE_WRONG,
                "%s differs in %lld of %lld elements that were compared: %g where %g was expected", p->name,
                (long long)d.bad, (long long)d.n, d.have, d.want);
        else if (deviation > tolerance)
            tune_fail(
                c, TILE_TUNE_WRONG, "%s deviates by %.2g, more than %.2g", p->name, deviation, tolerance);
    }
}

static bool have_measure(const tile_tune *t) { return t->n_good > 0; }

static tile_status fetch(tile_tune *t)
{
    tile_status st = TILE_OK;
    bool first = !have_measure(t);
    for (int i = 0; i < t->n_outputs && !st; i++) {
        TuneOutput *o = &t->outputs[i];
        st = tile_copy(t->context, first ? o->want : o->have, (void *)o->lo, o->bytes, t->stream);
    }
    if (!st) st = tile_stream_synchronize(t->context, t->stream);
    for (int i = 0; i < t->n_outputs && !st && first; i++) t->outputs[i].rms = rms_of(t, &t->outputs[i]);
    return st;
}

tile_status tune_check(tile_tune *t, Candidate *c, bool full)
{
    tile_status st = tune_restore(t, true);
    if (st) return st;
    double start = tune_now();
    st = tune_launch(t, c);
    if (!st) st = tile_stream_synchronize(t->context, t->stream);
    if (!c->launches) c->ms = (tune_now() - start) * 1e3;
    if (st == TILE_ERROR_DEVICE_FAULT)
        return context_fail(
            t->context, st, "%s: tuning stopped: %s faulted on the device", t->kernel->title, c->text);
    if (st) {
        tune_fail_status(c, st);
        tune_drop(c);
        return TILE_OK;
    }
    if (t->checks && (st = fetch(t))) return st;
    if (t->checks && have_measure(t)) judge(t, c, full);
    c->full |= full;
    if (c->state == TILE_TUNE_TIMED) t->n_good++;
    else {
        t->n_wrong++;
        tune_drop(c);
    }
    return TILE_OK;
}
