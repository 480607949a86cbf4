/* emit_roles.c: sm_90a: the frame of a warp-specialized kernel: places of barriers, their setup, and the code
 * of each role. PTX ISA 9.7.13 (mbarrier), 9.7.20 (setmaxnreg). */
#include "backends/gpu/hopper/emit_cluster.h"
#include "backends/gpu/hopper/emit_roles.h"

static bool asks_scheduler(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_NEXT_PROGRAM || ir_loop_is(i, LOOP_DYNAMIC);
}

static bool has_scheduler(const Block *b) { return ir_any_in(b, asks_scheduler, NULL); }

typedef struct RingUse {
    const Value *ring;
    Op op;
} RingUse;

static bool is_use(const void *user, const Instr *i)
{
    const RingUse *u = user;
    return i->op == u->op && ir_operand(i, 0) == u->ring;
}

/* What one role does: the statements of its block, and what lives across all of them. */
typedef struct RoleText {
    Body declared, statements;
} RoleText;

static void write_statements(Emit *e, Block *b, int role, RoleText *to)
{
    Body *out = e->out, *pre = e->pre;
    const KernelPlan *p = e->plan;
    int threads = e->threads;
    e->coords.len = 0;
    e->role = role;
    e->out = &to->statements;
    e->pre = &to->declared;
    e->indent = role == ROLE_PRODUCER ? 3 : 2;
    if (role != ROLE_PRODUCER) {
        e->threads = (role == ROLE_CONSUMER ? p->warps : p->cp_async_warps) * 32;
        e->barrier_id = 1;
    }
    e->line = 0;
    e->dynamic = e->bulk = false;
    if (role == ROLE_CONSUMER) emit_workspace_enter(e);
    emit_block(e, b);
    if (role == ROLE_CONSUMER) {
        emit_shares_end(e);
        emit_writer_end(e);
    }
    if (e->bulk) line(e, "if (lane == 0) %s(0);", use(e, "bulk_wait"));
    if (role == ROLE_PRODUCER && p->multicast) emit_cluster_leave(e);
    e->out = out;
    e->pre = pre;
    e->threads = threads;
    e->indent = 2;
}

/* Consumers take registers that producers give up. With cp.async producers, both roles of producers have
 * given theirs up together (emit_roles). */
static void set_registers(Emit *e, int role)
{
    const KernelPlan *p = e->plan;
    if (p->warps <= 4) return;
    if (role == ROLE_CONSUMER) line(e, "%s(%d);", use(e, "setmaxnreg_inc"), p->consumer_registers);
    else if (!p->cp_async_warps) line(e, "%s(%d);", use(e, "setmaxnreg_dec"), p->producer_registers);
}

/* Elects the producer thread, or counts threads and warps from the role's first one. With a condition on tid
 * in place of the election, ptxas would put a loop over the lanes around each copy, because the operands of
 * the copy could differ among lanes. */
static void open_threads(Emit *e, int role)
{
    const KernelPlan *p = e->plan;
    int before = p->producer_warps + (role == ROLE_CONSUMER ? p->cp_async_warps : 0);
    if (role == ROLE_PRODUCER) line(e, "if (warp == 0 && %s()) {", use(e, "elect_lane"));
    else
        line(e, "const int tid = threadIdx.x - %d, warp = uniform(tid >> 5);\n        (void)tid; (void)warp;",
            before * 32);
}

/* The stage number and phase of each ring that the role walks, and of the scheduler. */
static void declare_state(Emit *e, const Block *b, int role)
{
    static const Op walks[] = {
        [ROLE_PRODUCER] = OP_RING_PUT, [ROLE_CONSUMER] = OP_RING_GET, [ROLE_CP_ASYNC] = OP_RING_CP_ASYNC
    };
    const char *indent = role == ROLE_PRODUCER ? "    " : "";
    for (size_t k = 0; k < e->rings.len; k++) {
        const RingInfo *r = &e->rings.data[k];
        if (r->joins || !ir_any_in(b, is_use, &(RingUse){ r->value, walks[role] })) continue;
        line(e, "%su32 %s_phase = 0%s%s;", indent, r->name,
            r->depth > 1 ? str(e, ", %s_stage = 0", r->name) : "",
            role == ROLE_CONSUMER && r->depth > 1 ? str(e, ", %s_free = 0", r->name) : "");
    }
    if (has_scheduler(b)) line(e, "%su32 scheduled_phase = 0, scheduled_stage = 0;", indent);
    if (role == ROLE_CP_ASYNC) emit_cp_async_state(e);
    if (role == ROLE_CONSUMER) emit_halves_counts(e, b);
}

/* Writes the code of one role, behind the condition that selects its warps. The statements are made first:
 * they decide what is declared before them. */
