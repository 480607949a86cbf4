/* far.c: tile_emu_far: elements more than 2^31 elements from the first, and extents beyond 2^32, on the
 * emulator: what is emitted must compute offsets in 64 bits where no launch key rules that out. The tensors
 * lie in 17 GB of addresses, of which a few pages are touched. */
#include "tests/emu/exec_emu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const int64_t FAR = ((int64_t)1 << 31) + 5, LONG = ((int64_t)1 << 33) + 100;
enum { SKIP = 77, M = 3, N = 9, TAIL = 225 };

static const char kernels[] = "kernel rows(in f32 X[M, N], inout f32 Y[M, N], out f32 Z[M, N])\n"
                              "    grid (1)\n"
                              "{\n"
                              "    let row = arange(4)[:, None];\n"
                              "    let col = arange(16)[None, :];\n"
                              "    let x = load(X[0 +: 4, 0 +: 16]);\n"
                              "    atomic_add(Y[row, col], gather(X[row, col]));\n"
                              "    store(Y[1 +: 1, 0 +: 16], load(X[1 +: 1, 0 +: 16]) * 3.0);\n"
                              "    scatter(Z[row, col], cumsum(x, axis = 0));\n"
                              "}\n"
                              "kernel product(in f16 A[M, N], in f16 B[N, M], out f32 C[M, M])\n"
                              "    grid (1)\n"
                              "{\n"
                              "    var acc = zeros([16, 16], f32);\n"
                              "    for k in 0 .. cdiv(N, 16) { acc = mma(load(A[0 +: 16, k*16 +: 16], "
                              "latency = 2), load(B[k*16 +: 16, 0 +: 16], latency = 2), acc); }\n"
                              "    store(C[0 +: 16, 0 +: 16], acc);\n"
                              "}\n"
                              "kernel band(in f16 A[M, N], in f16 B[N, K], out f32 C[M, K], i64 start)\n"
                              "    grid (1)\n"
                              "{\n"
                              "    var acc = zeros([64, 64], f32);\n"
                              "    for k in 0 .. 4 {\n"
                              "        let at = index(start)*64 + k*64;\n"
                              "        acc = mma(load(A[0 +: 64, at +: 64], latency = 2), load(B[at +: 64, 0 "
                              "+: 64], latency = 2), acc);\n"
                              "    }\n"
                              "    store(C[0 +: 64, 0 +: 64], acc);\n"
                              "}\n"
                              "kernel put(in f16 A[M, K], in f16 B[K, M], out f16 C[M, N], i64 start)\n"
                              "    grid (1)\n"
                              "{\n"
                              "    var acc = zeros([64, 64], f32);\n"
                              "    for k in 0 .. cdiv(K, 64) { acc = mma(load(A[0 +: 64, k*64 +: 64], "
                              "latency = 2), load(B[k*64 +: 64, 0 +: 64], latency = 2), acc); }\n"
                              "    store(C[0 +: 64, index(start)*64 +: 64], f16(acc));\n"
                              "}\n"
                              "kernel tail(in i8 V[N], out i8 W[N], out i8 S[K], in i32 count[1])\n"
                              "    grid (1)\n"
                              "{\n"
                              "    let last = load(V[N - 225 +: 256]);\n"
                              "    store(W[N - 225 +: 256], last + 1);\n"
                              "    var s = zeros([256], i8);\n"
                              "    for k in 0 .. min(index(load(count[0])), 4) { s = s + load(V[k*256 - 3 +: "
                              "256]); }\n" /* a counter of 32 bits beside an extent of more */
                              "    store(S[0 +: 256], s);\n"
                              "}\n";

static int failures;

static void expect(bool ok, const char *what)
{
    printf("%s: %s\n", ok ? "ok" : "FAIL", what);
    failures += !ok;
}

static Tensor matrix(RefType type, unsigned char *at, int64_t rows, int64_t cols, int64_t s0, int64_t s1)
{
    return (Tensor){ .type = type,
        .rank = 2,
        .shape = { rows, cols },
        .stride = { s0, s1 },
        .count = rows * cols,
        .base = at };
}

static bool run(void *emu, const char *path, const char *kernel, const Tensor *tensors, int n,
    const ScalarArg *scalar, bool passes)
{
    char why[1000];
    Run r = { .path = path, .n_launches = 1, .passes = passes };
    snprintf(r.launches[0].kernel, sizeof r.launches[0].kernel, "%s", kernel);
    for (int k = 0; k < n; k++) r.launches[0].args[k].tensor = &tensors[k];
    r.launches[0].n_args = n;
    if (scalar) r.launches[0].args[r.launches[0].n_args++].scalar = scalar;
    bool ok = exec_emu_run(emu, &r, why, sizeof why);
    if (!ok) printf("%s: %s\n", kernel, why);
    return ok;
}

