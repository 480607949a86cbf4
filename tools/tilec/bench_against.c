/* bench_against.c: `--against=openblas,torch`. */
#include "tools/tilec/bench.h"

int against_open(Bench *b)
{
    (void)b;
    return EXIT_OK;
}
int against_run(Bench *b, Run *r, int column, const Reference *ref, BenchRow *row) { return EXIT_OK; }
