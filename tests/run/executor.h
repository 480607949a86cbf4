/* executor.h: whatever runs a problem: libtile on a device, the IR interpreter, an emulator. */
#pragma once
#include "problem.h"

enum { MAX_ARGS = 32, MAX_LAUNCHES = 6 };

/* A launch argument: a tensor (the first `drop` axes taken at 0) or a scalar; neither, `-` in a recipe, for
 * an optional tensor that is left out. */
typedef struct Arg {
    const Tensor *tensor;
    const ScalarArg *scalar;
    int drop;
} Arg;

typedef struct Launch {
    char kernel[48];
    int n_args, n_consts;
    Arg args[MAX_ARGS];
    Bind consts[MAX_BINDS];
} Launch;

/* One run of a problem: its launches in order, on one copy of its tensors. */
typedef struct Run {
    const Problem *problem;
    const char *path; /* of the .tile file */
    int n_launches;
    Launch launches[MAX_LAUNCHES];
    bool passes;      /* optimizing passes on or off */
    const char *skip; /* passes that are left out of those that are on, "cse,licm"; NULL: none */
} Run;

typedef struct Executor {
    const char *name, *doc; /* name: what --device says */
    /* Returns NULL and the reason when this machine has no such device. The tests are then skipped. */
    void *(*open)(const char *name, char *why, size_t why_size);
    /* Runs the problem and leaves the results in the tensors' own memory. Returns false and the reason on
     * failure. */
    bool (*run)(void *state, const Run *, char *why, size_t why_size);
    void (*close)(void *state);
    /* The code that was emitted for the last run; NULL: there is none. */
    const char *(*text)(const void *state);
    void (*draw)(void *state, int order,
        int late); /* for an emulator: the random choices in the next runs (tests/emu/emu.h) */
    /* For an executor that has a quick compiler of lower quality: whether runs from now on use the reliable
     * one. NULL or false: there is only one. */
    bool (*thorough)(void *state, bool thorough);
} Executor;

/* All executors of this build, ended by one without a name. */
extern const Executor executors[];

/* A refusal of tiles that are larger than a device's shared memory or registers: it is said, and is no wrong
 * result. Executors begin such a reason with "SKIP: ". */
bool executor_too_large(const char *message);

/* Fills run->launches from the recipe's text. False and the reason when the table is wrong. */
bool run_prepare(Run *, const Problem *, const char *kernels_folder, char *path, size_t path_size, char *why,
    size_t why_size);
