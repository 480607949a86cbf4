/* search_programs.c: in the search (search.h), how many warps the programs of the best sizes have, and how
 * many CTAs of them launch bounds leave room for. The passes decide this by what one program looks like
 * (passes/kernel/schedule/cta_size.c, occupancy.c). Whether the launch has so few programs that more warps of
 * each are needed, or a last round of a few that CTAs with fewer registers would not need, only an estimate
 * of the launch says.
 *
 * It is looked at for kernels without products and without rows that shared memory may keep (search_kept.c),
 * whose source and launch say nothing of it. Kernels that list nothing to choose have one search for all
 * extents (choose_programs.c), so that what they take may not be much worse for launches of fewer programs or
 * of more. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

/* The ratio below which both estimates, the plain and the careful one, must be for other warps and CTAs to be
 * taken (bench/notes/choice.md, "Rows and registers"). */
static const double BETTER = 0.9;
/* Words of a thread of what comes once: half of its registers where four CTAs of 128 threads have a
 * multiprocessor. */
enum { MOST_HELD = 64 };
/* The ratio that estimates of launches of other extents may have then. */
static const double NOT_MUCH_WORSE = 1 / 0.9;
/* The ratio below which both estimates must be for fewer CTAs to share a row (bench/notes/short_rows.md,
 * "Instructions of rows, wide tiles of channels, fewer CTAs of a row"); that of the least one up to which
 * still fewer are taken; and that of a launch of so few programs that CTAs are missing. */
static const double SHARED_BETTER = 0.85, ALIKE = 1.05, FEW_WORSE = 2;

bool search_says_of_programs(const FrontKernel *k, const FrontBinding *b, int n)
{
    bool said = k->hinted;
    for (int i = 0; i < n; i++) said |= hint_find(b[i].name) != NULL;
    return said;
}

bool search_lacks_block(const FrontKernel *k, const FrontBinding *b, int n, const Target *t)
{ return t->kind == TARGET_CUDA && !k->products && !search_says_of_programs(k, b, n); }

static void consider(Search *z, int from, int name, int value)
{
    uint8_t at[MOST_NAMES];
    memcpy(at, z->point[from].at, sizeof at);
    at[name] = (uint8_t)value;
    search_add(z, at);
}

/* Up to four times as many warps, and a quarter. */
static void consider_warps(Search *z, int from, int name)
{
    enum { TIMES = 4 };
    const int64_t now = z->point[from].threads / z->p->device.target->wave;
    for (int v = 0; v < search_listed(&z->name[name]); v++) {
        const int64_t warps = z->name[name].values[v].i;
        if (warps != now && warps <= TIMES * now && now <= TIMES * warps) consider(z, from, name, v);
    }
}

/* As many CTAs as a multiprocessor has programs, so that all of them run at once. */
static void consider_ctas(Search *z, int from, int name)
{
    const SearchPoint *p = &z->point[from];
    const int64_t units = z->p->device.units, programs = (p->programs + units - 1) / units;
    for (int v = 0; v < search_listed(&z->name[name]); v++) {
        const int64_t ctas = z->name[name].values[v].i;
        if (ctas < programs || ctas * p->threads > z->p->device.target->sm_threads) continue;
        consider(z, from, name, v);
        return;
    }
}

/* Whether threads hold so much of what comes once that few warps fit a multiprocessor, and more than those of
 * the other point: the estimate does not count how long a warp works by itself between two meetings
 * (search_rows.c). */
static bool holds_too_much(const SearchPoint *p, const SearchPoint *than)
{ return p->iterations <= 1 && p->words > MOST_HELD && p->words > than->words; }

static bool serves_all(const SearchPoint *p, const SearchPoint *than)
{ return p->few <= than->few * NOT_MUCH_WORSE && p->many <= than->many * NOT_MUCH_WORSE; }

/* The part of the other point's time that the point takes, by the estimate that says the most. */
static double ratio(const SearchPoint *p, const SearchPoint *than)
{ return fmax(p->ns / than->ns, p->careful / than->careful); }

