/* mask-trim: loops leave out the steps at their ends that a mask makes neutral, where the mask's bounds come
 * from memory.
 *
 *   %lo = load %START[..]                                   %lo = load %START[..]
 *   for %j = 0 to %n with (%m, %l, %acc) {                  %a = max(0, cdiv(max(%lo - 63, 0), 64))
 *     %c = ge (%j*64 + arange 64), (splat %lo)        ->    for %j = %a to %n with (%m, %l, %acc) { as before
 * } %s = where %c, %x, -inf
 *     ...
 *   }
 *
 * A step is neutral if it gives every carried value back as it got it. To prove it, the body is evaluated
 * with the masked scores at -inf (or at the other value that the mask gives). Two states of a row are looked
 * at in one walk:
 *
 *   seen:   what is carried is anything, and a running maximum is above -inf.
 *   unseen: a running maximum that began at -inf is still there, and all else that is carried is 0, as it
 * began.
 *
 * A row is in one of these at all times: it begins unseen, and a step that leaves the maximum at -inf had all
 * of its scores at -inf, for which the walk shows that zeros stay zeros. The walk follows rows, axis 0, and
 * refuses what mixes them. Without a guard against exp(-inf - -inf) the unseen state gives NaN, and nothing
 * is proven.
 *
 * The bound: of the comparisons that the mask joins with `and`, each is true at some place of the tile only
 * if a form F(j) >= 0, in the affine forms of affine.h. If F rises with j the loop begins later, if it falls
 * the loop ends earlier.
 *
 * Requires: load-order before (it makes the loops' form), exp2 after (which rewrites the exponentials); steps
 * of 1 from 0 or more; no writes in the loop; a bound that is loaded, because loops whose bounds are extents
 * and program ids are written with them. Keeps: results where the values that are weighted by zero in the
 * steps left out are finite: 0 times infinity or NaN is NaN, and a step that is left out does not multiply.
 */
#include "passes/tile/analysis/affine.h"
#include <math.h>

enum { MAX_VALUES = 400, MAX_CARRIED = 16, MAX_COMPARES = 8, MAX_DEPTH = 40 };

/* What is known of all elements of a value in one state of a row. */
typedef enum Known { UNKNOWN, NEGATIVE_INFINITY, ZERO, ONE, ABOVE, CARRIED } Known;
/* ABOVE: above -inf. CARRIED: equal to the carried value number `which`. */
typedef struct State {
    Known is;
    int which;
    bool above; /* of CARRIED: above -inf */
} State;
enum { SEEN, UNSEEN, STATES };

typedef struct Fact {
    Value *value;
    State state[STATES];
} Fact;

typedef struct Trim {
    PassContext *c;
    Facts *facts;
    Instr *loop, *select; /* select: the where whose mask is looked at */
    Fact known[MAX_VALUES];
    int n;
    Instr *compares[MAX_COMPARES];
    int n_compares;
    bool unseen; /* a running maximum began at -inf */
    int64_t trimmed;
} Trim;

/* --- the walk ---------------------------------------------------------------------------------------- */

static State constant_state(const Value *v)
{
    double x;
    if (!ir_is_const_float(v, &x)) return (State){ UNKNOWN };
    return (State){ x == -INFINITY          ? NEGATIVE_INFINITY
                    : x == 0 && !signbit(x) ? ZERO
                    : x == 1                ? ONE
                    : x == x                ? ABOVE
                                            : UNKNOWN };
}

static State state_of(const Trim *t, const Value *v, int s)
{
    for (int k = 0; k < t->n; k++)
        if (t->known[k].value == v) return t->known[k].state[s];
    return constant_state(v);
}

static bool same_state(State a, State b)
{ return a.is == b.is && a.is != UNKNOWN && (a.is != CARRIED || a.which == b.which); }
static bool is_above(State a)
{ return a.is == ZERO || a.is == ONE || a.is == ABOVE || (a.is == CARRIED && a.above); }

