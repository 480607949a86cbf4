/* program_info.h: what program.c and program_keys.c know of each kernel. */
#pragma once
#include "frontend/ast.h"

typedef struct KernelInfo {
    FrontKernel k;
    const Node *node;
    Loc *key_locs; /* per dimension; file 0: no key */
    const FrontTune *tune;
    const FrontLadder *ladder;
    const Node *require; /* the tune block's `require (...)`, or NULL */
} KernelInfo;

struct Program {
    VEC(KernelInfo *) kernels;
    NameMap by_name; /* interned name -> KernelInfo */
    int64_t steps;   /* of find_keys, over all kernels */
    VEC(FrontInstance) instances;
};

/* ladder.c: fills info->ladder. */
void describe_ladder(Session *, struct Lower *eval, KernelInfo *, const Node *);
/* program_keys.c: finds which dimensions of the kernel are tile extents, and fills key_locs and the keys. */
void program_find_keys(Session *, const Ast *, KernelInfo *);
