/* exec_emu.h: the executor of emitted CUDA C on the host. */
#pragma once
#include "executor.h"

void *exec_emu_open(const char *name, char *why, size_t why_size);
bool exec_emu_run(void *state, const Run *, char *why, size_t why_size);
void exec_emu_close(void *state);
