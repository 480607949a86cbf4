/* hip_machine.h: a workgroup of an AMD GPU on the host, a fiber a lane. Emitted HIP C (through hip_device.h)
 * and the tests call it.
 *
 * Waves run one after the other, each until its lanes wait for others; a collective needs every lane of the
 * wave that has not ended, and all of them at the same one. LDS starts undefined, and every word knows who
 * touched it last:
 *   - reading what nobody wrote, or what a load to LDS still in flight will write, is an error;
 *   - so is touching a word that another wave touched since the last barrier, if one of the two writes; or
 *       another lane of the same wave
 *     with no wave_barrier between; or one whose writer came to the barrier without waiting for its LDS
 *         (s_waitcnt lgkmcnt(0), a fence).
 * Memory that the workgroup itself wrote is watched likewise, reads after writes only. Loads to LDS
 * (global_load_lds) complete at once or, `late`, at the wait. Every error ends the launch with one line that
 * says where. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct HipRun {
    int chip, wave; /* 0x942, 64 */
    uint32_t lds_bytes;
    int64_t blocks;
    int threads;
    /* Waves and lanes run in descending order, and loads to LDS complete as late as allowed. */
    bool backwards, late;
    void (*body)(void *user); /* the kernel; once a lane */
    void *user;
    uint32_t granule; /* the kernel's smallest access to LDS in bytes; 0: 1 */
} HipRun;

/* NULL, or what went wrong; valid until the next call. */
const char *hip_run(const HipRun *);
/* An atomic at this address: a thread that does nothing else waits for workgroups that have not started. */
void hip_look(const void *);
__attribute__((noreturn, format(printf, 1, 2))) void hip_fail(const char *format, ...);

/* The line of the source that the lane is at, for messages; 0: unknown. */
extern int hip_line;

/* --- for a lane that runs --- */
int hip_thread(void);
int64_t hip_block(void);
int64_t hip_blocks(void);
int hip_threads(void);
void hip_barrier(void); /* s_barrier alone waits only for the other waves */
void hip_wave_barrier(void);
void hip_fence(void);        /* the LDS accesses of this lane are complete: lgkmcnt(0), or a release */
void hip_memory_fence(void); /* and to memory: a release of the workgroup */
/* This lane's entry of a table of what every lane put in (8 bytes each at most), after all have; entries of
 * ended lanes are 0. */
const uint64_t *hip_exchange(const char *what, uint64_t mine, uint64_t *active);
void hip_lds_load(void *to, uint32_t a, uint32_t bytes); /* aligned to its size */
void hip_lds_store(uint32_t a, const void *from, uint32_t bytes);
void *hip_lds_atomic(uint32_t a, uint32_t bytes); /* before it is done: where the bytes are */
/* An access to memory: what another wave of the workgroup wrote is read only behind its fence and a barrier.
 */
void hip_memory(const void *p, size_t bytes, bool write);
/* global_load_lds of this lane: `base` is the wave's, the lane's place is base + lane * bytes. */
void hip_load_lds(const void *from, uint32_t base, uint32_t bytes);
void hip_wait_loads(uint32_t outstanding);
/* d += a b by AMD's mnemonic without its chip's spelling ("mfma_f32_32x32x8_f16"); dwords. */
void hip_mma(const char *name, void *d, const void *a, const void *b);

/* hip_mma.c: the arithmetic of one instruction on whole fragments of the wave; lane pointers. false: the chip
 * has no such instruction. */
bool hip_mma_wave(
    int chip, const char *name, int lanes, void *const *d, const void *const *a, const void *const *b);
#ifdef __cplusplus
}
#endif
