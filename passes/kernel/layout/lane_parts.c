/* lane-parts: leaves each lane what it has of a row, where a loop only sums it up, and puts the lanes' parts
 * together behind the loop.
 *
 *   %l = for .. (%x = 0) {                             %l = for .. (%x = 0) {
 *       %s = reduce_sum %p                                 %s = reduce_sum %p {lanes = apart}
 *       %y = fma %x, %alpha, %s                ->          %y = fma %x, %alpha, %s
 *       yield %y                                           yield %y
 *   }                                                  }
 *   %o = div %acc, (broadcast %l)                      %l' = reduce_sum %l {lanes = joined}
 *                                                      %o = div %acc, (broadcast %l')
 *
 * The lanes that hold a row have the same copy of its statistics. A sum's copies become the parts of the
 * lanes: a value that is zero, or a sum of such values, or such a value times a factor that all lanes have,
 * and what loops and ifs hand on of them. Every other use gets the joined value. So each step does without
 * the exchanges between lanes, which follow each other.
 *
 * A maximum, or its product with a scale above zero, is only compared with a bound that all lanes have, and
 * the comparison voted on, in steps that keep their maxima (lazy_choice.c). The vote is the same of parts:
 * some row's maximum is not below its bound where some part of it is not, and NaN is never below. The branch
 * that takes a new maximum joins them.
 *
 * Requires: layouts; rows that lie within a warp, where all lanes with copies of a row's value have parts of
 * the row; sums of 32 or 64 bits; factors of floats that never exceed one in magnitude (signs.c), so that
 * none makes an infinity of a part, or meets a part of zero as one. Keeps: maxima and votes; sums up to their
 * order. */
#include "passes/kernel/layout/signs.h"
#include "passes/kernel/schedule/schedule.h"

typedef struct Lanes {
    KernelContext *c;
    bool *apart;           /* by value: each lane has a part */
    uint32_t *of;          /* by value: another value of the same sum, up to one that stands for all */
    int *reduced, *joined; /* by the value that stands for a sum: the most loops around a reduction of it, and
                              around a place where parts are joined */
    ValueList values;      /* that may be apart */
} Lanes;

static bool is_apart(const Lanes *c, const Value *v) { return c->apart[v->id]; }

/* --- what hands values on ---------------------------------------------------------------------------- */

/* The arguments and results that become what this use hands on. */
static int handed_on(const Use *u, Value *to[2])
{
    Instr *i = u->user, *p = i->block->parent;
    int k = (int)(u - i->operands);
    if (i->op == OP_FOR && k >= 3) {
        to[0] = i->blocks[0]->args[k - 2];
        to[1] = &i->results[k - 3];
        return 2;
    }
    if (i->op == OP_WHILE) return to[0] = i->blocks[0]->args[k], 1;
    if (i->op == OP_CONDITION && k > 0) {
        to[0] = p->blocks[1]->args[k - 1];
        to[1] = &p->results[k - 1];
        return 2;
    }
    if (i->op != OP_YIELD || !p) return 0;
    if (p->op == OP_FOR) {
        to[0] = p->blocks[0]->args[k + 1];
        to[1] = &p->results[k];
        return 2;
    }
    if (p->op == OP_WHILE) return to[0] = p->blocks[0]->args[k], 1;
    return p->op == OP_IF ? (to[0] = &p->results[k], 1) : 0;
}

/* The values that an argument or a result becomes; 0: it is computed. */
static int taken_from(const Value *v, Value *from[2])
{
    const Block *b = v->def ? NULL : v->block;
    const Instr *p = v->def ? v->def : b->parent;
    int k = v->index;
    if (!p) return 0;
    if (p->op == OP_FOR && (!b || k > 0)) {
        k -= b != NULL;
        from[0] = ir_operand(p, 3 + k);
        from[1] = ir_operand(ir_terminator(p->blocks[0]), k);
        return 2;
    }
    if (p->op == OP_WHILE && b == p->blocks[0]) {
        from[0] = ir_operand(p, k);
        from[1] = ir_operand(ir_terminator(p->blocks[1]), k);
        return 2;
    }
    if (p->op == OP_WHILE) return from[0] = ir_operand(ir_terminator(p->blocks[0]), k + 1), 1;
    if (p->op != OP_IF || b) return 0;
    for (int a = 0; a < 2; a++) from[a] = ir_operand(ir_terminator(p->blocks[a]), k);
    return 2;
}

/* --- what may be apart ------------------------------------------------------------------------------- */

