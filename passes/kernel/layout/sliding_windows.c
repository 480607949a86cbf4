/* sliding-windows: windows that lie a few elements beside each other, as those of a stencil, are made of
 * aligned vectors in registers. A step of layout.
 *
 *   %w = load X[y, x - 1]     ->   %l = load X[y, x - 4]; %m = load X[y, x]; %r = load X[y, x + 4]
 *   %e = load X[y, x + 1]          %w = slide %l, %m {start = 3}; %e = slide %m, %r {start = 1}
 *
 * with x a multiple of 16 bytes and f32. A lane has runs of 16 bytes, so that the elements of a run of %w are
 * the last of the same run of %l and the first of that of %m, all in one lane: `slide` moves registers, or
 * takes bytes of two words. All windows of a row share the aligned loads.
 *
 * Proof. With n elements in 16 bytes and an offset x + c, where c = q n + s and 0 < s < n, element k of the
 * window is X[x + c + k]. Let j = k mod n. If j + s < n, it is element k + s of the window at x + q n, else
 * element k + s - n of that at x + (q + 1) n; both are in the run that k is in, as the tile has whole runs.
 * An element out of range has the pad in each of these windows, because they are masked.
 *
 * Requires: CUDA; a tensor that the kernel only reads, rows of stride 1 at multiples of 16 bytes, an offset
 * that is a multiple of 16 bytes and a constant; layouts in which each lane has runs of 16 bytes, or of 8 or
 * 4 where it has no longer ones, as of bytes that become floats. Keeps: results. Does not handle rows at
 * other addresses (unaligned_vectors.c), nor windows that overlap along other axes: lanes have neighbouring
 * rows then (`near` in groups.h), whose loads are equal. */
#include "passes/kernel/layout/windows.h"

/* A window whose offset along the contiguous axis is `base` + `constant`, with `base` a multiple of 16 bytes;
 * NULL: 0. */
typedef struct Sliding {
    MemParts m;
    Value *base;
    int64_t constant;
    int unit, axis, run; /* the contiguous axis of the tensor and of the tile, the elements of a run */
} Sliding;

static bool sliding(const Func *f, const KernelPlan *p, const Instr *load, Sliding *w)
{
    enum { ANY = 1 << 20 };
    if (p->target->kind != TARGET_CUDA || p->producer_warps || kernel_skips(p, PASS_SLIDING_WINDOWS) ||
        load->op != OP_LOAD || !ir_mem_parts(load, &w->m) || w->m.token || w->m.mask ||
        w->m.result->type->kind != TYPE_TILE)
        return false;
    const Param *q = &f->params[w->m.param];
    const Type *t = w->m.result->type;
    const Attr *steps = ir_attr(load, ATTR_STEPS);
    w->unit = kernel_unit_axis(f, load, &w->axis);
    if (q->kind != PARAM_IN || w->axis < 0 || t->dtype == DT_BOOL || q->stride[w->unit] != 1 ||
        (steps && steps->v[w->unit] != 1))
        return false;
    for (int a = 0; a < w->m.rank; a++)
        if (w->m.idx[a]->type->kind != TYPE_SCALAR) return false;
    w->run = 16 / dtype_bytes(t->dtype);
    w->base = window_offset_base(w->m.idx[w->unit], &w->constant);
    int64_t divisor = w->base ? kernel_divisor(f, w->base) : ANY;
    return w->run > 1 && t->shape[w->axis] % w->run == 0 &&
           kernel_access_bytes_at(f, load, &divisor, true) == 16;
}

/* The elements by which it lies behind a multiple of 16 bytes. */
static int start_of(const Sliding *w)
{
    int64_t s = w->constant % w->run;
    return (int)(s < 0 ? s + w->run : s);
}

bool kernel_slides(const Func *f, const KernelPlan *p, const Instr *load)
{
    Sliding w;
    return sliding(f, p, load, &w) && start_of(&w);
}

typedef struct Aligned {
    Instr *load;
    Sliding w;
} Aligned;

typedef struct Slider {
    Session *s;
    Func *f;
    KernelPlan *p;
    Ranges *ranges;
    const Block *block; /* whose aligned loads are known */
    VEC(Aligned) known;
    int slid;
} Slider;

