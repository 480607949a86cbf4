/* split-k: divides a loop that only adds among the CTAs of a thread block cluster (sm_90 and later), for
 * grids of fewer programs than the device has multiprocessors. The hint `split_k = n` asks for it.
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
 * What follows is done once: each CTA finishes a slice of the tile along one axis, with narrower windows
 * of loads and stores. The pass takes the last axis that all of it can follow. A loop's sum may continue
 * in another such loop, as the beginning of a sum of the same kind. That loop uses nothing else that
 * follows from a sum, of which a CTA has only a slice.
 *
 * Requires: loops in the kernel's body; no access to what is stored but through the same window; no other
 * effects than stores of what was summed; an axis that everything between sums and stores keeps
 * (element-wise operations, broadcasts, reshapes and permutes that keep it whole, reductions along
 * others). Otherwise nothing changes and a performance note says why. Does not handle: persistent grids; a
 * CTA does one program. */
#include "passes/kernel/cluster/split_k.h"
#include "ir/range.h"
#include <math.h>

/* --- slices ------------------------------------------------------------------------------------------ */

/* The axis of a slice; -1: there is none. */
static int slice_of(const Division *c, const Value *v)
{
    for (size_t k = 0; k < c->sliced.len; k++)
        if (c->sliced.data[k].v == v && !c->sliced.data[k].made) return c->sliced.data[k].axis;
    return -1;
}

static void note_slice(Division *c, const Value *v, int axis)
{ vec_push(&c->s->arena, &c->sliced, ((Sliced){ v, axis, NULL })); }

static const Type *part_of(Division *c, const Type *t, int axis)
{
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < t->rank; a++) shape[a] = t->shape[a] / (a == axis ? c->parts : 1);
    return type_tile(c->s, t->dtype, t->rank, shape);
}

/* The axis of `to` that corresponds to `axis` of `from`, whatever their ranks; -1: the axis is merged or
 * divided. */
static int same_axis(const Type *from, int axis, const Type *to)
{
    int64_t inner = 1, seen = 1;
    if (from->kind != TYPE_TILE || to->kind != TYPE_TILE) return -1;
    for (int a = axis + 1; a < from->rank; a++) inner *= from->shape[a];
    for (int a = to->rank - 1; a >= 0; seen *= to->shape[a--])
        if (seen == inner && to->shape[a] == from->shape[axis]) return a;
    return -1;
}

/* The operand's axis that becomes `axis` of the result, and the other way round; -1: the axis does not
 * correspond to a whole axis. */
int kernel_axis_before(const Instr *i, int axis)
{
    const Attr *o = ir_attr(i, ATTR_ORDER);
    return i->op == OP_PERMUTE ? (int)o->v[axis]
                               : same_axis(ir_result(i)->type, axis, ir_operand(i, 0)->type);
}

static int axis_after(const Instr *i, const Type *whole, int axis)
{
    const Attr *o = ir_attr(i, ATTR_ORDER);
    if (i->op != OP_PERMUTE) return same_axis(whole, axis, ir_result(i)->type);
    for (int a = 0; a < o->n; a++)
        if (o->v[a] == axis) return a;
    return -1;
}

static bool reduces(const Instr *i) { return op_reduces(i->op) && ir_operand(i, 0)->type->kind == TYPE_TILE; }

/* The tensor axis of axis `axis` of the window's tile. */
int kernel_tensor_axis(const Instr *mem, int axis)
{
    const Attr *e = ir_attr(mem, ATTR_EXTENTS), *o = ir_attr(mem, ATTR_ORDER);
    if (o) axis = (int)o->v[axis];
    for (int a = 0; e && a < e->n; a++)
        if (e->v[a] != -1 && axis-- == 0) return a;
    return -1;
}

/* Shrinks the window of a load or store to the part of this CTA. */
static void narrow_window(Division *c, Instr *mem, int axis)
{
    const Attr *e = ir_attr(mem, ATTR_EXTENTS), *steps = ir_attr(mem, ATTR_STEPS),
               *align = ir_attr(mem, ATTR_ALIGN);
    int a = kernel_tensor_axis(mem, axis);
    int64_t extents[TILE_MAX_RANK], step = steps ? steps->v[a] : 1, by;
    memcpy(extents, e->v, sizeof *extents * (size_t)e->n);
    extents[a] /= c->parts;
    by = extents[a] * step;
    Builder b = ir_before(mem);
    Value *at = ir_operand(mem, 1 + a), *off = ir_cast(&b, c->rank, at->type->dtype);
    at = ir_bin(&b, OP_ADD, at, ir_bin(&b, OP_MUL, off, ir_const_int(&b, at->type->dtype, by)));
    ir_set_operand(mem, 1 + a, at);
    ir_set_attr(c->s, mem, a_ints(ATTR_EXTENTS, extents, e->n));
    if (align)
        ir_set_attr(c->s, mem,
            a_int(ATTR_ALIGN,
                range_gcd(align->i,
                    (by < 0 ? -by : by) * dtype_bytes(c->f->params[ir_operand(mem, 0)->index].type->dtype))));
}

