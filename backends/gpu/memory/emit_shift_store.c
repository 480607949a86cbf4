/* emit_shift_store.c: stores of rows that begin at no multiple of 16 bytes (emit_shift.c draws them).
 *
 * A store rotates each run by s; a vector is then the upper part of a lane's run and the lower part of the
 * run before, which is the lane before's (the last lane's of the register before): one exchange. Vectors at
 * the ends of a chain of runs, which others share, go in pieces of 8, 4, 2 and 1 bytes. Runs have 16 bytes;
 * 8 or 4 where elements have fewer bytes than those for whose sake a lane has them side by side. */
#include "backends/gpu/memory/emit_shift.h"

/* Vectors: an array of all aligned vectors, each with its part of the run before. rest: the words that the
 * last lane of run v passes on. */
typedef struct Exchange {
    const char *vectors, *rest, *shift, *first, *holder;
    const ShiftChain *chain;
} Exchange;

/* The function of this stem for vectors as wide as a run. */
static const char *of_width(const Shift *s, const char *stem)
{ return use(s->e, str(s->e, "%s_b%d", stem, 8 * s->width)); }

/* Stores the words at `words` if a condition holds. */
static void store_if(const Shift *s, const char *condition, const char *to, const char *words)
{
    const char *stem = str(s->e, "stg_if%s", window_hint(s->e, s->w, ACCESS_VECTOR));
    line(s->e, "%s(%s, %s, %s%s);", of_width(s, stem), condition, to, s->words == 1 ? "*" : "", words);
}

/* Declares, for the vector in which the run at register r begins: `at`, the address of the run; `s`, its
 * shift; `k`, the coordinate of the vector's first element. */
static void begin_vector(Shift *s, const Exchange *x, Index *r)
{
    Emit *e = s->e;
    shift_place(s, r);
    line(
        e, "const %s *const at = %s + %s;", pointee(e->f->params[s->w->param].type->dtype), s->ptr, s->index);
    line(e, "const u32 s = %s;", s->one_row ? x->shift : shift_of(s, "at"));
    line(e, "u8 *const p = (u8 *)at - s;");
    line(e, "const i32 k = %s - (i32)s / %d;", s->at, s->bytes);
}

/* The condition that one of two holds; "" is always true. */
static const char *any_of(Emit *e, const char *a, const char *b)
{ return !*a || !*b ? "" : str(e, "(%s || %s)", a, b); }

/* The condition that no other thread's bytes share the vector in which a chain's first run begins: the row
 * begins there, or the lane before has the run before. */
static const char *whole_head(Emit *e, const Exchange *x)
{ return any_of(e, "s == 0", x->chain->lanes > 1 ? str(e, "!%s", x->first) : "false"); }

/* Stores whole vectors. The first vector of a chain is whole if the row begins there. tails: stores the
 * pieces before the limit instead, wherever the limit is. */
static void store_vectors(Shift *s, const Exchange *x, bool tails)
{
    Emit *e = s->e;
    int n = s->vectors, count = 0;
    int32_t *inner = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int v = 0; v < n; v++) count += inner[v] = x->chain->before[v] >= 0;
    begin_unrolled(e, "v", n);
    begin_vector(s, x, shift_run_at(s, 0));
    const char *apart = count == n ? "" : whole_head(e, x);
    if (count && count < n) apart = any_of(e, entry_text(e, inner, n, "v"), apart);
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows), apart);
    if (!tails)
        store_if(s, both_conditions(e, mine, str(e, "k + %d <= %s", s->n, s->limit)), "p",
            str(e, "&%s[%d * v]", x->vectors, s->words));
    else
        line(e, "if (%s) %s(true, p, &%s[%d * v], %s, %d);",
            both_conditions(e, mine, str(e, "k < %s && k + %d > %s", s->limit, s->n, s->limit)),
            of_width(s, "stg_low"), x->vectors, s->words, shift_as_bytes(s, str(e, "%s - k", s->limit)),
            s->bytes);
    end_block(e);
}

