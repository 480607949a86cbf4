/* emit_ring.c: sm_90a: rings of stages in shared memory, filled by TMA.
 *
 * A ring is `depth` stages with a full mbarrier (one arrival, the producer's expect_tx, and the bytes of the
 * copies) and an empty mbarrier (one arrival a consumer warp) each. Each role walks it with a stage number
 * and a phase bit of its own; the consumers walk it twice, to get and, later, to release. PTX ISA 9.7.13
 * (mbarrier, cp.async.bulk.tensor). */
#include "backends/gpu/hopper/emit_roles.h"

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
        .in_round = 1,
        .bytes = kernel_ring_bytes(s) };
    int64_t align = kernel_ring_align(s);
    r.name = name_of(e, ir_result(i));
    for (const Use *u = ir_result(i)->uses; u; u = u->next) r.none |= u->user->op == OP_RING_NONE;
    e->shared_bytes = (e->shared_bytes + align - 1) / align * align;
    line(e, "const u32 %s = shared_base + %lld;    /* %d stages of %lld bytes */", r.name,
        (long long)e->shared_bytes, r.depth, (long long)r.bytes);
    note_shared(e, i, e->shared_bytes, r.bytes * r.depth);
    if (e->rings_to != e->shared_bytes) e->rings_from = e->shared_bytes;
    e->shared_bytes += r.bytes * r.depth;
    e->rings_to = e->shared_bytes;
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
        &e->s->arena, rows, columns, parts, dtype_bytes(ir_operand(put, 1)->type->dtype));
}

/* A copy of a window to a stage of the ring. Of a tile in several stages it is the part that begins at
 * `column`. CTAs of a cluster that load together copy a share each: whole panels, or a part of `split`. */
typedef struct Put {
    Instr *instr;
    const RingInfo *ring, *at; /* the ring, and the one whose barriers it uses */
    const LayoutShared *s;
    const Window *w;
    const TensorMapDesc *map;
    int number; /* of the map */
    int panels; /* that one CTA copies */
    bool shared, by_panels;
    int split;             /* the axis of the tensor that the CTAs divide; -1: none */
    int64_t column, bytes; /* bytes of the whole copy */
    int64_t parts, part,
        begins; /* a window in parts is copied to its own rows of the stage, from this byte */
} Put;

static Put put_of(Emit *e, Instr *i, const LayoutShared *s, const Window *w, int64_t column)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    Put p = { .instr = i, .ring = r, .at = emit_barriers_of(e, r), .s = s, .w = w, .column = column };
    const Attr *ext = ir_attr(i, ATTR_EXTENTS);
    p.number = map_for(e, r, i, w, s);
    p.map = &e->maps.data[p.number];
    p.panels = (s->tile[s->order[0]] + s->panel - 1) / s->panel;
    int64_t rows = 1;
    for (int a = 0; a < ext->n; a++)
        if (a != w->unit && ext->v[a] > 0) rows *= ext->v[a];
    p.bytes = rows * p.panels * s->panel * dtype_bytes(p.map->dtype);
    p.parts = ir_attr_int(i, ATTR_PARTS, 1);
    if (p.parts > 1) ir_is_const(ir_operand(i, 2 + w->rank), &p.part);
    p.begins = p.part * rows * s->pitch;
    p.split = -1;
    p.shared = r->ctas > 1;
    p.by_panels = p.shared && !kernel_multicast_parts(s, i, w->unit, r->ctas, &p.split);
    if (p.by_panels) p.panels /= r->ctas;
    return p;
}

/* The bytes that puts behind this one bring to its barrier. */
static int64_t joined_bytes(Emit *e, const Put *p)
{
    int64_t bytes = 0;
    for (Instr *i = p->instr->next; i && emit_shares_barriers(e, p->ring); i = i->next) {
        if (i->op != OP_RING_PUT || emit_barriers_of(e, emit_ring_of(e, ir_operand(i, 0))) != p->ring)
            continue;
        Window w;
        window_of(e, i, &w);
        bytes += put_of(e, i, stage_layout(e, i, 0), &w, 0).bytes;
    }
    return bytes;
}

