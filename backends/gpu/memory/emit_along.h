/* emit_along.h: pointers of loads in a loop of products. */
#pragma once
#include "backends/gpu/emit.h"

/* Declares them before the loop, and returns the length that the list has to have again behind it. */
size_t emit_along_open(Emit *, const Instr *loop);
/* Emits a load that has such pointers. False: it has none. */
bool emit_along_load(Emit *, const Instr *load);
