/* plan_steps.c: buffers, steps, and the lists of steps of blocks. */
#include "backends/cpu/plan/plan.h"

Buf *new_buf(Plan *p, Steps *home, DType d, int rank, const int64_t *shape)
{
    Buf *b = arena_new(p->arena, Buf);
    b->dtype = d;
    b->rank = rank;
    memcpy(b->shape, shape, (size_t)rank * sizeof *shape);
    b->bytes = dtype_bytes(d);
    for (int i = 0; i < rank; i++) b->bytes *= shape[i];
    b->home = home;
    b->first = -1;
    b->last = -1;
    b->id = p->n_bufs++;
    *p->bufs_end = b;
    p->bufs_end = &b->next;
    return b;
}

Buf *plan_value_buf(Plan *p, Value *v, Steps *home)
{
    ValInfo *i = plan_info(p, v);
    if (!i->buf) i->buf = new_buf(p, home, v->type->dtype, v->type->rank, v->type->shape);
    i->mode = TILE_BUFFER;
    return i->buf;
}

Steps *plan_steps(Plan *p, Block *b, Step *parent)
{
    Steps *s = arena_new(p->arena, Steps);
    s->block = b;
    s->end = &s->first;
    s->parent = parent;
    return s;
}

Step *plan_step(Plan *p, Steps *in, StepKind kind, Instr *i)
{
    Step *s = arena_new(p->arena, Step);
    s->kind = kind;
    s->instr = i;
    s->in = in;
    s->sinks_end = &s->sinks;
    return s;
}

Step *plan_append(Steps *in, Step *s)
{
    s->index = in->n++;
    *in->end = s;
    in->end = &s->next;
    in->last = s;
    return s;
}

Steps *plan_steps_of(Steps *in, const Block *b)
{
    while (in && in->block != b) in = in->parent ? in->parent->in : NULL;
    return in;
}
