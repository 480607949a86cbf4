/* ir.h: the intermediate representation. Two levels, one set of data structures: tile IR (target-independent)
 * and kernel IR (layouts assigned, shared memory and asynchrony explicit). SSA with structured regions: a
 * block is the whole of a region; there are no branches. docs/ir.md is the manual; ops.def lists the
 * operations.
 *
 * A value is used only inside the block that defines it and the blocks nested there. Everything lives in the
 * session's arena. */
#pragma once
#include "ir/op.h"
#include "ir/type.h"
#include <assert.h>

typedef enum AttrKey {
#define ATTR(ID, name, kind, doc) ATTR_##ID,
#include "ir/attrs.def"
#undef ATTR
    ATTR_N_KEYS
} AttrKey;

typedef enum AttrKind {
    ATTR_KIND_INT,
    ATTR_KIND_FLOAT,
    ATTR_KIND_STR,
    ATTR_KIND_INTS,
    ATTR_KIND_ENUM
} AttrKind;
typedef struct AttrInfo {
    const char *name;
    AttrKind kind;
    const char *doc;
} AttrInfo;
extern const AttrInfo attr_info[ATTR_N_KEYS];

/* CACHE_STREAM, PRECISION_TF32, RMW_ADD, SEM_ACQUIRE, SCOPE_CTA, ... */
#define ENUM(E) enum {
#define VAL(E, ID, name) E##_##ID,
#define END(E) \
    E##_COUNT_ \
    } \
    ;
#include "ir/enums.def"
#undef ENUM
#undef VAL
#undef END
/* Name of value `v` of an ENUM attribute, or NULL; and back (-1: no such name). */
const char *attr_enum_name(AttrKey, int64_t v);
int attr_enum_parse(AttrKey, const char *name, size_t len);

typedef struct Attr {
    AttrKey key;
    int n; /* INTS: length */
    union {
        int64_t i;
        double f;
        const char *s;
        const int64_t *v;
    };
} Attr;

typedef struct Instr Instr;
typedef struct Block Block;
typedef struct Func Func;
typedef struct Module Module;
typedef struct Value Value;
typedef struct Use Use;

struct Use {
    Value *value;
    Instr *user;
    Use *next, **prev;
}; /* one operand slot, which is a link of the value's use list */

struct Value {
    const Type *type;
    Instr *def;       /* NULL: a block argument */
    Block *block;     /* the block of an argument; NULL for results (see def->block) */
    int index;        /* result or argument number */
    uint32_t id;      /* unique in the module; printed as %id, or %name.id with a name */
    const char *name; /* from the source, for readable output; may be NULL */
    Use *uses;
};

struct Instr {
    Op op;
    int n_operands, n_results, n_blocks, n_attrs;
    Use *operands;
    Value *results; /* array of n_results */
    Block **blocks;
    Attr *attrs;
    Block *block;
    Instr *prev, *next;
    Loc loc;
    uint32_t mark; /* scratch for passes */
};

struct Block {
    Instr *first, *last;
    Value **args;
    int n_args;
    Instr *parent; /* the instruction that holds it; NULL for a function's own blocks */
    Func *func;
};

typedef enum ParamKind { PARAM_IN, PARAM_OUT, PARAM_INOUT, PARAM_SCALAR } ParamKind;

enum { FACT_UNKNOWN = INT64_MIN };
enum {
    FITS32_EXTENT = 1 << 28
}; /* the bound of extents that `fits32` promises; it leaves room for index arithmetic such as 2*y + 1 */

/* A kernel parameter and what the launch promised of it (specialization facts; the launch checks them). */
typedef struct Param {
    const char *name;
    ParamKind kind;
    const Type *type;        /* tensor or scalar */
    int dims[TILE_MAX_RANK]; /* per tensor axis: index into func->dims */
    /* The base is a multiple of so many bytes, at least of the element size. */
    int64_t align;
    int64_t stride[TILE_MAX_RANK];     /* in elements, or FACT_UNKNOWN */
    int64_t stride_div[TILE_MAX_RANK]; /* a divisor of the stride in elements, at least 1 */
    /* The first and the last of axes that code sees as one (the pass flatten), equal if there are none:
     * `dims` has 1 for each of them but the last, which has the product of their extents. Launches give the
     * tensor with the axes apart. */
    int joined_from, joined_to;
    bool gaps;     /* rows along the last axis most likely lie further apart than they are long; no promise */
    double lo, hi; /* scalars: known closed range (-inf, inf when unknown) */
    Loc loc;
} Param;

