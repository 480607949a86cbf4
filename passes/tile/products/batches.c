/* batches: the products of a batch become one operation, whose warps have matrices of their own.
 *
 *   %x0 = reshape (slice %a {axis = 0, start = 0}) : f16[32, 32]
 *   %y0 = reshape (slice %b {axis = 0, start = 0}) : f16[32, 32]
 *   %p0 = reshape (mma %x0, %y0, %z) : f32[1, 32, 32]
 *   %x1 = reshape (slice %a {axis = 0, start = 1}) : f16[32, 32]
 *   ..
 *   %r = concat %p0, %p1, .. {axis = 0} : f32[8, 32, 32]
 *
 * becomes
 *
 *   %x = reshape %a : f16[256, 32]
 *   %y = reshape %b : f16[256, 32]
 *   %p = mma %x, %y, %z {parts = 8} : f32[256, 32]
 *   %r = reshape %p : f32[8, 32, 32]
 *
 * Written out, each product is computed by all warps: each of them reads most of both operands of each
 * product, and where a product has fewer fragments than there are warps, several compute the same. Of the one
 * operation each warp reads and computes products of its own.
 *
 * Requires: fold and cse, which find what is sliced; a matrix unit of CUDA whose fragments cover each product
 * exactly; products of so few rows that wgmma does not take them, or operands that it cannot read. Keeps:
 * all but the order of sums. Does not handle: a batch of one that repeats, whose matrix all products share.
 */
#include "ir/target/matrix.h"
#include "passes/pass.h"

typedef struct Batch {
    PassContext *c;
    const Func *f;
    Instr *concat;
    Value *whole[3];  /* the tiles of which operands are slices; [2]: or one number for all sums */
    int64_t shape[3]; /* products, rows, columns */
} Batch;

/* The tile of which v is matrix k of `n`; NULL: it is none. */
static Value *batch_of(const Value *v, int64_t k, int64_t n)
{
    const Instr *r = v->def, *s = r && r->op == OP_RESHAPE ? ir_operand(r, 0)->def : NULL;
    if (!s || s->op != OP_SLICE || v->type->rank != 2 || ir_attr_int(s, ATTR_AXIS, 0) ||
        ir_attr_int(s, ATTR_START, 0) != k)
        return NULL;
    const Type *part = ir_result(s)->type, *whole = ir_operand(s, 0)->type;
    bool is = part->kind == TYPE_TILE && part->rank == 3 && part->shape[0] == 1 && whole->shape[0] == n &&
              part->shape[1] == v->type->shape[0] && part->shape[2] == v->type->shape[1];
    return is ? ir_operand(s, 0) : NULL;
}

/* The product that is matrix k of the result; NULL: another operation. */
static Instr *product_of(const Instr *concat, int k)
{
    const Instr *r = ir_operand(concat, k)->def;
    Instr *p = r && r->op == OP_RESHAPE ? ir_operand(r, 0)->def : NULL;
    const Type *t = ir_operand(concat, k)->type;
    bool is = p && p->op == OP_MMA && !ir_attr(p, ATTR_PARTS) && p->block == concat->block &&
              ir_use_count(ir_result(p)) == 1 && ir_use_count(&r->results[0]) == 1 && t->rank == 3 &&
              t->shape[0] == 1 && t->shape[1] == ir_result(p)->type->shape[0];
    return is ? p : NULL;
}

static bool is_repeated(const Value *v) { return v->def && v->def->op == OP_SPLAT; }

/* Whether the tile's matrices lie side by side in memory, element by element: neither TMA nor cp.async can
 * load one of them. */
static bool is_interleaved(const Batch *x, const Value *v)
{
    MemParts m;
    if (!v->def || v->def->op != OP_LOAD || !ir_mem_parts(v->def, &m)) return false;
    const Attr *o = ir_attr(v->def, ATTR_ORDER), *e = ir_attr(v->def, ATTR_EXTENTS);
    return o && e && e->n == m.rank && e->v[m.rank - 1] != -1 && o->v[0] == o->n - 1 &&
           x->f->params[m.param].stride[m.rank - 1] == 1;
}

/* Whether fragments cover a product of the shape exactly. */
static bool fits(const Batch *x, const Instr *p)
{
    const Target *t = x->c->options->target;
    const Type *a = ir_operand(p, 0)->type;
    int64_t m = x->shape[1], n = x->shape[2], k = a->shape[1];
    bool tf32 = ir_attr_int(p, ATTR_PRECISION, PRECISION_FULL) == PRECISION_TF32;
    const MatrixInstr *row = matrix_instr(t, a->dtype, tf32, m, n, k);
    const LayoutMmaInfo *i = row ? layout_mma_info(row->fragment) : NULL;
    return i && m % i->m == 0 && n % i->n == 0 && k % i->k == 0;
}

