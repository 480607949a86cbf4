/* search.c: looks among the configurations of a tune block: see search.h.
 *
 * Constants that shape the grid decide most: the number of programs, the instruction, how often operands are
 * loaded. They also constrain each other, so their product is looked at first, with the other names in the
 * middle of what they may be. From the best of these configurations the other names are tried in turn, then
 * everything once more around the best, until nothing improves. */
#define _GNU_SOURCE
#include "runtime/choice/search/search_points.h"
#include <math.h>

enum {
    MOST_TOGETHER = 512, /* combinations that are tried whole; of more, a name at a time is tried */
    MOST_ASKED = 8192,   /* combinations of which `require` is asked how many it allows */
    BEAM = 5,            /* configurations of different tiles that the other names are tried from */
    ROUNDS = 2,
};
/* Ratios of two scores below which a configuration is taken where there is no device model. */
static const double MARGIN_ON_CPU = 0.92;
static const double MARGIN_BY_NUMBER = 0.95, MARGIN_LATE_BY_NUMBER = 0.96;

static bool is_last(const SearchName *n) { return n->hint && n->hint->search == SEARCH_LAST; }

/* --- points ------------------------------------------------------------------------------------------ */

/* Adds a point. One that `require` rejects may be allowed with another value of one name that does not shape
 * the grid: the first such. */
static void consider_or_tell(Search *z, const uint8_t *at, bool *forbidden)
{
    uint8_t p[MOST_NAMES];
    bool may_change[MOST_NAMES] = { false };
    if (search_add(z, at)) return;
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        const bool of_tiles = m->with_tiles && !m->hint;
        may_change[j] = !of_tiles && !m->fixed;
    }
    bool done = search_forbidden(z, at, may_change);
    *forbidden = done;
    for (int j = 0; j < z->n_names && !done; j++)
        for (int v = 0; v < z->name[j].n && !done && may_change[j]; v++) {
            memcpy(p, at, sizeof p);
            p[j] = (uint8_t)v;
            done = search_add(z, p);
        }
}

static void consider(Search *z, const uint8_t *at)
{
    bool forbidden = false;
    consider_or_tell(z, at, &forbidden);
}

/* Considers `at` with value `v` of name `j`. */
void search_consider_value(Search *z, const uint8_t *at, int j, int v)
{
    uint8_t p[MOST_NAMES];
    memcpy(p, at, sizeof p);
    p[j] = (uint8_t)v;
    consider(z, p);
}

/* The first combination of the names that are tried with tiles, the other names as in `at`; and the next one
 * after `p`. */
static void first_combination(const Search *z, const uint8_t *at, uint8_t *p)
{
    memcpy(p, at, MOST_NAMES);
    for (int i = 0; i < z->n_names; i++)
        if (z->name[i].with_tiles) p[i] = 0;
}

static void next_combination(const Search *z, uint8_t *p)
{
    for (int i = 0; i < z->n_names; i++) {
        if (!z->name[i].with_tiles) continue;
        if (++p[i] < search_listed(&z->name[i])) return;
        p[i] = 0;
    }
}

/* Whether `require` has rejected the combination whatever the other names are. */
static bool is_never(const Search *z, int64_t k) { return z->never[k / 8] & 1 << k % 8; }

/* The combinations of the names that are tried with tiles; 0: `require` allows too many of them. */
static int64_t combinations(Search *z, const uint8_t *at)
{
    SearchPoint p = { 0 };
    int64_t all = 1, allowed = 0;
    for (int i = 0; i < z->n_names; i++)
        if (z->name[i].with_tiles && all <= MOST_ASKED) all *= search_listed(&z->name[i]);
    if (all <= MOST_TOGETHER || all > MOST_ASKED) return all <= MOST_TOGETHER ? all : 0;
    first_combination(z, at, p.at);
    for (int64_t k = 0; k < all && allowed <= MOST_TOGETHER; k++, next_combination(z, p.at))
        allowed += !is_never(z, k) && search_allowed(z, &p);
    return allowed <= MOST_TOGETHER ? all : 0;
}

bool search_same_tiles(const Search *z, const SearchPoint *a, const SearchPoint *b)
{
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].shapes_grid && a->at[j] != b->at[j]) return false;
    return true;
}

