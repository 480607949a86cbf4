/* stage: loads that only feed matrix products go through shared memory, several stages deep (the portable path).
 *
 *   for i { %a = load A[..i..]; %c = mma_sync %a, %b, %acc }
 * becomes, with S stages,
 *   %buf = shared_alloc [S, ...]
 *   copies of steps 0 .. S-2, a commit each
 *   for i carrying slot {
 *       copy_wait S-2; barrier                                   step i has arrived, everyone is done with step i-1
 *       if (i + (S-1)*step < hi) copy of step i+S-1 into slot S-1 ahead; commit
 *       mma_sync on the views of this slot
 *   }
 *   barrier
 *
 * On AMD copies go by way of registers: step i+1 is loaded into registers at the head of the loop, before the products of step i, and written
 * to shared memory behind them; into the other of two slots, or into the same one behind a barrier (latency 2, or where two do not fit). A load of the body
 * that is only the left operand of products in a loop stays in registers.
 *
 * S is the load's `latency` (default 3), clipped to what shared memory holds; the clipping is a performance note. A load
 * whose offsets depend on carried values cannot be issued ahead: it is staged once, with two barriers. Pads other than
 * zero, casts between load and product, or other users of the tile keep the load in registers. */
#include "passes/kernel/lds.h"
#include "passes/kernel/schedule.h"

/* Buffers of the body itself live from there on; those inside an instruction of the body (a loop with all it holds) share the space behind
 * them with those of its siblings, which run before or after. */
typedef struct Region { const Block *top; int64_t bytes; } Region;      /* top: its first block, which stays when a loop is rebuilt */
/* A load staged by itself: who reads it last in its block. */
typedef struct Single { const Block *block; const Instr *last; Value *buffer; int64_t bytes; } Single;
typedef struct Ctx { Session *s; Func *f; KernelPlan *p; InstrList loads; int64_t common, limit; VEC(Region) regions; VEC(Single) singles; } Ctx;

static bool eligible(const Instr *i)
{
    MemParts m;
    if (i->op != OP_LOAD || !ir_mem_parts(i, &m) || m.token || m.result->type->kind != TYPE_TILE || m.result->type->rank != 2) return false;
    int64_t zero;
    double fzero;
    if (m.pad && !(ir_is_const(m.pad, &zero) && zero == 0) && !(ir_is_const_float(m.pad, &fzero) && fzero == 0)) return false;
    if (!m.result->uses) return false;
    for (const Use *u = m.result->uses; u; u = u->next)
        if (u->user->op != OP_MMA_SYNC || u == &u->user->operands[2]) return false;
    return true;
}

static bool by_registers(const Ctx *c) { return c->p->target->kind == TARGET_HIP; }

typedef struct Way { int32_t tile[2]; int unit, inner; const Layout *writer, *reader; } Way;

/* From memory to shared memory by registers: the axis that runs along K is contiguous there, so that lanes read vectors. */
static void way_of(Ctx *c, const Instr *load, Way *w)
{
    const Type *t = ir_result(load)->type;
    const Use *u = ir_result(load)->uses;
    const char *name = ir_attr(u->user, ATTR_INSTR)->s;
    int role = u == &u->user->operands[1], along = role ? 0 : 1, bytes = dtype_bytes(t->dtype);
    int32_t part[2];
    Arena *a = &c->s->arena;
    *w = (Way){ .tile = { (int32_t)t->shape[0], (int32_t)t->shape[1] } };
    kernel_unit_axis(c->f, load, &w->unit);
    if (w->unit < 0) w->unit = 1;
    w->inner = w->unit;
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++) {
        const LayoutMmaInfo *m = layout_mma_info((LayoutMma)k);
        if (strcmp(m->name, name)) continue;
        if (bytes == 2 && w->tile[along] % 8 == 0) w->inner = along;
        part[along] = w->tile[along] < m->k ? w->tile[along] : m->k;
        part[1 - along] = role ? m->n : m->m;
        if (w->tile[1 - along] >= part[1 - along]) w->reader = layout_mma(a, (LayoutMma)k, role ? LAYOUT_B : LAYOUT_A, 2, part, (int32_t[]){ 1, 1 });
    }
    w->writer = lds_writer(a, w->tile, w->unit, w->inner, bytes, c->p->target->wave, c->p->warps);
}