/* Whether a lane's part times the factor is as finite as the part, and so NaN only where the row's sum is:
 * integers wrap alike. */
static bool is_factor(const Lanes *c, const Value *v)
{ return !dtype_is_float(v->type->dtype) || signs_within_one(c->c->f, v); }

/* The operand that is apart of a product of two; NULL: the product is none of a part and a factor. */
static const Value *scaled(const Lanes *c, const Instr *i)
{
    for (int k = 0; k < 2; k++)
        if (is_apart(c, ir_operand(i, k)) && !is_apart(c, ir_operand(i, 1 - k)) &&
            is_factor(c, ir_operand(i, 1 - k)))
            return ir_operand(i, k);
    return NULL;
}

/* Whether the value is zero, or NaN, in all lanes: also times a factor, and as either choice. */
static bool is_nothing(const Lanes *c, const Value *v, int depth)
{
    Value *from[2];
    const Instr *i = v->def;
    if (kernel_is_zero(v)) return true;
    if (!i || depth > 8) return false;
    if (i->op == OP_MATERIALIZE) return is_nothing(c, ir_operand(i, 0), depth + 1);
    if (i->op == OP_IF)
        return taken_from(v, from) == 2 && is_nothing(c, from[0], depth + 1) &&
               is_nothing(c, from[1], depth + 1);
    for (int k = 0; k < 2 && i->op == OP_MUL; k++)
        if (is_nothing(c, ir_operand(i, k), depth + 1) && is_factor(c, ir_operand(i, 1 - k))) return true;
    return false;
}

static bool is_part(const Lanes *c, const Value *v) { return is_apart(c, v) || is_nothing(c, v, 0); }

static bool is_seed(const Lanes *c, const Instr *i);

/* Whether the value is apart if those are that it follows from. */
static bool may_be_apart(const Lanes *c, const Value *v)
{
    Value *from[2];
    int n = taken_from(v, from);
    const Instr *i = v->def;
    for (int k = 0; k < n; k++)
        if (!is_part(c, from[k]) || (is_apart(c, from[k]) && from[k]->type != v->type)) return false;
    if (n || !i) return n > 0;
    if (i->op == OP_REDUCE_SUM) return is_seed(c, i);
    for (int k = 0; k < i->n_operands; k++)
        if (is_apart(c, ir_operand(i, k)) && ir_operand(i, k)->type != v->type) return false;
    if (i->op == OP_ADD || i->op == OP_SUB)
        return is_part(c, ir_operand(i, 0)) && is_part(c, ir_operand(i, 1));
    if (i->op == OP_MUL) return scaled(c, i);
    return i->op == OP_FMA && scaled(c, i) && is_part(c, ir_operand(i, 2));
}

/* Whether all of a row lies in one warp. */
static bool within_warps(const Layout *l, int axis)
{
    int32_t c0[TILE_MAX_RANK], c1[TILE_MAX_RANK];
    layout_element(l, 0, 0, 0, 0, c0);
    for (uint32_t w = 0; w < layout_warps(l); w++) {
        layout_element(l, 0, 0, w, 0, c1);
        if (c1[axis] != c0[axis]) return false;
    }
    return layout_blocks(l) == 1;
}

/* Whether the lanes of a row have parts of it, and all that have a copy of the result have one. */
static bool has_parts(const Lanes *c, const Instr *i)
{
    const Type *t = ir_operand(i, 0)->type, *r = ir_result(i)->type;
    if (t->kind != TYPE_TILE || r->kind != TYPE_TILE || !t->layout || !r->layout ||
        ir_attr_int(i, ATTR_DROP, 0) || dtype_bits(r->dtype) < 32 || ir_attr(i, ATTR_LANES))
        return false;
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    const Layout *l = layouts_get(&c->c->p->layouts, t), *row = layouts_get(&c->c->p->layouts, r);
    uint32_t lanes = layout_lanes_along(l, axis);
    return lanes && within_warps(l, axis) && lanes == layout_lane_copies(row);
}

/* --- sums -------------------------------------------------------------------------------------------- */

static bool is_seed(const Lanes *c, const Instr *i) { return i->op == OP_REDUCE_SUM && has_parts(c, i); }

static void take(Lanes *c, Value *v)
{
    if (c->apart[v->id] || v->type->kind != TYPE_TILE || !v->type->layout) return;
    c->apart[v->id] = true;
    vec_push(&c->c->s->arena, &c->values, v);
}

