/* trace_impl.h: what trace.c, which makes them, and program.c, which runs them, share: the address arithmetic
 * of a kernel as a list of nodes. */
#pragma once
#include "passes/sim/sim.h"

/* The action of a node. Values are in slots of Scalars, tiles in as many as they have elements. */
typedef enum NodeKind {
    NODE_OP, /* the operation `op` of the IR, which is control or computes a value */
    NODE_MADE_UP,
    NODE_LOAD_DATA,
    NODE_WINDOW,
    NODE_INDEXED,
    NODE_FLOPS,
    NODE_COORD
} NodeKind;

typedef struct Move {
    int32_t to, from, n;
} Move;
typedef struct Moves {
    Move *v;
    int n, elements;
} Moves;

typedef struct Axis {
    int64_t extent, step, stride, by, shape;
    int32_t slot;
    bool dropped, assumed;
} Axis; /* by: the bytes from one element to the next */
typedef struct Node Node;
typedef struct NodeList {
    Node *v;
    int n;
} NodeList;

struct Node {
    NodeKind kind;
    Op op;
    uint8_t dtype, from; /* of the operands; cast: the result's, and the operand's */
    bool assumed;        /* control: the condition, the bounds or the offsets depend on data */
    bool other; /* if: the second block has more accesses and is taken when data decides the condition */
    int32_t dst, a, b, c; /* slots */
    int32_t site, loop;   /* loop: its number among the loops of the trace */
    int64_t n;            /* elements of the result */
    int64_t imm;
    double flops, operations;
    const Instr *instr;
    const int32_t *slots; /* windows and indexed: index slots by tensor axis, then the mask's or -1 */
    unsigned assumed_axes;
    const struct Axis *axes;
    /* windows: axes of the tensor, in the order of the distance of their elements; dropped axes come first */
    int n_axes;
    NodeList blocks[2];
    Moves enter, again, leave; /* carried values: into the loop, from round to round, out; if: out of block 0
                                  and of block 1 (again) */
};

typedef struct Tensor {
    int64_t base, shape[TILE_MAX_RANK], stride[TILE_MAX_RANK];
} Tensor; /* strides in bytes */

struct SimTrace {
    const Func *func;
    int64_t grid[3], programs, bytes;
    Tensor *tensors;
    VEC(SimSite) sites;
    VEC(const Instr *) loops;
    NodeList body;
    int64_t n_slots, stage; /* Scalars of all values; of the exchange of carried ones */
    Scalar *start;          /* slots 0 .. n_start: constants and launch values */
    int64_t n_start;
    unsigned assumptions;
    EvalEnv env;
};

static inline uint64_t sim_hash(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}
