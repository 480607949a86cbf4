/* emit_pairs.c: element-wise runs in which two elements of 16 bits, or four of 8, are computed on in one
 * instruction.
 *
 *     x = (f16(w & 15) - z) * s          ->  a = w[i] & 0x0f0f0f0f;  b = u8_to_f16x2(a, 0);  c = sub2_f16(b,
 *                                        both_halves(z, 0));  x[2 * i] = mul2_f16(c, ..)
 *     y = where(mask, x, 0)              ->  y[i] = x[i] & mask2(m0, m1)
 *
 * Sums and differences of bytes keep carries within each byte; of comparisons of bytes and their logic, a
 * word has four (emit_truths.c). Of 16 bits: where an operation rounds its result to 16 bits as the
 * instruction does: sums, differences and products (f32 holds more than twice the digits and two, so that
 * rounding twice is rounding once), signs, minima and maxima, comparisons, choices, widening of bytes, and
 * bits that get another meaning. The other operations of a run take and give elements, as in emit_elements.c;
 * words are put together and taken apart in between. */
#include "backends/gpu/elements/emit_pairs.h"
#include "ir/interp/scalar.h"

bool paired_has(const Paired *r, const Instr *i) { return i->mark == r->mark && is_run_op(i); }
static bool of_run(const Paired *r, const Instr *i) { return paired_has(r, i); }
static bool in_run(const Paired *r, const Value *v) { return paired_in_run(r, v); }
static bool is_alias(const Value *v) { return v->def && v->def->op == OP_BROADCAST; }
static bool is_half(DType d) { return d == DT_F16 || d == DT_BF16; }

/* An element of an array in the layout of the run. */
static bool stored_alike(const Paired *r, const Value *v)
{ return r->e->storage[v->id] && !is_alias(v) && v->type->layout && layout_equal(layout_of(r->e, v), r->l); }

bool paired_stored(const Paired *r, const Value *v) { return stored_alike(r, v); }

const Value *paired_repeated(const Paired *r, const Value *v)
{
    while (v->type->kind == TYPE_TILE && v->def && !r->e->storage[v->id] &&
           (v->def->op == OP_SPLAT || v->def->op == OP_BROADCAST))
        v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_SCALAR ? v : NULL;
}

bool paired_constant(const Paired *r, const Value *v, uint32_t *bits)
{
    const Value *s = paired_repeated(r, v);
    DType d = v->type->dtype;
    double f;
    int64_t k;
    if (!s) return false;
    if (dtype_is_float(d) && ir_is_const_float(s, &f)) *bits = (uint32_t)scalar_bits(d, scalar_float(f));
    else if (dtype_is_int(d) && ir_is_const(s, &k)) *bits = (uint32_t)k;
    else return false;
    *bits &= dtype_bits(d) == 16 ? 0xffffu : 0xffu;
    *bits *= dtype_bits(d) == 16 ? 0x10001u : 0x01010101u;
    return true;
}

Index *paired_place(const Paired *r, int x)
{ return r->loop ? index_linear(r->e, r->p, "i", x) : index_number(r->e, r->at + x); }

/* Word q of the group in an array of which a word holds pw elements. */
static const char *slot(const Paired *r, int pw, int q)
{
    Emit *e = r->e;
    if (!r->loop) return str(e, "%d", r->at / pw + q);
    return r->p == pw ? "i" : q ? str(e, "%d * i + %d", r->p / pw, q) : str(e, "%d * i", r->p / pw);
}

/* A broadcast of a stored tile: the tile, and the register that has the element of register *at. */
static const Value *broadcast_at(const Paired *r, const Value *v, Index **at)
{
    const Layout *l = r->l;
    while (is_alias(v) && !r->e->storage[v->id] && ir_operand(v->def, 0)->type->layout) {
        v = ir_operand(v->def, 0);
        *at = map_register(r->e, l, layout_of(r->e, v), *at);
        l = layout_of(r->e, v);
    }
    if (!r->e->storage[v->id] || v->type->kind != TYPE_TILE || !v->type->layout) return NULL;
    if (!is_alias(v) && l == r->l) *at = map_register(r->e, l, layout_of(r->e, v), *at);
    return v;
}

/* The same of element x of the group. */
static const Value *broadcast_of(const Paired *r, const Value *v, int x, Index **at)
{
    *at = paired_place(r, x);
    return broadcast_at(r, v, at);
}

