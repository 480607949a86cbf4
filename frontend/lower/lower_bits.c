/* lower_bits.c: popcount, clz and ffs, as arithmetic on the unsigned integer of the same width: 12 to 25
 * operations that every target has. No target's own instruction is used. */
#include "frontend/lower/lower.h"

typedef struct Bits {
    Lower *l;
    Loc loc;
    const char *what;
    DType type;
    int width;
} Bits;

static V number(const Bits *b, uint64_t c)
{ return value_const(b->type, scalar_int(scalar_wrap(b->type, (int64_t)c))); }

static V binary(const Bits *b, Op op, V x, V y)
{ return lower_apply(b->l, b->loc, b->what, op, (V[]){ x, y }, 2, NO_ATTRS); }

static V shifted(const Bits *b, V x, int by) { return binary(b, OP_SHR, x, number(b, (uint64_t)by)); }
static V inverse(const Bits *b, V x) { return lower_apply(b->l, b->loc, b->what, OP_NOT, &x, 1, NO_ATTRS); }

/* Pairs, then fours, then bytes, which a product adds up in the highest. */
static V popcount(const Bits *b, V x)
{
    const uint64_t ones = ~0ull;
    V fours = number(b, ones / 5);
    x = binary(b, OP_SUB, x, binary(b, OP_AND, shifted(b, x, 1), number(b, ones / 3)));
    x = binary(b, OP_ADD, binary(b, OP_AND, x, fours), binary(b, OP_AND, shifted(b, x, 2), fours));
    x = binary(b, OP_AND, binary(b, OP_ADD, x, shifted(b, x, 4)), number(b, ones / 17));
    return b->width == 8 ? x : shifted(b, binary(b, OP_MUL, x, number(b, ones / 255)), b->width - 8);
}

/* The bits above the highest one. */
static V leading_zeros(const Bits *b, V x)
{
    for (int by = 1; by < b->width; by *= 2) x = binary(b, OP_OR, x, shifted(b, x, by));
    return popcount(b, inverse(b, x));
}

/* The place of the lowest bit that is set, from 1; 0 where there is none. ~x & (x - 1) has the bits below it.
 */
static V first_set(const Bits *b, V x)
{
    V below = popcount(b, binary(b, OP_AND, inverse(b, x), binary(b, OP_SUB, x, number(b, 1))));
    V some = binary(b, OP_NE, x, number(b, 0));
    V place = binary(b, OP_ADD, below, number(b, 1));
    return lower_apply(b->l, b->loc, b->what, OP_WHERE, (V[]){ some, place, number(b, 0) }, 3, NO_ATTRS);
}

V lower_bits(Lower *l, const Node *call, V x)
{
    static const DType unsigned_of[] = { DT_U8, DT_U16, DT_U32, DT_U64 };
    x = lower_concretize(l, x, call->loc);
    if (x.kind == V_ERROR) return x;
    if ((x.kind != V_IR && x.kind != V_CONST) || !dtype_is_int(value_dtype(x)))
        return lower_error(l, call->loc, "`%s` takes integers, not %s", call->name, value_describe(l, x));
    int width = dtype_bits(value_dtype(x)), k = width == 8 ? 0 : width == 16 ? 1 : width == 32 ? 2 : 3;
    Bits b = { l, call->loc, call->name, unsigned_of[k], width };
    x = lower_cast(l, x, b.type, call->loc);
    V count = *call->name == 'p'   ? popcount(&b, x)
              : *call->name == 'c' ? leading_zeros(&b, x)
                                   : first_set(&b, x);
    return lower_cast(l, count, DT_I32, call->loc);
}
