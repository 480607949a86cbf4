/* problem.h: one launch of a kernel, given by its extents, and what the choice without a table counts of a
 * configuration of it. Needs no device. */
#pragma once
#include "frontend/frontend.h"
#include "runtime/choice/search/search.h"

/* Extents, consts and scalars are words NAME=VALUE, scalars without one have their default or are 1; tensors
 * count as contiguous and 16-byte aligned. A word t:TENSOR exchanges the last two axes of a tensor in memory.
 * A word p:N puts the rows of tensors of more than one axis N elements further apart than they are long,
 * p:TENSOR:N those of one. */
typedef struct Problem {
    Ast *(*parse)(void *user, Session *); /* the tree, checked, in that session; NULL after diagnostics */
    void *user;
    const char *kernel;
    CostDevice device;             /* and the target */
    const CompileOptions *options; /* NULL: the target's defaults */
    int n_words;                   /* as problem_view takes them */
    char *const *words;
    const char *path; /* of a problem that bench/gpu/open.h opened; the text of the problem */
    char *text;
    size_t size;
    bool thorough; /* a choice compiles all that it considers */
} Problem;

/* A problem in a session: its syntax tree, and what the caller binds. */
typedef struct ProblemView {
    const Problem *problem;
    Ast *ast;
    const FrontKernel *kernel;
    const FrontTune *tune;     /* NULL: none */
    const FrontBinding *given; /* all words */
    int n_given;
    /* The bindings that are no extents, or whose extent is that of a tile; there is room for a configuration
     * after them. */
    FrontBinding *fixed;
    int n_fixed;
    LaunchFacts facts;
    const Scalar *scalars; /* by parameter */
    const int64_t (*strides)[TILE_MAX_RANK];
} ProblemView;

/* The known facts about one configuration. */
typedef struct ProblemCount {
    bool ok;   /* whether it compiles and its grid is known */
    bool fits; /* shared memory and registers: the choice takes no other */
    Cost cost;
    double lower_ms, count_ms;
} ProblemCount;

/* False: the source has errors, or no such kernel. */
bool problem_view(const Problem *, Session *, ProblemView *);
/* The same with these values for consts, types and extents in place of words. An extent without one counts as
 * PROBLEM_EXTENT. */
enum { PROBLEM_EXTENT = 1024 };
bool problem_view_bound(const Problem *, Session *, const FrontBinding *given, int n, ProblemView *);
/* The configurations of the tune block by number; false: `require` rejects it. Returns their names in `out`,
 * which has room for tune->n. */
bool problem_config(const ProblemView *, int64_t number, FrontBinding *out);
/* Reads "TM=128, TN=256" into `out`; returns how many names there are. */
int problem_read_config(const ProblemView *, Session *, const char *text, FrontBinding *out, int most);
/* "TM=128, TN=256" */
const char *problem_config_text(Session *, const FrontBinding *, int n);
void problem_count(const ProblemView *, Session *, const FrontBinding *config, int n, ProblemCount *out);
/* What a search is told of the problem, which outlives the search, as do the options. */
SearchProblem problem_search(const ProblemView *, const CompileOptions *);
/* The configuration that the library would choose. False: the kernel has nothing to choose. */
bool problem_choose(const ProblemView *, Session *, SearchResult *);
