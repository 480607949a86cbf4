/* search_order.c: the order of programs, in the search (search.h). Multiprocessors come in groups, and what
 * several CTAs of a group load at the same time comes from L2 once. So programs of one group should have
 * rows and columns of tiles in common, as 4 x 4 neighbours have, and not 16 of one column. Tiles and their
 * other names are chosen before: only points whose programs do the same are looked at here. Clusters go to
 * the groups in turn, so that what comes from memory alone tells their orders apart: the estimate counts
 * that. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

/* The ratio of estimates below which another order is taken. */
static const double ORDER_GAIN = 0.995;

/* The estimate and what the windows of a group take beside it. The estimate itself does not count them: its
 * other figures were found on orders of all kinds. */
static double with_groups(const Search *z, const SearchPoint *p)
{
    const DeviceModel *m = z->p->device.model;
    return p->ns + m->group_byte * p->nearby * m->gpc * (double)p->programs / z->p->device.units;
}

/* Whether the programs of two points do the same, be it in another order. */
static bool same_programs(const SearchPoint *a, const SearchPoint *b)
{
    return a->programs == b->programs && a->iterations == b->iterations && a->words == b->words &&
           a->threads == b->threads && a->cluster == b->cluster && a->divided == b->divided;
}

/* Whether the name is a constant that neither shapes the grid nor decides with the tiles. */
static bool may_order(const SearchName *m)
{ return !m->hint && !m->shapes_grid && !m->with_tiles && !m->divisors; }

/* Whether a point differs from another one in names that may decide the order, and does the same. */
static bool is_another_order(const Search *z, const SearchPoint *p, const SearchPoint *of)
{
    for (int j = 0; j < z->n_names; j++)
        if (p->at[j] != of->at[j] && !may_order(&z->name[j])) return false;
    return p->ns < INFINITY && same_programs(p, of);
}

int search_order(Search *z, int best)
{
    int found = best;
    if (!z->p->device.model || search_on_cpu(z) || z->point[best].nearby <= 0) return best;
    for (int j = 0; j < z->n_names; j++)
        for (int v = 0; may_order(&z->name[j]) && v < search_listed(&z->name[j]); v++)
            search_consider_value(z, z->point[best].at, j, v);
    search_estimate(z);
    for (int i = 0; i < z->n_points; i++)
        if (is_another_order(z, &z->point[i], &z->point[best]) &&
            with_groups(z, &z->point[i]) < with_groups(z, &z->point[found]))
            found = i;
    const bool gains = with_groups(z, &z->point[found]) < with_groups(z, &z->point[best]) * ORDER_GAIN;
    return gains ? found : best;
}
