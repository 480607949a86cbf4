/* repeated-rows: a gather whose index is a position divided by a constant reads the same row for several
 * neighbouring elements. The pass loads each row once, as a window, and repeats it in registers.
 *
 *   %at = splat (mul %k, 64) + arange : [64]           %l = load W[%k * 64 / 8, %j] {extents = [8, 128]}
 *   %q = div %at, 8                              ->    %c = reshape %l : [8, 1, 128]
 *   %w = gather W[%q[:, None], %j + arange]            %r = broadcast %c : [8, 8, 128]
 *     : u32[64, 128]                                   %w = reshape %r : u32[64, 128]
 *
 * Kernels read words that pack several weights in this way, and scales of groups. In contrast to a gather, a
 * load of a window can be copied to shared memory ahead of time, reads each element once, and has scalar
 * positions.
 *
 * The pass accepts an index of the form first + t or (first + t) / c, where t is one coordinate of the tile,
 * c is a constant, and first is linear in scalars and proven to be at least 0. With n elements along t, the
 * window has n / c rows if c divides first and n, and one row if n divides first and c. Each axis of the
 * tensor uses a coordinate of its own, or none; then it has one position. Where all axes have one, as where a
 * tile lies within a block of scales, a scalar is loaded.
 *
 * Requires: a function with products, because their operands wait for loads; no mask, no token and no cache
 * hint. Keeps: everything. An index is out of range exactly if its row of the window is, and both forms then
 * give the pad. Does not handle: gathers without a quotient (gather-windows and the emitter handle these);
 * tiles that begin or end within a run of equal indices. */
#include "passes/tile/analysis/affine.h"

typedef struct Rows {
    PassContext *c;
    Facts *facts;
    ValueList divided; /* the numerators of the indices that became windows */
    int64_t made;
} Rows;

/* The index of one axis of the tensor: (first + t) / divisor, where t is the coordinate of axis `lane` of the
 * tile. lane -1: there is no t. */
typedef struct Along {
    Affine first;
    int lane;
    int64_t divisor;
    int64_t rows; /* of the window along this axis; 1: the index is the same everywhere */
} Along;

/* Looks through broadcasts and reshapes for the division that the index consists of, or returns NULL. Fills
 * axis[]: to which axis of `v` each axis of the quotient has moved. */
static const Instr *quotient_of(const Value *v, int *axis)
{
    for (int a = 0; a < TILE_MAX_RANK; a++) axis[a] = a;
    while (v->type->kind == TYPE_TILE && v->def && (v->def->op == OP_BROADCAST || v->def->op == OP_RESHAPE)) {
        const Value *from = ir_operand(v->def, 0);
        int to[TILE_MAX_RANK], t = 0;
        if (from->type->kind != TYPE_TILE) return NULL;
        for (int f = 0; f < from->type->rank; f++) {
            if (v->def->op == OP_BROADCAST) t = f;
            while (v->def->op == OP_RESHAPE && from->type->shape[f] != 1 && t < v->type->rank &&
                   v->type->shape[t] == 1)
                t++;
            bool one = from->type->shape[f] == 1;
            if (!one && (t == v->type->rank || v->type->shape[t] != from->type->shape[f])) return NULL;
            to[f] = one ? -1 : axis[t++];
        }
        memcpy(axis, to, sizeof *to * (size_t)from->type->rank);
        v = from;
    }
    return v->def && v->def->op == OP_DIV ? v->def : NULL;
}

/* Whether the form is a multiple of n in every program and iteration. */
static bool is_multiple(Rows *x, const Affine *first, int64_t n)
{
    if (first->constant % n) return false;
    for (int k = 0; k < first->n; k++) {
        int64_t div = value_range(x->facts, first->terms[k].atom).div;
        if (div && range_gcd(div, n) * range_gcd(first->terms[k].coef, n) % n) return false;
    }
    return true;
}