static Value *slice(Division *, Value *, int axis, int depth);

static Value *clone(Division *c, Instr *i, Value *const *operands, int axis)
{
    ValueMap map;
    value_map_init(&map, &c->s->arena);
    for (int k = 0; k < i->n_operands; k++)
        if (operands[k] != ir_operand(i, k)) value_map_set(&map, ir_operand(i, k), operands[k]);
    Builder b = ir_after(i);
    Instr *made = ir_clone(&b, i, &map);
    ir_result(made)->type = part_of(c, ir_result(made)->type, axis);
    return ir_result(made);
}

/* `part` reads the memory that `whole` leaves: each token is the memory state of one operation. */
static void read_behind(Instr *part, Instr *whole)
{
    ir_replace(&whole->results[1], &part->results[1]);
    ir_set_operand(part, part->n_operands - 1, &whole->results[1]);
}

/* This CTA's slice of a tile that every CTA could have; NULL: it has none. When `make` is not set, the value
 * itself. */
static Value *slice_anew(Division *c, Value *v, int axis, int depth)
{
    Instr *i = v->def;
    MemParts m;
    if (!i || i->block != c->f->body || depth > 64 || v != ir_result(i) || v->type->shape[axis] % c->parts)
        return NULL;
    if (!c->make) vec_push(&c->s->arena, &c->touched, i);
    Value **operands = arena_array(&c->s->arena, Value *, (size_t)i->n_operands + 1);
    for (int k = 0; k < i->n_operands; k++) operands[k] = ir_operand(i, k);
    if (i->op == OP_ARANGE) {
        if (!c->make) return v;
        Value *part = clone(c, i, operands, axis);
        Builder b = ir_after(part->def);
        Value *extent = ir_const_int(&b, part->type->dtype, part->type->shape[0]),
              *off = ir_bin(&b, OP_MUL, ir_cast(&b, c->rank, part->type->dtype), extent);
        return ir_bin(&b, OP_ADD, part, ir_splat(&b, off, 1, part->type->shape));
    }
    if (i->op == OP_LOAD) {
        if (!ir_mem_parts(i, &m) || m.mask || kernel_tensor_axis(i, axis) < 0) return NULL;
        if (!c->make) return v;
        Value *part = clone(c, i, operands, axis);
        narrow_window(c, part->def, axis);
        if (i->n_results > 1) read_behind(part->def, i);
        return part;
    }
    if (i->n_results != 1) return NULL;
    if (op_info[i->op].flags & OPF_ELEM) {
        for (int k = 0; k < i->n_operands; k++)
            if (!(operands[k] = slice(c, operands[k], axis, depth + 1))) return NULL;
    } else if (i->op == OP_BROADCAST) {
        if (!(operands[0] = slice(c, operands[0], axis, depth + 1))) return NULL;
    } else if (i->op == OP_RESHAPE || i->op == OP_PERMUTE) {
        int before = kernel_axis_before(i, axis);
        if (before < 0 || !(operands[0] = slice(c, operands[0], before, depth + 1))) return NULL;
    } else if (i->op != OP_SPLAT) return NULL;
    return c->make ? clone(c, i, operands, axis) : v;
}

static Value *slice(Division *c, Value *v, int axis, int depth)
{
    if (v->type->kind != TYPE_TILE || v->type->shape[axis] == 1) return slice_of(c, v) < 0 ? v : NULL;
    if (slice_of(c, v) >= 0) return slice_of(c, v) == axis ? v : NULL;
    for (size_t k = 0; k < c->sliced.len; k++)
        if (c->sliced.data[k].v == v && c->sliced.data[k].made && c->sliced.data[k].axis == axis)
            return c->sliced.data[k].made;
    Value *made = slice_anew(c, v, axis, depth);
    if (made && c->make) vec_push(&c->s->arena, &c->sliced, ((Sliced){ v, axis, made }));
    return made;
}

