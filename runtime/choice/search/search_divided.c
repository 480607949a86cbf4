/* search_divided.c: what CTAs divide among them, in the search (search.h). Where programs are few, parts of
 * their loops run beside each other, and other tiles are best than if each program ran a loop as a whole. Of
 * a last round all take a share. What neighbouring programs both load they may load together. */
#define _GNU_SOURCE
#include "runtime/choice/search/search_points.h"
#include <math.h>

/* Tiles of few programs that are divided as far as the device has room: where all are compiled, and where
 * predictions choose of them. */
enum { DIVIDED = 48, DIVIDED_PREDICTED = 256 };
/* The ratio of estimates below which another tile is taken because its loops can be divided. */
static const double DIVIDED_GAIN = 0.98;
enum { SHARED_TILES = 6, PAIRED_TILES = 6 };
/* The same of a last round that is shared. */
static const double SHARED_GAIN = 0.97;
/* The same of programs that load together. */
static const double TOGETHER_GAIN = 0.997;
/* The same of programs that become one, whose estimate is a tenth too short beside that of programs alone. */
static const double PAIRED_GAIN = 0.9;
/* The ratio of the first such estimate from which on no other sizes are tried, and of the best of some sizes
 * up to which other steps are. */
static const double PAIRED_HOPELESS = 2, PAIRED_NEAR = 1.25;
enum {
    PAIRS = 1 /* the value of `cluster` by which two programs load together, and of `pack` by which they
                 become one */
};

/* CTAs of a multiprocessor, up to which loops without products are divided, and the ratio of estimates below
 * which more than one are taken (bench/notes/rows.md, "Columns, and sums of a whole tensor"). */
enum { MOST_CTAS = 4 };
static const double CROWDED_GAIN = 0.85;

/* The greatest value of name `j`, up to `most`, with which the programs of `p` still run at once, `ctas` a
 * multiprocessor; -1: there is none. */
static int room_to_divide(const Search *z, const SearchPoint *p, int j, int64_t most, int ctas)
{
    int found = -1;
    for (int v = 0; v < search_listed(&z->name[j]); v++) {
        int64_t parts = z->name[j].values[v].i;
        if (parts > 1 && parts <= most && parts * p->programs <= ctas * (int64_t)z->p->device.units &&
            (found < 0 || parts > z->name[j].values[found].i))
            found = v;
    }
    return found;
}

/* The estimate of a point, divided by as many parts as its programs leave room for. */
double search_if_divided(const Search *z, const SearchPoint *p)
{
    double ns = p->ns;
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        int v = m->hint && m->hint->search == SEARCH_FEW_PROGRAMS && p->programs > 0
                    ? room_to_divide(z, p, j, INT64_MAX, 1)
                    : -1;
        if (v >= 0) ns /= (double)m->values[v].i;
    }
    return ns;
}

/* Whether the programs of a point load together: the loops of such programs are not divided. */
static bool loads_together(const Search *z, const SearchPoint *p)
{
    int j = search_hint_name(z, HINT_cluster);
    return j >= 0 && p->at[j] < search_listed(&z->name[j]) && z->name[j].values[p->at[j]].i > 1;
}

/* The estimate, or what it may be. */
static double expected_ns(const SearchPoint *p) { return p->known ? p->ns : exp(p->log_predicted); }

/* Lets the place `k` of a heap of `n` points sink until those below it are no less, by `ns` and then by
 * number. */
static void sink(int *heap, int n, int k, const double *ns)
{
    for (int below; (below = 2 * k + 1) < n; k = below) {
        const int left = heap[below], right = below + 1 < n ? heap[below + 1] : left, top = heap[k];
        const bool other = ns[right] < ns[left] || (ns[right] <= ns[left] && right < left);
        const int least = other ? right : left;
        if (ns[top] < ns[least] || (ns[top] <= ns[least] && top < least)) return;
        below += other;
        heap[k] = least;
        heap[below] = top;
    }
}

/* Adds the points of few programs with as many parts, up to `most`, as there is room for with `ctas` a
 * multiprocessor, at most DIVIDED of them: first what should be fastest if dividing costs nothing. */
