/* affine.c: affine forms of integer values, for the passes that prove ranges; see affine.h. */
#include "passes/tile/analysis/affine.h"

/* Forms are trees over a graph whose values may be used many times: a budget keeps their size from doubling
 * at each level. */
enum { PROOF_STEPS = 600, PROOF_DEPTH = 10, FORM_STEPS = 400 };

typedef struct Leaf {
    Op op;
    int64_t a, b;
    Value *value;
} Leaf;

struct Facts {
    Arena *arena;
    const Func *func;
    Ranges *ranges;
    VEC(Leaf) leaves; /* for dim, stride, program_id and so on: one value represents all equal ones */
    Affine **forms;   /* of scalars, by the number of the value; NULL: not yet asked for */
    uint32_t n_forms; /* numbers of values that there were at the beginning */
    int steps, form_steps;
};

Facts *facts_new(Arena *a, const Func *f)
{
    Facts *k = arena_new(a, Facts);
    k->arena = a;
    k->func = f;
    k->ranges = ranges_new(f);
    k->n_forms = f->module->next_id;
    k->forms = arena_array(a, Affine *, (size_t)k->n_forms);
    return k;
}

RangeInfo value_range(Facts *k, Value *v) { return range_of(k->ranges, v); }

/* --- forms ------------------------------------------------------------------------------------------- */

/* Uses one value for all values that denote the same property of the launch, in whichever block they are. */
static Value *canonical(Facts *k, Value *v)
{
    Leaf l = { OP_COUNT, 0, 0, v };
    if (!v->def) {
        if (v->block->parent) return v;
        l.a = v->index - (v->block == k->func->remap);
    } else {
        l.op = v->def->op;
        if (op_family(l.op) != OPS_LAUNCH) return extent_like(k->func, v);
        switch (op_as_launch(l.op)) {
        case LAUNCH_DIM: l.a = ir_attr_int(v->def, ATTR_DIM, 0); break;
        case LAUNCH_STRIDE:
            l.a = ir_attr_int(v->def, ATTR_PARAM, 0);
            l.b = ir_attr_int(v->def, ATTR_AXIS, 0);
            break;
        case LAUNCH_PROGRAM_ID:
        case LAUNCH_NUM_PROGRAMS: l.a = ir_attr_int(v->def, ATTR_AXIS, 0); break;
        }
    }
    for (size_t n = 0; n < k->leaves.len; n++) {
        const Leaf *x = &k->leaves.data[n];
        if (x->op == l.op && x->a == l.a && x->b == l.b) return x->value;
    }
    vec_push(k->arena, &k->leaves, l);
    return v;
}

static bool add_term(Affine *a, Value *atom, int64_t coef)
{
    for (int n = 0; n < a->n; n++) {
        if (a->terms[n].atom != atom) continue;
        if (__builtin_add_overflow(a->terms[n].coef, coef, &a->terms[n].coef)) return false;
        if (!a->terms[n].coef) a->terms[n] = a->terms[--a->n];
        return true;
    }
    if (!coef) return true;
    if (a->n == AFFINE_TERMS) return false;
    a->terms[a->n].atom = atom;
    a->terms[a->n++].coef = coef;
    return true;
}

static bool add_product(int64_t *to, int64_t x, int64_t y)
{
    int64_t p;
    return !__builtin_mul_overflow(x, y, &p) && !__builtin_add_overflow(*to, p, to);
}

bool affine_add(Affine *a, const Affine *b, int64_t times)
{
    for (int n = 0; n < b->n; n++) {
        int64_t c;
        if (__builtin_mul_overflow(b->terms[n].coef, times, &c) || !add_term(a, b->terms[n].atom, c))
            return false;
    }
    for (int n = 0; n < TILE_MAX_RANK; n++)
        if (b->lane[n] && !add_product(&a->lane[n], b->lane[n], times)) return false;
    return add_product(&a->constant, b->constant, times);
}

static bool constant_only(const Affine *a)
{
    for (int n = 0; n < TILE_MAX_RANK; n++)
        if (a->lane[n]) return false;
    return a->n == 0;
}

bool affine_apart(const Affine *a, const Affine *b, int64_t *difference)
{
    Affine d = *a;
    if (!affine_add(&d, b, -1) || !constant_only(&d)) return false;
    *difference = d.constant;
    return true;
}

