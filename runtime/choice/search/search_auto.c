/* search_auto.c: the way through the configurations of a kernel with `auto` constants (search.h). Its space
 * was made by the compiler and is regular: the values of a constant are in order, and its best value changes
 * slowly with the others. One constant after the other takes the best of its next values, until none improves
 * or MOST_AUTO configurations were compiled: some milliseconds. Values of tiles that reach beyond the tensor,
 * where a smaller one covers it already, are left out. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

enum {
    MOST_AUTO = 40,
    MOST_WARPS = 30, /* more, where other numbers of warps are looked at */
    REACH = 2,       /* values to either side */
    CYCLES = 3,
    LEAST_WORK = 1 << 25, /* on a CPU: half a millisecond; for less, other code is not worth compiling */
    MATRIX_ROWS =
        64, /* of the largest matrix instruction: a tile may have them although the tensor has fewer */
};
/* Ratio of the estimates of two values below which one is better: of equals the one nearer to where the
 * search stands stays. */
static const double BETTER = 0.995;
/* The same of code that is specialized on extents: others want code of their own. */
static const double BETTER_SPECIALIZED = 0.97;
/* The same of tiles whose height and width change at once: what a tile takes besides its work is not known so
 * exactly. */
static const double BETTER_SHAPE = 0.97;

/* The same of other numbers of warps. */
static const double BETTER_WARPS = 0.92;

/* Is this the way through the block? See search_points.h. */
bool search_has_autos(const Search *z)
{
    for (int i = 0; i < z->n_names; i++)
        if (z->name[i].derived) return true;
    return z->n_names && z->p->device.target->kind == TARGET_CPU;
}

/* The extent that the tiles of this name divide; -1: not known. */
static int64_t extent_along(const Search *z, const SearchName *m)
{
    for (int i = 0; m->along && i < z->p->n_bindings; i++)
        if (!strcmp(z->p->bindings[i].name, m->along) && z->p->bindings[i].value.kind == FRONT_INT)
            return z->p->bindings[i].value.i;
    return m->along && z->p->extent ? z->p->extent(z->p->user, m->along) : -1;
}

/* Do two constants at most size a tile of sums, so that each of them is a side of the matrix? */
static bool sides_of_matrix(const Search *z)
{
    int n = 0;
    for (int i = 0; i < z->n_names; i++) n += z->name[i].derived && z->name[i].shapes_grid;
    return z->point[0].products && n <= 2;
}

/* The number of values that are worth a look: up to the first that covers the extent. */
static int useful(const Search *z, const SearchName *m)
{
    int64_t extent = extent_along(z, m);
    int n = m->n - m->absent - (m->whole >= 0), v = 0;
    if (!m->derived || extent <= 0) return n;
    if (extent < MATRIX_ROWS && sides_of_matrix(z)) extent = MATRIX_ROWS;
    while (v < n - 1 && m->values[v].i < extent) v++;
    return v + 1;
}

/* A value of name `j` that is not looked at yet: the nearest to `here`; -1. */
static int one_value(const Search *z, int j, int here)
{
    int n = useful(z, &z->name[j]);
    return here + 1 < n ? here + 1 : here - 1;
}

/* On a CPU many constants of a tune block decide nothing: the depth of a pipeline, the order of programs. If
 * one more value of name `j` gives the same estimate, the other values are not compiled. */
static void fix_if_idle(Search *z, int from, int j)
{
    uint8_t at[MOST_NAMES];
    int v = one_value(z, j, z->point[from].at[j]), first = z->n_points;
    if (z->p->device.target->kind != TARGET_CPU || z->name[j].derived || v < 0) return;
    memcpy(at, z->point[from].at, sizeof at);
    at[j] = (uint8_t)v;
    if (z->n_points >= z->most || !search_add(z, at) || z->n_points == first) return;
    search_estimate(z);
    z->name[j].fixed = z->point[first].ns == z->point[from].ns;
}

/* Adds point `from` with value `v` of name `j`. */
static void add_value(Search *z, int from, int j, int v)
{
    uint8_t at[MOST_NAMES];
    if (z->n_points >= z->most) return;
    memcpy(at, z->point[from].at, sizeof at);
    at[j] = (uint8_t)v;
    search_add(z, at);
}

/* Whether value `v` of name `j` gives the estimate of point `from`: tiles that reach beyond a tensor whose
 * extent is not known to be theirs estimate alike. */
