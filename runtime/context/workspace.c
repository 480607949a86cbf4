/* workspace.c: the workspaces of launches that need one and are given none. The context keeps one for each
 * stream, whose launches run in order, so that no two launches that may overlap share it. It is memory in the
 * order of its stream (scratch.c) and grows there: the old one is freed behind the launches that use it, the
 * new one is allocated behind that, and nobody waits. From taking it until the launch has been handed over
 * its lock is held, because another thread could let it grow between the two.
 *
 * A launch has memory of its own, allocated before it and freed behind it in the stream's order, where
 * - a graph is captured, which then owns the memory, and may run beside the stream;
 * - the driver does not number its streams: a handle may come again while work of its former stream runs;
 * - the workspaces together would have more than the context's limit. */
#include "runtime/context/context.h"

/* The grain of the driver's pools, so that what grows a little has grown. */
enum { WORKSPACE_GRAIN = 2 << 20 };

bool context_has_scratch(tile_context *c)
{
    if (c->parent) return context_has_scratch(c->parent);
    if (atomic_load_explicit(&c->has_scratch, memory_order_relaxed)) return true;
    bool there = c->driver->ops->scratch_alloc && c->driver->ops->scratch_there(c->driver);
    if (there) atomic_store_explicit(&c->has_scratch, true, memory_order_relaxed);
    return there;
}

/* The workspace at a stream's place; NULL: no memory for it. */
static StreamWorkspace *workspace_at(tile_context *c, StreamWorkspace *_Atomic *at)
{
    StreamWorkspace *w = atomic_load_explicit(at, memory_order_acquire);
    if (w) return w;
    lock_enter(&c->counters_lock);
    w = atomic_load_explicit(at, memory_order_relaxed);
    if (!w && (w = context_alloc(c, sizeof *w))) {
        lock_init(&w->lock);
        atomic_store_explicit(at, w, memory_order_release);
    }
    lock_leave(&c->counters_lock);
    return w;
}

/* Counts bytes that are to be kept; false: there would be more than the limit. */
static bool may_keep(tile_context *c, size_t more)
{
    size_t kept = atomic_load(&c->workspace_kept);
    do
        if (more > c->workspace_limit || kept > c->workspace_limit - more) return false;
    while (!atomic_compare_exchange_weak(&c->workspace_kept, &kept, kept + more));
    return true;
}

/* With the lock of w, which has counted for `bytes` already: gives it so many. */
static tile_status grow(tile_context *c, StreamWorkspace *w, size_t bytes, void *stream, DriverError *e)
{
    const DriverOps *ops = c->driver->ops;
    void *old = w->memory;
    w->memory = NULL;
    w->bytes = 0;
    tile_status st = old ? ops->scratch_free(c->driver, old, stream, e) : TILE_OK;
    if (!st) st = ops->scratch_alloc(c->driver, bytes, stream, &w->memory, e);
    if (st) {
        w->memory = NULL;
        atomic_fetch_sub(&c->workspace_kept, bytes);
    } else w->bytes = bytes;
    return st;
}

/* Takes the stream's workspace. False: it cannot be kept, or *st is an error. */
static bool take_kept(
    tile_context *c, StreamWorkspace *w, size_t bytes, void *stream, tile_status *st, DriverError *e)
{
    lock_enter(&w->lock);
    if (bytes > w->bytes) {
        size_t wanted = (bytes + WORKSPACE_GRAIN - 1) / WORKSPACE_GRAIN * WORKSPACE_GRAIN;
        if (may_keep(c, wanted - w->bytes)) *st = grow(c, w, wanted, stream, e);
        if (w->bytes < bytes) {
            lock_leave(&w->lock);
            return false;
        }
    }
    return true;
}

tile_status context_borrow(tile_context *c, void *stream, size_t bytes, const char *title, Borrowed *out)
{
    tile_context *owner = c->parent ? c->parent : c;
    const DriverOps *ops = owner->driver->ops;
    bool captured = ops->capturing && ops->capturing(owner->driver, stream);
    StreamWorkspace *_Atomic *at = NULL, *w;
    uint64_t number;
    DriverError e;
    tile_status st = TILE_OK;
    *out = (Borrowed){ NULL };
    if (!captured && ops->stream_number && ops->stream_number(owner->driver, stream, &number))
        out->counter = context_numbered_counter(owner, number, &at);
    else out->counter = context_counter(owner, stream);
    if (!out->counter) return TILE_ERROR_RESOURCES;
    if (at && (w = workspace_at(owner, at)) && take_kept(owner, w, bytes, stream, &st, &e)) {
        out->kept = w;
        out->workspace = w->memory;
    } else if (!st) st = ops->scratch_alloc(owner->driver, bytes, stream, &out->workspace, &e);
    return st ? context_driver_fail(c, st, &e, title) : TILE_OK;
}

tile_status context_give_back(tile_context *c, void *stream, const char *title, const Borrowed *b)
{
    DriverError e;
    if (b->kept) {
        lock_leave(&b->kept->lock);
        return TILE_OK;
    }
    tile_status st = c->driver->ops->scratch_free(c->driver, b->workspace, stream, &e);
    return st ? context_driver_fail(c, st, &e, title) : TILE_OK;
}

void context_forget_stream(tile_context *c, void *stream)
{
    const DriverOps *ops = c->driver->ops;
    StreamWorkspace *_Atomic *at = NULL, *w;
    uint64_t number;
    DriverError ignored;
    if (c->parent) c = c->parent;
    if (!atomic_load(&c->workspace_kept) || !ops->stream_number(c->driver, stream, &number) ||
        !context_numbered_counter(c, number, &at) || !(w = atomic_load(at)))
        return;
    lock_enter(&w->lock);
    if (w->memory) ops->scratch_free(c->driver, w->memory, stream, &ignored);
    atomic_fetch_sub(&c->workspace_kept, w->bytes);
    w->memory = NULL;
    w->bytes = 0;
    lock_leave(&w->lock);
}

/* The streams may be gone, so that the memory is freed in no stream's order: the work has to end first. */
void context_free_workspaces(tile_context *c)
{
    const DriverOps *ops = c->driver->ops;
    DriverError ignored;
    if (atomic_load(&c->workspace_kept)) ops->synchronize(c->driver, &ignored);
    for (StreamTable *t = atomic_load(&c->streams); t; t = atomic_load(&t->next))
        for (int k = 0; k < STREAM_COUNTERS; k++) {
            StreamWorkspace *w = atomic_load(&t->workspace[k]);
            if (!w) continue;
            if (w->memory) ops->memory_free(c->driver, TILE_MEMORY_DEVICE, w->memory, &ignored);
            lock_destroy(&w->lock);
            context_free(c, w, sizeof *w);
        }
}
