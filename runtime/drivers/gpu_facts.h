/* gpu_facts.h: what both the runtime's drivers and the launchers in bundles (tools/aot/gpu.c, which tilec
 * gives this text) know of GPUs. C with nothing but standard headers. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
/* begin */

/* --- facts of the vendors' interfaces ---------------------------------------------------------------- */

/* CUDA: shared memory in bytes that a CTA has without asking for more (CUDA C Programming Guide, "Compute
 * Capabilities"). */
enum { GPU_SHARED_UNASKED = 48 << 10 };

/* gcnArchName, "gfx942:sramecc+:xnack-", stands at another offset in each major version of hipDeviceProp_t;
 * it is the only text in the struct that begins with gfx and a digit, but for the device's name before it,
 * which has more letters around it. */
static inline bool gpu_find_arch(const char *props, size_t n, char *arch, size_t room)
{
    for (size_t i = 1; i + 8 < n; i++) {
        if (memcmp(props + i, "gfx", 3) || props[i - 1] != 0) continue;
        size_t len = 3;
        while (len + 1 < room && ((props[i + len] >= '0' && props[i + len] <= '9') ||
                                     (props[i + len] >= 'a' && props[i + len] <= 'f')))
            len++;
        if (len < 6) continue;
        memcpy(arch, props + i, len);
        arch[len] = 0;
        return true;
    }
    return false;
}

/* Results that mean "this image is not for this device or driver": invalid image, no binary for the GPU,
 * invalid PTX, no PTX compiler in the driver, a PTX version that it does not know, an unsupported kind of
 * binary. Another form of the same kernel may load. */
static inline bool gpu_image_refused(int result)
{ return result == 200 || result == 209 || result == 218 || result == 221 || result == 222 || result == 300; }

/* The arguments of cuTensorMapEncodeTiled for a map of `rank` axes, the fastest first: map axis i is tensor
 * axis axes[i]; with split[i] > 0 it counts panels of that many elements, and the other entry of the same
 * axis runs within a panel. Strides in elements, those out in bytes. False: an axis is no multiple of its
 * panels, or has no elements: a map has at least one, and a box would read what is not there. Launches
 * promise no alignment of tensors without elements, so that code for them has no maps. */
static inline bool gpu_map_shape(int rank, const int *axes, const int64_t *split, int element_bytes,
    const int64_t *tensor_extents, const int64_t *tensor_strides, uint64_t *extents, uint64_t *strides)
{
    for (int i = 0; i < rank; i++) {
        int64_t extent = tensor_extents[axes[i]], stride = tensor_strides[axes[i]];
        if (split[i] > 0) {
            extent = (extent + split[i] - 1) / split[i];
            stride *= split[i];
        } else
            for (int k = 0; k < rank; k++)
                if (k != i && axes[k] == axes[i] && split[k] > 0 && extent > split[k]) {
                    if (extent % split[k]) return false;
                    extent = split[k];
                }
        if (extent < 1) return false;
        extents[i] = (uint64_t)extent;
        if (i) strides[i - 1] = (uint64_t)stride * (uint64_t)element_bytes;
    }
    return true;
}

/* Boxes as the driver counts them: the elements between the first and behind the last that is moved. */
static inline void gpu_map_boxes(
    int rank, const uint32_t *box, const uint32_t *step, uint32_t *spans, uint32_t *steps)
{
    for (int i = 0; i < rank; i++) {
        steps[i] = step[i] ? step[i] : 1;
        spans[i] = box[i] * steps[i];
    }
}

static inline int gpu_map_swizzle(int bytes)
{ return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; } /* CUtensorMapSwizzle */
/* CUtensorMapL2promotion. When rows begin at multiples of a line, L2 fetches 256 bytes: a box with rows of
 * 128 bytes reads one half of them, and the next box reads the other half. Otherwise L2 fetches 128 bytes
 * (bench/notes/decisions.md, "Behind the decisions"). */
