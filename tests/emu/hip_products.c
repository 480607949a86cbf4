/* hip_products.c: hip_products DEVICE...: products of every pair of operand types at ragged extents, small
 * tiles and large ones, on each chip; the sums are exact. Every matrix instruction that the chip has a
 * wrapper for and that is ever chosen must have been run by one of them. */
#include "tests/emu/exec_emu.h"
#include "backends/hip/prelude.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { M = 33, N = 65, K = 149, SKIP = 77 };

static const struct {
    RefType a, b, sum;
    const char *precision;
} pairs[] = {
    { REF_F16, REF_F16, REF_F32 },
    { REF_BF16, REF_BF16, REF_F32 },
    { REF_F32, REF_F32, REF_F32 },
    { REF_F32, REF_F32, REF_F32, ", precision = tf32" },
    { REF_F64, REF_F64, REF_F64 },
    { REF_I8, REF_I8, REF_I32 },
    { REF_U8, REF_U8, REF_I32 },
    { REF_I8, REF_U8, REF_I32 },
    { REF_U8, REF_I8, REF_I32 },
    { REF_F8E4M3, REF_F8E4M3, REF_F32 },
    { REF_F8E5M2, REF_F8E5M2, REF_F32 },
    { REF_F8E4M3, REF_F8E5M2, REF_F32 },
    { REF_F8E5M2, REF_F8E4M3, REF_F32 },
};
static const int tiles[][3] = { { 64, 64, 32 }, { 32, 32, 16 }, { 16, 16, 16 }, { 16, 16, 32 },
    { 32, 64, 64 }, { 16, 32, 128 } }; /* the last two for 8 bits on gfx950 */
enum { PAIRS = sizeof pairs / sizeof *pairs, TILES = sizeof tiles / sizeof *tiles, DEEP = 4 };

/* Small integers, exact in every type: -3 .. 3, from 0 where there is no sign. */
static double value(RefType t, int i, int k)
{
    int x = (i * 31 + k * 17 + i * k) % 7;
    return t == REF_U8 ? x : x - 3;
}

static void fill(Tensor *t, RefType type, void *data, int rows, int cols)
{
    for (int i = 0; i < rows * cols; i++) ref_put(type, data, i, value(type, i / cols, i % cols));
    *t = (Tensor){ .type = type,
        .rank = 2,
        .shape = { rows, cols },
        .stride = { cols, 1 },
        .count = rows * cols,
        .base = data };
}

static bool product(void *emu, const char *path, int p, int t, int transposed, char *why, size_t size)
{
    static double a[M * K], b[K * N], c[M * N];
    Tensor x[3];
    Run r = { .path = path, .n_launches = 1, .passes = true };
    fill(&x[0], pairs[p].a, a, M, K);
    fill(&x[1], pairs[p].b, b, transposed ? N : K, transposed ? K : N);
    fill(&x[2], pairs[p].sum, c, M, N);
    snprintf(r.launches[0].kernel, sizeof r.launches[0].kernel, "p%d_%d_%d", p, t, transposed);
    for (int k = 0; k < 3; k++) r.launches[0].args[k].tensor = &x[k];
    r.launches[0].n_args = 3;
    if (!exec_emu_run(emu, &r, why, size)) return false;
    for (int i = 0; i < M * N; i++) {
        double want = 0;
        for (int k = 0; k < K; k++)
            want += value(pairs[p].a, i / N, k) *
                    (transposed ? value(pairs[p].b, i % N, k) : value(pairs[p].b, k, i % N));
        if (ref_get(pairs[p].sum, c, i) == want) continue;
        snprintf(
            why, size, "element [%d, %d] is %g, not %g", i / N, i % N, ref_get(pairs[p].sum, c, i), want);
        return false;
    }
    return true;
}

static void write_kernels(FILE *f)
{
    for (int p = 0; p < PAIRS; p++)
        for (int t = 0; t < TILES; t++)
            for (int transposed = 0; transposed < 2; transposed++) {
                const char *sum = ref_type_name(pairs[p].sum);
                char window[60];
                if (transposed)
                    snprintf(window, sizeof window, "j*%d +: %d, k*%d +: %d", tiles[t][1], tiles[t][1],
                        tiles[t][2], tiles[t][2]);
                else
                    snprintf(window, sizeof window, "k*%d +: %d, j*%d +: %d", tiles[t][2], tiles[t][2],
                        tiles[t][1], tiles[t][1]);
                fprintf(f,
                    "kernel p%d_%d_%d(in %s A[M, K], in %s B[%s], out %s C[M, N]) grid (cdiv(M, %d), cdiv(N, "
                    "%d)) {\n    let (i, j) = program_id();\n    var acc = zeros([%d, %d], %s);\n",
                    p, t, transposed, ref_type_name(pairs[p].a), ref_type_name(pairs[p].b),
                    transposed ? "N, K" : "K, N", sum, tiles[t][0], tiles[t][1], tiles[t][0], tiles[t][1],
                    sum);
                fprintf(f,
                    "    for k in 0 .. cdiv(K, %d) {\n        let b = load(B[%s], latency = 2);\n        acc "
                    "= mma(load(A[i*%d +: %d, k*%d +: %d], latency = 2), %s, acc%s);\n    }\n",
                    tiles[t][2], window, tiles[t][0], tiles[t][0], tiles[t][2], tiles[t][2],
                    transposed ? "transpose(b)" : "b", pairs[p].precision ? pairs[p].precision : "");
                fprintf(f, "    store(C[i*%d +: %d, j*%d +: %d], acc);\n}\n", tiles[t][0], tiles[t][0],
                    tiles[t][1], tiles[t][1]);
            }
}

