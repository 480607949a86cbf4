/* lower.c: the order of the kernel passes, and the size of a CTA. */
#include "passes/kernel/kernel.h"

typedef struct Sizes {
    const Func *f;
    const Block *block;             /* where products were counted last */
    int64_t here, products;         /* accumulators: of this block; of the block that has most */
    int64_t tile, bytes;            /* elements of the largest tile, bytes of the largest access */
    bool rows, strided;
} Sizes;

static void measure(void *user, Instr *i)
{
    Sizes *z = user;
    MemParts m;
    for (int k = 0; k < i->n_results; k++) {
        const Type *t = i->results[k].type;
        if (t->kind != TYPE_TILE || kernel_is_cheap(&i->results[k])) continue;
        if (type_elements(t) > z->tile) z->tile = type_elements(t);
    }
    if (i->op == OP_MMA) {
        if (z->block != i->block) z->here = 0;
        z->block = i->block;
        z->here += type_elements(ir_result(i)->type);
        if (z->here > z->products) z->products = z->here;
    }
    if (i->op >= OP_REDUCE_SUM && i->op <= OP_TOPK) z->rows = true;
    if ((i->op == OP_LOAD || i->op == OP_STORE) && ir_mem_parts(i, &m)) {
        const Type *t = (m.result ? m.result : m.values[0])->type;
        const Attr *steps = ir_attr(i, ATTR_STEPS);
        int unit = kernel_unit_axis(z->f, i, NULL);
        if (t->kind != TYPE_TILE) return;
        if (type_elements(t) * dtype_bytes(t->dtype) > z->bytes) z->bytes = type_elements(t) * dtype_bytes(t->dtype);
        if (steps && unit >= 0 && steps->v[unit] != 1) z->strided = true;
    }
}

/* Warps so that a thread holds about 64 accumulators of products; or 64 bytes of a row that is reduced (loads in flight hide the latency that a
 * barrier exposes), 32 bytes else; or few elements where an access cannot be wide. */
static int choose_warps(const Func *f, const Target *t)
{
    Sizes z = { .f = f };
    int64_t per;
    if (f->hints.warps > 0) return f->hints.warps;
    ir_walk(f->body, measure, &z);
    if (z.products) per = z.products / (t->wave * 64);
    else if (z.strided) per = z.tile / (t->wave * 2);
    else {
        per = (z.bytes + t->wave * (z.rows ? 64 : 32) - 1) / (t->wave * (z.rows ? 64 : 32));
        if (z.tile / (t->wave * 32) > per) per = z.tile / (t->wave * 32);      /* gathers, tables: no access says how much */
    }
    int w = z.products ? 4 : 1, most = z.products ? 8 : z.strided ? 4 : 32;
    while (w < per && w < most) w *= 2;
    return w * t->wave > 1024 ? 1024 / t->wave : w;
}

bool kernel_lower(Session *s, Func *f, const Target *t, const KernelOptions *o, KernelPlan *p)
{
    int errors = s->n_errors;
    *p = (KernelPlan){ .target = t, .layouts = { .session = s } };
    if (o) p->options = *o;
    p->warps = p->options.warps ? p->options.warps : choose_warps(f, t);
    p->min_ctas = f->hints.occupancy;
    kernel_program(s, f, p);
    kernel_mma_select(s, f, p);
    kernel_reciprocal(s, f);
    kernel_mask_branch(s, f);
    if (!(target_has(t, TF_TMA | TF_WGMMA) && !p->options.no_roles && kernel_roles(s, f, p))) kernel_stage(s, f, p);
    kernel_layout(s, f, p);
    return s->n_errors == errors;
}
