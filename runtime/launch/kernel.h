/* kernel.h: kernels, the variants compiled for them, and the way from launch arguments to a variant.
 *
 * A launch reads its arguments into views, binds the dimension names, and boils them down to a key: the
 * extents that code is specialized on, and what alignment, strides and divisibility promise. The key finds a
 * variant in a table that is read without locks; only a miss takes the lock and compiles. */
#pragma once
#include "ir/interp/scalar.h"
#include "runtime/context/context.h"
#include "runtime/launch/inside.h"

enum { MAX_PARAMS = 256, MAX_TENSOR_MAPS = 64, REMAP_VERDICTS = 32 };
enum { MOST_PAIRS = 6, KEY_COLLAPSED = 2 }; /* the bit of word 0 of a key from which on they are */

typedef struct KernelParam {
    const char *name, *type_name; /* the type as written: "T" */
    ParamKind kind;
    DType dtype;
    int size, rank;         /* bytes of an element; axes */
    int dim[TILE_MAX_RANK]; /* for each axis, which of the kernel's dimensions it is, or -1 */
    const char *text[TILE_MAX_RANK];
    uint8_t dl_code, dl_bits;
    tile_dtype public;
    bool real;            /* a floating scalar */
    FrontValue otherwise; /* the default of a scalar, or FRONT_NOTHING */
    bool optional;        /* a tensor that a launch may leave out */
    bool atomics;         /* the key says of small extents what they are at most */
    bool rows;            /* the key says whether rows have gaps (ir_gaps_matter) */
    int dense;            /* the key says whether so many axes in front of the last one have no gaps */
    /* For an optional tensor, whether the kernel was made for launches that give it: 1 yes, 0 no, -1 not
     * said. */
    int bound;
} KernelParam;

/* A dimension's name, or, after all names, a derived extent as written. */
typedef struct KernelDim {
    const char *name;
    bool key;         /* the code is specialized on its extent, which the launch gives */
    bool specialized; /* the same, or its extent was given when the kernel was made */
    bool counted;     /* the key says of a small extent what it is at most (FrontKernel.counted, atomics) */
    int64_t bound;    /* the extent that was given when the kernel was made, or -1 */
} KernelDim;

/* A tuning entry that fits this kernel: its numbers by dimension, in 1/65536 of a power of two. */
typedef struct TuneRow {
    int *dims;
    int64_t *log2, *values;
    int n;
    FrontBinding *tensors; /* the optional tensors, and whether the launch must give them */
    int n_tensors;
    int64_t apart;
    const uint64_t
        *promises; /* NULL, or the key of the only launch, of exactly these extents, it speaks for */
    FrontBinding *config;
    int n_config;
} TuneRow;

/* One argument in the form that a launch uses, made in one pass over its axes. Tensors: `word` is the number
 * of elements, lo and hi are the bytes between which they are, and `facts` has the facts on which code may
 * rely (FACT_...). Scalars: `word` holds the bits. */
typedef struct View {
    char *data;
    uint64_t word;
    uintptr_t lo, hi;
    uint32_t facts;
    int64_t extent[TILE_MAX_RANK];
} View;
/* The low 16 bits go into the key: aligned to 16 bytes; axis of stride 1, + 1 (4 bits); strides that are
 * multiples of 16 bytes, from 0 to below 2^40 (8 bits); a scalar's sign + 1, or 3 for an index
 * from 0 to below 2^28 (2 bits), a tensor's grain: 1 of 4 bytes, 2 of 8, 3 of 16 (2 bits); an optional tensor
 * that is not given, without any of the others. Above them: no gaps from lo to hi; offsets or extents beyond
 * what fits32 promises; an extent of 2^31 or more. */
enum {
    FACT_ALIGNED = 1,
    FACT_UNIT = 1,
    FACT_STRIDES = 5,
    FACT_SIGN = 13,
    FACT_GRAIN = 13,
    FACT_ABSENT = 1 << 15,
    FACT_KEY = 0xffff,
    FACT_DENSE = 1 << 16,
    FACT_FAR = 1 << 17,
    FACT_LONG = 1 << 18
};

/* The arguments of one launch, read and checked; arrays by parameter, dims by the kernel's dimension names.
 * LAUNCH_ARGS makes one on the stack. */
