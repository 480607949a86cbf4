/* strips.c: operations on tiles for strips of an axis, one after the other (strips.h).
 *
 *   %x = load X[%i, %j] : [256, 64]              %x0 = load X[%i, %j] : [64, 64]
 *   %y = mul %x, (broadcast %b) : [256, 64]  ->  %y0 = mul %x0, (broadcast %b)
 *   %s = reduce_sum %y {axis = 1} : [256]        %s0 = reduce_sum %y0 {axis = 1} : [64]
 *                                                .. three more strips ..
 *                                                %s = concat %s0, %s1, %s2, %s3
 *
 * Each strip loads its part of what nobody else reads and slices what others read too, or what is no load. A
 * concatenation of the results takes the place of the whole result. Slices and concatenations rename
 * registers, because threads have of each strip what they have of the first one (layout_part).
 *
 * The vendor's compiler moves no load behind a later access, so that a thread would hold all that the text
 * loads at once. The registers of a strip are free when the strip is done. */
#include "passes/kernel/layout/strips.h"
#include <string.h>

void strips_init(Strips *x, KernelContext *c, Block *b)
{
    Arena *a = &c->s->arena;
    uint32_t n = kernel_values(c);
    *x = (Strips){ .h = { .s = c->s, .f = c->f, .p = c->p },
        .block = b,
        .member = arena_array(a, bool, n),
        .axis = arena_array(a, int, n),
        .taken = arena_array(a, bool, n),
        .strip = arena_array(a, Value *, n),
        .token = arena_array(a, Value *, n),
        .values = n };
}

/* --- what is cut -------------------------------------------------------------------------------------- */

/* The instruction of the block in which the user is, or which holds it; NULL: it is elsewhere. */
static Instr *at_block(const Block *b, Instr *user)
{
    while (user && user->block != b) user = user->block->parent;
    return user;
}

static void note_reader(Strips *x, Instr *user)
{
    Instr *at = at_block(x->block, user);
    for (Instr *i = x->first; i; i = i->prev)
        if (i == at) {
            x->first = at;
            return;
        }
    if (!x->first) x->first = at;
}

void strips_find_roots(Strips *x, Instr *from)
{
    for (Instr *i = from; i; i = i->next)
        for (int k = 0; k < i->n_results; k++) {
            Value *v = &i->results[k];
            bool root = false;
            for (const Use *u = v->uses; strips_member(x, v) && u; u = u->next)
                if (!u->user->n_results || !strips_member(x, ir_result(u->user))) {
                    root = true;
                    note_reader(x, u->user);
                }
            if (root) vec_push(&x->h.s->arena, &x->roots, v);
        }
}

static bool is_behind_strips(const Strips *x, Instr *user)
{
    Instr *at = at_block(x->block, user);
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

static bool only_reads(const Strips *x, const Instr *i)
{
    const Instr *guarded = kernel_guarded_load(i);
    return is_plain(x, guarded ? guarded : i, i);
}

/* Whether the conversion only renames registers of a thread. */
static bool renames(const Strips *x, const Instr *convert)
{
    const Type *from = ir_operand(convert, 0)->type, *to = ir_result(convert)->type;
    LayoutTable *layouts = &x->h.p->layouts;
    return layout_convert_renames(
        &x->h.s->arena, layouts_get(layouts, from), layouts_get(layouts, to), dtype_bytes(to->dtype));
}

bool strips_gather(const Func *f, const Instr *i)
{
    MemParts m;
    return i->op == OP_GATHER && ir_mem_parts(i, &m) && !m.mask && !m.token &&
           f->params[m.param].kind == PARAM_IN && m.result->type->kind == TYPE_TILE && m.result->type->layout;
}

/* Whether the operation can be done for a strip, given strips of its operands. */
static bool can_cut(const Strips *x, const Instr *i)
{
    if (i->op == OP_CONVERT) return renames(x, i);
    return op_info[i->op].flags & OPF_ELEM || i->op == OP_BROADCAST || i->op == OP_RESHAPE ||
           i->op == OP_SPLAT || i->op == OP_ARANGE || only_reads(x, i) ||
           (x->gathers && strips_gather(x->h.f, i)) ||
           (i->op == OP_RING_READ && ring_tiles_index(&x->rings, ir_result(i)) >= 0);
}

/* Finds what members read and nobody else, from the last on. */
void strips_find_taken(Strips *x)
{
    for (Instr *i = x->block->last; i; i = i->prev) {
        if ((i->n_results != 1 && !strips_is_load(i)) || strips_member(x, &i->results[0]) || !can_cut(x, i))
            continue;
        bool taken = i->results[0].uses != NULL;
        for (const Use *u = i->results[0].uses; u && taken; u = u->next) {
            const Instr *by = u->user;
            taken = by->block == i->block && by->n_results == 1 &&
                    (strips_member(x, ir_result(by)) || x->taken[ir_result(by)->id]);
        }
        x->taken[i->results[0].id] = taken;
    }
}

/* Whether the operation is done for each strip. No register holds a value without a layout. */
bool strips_is_cut(const Strips *x, const Value *v)
{
    return v->def && v != x->sum &&
           (strips_member(x, v) || x->taken[v->id] || (!v->type->layout && can_cut(x, v->def)));
}

static const Layout *part_of(Strips *x, const Type *t, int axis)
{ return layout_part(&x->h.s->arena, layouts_get(&x->h.p->layouts, t), axis, (int32_t)x->extent); }

static bool spans(const Strips *x, const Value *v, int axis)
{
    return v->type->kind == TYPE_TILE && axis >= 0 && axis < v->type->rank &&
           v->type->shape[axis] == x->length;
}

int strips_operand_axis(const Instr *i, int axis)
{
    if (i->op == OP_RESHAPE) return kernel_axis_before(i, axis);
    bool drops = op_reduces(i->op) && ir_attr_int(i, ATTR_DROP, 0);
    return axis + (drops && axis >= ir_attr_int(i, ATTR_AXIS, 0));
}

/* Whether there are strips of the value along the axis. */
static bool has_strips(Strips *x, const Value *v, int axis)
{
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1) return true;
    if (!spans(x, v, axis) || (v->type->layout && !part_of(x, v->type, axis))) return false;
    if (!strips_is_cut(x, v)) return v->type->layout != NULL;
    x->axis[v->id] = axis;
    int before = strips_operand_axis(v->def, axis);
    if (strips_is_load(v->def) || v->def->op == OP_SPLAT || v->def->op == OP_ARANGE) return true;
    if (v->def->op == OP_RING_READ) return axis == 1 && ring_tiles_fit(v->def, x->extent);
    if (before < 0) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (!has_strips(x, ir_operand(v->def, k), before)) return false;
    return true;
}

