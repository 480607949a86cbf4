/* emit_dots.c: products of bytes of which only sums of four neighbours are asked for, by the instruction that
 * multiplies four bytes and adds the products.
 *
 *     acc += (i32(w & 3) - 1) * i32(x); .. sum(acc, axis = 1)
 *         ->  acc[4 * i] = dot4_u8_i8(w[i] & 0x03030303, x[i], dot4_i8_i8(0xffffffff, x[i], acc[4 * i]))
 *
 * The other three registers of acc keep what they are. Sums of integers wrap, so that they may be taken in
 * any order, and a constant that is added to a factor is multiplied by itself.
 *
 * Requires: CUDA; registers in groups of four that lie side by side along the axis of all sums that the
 * product goes to, directly, by other sums of the same layout or by what loops carry; factors that are words
 * of bytes in registers, or are computed from such by operations on bits and bytes. */
#include "backends/gpu/elements/emit_pairs.h"

enum { MOST_VISITED = 64, MOST_DEPTH = 8 };

typedef struct Sums {
    Emit *e;
    const Layout *l;
    int axis; /* -1: not yet known */
    const Value *seen[MOST_VISITED];
    int n;
} Sums;

static bool is_word(DType d) { return d == DT_I32 || d == DT_U32; }
static bool is_byte(DType d) { return d == DT_I8 || d == DT_U8; }

/* Whether groups of four registers lie along the axis, and each register holds an element of its own. */
static bool groups_along(const Layout *l, int axis)
{
    int32_t first[TILE_MAX_RANK], c[TILE_MAX_RANK];
    for (int a = 0; a < l->rank; a++)
        if (l->cover[a] != l->tile[a]) return false;
    for (int r = 0; r < (int)layout_regs(l); r++) {
        layout_element(l, r, 0, 0, 0, c);
        if (r % 4 == 0) memcpy(first, c, sizeof first);
        for (int a = 0; a < l->rank; a++)
            if (c[a] != first[a] + (a == axis ? r % 4 : 0)) return false;
    }
    return true;
}

static bool sums_only(Sums *s, const Value *v);

/* What the loop carries in place n, in its steps and behind it. */
static bool carried_sums_only(Sums *s, const Instr *loop, int n)
{ return sums_only(s, loop->blocks[0]->args[n + 1]) && sums_only(s, &loop->results[n]); }

static bool use_sums(Sums *s, const Use *u)
{
    const Instr *i = u->user;
    const Block *b = i->block;
    if (i->op == OP_REDUCE_SUM) {
        int axis = (int)ir_attr_int(i, ATTR_AXIS, 0);
        if (s->axis < 0 && groups_along(s->l, axis)) s->axis = axis;
        return s->axis == axis;
    }
    if (i->op == OP_ADD) return sums_only(s, ir_result(i));
    if (i->op == OP_FOR) return u - i->operands >= 3 && carried_sums_only(s, i, (int)(u - i->operands) - 3);
    if (i == ir_terminator(b) && b->parent && b->parent->op == OP_FOR)
        return carried_sums_only(s, b->parent, (int)(u - i->operands));
    return false;
}

/* Whether all that depends on the value are sums along one axis. */
static bool sums_only(Sums *s, const Value *v)
{
    if (v->type->kind != TYPE_TILE || !v->type->layout || !is_word(v->type->dtype) ||
        !layout_equal(layout_of(s->e, v), s->l))
        return false;
    for (int k = 0; k < s->n; k++)
        if (s->seen[k] == v) return true;
    if (s->n == MOST_VISITED) return false;
    s->seen[s->n++] = v;
    for (const Use *u = v->uses; u; u = u->next)
        if (!use_sums(s, u)) return false;
    return true;
}

/* --- factors ----------------------------------------------------------------------------------------- */

/* Four elements of a tile: the registers that hold them. */
typedef struct Four {
    const Value *v;
    const Layout *l;
    Index *at[4];
} Four;

