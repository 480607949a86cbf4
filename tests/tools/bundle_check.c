/* bundle_check.c: a program of the bundle that tilec made of bundle.tile. `bundle_check cpu`: no driver is
 * here; `bundle_check fake`: libcuda.so.1 is the one in memory of tests/api, where launches are written down.
 */
#include "k.h"
#include "fake_gpu.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>

#define SAID k_error()
#include "expect.h"

static FakeState *gpu;
#define SAYS(part) \
    do { \
        if (!strstr(k_error(), part)) { \
            printf("line %d: \"%s\" is not in \"%s\"\n", __LINE__, part, k_error()); \
            failures++; \
        } \
    } while (0)

static void check_cpu(const tile_queue *q)
{
    static float x[5 * 100], y[5 * 100];
    int64_t shape[] = { 5, 100 };
    for (int i = 0; i < 500; i++) {
        x[i] = (float)i;
        y[i] = 1;
    }
    EXPECT("axpy on the CPU",
        axpy_f32((tile_view){ x, shape, NULL }, (tile_view){ y, shape, NULL }, 0.5f, 4, q), TILE_LAUNCH_OK);
    for (int i = 0; i < 500; i++)
        if (y[i] != 1 + 2 * x[i]) {
            printf("element %d is %g\n", i, y[i]);
            failures++;
            break;
        }
}

static void without_driver(void)
{
    tile_device d;
    EXPECT("no driver", k_open_device(TILE_ON_CUDA, 0, &d), TILE_LAUNCH_NO_DEVICE);
    SAYS("no CUDA driver on this machine (looked for libcuda.so.1");
    EXPECT("any device is the CPU", k_open_device(TILE_ON_ANY, 0, &d), TILE_LAUNCH_OK);
    EXPECT("a kind that is none", k_open_device(9, 0, &d), TILE_LAUNCH_INVALID);
    EXPECT("the CPU", k_open_device(TILE_ON_CPU, 0, &d), TILE_LAUNCH_OK);
    void *p = NULL, *q = NULL;
    char back[100] = "";
    EXPECT("memory", d.alloc(&d, 100, &p) || d.alloc(&d, 100, &q), 0);
    EXPECT("copies",
        d.copy(&d, p, "hello", 6) || d.copy(&d, q, p, 6) || d.copy(&d, back, q, 6) || d.synchronize(&d), 0);
    EXPECT("what came back", strcmp(back, "hello"), 0);
    d.release(&d, p), d.release(&d, q);
    check_cpu(&d.queue);
    check_cpu(NULL);
    float one[64];
    int64_t shape[] = { 1, 64 };
    tile_view v = { one, shape, NULL };
    EXPECT("a launch without a driver", axpy_f32(v, v, 1, 1, &(tile_queue){ .kind = TILE_ON_CUDA }),
        TILE_LAUNCH_OVERLAP);
}

/* C = A * B of n^3, A `offset` elements into its memory. */
static int launch_gemm(const tile_queue *q, int64_t n, int offset)
{
    static _Alignas(16) uint16_t a[1 << 16], b[1 << 16], c[1 << 16]; /* nobody computes: they are addresses */
    int64_t shape[] = { n, n };
    return gemm((tile_view){ a + offset, shape, NULL }, (tile_view){ b, shape, NULL },
        (tile_view){ c, shape, NULL }, q);
}

static int launch_row(const tile_queue *q)
{
    static _Alignas(16) uint16_t a[128], b[128 * 128], c[128];
    int64_t one[] = { 1, 128 }, square[] = { 128, 128 }, odd[] = { 7, 1 };
    return gemm((tile_view){ a, one, odd }, (tile_view){ b, square, NULL }, (tile_view){ c, one, odd }, q);
}

static int launch_axpy(const tile_queue *q, float a)
{
    static _Alignas(16) float x[64 * 64], y[64 * 64];
    int64_t shape[] = { 64, 64 };
    return axpy_f32((tile_view){ x, shape, NULL }, (tile_view){ y, shape, NULL }, a, 3, q);
}

/* A device of its own: what is loaded is kept by context. */
static tile_queue fresh(int arch, int shared)
{
    static char contexts[64];
    static int used;
    gpu->arch = arch;
    gpu->shared_bytes = shared;
    gpu->refuse_binary = gpu->refuse_ptx = gpu->sticky = gpu->capturing = 0;
    gpu->stream_context = &contexts[used++];
    return (tile_queue){ .kind = TILE_ON_CUDA, .stream = gpu->stream_context };
}

