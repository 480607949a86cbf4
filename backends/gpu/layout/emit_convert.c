/* emit_convert.c: tiles from one layout to another as layout_convert plans it: between registers of a thread,
 * by shuffles within warps, or through shared memory (emit_vectors.c).
 *
 * Elements move as raw bits: those narrower than a word travel packed where the plan keeps them together. */
#include "backends/gpu/memory/emit_vectors.h"

const char *array_of(Emit *e, const Value *x, const Layout *l)
{
    if (e->storage[x->id] && x->type->layout && layout_equal(layout_of(e, x), l)) return e->storage[x->id];
    const char *n = tmp(e, "val");
    line(e, "%s %s[%d];", array_type(x->type->dtype), n, array_len(x->type->dtype, (int)layout_regs(l)));
    fill_tile(e, n, x, l);
    return n;
}

/* --- shuffles ---------------------------------------------------------------------------------------- */

/* A number that depends on the lane: `lo` or `hi`, as the bits `bit` of the lane are clear or not; bit 0:
 * `number`. */
typedef struct ByLane {
    uint32_t bit;
    int number;
    const struct ByLane *lo, *hi;
} ByLane;

static bool same_number(const ByLane *a, const ByLane *b)
{
    if (a == b) return true;
    if (a->bit != b->bit) return false;
    return a->bit ? same_number(a->lo, b->lo) && same_number(a->hi, b->hi) : a->number == b->number;
}

/* What `table` gives for a lane. The table depends only on the lane bits in `mask`. Lanes with LAYOUT_NOREG
 * may get anything. NULL: all of them may. */
static const ByLane *by_lane(Emit *e, uint32_t mask, const int16_t *table, int lane)
{
    ByLane x = { .bit = mask & -mask, .number = table[lane] };
    if (!mask && x.number == LAYOUT_NOREG) return NULL;
    if (mask) {
        x.lo = by_lane(e, mask ^ x.bit, table, lane);
        x.hi = by_lane(e, mask ^ x.bit, table, lane | (int)x.bit);
        if (!x.lo || !x.hi) return x.lo ? x.lo : x.hi;
        if (same_number(x.lo, x.hi)) return x.lo;
    }
    ByLane *r = arena_new(&e->s->arena, ByLane);
    *r = x;
    return r;
}

typedef struct Words {
    const char *array;
    DType d;
    int per;
} Words;

/* The word whose number depends on the lane; per 1: the element. */
static const char *word_of(Emit *e, const ByLane *x, const Words *w)
{
    if (x->bit) return str(e, "(lane & %u ? %s : %s)", x->bit, word_of(e, x->hi, w), word_of(e, x->lo, w));
    return w->per == 1 ? raw_element(e, w->array, w->d, x->number) : str(e, "%s[%d]", w->array, x->number);
}

/* The condition that the number, 0 or 1, is 1. */
static const char *is_one(Emit *e, const ByLane *x)
{
    if (!x->bit) return x->number ? "true" : "false";
    if (!x->lo->bit && !x->hi->bit) return str(e, "(lane & %u) %s 0", x->bit, x->hi->number ? "!=" : "==");
    return str(e, "(lane & %u ? %s : %s)", x->bit, is_one(e, x->hi), is_one(e, x->lo));
}

/* Whether a lane takes register reg in round r, 0 or 1: whether its table says so. Lanes that already have it
 * keep it, and the value in the remaining lanes does not matter. */
static const ByLane *takes(Emit *e, const LayoutRound *r, int reg, const bool *had, int lanes)
{
    int16_t table[LAYOUT_MAX_LANES];
    for (int l = 0; l < lanes; l++) table[l] = r->recv[l] == reg ? 1 : had[l] ? 0 : LAYOUT_NOREG;
    return by_lane(e, (uint32_t)lanes - 1, table, 0);
}

/* What a lane sends in round r: a word of w->per elements of its registers. */
static const char *sent(Emit *e, const LayoutRound *r, const Words *w)
{
    int16_t table[LAYOUT_MAX_LANES];
    for (int l = 0; l < LAYOUT_MAX_LANES; l++)
        table[l] = r->send[l] == LAYOUT_NOREG ? LAYOUT_NOREG : (int16_t)(r->send[l] / w->per);
    const ByLane *x = by_lane(e, r->send_mask, table, 0);
    return x ? word_of(e, x, w) : "0";
}

