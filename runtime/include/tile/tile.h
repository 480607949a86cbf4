/* tile.h: compile tile kernels and run them, from C11 or C++.
 *
 *     tile_context *ctx;  tile_module *mod;  tile_kernel *silu;
 *     tile_context_create(&(tile_context_desc){ .struct_size = sizeof(tile_context_desc), .target = "cpu" },
 *         &ctx);
 *     tile_module_load_file(ctx, "silu.tile", NULL, &mod);
 *     tile_kernel_create(mod, "silu", NULL, 0, &silu);
 *     tile_launch(silu, (tile_arg[]){ tile_arg_dltensor(x), tile_arg_dltensor(y) }, 2, NULL);
 *
 * General rules
 * - Every function returns a tile_status unless it says otherwise; TILE_OK is 0. The text of the last failure
 *   of a context is had with tile_context_error; what a failed compile has to say goes to the diagnostics
 *   callback first.
 * - On failure nothing is created: out-pointers receive NULL (or are left alone where the function says so).
 * - Threads: all functions may be called from any thread at the same time, on the same objects too. The
 *   exceptions are the destroy functions: no other call may be using the object then.
 * - A stack of 128 KiB suffices for every call. Calls that compile take a stack of their own from the system
 *   where less than 4 MiB is left.
 * - fork(): on the CPU a child process goes on with the objects of its parent. What is on a GPU does not
 *   survive: the first call in the child returns TILE_ERROR_UNSUPPORTED, and says so; contexts that the child
 *   opens itself work, if no ancestor has used the driver.
 * - The library prints nothing, never exits, keeps no global state but a count of the process's forks, and
 *   takes all of its memory from the context's allocator (LLVM, the GPU driver and its compilers allocate for
 *   themselves).
 * - Results do not depend on the caller's floating-point state (rounding mode, flush-to-zero, exception
 *   masks) nor on its locale. Calls compute, compile and call back in the default state and leave the
 *   caller's state as it was, flags included.
 * - "May block" is said where a call can wait for a compiler, a file, another thread or the device.
 * - Strides are in elements, sizes and pitches in bytes, times in milliseconds. Tensors are row-major unless
 *   strides say otherwise.
 * - Descriptor structs start with struct_size = sizeof(the struct); fields added later are appended and zero
 *   means the old behaviour. Enums are append-only. */
#ifndef TILE_TILE_H
#define TILE_TILE_H

#include <stddef.h>
#include <stdint.h>

/* DLPack. If you include a dlpack.h of your own, do so before this header. Without one, an ABI-compatible
 * declaration is used. */
#ifndef DLPACK_DLPACK_H_
#if defined(__has_include) && !defined(TILE_NO_SYSTEM_DLPACK)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif
#endif
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
typedef enum {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLCUDAManaged = 13
} DLDeviceType;
typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;
typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 } DLDataTypeCode;
typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TILE_VERSION_MAJOR 0
#define TILE_VERSION_MINOR 2
#define TILE_VERSION_PATCH 0
/* 10000 * major + 100 * minor + patch, for #if. */
#define TILE_VERSION (TILE_VERSION_MAJOR * 10000 + TILE_VERSION_MINOR * 100 + TILE_VERSION_PATCH)

#ifndef TILE_API
#define TILE_API __attribute__((visibility("default")))
#endif

typedef struct tile_context tile_context; /* one device: driver, allocator, cache, last error */
typedef struct tile_module tile_module;   /* one .tile source with its imports, parsed and checked */
typedef struct tile_kernel
    tile_kernel; /* a kernel with some or all of its consts bound; holds compiled variants */
typedef struct tile_compile tile_compile; /* a compilation under way in another thread */

typedef enum tile_status {
    TILE_OK = 0,
    TILE_ERROR_INVALID_ARGUMENT = 1, /* a null pointer, a wrong count, a descriptor of impossible size */
    TILE_ERROR_OUT_OF_MEMORY = 2,    /* the allocator or the device had none left */
    TILE_ERROR_IO = 3,               /* a file could not be read or written */
    TILE_ERROR_COMPILE = 4,          /* the source has errors, or a specialization does not compile */
    TILE_ERROR_NOT_FOUND = 5,        /* no kernel, parameter or configuration of that name */
    TILE_ERROR_UNSUPPORTED = 6,      /* this build, device or driver cannot do it */
    TILE_ERROR_NO_DEVICE = 7,        /* no driver library, or no such device */
    TILE_ERROR_SHAPE = 8,   /* rank, extents or strides do not fit the kernel, or disagree among arguments */
    TILE_ERROR_DTYPE = 9,   /* an element type or scalar kind does not fit the kernel */
    TILE_ERROR_DEVICE = 10, /* a tensor lies on another device */
    TILE_ERROR_ALIGNMENT = 11, /* a base address is no multiple of its element size */
    TILE_ERROR_OVERLAP = 12,   /* an out or inout tensor provably overlaps another argument */
    TILE_ERROR_GRID = 13,      /* too many programs */
    TILE_ERROR_REMAP = 14,     /* the kernel's remap is no permutation of this grid */
    TILE_ERROR_WORKSPACE = 15, /* the kernel needs a larger workspace than given */
    TILE_ERROR_RESOURCES = 16, /* too much shared memory or too many registers for the device */
    TILE_ERROR_DRIVER = 17,    /* a call of the GPU driver or its compiler failed; the text has its words */
    TILE_ERROR_DEVICE_FAULT =
        18, /* earlier work faulted on the device (such as an illegal address); the device context is lost */
    TILE_ERROR_CHECK = 19,    /* a check of a checked kernel failed: assert, gather range, NaN store */
    TILE_PENDING = 20,        /* not an error: asynchronous work is not done yet */
    TILE_ERROR_INTERNAL = 21, /* an error of this library: please report it */
    TILE_ERROR_SEALED = 22,   /* the context is sealed, and the call would have to compile or to search */
} tile_status;

