/* emit_cluster.c: CTAs of a cluster that load together (passes/kernel/cluster/multicast.c).
 *
 * A ring that they fill together has in each of them the same stages at the same addresses. Each producer
 * waits until the consumers of all CTAs have given the stage back (its own empty mbarrier counts the arrivals
 * of all), tells its full mbarrier to expect the whole tile, and sends its part to all. A part may come
 * before its receiver expects it: that one's phase stays open until its own producer has arrived (the count
 * of bytes may go below zero, PTX ISA 9.7.13.15.5.1), and it is the right phase, since its consumers gave the
 * stage back.
 *
 * Nobody leaves while others write or arrive here: consumers wait for every tile of theirs, whose parts all
 * CTAs send, and the producer, last of all, for every stage to be given back by all consumers. All CTAs of a
 * cluster take the same number of programs: the first draws, and sends the number on. */
#include "backends/gpu/hopper/emit_cluster.h"

void emit_cluster_places(Emit *e)
{
    line(e,
        "const u32 draw_full = shared_base + %lld, draw_empty = draw_full + 8, draw_word = draw_full + 16;",
        (long long)e->shared_bytes);
    e->shared_bytes += 32;
}

void emit_cluster_barriers(Emit *e)
{
    line(e, "%s(draw_full, 1);", use(e, "mbar_init"));
    line(e, "%s(draw_empty, %d);", use(e, "mbar_init"), e->plan->multicast - 1);
}

void emit_cluster_meet(Emit *e)
{
    line(e, "%s();", use(e, "warp_sync"));
    line(e, "%s();", use(e, "cluster_arrive"));
    line(e, "%s();    /* all CTAs of the cluster are there, and their mbarriers */", use(e, "cluster_wait"));
}

/* The first program of a pair of CTAs is the pair's own number, as for a single CTA. Some larger clusters may
 * have to wait until others end, because the size of a cluster need not divide the groups of multiprocessors.
 * Therefore larger clusters draw their first program too, so that late clusters find no work left. */
void emit_cluster_draw(Emit *e, const char *program)
{
    int others = e->plan->multicast - 1;
    bool first = others > 1;
    line_in(e, e->pre, 3, "u32 draw_phase = 0;");
    if (first) line(e, "for (i32 %s = 0;;) {", program);
    else line(e, "for (i32 %s = (i32)%s, draw = 0;; draw = 1) {", program, cta_id(e));
    e->indent++;
    line(e, "if (%sblock == 0) {", first ? "" : "draw && ");
    e->indent++;
    line(e, "%s = %s(%s, %s);", program, use(e, "scheduler_next"), slot_name(e, SLOT_SCHEDULER, 0, 0, DT_U64),
        first ? "0" : cta_count(e));
    line(e, "%s(draw_empty, draw_phase ^ 1);", use(e, "mbar_wait_cluster"));
    if (first) {
        line(e, "for (int other = 1; other <= %d; other++) {", others);
        e->indent++;
        line(e, "%s(draw_word, other, (u32)%s, draw_full);", use(e, "send_u32"), program);
        end_block(e);
    } else line(e, "%s(draw_word, 1, (u32)%s, draw_full);", use(e, "send_u32"), program);
    e->indent--;
    line(e, "} else%s {", first ? "" : " if (draw)");
    e->indent++;
    line(e, "%s(draw_full, 4);", use(e, "mbar_expect"));
    line(e, "%s(draw_full, draw_phase);", use(e, "mbar_wait"));
    line(e, "%s = (i32)%s(draw_word);", program, use(e, "lds_w32"));
    /* An arrival at another CTA may be seen there before an earlier read of shared memory has been done here.
     * The next number would then come to the place first. */
    line(
        e, "%s(draw_empty + ((u32)%s & %s()), 0);", use(e, "mbar_arrive_at"), program, use(e, "hidden_zero"));
    end_block(e);
    line(e, "%sdraw_phase ^= 1;", first ? "" : "if (draw) ");
}

/* Runs after the producer's loop. A stage that was never filled is empty, because the phase before the first
 * has ended. */