/* The first part of a window waits until the stage is empty, and says how many bytes all copies bring. */
static void put_begin(Emit *e, const Put *p, const char *stage)
{
    const char *name = p->ring->name, *wait = p->shared ? "mbar_wait_cluster" : "mbar_wait";
    if (p->part || p->at != p->ring) return;
    int64_t bytes = p->bytes * p->parts + joined_bytes(e, p);
    line(e, "%s(%s_empty + 8 * %s, %s_phase ^ 1);", use(e, wait), name, stage, name);
    line(e, "%s(%s_full + 8 * %s, %lld);", use(e, "mbar_expect"), name, stage, (long long)bytes);
}

/* Where a panel goes in shared memory. */
static const char *put_place(Emit *e, const Put *p, const char *stage, int panel)
{
    const LayoutShared *s = p->s;
    const char *to = str(e, "%s + %s * %lld", p->ring->name, stage, (long long)p->ring->bytes);
    int64_t at = (int64_t)panel * s->panel_bytes + p->begins;
    if (p->by_panels) to = str(e, "%s + block * %d", to, p->panels * s->panel_bytes);
    else if (p->shared)
        to = str(e, "%s + block * %lld", to, (long long)(p->bytes / p->panels / p->ring->ctas));
    return panel || p->begins ? str(e, "%s + %lld", to, (long long)at) : to;
}

/* The coordinate of a panel along axis k of the map, for TMA: an i32. */
static const char *put_coordinate(Emit *e, const Put *p, int panel, int k)
{
    const TensorMapDesc *map = p->map;
    const Value *offset = p->w->offset[map->axes[k]];
    int64_t along = k == 0 ? p->column + (int64_t)panel * p->s->panel : 0;
    bool of_cta = p->by_panels && k == 0, divided = map->axes[k] == p->split;
    const char *x = name_of(e, offset);
    if (along) x = str(e, "%s + %lld", x, (long long)along);
    if (of_cta) x = str(e, "%s + block * %d", x, p->panels * p->s->panel);
    if (divided) x = str(e, "%s + block * %u", x, map->box[k] * (map->step[k] ? map->step[k] : 1));
    if (dtype_bits(offset->type->dtype) > 32 && !(offset->def && offset->def->op == OP_CONST))
        return str(e, "%s(%s)%s", use(e, "tma_coordinate"), x,
            k ? "" : str(e, " & -%d", 16 / dtype_bytes(map->dtype)));
    bool sum = along || of_cta || divided;
    return sum || offset->type->dtype != DT_I32 ? str(e, "(i32)(%s)", x) : x;
}

static void put_panel(Emit *e, const Put *p, const char *stage, int panel)
{
    const TensorMapDesc *map = p->map;
    int rank = p->w->rank;
    const char *c = "", *to = put_place(e, p, emit_stage_of(e, p->instr), panel);
    for (int k = 0; k < rank; k++) c = str(e, "%s, %s", c, put_coordinate(e, p, panel, k));
    for (int k = 0; map->pixels && k < rank - 2; k++)
        c = str(e, "%s, %s", c, name_of(e, ir_operand(p->instr, 2 + rank + k)));
    const char *how = p->shared     ? "multicast"
                      : map->pixels ? "im2col"
                                    : "load",
               *hint = map->pixels ? "" : window_hint(e, p->w, ACCESS_TMA);
    line(e, "%s(%s, &%s, %s_full + 8 * %s%s%s);", use(e, str(e, "tma_%s%s_%dd", how, hint, rank)), to,
        slot_name(e, SLOT_TENSOR_MAP, p->w->param, p->number, map->dtype), p->at->name, stage,
        p->shared ? str(e, ", %d", p->ring->ctas) : "", c);
}