static void consider_parts(Search *z, int j, int64_t most, int ctas)
{
    double ns[MOST_POINTS];
    int by[MOST_POINTS], heap[MOST_POINTS], left = 0;
    const int n = z->n_points, tiles = search_predicts(z) ? DIVIDED_PREDICTED : DIVIDED;
    for (int i = 0; i < n; i++) {
        const SearchPoint *p = &z->point[i];
        const bool may = expected_ns(p) < INFINITY && !loads_together(z, p);
        by[i] = may ? room_to_divide(z, p, j, most, ctas) : -1;
        if (by[i] < 0) continue;
        ns[i] = expected_ns(p) / (double)z->name[j].values[by[i]].i;
        heap[left++] = i;
    }
    for (int k = left / 2; k-- > 0;) sink(heap, left, k, ns);
    for (int k = 0; k < tiles && left; k++) {
        const int now = heap[0];
        heap[0] = heap[--left];
        sink(heap, left, 0, ns);
        search_consider_value(z, z->point[now].at, j, by[now]);
    }
    search_estimate(z);
}

/* The best points of different tiles whose loops are divided. Other steps and stages suit them than suited
 * the tiles as a whole. */
static int best_divided(const Search *z, int *tops, int most)
{
    int n = 0, now = 0;
    while (n < most && now >= 0) {
        now = -1;
        for (int i = 0; i < z->n_points; i++) {
            const SearchPoint *p = &z->point[i];
            bool other = p->divided && p->ns < INFINITY;
            for (int k = 0; k < n && other; k++) other = !search_same_tiles(z, p, &z->point[tops[k]]);
            if (other && (now < 0 || search_is_less(p->ns, z->point[now].ns))) now = i;
        }
        if (now >= 0) tops[n++] = now;
    }
    return n;
}

/* Whether dividing may give a better point than `best`: where that leaves multiprocessors idle; and where it
 * has hardly more programs than there are of these, if another point would be better if dividing cost
 * nothing.
 */
static bool may_gain(const Search *z, int best)
{
    const int64_t units = z->p->device.units, programs = z->point[best].programs;
    if (programs < units) return true;
    for (int i = 0; i < z->n_points && programs < 2 * units; i++)
        if (!loads_together(z, &z->point[i]) &&
            search_if_divided(z, &z->point[i]) < z->point[best].ns * DIVIDED_GAIN)
            return true;
    return false;
}

/* Where programs are few, the best tile of all is often not the best of those whose loops are divided:
 * larger tiles, which load less, come to as many CTAs. Estimates of joins are rough, so such a tile has to be
 * clearly better than the best one so far, `best`. */
int search_divided(Search *z, int best)
{
    int tops[SEARCH_AGAIN] = { 0 };
    if (best < 0 || !may_gain(z, best)) return best;
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].hint && z->name[j].hint->search == SEARCH_FEW_PROGRAMS) {
            consider_parts(z, j, SEARCH_MOST_OF_A_CLUSTER, 1);
            consider_parts(z, j, INT64_MAX, 1);
        }
    search_improve(z, tops, best_divided(z, tops, SEARCH_AGAIN));
    search_improve(z, tops, search_best_of_different_tiles(z, tops, SEARCH_AGAIN));
    int found = search_best(z, NULL, 0);
    return z->point[found].ns < z->point[best].ns * DIVIDED_GAIN ? found : best;
}

/* Point `from` with value `v` of name `j`, and each value of the hint that lets a CTA run several programs
 * but the one that forbids it: such CTAs share nothing. */
static void consider_shares(Search *z, int from, int j, int v)
{
    for (int k = 0; k < z->n_names; k++) {
        if (!z->name[k].hint || z->name[k].hint->id != HINT_persistent) continue;
        for (int u = 0; u < z->name[k].n; u++) {
            uint8_t p[MOST_NAMES];
            if (u < search_listed(&z->name[k]) && !z->name[k].values[u].i) continue;
            memcpy(p, z->point[from].at, sizeof p);
            p[k] = (uint8_t)u;
            search_consider_value(z, p, j, v);
        }
    }
}

/* The greatest value of name `j` with which each share is a part of one program of the last round; where
 * `uneven`, the greatest of all. -1: there is none above 1. */
