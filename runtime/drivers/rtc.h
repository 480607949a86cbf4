/* rtc.h: the vendors' run-time compilers, NVRTC and hipRTC, opened with dlopen. They need no device: tilec
 * uses them for --emit=cubin, ptx and hsaco, the GPU drivers for kernels compiled at launch. An Rtc may be
 * used by several threads. */
#pragma once
#include "runtime/drivers/driver.h"

typedef struct Rtc Rtc;

/* Opens the compiler for TARGET_CUDA or TARGET_HIP. A `path` of NULL means that it is searched. UNSUPPORTED,
 * with the names that were tried, when there is none. */
tile_status rtc_open(TargetKind, const char *path, Allocator, Rtc **out, DriverError *);
void rtc_close(Rtc *);
const char *rtc_version(const Rtc *); /* "nvrtc 13.0" */
/* The file from which it was loaded, "" if the loader does not tell. */
void rtc_path(const Rtc *, char *out, size_t room);

/* NVRTC: compiles a kernel of one line, so that the initialization of the first compilation is done before
 * the next one. */
void rtc_prepare(Rtc *, const char *arch);

typedef enum RtcForm { RTC_BINARY, RTC_PTX } RtcForm;

/* Compiles c->text for `arch` ("sm_90a", "gfx942"). A compiler older than the device gives PTX for its newest
 * architecture instead of a binary, which the driver finishes. hipRTC is first tried in a child process for
 * this architecture: a version that does not know a chip takes the process down with it. TILE_ERROR_COMPILE
 * with c->log and what went wrong first in the error; the blobs are freed by the caller. */
tile_status rtc_compile(Rtc *, DriverCompile *c, const char *arch, RtcForm, DriverError *);
