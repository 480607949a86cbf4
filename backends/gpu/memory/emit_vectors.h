/* emit_vectors.h: tiles as raw bits, and their way to shared memory (emit_vectors.c). */
#pragma once
#include "backends/gpu/emit.h"

/* The raw bits of element r of an array; r is a number. */
const char *raw_element(Emit *, const char *array, DType, int r);
/* As put_shared, for an array that has the layout already. */
void put_array(Emit *, const char *array, DType, const Layout *, const LayoutShared *, const LayoutVector *,
    const char *base);
