/* divisibility: proves facts from ranges, divisors and the bounds of the grid, without changing the
 * program's structure.
 *
 *   dim M div 128 ; grid (cdiv(M, 128))
 *   %o = mul (program_id 0), 128
 *   load %X[%o, ..] {extents = [128, ..]}     ->   load .. {masked = 0}   128*(cdiv(M, 128) - 1) + 127 < M
 *   %c = lt (%o + arange 128), (splat M)      ->   true
 *   %r = rem (mul %j, 64), 64                 ->   0
 *
 * A load or store whose window lies inside the tensor gets `masked = 0`, and `inside` with the axes along
 * which it does if it does not along all. Where the inner axis is known to
 * be contiguous (stride 1), it also gets `align`, the bytes that the address of each row of the window is
 * a multiple of. Comparisons and selects of integers that have one outcome for all elements, minima and
 * maxima that ranges decide, and quotients and remainders that divisors decide are replaced by their
 * outcome.
 *
 * Requires: nothing; specialize before it provides constants. Keeps: everything. Does not handle: what
 * holds in some iterations only (mask_peel.c). */
#include "passes/tile/analysis/affine.h"

typedef struct Divisibility {
    PassContext *c;
    Func *f;
    Facts *facts;
    int64_t unmasked, aligned, compares, decided;
    bool progress;
} Divisibility;

/* Along how many axes the window lies inside the tensor, and along which. */
static int axes_inside(Divisibility *d, const Instr *i, int rank, int64_t *inside)
{
    int n = 0;
    for (int a = 0; a < rank; a++) {
        Affine low, high;
        inside[a] = window_forms(d->facts, i, a, &low, &high) && prove_nonneg(d->facts, &low) &&
                    prove_nonneg(d->facts, &high);
        n += inside[a] != 0;
    }
    return n;
}

static void visit_place(Divisibility *d, Instr *i, int rank)
{
    int64_t inside[TILE_MAX_RANK];
    const Attr *known = ir_attr(i, ATTR_INSIDE);
    if (!ir_attr_int(i, ATTR_MASKED, 1)) return;
    int n = axes_inside(d, i, rank, inside);
    if (n == rank) {
        ir_del_attr(i, ATTR_INSIDE);
        ir_set_attr(d->c->session, i, a_int(ATTR_MASKED, 0));
        d->unmasked++;
        d->progress = true;
    } else if (n && !(known && !memcmp(known->v, inside, sizeof *inside * (size_t)rank))) {
        ir_set_attr(d->c->session, i, a_ints(ATTR_INSIDE, inside, rank));
        d->progress = true;
    }
}

/* The largest power of two, up to 128 bytes, that divides the address of every row; 0 without a contiguous
 * axis. */
static int64_t row_alignment(Divisibility *d, const Instr *i, const MemParts *p)
{
    const Param *q = &d->f->params[p->param];
    const Attr *extents = ir_attr(i, ATTR_EXTENTS), *steps = ir_attr(i, ATTR_STEPS);
    int64_t bytes = dtype_bytes(q->type->dtype), all = q->align;
    int inner = -1;
    for (int a = 0; a < p->rank; a++)
        if (q->stride[a] == 1) inner = a;
    if (inner < 0) return 0;
    for (int a = 0; a < p->rank; a++) {
        int64_t stride = ir_row_step(d->f, q, a), off = value_range(d->facts, p->idx[a]).div, unit;
        if (a != inner && extents->v[a] > 1) off = range_gcd(off, steps ? steps->v[a] : 1);
        if (__builtin_mul_overflow(off, stride, &unit) || __builtin_mul_overflow(unit, bytes, &unit))
            unit = bytes;
        all = range_gcd(all, unit);
    }
    int64_t align = 1;
    while (align < 128 && all % (2 * align) == 0) align *= 2;
    return align;
}

static void visit_window(Divisibility *d, Instr *i)
{
    MemParts p;
    if (!ir_mem_parts(i, &p)) return;
    visit_place(d, i, p.rank);
    int64_t align = row_alignment(d, i, &p);
    if (align > ir_attr_int(i, ATTR_ALIGN, 0)) {
        ir_set_attr(d->c->session, i, a_int(ATTR_ALIGN, align));
        d->aligned += align >= 16;
        d->progress = true;
    }
}

static void become(Divisibility *d, Instr *i, Value *v)
{
    replace_value(&i->results[0], v);
    d->progress = true;
}

