/* c_names.h: names that mean something in the C code made from kernels: in emitted CUDA C and HIP C, and in
 * the headers and bundles of tilec. A kernel or a parameter of such a name gets another name there, or is
 * refused. */
#pragma once
#include <stdbool.h>

typedef enum CNames {
    C_KEYWORDS = 1, /* keywords of C and C++ */
    C_HEADER = 2,   /* what a generated header uses, and macros of the C library */
    C_LIBRARY = 4,  /* functions of the C library: a program may have only one of that name */
    C_DEVICE = 8,   /* names that compilers of CUDA C and HIP C declare */
    C_EMITTED = 16  /* names of emitted code, besides its functions */
} CNames;

/* Whether `name` is one of the groups, a union of CNames. */
bool c_name_taken(const char *name, unsigned groups);
