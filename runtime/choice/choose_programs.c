/* choose_programs.c: how many warps the programs of a kernel have whose source lists nothing to choose, and
 * how many CTAs of them launch bounds leave room for (search/search_programs.c).
 *
 * One search serves all extents: it goes by the launch for which a variant is compiled, and is a part of this
 * compilation. The key of a launch does not depend on what is found, so that launches of other extents find
 * the variant as they would without it, and the disk cache keeps the code under the variant's own key. */
#include "ir/hints.h"
#include "runtime/choice/chooser.h"

enum { MOST_HINTS = 3 }; /* warps, occupancy, cluster */

/* Not where a choice has to depend on the launch alone, or the source is taken as it stands, as that of
 * copies is. */
bool chooses_programs(const tile_kernel *k)
{
    const tile_context *c = k->context;
    return !(c->flags & (TILE_CONTEXT_PINNED | TILE_CONTEXT_AS_DECLARED)) && !k->chooser && !k->copies &&
           search_lacks_block(k->front, k->bindings, k->n_bindings, c->target) && kernel_device_model(k);
}

/* Takes over the answer, which has hints alone. What the passes decide may be taken instead of it. */
static bool take(const SearchResult *r, FrontBinding *config, Choice *out)
{
    if (r->n > MOST_HINTS) return false;
    for (int i = 0; i < r->n; i++)
        config[i] = (FrontBinding){ hint_find(r->config[i].name)->name, r->config[i].value };
    *out = (Choice){ .config = config, .n = r->n, .ns = choice_ns(r->ns), .spilled = r->spilled };
    out->n_others = 1;
    out->other[0] = (SearchOther){ .ns = choice_ns(r->declared_ns), .spilled = r->spilled };
    return r->n > 0;
}

/* The search has a session of its own, because it is no failure of the launch if it lacks memory. Then it has
 * not ended: another process may find better, so the disk cache must not keep what is compiled. */
const Choice *choose_programs(
    tile_kernel *k, Session *s, const LaunchArgs *l, const uint64_t *key, bool *ended)
{
    Choice *choice = arena_new(&s->arena, Choice);
    FrontBinding *config = arena_array(&s->arena, FrontBinding, MOST_HINTS);
    Session own;
    SearchResult r;
    volatile bool found = false;
    *ended = false;
    session_init(&own, k->context->alloc);
    if (!setjmp(own.oom)) {
        const bool answered = ask_search(k, &own, l, key, &r);
        found = answered && take(&r, config, choice);
        *ended = !answered || !r.short_of_memory;
    }
    session_free(&own);
    return found ? choice : NULL;
}
