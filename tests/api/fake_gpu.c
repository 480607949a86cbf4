/* fake_gpu.c: see fake_gpu.h. Signatures follow cuda.h and hip_runtime_api.h. */
#define _GNU_SOURCE
#include "fake_gpu.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef FAKE_HIP
static FakeState state = { .arch = 0x942, .devices = 1 };
#else
static FakeState state = { .arch = 90, .devices = 1 };
#endif
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#ifndef FAKE_HIP
static __thread void *current;
static int context_object;
#endif

#define EXPORT __attribute__((visibility("default")))
EXPORT FakeState *fake_state(void) { return &state; }

/* 0, or what the test wants this call to give. */
static int enter(const char *name)
{
    int r = 0;
    pthread_mutex_lock(&lock);
    state.calls++;
    if (state.sticky) r = state.sticky;
    else if (!strcmp(state.fail_name, name) && state.fail_after-- <= 0) r = state.fail_code;
    pthread_mutex_unlock(&lock);
    return r;
}
#define ENTER() \
    do { \
        int r_ = enter(__func__); \
        if (r_) return r_; \
    } while (0)

#ifdef FAKE_HIP
#define N(cuda, hip) hip
#else
#define N(cuda, hip) cuda
#endif

EXPORT int N(cuInit, hipInit)(unsigned f)
{
    ENTER();
    return 0;
}
#ifdef FAKE_OLD
enum { VERSION = 11080 }; /* before tensor maps */
#else
enum { VERSION = 13000 };
#endif
EXPORT int N(cuDriverGetVersion, hipDriverGetVersion)(int *v)
{
    ENTER();
    *v = VERSION;
    return 0;
}
EXPORT int N(cuDeviceGetCount, hipGetDeviceCount)(int *n)
{
    ENTER();
    *n = state.devices;
    return state.devices ? 0 : 100;
}
EXPORT int N(cuDeviceGet, hipDeviceGet)(int *d, int i)
{
    ENTER();
    *d = i;
    return 0;
}
EXPORT int N(cuDeviceGetName, hipDeviceGetName)(char *s, int n, int d)
{
    ENTER();
    snprintf(s, (size_t)n, "Fake GPU");
    return 0;
}
EXPORT int N(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t *n, int d)
{
    ENTER();
    *n = 1u << 30;
    return 0;
}

EXPORT int N(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *v, int a, int d)
{
    ENTER();
#ifdef FAKE_HIP
    *v = a == 63 ? 304 : a == 74 ? 65536 : a == 19 ? 4 << 20 : a == 5 ? 2100000 : a == 87 ? 64 : 0;
#else
    *v = a == 16   ? 4
         : a == 10 ? 32
         : a == 13 ? 1980000
         : a == 38 ? 50 << 20
         : a == 75 ? state.arch / 10
         : a == 76 ? state.arch % 10
         : a == 97 ? (state.shared_bytes ? state.shared_bytes : 232448)
         : a == 5  ? 0x7fffffff
                   : 0;
#endif
    return 0;
}

#ifdef FAKE_HIP
EXPORT int hipGetDevice(int *d)
{
    ENTER();
    *d = 0;
    return 0;
}
EXPORT int hipSetDevice(int d)
{
    ENTER();
    return 0;
}
/* The struct of HIP 6 at its own name, with text as a driver has it. */
EXPORT int hipGetDevicePropertiesR0600(void *p, int d)
{
    ENTER();
    memset(p, 0, 1472);
    strcpy(p, "Fake gfx thing");
    snprintf((char *)p + 1160, 64, "gfx%x:sramecc+:xnack-", (unsigned)state.arch);
    return 0;
}
EXPORT int hipGetDeviceProperties(void *p, int d) { return 1; }
#else
EXPORT int cuDevicePrimaryCtxRetain(void **c, int d)
{
    ENTER();
    *c = &context_object;
    return 0;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int d) { return 0; }
