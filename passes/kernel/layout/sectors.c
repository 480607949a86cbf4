/* sectors.c: of layout: chooses the layouts in which loads and stores move whole sectors of memory. */
#include "passes/kernel/layout/groups.h"
#include "passes/kernel/layout/registers.h"
#include "passes/kernel/layout/windows.h"

/* The same of rows that are far apart, where those of the axes from `first` to `axis` follow each other. */
static int sector_use(const Layouter *c, const Layout *l, int first, int axis, int bytes, int width)
{
    LayoutVector v;
    int32_t at[TILE_MAX_RANK];
    enum { MOST_EXTENT = 1 << 16 }; /* of an axis, so that the number of a row is unique */
    int64_t seen[64 * 4], moved = 0;
    int n = 0, lanes = (int)layout_lanes(l), sector_bytes = c->p->target->sector_bytes;
    layout_vector(l, axis, (uint32_t)bytes, (uint32_t)width, 16, &v);
    for (int lane = 0; lane < lanes; lane++) {
        layout_element(l, 0, (uint32_t)lane, 0, 0, at);
        int64_t row = 0, along = 0;
        bool inside = true;
        for (int a = 0; a < l->rank; a++) {
            if (a >= first && a <= axis) along = along * l->tile[a] + at[a];
            else row = row * MOST_EXTENT + at[a];
            inside = inside && (first == axis || at[a] < l->tile[a]);
        }
        if (!inside) continue;
        moved += v.bytes;
        for (uint32_t b = 0; b < v.bytes || b == 0; b += (uint32_t)sector_bytes) {
            int64_t sector = row * (1 << 20) + (along * bytes + b) / sector_bytes;
            bool found = false;
            for (int k = 0; k < n; k++) found |= seen[k] == sector;
            if (!found && n < 256) seen[n++] = sector;
        }
    }
    int use = n ? (int)(moved * 100 / (sector_bytes * (int64_t)n)) : 0;
    return use > 100 ? 100 : use;
}

int layouter_sector_use(const Layouter *c, const Layout *l, int axis, int bytes, int width)
{ return sector_use(c, l, axis, axis, bytes, width); }

/* Whether lanes that have 16 bytes side by side store them at once: rows are aligned, or the vectors are
 * shifted. */
static bool stores_vectors(Layouter *c, const Instr *store, const Layout *l, int axis, int bytes)
{
    ShiftChain chain;
    if (kernel_access_bytes(c->f, store) >= 16) return true;
    return kernel_may_shift(c->f, c->p, store) &&
           kernel_shift_chain(&c->s->arena, l, axis, bytes, 16, &chain);
}

/* Wants operand k of the store in this layout, from where vectors are stored by words: elements that share a
 * word become neighbours, after the exchange between lanes, which moves whatever words there are. */
static void store_from(Layouter *c, Instr *store, int k, const Layout *l, int axis)
{
    int bytes = dtype_bytes(ir_operand(store, k)->type->dtype), in_word = bytes == 1 ? 2 : bytes == 2 ? 1 : 0;
    layouter_need(c, store, k, l);
    const Layout *words = layout_units_first(&c->s->arena, l, axis, in_word); /* 2^in_word share a word */
    if (!layout_equal(words, l)) layouter_need(c, store, k, words);
}

/* The rows of an accumulator are distributed in pairs over the lanes. Lanes exchange registers, so that each
 * stores 16 bytes at once. Narrower stores choose a layout of their own (layouter_fix_store). */
void layouter_store_layout(Layouter *c, Instr *i)
{
    MemParts m;
    int axis, unit = kernel_unit_axis(c->f, i, &axis);
    ir_mem_parts(i, &m);
    const Type *t = m.values[0]->type;
    const Param *p = &c->f->params[m.param];
    const Instr *made = m.values[0]->def;
    /* A transposed accumulator has whole sectors already (family.c). */
    if (made && made->op == OP_PERMUTE && kernel_same_registers(&c->s->arena, c->p, made)) return;
    if (t->kind != TYPE_TILE || !t->layout || axis < 0 || p->stride[unit] != 1 || p->align < 16) return;
    if (m.values[0]->id < c->n && group_is_one_by_one(group_of(c, m.values[0]))) return;
    int bytes = dtype_bytes(t->dtype);
    const Layout *l = layouts_get(&c->p->layouts, t), *v = layout_vectorize(&c->s->arena, l, axis, bytes, 16);
    if (!v || layout_equal(l, v) || !stores_vectors(c, i, v, axis, bytes)) return;
    if (layouter_sector_use(c, v, axis, bytes, 16) >= 90 && layout_convert_within(&c->s->arena, l, v, bytes))
        store_from(c, i, m.rank + 1, v, axis);
}

