/* program_info.h: what program.c and program_keys.c know of each kernel. */
#pragma once
#include "frontend/ast.h"

/* The `config (...)` entries of a tune block: n rows of n_names values, which belong to the first domains. */
typedef struct TuneConfigs {
    int n, n_names;
    FrontValue *values;
} TuneConfigs;

typedef struct KernelInfo {
    FrontKernel k;
    const Node *node;
    Loc *key_locs; /* per dimension; file 0: no key */
    const FrontTune *tune;
    TuneConfigs configs;
    const FrontLadder *ladder;
    const Node *require; /* the tune block's `require (...)`, or NULL */
} KernelInfo;

struct Program {
    VEC(KernelInfo *) kernels;
    NameMap by_name; /* interned name -> KernelInfo */
    int64_t steps;   /* of find_keys, over all kernels */
    VEC(FrontInstance) instances;
};

/* tune_configs.c: fills info->configs and their domains; returns how many. Whether a configuration is listed.
 */
int describe_configs(Session *, struct Lower *eval, KernelInfo *, const Node *block, FrontDomain *);
bool configs_list(const TuneConfigs *, const FrontBinding *config);
/* ladder.c: fills info->ladder. */
void describe_ladder(Session *, struct Lower *eval, KernelInfo *, const Node *);
/* program_keys.c: finds which dimensions of the kernel are tile extents, and fills key_locs and the keys. */
void program_find_keys(Session *, const Ast *, KernelInfo *);
