/* async.c: compiling off the launch path, in a thread a handle. */
#include "runtime/launch/kernel.h"

typedef struct ArgCopy {
    tile_tensor tensor;
    int64_t shape[TILE_MAX_RANK], strides[TILE_MAX_RANK];
} ArgCopy;

struct tile_compile {
    tile_kernel *kernel;
    pthread_t thread;
    bool joined;
    Lock lock;      /* guards joined */
    unsigned forks; /* the value of fork_count() when the thread was started */
    atomic_int done;
    tile_status status; /* valid once done, and the text of a failure */
    char error[CONTEXT_MESSAGE];
    size_t n, bytes;
    tile_arg *args;
    ArgCopy *copies;
};

static void *compile_thread(void *p)
{
    tile_compile *h = p;
    h->status = tile_kernel_compile(h->kernel, h->args, h->n);
    if (h->status) tile_context_error(h->kernel->context, h->error, sizeof h->error);
    atomic_store_explicit(&h->done, 1, memory_order_release);
    return NULL;
}

/* Reads the arguments once, here, so that the caller's arrays may be freed when this returns. */
static void copy_view(
    const tile_kernel *k, int i, const LaunchArgs *l, ArgCopy *copy, tile_arg *arg, const tile_arg *given)
{
    const KernelParam *p = &k->params[i];
    *arg = *given;
    if (p->kind == PARAM_SCALAR || l->views[i].facts & FACT_ABSENT) return;
    memcpy(copy->shape, l->views[i].extent, sizeof copy->shape);
    memcpy(copy->strides, l->strides[i], sizeof copy->strides);
    copy->tensor = (tile_tensor){ l->views[i].data, copy->shape, copy->strides, p->rank, TILE_NONE };
    *arg = tile_arg_tensor(&copy->tensor);
}

tile_status tile_kernel_compile_async(tile_kernel *k, const tile_arg *args, size_t n, tile_compile **out)
{
    FLOAT_STATE_DEFAULT();
    if (!k || !out) return TILE_ERROR_INVALID_ARGUMENT;
    *out = NULL;
    LAUNCH_ARGS(l, k);
    tile_status st = kernel_bind(k, args, n, &l); /* Errors in arguments are reported at once. */
    if (st) return st;
    size_t bytes = sizeof(tile_compile) + n * (sizeof(tile_arg) + sizeof(ArgCopy));
    tile_compile *h = context_alloc(k->context, bytes);
    if (!h) return context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    h->kernel = k;
    h->forks = fork_count();
    h->n = n;
    h->bytes = bytes;
    h->copies = (ArgCopy *)(h + 1);
    h->args = (tile_arg *)(h->copies + n);
    for (size_t i = 0; i < n; i++) copy_view(k, (int)i, &l, &h->copies[i], &h->args[i], &args[i]);
    atomic_fetch_add(&k->references, 1);
    lock_init(&h->lock);
    if (pthread_create(&h->thread, NULL, compile_thread, h)) {
        lock_destroy(&h->lock);
        context_free(k->context, h, bytes);
        st = context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "no thread could be started");
        tile_kernel_destroy(k);
        return st;
    }
    *out = h;
    return TILE_OK;
}

/* The thread belongs to the parent process; a child process has none to wait for. */
static bool of_parent(const tile_compile *h) { return h->forks != fork_count(); }

static tile_status left_behind(tile_compile *h)
{
    return context_fail(h->kernel->context, TILE_ERROR_UNSUPPORTED,
        "%s was being compiled by a thread of the parent process when it forked; a launch here compiles it "
        "anew",
        h->kernel->title);
}

/* The status of a compilation that is done; a failure becomes the last one of the thread that asks. */
static tile_status outcome(const tile_compile *h)
{ return h->status ? context_fail(h->kernel->context, h->status, "%s", h->error) : TILE_OK; }

tile_status tile_compile_poll(tile_compile *h)
{
    if (!h) return TILE_ERROR_INVALID_ARGUMENT;
    if (atomic_load_explicit(&h->done, memory_order_acquire)) return outcome(h);
    return of_parent(h) ? left_behind(h) : TILE_PENDING;
}

static void join(tile_compile *h)
{
    lock_enter(&h->lock);
    if (!h->joined) pthread_join(h->thread, NULL);
    h->joined = true;
    lock_leave(&h->lock);
}

tile_status tile_compile_wait(tile_compile *h)
{
    if (!h) return TILE_ERROR_INVALID_ARGUMENT;
    if (of_parent(h)) return atomic_load(&h->done) ? outcome(h) : left_behind(h);
    join(h);
    return outcome(h);
}

void tile_compile_destroy(tile_compile *h)
{
    if (!h) return;
    if (!of_parent(h)) join(h);
    tile_kernel *k = h->kernel;
    lock_destroy(&h->lock);
    context_free(k->context, h, h->bytes);
    tile_kernel_destroy(k);
}
