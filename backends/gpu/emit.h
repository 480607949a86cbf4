/* emit.h: inside the C emitter for CUDA and HIP. One Emit is one kernel being written. */
#pragma once
#include "backends/gpu/emit_body.h"
#include "backends/gpu/elements/emit_index.h"
#include "backends/gpu/gpu.h"
#include "ir/analysis/range.h"
#include "passes/kernel/kernel.h"

/* An expression of the thread's number that was given a name. */
typedef struct ThreadCoord {
    const LayoutTerm *terms; /* n of them */
    int n;
    const char *name;
} ThreadCoord;

/* A variable, and the name of its copy in an iteration of a loop. */
typedef struct AgainCoord {
    const char *of, *name;
} AgainCoord;

/* A copy inside a loop whose address is advanced from iteration to iteration instead of computed anew. */
typedef struct CopyPlace {
    const Instr *copy;
    const char *at;                    /* the pointer that is advanced */
    const char *by;                    /* how far it moves in each iteration */
    const char *to;                    /* the thread's offset in the stage; NULL: the copy computes it */
    const char *stride[TILE_MAX_RANK]; /* strides that are held in registers */
} CopyPlace;

/* The loop whose body is being written, on AMD. Statements for the head of the body are collected in `pre`,
 * because they become known only while the body is written. */
typedef struct Iteration {
    Body pre;
    VEC(AgainCoord) coords;
    const char *counter;
    int indent;
} Iteration;

/* A ring in shared memory: `depth` stages of `bytes` at `name`, its mbarriers at name_full, name_empty. */
typedef struct RingInfo {
    const Value *value;
    const char *name;
    int depth, arrivals, in_round; /* in_round: its stages beside one of the ring that it joins */
    int ctas; /* how many CTAs of the cluster fill it together; 1: each CTA fills its own */
    int64_t bytes;
    bool none; /* consumers may also release "no stage"; an mbarrier after the others takes these arrivals */
    const Value *joins; /* the ring whose barriers and stage numbers it shares (emit_join.c); NULL: none */
    const char *read;   /* what the next release depends on for the rings that join this one; NULL: nothing */
} RingInfo;

/* The state of one ring_cp_async in the cp.async producers. */
typedef struct Fill {
    const Instr *instr;
    const Instr *late; /* the loop in which a window leaves the staging area one step later; NULL: at once */
    const RingInfo *ring;
    const char *staging, *low, *first, *holds; /* names of the variables that the producers keep for it */
    int64_t at;                                /* offset of its staging area in shared memory */
    int bytes;                                 /* of the staging area, for each warp */
    CpAsyncWay way;
} Fill;

/* The buffer of shared memory through which a bulk store goes. */
typedef struct Stage {
    const Instr *store;
    const char *name;
} Stage;

/* A bulk store whose boxes writer warps send: the name of its buffers' address in shared memory, with which
 * those of its mbarriers and its words begin. */
typedef struct Writer {
    const Instr *store;
    const char *name;
    const char *before, *step; /* of the semaphore for which its next boxes wait */
    int semaphores;            /* the parameter of the semaphores for which its boxes wait; -1: for none */
    bool signals, signs; /* it also signals where nothing is added; windows may begin before the tensor */
} Writer;

/* The warp roles, in the order of the blocks of `roles`. ROLE_CP_ASYNC: the cp.async producers. */
enum { ROLE_PRODUCER, ROLE_CONSUMER, ROLE_CP_ASYNC };

/* A function of the prelude. */
typedef struct UsedFunction {
    ValueNode *node;       /* its name, and how many printed statements call it */
    const char *reference; /* to the node, as expressions hold it */
} UsedFunction;

/* Tiles of a row that begin `lead` elements before it; a thread's at `coord`, and its weights at `first`. */
typedef struct RowStart {
    bool searched;
    const Layout *layout;                      /* of these tiles; NULL: there are none */
    const char *lead, *coord, *within, *first; /* NULL: not yet declared */
    int n, unit, line, row;  /* elements and bytes of a word; bytes of a line; elements of the row */
    struct RowsAlike *alike; /* what is declared of rows */
} RowStart;

/* A quotient and its remainder that a loop carries: the values that are divided, the names of the variables,
 * of what a step adds to them (where a step is not 1) and of the carries, and the text of the divisor. in:
 * the carry of the digit before; NULL: there is none. */