/* Whether the value has a layout from which a store by unaligned vectors costs less than one by element. */
static bool shift_pays(Layouter *c, const Instr *store, const Value *v, int axis)
{
    ShiftChain s;
    int heads = 0, by_element;
    if (!kernel_store_chain(&c->s->arena, layouts_get(&c->p->layouts, v->type), axis,
            dtype_bytes(v->type->dtype), kernel_plain_bytes(c->f, c->p, store), &s))
        return false;
    for (int k = 0; k < s.vectors; k++) heads += s.before[k] < 0;
    int cost = kernel_shift_cost(c->f, c->p, store, s.vectors / heads, s.width, &by_element);
    return cost <
           by_element +
               (s.vectors > heads
                       ? 12
                       : 0); /* and the conversion to a layout in which stored elements are side by side */
}

/* Whether rows of the tensor begin within sectors. */
static bool rows_within_sectors(const Layouter *c, const Param *p, int rank, int unit, int bytes)
{
    for (int a = 0; a < rank; a++) {
        if (a != unit && ir_row_step(c->f, p, a) * bytes % c->p->target->sector_bytes) return true;
    }
    return false;
}

/* The runs of bytes that follow each other in one access of a warp. */
static int runs_of(const Layout *l, int axis, int bytes, int width)
{
    LayoutVector v;
    int32_t first[LAYOUT_MAX_LANES][TILE_MAX_RANK];
    int runs = 0, lanes = (int)layout_lanes(l);
    layout_vector(l, axis, (uint32_t)bytes, (uint32_t)width, 16, &v);
    for (int lane = 0; lane < lanes; lane++) layout_element(l, 0, (uint32_t)lane, 0, 0, first[lane]);
    for (int lane = 0; lane < lanes; lane++) {
        bool continues = false;
        const int32_t before = first[lane][axis] - (int32_t)v.n;
        for (int k = 0; k < lanes && !continues; k++) {
            continues = first[k][axis] == before;
            for (int a = 0; a < l->rank && continues; a++)
                continues = a == axis || first[k][a] == first[lane][a];
        }
        runs += !continues;
    }
    return runs;
}

/* How the rows of a stored value lie in memory. */
typedef struct StoredRows {
    int first, axis;  /* the axes from `first` to the contiguous one follow each other */
    int bytes, width; /* of an element, and of a lane's access */
    bool within;      /* rows begin within sectors, and accesses are narrow */
} StoredRows;

/* The part of the bytes of all sectors, in percent, that an access of a warp stores. A run that begins
 * anywhere within a sector touches one more than its bytes fill, but for those that begin at its start. */
static int stored_use(const Layouter *c, const Layout *l, const StoredRows *r)
{
    const int axis = r->axis, bytes = r->bytes, width = r->width;
    int use = sector_use(c, l, r->first, axis, bytes, width), sector = c->p->target->sector_bytes;
    LayoutVector v;
    layout_vector(l, axis, (uint32_t)bytes, (uint32_t)width, 16, &v);
    int stored = (int)(v.bytes * layout_lanes(l));
    if (!r->within || !stored) return use;
    int more = runs_of(l, axis, bytes, width) * (sector - width);
    return 100 * stored / (100 * stored / (use > 0 ? use : 1) + more);
}

/* Wants the stored value in this layout. */
static void store_in(Layouter *c, Instr *store, const Value *v, const Layout *l)
{
    for (int k = 0; l && k < store->n_operands; k++)
        if (ir_operand(store, k) == v) layouter_need(c, store, k, l);
}

/* Beside cp.async producers, whose rings take shared memory, elements of a row at an odd address are brought
 * side by side by exchange. NULL: there is no such layout. */
static const Layout *exchanged_runs(Layouter *c, const Value *v, int axis, int bytes)
{
    ShiftChain chain;
    Arena *a = &c->s->arena;
    const Layout *wide = layout_vectorize(a, layouts_get(&c->p->layouts, v->type), axis, bytes, 16),
                 *runs = kernel_shift_runs(a, wide, axis);
    return runs && kernel_shift_chain(a, runs, axis, bytes, 16, &chain) ? runs : NULL;
}

/* A layout for accesses of `width` bytes that touch consecutive sectors of the axis. */
static const Layout *coalesced(Layouter *c, const Type *t, int axis, int width, int warps)
{
    int32_t tile[TILE_MAX_RANK], order[TILE_MAX_RANK], n = 0;
    order[n++] = axis;
    for (int a = t->rank - 1; a >= 0; a--)
        if (a != axis) order[n++] = a;
    for (int a = 0; a < t->rank; a++) tile[a] = (int32_t)t->shape[a];
    return layout_coalesced(
        &c->s->arena, t->rank, tile, order, dtype_bytes(t->dtype), width, c->p->target->wave, warps);
}

enum { GOOD_USE = 90 }; /* percent of the bytes of all sectors that are stored, which is enough */

/* A layout that uses sectors better than the value's own: a wider one by shuffles within the warp, if it is
 * good enough, or one through shared memory, if it is much better. NULL: there is none. */
