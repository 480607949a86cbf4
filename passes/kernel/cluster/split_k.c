/* split-k: divides a loop that only adds among the CTAs of a thread block cluster (sm_90 and later), or of
 * several, for grids of fewer programs than the device has multiprocessors. The hint `split_k = n` asks for
 * it.
 *
 *   %s = for %k = %lo to %hi step %st (%acc = 0) { ... yield mma(%a, %b, %acc) }
 *   %x = add %s, broadcast(load BIAS[j..])                 [TM, TN]
 *   store C[i.., j..], cast %x
 *
 * becomes
 *
 *   %r = cluster_rank
 *   %s = for %k = %lo + %st*first(%r) to %lo + %st*first(%r + 1) step %st (%acc = 0) { ... }
 *   %t = cluster_combine %s {rmw = add, axis = 1, count = n}     of all parts, this CTA's [TM, TN / n]
 *   %x = add %t, broadcast(load BIAS[j + %r*TN/n ..])
 *   store C[i.., j + %r*TN/n ..], cast %x
 *
 * A carried value counts as a sum if its value of one iteration reaches the next only by adding to it: as
 * a product's accumulator, by add, sub or fma, or through an inner loop that does the same; or by max, or
 * by min; or by adding to it under a factor exp2(-m c) that follows a carried maximum m, as online softmax
 * does (kernel_online). Each CTA then has its own m, and
 *
 *   %M = cluster_combine %m {rmw = max, count = n}       without an axis: all of them have it
 *   %f = where(%m == %M, 1, exp2((%m - %M) c));  %l' = mul %l, %f;  %acc' = mul %acc, %f
 *
 * brings its sums to the largest maximum before they are joined. A CTA may begin where a row sees nothing
 * yet, so what exponents subtract is 0 there (where(m == -inf, 0, m)), instead of giving NaN.
 *
 * Steps are contiguous, and the CTAs' numbers of steps differ by at most one. The parts are joined in the
 * order of the CTAs, so that results are the same in every run. They differ from the loop's own only by
 * the order of one sum, within the bound of mma and of sums.
 *
 * Above 8 parts, or where no axis of the tile divides into as many, a CTA's steps follow from its number in
 * the cluster and that of the cluster, and
 *
 *   %u = workspace_combine %t {kinds = [0], count = clusters}      goes on in the last cluster alone
 *
 * joins the slices of all clusters, and of all sums at once. Where no number of CTAs divides the tile, the
 * parts are CTAs alone.
 *
 * What follows is done once: each CTA finishes a slice of the tile along one axis, with narrower windows
 * of loads and stores. The pass takes the last axis that all of it can follow. A loop's sum may continue
 * in another such loop, as the beginning of a sum of the same kind. That loop uses nothing else that
 * follows from a sum, of which a CTA has only a slice.
 *
 * Requires: loops in the kernel's body; no access to what is stored but through the same window; no other
 * effects than stores of what was summed, and scatters behind the loops, of what else there is, to tensors
 * that only the loops read (scatter_once); an axis that everything between sums and stores keeps
 * (element-wise operations, broadcasts, reshapes and permutes that keep it whole, reductions along
 * others), or else sums that may meet in the workspace (split_through_workspace). Otherwise nothing changes
 * and a performance note says why. Does not handle: persistent grids; a CTA does one program. */
#include "passes/kernel/cluster/split_k.h"
#include <math.h>

/* --- the change -------------------------------------------------------------------------------------- */

/* The number of the loop's steps. */
static Value *steps_of(Builder *b, const Instr *loop)
{
    Value *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1), *step = ir_operand(loop, 2);
    int64_t k;
    Value *n = ir_is_const(lo, &k) && k == 0 ? hi : ir_bin(b, OP_SUB, hi, lo);
    n = ir_bin(b, OP_MAX, n, ir_const_int(b, lo->type->dtype, 0));
    return ir_is_const(step, &k) && k == 1 ? n : ir_bin(b, OP_CDIV, n, step);
}

/* The loop does its steps `from` to `to`. What it begins with is added where `first` holds: the initial value
 * of a sum must be added once. A maximum may include it many times. */