typedef struct Counter {
    const Value *of, *by;
    const char *quotient, *rest, *more, *rest_more, *carry, *in, *divisor;
    bool zero, unit; /* the first dividend is 0; a step of the loop is 1 */
} Counter;

/* The name that a view had before a block gave it another, which the block's end takes back. */
typedef struct ViewName {
    const Value *of;
    const char *was;
} ViewName;

struct Emit {
    Session *s;
    const Func *f;
    KernelPlan *plan;
    const Target *target;
    bool multiplies, abreast; /* there are products of matrices; programs of one warp may share the CTA */
    bool steps;               /* window_steps */
    const char *programs;     /* of these (passes/kernel/program/abreast.c): how many the launch has */
    Body *out;                /* where statements go */
    VEC(CopyPlace) places;
    VEC(ViewName) views;       /* renamed in the blocks around (emit_mma.c) */
    VEC(Counter) counters;     /* of the loops around (emit_counters.c) */
    VEC(struct Along *) along; /* of the loops around (emit_along.c) */
    Body *pre;                 /* declarations at the top of the running role */
    VEC(ValueNode *) nodes;    /* the declared values, in order of declaration */
    int indent;
    const char **storage; /* by value id: the C name of what holds it; NULL: virtual or not yet emitted */
    const char **truths; /* the same: the array of its truths by words (emit_truths.c); NULL: there is none */
    bool *beside;       /* the same: it was loaded with the other of each two elements (emit_interleaved.c) */
    const char **place; /* the same: the array to compute it in; NULL: one of its own (emit_loop.c) */
    uint32_t n_values;
    VEC(UsedFunction) used;     /* prelude functions, in order of first use */
    VEC(const char *) products; /* the subset of `used` that are matrix instructions */
    VEC(ThreadCoord) coords;    /* thread parts of coordinates declared in `pre` */
    VEC(Slot) slots;
    const char **param_names; /* what the text calls them; NULL until first asked for (slot_name) */
    VEC(TensorMapDesc) maps;
    int64_t shared_bytes;     /* of the static buffers */
    int64_t scratch_bytes;    /* of the scratch area after the buffers */
    const Instr *last_buffer; /* the last instruction of the body that uses a buffer. After it, scratch begins
                                 at offset 0. NULL: there is no such instruction */
    RegisterUse largest;
    ScratchUse scratch_use, scratch_use_early;
    const Instr *here;   /* the instruction that is being emitted */
    const Instr *halved; /* a slice whose exchange of halves is at hand, in `exchanged` */
    const char *exchanged;
    int64_t scratch_early;       /* scratch_bytes up to last_buffer; -1: last_buffer is not yet emitted */
    int threads;                 /* of the running role: the threads that take part in its barriers */
    int barrier_id;              /* the named barrier of the running role; 0: the barrier of the CTA */
    int role;                    /* one of ROLE_..., or -1 when there are no roles */
    int64_t workspace_per_block; /* bytes of the workspace that each CTA takes */
    int in_last;                 /* conditions that only the last CTA of a tile passes, not yet closed */
    bool waits;   /* the kernel starts early and has not yet waited for its predecessor in the stream */
    bool measure; /* no text is wanted (gpu_measure) */
    VEC(RingInfo) rings;
    VEC(Fill) fills;
    VEC(const Instr *) met; /* memory operations that have a barrier before them */
    VEC(SharedUse) shared_map;
    VEC(EmittedAccess) accesses;
    VEC(Stage) stages;        /* buffers of bulk stores */
    struct KeptTiles *kept;   /* NULL: none (emit_kept.c) */
    struct ReadGathers *read; /* gathers whose elements are not chosen yet; NULL: none (emit_alike.c) */
    Writer writer;            /* its store is NULL where there are no writer warps */
    bool halves, fence_due;   /* barriers of consumers have two halves; of a write that wgmma reads next */
    bool bulk, dynamic; /* the running role stores by TMA; its programs are those of the tile scheduler */
    bool raw; /* the value is a narrow float for a register array, which packing rounds, infinities kept */
    VEC(struct Extreme) extremes; /* of rows, for other operations on them (emit_extreme.c) */
    VEC(int64_t) cluster_bars;    /* mbarriers of reductions across a cluster */
    bool cluster_met;             /* the CTAs of the cluster are known to have started */
    struct Reduction *joint;      /* that wait for the next one (emit_reduce.c) */
    int cluster_reads; /* warps of a cluster that say when they have read their rings; 0: none do */
    int64_t cluster_read, rings_from, rings_to; /* their mbarrier; shared memory that rings alone have */
    int next_tmp;
    Ranges *ranges;                /* computed at the first query */
    struct ShiftedLayout *shifted; /* the last that shift_begin was asked about; NULL: none yet */
    RowStart row_start;            /* where the coordinates of rows begin (emit_row_start.c) */
    const char *guard;             /* AMD: a condition; where it is false, loads give 0. NULL: none */
    struct Iteration *iteration;   /* AMD, rounds of topk: the enclosing loop, or NULL */
    int line;
    uint32_t file; /* `line` and `file`: of the last #line directive */
};

