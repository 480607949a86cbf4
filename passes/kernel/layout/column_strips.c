/* column-strips: element-wise work behind a product, strip of columns by strip, where a whole tile of each
 * operand beside the sums would not fit registers.
 *
 *   %b = load B[%j] : [256]                      %s0 = slice %acc {start = 0} : [128, 64]
 *   %y = mul %acc, (broadcast %b) : [128, 256]   %b0 = load B[%j] : [64]
 *   %z = cast %y : f16[128, 256]            ->   %z0 = cast (mul %s0, (broadcast %b0))
 *   store C[..] = %z                             .. three more strips ..
 *                                                store C[..] = (concat %z0, %z1, %z2, %z3)
 *
 * The vendor's compiler moves no load behind a later access, so that a thread would hold all that was loaded
 * at once, beside the sums: two rows of weights for 256 columns take 128 registers, as many as the sums. The
 * registers of a strip's sums are free when the strip is done. Slices and concatenations rename registers.
 *
 * Requires: NVIDIA; layouts; sums of a product in a block that runs once a program; threads that hold more
 * than leaves registers for addresses; strips in which each thread has of each strip what it has of the first
 * (layout_part); loads that no write stands behind before the strips, or tiles that come through rings by
 * whole stages (ring_tiles.c). A load may stand under a condition of the program, with zeros elsewhere
 * (multicast). What can not be cut (what others read too) is computed whole, and cut then. Keeps: everything.
 */
#include "passes/kernel/layout/guarded_load.h"
#include "passes/kernel/layout/ring_tiles.h"
#include "passes/kernel/pipeline/hoist_loads.h"
#include <string.h>

enum {
    OTHERS = 36, /* registers for addresses and masks */
    WIDEST = 64, /* columns of a strip; of narrower ones each access has a mask of its own */
    NARROWEST = 16,
    FUNCTION = 20,       /* the cost (ops.def) of an operation that takes registers of its own .. */
    BESIDE_FUNCTION = 40 /* .. so many, as the vendor's compiler computes it for several elements at once */
};

typedef struct Strips {
    Hoist h; /* what a thread holds */
    Value *sum;
    int axis;
    int64_t extent; /* of a strip */
    bool *member;   /* by value: element-wise, from the sums */
    bool *taken;    /* by value: read by members only, so that no thread needs the whole of it */
    uint32_t values;
    ValueList roots;      /* members that others read */
    Instr *first;         /* of these readers, in the block of the sums */
    Value **strip;        /* by value: of the strip that is made */
    Value **token;        /* by value: of the last strip that was loaded of it */
    int64_t start;        /* of that strip */
    RingTiles rings;      /* tiles that come through rings, which are cut too; empty: they are read whole */
    VEC(RingStrip) order; /* in which strips read them */
} Strips;

/* --- what is cut -------------------------------------------------------------------------------------- */

static bool is_member(const Strips *x, const Value *v) { return v->id < x->values && x->member[v->id]; }

/* The instruction of the block in which the user is, or which holds it; NULL: it is elsewhere. */
static Instr *at_block(const Block *b, Instr *user)
{
    while (user && user->block != b) user = user->block->parent;
    return user;
}

static void note_reader(Strips *x, Instr *user)
{
    Instr *at = at_block(x->sum->def->block, user);
    for (Instr *i = x->first; i; i = i->prev)
        if (i == at) {
            x->first = at;
            return;
        }
    if (!x->first) x->first = at;
}

/* Finds the members, which follow the sums in their block, and those that others read. */
static void find_members(Strips *x)
{
    x->member[x->sum->id] = true;
    for (Instr *i = x->sum->def->next; i; i = i->next) {
        const Value *r = i->n_results == 1 ? ir_result(i) : NULL;
        bool reads = false;
        if (!r || !(op_info[i->op].flags & OPF_ELEM) || !type_same_shape(r->type, x->sum->type) ||
            r->type->layout != x->sum->type->layout)
            continue;
        for (int k = 0; k < i->n_operands; k++) reads |= is_member(x, ir_operand(i, k));
        x->member[r->id] = reads;
    }
    for (Instr *i = x->sum->def->next; i; i = i->next)
        for (int k = 0; k < i->n_results; k++) {
            Value *v = &i->results[k];
            bool root = false;
            for (const Use *u = v->uses; is_member(x, v) && u; u = u->next)
                if (!u->user->n_results || !is_member(x, ir_result(u->user))) {
                    root = true;
                    note_reader(x, u->user);
                }
            if (root) vec_push(&x->h.s->arena, &x->roots, v);
        }
}

