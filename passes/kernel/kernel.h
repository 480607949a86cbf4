/* kernel.h: from tile IR to kernel IR. The passes of this folder run after those of the tile IR, in the order
 * that lower.c has. passes/passes.def has a row for each of them, and NAME.c below this folder has the pass,
 * whose head says what it does. docs/kernel-ir.md describes what the result may hold. */
#pragma once
#include "ir/abi.h"
#include "ir/ir.h"
#include "ir/layout.h"
#include "ir/target.h"
#include "passes/passes.h"

/* Layouts by their text: types carry the interned text, passes and emitter want the structure. */
typedef struct LayoutTable {
    Session *session;
    VEC(struct {
        const char *text;
        const Layout *layout;
        const LayoutShared *shared;
    })
    rows;
} LayoutTable;

const Layout *layouts_get(LayoutTable *, const Type *);          /* of a tile; fails internally without one */
const LayoutShared *layouts_shared(LayoutTable *, const Type *); /* of a shared buffer or view */
const char *layouts_text(LayoutTable *, const Layout *);
const char *layouts_shared_text(LayoutTable *, const LayoutShared *);
const Type *layouts_typed(LayoutTable *, const Type *, const Layout *); /* the tile type with this layout */

typedef struct KernelOptions {
    const char *schedule, *schedule_name; /* a schedule written by hand, and the name of its file
                                             (schedule.h); NULL: the hint, or derived */
    const char *source_name; /* of the kernel, where the function is called otherwise; NULL: the function's */
    PassSet skip;            /* passes and steps that are left out */
    PassSet with; /* those that run wherever they can, though they are off or no gain is expected */
    const PassOptions *passes; /* what to dump, to time, to verify, where to stop; NULL: nothing */
    PassReport *report;        /* what ran; NULL: nobody wants it */
    int64_t
        reserve;  /* shared memory kept for conversions and reductions; 0: little; gpu_compile asks again */
    int warps;    /* 0: chosen from the tiles and the `warps` hint */
    bool measure; /* for an estimate: no text is written */
    int thrift; /* AMD, where the plan asks for more registers than there are: 1 nothing loaded ahead, 2 left
                   operands of loops in LDS too, 3 other numbers of waves too */
    int l2_percent;   /* part of L2 that one group of streams may take; 0: the default */
    bool early_start; /* may start while what is before it in its stream still runs, and waits for that before
                         it touches memory (CUDA, sm_90 and later) */
} KernelOptions;

/* Those of a list of passes as the flags have them (options.c). */
KernelOptions kernel_options_of(const PassOptions *);

typedef struct Schedule Schedule;

/* What the emitter and the launch must know beside the IR. */
typedef struct KernelPlan {
    const Target *target;
    KernelOptions options;
    LayoutTable layouts;
    int warps; /* that hold a program's tiles: of the CTA, or of the consumers when there are roles */
    int producer_warps; /* 0: no roles */
    int filler_warps;   /* between producer and consumers: they fill the rings that TMA cannot; 0: there are
                           none */
    int producer_registers, filler_registers, consumer_registers;
    int min_ctas;  /* launch bounds */
    int registers; /* AMD: of a lane, as planned from the layouts (registers.c); 0: not planned */
    bool persistent;
    int64_t spare_shared; /* bytes of shared memory that rings and reserve leave */
    int cluster;          /* CTAs that one program is spread over; 0 and 1: one */
    int split;            /* of these CTAs each has a part of the loop and a part of the result; 0: not so */
    int64_t parts_bytes;  /* of shared memory, for what the others send */
    int multicast;        /* CTAs of a cluster that run neighbouring programs and load together; 0: none */
    int multicast_axis;   /* the grid axis along which they lie */
    Schedule *decisions;  /* what was written and what was taken (schedule.h) */
    bool turns;           /* consumer warpgroups take turns to issue products */
    const char *schedule; /* notes on what was derived, or NULL */
} KernelPlan;

