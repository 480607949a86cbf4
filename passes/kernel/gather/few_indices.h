/* few_indices.h: gathers of which elements beside each other have one index, or two (few_indices.c). */
#pragma once
#include "passes/kernel/gather/runs.h"

/* How a warp reads what is gathered. */
typedef enum GatherWay {
    GATHER_EACH,  /* each element by an access of its own, or by vectors */
    GATHER_ALIKE, /* one access for each vector of a lane */
    GATHER_BOTH,  /* two: of its first and its last element */
    GATHER_LANES  /* two of each lane: of the first and the last element of one of the groups of the warp */
} GatherWay;

typedef struct FewIndices {
    GatherWay way;
    int axis;
    LayoutVector v;  /* GATHER_ALIKE, GATHER_BOTH */
    GatherStep step; /* GATHER_BOTH, GATHER_LANES */
    /* GATHER_LANES: the registers of a lane are `groups` of n elements, and group k of a warp has the
     * coordinates from first + k * apart on, lane after lane. */
    int n, groups, first, apart;
    bool alike; /* GATHER_LANES: a lane's elements of a group have one index */
} FewIndices;

FewIndices kernel_few_indices(const Func *, Ranges **, const Instr *gather, const Layout *, const Target *);
/* The registers of a thread for what is read, until elements are chosen of it. */
int kernel_few_words(const FewIndices *, const Instr *gather, const Layout *);
