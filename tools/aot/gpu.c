/* gpu.c: the launcher of a bundle. tilec copies the text between the marks into the C file that it writes,
 * behind the tables of bundle.h (images, entries, N_IMAGES, N_ENTRIES), the rows of runtime/drivers/gpu.def
 * as GPU_CALLS, gpu_facts.h, args.h and gpu_driver.c. Compiled there by whoever builds a program: C11 and the
 * C library, no vendor's header.
 *
 * A launch finds the device by its queue, takes the first variant of the plan that fits the device, the
 * arguments and what they promise, loads its image once a context, and hands over. Loaded functions are found
 * without a lock. */
#include "tools/aot/gpu_driver.c"
#include "tools/aot/unpack.h"
/* begin */
/* --- images ------------------------------------------------------------------------------------------ */

/* Binaries of CUDA run within their generation on later devices, PTX and text on all later ones; "a"
 * architectures on their own only. */
static bool image_fits(const Image *i, const Home *h)
{
    if (i->device != h->device) return false;
    if (i->device == TILE_ON_HIP) return !strcmp(i->target, h->target);
    if (i->exact) return i->arch == h->arch;
    return i->arch <= h->arch && (i->kind != IMAGE_BINARY || i->arch / 10 == h->arch / 10);
}

/* --- text, for bundles made where no compiler of the vendor's was ------------------------------------ */

typedef struct Compiler {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *),
        (*compile)(void *, int, const char *const *), (*destroy)(void **);
    int (*log_size)(void *, size_t *), (*log)(void *, char *), (*code_size)(void *, size_t *),
        (*code)(void *, char *);
} Compiler;

static void *open_compiler(int device, Compiler *c)
{
    static const char *const nvrtc[] = { NULL, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
        "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so" };
    static const char *const hiprtc[] = { NULL, "libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6",
        "/opt/rocm/lib/libhiprtc.so", "libamdhip64.so" };
    static const char *const suffix[] = { "CreateProgram", "CompileProgram", "DestroyProgram",
        "GetProgramLogSize", "GetProgramLog" };
    void **slots[] = { (void **)&c->create, (void **)&c->compile, (void **)&c->destroy, (void **)&c->log_size,
        (void **)&c->log };
    bool nv = device == TILE_ON_CUDA;
    const char *named = getenv(nv ? "TILE_NVRTC" : "TILE_HIPRTC");
    char name[40];
    for (int i = !named; i < (named ? 1 : 6); i++) {
        const char *file = named ? named : (nv ? nvrtc : hiprtc)[i];
        void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
        bool all = library != NULL;
        for (int k = 0; library && k < 5; k++) {
            snprintf(name, sizeof name, "%s%s", nv ? "nvrtc" : "hiprtc", suffix[k]);
            all &= (*slots[k] = dlsym(library, name)) != NULL;
        }
        if (all) {
            *(void **)&c->code_size = dlsym(library, nv ? "nvrtcGetCUBINSize" : "hiprtcGetCodeSize");
            *(void **)&c->code = dlsym(library, nv ? "nvrtcGetCUBIN" : "hiprtcGetCode");
            if (c->code_size && c->code) return library;
        }
        if (library) dlclose(library);
    }
    return NULL;
}

