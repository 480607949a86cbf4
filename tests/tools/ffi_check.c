/* ffi_check.c: calls functions of a shared library that tilec made of ffi.tile, by tvm-ffi's C ABI and
 * without tvm-ffi. argv: the library, then what stands for tvm-ffi's library: `global` or `local`, as it was
 * loaded, or `none`; or `cuda`: the library is a bundle, and libcuda.so.1 the driver of tests/api. */
#include "ffi_abi.h"
#include "fake_gpu.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAID (stub ? stub->text : "")
#include "expect.h"

static Stub *stub;
#define SAYS(of, what) \
    do { \
        if (stub && (strcmp(stub->kind, of) || strcmp(stub->text, what))) { \
            printf("line %d: %s \"%s\", not %s \"%s\"\n", __LINE__, stub->kind, stub->text, of, what); \
            failures++; \
        } \
    } while (0)

static void *library;
static Function *function(const char *name)
{
    Function *f = (Function *)(uintptr_t)dlsym(library, name);
    if (!f) exit((printf("there is no %s\n", name), 1));
    return f;
}

static Any whole(int64_t i) { return (Any){ ANY_INT, 0, { .i = i } }; }
static Any real(double f) { return (Any){ ANY_FLOAT, 0, { .f = f } }; }
static Any of(Tensor *t) { return (Any){ ANY_DLTENSOR, 0, { .p = t } }; }
static const Any none = { ANY_NONE, 0, { 0 } };

enum { M = 5, N = 40 };
static int64_t shape[] = { M, N };
static Tensor matrix(void *data, int bits)
{ return (Tensor){ data, 1, 0, 2, 2, (uint8_t)bits, 1, shape, NULL, 0 }; }

static void check_softmax(void)
{
    static float x[M * N], y[M * N + 1];
    static uint16_t hx[M * N], hy[M * N];
    Function *softmax = function("__tvm_ffi_softmax");
    Tensor X = matrix(x, 32), Y = matrix(y, 32), HX = matrix(hx, 16), HY = matrix(hy, 16);
    Any result = { ANY_NONE, 0, { 0 } }, args[] = { of(&X), of(&Y) }, halves[] = { of(&HX), of(&HY) },
        mixed[] = { of(&X), of(&HY) };
    for (int i = 0; i < M * N; i++) x[i] = (float)(i % 7);
    Y.byte_offset = 4;
    EXPECT("softmax", softmax(NULL, args, 2, &result), 0);
    EXPECT("its result", result.type, ANY_NONE);
    for (int i = 0; i < M; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) sum += y[1 + i * N + j];
        EXPECT("a row sums to 1", fabs(sum - 1) < 1e-5, 1);
    }
    char object[24 + sizeof(Tensor)] = { 0 }; /* the same as an object */
    memcpy(object + 24, &Y, sizeof Y);
    y[1] = -1;
    args[1] = (Any){ ANY_TENSOR, 0, { .p = object } };
    EXPECT("softmax of an object", softmax(NULL, args, 2, &result), 0);
    EXPECT("its first element", y[1] > 0, 1);
    EXPECT("softmax in f16", softmax(NULL, halves, 2, &result), 0);
    EXPECT("1 / 40", hy[0], 0x2666);
    EXPECT("f16 by its own name", function("__tvm_ffi_softmax_f16")(NULL, halves, 2, &result), 0);
    EXPECT("f32 by its own name", function("__tvm_ffi_softmax_f32")(NULL, halves, 2, &result), -1);
    SAYS("TypeError", "softmax<T=f32, N=40>: argument 1 (X): elements are f16, the kernel takes f32");
    EXPECT("two types", softmax(NULL, mixed, 2, &result), -1);
    SAYS("TypeError", "softmax<T=f32, N=40>: argument 2 (Y): elements are f16, the kernel takes f32");
    EXPECT("one argument", softmax(NULL, args, 1, &result), -1);
    SAYS("ValueError", "softmax<T=f32, N=40>: takes 2 arguments, 1 were given");
    X.device_type = 2;
    EXPECT("a tensor of a GPU", softmax(NULL, args, 2, &result), -1);
    SAYS("ValueError",
        "softmax<T=f32, N=40>: argument 1 (X): lies on DLPack device (2, 0), the context's is (1, 0)");
}

