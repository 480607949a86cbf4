/* row_changes.c: of program-order: programs that change the same rows of a tensor run together.
 *
 *   grid (C, cdiv(N, T)), (c, i)       at = load AT[c, i*T +: T]; atomic DX[c, at]
 *
 * With the first axis fastest, all rows of DX are changed by turns, so that each sector comes from memory and
 * goes there again for each i. Where one grid axis alone says which rows a program changes, and memory says
 * where in them, the other axis is the fastest if the tensor is beyond L2 and its rows are long: of short
 * rows all programs at a time would change the same elements. A launch's extents decide that.
 *
 * Requires: a grid of two axes, and no products. Keeps: each program once. */
#include "passes/kernel/program/row_changes.h"

enum { UNKNOWN = -1, DEEP = 8, LONG_ROW = 4096 };

typedef struct Changes {
    const unsigned *axes;  /* by value id: the grid axes on which it depends */
    int param, rows, axis; /* the tensor; how many of its axes are rows; the grid axis of these */
    bool others;           /* changes of other kinds, or products */
} Changes;

/* Whether all elements are the same. */
static bool is_uniform(const Value *v, int depth)
{
    const Instr *d = v->def;
    if (v->type->kind != TYPE_TILE || (d && d->op == OP_SPLAT)) return true;
    bool passes =
        d && d->n_operands && depth < DEEP && (op_is_elementwise(d->op) || op_family(d->op) == OPS_SHAPE);
    for (int k = 0; passes && k < d->n_operands; k++) passes = is_uniform(ir_operand(d, k), depth + 1);
    return passes;
}

static bool is_loaded(const Value *v, int depth)
{
    const Instr *d = v->def;
    if (!d || depth > DEEP) return false;
    bool found = d->op == OP_LOAD || d->op == OP_GATHER;
    for (int k = 0; k < d->n_operands && !found; k++) found = is_loaded(ir_operand(d, k), depth + 1);
    return found;
}

static void visit(void *user, Instr *i)
{
    Changes *s = user;
    MemParts m;
    unsigned axes = 0;
    int rows = 0;
    s->others |= i->op == OP_MMA;
    if ((i->op != OP_SCATTER && i->op != OP_ATOMIC_RMW) || !ir_mem_parts(i, &m)) return;
    for (; rows < m.rank && is_uniform(m.idx[rows], 0); rows++) axes |= s->axes[m.idx[rows]->id];
    const int axis = axes == 1 ? 0 : axes == 2 ? 1 : UNKNOWN;
    const bool known = rows > 0 && rows < m.rank && axis != UNKNOWN && is_loaded(m.idx[rows], 0),
               again = s->axis == UNKNOWN || (s->axis == axis && s->param == m.param && s->rows == rows);
    s->others |= !known || !again;
    s->param = m.param;
    s->rows = rows;
    s->axis = axis;
}

/* Whether rows of the tensor may be long, by the extents that are known. */
static bool may_be_long(const Func *f, const Changes *s)
{
    const Param *p = &f->params[s->param];
    double n = 1;
    for (int a = s->rows; a < p->type->rank; a++) {
        const int64_t extent = f->dims[p->dims[a]].extent;
        if (extent < 0) return true;
        n *= (double)extent;
    }
    return n >= LONG_ROW;
}

static bool find(Func *f, const unsigned *axes, int rank, Changes *s)
{
    *s = (Changes){ .axes = axes, .axis = UNKNOWN };
    if (rank != 2) return false;
    ir_walk(f->body, visit, s);
    return s->axis == 0 && !s->others && may_be_long(f, s);
}

bool order_changes_rows(Func *f, const unsigned *axes, int rank)
{
    Changes s;
    return find(f, axes, rank, &s);
}

/* The elements of the tensor along the axes from this one on, about. */
static Value *elements(const Func *f, Builder *b, int param, int from)
{
    const Param *p = &f->params[param];
    Value *all = ir_const_float(b, DT_F32, 1);
    for (int a = from; a < p->type->rank; a++) {
        const int64_t extent = f->dims[p->dims[a]].extent;
        Value *n = extent >= 0 ? ir_const_float(b, DT_F32, (double)extent) : NULL;
        if (!n)
            n = ir_cast(b,
                ir_emit(b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, p->dims[a])),
                    type_scalar(b->module->session, DT_I32)),
                DT_F32);
        all = ir_bin(b, OP_MUL, all, n);
    }
    return all;
}

void order_together(Func *f, const Target *t, Builder *b, Value *p, const unsigned *axes, Value **coord)
{
    Changes s;
    if (!find(f, axes, 2, &s)) return;
    const Param *to = &f->params[s.param];
    Value *fits = ir_const_float(b, DT_F32, (double)t->l2_bytes / dtype_bytes(to->type->dtype)),
          *large = ir_bin(b, OP_GT, elements(f, b, s.param, 0), fits), *n[2],
          *rows = ir_bin(b, OP_GE, elements(f, b, s.param, s.rows), ir_const_float(b, DT_F32, LONG_ROW)),
          *swap = ir_bin(b, OP_AND, large, rows);
    for (int a = 0; a < 2; a++)
        n[a] = ir_emit(
            b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), type_scalar(b->module->session, DT_I32));
    Value *fast = ir_op(b, OP_WHERE, NULL, NO_ATTRS, swap, n[1], n[0]), *slow = ir_bin(b, OP_DIV, p, fast),
          *rest = ir_bin(b, OP_REM, p, fast);
    coord[0] = ir_op(b, OP_WHERE, NULL, NO_ATTRS, swap, slow, rest);
    coord[1] = ir_op(b, OP_WHERE, NULL, NO_ATTRS, swap, rest, slow);
}