typedef enum tile_dtype {
    TILE_NONE = 0,
    TILE_BOOL = 1,
    TILE_I8 = 2,
    TILE_I16 = 3,
    TILE_I32 = 4,
    TILE_I64 = 5,
    TILE_U8 = 6,
    TILE_U16 = 7,
    TILE_U32 = 8,
    TILE_U64 = 9,
    TILE_F8E4M3 = 10,
    TILE_F8E5M2 = 11,
    TILE_F16 = 12,
    TILE_BF16 = 13,
    TILE_F32 = 14,
    TILE_F64 = 15,
    TILE_INDEX = 16, /* of scalar parameters: 64-bit signed */
} tile_dtype;

/* The version of the library in use, as TILE_VERSION. Never fails. */
TILE_API int tile_version(void);
/* "TILE_ERROR_SHAPE" and so on; "unknown status" for a number that is none. Constant text. */
TILE_API const char *tile_status_name(tile_status);
/* The words of the language, each followed by a space, for programs that highlight or complete `.tile` text.
 * Constant text; NULL for a kind that is none. */
typedef enum tile_word_kind {
    TILE_WORDS_KEYWORDS = 0,
    TILE_WORDS_TYPES = 1,
    TILE_WORDS_FUNCTIONS = 2,
    TILE_WORDS_HINTS = 3
} tile_word_kind;
TILE_API const char *tile_language_words(tile_word_kind);
/* "f16" and so on, "none" for TILE_NONE or a number that is none. Constant text. */
TILE_API const char *tile_dtype_name(tile_dtype);
/* Bytes of one element, 0 for TILE_NONE. */
TILE_API size_t tile_dtype_size(tile_dtype);

/* --- context ----------------------------------------------------------------------------------------- */

/* The caller's allocator. realloc(user, NULL, 0, n) allocates n bytes aligned for any type; realloc(user, p,
 * old, n) resizes; realloc(user, p, old, 0) frees and returns NULL. NULL means out of memory, a freeing or
 * shrinking call cannot fail. Called from any thread. */
typedef struct tile_allocator {
    void *(*realloc)(void *user, void *ptr, size_t old_size, size_t new_size);
    void *user;
} tile_allocator;

typedef enum tile_severity {
    TILE_SEVERITY_ERROR = 0,
    TILE_SEVERITY_WARNING = 1,
    TILE_SEVERITY_PERFORMANCE = 2, /* what was not optimized, why, and what would mend it */
    TILE_SEVERITY_NOTE = 3,        /* belongs to the diagnostic before it */
    TILE_SEVERITY_DEBUG =
        4, /* output of TILE_DEBUG: dumps, timings, entries of the disk cache that are ignored */
    TILE_SEVERITY_PRINT = 5, /* a line that a kernel's print wrote on the CPU; from the threads of the launch,
                                before it returns */
} tile_severity;

/* One diagnostic. All text is valid during the callback only. */
typedef struct tile_diagnostic {
    size_t struct_size;
    tile_severity severity;
    const char *file;         /* name of the source, "" when it has no place in one */
    int line, column;         /* from 1, in bytes; 0, 0 when it has no place */
    int end_line, end_column; /* one past the span */
    const char *message;      /* one line, without place and severity */
    const char *rendered;     /* as a compiler prints it: place, source line, caret; newline at the end */
    const char *kernel; /* kernel and specialization being compiled, "attention<D=64, CAUSAL=true>", or "" */
} tile_diagnostic;
typedef void tile_diagnostic_fn(void *user, const tile_diagnostic *);