typedef struct LaunchArgs {
    View *views;
    int64_t (*strides)[TILE_MAX_RANK];
    Scalar *scalars;
    int64_t *dims;
    /* The pairs of dimensions that views and dims give as one (collapse.c), a bit each; and where there are
     * any, the dimensions as the caller has them. */
    unsigned *collapsed;
    int64_t *given;
} LaunchArgs;
#define LAUNCH_ARGS(name, k) \
    View name##_views[(k)->n_params + 1]; \
    int64_t name##_strides[(k)->n_params + 1][TILE_MAX_RANK], name##_dims[(k)->n_dims + 1], \
        name##_given[(k)->n_dims + 1]; \
    Scalar name##_scalars[(k)->n_params + 1]; \
    unsigned name##_collapsed = 0; \
    const LaunchArgs name = { name##_views, name##_strides, name##_scalars, name##_dims, &name##_collapsed, \
        name##_given }

/* Two dimensions of a kernel, which every tensor that has one has side by side. */
typedef struct DimPair {
    int outer, inner;
} DimPair;

typedef enum VariantState { VARIANT_EMPTY, VARIANT_COMPILING, VARIANT_READY, VARIANT_FAILED } VariantState;

/* Launches of a variant that are kept for later ones; see memo.c. */
enum { MEMOS = 8 };
typedef struct Memo Memo;
typedef struct VariantMemos {
    Memo *memo[MEMOS];
    int n;                    /* MEMOS, or 0 when no two launches of this variant are alike */
    int arguments;            /* the words of the kernel's arguments in a memo */
    const int *map_slot;      /* the slot of each tensor map */
    int scheduler, workspace; /* the slots that each launch fills anew, or -1 */
    bool reads_scalars;       /* the grid, the remap or a derived extent depends on it */
    atomic_uint next;
} VariantMemos;

typedef struct Variant {
    struct Variant *next; /* all of the kernel's */
    atomic_int state;
    unsigned forks; /* the value of fork_count() when it was last compiled */
    uint64_t hash;
    tile_status failure; /* for FAILED: the status that every launch of it returns, with `error` */
    char *error;
    size_t error_size;
    Arena arena;
    const char *title; /* "attention<D=64>", in the arena */
    Compiled compiled;
    DriverModule *module;
    DriverFunction *function;
    /* The hashes of grids for which the remap was found to be a permutation. */
    _Atomic uint64_t remap_good[REMAP_VERDICTS];
    atomic_uint remap_next;
    VariantMemos memos;
    bool needs_counter, prints, from_cache;
    int other; /* 0, or the number + 1 of the configuration that it has instead of the chosen one */
    double ms;
    size_t bytes; /* the bytes of this struct with the key after it */
    uint64_t key[];
} Variant;

typedef struct VariantTable {
    /* tables that were replaced are kept until the kernel is freed, because a thread may still be reading
     * them */
    struct VariantTable *older;
    size_t cap, n, bytes;
    _Atomic(Variant *) slot[];
} VariantTable;

struct tile_kernel {
    tile_context *context;
    tile_module *module;
    atomic_int references;
    Session session; /* holds the fields below; not changed after creation */
    /* guards the variants, their states and the replacement of the table; signalled when the state of a
     * variant has changed */
    Lock lock;
    const char *name, *title; /* "attention", "attention<D=64>" */
    const FrontKernel *front;
    FrontBinding *bindings;
    int n_bindings;
    KernelParam *params;
    int n_params;
    KernelDim *dims;
    int n_dims,
        n_key_dims, /* includes derived extents, which are no keys; the first FrontKernel.n_dims are names */
        n_counted, gap_words; /* words of the key that say whose rows have gaps */
    int dense_words;          /* of those behind them, which say whose axes have none */
    /* NULL, or a function that is called before the vendor's compiler. If it returns false, the variant is
     * not compiled (tune_compile.c). */
    bool (*accept)(void *user, const Compiled *);
    void *accept_user;
    KernelPasses passes;
    /* By parameter: the type to which this kernel's launches have converted the input ahead, DT_COUNT: they
     * have not; NULL: none. A kernel of kernel_create_converted. */
    const DType *converted;
    TuneTable *tune;
    TuneRow *rows;
    int n_rows;
    struct Chooser *chooser; /* see choose.c; NULL: there is nothing to choose */
    bool copies;             /* for launches of another kernel (pitch_copy.c), in sizes that were measured */
    /* See pitch.c; NULL: no launch has copied anything, none had to be decided. */
    _Atomic(struct Pitcher *) pitcher;
    _Atomic(struct PitchDecision *) decisions;
    _Atomic(struct ConvertedForm *) converted_form; /* converted.c; the newest one; NULL: not looked for */
    DimPair pairs[MOST_PAIRS]; /* that a launch may give as one dimension (collapse.c), outer ones first */
    int n_pairs;
    /* A bit for each that the kernel does not treat as one, and that it does with some configuration. */
    atomic_uint refused_pairs, proven_pairs;
    int key_words;
    /* The extent of some axis is an expression, which is compared once the variant is known. */
    bool anonymous;
    Variant *variants;
    _Atomic(VariantTable *) table;
    _Atomic(Memo *) recent[MEMOS]; /* looked at first */
    atomic_uint recent_next;
};

/* Key: word 0 holds fits32 (bit 0), extents31 (bit 1), the collapsed pairs (from bit 2) and from bit 8 the
 * tuning row + 1, or the number of rows + the choice, or 0; then a bit a dimension for multiples of 16, the
 * extents of key dimensions, 16 bits of facts a parameter, a bit a parameter for rows with gaps if there is a
 * KernelParam.rows, a bit a parameter for axes without gaps if there is a KernelParam.dense, and a byte for
 * each counted dimension. It may change the arguments to those of an equal launch on fewer axes (collapse.c).
 * Fails only where a configuration must be chosen and cannot be. */
tile_status kernel_key(tile_kernel *, const LaunchArgs *, uint64_t *key);
void kernel_facts(const tile_kernel *, const uint64_t *key, ParamFacts *params, bool *dim16, int64_t *most,
    LaunchFacts *out);
/* Whether the kernel's optional tensor `i` is given to launches with this key. */
bool kernel_key_gives(const tile_kernel *, const uint64_t *key, int i);
/* Reads and checks arguments. */
tile_status kernel_bind(tile_kernel *, const tile_arg *, size_t n, const LaunchArgs *);
/* The variant for a key if it is ready, or NULL. The second function compiles it if necessary. */
Variant *kernel_ready(tile_kernel *, const uint64_t *key);
tile_status kernel_variant(tile_kernel *, const LaunchArgs *, const uint64_t *key, Variant **out);
/* grid.c: computes the extents by the dimensions of `compiled` into dims (room for all of them), and the
 * grid. */
tile_status kernel_grid(
    tile_kernel *, const Compiled *, const LaunchArgs *, int64_t *dims, EvalEnv *, int64_t *programs);
/* empty.c: called when no variant is ready. *nothing: an extent on which code would be specialized is 0, and
 * the launch has nothing to compute. */
tile_status kernel_nothing(tile_kernel *, const LaunchArgs *, const uint64_t *key, bool *nothing);
/* variant.c: the bindings of the kernel and the key, in the arena, including whether optional tensors are
 * given. */
const FrontBinding *variant_bindings(const tile_kernel *, const uint64_t *key, Arena *, size_t *n);
/* The same with these of a configuration. */
const FrontBinding *variant_bindings_with(
    const tile_kernel *, const uint64_t *key, const FrontBinding *config, int n_config, Arena *, size_t *n);
/* variant.c: the options of its variants: those of the context, with the kernel's own passes. */
CompileOptions kernel_compile_options(const tile_kernel *);
/* variant.c: adds the kernel's own passes and converted inputs, if it has any, to a key of the disk cache. */
void kernel_key_passes(const tile_kernel *, Text *);
/* tune_compile.c: the digest of an artifact's code and shape. */
void artifact_digest(const Compiled *, uint8_t digest[32]);
/* variant.c: compiles or loads `v`; the caller has claimed it. *permanent: the same key will fail again. */
tile_status variant_make(tile_kernel *, const LaunchArgs *, Variant *v, bool *permanent);
void variant_free(tile_kernel *, Variant *);
/* A kernel like `k` with more bindings and without a tuning table, in context `c` of the same device. The
 * bindings' names must outlive it. */
tile_status kernel_create_like(
    const tile_kernel *k, tile_context *c, const FrontBinding *more, int n, tile_kernel **out);
/* A kernel like `k` whose inputs have these types, by parameter; DT_COUNT: the type that they have in `k`.
 * Its code is that of `k` behind the conversions (passes/tile/launch/converted_inputs.c). */
tile_status kernel_create_converted(const tile_kernel *k, const DType *to, tile_kernel **out);
/* The table's row for these extents, tensors and this key, which does not have the row yet; -1: no row
 * applies. */
int kernel_tune_row(const tile_kernel *, const LaunchArgs *, const uint64_t *key);

/* --- choose.c: without a table ----------------------------------------------------------------------- */

tile_status chooser_open(tile_kernel *);
void chooser_close(tile_kernel *);
/* The choice for these extents and this key, which does not have it yet: 0 for the declared defaults,
 * otherwise a number for kernel_choice_config. For launches that were seen before, it does not fail,
 * allocates no memory and takes no lock. */
tile_status kernel_choice(tile_kernel *, const LaunchArgs *, const uint64_t *key, int *choice);
const FrontBinding *kernel_choice_config(const tile_kernel *, int choice, int *n);
const struct Choice *kernel_chosen(
    const tile_kernel *, int choice); /* the same, with all that chooser.h has */
/* The estimate of that choice in nanoseconds; 0: it is not known; below 0: there was no memory to choose, or
 * to keep what was chosen. The key may have the choice or not. */
double kernel_choice_estimate(tile_kernel *, const LaunchArgs *, const uint64_t *key);
/* The model of the device that the kernel runs on; NULL: there is none. */
const struct DeviceModel *kernel_device_model(const tile_kernel *);

/* collapse.c: finds the kernel's pairs. */
void collapse_open(tile_kernel *);
/* Gives the arguments with fewer axes where they have no gaps; returns the pairs that became one. */
unsigned collapse_launch(tile_kernel *, const LaunchArgs *);
/* Whether the variant of this key treats those pairs as one; and whether some variant may, where the key has
 * no configuration yet. */
bool collapse_holds(tile_kernel *, const uint64_t *key, unsigned pairs);
bool collapse_may_hold(tile_kernel *, const uint64_t *key, unsigned pairs);
/* The dimensions, a bit each, that have an extent of 1 where these pairs became one. */
uint64_t collapse_ones(const tile_kernel *, unsigned pairs);

/* pitch.c: frees the kernels that copy. */
void pitch_close(tile_kernel *);

/* For memos: reads a scalar; whether the views that must be apart are (arguments.c); the driver's launch
 * (launch.c). */
bool launch_scalar(tile_kernel *, int i, const tile_arg *, View *);
bool launch_apart(tile_kernel *, const View *);
/* What a launch takes beside its arguments: bytes of workspace, blocks as DriverLaunch has them. */
typedef struct LaunchSize {
    int64_t programs, blocks;
    size_t workspace;
} LaunchSize;
tile_status launch_driver(tile_kernel *, const Variant *, const uint64_t *slots, void **params,
    int64_t programs, int64_t blocks, void *stream);
/* Puts the counter and the workspace into the slots, for the length of the call those of the stream where the
 * descriptor (NULL: none) names no workspace, and hands over. */
tile_status launch_borrowing(tile_kernel *, const Variant *, uint64_t *slots, void **params,
    const LaunchSize *, const tile_launch_desc *);
/* Whether the launch is given a workspace of so many bytes, or the context has one for it. */
bool launch_has_workspace(tile_context *, const tile_launch_desc *, size_t bytes);

/* memo.c: launches like an equal earlier launch. False: there was none, and nothing was done. */
bool memo_launch(tile_kernel *, const tile_arg *, size_t n, const tile_launch_desc *, tile_status *);
/* Records the data of a launch that succeeded. */
typedef struct MemoMade {
    const uint64_t *slots;
    unsigned char (*maps)[128];
    LaunchSize size;
} MemoMade;
void memo_keep(tile_kernel *, Variant *, const tile_arg *, const LaunchArgs *, const MemoMade *);
void memo_prepare(const tile_kernel *, Variant *);

/* --- sealed.c ---------------------------------------------------------------------------------------- */

/* Puts the variant on the context's list of those that are missing and returns TILE_ERROR_SEALED with its
 * description. `dims`: all extents, where no configuration was chosen for them; NULL: the variant of the key.
 */
tile_status kernel_refuse(tile_kernel *, const uint64_t *key, const int64_t *dims);
/* questions.c: "; X: aligned 16, unit stride on axis 1", what the key promises; returns the length. */
size_t launch_promises(const tile_kernel *, const uint64_t *key, char *out, size_t room);

/* --- print.c ----------------------------------------------------------------------------------------- */

/* The destination of the prints of one launch's kernels, which exists as long as the launch. */
typedef struct Printer {
    PrintSink sink;
    tile_context *context;
    const char *kernel;
    pthread_mutex_t lock;
    DriverBlob line;
} Printer;
void printer_open(Printer *, tile_context *, const char *kernel);
void printer_close(Printer *);
