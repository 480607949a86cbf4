/* launch_facts.h: what a runtime knows of a launch, for executors that have none: bindings of a kernel, facts
 * of its arguments. */
#pragma once
#include "executor.h"
#include "frontend/frontend.h"

/* Appends a file to a new text. False: it cannot be read. */
bool launch_read(Session *, const char *path, Text *);
/* Imports, for frontend_parse: relative to the folder of the file that asks, whose name as a source is its
 * path. */
uint32_t launch_import(void *unused, Session *, uint32_t from, const char *path);
/* Constants of the launch, and the extents that the kernel is specialized on, which come from the tensors.
 * Their number, at most 64; errors are diagnostics. */
int launch_bind(Session *, const FrontKernel *, const Launch *, FrontBinding *out);
/* Alignment, unit strides, divisors of strides and extents, 32-bit offsets. exact: all strides, extents and
 * scalars as well. */
void launch_facts(Func *, const Launch *, bool exact);
/* The stride that a kernel is given, in elements: along an axis of at most one element the launch chooses it,
 * as the runtime does (runtime/launch/arguments.c), since it is multiplied by nothing but 0. */
int64_t launch_stride(const Tensor *, int axis);
