/* emit_hopper.c: sm_90a: rings filled by TMA, wgmma, warp roles.
 *
 * A ring is `depth` stages with a full mbarrier (one arrival, the producer's expect_tx, and the bytes of the
 * copies) and an empty mbarrier (one arrival a consumer warp) each. Each role walks it with a stage number
 * and a phase bit of its own; the consumers walk it twice, to get and, later, to release. PTX ISA 9.7.13
 * (mbarrier, cp.async.bulk.tensor), 9.7.15 (wgmma), 9.7.20 (setmaxnreg). */
#include "backends/gpu/emit_roles.h"
#include "backends/gpu/emit_cluster.h"

const RingInfo *emit_ring_of(Emit *e, const Value *v)
{
    for (size_t k = 0; k < e->rings.len; k++)
        if (e->rings.data[k].value == v) return &e->rings.data[k];
    ir_fail(e->s, e->f->loc, "a ring is used before it is made");
}

static void emit_ring(Emit *e, Instr *i)
{
    const Type *t = ir_result(i)->type;
    const LayoutShared *s = layouts_shared(&e->plan->layouts, t);
    RingInfo r = { .value = ir_result(i),
        .depth = (int)t->shape[0],
        .arrivals = (int)ir_attr_int(i, ATTR_COUNT, 1),
        .ctas = (int)ir_attr_int(i, ATTR_CLUSTER, 1),
        .bytes = kernel_ring_bytes(s) };
    int64_t align = kernel_ring_align(s);
    r.name = name_of(e, ir_result(i));
    for (const Use *u = ir_result(i)->uses; u; u = u->next) r.none |= u->user->op == OP_RING_NONE;
    e->shared_bytes = (e->shared_bytes + align - 1) / align * align;
    line(e, "const u32 %s = shared_base + %lld;    /* %d stages of %lld bytes */", r.name,
        (long long)e->shared_bytes, r.depth, (long long)r.bytes);
    note_shared(e, i, e->shared_bytes, r.bytes * r.depth);
    e->shared_bytes += r.bytes * r.depth;
    e->storage[ir_result(i)->id] = r.name;
    vec_push(&e->s->arena, &e->rings, r);
}

void emit_advance(Emit *e, const RingInfo *r, const char *stage, const char *phase)
{
    if (r->depth == 1) {
        if (phase) line(e, "%s ^= 1;", phase);
        return;
    }
    if (phase) line(e, "if (++%s == %d) { %s = 0; %s ^= 1; }", stage, r->depth, stage, phase);
    else line(e, "if (++%s == %d) %s = 0;", stage, r->depth, stage);
}

void emit_pixel_axes(const Attr *pixels, int unit, int rank, int *axes)
{
    int batch = rank * (rank - 1) / 2 - unit;
    axes[0] = unit;
    for (int k = 0; k < rank - 2; k++) batch -= axes[1 + k] = (int)pixels->v[4 * k];
    axes[rank - 1] = batch;
}

/* The map of a window whose rows are consecutive pixels. */
static TensorMapDesc pixels_map(const Instr *i, const Window *w, const LayoutShared *s, DType d)
{
    const Attr *x = ir_attr(i, ATTR_IM2COL), *ext = ir_attr(i, ATTR_EXTENTS);
    TensorMapDesc m = { .param = w->param, .rank = w->rank, .dtype = d };
    emit_pixel_axes(x, w->unit, w->rank, m.axes);
    for (int k = 0; k < x->n / 4; k++) {
        const int64_t *v = x->v + 4 * k;
        m.step[1 + k] = v[1] == 1 ? 0 : (uint32_t)v[1];
        m.lower[k] = (int)v[2];
        m.upper[k] = (int)v[3];
    }
    m.box[0] = (uint32_t)s->panel;
    m.pixels = 1;
    for (int a = 0; a < ext->n; a++)
        if (a != w->unit && ext->v[a] > 0) m.pixels *= (int)ext->v[a];
    return m;
}

