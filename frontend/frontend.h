/* frontend.h: source text -> syntax tree -> tile IR.
 *
 *     Ast *ast = frontend_parse(session, file, load_import, user);
 *     if (!ast || !frontend_check(ast)) ... diagnostics are in the session
 *     Module *m = frontend_lower(ast, "attention", bindings, n, target);
 *
 * All memory is the session's. Nothing here opens a file: imports come through a callback. */
#pragma once
#include "ir/interp/faults.h"
#include "ir/ir.h"

typedef struct Ast Ast;

/* Finds the source that `import "path"` in file `from` names and adds it with diag_add_source (or returns the
 * index of an earlier call for the same file: a file is read into a program once). Returns the file index; 0
 * when it cannot be read, with errno if that says why. */
typedef uint32_t FrontImportFn(void *user, Session *, uint32_t from, const char *path);

/* Parses file `file` (an index from diag_add_source) and what it imports. `import_fn` may be NULL: then an
 * import is an error. Always returns a tree; the session's error count tells whether it is whole. */
Ast *frontend_parse(Session *, uint32_t file, FrontImportFn *import_fn, void *user);

/* The same tree, checked, for another session that has neither sources nor names yet, so that it is parsed
 * once. Nothing changes a tree that is checked. The first session outlives the other. NULL: that has some of
 * its own.
 */
Ast *frontend_share(Session *, const Ast *);

/* Names, arities, duplicates, attributes, hints, structure of everything in the tree, whether a kernel uses
 * it or not. True when neither this nor parsing reported an error. */
bool frontend_check(Ast *);
/* Gives hints that are called by a former name the name of today, with a warning (former.c). */
void rename_former_hints(Ast *);

/* The tree in a stable text form, one node a line. */
void frontend_print_ast(const Ast *, Text *);

/* All of the following answers after frontend_check said true; before, a program has no kernels. */

/* --- what a program offers --------------------------------------------------------------------------- */

typedef enum FrontParamKind {
    FRONT_IN,
    FRONT_OUT,
    FRONT_INOUT,
    FRONT_SCALAR,
    FRONT_CONST,
    FRONT_CONST_TYPE
} FrontParamKind;

typedef enum FrontValueKind {
    FRONT_NOTHING,
    FRONT_INT,
    FRONT_FLOAT,
    FRONT_BOOL,
    FRONT_TYPE,
    FRONT_UINT,
    FRONT_TEXT
} FrontValueKind;
typedef struct FrontValue {
    FrontValueKind kind;
    union {
        int64_t i;
        double f;
        bool b;
        DType type;
        const char *text;
    }; /* i: the value of FRONT_INT; for FRONT_UINT, the bits of an integer above 2^63 - 1. text: a placement
        * of programs, the only text that is bound */
} FrontValue;

/* A name bound to a value: a const, a const type, a dimension, or an optional tensor (a bool that tells
 * whether it is given). Values are checked against the declaration. */
typedef struct FrontBinding {
    const char *name;
    FrontValue value;
} FrontBinding;

/* One dimension of a tensor parameter as written. */
typedef struct FrontDim {
    const char *name; /* a dimension name, or NULL */
    const char
        *text; /* the source text, such as "M" or "2*D", with global constants replaced by their values */
    /* for an expression of dimensions or scalars, the number of the kernel's derived extent; otherwise -1 */
    int derived;
} FrontDim;

typedef struct FrontParam {
    const char *name;
    FrontParamKind kind;
    const char *type_name; /* as written: "f16", or the name of a const type parameter */
    bool type_known;
    DType dtype; /* the type when it does not depend on a const type (type_known) */
    int rank;
    FrontDim dims[TILE_MAX_RANK];
    /* A tensor that a launch may leave out. A bool may be bound to its name, and is true by default. */
    bool optional;
    /* FRONT_NOTHING: there is none. A default that depends on other consts is computed from their defaults */
    FrontValue default_value;
    bool automatic; /* a const `auto`: default_value serves where nothing chooses */
    Loc loc;
} FrontParam;

