/* search_predict.c: which of the points that a search considers are compiled. Most points of a product's
 * block are far from the best, and those that are compiled tell so: an estimate changes little with one step
 * of one name. So the logarithm of the estimate is predicted for all points from those that are known, with
 * how far off the prediction may be (a Gaussian process, also called kriging), and the points from which most
 * is to be expected are compiled next, until little is to be expected of any.
 *
 * What a neighbour does not tell is how well the programs fill their last round, which jumps with the size of
 * a tile. It follows from the extents, so that the prediction is one of what remains. How much a name matters
 * is taken from points that differ in this name alone. The same points are compiled for any number of
 * threads. */
#include "runtime/choice/search/search_covariance.h"
#include "runtime/choice/search/search_points.h"
#include <math.h>
#include <string.h>

enum {
    MOST_KNOWN = SEARCH_MOST_KNOWN,
    SEEDS = 28,         /* points far from each other that are compiled first */
    AT_ONCE = 4,        /* points that are compiled without looking at one another's estimates */
    MOST_OF_A_CALL = 16 /* beside seeds: what is considered next may be more promising */
};
/* Steps after which two points have little in common; a step doubles a value or turns a switch. */
static const double REACH = 10;
/* The variance of two points alike in all names, as a part of that of points far apart. */
static const double NUGGET = 1e-4;
/* A point is compiled if its estimate is expected to be below this much less than the best one, by the second
 * of these, both as parts of that. The second doubles with each DOUBLES points beyond PATIENCE: where the
 * points tell little of each other, so many of them are near the best that hardly any is worth its time. */
static const double HARDLY_LESS = 0.01, WORTH_IT = 0.003;
static const double PATIENCE = 64, DOUBLES = 12;
/* How far off a prediction may be is taken for so many times what the points tell of it, and for more beside
 * the best point, along a name that matters at least so much: neighbours do not tell where tiles cease to
 * fit. */
static const double DOUBT = 1.3, DOUBT_BESIDE = 2.5, MATTERS = 0.1;
/* Deviations beyond which nothing is to be expected. */
static const double MOST_DOUBT = 3;
/* How much a name matters, to the one that matters most: at least this, and 1 for as many pairs of points as
 * are unknown. It is asked again when so many times the points are known. */
static const double LEAST_WEIGHT = 0.002, UNKNOWN_PAIRS = 0.5, AGAIN = 1.4;

typedef struct Prediction {
    float x[MOST_NAMES]; /* the place of the point, in steps */
    float *k, *v;        /* its covariances with the known points, and its row, L^-1 k below */
    int n_k, n;          /* how many of these are there; a row may have fewer than there are known points */
    double left;         /* what remains of its variance beside those of its row */
    double rounds;       /* the logarithm of the launch's rounds, to those without any rest */
    double log_ns;       /* of the prediction */
} Prediction;

struct SearchSurrogate {
    int n, n_placed, n_counted; /* known points; points with a place, and with rounds */
    int weighed;                /* known points when it was asked how much names matter */
    int n_learned, n_predicted; /* known points of which `learn` knows; points with a prediction by these */
    int of[MOST_KNOWN];
    double side[MOST_KNOWN];                /* of the known points' rows, the last element */
    double y[MOST_KNOWN], rest[MOST_KNOWN]; /* what is predicted of them; it without the mean, by L^-1 */
    float by[MOST_KNOWN];                   /* what each adds to a prediction: K^-1 (y - mean) */
    double bound[MOST_POINTS];              /* no more is to be expected of an open point */
    double mean, spread;                    /* of y; a standard deviation */
    double log_best;                        /* of the least estimate */
    SearchCovariance covariance;            /* of points with the known ones; it has the names' weights */
    int64_t extent[MOST_NAMES]; /* what the tiles of a name divide; -1: not known; 0: it sizes no tiles */
    bool doubles[MOST_NAMES];   /* the values of a name are sizes or numbers, and no switch */
    double programs;            /* of a launch, for each one that the extents tell of; 0: not known yet */
    Prediction point[MOST_POINTS];
};

bool search_predicts(const Search *z)
{
    return z->p->device.model && z->front->products && z->tune->n && !search_on_cpu(z) &&
           !search_has_autos(z) && !z->p->thorough;
}

/* --- the place of a point ---------------------------------------------------------------------------- */

