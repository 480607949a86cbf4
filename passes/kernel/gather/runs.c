/* runs.c: where elements of tiles that follow each other are equal, or count by ones, so that one access
 * moves several elements of a gather, a scatter or an atomic addition.
 *
 *   %at = broadcast (reshape (add (splat (mul %j, 64)), arange)) : [32, 64]      counts along axis 1
 *   %id = broadcast (reshape (load ID[..]))                      : [32, 64]      is equal along axis 1
 *   gather X[%id, %at]                                                           4 elements of f32 at a time
 *
 * A run is n elements along one axis, of which the first has a multiple of n as its coordinate; n is a power
 * of two of at most 16. Wrapping to fewer bits keeps all that is said of a run here, because a run that
 * counts begins at a multiple of n and so passes no power of two above n.
 *
 * Only reads the IR. Values that a loop carries, and tiles that were loaded, are equal along axes of extent 1
 * alone. */
#include "ir/analysis/range.h"
#include "passes/kernel/gather/gather_windows.h"
#include "passes/kernel/gather/runs.h"

typedef struct Runs {
    const Func *f;
    Ranges **ranges; /* NULL there until they are asked for */
    int axis, n, left;
    bool anywhere;     /* wherever a run begins: what is equal along it counts as a multiple */
    const Instr *step; /* a quotient that is taken as equal; NULL: none */
} Runs;

enum { ALONG_NONE = -1, MOST_ASKED = 512 };

static unsigned run_of(Runs *, const Value *, int axis);

/* The axis of the operand that becomes `axis` of the result. */
static int axis_before(const Instr *i, int axis)
{
    const Type *from = ir_operand(i, 0)->type;
    if (axis == ALONG_NONE || from->kind != TYPE_TILE) return ALONG_NONE;
    if (i->op == OP_PERMUTE) return (int)ir_attr(i, ATTR_ORDER)->v[axis];
    if (i->op == OP_RESHAPE)
        for (int k = 0; k < from->rank; k++)
            if (position_axis(from, ir_result(i)->type, k) == axis) return k;
    return axis;
}

static unsigned run_of_shape(Runs *c, const Instr *i, int axis)
{
    const Type *from = i->n_operands ? ir_operand(i, 0)->type : NULL, *to = ir_result(i)->type;
    switch (op_as_shape(i->op)) {
    case SHAPE_ARANGE:
        if (axis == ALONG_NONE) return RUN_EQUAL;
        return ir_attr_int(i, ATTR_START, 0) % c->n ? 0 : RUN_COUNTS;
    case SHAPE_RESHAPE:
        if (axis != ALONG_NONE && from->kind == TYPE_TILE && position_axis(from, to, 0) == -2) return 0;
        return run_of(c, ir_operand(i, 0), axis_before(i, axis));
    case SHAPE_SPLAT:
    case SHAPE_BROADCAST:
    case SHAPE_PERMUTE: return run_of(c, ir_operand(i, 0), axis_before(i, axis));
    case SHAPE_CONCAT:
    case SHAPE_SLICE: break;
    }
    return axis == ALONG_NONE ? RUN_EQUAL : 0;
}

/* Whether no element is below zero, where a quotient that truncates is one that rounds down. */
static bool not_negative(Runs *c, const Value *v)
{
    if (!*c->ranges) *c->ranges = ranges_new(c->f);
    return range_of(*c->ranges, v).lo >= 0;
}

/* x by a constant that is a multiple of n: a run has one quotient, and its remainders count if it counts. */
static unsigned run_divided(Runs *c, const Instr *i, unsigned x)
{
    int64_t by;
    const Value *v = ir_operand(i, 0);
    bool bits = i->op == OP_AND || i->op == OP_SHR;
    if (!(x & RUN_COUNTS) || !ir_is_const(ir_operand(i, 1), &by)) return 0;
    if (i->op == OP_AND) by = by >= 0 && by < INT32_MAX ? by + 1 : 0;
    if (i->op == OP_SHR) by = by >= 0 && by < 31 ? (int64_t)1 << by : 0;
    if (by < 1 || by % c->n || (bits && (by & (by - 1))) || (!bits && !not_negative(c, v))) return 0;
    return i->op == OP_DIV || i->op == OP_SHR ? RUN_EQUAL : RUN_COUNTS;
}

