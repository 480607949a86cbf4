/* multistage.h: what the files of staging have in common; see shared.c and multistage.c. */
#pragma once
#include "passes/kernel/amd/lds.h"
#include "passes/kernel/schedule/schedule.h"

/* Buffers of the body itself exist from their position on. Buffers inside an instruction of the body (a loop
 * with everything in it) use the memory after them, which they share with the buffers of its siblings,
 * because those run before or after. */
typedef struct Region {
    const Block *top;
    int64_t bytes;
} Region; /* top: its first block, which is kept when a loop is rebuilt */
/* A load that is staged by itself, and the last instruction of its block that reads it. */
typedef struct Single {
    const Block *block;
    const Instr *last;
    Value *buffer;
    int64_t bytes;
} Single;
typedef struct Staging {
    Session *s;
    Func *f;
    KernelPlan *p;
    InstrList loads;
    int64_t common, limit;
    VEC(Region) regions;
    VEC(Single) singles;
    /* Loops with positions that only such loads took. To sweep them earlier would erase listed loads, too. */
    VEC(Block *) bodies;
} Staging;

static inline bool stage_amd(const Staging *c) { return c->p->target->kind == TARGET_HIP; }
static inline Value *i32(Builder *b, int64_t v) { return ir_const_int(b, DT_I32, v); }
static inline Value *stage_view(Builder *b, Value *buf, Value *stage)
{ return ir_emit(b, OP_SHARED_STAGE, (Value *[]){ buf, stage }, 2, NO_ATTRS, NULL); }
static inline void stage_write(Builder *b, Value *view, Value *tile)
{ ir_build(b, OP_SHARED_WRITE, (Value *[]){ view, tile }, 2, NO_ATTRS, NULL, 0); }

/* shared.c: whether shared memory can hold what is loaded; the matrix that products read of it, which is the
 * tile or a reshape of it. */
bool stage_may(const Instr *load);
Value *stage_matrix_of(const Instr *load);
/* shared.c: erases a load whose matrix nothing reads any more. */
void stage_erase(Instr *load);
/* beside_fma.c: gives products by fused multiply-adds loads of their own, and moves behind them what would
 * wait in registers. */
void stage_beside_fma(Session *, Func *);
/* shared.c: whether the load is staged where it is: its latency is 1, or a schedule asks for it. */
void stage_alone(Staging *, Instr *load);
bool stage_in_place(Staging *, const Instr *load);
/* shared.c: whether it is the wait for a load that was staged where it stood: copy, copy_commit, copy_wait,
 * barrier. */
bool stage_is_single_wait(const Instr *);
/* start_together.c: moves copies of loads that were staged where they stood, in a block and those inside it.
 */
void stage_start_together(Staging *, Block *);
/* stage_computed.c: whether only products read what is loaded, as an operand; whether the parts of its window
 * have positions of their own; puts a view of the stage, or a tile that is read from it, in place of the
 * load; adds the loads from which operands are computed. */
bool stage_is_operand(const Instr *load);
bool stage_has_positions(const Instr *load);
void stage_read(Staging *, Instr *load, Value *view);
void stage_computed_loads(Staging *);
/* transposed_stages.c: joins loads of a window that products read in both orders; whether the use is such a
 * permute; puts views in place of those of a staged tile. */
void stage_join_exchanged(Staging *);
bool stage_is_exchanged_operand(const Use *);
void stage_read_exchanged(Staging *, Value *tile, Value *view);
/* multistage.c: whether the load can run ahead of the loop that holds it. All loads of such a loop, from the
 * one of this number on, share one place in their rings. limit: bytes of shared memory. */
bool stage_runs_ahead(const Instr *load);
void stage_loop(Staging *, size_t from, int64_t limit);
/* multistage_buffers.c: the type of a load's ring; the bytes of a stage of it; the buffers that come before
 * those of a block; a ring for use in `home`; the buffer of a load that is staged by itself. */
const Type *stage_buffer_type(Staging *, const Instr *load, int64_t stages);
int64_t stage_stage_bytes(Staging *, const Type *);
int64_t stage_bytes_before(Staging *, const Block *);
Value *stage_allocate(Staging *, Builder *, const Block *home, const Type *);
Value *stage_single_buffer(Staging *, Builder *, Instr *load);

/* multistage_copies.c: whether v can be computed from the counter of the loop and values from outside, by at
 * most `steps` pure operations. Each use of a value counts. */
bool stage_from_counter(const Value *v, const Block *body, int *steps);
Value *stage_clone(Builder *, Value *v, const Block *body, ValueMap *);
void stage_copy(Staging *, Builder *, const Instr *load, Value *view, const Block *body, ValueMap *);
/* Emits the copies of all loads for counter value `at` into stage `stage`, unless at >= hi; then a commit in
 * either case. */
void stage_issue(
    Staging *, Builder *, Instr *loop, Instr **loads, Value **bufs, int n, Value *at, Value *stage);
/* stages: of each load. Loads with the same number of stages share their place in their rings. */
void stage_by_copies(Staging *, Instr *loop, Instr **loads, const int *stages, int n);

/* multistage_registers.c: how a tile goes from memory to LDS. */
typedef struct StageWay {
    int32_t tile[2];
    int unit, inner;
    const Layout *writer, *reader;
} StageWay;
void stage_way(Staging *, const Instr *load, StageWay *);
const Type *stage_dma_type(Staging *, const Instr *load, int64_t stages);
int stage_dma_count(Staging *, const Instr *load);
const Type *stage_tile_in_registers(Staging *, const Instr *load);
bool stage_all_direct(Staging *, const Instr *loop, Instr *const *loads, int n);
/* lds: of each load, its stages in LDS, 1 or 2; reordered with the loads. */
void stage_by_registers(Staging *, Instr *loop, Instr **loads, int *lds, int n);