enum {
    TILE_CONTEXT_CHECKED =
        1, /* kernels check asserts, gather ranges and NaN stores; launches then wait for the result. On the
              CPU they also give warnings of outputs that are not stored and of programs that conflict */
    TILE_CONTEXT_NO_CACHE = 2,   /* neither read nor write the disk cache */
    TILE_CONTEXT_DEBUG_INFO = 4, /* line tables in compiled code, so that debuggers stop on lines of the .tile
                                    file; on the CPU variables too */
    TILE_CONTEXT_PRINT =
        8, /* print in kernels, as CHECKED and DEBUG_INFO do too; else it is compiled out. On the CPU lines go
              to on_diagnostic; a GPU's driver writes them to the process's standard output */
    TILE_CONTEXT_AS_DECLARED =
        16, /* launches for which no table speaks take a kernel's declared defaults, if those fit the device,
               instead of what estimates say is fastest among its `tune` block (docs/tuning.md) */
    TILE_CONTEXT_EARLY_START =
        32, /* CUDA, sm_90 and later: a kernel may be started while the work before it in its stream still
               runs (programmatic stream serialization); it sets itself up and waits for all of that before it
               touches memory, so results are the same whatever comes before or after. For chains of short
               kernels. Legal under graph capture; without effect elsewhere */
    TILE_CONTEXT_PINNED =
        64, /* a launch for which no table speaks takes a configuration that depends on the launch alone: its
               extents, its bindings and what its arguments promise. Without this flag, a kernel that has
               searched for 24 launches takes for a further one what it chose for extents within a twelfth of
               these. With it, each launch of new extents is searched for (GPUs; docs/tuning.md) */
};

/* A pool of threads of the caller: calls task(arg, 0) .. task(arg, n - 1), each once, in any order, at once
 * or one after the other, in whatever threads, and returns when all calls have returned. `user` is
 * run_threads_user. The calls share their work, so n calls in fewer threads take no longer than these threads
 * need. It is called from a thread that launches, and from several at once if these launch at once. */
typedef void tile_run_threads_fn(void *user, int n, void (*task)(void *arg, int i), void *arg);

typedef struct tile_context_desc {
    size_t struct_size;
    const char *target; /* "cpu", "cuda", "hip", or a full name such as "cuda:sm_80" to compile for less than
                           the device has; NULL: cuda, hip or cpu, the first that answers */
    int device;         /* ordinal among the driver's devices; 0 for the CPU */
    uint32_t flags;     /* TILE_CONTEXT_... */
    tile_allocator allocator;          /* realloc NULL: the C library's */
    tile_diagnostic_fn *on_diagnostic; /* NULL: none. Called from the thread that compiles, which may not be
                                          yours after tile_kernel_compile_async, and from a launch's for
                                          print; calls of one context never overlap */
    void *on_diagnostic_user;
    const char *cache_directory; /* NULL: $TILE_CACHE_DIR, else $XDG_CACHE_HOME/tile, else $HOME/.cache/tile;
                                    none of them: no cache */
    uint64_t cache_limit;        /* bytes kept on disk, oldest use evicted first; 0: 1 GiB */
    int opt_level;               /* 0: default (3); 1..3; -1: no optimization */
    int threads;                 /* CPU: threads of a launch, 0: all that the process may use */
    void *native_context; /* CUDA: the CUcontext to work in; NULL: the device's primary context. Kept current
                             only during calls */
    const char *driver_library;   /* path in place of libcuda.so.1 / libamdhip64.so.*; NULL: the system's */
    const char *compiler_library; /* path in place of libnvrtc.so.* / libhiprtc.so.*; NULL: the system's */
    const char *debug; /* as TILE_DEBUG: "dump:cse,time,cache"; NULL: the environment's TILE_DEBUG */
    tile_run_threads_fn
        *run_threads; /* CPU: the caller's pool of threads, for launches that are worth more than
                         one; NULL: threads of the context, which sleep between launches */
    void *run_threads_user;
    int64_t workspace_limit; /* CUDA: bytes of workspaces that the context keeps for the launches of all
                                streams; 0: 256 MiB; -1: none */
} tile_context_desc;

/* Opens a device. The descriptor and its text are copied. desc NULL: all defaults. Writes the reason of a
 * failure into error (of error_size bytes, may be NULL and 0), there being no context to ask. May block
 * (opens driver libraries, creates the device's context: 0.2-0.3 s on CUDA). TILE_ERROR_NO_DEVICE,
 * TILE_ERROR_UNSUPPORTED, TILE_ERROR_INVALID_ARGUMENT, TILE_ERROR_OUT_OF_MEMORY, TILE_ERROR_DRIVER. */
TILE_API tile_status tile_context_create_error(
    const tile_context_desc *desc, tile_context **out, char *error, size_t error_size);
/* The same without the text. */
TILE_API tile_status tile_context_create(const tile_context_desc *desc, tile_context **out);
/* Frees the context when the last module and kernel made from it are gone too. Waits for asynchronous
 * compilations. NULL is ignored. Device memory, streams and events got from it must have been freed before.
 * May block. */
TILE_API void tile_context_destroy(tile_context *);
/* Copies the text of the calling thread's last failure in this context, else that of the context's last
 * failure of any thread, into buf, cut to size - 1 characters; "" if there was none. Returns the length of
 * the whole text. buf may be NULL with size 0. A thread's own texts are kept for the four contexts in which
 * it failed last. */
TILE_API size_t tile_context_error(tile_context *, char *buf, size_t size);