/* Whether registers of two elements that follow each other are one of the stored tile that is broadcast. What
 * is measured depends on the answer, so that entries of tables are found where text is not made either. */
static bool repeats_stored(const Paired *r, const Value *v)
{
    Emit *e = r->e;
    Index *a, *b;
    const bool measure = e->measure;
    e->measure = false;
    const bool repeats = broadcast_of(r, v, 0, &a) && broadcast_of(r, v, 1, &b) && index_equal(a, b);
    e->measure = measure;
    return repeats;
}

bool paired_has_words(const Paired *r, const Value *v)
{
    uint32_t bits;
    if (v->type->kind != TYPE_TILE || per_word(v->type->dtype) != 2) return false;
    if (in_run(r, v) || stored_alike(r, v) || paired_constant(r, v, &bits) || paired_repeated(r, v))
        return true;
    return repeats_stored(r, v);
}

const Value *paired_held(const Paired *r, const Value *v)
{
    Emit *e = r->e;
    if (stored_alike(r, v)) return v;
    const bool measure = e->measure;
    const Value *from = is_alias(v) && !e->storage[v->id] ? v : NULL;
    e->measure = false;
    for (int k = 0; k < (int)layout_regs(r->l) && from; k++) {
        Index *own = index_number(e, k), *at = own;
        if (!(from = broadcast_at(r, v, &at)) || !index_equal(at, own)) from = NULL;
    }
    e->measure = measure;
    return from;
}

bool paired_bytes(const Paired *r, const Value *v)
{
    if (per_word(v->type->dtype) != 4) return false;
    if (in_run(r, v)) return r->how[v->id] == WORDS;
    return paired_held(r, v) != NULL;
}

/* Bits of one width are the same word whatever they mean. */
static bool keeps_words(const Paired *r, const Instr *i)
{
    const Value *x = i->n_operands ? ir_operand(i, 0) : NULL;
    int n = per_word(ir_result(i)->type->dtype);
    return i->op == OP_BITCAST && n > 1 && r->p % n == 0 && per_word(x->type->dtype) == n &&
           (in_run(r, x) || stored_alike(r, x));
}

static bool by_words(const Paired *r, const Instr *i)
{
    DType d = ir_result(i)->type->dtype;
    if (keeps_words(r, i)) return true;
    bool half = d == DT_F16 || (d == DT_BF16 && target_has(r->e->target, TF_BF16_ARITHMETIC));
    if (per_word(d) == 4) return paired_bytes_fit(r, i);
    if (per_word(d) != 2) return false;
    if (paired_integers(r, i)) return true;
    if (i->op == OP_ADD || i->op == OP_SUB || i->op == OP_MUL)
        return half && paired_has_words(r, ir_operand(i, 0)) && paired_has_words(r, ir_operand(i, 1));
    if (i->op == OP_MIN || i->op == OP_MAX)
        return is_half(d) && paired_has_words(r, ir_operand(i, 0)) && paired_has_words(r, ir_operand(i, 1));
    if (i->op == OP_NEG || i->op == OP_ABS) return is_half(d) && paired_has_words(r, ir_operand(i, 0));
    if (i->op == OP_WHERE)
        return paired_has_words(r, ir_operand(i, 1)) && paired_has_words(r, ir_operand(i, 2));
    return i->op == OP_CAST && paired_widens(r, i);
}

/* Whether only selections by the word use the comparison. */
static bool is_mask(const Paired *r, const Instr *i)
{
    if (op_family(i->op) != OPS_COMPARE) return false;
    DType d = ir_operand(i, 0)->type->dtype;
    if (!(d == DT_F16 || (d == DT_BF16 && target_has(r->e->target, TF_BF16_ARITHMETIC))) ||
        !paired_has_words(r, ir_operand(i, 0)) || !paired_has_words(r, ir_operand(i, 1)))
        return false;
    for (const Use *u = ir_result(i)->uses; u; u = u->next)
        if (!of_run(r, u->user) || u->user->op != OP_WHERE || u != &u->user->operands[0] ||
            r->how[ir_result(u->user)->id] != WORDS)
            return false;
    return true;
}

