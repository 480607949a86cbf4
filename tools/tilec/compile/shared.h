/* shared.h: `--shared -o k.so`: a shared library of the kernels, linked by the C compiler of this machine
 * (TILE_CC names it). Its functions follow tvm-ffi's C ABI; the launchers of the header are in it too. */
#pragma once
#include "tools/tilec/compile/bundle.h"

/* For the CPU alone the library is an object's, else a bundle's. Exit code. */
int shared_compile(Input *, const Variants *, const Strings *targets, Outputs *);
