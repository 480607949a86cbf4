/* emit_convert.c: tiles from one layout to another as layout_convert plans it, and to and from shared tiles
 * in vectors.
 *
 * Elements move as raw bits: those narrower than a word travel packed where the plan keeps them together. */
#include "backends/gpu/emit_offset.h"

/* The raw bits of element r of an array; r is a number. */
static const char *raw_element(Emit *e, const char *array, DType d, int r)
{
    int p = per_word(d), bits = 32 / p;
    if (p == 1) return str(e, "%s[%d]", array, r);
    if (r % p == p - 1) return str(e, "%s[%d] >> %d", array, r / p, bits * (p - 1));
    return str(e, "(%s[%d] >> %d & %uu)", array, r / p, bits * (r % p), (1u << bits) - 1);
}

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

static void shuffles(Emit *e, const LayoutConvert *p, const char *from, const char *to, DType d)
{
    int pw = per_word(d), lanes = (int)layout_lanes(p->src), n = (int)layout_regs(p->dst);
    bool words = pw == 1;
    if (pw > 1 && (int)p->pack == pw && p->nround % p->pack == 0) {
        words = true;
        for (uint32_t k = 0; k < p->nround && words; k += p->pack) words = whole_words(p, k, pw);
    }
    int step = words ? pw : 1, cells = words ? array_len(d, n) : n;
    const char *cell = words ? to : tmp(e, "raw"), *type = words ? array_type(d) : "u32";
    bool *filled = arena_array(&e->s->arena, bool, (size_t)cells),
         *had = arena_array(&e->s->arena, bool, (size_t)cells *(size_t)lanes);
    const char *shuffle = NULL;
    if (!words) line(e, "u32 %s[%d];", cell, n);
    for (uint32_t k = 0; k < p->nround; k += (uint32_t)step) {
        const LayoutRound *r = &p->round[k];
        Words w = { from, d, words ? pw : 1 };
        const char *x = sent(e, r, &w), *y = tmp(e, "y");
        if (r->shuffle) {
            shuffle = use(e, str(e, "shuffle_from_%s",
                                 words && pw == 1 ? (d == DT_BOOL ? "bool" : dtype_name(d)) : "u32"));
            x = str(e, "%s(%s, %s)", shuffle, x, source_lane(e, r, lanes));
        }
        line(e, "const %s %s = %s;", type, y, x);
        for (int lane = 0; lane < lanes; lane++) {
            int reg = r->recv[lane];
            if (lane & ~r->recv_mask || reg == LAYOUT_NOREG) continue;
            bool seen = false;
            for (int l = 0; l < lane; l++) seen |= !(l & ~r->recv_mask) && r->recv[l] == reg;
            if (seen) continue;
            int c = words ? reg / pw : reg;
            /* The first value of a cell may be written to too many lanes, because the values of the other
             * lanes are written later. */
            const ByLane *some = filled[c] ? takes(e, r, reg, &had[c * lanes], lanes) : NULL;
            for (int l = 0; l < lanes; l++) had[c * lanes + l] |= r->recv[l] == reg;
            if (some && (some->bit || !some->number))
                line(e, "%s[%d] = %s ? %s : %s[%d];", cell, c, is_one(e, some), y, cell, c);
            else line(e, "%s[%d] = %s;", cell, c, y);
            filled[c] = true;
        }
    }
    for (int c = 0; c < cells; c++)
        if (!filled[c]) line(e, "%s[%d] = 0;", cell, c);
    for (int w = 0; !words && w < array_len(d, n); w++) {
        const char *x = NULL;
        for (int q = 0; q < pw && w * pw + q < n; q++) {
            const char *part =
                q ? str(e, "%s[%d] << %d", cell, w * pw + q, q * 32 / pw) : str(e, "%s[%d]", cell, w * pw);
            x = x ? str(e, "%s | %s", x, part) : part;
        }
        line(e, "%s[%d] = %s;", to, w, x);
    }
}

/* --- shared tiles in vectors ------------------------------------------------------------------------- */

/* Whether the registers of each vector are successive and form whole words of the array. */
static bool plain_vector(const LayoutVector *v, DType d)
{
    if (d == DT_BOOL && v->n > 1) return false;
    for (uint32_t k = 0; k < v->n; k++)
        if (v->reg[k] != k) return false;
    return v->mask == v->n - 1 && v->bytes >= 4;
}

/* Element k of a vector goes to register r ^ v->reg[k]. Whether every word of the array that the vector
 * writes consists of its elements alone. */
static bool whole_cells(const LayoutVector *v, DType d, int r)
{
    int pw = per_word(d), n = (int)v->n;
    for (int k = 0; k < n; k++) {
        int here = 0;
        for (int j = 0; j < n; j++)
            here +=
                (int)(((unsigned)r ^ v->reg[j]) / (unsigned)pw == ((unsigned)r ^ v->reg[k]) / (unsigned)pw);
        if (here != pw) return false;
    }
    return true;
}

