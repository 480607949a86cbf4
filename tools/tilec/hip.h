/* hip.h: HIP C to code objects and assembly by clang, a program of LLVM's or ROCm's: --emit=hsaco, --emit=asm
 * and bundles. No SDK, no GPU. */
#pragma once
#include "tools/tilec/input.h"

/* The compiler's path: TILE_CLANG, else clang-22, clang-23, clang and ROCm's in the usual places; NULL when
 * there is none. `room` for the path. */
const char *hip_compiler(char *path, size_t room);
/* What clang says of a kernel's code; -1: nothing. */
typedef struct HipUse {
    int registers, spill_bytes; /* VGPRs of a lane, and how many bytes of them are spilled */
} HipUse;

/* A code object, or assembly, in the session's memory; `use` may be NULL. False with a reason in `why`. */
bool hip_compile(Session *, const Target *, const char *text, size_t text_size, bool assembly,
    bool debug_info, const void **data, size_t *size, HipUse *use, char *why, size_t why_room);