/* Whether all that strips of the value need is there before the first reader. */
static bool is_before(const Strips *x, const Value *v, int axis)
{
    if (spans(x, v, axis) && strips_is_cut(x, v) && v->def->op != OP_IF) {
        bool all = true;
        for (int k = 0; k < v->def->n_operands && all; k++)
            all = is_before(x, ir_operand(v->def, k), strips_operand_axis(v->def, axis));
        return all;
    }
    if (!v->def || v->def->block != x->block) return true;
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
    if (i->op != OP_LOAD) return strip_of(x, b, v, strips_operand_axis(i, axis));
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
    if (!strips_is_cut(x, v)) {
        x->strip[v->id] =
            ir_op(b, OP_SLICE, t, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, x->start)), v);
        return x->strip[v->id];
    }
    Instr *i = v->def;
    b->loc = i->loc;
    if (strips_is_load(i)) {
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

/* Whether registers hold whole words of the type, as what is opaque has. */
static bool has_words(DType d) { return d != DT_BOOL && dtype_bytes(d) <= 4; }

/* Makes the strip of the roots. */
static void cut_strip(Strips *x, Builder *b, Value **part, size_t n)
{
    memset(x->strip, 0, x->values * sizeof *x->strip);
    for (size_t k = 0; k < x->loads.len; k++) {
        Value *v = &x->loads.data[k]->results[0];
        strip_of(x, b, v, x->axis[v->id]);
    }
    b->loc = x->roots.data[0]->def->loc;
    for (size_t k = 0; k < x->roots.len; k++) {
        Value *v = x->roots.data[k];
        Value *strip = strip_of(x, b, v, x->axis[v->id]);
        if (x->apart && has_words(strip->type->dtype))
            strip = ir_emit(b, OP_OPAQUE, &strip, 1, NO_ATTRS, strip->type);
        part[k * n + (size_t)(x->start / x->extent)] = strip;
    }
}

void strips_cut(Strips *x)
{
    int n = (int)(x->length / x->extent);
    Value **part = arena_array(&x->h.s->arena, Value *, x->roots.len * (size_t)n);
    Builder b = ir_before(x->first);
    for (x->start = 0; x->start < x->length; x->start += x->extent) cut_strip(x, &b, part, (size_t)n);
    for (Instr *i = x->block->first; i; i = i->next)
        if (i->n_results > 1 && i->results[0].id < x->values && x->token[i->results[0].id])
            ir_replace(&i->results[1], x->token[i->results[0].id]);
    if (x->order.len) ring_tiles_put(x->h.s, &x->rings, x->order.data, x->order.len, x->extent);
    for (size_t k = 0; k < x->roots.len; k++) {
        Value *root = x->roots.data[k];
        b.loc = root->def->loc;
        Value *all = ir_emit(
            &b, OP_CONCAT, part + k * (size_t)n, n, ATTRS(a_int(ATTR_AXIS, x->axis[root->id])), root->type);
        all->name = root->name;
        ir_replace(root, all);
    }
}

/* --- what a thread holds ------------------------------------------------------------------------------ */

void strips_clear(Strips *x) { memset(x->strip, 0, x->values * sizeof *x->strip); }

void strips_count(Strips *x, Value *v, int axis, StripsHeld *h)
{
    if (x->strip[v->id] || !v->type->layout) return;
    x->strip[v->id] = v;
    if (!strips_is_cut(x, v) || !spans(x, v, axis))
        h->whole += v->def && v->def->op == OP_RING_READ ? 0 : hoist_words(&x->h, v);
    else if (strips_is_load(v->def) || v->def->op == OP_RING_READ) h->cut += hoist_words(&x->h, v);
    else
        for (int k = 0; k < v->def->n_operands; k++)
            strips_count(x, ir_operand(v->def, k), strips_operand_axis(v->def, axis), h);
}

bool strips_exist(Strips *x, int64_t extent)
{
    x->extent = extent;
    bool all = extent < x->length;
    for (size_t k = 0; k < x->roots.len && all; k++)
        all = has_strips(x, x->roots.data[k], x->axis[x->roots.data[k]->id]);
    return all;
}

bool strips_precede(const Strips *x)
{
    for (size_t k = 0; k < x->roots.len; k++)
        if (!is_before(x, x->roots.data[k], x->axis[x->roots.data[k]->id])) return false;
    return true;
}
