/* dense-windows: windows that take every n-th element of a row become windows of all of its elements, of
 * which each lane keeps what it needs. A step of layout.
 *
 *   %a = load X[y, x] {steps = [1, 2]} : [64]       ->  %d = load X[y, x] : [128]
 *   %b = load X[y, x + 1] {steps = [1, 2]} : [64]       %e = reshape %d : [64, 2]
 *                                                       %a = reshape (slice %e {axis = 1, start = 0}) : [64]
 *                                                       %b = reshape (slice %e {axis = 1, start = 1}) : [64]
 *
 * Elements n apart are single accesses, and so are those of the window beside it, though both lie in the same
 * sectors. Windows of a block that are the same but for a constant along the row share the dense windows:
 * with n = 2 those at x and x + 1 have one, that at x - 1 has the one at x - 2, which sliding-windows makes
 * of aligned vectors.
 *
 * Proof. With c = q n + r and 0 <= r < n, element k of the window at x + c is X[x + c + n k], which is
 * element n k + r of the dense window at x + q n; in [T, n] it is at [k, r]. An element out of range has the
 * pad in both windows, because the dense one is masked.
 *
 * In registers. The layout of %d has n consecutive registers for each of %a (layout_widen), so that [T, n]
 * and what is taken of it are the same registers by other names.
 *
 * Requires: a tensor that the kernel only reads, whose rows have stride 1; n a power of two, within a sector;
 * fewer accesses than before, by the vectors that rows, offsets and layouts allow. Keeps: results. Does not
 * handle rows whose vectors could cross their end. */
#include "passes/kernel/layout/windows.h"
#include <string.h>

enum { MOST_LOADS = 128 };

/* A window of elements `step` apart, whose offset along the row is `base` + `constant`. */
typedef struct Strided {
    Instr *load;
    Value *base;
    int64_t constant;
    int unit, axis, step; /* the contiguous axis of the tensor and of the tile */
    bool taken;
} Strided;

/* A dense window, as [.., T, step, ..]. */
typedef struct Dense {
    const Strided *first; /* of the windows that it serves */
    int64_t at;           /* base + at */
    Value *tile;
} Dense;

typedef struct Densifier {
    Session *s;
    Func *f;
    KernelPlan *p;
    Ranges *ranges;
    VEC(Strided) strided;
    VEC(Dense) dense;
} Densifier;

static int64_t rest_of(const Strided *w)
{
    int64_t r = w->constant % w->step;
    return r < 0 ? r + w->step : r;
}

static int64_t dense_at(const Strided *w) { return w->constant - rest_of(w); }

static bool strided(const Func *f, const KernelPlan *p, Instr *i, Strided *w)
{
    MemParts m;
    const Attr *steps = ir_attr(i, ATTR_STEPS);
    if (kernel_skips(p, PASS_DENSE_WINDOWS) || i->op != OP_LOAD || !steps || kernel_kept(i) ||
        !ir_mem_parts(i, &m) || m.token || m.mask || m.result->type->kind != TYPE_TILE ||
        m.result->type->rank == TILE_MAX_RANK)
        return false;
    const Param *q = &f->params[m.param];
    DType d = m.result->type->dtype;
    *w = (Strided){ .load = i };
    w->unit = kernel_unit_axis(f, i, &w->axis);
    if (q->kind != PARAM_IN || w->axis < 0 || d == DT_BOOL || q->stride[w->unit] != 1) return false;
    for (int a = 0; a < m.rank; a++)
        if (m.idx[a]->type->kind != TYPE_SCALAR) return false;
    int64_t step = steps->v[w->unit];
    if (step < 2 || (step & (step - 1)) || step * dtype_bytes(d) > p->target->sector_bytes) return false;
    w->step = (int)step;
    w->base = window_offset_base(m.idx[w->unit], &w->constant);
    return true;
}

static void collect(void *user, Instr *i)
{
    Densifier *c = user;
    Strided w;
    if (c->strided.len < MOST_LOADS && strided(c->f, c->p, i, &w) && ir_result(i)->type->layout &&
        window_has_room(c->f, &c->ranges, ir_operand(i, 1 + w.unit)->type->dtype, w.base, w.constant, w.step))
        vec_push(&c->s->arena, &c->strided, w);
}