/* Reads the index of one axis of the tensor into `d`. False: it has another form. */
static bool along(Rows *x, Value *index, Along *d)
{
    int axis[TILE_MAX_RANK];
    const Instr *quotient = quotient_of(index, axis);
    Value *form = quotient ? ir_operand(quotient, 0) : index;
    int64_t c = 1;
    if (quotient && (!ir_is_const(ir_operand(quotient, 1), &c) || c < 1)) return false;
    if (!affine_of(x->facts, form, &d->first)) return false;
    *d = (Along){ d->first, -1, c, 1 };
    for (int a = 0; a < (form->type->kind == TYPE_TILE ? form->type->rank : 0); a++) {
        int64_t slope = d->first.lane[a];
        d->first.lane[a] = 0;
        if (form->type->shape[a] == 1 || !slope) continue;
        if (slope != 1 || d->lane >= 0) return false;
        d->lane = quotient ? axis[a] : a;
        d->rows = form->type->shape[a];
    }
    if (c == 1) return true;
    vec_push(x->c->scratch, &x->divided, form);
    int64_t n = d->rows;
    if (!prove_nonneg(x->facts, &d->first)) return false;
    if (n % c == 0 && is_multiple(x, &d->first, c)) d->rows = n / c;
    else if (c % n == 0 && is_multiple(x, &d->first, n)) d->rows = 1;
    else return false;
    return true;
}

/* The window's position along an axis. */
static Value *position(Builder *b, const Along *d)
{
    Value *first = affine_emit(b, &d->first);
    return d->divisor == 1 ? first : ir_bin(b, OP_DIV, first, ir_const_int(b, DT_INDEX, d->divisor));
}

static Value *load_rows(Rows *x, Builder *b, const MemParts *m, const Along *d)
{
    Value *operands[TILE_MAX_RANK + 2] = { m->tensor };
    int64_t extents[TILE_MAX_RANK];
    int n = 1;
    for (int a = 0; a < m->rank; a++) {
        operands[n++] = position(b, &d[a]);
        extents[a] = d[a].rows > 1 ? d[a].rows : -1;
    }
    Attr attrs[2] = { a_ints(ATTR_EXTENTS, extents, m->rank), a_int(ATTR_HAS_PAD, 1) };
    if (m->pad) operands[n++] = m->pad;
    x->made++;
    return ir_emit(b, OP_LOAD, operands, n, (Attrs){ attrs, m->pad ? 2 : 1 }, NULL);
}

/* The window with its axes in the order in which the tile has them. of: the axis of the tensor of each axis
 * of the tile, or -1. */
static Value *in_order(Builder *b, Value *window, int rank, const Along *d, const int *of)
{
    int64_t order[TILE_MAX_RANK];
    int n = 0;
    bool moved = false;
    for (int t = 0; t < rank; t++) {
        if (of[t] < 0 || d[of[t]].rows == 1) continue;
        int64_t at = 0;
        for (int a = 0; a < of[t]; a++) at += d[a].rows > 1;
        moved |= at != n;
        order[n++] = at;
    }
    return moved ? ir_op(b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, order, n)), window) : window;
}

static Value *shaped(Builder *b, Op op, Value *v, int rank, const int64_t *shape)
{
    const Type *t = v->type;
    bool same = t->kind == TYPE_TILE && t->rank == rank;
    for (int a = 0; a < rank && same; a++) same = t->shape[a] == shape[a];
    return same ? v : ir_op(b, op, type_tile(b->module->session, t->dtype, rank, shape), NO_ATTRS, v);
}

/* Makes the gathered tile from the window: repeats each row, then the whole along axes of the tile that no
 * index uses. */
