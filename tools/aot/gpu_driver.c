/* gpu_driver.c: the vendor's driver as a bundle's launcher (gpu.c) uses it: opened when a launch asks for it,
 * and what is known and loaded of each context. tilec copies the text between the marks into the C file of a
 * bundle, before gpu.c's. */
#include "tools/aot/args.h"
#include "tools/aot/bundle.h"
#include "runtime/drivers/gpu_facts.h"
/* begin */

/* --- the driver -------------------------------------------------------------------------------------- */

typedef struct Api {
#define FN(field, arguments, cuda, hip, required) int(*field) arguments;
    GPU_CALLS
#undef FN
    const char *(*hip_error)(int);
    int state; /* 0: not tried; 1: open; negative: the status that opening gave */
    char why[300];
} Api;

static Api apis[3];
/* guards the opening of drivers, the creation of homes, and the loading of images */
static pthread_mutex_t bundle_lock = PTHREAD_MUTEX_INITIALIZER;

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

/* The counters of persistent kernels: one for each stream and for each captured launch. The bytes that the
 * workspaces of all streams of a context may have together, and their grain. */
enum { COUNTERS = 4096, MOST_KEPT = 256 << 20, KEPT_GRAIN = 2 << 20 };

/* The workspace that is kept for a stream. The lock is held while a launch with it is handed over. */
typedef struct Kept {
    pthread_mutex_t lock;
    void *memory;
    size_t bytes;
} Kept;

/* The data that is loaded into a context (CUDA) or a device (HIP). It is never freed: if an address occurs
 * again, it has another id. */
typedef struct Home {
    struct Home *next;
    int device, arch, multiprocessors, shared_bytes; /* shared memory of a block, 0: not known */
    void *context;
    unsigned long long id;
    char target[32];
    void *counters;
    uintptr_t counter_stream[COUNTERS]; /* stream_key; 0: a free entry; ~0: the entry of a captured launch */
    Kept *kept[COUNTERS];
    size_t kept_bytes; /* of all of them */
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

/* end */
