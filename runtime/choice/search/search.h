/* search.h: looks among the configurations of a `tune` block for the one that should run fastest, by the
 * estimates of cost.h: some dozens of them are compiled as far as their emission, in threads, none is run.
 * The runtime asks where no table speaks (choose.c), tilec where tiles do not fit a target and for `auto`
 * constants. On a CPU constants are chosen and no hints, by what search_cpu.c counts in the tile IR. */
#pragma once
#include "runtime/compile/compile.h"
#include "runtime/choice/cost/cost.h"

typedef struct SearchProblem {
    Ast *(*parse)(void *user, Session *); /* the tree, checked, in that session */
    /* Extents (room for the kernel's dimensions), grid and number of programs; false: nothing can be said. */
    bool (*shape)(void *user, const Compiled *, int64_t *dims, EvalEnv *, int64_t *programs);
    /* The extent of a dimension by name, as far as it is known; else -1. */
    int64_t (*extent)(void *user, const char *dimension);
    void *user;
    const char *kernel;
    const FrontBinding *bindings;
    int n_bindings; /* what is not chosen */
    const LaunchFacts *facts;
    const CompileOptions *options;
    CostDevice device;   /* model NULL: by the number of programs alone, among what the grid clause names */
    int threads;         /* at most; 0: one a processor */
    bool only_if_needed; /* the declared defaults, if they fit */
    bool thorough;       /* all that is considered is compiled, where else predictions choose of it */
} SearchProblem;

/* A configuration to take instead where the vendor's compiler keeps much of the chosen one in memory. */
enum { SEARCH_OTHERS = 2 };
typedef struct SearchOther {
    const FrontBinding *config;
    int n;
    double ns, spilled; /* the estimate, and what each byte that a thread spills adds to it */
} SearchOther;

typedef struct SearchResult {
    const FrontBinding *config;
    int n;                  /* n 0: the declared defaults */
    double ns, declared_ns; /* estimates; INFINITY: does not fit */
    Bound bound;
    int tried;
    bool short_of_memory; /* some could not be estimated, so that another search may find a better one */
    double spilled;       /* as a SearchOther has it */
    /* Configurations that want fewer and fewer registers, by their estimates; each binds no extent that
     * `config` does not bind. */
    SearchOther other[SEARCH_OTHERS];
    int n_others;
    bool automatic; /* `auto` constants are among what was chosen: they have defaults that nobody declared */
} SearchResult;

/* What an estimate is multiplied by before it is compared, where it is known to be too low. declared: of the
 * configuration that the source declares. */
double search_doubt(const Cost *, const DeviceModel *, bool declared);
/* search_programs.c: whether warps and CTAs are chosen for a kernel that has no `tune` block: neither its
 * source nor these bindings say anything of them. */
bool search_lacks_block(const FrontKernel *, const FrontBinding *, int n, const Target *);
/* The result lies in the session. False: there is nothing to choose: the kernel has no `tune` block, and what
 * search_lacks_block says does not hold; or nothing in it is free. */
bool search_configuration(Session *, const SearchProblem *, SearchResult *);
/* The advice of cost_advise about the configuration, for callers that show performance notes. It compiles the
 * kernel once more, whose own notes are dropped. The notes' places lie in sources of the session. */
void search_advise(Session *, const SearchProblem *, const FrontBinding *config, int n);
/* "TM=128, TN=256": what was chosen, or "as declared". */
const char *search_text(Session *, const SearchResult *);
