/* warp-roles: matrix kernels on sm_90a: a producer warpgroup fills rings by TMA, consumer warpgroups multiply with wgmma.
 *
 *   for j { %k = load K[..]; %s = mma_sync %q, %k, %0; ... }
 * becomes
 *   %rk = ring ...
 *   roles {
 *     for j { ring_put %rk, K[..] }                                       one thread
 *   } {
 *     for j { %kv = ring_get %rk; %s = wgmma %q, %kv, %0; wgmma_wait; ring_release %rk; ... }
 *   }
 *
 * Requires: every product has a shape that wgmma takes (M in multiples of 64, N of 8 up to 256, K of the instruction's), its B
 * operand, and its A operand unless computed in registers, come from loads that TMA can do (unit stride inside, base and other
 * strides multiples of 16 bytes by launch fact, pad zero, step 1; the window's other axes may be merged by a reshape), and neither their
 * offsets nor the control flow around them depends on a product. Other loads of the loop whose latency hint asks for it go through rings as well,
 * where memory lasts, and are read into registers from there. Else nothing is changed and a performance note says what was missing. The producer is the kernel with all but its
 * loads and what they depend on removed; both roles keep the program's order of loads, so that a ring needs no names for its slots. */
#include "passes/kernel/kernel.h"
#include "passes/kernel/overlap.h"
#include "passes/kernel/schedule.h"

/* loads: that share it, each of which may hold a slot at a time; asked: what a schedule says of its slots, or NULL. */
typedef struct Ring { int param; const Type *view; int depth, loads; bool inner, shared; Value *value; const Decision *asked; } Ring;

typedef struct Ctx {
    Session *s; Func *f; KernelPlan *p;
    InstrList products, loads;
    VEC(Ring) rings;
    int64_t rows;
    const char *why; Loc why_loc;
    unsigned char *scalar;      /* by value: scalar_only */
} Ctx;

static bool refuse(Ctx *c, Loc loc, const char *why)
{
    if (!c->why) { c->why = why; c->why_loc = loc; }
    return false;
}

/* The load whose tile v is, as it is or with all axes but the contiguous one merged: rows (or columns) of a matrix that lie in several axes of the tensor. */
static Instr *load_behind(Ctx *c, const Value *v)
{
    Instr *i = v->def;
    if (i && i->op == OP_RESHAPE && v->type->rank == 2) {
        Instr *l = ir_operand(i, 0)->def;
        if (!l || l->op != OP_LOAD || ir_use_count(ir_result(l)) != 1) return NULL;
        const Type *t = ir_result(l)->type;
        const Attr *o = ir_attr(l, ATTR_ORDER);
        int axis;
        kernel_unit_axis(c->f, l, &axis);
        /* merged as they lie in the tensor: in its order, but for the contiguous axis, which may come first */
        for (int k = 0; o && k < o->n; k++) if (o->v[k] != (k ? k - 1 : o->n - 1)) return NULL;
        int kept = o ? 0 : t->rank - 1, side = o ? 0 : 1;
        return t->rank >= 2 && axis == kept && t->shape[kept] == v->type->shape[side] ? l : NULL;
    }
    return i && i->op == OP_LOAD ? i : NULL;
}

/* The matrix that a load stands for: its result, or the reshape of it. */
static Value *matrix_of(const Instr *load)
{
    Value *v = ir_result(load);
    Use *u = v->uses;
    return u && !u->next && u->user->op == OP_RESHAPE ? ir_result(u->user) : v;
}

static bool tma_window(Ctx *c, const Instr *i)
{
    MemParts m;
    if (!ir_mem_parts(i, &m)) return false;
    const Param *p = &c->f->params[m.param];
    int bytes = dtype_bytes(p->type->dtype), unit = -1;
    if (m.token || m.pad || ir_attr(i, ATTR_STEPS)) return refuse(c, i->loc, "a load has a pad, a step, or reads a tensor that is also written");
    if (m.rank > 5) return refuse(c, i->loc, "TMA takes at most five axes");
    for (int a = 0; a < m.rank; a++) if (p->stride[a] == 1) unit = a;
    if (unit < 0 || ir_attr(i, ATTR_EXTENTS)->v[unit] == -1) return refuse(c, i->loc, "the tile has no axis known to be contiguous");
    if (p->align % 16) return refuse(c, i->loc, "the tensor's base is not known to be 16-byte aligned");
    if (!kernel_tma_counts(c->f, p)) return refuse(c, i->loc, "an axis may have 2^31 elements or more, and TMA counts them in 32 bits");
    for (int a = 0; a < m.rank; a++) {
        int64_t s = p->stride[a] != FACT_UNKNOWN ? p->stride[a] : p->stride_div[a];
        if (a != unit && s * bytes % 16) return refuse(c, i->loc, "a stride is not known to be a multiple of 16 bytes");
        if (a != unit && ir_attr(i, ATTR_EXTENTS)->v[a] > 256) return refuse(c, i->loc, "TMA takes at most 256 elements of an axis");
    }
    return true;
}

