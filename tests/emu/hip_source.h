/* hip_source.h: emitted HIP C as the host compiler takes it. */
#pragma once
#include "backends/gpu/gpu.h"
#include <stdio.h>

/* The text with hip_device.h before it, without the lines whose functions are that header's, and the entry that launches it. */
void hip_write_source(FILE *, const GpuCode *);
