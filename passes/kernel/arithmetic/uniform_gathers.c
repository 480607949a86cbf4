/* uniform-gathers: gathers from a small table by what depends on positions alone, such as a bias by buckets
 * of the distance between query and key, become one element where the whole tile looks at the same one.
 *
 *   %x = add %s, gather %W[%h, %bucket]
 *
 * becomes
 *
 *   %one = <the least and the greatest %bucket of the tile are equal>
 *   %x = if %one { yield add %s, broadcast gather %W[%h, <the least>] }
 *        else { %bucket = ..; yield add %s, gather %W[%h, %bucket] }
 *
 * The least and the greatest value are computed as scalars in each step, from those of each operand: sums
 * from sums, selections from the arm that is taken, if their condition holds everywhere or nowhere. Functions
 * whose results need not grow with their arguments to the last bit (log, exp, sqrt, approximate quotients)
 * get bounds that are a little wider. Where a value might wrap around, or a function is not defined, the tile
 * is computed.
 *
 * Requires: a gather of a tensor that is only read, without a mask, in a loop with products; positions of
 * index tiles, constants and scalars. Keeps: everything. */
#include "ir/analysis/range.h"
#include "passes/kernel/kernel.h"

enum { MOST_STEPS = 192, MOST_KNOWN = 96, LEAST_OPERATIONS = 4 };

/* Bounds of a tile's elements; of a bool: whether it holds everywhere, and whether it holds nowhere. ok: a
 * scalar without which the bounds say nothing; NULL: they always hold. */
typedef struct Bounds {
    Value *lo, *hi, *ok;
} Bounds;

typedef struct Bounding {
    Builder b;
    Ranges *ranges;
    int left, n;
    const Value *known[MOST_KNOWN];
    Bounds bounds[MOST_KNOWN];
} Bounding;

static bool bounds_of(Bounding *x, Value *v, Bounds *out);

static Value *both(Bounding *x, Value *p, Value *q) { return !p ? q : !q ? p : ir_bin(&x->b, OP_AND, p, q); }
static Value *either(Bounding *x, Value *p, Value *q) { return ir_bin(&x->b, OP_OR, p, q); }

static Value *op(Bounding *x, Op o, Value **v, int n) { return ir_emit(&x->b, o, v, n, NO_ATTRS, NULL); }
static Value *one(Bounding *x, Op o, Value *v) { return op(x, o, &v, 1); }

static Value *pick(Bounding *x, Value *c, Value *p, Value *q)
{ return p == q ? p : op(x, OP_WHERE, (Value *[]){ c, p, q }, 3); }

static bool is_float(const Value *v) { return dtype_is_float(v->type->dtype); }
static bool is_counted(const Value *v) { return v->type->dtype == DT_I32 || v->type->dtype == DT_I64; }

static Value *number(Bounding *x, const Value *like, double n)
{
    DType d = like->type->dtype;
    return dtype_is_float(d) ? ir_const_float(&x->b, d, n) : ir_const_int(&x->b, d, (int64_t)n);
}

/* A constant of the tile's elements that is exact as a double. */
static bool constant_of(const Value *v, double *n)
{
    const int64_t most = (int64_t)1 << 53;
    int64_t i;
    while (v->def && (v->def->op == OP_SPLAT || op_has(v->def->op, OPF_WHOLE))) v = ir_operand(v->def, 0);
    if (ir_is_const_float(v, n)) return *n == *n;
    if (!ir_is_const(v, &i) || i > most || i < -most) return false;
    *n = (double)i;
    return true;
}

/* Widens the bounds of a function by more than its error. */
static void widen(Bounding *x, Bounds *o)
{
    for (int side = 0; side < 2; side++) {
        Value **v = side ? &o->hi : &o->lo, *by = number(x, *v, 0x1p-18);
        by = ir_bin(&x->b, OP_ADD, ir_bin(&x->b, OP_MUL, one(x, OP_ABS, *v), by), by);
        *v = ir_bin(&x->b, side ? OP_ADD : OP_SUB, *v, by);
    }
}

/* Whether no element of the sum or difference wraps around. */
static bool stays_within(Bounding *x, const Instr *i)
{
    RangeInfo p = range_of(x->ranges, ir_operand(i, 0)), q = range_of(x->ranges, ir_operand(i, 1));
    const bool add = i->op == OP_ADD, narrow = i->results[0].type->dtype == DT_I32;
    int64_t lo, hi, least = narrow ? INT32_MIN : INT64_MIN, most = narrow ? INT32_MAX : INT64_MAX;
    return !(add ? __builtin_add_overflow(p.lo, q.lo, &lo) : __builtin_sub_overflow(p.lo, q.hi, &lo)) &&
           !(add ? __builtin_add_overflow(p.hi, q.hi, &hi) : __builtin_sub_overflow(p.hi, q.lo, &hi)) &&
           lo >= least && hi <= most;
}