/* Can it go from memory to LDS without registers? Instruction v of a wave puts what lane l fetches at (v * threads + tid) * size: the tile must be whole such
 * pieces, contiguous along the axis that memory runs along, and the swizzle goes on the side of memory (kernel_dma_map). */
static bool direct(Ctx *c, const Instr *load)
{
    const Target *t = c->p->target;
    const Type *tile = ir_result(load)->type;
    DmaMap map;
    Way w;
    if (!target_has(t, TF_LDS_DMA) || c->p->options.no_async || !c->f->fits32) return false;
    way_of(c, load, &w);
    if (w.unit != w.inner || kernel_access_bytes(c->f, load) < kernel_dma_bytes(t)) return false;
    const LayoutShared *s = lds_layout(&c->s->arena, lds_chip(t), w.tile, w.inner, dtype_bytes(tile->dtype), NULL, w.reader, NULL);
    return s && kernel_dma_map(&c->s->arena, s, kernel_dma_bytes(t), c->p->warps * t->wave, &map);
}

static const Type *dma_type(Ctx *c, const Instr *load, int64_t slots)
{
    const Type *t = ir_result(load)->type;
    Way w;
    way_of(c, load, &w);
    const LayoutShared *s = lds_layout(&c->s->arena, lds_chip(c->p->target), w.tile, w.inner, dtype_bytes(t->dtype), NULL, w.reader, NULL);
    return type_shared(c->s, t->dtype, 3, (int64_t[]){ slots, w.tile[0], w.tile[1] }, layouts_shared_text(&c->p->layouts, s));
}

static int dma_count(Ctx *c, const Instr *load)
{
    const Type *t = ir_result(load)->type;
    return (int)(type_elements(t) * dtype_bytes(t->dtype) / ((int64_t)kernel_dma_bytes(c->p->target) * c->p->warps * c->p->target->wave));
}

static const Type *buffer_type(Ctx *c, const Instr *load, int64_t slots)
{
    const Type *t = ir_result(load)->type;
    int axis;
    if (by_registers(c)) {
        Way w;
        way_of(c, load, &w);
        const LayoutShared *s = lds_layout(&c->s->arena, lds_chip(c->p->target), w.tile, w.inner, dtype_bytes(t->dtype), w.writer, w.reader, NULL);
        return type_shared(c->s, t->dtype, 3, (int64_t[]){ slots, w.tile[0], w.tile[1] }, layouts_shared_text(&c->p->layouts, s));
    }
    kernel_unit_axis(c->f, load, &axis);
    int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] }, order[2];
    order[0] = axis < 0 ? 1 : axis;
    order[1] = 1 - order[0];
    const LayoutShared *s = NULL;
    int bytes = dtype_bytes(t->dtype);
    for (int span = 128; span >= 32 && !s; span /= 2)
        if ((int64_t)tile[order[0]] * bytes % span == 0) s = layout_shared_swizzled(&c->s->arena, 2, tile, order, bytes, span);
    if (!s) s = layout_shared_rows(&c->s->arena, 2, tile, order, bytes, 16 - (int)((int64_t)tile[order[0]] * bytes % 16) % 16);
    if (!s) ir_fail(c->s, load->loc, "no shared layout for %s", type_string(c->s, t));
    int64_t shape[3] = { slots, tile[0], tile[1] };
    return type_shared(c->s, t->dtype, 3, shape, layouts_shared_text(&c->p->layouts, s));
}

static int64_t slot_bytes(Ctx *c, const Type *t)
{
    const LayoutShared *s = layouts_shared(&c->p->layouts, t);
    int64_t align = s->align > 128 ? s->align : 128;
    return ((int64_t)s->bytes + align - 1) / align * align;
}

