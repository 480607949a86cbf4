/* search_idle.c: configurations that need not be compiled (search.h): the estimate of another one shows that
 * they would gain little or nothing, or already gives theirs. */
#include "runtime/choice/search/search_points.h"
#include <math.h>

/* The ratio to the best estimate above which tiles are not tried again with other values of other names. */
static const double HOPELESS = 1.5;
/* How many times as fast a tile may get that waits for loads, if shorter steps let more of them run ahead. */
static const double SHORTER_STEPS = 1.5;

/* The point that has another value of name `j`, `v`, and an estimate; NULL. */
static const SearchPoint *estimated_with(const Search *z, const uint8_t *at, int j, int v)
{
    uint8_t other[MOST_NAMES];
    memcpy(other, at, sizeof other);
    other[j] = (uint8_t)v;
    const SearchPoint *p = search_find(z, other);
    return p && p->ns < INFINITY ? p : NULL;
}

/* The value of name `j` that stands for all that say the same at this point: of a hint that is not given, the
 * one that says what the compiler then does; of the axis of a cluster that is none, the declared one. */
uint8_t search_said(const Search *z, const uint8_t *at, int j)
{
    const SearchName *m = &z->name[j];
    if (m->absent && at[j] == m->declared && m->alike >= 0) return (uint8_t)m->alike;
    for (int i = 0; i < z->n_names; i++) {
        const SearchName *c = &z->name[i];
        if (c->beside != j || c->alike < 0) continue;
        if (search_said(z, at, i) == c->alike) return (uint8_t)m->declared;
    }
    return at[j];
}

const SearchPoint *search_least_cluster(const Search *z, const uint8_t *at)
{
    uint8_t other[MOST_NAMES];
    memcpy(other, at, sizeof other);
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        if (!m->hint || m->hint->id != HINT_cluster || m->values[at[j]].i <= 1) continue;
        for (int v = 0; v < search_listed(m); v++) {
            const int64_t least = m->values[other[j]].i, value = m->values[v].i;
            if (value > 1 && value < least) other[j] = (uint8_t)v;
        }
        if (m->beside >= 0) other[m->beside] = (uint8_t)z->name[m->beside].declared;
    }
    return memcmp(other, at, sizeof other) ? search_find(z, other) : NULL;
}

/* Whether programs load nothing together in the smallest cluster, of which they may choose the axis: then no
 * axis has anything to share, and more of them would share as little. */
static bool shares_nothing(const Search *z, const uint8_t *at)
{
    const SearchPoint *p = search_least_cluster(z, at);
    return p && p->ns < INFINITY && p->loads_apart;
}

/* Whether the point with another value of name `j` tells that this one gains little or nothing: a CTA that
 * runs one program need not be able to run several, unless programs load together, which only such CTAs do;
 * the way in which producers use cp.async is idle where nothing uses it; and a cluster is, where programs
 * have nothing to share. */
bool search_is_idle(const Search *z, const uint8_t *at, int j)
{
    const SearchName *m = &z->name[j];
    const int64_t value = m->values[at[j]].i;
    if (!m->hint || !z->p->device.model || at[j] >= search_listed(m)) return false;
    const bool several = m->hint->id == HINT_persistent && value;
    const bool never = m->hint->search == SEARCH_WITH_CP_ASYNC && !value;
    if (m->hint->id == HINT_cluster && value > 1 && shares_nothing(z, at)) return true;
    for (int v = 0; v < search_listed(m) && (several || never); v++) {
        const SearchPoint *p = v == at[j] ? NULL : estimated_with(z, at, j, v);
        if (!p) continue;
        if (several && p->programs <= z->p->device.units && !p->loads_together) return true;
        if (never && !p->cp_async) return true;
    }
    return false;
}

/* cp.async producers that are asked for fill what they fill anyway, unless they declined some of it when they
 * were not asked for. */
const SearchPoint *search_same_code(const Search *z, const uint8_t *at)
{
    for (int j = 0; j < z->n_names; j++) {
        const SearchName *m = &z->name[j];
        if (!m->hint || m->hint->search != SEARCH_WITH_CP_ASYNC || !m->absent) continue;
        if (at[j] == m->declared || !m->values[at[j]].i) continue;
        const SearchPoint *p = estimated_with(z, at, j, m->declared);
        if (p && !p->declined) return p;
    }
    return NULL;
}

/* --- tiles that are far above the best --------------------------------------------------------------- */

/* Of the names that decide between tiles: the others rarely do; cp.async does. */
static SearchPacked deciding(const Search *z)
{
    uint8_t mask[MOST_NAMES] = { 0 };
    for (int k = 0; k < z->n_deciding; k++) mask[z->deciding[k]] = UINT8_MAX;
    return search_pack(mask);
}

static SearchTile *find_tile(SearchLeast *l, SearchPacked of)
{
    const uint64_t first = of.first & l->mask.first;
    const uint32_t rest = of.rest & l->mask.rest;
    uint32_t at = (uint32_t)(first * 0x9E3779B97F4A7C15u >> 32) ^ rest * 0x85EBCA6Bu;
    for (;; at++) {
        SearchTile *t = &l->tile[at % LEAST_SLOTS];
        if (t->used != l->calls || (t->of.first == first && t->of.rest == rest)) return t;
    }
}

SearchLeast *search_least(Search *z)
{
    SearchLeast *l = z->least;
    if (!l) z->least = l = arena_new(&z->s->arena, SearchLeast);
    l->calls++;
    l->mask = deciding(z);
    for (int i = 0; i < z->n_points; i++) {
        const SearchPoint *p = &z->point[i];
        const bool waits = p->few_stages && p->bound == BOUND_LOADS;
        const SearchPacked of = search_pack(p->at);
        if (waits && p->one_stage) continue;
        SearchTile *t = find_tile(l, of);
        if (t->used != l->calls)
            *t = (SearchTile){ l->calls, { of.first & l->mask.first, of.rest & l->mask.rest }, INFINITY };
        t->ns = fmin(t->ns, search_if_divided(z, p) / (waits ? SHORTER_STEPS : 1));
    }
    return l;
}

bool search_is_hopeless(SearchLeast *l, const uint8_t *at, double best)
{
    const SearchTile *t = find_tile(l, search_pack(at));
    return best < INFINITY && t->used == l->calls && t->ns < INFINITY && t->ns > best * HOPELESS;
}
