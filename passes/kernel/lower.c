/* lower.c: the order of the kernel passes, and the size of a CTA. */
#include "passes/kernel/kernel.h"

typedef struct Sizes { int64_t product, tile; bool rows; } Sizes;

static void measure(void *user, Instr *i)
{
    Sizes *z = user;
    for (int k = 0; k < i->n_results; k++) {
        const Type *t = i->results[k].type;
        if (t->kind != TYPE_TILE || kernel_is_cheap(&i->results[k])) continue;
        int64_t n = type_elements(t);
        if (i->op == OP_MMA && n > z->product) z->product = n;
        if (n > z->tile) z->tile = n;
    }
}

/* Warps so that a thread holds about 64 accumulators of a product, or 16 elements of other tiles. */
static int choose_warps(const Func *f, const Target *t)
{
    Sizes z = { 0 };
    if (f->hints.warps > 0) return f->hints.warps;
    ir_walk(f->body, measure, &z);
    int64_t per = z.product ? z.product / (t->wave * 64) : z.tile / (t->wave * 16);
    int w = z.product ? 4 : 1;
    while (w < per && w < (z.product ? 8 : 32)) w *= 2;
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
