/* link.h: nvJitLink, which makes a binary of PTX without the driver's compiler: for drivers older than the
 * PTX. Opened with dlopen. */
#pragma once
#include "runtime/drivers/driver.h"

/* *image, NUL-terminated PTX, becomes a binary for `arch` ("sm_90a"). `beside`: the run-time compiler's file;
 * the linker of the same toolkit lies in its folder. UNSUPPORTED when there is no nvJitLink, COMPILE with its
 * words when it fails. */
tile_status link_ptx(Allocator, const char *beside, const char *arch, DriverBlob *image, DriverError *);