typedef struct tile_device_info {
    size_t struct_size;              /* set by the caller */
    char name[128];                  /* "NVIDIA H100 80GB HBM3", "AMD EPYC ..." */
    char target[32];                 /* "cuda:sm_90a" */
    DLDevice device;                 /* what tensors must carry */
    int multiprocessors;             /* SMs, compute units; CPU: threads of a launch */
    int warp_size;                   /* 1 on the CPU */
    uint64_t memory_bytes, l2_bytes; /* 0: not known */
    uint64_t shared_bytes;           /* most that one program can have */
    int clock_khz;                   /* 0: not known */
    int driver_version;              /* as the driver counts, 0 on the CPU */
} tile_device_info;
TILE_API tile_status tile_context_device(tile_context *, tile_device_info *);

/* Waits for all work of the context's device. May block. TILE_ERROR_DEVICE_FAULT when some of it faulted. */
TILE_API tile_status tile_context_synchronize(tile_context *);

/* How far a launch on the CPU is that runs now, in another thread: its programs that are done, and all of
 * them. 0 and 0 when none runs, and on GPUs, which do not tell. Of several launches at a time: the one that
 * began last. Takes no lock and may be called from a signal handler. */
TILE_API tile_status tile_context_progress(tile_context *, int64_t *done, int64_t *total);

/* Seals the context (`sealed` not 0) or opens it again (0). In a sealed context nothing is compiled, nothing
 * is searched for and the disk cache is not read: a call that needs one of these returns TILE_ERROR_SEALED at
 * once, and tile_context_missing lists the variant. That holds for launches, and for tile_kernel_compile,
 * _compile_async, _prepare, _workspace, _variant and tile_kernel_tune. A call that compiles already goes on.
 * Without TILE_CONTEXT_PINNED a launch of a sealed context for whose extents nothing was chosen takes what
 * was chosen for extents within a twelfth of these, if there is such a choice. Opening the context again
 * empties the list. Does not block. TILE_ERROR_INVALID_ARGUMENT: the context is NULL. */
TILE_API tile_status tile_context_seal(tile_context *, int sealed);
/* Copies the list of variants that the sealed context refused into buf, cut to size - 1 characters: a line
 * for each, in the order in which they were asked for, each once, such as
 *     softmax<T=f32, N=777>; X: aligned 16, unit stride on axis 1; Y: aligned 16, unit stride on axis 1
 * and "..." as a last line where there were more than 256. "" if none was refused. Returns the length of the
 * whole text. buf may be NULL with size 0. */
TILE_API size_t tile_context_missing(tile_context *, char *buf, size_t size);

/* --- module ------------------------------------------------------------------------------------------ */

typedef struct tile_module_desc {
    size_t struct_size;
    const char *const *import_directories;
    size_t n_import_directories; /* searched after the importing file's own folder */
    const char *tune_file; /* table written by `tilec tune`; NULL: <path without .tile>.tune where a file of
                              that name lies beside a module loaded from a file; "" : none */
} tile_module_desc;

/* Reads, parses and checks a .tile file and what it imports. desc NULL: defaults. Everything is copied. May
 * block (files). TILE_ERROR_IO, TILE_ERROR_COMPILE (diagnostics tell where), TILE_ERROR_OUT_OF_MEMORY. */
TILE_API tile_status tile_module_load_file(
    tile_context *, const char *path, const tile_module_desc *desc, tile_module **out);
/* The same from memory. `name` stands in diagnostics and, if it has a folder part, is where imports are
 * looked up. */
TILE_API tile_status tile_module_load_memory(tile_context *, const char *name, const char *text,
    size_t length, const tile_module_desc *desc, tile_module **out);
/* Gives the module up; kernels made from it stay valid. NULL is ignored. */
TILE_API void tile_module_destroy(tile_module *);
/* Loads a tuning table (JSON, written by `tilec tune`), replacing the one loaded before. Kernels created from
 * then on use it. TILE_ERROR_IO, TILE_ERROR_COMPILE (no such table, or of another format: the text says
 * where). */
TILE_API tile_status tile_module_load_tune(tile_module *, const char *path);
/* Number of kernels, and the name of each in source order (NULL past the end). The text lives as long as the
 * module. */
TILE_API size_t tile_module_kernel_count(const tile_module *);
TILE_API const char *tile_module_kernel_name(const tile_module *, size_t i);

typedef enum tile_param_kind {
    TILE_PARAM_IN = 0,
    TILE_PARAM_OUT = 1,
    TILE_PARAM_INOUT = 2,
    TILE_PARAM_SCALAR = 3,
    TILE_PARAM_CONST = 4, /* of tile_module_param only, as the next one */
    TILE_PARAM_TYPE = 5   /* a const type */
} tile_param_kind;
typedef struct tile_scalar {
    int64_t i;
    double f;
} tile_scalar;
typedef struct tile_param_info {
    size_t struct_size; /* set by the caller */
    const char *name;   /* lives as long as the kernel or module, as do the names below */
    tile_param_kind kind;
    tile_dtype dtype;
    int rank;                  /* 0 for a scalar */
    const char *dims[8];       /* dimensions as written, constants by their values: "M", "2*D", "3" */
    int has_default;           /* a scalar with a value in the source, for callers that leave it out ... */
    tile_scalar default_value; /* ... by passing this: `i` for integers and bool, `f` for floating types */
    int optional;              /* 1: a tensor that a launch may leave out, by passing tile_arg_none() */
    const char *type_name; /* the type as written: "f32", or the name of a const type; "" for a const type */
} tile_param_info;
/* Parameter i of a kernel as its source declares it, consts and const types among them, before anything is
 * bound: `dims` as written; `dtype` is TILE_NONE if it depends on a const type or is `int`, and of a const
 * type it is the default. The names live as long as the module. TILE_ERROR_NOT_FOUND past the end, or no such
 * kernel. */
