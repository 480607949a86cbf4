/* search_sizes.c: sizes of tiles between those that a block lists, where `fit` allows them. An extent of 328
 * takes three tiles of 112 or four of 88, and lists have neither; and 42 x 3 tiles of 256 x 112 fill 132
 * multiprocessors in one round, which 42 x 2 of 256 x 176 leave idle. So from the best points of different
 * tiles those sizes are tried with which an axis has as many tiles, or one more or less, and those with which
 * all programs are just as many as run in whole rounds. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

enum {
    SIZES_FROM = 6, /* points of different tiles from which other sizes are tried */
    SIZES_OF = 6,   /* sizes that are tried from each of them: those with the least work */
    VARIANTS = 4,   /* points for each size: both values of two flags that decide with the tiles */
};
/* A size is looked at if the busiest multiprocessor has less than this part of the work that it has now. */
static const double LESS_WORK = 0.99;
/* Ratios to the estimate of the best point: other names are tried with a size below the first, and a size is
 * taken below the second, so that a listed size is kept where both are estimated about alike. */
static const double WORTH_IMPROVING = 1.03, FITTED_GAIN = 0.98;

/* Two axes of the grid, as they are at a point: the name of the tiles' size, its value, and their number.
 * rest: programs and parts for each pair of tiles along both. */
typedef struct Axis {
    int name;
    int64_t extent, step, size;
} Axis;
typedef struct Grid {
    Axis axis[2];
    int64_t rest, units;
} Grid;
typedef struct Size {
    int64_t of[2];
    double work;
} Size;
typedef struct Sizes {
    int n;
    Size size[SIZES_OF]; /* with the least work first */
} Sizes;

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* What the busiest multiprocessor computes, in elements of the result. */
static double work_of(const Grid *g, const int64_t *size)
{
    int64_t programs = g->rest;
    for (int k = 0; k < 2; k++) programs *= divide_up(g->axis[k].extent, size[k]);
    return (double)divide_up(programs, g->units) * (double)size[0] * (double)size[1];
}

/* The least size with which the axis has at most `tiles` tiles. */
static int64_t size_for(const Axis *a, int64_t tiles)
{ return divide_up(divide_up(a->extent, tiles), a->step) * a->step; }

static void add_size(const Grid *g, int64_t first, int64_t second, Sizes *out)
{
    const Size now = { { first, second }, work_of(g, (int64_t[]){ first, second }) };
    int at = out->n;
    for (int i = 0; i < out->n; i++)
        if (out->size[i].of[0] == first && out->size[i].of[1] == second) return;
    if (now.work > LESS_WORK * work_of(g, (int64_t[]){ g->axis[0].size, g->axis[1].size })) return;
    if (out->n < SIZES_OF) out->n++;
    else if (now.work >= out->size[--at].work) return;
    for (; at && out->size[at - 1].work > now.work; at--) out->size[at] = out->size[at - 1];
    out->size[at] = now;
}

/* Sizes of axis `k` for which all programs, with tiles of `other` along the other axis, are just as many as
 * run in one round less than now, in as many, and in one more. */
static void add_whole_rounds(const Grid *g, int k, int64_t other, Sizes *out)
{
    const Axis *a = &g->axis[k];
    const int64_t beside = g->rest * divide_up(g->axis[!k].extent, other),
                  rounds = divide_up(beside * divide_up(a->extent, a->size), g->units);
    for (int64_t r = rounds > 1 ? rounds - 1 : 1; r <= rounds + 1; r++) {
        const int64_t tiles = g->units * r / beside, size = tiles ? size_for(a, tiles) : 0;
        if (size) add_size(g, k ? other : size, k ? size : other, out);
    }
}

static void find_sizes(const Grid *g, Sizes *out)
{
    for (int k = 0; k < 2; k++) {
        const Axis *a = &g->axis[k];
        const int64_t tiles = divide_up(a->extent, a->size), other = g->axis[!k].size;
        add_whole_rounds(g, !k, a->size, out);
        for (int64_t n = tiles > 1 ? tiles - 1 : 1; n <= tiles + 1; n++) {
            const int64_t size = size_for(a, n);
            add_size(g, k ? other : size, k ? size : other, out);
            add_whole_rounds(g, !k, size, out);
        }
    }
}

/* The number of a value of name `j`, which is added if it lies between two others; -1: it does not, or there
 * is no room for it. */
static int value_number(Search *z, int j, int64_t size)
{
    SearchName *m = &z->name[j];
    bool less = false, more = false;
    for (int v = 0; v < m->n; v++) {
        if (m->values[v].i == size) return v;
        less |= m->values[v].i < size;
        more |= m->values[v].i > size;
    }
    if (!less || !more || m->fitted == MOST_FITTED) return -1;
    m->values[m->n] = (FrontValue){ FRONT_INT, { .i = size } };
    m->fitted++;
    return m->n++;
}

