/* emit_widened.c: conversions of emit_pairs.c from bytes and small integers to two elements of 16 bits at a
 * time, without a conversion instruction: the bits of the integer are put into the fraction of a power of
 * two, which is then subtracted.
 *
 *     f16(b), b: u8        ->  u8_to_f16x2(b[i], 0)
 *     f16(w >> s & 15)     ->  small_to_f16x2(w >> s, v >> s, 0xf000fu) */
#include "backends/gpu/emit_pairs.h"

static bool is_half(DType d) { return d == DT_F16 || d == DT_BF16; }
static bool is_fp8(DType d) { return d == DT_F8E4M3 || d == DT_F8E5M2; }

/* Whether the integers are known to fit the fraction of a power of two whose last bit counts one: 10 bits of
 * a f16 (1024), 7 of a bf16 (128). */
static bool small_integers(const Paired *r, const Instr *i)
{
    const Value *x = ir_operand(i, 0);
    DType from = x->type->dtype, to = ir_result(i)->type->dtype;
    if ((from != DT_U32 && from != DT_I32) ||
        (to == DT_BF16 && !target_has(r->e->target, TF_BF16_ARITHMETIC)))
        return false;
    if (!r->e->ranges) r->e->ranges = ranges_new(r->e->f);
    RangeInfo range = range_of(r->e->ranges, x);
    return range.lo >= 0 && range.hi < (to == DT_F16 ? 1024 : 128);
}

bool paired_widens(const Paired *r, const Instr *i)
{
    const Value *x = ir_operand(i, 0);
    const Target *t = r->e->target;
    DType from = x->type->dtype;
    if (!is_half(ir_result(i)->type->dtype)) return false;
    if (small_integers(r, i)) return true;
    if (!paired_bytes(r, x)) return false;
    return from == DT_U8 || from == DT_I8 || (is_fp8(from) && target_has(t, TF_MMA_FP8));
}

/* Puts two integers of 32 bits into one word. A mask that the kernel applies to both is applied to the word.
 */
static const char *widened_integers(Paired *r, const Instr *i, int q)
{
    Emit *e = r->e;
    const Value *x = ir_operand(i, 0), *s;
    int64_t mask = 0xffff, kept;
    if (paired_in_run(r, x) && x->def->op == OP_AND && (s = paired_repeated(r, ir_operand(x->def, 1))) &&
        ir_is_const(s, &kept) && kept >= 0 && kept <= mask) {
        x = ir_operand(x->def, 0);
        mask = kept;
    }
    const char *fn = use(e, str(e, "small_to_%sx2", dtype_name(ir_result(i)->type->dtype))),
               *lo = paired_element(r, x, 2 * q), *hi = paired_element(r, x, 2 * q + 1);
    return str(e, "%s((u32)%s, (u32)%s, 0x%xu)", fn, lo, hi, (uint32_t)mask * 0x10001u);
}

const char *paired_widened(Paired *r, const Instr *i, int q)
{
    Emit *e = r->e;
    const Value *x = ir_operand(i, 0);
    if (dtype_bytes(x->type->dtype) == 4) return widened_integers(r, i, q);
    const char *fn =
        use(e, str(e, "%s_to_%sx2", dtype_name(x->type->dtype), dtype_name(ir_result(i)->type->dtype)));
    if (paired_in_run(r, x)) return str(e, "%s(%s, %d)", fn, paired_word(r, x, q / 2), q % 2 * 2);
    const char *at = index_text(e, paired_place(r, 2 * q));
    return str(e, "%s(%s[(%s) / 4], (%s) %% 4)", fn, e->storage[x->id], at, at);
}
