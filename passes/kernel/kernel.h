/* kernel.h: from tile IR to kernel IR. The passes of this folder run after those of the tile IR, in the order
 * that lower.c has. passes/passes.def has a row for each of them, and NAME.c below this folder has the pass,
 * whose head says what it does. docs/kernel-ir.md describes what the result may hold. */
#pragma once
#include "ir/abi.h"
#include "ir/ir.h"
#include "ir/analysis/range.h"
#include "ir/target/target.h"
#include "passes/kernel/layout/layout_table.h"
#include "passes/passes.h"

typedef struct KernelOptions {
    const char *schedule;      /* a schedule written by hand (schedule.h); NULL: the hint, or derived */
    const char *schedule_name; /* the name of its file */
    const char *source_name;   /* the kernel's name in the source; NULL: the name of the function */
    PassSet skip;              /* passes and steps that are left out */
    PassSet with; /* passes that run wherever they can, even if they are off or no gain is expected */
    const PassOptions *passes; /* which passes to dump, time and verify, and where to stop; NULL: nothing */
    PassReport *report;        /* receives which passes ran; may be NULL */
    int64_t reserve;           /* shared memory kept for conversions and reductions; 0: a small default, which
                                  gpu_compile raises when it does not suffice */
    int64_t expected; /* for an estimate: what conversions of tiles alike took (lower.c); 0: unknown */
    int warps;        /* 0: chosen from the tiles and the `warps` hint */
    bool measure;     /* for an estimate: no text is written */
    bool unplayed;    /* with `measure`: the caller plays the roles against their rings, if it has to */
    bool roles_fail;  /* for tests: as where roles that were planned would wait for ever */
    int thrift; /* AMD, when the plan needs more registers than there are. 1: load nothing ahead; 2: also keep
                   left operands of loops in LDS; 3: also try other numbers of waves */
    int most_ctas;    /* CTAs on a multiprocessor that derived launch bounds ask for at most; 0: any */
    int l2_percent;   /* the part of L2 that one group of streams may take; 0: the default */
    bool early_start; /* the kernel may start before its predecessor in the stream has ended, and waits for it
                         before it accesses memory (CUDA, sm_90 and later) */
    bool watches;     /* waits at mbarriers give up after seconds and say so through SLOT_CHECK */
    bool *declined; /* set where cp-async-producer declines what it would do if `with` had it; may be NULL */
} KernelOptions;

/* The options that the flags for passes ask for (options.c). */
KernelOptions kernel_options_of(const PassOptions *);

typedef struct Schedule Schedule;

/* How elements of `bytes` bytes get from one layout to another, inside or outside a warp role. */
typedef struct KernelConversion {
    const Layout *src, *dst;
    int bytes;
    bool in_role;
    const LayoutConvert *way; /* NULL: there is none */
} KernelConversion;

/* How many warps copy with cp.async: with the producer's warp, three make one warpgroup and seven make two,
 * which bring more (bench/notes/products.md, "Rows at odd addresses"). */
enum { CP_ASYNC_WARPS = 3, MOST_CP_ASYNC_WARPS = 7 };

/* Words of a row that a thread holds at most where CTAs have a warp for each SIMD: half of its registers
 * where 16 warps share a multiprocessor, less addresses. */
enum { KERNEL_HELD_WORDS = 56 };

/* Rows that are accessed by words, wherever they begin (row_start.c). */
typedef struct RowStartAccess {
    int bytes;   /* of an element; 0: the rows are accessed in other ways */
    int least;   /* of an element of the narrowest result */
    int unit;    /* bytes of a word; narrower results have as many elements of it */
    int weights; /* vectors of one dimension beside the rows */
    bool leads;  /* rows may begin within a word, and are held from that word on */
} RowStartAccess;

/* Rows that are worked through in parts of one layout (keep_rows.c), all of whose coordinates begin as far
 * before them as the row begins behind a word. */
