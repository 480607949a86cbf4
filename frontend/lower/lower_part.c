/* lower_part.c: subscripts of tiles and of tables of constants. A tile's are constants that lie inside; a
 * table's may also be values.
 *
 *     t[2, 0 +: 16, :, None]      slices along the axes that have a number or a part, then one reshape
 *     LUT[i]                      of a constant: the entry. Of a value: a tree of `where` over the bits of
 *                                 the index;
 *                                 0 where it is out of range */
#include "frontend/lower/lower_flow.h"

/* --- parts of tiles ---------------------------------------------------------------------------------- */

Value *lower_cut(Lower *l, Loc loc, Value *x, int axis, int64_t base, int64_t extent)
{
    int64_t shape[TILE_MAX_RANK];
    if (!base && extent == x->type->shape[axis]) return x;
    memcpy(shape, x->type->shape, sizeof shape);
    shape[axis] = extent;
    const Type *t = type_tile(l->s, x->type->dtype, x->type->rank, shape);
    Attr attrs[2] = { a_int(ATTR_AXIS, axis), a_int(ATTR_START, base) };
    V v = lower_emit(l, loc, "a part of a tile", OP_SLICE, &x, 1, (Attrs){ attrs, 2 }, t);
    return v.kind == V_ERROR ? NULL : v.value;
}

/* Cuts along one axis. *extent: what the axis keeps; -1: it is dropped. */
static Value *cut_axis(Lower *l, const Node *a, Value *x, int axis, int64_t *extent)
{
    int64_t length = x->type->shape[axis], base = 0;
    *extent = length;
    if (a->kind == N_ALL) return x;
    if (a->kind != N_WINDOW) {
        *extent = -1;
        if (!lower_const_int(l, a, "the subscript of a tile", 0, length - 1, &base)) return NULL;
        return lower_cut(l, a->loc, x, axis, base, 1);
    }
    if (a->kids[2]) {
        lower_error_note(l, a->kids[2]->loc, "reshape(x, [n, step])[:, 0] takes every step-th element",
            "a part of a tile takes no step");
        return NULL;
    }
    if (!lower_const_int(l, a->kids[1], "the extent of a part", 1, length, extent)) return NULL;
    if (!lower_const_int(l, a->kids[0], "the base of a part", 0, length - *extent, &base)) return NULL;
    return lower_cut(l, a->loc, x, axis, base, *extent);
}

/* The one element of a tile. */
static V only_element(Lower *l, Loc loc, Value *x)
{
    int64_t one = 1;
    l->b.loc = loc;
    const Type *row = type_tile(l->s, x->type->dtype, 1, &one);
    if (x->type->rank > 1) x = ir_emit(&l->b, OP_RESHAPE, &x, 1, NO_ATTRS, row);
    Op op = x->type->dtype == DT_BOOL ? OP_REDUCE_ANY : OP_REDUCE_MAX;
    Attr attrs[2] = { a_int(ATTR_AXIS, 0), a_int(ATTR_DROP, 1) };
    return lower_emit(l, loc, "an element of a tile", op, &x, 1, (Attrs){ attrs, 2 }, NULL);
}

V lower_part(Lower *l, const Node *n, Value *v)
{
    int64_t shape[TILE_MAX_RANK], extent;
    int rank = 0, axis = 0, of = v->type->kind == TYPE_TILE ? v->type->rank : 0, axes = 0;
    bool dropped = false;
    for (uint32_t i = 1; i < n->n; i++) axes += n->kids[i]->kind != N_NONE;
    if (axes != of)
        return lower_error(l, n->loc, "%d subscript%s for a tile of %d axes; `:` keeps a whole axis", axes,
            axes == 1 ? "" : "s", of);
    for (uint32_t i = 1; i < n->n; i++) {
        const Node *a = n->kids[i];
        if (a->kind == N_NONE) extent = 1;
        else if (!(v = cut_axis(l, a, v, axis++, &extent))) return value_error();
        dropped |= extent < 0;
        if (extent < 0) continue;
        if (rank == TILE_MAX_RANK) return lower_error(l, n->loc, "a tile has at most %d axes", TILE_MAX_RANK);
        shape[rank++] = extent;
    }
    if (!rank && of) return only_element(l, n->loc, v);
    if (rank == of && !dropped) return value_ir(v);
    l->b.loc = n->loc;
    const Type *t = type_value(l->s, v->type->dtype, rank, shape);
    return value_ir(ir_emit(&l->b, OP_RESHAPE, &v, 1, NO_ATTRS, t));
}

/* --- tables ------------------------------------------------------------------------------------------ */

/* The type that entries take where a value chooses among them. Those of `int` and `float` have none until
 * then. */