/* Compiles for the device itself. *binary is malloc'd. */
static int compile_text(
    const Image *image, const char *text, const Home *h, const char *kernel, void **binary)
{
    Compiler c;
    void *program = NULL, *library = open_compiler(image->device, &c);
    const char *vendor = image->device == TILE_ON_CUDA ? "NVRTC" : "hipRTC",
               *arch = strchr(h->target, ':') + 1;
    char option[64], log[300] = "";
    const char *options[] = { option, image->device == TILE_ON_CUDA ? "--std=c++17" : "-O3" };
    size_t size = 0;
    *binary = NULL;
    if (!library)
        return fail(TILE_LAUNCH_UNSUPPORTED,
            "%s: this bundle holds source text for %s and there is no %s here", kernel, image->target,
            vendor);
    snprintf(option, sizeof option,
        image->device == TILE_ON_CUDA ? "--gpu-architecture=%s" : "--offload-arch=%s",
        image->exact ? strchr(image->target, ':') + 1 : arch);
    int result = c.create(&program, text, kernel, 0, NULL, NULL);
    if (!result && (result = c.compile(program, 2, options)) && !c.log_size(program, &size) && size) {
        char *text = malloc(size);
        if (text && !c.log(program, text)) snprintf(log, sizeof log, "%s", text);
        free(text);
    }
    if (!result && !(result = c.code_size(program, &size)) && (*binary = malloc(size + 1)))
        result = c.code(program, *binary);
    if (program) c.destroy(&program);
    if (result) {
        free(*binary);
        *binary = NULL;
    }
    if (result)
        return fail(TILE_LAUNCH_UNSUPPORTED, "%s: %s does not compile it for %s (%d) %s", kernel, vendor,
            h->target, result, log);
    return *binary ? TILE_LAUNCH_OK : fail(TILE_LAUNCH_OUT_OF_MEMORY, "%s: out of memory", kernel);
}

/* --- loading ----------------------------------------------------------------------------------------- */

/* The image itself; *plain is malloc'd where it is stored compressed. */
static int plain_image(const Image *image, const char *kernel, const void **bytes, void **plain)
{
    *bytes = image->bytes;
    if (!image->packed) return TILE_LAUNCH_OK;
    if (!(*bytes = *plain = malloc(image->size + 1)))
        return fail(TILE_LAUNCH_OUT_OF_MEMORY, "%s: out of memory", kernel);
    return unpack(image->bytes, image->packed, *plain, image->size)
               ? TILE_LAUNCH_OK
               : fail(TILE_LAUNCH_INVALID, "%s: the image for %s is damaged", kernel, image->target);
}

/* Under the lock and in the home's context. TILE_LAUNCH_UNSUPPORTED: another image may do. */
static int load_image(const Api *a, Home *h, int number, const char *kernel)
{
    static const char *const kinds[] = { "the binary", "the PTX", "the compiled text" };
    const Image *image = &images[number];
    const void *bytes;
    void *plain = NULL, *binary = NULL;
    if (h->module[number]) return TILE_LAUNCH_OK;
    if (h->refused[number]) return TILE_LAUNCH_UNSUPPORTED;
    int status = plain_image(image, kernel, &bytes, &plain), result = 0;
    if (!status && image->kind == IMAGE_TEXT) status = compile_text(image, bytes, h, kernel, &binary);
    if (!status) result = a->module_load(&h->module[number], binary ? binary : bytes);
    free(plain);
    free(binary);
    if (status) {
        h->refused[number] = status == TILE_LAUNCH_UNSUPPORTED;
        return status;
    }
    if (!result) return TILE_LAUNCH_OK;
    char what[80];
    snprintf(what, sizeof what, "loading %s for %s", kinds[image->kind], image->target);
    status = driver_failed(a, result, kernel, what);
    h->module[number] = NULL;
    h->refused[number] = gpu_image_refused(result);
    return h->refused[number] ? TILE_LAUNCH_UNSUPPORTED : status;
}

static int load_entry(const Api *a, Home *h, int number, const char *kernel)
{
    const Entry *e = &entries[number];
    Scope scope;
    void *function = NULL;
    int status, result;
    pthread_mutex_lock(&bundle_lock);
    if ((result = enter(a, h, &scope)))
        status = driver_failed(a, result, kernel, "making the context current");
    else {
        status = load_image(a, h, e->image, kernel);
        if (!status && (result = a->module_function(&function, h->module[e->image], e->symbol)))
            status = driver_failed(a, result, kernel, "finding the kernel in its image");
        if (!status && h->device == TILE_ON_CUDA && e->shared_bytes > GPU_SHARED_UNASKED &&
            (result = a->function_set(function, 8, (int)e->shared_bytes))) {
            char what[100];
            snprintf(what, sizeof what, "asking for %lld bytes of shared memory", (long long)e->shared_bytes);
            driver_failed(a, result, kernel, what);
            status = TILE_LAUNCH_RESOURCES;
        }
        if (!status) __atomic_store_n(&h->function[number], function, __ATOMIC_RELEASE);
        leave(a, h, &scope);
    }
    pthread_mutex_unlock(&bundle_lock);
    return status;
}

