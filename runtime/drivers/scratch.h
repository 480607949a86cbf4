/* scratch.h: memory in the order of a stream; see DriverOps in driver.h. */
#pragma once
#include "runtime/drivers/driver_gpu.h"

bool scratch_there(Driver *);
tile_status scratch_alloc(Driver *, size_t, void *stream, void **, DriverError *);
tile_status scratch_free(Driver *, void *, void *stream, DriverError *);
void scratch_close(GpuDriver *);
