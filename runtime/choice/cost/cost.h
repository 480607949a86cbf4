/* cost.h: what one program of a compiled kernel does, counted in its kernel IR, and how long a launch of it
 * should take by that. Serves the choice of a configuration where no table speaks (choose.c, docs/tuning.md);
 * nothing here knows a kernel by its name. */
#pragma once
#include "backends/gpu/gpu.h"
#include "ir/interp/eval.h"
#include "runtime/choice/estimate/device_model.h"

/* Of one program, the mean over the grid. */
typedef struct Cost {
    double wgmma, mma;   /* multiply-adds of matrix instructions, as many of f16 as take the same time */
    double feed;         /* bytes that products read from shared memory */
    double shared;       /* bytes that else go in or out of shared memory */
    double alu, special; /* lane operations: arithmetic, and those of the special function unit */
    double copies;       /* of `alu`: copies of less than 16 bytes, which warps that multiply issue */
    double in, out;      /* bytes of tensors that come and go */
    double stored;       /* bytes of the sectors that stores of tiles write; those of several accesses count
                            for each */
    double parted; /* sectors at the ends of a stored tile's rows, of which other programs write the rest */
    double own, fetched; /* of `in`: bytes that warps load to registers through the multiprocessor's own
                            cache; bytes of the sectors that come from L2 for these */
    double pieces;       /* of those and `out`: lines, were each piece that lies together in memory a line */
    double added;        /* elements of `out` that are added to rows of memory atomically */
    double queued;       /* atomic operations on an element that is the same for all programs */
    double wasted;       /* bytes of sectors that are moved beyond those */
    double outside;      /* bytes of windows beyond the tensor, which TMA brings as zeros */
    double given;        /* bytes of `in` that another CTA of the cluster asks L2 for */
    double nearby;       /* bytes of windows that a group of multiprocessors loads, once; 0: clusters */
    double torn;         /* bytes of `in` in rows that begin within a sector of L2 */
    double split;        /* the same: at a sector, and lie across two lines */
    double ends;         /* of `alu`: outside of all loops */
    double cut;         /* rows of windows that TMA brings and that reach over the end of the tensor's rows */
    double cp_async;    /* vectors of 16 bytes, 32 at a time, that the busiest of the cp.async producer warps
                           brings to stages (passes/kernel/warp_specialization/cp_async_producer.c) */
    double cp_classes;  /* classes of lines, which begin alike, that it has */
    double cp_steps;    /* times that it brings windows: those of one iteration at a time */
    double cp_apart;    /* of `cp_async`: lines that each need an address of their own */
    double again;       /* bytes of `in` that the program has read before, about */
    double scalar;      /* scalar operations before the first load, about: divisions count as eight */
    double steps;       /* scalar operations of a producer in its loops, likewise */
    double puts;        /* windows that a producer asks TMA for */
    double iterations;  /* rounds of loops that wait for data */
    double stalls;      /* times that a program waits for loads which nothing runs ahead of */
    double waits;       /* the same for tiles that are loaded to registers and multiplied in one iteration */
    double trips;       /* times that a program waits for loads to registers in loops: those of several rounds
                           may be under way together */
    double trips_ahead; /* the same of loads that are issued rounds ahead */
    double computed;    /* products of consumers whose left operand is computed, and not by a product */
    double drains;      /* of those: in a loop, and waited for before the next operand is computed */
    double meets;       /* barriers, reductions across lanes or warps */
    double across;      /* what reductions across many warps take beside these */
    double reductions;  /* of tiles */
    double panels; /* 0: operands lie in panels of 128 bytes, or along K; 1: of 64 bytes; 2: padded to whole
                      ones */
    double joins;  /* tiles that the CTAs of a cluster put together; one of 50 KB counts as two */
    int waiting;   /* CTAs beyond two that meet before they put tiles together over the rings */
    double left;   /* bytes that the last CTA of a tile reads from the workspace */
    double shared_out;     /* bytes of a tile that several CTAs of the last round may share (stream-k) */
    double heaviest;       /* work of the heaviest program to the mean */
    double unique, memory; /* bytes of all tensors that programs touch, once; bytes that come from and go to
                              memory, as far as L2 does not hold them */
    double ring;           /* bytes that rings and buffers hold for loads under way */
    double ahead;          /* bytes of one round's loads into registers */
    int64_t programs, groups; /* groups: of programs that load together, each one where none do */
    bool loops;               /* there is a loop, of whatever size */
    double stages;            /* of the shortest of those, for so many iterations; 0: none in a loop */
    int consumers;            /* warpgroups with products of their own, 0: no roles */
    int abreast;              /* programs of one warp that share a CTA; 1: none do */
    int threads, registers;   /* registers: of a thread, at most */
    int words;                /* of a thread, that the largest tile takes */
    int live;                 /* the same: all tiles, where the most of them are in use at once */
    int gathered;             /* the same: all that is in use where a gather needs room (cost_registers.c) */
    int round; /* the same: what a loop carries and what one of its rounds loads, of the loop with the most */
    double copied; /* copies of 4 or 8 bytes that a thread issues in one round */
    int loaded; /* words of a thread that a load to registers within a consumers' loop takes: a bias that TMA
                   does not reach; without roles, those of the loads that are waited for together (waits) */
    int before; /* words of a thread that consumers load to registers, once for a program, for an operand of
                   a product behind these loads */
    int held, room; /* words of a thread that products hold at once, and registers it has for them */
    bool persistent, bulk;
    bool pixels;   /* TMA's im2col mode brings operands */
    bool shifted;  /* loads by aligned vectors shifted in registers (passes/kernel/layout/unaligned_vectors.c)
                    */
    bool chained;  /* products of what other products gave: each of a step holds its stage for a part of it */
    bool tiled;    /* loops take the tiles of ranges between loaded offsets one after the other */
    bool ragged;   /* loops over ranges between loaded offsets, of which the mean is counted */
    bool open;     /* data end a loop, and nothing says after how many rounds at most */
    bool fma;      /* products of f32 by fused multiply-adds */
    bool wide;     /* operands of 32 bits go to mma.sync */
    bool pingpong; /* warpgroups take turns at issuing products */
    bool packed;   /* several programs are one (passes/tile/program/pack.c) */
    bool uncertain;       /* not all of it could be counted */
    int cluster, loading; /* CTAs of one program; programs that load together */
    int clusters;         /* of one program; 0 and 1: one */
    int shares;           /* in how many parts a program of the last round may be divided; 0: not at all */
    double sharing;       /* CTAs that share the programs of a launch that has no whole round */
    bool uneven_shares;   /* some share has parts of two programs */
    int64_t shared_bytes;
} Cost;

