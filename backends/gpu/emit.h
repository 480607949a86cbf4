/* emit.h: inside the C emitter for CUDA and HIP. One Emit is one kernel being written. */
#pragma once
#include "backends/gpu/emit_body.h"
#include "backends/gpu/gpu.h"
#include "ir/range.h"
#include "passes/kernel/kernel.h"

typedef struct ThreadCoord {
    const char *text, *name;
} ThreadCoord;

/* The body of a loop being written: what stands at its head comes while it is. */
/* A copy of a loop: the pointer that goes along, what it moves by each turn, the thread's offset in the slot
 * (NULL: worked out by the copy), strides in registers. */
typedef struct CopyPlace {
    const Instr *copy;
    const char *at, *by, *to, *stride[TILE_MAX_RANK];
} CopyPlace;

typedef struct Turn {
    Body pre;
    VEC(ThreadCoord) coords;
    const char *counter;
    int indent;
} Turn;

/* A ring in shared memory: `depth` slots of `bytes` at `name`, full and empty mbarriers at name_full and
 * name_empty. */
typedef struct RingInfo {
    const Value *value;
    const char *name;
    int depth, arrivals, ctas;
    int64_t bytes;
    bool none;
} RingInfo; /* ctas: of the cluster, that fill it together; 1: this one alone; none: a slot that is none is
               given back, whose mbarrier stands behind the others */

/* A buffer of the shared-memory map. */
typedef struct SharedUse {
    const char *name;
    const Type *type;
    int64_t offset, bytes;
    Loc loc;
} SharedUse;

/* A ring_fill: names of what fillers keep for it, its stage in shared memory (`bytes` a warp), the loop in
 * which a window is taken from there a step later (NULL: at once). */
typedef struct Fill {
    const Instr *instr, *late;
    const RingInfo *ring;
    const char *stage, *low, *first, *turn;
    int64_t at;
    int bytes;
    FillWay way;
} Fill;

typedef struct Stage {
    const Instr *store;
    const char *name;
} Stage;

enum { ROLE_PRODUCER, ROLE_CONSUMER, ROLE_FILLER }; /* by the blocks of roles */

struct Emit {
    Session *s;
    const Func *f;
    KernelPlan *plan;
    const Target *target;
    Body *out; /* where statements go */
    VEC(CopyPlace) places;
    Body *pre;              /* declarations at the top of the running role */
    VEC(ValueNode *) nodes; /* the declared values, in order of declaration */
    int indent;
    const char **storage; /* by value id: C name that holds it (arrays and scalars); NULL: virtual or not yet
                             emitted */
    const char *
        *place; /* by value id: the array that it is to be made in; NULL: one of its own (emit_loop.c) */
    uint32_t n_values;
    VEC(const char *) used;     /* prelude functions, in order of first use */
    VEC(const char *) products; /* those of them that are matrix instructions */
    VEC(ThreadCoord) coords;    /* thread parts of coordinates declared in `pre` */
    VEC(Slot) slots;
    VEC(TensorMapDesc) maps;
    int64_t shared_bytes, scratch_bytes; /* static buffers; the scratch area behind them */
    const Instr *last_buffer; /* of the body: behind it the buffers are free, and scratch begins at 0; NULL:
                                 no such place */
    RegisterUse largest;
    ScratchUse scratch_use, scratch_use_early;
    const Instr *here;     /* what is being emitted */
    int64_t scratch_early; /* scratch_bytes up to there; -1: not there yet */
    int threads;           /* threads of the running role: barriers are among them */
    int barrier_id;        /* named barrier of the running role; 0: the CTA's */
    int role;              /* -1 none, or ROLE_.. */
    bool waits;            /* starts early, and has not yet waited for what is before it in its stream */
    bool measure;          /* no text is wanted (gpu_measure) */
    VEC(RingInfo) rings;
    VEC(Fill) fills;
    VEC(const Instr *) met; /* memory operations before which the threads met */
    VEC(SharedUse) shared_map;
    VEC(Stage) stages; /* buffers of bulk stores */
    bool bulk;         /* the running role stores by TMA */
    bool tickets;      /* inside a role that takes programs by tickets */
    bool raw; /* a narrow float goes straight into a register array, whose packing rounds it (but keeps
                 infinities) */
    VEC(int64_t) cluster_bars; /* mbarriers of reductions across a cluster */
    bool cluster_met;          /* the CTAs of the cluster are known to have started */
    int next_tmp;
    Ranges *ranges;    /* made when first asked */
    const char *guard; /* AMD: loads give 0 unless this holds; NULL: none */
    struct Turn *turn; /* AMD: the loop around, or NULL */
    int line;
    uint32_t file; /* last #line written */
};

