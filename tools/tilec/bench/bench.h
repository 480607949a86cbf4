/* bench.h: `tilec bench` over steps of a ladder, sizes of a sweep and other providers (docs/bench.md). */
#pragma once
#include "tools/tilec/run/run.h"

/* One size: values for the names of the sweep, in their order. */
typedef struct BenchSize {
    const int64_t *values;
} BenchSize;
typedef struct Sweep {
    Strings names;
    size_t first;         /* how many of them the first option has */
    VEC(BenchSize) sizes; /* at least one; without --sweep one size without names */
} Sweep;

/* bench_sweep.c: all --sweep options: their product. EXIT_OK or an exit code after a message. */
int sweep_read(Tool *, const Args *, Sweep *);
/* "M=N=K=128", or "" */
const char *sweep_title(Arena *, const Sweep *, size_t size);
/* The names of the first --sweep option as a label, and the values of the sizes along it. */
const char *sweep_axis(const Sweep *);
double sweep_at(const Sweep *, size_t size);

typedef enum BenchState { BENCH_OK, BENCH_SAME, BENCH_ABSENT, BENCH_WRONG, BENCH_FAILED } BenchState;
typedef enum BenchChecked { BENCH_UNCHECKED, BENCH_REFERENCE, BENCH_CORRECT } BenchChecked;

/* The operations and bytes of one launch. */
typedef struct BenchWork {
    double flops;                       /* of products; without any, `operations` */
    double operations;                  /* all on floats, those of products among them */
    double flops_8, flops_16, flops_32; /* by the type of their operands */
    double bytes;
    bool sampled; /* counted in some of the programs only */
} BenchWork;

/* One step or provider at one size. */
typedef struct BenchRow {
    size_t size;
    int column; /* the number of the step or provider */
    BenchState state;
    BenchChecked checked;
    Measured time;      /* n 0: not timed */
    double worst;       /* the largest deviation from the reference, absolute */
    const char *reason; /* one line; of SAME the step with the same code; of ABSENT why; "" */
    const char *config; /* of a step that tunes: what was chosen; "" */
    const char *why;    /* of SAME: the compiler's remark that the other step's compilation had not; "" */
    const char *notes;  /* the compiler's remarks on performance */
    BenchWork work;
    double peak;       /* the fraction of the device's peak; 0: not known */
    const char *bound; /* what that peak is of: "arithmetic", "memory" */
} BenchRow;

/* A line of the table: a step, the kernel by itself, or a provider. */
typedef struct BenchColumn {
    const char *name, *text; /* text: what changed, or "" */
    const FrontStep *step;   /* NULL: the kernel as the command line has it, or a provider */
    bool provider;
} BenchColumn;

typedef struct Bench {
    Tool *tool;
    const Args *args;
    Sweep sweep;
    const char *kernel, *device, *target, *options; /* for the head of the table */
    VEC(BenchColumn) columns;
    VEC(BenchRow) rows; /* size by size, in the order of the columns */
    double atol, rtol;  /* below 0: by the type */
    double work;        /* --work, or 0 */
    double seconds;     /* how long each is timed */
    bool ladder, graph;
    Profile profile; /* --profile */
    MachineLoad load;
    const char *noise; /* a warning, or NULL */
    Text log;
    const char *directory; /* --output-dir, or NULL */
} Bench;

/* cmd_run.c: one launch, or its time. */
int run_plain(Tool *, const Args *, bool timed);
/* cmd_bench.c: the value of an option; false after a message. */
bool bench_number(Tool *, const Args *, FlagId, double least, double *value);
void bench_log(Bench *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const BenchRow *bench_row(const Bench *, size_t size, int column); /* NULL: none */
/* The row that others are compared with: the first of the size that was timed; and the one before. */
const BenchRow *bench_baseline(const Bench *, size_t size);
const BenchRow *bench_previous(const Bench *, const BenchRow *);

/* bench_steps.c: the values of the run, then the step's own (NULL: none), then those of a configuration,
 * "TM=128, TN=64". On a CPU hints are left out. */
const tile_binding *bench_bindings(Run *, const FrontStep *, const char *config, size_t *n);
/* Why a step has the code of another one: a remark of the compiler, or the values that change nothing. */
const char *bench_same_remark(Bench *, Run *, const BenchRow *row, const BenchRow *same);

/* bench_work.c: counts the work of a launch of r->kernel. False: it cannot be counted (bytes are set). */
bool bench_count(Run *, BenchWork *);
/* The fraction of the device's peak that the work takes in `ms`; 0 where the device's rates are not known. */
double bench_peak(const Run *, const BenchWork *, double ms, const char **bound);

/* bench_check.c: the results that are right. */
typedef struct Reference {
    void **data;      /* by parameter, row-major like the parameter's own; NULL: not known */
    const char *name; /* where they are from; NULL: there are none yet */
} Reference;
/* What --expect asks for, for this size; without --expect there is none until reference_take. */
int reference_make(Bench *, Run *, Reference *);
/* cmd_bench.c: compares the outputs of the last launch, or takes them as reference where there is none. */
void bench_check_results(Bench *, Run *, Reference *, BenchRow *);
/* Takes the outputs of the last launch as reference. */
int reference_take(Run *, Reference *, const char *name);
/* Compares the outputs of the last launch. NULL: they agree; else one line. *poisoned: NULL, or a line on
 * elements of an `out` tensor that hold the poison on both sides, which agree although nothing stored them.
 */
const char *reference_compare(Bench *, Run *, const Reference *, double *worst, const char **poisoned);
void reference_free(Run *, Reference *);

/* bench_write.c: the table in its forms. */
void bench_text(const Bench *, Text *);
void bench_csv(const Bench *, Text *);
void bench_json(const Bench *, Text *);
void bench_markdown(const Bench *, Text *);
void bench_plot(const Bench *, Text *);
/* Whether the folder of --output-dir can be written to, or made; before anything is measured. */
int bench_check_directory(Bench *);
/* Makes the folder, and adds all files that are asked for; an exit code. */
int bench_outputs(Bench *, Outputs *);

/* bench_graph.c: --graph: whether the device has CUDA graphs, an exit code; and times launches in one. */
int graph_check(Bench *);
int graph_time(Bench *, Run *, Measured *);

/* bench_profile.c: --profile: counts what the hardware does in a launch like those that were timed since the
 * profile had `before` launches. Says in one line why there are no counters. */
void bench_count_events(Bench *, Run *, size_t before);
/* Gives the counters' library back. */
void bench_close_profile(Bench *);

/* bench_against.c: other libraries. Adds a column for each of --against that is found; an exit code. */
int against_open(Bench *);
/* Computes, checks and times by the provider of the row's column. */
void against_run(Bench *, Run *, Reference *, BenchRow *);
