/* pad-products: a product of a few positions of K becomes one of as many as the matrix unit takes at a time.
 *
 *   %z1 = for .. with (%z = 0) {
 *     yield (mma %x, (load %A : f16[64, 8]), %z)
 *   } : f32[128, 8]
 *   %h = cast (mul %z1, %s) : f16[128, 8]
 *   %y = mma %h, (load %B : f16[8, 256]), %y0
 *
 * becomes the same with 16 columns of A and rows of B, of which the window reaches beyond the tensors, and
 *
 *   %h = cast (mul %z1, %s) : f16[128, 16]
 *   %w = where (column < 8), %h, 0
 *   %y = mma %w, (load %B : f16[16, 256]), %y0
 *
 * Hopper's matrix unit sums over 32 bytes of K. A kernel with one product of less (the adapter of rank 8 in
 * LoRA) would have none of its products there.
 *
 * The right operand is a load whose window covers its axis along K whole, so that what it has beyond is
 * zeros. The left one is computed: the pass widens all that it is made of, down to products whose right
 * operand is such a load, and what is repeated along K. Padding of the left operand is made zero, since an
 * infinity times zero would be a NaN.
 *
 * Requires: load-order, so that loads are operands; a target with wgmma. Keeps: everything, because what is
 * added to each sum are zeros. Does not handle: loaded left operands, which TMA pads where both operands lie
 * along K; operands that something else uses. */
#include "passes/pass.h"

enum { MAX_VALUES = 64, BYTES_OF_K = 32 }; /* that one wgmma multiplies (PTX ISA 9.7.15.2) */

typedef struct Padded {
    PassContext *c;
    Instr *product;
    int64_t from, to; /* positions of K */
    Value *v[MAX_VALUES];
    int n;
    bool fails;
} Padded;

/* Whether the value is a load whose tile covers all of an axis of its tensor, and which nothing else uses. */
static bool covers_axis(const Func *f, const Value *v, int axis)
{
    const Instr *i = v->def;
    const Attr *e = i ? ir_attr(i, ATTR_EXTENTS) : NULL, *o = i ? ir_attr(i, ATTR_ORDER) : NULL;
    MemParts m;
    int64_t at;
    if (!i || i->op != OP_LOAD || !e || e->n != 2 || v->type->rank != 2 || !v->uses || v->uses->next)
        return false;
    int a = o ? (int)o->v[axis] : axis;
    if (!ir_mem_parts(i, &m) || m.mask || m.pad || !ir_is_const(m.idx[a], &at) || at != 0) return false;
    return f->dims[f->params[m.param].dims[a]].extent == e->v[a] && e->v[a] == v->type->shape[axis];
}

static void take(Padded *p, Value *v)
{
    for (int k = 0; k < p->n; k++)
        if (p->v[k] == v) return;
    p->fails |= p->n == MAX_VALUES || v->type->kind != TYPE_TILE || v->type->rank != 2 ||
                v->type->shape[1] != p->from;
    if (!p->fails) p->v[p->n++] = v;
}

/* What is repeated along K is made anew. */
static bool is_repeated(const Value *v)
{
    const Instr *d = v->def;
    return d && (d->op == OP_SPLAT || (d->op == OP_BROADCAST && ir_operand(d, 0)->type->shape[1] == 1));
}

static void take_operand(Padded *p, Value *v)
{
    if (!is_repeated(v)) take(p, v);
}

static void take_carried(Padded *p, Instr *loop, int k)
{
    take_operand(p, ir_operand(loop, 3 + k));
    take(p, loop->blocks[0]->args[1 + k]);
    take(p, ir_operand(ir_terminator(loop->blocks[0]), k));
    take(p, &loop->results[k]);
}

static void visit(Padded *p, const Func *f, Value *v)
{
    Instr *i = v->def, *loop = i ? i : v->block->parent;
    if (i && i->op == OP_MMA) {
        p->fails |= !covers_axis(f, ir_operand(i, 1), 1);
        take_operand(p, ir_operand(i, 2));
    } else if (loop && loop->op == OP_FOR && (i || v->index > 0))
        take_carried(p, loop, i ? v->index : v->index - 1);
    else if (i && op_is_elementwise(i->op))
        for (int k = 0; k < i->n_operands; k++) take_operand(p, ir_operand(i, k));
    else p->fails = true;
}

static bool is_taken(const Padded *p, const Value *v)
{
    for (int k = 0; k < p->n; k++)
        if (p->v[k] == v) return true;
    return false;
}

/* Whether the use is one of what is widened, or the product's. */
static bool is_own(const Padded *p, const Use *u)
{
    const Instr *i = u->user;
    int k = (int)(u - i->operands);
    if (i == p->product) return k == 0;
    if (i->op == OP_FOR) return k >= 3 && is_taken(p, &i->results[k - 3]);
    if (i->op == OP_YIELD)
        return i->block->parent->op == OP_FOR && is_taken(p, &i->block->parent->results[k]);
    return i->n_results == 1 && is_taken(p, ir_result(i)) && (i->op != OP_MMA || k == 2);
}