typedef struct RowParts {
    RowStartAccess start; /* bytes 0: there are none */
    const Layout *layout; /* of a part */
    int64_t row;          /* elements */
    int line;             /* the row is held from a multiple of so many bytes on */
} RowParts;

/* Everything that the emitter and the launch need in addition to the IR. */
typedef struct KernelPlan {
    struct PassRunner *runner; /* while passes run */
    const Target *target;
    KernelOptions options;
    LayoutTable layouts;
    int warps;          /* that hold the tiles of a program: of the CTA, or of the consumers */
    int producer_warps; /* 0: no warp specialization */
    int cp_async_warps; /* cp.async producers, for rings that TMA cannot fill; behind the producer's warp */
    int producer_registers, cp_async_registers, consumer_registers;
    bool registers_full;       /* products hold more registers of a consumer than it can have */
    int min_ctas;              /* launch bounds */
    bool streams;              /* and may ask for more (schedule/occupancy.h) */
    bool keeps_rows, may_keep; /* rows are in shared memory (keep_rows.c); or would be but for --skip-pass */
    bool keeps_begins;  /* rows that begin anywhere are kept from the aligned address before them on, or would
                         * be if there were more threads */
    RowParts row_parts; /* that begin within a word */
    int registers;      /* AMD: of a lane, as planned from the layouts (registers.c); 0: not planned */
    int abreast;        /* programs of one warp that may share a CTA (abreast.c); 0: a CTA has one program */
    bool persistent;
    int resident; /* CTAs of a multiprocessor that share the programs by stride (shared_atomics.c); 0: one */
    bool waits_for_lower; /* programs wait for others, all of lower numbers (program_order.c) */
    int shares;           /* stream-k: in how many parts a program may be divided; 0: not at all */
    int64_t spare_shared; /* bytes of shared memory that remain after the rings and the reserve */
    int64_t beside_rings; /* the same with the reserve: what is there for conversions at most */
    bool expects;         /* options.reserve holds what conversions were expected to take */
    int cluster;          /* CTAs among which one program is divided; 0 and 1: the program is not divided */
    /* A CTA of that cluster stores elements that others may have loaded before a reduction along the row. */
    bool reads_before;
    int split_k;  /* split-K: the number of CTAs that each run a part of the loop; 0: no split-K */
    int clusters; /* clusters (CTAs without clusters) that share a program through the workspace; 0: one */
    int64_t parts_bytes;   /* bytes of shared memory that receive the partial sums of the other CTAs */
    bool parts_over_rings; /* they lie over the stages of rings, which nobody reads any more when they come */
    bool store_over_rings; /* so do the buffers of the store by TMA, in CTAs of one program */
    int multicast;         /* CTAs of a cluster that run neighbouring programs and load together; 0: none */
    int multicast_axis;    /* the grid axis along which these programs are neighbours */
    Schedule *decisions; /* the decisions that were written by hand, and those that were taken (schedule.h) */
    bool pingpong;       /* consumer warpgroups take turns at issuing products */
    bool roles_checked;  /* producer and consumer warps get on with each other (lower.c) */
    const char *schedule;              /* notes on derived decisions, or NULL */
    VEC(KernelConversion) conversions; /* that were planned (swizzle.c) */
} KernelPlan;

/* AMD: the waves of a workgroup run on the SIMDs of one multiprocessor. On RDNA, a multiprocessor here is a
 * pair of compute units that work as one (clang's default); its LDS is twice as large as the LDS of one
 * workgroup can be.
 *
 * kernel_lane_file: the registers for each lane that the waves of a SIMD share. kernel_simd_waves: the number
 * of waves that a SIMD can hold. */
static inline int kernel_lane_file(const Target *t) { return t->sm_registers / (t->simds * t->wave); }
static inline int kernel_simd_waves(const Target *t) { return t->sm_threads / (t->simds * t->wave); }
/* The waves of the busiest SIMD when a workgroup has `waves` waves. */
static inline int kernel_waves_each(const Target *t, int waves) { return (waves + t->simds - 1) / t->simds; }

/* The registers that a lane can have in a workgroup of so many waves. spare_registers are subtracted, because
 * a plan that comes closer to the limit spills. */