static int map_for(Emit *e, const RingInfo *r, const Instr *i, const Window *w, const LayoutShared *s)
{
    const Type *t = e->f->params[w->param].type;
    const Attr *ext = ir_attr(i, ATTR_EXTENTS);
    TensorMapDesc d = { .param = w->param, .rank = w->rank, .dtype = t->dtype };
    int n = 0;
    bool pixels = ir_attr(i, ATTR_IM2COL) != NULL;
    if (pixels) d = pixels_map(i, w, s, t->dtype);
    else d.axes[n++] = w->unit;
    for (int a = w->rank - 1; a >= 0 && !pixels; a--)
        if (a != w->unit) d.axes[n++] = a;
    for (int k = 0; k < w->rank && !pixels; k++) {
        int ta = w->tile_axis[d.axes[k]];
        d.box[k] = ta < 0 ? 1 : k == 0 ? (uint32_t)s->panel : (uint32_t)ext->v[d.axes[k]];
        if (ta >= 0 && w->step[d.axes[k]] != 1) d.step[k] = (uint32_t)w->step[d.axes[k]];
    }
    int bits, base, shift, part;
    if (r->ctas > 1 && kernel_multicast_parts(s, i, w->unit, r->ctas, &part) == 1)
        for (int k = 0; k < w->rank; k++)
            if (d.axes[k] == part) d.box[k] /= (uint32_t)r->ctas;
    layout_shared_swizzle(s, &bits, &base, &shift);
    d.swizzle_bytes = bits ? 16 << bits : 0;
    for (size_t k = 0; k < e->maps.len; k++)
        if (!memcmp(&e->maps.data[k], &d, sizeof d)) return (int)k;
    vec_push(&e->s->arena, &e->maps, d);
    return (int)e->maps.len - 1;
}

/* The layout of the copied tile in a stage: that of the ring, or, for a part of a tile, its own. */
static const LayoutShared *stage_layout(Emit *e, const Instr *put, int parts)
{
    if (!parts) return layouts_shared(&e->plan->layouts, ir_operand(put, 0)->type);
    const Attr *x = ir_attr(put, ATTR_EXTENTS);
    int64_t rows = 1, columns = 0; /* All axes but the last one are rows. */
    for (int a = 0; a < x->n; a++) {
        if (x->v[a] <= 0) continue;
        if (columns) rows *= columns;
        columns = x->v[a];
    }
    return kernel_stage_part(
        &e->s->arena, rows, columns, parts, dtype_bytes(ir_operand(put, 0)->type->dtype));
}

/* Copies a window to a stage of the ring. `column`: the column at which the part in this stage begins, for a
 * tile in several stages. A window in parts is copied to its own rows of the stage; the first part waits for
 * the stage, and the last one completes it. */