/* The instruction of the function's body that holds block b; NULL for the body. */
static const Instr *top_of(const Ctx *c, const Block *b)
{
    const Instr *top = NULL;
    for (; b != c->f->body; b = top->block) top = b->parent;
    return top;
}

static int64_t *region(Ctx *c, const Block *b)
{
    const Instr *holder = top_of(c, b);
    if (!holder) return &c->common;
    const Block *top = holder->blocks[0];
    for (size_t k = 0; k < c->regions.len; k++) if (c->regions.data[k].top == top) return &c->regions.data[k].bytes;
    vec_push(&c->s->arena, &c->regions, ((Region){ top, 0 }));
    return &c->regions.data[c->regions.len - 1].bytes;
}

static int64_t bytes_before(Ctx *c, const Block *b) { return top_of(c, b) ? c->common + *region(c, b) : c->common; }

/* Can v be computed from the loop counter and values from outside, by pure operations? By a few; each use of a value counts. */
static bool from_counter(const Value *v, const Block *body, int *steps)
{
    if (ir_defined_outside(v, body)) return true;
    if (!v->def) return v == body->args[0];
    if (--*steps < 0 || !(op_info[v->def->op].flags & OPF_PURE) || v->def->n_blocks || v->def->block != body) return false;
    for (int k = 0; k < v->def->n_operands; k++) if (!from_counter(ir_operand(v->def, k), body, steps)) return false;
    return true;
}

static Value *clone_from_counter(Builder *b, Value *v, const Block *body, ValueMap *map)
{
    if (ir_defined_outside(v, body)) return v;
    Value *known = value_map_get(map, v);
    if (known != v) return known;
    for (int k = 0; k < v->def->n_operands; k++) clone_from_counter(b, ir_operand(v->def, k), body, map);
    ir_clone(b, v->def, map);
    return value_map_get(map, v);
}

static void build_copy(Ctx *c, Builder *b, const Instr *load, Value *view, const Block *body, ValueMap *map)
{
    MemParts m;
    ir_mem_parts(load, &m);
    Value *ops[2 + TILE_MAX_RANK] = { view, m.tensor };
    for (int a = 0; a < m.rank; a++) ops[2 + a] = body ? clone_from_counter(b, m.idx[a], body, map) : m.idx[a];
    Attr attrs[8];
    int n = 0;
    static const AttrKey kept[] = { ATTR_EXTENTS, ATTR_STEPS, ATTR_ORDER, ATTR_MASKED, ATTR_CACHE };
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) if (ir_attr(load, kept[k])) attrs[n++] = *ir_attr(load, kept[k]);
    b->loc = load->loc;
    ir_build(b, OP_COPY, ops, 2 + m.rank, (Attrs){ attrs, n }, NULL, 0);
}

static Value *i32(Builder *b, int64_t v) { return ir_const_int(b, DT_I32, v); }

static Value *slot_view(Builder *b, Value *buf, Value *slot)
{
    return ir_emit(b, OP_SHARED_SLOT, (Value *[]){ buf, slot }, 2, NO_ATTRS, NULL);
}

enum { BUFFER_ALIGN = 1024 };      /* what the widest swizzle asks of a tile's address */