/* Whether the bounds of the operands are together known to be less than the range of the type apart. */
static bool lie_close(Bounding *x, const Instr *i, const Bounds *p, const Bounds *q)
{
    if (p->lo == p->hi || q->lo == q->hi) return true;
    uint64_t width = 0, most = i->results[0].type->dtype == DT_I32 ? UINT32_MAX : UINT64_MAX;
    for (int k = 0; k < 2; k++) {
        RangeInfo r = range_of(x->ranges, ir_operand(i, k));
        if (__builtin_add_overflow(width, (uint64_t)r.hi - (uint64_t)r.lo, &width)) return false;
    }
    return width <= most;
}

/* Less than half of the range of the type apart: then the difference does not wrap around to below 0. */
static void near_each_other(Bounding *x, const Bounds *p, Bounds *o)
{
    Value *apart = ir_bin(&x->b, OP_SUB, p->hi, p->lo);
    o->ok = both(x, o->ok, ir_bin(&x->b, OP_GE, apart, number(x, apart, 0)));
}

/* A sum or a difference. Where integers wrap around, those of all elements or of some do: the bounds hold
 * unless one of them alone has wrapped, and then the upper one is below the other, if they are less than the
 * range of the type apart. */
static bool sum(Bounding *x, const Instr *i, const Bounds *p, const Bounds *q, Bounds *o)
{
    bool add = i->op == OP_ADD, real = is_float(p->lo);
    double n;
    if (real && !constant_of(ir_operand(i, 1), &n) && !(add && constant_of(ir_operand(i, 0), &n)))
        return false;
    if (!real && !is_counted(p->lo)) return false;
    o->lo = ir_bin(&x->b, i->op, p->lo, add ? q->lo : q->hi);
    o->hi = ir_bin(&x->b, i->op, p->hi, add ? q->hi : q->lo);
    if (real || stays_within(x, i)) return true;
    o->ok = both(x, o->ok, ir_bin(&x->b, OP_LE, o->lo, o->hi));
    if (lie_close(x, i, p, q)) return true;
    near_each_other(x, p, o);
    near_each_other(x, q, o);
    return true;
}

/* A product or quotient by a positive constant. */
static bool scaled(Bounding *x, const Instr *i, const Bounds *p, Bounds *o)
{
    double n;
    bool f = is_float(p->lo);
    if (!constant_of(ir_operand(i, 1), &n) || !(n > 0) || n > 0x1p100 || n < 0x1p-100) return false;
    if (!f && i->op != OP_DIV) return false; /* it might wrap around */
    if (!f && !is_counted(p->lo)) return false;
    o->lo = ir_bin(&x->b, i->op, p->lo, number(x, p->lo, n));
    o->hi = ir_bin(&x->b, i->op, p->hi, number(x, p->hi, n));
    if (ir_attr(i, ATTR_APPROX)) widen(x, o);
    return true;
}

static bool magnitude(Bounding *x, const Instr *i, const Bounds *p, Bounds *o)
{
    Value *zero = number(x, p->lo, 0), *less = ir_bin(&x->b, OP_SUB, zero, p->lo),
          *more = ir_bin(&x->b, OP_SUB, zero, p->hi);
    if (!is_float(p->lo) && !is_counted(p->lo)) return false;
    o->lo = ir_bin(&x->b, OP_MAX, ir_bin(&x->b, OP_MAX, p->lo, more), zero);
    o->hi = ir_bin(&x->b, OP_MAX, less, p->hi);
    if (!is_float(p->lo) && range_of(x->ranges, ir_operand(i, 0)).lo <= INT32_MIN) /* it has no magnitude */
        o->ok = both(x, o->ok, ir_bin(&x->b, OP_GT, p->lo, number(x, p->lo, -2147483647.0)));
    return true;
}