/* AMD: a workgroup lies on the SIMDs of a multiprocessor, RDNA: of two compute units that work as one
 * (clang's default), whose LDS is twice what one workgroup can have. Registers of a lane that the waves of a
 * SIMD share, and how many waves it has room for. */
static inline int kernel_lane_file(const Target *t) { return t->sm_registers / (t->simds * t->wave); }
static inline int kernel_simd_waves(const Target *t) { return t->sm_threads / (t->simds * t->wave); }
/* Waves that the busiest SIMD has of so many. */
static inline int kernel_waves_each(const Target *t, int waves) { return (waves + t->simds - 1) / t->simds; }

/* What a lane of a workgroup of so many waves can have. A plan that comes closer spills. */
static inline int kernel_lane_registers(const Target *t, int waves)
{
    int each = kernel_waves_each(t, waves);
    if (t->kind != TARGET_HIP || each < 1) return t->max_registers;
    int file = kernel_lane_file(t) / each;
    return (file < t->max_registers ? file : t->max_registers) - t->spare_registers;
}

/* AMD: waves that a SIMD can hold by the registers planned and the shared memory taken. */
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

/* HIP: waves a SIMD must hold at least, from `occupancy` programs of a multiprocessor; also the register
 * budget of a lane. Two where the plan has room for two and one wave could have the whole file: with such a
 * budget clang takes more than half of it for no gain. */
static inline int kernel_waves_per_eu(const KernelPlan *p, int64_t shared)
{
    const Target *t = p->target;
    int most = kernel_simd_waves(t), n = kernel_waves_each(t, (p->min_ctas > 0 ? p->min_ctas : 1) * p->warps);
    bool whole_file = kernel_lane_file(t) <= t->max_registers;
    if (whole_file && n < 2 && kernel_planned_waves(p, shared) >= 2) n = 2;
    return n < 1 ? 1 : n > most ? most : n;
}

static inline bool kernel_skips(const KernelPlan *p, PassId id) { return pass_in(&p->options.skip, id); }
static inline bool kernel_forces(const KernelPlan *p, PassId id) { return pass_in(&p->options.with, id); }

/* Lowers the kernel in place. False after diagnostics (tile too large, no layout, ...). */
bool kernel_lower(Session *, Func *, const Target *, const KernelOptions *, KernelPlan *);
/* Runs the passes of the kernel IR that `list` names, and no others, on IR as their predecessors leave it. */
bool kernel_run_list(
    Session *, Func *, const Target *, const KernelOptions *, const char *list, KernelPlan *);

/* What a pass of the kernel IR works on. */
typedef struct KernelContext {
    Session *s;
    Func *f;
    KernelPlan *p;
    bool specialized; /* for producer and consumer warps: from the attempt on */
} KernelContext;
/* A pass returns whether it changed something. */
#define KERNEL_PASS(ID, name, function, needs, presence, on, keeps, doc) bool function(KernelContext *);
#include "passes/passes.def"

/* Coordinates of TMA are signed 32-bit numbers: is every axis of the tensor known to be below 2^31? */
static inline bool kernel_tma_counts(const Func *f, const Param *p)
{
    bool all = true;
    for (int a = 0; a < p->type->rank && !f->fits32 && !f->extents31; a++) {
        int64_t n = f->dims[p->dims[a]].extent;
        all &= n >= 0 && n <= INT32_MAX;
    }
    return all;
}
/* A box begins at a multiple of 16 bytes along the contiguous axis too, in range or not: anything else is an
 * illegal instruction (H100). */
bool kernel_tma_begins(const Func *, const Instr *mem, int unit);
static inline int kernel_cta_warps(const KernelPlan *p)
{ return p->warps + p->producer_warps + p->filler_warps; }

/* Coordinates of the program at position `linear`, in an order asked for or derived from the kernel's loops;
 * false: none better than the ids' own. */
bool kernel_order_replaces_remap(
    KernelPlan *); /* a schedule's order in place of the kernel's remap or raster */
