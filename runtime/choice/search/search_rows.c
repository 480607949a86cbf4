/* search_rows.c: rows that registers hold while they are reduced, in the search (search.h).
 *
 * Many configurations of such rows have estimates that differ by less than the estimates err: the model
 * counts the time in which memory has nothing to do, but not that in which a warp works alone on what its
 * lanes hold, nor what registers that are nearly full cost. By measurement the best CTAs have a warp for each
 * SIMD of a multiprocessor, and as few of them share a row as leave each thread room beside its part
 * (bench/notes/rows.md, "A warp for each SIMD"). */
#include "passes/kernel/kernel.h"
#include "runtime/choice/search/search_points.h"

/* Ratio of estimates of held rows below which these do not say which is faster. */
static const double ALIKE = 1.1;

enum {
    LEAST_WORDS = 24, /* of a row, for each thread: shorter rows are left as they are */
    MANY = 4,         /* programs of a multiprocessor from which on it works on several rows all the time */
};

static bool holds(const Search *z, const SearchPoint *p, double most)
{
    const Target *t = z->p->device.target;
    return p->rows && !p->kept && p->ns <= most && p->threads == t->simds * t->wave &&
           p->words >= LEAST_WORDS && p->words <= KERNEL_HELD_WORDS;
}

/* Considers CTAs of so many warps and of each number that may share a row and leaves each thread enough of
 * it. Registers that are partly filled, and rows that are held widened, make the words of `best` too many. */
static void consider(Search *z, const SearchPoint *best, int warps, int value)
{
    int cluster = search_hint_name(z, HINT_cluster),
        threads = z->p->device.target->simds * z->p->device.target->wave;
    double words = best->words * best->threads * (best->cluster > 1 ? best->cluster : 1) / threads;
    uint8_t from[MOST_NAMES], at[MOST_NAMES];
    memcpy(from, best->at, sizeof from);
    for (int k = 0; k < (cluster < 0 ? 1 : search_listed(&z->name[cluster])); k++) {
        double each = cluster < 0 ? words : words / (double)z->name[cluster].values[k].i;
        if (each < LEAST_WORDS) continue;
        memcpy(at, from, sizeof at);
        at[warps] = (uint8_t)value;
        if (cluster >= 0) at[cluster] = (uint8_t)k;
        search_consider_kept(z, at);
    }
    search_estimate(z);
}

int search_rows(Search *z, int best)
{
    const SearchProblem *q = z->p;
    int warps = search_hint_name(z, HINT_warps), value = 0, first = z->n_points, found = best;
    if (!q->device.model || q->device.target->kind != TARGET_CUDA || warps < 0 || !z->point[best].rows ||
        z->point[best].programs < MANY * (int64_t)q->device.units)
        return best;
    while (
        value < search_listed(&z->name[warps]) && z->name[warps].values[value].i != q->device.target->simds)
        value++;
    if (value == search_listed(&z->name[warps])) return best;
    consider(z, &z->point[best], warps, value);
    const double most = z->point[best].ns * ALIKE;
    for (int i = first; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i], *f = &z->point[found];
        if (!holds(z, p, most)) continue;
        if (!holds(z, f, most) || p->words > f->words) found = i;
    }
    return found;
}