static void begin_edge(Shift *s, const Exchange *x, int v)
{
    line(s->e, "{");
    s->e->indent++;
    begin_vector(s, x, index_number(s->e, s->n * v));
}

/* Stores the vector in which the row ends, if run v begins in it. */
static void store_tail(Shift *s, const Exchange *x, int v)
{
    Emit *e = s->e;
    begin_edge(s, x, v);
    const char *apart = x->chain->before[v] >= 0 ? "" : whole_head(e, x);
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows), apart);
    line(e, "%s(%s, p, &%s[%d], %s, %d);", of_width(s, "stg_low"),
        both_conditions(e, mine, str(e, "k < %s && k + %d > %s", s->limit, s->n, s->limit)), x->vectors,
        s->words * v, shift_as_bytes(s, str(e, "%s - k", s->limit)), s->bytes);
    end_block(e);
}

/* Stores the vector in which the chain begins with run v. Other threads store its first bytes. */
static void store_head(Shift *s, const Exchange *x, int v)
{
    Emit *e = s->e;
    int32_t c[TILE_MAX_RANK];
    bool whole = s->known >= 0; /* whether each chain has a whole run in range, or nothing */
    for (uint32_t b = 0; b < layout_blocks(s->l) && whole; b++)
        for (uint32_t w = 0; w < layout_warps(s->l); w++) {
            layout_element(s->l, (uint32_t)(v * s->n), 0, w, b, c);
            whole &= c[s->w->unit_tile] + s->n <= s->known || c[s->w->unit_tile] >= s->known;
        }
    begin_edge(s, x, v);
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows),
        both_conditions(e, x->chain->lanes > 1 ? x->first : "", "s"));
    line(e, "%s(%s, p, &%s[%d], s, %d);", of_width(s, "stg_high"),
        both_conditions(e, mine, str(e, "%s + %d <= %s", s->at, s->n, s->limit)), x->vectors, s->words * v,
        s->bytes);
    if (!whole) {
        const char *to = shift_as_bytes(s, str(e, "%s - k", s->limit));
        line(e, "if (%s) %s(p, &%s[%d], s, %s < %d ? %s : %d);",
            both_conditions(
                e, mine, str(e, "%s < %s && %s + %d > %s", s->at, s->limit, s->at, s->n, s->limit)),
            of_width(s, "stg_mid"), x->vectors, s->words * v, to, s->width, to, s->width);
    }
    end_block(e);
}

/* Whether run v is the last one of a chain, behind which the next vector may have elements in range. */
static bool has_rest(const Shift *s, const ShiftChain *chain, int v)
{
    int32_t c[TILE_MAX_RANK];
    for (int q = 0; q < s->vectors; q++)
        if (chain->before[q] == v) return false;
    if (s->known < 0) return true;
    for (uint32_t b = 0; b < layout_blocks(s->l); b++)
        for (uint32_t w = 0; w < layout_warps(s->l); w++) {
            layout_element(s->l, (uint32_t)(v * s->n), 0, w, b, c);
            if (c[s->w->unit_tile] + s->n * (chain->lanes - 1) < s->known)
                return true; /* some of the last lane's run */
        }
    return false;
}

/* Stores that vector, whose first s bytes belong to the last lane. */
static void store_rest(Shift *s, const Exchange *x, int v)
{
    Emit *e = s->e;
    int run = s->n * x->chain->lanes;
    begin_edge(s, x, v);
    line(e, "const i32 n = %s;", shift_as_bytes(s, str(e, "%s - (k + %d)", s->limit, run)));
    const char *mine = both_conditions(e, both_conditions(e, x->holder, s->rows),
        both_conditions(e, x->chain->lanes > 1 ? x->first : "", "s && n > 0"));
    line(e, "%s(%s, p + %d, &%s[%d], n < (i32)s ? n : s, %d);", of_width(s, "stg_low"), mine, run * s->bytes,
        x->rest, s->words * v, s->bytes);
    end_block(e);
}