static void put_stage(Emit *e, Instr *i, const LayoutShared *s, const Window *window, int64_t column)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    Window w = *window;
    int map = map_for(e, r, i, &w, s), panels = 1, part = -1;
    const TensorMapDesc *d = &e->maps.data[map];
    panels = (s->tile[s->order[0]] + s->panel - 1) / s->panel;
    int64_t bytes = (int64_t)panels * s->panel * dtype_bytes(d->dtype);
    const Attr *ext = ir_attr(i, ATTR_EXTENTS);
    for (int a = 0; a < ext->n; a++)
        if (a != w.unit && ext->v[a] > 0) bytes *= ext->v[a];
    bool shared = r->ctas > 1, by_panels = shared && !kernel_multicast_parts(s, i, w.unit, r->ctas, &part);
    const RingInfo *at = emit_barriers_of(e, r);
    const char *stage = r->depth > 1 ? str(e, "%s_stage", at->name) : "0";
    int64_t parts = ir_attr_int(i, ATTR_PARTS, 1), number = 0, begins = 0;
    if (parts > 1) ir_is_const(ir_operand(i, 2 + w.rank), &number);
    begins = number * (bytes / panels / (s->panel * dtype_bytes(d->dtype))) * s->pitch;
    if (!number && at == r)
        line(e, "%s(%s_empty + 8 * %s, %s_phase ^ 1);", use(e, shared ? "mbar_wait_cluster" : "mbar_wait"),
            r->name, stage, r->name);
    if (!number && at == r)
        line(e, "%s(%s_full + 8 * %s, %lld);", use(e, "mbar_expect"), r->name, stage,
            (long long)(bytes * parts + (emit_shares_barriers(e, r) ? emit_joined_bytes(e, i) : 0)));
    if (by_panels) panels /= r->ctas;
    for (int p = 0; p < panels; p++) {
        const char *c = "", *to = str(e, "%s + %s * %lld", r->name, stage, (long long)r->bytes);
        if (by_panels) to = str(e, "%s + block * %d", to, panels * s->panel_bytes);
        else if (shared) to = str(e, "%s + block * %lld", to, (long long)(bytes / panels / r->ctas));
        if (p || begins) to = str(e, "%s + %lld", to, (long long)(p * s->panel_bytes + begins));
        for (int k = 0; k < w.rank; k++) {
            const Value *offset = w.offset[d->axes[k]];
            int64_t along = k == 0 ? column + p * s->panel : 0;
            const char *o =
                along ? str(e, "%s + %lld", name_of(e, offset), (long long)along) : name_of(e, offset);
            if (by_panels && k == 0) o = str(e, "%s + block * %d", o, panels * s->panel);
            if (d->axes[k] == part)
                o = str(e, "%s + block * %u", o, d->box[k] * (d->step[k] ? d->step[k] : 1));
            bool moved = along || (by_panels && k == 0) || d->axes[k] == part;
            bool wide = dtype_bits(offset->type->dtype) > 32 && !(offset->def && offset->def->op == OP_CONST);
            if (wide)
                c = str(e, "%s, %s(%s)%s", c, use(e, "tma_coordinate"), o,
                    k ? "" : str(e, " & -%d", 16 / dtype_bytes(d->dtype)));
            else c = str(e, moved || offset->type->dtype != DT_I32 ? "%s, (i32)(%s)" : "%s, %s", c, o);
        }
        for (int k = 0; d->pixels && k < w.rank - 2; k++)
            c = str(e, "%s, %s", c, name_of(e, ir_operand(i, 2 + w.rank + k)));
        const char *how = shared ? "multicast" : d->pixels ? "im2col" : "load";
        line(e, "%s(%s, &%s, %s_full + 8 * %s%s%s);",
            use(e, str(e, "tma_%s%s_%dd", how, d->pixels ? "" : window_hint(e, &w, ACCESS_TMA), w.rank)), to,
            slot_name(e, SLOT_TENSOR_MAP, w.param, map, d->dtype), at->name, stage,
            shared ? str(e, ", %d", r->ctas) : "", c);
    }
    if (number == parts - 1 && (!emit_shares_barriers(e, r) || emit_is_last_of_joined(e, i)))
        emit_advance(e, at, stage, str(e, "%s_phase", at->name));
}

static void emit_put(Emit *e, Instr *i)
{
    int parts = (int)ir_attr_int(i, ATTR_COUNT, 0);
    const LayoutShared *s = stage_layout(e, i, parts);
    Window w;
    window_of(e, i, &w);
    note_tensor(e, WAY_TMA, false, &w, NULL, NULL);
    note_unit(e, true, s, ir_operand(i, 0));
    for (int k = 0; k < (parts ? parts : 1); k++) put_stage(e, i, s, &w, (int64_t)k * s->tile[s->order[0]]);
}

/* For each part: wait, read fragments by ldmatrix, release the stage. */
static void emit_ring_read(Emit *e, Instr *i)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    const Type *t = ir_result(i)->type;
    int parts = (int)ir_attr_int(i, ATTR_COUNT, 1), columns = (int)(t->shape[1] / parts);
    const LayoutShared *s =
        kernel_stage_part(&e->s->arena, t->shape[0], t->shape[1], parts, dtype_bytes(t->dtype));
    const Layout *l = kernel_stage_fragments(e->s, e->plan, i, columns);
    const char *stage = r->depth > 1 ? str(e, "%s_stage", r->name) : "0", *to = declare_tile(e, ir_result(i));
    LayoutVector v;
    layout_shared_vector(l, s, 16, &v);
    for (int k = 0; k < parts; k++) {
        const char *view = tmp(e, "view"),
                   *array = k ? str(e, "(%s + %d)", to, k * array_len(t->dtype, (int)layout_regs(l))) : to;
        line(e, "%s(%s_full + 8 * %s, %s_phase);", use(e, "mbar_wait"), r->name, stage, r->name);
        line(e, "const u32 %s = %s + %s * %lld;", view, r->name, stage, (long long)r->bytes);
        if (v.bytes > 4 || !emit_matrix_read(e, array, t->dtype, l, s, view))
            take_shared(e, array, t->dtype, l, s, &v, view);
        const char *read = emit_has_read(e, "", t->dtype, array, array_len(t->dtype, (int)layout_regs(l)));
        line(e, "%s();", use(e, "warp_sync"));
        line(e, "if (lane == 0) %s(%s_empty + 8 * %s%s);", use(e, "mbar_arrive"), r->name,
            r->depth > 1 ? str(e, "%s_free", r->name) : "0", read);
        emit_advance(e, r, stage, str(e, "%s_phase", r->name));
        if (r->depth > 1) emit_advance(e, r, str(e, "%s_free", r->name), NULL);
    }
}

