/* cpu.h: what the files of the CPU backend share: the plan of a kernel (Plan, Step, Sink, Buf), the function
 * that is being generated (Gen), and one section of declarations for each file. README.md lists the files,
 * docs/cpu.md says how the backend works. */
#pragma once
#include "backends/cpu/llvm/llvm.h"
#include "backends/cpu/processor.h"
#include "ir/interp/scalar.h"

/* --- plan -------------------------------------------------------------------------------------------- */

typedef struct Step Step;
typedef struct Steps Steps; /* the steps of one block */
typedef struct Buf Buf;
typedef struct Sink Sink;
typedef struct DebugName DebugName; /* a named value that becomes available at a step */

/* The arrangement of the elements of a buffer: dense row-major for tiles; matrix operands have their own
 * forms. */
typedef enum BufForm {
    FORM_DENSE,
    FORM_ROWS,    /* mma A: row-major [rows][ld] */
    FORM_COLUMNS, /* mma A of 32 or 64 bits whose elements lie side by side along M: [k][ld] */
    FORM_PANELS,  /* mma B: [panel][k][nr], panels of nr columns */
    FORM_GROUPS,  /* mma B of 8 or 16 bits: [panel][k/group][nr][group], groups of 4 bytes (mma_group) */
} BufForm;

/* What an mma computes in. */
typedef enum MmaKind {
    MMA_F32,
    MMA_F64,
    MMA_BF16_PAIRS,
    MMA_I16_PAIRS,
    MMA_I8_QUADS,
    MMA_AMX_BF16,
    MMA_AMX_F16,
    MMA_AMX_I8,
    MMA_I8_PAIRS, /* x86's sums of two products of 8-bit integers, if they fit 16 bits (thin_pairs.c) */
    MMA_I8_THIN   /* x86's dot products of four 8-bit integers, of which thin.c makes one operand unsigned */
} MmaKind;

/* How a product of few rows or columns is computed (thin.c). */
typedef enum Thinness {
    THIN_NONE,
    THIN_STRIPS,   /* rows of B, in vectors along N */
    THIN_DOTS,     /* columns of B, in vectors along K */
    THIN_DOTS_OF_A /* rows of A, in vectors along K; B has few columns */
} Thinness;

struct Buf {
    DType dtype; /* of an element as stored */
    BufForm form;
    int rank;
    int64_t shape[TILE_MAX_RANK]; /* FORM_DENSE: the shape of the tile; other forms: rows and columns */
    /* FORM_ROWS, FORM_COLUMNS: the elements from row to row, from column to column; panels: the columns of a
     * panel */
    int64_t ld, nr;
    int64_t depth;   /* panels: the groups of rows of a panel, with padding */
    bool in_tiles;   /* a matrix operand for AMX: padded to whole tiles with zeros along K */
    bool offset_128; /* FORM_ROWS of 8 bits: the highest bit of each element is inverted (mma_changes_sign) */
    int64_t bytes;
    Steps *home;     /* the block in which it is defined */
    int first, last; /* the positions of its definition and of its last use, in `home` */
    /* for coalesced buffers: the representative, and its list of members */
    Buf *same, *members, *next_member;
    int life_first, life_last;  /* of the class */
    int64_t offset;             /* in scratch; of the class */
    int64_t places;             /* keep.c: the tiles of a loop's steps that stay here; 0: none do */
    LLVMValueRef place, wanted; /* of the step that is emitted: its address, and i1: it is packed now */
    bool in_memory;             /* in_place.c: AMX takes a window that is in range from memory instead, */
    LLVMValueRef in_range;      /* .. and i1: it is so in the step that is emitted; NULL: it never is */
    Buf *next;
    uint32_t id;
};

typedef enum TileMode { TILE_NONE, TILE_SCALAR, TILE_VIRTUAL, TILE_BUFFER } TileMode;

/* The facts that are known about a value. */
typedef struct ValInfo {
    TileMode mode;
    Buf *buf;
    Step *avail;       /* the step of its own block after which it can be read; NULL: always */
    Step *at;          /* for buffers: the nest that fills it */
    bool wanted;       /* must have a buffer */
    bool thin;         /* the result of a thin product */
    unsigned unseen;   /* bits of the axes of a product whose positions beyond its window nothing reads */
    uint32_t walk[4];  /* plan_leaves: the last traversal that came here, by `same`; share: also by `few` */
    LLVMValueRef llvm; /* scalars */
} ValInfo;

