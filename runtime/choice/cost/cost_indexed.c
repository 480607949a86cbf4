/* cost_indexed.c: of cost: gathers, scatters and atomics. An element takes a sector of memory, unless
 * neighbours share it. */
#include "passes/kernel/gather/runs.h"
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

/* Bytes that one access of a warp reaches at a time, and that come from L2 at least; lanes of a warp, and of
 * a multiprocessor. */
enum { LINE = 128, SECTOR = 32, WARP = 32, LANES = 128 };

/* The axis of the tile along which elements of an indexed access lie side by side; -1: none. */
static int axis_of_rows(const Func *f, const MemParts *m, const Type *t)
{
    const Param *p = &f->params[m->param];
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        bool rows = true, counts = false;
        for (int a = 0; a < m->rank; a++) {
            bool unit = p->stride[a] == 1;
            counts |= unit;
            rows = rows && kernel_run(f, m->idx[a], axis, 2) & (unit ? RUN_COUNTS : RUN_EQUAL);
        }
        if (rows && counts) return axis;
    }
    return -1;
}

/* Lines beyond the least that a warp's first access reaches, whose lanes have `run` elements each along this
 * axis of the tile. */
static int lines_beyond(const Type *t, const Layout *l, int axis, int run)
{
    int32_t at[WARP][TILE_MAX_RANK] = { 0 };
    int n = 0, line = LINE / dtype_bytes(t->dtype), least = WARP * run * dtype_bytes(t->dtype) / LINE;
    for (uint32_t lane = 0; lane < WARP; lane++) {
        layout_element(l, 0, lane, 0, 0, at[n]);
        at[n][axis] /= line;
        int same = 0;
        while (same < n && memcmp(at[same], at[n], sizeof *at)) same++;
        n += same == n;
    }
    return n > least ? n - (least > 1 ? least : 1) : 0;
}

/* The layout by which an indexed access is divided among lanes, as the emitter takes it: a number that each
 * thread computes for itself has none, and then another tile of the access has it. */
static const Layout *layout_of_access(const CostWalk *w, const MemParts *m)
{
    const Value *tiles[TILE_MAX_RANK + 2] = { m->values[0], m->mask };
    for (int a = 0; a < m->rank; a++) tiles[2 + a] = m->idx[a];
    for (int k = 0; k < m->rank + 2; k++)
        if (tiles[k] && tiles[k]->type->layout) return layouts_get(&w->plan->layouts, tiles[k]->type);
    return NULL;
}

/* Lane operations of a lane's access: a warp's takes a cycle for each line beyond the first that it reaches,
 * in which the multiprocessor's lanes would compute. */
static double indexed_access(const CostWalk *w, const Instr *i, const MemParts *m, int run)
{
    if (i->op != OP_SCATTER || m->values[0]->type->kind != TYPE_TILE || !w->plan)
        return w->model->indexed_access;
    const Type *t = m->values[0]->type;
    const Layout *l = layout_of_access(w, m);
    int axis = axis_of_rows(w->f, m, t), beyond = WARP - 1;
    if (l && axis >= 0) beyond = lines_beyond(t, l, axis, run);
    return w->model->indexed_access + (l ? beyond : 0) * (double)LANES / WARP;
}

/* Whether the instruction changes one element, the same for all programs, under no condition. L2 does such
 * operations one after the other. */
static bool is_queued(const Instr *i, const MemParts *m)
{
    int64_t at;
    bool same = i->op == OP_ATOMIC_RMW || i->op == OP_ATOMIC_CAS;
    for (int a = 0; a < m->rank && same; a++) same = m->idx[a] && ir_is_const(m->idx[a], &at);
    for (const Block *b = i->block; same && b->parent; b = b->parent->block)
        same = b->parent->op != OP_IF || ir_is_rare(b->parent);
    return same;
}

/* Bytes of memory for an element of a gather: a sector, unless elements lie side by side along an axis,
 * wherever such a row begins. */