/* Whether threads fill the ring. Then the reader must make their writes visible to the asynchronous proxy of
 * wgmma. A fence waits for all accesses that its thread has in flight. In a cp.async producer it would also
 * wait for the copies of the next step, so it is in the reader. A fence anywhere between write and read
 * orders them (PTX ISA 8.9.4, proxy-preserved base causality order). */
static bool is_by_cp_async(const Emit *e, const RingInfo *r)
{
    for (size_t k = 0; k < e->fills.len; k++)
        if (e->fills.data[k].ring == r) return true;
    return false;
}

static void emit_get(Emit *e, Instr *i)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    const RingInfo *at = emit_barriers_of(e, r);
    const char *stage = r->depth > 1 ? str(e, "%s_stage", at->name) : "0";
    if (!emit_shares_barriers(e, r) || emit_is_first_of_joined(e, i))
        line(e, "%s(%s_full + 8 * %s, %s_phase);", use(e, "mbar_wait"), at->name, stage, at->name);
    if (is_by_cp_async(e, r)) line(e, "%s();", use(e, "fence_proxy_async"));
    declare(e, ir_result(i), str(e, "%s + %s * %lld", r->name, stage, (long long)r->bytes));
    if (at == r) emit_advance(e, r, stage, str(e, "%s_phase", r->name));
}

/* The address after the last stage: one more stage, for all accesses to it. */
static void emit_none(Emit *e, Instr *i)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    declare(e, ir_result(i), str(e, "%s + %lld", r->name, (long long)(r->depth * r->bytes)));
}

/* The rows of a view. The swizzle depends on bits of the address, whatever row a product begins at. */
static void emit_slice(Emit *e, Instr *i)
{
    const LayoutShared *s = layouts_shared(&e->plan->layouts, ir_result(i)->type);
    int64_t bytes = ir_attr_int(i, ATTR_START, 0) * s->panel * s->elem_bytes;
    if (ir_attr_int(i, ATTR_AXIS, 0) != s->order[1] || s->rank != 2 || s->pitch != s->panel * s->elem_bytes)
        ir_fail(e->s, i->loc, "a slice of a view along an axis that is not its rows");
    declare(e, ir_result(i), str(e, "%s + %lld", name_of(e, ir_operand(i, 0)), (long long)bytes));
}

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

/* Behind all programs of a CTA. */
static void end_consumers(Emit *e)
{
    emit_shares_end(e);
    emit_writer_end(e);
}