static bool share_rows(const Strided *a, const Strided *b)
{
    return a->load->block == b->load->block && a->unit == b->unit && a->base == b->base &&
           window_beside(a->load, b->load, a->unit);
}

/* The elements that a lane holds in consecutive registers of the dense window. */
static int run_of(const Densifier *c, const Strided *w)
{
    enum { MOST = 16 }; /* elements in a vector */
    const Type *t = ir_result(w->load)->type;
    int run = MOST / w->step;
    while (run > 1 && !window_has_runs(layouts_get(&c->p->layouts, t), w->axis, run)) run /= 2;
    return run * w->step;
}

/* The elements of a vector of the dense window at base + at, of which a lane has `run` side by side. Where
 * sliding-windows makes it of others, these begin at multiples of 16 bytes if the base does. */
static int64_t vector_of(const Func *f, const KernelPlan *p, const Strided *w, int64_t at, int run)
{
    enum { ANY = 1 << 20 };
    int bytes = dtype_bytes(ir_result(w->load)->type->dtype);
    int64_t divisor = w->base ? kernel_divisor(f, w->base) : ANY;
    bool slides = p->target->kind == TARGET_CUDA && !p->producer_warps && run * bytes >= 16 &&
                  !kernel_skips(p, PASS_SLIDING_WINDOWS);
    if (!slides) divisor = range_gcd(divisor, at);
    return range_gcd(kernel_row_access_bytes(f, w->load, divisor) / bytes, run);
}

int kernel_dense_bytes(const Func *f, const KernelPlan *p, Instr *load)
{
    Strided w;
    if (!strided(f, p, load, &w)) return 0;
    const Type *t = ir_result(load)->type;
    int bytes = dtype_bytes(t->dtype), most = 16 / bytes;
    int64_t run = range_gcd(t->shape[w.axis] * w.step, most);
    return (int)(vector_of(f, p, &w, dense_at(&w), (int)run) / w.step) * bytes;
}

/* Whether the dense windows that this window and those beside it share take fewer accesses than these, whose
 * elements are accessed one by one. Accesses are counted by the elements of a tile. */
static bool worth(const Densifier *c, const Strided *w)
{
    int64_t before = 0;
    double after = 0;
    for (size_t n = 0; n < c->strided.len; n++) {
        const Strided *x = &c->strided.data[n];
        if (!share_rows(w, x)) continue;
        before++;
        bool known = false;
        for (size_t k = 0; k < n && !known; k++)
            known = share_rows(w, &c->strided.data[k]) && dense_at(&c->strided.data[k]) == dense_at(x);
        if (!known) after += (double)w->step / (double)vector_of(c->f, c->p, w, dense_at(x), run_of(c, w));
    }
    return after < (double)before;
}

/* The same numbers but one, at `axis`. */
static Attr with(Arena *a, Attr list, int axis, int64_t number)
{
    int64_t *v = arena_array(a, int64_t, (size_t)list.n);
    memcpy(v, list.v, (size_t)list.n * sizeof *v);
    v[axis] = number;
    return a_ints(list.key, v, list.n);
}

static bool all_ones(Attr list)
{
    bool ones = true;
    for (int k = 0; k < list.n; k++) ones = ones && list.v[k] == 1;
    return ones;
}

/* The attributes of the dense load. It may reach beyond what was proven in range. */
static Attrs dense_attrs(Densifier *c, const Strided *w)
{
    const Instr *i = w->load;
    Attr *to = arena_array(&c->s->arena, Attr, (size_t)i->n_attrs);
    int n = 0;
    for (int k = 0; k < i->n_attrs; k++) {
        Attr a = i->attrs[k];
        if (a.key == ATTR_MASKED || a.key == ATTR_INSIDE || a.key == ATTR_ALIGN) continue;
        if (a.key == ATTR_EXTENTS) a = with(&c->s->arena, a, w->unit, a.v[w->unit] * w->step);
        if (a.key == ATTR_STEPS) a = with(&c->s->arena, a, w->unit, 1);
        if (a.key != ATTR_STEPS || !all_ones(a)) to[n++] = a;
    }
    return (Attrs){ to, n };
}

