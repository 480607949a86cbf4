/* fragment-prefetch: reads the fragments of a step before the products of the step before it (the portable
 * path).
 *
 *   for i carrying stage {
 *       copy_wait; barrier
 *       %c = mma_sync %a, %b, %acc                    views of this stage, K of two fragments or more
 *       copies of a later step; commit
 *   }
 *
 * becomes
 *
 *   copy_wait; barrier; %a0 = shared_read ..; %b0 = shared_read ..
 *   for i carrying stage, a0, b0 {
 *       %a1, %b1 = fragments 1 of this stage
 *       copies of a later step; commit
 *       %c0 = mma_sync %a0, %b0, %acc
 *       copy_wait; barrier; fragments 0 of the next stage
 *       %c = mma_sync %a1, %b1, %c0
 *   }
 *
 * Without this pass, every step begins with a wait, a barrier and the latency of its first reads, while
 * the matrix unit is idle. With it, the wait comes before products whose operands are in registers. A
 * stage is filled again behind the barrier that follows its last read, as before. The last step reads a
 * stage ahead that is not filled any more, and does not use it.
 *
 * Requires: one product in the loop, of 8-bit or 16-bit operands that are both staged there; K a multiple
 * of two fragments at least; three stages or more (with two the wait would be for copies that were just
 * issued); no reader of a stage behind the copies; registers for two sets of fragments beside the
 * accumulator. It runs after `layout`, which knows the fragments. Keeps: everything. */
#include "passes/kernel/schedule/schedule.h"

typedef struct Loop {
    Instr *loop, *wait, *barrier, *mma, *commit;
    Instr *view[2];
    Value *stage; /* carried: this step's */
    const LayoutMmaInfo *info;
    LayoutMma kind;
    int32_t warps[2];
    int kt, at; /* the fragments along K; the number of the carried value that is the stage */
} Loop;

static const Layout *fragment(Session *s, const Loop *l, int side, const Type *view)
{
    int32_t tile[2] = { (int32_t)view->shape[0], (int32_t)view->shape[1] };
    tile[side ? 0 : 1] = l->info->k;
    return layout_mma(&s->arena, l->kind, side ? LAYOUT_B : LAYOUT_A, 2, tile, l->warps);
}

static bool product_fits(Session *s, const KernelPlan *p, Loop *l)
{
    const Instr *m = l->mma;
    const char *name = ir_attr(m, ATTR_INSTR)->s;
    if (!strcmp(name, "fma") || !ir_result(m)->type->layout || ir_attr(m, ATTR_PART)) return false;
    l->kind = kernel_mma_kind(s, name);
    l->info = layout_mma_info(l->kind);
    const Layout *c = layouts_get((LayoutTable *)&p->layouts, ir_result(m)->type);
    int32_t along_n = (int32_t)ir_attr_int(m, ATTR_COUNT, 1);
    l->warps[0] = (int32_t)layout_warps(c) / l->info->warps / along_n;
    l->warps[1] = along_n;
    int64_t k = ir_operand(m, 0)->type->shape[1];
    l->kt = (int)(k / l->info->k);
    if (k % l->info->k || l->kt < 2) return false;
    int need = (int)layout_regs(c) * dtype_bytes(ir_result(m)->type->dtype) / 4;
    for (int side = 0; side < 2; side++) {
        const Type *t = ir_operand(m, side)->type;
        if (t->kind != TYPE_SHARED || t->rank != 2 || dtype_bytes(t->dtype) > 2) return false;
        const Layout *f = fragment(s, l, side, t);
        if (!f) return false;
        need += 2 * (int)layout_regs(f) * dtype_bytes(t->dtype) / 4;
    }
    enum { OTHERS = 48 }; /* registers for addresses and counters */
    const Target *t = p->target;
    int threads = p->warps * t->wave,
        limit = t->sm_registers / (threads * (p->min_ctas > 0 ? p->min_ctas : 1));
    return need + OTHERS <= (limit < t->max_registers ? limit : t->max_registers);
}

static bool is_view(const Instr *i)
{ return i && (i->op == OP_SHARED_STAGE || i->op == OP_SHARED_TRANSPOSE || i->op == OP_SHARED_SLICE); }

static void note_view(void *user, Instr *i)
{
    bool *found = user;
    *found |= is_view(i);
    for (int k = 0; k < i->n_operands; k++) *found |= is_view(ir_operand(i, k)->def);
}

/* Whether something behind the copies, in blocks of their own too, reads a stage. The barrier of the next
 * step, which let the stage be filled again, would come before these reads. */