/* Makes the aligned vectors: rotates the runs and exchanges the missing words between lanes. by: the shift;
 * words: its whole words, or -1 if only the thread knows them. */
static void exchange(Shift *s, const Exchange *x, const char *from, DType d, const char *by, int words)
{
    Emit *e = s->e;
    const ShiftChain *chain = x->chain;
    int n = s->vectors, each = s->words, needed = words < 0 ? each : words + (s->bytes < 4), heads = 0;
    int32_t *before = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int v = 0; v < n; v++) {
        heads += chain->before[v] < 0;
        before[v] = chain->before[v] < 0 ? v : chain->before[v];
    }
    const char *other = x->rest;
    begin_unrolled(e, "v", n);
    shift_place(s, shift_run_at(s, 0));
    line(e, "%s(&%s[%d * v], (const u32 *)&%s[%d * v], %s);", of_width(s, "rotate"), x->vectors, each, from,
        s->n / per_word(d), by ? by : shift_of(s, str(e, "%s + %s", s->ptr, s->index)));
    end_block(e);
    if (!needed) return;
    begin_unrolled(e, "v", n);
    begin_unrolled(e, "q", needed);
    const char *mine = str(e, "%s[%d * v + q]", x->vectors, each);
    if (chain->lanes > 1)
        mine = str(e, "%s(%s, (lane & ~%d) | ((lane - 1) & %d))", use(e, "shuffle_index_u32"), mine,
            chain->lanes - 1, chain->lanes - 1);
    line(e, "%s[%d * v + q] = %s;", other, each, mine);
    end_block(e);
    end_block(e);
    begin_unrolled(e, "v", n);
    shift_place(s, shift_run_at(s, 0));
    line(e, "const u32 s = %s;", by ? by : shift_of(s, str(e, "%s + %s", s->ptr, s->index)));
    begin_unrolled(e, "q", needed);
    const char *prior = str(e, "%s[%d * v + q]", other, each);
    if (heads < n) {
        const char *back = str(e, "%s[%d * (%s) + q]", other, each, entry_text(e, before, n, "v"));
        prior = chain->lanes > 1 ? str(e, "(%s ? %s : %s)", x->first, back, prior) : back;
    }
    line(e, "%s[%d * v + q] = %s(%s, %s[%d * v + q], (i32)s - 4 * q);", x->vectors, each, use(e, "low_bytes"),
        prior, x->vectors, each);
    end_block(e);
    end_block(e);
}

/* Stores aligned rows: whole vectors, and the pieces of the vector in which the row ends. */
static void store_aligned(Shift *s, const char *from, const char *holder, DType d)
{
    Emit *e = s->e;
    bool pieces = s->known < 0 || s->known % s->n, inside = s->known == s->l->cover[s->w->unit_tile];
    begin_unrolled(e, "v", s->vectors);
    shift_place(s, shift_run_at(s, 0));
    const char *mine = both_conditions(e, holder, s->rows),
               *whole =
                   both_conditions(e, mine, inside ? "" : str(e, "%s + %d <= %s", s->at, s->n, s->limit)),
               *words = str(e, "(const u32 *)&%s[%d * v]", from, s->n / per_word(d));
    if (*whole) store_if(s, whole, str(e, "(void *)(%s + %s)", s->ptr, s->index), words);
    else
        line(e, "%s(%s + %s, %s);", of_width(s, str(e, "stg%s", window_hint(e, s->w, ACCESS_VECTOR))), s->ptr,
            s->index, words);
    if (pieces) {
        const char *some = both_conditions(
            e, mine, str(e, "%s < %s && %s + %d > %s", s->at, s->limit, s->at, s->n, s->limit));
        line(e, "%s(%s, (void *)(%s + %s), %s, (u32)(%s) & %d, %d);", of_width(s, "stg_low"), some, s->ptr,
            s->index, words, shift_as_bytes(s, s->limit), s->width - 1, s->bytes);
    }
    end_block(e);
}

