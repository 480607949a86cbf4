/* op.h: the operations of the IR, their columns, and enums of the families of operations, all made from
 * ops.def. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum Op {
#define OP(ID, ...) OP_##ID,
#include "ir/ops.def"
    OP_COUNT
} Op;

/* The flags of ops.def, which says what they mean: OPF_PURE, ... */
#define OP_FLAGS(X) \
    X(PURE) \
    X(ELEM) \
    X(COMM) \
    X(READ) \
    X(WRITE) \
    X(TERM) \
    X(KERNEL) \
    X(BARRIER) \
    X(DIVERGENT) \
    X(CHEAP) \
    X(VIRTUAL) \
    X(APPROX) \
    X(NONNEG) \
    X(EXACT) \
    X(PICKS) \
    X(MOVES) \
    X(WHOLE) \
    X(PRODUCER) \
    X(CONSUMER) \
    X(CP_ASYNC)
#define X(ID) OPF_BIT_##ID,
enum { OP_FLAGS(X) OPF_BITS };
#undef X
#define X(ID) OPF_##ID = 1 << OPF_BIT_##ID,
enum { OP_FLAGS(X) };
#undef X

/* The kind of an operation. */
typedef enum OpFamily {
    OPS_CONSTANT,
    OPS_LAUNCH, /* a number that the launch gives */
    OPS_TOKEN,
    OPS_ARITHMETIC, /* from here to RANDOM: element-wise */
    OPS_BITS,
    OPS_COMPARE,
    OPS_SELECT,
    OPS_FUNCTION, /* of one float */
    OPS_CONVERSION,
    OPS_RANDOM,
    OPS_SHAPE,    /* elements arranged by their positions */
    OPS_REDUCE,   /* along an axis: to one element */
    OPS_ARG,      /* ... to the position of one */
    OPS_COMBINED, /* reductions and scans by a block */
    OPS_SCAN,
    OPS_SORT,
    OPS_PRODUCT, /* of matrices */
    OPS_MEMORY,  /* of tensors */
    OPS_MESSAGE,
    OPS_CONTROL,
    OPS_CALL,
    OPS_TERMINATOR,
    /* kernel IR only */
    OPS_REGISTERS,  /* where a tile is held */
    OPS_SHARED,     /* shared memory, copies to it, and the waits that order them */
    OPS_RING,       /* rings of stages between warp roles */
    OPS_ROLES,      /* warp roles, and the programs that they take */
    OPS_ORDER,      /* the order of products on the matrix unit */
    OPS_PLACE,      /* which program, CTA or thread this is */
    OPS_COLLECTIVE, /* of the threads of a warpgroup or the CTAs of a cluster */
} OpFamily;

/* The requirements of an operation on the layouts of its operands (passes/kernel/layout/layout.c). */
typedef enum LayoutRule {
    LAYOUT_RULE_ANY,   /* each operand may have any layout */
    LAYOUT_RULE_SAME,  /* operands have the layout of the result */
    LAYOUT_RULE_FREE,  /* no operand has a layout, and the result takes any layout */
    LAYOUT_RULE_GIVEN, /* no rule, because the operation changes the layout */
    LAYOUT_RULE_KEPT,  /* the operand has the layout of the result, if the result has one */
    LAYOUT_RULE_MOVED,
    LAYOUT_RULE_BROADCAST,
    LAYOUT_RULE_REDUCED,
    LAYOUT_RULE_COMBINED,
    LAYOUT_RULE_SCANNED,
    LAYOUT_RULE_SORTED,
    LAYOUT_RULE_CARRIED, /* values that blocks pass on have the same layout in all of them */
    LAYOUT_RULE_LOAD,
    LAYOUT_RULE_STORE,
    LAYOUT_RULE_COPY,
    LAYOUT_RULE_INDEXED, /* indices, values and masks have the same layout */
    LAYOUT_RULE_MMA,     /* fragments of the instruction */
    LAYOUT_RULE_WGMMA,
    LAYOUT_RULE_CLUSTER,
    LAYOUT_RULE_RING_READ,
} LayoutRule;

/* How two elements are combined. */
typedef enum Combine {
    COMBINE_NONE,
    COMBINE_SUM,
    COMBINE_PROD,
    COMBINE_MAX,
    COMBINE_MIN,
    COMBINE_ANY,
    COMBINE_ALL
} Combine;