static void open_role(Emit *e, Block *b, int role)
{
    Body *out = e->out, *pre = e->pre, inner = { 0 }, decl = { 0 };
    KernelPlan *p = e->plan;
    int threads = e->threads;
    bool producer = role == ROLE_PRODUCER, consumer = role == ROLE_CONSUMER;
    static const Op walks[] = {
        [ROLE_PRODUCER] = OP_RING_PUT, [ROLE_CONSUMER] = OP_RING_GET, [ROLE_CP_ASYNC] = OP_RING_CP_ASYNC
    };
    e->coords.len = 0;
    e->role = role;
    e->out = &inner;
    e->pre = &decl;
    e->indent = producer ? 3 : 2;
    if (!producer) {
        e->threads = (consumer ? p->warps : p->cp_async_warps) * 32;
        e->barrier_id = 1;
    }
    e->line = 0;
    e->dynamic = e->bulk = false;
    if (consumer) emit_workspace_enter(e);
    emit_block(e, b);
    if (consumer) end_consumers(e);
    if (e->bulk) line(e, "if (lane == 0) %s(0);", use(e, "bulk_wait"));
    if (producer && p->multicast) emit_cluster_leave(e);
    e->out = out;
    e->pre = pre;
    e->threads = threads;
    e->indent = 2;
    if (p->warps > 4 && (consumer || !p->cp_async_warps)) {
        if (!consumer)
            line(e, "%s(%d);", use(e, "setmaxnreg_dec"),
                producer ? p->producer_registers : p->cp_async_registers);
        else line(e, "%s(%d);", use(e, "setmaxnreg_inc"), p->consumer_registers);
    }
    /* The producer thread is elected. With a condition on tid, ptxas would put a loop over the lanes around
     * each copy, because the operands of the copy could differ among lanes. */
    if (producer) line(e, "if (warp == 0 && %s()) {", use(e, "elect_lane"));
    else
        line(e, "const int tid = threadIdx.x - %d, warp = uniform(tid >> 5);\n        (void)tid; (void)warp;",
            (p->producer_warps + (consumer ? p->cp_async_warps : 0)) * 32);
    for (size_t k = 0; k < e->rings.len; k++) {
        const RingInfo *r = &e->rings.data[k];
        if (r->joins || !ir_any_in(b, is_use, &(RingUse){ r->value, walks[role] })) continue;
        line(e, "%su32 %s_phase = 0%s%s;", producer ? "    " : "", r->name,
            r->depth > 1 ? str(e, ", %s_stage = 0", r->name) : "",
            consumer && r->depth > 1 ? str(e, ", %s_free = 0", r->name) : "");
    }
    if (has_scheduler(b)) line(e, "%su32 scheduled_phase = 0, scheduled_stage = 0;", producer ? "    " : "");
    if (role == ROLE_CP_ASYNC) emit_cp_async_state(e);
    if (consumer) emit_halves_counts(e, b);
    if (consumer && ir_holds(b, OP_PINGPONG_WAIT))
        line(e, "if (warp >> 2 == %d) %s(2, 256);    /* the first turn is warpgroup 0's */", p->warps / 4 - 1,
            use(e, "bar_arrive"));
    body_append(e->out, &decl);
    body_append(e->out, &inner);
    if (producer) line(e, "}");
    if (producer) emit_writer(e);
    e->indent = 1;
    e->role = -1;
    e->barrier_id = 0;
    e->coords.len = 0;
}

/* Prefetches the tensor maps of a block's copies while the barriers are set up. */
static void prefetch_maps(Emit *e, Block *b, bool *done)
{
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) prefetch_maps(e, i->blocks[k], done);
        if (i->op != OP_RING_PUT) continue;
        Window w;
        window_of(e, i, &w);
        int map = map_for(e, emit_ring_of(e, ir_operand(i, 0)), i, &w,
            stage_layout(e, i, (int)ir_attr_int(i, ATTR_COUNT, 0)));
        if (map < 64 && !done[map])
            line(e, "%s(&%s);", use(e, "prefetch_map"),
                slot_name(e, SLOT_TENSOR_MAP, w.param, map, e->maps.data[map].dtype));
        if (map < 64) done[map] = true;
    }
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

