/* emit_half.c: half of a tile along an axis, and two halves side by side, without shared memory: registers
 * are renamed, or two lanes exchange half of theirs.
 *
 *   %a = slice %x {start = 0}      lane with bit 0:  a = x0           b = x0 of the other lane
 *   %b = slice %x {start = n/2}    lane with bit 1:  a = x1 of the other lane           b = x1
 *
 * Here x0 and x1 are the registers of x whose bit `reg` is 0 and 1 (layout_half). One lane sends x1 and the
 * other x0, so that one exchange serves both halves. */
#include "backends/gpu/emit.h"

/* The register of the whole that register r of a half is, where the bit that is gone is `bit`. */
static int with_bit(int r, int reg, int bit)
{ return (r >> reg << (reg + 1)) | bit << reg | (r & ((1 << reg) - 1)); }

/* Registers that move as one: words of two or four elements move if the bit that is gone tells words apart.
 */
static int words_of(DType d, int regs, int *reg)
{
    int in_word = per_word(d);
    while (in_word > 1) {
        if (!*reg) return 0;
        --*reg;
        in_word /= 2;
    }
    return regs / per_word(d);
}

/* Declares what the lane gets of the other's, for both halves of i's operand. */
static void exchange(Emit *e, const Instr *i, const LayoutHalf *h, int reg, int words)
{
    const Instr *last = e->halved;
    if (last && ir_operand(last, 0) == ir_operand(i, 0) && last->block == i->block &&
        ir_attr_int(last, ATTR_AXIS, 0) == ir_attr_int(i, ATTR_AXIS, 0))
        return;
    const Value *x = ir_operand(i, 0);
    DType d = x->type->dtype, moved = per_word(d) > 1 ? DT_U32 : d;
    const char *from = registers_of(e, x), *shuffle = use(e, str(e, "shuffle_xor_%s", dtype_name(moved)));
    e->halved = i;
    e->exchanged = tmp(e, "other");
    line(e, "%s %s[%d];", array_type(d), e->exchanged, words);
    for (int k = 0; k < words; k++)
        line(e, "%s[%d] = %s(lane & %d ? %s[%d] : %s[%d], %d);", e->exchanged, k, shuffle, 1 << h->bit, from,
            with_bit(k, reg, 0), from, with_bit(k, reg, 1), 1 << h->bit);
}

static bool emit_slice(Emit *e, Instr *i)
{
    const Value *x = ir_operand(i, 0);
    Value *r = ir_result(i);
    DType d = r->type->dtype;
    LayoutHalf h;
    int axis = (int)ir_attr_int(i, ATTR_AXIS, 0), second = ir_attr_int(i, ATTR_START, 0) > 0;
    if (2 * r->type->shape[axis] != x->type->shape[axis] ||
        ir_attr_int(i, ATTR_START, 0) % r->type->shape[axis] || !e->storage[x->id])
        return false;
    const Layout *half = layout_half(&e->s->arena, layout_of(e, x), axis, &h);
    if (!half || !layout_equal(half, layout_of(e, r)) || (h.in != LAYOUT_REG && h.in != LAYOUT_LANE))
        return false;
    int reg = h.reg, words = words_of(d, (int)layout_regs(half), &reg);
    if (!words || (h.in == LAYOUT_LANE && d == DT_BOOL)) return false;
    if (h.in == LAYOUT_LANE) exchange(e, i, &h, reg, words);
    const char *from = registers_of(e, x), *to = declare_tile(e, r);
    for (int k = 0; k < words; k++) {
        const char *own = str(e, "%s[%d]", from, with_bit(k, reg, second));
        line(e, "%s[%d] = %s;", to, k,
            h.in == LAYOUT_REG ? own
            : second           ? str(e, "lane & %d ? %s : %s[%d]", 1 << h.bit, own, e->exchanged, k)
                               : str(e, "lane & %d ? %s[%d] : %s", 1 << h.bit, e->exchanged, k, own));
    }
    return true;
}

static bool emit_pair(Emit *e, Instr *i)
{
    Value *r = ir_result(i);
    DType d = r->type->dtype;
    const Value *x = ir_operand(i, 0);
    if (i->n_operands != 2 || x->type != ir_operand(i, 1)->type || x->type->kind != TYPE_TILE ||
        !x->type->layout)
        return false;
    const Layout *l = layout_of(e, x),
                 *pair = layout_concat(&e->s->arena, l, (int)ir_attr_int(i, ATTR_AXIS, 0), 2);
    int regs = (int)layout_regs(l);
    if (!pair || !layout_equal(pair, layout_of(e, r)) || regs % per_word(d)) return false;
    for (int k = 0; k < 2; k++)
        if (!e->storage[ir_operand(i, k)->id]) return false;
    const char *to = declare_tile(e, r);
    int words = regs / per_word(d);
    for (int k = 0; k < 2; k++)
        for (int w = 0; w < words; w++)
            line(e, "%s[%d] = %s[%d];", to, k * words + w, registers_of(e, ir_operand(i, k)), w);
    return true;
}

bool emit_half(Emit *e, Instr *i)
{ return i->op == OP_SLICE ? emit_slice(e, i) : i->op == OP_CONCAT && emit_pair(e, i); }
