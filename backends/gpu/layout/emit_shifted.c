/* emit_shifted.c: a tile moved along an axis, with one value where nothing comes from (`shift`), without a
 * tile for what is left of it.
 *
 *   %s = slice %x {start = 1} : [63]           lane l, register r:  y = x[r] of lane l + 1
 *   %y = concat %s, (splat %f) : [64]    ->                         y = l < 63 ? y : f
 *
 * Where x and the result have one layout, and the axis lies in neighbouring registers of neighbouring lanes,
 * lanes exchange registers. Elsewhere x goes through shared memory once, from where each thread reads its
 * places of the result. */
#include "backends/gpu/emit.h"
#include <stdlib.h>

/* Element p of the result along `axis` is x[p + by] if lo <= p < hi, else the fill. */
typedef struct Shifted {
    Instr *concat;
    Value *x, *fill;
    int axis;
    int32_t by, lo, hi;
} Shifted;

static bool is_one_value(const Value *v)
{
    const Instr *d = v->def;
    if (d && d->op == OP_MATERIALIZE) d = ir_operand(d, 0)->def;
    return d && d->op == OP_SPLAT;
}

static bool find(Instr *i, Shifted *s)
{
    if (i->op != OP_CONCAT || i->n_operands != 2) return false;
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
    for (int k = 0; k < 2; k++) {
        const Instr *part = ir_operand(i, k)->def;
        if (!part || part->op != OP_SLICE || (int)ir_attr_int(part, ATTR_AXIS, 0) != axis ||
            part->block != i->block || ir_use_count(ir_result(part)) != 1 ||
            !is_one_value(ir_operand(i, 1 - k)))
            continue;
        const Type *whole = ir_operand(part, 0)->type, *all = ir_result(i)->type;
        if (!whole->layout || !all->layout || whole->shape[axis] != all->shape[axis]) continue;
        int32_t first = k ? (int32_t)ir_operand(i, 0)->type->shape[axis] : 0;
        *s = (Shifted){ i, ir_operand(part, 0), ir_operand(i, 1 - k), axis,
            .by = (int32_t)ir_attr_int(part, ATTR_START, 0) - first, .lo = first,
            .hi = first + (int32_t)ir_result(part)->type->shape[axis] };
        return true;
    }
    return false;
}

bool emit_left_to_shift(Emit *e, const Instr *slice)
{
    const Use *u = slice->op == OP_SLICE ? ir_result(slice)->uses : NULL;
    Shifted s;
    if (!u || !find(u->user, &s) || s.x != ir_operand(slice, 0)) return false;
    for (const Instr *i = slice->next; i != s.concat; i = i->next)
        if (i->op != OP_SLICE && i->op != OP_SPLAT && i->op != OP_MATERIALIZE && i->op != OP_CONST)
            return false;
    return true;
}

/* --- by lanes ---------------------------------------------------------------------------------------- */

/* An axis of `run` neighbouring registers in each of `lanes` lanes, whose numbers are `low` apart, and again
 * in further registers. */
typedef struct Lanes {
    int32_t run, lanes;
    uint32_t low;
} Lanes;

static bool in_lanes(const Layout *l, int axis, Lanes *out)
{
    LayoutAxisPart part[LAYOUT_MAX_PARTS];
    int n = layout_axis_parts(l, axis, part), k = 0;
    *out = (Lanes){ .run = 1, .lanes = 1 };
    for (; k < n && part[k].in == LAYOUT_REG; k++) out->run *= part[k].size;
    for (; k < n && part[k].in == LAYOUT_LANE; k++) {
        if (out->lanes == 1) out->low = part[k].low;
        if (part[k].low != out->low * (uint32_t)out->lanes) return false;
        out->lanes *= part[k].size;
    }
    for (; k < n && part[k].in == LAYOUT_REG;) k++;
    return k == n && out->lanes > 1 && !(out->lanes & (out->lanes - 1)) && l->cover[axis] == l->tile[axis];
}

/* The register with the coordinates of register r, but `at` along the axis. */
static int register_at(const Layout *l, int axis, int r, int32_t at)
{
    int32_t want[TILE_MAX_RANK], c[TILE_MAX_RANK];
    layout_element(l, (uint32_t)r, 0, 0, 0, want);
    want[axis] = at;
    for (int k = 0; k < (int)layout_regs(l); k++) {
        layout_element(l, (uint32_t)k, 0, 0, 0, c);
        if (coords_equal(l->rank, c, want)) return k;
    }
    return -1;
}

static int32_t floored(int32_t x, int32_t by) { return x >= 0 ? x / by : -((by - 1 - x) / by); }

/* The element that register r of the result takes. It comes from the lane that is `lane` further, of the
 * register at `at`, or where that passes the last lane, from the next such register. */
static const char *taken(Emit *e, const Shifted *s, const Layout *l, const Lanes *n, int r)
{
    int32_t c[TILE_MAX_RANK], round = n->run * n->lanes;
    DType d = s->x->type->dtype;
    layout_element(l, (uint32_t)r, 0, 0, 0, c);
    int32_t from = c[s->axis] + s->by, at = floored(from, round) * round + (from % n->run + n->run) % n->run;
    int32_t lane = floored(from, n->run) - floored(from, round) * n->lanes;
    int here = register_at(l, s->axis, r, at), next = lane ? register_at(l, s->axis, r, at + round) : here;
    const char *own = element(e, s->x, l, index_number(e, here < 0 ? next : here));
    if (!lane) return own;
    const char *y = tmp(e, "y"), *shuffle = use(e, str(e, "shuffle_from_%s", dtype_name(d)));
    uint32_t mask = (uint32_t)(n->lanes - 1) * n->low, by = (uint32_t)lane * n->low;
    if (here >= 0 && next >= 0)
        own =
            str(e, "((lane & %u) < %u ? %s : %s)", mask, by, element(e, s->x, l, index_number(e, next)), own);
    line(e, "const %s %s = %s(%s, (lane & ~%u) | ((lane + %u) & %u));", ctype(d), y, shuffle, own, mask, by,
        mask);
    return y;
}

