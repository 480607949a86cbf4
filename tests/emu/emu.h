/* emu.h: the machine that emitted GPU code runs on: CTAs of warps of lanes, a fiber a thread, with shared
 * memory that knows who touched it.
 *
 * Emitted text becomes a library that calls the functions below; they live in the program that loads it.
 * Target-independent: core.c (fibers, scheduling, barriers), shadow.c (shared memory, order of accesses).
 * CUDA's machine functions: async.c (cp.async, mbarriers, TMA), product.c (mma, wgmma); their host bodies by
 * the prelude's names: device.h. docs/emulation.md says what is modelled. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define EMU_API __attribute__((visibility("default")))

/* --- a launch ---------------------------------------------------------------------------------------- */

typedef struct EmuLaunch {
    void (*thread)(const uint64_t *args); /* one thread of the kernel */
    /* one word for each parameter; the word of a tensor map is its address */
    const uint64_t *args;
    int64_t blocks;
    int threads, wave; /* of a CTA; lanes of a warp */
    size_t shared_bytes;
    bool together; /* all CTAs are resident at once: persistent grids */
    int cluster;   /* the CTAs of a cluster, which are resident together; 0 and 1: none */
    /* bits 0-1: the order of warps and lanes (forwards, backwards, random, random with some delayed); bits
     * 2-3: how many CTAs more than one are resident; bit 4: CTAs run backwards; above: the random seed */
    int order;
    /* bits 0-1: asynchronous operations complete at the wait, at once, at either, or at any time between too;
     * above: the random seed */
    int late;
    /* The preceding launch still runs: no thread accesses memory or ends before emu_grid_wait. */
    bool early_start;
} EmuLaunch;

/* False after a report in `why`: a race, a deadlock with where each warp waits, a fault. A position in the
 * emitted text is given as @LINE. */
EMU_API bool emu_run(const EmuLaunch *, char *why, size_t why_size);

/* Which planted fault is active: emitted text with faults (mutate.h) asks. -1: none. */
extern EMU_API int emu_mutant;

/* --- threads ----------------------------------------------------------------------------------------- */

typedef struct EmuDim3 {
    unsigned x, y, z;
} EmuDim3;
extern EMU_API EmuDim3 threadIdx, blockIdx, blockDim, gridDim;
extern EMU_API int emu_line; /* of the emitted text, set before calls that may wait or fail */

EMU_API void emu_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
EMU_API int emu_lane(void);
/* Lets other threads run: in loops that wait for memory. */
EMU_API void emu_spin(void);

typedef struct EmuWord {
    uint64_t w[8];
} EmuWord;
/* What every lane of the warp put there; meets all lanes, which must come with the same operation. No order
 * of memory. */
EMU_API const EmuWord *emu_exchange(const char *what, const void *mine, size_t bytes);
/* A warp barrier: orders memory among the lanes. */
EMU_API void emu_warp_sync(void);
/* CTA barriers, counted in threads; whole warps come. */
EMU_API void emu_barrier(int id, int threads, bool wait);
EMU_API void emu_syncthreads(void);
/* The barrier of the cluster, and a word to the same place of another of its CTAs. */
EMU_API int emu_cluster_rank(void);
EMU_API void emu_cluster_arrive(void);
EMU_API void emu_cluster_wait(void);
EMU_API void emu_send(uint32_t address, int cta, const void *from, uint32_t bytes, uint32_t bar);
EMU_API void emu_mbar_fence(void);
/* setmaxnreg: a warp gives registers back or waits for more. */
EMU_API void emu_registers(int count, bool more);

/* --- shared memory ----------------------------------------------------------------------------------- */

enum { EMU_BASE = 1024 }; /* where dynamic shared memory starts; the bytes before it belong to the system */
EMU_API void emu_load(uint32_t address, void *to, uint32_t bytes);
EMU_API void emu_store(uint32_t address, const void *from, uint32_t bytes);
/* An atomic at that place, before it is done; returns where the bytes are. */
EMU_API void *emu_shared_atomic(uint32_t address, uint32_t bytes);
/* Generic accesses before this are visible to the asynchronous proxy after it. */
EMU_API void emu_proxy_fence(void);

/* --- global memory: what is done to it by the running thread, before it is done ---------------------- */

/* Threads may touch what lies in a tensor, and nothing else, once the first was named; NULL: all is
 * forgotten, and nothing is asked. */
EMU_API void emu_global_tensor(const void *from, const void *to);
EMU_API void emu_global_read(const void *, uint32_t bytes);
EMU_API void emu_global_write(const void *, const void *from, uint32_t bytes);
EMU_API void emu_global_atomic(const void *, uint32_t bytes);
EMU_API void emu_global_swap(const void *, const void *was, const void *to, uint32_t bytes);
EMU_API void emu_red_f32(void *to, const void *from, uint32_t n); /* adds n f32, each atomically */
EMU_API void emu_global_fence(void);
/* Until then what was launched before may still read and write: a kernel that starts early waits first. */
EMU_API void emu_grid_wait(void);

