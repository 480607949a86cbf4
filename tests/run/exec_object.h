#pragma once
#include "executor.h"

void *exec_object_open(const char *name, char *why, size_t why_size);
bool exec_object_run(void *state, const Run *, char *why, size_t why_size);
void exec_object_close(void *state);