static bool function(Bounding *x, const Instr *i, const Bounds *p, Bounds *o)
{
    o->lo = one(x, i->op, p->lo);
    o->hi = one(x, i->op, p->hi);
    if (i->op == OP_FLOOR || i->op == OP_CEIL || i->op == OP_ROUND) return true;
    if (i->op == OP_LOG || i->op == OP_LOG2 || i->op == OP_SQRT) {
        Value *least = number(x, p->lo, 0x1p-100);
        o->ok = both(x, o->ok, ir_bin(&x->b, OP_GE, p->lo, least));
    }
    widen(x, o);
    return true;
}

static bool cast(Bounding *x, const Instr *i, const Bounds *p, Bounds *o)
{
    DType from = ir_operand(i, 0)->type->dtype, to = i->results[0].type->dtype;
    if (from == DT_BOOL) {
        o->lo = ir_cast(&x->b, p->lo, to);
        o->hi = ir_cast(&x->b, one(x, OP_NOT, p->hi), to);
        return dtype_is_float(to) || to == DT_I32 || to == DT_I64;
    }
    bool ints = (from == DT_I32 || from == DT_I64) && (to == DT_I64 || to == from);
    if (from == DT_I64 && to == DT_I32) {
        RangeInfo r = range_of(x->ranges, ir_operand(i, 0));
        if (r.lo < INT32_MIN)
            o->ok = both(x, o->ok, ir_bin(&x->b, OP_GE, p->lo, number(x, p->lo, INT32_MIN)));
        if (r.hi > INT32_MAX)
            o->ok = both(x, o->ok, ir_bin(&x->b, OP_LE, p->hi, number(x, p->hi, INT32_MAX)));
        ints = true;
    }
    if (!ints && !((from == DT_I32 || from == DT_F32) && (to == DT_I32 || to == DT_F32))) return false;
    o->lo = ir_cast(&x->b, p->lo, to);
    o->hi = ir_cast(&x->b, p->hi, to);
    return true;
}

static bool select(Bounding *x, const Instr *i, const Bounds *c, Bounds *o)
{
    Bounds p, q;
    if (!bounds_of(x, ir_operand(i, 1), &p) || !bounds_of(x, ir_operand(i, 2), &q)) return false;
    if (p.lo->type->dtype == DT_BOOL) return false;
    Value *lo = ir_bin(&x->b, OP_MIN, p.lo, q.lo), *hi = ir_bin(&x->b, OP_MAX, p.hi, q.hi);
    o->lo = pick(x, c->lo, p.lo, pick(x, c->hi, q.lo, lo));
    o->hi = pick(x, c->lo, p.hi, pick(x, c->hi, q.hi, hi));
    o->ok = c->ok;
    if (p.ok) o->ok = both(x, o->ok, either(x, c->hi, p.ok)); /* an arm that is not taken may be anything */
    if (q.ok) o->ok = both(x, o->ok, either(x, c->lo, q.ok));
    return true;
}

static bool comparison(Bounding *x, Op o, const Bounds *p, const Bounds *q, Bounds *r)
{
    bool less = o == OP_LT || o == OP_LE;
    Op against = o == OP_LT ? OP_GE : o == OP_LE ? OP_GT : o == OP_GT ? OP_LE : OP_LT;
    if (o == OP_EQ || o == OP_NE || p->lo->type->dtype == DT_BOOL) return false;
    r->lo = ir_bin(&x->b, o, less ? p->hi : p->lo, less ? q->lo : q->hi);
    r->hi = ir_bin(&x->b, against, less ? p->lo : p->hi, less ? q->hi : q->lo);
    return true;
}

static bool logic(Bounding *x, const Instr *i, const Bounds *p, const Bounds *q, Bounds *o)
{
    if (i->results[0].type->dtype != DT_BOOL) return false;
    o->lo = ir_bin(&x->b, i->op, p->lo, q->lo);
    o->hi = ir_bin(&x->b, i->op == OP_AND ? OP_OR : OP_AND, p->hi, q->hi);
    return true;
}

static bool negated(Bounding *x, const Instr *i, const Bounds *p, Bounds *o)
{
    bool test = i->op == OP_NOT;
    if (test != (i->results[0].type->dtype == DT_BOOL) || (!test && !is_float(p->lo))) return false;
    o->lo = test ? p->hi : one(x, OP_NEG, p->hi);
    o->hi = test ? p->lo : one(x, OP_NEG, p->lo);
    return true;
}

static bool extreme(Bounding *x, const Instr *i, const Bounds *p, Bounds *o)
{
    o->lo = ir_bin(&x->b, i->op, p[0].lo, p[1].lo);
    o->hi = ir_bin(&x->b, i->op, p[0].hi, p[1].hi);
    return p[0].lo->type->dtype != DT_BOOL;
}

