/* rotate.h: between rotate.c, which finds a loop's early and late part, rotate_carried.c, which makes one
 * body of them, and cross_tile_pipelining.c, which lets them cross the border of two programs. */
#pragma once
#include "passes/kernel/pipeline/software_pipelining.h"

/* late[id]: the value belongs to the late part */
typedef struct LateValues {
    bool *late;
    uint32_t n;
    Instr *loop;
    Block *body;
    Instr *product;
} LateValues;
typedef struct Parts {
    InstrList early_issue, early_rest, early_casts, late_issue, late_wait;
} Parts;

/* A loop that can be rotated: its parts, and the values that go from early to late. */
typedef struct Rotation {
    Overlap *c;
    LateValues s;
    Parts p;
    ValueList cross;
    Instr *loop, *yield;
    int n;
} Rotation;

static inline bool is_late(const Rotation *r, int k) { return r->s.late[r->s.body->args[k + 1]->id]; }

void rotate_clone_early(Overlap *, Builder *, const Parts *, ValueMap *);
/* Instructions after an issue, one after the other. A wait leaves the products in flight that were issued
 * after its own. */
void rotate_clone_rest(Overlap *, Builder *, const InstrList *, ValueMap *);
/* One step: early products of it, late products of the step before, arithmetic under them. */
void rotate_clone_step(Rotation *, Builder *, ValueMap *early, ValueMap *late);
void rotate_clone_late(Rotation *, Builder *, ValueMap *late);
/* Builds one body for all steps, with late products carried in flight. False: nothing changed, because not
 * only late products come after the arithmetic. */
bool rotate_carried(Rotation *);
/* Joins the loop over programs with the rotated one, if possible. `asked`: a schedule asks for it; otherwise
 * only if it pays. If `make` is false, it only tests whether it can. */
bool rotate_cross_tile(Rotation *, bool asked, bool make);
