/* profile.h: `--profile=trace.json`: every launch that was timed, in the form that Chrome and Perfetto show.
 */
#pragma once
#include "tools/tilec/file.h"

typedef struct ProfileLaunch {
    const char *name; /* "gemm: tiled, M=N=512" */
    int64_t begin;    /* clock_ns, on the host */
    double ms;        /* between the device's events */
} ProfileLaunch;

typedef struct Profile {
    VEC(ProfileLaunch) launches;
    const char *name; /* of the launches to come */
} Profile;

/* A line for each name, a bar for each launch; times count from the first one. */
void profile_json(const Profile *, const char *device, Text *);
