/* sass.h: --emit=sass. */
#pragma once
#include "tools/tilec/run/input.h"

/* Appends the disassembly of a cubin. False after diagnostics, as when there is no disassembler here. */
bool sass_print(Input *, const void *cubin, size_t size, Text *out);