/* The lane that is read, as an expression that is linear in the lane. */
static const char *source_lane(Emit *e, const LayoutRound *r, int lanes)
{
    if (r->xor_ >= 0) return str(e, "lane ^ %d", r->xor_);
    const char *x = str(e, "%d", r->src[0]);
    for (int b = 1; b < lanes; b *= 2)
        if (r->src[b] != r->src[0]) x = str(e, "%s ^ (lane & %d ? %d : 0)", x, b, r->src[b] ^ r->src[0]);
    return x;
}

/* Whether successive rounds k .. k+per-1 move whole words. */
static bool whole_words(const LayoutConvert *p, uint32_t k, int per)
{
    const LayoutRound *r = &p->round[k];
    for (int q = 1; q < per; q++)
        if (r[q].shuffle != r->shuffle || memcmp(r[q].src, r->src, sizeof r->src)) return false;
    for (uint32_t lane = 0; lane < layout_lanes(p->src); lane++)
        for (int q = 0; q < per; q++) {
            if (r->send[lane] == LAYOUT_NOREG ? r[q].send[lane] != LAYOUT_NOREG
                                              : r->send[lane] % per || r[q].send[lane] != r->send[lane] + q)
                return false;
            if (r->recv[lane] == LAYOUT_NOREG ? r[q].recv[lane] != LAYOUT_NOREG
                                              : r->recv[lane] % per || r[q].recv[lane] != r->recv[lane] + q)
                return false;
        }
    return true;
}

/* A conversion by rounds of shuffles. A cell takes what a round brings: a word of the result's array, or one
 * element of it, which is packed behind the last round. `filled` and `had` tell which cells have something at
 * all, and by cell and lane where it is right. */
typedef struct Shuffles {
    const LayoutConvert *p;
    DType d;
    int lanes, cells, per; /* per: elements of a cell */
    const char *cell;
    bool *filled, *had;
} Shuffles;

/* The elements that move together in each round: of a whole word if all rounds move whole words, else one. */
static int elements_together(const LayoutConvert *p, DType d)
{
    int pw = per_word(d);
    if (pw == 1 || (int)p->pack != pw || p->nround % p->pack) return 1;
    for (uint32_t k = 0; k < p->nround; k += p->pack)
        if (!whole_words(p, k, pw)) return 1;
    return pw;
}

static bool receives(const LayoutRound *r, int lane, int reg)
{ return !(lane & ~r->recv_mask) && r->recv[lane] == reg; }

/* Puts y, which round r has brought, into the cell of register reg in the lanes that receive it there. The
 * first value of a cell may be written to too many lanes, because the values of the other lanes are written
 * later. */
static void put_received(Emit *e, Shuffles *x, const LayoutRound *r, int reg, const char *y)
{
    int c = reg / x->per;
    bool *had = &x->had[c * x->lanes];
    const ByLane *some = x->filled[c] ? takes(e, r, reg, had, x->lanes) : NULL;
    for (int l = 0; l < x->lanes; l++) had[l] |= r->recv[l] == reg;
    if (some && (some->bit || !some->number))
        line(e, "%s[%d] = %s ? %s : %s[%d];", x->cell, c, is_one(e, some), y, x->cell, c);
    else line(e, "%s[%d] = %s;", x->cell, c, y);
    x->filled[c] = true;
}

static void emit_round(Emit *e, Shuffles *x, const LayoutRound *r, const char *from)
{
    Words w = { from, x->d, x->per };
    bool whole = x->per == per_word(x->d);
    const char *y = sent(e, r, &w), *got = tmp(e, "y"), *type = whole ? array_type(x->d) : "u32";
    if (r->shuffle) {
        const char *kind = !whole || x->per > 1 ? "u32" : x->d == DT_BOOL ? "bool" : dtype_name(x->d);
        y = str(e, "%s(%s, %s)", use(e, str(e, "shuffle_from_%s", kind)), y, source_lane(e, r, x->lanes));
    }
    line(e, "const %s %s = %s;", type, got, y);
    for (int lane = 0; lane < x->lanes; lane++) {
        bool seen = false;
        int reg = r->recv[lane];
        if (reg == LAYOUT_NOREG || !receives(r, lane, reg)) continue;
        for (int l = 0; l < lane; l++) seen |= receives(r, l, reg);
        if (!seen) put_received(e, x, r, reg, got);
    }
}

/* Packs n cells of one element each into the words of the result's array. */
static void pack_cells(Emit *e, const char *cell, int n, const char *to, DType d)
{
    int pw = per_word(d);
    for (int w = 0; w < array_len(d, n); w++) {
        const char *x = NULL;
        for (int q = 0; q < pw && w * pw + q < n; q++) {
            const char *part = str(e, "%s[%d]", cell, w * pw + q);
            if (q) part = str(e, "%s << %d", part, q * 32 / pw);
            x = x ? str(e, "%s | %s", x, part) : part;
        }
        line(e, "%s[%d] = %s;", to, w, x);
    }
}

