/* counters.h: hardware counters of a launch, by the library of the GPU's vendor: CUPTI's range profiler. The
 * library is looked for at run time. A launch is repeated as often as the hardware needs passes. */
#pragma once
#include "ir/support/arena.h"
#include "ir/target/target.h"

typedef struct Counters Counters;
typedef struct CounterValue {
    const char *name, *unit; /* "dram__bytes_read.sum", "byte": the vendor's */
    double value;
} CounterValue;

/* What is counted. Both return 0, or a code that ends the counting. `prepare` is not counted. */
typedef struct CountedLaunch {
    int (*prepare)(void *), (*launch)(void *); /* launch: and waits for its end */
    void *user;
} CountedLaunch;

/* The counters of a device of the driver. NULL: there are none here, and *why says so in one line. All memory
 * is of the arena; counters_close gives back what is the library's. */
Counters *counters_open(Arena *, TargetKind, int device, const char **why);
void counters_close(Counters *);
/* Counts one launch: *values (of the arena) and how many. 0: it could not be counted, and *why says so. */
size_t counters_count(Counters *, const CountedLaunch *, const CounterValue **values, const char **why);