static bool tma_load(Ctx *c, const Value *v)
{
    const Instr *i = load_behind(c, v);
    if (!i || !tma_window(c, i)) return false;
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op != OP_MMA_SYNC || u == &u->user->operands[2]) return false;
    return true;
}

static int matrix_unit_axis(Ctx *c, const Instr *load)
{
    int axis;
    kernel_unit_axis(c->f, load, &axis);
    return matrix_of(load) != ir_result(load) && axis ? 1 : axis;
}

static bool k_major(Ctx *c, const Instr *load, int k_axis) { return matrix_unit_axis(c, load) == k_axis; }

static void add_load(Ctx *c, Instr *load)
{
    for (size_t k = 0; k < c->loads.len; k++) if (c->loads.data[k] == load) return;
    vec_push(&c->s->arena, &c->loads, load);
}

static const char *instr_of(DType d, bool tf32)
{
    switch ((int)d) {
    case DT_F16: case DT_BF16: return "wgmma_k16";
    case DT_F32: return tf32 ? "wgmma_k8" : NULL;
    case DT_I8: case DT_U8: case DT_F8E4M3: case DT_F8E5M2: return "wgmma_k32";
    default: return NULL;
    }
}

static bool product_fits(Ctx *c, Instr *i)
{
    Value *a = ir_operand(i, 0), *b = ir_operand(i, 1);
    DType d = a->type->dtype;
    bool tf32 = ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32;
    int64_t m = a->type->shape[0], k = a->type->shape[1], n = b->type->shape[1];
    if (!instr_of(d, tf32)) return refuse(c, i->loc, "wgmma does not take this type");
    int kinst = 32 / dtype_bytes(d);
    if (m % 64 || n % 8 || n > 256 || k % kinst) return refuse(c, i->loc, "wgmma needs M in multiples of 64, N of 8 up to 256");
    if (c->rows && c->rows != m) return refuse(c, i->loc, "products of different M");
    c->rows = m;
    if (!tma_load(c, b)) return refuse(c, i->loc, "operand B is not loaded by TMA");
    add_load(c, load_behind(c, b));
    bool b_k = k_major(c, load_behind(c, b), 0);
    if (!b_k && dtype_bytes(d) != 2) return refuse(c, i->loc, "operands of 8 and 32 bits must be contiguous in K");
    if (!b_k && n * dtype_bytes(d) % 64) return refuse(c, i->loc, "N is too narrow for an operand contiguous in N");
    if (tma_load(c, a)) {
        bool a_k = k_major(c, load_behind(c, a), 1);
        if (!a_k && dtype_bytes(d) != 2) return refuse(c, i->loc, "operands of 8 and 32 bits must be contiguous in K");
        add_load(c, load_behind(c, a));
    } else if (load_behind(c, a)) return refuse(c, i->loc, "operand A is not loaded by TMA");
    return true;
}

static bool scalar_only(Ctx *c, const Value *v);

static bool from_scalars(Ctx *c, const Value *v)
{
    const Instr *d = v->def, *loop = d ? d : v->block->parent;
    if (!loop) return true;
    if (loop->op == OP_FOR && d) return scalar_only(c, loop->blocks[0]->args[v->index + 1]);
    if (!d) {
        if (loop->op != OP_FOR) return false;
        return v->index == 0 || (scalar_only(c, ir_operand(loop, v->index + 2)) && scalar_only(c, ir_operand(ir_terminator(loop->blocks[0]), v->index - 1)));
    }
    for (int k = 0; k < d->n_operands; k++)
        if (ir_operand(d, k)->type->kind != TYPE_TOKEN && !scalar_only(c, ir_operand(d, k))) return false;
    if (d->op == OP_IF) return scalar_only(c, ir_operand(ir_terminator(d->blocks[0]), v->index)) && scalar_only(c, ir_operand(ir_terminator(d->blocks[1]), v->index));
    return !d->n_blocks && (op_info[d->op].flags & OPF_WRITE) == 0;
}

