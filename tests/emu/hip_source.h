/* hip_source.h: emitted HIP C as the host compiler takes it. */
#pragma once
#include "tests/emu/cuda_source.h"
#include <stdio.h>

/* The text with hip_device.h before it, without the lines whose functions are that header's, and the entry
 * that launches it; with `faults`, barriers and waits can be left out (cuda_source.h). */
void hip_write_source(FILE *, const GpuCode *, Faults *faults);

/* Writes one line of a kernel's body with the places for faults marked, as cuda_plant does. */
void hip_plant(FILE *, Faults *, int line, const char *p, size_t n, const char *before);

/* Bytes of the smallest access to LDS that the text holds. */
int hip_smallest_access(const char *text);
