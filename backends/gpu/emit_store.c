/* emit_store.c: windows of tensors from registers. */
#include "backends/gpu/emit.h"

/* Address of the vector's words in order: the registers themselves, or a copy when they lie apart. */
static const char *vector_words(
    Emit *e, const LayoutVector *v, const char *from, DType d, const char *base, bool follow)
{
    int pw = per_word(d), words = (int)v->n / pw;
    const char *at = pw > 1 ? str(e, "(%s) / %d", base, pw) : base;
    if (follow) return str(e, "&%s[%s]", from, at);
    const char *t = tmp(e, "w"), *init = "";
    for (int k = 0; k < words; k++)
        init = str(e, "%s%s%s[%s + %u]", init, k ? ", " : "", from, at, v->reg[k * pw] / (unsigned)pw);
    line(e, "const %s %s[%d] = { %s };", array_type(d), t, words, init);
    return t;
}

void emit_store(Emit *e, Instr *i)
{
    MemParts m;
    Window w;
    ir_mem_parts(i, &m);
    keep_order(e, i);
    window_of(e, i, &w);
    Value *x = m.values[0];
    DType d = m.tensor->type->dtype;
    const char *ptr = window_pointer(e, &w), *c[TILE_MAX_RANK] = { 0 };
    if (x->type->kind == TYPE_SCALAR) {
        const char *what = name_of(e, x), *in_window = window_condition(e, &w, c, false);
        const char *one = e->plan->cluster > 1 && !e->plan->split
                              ? "tid == 0 && block == 0"
                              : "tid == 0"; /* a row's result, which all CTAs of its cluster have */
        line(e, "if (%s) %s(%s, %s);", both_conditions(e, one, in_window),
            use(e, str(e, "stg_%s", dtype_name(d))), ptr, what);
        return;
    }
    const Layout *l = layout_of(e, x);
    const char *from = e->storage[x->id];
    if (!from) {
        from = tmp(e, "val");
        line(e, "%s %s[%d];", array_type(d), from, array_len(d, (int)layout_regs(l)));
        int nr = (int)layout_regs(l), p = per_word(d);
        for (int wd = 0; wd < array_len(d, nr); wd++) {
            const char *xs[4];
            int here = nr - wd * p < p ? nr - wd * p : p;
            for (int k = 0; k < here; k++) xs[k] = element(e, x, l, str(e, "%d", wd * p + k));
            line(e, "%s[%d] = %s;", from, wd, pack_expr(e, d, xs, here));
        }
    }
    ShiftDone shifted = emit_shifted_store(e, &w, l, d, ptr, from);
    if (shifted == SHIFT_ALL) return;
    LayoutVector v;
    DType bits = bits_type(d);
    const char *put = use(e, str(e, "stg_%s", dtype_name(bits)));
    int n = window_vector(e, &w, l, d, &v), regs = (int)layout_regs(l);
    bool follow = true;
    const char *holder = unique_holder(e, l);
    if (n > 1 && !window_whole_vectors(e, &w, n)) {
        /* ragged in the unit axis: whole vectors where they fit, single elements at the edge */
        begin_unrolled(e, "v", regs / n);
        const char *base = vector_base(e, l, &v, "v", &follow);
        coords_at(e, l, base, c);
        const char *last[TILE_MAX_RANK];
        memcpy(last, c, sizeof last);
        last[w.unit_tile] = str(e, "%s + %d", c[w.unit_tile], n - 1);
        const char *inside = both_conditions(e, holder, tile_condition(e, l, c)),
                   *words = vector_words(e, &v, from, d, base, follow);
        const char *index = window_index(e, &w, c), *last_in = window_condition(e, &w, last, false),
                   *both_in = both_conditions(e, window_condition(e, &w, c, false), last_in);
        line(e, "if (%s) %s(%s + %s, %s);", both_conditions(e, inside, both_in),
            use(e, str(e, "stg%s_b%d", window_hint(e, &w, ACCESS_VECTOR), (int)v.bytes * 8)), ptr, index,
            words);
        line(e, "else {");
        e->indent++;
        for (int k = 0; k < n; k++) {
            const char *cc[TILE_MAX_RANK], *r = vector_reg(e, &v, base, k);
            coords_at(e, l, r, cc);
            const char *what = stored_element(e, from, bits, r), *at = window_index(e, &w, cc),
                       *in_window = window_condition(e, &w, cc, false);
            line(e, "if (%s) %s(%s + %s, %s);", both_conditions(e, inside, in_window), put, ptr, at, what);
        }
        end_block(e);
        end_block(e);
        if (shifted == SHIFT_PART) end_block(e);
        return;
    }
    begin_unrolled(e, "v", regs / n);
    const char *base = n > 1 ? vector_base(e, l, &v, "v", &follow) : "v";
    coords_at(e, l, base, c);
    const char *in_window = window_condition(e, &w, c, false),
               *cond = both_conditions(e, both_conditions(e, holder, tile_condition(e, l, c)), in_window);
    const char *what =
                   n > 1 ? vector_words(e, &v, from, d, base, follow) : stored_element(e, from, bits, "v"),
               *index = window_index(e, &w, c);
    const char *st = str(e, "%s(%s + %s, %s)",
        n > 1 ? use(e, str(e, "stg%s_b%d", window_hint(e, &w, ACCESS_VECTOR), (int)v.bytes * 8)) : put, ptr,
        index, what);
    if (*cond) line(e, "if (%s) %s;", cond, st);
    else line(e, "%s;", st);
    end_block(e);
    if (shifted == SHIFT_PART) end_block(e);
}
