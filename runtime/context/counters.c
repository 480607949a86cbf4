/* counters.c: the counters of a context, 8 bytes of zeroed device memory each. A launch of a persistent
 * kernel, or of one whose parts meet in a workspace, takes one and leaves it zeroed. Launches that may run
 * beside each other never share one: a stream has a counter, because its launches run in order, and each
 * captured launch has one, because its graph may later run beside other work of the stream. */
#include "runtime/context/context.h"
#include <stdatomic.h>

/* CU_STREAM_PER_THREAD and hipStreamPerThread: a handle that names another stream in each thread. */
enum { STREAM_PER_THREAD = 2 };

static void *counter_memory(tile_context *c)
{
    void *p = atomic_load_explicit(&c->counters, memory_order_acquire);
    if (p) return p;
    DriverError e;
    const DriverOps *ops = c->driver->ops;
    size_t bytes = (size_t)(STREAM_COUNTERS + COUNTER_POOL) * 8;
    lock_enter(&c->lock);
    tile_status st = TILE_OK;
    if (!(p = atomic_load(&c->counters))) {
        st = ops->memory_alloc(c->driver, TILE_MEMORY_DEVICE, bytes, &p, &e);
        if (!st && ((st = ops->fill(c->driver, p, 0, bytes, NULL, &e)) ||
                       (st = ops->stream_synchronize(c->driver, NULL, &e)))) {
            DriverError ignored;
            ops->memory_free(c->driver, TILE_MEMORY_DEVICE, p, &ignored);
        }
        if (!st) atomic_store_explicit(&c->counters, p, memory_order_release);
    }
    lock_leave(&c->lock);
    if (st) {
        context_driver_fail(c, st, &e, "counters of persistent kernels");
        return NULL;
    }
    return p;
}

/* Not 0, and the same for two launches only if they are in one stream. Handles are addresses or less than
 * STREAM_PER_THREAD, so that the keys of threads, which are even, differ from all of theirs. Numbers of
 * threads that have ended are not given again, because the work of their streams may still run. */
static uintptr_t stream_key(void *stream)
{
    static atomic_uintptr_t threads = 1;
    static _Thread_local uintptr_t own;
    if ((uintptr_t)stream != STREAM_PER_THREAD) return (uintptr_t)stream + 1;
    if (!own) own = 2 * (1 + atomic_fetch_add(&threads, 1));
    return own;
}

void *context_counter(tile_context *c, void *stream)
{
    if (c->parent) return context_counter(c->parent, stream);
    char *base = counter_memory(c);
    if (!base) return NULL;
    if (!c->driver->ops->capturing || !c->driver->ops->capturing(c->driver, stream)) {
        uintptr_t key = stream_key(stream);
        size_t at = (size_t)(key * 0x9e3779b97f4a7c15ull >> 40) % STREAM_COUNTERS;
        for (int tries = 0; tries < STREAM_COUNTERS; tries++, at = (at + 1) % STREAM_COUNTERS) {
            uintptr_t seen = atomic_load_explicit(&c->counter_stream[at], memory_order_relaxed);
            if (seen == 0 && atomic_compare_exchange_strong(&c->counter_stream[at], &seen, key)) seen = key;
            if (seen == key) return base + at * 8;
        }
    }
    int n = atomic_fetch_add(&c->captured_counters, 1);
    if (n < COUNTER_POOL) return base + (size_t)(STREAM_COUNTERS + n) * 8;
    atomic_store(&c->captured_counters, COUNTER_POOL);
    context_fail(c, TILE_ERROR_RESOURCES,
        "no counters left: more than %d launches of persistent kernels were captured into graphs",
        COUNTER_POOL);
    return NULL;
}
