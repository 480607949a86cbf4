/* warp_specialization.h: what the files of warp-specialization share: warp_specialization.c, what TMA and
 * wgmma take (operands.c), the stages (rings.c), the producer (producer.c). */
#pragma once
#include "passes/kernel/cluster/split_k.h"
#include "passes/kernel/schedule/schedule.h"
#include "passes/kernel/warp_specialization/im2col.h"

/* loads: the loads that share the ring, each of which may hold a stage at a time; asked: the number of stages
 * in the schedule, or NULL; of: the load of a ring that serves one load. */
typedef struct Ring {
    int param;
    const Type *view;
    int depth, loads, latency; /* latency: the largest of its loads; 0: none has one */
    bool inner, shared, by_cp_async, own;
    bool held; /* several products of a step read a stage */
    Value *value;
    const Decision *asked;
    const Instr *of;
} Ring;

/* A load that replaces several loads with overlapping windows (merge_loads.c): its former extents along its
 * outermost axis of rows and along the contiguous one (-1: unchanged), and the matrices that its parts
 * replace. */
typedef struct MergedAxis {
    int axis;
    Value *index;
    int64_t extent;
} MergedAxis;
typedef struct MergedLoads {
    Instr *load;
    MergedAxis rows, columns;
    const Type *matrix;
    ValueList was, parts;
} MergedLoads;

/* A load that takes stages of an operand's ring after the operand's last load: the ring and the number of
 * stages; instr: that of the product. */
typedef struct EpilogueLoad {
    Instr *load;
    size_t ring;
    int parts;
    const char *instr;
} EpilogueLoad;

/* What a load becomes in the program's code. */
typedef enum TakenBy { BY_PRODUCER, BY_CP_ASYNC, BY_PRODUCER_IN_FREE_STAGES } TakenBy;
typedef struct TakenLoad {
    TakenBy by;
    size_t at; /* the index in Roles.rings, or, for BY_PRODUCER_IN_FREE_STAGES, in Roles.epilogue */
} TakenLoad;

/* stream-k (stream_k.c): the operation behind the sum (NULL: no program is divided), and numbers that all of
 * a CTA's programs have in common: the programs that are done as a whole, those that are left, the shares
 * that these become, whether a part of a program is a whole share, the CTAs, and this CTA's share in units of
 * 1 / `of` programs, the program that it begins in and that one's end, and the bound of the loop over what
 * the CTA does. */
typedef struct Shares {
    Division division;
    Instr *combine;
    Value *whole, *left, *shares, *aligned, *ctas, *of, *begin, *end, *first, *border, *bound;
} Shares;

/* With fewer rows than a fragment of mma.sync has, either instruction multiplies padding and waits for
 * memory: a loaded element is used in at most 15 products. */
enum { FEW_ROWS = 15, WGMMA_COLUMNS = 256 /* the most of an instruction */ };

typedef struct Roles {
    Session *s;
    Func *f;
    KernelPlan *p;
    InstrList products, loads;
    VEC(Ring) rings;
    VEC(EpilogueLoad) epilogue;
    VEC(TakenLoad) taken; /* by roles_take */
    VEC(MergedLoads) merged;
    int consumers;             /* warpgroups, once they are chosen */
    bool by_columns;           /* warpgroups share all products by their columns */
    int64_t rows, store_bytes; /* the latter: roles_store_bytes, once the rings are known */
    const char *why;
    Loc why_loc;
    Ranges *ranges;        /* made at the first question (im2col.c) */
    unsigned char *scalar; /* by value, n_scalar of them: scalar_only */
    size_t n_scalar;
    Shares shares;
    Block *cp_async; /* block of the cp.async producers; NULL: not made yet */
} Roles;

/* Notes why not; false. */
bool roles_refuse(Roles *, Loc, const char *why, ...) __attribute__((format(printf, 3, 4)));
/* The matrix that a load stands for: its result, or the reshape of it. */
Value *roles_matrix_of(const Instr *load);
int roles_unit_axis(Roles *, const Instr *load); /* the axis of that matrix that is contiguous in memory */
bool roles_k_major(Roles *, const Value *operand, int k_axis); /* whether it is contiguous along k_axis */
/* The wgmma instruction; NULL: wgmma does not support this type. */
const char *roles_instr(DType, bool tf32);
bool roles_tma_window(Roles *, const Instr *mem);
/* Whether TMA's im2col mode can load the window. */
bool roles_im2col(Roles *, const Instr *load, Im2col *);
/* Writes the positions of the first row, by axis, and then what the tap adds to them, into ops; the attribute
 * of the ring_put. */
