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

/* How positions are computed: one by one as scalars (`rows` is NULL), or as tiles of this type, which have a
 * position for each row. */
typedef struct Form {
    Builder *b;
    const Type *rows;
} Form;

static Value *in_form(const Form *f, const Value *scalar)
{ return f->rows ? ir_splat(f->b, (Value *)scalar, f->rows->rank, f->rows->shape) : (Value *)scalar; }

static Value *number(const Form *f, DType d, int64_t n) { return in_form(f, ir_const_int(f->b, d, n)); }

static const Type *type_in_form(const Form *f, DType d)
{
    Session *s = f->b->module->session;
    return f->rows ? type_tile(s, d, f->rows->rank, f->rows->shape) : type_scalar(s, d);
}

/* Where the elements of `from` lie that are at these places of the one axis of its reshape. */
static void coordinates_of(const Form *f, const Type *from, Value *place, Value **own)
{
    int64_t inner = 1, all = type_elements(from);
    DType d = place->type->dtype;
    for (int a = from->rank - 1; a >= 0; a--) {
        own[a] = inner > 1 ? ir_bin(f->b, OP_DIV, place, number(f, d, inner)) : place;
        inner *= from->shape[a];
        if (inner < all) own[a] = ir_bin(f->b, OP_REM, own[a], number(f, d, from->shape[a]));
        if (from->shape[a] == 1) own[a] = number(f, d, 0);
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

static Value *position(const Form *f, const Value *v, Value *const *at, bool narrow);

/* Reads what load or gather i reads, at the positions behind the tensor in `ops`, where a gather's mask holds
 * at the coordinates. */
static Value *read_at(const Form *f, const Instr *i, const MemParts *m, Value **ops, Value *const *at)
{
    int64_t single[TILE_MAX_RANK];
    Attr attrs[3];
    int n = 0, n_ops = 1 + m->rank;
    bool load = i->op == OP_LOAD;
    for (int a = 0; a < m->rank; a++) single[a] = -1;
    if (!f->rows) attrs[n++] = a_ints(ATTR_EXTENTS, single, m->rank);
    if (!load && m->mask) {
        ops[n_ops++] = position(f, m->mask, at, false);
        attrs[n++] = a_int(ATTR_HAS_MASK, 1);
    }
    if (load && m->pad) {
        ops[n_ops++] = m->pad;
        attrs[n++] = a_int(ATTR_HAS_PAD, 1);
    }
    if (load && !f->rows && ir_attr(i, ATTR_MASKED)) attrs[n++] = *ir_attr(i, ATTR_MASKED);
    return ir_emit(f->b, f->rows ? OP_GATHER : OP_LOAD, ops, n_ops, (Attrs){ attrs, n },
        f->rows ? type_in_form(f, i->results[0].type->dtype) : NULL);
}

static Value *position_in_load(const Form *f, const Instr *i, Value *const *at)
{
    MemParts m;
    ir_mem_parts(i, &m);
    const Attr *ext = ir_attr(i, ATTR_EXTENTS), *steps = ir_attr(i, ATTR_STEPS),
               *order = ir_attr(i, ATTR_ORDER);
    Value *ops[2 + TILE_MAX_RANK] = { m.tensor };
    for (int a = 0, t = 0; a < m.rank; a++) {
        DType d = m.idx[a]->type->dtype;
        ops[1 + a] = in_form(f, m.idx[a]);
        if (ext->v[a] == -1) continue;
        int k = t++;
        for (int o = 0; order && o < order->n; o++)
            if (order->v[o] == t - 1) k = o;
        Value *step = ir_cast(f->b, at[k], d);
        if (steps && steps->v[a] != 1) step = ir_bin(f->b, OP_MUL, step, number(f, d, steps->v[a]));
        ops[1 + a] = ir_bin(f->b, OP_ADD, ops[1 + a], step);
    }
    return read_at(f, i, &m, ops, at);
}

static Value *position_in_gather(const Form *f, const Instr *i, Value *const *at)
{
    MemParts m;
    ir_mem_parts(i, &m);
    Value *ops[2 + TILE_MAX_RANK] = { m.tensor };
    for (int a = 0; a < m.rank; a++) ops[1 + a] = position(f, m.idx[a], at, false);
    return read_at(f, i, &m, ops, at);
}

/* Behind a broadcast, a permute or a reshape: the position at the operand's own coordinates. */
static Value *position_in_operand(const Form *f, const Value *v, Value *const *at, bool narrow)
{
    const Instr *i = v->def;
    const Value *operand = ir_operand(i, 0);
    const Type *from = operand->type;
    Value *own[TILE_MAX_RANK] = { NULL };
    bool tile = is_tile(operand);
    if (i->op == OP_RESHAPE && tile && position_axis(from, v->type, 0) == -2) {
        coordinates_of(f, from, at[position_line(v->type)], own);
        return position(f, operand, own, narrow);
    }
    for (int a = 0; tile && a < from->rank; a++) {
        int k = i->op == OP_RESHAPE ? position_axis(from, v->type, a) : a;
        for (int o = 0; i->op == OP_PERMUTE && o < from->rank; o++)
            if (ir_attr(i, ATTR_ORDER)->v[o] == a) k = o;
        own[a] = k < 0 || from->shape[a] == 1 ? number(f, DT_I32, 0) : at[k];
    }
    return position(f, operand, own, narrow);
}

/* The value before v was widened from 32 bits or more, which is the same number. */
static bool only_widens(const Instr *i)
{
    const Type *from = i->op == OP_CAST ? ir_operand(i, 0)->type : NULL;
    return from && dtype_is_int(from->dtype) && dtype_bits(from->dtype) >= 32 &&
           dtype_bits(i->results[0].type->dtype) >= dtype_bits(from->dtype);
}

/* The element of v at these coordinates. narrow: a value of fewer bits is right as well. */
static Value *position(const Form *f, const Value *v, Value *const *at, bool narrow)
{
    const Instr *i = v->def;
    if (!is_tile(v)) return in_form(f, v);
    if (i->op == OP_LOAD) return position_in_load(f, i, at);
    if (i->op == OP_GATHER) return position_in_gather(f, i, at);
    DType d = v->type->dtype;
    switch (op_as_shape(i->op)) {
    case SHAPE_SPLAT: return in_form(f, ir_operand(i, 0));
    case SHAPE_ARANGE: {
        Value *x = ir_cast(f->b, at[0], d);
        int64_t start = ir_attr_int(i, ATTR_START, 0);
        return start ? ir_bin(f->b, OP_ADD, x, number(f, d, start)) : x;
    }
    case SHAPE_BROADCAST:
    case SHAPE_PERMUTE:
    case SHAPE_RESHAPE: return position_in_operand(f, v, at, narrow);
    case SHAPE_CONCAT: /* refused before */
    case SHAPE_SLICE: break;
    }
    if (narrow && only_widens(i)) return position(f, ir_operand(i, 0), at, true);
    Value *own[TILE_MAX_RANK];
    for (int k = 0; k < i->n_operands; k++) own[k] = position(f, ir_operand(i, k), at, false);
    return ir_emit(f->b, i->op, own, i->n_operands, (Attrs){ i->attrs, i->n_attrs },
        i->op == OP_CAST || i->op == OP_BITCAST ? type_in_form(f, d) : NULL);
}

Value *kernel_position(Builder *b, const Value *v, Value *const *at)
{ return position(&(Form){ b, NULL }, v, at, false); }

Value *position_rows(Builder *b, const Value *v, Value *const *at, bool narrow)
{ return position(&(Form){ b, at[0]->type }, v, at, narrow); }

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
