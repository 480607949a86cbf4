/* host_peak.h: the peak rates of this machine's processor, measured once and kept in the cache folder. The
 * rates of GPUs are in the tables of devices (passes/sim/devices.def). */
#pragma once
#include "tools/tilec/run/run.h"

typedef struct HostPeak {
    double tflops_8, tflops_16, tflops_32, tflops_64; /* products by the type of their operands */
    double memory_tbs; /* reading as many bytes as the launch has, from the cache or memory that holds them;
                          0: there was no room for so many */
} HostPeak;

/* The rates of as many threads as the run's CPU has, but of no more processors than this process may keep
 * busy. The first call on a machine measures for some 20 ms, and for each new power of two of `bytes` again
 * as long, after writing as many. `again`: measures in any case and keeps the larger rates, since the ones
 * that are kept may be of a busy moment. */
void host_peak(const Run *, double bytes, bool again, HostPeak *);
