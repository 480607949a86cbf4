/* search_kept.c: rows that are kept in shared memory, in the search (search.h).
 *
 * Configurations are compared with rows in registers. Where the best of them leaves so few registers that its
 * rows are kept in shared memory instead (passes/kernel/pipeline/keep_rows.c), other warps and CTAs are best:
 * nothing of a row is held by a thread, and what counts is how many rows a multiprocessor works on at once.
 * The estimates of such configurations are alike, since all of them keep memory busy by what the model counts
 * (bench/notes/rows.md, "Rows kept in shared memory"). */
#include "passes/kernel/kernel.h"
#include "runtime/choice/search/search_points.h"

enum {
    ENOUGH_CTAS = 3, /* of a multiprocessor: one loads, one reduces, one stores */
    MORE_CTAS = 5,   /* of rows that begin anywhere, whose parts take longer */
    MANY_CTAS = 6,   /* the same beside several vectors of weights, with three eighths of the threads */
    ALONE_CTAS = 4,  /* the same where CTAs wait for no others and read several vectors of weights, by half of
                        the threads: more of them leave weights less room in L1 */
    PAIR = 2,        /* the largest cluster of aligned rows that is worth it for the sake of more CTAs */
};

void search_consider_kept(Search *z, const uint8_t *at)
{
    SearchPoint *p = &z->point[z->n_points];
    if (z->n_points == MOST_POINTS) return;
    *p = (SearchPoint){ .keeps = true };
    memcpy(p->at, at, sizeof p->at);
    if (search_allowed(z, p)) z->n_points++;
}

int search_hint_name(const Search *z, HintId id)
{
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].hint && z->name[j].hint->id == id) return j;
    return -1;
}

static int64_t at_work(const SearchPoint *p) { return (int64_t)p->ctas * p->threads; }

/* Whether a multiprocessor works on enough rows. Those that begin anywhere take more instructions: CTAs more,
 * and nearly half of its threads (what registers of shifted weights leave), be it by a larger cluster. */
static bool enough(const Search *z, const SearchPoint *p)
{
    if (!p->begins) return p->ctas >= ENOUGH_CTAS && p->cluster <= PAIR;
    const int64_t all = z->p->device.target->sm_threads, busy = at_work(p);
    if (p->ctas >= MORE_CTAS && 16 * busy >= 7 * all) return true;
    if (p->weights <= 1) return false;
    return (p->ctas >= MANY_CTAS && 8 * busy >= 3 * all) ||
           (p->ctas >= ALONE_CTAS && p->cluster <= 1 && 2 * busy >= all);
}

/* Rows of few CTAs, of more where a multiprocessor has enough of them only then, or has too few of rows that
 * begin anywhere in any case, or not enough beside several vectors of weights; then the most threads, in many
 * CTAs, or in few where rows begin anywhere, since threads that hold less of a row have registers to spare.
 */
static bool better(const Search *z, const SearchPoint *a, const SearchPoint *b)
{
    if (enough(z, a) != enough(z, b)) return enough(z, a);
    if (a->begins && !enough(z, a) && a->ctas != b->ctas &&
        (a->weights > 1 || a->ctas <= ENOUGH_CTAS || b->ctas <= ENOUGH_CTAS))
        return a->ctas > b->ctas;
    if (a->cluster != b->cluster) return a->cluster < b->cluster;
    if (at_work(a) != at_work(b)) return at_work(a) > at_work(b);
    return a->begins ? a->ctas < b->ctas : a->ctas > b->ctas;
}

int search_kept(Search *z, int best)
{
    int first = z->n_points, warps = search_hint_name(z, HINT_warps),
        cluster = search_hint_name(z, HINT_cluster);
    if (!z->p->device.model || z->p->device.target->kind != TARGET_CUDA || z->point[best].products)
        return best;
    if (!z->point[best].may_keep) return best;
    search_consider_kept(z, z->point[best].at);
    search_estimate(z);
    if (z->n_points == first || !(z->point[first].kept || z->point[first].begins)) {
        z->n_points = first; /* the last points of the search */
        return best;
    }
    for (int i = 0; i < (warps < 0 ? 1 : search_listed(&z->name[warps])); i++)
        for (int j = 0; j < (cluster < 0 ? 1 : search_listed(&z->name[cluster])); j++) {
            uint8_t at[MOST_NAMES];
            memcpy(at, z->point[best].at, sizeof at);
            if (warps >= 0) at[warps] = (uint8_t)i;
            if (cluster >= 0) at[cluster] = (uint8_t)j;
            search_consider_kept(z, at);
        }
    search_estimate(z);
    int found = best;
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].kept && (found == best || better(z, &z->point[i], &z->point[found]))) found = i;
    return found;
}
