/* emit_bulk.h: what emit_bulk.c and emit_writer.c have in common: a bulk store, its buffers and its boxes. */
#pragma once
#include "backends/gpu/emit.h"
#include "passes/kernel/warp_specialization/bulk_store.h"

typedef struct BulkStore {
    const Instr *store;
    Window w;
    BulkBoxes b;
    DType type;
    int map, buffers, axis;
    bool at_once, late; /* written before the first one leaves; left to the next bulk_flush */
    bool writer;        /* handed to a writer warp */
    const char *stage, *box, *to;
} BulkStore;

/* Describes the store. In the role that stores, gives it buffers at the first call for it. */
void emit_bulk_open(Emit *, const Instr *store, BulkStore *);

/* The coordinates of box k for TMA, with a comma before each. `kept`: the variables that keep the window's
 * offsets; NULL: the offsets themselves. */
const char *emit_box_coordinates(Emit *, const BulkStore *, const char *k, const char *kept);

/* The offset of a window along axis q of the store's map, for TMA, without its closing bracket. */
const char *emit_bulk_coordinate(Emit *, const BulkStore *, int q);

/* Whether a box of the store may begin before its tensor (emit_before.c). */
bool emit_may_begin_before(Emit *, const Instr *store);
/* Starts the store or addition of a box, which is in the buffer, by `function` of the prelude. at: what
 * emit_box_coordinates gives. signs_matter: a box that begins before the tensor is moved element by element
 * (emit_before.c). */
void emit_box_send(
    Emit *, const BulkStore *, const char *function, const char *buffer, const char *at, bool signs_matter);

/* emit_writer.c */
const Writer *emit_writer_of(const Emit *, const Instr *store); /* NULL: warps send its boxes themselves */
void emit_writer_wait(Emit *);
void emit_writer_hand(Emit *, const BulkStore *);
