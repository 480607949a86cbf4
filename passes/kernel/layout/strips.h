/* strips.h: operations on tiles done for strips of an axis, one after the other (strips.c). The passes that
 * use it say which operations, and how wide strips are: column_strips.c, load_strips.c,
 * gather_strips.c. */
#pragma once
#include "passes/kernel/layout/guarded_load.h"
#include "passes/kernel/layout/ring_tiles.h"
#include "passes/kernel/pipeline/hoist_loads.h"

typedef struct Strips {
    Hoist h;          /* what a thread holds */
    Block *block;     /* in which the operations are */
    const Value *sum; /* of which strips are slices; NULL: there is none */
    int64_t length;   /* of the axis */
    int64_t extent;   /* of a strip */
    bool *member;     /* by value: done for strips, and so what is made of it */
    int *axis;   /* by value: of members, and of all of which there are strips, the axis that these are of */
    bool *taken; /* by value: read by members only, so that no thread needs the whole of it */
    uint32_t values;      /* that these arrays have */
    ValueList roots;      /* members that others read */
    Instr *first;         /* of these readers, in the block */
    InstrList loads;      /* that begin each strip; the others come where they are read */
    Value **strip;        /* by value: of the strip that is made */
    Value **token;        /* by value: of the last strip that was loaded of it */
    int64_t start;        /* of that strip */
    bool gathers;         /* cuts gathers, too */
    bool apart;           /* the C compiler moves no part of a strip behind the next one */
    RingTiles rings;      /* tiles that come through rings, which are cut too; empty: they are read whole */
    VEC(RingStrip) order; /* in which strips read them */
} Strips;

/* What a thread holds when the operations begin, in words. They are done element by element behind all that
 * they read, in the place of an operand, and casts widen where they are read. Tiles from rings are read last,
 * behind a wait for them. */
typedef struct StripsHeld {
    int64_t whole; /* what is computed whole though strips read it */
    int64_t cut;   /* what strips load */
} StripsHeld;

/* No member, for values of the block. */
void strips_init(Strips *, KernelContext *, Block *);
static inline bool strips_member(const Strips *x, const Value *v)
{ return v->id < x->values && x->member[v->id]; }
static inline void strips_add(Strips *x, const Value *v, int axis)
{
    x->member[v->id] = true;
    x->axis[v->id] = axis;
}
/* Finds the roots among the members that `from` and what follows define, and their first reader. */
void strips_find_roots(Strips *, Instr *from);
/* Finds what members read and nobody else. */
void strips_find_taken(Strips *);
static inline bool strips_is_load(const Instr *i) { return i->op == OP_LOAD || kernel_guarded_load(i); }
/* A gather of a tile of a tensor that is only read, without a mask. */
bool strips_gather(const Func *, const Instr *);
/* Whether the value is made for each strip. */
bool strips_is_cut(const Strips *, const Value *);
/* Adds what is held for strips of a value along the axis, once. Ended by strips_clear. */
void strips_count(Strips *, Value *, int axis, StripsHeld *);
void strips_clear(Strips *);
/* The operand's axis that `axis` of the result is; of operations that can be cut. -1: there is none. */
int strips_operand_axis(const Instr *, int axis);
/* Whether all roots have strips of this extent. */
bool strips_exist(Strips *, int64_t extent);
/* Whether all that strips need is there before the first reader. */
bool strips_precede(const Strips *);
/* Makes the strips. */
void strips_cut(Strips *);
