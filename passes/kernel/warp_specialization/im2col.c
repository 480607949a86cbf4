/* im2col.c: of warp-specialization: windows whose rows are consecutive pixels of images.
 *
 *   %n = %begin + arange;  %x = load X[%n / (P*Q), %n / Q % P * 2 + %r - 1, %n % Q * 2 + %s - 1, %c]
 *
 * Rows of %x are pixels of a box of the tensor, counted along its axes, from pixel %begin on: they run over
 * the ends of rows and images. TMA's im2col mode loads them in one copy (PTX ISA 5.5.4): the tensor map holds
 * the box, which the first and last pixel bound along each axis, and the distances of pixels; an instruction
 * says where the first row is, how many channels to skip, and what the tap (%r, %s) adds to each position.
 *
 * Here tiles of positions are taken apart: the digits of the number of the pixel, each times the distance of
 * pixels, plus scalars. */
#include "passes/kernel/warp_specialization/warp_specialization.h"

enum { DEEP = 12 }; /* operations that are taken apart */

/* at / by % count * step + the sum of scalars; count 0: without the remainder. */
typedef struct Digit {
    Value *at;
    int axis; /* of `at`, along which it counts; -1: none corresponds to the axis that was asked for */
    int64_t by, count, step;
    Value *more[IM2COL_SUMMANDS];
    int n;
} Digit;

static bool is_integer_tile(const Value *v)
{ return v->type->kind == TYPE_TILE && dtype_is_int(v->type->dtype); }

/* The axis of the operand that becomes `axis` of the result of an operation that bare_tile looks through. */
static int axis_before(const Instr *i, int axis)
{
    const Type *from = ir_operand(i, 0)->type, *to = ir_result(i)->type;
    if (axis < 0 || i->op == OP_CAST) return axis;
    if (i->op == OP_RESHAPE) return kernel_axis_before(i, axis);
    return from->rank == to->rank && from->shape[axis] == to->shape[axis] ? axis : -1;
}

/* The tile before operations that move its elements along axes of extent 1 or repeat them, and before casts
 * that change no number; *axis follows, where it is given. */
static Value *bare_tile(Ranges *r, Value *v, int *axis)
{
    for (Instr *i = v->def; i && is_integer_tile(v) && i->n_operands; i = v->def) {
        Value *from = ir_operand(i, 0);
        bool moves = i->op == OP_BROADCAST || i->op == OP_RESHAPE,
             same = i->op == OP_CAST && range_fits(range_of(r, from), v->type->dtype);
        if (!is_integer_tile(from) || (!moves && !same)) break;
        if (axis) *axis = axis_before(i, *axis);
        v = from;
    }
    return v;
}

/* The scalar that every element of the tile is; NULL: they differ. */
static Value *scalar_in(Ranges *r, Value *v)
{
    v = bare_tile(r, v, NULL);
    return v->def && (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST) &&
                   ir_operand(v->def, 0)->type->kind == TYPE_SCALAR
               ? ir_operand(v->def, 0)
               : NULL;
}

static bool constant_in(Ranges *r, Value *v, int64_t *n)
{
    Value *s = scalar_in(r, v);
    return s && ir_is_const(s, n) && *n >= 1;
}

static bool take_digit(Ranges *r, Value *v, Digit *d, int depth);

static bool take_sum(Ranges *r, Instr *i, Digit *d, int depth)
{
    for (int k = 0; k < 2; k++) {
        Value *more = scalar_in(r, ir_operand(i, 1 - k));
        if (!more) continue;
        if (d->n == IM2COL_SUMMANDS) return false;
        d->more[d->n++] = more;
        return take_digit(r, ir_operand(i, k), d, depth + 1);
    }
    return false;
}

static bool take_product(Ranges *r, Instr *i, Digit *d, int depth)
{
    for (int k = 0; k < 2; k++)
        if (constant_in(r, ir_operand(i, k), &d->step))
            return take_digit(r, ir_operand(i, 1 - k), d, depth + 1);
    return false;
}

/* Takes apart a tile of positions: scalars that are added, a factor, a remainder, quotients, in this order.
 * at % (by * count) / by is at / by % count. */
static bool take_digit(Ranges *r, Value *v, Digit *d, int depth)
{
    int64_t n;
    v = bare_tile(r, v, &d->axis);
    Instr *i = v->def;
    if (!i || !is_integer_tile(v) || depth > DEEP) return false;
    bool whole = !d->count && d->by == 1; /* no remainder or quotient is around it */
    if (i->op == OP_ADD && whole && d->step == 1 && range_exact(r, v) && take_sum(r, i, d, depth))
        return true;
    if (i->op == OP_MUL && whole && d->step == 1 && range_exact(r, v) && take_product(r, i, d, depth))
        return true;
    if (i->op == OP_REM && !d->count && constant_in(r, ir_operand(i, 1), &n) && n % d->by == 0) {
        d->count = n / d->by;
        return take_digit(r, ir_operand(i, 0), d, depth + 1);
    }
    if (i->op == OP_DIV && constant_in(r, ir_operand(i, 1), &n) && !__builtin_mul_overflow(d->by, n, &d->by))
        return take_digit(r, ir_operand(i, 0), d, depth + 1);
    d->at = v;
    return range_of(r, v).lo >= 0;
}