Attr roles_im2col_operands(Roles *, Builder *, const Im2col *, Value **ops);
/* Whether cp.async producers could load it (cp_async_producer.c). */
bool roles_cp_async_window(Roles *, const Instr *load);
/* Whether they do, because TMA cannot or because a schedule asks for it. */
bool roles_by_cp_async(Roles *, const Instr *load);
/* The number of cp.async producer warps, where some are needed: the most for which the consumers have enough
 * registers. A schedule may give it. */
int roles_cp_async_warps(KernelPlan *, const InstrList *products);
void roles_ask_cp_async(KernelPlan *, const InstrList *products); /* sets their number and registers */
/* Whether setmaxnreg can give a thread so many registers. */
bool roles_handed_over(int registers);
/* The number of consumer warpgroups that share so many rows. four: whether four may share four blocks of 64;
 * a thread of two warpgroups with two row blocks each has more registers. */
int roles_warpgroups_of(int64_t rows, bool four);
int roles_cp_async_rings(const Roles *); /* how many rings cp.async producers fill */
bool roles_cp_async_gains(Roles *);
bool roles_product_fits(Roles *, Instr *product); /* also adds the loads of its operands to Roles.loads */
void roles_find_loads(Roles *);                   /* those of all products */
/* Whether neither the offsets nor the operations around the load depend on computed tiles. */
bool roles_control_fits(Roles *, const Instr *load);

/* Whether the load is of rank 1 and feeds no product: a row's statistic, a factor of each column, a bias. */
bool roles_is_vector(const Instr *load);
bool roles_from_stage(Roles *, const Instr *load); /* whether products read the stage of the ring directly */
/* The last product of the load's block that reads the matrix, or a part of it. */
Instr *roles_last_product(const Instr *load);
Ring *roles_ring(Roles *, const Instr *load); /* made at the first call */
/* Plans the stages of each ring, and those of loads that feed no product. */
bool roles_plan_rings(Roles *);
/* partial_sums.c: whether the partial sums of the other CTAs of a cluster may lie over the rings: there is
 * one sum, behind all that goes through rings, and TMA alone fills these. */
bool roles_parts_may_lie_over(const Roles *);
/* store_buffers.c: bytes that are reserved for stores by TMA; those of a whole tile that is added to memory,
 * with which each box of it has a buffer (0: none whose boxes warpgroups can share by columns); whether the
 * buffers of the only store may lie over the rings: a CTA has one program, whose last step is behind it then.
 */
int64_t roles_store_bytes(Roles *);
int64_t roles_added_bytes(Roles *);
bool roles_adds_a_tile(const Roles *); /* whether a store adds one to memory */
bool roles_store_may_lie_over(Roles *);

/* The step transposed-views (transposed_views.c): loads of one window in both orders become one load and a
 * `permute`. It gets the Roles. On the consumers' side, roles_take_transposed replaces permutes of the matrix
 * by views. roles_transposed_view: a view with its axes exchanged. */
bool roles_transpose_views(void *roles);
void roles_take_transposed(Roles *, Value *matrix, Value *view);
Value *roles_transposed_view(Roles *, Builder *, Value *view);

/* The step staged-operands (staged_operands.c): transposed tiles of registers that are left operands go
 * through shared memory. It gets the Roles. roles_staged: whether the product has such an operand;
 * roles_staged_bytes: of all their buffers. */
bool roles_stage_operands(void *roles);
bool roles_order_adds(void *roles); /* ordered_adds.c */
bool roles_staged(Roles *, const Instr *product);
/* operands.c: the load that gives an operand, directly, in slices, transposed, or reshaped to a matrix */
Instr *roles_load_behind(Roles *, const Value *);
/* Whether consumers write the product's right operand, which they compute, to shared memory. */
bool roles_staged_right(Roles *, Instr *product);
/* The computed right operand of a product: the tile that is written, its layout, and whether the product
 * reads it transposed. */
