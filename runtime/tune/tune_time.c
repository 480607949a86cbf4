/* tune_time.c: which candidate is the fastest, by successive halving: everyone is launched a little, the
 * better half a little more, and so on; the last four in turns, so that they meet the same clocks. One
 * candidate takes the time of the device at a time. */
#define _GNU_SOURCE
#include "runtime/measure/measure.h"
#include "runtime/tune/tuner.h"
#include <stdlib.h>

enum { LAST = 4, MAX_REPEAT = 1001, REPEATS = 3 };

double tune_now(void) { return (double)clock_ns() * 1e-9; }

tile_status tune_launch(tile_tune *t, Candidate *c)
{
    tile_launch_desc d = { .struct_size = sizeof d, .stream = t->stream };
    tile_status st = tile_kernel_workspace(c->kernel, t->args, t->n_args, &d.workspace_size);
    if (!st && d.workspace_size > t->workspace_bytes) {
        tile_memory_free(t->context, TILE_MEMORY_DEVICE, t->workspace);
        t->workspace_bytes = 0;
        t->workspace = NULL;
        if (tile_memory_alloc(t->context, TILE_MEMORY_DEVICE, d.workspace_size, &t->workspace))
            return TILE_ERROR_OUT_OF_MEMORY;
        t->workspace_bytes = d.workspace_size;
        st = tile_fill(t->context, t->workspace, 0, t->workspace_bytes, t->stream);
    }
    d.workspace = t->workspace;
    return st ? st : tile_launch(c->kernel, t->args, t->n_args, &d);
}

tile_status tune_time_begin(tile_tune *t)
{
    tile_status st = TILE_OK;
    for (int i = 0; i < TUNE_BATCH && !st; i++)
        if (!(st = tile_event_create(t->context, &t->begin[i])))
            st = tile_event_create(t->context, &t->end[i]);
    const DriverInfo *info = &t->context->driver->info;
    if (st || t->context->driver->ops->kind == TARGET_CPU || t->desc.flags & TILE_TUNE_WARM_CACHES) return st;
    t->flush_bytes = info->l2_bytes > 32 << 20 ? (size_t)info->l2_bytes * 2 : 64u << 20;
    return tile_memory_alloc(t->context, TILE_MEMORY_DEVICE, t->flush_bytes, &t->flush);
}

void tune_time_end(tile_tune *t)
{
    tile_memory_free(t->context, TILE_MEMORY_DEVICE, t->flush);
    tile_memory_free(t->context, TILE_MEMORY_DEVICE, t->workspace);
    for (int i = 0; i < TUNE_BATCH; i++) {
        if (t->begin[i]) tile_event_destroy(t->context, t->begin[i]);
        if (t->end[i]) tile_event_destroy(t->context, t->end[i]);
        t->begin[i] = t->end[i] = NULL;
    }
    t->flush = t->workspace = NULL;
}

/* Queues n launches one after the other, so that the device has no gaps between them, as in use. Then reads
 * their times. */
static tile_status batch(tile_tune *t, Candidate *c, int n, double *ms)
{
    tile_status st = TILE_OK;
    for (int i = 0; i < n && !st; i++) {
        if (t->flush) st = tile_fill(t->context, t->flush, 0, t->flush_bytes, t->stream);
        if (!st) st = tile_event_record(t->context, t->begin[i], t->stream);
        if (!st) st = tune_launch(t, c);
        if (!st) st = tile_event_record(t->context, t->end[i], t->stream);
    }
    tile_status end = tile_stream_synchronize(t->context, t->stream);
    if (!st) st = end;
    for (int i = 0; i < n && !st; i++) st = tile_event_elapsed(t->context, t->begin[i], t->end[i], &ms[i]);
    return st;
}

static int by_time(const void *a, const void *b)
{
    const Candidate *x = *(Candidate *const *)a, *y = *(Candidate *const *)b;
    return x->ms != y->ms ? (x->ms > y->ms ? 1 : -1) : (x > y) - (x < y);
}

