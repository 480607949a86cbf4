/* work.h: how much a program of a kernel computes, as an expression of the launch. The host evaluates it
 * before a launch on the CPU, to tell whether the work is worth more than one thread. */
#pragma once
#include "ir/ir.h"

/* The work of an instruction that holds no blocks, in simple instructions on one element. */
typedef int64_t WorkOf(void *user, const Instr *);
/* The column `cost` of ops.def times the elements, and of a product its multiplications. `none` is not read.
 */
int64_t work_of_instr(void *none, const Instr *);

/* A block with the arguments of the body which yields the work of one program, the one in the middle of the
 * grid (of two such programs, the first if `lower`, else the second), in simple instructions on one element,
 * as `of` counts them: an index scalar. It reads dimensions, strides, scalar arguments and the extents of the
 * grid, so that eval_compile takes it once the grid is known. A loop whose number of iterations depends on
 * what a program loads counts as WORK_UNKNOWN_TRIPS iterations. The block is new and belongs to nobody; the
 * function is not changed. */
Block *work_of_program(Func *, bool lower, WorkOf *of, void *user);

enum { WORK_UNKNOWN_TRIPS = 64 };
