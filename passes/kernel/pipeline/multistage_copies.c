/* multistage_copies.c: of multistage: a loop's loads as copies that run ahead of it, by cp.async or, on
 * AMD, straight to LDS. */
#include "passes/kernel/pipeline/multistage.h"

bool stage_from_counter(const Value *v, const Block *body, int *steps)
{
    if (ir_defined_outside(v, body)) return true;
    if (!v->def) return v == body->args[0];
    MemParts m;
    bool reads = (v->def->op == OP_LOAD || v->def->op == OP_GATHER) && ir_mem_parts(v->def, &m) &&
                 !m.token; /* a tensor that the kernel does not write */
    if (--*steps < 0 || !(reads || (op_info[v->def->op].flags & OPF_PURE)) || v->def->n_blocks ||
        v->def->block != body)
        return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (ir_operand(v->def, k)->type->kind != TYPE_TENSOR &&
            !stage_from_counter(ir_operand(v->def, k), body, steps))
            return false;
    return true;
}

Value *stage_clone(Builder *b, Value *v, const Block *body, ValueMap *map)
{
    if (ir_defined_outside(v, body)) return v;
    Value *known = value_map_get(map, v);
    if (known != v) return known;
    for (int k = 0; k < v->def->n_operands; k++) stage_clone(b, ir_operand(v->def, k), body, map);
    ir_clone(b, v->def, map);
    return value_map_get(map, v);
}

void stage_copy(Staging *c, Builder *b, const Instr *load, Value *view, const Block *body, ValueMap *map)
{
    MemParts m;
    ir_mem_parts(load, &m);
    Value *ops[2 + TILE_MAX_RANK] = { view, m.tensor };
    for (int a = 0; a < m.rank; a++) ops[2 + a] = body ? stage_clone(b, m.idx[a], body, map) : m.idx[a];
    Attr attrs[8];
    int n = 0;
    static const AttrKey kept[] = { ATTR_EXTENTS, ATTR_STEPS, ATTR_ORDER, ATTR_MASKED, ATTR_CACHE };
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
        if (ir_attr(load, kept[k])) attrs[n++] = *ir_attr(load, kept[k]);
    b->loc = load->loc;
    ir_build(b, OP_COPY, ops, 2 + m.rank, (Attrs){ attrs, n }, NULL, 0);
}

/* The loads of a loop that have the same number of stages. They share their place in their rings, and the
 * copies of a step are one group. Groups are in the order in which a step issues them. */
typedef struct StageGroup {
    Instr **loads;
    Value **bufs;
    int n, stages, lds; /* lds: on AMD, instructions of a step that load to LDS */
    Value *stage;
} StageGroup;
typedef struct StageGroups {
    StageGroup *data;
    int n, stages, lds; /* stages: of the deepest ring */
} StageGroups;

/* The values of the body at counter value `at`. */
static ValueMap values_at(Staging *c, const Instr *loop, Value *at)
{
    ValueMap map;
    value_map_init(&map, &c->s->arena);
    value_map_set(&map, loop->blocks[0]->args[0], at);
    return map;
}

