/* gather_positions.c: of gather-windows: computes where a part of a window is that has positions of its
 * own: an element of a tile of integers as a scalar, for copies that one thread starts; or a tile with a
 * position for each row, for threads that copy. */
#include "passes/kernel/gather/gather_windows.h"

static bool is_tile(const Value *v) { return v->type->kind == TYPE_TILE; }

int position_axis(const Type *from, const Type *to, int k)
{
    int at[TILE_MAX_RANK], i = 0, j = 0;
    for (int a = 0; a < from->rank; a++) at[a] = -1;
    for (;;) {
        while (i < from->rank && from->shape[i] == 1) i++;
        while (j < to->rank && to->shape[j] == 1) j++;
        if (i == from->rank || j == to->rank) break;
        if (from->shape[i] != to->shape[j]) return -2;
        at[i++] = j++;
    }
    return i == from->rank && j == to->rank ? at[k] : -2;
}

int position_line(const Type *to)
{
    int line = -1;
    for (int a = 0; a < to->rank; a++) {
        if (to->shape[a] == 1) continue;
        if (line >= 0) return -1;
        line = a;
    }
    return line < 0 ? 0 : line;
}

/* A number of the type of another value, as often as that has elements. */
static Value *number_like(Builder *b, const Value *like, int64_t n)
{
    Value *x = ir_const_int(b, like->type->dtype, n);
    return is_tile(like) ? ir_splat(b, x, like->type->rank, like->type->shape) : x;
}

/* Where the elements of `from` lie that are at these places of the one axis of its reshape. */
static void coordinates_of(Builder *b, const Type *from, Value *place, Value **own)
{
    int64_t inner = 1, all = type_elements(from);
    for (int a = from->rank - 1; a >= 0; a--) {
        own[a] = inner > 1 ? ir_bin(b, OP_DIV, place, number_like(b, place, inner)) : place;
        inner *= from->shape[a];
        if (inner < all) own[a] = ir_bin(b, OP_REM, own[a], number_like(b, place, from->shape[a]));
        if (from->shape[a] == 1) own[a] = number_like(b, place, 0);
    }
}

bool kernel_position_of(const Value *v, ValueTest *test, void *user)
{
    if (!is_tile(v)) return test(user, (Value *)v);
    for (int k = 0; k < v->def->n_operands; k++) {
        const Value *o = ir_operand(v->def, k);
        if (o->type->kind != TYPE_TENSOR && !kernel_position_of(o, test, user)) return false;
    }
    return true;
}

static Value *position_of_load(Builder *b, const Instr *i, Value *const *at)
{
    MemParts m;
    ir_mem_parts(i, &m);
    const Attr *ext = ir_attr(i, ATTR_EXTENTS), *steps = ir_attr(i, ATTR_STEPS),
               *order = ir_attr(i, ATTR_ORDER);
    Value *ops[2 + TILE_MAX_RANK] = { m.tensor };
    int64_t single[TILE_MAX_RANK];
    for (int a = 0, t = 0; a < m.rank; a++) {
        single[a] = -1;
        ops[1 + a] = m.idx[a];
        if (ext->v[a] == -1) continue;
        int k = t++;
        for (int o = 0; order && o < order->n; o++)
            if (order->v[o] == t - 1) k = o;
        Value *step = ir_cast(b, at[k], m.idx[a]->type->dtype);
        if (steps && steps->v[a] != 1)
            step = ir_bin(b, OP_MUL, step, ir_const_int(b, step->type->dtype, steps->v[a]));
        ops[1 + a] = ir_bin(b, OP_ADD, m.idx[a], step);
    }
    Attr attrs[3];
    int n = 0, n_ops = 1 + m.rank;
    attrs[n++] = a_ints(ATTR_EXTENTS, single, m.rank);
    if (m.pad) {
        ops[n_ops++] = m.pad;
        attrs[n++] = a_int(ATTR_HAS_PAD, 1);
    }
    if (ir_attr(i, ATTR_MASKED)) attrs[n++] = *ir_attr(i, ATTR_MASKED);
    return ir_emit(b, OP_LOAD, ops, n_ops, (Attrs){ attrs, n }, NULL);
}

