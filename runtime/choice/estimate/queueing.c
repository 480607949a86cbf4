/* queueing.c: of estimates: how many customers keep a server busy. */
#include "runtime/choice/cost/cost.h"
#include <math.h>

/* Rows that are held while they are reduced: each CTA asks for its part, waits, meets the others and stores,
 * and only in the first and last of these does memory work for it. The part of the time in which some CTA of
 * a multiprocessor has memory at work is that of a closed queueing network of `k` customers with two servers
 * (mean value analysis): `serve` is the time of a CTA's bytes at the multiprocessor's share of memory,
 * `start` that in which a CTA of a cluster begins, one at a time, `rest` everything else that a CTA does. */
double cost_memory_at_work(double k, double serve, double start, double rest)
{
    double queue = 0, line = 0, part = 1;
    for (int i = 1; i <= (int)k; i++) {
        double there = serve * (1 + queue), begin = start * (1 + line), each = i / (rest + there + begin);
        queue = each * there;
        line = each * begin;
        part = each * serve;
    }
    return fmin(part, 1);
}
