/* emit_widened.c: conversions of emit_pairs.c from bytes and small integers to two elements of 16 bits at a
 * time, without a conversion instruction: the bits of the integer are put into the fraction of a power of
 * two, the bias, which is then subtracted. A difference subtracts it with what it subtracts anyway.
 *
 *     f16(b), b: u8            ->  u8_to_f16x2(b[i], 0)
 *     f16(w >> s & 15)         ->  small_to_f16x2(w >> s, v >> s, 0xf000fu)
 *     f16((w >> s & 15) - z)   ->  sub2_f16(IN, small_in_f16x2(z, z, ..))
 *     f16(w >> s & 15) - 8     ->  sub2_f16(IN, 1032 twice)
 *
 * where IN is small_in_f16x2(w >> s, v >> s, 0xf000fu). */
#include "backends/gpu/elements/emit_pairs.h"
#include "ir/interp/scalar.h"

static bool is_half(DType d) { return d == DT_F16 || d == DT_BF16; }
static bool is_fp8(DType d) { return d == DT_F8E4M3 || d == DT_F8E5M2; }

/* The integers that fit the fraction of a power of two whose last bit counts one: 10 bits of a f16 (1024), 7
 * of a bf16 (128). */
static int64_t fraction(DType to) { return to == DT_F16 ? 1024 : 128; }

static RangeInfo range_in(const Paired *r, const Value *x)
{
    if (!r->e->ranges) r->e->ranges = ranges_new(r->e->f);
    return range_of(r->e->ranges, x);
}

/* Whether the values are known to be integers from 0 to below n, of 32 bits. */
static bool below(const Paired *r, const Value *x, int64_t n)
{
    DType d = x->type->dtype;
    if (d != DT_U32 && d != DT_I32) return false;
    RangeInfo range = range_in(r, x);
    return range.lo >= 0 && range.hi < n;
}

static bool has_arithmetic(const Paired *r, DType d)
{ return d == DT_F16 || (d == DT_BF16 && target_has(r->e->target, TF_BF16_ARITHMETIC)); }

/* Whether the conversion is of integers that fit the fraction, without or with a sign. */
static bool small_integers(const Paired *r, const Instr *i)
{
    const Value *x = ir_operand(i, 0);
    DType to = ir_result(i)->type->dtype;
    return has_arithmetic(r, to) && below(r, x, fraction(to));
}

static bool signed_integers(const Paired *r, const Instr *i)
{
    const Value *x = ir_operand(i, 0);
    DType to = ir_result(i)->type->dtype;
    if (x->type->dtype != DT_I32 || !has_arithmetic(r, to)) return false;
    RangeInfo range = range_in(r, x);
    return range.lo >= -fraction(to) / 2 && range.hi < fraction(to) / 2;
}

bool paired_widens(const Paired *r, const Instr *i)
{
    const Value *x = ir_operand(i, 0);
    const Target *t = r->e->target;
    DType from = x->type->dtype;
    if (!is_half(ir_result(i)->type->dtype)) return false;
    if (small_integers(r, i) || signed_integers(r, i)) return true;
    if (!paired_bytes(r, x)) return false;
    return from == DT_U8 || from == DT_I8 || (is_fp8(from) && target_has(t, TF_MMA_FP8));
}

/* Two integers that are bits of the halves of one word, shifted alike: the word is shifted and masked. NULL:
 * they are something else. */
static const char *halves_in(Paired *r, const Value *x, DType to, int q)
{
    Emit *e = r->e;
    const Value *kept, *of = paired_in_run(r, x) && x->def->op == OP_CAST ? ir_operand(x->def, 0) : NULL;
    int64_t mask;
    if (!of || of->type->dtype != DT_U16 || !paired_in_run(r, of) || of->def->op != OP_AND) return NULL;
    const Value *shifted = ir_operand(of->def, 0);
    kept = paired_repeated(r, ir_operand(of->def, 1));
    if (!kept || !ir_is_const(kept, &mask) || mask < 0 || !paired_in_run(r, shifted) ||
        shifted->def->op != OP_SHR)
        return NULL;
    const Value *words = ir_operand(shifted->def, 0), *by = ir_operand(shifted->def, 1);
    if (paired_in_run(r, by) || !paired_stored(r, words) || mask << range_in(r, by).hi > 0xffff ||
        range_in(r, by).hi > 15 ||
        !same_element(e, by, r->l, paired_place(r, 2 * q), paired_place(r, 2 * q + 1)))
        return NULL;
    return str(e, "%s(%s >> (u32)%s, 0x%xu)", use(e, str(e, "small_pair_in_%sx2", dtype_name(to))),
        paired_word(r, words, q), paired_element(r, by, 2 * q), (uint32_t)mask * 0x10001u);
}

/* Puts two integers of 32 bits into one word, in the fraction. A mask that the kernel applies to both is
 * applied to the word. */
static const char *integers_in(Paired *r, const Value *x, DType to, int q)
{
    Emit *e = r->e;
    const Value *s;
    const char *halves = halves_in(r, x, to, q);
    if (halves) return halves;
    int64_t mask = 0xffff, kept;
    if (paired_in_run(r, x) && x->def->op == OP_AND && (s = paired_repeated(r, ir_operand(x->def, 1))) &&
        ir_is_const(s, &kept) && kept >= 0 && kept <= mask) {
        x = ir_operand(x->def, 0);
        mask = kept;
    }
    const char *fn = use(e, str(e, "small_in_%sx2", dtype_name(to))), *lo = paired_element(r, x, 2 * q),
               *hi = paired_element(r, x, 2 * q + 1);
    return str(e, "%s((u32)%s, (u32)%s, 0x%xu)", fn, lo, hi, (uint32_t)mask * 0x10001u);
}

