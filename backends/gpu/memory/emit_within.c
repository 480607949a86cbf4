/* emit_within.c: indices that are in range wherever there is an element at all, because the extent bounds
 * them.
 *
 *     gather(X[clamp(y, 0, H - 1)])   ->   if (H > 0) ..   in place of   if ((u32)clamp_1 < (u32)H) ..
 *
 * One test does for all accesses; none is needed where a launch promises an element. Counters of loops that
 * end at the extent, and coordinates of programs of which there are as many, are such indices too. */
#include "backends/gpu/memory/emit_within.h"

enum { MOST_STEPS = 6 };

/* What holds of a value if the extent is at least 1. */
typedef struct Within {
    bool from_zero, below; /* 0 <= value; value < extent */
} Within;

static bool is_wide(DType d) { return dtype_is_signed(d) && dtype_bits(d) >= 32; }

/* The value of which all elements are, in a type of at least as many bits as extents have. */
static const Value *plain(const Emit *e, const Value *v)
{
    for (;;) {
        const Instr *d = v->def;
        bool same = d && (d->op == OP_SPLAT || op_has(d->op, OPF_WHOLE)),
             cast = d && d->op == OP_CAST && e->f->fits32 && is_wide(ir_result(d)->type->dtype) &&
                    is_wide(ir_operand(d, 0)->type->dtype);
        if (!same && !cast) return v;
        v = ir_operand(d, 0);
    }
}

static bool is_extent(const Emit *e, const Value *v, int dim)
{
    v = plain(e, v);
    return v->def && v->def->op == OP_DIM && ir_attr_int(v->def, ATTR_DIM, -1) == dim;
}

static Within within(Emit *e, const Value *v, int dim, int steps);

static Within least(Within a, Within b) { return (Within){ a.from_zero && b.from_zero, a.below || b.below }; }

static Within greatest(Within a, Within b)
{ return (Within){ a.from_zero || b.from_zero, a.below && b.below }; }

/* The counter of a loop that ends at the extent. */
static Within of_counter(Emit *e, const Value *v, int dim, int steps)
{
    const Instr *loop = v->def ? NULL : v->block->parent;
    int64_t step;
    if (!loop || loop->op != OP_FOR || v->index != 0 || !steps || !ir_is_const(ir_operand(loop, 2), &step) ||
        step < 1)
        return (Within){ 0 };
    return (Within){ within(e, ir_operand(loop, 0), dim, steps - 1).from_zero,
        is_extent(e, ir_operand(loop, 1), dim) };
}

/* Whether the coordinate of a program is along an axis of the grid that has as many programs. */
static bool counts_programs(const Emit *e, const Instr *d, int dim)
{
    int64_t axis = ir_attr_int(d, ATTR_AXIS, 0);
    const Instr *grid = e->f->grid ? ir_terminator(e->f->grid) : NULL;
    return d->op == OP_PROGRAM_COORD && grid && e->plan->cluster <= 1 && axis < grid->n_operands &&
           is_extent(e, ir_operand(grid, (int)axis), dim);
}

static Within of_operation(Emit *e, const Instr *d, int dim, int steps)
{
    Within x[3] = { 0 };
    int64_t c;
    for (int k = 0; k < d->n_operands && k < 3; k++) x[k] = within(e, ir_operand(d, k), dim, steps - 1);
    bool wide = is_wide(ir_result(d)->type->dtype) && d->n_operands && is_wide(ir_operand(d, 0)->type->dtype),
         extent = d->n_operands == 2 && is_extent(e, ir_operand(d, 0), dim) &&
                  ir_is_const(plain(e, ir_operand(d, 1)), &c) && c > -INT32_MAX && c < INT32_MAX;
    if (d->op == OP_PROGRAM_COORD) return (Within){ true, counts_programs(e, d, dim) };
    if (d->op == OP_MIN) return least(x[0], x[1]);
    if (d->op == OP_MAX) return greatest(x[0], x[1]);
    if (d->op == OP_CLAMP) return least(greatest(x[0], x[1]), x[2]);
    if (d->op == OP_WHERE) return (Within){ x[1].from_zero && x[2].from_zero, x[1].below && x[2].below };
    if (d->op == OP_REM) return (Within){ false, is_extent(e, ir_operand(d, 1), dim) };
    /* the last index, and those before it */
    if (d->op == OP_ADD && extent) return (Within){ c == -1 || c == 0, c < 0 };
    if (d->op == OP_SUB && extent) return (Within){ c == 0 || c == 1, c > 0 };
    if (d->op == OP_SPLAT || op_has(d->op, OPF_WHOLE)) return x[0];
    if (d->op != OP_CAST || !wide) return (Within){ 0 };
    /* from fewer bits, or of an index that is in range and so has no more */
    if (dtype_bits(ir_result(d)->type->dtype) >= dtype_bits(ir_operand(d, 0)->type->dtype)) return x[0];
    if (e->f->fits32 && x[0].from_zero && x[0].below) return x[0];
    return (Within){ 0 };
}

static Within within(Emit *e, const Value *v, int dim, int steps)
{
    if (!e->ranges) e->ranges = ranges_new(e->f);
    Within w = { 0 };
    RangeInfo r = range_of(e->ranges, v);
    if (!v->def) w = of_counter(e, v, dim, steps);
    if (v->def && steps && is_wide(v->type->dtype)) w = of_operation(e, v->def, dim, steps);
    return (Within){ w.from_zero || r.lo >= 0, w.below || r.hi < range_of_dim(e->f, dim).lo || r.hi <= 0 };
}

bool within_if_any(Emit *e, const Value *v, int dim)
{
    Within w = within(e, v, dim, MOST_STEPS);
    return w.from_zero && w.below;
}