static bool is_behind_strips(const Strips *x, Instr *user)
{
    Instr *at = at_block(x->sum->def->block, user);
    for (const Instr *i = x->first; i; i = i->next)
        if (i == at) return true;
    return false;
}

/* Whether nothing is written behind the load, or what holds it, and before the strips, and nothing there
 * waits for it. */
static bool stays_so(const Strips *x, const Instr *i)
{
    for (const Use *u = i->n_results > 1 ? i->results[1].uses : NULL; u; u = u->next)
        if (!is_behind_strips(x, u->user)) return false;
    while ((i = i->next) && i != x->first)
        if (ir_has_effects(i)) return false;
    return i != NULL;
}

/* A load of a plain window. `at`: the instruction of the block of the sums that is or holds it. */
static bool is_plain(const Strips *x, const Instr *load, const Instr *at)
{
    MemParts m;
    if (load->op != OP_LOAD || !ir_mem_parts(load, &m) || m.mask || ir_attr(load, ATTR_STEPS) ||
        ir_attr(load, ATTR_ORDER) || kernel_kept(load))
        return false;
    if ((m.token || x->h.f->params[m.param].kind != PARAM_IN) && !stays_so(x, at)) return false;
    for (int a = 0; a < m.rank; a++)
        if (m.idx[a]->type->kind != TYPE_SCALAR) return false; /* the positions of parts */
    return true;
}

static bool is_load(const Instr *i) { return i->op == OP_LOAD || kernel_guarded_load(i); }

static bool only_reads(const Strips *x, const Instr *i)
{
    const Instr *guarded = kernel_guarded_load(i);
    return is_plain(x, guarded ? guarded : i, i);
}

/* Whether the operation can be done for a strip, given strips of its operands. */
static bool can_cut(const Strips *x, const Instr *i)
{
    return op_info[i->op].flags & OPF_ELEM || i->op == OP_BROADCAST || i->op == OP_RESHAPE ||
           i->op == OP_SPLAT || i->op == OP_ARANGE || only_reads(x, i) ||
           (i->op == OP_RING_READ && ring_tiles_index(&x->rings, ir_result(i)) >= 0);
}

/* Finds what members read and nobody else, from the last on. */
static void find_taken(Strips *x)
{
    for (Instr *i = x->sum->def->block->last; i; i = i->prev) {
        if ((i->n_results != 1 && !is_load(i)) || is_member(x, &i->results[0]) || !can_cut(x, i)) continue;
        bool taken = i->results[0].uses != NULL;
        for (const Use *u = i->results[0].uses; u && taken; u = u->next) {
            const Instr *by = u->user;
            taken = by->block == i->block && by->n_results == 1 &&
                    (is_member(x, ir_result(by)) || x->taken[ir_result(by)->id]);
        }
        x->taken[i->results[0].id] = taken;
    }
}

/* Whether the operation is done for each strip. No register holds a value without a layout. */
static bool is_cut(const Strips *x, const Value *v)
{
    return v->def && v != x->sum &&
           (is_member(x, v) || x->taken[v->id] || (!v->type->layout && can_cut(x, v->def)));
}

static const Layout *part_of(Strips *x, const Type *t, int axis)
{ return layout_part(&x->h.s->arena, layouts_get(&x->h.p->layouts, t), axis, (int32_t)x->extent); }

static bool spans(const Strips *x, const Value *v, int axis)
{
    return v->type->kind == TYPE_TILE && axis >= 0 && axis < v->type->rank &&
           v->type->shape[axis] == x->sum->type->shape[x->axis];
}

/* The operand's axis that `axis` of the result is; of operations that can be cut. -1: there is none. */
static int operand_axis(const Instr *i, int axis)
{ return i->op == OP_RESHAPE ? kernel_axis_before(i, axis) : axis; }

/* Whether there are strips of the value along the axis. */
static bool has_strips(Strips *x, const Value *v, int axis)
{
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1) return true;
    if (!spans(x, v, axis) || (v->type->layout && !part_of(x, v->type, axis))) return false;
    if (!is_cut(x, v)) return v->type->layout != NULL;
    int before = operand_axis(v->def, axis);
    if (is_load(v->def) || v->def->op == OP_SPLAT || v->def->op == OP_ARANGE) return true;
    if (v->def->op == OP_RING_READ) return axis == 1 && ring_tiles_fit(v->def, x->extent);
    if (before < 0) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (!has_strips(x, ir_operand(v->def, k), before)) return false;
    return true;
}