bool kernel_order(Session *, Func *, KernelPlan *, Builder *, Value *linear, int rank, Value **coord);
int kernel_axis_before(const Instr *, int axis); /* of a reshape or permute: the operand's axis behind an axis
                                                    of the result; -1: merged or divided */
int kernel_tensor_axis(const Instr *mem, int axis); /* along which the window's tile has its axis */
/* promote.c: after how many positions of K this product's sum is to go on in f32, if `instr` computes it; 0:
 * it need not. */
int kernel_promote_after(const KernelPlan *, const Instr *product, const char *instr);
/* Of a wgmma_promoted: columns that it takes at a time, beside `held` registers of accumulators in a thread.
 */
int kernel_promote_columns(const KernelPlan *, int columns, int held);
void kernel_reciprocal(Func *); /* the CPU backend takes it as well */
/* An exponent (x scale - row) c under exp2, row repeated along x's rows; scale NULL: 1 (near.c). */
typedef struct KernelNear {
    Instr *times;
    Value *x, *scale, *c, *row;
} KernelNear;
bool kernel_near_find(Value *exponent, KernelNear *);
Value *kernel_near_is(Builder *, const KernelNear *,
    Value *row); /* where |row| is so small that one fma stands for the exponent */
/* x', k, shift of fma(x', k, shift), which is the exponent of `row`: near as they are, far with the
 * difference first. */
void kernel_near_types(const KernelNear *, const Type *out[3]);
void kernel_near_arm(Builder *, const KernelNear *, Value *row, bool far, Value *out[3]);
void kernel_near_take(
    const KernelNear *, Value *chosen); /* the exponent from these three, which lie side by side */
/* Notes for gathers that feed a product and stay gathers: why they do. */
void kernel_positions_note(Session *, Func *);
int64_t kernel_parts(
    const Instr *load, uint32_t *picked); /* parts of a window that has positions of its own; 0: none. picked:
                                             the tensor axes that have them */
/* Element `at` of a tile of positions as a scalar; whether `test` holds for every scalar that it is made
 * from. */
Value *kernel_position(Builder *, const Value *, Value *const *at);
bool kernel_position_of(const Value *, ValueTest *, void *user);
/* The loop's carried value k is a running maximum m, others sums under exp2(-m c) that are rescaled as it
 * grows (lazy_rescale.c), and behind the loop only their quotients count: which those are, and c. guarded:
 * what the exponents subtract is never -inf. NULL: not so. */
Value *kernel_online(Session *, Instr *loop, int k, bool *under, bool *guarded);

/* A load that goes through a ring, and what kernel_multicast says of it. `view`: the ring's tile; why: it is
 * not shared. */
typedef struct RingLoad {
    Instr *load;
    const LayoutShared *view;
    bool inner, shared;
    const char *why;
} RingLoad;
/* Programs side by side become clusters, where that is asked for and their loads allow it: program
 * coordinates and stores are rewritten, p->multicast is set, the loads that all CTAs of a cluster have in
 * common are marked. Before the body becomes a loop over programs. */
void kernel_multicast(Session *, Func *, KernelPlan *, RingLoad *, size_t n);
/* How a ring's tile is shared out among `ctas`: 0 by panels, 1 along tensor axis *axis, whose extent in the
 * box each CTA has a part of; -1 not at all. */
int kernel_multicast_parts(const LayoutShared *, const Instr *mem, int unit, int ctas, int *axis);

/* A tile in `parts` slots of a ring, side by side (epilogue_loads.c): one of them; and a part of so many
 * columns in registers, as accumulators lie. */
const LayoutShared *kernel_slot_part(Arena *, int64_t rows, int64_t columns, int parts, int bytes);
const Layout *kernel_slot_fragments(Session *, const KernelPlan *, const Instr *read, int columns);

/* The layout in which a scan along `axis` works: a thread holds a run of consecutive elements, the low lanes
 * and then the warps the runs after it. */
const Layout *kernel_row_layout(Arena *, const KernelPlan *, const Type *, int axis);

/* Who copies which elements of a tile to shared memory. */
const Layout *kernel_copy_layout(Arena *, const Type *view, const LayoutShared *, int wave, int warps);