static void shuffles(Emit *e, const LayoutConvert *p, const char *from, const char *to, DType d)
{
    int n = (int)layout_regs(p->dst);
    Shuffles x = { .p = p, .d = d, .lanes = (int)layout_lanes(p->src), .per = elements_together(p, d) };
    bool whole = x.per == per_word(d);
    x.cells = whole ? array_len(d, n) : n;
    x.cell = whole ? to : tmp(e, "raw");
    x.filled = arena_array(&e->s->arena, bool, (size_t)x.cells);
    x.had = arena_array(&e->s->arena, bool, (size_t)x.cells *(size_t)x.lanes);
    if (!whole) line(e, "u32 %s[%d];", x.cell, n);
    for (uint32_t k = 0; k < p->nround; k += (uint32_t)x.per) emit_round(e, &x, &p->round[k], from);
    for (int c = 0; c < x.cells; c++)
        if (!x.filled[c]) line(e, "%s[%d] = 0;", x.cell, c);
    if (!whole) pack_cells(e, x.cell, n, to, d);
}

/* --- the operation ----------------------------------------------------------------------------------- */

static void pick_registers(Emit *e, const LayoutConvert *plan, const Value *x, const Value *r)
{
    DType d = x->type->dtype;
    int n = (int)layout_regs(plan->dst), p = per_word(d);
    for (int w = 0; w < array_len(d, n); w++) {
        const char *xs[4];
        int here = n - w * p < p ? n - w * p : p;
        for (int k = 0; k < here; k++) {
            int src = plan->kind == LAYOUT_CONVERT_NONE ? w * p + k : plan->reg_map[w * p + k];
            xs[k] = src < 0 ? "0" : element(e, x, plan->src, index_number(e, src));
        }
        line(e, "%s[%d] = %s;", e->storage[r->id], w, pack_expr(e, d, xs, here));
    }
}

static bool goes_to_product(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->op == OP_MMA_SYNC && u != &u->user->operands[2]) return true;
    return false;
}

void emit_convert(Emit *e, Instr *i)
{
    Value *x = ir_operand(i, 0), *r = ir_result(i);
    DType d = x->type->dtype;
    const LayoutConvert *plan = kernel_conversion(&e->s->arena, e->plan, i);
    if (!plan)
        ir_fail(e->s, i->loc, "no way from %s to %s", type_string(e->s, x->type), type_string(e->s, r->type));
    if (plan->kind == LAYOUT_CONVERT_NONE && e->storage[x->id]) {
        e->storage[r->id] = e->storage[x->id];
        return;
    }
    if (plan->kind == LAYOUT_CONVERT_NONE || plan->kind == LAYOUT_CONVERT_REGISTERS) {
        declare_tile(e, r);
        if (!e->measure) pick_registers(e, plan, x, r);
        return;
    }
    if (emit_staged_convert(e, i)) return;
    const char *from = array_of(e, x, plan->src);
    line(e, "/* %s to %s: from one layout among the threads to another, %s */", name_of(e, x), name_of(e, r),
        plan->kind == LAYOUT_CONVERT_SHUFFLE ? "by exchange between lanes"
        : plan->warp_local                   ? "through shared memory, within warps"
                                             : "through shared memory");
    if (plan->kind == LAYOUT_CONVERT_SHUFFLE) {
        declare_tile(e, r);
        if (!e->measure) shuffles(e, plan, from, e->storage[r->id], d);
        return;
    }
    int64_t at = scratch(e, plan->bytes);
    const char *base = tmp(e, "sh");
    line(e, "const u32 %s = shared_base + SCRATCH + %lld;", base, (long long)at);
    /* AMD: without this barrier, clang computes the elements of the next operand while the fragments of this
     * one arrive, and holds both in registers. */
    if (is_hip(e) && goes_to_product(r)) line(e, "%s(0);", use(e, "sched_barrier"));
    barrier(e);
    put_array(e, from, d, plan->src, plan->shared, &plan->store, base);
    if (plan->warp_local) line(e, "%s();", use(e, "warp_sync"));
    else barrier(e);
    declare_tile(e, r);
    const char *to = e->storage[r->id];
    /* Four words come by one ldmatrix, which also transposes elements of 16 bits. */
    const bool many = array_len(d, (int)layout_regs(plan->dst)) >= 4 && plan->load.bytes <= 4;
    if (!many || !emit_matrix_read(e, to, d, plan->dst, plan->shared, base))
        take_shared(e, to, d, plan->dst, plan->shared, &plan->load, base);
}
