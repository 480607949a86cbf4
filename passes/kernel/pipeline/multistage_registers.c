/* multistage_registers.c: of multistage: a loop's loads on AMD, which go to LDS through registers, or
 * without them where lanes can send them there. */
#include "passes/kernel/pipeline/multistage.h"

/* Whether the tile goes from memory to shared memory through registers: the axis along K is contiguous there,
 * so that lanes read vectors. */
void stage_way(Staging *c, const Instr *load, StageWay *w)
{
    const Type *t = ir_result(load)->type;
    const Use *u = ir_result(load)->uses;
    const char *name = ir_attr(u->user, ATTR_INSTR)->s;
    int role = u == &u->user->operands[1], along = role ? 0 : 1, bytes = dtype_bytes(t->dtype);
    int32_t part[2];
    Arena *a = &c->s->arena;
    *w = (StageWay){ .tile = { (int32_t)t->shape[0], (int32_t)t->shape[1] } };
    kernel_unit_axis(c->f, load, &w->unit);
    if (w->unit < 0) w->unit = 1;
    w->inner = w->unit;
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++) {
        const LayoutMmaInfo *m = layout_mma_info((LayoutMma)k);
        if (strcmp(m->name, name)) continue;
        if (bytes == 2 && w->tile[along] % 8 == 0) w->inner = along;
        part[along] = w->tile[along] < m->k ? w->tile[along] : m->k;
        part[1 - along] = role ? m->n : m->m;
        if (w->tile[1 - along] >= part[1 - along])
            w->reader = layout_mma(a, (LayoutMma)k, role ? LAYOUT_B : LAYOUT_A, 2, part, (int32_t[]){ 1, 1 });
    }
    w->writer = lds_writer(a, w->tile, w->unit, w->inner, bytes, c->p->target->wave, c->p->warps);
}

/* Whether the tile can go from memory to LDS without registers. Instruction v of a wave writes the bytes that
 * lane l fetches to (v * threads + tid) * size. Therefore the tile must consist of whole such pieces,
 * contiguous along the axis that is contiguous in memory, and the swizzle is applied to the addresses in
 * memory (kernel_dma_map). */
static bool direct(Staging *c, const Instr *load)
{
    const Target *t = c->p->target;
    const Type *tile = ir_result(load)->type;
    DmaMap map;
    StageWay w;
    if (!target_has(t, TF_LDS_DMA) || kernel_skips(c->p, PASS_MULTISTAGE) || !c->f->fits32) return false;
    stage_way(c, load, &w);
    if (w.unit != w.inner || kernel_access_bytes(c->f, load) < kernel_dma_bytes(t)) return false;
    const LayoutShared *s =
        lds_layout(&c->s->arena, t->lds, w.tile, w.inner, dtype_bytes(tile->dtype), NULL, w.reader, NULL);
    return s && kernel_dma_map(&c->s->arena, s, kernel_dma_bytes(t), c->p->warps * t->wave, &map);
}

const Type *stage_dma_type(Staging *c, const Instr *load, int64_t stages)
{
    const Type *t = ir_result(load)->type;
    StageWay w;
    stage_way(c, load, &w);
    const LayoutShared *s = lds_layout(
        &c->s->arena, c->p->target->lds, w.tile, w.inner, dtype_bytes(t->dtype), NULL, w.reader, NULL);
    return type_shared(c->s, t->dtype, 3, (int64_t[]){ stages, w.tile[0], w.tile[1] },
        layouts_shared_text(&c->p->layouts, s));
}

int stage_dma_count(Staging *c, const Instr *load)
{
    const Type *t = ir_result(load)->type;
    return (int)(type_elements(t) * dtype_bytes(t->dtype) /
                 ((int64_t)kernel_dma_bytes(c->p->target) * c->p->warps * c->p->target->wave));
}

const Type *stage_tile_in_registers(Staging *c, const Instr *load)
{
    StageWay w;
    stage_way(c, load, &w);
    return layouts_typed(&c->p->layouts, type_with_layout(c->s, ir_result(load)->type, NULL), w.writer);
}

/* Loads the tiles of all loads for counter value `at` into registers. If at >= hi, their contents do not
 * matter. */
