/* row_start.c: kernels whose rows may be held from the aligned address before their start on
 * (backends/gpu/emit_row_start.c says how).
 *
 *   %x = load %X[%r, 0]; .. %s = reduce_sum %x; .. store %Y[%r, 0] = %y      rows of any number of elements
 *
 * The place of an element within the tile then differs from row to row, so that nothing but the rows'
 * accesses may depend on it. */
#include "passes/kernel/kernel.h"

enum { MOST_WEIGHTS = 1 }; /* shifting two vectors of weights takes more registers than there are */

typedef struct RowStarts {
    const Func *f;
    const KernelPlan *p;
    int bytes, weights; /* of an element of all rows; vectors of one dimension */
    bool begun, stores, ok;
} RowStarts;

bool kernel_is_row_tile(const Type *t) { return t->kind == TYPE_TILE && (t->rank != 1 || t->shape[0] != 1); }

static bool starts_odd(const Param *p, const MemParts *m, int unit, int bytes)
{
    for (int a = 0; a < m->rank; a++) {
        int64_t stride = p->stride[a] != FACT_UNKNOWN ? p->stride[a] : p->stride_div[a];
        if (a != unit && stride * bytes % 16) return true;
    }
    return false;
}

/* Whole rows of tensors, and a vector of one dimension that all programs read. The first access is the load
 * of a row. */
static bool access_fits(RowStarts *x, const Instr *i)
{
    MemParts m;
    int axis, unit = kernel_unit_axis(x->f, i, &axis);
    int64_t off;
    if (!kernel_may_shift(x->f, x->p, i) || axis != 0 || !ir_mem_parts(i, &m) || m.mask ||
        ir_attr_int(i, ATTR_MASKED, 1) || ir_attr_int(i, ATTR_BULK, 0) || ir_attr(i, ATTR_STEPS))
        return false;
    const Param *p = &x->f->params[m.param];
    const Type *t = (m.result ? m.result : m.values[0])->type;
    int bytes = dtype_bytes(p->type->dtype);
    if (t->rank != 1 || p->align % 16 || !ir_is_const(m.idx[unit], &off) || off ||
        x->f->dims[p->dims[unit]].extent != t->shape[0] || (x->begun && bytes != x->bytes))
        return false;
    if (m.rank == 1) return x->begun && i->op == OP_LOAD && bytes > 1 && ++x->weights <= MOST_WEIGHTS;
    /* Rows that begin at multiples of 16 bytes are accessed by whole vectors, from their start on. */
    if ((!x->begun && i->op != OP_LOAD) || !starts_odd(p, &m, unit, bytes)) return false;
    x->begun = true;
    x->bytes = bytes;
    x->stores |= i->op == OP_STORE;
    return true;
}

static void visit(void *user, Instr *i)
{
    RowStarts *x = user;
    bool rows = false;
    for (int k = 0; k < i->n_results; k++) rows |= kernel_is_row_tile(i->results[k].type);
    for (int k = 0; k < i->n_operands; k++) rows |= kernel_is_row_tile(ir_operand(i, k)->type);
    if (i->n_blocks) x->ok = false;
    if (!rows || !x->ok) return;
    if (i->op == OP_LOAD || i->op == OP_STORE) x->ok = access_fits(x, i);
    else
        x->ok = op_has(i->op, OPF_ELEM) || i->op == OP_CAST || i->op == OP_BROADCAST || i->op == OP_SPLAT ||
                i->op == OP_REDUCE_SUM || i->op == OP_REDUCE_MAX || i->op == OP_REDUCE_MIN;
}

int kernel_row_start(const Func *f, const KernelPlan *p)
{
    RowStarts x = { .f = f, .p = p, .ok = true };
    ir_walk(f->body, visit, &x);
    return x.ok && x.stores ? x.bytes : 0;
}