/* What instructions and tensor maps hold of each of so many axes of pixels (CUDA driver API,
 * cuTensorMapEncodeIm2col; PTX ISA 9.7.9.27): corners from -room to room - 1, offsets below 2 * room. */
static int64_t room_of(int axes) { return axes == 1 ? 1 << 15 : axes == 2 ? 1 << 7 : 1 << 4; }

/* The axis of pixels that d counts, which follows those in p. */
static bool take_axis(const Func *f, Ranges *r, const Param *q, int axis, const Digit *d, int axes, Im2col *p)
{
    PixelAxis *x = &p->axes[p->n++];
    int64_t extent = f->dims[q->dims[axis]].extent, room = room_of(axes), most = 0;
    *x = (PixelAxis){ .axis = axis, .step = d->step, .count = d->count, .by = d->by, .n = d->n };
    memcpy(x->more, d->more, sizeof x->more);
    for (int k = 0; k < d->n; k++) {
        RangeInfo range = range_of(r, d->more[k]);
        if (range.lo < -room || range.hi >= 2 * room) return false;
        x->lower += range.lo;
        most += range.hi;
    }
    if (extent < 1 || extent > INT32_MAX || d->count > INT32_MAX || d->step > MOST_TMA_STEP) return false;
    x->upper = x->lower + (d->count - 1) * d->step - (extent - 1);
    return x->lower >= -room && x->lower < room && most - x->lower < 2 * room && x->upper >= -room &&
           x->upper < room;
}

/* The arange that the tile is, along this axis of it; NULL: it is none. */
static Instr *arange_along(Ranges *r, Value *v, int axis)
{
    v = bare_tile(r, v, &axis);
    return v->def && v->def->op == OP_ARANGE && !axis ? v->def : NULL;
}

/* Takes apart the tile of numbers that run on by ones along an axis: the first is *begin + *start. */
static bool take_run(Ranges *r, Value *v, int axis, Value **begin, int64_t *start)
{
    v = bare_tile(r, v, &axis);
    Instr *i = v->def, *run = NULL;
    *begin = NULL;
    if (i && i->op == OP_ADD && range_exact(r, v))
        for (int k = 0; k < 2 && !*begin; k++) {
            *begin = scalar_in(r, ir_operand(i, k));
            run = arange_along(r, ir_operand(i, 1 - k), axis);
        }
    else run = arange_along(r, v, axis);
    *start = run ? ir_attr_int(run, ATTR_START, 0) : 0;
    return run != NULL;
}

/* Whether the positions along the axes `picked` may be pixels, by the form of the access alone. */
static bool may_pick(const MemParts *m, uint32_t picked)
{ return !m->mask && !m->pad && m->rank >= 3 && m->rank <= 5 && __builtin_popcount(picked) == m->rank - 1; }

/* Takes apart the positions along the axes `picked`, which may be pixels. */
static bool take_pixels(const Func *f, Ranges *r, const MemParts *m, uint32_t picked, Im2col *p)
{
    Digit digits[TILE_MAX_RANK];
    Value *at = NULL;
    int64_t by = 1;
    int axis = 0;
    *p = (Im2col){ .batch = -1 };
    for (int a = 0; a < m->rank; a++) {
        if (!(picked >> a & 1)) continue;
        Digit *d = &digits[a];
        *d = (Digit){ .by = 1, .step = 1 };
        if (!take_digit(r, m->idx[a], d, 0) || (at && (d->at != at || d->axis != axis))) return false;
        at = d->at;
        axis = d->axis;
        if (!d->count && (p->batch >= 0 || d->n || d->step != 1)) return false;
        if (!d->count) p->batch = a;
    }
    if (!at || p->batch < 0) return false;
    while (p->n < m->rank - 2) {
        int next = 0;
        while (next < m->rank && !((picked >> next & 1) && digits[next].count && digits[next].by == by))
            next++;
        if (next == m->rank || !take_axis(f, r, &f->params[m->param], next, &digits[next], m->rank - 2, p) ||
            __builtin_mul_overflow(by, digits[next].count, &by))
            return false;
    }
    return digits[p->batch].by == by && take_run(r, at, axis, &p->begin, &p->start);
}

