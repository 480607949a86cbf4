/* speculate: saves one pass over a row on a CPU by speculating, then verifying. A CPU passes over a row
 * once for every statistic that others wait for.
 *
 * The shift of a softmax. exp(x - max x) / sum(..) is the same for any shift; the maximum only keeps it in
 * range. So the shift is the maximum of the row's first elements, and the row's own maximum is computed
 * only if the sum shows that the shift was too low:
 *
 *   %m = reduce_max %x                               %g = reduce_max (slice %x)
 *   %e = exp2(fma(%x, c, broadcast(%m * -c)))        %e1 = exp2(fma(%x, c, broadcast(%g * -c)))
 *   %s = reduce_sum %e                       ->      %s1 = reduce_sum %e1
 *   %q = div %e, broadcast %s                        %e, %s = if %s1 <= 2^64 { yield %e1, %s1 }
 *                                                             else { the three lines on the left }
 *                                                    %q = div %e, broadcast %s
 *
 * Proof: with m moved by -d, every value that m reaches moves by a * d (the exponents) or is multiplied by
 * 2^(a d) (the powers, their sums), with one a < 0, until a quotient of two such powers, which keeps its
 * value. Nothing else reads one of them. A shift below the maximum makes the powers larger, so none
 * underflows that did not before, and a sum of at most 2^64 shows that none overflowed. A NaN anywhere, or
 * an infinite shift or element, makes the sum NaN or infinite, and the row is computed as written. Bound:
 * an exponent is then at most 64 and rounded by 2^-19, so a quotient differs by a relative 2^-18. The pass
 * therefore handles only quotients that are rounded to 16 bits.
 *
 * Sums of squares about a value of the row, where m is known only after a pass over it:
 *
 *   %s = reduce_sum %x                               %s = reduce_sum %x; %q = reduce_sum(x * x)
 *   %m = .. %s ..                                    %m = .. %s ..
 *   %v = reduce_sum((x - m) * (x - m))       ->      %v1 = %q - m (2 s - n m)
 *                                                    %v = if %v1 >= %q / 2 and %q <= 2^100 { yield %v1 }
 *                                                         else { the line on the left }
 *
 * This is an identity for every m. No more than one bit cancels, or the row is computed as written (also
 * for NaN and infinities). It requires x widened from 16 bits, so that the squares are exact and only the
 * sums round: the result is at most five times as far off as the sum as written may be.
 *
 * Requires: exp2 and contract before, whose forms it knows. Keeps: everything but these roundings. It
 * marks the `if` with rare = 1, because its second block hardly ever runs. Does not handle: rows in
 * loops; short rows. */
#include "passes/pass.h"
#include <math.h>

enum { LEAST_ROW = 1024, FIRST = 64 };

typedef enum Kind { SAME, SHIFTED, SCALED } Kind;
typedef struct Moved {
    Kind kind;
    double by;
} Moved; /* SHIFTED: v + by * d; SCALED: v * 2^(by d) */
typedef struct Speculation {
    PassContext *c;
    Func *func;
    Moved *moved;
    int64_t shifts, squares;
} Speculation;

/* --- shifts ------------------------------------------------------------------------------------------ */

static Moved moved_of(const Speculation *x, const Value *v)
{ return v->type->kind == TYPE_TILE ? x->moved[v->id] : (Moved){ SAME, 0 }; }

/* Of a product of something shifted and a factor that stays. */
static bool move_product(const Instr *i, Moved a, Moved b, Moved *out)
{
    int k = a.kind == SHIFTED ? 0 : 1;
    Moved shifted = k ? b : a, same = k ? a : b;
    double f;
    if (shifted.kind != SHIFTED || same.kind != SAME || !ir_is_const_float(ir_operand(i, 1 - k), &f) ||
        !isfinite(f) || f == 0)
        return false;
    *out = (Moved){ SHIFTED, shifted.by * f };
    return true;
}

/* Of fma(a, b, c). */
static bool move_sum_of_product(const Instr *i, Moved a, Moved b, Moved c, Moved *out)
{
    *out = c;
    if (a.kind == SAME && b.kind == SAME) return c.kind == SHIFTED;
    return c.kind == SAME && a.kind == SHIFTED && move_product(i, a, b, out);
}

