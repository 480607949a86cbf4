/* wide-columns: a step of warp-specialization: a product whose columns the consumer warpgroups cannot share
 * gets more columns, which lie beyond the tensors.
 *
 *   %k = load K[.., 0] : f16[128, 96]                  ->   %k.2 = load K[.., 0] : f16[128, 128]
 *   %x = mma_sync %ds, %k, %zero : f32[64, 96]              %x.2 = mma_sync %ds, %k.2, %zero.2 : f32[64, 128]
 *   store DQ[.., 0] = %x {rmw = add}                        store DQ[.., 0] = %x.2 {rmw = add}
 *
 * The 64 rows of a product beside products of 128 rows are one row block, so that warpgroups share its
 * columns, in panels of 64. The right operand is loaded once more for it, padded with zeros by TMA, and what
 * the product has beyond the axis is not stored.
 *
 * Requires: a right operand that TMA loads and a store, both of whole rows of their tensors; a sum that
 * begins with one value; registers for the sums of all products. Keeps: everything. */
#include "ir/target/matrix.h"
#include "passes/kernel/warp_specialization/warp_specialization.h"

/* A consumer has at most 240 registers, and some of them hold addresses and what is computed of the sums. */
enum { MOST_SUMS = 224, WIDEST = 256 };

/* Whether the window has all of a contiguous axis of its tensor, as the columns of a matrix. */
static bool whole_columns(const Func *f, const Instr *mem, int64_t columns)
{
    MemParts m;
    int axis;
    int64_t from;
    int unit = kernel_unit_axis(f, mem, &axis);
    if (unit < 0 || axis != 1 || !ir_mem_parts(mem, &m) || ir_attr(mem, ATTR_STEPS) ||
        ir_attr(mem, ATTR_ORDER))
        return false;
    const Param *p = &f->params[m.param];
    return p->stride[unit] == 1 && f->dims[p->dims[unit]].extent == columns &&
           ir_attr(mem, ATTR_EXTENTS)->v[unit] == columns && ir_is_const(m.idx[unit], &from) && from == 0;
}

/* The store that alone uses the product; NULL: there is none. */
static Instr *only_store(const Instr *product)
{
    const Use *u = ir_result(product)->uses;
    MemParts m;
    bool stored = u && !u->next && u->user->op == OP_STORE && ir_mem_parts(u->user, &m);
    return stored && m.values[0] == ir_result(product) ? u->user : NULL;
}

/* The fewest columns that the warpgroups can share; 0: too many. */
static int64_t shared_columns(DType d, int64_t n, int consumers)
{
    const int64_t each = n > 64 ? 64 : 16, step = each * consumers;
    n = (n + step - 1) / step * step;
    return n <= WIDEST && wgmma_has(d, d, n / consumers) ? n : 0;
}

/* Whether a thread holds the sums of all products at once if the product has so many columns. */
static bool sums_fit(const Roles *c, const Instr *product, int64_t columns)
{
    int64_t words = 0;
    for (size_t k = 0; k < c->products.len; k++) {
        const Type *t = ir_result(c->products.data[k])->type;
        words += t->shape[0] * (c->products.data[k] == product ? columns : t->shape[1]);
    }
    return words <= (int64_t)MOST_SUMS * 128 * c->consumers;
}

static Value *copy_of(Session *s, Builder *b, const Instr *i, int64_t columns)
{
    ValueMap map;
    value_map_init(&map, &s->arena);
    Instr *copy = ir_clone(b, i, &map);
    const Type *t = ir_result(copy)->type;
    ir_result(copy)->type = type_tile(s, t->dtype, 2, (int64_t[]){ t->shape[0], columns });
    return ir_result(copy);
}

/* The window reaches beyond the axis of its columns. */
static void widen(Session *s, const Func *f, Instr *mem, int64_t columns)
{
    const Attr *inside = ir_attr(mem, ATTR_INSIDE);
    bool all = !ir_attr_int(mem, ATTR_MASKED, 1);
    int64_t v[TILE_MAX_RANK];
    int unit = kernel_unit_axis(f, mem, NULL), n = ir_attr(mem, ATTR_EXTENTS)->n;
    for (int a = 0; a < n; a++) v[a] = a != unit && (all || (inside && inside->v[a]));
    ir_set_attr(s, mem, a_ints(ATTR_INSIDE, v, n));
    ir_del_attr(mem, ATTR_MASKED);
    for (int a = 0; a < n; a++) v[a] = a == unit ? columns : ir_attr(mem, ATTR_EXTENTS)->v[a];
    ir_set_attr(s, mem, a_ints(ATTR_EXTENTS, v, n));
}

/* Whether the product's operands and its only use let it have other columns. */
static bool may_widen(Roles *c, const Instr *i)
{
    const Instr *load = ir_operand(i, 1)->def, *sum = ir_operand(i, 2)->def, *store = only_store(i);
    const Type *a = ir_operand(i, 0)->type, *t = ir_result(i)->type;
    return a->shape[0] == 64 && dtype_bytes(a->dtype) == 2 && store && sum && sum->op == OP_SPLAT && load &&
           load->op == OP_LOAD && !roles_by_cp_async(c, load) && roles_unit_axis(c, load) == 1 &&
           whole_columns(c->f, load, t->shape[1]) && whole_columns(c->f, store, t->shape[1]);
}

static bool widen_product(Roles *c, Instr **product)
{
    Instr *i = *product;
    if (!may_widen(c, i)) return false;
    int64_t n = ir_result(i)->type->shape[1],
            columns = shared_columns(ir_operand(i, 0)->type->dtype, n, c->consumers);
    if (columns <= n || !sums_fit(c, i, columns)) return false;
    Instr *load = ir_operand(i, 1)->def, *sum = ir_operand(i, 2)->def, *store = only_store(i);
    Builder at_load = ir_after(load), at_product = ir_before(i);
    Value *right = copy_of(c->s, &at_load, load, columns), *begin = copy_of(c->s, &at_product, sum, columns),
          *wide = copy_of(c->s, &at_product, i, columns);
    ir_set_operand(wide->def, 1, right);
    ir_set_operand(wide->def, 2, begin);
    widen(c->s, c->f, right->def, columns);
    widen(c->s, c->f, store, columns);
    ir_replace(ir_result(i), wide);
    ir_erase(i);
    if (!ir_is_used(load)) ir_erase(load);
    *product = wide->def;
    return true;
}

bool roles_widen_columns(void *user)
{
    Roles *c = user;
    bool changed = false;
    if (kernel_skips(c->p, PASS_WIDE_COLUMNS)) return false;
    for (size_t k = 0; k < c->products.len; k++) {
        const char *why = c->why;
        if (roles_rows_fit(c, c->products.data[k], c->consumers)) continue;
        if (!widen_product(c, &c->products.data[k])) break;
        c->why = why;
        changed = true;
    }
    if (changed) roles_find_loads(c);
    return changed;
}
