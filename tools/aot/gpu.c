/* gpu.c: the launcher of a bundle. tilec copies the text between the marks into the C file that it writes,
 * behind the tables of bundle.h (images, entries, N_IMAGES, N_ENTRIES), the rows of runtime/drivers/gpu.def
 * as GPU_CALLS, gpu_facts.h and args.h. Compiled there by whoever builds a program: C11 and the C library, no
 * vendor's header; the driver is opened when a launch asks for it.
 *
 * A launch finds the device by its queue, takes the first variant of the plan that fits the device, the
 * arguments and what they promise, loads its image once a context, and hands over. Loaded functions are found
 * without a lock. */
#include "tools/aot/args.h"
#include "tools/aot/bundle.h"
#include "runtime/drivers/gpu_facts.h"
/* begin */

/* --- the last error ---------------------------------------------------------------------------------- */

static _Thread_local char error_text[600];

static int fail(int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(error_text, sizeof error_text, format, list);
    va_end(list);
    return status;
}

/* --- the driver -------------------------------------------------------------------------------------- */

typedef struct Api {
#define FN(field, arguments, cuda, hip, required) int(*field) arguments;
    GPU_CALLS
#undef FN
    const char *(*hip_error)(int);
    int state; /* 0: not tried; 1: open; else the status that opening gave, negative */
    char why[300];
} Api;

static Api apis[3];
static pthread_mutex_t bundle_lock =
    PTHREAD_MUTEX_INITIALIZER; /* opening drivers, making homes, loading images */

static int driver_failed(const Api *a, int result, const char *kernel, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (a->error_name_cuda) {
        a->error_name_cuda(result, &name);
        a->error_text_cuda(result, &text);
    } else if (a->hip_error) text = a->hip_error(result);
    int status = result == 2                        ? TILE_LAUNCH_OUT_OF_MEMORY
                 : result == 100 || result == 101   ? TILE_LAUNCH_NO_DEVICE
                 : result == 701                    ? TILE_LAUNCH_RESOURCES
                 : (result >= 700 && result <= 719) ? TILE_LAUNCH_DEVICE_FAULT
                                                    : TILE_LAUNCH_DRIVER;
    return fail(status, "%s: %s: %s (%d)%s%s", kernel, what, name ? name : "error of the driver", result,
        text ? ": " : "", text ? text : "");
}

static void *open_library(int device, char *tried, size_t room)
{
    static const char *const cuda[] = { "libcuda.so.1", "libcuda.so", NULL };
    static const char *const hip[] = { "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
        "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so", NULL };
    const char *const *names = device == TILE_ON_CUDA ? cuda : hip;
    tried[0] = 0;
    for (int i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
        size_t n = strlen(tried);
        snprintf(tried + n, room - n, "%s%s", i ? ", " : "", names[i]);
    }
    return NULL;
}

/* Opens it for good: the library stays loaded, as its threads would outlive an unloading. */
static int open_driver(Api *a, int device)
{
    const char *what = device == TILE_ON_CUDA ? "CUDA" : "HIP";
    char tried[200];
    void *library = open_library(device, tried, sizeof tried);
    if (!library) {
        snprintf(a->why, sizeof a->why, "no %s driver on this machine (looked for %s)", what, tried);
        return -TILE_LAUNCH_NO_DEVICE;
    }
#define FN(field, arguments, cuda, hip, required) \
    do { \
        const char *name_ = device == TILE_ON_CUDA ? cuda : hip; \
        if (!*name_) break; \
        *(void **)&a->field = dlsym(library, name_); \
        if (!a->field && required) { \
            snprintf(a->why, sizeof a->why, "the %s driver is too old: it has no %s", what, name_); \
            return -TILE_LAUNCH_UNSUPPORTED; \
        } \
    } while (0);
    GPU_CALLS
#undef FN
    *(void **)&a->hip_error = dlsym(library, "hipGetErrorString");
    if (device == TILE_ON_HIP && dlsym(library, "hipGetDevicePropertiesR0600"))
        *(void **)&a->properties = dlsym(library, "hipGetDevicePropertiesR0600"); /* HIP 6's struct */
    int n = 0, result = a->init(0);
    if (!result) result = a->device_count(&n);
    if (result || n < 1) {
        snprintf(a->why, sizeof a->why, "the %s driver finds no device (%d)", what, result);
        return -TILE_LAUNCH_NO_DEVICE;
    }
    return 1;
}

