/* plan.h: what plan.c, plan_cost.c, plan_wanted.c and share.c have in common. */
#pragma once
#include "backends/cpu/cpu.h"

typedef void LeafFn(void *user, Value *leaf, bool same);

static inline bool is_tile(const Value *v) { return v->type->kind == TYPE_TILE; }
static inline Block *plan_block_of(const Value *v) { return v->def ? v->def->block : v->block; }
/* The same shape but for extents of 1. */
bool plan_same_squeezed(const Type *, const Type *);
/* Whether the operation makes a tile that can be computed where it is read. */
bool plan_can_be_virtual(Op);
bool plan_has_buffer(Plan *, Value *);
/* About how many instructions it takes to read one vector of `v`. */
int plan_cost_at(Plan *, Value *v);
/* The axis along which a tile's elements are best computed, which is contiguous in memory; otherwise the last
 * axis of more than one element. */
int plan_natural_axis(Plan *, Value *);
int plan_last_axis(const Type *);
bool plan_is_zero(const Value *);
void plan_find_wanted(Plan *, Block *);
/* What a sink reads. */
void plan_sink_leaves(Plan *, Sink *, LeafFn *, void *user);
Sink *plan_sink(Plan *, SinkKind, Instr *, Value *, Buf *);
bool plan_shape_is(const Step *, const Type *);

/* few_rows.c: finds the products whose rows or columns beyond the end of their windows nothing reads
 * (ValInfo.unseen). */
void plan_unseen(Plan *);

/* count.c: the keys that the sum `i` counts, each in one of `*places` places; NULL: it counts none, or they
 * are better compared. */
Value *count_plan(Plan *, Instr *i, int64_t *places);

/* share.c: buffers for virtual tiles that several steps would compute. */
void plan_share(Plan *);
bool plan_rare(const Steps *);

/* plan_steps.c: a buffer of the program; the buffer of a value, which is made if there is none; the steps of
 * a block, none yet; a step, which is not yet in its place; adds it there; the steps around `in` that are of
 * block b (NULL: none). */
Buf *new_buf(Plan *, Steps *home, DType, int rank, const int64_t *shape);
Buf *plan_value_buf(Plan *, Value *, Steps *home);
Steps *plan_steps(Plan *, Block *, Step *parent);
Step *plan_step(Plan *, Steps *in, StepKind, Instr *);
Step *plan_append(Steps *in, Step *);
Steps *plan_steps_of(Steps *in, const Block *b);