static bool reads_behind(const Instr *commit)
{
    bool found = false;
    for (Instr *i = commit->next; i && !found; i = i->next) {
        note_view(&found, i);
        for (int k = 0; k < i->n_blocks; k++) ir_walk(i->blocks[k], note_view, &found);
    }
    return found;
}

/* Whether this is a loop in the form that multistage leaves, with one product of the staged tiles. */
static bool matches(Session *s, const KernelPlan *p, Instr *loop, Loop *l)
{
    Block *body = loop->blocks[0];
    *l = (Loop){ .loop = loop, .wait = body->first };
    if (!l->wait || l->wait->op != OP_COPY_WAIT || ir_attr_int(l->wait, ATTR_DEPTH, 0) < 1 ||
        !l->wait->next || l->wait->next->op != OP_BARRIER)
        return false;
    l->barrier = l->wait->next;
    for (Instr *i = l->barrier->next; i; i = i->next) {
        if (i->op == OP_MMA_SYNC) {
            if (l->mma) return false;
            l->mma = i;
        } else if (i->op == OP_COPY_COMMIT) {
            if (l->commit || !l->mma) return false;
            l->commit = i;
        } else if (i->op == OP_COPY_WAIT || i->op == OP_BARRIER || i->op == OP_SHARED_READ ||
                   i->op == OP_SHARED_WRITE)
            return false;
    }
    if (!l->mma || !l->commit || ir_attr(l->mma, ATTR_PARTS)) return false;
    for (int side = 0; side < 2; side++) {
        Instr *v = ir_operand(l->mma, side)->def;
        if (!v || v->op != OP_SHARED_STAGE || v->block != body || ir_use_count(ir_result(v)) != 1)
            return false;
        Value *stage = ir_operand(v, 1);
        if (stage->def || stage->block != body || stage->index == 0 || (l->stage && stage != l->stage))
            return false;
        l->view[side] = v;
        l->stage = stage;
    }
    l->at = l->stage->index - 1;
    if (reads_behind(l->commit)) return false;
    /* Operations that depend on the product come after the copies. */
    for (const Use *u = ir_result(l->mma)->uses; u; u = u->next) {
        const Instr *x = u->user;
        while (x->block != body) x = x->block->parent;
        for (const Instr *i = l->mma; i != l->commit; i = i->next)
            if (i == x) return false;
    }
    return product_fits(s, p, l);
}

/* Moves the scalar computation of v to the builder's position, as far as it comes after `from`. */
static void bring(Builder *b, Value *v, const Instr *from)
{
    Instr *d = v->def;
    bool later = false;
    if (!d || d->block != from->block) return;
    for (const Instr *i = from; i; i = i->next) later |= i == d;
    if (!later) return;
    for (int k = 0; k < d->n_operands; k++) bring(b, ir_operand(d, k), from);
    ir_unlink(d);
    ir_place(b, d);
}

static bool pure_scalar(const Value *v, const Block *body)
{
    const Instr *d = v->def;
    if (!d || d->block != body) return true;
    if (!(op_info[d->op].flags & OPF_PURE) || d->n_blocks || v->type->kind != TYPE_SCALAR) return false;
    for (int k = 0; k < d->n_operands; k++)
        if (!pure_scalar(ir_operand(d, k), body)) return false;
    return true;
}

static Value *read(Session *s, KernelPlan *p, Builder *b, const Loop *l, int side, Value *view, int step)
{
    const Layout *f = fragment(s, l, side, view->type);
    int64_t shape[2] = { view->type->shape[0], view->type->shape[1] };
    shape[side ? 0 : 1] = l->info->k;
    const Type *t = layouts_typed(&p->layouts, type_tile(s, view->type->dtype, 2, shape), f);
    return ir_emit(b, OP_SHARED_READ, &view, 1,
        ATTRS(a_str(ATTR_INSTR, l->info->name), a_int(ATTR_AXIS, side ? 0 : 1), a_int(ATTR_DEPTH, step),
            a_int(ATTR_COUNT, l->warps[1])),
        t);
}

static Value *stage_of(Builder *b, const Instr *view, Value *stage)
{
    Value *r = ir_emit(b, OP_SHARED_STAGE, (Value *[]){ ir_operand(view, 0), stage }, 2, NO_ATTRS, NULL);
    return r;
}

static Value *product(Builder *b, const Loop *l, Value *const *frag, Value *acc)
{
    ValueMap none;
    value_map_init(&none, &b->module->session->arena);
    value_map_set(&none, ir_operand(l->mma, 0), frag[0]);
    value_map_set(&none, ir_operand(l->mma, 1), frag[1]);
    value_map_set(&none, ir_operand(l->mma, 2), acc);
    return ir_result(ir_clone(b, l->mma, &none));
}

