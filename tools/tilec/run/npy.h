/* npy.h: NumPy's .npy files, versions 1 to 3, row-major or column-major. Foreign input: nothing in the bytes
 * is trusted. */
#pragma once
#include "ir/type.h"

typedef struct Npy {
    char kind;    /* 'b' bool, 'i', 'u', 'f', or 'V': raw bytes */
    int size;     /* bytes of an element: 1, 2, 4, 8 */
    bool fortran; /* column-major: the first axis is the fastest */
    int rank;
    int64_t shape[TILE_MAX_RANK];
    size_t offset, bytes; /* the offset of the elements in the file */
} Npy;

/* NULL and *out filled, or what is wrong with the file (in the arena). The elements lie within [0, len). */
const char *npy_parse(Arena *, const char *data, size_t len, Npy *out);
/* Whether an array of this kind can hold elements of that type. bf16 and fp8, which NumPy does not have, are
 * stored as unsigned or raw bytes. */
bool npy_holds(const Npy *, DType);
/* "f4", "u2": for messages. */
const char *npy_type_name(Arena *, const Npy *);
/* The header of a row-major array of that type; the elements follow it. */
const char *npy_header(Arena *, DType, int rank, const int64_t *shape, size_t *len);
/* NumPy's spelling: "<f4", "|b1"; bf16 "<u2", fp8 "|u1". */
const char *npy_descr(DType);
/* Strides in elements of such an array. */
void npy_strides(const Npy *, int64_t *strides);
