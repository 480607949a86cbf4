/* index_ranges.c: the ranges from which `--in X=random:SEED` draws numbers. Whole numbers that a kernel uses
 * as indices are of the axes that they pick from, and as its asserts ask. Floats of which it takes roots or
 * logarithms are of 0 to 1, since others give NaN.
 *
 *     rows = gather(TABLE[load(ID[..]), ..])            ID is of 0 .. V - 1
 *     page = load(PAGES_OF[..]) * 16 + arange(16)       what is added and multiplied is taken off again
 *
 * The tile IR is followed from each index to the loads that it is made of, through casts, shapes, selects,
 * sums with values of known range, products with constants and the counters of loops. What loops carry is not
 * followed. Extents are those of the launch. A tensor of which nothing is found, or only what cannot be, is
 * drawn as without. Operands of roots and logarithms are followed through what gives no negative number of
 * numbers that are not negative: sums, products, quotients, maxima; a square asks nothing. */
#include "tools/tilec/run/interpret.h"
#include "tools/tilec/run/run.h"
#include "ir/analysis/range.h"

/* What the values of a tensor must be. */
typedef struct Wanted {
    int64_t lo, hi;
    bool found;
} Wanted;

typedef struct Search {
    const Func *f;
    Ranges *ranges;
    /* By parameter: what checked builds report, and windows, which are clipped, and count only where nothing
     * else is found. into: that of the two which the access at hand asks. */
    Wanted *must, *may, *into;
    bool *positive; /* by parameter: floats that must not be negative */
    bool *asked;    /* by value: want_positive has been there */
} Search;

enum { MOST_STEPS = 32 };

static void want(Search *s, const Value *v, int64_t lo, int64_t hi, int depth);

static void note(Wanted *w, int64_t lo, int64_t hi)
{
    if (!w->found) *w = (Wanted){ lo, hi, true };
    else if (lo <= w->hi && hi >= w->lo) { /* else both cannot be */
        if (lo > w->lo) w->lo = lo;
        if (hi < w->hi) w->hi = hi;
    }
}

static int64_t floored(int64_t a, int64_t b) { return a / b - (a % b && (a < 0) != (b < 0)); }

static int64_t moved(int64_t a, int64_t by)
{
    int64_t x;
    if (a == INT64_MIN || a == INT64_MAX) return a; /* no bound */
    return __builtin_add_overflow(a, by, &x) ? a : x;
}

static bool narrow(const RangeInfo *r) { return r->lo >= -(1ll << 30) && r->hi <= 1ll << 30; }

/* Of a + b or a - b: each is followed where the other one's range is known. */
static void want_of_sum(Search *s, const Instr *i, int64_t lo, int64_t hi, int depth)
{
    for (int k = 0; k < 2; k++) {
        const Value *x = ir_operand(i, k), *rest = ir_operand(i, 1 - k);
        RangeInfo r = range_of(s->ranges, rest);
        if (!narrow(&r) && i->op == OP_SUB) continue;
        if (!narrow(&r)) r = (RangeInfo){ 0 }; /* what is added to a place that memory tells begins at zero */
        if (i->op == OP_ADD) r = (RangeInfo){ .lo = -r.hi, .hi = -r.lo };
        if (i->op == OP_SUB && k == 1) { /* rest - x */
            want(s, x, hi == INT64_MAX ? INT64_MIN : r.hi - hi, lo == INT64_MIN ? INT64_MAX : r.lo - lo,
                depth);
            continue;
        }
        /* r has changed its sign. Where not all fits, the first does: masks may leave out the rest. */
        int64_t from = moved(lo, r.hi), to = moved(hi, r.lo), first = moved(hi, r.hi);
        want(s, x, from, from <= to ? to : first, depth);
    }
}

static void want_of_product(Search *s, const Instr *i, int64_t lo, int64_t hi, int depth)
{
    for (int k = 0; k < 2; k++) {
        RangeInfo r = range_of(s->ranges, ir_operand(i, 1 - k));
        if (r.lo != r.hi || r.lo <= 0) continue;
        want(s, ir_operand(i, k), lo == INT64_MIN ? lo : -floored(-lo, r.lo),
            hi == INT64_MAX ? hi : floored(hi, r.lo), depth);
    }
}

static void want_loaded(Search *s, const Instr *i, int64_t lo, int64_t hi, int depth)
{
    MemParts m;
    (void)depth;
    if (ir_mem_parts(i, &m)) note(&s->into[m.param], lo, hi);
}

static void want_same(Search *s, const Instr *i, int64_t lo, int64_t hi, int depth)
{ want(s, ir_operand(i, 0), lo, hi, depth); }

static void want_both(Search *s, const Instr *i, int64_t lo, int64_t hi, int depth)
{
    want(s, ir_operand(i, 1), lo, hi, depth);
    want(s, ir_operand(i, 2), lo, hi, depth);
}