static void write_role(Emit *e, Block *b, int role)
{
    RoleText text = { 0 };
    write_statements(e, b, role, &text);
    set_registers(e, role);
    open_threads(e, role);
    declare_state(e, b, role);
    if (role == ROLE_CONSUMER && ir_holds(b, OP_PINGPONG_WAIT))
        line(e, "if (warp >> 2 == %d) %s(2, 256);    /* the first turn is warpgroup 0's */",
            e->plan->warps / 4 - 1, use(e, "bar_arrive"));
    body_append(e->out, &text.declared);
    body_append(e->out, &text.statements);
    if (role == ROLE_PRODUCER) {
        line(e, "}");
        emit_writer(e);
    }
    e->indent = 1;
    e->role = -1;
    e->barrier_id = 0;
    e->coords.len = 0;
}

static void place_stages(Emit *e, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) place_stages(e, i->blocks[k]);
        if (i->op == OP_RING_CP_ASYNC) emit_cp_async_stage(e, i, emit_ring_of(e, ir_operand(i, 0)));
    }
}

/* The barriers of the rings, behind their stages. */
static void place_barriers(Emit *e)
{
    emit_join_rings(e);
    e->shared_bytes = (e->shared_bytes + 127) / 128 * 128;
    for (size_t k = 0; k < e->rings.len; k++) {
        const RingInfo *r = &e->rings.data[k];
        if (r->joins) continue;
        line(e, "const u32 %s_full = shared_base + %lld, %s_empty = %s_full + %d;", r->name,
            (long long)e->shared_bytes, r->name, r->name, 8 * r->depth);
        e->shared_bytes += 16 * (r->depth + r->none);
    }
}

static void place_scheduler(Emit *e)
{
    line(e,
        "const u32 scheduled_full = shared_base + %lld, scheduled_empty = scheduled_full + 16, "
        "scheduled_word = scheduled_full + 32;",
        (long long)e->shared_bytes);
    e->shared_bytes += 32 + 2 * SCHEDULED_BYTES;
    if (e->plan->multicast) emit_cluster_places(e);
}

/* One thread sets all mbarriers up. */
static void init_barriers(Emit *e, bool scheduler)
{
    const KernelPlan *p = e->plan;
    const char *init = use(e, "mbar_init");
    if (scheduler)
        line(e,
            "for (int i = 0; i < 2; i++) { %s(scheduled_full + 8 * i, 1); %s(scheduled_empty + 8 * i, %d); }",
            init, init, p->warps + p->cp_async_warps);
    for (size_t k = 0; k < e->rings.len; k++) {
        const RingInfo *r = &e->rings.data[k];
        int producers = emit_is_by_cp_async(e, r) ? p->cp_async_warps : 1, consumers = r->arrivals * r->ctas;
        if (r->joins) continue;
        line(e, "for (int i = 0; i < %d; i++) { %s(%s_full + 8 * i, %d); %s(%s_empty + 8 * i, %d); }",
            r->depth, init, r->name, producers, init, r->name, consumers);
        if (r->none && r->ctas < 2)
            line(e, "%s(%s_empty + %d, %d);    /* of no stage: nobody waits for it */", init, r->name,
                8 * r->depth, consumers);
    }
    emit_writer_barriers(e);
    if (p->multicast && scheduler) emit_cluster_barriers(e);
    line(e, "%s();", use(e, "fence_mbarrier_init"));
}

/* The places of all barriers, and their state before any role begins. */
static void begin_roles(Emit *e, Instr *i)
{
    bool done[MOST_PREFETCHED] = { false }, scheduler = has_scheduler(i->blocks[1]);
    place_barriers(e);
    if (i->op == OP_CP_ASYNC_ROLES) place_stages(e, i->blocks[2]);
    if (scheduler) place_scheduler(e);
    emit_writer_places(e, i->blocks[1]);
    line(e, "if (tid == 0) {");
    e->indent++;
    emit_prefetch_maps(e, i->blocks[0], done);
    init_barriers(e, scheduler);
    end_block(e);
    emit_start(e);
    if (e->plan->multicast) emit_cluster_meet(e);
    else line(e, "__syncthreads();");
}

void emit_roles(Emit *e, Instr *i)
{
    const KernelPlan *p = e->plan;
    int producers = p->producer_warps + p->cp_async_warps;
    begin_roles(e, i);
    if (p->cp_async_warps && p->warps > 4)
        line(e, "if (warp < %d) %s(%d);", producers, use(e, "setmaxnreg_dec"), p->cp_async_registers);
    line(e, "if (warp < %d) {    /* producer: one thread starts the copies */", p->producer_warps);
    write_role(e, i->blocks[0], ROLE_PRODUCER);
    if (p->cp_async_warps) {
        line(e,
            "} else if (warp < %d) {    /* cp.async producers: %d warps copy to stages what TMA cannot */",
            producers, p->cp_async_warps);
        write_role(e, i->blocks[2], ROLE_CP_ASYNC);
    }
    line(e, "} else {    /* consumers: %d warpgroups */", p->warps / 4);
    write_role(e, i->blocks[1], ROLE_CONSUMER);
    line(e, "}");
}
