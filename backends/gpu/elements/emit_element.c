/* emit_element.c: the element of a tile that a register holds, or that a virtual tile has at coordinates. */
#include "backends/gpu/elements/emit_run.h"

/* A function of the word that holds an element, and of the element's place in it. */
static const char *of_word(Emit *e, const char *fn, const char *array, int p, Index *i)
{
    int scale, add;
    const char *name, *word, *part;
    if (i->kind == INDEX_NUMBER) {
        word = str(e, "%d", i->add / p);
        part = str(e, "%d", i->add % p);
    } else if (index_is_linear(i, &scale, &name, &add) && scale % p == 0) {
        word = index_text(e, index_linear(e, scale / p, name, add / p));
        part = str(e, "%d", add % p);
    } else {
        word = str(e, "(%s) / %d", index_text(e, i), p);
        part = str(e, "(%s) %% %d", index_text(e, i), p);
    }
    return str(e, "%s(%s[%s], %s)", fn, array, word, part);
}

const char *stored_element(Emit *e, const char *array, DType d, Index *i)
{
    int p = per_word(d);
    if (p == 1) return str(e, "%s[%s]", array, index_text(e, i));
    return of_word(e, use(e, str(e, "get_%s", dtype_name(d))), array, p, i);
}

static bool is_byte_to_float(const Emit *e, const Instr *i)
{
    if (i->op != OP_CAST || ir_result(i)->type->dtype != DT_F32 || e->target->kind != TARGET_CUDA)
        return false;
    DType d = ir_operand(i, 0)->type->dtype;
    return d == DT_U8 || d == DT_I8;
}

const Value *byte_to_float_plus(const Emit *e, const Instr *i, double *plus)
{
    enum { MOST_PLUS = 1 << 22 };
    const Instr *cast = i->op == OP_ADD ? ir_operand(i, 0)->def : i;
    *plus = 0;
    if (!cast || cast->block != i->block || !is_byte_to_float(e, cast)) return NULL;
    if (cast != i && (!ir_is_const_float(ir_operand(i, 1), plus) || *plus != (double)(int)*plus ||
                         *plus < -MOST_PLUS || *plus > MOST_PLUS))
        return NULL;
    return ir_operand(cast, 0);
}

const char *byte_float_fn(Emit *e, DType d, double plus)
{ return use(e, str(e, plus == 0 ? "%s_of_word" : "%s_in_word", dtype_name(d))); }

const char *byte_float_plus(Emit *e, DType d, const char *x, double plus)
{ return plus == 0 ? x : str(e, "(%s - %.1ff)", x, (d == DT_I8 ? 0x1p23 + 128 : 0x1p23) - plus); }

const char *byte_to_float(Emit *e, const Value *v, double plus, const Layout *l, Index *i)
{
    while (
        v->def && v->def->op == OP_BROADCAST && !e->storage[v->id] && ir_operand(v->def, 0)->type->layout) {
        v = ir_operand(v->def, 0);
        i = map_register(e, l, layout_of(e, v), i);
        l = layout_of(e, v);
    }
    if (!e->storage[v->id] || v->type->kind != TYPE_TILE) return NULL;
    DType d = v->type->dtype;
    const char *x = of_word(
        e, byte_float_fn(e, d, plus), e->storage[v->id], per_word(d), map_register(e, l, layout_of(e, v), i));
    return byte_float_plus(e, d, x, plus);
}

/* The coordinates of the operand's element that a virtual broadcast, reshape or permute has at c. */
static void operand_coords(Emit *e, const Instr *d, Index *const *c, Index **sub)
{
    const Type *a = ir_operand(d, 0)->type, *to = ir_result(d)->type;
    if (d->op == OP_PERMUTE) {
        const Attr *o = ir_attr(d, ATTR_ORDER);
        for (int i = 0; i < o->n; i++) sub[o->v[i]] = c[i];
        return;
    }
    for (int i = 0, j = 0; i < a->rank; i++) {
        sub[i] = index_number(e, 0);
        if (a->shape[i] == 1) continue;
        while (d->op == OP_RESHAPE && j < to->rank && to->shape[j] == 1) j++;
        sub[i] = c[d->op == OP_RESHAPE ? j++ : i];
    }
}

