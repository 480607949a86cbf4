/* search_streams.c: configurations that pass over memory once, in the search (search.h): the estimates
 * of many of them can hardly be told apart. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

enum {
    EASILY_HELD = 32,     /* words of a thread that its largest tile takes */
    EASILY_TOGETHER = 64, /* that are in use together: beside addresses they leave room for 512 threads */
    LEAST_THREADS = 128
};

/* The point's programs pass over their tiles once. */
static bool once(const SearchPoint *p)
{ return !p->products && p->held == 0 && p->iterations <= 1 && !p->trips && p->ns < INFINITY; }

/* Memory bounds it, too. */
static bool streams(const SearchPoint *p) { return once(p) && p->bound == BOUND_MEMORY; }

/* The words of a thread, 0 where these are few. */
static double strain(const SearchPoint *p) { return p->words > EASILY_HELD ? p->words : 0; }

/* Of points that stream and whose estimates can hardly be told apart, one that exchanges nothing through
 * shared memory and whose threads have the fewest words, if these are many, and of these the one with the
 * fewest CTAs for a row: the estimate knows neither the time in which instructions are issued nor registers
 * that do not suffice, and hardly what it takes that CTAs meet. What is declared stays. */
int search_least_strained(const Search *z, int best)
{
    int found = best;
    if (best <= 0 || !streams(&z->point[best])) return best;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i], *f = &z->point[found];
        if (!streams(p) || p->ns > z->point[best].ns * SEARCH_HARDLY_WORSE) continue;
        bool alike = !(p->shared > 0) == !(f->shared > 0), equal = alike && strain(p) == strain(f);
        bool less = alike ? strain(p) < strain(f) : f->shared > 0, fewer = p->cluster < f->cluster;
        if (less || (equal && (fewer || (p->cluster == f->cluster && search_is_less(p->ns, f->ns)))))
            found = i;
    }
    return found;
}

/* The words of a thread that are in use together, 0 where these are few: of many, few threads find room,
 * which wait for memory together. */
static double crowd(const SearchPoint *p) { return p->live > EASILY_TOGETHER ? p->live : 0; }

/* Of tiles that are passed over once and whose estimates can hardly be told apart, the one whose threads hold
 * the fewest words, if these are many, and of these the one whose CTAs have the fewest warps, but four:
 * registers of warps that have ended stay with their CTA until its last one ends. */
int search_smallest_ctas(const Search *z, int best)
{
    int found = best;
    if (best < 0 || !once(&z->point[best])) return best;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i], *f = &z->point[found];
        if (!once(p) || p->ns > z->point[best].ns * SEARCH_HARDLY_WORSE || p->shared > z->point[best].shared)
            continue;
        if (p->threads < LEAST_THREADS || crowd(p) > crowd(f)) continue;
        bool eased = crowd(p) < crowd(f), fewer = p->threads < f->threads,
             alike = p->threads == f->threads && search_is_less(p->ns, f->ns);
        if (eased || fewer || alike) found = i;
    }
    return found;
}

/* The threads of all programs, where these find places at once; 0: they do not. */
static int64_t all_at_once(const Search *z, const SearchPoint *p)
{
    const int64_t threads = p->programs * p->threads;
    return threads <= (int64_t)z->p->device.units * z->p->device.target->sm_threads ? threads : 0;
}

/* Of programs that walk over ranges of different lengths, that memory bounds, and whose estimates can hardly
 * be told apart, the most: the one with the longest range ends last, while others have nothing to do any
 * more, and the smaller it is, the earlier. */
static int most_programs(const Search *z, int best)
{
    int found = best;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i], *f = &z->point[found];
        if (p->trips && p->ragged && p->ns <= z->point[best].ns * SEARCH_HARDLY_WORSE &&
            (p->programs > f->programs ||
                (found != best && p->programs == f->programs && search_is_less(p->ns, f->ns))))
            found = i;
    }
    return found;
}

/* Of as few programs as memory has little to do beside while they wait, with as many programs and estimates
 * that can hardly be told apart, the one whose loops wait the fewest times. */
static int fewest_waits(const Search *z, int best)
{
    enum { FEW = 4 }; /* programs of a multiprocessor */
    int found = best;
    const SearchPoint *b = &z->point[best];
    const int64_t all = (int64_t)z->p->device.units * z->p->device.target->sm_threads;
    if (b->bound != BOUND_MEMORY || b->ragged || b->programs > FEW * (int64_t)z->p->device.units) return best;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i];
        const int64_t threads = all_at_once(z, p) * p->cluster;
        if (p->trips && p->programs == b->programs && p->ns <= b->ns * SEARCH_HARDLY_WORSE && threads &&
            threads <= all && p->full <= 1 && p->waits < z->point[found].waits)
            found = i;
    }
    return found;
}

/* Of programs that wait for what their loops load, and whose estimates can hardly be told apart, the fewest:
 * whether all of them run at once depends on registers that the estimate does not know. Where memory bounds
 * them, only of programs that all run at once, with as many threads in all: these have wider rows. Where they
 * walk over ranges of different lengths, of as many programs those whose threads hold the fewest words: most
 * of a range's last tile is empty. */
int search_fewest_programs(const Search *z, int best)
{
    int found = best;
    if (best < 0 || !z->point[best].trips || z->point[best].products) return best;
    const SearchPoint *b = &z->point[best];
    if (b->ragged && b->bound == BOUND_MEMORY) return most_programs(z, best);
    if (b->bound != BOUND_LOADS && (b->bound != BOUND_MEMORY || !all_at_once(z, b))) return best;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i], *f = &z->point[found];
        const bool like = b->bound == BOUND_LOADS ? p->threads == b->threads
                                                  : p->programs * p->threads == b->programs * b->threads;
        if (!p->trips || !like || p->ns > b->ns * SEARCH_HARDLY_WORSE) continue;
        if (p->ragged ? p->programs == f->programs && p->words < f->words : p->programs < f->programs)
            found = i;
    }
    return fewest_waits(z, found);
}