static bool alike(const Search *z, int from, int j, int v)
{
    uint8_t at[MOST_NAMES];
    memcpy(at, z->point[from].at, sizeof at);
    at[j] = (uint8_t)v;
    const double ns = z->point[from].ns;
    for (int i = 0; i < z->n_points; i++)
        if (!memcmp(z->point[i].at, at, sizeof at))
            return z->point[i].ns * BETTER <= ns && z->point[i].ns >= ns * BETTER;
    return false;
}

static int64_t value_of(const Search *z, int point, int j)
{ return z->name[j].values[z->point[point].at[j]].i; }

/* The point with the least value of name `j` that gives as many programs as `from` does and is estimated
 * alike: its tiles cover as much, and of those of `from` a part lies beyond the tensors. */
static int least_that_covers(const Search *z, int from, int j)
{
    const SearchPoint *p = z->point;
    int least = from;
    if (!z->name[j].derived || !z->name[j].shapes_grid || p[from].at[j] == z->name[j].whole) return from;
    for (int i = 0; i < z->n_points; i++) {
        bool same = p[i].programs == p[from].programs && p[i].ns * BETTER <= p[from].ns;
        for (int k = 0; k < z->n_names && same; k++) same = k == j || p[i].at[k] == p[from].at[k];
        if (same && p[i].at[j] != z->name[j].whole && value_of(z, i, j) < value_of(z, least, j)) least = i;
    }
    return least;
}

static int derived_names(const Search *z)
{
    int n = 0;
    for (int i = 0; i < z->n_names; i++) n += z->name[i].derived;
    return n;
}

/* Whether the least value of name `j` is looked at, however far it is: without products, tiles of middle
 * sizes may be worse than large and small ones. Of several constants the others lead there. */
static bool looks_at_least(const Search *z, int from, int j)
{
    return derived_names(z) == 1 && z->name[j].derived && z->name[j].shapes_grid && z->p->device.model &&
           !search_on_cpu(z) && !z->point[from].products;
}

/* Looks at the next values of name `j` to both sides of the best point, and further below it as long as they
 * estimate alike; above it, too, where the point is a pack, which makes small sizes alike. Returns the new
 * best one. */
static int improve_name(Search *z, int from, int j)
{
    int first = z->n_points; /* before fix_if_idle, whose point may be the only other one */
    fix_if_idle(z, from, j);
    if (z->name[j].fixed) return from;
    const int start = from, here = z->point[from].at[j], n = useful(z, &z->name[j]);
    int reach = z->name[j].derived ? REACH : MOST_VALUES, above = reach;
    for (int v = here - reach; v <= here + reach; v++)
        if (v >= 0 && v < n && v != here) add_value(z, from, j, v);
    if (z->name[j].whole >= 0) add_value(z, from, j, z->name[j].whole);
    if (looks_at_least(z, from, j)) add_value(z, from, j, 0);
    while (z->n_points > first) {
        first = z->n_points;
        search_estimate(z);
        const double better = z->name[j].divisors ? BETTER_SPECIALIZED : BETTER;
        for (int i = 0; i < z->n_points; i++)
            if (z->point[i].ns < z->point[from].ns * better) from = i;
        const bool further = here - reach >= 1 && alike(z, start, j, here - reach),
                   larger = z->point[start].warps_given && alike(z, start, j, here + above) &&
                            here + above + 1 < n;
        if (from != start) break;
        if (further) add_value(z, start, j, here - ++reach);
        if (larger) add_value(z, start, j, here + ++above);
    }
    return least_that_covers(z, from, j);
}

/* Do the points differ only in the order of programs? */
static bool same_sizes(const Search *z, int a, int b)
{
    for (int j = 0; j < z->n_names; j++)
        if (!z->name[j].order_only && z->point[a].at[j] != z->point[b].at[j]) return false;
    return true;
}

static int place_of(const SearchName *m, int useful_values, int64_t value)
{
    for (int v = 0; v < useful_values; v++)
        if (m->values[v].i == value) return v;
    return -1;
}

/* Adds `at` with larger steps between products. */
static void add_larger_steps(Search *z, uint8_t *at)
{
    bool any = false;
    for (int j = 0; j < z->n_names && z->point[0].products; j++)
        if (z->name[j].derived && !z->name[j].shapes_grid && at[j] + 1 < useful(z, &z->name[j])) {
            at[j]++;
            any = true;
        }
    if (any && z->n_points < z->most) search_add(z, at);
}

