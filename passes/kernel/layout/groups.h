/* groups.h: between the files of layout: groups of values that lie alike (groups.c), the family of layouts
 * that a group gets (family.c), where loads and stores want their values (sectors.c), and the walk that puts
 * conversions in between (layout.c). */
#pragma once
#include "passes/kernel/warp_specialization/bulk_store.h"

typedef struct Group {
    bool mma; /* the group holds the result of a matrix product */
    /* The kind of the first product that a matrix unit computes. The results of other products are converted
     * if their fragments differ. */
    LayoutMma kind;
    int warps[2];
    bool rows;          /* rows are reduced or feed another product, so warps go along M */
    bool columns;       /* tiles of two axes are reduced along the first */
    bool native;        /* a product on a matrix unit */
    const Instr *plain; /* a product without one */
    /* Products that one operation of the group stacks, and fragments of rows of each; 0: none does. */
    int products, height;
    int rank;
    int64_t box[TILE_MAX_RANK];
    bool box_of_mma;
    int64_t access_bytes; /* of the widest memory access */
    int unit;             /* its unit-stride axis */
    int access_elem;      /* bytes of its elements */
    int access_width;     /* the bytes that one access of a lane can have */
    /* The elements that gathers and the like access one by one, and that other accesses move in vectors. */
    int64_t one_by_one, in_vectors;
    /* The cost of the group's accesses: element by element when they are not aligned, and with unaligned
     * vectors. */
    int64_t by_element, shifted;
    /* odd: some access is not aligned. unfit: some access that is not aligned cannot use unaligned vectors,
     * or must be done element by element. */
    bool odd, unfit;
    int odd_axis;
    const Instr *window;     /* the first load of the tensor whose windows are compared */
    int near;                /* 1 + an axis along which windows of a tensor overlap; 0: there is none */
    int along_k;             /* 1 + the axis along which a product sums over its tiles; 0: none */
    int elem_bytes;          /* of the widest element in the group */
    const Instr *reshape;    /* makes a value of this group from one of another group */
    const Instr *reshape_to; /* makes a value of another group from one of this group */
    const Instr *permute;    /* makes a value of this group from one of another group */
    const Instr *permute_to; /* makes a value of another group from one of this group */
    const Instr *moved;      /* the first that makes one from another group by shape alone */
    const Instr *left;       /* a product whose left operand is a value of the group in registers */
    /* A reshape, permutation or join of a value of this group. Its result, of another group, is a left
     * operand or becomes one by further such operations. NULL: there is none. */
    const Instr *to_left;
    int64_t most;         /* the elements of the largest tile that the group loads or stores */
    const Instr *dropped; /* the first reduction that makes one from another group, without the axis */
    const Instr *reduced; /* the same outside of loops too; `dropped` is in one */
    const Instr *combine; /* makes a value of this group from slices of another group's value */
    bool combined; /* such slices are of a value of this group, which is brought into their layout once */
    /* A value is scanned or sorted, so a thread holds runs of it (kernel_row_layout). */
    bool ordered;
    int runs;            /* 1 + the axis of scans and sorts; -1: of several axes; 0: there are none */
    uint32_t components; /* a bit for each axis of which single positions are taken, or joined */
    /* How many components of records become values of the group, whether the first that comes from another
     * group is one of them, and how often values of the group are accessed or get another shape. */
    int taken, given;
    bool component_of;
    bool visiting;
    bool circular;              /* the group whose layout it would take asked for its own */
    bool followed;              /* has the layout in which its first value comes from another group's */
    bool joined;                /* records lie where the tiles are of which they are joined (components.c) */
    const Layout *accumulators; /* the last of a product's results that a value asked for */
    const Layout *blocked;      /* the last layout of blocks that a value asked for, and its shape */
    int64_t shape[TILE_MAX_RANK];
} Group;

typedef struct Layouter {
    Session *s;
    Func *f;
    KernelPlan *p;
    int *parent; /* union-find over value ids */
    Group **g;   /* of values that stand for their group; NULL until one is asked for */
    uint32_t n;
    int widest, together; /* what components.c notes of loads and stores; 0: it has not been asked for */
    Ranges *ranges;       /* NULL until they are asked for, by group_all alone */
    CheapValues cheap;    /* of those that have numbers below n, until operands get the layouts they need */
    const Layout *slice, *slice_of; /* the slice that a value asked for last, and of which layout it is */
    int slice_axis;
} Layouter;