/* Finds what is computed by words, as far as truths that are asked for as elements are known. */
static bool plan_words(Paired *r)
{
    bool any = false;
    for (Instr *i = r->first;; i = i->next) {
        if (of_run(r, i)) {
            unsigned char *how = &r->how[ir_result(i)->id];
            *how = gives_truths(r, i) ? TRUTHS : by_words(r, i) ? WORDS : ELEMENTS;
            any |= *how == WORDS || *how == TRUTHS;
        }
        if (i == r->last) return any;
    }
}

/* What is computed for a group of elements in other ways, once it is known what words are; whether that pays.
 */
static bool plan_group(Paired *r, Instr *i)
{
    unsigned char *how = &r->how[ir_result(i)->id];
    if (is_mask(r, i)) *how = MASK;
    bool dots = paired_dots(r, i), quotients = r->p == 4 && quotients_wanted(r, i);
    if (dots || quotients) *how = dots ? DOTS : QUOTIENTS;
    return dots || quotients;
}

static bool plan(Paired *r)
{
    bool any = plan_words(r);
    while (truths_leave(r, false)) any = plan_words(r);
    if (!truths_pay(r) && truths_leave(r, true)) any = plan_words(r);
    for (Instr *i = r->first;; i = i->next) {
        any |= of_run(r, i) && plan_group(r, i);
        if (i == r->last) return any;
    }
}

/* --- words ------------------------------------------------------------------------------------------- */

const char *paired_word(Paired *r, const Value *v, int q)
{
    Emit *e = r->e;
    int pw = per_word(v->type->dtype);
    const char **w = &r->word[v->id * 4 + (uint32_t)q];
    uint32_t bits;
    if (*w) return *w;
    if (v->type->dtype == DT_BOOL) return *w = str(e, "%s[%s]", e->truths[v->id], slot(r, 4, q));
    if (in_run(r, v)) {
        *w = str(e, "%s_%s", name_of(e, v), pw == 4 ? "w" : q ? "zw" : "xy");
        line(e, "const u32 %s = %s;", *w, pack_word_of(e, v, &r->elem[v->id * 4 + (uint32_t)(q * pw)], pw));
        return *w;
    }
    if (paired_constant(r, v, &bits)) return *w = str(e, "0x%xu", bits);
    if (stored_alike(r, v) || pw == 4)
        return *w = str(e, "%s[%s]", e->storage[paired_held(r, v)->id], slot(r, pw, q));
    const Value *s = paired_repeated(r, v);
    if (s) {
        const char *x[2] = { name_of(e, s), name_of(e, s) };
        return *w = pack_expr(e, v->type->dtype, x, 2);
    }
    Index *i;
    const Value *from = broadcast_of(r, v, 2 * q, &i);
    const char *both = use(e, "both_halves"), *array = e->storage[from->id], *at = index_text(e, i);
    if (i->kind == INDEX_NUMBER) return *w = str(e, "%s(%s[%d], %d)", both, array, i->add / 2, i->add % 2);
    return *w = str(e, "%s(%s[(%s) / 2], (%s) %% 2)", both, array, at, at);
}

const char *paired_element(Paired *r, const Value *v, int x)
{
    Emit *e = r->e;
    if (!in_run(r, v)) return element(e, v, r->l, paired_place(r, x));
    int pw = per_word(v->type->dtype);
    if (r->how[v->id] == TRUTHS) return truth_element(r, v, x);
    if (r->how[v->id] == WORDS)
        return str(e, "%s(%s, %d)", use(e, str(e, "get_%s", dtype_name(v->type->dtype))),
            paired_word(r, v, x / pw), x % pw);
    return r->elem[v->id * 4 + (uint32_t)x];
}

/* Whether both elements of word q of a mask are the same value. */
static bool same_choice(const Paired *r, const Value *m, int q)
{ return !in_run(r, m) && same_element(r->e, m, r->l, paired_place(r, 2 * q), paired_place(r, 2 * q + 1)); }