static inline int kernel_lane_registers(const Target *t, int waves)
{
    int each = kernel_waves_each(t, waves);
    if (t->kind != TARGET_HIP || each < 1) return t->max_registers;
    int file = kernel_lane_file(t) / each;
    return (file < t->max_registers ? file : t->max_registers) - t->spare_registers;
}

/* AMD: the waves that a SIMD can hold, given the planned registers and the shared memory of a workgroup. */
static inline int kernel_planned_waves(const KernelPlan *p, int64_t shared)
{
    const Target *t = p->target;
    int most = kernel_simd_waves(t), step = t->register_step, need = (p->registers + step - 1) / step * step,
        n = need ? kernel_lane_file(t) / need : most;
    if (shared > 0) {
        int64_t groups = t->sm_shared_bytes / shared, waves = groups * p->warps / t->simds;
        if (groups <= 1) waves = kernel_waves_each(t, p->warps);
        if (waves < n) n = (int)waves;
    }
    return n < 1 ? 1 : n > most ? most : n;
}

/* HIP: the least number of waves that a SIMD must hold, derived from the hint `occupancy`. The number also
 * sets the register budget of a lane. When one wave could have all registers of a SIMD and the plan has room
 * for two waves, the result is two: otherwise clang uses more than half of the registers without a gain. */
static inline int kernel_waves_per_eu(const KernelPlan *p, int64_t shared)
{
    const Target *t = p->target;
    int most = kernel_simd_waves(t), n = kernel_waves_each(t, (p->min_ctas > 0 ? p->min_ctas : 1) * p->warps);
    bool whole_file = kernel_lane_file(t) <= t->max_registers;
    if (whole_file && n < 2 && kernel_planned_waves(p, shared) >= 2) n = 2;
    return n < 1 ? 1 : n > most ? most : n;
}

/* Whether the tile of the load stays in shared memory (keep_rows.c). */
static inline bool kernel_kept(const Instr *load)
{ return load->op == OP_LOAD && ir_attr_int(load, ATTR_KEPT, 0); }

static inline bool kernel_skips(const KernelPlan *p, PassId id) { return pass_in(&p->options.skip, id); }
static inline bool kernel_forces(const KernelPlan *p, PassId id) { return pass_in(&p->options.with, id); }

/* Lowers the kernel in place. Returns false after diagnostics (tile too large, no layout, ...). */
bool kernel_lower(Session *, Func *, const Target *, const KernelOptions *, KernelPlan *);
/* Runs only the passes of the kernel IR that `list` names. The IR must be as their predecessors leave it. */
bool kernel_run_list(
    Session *, Func *, const Target *, const KernelOptions *, const char *list, KernelPlan *);
/* The argument of every pass of the kernel IR. */
typedef struct KernelContext {
    Session *s;
    Func *f;
    KernelPlan *p;
    bool specialized; /* true from the attempt at warp specialization on */
} KernelContext;
/* A pass returns whether it changed something. */
#define KERNEL_PASS(ID, name, function, needs, presence, on, keeps, doc) bool function(KernelContext *);
#include "passes/passes.def"

/* A step of the pass that runs (KERNEL_STEP in passes.def) goes through the runner, which times and verifies
 * it, dumps the IR behind it and may stop there. The step returns whether it changed something.
 * kernel_step: the IR is whole before and behind the step. False: the runner has ended with it, and the pass
 * returns with the IR as it is. kernel_part: the IR is whole again when the pass has ended. */
typedef bool KernelStepFn(void *user);
bool kernel_step(KernelPlan *, PassId, KernelStepFn *, void *user);
void kernel_part(KernelPlan *, PassId, KernelStepFn *, void *user);

/* Whether the box of an access begins at a multiple of 16 bytes along the contiguous axis. TMA requires it
 * even for boxes out of range: otherwise the copy is an illegal instruction. */
