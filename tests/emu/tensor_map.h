/* tensor_map.h: what a tensor map of the emulator holds (tensor_map.c). */
#pragma once
#include <stdint.h>

typedef struct Map {
    uint32_t magic, rank, element, swizzle;
    uint8_t *base;
    uint64_t strides[4];
    uint32_t extents[5], box[5]; /* extents: less 1 */
    uint8_t step[5];
    int16_t lower[3], upper[3]; /* corners of a box of pixels */
    uint16_t pixels;            /* rows of an im2col map; 0: a map of boxes */
} Map;
_Static_assert(sizeof(Map) <= 128, "a tensor map has 128 bytes");
enum { MAGIC = 0x70616d74 };