/* Reads a vector at once and then composes the words of the array from its elements. */
static void take_vector(
    Emit *e, const char *array, DType d, const LayoutVector *v, const char *fn, const char *at, int r)
{
    int pw = per_word(d), n = (int)v->n;
    const char *w = tmp(e, "w");
    line(e, "%s %s[%d];", array_type(d), w, n / pw);
    line(e, "%s(%s, %s);", use(e, fn), w, at);
    for (int k = 0; k < n; k++) {
        int q = (int)((unsigned)r ^ v->reg[k]);
        bool run = k % pw == 0;
        const char *y = NULL;
        if (q % pw) continue;
        for (int j = 0; j < pw; j++) {
            int from = 0;
            while ((int)((unsigned)r ^ v->reg[from]) != q + j) from++;
            run &= from == k + j;
            const char *part = raw_element(e, w, d, from);
            if (j) part = str(e, "(%s) << %d", part, 32 / pw * j);
            y = y ? str(e, "%s | %s", y, part) : part;
        }
        line(e, "%s[%d] = %s;", array, q / pw, run ? str(e, "%s[%d]", w, k / pw) : y);
    }
}

/* Composes a vector of words from elements of other words, and writes it at once. */
static void put_vector(
    Emit *e, const char *array, DType d, const LayoutVector *v, const char *fn, const char *at, int r)
{
    const char *w = tmp(e, "w"), *x = "";
    int pw = per_word(d), n = (int)v->n, words = n * dtype_bytes(d) / 4;
    if (pw == 1 && dtype_bytes(d) == 8) {
        for (int k = 0; k < n; k++)
            x = str(e, "%s%s%s[%u]", x, k ? ", " : "", array, (unsigned)r ^ v->reg[k]);
        line(e, "const %s %s[%d] = { %s };", ctype(d), w, n, x);
    } else {
        for (int k = 0; k < words; k++) {
            const char *y = NULL;
            for (int q = 0; q < pw; q++) {
                const char *part = raw_element(e, array, d, (int)((unsigned)r ^ v->reg[k * pw + q]));
                if (q) part = str(e, "(%s) << %d", part, 32 / pw * q);
                y = y ? str(e, "%s | %s", y, part) : part;
            }
            x = str(e, "%s%s%s", x, k ? ", " : "", y);
        }
        line(e, "const %s %s[%d] = { %s };", array_type(d), w, words, x);
    }
    line(e, "%s(%s, %s);", use(e, fn), at, w);
}

typedef struct Origin {
    const char *name;
    uint32_t *own, seen;
    int n, every;
} Origin;

/* Moves a vector, whose first register is `number` times `every`. The number is known unless the vector is
 * plain. */
static void move_vector(Emit *e, bool put, const char *array, DType d, const Layout *l, const LayoutShared *s,
    const LayoutVector *v, const char *base, Index *number, const Origin *o)
{
    Index *c[TILE_MAX_RANK], *reg = number->kind == INDEX_NUMBER ? index_number(e, number->add * o->every)
                                                                 : index_linear(e, o->every, number->text, 0);
    const char *in = "";
    coords_at(e, l, reg, c);
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a])
            in = str(e, "%s%s%s < %d", in, *in ? " && " : "", index_text(e, c[a]), l->tile[a]);
    if (*in) {
        line(e, "if (%s) {", in);
        e->indent++;
    }
    const char *at = str(e, "%s + %s", base,
                   o->name ? linear_address(e, o->name, o->own, o->seen, o->n, o->every, number)
                           : shared_offset(e, s, c)),
               *fn = str(e, "%s_b%u", put ? "sts" : "lds", v->bytes * 8);
    int pw = per_word(d), r = reg->add, n = (int)v->n;
    if (plain_vector(v, d)) {
        const char *first = index_text(e, reg),
                   *word = str(e, "&%s[%s]", array, pw == 1 ? first : str(e, "(%s) / %d", first, pw));
        line(e, put ? "%s(%s, %s);" : "%s(%s, %s);", use(e, fn), put ? at : word, put ? word : at);
    } else if (put && v->bytes >= 4 && d != DT_BOOL) put_vector(e, array, d, v, fn, at, r);
    else if (!put && v->bytes >= 4 && d != DT_BOOL && whole_cells(v, d, r))
        take_vector(e, array, d, v, fn, at, r);
    else {
        for (int k = 0; k < n; k++) {
            int q = (int)((unsigned)r ^ v->reg[k]);
            const char *a = k ? str(e, "%s + %d", at, k * dtype_bytes(d)) : at;
            if (pw == 1) {
                if (put) line(e, "%s(%s, %s[%d]);", use(e, str(e, "sts_%s", dtype_name(d))), a, array, q);
                else line(e, "%s[%d] = %s(%s);", array, q, use(e, str(e, "lds_%s", dtype_name(d))), a);
            } else if (put)
                line(
                    e, "%s(%s, %s);", use(e, pw == 2 ? "sts_w16" : "sts_w8"), a, raw_element(e, array, d, q));
            else {
                int shift = 32 / pw * (q % pw);
                line(e, "%s[%d] = (%s[%d] & ~(%uu << %d)) | (u32)%s(%s) << %d;", array, q / pw, array, q / pw,
                    (1u << 32 / pw) - 1, shift, use(e, pw == 2 ? "lds_b16" : "lds_b8"), a, shift);
            }
        }
    }
    if (*in) end_block(e);
}

