/* random_ir.h: random programs of tile IR, run by the interpreter and another way, after all passes or none:
 * what is drawn, compared, shown, and cut down when it fails. */
#pragma once
#include "gen_ir.h"
#include "passes/passes.h"
#include <stdio.h>

typedef struct RandomOutcome {
    bool ran, same;
    char why[1000];
} RandomOutcome;
typedef struct RandomCase {
    uint64_t seed;
    bool passes, cut;  /* cut: down from the seed's program */
    bool drawn, brief; /* of a campaign (ir_campaign.h); brief: a short program */
} RandomCase;

/* The other way: compiles k->func (after the passes, where asked for) and runs it on k->args. False with the
 * reason. */
typedef bool RandomRunFn(void *user, Session *, GenKernel *k, const RandomCase *, char *why, size_t why_size);
typedef struct RandomWay {
    const Target *target;
    int opt_level; /* of the passes; 0: the default */
    RandomRunFn *run;
    void *user;
    bool emit_only; /* run does not run: results are not compared */
    /* Runs from now on take a slower way, in which a failure is certain. False: there is none. NULL: each run
     * is certain. */
    bool (*thorough)(void *user);
} RandomWay;

/* The number that a campaign draws from the seed for purpose `which`: 0 its own, 1 the way's. */
uint64_t random_ir_draw(uint64_t seed, int which);
/* Writes the case's program. */
void random_ir_write(FILE *, const RandomCase *);
/* Runs the program of the seed, or `text` in its place on the seed's tensors. */
RandomOutcome random_ir_try(const RandomWay *, const RandomCase *, const char *text);
/* With passes and without; says what differs, and how many did. The first failure is cut down and printed, in
 * the form in which it can be kept as a file, if !*explained. */
int random_ir_both(const RandomWay *, uint64_t seed, const char *text, const char *name, bool *explained);
/* A file that starts with its seed, as printed by random_ir_both. */
int random_ir_file(const RandomWay *, const char *path);