static double sector_bytes(const Func *f, const MemParts *m, const Type *t, double size)
{
    enum { ROW = 8 };
    for (int axis = t && t->kind == TYPE_TILE ? t->rank - 1 : -1; axis >= 0; axis--) {
        if (t->shape[axis] < ROW) continue;
        bool rows = true, counts = false;
        for (int a = 0; a < m->rank; a++) {
            bool unit = f->params[m->param].stride[a] == 1;
            counts |= unit;
            rows = rows && (unit ? kernel_counts_along(f, m->idx[a], axis, ROW)
                                 : kernel_run(f, m->idx[a], axis, ROW) & RUN_EQUAL);
        }
        if (rows && counts) return fmin(size + SECTOR / (double)t->shape[axis], fmax(size, SECTOR));
    }
    return fmax(size, SECTOR);
}

/* The elements of a tensor that an indexed access may reach, at most n: weights of channels, say, are
 * gathered for each element of these. */
static double places_of(CostWalk *w, const MemParts *m, double n)
{
    double places = 1;
    for (int a = 0; a < m->rank; a++) {
        const Instr *d = m->idx[a]->def;
        if (m->idx[a]->type->kind != TYPE_TILE || (d && d->op == OP_SPLAT)) continue;
        if (!w->ranges) w->ranges = ranges_new(w->f);
        RangeInfo at = range_of(w->ranges, m->idx[a]);
        places *= (double)at.hi - (double)at.lo + 1;
    }
    return fmin(places, n);
}

static void gather(CostWalk *w, const Instr *i, const MemParts *m, const Type *t, double n, double times)
{
    const double size = dtype_bytes(w->f->params[m->param].type->dtype), several = places_of(w, m, n);
    w->c.in += several * size * times;
    w->c.own += several * size * times;
    if (m->param < MOST_PARAMS) w->read[m->param] += several * sector_bytes(w->f, m, t, size) * times;
    w->c.fetched += several * size * times;
    w->c.ahead += several * size;
    cost_wait_for_it(w, i, times);
    cost_wait_for_data(w, times);
}

/* Lane operations for an element of a gather of which two accesses read all that neighbours have; 0: they may
 * have indices of their own. A choice is a comparison, which gathers of the same indices share, and what
 * takes the element. run: elements that one access reads otherwise. */
static double chosen_of_two(CostWalk *w, const Instr *i, const Type *t, int run)
{
    enum { CHOICE = 2, VECTOR = 16 };
    const int n = t && t->kind == TYPE_TILE ? VECTOR / dtype_bytes(ir_result(i)->type->dtype) : 1;
    if (i->op != OP_GATHER || n < 4 || n <= 2 * run) return 0;
    const GatherStep step = kernel_gather_step(w->f, &w->ranges, i, n);
    return step.by >= n ? CHOICE + 2.0 / n * w->model->indexed_access : 0;
}

void cost_indexed(CostWalk *w, const Instr *i, const MemParts *m, double times)
{
    const Type *t = m->rank && m->idx[0] ? m->idx[0]->type : NULL;
    const bool tile = t && t->kind == TYPE_TILE;
    const double n = tile ? (double)type_elements(t) : 1, lanes = tile ? cost_lanes(w, t) : 1,
                 bytes = n * dtype_bytes(w->f->params[m->param].type->dtype) * times;
    if (i->op == OP_GATHER) gather(w, i, m, t, n, times);
    else if (ir_attr_int(i, ATTR_GATHERED, 0) > 0) w->c.shared += bytes;
    else {
        cost_wrote(w, m->param, bytes);
        if (is_queued(i, m)) w->c.queued += n * times;
        else cost_crowded(w, i, m->param, n * times);
    }
    int axis, run = kernel_indexed_run(w->f, &w->ranges, i, &axis);
    if (run == 1) run = kernel_alike_run(w->f, &w->ranges, i, &axis);
    const double chosen = chosen_of_two(w, i, t, run);
    w->c.alu += chosen > 0 ? lanes * chosen * times : lanes / run * indexed_access(w, i, m, run) * times;
}