/* Does v follow from scalars alone, never from a product or another tile? Each value is asked once; what a loop carries may follow from itself. */
static bool scalar_only(Ctx *c, const Value *v)
{
    enum { UNKNOWN, YES, NO };
    if (v->type->kind != TYPE_SCALAR) return v->type->kind == TYPE_TENSOR;
    if (!c->scalar) c->scalar = arena_array(&c->s->arena, unsigned char, c->f->module->next_id);
    if (c->scalar[v->id] == UNKNOWN) {
        c->scalar[v->id] = YES;
        if (!from_scalars(c, v)) {
            for (uint32_t k = 0; !v->def && k < c->f->module->next_id; k++) if (c->scalar[k] == YES) c->scalar[k] = UNKNOWN;      /* some were said so on this one's word */
            c->scalar[v->id] = NO;
        }
    }
    return c->scalar[v->id] == YES;
}

static bool control_ok(Ctx *c, const Instr *load)
{
    MemParts m;
    ir_mem_parts(load, &m);
    for (int a = 0; a < m.rank; a++) if (!scalar_only(c, m.idx[a])) return refuse(c, load->loc, "an offset depends on computed tiles");
    for (const Instr *p = load->block->parent; p; p = p->block->parent) {
        if (p->op == OP_FOR) { for (int k = 0; k < 3; k++) if (!scalar_only(c, ir_operand(p, k))) return refuse(c, p->loc, "a loop's bounds depend on computed tiles"); }
        else if (p->op == OP_IF) { if (!scalar_only(c, ir_operand(p, 0))) return refuse(c, p->loc, "a condition depends on computed tiles"); }
        else return refuse(c, p->loc, "a load stands inside a while loop");
    }
    return true;
}

/* --- rings ---------------------------------------------------------------------------------------------------------------- */

/* Stored so that a wgmma descriptor can describe it: A [M, K] and B [K, N], contiguous along the tensor's unit axis. */
static const Type *view_type(Ctx *c, const Instr *load)
{
    const Value *v = matrix_of(load);
    const Type *t = v->type;
    int axis = matrix_unit_axis(c, load), bytes = dtype_bytes(t->dtype);
    int32_t tile[2] = { (int32_t)t->shape[0], (int32_t)t->shape[1] };
    const Use *u = v->uses;
    int k_axis = !u || u->user->op != OP_MMA_SYNC ? axis : u == &u->user->operands[0] ? 1 : 0;
    const LayoutShared *s = layout_wgmma_shared(&c->s->arena, tile, k_axis, axis, bytes, 0);
    if (!s) return NULL;
    return type_shared(c->s, t->dtype, 2, t->shape, layouts_shared_text(&c->p->layouts, s));
}

static int64_t view_bytes(Ctx *c, const Type *t)
{
    return ((int64_t)layouts_shared(&c->p->layouts, t)->bytes + 1023) / 1024 * 1024;
}

static Ring *ring_for(Ctx *c, const Instr *load)
{
    const Type *view = view_type(c, load);
    int param = ir_operand(load, 0)->index;
    for (size_t k = 0; k < c->rings.len; k++)
        if (c->rings.data[k].param == param && c->rings.data[k].view == view) return &c->rings.data[k];
    vec_push(&c->s->arena, &c->rings, ((Ring){ .param = param, .view = view, .depth = 1 }));
    return &c->rings.data[c->rings.len - 1];
}

static bool in_loop_with_product(const Instr *load)
{
    const Instr *p = load->block->parent;
    for (const Use *u = matrix_of(load)->uses; u; u = u->next)
        if (u->user->block == load->block && p && p->op == OP_FOR) return true;
    return false;
}

static void deepen(Ctx *c, Ring *r, int depth, bool inner, int64_t limit, int64_t *used)
{
    if (r->asked || r->inner != inner || r->depth != depth - 1 || *used + view_bytes(c, r->view) > limit) return;
    r->depth = depth;
    *used += view_bytes(c, r->view);
}

/* The ring has the slots that the schedule says. */
static void asked_slots(Ctx *c, Ring *r, const Decision *d, int64_t *used)
{
    if (r->asked && r->asked->n[0] != d->n[0]) {
        schedule_refuse(c->p, d, "this load shares a ring of %d slots with another load of the tensor", r->asked->n[0]);
        return;
    }
    if (r->asked) return;
    r->asked = d;
    r->depth = d->n[0];
    *used += view_bytes(c, r->view) * r->depth;
}

