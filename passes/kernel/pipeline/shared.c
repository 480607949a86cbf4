/* shared: sends loads that only feed matrix products through shared memory (the portable path).
 *
 *   %a = load A[..]; %c = mma_sync %a, %b, %acc
 *
 * becomes
 *
 *   %buf = shared_alloc; %view = shared_stage %buf, 0
 *   barrier; copy %view, A[..]; copy_commit; copy_wait 0; barrier
 *   %c = mma_sync %view, %b, %acc
 *
 * On AMD the tile goes through registers: a load, and a write to shared memory between two barriers. A load
 * of the body that is only the left operand of products in a loop stays in registers there. Loads of a loop
 * whose offsets follow from its counter go through rings instead (multistage.c).
 *
 * Requires: a pad of zero, no cast between load and product, and no other users of the tile; other loads
 * stay in registers. Keeps: everything.
 *
 * This file decides which loads. multistage_buffers.c places them in shared memory. */
#include "passes/kernel/pipeline/multistage.h"

bool stage_may(const Instr *i)
{
    MemParts m;
    if (i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.token || m.result->type->kind != TYPE_TILE ||
        m.result->type->rank != 2)
        return false;
    int64_t zero;
    double fzero;
    return !m.pad || (ir_is_const(m.pad, &zero) && zero == 0) ||
           (ir_is_const_float(m.pad, &fzero) && fzero == 0);
}

static bool eligible(const Instr *i)
{
    MemParts m;
    if (!stage_may(i) || !ir_mem_parts(i, &m) || !m.result->uses) return false;
    for (const Use *u = m.result->uses; u; u = u->next)
        if (u->user->op != OP_MMA_SYNC || u == &u->user->operands[2]) return false;
    return true;
}

static void single(Staging *c, Instr *load)
{
    Builder b = ir_before(load);
    Value *buf = stage_single_buffer(c, &b, load), *view = stage_view(&b, buf, i32(&b, 0));
    if (stage_amd(c)) {
        const Type *t = stage_tile_in_registers(c, load);
        ir_replace(ir_result(load), view);
        ir_result(load)->type = t;
        b = ir_after(load);
        ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
        stage_write(&b, view, ir_result(load));
        ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
        return;
    }
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    stage_copy(c, &b, load, view, NULL, NULL);
    ir_build(&b, OP_COPY_COMMIT, NULL, 0, NO_ATTRS, NULL, 0);
    ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    ir_replace(ir_result(load), view);
    ir_erase(load);
}

bool stage_in_place(Staging *c, const Instr *load)
{
    const Decision *d = schedule_asked_load(c->p, load);
    return d ? d->form == LOAD_MULTISTAGE : ir_attr_int(load, ATTR_LATENCY, 0) == 1;
}

void stage_alone(Staging *c, Instr *load)
{
    schedule_take_load(c->p, load, LOAD_MULTISTAGE, 0);
    single(c, load);
}

/* Whether it is read only in loops, and once, as the left operand of a matrix instruction. */
static bool left_of_loops(const Instr *load)
{
    const Value *v = ir_result(load);
    const Use *u = v->uses;
    return u && !u->next && u == &u->user->operands[0] && u->user->block != load->block &&
           strcmp(ir_attr(u->user, ATTR_INSTR)->s, "fma");
}

/* A loop's loads through multistage, from number `from` on. */
typedef struct Staged {
    Staging *c;
    size_t from;
    int64_t limit;
} Staged;

static bool stage_ahead(void *user)
{
    Staged *s = user;
    stage_loop(s->c, s->from, s->limit);
    return true;
}

static void stage_loads(Session *s, Func *f, KernelPlan *p)
{
    Staging c = { .s = s, .f = f, .p = p };
    InstrList all = { 0 };
    stage_beside_fma(s, f);
    ir_collect(&s->arena, f->body, OP_LOAD, &all);
    for (size_t k = 0; k < all.len; k++)
        if (eligible(all.data[k])) vec_push(&s->arena, &c.loads, all.data[k]);
    /* Leave room for conversions and for reductions across warps. */
    int64_t limit = c.limit =
        p->target->shared_bytes - p->parts_bytes - (p->options.reserve > 2048 ? p->options.reserve : 2048);
    for (size_t i = 0; i < c.loads.len; i++) { /* The buffers of the body itself come first and remain. */
        Instr *l = c.loads.data[i];
        const Decision *d = schedule_asked_load(p, l);
        if (d && (d->form == LOAD_PREFETCH || (d->form >= LOAD_STAGES && !stage_runs_ahead(l))))
            schedule_refuse(p, d,
                "this load feeds a product without roles: it goes to registers, is staged where it stands, "
                "or, if its offsets follow from a loop's counter, goes through a ring");
        else if (d ? d->form == LOAD_REGISTERS
                   : l->block == f->body && stage_amd(&c) && left_of_loops(l) && p->options.thrift < 2)
            schedule_take_load(p, l, LOAD_REGISTERS, 0);
        else if (l->block == f->body) stage_alone(&c, l);
        else continue;
        c.loads.data[i] = NULL;
    }
    for (size_t i = 0; i < c.loads.len; i++) {
        Instr *l = c.loads.data[i];
        bool ahead = l && stage_runs_ahead(l) && !stage_in_place(&c, l);
        if (l && !ahead) stage_alone(&c, l);
        if (ahead && !kernel_step(p, PASS_MULTISTAGE, stage_ahead, &(Staged){ &c, i, limit })) return;
    }
}

bool kernel_pass_shared(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    stage_loads(c->s, c->f, c->p);
    return kernel_grew(c, before);
}