static const char *chosen(Paired *r, const Instr *i, int q)
{
    Emit *e = r->e;
    const Value *m = ir_operand(i, 0);
    const char *a = paired_word(r, ir_operand(i, 1), q), *b = paired_word(r, ir_operand(i, 2), q), *mask;
    if (in_run(r, m) && r->how[m->id] == MASK) mask = r->word[m->id * 4 + (uint32_t)q];
    else {
        const char *lo = paired_element(r, m, 2 * q), *hi = paired_element(r, m, 2 * q + 1);
        if (same_choice(r, m, q)) return str(e, "(%s ? %s : %s)", lo, a, b);
        mask = str(e, "%s(%s, %s)", use(e, "mask2"), lo, hi);
    }
    uint32_t bits;
    if (paired_constant(r, ir_operand(i, 2), &bits) && !bits) return str(e, "(%s & %s)", a, mask);
    if (paired_constant(r, ir_operand(i, 1), &bits) && !bits) return str(e, "(%s & ~%s)", b, mask);
    const char *t = tmp(e, "mask");
    line(e, "const u32 %s = %s;", t, mask);
    return str(e, "(%s & %s | %s & ~%s)", a, t, b, t);
}

static const char *words_expr(Paired *r, const Instr *i, int q)
{
    Emit *e = r->e;
    const Value *to = ir_result(i);
    DType d = i->n_operands ? ir_operand(i, 0)->type->dtype : to->type->dtype;
    static const char *const names[OP_COUNT] = { [OP_ADD] = "add2",
        [OP_SUB] = "sub2",
        [OP_MUL] = "mul2",
        [OP_MIN] = "min2",
        [OP_MAX] = "max2",
        [OP_EQ] = "eq2",
        [OP_NE] = "ne2",
        [OP_LT] = "lt2",
        [OP_LE] = "le2",
        [OP_GT] = "gt2",
        [OP_GE] = "ge2" };
    if (i->op == OP_BITCAST) return paired_word(r, ir_operand(i, 0), q);
    if (r->how[to->id] == TRUTHS) return truths_expr(r, i);
    if (per_word(to->type->dtype) == 4) return paired_bytes_expr(r, i);
    if (to->type->dtype == DT_U16 && i->op != OP_WHERE) return paired_integer_word(r, i, q);
    if (i->op == OP_WHERE) return chosen(r, i, q);
    if (i->op == OP_CAST) return paired_widened(r, i, q);
    if (i->op == OP_NEG) return str(e, "%s ^ 0x80008000u", paired_word(r, ir_operand(i, 0), q));
    if (i->op == OP_ABS) return str(e, "%s & 0x7fff7fffu", paired_word(r, ir_operand(i, 0), q));
    if (!names[i->op])
        ir_fail(e->s, i->loc, "%s is not computed two elements at a time", op_info[i->op].name);
    const char *unbiased = paired_unbiased(r, i, q);
    if (unbiased) return unbiased;
    const char *a = paired_word(r, ir_operand(i, 0), q), *b = paired_word(r, ir_operand(i, 1), q);
    return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", names[i->op], dtype_name(d))), a, b);
}

static void emit_words(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    const Value *v = ir_result(i);
    int how = r->how[v->id], pw = how == MASK ? 2 : how == TRUTHS ? 4 : per_word(v->type->dtype);
    bool part = byte_sum_is_part(e, v), sum = part || byte_sum_of_parts(e, i);
    for (int q = 0; q < r->p / pw; q++) {
        const char *x = sum ? byte_sum(r, i, slot(r, 4, q)) : words_expr(r, i, q);
        if (part) continue;
        if (r->first == r->last && e->storage[v->id] && how != TRUTHS) {
            r->word[v->id * 4 + (uint32_t)q] = x;
            continue;
        }
        const char *name = str(e, "%s_%s", name_of(e, v), pw == 4 ? "w" : q ? "zw" : "xy");
        line(e, "const u32 %s = %s;", name, x);
        r->word[v->id * 4 + (uint32_t)q] = name;
    }
}

static void store_words(Paired *r, const Value *v)
{
    Emit *e = r->e;
    int pw = per_word(v->type->dtype);
    if (r->how[v->id] == TRUTHS) {
        store_truths(r, v, slot(r, 4, 0));
        return;
    }
    for (int q = 0; q < r->p / pw; q++) {
        const char *w = r->word[v->id * 4 + (uint32_t)q];
        line(e, "%s[%s] = %s;", e->storage[v->id], slot(r, pw, q),
            w ? w : pack_word_of(e, v, &r->elem[v->id * 4 + (uint32_t)(q * pw)], pw));
    }
}

/* Forgets the results of one group of elements before the next. A value that is stored before its users stays
 * in its word. */
