/* scattered_rows.c: the order of programs that change rows of a tensor at places that they load.
 *
 *   grid (rows, tiles)
 *   %at = load AT[%r, %i * 512];   atomic_rmw DX[splat %r, %at]          program (%r, %i)
 *
 * Each program changes elements anywhere in row %r. If programs of many rows run together, all their rows are
 * changed at once, which L2 does not hold, and each change takes a sector of memory there and back. With %i
 * as the fastest axis, programs that run together change few rows, which L2 collects.
 *
 * Holds for atomics and scatters with an index that is one number of the program, of which the row follows,
 * and an index that the program reads. All of them must leave the same grid axis open, and every tile that
 * the program loads must follow the axes of its row, so that no two rows share what they read. Atomics on few
 * elements wait for each other, so that a row must be long, which the program finds out where the launch does
 * not say it:
 *
 *   %long = elements of a row >= 8192
 *   %g = where %long, %grid1, %grid0
 *   %i = where %long, %p rem %g, %p div %g;   %r = where %long, %p div %g, %p rem %g */
#include "passes/kernel/kernel.h"

enum {
    MOST_STEPS = 256,
    LEAST_ELEMENTS = 8192 /* of a row, whose atomics then wait for each other no more than those of many */
};

typedef struct Rows {
    const Func *f;
    const KernelPlan *p;
    const unsigned *axes; /* of the grid, by value id */
    unsigned fixed;       /* of which the row follows */
    bool found, refused;
    int param;
    unsigned open;   /* axes of the tensor along which the row lies */
    unsigned shared; /* of which a tile that is loaded does not follow */
    int steps;
} Rows;

/* The scalar that is in all places of an index. */
static const Value *number_of(const Value *v)
{
    while (v->def && v->def->n_operands == 1 && v->type->kind == TYPE_TILE &&
           (op_family(v->def->op) == OPS_SHAPE || v->def->op == OP_CAST))
        v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

/* Whether the value follows from what the program reads. Values of loops and branches count as such. */
static bool is_read(Rows *c, const Value *v)
{
    if (!v->def || --c->steps < 0 || v->def->n_blocks || ir_mem_parts(v->def, &(MemParts){ 0 })) return true;
    for (int k = 0; k < v->def->n_operands; k++)
        if (is_read(c, ir_operand(v->def, k))) return true;
    return false;
}

/* Whether a launch is known to have a tensor that L2 holds whole. */
static bool fits_l2(const Rows *c, int param)
{
    const Param *p = &c->f->params[param];
    double bytes = dtype_bytes(p->type->dtype);
    for (int a = 0; a < p->type->rank; a++) bytes *= (double)range_of_dim(c->f, p->dims[a]).hi;
    return bytes <= (double)c->p->target->l2_bytes / 4;
}

static void look(void *user, Instr *i)
{
    Rows *c = user;
    MemParts m;
    if (i->op == OP_MMA) c->refused = true;
    if (!ir_mem_parts(i, &m)) return;
    unsigned all = 0, row = 0, open = 0;
    bool reads = false;
    for (int a = 0; a < m.rank; a++) all |= c->axes[m.idx[a]->id];
    if ((i->op == OP_LOAD || i->op == OP_GATHER) && m.result->type->kind == TYPE_TILE) c->shared |= ~all;
    if ((i->op != OP_ATOMIC_RMW && i->op != OP_SCATTER) || ir_orders(i) || fits_l2(c, m.param)) return;
    for (int a = 0; a < m.rank; a++) {
        const Value *one = number_of(m.idx[a]);
        c->steps = MOST_STEPS;
        if (is_read(c, m.idx[a])) reads = true;
        else if (one) row |= c->axes[one->id];
        if (!one || reads) open |= 1u << a;
    }
    if (!reads || !row) return;
    c->refused |= c->found && row != c->fixed;
    c->found = true;
    c->fixed = row;
    c->param = m.param;
    c->open = open;
}

/* The elements of a row at least and at most, as far as the launch says. */
static void elements(const Rows *c, double *least, double *most)
{
    const Param *p = &c->f->params[c->param];
    *least = *most = 1;
    for (int a = 0; a < p->type->rank; a++) {
        if (!(c->open >> a & 1)) continue;
        RangeInfo x = range_of_dim(c->f, p->dims[a]);
        *least *= (double)(x.lo > 0 ? x.lo : 0);
        *most *= (double)x.hi;
    }
}

static bool find(Rows *c)
{
    double least, most;
    ir_walk(c->f->body, look, c);
    if (!c->found || c->refused || c->fixed != 1 || c->shared & 1) return false;
    elements(c, &least, &most);
    return most >= LEAST_ELEMENTS;
}

bool kernel_scatters_rows(const Func *f, const KernelPlan *p, const unsigned *axes, int rank)
{ return rank == 2 && find(&(Rows){ .f = f, .p = p, .axes = axes }); }

/* Whether a row has the elements. */
static Value *is_long(const Rows *c, Builder *b)
{
    const Param *p = &c->f->params[c->param];
    Value *n = ir_const_float(b, DT_F32, 1);
    for (int a = 0; a < p->type->rank; a++) {
        if (!(c->open >> a & 1)) continue;
        Value *d = ir_emit(
            b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, p->dims[a])), type_scalar(b->module->session, DT_I64));
        n = ir_bin(b, OP_MUL, n, ir_cast(b, d, DT_F32));
    }
    Value *is = ir_bin(b, OP_GE, n, ir_const_float(b, DT_F32, LEAST_ELEMENTS));
    ir_set_name(is, "long_rows");
    return is;
}

void kernel_along_rows(
    Func *f, const KernelPlan *p, const unsigned *axes, Builder *b, Value *linear, Value **coord)
{
    Rows c = { .f = f, .p = p, .axes = axes };
    double least = 0, most = 0;
    Value *grid[2], *along = NULL;
    bool finds = find(&c);
    for (int a = 0; a < 2; a++)
        grid[a] = ir_emit(
            b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), type_scalar(b->module->session, DT_I32));
    if (finds) elements(&c, &least, &most);
    if (finds && least < LEAST_ELEMENTS) along = is_long(&c, b);
    Value *fast = along ? ir_op(b, OP_WHERE, NULL, NO_ATTRS, along, grid[1], grid[0]) : grid[1],
          *rem = ir_bin(b, OP_REM, linear, fast), *div = ir_bin(b, OP_DIV, linear, fast);
    coord[1] = along ? ir_op(b, OP_WHERE, NULL, NO_ATTRS, along, rem, div) : rem;
    coord[0] = along ? ir_op(b, OP_WHERE, NULL, NO_ATTRS, along, div, rem) : div;
}