/* The median of n launches, after one that is not counted. */
static tile_status measure(tile_tune *t, Candidate *c, int n, double *ms)
{
    double all[MAX_REPEAT + TUNE_BATCH];
    tile_status st = TILE_OK;
    for (int done = 0, most; done < n + 1 && !st; done += most) {
        most = n + 1 - done < TUNE_BATCH ? n + 1 - done : TUNE_BATCH;
        st = batch(t, c, most, all + done);
    }
    if (st) return st;
    *ms = measure_median(all + 1, n);
    return TILE_OK;
}

/* A launch that the device refuses is a failure of the candidate. A fault of the device ends the tuning. */
static tile_status refused(tile_tune *t, Candidate *c, tile_status st)
{
    tune_fail_status(c, st);
    if (st != TILE_ERROR_DEVICE_FAULT) {
        tune_drop(c);
        return TILE_OK;
    }
    return context_fail(t->context, st, "%s: tuning stopped at %s: %s", t->kernel->title, c->text, c->reason);
}

static tile_status round_of(tile_tune *t, Candidate **left, int *n, int round, int repeat)
{
    for (int i = 0; i < *n; i++) {
        Candidate *c = left[i];
        tile_status st = measure(t, c, repeat, &c->ms);
        if (st && (st = refused(t, c, st))) return st;
        c->launches = repeat;
        tune_report(t, TILE_TUNE_TIMING, round, (size_t)i + 1, (size_t)*n, c);
    }
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (left[i]->state == TILE_TUNE_TIMED) left[kept++] = left[i];
    *n = kept;
    qsort(left, (size_t)kept, sizeof *left, by_time);
    return TILE_OK;
}

static tile_status finals(tile_tune *t, Candidate **left, int n, int round, int repeat)
{
    double ms[LAST][REPEATS];
    for (int nth = 0; nth < REPEATS; nth++)
        for (int k = 0; k < n; k++) {
            int i = nth % 2 ? n - 1 - k : k;
            tile_status st = measure(t, left[i], (repeat + REPEATS - 1) / REPEATS, &ms[i][nth]);
            if (st) return refused(t, left[i], st);
            if (nth == REPEATS - 1) {
                left[i]->ms = measure_median(ms[i], REPEATS);
                left[i]->launches = repeat;
                tune_report(t, TILE_TUNE_TIMING, round, (size_t)k + 1, (size_t)n, left[i]);
            }
        }
    qsort(left, (size_t)n, sizeof *left, by_time);
    return TILE_OK;
}

/* Removes half of the remaining candidates, but none that is within a tenth of the best before the
 * measurements are accurate enough for that. */
static int survivors(Candidate **left, int n, int round)
{
    int keep = (n + 1) / 2;
    while (keep < n && round == 1 && left[keep]->ms < left[0]->ms * 1.1) keep++;
    return keep < LAST ? (n < LAST ? n : LAST) : keep;
}

tile_status tune_time(tile_tune *t)
{
    Candidate **left = t->sorted;
    int n = 0, round = 1, repeat = 3, last = t->desc.repeat > 0 ? t->desc.repeat : 21;
    tile_status st = TILE_OK;
    if (last > MAX_REPEAT) last = MAX_REPEAT;
    double least = 1e300;
    for (int i = 0; i < t->n; i++)
        if (t->all[i].state == TILE_TUNE_TIMED && t->all[i].ms < least) least = t->all[i].ms;
    for (int i = 0; i < t->n; i++) {
        Candidate *c = &t->all[i];
        if (c->state != TILE_TUNE_TIMED) continue;
        /* The launch that was checked is timed by the host's clock, which suffices to find configurations
         * that are much slower. */
        c->launches = 1;
        if (c->ms < 8 * least || c->ms < least + 2) left[n++] = c;
    }
    while (!st && n > LAST) {
        st = round_of(t, left, &n, round, repeat < last ? repeat : last);
        if (n <= LAST) break;
        if (tune_now() > t->deadline) return st; /* what there is, is sorted */
        n = survivors(left, n, round++);
        repeat = repeat * 2 + 1;
    }
    return st || !n ? st : finals(t, left, n, round, last);
}
