/* input.h: a .tile file on its way through the front end, and the variants of its kernels that the command
 * line asks for. */
#pragma once
#include "tools/tilec/file.h"
#include "frontend/frontend.h"
#include "runtime/compile/compile.h"

enum { MAX_SOURCE = 16 << 20 }; /* bytes of a .tile file */

typedef struct Input {
    Tool *tool;
    const Args *args;
    Session session; /* holds everything that the compiler makes */
    const char *path;
    Ast *ast;
    uint32_t file;
    Strings files; /* all files read, for -M */
    int64_t parse_ns;
    Text times;          /* --time-passes: what was compiled, and how long each stage took */
    void *user;          /* what input_with was given */
    ToolCleanup cleanup; /* of the session */
    struct Rtc *rtc;     /* the vendor's compiler, after it was first needed */
    struct EmissionChecker *checker;
    bool text_only;  /* the file is not parsed */
    bool marked;     /* the file read last begins with a byte order mark, which its source does not hold */
    bool no_checker; /* libclang, after it was first looked for (input_checker) */
} Input;

/* Reads, parses and checks the file, then calls fn. Prints the diagnostics when fn is done or has left
 * through an error; outputs appear only if there were no errors. */
int input_with(Tool *, const Args *, const char *path, int (*fn)(Input *, Outputs *), void *user);

/* The same without parsing: fn finds the text as source in->file of the session, and its outputs may replace
 * the file that was read. */
int input_with_text(Tool *, const Args *, const char *path, int (*fn)(Input *, Outputs *), void *user);

/* The tree once more, in another session; nothing is read again. */
Ast *input_parse_again(Input *, Session *);

/* A kernel with values for its consts, const types and dimensions. */
typedef struct Variant {
    const FrontKernel *kernel;
    const FrontBinding *bindings;
    size_t n;
    /* The number of bindings at the end that come from a tuning table, and do not distinguish variants. */
    size_t n_config;
    const char *title; /* "attention<D=64, CAUSAL=true>" */
} Variant;
typedef VEC(Variant) Variants;

/* The variants of the kernels of the file itself (or of --kernel): the products of the file's `instantiate`s,
 * with -D in place of or beside their domains. False after diagnostics. */
bool input_variants(Input *, Variants *);

/* Says that the file has no kernel of this name (NULL: that none is named, where the file has none or
 * several). */
void input_no_kernel(Input *, const char *name);

/* The variant, compiled under these promises of its launches (NULL: none). */
CompileJob input_job(Input *, const Variant *, const LaunchFacts *, const CompileOptions *);

/* Options as the command line gives them; false after a message. */
bool input_options(Input *, const Target *, CompileOptions *);
/* Adds to the options that libclang reads what is emitted for a GPU, where there is a libclang that can.
 * `output`: the text is what the user gets; else (a vendor's compiler reads it next) it is read with
 * --check-emission only. False after a message: it was asked for, and there is none. */
bool input_checker(Input *, bool output, CompileOptions *);

/* The promises of a launch about a kernel's arguments, as bits. ALIGNED: addresses and strides are multiples
 * of 16 bytes, the last axis has stride 1, extents and offsets fit into 32 bits. DIVISIBLE: the extents of
 * last axes are multiples of 16 too. POSITIVE: scalars of f32 and f64 are above 0 and finite. DENSE: rows of
 * known extents lie without gaps, of which launches of the library tell and launchers of objects do not. */
typedef enum Assume {
    ASSUME_ANY,
    ASSUME_ALIGNED = 1,
    ASSUME_DIVISIBLE = 2,
    ASSUME_POSITIVE = 4,
    ASSUME_DENSE = 8
} Assume;
const LaunchFacts *input_facts(Input *, const Variant *, unsigned assume);
/* "any", "aligned_positive"; DENSE has no word. */
const char *assume_name(unsigned);
/* The promises worth a variant of their own, the strongest first; ends with ASSUME_ANY. `divisible`: those
 * with it as well. At most 6. */
int input_assumptions(const Variant *, bool divisible, unsigned out[6]);
