/* faults_impl.h: what faults.c and faults_report.c share. */
#pragma once
#include "ir/interp/faults.h"
#include "ir/ir.h"
#include <stdatomic.h>

/* A cell: the program + 1 in the low 32 bits (0: none), the number of the site above them. The cell of the
 * program that stores also has a flag for each kind of conflict that was counted. */
enum { FAULT_SITES = 4096, CELL_SITE = 32 };
#define CELL_STORE_SEEN ((uint64_t)1 << 62)
#define CELL_READ_SEEN ((uint64_t)1 << 63)
static inline int64_t cell_program(uint64_t cell) { return (int64_t)(uint32_t)cell; }
static inline uint32_t cell_site(uint64_t cell) { return (uint32_t)(cell >> CELL_SITE) % FAULT_SITES; }

enum { SYNC_ACQUIRED = 1, SYNC_RELEASED = 2 };

typedef struct FaultConflict {
    int64_t count, at; /* elements, and the first of them */
    uint64_t a, b;     /* the cells of the two programs; of a read: who reads, who stores */
} FaultConflict;

typedef struct FaultTrack {
    FaultTensor tensor;
    int64_t lowest, cells; /* the memory that the tensor spans, in elements from its data */
    /* By element of the memory; NULL: not followed. */
    _Atomic uint64_t *stored, *writer, *reader[2];
    FaultConflict store, read;
} FaultTrack;

struct Faults {
    AccessSink sink;
    int64_t programs;
    _Atomic unsigned char *sync; /* by program: SYNC_ bits; NULL: there are too many */
    const AccessSite *_Atomic sites[FAULT_SITES];
    atomic_flag busy; /* guards the conflicts */
    int n;
    FaultTrack tracks[];
};