static int shares_of(const Search *z, const SearchPoint *p, int j, bool uneven)
{
    const SearchName *m = &z->name[j];
    const int64_t units = z->p->device.units, left = p->programs % units;
    int found = -1;
    for (int v = 0; v < search_listed(m) && left; v++) {
        const bool may = m->values[v].i > 1 && (uneven || m->values[v].i * left <= units);
        if (may && (found < 0 || m->values[v].i > m->values[found].i)) found = v;
    }
    return found;
}

/* The estimate of a point whose last round all CTAs share, if sharing costs nothing. */
static double if_shared(const Search *z, const SearchPoint *p)
{
    const double rounds = (double)p->programs / z->p->device.units;
    return p->divided ? INFINITY : expected_ns(p) * rounds / ceil(rounds);
}

/* Adds the points of the SHARED_TILES tiles that should be fastest if sharing costs nothing, each with even
 * and with uneven shares of the last round. */
static void consider_last_round(Search *z, int j, double best)
{
    int tops[SHARED_TILES];
    for (int n = 0; n < SHARED_TILES; n++) {
        int now = -1;
        for (int i = 0; i < z->n_points; i++) {
            const SearchPoint *p = &z->point[i];
            bool other = if_shared(z, p) < (now < 0 ? best : if_shared(z, &z->point[now]));
            for (int k = 0; k < n && other; k++) other = !search_same_tiles(z, p, &z->point[tops[k]]);
            if (other) now = i;
        }
        if (now < 0) break;
        tops[n] = now;
        const int even = shares_of(z, &z->point[now], j, false), any = shares_of(z, &z->point[now], j, true);
        if (even >= 0) consider_shares(z, now, j, even);
        if (any >= 0 && any != even) consider_shares(z, now, j, any);
    }
}

/* Programs that do not fill a last round, shared by all CTAs. Then other tiles may be best than in whole
 * rounds, so that several are tried; a point has to be clearly better than the best one so far, `best`. */
int search_shares(Search *z, int best)
{
    int found = best, first = z->n_points;
    if (best < 0 || !z->p->device.model) return best;
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].hint && z->name[j].hint->search == SEARCH_LAST_ROUND)
            consider_last_round(z, j, z->point[best].ns * SHARED_GAIN);
    search_estimate(z);
    for (int i = first; i < z->n_points; i++)
        if (search_is_less(z->point[i].ns, z->point[found].ns)) found = i;
    return z->point[found].ns < z->point[best].ns * SHARED_GAIN ? found : best;
}

/* The name that the search has added for a hint; -1: it has not. */
static int added_hint(const Search *z, HintId id)
{
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].domain < 0 && z->name[j].hint && z->name[j].hint->id == id) return j;
    return -1;
}

/* The point that should be fastest if its loops are divided as far as there is room and dividing costs
 * nothing; -1: none has room. */
static int most_promising(const Search *z, int j)
{
    int found = -1;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i];
        bool may =
            p->ns < INFINITY && !p->parts_given && room_to_divide(z, p, j, SEARCH_MOST_OF_A_CLUSTER, 1) >= 0;
        if (may && (found < 0 || search_if_divided(z, p) < search_if_divided(z, &z->point[found]))) found = i;
    }
    return found;
}

/* Loops without products of few programs, divided so far that a multiprocessor has several CTAs: while one
 * waits for its loads or meets, others work. */
static int several_ctas(Search *z, int j, int best)
{
    int tops[SEARCH_AGAIN] = { 0 };
    if (z->front->products) return best;
    for (int ctas = 2; ctas <= MOST_CTAS; ctas *= 2) consider_parts(z, j, INT64_MAX, ctas);
    search_improve(z, tops, best_divided(z, tops, SEARCH_AGAIN));
    const int found = search_best(z, NULL, 0);
    return z->point[found].ns < z->point[best].ns * CROWDED_GAIN ? found : best;
}

/* The best sizes of a kernel with `auto` constants, divided where programs are few and the loops of these or
 * of larger sizes can be: larger tiles, which load less, leave more room. What the source says of it stays,
 * and without a loop there is nothing to divide. */
