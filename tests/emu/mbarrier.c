/* mbarrier.c: mbarriers of a CTA: arrivals, expected bytes, phases, waits. PTX ISA 9.7.13.15. The copies that
 * count bytes at them are async.c's. */
#include "tests/emu/core.h"
#include <string.h>

Mbar *emu_mbar(uint32_t a, Access how)
{
    Cta *c = emu.cta;
    if (a % 8) emu_fail("an mbarrier at %u, not aligned to 8", a);
    emu_at(a, 8);
    if (!c->mbar_at[a / 8]) emu_fail("no mbarrier was initialised at %u", a);
    emu_check_read(a, 8, how);
    return &c->mbars[c->mbar_at[a / 8] - 1];
}

void emu_mbar_init(uint32_t a, uint32_t count)
{
    a = emu_own(a);
    Cta *c = emu.cta;
    if (a % 8) emu_fail("an mbarrier at %u, not aligned to 8", a);
    emu_check_write(a, 8, NULL, GENERIC);
    if (c->mbar_at[a / 8]) emu_fail("the mbarrier at %u is initialised twice", a);
    if (c->n_mbars == EMU_MBARS) emu_fail("more mbarriers than the emulator keeps");
    if (!count || count >= 1u << 20) emu_fail("an mbarrier for %u arrivals", count);
    int k = c->n_mbars++;
    c->mbars[k] = (Mbar){
        .address = a, .count = count, .left = count, .agent = EMU_WARPS + k, .warp = emu.warp->index
    };
    c->mbar_at[a / 8] = (uint8_t)(k + 1);
    emu_mark_write(a, 8, emu.warp->index, emu.fiber->lane, emu.warp->clock.at[emu.warp->index]);
}

/* fence.mbarrier_init.release.cluster, and the proxy fence beside it */
void emu_mbar_fence(void)
{
    emu.warp->mbars_fenced = true;
    for (int k = 0; k < emu.cta->n_mbars; k++)
        if (emu.cta->mbars[k].warp == emu.warp->index) emu.cta->mbars[k].fenced = true;
    emu_proxy_fence();
}

void emu_mbar_advance(Mbar *b)
{
    if (b->left || b->bytes) return;
    for (int k = 0; b->far && k < EMU_CLUSTER; k++) {
        clock_join(&b->far->out[k], &b->far->in[k]);
        memset(&b->far->in[k], 0, sizeof b->far->in[k]);
    }
    b->phase++;
    b->left = b->count;
    clock_join(&b->out, &b->in);
    memset(&b->in, 0, sizeof b->in);
}

/* mbarrier.arrive, with bytes: .expect_tx */
void emu_mbar_arrive(uint32_t a, uint32_t bytes)
{
    a = emu_own(a);
    Mbar *b = emu_mbar(a, GENERIC);
    if (!b->left) emu_fail("more arrivals at the mbarrier at %u than the %u of its phase", a, b->count);
    b->bytes += bytes;
    if (b->bytes >= 1 << 20)
        emu_fail("the mbarrier at %u expects %lld bytes, more than it can count", a, (long long)b->bytes);
    b->left--;
    emu_release_lane(&b->in);
    emu_mbar_advance(b);
}

/* mbarrier.try_wait.parity: the phase of this parity is complete. */
void emu_mbar_wait(uint32_t a, uint32_t parity)
{
    a = emu_own(a);
    Mbar *b = emu_mbar(a, GENERIC);
    if (parity > 1) emu_fail("the parity of a phase is 0 or 1, not %u", parity);
    emu_wait(WAIT_PHASE, "mbar_wait", NULL, b, parity);
    emu_acquire(&b->out);
}

/* .acquire.cluster, of what is sent to this CTA: what the senders did to memory before a fence is known. */
void emu_mbar_wait_acquire(uint32_t a, uint32_t parity)
{
    emu_mbar_wait(a, parity);
    emu_global_acquired();
}

/* mbarrier.test_wait.parity: whether a wait would end at once, which it then acquires as one. */
bool emu_mbar_test(uint32_t a, uint32_t parity)
{
    Mbar *b = emu_mbar(emu_own(a), GENERIC);
    if ((b->phase & 1) == parity) return false;
    emu_acquire(&b->out);
    return true;
}

/* .acquire.cluster: what arrivals from other CTAs of the cluster brought, too. */
void emu_mbar_wait_cluster(uint32_t a, uint32_t parity)
{
    Mbar *b = emu_mbar(emu_own(a), GENERIC);
    emu_mbar_wait(a, parity);
    for (int k = 0; b->far && k < EMU_CLUSTER; k++) clock_join(&emu.cta->peers[k], &b->far->out[k]);
}