static Value *position_of_gather(Builder *b, const Instr *i, Value *const *at)
{
    MemParts m;
    ir_mem_parts(i, &m);
    Value *ops[1 + TILE_MAX_RANK] = { m.tensor };
    int64_t single[TILE_MAX_RANK];
    for (int a = 0; a < m.rank; a++) {
        single[a] = -1;
        ops[1 + a] = kernel_position(b, m.idx[a], at);
    }
    return ir_emit(b, OP_LOAD, ops, 1 + m.rank, ATTRS(a_ints(ATTR_EXTENTS, single, m.rank)), NULL);
}

Value *kernel_position(Builder *b, const Value *v, Value *const *at)
{
    const Instr *i = v->def;
    if (!is_tile(v)) return (Value *)v;
    Value *own[TILE_MAX_RANK];
    if (i->op == OP_LOAD) return position_of_load(b, i, at);
    if (i->op == OP_GATHER) return position_of_gather(b, i, at);
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: return ir_operand(i, 0);
    case SHAPE_ARANGE: {
        Value *x = ir_cast(b, at[0], v->type->dtype);
        int64_t start = ir_attr_int(i, ATTR_START, 0);
        return start ? ir_bin(b, OP_ADD, x, ir_const_int(b, v->type->dtype, start)) : x;
    }
    case SHAPE_BROADCAST:
    case SHAPE_PERMUTE:
    case SHAPE_RESHAPE: {
        const Type *from = ir_operand(i, 0)->type;
        if (i->op == OP_RESHAPE && from->kind == TYPE_TILE && position_axis(from, v->type, 0) == -2) {
            coordinates_of(b, from, at[position_line(v->type)], own);
            return kernel_position(b, ir_operand(i, 0), own);
        }
        for (int a = 0; from->kind == TYPE_TILE && a < from->rank; a++) {
            int k = i->op == OP_RESHAPE ? position_axis(from, v->type, a) : a;
            for (int o = 0; i->op == OP_PERMUTE && o < from->rank; o++)
                if (ir_attr(i, ATTR_ORDER)->v[o] == a) k = o;
            own[a] = k < 0 || from->shape[a] == 1 ? ir_const_int(b, DT_I32, 0) : at[k];
        }
        return kernel_position(b, ir_operand(i, 0), own);
    }
    case SHAPE_CONCAT: /* refused before */
    case SHAPE_SLICE: break;
    }
    for (int k = 0; k < i->n_operands; k++) own[k] = kernel_position(b, ir_operand(i, k), at);
    return ir_emit(b, i->op, own, i->n_operands, (Attrs){ i->attrs, i->n_attrs },
        i->op == OP_CAST || i->op == OP_BITCAST ? type_scalar(b->module->session, v->type->dtype) : NULL);
}

int64_t kernel_parts(const Instr *load, uint32_t *picked)
{
    int64_t parts = 0;
    uint32_t axes = 0;
    if (load->op != OP_LOAD) return 0;
    for (int a = 0; a < ir_operand(load, 0)->type->rank; a++) {
        if (!is_tile(ir_operand(load, 1 + a))) continue;
        axes |= 1u << a;
        if (ir_attr(load, ATTR_EXTENTS)->v[a] != -1) parts = ir_attr(load, ATTR_EXTENTS)->v[a];
    }
    if (picked) *picked = axes;
    return parts;
}

/* The value before v was widened from 32 bits or more, which is the same number. */
static bool only_widens(const Instr *i)
{
    const Type *from = i->op == OP_CAST ? ir_operand(i, 0)->type : NULL;
    return from && dtype_is_int(from->dtype) && dtype_bits(from->dtype) >= 32 &&
           dtype_bits(i->results[0].type->dtype) >= dtype_bits(from->dtype);
}