static Value *repeated(Builder *b, Value *window, const Type *t, const Along *d, const int *of)
{
    int64_t single[TILE_MAX_RANK], many[TILE_MAX_RANK], whole[TILE_MAX_RANK];
    int n = 0;
    for (int a = 0; a < t->rank; a++) {
        int64_t rows = of[a] < 0 ? 1 : d[of[a]].rows;
        whole[a] = rows == 1 ? 1 : t->shape[a];
        single[n] = many[n] = rows;
        n++;
        if (whole[a] == rows) continue;
        single[n] = 1;
        many[n++] = whole[a] / rows;
    }
    Value *v = shaped(b, OP_RESHAPE, window, n, single);
    v = shaped(b, OP_RESHAPE, shaped(b, OP_BROADCAST, v, n, many), t->rank, whole);
    return shaped(b, OP_BROADCAST, v, t->rank, t->shape);
}

static void visit(void *user, Instr *i)
{
    Rows *x = user;
    MemParts m;
    Along d[TILE_MAX_RANK];
    int of[TILE_MAX_RANK], axes = 0, windows = 0;
    bool quotient = false;
    if (i->op != OP_GATHER || !ir_mem_parts(i, &m) || m.mask || m.token || ir_attr(i, ATTR_CACHE)) return;
    const Type *t = m.result->type;
    size_t known = x->divided.len;
    for (int a = 0; a < TILE_MAX_RANK; a++) of[a] = -1;
    for (int a = 0; a < m.rank; a++) {
        if (!along(x, m.idx[a], &d[a])) {
            x->divided.len = known;
            return;
        }
        quotient |= d[a].divisor > 1;
        windows += d[a].rows > 1;
        axes += d[a].rows > 1 && d[a].divisor > 1;
        if (d[a].lane < 0) continue;
        if (of[d[a].lane] >= 0) return;
        of[d[a].lane] = a;
    }
    if (!quotient || t->rank + axes > TILE_MAX_RANK) return;
    Builder b = ir_before(i);
    b.loc = i->loc;
    Value *window = load_rows(x, &b, &m, d);
    if (windows) window = in_order(&b, window, t->rank, d, of);
    ir_set_name(window, m.result->name);
    replace_value(
        m.result, windows ? repeated(&b, window, t, d, of) : ir_splat(&b, window, t->rank, t->shape));
}

/* Where the numerator of such an index also has a remainder taken of it (the place of a weight in its word),
 * drops a term that is a multiple of the divisor: rem(64 * k + t, 8) becomes rem(t, 8), which no loop
 * changes. */
static void visit_remainder(void *user, Instr *i)
{
    Rows *x = user;
    int64_t c;
    size_t n = 0;
    if (i->op != OP_REM || !ir_is_const(ir_operand(i, 1), &c) || c < 1) return;
    while (n < x->divided.len && x->divided.data[n] != ir_operand(i, 0)) n++;
    Instr *sum = ir_operand(i, 0)->def;
    if (n == x->divided.len || !sum || sum->op != OP_ADD || !multiplies_exactly(x->facts, sum)) return;
    for (int k = 0; k < 2; k++) {
        RangeInfo multiple = value_range(x->facts, ir_operand(sum, k)),
                  rest = value_range(x->facts, ir_operand(sum, 1 - k));
        if (multiple.lo < 0 || rest.lo < 0 || multiple.div % c) continue;
        Builder b = ir_before(i);
        replace_value(ir_result(i), ir_bin(&b, OP_REM, ir_operand(sum, 1 - k), ir_operand(i, 1)));
        return;
    }
}

static bool repeated_rows_func(PassContext *c, Func *f)
{
    Rows x = { .c = c };
    if (!ir_holds(f->body, OP_MMA)) return false;
    x.facts = facts_new(c->scratch, f);
    ir_walk(f->body, visit, &x);
    if (x.made) ir_walk(f->body, visit_remainder, &x);
    pass_count(c, "gathers turned into loads of repeated rows", x.made);
    return x.made > 0;
}

bool pass_repeated_rows(PassContext *c, Module *m) { return pass_each_func(c, m, repeated_rows_func); }