/* Whether x < y or x >= y is the same for a whole run, as x counts and y is a multiple of n; or the other way
 * round. */
static bool compares_alike(Op op, unsigned x, unsigned y)
{
    bool counted = x & RUN_COUNTS && y & RUN_MULTIPLE, counts = x & RUN_MULTIPLE && y & RUN_COUNTS;
    return (counted && (op == OP_LT || op == OP_GE)) || (counts && (op == OP_GT || op == OP_LE));
}

static unsigned run_of_elements(Runs *c, const Instr *i, int axis)
{
    unsigned x[3] = { 0 }, all = ~0u, any = 0;
    if (!op_is_elementwise(i->op) || i->n_operands > 3) return axis == ALONG_NONE ? RUN_EQUAL : 0;
    for (int k = 0; k < i->n_operands; k++) {
        x[k] = run_of(c, ir_operand(i, k), axis);
        all &= x[k];
        any |= x[k];
    }
    unsigned equal = all & RUN_EQUAL;
    bool integers = dtype_is_int(ir_result(i)->type->dtype) && dtype_is_int(ir_operand(i, 0)->type->dtype);
    if (i->op == OP_WHERE && x[0] & RUN_EQUAL) return x[1] & x[2];
    if (i->op == OP_CAST && integers) return x[0];
    if (compares_alike(i->op, x[0], x[1])) return RUN_EQUAL;
    if (!integers) return equal;
    if (i->op == OP_MIN || i->op == OP_MAX) return all & (RUN_EQUAL | RUN_MULTIPLE);
    if (i->op == OP_MUL) return equal ? equal | (any & RUN_MULTIPLE) : 0;
    if (i->op == OP_ADD || i->op == OP_SUB) {
        if (equal) return all & (RUN_EQUAL | RUN_MULTIPLE);
        if (x[0] & RUN_COUNTS && x[1] & RUN_MULTIPLE) return RUN_COUNTS;
        return i->op == OP_ADD && x[1] & RUN_COUNTS && x[0] & RUN_MULTIPLE ? RUN_COUNTS : 0;
    }
    bool divides = i->op == OP_DIV || i->op == OP_REM || i->op == OP_AND || i->op == OP_SHR;
    return equal ? equal : divides ? run_divided(c, i, x[0]) : 0;
}

static unsigned run_of_value(Runs *c, const Value *v, int axis)
{
    const Instr *i = v->def;
    if (v->type->kind == TYPE_SCALAR)
        return RUN_EQUAL |
               (dtype_is_int(v->type->dtype) && kernel_divisor(c->f, v) % c->n == 0 ? RUN_MULTIPLE : 0);
    if (v->type->kind != TYPE_TILE) return 0;
    if (axis != ALONG_NONE && v->type->shape[axis] == 1) axis = ALONG_NONE;
    if (!i || --c->left < 0) return axis == ALONG_NONE ? RUN_EQUAL : 0;
    if (i == c->step) return RUN_EQUAL;
    if (i->op == OP_CONVERT || i->op == OP_MATERIALIZE || i->op == OP_OPAQUE)
        return run_of(c, ir_operand(i, 0), axis);
    if (op_family(i->op) == OPS_SHAPE) return run_of_shape(c, i, axis);
    return run_of_elements(c, i, axis);
}

static unsigned run_of(Runs *c, const Value *v, int axis)
{
    unsigned r = run_of_value(c, v, axis);
    return c->anywhere && r & RUN_EQUAL ? r | RUN_MULTIPLE : r;
}

static unsigned run_by(const Func *f, Ranges **ranges, const Value *v, int axis, int n)
{
    Runs c = { .f = f, .ranges = ranges, .n = n, .left = MOST_ASKED };
    return run_of(&c, v, axis);
}