/* Memory straight to LDS (dma.c): what lane `tid` of the workgroup fetches with instruction v for the bytes
 * at (v * threads + tid) * size of a tile: row[v] + a row of the thread's own, and bytes (col[v] ^ its own)
 * along the row. */
typedef struct DmaMap {
    int count;
    int32_t *row, *col;
} DmaMap;
int kernel_dma_bytes(const Target *); /* a lane's share of one instruction */
bool kernel_dma_map(Arena *, const LayoutShared *, int size, int threads, DmaMap *);
/* Row and byte along it of the tile's element at this offset, of a rank of 2. */
void kernel_dma_place(const LayoutShared *, uint32_t offset, int32_t *row, int32_t *bytes);

/* wgmma.c: a type as functions of the prelude and PTX call it (f32 is taken as tf32), and the fragments of
 * its products. NULL: wgmma does not take it. */
typedef struct WgmmaType {
    DType dtype;
    const char *name, *ptx, *instr;
} WgmmaType;
const WgmmaType *kernel_wgmma_type(DType);
const WgmmaType *kernel_wgmma_named(const char *name, size_t len);
bool kernel_wgmma_columns(DType, int64_t n); /* of operands of this type */
bool kernel_wgmma_has(DType a, DType b, int64_t columns);

/* The way of elements of so many bytes from one layout to another (swizzle.c), NULL: there is none.
 * lanes_first: without shared memory where lanes of a warp can exchange them. */
const LayoutConvert *kernel_conversion(
    Arena *, const KernelPlan *, const Layout *src, const Layout *dst, int bytes, bool lanes_first);

/* Shared by the passes. */
static inline uint32_t kernel_values(const KernelContext *c) { return c->f->module->next_id; }
/* Was a value made since kernel_values was `before`? */
static inline bool kernel_grew(const KernelContext *c, uint32_t before) { return kernel_values(c) != before; }
/* Does each warp hold whole rows of all products, so that its lanes can decide among themselves what a row
 * decides? (cta_size.c) */
bool kernel_whole_rows(const KernelContext *);
/* Whether a CTA runs several programs, and by tickets (tile_scheduler.c). */
void kernel_choose_programs(KernelPlan *);
/* The consumers' block of a kernel with warp specialization; NULL: it has none. */
Block *kernel_consumers(const Func *);
static inline bool kernel_copies(Op op)
{ return op == OP_COPY || op == OP_RING_PUT || op == OP_RING_FILL; } /* (view or ring, tensor, offsets...) */
static inline bool kernel_is_roles(Op op) { return op == OP_ROLES || op == OP_FILLED_ROLES; }
/* The loop over the programs of a persistent CTA: by tickets, or by stride from the CTA's own number. Its
 * turns are no steps of a program, and those by tickets are not known ahead: nothing may be taken from one
 * turn to another. */
bool kernel_over_programs(const Instr *loop);
bool kernel_is_cheap(
    const Value *); /* a function of coordinates and scalars: virtual until someone needs registers */
bool kernel_is_zero(const Value *); /* a constant tile or scalar of zeros */
int kernel_unit_axis(const Func *, const Instr *mem,
    int *tile_axis); /* tensor axis of stride 1 (or the last); its axis in the tile, -1 when dropped */
int kernel_access_bytes(const Func *,
    const Instr *mem); /* bytes one access of a lane can have along the unit axis: the element's .. 16 */
/* cp_async_producer.c: how filler warps take the window of a load or ring_fill to a slot. Axes are those of
 * the tile. */