/* A load to registers beside the products: through a ring too, if it asks for buffers and the smallest rings leave room, or a schedule says so. */
static void ring_beside(Ctx *c, Instr *i, int64_t limit, int64_t *used)
{
    const Decision *d = schedule_asked_load(c->p, i);
    if (d && d->form == LOAD_STAGED) schedule_refuse(c->p, d, "beside products of wgmma a load goes through a ring, or to registers");
    if (d ? d->form != LOAD_RING : ir_attr_int(i, ATTR_LATENCY, 0) < 2) return;
    bool plain = ir_result(i)->type->rank == 2;
    for (const Use *u = ir_result(i)->uses; u; u = u->next) plain &= u->user->op != OP_RESHAPE;
    c->why = NULL;
    const Type *view = plain && tma_window(c, i) && control_ok(c, i) ? view_type(c, i) : NULL;
    if (d && (!view || d->n[0] < 1)) schedule_refuse(c->p, d, "TMA does not fetch this tile into a ring: %s", c->why ? c->why : "it takes rows of two axes in multiples of 32 bytes, and a slot at least");
    if (!view || (!d && *used + view_bytes(c, view) > limit)) return;
    Ring *r = ring_for(c, i);
    r->inner = true;
    if (d) asked_slots(c, r, d, used);
    else *used += view_bytes(c, view);
    vec_push(&c->s->arena, &c->loads, i);
}

static void add_register_loads(Ctx *c, int64_t limit, int64_t *used)
{
    const char *why = c->why;           /* those that stay register loads are no failure */
    for (size_t k = 0; k < c->products.len; k++) {
        const Block *body = c->products.data[k]->block;
        if (!body->parent || body->parent->op != OP_FOR) continue;
        for (Instr *i = body->first; i; i = i->next) {
            bool known = i->op != OP_LOAD || ir_result(i)->type->kind != TYPE_TILE;
            for (size_t l = 0; l < c->loads.len; l++) known |= c->loads.data[l] == i;
            if (!known) ring_beside(c, i, limit, used);
        }
    }
    c->why = why;
}

/* Of a warp's 16 rows: two boxes of 128 bytes each. */
enum { STAGED_BYTES = 2 * 16 * 128 };

static bool stores_a_tile(const void *user, const Instr *i)
{
    MemParts m;
    (void)user;
    return i->op == OP_STORE && ir_mem_parts(i, &m) && m.values[0]->type->kind == TYPE_TILE;
}

/* Room for results on their way out: two buffers a warp, or as the schedule has it. */
static int64_t staged_bytes(Ctx *c)
{
    InstrList stores = { 0 };
    ir_collect(&c->s->arena, c->f->body, OP_STORE, &stores);
    int64_t all = 0, one = c->rows / 16 * STAGED_BYTES;
    for (size_t k = 0; k < stores.len; k++) {
        if (!stores_a_tile(NULL, stores.data[k])) continue;
        const Decision *d = schedule_asked_store(c->p, c->f, stores.data[k]);
        if (d && d->form == STORE_TMA) all += one / 2 * d->n[0];
        else if (!d && !c->p->options.no_bulk && all < one) all = one;
    }
    return all;
}

static const Decision *some_asked(const Ctx *c)
{
    for (size_t k = 0; k < c->rings.len; k++) if (c->rings.data[k].asked) return c->rings.data[k].asked;
    return NULL;
}

static bool plan_rings(Ctx *c)
{
    int64_t limit = c->p->target->shared_bytes - c->p->parts_bytes - 1024 - (c->p->options.reserve > 1024 ? c->p->options.reserve : 1024), used = 0;
    int asked = 0;
    for (size_t k = 0; k < c->loads.len; k++) {
        const Instr *l = c->loads.data[k];
        if (!view_type(c, l)) return refuse(c, l->loc, "the tile's rows are not multiples of 32 bytes");
        Ring *r = ring_for(c, l);
        r->inner |= in_loop_with_product(l);
        const Decision *d = schedule_asked_load(c->p, l);
        if (d && (d->form != LOAD_RING || d->n[0] < 1)) return schedule_refuse(c->p, d, "wgmma and TMA take this tile through a ring of one slot at least");
        r->loads++;
        if (d) asked_slots(c, r, d, &used);
        int want = (int)ir_attr_int(l, ATTR_LATENCY, 0);
        if (want > asked && !d) asked = want;
    }
    for (size_t k = 0; k < c->rings.len; k++) {
        Ring *r = &c->rings.data[k];
        if (r->asked && r->depth < r->loads) return schedule_refuse(c->p, r->asked, "%d loads share this ring, and each may hold a slot while the others wait for theirs", r->loads);
        if (r->asked) continue;
        r->depth = r->loads;
        used += view_bytes(c, r->view) * r->depth;
    }
    if (used > limit && !some_asked(c)) return refuse(c, c->f->loc, "the tiles do not fit shared memory");
    add_register_loads(c, limit, &used);
    if (used > limit) return schedule_refuse(c->p, some_asked(c), "rings of %lld bytes do not fit: %lld bytes of shared memory are left for them", (long long)used, (long long)limit);
    /* two slots for the inner loop's rings, two for the others so that the next tile's operands arrive under this one; then two buffers a warp for
     * results on their way out, which are worth more than a third slot (H100, attention D 128 causal at N 1024, 2048, 4096: 415, 566, 633 TFLOPS
     * with, 407, 557, 626 with three slots of K instead), then the inner rings in turn while memory lasts */
    int64_t staged = staged_bytes(c);
    int most = c->f->hints.stages > 0 ? c->f->hints.stages : asked > 4 ? asked : 4;
    int fit = 1;
    for (int depth = 2; depth <= most; depth++) {
        for (size_t k = 0; k < c->rings.len; k++) deepen(c, &c->rings.data[k], depth, true, depth > 2 ? limit - staged : limit, &used);
        if (depth == 2 && c->p->persistent) for (size_t k = 0; k < c->rings.len; k++) deepen(c, &c->rings.data[k], 2, false, limit, &used);
    }
    for (size_t k = 0; k < c->rings.len; k++) if (c->rings.data[k].inner && c->rings.data[k].depth > fit) fit = c->rings.data[k].depth;

    c->p->spare_shared = limit - used;          /* the limit leaves a kilobyte for mbarriers and tickets */
    if (fit < asked) diag_perf(c->s, c->f->loc, "%d buffers a load were asked for, %d fit shared memory", asked, fit);
    return true;
}

