/* emit_access.c: records the accesses that the emitter writes, for access.h. */
#include "backends/gpu/emit.h"

static const LayoutVector single = { .n = 1 };

static void note(Emit *e, EmittedAccess a)
{
    a.instr = e->here;
    vec_push(&e->s->arena, &e->accesses, a);
}

void note_tensor(Emit *e, AccessWay way, bool write, const Window *w, const Layout *l, const LayoutVector *v)
{
    EmittedAccess a = { .way = way,
        .write = write,
        .param = w->param,
        .layout = l,
        .vector = v ? *v : single,
        .picked = w->picked,
        .masked = w->masked,
        .bytes = dtype_bytes(e->f->params[w->param].type->dtype) };
    for (int x = 0; x < TILE_MAX_RANK; x++) {
        bool is = x < w->rank;
        a.tile_axis[x] = is ? w->tile_axis[x] : -1;
        a.step[x] = is ? w->step[x] : 0;
        a.begins[x] = is && !(w->picked >> x & 1) ? kernel_divisor(e->f, w->offset[x]) : is;
    }
    note(e, a);
}

void note_wide(Emit *e, AccessWay way, bool write, const Window *w, const Layout *l, int bytes)
{
    int elem = dtype_bytes(e->f->params[w->param].type->dtype);
    LayoutVector v = { .n = (uint32_t)(bytes > elem ? bytes / elem : 1), .bytes = (uint32_t)bytes };
    for (uint32_t k = 0; k < v.n; k++) v.reg[k] = k;
    v.mask = v.n - 1;
    note_tensor(e, way, write, w, l, &v);
}

void note_indexed(Emit *e, bool write, int param, const Layout *l, const LayoutVector *v)
{
    EmittedAccess a = { .way = WAY_INDEXED,
        .write = write,
        .param = param,
        .layout = l,
        .vector = v ? *v : single,
        .masked = true,
        .bytes = dtype_bytes(e->f->params[param].type->dtype) };
    for (int x = 0; x < TILE_MAX_RANK; x++) a.tile_axis[x] = -1;
    note(e, a);
}

void note_vectors(Emit *e, bool write, const Layout *l, const LayoutShared *s, const LayoutVector *v)
{
    note(e, (EmittedAccess){ .way = WAY_SHARED,
                .write = write,
                .param = -1,
                .layout = l,
                .shared = s,
                .vector = v ? *v : single,
                .bytes = s->elem_bytes });
}

void note_exchanged(Emit *e, const Layout *l, const LayoutShared *s, uint32_t exchange, uint32_t other)
{
    note(e, (EmittedAccess){ .way = WAY_SHARED,
                .param = -1,
                .layout = l,
                .shared = s,
                .vector = single,
                .exchange = exchange,
                .other = other,
                .bytes = s->elem_bytes });
}

void note_matrix(Emit *e, const Layout *l, const LayoutShared *s, const LayoutMatrix *m)
{
    note(e, (EmittedAccess){ .way = WAY_MATRIX,
                .param = -1,
                .layout = l,
                .shared = s,
                .vector = single,
                .matrix = *m,
                .bytes = s->elem_bytes });
}

void note_unit(Emit *e, bool write, const LayoutShared *s, const Value *of)
{
    note(e, (EmittedAccess){ .way = WAY_UNIT,
                .write = write,
                .param = -1,
                .shared = s,
                .vector = single,
                .of = of,
                .bytes = s->elem_bytes });
}

void note_elements(Emit *e, bool write, const Layout *l, const Type *t, const int64_t *permute)
{
    int32_t order[TILE_MAX_RANK], tile[TILE_MAX_RANK];
    for (int a = 0; a < l->rank; a++) {
        order[l->rank - 1 - (permute ? permute[a] : a)] = a;
        tile[a] = (int32_t)t->shape[a];
    }
    const LayoutShared *s = layout_shared_rows(&e->s->arena, l->rank, tile, order, dtype_bytes(t->dtype), 0);
    if (s) note_vectors(e, write, l, s, NULL);
}
