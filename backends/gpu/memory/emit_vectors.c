/* emit_vectors.c: tiles between registers and shared memory, in vectors as wide as layout and shared tile
 * allow (layout_shared_vector). Elements move as raw bits, and those narrower than a word lie several to a
 * word of a thread's array: a vector whose elements are whole words of it is moved as it is, others are
 * composed of, or taken apart into, words. */
#include "backends/gpu/memory/emit_offset.h"
#include "backends/gpu/memory/emit_vectors.h"

const char *raw_element(Emit *e, const char *array, DType d, int r)
{
    int p = per_word(d), bits = 32 / p;
    if (p == 1) return str(e, "%s[%d]", array, r);
    if (r % p == p - 1) return str(e, "%s[%d] >> %d", array, r / p, bits * (p - 1));
    return str(e, "(%s[%d] >> %d & %uu)", array, r / p, bits * (r % p), (1u << bits) - 1);
}

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

/* A tile on its way between the registers of layout l, in `array`, and the shared tile at `base`. `places`
 * are numbered vectors of `every` registers, whose addresses are linear in `origin` (emit_offset.h); NULL:
 * each address is computed from coordinates. */
typedef struct Move {
    bool put; /* to shared memory */
    const char *array;
    DType d;
    const Layout *l;
    const LayoutShared *s;
    const LayoutVector *v;
    const char *base, *origin;
    uint32_t *own, seen;
    int places, every;
} Move;

/* The condition that the element at these coordinates is in the tile; "": it always is. */
static const char *inside(Emit *e, const Layout *l, Index *const *c)
{
    const char *in = "";
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a])
            in = str(e, "%s%s%s < %d", in, *in ? " && " : "", index_text(e, c[a]), l->tile[a]);
    return in;
}

/* Element k of the vector of register r goes by itself. */
static void move_element(Emit *e, const Move *m, const char *at, int r, int k)
{
    DType d = m->d;
    int pw = per_word(d), q = (int)((unsigned)r ^ m->v->reg[k]), bits = 32 / pw, shift = bits * (q % pw);
    const char *a = k ? str(e, "%s + %d", at, k * dtype_bytes(d)) : at;
    if (pw == 1 && m->put)
        line(e, "%s(%s, %s[%d]);", use(e, str(e, "sts_%s", dtype_name(d))), a, m->array, q);
    else if (pw == 1) line(e, "%s[%d] = %s(%s);", m->array, q, use(e, str(e, "lds_%s", dtype_name(d))), a);
    else if (m->put)
        line(e, "%s(%s, %s);", use(e, pw == 2 ? "sts_w16" : "sts_w8"), a, raw_element(e, m->array, d, q));
    else
        line(e, "%s[%d] = (%s[%d] & ~(%uu << %d)) | (u32)%s(%s) << %d;", m->array, q / pw, m->array, q / pw,
            (1u << bits) - 1, shift, use(e, pw == 2 ? "lds_b16" : "lds_b8"), a, shift);
}

/* Moves a vector, whose first register is `number` times m->every. The number is known unless the vector is
 * plain. */
static void move_vector(Emit *e, const Move *m, Index *number)
{
    const LayoutVector *v = m->v;
    Index *c[TILE_MAX_RANK], *reg = number->kind == INDEX_NUMBER ? index_number(e, number->add * m->every)
                                                                 : index_linear(e, m->every, number->text, 0);
    coords_at(e, m->l, reg, c);
    const char *in = inside(e, m->l, c);
    if (*in) {
        line(e, "if (%s) {", in);
        e->indent++;
    }
    const char *offset = m->origin
                             ? linear_address(e, m->origin, m->own, m->seen, m->places, m->every, number)
                             : shared_offset(e, m->s, c),
               *at = str(e, "%s + %s", m->base, offset),
               *fn = str(e, "%s_b%u", m->put ? "sts" : "lds", v->bytes * 8);
    int pw = per_word(m->d), r = reg->add;
    bool words = v->bytes >= 4 && m->d != DT_BOOL;
    if (plain_vector(v, m->d)) {
        const char *first = index_text(e, reg),
                   *word = str(e, "&%s[%s]", m->array, pw == 1 ? first : str(e, "(%s) / %d", first, pw));
        line(e, "%s(%s, %s);", use(e, fn), m->put ? at : word, m->put ? word : at);
    } else if (m->put && words) put_vector(e, m->array, m->d, v, fn, at, r);
    else if (!m->put && words && whole_cells(v, m->d, r)) take_vector(e, m->array, m->d, v, fn, at, r);
    else
        for (int k = 0; k < (int)v->n; k++) move_element(e, m, at, r, k);
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

/* Computes the places from the thread's address of register 0, where they are linear in that. Of many places
 * the origin is pinned, so that they are computed where they are used. */
static void find_origin(Emit *e, Move *m)
{
    bool pinned = emit_many_places(e, m->places);
    Index *c[TILE_MAX_RANK];
    if ((!e->iteration && !pinned) || !linear_offsets(e, m->l, m->s, m->every, &m->own, &m->seen)) return;
    coords_at(e, m->l, index_number(e, 0), c);
    m->origin = shared_offset(e, m->s, c);
    if (pinned) line(e, "%s(%s);", use(e, "pin_word"), m->origin);
}

/* Moves all registers of the layout. */
static void move_tile(Emit *e, Move *m)
{
    const Layout *l = m->l;
    int regs = (int)layout_regs(l), n = (int)m->v->n;
    bool padded = false, plain = plain_vector(m->v, m->d);
    if (e->measure) return; /* all of it is text */
    for (int a = 0; a < l->rank; a++) padded |= l->cover[a] != l->tile[a];
    if (!m->put && !padded && take_exchanged(e, m->array, m->d, l, m->s, m->v, m->base)) return;
    note_vectors(e, m->put, l, m->s, m->v);
    if (!m->put && !padded && take_byte_pairs(e, m->array, m->d, l, m->s, m->v, m->base)) return;
    if (!m->put && (padded || !plain) && per_word(m->d) > 1) {
        begin_unrolled(e, "i", array_len(m->d, regs));
        line(e, "%s[i] = 0;", m->array);
        end_block(e);
    }
    bool looped = plain && regs % n == 0;
    m->every = looped ? n : 1;
    m->places = regs / m->every;
    find_origin(e, m);
    if (looped) {
        begin_unrolled(e, "v", m->places);
        move_vector(e, m, index_variable(e, "v"));
        end_block(e);
        return;
    }
    for (int r = 0; r < regs; r++)
        if (layout_vector_base(m->v, (uint32_t)r)) move_vector(e, m, index_number(e, r));
}

void put_array(Emit *e, const char *array, DType d, const Layout *l, const LayoutShared *s,
    const LayoutVector *v, const char *base)
{
    Move m = { true, array, d, .l = l, .s = s, .v = v, .base = base };
    move_tile(e, &m);
}

void put_shared(
    Emit *e, const Value *x, const Layout *l, const LayoutShared *s, const LayoutVector *v, const char *base)
{ put_array(e, array_of(e, x, l), x->type->dtype, l, s, v, base); }

void take_shared(Emit *e, const char *array, DType d, const Layout *l, const LayoutShared *s,
    const LayoutVector *v, const char *base)
{
    Move m = { false, array, d, .l = l, .s = s, .v = v, .base = base };
    move_tile(e, &m);
}