TILE_API tile_status tile_module_param(const tile_module *, const char *kernel, size_t i, tile_param_info *);

/* --- kernel ------------------------------------------------------------------------------------------ */

typedef enum tile_binding_kind {
    TILE_BIND_INT = 0,
    TILE_BIND_FLOAT = 1,
    TILE_BIND_BOOL = 2,
    TILE_BIND_DTYPE = 3,
    TILE_BIND_TEXT = 4, /* as on tilec's command line: "64", "true", "f16" */
} tile_binding_kind;

/* A const, a const type, a dimension or a hint (occupancy, warps, pack, raster_group, cluster, cluster_axis,
 * split_k, stream_k, stages, persistent, warp_specialize, cp_async_producer, pingpong; remap, as text) of a
 * kernel, and its value; or an optional tensor, and whether launches give it (BOOL), which is then fixed. */
typedef struct tile_binding {
    const char *name;
    tile_binding_kind kind;
    union {
        int64_t i;
        double f;
        tile_dtype dtype;
        const char *text;
    } value; /* BOOL: i */
} tile_binding;

/* Binds consts, const types and dimensions of a kernel. What is not bound keeps its default, is chosen by the
 * tuning table, or is taken from the tensors at launch. Bindings are copied. Compiles nothing yet. The kernel
 * keeps module and context alive. TILE_ERROR_NOT_FOUND (no such kernel or name), TILE_ERROR_DTYPE (a value of
 * the wrong kind), TILE_ERROR_COMPILE, TILE_ERROR_OUT_OF_MEMORY. */
TILE_API tile_status tile_kernel_create(
    tile_module *, const char *name, const tile_binding *, size_t n, tile_kernel **out);
/* Frees the kernel and unloads its code. The device must be done with it: launches made before must have
 * finished. NULL is ignored. */
TILE_API void tile_kernel_destroy(tile_kernel *);

/* Number of launch arguments (consts do not count), and what each is. TILE_ERROR_NOT_FOUND past the end. */
TILE_API size_t tile_kernel_param_count(const tile_kernel *);
TILE_API tile_status tile_kernel_param(const tile_kernel *, size_t i, tile_param_info *);

/* A tensor without DLPack: base address, extents, strides in elements (NULL: row-major, no gaps). */
typedef struct tile_tensor {
    void *data;                     /* on the context's device */
    const int64_t *shape, *strides; /* as many as the kernel's parameter has axes */
    int32_t rank;                   /* -1: as the parameter; else checked against it */
    tile_dtype dtype;               /* TILE_NONE: as the parameter; else checked against it */
} tile_tensor;

typedef enum tile_arg_kind {
    TILE_ARG_NONE = 0,
    TILE_ARG_DLTENSOR = 1,
    TILE_ARG_TENSOR = 2,
    TILE_ARG_INT = 3,
    TILE_ARG_FLOAT = 4
} tile_arg_kind;
/* One launch argument. Integer and bool parameters take INT (which must fit), floating ones FLOAT or INT.
 * NONE leaves an optional tensor out: each combination of those that are given is a specialization of its
 * own. */
typedef struct tile_arg {
    tile_arg_kind kind;
    union {
        const DLTensor *dltensor;
        const tile_tensor *tensor;
        int64_t i;
        double f;
    } value;
} tile_arg;

static inline tile_arg tile_arg_dltensor(const DLTensor *t)
{
    tile_arg a;
    a.kind = TILE_ARG_DLTENSOR;
    a.value.dltensor = t;
    return a;
}
static inline tile_arg tile_arg_tensor(const tile_tensor *t)
{
    tile_arg a;
    a.kind = TILE_ARG_TENSOR;
    a.value.tensor = t;
    return a;
}
static inline tile_arg tile_arg_none(void)
{
    tile_arg a;
    a.kind = TILE_ARG_NONE;
    a.value.i = 0;
    return a;
}
static inline tile_arg tile_arg_int(int64_t i)
{
    tile_arg a;
    a.kind = TILE_ARG_INT;
    a.value.i = i;
    return a;
}
static inline tile_arg tile_arg_float(double f)
{
    tile_arg a;
    a.kind = TILE_ARG_FLOAT;
    a.value.f = f;
    return a;
}

typedef struct tile_launch_desc {
    size_t struct_size;
    void *stream; /* CUstream or hipStream_t of the context's device, or of tile_stream_create; NULL: the
                     default stream */
    void *workspace;
    size_t workspace_size; /* at least what tile_kernel_workspace says, 256-byte aligned, on the device; the
                              kernel's until the launch has finished */
} tile_launch_desc;