/* --- what a launch takes of its stream --------------------------------------------------------------- */

typedef struct Borrowed {
    void *counter, *workspace;
    void *own;  /* the workspace, where it is memory of this launch alone */
    Kept *kept; /* the workspace's, whose lock is held */
} Borrowed;

/* Not 0, and the same for two launches only if they are in one stream. The handle 2 (CU_STREAM_PER_THREAD,
 * hipStreamPerThread) names another stream in each thread. The other handles are addresses or less, so that
 * the keys of threads, which are even, differ from all of theirs. Numbers of threads are not given again. */
static uintptr_t stream_key(void *stream)
{
    static uintptr_t threads = 1;
    static _Thread_local uintptr_t own;
    if ((uintptr_t)stream != 2) return (uintptr_t)stream + 1;
    if (!own) own = 2 * (1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED));
    return own;
}

/* The zeroed counters of persistent kernels, which leave them zeroed. */
static int counters_of(const Api *a, Home *h, const char *kernel, char **base)
{
    int result = 0;
    if ((*base = __atomic_load_n(&h->counters, __ATOMIC_ACQUIRE))) return TILE_LAUNCH_OK;
    void *memory = NULL;
    pthread_mutex_lock(&bundle_lock);
    if (!(*base = h->counters) && !(result = a->memory_alloc(&memory, 8 * COUNTERS)) &&
        !(result = a->fill(memory, 0, 8 * COUNTERS, NULL)) && !(result = a->stream_sync(NULL))) {
        __atomic_store_n(&h->counters, memory, __ATOMIC_RELEASE);
        *base = memory;
    }
    pthread_mutex_unlock(&bundle_lock);
    return *base ? TILE_LAUNCH_OK : driver_failed(a, result, kernel, "counters of persistent kernels");
}

/* The place of a stream, whose launches follow each other, or of a launch that is captured into a graph,
 * which may run beside others (key ~0). */