bool kernel_tma_begins(const Func *, const Instr *mem, int unit);
static inline int kernel_cta_warps(const KernelPlan *p)
{ return p->warps + p->producer_warps + p->cp_async_warps; }

/* Whether a written schedule gives an order of the programs, which then replaces the kernel's remap or
 * raster. */
bool kernel_order_replaces_remap(KernelPlan *);
/* Computes the coordinates of the program at position `linear`. The order is one that a schedule gives, or
 * one derived from the kernel's loops. False: no order is better than that of the program ids. */
bool kernel_order(Session *, Func *, KernelPlan *, Builder *, Value *linear, int rank, Value **coord);
/* scattered_rows.c: whether programs that differ in the second axis of the grid alone change the same row of
 * a tensor at places that they load; and their coordinates in an order that takes these together, where rows
 * are long. `axes`: of the grid, of which each value follows, by its id. */
bool kernel_scatters_rows(const Func *, const KernelPlan *, const unsigned *axes, int rank);
void kernel_along_rows(
    Func *, const KernelPlan *, const unsigned *axes, Builder *, Value *linear, Value **coord);
/* The operand's axis that becomes `axis` of the result of a reshape or permute; -1: the axis is merged from
 * several axes, or is a part of one. */
int kernel_axis_before(const Instr *, int axis);
int kernel_tensor_axis(const Instr *mem, int axis); /* the tensor axis of an axis of the window's tile */
/* promote.c: the number of positions of K after which the sum of this product must continue in f32, if
 * `instr` computes it; 0: the sum may stay where it is. */
int kernel_promote_after(const KernelPlan *, const Instr *product, const char *instr);
/* The number of columns that a wgmma_promoted computes at a time, when a thread holds `held` registers of
 * accumulators in addition. */
int kernel_promote_columns(const KernelPlan *, int columns, int held);
void kernel_reciprocal(Func *, bool flushed);   /* flushed: exp2 gives 0 in place of a denormal number; */
bool kernel_never_small(Value *, bool flushed); /* the CPU backend runs both too (never_small.c) */
/* What strength-reduction lets a loop carry: the loop's counter, if `of` is it or, with what is in *more, its
 * sum with a number that the loop does not change; or the marked quotient that `of` is; else NULL. Casts that
 * change no number may be between. */
Value *kernel_carried_dividend(Ranges *, const Instr *loop, Value *of, Value **more);
bool kernel_never_below_zero(const Value *); /* no element, as far as its operations show */
/* Whether every use rounds the f32 value to 16 bits, maybe behind operations that keep its relative error
 * (narrow_results.c). */
bool kernel_is_narrow_result(const Value *);
/* Whether both load the same window, one of them with its two axes exchanged; replaces the other one by a
 * permute of the first. */
bool kernel_same_window_exchanged(const Instr *, const Instr *);
void kernel_join_exchanged(Instr *kept, Instr *other);
/* Adds notes that say why gathers that feed a product stay gathers. */
void kernel_positions_note(Session *, Func *);
/* Before the gather, the load of a window that does the same; NULL: none does. */
Instr *kernel_load_of_gather(Session *, const Func *, Instr *gather);
/* The number of parts of a window whose position is given by a tile; 0: there is no such tile. *picked
 * receives the set of tensor axes that have such positions. */
int64_t kernel_parts(const Instr *load, uint32_t *picked);
/* Element `at` of a tile of positions as a scalar. */
Value *kernel_position(Builder *, const Value *, Value *const *at);
/* Whether `test` holds for every scalar from which the position is computed. */
bool kernel_position_of(const Value *, ValueTest *, void *user);
/* Recognizes online softmax (lazy_rescale.c): the carried value k of the loop is a running maximum m, other
 * carried values are sums of terms with the factor exp2(-m c), which are rescaled when m grows; another such
 * loop may go on with all of them. Returns c, or NULL if the loop is none. under[i] tells whether carried
 * value i is such a sum, and *guarded whether the subtrahend of the exponents is never -inf. */
Value *kernel_online(Session *, Instr *loop, int k, bool *under, bool *guarded);

