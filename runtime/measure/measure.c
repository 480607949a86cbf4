/* measure.c: see measure.h. */
#define _GNU_SOURCE
#include "runtime/measure/measure.h"
#include <sched.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{ return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

double measure_median(double *ms, int n)
{
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    return n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
}

Measured measure_summary(double *ms, int n)
{
    double median = measure_median(ms, n);
    return (Measured){ n, median, ms[0], ms[n - 1], ms[n / 4], ms[n - 1 - n / 4] };
}

double measure_spread(const Measured *m) { return m->median > 0 ? (m->high - m->low) / m->median : 0; }

const char *measure_text(Arena *a, double ms, double spread)
{
    int digits = spread > 0.1 ? 2 : spread > 0.01 ? 3 : 4, places = digits - 1;
    for (double size = ms; size >= 10 && places > 0; size /= 10) places--;
    for (double size = ms; size > 0 && size < 1 && places < 6; size *= 10) places++;
    return arena_printf(a, "%.*f", places, ms);
}

MachineLoad measure_load(void)
{
    MachineLoad m = { -1, 1 };
    cpu_set_t set;
    if (getloadavg(&m.load, 1) != 1) m.load = -1;
    if (!sched_getaffinity(0, sizeof set, &set)) m.processors = CPU_COUNT(&set);
    return m;
}

const char *measure_noise(Arena *a, MachineLoad before, bool on_cpu, double spread)
{
    bool busy = on_cpu && before.load >= 0.5 * before.processors, wide = spread > 0.1;
    if (busy && wide)
        return arena_printf(a,
            "the machine is busy (load %.1f on %d processors) and times vary by up to %.0f%%: "
            "compare results only where they differ by more",
            before.load, before.processors, 100 * spread);
    if (busy)
        return arena_printf(a, "the machine is busy: load %.1f on %d processors before the first launch",
            before.load, before.processors);
    if (wide)
        return arena_printf(
            a, "times vary by up to %.0f%%: compare results only where they differ by more", 100 * spread);
    return NULL;
}