/* Whether code should know that rows have gaps: rows of so many bytes, of elements of `size`, that begin so
 * many bytes `apart`. Long rows and those of wide elements are accessed alike with gaps and without, and that
 * rows have some is known where they begin at multiples of 16 bytes. */
bool ir_gaps_matter(int64_t bytes, int64_t apart, int size);

/* A dimension symbol. Constants in a shape are anonymous symbols (name NULL) of known extent, extents that a
 * launch derives from others are anonymous symbols with a text: the expression as written, which Func.extents
 * computes, though the extent may be known. The launch checks that a tensor has the derived extent. */
typedef struct Dim {
    const char *name, *text;
    int64_t extent;  /* -1: known at launch only */
    int64_t div;     /* a divisor of the extent, at least 1 */
    int64_t most;    /* the extent is from 1 to this number; 0: not known */
    int param, axis; /* where the launch reads it */
} Dim;

/* A const parameter of a kernel and its value, for debuggers: in the code it is a number. */
typedef struct KernelConst {
    const char *name;
    DType dtype;
    int64_t i; /* bool and integers */
    double f;  /* floats */
} KernelConst;

typedef struct Hints {                                   /* hints never change a result; 0: not given */
#define HINT(name, most, base, search, reader) int name; /* the value + base */
#include "ir/hints.def"
#undef HINT
    const char *schedule; /* a schedule written by hand, or NULL */
    /* The name of a placement (passes/tile/program/remap.c), or NULL; Func.remap holds an expression. */
    const char *remap;
} Hints;
/* For hints with a base of 1: whether the hint was given, and whether as 0. */
static inline bool hint_off(int stored) { return stored == 1; }

struct Func {
    Module *module;
    const char *name;
    bool is_kernel;
    Param *params;
    int n_params;
    Dim *dims;
    int n_dims;
    Block *body; /* args: one value a parameter */
    /* for kernels: arguments as in body; yields 1 to 3 index scalars, the fastest axis first */
    Block *grid;
    Block *remap; /* or NULL. Arguments: the linear id, then as in body; yields the linear id to run */
    /* NULL without derived dimensions. Arguments as in body; yields the extent of each, in order */
    Block *extents;
    /* The remap is known to permute every grid, which only built-in remaps are (passes/tile/program/remap.c).
     */
    bool permutes;
    const Type **results;
    int n_results; /* device functions */
    Hints hints;
    int64_t packed; /* pack made so many programs one; 0: none */
    bool fits32; /* launch fact: all extents are from 1 to 2^28 - 1 (FITS32_EXTENT), all offsets of elements
                    in bytes from 0 to 2^31 */
    bool extents31; /* launch fact: all extents are below 2^31; fits32 says more */
    KernelConst *consts;
    int n_consts;
    const char *spec; /* readable specialization, e.g. "D=64, CAUSAL=true"; "" if none */
    Loc loc;
    Func *next;
};

struct Module {
    Session *session;
    Func *funcs;
    uint32_t next_id;
};

/* --- construction ------------------------------------------------------------------------------------ */

Module *ir_module_new(Session *);
Func *ir_func_new(Module *, const char *name, bool is_kernel); /* appended; with an empty body block */
Func *ir_func_find(const Module *, const char *name);
Block *ir_block_new(Func *, Instr *parent);
Value *ir_block_arg(Block *, const Type *, const char *name); /* appends an argument */
/* A parameter with no facts known (align = element size, strides unknown); adds the matching argument to
 * body. */
