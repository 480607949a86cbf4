// hip_snippets.cpp: HIP C in the manner of emissions, against what the ISA guides say of each builtin. Compiled for a wave of 64 (gfx942) and of
// 32 (gfx1100) and called by test_hip through hip_snippet.
#include "tests/emu/hip_device.h"

static void expect(bool ok, const char *what) { if (!ok) hip_fail("lane %u: %s", emu_lane(), what); }
#define EXPECT(x) expect(x, #x)

static void lanes(void *)
{
    const u32 l = emu_lane(), x = l * 3 + 100;
    EXPECT(__builtin_amdgcn_readfirstlane((i32)x) == 100);
    EXPECT(__builtin_amdgcn_readlane((i32)x, 7) == 121);
    EXPECT(__builtin_amdgcn_ballot_w64(l % 3 == 0) % 16 == 9);
    EXPECT((u32)__builtin_amdgcn_ds_bpermute((i32)((l ^ 5) * 4), (i32)x) == (l ^ 5) * 3 + 100);
    EXPECT((u32)__builtin_amdgcn_ds_bpermute((i32)((l + 1) * 4), (i32)x) == (l + 1) % EMU_WAVE * 3 + 100);
    EXPECT((u32)__builtin_amdgcn_ds_permute((i32)((l + 1) % EMU_WAVE * 4), (i32)x) == (l + EMU_WAVE - 1) % EMU_WAVE * 3 + 100);
    EXPECT((u32)__builtin_amdgcn_mov_dpp((i32)l, 0xb1, 15, 15, true) == (l ^ 1));
    EXPECT((u32)__builtin_amdgcn_mov_dpp((i32)l, 0x4e, 15, 15, true) == (l ^ 2));
    EXPECT((u32)__builtin_amdgcn_mov_dpp((i32)l, 0x128, 15, 15, true) == (l ^ 8));
    EXPECT((u32)__builtin_amdgcn_mov_dpp((i32)l, 0x140, 15, 15, true) == (l ^ 15));
    EXPECT((u32)__builtin_amdgcn_mov_dpp((i32)l, 0x141, 15, 15, true) == (l ^ 7));
    EXPECT((u32)__builtin_amdgcn_update_dpp(9, (i32)l, 0x111, 15, 15, false) == (l % 16 ? l - 1 : 9));
    EXPECT((u32)__builtin_amdgcn_update_dpp(9, (i32)l, 0x101, 15, 15, true) == (l % 16 != 15 ? l + 1 : 0));
    EXPECT((u32)__builtin_amdgcn_update_dpp(9, (i32)l, 0xb1, 5, 15, false) == (l / 16 % 2 ? 9 : l ^ 1));
    EXPECT((u32)__builtin_amdgcn_update_dpp(9, (i32)l, 0xb1, 15, 3, false) == (l / 4 % 4 > 1 ? 9 : l ^ 1));
    EXPECT((u32)__builtin_amdgcn_ds_swizzle((i32)l, 0x101f) == (l ^ 4));
    EXPECT((u32)__builtin_amdgcn_ds_swizzle((i32)l, 0x401f) == (l ^ 16));
    EXPECT((u32)__builtin_amdgcn_ds_swizzle((i32)l, 0x0010) == (l & 0x30));
    EXPECT((u32)__builtin_amdgcn_ds_swizzle((i32)l, 0x80b1) == (l ^ 1));
#if EMU_CHIP >= 0x1000
    EXPECT((u32)__builtin_amdgcn_permlanex16((i32)l, (i32)l, (i32)0x76543210, (i32)0xfedcba98, false, false) == (l ^ 16));
    EXPECT((u32)__builtin_amdgcn_mov_dpp((i32)l, 0x168, 15, 15, true) == (l ^ 8));
#else
    EXPECT((u32)__builtin_amdgcn_mov_dpp((i32)l, 0x153, 15, 15, true) == ((l & ~15u) | 3));
#endif
}

static u8 memory[4096] __attribute__((aligned(64)));

static void buffers(void *)
{
    const u32 l = emu_lane();
    u8 *mine = memory + (u32)__builtin_amdgcn_workitem_id_x() / EMU_WAVE * 512;
    for (u32 i = l; i < 512; i += EMU_WAVE) mine[i] = (u8)(i / 4);
    warp_sync();
    const __amdgpu_buffer_rsrc_t b = __builtin_amdgcn_make_buffer_rsrc(mine, 0, 160, 0x00027000);
    const emu_u32x4 x = __builtin_amdgcn_raw_buffer_load_b128(b, (i32)l * 16, 0, 0);
    EXPECT(x[0] == (l < 10 ? l * 4 * 0x01010101u : 0) && x[3] == (l < 10 ? (l * 4 + 3) * 0x01010101u : 0));
    EXPECT(__builtin_amdgcn_raw_buffer_load_b32(b, -4, 0, 0) == 0);
    warp_sync();
    __builtin_amdgcn_raw_buffer_store_b32(7, b, (i32)l * 4 + 96, 0, 0);
    warp_sync();
    EXPECT(*(u32 *)(mine + 96 + l * 4) == (l < 16 ? 7 : (24 + l) * 0x01010101u));
}

static void shared_words(void *)
{
    const u32 t = (u32)__builtin_amdgcn_workitem_id_x(), n = (u32)__builtin_amdgcn_workgroup_size_x();
    __shared__ __attribute__((aligned(1024))) u8 shared[4096];
    const u32 base = shared_address(shared);
    *LDS(u32, base + t * 4) = t;
    *LDS(u8, base + 2048 + t) = (u8)t;
    block_barrier();
    const u32 y = *LDS(const u32, base + (n - 1 - t) * 4);
    const u8 z = *LDS(u8, base + 2048 + (t ^ 1));
    EXPECT(y == n - 1 - t && z == (t ^ 1));
    block_barrier();
    __builtin_amdgcn_global_load_lds(memory + 256 * (t / EMU_WAVE) + emu_lane() * 4, LDS(u32, base + t / EMU_WAVE * 256), 4, 0, 0);
    wait_loads(0);
    block_barrier();
    EXPECT(*LDS(u32, base + emu_lane() * 4) == *(u32 *)(memory + emu_lane() * 4));
}

static u32 counter;
static void atomics(void *)
{
    __hip_atomic_fetch_add(&counter, 2u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    u32 was = 1;
    EXPECT(!__hip_atomic_compare_exchange_strong(&counter, &was, 5u, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) && was == counter);
    block_barrier();
    EXPECT(counter == 2 * (u32)__builtin_amdgcn_workgroup_size_x());
}

#define NAME2(wave) hip_snippet_##wave
#define NAME(wave) NAME2(wave)
extern "C" const char *NAME(EMU_WAVE)(int which, int threads, int order, int late)
{
    static void (*const all[])(void *) = { lanes, buffers, shared_words, atomics };
    if (which >= (int)(sizeof all / sizeof *all)) return "none";
    counter = 0;
    HipRun r = { EMU_CHIP, EMU_WAVE, 4096, 1, threads, order != 0, late != 0, all[which], NULL };
    return hip_run(&r);
}
