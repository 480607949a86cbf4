/* counters.c: the counters of a context, 8 bytes of zeroed device memory each. A launch of a persistent
 * kernel, or of one whose parts meet in a workspace, takes one and leaves it zeroed. Launches that may run
 * beside each other never share one: a stream has a counter, because its launches run in order, and each
 * captured launch has one, because its graph may later run beside other work of the stream. (Executable
 * graphs of one graph share it, so that they must not run at once: docs/embedding.md says so.) Their memory
 * is taken at a launch where there is none left, also while a graph is captured; none is freed before the
 * context is.
 *
 * CUDA numbers its streams, and no number comes again. Handles do, so that streams are known by theirs only
 * where there are no numbers: on HIP, which waits for a stream's work before it gives the handle away
 * (HostQueue::terminate in ROCm's clr), and with drivers before CUDA 12, where the program has to wait before
 * it destroys a stream. */
#include "runtime/context/context.h"
#include <stdatomic.h>

/* CU_STREAM_PER_THREAD and hipStreamPerThread: a handle that names another stream in each thread. */
enum { STREAM_PER_THREAD = 2 };

/* Of how many places of a table a key takes the first that is free. */
enum { PLACES = 64 };

static void free_counters(tile_context *c, void *p)
{
    DriverError ignored;
    if (p) c->driver->ops->memory_free(c->driver, TILE_MEMORY_DEVICE, p, &ignored);
}

/* Zeroed memory of n counters; NULL: failed. */
static void *new_counters(tile_context *c, int n)
{
    DriverError e;
    void *p;
    tile_status st = c->driver->ops->memory_zeroed(c->driver, (size_t)n * 8, &p, &e);
    if (!st) return p;
    context_driver_fail(c, st, &e, "counters of persistent kernels");
    return NULL;
}

static void no_memory(tile_context *c)
{ context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory for counters of persistent kernels"); }

static StreamTable *new_table(tile_context *c)
{
    StreamTable *made = c->alloc.realloc(c->alloc.user, NULL, 0, sizeof *made);
    if (!made) {
        no_memory(c);
        return NULL;
    }
    memset(made, 0, sizeof *made);
    made->memory = new_counters(c, STREAM_COUNTERS);
    if (made->memory) return made;
    context_free(c, made, sizeof *made);
    return NULL;
}

/* The table at *at, which is made if it is not there; NULL: failed. */
static StreamTable *table_at(tile_context *c, StreamTable *_Atomic *at)
{
    StreamTable *t = atomic_load_explicit(at, memory_order_acquire);
    if (t) return t;
    lock_enter(&c->counters_lock);
    t = atomic_load_explicit(at, memory_order_relaxed);
    if (!t && (t = new_table(c))) atomic_store_explicit(at, t, memory_order_release);
    lock_leave(&c->counters_lock);
    return t;
}

void context_free_counters(tile_context *c)
{
    for (StreamTable *t = atomic_load(&c->streams), *next; t; t = next) {
        next = atomic_load(&t->next);
        free_counters(c, t->memory);
        context_free(c, t, sizeof *t);
    }
    for (CapturedTable *t = atomic_load(&c->captured), *older; t; t = older) {
        older = t->older;
        free_counters(c, t->memory);
        context_free(c, t, sizeof *t);
    }
}

static CapturedTable *new_captured(tile_context *c, CapturedTable *older)
{
    CapturedTable *made = c->alloc.realloc(c->alloc.user, NULL, 0, sizeof *made);
    if (!made) {
        no_memory(c);
        return NULL;
    }
    *made = (CapturedTable){ .memory = new_counters(c, CAPTURED_COUNTERS), .older = older };
    if (made->memory) return made;
    context_free(c, made, sizeof *made);
    return NULL;
}

/* A table newer than `used_up`, which may be NULL; NULL: failed. */
static CapturedTable *captured_after(tile_context *c, CapturedTable *used_up)
{
    CapturedTable *t = atomic_load_explicit(&c->captured, memory_order_acquire);
    if (t != used_up) return t;
    lock_enter(&c->counters_lock);
    t = atomic_load_explicit(&c->captured, memory_order_relaxed);
    if (t == used_up && (t = new_captured(c, used_up)))
        atomic_store_explicit(&c->captured, t, memory_order_release);
    lock_leave(&c->counters_lock);
    return t;
}

/* A counter that no other launch has. */
static void *captured_counter(tile_context *c)
{
    for (CapturedTable *t = captured_after(c, NULL); t; t = captured_after(c, t)) {
        if (atomic_load_explicit(&t->used, memory_order_relaxed) >= CAPTURED_COUNTERS) continue;
        int n = atomic_fetch_add(&t->used, 1);
        if (n < CAPTURED_COUNTERS) return (char *)t->memory + (size_t)n * 8;
    }
    return NULL;
}

/* The key of a stream without a number: not 0, and the same for two launches only if their streams have one
 * handle and are there at one time. Handles are addresses or less than
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

/* Numbers and handles (addresses) are below 2^62, so that keys of the two kinds differ. */
static uintptr_t number_key(uint64_t number) { return ~(uintptr_t)number; }

/* The counter of a stream. Streams that come and go leave their counters, so that tables are added. */
static void *stream_counter(tile_context *c, uintptr_t key, StreamWorkspace *_Atomic **workspace)
{
    size_t first = (size_t)(key * 0x9e3779b97f4a7c15ull >> 40);
    StreamTable *t;
    for (StreamTable *_Atomic *at = &c->streams; (t = table_at(c, at)); at = &t->next)
        for (size_t k = first; k < first + PLACES; k++) {
            _Atomic uintptr_t *place = &t->stream[k % STREAM_COUNTERS];
            uintptr_t seen = atomic_load_explicit(place, memory_order_relaxed);
            if (seen == 0 && atomic_compare_exchange_strong(place, &seen, key)) seen = key;
            if (seen != key) continue;
            if (workspace) *workspace = &t->workspace[k % STREAM_COUNTERS];
            return (char *)t->memory + k % STREAM_COUNTERS * 8;
        }
    return NULL;
}

bool context_makes_counters(tile_context *c)
{
    if (c->parent) return context_makes_counters(c->parent);
    return table_at(c, &c->streams) && captured_after(c, NULL);
}

void *context_counter(tile_context *c, void *stream)
{
    const DriverOps *ops = c->driver->ops;
    uint64_t number;
    if (c->parent) return context_counter(c->parent, stream);
    if (!ops->capturing || !ops->capturing(c->driver, stream)) {
        bool numbered = ops->stream_number && ops->stream_number(c->driver, stream, &number);
        return stream_counter(c, numbered ? number_key(number) : stream_key(stream), NULL);
    }
    return captured_counter(c);
}

void *context_numbered_counter(tile_context *c, uint64_t number, StreamWorkspace *_Atomic **workspace)
{ return stream_counter(c, number_key(number), workspace); }