typedef struct RightOperand {
    Instr *product;
    Value *x;
    const LayoutShared *layout;
    bool transposed;
} RightOperand;
bool roles_right_operand(Roles *, Instr *product, RightOperand *);
/* Buffers of two stages for such tiles, and the stage of the loop's step that a counter says. */
Value *roles_stage_buffer(Roles *, const Type *, const LayoutShared *);
Value *roles_stage_of(Builder *, const Instr *loop, Value *counter, Value *buffer);
/* Writes the right operands of the body's products while others of its products run (stage_ahead.c). False:
 * nothing changed. roles_wait_behind_writes: once products are issued, moves the waits for those that run
 * meanwhile in front of the first half of the barrier. */
bool roles_stage_ahead(Roles *, Block *body);
void roles_wait_behind_writes(Roles *, Instr *arrives);
int64_t roles_staged_bytes(Roles *);

/* Whether so many consumer warpgroups can share the product: each has whole rows of it, or, of the 64 rows of
 * a product beside products of more rows, some of the columns. */
bool roles_rows_fit(Roles *, const Instr *product, int consumers);
/* Whether two warpgroups share all products by their columns, because one has too few registers for the sums,
 * or has no instruction of so many; sets Roles.by_columns. */
bool roles_share_columns(Roles *);
/* The bytes of a panel of the load's stage, of which each warpgroup multiplies whole ones; 0: any. */
int roles_panel_bytes(Roles *, const Instr *load);
/* The step wide-columns (wide_columns.c): products whose columns they cannot share get more. It gets the
 * Roles. */
bool roles_widen_columns(void *roles);

/* Merges loads of one step whose windows overlap into one load, whose parts are slices of its matrix
 * (merge_loads.c). roles_join_windows returns whether there are any, roles_part_windows undoes it,
 * roles_keep_windows makes it final before roles are made, and roles_take_parts replaces the parts by slices
 * of a view on the consumers' side. */
/* columns: also merge windows that overlap along the contiguous axis. */
bool roles_join_windows(Roles *, bool columns);
void roles_part_windows(Roles *);
void roles_keep_windows(Roles *);
void roles_take_parts(Roles *, Value *matrix, Value *view);
/* The product that uses an operand's matrix, or the first part of it; NULL: none. */
const Use *roles_product_of(const Value *matrix);

/* The steps persistent and tile-scheduler: the first makes the body the body of a loop over programs, the
 * second makes that loop take its programs from the tile scheduler (persistent.c). */
void roles_over_programs(Roles *);

/* The step stream-k: puts a share_combine behind the sum that it may divide. It gets the Roles.
 * roles_begin_shares computes what this CTA does, and roles_share, in the loop, the program of an item of
 * that; without shares an item is a program. */
bool roles_stream_k(void *roles);
void roles_begin_shares(Roles *, Builder *, Value *cta, Value *programs, Value *ctas);
Value *roles_share(Roles *, Builder *, Value *item);

/* The step epilogue-loads: finds loads after the loop that take stages of its rings (epilogue_loads.c). It
 * gets the Roles. Then the consumers' side of one. */
bool roles_epilogue_loads(void *roles);
void roles_read_epilogue_load(Roles *, Instr *load, const EpilogueLoad *);

/* Records which role does which load, so that it is also known for the copies of the loads in the blocks of
 * all roles: the mark of an instruction is its row in Roles.taken plus 1. */
void roles_take(Roles *, Instr *load, TakenBy, size_t at);
/* NULL: the load stays where it is. */
const TakenLoad *roles_taken(const Roles *, const Instr *);
/* The ring of a load that the producer or the cp.async producers do. */
Ring *roles_taken_ring(Roles *, const Instr *load);

/* Makes the block, a copy of the consumers', that of the producer: loads that it does become puts, and
 * everything else that they do not need is erased. With OP_RING_CP_ASYNC, that of the cp.async producers. */
void roles_make_producer(Roles *, Block *, Op put);

/* kernel_forces for cp-async-producer, where the answer alone decides: no is noted in options.declined. */
static inline bool roles_force_cp_async(const KernelPlan *p)
{
    const bool forces = kernel_forces(p, PASS_CP_ASYNC_PRODUCER);
    if (!forces && p->options.declined) *p->options.declined = true;
    return forces;
}