/* The use of the elements of a nest: the name here and in the printed plan. */
#define SINK_KINDS(X) \
    X(BUFFER, "buffer") /* value -> buf (dense) */ \
    X(PACK, "pack")     /* value -> buf (a matrix operand) */ \
    X(REDUCE, "reduce") /* reduce_*, arg*, reduce: instr */ \
    X(COUNT, "count")   /* a sum that counts keys: value; aux: the numbers */ \
    X(STORE, "store") \
    X(SCATTER, "scatter") \
    X(ATOMIC, "atomic") \
    X(ASSERT, "assert") \
    X(PRINT, "print")

#define SINK_NAME(name, text) SINK_##name,
typedef enum SinkKind { SINK_KINDS(SINK_NAME) } SinkKind;

struct Sink {
    SinkKind kind;
    Instr *instr;
    Value *value;                /* what is evaluated */
    Buf *buf, *aux;              /* where it is stored; aux: partial results (wider sums, positions) */
    int64_t base[TILE_MAX_RANK]; /* SINK_BUFFER: the position of the value in the buffer (concat) */
    Sink *next;
};

#define STEP_KINDS(X) \
    X(SCALAR, "scalar")       /* instr computes scalars */ \
    X(WINDOW, "window")       /* addresses of a load's window */ \
    X(NEST, "nest")           /* loops over `shape` with sinks */ \
    X(TRANSPOSE, "transpose") /* value's operand -> buf, with the last axis transposed (permute, transposed \
                                 operand) */ \
    X(MMA, "mma") \
    X(SCAN, "scan") \
    X(COMBINED, "combined") /* reduce and scan by a fn */ \
    X(SORT, "sort") \
    X(FOR, "for") \
    X(WHILE, "while") \
    X(IF, "if") \
    X(YIELD, "yield")

#define STEP_NAME(name, text) STEP_##name,
typedef enum StepKind { STEP_KINDS(STEP_NAME) } StepKind;

/* An operand that stays packed while consecutive programs have the same keys (keep.c). */
enum { MAX_KEYS = 8 };
typedef struct Keep {
    Step *loop;
    Buf *buf;
    Value *keys[MAX_KEYS]; /* scalars from before the loop that the tiles depend on */
    int n_keys;
    int64_t number; /* the first of its numbers that stay */
    bool dear;      /* elements are loaded one by one, or rows where each takes long to begin */
    /* i1: the last program had the same keys; its tiles are in their places; the step has to pack its own */
    LLVMValueRef same, packed, wanted;
} Keep;

struct Step {
    StepKind kind;
    Instr *instr;
    /* The position in its block, and in the function (control flow: the end of its blocks). */
    int index, pos, end;
    Steps *in;
    Step *next;
    bool memory; /* takes part in a token chain */
    /* STEP_NEST */
    int rank;
    int64_t shape[TILE_MAX_RANK]; /* extents other than 1 */
    Sink *sinks, **sinks_end;
    bool scalar_lanes; /* one element at a time */
    int line_ends;     /* not 0: stores rows whose ends may stay aside (line_ends.c), with this number */
    bool row_aside;    /* .. and computes them in scratch memory */
    /* STEP_TRANSPOSE */
    Value *value; /* evaluated */
    int order[TILE_MAX_RANK];
    Buf *buf, *aux;
    /* STEP_MMA */
    MmaKind mma;
    Buf *a, *b;
    bool zero_acc;
    Buf *acc;
    int nv, mr;
    Thinness thin;      /* not THIN_NONE: an operand is not packed (NULL) but multiplied as it is computed */
    Step *with;         /* an earlier product, from whose sums this one goes on: both are computed here */
    bool joined;        /* .. which that one is */
    LLVMValueRef lanes; /* where the sums stay in lanes in the loop that is emitted; NULL: they do not */
    /* control */
    Steps *blocks[2];
    /* The buffers of carried tiles, by number; while: those that the condition passes on; if: the results. */
    Buf **carried, **carried2;
    DebugName *names; /* with debug information */
    Keep *keep;       /* of a step that packs; NULL: it packs always */
};