Value *ir_param_new(Func *, const char *name, ParamKind, const Type *, const int *dims);
int ir_dim_new(Func *, const char *name, int64_t extent); /* returns the index */
int ir_dim_derive(Func *, const char *text);              /* the same for a derived dimension */
/* The value that Func.extents yields for a dimension; NULL: it is not derived. */
Value *ir_dim_value(const Func *, int dim);
/* The launch promises that the extent is a multiple of `div`, a power of two. Of a known extent the number
 * itself says more. */
void ir_dim_promise(Dim *, int64_t div);

/* What the stride along the axis is known to be a multiple of, in elements: the stride, where it is known. */
static inline int64_t ir_stride_step(const Param *p, int axis)
{ return p->stride[axis] != FACT_UNKNOWN ? p->stride[axis] : p->stride_div[axis]; }
/* The same of the distances between the elements along the axis that a program accesses: 0, if the axis has
 * one element, whatever its stride. */
static inline int64_t ir_row_step(const Func *f, const Param *p, int axis)
{ return f->dims[p->dims[axis]].extent == 1 ? 0 : ir_stride_step(p, axis); }

/* The position at which instructions are inserted: before `before`, or at the end of `block` when that is
 * NULL. */
typedef struct Builder {
    Module *module;
    Block *block;
    Instr *before;
    Loc loc;
} Builder;
Builder ir_at_end(Block *);
Builder ir_before(Instr *);
Builder ir_after(Instr *);

/* Attributes for the calls below: ATTRS(a_int(ATTR_AXIS, 1), ...) */
typedef struct Attrs {
    const Attr *v;
    int n;
} Attrs;
#define NO_ATTRS ((Attrs){ NULL, 0 })
#define ATTRS(...) \
    ((Attrs){ (const Attr[]){ __VA_ARGS__ }, (int)(sizeof((const Attr[]){ __VA_ARGS__ }) / sizeof(Attr)) })
#define a_int(k, x) ((Attr){ .key = (k), .i = (x) })
#define a_float(k, x) ((Attr){ .key = (k), .f = (x) })
#define a_str(k, x) ((Attr){ .key = (k), .s = (x) })
#define a_ints(k, p, len) ((Attr){ .key = (k), .n = (len), .v = (p) })

/* Builds an instruction, inferring result types by the operation's rule; `types` gives results that cannot be
 * inferred (cast, splat, reshape, broadcast, for, if, ...) or is NULL. Operands, attributes and names are
 * copied. Operations with blocks get empty blocks; for `for`, `while`, `reduce`, `scan` with their arguments
 * already made. A breach of the rule is an internal error (ir_fail). */
Instr *ir_build(Builder *, Op, Value *const *operands, int n, Attrs, const Type *const *types, int n_types);
/* The same for a single result, as its value. */
Value *ir_emit(Builder *, Op, Value *const *operands, int n, Attrs, const Type *type);
#define ir_op(b, op, type, attrs, ...) \
    ir_emit((b), (op), (Value *[]){ __VA_ARGS__ }, \
        (int)(sizeof((Value *[]){ __VA_ARGS__ }) / sizeof(Value *)), (attrs), (type))
Value *ir_un(Builder *, Op, Value *);
Value *ir_bin(Builder *, Op, Value *, Value *);
Value *ir_const_int(Builder *, DType, int64_t);  /* wrapped to the dtype */
Value *ir_const_float(Builder *, DType, double); /* rounded to the dtype */
Value *ir_index(Builder *, int64_t);
Value *ir_cast(Builder *, Value *, DType); /* the value itself if it has that dtype */
Value *ir_splat(Builder *, Value *scalar, int rank, const int64_t *shape);
/* Builds without looking at the rule: what the parser reads, to be verified later. Blocks are empty and
 * without arguments. */
Instr *ir_build_raw(
    Builder *, Op, Value *const *operands, int n, Attrs, const Type *const *types, int n_results);
/* Checks an instruction to be against its rule without building it: NULL, or the reason in the session's
 * arena. On success results[0..*n_results) hold the types. *n_results is in/out: declared on entry (with
 * types), all on return. The front end reports the reason at the source location. */
const char *ir_infer(
    Session *, Op, Value *const *operands, int n, Attrs, const Type **results, int *n_results);