/* Launches the kernel over its grid. Arguments in the order of tile_kernel_param. Tensors are borrowed:
 * data must stay until the work has finished, shapes and structs only during the call. desc NULL: default
 * stream, no workspace. A grid without programs is success, as are outputs without elements where an
 * extent is 0 that tiles are as large as. out and inout tensors must not overlap other arguments, and must
 * not overlap themselves; what can be proven is rejected. The first launch of a specialization compiles
 * (may block); a later one neither allocates, locks nor compiles, and on a GPU returns before the work is
 * done. Legal under CUDA graph capture once compiled. Where TMA does not take an input's strides, or a
 * matrix unit not its order of axes, the input may be copied first (docs/tuning.md, "Copies"): such a launch
 * allocates memory of the device and frees it, in the order of the stream, and takes a lock for it. On CUDA
 * one that needs a workspace and is given none takes the lock of its stream, and the workspace that the
 * context keeps for the stream, which may have to grow (docs/embedding.md, "Workspace"). On the CPU the call
 * returns when the work is done. Checked contexts wait for the work everywhere. TILE_ERROR_INVALID_ARGUMENT,
 * SHAPE, DTYPE, DEVICE, ALIGNMENT, OVERLAP, GRID, REMAP, WORKSPACE: nothing was launched. TILE_ERROR_COMPILE,
 * RESOURCES, OUT_OF_MEMORY, DRIVER: likewise. TILE_ERROR_DEVICE_FAULT: work launched earlier faulted. */
TILE_API tile_status tile_launch(
    tile_kernel *, const tile_arg *args, size_t n_args, const tile_launch_desc *desc);

/* Bytes of workspace that a launch with these arguments needs (0 for most kernels). Compiles where needed
 * (may block). */
TILE_API tile_status tile_kernel_workspace(tile_kernel *, const tile_arg *args, size_t n_args, size_t *bytes);

/* The extents that a launch wants of tensor number `i`, into extents[0 .. rank): what to allocate an output
 * by. Of the other tensors only the shapes are read. args[i] is not read; other tensors that do not exist
 * yet, and scalars that no extent depends on, may have the kind TILE_ARG_NONE. An optional tensor of that
 * kind counts as left out; the one that is asked about counts as given. TILE_ERROR_SHAPE: no tensor tells a
 * dimension that is asked for, or an extent would be negative. Parses the kernel anew: not for each launch.
 * May block. */
TILE_API tile_status tile_kernel_extents(
    tile_kernel *, const tile_arg *args, size_t n_args, size_t i, int64_t *extents);

/* Compiles the specialization that these arguments select, so that a launch with the like of them does not.
 * Data pointers count by their alignment only and are not read. May block. */
TILE_API tile_status tile_kernel_compile(tile_kernel *, const tile_arg *args, size_t n_args);
/* The same in a thread of its own. Arguments are copied; the kernel stays alive until the handle is
 * destroyed. */
TILE_API tile_status tile_kernel_compile_async(
    tile_kernel *, const tile_arg *args, size_t n_args, tile_compile **out);
/* TILE_PENDING while it runs, then its result. Does not block. */
TILE_API tile_status tile_compile_poll(tile_compile *);
/* Waits, then its result. May block. */
TILE_API tile_status tile_compile_wait(tile_compile *);
/* Waits and frees the handle. NULL is ignored. May block. */
TILE_API void tile_compile_destroy(tile_compile *);

/* The extents of one dimension: `first`, and from there in steps of `step` up to `last`; with step 0 the
 * doubles of `first` up to `last`. One extent: first = last. */
typedef struct tile_dim_range {
    const char *name;
    int64_t first, last, step;
} tile_dim_range;
typedef struct tile_prepare_desc {
    size_t struct_size;
    const tile_dim_range *dims; /* each dimension that the kernel's tensors name and that is not bound */
    size_t n_dims;
    const tile_arg *args; /* NULL, or as many as the kernel has: the scalars, and TILE_ARG_NONE for an
                             optional tensor that launches will leave out. Other tensors are not read. NULL:
                             scalars have their defaults, or are 1; all optional tensors are given */
    size_t n_args;
    int threads; /* compilations at a time; 0: as many as the process has processors */
} tile_prepare_desc;

/* Compiles all variants that launches of these extents take, so that none of them compiles later. The
 * launches are those of row-major tensors without gaps whose addresses are multiples of 16; for others see
 * tile_kernel_compile. Every combination of extents is looked at, at most 2^20 of them, but only different
 * variants are compiled. On a GPU, each combination for which no table speaks is also searched for, as its
 * launch would: 40 to 110 ms each, so choose the steps accordingly. *variants (may be NULL) receives the
 * number of different variants. The first failure ends the call; what was compiled until then stays. May
 * block. TILE_ERROR_INVALID_ARGUMENT: an empty or unknown range, too many combinations. TILE_ERROR_SHAPE: a
 * dimension is missing, or an extent would be negative. Else as tile_kernel_compile. */
TILE_API tile_status tile_kernel_prepare(tile_kernel *, const tile_prepare_desc *, size_t *variants);