bool kernel_counts_along(const Func *f, const Value *v, int axis, int n)
{
    Ranges *ranges = NULL;
    Runs c = { .f = f, .ranges = &ranges, .n = n, .left = MOST_ASKED, .anywhere = true };
    return run_of(&c, v, axis) & RUN_COUNTS;
}

static bool counts_on(Runs *, const Value *, int axis);

/* A sum of what counts and what is equal, or a difference. */
static bool sum_counts_on(Runs *c, const Instr *i, int axis)
{
    const Value *x = ir_operand(i, 0), *y = ir_operand(i, 1);
    if (dtype_bits(ir_result(i)->type->dtype) < 64 && !range_exact(*c->ranges, ir_result(i))) return false;
    if (run_of(c, y, axis) & RUN_EQUAL) return counts_on(c, x, axis);
    return i->op == OP_ADD && run_of(c, x, axis) & RUN_EQUAL && counts_on(c, y, axis);
}

static bool cast_counts_on(Runs *c, const Instr *i, int axis)
{
    const Value *x = ir_operand(i, 0);
    DType to = ir_result(i)->type->dtype;
    bool keeps = dtype_bits(to) == 64 || range_fits(range_of(*c->ranges, x), to);
    return keeps && dtype_is_int(to) && dtype_is_int(x->type->dtype) && counts_on(c, x, axis);
}

static bool counts_on(Runs *c, const Value *v, int axis)
{
    const Instr *i = v->def;
    if (axis == ALONG_NONE || v->type->kind != TYPE_TILE || v->type->shape[axis] == 1) return false;
    if (!i || --c->left < 0) return false;
    if (run_of(c, v, axis) & RUN_COUNTS || i->op == OP_ARANGE) return true;
    if (i->op == OP_ADD || i->op == OP_SUB) return sum_counts_on(c, i, axis);
    if (i->op == OP_CAST) return cast_counts_on(c, i, axis);
    bool split = i->op == OP_RESHAPE && position_axis(ir_operand(i, 0)->type, v->type, 0) == -2;
    bool shape = (i->op == OP_RESHAPE && !split) || i->op == OP_BROADCAST || i->op == OP_PERMUTE;
    if (!shape && i->op != OP_CONVERT && i->op != OP_MATERIALIZE && i->op != OP_OPAQUE) return false;
    return counts_on(c, ir_operand(i, 0), shape ? axis_before(i, axis) : axis);
}

bool kernel_counts_on(const Func *f, Ranges **ranges, const Value *v, int axis, int n)
{
    Runs c = { .f = f, .ranges = ranges, .n = n, .left = MOST_ASKED };
    if (!*ranges) *ranges = ranges_new(f);
    return dtype_is_int(v->type->dtype) && counts_on(&c, v, axis);
}

unsigned kernel_run(const Func *f, const Value *v, int axis, int n)
{
    Ranges *ranges = NULL;
    return run_by(f, &ranges, v, axis, n);
}

/* Whether runs of n elements along the axis lie side by side in memory, each wholly in range or wholly out of
 * range, and masked alike. */
static bool lies_in_runs(const Func *f, Ranges **ranges, const MemParts *m, int unit, int axis, int n)
{
    const Param *p = &f->params[m->param];
    const Dim *d = &f->dims[p->dims[unit]];
    int bytes = dtype_bytes(p->type->dtype);
    if (p->align % (n * bytes) || (d->extent >= 0 ? d->extent : d->div) % n) return false;
    for (int a = 0; a < m->rank; a++) {
        if (a != unit && ir_row_step(f, p, a) % n) return false;
        if (!(run_by(f, ranges, m->idx[a], axis, n) & (a == unit ? RUN_COUNTS : RUN_EQUAL))) return false;
    }
    return !m->mask || run_by(f, ranges, m->mask, axis, n) & RUN_EQUAL;
}