static void begin(Search *z)
{
    SearchSurrogate *g = z->surrogate = arena_new(&z->s->arena, SearchSurrogate);
    search_covariance_begin(&g->covariance, REACH);
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        const bool sizes = m->shapes_grid && m->values[0].kind == FRONT_INT;
        const char *along = sizes ? frontend_grid_tiles(z->ast, z->p->kernel, m->name) : NULL;
        g->extent[j] = !sizes ? 0 : along && z->p->extent ? z->p->extent(z->p->user, along) : -1;
        g->covariance.weight[j] = 1;
        for (int v = 0; v < search_listed(m) && m->values[0].kind == FRONT_INT; v++)
            g->doubles[j] |= m->values[v].i > 1;
    }
}

/* The place of a switch that is not given: the passes mostly use cp.async where they can. */
static float as_absent(const HintInfo *hint) { return hint->search == SEARCH_WITH_CP_ASYNC ? 0.8f : 0.5f; }

static float place(const Search *z, const uint8_t *at, int j)
{
    const SearchName *m = &z->name[j];
    const int said = search_said(z, at, j);
    const FrontValue *v = &m->values[said];
    if (v->kind == FRONT_BOOL) return v->b;
    const bool absent = m->hint && m->absent && said == m->declared;
    if (!absent && v->kind != FRONT_INT) return (float)said; /* a type, or a number that is not whole */
    if (!z->surrogate->doubles[j]) return absent ? as_absent(m->hint) : (float)v->i;
    return absent || v->i < 1 ? -1 : log2f((float)v->i);
}

static void place_point(Search *z, int i)
{
    Prediction *p = &z->surrogate->point[i];
    *p = (Prediction){ .left = 1, .k = arena_array(&z->s->arena, float, MOST_KNOWN) };
    for (int j = 0; j < z->n_names; j++) p->x[j] = place(z, z->point[i].at, j);
}

/* The programs of a point as far as the extents tell, and in how many parts each is divided. */
static double programs_of(const Search *z, const uint8_t *at, double *parts)
{
    double programs = 1;
    *parts = 1;
    for (int j = 0; j < z->n_names; j++) {
        const HintInfo *hint = z->name[j].hint;
        const int64_t extent = z->surrogate->extent[j], value = z->name[j].values[at[j]].i;
        if (hint && hint->search == SEARCH_FEW_PROGRAMS && value > 1) *parts *= (double)value;
        if (!extent || value < 1) continue;
        programs *= extent > 0 ? (double)((extent + value - 1) / value) : 1 / (double)value;
    }
    return programs;
}

static bool shares_last_round(const Search *z, const uint8_t *at)
{
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].hint && z->name[j].hint->search == SEARCH_LAST_ROUND && z->name[j].values[at[j]].i > 1)
            return true;
    return false;
}

/* CTAs that run at once if so many of them have parts of a program: in a cluster, or else by memory. */
static double room_for(const CostDevice *d, int parts)
{
    if (parts > SEARCH_MOST_OF_A_CLUSTER) return d->units;
    return cost_clusters_at_once(d->model, d->units, parts) * parts;
}

/* Sets what follows from the number of programs, once a point has told how many there are. */
static void count_programs(Search *z)
{
    SearchSurrogate *g = z->surrogate;
    double parts;
    const bool counted = g->programs > 0;
    for (int i = 0; i < z->n_points && !(g->programs > 0); i++)
        if (z->point[i].known && z->point[i].ns < INFINITY)
            g->programs = (double)z->point[i].programs / programs_of(z, z->point[i].at, &parts);
    for (int i = g->n_counted; i < z->n_points && g->programs > 0; i++) {
        SearchPoint *p = &z->point[i];
        const double programs = programs_of(z, p->at, &parts) * g->programs;
        const double rounds = programs * parts / room_for(&z->p->device, (int)parts);
        const double whole = shares_last_round(z, p->at) ? fmax(1, rounds) : ceil(rounds - 1e-9);
        g->point[i].rounds = log(whole * z->p->device.units / (programs * parts));
        if (!p->known) p->programs = (int64_t)(programs + 0.5);
    }
    if (g->programs > 0) g->n_counted = z->n_points;
    if (g->programs > 0 && !counted) g->n_learned = 0;
}