typedef struct FrontKernel {
    const char *name;
    int n_params;
    const FrontParam *params;
    int n_dims;
    const char *const *dims; /* dimension names in order of first appearance */
    int n_derived;
    const char *const
        *derived; /* extents that a launch derives from the others, as FrontDim.text writes them */
    int n_keys;
    /* The dimensions that are extents of tiles, which must be bound before the kernel is lowered; those that
     * only a branch of `const if` needs, where it is taken. */
    const char *const *keys;
    int grid_rank;
    const char *grid[3]; /* the extents of the grid, as FrontDim.text writes them */
    bool products;       /* the kernel calls `mma` */
    bool gathers;        /* and `gather` */
    bool loops;          /* the kernel has loops that are not unrolled */
    bool hinted;         /* a clause says more than the grid: hints, a raster, a remap */
    /* Names of dimensions that are themselves extents of the grid, if the grid has several axes and the
     * kernel neither products nor loops. If such an axis has few programs, `pack` needs to know how many. */
    int n_counted;
    const char *const *counted;
    /* A bit for each of the first 64 parameters: a tensor that the kernel accesses by atomics alone, which
     * combine elements in any order, so that it may be gathered (passes/kernel/program/shared_atomics.c). */
    uint64_t atomics;
    /* The dimensions whose products divide numbers of the kernel, such as H and W of pixels that are counted
     * in one row: `p / (H*W)`, `p / W % H`. */
    int n_divisors;
    const char *const *divisors;
    Loc loc;
} FrontKernel;

/* Kernels in source order, those of imported files first. */
int frontend_kernel_count(const Ast *);
extern const char *const frontend_hints[]; /* the names that hint (...) accepts, ended by NULL */
const FrontKernel *frontend_kernel(const Ast *, int);
const FrontKernel *frontend_kernel_find(const Ast *, const char *name); /* NULL: no such kernel */

/* A set of values for a name: `D in {64, 128}`. */
typedef struct FrontDomain {
    const char *name;
    int n;
    const FrontValue *values;
    Loc loc;
    bool derived; /* by the compiler, for a const `auto` */
    /* Derived, and all its tiles lie along this dimension: the dimension; else NULL. */
    const char *along;
    bool order_only; /* derived, and it decides only in which order programs run */
    int64_t step; /* between the values multiples of it may be chosen too, where they fit; 0: none (`fit`) */
} FrontDomain;

/* One `instantiate` of a kernel: the product of its domains. */
typedef struct FrontInstance {
    const char *kernel;
    int n;
    const FrontDomain *domains;
    Loc loc;
} FrontInstance;
int frontend_instance_count(const Ast *);
const FrontInstance *frontend_instance(const Ast *, int);

/* Whether the name is bound to false, which means an optional tensor that is not given. The last binding
 * counts. */
bool frontend_absent(const FrontBinding *, size_t n, const char *name);
/* The text of an extent, with the kernel's integer consts as the values that the bindings give them, or by
 * default. */
const char *frontend_extent_text(
    Session *, const FrontKernel *, const FrontBinding *, size_t n, const char *text);
/* Gives the value of a dimension or const that an expression names; false: it has none that is an integer. */
typedef bool FrontNumberFn(void *user, const char *name, int64_t *value);
/* The extent, above 0, that an assert of the form `dim == expression` in the kernel's body tells. False: none
 * does. Numbers are asked for while the expression is computed. */
bool frontend_asserted_extent(
    const Ast *, const FrontKernel *, const char *dim, FrontNumberFn *number, void *user, int64_t *extent);
/* Whether an assert of the kernel's body is known not to hold. */
bool frontend_asserts_refuted(const Ast *, const FrontKernel *, FrontNumberFn *number, void *user);
/* The grid of a launch of those extents, with the extents that are written as a quotient. Texts go to the
 * arena of `s`, whose sources are those of the program. */
void frontend_fault_grid(const Ast *, const char *kernel, Session *s, const int64_t *extent, FaultGrid *);
/* Whether the kernel's grid clause names it. */
bool frontend_grid_names(const Ast *, const char *kernel, const char *name);
/* The dimension that an axis of the grid counts in tiles of this constant, `cdiv(M, TM)`; NULL: none. */
const char *frontend_grid_tiles(const Ast *, const char *kernel, const char *name);
/* Whether it is a hint that a tune block or a binding may set (ir/hints.def). */
bool frontend_hint_name(const char *);
/* Whether it is `remap`, to which the name of a placement is bound as FRONT_TEXT. */
bool frontend_placement_name(const char *);
/* Whether it names a placement that needs no number: auto, xcd, chunk, head, none. */
bool frontend_placement_word(const char *);

/* The `tune` block of a kernel. Domains name consts, dimensions or hints. */
typedef struct FrontTune {
    const char *kernel;
    int n;
    const FrontDomain *domains;
    int n_keys;
    const char *const *keys; /* dimensions and consts whose values choose the table's entry */
    Loc loc;
} FrontTune;
/* NULL: none. A kernel with `auto` constants has one. */
const FrontTune *frontend_tune(const Ast *, const char *kernel);
/* Configuration number k of the product of the domains, last domain fastest: one binding a domain. False: no
 * such number, or the block's `require (...)` rejects it. */
int64_t frontend_tune_count(const FrontTune *);
bool frontend_tune_config(const Ast *, const FrontTune *, int64_t k, FrontBinding *out);
/* The same when `fixed` already binds some names: domains of those names keep their value, and `require` sees
 * all of them. */