/* stage_issue, with the values that are there already at this counter value. */
static void issue(
    Staging *c, Builder *b, Instr *loop, const StageGroup *g, Value *at, Value *stage, ValueMap *map)
{
    Value *in = ir_bin(b, OP_LT, at, ir_operand(loop, 1));
    Instr *cond = ir_build(b, OP_IF, &in, 1, NO_ATTRS, NULL, 0);
    Builder inner = ir_at_end(cond->blocks[0]);
    for (int k = 0; k < g->n; k++)
        stage_copy(c, &inner, g->loads[k], stage_view(&inner, g->bufs[k], stage), loop->blocks[0], map);
    ir_build(&inner, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    inner = ir_at_end(cond->blocks[1]);
    ir_build(&inner, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    ir_build(b, OP_COPY_COMMIT, NULL, 0, NO_ATTRS, NULL, 0);
}

void stage_issue(
    Staging *c, Builder *b, Instr *loop, Instr **loads, Value **bufs, int n, Value *at, Value *stage)
{
    ValueMap map = values_at(c, loop, at);
    issue(c, b, loop, &(StageGroup){ .loads = loads, .bufs = bufs, .n = n }, at, stage, &map);
}

/* Groups with few stages come first: their copies are waited for soonest, and copies arrive in the order in
 * which they were issued. */
static StageGroups grouped(Staging *c, Instr **loads, const int *stages, int n)
{
    StageGroups all = { arena_array(&c->s->arena, StageGroup, (size_t)n), 0, 0, 0 };
    for (int last = 0;; last = all.stages) {
        for (int k = 0; k < n; k++)
            if (stages[k] > last && (all.stages == last || stages[k] < all.stages)) all.stages = stages[k];
        if (all.stages == last) return all;
        StageGroup *g = &all.data[all.n++];
        *g = (StageGroup){ .stages = all.stages, .loads = arena_array(&c->s->arena, Instr *, (size_t)n) };
        g->bufs = arena_array(&c->s->arena, Value *, (size_t)n);
        for (int k = 0; k < n; k++)
            if (stages[k] == g->stages) g->loads[g->n++] = loads[k];
    }
}

static void allocate_rings(Staging *c, Builder *b, const Block *body, StageGroups *all)
{
    for (int j = 0; j < all->n; j++) {
        StageGroup *g = &all->data[j];
        for (int k = 0; k < g->n; k++) {
            const Instr *l = g->loads[k];
            g->bufs[k] = stage_allocate(c, b, body,
                stage_amd(c) ? stage_dma_type(c, l, g->stages) : stage_buffer_type(c, l, g->stages));
            ir_set_name(g->bufs[k],
                arena_printf(&c->s->arena, "%s_ring", c->f->params[ir_operand(l, 0)->index].name));
            if (stage_amd(c)) g->lds += stage_dma_count(c, l);
        }
        all->lds += g->lds;
    }
}

/* Issues the copies of the steps that are ahead of the first one, in the order in which earlier steps would
 * have issued them. */
static void issue_first(Staging *c, Builder *b, Instr *loop, const StageGroups *all)
{
    Value *step = ir_operand(loop, 2), **at = arena_array(&c->s->arena, Value *, (size_t)all->stages);
    at[0] = ir_operand(loop, 0);
    for (int t = 1, known = 0; t < all->stages; t++)
        for (int j = 0; j < all->n; j++) {
            const StageGroup *g = &all->data[j];
            int s = t - 1 - (all->stages - g->stages);
            if (s < 0) continue;
            for (; known < s; known++) at[known + 1] = ir_bin(b, OP_ADD, at[known], step);
            stage_issue(c, b, loop, g->loads, g->bufs, g->n, at[s], i32(b, s));
        }
}

/* Waits for the copies of this step. What was issued behind the copies of the first group, which has the
 * fewest stages, may still be in flight; the other groups' copies of this step were issued before. */
static void wait_for_step(Staging *c, Builder *b, const StageGroups *all)
{
    const StageGroup *first = &all->data[0];
    int depth = (first->stages - 2) * all->n + all->n - 1, lds = all->lds;
    if (lds && all->n > 1) {
        depth = (first->stages - 1) * lds - first->lds;
        lds = 1;
    }
    Instr *wait = ir_build(b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, depth)), NULL, 0);
    if (lds) ir_set_attr(c->s, wait, a_int(ATTR_COUNT, lds));
    ir_build(b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}

/* Whether v may be computed for steps that do not run: what it reads is tested, so that nothing beyond a
 * tensor is read. */
static bool tests_reads(const Value *v, const Block *body)
{
    if (ir_defined_outside(v, body) || !v->def) return true;
    if (v->def->op == OP_LOAD || (v->def->op == OP_GATHER && !ir_attr_int(v->def, ATTR_MASKED, 1)))
        return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (ir_operand(v->def, k)->type->kind != TYPE_TENSOR && !tests_reads(ir_operand(v->def, k), body))
            return false;
    return true;
}

/* Reads the positions of the load's rows in front of the first product, which runs while they arrive. */
static void read_positions(Builder *b, const Instr *loop, const Instr *load, ValueMap *map)
{
    MemParts m;
    ir_mem_parts(load, &m);
    for (int a = 0; a < m.rank; a++)
        if (m.idx[a]->type->kind == TYPE_TILE && tests_reads(m.idx[a], loop->blocks[0]))
            stage_clone(b, m.idx[a], loop->blocks[0], map);
}

/* Issues the copies of a group for the step that its ring is ahead, at position `later`. */
static void issue_ahead(Staging *c, Builder *b, Builder *later, Instr *loop, const StageGroup *g)
{
    Value *ahead = loop->blocks[0]->args[0];
    for (int s = 0; s < g->stages - 1; s++) ahead = ir_bin(b, OP_ADD, ahead, ir_operand(loop, 2));
    Value *fill = ir_bin(b, OP_ADD, g->stage, i32(b, g->stages - 1));
    Value *beyond = ir_bin(b, OP_GE, fill, i32(b, g->stages)),
          *around = ir_bin(b, OP_SUB, fill, i32(b, g->stages));
    fill = ir_op(b, OP_WHERE, NULL, NO_ATTRS, beyond, around, fill);
    ValueMap map = values_at(c, loop, ahead);
    for (int k = 0; k < g->n; k++) read_positions(b, loop, g->loads[k], &map);
    issue(c, later, loop, g, ahead, fill, &map);
}

/* Adds the number of each group's stage to the values that the loop carries. */
static Instr *carry_stages(Staging *c, Instr *loop, StageGroups *all)
{
    for (int j = 0; j < all->n; j++) {
        StageGroup *g = &all->data[j];
        Builder b = ir_before(loop);
        loop = ir_add_carried(loop, i32(&b, 0), NULL);
        Block *body = loop->blocks[0];
        const char *tensor = c->f->params[ir_operand(g->loads[0], 0)->index].name;
        ir_set_name(body->args[body->n_args - 1],
            all->n == 1 ? "stage" : arena_printf(&c->s->arena, "%s_at", tensor));
    }
    for (int j = 0; j < all->n; j++)
        all->data[j].stage = loop->blocks[0]->args[loop->blocks[0]->n_args - all->n + j];
    return loop;
}

static void next_stages(Instr *loop, const StageGroups *all)
{
    Block *body = loop->blocks[0];
    for (int j = 0; j < all->n; j++) {
        Builder b = ir_before(ir_terminator(body));
        Value *next = ir_bin(&b, OP_ADD, all->data[j].stage, i32(&b, 1));
        Value *at_end = ir_bin(&b, OP_EQ, next, i32(&b, all->data[j].stages)), *zero = i32(&b, 0);
        next = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, at_end, zero, next);
        ir_set_operand(ir_terminator(body), loop->n_results - all->n + j, next);
    }
}

