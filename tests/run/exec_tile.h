#pragma once
#include "executor.h"

/* name: a target, "cuda" or "cuda:sm_80"; behind a comma how contexts are made: "cuda,checked" with checks,
 * "cuda,early" with grids that may start early. */
void *exec_tile_open(const char *name, char *why, size_t why_size);
bool exec_tile_run(void *state, const Run *, char *why, size_t why_size);
void exec_tile_close(void *state);
const char *exec_tile_text(const void *state); /* the emission of the last compilation, or NULL */
