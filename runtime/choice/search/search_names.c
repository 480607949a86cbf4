/* search_names.c: which names of a `tune` block a search chooses values of, and which configurations
 * `require` allows. */
#define _GNU_SOURCE
#include "runtime/choice/search/search_points.h"

enum {
    MOST_OF_CTA = 1 << 14, /* elements of a whole axis that one CTA holds: a quarter of its registers */
    MOST_OF_CLUSTER_CTA = 1 << 15, /* the same of each CTA of the largest cluster, whose passes know how */
};

bool search_binds(const FrontBinding *b, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(b[i].name, name)) return true;
    return false;
}

bool search_is_bound(const SearchProblem *p, const char *name)
{ return search_binds(p->bindings, p->n_bindings, name); }

static const FrontParam *const_named(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].kind == FRONT_CONST && !strcmp(k->params[i].name, name)) return &k->params[i];
    return NULL;
}

/* The values of domain `d`, and which of them is as declared. */
static void set_values(SearchName *n, const FrontDomain *d, const FrontParam *c)
{
    n->n = d->n;
    n->declared = -1;
    for (int i = 0; i < d->n; i++) {
        n->values[i] = d->values[i];
        if (c && d->values[i].i == c->default_value.i) n->declared = i;
    }
    if (n->declared >= 0) return;
    n->declared = n->n++;
    n->absent = true;
    if (c) n->values[n->declared] = c->default_value;
}

/* A loop that walks over an axis by tiles may also be left out: one tile holds the axis, in the registers of
 * a cluster, and what is read again stays there. A constant of the grid divides what programs share instead.
 */
static void add_whole(const Search *z, SearchName *n)
{
    const bool may = n->derived && n->along && !n->shapes_grid && !n->absent && !z->front->products &&
                     z->p->device.model && z->p->extent;
    const int64_t extent = may ? z->p->extent(z->p->user, n->along) : -1;
    const int ctas = z->p->device.target->cluster_ctas;
    const int64_t most = ctas > 1 ? (int64_t)ctas * MOST_OF_CLUSTER_CTA : MOST_OF_CTA;
    n->whole = -1;
    if (extent <= n->values[0].i || extent > most || n->n >= MOST_VALUES) return;
    n->whole = n->n++;
    n->values[n->whole] = (FrontValue){ FRONT_INT, { .i = extent } };
}

bool search_on_cpu(const Search *z) { return z->p->device.target->kind == TARGET_CPU; }

bool search_declares_auto(const Search *z)
{
    const FrontKernel *k = z->front;
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].automatic) return true;
    return false;
}

/* Which listed value of a hint says what the compiler does where the hint is not given: a loop is whole
 * unless parts of it are asked for, a CTA runs several programs wherever it can, and only rows that are
 * reduced are spread over a cluster that nobody asked for, and not beside products. */
static int value_as_absent(const Search *z, const SearchName *n)
{
    const bool known = n->hint && n->absent &&
                       (n->hint->id == HINT_split_k || n->hint->id == HINT_persistent ||
                           (n->hint->id == HINT_cluster && z->front->products));
    for (int v = 0; v < search_listed(n) && known; v++)
        if (n->values[v].i == 1) return v;
    return -1;
}

/* On a CPU, of a kernel with `auto` constants these alone are chosen, because code that is compiled ahead of
 * time chooses no others. */
static void add_name(Search *z, int domain)
{
    const FrontDomain *d = &z->tune->domains[domain];
    const FrontParam *c = const_named(z->front, d->name);
    const HintInfo *hint = c ? NULL : hint_find(d->name);
    if (search_is_bound(z->p, d->name) || (!c && !hint) || z->n_names == MOST_NAMES || d->n > MOST_VALUES)
        return;
    if (c && c->default_value.kind != FRONT_INT && c->default_value.kind != FRONT_BOOL) return;
    if (!z->p->device.model && hint) return; /* the number of programs says nothing of hints */
    if (search_on_cpu(z) && (hint || (search_declares_auto(z) && !d->derived && !c->automatic))) return;
    SearchName *n = &z->name[z->n_names];
    *n = (SearchName){
        .name = d->name, .domain = domain, .beside = -1, .alike = -1, .allowed_by = -1, .hint = hint
    };
    n->derived = d->derived;
    n->along = d->along;
    n->order_only = d->order_only;
    n->step = d->step;
    if (d->step) n->along = frontend_grid_tiles(z->ast, z->p->kernel, d->name);
    n->shapes_grid = c && frontend_grid_names(z->ast, z->p->kernel, d->name);
    n->with_tiles =
        n->shapes_grid || (hint ? hint->search == SEARCH_WITH_TILES : c->default_value.kind == FRONT_BOOL);
    n->with_tiles &= n->shapes_grid || d->n == 2;
    set_values(n, d, c);
    n->alike = value_as_absent(z, n);
    add_whole(z, n);
    if (n->n > 1) z->n_names++;
}