/* Whether all that strips of the value need is there before the first reader. */
static bool is_before(const Strips *x, const Value *v, int axis)
{
    if (spans(x, v, axis) && is_cut(x, v) && v->def->op != OP_IF) {
        bool all = true;
        for (int k = 0; k < v->def->n_operands && all; k++)
            all = is_before(x, ir_operand(v->def, k), operand_axis(v->def, axis));
        return all;
    }
    if (!v->def || v->def->block != x->sum->def->block) return true;
    for (const Instr *i = x->first; i; i = i->next)
        if (i == v->def) return false;
    return true;
}

/* --- strips ------------------------------------------------------------------------------------------- */

static const Type *strip_type(Strips *x, const Type *t, int axis)
{
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    shape[axis] = x->extent;
    const Type *plain = type_tile(x->h.s, t->dtype, t->rank, shape);
    return t->layout ? layouts_typed(&x->h.p->layouts, plain, part_of(x, t, axis)) : plain;
}

static Value *strip_of(Strips *x, Builder *b, Value *v, int axis);

/* The attributes of the operation for this strip: a window has fewer positions, a count begins later. */
static Attrs strip_attrs(Strips *x, const Instr *i, int axis)
{
    Attr *to = arena_array(&x->h.s->arena, Attr, (size_t)i->n_attrs + 1);
    int n = 0;
    bool starts = false;
    if (i->op == OP_RING_READ) return ring_tiles_attrs(&x->h.s->arena, i, x->extent);
    for (int k = 0; k < i->n_attrs; k++) {
        Attr a = i->attrs[k];
        if (i->op == OP_LOAD && a.key == ATTR_EXTENTS) {
            int64_t *v = arena_array(&x->h.s->arena, int64_t, (size_t)a.n);
            memcpy(v, a.v, (size_t)a.n * sizeof *v);
            v[kernel_tensor_axis(i, axis)] = x->extent;
            a = a_ints(ATTR_EXTENTS, v, a.n);
        }
        if (i->op == OP_ARANGE && a.key == ATTR_START) {
            a.i += x->start;
            starts = true;
        }
        to[n++] = a;
    }
    if (i->op == OP_ARANGE && !starts) to[n++] = a_int(ATTR_START, x->start);
    return (Attrs){ to, n };
}

/* The operand of the operation for this strip. */
static Value *strip_operand(Strips *x, Builder *b, const Instr *i, int k, int axis)
{
    Value *v = ir_operand(i, k);
    if (i->op == OP_LOAD && v->type->kind == TYPE_TOKEN && x->token[i->results[0].id])
        return x->token[i->results[0].id];
    if (i->op != OP_LOAD) return strip_of(x, b, v, operand_axis(i, axis));
    if (k != 1 + kernel_tensor_axis(i, axis) || !x->start) return v;
    return ir_bin(b, OP_ADD, v, ir_const_int(b, v->type->dtype, x->start));
}

/* The strip of a load; the next one waits for its token, if it has one. */
static Instr *load_strip(Strips *x, Builder *b, const Instr *load, int axis, const Type *t)
{
    const Type *types[] = { t, load->n_results > 1 ? load->results[1].type : NULL };
    Value **operands = arena_array(&x->h.s->arena, Value *, (size_t)load->n_operands);
    for (int k = 0; k < load->n_operands; k++) operands[k] = strip_operand(x, b, load, k, axis);
    return ir_build(
        b, OP_LOAD, operands, load->n_operands, strip_attrs(x, load, axis), types, load->n_results);
}

/* The same under the condition of the whole tile's load. */
static Instr *guarded_strip(Strips *x, Builder *b, Instr *i, int axis, const Type *t)
{
    const Instr *load = kernel_guarded_load(i), *zero = kernel_guard_fills(i);
    const Type *types[] = { t, load->n_results > 1 ? load->results[1].type : NULL };
    Value *condition = ir_operand(i, 0), *given[2] = { NULL }, *otherwise[2] = { NULL };
    Instr *both = ir_build(b, OP_IF, &condition, 1, NO_ATTRS, types, load->n_results);
    Builder in = ir_at_end(both->blocks[0]), out = ir_at_end(both->blocks[1]);
    ValueMap map;
    in.loc = out.loc = i->loc;
    Instr *part = load_strip(x, &in, load, axis, t);
    for (int k = 0; k < part->n_results; k++) given[k] = &part->results[k];
    ir_build(&in, OP_YIELD, given, part->n_results, NO_ATTRS, NULL, 0);
    value_map_init(&map, &x->h.s->arena);
    for (const Instr *k = i->blocks[1]->first; k != zero; k = k->next) ir_clone(&out, k, &map);
    Value *fill = value_map_get(&map, ir_operand(zero, 0));
    otherwise[0] = ir_op(&out, OP_MATERIALIZE, t, NO_ATTRS, ir_splat(&out, fill, t->rank, t->shape));
    for (int k = 0; k < part->n_operands; k++)
        if (ir_operand(part, k)->type->kind == TYPE_TOKEN) otherwise[1] = ir_operand(part, k);
    ir_build(&out, OP_YIELD, otherwise, part->n_results, NO_ATTRS, NULL, 0);
    if (part->n_results > 1) x->token[load->results[0].id] = &both->results[1];
    return both;
}