/* A load that goes through a ring, and what kernel_multicast decided for it. */
typedef struct RingLoad {
    Instr *load;
    const LayoutShared *view; /* the tile of the ring */
    bool inner, shared;
    const char *why; /* why the CTAs of a cluster do not share the load */
} RingLoad;
/* Makes clusters of neighbouring programs when the schedule asks for them and their loads allow it: rewrites
 * program coordinates and stores, sets p->multicast, and marks the loads that all CTAs of a cluster share. It
 * must run before the body becomes a loop over programs. */
void kernel_multicast(Session *, Func *, KernelPlan *, RingLoad *, size_t n);
/* How a ring's tile is divided among `ctas`. 0: by panels. 1: along tensor axis *axis, of which each CTA
 * loads a part. -1: the tile cannot be divided. */
int kernel_multicast_parts(const LayoutShared *, const Instr *mem, int unit, int ctas, int *axis);

/* The bytes of one stage of a ring, and the multiple of bytes at which each begins: 128 for vectors, as TMA
 * wants it, and 1024 for tiles, whose swizzle has that period. */
int64_t kernel_ring_bytes(const LayoutShared *);
int64_t kernel_ring_align(const LayoutShared *);
/* A tile that occupies `parts` stages of a ring side by side (epilogue_loads.c): the layout of the part in
 * one stage. */
const LayoutShared *kernel_stage_part(Arena *, int64_t rows, int64_t columns, int parts, int bytes);
/* The layout of such a part in registers, of which `whole` is one beside the next: what threads have of the
 * whole, or else fragments of accumulators. */
const Layout *kernel_stage_registers(Session *, const KernelPlan *, const Instr *read, const Layout *whole);
/* The layout of the whole, of such parts, that moves the fewest elements where it shall become `own`. */
const Layout *kernel_stages_registers(Session *, const KernelPlan *, const Instr *read, const Layout *own);

/* The layout for a scan or a sort along `axis`: each thread holds a run of consecutive elements. The next run
 * is in the next lane, and after the last lane in the next warp. */
const Layout *kernel_row_layout(Arena *, const KernelPlan *, const Type *, int axis);
/* Rows in strips, as accesses of lanes have them: registers have `runs` runs of `per` elements, and a run of
 * each of `lanes` lanes makes a strip. Either a warp has whole rows, and before[r] is the run of the strip
 * before that of run r, or -1. Or all warps share one row of `count` strips (before: NULL), and run r of warp
 * w belongs to strip place[r] + of_warp[w]. False: the layout has no such rows along the axis. */
typedef struct RowStrips {
    int per, runs, lanes, count;
    int32_t *before, *place, *of_warp;
} RowStrips;
bool kernel_row_strips(Arena *, const Layout *, int axis, RowStrips *);
/* The layout of a scan: that which the operand has, if its rows are in strips, for each of which lanes then
 * exchange sums; else that of kernel_row_layout, to which all elements go through shared memory. */
const Layout *kernel_scan_layout(Arena *, KernelPlan *, const Type *, int axis);
/* The elements of a row that one thread sorts in registers at most. */
enum { KERNEL_MOST_SORTED = 64 };
/* Whether topk sorts the row instead of looking for one element after the other. */
bool kernel_sorts_largest(const Instr *topk);
/* A row that is divided by `divisor`, a number or one for each row, which is most / factor or more: `most` is
 * NaN if an element is, and else no element is larger in magnitude. */
typedef struct ScaledRow {
    Value *divisor, *most;
    double factor;
} ScaledRow;
bool kernel_scaled_row(const Value *x, Value *divisor, ScaledRow *);
/* Whether both layouts give each row along `axis` to the same threads and registers, in whatever order, and
 * hold every element once, or are the same. */
bool kernel_same_rows(const Layout *, const Layout *, int axis);

/* Which thread copies which elements of a tile to shared memory, as a layout of the window, which may have
 * more axes than the matrix there: its axes but the last follow each other in the rows. */