/* What a specialization turned out to be. */
typedef struct tile_variant_info {
    size_t struct_size;       /* set by the caller */
    char specialization[512]; /* "D=64, CAUSAL=true, TM=128; Q: align 16, contiguous; ..." (cut if longer) */
    int threads;              /* of a program on a GPU, 1 on the CPU */
    int registers, spill_bytes, stack_bytes; /* -1: not known */
    uint64_t shared_bytes;                   /* static and dynamic */
    int64_t programs;                        /* of the grid with these arguments */
    int from_cache;                          /* 1: code came from the disk cache */
    double compile_ms;                       /* time to compile or load it */
} tile_variant_info;
/* Compiles where needed (may block). */
TILE_API tile_status tile_kernel_variant(
    tile_kernel *, const tile_arg *args, size_t n_args, tile_variant_info *);

/* --- tuning ------------------------------------------------------------------------------------------ */

/* What became of one configuration of a kernel's `tune` block. */
typedef enum tile_tune_state {
    TILE_TUNE_TIMED = 0,
    TILE_TUNE_FAILED = 1,  /* it does not compile, does not fit the device, or its launch was refused */
    TILE_TUNE_WRONG = 2,   /* its result differs from that of the first good one by more than the tolerance */
    TILE_TUNE_SAME = 3,    /* the same code as another one, which stands for it */
    TILE_TUNE_UNTRIED = 4, /* the budget was spent */
} tile_tune_state;

typedef struct tile_tune_entry {
    size_t struct_size; /* set by the caller */
    const char *config; /* "TM=128, TN=256, persistent=0"; lives as long as the results, as `reason` does */
    int is_default;     /* 1: what is declared in the source, without a table */
    tile_tune_state state;
    double ms;        /* median of `launches`; 0 where nothing was timed */
    int launches;     /* few for those that were soon seen to be slow */
    double deviation; /* from the first good result: relative, root of the sum of squares; the worst of the
                         outputs */
    int registers, spill_bytes; /* -1: not known */
    uint64_t shared_bytes;
    const char *reason; /* one line for FAILED, WRONG, SAME; "" otherwise */
} tile_tune_entry;

typedef enum tile_tune_stage {
    TILE_TUNE_COMPILING = 0,
    TILE_TUNE_CHECKING = 1,
    TILE_TUNE_TIMING = 2
} tile_tune_stage;
/* A configuration was compiled, checked, or timed in round `round` (from 1). */
typedef struct tile_tune_progress {
    size_t struct_size;
    tile_tune_stage stage;
    int round;
    size_t done, total;           /* of this stage and round */
    const tile_tune_entry *entry; /* valid during the call */
} tile_tune_progress;
typedef void tile_tune_progress_fn(void *user, const tile_tune_progress *);

enum {
    TILE_TUNE_WARM_CACHES = 1, /* leave the device's L2 as the launch before left it; else it is overwritten
                                  before each timed launch. The caches of a CPU are never overwritten */
    TILE_TUNE_NO_CHECK =
        2, /* do not compare results: for kernels whose outputs depend on the configuration by design */
};

typedef struct tile_tune_desc {
    size_t struct_size;
    double budget_seconds; /* for compiling and timing; 0: 60. The declared defaults are always tried */
    int repeat;            /* timed launches of each of the last four; 0: 21 */
    int threads;           /* compilations at a time; 0: as many as the process has processors */
    uint32_t flags;        /* TILE_TUNE_... */
    double tolerance;      /* most that an output may deviate, relative; 0: by its type (docs/tuning.md) */
    tile_tune_progress_fn *on_progress;
    void *on_progress_user;   /* calls never overlap; some come from other threads before tile_kernel_tune
                                 returns */
    size_t sample;            /* at most so many configurations, spread over the block; 0: 16384 */
    const volatile int *stop; /* NULL, or an int that a signal handler or another thread sets: what it points
                                 to is not 0 ends the tuning as a spent budget does, with the results known so
                                 far */
} tile_tune_desc;

typedef struct tile_tune tile_tune; /* results of one tuning */

/* Times the configurations of the kernel's `tune` block for launches like this one. What the kernel binds
 * stays as bound. Arguments as for tile_launch; `out` and `inout` tensors hold what they held before when
 * this returns. desc's workspace is not used: the tuner has its own. Nothing else should use the device
 * meanwhile. A configuration that fails is listed with its reason and is no failure of the call. The kernel
 * itself does not change: write the results to a table, load that into the module, create the kernel anew.
 * May block (compiles, runs for the whole budget). TILE_ERROR_NOT_FOUND: the kernel has no `tune` block.
 * TILE_ERROR_CHECK: most results differ from that of the first. TILE_ERROR_DEVICE_FAULT: a configuration
 * faulted; the device context is lost. Else as tile_launch. */
TILE_API tile_status tile_kernel_tune(tile_kernel *, const tile_arg *args, size_t n_args,
    const tile_launch_desc *launch, const tile_tune_desc *desc, tile_tune **out);
/* Number of configurations, and the results: those timed, the fastest first, then the others.
 * TILE_ERROR_NOT_FOUND past the end. */