static Instr *known_at(const Slider *c, const Instr *load, const Sliding *w, int64_t at)
{
    for (size_t k = 0; k < c->known.len; k++)
        if (c->known.data[k].w.constant == at && c->known.data[k].w.base == w->base &&
            window_beside(c->known.data[k].load, load, w->unit))
            return c->known.data[k].load;
    return NULL;
}

/* Whether rows have whole runs: if an element is in range, the run that has it is so, too. */
static bool whole_runs(const Func *f, const Sliding *w)
{
    const Dim *d = &f->dims[f->params[w->m.param].dims[w->unit]];
    return (d->extent > 0 ? d->extent : d->div) % w->run == 0 && (d->extent > 0 || d->div > 0);
}

static Value *aligned_at(Slider *c, Instr *load, const Sliding *w, int64_t at)
{
    Instr *i = known_at(c, load, w, at);
    if (i) return ir_result(i);
    Builder b = ir_before(load);
    const Type *t = ir_result(load)->type;
    Value **operands = arena_array(&c->s->arena, Value *, (size_t)load->n_operands);
    for (int k = 0; k < load->n_operands; k++)
        operands[k] = k != 1 + w->unit ? ir_operand(load, k)
                                       : window_offset_at(&b, ir_operand(load, k)->type->dtype, w->base, at);
    i = ir_build(&b, OP_LOAD, operands, load->n_operands, (Attrs){ load->attrs, load->n_attrs }, &t, 1);
    if (!whole_runs(c->f, w)) ir_unprove(c->s, i); /* it may reach beyond what was proven in range */
    ir_del_attr(i, ATTR_ALIGN);
    Aligned a = { .load = i, .w = *w };
    a.w.constant = at;
    vec_push(&c->s->arena, &c->known, a);
    return ir_result(i);
}

static bool has_room(Slider *c, const Sliding *w)
{
    return window_has_room(
        c->f, &c->ranges, w->m.idx[w->unit]->type->dtype, w->base, w->constant, 2 * w->run);
}

/* Finds the longest runs that each lane has: of 16 bytes, and of elements of 8 and 16 bits also shorter ones
 * of whole words; false: it has none. */
static bool find_runs(Slider *c, Sliding *w)
{
    const Layout *l = layouts_get(&c->p->layouts, w->m.result->type);
    int word = 4 / dtype_bytes(w->m.result->type->dtype), least = word > 1 ? word : w->run;
    while (w->run >= least && !window_has_runs(l, w->axis, w->run)) w->run /= 2;
    return w->run >= least;
}

static void slide(void *user, Instr *i)
{
    Slider *c = user;
    Sliding w;
    if (c->block != i->block) c->known.len = 0;
    c->block = i->block;
    if (!sliding(c->f, c->p, i, &w) || !w.m.result->type->layout || !find_runs(c, &w)) return;
    int start = start_of(&w);
    if (!start) {
        Instr *same = known_at(c, i, &w, w.constant);
        if (same) {
            ir_replace(ir_result(i), ir_result(same));
            ir_erase(i);
        } else vec_push(&c->s->arena, &c->known, ((Aligned){ .load = i, .w = w }));
        return;
    }
    const Type *t = w.m.result->type;
    if (!has_room(c, &w)) return;
    Value *from = aligned_at(c, i, &w, w.constant - start),
          *to = aligned_at(c, i, &w, w.constant - start + w.run);
    Builder b = ir_before(i);
    Value *v = ir_op(&b, OP_SLIDE, NULL, ATTRS(a_int(ATTR_AXIS, w.axis), a_int(ATTR_START, start)), from, to);
    if (w.run * dtype_bytes(t->dtype) != 16) ir_set_attr(c->s, v->def, a_int(ATTR_COUNT, w.run));
    ir_replace(ir_result(i), v);
    ir_erase(i);
    c->slid++;
}

bool kernel_slide_windows(Session *s, Func *f, KernelPlan *p)
{
    Slider c = { .s = s, .f = f, .p = p };
    ir_walk(f->body, slide, &c);
    return c.slid > 0;
}
