/* machine.h: the machines that objects for the CPU are made for: what of tilec's own goes into each object,
 * and the levels of processors that its launcher tells apart. */
#pragma once
#include "ir/ir.h"
#include "ir/target/target.h"

/* Code of a level is for processors that have its features. */
typedef struct ObjectLevel {
    int level;                           /* LEVEL_.. of ir/target/cpu_level.h */
    const char *cpu, *features, *suffix; /* LLVM's names; of symbols */
    bool products;                       /* serves kernels with products of 8 or 16 bits alone */
} ObjectLevel;

typedef struct ObjectMachine {
    const char *launch,
        *launch_end;           /* tools/aot/launch.c as an object; nothing: tilec was built without it */
    const char *ffi, *ffi_end; /* tools/aot/ffi_entry.c */
    const ObjectLevel *levels; /* best first: the launcher takes the first that fits */
    int n_levels;
} ObjectMachine;

const ObjectMachine *object_machine(const Target *);
/* The row of a LEVEL_.. of that machine. */
const ObjectLevel *object_level(const Target *, int level);
/* Whether a level's code for `f` can differ from what the next level has. */
bool object_level_serves(const ObjectLevel *, const Func *f);
