/* row_changes.h: of program-order: programs that change the same rows together (row_changes.c). */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* Whether grid axis 0 alone says which rows of a tensor a program changes at places that memory tells. axes:
 * the grid axes on which each value depends, as a set by value id. */
bool order_changes_rows(Func *, const unsigned *axes, int rank);
/* The coordinates of program p. */
void order_together(Func *, const Target *, Builder *, Value *p, const unsigned *axes, Value **coord);
