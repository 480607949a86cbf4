/* inside.h: what the command asks of a module or kernel beyond tile.h: its ladder, the passes of one kernel,
 * the digest of its code, its IR. Not installed. */
#pragma once
#include "frontend/frontend.h"
#include "ir/target/target.h"
#include "tile/tile.h"

/* The program of a module. */
const Ast *module_program(const tile_module *);
const Target *context_target(const tile_context *);
/* A short text that the cache folder keeps under a name. False: it has none, or there is no folder. */
bool context_note_read(const tile_context *, const char *name, char *out, size_t room);
void context_note_write(const tile_context *, const char *name, const char *text);

/* The passes that the variants of one kernel are compiled with beside those of its context. */
typedef struct KernelPasses {
    const char *skip, *with, *remap; /* as PassOptions has them; NULL: none */
    bool approx, ftz;
} KernelPasses;
/* Sets the passes of a kernel that has no variants yet; the texts are copied. Names of passes that only
 * another target has are accepted. TILE_ERROR_NOT_FOUND: there is no pass of a name. */
tile_status kernel_set_passes(tile_kernel *, const KernelPasses *);
/* A digest of the code that a launch with these arguments runs: equal for equal code. Compiles where needed.
 * All 0 where there is nothing to compute. */
tile_status kernel_code_digest(tile_kernel *, const tile_arg *, size_t n, uint8_t digest[32]);
/* The tile IR of the kernel in that session, its loops as written, with more bindings after its own. False
 * after diagnostics in the session. */
bool kernel_tile_ir(tile_kernel *, Session *, const FrontBinding *more, size_t n, Func **);
