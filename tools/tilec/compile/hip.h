/* hip.h: HIP C to code objects and assembly by clang, a program of LLVM's or ROCm's: --emit=hsaco, --emit=asm
 * and bundles. No SDK, no GPU. */
#pragma once
#include "tools/tilec/run/input.h"

/* The compiler's path: TILE_CLANG, else clang-22, clang-23, clang and ROCm's in the usual places; NULL when
 * there is none. `room` for the path. */
const char *hip_compiler(char *path, size_t room);

typedef enum HipOutput { HIP_CODE_OBJECT, HIP_ASSEMBLY } HipOutput;

typedef struct HipCode {
    const void *data; /* in the session's memory */
    size_t size;
    int registers,
        spill_bytes; /* VGPRs of a lane, and how many bytes of them spill; -1: clang does not say */
    char why[400];   /* the reason for a failure */
} HipCode;

/* Compiles HIP C for the target. False with a reason in out->why. */
bool hip_compile(
    Session *, const Target *, const char *text, size_t text_size, HipOutput, bool debug_info, HipCode *out);
