/* pitch.h: launches whose inputs are copied first: into rows that the copy engine reaches, transposed, or
 * converted to the type that a kernel takes them for. */
#pragma once
#include "passes/tile/launch/computed_inputs.h"
#include "runtime/launch/launch.h"

enum { MOST_PITCHED = 4 };

/* The kernel on inputs that are converted or computed ahead, for launches with the same constants: extents of
 * which the kernel makes constants, and tensors that are given (`facts`). `to` has the types of its inputs by
 * parameter, DT_COUNT for those that stay as they are. */
typedef struct ConvertedForm {
    tile_kernel *kernel;                   /* NULL: the kernel takes no input for a conversion of it alone */
    _Atomic(struct Converter *) converter; /* pitch_copy.c; NULL: nothing was converted so far */
    struct ConvertedForm *older;           /* for launches with other constants */
    size_t bytes;
    const uint64_t *facts;
    int n_computed; /* inputs that are computed from several or by more than a cast */
    ComputedInput computed[MOST_PITCHED];
    DType to[];
} ConvertedForm;

/* What a launch copies. */
typedef struct PitchForm {
    bool copied;              /* tensors out of reach */
    uint64_t transposed;      /* a bit for each of the first 64 parameters */
    ConvertedForm *converted; /* NULL: no tensor is converted */
} PitchForm;

/* A tensor that is copied: `rows` rows of `columns` elements, `from` elements apart; in the copy `to`
 * elements apart, or where it is transposed, `columns` rows of `rows` elements, `to` elements apart. */
typedef struct PitchedTensor {
    int param;
    bool transposed, converted;
    int size; /* bytes of an element of the copy */
    int64_t rows, columns, from, to;
    size_t offset; /* bytes, in the memory of the launch */
    int64_t strides[TILE_MAX_RANK];
    tile_tensor tensor; /* the copy, with the shape of the original */
} PitchedTensor;

typedef struct Pitch {
    int n;
    bool for_now;                   /* what failed may pass: a later launch may copy what this one does not */
    struct PitchDecision *decision; /* NULL: it is not kept */
    size_t bytes;                   /* of all copies */
    tile_kernel *kernel;            /* that runs on them */
    ConvertedForm *converted;
    PitchedTensor tensor[MOST_PITCHED];
    tile_arg args[MAX_PARAMS]; /* of the launch on the copies */
} Pitch;

/* Whether a launch with these arguments, read into `l`, copies tensors first; *p then says which. The shapes
 * of `p->args` are those of `l`, and their addresses are placeholders (pitch_place). */
bool pitch_wanted(tile_kernel *, const tile_arg *, size_t n, const LaunchArgs *l, Pitch *p);

/* Whether the launch is to take the tensors as they are, since copying or the launch on the copies failed so.
 * Not where the caller can mend it: a sealed context says what is missing, a workspace may be too small.
 * Sets `for_now` where memory alone was missing, and for the first few errors of the driver in a row; else
 * later launches do not try again. */
bool pitch_gives_up(Pitch *, tile_status);
/* The launch on copies succeeded. */
void pitch_succeeded(const Pitch *);

/* pitch_tensors.c: the tensors that this form copies; none if one of those that it converts cannot be. */
void pitch_find(tile_kernel *, const LaunchArgs *, const PitchForm *, Pitch *);
/* The tensors of a kernel with products that could be transposed, in types of which matrix units take one
 * order alone. */
uint64_t pitch_transposable(tile_kernel *, const LaunchArgs *);
/* Gives the copies their addresses, from `base` on. */
void pitch_place(Pitch *, const LaunchArgs *, char *base);

/* converted.c: how the form computes the parameter; NULL: it is converted, or as it is. */
const ComputedInput *converted_by_operations(const ConvertedForm *, int param);
/* Whether some input may be one that is converted ahead, by the signature and what was found for the
 * constants of this launch. */
bool converted_possible(const tile_kernel *, const LaunchArgs *);
/* *out NULL: no input can be converted ahead. The first call for a launch's constants reads the disk cache,
 * or lowers the kernel for its key. Fails where there is no memory, and then nothing is known. */
tile_status converted_form(tile_kernel *, const uint64_t *key, ConvertedForm **out);
void converted_close(tile_kernel *);

/* converted_entry.c: what is converted and computed of the kernel with these bindings, in the disk cache. The
 * statements are in the session's memory. False: no entry, or one that cannot be used; *form is then
 * undefined. */
bool converted_read(tile_kernel *, Session *, const FrontBinding *, size_t n, ConvertedForm *form);
void converted_write(tile_kernel *, Session *, const FrontBinding *, size_t n, const ConvertedForm *form);

/* pitch_copy.c: frees the kernels that copy, and those that convert. */
void pitch_close_copies(tile_kernel *);
void pitch_close_converter(tile_context *, ConvertedForm *);
/* Whether one launch copies tensors i and i + 1. */
bool pitch_go_together(const tile_kernel *, const Pitch *, int i);
/* Copies and launches. False: the launch is to take the tensors as they are, since there is no memory for the
 * copies, or what makes them or runs on them fails. */
bool pitch_launch(
    tile_kernel *, size_t n_args, const LaunchArgs *, Pitch *, const tile_launch_desc *, tile_status *);
/* Compiles the kernels that copy. */
tile_status pitch_compile(tile_kernel *, const LaunchArgs *, const Pitch *);