/* --- predictions ------------------------------------------------------------------------------------- */

/* Let K be the matrix of the covariances of the known points, with NUGGET added on its diagonal, L its
 * triangular root (K = L L', Cholesky), and k the covariances of a point with them. The point's row is
 * v = L^-1 k; of a known point it is what its row of L has before the diagonal, whose element is its `side`.
 * With the `rest` r = L^-1 (y - mean), the prediction is mean + v . r, which is mean + k . L'^-1 r, and
 * `left`, 1 - v . v, is what remains of its variance. The mean is the one of generalized least squares: (u .
 * L^-1 y) / (u . u), u = L^-1 of ones. One more known point adds one element to each row. As that makes
 * `left` less, the row of an open point is made longer only when its promise by a shorter one is the
 * greatest.
 */

/* The point's covariances with all known points. */
static void compare(const SearchSurrogate *g, Prediction *p)
{
    search_covariances(&g->covariance, p->x, p->n_k, g->n, p->k);
    p->n_k = p->n_k < g->n ? g->n : p->n_k;
}

/* Makes the point's row as long as there are known points. */
static void complete(const Search *z, int i)
{
    SearchSurrogate *g = z->surrogate;
    Prediction *p = &g->point[i];
    if (!p->v) p->v = arena_array(&z->s->arena, float, MOST_KNOWN);
    compare(g, p);
    for (; p->n < g->n; p->n++) {
        const int k = p->n;
        p->v[k] = (p->k[k] - search_product(p->v, g->point[g->of[k]].v, k)) / (float)g->side[k];
        p->left -= (double)(p->v[k] * p->v[k]);
    }
}

/* Counts the point as known, whether or not it has an estimate yet. */
static void count_as_known(const Search *z, int i)
{
    SearchSurrogate *g = z->surrogate;
    complete(z, i);
    g->side[g->n] = sqrt(fmax(g->point[i].left, 0) + NUGGET);
    for (int j = 0; j < MOST_NAMES; j++) g->covariance.x[j][g->n] = g->point[i].x[j];
    g->of[g->n++] = i;
}

/* Whether loops were to be divided and are not: the point is none of divided loops. */
static bool is_refused(const Search *z, int i)
{
    double parts;
    programs_of(z, z->point[i].at, &parts);
    return parts > 1 && z->point[i].ns < INFINITY && !z->point[i].divided;
}

/* What each known point adds to predictions, L'^-1 of what remains of them. */
static void weigh_known(const Search *z)
{
    SearchSurrogate *g = z->surrogate;
    double left[MOST_KNOWN];
    memcpy(left, g->rest, sizeof left);
    for (int k = g->n - 1; k >= 0; k--) {
        const float *v = g->point[g->of[k]].v;
        left[k] /= g->side[k];
        g->by[k] = (float)left[k];
        for (int m = 0; m < k; m++) left[m] -= (double)v[m] * left[k];
    }
}

/* What the known points say: their mean, what remains of each, and how far these are spread. One that does
 * not fit counts as the slowest; one that is not what its names say counts for nothing. */
static void learn(const Search *z)
{
    SearchSurrogate *g = z->surrogate;
    double u[MOST_KNOWN], slowest = 1, uw = 0, uu = 0, squares = 0;
    for (int k = 0; k < g->n; k++)
        if (z->point[g->of[k]].ns < INFINITY) slowest = fmax(slowest, z->point[g->of[k]].ns);
    for (int k = 0; k < g->n; k++) {
        const Prediction *p = &g->point[g->of[k]];
        const bool counts = !is_refused(z, g->of[k]);
        g->y[k] = log(fmax(1, fmin(z->point[g->of[k]].ns, slowest))) - p->rounds;
        g->rest[k] = g->y[k];
        u[k] = 1;
        for (int m = 0; m < k; m++) {
            g->rest[k] -= (double)p->v[m] * g->rest[m];
            u[k] -= (double)p->v[m] * u[m];
        }
        g->rest[k] *= counts / g->side[k];
        u[k] *= counts / g->side[k];
        uw += u[k] * g->rest[k];
        uu += u[k] * u[k];
    }
    g->mean = uu > 0 ? uw / uu : 0;
    for (int k = 0; k < g->n; k++) {
        g->rest[k] -= g->mean * u[k];
        squares += g->rest[k] * g->rest[k];
    }
    g->spread = sqrt(squares / g->n);
    g->n_learned = g->n;
    g->n_predicted = 0;
    weigh_known(z);
}