/* --- asynchronous copies ----------------------------------------------------------------------------- */

EMU_API void emu_copy(uint32_t to, const void *from, uint32_t bytes, bool in);
EMU_API void emu_copy_part(
    uint32_t to, const void *from, uint32_t bytes, uint32_t n); /* the first n; zeros behind them */
EMU_API void emu_copy_commit(void);
EMU_API void emu_copy_wait(uint32_t groups_left);

EMU_API void emu_mbar_init(uint32_t bar, uint32_t count);
EMU_API void emu_mbar_arrive(uint32_t bar, uint32_t bytes);
EMU_API void emu_mbar_wait(uint32_t bar, uint32_t parity);
EMU_API void emu_mbar_wait_acquire(uint32_t bar, uint32_t parity);
/* Whether a wait would end at once; then it acquires as one. */
EMU_API bool emu_mbar_test(uint32_t bar, uint32_t parity);

/* At the mbarrier in the same place of another CTA of the cluster; a wait that acquires what such arrivals
 * release. */
EMU_API void emu_mbar_arrive_at(uint32_t bar, int cta);
EMU_API void emu_mbar_wait_cluster(uint32_t bar, uint32_t parity);

/* A tensor map in the emulator's own form; parameters as cuTensorMapEncodeTiled's. Returns 0, or 1 for what
 * the driver would refuse. */
int emu_tensor_map(void *out, int dtype, uint32_t rank, void *base, const uint64_t *extents,
    const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, int interleave,
    int swizzle, int l2, int fill);
/* The same as cuTensorMapEncodeIm2col. */
int emu_tensor_map_im2col(void *out, int dtype, uint32_t rank, void *base, const uint64_t *extents,
    const uint64_t *strides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels,
    const uint32_t *element_strides, int interleave, int swizzle, int l2, int fill);
/* .im2col: `tap` has what is added to the position along each of the axes between the first and the last. */
EMU_API void emu_tma_im2col(
    uint32_t to, const void *map, uint32_t bar, int rank, const int32_t *at, const int32_t *tap);
EMU_API void emu_tma_load(uint32_t to, const void *map, uint32_t bar, int rank, const int32_t *at);

/* To the first `ctas` of the cluster. */
EMU_API void emu_tma_multicast(
    uint32_t to, const void *map, uint32_t bar, int ctas, int rank, const int32_t *at);

/* The box at `from` to memory; groups are a thread's own. */
EMU_API void emu_tma_store(uint32_t from, const void *map, int rank, const int32_t *at);
EMU_API void emu_tma_store_im2col(uint32_t from, const void *map, int rank, const int32_t *at); /* pixels */
EMU_API void emu_tma_store_add(uint32_t from, const void *map, int rank, const int32_t *at);    /* f32 */
EMU_API void emu_bulk_commit(void);
EMU_API void emu_bulk_wait(uint32_t groups_left);
EMU_API void emu_bulk_written(uint32_t left); /* as emu_bulk_wait: memory has them, too */

/* --- products ---------------------------------------------------------------------------------------- */

typedef enum EmuType { EMU_F16, EMU_BF16, EMU_TF32, EMU_E4M3, EMU_E5M2, EMU_S8, EMU_U8 } EmuType;

EMU_API void emu_ldmatrix(uint32_t *d, uint32_t address, int count, bool trans);
EMU_API void emu_stmatrix(uint32_t address, const uint32_t *words, int count, bool trans);
/* mma.sync m16n8: one register of K a lane and operand word */
EMU_API void emu_mma(void *d, const uint32_t *a, const uint32_t *b, EmuType ta, EmuType tb);
EMU_API void emu_mma_f64(double *d, const uint32_t *a, const uint32_t *b);     /* m8n8k4 */
EMU_API void emu_mma_f64_k16(double *d, const uint32_t *a, const uint32_t *b); /* m16n8k16 */

/* How fp8 products are added: in f32 (the default), or to 14 bits as the units of sm_89 (mma.sync) and of
 * sm_90a (wgmma) do. */
typedef enum EmuSums { EMU_SUMS_F32, EMU_SUMS_SM_89, EMU_SUMS_SM_90A } EmuSums;
extern EmuSums emu_sums;

typedef struct EmuProduct {
    int n, k;
    EmuType a, b;
    bool trans_a, trans_b, integer;
} EmuProduct;
EMU_API void emu_wgmma(const EmuProduct *, void *d, const uint32_t *a_registers, uint32_t alo, uint32_t ahi,
    uint32_t blo, uint32_t bhi, int accumulate);
EMU_API void emu_wgmma_fence(void);
EMU_API void emu_wgmma_commit(void);
EMU_API void emu_wgmma_wait(uint32_t groups_left);

#ifdef __cplusplus
}
#endif