/* Rows that lie 2^31 + 5 elements apart. */
static void test_rows(void *emu, const char *path, unsigned char *far, bool passes)
{
    float *x = (float *)far, *y = x + 64;
    static float z[M][N];
    memset(z, 0, sizeof z);
    for (int r = 0; r < M; r++)
        for (int c = 0; c < N; c++) {
            x[r * FAR + c] = (float)(10 * r + c + 1);
            y[r * FAR + c] = 100;
        }
    const Tensor t[3] = { matrix(REF_F32, far, M, N, FAR, 1),
        matrix(REF_F32, (unsigned char *)y, M, N, FAR, 1), matrix(REF_F32, (unsigned char *)z, M, N, N, 1) };
    bool ok = run(emu, path, "rows", t, 3, NULL, passes);
    for (int r = 0; r < M && ok; r++)
        for (int c = 0; c < N; c++) {
            float v = x[r * FAR + c], s = 0;
            for (int q = 0; q <= r; q++) s += x[q * FAR + c];
            ok = ok && y[r * FAR + c] == (r == 1 ? 3 * v : 100 + v) && z[r][c] == s;
        }
    expect(ok, "rows that lie 2^31 + 5 elements apart: loads, stores, gathers, scatters, atomics");
}

static void test_product(void *emu, const char *path, unsigned char *far, bool passes)
{
    enum { K = 40 };
    _Float16 *a = (_Float16 *)far + 4096, *b = a + 128;
    static float c[M][M];
    memset(c, 0, sizeof c);
    for (int r = 0; r < M; r++)
        for (int k = 0; k < K; k++) {
            a[r * FAR + k] = (_Float16)(r + k % 5);
            b[r * FAR + k] = (_Float16)(k % 7 - r);
        }
    const Tensor t[3] = { matrix(REF_F16, (unsigned char *)a, M, K, FAR, 1),
        matrix(REF_F16, (unsigned char *)b, K, M, 1, FAR), matrix(REF_F32, (unsigned char *)c, M, M, M, 1) };
    bool ok = run(emu, path, "product", t, 3, NULL, passes);
    for (int r = 0; r < M; r++)
        for (int q = 0; q < M; q++) {
            float s = 0;
            for (int k = 0; k < K; k++) s += (float)a[r * FAR + k] * (float)b[q * FAR + k];
            ok = ok && c[r][q] == s;
        }
    expect(ok, "operands of a product whose rows lie 2^31 + 5 elements apart");
}

/* A vector of more than 2^33 elements, read and written at its end. */
static void test_tail(void *emu, const char *path, unsigned char *far, bool passes)
{
    int8_t *v = (int8_t *)far, *w = v + 4096;
    static int8_t s[256];
    for (int k = 0; k < 1024; k++) v[k] = (int8_t)(k % 11);
    for (int k = 0; k < TAIL; k++) {
        v[LONG - TAIL + k] = (int8_t)(k % 100);
        w[LONG - TAIL + k] = -1;
    }
    static int32_t count = 4;
    const Tensor t[4] = {
        { .type = REF_I8, .rank = 1, .shape = { LONG }, .stride = { 1 }, .base = far },
        { .type = REF_I8, .rank = 1, .shape = { LONG }, .stride = { 1 }, .base = (unsigned char *)w },
        { .type = REF_I8, .rank = 1, .shape = { 256 }, .stride = { 1 }, .base = (unsigned char *)s },
        { .type = REF_I32, .rank = 1, .shape = { 1 }, .stride = { 1 }, .base = (unsigned char *)&count },
    };
    bool ok = run(emu, path, "tail", t, 4, NULL, passes);
    for (int k = 0; k < TAIL; k++) ok = ok && w[LONG - TAIL + k] == k % 100 + 1;
    for (int k = 0; k < 256; k++) {
        int sum = 0;
        for (int q = 0; q < 4; q++) sum += k + 256 * q < 3 ? 0 : (k + 256 * q - 3) % 11;
        ok = ok && s[k] == sum;
    }
    expect(ok, "the end and the start of a vector of 2^33 elements");
}

/* A band of 256 columns of matrices as long as TMA can count, or one longer, whose rows lie 64 elements
 * apart: from inside of them, over their end, and so far outside of them that 32 bits cut from the coordinate
 * would be inside again. The kernel takes the start in units of 64: TMA's boxes begin at multiples of 16
 * bytes. */