static Value *allocate(Ctx *c, Builder *b, const Block *home, const Type *t)
{
    int64_t at = (bytes_before(c, home) + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
    *region(c, home) += at - bytes_before(c, home) + slot_bytes(c, t) * t->shape[0];
    return ir_emit(b, OP_SHARED_ALLOC, NULL, 0, ATTRS(a_int(ATTR_OFFSET, at)), t);
}

static bool comes_before(const Instr *a, const Instr *b)
{
    for (; a; a = a->next) if (a == b) return true;
    return false;
}

/* The buffer of a load of the same block that was read for the last time before this one starts, if there is not space for both. */
static Value *reuse(Ctx *c, const Instr *load, const Type *t)
{
    if (bytes_before(c, load->block) + BUFFER_ALIGN + slot_bytes(c, t) <= c->limit) return NULL;
    for (size_t k = 0; k < c->singles.len; k++) {
        Single *s = &c->singles.data[k];
        if (s->block == load->block && s->bytes >= slot_bytes(c, t) && s->last != load && comes_before(s->last, load)) { s->bytes = 0; return s->buffer; }
    }
    return NULL;
}

static Value *single_buffer(Ctx *c, Builder *b, Instr *load)
{
    const Type *t = buffer_type(c, load, 1);
    Value *old = reuse(c, load, t), *buf;
    if (old) buf = ir_emit(b, OP_SHARED_ALLOC, NULL, 0, ATTRS(a_int(ATTR_OFFSET, ir_attr_int(old->def, ATTR_OFFSET, 0))), t);
    else buf = allocate(c, b, load->block, t);
    Single s = { load->block, NULL, buf, slot_bytes(c, t) };
    for (const Use *u = ir_result(load)->uses; u; u = u->next) {
        const Instr *i = ir_within(load->block, u->user);
        if (!s.last || comes_before(s.last, i)) s.last = i;
    }
    vec_push(&c->s->arena, &c->singles, s);
    return buf;
}

static const Type *in_registers(Ctx *c, const Instr *load)
{
    Way w;
    way_of(c, load, &w);
    return layouts_typed(&c->p->layouts, type_with_layout(c->s, ir_result(load)->type, NULL), w.writer);
}

static void write_shared(Builder *b, Value *view, Value *tile) { ir_build(b, OP_SHARED_WRITE, (Value *[]){ view, tile }, 2, NO_ATTRS, NULL, 0); }

static void single(Ctx *c, Instr *load)
{
    Builder b = ir_before(load);
    Value *buf = single_buffer(c, &b, load), *view = slot_view(&b, buf, i32(&b, 0));
    if (by_registers(c)) {
        const Type *t = in_registers(c, load);
        ir_replace(ir_result(load), view);
        ir_result(load)->type = t;
        b = ir_after(load);
        ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
        write_shared(&b, view, ir_result(load));
        ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
        return;
    }
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    build_copy(c, &b, load, view, NULL, NULL);
    ir_build(&b, OP_COPY_COMMIT, NULL, 0, NO_ATTRS, NULL, 0);
    ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    ir_replace(ir_result(load), view);
    ir_erase(load);
}

/* Copies of all loads for counter value `at` into slot `slot`, unless at >= hi; then a commit either way. */
static void issue(Ctx *c, Builder *b, Instr *loop, Instr **loads, Value **bufs, int n, Value *at, Value *slot)
{
    Value *in = ir_bin(b, OP_LT, at, ir_operand(loop, 1));
    Instr *cond = ir_build(b, OP_IF, &in, 1, NO_ATTRS, NULL, 0);
    Builder inner = ir_at_end(cond->blocks[0]);
    ValueMap map;
    value_map_init(&map, &c->s->arena);
    value_map_set(&map, loop->blocks[0]->args[0], at);
    for (int k = 0; k < n; k++) build_copy(c, &inner, loads[k], slot_view(&inner, bufs[k], slot), loop->blocks[0], &map);
    ir_build(&inner, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    inner = ir_at_end(cond->blocks[1]);
    ir_build(&inner, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    ir_build(b, OP_COPY_COMMIT, NULL, 0, NO_ATTRS, NULL, 0);
}

/* The tiles of all loads for counter value `at`, in registers; something where at >= hi. */
static void fetch(Ctx *c, Builder *b, Instr *loop, Instr **loads, const Type *const *types, int n, Value *at, Value **tiles)
{
    Value *in = ir_bin(b, OP_LT, at, ir_operand(loop, 1)), *made[IR_MAX_RESULTS], *none[IR_MAX_RESULTS];
    Instr *cond = ir_build(b, OP_IF, &in, 1, NO_ATTRS, types, n);
    Builder inner = ir_at_end(cond->blocks[0]), other = ir_at_end(cond->blocks[1]);
    ValueMap map;
    value_map_init(&map, &c->s->arena);
    value_map_set(&map, loop->blocks[0]->args[0], at);
    for (int k = 0; k < n; k++) {
        inner.loc = loads[k]->loc;
        for (int o = 0; o < loads[k]->n_operands; o++) clone_from_counter(&inner, ir_operand(loads[k], o), loop->blocks[0], &map);
        Instr *x = ir_clone(&inner, loads[k], &map);
        made[k] = ir_result(x);
        made[k]->type = types[k];
        DType d = types[k]->dtype;
        Value *zero = dtype_is_float(d) ? ir_const_float(&other, d, 0) : ir_const_int(&other, d, 0);
        none[k] = ir_emit(&other, OP_SPLAT, &zero, 1, NO_ATTRS, type_with_layout(c->s, types[k], NULL));
        tiles[k] = &cond->results[k];
        ir_set_name(tiles[k], arena_printf(&c->s->arena, "%s_next", c->f->params[ir_operand(loads[k], 0)->index].name));
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

static void pipeline_registers(Ctx *c, Instr *loop, Instr **loads, int n, int slots)
{
    Block *body = loop->blocks[0];
    Value **bufs = arena_array(&c->s->arena, Value *, (size_t)n), *tiles[IR_MAX_RESULTS];
    const Type *types[IR_MAX_RESULTS];
    Builder b = ir_before(loop);
    if (c->regions.len) ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    Instr *straight[IR_MAX_RESULTS];
    Value *straight_bufs[IR_MAX_RESULTS];
    int n_straight = 0;
    /* Without registers where four words a lane go at once; single words are four times the instructions, for registers that are not short. Not beside loads of the
     * body's own: the compiler does not count what goes to LDS, and would wait for all of it when it waits for those. */
    for (int k = slots == 2 && target_has(c->p->target, TF_LDS_DMA_16) && !loads_of_its_own(body, loads, n) ? n : 0; k-- > 0;) {
        if (!direct(c, loads[k])) continue;
        Instr *x = loads[k];
        for (int j = k; j + 1 < n; j++) loads[j] = loads[j + 1];
        loads[n - 1] = x;
        n_straight++;
        n--;
    }
    for (int k = 0; k < n_straight; k++) {
        straight[k] = loads[n + k];
        straight_bufs[k] = allocate(c, &b, body, dma_type(c, straight[k], slots));
        ir_set_name(straight_bufs[k], arena_printf(&c->s->arena, "%s_ring", c->f->params[ir_operand(straight[k], 0)->index].name));
    }
    for (int k = 0; k < n; k++) {
        bufs[k] = allocate(c, &b, body, buffer_type(c, loads[k], slots));
        types[k] = in_registers(c, loads[k]);
        ir_set_name(bufs[k], arena_printf(&c->s->arena, "%s_ring", c->f->params[ir_operand(loads[k], 0)->index].name));
    }
    if (n_straight) issue(c, &b, loop, straight, straight_bufs, n_straight, ir_operand(loop, 0), i32(&b, 0));
    fetch(c, &b, loop, loads, types, n, ir_operand(loop, 0), tiles);
    if (n_straight) ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    for (int k = 0; k < n; k++) write_shared(&b, slot_view(&b, bufs[k], i32(&b, 0)), tiles[k]);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    Value *slot = NULL, *other = NULL;
    if (slots == 2) {
        loop = ir_add_carried(loop, i32(&b, 0), NULL);
        body = loop->blocks[0];
        slot = body->args[body->n_args - 1];
        ir_set_name(slot, "slot");
    }
    b = (Builder){ .module = c->f->module, .block = body, .before = body->first, .loc = loop->loc };
    if (slot) other = ir_bin(&b, OP_SUB, i32(&b, 1), slot);
    else slot = other = i32(&b, 0);
    /* behind this step's own loads, whose wait would take in all that was issued before */
    Builder later = b;
    Instr *own = NULL, *pass = NULL;
    for (Instr *i = body->first; i; i = i->next) {
        bool staged = false;
        for (int k = 0; k < n + n_straight; k++) staged |= i == loads[k];
        if (i->op == OP_LOAD && !staged) pass = i;
        if (i->op == OP_MMA_SYNC && pass) own = pass;
    }
    if (own) later = ir_after(own);
    later.loc = loop->loc;
    Value *following = ir_bin(&later, OP_ADD, body->args[0], ir_operand(loop, 2));
    if (n_straight) issue(c, &later, loop, straight, straight_bufs, n_straight, following, other);
    fetch(c, &later, loop, loads, types, n, following, tiles);
    for (int k = 0; k < n + n_straight; k++) {
        Value *view = slot_view(&b, k < n ? bufs[k] : straight_bufs[k - n], slot);
        ir_set_name(view, arena_printf(&c->s->arena, "%s_tile", c->f->params[ir_operand(loads[k], 0)->index].name));
        ir_replace(ir_result(loads[k]), view);
    }
    for (int k = 0; k < n + n_straight; k++) ir_erase(loads[k]);
    b = ir_before(ir_terminator(body));
    if (n_straight) ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    if (slots == 1) ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) write_shared(&b, slot_view(&b, bufs[k], other), tiles[k]);
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    if (slots == 2) ir_set_operand(ir_terminator(body), loop->n_results - 1, other);
}

static void pipeline(Ctx *c, Instr *loop, Instr **loads, int n, int stages)
{
    int each = 0;               /* AMD: loads to LDS of a step */
    Block *body = loop->blocks[0];
    Value **bufs = arena_array(&c->s->arena, Value *, (size_t)n);
    Builder b = ir_before(loop);
    /* The space may be what an earlier loop read last. */
    if (c->regions.len) ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    for (int k = 0; k < n; k++) {
        bufs[k] = allocate(c, &b, body, by_registers(c) ? dma_type(c, loads[k], stages) : buffer_type(c, loads[k], stages));
        ir_set_name(bufs[k], arena_printf(&c->s->arena, "%s_ring", c->f->params[ir_operand(loads[k], 0)->index].name));
        if (by_registers(c)) each += dma_count(c, loads[k]);
    }
    Value *lo = ir_operand(loop, 0), *step = ir_operand(loop, 2), *at = lo;
    for (int s = 0; s < stages - 1; s++) {
        if (s) at = ir_bin(&b, OP_ADD, at, step);
        issue(c, &b, loop, loads, bufs, n, at, i32(&b, s));
    }
    loop = ir_add_carried(loop, i32(&b, 0), NULL);
    body = loop->blocks[0];
    Value *slot = body->args[body->n_args - 1];
    ir_set_name(slot, "slot");
    b = (Builder){ .module = c->f->module, .block = body, .before = body->first, .loc = loop->loc };
    Instr *wait = ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, stages - 2)), NULL, 0);
    if (each) ir_set_attr(c->s, wait, a_int(ATTR_COUNT, each));
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
    Value *ahead = body->args[0];
    for (int s = 0; s < stages - 1; s++) ahead = ir_bin(&b, OP_ADD, ahead, ir_operand(loop, 2));
    Value *fill = ir_bin(&b, OP_ADD, slot, i32(&b, stages - 1));
    Value *beyond = ir_bin(&b, OP_GE, fill, i32(&b, stages)), *around = ir_bin(&b, OP_SUB, fill, i32(&b, stages));
    fill = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, beyond, around, fill);
    /* behind the first product: its fragments are read and its instructions queued before the copies take the issue slots */
    Builder later = b;
    for (Instr *i = b.before; i; i = i->next) if (i->op == OP_MMA_SYNC) { later = ir_after(i); break; }
    later.loc = loop->loc;
    issue(c, &later, loop, loads, bufs, n, ahead, fill);
    for (int k = 0; k < n; k++) {
        Value *view = slot_view(&b, bufs[k], slot);
        ir_set_name(view, arena_printf(&c->s->arena, "%s_tile", c->f->params[ir_operand(loads[k], 0)->index].name));
        ir_replace(ir_result(loads[k]), view);
    }
    for (int k = 0; k < n; k++) ir_erase(loads[k]);         /* not before: the builder may stand before one of them */
    b = ir_before(ir_terminator(body));
    Value *next = ir_bin(&b, OP_ADD, slot, i32(&b, 1));
    Value *at_end = ir_bin(&b, OP_EQ, next, i32(&b, stages)), *zero = i32(&b, 0);
    next = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, at_end, zero, next);
    ir_set_operand(ir_terminator(body), loop->n_results - 1, next);
    b = ir_after(loop);
    if (each) ir_build(&b, OP_COPY_WAIT, NULL, 0, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);        /* what was asked for beyond the last step arrives as zeros */
    ir_build(&b, OP_BARRIER, NULL, 0, NO_ATTRS, NULL, 0);
}

