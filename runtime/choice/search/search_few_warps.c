/* search_few_warps.c: in the search (search.h), whether programs of few warps serve a kernel with products
 * better than programs of four.
 *
 * Warps that share a product of few rows, such as the queries of one step of decoding, share its columns. So
 * they exchange the maxima and sums of rows, and all of a computed operand, over shared memory in each step.
 * One warp has what it needs in its registers, and where there are many programs, those fill a
 * multiprocessor as well.
 *
 * Programs without loops, such as a few products of small matrices, have no step to share: four warps divide
 * what one could have under way by itself.
 *
 * It is looked at for kernels whose sizes are `auto`, whose products are of single warps (mma.sync), which
 * reduce tiles, too, or have no loop, and whose source and launch say nothing of warps: with the sizes that
 * are best so far, and with each of their names at another value. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

/* The ratio below which the estimate must be, with loops and without; that of the best sizes below which
 * others are looked at. */
static const double BETTER = 0.9, NOT_FAR = 1.5, BETTER_AT_ONCE = 0.97;

static void consider(Search *z, const uint8_t *from, int warps, int value, int name, int to)
{
    uint8_t at[MOST_NAMES];
    memcpy(at, from, sizeof at);
    at[warps] = (uint8_t)value;
    if (name >= 0) at[name] = (uint8_t)to;
    search_add(z, at);
}

int search_few_warps(Search *z, int best)
{
    const int warps = search_hint_name(z, HINT_warps), first = z->n_points;
    int found = best;
    if (best < 0 || warps < 0 || z->p->only_if_needed || !z->p->device.model) return best;
    if (!z->point[best].few_warps || z->point[best].warps_given || z->point[best].divided ||
        !(z->point[best].ns < INFINITY))
        return best;
    z->most = MOST_POINTS;
    for (int v = 0; v < search_listed(&z->name[warps]); v++) consider(z, z->point[best].at, warps, v, -1, 0);
    search_estimate(z);
    /* Without a loop one warp takes as many times as long for as much: it has sizes of its own. */
    bool near = z->point[best].once;
    const double better = near ? BETTER_AT_ONCE : BETTER;
    for (int i = first; i < z->n_points; i++)
        near |= z->point[i].full <= 1 && z->point[i].ns < NOT_FAR * z->point[best].ns;
    for (int v = 0; near && v < search_listed(&z->name[warps]); v++)
        for (int j = 0; j < z->n_names; j++)
            for (int u = 0; !z->name[j].hint && u < search_listed(&z->name[j]); u++)
                consider(z, z->point[best].at, warps, v, j, u);
    search_estimate(z);
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].full <= 1 && z->point[i].ns < z->point[found].ns * (found == best ? better : 1))
            found = i;
    return found;
}