/* The best point whose tiles differ from those of the `n` points `but`; -1: there is none. */
int search_best(const Search *z, const int *but, int n)
{
    int found = -1;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i];
        bool taken = !(p->ns < INFINITY);
        for (int k = 0; k < n && !taken; k++) taken = search_same_tiles(z, p, &z->point[but[k]]);
        if (!taken && (found < 0 || search_is_less(p->ns, z->point[found].ns))) found = i;
    }
    return found;
}

/* Whether a hint that is searched lets a CTA run several programs. */
static bool runs_several(const Search *z, const uint8_t *at)
{
    for (int j = 0; j < z->n_names; j++)
        if (z->name[j].hint && z->name[j].hint->id == HINT_persistent && z->name[j].values[at[j]].i)
            return true;
    return false;
}

/* The product of the names that are tried with tiles, from `at`; where it is too large, each of them by
 * itself. Those that are hopeless after earlier estimates are left out. CTAs of one program come first: their
 * number tells where others are idle. */
static void consider_tiles(Search *z, const uint8_t *at)
{
    uint8_t p[MOST_NAMES];
    const int known = z->p->device.model ? search_best(z, NULL, 0) : -1;
    const double best = known >= 0 ? z->point[known].ns : INFINITY;
    if (!z->never) z->never = arena_array(&z->s->arena, uint8_t, MOST_ASKED / 8 + 1);
    int64_t all = combinations(z, at);
    for (int i = 0; i < z->n_names && !all; i++)
        for (int v = 0; v < z->name[i].n && z->name[i].with_tiles; v++) search_consider_value(z, at, i, v);
    for (int pass = 0; pass < 2; pass++) {
        SearchLeast *least = search_least(z);
        first_combination(z, at, p);
        for (int64_t k = 0; k < all; k++, next_combination(z, p)) {
            if (is_never(z, k)) continue;
            if (runs_several(z, p) != pass || search_is_hopeless(least, p, best)) continue;
            bool forbidden = false;
            consider_or_tell(z, p, &forbidden);
            if (forbidden) z->never[k / 8] |= (uint8_t)(1 << k % 8);
        }
        if (!pass && !search_predicts(z)) search_estimate(z);
    }
}

/* Two constants at a time: the depth of a pipeline and the size of its steps, say, share the same memory. */
static void consider_pairs(Search *z, const uint8_t *at)
{
    for (int i = 0; i < z->n_names; i++)
        for (int j = i + 1; j < z->n_names; j++) {
            const SearchName *a = &z->name[i], *b = &z->name[j];
            if (a->with_tiles || b->with_tiles || a->fixed || b->fixed || a->hint || b->hint) continue;
            for (int v = 0; v < a->n * b->n; v++) {
                uint8_t p[MOST_NAMES];
                memcpy(p, at, sizeof p);
                p[i] = (uint8_t)(v % a->n);
                p[j] = (uint8_t)(v / a->n);
                consider(z, p);
            }
        }
}

static void consider_last(Search *z, const uint8_t *at)
{
    for (int j = 0; j < z->n_names; j++)
        for (int v = 0; v < z->name[j].n && is_last(&z->name[j]); v++) search_consider_value(z, at, j, v);
}

int search_best_of_different_tiles(const Search *z, int *tops, int most)
{
    int n = 0, now;
    while (n < most && (now = search_best(z, tops, n)) >= 0) tops[n++] = now;
    return n;
}

/* --- the way through --------------------------------------------------------------------------------- */

/* Point `at`, and it with all values of the name that says something only beside `m`. */
static void consider_beside(Search *z, const uint8_t *at, const SearchName *m)
{
    consider(z, at);
    for (int u = 0; m->beside >= 0 && u < z->name[m->beside].n; u++)
        search_consider_value(z, at, m->beside, u);
}