/* The comparison holds for all elements, or for none. */
static void visit_compare(Divisibility *d, Instr *i)
{
    static const struct {
        Op op, opposite;
    } opposites[] = { { OP_LT, OP_GE }, { OP_LE, OP_GT }, { OP_GT, OP_LE }, { OP_GE, OP_LT } };
    Affine form;
    int verdict = -1;
    if (compare_form(d->facts, i, &form) && prove_nonneg(d->facts, &form)) verdict = 1;
    for (size_t k = 0; verdict < 0 && k < 4; k++) {
        if (opposites[k].op != i->op) continue;
        Instr other = *i; /* only read */
        other.op = opposites[k].opposite;
        if (compare_form(d->facts, &other, &form) && prove_nonneg(d->facts, &form)) verdict = 0;
    }
    if (verdict < 0) return;
    Builder b = ir_before(i);
    become(d, i, build_int(&b, i->results[0].type, verdict));
    d->compares++;
}

static bool never_less(Divisibility *d, Value *a, Value *b)
{
    Affine x, y;
    return affine_of(d->facts, a, &x) && affine_of(d->facts, b, &y) && affine_add(&x, &y, -1) &&
           affine_least(&x, a->type) && prove_nonneg(d->facts, &x);
}

/* The quotient x / y, or NULL. */
static Value *decide_quotient(Divisibility *d, Builder *b, Instr *i, RangeInfo rx, RangeInfo ry)
{
    Value *x = ir_operand(i, 0), *y = ir_operand(i, 1);
    int64_t c;
    if (rx.lo >= 0 && ry.lo > rx.hi) return build_int(b, i->results[0].type, 0);
    if (!ir_is_const(y, &c) || c <= 0 || !x->def || x->def->op != OP_MUL ||
        !ir_is_const(ir_operand(x->def, 1), &ry.lo) || ry.lo % c != 0)
        return NULL;
    RangeInfo t = range_of_dtype(x->type->dtype),
              f = value_range(d->facts, ir_operand(x->def, 0)); /* (u * m) / c, not wrapped */
    __int128 lo = (__int128)f.lo * ry.lo, hi = (__int128)f.hi * ry.lo;
    if (lo < t.lo || hi < t.lo || lo > t.hi || hi > t.hi) return NULL;
    return ir_bin(b, OP_MUL, ir_operand(x->def, 0), build_int(b, x->type, ry.lo / c));
}

static Value *decide(Divisibility *d, Builder *b, Instr *i)
{
    Value *x = ir_operand(i, 0), *y = i->n_operands > 1 ? ir_operand(i, 1) : x;
    RangeInfo rx = value_range(d->facts, x), ry = value_range(d->facts, y);
    if (i->op == OP_MIN) return never_less(d, y, x) ? x : never_less(d, x, y) ? y : NULL;
    if (i->op == OP_MAX) return never_less(d, x, y) ? x : never_less(d, y, x) ? y : NULL;
    if (i->op == OP_ABS) return rx.lo >= 0 ? x : NULL;
    if (i->op == OP_REM) {
        if (ry.lo == ry.hi && ry.lo > 0 && rx.div % ry.lo == 0) return build_int(b, i->results[0].type, 0);
        return rx.lo >= 0 && ry.lo > rx.hi ? x : NULL;
    }
    return i->op == OP_DIV ? decide_quotient(d, b, i, rx, ry) : NULL;
}

static void visit(void *user, Instr *i)
{
    Divisibility *d = user;
    if (i->op == OP_LOAD || i->op == OP_STORE) {
        visit_window(d, i);
        return;
    }
    if (!(op_info[i->op].flags & OPF_ELEM) || !ir_is_used(i)) return;
    const Type *t = ir_operand(i, 0)->type;
    if (!dtype_is_int(t->dtype) || t->dtype == DT_U64) return;
    if (i->op == OP_LT || i->op == OP_LE || i->op == OP_GT || i->op == OP_GE) {
        visit_compare(d, i);
        return;
    }
    if (i->n_operands > 2) return;
    Builder b = ir_before(i);
    Value *v = i->n_operands == 2 || i->op == OP_ABS ? decide(d, &b, i) : NULL;
    if (v) {
        become(d, i, v);
        d->decided++;
    }
}

static bool divisibility_func(PassContext *c, Func *f)
{
    Divisibility d = { c, f, facts_new(c->scratch, f) };
    ir_walk(f->body, visit, &d);
    pass_count(c, "accesses proven in range", d.unmasked);
    pass_count(c, "accesses with 16 bytes of alignment", d.aligned);
    pass_count(c, "comparisons decided", d.compares);
    pass_count(c, "operations decided", d.decided);
    return d.progress;
}

bool pass_divisibility(PassContext *c, Module *m) { return pass_each_func(c, m, divisibility_func); }