static void bound(Division *c, Instr *loop, Builder *b, Value *const *ends, Value *first)
{
    Value *lo = ir_operand(loop, 0), *step = ir_operand(loop, 2);
    int64_t k;
    for (int e = 0; e < 2; e++) {
        Value *x = ends[e];
        if (!(ir_is_const(step, &k) && k == 1)) x = ir_bin(b, OP_MUL, x, step);
        if (!(ir_is_const(lo, &k) && k == 0)) x = ir_bin(b, OP_ADD, x, lo);
        ir_set_operand(loop, e, x);
    }
    for (int r = 0; r < loop->n_results; r++) {
        Value *init = ir_operand(loop, 3 + r);
        if (split_goes_on(c, &loop->operands[3 + r]) || split_sum_kind(c, loop, r) != RMW_ADD ||
            kernel_is_zero(init))
            continue;
        DType t = init->type->dtype;
        Value *none = dtype_is_float(t) ? ir_const_float(b, t, 0) : ir_const_int(b, t, 0);
        Value *nothing = ir_splat(b, none, init->type->rank, init->type->shape),
              *is_first = ir_splat(b, first, init->type->rank, init->type->shape);
        ir_set_operand(loop, 3 + r, ir_op(b, OP_WHERE, NULL, NO_ATTRS, is_first, init, nothing));
    }
}

/* Divides n steps into parts that differ by at most one: the first n % parts have one more. */
static void cut(Division *c, Instr *loop)
{
    Builder b = ir_before(loop);
    DType d = ir_operand(loop, 0)->type->dtype;
    Value *n = steps_of(&b, loop), *zero = ir_const_int(&b, d, 0), *one = ir_const_int(&b, d, 1),
          *parts = ir_const_int(&b, d, c->parts), *rank = ir_cast(&b, c->part, d);
    Value *each = ir_bin(&b, OP_DIV, n, parts), *rest = ir_bin(&b, OP_REM, n, parts),
          *more = ir_bin(&b, OP_LT, rank, rest);
    Value *extra = ir_bin(&b, OP_MIN, rank, rest),
          *from = ir_bin(&b, OP_ADD, ir_bin(&b, OP_MUL, each, rank), extra);
    Value *last = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, more, one, zero),
          *to = ir_bin(&b, OP_ADD, ir_bin(&b, OP_ADD, from, each), last);
    bound(c, loop, &b, (Value *[]){ from, to }, ir_bin(&b, OP_EQ, rank, zero));
}

void split_cut_between(Division *c, Instr *loop, Value *from, Value *to, Value *of)
{
    Builder b = ir_before(loop);
    DType d = ir_operand(loop, 0)->type->dtype;
    Value *n = steps_of(&b, loop), *whole = ir_cast(&b, of, d), *ends[2] = { from, to };
    for (int e = 0; e < 2; e++)
        ends[e] = ir_bin(&b, OP_DIV, ir_bin(&b, OP_MUL, n, ir_cast(&b, ends[e], d)), whole);
    bound(c, loop, &b, ends, ir_bin(&b, OP_EQ, from, ir_const_int(&b, DT_I32, 0)));
}

/* Combines the partial sums: all CTAs get the result, or each gets a slice. */
static Instr *combine(Division *c, Builder *b, Value *v, int rmw, int axis, bool whole)
{
    int64_t bytes = type_elements(v->type) * dtype_bytes(v->type->dtype),
            most = 1024 * (int64_t)dtype_bytes(v->type->dtype);
    /* whole: four lanes hold a row, or each lane of a warp holds all of it */
    bytes = whole ? (4 * bytes > most ? 4 * bytes : most) : bytes / c->ctas;
    int others = c->ctas - 1;
    c->p->parts_bytes += (bytes + 1023) / 1024 * 1024 * others + 1024;
    return whole ? ir_build(b, OP_CLUSTER_COMBINE, &v, 1,
                       ATTRS(a_int(ATTR_RMW, rmw), a_int(ATTR_COUNT, c->ctas)), NULL, 0)
                 : ir_build(b, OP_CLUSTER_COMBINE, &v, 1,
                       ATTRS(a_int(ATTR_RMW, rmw), a_int(ATTR_AXIS, axis), a_int(ATTR_COUNT, c->ctas)), NULL,
                       0);
}

