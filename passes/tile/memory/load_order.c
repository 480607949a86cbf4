/* load-order: makes a permutation of a load the load's own order, which costs nothing where the hardware
 * or the layout provides it (ldmatrix.trans, wgmma's major bits, a strided read of shared memory).
 *
 *   %k = load %K[..]            : f16[128, 64]           %k = load %K[..] {order = [1, 0]} : f16[64, 128]
 *   %t = permute %k {order = [1, 0]}             ->      %s = mma %q, %k, %z
 *   %s = mma %q, %t, %z
 *
 * It also handles these forms. The transpose of a load whose leading axes a reshape merged, [A, B, C] as
 * [A*B, C], becomes the load with C in front, reshaped to [C, A*B]. Permutes of permutes become one, or
 * none. A permute that moves only axes of extent 1 becomes a reshape. A permute moves up through
 * element-wise operations, splats and broadcasts when all of their operands take it for free. The permute
 * of a product becomes the product of the permuted operands in the other order, when those and the
 * accumulator take it for free.
 *
 * Requires: nothing. Keeps: everything. Does not handle: a load that is also used as it is, because both
 * forms would be loaded. */
#include "passes/pass.h"

enum { MAX_DEPTH = 16 };

typedef struct LoadOrder {
    PassContext *c;
    int64_t loads, composed, moved;
} LoadOrder;
typedef struct Order {
    int n;
    int64_t v[TILE_MAX_RANK];
} Order;

static Order order_of(const Instr *i)
{
    const Attr *a = ir_attr(i, ATTR_ORDER);
    Order o = { a ? a->n : i->results[0].type->rank };
    for (int k = 0; k < o.n; k++) o.v[k] = a ? a->v[k] : k;
    return o;
}

/* The order of `outer`, applied to the result of `inner`. */
static Order compose(const Order *inner, const Order *outer)
{
    Order o = { outer->n };
    for (int k = 0; k < o.n; k++) o.v[k] = inner->v[outer->v[k]];
    return o;
}

static bool identity(const Order *o)
{
    for (int k = 0; k < o->n; k++)
        if (o->v[k] != k) return false;
    return true;
}

static bool one_use(const Value *v) { return v->uses && !v->uses->next; }

/* Whether permuting `v` costs nothing more than is there already. */
static bool free_to_permute(const Value *v, int depth)
{
    const Instr *i = v->def;
    if (!i || depth > MAX_DEPTH) return false;
    if (i->op == OP_SPLAT) return true;
    if (!one_use(v)) return false;
    if (i->op == OP_LOAD || i->op == OP_PERMUTE) return true;
    if (i->op == OP_BROADCAST) return true; /* of something smaller */
    if (i->op == OP_MMA)
        return v->type->rank == 2 && !ir_attr(i, ATTR_PARTS) &&
               free_to_permute(ir_operand(i, 0), depth + 1) && free_to_permute(ir_operand(i, 1), depth + 1) &&
               free_to_permute(ir_operand(i, 2), depth + 1);
    if (!(op_info[i->op].flags & OPF_ELEM)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!free_to_permute(ir_operand(i, k), depth + 1)) return false;
    return true;
}

static Value *permuted(LoadOrder *x, Builder *b, Value *v, const Order *o, int depth);

static Value *permuted_load(LoadOrder *x, Instr *i, const Order *o)
{
    Order own = order_of(i), all = compose(&own, o);
    Builder b = ir_before(i);
    Value *ops[2 * TILE_MAX_RANK + 4];
    Attr attrs[ATTR_N_KEYS];
    int n = 0;
    for (int k = 0; k < i->n_operands; k++) ops[k] = ir_operand(i, k);
    for (int k = 0; k < i->n_attrs; k++)
        if (i->attrs[k].key != ATTR_ORDER) attrs[n++] = i->attrs[k];
    if (!identity(&all)) attrs[n++] = a_ints(ATTR_ORDER, all.v, all.n);
    Instr *load = ir_build(&b, OP_LOAD, ops, i->n_operands, (Attrs){ attrs, n }, NULL, 0);
    ir_set_name(&load->results[0], i->results[0].name);
    /* On a chain of tokens, the new load comes first and hands its token to the old load. dce then removes
     * the old load from the chain. */
    if (i->n_results > 1) ir_set_operand(i, i->n_operands - 1, &load->results[1]);
    x->loads++;
    return &load->results[0];
}

static Value *emit_permute(Builder *b, Value *v, const Order *o)
{
    if (identity(o)) return v;
    return ir_op(b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, o->v, o->n)), v);
}

