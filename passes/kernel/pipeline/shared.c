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
 * Copies that follow each other before anything reads them start at once, and one wait serves them
 * (wait_together). Copies behind products of the same block start with those before, if their buffers are
 * free (start_together.c). On AMD the tile goes through registers: a load, and a write to shared memory
 * between two barriers. A load of the body that is only the left operand of products in a loop stays in
 * registers there. Loads of a loop whose offsets follow from its counter go through rings instead
 * (multistage.c).
 *
 * A window of more axes whose rows a reshape merges, such as the pixels of a convolution, is copied to the
 * rows of the matrix.
 *
 * Requires: a pad of zero, no cast between load and product, and no other users of the tile; other loads
 * stay in registers. Keeps: everything.
 *
 * This file decides which loads. multistage_buffers.c places them in shared memory. */
#include "passes/kernel/pipeline/multistage.h"

Value *stage_matrix_of(const Instr *load)
{
    Value *v = ir_result(load);
    const Use *u = v->uses;
    return v->type->rank > 2 && u && !u->next && u->user->op == OP_RESHAPE ? ir_result(u->user) : v;
}

void stage_erase(Instr *load)
{
    Value *matrix = stage_matrix_of(load);
    if (matrix->def != load) ir_erase(matrix->def);
    ir_erase(load);
}

bool stage_may(const Instr *i)
{
    MemParts m;
    if (i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.token || stage_matrix_of(i)->type->kind != TYPE_TILE ||
        stage_matrix_of(i)->type->rank != 2)
        return false;
    int64_t zero;
    double fzero;
    return !m.pad || (ir_is_const(m.pad, &zero) && zero == 0) ||
           (ir_is_const_float(m.pad, &fzero) && fzero == 0);
}

/* Whether the window's axes but the last, which is the contiguous one, are the rows of the matrix. What
 * cp.async cannot copy, since its rows begin anywhere, is shifted on the way by threads that have a layout of
 * the matrix (backends/gpu/memory/emit_copy.c). */
static bool merges_rows(Staging *c, const Instr *load)
{
    MemParts m;
    enum { NARROWEST = 4 }; /* bytes, of cp.async */
    const Type *t = ir_result(load)->type, *matrix = stage_matrix_of(load)->type;
    int axis;
    kernel_unit_axis(c->f, load, &axis);
    if (stage_amd(c) || ir_attr(load, ATTR_ORDER) || axis != t->rank - 1 ||
        matrix->shape[1] != t->shape[t->rank - 1] || !ir_mem_parts(load, &m))
        return false;
    for (int a = 0; a < m.rank; a++)
        if (m.idx[a]->type->kind == TYPE_TILE) return false;
    const LayoutShared *stage = layouts_shared(&c->p->layouts, stage_buffer_type(c, load, 1));
    return kernel_access_bytes(c->f, load) >= NARROWEST ||
           kernel_copy_layout(
               &c->s->arena, load, matrix, stage, COPIED_AT_ONCE, c->p->target->wave, c->p->warps)
                   .matrix != NULL;
}

static bool eligible(Staging *c, const Instr *i)
{
    if (!stage_may(i) || !stage_matrix_of(i)->uses || !stage_is_operand(i)) return false;
    return stage_matrix_of(i) == ir_result(i) || merges_rows(c, i);
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
    stage_read(c, load, view);
    stage_erase(load);
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

/* --- copies that are waited for together ------------------------------------------------------------- */

bool stage_is_single_wait(const Instr *i)
{
    return i && i->op == OP_COPY_WAIT && !ir_attr_int(i, ATTR_DEPTH, 0) && i->prev && i->prev->prev &&
           i->prev->op == OP_COPY_COMMIT && i->prev->prev->op == OP_COPY && i->next &&
           i->next->op == OP_BARRIER;
}

/* The wait of the copies that come behind this barrier; NULL: another barrier. */
static Instr *wait_behind(const Instr *barrier)
{
    Instr *i = barrier->op == OP_BARRIER ? barrier->next : NULL;
    if (!i || i->op != OP_COPY) return NULL;
    while (i && (i->op == OP_COPY || i->op == OP_SHARED_ALLOC || op_info[i->op].flags & OPF_PURE))
        i = i->next;
    return i && i->op == OP_COPY_COMMIT && stage_is_single_wait(i->next) ? i->next : NULL;
}

/* Whether the instruction may run while copies are under way: it reads no shared memory, threads do not meet
 * in it, and it has no effect. */
static bool runs_meanwhile(const Instr *i)
{
    const unsigned flags = op_info[i->op].flags;
    if (i->n_blocks || flags & (OPF_TERM | OPF_WRITE | OPF_BARRIER)) return false;
    if (i->op == OP_SHARED_ALLOC || i->op == OP_SHARED_STAGE) return true;
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_SHARED) return false;
    return flags & OPF_PURE || i->op == OP_LOAD || i->op == OP_GATHER;
}

/* Moves waits for copies, and the barriers behind them, to what does not run meanwhile. Copies that follow
 * until then start at once and are waited for together. The barrier in front of the first one has waited for
 * the readers of all their buffers. */
static void wait_together(Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) wait_together(i->blocks[k]);
        if (!stage_is_single_wait(i)) continue;
        Instr *end[] = { i->prev, i, i->next }, *at = i->next->next;
        while (runs_meanwhile(at)) at = at->next;
        Instr *next = wait_behind(at);
        Builder before = ir_before(at);
        for (int k = 0; k < 3; k++) {
            ir_unlink(end[k]);
            if (!next) ir_place(&before, end[k]);
        }
        if (next) ir_erase(at); /* the copy behind it starts at once, and its wait serves both */
        i = next ? next->prev : end[2];
    }
}

static void stage_loads(Session *s, Func *f, KernelPlan *p)
{
    Staging c = { .s = s, .f = f, .p = p };
    InstrList all = { 0 };
    stage_beside_fma(s, f);
    stage_join_exchanged(&c);
    ir_collect(&s->arena, f->body, OP_LOAD, &all);
    for (size_t k = 0; k < all.len; k++)
        if (eligible(&c, all.data[k])) vec_push(&s->arena, &c.loads, all.data[k]);
    stage_computed_loads(&c);
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
    for (size_t i = 0; i < c.bodies.len; i++) ir_sweep(c.bodies.data[i]);
    stage_start_together(&c, f->body);
    wait_together(f->body);
}

bool kernel_pass_shared(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    stage_loads(c->s, c->f, c->p);
    return kernel_grew(c, before);
}