static bool is_function(Op op)
{
    static const Op known[] = { OP_LOG, OP_LOG2, OP_EXP, OP_EXP2, OP_SQRT, OP_FLOOR, OP_CEIL, OP_ROUND };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k] == op) return true;
    return false;
}

/* Of operations whose operands' bounds are known. */
static bool combine(Bounding *x, const Instr *i, const Bounds *p, Bounds *o)
{
    Op op = i->op;
    if (op == OP_ADD || op == OP_SUB) return sum(x, i, &p[0], &p[1], o);
    if (op == OP_MUL || op == OP_DIV) return scaled(x, i, &p[0], o);
    if (op == OP_MIN || op == OP_MAX) return extreme(x, i, p, o);
    if (op == OP_ABS) return magnitude(x, i, &p[0], o);
    if (op == OP_NEG || op == OP_NOT) return negated(x, i, &p[0], o);
    if (op == OP_CAST) return cast(x, i, &p[0], o);
    if (op == OP_AND || op == OP_OR) return logic(x, i, &p[0], &p[1], o);
    if (is_function(op)) return p[0].lo->type->dtype == DT_F32 && function(x, i, &p[0], o);
    return op_family(op) == OPS_COMPARE && comparison(x, op, &p[0], &p[1], o);
}

static bool bounds_of_scalar(Bounding *x, Value *v, Bounds *o)
{
    double n;
    if (v->type->kind != TYPE_SCALAR || (dtype_is_float(v->type->dtype) && !constant_of(v, &n))) return false;
    *o = (Bounds){ v, v, NULL };
    if (v->type->dtype == DT_BOOL) o->hi = one(x, OP_NOT, v);
    return true;
}

static bool bounds_anew(Bounding *x, Value *v, Bounds *o)
{
    Instr *i = v->def;
    Bounds p[2] = { { NULL, NULL, NULL }, { NULL, NULL, NULL } };
    DType d = v->type->dtype;
    if (v->type->kind == TYPE_SCALAR) return bounds_of_scalar(x, v, o);
    if (!i || --x->left < 0) return false;
    if (i->op == OP_SPLAT) return bounds_of_scalar(x, ir_operand(i, 0), o);
    if (i->op == OP_ARANGE) {
        int64_t start = ir_attr_int(i, ATTR_START, 0);
        *o = (Bounds){ ir_const_int(&x->b, d, start), ir_const_int(&x->b, d, start + v->type->shape[0] - 1),
            NULL };
        return is_counted(v);
    }
    if (op_has(i->op, OPF_WHOLE)) return bounds_of(x, ir_operand(i, 0), o);
    if (!op_is_elementwise(i->op) || i->n_operands > 3) return false;
    if (i->op == OP_WHERE) return bounds_of(x, ir_operand(i, 0), &p[0]) && select(x, i, &p[0], o);
    if (i->n_operands > 2) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!bounds_of(x, ir_operand(i, k), &p[k])) return false;
    o->ok = both(x, p[0].ok, p[1].ok);
    return combine(x, i, p, o);
}

static bool bounds_of(Bounding *x, Value *v, Bounds *out)
{
    for (int k = 0; k < x->n; k++)
        if (x->known[k] == v) {
            *out = x->bounds[k];
            return true;
        }
    *out = (Bounds){ NULL, NULL, NULL };
    if (!bounds_anew(x, v, out)) return false;
    if (x->n == MOST_KNOWN) return false;
    x->known[x->n] = v;
    x->bounds[x->n++] = *out;
    return true;
}

/* --- gathers ------------------------------------------------------------------------------------------ */

typedef struct Gathers {
    Session *s;
    Func *f;
    InstrList all;
} Gathers;

static bool holds_product(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next)
        if (i->op == OP_MMA_SYNC || i->op == OP_MMA) return true;
    return false;
}

static void find(void *user, Instr *i)
{
    Gathers *c = user;
    MemParts m;
    const Instr *loop = i->block->parent;
    if (i->op != OP_GATHER || !loop || loop->op != OP_FOR || !holds_product(i->block)) return;
    if (!ir_mem_parts(i, &m) || m.mask || m.token || c->f->params[m.param].kind != PARAM_IN) return;
    if (m.result->type->kind == TYPE_TILE && m.result->type->rank == 2) vec_push(&c->s->arena, &c->all, i);
}