/* The only name in which two points differ; -1: they differ in more, or none. */
static int only_name(const Prediction *a, const Prediction *b, int names)
{
    int found = -1;
    for (int j = 0; j < names; j++) {
        if (!(a->x[j] < b->x[j] || a->x[j] > b->x[j])) continue;
        if (found >= 0) return -1;
        found = j;
    }
    return found;
}

/* How much a name matters: the mean square by which a step of it alone changes what is predicted. */
static void weigh_names(SearchSurrogate *g, const Search *z)
{
    double sum[MOST_NAMES] = { 0 }, pairs[MOST_NAMES] = { 0 }, most = 0;
    for (int a = 0; a < g->n; a++)
        for (int b = 0; b < a && !is_refused(z, g->of[a]); b++) {
            const Prediction *p = &g->point[g->of[a]], *q = &g->point[g->of[b]];
            const int j = only_name(p, q, z->n_names);
            if (j < 0 || is_refused(z, g->of[b])) continue;
            const double by = g->y[a] - g->y[b];
            sum[j] += by * by / fabs((double)p->x[j] - (double)q->x[j]);
            pairs[j]++;
        }
    for (int j = 0; j < z->n_names; j++)
        if (pairs[j] > 0) most = fmax(most, sum[j] / pairs[j]);
    for (int j = 0; j < z->n_names && most > 0; j++)
        g->covariance.weight[j] =
            (float)fmax(LEAST_WEIGHT, (UNKNOWN_PAIRS + sum[j] / most) / (UNKNOWN_PAIRS + pairs[j]));
}

static void weigh_again(Search *z)
{
    SearchSurrogate *g = z->surrogate;
    const int known = g->n;
    if (known < SEEDS || known < g->weighed * AGAIN) return;
    weigh_names(g, z);
    g->weighed = known;
    g->n = 0;
    for (int i = 0; i < z->n_points; i++) {
        g->point[i].n = g->point[i].n_k = 0;
        g->point[i].left = 1;
    }
    for (int k = 0; k < known; k++) count_as_known(z, g->of[k]);
    learn(z);
}

/* Predicts the open points, as far as the known ones say anything new. */
static void predict_open(Search *z)
{
    SearchSurrogate *g = z->surrogate;
    for (int i = g->n_predicted; i < z->n_points; i++) {
        Prediction *p = &g->point[i];
        if (z->point[i].known) continue;
        compare(g, p);
        p->log_ns = p->rounds + g->mean + search_product(p->k, g->by, g->n);
        z->point[i].log_predicted = p->log_ns;
    }
    g->n_predicted = z->n_points;
}

/* --- what is compiled -------------------------------------------------------------------------------- */

/* How far below zero a normally distributed value lies in the mean, counting what lies above as zero. */
static double expected_below(double mean, double deviation)
{
    if (mean > MOST_DOUBT * deviation) return 0;
    if (deviation <= 0) return -mean;
    const double u = mean / deviation;
    return deviation * exp(-u * u / 2) * 0.3989422804014327 - mean * erfc(u * 0.7071067811865476) / 2;
}

/* Whether a point is at most a step of one name that matters from the best one. */
static bool is_beside(const Search *z, int i, int best)
{
    const Prediction *p = &z->surrogate->point[i], *q = &z->surrogate->point[best];
    const int j = only_name(p, q, z->n_names);
    return j >= 0 && z->surrogate->covariance.weight[j] > MATTERS &&
           fabs((double)p->x[j] - (double)q->x[j]) <= 1;
}

/* What is to be expected of the open point, by its row. Of seeds that least is known of them. */
static double promise(const Search *z, int i, bool seeds, int best)
{
    const SearchSurrogate *g = z->surrogate;
    const Prediction *p = &g->point[i];
    const double left = fmax(p->left, 0);
    if (seeds || best < 0) return left + NUGGET;
    const double above = p->log_ns - g->log_best + HARDLY_LESS, doubt = g->spread * sqrt(left);
    if (above > MOST_DOUBT * DOUBT_BESIDE * doubt) return 0;
    return expected_below(above, doubt * (is_beside(z, i, best) ? DOUBT_BESIDE : DOUBT));
}

