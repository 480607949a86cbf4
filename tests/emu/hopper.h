/* hopper.h: what the parts of tile_emu_hopper share (hopper.c). */
#pragma once
#include "tests/emu/emu.h"
#include "tests/emu/exec_emu.h"

/* A kernel and its problems. faults: the sizes, between '|', are long and short loops at which every ring
 * goes round and every CTA takes several programs. portable: sm_80's kernel. early: may start before the
 * grids ahead of it have ended. */
typedef struct Row {
    const char *recipe, *sizes, *consts, *views;
    bool faults, portable, early;
    const char *calls[4]; /* faults: of these calls only; none: of all */
} Row;

enum { SIZES = 4 };
typedef struct Test {
    const Row *row;
    Problem *problems[SIZES];
    Run runs[SIZES];
    int n;
    char path[512];
} Test;

/* hopper_recipes.c: a recipe of cases.h, or one of a kernel that is no example. */
const Recipe *hopper_recipe(const char *name);
/* Orders and moments of draw k. */
void draw(void *emu, int k);
/* The problems of a row and the runs for them; to be released either way. */
bool prepare(Test *, const Row *, char *why, size_t size);
void release(Test *);
/* Runs all of them and compares the results. */
bool try(void *emu, Test *, char *why, size_t size);

/* hopper_faults.c: plants each fault alone in the emitted text; `only`: the one with this number. `number`:
 * of the row. */
bool faults_of(const Row *, int number, const char *device, int draws, int only);
/* After all rows: whether each fault that is listed as harmless was met. */
bool faults_all_applied(void);

/* hopper_random.c: the kernel of a seed. Counts kernels with TMA and wgmma, and those that the card has no
 * room for. */
bool random_one(void *emu, uint64_t seed, int draws, int *roles, int *refused);