static void fetch(Staging *c, Builder *b, Instr *loop, Instr **loads, const Type *const *types, int n,
    Value *at, Value **tiles)
{
    Value *in = ir_bin(b, OP_LT, at, ir_operand(loop, 1)), *made[IR_MAX_RESULTS], *none[IR_MAX_RESULTS];
    Instr *cond = ir_build(b, OP_IF, &in, 1, NO_ATTRS, types, n);
    Builder inner = ir_at_end(cond->blocks[0]), other = ir_at_end(cond->blocks[1]);
    ValueMap map;
    value_map_init(&map, &c->s->arena);
    value_map_set(&map, loop->blocks[0]->args[0], at);
    for (int k = 0; k < n; k++) {
        inner.loc = loads[k]->loc;
        for (int o = 0; o < loads[k]->n_operands; o++)
            stage_clone(&inner, ir_operand(loads[k], o), loop->blocks[0], &map);
        Instr *x = ir_clone(&inner, loads[k], &map);
        made[k] = ir_result(x);
        made[k]->type = types[k];
        DType d = types[k]->dtype;
        Value *zero = dtype_is_float(d) ? ir_const_float(&other, d, 0) : ir_const_int(&other, d, 0);
        none[k] = ir_emit(&other, OP_SPLAT, &zero, 1, NO_ATTRS, type_with_layout(c->s, types[k], NULL));
        tiles[k] = &cond->results[k];
        ir_set_name(tiles[k],
            arena_printf(&c->s->arena, "%s_next", c->f->params[ir_operand(loads[k], 0)->index].name));
    }
    ir_build(&inner, OP_YIELD, made, n, NO_ATTRS, NULL, 0);
    ir_build(&other, OP_YIELD, none, n, NO_ATTRS, NULL, 0);
}

static bool loads_of_its_own(const Block *body, Instr *const *staged, int n)
{
    for (const Instr *i = body->first; i; i = i->next) {
        bool mine = i->op == OP_LOAD || i->op == OP_GATHER;
        for (int k = 0; k < n; k++) mine = mine && i != staged[k];
        for (int k = 0; k < i->n_blocks; k++) mine = mine || loads_of_its_own(i->blocks[k], staged, n);
        if (mine) return true;
    }
    return false;
}

/* Moves the loads that go straight to LDS behind the others, and returns how many those are.
 *
 * Loads bypass the registers where four words a lane go at once; single words are four times the
 * instructions, for registers that are not short. A loop with loads of its own keeps all of them in
 * registers: the compiler does not count what goes to LDS, and would wait for all of it when it waits for
 * those. */
static int take_straight(Staging *c, const Block *body, Instr **loads, int *lds, int n)
{
    int straight = 0;
    if (!target_has(c->p->target, TF_LDS_DMA_16) || loads_of_its_own(body, loads, n)) return 0;
    for (int k = n; k-- > 0;) {
        if (lds[k] != 2 || !direct(c, loads[k])) continue;
        Instr *x = loads[k];
        for (int j = k; j + 1 < n; j++) loads[j] = loads[j + 1], lds[j] = lds[j + 1];
        loads[n - 1] = x;
        lds[n - 1] = 2;
        straight++;
        n--;
    }
    return straight;
}

/* Allocates shared memory for the stages of a load, under the name of its tensor. */
static Value *ring_for(Staging *c, Builder *b, Block *body, const Instr *load, const Type *type)
{
    Value *ring = stage_allocate(c, b, body, type);
    ir_set_name(ring, arena_printf(&c->s->arena, "%s_ring", c->f->params[ir_operand(load, 0)->index].name));
    return ring;
}

/* The position after this step's own loads that feed its products. Their wait would include every load that
 * was issued before. */
static Builder behind_own_loads(const Builder *first, const Block *body, Instr *const *loads, int n)
{
    Instr *own = NULL, *pass = NULL;
    for (Instr *i = body->first; i; i = i->next) {
        bool staged = false;
        for (int k = 0; k < n; k++) staged |= i == loads[k];
        if ((i->op == OP_LOAD || i->op == OP_GATHER) && !staged) pass = i;
        if (i->op == OP_MMA_SYNC && pass) own = pass;
    }
    return own ? ir_after(own) : *first;
}

/* The loads of a loop whose tiles of the next step are fetched during this one. The first `n` go through
 * registers, the others straight to LDS. At the end of a step, tiles of loads with two stages are written to
 * the stage that no thread reads, those with one stage behind a barrier. */
typedef struct Fetched {
    Instr **loads;
    const int *lds;
    int n, straight;
    Value **bufs;
    const Type *types[IR_MAX_RESULTS];
    Value *tiles[IR_MAX_RESULTS], *stage, *other, *only; /* only: stage 0, of loads with one stage */
} Fetched;