typedef struct CopyLayout {
    const Layout *window, *matrix; /* matrix: NULL where the threads' elements are no layout of it */
} CopyLayout;
enum { COPIED_AT_ONCE = 16 }; /* bytes, at most */

CopyLayout kernel_copy_layout(
    Arena *, const Instr *mem, const Type *view, const LayoutShared *, int bytes, int wave, int warps);

/* Loads from memory straight to LDS (dma.c). With instruction v, lane `tid` of the workgroup fetches the
 * bytes at (v * threads + tid) * size of a tile. They come from row row[v] + r, at byte col[v] ^ c of the
 * row, where r and c depend on the lane only. */
typedef struct DmaMap {
    int count;
    int32_t *row, *col;
} DmaMap;
int kernel_dma_bytes(const Target *); /* the bytes that one instruction fetches for a lane */
bool kernel_dma_map(Arena *, const LayoutShared *, int size, int threads, DmaMap *);
/* The row, and the byte in the row, of the element at this offset of a tile of rank 2. */
void kernel_dma_place(const LayoutShared *, uint32_t offset, int32_t *row, int32_t *bytes);

/* The way of a conversion from one layout to the other (swizzle.c), NULL: there is none. */
const LayoutConvert *kernel_conversion(Arena *, KernelPlan *, const Instr *convert);

/* Shared by the passes. */
static inline uint32_t kernel_values(const KernelContext *c) { return c->f->module->next_id; }
/* Whether a value was made since kernel_values returned `before`. */
static inline bool kernel_grew(const KernelContext *c, uint32_t before) { return kernel_values(c) != before; }
/* Whether each warp holds whole rows of all products, so that its lanes can make decisions about a row
 * without other warps (cta_size.c). */
bool kernel_whole_rows(const KernelContext *);
/* Decides whether a CTA runs several programs, and whether the dynamic tile scheduler says which
 * (tile_scheduler.c). */
void kernel_choose_programs(const Func *, KernelPlan *);
/* The block of the consumers; NULL: the kernel has no warp specialization. */
Block *kernel_consumers(const Func *);
/* Whether a product reads what a step writes to shared memory (staged-operands). */
bool kernel_reads_written(const Instr *);
bool kernel_writes_shared(const void *, const Instr *); /* whether it is a `shared_write`; an InstrTest */
/* An operation whose operands are a view or a ring, a tensor, and offsets. */
static inline bool kernel_copies(Op op)
{ return op == OP_COPY || op == OP_RING_PUT || op == OP_RING_CP_ASYNC; }
static inline bool kernel_is_roles(Op op) { return op == OP_ROLES || op == OP_CP_ASYNC_ROLES; }
static inline bool kernel_in_role(const Instr *i)
{
    while (i && !kernel_is_roles(i->op)) i = i->block->parent;
    return i != NULL;
}
/* Whether the value is a function of coordinates and scalars, which is virtual until an operation needs it in
 * registers. */
bool kernel_is_cheap(const Value *);
/* What kernel_is_cheap says of many values, while no operation changes (layout_table.c): `size` has a row for
 * each number of a value, all of them 0 at first. */
typedef struct CheapValues {
    uint16_t *size;
    bool too_deep;
} CheapValues;
bool kernel_is_cheap_in(CheapValues *, const Value *);
bool kernel_is_zero(const Value *);          /* a constant tile or scalar of zeros */
bool kernel_computes_operand(const Value *); /* an operand of a product (pipeline/stage_computed.c) */
/* The tensor axis of stride 1, or the last axis. *tile_axis receives its axis of the tile; -1: the tile does
 * not have it. */
int kernel_unit_axis(const Func *, const Instr *mem, int *tile_axis);
/* The bytes that one access of a lane can have along the unit axis, from the size of an element to 16. */
int kernel_access_bytes(const Func *, const Instr *mem);
/* The same where the offset along the unit axis is a multiple of *divisor (NULL: as it is) and the window may
 * reach beyond the tensor, or may not. */