static int autos_divided(Search *z)
{
    int best = search_autos(z), j = added_hint(z, HINT_split_k), first = z->n_points;
    if (j < 0 || z->p->only_if_needed || (z->point[best].once && !z->point[best].products)) return best;
    if (z->point[best].divided || z->point[best].parts_given) return best;
    int from = z->point[best].programs < z->p->device.units ? most_promising(z, j) : -1;
    if (from < 0) return best;
    int v = room_to_divide(z, &z->point[from], j, SEARCH_MOST_OF_A_CLUSTER, 1);
    search_consider_value(z, z->point[from].at, j, v);
    search_estimate(z);
    if (z->n_points == first || !z->point[first].divided) return best;
    best = search_divided(z, best);
    z->most = MOST_POINTS;
    return z->point[best].divided ? several_ctas(z, j, search_other_shape(z, best, true)) : best;
}

/* Whether it may help that programs load together: L2 then hands out fewer bytes. */
static bool may_load_together(const SearchPoint *p)
{
    return p->products && !p->divided && !p->cluster_given &&
           (p->bound == BOUND_PRODUCTS || p->bound == BOUND_L2);
}

/* The best sizes where the neighbours along one axis of the grid load together what they share, in pairs. */
static int autos_together(Search *z, int best)
{
    int j = added_hint(z, HINT_cluster), axis = added_hint(z, HINT_cluster_axis), first = z->n_points,
        found = best;
    if (j < 0 || axis < 0 || z->p->only_if_needed || !may_load_together(&z->point[best])) return best;
    for (int v = 0; v < search_listed(&z->name[axis]); v++) {
        uint8_t at[MOST_NAMES];
        memcpy(at, z->point[best].at, sizeof at);
        at[axis] = (uint8_t)v;
        search_consider_value(z, at, j, PAIRS);
    }
    search_estimate(z);
    for (int i = first; i < z->n_points; i++)
        if (search_is_less(z->point[i].ns, z->point[found].ns)) found = i;
    return z->point[found].ns < z->point[best].ns * TOGETHER_GAIN ? found : best;
}

/* Whether a program with the sums of two may be faster: it reads what both share once. */
static bool may_pair(const SearchPoint *p)
{
    return p->products && !p->divided && !p->cluster_given &&
           (p->bound == BOUND_PRODUCTS || p->bound == BOUND_L2 || p->bound == BOUND_SHARED_MEMORY ||
               p->bound == BOUND_LOADS);
}

/* The best of the points from `first` on and of `best`. */
static int best_from(const Search *z, int first, int best)
{
    for (int i = first; i < z->n_points; i++)
        if (search_is_less(z->point[i].ns, z->point[best].ns)) best = i;
    return best;
}

/* The point with other values of each constant that is not one of the grid. */
static void consider_other_steps(Search *z, int from)
{
    for (int j = 0; j < z->n_names; j++)
        for (int v = 0; v < search_listed(&z->name[j]) && !z->name[j].hint && !z->name[j].shapes_grid; v++)
            search_consider_value(z, z->point[from].at, j, v);
}

/* The best sizes where two neighbouring programs are one (passes/tile/program/paired_programs.c). Smaller
 * sizes and steps may be best then, so that several are tried, unless the best alone shows that these
 * programs stay apart. */
static int autos_paired(Search *z, int best)
{
    int j = added_hint(z, HINT_pack), tops[PAIRED_TILES], first = z->n_points;
    if (j < 0 || z->p->only_if_needed || !may_pair(&z->point[best])) return best;
    const int n = search_best_of_different_tiles(z, tops, PAIRED_TILES);
    search_consider_value(z, z->point[best].at, j, PAIRS);
    search_estimate(z);
    if (z->n_points == first || z->point[first].programs == z->point[best].programs) return best;
    if (!(z->point[first].ns < z->point[best].ns * PAIRED_HOPELESS)) return best;
    for (int k = 0; k < n; k++) search_consider_value(z, z->point[tops[k]].at, j, PAIRS);
    search_estimate(z);
    const int paired = best_from(z, first, first);
    if (z->point[paired].ns < z->point[best].ns * PAIRED_NEAR) consider_other_steps(z, paired);
    search_estimate(z);
    const int found = best_from(z, first, best);
    return z->point[found].ns < z->point[best].ns * PAIRED_GAIN ? found : best;
}

int search_autos_with_hints(Search *z)
{
    int best = autos_divided(z);
    if (best < 0) return best;
    const int paired = autos_paired(z, best);
    return paired != best ? paired : autos_together(z, best);
}
