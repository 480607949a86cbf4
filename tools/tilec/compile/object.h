/* object.h: `--target=cpu -o k.o -h k.h`: kernels, their launcher and its plan in one object, and the typed
 * header. */
#pragma once
#include "tools/tilec/compile/plan.h"

/* The variants that one launcher chooses among: of one kernel, with the same types of all arguments. */
typedef struct Launcher {
    const char *name; /* "attention", "attention_bf16" */
    const FrontKernel *kernel;
    Builts variants;
    Choices choices;
    Arena *arena; /* of what is written about it */
} Launcher;
typedef VEC(Launcher) Launchers;

/* The header's text. `file` names the .tile file, `path` where the header goes. */
void header_write(Input *, const Launchers *, const char *path, Text *);
/* Parts of it, for bundles: declarations of the CPU's launcher, the function of a bundle, the header with
 * `stem`_open_device. */
void header_cpu_symbols(const Launcher *, Text *);
void header_bundle_function(const Launcher *, Text *);
void header_write_bundle(Input *, const Launchers *, const char *path, const char *stem, Text *);
/* The text between the marks "begin MARK" and "end MARK". */
void header_copy(Arena *, const char *text, const char *end, const char *mark, Text *);

/* header: NULL for none. */
int object_compile(
    Input *, const Variants *, const CompileOptions *, const char *path, const char *header, Outputs *);
/* The object's bytes alone; ffi: with the functions of tvm-ffi's ABI. NULL after diagnostics. */
const void *object_bytes(
    Input *, const Variants *, const CompileOptions *, bool ffi, Launchers *, size_t *size);
/* Adds those functions. NULL, or what is wrong. */
struct Elf;
struct ObjectMachine;
const char *object_add_ffi(Session *, struct Elf *, const struct ObjectMachine *, const Launchers *);
/* The launcher that a variant belongs to, made if need be. */
Launcher *object_launcher(Input *, Launchers *, const Variants *all, const Variant *);
