/* factor.h: positive scalars that all elements of a tile are multiplied by. Rounding is monotonic, so that
 * such a factor c keeps the order of elements: max(fl(c x)) is fl(c max(x)) to the bit. */
#pragma once
#include "ir/ir.h"

/* Whether it is known that a float scalar is above 0: a constant, a parameter whose range the launch promised
 * (Param.lo > 0), or arithmetic on these that cannot underflow to 0. */
bool factor_is_positive(const Func *, Value *scalar);
/* The other operand of a multiplication by the scalar `scale`; with scale NULL by any scalar, which is stored
 * in *found. NULL: the instruction is something else. */
Value *factor_of(const Instr *, Value *scale, Value **found);