EXPORT int cuCtxGetCurrent(void **c)
{
    ENTER();
    *c = current;
    return 0;
}
EXPORT int cuCtxSetCurrent(void *c)
{
    ENTER();
    current = c;
    return 0;
}
EXPORT int cuCtxGetDevice(int *d)
{
    ENTER();
    *d = 0;
    return current ? 0 : 201;
}
EXPORT int cuCtxGetId(void *c, unsigned long long *id)
{
    *id = (unsigned long long)(uintptr_t)c;
    return 0;
}
EXPORT int cuStreamGetCtx(void *s, void **c)
{
    ENTER();
    *c = state.stream_context ? state.stream_context : current ? current : &context_object;
    return 0;
}
#endif
/* With FAKE_HANG in the environment the device never finishes. */
EXPORT int N(cuCtxSynchronize, hipDeviceSynchronize)(void)
{
    ENTER();
    while (getenv("FAKE_HANG")) pause();
    return 0;
}

/* What a library leaves on a device that is lost (a failure asked for here) is no leak of the host. */
extern void __lsan_ignore_object(const void *) __attribute__((weak));
static void *on_device(void *p)
{
    if (p && *state.fail_name && __lsan_ignore_object) __lsan_ignore_object(p);
    return p;
}

typedef struct Function {
    char name[64];
} Function;
typedef struct FakeModule {
    Function f;
} FakeModule;