static const Layout *better_stored(Layouter *c, const Type *t, const StoredRows *r)
{
    const Layout *l = layouts_get(&c->p->layouts, t);
    int now = stored_use(c, l, r), least = r->within ? now + now / 2 : 2 * now;
    if (now >= GOOD_USE) return NULL;
    const Layout *w = layout_vectorize(&c->s->arena, l, r->axis, r->bytes, r->width);
    if (w && w != l && stored_use(c, w, r) >= GOOD_USE) return w;
    if (layout_blocks(l) != 1) return NULL; /* CTAs of a cluster exchange nothing here */
    w = coalesced(c, t, r->axis, r->width, (int)layout_warps(l));
    return w && stored_use(c, w, r) >= least ? w : NULL;
}

/* The first axis of a tile of records, all of which it has behind that axis: they follow each other in
 * memory, unless a launch has other strides. The axis of a tile of other rows. */
static int first_of_records(const Layouter *c, const Instr *i, const MemParts *m, int axis)
{
    enum { MOST_BYTES = 256 }; /* of a record */
    const Type *t = m->values[0]->type;
    int outer = m->rank - t->rank;
    int64_t record = axis == t->rank - 1 && axis > 0 ? window_record(c->f, i, outer) : 0, inner = record;
    if (!record || record * dtype_bytes(t->dtype) > MOST_BYTES ||
        ir_attr(i, ATTR_EXTENTS)->v[outer] != t->shape[0])
        return axis;
    for (int a = 0; a < axis; inner /= t->shape[++a]) {
        int64_t stride = c->f->params[m->param].stride[outer + a];
        if (stride != inner && stride != FACT_UNKNOWN) return axis;
    }
    return 0;
}

/* Converts the value to a layout in which whole sectors are stored, if its own layout is poor for that. */
void layouter_fix_store(Layouter *c, Instr *i)
{
    MemParts m;
    int axis;
    ir_mem_parts(i, &m);
    Value *v = m.values[0];
    if (v->type->kind != TYPE_TILE || type_elements(v->type) < 256) return;
    /* Their accesses are whole words, wherever a row begins, or whole vectors. */
    if (kernel_row_start(c->f, c->p).bytes || kernel_row_block(c->f, c->p, i)) return;
    int unit = kernel_unit_axis(c->f, i, &axis), bytes = dtype_bytes(v->type->dtype),
        width = kernel_access_bytes(c->f, i);
    const Param *p = &c->f->params[m.param];
    const Attr *steps = ir_attr(i, ATTR_STEPS);
    if (axis < 0) return;
    if (group_is_odd(c, i, v, axis) && kernel_may_shift(c->f, c->p, i)) {
        if (shift_pays(c, i, v, axis)) return;
        const Layout *runs = c->p->cp_async_warps && width < 4 ? exchanged_runs(c, v, axis, bytes) : NULL;
        if (runs) {
            store_in(c, i, v, runs);
            return;
        }
    }
    int first = first_of_records(c, i, &m, axis);
    if ((v->type->shape[axis] * bytes < c->p->target->sector_bytes && first == axis) ||
        p->stride[unit] != 1 || (steps && steps->v[unit] != 1))
        return;
    /* Narrow rows that begin within sectors want long runs, which go through shared memory. */
    StoredRows r = { first, axis, bytes, width,
        first == axis && width < 16 && rows_within_sectors(c, p, m.rank, unit, bytes) };
    store_in(c, i, v, better_stored(c, v->type, &r));
}

/* A load in a layout in which lanes would read pieces of sectors is done in wide pieces, which are then
 * exchanged within warps. */
void layouter_fix_load(Layouter *c, Instr *i)
{
    int axis, width = kernel_access_bytes(c->f, i);
    Value *v = ir_result(i);
    kernel_unit_axis(c->f, i, &axis);
    if (v->type->kind != TYPE_TILE || !v->type->layout || axis < 0) return;
    if (kernel_row_block(c->f, c->p, i)) return;
    const Layout *beside = axis == v->type->rank - 1 ? group_beside_records(c, i) : NULL;
    if (beside) layouter_result_in(c, i, 0, beside);
    if (beside || width < 16 || type_elements(v->type) < 256) return;
    int bytes = dtype_bytes(v->type->dtype);
    const Layout *l = layouts_get(&c->p->layouts, v->type);
    if (v->type->shape[axis] * bytes < c->p->target->sector_bytes ||
        layouter_sector_use(c, l, axis, bytes, width) >= 90)
        return;
    const Layout *w = layout_vectorize(&c->s->arena, l, axis, bytes, width);
    if (w && !layout_equal(l, w) && layouter_sector_use(c, w, axis, bytes, width) >= 90 &&
        layout_convert_within(&c->s->arena, w, l, bytes))
        layouter_result_in(c, i, 0, w);
}
