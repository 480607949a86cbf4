/* pass.h: what the files of this folder share; not for others. */
#pragma once
#include "passes/passes.h"

typedef struct PassContext {
    Session *session;
    const PassOptions *options;
    Arena *scratch;     /* emptied after the pass */
    PassReport *report; /* never NULL */
    PassId pass;
} PassContext;

#define PASS(ID, name, function, level, on, keeps, doc) bool function(PassContext *, Module *);
#include "passes/passes.def"

/* Runs passes of either IR one at a time: names, times, dumps, verifies, stops. */
typedef struct PassRunner {
    Module *module;
    const PassOptions *options;
    PassReport *report; /* never NULL */
    Arena *scratch;     /* emptied after each pass */
    PassSet skip, with, dump;
    int stop;     /* a PassId; -1: none */
    bool stopped; /* the pass after which nothing runs */
    bool failed;  /* after diagnostics */
    bool verify;
    bool laid_out;    /* kernel IR: tiles of registers have layouts, and what is taken whole is held */
    bool carry_on;    /* run the remaining passes after a pass that reported an error */
    int64_t inner_ns; /* of the steps of the pass that runs */
    PassSet parts;    /* steps that it has taken by parts: they end with it */
    struct PassPart {
        bool progress;
        int64_t ns;
    } part[PASS_COUNT];
} PassRunner;
typedef bool PassCall(void *user, PassRunner *, PassId); /* returns whether it changed something */

void pass_runner_init(PassRunner *, Module *, const PassOptions *, PassReport *report);
/* Is the pass left out, for it is off or named in options.skip? */
bool pass_runner_skips(const PassRunner *, PassId);
/* Runs one pass; returns its progress. Does nothing once the runner has stopped or failed. A pass may call it
 * for a step of its own, where its IR is whole before and behind the step: then the step is timed, verified
 * and dumped by itself. The pass asks pass_runner_ended behind it, and if so leaves the IR as it is. */
bool pass_runner_call(PassRunner *, PassId, PassCall *, void *user);
static inline bool pass_runner_ended(const PassRunner *r) { return r->stopped || r->failed; }
/* Runs a part of a step whose IR is whole only when the pass around it has ended, and returns its progress.
 * Its parts are timed together. The runner dumps the IR for the step, and stops behind it, as the pass ends.
 */
bool pass_runner_part(PassRunner *, PassId, PassCall *, void *user);
/* Reports names in the options that no pass has, or that do not apply. True: there are none. */
bool pass_options_check(Session *, const PassOptions *);

/* Adds to a statistic of the running pass. `what` must live as long as the session (a literal). */
void pass_count(PassContext *, const char *what, int64_t n);

/* The blocks a function owns: body, grid, remap, extents; absent ones are left out. Returns their number. */
enum { FUNC_ROOTS = 4 };
int func_roots(const Func *, Block *out[FUNC_ROOTS]);
/* fn for every function of the module; true if any call was. */
bool pass_each_func(PassContext *, Module *, bool (*fn)(PassContext *, Func *));

/* Old value -> new; erases the instruction `v` came from when nothing else of it is used. */
void replace_value(Value *v, Value *by);
/* An empty block's or a loop body's instructions, without terminator, go before `at`. */
void splice_before(Instr *at, Block *from);
bool is_tile(const Value *);
bool is_loop(const Instr *);
/* The constant `v` of type `t` (integers, bools; floats), splatted for a tile. */
Value *build_int(Builder *, const Type *t, int64_t v);
Value *build_float(Builder *, const Type *t, double v);
/* A read whose result depends on nothing but its operands: a load or gather from an `in` parameter. */
bool is_constant_read(const Instr *);
/* The last token that a write gives (or the chain's start), because reads pass tokens on. */
Value *last_write(Value *token);
