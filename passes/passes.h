/* passes.h: the passes of the tile IR and the runner that orders, names, times, dumps and verifies them.
 *
 *     PassOptions o = pass_options_default(target);
 *     o.skip = "exp2";
 *     if (!passes_run(module, &o, &report)) ... diagnostics say why
 *
 * Every pass keeps the module valid and its results equal, to the bit except where its file says within which
 * bound. */
#pragma once
#include "ir/ir.h"
#include "ir/target.h"

typedef enum PassId {
#define PASS(ID, name, function, level, on, doc) PASS_##ID,
#include "passes/passes.def"
#undef PASS
    PASS_COUNT
} PassId;

typedef struct PassInfo {
    const char *name;
    int level;
    bool on;
    const char *doc;
} PassInfo;
extern const PassInfo pass_info[PASS_COUNT];

typedef struct PassOptions {
    const Target *target; /* NULL: none in particular */
    int opt_level;        /* 0..3 */
    const char
        *passes; /* "fold,cse": run these in this order and nothing else; NULL: the pipeline of opt_level */
    const char *schedule, *schedule_name; /* a schedule written by hand for GPU targets, and the name of its
                                             file; NULL: none (docs/schedule.md) */
    const char *skip;                     /* "exp2,licm": leave these out; NULL: none */
    const char *dump_after; /* "cse" or "all": hand the module's text to on_dump after these; NULL: none */
    void (*on_dump)(void *user, const char *pass, const char *text);
    void *dump_user;
    bool verify_each;  /* the verifier after every pass that made progress */
    bool time_passes;  /* fill PassRecord.ns */
    bool check;        /* `--check`: see check.c */
    bool print;        /* keep print: tilec run, --check, -g */
    bool approx, ftz;  /* approximate division and functions; denormals flushed: see approx.c */
    const char *remap; /* "xcd", "chunk:64", "head+raster:8", "auto", "none"; NULL: what the kernel says: see
                          remap.c */
    int xcds;          /* chiplets of the target; 0: its table says */
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

typedef struct PassReport { /* lives in the module's session */
    VEC(PassRecord) runs;   /* in the order run */
    VEC(PassStat) stats;    /* one for each (pass, what) */
    const char *remap; /* the placement of the last kernel, `auto` decided: "head+raster:8"; NULL: the pass
                          did not run */
} PassReport;

/* Runs the pipeline. `report` may be NULL. False after diagnostics: an unknown pass name, or a module that no
 * longer verifies (then the pass is named). */
bool passes_run(Module *, const PassOptions *, PassReport *report);
/* Sum of a statistic over a report; 0 when it never counted. */
int64_t pass_stat(const PassReport *, PassId, const char *what);
bool pass_parse(const char *name, size_t len, PassId *);
/* Whether `name` stands in options->skip: for the passes of the kernel IR (KERNEL_PASS in passes.def), which
 * run elsewhere but share the flags. Their names are accepted here and ignored. */
bool pass_skipped(const PassOptions *, const char *name);
/* The table for --time-passes and for --help. */
void passes_print_times(const PassReport *, Text *);
void passes_print_list(Text *);

/* What the tests and `--perf` reports count in a module: static instruction counts, nested ones included. */
typedef struct Census {
    int instrs, tile_instrs; /* all; those with a tile result */
    int exps, exp2s, permutes, ordered_loads;
    int loads, stores, masked;     /* masked: loads and stores not proven in range */
    int index64;                   /* instructions that compute in 64-bit index or i64 */
    int loops, selects;            /* selects: `where` with a tile result */
    int loop_masked, loop_selects; /* the same two inside of innermost loops that are not marked as edges */
    int divs, fmas, calls, asserts;
    int approx;   /* instructions marked approx */
    int asks;     /* program numbers, extents, strides and grid sizes read from the launch */
    int in_loops; /* instructions inside of loops */
    int buffers;  /* asked for by loads: the sum of their latencies */
    int remaps;   /* functions with a remap */
} Census;
Census passes_census(const Module *);