int kernel_access_bytes_at(const Func *, const Instr *mem, const int64_t *divisor, bool masked);
/* The same of a masked load of all elements of its rows, whatever its steps, from a multiple of `divisor`
 * on. */
int kernel_row_access_bytes(const Func *, const Instr *load, int64_t divisor);
/* dense_windows.c: the bytes that a lane should have side by side of a load of every n-th element, so that
 * the dense load in its place is of whole vectors; 0: there is none. */
int kernel_dense_bytes(const Func *, const KernelPlan *, Instr *load);
/* Makes loads of every n-th element of dense ones, which they share. Layouts are assigned. */
bool kernel_densify_windows(Session *, Func *, KernelPlan *);
/* sliding_windows.c: whether the load can be made of aligned vectors because its window begins a constant
 * number of elements beside a multiple of 16 bytes. */
bool kernel_slides(const Func *, const KernelPlan *, const Instr *load);
/* Makes such loads of aligned ones, which they share. Layouts are assigned. */
bool kernel_slide_windows(Session *, Func *, KernelPlan *);
/* cp_async_producer.c: how cp.async producers copy the window of a load or ring_cp_async to a stage of the
 * ring. They copy each line of the window to a staging area first, as aligned vectors. Axes are those of the
 * tile.
 */
typedef struct CpAsyncWay {
    int rank;
    int axis;  /* contiguous in memory */
    int split; /* the first `split` axes are the rows of the matrix, the others its columns */
    int64_t shape[TILE_MAX_RANK];
    int64_t line, lines; /* the elements of a line along `axis`, and the number of lines */
    int64_t first; /* blocks: the window's element along `axis` at which a line begins. Elements before and
                      after the line are always out of range. */
    const Attr *shifts; /* blocks: the stage holds the window several times, shifted by these numbers of
                           elements, each time with `width` elements along `axis`; NULL: once, unshifted */
    int64_t width;
    int bytes;       /* of an element */
    int vectors;     /* the aligned vectors that cover a line */
    int pitch;       /* the bytes of a line in the staging area */
    int share;       /* the lines (transposed) or units of a warp */
    int staging;     /* the bytes that they take in the staging area */
    bool transposed; /* the stage of the ring is contiguous along another axis, `beside` */
    int beside, run; /* run: the bytes that are written to the ring at a time */
    /* Not transposed: a unit is the part that a warp copies at once: `per` runs of each of `group` lines,
     * `parts` times. Lines n, n + classes, ... begin at the same byte of a vector (uniform). All lines of a
     * unit are of one class, and a class has `of_class` units. */
    int per, group, parts, classes, of_class, units;
    bool uniform;
    /* Straight: the units of a class follow each other at equal distances, in memory along the outermost axis
     * of lines and in the ring (stage_step bytes). Class number k of a warp is warp + producers * k, and its
     * units follow each other in the staging area. */
    bool straight;
    /* Blocks: ldmatrix and stmatrix transpose blocks of 8 lines along `beside`, which are a multiple of 16
     * bytes apart, by 8 elements. The other axes of the lines count the `rows`. */
    bool blocks, begins; /* begins: lines begin at multiples of 16 bytes */
    int rows;
    int outer; /* straight: the outermost axis of lines */
    int inner; /* lines of one step along it */
    int mine;  /* classes of a warp */
    int64_t stage_step;
} CpAsyncWay;
/* The shifts of a window of a cp.async producer; NULL: none. */
static inline const Attr *kernel_shifts(const Instr *mem)
{
    const Attr *a = ir_attr(mem, ATTR_SHIFTS);
    return a && a->n > 1 ? a : NULL;
}
/* Whether elements have 16 bits and eight of their lines along tile axis `beside` can be transposed together.
 */
bool kernel_cp_async_blocks(const Func *, const Instr *mem, int beside);
/* For rows at arbitrary addresses: the number of passes over a stage in which the cp.async producers copy it,
 * each thread 16 bytes in each pass; 0: they cannot. *pieces receives the number of threads that share a row.
 */
