/* passes.h: the passes of both IRs by name, and the runner that times, dumps, verifies and stops behind them.
 *
 *     PassOptions o = pass_options_default(target);
 *     o.skip = "exp2";
 *     if (!passes_run(module, &o, &report)) ... diagnostics say why
 *
 * passes_run runs those of the tile IR in the order of pipeline.c; kernel_lower (passes/kernel/lower.c) runs
 * those of the kernel IR under the same options. Every pass keeps the module valid; passes.def says what it
 * keeps of the results. */
#pragma once
#include "ir/ir.h"
#include "ir/target/target.h"

typedef enum PassId {
#define PASS(ID, name, function, level, on, keeps, doc) PASS_##ID,
#define KERNEL_PASS(ID, name, function, needs, presence, on, keeps, doc) PASS_##ID,
#define KERNEL_STEP(ID, name, within, needs, on, keeps, doc) PASS_##ID,
#include "passes/passes.def"
    PASS_COUNT
} PassId;
enum {
    TILE_PASS_COUNT = 0 /* the passes of the tile IR come first */
#define PASS(ID, name, function, level, on, keeps, doc) +1
#include "passes/passes.def"
};

/* The properties that a pass of the kernel IR needs, of the target and of the IR. */
typedef enum PassNeeds {
    NEEDS_NOTHING = 0,
    NEEDS_CUDA = 1,
    NEEDS_HIP = 2,
    NEEDS_TMA = 4,          /* and wgmma */
    NEEDS_INSTRUCTIONS = 8, /* every product has its instruction (mma-select) */
    NEEDS_SPECIALIZED = 16, /* producer and consumer warps (warp-specialization) */
    NEEDS_LAYOUTS = 32      /* tiles in registers have layouts (layout) */
} PassNeeds;
typedef enum PassPresence { REQUIRED, OPTIONAL, DECIDES } PassPresence; /* see passes.def */
typedef enum PassKeeps { KEEPS_BITS, KEEPS_ORDER, KEEPS_BOUND } PassKeeps;

typedef struct PassInfo {
    const char *name;
    int level;
    bool on;
    PassKeeps keeps;
    PassPresence presence;
    unsigned needs; /* PassNeeds */
    int within;     /* the pass that runs this step; PASS_COUNT: it is a pass by itself */
    const char *doc;
} PassInfo;
extern const PassInfo pass_info[PASS_COUNT];

static inline bool pass_is_kernel(PassId id) { return (int)id >= TILE_PASS_COUNT; }
static inline bool pass_is_step(PassId id) { return pass_info[id].within != PASS_COUNT; }

/* A set of passes. PASS_SET(PASS_NEAR, PASS_ERFC) makes one. */
typedef struct PassSet {
    uint64_t words[(PASS_COUNT + 63) / 64];
} PassSet;
static inline bool pass_in(const PassSet *s, PassId id) { return s->words[id / 64] >> id % 64 & 1; }
static inline void pass_change(PassSet *s, PassId id, bool in)
{ s->words[id / 64] = (s->words[id / 64] & ~(1ull << id % 64)) | (uint64_t)in << id % 64; }
static inline void pass_add(PassSet *s, PassId id) { pass_change(s, id, true); }
PassSet pass_set(const PassId *, size_t n);
#define PASS_SET(...) \
    pass_set((const PassId[]){ __VA_ARGS__ }, sizeof((const PassId[]){ __VA_ARGS__ }) / sizeof(PassId))

