/* tensor_map.c: makes tensor maps, under the conditions of the CUDA driver API. */
#include "tests/emu/core.h"
#include "tests/emu/tensor_map.h"
#include <string.h>

/* The CUDA driver API's conditions: addresses and strides in 16 bytes, boxes of at most 256, a swizzled row
 * of at most the swizzle's span. */
int emu_tensor_map(void *out, int dtype, uint32_t rank, void *base, const uint64_t *extents,
    const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, int interleave,
    int swizzle, int l2, int fill)
{
    static const uint8_t sizes[] = { 1, 2, 4, 4, 8, 8, 2, 4, 8, 2 };
    static const uint32_t spans[] = { 0, 32, 64, 128 };
    Map m = { .magic = MAGIC, .rank = rank, .base = base };
    if (dtype < 0 || dtype > 9 || rank < 1 || rank > 5 || swizzle < 0 || swizzle > 3 || interleave ||
        (uintptr_t)base % 16)
        return 1;
    m.element = sizes[dtype];
    m.swizzle = spans[swizzle];
    for (uint32_t k = 0; k < rank; k++) {
        if (!extents[k] || extents[k] > 1ull << 32 || !box[k] || box[k] > 256 || !element_strides[k] ||
            element_strides[k] > 8 || (!k && element_strides[k] != 1))
            return 1;
        if (k && (strides[k - 1] % 16 || strides[k - 1] >= 1ull << 40)) return 1;
        m.extents[k] = (uint32_t)(extents[k] - 1);
        m.box[k] = (box[k] + element_strides[k] - 1) / element_strides[k];
        m.step[k] = (uint8_t)element_strides[k];
        if (k) m.strides[k - 1] = strides[k - 1];
    }
    if (box[0] * m.element % 16 || (m.swizzle && box[0] * m.element > m.swizzle)) return 1;
    memset(out, 0, 128);
    memcpy(out, &m, sizeof m);
    return 0;
}

/* Its conditions beside those of a box of `channels`: corners in 16, 8 or 5 bits by the number of axes of
 * pixels, at most 256 channels and 1024 pixels, a box of pixels that is not empty. */
int emu_tensor_map_im2col(void *out, int dtype, uint32_t rank, void *base, const uint64_t *extents,
    const uint64_t *strides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels,
    const uint32_t *element_strides, int interleave, int swizzle, int l2, int fill)
{
    static const int rooms[] = { 1 << 15, 1 << 7, 1 << 4 };
    const uint32_t box[5] = { channels, 1, 1, 1, 1 };
    uint32_t steps[5];
    Map m;
    if (rank < 3 || rank > 5 || !pixels || pixels > 1024) return 1;
    for (uint32_t k = 0; k < rank; k++) steps[k] = element_strides[k];
    if (emu_tensor_map(out, dtype, rank, base, extents, strides, box, steps, interleave, swizzle, l2, fill))
        return 1;
    memcpy(&m, out, sizeof m);
    m.pixels = (uint16_t)pixels;
    for (uint32_t k = 0; k < rank - 2; k++) {
        int room = rooms[rank - 3];
        if (lower[k] < -room || lower[k] >= room || upper[k] < -room || upper[k] >= room ||
            (int64_t)extents[k + 1] + upper[k] <= lower[k])
            return 1;
        m.lower[k] = (int16_t)lower[k];
        m.upper[k] = (int16_t)upper[k];
    }
    memcpy(out, &m, sizeof m);
    return 0;
}
