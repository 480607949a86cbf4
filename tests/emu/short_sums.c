/* short_sums.c: how matrix units add products of fp8, where they keep fewer bits than f32
 * (ir/target/sums.def).
 *
 * One step adds n products to a sum: each of the n + 1 terms is cut towards zero at 2^-13 of the unit of the
 * largest term's exponent, they are added exactly, and the result is cut to 14 bits. An exponent is that of
 * the factors: a product of significands may be up to 4. Source: MMA-Sim (arXiv 2511.10909), algorithm
 * "truncated fused dot product" with 13 fractional bits and output e8m13, which the authors compared with the
 * machines bit by bit. */
#include "tests/emu/core.h"
#include <limits.h>
#include <math.h>

enum { BITS = 13, LEAST_OF_F32 = -126 };

/* Of a number that is not zero, in a format whose smallest normal number is 2^least. */
static int exponent(float x, int least)
{
    int e;
    frexpf(x, &e);
    return e - 1 > least ? e - 1 : least;
}

static int least_of(EmuType t) { return t == EMU_E5M2 ? -14 : -6; }

static float cut(double x)
{
    if (x == 0) return 0;
    int e = exponent((float)x, LEAST_OF_F32);
    return (float)ldexp(trunc(ldexp(x, BITS - e)), e - BITS);
}

float emu_short_step(float sum, const float *a, EmuType ta, const float *b, int along_b, EmuType tb, int n)
{
    int largest = INT_MIN;
    double all = sum;
    for (int k = 0; k < n; k++) {
        all += (double)a[k] * b[k * along_b];
        if (a[k] == 0 || b[k * along_b] == 0) continue;
        int e = exponent(a[k], least_of(ta)) + exponent(b[k * along_b], least_of(tb));
        if (e > largest) largest = e;
    }
    if (!isfinite(all)) return (float)all;
    if (sum != 0 && exponent(sum, LEAST_OF_F32) > largest) largest = exponent(sum, LEAST_OF_F32);
    if (largest == INT_MIN) return 0;
    double units = trunc(ldexp(sum, BITS - largest));
    for (int k = 0; k < n; k++) units += trunc(ldexp((double)a[k] * b[k * along_b], BITS - largest));
    return cut(ldexp(units, largest - BITS));
}