static void choice_by_device(void)
{
    tile_queue q = fresh(90, 0);
    EXPECT("gemm on sm_90", launch_gemm(&q, 128, 0), TILE_LAUNCH_OK);
    EXPECT("threads of the code for sm_90a", gpu->last.block[0], 384);
    EXPECT("tensor maps", gpu->tensor_maps > 1, 1);
    EXPECT("a binary", strncmp(gpu->last_image, "FAKEBIN:", 8), 0);
    EXPECT("stream", gpu->last.stream == q.stream, 1);
    int maps = gpu->tensor_maps;
    EXPECT("gemm of one row, whose stride is nobody's concern", launch_row(&q), TILE_LAUNCH_OK);
    EXPECT("tensor maps", gpu->tensor_maps > maps, 1);
    maps = gpu->tensor_maps;
    EXPECT("gemm at an odd address", launch_gemm(&q, 128, 1), TILE_LAUNCH_OK);
    EXPECT("no tensor maps", gpu->tensor_maps, maps);
    EXPECT("no programs", launch_gemm(&q, 0, 0), TILE_LAUNCH_OK);

    q = fresh(80, 0);
    EXPECT("gemm on sm_80", launch_gemm(&q, 128, 0), TILE_LAUNCH_OK);
    EXPECT("threads of the code for sm_80", gpu->last.block[0] == 384, 0);
    EXPECT("a binary", strncmp(gpu->last_image, "FAKEBIN:", 8), 0);
    q = fresh(87, 0);
    EXPECT("gemm on sm_87", launch_gemm(&q, 128, 0), TILE_LAUNCH_OK);
    EXPECT("the binary of sm_80", strncmp(gpu->last_image, "FAKEBIN:", 8), 0);
    q = fresh(100, 0);
    EXPECT("gemm on sm_100", launch_gemm(&q, 128, 0), TILE_LAUNCH_OK);
    EXPECT("PTX", strcmp(gpu->last_image, "FAKEBIN-PTX"), 0);
    q = fresh(120, 101376);
    EXPECT("gemm on sm_120", launch_gemm(&q, 128, 0), TILE_LAUNCH_OK);
    EXPECT("what fits", gpu->last.shared <= 101376, 1);
    q = fresh(90, 16384);
    EXPECT("gemm with no shared memory", launch_gemm(&q, 128, 0), TILE_LAUNCH_RESOURCES);
    SAYS("bytes of shared memory; cuda:sm_90 has 16384");
    q = fresh(75, 0);
    EXPECT("gemm on sm_75", launch_gemm(&q, 128, 0), TILE_LAUNCH_UNSUPPORTED);
    SAYS("gemm: nothing was compiled for cuda:sm_75");
}

static void choice_by_arguments(void)
{
    tile_queue q = fresh(90, 0);
    gpu->n_params = 3;
    int before = gpu->modules;
    EXPECT("positive", launch_axpy(&q, 1), TILE_LAUNCH_OK);
    EXPECT("not positive", launch_axpy(&q, -1), TILE_LAUNCH_OK);
    EXPECT("not a number", launch_axpy(&q, 0.0f / 0.0f), TILE_LAUNCH_OK);
    EXPECT("loaded at most twice", gpu->modules - before <= 2, 1);
    int64_t rows[] = { 7, 48 }, m[] = { 7 }, odd[] = { 7, 32 };
    static _Alignas(16) float x[7 * 48], z[7];
    tile_view X = { x, rows, NULL }, Z = { z, m, NULL }, Y = { x, odd, NULL };
    EXPECT("dot", dot(X, X, Z, true, &q), TILE_LAUNCH_OK);
    EXPECT("dot of another extent", dot(Y, Y, Z, true, &q), TILE_LAUNCH_NO_VARIANT);
    SAYS("dot: nothing was compiled for these extents, consts and optional tensors");
    gpu->n_params = 0;
}

static void old_drivers(void)
{
    tile_queue q = fresh(90, 0);
    gpu->refuse_binary = 200;
    EXPECT("a driver older than the binary", launch_gemm(&q, 128, 0), TILE_LAUNCH_OK);
    EXPECT("PTX", strcmp(gpu->last_image, "FAKEBIN-PTX"), 0);
    q = fresh(90, 0);
    gpu->refuse_binary = 209;
    gpu->refuse_ptx = 222;
    EXPECT("older than both", launch_gemm(&q, 128, 0), TILE_LAUNCH_UNSUPPORTED);
    SAYS("gemm: loading the ");
    SAYS("words of the driver");
    gpu->refuse_binary = gpu->refuse_ptx = 0;
    EXPECT("it is not asked again", launch_gemm(&q, 128, 0), TILE_LAUNCH_UNSUPPORTED);
    SAYS("was refused at an earlier launch");
    q = fresh(90, 0);
    gpu->refuse_binary = 2;
    EXPECT("no memory", launch_gemm(&q, 128, 0), TILE_LAUNCH_OUT_OF_MEMORY);
    gpu->refuse_binary = 0;
    EXPECT("memory again", launch_gemm(&q, 128, 0), TILE_LAUNCH_OK);
}

