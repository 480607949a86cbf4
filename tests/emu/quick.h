/* quick.h: emitted kernels compiled within the process by TinyCC, in a few milliseconds instead of the
 * hundred that a call of g++ takes. Campaigns use it, and most tests of the emulators.
 *
 * Only the kernel itself is compiled in this way. The functions of the target's prelude are a library that
 * the host's C++ compiler makes once, from device.h or hip_device.h; the kernel calls them. The machine and
 * its checks (emu.h, hip_machine.h) are the same as for the other executors, and so is the pattern that
 * variables hold before they are written. A kernel that TinyCC compiles wrongly fails: campaigns run every
 * failing kernel again with the host's compiler, and count it only if it fails there too (random_queue.c). */
#pragma once
#include "tests/emu/cuda_source.h"

typedef struct Quick Quick;

/* source: the repository's root. folder: for temporary files. compile: the host's C++ compiler with its
 * options, to which ` FILE.cpp -o FILE.so` is added. NULL with the reason when the prelude does not compile.
 */
Quick *quick_open(
    const Target *, const char *source, const char *folder, const char *compile, char *why, size_t why_size);
void quick_close(Quick *);

/* A function that launches as EmuLaunchFn does, valid until the next call. With `faults`, places for faults
 * are marked (cuda_source.h). NULL with the reason if the text holds something that is not C. */
typedef const char *QuickLaunch(const uint64_t *args, int64_t blocks, int threads, int order, int late);
QuickLaunch *quick_build(Quick *, const GpuCode *, Faults *faults, char *why, size_t why_size);
