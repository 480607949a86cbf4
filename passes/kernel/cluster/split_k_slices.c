/* split_k_slices.c: of split-k: what follows the sums is done once, so each CTA of a cluster finishes a slice
 * of the tile along one axis. Finds whether all of it can follow that axis, and narrows it. */
#include "passes/kernel/cluster/split_k.h"
#include "ir/analysis/range.h"

/* --- slices ------------------------------------------------------------------------------------------ */

/* The axis of a slice; -1: there is none. */
static int slice_of(const Division *c, const Value *v)
{
    for (size_t k = 0; k < c->sliced.len; k++)
        if (c->sliced.data[k].v == v && !c->sliced.data[k].made) return c->sliced.data[k].axis;
    return -1;
}

void split_note_slice(Division *c, const Value *v, int axis)
{ vec_push(&c->s->arena, &c->sliced, ((Sliced){ v, axis, NULL })); }

static const Type *part_of(Division *c, const Type *t, int axis)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = t->shape[a] / (a == axis ? c->ctas : 1);
    return type_tile(c->s, t->dtype, t->rank, shape);
}

/* The axis of `to` that corresponds to `axis` of `from`, whatever their ranks; -1: the axis is merged or
 * divided. */
static int same_axis(const Type *from, int axis, const Type *to)
{
    int64_t inner = 1, seen = 1;
    if (from->kind != TYPE_TILE || to->kind != TYPE_TILE) return -1;
    for (int a = axis + 1; a < from->rank; a++) inner *= from->shape[a];
    for (int a = to->rank - 1; a >= 0; seen *= to->shape[a--])
        if (seen == inner && to->shape[a] == from->shape[axis]) return a;
    return -1;
}

/* The operand's axis that becomes `axis` of the result, and the other way round; -1: the axis does not
 * correspond to a whole axis. */
int kernel_axis_before(const Instr *i, int axis)
{
    const Attr *o = ir_attr(i, ATTR_ORDER);
    return i->op == OP_PERMUTE ? (int)o->v[axis]
                               : same_axis(ir_result(i)->type, axis, ir_operand(i, 0)->type);
}

static int axis_after(const Instr *i, const Type *whole, int axis)
{
    const Attr *o = ir_attr(i, ATTR_ORDER);
    if (i->op != OP_PERMUTE) return same_axis(whole, axis, ir_result(i)->type);
    for (int a = 0; a < o->n; a++)
        if (o->v[a] == axis) return a;
    return -1;
}

static bool reduces(const Instr *i) { return op_reduces(i->op) && ir_operand(i, 0)->type->kind == TYPE_TILE; }

/* The tensor axis of axis `axis` of the window's tile. */
int kernel_tensor_axis(const Instr *mem, int axis)
{
    const Attr *e = ir_attr(mem, ATTR_EXTENTS), *o = ir_attr(mem, ATTR_ORDER);
    if (o) axis = (int)o->v[axis];
    for (int a = 0; e && a < e->n; a++)
        if (e->v[a] != -1 && axis-- == 0) return a;
    return -1;
}

/* Shrinks the window of a load or store to the part of this CTA. */
static void narrow_window(Division *c, Instr *mem, int axis)
{
    const Attr *e = ir_attr(mem, ATTR_EXTENTS), *steps = ir_attr(mem, ATTR_STEPS),
               *align = ir_attr(mem, ATTR_ALIGN);
    int a = kernel_tensor_axis(mem, axis);
    int64_t extents[TILE_MAX_RANK], step = steps ? steps->v[a] : 1, by;
    memcpy(extents, e->v, sizeof *extents * (size_t)e->n);
    extents[a] /= c->ctas;
    by = extents[a] * step;
    Builder b = ir_before(mem);
    Value *at = ir_operand(mem, 1 + a), *off = ir_cast(&b, c->rank, at->type->dtype);
    at = ir_bin(&b, OP_ADD, at, ir_bin(&b, OP_MUL, off, ir_const_int(&b, at->type->dtype, by)));
    ir_set_operand(mem, 1 + a, at);
    ir_set_attr(c->s, mem, a_ints(ATTR_EXTENTS, extents, e->n));
    if (align)
        ir_set_attr(c->s, mem,
            a_int(ATTR_ALIGN,
                range_gcd(align->i,
                    (by < 0 ? -by : by) * dtype_bytes(c->f->params[ir_operand(mem, 0)->index].type->dtype))));
}

static Value *slice(Division *, Value *, int axis, int depth);