static const char *difference(Emit *e, DType d, const char *a, const char *b)
{ return str(e, "%s(%s, %s)", use(e, str(e, "sub2_%s", dtype_name(d))), a, b); }

/* A value in both halves of a word. */
static const char *twice(Emit *e, DType d, double value)
{ return str(e, "0x%xu", (uint32_t)scalar_bits(d, scalar_float(value)) * 0x10001u); }

static const char *widened_integers(Paired *r, const Instr *i, int q)
{
    Emit *e = r->e;
    const Value *x = ir_operand(i, 0);
    DType to = ir_result(i)->type->dtype;
    if (small_integers(r, i))
        return difference(e, to, integers_in(r, x, to, q), twice(e, to, (double)fraction(to)));
    if (paired_in_run(r, x) && x->def->op == OP_SUB && below(r, ir_operand(x->def, 0), fraction(to)) &&
        below(r, ir_operand(x->def, 1), fraction(to)))
        return difference(e, to, integers_in(r, ir_operand(x->def, 0), to, q),
            integers_in(r, ir_operand(x->def, 1), to, q));
    const char *fn = use(e, str(e, "signed_to_%sx2", dtype_name(to))), *lo = paired_element(r, x, 2 * q),
               *hi = paired_element(r, x, 2 * q + 1);
    return str(e, "%s((u32)%s, (u32)%s)", fn, lo, hi);
}

/* Bytes by the function of this name for their type and that of the result. */
static const char *bytes_by(Paired *r, const Instr *i, int q, const char *how)
{
    Emit *e = r->e;
    const Value *x = ir_operand(i, 0);
    const char *fn =
        use(e, str(e, "%s_%s_%sx2", dtype_name(x->type->dtype), how, dtype_name(ir_result(i)->type->dtype)));
    if (paired_in_run(r, x)) return str(e, "%s(%s, %d)", fn, paired_word(r, x, q / 2), q % 2 * 2);
    const char *at = index_text(e, paired_place(r, 2 * q));
    return str(e, "%s(%s[(%s) / 4], (%s) %% 4)", fn, e->storage[paired_held(r, x)->id], at, at);
}

const char *paired_widened(Paired *r, const Instr *i, int q)
{
    if (dtype_bytes(ir_operand(i, 0)->type->dtype) == 4) return widened_integers(r, i, q);
    return bytes_by(r, i, q, "to");
}

/* What stands in the words before the bias is subtracted; 0: it is no such conversion of the run. */
static int bias_of(const Paired *r, const Value *v)
{
    const Instr *i = v->def;
    if (!i || !paired_in_run(r, v) || i->op != OP_CAST || !paired_widens(r, i)) return 0;
    DType from = ir_operand(i, 0)->type->dtype, to = v->type->dtype;
    if (dtype_bytes(from) == 4) return small_integers(r, i) ? (int)fraction(to) : 0;
    return to != DT_F16 || is_fp8(from) ? 0 : from == DT_I8 ? 1152 : 1024;
}

static const char *biased(Paired *r, const Value *v, int q)
{
    const Instr *i = v->def;
    if (dtype_bytes(ir_operand(i, 0)->type->dtype) == 4)
        return integers_in(r, ir_operand(i, 0), v->type->dtype, q);
    return bytes_by(r, i, q, "in");
}

/* Whether the value is a conversion of small integers that was made outside of the run for fewer elements. */
static bool of_small_integers(const Paired *r, const Value *v)
{
    while (v->def && (v->def->op == OP_BROADCAST || v->def->op == OP_RESHAPE || v->def->op == OP_OPAQUE))
        v = ir_operand(v->def, 0);
    const Instr *i = v->def;
    return i && i->op == OP_CAST && below(r, ir_operand(i, 0), fraction(v->type->dtype));
}

/* The difference is of integers up to twice the last that the type has without gaps behind the bias, and
 * exact as is what is subtracted in its place. */
const char *paired_unbiased(Paired *r, const Instr *i, int q)
{
    Emit *e = r->e;
    if (i->op != OP_SUB && i->op != OP_ADD) return NULL;
    const Value *a = ir_operand(i, 0), *b = ir_operand(i, 1), *s = paired_repeated(r, b);
    DType d = a->type->dtype;
    int bias = bias_of(r, a);
    double c;
    if (!bias) return NULL;
    if (s && ir_is_const_float(s, &c)) {
        double other = bias + (i->op == OP_SUB ? c : -c);
        if (other != (double)(int)other || other < 0 || other > 2.0 * (double)fraction(d)) return NULL;
        return difference(e, d, biased(r, a, q), twice(e, d, other));
    }
    if (i->op == OP_ADD) return NULL;
    if (bias_of(r, b) == bias) return difference(e, d, biased(r, a, q), biased(r, b, q));
    if (bias != fraction(d) || paired_in_run(r, b) || !of_small_integers(r, b)) return NULL;
    const char *add = use(e, str(e, "add2_%s", dtype_name(d)));
    return difference(
        e, d, biased(r, a, q), str(e, "%s(%s, %s)", add, paired_word(r, b, q), twice(e, d, (double)bias)));
}
