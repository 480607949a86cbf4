#pragma once
#include "executor.h"

void *exec_interp_open(const char *name, char *why, size_t why_size);
bool exec_interp_run(void *state, const Run *, char *why, size_t why_size);
void exec_interp_close(void *state);
