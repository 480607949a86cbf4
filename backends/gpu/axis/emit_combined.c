/* emit_combined.c: reductions and scans by a fn, of one tile or of several that lie alike.
 *
 * The fn is only known to be associative. So neighbours are combined, the lower position first, and a partial
 * result always stands for consecutive positions. There is no neutral element. A layout may cover positions
 * beyond the tile, which must not contribute: a partial result is skipped if its first position is at or
 * behind the extent of the tile.
 *
 * If the layout of a reduction covers nothing beyond the tile, all partial results of one step stand for
 * equally many positions. Then a value that is the same at all positions, and that the fn computes only from
 * such values, is the same in all partial results; the count of a mean is an example. Threads do not exchange
 * it, and if it begins as a constant, the vendor's compiler folds it.
 *
 * A reduction takes the parts of the axis from the smallest step on (layout_axis_parts). Registers that are
 * neighbours become one, lanes exchange with the lane of the other half, and what is left when warps share
 * the axis meets in shared memory, where each thread combines it in order. emit_combined_scan.c has scans. */
#include "backends/gpu/axis/combined.h"

DType combined_type_of(const Combined *q, int k) { return ir_operand(q->i, k)->type->dtype; }

/* Entry `at` of arrays, one for each value. */
Position combined_entry(Emit *e, const Combined *q, const char *const *arrays, const char *at)
{
    Position p = { 0 };
    for (int k = 0; k < q->n; k++) p.v[k] = str(e, "%s[%s]", arrays[k], at);
    return p;
}

/* A quotient that may be one of constants, of which the operator is one at compile time: CUDA's __fdiv_rn
 * never is. Both round alike. */
static bool folds(const Combined *q, const Instr *i)
{
    return i->op == OP_DIV && ir_result(i)->type->dtype == DT_F32 && !ir_attr_int(i, ATTR_APPROX, 0) &&
           q->differs && !q->differs[ir_result(i)->id];
}

/* Emits the function for positions a and b, where b comes after a. Gives the names of its results. */
Position combined_apply(Emit *e, const Combined *q, const Position *a, const Position *b)
{
    const Block *fn = q->i->blocks[0];
    Position result;
    for (int k = 0; k < 2 * q->n; k++) {
        const char *t = tmp(e, k < q->n ? "a" : "b");
        line(e, "const %s %s = %s;", ctype(combined_type_of(q, k % q->n)), t,
            k < q->n ? a->v[k] : b->v[k - q->n]);
        e->storage[fn->args[k]->id] = t;
    }
    for (Instr *i = fn->first; i != fn->last; i = i->next) {
        const char *args[4];
        if (i->op == OP_CONST) {
            e->storage[ir_result(i)->id] = const_expr(e, ir_result(i)->type->dtype, i);
            continue;
        }
        for (int k = 0; k < i->n_operands; k++) args[k] = name_of(e, ir_operand(i, k));
        const char *t = tmp(e, "r");
        const char *x = folds(q, i) ? str(e, "%s / %s", args[0], args[1]) : op_expr(e, i, args);
        line(e, "const %s %s = %s;", ctype(ir_result(i)->type->dtype), t, x);
        e->storage[ir_result(i)->id] = t;
    }
    for (int k = 0; k < q->n; k++) result.v[k] = name_of(e, ir_operand(fn->last, k));
    return result;
}

/* Emits to = value if the condition holds; "" means always. */
void combined_assign(
    Emit *e, const Combined *q, const char *condition, const Position *to, const Position *value)
{
    for (int k = 0; k < q->n; k++)
        line(e, "%s%s%s%s = %s;", *condition ? "if (" : "", condition, *condition ? ") " : "", to->v[k],
            value->v[k]);
}

/* Emits to = fn(to, next). The condition says that `next` is no padding; "" means that it never is. */
void combined_append(
    Emit *e, const Combined *q, const char *condition, const Position *to, const Position *next)
{
    Position r = combined_apply(e, q, to, next);
    combined_assign(e, q, condition, to, &r);
}

void combined_arrays(Emit *e, const Combined *q, const char *stem, int n, const char **names)
{
    for (int k = 0; k < q->n; k++)
        line(e, "%s %s[%d];", ctype(combined_type_of(q, k)), names[k] = tmp(e, stem), n);
}

