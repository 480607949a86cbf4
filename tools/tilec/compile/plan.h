/* plan.h: writes the plan of tools/aot/plan.h for one kernel. */
#pragma once
#include "tools/aot/plan.h"
#include "tools/tilec/run/input.h"

typedef VEC(int64_t) Words;

/* One compiled variant of a kernel. */
typedef struct Built {
    const Variant *variant;
    int level, assume, entry; /* LEVEL_.., ASSUME_..; index among the kernel's entries */
    const Func *func;
    const Artifact *artifact;
    const Block *work;   /* of a program (ir/analysis/work.h), for the CPU; NULL: for a GPU */
    const Variant *made; /* with a smaller configuration, where the declared one did not fit; else NULL */
} Built;

/* A const (type) that the variants bind to different values: a parameter of the launcher. */
typedef struct Choice {
    const char *name;
    const FrontParam *param;
} Choice;
typedef VEC(Choice) Choices;

/* All variants of one kernel. */
typedef VEC(Built) Builts;

Choices plan_choices(Session *, const FrontKernel *, const Builts *);
/* A value as launchers take it: integers and bools, a double's bits, a type's number in tile/tile.h. */
int64_t plan_value(FrontValue);
/* The extent of a dimension that all variants were compiled for by its name; -1: there is none. */
int64_t plan_common_extent(const Builts *, const char *dim);
/* The names at the end of a plan. */
void plan_write_names(Session *, const FrontKernel *, const Builts *, const Choices *, Words *);
/* False after diagnostics: the grid holds what a launcher cannot evaluate, or a limit is passed. */
bool plan_write(Session *, const FrontKernel *, const Builts *, const Choices *, Words *);