bool frontend_tune_config_with(
    const Ast *, const FrontTune *, int64_t k, const FrontBinding *fixed, int n_fixed, FrontBinding *out);
/* The condition of `require`, NULL where more than it decides what is allowed: listed configurations, `auto`
 * constants. Of a condition: how it consists of others; whether it names a constant or hint. Parts that ask
 * for few names allow many configurations to be asked quickly.
 */
typedef struct Node FrontCondition;
typedef enum FrontJoin { FRONT_ASK, FRONT_ALL, FRONT_ANY, FRONT_SELECT } FrontJoin;
const FrontCondition *frontend_require(const Ast *, const FrontTune *);
/* ASK: it has no parts. ALL, ANY: part[0] && part[1], part[0] || part[1]; SELECT: part[0] ? part[1] :
 * part[2]. */
FrontJoin frontend_condition_parts(const FrontCondition *, const FrontCondition *part[3]);
bool frontend_condition_names(const Ast *, const FrontTune *, const FrontCondition *, const char *name);
/* Whether the condition holds for these bindings, of which only those matter that it names: for many of them.
 */
typedef struct FrontAsk FrontAsk;
FrontAsk *frontend_ask_begin(Ast *, const FrontTune *, const FrontCondition *);
bool frontend_ask(FrontAsk *, const FrontBinding *, int n);

/* A pass that a step of a ladder names, for the check of its name. */
typedef struct FrontPassName {
    const char *name;
    bool skip; /* it is left out; else it is asked for */
    Loc loc;
} FrontPassName;

/* One step of a ladder: a variant of the kernel, as the options of the command line would make it. */
typedef struct FrontStep {
    const char *name, *text; /* text: one line that says what changed */
    const FrontBinding *bindings;
    int n;
    const char *skip, *with, *remap; /* as --skip-pass, --with-pass and --remap take them, or NULL */
    bool approx, ftz;
    bool tune; /* with the fastest configuration of the tune block */
    const FrontPassName *passes;
    int n_passes;
    Loc loc;
} FrontStep;

/* The `ladder` block of a kernel. */
typedef struct FrontLadder {
    const char *kernel;
    const FrontStep *steps;
    int n;
    /* Extents, consts and scalars that hold where the caller gives no others. */
    const FrontBinding *at;
    int n_at;
    Loc loc;
} FrontLadder;
const FrontLadder *frontend_ladder(const Ast *, const char *kernel); /* NULL: none */

/* --- lowering ---------------------------------------------------------------------------------------- */

/* The tile IR of one kernel under the given bindings: consts, const types, dimensions and optional tensors by
 * name, and the hints of FrontTune. An optional tensor that is not given stays a parameter: a tensor of
 * extents 0 that nothing reads. Names bound twice: the last holds. A dimension may be bound that is no key:
 * its extent is then known too. `target` ("cuda:sm_90a", "cpu", ... or NULL) chooses among hints given per
 * target; nothing else depends on it. NULL after diagnostics. The module verifies; `fn` functions are
 * functions of it, called by OP_CALL, unless they touch memory or print: those are expanded where they are
 * called. */
Module *frontend_lower(Ast *, const char *kernel, const FrontBinding *, size_t n, const char *target);
/* The same with an empty body, for the parameters, dimensions, extents, grid and remap. Dimensions that are
 * keys need not be bound. */
Module *frontend_lower_clauses(Ast *, const char *kernel, const FrontBinding *, size_t n);

/* The same with the expression that is all of source `file` as the kernel's remap: a formula of `w`, the
 * linear program id, `n`, the number of programs, `n0`, `n1` and `n2`, the extents of the grid (1 of absent
 * axes), and what a remap clause may name. NULL after diagnostics. */
Module *frontend_lower_formula(Ast *, const char *kernel, const FrontBinding *, size_t n, uint32_t file);
/* Whether the value of --remap is a formula: neither a word other than those names, nor "xcd+raster:4". */
bool frontend_is_formula(const char *text);

/* Reads "64", "-1", "1e-5", "true", "f16", ... into a value of the kind the parameter `name` of the kernel
 * wants (a dimension wants an integer). False: no such name or not such a value; *why then says so. */
bool frontend_parse_value(
    Session *, const FrontKernel *, const char *name, const char *text, FrontValue *, const char **why);
void frontend_print_value(FrontValue, Text *);

/* The words of the language, each followed by a space, in constant text. NULL: no such kind. */
typedef enum FrontWords { FRONT_KEYWORDS, FRONT_TYPES, FRONT_FUNCTIONS, FRONT_HINTS } FrontWords;
const char *frontend_words(FrontWords);