TILE_API size_t tile_tune_count(const tile_tune *);
TILE_API tile_status tile_tune_result(const tile_tune *, size_t i, tile_tune_entry *);
/* Puts the best configuration into a table: an entry of the same kernel, device and key is replaced, others
 * stay; the file appears whole (by rename). `note` is kept with the entry (such as the date), NULL: none.
 * TILE_ERROR_IO; TILE_ERROR_COMPILE: the file that lies there is no table; TILE_ERROR_NOT_FOUND: nothing was
 * timed. */
TILE_API tile_status tile_tune_write(const tile_tune *, const char *path, const char *note);
/* NULL is ignored. */
TILE_API void tile_tune_destroy(tile_tune *);

/* Puts the configurations that were chosen without measuring, for the launches of this kernel so far, into a
 * table: an entry for each combination of extents and promises. Such an entry speaks only for the very same
 * launch on a device of the same name, before every other entry; so a program that loads the table takes the
 * same configurations without a search. An entry of the same launch is replaced, others stay; the file
 * appears whole (by rename). `note` is kept with each entry, NULL: none. May block (files).
 * TILE_ERROR_NOT_FOUND: nothing was chosen: there was no launch or preparation, the kernel has no `tune`
 * block, or only hints in it, and runs on the CPU. TILE_ERROR_IO; TILE_ERROR_COMPILE: the file
 * that lies there is no table; TILE_ERROR_OUT_OF_MEMORY. */
TILE_API tile_status tile_kernel_write_choices(tile_kernel *, const char *path, const char *note);

/* --- memory, streams, events: the same calls on every device ----------------------------------------- */

typedef enum tile_memory {
    TILE_MEMORY_DEVICE = 0,
    TILE_MEMORY_PINNED = 1
} tile_memory; /* PINNED: host memory the device copies fast */

/* Memory of the context's device, 256-byte aligned. 0 bytes give NULL and TILE_OK. May block.
 * TILE_ERROR_OUT_OF_MEMORY, TILE_ERROR_DRIVER. */
TILE_API tile_status tile_memory_alloc(tile_context *, tile_memory, size_t bytes, void **out);
/* Frees it; work that uses it must be done. NULL is ignored. May block. */
TILE_API tile_status tile_memory_free(tile_context *, tile_memory, void *);

/* Copies bytes between host and device memory in any direction, in stream order. Host memory must stay until
 * the work is done. Returns before the copy is done if the host side is pinned; may block otherwise. On the
 * CPU it copies at once. */
TILE_API tile_status tile_copy(tile_context *, void *dst, const void *src, size_t bytes, void *stream);
/* Copies `rows` runs of `width` bytes; row r starts at r * pitch bytes on each side. pitch >= width. One
 * column of a row-major f32 matrix [M, N] into a vector: width 4, rows M, src_pitch 4 * N, dst_pitch 4.
 * Otherwise as tile_copy. */
TILE_API tile_status tile_copy_2d(tile_context *, void *dst, size_t dst_pitch, const void *src,
    size_t src_pitch, size_t width, size_t rows, void *stream);
/* Sets `bytes` bytes to `value` in stream order. On the CPU at once. */
TILE_API tile_status tile_fill(tile_context *, void *dst, uint8_t value, size_t bytes, void *stream);

/* A row-major tensor with memory of its own, to be freed by tile_tensor_destroy. Contents are undefined. */
TILE_API tile_status tile_tensor_create(
    tile_context *, tile_memory, tile_dtype, int rank, const int64_t *shape, DLTensor **out);
TILE_API void tile_tensor_destroy(tile_context *, DLTensor *);
/* Copies between tensors of one dtype and shape, on host or device, strided where two axes suffice to say so
 * (else TILE_ERROR_UNSUPPORTED). Otherwise as tile_copy. */
TILE_API tile_status tile_tensor_copy(tile_context *, const DLTensor *dst, const DLTensor *src, void *stream);

/* Streams are the driver's own (CUstream, hipStream_t), so yours and ours mix freely. On the CPU work is done
 * when a call returns and streams only exist. */
TILE_API tile_status tile_stream_create(tile_context *, void **out);
TILE_API tile_status tile_stream_destroy(tile_context *, void *stream);
/* Waits for the stream's work. TILE_ERROR_DEVICE_FAULT when some of it faulted. May block. */
TILE_API tile_status tile_stream_synchronize(tile_context *, void *stream);
/* Work queued on the stream from now on waits for the event. Does not block. */
TILE_API tile_status tile_stream_wait(tile_context *, void *stream, void *event);

/* Events mark a point of a stream and its time. */
TILE_API tile_status tile_event_create(tile_context *, void **out);
TILE_API tile_status tile_event_destroy(tile_context *, void *event);
TILE_API tile_status tile_event_record(tile_context *, void *event, void *stream);
/* TILE_PENDING while work before it is not done. Does not block. */
TILE_API tile_status tile_event_query(tile_context *, void *event);
/* Waits until work before it is done. May block. */
TILE_API tile_status tile_event_synchronize(tile_context *, void *event);
/* Milliseconds between two recorded events, both done (else TILE_PENDING). */
TILE_API tile_status tile_event_elapsed(tile_context *, void *start, void *end, double *milliseconds);

#ifdef __cplusplus
}
#endif
#endif