static State difference(State a, State b)
{
    if (a.is == NEGATIVE_INFINITY && is_above(b)) return a;
    if (is_above(a) && same_state(a, b) && a.is != ABOVE) return (State){ ZERO };
    if (b.is == ZERO) return a;
    return (State){ UNKNOWN };
}

static State product(State a, State b)
{
    if (a.is == ONE) return b;
    if (b.is == ONE) return a;
    if (a.is == ZERO && b.is == ZERO) return a;
    return (State){ UNKNOWN };
}

static State larger(State a, State b)
{
    if (a.is == NEGATIVE_INFINITY) return b;
    if (b.is == NEGATIVE_INFINITY) return a;
    if (same_state(a, b) && a.is != ABOVE) return a;
    return (State){ is_above(a) || is_above(b) ? ABOVE : UNKNOWN };
}

/* `where eq(x, -inf), y, x`: the guard of a maximum. */
static State guarded(const Trim *t, const Instr *i, int s)
{
    const Instr *e = ir_operand(i, 0)->def;
    while (e && (e->op == OP_BROADCAST || e->op == OP_RESHAPE)) e = ir_operand(e, 0)->def;
    if (!e || e->op != OP_EQ || constant_state(ir_operand(e, 1)).is != NEGATIVE_INFINITY ||
        ir_operand(e, 0) != ir_operand(i, 2)) {
        State a = state_of(t, ir_operand(i, 1), s);
        return same_state(a, state_of(t, ir_operand(i, 2), s)) && a.is != ABOVE ? a : (State){ UNKNOWN };
    }
    State x = state_of(t, ir_operand(e, 0), s);
    if (x.is == NEGATIVE_INFINITY) return state_of(t, ir_operand(i, 1), s);
    return is_above(x) ? x : (State){ UNKNOWN };
}

static State selected(const Trim *t, const Instr *i, int s)
{
    if (ir_operand(i, 0) == ir_operand(t->select, 0)) {
        State masked = state_of(t, ir_operand(i, 2), s);
        /* An unseen row has scores that are -inf where the mask is true, too. Of what else the mask selects
         * nothing is known there. */
        bool score = i == t->select || !t->unseen;
        return score || same_state(masked, state_of(t, ir_operand(i, 1), s)) ? masked : (State){ UNKNOWN };
    }
    return guarded(t, i, s);
}

static bool keeps_rows(const Instr *i)
{
    const Type *a = ir_operand(i, 0)->type, *r = i->results[0].type;
    return a->kind == TYPE_TILE && r->kind == TYPE_TILE && a->rank && r->rank && a->shape[0] == r->shape[0];
}

static State exponential(State x)
{ return (State){ x.is == NEGATIVE_INFINITY ? ZERO : x.is == ZERO ? ONE : UNKNOWN }; }

/* Each element stays at its coordinates: extents of 1 are added or removed at the end. */
static bool keeps_places(const Type *a, const Type *r)
{
    for (int k = 0; k < a->rank || k < r->rank; k++)
        if ((k < a->rank ? a->shape[k] : 1) != (k < r->rank ? r->shape[k] : 1)) return false;
    return true;
}

/* Of operations that change the shape or type of their operand, or reduce it. */
static State moved(const Instr *i, State a)
{
    bool constant = a.is == ZERO || a.is == ONE || a.is == NEGATIVE_INFINITY;
    Op op = i->op;
    const Type *from = ir_operand(i, 0)->type, *to = i->results[0].type;
    /* 8-bit floats saturate. */
    bool infinite = dtype_is_float(to->dtype) && dtype_bits(to->dtype) >= 16;
    if (op == OP_CAST && constant && (infinite || a.is != NEGATIVE_INFINITY)) return a;
    if (op == OP_BROADCAST && keeps_rows(i)) return a;
    if (op == OP_RESHAPE && keeps_rows(i) &&
        (a.is != CARRIED || type_elements(from) == from->shape[0] || keeps_places(from, to)))
        return a;
    if (op == OP_REDUCE_MAX && constant && ir_attr_int(i, ATTR_AXIS, 0)) return a;
    if (op == OP_REDUCE_SUM && a.is == ZERO && ir_attr_int(i, ATTR_AXIS, 0)) return a;
    return (State){ UNKNOWN };
}