/* --- the producer: what loads need, nothing else ------------------------------------------------------------------------------ */

typedef struct Live { bool *value; uint32_t n; } Live;

static void mark(Live *l, Value *v)
{
    if (l->value[v->id]) return;
    l->value[v->id] = true;
    Instr *d = v->def;
    if (!d) {
        Instr *p = v->block->parent;
        if (!p) return;
        if (p->op == OP_FOR && v->index > 0) {
            mark(l, ir_operand(p, v->index + 2));
            mark(l, ir_operand(ir_terminator(p->blocks[0]), v->index - 1));
            mark(l, &p->results[v->index - 1]);
        }
        if (p->op == OP_FOR) for (int k = 0; k < 3; k++) mark(l, ir_operand(p, k));
        return;
    }
    if (d->op == OP_FOR) {
        mark(l, d->blocks[0]->args[v->index + 1]);
        return;
    }
    if (d->op == OP_IF) {
        mark(l, ir_operand(d, 0));
        for (int b = 0; b < 2; b++) mark(l, ir_operand(ir_terminator(d->blocks[b]), v->index));
        return;
    }
    for (int k = 0; k < d->n_operands; k++) mark(l, ir_operand(d, k));
}

static void mark_puts(Live *l, Block *b)
{
    for (Instr *i = b->first; i; i = i->next) {
        if (i->op == OP_RING_PUT) for (int k = 0; k < i->n_operands; k++) mark(l, ir_operand(i, k));
        if (i->op == OP_PROGRAM_COORD) mark(l, ir_result(i));      /* handed on to the consumers */
        if (!ir_is_or_holds(i, OP_RING_PUT)) continue;
        for (int k = 0; k < (i->op == OP_FOR ? 3 : i->op == OP_IF ? 1 : 0); k++) mark(l, ir_operand(i, k));
        for (int k = 0; k < i->n_blocks; k++) mark_puts(l, i->blocks[k]);
    }
}

static bool is_live(const Live *l, const Instr *i)
{
    if (op_info[i->op].flags & OPF_TERM) return true;
    for (int k = 0; k < i->n_results; k++) if (l->value[i->results[k].id]) return true;
    return ir_is_or_holds(i, OP_RING_PUT);
}

static void sweep(Live *l, Block *b)
{
    for (Instr *i = b->last, *prev; i; i = prev) {
        prev = i->prev;
        if (is_live(l, i)) {
            for (int k = i->n_results - 1; k >= 0; k--)
                if (!l->value[i->results[k].id] && (i->op == OP_FOR || i->op == OP_IF)) ir_drop_carried(i, k);
            for (int k = 0; k < i->n_blocks; k++) sweep(l, i->blocks[k]);
            continue;
        }
        /* users stand later or in dropped carried slots: they are gone already */
        ir_erase(i);
    }
}