/* Can the load run ahead of the loop that holds it? */
static bool runs_ahead(const Instr *load)
{
    const Instr *loop = load->block->parent;
    MemParts m;
    if (!loop || loop->op != OP_FOR) return false;
    ir_mem_parts(load, &m);
    int steps = 256;
    for (int a = 0; a < m.rank; a++) if (!from_counter(m.idx[a], load->block, &steps)) return false;
    return true;
}

/* AMD: all staged tiles of the loop go straight to LDS, and the loop has no loads of its own, whose waits would count those too. */
static bool all_direct(Ctx *c, const Instr *loop, Instr *const *loads, int n)
{
    for (int k = 0; k < n; k++) if (!direct(c, loads[k])) return false;
    return !loads_of_its_own(loop->blocks[0], loads, n);
}

static bool staged_by_schedule(Ctx *c, const Instr *load)
{
    const Decision *d = schedule_asked_load(c->p, load);
    return d && d->form == LOAD_STAGED;
}

static void stage_alone(Ctx *c, Instr *load)
{
    schedule_take_load(c->p, load, LOAD_STAGED, 0);
    single(c, load);
}

/* The slots that a schedule asks for the loads of a loop, which share their place in them; NULL: none. */
static const Decision *asked_slots(Ctx *c, Instr *const *loads, int n)
{
    const Decision *all = NULL;
    for (int k = 0; k < n; k++) {
        const Decision *d = schedule_asked_load(c->p, loads[k]);
        if (d && all && (d->n[0] != all->n[0] || d->form != all->form)) { schedule_refuse(c->p, d, "loads of one loop share their place in their rings, and another one has %d slots%s", all->n[0], all->form == LOAD_RING ? "" : " by registers"); return all; }
        if (d) all = d;
    }
    return all;
}

