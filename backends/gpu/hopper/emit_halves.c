/* emit_halves.c: barriers of consumers in two halves, by two mbarriers in turn, at which all warps of the
 * role arrive. A warp arrives again at one only after it has waited for the other. */
#include "backends/gpu/hopper/emit_roles.h"

static bool is_half(const void *user, const Instr *i)
{
    (void)user;
    return i->op == OP_BARRIER && ir_attr(i, ATTR_HALF);
}

void emit_halves_place(Emit *e, const Block *consumers)
{
    e->halves = ir_any_in(consumers, is_half, NULL);
    if (!e->halves) return;
    line(e, "const u32 halves_full = shared_base + %lld;", (long long)e->shared_bytes);
    e->shared_bytes += 16;
}

void emit_halves_barriers(Emit *e)
{
    if (e->halves)
        line(e, "for (int i = 0; i < 2; i++) %s(halves_full + 8 * i, %d);", use(e, "mbar_init"),
            e->plan->warps);
}

void emit_halves_counts(Emit *e, const Block *consumers)
{
    if (ir_any_in(consumers, is_half, NULL)) line(e, "u32 arrived = 0, awaited = 0;");
}

void emit_half_barrier(Emit *e, const Instr *i)
{
    if (ir_attr_int(i, ATTR_HALF, 0) == BARRIER_ARRIVES) {
        line(e, "%s();", use(e, "warp_sync"));
        line(e, "if (lane == 0) %s(halves_full + 8 * (arrived & 1));", use(e, "mbar_arrive"));
        line(e, "arrived++;");
        return;
    }
    line(e, "%s(halves_full + 8 * (awaited & 1), awaited >> 1 & 1);", use(e, "mbar_wait"));
    line(e, "awaited++;");
}