static Value *permuted(LoadOrder *x, Builder *b, Value *v, const Order *o, int depth)
{
    Instr *i = v->def;
    Value *ops[3];
    const Type *t = v->type;
    int64_t shape[TILE_MAX_RANK];
    for (int k = 0; k < o->n; k++) shape[k] = t->shape[o->v[k]];
    if (identity(o)) return v;
    if (!i || depth > MAX_DEPTH || !free_to_permute(v, depth)) return emit_permute(b, v, o);
    if (i->op == OP_SPLAT) return ir_splat(b, ir_operand(i, 0), t->rank, shape);
    if (i->op == OP_LOAD) return permuted_load(x, i, o);
    if (i->op == OP_PERMUTE) {
        Order own = order_of(i), all = compose(&own, o);
        x->composed++;
        return permuted(x, b, ir_operand(i, 0), &all, depth + 1);
    }
    const Type *result = type_tile(x->c->session, t->dtype, t->rank, shape);
    x->moved++;
    if (i->op == OP_BROADCAST)
        return ir_op(b, OP_BROADCAST, result, NO_ATTRS, permuted(x, b, ir_operand(i, 0), o, depth + 1));
    for (int k = 0; k < i->n_operands; k++)
        ops[k] = permuted(x, b, ir_operand(i, i->op == OP_MMA && k < 2 ? 1 - k : k), o, depth + 1);
    return ir_emit(b, i->op, ops, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, result);
}

/* Only axes of extent 1 change place: the same elements in the same order. */
static bool moves_units_only(const Type *from, const Order *o)
{
    int64_t last = -1;
    for (int k = 0; k < o->n; k++) {
        if (from->shape[o->v[k]] == 1) continue;
        if (o->v[k] < last) return false;
        last = o->v[k];
    }
    return true;
}

/* v is a load's tile with all axes but the last merged into one: the transpose of it merges the axes behind
 * the one that came first. */
static Value *transposed_rows(LoadOrder *x, Builder *b, Value *v, const Order *o)
{
    Instr *reshape = v->def,
          *load = reshape && reshape->op == OP_RESHAPE ? ir_operand(reshape, 0)->def : NULL;
    if (!load || load->op != OP_LOAD || !one_use(v) || !one_use(ir_operand(reshape, 0)) ||
        v->type->rank != 2 || o->v[0] != 1)
        return NULL;
    const Type *t = ir_operand(reshape, 0)->type;
    int last = t->rank - 1;
    if (t->rank < 3 || t->shape[last] != v->type->shape[1]) return NULL;
    Order front = { t->rank, { last } };
    for (int k = 1; k < t->rank; k++) front.v[k] = k - 1;
    const Type *result =
        type_tile(x->c->session, t->dtype, 2, (int64_t[]){ v->type->shape[1], v->type->shape[0] });
    return ir_op(b, OP_RESHAPE, result, NO_ATTRS, permuted_load(x, load, &front));
}

static bool try_permute(LoadOrder *x, Instr *i)
{
    Order o = order_of(i);
    Value *v = ir_operand(i, 0), *by = NULL;
    Builder b = ir_before(i);
    if (identity(&o)) by = v;
    else if (moves_units_only(v->type, &o) && !(v->def && v->def->op == OP_LOAD))
        by = ir_op(&b, OP_RESHAPE, i->results[0].type, NO_ATTRS, v);
    else if (v->def && v->def->op == OP_PERMUTE) {
        Order own = order_of(v->def), all = compose(&own, &o);
        by = emit_permute(&b, ir_operand(v->def, 0), &all);
    }
    if (by) {
        x->composed++;
        replace_value(&i->results[0], by);
        return true;
    }
    if ((by = transposed_rows(x, &b, v, &o))) {
        replace_value(&i->results[0], by);
        return true;
    }
    if (!free_to_permute(v, 0)) return false;
    replace_value(&i->results[0], permuted(x, &b, v, &o, 0));
    return true;
}

static bool load_order_block(LoadOrder *x, Block *b)
{
    bool progress = false;
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        for (int k = 0; k < i->n_blocks; k++) progress |= load_order_block(x, i->blocks[k]);
        if (i->op == OP_PERMUTE && ir_is_used(i)) progress |= try_permute(x, i);
    }
    return progress;
}

static bool load_order_func(PassContext *c, Func *f)
{
    LoadOrder x = { c };
    bool progress = false;
    while (load_order_block(&x, f->body)) progress = true;
    pass_count(c, "permutes turned into load orders", x.loads);
    pass_count(c, "permutes composed or dropped", x.composed);
    pass_count(c, "permutes moved up", x.moved);
    return progress;
}

bool pass_load_order(PassContext *c, Module *m) { return pass_each_func(c, m, load_order_func); }