static void use_instead(Division *c, Value *v, const Instr *but, Value *by)
{
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (u->user != but && !split_goes_on(c, u)) ir_set_operand(u->user, (int)(u - u->user->operands), by);
    }
}

/* The subtrahend of exponents: the maximum, or 0 as long as there is none. */
static void guard(const Online *o)
{
    Value *top = ir_operand(ir_terminator(o->loop->blocks[0]), o->max);
    const Type *t = top->type;
    Builder b = ir_after(top->def);
    b.loc = top->def->loc;
    Value *none = ir_splat(&b, ir_const_float(&b, t->dtype, -INFINITY), t->rank, t->shape),
          *zero = ir_splat(&b, ir_const_float(&b, t->dtype, 0), t->rank, t->shape);
    Value *empty = ir_bin(&b, OP_EQ, top, none),
          *base = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, empty, zero, top);
    for (Use *u = top->uses, *next; u; u = next) {
        next = u->next;
        if (u->user != empty->def && u->user != base->def && u->user->op != OP_YIELD)
            ir_set_operand(u->user, (int)(u - u->user->operands), base);
    }
}

/* Rescales the values under the loop's own maximum to the maximum of all CTAs. */
static void bring_together(Division *c, const Online *o)
{
    Instr *loop = o->loop;
    Builder b = ir_after(loop);
    b.loc = loop->loc;
    Value *m = &loop->results[o->max];
    if (!o->guarded) guard(o);
    for (const Use *u = m->uses; u; u = u->next)
        if (split_goes_on(c, u)) return;
    const Type *t = m->type;
    Value *most = ir_result(combine(c, &b, m, RMW_MAX, -1, true)), *same = ir_bin(&b, OP_EQ, m, most),
          *less = ir_bin(&b, OP_SUB, m, most);
    Value *scale = ir_splat(&b, o->scale, t->rank, t->shape),
          *one = ir_splat(&b, ir_const_float(&b, t->dtype, 1), t->rank, t->shape);
    Value *power = ir_op(&b, OP_EXP2, NULL, NO_ATTRS, ir_bin(&b, OP_MUL, less, scale)),
          *f = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, same, one, power);
    for (int k = 0; k < loop->n_results; k++) {
        Value *v = &loop->results[k];
        if (!o->under[k] || !v->uses) continue;
        Value *by = type_same_shape(v->type, t)
                        ? f
                        : ir_emit(&b, OP_BROADCAST, &f, 1, NO_ATTRS,
                              type_tile(c->s, t->dtype, v->type->rank, v->type->shape));
        Value *under = ir_bin(&b, OP_MUL, v, by);
        under->name = v->name;
        use_instead(c, v, under->def, under);
    }
}

static void join(Division *c, const Sum *s, int axis)
{
    Value *v = &s->loop->results[s->k], *whole = v;
    const Online *o = split_online_of(c, s->loop);
    if (o && o->under[s->k]) v = ir_result(v->uses->user);
    Builder b = ir_after(v->def);
    b.loc = s->loop->loc;
    Instr *i = combine(c, &b, v, s->rmw, axis, v->type->shape[axis] == 1);
    use_instead(c, v, i, ir_result(i));
    ir_set_name(ir_result(i), whole->name);
    if (v->type->shape[axis] > 1) split_note_slice(c, ir_result(i), axis);
}

/* A tile that repeats a sum of rank 0, since tiles alone go through the workspace; any other sum itself. */
static Value *as_tile(Builder *b, Value *v)
{ return v->type->kind == TYPE_TILE ? v : ir_splat(b, v, 1, (int64_t[]){ 1 }); }

/* The element of such a tile. */
static Value *as_scalar(Builder *b, Value *tile)
{ return ir_op(b, OP_REDUCE_MAX, NULL, ATTRS(a_int(ATTR_AXIS, 0), a_int(ATTR_DROP, 1)), tile); }

