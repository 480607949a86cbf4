/* search_tiles.c: the tile IR of the points of a search. Points that differ only in hints for the kernel IR
 * (ir/hints.def) have the same, which a worker compiles once and keeps. */
#include "runtime/choice/search/search_points.h"
#include "ir/hints.h"

/* What a worker keeps at most, with the memory that the passes took. */
enum { MOST_KEPT_BYTES = 24 << 20 };

struct SearchTiles {
    const SearchTiles *next;
    SearchPacked at; /* the values of names that decide the tile IR, 0 of the others */
    Func *func;
    Hints hints; /* without those for the kernel IR, as far as these are chosen */
    Compiled compiled;
};

static bool is_late(const SearchName *m) { return m->hint && m->hint->reader == READ_BY_KERNEL; }

static SearchPacked deciding(const Search *z, const SearchPoint *p)
{
    uint8_t at[MOST_NAMES] = { 0 };
    for (int i = 0; i < z->n_names; i++) at[i] = is_late(&z->name[i]) ? 0 : p->at[i];
    return search_pack(at);
}

/* The list of tile IR of these values. */
static const SearchTiles **list_of(SearchWorker *w, SearchPacked at)
{ return &w->tiles[search_mixed(at) % TILE_LISTS]; }

static bool is_shared(const Search *z)
{
    bool late = false;
    for (int i = 0; i < z->n_names; i++) late |= is_late(&z->name[i]);
    return late;
}

/* The bindings without those that are set later. */
static size_t early_bindings(const Search *z, const CompileJob *j, FrontBinding *out)
{
    size_t n = 0;
    for (size_t k = 0; k < j->n_bindings; k++) {
        bool late = false;
        for (int i = 0; i < z->n_names && k >= (size_t)z->p->n_bindings; i++)
            late |= is_late(&z->name[i]) && !strcmp(z->name[i].name, j->bindings[k].name);
        if (!late) out[n++] = j->bindings[k];
    }
    return n;
}

/* Compiles the tile IR, and keeps it if there is room. Diagnostics of a kernel that compiles are notes that
 * nobody reads. */
static bool make_tiles(Search *z, SearchWorker *w, const CompileJob *j, SearchPacked at, SearchTiles *t)
{
    Session *s = j->session;
    const bool keeps = is_shared(z) && w->kept_bytes < MOST_KEPT_BYTES;
    CompileJob early = *j;
    FrontBinding *bindings = arena_array(&s->arena, FrontBinding, j->n_bindings + 1);
    if (is_shared(z)) {
        early.n_bindings = early_bindings(z, j, bindings);
        early.bindings = bindings;
    }
    const SearchTiles **list = list_of(w, at);
    *t = (SearchTiles){ .next = *list, .at = at };
    if (!compile_tiles(&early, &t->compiled, &t->func)) return false;
    t->hints = t->func->hints;
    if (!keeps) return true;
    SearchTiles *kept = arena_new(&s->arena, SearchTiles);
    *kept = *t;
    w->kept_bytes += s->arena.used;
    s->diags = s->last_diag = NULL;
    s->n_warnings = s->n_perf = 0;
    session_keep(s);
    *list = kept;
    return true;
}

Func *search_tiles(Search *z, SearchWorker *w, const SearchPoint *p, const CompileJob *j, Compiled *compiled)
{
    const SearchPacked all = { UINT64_MAX, UINT32_MAX }, at = deciding(z, p);
    const SearchTiles *t = *list_of(w, at);
    SearchTiles made;
    while (t && !search_same_in(all, t->at, at)) t = t->next;
    if (!t && !make_tiles(z, w, j, at, &made)) return NULL;
    if (!t) t = &made;
    *compiled = t->compiled;
    t->func->hints = t->hints;
    for (int i = 0; i < z->n_names; i++) {
        const SearchName *m = &z->name[i];
        const FrontValue *v = &m->values[p->at[i]];
        if (!is_late(m) || (m->absent && p->at[i] == m->declared)) continue;
        if (v->kind == FRONT_INT && !hint_set(&t->func->hints, m->hint, v->i)) return NULL;
    }
    return t->func;
}