static Value *clone(Division *c, Instr *i, Value *const *operands, int axis)
{
    ValueMap map;
    value_map_init(&map, &c->s->arena);
    for (int k = 0; k < i->n_operands; k++)
        if (operands[k] != ir_operand(i, k)) value_map_set(&map, ir_operand(i, k), operands[k]);
    Builder b = ir_after(i);
    Instr *made = ir_clone(&b, i, &map);
    ir_result(made)->type = part_of(c, ir_result(made)->type, axis);
    return ir_result(made);
}

/* `part` reads the memory that `whole` leaves: each token is the memory state of one operation. */
static void read_behind(Instr *part, Instr *whole)
{
    ir_replace(&whole->results[1], &part->results[1]);
    ir_set_operand(part, part->n_operands - 1, &whole->results[1]);
}

/* This CTA's slice of a tile that every CTA could have; NULL: it has none. When `make` is not set, the value
 * itself. */
static Value *slice_anew(Division *c, Value *v, int axis, int depth)
{
    Instr *i = v->def;
    MemParts m;
    if (!i || i->block != c->f->body || depth > 64 || v != ir_result(i) || v->type->shape[axis] % c->ctas)
        return NULL;
    if (!c->make) vec_push(&c->s->arena, &c->touched, i);
    Value **operands = arena_array(&c->s->arena, Value *, (size_t)i->n_operands + 1);
    for (int k = 0; k < i->n_operands; k++) operands[k] = ir_operand(i, k);
    if (i->op == OP_ARANGE) {
        if (!c->make) return v;
        Value *part = clone(c, i, operands, axis);
        Builder b = ir_after(part->def);
        Value *extent = ir_const_int(&b, part->type->dtype, part->type->shape[0]),
              *off = ir_bin(&b, OP_MUL, ir_cast(&b, c->rank, part->type->dtype), extent);
        return ir_bin(&b, OP_ADD, part, ir_splat(&b, off, 1, part->type->shape));
    }
    if (i->op == OP_LOAD) {
        if (!ir_mem_parts(i, &m) || m.mask || kernel_tensor_axis(i, axis) < 0) return NULL;
        if (!c->make) return v;
        Value *part = clone(c, i, operands, axis);
        narrow_window(c, part->def, axis);
        if (i->n_results > 1) read_behind(part->def, i);
        return part;
    }
    if (i->n_results != 1) return NULL;
    if (op_info[i->op].flags & OPF_ELEM) {
        for (int k = 0; k < i->n_operands; k++)
            if (!(operands[k] = slice(c, operands[k], axis, depth + 1))) return NULL;
    } else if (i->op == OP_BROADCAST) {
        if (!(operands[0] = slice(c, operands[0], axis, depth + 1))) return NULL;
    } else if (i->op == OP_RESHAPE || i->op == OP_PERMUTE) {
        int before = kernel_axis_before(i, axis);
        if (before < 0 || !(operands[0] = slice(c, operands[0], before, depth + 1))) return NULL;
    } else if (i->op != OP_SPLAT) return NULL;
    return c->make ? clone(c, i, operands, axis) : v;
}

static Value *slice(Division *c, Value *v, int axis, int depth)
{
    /* First, as a slice may have one element along the axis. */
    if (slice_of(c, v) >= 0) return slice_of(c, v) == axis ? v : NULL;
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1) return v;
    for (size_t k = 0; k < c->sliced.len; k++)
        if (c->sliced.data[k].v == v && c->sliced.data[k].made && c->sliced.data[k].axis == axis)
            return c->sliced.data[k].made;
    Value *made = slice_anew(c, v, axis, depth);
    if (made && c->make) vec_push(&c->s->arena, &c->sliced, ((Sliced){ v, axis, made }));
    return made;
}

static bool take_slices(Division *c, Instr *i, int axis)
{
    for (int k = 0; k < i->n_operands; k++) {
        Value *part = slice(c, ir_operand(i, k), axis, 0);
        if (!part)
            return split_refuse(c, i->loc, "what follows the loop needs more than a slice of the tile");
        if (c->make && part != ir_operand(i, k)) ir_set_operand(i, k, part);
    }
    return true;
}