bool roles_im2col(Roles *c, const Instr *load, Im2col *p)
{
    MemParts m;
    uint32_t picked;
    if (kernel_parts(load, &picked) < 2 || !ir_mem_parts(load, &m)) return false;
    if (!may_pick(&m, picked)) return false;
    if (!c->ranges) c->ranges = ranges_new(c->f);
    return take_pixels(c->f, c->ranges, &m, picked, p);
}

bool kernel_pixels_in_order(const Func *f, const Instr *access, Im2col *p)
{
    MemParts m;
    int unit = -1;
    if ((access->op != OP_SCATTER && access->op != OP_GATHER) || !ir_mem_parts(access, &m)) return false;
    const Type *t = (access->op == OP_SCATTER ? m.values[0] : m.result)->type;
    if (t->kind != TYPE_TILE || t->rank != 2) return false;
    for (int a = 0; a < m.rank; a++)
        if (f->params[m.param].stride[a] == 1) unit = a;
    const uint32_t picked = unit < 0 ? 0 : ((1u << m.rank) - 1) & ~(1u << unit);
    if (unit < 0 || !may_pick(&m, picked)) return false;
    Ranges *r = ranges_new(f);
    if (!take_pixels(f, r, &m, picked, p) || p->batch > unit ||
        !take_run(r, m.idx[unit], 1, &p->column, &p->first_column))
        return false;
    for (int k = 0; k < p->n; k++)
        if (p->axes[k].step != 1 || p->axes[k].n || p->axes[k].lower || p->axes[k].upper) return false;
    p->unit = unit;
    return true;
}

static Value *plus(Builder *b, Value *v, int64_t n)
{ return n ? ir_bin(b, OP_ADD, v, ir_const_int(b, v->type->dtype, n)) : v; }

static Value *sum_of(Builder *b, Value *v, int64_t n)
{ return v ? plus(b, ir_cast(b, v, DT_INDEX), n) : ir_const_int(b, DT_INDEX, n); }

static Value *over(Builder *b, Op op, Value *v, int64_t n)
{ return n == 1 && op != OP_REM ? v : ir_bin(b, op, v, ir_const_int(b, v->type->dtype, n)); }

Attr roles_im2col_operands(Roles *c, Builder *b, const Im2col *p, Value **ops)
{
    int rank = p->n + 2;
    int64_t by = 1, *v = arena_array(&c->s->arena, int64_t, (size_t)(4 * p->n));
    Value *first = sum_of(b, p->begin, p->start);
    for (int k = 0; k < p->n; k++) {
        const PixelAxis *x = &p->axes[k];
        Value *digit = over(b, OP_REM, over(b, OP_DIV, first, x->by), x->count);
        ops[x->axis] = ir_cast(b, plus(b, over(b, OP_MUL, digit, x->step), x->lower), DT_I32);
        Value *tap = NULL;
        for (int m = 0; m < x->n; m++) {
            Value *more = ir_cast(b, x->more[m], DT_I32);
            tap = tap ? ir_bin(b, OP_ADD, tap, more) : more;
        }
        ops[rank + k] = tap ? plus(b, tap, -x->lower) : ir_const_int(b, DT_I32, 0);
        memcpy(v + 4 * k, (int64_t[]){ x->axis, x->step, x->lower, x->upper }, 4 * sizeof *v);
        by *= x->count;
    }
    ops[p->batch] = over(b, OP_DIV, first, by);
    return a_ints(ATTR_IM2COL, v, 4 * p->n);
}

/* The scatter as a store of a window whose rows are consecutive pixels: its offset along the axis of images
 * is the number of the first one. */
Instr *kernel_store_of_pixels(Session *s, Instr *scatter, const Im2col *p)
{
    MemParts m;
    ir_mem_parts(scatter, &m);
    Builder b = ir_before(scatter);
    b.loc = scatter->loc;
    const Type *t = m.values[0]->type, *token = type_token(s);
    Value *ops[3 + TILE_MAX_RANK] = { m.tensor };
    int64_t ext[TILE_MAX_RANK], *v = arena_array(&s->arena, int64_t, (size_t)(4 * p->n));
    for (int a = 0; a < m.rank; a++) {
        ext[a] = a == p->batch ? t->shape[0] : a == p->unit ? t->shape[1] : -1;
        ops[1 + a] = a == p->batch  ? sum_of(&b, p->begin, p->start)
                     : a == p->unit ? sum_of(&b, p->column, p->first_column)
                                    : ir_const_int(&b, DT_INDEX, 0);
    }
    for (int k = 0; k < p->n; k++) v[4 * k] = p->axes[k].axis, v[4 * k + 1] = 1;
    ops[1 + m.rank] = m.values[0];
    ops[2 + m.rank] = m.token;
    return ir_build_raw(&b, OP_STORE, ops, 3 + m.rank,
        ATTRS(a_ints(ATTR_EXTENTS, ext, m.rank), a_ints(ATTR_IM2COL, v, 4 * p->n)), &token, 1);
}