/* groups.c */
void group_all(Layouter *); /* finds the groups of all values, and their uses */
Group *group_of(Layouter *, const Value *);
bool group_takes(const Value *); /* whether the value is a tile in registers, and not virtual */
bool group_takes_now(Layouter *, const Value *); /* the same before operands get the layouts they need */
/* Whether gathers and the like access most of the group's elements one by one. */
static inline bool group_is_one_by_one(const Group *g) { return !g->mma && g->one_by_one > g->in_vectors; }
bool group_is_odd(Layouter *, const Instr *access, const Value *, int axis);

/* The layout of the shared tile that a copy writes. */
const LayoutShared *group_copied(Layouter *, const Instr *copy);

/* components.c: notes a slice or concat of single positions, and the layout of records for a group. */
void group_note_component(Layouter *, const Instr *);
const Layout *group_of_joined_records(Layouter *, Group *, int rank, const int32_t *tile);
const Layout *group_of_records(Layouter *, Group *, int rank, const int64_t *shape);
/* The layout of tiles that a permutation makes records of, in the lanes that have the records; NULL: there is
 * none, or their accesses would move parts of sectors. */
const Layout *group_before_records(Layouter *, Group *, int rank, const int32_t *tile);
/* Whether a permutation, perhaps with a reshape behind it, makes the group's first value of records. */
bool group_is_behind_records(Layouter *, const Group *);
/* Whether the accesses of the group's values would move whole sectors in this layout, or there are none. */
bool group_accesses_well(Layouter *, const Group *, const Layout *);
/* The layout in which records are loaded that a lane would read in many small pieces; NULL: that of records.
 */
const Layout *group_beside_records(Layouter *, const Instr *load);

/* of_sums.c: the layout of what a product's sums become by shape alone, where they are; NULL: there is none.
 */
const Layout *group_of_sums(Layouter *, Group *, int rank, const int32_t *tile);

/* blocks.c: a layout of blocks, for what accesses and reductions want. */
const Layout *group_blocked(Layouter *, const Group *, int rank, const int64_t *shape);

/* family.c */
/* Gives a value the layout of its group, for the value's own shape. */
void group_assign(Layouter *, Value *);
void group_split_warps(const KernelPlan *, Group *);
const Layout *group_fragment(Layouter *, const Instr *mma, int k,
    const int32_t *tile); /* the layout of operand k (A, B or C) of a product on a matrix unit */
/* The layout in which the result of a reshape, permute, half or pair of halves is without moving elements
 * between threads, or by an exchange of half of them; NULL: there is none. The operands have layouts. */
const Layout *group_moved(Layouter *, const Instr *);
/* The layout in which a slice that is a half, which warps tell from the other, wants its operand: with what
 * warps count in registers, so that halves along all of these axes need no other conversion; else NULL. */
const Layout *group_whole_of(Layouter *, const Instr *slice);
const Layout *group_undivided(Layouter *, const Type *, int axis);

/* join_loads.c, join_stores.c */
/* Makes one load of loads of single positions beside each other. There are no layouts yet. */
bool kernel_join_loads(Session *, Func *, KernelPlan *);
/* Makes one store of stores of single positions beside each other. There are no layouts yet. */
bool kernel_join_stores(Session *, Func *, KernelPlan *);

/* join_gathers.c: the step join-gathers; takes the Layouter, before there are groups. */
KernelStepFn layouter_join_gathers;

/* paired_rows.c: the step paired-rows; takes the Layouter, before values have layouts. */
KernelStepFn layouter_pair_rows;
/* direct_loads.c: the step direct-loads; takes the Layouter, when values have layouts. */
KernelStepFn layouter_direct_loads;

/* layout.c: converts operand k of i to layout l; to any layout that it has; and result k of i from the layout
 * `natural` to the one that was assigned, which its users see. */
void layouter_need(Layouter *, Instr *, int k, const Layout *l);
void layouter_need_any(Layouter *, Instr *, int k);
void layouter_result_in(Layouter *, Instr *, int k, const Layout *natural);

/* sectors.c */
/* The bytes moved per byte of the sectors of L2 accessed, in percent, when one warp stores its register
 * vectors of at most `width` bytes with unit stride along `axis` and rows far apart. */
int layouter_sector_use(const Layouter *, const Layout *, int axis, int bytes, int width);
void layouter_fix_load(Layouter *, Instr *);
void layouter_fix_store(Layouter *, Instr *);
void layouter_store_layout(Layouter *, Instr *);