/* --- text --- */
/* An expression (emit_body.h): formatted text, which may hold references. */
const char *str(Emit *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *expression(Emit *, const char *fmt, va_list);
/* A reference to a function of the prelude, for an expression that calls it. */
const char *use(Emit *, const char *name);
/* The text that is not of statements calls the function. */
void use_always(Emit *, const char *name);
const char *use_product(Emit *, const char *name); /* the same for a matrix instruction */
/* A fresh name that begins with `stem`. */
const char *tmp(Emit *, const char *stem);
/* Whether two names, of variables or functions, are the same. */
bool same_name(const char *, const char *);
/* The C name of a value that is already declared. */
const char *name_of(Emit *, const Value *);
const char *all_programs(Emit *); /* how many the launch has */
const char *ctype(DType);         /* the C type of a scalar, or of one element in a temporary */
int ctype_bytes(DType d);
const char *array_type(DType); /* the element type of a register array: f16 and smaller are packed in u32 */
int array_len(DType, int regs);
DType bits_type(DType); /* the integer type that carries the bits of an element of less than a word */
int per_word(DType);    /* the elements in one word of a register array (1 for 32 bits and more) */

/* --- coordinates and registers --- */
const Layout *layout_of(Emit *, const Value *);
/* Sets `coord` to the coordinates in the tile of register `reg` of this thread. */
void coords_at(Emit *, const Layout *, Index *reg, Index **coord);
/* The part of a coordinate that depends on the thread, and not on the register. */
Index *thread_coord(Emit *, const Layout *, int axis);
/* A copy of the variable `name` that is assigned anew at the head of each iteration of the enclosing loop. */
const char *in_iteration(Emit *, const char *name);
/* The coordinate along `axis` of register `i` of this thread. */
Index *coord(Emit *, const Layout *, int axis, Index *i);
/* The text of it for a register that is given by a variable. */
const char *coord_text(Emit *, const Layout *, int axis, const char *variable);
/* The part of that coordinate that depends on the register. */
Index *register_coord(Emit *, const Layout *, int axis, Index *i);
bool coords_equal(int rank, const int32_t *, const int32_t *);
/* The register of `to` that holds the element of register `i` of `from`. Axes of extent 1 are ignored. */
Index *map_register(Emit *, const Layout *from, const Layout *to, Index *i);
/* The same for all registers of `from`; NULL when both layouts are equal. */
int32_t *register_map(Emit *, const Layout *from, const Layout *to);
/* The element of v at register i of layout l. v is stored, a broadcast of a stored value, or virtual. */
const char *element(Emit *, const Value *v, const Layout *l, Index *i);
/* Whether elements of registers i and j are equal for all values of variables, as far as formulas show. */
bool same_element(Emit *, const Value *v, const Layout *l, Index *i, Index *j);
const char *element_at(Emit *, const Value *v, Index *const *coords);
const char *stored_element(Emit *, const char *array, DType, Index *i);
/* The C expression of an operation on scalar arguments. */
const char *op_expr(Emit *, const Instr *, const char *const *args);
const char *cast_expr(Emit *, DType from, DType to, const char *x);
const char *round_to(Emit *, DType, const char *x);
const char *const_expr(Emit *, DType, const Instr *);
const char *pack_expr(Emit *, DType, const char *const *elems, int n);
/* Opens a loop over n registers, `for (i...)` with #pragma unroll. end_block closes it. */
void begin_unrolled(Emit *, const char *i, int n);
void end_block(Emit *);
/* Declares a register array for v and makes it the storage of v. */
const char *declare_tile(Emit *, const Value *);
/* The array that holds v. The value must be one that registers hold (ir/analysis/held.c). */
const char *registers_of(Emit *, const Value *);

/* The expression that combines two scalars of a reduction or scan, in the dtype in which it accumulates.
 * Emits statements when the combination is a function of the program. */
const char *combine_expr(Emit *, Instr *, DType acc, const char *x, const char *y);
/* The neutral element of that combination. */
const char *combine_identity(Emit *, const Instr *, DType acc);
/* The type of what a reduction or scan has combined in `acc`. A minimum or maximum is one of the operand's
 * elements and is not rounded, which would make the largest number of an infinity of f8e5m2. */
DType combined_type(const Instr *, DType acc);
/* The expression `a op b` of integers, with overflow that wraps. */
const char *wrapped(Emit *, DType, const char *op, const char *a, const char *b);

/* The position of an element in shared memory, in elements, as an expression of its coordinates. */
typedef const char *PositionFn(Emit *, Index *const *coords, const void *user);
/* Write a tile to shared memory and read it back, element by element. */
void spill_elements(Emit *, const Value *, const Layout *, const char *base, PositionFn *, const void *user);
void fill_elements(Emit *, const Value *result, const char *base, PositionFn *, const void *user);
const char *row_major(Emit *, Index *const *coords, const void *type);

/* Evaluates any tile into the array `to` of the given layout. */
void fill_tile(Emit *, const char *to, const Value *from, const Layout *);
/* Writes a tile to the shared tile at `base`, in vectors. */
void put_shared(
    Emit *, const Value *, const Layout *, const LayoutShared *, const LayoutVector *, const char *base);
/* The array that holds the value in this layout: the value's own array, or a copy. */
const char *array_of(Emit *, const Value *, const Layout *);
/* Reads words of which lanes would meet in a bank (emit_exchanged.c). False: they do not, or no exchange of
 * two registers helps. */
bool take_exchanged(Emit *, const char *array, DType, const Layout *, const LayoutShared *,
    const LayoutVector *, const char *base);
/* Reads a tile from the shared tile at `base`, in vectors. */
void take_shared(Emit *, const char *array, DType, const Layout *, const LayoutShared *, const LayoutVector *,
    const char *base);
/* Reads a tile by ldmatrix. False: the layout does not allow it, and nothing was emitted. */
bool emit_matrix_read(Emit *, const char *to, DType, const Layout *, const LayoutShared *, const char *view);
bool emit_matrix_write(
    Emit *, const char *from, DType, const Layout *, const LayoutShared *, const char *view);

/* --- shared memory --- */
/* Declares a u32 with the byte offset of these coordinates in a shared tile, and returns its name. */
const char *shared_offset(Emit *, const LayoutShared *, Index *const *coords);
/* Takes a scratch area of this size and returns its byte offset. */
int64_t scratch(Emit *, int64_t bytes);
const char *shared_pointer(Emit *, const char *type, int64_t at); /* declared, into scratch: its name */
void barrier(Emit *);        /* a barrier of the running role that orders shared memory */
void lanes_meet(Emit *);     /* CUDA: those of a warp, behind loops that some leave before others */
void memory_barrier(Emit *); /* the same; it also orders tensors */
bool is_hip(const Emit *);
/* Emits, once, the wait for the preceding kernels of the stream. The kernel may access memory after it. */
void emit_start(Emit *);
const char *cta_id(Emit *);
const char *cta_count(Emit *);

/* Records a buffer for the map at the head of the text. */
void note_shared(Emit *, const Instr *alloc, int64_t offset, int64_t bytes);
/* Writes the head of the text: schedule, registers and shared memory (emit_summary.c). */
void emit_summary(Emit *, int64_t scratch_at, int64_t all, Text *);
int registers_at_most(const KernelPlan *, int threads); /* the registers that a thread can have */

/* --- parts --- */
void emit_assert(Emit *, Instr *);
void emit_print(Emit *, Instr *);
bool is_run_op(const Instr *);
bool run_used_outside(const Value *, uint32_t mark);
/* Emits a run that computes on words of packed elements of 16 or 8 bits (emit_pairs.c). False: no operation
 * of the run can do so, and nothing was emitted. */
bool emit_paired_run(Emit *, Instr *first, Instr *last, uint32_t mark);
/* Emits a run of element-wise operations and returns its last instruction. */
Instr *emit_run(Emit *, Instr *first);
void emit_reduce(Emit *, Instr *);
void emit_convert(Emit *, Instr *);
void emit_materialize(Emit *, Instr *);
void emit_opaque_tile(Emit *, const Instr *);
void emit_slide(Emit *, const Instr *); /* emit_shift.c */
/* Emits reshape, permute, concat and slice through shared memory. */
void emit_by_position(Emit *, Instr *);
/* Emits a barrier before a memory operation if program order requires one. */
void keep_order(Emit *, const Instr *);
void emit_load(Emit *, Instr *);
/* Emit an `if` around copies or loads without a branch. False: nothing was emitted, and the caller emits an
 * ordinary `if`. */
bool emit_guarded_copies(Emit *, Instr *cond);
bool emit_guarded_loads(Emit *, Instr *cond);
void emit_store(Emit *, Instr *);
bool emit_staged_convert(Emit *, Instr *); /* through the buffers of a bulk store; false: it feeds none */
void emit_bulk_flush(Emit *, const Instr *);
void emit_due_fence(Emit *);           /* the proxy fence of such a write, if it is due */
bool emit_bulk_store(Emit *, Instr *); /* a store by TMA; false: the store is not marked as one */
void emit_indexed(Emit *, Instr *);    /* gather, scatter, atomics */
void emit_shared(Emit *, Instr *);     /* shared_*, copy* */
bool emit_half(Emit *, Instr *);       /* emit_half.c: a half or a pair of halves without shared memory */
bool emit_pick(Emit *, Instr *);       /* emit_pick.c: of registers that each lane has; false: of others */
/* emit_shifted.c: a tile moved along an axis, and whether the slice is left to that. */
bool emit_shifted(Emit *, Instr *concat);
bool emit_left_to_shift(Emit *, const Instr *slice);
bool emit_transposed(Emit *, Instr *permute); /* transposes the result of a product; false: it is none */
void emit_mma_sync(Emit *, Instr *);
void emit_fma(Emit *, Instr *); /* a product without a matrix unit */
/* The array to which a product adds: the accumulator itself if nobody else reads it, otherwise a copy. */
const char *product_accumulator(Emit *, Instr *);
/* Whether a value changes by *factor whenever the loop's counter grows by one. */
bool slope_in_loop(const Value *, const Block *body, int64_t *factor);
/* The layout that says which thread copies which elements. */
/* The axes of a tensor map of pixels, from the attribute im2col: the contiguous axis, those of pixels from
 * the fastest on, that of images. */
void emit_pixel_axes(const Attr *pixels, int unit, int rank, int *axes);
/* Views have their former names again: at the end of a block that found so many renamed. */
void emit_views_close(Emit *, size_t from);
/* Quotients and remainders that a loop carries (emit_counters.c): emit_counters_open declares them before the
 * loop; emit_counters_step, at the end of its body, makes them those of the next step, and forgets them.
 * emit_counter: the text of one; NULL: the operation is not carried. */
size_t emit_counters_open(Emit *, const Instr *loop);
void emit_counters_step(Emit *, size_t from);
const char *emit_counter(Emit *, const Instr *);
/* Copies whose addresses are advanced (emit_copy.c): copies_placed declares the pointers before the loop and
 * returns how many places there were, copies_moved advances the pointers at the end of the body. */
size_t copies_placed(Emit *, const Instr *loop);
void copies_moved(Emit *, size_t before);
void emit_fragments(Emit *, Instr *);         /* a shared_read of the fragments of one step */
void emit_rows(Emit *, Instr *);              /* topk, argmax */
void emit_scan(Emit *, Instr *);              /* scans by an operation */
void emit_sort(Emit *, Instr *);              /* sort */
bool emit_largest(Emit *, const Instr *topk); /* topk by a network; false: rounds take less */
void emit_combined(Emit *, Instr *);          /* reductions and scans by a fn */
/* The number of the row (all axes except `axis`) of register i of `keep`. *rows receives the number of rows,
 * padding included. */
const char *row_number(Emit *, const Layout *keep, int axis, Index *i, int64_t *rows);
/* The place of this warp among the warps that share a row, as an expression. *count receives their number. */
const char *warp_rank(Emit *, const Layout *, int axis, int *count);
/* Fills the words of the array `to` from n elements: `element` gives the expression of register i. */
typedef const char *RegisterFn(Emit *, const void *user, Index *i);
void fill_words(Emit *, DType, int n, const char *to, RegisterFn *element, const void *user);
/* Makes the tile r from the array `from`, whose elements have the dtype `acc`. */
void pack_registers(Emit *, const Value *r, const char *from, DType acc);
/* The registers on which a scan works: `groups` runs of `per` registers. `lanes` low bits of the lane number
 * belong to the scanned axis. */
typedef struct Runs {
    int per, groups, lanes;
    const RowStrips *strips; /* of rows; NULL: each run has a row of its own */
} Runs;
bool runs_of(const Layout *, int axis, Runs *); /* false: the layout does not count positions in order */
void scan_runs(Emit *, const Instr *, const Layout *, int axis, Runs *); /* the same, or an internal error */
/* The condition that register i is in the tile; "" when all are. */
const char *inside_tile(Emit *, const Layout *, Index *i);
DType combined_wide(DType); /* the type in which elements are compared and combined: f32 for narrow floats */
void emit_for(Emit *, Instr *);
void emit_while(Emit *, Instr *);
void emit_if(Emit *, Instr *);
void emit_block(Emit *, Block *);
/* The name of the kernel's function. */
const char *entry_name(Emit *);
const char *slot_name(Emit *, SlotKind, int param, int index, DType);

/* --- memory addressing (emit_window.c) --- */
/* A window and the tensor axes that it covers. Arrays have an entry for each axis of the tensor. */
typedef struct Window {
    int param, rank;
    Value *offset[TILE_MAX_RANK];
    int64_t step[TILE_MAX_RANK];
    int tile_axis[TILE_MAX_RANK]; /* the axis of the tile; -1: the tile does not have the axis */
    int unit;                     /* the tensor axis of stride 1; -1: none is known */
    int unit_tile;                /* its axis of the tile, or -1 */
    uint32_t picked, inside;      /* sets of tensor axes: a tile gives positions; elements are in range */
    bool masked, sums;            /* sums: its place in a row is worth a sum of its own (window_place) */
    int64_t cache;                /* CACHE_...: the hint of the access */
    int64_t align;                /* a number of bytes that divides the address of every row's start */
} Window;
/* Record an access of the instruction that is being emitted (access.h, emit_access.c): of a tensor, with the
 * vector of a thread (NULL: single elements); of a tile in shared memory; by ldmatrix; of a tile in shared
 * memory that is held row-major, axis `permute[a]` of it being axis a of the layout (NULL: the same axes). */
void note_tensor(Emit *, AccessWay, bool write, const Window *, const Layout *, const LayoutVector *);
/* The same for lanes that move `bytes` at once, by registers that follow each other if there is a layout. */
void note_wide(Emit *, AccessWay, bool write, const Window *, const Layout *, int bytes);
/* The same of what emit_shifted_load and emit_shifted_store wrote. */
void note_shifted(Emit *, bool write, const Window *, const Layout *);
void note_indexed(Emit *, bool write, int param, const Layout *, const LayoutVector *);
void note_vectors(Emit *, bool write, const Layout *, const LayoutShared *, const LayoutVector *);
/* A read by word, in which lanes with the bit `other` read register r ^ exchange in place of r. */
void note_exchanged(Emit *, const Layout *, const LayoutShared *, uint32_t exchange, uint32_t other);
void note_matrix(Emit *, const Layout *, const LayoutShared *, const LayoutMatrix *);
void note_unit(Emit *, bool write, const LayoutShared *, const Value *of);
void note_elements(Emit *, bool write, const Layout *, const Type *, const int64_t *permute);
void window_of(Emit *, const Instr *, Window *);
bool window_steps(const Func *); /* whether there are loops other than those over programs */
/* Declares a pointer to the origin of the window and returns its name. */
const char *window_pointer(Emit *, const Window *);
/* The address of the element of register `reg` of layout l, of a window whose first element is at `ptr`. */
const char *window_place(Emit *, const Window *, const char *ptr, const Layout *l, Index *reg);
/* The distance of tile coordinates from the origin, in elements, as an i64. */
const char *window_index(Emit *, const Window *, Index *const *coords);
/* The condition that tile coordinates are in range, "" when that is proven. skip_unit leaves out the unit
 * axis. */
const char *window_condition(Emit *, const Window *, Index *const *coords, bool skip_unit);
/* The text of the coordinate along an axis of the tensor. */
const char *tile_coord(Emit *, const Window *, int axis, Index *const *coords);
/* The same condition for one axis. It is given even if the window is not masked. */
const char *axis_condition(Emit *, const Window *, int axis, const char *place);
/* The condition that the first and the last element of a vector of n along the unit axis are in range. */
const char *vector_condition(Emit *, const Window *, Index *const *coords, int n);
/* The elements along an axis of the tile that one access moves where they lie side by side in memory from a
 * multiple of `align` bytes on. */
int vector_along(const Layout *, int axis, DType, int64_t align, LayoutVector *);
/* The number of elements of the widest access. */
int window_vector(Emit *, const Window *, const Layout *, DType, LayoutVector *);
/* Whether each access of n elements along the unit axis is wholly in range or wholly out of range. */
bool window_whole_vectors(Emit *, const Window *, int n);
/* The register of the first element of the vector whose number is the loop counter `counter`. *follow tells
 * whether the registers of a vector are consecutive. */
Index *vector_base(Emit *, const Layout *, const LayoutVector *, const char *counter, bool *follow);
/* The register of element k of the vector that starts at register `base`. */
Index *vector_reg(Emit *, const LayoutVector *, Index *base, int k);
/* The address of the vector's words in order: the registers of the array, or a copy where they are apart. */
const char *vector_words(Emit *, const LayoutVector *, const char *array, DType, Index *base, bool follow);
/* The suffix of the prelude function that carries out a window's `cache = ...`: "_stream", "_keep",
 * "_bypass", or "" where the access has no such form. cp.async has none: ptxas before 13.4 gives `cp.async ..
 * L2::cache_hint` a policy register that nothing wrote when the address in shared memory is split in two
 * registers, and the card refuses the instruction (github.com/IST-DASLab/marlin/issues/44). */
typedef enum CachedAccess { ACCESS_VECTOR, ACCESS_TMA, ACCESS_CP_ASYNC } CachedAccess;
const char *window_hint(const Emit *, const Window *, CachedAccess);
const char *window_load_fn(Emit *, const Window *, int bytes);
/* The condition that the coordinates lie in the tile and not in its padding, "" when that is known. */
const char *tile_condition(Emit *, const Layout *, Index *reg, Index *const *coords);
/* The condition that coordinate `c` of register `reg` along the axis is in the tile. It does not ask where
 * all threads' are, for the first values of the register's variable. */
const char *inside_axis(Emit *, const Layout *, int axis, Index *reg, Index *c);
/* The condition that selects one of the threads that hold the same element, so that only one stores it. */
const char *unique_holder(Emit *, const Layout *);
const char *both_conditions(Emit *, const char *, const char *);
/* The condition with `&` in place of `&&`, so that all its terms are evaluated without branches. */
const char *without_branches(Emit *, const char *condition);
const char *window_stride(Emit *, int param, int axis);
/* x times the stride of the axis. */
const char *window_times(Emit *, const char *x, int param, int axis);
const char *window_extent(Emit *, int param, int axis);
/* The value of a masked load out of range; a pad of NULL means 0. */
const char *pad_value(Emit *, const Value *pad, DType);
/* The same as a word of packed elements. */
const char *pad_word(Emit *, const Value *pad, DType);
/* Accesses rows at any address by aligned vectors (emit_shift.c). SHIFT_NONE: nothing was emitted.
 * SHIFT_PART: an `else` was opened, in which the caller emits element by element the accesses that vectors
 * cannot do. */
typedef enum { SHIFT_NONE, SHIFT_ALL, SHIFT_PART } ShiftDone;
ShiftDone emit_shifted_load(
    Emit *, const Window *, const Layout *, const char *ptr, const char *to, const Value *pad);
ShiftDone emit_shifted_store(
    Emit *, const Window *, const Layout *, DType, const char *ptr, const char *from);
/* How many of `most` elements from an offset on are in range, where an i64 `left` are up to the end: the end
 * may be further before the offset than 32 bits tell. */
const char *rows_left(Emit *, const Value *offset, const char *left, int most);
bool store_exchanges(Emit *, const Instr *store); /* whether lanes store elements that others hold */
bool goes_as_row_block(const Emit *, const Instr *);
/* Rows that lie in memory as one piece (emit_row_block.c). False: nothing was emitted. */
bool emit_row_block_load(
    Emit *, const Instr *, const Window *, const Layout *, const char *ptr, const char *to);
bool emit_row_block_store(
    Emit *, const Instr *, const Window *, const Layout *, const char *ptr, const char *from);
const char *pointee(DType); /* the C type of an element in a tensor */
