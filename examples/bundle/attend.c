/* attend.c: attention on whatever device there is: a GPU that the bundle has code for, else the CPU. The
 * launcher and tile_device come from attention.h, which tilec wrote; the code from attention.c and
 * attention.cpu.o beside it. No compiler, no libtile and no CUDA to build or start it.
 *
 *     ./attend [cpu|cuda|hip] */
#include "attention.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { B = 1, H = 4, N = 512, D = 64, COUNT = B * H * N * D };

/* f16 to float, for finite numbers. */
static double value(uint16_t bits)
{
    int exponent = bits >> 10 & 31;
    double m = exponent ? 1024 + (bits & 1023) : bits & 1023;
    return (bits >> 15 ? -1 : 1) * ldexp(m, (exponent ? exponent : 1) - 25);
}

/* Small numbers in f16: n / 64 for n in -32 .. 31. */
static uint16_t number(unsigned seed)
{
    int n = (int)((seed * 2654435761u >> 16) % 64) - 32, magnitude = n < 0 ? -n : n, exponent = 0;
    if (!n) return 0;
    while (magnitude >> (exponent + 1)) exponent++;
    return (
        uint16_t)((n < 0 ? 0x8000 : 0) | (exponent - 6 + 15) << 10 | ((magnitude << 10 >> exponent) & 1023));
}

/* One row of the result in double precision. */
static double worst_of_row(
    const uint16_t *q, const uint16_t *k, const uint16_t *v, const uint16_t *o, int row, double scale)
{
    double p[N], sum = 0, worst = 0;
    for (int j = 0; j <= row; j++) {
        double s = 0;
        for (int d = 0; d < D; d++) s += value(q[row * D + d]) * value(k[j * D + d]);
        sum += p[j] = exp(s * scale);
    }
    for (int d = 0; d < D; d++) {
        double x = 0;
        for (int j = 0; j <= row; j++) x += p[j] / sum * value(v[j * D + d]);
        worst = fmax(worst, fabs(x - value(o[row * D + d])));
    }
    return worst;
}

static int fail(const char *what) { return fprintf(stderr, "%s: %s\n", what, attention_error()), 1; }

int main(int argc, char **argv)
{
    int kind = argc < 2                   ? TILE_ON_ANY
               : !strcmp(argv[1], "cuda") ? TILE_ON_CUDA
               : !strcmp(argv[1], "hip")  ? TILE_ON_HIP
                                          : TILE_ON_CPU;
    const int64_t shape[4] = { B, H, N, D };
    static uint16_t host[4][COUNT]; /* Q, K, V, O */
    tile_device device;
    tile_view t[4];
    if (attention_open_device(kind, 0, &device)) return fail("device");
    for (int i = 0; i < 4; i++) {
        void *memory;
        for (int n = 0; n < COUNT; n++) host[i][n] = i < 3 ? number((unsigned)(COUNT * i + n)) : 0;
        if (device.alloc(&device, sizeof host[i], &memory) ||
            device.copy(&device, memory, host[i], sizeof host[i]))
            return fail("memory");
        t[i] = (tile_view){ memory, shape, NULL };
    }
    const tile_threads all = { 0, NULL, NULL };
    device.queue.threads = &all; /* on the CPU; GPUs do not look at it */
    if (attention(t[0], t[1], t[2], t[3], 0.125f, true, &device.queue)) return fail("attention");
    if (device.copy(&device, host[3], t[3].data, sizeof host[3])) return fail("attention");

    double worst = 0;
    for (int h = 0; h < B * H; h++)
        for (int row = 0; row < N; row += 37)
            worst = fmax(worst, worst_of_row(host[0] + h * N * D, host[1] + h * N * D, host[2] + h * N * D,
                                    host[3] + h * N * D, row, 0.125));
    printf("%s (%s): off by at most %.1e\n", device.name, device.target, worst);
    for (int i = 0; i < 4; i++) device.release(&device, t[i].data);
    return worst > 1e-3;
}