/* All values of name `j`, from point `at`. */
static void consider_name(Search *z, int at, int j)
{
    const SearchName *m = &z->name[j];
    bool few_only = m->hint && m->hint->search == SEARCH_FEW_PROGRAMS;
    if (few_only && z->point[at].programs >= 2 * (int64_t)z->p->device.units) return;
    for (int v = 0; v < m->n; v++) {
        uint8_t p[MOST_NAMES];
        int64_t ctas = m->values[v].i * z->point[at].programs;
        if (few_only && m->values[v].i > SEARCH_MOST_OF_A_CLUSTER && ctas > z->p->device.units) continue;
        memcpy(p, z->point[at].at, sizeof p);
        p[j] = (uint8_t)v;
        if (m->values[v].i > 1) consider_beside(z, p, m);
        else consider(z, p);
    }
}

/* Whether search_improve tries a name: not those for a last round, which search_shares tries. */
static bool improves(const SearchName *m)
{ return !m->shapes_grid && !m->fixed && !is_last(m) && !(m->hint && m->hint->search == SEARCH_LAST_ROUND); }

/* Each of the other names in turn, from each of these points, which become the best with the same tiles. */
void search_improve(Search *z, int *from, int n)
{
    for (int j = 0; j < z->n_names; j++) {
        if (!improves(&z->name[j])) continue;
        for (int k = 0; k < n; k++) consider_name(z, from[k], j);
        search_estimate(z);
        for (int k = 0; k < n; k++)
            for (int i = 0; i < z->n_points; i++) {
                bool better = search_is_less(z->point[i].ns, z->point[from[k]].ns);
                if (better && search_same_tiles(z, &z->point[i], &z->point[from[k]])) from[k] = i;
            }
    }
}

/* Where the names that do not shape the grid begin. */
typedef enum Side { UPPER_MIDDLE, LOWER_MIDDLE_OR_LAST, LOWER_MIDDLE, SIDES } Side;

static int middle_value(Side side, int values)
{
    bool odd = values % 2;
    switch (side) {
    case UPPER_MIDDLE: return values / 2;
    case LOWER_MIDDLE_OR_LAST: return odd ? values - 1 : (values - 1) / 2;
    case LOWER_MIDDLE: return (values - 1) / 2 - (odd && values > 1);
    case SIDES: break;
    }
    return 0;
}

static void set_middle(const Search *z, const uint8_t *declared, Side side, uint8_t *out)
{
    memcpy(out, declared, MOST_NAMES);
    for (int i = 0; i < z->n_names; i++) {
        const SearchName *m = &z->name[i];
        if (!m->with_tiles && !m->hint && !m->fixed) out[i] = (uint8_t)middle_value(side, search_listed(m));
    }
}

/* Where cp.async would fill rings, all tiles are also looked at without that, in few stages as well: other
 * tiles are best then. */
static void consider_without_cp_async(Search *z, const uint8_t *declared)
{
    uint8_t middle[MOST_NAMES];
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        bool any = false;
        if (!m->hint || m->hint->search != SEARCH_WITH_CP_ASYNC) continue;
        for (int i = 0; i < z->n_points; i++) any |= z->point[i].cp_async;
        for (int v = 0; v < search_listed(m) && any; v++)
            for (Side side = UPPER_MIDDLE; side < SIDES && (!m->values[v].i || search_predicts(z)); side++) {
                set_middle(z, declared, side, middle);
                middle[j] = (uint8_t)v;
                consider_tiles(z, middle);
            }
        if (any) search_estimate(z);
    }
}

/* Nothing fits yet: what predictions left out may, smaller pipelines, or these with other tiles. */
static void consider_smaller(Search *z, const uint8_t *declared)
{
    uint8_t p[MOST_NAMES];
    if (search_best(z, NULL, 0) < 0) search_estimate_all(z);
    if (search_best(z, NULL, 0) >= 0) return;
    search_improve(z, &(int){ 0 }, 1);
    for (int j = 0; j < z->n_names && search_best(z, NULL, 0) < 0; j++) {
        const SearchName *m = &z->name[j];
        for (int v = 0; v < m->n && !m->with_tiles && !m->hint && !m->fixed; v++) {
            memcpy(p, declared, sizeof p);
            p[j] = (uint8_t)v;
            consider_tiles(z, p);
        }
        search_estimate_all(z);
    }
}

/* Point `from` with value `v` of name `j`, which acts only beside some values of name `by`, with each of
 * those. */