int64_t affine_coef(Facts *k, const Affine *a, const Value *atom)
{
    Value *c = canonical(k, (Value *)atom);
    for (int n = 0; n < a->n; n++)
        if (a->terms[n].atom == c) return a->terms[n].coef;
    return 0;
}

/* The exact result of an integer operation on these operands stays in its dtype: nothing wraps. */
bool multiplies_exactly(Facts *k, const Instr *i)
{
    DType d = i->results[0].type->dtype;
    RangeInfo a = value_range(k, ir_operand(i, 0)),
              b = i->n_operands > 1 ? value_range(k, ir_operand(i, 1)) : a, t = range_of_dtype(d);
    __int128 lo, hi;
    if (d == DT_U64) return false;
    if (i->op == OP_ADD) {
        lo = (__int128)a.lo + b.lo;
        hi = (__int128)a.hi + b.hi;
    } else if (i->op == OP_SUB) {
        lo = (__int128)a.lo - b.hi;
        hi = (__int128)a.hi - b.lo;
    } else if (i->op == OP_NEG) {
        lo = -(__int128)a.hi;
        hi = -(__int128)a.lo;
    } else if (i->op == OP_MUL) {
        __int128 p[4] = { (__int128)a.lo * b.lo, (__int128)a.lo * b.hi, (__int128)a.hi * b.lo,
            (__int128)a.hi * b.hi };
        lo = hi = p[0];
        for (int n = 1; n < 4; n++) {
            if (p[n] < lo) lo = p[n];
            if (p[n] > hi) hi = p[n];
        }
    } else return false;
    return lo >= t.lo && hi <= t.hi;
}

bool at_least_one(Facts *k, Value *v)
{
    if (value_range(k, v).lo >= 1) return true;
    for (int a = 0; a < 3; a++) {
        Value *g = grid_extent(k->func, a);
        if (g && canonical(k, g) == canonical(k, v)) return true;
    }
    return false;
}

static bool opaque(Facts *k, Value *v, Affine *out)
{
    if (v->type->kind != TYPE_SCALAR || !dtype_is_int(v->type->dtype) || v->type->dtype == DT_U64)
        return false;
    return add_term(out, canonical(k, v), 1);
}

static bool form_depth(Facts *k, Value *v, Affine *out, int depth);

static bool form_binary(Facts *k, const Instr *i, Affine *out, int depth)
{
    Affine b = { 0 };
    if (!multiplies_exactly(k, i) || !form_depth(k, ir_operand(i, 0), out, depth)) return false;
    if (i->op == OP_NEG) {
        Affine a = *out;
        *out = (Affine){ 0 };
        return affine_add(out, &a, -1);
    }
    if (!form_depth(k, ir_operand(i, 1), &b, depth)) return false;
    if (i->op == OP_ADD) return affine_add(out, &b, 1);
    if (i->op == OP_SUB) return affine_add(out, &b, -1);
    Affine a = *out;
    *out = (Affine){ 0 };
    if (constant_only(&b)) return affine_add(out, &a, b.constant);
    if (constant_only(&a)) return affine_add(out, &b, a.constant);
    return false;
}

/* Reshapes that only add or drop axes of extent 1 keep the lanes, on their new axes. */
static bool form_reshape(Facts *k, const Instr *i, Affine *out, int depth)
{
    const Type *from = ir_operand(i, 0)->type, *to = i->results[0].type;
    Affine a = { 0 };
    if (!form_depth(k, ir_operand(i, 0), &a, depth)) return false;
    *out = a;
    memset(out->lane, 0, sizeof out->lane);
    int f = 0, t = 0, rf = from->kind == TYPE_TILE ? from->rank : 0,
        rt = to->kind == TYPE_TILE ? to->rank : 0;
    for (;;) {
        while (f < rf && from->shape[f] == 1) f++;
        while (t < rt && to->shape[t] == 1) t++;
        if (f == rf || t == rt) break;
        if (from->shape[f] != to->shape[t]) return constant_only(&a);
        out->lane[t++] = a.lane[f++];
    }
    return f == rf && t == rt;
}

static bool form_permute(Facts *k, const Instr *i, Affine *out, int depth)
{
    Affine a = { 0 };
    const Attr *order = ir_attr(i, ATTR_ORDER);
    if (!form_depth(k, ir_operand(i, 0), &a, depth)) return false;
    *out = a;
    memset(out->lane, 0, sizeof out->lane);
    for (int n = 0; n < order->n; n++) out->lane[n] = a.lane[order->v[n]];
    return true;
}