/* Along the row: every row has a shift of its own. */
static bool move_broadcast(const Instr *i, int axis)
{
    for (int k = 0; k < ir_result(i)->type->rank; k++)
        if (k != axis && ir_result(i)->type->shape[k] != ir_operand(i, 0)->type->shape[k]) return false;
    return true;
}

/* How the result moves with the operands, of which one or more do; false: not in a way that is known. */
static bool move(const Speculation *x, const Instr *i, int axis, Moved *out)
{
    Moved a = moved_of(x, ir_operand(i, 0)),
          b = i->n_operands > 1 ? moved_of(x, ir_operand(i, 1)) : (Moved){ SAME, 0 };
    Moved c = i->n_operands > 2 ? moved_of(x, ir_operand(i, 2)) : (Moved){ SAME, 0 };
    if (i->n_operands > 3 || i->n_results != 1 || i->n_blocks || ir_result(i)->type->dtype != DT_F32)
        return false;
    bool one_shifted = (a.kind == SHIFTED && b.kind == SAME) || (a.kind == SAME && b.kind == SHIFTED);
    *out = a;
    if (i->op == OP_BROADCAST) return move_broadcast(i, axis);
    if (i->op == OP_NEG) return out->by = -a.by, a.kind == SHIFTED;
    if (i->op == OP_ADD || i->op == OP_SUB) {
        if (a.kind == SAME) *out = (Moved){ b.kind, i->op == OP_ADD ? b.by : -b.by };
        return one_shifted;
    }
    if (i->op == OP_MUL) return move_product(i, a, b, out);
    if (i->op == OP_FMA) return move_sum_of_product(i, a, b, c, out);
    if (i->op == OP_EXP2 || i->op == OP_EXP) {
        *out = (Moved){ SCALED, a.by * (i->op == OP_EXP ? 1.44269504088896340736 : 1) };
        return a.kind == SHIFTED;
    }
    if (i->op == OP_REDUCE_SUM)
        return a.kind == SCALED && ir_attr_int(i, ATTR_AXIS, 0) == axis && !ir_attr_int(i, ATTR_DROP, 0);
    *out = (Moved){ SAME, 0 };
    return i->op == OP_DIV && a.kind == SCALED && b.kind == SCALED && a.by == b.by;
}

static bool rounded_at_once(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op != OP_CAST || !dtype_is_float(ir_result(u->user)->type->dtype) ||
            dtype_bits(ir_result(u->user)->type->dtype) > 16)
            return false;
    return v->uses != NULL;
}

/* The instructions that `max` reaches before a quotient, in order; false if one of them does not move as it
 * should. */
typedef struct Cone {
    VEC(Instr *) all;
    Instr *power, *sum;
} Cone;

static bool find_cone(Speculation *x, Instr *max, Cone *cone)
{
    int axis = (int)ir_attr_int(max, ATTR_AXIS, 0);
    x->moved[ir_result(max)->id] = (Moved){ SHIFTED, 1 };
    for (const Use *u = ir_result(max)->uses; u; u = u->next)
        if (u->user->block != max->block) return false;
    for (Instr *i = max->next; i; i = i->next) {
        bool reached = false;
        Moved m;
        for (int k = 0; k < i->n_operands; k++) reached |= moved_of(x, ir_operand(i, k)).kind != SAME;
        if (!reached) continue;
        if (!move(x, i, axis, &m)) return false;
        if (m.kind == SAME) {
            if (!rounded_at_once(ir_result(i))) return false;
            continue;
        }
        for (const Use *u = ir_result(i)->uses; u; u = u->next)
            if (u->user->block != max->block) return false;
        if (i->op == OP_EXP || i->op == OP_EXP2) {
            if (cone->power || !(m.by < 0)) return false;
            cone->power = i;
        }
        if (i->op == OP_REDUCE_SUM) {
            if (cone->sum || !cone->power || ir_operand(i, 0) != ir_result(cone->power)) return false;
            cone->sum = i;
        }
        x->moved[ir_result(i)->id] = m;
        /* It is not copied: it becomes the broadcast of the sum that is chosen. */
        if (m.kind == SCALED && i->op == OP_BROADCAST) {
            if (ir_operand(i, 0)->def != cone->sum) return false;
            continue;
        }
        vec_push(x->c->scratch, &cone->all, i);
    }
    return cone->sum != NULL;
}

