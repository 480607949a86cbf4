/* computed_windows.c: of computed_inputs: the windows and vectors that an operand is computed from, and how
 * they lie to the window of the result. */
#include "passes/tile/launch/computed.h"
#include <math.h>

static bool same_attributes(const Instr *a, const Instr *b)
{ return a->n_attrs == b->n_attrs && ir_same_attrs(a, b); }

/* Whether both are computed alike from the same values, which before cse may be two instructions. */
static bool same_index(const Value *a, const Value *b, int depth)
{
    const Instr *i = a->def, *j = b->def;
    if (a == b) return true;
    if (!i || !j || i->op != j->op || a->type != b->type || a->index != b->index || depth > MAX_DEPTH ||
        i->n_blocks || ir_reads_memory(i) || ir_has_effects(i) || i->n_operands != j->n_operands ||
        !same_attributes(i, j))
        return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!same_index(ir_operand(i, k), ir_operand(j, k), depth + 1)) return false;
    return true;
}

static bool is_zero(const Value *v)
{
    int64_t n;
    double r;
    return !v || (ir_is_const(v, &n) && n == 0) || (ir_is_const_float(v, &r) && r == 0 && !signbit(r));
}

bool computed_is_read(const Computing *x, const Instr *i, MemParts *m)
{
    if (i->op != OP_LOAD || !is_constant_read(i) || !ir_mem_parts(i, m) || m->token || m->mask) return false;
    for (int k = 0; k < i->n_attrs; k++)
        if (i->attrs[k].key != ATTR_EXTENTS && i->attrs[k].key != ATTR_LATENCY &&
            i->attrs[k].key != ATTR_CACHE)
            return false;
    return m->result->type->kind == TYPE_TILE && is_zero(m->pad) && x->f->params[m->param].kind == PARAM_IN;
}

bool computed_is_window(const Computing *x, const Instr *i, MemParts *m)
{ return computed_is_read(x, i, m) && m->rank <= 2 && m->result->type->rank == m->rank; }

/* Whether so many leading axes of both accesses have the same dimensions and positions, one element each. */
static bool same_leading(const Computing *x, const Instr *i, const MemParts *m, const MemParts *first, int n)
{
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    for (int a = 0; a < n; a++)
        if (e->v[a] != -1 || x->f->params[m->param].dims[a] != x->f->params[first->param].dims[a] ||
            !same_index(m->idx[a], first->idx[a], 0))
            return false;
    return true;
}

/* Columns that are known: from a constant on, within an extent that is one. */
bool computed_known_columns(const Computing *x, const Instr *i, const MemParts *m, ComputedFrom *by)
{
    int last = m->rank - 1;
    const Attr *e = ir_attr(i, ATTR_EXTENTS);
    int64_t extent = x->f->dims[x->f->params[m->param].dims[last]].extent;
    by->width = e->v[last];
    return ir_is_const(m->idx[last], &by->plus) && by->plus >= 0 && by->width > 0 && extent > 0 &&
           by->plus <= extent - by->width;
}

/* Whether the load takes known columns of the rows of the host's window: of a tensor with its axes, of a
 * table with a row for each of them, or a vector with an element for each row, or for each column. */
bool computed_is_of_rows(const Computing *x, const Instr *i, const MemParts *m, ComputedFrom *by)
{
    MemParts first;
    const Type *t = m->result->type;
    if (!ir_mem_parts(x->load, &first)) return false;
    const Param *host = &x->f->params[first.param], *p = &x->f->params[m->param];
    int axes = first.rank, row = t->rank == 2 ? m->rank - 2 : m->rank - 1;
    if (t->rank == 1 && m->rank == 1 && p->dims[0] != host->dims[axes - 2]) {
        by->axis = 1;
        return computed_known_columns(x, i, m, by);
    }
    if (t->rank > 2 || row < 0 || (row != axes - 2 && row != 0)) return false;
    if (row && !same_leading(x, i, m, &first, row)) return false;
    if (p->dims[row] != host->dims[axes - 2] || t->shape[0] != ir_result(x->load)->type->shape[0] ||
        !same_index(m->idx[row], first.idx[axes - 2], 0))
        return false;
    if (t->rank == 2) return computed_known_columns(x, i, m, by);
    by->axis = 0;
    by->width = 1;
    return true;
}

/* Whether the columns from `index` on lie behind those from `first` on, and how far. */
static bool is_behind(Value *index, const Value *first, ComputedFrom *by)
{
    const Instr *i = index->def;
    if (same_index(index, first, 0)) return true;
    if (!i || i->op != OP_ADD) return false;
    for (int k = 0; k < 2; k++) {
        const Value *far = ir_operand(i, k);
        if (!same_index(ir_operand(i, 1 - k), first, 0)) continue;
        if (ir_is_const(far, &by->plus)) return by->plus >= 0;
        if (!far->def || far->def->op != OP_DIM) return false;
        by->dim = (int)ir_attr_int(far->def, ATTR_DIM, -1);
        return by->dim >= 0;
    }
    return false;
}

/* Whether the load's window is that of the result, or lies some columns behind it. Columns before the tensor
 * are no columns of the other window then, as there are none. */
bool computed_same_window(Computing *x, const Instr *i, const MemParts *m, ComputedFrom *by)
{
    MemParts first;
    if (!ir_mem_parts(x->load, &first)) return false;
    for (int a = 0; a < 2; a++)
        if (x->f->params[m->param].dims[a] != x->f->params[first.param].dims[a] ||
            ir_result(i)->type->shape[a] != ir_result(x->load)->type->shape[a])
            return false;
    if (!same_index(m->idx[0], first.idx[0], 0) || !is_behind(m->idx[1], first.idx[1], by)) return false;
    return (by->dim < 0 && !by->plus) || value_range(x->facts, first.idx[1]).lo >= 0;
}

/* Whether the load takes an element for each row or each column of the result. */
bool computed_is_vector(Computing *x, const MemParts *m, ComputedFrom *by)
{
    MemParts first;
    if (!ir_mem_parts(x->load, &first)) return false;
    for (by->axis = 0; by->axis < 2; by->axis++)
        if (x->f->params[m->param].dims[0] == x->f->params[first.param].dims[by->axis] &&
            m->result->type->shape[0] == ir_result(x->load)->type->shape[by->axis] &&
            same_index(m->idx[0], first.idx[by->axis], 0))
            return true;
    return false;
}

/* Whether the load may be the host's window where whole rows are computed, as wide as the operand. */
bool computed_is_host_of_rows(const Computing *x, const Value *operand, const Instr *load)
{
    enum { MOST_AXES = 4, MOST_WIDTH = 512 };
    MemParts m;
    ComputedFrom by;
    if (!computed_is_read(x, load, &m) || m.rank > MOST_AXES || m.result->type->rank != 2 ||
        operand->type->shape[0] != m.result->type->shape[0] || operand->type->shape[1] > MOST_WIDTH)
        return false;
    const Param *p = &x->f->params[m.param];
    for (int a = 0; a < m.rank; a++)
        for (int b = 0; b < a; b++)
            if (p->dims[a] == p->dims[b]) return false;
    return same_leading(x, load, &m, &m, m.rank - 2) && computed_known_columns(x, load, &m, &by) &&
           x->f->dims[p->dims[m.rank - 1]].extent == operand->type->shape[1];
}
