/* lower_product.c: mma. The IR's operation multiplies matrices; tiles of three axes are batches of them,
 * which are written out:
 *
 *     mma(a, b, acc)              a [B, M, K], b [B, K, N], acc [B, M, N]
 *     concat(mma(a[0], b[0], acc[0]), mma(a[1], b[1], acc[1]), ...)        each with a batch axis of extent 1
 */
#include "frontend/lower/lower.h"

#include <string.h>

enum { MOST_PRODUCTS = 64 };

/* The product being lowered: operands a, b and the accumulator, the result's shape behind its batch axis. */
typedef struct Product {
    const Call *call;
    Value *x[3];
    int batches, precision;
    int64_t shape[3]; /* batches, rows, columns */
} Product;

static V emit_matrix(Lower *l, const Product *p, Value **x)
{
    return lower_emit(l, p->call->node->loc, "mma", OP_MMA, x, 3,
        p->precision == PRECISION_FULL ? NO_ATTRS : ATTRS(a_int(ATTR_PRECISION, p->precision)), NULL);
}

/* Matrix k of a batch; a batch of one repeats. */
static Value *matrix(Lower *l, const Product *p, Value *x, int k)
{
    const Type *t = type_tile(l->s, x->type->dtype, 2, x->type->shape + 1);
    x = lower_cut(l, p->call->node->loc, x, 0, x->type->shape[0] == 1 ? 0 : k, 1);
    return x ? ir_emit(&l->b, OP_RESHAPE, &x, 1, NO_ATTRS, t) : NULL;
}

static V emit_batches(Lower *l, const Product *p)
{
    Value *results[MOST_PRODUCTS], *x[3];
    int64_t shape[3] = { 1, p->shape[1], p->shape[2] };
    for (int k = 0; k < p->batches; k++) {
        for (int o = 0; o < 3; o++)
            if (!(x[o] = matrix(l, p, p->x[o], k))) return value_error();
        V v = emit_matrix(l, p, x);
        if (v.kind == V_ERROR) return v;
        const Type *t = type_tile(l->s, v.value->type->dtype, 3, shape);
        results[k] = ir_emit(&l->b, OP_RESHAPE, &v.value, 1, NO_ATTRS, t);
    }
    if (p->batches == 1) return value_ir(results[0]);
    return lower_emit(
        l, p->call->node->loc, "mma", OP_CONCAT, results, p->batches, ATTRS(a_int(ATTR_AXIS, 0)), NULL);
}

/* The number of products, and the shape of the result; false after a message. */
static bool find_shape(Lower *l, Product *p)
{
    const Type *a = p->x[0]->type, *b = p->x[1]->type;
    Loc loc = p->call->node->loc;
    if (a->rank != b->rank || (a->rank != 2 && a->rank != 3)) {
        lower_error(l, loc, "mma takes two tiles of two axes, or of three, not `%s` and `%s`",
            type_string(l->s, a), type_string(l->s, b));
        return false;
    }
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2] && a->rank == 2) {
        bool right = a->shape[1] == b->shape[1], first = a->shape[0] == b->shape[0];
        lower_error_note(l, loc,
            right   ? "`b` is [K, N]: write `transpose(load(...))` for it, which costs nothing"
            : first ? "`a` is [M, K]: write `transpose(load(...))` for it, which costs nothing"
                    : "the operands are [M, K] and [K, N]",
            "mma: inner extents differ: %s and %s", type_string(l->s, a), type_string(l->s, b));
        return false;
    }
    int64_t left = a->rank == 3 ? a->shape[0] : 1, right = a->rank == 3 ? b->shape[0] : 1;
    if (left != right && left != 1 && right != 1) {
        lower_error_note(l, loc, "extents must be equal or 1", "mma of batches of %lld and of %lld matrices",
            (long long)left, (long long)right);
        return false;
    }
    p->shape[0] = left > right ? left : right;
    p->shape[1] = a->shape[a->rank - 2];
    p->shape[2] = b->shape[a->rank - 1];
    if (p->shape[0] > MOST_PRODUCTS) {
        lower_error(
            l, loc, "mma of a batch of %lld matrices; %d at most", (long long)p->shape[0], MOST_PRODUCTS);
        return false;
    }
    p->batches = (int)p->shape[0];
    return true;
}

/* The accumulator, of the result's shape where it can be brought to it; the type rule tells what else it is.
 */
static bool take_accumulator(Lower *l, Product *p)
{
    int rank = p->x[0]->type->rank;
    const int64_t *shape = p->shape + 3 - rank;
    const Node *given = ARG(p->call, 2);
    Loc loc = given ? given->loc : p->call->node->loc;
    DType d = p->x[0]->type->dtype, sum = d == DT_F64 ? DT_F64 : dtype_is_int(d) ? DT_I32 : DT_F32;
    V acc = given ? lower_expr(l, given) : value_int(0);
    if (acc.kind == V_ERROR || !lower_tile_type(l, p->call->node->loc, sum, rank, shape)) return false;
    if (value_is_untyped(acc)) acc = lower_adapt(l, acc, sum, loc);
    Value *start = acc.kind == V_ERROR ? NULL : lower_materialize(l, acc, loc);
    if (!start) return false;
    bool fits = start->type->kind == TYPE_SCALAR || start->type->rank == rank;
    for (int i = 0; fits && start->type->kind == TYPE_TILE && i < rank; i++)
        fits = start->type->shape[i] == shape[i] || start->type->shape[i] == 1;
    l->b.loc = p->call->node->loc;
    p->x[2] = fits ? lower_to_shape(l, start, rank, shape) : start;
    if (start->type->dtype != sum) {
        const char *in = dtype_name(d), *to = dtype_name(sum);
        lower_error_note(l, p->call->node->loc,
            arena_printf(&l->s->arena,
                "products of %s add in %s: begin with `zeros([..], %s)`, and convert the result: `%s(acc)`",
                in, to, to, dtype_name(start->type->dtype)),
            "mma: the accumulator is %s, must be %s", type_string(l->s, start->type),
            type_string(l->s, type_tile(l->s, sum, rank, shape)));
        return false;
    }
    if (rank == 2 || fits) return true;
    lower_error(l, loc, "the accumulator is `%s`, must be `%s`", type_string(l->s, start->type),
        type_string(l->s, type_tile(l->s, sum, rank, shape)));
    return false;
}

V lower_product(Lower *l, const Call *c)
{
    Product p = { .call = c, .precision = PRECISION_FULL };
    const Node *precision = ARG(c, 3);
    for (int k = 0; k < 2; k++) p.x[k] = lower_tile_operand(l, c, ARG(c, k));
    if (precision) {
        p.precision = precision->kind == N_NAME
                          ? attr_enum_parse(ATTR_PRECISION, precision->name, strlen(precision->name))
                          : -1;
        if (p.precision < 0)
            return lower_error(l, precision->loc, "precision must be one of full, tf32, fast_accum");
    }
    if (!p.x[0] || !p.x[1] || !find_shape(l, &p) || !take_accumulator(l, &p)) return value_error();
    return p.x[0]->type->rank == 2 ? emit_matrix(l, &p, p.x) : emit_batches(l, &p);
}