static bool take_slices(Division *c, Instr *i, int axis)
{
    for (int k = 0; k < i->n_operands; k++) {
        Value *part = slice(c, ir_operand(i, k), axis, 0);
        if (!part)
            return split_refuse(c, i->loc, "what follows the loop needs more than a slice of the tile");
        if (c->make && part != ir_operand(i, k)) ir_set_operand(i, k, part);
    }
    return true;
}

/* Rewrites one operation after the loops to work on slices, if some operand has a slice. */
static bool follow(Division *c, Instr *i)
{
    int axis = -1, at = 0;
    MemParts m;
    for (int k = i->n_operands; k-- > 0;)
        if (slice_of(c, ir_operand(i, k)) >= 0) {
            axis = slice_of(c, ir_operand(i, k));
            at = k;
        }
    if (axis < 0)
        return i->op != OP_STORE || split_refuse(c, i->loc, "it stores something else than what was summed");
    if (!c->make) vec_push(&c->s->arena, &c->touched, i);
    const Type *whole = ir_operand(i, at)->type;
    int64_t shape[TILE_MAX_RANK];
    for (int a = 0; a < whole->rank; a++) shape[a] = whole->shape[a] * (c->make && a == axis ? c->parts : 1);
    whole = type_tile(c->s, whole->dtype, whole->rank, shape);
    if (i->op == OP_STORE) {
        if (!ir_mem_parts(i, &m) || slice_of(c, m.values[0]) < 0 || kernel_tensor_axis(i, axis) < 0)
            return split_refuse(c, i->loc, "a store takes more than a slice of the tile");
        if (m.mask && !slice(c, m.mask, axis, 0))
            return split_refuse(c, i->loc, "a store's mask has no slices");
        if (!c->make) return true;
        for (int k = 0; m.mask && k < i->n_operands; k++)
            if (ir_operand(i, k) == m.mask) ir_set_operand(i, k, slice(c, m.mask, axis, 0));
        narrow_window(c, i, axis);
        return true;
    }
    if (i->n_results != 1)
        return split_refuse(c, i->loc, "what follows the loop needs more than a slice of the tile");
    int after = axis;
    if (op_info[i->op].flags & OPF_ELEM) {
        if (!take_slices(c, i, axis)) return false;
    } else if (i->op == OP_RESHAPE || i->op == OP_PERMUTE) after = axis_after(i, whole, axis);
    else if (reduces(i) && at == 0 && ir_attr_int(i, ATTR_AXIS, 0) != axis)
        after -= ir_attr_int(i, ATTR_DROP, 0) && ir_attr_int(i, ATTR_AXIS, 0) < axis;
    else if (i->op != OP_BROADCAST) after = -1;
    if (after < 0 || ir_result(i)->type->kind != TYPE_TILE || ir_result(i)->type->shape[after] % c->parts)
        return split_refuse(c, i->loc, "what follows the loop needs more than a slice of the tile");
    if (c->make) ir_result(i)->type = part_of(c, ir_result(i)->type, after);
    note_slice(c, ir_result(i), after);
    return true;
}

/* Slices narrower than the 8 columns of a fragment would leave lanes without work. Slices of a single axis
 * are divided among lanes only if they are powers of two. */
static bool divides(const Division *c, const Type *t, int axis)
{
    int64_t part = t->shape[axis] / c->parts;
    if (t->shape[axis] % c->parts) return false;
    if (part == type_elements(t) / c->parts) return (part & (part - 1)) == 0;
    return part % 8 == 0 || axis < t->rank - 1;
}

/* Whether i, or an instruction that it holds, needs more than a slice of a value of which each CTA has a
 * slice. */
static bool wants_whole(const Division *c, const Instr *i)
{
    for (size_t k = 0; k < c->sliced.len; k++)
        for (const Use *u = c->sliced.data[k].v->uses; u; u = u->next) {
            if (u->user == i && split_is_cut(c, i) && !split_goes_on(c, u)) return true;
            for (int b = 0; b < i->n_blocks; b++)
                if (ir_is_ancestor(i->blocks[b], u->user->block)) return true;
        }
    return false;
}