static void puts_from_loads(Ctx *c, Block *b)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        for (int k = 0; k < i->n_blocks; k++) puts_from_loads(c, i->blocks[k]);
        if (!i->mark || i->op != OP_LOAD) continue;
        MemParts m;
        ir_mem_parts(i, &m);
        Value *ops[2 + TILE_MAX_RANK] = { ring_for(c, i)->value, m.tensor };
        for (int a = 0; a < m.rank; a++) ops[2 + a] = m.idx[a];
        Attr attrs[4];
        int n = 0;
        static const AttrKey kept[] = { ATTR_EXTENTS, ATTR_ORDER, ATTR_CACHE };
        for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) if (ir_attr(i, kept[k])) attrs[n++] = *ir_attr(i, kept[k]);
        Builder at = ir_before(i);
        ir_build(&at, OP_RING_PUT, ops, 2 + m.rank, (Attrs){ attrs, n }, NULL, 0);
    }
}

/* --- the consumers ----------------------------------------------------------------------------------------------------------------- */

static void consume(Ctx *c, Instr *load)
{
    Ring *r = ring_for(c, load);
    Value *matrix = matrix_of(load);
    bool product = matrix->uses && matrix->uses->user->op == OP_MMA_SYNC;
    Builder b = ir_before(load);
    Value *view = ir_emit(&b, OP_RING_GET, &r->value, 1, NO_ATTRS, NULL);
    ir_set_name(view, c->f->params[r->param].name);
    Instr *last = product ? ir_last_use_in(load->block, matrix) : view->def;
    if (!product) view = ir_emit(&b, OP_SHARED_READ, &view, 1, NO_ATTRS, matrix->type), last = view->def;
    ir_replace(matrix, view);
    b = ir_after(last);
    ir_build(&b, OP_RING_RELEASE, &r->value, 1, NO_ATTRS, NULL, 0);
    if (matrix->def != load) ir_erase(matrix->def);
    ir_erase(load);
}

static void to_wgmma(Ctx *c, Instr *i)
{
    Builder b = ir_before(i);
    Value *v[3] = { ir_operand(i, 0), ir_operand(i, 1), ir_operand(i, 2) };
    bool tf32 = ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32;
    Value *w = ir_emit(&b, OP_WGMMA, v, 3, ATTRS(a_str(ATTR_INSTR, instr_of(v[0]->type->dtype, tf32))), NULL);
    w->name = ir_result(i)->name;
    Instr *wait = ir_build(&b, OP_WGMMA_WAIT, &w, 1, ATTRS(a_int(ATTR_DEPTH, 0)), NULL, 0);
    ir_replace(ir_result(i), ir_result(wait));
    ir_erase(i);
}

static void clear_mark(void *user, Instr *i) { (void)user; i->mark = 0; }

/* Clones keep no marks: copy them by walking both blocks in step. */
static void copy_marks(const Block *from, Block *to)
{
    const Instr *i = from->first;
    Instr *j = to->first;
    for (; i && j; i = i->next, j = j->next) {
        j->mark = i->mark;
        for (int k = 0; k < i->n_blocks; k++) copy_marks(i->blocks[k], j->blocks[k]);
    }
}

/* Clusters of programs: along their axis the last one may be partly empty. */
static Value *clusters(Ctx *c, Builder *b)
{
    const Type *i32 = type_scalar(c->s, DT_I32);
    Value *all = NULL;
    int rank = c->f->grid ? ir_terminator(c->f->grid)->n_operands : 1;
    for (int a = 0; a < rank; a++) {
        Value *n = ir_emit(b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), i32);
        if (a == c->p->multicast_axis) n = ir_bin(b, OP_CDIV, n, ir_const_int(b, DT_I32, c->p->multicast));
        all = all ? ir_bin(b, OP_MUL, all, n) : n;
    }
    return all;
}

/* What the programs of a cluster have in common: whole rings of it. */
static void share_loads(Ctx *c)
{
    size_t n = c->loads.len;
    RingLoad *l = arena_array(&c->s->arena, RingLoad, n);
    for (size_t k = 0; k < n; k++)
        l[k] = (RingLoad){ c->loads.data[k], layouts_shared(&c->p->layouts, ring_for(c, c->loads.data[k])->view), ring_for(c, c->loads.data[k])->inner, false, NULL };
    kernel_multicast(c->s, c->f, c->p, l, n);
    for (size_t k = 0; k < n && c->p->multicast; k++) ring_for(c, l[k].load)->shared = l[k].shared;
}