static Value *rows_of_load(Builder *b, const Instr *i, Value *const *at)
{
    MemParts m;
    Session *s = b->module->session;
    ir_mem_parts(i, &m);
    const Type *shape = at[0]->type;
    const Attr *ext = ir_attr(i, ATTR_EXTENTS), *steps = ir_attr(i, ATTR_STEPS),
               *order = ir_attr(i, ATTR_ORDER);
    Value *ops[2 + TILE_MAX_RANK] = { m.tensor };
    for (int a = 0, t = 0; a < m.rank; a++) {
        Value *from = ir_splat(b, m.idx[a], shape->rank, shape->shape);
        ops[1 + a] = from;
        if (ext->v[a] == -1) continue;
        int k = t++;
        for (int o = 0; order && o < order->n; o++)
            if (order->v[o] == t - 1) k = o;
        Value *step = ir_cast(b, at[k], m.idx[a]->type->dtype);
        if (steps && steps->v[a] != 1) {
            Value *by =
                ir_splat(b, ir_const_int(b, m.idx[a]->type->dtype, steps->v[a]), shape->rank, shape->shape);
            step = ir_bin(b, OP_MUL, step, by);
        }
        ops[1 + a] = ir_bin(b, OP_ADD, from, step);
    }
    int n = 1 + m.rank;
    if (m.pad) ops[n++] = m.pad;
    return ir_emit(b, OP_GATHER, ops, n, m.pad ? ATTRS(a_int(ATTR_HAS_PAD, 1)) : NO_ATTRS,
        type_tile(s, i->results[0].type->dtype, shape->rank, shape->shape));
}

static Value *rows_of_gather(Builder *b, const Instr *i, Value *const *at)
{
    MemParts m;
    const Type *shape = at[0]->type;
    ir_mem_parts(i, &m);
    Value *ops[1 + TILE_MAX_RANK] = { m.tensor };
    for (int a = 0; a < m.rank; a++) ops[1 + a] = position_rows(b, m.idx[a], at, false);
    return ir_emit(b, OP_GATHER, ops, 1 + m.rank, NO_ATTRS,
        type_tile(b->module->session, i->results[0].type->dtype, shape->rank, shape->shape));
}

Value *position_rows(Builder *b, const Value *v, Value *const *at, bool narrow)
{
    const Instr *i = v->def;
    const Type *shape = at[0]->type;
    Session *s = b->module->session;
    if (!is_tile(v)) return ir_splat(b, (Value *)v, shape->rank, shape->shape);
    Value *own[TILE_MAX_RANK];
    if (i->op == OP_LOAD) return rows_of_load(b, i, at);
    if (i->op == OP_GATHER) return rows_of_gather(b, i, at);
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: return ir_splat(b, ir_operand(i, 0), shape->rank, shape->shape);
    case SHAPE_ARANGE: {
        Value *x = ir_cast(b, at[0], v->type->dtype);
        int64_t start = ir_attr_int(i, ATTR_START, 0);
        if (!start) return x;
        Value *first = ir_splat(b, ir_const_int(b, v->type->dtype, start), shape->rank, shape->shape);
        return ir_bin(b, OP_ADD, x, first);
    }
    case SHAPE_BROADCAST:
    case SHAPE_PERMUTE:
    case SHAPE_RESHAPE: {
        const Type *from = ir_operand(i, 0)->type;
        if (i->op == OP_RESHAPE && from->kind == TYPE_TILE && position_axis(from, v->type, 0) == -2) {
            coordinates_of(b, from, at[position_line(v->type)], own);
            return position_rows(b, ir_operand(i, 0), own, narrow);
        }
        for (int k = 0; k < TILE_MAX_RANK; k++) own[k] = at[0];
        for (int a = 0; from->kind == TYPE_TILE && a < from->rank; a++) {
            int k = i->op == OP_RESHAPE ? position_axis(from, v->type, a) : a;
            for (int o = 0; i->op == OP_PERMUTE && o < from->rank; o++)
                if (ir_attr(i, ATTR_ORDER)->v[o] == a) k = o;
            own[a] = k < 0 || from->shape[a] == 1
                         ? ir_splat(b, ir_const_int(b, DT_I32, 0), shape->rank, shape->shape)
                         : at[k];
        }
        return position_rows(b, ir_operand(i, 0), own, narrow);
    }
    case SHAPE_CONCAT: /* refused before */
    case SHAPE_SLICE: break;
    }
    if (narrow && only_widens(i)) return position_rows(b, ir_operand(i, 0), at, true);
    for (int k = 0; k < i->n_operands; k++) own[k] = position_rows(b, ir_operand(i, k), at, false);
    return ir_emit(b, i->op, own, i->n_operands, (Attrs){ i->attrs, i->n_attrs },
        i->op == OP_CAST || i->op == OP_BITCAST ? type_tile(s, v->type->dtype, shape->rank, shape->shape)
                                                : NULL);
}