/* Adds a hint that the block does not name. It is left as the source has it, until the best sizes are known.
 */
static void add_hint(Search *z, const char *name, const int *values, int n_values)
{
    const HintInfo *hint = hint_find(name);
    SearchName *n = &z->name[z->n_names];
    if (z->n_names == MOST_NAMES || search_is_bound(z->p, hint->name)) return;
    for (int d = 0; d < z->tune->n; d++)
        if (hint_find(z->tune->domains[d].name) == hint) return;
    *n = (SearchName){ .name = hint->name,
        .domain = -1,
        .beside = -1,
        .alike = -1,
        .allowed_by = -1,
        .whole = -1,
        .hint = hint };
    n->n = n_values;
    for (int i = 0; i < n->n; i++) n->values[i] = (FrontValue){ FRONT_INT, { .i = values[i] } };
    n->declared = n->n++;
    n->absent = n->fixed = true;
    z->n_names++;
}

/* Numbers of pixels that are divided by extents are positions that TMA can count, and divisions by constants,
 * if code is specialized on these extents. */
static void add_divisors(Search *z)
{
    const FrontKernel *k = z->front;
    if (!z->p->device.model || search_on_cpu(z) || !z->p->extent || !search_declares_auto(z)) return;
    if (!k->products || !k->gathers || !k->n_divisors || k->n_divisors > MOST_DIVISORS) return;
    bool free = false;
    for (int d = 0; d < k->n_divisors; d++) {
        if (z->p->extent(z->p->user, k->divisors[d]) < 1) return;
        free |= !search_is_bound(z->p, k->divisors[d]);
    }
    if (!free) return;
    z->name[z->n_names++] = (SearchName){ .name = "divisors",
        .domain = -1,
        .beside = -1,
        .alike = -1,
        .allowed_by = -1,
        .whole = -1,
        .divisors = true,
        .n = 2,
        .values = { { FRONT_BOOL, { .b = false } }, { FRONT_BOOL, { .b = true } } } };
}

/* Whether or not a block names these hints, if sizes of products are chosen, loops of few programs are
 * divided, and neighbouring programs load together; of other kernels programs have other numbers of warps. */
static void add_hints(Search *z)
{
    static const int parts[] = { 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, 256 }, together[] = { 1, 2 },
                     axes[] = { 0, 1 };
    enum { PARTS_OF_A_CLUSTER = 7, PARTS = sizeof parts / sizeof *parts };
    static const int warps[] = { 1, 2, 4, 8, 16 }, few_warps[] = { 1, 2 };
    static const int ctas[] = { 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32 }, sharing[] = { 1, 2, 4, 8 };
    if (!z->p->device.model || search_on_cpu(z) || (z->tune->n && !search_has_autos(z))) return;
    if (!z->front->products && z->p->device.target->kind == TARGET_CUDA) {
        add_hint(z, "warps", warps, sizeof warps / sizeof *warps);
        if (!search_says_of_programs(z->front, z->p->bindings, z->p->n_bindings))
            add_hint(z, "occupancy", ctas, sizeof ctas / sizeof *ctas);
        if (!z->tune->n && z->p->device.target->cluster_ctas > 1)
            add_hint(z, "cluster", sharing, sizeof sharing / sizeof *sharing);
    }
    if (!z->front->products && z->p->device.target->cluster_ctas > 1 && search_declares_auto(z))
        add_hint(z, "split_k", parts, PARTS);
    if (z->front->products && z->p->device.target->cluster_ctas > 1) {
        add_hint(z, "split_k", parts, PARTS_OF_A_CLUSTER);
        add_hint(z, "cluster", together, sizeof together / sizeof *together);
        add_hint(z, "cluster_axis", axes, sizeof axes / sizeof *axes);
    }
    if (z->front->products && z->p->device.target->cluster_ctas > 1 && search_declares_auto(z))
        add_hint(z, "pack", together, sizeof together / sizeof *together);
    if (z->front->products && z->p->device.target->kind == TARGET_CUDA && search_declares_auto(z))
        add_hint(z, "warps", few_warps, sizeof few_warps / sizeof *few_warps);
}

static bool condition_names(const Search *z, const SearchTerm *t, const char *name)
{
    const HintInfo *hint = hint_find(name);
    return frontend_condition_names(z->ast, z->tune, t->condition, name) ||
           (hint && frontend_condition_names(z->ast, z->tune, t->condition, hint->name));
}

