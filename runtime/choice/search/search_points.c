/* search_points.c: adds configurations to those that a search considers, each once (search_points.h). */
#include "runtime/choice/search/search_points.h"
#include <math.h>

bool search_has_place(const Search *z, const uint8_t *at)
{
    const CostDevice *d = &z->p->device;
    if (d->workspace && d->target->cluster_ctas > 1) return true;
    for (int k = 0; k < z->n_dividing; k++) {
        const SearchName *m = &z->name[z->dividing[k]];
        const int64_t parts = m->values[at[z->dividing[k]]].i;
        if (m->hint->search == SEARCH_FEW_PROGRAMS && parts > SEARCH_MOST_OF_A_CLUSTER) return false;
        if (m->hint->search == SEARCH_LAST_ROUND && parts > 1) return false;
    }
    return true;
}

/* Whether the two points, which have the same values of names that stand alone, say the same of each name. */
static bool says_same(const Search *z, const uint8_t *a, const uint8_t *b)
{
    for (int j = 0; j < z->n_names; j++)
        if (a[j] != b[j] && search_said(z, a, j) != search_said(z, b, j)) return false;
    return true;
}

/* Where the list of points begins that may have such values of names that stand alone. */
static uint32_t list_for(const Search *z, const uint8_t *at)
{
    SearchPacked of = search_pack(at);
    of.first &= z->alone.first;
    of.rest &= z->alone.rest;
    return search_mixed(of) % POINT_LISTS;
}

static void list_points(Search *z)
{
    if (z->n_listed > z->n_points) { /* the last points were given up */
        memset(z->list, 0, sizeof z->list);
        z->n_listed = 0;
    }
    for (; z->n_listed < z->n_points; z->n_listed++) {
        int *list = &z->list[list_for(z, z->point[z->n_listed].at)];
        z->point[z->n_listed].next = *list;
        *list = z->n_listed + 1;
    }
}

const SearchPoint *search_find(const Search *z, const uint8_t *at)
{
    const SearchPacked all = { UINT64_MAX, UINT32_MAX }, of = search_pack(at);
    for (int i = z->list[list_for(z, at)]; i; i = z->point[i - 1].next)
        if (i <= z->n_points && search_same_in(all, search_pack(z->point[i - 1].at), of))
            return &z->point[i - 1];
    for (int i = z->n_listed; i < z->n_points; i++)
        if (search_same_in(all, search_pack(z->point[i].at), of)) return &z->point[i];
    return NULL;
}

/* Whether there is a point that says the same. */
static bool has_alike(Search *z, const uint8_t *at)
{
    const SearchPacked packed = search_pack(at);
    list_points(z);
    for (int i = z->list[list_for(z, at)]; i; i = z->point[i - 1].next) {
        const uint8_t *of = z->point[i - 1].at;
        if (search_same_in(z->alone, search_pack(of), packed) && says_same(z, of, at)) return true;
    }
    return false;
}

bool search_add(Search *z, const uint8_t *at)
{
    SearchPoint asked, *p = z->n_points < MOST_POINTS ? &z->point[z->n_points] : &asked;
    memcpy(p->at, at, sizeof p->at); /* the rest of it is set where the point is new */
    if (!search_has_place(z, at) || !search_allowed(z, p)) return false;
    if (has_alike(z, at)) return true;
    for (int j = 0; j < z->n_names; j++)
        if (search_is_idle(z, at, j)) return true;
    *p = (SearchPoint){ .ns = INFINITY, .same = search_same_code(z, at) };
    memcpy(p->at, at, sizeof p->at);
    if (z->n_points < MOST_POINTS) z->n_points++;
    return true;
}