/* Follows values that only repeat others, or give them another shape in the same registers. */
static void follow(Emit *e, Four *f)
{
    for (;;) {
        const Instr *d = f->v->def;
        const Value *from = d && d->n_operands == 1 ? ir_operand(d, 0) : NULL;
        if (!from || from->type->kind != TYPE_TILE || !from->type->layout) return;
        const Layout *to = layout_of(e, from);
        if (d->op == OP_BROADCAST && !e->storage[f->v->id])
            for (int x = 0; x < 4; x++) f->at[x] = map_register(e, f->l, to, f->at[x]);
        else if (d->op != OP_RESHAPE || !e->storage[from->id] || e->storage[from->id] != e->storage[f->v->id])
            return;
        f->v = from;
        f->l = to;
    }
}

/* The number of the word in which the four lie side by side, in each group; NULL: they do not. */
static const char *word_number(const Paired *r, const Four *f)
{
    int groups = r->loop ? (int)layout_regs(r->l) / 4 : 1, first, at;
    for (int g = 0; g < groups; g++)
        for (int x = 0; x < 4; x++)
            if (!index_value(f->at[0], g, &first) || first % 4 || !index_value(f->at[x], g, &at) ||
                at != first + x)
                return NULL;
    return str(r->e, "(%s) / 4", index_text(r->e, f->at[0]));
}

/* The word of four bytes; NULL: there is none. `ask`: only whether there is one. */
static const char *bytes_word(Paired *r, Four f, bool ask, int depth)
{
    Emit *e = r->e;
    uint32_t bits;
    int64_t by;
    follow(e, &f);
    const Instr *d = f.v->def;
    if (!is_byte(f.v->type->dtype) || depth > MOST_DEPTH) return NULL;
    if (paired_constant(r, f.v, &bits)) return str(e, "0x%xu", bits);
    if (!d || !f.v->type->layout) return NULL;
    if (paired_has(r, d)) return r->how[f.v->id] != WORDS ? NULL : ask ? "" : paired_word(r, f.v, 0);
    const char *n = word_number(r, &f);
    if (!n) return NULL;
    if (e->storage[f.v->id] && d->n_blocks == 0) return str(e, "%s[%s]", e->storage[f.v->id], n);
    if (op_family(d->op) != OPS_BITS || d->op == OP_NOT) return NULL;
    Four a = f, b = f;
    a.v = ir_operand(d, 0);
    b.v = ir_operand(d, 1);
    const char *x = bytes_word(r, a, ask, depth + 1), *y;
    if (!x) return NULL;
    if (d->op == OP_SHL || d->op == OP_SHR) {
        if (!ir_is_const(b.v, &by) || by < 0 || by >= 8) return NULL;
        if (d->op == OP_SHR && f.v->type->dtype != DT_U8) return NULL;
        return str(e, "(%s %s %d & 0x%xu)", x, d->op == OP_SHL ? "<<" : ">>", (int)by,
            (d->op == OP_SHL ? 0xffu << by & 0xffu : 0xffu >> by) * 0x01010101u);
    }
    if (!(y = bytes_word(r, b, ask, depth + 1))) return NULL;
    return str(e, "(%s %s %s)", x, d->op == OP_AND ? "&" : d->op == OP_OR ? "|" : "^", y);
}

/* A factor: bytes, and what is added to each. */
typedef struct Factor {
    const char *word, *type;
    int64_t add;
} Factor;

