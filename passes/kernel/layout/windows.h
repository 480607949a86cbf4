/* windows.h: what sliding-windows and dense-windows ask of loads: their offsets as a value and a constant,
 * and runs in registers. */
#pragma once
#include "ir/analysis/range.h"
#include "passes/kernel/kernel.h"

/* The sum of a value, which is returned, and of *constant; NULL: there is only the constant. */
Value *window_offset_base(Value *offset, int64_t *constant);

/* Whether two offsets are one value, or the same constant. */
bool window_same_offset(Value *, Value *);

/* base + at, in the type `like`; base NULL: `at`. */
Value *window_offset_at(Builder *, DType like, Value *base, int64_t at);

/* Whether the offset `base` + constant stays in its type when it moves by `most` to either side. *ranges: of
 * the function, made when they are first needed. */
bool window_has_room(const Func *, Ranges **ranges, DType, const Value *base, int64_t constant, int64_t most);

/* Whether two loads read windows of one tensor that are the same but for their offsets along the tensor's
 * axis `unit`, with one pad. */
bool window_beside(const Instr *a, const Instr *b, int unit);

/* The elements by which windows of one tensor lie apart, that are the same but for their offsets along the
 * tensor's axis `k`; 0: they are no such windows, or it is not known. */
int64_t window_apart(const Instr *a, const Instr *b, int k);

/* The axis of the tile that the tensor's axis `k` becomes. False: it becomes none. */
bool window_tile_axis(const Instr *load, int k, int *axis);

/* The elements behind the tensor's axis `axis` that the window has, if it has all of them in the order of
 * memory and they are known: the record of which positions along the axis are next to each other. 0: it has
 * not. */
int64_t window_record(const Func *, const Instr *, int axis);

/* The attributes of an access to as many positions side by side along the tensor's axis `unit` as `extent`
 * says, from where the window of `low` begins. It may reach beyond what was proven in range. */
Attrs window_joined_attrs(Session *, const Instr *low, int unit, int64_t extent);

/* Whether the registers of every lane hold whole runs of `run` elements along `axis`, each in order. */
bool window_has_runs(const Layout *, int axis, int run);
