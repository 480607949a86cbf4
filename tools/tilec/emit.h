/* emit.h: the stages of --emit, and text of a GPU target. */
#pragma once
#include "tools/tilec/run/input.h"

typedef enum StageId {
#define STAGE(ID, name, targets, doc) STAGE_##ID,
#include "tools/tilec/stages.def"
#undef STAGE
    STAGE_COUNT
} StageId;

typedef struct StageInfo {
    const char *name;
    unsigned targets;
    const char *doc;
} StageInfo; /* targets: bit 1 << TargetKind */
extern const StageInfo stage_info[STAGE_COUNT];

/* Appends the stage of every variant to `out`. Exit code. */
int emit_stage(Input *, StageId, const Variants *, const CompileOptions *, Text *out);
/* One source file of the variants: each in a namespace of its own when there are several. */
int emit_source(Input *, const Variants *, const CompileOptions *, Text *out);
/* The text of c through the vendor's compiler: a binary, or PTX. Memory of the session. False after
 * diagnostics. */
bool emit_binary(
    Input *, const Variant *, const CompileOptions *, Compiled *c, bool ptx, const void **data, size_t *size);
/* What the code for a CPU takes of its processor. False after diagnostics. */
bool emit_cpu_use(Input *, const Variant *, const CompileOptions *, CpuUse *);
/* Whether the vendor's compiler for the target is found here. */
bool emit_compiler(Input *, const Target *);
/* "attention_D64_CAUSALtrue": a C identifier. */
const char *variant_symbol(Arena *, const Variant *);
/* The promises of --assume about launches, and these others where it names any. */
const LaunchFacts *emit_assumed(Input *, const Variant *, unsigned others);