static bool same_precision(const Instr *a, const Instr *b)
{
    return ir_attr_int(a, ATTR_PRECISION, PRECISION_FULL) == ir_attr_int(b, ATTR_PRECISION, PRECISION_FULL) &&
           ir_operand(a, 0)->type == ir_operand(b, 0)->type &&
           ir_operand(a, 1)->type == ir_operand(b, 1)->type;
}

/* Whether operand o of product k is matrix k of the tile that the others' are matrices of, or the one number
 * that all sums begin with. */
static bool takes_operand(Batch *x, const Instr *p, int k, int o)
{
    Value *v = ir_operand(p, o), *whole = batch_of(v, k, x->shape[0]);
    if (!whole && o == 2 && is_repeated(v)) whole = v;
    if (!k) x->whole[o] = whole;
    return whole && whole == x->whole[o];
}

/* Whether wgmma may multiply each matrix by itself. */
static bool suits_wgmma(const Batch *x)
{
    return target_has(x->c->options->target, TF_WGMMA) &&
           x->shape[1] % layout_mma_info(LAYOUT_WGMMA_K16)->m == 0 && !is_interleaved(x, x->whole[0]) &&
           !is_interleaved(x, x->whole[1]);
}

static bool is_batch(Batch *x)
{
    const Type *t = ir_result(x->concat)->type;
    const Instr *first = product_of(x->concat, 0);
    if (ir_attr_int(x->concat, ATTR_AXIS, 0) || t->rank != 3 || x->concat->n_operands < 2 || !first)
        return false;
    for (int a = 0; a < 3; a++) x->shape[a] = t->shape[a];
    if (x->shape[0] != x->concat->n_operands || !fits(x, first)) return false;
    for (int k = 0; k < x->concat->n_operands; k++) {
        const Instr *p = product_of(x->concat, k);
        if (!p || !same_precision(p, first)) return false;
        for (int o = 0; o < 3; o++)
            if (!takes_operand(x, p, k, o)) return false;
    }
    return !suits_wgmma(x);
}

/* The matrices of a tile, one behind the other as the rows of one. */
static Value *stacked(Batch *x, Builder *b, Value *v)
{
    const int64_t *s = v->type->shape, rows[2] = { x->shape[0] * x->shape[1], x->shape[2] };
    if (is_repeated(v)) return ir_splat(b, ir_operand(v->def, 0), 2, rows);
    const int64_t shape[2] = { s[0] * s[1], s[2] };
    return ir_op(b, OP_RESHAPE, type_tile(x->c->session, v->type->dtype, 2, shape), NO_ATTRS, v);
}

static void join(Batch *x)
{
    const Instr *first = product_of(x->concat, 0);
    Builder b = ir_before(x->concat);
    b.loc = first->loc;
    Value *v[3];
    for (int o = 0; o < 3; o++) v[o] = stacked(x, &b, x->whole[o]);
    int64_t precision = ir_attr_int(first, ATTR_PRECISION, PRECISION_FULL);
    Attr attrs[] = { a_int(ATTR_PARTS, x->shape[0]), a_int(ATTR_PRECISION, precision) };
    Value *p = ir_emit(&b, OP_MMA, v, 3, (Attrs){ attrs, precision == PRECISION_FULL ? 1 : 2 }, v[2]->type);
    Value *was = ir_result(x->concat);
    ir_replace(was, ir_op(&b, OP_RESHAPE, was->type, NO_ATTRS, p));
}

static bool batches_func(PassContext *c, Func *f)
{
    InstrList all = { 0 }, joined = { 0 };
    int64_t n = 0;
    ir_collect(c->scratch, f->body, OP_CONCAT, &all);
    for (size_t k = 0; k < all.len; k++) {
        Batch x = { .c = c, .f = f, .concat = all.data[k] };
        if (!is_batch(&x)) continue;
        join(&x);
        vec_push(c->scratch, &joined, all.data[k]);
    }
    n = (int64_t)joined.len;
    while (joined.len) {
        Block *block = joined.data[--joined.len]->block;
        while (joined.len && joined.data[joined.len - 1]->block == block) joined.len--;
        ir_sweep(block); /* The tiles of batches feed each other: all concats of the block are unused now. */
    }
    pass_count(c, "batches of products that are one operation", n);
    return n > 0;
}

bool pass_batches(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind == TARGET_CUDA && pass_each_func(c, m, batches_func);
}