/* In how many parts the loops of the point are divided. */
static int64_t parts_of(const Search *z, const SearchPoint *p)
{
    int64_t parts = 1;
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].hint && z->name[j].hint->search == SEARCH_FEW_PROGRAMS &&
            z->name[j].values[p->at[j]].i > 1)
            parts *= z->name[j].values[p->at[j]].i;
    return parts;
}

static int64_t size_at(const Search *z, const uint8_t *at, int j) { return z->name[j].values[at[j]].i; }

/* The points with these sizes: one for each value of a flag that decides with the tiles. */
typedef struct Tried {
    int n;
    uint8_t at[SIZES_FROM * SIZES_OF * VARIANTS][MOST_NAMES];
} Tried;

/* Adds the point and those in which flags from name `first` on have their other values. */
static void add_tried(const Search *z, const uint8_t *at, int first, Tried *t)
{
    const int most = (int)(sizeof t->at / sizeof *t->at);
    if (t->n < most) memcpy(t->at[t->n++], at, MOST_NAMES);
    for (int j = first; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        uint8_t other[MOST_NAMES];
        if (!m->with_tiles || m->hint || m->values[0].kind != FRONT_BOOL || m->n != 2) continue;
        memcpy(other, at, MOST_NAMES);
        other[j] = !at[j];
        add_tried(z, other, j + 1, t);
    }
}

/* names: those of the tiles' sizes, of which the first two count: products have two axes of tiles. */
static void try_sizes(Search *z, const SearchPoint *p, const int *names, Tried *t)
{
    Grid g = { .rest = p->programs * parts_of(z, p), .units = z->p->device.units };
    Sizes found = { 0 };
    int64_t tiles = 1;
    for (int k = 0; k < 2; k++) {
        const SearchName *m = &z->name[names[k]];
        const int64_t extent = z->p->extent(z->p->user, m->along);
        g.axis[k] = (Axis){ names[k], extent, m->step, size_at(z, p->at, names[k]) };
        if (extent < 1 || g.axis[k].size < 1) return;
        tiles *= divide_up(extent, g.axis[k].size);
    }
    if (g.rest % tiles) return;
    g.rest /= tiles;
    find_sizes(&g, &found);
    for (int i = 0; i < found.n; i++) {
        uint8_t at[MOST_NAMES];
        bool have = true;
        memcpy(at, p->at, sizeof at);
        for (int k = 0; k < 2 && have; k++) {
            const int v = value_number(z, names[k], found.size[i].of[k]);
            have = v >= 0;
            at[names[k]] = (uint8_t)v;
        }
        if (have) add_tried(z, at, 0, t);
    }
}

/* The best point that no other of `n` has the tiles of, from number `first` on; -1. */
static int best_since(const Search *z, int first, const int *but, int n)
{
    int found = -1;
    for (int i = first; i < z->n_points; i++) {
        bool other = z->point[i].ns < INFINITY;
        for (int k = 0; k < n && other; k++) other = !search_same_tiles(z, &z->point[i], &z->point[but[k]]);
        if (other && (found < 0 || search_is_less(z->point[i].ns, z->point[found].ns))) found = i;
    }
    return found;
}

int search_sizes(Search *z, int best)
{
    int names[MOST_NAMES], n_names = 0, tops[SIZES_FROM], again[SEARCH_AGAIN], n = 0, now;
    const int first = z->n_points;
    Tried *t = arena_new(&z->s->arena, Tried);
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].step && z->name[j].shapes_grid && z->name[j].along) names[n_names++] = j;
    if (best < 0 || !z->p->device.model || !z->p->extent || search_on_cpu(z) || n_names < 2) return best;
    const int n_tops = search_best_of_different_tiles(z, tops, SIZES_FROM);
    for (int i = 0; i < n_tops; i++) try_sizes(z, &z->point[tops[i]], names, t);
    search_add_terms(z);
    for (int i = 0; i < t->n; i++) search_add(z, t->at[i]);
    search_estimate(z);
    while (n < SEARCH_AGAIN && (now = best_since(z, first, again, n)) >= 0 &&
           z->point[now].ns < z->point[best].ns * WORTH_IMPROVING)
        again[n++] = now;
    if (n) search_improve(z, again, n);
    now = best_since(z, first, NULL, 0);
    return now >= 0 && z->point[now].ns < z->point[best].ns * FITTED_GAIN ? now : best;
}