struct Steps {
    Block *block;
    Step *first, **end, *last;
    Step *parent;
    int n;
    Step *last_memory;
};

typedef struct Plan {
    Session *session;
    Arena *arena;
    Func *func;
    const CpuTarget *target;
    ValInfo *info;
    uint32_t n_info, n_walks;
    Steps *body;
    Buf *bufs, **bufs_end;
    uint32_t n_bufs;
    VEC(struct {
        Value *value;
        BufForm form;
        DType dtype;
        Buf *buf;
    })
    packs;
    int64_t scratch_bytes;
    int64_t n_kept,
        kept_at;          /* numbers that stay from call to call of a launch, and where they are in scratch */
    int64_t line_ends_at; /* where the ends of rows stay in scratch (line_ends.c) */
    int line_ends;        /* the steps with such */
    bool neighbours;      /* one of them copies tiles, whose neighbours have the other parts of lines */
    int64_t row_aside;    /* bytes of the longest row that is computed aside */
    bool amx;             /* a product uses AMX */
    bool narrow_products; /* there are products of 8 or 16 bits */
    bool checked;
    bool named; /* every tile with a name gets a buffer, where a debugger finds it */
} Plan;

Plan *cpu_plan(Session *, Func *, const CpuTarget *, const BackendOptions *);
void cpu_buffers(Plan *);
/* keep.c: which operands stay packed, and the bytes of a buffer with all its places. */
void plan_keep(Plan *);
int64_t keep_bytes(const Buf *);
/* line_ends.c: which steps put the ends of rows aside, the bytes of the table, and those in front of the
 * first buffer that are read with its rows. */
void plan_line_ends(Plan *);
int64_t line_ends_bytes(const Plan *);
int64_t line_ends_before(const Plan *);
void cpu_plan_print(const Plan *, Text *);
/* The required accuracy of an f32 result: all its bits; only the bits that remain after rounding to 16 bits
 * or fewer, through operations that preserve a relative error; or the same, where each use turns a NaN
 * operand into a NaN again. */
typedef enum Need { NEED_ALL, NEED_16_BITS, NEED_16_BITS_NO_NAN } Need;
Need plan_need(const Value *v);
/* Of one operation, and of what computes one vector of `v` (of whose own operation it takes no notice if `v`
 * has a buffer). */
int plan_op_cost(const Instr *);
int plan_cost(Plan *, Value *v);
/* For every value read by evaluating `v` where it has no buffer, once: fn(user, leaf, same) with same: read
 * at the position itself only. */
void plan_leaves(Plan *, Value *v, bool same, void (*fn)(void *user, Value *leaf, bool same), void *user);
static inline ValInfo *plan_info(const Plan *p, const Value *v) { return &p->info[v->id]; }
static inline Buf *buf_root(Buf *b)
{
    while (b->same) b = b->same;
    return b;
}
/* Lanes of f32 in a vector. */
static inline int plan_lanes(const CpuTarget *t) { return t->vector_bytes / 4; }
/* The extents other than 1; returns their number. */
int squeeze(const Type *, int64_t *shape);

/* --- generator --------------------------------------------------------------------------------------- */

typedef struct Window Window;
typedef struct Debug Debug;
typedef struct DebugPlaces DebugPlaces; /* the buffers of variables at a place of the code */

typedef struct Gen {
    Session *session;
    Arena *arena;
    Plan *plan;
    Func *func;
    const CpuTarget *target;
    const BackendOptions *options;
    LLVMContextRef ctx;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef fn, slots, scratch, linear, failed;
    /* where allocas go; where slot loads and the values computed from them go */
    LLVMBasicBlockRef entry, setup;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr, voidt;
    VEC(Slot) slot_list;
    VEC(LLVMValueRef) slot_values;
    VEC(const char *) messages;
    Window *walked;   /* the loads whose next row all nests over it prefetch */
    Window **windows; /* by value id of the result (loads) or of the token (stores) */
    LLVMDIBuilderRef di;
    LLVMMetadataRef di_scope;
    LLVMMetadataRef di_file;
    Debug *debug;
    int n_sites;            /* places that report accesses (track.c) */
    bool streams;           /* non-temporal stores were emitted */
    LLVMValueRef line_ends; /* the place of an i1: ends of rows lie aside; NULL: they never do */
    bool reduces_strength;  /* of loops that are emitted now (gen_loop_end) */
    int n_helpers;
    LLVMValueRef amx_callers; /* the tile configuration that the kernel found, to be put back */
} Gen;