static void consider_allowed(Search *z, int from, int j, int v, int by)
{
    for (int u = 0; u < search_listed(&z->name[by]); u++) {
        uint8_t p[MOST_NAMES];
        memcpy(p, z->point[from].at, sizeof p);
        if (z->point[from].divided || p[by] == u) continue;
        p[j] = (uint8_t)v;
        p[by] = (uint8_t)u;
        consider_beside(z, p, &z->name[j]);
    }
}

/* Programs load together only with some values of another name, `persistent`. By itself that name's other
 * value often had the better estimate, and then the search so far saw no gain in `cluster`. So from the best
 * points, of whole loops, both are tried together; such a point has to be clearly better than the best so
 * far. */
static int walk_together(Search *z, int best)
{
    int tops[SEARCH_AGAIN], n = search_best_of_different_tiles(z, tops, SEARCH_AGAIN), first = z->n_points;
    if (!z->p->device.model || z->point[best].divided) return best;
    for (int j = 0; j < z->n_names; j++)
        for (int v = 0, by = z->name[j].allowed_by; by >= 0 && v < search_listed(&z->name[j]); v++)
            for (int k = 0; k < n && z->name[j].values[v].i > 1; k++) consider_allowed(z, tops[k], j, v, by);
    search_estimate(z);
    int found = best;
    for (int i = first; i < z->n_points; i++)
        if (search_is_less(z->point[i].ns, z->point[found].ns)) found = i;
    return z->point[found].ns < z->point[best].ns * z->p->device.model->margin_late ? found : best;
}

/* All of this once more around the best point. */
static void look_around(Search *z)
{
    for (int round = 0; round < ROUNDS && z->n_points < MOST_POINTS; round++) {
        int before = search_best(z, NULL, 0), last[SEARCH_AGAIN];
        consider_tiles(z, z->point[before].at);
        consider_pairs(z, z->point[before].at);
        search_estimate(z);
        search_improve(z, last, search_best_of_different_tiles(z, last, SEARCH_AGAIN));
        if (search_best(z, NULL, 0) == before) break;
    }
}

static int walk(Search *z)
{
    uint8_t declared[MOST_NAMES] = { 0 }, middle[MOST_NAMES];
    const SearchPoint *first = &z->point[0];
    int tops[BEAM] = { 0 };
    for (int i = 0; i < z->n_names && i < MOST_NAMES; i++) declared[i] = (uint8_t)z->name[i].declared;
    z->point[z->n_points++] = (SearchPoint){ .ns = INFINITY }; /* always, whatever `require` says */
    memcpy(z->point[0].at, declared, sizeof declared);
    if (search_has_autos(z)) return search_few_warps(z, search_programs(z, search_autos_with_hints(z)));
    if (!z->tune->n) {
        search_estimate(z);
        return search_programs(z, 0);
    }
    if (z->p->only_if_needed || !z->p->device.model) search_estimate(z);
    bool fits = first->ns < INFINITY;
    if (fits && (z->p->only_if_needed || first->programs >= z->p->device.units)) return 0;
    /* The number of programs says nothing of names that do not shape the grid: they change only where the
     * declared ones do not fit. */
    for (int i = 0; i < z->n_names; i++)
        z->name[i].fixed = !z->p->device.model && !z->name[i].shapes_grid && fits;
    for (Side side = UPPER_MIDDLE; side <= LOWER_MIDDLE_OR_LAST; side++) {
        set_middle(z, declared, side, middle);
        consider_tiles(z, middle);
        if (!search_predicts(z)) search_estimate(z);
    }
    search_estimate(z);
    if (first->ns < INFINITY && first->uncertain) return 0;
    consider_without_cp_async(z, declared);
    consider_smaller(z, declared);
    int n = search_best_of_different_tiles(z, tops, BEAM);
    if (!n) return 0;
    search_improve(z, tops, n);
    look_around(z);
    consider_last(z, z->point[search_best(z, NULL, 0)].at);
    consider_last(z, declared);
    search_estimate(z);
    const int whole = search_least_strained(z, search_best(z, NULL, 0));
    int found = search_divided(z, whole);
    if (search_predicts(z) && found != whole) {
        look_around(z);
        const int best = search_best(z, NULL, 0);
        if (z->point[best].ns < z->point[found].ns) found = best;
    }
    return search_order(z, search_sizes(z, search_shares(z, walk_together(z, found))));
}