/* The condition that register r of the result is an element of x: "" if it always is, NULL if it never is. */
static const char *condition(Emit *e, const Shifted *s, const Layout *l, const Lanes *n, int r)
{
    int32_t c[TILE_MAX_RANK], last = (n->lanes - 1) * n->run;
    layout_element(l, (uint32_t)r, 0, 0, 0, c);
    const char *first = index_text(e, thread_coord(e, l, s->axis));
    int32_t lo = s->lo - c[s->axis], hi = s->hi - c[s->axis];
    if (lo > last || hi <= 0) return NULL;
    const char *low = lo > 0 ? str(e, "%s >= %d", first, lo) : "",
               *high = hi <= last ? str(e, "%s < %d", first, hi) : "";
    return *low && *high ? str(e, "%s && %s", low, high) : *low ? low : high;
}

static void by_lanes(Emit *e, const Shifted *s, const Lanes *n)
{
    Value *r = ir_result(s->concat);
    const Layout *l = layout_of(e, r);
    DType d = r->type->dtype;
    int regs = (int)layout_regs(l), in_word = per_word(d);
    const char *to = declare_tile(e, r), *x[4];
    const char *fill = element(e, s->fill, layout_of(e, s->fill), index_number(e, 0));
    for (int k = 0; k < regs; k++) {
        const char *inside = condition(e, s, l, n, k), *own = inside ? taken(e, s, l, n, k) : fill;
        x[k % in_word] = inside && *inside ? str(e, "(%s ? %s : %s)", inside, own, fill) : own;
        int here = k % in_word + 1;
        if (here == in_word || k == regs - 1)
            line(e, "%s[%d] = %s;", to, k / in_word, pack_expr(e, d, x, here));
    }
}

/* --- through shared memory --------------------------------------------------------------------------- */

static const char *position(Emit *e, Index *const *c, const void *user)
{
    const Shifted *s = user;
    return row_major(e, c, s->x->type);
}

static const char *position_shifted(Emit *e, Index *const *c, const void *user)
{
    const Shifted *s = user;
    Index *moved[TILE_MAX_RANK];
    for (int a = 0; a < s->x->type->rank; a++) moved[a] = c[a];
    moved[s->axis] = index_other(e, "(%s + %d)", index_text(e, c[s->axis]), s->by);
    return row_major(e, moved, s->x->type);
}

/* The condition that the element at coordinates c of the result is one of x. */
static const char *from_x(Emit *e, const Shifted *s, const Layout *l, Index *const *c)
{
    const char *p = index_text(e, c[s->axis]), *in = str(e, "%s >= %d && %s < %d", p, s->lo, p, s->hi);
    for (int a = 0; a < l->rank; a++)
        if (a != s->axis && l->cover[a] != l->tile[a])
            in = str(e, "%s && %s < %d", in, index_text(e, c[a]), l->tile[a]);
    return in;
}

static void through_shared(Emit *e, const Shifted *s)
{
    Value *r = ir_result(s->concat);
    const Layout *l = layout_of(e, r);
    DType d = r->type->dtype;
    int n = (int)layout_regs(l), in_word = per_word(d), words = array_len(d, n), size = dtype_bytes(d);
    const char *base = tmp(e, "sh"), *load = use(e, str(e, "lds_%s", dtype_name(d)));
    const char *fill = element(e, s->fill, layout_of(e, s->fill), index_number(e, 0));
    int64_t at = scratch(e, type_elements(s->x->type) * size);
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", base, (long long)at);
    barrier(e);
    note_elements(e, true, layout_of(e, s->x), s->x->type, NULL);
    spill_elements(e, s->x, layout_of(e, s->x), base, position, s);
    barrier(e);
    declare_tile(e, r);
    note_elements(e, false, l, s->x->type, NULL);
    bool loop = n % in_word == 0 && words > 1;
    if (loop) begin_unrolled(e, "i", words);
    for (int w = 0; w < (loop ? 1 : words); w++) {
        Index *c[TILE_MAX_RANK];
        const char *x[4];
        int here = n - w * in_word < in_word ? n - w * in_word : in_word;
        for (int k = 0; k < here; k++) {
            coords_at(e, l, loop ? index_linear(e, in_word, "i", k) : index_number(e, w * in_word + k), c);
            x[k] = str(e, "(%s ? %s(%s + (%s) * %d) : %s)", from_x(e, s, l, c), load, base,
                position_shifted(e, c, s), size, fill);
        }
        line(e, "%s[%s] = %s;", e->storage[r->id], loop ? "i" : str(e, "%d", w), pack_expr(e, d, x, here));
    }
    if (loop) end_block(e);
}

bool emit_shifted(Emit *e, Instr *i)
{
    Shifted s;
    Lanes n;
    if (!find(i, &s)) return false;
    for (int k = 0; k < 2; k++) {
        Instr *part = ir_operand(i, k)->def;
        if (part->op == OP_SLICE && e->storage[ir_result(part)->id]) return false;
    }
    if (layout_equal(layout_of(e, s.x), layout_of(e, ir_result(i))) &&
        in_lanes(layout_of(e, s.x), s.axis, &n))
        by_lanes(e, &s, &n);
    else through_shared(e, &s);
    return true;
}
