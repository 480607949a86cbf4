/* core.h: the emulator's own state. */
#pragma once
#include "tests/emu/emu.h"
#ifndef __x86_64__
#include <ucontext.h>
#endif

enum {
    EMU_WARPS = 32,
    EMU_LANES = 64,
    EMU_GATES = 17,
    EMU_STACK = 256 * 1024,
    MOST_RESIDENT = 16, /* CTAs at a time */
    EMU_MBARS = 191,
    EMU_UNKNOWN = -1,     /* which lane's wait is that of the whole warp */
    EMU_AGENTS = 128,     /* the possible writers: warps, then the copies that arrive at each mbarrier */
    EMU_CLUSTER = 16,     /* CTAs of a cluster */
    EMU_IN_FLIGHT = 255,  /* in a tag: an asynchronous copy is writing there */
    EMU_SEVERAL = 254,    /* several warps wrote the same value, in no order */
    EMU_READING = 0xffff, /* in the table of reads: a product in flight reads this word */
    EMU_WHOLE = 254,
    EMU_MIXED = 255, /* the lanes of a read: a warp together (for a product), or several by themselves */
    EMU_MOST_LOOKS = 1 << 19 /* in a row of lanes that come again to where their last atomic was: half as many
                                as a tile may have elements */
};

#ifdef __x86_64__
typedef void *Context;
#else
typedef ucontext_t Context;
#endif

/* What is known to have happened: for every agent the newest epoch whose accesses are ordered before now, and
 * the newest whose generic accesses a proxy fence has handed to the asynchronous proxy. Of a warp one of
 * whose lanes arrived somewhere, the lane's own accesses up to then are known (own; `partial` has a bit for
 * each such warp), of its other lanes those before their last meeting at a barrier. */
typedef struct Clock {
    uint16_t at[EMU_AGENTS], fenced[EMU_AGENTS], own[EMU_WARPS][32];
    uint32_t partial;
} Clock;

typedef enum Moment { AT_ISSUE, BETWEEN, AT_WAIT } Moment; /* when an asynchronous operation takes effect */

typedef enum WaitKind { WAIT_NONE, WAIT_SPIN, WAIT_ROUND, WAIT_PHASE, WAIT_REGISTERS } WaitKind;

/* A thread's copy between memory and `at` in shared memory: cp.async, from an address (NULL: zeros), or a TMA
 * store, to a place of a tensor map. */
typedef struct Copy {
    uint32_t at, bytes, read, group;
    const void *from;
    uint8_t map[128];
    int32_t place[5];
    bool done, adds; /* adds: to the tensor's elements, which are f32 */
    Moment moment;
} Copy;
/* In order of issue, in groups that the thread closes and waits for. */
typedef struct Copies {
    Copy *data;
    uint32_t n, room, group;
} Copies;

struct Cta;
struct Warp;
typedef struct Mbar {
    uint32_t address, count, left, phase;
    int64_t bytes;
    int agent, warp;
    bool fenced;
    uint16_t copies;
    Clock in, out;
    struct Far *far;
} Mbar; /* fenced: made visible to the cluster by the warp that initialized it */
/* What arrivals from each other CTA of the cluster brought: for this phase, and of the phases that have
 * ended. */
typedef struct Far {
    Clock in[EMU_CLUSTER], out[EMU_CLUSTER];
} Far;
typedef struct Gate {
    uint32_t count, need, round;
    Clock in, out;
} Gate;

typedef struct Fiber {
    Context context;
    uint8_t *stack;
    struct Warp *warp;
    int lane, thread, line;
    bool fresh, done, waited; /* waited: for the grids before */
    uint8_t parity;           /* of the exchange slots */
    WaitKind wait;
    const char *what; /* it waits for */
    const uint32_t *round;
    uint32_t value;
    const Mbar *mbar;
    Copies loads, stores; /* by cp.async, by TMA */
    const void *looked;   /* where its last atomic was */
    bool unwritten;       /* it has started stores by TMA and did not wait until memory had them */
    bool newest_left;     /* nor did it start one since it waited for all but the newest */
    uint32_t atomics;     /* the CTA's, when it made its last fence */
} Fiber;

