/* exec_emu.h: the executor of emitted CUDA C on the host. */
#pragma once
#include "executor.h"
#include "backends/gpu/gpu.h"

void *exec_emu_open(const char *name, char *why, size_t why_size);
bool exec_emu_run(void *state, const Run *, char *why, size_t why_size);
void exec_emu_close(void *state);

/* The library made of emitted text; NULL with the reason. Kept until close. */
typedef const char *EmuLaunchFn(const uint64_t *args, int64_t blocks, int threads, int order, int late);
EmuLaunchFn *exec_emu_build(void *state, const GpuCode *, char *why, size_t why_size);
