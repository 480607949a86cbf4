/* compress.h: compression of a bundle's images, in the LZ4 block format. */
#pragma once
#include "ir/support/arena.h"

/* The block for `size` bytes, and its size. */
const void *compress_lz4(Arena *, const void *bytes, size_t size, size_t *packed);