/* What bounds a launch. */
typedef enum Bound {
    BOUND_PROGRAMS, /* there are too few of them, or nothing else is known */
    BOUND_LOADS,    /* too few bytes are under way */
    BOUND_MEMORY,
    BOUND_L2,
    BOUND_SHARED_MEMORY,
    BOUND_ARITHMETIC,
    BOUND_PRODUCTS,
    BOUND_COUNT,
} Bound;

/* In words: "shared memory". */
const char *bound_name(Bound);

/* `f` was lowered, `code` emitted of it. env: extents, scalars, strides, and the grid. */
void cost_count(Session *, const Func *f, const GpuCode *code, const EvalEnv *env, int64_t programs,
    const CostDevice *, Cost *out);
/* The same of a launch with so many programs, of which each moves as many bytes. */
Cost cost_with_programs(const Cost *, int64_t programs);
/* Nanoseconds of a launch; *bound: what bounds it. */
double cost_estimate(const Cost *, const CostDevice *, Bound *bound);
/* The same where programs without products take registers for all tiles that are in use at once, and a warp
 * waits for its own instructions. Other warps and CTAs for the same tiles have to be better by both: the
 * vendor's compiler takes a number of registers between the two, and often less than this one, so that this
 * estimate alone ranks tiles of different sizes worse (bench/notes/choice.md, "Rows and registers"). */
double cost_estimate_carefully(const Cost *, const CostDevice *);

/* Clusters of so many CTAs that run at once, where a multiprocessor has one CTA. Multiprocessors come in
 * groups, and a cluster lies in one: clusters of six leave four of sixteen without work. Some multiprocessors
 * lie in groups that take no cluster of more than two. */
double cost_clusters_at_once(const DeviceModel *, int units, int cluster);

/* cost_registers.c: registers of a thread that the code wants. */
double cost_registers_wanted(const Cost *, const DeviceModel *);
/* The same: registers that it wants and has not, 0 or less where all that it wants is there. */
double cost_registers_missing(const Cost *, const DeviceModel *);
/* Registers that a thread has at most where a CTA has a multiprocessor to itself: launch bounds for more of
 * them are given up where words would go to memory (runtime/launch/compile_again.c). */
double cost_registers_most(const Cost *, const Target *);
/* The part of a thread's registers that tiles take at least, by what is counted. */
double cost_registers_full(const Cost *);
/* Nanoseconds that a launch takes longer for each byte that a thread keeps in memory, about. */
double cost_spilled_byte(const Cost *, const CostDevice *);
/* estimate_shares.c: nanoseconds of the last round of a launch whose CTAs share its programs evenly
 * (stream-k): `rest` programs for each CTA, `walk` each, and `ends` for the beginning and the end. Where a
 * share has parts of two programs, it has the end of one and the beginning of the next. Who joins a tile
 * reads all of its parts, as warps load from L2. */
double cost_shares_time(const Cost *, const DeviceModel *, double rest, double walk, double ends);
/* queueing.c: the part of the time in which memory works for `k` CTAs of a multiprocessor. */
double cost_memory_at_work(double k, double serve, double start, double rest);

/* The time that a launch takes at least: that of the resource which the work keeps busy longest, at its full
 * rate. `roof` is BOUND_MEMORY for the bytes of the tensors, each moved once, BOUND_PRODUCTS or
 * BOUND_ARITHMETIC. */
double cost_roof(const Cost *, const CostDevice *, Bound *roof);
/* The line of the source that takes most of the resource in the program in the middle of the grid; no file:
 * none does. */
Loc cost_line(Session *, const Func *f, const GpuCode *code, const EvalEnv *env, int64_t programs,
    const CostDevice *, Bound of);
/* roofline.c: a performance note if the estimate of the launch falls short of its roofline by more than a
 * quarter: which resource limits it, and which line takes most of that; or if its arithmetic takes longer
 * than its bytes by as much. Without a device model, or where not all could be counted, there is none. */
void cost_advise(
    Session *, const Func *f, const GpuCode *code, const EvalEnv *env, int64_t programs, const CostDevice *);