/* The value of lane `from` (shuffle_from), or of the lane whose number differs in the given bits
 * (shuffle_xor). */
Position combined_shuffled(
    Emit *e, const Combined *q, const char *function, const Position *own, const char *from)
{
    Position y;
    for (int k = 0; k < q->n; k++) {
        y.v[k] = own->v[k];
        if (q->same[k]) continue;
        line(e, "const %s %s = %s(%s, %s);", ctype(combined_type_of(q, k)), y.v[k] = tmp(e, "y"),
            use(e, str(e, "%s_%s", function, dtype_name(combined_type_of(q, k)))), own->v[k], from);
    }
    return y;
}

/* Reserves shared memory for `cells` positions of the values that are not the same in all of them. */
void combined_room(Emit *e, const Combined *q, int64_t cells, const char **names)
{
    int64_t at = 0;
    for (int k = 0; k < q->n; k++) {
        if (q->same[k]) continue;
        names[k] = shared_pointer(e, ctype(combined_type_of(q, k)), at);
        at = (at + cells * ctype_bytes(combined_type_of(q, k)) + 15) / 16 * 16;
    }
    scratch(e, at);
}

/* --- reductions -------------------------------------------------------------------------------------- */

/* The partial results of a thread for each row. Every register of `keep` has `each` of them: entry k * each +
 * j is number j, at register coordinate at[j]. Each covers `step` positions. `spread`: lower positions are in
 * other lanes. */
typedef struct Reduction {
    Combined q;
    int rows, each, step;
    int32_t *at;
    bool padded, spread;
} Reduction;

/* The first position of the partial results that begin at the thread's part of the axis, rounded down to
 * `step`. */
static const char *first_of_thread(Emit *e, const Reduction *r, int step)
{
    Index *first = thread_coord(e, r->q.l, r->q.axis);
    const char *t = index_text(e, first);
    return r->spread && !index_is(first, 0) ? str(e, "%s / %d * %d", t, step, step) : t;
}

/* The entries of the registers, sorted by row and position. */
static void take_registers(Emit *e, Reduction *r)
{
    Combined *q = &r->q;
    int n = (int)layout_regs(q->l);
    int32_t *entry_of = arena_array(&e->s->arena, int32_t, (size_t)n), c[TILE_MAX_RANK];
    int32_t *position = arena_array(&e->s->arena, int32_t, (size_t)n), seen = 0;
    r->at = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int k = 0; k < n; k++) {
        layout_element(q->l, (uint32_t)k, 0, 0, 0, c);
        position[k] = c[q->axis];
        int p = 0;
        while (p < seen && r->at[p] < c[q->axis]) p++;
        if (p < seen && r->at[p] == c[q->axis]) continue;
        memmove(r->at + p + 1, r->at + p, (size_t)(seen++ - p) * sizeof *r->at);
        r->at[p] = c[q->axis];
    }
    r->each = seen;
    const int32_t *row = register_map(e, q->l, q->keep);
    for (int k = 0; k < n; k++) {
        int p = 0;
        while (r->at[p] != position[k]) p++;
        entry_of[k] = (row ? row[k] : k) * seen + p;
    }
    combined_arrays(e, q, "red", r->rows * seen, q->part);
    begin_unrolled(e, "i", n);
    const char *to = entry_text(e, entry_of, n, "i");
    for (int k = 0; k < q->n; k++)
        line(
            e, "%s[%s] = %s;", q->part[k], to, element(e, ir_operand(q->i, k), q->l, index_variable(e, "i")));
    end_block(e);
}

