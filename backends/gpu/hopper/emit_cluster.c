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