/* Exchanges the values of two constants that shape the grid, also with larger steps: a tile of 256 by 128 for
 * one of 128 by 256. */
static int exchange(Search *z, int from)
{
    uint8_t at[MOST_NAMES];
    int first = z->n_points;
    for (int i = 0; i < z->n_names; i++)
        for (int j = i + 1; j < z->n_names && z->n_points < z->most; j++) {
            const SearchName *a = &z->name[i], *b = &z->name[j];
            if (!a->derived || !b->derived || !a->shapes_grid || !b->shapes_grid ||
                a->values[0].kind != FRONT_INT || b->values[0].kind != FRONT_INT)
                continue;
            int u = place_of(a, useful(z, a), value_of(z, from, j)),
                v = place_of(b, useful(z, b), value_of(z, from, i));
            memcpy(at, z->point[from].at, sizeof at);
            if (u < 0 || v < 0) continue;
            at[i] = (uint8_t)u;
            at[j] = (uint8_t)v;
            search_add(z, at);
            add_larger_steps(z, at);
        }
    search_estimate(z);
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].ns < z->point[from].ns * BETTER) from = i;
    return from;
}

/* The next larger values of two constants at once, of loops without products: the larger tile may want longer
 * steps to be better than the smaller one, and longer steps the larger tile. */
static int larger_pairs(Search *z, int from)
{
    const int first = z->n_points;
    if (!z->p->device.model || z->point[from].products || z->point[from].once) return from;
    for (int i = 0; i < z->n_names; i++)
        for (int j = i + 1; j < z->n_names && z->n_points < z->most; j++) {
            uint8_t at[MOST_NAMES];
            memcpy(at, z->point[from].at, sizeof at);
            if (z->name[i].derived && z->name[j].derived && ++at[i] < useful(z, &z->name[i]) &&
                ++at[j] < useful(z, &z->name[j]))
                search_add(z, at);
        }
    search_estimate(z);
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].ns < z->point[from].ns * BETTER) from = i;
    return from;
}

/* Makes the tile longer along one axis of the grid and shorter along another by as many steps, so that it has
 * as many elements: the values of each name by itself may all be worse, as larger and smaller tiles are.
 * Unless `grid`, the steps of the loop become shorter or longer in place of the other axis: where several
 * operands of products come through rings, neither a larger tile nor shorter steps may be better by
 * themselves. */
int search_other_shape(Search *z, int from, bool grid)
{
    uint8_t at[MOST_NAMES];
    const int first = z->n_points;
    if (!z->p->device.model || z->p->device.target->kind == TARGET_CPU) return from;
    for (int i = 0; i < z->n_names; i++)
        for (int j = 0; j < z->n_names && z->n_points < z->most; j++) {
            const SearchName *a = &z->name[i], *b = &z->name[j];
            memcpy(at, z->point[from].at, sizeof at);
            if (i == j || !a->derived || !b->derived || (!a->shapes_grid && !b->shapes_grid)) continue;
            if (grid != (a->shapes_grid && b->shapes_grid)) continue;
            if (at[i] + 1 >= useful(z, a) || !at[j] || at[i] == a->whole || at[j] == b->whole) continue;
            at[i]++;
            at[j]--;
            search_add(z, at);
        }
    search_estimate(z);
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].ns < z->point[from].ns * BETTER) from = i;
    return from;
}

/* The least value of name `j`. */
static int least_value(const Search *z, int j)
{
    const SearchName *m = &z->name[j];
    int least = 0;
    for (int v = 1; v < useful(z, m); v++)
        if (m->values[v].i < m->values[least].i) least = v;
    return least;
}

/* Tries the least value of one constant that shapes the grid with larger ones of another: of few rows, tiles
 * may be wider than `require` allows beside a height that is as good. */
static int lower_and_wider(Search *z, int from)
{
    const int first = z->n_points;
    for (int i = 0; i < z->n_names; i++)
        for (int j = 0; j < z->n_names; j++) {
            const SearchName *a = &z->name[i], *b = &z->name[j];
            const int least = least_value(z, i);
            uint8_t at[MOST_NAMES];
            if (i == j || !a->shapes_grid || !b->shapes_grid || a->derived || b->derived) continue;
            memcpy(at, z->point[from].at, sizeof at);
            if (at[i] == least) continue;
            at[i] = (uint8_t)least;
            for (int v = 0; v < useful(z, b) && z->n_points < z->most; v++) {
                at[j] = (uint8_t)v;
                if (b->values[v].i > value_of(z, from, j)) search_add(z, at);
            }
        }
    search_estimate(z);
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].ns < z->point[from].ns * BETTER_SHAPE) from = i;
    return from;
}

