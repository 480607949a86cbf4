/* faults.h: faults of a launch that need no wrong value to be seen. It follows which program stores and reads
 * which element of the out and inout tensors of one launch, and reports
 *
 *   - elements of `out` tensors that no program stores;
 *   - an element that two programs store, with equal values too;
 *   - an element that one program reads and another one stores.
 *
 * Atomics store an element, but conflict with nothing. Two programs do not conflict where the earlier one has
 * run a releasing and the later one an acquiring atomic. The order in which programs run decides neither what
 * is reported nor how often, only which two of more than two programs are named.
 *
 * Memory: a bit for each element of the memory that a tensor spans, and 8 bytes (24 for inout) for each
 * element of up to FAULTS_MOST_CELLS elements in all. What is beyond a limit is reported as not followed. */
#pragma once
#include "ir/abi.h"
#include "ir/support/diag.h"

#define FAULTS_MOST_BITS ((int64_t)1 << 33)  /* elements of all tensors whose stores are recorded */
#define FAULTS_MOST_CELLS ((int64_t)1 << 25) /* elements of all tensors whose programs are recorded */
#define FAULTS_MOST_PROGRAMS ((int64_t)1 << 26)

/* A tensor of the launch, by the number of its parameter. */
typedef struct FaultTensor {
    const char *name;
    Loc loc;
    bool followed; /* it is given, and an out or inout tensor */
    bool out;
    DType dtype;
    int rank;
    int64_t shape[TILE_MAX_RANK], stride[TILE_MAX_RANK]; /* in elements */
    const void *data;                                    /* of element [0, 0, ...] */
} FaultTensor;

/* The grid of the launch. floor: an extent that is written `numerator / divisor`, which rounds down. */
typedef struct FaultGrid {
    int rank;
    int64_t extent[3];
    struct {
        Loc loc;
        const char *numerator, *divisor; /* NULL: the extent is written in another way */
    } floor[3];
} FaultGrid;

typedef struct Faults Faults;

/* Starts to follow a launch of that many programs. The tensors are copied. NULL: out of memory. */
Faults *faults_new(const FaultTensor *, int n, int64_t programs);
void faults_free(Faults *); /* or NULL */
/* Where accesses go, from any number of threads. The sites must live as long as the Faults. */
AccessSink *faults_sink(Faults *);
/* Adds a warning for each fault found. All programs of the launch have ended. */
void faults_report(const Faults *, const FaultGrid *, Session *);