int kernel_indexed_run(const Func *f, Ranges **ranges, const Instr *i, int *axis)
{
    MemParts m;
    int unit = -1;
    if (!ir_mem_parts(i, &m)) return 1;
    const Type *t = m.result ? m.result->type : m.values[0]->type;
    const Param *p = &f->params[m.param];
    for (int a = 0; a < m.rank; a++)
        if (p->stride[a] == 1) unit = a;
    if (t->kind != TYPE_TILE || unit < 0 || p->type->dtype == DT_BOOL) return 1;
    for (int n = 16 / dtype_bytes(p->type->dtype); n > 1; n /= 2)
        for (*axis = t->rank - 1; *axis >= 0; --*axis)
            if (t->shape[*axis] % n == 0 && lies_in_runs(f, ranges, &m, unit, *axis, n)) return n;
    return 1;
}

enum { MOST_ALIKE = 16 };

int kernel_alike_run(const Func *f, Ranges **ranges, const Instr *i, int *axis)
{
    MemParts m;
    if (i->op != OP_GATHER || !ir_mem_parts(i, &m) || m.mask || m.result->type->kind != TYPE_TILE) return 1;
    *axis = m.result->type->rank - 1;
    for (int n = MOST_ALIKE; n > 1; n /= 2) {
        bool alike = true;
        for (int a = 0; a < m.rank && alike; a++)
            alike = m.idx[a]->type->kind != TYPE_TILE || run_by(f, ranges, m.idx[a], *axis, n) & RUN_EQUAL;
        if (alike) return n;
    }
    return 1;
}

/* Whether each element is computed from its coordinates and numbers of the program, so that it is known
 * without a register that holds it. */
static bool of_coordinates(Runs *c, const Value *v)
{
    const Instr *i = v->def;
    if (v->type->kind == TYPE_SCALAR) return true;
    if (!i || --c->left < 0 || !dtype_is_int(v->type->dtype)) return false;
    if (i->op == OP_ARANGE || i->op == OP_SPLAT) return true;
    bool split = i->op == OP_RESHAPE && position_axis(ir_operand(i, 0)->type, v->type, 0) == -2;
    bool places = (i->op == OP_RESHAPE && !split) || i->op == OP_BROADCAST || i->op == OP_PERMUTE;
    if (!places && i->op != OP_CAST && !op_has(i->op, OPF_ELEM | OPF_CHEAP)) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!of_coordinates(c, ir_operand(i, k))) return false;
    return true;
}

/* Whether elements along the axis count by ones from whatever the first one is, if none of them wraps. */
static bool counts_from(Runs *c, const Value *v, int axis)
{
    const Instr *i = v->def;
    if (!i || v->type->kind != TYPE_TILE || axis == ALONG_NONE || v->type->shape[axis] == 1 || --c->left < 0)
        return false;
    const Value *a = i->n_operands ? ir_operand(i, 0) : NULL,
                *b = i->n_operands > 1 ? ir_operand(i, 1) : NULL;
    if (i->op == OP_ARANGE) return true;
    if (i->op == OP_BROADCAST) return counts_from(c, a, axis);
    if (i->op == OP_RESHAPE) {
        for (int k = 0; k < a->type->rank; k++)
            if (position_axis(a->type, v->type, k) == axis) return counts_from(c, a, k);
        return false;
    }
    if (i->op == OP_CAST)
        return dtype_is_int(a->type->dtype) && dtype_bits(a->type->dtype) <= dtype_bits(v->type->dtype) &&
               counts_from(c, a, axis);
    if (i->op != OP_ADD && i->op != OP_SUB) return false;
    if (counts_from(c, a, axis) && run_of(c, b, axis) & RUN_EQUAL) return true;
    return i->op == OP_ADD && counts_from(c, b, axis) && run_of(c, a, axis) & RUN_EQUAL;
}

/* The divisor of a quotient that grows by one at most once among n elements: a constant of at least n, of
 * a number that counts, is computed from coordinates, is never negative, and does not wrap behind the last
 * element either. 0: it is none. */
static int64_t steps_by(Runs *c, const Instr *i)
{
    int64_t by;
    const Value *v = i->n_operands ? ir_operand(i, 0) : NULL;
    if ((i->op != OP_DIV && i->op != OP_SHR) || !dtype_is_int(v->type->dtype) ||
        !ir_is_const(ir_operand(i, 1), &by))
        return 0;
    if (i->op == OP_SHR) by = by >= 0 && by < 31 ? (int64_t)1 << by : 0;
    if (by < 1 || by > INT32_MAX || !not_negative(c, v) || !counts_from(c, v, c->axis)) return 0;
    if (!of_coordinates(c, v)) return 0;
    return range_of(*c->ranges, v).hi < INT32_MAX / 2 ? by : 0;
}