static bool any_has(const Fetched *x, int stages)
{
    for (int k = 0; k < x->n + x->straight; k++)
        if (x->lds[k] == stages) return true;
    return false;
}

static void write_tiles(const Fetched *x, Builder *b, int stages, Value *stage)
{
    for (int k = 0; k < x->n; k++)
        if (x->lds[k] == stages) stage_write(b, stage_view(b, x->bufs[k], stage), x->tiles[k]);
}

static void fetch_first(Staging *c, Builder *b, Instr *loop, Fetched *x)
{
    Block *body = loop->blocks[0];
    Instr **straight = x->loads + x->n;
    for (int k = x->n; k < x->n + x->straight; k++)
        x->bufs[k] = ring_for(c, b, body, x->loads[k], stage_dma_type(c, x->loads[k], x->lds[k]));
    for (int k = 0; k < x->n; k++) {
        x->bufs[k] = ring_for(c, b, body, x->loads[k], stage_buffer_type(c, x->loads[k], x->lds[k]));
        x->types[k] = stage_tile_in_registers(c, x->loads[k]);
    }
    if (x->straight)
        stage_issue(c, b, loop, straight, x->bufs + x->n, x->straight, ir_operand(loop, 0), i32(b, 0));
    fetch(c, b, loop, x->loads, x->types, x->n, ir_operand(loop, 0), x->tiles);
    if (x->straight) ir_build(b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    for (int k = 0; k < x->n; k++) stage_write(b, stage_view(b, x->bufs[k], i32(b, 0)), x->tiles[k]);
    ir_build(b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}

/* At the head of the loop, which reads this step's tiles and fetches those of the next one. */
static void fetch_next(Staging *c, Builder *b, Instr *loop, Fetched *x)
{
    Block *body = loop->blocks[0];
    int n = x->n + x->straight;
    if (x->stage) x->other = ir_bin(b, OP_SUB, i32(b, 1), x->stage);
    if (any_has(x, 1)) x->only = i32(b, 0);
    Builder later = behind_own_loads(b, body, x->loads, n);
    later.loc = loop->loc;
    Value *following = ir_bin(&later, OP_ADD, body->args[0], ir_operand(loop, 2));
    if (x->straight)
        stage_issue(c, &later, loop, x->loads + x->n, x->bufs + x->n, x->straight, following, x->other);
    fetch(c, &later, loop, x->loads, x->types, x->n, following, x->tiles);
    for (int k = 0; k < n; k++) {
        const Instr *l = x->loads[k];
        Value *view = stage_view(b, x->bufs[k], x->lds[k] == 2 ? x->stage : x->only);
        ir_set_name(view, arena_printf(&c->s->arena, "%s_tile", c->f->params[ir_operand(l, 0)->index].name));
        ir_replace(ir_result(l), view);
    }
    for (int k = 0; k < n; k++) ir_erase(x->loads[k]);
}

void stage_by_registers(Staging *c, Instr *loop, Instr **loads, int *lds, int n)
{
    Fetched x = { .loads = loads, .lds = lds, .bufs = arena_array(&c->s->arena, Value *, (size_t)n) };
    Builder b = ir_before(loop);
    if (c->regions.len) ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    x.straight = take_straight(c, loop->blocks[0], loads, lds, n);
    x.n = n - x.straight;
    fetch_first(c, &b, loop, &x);
    if (any_has(&x, 2)) {
        loop = ir_add_carried(loop, i32(&b, 0), NULL);
        x.stage = loop->blocks[0]->args[loop->blocks[0]->n_args - 1];
        ir_set_name(x.stage, "stage");
    }
    Block *body = loop->blocks[0];
    b = (Builder){ .module = c->f->module, .block = body, .before = body->first, .loc = loop->loc };
    fetch_next(c, &b, loop, &x);
    b = ir_before(ir_terminator(body));
    if (x.straight) ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    write_tiles(&x, &b, 2, x.other);
    if (x.only) {
        ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
        write_tiles(&x, &b, 1, x.only);
    }
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    if (x.stage) ir_set_operand(ir_terminator(body), loop->n_results - 1, x.other);
}

/* AMD: whether all staged tiles of the loop go directly to LDS and the loop has no loads of its own, whose
 * waits would count those too. */
bool stage_all_direct(Staging *c, const Instr *loop, Instr *const *loads, int n)
{
    for (int k = 0; k < n; k++)
        if (!direct(c, loads[k])) return false;
    return !loads_of_its_own(loop->blocks[0], loads, n);
}
