/* program_info.h: what program.c and program_keys.c know of each kernel. */
#pragma once
#include "frontend/parse/ast.h"

/* The `config (...)` entries of a tune block: n rows of n_names values, which belong to the first domains. */
typedef struct TuneConfigs {
    int n, n_names;
    FrontValue *values;
} TuneConfigs;

/* A const parameter `auto`, and what its value decides in the kernel (program_keys.c, auto.c). */
typedef struct AutoConst {
    Node *param;
    bool grid, tile;      /* the grid clause names it, or it is a side of sums beside those that it names; an
                             extent of a tile depends on it */
    bool last, other;     /* .. along the last axis of a tensor, beside another axis; along another axis */
    bool vector;          /* .. along the last axis, of a tile that has no other one */
    bool record;          /* .. along an axis of records, behind which their components lie */
    bool front, side;     /* .. in front of the two axes of matrices; along another axis of a window */
    bool latency, raster; /* the depth of a load's pipeline; the group of a `raster` clause */
    const char *along;    /* the only dimension that its tiles lie along, or NULL */
    bool many;            /* they lie along several */
    Loc fixed;            /* file not 0: a window of this extent that begins at a fixed place */
} AutoConst;

typedef struct KernelInfo {
    FrontKernel k;
    const Node *node;
    Loc *key_locs;    /* per dimension; file 0: no key */
    bool *key_always; /* per dimension: a key outside of branches of `const if` too */
    const FrontTune *tune;
    TuneConfigs configs;
    const FrontLadder *ladder;
    const Node *require; /* the tune block's `require (...)`, or NULL */
    AutoConst *autos;
    int n_autos;
} KernelInfo;

struct Program {
    VEC(KernelInfo *) kernels;
    NameMap by_name; /* interned name -> KernelInfo */
    int64_t steps;   /* of find_keys, over all kernels */
    VEC(FrontInstance) instances;
};

struct Lower; /* frontend/lower/lower.h */

/* program.c: what is known of the kernel with this name (interned). */
const KernelInfo *program_info(const Ast *, const char *kernel);

/* tune_configs.c: fills info->configs and their domains; returns how many. Whether a configuration is listed.
 */
int describe_configs(Session *, struct Lower *eval, KernelInfo *, const Node *block, FrontDomain *);
bool configs_list(const TuneConfigs *, const FrontBinding *config);
/* tune_fit.c: fills the steps of the domains that `fit` names. */
void describe_fit(const Node *block, FrontDomain *, int n);
/* auto.c: lists the `auto` constants, before their uses are looked for; gives them their defaults; adds their
 * domains to the tune block, which it makes if there is none. Whether the tiles of a configuration are of a
 * size that the space of `auto` has. */
void list_autos(Session *, KernelInfo *);
void set_auto_defaults(Session *, Ast *, KernelInfo *);
void describe_autos(Session *, Ast *, KernelInfo *);
bool autos_allow(const KernelInfo *, const FrontBinding *config);
/* ladder.c: fills info->ladder. */
void describe_ladder(Session *, struct Lower *eval, KernelInfo *, const Node *);
/* program_keys.c: finds which dimensions of the kernel are tile extents, and fills key_locs and the keys. */
void program_find_keys(Session *, const Ast *, KernelInfo *);

/* Whether the name (interned) stands anywhere in the tree. */
bool program_mentions(const Node *, const char *name);
/* The same, also by way of the defaults of other constants. */
bool program_depends(const Node *params, const Node *, const char *name);
