/* driver_gpu.h: what driver_cuda.c and driver_hip.c share: the two vendors' driver interfaces differ in
 * spelling more than in kind. */
#pragma once
#include "runtime/drivers/driver.h"
#include "runtime/context/fork.h"
#include "runtime/drivers/rtc.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct GpuDriver {
    Driver base;
    Allocator alloc;
    void *library;
    int device;                                          /* the driver's handle */
    void *context;                                       /* CUDA: what calls run in */
    bool own_context;                                    /* retained from the device */
    unsigned forks;                                      /* the value of fork_count() when it was opened */
    int arch;                                            /* 90; 0x942 */
    const char *(*error_name)(int), *(*error_text)(int); /* HIP */
    /* guards the opening of the compiler, but not its use */
    Lock rtc_lock;
    Rtc *rtc;
    /* CUDA: the pool of scratch.c; NULL: not made. scratch_lock guards its making. */
    Lock scratch_lock;
    struct ScratchPool *scratch;
    atomic_bool prepared; /* the compiler has compiled something, or is about to */
    char compiler_library[512];
#define FN(field, args, cuda, hip, required) int(*field) args;
#include "runtime/drivers/gpu.def"
#undef FN
} GpuDriver;

/* Opens one of the libraries (NULL-terminated names; `path` alone when given) and finds the functions. */
tile_status gpudrv_open_library(
    GpuDriver *, const char *path, const char *const *names, bool cuda, const char *what, DriverError *);
GpuDriver *gpudrv_new(const DriverOps *, const DriverDesc *);
void gpudrv_free(GpuDriver *);
/* Status and text of a failed call `what`; TILE_OK for 0. */
tile_status gpudrv_result(GpuDriver *, int result, const char *what, DriverError *);
/* Makes the device current. gpudrv_leave restores the former device. */
typedef struct GpuScope {
    void *context;
    int device;
} GpuScope;
/* Whether the process was forked since the driver was opened. Then no call of the driver works, and
 * gpudrv_enter fails. */
bool gpudrv_forked(const GpuDriver *);
int gpudrv_enter(GpuDriver *, GpuScope *);
void gpudrv_leave(GpuDriver *, const GpuScope *);

/* The operations that are the same for both vendors, for their tables. */
#define GPU_OPS \
    .compile = gpudrv_compile, .compiler_version = gpudrv_compiler_version, \
    .compiler_prepare = gpudrv_compiler_prepare, .module_load = gpudrv_module_load, \
    .module_unload = gpudrv_module_unload, .occupancy = gpudrv_occupancy, .launch = gpudrv_launch, \
    .capturing = gpudrv_capturing, .memory_alloc = gpudrv_memory_alloc, \
    .memory_zeroed = gpudrv_memory_zeroed, .memory_free = gpudrv_memory_free, .fill = gpudrv_fill, \
    .stream_create = gpudrv_stream_create, .stream_destroy = gpudrv_stream_destroy, \
    .stream_synchronize = gpudrv_stream_synchronize, .stream_wait = gpudrv_stream_wait, \
    .event_create = gpudrv_event_create, .event_destroy = gpudrv_event_destroy, \
    .event_record = gpudrv_event_record, .event_query = gpudrv_event_query, \
    .event_synchronize = gpudrv_event_synchronize, .event_elapsed = gpudrv_event_elapsed, \
    .synchronize = gpudrv_synchronize
tile_status gpudrv_compile(Driver *, DriverCompile *, DriverError *);
const char *gpudrv_compiler_version(Driver *, char *, size_t);
void gpudrv_compiler_prepare(Driver *);
tile_status gpudrv_module_load(Driver *, const Artifact *, DriverModule **, DriverFunction **, DriverError *);
void gpudrv_module_unload(Driver *, DriverModule *);
tile_status gpudrv_occupancy(Driver *, DriverFunction *, int, size_t, int *, DriverError *);
tile_status gpudrv_launch(Driver *, DriverFunction *, const DriverLaunch *, DriverError *);
bool gpudrv_capturing(Driver *, void *);
tile_status gpudrv_memory_alloc(Driver *, tile_memory, size_t, void **, DriverError *);
tile_status gpudrv_memory_zeroed(Driver *, size_t, void **, DriverError *);
tile_status gpudrv_memory_free(Driver *, tile_memory, void *, DriverError *);
tile_status gpudrv_fill(Driver *, void *, uint8_t, size_t, void *, DriverError *);
tile_status gpudrv_stream_create(Driver *, void **, DriverError *);
tile_status gpudrv_stream_destroy(Driver *, void *, DriverError *);
tile_status gpudrv_stream_synchronize(Driver *, void *, DriverError *);
tile_status gpudrv_stream_wait(Driver *, void *, void *, DriverError *);
tile_status gpudrv_event_create(Driver *, void **, DriverError *);
tile_status gpudrv_event_destroy(Driver *, void *, DriverError *);
tile_status gpudrv_event_record(Driver *, void *, void *, DriverError *);
tile_status gpudrv_event_query(Driver *, void *, DriverError *);
tile_status gpudrv_event_synchronize(Driver *, void *, DriverError *);
tile_status gpudrv_event_elapsed(Driver *, void *, void *, double *, DriverError *);
tile_status gpudrv_synchronize(Driver *, DriverError *);
/* CUtensorMapDataType of an element type. */
int gpudrv_map_dtype(DType);