static void find_seed(void *user, Instr *i)
{
    if (is_seed(user, i)) take(user, ir_result(i));
}

/* Whether a use of a part makes another part of it, if its result may be one. */
static bool adds_up(const Instr *i)
{ return i->op == OP_ADD || i->op == OP_SUB || i->op == OP_MUL || i->op == OP_FMA; }

/* All values that reductions reach are apart at first; then fewer and fewer, until the rest agrees. */
static void find_apart(Lanes *c)
{
    Value *to[2];
    ir_walk(c->c->f->body, find_seed, c);
    for (size_t k = 0; k < c->values.len; k++)
        for (Use *u = c->values.data[k]->uses; u; u = u->next) {
            for (int n = handed_on(u, to); n-- > 0;) take(c, to[n]);
            if (adds_up(u->user)) take(c, ir_result(u->user));
        }
    for (bool again = true; again;) {
        again = false;
        for (size_t k = 0; k < c->values.len; k++) {
            const Value *v = c->values.data[k];
            if (!is_apart(c, v) || may_be_apart(c, v)) continue;
            c->apart[v->id] = false;
            again = true;
        }
    }
}

static uint32_t sum_of(Lanes *c, const Value *v)
{
    uint32_t x = v->id;
    while (c->of[x] != x) x = c->of[x] = c->of[c->of[x]];
    return x;
}

/* The loops around a block. What is done where a program ends is outside of the loop over its steps. */
static int loops_around(const Block *b)
{
    int n = 0;
    for (const Instr *i = b->parent; i; i = i->block->parent) {
        int64_t border = ir_attr_int(i, ATTR_BORDER, BORDER_NONE);
        n += i->op == OP_FOR || i->op == OP_WHILE;
        n -= border == BORDER_CHANGE || border == BORDER_END;
    }
    return n;
}

static const Block *home(const Value *v) { return v->def ? v->def->block : v->block; }

/* Whether this use needs the row's value. */
static bool needs_whole(const Lanes *c, const Use *u)
{
    Value *to[2];
    int n = handed_on(u, to);
    return n ? !is_apart(c, to[0]) : !adds_up(u->user) || !is_apart(c, ir_result(u->user));
}

static bool is_needed_whole(const Lanes *c, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (needs_whole(c, u)) return true;
    return false;
}

/* Puts together what is one sum, and counts the loops around its reductions and where its parts are joined.
 */
static void weigh(Lanes *c)
{
    Value *to[2];
    for (size_t k = 0; k < c->values.len; k++) {
        const Value *v = c->values.data[k];
        for (Use *u = v->uses; is_apart(c, v) && u; u = u->next) {
            int n = handed_on(u, to);
            if (!n && adds_up(u->user)) to[n++] = ir_result(u->user);
            while (n-- > 0)
                if (is_apart(c, to[n])) c->of[sum_of(c, to[n])] = sum_of(c, v);
        }
    }
    for (size_t k = 0; k < c->values.len; k++) {
        const Value *v = c->values.data[k];
        if (!is_apart(c, v)) continue;
        uint32_t sum = sum_of(c, v);
        int around = loops_around(home(v));
        if (v->def && v->def->op == OP_REDUCE_SUM && around > c->reduced[sum]) c->reduced[sum] = around;
        if (is_needed_whole(c, v) && around > c->joined[sum]) c->joined[sum] = around;
    }
}

static Value *join(Lanes *c, Builder b, Op op, Value *v, int axis)
{
    Attrs how = ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_DROP, 0), a_int(ATTR_LANES, LANES_JOINED));
    Value *whole = ir_result(ir_build_raw(&b, op, &v, 1, how, &v->type, 1));
    whole->name = v->name;
    return whole;
}

static void leave_apart(Lanes *c, Instr *reduction)
{ ir_set_attr(c->c->s, reduction, a_int(ATTR_LANES, LANES_APART)); }

/* The axis of a sum: of a reduction among its values. */
static int axis_of(Lanes *c, uint32_t sum)
{
    for (size_t k = 0; k < c->values.len; k++) {
        const Value *v = c->values.data[k];
        if (is_apart(c, v) && v->def && v->def->op == OP_REDUCE_SUM && sum_of(c, v) == sum)
            return (int)ir_attr_int(v->def, ATTR_AXIS, 0);
    }
    return 0;
}

