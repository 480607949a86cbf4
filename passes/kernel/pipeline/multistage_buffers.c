/* multistage_buffers.c: of multistage: the layouts of staged tiles in shared memory, and where they are.
 * Buffers of loops that follow each other share their space. */
#include "passes/kernel/pipeline/multistage.h"

const Type *stage_buffer_type(Staging *c, const Instr *load, int64_t stages)
{
    const Type *t = ir_result(load)->type;
    int axis;
    if (stage_amd(c)) {
        StageWay w;
        stage_way(c, load, &w);
        const LayoutShared *s = lds_layout(&c->s->arena, c->p->target->lds, w.tile, w.inner,
            dtype_bytes(t->dtype), w.writer, w.reader, NULL);
        return type_shared(c->s, t->dtype, 3, (int64_t[]){ stages, w.tile[0], w.tile[1] },
            layouts_shared_text(&c->p->layouts, s));
    }
    kernel_unit_axis(c->f, load, &axis);
    axis -= t->rank - 2;
    t = stage_matrix_of(load)->type;
    int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] }, order[2];
    order[0] = axis < 0 ? 1 : axis;
    order[1] = 1 - order[0];
    const LayoutShared *s = NULL;
    int bytes = dtype_bytes(t->dtype);
    for (int span = 128; span >= 32 && !s; span /= 2)
        if ((int64_t)tile[order[0]] * bytes % span == 0)
            s = layout_shared_swizzled(&c->s->arena, 2, tile, order, bytes, span);
    if (!s)
        s = layout_shared_rows(
            &c->s->arena, 2, tile, order, bytes, 16 - (int)((int64_t)tile[order[0]] * bytes % 16) % 16);
    if (!s) ir_fail(c->s, load->loc, "no shared layout for %s", type_string(c->s, t));
    int64_t shape[3] = { stages, tile[0], tile[1] };
    return type_shared(c->s, t->dtype, 3, shape, layouts_shared_text(&c->p->layouts, s));
}

int64_t stage_stage_bytes(Staging *c, const Type *t)
{
    const LayoutShared *s = layouts_shared(&c->p->layouts, t);
    int64_t align = s->align > 128 ? s->align : 128;
    return ((int64_t)s->bytes + align - 1) / align * align;
}

/* The instruction of the function's body that holds block b; NULL for the body. */
static const Instr *top_of(const Staging *c, const Block *b)
{
    const Instr *top = NULL;
    for (; b != c->f->body; b = top->block) top = b->parent;
    return top;
}

static int64_t *region(Staging *c, const Block *b)
{
    const Instr *holder = top_of(c, b);
    if (!holder) return &c->common;
    const Block *top = holder->blocks[0];
    for (size_t k = 0; k < c->regions.len; k++)
        if (c->regions.data[k].top == top) return &c->regions.data[k].bytes;
    vec_push(&c->s->arena, &c->regions, ((Region){ top, 0 }));
    return &c->regions.data[c->regions.len - 1].bytes;
}

int64_t stage_bytes_before(Staging *c, const Block *b)
{ return top_of(c, b) ? c->common + *region(c, b) : c->common; }

enum { BUFFER_ALIGN = 1024 }; /* the alignment that the widest swizzle requires of a tile */

Value *stage_allocate(Staging *c, Builder *b, const Block *home, const Type *t)
{
    int64_t at = (stage_bytes_before(c, home) + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
    *region(c, home) += at - stage_bytes_before(c, home) + stage_stage_bytes(c, t) * t->shape[0];
    return ir_emit(b, OP_SHARED_ALLOC, NULL, 0, ATTRS(a_int(ATTR_OFFSET, at)), t);
}

static bool comes_before(const Instr *a, const Instr *b)
{
    for (; a; a = a->next)
        if (a == b) return true;
    return false;
}

/* The buffer of a load of the same block whose last read comes before this load starts, if there is no room
 * for both. */
static Value *reuse(Staging *c, const Instr *load, const Type *t)
{
    if (stage_bytes_before(c, load->block) + BUFFER_ALIGN + stage_stage_bytes(c, t) <= c->limit) return NULL;
    for (size_t k = 0; k < c->singles.len; k++) {
        Single *s = &c->singles.data[k];
        if (s->block == load->block && s->bytes >= stage_stage_bytes(c, t) && s->last != load &&
            comes_before(s->last, load)) {
            s->bytes = 0;
            return s->buffer;
        }
    }
    return NULL;
}

/* The last instruction of the block that reads the tile, perhaps with its axes exchanged. */
static void note_last(Single *s, const Value *tile)
{
    for (const Use *u = tile->uses; u; u = u->next) {
        const Instr *i = ir_within(s->block, u->user);
        if (u->user->op == OP_PERMUTE) note_last(s, ir_result(u->user));
        if (!s->last || comes_before(s->last, i)) s->last = i;
    }
}

Value *stage_single_buffer(Staging *c, Builder *b, Instr *load)
{
    const Type *t = stage_buffer_type(c, load, 1);
    Value *old = reuse(c, load, t), *buf;
    if (old)
        buf = ir_emit(
            b, OP_SHARED_ALLOC, NULL, 0, ATTRS(a_int(ATTR_OFFSET, ir_attr_int(old->def, ATTR_OFFSET, 0))), t);
    else buf = stage_allocate(c, b, load->block, t);
    Single s = { load->block, NULL, buf, stage_stage_bytes(c, t) };
    note_last(&s, stage_matrix_of(load));
    vec_push(&c->s->arena, &c->singles, s);
    return buf;
}
