/* measure.h: the one way in which times are summed up: medians with their spread, and whether the machine was
 * quiet enough for them. The tuner, bench and its plots use it. */
#pragma once
#include "ir/support/arena.h"

/* Times of equal launches, in milliseconds. */
typedef struct Measured {
    int n;
    double median, least, most;
    double low, high; /* the quartiles: half of the times lie between them */
} Measured;

/* Sorts ms[0 .. n), n at least 1. */
Measured measure_summary(double *ms, int n);
double measure_median(double *ms, int n);
/* (high - low) / median. */
double measure_spread(const Measured *);
/* The time as text, with as many digits as the spread allows: "1.234", "1.23", "1.2". */
const char *measure_text(Arena *, double ms, double spread);

/* How busy the machine is. */
typedef struct MachineLoad {
    double load; /* processes that want to run, the mean of the last minute; below 0: not known */
    int processors;
} MachineLoad;
MachineLoad measure_load(void);
/* NULL, or one line that says why times of this machine vary: other processes where `on_cpu` (half of the
 * processors or more are busy), or a spread of more than a tenth in the worst of the results. */
const char *measure_noise(Arena *, MachineLoad before, bool on_cpu, double worst_spread);
