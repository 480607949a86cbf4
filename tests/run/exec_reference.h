#pragma once
#include "executor.h"

void *exec_reference_open(const char *name, char *why, size_t why_size);
bool exec_reference_run(void *state, const Run *, char *why, size_t why_size);
void exec_reference_close(void *state);