static void wait_for(Builder *b, int64_t depth)
{
    ir_build(b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, depth)), NULL, 0);
    ir_build(b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}

static void rebuild(Session *s, KernelPlan *p, Loop *l)
{
    int64_t depth = ir_attr_int(l->wait, ATTR_DEPTH, 0);
    Builder b = ir_before(l->loop);
    Value *first[2], *frag[2], *ahead[2], *next = ir_operand(ir_terminator(l->loop->blocks[0]), l->at),
                                          *acc = ir_operand(l->mma, 2);
    b.loc = l->mma->loc;
    wait_for(&b, depth);
    for (int side = 0; side < 2; side++)
        first[side] = read(s, p, &b, l, side, stage_of(&b, l->view[side], ir_operand(l->loop, l->at + 3)), 0);
    b = ir_before(l->mma);
    bring(&b, next, l->mma);
    for (int side = 0; side < 2; side++) frag[side] = read(s, p, &b, l, side, ir_result(l->view[side]), 1);
    /* After the copies, which would otherwise come late. Until the loop has the carried fragments,
     * placeholders stand for them. */
    b = ir_after(l->commit);
    b.loc = l->mma->loc;
    acc = product(&b, l, first, acc);
    Instr *p0 = acc->def;
    for (int q = 1; q < l->kt; q++) {
        if (q + 1 < l->kt)
            for (int side = 0; side < 2; side++)
                ahead[side] = read(s, p, &b, l, side, ir_result(l->view[side]), q + 1);
        else {
            wait_for(&b, depth);
            for (int side = 0; side < 2; side++)
                ahead[side] = read(s, p, &b, l, side, stage_of(&b, l->view[side], next), 0);
        }
        acc = product(&b, l, frag, acc);
        for (int side = 0; side < 2; side++) frag[side] = ahead[side];
    }
    ir_replace(ir_result(l->mma), acc);
    ir_erase(l->mma);
    ir_erase(l->wait);
    ir_erase(l->barrier);
    for (int side = 0; side < 2; side++) {
        l->loop = ir_add_carried(l->loop, first[side], frag[side]);
        Block *body = l->loop->blocks[0];
        Value *arg = body->args[body->n_args - 1];
        ir_set_name(arg, side ? "b_ahead" : "a_ahead");
        ir_set_operand(p0, side, arg);
    }
}

static bool has_product(const Instr *loop)
{
    for (const Instr *i = loop->blocks[0]->first; i; i = i->next)
        if (i->op == OP_MMA_SYNC) return true;
    return false;
}

/* Loops with products have the numbers of the schedule. A loop that was rebuilt keeps its number. */
static int visit(Session *s, KernelPlan *p, Block *b, int *number)
{
    int n = 0;
    for (Instr *i = b->first; i; i = i->next) {
        Loop l;
        const Decision *d = i->op == OP_FOR && has_product(i) ? schedule_asked_loop(p, ++*number) : NULL;
        bool can = i->op == OP_FOR && target_has(p->target, TF_LDMATRIX | TF_CP_ASYNC) &&
                   matches(s, p, i, &l) &&
                   pure_scalar(ir_operand(ir_terminator(i->blocks[0]), l.at), i->blocks[0]);
        if (d && d->form != LOOP_PLAIN && (d->form != LOOP_PREFETCH || !can))
            schedule_refuse(p, d,
                d->form == LOOP_PREFETCH
                    ? "fragments are read ahead in a loop of one product, of 8 or 16 bits, "
                      "both operands through three stages or more, K of two fragments or "
                      "more, registers for two sets of them"
                    : "this order of products needs warp specialization: here a loop is plain, "
                      "or reads its fragments ahead");
        else if (can && (d ? d->form == LOOP_PREFETCH : !kernel_skips(p, PASS_FRAGMENT_PREFETCH))) {
            rebuild(s, p, &l);
            schedule_take_loop(p, *number, LOOP_PREFETCH, 0);
            i = l.loop;
            n++;
        } else if (can || d) schedule_take_loop(p, *number, LOOP_PLAIN, 0);
        for (int k = 0; k < i->n_blocks; k++) n += visit(s, p, i->blocks[k], number);
    }
    return n;
}

bool kernel_pass_fragment_prefetch(KernelContext *c)
{
    int number = 0;
    if (c->p->producer_warps) return false; /* software_pipelining.c decides about their loops */
    return visit(c->s, c->p, c->f->body, &number) > 0;
}