/* Accumulators of products in flight: their registers hold poison until the wait. */
typedef struct Chain {
    uint32_t *d[32], *value;
    int regs, products;
} Chain;
typedef struct Product {
    EmuProduct kind;
    Chain *chain;
    Moment moment;
    bool done, accumulate;
    uint32_t group;
    const uint32_t *a[32]; /* NULL: from shared memory */
    uint32_t a_was[32][4];
    int n_a, n_b; /* 16-byte pieces of shared memory */
    uint32_t *pieces;
} Product;

typedef struct Warp {
    struct Cta *cta;
    Fiber *lanes;
    int index, registers;
    int waits; /* core.c: a lane for whose wait all lanes wait, so that the scheduler looks at one */
    Clock clock;
    uint16_t lanes_epoch; /* accesses before this epoch are ordered among the lanes */
    EmuWord slot[2][EMU_LANES];
    uint32_t met, round, gate_round; /* of the meeting of lanes */
    uint32_t acquired[EMU_GATES];    /* the round of each barrier whose clock this one has; 0: none */
    const char *meets_for;
    int meets_line;
    Product **products;
    int n_products, room;
    uint32_t groups, issued;
    uint32_t cluster_round, cluster_waited; /* barriers of the cluster: arrived at, waited for */
    bool mbars_fenced;                      /* fence.mbarrier_init was executed */
    bool fenced;                            /* wgmma.fence since the last group */
} Warp;

typedef struct Tma {
    uint8_t map[128];
    uint32_t to, bytes;
    Mbar *bar;
    int rank;
    int32_t at[5], tap[3]; /* tap: of pixels */
    Moment moment;
    uint16_t epoch;
    int peer;
    Clock *sender;
} Tma; /* rank 0: a word that CTA `peer` of the cluster sent, whose value is in map; -1: its arrival */

/* Who wrote one value to one place, or changed it by atomics: the epoch of each warp, 0: not that one. */
typedef struct Several {
    uint16_t epoch[EMU_WARPS];
    uint8_t lane[EMU_WARPS];
    uint32_t filled; /* atomic: the tag of what was there before */
    bool atomic;     /* by atomics, whatever the value, and perhaps by one warp alone */
} Several;

/* A warp's last read of a byte of shared memory: its epoch and lane; or of each of a block's (shadow.c). */
typedef struct ByteRead {
    uint16_t epoch;
    uint8_t lane;
} ByteRead;
typedef struct ReadBlock {
    uint16_t epoch;
    uint8_t lane;
    bool split; /* its bytes were not read alike: byte_reads says of each */
} ReadBlock;

typedef struct Cta {
    EmuDim3 index;
    bool active;
    uint8_t *memory;      /* by address, from 0 */
    uint32_t end;         /* first address behind it */
    uint32_t *tags;       /* a byte: who wrote it last: agent, lane, epoch */
    ReadBlock *reads;     /* a block and warp */
    ByteRead *byte_reads; /* a byte and warp, of blocks that are split */
    Several *several;
    int n_several, several_room;
    int n_warps, left; /* left: threads not done */
    Warp *warps;
    Fiber *fibers;
    Gate gates[EMU_GATES];
    Mbar mbars[EMU_MBARS];
    int n_mbars;
    uint8_t *mbar_at; /* by address / 8: number + 1 */
    Tma *tmas;
    int n_tmas, tma_room;
    Clock cluster_in, cluster_out; /* what its warps know at a barrier of the cluster */
    /* The progress of the warps of each CTA of the cluster that it knows from their messages. */
    Clock peers[EMU_CLUSTER];
    int registers; /* not held by any warp */
    uint64_t issues[EMU_WARPS / 4][64];
    uint32_t issued[EMU_WARPS / 4];
    uint32_t atomics; /* on global memory */
    uint16_t *knows, *met, *told, ordered_before;
    bool fenced; /* of other CTAs: global.c */
} Cta;

/* Whether atomics changed a byte that has this tag. */
static inline bool emu_by_atomics(const Cta *c, uint32_t tag)
{ return tag >> 24 == EMU_SEVERAL && c->several[tag & 0xffff].atomic; }

typedef struct Cluster {
    uint32_t count, round;
} Cluster;

typedef struct Emu {
    const EmuLaunch *launch;
    Cta *ctas;
    int n_ctas;
    Cluster clusters[16];
    Cta *cta;
    Warp *warp;
    Fiber *fiber; /* running */
    Context scheduler;
    uint64_t random;
    int late; /* 0: all complete at the wait; 1: all complete at once; 2: either; 3: also any time between */
    char error[1200];
    bool failed;
} Emu;

