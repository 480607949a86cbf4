/* trace_scalars.c: scalars of a made-up launch (traces.c). Pure arithmetic is computed; what a launch or a
 * tensor says is made up, the same for all roles. */
#include "ir/verify/trace_cells.h"

typedef struct Trial {
    const TraceLaunch *launch;
    const Cell *cells;
} Trial;

static const Cell unknown;

static const Cell *at_value(const Trial *t, const Value *v) { return &t->cells[v->id]; }

uint64_t trace_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* An element of a tensor that the kernel does not write: the same for all who ask for the same place. */
static Cell element(const Trial *t, const Instr *i, const MemParts *m)
{
    DType d = i->results[0].type->dtype;
    const Attr *range = ir_attr(i, ATTR_RANGE);
    uint64_t at = t->launch->seed ^ trace_mix((uint64_t)m->param + 1);
    if (m->token) return unknown;
    for (int k = 0; k < m->rank; k++) {
        const Cell *c = at_value(t, m->idx[k]);
        if (c->kind != NUMBER) return unknown;
        at = trace_mix(at + (uint64_t)c->n.i);
    }
    if (dtype_is_float(d)) return (Cell){ NUMBER, 0, scalar_float((double)(at % 8) / 2) };
    int64_t n = (int64_t)(at % (t->launch->seed % 2 ? 5 : 300));
    if (range && n < range->v[0]) n = range->v[0];
    if (range && n > range->v[1]) n = range->v[1];
    return cell_number(scalar_wrap(d, n));
}

static Cell constant(const Instr *i)
{
    bool real = dtype_is_float(i->results[0].type->dtype);
    return (Cell){ NUMBER, 0,
        real ? scalar_float(ir_attr(i, ATTR_FVALUE)->f) : scalar_int(ir_attr_int(i, ATTR_IVALUE, 0)) };
}

static Cell leaf(const Trial *t, const Instr *i)
{
    const TraceLaunch *l = t->launch;
    MemParts m;
    int64_t axis = ir_attr_int(i, ATTR_AXIS, 0);
    if (i->op == OP_CONST) return constant(i);
    if (i->op == OP_DIM) return cell_number(l->dims[ir_attr_int(i, ATTR_DIM, 0)]);
    if (i->op == OP_NUM_PROGRAMS)
        return cell_number(axis < 0 ? l->grid[0] * l->grid[1] * l->grid[2] : l->grid[axis]);
    if (i->op == OP_PROGRAM) return cell_number((int64_t)(trace_mix(l->seed) % (uint64_t)l->programs));
    if (i->op == OP_NUM_CTAS) return cell_number(l->ctas);
    if (i->op == OP_CTA_ID || i->op == OP_CLUSTER_RANK || i->op == OP_CLUSTER_ID || i->op == OP_CP_ASYNC_ROW)
        return cell_number(0);
    if (i->op == OP_STRIDE) return cell_number(1 + axis);
    if (i->op != OP_LOAD && i->op != OP_GATHER) return unknown;
    return ir_mem_parts(i, &m) ? element(t, i, &m) : unknown;
}

static Cell computed(const Trial *t, const Instr *i)
{
    Scalar v[3] = { { 0 } }, out;
    DType to = i->results[0].type->dtype, d = to;
    if (!i->n_operands || i->n_operands > 3) return leaf(t, i);
    for (int k = 0; k < i->n_operands; k++) {
        const Cell *c = at_value(t, ir_operand(i, k));
        if (ir_operand(i, k)->type->kind != TYPE_SCALAR) return leaf(t, i);
        if (c->kind != NUMBER) return unknown;
        v[k] = c->n;
    }
    d = ir_operand(i, i->op == OP_WHERE ? 1 : 0)->type->dtype;
    if (i->op == OP_RESHAPE || i->op == OP_OPAQUE || i->op == OP_PROGRAM_COORD)
        return (Cell){ NUMBER, 0, v[0] };
    if (i->op == OP_CAST) return (Cell){ NUMBER, 0, scalar_cast(to, d, v[0]) };
    if (i->op == OP_BITCAST) return (Cell){ NUMBER, 0, scalar_bitcast(to, d, v[0]) };
    bool scalar = (op_info[i->op].flags & OPF_ELEM) && scalar_op(i->op, d, v, &out);
    return scalar ? (Cell){ NUMBER, 0, out } : unknown;
}

Cell trace_scalar(const TraceLaunch *launch, const Cell *cells, const Instr *i)
{
    Trial t = { launch, cells };
    return computed(&t, i);
}