/* Rewrites one operation after the loops to work on slices, if some operand has a slice. */
bool split_follow(Division *c, Instr *i)
{
    int axis = -1, at = 0;
    MemParts m;
    for (int k = i->n_operands; k-- > 0;)
        if (slice_of(c, ir_operand(i, k)) >= 0) {
            axis = slice_of(c, ir_operand(i, k));
            at = k;
        }
    if (axis < 0)
        return i->op != OP_STORE || split_refuse(c, i->loc, "it stores something else than what was summed");
    if (!c->make) vec_push(&c->s->arena, &c->touched, i);
    const Type *whole = ir_operand(i, at)->type;
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < whole->rank; a++) shape[a] = whole->shape[a] * (c->make && a == axis ? c->ctas : 1);
    whole = type_tile(c->s, whole->dtype, whole->rank, shape);
    if (i->op == OP_STORE) {
        if (!ir_mem_parts(i, &m) || slice_of(c, m.values[0]) < 0 || kernel_tensor_axis(i, axis) < 0)
            return split_refuse(c, i->loc, "a store takes more than a slice of the tile");
        if (m.mask && !slice(c, m.mask, axis, 0))
            return split_refuse(c, i->loc, "a store's mask has no slices");
        if (!c->make) return true;
        for (int k = 0; m.mask && k < i->n_operands; k++)
            if (ir_operand(i, k) == m.mask) ir_set_operand(i, k, slice(c, m.mask, axis, 0));
        narrow_window(c, i, axis);
        return true;
    }
    if (i->n_results != 1)
        return split_refuse(c, i->loc, "what follows the loop needs more than a slice of the tile");
    int after = axis;
    if (op_info[i->op].flags & OPF_ELEM) {
        if (!take_slices(c, i, axis)) return false;
    } else if (i->op == OP_RESHAPE || i->op == OP_PERMUTE) after = axis_after(i, whole, axis);
    else if (reduces(i) && at == 0 && ir_attr_int(i, ATTR_AXIS, 0) != axis)
        after -= ir_attr_int(i, ATTR_DROP, 0) && ir_attr_int(i, ATTR_AXIS, 0) < axis;
    else if (i->op != OP_BROADCAST) after = -1;
    if (after < 0 || ir_result(i)->type->kind != TYPE_TILE || ir_result(i)->type->shape[after] % c->ctas)
        return split_refuse(c, i->loc, "what follows the loop needs more than a slice of the tile");
    if (c->make) ir_result(i)->type = part_of(c, ir_result(i)->type, after);
    split_note_slice(c, ir_result(i), after);
    return true;
}

/* Slices narrower than the 8 columns of a fragment would leave lanes without work. Slices of a single axis
 * are divided among lanes only if they are powers of two. */
static bool divides(const Division *c, const Type *t, int axis)
{
    int64_t part = t->shape[axis] / c->ctas;
    if (t->shape[axis] % c->ctas) return false;
    if (part == type_elements(t) / c->ctas) return (part & (part - 1)) == 0;
    return part % 8 == 0 || axis < t->rank - 1;
}

/* Whether i, or an instruction that it holds, needs more than a slice of a value of which each CTA has a
 * slice. */
static bool wants_whole(const Division *c, const Instr *i)
{
    for (size_t k = 0; k < c->sliced.len; k++)
        for (const Use *u = c->sliced.data[k].v->uses; u; u = u->next) {
            if (u->user == i && split_is_cut(c, i) && !split_goes_on(c, u)) return true;
            for (int b = 0; b < i->n_blocks; b++)
                if (ir_is_ancestor(i->blocks[b], u->user->block)) return true;
        }
    return false;
}

bool split_follow_all(Division *c, int axis)
{
    c->touched.len = 0;
    c->sliced.len = 0;
    for (size_t k = 0; k < c->sums.len; k++) {
        Value *v = &c->sums.data[k].loop->results[c->sums.data[k].k];
        if (axis < v->type->rank && v->type->shape[axis] == 1) continue; /* all CTAs will have it */
        if (axis >= v->type->rank || !divides(c, v->type, axis))
            return split_refuse(c, c->sums.data[k].loop->loc, split_no_parts);
        for (const Use *u = v->uses; u; u = u->next)
            if (!split_goes_on(c, u) && u->user->block != c->f->body)
                return split_refuse(c, u->user->loc, "a sum is used under a condition or in a loop");
        split_note_slice(c, v, axis);
    }
    for (Instr *i = c->f->body->first; i && !(op_info[i->op].flags & OPF_TERM); i = i->next) {
        if (wants_whole(c, i)) return split_refuse(c, i->loc, "a sum is used under a condition or in a loop");
        if (split_is_cut(c, i)) continue;
        if (!split_follow(c, i)) return false;
    }
    return split_ordered(c);
}
