/* emit_one_hot.c: sums to which only one position of a row contributes.
 *
 *   %hit = eq (broadcast arange), (broadcast %id) : [8, 256]
 *   %y = reduce_sum (where %hit, (broadcast %x), 0) {axis = 1}
 *
 * Element k of %y is the element of %x at %id[k], or 0 if there is none.
 *
 * The language has no gather from a tile, so kernels write the choice of a few elements of a row in this way;
 * the router of a mixture of experts does, for example. As written, the sum takes three operations for each
 * row and element, and an exchange between lanes. The emitter writes the row to shared memory once and reads
 * it once for each choice. */
#include "backends/gpu/hopper/emit_cluster.h"

typedef struct OneHot {
    const Value *x;     /* the row, with one position along all other axes */
    const Value *place; /* which of its elements, with one position along the axis of the sum */
    int64_t start;      /* the place of the first one */
} OneHot;

/* Whether the tile counts along the axis from `start` on. */
static bool counts(Value *v, int axis, int64_t *start)
{
    v = ir_unrepeated(v);
    const Type *t = v->type;
    if (type_elements(t) != t->shape[axis]) return false;
    while (v->def && (v->def->op == OP_RESHAPE || v->def->op == OP_CAST)) v = ir_operand(v->def, 0);
    if (!v->def || v->def->op != OP_ARANGE) return false;
    *start = ir_attr_int(v->def, ATTR_START, 0);
    return true;
}

/* Whether the operation gives its result registers of its own, as products may not. */
static bool has_own_registers(const Instr *i)
{
    return !i->n_operands || op_is_elementwise(i->op) || op_has(i->op, OPF_MOVES) || op_reduces(i->op) ||
           i->op == OP_LOAD || i->op == OP_GATHER || i->op == OP_STORE || i->op == OP_CONVERT;
}

/* Whether nothing between the two may overwrite the row and its places, which are read at the second one. */
static bool follows(const Instr *first, const Instr *i)
{
    while (first && first != i && !first->n_blocks && has_own_registers(first)) first = first->next;
    return first == i;
}

/* Finds the choice that the reduction makes. Rows of which few choices are made are left to the sum. */
static bool chooses(const Instr *i, int axis, OneHot *h)
{
    enum { LEAST_ROWS = 4, WORD_BITS = 32 };
    const Instr *w = ir_operand(i, 0)->def;
    if (i->op != OP_REDUCE_SUM || i->n_operands != 1 || !w || w->op != OP_WHERE) return false;
    const Instr *hit = ir_operand(w, 0)->def;
    const Type *t = ir_operand(i, 0)->type;
    if (!hit || hit->op != OP_EQ || !follows(hit, i) || !kernel_is_zero(ir_operand(w, 2)) ||
        dtype_bits(t->dtype) != WORD_BITS)
        return false;
    h->x = ir_unrepeated(ir_operand(w, 1));
    if (h->x->type->kind != TYPE_TILE || !h->x->type->layout || type_elements(h->x->type) != t->shape[axis] ||
        h->x->type->shape[axis] != t->shape[axis] || type_elements(t) < LEAST_ROWS * t->shape[axis])
        return false;
    for (int k = 0; k < 2; k++) {
        h->place = ir_unrepeated(ir_operand(hit, k));
        if (h->place->type->kind == TYPE_TILE && h->place->type->shape[axis] == 1 &&
            h->place->type->dtype == DT_I32 && counts(ir_operand(hit, 1 - k), axis, &h->start))
            return true;
    }
    return false;
}

/* A register of the operand's layout that lies in row k of the sums. */
static int register_of_row(const Layout *l, const Layout *keep, int axis, int k)
{
    int32_t row[TILE_MAX_RANK], at[TILE_MAX_RANK];
    layout_element(keep, (uint32_t)k, 0, 0, 0, row);
    for (int r = 0; r < (int)layout_regs(l); r++) {
        bool same = true;
        layout_element(l, (uint32_t)r, 0, 0, 0, at);
        for (int a = 0; a < l->rank; a++) same = same && (a == axis || at[a] == row[a]);
        if (same) return r;
    }
    return -1;
}

/* Writes the row to shared memory at `base`. */
static void write_row(Emit *e, const Value *x, const char *base, DType d)
{
    const Layout *l = layout_of(e, x);
    Index *c[TILE_MAX_RANK];
    begin_unrolled(e, "i", (int)layout_regs(l));
    Index *r = index_variable(e, "i");
    coords_at(e, l, r, c);
    const char *cond = both_conditions(e, unique_holder(e, l), tile_condition(e, l, r, c)),
               *put = use(e, str(e, "sts_%s", dtype_name(d)));
    line(e, "%s%s%s%s(%s + (%s) * %d, %s);", *cond ? "if (" : "", cond, *cond ? ") " : "", put, base,
        row_major(e, c, x->type), dtype_bytes(d), element(e, x, l, r));
    end_block(e);
}

bool emit_one_hot(Emit *e, const Instr *i, const Layout *l, const Layout *keep, const char *sums)
{
    OneHot h;
    const int axis = (int)ir_attr_int(i, ATTR_AXIS, 0), m = (int)layout_regs(keep);
    const DType d = ir_operand(i, 0)->type->dtype;
    if (layout_blocks(l) > 1 || ir_attr_int(i, ATTR_LANES, 0) == LANES_APART || !chooses(i, axis, &h))
        return false;
    for (int k = 0; k < m; k++)
        if (register_of_row(l, keep, axis, k) < 0) return false;
    const int64_t n = ir_operand(i, 0)->type->shape[axis];
    const char *base = tmp(e, "sh"), *get = use(e, str(e, "lds_%s", dtype_name(d)));
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", base, (long long)scratch(e, n * dtype_bytes(d)));
    barrier(e);
    write_row(e, h.x, base, d);
    barrier(e);
    line(e, "%s %s[%d];", ctype(d), sums, m);
    for (int k = 0; k < m; k++) {
        const char *at = tmp(e, "at");
        line(e, "const u32 %s = (u32)%s - (u32)%lld;", at,
            element(e, h.place, l, index_number(e, register_of_row(l, keep, axis, k))), (long long)h.start);
        line(e, "%s[%d] = %s < %lld ? 0 + %s(%s + %s * %d) : 0;", sums, k, at, (long long)n, get, base, at,
            dtype_bytes(d));
    }
    return true;
}
