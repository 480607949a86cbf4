/* scratch.c: memory of CUDA that is allocated and freed in the order of a stream, from a pool of this driver.
 * The pool keeps what was freed for the next allocation, up to KEPT bytes. Functions and numbers are cuda.h's
 * (CUDA 11.2). */
#define _GNU_SOURCE
#include "runtime/drivers/scratch.h"
#include <dlfcn.h>

enum { PINNED = 1, ON_DEVICE = 1, RELEASE_THRESHOLD = 4 };
static const uint64_t KEPT = (uint64_t)512 << 20;

typedef struct PoolProperties { /* CUmemPoolProps */
    int allocation, handles, location, device;
    void *security;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
} PoolProperties;

typedef struct ScratchPool {
    void *pool; /* NULL: the driver has none */
    int (*create)(void **, const PoolProperties *);
    int (*set)(void *, int, void *);
    int (*destroy)(void *);
    int (*alloc)(void **, size_t, void *pool, void *stream);
    int (*free)(void *, void *stream);
} ScratchPool;

static void find(GpuDriver *g, ScratchPool *p)
{
    *(void **)&p->create = dlsym(g->library, "cuMemPoolCreate");
    *(void **)&p->set = dlsym(g->library, "cuMemPoolSetAttribute");
    *(void **)&p->destroy = dlsym(g->library, "cuMemPoolDestroy");
    *(void **)&p->alloc = dlsym(g->library, "cuMemAllocFromPoolAsync");
    *(void **)&p->free = dlsym(g->library, "cuMemFreeAsync");
}

/* In the device's context, with the lock held. */
static void make(GpuDriver *g)
{
    ScratchPool *p = g->alloc.realloc(g->alloc.user, NULL, 0, sizeof *p);
    uint64_t kept = KEPT;
    PoolProperties all = { .allocation = PINNED, .location = ON_DEVICE, .device = g->device };
    if (!p) return;
    *p = (ScratchPool){ 0 };
    find(g, p);
    g->scratch = p;
    if (!p->create || !p->set || !p->destroy || !p->alloc || !p->free) return;
    if (p->create(&p->pool, &all)) p->pool = NULL;
    else p->set(p->pool, RELEASE_THRESHOLD, &kept); /* else nothing is kept, which is slower */
}

/* The pool is made when it is asked for first, outside of the capture of a graph. */
bool scratch_there(Driver *d)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    if (gpudrv_enter(g, &scope)) return false;
    lock_enter(&g->scratch_lock);
    if (!g->scratch) make(g);
    bool there = g->scratch && g->scratch->pool;
    lock_leave(&g->scratch_lock);
    gpudrv_leave(g, &scope);
    return there;
}

tile_status scratch_alloc(Driver *d, size_t bytes, void *stream, void **out, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (!r) {
        r = g->scratch->alloc(out, bytes, g->scratch->pool, stream);
        gpudrv_leave(g, &scope);
    }
    return gpudrv_result(g, r, "allocating memory of a stream", e);
}

tile_status scratch_free(Driver *d, void *memory, void *stream, DriverError *e)
{
    GpuDriver *g = (GpuDriver *)d;
    GpuScope scope;
    int r = gpudrv_enter(g, &scope);
    if (!r) {
        r = g->scratch->free(memory, stream);
        gpudrv_leave(g, &scope);
    }
    return gpudrv_result(g, r, "freeing memory of a stream", e);
}

void scratch_close(GpuDriver *g)
{
    GpuScope scope;
    ScratchPool *p = g->scratch;
    if (!p) return;
    if (p->pool && !gpudrv_forked(g) && !gpudrv_enter(g, &scope)) {
        p->destroy(p->pool);
        gpudrv_leave(g, &scope);
    }
    g->alloc.realloc(g->alloc.user, p, sizeof *p, 0);
    g->scratch = NULL;
}