static inline int gpu_map_promotion(int rank, const int64_t *split, const void *data, const uint64_t *strides)
{
    uint64_t all = (uint64_t)(uintptr_t)data;
    for (int i = 1; i < rank; i++)
        if (split[i] <= 0) all |= strides[i - 1];
    return all % 128 ? 2 : 3;
}

/* What decides how many CTAs a launch has and how much workspace: its programs, and those of a row, along
 * which clusters lie; the CTAs of a multiprocessor at once (0: each program has its own); the CTAs of a
 * cluster and the clusters of a program (0 or 1: none); the parts in which programs of a last round are
 * divided (stream-k; 0 or 1: not); the multiprocessors; the programs that a CTA has as its warps (0 or 1: one
 * program). */
typedef struct GpuGrid {
    int64_t programs, row;
    int persistent, cluster, clusters, shares, multiprocessors, abreast;
} GpuGrid;

/* How many programs of one warp a CTA of the launch has, of at most `most`; at_once: how many CTAs the device
 * holds. Programs that all run at once are spread over the multiprocessors one by one. */
static inline int gpu_abreast(int most, int64_t programs, int64_t at_once)
{ return most > 1 && programs >= most * at_once && programs < (int64_t)1 << 31 ? most : 1; }

/* What the loops of persistent CTAs, or clusters, count: a cluster runs as many programs as it has CTAs, or
 * what a row leaves. */
static inline int64_t gpu_items(const GpuGrid *g)
{
    int64_t ctas = g->cluster > 1 ? g->cluster : 1;
    return g->programs ? g->programs / g->row * ((g->row + ctas - 1) / ctas) : 0;
}

/* The CTAs of the launch. */
static inline int64_t gpu_blocks(const GpuGrid *g)
{
    int64_t ctas = g->cluster > 1 ? g->cluster : 1, blocks = g->programs;
    if (g->persistent && g->programs) {
        int64_t most = (int64_t)g->persistent * g->multiprocessors / ctas;
        blocks = gpu_items(g) * (g->shares > 1 ? g->shares : 1);
        if (most < 1) most = 1;
        if (blocks > most) blocks = most;
    }
    if (g->abreast > 1) return (g->programs + g->abreast - 1) / g->abreast;
    return blocks * ctas * (g->clusters > 1 ? g->clusters : 1); /* else a program is a cluster, or several */
}

/* The bytes of workspace of a launch of so many CTAs, each of which takes `each`. Where a last round is
 * divided these are the bytes of a part. Then there is a counter for each CTA, and the parts have the numbers
 * that stream_k.c gives them: those of the shares if no share ends one program and begins another. */
static inline int64_t gpu_workspace(const GpuGrid *g, int64_t each, int64_t blocks)
{
    if (g->shares <= 1 || !each) return each * blocks;
    int64_t ctas = g->cluster > 1 ? g->cluster : 1, round = blocks / ctas, left = gpu_items(g) % round,
            shares = left * g->shares < round ? left * g->shares : round,
            parts = shares + (left && shares % left ? left - 1 : 0);
    return (4 * blocks + 255) / 256 * 256 + parts * ctas * each;
}

/* cuLaunchKernelEx's CUlaunchAttribute and CUlaunchConfig. */
typedef struct GpuLaunchAttribute {
    int id;
    char pad[4];
    union {
        int allowed;
        char room[64];
    } value;
} GpuLaunchAttribute;
typedef struct GpuLaunchConfig {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    GpuLaunchAttribute *attributes;
    unsigned n;
} GpuLaunchConfig;

/* A launch that starts while what is before it in its stream still runs: programmatic stream serialization.
 * `a` must last as long as the launch. */
static inline GpuLaunchConfig gpu_early_launch(
    int64_t blocks, int threads, int64_t shared_bytes, void *stream, GpuLaunchAttribute *a)
{
    *a = (GpuLaunchAttribute){ .id = 6, .value.allowed = 1 };
    return (GpuLaunchConfig){ .grid = { (unsigned)blocks, 1, 1 },
        .block = { (unsigned)threads, 1, 1 },
        .shared_bytes = (unsigned)shared_bytes,
        .stream = stream,
        .attributes = a,
        .n = 1 };
}
/* end */