/* program -> loop over programs. Each starts from its own memory state: nothing orders programs among themselves. */
static void make_persistent(Ctx *c)
{
    Func *f = c->f;
    const Type *i32 = type_scalar(c->s, DT_I32);
    Instr *ret = ir_terminator(f->body), *first = f->body->first;
    Builder b = ir_before(ret);
    Value *bounds[3] = { ir_emit(&b, OP_CTA_ID, NULL, 0, NO_ATTRS, i32) };
    bounds[1] = c->p->multicast ? clusters(c, &b) : ir_emit(&b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, -1)), i32);
    bounds[2] = ir_emit(&b, OP_NUM_CTAS, NULL, 0, NO_ATTRS, i32);
    Instr *stop = bounds[0]->def, *loop = ir_build(&b, OP_FOR, bounds, 3, c->p->options.no_tickets ? NO_ATTRS : ATTRS(a_int(ATTR_TICKETS, 1)), NULL, 0);
    Builder in = ir_at_end(loop->blocks[0]);
    ir_set_name(loop->blocks[0]->args[0], "program");
    for (Instr *i = first, *next; i && i != stop; i = next) {
        next = i->next;
        ir_unlink(i);
        if (i->op == OP_PROGRAM) {
            ir_replace(ir_result(i), loop->blocks[0]->args[0]);
            continue;
        }
        ir_place(&in, i);
    }
    in = ir_at_end(loop->blocks[0]);
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
}

static int registers_for(int consumers, bool producer)
{
    /* 64K registers a multiprocessor; setmaxnreg counts in eights and the sum must not pass the launch's (reference/NOTES). */
    if (consumers == 1) return producer ? 40 : 232;
    if (consumers == 2) return producer ? 40 : 232;
    if (consumers == 3) return producer ? 32 : 160;
    return producer ? 24 : 120;
}

static void asked_programs(KernelPlan *p)
{
    const Decision *d = schedule_asked(p, DECIDE_PROGRAMS);
    p->persistent = d ? d->form != PROGRAMS_EACH : !p->options.no_persistent;
    if (d) p->options.no_tickets = d->form == PROGRAMS_STRIDED;
}

static bool asked_consumers(Ctx *c, const Decision *d, int *consumers)
{
    int n = d->n[0];
    if (n < 1 || n > 4 || c->rows / 64 % n) return schedule_refuse(c->p, d, "%lld rows are %lld blocks of 64, which %d warpgroups cannot share evenly (at most 4 of them)", (long long)c->rows, (long long)c->rows / 64, n);
    *consumers = n;
    return true;
}

/* setmaxnreg counts in eights, and all threads together have what the launch gave them (PTX ISA 9.7.20). */
static void choose_registers(KernelPlan *p, int consumers)
{
    const Decision *d = schedule_asked(p, DECIDE_REGISTERS);
    int threads = 32 * (p->warps + p->producer_warps), each = 65536 / threads / 8 * 8, all = each * threads;
    p->producer_registers = registers_for(consumers, true);
    p->consumer_registers = registers_for(consumers, false);
    if (d && p->warps <= 4) schedule_refuse(p, d, "with one consumer warpgroup registers are not handed over");
    else if (d && (d->n[0] % 8 || d->n[1] % 8 || d->n[0] < 24 || d->n[1] < 24 || d->n[1] > 240)) schedule_refuse(p, d, "registers are handed over in eights, from 24 to 240 a thread");
    else if (d && (d->n[0] > each || d->n[1] < each)) schedule_refuse(p, d, "the launch gives %d to each thread, of which a producer gives some away and a consumer takes some", each);
    else if (d && 32 * (d->n[0] * p->producer_warps + d->n[1] * p->warps) > all)
        schedule_refuse(p, d, "%d threads of %d registers and %d of %d take %d, and the launch gives %d", 32 * p->producer_warps, d->n[0], 32 * p->warps, d->n[1], 32 * (d->n[0] * p->producer_warps + d->n[1] * p->warps), all);
    else if (d) { p->producer_registers = d->n[0]; p->consumer_registers = d->n[1]; }
    if (p->warps > 4) schedule_take(p, DECIDE_REGISTERS, 0, p->producer_registers, p->consumer_registers);
}

static void take_roles(Ctx *c, int consumers)
{
    KernelPlan *p = c->p;
    const Decision *warps = schedule_asked(p, DECIDE_WARPS), *ctas = schedule_asked(p, DECIDE_OCCUPANCY);
    if (warps) schedule_refuse(p, warps, "with roles the consumer warpgroups hold the tiles: `roles N` says how many");
    if (ctas && ctas->n[0] != 1) schedule_refuse(p, ctas, "one CTA with roles fills a multiprocessor");
    schedule_take(p, DECIDE_ROLES, ROLES_N, consumers, 0);
    schedule_take(p, DECIDE_PROGRAMS, !p->persistent ? PROGRAMS_EACH : p->options.no_tickets ? PROGRAMS_STRIDED : PROGRAMS_TICKETS, 0, 0);
    for (size_t k = 0; k < c->loads.len; k++) schedule_take_load(p, c->loads.data[k], LOAD_RING, ring_for(c, c->loads.data[k])->depth);
}