static bool follow_all(Division *c, int axis)
{
    c->touched.len = 0;
    c->sliced.len = 0;
    for (size_t k = 0; k < c->sums.len; k++) {
        Value *v = &c->sums.data[k].loop->results[c->sums.data[k].k];
        if (axis < v->type->rank && v->type->shape[axis] == 1) continue; /* all CTAs will have it */
        if (axis >= v->type->rank || !divides(c, v->type, axis))
            return split_refuse(c, c->sums.data[k].loop->loc, split_no_parts);
        for (const Use *u = v->uses; u; u = u->next)
            if (!split_goes_on(c, u) && u->user->block != c->f->body)
                return split_refuse(c, u->user->loc, "a sum is used under a condition or in a loop");
        note_slice(c, v, axis);
    }
    for (Instr *i = c->f->body->first; i && !(op_info[i->op].flags & OPF_TERM); i = i->next) {
        if (wants_whole(c, i)) return split_refuse(c, i->loc, "a sum is used under a condition or in a loop");
        if (split_is_cut(c, i)) continue;
        if (!follow(c, i)) return false;
    }
    return split_ordered(c);
}

/* --- the change -------------------------------------------------------------------------------------- */

/* Divides n steps into parts that differ by at most one: the first n % parts have one more. */
static void cut(Division *c, Instr *loop)
{
    Builder b = ir_before(loop);
    Value *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1), *step = ir_operand(loop, 2);
    DType d = lo->type->dtype;
    int64_t k;
    bool by_one = ir_is_const(step, &k) && k == 1;
    Value *zero = ir_const_int(&b, d, 0), *one = ir_const_int(&b, d, 1),
          *parts = ir_const_int(&b, d, c->parts), *rank = ir_cast(&b, c->rank, d);
    Value *n = ir_is_const(lo, &k) && k == 0 ? hi : ir_bin(&b, OP_SUB, hi, lo);
    n = ir_bin(&b, OP_MAX, n, zero);
    if (!by_one) n = ir_bin(&b, OP_CDIV, n, step);
    Value *each = ir_bin(&b, OP_DIV, n, parts), *rest = ir_bin(&b, OP_REM, n, parts),
          *more = ir_bin(&b, OP_LT, rank, rest);
    Value *extra = ir_bin(&b, OP_MIN, rank, rest),
          *from = ir_bin(&b, OP_ADD, ir_bin(&b, OP_MUL, each, rank), extra);
    Value *last = ir_op(&b, OP_WHERE, NULL, NO_ATTRS, more, one, zero),
          *to = ir_bin(&b, OP_ADD, ir_bin(&b, OP_ADD, from, each), last);
    for (int e = 0; e < 2; e++) {
        Value *x = e ? to : from;
        if (!by_one) x = ir_bin(&b, OP_MUL, x, step);
        if (!(ir_is_const(lo, &k) && k == 0)) x = ir_bin(&b, OP_ADD, x, lo);
        ir_set_operand(loop, e, x);
    }
    /* The initial value of a sum must be added once. A maximum may include it many times. */
    for (int r = 0; r < loop->n_results; r++) {
        Value *init = ir_operand(loop, 3 + r);
        if ((init->def && split_is_cut(c, init->def)) || split_sum_kind(c, loop, r) != RMW_ADD ||
            kernel_is_zero(init))
            continue;
        Value *first = ir_bin(&b, OP_EQ, rank, zero);
        DType t = init->type->dtype;
        Value *none = dtype_is_float(t) ? ir_const_float(&b, t, 0) : ir_const_int(&b, t, 0);
        Value *nothing = ir_splat(&b, none, init->type->rank, init->type->shape),
              *is_first = ir_splat(&b, first, init->type->rank, init->type->shape);
        ir_set_operand(loop, 3 + r, ir_op(&b, OP_WHERE, NULL, NO_ATTRS, is_first, init, nothing));
    }
}

