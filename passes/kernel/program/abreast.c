/* abreast.c: programs of one warp that share a CTA. A multiprocessor holds at most so many CTAs, which for
 * CTAs of one warp are half of the warps that it could hold, and it takes time to begin each of them.
 * Programs of one warp wait for no other warp, so that several of them can be the warps of one CTA: each
 * takes the program of its warp, and has its own part of the scratch memory. The text serves any number of
 * them, and the launch decides how many there are (gpu_abreast in runtime/drivers/gpu_facts.h), because few
 * programs are better spread over the multiprocessors. */
#include "passes/kernel/kernel.h"
#include "passes/kernel/schedule/live.h"

enum {
    MOST_ABREAST = 2,
    PROGRAMS = 48,  /* of a multiprocessor, for which the launch bounds leave 40 registers, */
    EASY_WORDS = 24 /* if no more words of a thread are in use at once */
};

/* Programs that wait for what one load after the other brings, and hold little, are to be many. Launch bounds
 * that ask for few programs mean to leave a thread registers. */
static void ask_for_many(Session *s, const Func *f, KernelPlan *p)
{
    if (p->min_ctas && p->min_ctas < p->target->sm_ctas) return;
    if (live_most_bytes(&s->arena, f) > (int64_t)4 * EASY_WORDS * p->target->wave) return;
    p->min_ctas = PROGRAMS;
    if (p->options.most_ctas && p->options.most_ctas < PROGRAMS) p->min_ctas = p->options.most_ctas;
}

static bool loops(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_FOR || i->op == OP_WHILE;
}

static bool keeps_apart(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_SHARED_ALLOC || op_family(i->op) == OPS_PRODUCT || kernel_kept(i);
}

bool kernel_pass_abreast(KernelContext *c)
{
    KernelPlan *p = c->p;
    const Func *f = c->f;
    bool divided = p->cluster > 1 || p->clusters > 1 || p->multicast > 1 || p->split_k || p->shares > 1;
    if (p->warps != 1 || c->specialized || p->persistent || divided || p->keeps_rows) return false;
    if (f->hints.occupancy || ir_waits_for_programs(f) || !ir_any_in(f->body, loops, NULL)) return false;
    if (ir_any_in(f->body, keeps_apart, NULL)) return false;
    p->abreast = MOST_ABREAST;
    ask_for_many(c->s, f, p);
    return true;
}