/* Combines what the clusters have of all sums; without clusters, what the CTAs have. */
static void join_clusters(Division *c, int axis)
{
    const int n = (int)c->sums.len;
    Instr *last = c->loops.data[c->loops.len - 1];
    Value **parts = arena_array(&c->s->arena, Value *, c->sums.len);
    for (int k = 0; k < n; k++) {
        const Sum *s = &c->sums.data[k];
        Value *v = &s->loop->results[s->k];
        parts[k] = c->ctas > 1 ? ir_result(v->uses->user) : v;
    }
    for (Instr *i = last->next; i && i->op == OP_CLUSTER_COMBINE; i = i->next) last = i;
    Builder b = ir_after(last);
    b.loc = last->loc;
    Value **tiles = arena_array(&c->s->arena, Value *, c->sums.len);
    int64_t *kinds = arena_array(&c->s->arena, int64_t, c->sums.len);
    for (int k = 0; k < n; k++) {
        tiles[k] = as_tile(&b, parts[k]);
        kinds[k] = c->sums.data[k].rmw;
    }
    Instr *i = ir_build(&b, OP_WORKSPACE_COMBINE, tiles, n,
        ATTRS(a_ints(ATTR_KINDS, kinds, n), a_int(ATTR_COUNT, c->clusters)), NULL, 0);
    for (int k = 0; k < n; k++) {
        Value *whole = tiles[k] == parts[k] ? &i->results[k] : as_scalar(&b, &i->results[k]);
        use_instead(c, parts[k], tiles[k] == parts[k] ? i : tiles[k]->def, whole);
        ir_set_name(whole, parts[k]->name);
        if (c->ctas > 1 && parts[k]->type->shape[axis] > 1) split_note_slice(c, whole, axis);
    }
}

static void say(Division *c, const char *what)
{
    c->p->schedule =
        arena_printf(&c->s->arena, "%s  split: %s\n", c->p->schedule ? c->p->schedule : "", what);
}

/* Whether all sums are used behind the last loop alone, where their parts meet. */
static bool meet_at_once(Division *c)
{
    const Instr *last = c->loops.data[c->loops.len - 1];
    for (size_t k = 0; k < c->sums.len; k++) {
        const Sum *s = &c->sums.data[k];
        for (const Use *u = s->loop->results[s->k].uses; u; u = u->next)
            if (!split_goes_on(c, u) && ir_comes_before(u->user, last))
                return split_refuse(
                    c, u->user->loc, "a loop follows a sum that would go through the workspace");
    }
    return true;
}

/* Whether the division may go through the workspace: sums that meet at once, behind which all stores come and
 * no products. Producers would load the operands of those, and all clusters but the last end without them.
 * Shares of a last round (stream-k) have a single sum. */
bool split_through_workspace(Division *c)
{
    if (c->clusters < 2) return true;
    if (c->online.len || (c->shares && c->sums.len != 1))
        return split_refuse(c, c->f->loc, "more than one sum would go through the workspace");
    if (c->shares && c->sums.data[0].loop->results[c->sums.data[0].k].type->kind != TYPE_TILE)
        return split_refuse(c, c->f->loc, "its sum is a single number");
    if (!meet_at_once(c)) return false;
    const Instr *loop = c->loops.data[c->loops.len - 1];
    for (const Instr *i = c->f->body->first; i; i = i->next)
        if (i->op == OP_SCATTER && !c->shares)
            return split_refuse(c, i->loc, "it scatters, and its sum would go through the workspace");
    for (const Instr *i = c->f->body->first; i && i != loop; i = i->next)
        if (i->op == OP_STORE)
            return split_refuse(c, i->loc, "it stores before the sum that would go through the workspace");
    for (const Instr *i = loop->next; i; i = i->next)
        if (ir_is_or_holds(i, OP_MMA) || ir_is_or_holds(i, OP_MMA_SYNC))
            return split_refuse(c, i->loc, "a product follows the sum that would go through the workspace");
    return true;
}

/* Elements that do not follow from a sum are scattered once, by the first CTA of a cluster. It has the parts
 * of all others then (the last combination orders them), which have read what their loops read. */
