/* fake_memory.c: memory, copies, tensor maps, streams and events of the fake driver (fake_gpu.h). */
#include "fake_driver.h"
#include <stdbool.h>

/* --- captures of graphs --- */

enum { GLOBAL, RELAXED = 2, CAPTURE_UNSUPPORTED = 900, CAPTURE_IMPLICIT = 906 };
static __thread int capture_mode = GLOBAL;

EXPORT int N(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int *mode)
{
    ENTER();
    int old = capture_mode;
    capture_mode = *mode;
    *mode = old;
    return 0;
}

int fake_unsafe(void) { return fake.captured_globally && capture_mode != RELAXED ? CAPTURE_UNSUPPORTED : 0; }

static int in_stream(const void *stream) { return fake.captured_globally && !stream ? CAPTURE_IMPLICIT : 0; }

/* --- memory --- */

/* What lies before each block of memory. */
typedef struct Block {
    struct Block *next;
    size_t bytes;
} Block;
enum { BEFORE = 4096 }; /* so that blocks are aligned as pages are */
static Block *blocks;

static int give(void **p, size_t n)
{
    char *memory;
    if (posix_memalign((void **)&memory, BEFORE, BEFORE + n + 16)) return 2;
    Block *b = fake_on_device(memory);
    b->bytes = n;
    *p = memory + BEFORE;
    WRITE_DOWN(f->live_memory++, f->allocs++, b->next = blocks, blocks = b);
    return 0;
}

static int take(void *p)
{
    Block *b = (Block *)((char *)p - BEFORE), **at = &blocks;
    if (!p) return 0;
    fake_begin_writing()->live_memory--;
    while (*at && *at != b) at = &(*at)->next;
    bool known = *at != NULL;
    if (known) *at = b->next;
    fake_end_writing();
    if (!known) return 1;
    free(b);
    return 0;
}

EXPORT size_t fake_block(const void *p)
{
    size_t bytes = 0;
    fake_begin_writing();
    for (const Block *b = blocks; b; b = b->next)
        if ((const char *)b + BEFORE == p) bytes = b->bytes;
    fake_end_writing();
    return bytes;
}

EXPORT int N(cuMemAlloc_v2, hipMalloc)(void **p, size_t n)
{
    ENTER();
    return fake_unsafe() ? fake_unsafe() : give(p, n);
}
EXPORT int N(cuMemFree_v2, hipFree)(void *p)
{
    ENTER();
    return fake_unsafe() ? fake_unsafe() : take(p);
}
EXPORT int N(cuMemHostAlloc, hipHostMalloc)(void **p, size_t n, unsigned f)
{
    ENTER();
    return give(p, n);
}
EXPORT int N(cuMemFreeHost, hipHostFree)(void *p)
{
    ENTER();
    return take(p);
}
EXPORT int N(cuMemsetD8Async, hipMemsetD8Async)(void *p, unsigned char v, size_t n, void *s)
{
    ENTER();
    if (in_stream(s)) return in_stream(s);
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
EXPORT int cuMemPoolCreate(void **pool, const void *properties)
{
    ENTER();
    *pool = fake_on_device(calloc(1, 16));
    return 0;
}
EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value)
{
    ENTER();
    return attribute != 4;
}
EXPORT int cuMemPoolDestroy(void *pool)
{
    ENTER();
    free(pool);
    return 0;
}
EXPORT int cuMemAllocFromPoolAsync(void **p, size_t n, void *pool, void *stream)
{
    ENTER();
    return give(p, n);
}
EXPORT int cuMemAllocAsync(void **p, size_t n, void *stream)
{
    ENTER();
    return give(p, n);
}
EXPORT int cuMemFreeAsync(void *p, void *stream)
{
    ENTER();
    return take(p);
}
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
    WRITE_DOWN(memcpy(f->last_map, words, 128), f->tensor_maps++);
    return 0;
}
EXPORT int cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, void *base, const uint64_t *dims,
    const uint64_t *strides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels,
    const uint32_t *steps, int interleave, int swizzle, int promotion, int fill)
{
    uint32_t box[5] = { channels, 1, 1, 1, 1 };
    for (uint32_t i = 0; i + 2 < rank; i++)
        if ((int64_t)dims[i + 1] + upper[i] <= lower[i] || !pixels) return 1;
    return cuTensorMapEncodeTiled(
        map, type, rank, base, dims, strides, box, steps, interleave, swizzle, promotion, fill);
}
#endif
#endif

/* The handle of a stream that was destroyed is the next stream's. */
typedef struct Stream {
    unsigned long long number;
} Stream;
static Stream *destroyed;
static unsigned long long streams = 1 << 20; /* above the numbers of what are no streams of this driver */

EXPORT int N(cuStreamCreate, hipStreamCreateWithFlags)(void **s, unsigned f)
{
    ENTER();
    Stream *old = __atomic_exchange_n(&destroyed, NULL, __ATOMIC_ACQ_REL);
    Stream *made = old ? old : fake_on_device(calloc(1, sizeof *made));
    made->number = __atomic_add_fetch(&streams, 1, __ATOMIC_RELAXED) << 1 | 1;
    *s = made;
    return 0;
}
EXPORT int N(cuStreamDestroy_v2, hipStreamDestroy)(void *s)
{
    ENTER();
    free(__atomic_exchange_n(&destroyed, s, __ATOMIC_ACQ_REL));
    return 0;
}
#if !defined FAKE_HIP && !defined FAKE_OLD
/* Of the default stream, of the threads' own, and of streams that cuStreamCreate has made. */
EXPORT int cuStreamGetId(void *s, unsigned long long *number)
{
    static unsigned long long threads;
    static __thread unsigned long long own;
    ENTER();
    if (fake.capturing) return CAPTURE_UNSUPPORTED;
    if (s == (void *)2 && !own) own = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    *number = s == (void *)2 ? own << 1 : (uintptr_t)s < 2 ? 1 : ((Stream *)s)->number;
    return 0;
}
#endif
EXPORT int N(cuStreamSynchronize, hipStreamSynchronize)(void *s)
{
    ENTER();
    return fake_unsafe() ? fake_unsafe() : in_stream(s);
}
EXPORT int N(cuStreamWaitEvent, hipStreamWaitEvent)(void *s, void *e, unsigned f)
{
    ENTER();
    return 0;
}
EXPORT int N(cuStreamIsCapturing, hipStreamIsCapturing)(void *s, int *v)
{
    ENTER();
    *v = fake.capturing;
    return 0;
}
EXPORT int N(cuEventCreate, hipEventCreateWithFlags)(void **s, unsigned f)
{
    ENTER();
    *s = fake_on_device(calloc(1, 16));
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