static bool form_shape(Facts *k, Value *v, Affine *out, int depth)
{
    Instr *i = v->def;
    switch (op_as_shape(i->op)) {
    case SHAPE_ARANGE:
        out->lane[0] = 1;
        out->constant = ir_attr_int(i, ATTR_START, 0);
        return range_fits(value_range(k, v), v->type->dtype);
    case SHAPE_SPLAT: return form_depth(k, ir_operand(i, 0), out, depth);
    case SHAPE_BROADCAST:
        if (!form_depth(k, ir_operand(i, 0), out, depth)) return false;
        for (int n = 0; n < v->type->rank; n++)
            if (ir_operand(i, 0)->type->shape[n] == 1) out->lane[n] = 0;
        return true;
    case SHAPE_RESHAPE: return form_reshape(k, i, out, depth);
    case SHAPE_PERMUTE: return form_permute(k, i, out, depth);
    case SHAPE_CONCAT:
    case SHAPE_SLICE: return false;
    }
    return false;
}

static bool form_instr(Facts *k, Value *v, Affine *out, int depth)
{
    Instr *i = v->def;
    Value *x = i->n_operands ? ir_operand(i, 0) : NULL;
    int64_t c;
    if (i->op == OP_CONST) return ir_is_const(v, &c) && (out->constant = c, v->type->dtype != DT_U64);
    if (i->op == OP_ADD || i->op == OP_SUB || i->op == OP_MUL || i->op == OP_NEG)
        return form_binary(k, i, out, depth);
    if (op_family(i->op) == OPS_SHAPE) return form_shape(k, v, out, depth);
    if (i->op == OP_CAST)
        return dtype_is_int(x->type->dtype) && x->type->dtype != DT_U64 && dtype_is_int(v->type->dtype) &&
               range_fits(value_range(k, x), v->type->dtype) && form_depth(k, x, out, depth);
    if (op_family(i->op) == OPS_LAUNCH && i->op != OP_PROGRAM_ID) {
        RangeInfo r = value_range(k, v);
        out->constant = r.lo;
        return r.lo == r.hi;
    }
    return false;
}

static bool form_depth(Facts *k, Value *v, Affine *out, int depth)
{
    *out = (Affine){ 0 };
    if (depth > 40 || k->form_steps-- <= 0) return opaque(k, v, out);
    if (v->def && form_instr(k, v, out, depth + 1)) return true;
    *out = (Affine){ 0 };
    return opaque(k, v, out);
}

/* Proofs ask for the same scalars over and over. */
bool affine_of(Facts *k, Value *v, Affine *out)
{
    Affine **known = v->type->kind == TYPE_SCALAR && v->id < k->n_forms ? &k->forms[v->id] : NULL;
    if (known && *known) {
        *out = **known;
        return true;
    }
    k->form_steps = FORM_STEPS;
    if (!form_depth(k, v, out, 0)) return false;
    if (known) {
        *known = arena_new(k->arena, Affine);
        **known = *out;
    }
    return true;
}

bool affine_least(Affine *a, const Type *shape)
{
    for (int n = 0; n < (shape->kind == TYPE_TILE ? shape->rank : 0); n++) {
        if (a->lane[n] < 0 && !add_product(&a->constant, a->lane[n], shape->shape[n] - 1)) return false;
        a->lane[n] = 0;
    }
    return true;
}

bool compare_form(Facts *k, const Instr *i, Affine *out)
{
    if (i->op != OP_LT && i->op != OP_LE && i->op != OP_GT && i->op != OP_GE) return false;
    bool less = i->op == OP_LT || i->op == OP_LE, strict = i->op == OP_LT || i->op == OP_GT;
    Affine a, b;
    if (!dtype_is_int(ir_operand(i, 0)->type->dtype) || !affine_of(k, ir_operand(i, 0), &a) ||
        !affine_of(k, ir_operand(i, 1), &b))
        return false;
    *out = less ? b : a;
    if (!affine_add(out, less ? &a : &b, -1)) return false;
    if (strict && __builtin_sub_overflow(out->constant, 1, &out->constant)) return false;
    return affine_least(out, i->results[0].type);
}