EXPORT int N(cuModuleLoadData, hipModuleLoadData)(void **m, const void *image)
{
    ENTER();
    bool text = !memcmp(image, "FAKEBIN-PTX", 11), linked = !memcmp(image, "FAKEBIN:linked", 14);
    int refused = text ? state.refuse_ptx : linked ? 0 : state.refuse_binary;
    if (refused) return refused;
    snprintf(state.last_image, sizeof state.last_image, "%.100s", (const char *)image);
    if (memcmp(image, "FAKEBIN", 7) && memcmp(image,
                                           "\x7f"
                                           "ELF",
                                           4))
        return 200; /* CUDA_ERROR_INVALID_IMAGE */
    *m = on_device(calloc(1, sizeof(FakeModule)));
    pthread_mutex_lock(&lock);
    state.modules++;
    state.live_modules++;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int N(cuModuleUnload, hipModuleUnload)(void *m)
{
    ENTER();
    free(m);
    pthread_mutex_lock(&lock);
    state.live_modules--;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int N(cuModuleGetFunction, hipModuleGetFunction)(void **f, void *m, const char *name)
{
    ENTER();
    snprintf(((FakeModule *)m)->f.name, sizeof((FakeModule *)m)->f.name, "%s", name);
    *f = &((FakeModule *)m)->f;
    return 0;
}

EXPORT int N(cuFuncGetAttribute, hipFuncGetAttribute)(int *v, int a, void *f)
{
    ENTER();
    *v = a == 4 ? state.registers : 0;
    return 0;
}
EXPORT int N(cuFuncSetAttribute, hipFuncSetAttribute)(void *f, int a, int v)
{
    ENTER();
    return 0;
}
EXPORT int N(cuOccupancyMaxActiveBlocksPerMultiprocessor, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)(
    int *n, void *f, int t, size_t s)
{
    ENTER();
    *n = 2;
    return 0;
}

EXPORT int N(cuLaunchKernel, hipModuleLaunchKernel)(void *f, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    ENTER();
    if (state.on_launch) state.on_launch(params);
    pthread_mutex_lock(&lock);
    FakeLaunch *l = &state.last;
    state.launches++;
    *l = (FakeLaunch){ .grid = { gx, gy, gz }, .block = { bx, by, bz }, .shared = shared, .stream = stream };
    snprintf(l->name, sizeof l->name, "%s", ((Function *)f)->name);
#ifndef FAKE_HIP
    l->context = current;
#endif
    for (int i = 0; i < state.n_params; i++) memcpy(&l->params[i], params[i], 8);
    pthread_mutex_unlock(&lock);
    return 0;
}

#if !defined FAKE_HIP && !defined FAKE_OLD
EXPORT int cuLaunchKernelEx(const void *config, void *f, void **params, void **extra)
{
    struct {
        unsigned grid[3], block[3], shared;
        void *stream;
        struct {
            int id;
            char pad[4];
            int value;
            char rest[60];
        } *attributes;
        unsigned n;
    } c;
    ENTER();
    memcpy(&c, config, sizeof c);
    int r = cuLaunchKernel(f, c.grid[0], c.grid[1], c.grid[2], c.block[0], c.block[1], c.block[2], c.shared,
        c.stream, params, extra);
    for (unsigned i = 0; i < c.n; i++)
        state.last.early_start |= c.attributes[i].id == 6 && c.attributes[i].value;
    return r;
}
#endif

static int give(void **p, size_t n, size_t align)
{
    if (posix_memalign(p, align, n + 16)) return 2;
    on_device(*p);
    pthread_mutex_lock(&lock);
    state.live_memory++;
    state.allocs++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int take(void *p)
{
    free(p);
    pthread_mutex_lock(&lock);
    state.live_memory--;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int N(cuMemAlloc_v2, hipMalloc)(void **p, size_t n)
{
    ENTER();
    return give(p, n, 256);
}
EXPORT int N(cuMemFree_v2, hipFree)(void *p)
{
    ENTER();
    return take(p);
}
EXPORT int N(cuMemHostAlloc, hipHostMalloc)(void **p, size_t n, unsigned f)
{
    ENTER();
    return give(p, n, 4096);
}
EXPORT int N(cuMemFreeHost, hipHostFree)(void *p)
{
    ENTER();
    return take(p);
}
EXPORT int N(cuMemsetD8Async, hipMemsetD8Async)(void *p, unsigned char v, size_t n, void *s)
{
    ENTER();
    memset(p, v, n);
    return 0;
}

static void copy_rows(char *dst, size_t dp, const char *src, size_t sp, size_t w, size_t h)
{
    for (size_t r = 0; r < h; r++) memcpy(dst + r * dp, src + r * sp, w);
}

#ifdef FAKE_HIP
EXPORT int hipMemcpyAsync(void *d, const void *s, size_t n, int kind, void *st)
{
    ENTER();
    if (kind != 4) return 1;
    memcpy(d, s, n);
    return 0;
}
EXPORT int hipMemcpy2DAsync(
    void *d, size_t dp, const void *s, size_t sp, size_t w, size_t h, int kind, void *st)
{
    ENTER();
    copy_rows(d, dp, s, sp, w, h);
    return kind != 4;
}
EXPORT const char *hipGetErrorName(int e)
{ return e == 719 ? "hipErrorLaunchFailure" : e == 2 ? "hipErrorOutOfMemory" : "hipErrorFake"; }
EXPORT const char *hipGetErrorString(int e) { return "words of the driver"; }
#else
typedef struct Copy2D {
    size_t sx, sy;
    int st;
    const void *sh;
    void *sd, *sa;
    size_t sp;
    size_t dx, dy;
    int dt;
    void *dh;
    void *dd, *da;
    size_t dp, w, h;
} Copy2D;
EXPORT int cuMemcpyAsync(void *d, const void *s, size_t n, void *st)
{
    ENTER();
    memcpy(d, s, n);
    return 0;
}
EXPORT int cuMemcpy2DAsync_v2(const Copy2D *c, void *st)
{
    ENTER();
    if (c->st != 4 || c->dt != 4) return 1;
    copy_rows(c->dd, c->dp, c->sd, c->sp, c->w, c->h);
    return 0;
}
EXPORT int cuGetErrorName(int e, const char **s)
{
    *s = e == 700   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
         : e == 2   ? "CUDA_ERROR_OUT_OF_MEMORY"
         : e == 200 ? "CUDA_ERROR_INVALID_IMAGE"
         : e == 400 ? "CUDA_ERROR_INVALID_HANDLE"
                    : "CUDA_ERROR_FAKE";
    return 0;
}
EXPORT int cuGetErrorString(int e, const char **s)
{
    *s = "words of the driver";
    return 0;
}
#ifndef FAKE_OLD
EXPORT int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *base, const uint64_t *dims,
    const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle,
    int promotion, int fill)
{
    ENTER();
    if ((uintptr_t)map % 64 || (uintptr_t)base % 16) return 1;
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (strides[i] % 16) return 1;
    uint64_t words[16] = { (uint64_t)type, rank, (uint64_t)(uintptr_t)base, (uint64_t)swizzle };
    for (uint32_t i = 0; i < rank; i++) {
        words[4 + i] = dims[i];
        if (i + 1 < rank) words[9 + i] = strides[i];
    }
    memcpy(map, words, 128);
    memcpy(state.last_map, words, 128);
    state.tensor_maps++;
    return 0;
}
#endif
#endif

EXPORT int N(cuStreamCreate, hipStreamCreateWithFlags)(void **s, unsigned f)
{
    ENTER();
    *s = on_device(calloc(1, 16));
    return 0;
}
EXPORT int N(cuStreamDestroy_v2, hipStreamDestroy)(void *s)
{
    ENTER();
    free(s);
    return 0;
}
EXPORT int N(cuStreamSynchronize, hipStreamSynchronize)(void *s)
{
    ENTER();
    return 0;
}
EXPORT int N(cuStreamWaitEvent, hipStreamWaitEvent)(void *s, void *e, unsigned f)
{
    ENTER();
    return 0;
}
EXPORT int N(cuStreamIsCapturing, hipStreamIsCapturing)(void *s, int *v)
{
    ENTER();
    *v = state.capturing;
    return 0;
}
EXPORT int N(cuEventCreate, hipEventCreateWithFlags)(void **s, unsigned f)
{
    ENTER();
    *s = on_device(calloc(1, 16));
    return 0;
}
EXPORT int N(cuEventDestroy_v2, hipEventDestroy)(void *s)
{
    ENTER();
    free(s);
    return 0;
}
EXPORT int N(cuEventRecord, hipEventRecord)(void *e, void *s)
{
    ENTER();
    return 0;
}
EXPORT int N(cuEventQuery, hipEventQuery)(void *e)
{
    ENTER();
    return 0;
}
EXPORT int N(cuEventSynchronize, hipEventSynchronize)(void *e)
{
    ENTER();
    return 0;
}
EXPORT int N(cuEventElapsedTime, hipEventElapsedTime)(float *ms, void *a, void *b)
{
    ENTER();
    *ms = 1.5f;
    return 0;
}

/* --- the compiler: its binary is the text behind a mark ---------------------------------------------- */

typedef struct Program {
    char *text, log[512];
} Program;

EXPORT int N(nvrtcVersion, hiprtcVersion)(int *major, int *minor)
{
    __sync_fetch_and_add(&state.versions, 1);
    *major = 13;
    *minor = 0;
    return 0;
}

EXPORT int N(nvrtcCreateProgram, hiprtcCreateProgram)(
    void **p, const char *text, const char *name, int n, const char *const *h, const char *const *i)
{
    ENTER();
    Program *q = calloc(1, sizeof *q);
    q->text = strdup(text);
    *p = q;
    return 0;
}

EXPORT int N(nvrtcCompileProgram, hiprtcCompileProgram)(void *p, int n, const char *const *options)
{
    ENTER();
    Program *q = p;
    char all[512] = "";
    if (strstr(q->text, "void prepare(")) { /* nobody's kernel */
        __atomic_add_fetch(&state.prepares, 1, __ATOMIC_RELAXED);
        return 0;
    }
    for (int i = 0; i < n; i++) {
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s ", options[i]);
    }
    if (state.on_compile) state.on_compile();
    if (state.crash_arch[0] && strstr(all, state.crash_arch)) abort();
    pthread_mutex_lock(&lock);
    state.compiles++;
    memcpy(state.options, all, sizeof all);
    snprintf(state.program, sizeof state.program, "%s", q->text);
    snprintf(q->log, sizeof q->log, "%s",
        state.compile_error[0]
            ? state.compile_error
            : "ptxas info    : Compiling entry function 'k' for 'sm_90a'\nptxas info    : Function "
              "properties for k\n"
              "    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
              "ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0]\n");
    int bad = state.compile_error[0] != 0;
    pthread_mutex_unlock(&lock);
    return bad ? 6 : 0;
}

EXPORT int N(nvrtcDestroyProgram, hiprtcDestroyProgram)(void **p)
{
    free(((Program *)*p)->text);
    free(*p);
    return 0;
}
EXPORT int N(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize)(void *p, size_t *n)
{
    *n = strlen(((Program *)p)->log) + 1;
    return 0;
}
EXPORT int N(nvrtcGetProgramLog, hiprtcGetProgramLog)(void *p, char *s)
{
    strcpy(s, ((Program *)p)->log);
    return 0;
}
EXPORT int N(nvrtcGetCUBINSize, hiprtcGetCodeSize)(void *p, size_t *n)
{
    *n = 8 + strlen(((Program *)p)->text);
    return 0;
}
EXPORT int N(nvrtcGetCUBIN, hiprtcGetCode)(void *p, char *s)
{
    memcpy(s, "FAKEBIN:", 8);
    memcpy(s + 8, ((Program *)p)->text, strlen(((Program *)p)->text));
    return 0;
}
EXPORT const char *N(nvrtcGetErrorString, hiprtcGetErrorString)(int e) { return "error of the compiler"; }
#ifndef FAKE_HIP
EXPORT int nvrtcGetPTXSize(void *p, size_t *n)
{
    *n = 12;
    return 0;
}
EXPORT int nvrtcGetPTX(void *p, char *s)
{
    memcpy(s, "FAKEBIN-PTX", 12);
    return 0;
}
EXPORT int nvrtcGetNumSupportedArchs(int *n)
{
    *n = state.n_supported;
    return 0;
}
EXPORT int nvrtcGetSupportedArchs(int *l)
{
    memcpy(l, state.supported_archs, (size_t)state.n_supported * sizeof *l);
    return 0;
}

/* --- nvJitLink --------------------------------------------------------------------------------------- */

EXPORT int nvJitLinkCreate(void **h, uint32_t n, const char **options)
{
    *h = calloc(1, 1);
    pthread_mutex_lock(&lock);
    state.links++;
    snprintf(state.options, sizeof state.options, "%s", n ? options[0] : "");
    pthread_mutex_unlock(&lock);
    return 0;
}
EXPORT int nvJitLinkAddData(void *h, int kind, const void *data, size_t n, const char *name)
{ return state.refuse_link || kind != 2 || memcmp(data, "FAKEBIN-PTX", 11); }
EXPORT int nvJitLinkComplete(void *h) { return 0; }
EXPORT int nvJitLinkDestroy(void **h)
{
    free(*h);
    *h = NULL;
    return 0;
}
EXPORT int nvJitLinkGetErrorLogSize(void *h, size_t *n)
{
    *n = 16;
    return 0;
}
EXPORT int nvJitLinkGetErrorLog(void *h, char *s)
{
    memcpy(s, "linker's words\n", 16);
    return 0;
}
EXPORT int nvJitLinkGetLinkedCubinSize(void *h, size_t *n)
{
    *n = 16;
    return 0;
}
EXPORT int nvJitLinkGetLinkedCubin(void *h, void *s)
{
    memcpy(s, "FAKEBIN:linked\0", 16);
    return 0;
}
#endif