LLVMModuleRef cpu_generate(
    Session *, Plan *, const BackendOptions *, LLVMContextRef, const char *symbol, Artifact *out);

/* The LLVM type of `lanes` elements (1: scalar) as computed with, and as stored. bf16 and fp8 are held as
 * their bits. */
LLVMTypeRef gen_type(Gen *, DType, int lanes);
LLVMTypeRef gen_mem_type(Gen *, DType, int lanes);
LLVMTypeRef gen_vec(LLVMTypeRef, int lanes);
LLVMValueRef gen_splat(Gen *, LLVMValueRef, int lanes);
LLVMValueRef gen_int(Gen *, int64_t);                   /* i64 constant */
LLVMValueRef gen_const_float(Gen *, double, int lanes); /* f32 */
LLVMValueRef gen_const(Gen *, DType, Scalar, int lanes);
LLVMValueRef gen_iota(Gen *, LLVMTypeRef elem, int lanes);
int gen_lanes(LLVMValueRef);
LLVMValueRef gen_alloca(Gen *, LLVMTypeRef, const char *name);
LLVMValueRef gen_intrinsic(
    Gen *, const char *name, LLVMTypeRef *types, int n_types, LLVMValueRef *args, int n_args);
/* track.c: with BackendOptions.tracked, reports the elements of a window, or of an indexed access to the
 * `lanes` addresses `ptr`, which takes place where `ok` holds. */
void track_window(Gen *, const Window *);
bool track_wanted(const Gen *, int param);
void track_element(Gen *, const Instr *, int param, LLVMValueRef ok, LLVMValueRef ptr, int lanes);
/* i1: scratch memory is as the last call of the same launch left it. */
LLVMValueRef gen_again(Gen *);
LLVMValueRef gen_slot(Gen *, SlotKind, int param, int index, DType);
LLVMValueRef gen_scalar(Gen *, Value *); /* a scalar value of the IR */
LLVMValueRef gen_scalar_i64(Gen *, Value *);
/* Numbers of the launch, as i64. */
LLVMValueRef gen_extent(Gen *, int dim);
LLVMValueRef gen_stride(Gen *, int param, int axis);
LLVMValueRef gen_program_id(Gen *, int axis);
int gen_grid_rank(const Gen *);
LLVMBasicBlockRef gen_block(Gen *, const char *name);
LLVMBasicBlockRef gen_here(Gen *);
void gen_at(Gen *, LLVMBasicBlockRef);
void gen_loc(Gen *, Loc);
unsigned gen_message(Gen *, const char *);
/* Memory <-> registers: bool is a byte in memory. */
LLVMValueRef gen_load(Gen *, DType, int lanes, LLVMValueRef ptr);
LLVMValueRef gen_store(Gen *, DType, LLVMValueRef value, LLVMValueRef ptr);
LLVMValueRef gen_ptr(Gen *, LLVMValueRef base, LLVMValueRef byte_offset);
LLVMValueRef gen_buf(Gen *, const Buf *, int64_t byte_offset);
LLVMValueRef gen_shuffle(Gen *, LLVMValueRef a, LLVMValueRef b, const int *mask, int n);
/* f of `width` lanes at a time of vectors that have a multiple of so many; b: NULL, or an operand too. */
LLVMValueRef gen_by(
    Gen *, int width, LLVMValueRef a, LLVMValueRef b, LLVMValueRef (*f)(Gen *, LLVMValueRef, LLVMValueRef));
LLVMValueRef gen_by_16(
    Gen *, LLVMValueRef a, LLVMValueRef b, LLVMValueRef (*f)(Gen *, LLVMValueRef, LLVMValueRef));