bool window_forms(Facts *k, const Instr *i, int axis, Affine *low, Affine *high)
{
    MemParts p;
    Affine dim = { 0 };
    if (!ir_mem_parts(i, &p) || !affine_of(k, p.idx[axis], low)) return false;
    const Attr *extents = ir_attr(i, ATTR_EXTENTS), *steps = ir_attr(i, ATTR_STEPS);
    int64_t n = extents->v[axis] == -1 ? 1 : extents->v[axis], step = steps ? steps->v[axis] : 1, last;
    int d = k->func->params[p.param].dims[axis];
    if (d < 0 || __builtin_mul_overflow(n - 1, step, &last)) return false;
    if (k->func->dims[d].extent >= 0) dim.constant = k->func->dims[d].extent;
    else {
        Value *v = NULL;
        for (size_t l = 0; l < k->leaves.len; l++)
            if (k->leaves.data[l].op == OP_DIM && k->leaves.data[l].a == d) v = k->leaves.data[l].value;
        /* No instruction gives it yet, so an instruction that belongs to no block represents it. */
        if (!v) {
            Session *s = k->func->module->session;
            Instr *x = arena_new(k->arena, Instr);
            *x = (Instr){ .op = OP_DIM, .n_results = 1, .n_attrs = 1 };
            x->attrs = arena_new(k->arena, Attr);
            *x->attrs = a_int(ATTR_DIM, d);
            x->results = arena_new(k->arena, Value);
            *x->results =
                (Value){ .type = type_scalar(s, DT_INDEX), .def = x, .id = k->func->module->next_id++ };
            v = canonical(k, x->results);
        }
        add_term(&dim, v, 1);
    }
    *high = dim;
    if (!affine_add(high, low, -1) || __builtin_sub_overflow(high->constant, last, &high->constant))
        return false;
    if (step < 0) { /* The first element is the greatest, the last one the least. */
        high->constant = high->constant + last;
        if (__builtin_add_overflow(low->constant, last, &low->constant)) return false;
    }
    return !__builtin_sub_overflow(high->constant, 1, &high->constant);
}

/* --- proofs ------------------------------------------------------------------------------------------ */

static bool prove(Facts *k, const Affine *a, int depth);

/* The least value the numeric ranges allow is >= 0. */
static bool numeric_nonneg(Facts *k, const Affine *a)
{
    __int128 least = a->constant;
    for (int n = 0; n < a->n; n++) {
        RangeInfo r = value_range(k, a->terms[n].atom);
        least += (__int128)a->terms[n].coef * (a->terms[n].coef > 0 ? r.lo : r.hi);
        if (least < -((__int128)1 << 100) || least > (__int128)1 << 100) return false;
    }
    return least >= 0;
}

/* A form without lanes, times a number. */
static bool multiply(Affine *a, int64_t times)
{
    for (int n = 0; n < a->n; n++)
        if (__builtin_mul_overflow(a->terms[n].coef, times, &a->terms[n].coef)) return false;
    return !__builtin_mul_overflow(a->constant, times, &a->constant);
}

/* Term n, coef * atom, replaced through scale * atom == bound (or the inequality that makes the form
 * smaller): the whole form times `scale` when the coefficient does not divide. */
static bool substitute(Facts *k, const Affine *a, int n, int64_t scale, const Affine *bound, int depth)
{
    int64_t coef = a->terms[n].coef, g = range_gcd(coef, scale), times = scale / g, by = coef / g;
    Affine f = *a;
    f.terms[n] = f.terms[--f.n];
    if (times != 1 && !multiply(&f, times)) return false;
    return affine_add(&f, bound, by) && prove(k, &f, depth - 1);
}

static bool plus_constant(Affine *a, int64_t c)
{ return !__builtin_add_overflow(a->constant, c, &a->constant); }

static bool by_value(Facts *k, const Affine *a, int n, int64_t scale, Value *v, int64_t offset, int depth)
{
    Affine b;
    return affine_of(k, v, &b) && plus_constant(&b, offset) && substitute(k, a, n, scale, &b, depth);
}

/* quotient = x / c for a constant c: c * quotient lies in [x - below, x + above] */
static bool by_quotient(Facts *k, const Affine *a, int n, const Instr *i, int depth)
{
    int64_t c;
    RangeInfo x = value_range(k, ir_operand(i, 0));
    if (!ir_is_const(ir_operand(i, 1), &c) || c < 1 || i->results[0].type->dtype == DT_U64) return false;
    int64_t above = 0, below = 0;
    if (x.div % c != 0) {
        if (i->op == OP_CDIV) {
            if (x.lo < 0) return false;
            above = c - 1;
        } else {
            below = x.hi >= 0 ? c - 1 : 0;
            above = x.lo < 0 ? c - 1 : 0;
        }
    }
    return by_value(k, a, n, c, ir_operand(i, 0), a->terms[n].coef > 0 ? -below : above, depth);
}

