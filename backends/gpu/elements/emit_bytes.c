/* emit_bytes.c: of runs that compute on words (emit_pairs.c), what four bytes of a word take at once: sums
 * whose carries stay within each byte, bits, choices, and shifts by a number that all four have. */
#include "backends/gpu/elements/emit_pairs.h"

/* Whether the four elements of a word of bytes are one value. */
static bool same_four(const Paired *r, const Value *v)
{
    Emit *e = r->e;
    const bool measure = e->measure;
    bool same = true;
    e->measure = false;
    for (int x = 1; x < 4 && same; x++)
        same = same_element(e, v, r->l, paired_place(r, 0), paired_place(r, x));
    e->measure = measure;
    return same;
}

static bool shift_of(const Instr *i, int64_t *by)
{ return ir_is_const(ir_operand(i, 1), by) && *by >= 0 && *by < 8; }

/* Whether the four bytes of a word are shifted by the same number, below eight, which threads may tell apart.
 */
static bool shifts_alike(const Paired *r, const Instr *i)
{
    const Value *by = ir_operand(i, 1);
    if (dtype_is_signed(ir_result(i)->type->dtype) || paired_in_run(r, by)) return false;
    if (!r->e->ranges) r->e->ranges = ranges_new(r->e->f);
    RangeInfo range = range_of(r->e->ranges, by);
    return range.lo >= 0 && range.hi < 8 && same_four(r, by);
}

static bool byte_operand(const Paired *r, const Value *v)
{
    uint32_t bits;
    return paired_bytes(r, v) || paired_constant(r, v, &bits);
}

bool paired_bytes_fit(const Paired *r, const Instr *i)
{
    int64_t by;
    if (r->p % 4 || !dtype_is_int(ir_result(i)->type->dtype)) return false;
    if (i->op == OP_CAST) return is_truth(r, ir_operand(i, 0)) || paired_narrows(r, i);
    if (i->op == OP_WHERE)
        return is_truth(r, ir_operand(i, 0)) && byte_operand(r, ir_operand(i, 1)) &&
               byte_operand(r, ir_operand(i, 2));
    if (i->n_operands < 1 || !paired_bytes(r, ir_operand(i, 0))) return false;
    if (i->op == OP_ADD || i->op == OP_SUB) return byte_operand(r, ir_operand(i, 1));
    if (op_family(i->op) != OPS_BITS) return false;
    switch (op_as_bits(i->op)) {
    case BITS_AND:
    case BITS_OR:
    case BITS_XOR: return byte_operand(r, ir_operand(i, 1));
    case BITS_SHL: return shift_of(i, &by) || shifts_alike(r, i);
    case BITS_SHR:
        if (shift_of(i, &by)) return !dtype_is_signed(ir_result(i)->type->dtype);
        return shifts_alike(r, i);
    case BITS_NOT: return false;
    }
    return false;
}

/* Whether the only reader masks what bytes to the left left in each byte. */
static bool is_masked(const Paired *r, const Instr *i)
{
    const Use *u = ir_result(i)->uses;
    int64_t mask;
    if (i->op != OP_SHR || !u || u->next || u->user->op != OP_AND || !paired_has(r, u->user) ||
        r->how[ir_result(u->user)->id] != WORDS || !ir_is_const(ir_operand(u->user, 1), &mask))
        return false;
    return (mask & 0xff) << range_of(r->e->ranges, ir_operand(i, 1)).hi <= 0xff;
}

static const char *shifted_alike(Paired *r, const Instr *i, const char *word)
{
    Emit *e = r->e;
    const char *by = tmp(e, "by"), *way = i->op == OP_SHL ? "<<" : ">>";
    line(e, "const u32 %s = (u32)%s;", by, paired_element(r, ir_operand(i, 1), 0));
    if (is_masked(r, i)) return str(e, "%s >> %s", word, by);
    return str(e, "%s %s %s & (0xffu %s %s & 0xffu) * 0x01010101u", word, way, by, way, by);
}

const char *paired_bytes_expr(Paired *r, const Instr *i)
{
    Emit *e = r->e;
    int64_t by;
    if (i->op == OP_WHERE) return chosen_bytes(r, i);
    if (i->op == OP_CAST && !is_truth(r, ir_operand(i, 0))) return paired_narrowed(r, i);
    const char *a = paired_word(r, ir_operand(i, 0), 0);
    if (i->op == OP_CAST) return str(e, "%s >> 7", a);
    if (i->op == OP_ADD || i->op == OP_SUB) {
        const char *fn = use(e, i->op == OP_ADD ? "add4_u8" : "sub4_u8");
        return str(e, "%s(%s, %s)", fn, a, paired_word(r, ir_operand(i, 1), 0));
    }
    switch (op_as_bits(i->op)) {
    case BITS_AND: return str(e, "%s & %s", a, paired_word(r, ir_operand(i, 1), 0));
    case BITS_OR: return str(e, "%s | %s", a, paired_word(r, ir_operand(i, 1), 0));
    case BITS_XOR: return str(e, "%s ^ %s", a, paired_word(r, ir_operand(i, 1), 0));
    case BITS_SHL:
    case BITS_SHR:
        if (!shift_of(i, &by)) return shifted_alike(r, i, a);
        return str(e, "%s %s %d & 0x%xu", a, i->op == OP_SHL ? "<<" : ">>", (int)by,
            (i->op == OP_SHL ? 0xffu << by & 0xffu : 0xffu >> by) * 0x01010101u);
    case BITS_NOT: break; /* of truths alone */
    }
    ir_fail(e->s, i->loc, "%s is not computed four bytes at a time", op_info[i->op].name);
}
