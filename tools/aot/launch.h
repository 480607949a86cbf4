/* launch.h: the part of every generated header that is the same in all of them; tilec copies the text between
 * the marks. */
/* begin */
#ifndef TILE_LAUNCH_H
#define TILE_LAUNCH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A tensor: address of its first element, extents, strides in elements (NULL: row-major without gaps). An
 * optional tensor whose address is NULL is left out. */
typedef struct tile_view {
    void *data;
    const int64_t *shape, *strides;
} tile_view;

/* How a launch may use threads. NULL, or n = 1: the caller's alone. n = 0: one for each processor that the
 * process may run on. run, if not NULL, calls task(arg, 0) .. task(arg, n - 1), in any order and at once if
 * it likes, on the pool's threads, and returns when all are done; else threads are started for the launch.
 * Work that is too little for them takes fewer, and a launch in a parallel region of OpenMP starts none. */
typedef struct tile_threads {
    int n;
    void (*run)(void *pool, int n, void (*task)(void *arg, int i), void *arg);
    void *pool;
} tile_threads;

typedef union tile_launch_arg {
    tile_view view;
    uint64_t word;
} tile_launch_arg; /* used by the launchers below */

/* The return values of launchers: the numbers of tile_status in tile/tile.h. */
enum {
    TILE_LAUNCH_OK = 0,
    TILE_LAUNCH_INVALID = 1, /* the pointer of a tensor with elements is null */
    TILE_LAUNCH_OUT_OF_MEMORY = 2,
    TILE_LAUNCH_NO_VARIANT = 5,  /* nothing was compiled for these extents, consts and optional tensors */
    TILE_LAUNCH_UNSUPPORTED = 6, /* not on this processor */
    TILE_LAUNCH_SHAPE = 8,       /* extents disagree among arguments, or are negative */
    TILE_LAUNCH_DTYPE = 9,       /* an element type or scalar kind does not fit the kernel (tvm-ffi) */
    TILE_LAUNCH_DEVICE = 10,     /* a tensor lies on another device (tvm-ffi) */
    TILE_LAUNCH_ALIGNMENT = 11,  /* an address is not a multiple of the element size */
    TILE_LAUNCH_OVERLAP = 12,    /* an out or inout tensor overlaps another argument, or has a stride of 0 */
    TILE_LAUNCH_GRID = 13,       /* too many programs */
    TILE_LAUNCH_REMAP = 14,      /* the kernel's remap is no permutation of this grid */
    TILE_LAUNCH_CHECK = 19       /* a check compiled in with --check failed */
};

/* A status in words; those of bundles too. The text of an error says more: NAME_error() below. */
static inline const char *tile_launch_status_name(int status)
{
    switch (status) {
    case 0: return "done";
    case 1: return "invalid argument: a null pointer where there are elements";
    case 2: return "out of memory";
    case 5: return "no variant: nothing was compiled for these extents, consts and optional tensors";
    case 6: return "unsupported by this processor or device";
    case 7: return "no device: no driver, or no such device";
    case 8: return "shape: extents disagree among arguments, or are negative";
    case 9: return "dtype: an element type or scalar kind does not fit the kernel";
    case 10: return "device: a tensor lies on another device";
    case 11: return "alignment: an address is no multiple of its element's size";
    case 12: return "overlap: an out or inout tensor overlaps another argument, or has a stride of 0";
    case 13: return "grid: too many programs";
    case 14: return "remap: the kernel's remap is no permutation of this grid";
    case 15: return "workspace: it is too small";
    case 16: return "resources: too much shared memory or too many registers for the device";
    case 17: return "driver: a call of the GPU driver failed";
    case 18: return "fault: earlier work faulted on the device";
    case 19: return "check: a check compiled in with --check failed";
    default: return "an unknown status";
    }
}
#endif
/* end */

/* begin bundle */
#ifndef TILE_BUNDLE_H
#define TILE_BUNDLE_H
/* Where a launch runs: fill in `kind` and your stream, or take what a tile_device holds. The context (a
 * CUcontext; for HIP the number of the device + 1) may be NULL: the stream's, else the thread's current one,
 * else the first device's. NULL for a tile_queue is the CPU. */
enum { TILE_ON_CPU = 0, TILE_ON_CUDA = 1, TILE_ON_HIP = 2, TILE_ON_ANY = 3 };
typedef struct tile_queue {
    int kind;     /* TILE_ON_CPU .. TILE_ON_HIP */
    void *stream; /* CUstream or hipStream_t; NULL: the default one */
    void *context;
    const tile_threads *threads; /* on the CPU */
    void *workspace;
    size_t
        workspace_bytes; /* device memory at a multiple of 256, for kernels that say TILE_LAUNCH_WORKSPACE */
} tile_queue;

/* A device as a program without its vendor's headers uses it. All functions return a status as launchers do.
 */
typedef struct tile_device {
    tile_queue queue; /* for launchers; they may replace the stream */
    int ordinal;
    char name[128], target[32]; /* "NVIDIA H100", "cuda:sm_90" */
    int (*alloc)(const struct tile_device *, size_t bytes, void **memory);
    int (*release)(const struct tile_device *, void *memory);
    int (*copy)(const struct tile_device *, void *to, const void *from,
        size_t bytes); /* either side may be host memory; waits for the copy */
    int (*synchronize)(
        const struct tile_device *); /* waits for the queue's stream; a fault of a kernel is reported here */
} tile_device;

enum {
    TILE_LAUNCH_NO_DEVICE = 7, /* no driver, or no such device */
    TILE_LAUNCH_WORKSPACE = 15,
    TILE_LAUNCH_RESOURCES = 16,
    TILE_LAUNCH_DRIVER = 17,      /* a call of the driver failed */
    TILE_LAUNCH_DEVICE_FAULT = 18 /* earlier work on the device ended with a fault */
};
#endif
/* end bundle */