/* A counted loop [0, n) by `step`: gen_loop opens it and gives the counter, gen_loop_end closes it. */
typedef struct Loop {
    LLVMBasicBlockRef body, before;
    LLVMValueRef i, from, n;
    int64_t step;
    bool runs; /* known to run once at least */
} Loop;
LLVMValueRef gen_loop(Gen *, Loop *, LLVMValueRef from, LLVMValueRef n, int64_t step);
void gen_loop_end(Gen *, Loop *);
/* Calls `line` for all of n positions along an axis: whole vectors in a loop, and the rest in ever narrower
 * vectors. `at` is the first position of the vector. */
typedef void LineFn(void *user, LLVMValueRef at, int lanes);
void gen_lines(Gen *, int64_t n, LineFn *line, void *user);
/* if (cond) ...: gen_if opens the branch, gen_else (optional) begins the other one, and gen_endif closes
 * both. */
typedef struct If {
    LLVMBasicBlockRef then, other, done;
    bool has_else;
} If;
void gen_if(Gen *, If *, LLVMValueRef cond);
void gen_else(Gen *, If *);
void gen_endif(Gen *, If *);

/* A function of the module's own, emitted once, found again by its name. */
typedef struct Helper {
    LLVMValueRef outer;
    LLVMBasicBlockRef here, entry, body;
    LLVMMetadataRef di;
} Helper;
LLVMValueRef helper_find(Gen *, const char *name);
LLVMValueRef helper_begin(Gen *, Helper *, const char *name, LLVMTypeRef type);
void helper_end(Gen *, Helper *); /* after the function's returns */

void gen_steps(Gen *, Steps *);
/* The counter of a loop in iteration number t. */
void gen_iteration(Gen *, const Step *loop, LLVMValueRef lo, LLVMValueRef step, LLVMValueRef t);
/* Emits a scalar instruction. */
void gen_scalar_instr(Gen *, Instr *);
/* The block of reduce or scan applied to the values at a and at b. */
void gen_combine(Gen *, Block *, const LLVMValueRef *a, const LLVMValueRef *b, int lanes, LLVMValueRef *out);
/* The number of the program whose work program number `program` does. */
LLVMValueRef gen_remap(Gen *, LLVMValueRef program);
/* Reports a failed check (`--check`) if `bad` holds. */
void gen_check(Gen *, LLVMValueRef bad, Loc, const char *message);

/* elem.c: an element-wise operation of operands of `dtype` (lanes alike); bool in i1. */
LLVMValueRef elem_op(Gen *, Op, DType, LLVMValueRef *operands, Need); /* need: the plan_need of the result */
LLVMValueRef elem_reduce(
    Gen *, Op reduce_op, DType, LLVMValueRef a, LLVMValueRef b); /* the combination of reduce_*, scan_* */
/* convert.c */
LLVMValueRef convert(Gen *, DType to, DType from, LLVMValueRef);
LLVMValueRef convert_bits(Gen *, DType to, DType from, LLVMValueRef);
LLVMValueRef to_f32(Gen *, DType, LLVMValueRef); /* from a float of at most 32 bits */
LLVMValueRef from_f32(Gen *, DType, LLVMValueRef);
/* Of a sum, product or quotient of numbers of this dtype: a NaN among them has no bits that rounding could
 * carry into its exponent. */
LLVMValueRef from_f32_result(Gen *, DType, LLVMValueRef);
/* The vector of 32 bits whose upper halves `v` is, as a rounded bf16; else NULL. */
LLVMValueRef upper_halves_of(Gen *, LLVMValueRef v);
/* for a value that is already of the dtype: no rounding, and the infinities of e5m2 stay */
LLVMValueRef from_f32_exact(Gen *, DType, LLVMValueRef);
/* math.c: on f32 or f64, scalars or vectors. */
LLVMValueRef math_fn(Gen *, Op, LLVMValueRef, Need);

#include "backends/cpu/eval.h"
#include "backends/cpu/memory/window.h"

/* --- products, scans, sorts --------------------------------------------------------------------------- */

