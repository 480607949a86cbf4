/* bench.h: what the rows of the CPU benchmark share. */
#pragma once
#include "tile/tile.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct Bench {
    tile_context *context;
    const char *kernels; /* folder of the .tile files */
    const char *folder;  /* of torch_peer.py and sort_rows.tile */
    int threads;
    double seconds;     /* least time spent on one figure */
    const char *only;   /* run rows whose name holds this text; NULL: all */
    const char *consts; /* bound beside those of each row; NULL: none */
    const char *python; /* that may have PyTorch */
    int failures, short_of;
} Bench;

typedef void BenchFn(void *);

double bench_now(void); /* seconds */

/* The least times of one call, in seconds, as others use the machine too; and the median of peer / ours round
 * by round (more than 1: we are faster). */
typedef struct BenchPair {
    double ours, peer, ratio;
} BenchPair;
/* Ours and `peer` (which gives the seconds of one call; NULL: none) in turn: at least 5 times and b->seconds.
 */
BenchPair bench_pair(const Bench *, BenchFn *ours, void *, double (*peer)(void *), void *peer_arg);
typedef struct BenchCall {
    BenchFn *fn;
    void *arg;
} BenchCall;
/* The peer of bench_pair when it is a function of this process: user data is a BenchCall. */
double bench_call(void *);
bool bench_wanted(const Bench *, const char *row);
/* Whether rows that begin so may be wanted, for which a peer is opened. */
bool bench_wants_some(const Bench *, const char *beginning);

/* A kernel and the arguments of one launch. */
typedef struct BenchLaunch {
    tile_kernel *kernel;
    tile_tensor tensors[8];
    int64_t shapes[8][2], strides[8][2]; /* of bench_matrix */
    tile_arg args[8];
    int n;
} BenchLaunch;

/* Loads kernel `name` of <folder>/<file>.tile (of <file>.tile if that has a /) with consts "TM=64 TN=64
 * ...". Reports to stderr and counts a failure: false. */
bool bench_load(Bench *, const char *file, const char *name, const char *consts, BenchLaunch *);
void bench_tensor(BenchLaunch *, void *data, int rank, const int64_t *shape);
/* An argument of `rows` x `columns`; `turned`: it lies transposed in memory, a column after the other. */
void bench_matrix(BenchLaunch *, void *data, int64_t rows, int64_t columns, bool turned);
void bench_scalar(BenchLaunch *, double);
/* Launches once and reports an error: false. */
bool bench_try(Bench *, BenchLaunch *);
void bench_launch(void *); /* BenchFn of a BenchLaunch */
void bench_free(BenchLaunch *);

/* A row: amount / time of both, their ratio, and the ratio that must be reached. */
void bench_row(
    Bench *, const char *row, const char *unit, double amount, BenchPair, const char *peer_name, double must);
/* A row without a peer: a figure that must be at most `most`. */
void bench_limit(Bench *, const char *row, const char *unit, double figure, double most);

/* Small pseudo-random values, as f32, f16, bf16, i8 or i32; and back, to compare. */
void *bench_random(tile_dtype, int64_t n, uint64_t seed);
double bench_value(tile_dtype, const void *array, int64_t i);

void bench_products(Bench *);
void bench_attention(Bench *);
void bench_convolutions(Bench *);
void bench_sorting(Bench *);
void bench_streams(Bench *);
void bench_compile(Bench *);
void bench_overhead(Bench *);

/* peers */
bool peer_sgemm_open(int threads); /* OpenBLAS by dlopen; false: not installed */
/* `turned_a`, `turned_b`: the input lies transposed in memory. */
void peer_sgemm(
    int64_t m, int64_t n, int64_t k, const float *a, bool turned_a, const float *b, bool turned_b, float *c);
const char *peer_sgemm_name(void);
void peer_copy(void *dst, const void *src, size_t bytes, int threads); /* memcpy, shared among threads */
void peer_read(const void *src, size_t bytes, int threads); /* reads every byte, shared among threads */
/* PyTorch in a process of its own, by torch_peer.py in the folder. False, and a line to stderr: it does not
 * start. */
bool peer_torch_open(const Bench *);
double peer_torch(void *row); /* seconds of one call of a row that torch_peer.py names; 0: it cannot */
const char *peer_torch_name(void);
void peer_torch_close(void);
void peer_close(void);
