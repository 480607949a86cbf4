/* near.h: exponents that one fma computes: near.c finds and replaces them, lazy_choice.c does so where the
 * maximum of an online softmax is taken over late. */
#pragma once
#include "passes/kernel/kernel.h"

/* An exponent (x scale - row) c under exp2, where `row` is repeated along the rows of x. A scale of NULL
 * means 1. */
typedef struct KernelNear {
    Instr *times;
    Value *x, *scale, *c, *row;
} KernelNear;
bool kernel_near_find(Value *exponent, KernelNear *);
/* The condition that |row| is small enough for one fma to compute the exponent. */
Value *kernel_near_is(Builder *, const KernelNear *, Value *row);
/* The exponent of `row` is fma(x', k, shift); out receives these three values and their types. When |row| is
 * small, x' is x. When `far`, x' is the difference x - row, computed first. */
void kernel_near_types(const KernelNear *, const Type *out[3]);
void kernel_near_arm(Builder *, const KernelNear *, Value *row, bool far, Value *out[3]);
/* Replaces the exponent by the fma of these three values, which are consecutive results. */
void kernel_near_take(const KernelNear *, Value *chosen);
