/* profile.h: `--profile=trace.json`: every launch that was timed, and what the hardware counts in one like
 * them, in the form that Chrome and Perfetto show. */
#pragma once
#include "tools/tilec/bench/counters.h"
#include "tools/tilec/file.h"

typedef struct ProfileLaunch {
    const char *name; /* "gemm: tiled, M=N=512" */
    int64_t begin;    /* clock_ns, on the host */
    double ms;        /* between the device's events */
} ProfileLaunch;

/* The counters of one launch, which stand for launches [first, end). */
typedef struct ProfileCounts {
    size_t first, end;
    const CounterValue *values;
    size_t n;
} ProfileCounts;

typedef struct Profile {
    VEC(ProfileLaunch) launches;
    VEC(ProfileCounts) counts;
    const char *name;   /* of the launches to come */
    Counters *counters; /* NULL: there are none, or not yet */
    bool without;       /* and that was said */
} Profile;

/* A line for each name, a bar for each launch; times count from the first one. A counter has its value from
 * the first to the last launch that it stands for, and 0 otherwise. */
void profile_json(const Profile *, const char *device, Text *);