static int api_of(int device, Api **out)
{
    Api *a = &apis[device];
    int state = __atomic_load_n(&a->state, __ATOMIC_ACQUIRE);
    if (!state) {
        pthread_mutex_lock(&bundle_lock);
        state = a->state;
        if (!state) {
            state = open_driver(a, device);
            __atomic_store_n(&a->state, state, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&bundle_lock);
    }
    *out = a;
    return state == 1 ? TILE_LAUNCH_OK : fail(-state, "%s", a->why);
}

/* --- contexts ---------------------------------------------------------------------------------------- */

enum { TICKETS = 4096 }; /* counters of persistent kernels: a stream's own, or a captured launch's */

/* What is loaded into a context (CUDA) or a device (HIP). Never freed: an address that comes again has
 * another id. */
typedef struct Home {
    struct Home *next;
    int device, arch, multiprocessors, shared_bytes; /* shared memory of a block, 0: not known */
    void *context;
    unsigned long long id;
    char target[32];
    void *tickets;
    uintptr_t ticket_stream[TICKETS]; /* stream + 1, or 0 for a free place; ~0: a captured launch's */
    void *module[N_IMAGES], *function[N_ENTRIES];
    int refused[N_IMAGES];
} Home;
static Home *homes;

typedef struct Scope {
    void *context;
    int ordinal;
} Scope;

static int enter(const Api *a, const Home *h, Scope *s)
{
    int result;
    if (a->context_get)
        return (result = a->context_get(&s->context)) || s->context == h->context
                   ? result
                   : a->context_set(h->context);
    int wanted = (int)(intptr_t)h->context - 1;
    return (result = a->device_current(&s->ordinal)) || s->ordinal == wanted ? result : a->device_set(wanted);
}

static void leave(const Api *a, const Home *h, const Scope *s)
{
    if (a->context_get) {
        if (s->context != h->context) a->context_set(s->context);
    } else if (s->ordinal != (int)(intptr_t)h->context - 1) a->device_set(s->ordinal);
}

/* The context of a queue, as tile_queue says. */
static int context_of(const Api *a, const tile_queue *q, const char *kernel, void **out)
{
    void *own = NULL;
    int result = 0, ordinal = 0;
    *out = q->context;
    if (a->context_get) {
        if (q->stream && a->stream_context && (result = a->stream_context(q->stream, &own)))
            return driver_failed(a, result, kernel, "the stream");
        if (q->context && own && own != q->context)
            return fail(TILE_LAUNCH_INVALID, "%s: the stream belongs to another context", kernel);
        if (own) *out = own;
        if (!*out && (result = a->context_get(out)))
            return driver_failed(a, result, kernel, "the current context");
        if (!*out && (result = a->primary_retain(out, 0)))
            return driver_failed(a, result, kernel, "the first device's context");
        return TILE_LAUNCH_OK;
    }
    if (q->context) return TILE_LAUNCH_OK;
    if (!(q->stream && a->stream_device && !a->stream_device(q->stream, &ordinal)) &&
        (result = a->device_current(&ordinal)))
        return driver_failed(a, result, kernel, "the device");
    *out = (void *)(intptr_t)(ordinal + 1);
    return TILE_LAUNCH_OK;
}

static int read_cuda(const Api *a, Home *h)
{
    Scope scope;
    int major = 0, minor = 0, ordinal = 0, result = enter(a, h, &scope);
    if (result) return result;
    if (!(result = a->context_device(&ordinal)) && !(result = a->device_attribute(&major, 75, ordinal)) &&
        !(result = a->device_attribute(&minor, 76, ordinal)) &&
        !(result = a->device_attribute(&h->multiprocessors, 16, ordinal)))
        result = a->device_attribute(&h->shared_bytes, 97, ordinal);
    leave(a, h, &scope);
    h->arch = major * 10 + minor;
    snprintf(h->target, sizeof h->target, "cuda:sm_%d", h->arch);
    return result;
}

static int read_hip(const Api *a, Home *h)
{
    int ordinal = (int)(intptr_t)h->context - 1;
    char *properties = calloc(1, 16384), arch[24] = "";
    int result = !properties ? 2 : a->properties(properties, ordinal);
    if (!result && gpu_find_arch(properties, 16384, arch, sizeof arch))
        snprintf(h->target, sizeof h->target, "hip:%s", arch);
    free(properties);
    if (!result && (a->device_attribute(&h->multiprocessors, 63, ordinal) || h->multiprocessors < 1))
        h->multiprocessors = 64;
    return result;
}

static Home *find_home(int device, const void *context, unsigned long long id)
{
    for (Home *h = __atomic_load_n(&homes, __ATOMIC_ACQUIRE); h; h = h->next)
        if (h->device == device && h->context == context && h->id == id) return h;
    return NULL;
}

static int home_of(const Api *a, const tile_queue *q, const char *kernel, Home **out)
{
    void *context;
    unsigned long long id = 0;
    int status = context_of(a, q, kernel, &context);
    if (status) return status;
    if (a->context_id && a->context_id(context, &id)) id = 0;
    if ((*out = find_home(q->kind, context, id))) return TILE_LAUNCH_OK;
    pthread_mutex_lock(&bundle_lock);
    int result = 0;
    if (!(*out = find_home(q->kind, context, id))) {
        Home *h = calloc(1, sizeof *h);
        if (h) {
            h->device = q->kind;
            h->context = context;
            h->id = id;
            result = q->kind == TILE_ON_CUDA ? read_cuda(a, h) : read_hip(a, h);
        }
        if (!h || result) free(h);
        else {
            h->next = homes;
            __atomic_store_n(&homes, h, __ATOMIC_RELEASE);
            *out = h;
        }
    }
    pthread_mutex_unlock(&bundle_lock);
    if (result) return driver_failed(a, result, kernel, "asking the device what it is");
    return *out ? TILE_LAUNCH_OK : fail(TILE_LAUNCH_OUT_OF_MEMORY, "%s: out of memory", kernel);
}

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
static int compile_text(const Image *image, const Home *h, const char *kernel, void **binary)
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
    int result = c.create(&program, (const char *)image->bytes, kernel, 0, NULL, NULL);
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

/* Under the lock and in the home's context. TILE_LAUNCH_UNSUPPORTED: another image may do. */
static int load_image(const Api *a, Home *h, int number, const char *kernel)
{
    static const char *const kinds[] = { "the binary", "the PTX", "the compiled text" };
    const Image *image = &images[number];
    const void *bytes = image->bytes;
    void *binary = NULL;
    if (h->module[number]) return TILE_LAUNCH_OK;
    if (h->refused[number]) return TILE_LAUNCH_UNSUPPORTED;
    int status = image->kind == IMAGE_TEXT ? compile_text(image, h, kernel, &binary) : TILE_LAUNCH_OK;
    if (status) {
        h->refused[number] = status == TILE_LAUNCH_UNSUPPORTED;
        return status;
    }
    int result = a->module_load(&h->module[number], binary ? binary : bytes);
    free(binary);
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
        if (!status && h->device == TILE_ON_CUDA && e->shared_bytes > 48 * 1024 &&
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

/* --- counters ---------------------------------------------------------------------------------------- */

/* A zeroed counter for persistent kernels, which leave it zeroed: one a stream, whose launches follow each
 * other; one for each launch that is captured into a graph, which may run beside others. In the home's
 * context. */
static int ticket_of(const Api *a, Home *h, void *stream, const char *kernel, void **out)
{
    char *base = __atomic_load_n(&h->tickets, __ATOMIC_ACQUIRE);
    int result = 0, capturing = 0;
    if (!base) {
        void *memory = NULL;
        pthread_mutex_lock(&bundle_lock);
        if (!(base = h->tickets) && !(result = a->memory_alloc(&memory, 8 * TICKETS)) &&
            !(result = a->fill(memory, 0, 8 * TICKETS, NULL)) && !(result = a->stream_sync(NULL))) {
            __atomic_store_n(&h->tickets, memory, __ATOMIC_RELEASE);
            base = memory;
        }
        pthread_mutex_unlock(&bundle_lock);
        if (!base) return driver_failed(a, result, kernel, "counters of persistent kernels");
    }
    if (a->stream_capturing && !a->stream_capturing(stream, &capturing) && capturing)
        stream = (void *)(~(uintptr_t)0 - 1);
    uintptr_t key = (uintptr_t)stream + 1;
    size_t at = (size_t)((key * 0x9e3779b97f4a7c15ull) >> 40) % TICKETS;
    for (int tries = 0; tries < TICKETS; tries++, at = (at + 1) % TICKETS) {
        uintptr_t seen = __atomic_load_n(&h->ticket_stream[at], __ATOMIC_RELAXED);
        bool mine = seen == 0 && __atomic_compare_exchange_n(&h->ticket_stream[at], &seen, key, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        if (!mine && (seen != key || capturing)) continue;
        *out = base + 8 * at;
        return TILE_LAUNCH_OK;
    }
    return fail(TILE_LAUNCH_RESOURCES, "%s: no counters left: more than %d streams and captured launches",
        kernel, TICKETS);
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
        return fail(TILE_LAUNCH_SHAPE, "%s: an axis is no multiple of its panels", kernel);
    gpu_map_boxes(m->rank, m->box, m->step, spans, steps);
    int result = a->tensor_map(out->bytes, m->type, (uint32_t)m->rank, l->args[m->param].view.data, extents,
        strides, spans, steps, 0, gpu_map_swizzle(m->swizzle),
        gpu_map_promotion(m->rank, m->split, l->args[m->param].view.data, strides), 0);
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
    void *pointers[PLAN_MAX_SLOTS], *ticket = NULL;
    TensorMap maps[MAX_MAPS];
    int64_t n = p[0], *no_own = NULL, most = (int64_t)e->persistent * h->multiprocessors,
            blocks = l->programs;
    const int64_t *s = p + 1, *sizes = s + 3 * n;
    int status = TILE_LAUNCH_OK;
    int64_t ctas = e->cluster > 1 ? e->cluster : 1;
    if (e->persistent) { /* a cluster takes as many programs as it has CTAs */
        blocks = (blocks + ctas - 1) / ctas;
        most = most / ctas > 0 ? most / ctas : 1;
        if (blocks > most) blocks = most;
    }
    blocks *= ctas; /* else a program is a cluster */
    if (blocks > INT32_MAX)
        return fail(TILE_LAUNCH_GRID,
            "%s: the grid of %lld programs is too large: it takes %lld blocks, and a launch at most %d",
            k->name, (long long)l->programs, (long long)blocks, INT32_MAX);
    int64_t workspace = sizes[1] + sizes[2] * blocks;
    if (workspace &&
        (!q->workspace || q->workspace_bytes < (size_t)workspace || (uintptr_t)q->workspace % 256))
        return fail(TILE_LAUNCH_WORKSPACE, "%s: needs a workspace of %lld bytes at a multiple of 256",
            k->name, (long long)workspace);
    for (int64_t i = 0; i < n && !status; i++, s += 3) {
        pointers[i] = &words[i];
        if (s[0] == PLAN_TENSOR_MAP) {
            pointers[i] = &maps[s[2]];
            status = encode_map(a, l, &e->maps[s[2]], k->name, &maps[s[2]]);
        } else if (s[0] == PLAN_TICKETS) {
            status = ticket_of(a, h, q->stream, k->name, &ticket);
            words[i] = (uint64_t)(uintptr_t)ticket;
        } else
            words[i] = s[0] == PLAN_WORKSPACE ? (uint64_t)(uintptr_t)q->workspace : slot(l, s, no_own, NULL);
    }
    if (status) return status;
    int result = hand_over(a, e, function, blocks, q->stream, pointers);
    return result ? driver_failed(a, result, k->name, "launch") : TILE_LAUNCH_OK;
}

static int bad_arguments(const Kernel *k, int status, int argument)
{
    const char *what = status == TILE_LAUNCH_INVALID     ? "the address is NULL"
                       : status == TILE_LAUNCH_ALIGNMENT ? "the address is no multiple of its element's size"
                       : status == TILE_LAUNCH_OVERLAP
                           ? "an out or inout tensor overlaps another argument or, with a stride of 0, itself"
                           : "the extents are missing, negative or too large";
    return argument < 0 ? fail(status, "%s: %s", k->name, what)
                        : fail(status, "%s: argument %d (%s): %s", k->name, argument + 1,
                              k->arguments[argument], what);
}

static int fail_programs(int status, const Launch *l, const Kernel *k)
{
    const int64_t *g = l->grid;
    const char *name = k->name;
    if (status == TILE_LAUNCH_SHAPE)
        return fail(status, "%s: argument %d (%s%s): axis %d has %lld elements, not %lld", name,
            l->failed + 1, k->arguments[l->failed], k->shapes[l->failed], (int)l->axis,
            (long long)l->params[l->failed].shape[l->axis], (long long)l->wanted);
    if (status == TILE_LAUNCH_REMAP)
        return fail(status, "%s: the remap is no permutation of this grid", name);
    if (status != TILE_LAUNCH_GRID) return fail(status, "%s: out of memory", name);
    if (g[1] == 1 && g[2] == 1)
        return fail(status,
            "%s: the grid of %lld programs is too large; at most %d programs run in one launch", name,
            (long long)g[0], INT32_MAX);
    return fail(status,
        "%s: the grid of %lld x %lld x %lld programs is too large; at most %d programs run in one launch",
        name, (long long)g[0], (long long)g[1], (long long)g[2], INT32_MAX);
}

static int launch_on(
    const Api *a, Home *h, const Kernel *k, Launch *l, const int64_t *consts, const tile_queue *q)
{
    const int64_t *p, *v = k->plan + 4 + 5 * k->plan[1];
    int status = TILE_LAUNCH_NO_VARIANT;
    bool fitting = false, refused = false;
    int64_t too_large = 0;
    for (int64_t i = 0; i < k->plan[3]; i++, v += v[0]) {
        int number = (int)v[3], match = match_variant(l, v, consts, k->plan[2], &p);
        if (match == TILE_LAUNCH_NO_VARIANT) continue;
        if (match) return fail(match, "%s: extents disagree among the arguments", k->name);
        fitting = true;
        if (!image_fits(&images[entries[number].image], h)) continue;
        if (h->shared_bytes && entries[number].shared_bytes > h->shared_bytes) {
            too_large = entries[number].shared_bytes;
            continue;
        }
        if (entries[number].n_maps && !a->tensor_map) {
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
        if ((status = find_programs(l, p))) return fail_programs(status, l, k);
        if (!l->programs) return TILE_LAUNCH_OK;
        Scope scope;
        int result = enter(a, h, &scope);
        if (result) return driver_failed(a, result, k->name, "making the context current");
        status = start(a, h, k, &entries[number], function, l, p, q);
        leave(a, h, &scope);
        return status;
    }
    if (refused) return TILE_LAUNCH_UNSUPPORTED; /* why has been said */
    if (too_large)
        return fail(TILE_LAUNCH_RESOURCES, "%s: needs %lld bytes of shared memory; %s has %d", k->name,
            (long long)too_large, h->target, h->shared_bytes);
    return fitting ? fail(TILE_LAUNCH_UNSUPPORTED, "%s: nothing was compiled for %s", k->name, h->target)
                   : fail(TILE_LAUNCH_NO_VARIANT, "%s: nothing was compiled for these extents and consts",
                         k->name);
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
        return status ? fail(status, "%s: status %d of the launcher for the CPU", k->name, status) : status;
    }
    if (q->kind != TILE_ON_CUDA && q->kind != TILE_ON_HIP)
        return fail(TILE_LAUNCH_INVALID, "%s: there is no queue of kind %d", k->name, q->kind);
    Launch l = { .args = args, .n_params = (int)k->plan[1] };
    int status = read_params(&l, k->plan + 4);
    if (status) return bad_arguments(k, status, l.failed);
    if ((status = api_of(q->kind, &a)) || (status = home_of(a, q, k->name, &h))) return status;
    return launch_on(a, h, k, &l, consts, q);
}

/* --- devices for programs without a vendor's header -------------------------------------------------- */

#define ON_DEVICE(what, call) \
    do { \
        Api *a; \
        Home *h; \
        Scope scope; \
        int status_ = api_of(d->queue.kind, &a); \
        if (status_ || (status_ = home_of(a, &d->queue, d->name, &h))) return status_; \
        int result_ = enter(a, h, &scope); \
        if (!result_) { \
            result_ = (call); \
            leave(a, h, &scope); \
        } \
        return result_ ? driver_failed(a, result_, d->name, what) : TILE_LAUNCH_OK; \
    } while (0)

static int gpu_alloc(const tile_device *d, size_t bytes, void **memory)
{ ON_DEVICE("allocating memory", a->memory_alloc(memory, bytes ? bytes : 1)); }
static int gpu_release(const tile_device *d, void *memory)
{ ON_DEVICE("freeing memory", memory ? a->memory_free(memory) : 0); }
static int gpu_synchronize(const tile_device *d)
{ ON_DEVICE("waiting for the stream", a->stream_sync(d->queue.stream)); }

static int copy_and_wait(const Api *a, const tile_device *d, void *to, const void *from, size_t bytes)
{
    int result = a->copy_cuda ? a->copy_cuda(to, from, bytes, d->queue.stream)
                              : a->copy_hip(to, from, bytes, 4, d->queue.stream);
    return result ? result : a->stream_sync(d->queue.stream);
}
static int gpu_copy(const tile_device *d, void *to, const void *from, size_t bytes)
{ ON_DEVICE("copying", copy_and_wait(a, d, to, from, bytes)); }

static int cpu_alloc(const tile_device *d, size_t bytes, void **memory)
{
    *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    return *memory ? TILE_LAUNCH_OK : fail(TILE_LAUNCH_OUT_OF_MEMORY, "%s: out of memory", d->name);
}
static int cpu_release(const tile_device *d, void *memory)
{
    (void)d;
    free(memory);
    return TILE_LAUNCH_OK;
}
static int cpu_copy(const tile_device *d, void *to, const void *from, size_t bytes)
{
    (void)d;
    memcpy(to, from, bytes);
    return TILE_LAUNCH_OK;
}
static int cpu_synchronize(const tile_device *d)
{
    (void)d;
    return TILE_LAUNCH_OK;
}

static int open_gpu(int kind, int ordinal, tile_device *d)
{
    Api *a;
    Home *h;
    int handle = 0, n = 0, result, status = api_of(kind, &a);
    if (status) return status;
    if ((result = a->device_count(&n))) return driver_failed(a, result, "device", "counting devices");
    if (ordinal < 0 || ordinal >= n)
        return fail(TILE_LAUNCH_NO_DEVICE, "there is no device %d: there are %d", ordinal, n);
    *d = (tile_device){ .queue = { .kind = kind },
        .ordinal = ordinal,
        .alloc = gpu_alloc,
        .release = gpu_release,
        .copy = gpu_copy,
        .synchronize = gpu_synchronize };
    if ((result = a->device_get(&handle, ordinal)) ||
        (result = a->device_name(d->name, sizeof d->name, handle)))
        return driver_failed(a, result, "device", "asking its name");
    if (kind == TILE_ON_HIP) d->queue.context = (void *)(intptr_t)(ordinal + 1);
    else if ((result = a->primary_retain(&d->queue.context, handle)))
        return driver_failed(a, result, d->name, "making a context");
    if ((status = home_of(a, &d->queue, d->name, &h))) return status;
    snprintf(d->target, sizeof d->target, "%s", h->target);
    for (int i = 0; i < N_IMAGES; i++)
        if (image_fits(&images[i], h)) return TILE_LAUNCH_OK;
    return fail(TILE_LAUNCH_UNSUPPORTED, "nothing was compiled for %s (%s)", d->name, d->target);
}

static int bundle_open(int kind, int ordinal, bool cpu, tile_device *d)
{
    for (int k = TILE_ON_CUDA; k <= TILE_ON_HIP; k++) {
        bool has = false;
        for (int i = 0; i < N_IMAGES; i++) has |= images[i].device == k;
        if (kind != k && !(kind == TILE_ON_ANY && has)) continue;
        int status = open_gpu(k, ordinal, d);
        if (!status || kind == k) return status;
    }
    if (kind != TILE_ON_CPU && kind != TILE_ON_ANY)
        return fail(TILE_LAUNCH_INVALID, "there is no device of kind %d", kind);
    if (!cpu) return fail(TILE_LAUNCH_NO_DEVICE, "no device that this bundle has code for");
    *d = (tile_device){ .queue = { .kind = TILE_ON_CPU },
        .name = "CPU",
        .target = "cpu",
        .alloc = cpu_alloc,
        .release = cpu_release,
        .copy = cpu_copy,
        .synchronize = cpu_synchronize };
    return TILE_LAUNCH_OK;
}
/* end */
