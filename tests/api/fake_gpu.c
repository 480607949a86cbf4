/* fake_gpu.c: devices, contexts, modules and launches of the fake driver (fake_gpu.h). Signatures follow
 * cuda.h and hip_runtime_api.h. */
#define _GNU_SOURCE
#include "fake_driver.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
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

EXPORT FakeState *fake_state(void) { return &state; }
const FakeState *fake_settings(void) { return &state; }

FakeState *fake_begin_writing(void)
{
    pthread_mutex_lock(&lock);
    return &state;
}
void fake_end_writing(void) { pthread_mutex_unlock(&lock); }

int fake_enter(const char *name)
{
    int r = 0;
    FakeState *f = fake_begin_writing();
    f->calls++;
    if (f->sticky) r = f->sticky;
    else if (!strcmp(f->fail_name, name) && f->fail_after-- <= 0) r = f->fail_code;
    fake_end_writing();
    return r;
}

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
    *n = fake.devices;
    return fake.devices ? 0 : 100;
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
    *v = a == 16   ? (fake.multiprocessors ? fake.multiprocessors : 4)
         : a == 10 ? 32
         : a == 13 ? 1980000
         : a == 38 ? 50 << 20
         : a == 75 ? fake.arch / 10
         : a == 76 ? fake.arch % 10
         : a == 97 ? (fake.shared_bytes ? fake.shared_bytes : 232448)
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
    snprintf((char *)p + 1160, 64, "gfx%x:sramecc+:xnack-", (unsigned)fake.arch);
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
    *c = fake.stream_context ? fake.stream_context : current ? current : &context_object;
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

extern void __lsan_ignore_object(const void *) __attribute__((weak));
void *fake_on_device(void *p)
{
    if (p && *fake.fail_name && __lsan_ignore_object) __lsan_ignore_object(p);
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
    if (fake_unsafe()) return fake_unsafe();
    bool text = !memcmp(image, "FAKEBIN-PTX", 11), linked = !memcmp(image, "FAKEBIN:linked", 14);
    int refused = text ? fake.refuse_ptx : linked ? 0 : fake.refuse_binary;
    if (refused) return refused;
    WRITE_DOWN(snprintf(f->last_image, sizeof f->last_image, "%.100s", (const char *)image));
    if (memcmp(image, "FAKEBIN", 7) && memcmp(image,
                                           "\x7f"
                                           "ELF",
                                           4))
        return 200; /* CUDA_ERROR_INVALID_IMAGE */
    *m = fake_on_device(calloc(1, sizeof(FakeModule)));
    WRITE_DOWN(f->modules++, f->live_modules++);
    return 0;
}

EXPORT int N(cuModuleUnload, hipModuleUnload)(void *m)
{
    ENTER();
    free(m);
    WRITE_DOWN(f->live_modules--);
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
    *v = a == 4 ? fake.registers : 0;
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

static FakeLaunch launch_of(void *function, const unsigned grid[3], const unsigned block[3], unsigned shared,
    void *stream, void **params)
{
    FakeLaunch l = { .grid = { grid[0], grid[1], grid[2] },
        .block = { block[0], block[1], block[2] },
        .shared = shared,
        .stream = stream };
    if (fake.on_launch) fake.on_launch(params);
    snprintf(l.name, sizeof l.name, "%s", ((Function *)function)->name);
#ifndef FAKE_HIP
    l.context = current;
#endif
    for (int i = 0; i < fake.n_params; i++) memcpy(&l.params[i], params[i], 8);
    return l;
}

EXPORT int N(cuLaunchKernel, hipModuleLaunchKernel)(void *function, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    ENTER();
    FakeLaunch l =
        launch_of(function, (unsigned[]){ gx, gy, gz }, (unsigned[]){ bx, by, bz }, shared, stream, params);
    WRITE_DOWN(f->launches++, f->last = l);
    return 0;
}

#if !defined FAKE_HIP && !defined FAKE_OLD
EXPORT int cuLaunchKernelEx(const void *config, void *function, void **params, void **extra)
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
    FakeLaunch l = launch_of(function, c.grid, c.block, c.shared, c.stream, params);
    for (unsigned i = 0; i < c.n; i++) l.early_start |= c.attributes[i].id == 6 && c.attributes[i].value;
    WRITE_DOWN(f->launches++, f->last = l);
    return 0;
}
#endif