static bool is_chosen(const Search *z, int domain)
{
    for (int i = 0; i < z->n_names; i++)
        if (z->name[i].domain == domain) return true;
    return false;
}

/* What the term names and nothing chooses: what the caller binds; the declared values of constants, and of
 * hints the first of their domains. */
static void begin_asking(Search *z, SearchTerm *t)
{
    FrontBinding *fixed =
        arena_array(&z->s->arena, FrontBinding, (size_t)(z->p->n_bindings + z->tune->n) + 1);
    t->ask = frontend_ask_begin(z->ast, z->tune, t->condition);
    t->fixed = fixed;
    for (int i = 0; i < z->p->n_bindings; i++)
        if (condition_names(z, t, z->p->bindings[i].name)) fixed[t->n_fixed++] = z->p->bindings[i];
    for (int d = 0; d < z->tune->n; d++) {
        const FrontDomain *domain = &z->tune->domains[d];
        const FrontParam *own = const_named(z->front, domain->name);
        if (is_chosen(z, d) || search_is_bound(z->p, domain->name) || !condition_names(z, t, domain->name))
            continue;
        fixed[t->n_fixed++] = (FrontBinding){ domain->name, own ? own->default_value : domain->values[0] };
    }
}

/* Appends the condition and those of which it consists; its number, or -1: there are too many. What one of
 * them says depends on few names, and walks ask for the same values of these many times. */
static int add_term(Search *z, const FrontCondition *c)
{
    const FrontCondition *part[3] = { NULL };
    if (z->n_terms == MOST_TERMS) return -1;
    int number = z->n_terms++;
    SearchTerm *t = &z->term[number];
    *t = (SearchTerm){ .condition = c, .join = frontend_condition_parts(c, part) };
    for (int k = 0; k < 3 && part[k]; k++) {
        if ((t->part[k] = add_term(z, part[k])) < 0) return -1;
        for (int i = 0; i < z->n_names; i++) t->asks[i] |= z->term[t->part[k]].asks[i];
    }
    t->size = 1;
    for (int i = 0; i < z->n_names; i++) {
        if (t->join == FRONT_ASK) t->asks[i] = frontend_condition_names(z->ast, z->tune, c, z->name[i].name);
        if (!t->asks[i]) continue;
        t->asked[t->n_asked++] = (uint8_t)i;
        t->size = t->size * z->name[i].n <= MOST_KEPT ? t->size * z->name[i].n : 0;
    }
    if (t->join == FRONT_ASK) begin_asking(z, t);
    if (!t->size) return number;
    t->known = arena_array(&z->s->arena, uint8_t, (size_t)t->size / 8 + 1);
    t->holds = arena_array(&z->s->arena, uint8_t, (size_t)t->size / 8 + 1);
    return number;
}

static void add_all_of(Search *z, int term)
{
    const SearchTerm *t = &z->term[term];
    if (t->join != FRONT_ALL) z->all_of[z->n_all_of++] = term;
    else
        for (int k = 0; k < 2; k++) add_all_of(z, t->part[k]);
}

void search_add_terms(Search *z)
{
    z->n_terms = z->n_all_of = 0;
    const FrontCondition *c = frontend_require(z->ast, z->tune);
    if (c && add_term(z, c) < 0) z->n_terms = 0;
    if (z->n_terms) add_all_of(z, 0);
}

void search_add_names(Search *z)
{
    add_divisors(z);
    for (int d = 0; d < z->tune->n; d++) add_name(z, d);
    add_hints(z);
    search_add_terms(z);
    for (int i = 0; i < z->n_names; i++)
        for (int j = 0; j < z->n_names; j++) {
            const HintInfo *a = z->name[i].hint, *b = z->name[j].hint;
            if (!a || !b || a->id != HINT_cluster) continue;
            if (b->search == SEARCH_WITH_CLUSTER) z->name[i].beside = j;
            if (b->id == HINT_persistent) z->name[i].allowed_by = j; /* passes/kernel/cluster/multicast.c */
        }
    for (int i = 0; i < z->n_names; i++) {
        const SearchName *m = &z->name[i];
        if (m->with_tiles || (m->hint && m->hint->search == SEARCH_WITH_CP_ASYNC))
            z->deciding[z->n_deciding++] = i;
        if (m->hint && (m->hint->search == SEARCH_FEW_PROGRAMS || m->hint->search == SEARCH_LAST_ROUND))
            z->dividing[z->n_dividing++] = i;
        z->name[i].alone = m->alike < 0;
    }
    for (int i = 0; i < z->n_names; i++)
        if (z->name[i].beside >= 0) z->name[z->name[i].beside].alone = false;
    uint8_t alone[MOST_NAMES] = { 0 };
    for (int i = 0; i < z->n_names; i++) alone[i] = z->name[i].alone ? UINT8_MAX : 0;
    z->alone = search_pack(alone);
}