/* The quotient that makes an index differ, behind operations by element. NULL: none is found. */
static const Instr *quotient_in(Runs *c, const Value *v, const Type *shape)
{
    const Instr *i = v->def, *found = NULL;
    if (!i || v->type->kind != TYPE_TILE || v->type->rank != shape->rank || --c->left < 0) return NULL;
    for (int a = 0; a < shape->rank; a++)
        if (v->type->shape[a] != shape->shape[a]) return NULL;
    if (steps_by(c, i)) return i;
    bool passes = op_is_elementwise(i->op) || i->op == OP_CONVERT;
    for (int k = 0; passes && k < i->n_operands && !found; k++)
        found = quotient_in(c, ir_operand(i, k), shape);
    return found;
}

GatherStep kernel_gather_step(const Func *f, Ranges **ranges, const Instr *i, int n)
{
    const GatherStep none = { 0 };
    MemParts m;
    if (i->op != OP_GATHER || !ir_mem_parts(i, &m) || m.mask || m.token ||
        m.result->type->kind != TYPE_TILE || !m.result->type->rank || m.result->type->dtype == DT_BOOL)
        return none;
    const Type *t = m.result->type;
    Runs c = { .f = f, .ranges = ranges, .axis = t->rank - 1, .n = n, .left = MOST_ASKED };
    for (int a = 0; a < m.rank && !c.step; a++) c.step = quotient_in(&c, m.idx[a], t);
    if (!c.step) return none;
    for (int a = 0; a < m.rank; a++)
        if (m.idx[a]->type->kind == TYPE_TILE && !(run_of(&c, m.idx[a], c.axis) & RUN_EQUAL)) return none;
    return (GatherStep){ ir_operand(c.step, 0), steps_by(&c, c.step) };
}

/* The position along the contiguous axis of a gather of words of a tensor that is only read, where it is a
 * constant that is within the tensor, whatever the row. */
static bool gathers_word(const Func *f, const Instr *i, MemParts *m, int64_t *at)
{
    enum { WORD = 4 };
    if (!i || i->op != OP_GATHER || !ir_mem_parts(i, m) || m->token || m->result->type->kind != TYPE_TILE)
        return false;
    const Param *p = &f->params[m->param];
    const Value *last = ir_last_index(m);
    if (!last) return false;
    if (last->def && last->def->op == OP_SPLAT) last = ir_operand(last->def, 0);
    return p->kind == PARAM_IN && dtype_bytes(p->type->dtype) == WORD && ir_last_is_unit(f, m) &&
           ir_is_const(last, at) && *at >= 0 && *at < f->dims[p->dims[m->rank - 1]].extent;
}

/* Whether b gathers the word behind that of a, of the same records. */
static bool gathers_next(const Func *f, const Instr *a, const Instr *b)
{
    MemParts x, y;
    int64_t at, next;
    if (!gathers_word(f, a, &x, &at) || !gathers_word(f, b, &y, &next)) return false;
    bool same = next == at + 1 && x.param == y.param && x.mask == y.mask && x.pad == y.pad &&
                x.result->type == y.result->type;
    for (int k = 0; k < x.rank - 1 && same; k++) same = x.idx[k] == y.idx[k];
    return same;
}

bool kernel_gathers_threes(const Func *f, const Instr *i, const Instr *of[GATHERED_WORDS])
{
    int before = 0;
    const Instr *first = i;
    while (gathers_next(f, first->prev, first)) {
        first = first->prev;
        before++;
    }
    for (first = i, before %= GATHERED_WORDS; before > 0; before--) first = first->prev;
    for (int k = 0; k < GATHERED_WORDS; k++, first = first->next) {
        of[k] = first;
        if (k + 1 < GATHERED_WORDS && !gathers_next(f, first, first->next)) return false;
    }
    return true;
}
