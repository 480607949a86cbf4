/* debug.h: debug information (debug.c); each function does nothing without it. */
#pragma once
#include "backends/cpu/cpu.h"

/* Begins the debug information of g->fn, and completes it. */
void debug_begin(Gen *, const char *symbol);
void debug_end(Gen *);
/* Code of the setup block belongs to the line of the kernel. debug_setup goes to that line and returns the
 * place from which debug_resume goes on. */
LLVMMetadataRef debug_setup(Gen *);
void debug_resume(Gen *, LLVMMetadataRef);
/* Shows arguments, extents and consts; called before code is generated for the first step. */
void debug_frame(Gen *);
/* Shows the program id, at the start of each program. */
void debug_program(Gen *);
/* Shows the arguments of a block, at its start. */
void debug_arguments(Gen *, const Block *);
/* Shows what a step made available, and hides the tiles that it overwrote; called after the step. */
void debug_step(Gen *, const Step *);
/* Where tiles are, noted before a branch; each side of the branch begins with that. */
const DebugPlaces *debug_places(Gen *);
void debug_return(Gen *, const DebugPlaces *);