static bool find(Padded *p, const Func *f)
{
    const Value *a = ir_operand(p->product, 0), *b = ir_operand(p->product, 1);
    if (a->def && a->def->op == OP_LOAD) return false;
    if (!covers_axis(f, b, 0)) return false;
    take(p, ir_operand(p->product, 0));
    for (int k = 0; k < p->n && !p->fails; k++) visit(p, f, p->v[k]);
    for (int k = 0; k < p->n && !p->fails; k++)
        for (const Use *u = p->v[k]->uses; u; u = u->next) p->fails |= !is_own(p, u);
    return !p->fails;
}

/* --- change ------------------------------------------------------------------------------------------ */

static const Type *widened(const Padded *p, const Type *t, int axis)
{
    int64_t shape[2] = { t->shape[0], t->shape[1] };
    shape[axis] = p->to;
    return type_tile(p->c->session, t->dtype, 2, shape);
}

static void widen_load(Padded *p, Value *v, int axis)
{
    Instr *i = v->def;
    const Attr *o = ir_attr(i, ATTR_ORDER), *e = ir_attr(i, ATTR_EXTENTS);
    int64_t extents[2] = { e->v[0], e->v[1] };
    extents[o ? o->v[axis] : axis] = p->to;
    ir_set_attr(p->c->session, i, a_ints(ATTR_EXTENTS, extents, 2));
    v->type = widened(p, v->type, axis);
}

static void widen_operands(Padded *p, Instr *i, int from)
{
    for (int k = from; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        if (v->type->kind != TYPE_TILE || v->type->rank != 2 || v->type->shape[1] != p->from ||
            !is_repeated(v))
            continue;
        Builder b = ir_before(i);
        const Type *t = widened(p, v->type, 1);
        Value *of = ir_operand(v->def, 0);
        ir_set_operand(i, k,
            v->def->op == OP_SPLAT ? ir_splat(&b, of, 2, t->shape)
                                   : ir_op(&b, OP_BROADCAST, t, NO_ATTRS, of));
    }
}

/* The left operand with zeros behind what it had. */
static Value *with_zeros(Padded *p, Value *v)
{
    Builder b = ir_before(p->product);
    Session *s = p->c->session;
    const Type *t = v->type;
    int64_t row[2] = { 1, p->to };
    b.loc = p->product->loc;
    Value *at = ir_emit(&b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), type_tile(s, DT_I32, 1, &p->to));
    Value *own = ir_bin(&b, OP_LT, at, ir_splat(&b, ir_const_int(&b, DT_I32, p->from), 1, &p->to));
    own = ir_op(&b, OP_RESHAPE, type_tile(s, DT_BOOL, 2, row), NO_ATTRS, own);
    own = ir_op(&b, OP_BROADCAST, type_tile(s, DT_BOOL, 2, t->shape), NO_ATTRS, own);
    Value *zero = ir_splat(&b, ir_const_float(&b, t->dtype, 0), 2, t->shape), *ops[3] = { own, v, zero };
    return ir_emit(&b, OP_WHERE, ops, 3, NO_ATTRS, t);
}

static void pad(Padded *p)
{
    for (int k = 0; k < p->n; k++) {
        Value *v = p->v[k];
        Instr *i = v->def;
        v->type = widened(p, v->type, 1);
        if (i && i->op == OP_MMA) widen_load(p, ir_operand(i, 1), 1);
        if (i) widen_operands(p, i, i->op == OP_MMA ? 2 : i->op == OP_FOR ? 3 : 0);
    }
    widen_load(p, ir_operand(p->product, 1), 0);
    ir_set_operand(p->product, 0, with_zeros(p, ir_operand(p->product, 0)));
}

static bool pad_products_func(PassContext *c, Func *f)
{
    InstrList all = { 0 };
    int64_t n = 0;
    if (f->hints.schedule) return false;
    ir_collect(c->scratch, f->body, OP_MMA, &all);
    for (size_t k = 0; k < all.len; k++) {
        const Type *t = ir_operand(all.data[k], 0)->type;
        int step = BYTES_OF_K / dtype_bytes(t->dtype);
        Padded p = { .c = c, .product = all.data[k], .from = t->shape[1] };
        p.to = (p.from + step - 1) / step * step;
        if (t->rank != 2 || dtype_bytes(t->dtype) > 2 || !dtype_is_float(t->dtype) || p.to == p.from)
            continue;
        if (!find(&p, f)) continue;
        pad(&p);
        n++;
    }
    pass_count(c, "products with more of K", n);
    return n > 0;
}

bool pass_pad_products(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && target_has(t, TF_WGMMA) && pass_each_func(c, m, pad_products_func);
}
