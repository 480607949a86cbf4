/* emit_offset.c: splits byte offsets in shared memory into a part of the thread and constants of the place.
 */
#include "backends/gpu/memory/emit_offset.h"

void offset_table(Arena *a, OffsetTable *t, int n)
{ *t = (OffsetTable){ arena_array(a, int32_t, (size_t)n), arena_array(a, int32_t, (size_t)n), n }; }

void offset_table_set(OffsetTable *t, int k, uint32_t constant, uint32_t seen)
{
    t->flip[k] = (int32_t)(constant & seen);
    t->add[k] = (int32_t)(constant & ~seen);
}

bool offset_table_flips(const OffsetTable *t)
{
    for (int k = 0; k < t->n; k++)
        if (t->flip[k]) return true;
    return false;
}

bool offset_tables(
    Arena *a, const uint32_t *constants, uint32_t seen, int ni, int nk, OffsetTable *x, OffsetTable *y)
{
    offset_table(a, x, ni);
    offset_table(a, y, nk);
    for (int i = 0; i < ni; i++) offset_table_set(x, i, constants[i * nk], seen);
    for (int k = 0; k < nk; k++) offset_table_set(y, k, constants[k], seen);
    for (int i = 0; i < ni; i++)
        for (int k = 0; k < nk; k++) {
            uint32_t c = constants[i * nk + k];
            if ((uint32_t)(x->flip[i] ^ y->flip[k]) != (c & seen)) return false;
            if ((uint32_t)(x->add[i] + y->add[k]) != (c & ~seen)) return false;
        }
    return true;
}

bool offsets_split(Arena *a, PlaceFn *place, const void *user, int n, int threads, bool known,
    uint32_t *constants, uint32_t *seen)
{
    uint32_t *thread = arena_array(a, uint32_t, (size_t)threads);
    *seen = 0;
    for (int t = 0; t < threads; t++) *seen |= thread[t] = place(user, 0, t);
    constants[0] = 0;
    for (int r = 1; r < n; r++) {
        constants[r] = place(user, r, 0) ^ thread[0];
        for (int t = 1; t < threads && !known; t++)
            if (place(user, r, t) != (thread[t] ^ constants[r])) return false;
    }
    return true;
}

typedef struct RegisterPlace {
    const Layout *l;
    const LayoutShared *s;
    int lanes, every;
} RegisterPlace;

static uint32_t register_place(const void *user, int r, int t)
{
    const RegisterPlace *p = user;
    int32_t c[TILE_MAX_RANK];
    layout_element(p->l, (uint32_t)(r * p->every), (uint32_t)(t % p->lanes), (uint32_t)(t / p->lanes), 0, c);
    return layout_shared_offset(p->s, c);
}

bool linear_offsets(
    Emit *e, const Layout *l, const LayoutShared *s, int every, uint32_t **own, uint32_t *seen)
{
    Arena *a = &e->s->arena;
    int lanes = (int)layout_lanes(l), regs = (int)layout_regs(l), n = (regs + every - 1) / every;
    uint32_t *constants = arena_array(a, uint32_t, (size_t)n);
    RegisterPlace p = { l, s, lanes, every };
    for (int x = 0; x < l->rank; x++)
        if (l->cover[x] != l->tile[x]) return false;
    if (!offsets_split(a, register_place, &p, n, lanes * (int)layout_warps(l), layout_offsets_linear(l, s),
            constants, seen))
        return false;
    *own = arena_array(a, uint32_t, (size_t)regs);
    for (int k = 0; k < n; k++) (*own)[k * every] = constants[k];
    return true;
}

const char *linear_address(
    Emit *e, const char *origin, const uint32_t *own, uint32_t seen, int n, int every, Index *k)
{
    OffsetTable t;
    offset_table(&e->s->arena, &t, n);
    for (int r = 0; r < n; r++) offset_table_set(&t, r, own[r * every], seen);
    Index *flip = index_entry(e, t.flip, n, k);
    const char *add = index_text(e, index_entry(e, t.add, n, k));
    if (index_is(flip, 0)) return str(e, "%s + %s", origin, add);
    return str(e, "(%s ^ %s) + %s", origin, index_text(e, flip), add);
}

bool emit_many_places(const Emit *e, int n)
{
    enum { FEW_BESIDE_TILES = 8, FEW_PLACES = 32 };
    if (e->plan->producer_warps) return n > FEW_PLACES;
    bool in_loop = e->here && e->here->block != e->f->body;
    return !is_hip(e) && (in_loop || e->multiplies) && n > FEW_BESIDE_TILES;
}