void emit_cluster_leave(Emit *e)
{
    line(e, "/* nobody arrives here any more once all stages have been given back */");
    for (size_t k = 0; k < e->rings.len; k++) {
        const RingInfo *r = &e->rings.data[k];
        if (r->ctas < 2) continue;
        if (r->depth == 1) {
            line(e, "%s(%s_empty, %s_phase ^ 1);", use(e, "mbar_wait_cluster"), r->name, r->name);
            continue;
        }
        line(e, "for (int i = 0; i < %d; i++) {", r->depth);
        e->indent++;
        line(e, "%s(%s_empty + 8 * %s_stage, %s_phase ^ 1);", use(e, "mbar_wait_cluster"), r->name, r->name,
            r->name);
        line(
            e, "if (++%s_stage == %d) { %s_stage = 0; %s_phase ^= 1; }", r->name, r->depth, r->name, r->name);
        end_block(e);
    }
    if (e->dynamic) line(e, "if (block == 0) %s(draw_empty, draw_phase ^ 1);", use(e, "mbar_wait_cluster"));
}

/* --- reductions of a cluster ---------------------------------------------------------------------------- */

/* Whether what is written, too, is loaded since the CTAs of the cluster have last met. */
static bool reads_since(Emit *e, const Instr *i)
{
    MemParts m;
    for (i = i->prev; i; i = i->prev) {
        const Type *t = i->n_operands ? ir_operand(i, 0)->type : NULL;
        bool meets = op_is_along_axis(i->op) && t->kind == TYPE_TILE && t->layout;
        if (meets && layout_blocks(layout_of(e, ir_operand(i, 0))) > 1) return false;
        if (i->op == OP_LOAD && ir_mem_parts(i, &m) && e->f->params[m.param].kind != PARAM_IN) return true;
    }
    return false;
}

/* Across the CTAs of a cluster: each sends its part to all of them, an mbarrier of each counts what has come,
 * and each joins the parts in order. Nothing is fenced: no store to memory need be waited for, except where a
 * CTA stores elements that others have read before (KernelPlan.reads_before). Every reduction has its own
 * place and mbarrier, two in turn inside a loop: what is sent for the round after next is sent by CTAs that
 * have the parts of the next from all, hence after all have read this one's. None leaves before all have sent
 * to it. */
void blocks_meet(Emit *e, const Instr *i, int n, int bytes, bool met, BlocksMeet *m)
{
    int slot = (n * bytes + 15) / 16 * 16;
    bool again = i->block != e->f->body;
    int64_t at = (e->shared_bytes + 15) / 16 * 16, bar = at + slot * (again ? 2 : 1);
    e->shared_bytes = bar + 16;
    *m = (BlocksMeet){ .fenced = e->plan->reads_before && reads_since(e, i),
        .place = str(e, "shared_base + %lld", (long long)at),
        .mbar = str(e, "shared_base + %lld", (long long)bar),
        .parts = str(e, "shared + %lld", (long long)at) };
    if (again && !met) { /* all have read the parts of the round before */
        if (e->threads == e->target->wave) line(e, "%s();", use(e, "warp_sync"));
        else barrier(e);
    }
    line(e, "/* every CTA sends its part to all of the cluster */");
    if (!e->cluster_met && again)
        line_in(e, e->pre, 1, "%s();", use(e, "cluster_wait")); /* in front of the loop */
    else if (!e->cluster_met) line(e, "%s();", use(e, "cluster_wait"));
    e->cluster_met = true;
    for (int k = 0; k < (again ? 2 : 1); k++) vec_push(&e->s->arena, &e->cluster_bars, bar + 8 * k);
    if (again) {
        m->round = tmp(e, "round");
        line_in(e, e->pre, 1, "u32 %s = 0;", m->round);
        m->place = str(e, "%s + (%s & 1) * %d", m->place, m->round, slot);
        m->mbar = str(e, "%s + (%s & 1) * 8", m->mbar, m->round);
        m->parts = str(e, "%s + (%s & 1) * %d", m->parts, m->round, slot);
    }
    line(e, "if (tid == 0) %s(%s, %d);", use(e, "mbar_expect"), m->mbar, n * bytes);
    /* The warp that sends has met all warps whose reads come before. */
    if (m->fenced) line(e, "if (tid < 32) %s();", use(e, "fence_cluster"));
}

void blocks_send(Emit *e, const BlocksMeet *m, int n, DType d, int64_t at, const char *x)
{
    const char *to = at ? str(e, "%s + %lld", m->place, (long long)at) : m->place;
    line(e, "if (tid < %d) %s(%s + block * %d, tid, %s, %s);", n, use(e, str(e, "send_%s", dtype_name(d))),
        to, ctype_bytes(d), x, m->mbar);
}

void blocks_wait(Emit *e, const BlocksMeet *m)
{
    const char *wait = use(e, m->fenced ? "mbar_wait_acquire" : "mbar_wait");
    line(e, "%s(%s, %s);", wait, m->mbar, m->round ? str(e, "%s >> 1 & 1", m->round) : "0");
}