static void emit_roles(Emit *e, Instr *i)
{
    bool done[64] = { false };
    KernelPlan *p = e->plan;
    place_barriers(e);
    if (i->op == OP_CP_ASYNC_ROLES) place_stages(e, i->blocks[2]);
    if (has_scheduler(i->blocks[1])) {
        line(e,
            "const u32 scheduled_full = shared_base + %lld, scheduled_empty = scheduled_full + 16, "
            "scheduled_word = "
            "scheduled_full + 32;",
            (long long)e->shared_bytes);
        e->shared_bytes += 32 + 2 * SCHEDULED_BYTES;
        if (p->multicast) emit_cluster_places(e);
    }
    emit_writer_places(e, i->blocks[1]);
    line(e, "if (tid == 0) {");
    e->indent++;
    prefetch_maps(e, i->blocks[0], done);
    if (has_scheduler(i->blocks[1]))
        line(e,
            "for (int i = 0; i < 2; i++) { %s(scheduled_full + 8 * i, 1); %s(scheduled_empty + 8 * i, %d); }",
            use(e, "mbar_init"), use(e, "mbar_init"), p->warps + p->cp_async_warps);
    for (size_t k = 0; k < e->rings.len; k++) {
        const RingInfo *r = &e->rings.data[k];
        if (r->joins) continue;
        line(e, "for (int i = 0; i < %d; i++) { %s(%s_full + 8 * i, %d); %s(%s_empty + 8 * i, %d); }",
            r->depth, use(e, "mbar_init"), r->name, is_by_cp_async(e, r) ? p->cp_async_warps : 1,
            use(e, "mbar_init"), r->name, r->arrivals * r->ctas);
        if (r->none && r->ctas < 2)
            line(e, "%s(%s_empty + %d, %d);    /* of no stage: nobody waits for it */", use(e, "mbar_init"),
                r->name, 8 * r->depth, r->arrivals * r->ctas);
    }
    emit_writer_barriers(e);
    if (p->multicast && has_scheduler(i->blocks[1])) emit_cluster_barriers(e);
    line(e, "%s();", use(e, "fence_mbarrier_init"));
    end_block(e);
    emit_start(e);
    if (p->multicast) emit_cluster_meet(e);
    else line(e, "__syncthreads();");
    if (p->cp_async_warps && p->warps > 4)
        line(e, "if (warp < %d) %s(%d);", p->producer_warps + p->cp_async_warps, use(e, "setmaxnreg_dec"),
            p->cp_async_registers);
    line(e, "if (warp < %d) {    /* producer: one thread starts the copies */", p->producer_warps);
    open_role(e, i->blocks[0], ROLE_PRODUCER);
    if (p->cp_async_warps) {
        line(e,
            "} else if (warp < %d) {    /* cp.async producers: %d warps copy to stages what TMA cannot */",
            p->producer_warps + p->cp_async_warps, p->cp_async_warps);
        open_role(e, i->blocks[2], ROLE_CP_ASYNC);
    }
    line(e, "} else {    /* consumers: %d warpgroups */", p->warps / 4);
    open_role(e, i->blocks[1], ROLE_CONSUMER);
    line(e, "}");
}

static void emit_vote(Emit *e, Instr *i)
{
    Value *v = ir_operand(i, 0);
    const char *n = name_of(e, ir_result(i)), *any = tmp(e, "any");
    if (v->type->kind == TYPE_SCALAR)
        line(e, "const bool %s = %s(%s);", n, use(e, "vote_any"), name_of(e, v));
    else {
        const Layout *l = layout_of(e, v);
        line(e, "bool %s = false;", any);
        begin_unrolled(e, "i", (int)layout_regs(l));
        line(e, "%s |= %s;", any, element(e, v, l, index_variable(e, "i")));
        end_block(e);
        line(e, "const bool %s = %s(%s);", n, use(e, "vote_any"), any);
    }
    e->storage[ir_result(i)->id] = n;
}

static void emit_ring_op(Emit *e, Instr *i)
{
    switch (op_as_ring(i->op)) {
    case KERNEL_RING: emit_ring(e, i); return;
    case KERNEL_RING_PUT: emit_put(e, i); return;
    case KERNEL_RING_CP_ASYNC: emit_cp_async(e, i); return;
    case KERNEL_RING_GET: emit_get(e, i); return;
    case KERNEL_RING_READ: emit_ring_read(e, i); return;
    case KERNEL_RING_NONE: emit_none(e, i); return;
    case KERNEL_RING_RELEASE: emit_release(e, i); return;
    }
}

void emit_hopper(Emit *e, Instr *i)
{
    int groups = e->plan->warps / 4;
    if (op_family(i->op) == OPS_RING) emit_ring_op(e, i);
    else if (i->op == OP_NEXT_PROGRAM) emit_next_program(e, i);
    else if (i->op == OP_SHARED_SLICE) emit_slice(e, i);
    else if (i->op == OP_SHARED_TRANSPOSE) declare(e, ir_result(i), name_of(e, ir_operand(i, 0)));
    else if (i->op == OP_WGMMA) emit_wgmma(e, i);
    else if (i->op == OP_WGMMA_PROMOTED) emit_promoted(e, i);
    else if (i->op == OP_WGMMA_WAIT) emit_wgmma_wait(e, i);
    else if (kernel_is_roles(i->op)) emit_roles(e, i);
    else if (i->op == OP_WARPGROUP_ANY) emit_vote(e, i);
    else if (i->op == OP_PINGPONG_WAIT) line(e, "%s(2 + (warp >> 2), 256);", use(e, "bar_sync"));
    else if (i->op == OP_PINGPONG_PASS)
        line(e, "%s(2 + ((warp >> 2) + 1) %% %d, 256);", use(e, "bar_arrive"), groups);
    else ir_fail(e->s, i->loc, "%s is no Hopper operation", op_info[i->op].name);
}