static bool factor_of(Paired *r, const Value *v, bool ask, Factor *out)
{
    Four f = { v, r->l, { 0 } };
    for (int x = 0; x < 4; x++) f.at[x] = paired_place(r, x);
    follow(r->e, &f);
    const Instr *d = f.v->def;
    out->add = 0;
    if (d && d->op == OP_ADD) {
        const Value *c = paired_repeated(r, ir_operand(d, 1));
        if (!c || !ir_is_const(c, &out->add) || out->add < -128 || out->add > 127) return false;
        f.v = ir_operand(d, 0);
        follow(r->e, &f);
        d = f.v->def;
    }
    if (!d || d->op != OP_CAST || !is_byte(ir_operand(d, 0)->type->dtype)) return false;
    f.v = ir_operand(d, 0);
    out->type = dtype_name(f.v->type->dtype);
    return (out->word = bytes_word(r, f, ask, 0)) != NULL;
}

static bool factors_of(Paired *r, const Instr *product, bool ask, Factor *a, Factor *b)
{
    return factor_of(r, ir_operand(product, 0), ask, a) && factor_of(r, ir_operand(product, 1), ask, b) &&
           !(a->add && b->add);
}

/* --- products ---------------------------------------------------------------------------------------- */

bool dots_wanted(Emit *e, const Instr *i, const Layout *l)
{
    Sums s = { .e = e, .l = l, .axis = -1 };
    return i->op == OP_MUL && is_word(ir_result(i)->type->dtype) && layout_regs(l) % 4 == 0 &&
           sums_only(&s, ir_result(i)) && s.axis >= 0;
}

bool paired_dots(Paired *r, const Instr *i)
{
    Factor a, b;
    return r->p == 4 && dots_wanted(r->e, i, r->l) && factors_of(r, i, true, &a, &b);
}

static const char *dot(Emit *e, const char *a, const char *a_type, const Factor *b, const char *sum)
{ return str(e, "%s(%s, %s, %s)", use(e, str(e, "dot4_%s_%s", a_type, b->type)), a, b->word, sum); }

/* The sum of the four products and of `sum`. */
static const char *dots_text(Paired *r, const Instr *product, const char *sum)
{
    Factor a, b;
    if (!factors_of(r, product, false, &a, &b))
        ir_fail(r->e->s, product->loc, "a factor is no word of bytes");
    if (b.add) {
        Factor c = a;
        a = b;
        b = c;
    }
    if (a.add) sum = dot(r->e, str(r->e, "0x%xu", (uint32_t)(a.add & 0xff) * 0x01010101u), "i8", &b, sum);
    return dot(r->e, a.word, a.type, &b, sum);
}

static bool is_dots(const Paired *r, const Value *v)
{ return v->def && paired_has(r, v->def) && r->how[v->id] == DOTS; }

/* The operand of the sum whose products it takes as its own; -1: none. */
static int taken(const Paired *r, const Instr *i)
{
    if (i->op != OP_ADD || r->how[ir_result(i)->id] != ELEMENTS) return -1;
    for (int k = 0; k < 2; k++)
        if (is_dots(r, ir_operand(i, k)) && !is_dots(r, ir_operand(i, 1 - k))) return k;
    return -1;
}

/* Whether sums of the run take all that the product gives. */
static bool all_taken(const Paired *r, const Instr *product)
{
    for (const Use *u = ir_result(product)->uses; u; u = u->next)
        if (!paired_has(r, u->user) || taken(r, u->user) < 0) return false;
    return true;
}

bool emit_dots(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    const Value *v = ir_result(i);
    int k = taken(r, i);
    bool product = r->how[v->id] == DOTS;
    if (k < 0 && !product) return false;
    if (product && all_taken(r, i)) return true;
    for (int x = 0; x < 4; x++) {
        const char *sum = product ? "0" : paired_element(r, ir_operand(i, 1 - k), x);
        const char *name = str(e, "%s%c", name_of(e, v), "abcd"[x]);
        if (!x) sum = dots_text(r, product ? i : ir_operand(i, k)->def, sum);
        line(e, "const %s %s = (%s)(%s);", ctype(v->type->dtype), name, ctype(v->type->dtype), sum);
        r->elem[v->id * 4 + (uint32_t)x] = name;
    }
    return true;
}
