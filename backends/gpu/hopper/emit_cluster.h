/* emit_cluster.h: CTAs that work together: programs that load together, parts of a row and of a sum that meet
 * in a cluster, and sums of several clusters that meet in memory. */
#pragma once
#include "backends/gpu/emit.h"

/* --- programs that load together (emit_cluster.c, passes/kernel/cluster/multicast.c) --- */
void emit_cluster_places(Emit *);   /* the shared memory through which a cluster hands on its program */
void emit_cluster_barriers(Emit *); /* initializes the mbarriers of that */
void emit_cluster_meet(Emit *);     /* waits until all CTAs of the cluster have started */
void emit_cluster_draw(Emit *, const char *program); /* the producer's loop over dynamic programs */
void emit_cluster_leave(Emit *);                     /* no CTA ends before the others are done with it */

/* Declares the sums of the reduction and takes each from one element of a row; false: it is another sum
 * (emit_one_hot.c). */
bool emit_one_hot(Emit *, const Instr *reduce, const Layout *, const Layout *keep, const char *sums);

/* --- parts of a row (emit_reduce.c) --- */
/* Where the CTAs of a cluster meet to exchange parts of a row: the address of the parts, their mbarrier, the
 * pointer to them, and in a loop the number of the round. blocks_meet opens it for `bytes` of each of n CTAs,
 * blocks_send sends one word of each to all, `at` bytes behind the first, blocks_wait waits for all of them.
 * met: this CTA's warps met behind the reads of the round before. */
typedef struct BlocksMeet {
    const char *place, *mbar, *parts, *round;
    bool fenced; /* what was read before is ordered before what others write behind */
} BlocksMeet;
void blocks_meet(Emit *, const Instr *, int n, int bytes, bool met, BlocksMeet *);
void blocks_send(Emit *, const BlocksMeet *, int n, DType, int64_t at, const char *x);
void blocks_wait(Emit *, const BlocksMeet *);

/* --- sums of several CTAs --- */
void emit_combine(Emit *, Instr *); /* a reduction across the CTAs of a cluster */
/* Two elements of such a reduction combined: RMW_ADD, RMW_MAX or RMW_MIN. */
const char *emit_joined(Emit *, int rmw, DType, const char *x, const char *y);
/* emit_workspace.c: a reduction across the clusters of a program. What follows it stands under a condition,
 * which emit_workspace_leave closes at the end of the block; emit_workspace_enter comes before all of it. */
void emit_workspace_enter(Emit *);
void emit_workspace_combine(Emit *, Instr *);
void emit_workspace_leave(Emit *);
/* The same of programs that a share of the last round has parts of; behind all programs, emit_shares_end. */
void emit_share_combine(Emit *, Instr *);
void emit_shares_end(Emit *);