/* --- text --- */
/* An expression (emit_body.h): formatted text, which may hold references. */
const char *str(Emit *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *expression(Emit *, const char *fmt, va_list);
/* The name of a prelude function, noted as used. */
const char *use(Emit *, const char *name);
const char *use_product(Emit *, const char *name); /* the same of a matrix instruction */
const char *tmp(Emit *, const char *stem);
const char *name_of(Emit *, const Value *); /* C name; declares nothing */
const char *ctype(DType);                   /* of a scalar or of one element in a temporary */
int ctype_bytes(DType d);
const char *array_type(DType); /* element type of a register array: f16 and smaller are packed in u32 */
int array_len(DType, int regs);
DType bits_type(DType); /* elements of less than a word travel as their bits: what those are */
int per_word(DType);    /* elements packed in one word of a register array (1 for 32 bits and more) */

/* --- coordinates and registers --- */
const Layout *layout_of(Emit *, const Value *);
/* C expression for table[i] (0 <= i < n), folded by the compiler once loops are unrolled. */
const char *index_formula(Emit *, const int32_t *table, int n, const char *i);
void coords_at(Emit *, const Layout *, const char *reg,
    const char **coord); /* coordinates of a register, an expression, in the tile */
/* Is the expression a name, or a * name + b (in parentheses or not)? */
bool linear_index(const char *, int *scale, const char **name, int *add);
const char *thread_coord(Emit *, const Layout *, int axis);
/* `name`, made afresh once in each step of the loop around. */
const char *in_turn(Emit *, const char *name);
/* Coordinate along `axis` of register `i` of this thread. */
const char *coord(Emit *, const Layout *, int axis, const char *i);
/* What register `i` adds to the thread's part of it. */
const char *register_coord(Emit *, const Layout *, int axis, const char *i);
bool coords_equal(int rank, const int32_t *, const int32_t *);
/* Registers of `to` that hold what registers of `from` need, axes of extent 1 aside. */
const char *map_register(Emit *, const Layout *from, const Layout *to, const char *i);
/* The same of all registers of `from`; NULL where both layouts are equal. */
int32_t *register_map(Emit *, const Layout *from, const Layout *to);
/* Element of v at register i of layout l (v: stored, a broadcast of one, or virtual). */
const char *element(Emit *, const Value *v, const Layout *l, const char *i);
const char *element_at(Emit *, const Value *v, const char *const *coords);
const char *stored_element(Emit *, const char *array, DType, const char *i);
/* Expression of an operation on scalar arguments. */
const char *op_expr(Emit *, const Instr *, const char *const *args);
const char *cast_expr(Emit *, DType from, DType to, const char *x);
const char *round_to(Emit *, DType, const char *x);
const char *const_expr(Emit *, DType, const Instr *);
const char *pack_expr(Emit *, DType, const char *const *elems, int n);
/* Loop over registers: opens `for (i...)` with #pragma unroll; close with end_block. */
void begin_unrolled(Emit *, const char *i, int n);
void end_block(Emit *);
/* Declares a register array for v and makes it v's storage. */
const char *declare_tile(Emit *, const Value *);
const char *registers_of(Emit *, const Value *); /* the array that holds v, which must be held (ir/held.c) */

/* Combination of two scalars by a reduction or scan, in the dtype it accumulates in, and its neutral element.
 * May emit lines (user blocks). */
const char *combine_expr(Emit *, Instr *, DType acc, const char *x, const char *y);
const char *combine_identity(Emit *, const Instr *, DType acc);
/* a op b for integers that wrap. */
const char *wrapped(Emit *, DType, const char *op, const char *a, const char *b);

/* Tiles to and from shared memory element by element, at positions (in elements) made of coordinates. */
typedef const char *PositionFn(Emit *, const char *const *coords, const void *user);
void spill_elements(Emit *, const Value *, const Layout *, const char *base, PositionFn *, const void *user);
void fill_elements(Emit *, const Value *result, const char *base, PositionFn *, const void *user);
const char *row_major(Emit *, const char *const *coords, const void *type);

/* Evaluates any tile into the array `to` of layout l. */
void fill_tile(Emit *, const char *to, const Value *from, const Layout *);
/* A tile to and from the shared tile at `base`, in vectors. */
/* Is the byte offset of register r for a thread T(thread) ^ C(r)? Then C goes to `own` (an array of all
 * registers), and to `seen` the bits that T ever has. */
bool linear_offsets(Emit *, const Layout *, const LayoutShared *, int every, uint32_t **own, uint32_t *seen);
const char *linear_address(Emit *, const char *origin, const uint32_t *own, uint32_t seen, int n, int every,
    const char *reg, bool looped);
void put_shared(
    Emit *, const Value *, const Layout *, const LayoutShared *, const LayoutVector *, const char *base);
const char *array_of(Emit *, const Value *,
    const Layout *); /* the array that holds the value in this layout: its own, or a copy */
void take_shared(Emit *, const char *array, DType, const Layout *, const LayoutShared *, const LayoutVector *,
    const char *base);
bool emit_matrix_read(Emit *, const char *to, DType, const Layout *, const LayoutShared *,
    const char *view); /* by ldmatrix; false: not this layout */

/* --- shared memory --- */
const char *shared_offset(
    Emit *, const LayoutShared *, const char *const *coords); /* declares a u32; its name */
int64_t scratch(Emit *, int64_t bytes);                       /* byte offset of a scratch area of this size */
const char *shared_pointer(
    Emit *, const char *type, int64_t at); /* declares a pointer into scratch; its name */
void barrier(Emit *);                      /* of the running role, for shared memory */
void memory_barrier(Emit *);               /* for tensors too */
bool is_hip(const Emit *);
void emit_start(Emit *); /* from here on memory may be touched; once */
const char *cta_id(Emit *);
const char *cta_count(Emit *);

/* Notes a buffer for the map at the head of the text. */
void note_shared(Emit *, const Instr *alloc, int64_t offset, int64_t bytes);
/* The head of the text: schedule, registers, shared memory (emit_summary.c). */
void emit_summary(Emit *, int64_t scratch_at, int64_t all, Text *);
int registers_at_most(const KernelPlan *, int threads); /* of a thread */

/* --- parts --- */
bool is_run_op(const Instr *);
bool run_used_outside(const Value *, uint32_t mark);
bool emit_paired_run(Emit *, Instr *first, Instr *last,
    uint32_t mark); /* a run in which elements of 16 and 8 bits are computed on by the word (emit_pairs.c);
                       false: none are */
Instr *emit_run(Emit *, Instr *first); /* element-wise run; returns the last instruction of it */
void emit_reduce(Emit *, Instr *);
void emit_combine(Emit *, Instr *); /* across the CTAs of a cluster */
void emit_convert(Emit *, Instr *);
void emit_materialize(Emit *, Instr *);
void emit_opaque_tile(Emit *, const Instr *);
void emit_by_position(Emit *, Instr *); /* reshape, permute, concat, slice through shared memory */
void keep_order(
    Emit *, const Instr *); /* before a memory operation: a barrier where program order asks for one */
void emit_load(Emit *, Instr *);
bool emit_guarded_copies(Emit *, Instr *cond);
bool emit_guarded_loads(Emit *, Instr *cond); /* false: emitted as any other if */
void emit_store(Emit *, Instr *);
bool emit_staged_convert(
    Emit *, Instr *); /* a conversion through a bulk store's buffers; false: not one of those */
bool emit_bulk_store(Emit *, Instr *);    /* by TMA; false: not marked so */
void emit_indexed(Emit *, Instr *);       /* gather, scatter, atomics */
void emit_shared(Emit *, Instr *);        /* shared_*, copy* */
bool emit_turned(Emit *, Instr *permute); /* a product's result transposed; false: not one of those */
void emit_mma_sync(Emit *, Instr *);
void emit_fma(Emit *, Instr *); /* a product without a matrix unit */
const char *product_accumulator(
    Emit *, Instr *); /* where a product adds to: in place if nobody else wants what is there */
bool slope_in_loop(const Value *, const Block *body,
    int64_t *factor); /* of the loop's counter in it; false: it changes in another way */
const Layout *copy_layout(Emit *, const Type *view, const LayoutShared *); /* which thread copies what */
size_t copies_placed(Emit *, const Instr *loop);
void copies_moved(Emit *, size_t before);
const CopyPlace *copy_place(
    const Emit *, const Instr *copy); /* NULL: its address is worked out where it stands */
void emit_fragments(Emit *, Instr *); /* shared_read of one step's fragments */
bool emit_program_coord(
    Emit *, Instr *); /* true: handed from producer to consumers; false: computed in place */
void emit_ticket_loop(Emit *, Instr *loop); /* opens the loop over programs of one role */
void emit_ticket(Emit *, Instr *);
enum { TICKET_BYTES = 16 };          /* of a ticket: whether there is a program, and its coordinates */
void emit_promoted(Emit *, Instr *); /* wgmma_promoted */
void pin_registers(Emit *, const char *array, int words,
    bool is_float); /* written before, and read behind: nothing moves across */
void emit_wgmma(Emit *, Instr *);
void emit_wgmma_wait(Emit *, Instr *);
void emit_hopper(Emit *, Instr *); /* rings, wgmma, turns, votes */
/* Filler warps (emit_fill.c): the stage of a ring's lines, what is kept from turn to turn, the window of a
 * step, and that of the last one behind the loop. */
void emit_fill_stage(Emit *, Instr *fill, const RingInfo *);
void emit_fill_state(Emit *);
void emit_fill(Emit *, Instr *);
void emit_fills_left(Emit *, const Instr *loop);
/* Programs that load together (passes/kernel/cluster/multicast.c): where the ticket of a cluster is handed
 * on, its mbarriers, the start of the CTAs, the producer's loop over tickets, the end. */
void emit_cluster_places(Emit *);
void emit_cluster_barriers(Emit *);
void emit_cluster_meet(Emit *);
void emit_cluster_draw(Emit *, const char *program);
void emit_cluster_leave(Emit *);
void emit_rows(Emit *, Instr *);     /* scans, sort, topk, argmax */
void emit_combined(Emit *, Instr *); /* reductions and scans by a fn */
/* Number of the row (all axes but `axis`) of register i of `keep`, and how many rows there are, padding
 * included. */
const char *row_number(Emit *, const Layout *keep, int axis, const char *i, int64_t *rows);
/* This warp's place among the warps that share a row, as an expression; their number. */
const char *warp_rank(Emit *, const Layout *, int axis, int *count);
/* The tile r from the array `from` of elements of `acc`. */
void pack_registers(Emit *, const Value *r, const char *from, DType acc);
/* The register layout a scan works on: `groups` runs of `per` registers, `lanes` low lane bits. */
typedef struct Runs {
    int per, groups, lanes;
} Runs;
void scan_runs(Emit *, const Instr *, const Layout *, int axis, Runs *);
void emit_for(Emit *, Instr *);
void emit_while(Emit *, Instr *);
void emit_if(Emit *, Instr *);
void emit_block(Emit *, Block *);
const char *slot_name(Emit *, SlotKind, int param, int index, DType);

/* --- memory addressing (emit_window.c) --- */
/* How a window lies: per tensor axis its offset and step, the tile axis it becomes (-1: dropped). */
typedef struct Window {
    int param, rank;
    const Value *offset[TILE_MAX_RANK];
    int64_t step[TILE_MAX_RANK];
    int tile_axis[TILE_MAX_RANK];
    int unit;        /* tensor axis of stride 1, -1: none known */
    int unit_tile;   /* its tile axis, -1 */
    uint32_t picked; /* tensor axes along which a tile says where: their offset is that tile */
    bool masked;
    int64_t cache; /* CACHE_...: the access's hint */
    int64_t align; /* bytes by which the address of every row start is divisible */
} Window;
/* A copy of rows that begin at no multiple of four bytes; false: not one of those. */
bool emit_shifted_copy(Emit *, const Instr *copy, const Window *, const Layout *, const LayoutShared *);
/* What the tile coordinates `own` add to that address, in elements. */
const char *copy_index(Emit *, const CopyPlace *, const Window *, const char *const *own);
void window_of(Emit *, const Instr *, Window *);
const char *window_pointer(Emit *, const Window *); /* declares a pointer to the window's origin; its name */
const char *window_index(
    Emit *, const Window *, const char *const *coords); /* element offset of tile coordinates, as i64 */
/* Condition that tile coordinates are in range ("" when proven); `skip_unit`: without the unit axis. */
const char *window_condition(Emit *, const Window *, const char *const *coords, bool skip_unit);
const char *axis_condition(
    Emit *, const Window *, int axis, const char *place); /* the same of one axis, masked or not */
/* Condition that a vector of n elements along the unit axis is in range, first and last. */
const char *vector_condition(Emit *, const Window *, const char *const *coords, int n);
int window_vector(
    Emit *, const Window *, const Layout *, DType, LayoutVector *); /* elements of the widest access */
bool window_whole_vectors(Emit *, const Window *,
    int n); /* an access of n elements along the unit axis lies wholly in or out of range */
/* Register of the first element of vector `v` (counter: a loop counter's name), and whether the vector's
 * registers follow each other. */
const char *vector_base(Emit *, const Layout *, const LayoutVector *, const char *counter, bool *follow);
const char *vector_reg(Emit *, const LayoutVector *, const char *base,
    int k); /* element k of the vector that starts at register `base` */
/* The hint as a part of a function's name, "_stream" say, or ""; copy: an access that goes past L1 anyway. */
/* The suffix of a prelude function that carries out a window's `cache = ..`: "_stream", "_keep", "_bypass",
 * or "" where the access has no such form. cp.async has none: ptxas before 13.4 gives `cp.async ..
 * L2::cache_hint` a policy register that nothing wrote when the address in shared memory is split in two
 * registers, and the card refuses the instruction (github.com/IST-DASLab/marlin/issues/44). */
typedef enum CachedAccess { ACCESS_VECTOR, ACCESS_TMA, ACCESS_CP_ASYNC } CachedAccess;
const char *window_hint(const Emit *, const Window *, CachedAccess);
const char *window_load_fn(Emit *, const Window *, int bytes);
const char *tile_condition(Emit *, const Layout *,
    const char *const *coords); /* the coordinates lie in the tile, not in its padding; "" when known */
const char *unique_holder(Emit *, const Layout *); /* threads that hold copies: only one of them stores */
const char *both_conditions(Emit *, const char *, const char *);
const char *without_branches(Emit *, const char *condition); /* terms that hide no work behind each other */
const char *window_stride(Emit *, int param, int axis);
const char *window_times(Emit *, const char *x, const char *stride);
const char *window_extent(Emit *, int param, int axis);
const char *pad_value(
    Emit *, const Value *pad, DType); /* what a masked load gives where it does not read; pad: NULL for 0 */
const char *pad_word(Emit *, const Value *pad, DType);
/* Rows at any address by aligned vectors (emit_shift.c). SHIFT_PART: an `else` was opened for the accesses
 * that it does not suit, which go by element. */
typedef enum { SHIFT_NONE, SHIFT_ALL, SHIFT_PART } ShiftDone;
ShiftDone emit_shifted_load(
    Emit *, const Window *, const Layout *, const char *ptr, const char *to, const Value *pad);
ShiftDone emit_shifted_store(
    Emit *, const Window *, const Layout *, DType, const char *ptr, const char *from);
const char *pointee(DType); /* what a tensor of this dtype points to */
