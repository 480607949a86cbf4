/* hip.h: HIP C to code objects and assembly by clang, a program of LLVM's or ROCm's: --emit=hsaco, --emit=asm
 * and bundles. No SDK, no GPU. */
#pragma once
#include "tools/tilec/input.h"

/* The compiler's path: TILE_CLANG, else clang-22, clang-23, clang and ROCm's in the usual places; NULL when
 * there is none. `room` for the path. */
const char *hip_compiler(char *path, size_t room);
/* A code object, or assembly, in the session's memory. False with a reason in `why`. */
bool hip_compile(Session *, const Target *, const char *text, size_t text_size, bool assembly,
    bool debug_info, const void **data, size_t *size, char *why, size_t why_room);