static void put_stage(Emit *e, const Put *p)
{
    const char *name = p->at->name, *stage = p->at->depth > 1 ? str(e, "%s_stage", name) : "0";
    put_begin(e, p, stage);
    for (int k = 0; k < p->panels; k++) put_panel(e, p, stage, k);
    bool last = p->part == p->parts - 1;
    if (last && (!emit_shares_barriers(e, p->ring) || emit_is_last_of_joined(e, p->instr)))
        emit_advance(e, p->at, stage, str(e, "%s_phase", name));
}

static void emit_put(Emit *e, Instr *i)
{
    int parts = (int)ir_attr_int(i, ATTR_COUNT, 0);
    const LayoutShared *s = stage_layout(e, i, parts);
    Window w;
    window_of(e, i, &w);
    note_tensor(e, WAY_TMA, false, &w, NULL, NULL);
    note_unit(e, true, s, ir_operand(i, 0));
    for (int k = 0; k < (parts ? parts : 1); k++) {
        Put p = put_of(e, i, s, &w, (int64_t)k * s->tile[s->order[0]]);
        put_stage(e, &p);
    }
}

/* For each part: wait, read what a thread has of it, by ldmatrix where that is fragments, and release the
 * stage. */
static void emit_ring_read(Emit *e, Instr *i)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    const Type *t = ir_result(i)->type;
    int parts = (int)ir_attr_int(i, ATTR_COUNT, 1);
    const LayoutShared *s =
        kernel_stage_part(&e->s->arena, t->shape[0], t->shape[1], parts, dtype_bytes(t->dtype));
    const Layout *l = kernel_stage_registers(e->s, e->plan, i, layouts_get(&e->plan->layouts, t));
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

bool emit_is_by_cp_async(const Emit *e, const RingInfo *r)
{
    for (size_t k = 0; k < e->fills.len; k++)
        if (e->fills.data[k].ring == r) return true;
    return false;
}

static void emit_get(Emit *e, Instr *i)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    const RingInfo *at = emit_barriers_of(e, r);
    const char *stage = at->depth > 1 ? str(e, "%s_stage", at->name) : "0";
    if (emit_is_first_of_joined(e, i))
        line(e, "%s(%s_full + 8 * %s, %s_phase);", use(e, "mbar_wait"), at->name, stage, at->name);
    /* Threads filled the stage, and the asynchronous proxy of wgmma reads it. A fence anywhere between write
     * and read orders them (PTX ISA 8.9.4, proxy-preserved base causality order). It waits for all accesses
     * that its thread has in flight: in a cp.async producer also for the copies of the next step. */
    if (emit_is_by_cp_async(e, r)) line(e, "%s();", use(e, "fence_proxy_async"));
    declare(e, ir_result(i), str(e, "%s + %s * %lld", r->name, emit_stage_of(e, i), (long long)r->bytes));
    if (emit_is_last_of_joined(e, i)) emit_advance(e, at, stage, str(e, "%s_phase", at->name));
}

/* The address after the last stage: one more stage, for all accesses to it. */
static void emit_none(Emit *e, Instr *i)
{
    const RingInfo *r = emit_ring_of(e, ir_operand(i, 0));
    declare(e, ir_result(i), str(e, "%s + %lld", r->name, (long long)(r->depth * r->bytes)));
}

void emit_prefetch_maps(Emit *e, Block *b, bool *done)
{
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) emit_prefetch_maps(e, i->blocks[k], done);
        if (i->op != OP_RING_PUT) continue;
        Window w;
        window_of(e, i, &w);
        int map = map_for(e, emit_ring_of(e, ir_operand(i, 0)), i, &w,
            stage_layout(e, i, (int)ir_attr_int(i, ATTR_COUNT, 0)));
        if (map < MOST_PREFETCHED && !done[map])
            line(e, "%s(&%s);", use(e, "prefetch_map"),
                slot_name(e, SLOT_TENSOR_MAP, w.param, map, e->maps.data[map].dtype));
        if (map < MOST_PREFETCHED) done[map] = true;
    }
}

void emit_ring_op(Emit *e, Instr *i)
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