/* Of an operation with one result, in one state of its rows. */
static State result_state(const Trim *t, const Instr *i, int s)
{
    if (i->op == OP_WHERE) return selected(t, i, s);
    if (!i->n_operands) return (State){ UNKNOWN };
    State a = state_of(t, ir_operand(i, 0), s);
    if (i->op == OP_EXP || i->op == OP_EXP2) return exponential(a);
    if (i->n_operands == 1) return moved(i, a);
    State b = state_of(t, ir_operand(i, 1), s);
    if (i->op == OP_MAX) return larger(a, b);
    if (i->op == OP_SUB) return difference(a, b);
    if (i->op == OP_MUL) return product(a, b);
    if (i->op == OP_ADD) return a.is == ZERO ? b : b.is == ZERO ? a : (State){ UNKNOWN };
    if (i->op == OP_MMA && a.is == ZERO && ir_operand(i, 0)->type->rank == 2)
        return state_of(t, ir_operand(i, 2), s);
    return (State){ UNKNOWN };
}

static void remember(Trim *t, Value *v, State seen, State unseen)
{
    if (seen.is == UNKNOWN && unseen.is == UNKNOWN) return;
    if (t->n < MAX_VALUES) t->known[t->n++] = (Fact){ v, { seen, unseen } };
}

/* The carried value is a maximum that grows by the masked scores. */
static bool is_running_maximum(const Trim *t, int k)
{
    const Block *body = t->loop->blocks[0];
    const Instr *max = ir_operand(ir_terminator(body), k)->def;
    if (!max || max->op != OP_MAX || ir_operand(max, 0) != body->args[k + 1]) return false;
    const Instr *row = ir_operand(max, 1)->def;
    return row && row->op == OP_REDUCE_MAX && ir_attr_int(row, ATTR_AXIS, 0) &&
           ir_operand(row, 0) == &t->select->results[0];
}

/* The states of what is carried as a step begins; false: a row may be in another one. */
static bool begin(Trim *t)
{
    Block *body = t->loop->blocks[0];
    State init[MAX_CARRIED];
    int n = t->loop->n_results;
    t->n = 0;
    t->unseen = false;
    for (int k = 0; k < n; k++) {
        init[k] = constant_state(ir_operand(t->loop, k + 3));
        if (init[k].is != NEGATIVE_INFINITY) continue;
        if (t->unseen || !is_running_maximum(t, k)) return false;
        t->unseen = true;
    }
    for (int k = 0; k < n; k++) {
        bool least = init[k].is == NEGATIVE_INFINITY;
        if (t->unseen && !least && init[k].is != ZERO) return false;
        bool above = least || (is_above(init[k]) && is_running_maximum(t, k));
        State seen = { CARRIED, k, above };
        remember(t, body->args[k + 1], seen, t->unseen ? init[k] : seen);
    }
    return true;
}

/* Whether the step gives back all that it got where the mask of t->select is false. */
static bool is_neutral(Trim *t)
{
    const Block *body = t->loop->blocks[0];
    if (!begin(t)) return false;
    for (Instr *i = body->first; i->next; i = i->next)
        if (i->n_results == 1 && !i->n_blocks)
            remember(t, &i->results[0], result_state(t, i, SEEN), result_state(t, i, UNSEEN));
    for (int k = 0; k < t->loop->n_results; k++) {
        const Value *next = ir_operand(ir_terminator(body), k);
        State seen = state_of(t, next, SEEN), unseen = state_of(t, next, UNSEEN);
        if (seen.is != CARRIED || seen.which != k) return false;
        if (t->unseen && !same_state(unseen, state_of(t, body->args[k + 1], UNSEEN))) return false;
    }
    return true;
}

