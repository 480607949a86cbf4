/* object_call.h: a launch of a kernel of an object as a file, which exec_object.c writes and object_call.c,
 * on the machine that the object is for, reads. All words have 8 bytes. */
#pragma once
#include <stdint.h>

enum { CALL_RANK = 8, CALL_ARGS = 24 };

/* offset: bytes from the start of the memory's file to element [0, 0, ..]; below 0: no tensor, and `word` is
 * the argument. */
typedef struct CallArg {
    int64_t offset;
    uint64_t word;
    int64_t shape[CALL_RANK], strides[CALL_RANK];
} CallArg;

typedef struct Call {
    int64_t n_args;
    CallArg args[CALL_ARGS];
} Call;
