/* hip_need.h: what the assembly of an emitted HIP kernel must show, from its kernel IR and arithmetic alone.
 */
#pragma once
#include "tests/emit/hip_report.h"

enum { HIP_NEED_BLOCKS = 64 };
typedef struct HipNeed {
    const Target *t;
    const Func *f;
    int64_t warps;
    /* The matrix instructions of a wave in one iteration of each block that has products. */
    int n;
    const Block *block[HIP_NEED_BLOCKS];
    int64_t count[HIP_NEED_BLOCKS];
    int depth;      /* iterations that copies to LDS stay in flight */
    bool pipelined; /* loads of a loop run ahead in whole words, */
    bool packed;    /* or in half words, which are packed as they come */
    bool adds;      /* a loop adds to memory: its barriers wait for all loads that were issued before */
} HipNeed;

void hip_need(HipNeed *, const Func *, const Target *, int64_t warps);
/* The first requirement that the report does not meet, or NULL: LDS as planned; with `limits` also no
 * scratch, no spills, registers and waves as planned, and in the loop of products as many matrix instructions
 * as the arithmetic needs and no wait ahead of them for what a later step loads, where the plan loads ahead
 * at all. budget: the registers of a lane. */
const char *hip_need_unmet(const HipNeed *, const HipReport *, const GpuCode *, int budget, bool limits);