/* Combines `size` neighbouring partial results of a thread. */
static void join_registers(Emit *e, Reduction *r, int size)
{
    Combined *q = &r->q;
    const char *next[IR_MAX_COMBINED];
    int each = r->each / size, all = r->rows * each;
    combined_arrays(e, q, "red", all, next);
    begin_unrolled(e, "i", all);
    Position to = combined_entry(e, q, next, "i"),
             from = combined_entry(e, q, q->part, str(e, "i * %d", size));
    combined_assign(e, q, "", &to, &from);
    for (int t = 1; t < size; t++) {
        int32_t *at = arena_array(&e->s->arena, int32_t, (size_t)all);
        for (int k = 0; k < all; k++) at[k] = r->at[k % each * size + t];
        const char *condition = r->padded ? str(e, "%s + %s < %d", first_of_thread(e, r, r->step),
                                                entry_text(e, at, all, "i"), q->l->tile[q->axis])
                                          : "";
        from = combined_entry(e, q, q->part, str(e, "i * %d + %d", size, t));
        combined_append(e, q, condition, &to, &from);
    }
    end_block(e);
    for (int k = 0; k < each; k++) r->at[k] = r->at[k * size];
    memcpy(q->part, next, sizeof next);
    r->each = each;
}

/* Lanes of a lower and of a higher half exchange their partial results, and both compute the combination. */
static void join_lanes(Emit *e, Reduction *r, uint32_t bit, int step)
{
    Combined *q = &r->q;
    const char *upper = tmp(e, "upper");
    int all = r->rows * r->each;
    line(e, "const bool %s = (lane & %u) != 0;", upper, bit);
    r->spread = true;
    begin_unrolled(e, "i", all);
    Position own = combined_entry(e, q, q->part, "i"),
             y = combined_shuffled(e, q, "shuffle_xor", &own, str(e, "%u", bit)), lo, hi;
    for (int k = 0; k < q->n; k++) {
        lo.v[k] = hi.v[k] = own.v[k];
        if (q->same[k]) continue;
        lo.v[k] = tmp(e, "lo");
        line(e, "const %s %s = %s ? %s : %s;", ctype(combined_type_of(q, k)), lo.v[k], upper, y.v[k],
            own.v[k]);
        hi.v[k] = str(e, "%s ? %s : %s", upper, own.v[k], y.v[k]);
    }
    Position both = combined_apply(e, q, &lo, &hi);
    if (r->padded) {
        int32_t *at = arena_array(&e->s->arena, int32_t, (size_t)all);
        for (int k = 0; k < all; k++) at[k] = r->at[k % r->each];
        const char *inside = tmp(e, "inside");
        line(e, "const bool %s = %s + %d + %s < %d;", inside, first_of_thread(e, r, 2 * step), step,
            entry_text(e, at, all, "i"), q->l->tile[q->axis]);
        for (int k = 0; k < q->n; k++) both.v[k] = str(e, "%s ? %s : %s", inside, both.v[k], lo.v[k]);
    }
    combined_assign(e, q, "", &own, &both);
    end_block(e);
}

/* Cell `at` of shared memory; of values that are the same in all partial results, the thread's own entry. */
static Position met(Emit *e, const Combined *q, const char *const *room, const char *at, const char *own)
{
    Position p = { 0 };
    for (int k = 0; k < q->n; k++)
        p.v[k] = q->same[k] ? str(e, "%s[%s]", q->part[k], own) : str(e, "%s[%s]", room[k], at);
    return p;
}

/* Writes the partial results of all warps to shared memory by position. Each thread then combines all of
 * them. */
static void join_shared(Emit *e, Reduction *r)
{
    Combined *q = &r->q;
    const char *room[IR_MAX_COMBINED], *result[IR_MAX_COMBINED];
    int all = r->rows * r->each, positions = (q->l->tile[q->axis] + r->step - 1) / r->step;
    int32_t *row_of = arena_array(&e->s->arena, int32_t, (size_t)all),
            *at = arena_array(&e->s->arena, int32_t, (size_t)all);
    int64_t rows;
    for (int k = 0; k < all; k++) {
        row_of[k] = k / r->each;
        at[k] = r->at[k % r->each] / r->step;
    }
    const char *row = row_number(e, q->keep, q->axis, index_variable(e, "i"), &rows);
    combined_room(e, q, rows * positions, room);
    barrier(e);
    begin_unrolled(e, "i", all);
    const char *place = tmp(e, "place"), *in_thread = index_text(e, thread_coord(e, q->l, q->axis));
    if (r->step != 1) in_thread = str(e, "%s / %d", in_thread, r->step);
    line(e, "const int %s = %s + %s;", place, in_thread, entry_text(e, at, all, "i"));
    const char *cell = str(e, "%s * %lld + %s", place, (long long)rows,
        row_number(e, q->keep, q->axis, index_entry(e, row_of, all, index_variable(e, "i")), &rows));
    const char *condition = r->padded ? str(e, "if (%s < %d) ", place, positions) : "";
    for (int k = 0; k < q->n; k++)
        if (!q->same[k]) line(e, "%s%s[%s] = %s[i];", condition, room[k], cell, q->part[k]);
    end_block(e);
    barrier(e);
    combined_arrays(e, q, "red", r->rows, result);
    begin_unrolled(e, "i", r->rows);
    Position to = combined_entry(e, q, result, "i"), from;
    const char *own = str(e, "i * %d", r->each);
    from = met(e, q, room, row, own);
    combined_assign(e, q, "", &to, &from);
    line(e, "for (int p = 1; p < %d; p++) {", positions);
    e->indent++;
    from = met(e, q, room, str(e, "p * %lld + %s", (long long)rows, row), own);
    combined_append(e, q, "", &to, &from);
    end_block(e);
    end_block(e);
    memcpy(q->part, result, sizeof result);
    r->each = 1;
}

