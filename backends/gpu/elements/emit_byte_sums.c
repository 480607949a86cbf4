/* emit_byte_sums.c: sums of four bytes or more, of four elements in a word, kept in halves until they are
 * whole.
 *
 *     n = a + b + c + d      ->  even = (a & 0xff00ff) + (b & 0xff00ff) + ..;  odd = odd_bytes(a) + ..
 *                                n = bytes of even and odd
 *
 * A sum that keeps carries within each byte takes five instructions. In halves of 16 bits, carries have room
 * for 257 terms, so that a term takes two instructions to divide, which other sums of the same word share,
 * and half of two to add. Requires: CUDA; sums of one layout, of which each but the last is used by the next
 * alone. */
#include "backends/gpu/elements/emit_pairs.h"

enum { LEAST_TERMS = 4, MOST_TERMS = 64 };

static bool is_byte_sum(const Emit *e, const Instr *i)
{
    if (i->op != OP_ADD || e->target->kind != TARGET_CUDA || !is_run_op(i)) return false;
    DType d = ir_result(i)->type->dtype;
    return d == DT_U8 || d == DT_I8;
}

/* How many terms the sum has; 0: one of them does not lie in words of its layout. */
static int terms_of(const Emit *e, const Value *v, const char *layout, int most)
{
    const Instr *d = v->def;
    if (!d || v->type->layout != layout || most <= 0) return 0;
    if (d->op == OP_LOAD || d->op == OP_SLIDE) return 1;
    if (!is_byte_sum(e, d)) return 0;
    int a = terms_of(e, ir_operand(d, 0), layout, most - 1);
    int b = a ? terms_of(e, ir_operand(d, 1), layout, most - a) : 0;
    return a && b && a + b <= most ? a + b : 0;
}

static const Instr *only_user(const Value *v) { return v->uses && !v->uses->next ? v->uses->user : NULL; }

/* The sum of which v is a term; NULL: v is no term of one. */
static const Instr *next_sum(const Emit *e, const Value *v)
{
    const Instr *u = only_user(v);
    bool same = u && is_byte_sum(e, u) && u->block == v->def->block &&
                ir_result(u)->type->layout == v->type->layout && ir_operand(u, 0) != ir_operand(u, 1);
    return same ? u : NULL;
}

bool byte_sum_is_part(const Emit *e, const Value *v)
{
    if (!v->def || !is_byte_sum(e, v->def)) return false;
    const Instr *last = next_sum(e, v);
    if (!last) return false;
    for (const Instr *next; (next = next_sum(e, ir_result(last)));) last = next;
    return terms_of(e, ir_result(last), v->type->layout, MOST_TERMS) >= LEAST_TERMS &&
           layout_regs(layout_of((Emit *)e, v)) % 4 == 0;
}

bool byte_sum_of_parts(const Emit *e, const Instr *i)
{
    return is_byte_sum(e, i) &&
           (byte_sum_is_part(e, ir_operand(i, 0)) || byte_sum_is_part(e, ir_operand(i, 1)));
}

bool byte_sum_takes(const Emit *e, const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (is_byte_sum(e, u->user) &&
            (byte_sum_is_part(e, ir_result(u->user)) || byte_sum_of_parts(e, u->user)))
            return true;
    return false;
}

const char *byte_sum_even(Emit *e, const Value *v) { return str(e, "%s_even", name_of(e, v)); }
const char *byte_sum_odd(Emit *e, const Value *v) { return str(e, "%s_odd", name_of(e, v)); }

static const char *half_of_word(Emit *e, const char *w, bool odd)
{ return odd ? str(e, "%s(%s)", use(e, "odd_bytes"), w) : str(e, "(%s & 0xff00ffu)", w); }

const char *byte_sum_slide(Emit *e, const char *first, const char *second, int bytes, bool odd)
{
    int from = bytes + odd; /* the bytes `from` and from + 2 of both words */
    if (from == 0 || from == 1) return half_of_word(e, first, from);
    if (from == 4) return half_of_word(e, second, false);
    return str(e, "%s(%s, %s, 0x5432u)", use(e, "byte_perm"), half_of_word(e, first, from == 3),
        half_of_word(e, second, from == 3));
}

/* Half of a term: of a part of the sum, or of a word. */
static const char *half(Paired *r, const Value *v, const char *slot, bool odd)
{
    Emit *e = r->e;
    if (byte_sum_is_part(e, v)) {
        if (paired_in_run(r, v)) return str(e, "%s_%s", name_of(e, v), odd ? "ow" : "ew");
        return str(e, "%s[%s]", odd ? byte_sum_odd(e, v) : e->storage[v->id], slot);
    }
    if (v->def->op == OP_SLIDE) return str(e, "%s[%s]", odd ? byte_sum_odd(e, v) : byte_sum_even(e, v), slot);
    return half_of_word(e, paired_word(r, v, 0), odd);
}

static const char *sum_of_halves(Paired *r, const Instr *i, const char *slot, bool odd)
{ return str(r->e, "%s + %s", half(r, ir_operand(i, 0), slot, odd), half(r, ir_operand(i, 1), slot, odd)); }

const char *byte_sum(Paired *r, const Instr *i, const char *slot)
{
    Emit *e = r->e;
    const Value *v = ir_result(i);
    const char *name = name_of(e, v);
    line(e, "const u32 %s_ew = %s;", name, sum_of_halves(r, i, slot, false));
    line(e, "const u32 %s_ow = %s;", name, sum_of_halves(r, i, slot, true));
    if (!byte_sum_is_part(e, v)) return str(e, "%s(%s_ew, %s_ow)", use(e, "bytes_of_halves"), name, name);
    if (e->storage[v->id]) {
        line(e, "%s[%s] = %s_ew;", e->storage[v->id], slot, name);
        line(e, "%s[%s] = %s_ow;", byte_sum_odd(e, v), slot, name);
    }
    return NULL;
}