/* A strip of what a load gives; the strips of one load follow each other. */
static Value *strip_of_load(Strips *x, Builder *b, Value *v, int axis, const Type *t)
{
    Instr *part =
        v->def->op == OP_IF ? guarded_strip(x, b, v->def, axis, t) : load_strip(x, b, v->def, axis, t);
    if (part->n_results > 1) x->token[v->id] = &part->results[1];
    part->results[0].name = v->name;
    return &part->results[0];
}

static Value *strip_of(Strips *x, Builder *b, Value *v, int axis)
{
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1) return v;
    if (x->strip[v->id]) return x->strip[v->id];
    const Type *t = strip_type(x, v->type, axis);
    if (!is_cut(x, v)) {
        x->strip[v->id] =
            ir_op(b, OP_SLICE, t, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, x->start)), v);
        return x->strip[v->id];
    }
    Instr *i = v->def;
    b->loc = i->loc;
    if (is_load(i)) {
        x->strip[v->id] = strip_of_load(x, b, v, axis, t);
        return x->strip[v->id];
    }
    Value **operands = arena_array(&x->h.s->arena, Value *, (size_t)i->n_operands);
    for (int k = 0; k < i->n_operands; k++) operands[k] = strip_operand(x, b, i, k, axis);
    if (i->op == OP_RING_READ) {
        RingStrip read = { (size_t)ring_tiles_index(&x->rings, v), x->start };
        vec_push(&x->h.s->arena, &x->order, read);
    }
    x->strip[v->id] = ir_emit(b, i->op, operands, i->n_operands, strip_attrs(x, i, axis), t);
    x->strip[v->id]->name = v->name;
    return x->strip[v->id];
}

static void cut(Strips *x)
{
    int n = (int)(x->sum->type->shape[x->axis] / x->extent);
    Value **part = arena_array(&x->h.s->arena, Value *, x->roots.len * (size_t)n);
    Builder b = ir_before(x->first);
    for (int s = 0; s < n; s++) {
        memset(x->strip, 0, x->values * sizeof *x->strip);
        x->start = s * x->extent;
        b.loc = x->roots.data[0]->def->loc;
        for (size_t k = 0; k < x->roots.len; k++)
            part[k * (size_t)n + (size_t)s] = strip_of(x, &b, x->roots.data[k], x->axis);
    }
    for (Instr *i = x->sum->def->next; i; i = i->next)
        if (i->n_results > 1 && i->results[0].id < x->values && x->token[i->results[0].id])
            ir_replace(&i->results[1], x->token[i->results[0].id]);
    if (x->order.len) ring_tiles_put(x->h.s, &x->rings, x->order.data, x->order.len, x->extent);
    for (size_t k = 0; k < x->roots.len; k++) {
        Value *root = x->roots.data[k];
        b.loc = root->def->loc;
        Value *all =
            ir_emit(&b, OP_CONCAT, part + k * (size_t)n, n, ATTRS(a_int(ATTR_AXIS, x->axis)), root->type);
        all->name = root->name;
        ir_replace(root, all);
    }
}

/* --- where it pays ------------------------------------------------------------------------------------ */

static int room(const KernelPlan *p)
{ return (p->consumer_registers ? p->consumer_registers : hoist_registers_at(p, p->min_ctas)) - OTHERS; }

/* What a thread holds when the element-wise work begins, in words. It is done element by element behind all
 * that it reads, in the place of an operand, and casts widen where they are read. Tiles from rings are read
 * last, behind a wait for them. */
typedef struct Held {
    int64_t whole; /* what is computed whole though strips read it, the sums among it */
    int64_t cut;   /* what strips load */
} Held;

static void count_held(Strips *x, Value *v, Held *h)
{
    if (x->strip[v->id] || !v->type->layout) return;
    x->strip[v->id] = v;
    if (!is_cut(x, v)) h->whole += v->def && v->def->op == OP_RING_READ ? 0 : hoist_words(&x->h, v);
    else if (is_load(v->def) || v->def->op == OP_RING_READ) h->cut += hoist_words(&x->h, v);
    else
        for (int k = 0; k < v->def->n_operands; k++) count_held(x, ir_operand(v->def, k), h);
}

