#pragma once
#include "executor.h"

void *exec_tile_open(const char *name, char *why, size_t why_size);
bool exec_tile_run(void *state, const Run *, char *why, size_t why_size);
void exec_tile_close(void *state);
const char *exec_tile_text(const void *state); /* the emission of the last compilation, or NULL */