static void emit_group(Paired *r)
{
    memset(r->word, 0, (size_t)r->e->n_values * 4 * sizeof *r->word);
    for (Instr *i = r->first;; i = i->next) {
        if (of_run(r, i) && !arms_move(&r->arms, i)) {
            switch (r->how[ir_result(i)->id]) {
            case ELEMENTS:
            case DOTS: paired_elements(r, i); break;
            case QUOTIENTS: emit_quotients(r, i); break;
            default: emit_words(r, i);
            }
        }
        if (i == r->last) break;
    }
    for (Instr *i = r->first;; i = i->next) {
        if (of_run(r, i) && r->e->storage[ir_result(i)->id] && !byte_sum_is_part(r->e, ir_result(i)))
            store_words(r, ir_result(i));
        if (i == r->last) break;
    }
}

static int elements_at_a_time(const Paired *r)
{
    int p = 2, n = (int)layout_regs(r->l);
    for (Instr *i = r->first;; i = i->next) {
        if (of_run(r, i)) {
            int pw = per_word(ir_result(i)->type->dtype);
            if (pw > p && (n % pw == 0 || run_used_outside(ir_result(i), r->mark))) p = pw;
            if (n % 4 == 0 && (dots_wanted(r->e, i, r->l) || quotients_wanted(r, i))) p = 4;
            if (random_elements_of_block(r->e, i, r->l) == 4) p = 4;
        }
        if (i == r->last) break;
    }
    return p;
}

/* Plans steps of four elements for truths where the run would take fewer or none at all; and otherwise those
 * that its results ask for. */
static bool plan_steps(Paired *r)
{
    int n = (int)layout_regs(r->l), p = elements_at_a_time(r);
    bool wanted = false, truths = false;
    for (Instr *i = r->first; !wanted; i = i->next) {
        wanted = of_run(r, i) && truths_wanted(r, i);
        if (i == r->last) break;
    }
    for (r->p = p < 4 && wanted && n % 4 == 0 ? 4 : p;; r->p = p) {
        memset(r->asked, 0, (size_t)r->e->n_values * sizeof *r->asked);
        if (n % r->p) return false;
        r->loop = n > r->p; /* what is asked of a group holds for each */
        bool any = plan(r);
        for (Instr *i = r->first; !truths; i = i->next) {
            truths = of_run(r, i) && is_truth(r, ir_result(i));
            if (i == r->last) break;
        }
        if (r->p == p || truths) return any;
    }
}

static void declare_words(const Paired *r, const Value *v)
{
    Emit *e = r->e;
    int regs = (int)layout_regs(layout_of(e, v));
    declare_tile(e, v);
    if (byte_sum_is_part(e, v)) line(e, "u32 %s[%d];", byte_sum_odd(e, v), array_len(v->type->dtype, regs));
    if (truths_go_on(r, v)) declare_truths(e, v, regs);
}

bool emit_paired_run(Emit *e, Instr *first, Instr *last, uint32_t mark)
{
    Paired r = { .e = e, .first = first, .last = last, .l = layout_of(e, ir_result(first)), .mark = mark };
    if (e->target->kind != TARGET_CUDA) return false;
    int n = (int)layout_regs(r.l);
    r.how = arena_array(&e->s->arena, unsigned char, e->n_values);
    r.asked = arena_array(&e->s->arena, bool, e->n_values);
    if (!plan_steps(&r)) return false;
    for (Instr *i = first;; i = i->next) {
        if (of_run(&r, i) && run_used_outside(ir_result(i), mark)) declare_words(&r, ir_result(i));
        if (i == last) break;
    }
    if (e->measure) return true;
    paired_arms(&r);
    r.elem = arena_array(&e->s->arena, const char *, e->n_values * 4);
    r.word = arena_array(&e->s->arena, const char *, e->n_values * 4);
    for (Instr *i = first;; i = i->next) {
        unsigned char *how = of_run(&r, i) ? &r.how[ir_result(i)->id] : NULL;
        if (how && *how == QUOTIENTS && arms_move(&r.arms, i)) *how = ELEMENTS;
        if (how && *how == QUOTIENTS) declare_reciprocal(&r, i);
        if (i == last) break;
    }
    arms_begin(&r.arms, e, last);
    declare_random_blocks(e, first, last, mark, r.l);
    if (r.loop) begin_unrolled(e, "i", n / r.p);
    else {
        line(e, "{");
        e->indent++;
    }
    emit_group(&r);
    end_block(e);
    return true;
}
