/* emit_exchanged.c: words of a shared tile whose lanes would meet in a bank, read in an order of their own by
 * half of the lanes.
 *
 * A fragment of 32-bit elements that is contiguous along its own axis (the transposed B of a tf32 product)
 * has eight neighbours and four steps of K in a warp. In a stage with the 128-byte swizzle, two of these
 * steps lie in the same banks. Register r of lane t lies at T(t) ^ C(r). Lanes with a certain bit read
 * register r ^ R where the others read r, and exchange the two registers afterwards:
 *
 *   word[v] = stage[(T ^ (lane & L ? C(R) : 0)) ^ C(v)];  if (lane & L) swap(word[v], word[v | R])
 *
 * The file finds L and R by counting wavefronts. */
#include "backends/gpu/memory/emit_offset.h"

typedef struct Exchange {
    uint32_t reg, lane; /* R and L */
} Exchange;

/* Whether C(r ^ R) = C(r) ^ C(R) for all registers. */
static bool adds(const uint32_t *own, int regs, uint32_t reg)
{
    for (uint32_t r = 0; r < (uint32_t)regs; r++)
        if (own[r ^ reg] != (own[r] ^ own[reg])) return false;
    return true;
}

/* The exchange with which a read takes fewest wavefronts. False: none takes fewer than the read as it is. */
static bool find_exchange(const Layout *l, const LayoutShared *s, const uint32_t *own, Exchange *x)
{
    enum { LANES = 32 };
    int regs = (int)layout_regs(l);
    uint32_t at[LANES], moved[LANES];
    for (uint32_t t = 0; t < LANES; t++) {
        int32_t c[TILE_MAX_RANK];
        layout_element(l, 0, t, 0, 0, c);
        at[t] = layout_shared_offset(s, c);
    }
    uint32_t as_it_is = layout_wavefronts(at, LANES, 4), best = as_it_is;
    for (uint32_t r = 1; r < (uint32_t)regs && best > 1; r *= 2)
        for (uint32_t lane = 1; lane < LANES && adds(own, regs, r); lane *= 2) {
            for (uint32_t t = 0; t < LANES; t++) moved[t] = at[t] ^ (t & lane ? own[r] : 0);
            uint32_t n = layout_wavefronts(moved, LANES, 4);
            if (n >= best) continue;
            best = n;
            *x = (Exchange){ r, lane };
        }
    return best < as_it_is;
}

bool take_exchanged(Emit *e, const char *array, DType d, const Layout *l, const LayoutShared *s,
    const LayoutVector *v, const char *base)
{
    uint32_t *own, seen;
    int regs = (int)layout_regs(l);
    Exchange x = { 0 };
    Index *c[TILE_MAX_RANK], *k = index_variable(e, "v");
    if (is_hip(e) || dtype_bytes(d) != 4 || v->n != 1 || (regs & (regs - 1)) || layout_lanes(l) != 32 ||
        !linear_offsets(e, l, s, 1, &own, &seen) || !find_exchange(l, s, own, &x))
        return false;
    note_exchanged(e, l, s, x.reg, x.lane);
    coords_at(e, l, index_number(e, 0), c);
    const char *at = tmp(e, "at"), *other = str(e, "(lane & %u)", x.lane), *low = tmp(e, "low"),
               *high = str(e, "%s[v + %u]", array, x.reg);
    line(e, "const u32 %s = %s ^ (%s ? %uu : 0u);", at, shared_offset(e, s, c), other, own[x.reg]);
    begin_unrolled(e, "v", regs);
    line(e, "%s(&%s[v], %s + (%s));", use(e, "lds_b32"), array, base,
        linear_address(e, at, own, seen | own[x.reg], regs, 1, k));
    end_block(e);
    begin_unrolled(e, "v", regs);
    line(e, "if (v & %u) continue;", x.reg);
    line(e, "const %s %s = %s[v];", array_type(d), low, array);
    line(e, "%s[v] = %s ? %s : %s;", array, other, high, low);
    line(e, "%s = %s ? %s : %s;", high, other, low, high);
    end_block(e);
    return true;
}