static bool table_type(Lower *l, const Node *type, DType *d)
{
    Var *named = lower_scope_find(l, type->name);
    bool word = !strcmp(type->name, "int") || !strcmp(type->name, "float");
    if (named && named->v.kind == V_TYPE) *d = named->v.dtype;
    else if (word) *d = *type->name == 'i' ? DT_INDEX : DT_F32;
    else if (!dtype_parse(type->name, strlen(type->name), d)) {
        lower_error_note(
            l, type->loc, "i32, f32, int, ...", "a table cannot have entries of `%s`", type->name);
        return false;
    }
    return true;
}

V lower_table(Lower *l, const Node *type, const Node *table)
{
    uint32_t entries = table->n - 1;
    int64_t n;
    DType d;
    if (!table_type(l, type, &d)) return value_error();
    if (!lower_const_int(l, table->kids[0], "the length of a table", 1, LIMIT_TABLE, &n))
        return value_error();
    if (n != entries)
        return lower_error(l, table->loc, "a table of %lld entries, %u given", (long long)n, entries);
    V *items = arena_array(&l->s->arena, V, entries);
    for (uint32_t k = 0; k < entries; k++) {
        items[k] = lower_const_value(l, type, lower_expr(l, table->kids[k + 1]), table->kids[k + 1]->loc);
        if (items[k].kind == V_ERROR) return value_error();
    }
    return (V){ .kind = V_TABLE, .dtype = d, .n = (int)n, .items = items };
}

static Value *number_like(Lower *l, const Value *x, int64_t c)
{
    Value *v = ir_const_int(&l->b, x->type->dtype, c);
    return x->type->kind == TYPE_TILE ? lower_to_shape(l, v, x->type->rank, x->type->shape) : v;
}

static Value *within(Lower *l, Value *x, int64_t n)
{
    Value *below = ir_bin(&l->b, OP_LT, x, number_like(l, x, n));
    if (!dtype_is_signed(x->type->dtype)) return below;
    return ir_bin(&l->b, OP_AND, ir_bin(&l->b, OP_GE, x, number_like(l, x, 0)), below);
}

/* Entry by entry, each level by one bit of the index: where(bit, odd, even). */
static Value *choose(Lower *l, Value *x, V table, Loc loc)
{
    Value *level[LIMIT_TABLE];
    int n = table.n;
    const Type *like = type_with_dtype(l->s, x->type, table.dtype);
    for (int k = 0; k < n; k++) {
        Value *v = lower_materialize(l, lower_adapt(l, table.items[k], table.dtype, loc), loc);
        if (!v) return NULL;
        level[k] = like->kind == TYPE_TILE ? lower_to_shape(l, v, like->rank, like->shape) : v;
    }
    for (int64_t bit = 1; n > 1; bit *= 2, n = (n + 1) / 2) {
        Value *masked = ir_bin(&l->b, OP_AND, x, number_like(l, x, bit));
        Value *odd = ir_bin(&l->b, OP_NE, masked, number_like(l, x, 0));
        for (int k = 0; k < n; k += 2) {
            Value *both[3] = { odd, k + 1 < n ? level[k + 1] : NULL, level[k] };
            level[k / 2] = k + 1 < n ? ir_emit(&l->b, OP_WHERE, both, 3, NO_ATTRS, NULL) : level[k];
        }
    }
    return level[0];
}

V lower_table_entry(Lower *l, const Node *n, V table)
{
    const Node *a = n->n == 2 ? n->kids[1] : NULL;
    if (!a || a->kind == N_ALL || a->kind == N_WINDOW || a->kind == N_NONE)
        return lower_error(l, n->loc, "a table takes one subscript, a number or a tile of them");
    V v = lower_expr(l, a);
    __int128 known;
    if (v.kind == V_ERROR) return v;
    if (value_to_int(v, &known)) {
        if (known >= 0 && known < table.n) return table.items[known];
        return lower_error(l, a->loc, "the subscript of a table must be from 0 to %d, not %lld", table.n - 1,
            (long long)known);
    }
    if (v.kind != V_IR || !dtype_is_int(value_dtype(v)))
        return lower_error(
            l, a->loc, "the subscript of a table must be of integers, not %s", value_describe(l, v));
    l->b.loc = n->loc;
    Value *x = dtype_bits(value_dtype(v)) < 32 ? ir_cast(&l->b, v.value, DT_I32) : v.value;
    Value *entry = choose(l, x, table, n->loc);
    if (!entry) return value_error();
    Value *parts[3] = { within(l, x, table.n), entry, flow_zero(l, entry->type).value };
    return value_ir(ir_emit(&l->b, OP_WHERE, parts, 3, NO_ATTRS, NULL));
}
