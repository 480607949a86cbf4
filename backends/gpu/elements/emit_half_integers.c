/* emit_half_integers.c: of emit_pairs.c: integers of 16 bits, two of which lie in a word.
 *
 *     x = u16(a) + u16(b), a, b: u8      ->  x = u8_to_u16x2(a[i / 2], i % 2) + u8_to_u16x2(..)
 *     y = x * 3 >> 2                     ->  y = x * 3u >> 2 & 0x3fff3fffu
 *     z = u8(y)                          ->  z = byte_perm(y[2 i], y[2 i + 1], 0x6420u)
 *
 * A sum, difference or product of words is that of their halves if ranges prove that no half leaves its 16
 * bits: nothing is carried into the upper half, and nothing borrowed from it. */
#include "backends/gpu/elements/emit_pairs.h"

/* Whether the operation does not wrap. */
static bool is_exact(const Paired *r, const Value *v)
{
    if (!r->e->ranges) r->e->ranges = ranges_new(r->e->f);
    return range_exact(r->e->ranges, v);
}

static bool number_of(const Paired *r, const Value *v, int64_t *c)
{
    const Value *s = paired_repeated(r, v);
    return s && ir_is_const(s, c) && *c >= 0 && *c < 1 << 16;
}

static bool shift_of(const Paired *r, const Instr *i, int64_t *by)
{ return number_of(r, ir_operand(i, 1), by) && *by < 16; }

bool paired_integers(const Paired *r, const Instr *i)
{
    const Value *v = ir_result(i), *a = i->n_operands ? ir_operand(i, 0) : NULL,
                *b = i->n_operands == 2 ? ir_operand(i, 1) : NULL;
    int64_t c;
    if (v->type->dtype != DT_U16) return false;
    bool words = a && paired_has_words(r, a), both = words && b && paired_has_words(r, b);
    if (i->op == OP_CAST) return a->type->dtype == DT_U8 && paired_bytes(r, a);
    if (i->op == OP_AND || i->op == OP_OR || i->op == OP_XOR) return both;
    if (i->op == OP_SHL || i->op == OP_SHR) return words && shift_of(r, i, &c);
    if (i->op == OP_MIN || i->op == OP_MAX) return both && target_has(r->e->target, TF_HALF_EXTREMES);
    if (!is_exact(r, v)) return false;
    if (i->op == OP_ADD || i->op == OP_SUB) return both;
    return i->op == OP_MUL &&
           ((words && number_of(r, b, &c)) || (paired_has_words(r, b) && number_of(r, a, &c)));
}

static const char *of_bytes(Paired *r, const Value *v, int q)
{
    Emit *e = r->e;
    const char *fn = use(e, "u8_to_u16x2");
    if (paired_in_run(r, v)) return str(e, "%s(%s, %d)", fn, paired_word(r, v, q / 2), q % 2);
    const char *at = index_text(e, paired_place(r, 2 * q));
    return str(e, "%s(%s[(%s) / 4], (%s) / 2 %% 2)", fn, e->storage[paired_held(r, v)->id], at, at);
}

static const char *shifted(Paired *r, const Instr *i, int q)
{
    Emit *e = r->e;
    const char *w = paired_word(r, ir_operand(i, 0), q);
    int64_t by = 0;
    shift_of(r, i, &by);
    if (i->op == OP_SHR) return str(e, "%s >> %d & 0x%xu", w, (int)by, (0xffffu >> by) * 0x10001u);
    if (is_exact(r, ir_result(i))) return str(e, "%s << %d", w, (int)by);
    return str(e, "%s << %d & 0x%xu", w, (int)by, (0xffffu << by & 0xffffu) * 0x10001u);
}

static const char *multiplied(Paired *r, const Instr *i, int q)
{
    int64_t by = 0;
    int side = number_of(r, ir_operand(i, 1), &by) ? 0 : 1;
    if (side) number_of(r, ir_operand(i, 0), &by);
    return str(r->e, "%s * %uu", paired_word(r, ir_operand(i, side), q), (unsigned)by);
}

const char *paired_integer_word(Paired *r, const Instr *i, int q)
{
    if (i->op == OP_CAST) return of_bytes(r, ir_operand(i, 0), q);
    if (i->op == OP_SHL || i->op == OP_SHR) return shifted(r, i, q);
    if (i->op == OP_MUL) return multiplied(r, i, q);
    const char *a = paired_word(r, ir_operand(i, 0), q), *b = paired_word(r, ir_operand(i, 1), q);
    if (i->op == OP_MIN) return str(r->e, "%s(%s, %s)", use(r->e, "min2_u16"), a, b);
    if (i->op == OP_MAX) return str(r->e, "%s(%s, %s)", use(r->e, "max2_u16"), a, b);
    const char *sign = i->op == OP_ADD   ? "+"
                       : i->op == OP_SUB ? "-"
                       : i->op == OP_AND ? "&"
                       : i->op == OP_OR  ? "|"
                                         : "^";
    return str(r->e, "%s %s %s", a, sign, b);
}

bool paired_narrows(const Paired *r, const Instr *i)
{
    const Value *v = ir_operand(i, 0);
    return i->op == OP_CAST && v->type->dtype == DT_U16 && r->p % 4 == 0 &&
           ((paired_in_run(r, v) && r->how[v->id] == WORDS) || paired_stored(r, v));
}

const char *paired_narrowed(Paired *r, const Instr *i)
{
    const Value *v = ir_operand(i, 0);
    const char *lo = paired_word(r, v, 0), *hi = paired_word(r, v, 1);
    return str(r->e, "%s(%s, %s, 0x6420u)", use(r->e, "byte_perm"), lo, hi);
}