static void test_band(
    void *emu, const char *path, unsigned char *far, int64_t length, int64_t start, bool roles)
{
    enum { T = 64, BAND = 256 };
    char what[200];
    static float c[T][T];
    _Float16 *base = (_Float16 *)far;
    int64_t from = start < 0        ? 0
                   : start > length ? length
                                    : start,
            to = start + BAND > length ? length : start + BAND;
    for (int64_t k = 0; k < 1024; k++) base[k] = (_Float16)(k % 5);
    for (int64_t k = from; k < to + T * T; k++) base[k] = (_Float16)((k * 7 + k / 64) % 9 - 4);
    memset(c, 0x7f, sizeof c);
    const Tensor t[3] = { matrix(REF_F16, far, T, length, 64, 1), matrix(REF_F16, far, length, T, 1, 64),
        matrix(REF_F32, (unsigned char *)c, T, T, T, 1) };
    const ScalarArg at = scalar_arg_whole("start", REF_I64, start / 64);
    bool ok = run(emu, path, "band", t, 3, &at, true);
    for (int r = 0; r < T; r++)
        for (int q = 0; q < T; q++) {
            float s = 0;
            for (int64_t k = from; k < to; k++) s += (float)base[r * 64 + k] * (float)base[q * 64 + k];
            ok = ok && c[r][q] == s;
        }
    snprintf(what, sizeof what, "columns from %lld of %lld%s", (long long)start, (long long)length,
        roles ? ", by TMA" : "");
    expect(ok && exec_emu_roles(emu) == roles, what);
}

/* A result put into columns so far to the right, or so far outside of the tensor. */
static void test_put(
    void *emu, const char *path, unsigned char *far, int64_t length, int64_t start, bool roles)
{
    enum { T = 64, K = 128 };
    char what[200];
    static _Alignas(256) _Float16 a[T * K], b[K * T];
    _Float16 *to = (_Float16 *)far;
    int64_t columns = start < 0 || start >= length ? 0 : start + T > length ? length - start : T;
    for (int k = 0; k < T * K; k++) {
        a[k] = (_Float16)(k % 3 - 1);
        b[k] = (_Float16)(k % 5 - 2);
    }
    /* The correct address, and the address that results when upper bits are lost. */
    const int64_t seen[] = { 0, start % ((int64_t)1 << 32) & 0x7fffffff, columns ? start : 0 };
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < T * T; k++)
            if (seen[i] + k < FAR) to[seen[i] + k] = 99;
    const Tensor t[3] = { matrix(REF_F16, (unsigned char *)a, T, K, K, 1),
        matrix(REF_F16, (unsigned char *)b, K, T, T, 1), matrix(REF_F16, far, T, length, 64, 1) };
    const ScalarArg at = scalar_arg_whole("start", REF_I64, start / 64);
    bool ok = run(emu, path, "put", t, 3, &at, true);
    for (int r = 0; r < T; r++)
        for (int q = 0; q < T; q++) {
            float s = 0;
            for (int k = 0; k < K; k++) s += (float)a[r * K + k] * (float)b[k * T + q];
            if (q < columns) ok = ok && (float)to[start + r * 64 + q] == (float)(_Float16)s;
        }
    for (int i = 0; i < 2 && !columns; i++)
        for (int k = 0; k < T * T; k++) ok = ok && (seen[i] + k >= FAR || to[seen[i] + k] == 99);
    snprintf(what, sizeof what, "a result at column %lld of %lld%s", (long long)start, (long long)length,
        roles ? ", by TMA" : "");
    expect(ok && exec_emu_roles(emu) == roles, what);
}

static void test_bands(const char *path, unsigned char *far)
{
    char why[300];
    const int64_t most = INT32_MAX / 64 * 64, longer = ((int64_t)1 << 31) + 128, turn = (int64_t)1 << 32;
    void *emu = exec_emu_open_once("one_sm_90a", why, sizeof why);
    if (!emu) {
        expect(false, why);
        return;
    }
    test_band(emu, path, far, 4096, 128, true);
    test_band(emu, path, far, 4096, turn, true);
    test_band(emu, path, far, 4096, 64 - turn, true);
    test_band(emu, path, far, most, most - 128, true);
    test_band(emu, path, far, most, turn + 64, true);
    test_band(emu, path, far, longer, longer - 192, false);
    test_band(emu, path, far, longer, turn, false);
    test_put(emu, path, far, 4096, 192, true);
    test_put(emu, path, far, 4096, turn + 64, true);
    test_put(emu, path, far, most, most - 64, true);
    test_put(emu, path, far, longer, longer - 64, false);
    test_put(emu, path, far, longer, turn + 128, false);
    exec_emu_close(emu);
}

int main(void)
{
    char why[300], path[] = "/tmp/tile-far-XXXXXX";
    size_t bytes = (size_t)(2 * FAR * 4) + ((size_t)1 << 20);
    unsigned char *far =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *emu = exec_emu_open_once("one_sm_80", why, sizeof why);
    int file = mkstemp(path);
    if (far == MAP_FAILED || !emu || file < 0)
        return printf("SKIP: %s\n", far == MAP_FAILED ? "no 17 GB of addresses" : why), SKIP;
    if (write(file, kernels, sizeof kernels - 1) != sizeof kernels - 1) return perror(path), 1;
    close(file);
    for (int passes = 0; passes < 2; passes++) {
        test_rows(emu, path, far, passes);
        test_product(emu, path, far, passes);
        test_tail(emu, path, far, passes);
    }
    exec_emu_close(emu);
    test_bands(path, far);
    unlink(path);
    munmap(far, bytes);
    return failures > 0;
}