/* The dense window as [.., T, step, ..]; NULL: no layout has so many registers. */
static Value *dense_tile(Densifier *c, const Strided *w)
{
    for (size_t k = 0; k < c->dense.len; k++)
        if (c->dense.data[k].at == dense_at(w) && share_rows(c->dense.data[k].first, w))
            return c->dense.data[k].tile;
    Arena *a = &c->s->arena;
    LayoutTable *table = &c->p->layouts;
    const Type *t = ir_result(w->load)->type;
    int64_t whole[TILE_MAX_RANK], apart[TILE_MAX_RANK];
    int32_t extents[TILE_MAX_RANK];
    for (int d = 0; d < t->rank; d++) {
        whole[d] = t->shape[d] * (d == w->axis ? w->step : 1);
        apart[d + (d > w->axis)] = t->shape[d];
    }
    apart[w->axis + 1] = w->step;
    for (int d = 0; d <= t->rank; d++) extents[d] = (int32_t)apart[d];
    const Layout *wide = layout_widen(a, layouts_get(table, t), w->axis, __builtin_ctz((unsigned)w->step)),
                 *cut = wide ? layout_reshape(a, wide, t->rank + 1, extents) : NULL;
    if (!cut) return NULL;
    Builder b = ir_before(w->load);
    Value **operands = arena_array(a, Value *, (size_t)w->load->n_operands);
    for (int k = 0; k < w->load->n_operands; k++)
        operands[k] = k != 1 + w->unit
                          ? ir_operand(w->load, k)
                          : window_offset_at(&b, ir_operand(w->load, k)->type->dtype, w->base, dense_at(w));
    Value *dense = ir_emit(&b, OP_LOAD, operands, w->load->n_operands, dense_attrs(c, w),
        layouts_typed(table, type_tile(c->s, t->dtype, t->rank, whole), wide));
    dense = ir_op(&b, OP_RESHAPE, layouts_typed(table, type_tile(c->s, t->dtype, t->rank + 1, apart), cut),
        NO_ATTRS, dense);
    vec_push(a, &c->dense, ((Dense){ w, dense_at(w), dense }));
    return dense;
}

static bool take(Densifier *c, const Strided *w)
{
    const Type *t = ir_result(w->load)->type;
    const Layout *own = layout_expand(&c->s->arena, layouts_get(&c->p->layouts, t), w->axis + 1);
    Value *dense = own ? dense_tile(c, w) : NULL;
    if (!dense) return false;
    int64_t one[TILE_MAX_RANK];
    for (int d = 0; d < dense->type->rank; d++) one[d] = d == w->axis + 1 ? 1 : dense->type->shape[d];
    Builder b = ir_before(w->load);
    Value *v =
        ir_op(&b, OP_SLICE, layouts_typed(&c->p->layouts, type_tile(c->s, t->dtype, t->rank + 1, one), own),
            ATTRS(a_int(ATTR_AXIS, w->axis + 1), a_int(ATTR_START, rest_of(w))), dense);
    v = ir_op(&b, OP_RESHAPE, t, NO_ATTRS, v);
    ir_replace(ir_result(w->load), v);
    return true;
}

bool kernel_densify_windows(Session *s, Func *f, KernelPlan *p)
{
    Densifier c = { .s = s, .f = f, .p = p };
    ir_walk(f->body, collect, &c);
    for (size_t n = 0; n < c.strided.len; n++) c.strided.data[n].taken = worth(&c, &c.strided.data[n]);
    for (size_t n = 0; n < c.strided.len; n++)
        if (c.strided.data[n].taken) c.strided.data[n].taken = take(&c, &c.strided.data[n]);
    for (size_t n = 0; n < c.strided.len; n++)
        if (c.strided.data[n].taken) ir_erase(c.strided.data[n].load);
    return c.dense.len > 0;
}