/* --- bounds ------------------------------------------------------------------------------------------ */

static void collect_compares(Trim *t, Value *mask, int depth)
{
    Instr *d = mask->def;
    if (!d || d->block != t->loop->blocks[0] || depth > MAX_DEPTH) return;
    if (d->op == OP_AND || d->op == OP_BROADCAST || d->op == OP_RESHAPE || d->op == OP_SPLAT)
        for (int k = 0; k < d->n_operands; k++) collect_compares(t, ir_operand(d, k), depth + 1);
    else if ((d->op == OP_LT || d->op == OP_LE || d->op == OP_GT || d->op == OP_GE) && is_tile(mask) &&
             t->n_compares < MAX_COMPARES)
        t->compares[t->n_compares++] = d;
}

/* A form that is >= 0 if and only if the comparison is true for some element. */
static bool some_form(Trim *t, const Instr *i, Affine *out)
{
    bool less = i->op == OP_LT || i->op == OP_LE, strict = i->op == OP_LT || i->op == OP_GT;
    Affine a, b, most = { 0 };
    if (!dtype_is_int(ir_operand(i, 0)->type->dtype) || !affine_of(t->facts, ir_operand(i, 0), &a) ||
        !affine_of(t->facts, ir_operand(i, 1), &b))
        return false;
    Affine *low = less ? &a : &b, *high = less ? &b : &a; /* true where high - low - strict >= 0 */
    if (!affine_add(low, high, -1) || !affine_least(low, i->results[0].type) || !affine_add(&most, low, -1))
        return false;
    *out = most;
    return !strict || !__builtin_sub_overflow(out->constant, 1, &out->constant);
}

static bool is_loaded(const Value *v, int depth)
{
    const Instr *d = v->def;
    if (!d || depth > MAX_DEPTH) return false;
    if (d->op == OP_LOAD || d->op == OP_GATHER) return true;
    for (int k = 0; k < d->n_operands && !d->n_blocks; k++)
        if (is_loaded(ir_operand(d, k), depth + 1)) return true;
    return false;
}

/* Whether all atoms are known before the loop, and one of them is loaded. */
static bool is_loaded_before(const Trim *t, const Affine *rest)
{
    bool loaded = false;
    for (int n = 0; n < rest->n; n++) {
        if (!ir_defined_outside(rest->terms[n].atom, t->loop->blocks[0])) return false;
        loaded |= is_loaded(rest->terms[n].atom, 0);
    }
    return loaded;
}

/* Whether no sum on the way to the form's value wraps, with room for a quotient that is rounded up. */
static bool stays_exact(const Trim *t, const Affine *form)
{
    enum { HALF_BITS = 62 };
    int64_t lo = 0, hi = 0;
    for (int n = 0; n <= form->n; n++) {
        RangeInfo r = { form->constant, form->constant, 1 };
        int64_t c = n < form->n ? form->terms[n].coef : 1, a, b;
        if (n < form->n) r = value_range(t->facts, form->terms[n].atom);
        if (__builtin_mul_overflow(c < 0 ? r.hi : r.lo, c, &a) ||
            __builtin_mul_overflow(c < 0 ? r.lo : r.hi, c, &b) || __builtin_add_overflow(lo, a, &lo) ||
            __builtin_add_overflow(hi, b, &hi) || lo < -(1ll << HALF_BITS) || hi > 1ll << HALF_BITS)
            return false;
    }
    return true;
}

/* The new bound `v`, joined to the old one in the counter's type: between the old bounds, where v may exceed
 * that type. */
