/* cost_lines.c: of cost: the lines that an access of a warp reaches. The multiprocessor's own cache serves
 * one line in a cycle, in which its lanes would compute. */
#include "passes/kernel/layout/windows.h"
#include "runtime/choice/cost/cost_walk.h"

/* Bytes of a line; lanes of a warp, and of a multiprocessor. */
enum { LINE = 128, WARP = 32, LANES = 128 };

/* Bytes between neighbours along each axis of the tile that is loaded or stored; false: its axes are not
 * those of the window. */
static bool pitches_of(const CostWalk *w, const Instr *i, const Type *t, int64_t *pitch)
{
    MemParts m;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int axes = 0;
    if (!e || !ir_mem_parts(i, &m)) return false;
    const Param *p = &w->f->params[m.param];
    for (int a = 0; a < e->n; a++) axes += e->v[a] > 1;
    if (axes != t->rank || kernel_unit_axis(w->f, i, NULL) < 0) return false;
    int64_t own = dtype_bytes(p->type->dtype), size = own;
    for (int a = p->type->rank - 1; a >= 0; a--) {
        int axis = axes - 1;
        if (a < e->n && e->v[a] > 1) {
            axes--;
            if (i->op == OP_LOAD && (!window_tile_axis(i, a, &axis) || axis >= t->rank)) return false;
            pitch[axis] = w->env->strides ? w->env->strides[m.param][a] * size : own;
        }
        own *= w->env->dims[p->dims[a]];
    }
    return true;
}

/* Whether lanes load what the layout of the tile gives them: several rows, not by way of shared memory and
 * not by words of rows that begin anywhere. */
static bool in_lines(const CostWalk *w, const Instr *load)
{
    const Type *t = ir_result(load)->type;
    int axes = 0;
    for (int a = 0; t->kind == TYPE_TILE && a < t->rank; a++) axes += t->shape[a] > 1;
    return axes > 1 && w->plan && !kernel_row_block(w->f, w->plan, load) &&
           !kernel_row_start(w->f, w->plan).bytes;
}

/* Lane operations that a lane's access takes beside the access: as `indexed_access`. */
double cost_lines_beside(const CostWalk *w, const Instr *i, const MemParts *m)
{
    const Type *t = (m->result ? m->result : m->values[0])->type;
    int64_t pitch[TILE_MAX_RANK], line[WARP];
    int run = (int)ir_attr_int(i, ATTR_VECTOR, 1) * dtype_bytes(t->dtype), n = 0, least = WARP * run / LINE;
    if (i->op == OP_LOAD && !in_lines(w, i)) return 0;
    if (t->kind != TYPE_TILE || !w->plan || ir_attr_int(i, ATTR_BULK, 0)) return 0;
    if (i->op == OP_STORE && kernel_row_block(w->f, w->plan, i)) return 0;
    const Layout *l = layouts_get(&w->plan->layouts, t);
    if (!l || !pitches_of(w, i, t, pitch)) return 0;
    for (uint32_t lane = 0; lane < WARP; lane++) {
        int32_t at[TILE_MAX_RANK];
        int64_t place = 0;
        int same = 0;
        layout_element(l, 0, lane, 0, 0, at);
        for (int a = 0; a < t->rank; a++) place += at[a] * pitch[a];
        line[n] = place / LINE;
        while (same < n && line[same] != line[n]) same++;
        n += same == n;
    }
    return n > least ? (n - (least > 1 ? least : 1)) * (double)LANES / WARP : 0;
}
