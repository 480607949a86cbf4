/* fake_gpu.h: a GPU driver and run-time compiler that exist in memory only. Built as two libraries,
 * libfakecuda.so with CUDA's names and libfakehip.so with HIP's; a context takes one by `driver_library` and
 * `compiler_library`. Device memory is host memory, launches and options are written down, any function can
 * be made to fail. One state a loaded library, reached through fake_state(). */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { FAKE_MAX_PARAMS = 64, FAKE_LOG = 64 };

typedef struct FakeLaunch {
    char name[64];
    unsigned grid[3], block[3], shared;
    void *stream, *context;           /* CUDA: what was current */
    int early_start;                  /* CUDA: the launch asked for programmatic stream serialization */
    uint64_t params[FAKE_MAX_PARAMS]; /* the first 8 bytes of each; n_params of them */
} FakeLaunch;

typedef struct FakeState {
    /* set by tests */
    int arch; /* 90; for HIP the digits as hex, 0x942 */
    int devices;
    int n_params; /* how many parameters to copy from a launch */
    char fail_name[64];
    /* after `fail_after` successful calls, the call `name` returns this code until it is cleared */
    int fail_after, fail_code;
    int sticky;              /* every call gives this code: a faulted device */
    char crash_arch[32];     /* the compiler ends the process for this architecture */
    int spills_at;           /* launch bounds of so many CTAs and more make a kernel spill; 0: none do */
    char spills_in[64];      /* programs with this text spill; "": none for it */
    int spills;              /* bytes */
    int used;                /* registers of a thread, and other kernels spill nothing; 0: 40, and 12 bytes */
    char compile_error[256]; /* the compiler fails with this log */
    int fails_at;            /* the number of the one compilation that fails; 0: none does */
    int capturing;
    int captured_globally; /* by another thread: forbidden is what waits or allocates, except in a relaxed
                              thread, and all that is done in the default stream */
    int supported_archs[16], n_supported;
    int refuse_binary, refuse_ptx;    /* the driver gives this code for cubins, or for PTX */
    int registers;                    /* of any function */
    int refuse_link;                  /* nvJitLink fails */
    int shared_bytes;                 /* of a block; 0: as an H100 */
    int multiprocessors;              /* CUDA; 0: four */
    void (*on_launch)(void **params); /* called by each launch */
    void (*on_compile)(void);         /* called by each compile */
    void *stream_context;             /* the context of every stream; NULL: the current one */
    /* written down */
    int versions; /* how often the compiler was asked for its own */
    int prepares; /* compilations that only warm the compiler */
    int launches, compiles, modules, live_modules, tensor_maps;
    int64_t live_memory, allocs;
    FakeLaunch last;
    char options[512], program[512]; /* options and head of the last text compiled */
    unsigned char last_map[128];
    char last_image[128]; /* head of the last image that was given to the driver */
    int links;            /* by nvJitLink */
    int calls;            /* of any driver function */
} FakeState;

typedef FakeState *FakeStateFn(void);
/* fake_block: the bytes of the block of device memory that begins at the address and was not freed; 0: there
 * is none. */
typedef size_t FakeBlockFn(const void *);