/* The wrappers that a chip has: those whose text the back end would give. */
static int check_seen(const char *device, char seen[][40], int n)
{
    static const char *const names[] = { "mfma_32x32x8_f16", "mfma_16x16x16_f16", "mfma_32x32x8_bf16",
        "mfma_16x16x16_bf16", "mfma_32x32x16_f16", "mfma_16x16x32_f16", "mfma_32x32x16_bf16",
        "mfma_16x16x32_bf16", "mfma_32x32x2_f32", "mfma_16x16x4_f32", "mfma_32x32x4_xf32",
        "mfma_16x16x8_xf32", "mfma_16x16x4_f64", "mfma_32x32x8_i8", "mfma_16x16x16_i8", "mfma_32x32x16_i8",
        "mfma_16x16x32_i8", "mfma_32x32x16_f8e4m3", "mfma_32x32x16_f8e5m2", "mfma_32x32x16_f8e4m3_f8e5m2",
        "mfma_32x32x16_f8e5m2_f8e4m3", "mfma_16x16x32_f8e4m3", "mfma_16x16x32_f8e5m2",
        "mfma_16x16x32_f8e4m3_f8e5m2", "mfma_16x16x32_f8e5m2_f8e4m3", "mfma_32x32x32_i8", "mfma_16x16x64_i8",
        "mfma_32x32x64_f8e4m3", "mfma_32x32x64_f8e5m2", "mfma_32x32x64_f8e4m3_f8e5m2",
        "mfma_32x32x64_f8e5m2_f8e4m3", "mfma_16x16x128_f8e4m3", "mfma_16x16x128_f8e5m2",
        "mfma_16x16x128_f8e4m3_f8e5m2", "mfma_16x16x128_f8e5m2_f8e4m3", "wmma_16x16x16_f16",
        "wmma_16x16x16_bf16", "wmma_16x16x16_i8", "wmma_16x16x16_u8", "wmma_16x16x16_i8_u8",
        "wmma_16x16x16_u8_i8" };
    char full[40];
    volatile int missing = 0, have = 0;
    Session s;
    snprintf(full, sizeof full, "hip:%s", device + 4);
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) return 1;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        bool used = false;
        if (!hip_matrix(&s, target_find(full), names[k])) continue;
        have++;
        for (int i = 0; i < n; i++) used |= !strcmp(seen[i], names[k]);
        if (!used) {
            printf("FAIL %s: no product ran %s\n", device, names[k]);
            missing++;
        }
    }
    session_free(&s);
    printf("%s: %d of %d matrix instructions ran\n", device, have - missing, have);
    return missing + !have;
}

static int collect(const char *text, char seen[][40], int n)
{
    for (const char *p = text; p && (p = strpbrk(p, "mw")); p++) {
        size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if ((strncmp(p, "mfma_", 5) && strncmp(p, "wmma_", 5)) || p[len] != '(' || len >= 40 ||
            (p > text && p[-1] != ' '))
            continue;
        int k = 0;
        while (k < n && (strncmp(seen[k], p, len) || seen[k][len])) k++;
        if (k == n && n < 64) snprintf(seen[n++], 40, "%.*s", (int)len, p);
    }
    return n;
}

int main(int argc, char **argv)
{
    char why[2000] = "", path[] = "/tmp/tile-products-XXXXXX";
    int bad = 0, ran = 0, file = mkstemp(path);
    FILE *f = file < 0 ? NULL : fdopen(file, "w");
    if (!f) return perror(path), 1;
    write_kernels(f);
    fclose(f);
    for (int d = 1; d < argc; d++) {
        static char seen[64][40];
        int n = 0;
        void *emu = exec_emu_open_once(argv[d], why, sizeof why);
        if (!emu) {
            printf("SKIP: %s\n", why);
            unlink(path);
            return SKIP;
        }
        for (int p = 0; p < PAIRS; p++)
            for (int t = 0; t < TILES; t++) {
                if (t >= DEEP && (!strstr(argv[d], "gfx950") || ref_type_size(pairs[p].a) != 1)) continue;
                bool ok = product(emu, path, p, t, (p + t) % 2, why, sizeof why);
                if (!ok) {
                    printf("FAIL %s: %s x %s, tiles of %d x %d x %d: %s\n", argv[d],
                        ref_type_name(pairs[p].a), ref_type_name(pairs[p].b), tiles[t][0], tiles[t][1],
                        tiles[t][2], why);
                    bad++;
                }
                ran++;
                n = collect(exec_emu_text(emu), seen, n);
            }
        bad += check_seen(argv[d], seen, n);
        exec_emu_close(emu);
    }
    unlink(path);
    printf("%d products, %d wrong\n", ran, bad);
    return bad != 0;
}
