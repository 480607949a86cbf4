/* cost_taps.c: of cost: what a thread loads once of windows that lie side by side, as those of a stencil's
 * taps do. Where the registers of a thread lie beside each other along an axis, several taps ask for the same
 * vectors, and the vendor's compiler loads each of them once. */
#include "runtime/choice/cost/cost_walk.h"

enum { MOST_VECTORS = 1 << 11, VECTOR = 16, MOST_REGISTERS = 64, PROBES = 32 };

struct CostTaps {
    uint64_t seen[MOST_VECTORS]; /* 0: an unused entry */
};

static uint64_t mixed(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0xff51afd7ed558ccdull;
    return h ^ h >> 32;
}

/* Whether no load has brought the vector. */
static bool is_new(struct CostTaps *t, uint64_t key)
{
    uint64_t k = key % MOST_VECTORS;
    for (int n = 0; n < PROBES; n++, k = (k + 1) % MOST_VECTORS) {
        if (t->seen[k] == key) return false;
        if (t->seen[k]) continue;
        t->seen[k] = key;
        return true;
    }
    return true;
}

/* The place of the window's first element, and from one element to the next along each axis of the tile, in
 * bytes. False: it is not known. */
static bool find_places(
    const CostWalk *w, const Instr *load, const MemParts *m, int64_t *place, int64_t *pitch)
{
    const Param *p = &w->f->params[m->param];
    const Attr *e = ir_attr(load, ATTR_EXTENTS), *steps = ir_attr(load, ATTR_STEPS);
    int64_t size = dtype_bytes(p->type->dtype), dense = size;
    int axis = ir_result(load)->type->rank;
    *place = 0;
    if (!e || p->type->kind != TYPE_TENSOR) return false;
    for (int a = p->type->rank - 1; a >= 0; a--) {
        int64_t at, step = steps && a < steps->n && steps->v[a] > 0 ? steps->v[a] : 1;
        if (!m->idx[a] || m->idx[a]->type->kind != TYPE_SCALAR || !cost_as_int(w, m->idx[a], &at))
            return false;
        int64_t apart = w->env->strides ? w->env->strides[m->param][a] * size : dense;
        *place += at * apart;
        if (a < e->n && e->v[a] > 0 && --axis >= 0) pitch[axis] = step * apart;
        dense *= w->env->dims[p->dims[a]];
    }
    return axis == 0;
}

double cost_new_part(CostWalk *w, const Instr *load, const MemParts *m)
{
    const Type *t = ir_result(load)->type;
    int64_t place, pitch[TILE_MAX_RANK] = { 0 };
    if (t->kind != TYPE_TILE || !t->layout || !w->plan || !find_places(w, load, m, &place, pitch)) return 1;
    const Layout *l = layouts_get(&w->plan->layouts, t);
    int registers = l ? (int)layout_regs(l) : 0, fresh = 0, size = dtype_bytes(t->dtype);
    if (registers < 1 || registers > MOST_REGISTERS) return 1;
    if (!w->taps) w->taps = arena_new(&w->s->arena, struct CostTaps);
    uint64_t key = mixed(mixed(w->walk, (uint64_t)m->param), (uint64_t)(uintptr_t)load->block);
    for (int r = 0; r < registers; r++) {
        int32_t at[TILE_MAX_RANK];
        int64_t byte = place;
        layout_element(l, (uint32_t)r, 0, 0, 0, at);
        for (int a = 0; a < t->rank; a++) byte += at[a] * pitch[a];
        fresh += is_new(w->taps, mixed(key, (uint64_t)((byte + ((int64_t)1 << 40)) / VECTOR)) | 1);
    }
    double part = (double)fresh * VECTOR / (registers * size);
    return part < 1 ? part : 1;
}
