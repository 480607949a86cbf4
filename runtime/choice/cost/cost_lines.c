/* cost_lines.c: of cost: the lines that an access of a warp reaches, and the sectors that its stores write.
 * The multiprocessor's own cache serves one line in a cycle, in which its lanes would compute. */
#include "ir/analysis/range.h"
#include "passes/kernel/layout/windows.h"
#include "passes/kernel/warp_specialization/bulk_store.h"
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

/* Bytes of a line and of a vector; lanes of a warp, and of a multiprocessor. */
enum { LINE = 128, VECTOR = 16, WARP = 32, LANES = 128 };

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
    const bool each = i->op == OP_STORE && e->n == t->rank; /* axes of one element too */
    if (each) axes = t->rank;
    if (axes != t->rank || kernel_unit_axis(w->f, i, NULL) < 0) return false;
    int64_t own = dtype_bytes(p->type->dtype), size = own;
    for (int a = p->type->rank - 1; a >= 0; a--) {
        int axis = axes - 1;
        if (a < e->n && (each || e->v[a] > 1)) {
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
static double lines_beside(const CostWalk *w, const Instr *i, const MemParts *m)
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

/* Sectors that so many bytes take, in the mean over the multiples of `step` at which they may begin. */
static double sectors_of(int sector, int64_t bytes, int64_t step)
{
    double n = 0;
    for (int64_t at = 0; at < sector; at += step) n += (double)((at + bytes + sector - 1) / sector);
    return n * (double)step / sector;
}

/* The bytes of the sectors that a tile takes to its own, where TMA stores it: boxes that overlap write some
 * of it twice, and the rows of boxes may begin within a sector. What has less than two sectors takes as long.
 */
static double boxes_written(const CostWalk *w, const Instr *store, const Layout *l, int unit, int64_t step)
{
    BulkBoxes b;
    if (unit < 0 || !kernel_store_boxes(&w->s->arena, l, store, unit, &b)) return 1;
    const int sector = w->plan->target->sector_bytes;
    double twice = 2.0 * b.n * b.pairs / layout_regs(l), sectors = sectors_of(sector, b.row_bytes, step);
    return twice * fmax(2, sectors) * sector / b.row_bytes;
}

/* The same of what one access of each lane of a warp stores: so many bytes at each of these places, in order,
 * wherever the rows begin. */
static double lanes_written(int sector, const int64_t *place, int n, int64_t run, int64_t step)
{
    double sectors = 0, bytes = 0;
    for (int64_t begin = 0; begin < sector; begin += step) {
        int64_t next = 0; /* the first sector that is not counted yet */
        for (int k = 0; k < n; k++) {
            int64_t at = begin + place[k] - place[0]; /* rows that run backwards have places below 0 */
            int64_t first = at / sector, last = (at + run - 1) / sector;
            if (first < next) first = next;
            if (last < first) continue;
            sectors += (double)(last - first + 1);
            next = last + 1;
        }
    }
    for (int k = 0; k < n; k++) bytes += k && place[k] == place[k - 1] ? 0 : (double)run;
    return sectors * (double)step / bytes;
}

/* Where the lanes of the first warp have the first register, in order. */
static int places_of(const Layout *l, const int64_t *pitch, int rank, int64_t *place)
{
    int n = 0;
    for (uint32_t lane = 0; lane < WARP && lane < layout_lanes(l); lane++) {
        int32_t at[TILE_MAX_RANK];
        int64_t p = 0;
        int k = n++;
        layout_element(l, 0, lane, 0, 0, at);
        for (int a = 0; a < rank; a++) p += at[a] * pitch[a];
        for (; k && place[k - 1] > p; k--) place[k] = place[k - 1];
        place[k] = p;
    }
    return n;
}

/* Bytes at whose multiples the rows of a tensor begin, up to a sector. */
static int64_t step_of(const CostWalk *w, int param, int unit, int64_t tile)
{
    const Param *p = &w->f->params[param];
    int64_t size = dtype_bytes(p->type->dtype), pitch = size,
            step = range_gcd(w->plan->target->sector_bytes, tile * size);
    for (int a = p->type->rank - 1; a >= 0; a--) {
        int64_t stride = w->env->strides ? w->env->strides[param][a] * size : pitch;
        pitch *= w->env->dims[p->dims[a]];
        if (a != unit && w->env->dims[p->dims[a]] > 1) step = range_gcd(step, stride);
    }
    return step > 0 ? step : 1;
}

static double sectors_written(const CostWalk *w, const Instr *i, const MemParts *m)
{
    const Type *t = m->values[0]->type;
    int64_t pitch[TILE_MAX_RANK], place[WARP];
    int unit = -1, of = kernel_unit_axis(w->f, i, &unit), size = dtype_bytes(t->dtype);
    if (t->kind != TYPE_TILE || !w->plan || of < 0 || unit < 0 || unit >= t->rank) return 1;
    if (kernel_row_block(w->f, w->plan, i)) return 1;
    const Layout *l = layouts_get(&w->plan->layouts, t);
    int64_t step = step_of(w, m->param, of, t->shape[unit]);
    if (l && ir_attr_int(i, ATTR_BULK, 0)) return boxes_written(w, i, l, unit, step);
    if (!l || i->op != OP_STORE || !pitches_of(w, i, t, pitch)) return 1;
    int64_t run = ir_attr_int(i, ATTR_SHIFTED, 0) ? VECTOR : ir_attr_int(i, ATTR_VECTOR, 1) * size;
    const int n = places_of(l, pitch, t->rank, place);
    return lanes_written(w->plan->target->sector_bytes, place, n, run, step);
}

double cost_sectors_parted(const CostWalk *w, const Instr *i, const MemParts *m)
{
    const Type *t = m->values[0]->type;
    int unit = -1, of = kernel_unit_axis(w->f, i, &unit);
    if (t->kind != TYPE_TILE || !w->plan || of < 0 || unit < 0 || unit >= t->rank) return 0;
    const double sector = w->plan->target->sector_bytes;
    return 2 * (1 - (double)step_of(w, m->param, of, t->shape[unit]) / sector);
}

/* What layouts and extents say of an access, whatever program does it: the walks of a kernel share it. */
typedef struct AccessLines {
    const Instr *i; /* NULL: nothing is known */
    bool has_beside, has_written;
    double beside, written;
} AccessLines;
enum { ACCESSES = 64 };
struct CostLines {
    AccessLines of[ACCESSES];
};

/* The place of the access, which another one may have to leave. */
static AccessLines *lines_of(const CostWalk *w, const Instr *i)
{
    if (!*w->access_lines) *w->access_lines = arena_new(&w->s->arena, struct CostLines);
    AccessLines *x = &(*w->access_lines)->of[(uintptr_t)i / sizeof(Instr) % ACCESSES];
    if (x->i != i) *x = (AccessLines){ .i = i };
    return x;
}

double cost_lines_beside(const CostWalk *w, const Instr *i, const MemParts *m)
{
    AccessLines *x = lines_of(w, i);
    if (!x->has_beside) x->beside = lines_beside(w, i, m);
    x->has_beside = true;
    return x->beside;
}

double cost_sectors_written(const CostWalk *w, const Instr *i, const MemParts *m)
{
    AccessLines *x = lines_of(w, i);
    if (!x->has_written) x->written = sectors_written(w, i, m);
    x->has_written = true;
    return x->written;
}
