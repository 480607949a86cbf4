/* tuner.h: tile_kernel_tune and its parts. tune_run.c enumerates and drives, tune_compile.c compiles,
 * tune_check.c compares results, tune_time.c times, tune_write.c writes tables. docs/tuning.md says what is
 * done and why. */
#pragma once
#include "runtime/launch/kernel.h"

enum { TUNE_MAX_CONFIGS = 16384, TUNE_MAX_TRIES = 1 << 17, TUNE_BATCH = 32 };

typedef struct Candidate {
    const FrontBinding *config;
    int n_config;
    const char *text;
    bool is_default;
    tile_context *context; /* a context of its own, whose error text no other thread writes */
    tile_kernel *kernel;   /* NULL when there is no code to launch */
    uint8_t digest[32];
    bool digested;
    tile_tune_state state;
    double ms, deviation;
    int launches, registers, spill_bytes;
    uint64_t shared_bytes;
    bool full; /* its whole result was compared, instead of samples */
    struct tile_tune *tune;
    char reason[480];
} Candidate;

/* One output of the launch: its place, its former contents, and the result of the first good configuration.
 * */
typedef struct TuneOutput {
    int param;
    size_t bytes; /* from lo to hi */
    uintptr_t lo;
    bool dense;
    const View *view;
    const int64_t *strides;
    void *saved;       /* on the device */
    char *want, *have; /* on the host */
    size_t host_bytes;
    double rms;
} TuneOutput;

struct tile_tune {
    tile_context *context;
    tile_kernel *kernel; /* counted */
    Session session;
    tile_tune_desc desc;
    void *stream;
    const tile_arg *args;
    size_t n_args;    /* the caller's arguments, during the call */
    LaunchArgs bound; /* the same after they were read; during the call */
    Candidate *all;
    int n;
    Candidate **sorted;
    double deadline, compile_deadline;
    TuneOutput *outputs;
    int n_outputs;
    bool checks;
    void *workspace;
    size_t workspace_bytes;
    void *flush;
    size_t flush_bytes;
    void *begin[TUNE_BATCH], *end[TUNE_BATCH]; /* the events of launches that are in flight together */
    pthread_mutex_t lock;                      /* guards digests and calls of on_progress, next and done */
    int next, done;
    TuneItem *key;
    int n_key; /* of the table's entry */
    int n_good, n_wrong;
};

double tune_now(void); /* seconds */
/* Whether this moment has passed, or the caller wants the tuning to stop. */
bool tune_past(const tile_tune *, double deadline);
void tune_report(tile_tune *, tile_tune_stage, int round, size_t done, size_t total, const Candidate *);
void tune_describe(const Candidate *, tile_tune_entry *);
void tune_fail(Candidate *, tile_tune_state, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Records that the candidate failed. Its context has the reason. */
void tune_fail_status(Candidate *, tile_status);
void tune_drop(Candidate *); /* gives up its code */

/* Compiles all candidates, several at a time, until two thirds of the budget are spent. */
tile_status tune_compile(tile_tune *);

tile_status tune_check_begin(tile_tune *);
/* Restores the inputs that the caller gave. `poison`: tensors that will be written hold NaNs, so that
 * elements that are never written are detected. */
tile_status tune_restore(tile_tune *, bool poison);
/* Launches it once on such inputs and compares. The first result becomes the reference. It returns a failure
 * only if continuing makes no sense. */
tile_status tune_check(tile_tune *, Candidate *, bool full);
void tune_check_end(tile_tune *);

tile_status tune_launch(tile_tune *, Candidate *);
tile_status tune_time_begin(tile_tune *);
/* From the first launch to the last four: medians in ms. */
tile_status tune_time(tile_tune *);
void tune_time_end(tile_tune *);

/* Every const of the kernel that its `tune` block does not choose, as items of an entry's key; returns how
 * many. `out` has room for all parameters of the kernel. */
int tune_const_key(const tile_kernel *, const FrontTune *, Session *, TuneItem *out);
/* tune_write.c: puts `n` entries into the table at `path`. */
tile_status tune_put_entries(tile_context *, Session *, const char *path, const TuneEntry *, int n);
/* A text without what tables cannot hold, in the session; NULL gives "". */
const char *tune_plain(Session *, const char *text);
