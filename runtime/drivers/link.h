/* link.h: nvJitLink, which makes a binary of PTX without the driver's compiler: for drivers older than the
 * PTX. Opened with dlopen. */
#pragma once
#include "runtime/drivers/driver.h"

/* Links *image, NUL-terminated PTX, to a binary for `arch` ("sm_90a"). `beside`: the file of the run-time
 * compiler; the linker of the same toolkit is in its folder. UNSUPPORTED when there is no nvJitLink, COMPILE
 * with its message when it fails. */
tile_status link_ptx(Allocator, const char *beside, const char *arch, DriverBlob *image, DriverError *);