/* Stages derived from the loads' hints and from what fits. */
static int derived_stages(Ctx *c, Instr *const *loads, int n, bool copies, int fit, int64_t each, int64_t left)
{
    int stages = 2;
    for (int k = 0; k < n; k++) {
        int want = (int)ir_attr_int(loads[k], ATTR_LATENCY, 3);
        if (want > stages) stages = want;
    }
    if (!copies && stages > 3) {
        diag_perf(c->s, loads[0]->loc, "latency = %d: the tiles of this loop come by way of registers, which hold one step: 3 stages are used", stages);
        stages = 3;
    }
    if (!copies && c->p->options.thrift) stages = 1;
    if (stages > fit) {
        diag_perf(c->s, loads[0]->loc, "%d stages of %lld bytes do not fit shared memory (%lld bytes left): %d are used", stages, (long long)each, (long long)left, fit < 1 ? 1 : fit);
        stages = fit;
    }
    return stages;
}

/* All loads of a loop that can run ahead share one place in their rings. */
static void stage_loop(Ctx *c, size_t from, int64_t limit)
{
    Instr *first = c->loads.data[from], *loop = first->block->parent;
    Instr **group = arena_array(&c->s->arena, Instr *, c->loads.len);
    int n = 0;
    int64_t each = 0, left = limit - bytes_before(c, first->block);
    for (size_t j = from; j < c->loads.len; j++) {
        Instr *l = c->loads.data[j];
        if (!l || l->block != first->block || !runs_ahead(l) || staged_by_schedule(c, l)) continue;
        each += slot_bytes(c, buffer_type(c, l, 1));
        group[n++] = l;
        c->loads.data[j] = NULL;
    }
    int fit = left > 0 ? (int)(left / each) : 0, extra;
    const Decision *asked = asked_slots(c, group, n);
    bool detour = asked && asked->form == LOAD_RING_REGISTERS, copies = !by_registers(c) || (!detour && fit >= 2 && all_direct(c, loop, group, n));
    if (detour && copies) { schedule_refuse(c->p, asked, "%s copies to shared memory without a detour by registers: `ring N`", c->p->target->name); return; }
    extra = copies ? 0 : 1;     /* AMD: one buffer more is in registers, and one is all that a lane has room for */
    if (!copies) fit = fit > 2 ? 3 : fit + 1;
    int least = copies ? 2 : 1, stages = asked ? asked->n[0] + extra : derived_stages(c, group, n, copies, fit, each, left);
    if (asked && (stages - extra < least || stages > fit)) {
        schedule_refuse(c->p, asked, "the rings of this loop take %d slots or more, of %lld bytes together: %d fit", least, (long long)each, fit - extra);
        return;
    }
    for (int k = 0; k < n && stages >= 2; k++) schedule_take_load(c->p, group[k], copies ? LOAD_RING : LOAD_RING_REGISTERS, stages - extra);
    if (stages < 2) for (int k = 0; k < n; k++) stage_alone(c, group[k]);
    else if (!copies) pipeline_registers(c, loop, group, n, stages - 1);
    else pipeline(c, loop, group, n, stages);
}