static Value *all_of(Builder *b, Value *v)
{
    for (int a = v->type->rank - 1; a >= 0; a--)
        v = ir_emit(b, OP_REDUCE_ALL, &v, 1, ATTRS(a_int(ATTR_AXIS, a), a_int(ATTR_DROP, 1)), NULL);
    return v;
}

static Instr *rare_if(Builder *b, Value *cond, Value *const *then, const Type *const *types, int n)
{
    Instr *r = ir_build(b, OP_IF, &cond, 1, ATTRS(a_int(ATTR_RARE, 1)), types, n);
    Builder first = ir_at_end(r->blocks[0]);
    ir_build(&first, OP_YIELD, then, n, NO_ATTRS, NULL, 0);
    return r;
}

static void speculate_shift(Speculation *x, Instr *max)
{
    Cone cone = { 0 };
    bool ok = find_cone(x, max, &cone);
    for (Instr *i = max; i; i = i->next)
        for (int k = 0; k < i->n_results; k++) x->moved[i->results[k].id] = (Moved){ SAME, 0 };
    if (!ok) return;
    int axis = (int)ir_attr_int(max, ATTR_AXIS, 0);
    Value *row = ir_operand(max, 0);
    int64_t shape[TILE_MAX_RANK];
    memcpy(shape, row->type->shape, sizeof shape);
    shape[axis] = FIRST;
    Session *s = x->c->session;
    Builder b = ir_after(cone.all.data[cone.all.len - 1]);
    Value *first = ir_emit(&b, OP_SLICE, &row, 1, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_START, 0)),
        type_tile(s, row->type->dtype, row->type->rank, shape));
    Value *g =
        ir_emit(&b, OP_REDUCE_MAX, &first, 1, ATTRS(a_int(ATTR_AXIS, axis), a_int(ATTR_DROP, 0)), NULL);
    ValueMap map, again;
    value_map_init(&map, x->c->scratch);
    value_map_set(&map, ir_result(max), g);
    for (size_t k = 0; k < cone.all.len; k++) ir_clone(&b, cone.all.data[k], &map);
    Value *old[] = { ir_result(cone.power), ir_result(cone.sum) };
    Value *sum = value_map_get(&map, old[1]), *out[] = { value_map_get(&map, old[0]), sum };
    Value *most = ir_splat(&b, ir_const_float(&b, DT_F32, 0x1p64), sum->type->rank, sum->type->shape);
    Instr *r = rare_if(
        &b, all_of(&b, ir_bin(&b, OP_LE, sum, most)), out, (const Type *[]){ old[0]->type, old[1]->type }, 2);
    Builder other = ir_at_end(r->blocks[1]);
    value_map_init(&again, x->c->scratch);
    ir_clone(&other, max, &again);
    for (size_t k = 0; k < cone.all.len; k++) ir_clone(&other, cone.all.data[k], &again);
    Value *plain[] = { value_map_get(&again, old[0]), value_map_get(&again, old[1]) };
    ir_build(&other, OP_YIELD, plain, 2, NO_ATTRS, NULL, 0);
    ir_replace(old[1], &r->results[1]);
    ir_replace(old[0], &r->results[0]);
    for (size_t k = cone.all.len; k-- > 0;) ir_erase(cone.all.data[k]);
    ir_erase(max);
    x->shifts++;
}

/* --- squares ----------------------------------------------------------------------------------------- */

static bool same_shape(const Type *a, const Type *b)
{ return a->kind == TYPE_TILE && b->kind == TYPE_TILE && type_same_shape(a, b); }

/* The sum of x along the same axis, which stands before `i`. */
static Instr *plain_sum(const Value *x, const Instr *i)
{
    for (const Use *u = x->uses; u; u = u->next) {
        if (u->user->op != OP_REDUCE_SUM || u->user->block != i->block || !ir_same_attrs(u->user, i))
            continue;
        for (const Instr *k = u->user; k; k = k->next)
            if (k == i) return u->user;
    }
    return NULL;
}

static bool depends_on(const Value *v, const Value *on, int depth)
{
    if (v == on) return true;
    if (!v->def || depth > 8) return false;
    for (int k = 0; k < v->def->n_operands; k++)
        if (depends_on(ir_operand(v->def, k), on, depth + 1)) return true;
    return false;
}