typedef struct OpInfo {
    const char *name;
    OpFamily family;
    int n_operands, n_results, n_blocks; /* -1: any number */
    LayoutRule layout;
    Combine combine;
    int cost, special;
    unsigned flags;
    const char *doc;
} OpInfo;
extern const OpInfo op_info[OP_COUNT];
bool op_parse(const char *name, size_t len, Op *);

static inline OpFamily op_family(Op op) { return op_info[op].family; }
static inline bool op_is_elementwise(Op op) { return op_info[op].flags & OPF_ELEM; }
static inline bool op_is_pure(Op op) { return op_info[op].flags & OPF_PURE; }
static inline bool op_has(Op op, unsigned flags) { return (op_info[op].flags & flags) == flags; }
/* To one element of the axis, or to its position. */
static inline bool op_reduces(Op op)
{ return op_family(op) == OPS_REDUCE || op_family(op) == OPS_ARG || op == OP_REDUCE; }
/* The elements of an axis depend on each other. */
static inline bool op_is_along_axis(Op op)
{ return op_reduces(op) || op_family(op) == OPS_SCAN || op_family(op) == OPS_SORT || op == OP_SCAN; }

/* Products of views in shared memory by a warpgroup, which read them through the asynchronous proxy: in
 * flight until a wait (OP_WGMMA), or complete (OP_WGMMA_PROMOTED). Only what depends on a product's being in
 * flight asks for OP_WGMMA itself. */
static inline bool op_is_wgmma(Op op) { return op_info[op].layout == LAYOUT_RULE_WGMMA; }

/* Families as enums of their own, and operations as such enums. A switch over one of them has no default and
 * so names every operation of the family; operations of other families pass it by. */
#define OP(...)
#define LAUNCH(ID, ...) LAUNCH_##ID = OP_##ID,
typedef enum LaunchOp {
#include "ir/ops.def"
} LaunchOp;
#define OP(...)
#define ARITHMETIC(ID, ...) ARITHMETIC_##ID = OP_##ID,
typedef enum ArithmeticOp {
#include "ir/ops.def"
} ArithmeticOp;
#define OP(...)
#define BITS(ID, ...) BITS_##ID = OP_##ID,
typedef enum BitsOp {
#include "ir/ops.def"
} BitsOp;
#define OP(...)
#define COMPARE(ID, ...) COMPARE_##ID = OP_##ID,
typedef enum CompareOp {
#include "ir/ops.def"
} CompareOp;
#define OP(...)
#define FUNCTION(ID, ...) FUNCTION_##ID = OP_##ID,
typedef enum FunctionOp {
#include "ir/ops.def"
} FunctionOp;
#define OP(...)
#define SHAPE(ID, ...) SHAPE_##ID = OP_##ID,
typedef enum ShapeOp {
#include "ir/ops.def"
} ShapeOp;
#define OP(...)
#define CONTROL(ID, ...) CONTROL_##ID = OP_##ID,
typedef enum ControlOp {
#include "ir/ops.def"
} ControlOp;
#define OP(...)
#define MEMORY(ID, ...) MEMORY_##ID = OP_##ID,
typedef enum MemoryOp {
#include "ir/ops.def"
} MemoryOp;
#define OP(...)
#define SHARED(ID, ...) KERNEL_##ID = OP_##ID,
typedef enum SharedOp {
#include "ir/ops.def"
} SharedOp;
#define OP(...)
#define RING(ID, ...) KERNEL_##ID = OP_##ID,
typedef enum RingOp {
#include "ir/ops.def"
} RingOp;
#define OP(...)
#define PLACE(ID, ...) PLACE_##ID = OP_##ID,
typedef enum PlaceOp {
#include "ir/ops.def"
} PlaceOp;

static inline LaunchOp op_as_launch(Op op) { return (LaunchOp)op; }
static inline ArithmeticOp op_as_arithmetic(Op op) { return (ArithmeticOp)op; }
static inline BitsOp op_as_bits(Op op) { return (BitsOp)op; }
static inline CompareOp op_as_compare(Op op) { return (CompareOp)op; }
static inline FunctionOp op_as_function(Op op) { return (FunctionOp)op; }
static inline ShapeOp op_as_shape(Op op) { return (ShapeOp)op; }
static inline ControlOp op_as_control(Op op) { return (ControlOp)op; }
static inline MemoryOp op_as_memory(Op op) { return (MemoryOp)op; }
static inline SharedOp op_as_shared(Op op) { return (SharedOp)op; }
static inline RingOp op_as_ring(Op op) { return (RingOp)op; }
static inline PlaceOp op_as_place(Op op) { return (PlaceOp)op; }