static void scatter_once(Division *c, Instr *i)
{
    MemParts m;
    if (i->op != OP_SCATTER || !ir_mem_parts(i, &m)) return;
    Builder b = ir_before(i);
    const Type *t = m.values[0]->type;
    Value *first = ir_bin(&b, OP_EQ, c->rank, ir_const_int(&b, c->rank->type->dtype, 0)),
          *here = ir_splat(&b, first, t->rank, t->shape);
    Value *mask = m.mask ? ir_bin(&b, OP_AND, m.mask, here) : here, *operands[2 * TILE_MAX_RANK + 8];
    int n = 0;
    for (int k = 0; k < i->n_operands; k++) {
        Value *v = ir_operand(i, k);
        if (v == m.token && !m.mask) operands[n++] = mask;
        operands[n++] = v == m.mask && m.mask ? mask : v;
    }
    ir_set_operands(i, operands, n);
    ir_set_attr(c->s, i, a_int(ATTR_HAS_MASK, 1));
}

/* The axis of the slices that the CTAs of a cluster finish, by the fewest clusters that allow one. NO_AXIS:
 * the loops are not divided. WHOLE: each part is a CTA, of which the last finishes the tile. */
enum { NO_AXIS = -1, WHOLE = -2 };

static int find_axis(Division *c)
{
    int rank = 0, most = c->p->target->cluster_ctas;
    for (size_t k = 0; k < c->sums.len; k++)
        if (c->sums.data[k].loop->results[c->sums.data[k].k].type->rank > rank)
            rank = c->sums.data[k].loop->results[c->sums.data[k].k].type->rank;
    for (c->ctas = c->parts < most ? c->parts : most; c->ctas > 1; c->ctas--) {
        c->clusters = c->parts / c->ctas;
        if (c->parts % c->ctas) continue;
        if (!split_through_workspace(c)) return NO_AXIS;
        for (int a = rank - 1; a >= 0; a--)
            if (split_follow_all(c, a)) return a;
    }
    c->clusters = c->parts;
    return split_through_workspace(c) ? WHOLE : NO_AXIS;
}

static void say_how(Division *c, int axis)
{
    Arena *a = &c->s->arena;
    if (axis == WHOLE)
        say(c, arena_printf(a,
                   "the steps of each loop are divided among %d CTAs, whose sums meet in the workspace; the "
                   "last of them finishes the tile",
                   c->parts));
    else if (c->clusters > 1)
        say(c, arena_printf(a,
                   "the steps of each loop are divided among %d clusters of %d CTAs; each CTA has a part of "
                   "the tile along axis %d, which the last cluster finishes from the workspace",
                   c->clusters, c->ctas, axis));
    else
        say(c,
            arena_printf(a,
                "the steps of each loop are divided among the %d CTAs of a cluster, each of which finishes "
                "its part of the tile along axis %d",
                c->parts, axis));
}

/* The CTA's number in its cluster, and the number of its part. */
static void number_parts(Division *c)
{
    Builder b = {
        .module = c->f->module, .block = c->f->body, .before = c->f->body->first, .loc = c->f->loc
    };
    const Type *t = type_scalar(c->s, DT_I32);
    if (c->ctas > 1) {
        c->rank = c->part = ir_emit(&b, OP_CLUSTER_RANK, NULL, 0, NO_ATTRS, t);
        ir_set_name(c->rank, "part");
    }
    if (c->clusters < 2) return;
    Value *id = ir_emit(&b, OP_CLUSTER_ID, NULL, 0, ATTRS(a_int(ATTR_COUNT, c->clusters)), t);
    c->part = c->ctas < 2
                  ? id
                  : ir_bin(&b, OP_ADD, c->rank, ir_bin(&b, OP_MUL, id, ir_const_int(&b, DT_I32, c->ctas)));
}

static bool is_online_maximum(const Division *c, const Sum *s)
{
    const Online *o = split_online_of(c, s->loop);
    return o && o->max == s->k;
}

