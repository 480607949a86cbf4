/* driver.h: what the runtime asks of a device, as one table of functions; driver_cpu.c, driver_cuda.c and
 * driver_hip.c fill it. Everything above this line is shared between the CPU, CUDA and HIP, so that a fault
 * found on one is mended for all.
 *
 * The vendor's libraries are opened with dlopen by each Driver; no vendor header is used. A driver keeps no
 * global state, and its functions may be called from any thread. They make the device's context current for
 * the length of the call and put back what was current. */
#pragma once
#include "backends/backend.h"
#include "ir/support/float_state.h"
#include "tile/tile.h"

/* The text of a failure, such as "cuModuleLoadData: CUDA_ERROR_INVALID_IMAGE: device kernel image is
 * invalid". */
typedef struct DriverError {
    char text[480];
    bool refused;
} DriverError; /* refused: the image is not for this driver or device, but another form of it may be */
void driver_error(DriverError *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

typedef struct DriverDesc {
    Allocator alloc;
    int device;                       /* ordinal */
    int threads;                      /* CPU: of a launch, 0: all */
    tile_run_threads_fn *run_threads; /* CPU: the caller's pool of threads; NULL: our own */
    void *run_threads_user;
    void *native_context;                          /* CUDA: a CUcontext, or NULL for the primary context */
    const char *driver_library, *compiler_library; /* NULL: search */
} DriverDesc;

typedef struct DriverInfo {
    char name[128], target[32]; /* target: the best target that the device can run, such as "cuda:sm_90a" */
    DLDevice dl;
    int multiprocessors, warp, clock_khz, version;
    int64_t memory_bytes, l2_bytes, shared_bytes, max_blocks;
} DriverInfo;

typedef struct DriverModule DriverModule;     /* loaded code */
typedef struct DriverFunction DriverFunction; /* an entry of it */
typedef struct DriverOps DriverOps;
typedef struct Driver {
    const DriverOps *ops;
    DriverInfo info;
} Driver;

/* One launch. GPU drivers read params (the addresses of the arguments, one for each slot), the CPU driver
 * reads slots. */
typedef struct DriverLaunch {
    const uint64_t *slots;
    void **params;
    int64_t programs; /* of the grid */
    /* The CTAs to start on a GPU: one for each program, or fewer for a persistent kernel. On the CPU: the
     * threads that the launch is worth. */
    int64_t blocks;
    int threads;
    size_t shared_bytes; /* dynamic */
    int cluster;
    bool early_start;     /* the code itself waits for its predecessor in the stream */
    size_t scratch_bytes; /* CPU */
    bool neighbours;      /* CPU: programs that follow each other share lines of the output */
    void *stream;
} DriverLaunch;

/* The result of the vendor's run-time compiler. Blobs come from the driver's allocator and are freed by
 * driver_blob_free. */
typedef struct DriverBlob {
    void *data;
    size_t size, capacity;
} DriverBlob;
/* Forms of a CUDA image, in the order in which they are tried: a binary of the run-time compiler; its PTX,
 * which the driver compiles (a device that the compiler does not know); a binary that nvJitLink makes of that
 * PTX (a driver older than the PTX). */
typedef enum DriverForm { DRIVER_BINARY, DRIVER_PTX, DRIVER_LINKED, DRIVER_FORMS } DriverForm;
typedef struct DriverCompile {
    DriverForm form;
    const char *text, *name; /* the C text; the file name for messages without #line */
    const char *entry;
    const Target *target;
    bool debug_info;
    DriverBlob binary, log; /* output; log is NUL-terminated text, also after a failure */
    int registers, spill_bytes, stack_bytes, static_shared_bytes; /* out; -1: not told */
} DriverCompile;

/* CUtensorMap to encode: tensor map `desc` for a tensor of these facts. All strides in elements. */
typedef struct DriverTensorMap {
    const TensorMapDesc *desc;
    void *data;
    const int64_t *extents, *strides; /* by tensor axis */
} DriverTensorMap;

/* Optional functions are NULL if a driver does not have them; their comments say so. */
struct DriverOps {
    const char *name; /* "cuda" */
    TargetKind kind;
    const char *memory_word; /* for messages: "device memory" */

    /* Opens libraries and device; *out on success. TILE_ERROR_NO_DEVICE when there is none, UNSUPPORTED when
     * too old. */
    tile_status (*open)(const DriverDesc *, Driver **out, DriverError *);
    void (*close)(Driver *);

    /* The vendor's compiler, from C text to a binary. NULL on the CPU. It returns TILE_ERROR_COMPILE with the
     * log, or UNSUPPORTED when there is no compiler. */
    tile_status (*compile)(Driver *, DriverCompile *, DriverError *);
    /* "nvrtc 13.0", which is part of the cache key, and the file of the compiler's library; "" without a
     * compiler. The call loads the compiler, which takes noticeable time. */
    const char *(*compiler_version)(Driver *, char *path, size_t room);
    /* Makes the compiler do its initialization for the process. Any thread may call it. NULL on the CPU. */
    void (*compiler_prepare)(Driver *);

    tile_status (*module_load)(Driver *, const Artifact *, DriverModule **, DriverFunction **, DriverError *);
    void (*module_unload)(Driver *, DriverModule *);
    /* The number of CTAs of the function that fit one multiprocessor at once. NULL on the CPU. */
    tile_status (*occupancy)(
        Driver *, DriverFunction *, int threads, size_t shared_bytes, int *blocks, DriverError *);
    tile_status (*launch)(Driver *, DriverFunction *, const DriverLaunch *, DriverError *);
    /* Writes the 128 bytes of a CUtensorMap (64-byte aligned). NULL except on CUDA. */
    tile_status (*tensor_map)(Driver *, const DriverTensorMap *, void *out, DriverError *);
    /* True while the stream records a graph. NULL on the CPU. */
    bool (*capturing)(Driver *, void *stream);

    tile_status (*memory_alloc)(Driver *, tile_memory, size_t, void **, DriverError *);
    /* Device memory of zeros, also while any stream of the process records a graph. NULL on the CPU. */
    tile_status (*memory_zeroed)(Driver *, size_t, void **, DriverError *);
    tile_status (*memory_free)(Driver *, tile_memory, void *, DriverError *);
    /* Memory that is there for what follows in the stream until it is freed there, also in a recorded graph:
     * whether there is such memory, which is asked before any is allocated. All three are NULL except on
     * CUDA; a driver that is too old and some virtual devices have none. */
    bool (*scratch_there)(Driver *);
    tile_status (*scratch_alloc)(Driver *, size_t, void *stream, void **, DriverError *);
    tile_status (*scratch_free)(Driver *, void *, void *stream, DriverError *);
    /* The number of a stream, which no other stream of the process has or had; false: not known, or the
     * stream records a graph. NULL except on CUDA. */
    bool (*stream_number)(Driver *, void *stream, uint64_t *);
    tile_status (*copy)(Driver *, void *dst, const void *src, size_t, void *stream, DriverError *);
    tile_status (*copy_2d)(Driver *, void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
        size_t width, size_t rows, void *stream, DriverError *);
    tile_status (*fill)(Driver *, void *dst, uint8_t, size_t, void *stream, DriverError *);

    tile_status (*stream_create)(Driver *, void **, DriverError *);
    tile_status (*stream_destroy)(Driver *, void *, DriverError *);
    tile_status (*stream_synchronize)(Driver *, void *, DriverError *);
    tile_status (*stream_wait)(Driver *, void *stream, void *event, DriverError *);
    tile_status (*event_create)(Driver *, void **, DriverError *);
    tile_status (*event_destroy)(Driver *, void *, DriverError *);
    tile_status (*event_record)(Driver *, void *event, void *stream, DriverError *);
    tile_status (*event_query)(Driver *, void *event, DriverError *); /* TILE_PENDING while not done */
    tile_status (*event_synchronize)(Driver *, void *event, DriverError *);
    tile_status (*event_elapsed)(Driver *, void *start, void *end, double *ms, DriverError *);
    tile_status (*synchronize)(Driver *, DriverError *);
    /* The number of programs of the running launch that have ended, and of all its programs; 0 and 0 when
     * none runs. It may be called from any thread and from signal handlers. NULL on GPUs. */
    void (*progress)(Driver *, int64_t *done, int64_t *total);
};

extern const DriverOps driver_cpu, driver_cuda, driver_hip;
/* The table of a kind, or NULL when this build lacks it. */
const DriverOps *driver_ops(TargetKind);
const Backend *driver_backend(TargetKind);

/* Growing buffers from an allocator, for logs and binaries. False when out of memory. */
bool driver_blob_resize(Allocator, DriverBlob *, size_t);
void driver_blob_free(Allocator, DriverBlob *);