bool kernel_roles(Session *s, Func *f, KernelPlan *p)
{
    Ctx c = { .s = s, .f = f, .p = p };
    ir_collect(&s->arena, f->body, OP_MMA_SYNC, &c.products);
    if (!c.products.len) return false;
    bool ok = true;
    int errors = s->n_errors;
    const Decision *asked = schedule_asked(p, DECIDE_ROLES);
    asked_programs(p);
    for (size_t k = 0; k < c.products.len && ok; k++) ok = product_fits(&c, c.products.data[k]);
    for (size_t k = 0; k < c.loads.len && ok; k++) ok = control_ok(&c, c.loads.data[k]);
    int consumers = (int)(c.rows / 64);
    if (ok && consumers > 4) consumers = consumers % 4 == 0 ? 4 : consumers % 3 == 0 ? 3 : 2;
    if (ok && consumers == 4) consumers = 2;        /* two warpgroups of two row blocks: more registers each */
    if (ok && asked) ok = asked_consumers(&c, asked, &consumers);
    if (ok) ok = plan_rings(&c);
    if (!ok) {
        if (asked && c.why) schedule_refuse(p, asked, "no TMA and wgmma here: %s", c.why);
        else if (s->n_errors == errors) diag_perf(s, c.why_loc, "no TMA and wgmma here: %s", c.why ? c.why : "unsuitable product");
        p->persistent = false;
        return false;
    }
    p->warps = 4 * consumers;
    p->producer_warps = 4;
    choose_registers(p, consumers);
    p->min_ctas = 1;
    take_roles(&c, consumers);
    share_loads(&c);
    if (p->persistent) make_persistent(&c);
    /* mark the loads, put the kernel into the consumers' block and a copy into the producer's */
    ir_walk(f->body, clear_mark, NULL);
    for (size_t k = 0; k < c.loads.len; k++) c.loads.data[k]->mark = 1;
    Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = f->loc };
    for (size_t k = 0; k < c.rings.len; k++) {
        Ring *r = &c.rings.data[k];
        int64_t shape[3] = { r->depth, r->view->shape[0], r->view->shape[1] };
        Attr attrs[3] = { a_int(ATTR_DEPTH, r->depth), a_int(ATTR_COUNT, p->warps), a_int(ATTR_CLUSTER, p->multicast) };
        r->value = ir_emit(&b, OP_RING, NULL, 0, (Attrs){ attrs, r->shared ? 3 : 2 }, type_shared(s, r->view->dtype, 3, shape, r->view->layout));
        ir_set_name(r->value, arena_printf(&s->arena, "%s_ring", f->params[r->param].name));
    }
    Instr *roles = ir_build(&b, OP_ROLES, NULL, 0, NO_ATTRS, NULL, 0), *ret = ir_terminator(f->body);
    Builder in = ir_at_end(roles->blocks[1]);
    for (Instr *i = roles->next, *next; i && i != ret; i = next) {
        next = i->next;
        ir_unlink(i);
        ir_place(&in, i);
    }
    ir_build(&in, OP_YIELD, NULL, 0, NO_ATTRS, NULL, 0);
    /* nested blocks know their function and parent instruction; their instructions only their block */
    ValueMap map;
    value_map_init(&map, &s->arena);
    in = ir_at_end(roles->blocks[0]);
    ir_clone_block_into(&in, roles->blocks[1], &map, true);
    copy_marks(roles->blocks[1], roles->blocks[0]);
    puts_from_loads(&c, roles->blocks[0]);
    Live live = { .n = f->module->next_id };
    live.value = arena_array(&s->arena, bool, live.n);
    mark_puts(&live, roles->blocks[0]);
    sweep(&live, roles->blocks[0]);

    c.loads.len = c.products.len = 0;
    ir_collect(&s->arena, roles->blocks[1], OP_LOAD, &c.loads);
    ir_collect(&s->arena, roles->blocks[1], OP_MMA_SYNC, &c.products);
    for (size_t k = 0; k < c.loads.len; k++) if (c.loads.data[k]->mark) consume(&c, c.loads.data[k]);
    for (size_t k = 0; k < c.products.len; k++) to_wgmma(&c, c.products.data[k]);
    kernel_lazy_rescale(s, f, p, true);
    kernel_overlap(s, f, roles->blocks[1], p);
    return true;
}