static void speculate_squares(Speculation *x, Instr *sum)
{
    Instr *square = ir_operand(sum, 0)->def,
          *d = square && square->op == OP_MUL && ir_operand(square, 0) == ir_operand(square, 1)
                   ? ir_operand(square, 0)->def
                   : NULL;
    if (!d || d->op != OP_SUB || ir_result(sum)->type->dtype != DT_F32 || ir_attr_int(sum, ATTR_DROP, 0))
        return;
    Value *row = ir_operand(d, 0);
    Instr *wide = row->def, *about = ir_operand(d, 1)->def, *s1 = plain_sum(row, sum);
    if (!wide || wide->op != OP_CAST || !dtype_is_float(ir_operand(wide, 0)->type->dtype) ||
        dtype_bits(ir_operand(wide, 0)->type->dtype) > 16)
        return;
    if (!s1 || !about || about->op != OP_BROADCAST ||
        !same_shape(ir_operand(about, 0)->type, ir_result(sum)->type))
        return;
    Value *m = ir_operand(about, 0), *s = ir_result(s1);
    if (!depends_on(m, s, 0)) return;
    const Type *t = ir_result(sum)->type;
    double n = (double)row->type->shape[ir_attr_int(sum, ATTR_AXIS, 0)];
    Builder b = ir_after(s1);
    Value *q = ir_bin(&b, OP_MUL, row, row);
    q = ir_emit(&b, OP_REDUCE_SUM, &q, 1,
        ATTRS(a_int(ATTR_AXIS, ir_attr_int(sum, ATTR_AXIS, 0)), a_int(ATTR_DROP, 0)), NULL);
    b = ir_before(sum);
    Value *twice = ir_bin(&b, OP_MUL, s, build_float(&b, t, 2));
    Value *v = ir_op(&b, OP_FMA, NULL, NO_ATTRS, m, build_float(&b, t, -n), twice);
    v = ir_op(&b, OP_FMA, NULL, NO_ATTRS, ir_un(&b, OP_NEG, m), v, q);
    Value *enough = ir_bin(&b, OP_GE, v, ir_bin(&b, OP_MUL, q, build_float(&b, t, 0.5)));
    Value *ok = ir_bin(&b, OP_AND, enough, ir_bin(&b, OP_LE, q, build_float(&b, t, 0x1p100)));
    Instr *r = rare_if(&b, all_of(&b, ok), &v, &t, 1);
    Builder other = ir_at_end(r->blocks[1]);
    ValueMap map;
    value_map_init(&map, x->c->scratch);
    ir_clone(&other, d, &map);
    ir_clone(&other, square, &map);
    Value *plain = ir_result(ir_clone(&other, sum, &map));
    ir_build(&other, OP_YIELD, &plain, 1, NO_ATTRS, NULL, 0);
    replace_value(ir_result(sum), ir_result(r));
    x->squares++;
}

/* ----------------------------------------------------------------------------------------------------- */

static bool long_row(const Instr *i)
{
    const Type *t = ir_operand(i, 0)->type;
    return t->kind == TYPE_TILE && t->dtype == DT_F32 && t->shape[ir_attr_int(i, ATTR_AXIS, 0)] >= LEAST_ROW;
}

static bool speculate_func(PassContext *c, Func *f)
{
    if (!f->is_kernel) return false;
    Speculation x = { .c = c, .func = f, .moved = arena_array(c->scratch, Moved, f->module->next_id) };
    VEC(Instr *) maxima = { 0 }, sums = { 0 };
    for (Instr *i = f->body->first; i; i = i->next) {
        if (i->op == OP_REDUCE_MAX && long_row(i) && !ir_attr_int(i, ATTR_DROP, 0))
            vec_push(c->scratch, &maxima, i);
        if (i->op == OP_REDUCE_SUM && long_row(i)) vec_push(c->scratch, &sums, i);
    }
    for (size_t k = 0; k < sums.len; k++) speculate_squares(&x, sums.data[k]);
    for (size_t k = 0; k < maxima.len; k++) {
        x.moved = arena_array(c->scratch, Moved, f->module->next_id);
        speculate_shift(&x, maxima.data[k]);
    }
    pass_count(c, "shifts of rows speculated", x.shifts);
    pass_count(c, "squares summed before what they are about is known", x.squares);
    return x.shifts + x.squares > 0;
}

bool pass_speculate(PassContext *c, Module *m)
{
    const Target *t = c->options->target;
    return t && t->kind == TARGET_CPU && pass_each_func(c, m, speculate_func);
}
