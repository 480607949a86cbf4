/* ref_compare.c: see ref_compare.h. */
#include "ref_compare.h"
#include <math.h>

double ref_rms(const double *x, int64_t n)
{
    double s = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i])) s += x[i] * x[i], count++;
    return count ? sqrt(s / (double)count) : 0;
}

static bool fits(RefType t, double got, double want)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want)) return got == want; /* also where a conversion of it would saturate */
    if (isinf(got) != isinf(ref_round(t, want))) {
        /* At the edge of overflow, either side may differ by one step. */
        double edge = isinf(got) ? fabs(want) : fabs(got);
        return ref_round(t, edge * (1 + 2 * ref_epsilon(t))) == INFINITY;
    }
    return !isinf(got) || signbit(got) == signbit(want);
}

RefError ref_compare(RefType out, const double *got, const double *want, int64_t n, double floor)
{
    RefError e = { .worst = -1, .first_misfit = -1 };
    double diff2 = 0, want2 = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!fits(out, got[i], want[i])) {
            if (e.misfits++ == 0) e.first_misfit = i;
            continue;
        }
        if (!isfinite(want[i]) || !isfinite(got[i])) continue;
        double d = fabs(got[i] - want[i]);
        diff2 += d * d;
        want2 += want[i] * want[i];
        double ulp = d / ref_ulp(out, fmax(fabs(want[i]), floor));
        if (e.worst < 0 || ulp > e.ulp) e.ulp = ulp, e.worst = i, e.got = got[i], e.want = want[i];
    }
    e.norm = diff2 == 0 ? 0 : want2 > 0 ? sqrt(diff2 / want2) : INFINITY;
    return e;
}