typedef struct FillWay {
    int rank, axis, split; /* axis: contiguous in memory; the first `split` axes are the matrix's rows, the
                              others its columns */
    int64_t shape[TILE_MAX_RANK];
    int64_t line, lines; /* elements of a line along `axis`, and how many there are */
    int64_t first; /* of the window's elements along `axis`, where a line begins: those before it, and behind
                      the line, are never there (blocks) */
    const Attr *shifts; /* the slot holds the window so many times (blocks), of `width` elements along `axis`;
                           NULL: once */
    int64_t width;
    int bytes, vectors,
        pitch;        /* of an element; aligned vectors around a line; bytes of a line in the stage */
    int share, stage; /* lines of a warp (turned), or units; and the bytes that they take */
    bool turned;      /* the slot runs along another axis, `beside` */
    int beside, run;  /* bytes that are written to the slot at a time */
    /* not turned: a unit is what a warp takes at once: `group` lines, of each `per` runs, `parts` times.
     * Lines n, n + classes, .. begin at the same byte of a vector (uniform): a unit is of one class, of which
     * there are `of_class` */
    int per, group, parts, classes, of_class, units;
    bool uniform;
    /* straight: the units of a class follow each other at equal distances, in memory along the outermost axis
     * of lines and in the slot (slot_step bytes), and classes are shared out among the warps: the k-th of a
     * warp is warp + fillers * k, and its units lie one after the other in the stage */
    bool straight;
    /* blocks: turned over by ldmatrix and stmatrix, 8 of the lines along `beside` (a multiple of 16 bytes
     * apart) by 8 elements at a time; a row is what the other axes of lines count */
    bool blocks, begins; /* begins: lines begin at multiples of 16 bytes */
    int rows;
    int outer, inner, mine; /* that axis; lines of one step of it; classes of a warp */
    int64_t slot_step;
} FillWay;
/* Shifts of a filled window, NULL: none. */
static inline const Attr *kernel_shifts(const Instr *mem)
{
    const Attr *a = ir_attr(mem, ATTR_SHIFTS);
    return a && a->n > 1 ? a : NULL;
}
/* 16 bits, of whose lines along tile axis `beside` eight may be turned over together. */
bool kernel_fill_blocks(const Func *, const Instr *mem, int beside);
/* Rows that lie anywhere: passes that filler warps make over a slot, each thread 16 bytes in each; *pieces:
 * threads that share a row. 0: not so. */
enum { MOST_FILL_PASSES = 32 };
int kernel_fill_passes(const KernelPlan *, int64_t rows, int64_t columns, int bytes, int *pieces);
enum { FILL_STAGES = 2 }; /* one is on its way while the one before it goes to its slot */
/* `view`: the slot's; false: there is no way. */
bool kernel_fill_way(const Func *, const KernelPlan *, const Instr *mem, const Type *view, FillWay *);
/* unaligned_vectors.c: rows that begin at no multiple of 16 bytes. */
bool kernel_may_shift(const Func *, const KernelPlan *,
    const Instr *
        mem); /* can the emitter read or write it by aligned vectors, given a layout with runs of 16 bytes? */
int kernel_shift_cost(const Func *, const Instr *mem, int chain,
    int *by_element); /* halves of an instruction for 16 bytes a lane; chain: vectors of a lane that follow
                         each other */
void kernel_shift_note(
    Session *, const Func *, KernelPlan *); /* says so in the plan's notes; behind layout */
/* Does the layout have what such a store needs: runs of 16 bytes in consecutive registers, the run before
 * each in the lane before, or in the last lane's register before? Runs that follow each other so in one warp
 * are a chain: sets for each vector the one before it (-1: it begins a chain) and the lanes of a row. */
typedef struct ShiftChain {
    int n, vectors, lanes;
    int32_t *before;
} ShiftChain; /* n: elements of a vector */
bool kernel_shift_chain(Arena *, const Layout *, int axis, int elem_bytes, ShiftChain *);
/* The same with the registers of a run side by side: those that move along the axis come first. */
const Layout *kernel_shift_runs(Arena *, const Layout *, int axis);
const Layout *kernel_shift_layout(Arena *, const KernelPlan *, int rank, const int32_t *tile,
    const int32_t *order, int elem_bytes, int ctas);
LayoutMma kernel_mma_kind(Session *, const char *instr); /* of the name that mma_sync and wgmma carry */
int64_t kernel_divisor(const Func *, const Value *);     /* a known divisor of an integer scalar */
