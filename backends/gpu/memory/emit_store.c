/* emit_store.c: windows of tensors from registers. */
#include "backends/gpu/emit.h"

const char *vector_words(Emit *e, const LayoutVector *v, const char *from, DType d, Index *base, bool follow)
{
    int pw = per_word(d), words = (int)v->n / pw;
    const char *at = index_text(e, base);
    if (pw > 1) at = str(e, "(%s) / %d", at, pw);
    if (follow) return str(e, "&%s[%s]", from, at);
    const char *t = tmp(e, "w"), *init = "";
    for (int k = 0; k < words; k++)
        init = str(e, "%s%s%s[%s + %u]", init, k ? ", " : "", from, at, v->reg[k * pw] / (unsigned)pw);
    line(e, "const %s %s[%d] = { %s };", array_type(d), t, words, init);
    return t;
}

/* A store that is being emitted: vectors of n elements from the array `from`. */
typedef struct Store {
    const Window *w;
    const Layout *l;
    DType d;
    const char *ptr, *from;
    const char *put;    /* stores or adds one element */
    bool adds;          /* atomic addition instead of a store */
    const char *holder; /* the condition that selects one of the threads that hold an element */
    LayoutVector v;
    int n;
} Store;

/* The function that stores or adds one element, which it takes as element_type says. */
static const char *element_fn(Emit *e, bool adds, DType d)
{ return use(e, str(e, adds ? "atomic_add_%s" : "stg_%s", dtype_name(d))); }

static void store_scalar(Emit *e, const Window *w, const Value *x, DType d, const char *ptr, bool adds)
{
    Index *c[TILE_MAX_RANK] = { 0 };
    const char *what = name_of(e, x), *in_window = window_condition(e, w, c, false);
    /* All CTAs of a cluster have the result of a row. One of them stores it. */
    const char *one = e->plan->cluster > 1 && !e->plan->split_k ? "tid == 0 " AND " block == 0" : "tid == 0";
    line(e, "if (%s) %s(%s, %s);", both_conditions(e, one, in_window), element_fn(e, adds, d), ptr, what);
}

/* The array that holds the tile: the tile's own, or one that is filled here. */
static const char *stored_array(Emit *e, const Value *x, const Layout *l, DType d)
{
    if (e->storage[x->id]) return e->storage[x->id];
    const char *from = tmp(e, "val");
    int regs = (int)layout_regs(l), p = per_word(d);
    line(e, "%s %s[%d];", array_type(d), from, array_len(d, regs));
    for (int word = 0; word < array_len(d, regs); word++) {
        const char *xs[4];
        int here = regs - word * p < p ? regs - word * p : p;
        for (int k = 0; k < here; k++) xs[k] = element(e, x, l, index_number(e, word * p + k));
        line(e, "%s[%d] = %s;", from, word, pack_expr(e, d, xs, here));
    }
    return from;
}

static const char *vector_fn(Emit *e, const Store *s)
{
    if (s->adds) return use(e, str(e, "red_add_%s_b%d", dtype_name(s->d), (int)s->v.bytes * 8));
    return use(e, str(e, "stg%s_b%d", window_hint(e, s->w, ACCESS_VECTOR), (int)s->v.bytes * 8));
}

/* Elements are stored as bits, and added as numbers. */
static DType element_type(const Store *s) { return s->adds ? s->d : bits_type(s->d); }

/* Stores a tile that is partly in range along the unit axis: whole vectors where they fit, single elements at
 * the edge. */