/* On a CPU, half of every size at once: tiles that masks cut along a diagonal are better when they are
 * smaller along both sides, and worse when they are smaller along one. */
static int half_sizes(Search *z, int from)
{
    uint8_t at[MOST_NAMES];
    const int first = z->n_points;
    int halves = 0;
    memcpy(at, z->point[from].at, sizeof at);
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        if (m->hint || m->derived || m->values[0].kind != FRONT_INT || m->fixed) continue;
        const int half = place_of(m, useful(z, m), value_of(z, from, j) / 2);
        if (half < 0) return from;
        at[j] = (uint8_t)half;
        halves++;
    }
    if (halves < 2 || z->n_points >= z->most) return from;
    search_add(z, at);
    search_estimate(z);
    return z->n_points > first && z->point[first].ns < z->point[from].ns * BETTER_SHAPE ? first : from;
}

/* Adds the point with each value clipped to what is useful; returns its number. */
static int clipped_start(Search *z)
{
    uint8_t at[MOST_NAMES];
    memcpy(at, z->point[0].at, sizeof at);
    for (int j = 0; j < z->n_names; j++) {
        int n = useful(z, &z->name[j]);
        if (z->name[j].derived && at[j] >= n) at[j] = (uint8_t)(n - 1);
    }
    int before = z->n_points;
    if (memcmp(at, z->point[0].at, sizeof at)) search_add(z, at);
    return z->n_points > before ? before : 0;
}

/* The better of `from` and a point with larger steps between products: the extents of the grid are best with
 * the steps that they will have in the end. */
static int larger_steps(Search *z, int from)
{
    uint8_t at[MOST_NAMES];
    int before = z->n_points;
    memcpy(at, z->point[from].at, sizeof at);
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].derived && !z->name[j].shapes_grid && at[j] + 1 < useful(z, &z->name[j])) at[j]++;
    if (!z->point[from].products || !memcmp(at, z->point[from].at, sizeof at)) return from;
    search_add(z, at);
    search_estimate(z);
    return z->n_points > before && z->point[before].ns < z->point[from].ns ? before : from;
}

/* Nothing is known to fit: the first point that does among ever smaller sizes; `from` if there is none. */
static int smaller_start(Search *z, int from)
{
    uint8_t at[MOST_NAMES];
    for (int now = from;;) {
        memcpy(at, z->point[now].at, sizeof at);
        for (int j = 0; j < z->n_names; j++)
            if (z->name[j].derived && !z->name[j].order_only && at[j]) at[j]--;
        int before = z->n_points;
        if (before >= z->most || !search_add(z, at) || z->n_points == before) return from;
        search_estimate(z);
        now = before;
        if (z->point[now].ns < INFINITY) return now;
    }
}

/* Where no sizes fit: the largest that only registers are too few for, which runs, slowly; else `from`. */
static int overfull(const Search *z, int from)
{
    for (int i = 0; i < z->n_points; i++)
        if (z->point[i].overfull) return i;
    return from;
}

/* Takes the best of the next values of one name after the other, until none improves. */
static int improve_all(Search *z, int now, int most)
{
    z->most = most;
    for (int cycle = 0; cycle < CYCLES && z->n_points < most; cycle++) {
        int before = now;
        for (int j = 0; j < z->n_names; j++)
            if (!z->name[j].fixed) now = improve_name(z, now, j);
        now = larger_pairs(z, exchange(z, now));
        now = search_other_shape(z, now, !z->point[now].products);
        if (same_sizes(z, now, before)) break;
    }
    return now;
}

/* The best point whose loops over an axis have several iterations, or `best`. */
static int best_of_tiles(const Search *z, int best)
{
    int found = -1;
    for (int i = 0; i < z->n_points; i++) {
        bool whole = !(z->point[i].ns < INFINITY);
        for (int j = 0; j < z->n_names; j++)
            whole |= z->name[j].whole >= 0 && z->point[i].at[j] == z->name[j].whole;
        if (!whole && (found < 0 || search_is_less(z->point[i].ns, z->point[found].ns))) found = i;
    }
    return found < 0 ? best : found;
}

/* Adds point `from` with value `v` of the name `warps`, as it is and with as many times the elements of each
 * constant as there are then warps, so that a thread's part stays; of a single constant with each value. */
