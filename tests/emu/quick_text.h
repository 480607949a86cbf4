/* quick_text.h: the two texts that quick.h makes of an emission: the prelude as a C++ library, and the kernel
 * in C. */
#pragma once
#include "tests/emu/hip_source.h"

/* Writes all functions of the target's prelude behind device.h or hip_device.h, and for each of them an
 * exported C function quick_NAME that calls it. */
void quick_write_library(FILE *, Session *, const Target *);

/* Writes the kernel as `void emu_thread(const u64 *)`, with declarations of the functions that it calls, to
 * stand behind quick_device.h. Calls `uses` with the name of each function that the library must provide.
 * With `faults`, places for faults are marked as in the other sources (cuda_source.h). Returns false if the
 * kernel cannot be written as C. */
typedef void QuickUses(void *user, const char *name);
bool quick_write_kernel(FILE *, const GpuCode *, bool hip, Faults *faults, QuickUses *uses, void *user);