/* Replaces the loads by views of the stages that hold their tiles. */
static void read_stages(Staging *c, Builder *b, const StageGroups *all)
{
    for (int j = 0; j < all->n; j++)
        for (int k = 0; k < all->data[j].n; k++) {
            Instr *l = all->data[j].loads[k];
            Value *view = stage_view(b, all->data[j].bufs[k], all->data[j].stage);
            ir_set_name(
                view, arena_printf(&c->s->arena, "%s_tile", c->f->params[ir_operand(l, 0)->index].name));
            stage_read(c, l, view);
        }
    /* Not earlier, because the builder may be positioned before one of them. */
    for (int j = 0; j < all->n; j++)
        for (int k = 0; k < all->data[j].n; k++) stage_erase(all->data[j].loads[k]);
    vec_push(&c->s->arena, &c->bodies, b->block);
}

void stage_by_copies(Staging *c, Instr *loop, Instr **loads, const int *stages, int n)
{
    StageGroups all = grouped(c, loads, stages, n);
    Builder b = ir_before(loop);
    /* An earlier loop may still be reading the space. */
    if (c->regions.len) ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    allocate_rings(c, &b, loop->blocks[0], &all);
    issue_first(c, &b, loop, &all);
    loop = carry_stages(c, loop, &all);
    Block *body = loop->blocks[0];
    b = (Builder){ .module = c->f->module, .block = body, .before = body->first, .loc = loop->loc };
    wait_for_step(c, &b, &all);
    /* After the first product: its fragments are read and its instructions are queued before the copies take
     * issue slots. */
    Builder later = b;
    for (Instr *i = b.before; i; i = i->next)
        if (i->op == OP_MMA_SYNC) {
            later = ir_after(i);
            break;
        }
    later.loc = loop->loc;
    for (int j = 0; j < all.n; j++) issue_ahead(c, &b, &later, loop, &all.data[j]);
    read_stages(c, &b, &all);
    next_stages(loop, &all);
    b = ir_after(loop);
    if (all.lds)
        ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL,
            0); /* Loads beyond the last step give zeros. */
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}
