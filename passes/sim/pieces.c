/* pieces.c: see pieces.h. */
#include "passes/sim/pieces.h"

enum { MAX_PARTS = 64 };

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

void sim_cut_begin(const SimTrace *t, SimCut *cuts)
{
    for (int64_t s = 0; s < (int64_t)t->sites.len; s++) {
        const SimSite *site = &t->sites.data[s];
        const Tensor *x = &t->tensors[site->param];
        SimCut *c = &cuts[s];
        for (int k = 0; k < t->func->params[site->param].type->rank; k++) {
            int at = c->n_axes;
            if (!x->stride[k] || x->shape[k] < 2) continue;
            for (; at > 0 && magnitude(x->stride[k]) > magnitude(x->stride[c->axes[at - 1]]); at--)
                c->axes[at] = c->axes[at - 1];
            c->axes[at] = k;
            c->n_axes++;
        }
    }
}

/* Where the window starts along its axes, in steps of it; *phase: its first byte but for these. */
static void start_of(const SimTrace *t, const SimCut *c, const SimAccess *a, int64_t *start, int64_t *phase)
{
    const SimSite *site = &t->sites.data[a->site];
    const Tensor *x = &t->tensors[site->param];
    int64_t rest = a->at - x->base, at[TILE_MAX_RANK] = { 0 };
    for (int n = 0; n < c->n_axes; n++) {
        int64_t by = magnitude(x->stride[c->axes[n]]);
        at[c->axes[n]] = floor_div(rest, by);
        rest -= at[c->axes[n]] * by;
    }
    *phase = a->at;
    for (int k = 0; k < site->rank; k++) {
        int64_t by = magnitude(x->stride[site->axis[k]]), step = by ? site->step[k] / by : 1;
        start[k] = step > 1 ? floor_div(at[site->axis[k]], step) : at[site->axis[k]];
        *phase -= start[k] * site->step[k];
    }
}

void sim_cut_learn(const SimTrace *t, const SimAccess *a, SimCut *c)
{
    const SimSite *site = &t->sites.data[a->site];
    int64_t start[TILE_MAX_RANK], phase;
    if (site->indexed) return;
    start_of(t, c, a, start, &phase);
    for (int k = 0; k < site->rank;
        k++) /* A window that the edge of the tensor cuts off gives no information. */
        if (a->n[k] == site->extent[k] && a->n[k] > 1 && start[k] % a->n[k]) c->loose[k] = c->cut = true;
}

void sim_cut_finish(const SimTrace *t, SimCut *cuts)
{
    double least = 0;
    for (int64_t s = 0; s < (int64_t)t->sites.len; s++) {
        const SimSite *site = &t->sites.data[s];
        SimCut *c = &cuts[s];
        c->parts = 1;
        c->bytes = (double)site->size;
        for (int k = 0; k < site->rank; k++) {
            c->cell[k] = c->loose[k] ? (site->extent[k] + 1) / 2 : site->extent[k];
            c->bytes *= c->cell[k];
        }
        if (c->cut && (least == 0 || c->bytes < least)) least = c->bytes;
    }
    for (int64_t s = 0; s < (int64_t)t->sites.len && least > 0; s++) {
        if (t->sites.data[s].indexed) continue;
        double n = cuts[s].bytes / least;
        cuts[s].parts = n > MAX_PARTS ? MAX_PARTS : n < 1 ? 1 : (int32_t)(n + 0.5);
        cuts[s].cut = true;
    }
}

void sim_cut_pieces(const SimTrace *t, const SimAccess *a, const SimCut *c, PieceFn *fn, void *user)
{
    const SimSite *site = &t->sites.data[a->site];
    int64_t start[TILE_MAX_RANK], cell[TILE_MAX_RANK], phase;
    start_of(t, c, a, start, &phase);
    for (int k = 0; k < site->rank; k++) cell[k] = floor_div(start[k], c->cell[k]);
    for (;;) {
        int64_t name = phase;
        double share = 1;
        int k = 0;
        for (int x = 0; x < site->rank; x++) {
            int64_t lo = cell[x] * c->cell[x], hi = lo + c->cell[x], end = start[x] + a->n[x];
            share *= (double)((hi < end ? hi : end) - (lo > start[x] ? lo : start[x])) / a->n[x];
            name += lo * site->step[x];
        }
        for (int32_t p = 0; p < c->parts; p++)
            fn(user, (uint64_t)name + (uint64_t)p * 0x9e3779b97f4a7c15ull, share / c->parts);
        for (; k < site->rank; k++) {
            if (++cell[k] * c->cell[k] < start[k] + a->n[k]) break;
            cell[k] = floor_div(start[k], c->cell[k]);
        }
        if (k == site->rank) return;
    }
}
