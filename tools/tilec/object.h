/* object.h: `--target=cpu -o k.o -h k.h`: kernels, their launcher and its plan in one object, and the typed header. */
#pragma once
#include "tools/tilec/plan.h"

int object_compile(Input *, const Variants *, const CompileOptions *, Outputs *);

/* The variants that one launcher chooses among: of one kernel, with the same types of all arguments. */
typedef struct Launcher {
    const char *name;           /* "attention", "attention_bf16" */
    const FrontKernel *kernel;
    Builts variants;
    Choices choices;
} Launcher;
typedef VEC(Launcher) Launchers;

/* The header's text. `file` names the .tile file, `path` where the header goes. */
void header_write(Input *, const Launchers *, const char *path, Text *);