/* Bounds what is to be expected of the open points, by the rows that they have. */
static void bound_open(const Search *z, bool seeds, int best)
{
    for (int i = 0; i < z->n_points; i++)
        z->surrogate->bound[i] = z->point[i].known ? 0 : promise(z, i, seeds, best);
}

/* What is to be expected of the point, by its whole row. */
static double whole_promise(const Search *z, int i, bool seeds, int best)
{
    SearchSurrogate *g = z->surrogate;
    if (g->point[i].n < g->n) {
        complete(z, i);
        g->bound[i] = promise(z, i, seeds, best);
    }
    return g->bound[i];
}

/* The open point of which most is to be expected, the first of such; -1: none is worth it. */
static int most_promising(const Search *z, bool seeds, int best)
{
    const SearchSurrogate *g = z->surrogate;
    const double worth = seeds || best < 0 ? 0 : WORTH_IT * exp2(fmax(0, (g->n - PATIENCE) / DOUBLES));
    double most = worth;
    int found = -1;
    for (int i = 0; i < z->n_points; i++) {
        if (g->bound[i] <= most) continue;
        most = g->bound[i];
        found = i;
    }
    if (found < 0) return -1;
    most = whole_promise(z, found, seeds, best);
    for (int i = 0; i < z->n_points; i++) {
        if (g->bound[i] < most || i == found || g->bound[i] <= worth) continue;
        const double now = whole_promise(z, i, seeds, best);
        if (now < most || (now <= most && i > found)) continue;
        most = now;
        found = i;
    }
    return most > worth ? found : -1;
}

/* Whether other points say what the point's estimate is, or that it is no better than theirs. */
static bool needs_none(Search *z, int i)
{
    SearchPoint *p = &z->point[i];
    for (int j = 0; j < z->n_names; j++)
        if (search_is_idle(z, p->at, j)) return true;
    const SearchPoint *same = search_same_code(z, p->at);
    if (same) search_take_estimate(p, same);
    return same != NULL;
}

/* Whether the estimate of another point, which is open or among the `n` chosen ones, may say that this one
 * needs none. */
static bool waits_for_another(const Search *z, int i, const int *chosen, int n)
{
    const SearchPoint *p = search_least_cluster(z, z->point[i].at);
    bool waits = p && !p->known;
    for (int k = 0; k < n && p; k++) waits |= p == &z->point[chosen[k]];
    return waits;
}

/* Chooses up to `most` points; how many there are. */
static int choose(Search *z, int most, int *out)
{
    SearchSurrogate *g = z->surrogate;
    const bool seeds = g->n < SEEDS;
    const int best = search_best(z, NULL, 0);
    if (best >= 0) g->log_best = log(z->point[best].ns);
    int n = 0, i;
    bound_open(z, seeds, best);
    while (n < most && g->n < MOST_KNOWN && (i = most_promising(z, seeds, best)) >= 0) {
        g->bound[i] = 0;
        if (!seeds && waits_for_another(z, i, out, n)) continue;
        z->point[i].known = true;
        if (needs_none(z, i)) continue;
        count_as_known(z, i);
        out[n++] = i;
    }
    return n;
}

/* Places new points; the first of all is compiled, which tells how many programs there are. */
static void place_points(Search *z)
{
    if (!z->surrogate) begin(z);
    SearchSurrogate *g = z->surrogate;
    for (; g->n_placed < z->n_points; g->n_placed++) place_point(z, g->n_placed);
    if (!g->n) {
        z->point[0].known = true;
        count_as_known(z, 0);
        search_estimate_these(z, (int[]){ 0 }, 1);
    }
    count_programs(z);
}

void search_estimate_promising(Search *z)
{
    int chosen[SEEDS], n, compiled = 0;
    place_points(z);
    do {
        const bool seeds = z->surrogate->n < SEEDS;
        if (z->surrogate->n > z->surrogate->n_learned) {
            learn(z);
            weigh_again(z);
        }
        predict_open(z);
        n = choose(z, seeds ? SEEDS - z->surrogate->n : AT_ONCE, chosen);
        search_estimate_these(z, chosen, n);
        if (!(z->surrogate->programs > 0)) count_programs(z);
        if (!seeds) compiled += n;
    } while (n && compiled < MOST_OF_A_CALL);
}
