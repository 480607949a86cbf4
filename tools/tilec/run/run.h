/* run.h: a kernel with its arguments from the command line (--in, --set, --out) on a device: what run, bench
 * and tune have in common. */
#pragma once
#include "tools/tilec/run/input.h"
#include "tools/tilec/profile.h"
#include "tools/tilec/run/tensor.h"
#include "tools/tilec/watch.h"
#include "ir/interp/interp.h"
#include "runtime/launch/inside.h"
#include "runtime/measure/measure.h"
#include "tile/tile.h"

typedef struct Parameter {
    tile_param_info info;
    const char *in, *out; /* the arguments of --in and --out for it, or NULL */
    const char *set;      /* scalars: its text */
    bool print;           /* --print names it */
    bool left_out;        /* an optional tensor that the launch does not give */
    HostTensor host;
    /* original: the contents of an inout tensor before launches that are timed; or NULL */
    void *device, *original;
    tile_tensor tensor;
} Parameter;

typedef struct Run {
    Tool *tool;
    const Args *args;
    tile_context *context;
    tile_module *module;
    tile_kernel *kernel;
    const FrontKernel *front;  /* the kernel as declared, with its consts */
    const FrontParam *without; /* a type that nothing binds, or NULL: f32 stands for it */
    void *begin, *end;         /* events, while launches are timed */
    ToolCleanup cleanup;
    Watch watch;
    Profile *profile;        /* receives the launches that are timed, or NULL */
    InterpProgress progress; /* --target=interp */
    atomic_int timed;        /* launches, while they are timed */
    Parameter *params;
    size_t n_params;
    tile_arg *launch_args;
    const char *kernel_name;
    tile_binding *bindings;
    size_t n_bindings;
    bool interp; /* --target=interp: the context is used for the signature only */
    Extents known;
    tile_launch_desc desc;
    tile_device_info device;
    /* For bench of several steps and sizes: more values as --set gives them; inputs that no --in names are
     * random; the kernel's ladder gives what is missing; no table is read, and defaults are as declared. */
    Strings more_set;
    bool made_up, ladder;
    Strings set;    /* all values: --set, more_set, the ladder's */
    char *captured; /* CAPTURED bytes that receive diagnostics in place of standard error, or NULL */
    char *notes;    /* the same for remarks on performance, with --wperf or without; or NULL */
    bool measuring; /* for further launches, whose prints and warnings were shown */
    int n_diagnosed, n_warned; /* errors and warnings printed by on_diagnostic */
} Run;

enum { CAPTURED = 4096 };

/* Says why a call failed, unless diagnostics have; returns the exit code. */
int run_failed(Run *, tile_status);
#define TRY(r, call) \
    do { \
        tile_status st_ = (call); \
        if (st_) return run_failed((r), st_); \
    } while (0)

/* run_arguments.c: reads the arguments and brings them to the device; an exit code. */
int run_read_arguments(Run *);
Parameter *run_find_param(Run *, const char *name); /* NULL: there is none */
/* The names of the kernel's tensors, with commas. */
const char *run_tensor_names(Run *);
/* Prints a command line that works, for a user whose own lacks an argument (example.c). */
void run_print_command(Run *);
/* Draws random integers that are indices within their axes (index_ranges.c); an exit code. */
int run_draw_indices(Run *);
/* The next const or const type, behind `after`, that neither the command line binds nor a default; NULL: none
 * is left. A default that such a const decides counts as none. */
const FrontParam *run_next_without_value(const Run *, const FrontParam *after);
/* An empty run, in the tool's arena. It is closed by run_close, or at the end of the command. */
void run_init(Run *, Tool *, const Args *);
/* Device, module, kernel, and its arguments there; an exit code. */
int run_open(Run *);
void run_close(Run *);
/* The passes of --skip-pass, --with-pass, --remap, --approx and --ftz, for run->kernel; an exit code. */
int run_set_passes(Run *);

/* run_launch.c: */
/* Compiles, takes a workspace, launches once and waits. */
int run_launch(Run *);
/* Saves the contents of inout tensors on the device, and puts them back before a launch that is timed. */
int run_keep_originals(Run *);
int run_restore_originals(Run *);
/* Poisons outputs, so that elements that a launch does not store are wrong, whatever the one before left
 * there, and puts saved contents back. */
int run_poison(Run *);
/* Times further launches by events: --repeat of them, or for `seconds`. */
int run_time(Run *, double seconds, Measured *);
/* The kernel in the interpreter. data: a tensor for each parameter, in host memory, or NULL for the device's.
 */
int run_interpret(Run *, const Args *, void *const *data);
/* Bytes of all arguments that a launch reads or writes, each once (inout: twice). */
double run_bytes(const Run *);