extern Emu emu;

uint32_t emu_random(uint32_t below);
Moment emu_moment(void);

/* core.c: gives way until the condition holds */
void emu_wait(WaitKind, const char *what, const uint32_t *round, const Mbar *, uint32_t value);
/* All lanes come; the last one to come runs f, for all. */
typedef void MeetFn(Warp *, const EmuWord *lanes, const void *arg);
const EmuWord *emu_meet(const char *what, const void *mine, size_t bytes, MeetFn *f, const void *arg);

/* without the number of the CTA, which is the upper byte of addresses in a cluster */
uint32_t emu_own(uint32_t address);
Cta *emu_peer(int rank); /* a CTA of the running one's cluster */

/* shadow.c */
void clock_join(Clock *to, const Clock *from);
/* All lanes have arrived. The accesses of the running warp so far become known to whoever acquires `to`. */
void emu_release(Clock *to);
/* The accesses of the running lane, and those of other lanes that a warp barrier ordered before. */
void emu_release_lane(Clock *to);
bool emu_ordered(int warp, int lane, uint16_t epoch); /* before what the running thread does now? */
void emu_acquire(const Clock *from);
void emu_next_epoch(Warp *);
uint8_t *emu_at(uint32_t address, uint32_t bytes);
/* Are accesses by the running warp here ordered after what others did? Reported if not. `same`: what is
 * written, if that may equal what is there. */
/* elements.c: n elements of an operand, `step` apart in `out`; integers as floats too: they are exact. */
int emu_element_bytes(EmuType);
void emu_decode(const uint8_t *p, int n, EmuType, float *out, int step);

/* One step of a matrix unit that keeps few bits (short_sums.c): sum + a[0] b[0] + .. + a[n - 1] b[(n - 1)
 * along_b]. */
float emu_short_step(float sum, const float *a, EmuType ta, const float *b, int along_b, EmuType tb, int n);

typedef enum Access {
    GENERIC,
    BY_TMA,
    BY_WGMMA
} Access; /* the latter two are by the asynchronous proxy; wgmma is for the whole warp */
void emu_check_read(uint32_t address, uint32_t bytes, Access);
void emu_check_write(uint32_t address, uint32_t bytes, const void *same, Access);
void emu_mark_write(uint32_t address, uint32_t bytes, int agent, int lane, uint16_t epoch);
void emu_mark_read(Warp *, uint32_t address, uint32_t bytes, uint16_t epoch, int lane);
/* A word sent by the running warp to CTA c goes where nothing is read or written any more, as far as its own
 * CTA knows. */
void emu_check_sent(Cta *c, const Clock *sender, uint32_t address, uint32_t bytes);
/* Likewise of a tile that it sends: nor does a copy write there, that the sender does not know to have been
 * waited for. */
void emu_check_tile(Cta *c, const Clock *sender, uint32_t address, uint32_t bytes);
bool emu_shadow_open(Cta *, size_t shared_bytes);
void emu_keep_memory(void);
uint8_t *emu_stacks(int cta, int threads);
void emu_shadow_reset(Cta *);
void emu_shadow_close(Cta *);

/* global.c */
void emu_global_sent(Cta *to);
void emu_global_acquired(void);
void emu_global_open(int64_t blocks);
void emu_global_start(Cta *);
void emu_global_touch(void); /* by the asynchronous proxy too */
/* Whether threads only look at memory, again and again; until something comes that others waited for. */
bool emu_global_waits(void);
void emu_global_came(void);
void emu_global_forget(Cta *);
void emu_global_close(void);

/* sync.c */
int emu_cluster_size(void); /* CTAs of a cluster; 1 without clusters */

/* mbarrier.c: the mbarrier at an address, which the running thread reads; a failure where there is none */
Mbar *emu_mbar(uint32_t address, Access);
void emu_mbar_advance(Mbar *); /* starts the next phase when all arrivals and bytes of this one have come */

/* async.c, product.c: at CTA's start and end, and between steps */
void emu_async_reset(Cta *);
const char *emu_async_end(Cta *); /* what is still in flight, or NULL */
bool emu_async_some(Cta *);       /* completes one copy that all may be waiting for */
bool emu_async_step(Cta *);       /* did one of those that were drawn so land? */
void emu_products_reset(Cta *);
bool emu_products_end(Cta *);
void emu_products_step(Warp *);