static void add_with_warps(Search *z, int from, int warps, int v)
{
    const int64_t now = z->point[from].threads / z->p->device.target->wave, then = z->name[warps].values[v].i;
    const int constants = derived_names(z);
    uint8_t at[MOST_NAMES];
    memcpy(at, z->point[from].at, sizeof at);
    at[warps] = (uint8_t)v;
    if (z->n_points < z->most) search_add(z, at);
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        const int n = useful(z, m), here = z->point[from].at[j];
        if (!m->derived || here == m->whole) continue;
        const int same = place_of(m, n, value_of(z, from, j) * then / (now ? now : 1));
        for (int u = 0; u < n && z->n_points < z->most; u++) {
            if (constants > 1 && u != same) continue;
            at[j] = (uint8_t)u;
            search_add(z, at);
        }
        at[j] = (uint8_t)here;
    }
}

/* Whether so many warps may be better for the programs of a point: more where they leave most places for
 * threads empty, fewer where many are left. */
static bool may_suffice(const Search *z, const SearchPoint *p, int64_t warps)
{
    enum { FEWEST = 384 }; /* threads of a multiprocessor that fewer warps leave */
    const Target *t = z->p->device.target;
    const double each = (double)p->programs / z->p->device.units;
    const int64_t threads = warps * t->wave;
    if (threads > p->threads) return 2 * each * p->threads <= t->sm_threads;
    return threads < p->threads && each * (double)threads >= FEWEST;
}

/* The best sizes with more warps, where programs wait for what their loops load: with more warps of a
 * program, more of it is under way at once, of larger tiles too. A whole axis that one tile holds may have
 * fewer, too. Tiles that fill more than the registers are left out. What the source or a pack says of warps
 * stays. */
static int other_warps(Search *z, int now)
{
    const int warps = search_hint_name(z, HINT_warps), first = z->n_points, tiles = best_of_tiles(z, now);
    const SearchPoint *p = &z->point[now];
    if (warps < 0 || p->products || z->name[warps].domain >= 0 || p->warps_given ||
        p->bound == BOUND_MEMORY || !z->point[tiles].trips)
        return now;
    z->most = MOST_AUTO + MOST_WARPS;
    for (int v = 0; v < search_listed(&z->name[warps]); v++) {
        if (may_suffice(z, &z->point[tiles], z->name[warps].values[v].i)) add_with_warps(z, tiles, warps, v);
        if (tiles != now) add_value(z, now, warps, v);
    }
    search_estimate(z);
    int from = tiles, found = now;
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].ns < z->point[from].ns * BETTER_WARPS) from = i;
    if (from != tiles) improve_all(z, from, MOST_AUTO + MOST_WARPS);
    for (int i = first; i < z->n_points; i++)
        if (z->point[i].full <= 1 && z->point[i].ns < z->point[found].ns * (found == now ? BETTER_WARPS : 1))
            found = i;
    return found;
}

/* The only point is that of the defaults. Without a model of a GPU only the number of programs is known: it
 * says nothing where there are enough of them, nor of constants that do not shape the grid. */
int search_autos(Search *z)
{
    z->most = MOST_AUTO;
    int now = z->p->only_if_needed ? 0 : clipped_start(z);
    search_estimate(z);
    if (!(z->point[now].ns < INFINITY) && z->point[0].ns < INFINITY) now = 0;
    if (!(z->point[now].ns < INFINITY)) now = smaller_start(z, now);
    bool fits = z->point[now].ns < INFINITY, cpu = z->p->device.target->kind == TARGET_CPU,
         by_number = !cpu && !z->p->device.model;
    if (fits && z->p->only_if_needed) return now;
    if (cpu && !z->name[0].derived && z->point[0].ns < LEAST_WORK) return 0;
    if (fits && by_number && z->point[now].programs >= z->p->device.units) return now;
    for (int j = 0; j < z->n_names && fits; j++) z->name[j].fixed |= by_number && !z->name[j].shapes_grid;
    if (fits) now = larger_steps(z, now);
    if (fits && z->point[now].products) now = search_other_shape(z, now, false);
    now = improve_all(z, now, MOST_AUTO);
    if (fits && cpu && z->front->products) now = half_sizes(z, lower_and_wider(z, now));
    if (!fits) return overfull(z, now);
    return z->p->device.model && !cpu
               ? search_fewest_programs(z, search_smallest_ctas(z, other_warps(z, now)))
               : now;
}