/* Whether a condition without parts holds. Hints have the values of their domain alone. */
static bool ask(const Search *z, const SearchPoint *p, const SearchTerm *t)
{
    FrontBinding all[t->n_fixed + MOST_NAMES];
    int n = t->n_fixed;
    memcpy(all, t->fixed, (size_t)n * sizeof *all);
    for (int k = 0; k < t->n_asked; k++) {
        const SearchName *m = &z->name[t->asked[k]];
        const int at = p->at[t->asked[k]];
        if (m->domain < 0) continue;
        const bool listed = !m->hint || at < z->tune->domains[m->domain].n;
        all[n++] = (FrontBinding){ m->name, m->values[listed ? at : 0] };
    }
    return frontend_ask(t->ask, all, n);
}

/* All of `require`, and what else is asked of a configuration. */
static bool ask_all(const Search *z, const SearchPoint *p)
{
    FrontBinding fixed[z->p->n_bindings + MOST_NAMES], out[z->tune->n + 1];
    int n = z->p->n_bindings;
    int64_t number = 0;
    memcpy(fixed, z->p->bindings, (size_t)n * sizeof *fixed);
    for (int d = 0; d < z->tune->n; d++) {
        int value = 0;
        bool mine = false;
        for (int i = 0; i < z->n_names; i++) {
            const SearchName *m = &z->name[i];
            if (m->domain != d) continue;
            mine = true;
            if (p->at[i] < z->tune->domains[d].n) value = p->at[i];
            else if (!m->hint) fixed[n++] = (FrontBinding){ m->name, m->values[p->at[i]] };
        }
        const FrontParam *own = mine ? NULL : const_named(z->front, z->tune->domains[d].name);
        if (own && !search_is_bound(z->p, own->name))
            fixed[n++] = (FrontBinding){ own->name, own->default_value };
        number = number * z->tune->domains[d].n + value;
    }
    return frontend_tune_config_with(z->ast, z->tune, number, fixed, n, out);
}

static bool term_holds(Search *z, const SearchPoint *p, int term);

static bool find_out(Search *z, const SearchPoint *p, const SearchTerm *t)
{
    switch (t->join) {
    case FRONT_ALL: return term_holds(z, p, t->part[0]) && term_holds(z, p, t->part[1]);
    case FRONT_ANY: return term_holds(z, p, t->part[0]) || term_holds(z, p, t->part[1]);
    case FRONT_SELECT: return term_holds(z, p, t->part[term_holds(z, p, t->part[0]) ? 1 : 2]);
    case FRONT_ASK: break;
    }
    return ask(z, p, t);
}

static bool term_holds(Search *z, const SearchPoint *p, int term)
{
    const SearchTerm *t = &z->term[term];
    int at = 0;
    if (!t->size) return find_out(z, p, t);
    for (int k = 0; k < t->n_asked; k++) at = at * z->name[t->asked[k]].n + p->at[t->asked[k]];
    const uint8_t bit = (uint8_t)(1 << at % 8);
    if (!(t->known[at / 8] & bit)) {
        t->known[at / 8] |= bit;
        if (find_out(z, p, t)) t->holds[at / 8] |= bit;
    }
    return t->holds[at / 8] & bit;
}

bool search_allowed(Search *z, const SearchPoint *p)
{
    if (!z->n_terms) return ask_all(z, p);
    for (int k = 0; k < z->n_all_of; k++) {
        const int term = z->all_of[k];
        if (term_holds(z, p, term)) continue;
        /* Points are asked for in an order in which neighbours fail alike. */
        memmove(z->all_of + 1, z->all_of, (size_t)k * sizeof *z->all_of);
        z->all_of[0] = term;
        return false;
    }
    return true;
}

bool search_forbidden(Search *z, const uint8_t *at, bool *may_change)
{
    SearchPoint p = { 0 };
    bool may_help[MOST_NAMES];
    memcpy(p.at, at, sizeof p.at);
    memcpy(may_help, may_change, sizeof may_help);
    for (int k = 0; k < (z->n_terms ? z->n_all_of : 0); k++) {
        const SearchTerm *t = &z->term[z->all_of[k]];
        bool changes = false;
        if (term_holds(z, &p, z->all_of[k])) continue;
        for (int i = 0; i < z->n_names; i++) {
            changes |= may_change[i] && t->asks[i];
            may_help[i] &= t->asks[i];
        }
        if (!changes) return true;
    }
    if (search_has_place(z, at)) memcpy(may_change, may_help, sizeof may_help);
    return false;
}
