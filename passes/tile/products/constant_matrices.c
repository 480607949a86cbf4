/* constant-matrices: sums over a few positions of products with a matrix of constants become multiplications
 * by these constants of what each lane has.
 *
 *   %c = cos (..) : f32[8, 8]                      from places and constants alone
 *   %p = mul (broadcast %c), (broadcast %x) : f32[32, 8, 8, 8]
 *   %y = reduce_sum %p {axis = 2} : f32[32, 8, 8]
 *
 * becomes, with x[k] = slice %x {axis = 2, start = k} : f32[32, 1, 1, 8],
 *
 *   y[v] = x[0] * c[v, 0] + x[1] * c[v, 1] + ..    for each v
 *   %y = concat y[0], y[1], .. {axis = 1}
 *
 * Transforms of small blocks are written so: of cosines, of Winograd, of Haar. As a tile of products, each
 * thread would compute its entries of the matrix, lanes would exchange sums, and what two transforms hand on
 * would go through shared memory. A lane that has a whole block (the components of a record, which
 * passes/kernel/layout/components.c lays out) does all of it in registers, and the matrix is in its
 * instructions.
 *
 * Proof. A coefficient is what the interpreter computes of constants and positions; the device may compute
 * functions in it with other last bits. The sum has the same terms, also those with a zero, in the same
 * order.
 *
 * Requires: a GPU; a sum of f32, f64, i32 or u32 over at most MOST_TERMS positions; one factor of constants
 * and positions alone, that changes along the axis of the sum and one other one, along which the other factor
 * does not change; records of at most MOST_ELEMENTS elements and MOST_BYTES bytes from the first
 * of these axes on, at least as many as a warp has lanes. Keeps: everything, within the bound of sums and of
 * functions. Does not handle: matrices that are loaded; sums with one row of weights, of which each lane has
 * few. */
#include "ir/interp/scalar.h"
#include "passes/pass.h"

enum { MOST_TERMS = 16, MOST_COEFFICIENTS = 64, MOST_ELEMENTS = 64, MOST_BYTES = 256, MOST_STEPS = 1 << 14 };

/* A sum over products of x with the matrix, both without the axes along which they are repeated. */
typedef struct Transform {
    Instr *sum;
    Value *x, *matrix;
    int axis, rows; /* of the terms, and of the sums; -1: none */
    int64_t n, m;   /* terms, and sums */
} Transform;

typedef struct Matrices {
    PassContext *c;
    int64_t steps, made;
} Matrices;

/* The coordinates in the operand of an operation that moves elements; false: not one that is known. */
static bool coordinates_before(const Instr *i, const int64_t *at, int64_t *before)
{
    const Type *to = ir_result(i)->type, *from = ir_operand(i, 0)->type;
    int64_t linear = 0;
    if (from->kind != TYPE_TILE) return true;
    if (i->op == OP_BROADCAST && from->rank == to->rank) {
        for (int a = 0; a < to->rank; a++) before[a] = from->shape[a] == 1 ? 0 : at[a];
        return true;
    }
    if (i->op == OP_PERMUTE) {
        for (int a = 0; a < to->rank; a++) before[ir_attr(i, ATTR_ORDER)->v[a]] = at[a];
        return true;
    }
    if (i->op != OP_RESHAPE) return false;
    for (int a = 0; a < to->rank; a++) linear = linear * to->shape[a] + at[a];
    for (int a = from->rank - 1; a >= 0; a--) {
        before[a] = linear % from->shape[a];
        linear /= from->shape[a];
    }
    return true;
}

static bool is_plain(const Instr *i)
{
    return op_is_elementwise(i->op) && op_is_pure(i->op) && i->n_operands >= 1 && i->n_operands <= 3 &&
           op_family(i->op) != OPS_RANDOM && !ir_attr_int(i, ATTR_APPROX, 0) && !ir_attr_int(i, ATTR_FTZ, 0);
}

