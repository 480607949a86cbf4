/* load_run.h: what test_load_arm.c gives to load_run.c: this head, the object, and the contents of each
 * tensor. The output has the contents of the tensors after the launch. */
#pragma once
#include <stdint.h>

enum { LOAD_RUN_SLOTS = 64, LOAD_RUN_TENSORS = 16 };

typedef struct LoadRun {
    char entry[64];
    int64_t programs, scratch_bytes, object_bytes, n_slots, n_tensors, tensor_bytes[LOAD_RUN_TENSORS];
    struct {
        int64_t tensor; /* its number, for its address; -1: the word */
        uint64_t word;
    } slots[LOAD_RUN_SLOTS];
} LoadRun;