static int place_of(Home *h, uintptr_t key, const char *kernel, size_t *out)
{
    size_t at = (size_t)((key * 0x9e3779b97f4a7c15ull) >> 40) % COUNTERS;
    for (int tries = 0; tries < COUNTERS; tries++, at = (at + 1) % COUNTERS) {
        uintptr_t seen = __atomic_load_n(&h->counter_stream[at], __ATOMIC_RELAXED);
        bool mine = seen == 0 && __atomic_compare_exchange_n(&h->counter_stream[at], &seen, key, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        if (!mine && (seen != key || key == ~(uintptr_t)0)) continue;
        *out = at;
        return TILE_LAUNCH_OK;
    }
    return fail(TILE_LAUNCH_RESOURCES, "%s: no counters left: more than %d streams and captured launches",
        kernel, COUNTERS);
}

/* The workspace at a place; NULL: no memory for it. */
static Kept *kept_at(Home *h, size_t place)
{
    Kept *w = __atomic_load_n(&h->kept[place], __ATOMIC_ACQUIRE);
    if (w) return w;
    pthread_mutex_lock(&bundle_lock);
    if (!(w = h->kept[place]) && (w = calloc(1, sizeof *w))) {
        pthread_mutex_init(&w->lock, NULL);
        __atomic_store_n(&h->kept[place], w, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&bundle_lock);
    return w;
}

/* With the lock of w: lets it have `bytes`, in the order of the stream. It stays as it is where all
 * workspaces would have more than they may. */
static int grow(const Api *a, Home *h, Kept *w, size_t bytes, void *stream)
{
    size_t wanted = (bytes + KEPT_GRAIN - 1) / KEPT_GRAIN * KEPT_GRAIN, had = w->bytes;
    if (wanted > MOST_KEPT) return 0;
    if (__atomic_add_fetch(&h->kept_bytes, wanted - had, __ATOMIC_RELAXED) > MOST_KEPT) {
        __atomic_fetch_sub(&h->kept_bytes, wanted - had, __ATOMIC_RELAXED);
        return 0;
    }
    void *old = w->memory;
    w->memory = NULL;
    w->bytes = 0;
    int result = old ? a->stream_free(old, stream) : 0;
    if (!result) result = a->stream_alloc(&w->memory, wanted, stream);
    if (result) {
        w->memory = NULL;
        __atomic_fetch_sub(&h->kept_bytes, wanted, __ATOMIC_RELAXED);
    } else w->bytes = wanted;
    return result;
}

/* A workspace of `bytes`: of the place, or, where none is kept, memory of this launch alone. */
static int borrow_workspace(
    const Api *a, Home *h, const Kernel *k, size_t bytes, void *stream, Kept *w, Borrowed *b)
{
    int result = 0;
    if (w) {
        pthread_mutex_lock(&w->lock);
        if (w->bytes < bytes) result = grow(a, h, w, bytes, stream);
        if (!result && w->bytes >= bytes) {
            b->kept = w;
            b->workspace = w->memory;
            return TILE_LAUNCH_OK;
        }
        pthread_mutex_unlock(&w->lock);
    }
    if (!result) result = a->stream_alloc(&b->own, bytes, stream);
    b->workspace = b->own;
    return result ? driver_failed(a, result, k->name, "allocating a workspace") : TILE_LAUNCH_OK;
}

/* Takes a counter, and a workspace of `bytes`: the caller's, or, where the caller names none and the driver
 * can, the one that is kept for the stream. A stream that may keep one is known by its number, as a handle
 * may come again while the work of its former stream runs. In the home's context. */
static int borrow(
    const Api *a, Home *h, const Kernel *k, int64_t bytes, bool counts, const tile_queue *q, Borrowed *b)
{
    *b = (Borrowed){ .workspace = q->workspace };
    bool none = !q->workspace && !q->workspace_bytes && a->stream_alloc && a->stream_free;
    if (bytes && !none &&
        (!q->workspace || q->workspace_bytes < (size_t)bytes || (uintptr_t)q->workspace % 256))
        return breach(k->plan, TILE_LAUNCH_WORKSPACE, -1,
            "needs a workspace of %zu bytes at a multiple of 256; %zu bytes %s given", (size_t)bytes,
            q->workspace_bytes, q->workspace ? "were" : "and no address were");
    if (!counts && !(bytes && none)) return TILE_LAUNCH_OK;
    int capturing = 0;
    unsigned long long number;
    char *base;
    size_t place = 0;
    uintptr_t key = stream_key(q->stream);
    if (a->stream_capturing && !a->stream_capturing(q->stream, &capturing) && capturing) key = ~(uintptr_t)0;
    bool keeps = bytes && none && !capturing && a->stream_id && !a->stream_id(q->stream, &number);
    if (keeps) key = ~(uintptr_t)1 - (uintptr_t)number; /* no handle's or thread's */
    int status = counters_of(a, h, k->name, &base);
    if (status || (status = place_of(h, key, k->name, &place))) return status;
    b->counter = base + 8 * place;
    return bytes && none
               ? borrow_workspace(a, h, k, (size_t)bytes, q->stream, keeps ? kept_at(h, place) : NULL, b)
               : TILE_LAUNCH_OK;
}

/* Behind the launch. */
static int give_back(const Api *a, const Borrowed *b, void *stream)
{
    if (b->kept) pthread_mutex_unlock(&b->kept->lock);
    return b->own ? a->stream_free(b->own, stream) : 0;
}

/* --- launch ------------------------------------------------------------------------------------------ */

typedef struct TensorMap {
    _Alignas(64) unsigned char bytes[128];
} TensorMap;

static int encode_map(const Api *a, const Launch *l, const Map *m, const char *kernel, TensorMap *out)
{
    uint64_t extents[5], strides[5];
    uint32_t spans[5], steps[5];
    const Param *p = &l->params[m->param];
    if (!gpu_map_shape(m->rank, m->axes, m->split, m->element_bytes, p->shape, p->strides, extents, strides))
        return fail(TILE_LAUNCH_SHAPE, "%s: an axis is empty, or no multiple of its panels", kernel);
    gpu_map_boxes(m->rank, m->box, m->step, spans, steps);
    void *data = l->args[m->param].view.data;
    int swizzle = gpu_map_swizzle(m->swizzle),
        promotion = gpu_map_promotion(m->rank, m->split, data, strides);
    int result =
        m->pixels ? a->tensor_map_im2col(out->bytes, m->type, (uint32_t)m->rank, data, extents, strides,
                        m->lower, m->upper, m->box[0], (uint32_t)m->pixels, steps, 0, swizzle, promotion, 0)
                  : a->tensor_map(out->bytes, m->type, (uint32_t)m->rank, data, extents, strides, spans,
                        steps, 0, swizzle, promotion, 0);
    return result ? driver_failed(a, result, kernel, "encoding a tensor map") : TILE_LAUNCH_OK;
}

/* A kernel that waits itself is launched to start early where the driver can; where it cannot, there is
 * nothing to wait for. */
static int hand_over(
    const Api *a, const Entry *e, void *function, int64_t blocks, void *stream, void **pointers)
{
    GpuLaunchAttribute early;
    GpuLaunchConfig c = gpu_early_launch(blocks, e->threads, e->shared_bytes, stream, &early);
    if (e->early && a->launch_ex) return a->launch_ex(&c, function, pointers, NULL);
    return a->launch(function, (unsigned)blocks, 1, 1, (unsigned)e->threads, 1, 1, (unsigned)e->shared_bytes,
        stream, pointers, NULL);
}

/* In the home's context. `p` stands behind the variant's dims; the grid is known. */
static int start(const Api *a, Home *h, const Kernel *k, const Entry *e, void *function, const Launch *l,
    const int64_t *p, const tile_queue *q)
{
    enum { MAX_MAPS = 64 };
    uint64_t words[PLAN_MAX_SLOTS];
    void *pointers[PLAN_MAX_SLOTS];
    TensorMap maps[MAX_MAPS];
    GpuGrid g = { l->programs, l->grid[e->cluster_axis], e->persistent, e->cluster, e->clusters, e->shares,
        h->multiprocessors, 0 };
    int64_t n = p[0], *no_own = NULL, blocks = gpu_blocks(&g);
    const int64_t *s = p + 1, *sizes = s + 3 * n;
    int status = TILE_LAUNCH_OK;
    if (blocks > INT32_MAX)
        return fail(TILE_LAUNCH_GRID,
            "%s: the grid of %lld programs is too large: it takes %lld blocks, and a launch at most %d",
            k->name, (long long)l->programs, (long long)blocks, INT32_MAX);
    bool counts = false;
    Borrowed b;
    for (int64_t i = 0; i < n; i++) counts |= s[3 * i] == PLAN_SCHEDULER;
    if ((status = borrow(a, h, k, sizes[1] + gpu_workspace(&g, sizes[2], blocks), counts, q, &b)))
        return status;
    for (int64_t i = 0; i < n && !status; i++, s += 3) {
        pointers[i] = &words[i];
        if (s[0] == PLAN_TENSOR_MAP) {
            pointers[i] = &maps[s[2]];
            status = encode_map(a, l, &e->maps[s[2]], k->name, &maps[s[2]]);
        } else
            words[i] = s[0] == PLAN_SCHEDULER   ? (uint64_t)(uintptr_t)b.counter
                       : s[0] == PLAN_WORKSPACE ? (uint64_t)(uintptr_t)b.workspace
                                                : slot(l, s, no_own, NULL);
    }
    int result = status ? 0 : hand_over(a, e, function, blocks, q->stream, pointers);
    int freed = give_back(a, &b, q->stream);
    if (status) return status;
    if (result) return driver_failed(a, result, k->name, "launch");
    return freed ? driver_failed(a, freed, k->name, "freeing the workspace") : TILE_LAUNCH_OK;
}

static int launch_on(
    const Api *a, Home *h, const Kernel *k, Launch *l, const int64_t *consts, const tile_queue *q)
{
    const int64_t *p, *v = plan_variants(k->plan);
    int status = TILE_LAUNCH_NO_VARIANT;
    bool fitting = false, refused = false;
    int64_t too_large = 0;
    for (int64_t i = 0; i < k->plan[3]; i++, v += v[0]) {
        int number = (int)v[3];
        if (match_variant(l, v, consts, k->plan[2], &p)) continue;
        fitting = true;
        if (!image_fits(&images[entries[number].image], h)) continue;
        if (h->shared_bytes && entries[number].shared_bytes > h->shared_bytes) {
            too_large = entries[number].shared_bytes;
            continue;
        }
        if (entries[number].n_maps && (!a->tensor_map || !a->tensor_map_im2col)) {
            refused = true;
            fail(TILE_LAUNCH_UNSUPPORTED,
                "%s: the CUDA driver has no cuTensorMapEncodeTiled: version 12.0 or later is needed",
                k->name);
            continue;
        }
        void *function = __atomic_load_n(&h->function[number], __ATOMIC_ACQUIRE);
        if (!function && (status = load_entry(a, h, number, k->name)) == TILE_LAUNCH_UNSUPPORTED) {
            refused = true;
            continue;
        }
        if (!function && status) return status;
        if (!function) function = __atomic_load_n(&h->function[number], __ATOMIC_ACQUIRE);
        if ((status = find_programs(l, p, h->target))) return status;
        if (!l->programs) return TILE_LAUNCH_OK;
        Scope scope;
        int result = enter(a, h, &scope);
        if (result) return driver_failed(a, result, k->name, "making the context current");
        status = start(a, h, k, &entries[number], function, l, p, q);
        leave(a, h, &scope);
        return status;
    }
    if (refused && error_text[0]) return TILE_LAUNCH_UNSUPPORTED; /* Why has been said. */
    if (refused)
        return fail(TILE_LAUNCH_UNSUPPORTED, "%s: what was compiled for %s was refused at an earlier launch",
            k->name, h->target);
    if (too_large)
        return fail(TILE_LAUNCH_RESOURCES, "%s: needs %lld bytes of shared memory; %s has %d", k->name,
            (long long)too_large, h->target, h->shared_bytes);
    return fitting ? fail(TILE_LAUNCH_UNSUPPORTED, "%s: nothing was compiled for %s", k->name, h->target)
                   : no_variant(k->plan);
}

static int bundle_launch(
    const Kernel *k, const tile_launch_arg *args, const int64_t *consts, const tile_queue *q)
{
    Api *a;
    Home *h;
    if (error_text[0]) error_text[0] = 0;
    if (!q || q->kind == TILE_ON_CPU) {
        if (!k->cpu) return fail(TILE_LAUNCH_UNSUPPORTED, "%s: this bundle has no code for the CPU", k->name);
        int status = k->cpu(k->cpu_plan, k->cpu_entries, args, consts, q ? q->threads : NULL);
        return status ? fail(status, "%s", k->cpu_error()) : status;
    }
    if (q->kind != TILE_ON_CUDA && q->kind != TILE_ON_HIP)
        return fail(TILE_LAUNCH_INVALID, "%s: there is no queue of kind %d", k->name, q->kind);
    Launch l; /* 40 KB: read_params and find_programs set what a launch reads */
    l.args = args;
    int status = read_params(&l, k->plan);
    if (status) return status;
    if ((status = api_of(q->kind, &a)) || (status = home_of(a, q, k->name, &h))) return status;
    return launch_on(a, h, k, &l, consts, q);
}

/* end */