static void join_where_needed(Lanes *c, Value *v)
{
    Builder b = v->def ? ir_after(v->def)
                       : (Builder){ .module = c->c->f->module, .block = v->block, .before = v->block->first };
    b.loc = v->def ? v->def->loc : v->block->parent->loc;
    Value *whole = join(c, b, OP_REDUCE_SUM, v, axis_of(c, sum_of(c, v)));
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (u->user != whole->def && needs_whole(c, u))
            ir_set_operand(u->user, (int)(u - u->user->operands), whole);
    }
}

static void take_sums(Lanes *c)
{
    find_apart(c);
    weigh(c);
    for (size_t k = 0; k < c->values.len; k++) {
        Value *v = c->values.data[k];
        uint32_t sum = sum_of(c, v);
        if (!is_apart(c, v) || c->joined[sum] >= c->reduced[sum]) continue;
        if (v->def && v->def->op == OP_REDUCE_SUM) leave_apart(c, v->def);
        if (is_needed_whole(c, v)) join_where_needed(c, v);
    }
}

/* --- maxima ------------------------------------------------------------------------------------------ */

/* Whether the value is only voted on, negated. */
static bool is_voted_against(const Value *v)
{
    if (!v->uses) return false;
    for (const Use *u = v->uses; u; u = u->next) {
        if (u->user->op != OP_NOT) return false;
        for (const Use *w = ir_result(u->user)->uses; w; w = w->next)
            if (w->user->op != OP_WARPGROUP_ANY) return false;
    }
    return true;
}

/* Whether the use is `not max < bound` under a vote. */
static bool is_compared(const Use *u)
{
    const Instr *i = u->user;
    return i->op == OP_LT && u == &i->operands[0] && is_voted_against(ir_result(i));
}

/* The rare branch, beside the value, that holds the user; NULL: there is none. */
static Block *rare_branch(const Value *v, const Instr *user)
{
    for (Block *b = user->block; b && b != v->def->block; b = b->parent ? b->parent->block : NULL)
        if (b->parent && b->parent->block == v->def->block)
            return ir_is_rare(b->parent) && b == b->parent->blocks[1] ? b : NULL;
    return NULL;
}

static bool is_above_zero(const Lanes *c, const Value *v)
{
    double x;
    if (ir_is_const_float(v, &x)) return x > 0 && isfinite(x);
    v = ir_repeated(v);
    return !v->def && v->block == c->c->f->body && v->type->kind == TYPE_SCALAR &&
           c->c->f->params[v->index].lo > 0;
}

/* The product of a maximum with scales, which is the maximum of the products. */
static Value *scaled_maximum(const Lanes *c, Value *v)
{
    for (;;) {
        Instr *i = v->uses && !v->uses->next ? v->uses->user : NULL;
        if (!i || i->op != OP_MUL || !is_above_zero(c, ir_operand(i, ir_operand(i, 0) == v)) ||
            ir_result(i)->type != v->type || i->block != v->def->block)
            return v;
        v = ir_result(i);
    }
}

static void take_maximum(void *user, Instr *i)
{
    Lanes *c = user;
    Block *rare = NULL;
    bool compared = false;
    if (i->op != OP_REDUCE_MAX || !dtype_is_float(ir_result(i)->type->dtype) || !has_parts(c, i)) return;
    Value *v = scaled_maximum(c, ir_result(i));
    for (const Use *u = v->uses; u; u = u->next) {
        if (is_compared(u)) {
            compared = true;
            continue;
        }
        Block *b = rare_branch(v, u->user);
        if (!b || (rare && b != rare)) return;
        rare = b;
    }
    if (!compared || !rare) return;
    Builder b = { .module = c->c->f->module, .block = rare, .before = rare->first, .loc = i->loc };
    Value *whole = join(c, b, OP_REDUCE_MAX, v, (int)ir_attr_int(i, ATTR_AXIS, 0));
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (u->user != whole->def && !is_compared(u))
            ir_set_operand(u->user, (int)(u - u->user->operands), whole);
    }
    leave_apart(c, i);
}

bool kernel_pass_lane_parts(KernelContext *k)
{
    uint32_t before = kernel_values(k), n = before;
    Arena *a = &k->s->arena;
    Lanes c = { .c = k,
        .apart = arena_array(a, bool, n),
        .of = arena_array(a, uint32_t, n),
        .reduced = arena_array(a, int, n),
        .joined = arena_array(a, int, n) };
    for (uint32_t v = 0; v < n; v++) c.of[v] = v;
    take_sums(&c);
    ir_walk(k->f->body, take_maximum, &c);
    return kernel_grew(k, before);
}