const char *element_at(Emit *e, const Value *v, Index *const *c)
{
    if (v->type->kind == TYPE_SCALAR) return name_of(e, v);
    const Instr *d = v->def;
    Index *sub[TILE_MAX_RANK];
    const char *args[4];
    switch (op_as_shape(d->op)) {
    case SHAPE_SPLAT: return name_of(e, ir_operand(d, 0));
    case SHAPE_ARANGE: {
        int64_t start = ir_attr_int(d, ATTR_START, 0);
        const char *type = ctype(v->type->dtype), *at = index_text(e, c[0]);
        return start ? str(e, "((%s)%lld + %s)", type, (long long)start, at) : str(e, "((%s)%s)", type, at);
    }
    case SHAPE_RESHAPE:
    case SHAPE_BROADCAST:
    case SHAPE_PERMUTE: operand_coords(e, d, c, sub); return element_at(e, ir_operand(d, 0), sub);
    case SHAPE_CONCAT: /* held in registers */
    case SHAPE_SLICE: break;
    }
    if (!op_is_elementwise(d->op) || d->n_operands > 4)
        ir_fail(e->s, d->loc, "%s is no function of coordinates", op_info[d->op].name);
    for (int k = 0; k < d->n_operands; k++) args[k] = element_at(e, ir_operand(d, k), c);
    return op_expr(e, d, args);
}

const char *element(Emit *e, const Value *v, const Layout *l, Index *i)
{
    if (v->type->kind == TYPE_SCALAR) return name_of(e, v);
    if (v->def && v->def->op == OP_BROADCAST && !e->storage[v->id] && ir_operand(v->def, 0)->type->layout) {
        const Value *src = ir_operand(v->def, 0);
        return element(e, src, layout_of(e, src), map_register(e, l, layout_of(e, src), i));
    }
    if (e->storage[v->id])
        return stored_element(e, e->storage[v->id], v->type->dtype, map_register(e, l, layout_of(e, v), i));
    Index *c[TILE_MAX_RANK];
    for (int a = 0; a < v->type->rank; a++) c[a] = coord(e, l, a, i);
    return element_at(e, v, c);
}

/* The same question for virtual tiles at two places. */
static bool same_at(Emit *e, const Value *v, Index *const *c, Index *const *d)
{
    Index *sub[2][TILE_MAX_RANK];
    const Instr *i = v->def;
    if (v->type->kind == TYPE_SCALAR || i->op == OP_SPLAT) return true;
    if (i->op == OP_ARANGE) return index_equal(c[0], d[0]);
    for (int side = 0; side < 2 && op_family(i->op) == OPS_SHAPE; side++)
        operand_coords(e, i, side ? d : c, sub[side]);
    for (int k = 0; k < i->n_operands; k++)
        if (op_family(i->op) == OPS_SHAPE ? !same_at(e, ir_operand(i, k), sub[0], sub[1])
                                          : !same_at(e, ir_operand(i, k), c, d))
            return false;
    return true;
}

bool same_element(Emit *e, const Value *v, const Layout *l, Index *i, Index *j)
{
    if (v->type->kind == TYPE_SCALAR) return true;
    if (v->def && v->def->op == OP_BROADCAST && !e->storage[v->id] && ir_operand(v->def, 0)->type->layout) {
        const Value *src = ir_operand(v->def, 0);
        const Layout *to = layout_of(e, src);
        return same_element(e, src, to, map_register(e, l, to, i), map_register(e, l, to, j));
    }
    if (e->storage[v->id]) {
        const Layout *to = layout_of(e, v);
        return index_equal(map_register(e, l, to, i), map_register(e, l, to, j));
    }
    Index *c[TILE_MAX_RANK], *d[TILE_MAX_RANK];
    for (int a = 0; a < v->type->rank; a++) {
        c[a] = register_coord(e, l, a, i);
        d[a] = register_coord(e, l, a, j);
    }
    return same_at(e, v, c, d);
}