/* Reads fragments whose bytes are adjacent two by two (fragments of 16-bit types, before they are widened). A
 * word of the array takes two reads. */
static bool take_byte_pairs(Emit *e, const char *array, DType d, const Layout *l, const LayoutShared *s,
    const LayoutVector *v, const char *base)
{
    uint32_t *own, seen;
    int words = (int)layout_regs(l) / 4;
    Index *c[TILE_MAX_RANK], *word = index_variable(e, "v");
    if (per_word(d) != 4 || v->n != 2 || v->reg[0] != 0 || v->reg[1] != 1 || v->mask != 1 ||
        layout_regs(l) % 4 || !linear_offsets(e, l, s, 2, &own, &seen))
        return false;
    coords_at(e, l, index_number(e, 0), c);
    const char *at = tmp(e, "at"), *fn = use(e, "lds_b16"), *origin = shared_offset(e, s, c), *to = "";
    /* Bits of an address below the alignment of buffers may be applied by exclusive or after the buffer's
     * address is added. */
    bool low = true;
    for (uint32_t r = 0; r < layout_regs(l); r += 2) low &= (own[r] & seen) < 128;
    if (low) line(e, "const u32 %s = %s + %s;", at, base, origin);
    else {
        to = str(e, "%s + ", base);
        at = origin;
    }
    begin_unrolled(e, "v", words);
    line(e, "%s[v] = (u32)%s(%s%s) | (u32)%s(%s%s) << 16;", array, fn, to,
        linear_address(e, at, own, seen, words, 4, word), fn, to,
        linear_address(e, at, own + 2, seen, words, 4, word));
    end_block(e);
    return true;
}

/* Whether the places of n accesses are computed where they are used, from one of them. They depend on the
 * thread alone: the vendor's compiler would compute them ahead of a loop, or once for several products, and
 * spill them. Registers hold few of them beside accumulators, more if other warps load the tiles. */
static bool has_many_places(const Emit *e, int n)
{
    enum { FEW_BESIDE_TILES = 8, FEW_PLACES = 32 };
    if (e->plan->producer_warps) return n > FEW_PLACES;
    bool in_loop = e->here && e->here->block != e->f->body;
    return !is_hip(e) && (in_loop || e->multiplies) && n > FEW_BESIDE_TILES;
}

/* Moves all registers of l (in `array`) to or from the shared tile at `base`. */
static void move_tile(Emit *e, bool put, const char *array, DType d, const Layout *l, const LayoutShared *s,
    const LayoutVector *v, const char *base)
{
    int regs = (int)layout_regs(l), n = (int)v->n;
    bool padded = false;
    if (e->measure) return; /* all of it is text */
    for (int a = 0; a < l->rank; a++) padded |= l->cover[a] != l->tile[a];
    if (!put && !padded && take_exchanged(e, array, d, l, s, v, base)) return;
    note_vectors(e, put, l, s, v);
    if (!put && !padded && take_byte_pairs(e, array, d, l, s, v, base)) return;
    if (!put && ((padded || !plain_vector(v, d)) && per_word(d) > 1)) {
        begin_unrolled(e, "i", array_len(d, regs));
        line(e, "%s[i] = 0;", array);
        end_block(e);
    }
    bool looped = plain_vector(v, d) && regs % n == 0;
    Origin o = { .n = looped ? regs / n : regs, .every = looped ? n : 1 };
    bool apart = has_many_places(e, o.n);
    if (!e->measure && (e->iteration || apart) && linear_offsets(e, l, s, o.every, &o.own, &o.seen)) {
        Index *c[TILE_MAX_RANK];
        coords_at(e, l, index_number(e, 0), c);
        o.name = shared_offset(e, s, c);
        if (apart) line(e, "%s(%s);", use(e, "pin_word"), o.name);
    }
    if (looped) {
        begin_unrolled(e, "v", regs / n);
        move_vector(e, put, array, d, l, s, v, base, index_variable(e, "v"), &o);
        end_block(e);
        return;
    }
    for (int r = 0; r < regs; r++)
        if (layout_vector_base(v, (uint32_t)r))
            move_vector(e, put, array, d, l, s, v, base, index_number(e, r), &o);
}

void put_shared(
    Emit *e, const Value *x, const Layout *l, const LayoutShared *s, const LayoutVector *v, const char *base)
{ move_tile(e, true, array_of(e, x, l), x->type->dtype, l, s, v, base); }

void take_shared(Emit *e, const char *array, DType d, const Layout *l, const LayoutShared *s,
    const LayoutVector *v, const char *base)
{ move_tile(e, false, array, d, l, s, v, base); }

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
    move_tile(e, true, from, d, plan->src, plan->shared, &plan->store, base);
    if (plan->warp_local) line(e, "%s();", use(e, "warp_sync"));
    else barrier(e);
    declare_tile(e, r);
    move_tile(e, false, e->storage[r->id], d, plan->dst, plan->shared, &plan->load, base);
}
