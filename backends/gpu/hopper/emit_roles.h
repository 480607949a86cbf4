/* emit_roles.h: what the emitters of warp-specialized kernels have in common: rings and their barriers,
 * writer warps, cp.async producers, wgmma, and the dynamic tile scheduler. */
#pragma once
#include "backends/gpu/emit.h"

/* --- rings --- */
/* The ring of a value (emit_ring.c). */
const RingInfo *emit_ring_of(Emit *, const Value *);
/* emit_join.c: decides which rings share barriers; the ring whose barriers a ring uses, itself or another;
 * the number of the stage that a put or get uses; whether a put, get or release is the first or last one of
 * its round at those barriers. */
void emit_join_rings(Emit *);
const RingInfo *emit_barriers_of(Emit *, const RingInfo *);
bool emit_shares_barriers(Emit *, const RingInfo *); /* with another ring */
const char *emit_stage_of(Emit *, const Instr *);
bool emit_is_first_of_joined(Emit *, const Instr *);
bool emit_is_last_of_joined(Emit *, const Instr *);
/* The text that moves a stage's number, and its phase unless that is NULL, to the next stage. */
void emit_advance(Emit *, const RingInfo *, const char *stage, const char *phase);
/* Whether threads fill the ring, by cp.async or by stores; TMA fills the others. */
bool emit_is_by_cp_async(const Emit *, const RingInfo *);
/* Prefetches the tensor maps of a block's copies, and of these the first ones only; done: by map. */
enum { MOST_PREFETCHED = 64 };
void emit_prefetch_maps(Emit *, Block *, bool *done);
void emit_ring_op(Emit *, Instr *); /* emit_ring.c */
void emit_release(Emit *, Instr *); /* emit_release.c */

void emit_roles(Emit *, Instr *);  /* emit_roles.c: all roles of a kernel */
void emit_hopper(Emit *, Instr *); /* every operation of these: rings, roles, wgmma, pingpong, votes */

/* --- the dynamic tile scheduler --- */
/* Emits a program coordinate that the producer hands to the consumers. False: the coordinate is computed in
 * place, and nothing was emitted. */
bool emit_program_coord(Emit *, Instr *);
/* Opens the loop over programs of one role, under the dynamic tile scheduler. */
void emit_scheduler_loop(Emit *, Instr *loop);
void emit_next_program(Emit *, Instr *);
enum { SCHEDULED_BYTES = 16 }; /* of a program that is handed on: whether there is one, and its coordinates */

/* --- products by wgmma --- */
void emit_promoted(Emit *, Instr *); /* wgmma_promoted */
/* Emits an empty assembly statement that reads and writes the registers, so that the compiler moves no access
 * to them across it. */
void pin_registers(Emit *, const char *array, int words, bool is_float);
void emit_wgmma(Emit *, Instr *);
void emit_wgmma_wait(Emit *, Instr *);
/* Emits that all words of a register array are taken together, and returns `after` with a sum that is 0 once
 * they have been read. */
const char *emit_has_read(Emit *, const char *after, DType, const char *array, int words);

/* --- barriers in two halves and writer warps --- */
/* Barriers in two halves (emit_halves.c): their mbarriers, what sets these up, and a role's counts. */
void emit_halves_place(Emit *, const Block *consumers);
void emit_halves_barriers(Emit *);
void emit_halves_counts(Emit *, const Block *consumers);
void emit_half_barrier(Emit *, const Instr *);
void emit_writer_places(
    Emit *, Block *consumers);               /* buffers and mbarriers of writer warps; those of halves */
void emit_writer_barriers(Emit *);           /* sets the mbarriers up */
void emit_writer(Emit *);                    /* the writer warps, behind the producer thread */
void emit_writer_end(Emit *);                /* at the end of the consumers: ends the writer warps */
void emit_writer_semaphore(Emit *, Instr *); /* a semaphore whose wait or signal is the writer's */
/* Before consumers access the tensor of semaphores `param`, or release (-1): waits until the writer has
 * signaled every semaphore that was handed to it. */
void emit_writer_done(Emit *, int param);
/* The address of the element of a semaphore, 0 where there is none to wait for (emit_indexed.c). */
const char *emit_semaphore_cell(Emit *, const Instr *);

/* --- producers by cp.async (emit_cp_async.c) --- */
void emit_cp_async_stage(Emit *, Instr *fill, const RingInfo *); /* reserves the staging area of a ring */
void emit_cp_async_state(Emit *);                                /* declares what lives across iterations */
void emit_cp_async(Emit *, Instr *);                             /* copies the window of one step */
void emit_cp_async_left(Emit *, const Instr *loop);              /* after the loop: its last window */