typedef void Want(Search *, const Instr *, int64_t lo, int64_t hi, int depth);
static Want *const wants[OP_COUNT] = { [OP_LOAD] = want_loaded,
    [OP_GATHER] = want_loaded,
    [OP_CAST] = want_same,
    [OP_SPLAT] = want_same,
    [OP_BROADCAST] = want_same,
    [OP_RESHAPE] = want_same,
    [OP_PERMUTE] = want_same,
    [OP_SLICE] = want_same,
    [OP_WHERE] = want_both,
    [OP_ADD] = want_of_sum,
    [OP_SUB] = want_of_sum,
    [OP_MUL] = want_of_product };

/* The counter of a loop begins at the lower bound and stays below the upper one. */
static void want_counter(Search *s, const Instr *loop, int64_t lo, int64_t hi, int depth)
{
    want(s, ir_operand(loop, 0), lo, hi, depth);
    want(s, ir_operand(loop, 1), lo, moved(hi, 1), depth);
}

static void want(Search *s, const Value *v, int64_t lo, int64_t hi, int depth)
{
    const Instr *i = v->def, *loop = !i && v->index == 0 ? v->block->parent : NULL;
    if (loop && loop->op == OP_FOR && lo <= hi && depth < MOST_STEPS)
        want_counter(s, loop, lo, hi, depth + 1);
    if (i && wants[i->op] && lo <= hi && depth < MOST_STEPS && dtype_is_int(v->type->dtype))
        wants[i->op](s, i, lo, hi, depth + 1);
}

/* x < y, x <= y: each of the two is followed where the other one's range is known. */
static void want_order(Search *s, const Value *x, const Value *y, int apart)
{
    RangeInfo a, b;
    if (!dtype_is_int(x->type->dtype)) return;
    a = range_of(s->ranges, x);
    b = range_of(s->ranges, y);
    if (narrow(&b)) want(s, x, INT64_MIN, b.lo - apart, 0);
    if (narrow(&a)) want(s, y, a.hi + apart, INT64_MAX, 0);
}

static void want_true(Search *s, const Value *v, int depth)
{
    const Instr *i = v->def;
    if (!i || depth > MOST_STEPS) return;
    const Value *x = i->n_operands ? ir_operand(i, 0) : NULL,
                *y = i->n_operands == 2 ? ir_operand(i, 1) : NULL;
    if (i->op == OP_AND || i->op == OP_REDUCE_ALL || i->op == OP_RESHAPE) want_true(s, x, depth + 1);
    if (i->op == OP_AND) want_true(s, y, depth + 1);
    if (i->op == OP_LT || i->op == OP_LE) want_order(s, x, y, i->op == OP_LT);
    if (i->op == OP_GT || i->op == OP_GE) want_order(s, y, x, i->op == OP_GT);
}

/* --- floats that must not be negative ----------------------------------------------------------------- */

/* The operands, from the first to the last, that must not be negative where the result must not. */
typedef struct Operands {
    bool some;
    int first, last;
} Operands;
static const Operands positives[OP_COUNT] = { [OP_CAST] = { true, 0, 0 },
    [OP_SPLAT] = { true, 0, 0 },
    [OP_BROADCAST] = { true, 0, 0 },
    [OP_RESHAPE] = { true, 0, 0 },
    [OP_PERMUTE] = { true, 0, 0 },
    [OP_SLICE] = { true, 0, 0 },
    [OP_REDUCE_SUM] = { true, 0, 0 },
    [OP_REDUCE_MAX] = { true, 0, 0 },
    [OP_REDUCE_MIN] = { true, 0, 0 },
    [OP_WHERE] = { true, 1, 2 },
    [OP_ADD] = { true, 0, 1 },
    [OP_MUL] = { true, 0, 1 },
    [OP_DIV] = { true, 0, 1 } };

static void want_positive(Search *s, const Value *v)
{
    const Instr *i = v->def;
    MemParts m;
    if (!i || s->asked[v->id] || !dtype_is_float(v->type->dtype)) return;
    s->asked[v->id] = true;
    if ((i->op == OP_LOAD || i->op == OP_GATHER) && ir_mem_parts(i, &m)) s->positive[m.param] = true;
    bool square = i->op == OP_MUL && ir_operand(i, 0) == ir_operand(i, 1);
    const Operands *o = &positives[i->op];
    for (int k = o->first; o->some && !square && k <= o->last; k++) want_positive(s, ir_operand(i, k));
}