/* The element at these coordinates of a tile that positions and constants alone determine; false: another
 * one.
 */
static bool entry(Matrices *z, const Value *v, const int64_t *at, Scalar *out)
{
    const Instr *i = v->def;
    int64_t before[TILE_MAX_RANK];
    Scalar in[3];
    if (!i || ++z->steps > MOST_STEPS) return false;
    if (dtype_is_float(v->type->dtype) ? ir_is_const_float(v, &out->f) : ir_is_const(v, &out->i)) return true;
    if (i->op == OP_ARANGE) {
        out->i = scalar_wrap(v->type->dtype, at[0] + ir_attr_int(i, ATTR_START, 0));
        return true;
    }
    if (i->op == OP_SPLAT) return entry(z, ir_operand(i, 0), at, out);
    if (i->n_operands == 1 && op_has(i->op, OPF_MOVES))
        return coordinates_before(i, at, before) && entry(z, ir_operand(i, 0), before, out);
    if (!is_plain(i)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!entry(z, ir_operand(i, k), at, &in[k])) return false;
    DType d = ir_operand(i, i->op == OP_WHERE ? 1 : 0)->type->dtype;
    if (i->op == OP_CAST) *out = scalar_cast(v->type->dtype, d, in[0]);
    else if (i->op == OP_BITCAST) *out = scalar_bitcast(v->type->dtype, d, in[0]);
    else return scalar_op(i->op, d, in, out);
    return true;
}

/* The records of tile t that begin at the axis: whether each lane has whole ones. */
static bool are_records(const Target *target, const Type *t, int axis)
{
    int64_t records = 1, elements = 1;
    for (int a = 0; a < t->rank; a++) *(a < axis ? &records : &elements) *= t->shape[a];
    return records >= target->wave && elements <= MOST_ELEMENTS &&
           elements * dtype_bytes(t->dtype) <= MOST_BYTES;
}

/* Whether the shapes of the factors are those of a transform; finds the axis of the sums. */
static bool has_shape(const Matrices *z, Transform *t)
{
    const Type *all = ir_operand(t->sum, 0)->type, *x = t->x->type, *c = t->matrix->type;
    int64_t shape[TILE_MAX_RANK];
    t->n = all->shape[t->axis];
    t->m = 1;
    t->rows = -1;
    if (x->kind != TYPE_TILE || c->kind != TYPE_TILE || x->rank != all->rank || c->rank != all->rank)
        return false;
    if (t->n < 2 || t->n > MOST_TERMS || x->shape[t->axis] != t->n || c->shape[t->axis] != t->n) return false;
    for (int a = 0; a < all->rank; a++) {
        bool varies = a != t->axis && c->shape[a] > 1;
        if ((varies && (t->rows >= 0 || x->shape[a] > 1)) || (!varies && x->shape[a] != all->shape[a]))
            return false;
        if (varies) {
            t->rows = a;
            t->m = c->shape[a];
        }
        shape[a] = a == t->axis ? 1 : all->shape[a];
    }
    int first = t->rows < t->axis ? t->rows : t->axis;
    return t->m > 1 && t->n * t->m <= MOST_COEFFICIENTS && are_records(z->c->options->target, x, first) &&
           are_records(z->c->options->target, type_tile(z->c->session, x->dtype, x->rank, shape), first);
}

static bool is_transform(Matrices *z, Instr *i, Transform *t)
{
    *t = (Transform){ .sum = i };
    if (!op_reduces(i->op) || i->op != OP_REDUCE_SUM || i->n_results != 1) return false;
    const Instr *p = ir_operand(i, 0)->def;
    DType d = ir_result(i)->type->dtype;
    if (!p || p->op != OP_MUL || (d != DT_F32 && d != DT_F64 && d != DT_I32 && d != DT_U32)) return false;
    t->axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    for (int k = 0; k < 2; k++) {
        int64_t at[TILE_MAX_RANK] = { 0 };
        Scalar s;
        t->matrix = ir_unrepeated(ir_operand(p, k));
        t->x = ir_unrepeated(ir_operand(p, 1 - k));
        z->steps = 0;
        if (has_shape(z, t) && entry(z, t->matrix, at, &s)) return true;
    }
    return false;
}