typedef struct PassOptions {
    const Target *target; /* NULL: none in particular */
    int opt_level;        /* 0..3 */
    const char *passes; /* "fold,cse": run these passes of the tile IR in this order and no others; NULL: the
                           pipeline of opt_level */
    /* A schedule written by hand for GPU targets, and the name of its file; NULL: none (docs/schedule.md). */
    const char *schedule, *schedule_name;
    const char *skip; /* "exp2,licm": leave out these passes; NULL: none */
    /* "pingpong": run these even if they are off or no gain is expected; NULL: none */
    const char *with;
    /* "cse" or "all": pass the module's text to on_dump after these passes; NULL: none */
    const char *dump_after;
    const char *stop_after; /* "cse": run no pass after the first run of this one; NULL: run all */
    /* Accept names of passes that only another target runs, because this target is one of several. */
    bool any_target;
    void (*on_dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    /* run the verifier after every pass that changed something; builds with assertions always do so after
     * passes of the kernel IR */
    bool verify_each;
    bool time_passes; /* fill PassRecord.ns */
    bool check;       /* `--check`: see check.c */
    bool print;       /* keep the operation print: for tilec run, --check and -g */
    bool approx, ftz; /* use approximate division and functions, and flush denormals (approx.c) */
    /* By parameter: the type to which the launch has converted this input ahead, DT_COUNT: it has not. NULL:
     * none (specialize, converted_inputs.c). */
    const DType *converted;
    /* "xcd", "chunk:64", "head+raster:8", "auto", "none"; NULL: the kernel decides (remap.c) */
    const char *remap;
    int xcds;       /* the chiplets of the target; 0: as in the table of targets */
    int most_ctas;  /* CTAs on a multiprocessor that derived launch bounds ask for at most; 0: any */
    int least_ctas; /* and at least, of a kernel that streams (schedule/occupancy.h); 0: any */
    int pack_warps; /* of a pack of aligned tiles at most (pack.c); 0: any */
} PassOptions;

PassOptions pass_options_default(const Target *);

/* A counted effect of one pass, e.g. { "exp2", "exp turned into exp2", 2 }. */
typedef struct PassStat {
    PassId pass;
    const char *what;
    int64_t count;
} PassStat;
typedef struct PassRecord {
    PassId pass;
    bool progress;
    int64_t ns;
} PassRecord;

typedef struct PassReport { /* allocated in the module's session */
    VEC(PassRecord) runs;   /* in the order run */
    PassSet ran;
    VEC(PassStat) stats; /* one for each (pass, what) */
    /* The placement of the last kernel with `auto` resolved, such as "head+raster:8"; NULL: the pass did not
     * run. */
    const char *remap;
} PassReport;

/* Runs the passes of the tile IR. `report` may be NULL. False after diagnostics: a name in the options that
 * no pass has or that does not apply, or a module that no longer verifies (then the pass is named). */
bool passes_run(Module *, const PassOptions *, PassReport *report);
/* The pass of this name, or of this former name. */
bool pass_find(const char *name, size_t len, PassId *);
/* Whether a pass has that name, and with `skip` may be left out; false after a diagnostic at `loc`, which
 * begins with `where`. */
bool pass_check_name(Session *, Loc loc, const char *where, const char *name, bool skip);
/* The passes that a list names. Names that no pass has are left out, because passes_run rejects them. */
PassSet pass_set_of(const char *list);
/* Whether stop_after names a pass of the tile IR, so that there is nothing to lower. */
bool passes_stop_in_tile_ir(const PassOptions *);
/* Warns of passes of the kernel IR that dump_after names and that did not run for this kernel. */
void passes_warn_unrun(Session *, const PassOptions *, const PassReport *, const char *kernel);
/* The table for --time-passes; of all passes for --help=passes. */
void passes_print_times(const PassReport *, Text *);
void passes_print_list(Text *);

/* The counts of a module for tests and `--perf` reports: static instruction counts, nested ones included. */
typedef struct Census {
    int instrs, tile_instrs; /* all instructions; those with a tile as result */
    int exps, exp2s, permutes, ordered_loads;
    int loads, stores, masked; /* masked: loads and stores that are not proven to be in range */
    int index64;               /* instructions that compute in 64-bit index or i64 */
    int loops, selects;        /* selects: `where` with a tile result */
    /* masked accesses and selects inside innermost loops that are not marked as edges */
    int loop_masked, loop_selects;
    int divs, fmas, calls, asserts;
    int approx;   /* instructions marked approx */
    int asks;     /* program numbers, extents, strides and grid sizes read from the launch */
    int in_loops; /* instructions inside of loops */
    int buffers;  /* the sum of the latencies that loads ask for */
    int remaps;   /* functions with a remap */
    int one_row;  /* tiles whose first of several axes has one element */
} Census;
Census passes_census(const Module *);