/* Finds the values that are the same in all partial results of one step. */
static void find_same(Emit *e, Combined *q)
{
    const Block *fn = q->i->blocks[0];
    bool *differs = arena_array(&e->s->arena, bool, e->n_values), found = true;
    q->differs = differs;
    for (int k = 0; k < q->n; k++) {
        const Instr *def = ir_operand(q->i, k)->def;
        q->same[k] = def && def->op == OP_SPLAT;
    }
    while (found) {
        found = false;
        for (int k = 0; k < 2 * q->n; k++) differs[fn->args[k]->id] = !q->same[k % q->n];
        for (const Instr *i = fn->first; i != fn->last; i = i->next)
            for (int k = 0; k < i->n_operands; k++)
                differs[ir_result(i)->id] |= differs[ir_operand(i, k)->id];
        for (int k = 0; k < q->n; k++) {
            bool lost = q->same[k] && differs[ir_operand(fn->last, k)->id];
            if (lost) q->same[k] = false;
            found |= lost;
        }
    }
}

static void emit_reduction(Emit *e, Reduction *r)
{
    Combined *q = &r->q;
    LayoutAxisPart part[LAYOUT_MAX_PARTS];
    int parts = layout_axis_parts(q->l, q->axis, part);
    if (parts < 0) ir_fail(e->s, q->i->loc, "reduce over a layout in which positions have no order");
    r->rows = (int)layout_regs(q->keep);
    r->padded = q->l->cover[q->axis] != q->l->tile[q->axis];
    if (!r->padded) find_same(e, q);
    r->step = 1;
    take_registers(e, r);
    for (int p = 0; p < parts; p++) {
        if (part[p].in == LAYOUT_WARP) {
            join_shared(e, r);
            break;
        }
        if (part[p].in == LAYOUT_REG) join_registers(e, r, part[p].size);
        for (int s = 1; s < part[p].size && part[p].in == LAYOUT_LANE; s *= 2)
            join_lanes(e, r, part[p].low * (uint32_t)s, r->step * s);
        r->step *= part[p].size;
    }
    for (int k = 0; k < q->n; k++) {
        Value *v = &q->i->results[k];
        if (v->type->kind == TYPE_SCALAR) {
            const char *name = name_of(e, v);
            line(e, "const %s %s = %s[0];", ctype(v->type->dtype), name, q->part[k]);
            e->storage[v->id] = name;
        } else pack_registers(e, v, q->part[k], v->type->dtype);
    }
}

void emit_combined(Emit *e, Instr *i)
{
    Combined q = { .i = i, .n = i->n_operands, .axis = (int)ir_attr_int(i, ATTR_AXIS, 0) };
    for (int k = 0; k < q.n && !q.l; k++)
        if (ir_operand(i, k)->type->layout) q.l = layout_of(e, ir_operand(i, k));
    q.keep = layout_slice(&e->s->arena, q.l, q.axis, true);
    if (i->op == OP_SCAN) emit_combined_scan(e, &q);
    else emit_reduction(e, &(Reduction){ .q = q });
}