/* unit.c: the unit that computes a product. */
MmaKind mma_kind(const CpuTarget *, const Instr *);
/* Appends the unit and what the choice was made from: the rates of the units that could compute it. */
void mma_unit_print(const CpuTarget *, const Instr *, Text *);
/* amx.c: code at the start and the end of a kernel that uses AMX, and its products. */
void amx_begin(Gen *);
void amx_end(Gen *);
/* mma.c */
void mma_emit(Gen *, Step *);
/* The type that operand `v` of a product is packed as, and how many elements of it along K lie side by side.
 */
DType mma_operand_type(MmaKind, const Value *v);
/* The operand A of such a product of two types of one sign is packed as one of the other sign: x86's dot
 * products take an unsigned and a signed operand. Adding 128 to i8, or subtracting it from u8, inverts the
 * highest bit. The product takes 128 times the sums of the columns of B away again. */
static inline bool mma_changes_sign(const CpuTarget *t, MmaKind k, DType a, DType b)
{ return k == MMA_I8_QUADS && !t->arm && a == b; }
enum { MAX_GROUP = 4 };
static inline int mma_group(DType d) { return dtype_bytes(d) >= 4 ? 1 : 4 / dtype_bytes(d); }
void mma_block_shape(const CpuTarget *, MmaKind, int64_t m, int64_t n, int *mr, int *nv);
void mma_pack_store(
    Eval *, const Buf *, DType from, LLVMValueRef value, LLVMValueRef row, LLVMValueRef column);
/* Packs the same columns of all rows of a group, from `row` on (FORM_GROUPS). */
void mma_pack_group(
    Eval *, const Buf *, DType from, const LLVMValueRef *values, LLVMValueRef row, LLVMValueRef column);
/* pack_tables.c: the nest, if it packs operands of AMX that are looked up; false: it does something else. */
bool mma_pack_tables(Gen *, const Step *);
void mma_clear_padding(Gen *, const Buf *); /* for rows that end with half a pair */
void transpose_emit(Gen *, Step *);
/* keep.c: code before the loop, and for its step of this number. The window that is fetched ahead for an
 * operand becomes its own place where the operand is packed already. */
void keep_before(Gen *, const Step *loop);
void keep_step(Gen *, const Step *loop, LLVMValueRef number);
void keep_fetch(Gen *, const Buf *, LLVMValueRef *at, LLVMValueRef *stride);
/* in_place.c: i1: the step has to pack its operand; NULL: it always has to. Operand A of a product: its
 * address and the bytes from row to row. */
LLVMValueRef in_place_packs(Gen *, const Step *);
void in_place_operand(Gen *, const Step *, LLVMValueRef *at, LLVMValueRef *row);
void line_ends_finish(Gen *); /* line_ends.c: at the end of the call */
/* combined.c */
void combined_emit(Gen *, Step *);
/* scan.c */
void scan_emit(Gen *, Step *);
/* A scan of `extent` positions along the vectors' axis, with n values at each: load gives the values of
 * `lanes` positions from `at` on, combine puts those before (a) and those behind (b) together, element by
 * element. With `reverse` it begins at the last position. */
typedef struct LineScan {
    Gen *g;
    int n, bytes; /* bytes: of the widest value */
    int64_t extent;
    bool reverse;
    void *user;
    void (*load)(void *user, LLVMValueRef at, int lanes, LLVMValueRef *v);
    void (*combine)(void *user, const LLVMValueRef *a, const LLVMValueRef *b, LLVMValueRef *out);
    void (*store)(void *user, LLVMValueRef at, int lanes, const LLVMValueRef *v);
} LineScan;
void scan_line(const LineScan *);
/* sort.c */
void sort_emit(Gen *, Step *);
/* The words of 64 bits that it keeps keys in. */
int64_t sort_room(const Instr *);
/* buffer elements at tile coordinates, axis va contiguous or not */
LLVMValueRef buf_load(Eval *, const Buf *, LLVMValueRef *coord, int va);
LLVMValueRef buf_address(Eval *, const Buf *, LLVMValueRef *coord);
void buf_store(Eval *, const Buf *, LLVMValueRef value, LLVMValueRef *coord, int va);

/* --- target ------------------------------------------------------------------------------------------ */

bool cpu_optimise(Session *, LLVMModuleRef, LLVMTargetMachineRef, const BackendOptions *);