/* Is it read in loops only, once, as the left operand of a matrix instruction? */
static bool left_of_loops(const Instr *load)
{
    const Value *v = ir_result(load);
    const Use *u = v->uses;
    return u && !u->next && u == &u->user->operands[0] && u->user->block != load->block && strcmp(ir_attr(u->user, ATTR_INSTR)->s, "fma");
}

void kernel_stage(Session *s, Func *f, KernelPlan *p)
{
    Ctx c = { .s = s, .f = f, .p = p };
    InstrList all = { 0 };
    ir_collect(&s->arena, f->body, OP_LOAD, &all);
    for (size_t k = 0; k < all.len; k++) if (eligible(all.data[k])) vec_push(&s->arena, &c.loads, all.data[k]);
    /* leave room for conversions and reductions across warps */
    int64_t limit = c.limit = p->target->shared_bytes - p->parts_bytes - (p->options.reserve > 2048 ? p->options.reserve : 2048);
    for (size_t i = 0; i < c.loads.len; i++) {                  /* the body's own first: they stay */
        Instr *l = c.loads.data[i];
        const Decision *d = schedule_asked_load(p, l);
        if (d && (d->form == LOAD_AHEAD || (d->form >= LOAD_RING && !runs_ahead(l))))
            schedule_refuse(p, d, "this load feeds a product without roles: it goes to registers, is staged where it stands, or, if its offsets follow from a loop's counter, goes through a ring");
        else if (d ? d->form == LOAD_REGISTERS : l->block == f->body && by_registers(&c) && left_of_loops(l) && p->options.thrift < 2) schedule_take_load(p, l, LOAD_REGISTERS, 0);
        else if (l->block == f->body) stage_alone(&c, l);
        else continue;
        c.loads.data[i] = NULL;
    }
    for (size_t i = 0; i < c.loads.len; i++) {
        Instr *l = c.loads.data[i];
        if (l && runs_ahead(l) && !staged_by_schedule(&c, l)) stage_loop(&c, i, limit);
        else if (l) stage_alone(&c, l);
    }
}