static void search_instr(void *user, Instr *i)
{
    Search *s = user;
    MemParts m;
    if (i->op == OP_SQRT || i->op == OP_RSQRT || i->op == OP_LOG || i->op == OP_LOG2)
        want_positive(s, ir_operand(i, 0));
    s->into = s->must;
    if (i->op == OP_ASSERT) want_true(s, ir_operand(i, 0), 0);
    if (!ir_mem_parts(i, &m)) return;
    s->into = i->op == OP_GATHER ? s->must : s->may;
    for (int a = 0; a < m.rank; a++) {
        int64_t extent = s->f->dims[s->f->params[m.param].dims[a]].extent;
        if (extent > 0) want(s, m.idx[a], 0, extent - 1, 0);
    }
}

/* --- a launch ---------------------------------------------------------------------------------------- */

typedef struct Draw {
    Run *r;
    InterpretJob job;
} Draw;

enum { FEW = 8 }; /* what integers are drawn from without: -8 .. 8 */

static void draw(HostTensor *h, const Wanted *w)
{
    RangeInfo all = range_of_dtype(h->dtype);
    int64_t few = dtype_is_signed(h->dtype) ? -FEW : 0, lo = w->lo > all.lo ? w->lo : all.lo,
            hi = w->hi < all.hi ? w->hi : all.hi;
    if (w->lo == INT64_MIN || lo < -(1ll << 40)) lo = hi < few ? hi - FEW : few;
    if (w->hi == INT64_MAX || hi > 1ll << 40) hi = lo > FEW ? lo + FEW : FEW;
    if (lo <= hi) tensor_draw(h, lo, hi);
}

/* Draws again what the kernel asks more of. */
static void draw_all(Run *r, const Search *found)
{
    for (size_t i = 0; i < r->n_params && (int)i < found->f->n_params; i++) {
        const Wanted *w = found->must[i].found ? &found->must[i] : &found->may[i];
        HostTensor *h = &r->params[i].host;
        if (h->drawn && dtype_is_float(h->dtype) && found->positive[i]) tensor_draw(h, 0, 1);
        else if (h->drawn && dtype_is_int(h->dtype) && w->found) draw(h, w);
    }
}

/* Errors are the launch's to tell, which compiles the same. */
static int search(Input *in, Outputs *outputs)
{
    Draw *d = in->user;
    Run *r = d->r;
    Session *s = &in->session;
    const FrontKernel *k = frontend_kernel_find(in->ast, d->job.kernel);
    CompileOptions o;
    PassReport report = { 0 };
    Func *f = NULL;
    size_t n = 0;
    (void)outputs;
    FrontBinding *b =
        arena_array(&s->arena, FrontBinding, d->job.n_bindings + d->job.n_absent + (size_t)k->n_keys + 1);
    bool ok = input_options(in, target_find("cpu"), &o);
    o.passes.opt_level = 0;
    o.passes.check = true; /* keeps asserts */
    ok = ok && interpret_bind(in, &d->job, k, b, &n) &&
         compile_to_ir(&(CompileJob){ s, in->ast, d->job.kernel, b, n, NULL, &o }, &report, &f);
    for (int q = 0; ok && q < f->n_dims; q++) {
        const Extent *x = f->dims[q].name ? extent_find(&r->known, f->dims[q].name) : NULL;
        if (x) f->dims[q].extent = x->value;
    }
    if (ok) {
        Search found = { .f = f, .ranges = ranges_new(f) };
        found.must = arena_array(&s->arena, Wanted, (size_t)f->n_params + 1);
        found.may = arena_array(&s->arena, Wanted, (size_t)f->n_params + 1);
        found.positive = arena_array(&s->arena, bool, (size_t)f->n_params + 1);
        found.asked = arena_array(&s->arena, bool, f->module->next_id + 1);
        memset(found.must, 0, sizeof(Wanted) * (size_t)(f->n_params + 1));
        memset(found.may, 0, sizeof(Wanted) * (size_t)(f->n_params + 1));
        ir_walk(f->body, search_instr, &found);
        draw_all(r, &found);
    }
    s->diags = s->last_diag = NULL;
    s->n_errors = 0;
    return EXIT_OK;
}

int run_draw_indices(Run *r)
{
    Draw d = { .r = r };
    bool drawn = false;
    const char **absent = arena_array(&r->tool->arena, const char *, r->n_params + 1);
    size_t n_absent = 0;
    for (size_t i = 0; i < r->n_params; i++) {
        drawn |= r->params[i].host.drawn;
        if (r->params[i].left_out) absent[n_absent++] = r->params[i].info.name;
    }
    for (size_t i = 0; i < r->known.len; i++) drawn &= r->known.data[i].value > 0;
    if (!drawn) return EXIT_OK;
    d.job = (InterpretJob){ .kernel = r->kernel_name,
        .bindings = r->bindings,
        .n_bindings = r->n_bindings,
        .known = &r->known,
        .absent = absent,
        .n_absent = n_absent };
    return input_with(r->tool, r->args, r->args->inputs.data[0], search, &d);
}