static void store_exchanged(Shift *s, const char *from, const char *holder, DType d, const ShiftChain *chain)
{
    Emit *e = s->e;
    Exchange x = { .vectors = tmp(e, "vectors"), .rest = tmp(e, "other"), .chain = chain, .holder = holder };
    x.first = str(e, "((lane & %d) == 0)", chain->lanes - 1);
    line(e, "u32 %s[%d], %s[%d];", x.vectors, s->words * s->vectors, x.rest, s->words * s->vectors);
    shift_go_to_row(s, false);
    if (s->one_row) {
        x.shift = tmp(e, "shift");
        line(e, "const u32 %s = %s;", x.shift, shift_of(s, s->ptr));
        for (int word = 0; word < s->words; word++) {
            shift_begin_word(s, x.shift, word);
            exchange(s, &x, from, d, shift_in_word(s, x.shift, word), word);
            end_block(e);
        }
    } else exchange(s, &x, from, d, NULL, -1);
    store_vectors(s, &x, false);
    if (s->known < 0) {
        int tile = s->l->tile[s->w->unit_tile];
        line(e, tile == s->l->cover[s->w->unit_tile] ? "if (%s < %d) {" : "{", s->limit, tile);
        e->indent++;
        store_vectors(s, &x, true);
        end_block(e);
    }
    for (int k = 0; k < s->vectors; k++) {
        if (chain->before[k] < 0) store_head(s, &x, k);
        if (s->known >= 0 && shift_against_limit(s, k, s->n - 1) == 0) store_tail(s, &x, k);
        if (has_rest(s, chain, k)) store_rest(s, &x, k);
    }
}

/* Whether the store is by shifted vectors: the widest that the layout has, and none narrower than 16 bytes
 * where the row is stored by whole words as it is. */
static bool by_shifting(Emit *e, const Window *w, const Layout *l, DType d, Shift *s)
{
    LayoutVector v;
    ShiftChain chain;
    if (w->unit_tile < 0) return false;
    bool plain = window_vector(e, w, l, d, &v) > 1 && window_whole_vectors(e, w, (int)v.n);
    RowStartAccess words = kernel_row_start(e->f, e->plan);
    int bytes = words.bytes ? words.unit : plain ? (int)v.bytes : dtype_bytes(d);
    return kernel_store_chain(&e->s->arena, l, w->unit_tile, dtype_bytes(d), bytes, &chain) &&
           shift_begin(e, w, l, d, chain.width, s) && bytes < 16;
}

bool store_exchanges(Emit *e, const Instr *store)
{
    MemParts m;
    Window w;
    Shift s;
    ir_mem_parts(store, &m);
    if (ir_adds(store) || m.values[0]->type->kind != TYPE_TILE) return false;
    window_of(e, store, &w);
    return by_shifting(e, &w, layout_of(e, m.values[0]), m.tensor->type->dtype, &s) && w.align % s.width != 0;
}

ShiftDone emit_shifted_store(
    Emit *e, const Window *w, const Layout *l, DType d, const char *ptr, const char *from)
{
    Shift s;
    ShiftChain chain;
    ShiftDone row = emit_row_store(e, w, l, d, ptr, from);
    if (row != SHIFT_NONE) return row;
    if (!by_shifting(e, w, l, d, &s)) return SHIFT_NONE;
    kernel_shift_chain(&e->s->arena, l, w->unit_tile, s.bytes, s.width, &chain);
    s.ptr = ptr;
    shift_find_limit(&s);
    const char *slow = w->masked && !shift_offset_known(&s) ? name_of(e, w->offset[w->unit]) : NULL,
               *holder = unique_holder(e, l);
    line(e, slow ? "if (%s >= 0) {" : "{", slow);
    e->indent++;
    if (w->align % s.width == 0) store_aligned(&s, from, holder, d);
    else store_exchanged(&s, from, holder, d, &chain);
    end_block(e);
    if (!slow) return SHIFT_ALL;
    line(e, "else {");
    e->indent++;
    return SHIFT_PART;
}