static void store_ragged(Emit *e, const Store *s)
{
    const Window *w = s->w;
    Index *c[TILE_MAX_RANK];
    bool follow;
    begin_unrolled(e, "v", (int)layout_regs(s->l) / s->n);
    Index *base = vector_base(e, s->l, &s->v, "v", &follow);
    coords_at(e, s->l, base, c);
    const char *inside = both_conditions(e, s->holder, tile_condition(e, s->l, base, c)),
               *words = vector_words(e, &s->v, s->from, s->d, base, follow), *index = window_index(e, w, c),
               *in_window = vector_condition(e, w, c, s->n);
    line(e, "if (%s) %s(%s + %s, %s);", both_conditions(e, inside, in_window), vector_fn(e, s), s->ptr, index,
        words);
    line(e, "else {");
    e->indent++;
    for (int k = 0; k < s->n; k++) {
        Index *r = vector_reg(e, &s->v, base, k);
        coords_at(e, s->l, r, c);
        const char *what = stored_element(e, s->from, element_type(s), r), *at = window_index(e, w, c);
        in_window = window_condition(e, w, c, false);
        line(e, "if (%s) %s(%s + %s, %s);", both_conditions(e, inside, in_window), s->put, s->ptr, at, what);
    }
    end_block(e);
    end_block(e);
}

static void store_vectors(Emit *e, const Store *s)
{
    const Window *w = s->w;
    Index *c[TILE_MAX_RANK];
    bool follow = true;
    begin_unrolled(e, "v", (int)layout_regs(s->l) / s->n);
    Index *base = s->n > 1 ? vector_base(e, s->l, &s->v, "v", &follow) : index_variable(e, "v");
    coords_at(e, s->l, base, c);
    const char *in_window = window_condition(e, w, c, false),
               *mine = both_conditions(e, s->holder, tile_condition(e, s->l, base, c)),
               *cond = both_conditions(e, mine, in_window);
    const char *what = s->n > 1 ? vector_words(e, &s->v, s->from, s->d, base, follow)
                                : stored_element(e, s->from, element_type(s), base),
               *fn = s->n > 1 ? vector_fn(e, s) : s->put;
    const char *store = str(e, "%s(%s, %s)", fn, window_place(e, w, s->ptr, s->l, base), what);
    if (*cond) line(e, "if (%s) %s;", cond, store);
    else line(e, "%s;", store);
    end_block(e);
}

/* Whether one instruction adds a vector of such elements (PTX ISA, red: .v2.f32 and .v4.f32 of sm_90). */
static bool adds_vectors(const Emit *e, DType d)
{ return d == DT_F32 && target_has(e->target, TF_RED_VECTOR); }

void emit_store(Emit *e, Instr *i)
{
    MemParts m;
    Window w;
    ir_mem_parts(i, &m);
    keep_order(e, i);
    window_of(e, i, &w);
    const Value *x = m.values[0];
    Store s = { .w = &w, .d = m.tensor->type->dtype, .ptr = window_pointer(e, &w) };
    s.adds = ir_adds(i);
    if (x->type->kind == TYPE_SCALAR) {
        note_tensor(e, WAY_ONE, true, &w, NULL, NULL);
        store_scalar(e, &w, x, s.d, s.ptr, s.adds);
        if (s.adds && dtype_bits(s.d) == 16) lanes_meet(e); /* each adds by compare and swap */
        return;
    }
    s.l = layout_of(e, x);
    s.from = stored_array(e, x, s.l, s.d);
    if (emit_row_block_store(e, i, &w, s.l, s.ptr, s.from)) return;
    ShiftDone shifted = s.adds ? SHIFT_NONE : emit_shifted_store(e, &w, s.l, s.d, s.ptr, s.from);
    if (shifted != SHIFT_NONE) note_shifted(e, true, &w, s.l);
    if (shifted == SHIFT_ALL) return;
    s.put = element_fn(e, s.adds, element_type(&s));
    s.n = s.adds && !adds_vectors(e, s.d) ? 1 : window_vector(e, &w, s.l, s.d, &s.v);
    if (shifted == SHIFT_NONE) note_tensor(e, WAY_VECTORS, true, &w, s.l, s.adds && s.n == 1 ? NULL : &s.v);
    s.holder = unique_holder(e, s.l);
    if (s.n > 1 && !window_whole_vectors(e, &w, s.n)) store_ragged(e, &s);
    else store_vectors(e, &s);
    if (shifted == SHIFT_PART) end_block(e);
    if (s.adds && dtype_bits(s.d) == 16) lanes_meet(e); /* each adds by compare and swap */
}
