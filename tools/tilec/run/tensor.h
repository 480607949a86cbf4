/* tensor.h: tensors on the command line: `--in Q=q.npy`, `--in Q=random:f16[2, 64]:7`, `--out O=o.npy`. */
#pragma once
#include "tools/tilec/file.h"
#include "tile/tile.h"
#include "ir/interp/scalar.h"

/* Names with whole numbers: extents. */
typedef struct Extent {
    const char *name;
    int64_t value;
    const char *from;
} Extent; /* from: the option that gave it, for messages */
typedef VEC(Extent) Extents;
const Extent *extent_find(const Extents *, const char *name); /* NULL: not known */
bool extent_is_name(const char *text);                        /* and no expression or number */

/* Gives the extents of a tensor that no file tells: EXIT_OK, or an exit code after a message. */
typedef struct ShapeSource {
    int (*fn)(void *user, const tile_param_info *, int64_t *shape);
    void *user;
} ShapeSource;

/* A tensor on the host. */
typedef struct HostTensor {
    DType dtype;
    int rank;
    int64_t shape[TILE_MAX_RANK], strides[TILE_MAX_RANK];
    void *data;
    size_t bytes;
    bool drawn; /* random numbers of no range that the user gave, from `seed` */
    uint64_t seed;
} HostTensor;

bool dtype_of(tile_dtype, DType *);
/* `NAME=REST` taken apart; false after a message naming the option. */
bool split_binding(Tool *, FlagId, const char *text, const char **name, const char **rest);
/* The argument of --in for parameter `p`: a file, or random, zeros, ones. A source without extents asks
 * `shape`. EXIT_OK, or an exit code after a message. */
int tensor_read(Tool *, const tile_param_info *p, const char *source, const ShapeSource *shape, HostTensor *);
/* Draws the integers again, of lo .. hi. */
void tensor_draw(HostTensor *, int64_t lo, int64_t hi);
/* The byte that outputs are filled with before a kernel runs. It makes floats a NaN and integers a number of
 * bytes 0xcd, such as -842150451. A bool becomes true, as other bytes are no value of it. */
static inline int tensor_poison(DType d) { return d == DT_BOOL ? 1 : dtype_is_float(d) ? 0xff : 0xcd; }
/* A row-major tensor, filled with poison. */
int tensor_make(Tool *, const tile_param_info *p, const ShapeSource *shape, HostTensor *);
/* The extents of t by p's names: added to `known`, or a message if one is known otherwise. */
int tensor_bind(Tool *, const tile_param_info *p, const HostTensor *, const char *from, Extents *known);
/* Appends a line with name, type and shape, and the elements as NumPy shows them: at most 8 digits of a
 * number, and `...` for the middle of axes where there are more than 1000 elements. */
void tensor_print(const HostTensor *, const char *name, Text *out);
/* Adds t to the outputs as a .npy file (row-major; t must be so). */
void tensor_write(Tool *, const HostTensor *, const char *path, Outputs *);
