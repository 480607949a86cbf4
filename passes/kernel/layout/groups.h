/* groups.h: between the files of layout: groups of values that lie alike (groups.c), the family of layouts
 * that a group gets (family.c), where loads and stores want their values (sectors.c), and the walk that puts
 * conversions in between (layout.c). */
#pragma once
#include "passes/kernel/warp_specialization/bulk_store.h"

typedef struct Group {
    int parent;     /* union-find over value ids */
    bool mma;       /* holds the result of a matrix product */
    LayoutMma kind; /* of the first one that a matrix unit computes: the others' results are converted where
                       their fragments differ */
    int warps[2];
    bool rows;          /* rows are reduced or feed another product: warps go along M */
    bool native;        /* a product on a matrix unit */
    const Instr *plain; /* a product without one */
    int rank;
    int64_t box[TILE_MAX_RANK];
    bool box_of_mma;
    int64_t access_bytes;        /* of the widest memory access */
    int unit;                    /* its unit-stride axis */
    int access_elem;             /* bytes of its elements */
    int access_width;            /* bytes that one access of a lane can have */
    int64_t by_element, shifted; /* what its accesses cost, by element where they are not aligned; by aligned
                                    vectors, shifted */
    bool odd, unfit; /* one of them is not aligned; one that is not cannot be shifted, or elements are taken
                        one by one */
    int odd_axis;
    int elem_bytes;          /* of the widest element of all */
    const Instr *reshape;    /* makes a value of the group from another group's */
    const Instr *reshape_to; /* makes another group's value from one of this */
    const Instr *left;       /* a product that takes a value of the group as left operand from registers */
    int64_t most;            /* elements of the largest tile that it loads or stores */
    const Instr *combine;    /* makes a value of the group from slices of another group's */
    bool ordered;            /* scanned or sorted: runs of it a thread (kernel_row_layout) */
    bool visiting;
} Group;

typedef struct Layouter {
    Session *s;
    Func *f;
    KernelPlan *p;
    Group *g;
    uint32_t n;
} Layouter;

/* groups.c */
void group_all(Layouter *); /* of all values, and what they do */
Group *group_of(Layouter *, const Value *);
bool group_takes(const Value *); /* does it lie in registers? else it is virtual, or no tile */
bool group_is_odd(Layouter *, const Instr *access, const Value *, int axis);

const LayoutShared *group_copied(Layouter *, const Instr *copy); /* how it lies where a copy puts it */

/* family.c */
void group_assign(Layouter *, Value *); /* the group's layout, of the value's own shape */
void group_split_warps(const KernelPlan *, Group *);
const Layout *group_fragment(Layouter *, const Instr *mma, int k,
    const int32_t *tile); /* operand k of a product on a matrix unit: A, B, C */
const Layout *group_blocked(Layouter *, const Group *, int rank, const int64_t *shape);
const Layout *group_undivided(Layouter *, const Type *, int axis);

/* layout.c: operand k of i in l; in any layout; result k of i lies in `natural`, its users see what was
 * assigned. */
void layouter_need(Layouter *, Instr *, int k, const Layout *l);
void layouter_need_any(Layouter *, Instr *, int k);
void layouter_result_in(Layouter *, Instr *, int k, const Layout *natural);

/* sectors.c */
void layouter_fix_load(Layouter *, Instr *);
void layouter_fix_store(Layouter *, Instr *);
void layouter_store_layout(Layouter *, Instr *);