/* (u * m) / d with 0 <= u < d and m >= 1 is at most m - 1 (a head's number of its group). */
static bool by_share(Facts *k, const Affine *a, int n, const Instr *i, int depth)
{
    const Instr *mul = ir_operand(i, 0)->def;
    if (a->terms[n].coef > 0 || !mul || mul->op != OP_MUL || !multiplies_exactly(k, mul)) return false;
    for (int s = 0; s < 2; s++) {
        Value *u = ir_operand(mul, s), *m = ir_operand(mul, 1 - s);
        Affine room, other;
        if (value_range(k, u).lo < 0 || !at_least_one(k, m)) continue;
        if (!affine_of(k, ir_operand(i, 1), &room) || !affine_of(k, u, &other) ||
            !affine_add(&room, &other, -1) || !plus_constant(&room, -1))
            continue;
        if (prove(k, &room, depth - 1) && by_value(k, a, n, 1, m, -1, depth)) return true;
    }
    return false;
}

static bool by_loop(Facts *k, const Affine *a, int n, const Instr *loop, int depth)
{
    if (a->terms[n].coef > 0) return by_value(k, a, n, 1, ir_operand(loop, 0), 0, depth);
    return by_value(k, a, n, 1, ir_operand(loop, 1), -1, depth);
}

static bool by_minmax(Facts *k, const Affine *a, int n, const Instr *i, int depth)
{
    bool either = (a->terms[n].coef < 0) == (i->op == OP_MIN || i->op == OP_MINNUM);
    if (either)
        return by_value(k, a, n, 1, ir_operand(i, 0), 0, depth) ||
               by_value(k, a, n, 1, ir_operand(i, 1), 0, depth);
    return by_value(k, a, n, 1, ir_operand(i, 0), 0, depth) &&
           by_value(k, a, n, 1, ir_operand(i, 1), 0, depth);
}

static bool by_term(Facts *k, const Affine *a, int n, int depth)
{
    Value *v = a->terms[n].atom, *g;
    Instr *i = v->def;
    bool up = a->terms[n].coef < 0; /* whether an upper bound of the atom is needed */
    if (!i)
        return v->block->parent && v->block->parent->op == OP_FOR && v->index == 0 &&
               by_loop(k, a, n, v->block->parent, depth);
    g = extent_expression(k->func, i);
    if (i->op == OP_PROGRAM_ID) return up && g && by_value(k, a, n, 1, g, -1, depth);
    if (i->op == OP_NUM_PROGRAMS || i->op == OP_DIM) return g && by_value(k, a, n, 1, g, 0, depth);
    if (i->op == OP_MIN || i->op == OP_MAX || i->op == OP_MINNUM || i->op == OP_MAXNUM)
        return by_minmax(k, a, n, i, depth);
    if (i->op == OP_DIV || i->op == OP_CDIV)
        return by_quotient(k, a, n, i, depth) || (i->op == OP_DIV && by_share(k, a, n, i, depth));
    if (i->op == OP_REM) {
        if (!up || value_range(k, ir_operand(i, 0)).lo < 0) return false;
        if (value_range(k, ir_operand(i, 1)).lo >= 1 && by_value(k, a, n, 1, ir_operand(i, 1), -1, depth))
            return true;
        return by_value(k, a, n, 1, ir_operand(i, 0), 0, depth);
    }
    return i->op == OP_WHERE && i->results[0].type->kind == TYPE_SCALAR &&
           by_value(k, a, n, 1, ir_operand(i, 1), 0, depth) &&
           by_value(k, a, n, 1, ir_operand(i, 2), 0, depth);
}

static bool prove(Facts *k, const Affine *a, int depth)
{
    if (numeric_nonneg(k, a)) return true;
    if (depth <= 0 || k->steps-- <= 0) return false;
    for (int n = 0; n < a->n; n++)
        if (by_term(k, a, n, depth)) return true;
    return false;
}

bool prove_nonneg(Facts *k, const Affine *a)
{
    for (int n = 0; n < TILE_MAX_RANK; n++)
        if (a->lane[n]) return false;
    k->steps = PROOF_STEPS;
    return prove(k, a, PROOF_DEPTH);
}
