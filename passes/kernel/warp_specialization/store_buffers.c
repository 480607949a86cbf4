/* store_buffers.c: shared memory for the buffers of stores by TMA (bulk_store.c): beside the rings, or, in
 * CTAs of one program, over the stages that all warps have read when the program ends. */
#include "passes/kernel/schedule/schedule.h"
#include "passes/kernel/warp_specialization/bulk_store.h"
#include "passes/kernel/warp_specialization/im2col.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* For the 16 rows of a warp: two boxes with rows of 128 bytes each. */
enum { BOX_ROW = 128, STAGED_BYTES = 2 * 16 * BOX_ROW };

static bool stores_a_tile(const void *user, const Instr *i)
{
    MemParts m;
    (void)user;
    return i->op == OP_STORE && ir_mem_parts(i, &m) && m.values[0]->type->kind == TYPE_TILE;
}

static bool scatters_pixels(const void *f, const Instr *i)
{
    Im2col pixels;
    return kernel_pixels_in_order(f, i, &pixels);
}

static bool adds_a_tile(const void *user, const Instr *i) { return ir_adds(i) && stores_a_tile(user, i); }

bool roles_adds_a_tile(const Roles *c) { return ir_any_in(c->f->body, adds_a_tile, NULL); }

/* The bytes of store buffers for whole rows of accumulators. They apply to one store of 16-bit accumulators
 * with five to eight boxes in a row, after steps of several products (merged windows). A buffer for each box
 * is worth more than a fourth stage there, because one fence then serves all boxes (emit_bulk.c;
 * bench/notes/decisions.md, "Behind the decisions"). 0: other boxes, several stores, or rings of cp.async
 * producers. */
static int64_t whole_rows_bytes(Roles *c, const InstrList *stores)
{
    MemParts m;
    if (!c->merged.len || stores->len != 1 || !ir_mem_parts(stores->data[0], &m)) return 0;
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].by_cp_async) return 0;
    const Type *t = m.values[0]->type;
    if (t->rank != 2 || t->shape[0] != c->rows || dtype_bytes(t->dtype) != 2) return 0;
    int64_t row = t->shape[1] * 2, span = row % 128 == 0 ? 128 : row % 64 == 0 ? 64 : 32;
    return row % span || row / span <= 4 || row / span > 8 ? 0 : c->rows * row;
}

/* Whether a transposed tile is stored, whose rows in memory are columns of the accumulators. Lanes hold pairs
 * along the accumulators' rows, so that bulk-store makes no boxes of it. */
static bool stores_transposed(const Func *f, const Instr *store)
{
    MemParts m;
    int unit = -1;
    if (!ir_mem_parts(store, &m)) return false;
    kernel_unit_axis(f, store, &unit);
    const Value *v = m.values[0];
    while (v->def && op_is_elementwise(v->def->op) && v->def->n_operands) v = ir_operand(v->def, 0);
    const Attr *order = v->def && v->def->op == OP_PERMUTE ? ir_attr(v->def, ATTR_ORDER) : NULL;
    return order && unit >= 0 && unit < order->n && order->v[unit] != order->n - 1;
}

int64_t roles_added_bytes(Roles *c)
{
    MemParts m;
    int64_t all = 0;
    InstrList stores = { 0 };
    ir_collect(&c->s->arena, c->f->body, OP_STORE, &stores);
    for (size_t k = 0; k < stores.len; k++) {
        if (!adds_a_tile(NULL, stores.data[k]) || !ir_mem_parts(stores.data[k], &m)) continue;
        const Type *t = m.values[0]->type;
        int64_t row = t->rank == 2 ? t->shape[1] * dtype_bytes(t->dtype) : 0;
        if (row % (c->consumers * BOX_ROW) == 0 && t->rank == 2 && all < t->shape[0] * row)
            all = t->shape[0] * row;
    }
    return all;
}

/* Reserves memory for bulk stores: two buffers for each warp, or those of a whole row, or the number in the
 * schedule. */
int64_t roles_store_bytes(Roles *c)
{
    InstrList stores = { 0 };
    ir_collect(&c->s->arena, c->f->body, OP_STORE, &stores);
    bool pixels = ir_any_in(c->f->body, scatters_pixels, c->f) && !kernel_skips(c->p, PASS_BULK_STORE);
    int64_t warps = c->by_columns && roles_added_bytes(c) ? 4 * c->consumers : c->rows / 16,
            one = warps * STAGED_BYTES, all = pixels ? one : 0;
    for (size_t k = 0; k < stores.len; k++) {
        if (!stores_a_tile(NULL, stores.data[k]) ||
            (c->p->cp_async_warps && kernel_access_bytes(c->f, stores.data[k]) < 16))
            continue; /* TMA cannot store rows at arbitrary addresses. */
        const Decision *d = schedule_asked_store(c->p, c->f, stores.data[k]);
        if (d && d->form == STORE_TMA) all += one / 2 * d->n[0];
        else if (!d && !kernel_skips(c->p, PASS_BULK_STORE)) {
            if (stores_transposed(c->f, stores.data[k])) continue;
            int64_t rows = whole_rows_bytes(c, &stores);
            if (all < one) all = one;
            if (all < rows) all = rows;
        }
    }
    return all;
}

static bool is_tile(const Value *v) { return v->type->kind == TYPE_TILE; }

/* Whether the load goes through a ring, before the store. */
static bool is_read_before(const Roles *c, const Instr *load, const Instr *store)
{
    for (size_t k = 0; k < c->loads.len; k++)
        if (c->loads.data[k] == load) return ir_comes_before(load, store);
    return false;
}

bool roles_store_may_lie_over(Roles *c)
{
    InstrList stores = { 0 }, loads = { 0 };
    MemParts m;
    const KernelPlan *p = c->p;
    if (p->persistent || p->shares || p->cluster > 1 || p->clusters > 1 || p->multicast || c->epilogue.len ||
        kernel_skips(p, PASS_BULK_STORE))
        return false;
    ir_collect(&c->s->arena, c->f->body, OP_STORE, &stores);
    ir_collect(&c->s->arena, c->f->body, OP_LOAD, &loads);
    ir_collect(&c->s->arena, c->f->body, OP_GATHER, &loads);
    if (stores.len != 1 || stores.data[0]->block != c->f->body || ir_adds(stores.data[0]) ||
        !ir_mem_parts(stores.data[0], &m) || !is_tile(m.values[0]) ||
        schedule_asked_store(c->p, c->f, stores.data[0]))
        return false;
    for (size_t k = 0; k < loads.len; k++)
        if (is_tile(ir_result(loads.data[k])) && !is_read_before(c, loads.data[k], stores.data[0]))
            return false;
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].by_cp_async) return false;
    return true;
}
