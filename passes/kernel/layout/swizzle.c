/* swizzle: the tile in shared memory through which a conversion goes is swizzled, so that neither writing nor
 * reading it meets a bank conflict.
 *
 *   %y = convert %x      ->   %y = convert %x {swizzle = 1}
 *
 * Only conversions that go through shared memory are marked: those within a thread, and those that lanes of a
 * warp can exchange, have no such tile. Without the mark the tile is row-major. ir/layout/layout_convert.c
 * plans all of them, and the emitter asks when it writes the conversion. Requires: every conversion is there.
 * Keeps: everything. */
#include "passes/kernel/kernel.h"

/* In a warp role, shared memory is worth more as a stage of a ring, and a barrier would make warpgroups wait
 * for each other: what a warp can do among its lanes is done there (bench/notes/decisions.md, "Behind the
 * decisions"). Planned once for each pair of layouts: this pass and the emitter ask. */
static const LayoutConvert *way_of(Arena *a, KernelPlan *p, const Instr *convert)
{
    const Type *from = ir_operand(convert, 0)->type, *to = ir_result(convert)->type;
    const Layout *src = layouts_get(&p->layouts, from), *dst = layouts_get(&p->layouts, to);
    int bytes = dtype_bytes(from->dtype);
    bool in_role = kernel_in_role(convert);
    for (size_t i = 0; i < p->conversions.len; i++) {
        const KernelConversion *k = &p->conversions.data[i];
        if (k->src == src && k->dst == dst && k->bytes == bytes && k->in_role == in_role) return k->way;
    }
    const LayoutConvert *way = in_role ? layout_convert_within(a, src, dst, bytes) : NULL;
    if (!way) way = layout_convert(a, src, dst, bytes);
    vec_push(a, &p->conversions, ((KernelConversion){ src, dst, bytes, in_role, way }));
    return way;
}

const LayoutConvert *kernel_conversion(Arena *a, KernelPlan *p, const Instr *convert)
{
    const LayoutConvert *way = way_of(a, p, convert);
    if (!way || ir_attr_int(convert, ATTR_SWIZZLE, 0)) return way;
    return layout_convert_plain(a, way, dtype_bytes(ir_result(convert)->type->dtype));
}

typedef struct Swizzle {
    KernelContext *c;
    bool changed;
} Swizzle;

static void mark(void *user, Instr *i)
{
    Swizzle *s = user;
    if (i->op != OP_CONVERT) return;
    const LayoutConvert *way = way_of(&s->c->s->arena, s->c->p, i);
    if (!way || way->kind != LAYOUT_CONVERT_SHARED) return;
    ir_set_attr(s->c->s, i, a_int(ATTR_SWIZZLE, 1));
    s->changed = true;
}

bool kernel_pass_swizzle(KernelContext *c)
{
    Swizzle s = { .c = c };
    ir_walk(c->f->body, mark, &s);
    return s.changed;
}