static void change(Division *c, int axis)
{
    Func *f = c->f;
    number_parts(c);
    for (size_t k = 0; k < c->loops.len; k++) cut(c, c->loops.data[k]);
    c->sliced.len = 0;
    c->make = true;
    /* Maxima that are used behind their loops first: what brings sums together uses each CTA's own. */
    for (size_t k = 0; k < c->sums.len; k++)
        if (is_online_maximum(c, &c->sums.data[k])) join(c, &c->sums.data[k], axis);
    for (size_t k = 0; k < c->online.len; k++) bring_together(c, &c->online.data[k]);
    for (size_t k = 0; k < c->sums.len && c->ctas > 1; k++)
        if (!is_online_maximum(c, &c->sums.data[k])) join(c, &c->sums.data[k], axis);
    if (c->clusters > 1) join_clusters(c, axis);
    Instr *last = NULL;
    for (Instr *i = f->body->first; i && c->rank; i = i->next) {
        if (i->op == OP_CLUSTER_COMBINE) last = i;
        if (i->op == OP_CLUSTER_COMBINE && c->starts_read) ir_set_attr(c->s, i, a_int(ATTR_SEM, SEM_ACQ_REL));
        if (i->op != OP_SCATTER) continue;
        scatter_once(c, i);
        ir_set_attr(c->s, last, a_int(ATTR_SEM, SEM_ACQ_REL));
    }
    for (Instr *i = f->body->first, *next; i && axis != WHOLE && !(op_info[i->op].flags & OPF_TERM);
        i = next) {
        next = i->next;
        if (!split_is_cut(c, i) && op_family(i->op) != OPS_COLLECTIVE && op_family(i->op) != OPS_PLACE &&
            !split_follow(c, i))
            ir_fail(c->s, i->loc, "split-k cannot cut what it found to follow the sums");
    }
    for (size_t k = c->sliced.len; k-- > 0;) /* users are behind what they use */
        if (c->sliced.data[k].made) split_leave_unread(c->sliced.data[k].v->def);
    ir_sweep(f->body);
}

/* What the target or another pass keeps from being divided. */
static bool may_divide(Division *c)
{
    const Target *t = c->p->target;
    if (t->cluster_ctas > 1)
        return !(c->p->cluster > 1) || split_refuse(c, c->f->loc, "its rows are spread over a cluster");
    return split_refuse(c, c->f->loc,
        t->kind == TARGET_CUDA
            ? "clusters begin with sm_90, and without them partial sums would go through memory"
            : "AMD's chips have no clusters, and without them partial sums would go through memory");
}

static void divide_loops(Session *s, Func *f, KernelPlan *p)
{
    const Decision *d = schedule_asked(p, DECIDE_SPLIT_K);
    Division c = { .s = s, .f = f, .p = p, .parts = d ? d->n[0] : f->hints.split_k };
    if (c.parts < 2 || (!d && kernel_skips(p, PASS_SPLIT_K))) return;
    if (c.parts > MOST_SPLIT_PARTS) {
        schedule_refuse(p, d, "a loop is divided into %d parts at most", MOST_SPLIT_PARTS);
        return;
    }
    bool ok = may_divide(&c) && split_find_sums(&c);
    c.why = ok ? NULL : c.why;
    int axis = ok ? find_axis(&c) : NO_AXIS;
    if (axis == NO_AXIS) {
        if (d) schedule_refuse(p, d, "the loop is not divided: %s", c.why);
        else diag_perf(s, c.loc, "split_k = %d: the loop is not divided: %s", c.parts, c.why);
        say(&c, arena_printf(&s->arena, "no: %s", c.why));
        return;
    }
    change(&c, axis);
    p->split_k = c.parts;
    p->cluster = c.ctas > 1 ? c.ctas : 0;
    p->clusters = c.clusters > 1 ? c.clusters : 0;
    schedule_take(p, DECIDE_SPLIT_K, 0, c.parts, 0);
    pass_add(&p->options.skip, PASS_PERSISTENT);
    pass_add(&p->options.skip, PASS_PROGRAM_ORDER);
    say_how(&c, axis);
}

bool kernel_pass_split_k(KernelContext *c)
{
    divide_loops(c->s, c->f, c->p);
    return c->p->split_k > 0;
}