/* Whether what is cut has a function that takes many instructions. */
static bool has_function(const Strips *x)
{
    for (const Instr *i = x->sum->def->next; i; i = i->next)
        if (i->n_results == 1 && is_cut(x, ir_result(i)) && op_info[i->op].cost >= FUNCTION) return true;
    return false;
}

/* Whether all that others read has strips of so many columns. */
static bool has_all_strips(Strips *x, int64_t extent)
{
    x->extent = extent;
    bool all = extent < x->sum->type->shape[x->axis];
    for (size_t k = 0; k < x->roots.len && all; k++) all = has_strips(x, x->roots.data[k], x->axis);
    return all;
}

/* The columns of strips; 0: threads have registers for whole tiles, or hold no less with strips. */
static int64_t columns_for(Strips *x)
{
    Held held = { 0 };
    int64_t columns = WIDEST;
    bool function = has_function(x);
    for (size_t k = 0; k < x->roots.len; k++) count_held(x, x->roots.data[k], &held);
    if (held.whole + held.cut <= room(x->h.p) - (function ? BESIDE_FUNCTION : 0) || (!held.cut && !function))
        return 0;
    while (columns >= NARROWEST && !has_all_strips(x, columns)) columns /= 2;
    return columns < NARROWEST ? 0 : columns;
}

/* Whether all that comes through rings behind the sums is cut, and read by what has been counted. */
static bool cuts_rings(const Strips *x)
{
    bool all = true;
    for (size_t k = 0; k < x->rings.reads.len && all; k++) {
        const Value *v = ir_result(x->rings.reads.data[k]);
        all = is_cut(x, v) && x->strip[v->id];
    }
    return all;
}

static bool try_sum(KernelContext *c, Value *sum, bool rings)
{
    uint32_t n = kernel_values(c);
    Strips x = { .h = { .s = c->s, .f = c->f, .p = c->p },
        .sum = sum,
        .axis = sum->type->rank - 1,
        .member = arena_array(&c->s->arena, bool, n),
        .taken = arena_array(&c->s->arena, bool, n),
        .strip = arena_array(&c->s->arena, Value *, n),
        .token = arena_array(&c->s->arena, Value *, n),
        .values = n };
    if (rings && !ring_tiles_find(&c->s->arena, sum, &x.rings)) return false;
    find_members(&x);
    if (!x.roots.len || !x.first) return false;
    find_taken(&x);
    x.extent = columns_for(&x);
    if (!x.extent || !cuts_rings(&x)) return false;
    for (size_t k = 0; k < x.roots.len; k++)
        if (!is_before(&x, x.roots.data[k], x.axis)) return false;
    cut(&x);
    ir_sweep(sum->def->block);
    for (size_t k = 0; k < x.rings.reads.len; k++) ir_erase(x.rings.reads.data[k]);
    return true;
}

/* Whether the block runs once a program. */
static bool runs_once(const Block *b)
{
    for (const Instr *i = b->parent; i; i = i->block->parent)
        if ((i->op == OP_FOR || i->op == OP_WHILE) && !ir_over_programs(i)) return false;
    return true;
}

static bool is_product(Op op) { return op == OP_MMA_SYNC || op == OP_WGMMA_WAIT || op == OP_WGMMA_PROMOTED; }

/* Whether the value has sums of a product: its own, or those of a loop with products. */
static bool holds_sums(const Instr *i, const Value *v)
{
    return v->type->kind == TYPE_TILE && v->type->layout && v->type->rank == 2 && v->uses &&
           (is_product(i->op) ||
               ((i->op == OP_FOR || i->op == OP_WHILE) &&
                   (ir_is_or_holds(i, OP_MMA_SYNC) || ir_is_or_holds(i, OP_WGMMA_PROMOTED))));
}

typedef struct Found {
    KernelContext *c;
    ValueList sums;
} Found;

static void find_sums(void *user, Instr *i)
{
    Found *x = user;
    if (!runs_once(i->block)) return;
    for (int k = 0; k < i->n_results; k++)
        if (holds_sums(i, &i->results[k])) vec_push(&x->c->s->arena, &x->sums, &i->results[k]);
}

bool kernel_pass_column_strips(KernelContext *c)
{
    Found x = { .c = c };
    bool changed = false;
    ir_walk(c->f->body, find_sums, &x);
    for (size_t k = 0; k < x.sums.len; k++)
        changed |= try_sum(c, x.sums.data[k], true) || try_sum(c, x.sums.data[k], false);
    return changed;
}