/* The operations between positions and their sources, each once. */
static int operations(const Value *v, const Block *body)
{
    Instr *i = v->def;
    if (!i || i->block != body || i->mark || v->type->kind != TYPE_TILE) return 0;
    i->mark = 1;
    int n = op_is_elementwise(i->op);
    for (int k = 0; k < i->n_operands; k++) n += operations(ir_operand(i, k), body);
    return n;
}

/* Copies what the value is computed of in the block, as far as it is tiles. */
static Value *copied(Builder *in, Value *v, const Block *body, ValueMap *map)
{
    Instr *i = v->def;
    if (!i || i->block != body || v->type->kind != TYPE_TILE || !op_is_pure(i->op) || i->n_blocks) return v;
    if (value_map_get(map, v) != v) return value_map_get(map, v);
    for (int k = 0; k < i->n_operands; k++) copied(in, ir_operand(i, k), body, map);
    ir_clone(in, i, map);
    return value_map_get(map, v);
}

/* The only user of the gather's result if it is element-wise in the same block. */
static Instr *only_user(const Instr *gather)
{
    const Use *u = gather->results[0].uses;
    return u && !u->next && u->user->block == gather->block && op_is_elementwise(u->user->op) &&
                   u->user->n_results == 1
               ? u->user
               : NULL;
}

/* The gather of one element, repeated for the tile. */
static Value *one_element(Session *s, Builder *in, const Instr *gather, const MemParts *m, Value *const *at)
{
    const int64_t shape[2] = { 1, 1 };
    Value *v[IR_MAX_RESULTS + 1];
    ValueMap none;
    value_map_init(&none, &s->arena);
    for (int a = 0; a < m->rank; a++) v[a] = ir_splat(in, at[a], 2, shape);
    for (int a = 0; a < m->rank; a++) value_map_set(&none, m->idx[a], v[a]);
    Instr *g = ir_clone(in, gather, &none);
    g->results[0].type = type_tile(s, g->results[0].type->dtype, 2, shape);
    Value *r = ir_result(g);
    return ir_emit(in, OP_BROADCAST, &r, 1, NO_ATTRS, ir_result(gather)->type);
}

static bool branch(Gathers *c, Instr *gather)
{
    MemParts m;
    Instr *user = only_user(gather), *last = user ? user : gather;
    Bounding x = { .b = ir_before(last), .ranges = ranges_new(c->f), .left = MOST_STEPS };
    Value *all = NULL, *at[TILE_MAX_RANK];
    int n = 0;
    ir_mem_parts(gather, &m);
    for (Instr *i = gather->block->first; i; i = i->next) i->mark = 0;
    for (int a = 0; a < m.rank; a++) n += operations(m.idx[a], gather->block);
    if (n < LEAST_OPERATIONS) return false;
    for (int a = 0; a < m.rank; a++) {
        Bounds o;
        if (!bounds_of(&x, m.idx[a], &o)) return false;
        at[a] = o.lo;
        all = both(&x, all, o.ok);
        if (o.lo != o.hi) all = both(&x, all, ir_bin(&x.b, OP_EQ, o.lo, o.hi));
    }
    if (!all) return false;
    const Type *t = ir_result(last)->type;
    Instr *cond = ir_build(&x.b, OP_IF, &all, 1, ATTRS(a_int(ATTR_RARE, 1)), &t, 1);
    for (int k = 0; k < 2; k++) {
        Builder in = ir_at_end(cond->blocks[k]);
        ValueMap map;
        value_map_init(&map, &c->s->arena);
        if (k) {
            for (int a = 0; a < m.rank; a++) copied(&in, m.idx[a], gather->block, &map);
            ir_clone(&in, gather, &map);
        } else value_map_set(&map, ir_result(gather), one_element(c->s, &in, gather, &m, at));
        Value *r = value_map_get(&map, ir_result(gather));
        if (user) r = ir_result(ir_clone(&in, user, &map));
        ir_build(&in, OP_YIELD, &r, 1, NO_ATTRS, NULL, 0);
    }
    ir_replace(ir_result(last), ir_result(cond));
    ir_erase(last);
    if (user) ir_erase(gather);
    return true;
}

bool kernel_pass_uniform_gathers(KernelContext *k)
{
    Gathers c = { .s = k->s, .f = k->f };
    bool changed = false;
    ir_walk(k->f->body, find, &c);
    for (size_t i = 0; i < c.all.len; i++) changed |= branch(&c, c.all.data[i]);
    ir_drop_unused(k->f->body); /* what only the gathers needed, and bounds that came to nothing */
    return changed;
}