/* Combines the partial sums: all CTAs get the result, or each gets a slice. */
static Instr *combine(Division *c, Builder *b, Value *v, int rmw, int axis, bool whole)
{
    int64_t bytes = type_elements(v->type) * dtype_bytes(v->type->dtype),
            most = 1024 * (int64_t)dtype_bytes(v->type->dtype);
    /* whole: four lanes hold a row, or each lane of a warp holds all of it */
    bytes = whole ? (4 * bytes > most ? 4 * bytes : most) : bytes / c->parts;
    c->p->parts_bytes += (bytes + 1023) / 1024 * 1024 * (c->parts - 1) + 1024;
    return whole ? ir_build(b, OP_CLUSTER_COMBINE, &v, 1,
                       ATTRS(a_int(ATTR_RMW, rmw), a_int(ATTR_COUNT, c->parts)), NULL, 0)
                 : ir_build(b, OP_CLUSTER_COMBINE, &v, 1,
                       ATTRS(a_int(ATTR_RMW, rmw), a_int(ATTR_AXIS, axis), a_int(ATTR_COUNT, c->parts)), NULL,
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
    Value *v = &s->loop->results[s->k];
    const Online *o = split_online_of(c, s->loop);
    if (o && o->under[s->k]) v = ir_result(v->uses->user);
    Builder b = ir_after(v->def);
    b.loc = s->loop->loc;
    Instr *i = combine(c, &b, v, s->rmw, axis, v->type->shape[axis] == 1);
    use_instead(c, v, i, ir_result(i));
    ir_set_name(ir_result(i), v->name);
    if (v->type->shape[axis] > 1) note_slice(c, ir_result(i), axis);
}

static void say(Division *c, const char *what)
{
    c->p->schedule =
        arena_printf(&c->s->arena, "%s  split: %s\n", c->p->schedule ? c->p->schedule : "", what);
}

static void divide_loops(Session *s, Func *f, KernelPlan *p)
{
    const Decision *d = schedule_asked(p, DECIDE_SPLIT_K);
    Division c = { .s = s, .f = f, .p = p, .parts = d ? d->n[0] : f->hints.split_k };
    int axis = -1, rank = 0;
    if (c.parts < 2 || (!d && kernel_skips(p, PASS_SPLIT_K))) return;
    if (p->target->cluster_ctas > 1 && c.parts > p->target->cluster_ctas) {
        schedule_refuse(p, d, "a loop is divided among %d CTAs at most", p->target->cluster_ctas);
        return;
    }
    bool ok =
        p->target->cluster_ctas > 1
            ? !(p->cluster > 1) || split_refuse(&c, f->loc, "its rows are spread over a cluster")
            : split_refuse(&c, f->loc,
                  p->target->kind == TARGET_CUDA
                      ? "clusters begin with sm_90, and without them partial sums would go through memory"
                      : "AMD's chips have no clusters, and without them partial sums would go through "
                        "memory");
    ok = ok && split_find_sums(&c);
    c.why = ok ? NULL : c.why;
    for (size_t k = 0; ok && k < c.sums.len; k++)
        if (c.sums.data[k].loop->results[c.sums.data[k].k].type->rank > rank)
            rank = c.sums.data[k].loop->results[c.sums.data[k].k].type->rank;
    for (int a = rank - 1; ok && a >= 0 && axis < 0; a--)
        if (follow_all(&c, a)) axis = a;
    if (axis < 0) {
        if (d) schedule_refuse(p, d, "the loop is not divided: %s", c.why);
        else diag_perf(s, c.loc, "split_k = %d: the loop is not divided: %s", c.parts, c.why);
        say(&c, arena_printf(&s->arena, "no: %s", c.why));
        return;
    }
    Builder b = { .module = f->module, .block = f->body, .before = f->body->first, .loc = f->loc };
    c.rank = ir_emit(&b, OP_CLUSTER_RANK, NULL, 0, NO_ATTRS, type_scalar(s, DT_I32));
    ir_set_name(c.rank, "part");
    for (size_t k = 0; k < c.loops.len; k++) cut(&c, c.loops.data[k]);
    c.sliced.len = 0;
    c.make = true;
    for (size_t k = 0; k < c.online.len; k++) bring_together(&c, &c.online.data[k]);
    for (size_t k = 0; k < c.sums.len; k++) join(&c, &c.sums.data[k], axis);
    for (Instr *i = f->body->first, *next; i && !(op_info[i->op].flags & OPF_TERM); i = next) {
        next = i->next;
        if (!split_is_cut(&c, i) && i->op != OP_CLUSTER_COMBINE && i->op != OP_CLUSTER_RANK) follow(&c, i);
    }
    for (size_t k = c.sliced.len; k-- > 0;) /* users are behind what they use */
        if (c.sliced.data[k].made) split_leave_unread(c.sliced.data[k].v->def);
    ir_sweep(f->body);
    p->cluster = p->split_k = c.parts;
    schedule_take(p, DECIDE_SPLIT_K, 0, c.parts, 0);
    pass_add(&p->options.skip, PASS_PERSISTENT);
    pass_add(&p->options.skip, PASS_PROGRAM_ORDER);
    say(&c, arena_printf(&s->arena,
                "the steps of each loop are divided among the %d CTAs of a cluster, each of which finishes "
                "its part of the tile along axis %d",
                c.parts, axis));
}

bool kernel_pass_split_k(KernelContext *c)
{
    divide_loops(c->s, c->f, c->p);
    return c->p->split_k > 0;
}