static void set_bound(Trim *t, Builder *b, bool first, Value *v)
{
    Value *old[2] = { ir_operand(t->loop, 0), ir_operand(t->loop, 1) };
    DType d = old[0]->type->dtype;
    if (d != DT_INDEX) {
        v = ir_bin(b, first ? OP_MIN : OP_MAX, v, ir_cast(b, old[first], DT_INDEX));
        v = ir_bin(b, first ? OP_MAX : OP_MIN, v, ir_cast(b, old[!first], DT_INDEX));
        ir_set_operand(t->loop, !first, ir_cast(b, v, d));
    } else ir_set_operand(t->loop, !first, ir_bin(b, first ? OP_MAX : OP_MIN, old[!first], v));
}

/* Moves one bound of the loop to where the comparison is true for some element. */
static bool move_bound(Trim *t, const Instr *compare)
{
    Value *j = t->loop->blocks[0]->args[0], *v;
    Affine form, rest, var, zero = { 0 };
    if (!some_form(t, compare, &form)) return false;
    int64_t c = affine_coef(t->facts, &form, j);
    rest = form;
    if (!c || !affine_of(t->facts, j, &var) || !affine_add(&rest, &var, -c) || !is_loaded_before(t, &rest))
        return false;
    Builder b = ir_before(t->loop);
    b.loc = t->loop->loc;
    if (c > 0) { /* j >= ceil(-rest / c) */
        if (!affine_add(&zero, &rest, -1) || !stays_exact(t, &zero)) return false;
        v = ir_bin(&b, OP_MAX, affine_emit(&b, &zero), ir_index(&b, 0));
        if (c != 1) v = ir_bin(&b, OP_CDIV, v, ir_index(&b, c));
        set_bound(t, &b, true, v);
    } else { /* j < floor(rest / -c) + 1, which is at most 0 where the quotient is not exact */
        if (__builtin_sub_overflow(rest.constant, c, &rest.constant) || !stays_exact(t, &rest)) return false;
        v = affine_emit(&b, &rest);
        if (c != -1) v = ir_bin(&b, OP_DIV, v, ir_index(&b, -c));
        set_bound(t, &b, false, v);
    }
    t->trimmed++;
    return true;
}

static bool writes(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (op_info[i->op].flags & OPF_WRITE) return true;
        for (int k = 0; k < i->n_blocks; k++)
            if (writes(i->blocks[k])) return true;
    }
    return false;
}

static bool suitable(Trim *t)
{
    int64_t step;
    return t->loop->op == OP_FOR && ir_is_const(ir_operand(t->loop, 2), &step) && step == 1 &&
           t->loop->n_results > 0 && t->loop->n_results <= MAX_CARRIED && !writes(t->loop->blocks[0]) &&
           value_range(t->facts, ir_operand(t->loop, 0)).lo >= 0;
}

static bool trim_loop(Trim *t)
{
    bool progress = false;
    for (Instr *i = t->loop->blocks[0]->first; i; i = i->next) {
        if (i->op != OP_WHERE || !is_tile(&i->results[0])) continue;
        t->select = i;
        t->n_compares = 0;
        collect_compares(t, ir_operand(i, 0), 0);
        if (!t->n_compares || !is_neutral(t)) continue;
        for (int k = 0; k < t->n_compares; k++) progress |= move_bound(t, t->compares[k]);
        return progress; /* its facts no longer hold */
    }
    return progress;
}

static bool trim_block(Trim *t, Func *f, Block *b)
{
    bool progress = false;
    for (Instr *i = b->first; i; i = i->next) {
        for (int k = 0; k < i->n_blocks; k++) progress |= trim_block(t, f, i->blocks[k]);
        if (i->op != OP_FOR) continue;
        t->loop = i;
        t->facts = facts_new(t->c->scratch, f);
        if (suitable(t)) progress |= trim_loop(t);
    }
    return progress;
}

static bool mask_trim_func(PassContext *c, Func *f)
{
    Trim *t = arena_new(c->scratch, Trim);
    t->c = c;
    bool progress = trim_block(t, f, f->body);
    pass_count(c, "bounds of loops from masks", t->trimmed);
    return progress;
}

bool pass_mask_trim(PassContext *c, Module *m) { return pass_each_func(c, m, mask_trim_func); }