/* The same for an existing instruction (blocks included), which the verifier calls. */
const char *ir_check(Session *, const Instr *);
enum {
    IR_MAX_RESULTS = 64,
    IR_MAX_NESTING = 128,
    IR_MAX_COMBINED = 32 /* the values of one reduce or scan; of a program's, half as many at most */
};

/* An error of the compiler itself: records a diagnostic and leaves through session.oom (longjmp value 2). */
_Noreturn void ir_fail(Session *, Loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* --- reading ----------------------------------------------------------------------------------------- */

/* Builds without NDEBUG check that the operation has what is asked for. So code that asks before it knows
 * which operation it looks at fails on the first of another kind, though what it reads may be of no
 * consequence. */
static inline Value *ir_operand(const Instr *i, int k)
{
    assert(k >= 0 && k < i->n_operands);
    return i->operands[k].value;
}
static inline Value *ir_result(const Instr *i)
{
    assert(i->n_results > 0);
    return &i->results[0];
}
static inline Instr *ir_terminator(const Block *b) { return b->last; }
const Attr *ir_attr(const Instr *, AttrKey); /* NULL when absent */
int64_t ir_attr_int(const Instr *, AttrKey, int64_t otherwise);
bool ir_same_ints(const Instr *, const Instr *, AttrKey); /* an INTS attribute: both have the same, or none */
bool ir_same_window(const Instr *, const Instr *);        /* the same of extents, order and steps */
/* The value that a tile repeats, found through splats and broadcasts; the value itself if it repeats none. */
Value *ir_repeated(const Value *);
/* Whether the first one, or what holds it in the block of the second, is that one or stands before it. The
 * block of the second must hold the first. */
bool ir_comes_before(const Instr *, const Instr *);
bool ir_is_const(const Value *, int64_t *); /* integer, bool or index constants (through splat) */
bool ir_is_const_float(const Value *, double *);
bool ir_is_used(const Instr *);
int ir_use_count(const Value *);
bool ir_is_ancestor(const Block *outer, const Block *inner); /* outer == inner counts */
bool ir_defined_outside(
    const Value *, const Block *); /* its definition is neither in the block nor nested in it */

/* --- looking through blocks, all that their instructions hold included (find.c) ---------------------- */

typedef VEC(Instr *) InstrList;
typedef VEC(Value *) ValueList;
typedef bool InstrTest(const void *user, const Instr *);
typedef bool ValueTest(void *user, Value *);

/* Visits every instruction of a block, nested ones included, an instruction before its blocks. `fn` may erase
 * the instruction it is given, not others. */
void ir_walk(Block *, void (*fn)(void *, Instr *), void *user);
bool ir_any(const Instr *, InstrTest *,
    const void *user); /* of the instruction and of everything that it holds, in the order of ir_walk */
bool ir_any_in(const Block *, InstrTest *, const void *user);
bool ir_holds(const Block *, Op);
bool ir_is_or_holds(const Instr *, Op);
bool ir_holds_flag(const Block *, unsigned opf); /* OPF_.. */
bool ir_has_effects(const Instr *);              /* whether it writes, or holds an instruction that writes */
/* Drops results of ifs and for loops that nobody uses, in all blocks inside, and what was computed for them
 * alone. */
void ir_drop_unused(Block *);
/* Whether two scalars of a launch are computed by the same operations from the same dimensions, strides,
 * parameters and constants. They are then equal, whichever block each is in. */
bool ir_same_of_launch(const Func *, const Value *, const Value *);
bool ir_same_attrs(const Instr *, const Instr *);
/* Whether both are computed by the same pure operations, and loads of inputs, from the same values. Vendors'
 * compilers find that out and compute them once, wherever both stand. False, too, where there is much to
 * compare. */
bool ir_same_value(const Value *, const Value *);
/* The tile of the same rank that broadcasts repeat, the value itself if none does. */
Value *ir_unrepeated(Value *);
void ir_sweep(Block *); /* erases instructions without uses and effects, from the end of the block */
bool ir_reads_memory(const Instr *);
bool ir_is_rare(const Instr *); /* whether it is an `if` whose second block hardly ever runs */
/* Whether a pass recorded this kind of the loop: LOOP_EDGE, LOOP_CARRIED and so on. */
bool ir_loop_is(const Instr *, int kind);
/* Whether this is the loop over the programs of a persistent CTA. Its iterations are no steps of a program.
 * No pass may move work from one iteration to another. */
bool ir_over_programs(const Instr *);
Instr *ir_loop_around(const Instr *); /* the innermost loop that it is in, but for one over programs; NULL */
/* Whether the value, perhaps scaled, is the exponent of an exponential, so that its rounding matters. */
bool ir_is_exponent(const Value *);
void ir_collect(Arena *, const Block *, Op, InstrList *); /* appended in program order */
/* Whether the test holds for all operands of the instruction and of everything that it holds. */
bool ir_all_operands(const Instr *, ValueTest *, void *user);
/* The instruction of this block that is the given one or holds it; NULL: none. */
Instr *ir_within(const Block *, Instr *);
/* The first use of a product in flight, or of what may be one, before it is waited for (flight.c), and which
 * operand; NULL: there is none. */
const Instr *ir_flight_fault(Session *, const Func *, int *operand);
/* The first product whose left operand lies in registers that a loop carries, and that may be written while
 * the product still reads them (flight.c); NULL: there is none. */
const Instr *ir_operand_fault(Session *, const Func *);
/* held.c: whether the operation reads this operand from registers that hold it whole; whether registers hold
 * the tile whole; the first operand for which only one of these is true, or NULL. */
bool ir_held_operand(const Instr *, int k);
bool ir_is_held(const Value *);
const Instr *ir_held_fault(const Func *, int *operand);
/* An operation for which the roles of a kernel would wait for each other for ever (roles.c), and why; NULL:
 * there is none. */
const Instr *ir_roles_fault(const Func *, const char **why);
/* The loop of which a step's window is taken from the staging area of the cp.async producers, and its stage
 * reported full, a step later: the one around, if nothing in it waits for another loop and rings have stages
 * for it, or the loop over programs around that one, whose next program may have that step. NULL: none. */
const Instr *ir_cp_async_late_in(const Instr *ring_cp_async);
/* How many iterations later a stage of rows at arbitrary addresses is reported full, and 1 for other windows:
 * as many as leave three stages to the consumers. */
int ir_cp_async_lag(const Instr *ring_cp_async);
/* An operation by which a ring's stages are not filled, taken and given back once each, or by which roles
 * wait for each other for ever (ring_stages.c), and why; NULL: there is none. */
const Instr *ir_stages_fault(Session *, const Func *, const char **why);
/* A `while` that counts: its value `at` goes from lo in steps, as long as the next one is below hi (one
 * iteration of block 0 at least, and one less of block 1). */
typedef struct Counted {
    int at;
    Value *lo, *hi, *step;
} Counted;
bool ir_counted(const Instr *loop, Counted *);
/* A `while` whose test holds only where the value that it carries at `at` is below hi, and whose body adds
 * step to it. */
bool ir_tested(const Instr *loop, int at, Counted *);
Instr *ir_last_use_in(const Block *,
    const Value *); /* the last instruction of this block that is a user or holds one; NULL: none */

/* Parts of load, store, gather, scatter, atomics; absent ones are NULL. */
typedef struct MemParts {
    Value *tensor, *values[2], *mask, *pad, *token, *token_out, *result;
    Value *idx[TILE_MAX_RANK];
    int rank;
    int param; /* the index of the tensor's parameter */
} MemParts;
bool ir_mem_parts(const Instr *, MemParts *); /* false: not a memory operation */
/* The index along the last axis; NULL: the tensor has no axes. */
static inline Value *ir_last_index(const MemParts *m) { return m->rank ? m->idx[m->rank - 1] : NULL; }
/* Whether the last axis of the tensor is contiguous; false, too, of one without axes. */
static inline bool ir_last_is_unit(const Func *f, const MemParts *m)
{ return m->rank && f->params[m->param].stride[m->rank - 1] == 1; }
enum { SEMAPHORE_OF_ADDITION = 1, SEMAPHORE_OF_NONE }; /* `semaphore` of an atomic */
enum { BARRIER_ARRIVES = 1, BARRIER_WAITS };           /* `half` of a barrier */
enum { LANES_APART = 1, LANES_JOINED };                /* `lanes` of a reduction */
bool ir_adds(const Instr *);                           /* whether it is a store that adds (rmw) */
bool ir_orders(const Instr *);                         /* whether it is an atomic with acquire or release */
bool ir_is_semaphore(const Instr *);                   /* whether it is such an atomic with `semaphore` */
Instr *ir_semaphore_wait(const Instr *store);          /* the wait of an ordered addition; NULL: none */
Instr *ir_semaphore_signal(const Instr *store);        /* its signal; NULL: none */
bool ir_orders_memory(const Func *);                   /* whether it holds one */
/* Whether programs wait for other programs: whether a `while` holds an atomic with acquire or release. Then a
 * program must start no later than those that wait for it, which is so where programs start in the order of
 * their numbers and each waits for lower numbers only. */
bool ir_waits_for_programs(const Func *);

/* --- change ------------------------------------------------------------------------------------------ */

void ir_set_operand(Instr *, int k, Value *);
void ir_set_operands(Instr *, Value *const *, int n); /* replaces all */
void ir_set_attr(Session *, Instr *, Attr);           /* adds or replaces */
void ir_del_attr(Instr *, AttrKey);
void ir_unprove(Session *, Instr *); /* a load or store: what is proven of its window's place holds no more */
void ir_replace(Value *old, Value *by); /* all uses */
void ir_erase(Instr *);                 /* its results must be unused; its nested blocks are erased too */
void ir_unlink(Instr *);                /* takes it out of its block, so that it can be inserted again */
void ir_place(Builder *, Instr *);      /* inserts an unlinked instruction at the builder's position */
void ir_set_name(Value *, const char *);
/* Adds a carried value to `for` or `while`: rebuilds the instruction with one more init; returns the new
 * instruction (the old one is gone; its results are replaced). The block argument is the last; the yield gets
 * `next` (block 1 for while). */
Instr *ir_add_carried(Instr *, Value *init, Value *next_or_null);
/* Removes carried value k (its argument and result must be unused). */
void ir_drop_carried(Instr *, int k);
/* A tensor parameter's elements are of another type of as many bytes. The accesses are the caller's to
 * change. */
void ir_set_element_type(Session *, Func *, int param, DType);

/* Old value -> new value while copying. */
typedef struct ValueMap {
    Arena *arena;
    const Value **keys;
    Value **vals;
    size_t cap, n;
} ValueMap;
void value_map_init(ValueMap *, Arena *);
void value_map_set(ValueMap *, const Value *, Value *);
Value *value_map_get(const ValueMap *, Value *);       /* the value itself when not mapped */
Instr *ir_clone(Builder *, const Instr *, ValueMap *); /* with nested blocks; records results */
void ir_clone_block_into(Builder *, const Block *, ValueMap *, bool with_terminator);

/* A function's body as it is now, with the same numbers of values. Restoring it once undoes all that was done
 * to the body since; what was made since must not be used any more. */
typedef struct SavedBody {
    Block *body;
    uint32_t next_id;
} SavedBody;
SavedBody ir_body_save(Func *);
void ir_body_restore(Func *, const SavedBody *);
Module *ir_clone_module(const Module *);

/* --- text and checks (print.c, parse.c, verify.c) ---------------------------------------------------- */

void ir_print(const Module *, Text *);
enum { IR_PRINT_LOC = 1 }; /* ends each instruction with loc(line) */
void ir_print_with(const Module *, unsigned flags, Text *);
void ir_print_instr(const Instr *, Text *); /* one line, nested blocks as { ... } */
/* Reads source `file`: syntax and names only, ir_verify does the rest. Locations of the result point into
 * that text. NULL after one error. Extents are at most 2^31 - 1, tiles 2^40 elements, blocks nest
 * IR_MAX_NESTING deep. */
Module *ir_parse(Session *, uint32_t file);
bool ir_verify(Module *); /* false after diagnostics */