/* --- the result -------------------------------------------------------------------------------------- */

/* The declared configuration, or it with another value of a name that is tried last. */
static const SearchPoint *as_declared(const Search *z)
{
    const SearchPoint *found = &z->point[0];
    const DeviceModel *m = z->p->device.model;
    double margin = m ? m->margin_late : MARGIN_LATE_BY_NUMBER;
    for (int i = 1; i < z->n_points; i++) {
        bool alike = true;
        for (int j = 0; j < z->n_names; j++)
            alike &= is_last(&z->name[j]) || z->point[i].at[j] == z->point[0].at[j];
        if (alike && z->point[i].ns < found->ns * margin) found = &z->point[i];
    }
    return found;
}

/* How far below the declared configuration's an estimate must be to be taken, as a ratio. Estimates are
 * imprecise, most of all where memory alone bounds both and nothing is multiplied. */
static double margin(const Search *z, const SearchPoint *found, const SearchPoint *declared)
{
    const DeviceModel *m = z->p->device.model;
    /* Nobody wrote these defaults; of streams the search may have taken one that is hardly worse. */
    if (search_declares_auto(z)) return m && !search_on_cpu(z) ? SEARCH_HARDLY_WORSE : 1;
    if (search_on_cpu(z)) return MARGIN_ON_CPU;
    bool memory = !found->products && found->bound == BOUND_MEMORY && declared->bound == BOUND_MEMORY;
    return !m ? MARGIN_BY_NUMBER : memory ? m->margin_memory : m->margin;
}

/* The kernel's `tune` block; an empty one where only warps and CTAs are chosen, NULL where nothing is. */
static const FrontTune *block_of(const Search *z)
{
    const SearchProblem *p = z->p;
    const FrontTune *t = frontend_tune(z->ast, p->kernel);
    const bool lacks = !t && !p->only_if_needed && p->device.model &&
                       search_lacks_block(z->front, p->bindings, p->n_bindings, p->device.target);
    if (!lacks) return t;
    FrontTune *none = arena_new(&z->s->arena, FrontTune);
    *none = (FrontTune){ .kernel = p->kernel };
    return none;
}

bool search_configuration(Session *s, const SearchProblem *p, SearchResult *out)
{
    Search *z = arena_new(&s->arena, Search);
    z->p = p; /* all else is zero, of nearly a megabyte */
    z->s = s;
    *out = (SearchResult){ .ns = INFINITY, .declared_ns = INFINITY };
    if (!(z->ast = p->parse(p->user, s))) return false;
    z->front = frontend_kernel_find(z->ast, p->kernel);
    if (!(z->tune = block_of(z))) return false;
    search_add_names(z);
    if (!z->n_names) return false;
    search_open_workers(z);
    int found = walk(z);
    const SearchPoint *b = &z->point[found], *declared = as_declared(z);
    if (!b->sure && b->ns > declared->ns * margin(z, b, declared)) b = declared;
    int best = (int)(b - z->point), kept = search_kept(z, best);
    b = &z->point[kept == best && z->tune->n ? search_rows(z, best) : kept];
    search_close_workers(z);
    FrontBinding *config = arena_array(&s->arena, FrontBinding, MOST_BOUND);
    out->automatic = search_declares_auto(z);
    bool all =
        out->automatic && b->ns < INFINITY; /* all that was chosen is named, also what is the default */
    out->n = b == &z->point[0] && !all ? 0 : search_bindings(z, b, all, config);
    out->config = config;
    out->ns = b->ns;
    out->declared_ns = z->point[0].ns;
    out->bound = b->bound;
    out->tried = z->n_estimated;
    out->short_of_memory = z->short_of_memory;
    search_others(z, (int)(b - z->point), out);
    return true;
}

const char *search_text(Session *s, const SearchResult *r)
{
    Text t;
    text_init(&t, &s->arena);
    for (int i = 0; i < r->n; i++) {
        text_printf(&t, "%s%s=", i ? ", " : "", r->config[i].name);
        frontend_print_value(r->config[i].value, &t);
    }
    return r->n ? t.data : "as declared";
}
