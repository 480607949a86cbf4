/* bundle.h: the tables of a bundle, which tilec writes (tools/tilec/compile/bundle.c) and gpu.c reads; tilec
 * copies the text between the marks. */
#pragma once
#include "tools/aot/launch.h"
#include <stdbool.h>
#include <stdint.h>
/* begin */
/* Code for a device: an image of one kernel. PTX and text are NUL-terminated. */
enum {
    IMAGE_BINARY,
    IMAGE_PTX,
    IMAGE_TEXT
}; /* cubin or code object; PTX; CUDA C or HIP C for the vendor's run-time compiler */
typedef struct Image {
    int device, kind, arch; /* TILE_ON_..; IMAGE_..; CUDA: 90 */
    /* for this architecture only ("sm_90a", "gfx942"); otherwise for later ones too, a binary within its
     * generation */
    bool exact;
    const char *target;    /* "cuda:sm_90a" */
    const uint64_t *bytes; /* images that are equal share them */
    size_t size, packed;   /* packed: the size of the LZ4 block that the bytes are; 0: they are the image */
} Image;

/* The arguments of cuTensorMapEncodeTiled, or with pixels of cuTensorMapEncodeIm2col, in addition to the
 * tensor. */
typedef struct Map {
    int param, rank, type, element_bytes, swizzle, axes[5];
    int64_t split[5];
    uint32_t box[5], step[5];
    int pixels, lower[3], upper[3];
} Map;

/* A kernel in an image, and how many threads it wants. early: waits itself for what is before it in its
 * stream, and may start while that runs. */
typedef struct Entry {
    const char *symbol;
    int image, threads, cluster, cluster_axis, clusters, persistent, shares, early;
    int64_t shared_bytes;
    int n_maps;
    const Map *maps;
} Entry;

typedef int CpuLaunch(const int64_t *, int (*const *)(const uint64_t *, int64_t, int64_t, void *, int32_t),
    const tile_launch_arg *, const int64_t *, const tile_threads *);
typedef struct Kernel {
    const char *name;
    /* see plan.h; its entries are indices into the table of this bundle */
    const int64_t *plan;
    CpuLaunch *cpu;
    const char *(*cpu_error)(void);
    const int64_t *cpu_plan;
    /* NULL: no code for the CPU */
    int (*const *cpu_entries)(const uint64_t *, int64_t, int64_t, void *, int32_t);
} Kernel;
/* end */