static void bad_arguments(void)
{
    tile_queue q = fresh(90, 0), other = q;
    static _Alignas(16) float x[64 * 64], y[64 * 64];
    int64_t shape[] = { 64, 64 }, less[] = { 64, 63 }, huge[] = { (int64_t)1 << 31, 64 }, none[] = { 0, 64 },
            zero[] = { 0, 0 };
    tile_view X = { x, shape, NULL }, Y = { y, shape, NULL };
    EXPECT("null", axpy_f32((tile_view){ NULL, shape, NULL }, Y, 1, 1, &q), TILE_LAUNCH_INVALID);
    SAYS("axpy<T=f32>: argument 1 (X): the data pointer is NULL");
    EXPECT("an odd address", axpy_f32(X, (tile_view){ (char *)y + 2, shape, NULL }, 1, 1, &q),
        TILE_LAUNCH_ALIGNMENT);
    SAYS("argument 2 (Y)");
    EXPECT("other extents", axpy_f32(X, (tile_view){ y, less, NULL }, 1, 1, &q), TILE_LAUNCH_SHAPE);
    SAYS("axpy<T=f32>: dimension N is 64 in X (axis 1) but 63 in Y (axis 1)");
    EXPECT("overlap", axpy_f32((tile_view){ y + 4, shape, NULL }, Y, 1, 1, &q), TILE_LAUNCH_OVERLAP);
    static _Alignas(16) float z[64]; /* of many rows that lie on each other, below or above the others */
    bool below = &z[0] < &y[0];
    int64_t up[] = { below ? 64 : -64, 1 };
    EXPECT("too many programs", axpy_f32((tile_view){ z, huge, zero }, (tile_view){ y, huge, up }, 1, 1, &q),
        TILE_LAUNCH_GRID);
    SAYS("the grid of 2147483648 x 1 (2147483648 programs) is too large for cuda:sm_90; at most 2147483647 "
         "programs run in one launch");
    EXPECT("rows on each other", axpy_f32(X, (tile_view){ y, shape, zero }, 1, 1, &q), TILE_LAUNCH_OVERLAP);
    EXPECT("no rows", axpy_f32((tile_view){ NULL, none, NULL }, (tile_view){ NULL, none, NULL }, 1, 1, &q),
        TILE_LAUNCH_OK);
    other.context = &q;
    EXPECT("a stream of another context", axpy_f32(X, Y, 1, 1, &other), TILE_LAUNCH_INVALID);
    SAYS("the stream belongs to another context");
    other.kind = 7;
    EXPECT("no such kind", axpy_f32(X, Y, 1, 1, &other), TILE_LAUNCH_INVALID);
    EXPECT("good again", axpy_f32(X, Y, 1, 1, &q), TILE_LAUNCH_OK);
    EXPECT("no error", (int)strlen(k_error()), 0);
    gpu->sticky = 700;
    EXPECT("an earlier fault", axpy_f32(X, Y, 1, 1, &q), TILE_LAUNCH_DEVICE_FAULT);
    SAYS("CUDA_ERROR_ILLEGAL_ADDRESS");
    gpu->sticky = 0;
}

static void device_functions(void)
{
    tile_device d;
    void *p = NULL;
    char back[6] = "";
    gpu->arch = 90;
    gpu->stream_context = NULL;
    EXPECT("open", k_open_device(TILE_ON_ANY, 0, &d), TILE_LAUNCH_OK);
    EXPECT("is CUDA's", strcmp(d.target, "cuda:sm_90"), 0);
    EXPECT("no such device", k_open_device(TILE_ON_CUDA, 5, &d), TILE_LAUNCH_NO_DEVICE);
    EXPECT("open", k_open_device(TILE_ON_CUDA, 0, &d), TILE_LAUNCH_OK);
    EXPECT("memory",
        d.alloc(&d, 100, &p) || d.copy(&d, p, "hello", 6) || d.copy(&d, back, p, 6) || d.synchronize(&d) ||
            d.release(&d, p),
        0);
    EXPECT("what came back", strcmp(back, "hello"), 0);
    EXPECT("gemm", launch_gemm(&d.queue, 128, 0), TILE_LAUNCH_OK);
}

static tile_queue shared_queue;
static void *many(void *p)
{
    (void)p;
    for (int i = 0; i < 200; i++)
        if (launch_gemm(&shared_queue, 128, i & 1) || launch_axpy(&shared_queue, i & 2 ? 1.0f : -1.0f))
            return "failed";
    return NULL;
}

static void threads(void)
{
    pthread_t t[16];
    shared_queue = fresh(90, 0);
    int modules = gpu->modules, launches = gpu->launches;
    for (int i = 0; i < 16; i++) pthread_create(&t[i], NULL, many, NULL);
    for (int i = 0; i < 16; i++) {
        void *result;
        pthread_join(t[i], &result);
        EXPECT("a thread", result != NULL, 0);
    }
    EXPECT("launches", gpu->launches - launches, 16 * 400);
    EXPECT("every image is loaded once", gpu->modules - modules <= 4, 1);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "cpu")) without_driver();
    else {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        FakeStateFn *state = library ? (FakeStateFn *)(uintptr_t)dlsym(library, "fake_state") : NULL;
        if (!state) return puts("the driver in memory is not there"), 1;
        gpu = state();
        choice_by_device();
        choice_by_arguments();
        old_drivers();
        bad_arguments();
        device_functions();
        threads();
        check_cpu(NULL);
    }
    if (!failures) puts("all launches as expected");
    return failures != 0;
}
