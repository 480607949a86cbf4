/* search_others.c: lists configurations that a launch may take instead of the chosen one. Only the vendor's
 * compiler knows how much a configuration spills. If the chosen one spills, the launch compiles the listed
 * ones in turn (runtime/launch/compile_again.c), so that the list is short. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

/* EASED: each listed configuration wants at most this part of the registers that the one before it wants.
 * MOST_SLOWER: its estimate is at most so many times that of the chosen one, as spilling costs less than
 * that. */
static const double EASED = 0.9, MOST_SLOWER = 4;

/* Whether the chosen configuration, or the list of names to choose, has this name. */
static bool has(const Search *z, const SearchResult *r, const char *name)
{
    for (int j = 0; j < z->n_names; j++)
        if (!strcmp(z->name[j].name, name)) return true;
    return search_binds(r->config, r->n, name);
}

/* Whether the configuration serves all launches that the chosen one serves: it binds no name that the chosen
 * one leaves open. */
static bool serves(const Search *z, const SearchResult *r, const FrontBinding *config, int n)
{
    for (int i = 0; i < n; i++)
        if (!has(z, r, config[i].name)) return false;
    return true;
}

/* The best point whose tiles take at most the part `full` of a thread's registers; -1: there is none. */
static int best_within(const Search *z, double full, double most)
{
    int found = -1;
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i];
        bool good = p->ns < most && p->full <= full && !p->keeps;
        if (good && (found < 0 || search_is_less(p->ns, z->point[found].ns))) found = i;
    }
    return found;
}

void search_others(Search *z, int best, SearchResult *out)
{
    const SearchPoint *b = &z->point[best];
    out->spilled = b->spilled;
    if (!out->n || !z->p->device.model || z->p->only_if_needed || z->p->device.target->kind != TARGET_CUDA ||
        !(b->ns < INFINITY))
        return;
    for (double full = b->full; out->n_others < SEARCH_OTHERS;) {
        const int i = best_within(z, full * EASED, b->ns * MOST_SLOWER);
        if (i < 0) return;
        SearchOther *o = &out->other[out->n_others];
        FrontBinding *config = arena_array(&z->s->arena, FrontBinding, MOST_BOUND);
        *o = (SearchOther){ config, search_bindings(z, &z->point[i], true, config), z->point[i].ns,
            z->point[i].spilled };
        if (serves(z, out, config, o->n)) out->n_others++;
        full = z->point[i].full;
    }
}