enum { MOST_CP_ASYNC_PASSES = 32 };
int kernel_cp_async_passes(const KernelPlan *, int64_t rows, int64_t columns, int bytes, int *pieces);
enum { CP_ASYNC_STAGING = 2 }; /* one window arrives while the previous one is copied to the ring */
/* `view` is the type of a stage of the ring. False: the producers cannot copy the window. */
bool kernel_cp_async_way(const Func *, const KernelPlan *, const Instr *mem, const Type *view, CpAsyncWay *);
/* unaligned_vectors.c: whether rows can go by aligned vectors, if the layout has runs of 16 bytes. */
bool kernel_may_shift(const Func *, const KernelPlan *, const Instr *mem);
/* How rows of the tile go through shared memory: not; as one piece; with gaps between them (row_block.c). */
typedef enum RowBlockWay { ROWS_DIRECTLY, ROWS_AS_PIECE, ROWS_APART } RowBlockWay;
RowBlockWay kernel_row_block(const Func *, const KernelPlan *, const Instr *mem);
RowStartAccess kernel_row_start(const Func *, const KernelPlan *);
/* The same of rows that are worked through in parts, each of which knows where it lies (keep_rows.c):
 * positions and gathers by them do not prevent it. */
RowStartAccess kernel_row_start_of_parts(const Func *, const KernelPlan *);
/* Whether runs of n elements, from multiples of n, are in registers side by side, and runs in lanes so. */
bool kernel_row_runs(const Layout *, int n);
/* The layout of such rows: neighbouring words are in neighbouring lanes, and there is room for what lies
 * before a row in its first word. NULL: there is none. */
const Layout *kernel_row_words(Arena *, const KernelPlan *, int32_t tile, RowStartAccess, int ctas);
bool kernel_is_row_tile(const Type *);
/* The cost of 16 bytes of a lane, in half instructions. `chain` is the number of consecutive vectors of a
 * lane, of `width` bytes. *by_element receives the cost of access element by element. */
int kernel_shift_cost(
    const Func *, const KernelPlan *, const Instr *mem, int chain, int width, int *by_element);
/* Records how each access is done (ATTR_VECTOR, ATTR_SHIFTED), and adds to the plan's notes which rows use
 * shifted vectors. Returns whether any do. The layout pass calls it at its end. */
bool kernel_record_accesses(Session *, const Func *, KernelPlan *);
/* The vectors of a layout that allows such stores: runs of 16 bytes are in consecutive registers, and the run
 * before each run is in the lane before, or in the preceding register of the last lane. Runs of one warp that
 * follow each other in this way form a chain. Stores of bytes may have runs of 8 or 4, where lanes have their
 * elements side by side for the sake of a wider type. */
typedef struct ShiftChain {
    int width, n;    /* bytes and elements of a vector */
    int vectors;     /* of a thread */
    int lanes;       /* that share a row */
    int32_t *before; /* for each vector the one before it; -1: it begins a chain */
} ShiftChain;
/* False: the layout does not have this form. */
bool kernel_shift_chain(Arena *, const Layout *, int axis, int elem_bytes, int width, ShiftChain *);
/* The chain of the widest vectors for a store that would go by `plain` bytes at a time otherwise; as
 * kernel_shift_chain. kernel_plain_bytes says how many these are: a row that ends within a vector goes by
 * element, one of row_start.c by words. */
bool kernel_store_chain(Arena *, const Layout *, int axis, int elem_bytes, int plain, ShiftChain *);
int kernel_plain_bytes(const Func *, const KernelPlan *, const Instr *store);
/* The layout with the registers of a run side by side: the registers that move along the axis come first. */
const Layout *kernel_shift_runs(Arena *, const Layout *, int axis);
const Layout *kernel_shift_layout(Arena *, const KernelPlan *, int rank, const int32_t *tile,
    const int32_t *order, int elem_bytes, int ctas);
LayoutMma kernel_mma_kind(Session *, const char *instr); /* of the name that mma_sync and wgmma have */
int64_t kernel_divisor(const Func *, const Value *);     /* a known divisor of an integer scalar */