/* The coefficients, row by row; NULL: some depend on something else. */
static Scalar *coefficients(Matrices *z, const Transform *t)
{
    Scalar *c = arena_array(z->c->scratch, Scalar, (size_t)(t->n * t->m));
    z->steps = 0;
    for (int64_t v = 0; v < t->m; v++)
        for (int64_t k = 0; k < t->n; k++) {
            int64_t at[TILE_MAX_RANK] = { 0 };
            at[t->rows] = v;
            at[t->axis] = k;
            if (!entry(z, t->matrix, at, &c[v * t->n + k])) return NULL;
        }
    return c;
}

/* One of the sums. */
static Value *combined(Builder *b, const Transform *t, Value *const *terms, const Scalar *c)
{
    Value *sum = NULL;
    for (int64_t k = 0; k < t->n; k++) {
        const Type *type = terms[k]->type;
        Value *by = dtype_is_float(type->dtype) ? build_float(b, type, c[k].f) : build_int(b, type, c[k].i),
              *product = ir_bin(b, OP_MUL, terms[k], by);
        sum = sum ? ir_bin(b, OP_ADD, product, sum) : product;
    }
    return sum;
}

static bool rewrite(Matrices *z, const Transform *t)
{
    const Scalar *c = coefficients(z, t);
    Value *terms[MOST_TERMS], *sums[MOST_COEFFICIENTS];
    const Type *x = t->x->type;
    int64_t shape[TILE_MAX_RANK];
    if (!c) return false;
    Builder b = ir_before(t->sum);
    b.loc = t->sum->loc;
    for (int a = 0; a < x->rank; a++) shape[a] = a == t->axis ? 1 : x->shape[a];
    const Type *one = type_tile(z->c->session, x->dtype, x->rank, shape);
    for (int k = 0; k < t->n; k++)
        terms[k] = ir_op(&b, OP_SLICE, one, ATTRS(a_int(ATTR_AXIS, t->axis), a_int(ATTR_START, k)), t->x);
    for (int v = 0; v < t->m; v++) sums[v] = combined(&b, t, terms, c + v * t->n);
    shape[t->rows] = t->m;
    Value *all = ir_emit(&b, OP_CONCAT, sums, (int)t->m, ATTRS(a_int(ATTR_AXIS, t->rows)),
        type_tile(z->c->session, x->dtype, x->rank, shape));
    const Type *to = ir_result(t->sum)->type;
    if (all->type != to) all = ir_op(&b, OP_RESHAPE, to, NO_ATTRS, all);
    ir_set_name(all, ir_result(t->sum)->name);
    replace_value(ir_result(t->sum), all);
    z->made++;
    return true;
}

typedef struct Found {
    Matrices *z;
    VEC(Transform) transforms;
} Found;

static void visit(void *user, Instr *i)
{
    Found *f = user;
    Transform t;
    if (is_transform(f->z, i, &t)) vec_push(f->z->c->scratch, &f->transforms, t);
}

static bool constant_matrices_func(PassContext *c, Func *f)
{
    Matrices z = { .c = c };
    Found found = { .z = &z };
    ir_walk(f->body, visit, &found);
    for (size_t k = 0; k < found.transforms.len; k++) {
        Transform *t = &found.transforms.data[k];
        Instr *sum = t->sum; /* the other factor may be a sum that has been replaced */
        if (is_transform(&z, sum, t)) rewrite(&z, t);
    }
    pass_count(c, "sums of products with constant matrices", z.made);
    return z.made > 0;
}

bool pass_constant_matrices(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind != TARGET_CPU && pass_each_func(c, m, constant_matrices_func);
}