/* A scalar of each narrow type gives these bits. */
static void check_bits(double x, int h, int b, int e, int g)
{
    static int64_t one[] = { 1 };
    uint16_t H = 1, B = 1;
    uint8_t E = 1, G = 1;
    double D = 0;
    int32_t sum = 0, add = 7;
    Tensor t[] = { { &add, 1, 0, 1, 0, 32, 1, one, NULL, 0 }, { &H, 1, 0, 1, 2, 16, 1, one, NULL, 0 },
        { &B, 1, 0, 1, 4, 16, 1, one, NULL, 0 }, { &E, 1, 0, 1, 10, 8, 1, one, NULL, 0 },
        { &G, 1, 0, 1, 1, 8, 1, one, NULL, 0 }, { &D, 1, 0, 1, 2, 64, 1, one, NULL, 0 },
        { &sum, 1, 0, 1, 0, 32, 1, one, NULL, 0 } };
    Any result = { ANY_NONE, 0, { 0 } },
        args[] = { real(x), real(x), real(x), real(x), real(3), { ANY_BOOL, 0, { .i = 1 } }, whole(200),
            of(&t[0]), of(&t[1]), of(&t[2]), of(&t[3]), of(&t[4]), of(&t[5]), of(&t[6]), whole(1), real(2) };
    Function *bits = function("__tvm_ffi_bits");
    EXPECT("bits", bits(NULL, args, 16, &result), 0);
    EXPECT("f16", H, h);
    EXPECT("bf16", B, b);
    EXPECT("f8e4m3", E, e);
    EXPECT("f8e5m2", G, g);
    EXPECT("f64 times a const", D == 6, 1);
    EXPECT("twice a sum", sum, 2 * (200 + 1000 + 7));
    args[7] = none;
    args[14] = whole(0);
    EXPECT("without the optional one", bits(NULL, args, 16, &result), 0);
    EXPECT("a sum", sum, 1200);
    args[15] = real(3);
    EXPECT("another const", bits(NULL, args, 16, &result), -1);
    SAYS("ValueError", "bits: nothing was compiled for these extents, consts and optional tensors");
    args[15] = none;
    EXPECT("no const", bits(NULL, args, 16, &result), -1);
    SAYS("TypeError", "bits: the const F: a number is wanted");
}

static void check_cpu(void)
{
    check_softmax();
    check_bits(1, 0x3c00, 0x3f80, 0x38, 0x3c);
    check_bits(-0.0, 0x8000, 0x8000, 0x80, 0x80);
    check_bits(1 + 0x1p-11, 0x3c00, 0x3f80, 0x38, 0x3c); /* halfway, to even */
    check_bits(1 + 0x3p-11, 0x3c02, 0x3f80, 0x38, 0x3c);
    check_bits(1.0625, 0x3c40, 0x3f88, 0x38, 0x3c);
    check_bits(0x1p-24, 1, 0x3380, 0, 0);
    check_bits(0x1p-25, 0, 0x3300, 0, 0);
    check_bits(0x1.8p-25, 1, 0x3340, 0, 0);
    check_bits(0x1p-9, 0x1800, 0x3b00, 1, 0x18);
    check_bits(0x1p-133, 0, 1, 0, 0);
    check_bits(65520, 0x7c00, 0x4780, 0x7e, 0x7b);
    check_bits(-1e300, 0xfc00, 0xff80, 0xfe, 0xfb);
    check_bits(HUGE_VAL, 0x7c00, 0x7f80, 0x7e, 0x7b);
    check_bits(5e-324, 0, 0, 0, 0);
}

static void check_cuda(void)
{
    static _Alignas(16) float x[M * N], y[M * N];
    FakeStateFn *state = (FakeStateFn *)(uintptr_t)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_state");
    FakeState *gpu = state();
    char context;
    Function *softmax = function("__tvm_ffi_softmax");
    Tensor X = matrix(x, 32), Y = matrix(y, 32);
    Any result = { ANY_NONE, 0, { 0 } }, args[] = { of(&X), of(&Y) };
    EXPECT("on the CPU", softmax(NULL, args, 2, &result), 0);
    EXPECT("which computes", y[0] == 1.0f / N, 1);
    gpu->arch = 90;
    X.device_type = Y.device_type = 2;
    gpu->stream_context = stub->stream = &context;
    EXPECT("on the GPU", softmax(NULL, args, 2, &result), 0);
    EXPECT("the device's stream", stub->asked_type == 2 && stub->asked_id == 0, 1);
    EXPECT("in that stream", gpu->last.stream == &context, 1);
    EXPECT("and context", gpu->last.context == &context, 1);
    stub->stream = NULL;
    EXPECT("in the default stream", softmax(NULL, args, 2, &result), 0);
    EXPECT("of the device's own context", gpu->last.context != NULL && gpu->last.context != &context, 1);
    Y.device_id = 1;
    EXPECT("two devices", softmax(NULL, args, 2, &result), -1);
    SAYS("ValueError",
        "softmax<T=f32, N=40>: argument 2 (Y): lies on DLPack device (2, 1), the context's is (2, 0)");
    Y.device_id = 0;
    gpu->sticky = 700;
    EXPECT("a fault", softmax(NULL, args, 2, &result), -1);
    EXPECT("its kind", strcmp(stub->kind, "RuntimeError"), 0);
    EXPECT("its text", strstr(stub->text, "CUDA_ERROR_ILLEGAL_ADDRESS") != NULL, 1);
    gpu->sticky = 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const char *mode = argv[2];
    if (strcmp(mode, "none")) {
        void *ffi = dlopen("./libtvm_ffi.so", RTLD_NOW | (strcmp(mode, "local") ? RTLD_GLOBAL : RTLD_LOCAL));
        Stub *(*get)(void) = ffi ? (Stub * (*)(void))(uintptr_t)dlsym(ffi, "stub_state") : NULL;
        if (!get) return puts("the stub is not there"), 1;
        stub = get();
    }
    if (!(library = dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL))) return puts(dlerror()), 1;
    if (strcmp(mode, "cuda")) check_cpu();
    else check_cuda();
    if (!failures) puts("all calls as expected");
    return failures != 0;
}