/* Clusters of fewer CTAs, with as many warps each, or twice as many. */
static void consider_fewer_shares(Search *z, int from, int warps, int cluster)
{
    const SearchPoint best = z->point[from];
    const int64_t now = best.threads / z->p->device.target->wave;
    uint8_t at[MOST_NAMES];
    for (int c = 0; c < search_listed(&z->name[cluster]); c++)
        for (int w = 0; w < search_listed(&z->name[warps]); w++) {
            const int64_t value = z->name[warps].values[w].i;
            if (z->name[cluster].values[c].i >= best.cluster || (value != now && value != 2 * now)) continue;
            memcpy(at, best.at, sizeof at);
            at[cluster] = (uint8_t)c;
            at[warps] = (uint8_t)w;
            search_add(z, at);
        }
}

/* Rows that registers hold and CTAs of a cluster share: each exchange between CTAs takes as long as a thread
 * takes for many elements, so that a row is shared by as few as the estimate allows. */
static int fewer_shares(Search *z, int best, int warps)
{
    const int cluster = search_hint_name(z, HINT_cluster), first = z->n_points;
    const SearchPoint *b = &z->point[best];
    double least = SHARED_BETTER;
    int found = best;
    if (cluster < 0 || b->cluster <= 1 || b->kept || b->begins || b->iterations > 1) return best;
    consider_fewer_shares(z, best, warps, cluster);
    search_estimate(z);
    for (int pass = 0; pass < 2; pass++)
        for (int i = first; i < z->n_points; i++) {
            const SearchPoint *p = &z->point[i], *f = &z->point[found];
            const double now = ratio(p, b);
            if (p->full > fmax(1, b->full) || p->kept || p->few > b->few * FEW_WORSE ||
                p->many > b->many * NOT_MUCH_WORSE || now >= SHARED_BETTER)
                continue;
            if (!pass && now < least) least = now;
            const bool alike = p->cluster == f->cluster && f->full > 1 && p->threads > f->threads;
            if (pass && now <= least * ALIKE && (found == best || p->cluster < f->cluster || alike))
                found = i;
        }
    return found;
}

/* Warps of which tiles do not go through shared memory, as scans of rows in strips do not, where memory
 * bounds the others, too: what is waited for there, the estimate counts for little. */
static int less_shared(Search *z, int best, int warps)
{
    enum { LESS = 8 };
    const int first = z->n_points;
    double least = ALIKE;
    int found = best;
    if (z->point[best].shared <= 0 || z->point[best].kept || z->point[best].cluster > 1) return best;
    consider_warps(z, best, warps);
    search_estimate(z);
    for (int i = first; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i], *b = &z->point[best];
        if (p->full <= 1 && LESS * p->shared < b->shared && ratio(p, b) < least && serves_all(p, b)) {
            found = i;
            least = ratio(p, b);
        }
    }
    z->point[found].sure = found != best;
    return found;
}

int search_programs(Search *z, int best)
{
    const int warps = search_hint_name(z, HINT_warps), ctas = search_hint_name(z, HINT_occupancy);
    int found = best;
    double least = BETTER;
    if (best < 0 || warps < 0 || ctas < 0 || z->p->only_if_needed) return best;
    if (z->point[best].products || z->point[best].uncertain || z->point[best].open ||
        z->point[best].may_keep || !(z->point[best].ns < INFINITY))
        return best;
    z->most = MOST_POINTS;
    const int fewer = z->tune->n ? best : fewer_shares(z, best, warps);
    /* Other warps move as many bytes. */
    if (z->point[best].bound == BOUND_MEMORY)
        return fewer != best || z->tune->n ? fewer : less_shared(z, best, warps);
    const int first = z->n_points;
    consider_warps(z, best, warps);
    consider_ctas(z, best, ctas);
    search_estimate(z);
    for (int i = first; i < z->n_points; i++) {
        const double now = ratio(&z->point[i], &z->point[best]);
        if (z->point[i].full > 1 || !(now < least) || !serves_all(&z->point[i], &z->point[best]) ||
            holds_too_much(&z->point[i], &z->point[best]))
            continue;
        found = i;
        least = now;
    }
    return fewer == best || (found != best && ratio(&z->point[fewer], &z->point[found]) >= 1) ? found : fewer;
}
