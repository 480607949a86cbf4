/* lower.h: the inside of lowering (lower*.c). Lowering elaborates a kernel over concrete bindings: it walks
 * the tree once, evaluates what is known at compile time, checks types and shapes, and emits tile IR for the
 * rest. */
#pragma once
#include "frontend/parse/ast.h"
#include "frontend/check/call.h"
#include "ir/interp/scalar.h"

/* The value of an expression. */
typedef enum VKind {
    V_ERROR, /* poison: already reported */
    V_VOID,  /* no value */
    V_INT,   /* an integer constant without a type, which adapts to the other operand */
    V_FLOAT, /* the same with a fraction */
    V_CONST, /* constant of type `dtype` */
    V_IR,    /* a scalar or tile computed at run time */
    V_TYPE,  /* dtype */
    V_TUPLE,
    V_TENSOR, /* the kernel parameter `param`; -1 when only `has` may name it */
    V_ABSENT, /* an optional tensor that is not given; its name in `text` */
    V_NONE,
    V_STRING,
    V_TABLE, /* `n` constants of type `dtype` */
} VKind;

typedef struct V V;
struct V {
    VKind kind;
    DType dtype;
    int n, param;
    union {
        __int128 big;     /* V_INT */
        double f;         /* V_FLOAT */
        Scalar c;         /* V_CONST */
        Value *value;     /* V_IR */
        V *items;         /* V_TUPLE, V_TABLE */
        const char *text; /* V_STRING, V_ABSENT */
    };
};

typedef struct Var Var;
struct Var {
    const char *name;
    V v;
    bool is_var;           /* may be assigned */
    bool began_as_integer; /* its first value is an integer without a type, */
    int64_t began_as;      /* this one */
    Loc loc;
    Var *next;    /* of the same scope */
    int64_t mark; /* collect_assigned: the last traversal that met it */
    Var *elements;
    /* The number of variables of an array, each of which is a variable of its own; `v` is then unused. */
    int n_elements;
};

typedef struct Scope Scope;
struct Scope {
    Scope *outer;
    Var *vars;
    int n;
    NameMap map;
};

enum { MAX_RETURNS = 16 };

/* A function being lowered: the kernel, or a fn. */
typedef struct Frame {
    const Node *node;
    bool is_kernel;
    Var done; /* whether the path has returned: a bool, which is constant when that is known */
    /* -1: no `return` was met yet; 0: the function returns nothing; otherwise the number of values, 1 or
     * those of a tuple */
    int n_returns;
    bool tuple;
    Var returns[MAX_RETURNS]; /* V_VOID while unset */
    const Type *types[MAX_RETURNS];
    Loc return_loc;
    bool failed;  /* a returned value is an error */
    bool probing; /* inside a body that is lowered for its return types only */
} Frame;

/* fn calls being lowered, innermost first: named in diagnostics. */
typedef struct Active {
    const Node *fn;
    Loc loc;
    const struct Active *outer;
} Active;

typedef struct KParam {
    Var *var;
    ParamKind kind;
    const Type *type;
    Var token;
    const int *dims;
    bool is_semaphore; /* it orders additions (lower_ordered.c) */
} KParam;

/* A statement by which a program passes steps, to be checked when the loops around it are complete. */
typedef struct PassedSteps {
    const Instr *atomic;
    Loc at;
} PassedSteps;

/* An addition in an order, and its step. */
typedef struct OrderedStore {
    const Instr *store;
    const Value *step;
    Loc at;
} OrderedStore;

typedef VEC(const Node *) Nodes;

typedef struct Lower Lower;
struct Lower {
    Session *s;
    Ast *ast;
    const FrontBinding *bindings;
    size_t n_bindings;
    const char *target;
    Module *module;
    Func *func;
    const FrontKernel *front; /* the kernel being lowered; NULL while constants are evaluated */
    Builder b;
    Scope *scope, *globals;
    Frame *frame;
    KParam *params;
    VEC(PassedSteps) passes; /* lower_ordered.c */
    VEC(OrderedStore) ordered;
    int n_params;
    /* Of the block being built, which has the kernel's parameters: body, grid or remap. */
    Value **args;
    /* for each dimension symbol, its value in that block; NULL until it is first needed */
    Value **dims;
    bool in_clause;       /* in a grid or remap, which have no memory and no program_id */
    int in_combine;       /* in a combine function, whose calls are expanded */
    int depth;            /* fn calls */
    int recursion;        /* levels of lower_expr and lower_stmt */
    int nesting, deepest; /* the blocks around the builder's position; the most so far in this function */
    const Active *active;
    NameMap purity; /* per fn, see lower_fn.c */
    int64_t mark;
    int64_t steps;
    bool stopped;        /* a limit was reached, and every further value is an error */
    Nodes unrolled;      /* each `const for` whose body cannot be that of a loop at run time */
    bool again;          /* one more was found: the kernel has to be lowered once more */
    NameMap specialized; /* key text -> Specialized */
    unsigned n_functions;
};

/* lower_scope.c */
V lower_error(Lower *, Loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); /* reports, gives V_ERROR */
V lower_error_note(Lower *, Loc, const char *note, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool lower_step(Lower *, Loc); /* counts a unit of work; false: a limit is reached */
/* lower_step, and one level deeper; after true, the caller decrements l->recursion on its way back */
bool lower_descend(Lower *, Loc);
Var *lower_scope_find(const Lower *, const char *name);
Var *lower_scope_add(Lower *, const char *name, Loc, V, bool is_var);
void lower_scope_push(Lower *, Scope *);
void lower_scope_pop(Lower *);

/* lower.c, lower_clauses.c */
Value *lower_dim(Lower *, int dim);
const Node *lower_hint_argument(const Lower *, const Node *clause, const char *name);
bool lower_param_type(Lower *, const Node *type, DType *out); /* the element type of a parameter */
/* The value of `const TYPE name`, from an expression or a binding: `int` and `float` stay without a type. */
V lower_const_value(Lower *, const Node *type, V, Loc);
const char *lower_binder(const Lower *); /* how a user binds a const or an extent */
void lower_const(Lower *, const Node *); /* a local or global N_CONSTANT, or a N_PCONST with its default */
const Node *ast_find_fn(const Ast *, const char *name);

/* value.c: values, types, constants */
V value_error(void);
V value_void(void);
V value_int(__int128);
V value_float(double);
V value_const(DType, Scalar);
V value_bool(bool);
V value_index(int64_t);
V value_ir(Value *);
V value_type(DType);
V value_tuple(Lower *, int n, const V *);
bool value_is_number(V); /* V_INT, V_FLOAT, V_CONST, V_IR */
bool value_is_untyped(V);
bool value_is_known(V);           /* a constant of any kind */
bool value_to_int(V, __int128 *); /* integer constants, typed or not */
bool value_to_bool(V, bool *);
DType value_dtype(V); /* V_CONST, V_IR */
int value_rank(V);
const int64_t *value_shape(V);
const char *value_describe(Lower *, V); /* for messages: `f16[128, 64]`, `an integer literal`, ... */
/* Gives a constant without a type the dtype and checks its range; other values are not changed. */
V lower_adapt(Lower *, V, DType, Loc);
V lower_concretize(Lower *, V, Loc);       /* gives a constant without a type the type index or f32 */
Value *lower_materialize(Lower *, V, Loc); /* the value as IR; NULL, after a message, if it is no number */
Value *lower_to_shape(Lower *, Value *, int rank, const int64_t *shape);
bool lower_no_elements(Lower *, Loc, int64_t extent); /* reports an extent below 1 and returns false */
/* NULL, after a message, if it exceeds a limit */
const Type *lower_tile_type(Lower *, Loc, DType, int rank, const int64_t *shape);
/* adapts literals, and reports operands of different types */
bool lower_same_dtype(Lower *, Loc, const char *what, V *a, V *b);
bool lower_join_shapes(Lower *, Loc, const char *what, const V *v, int n, int *rank, int64_t *shape);
V lower_apply(
    Lower *, Loc, const char *what, Op, V *v, int n, Attrs); /* element-wise, with broadcasting and folding */
V lower_cast(Lower *, V, DType, Loc);
V lower_emit(Lower *, Loc, const char *what, Op, Value **, int n, Attrs, const Type *);

/* lower_optional.c: optional tensors */
/* declares the names of optional tensors for `has`, before parameters are bound */
void lower_presence(Lower *, const Node *params);
/* declares the parameter of an optional tensor that is not given */
void lower_absent_tensor(Lower *, const Node *param);
bool lower_is_absent(Lower *, const Node *, V); /* reports the use of a tensor that is not given */
/* Whether a tensor that is given has the dimension. */
bool lower_dim_is_given(const Lower *, const FrontKernel *, const char *dim);
/* A dimension that only tensors that are not given have. */
bool lower_absent_dim(Lower *, const Node *name, V *out);

/* lower_expr.c */
V lower_expr(Lower *, const Node *);
bool lower_const_int(Lower *, const Node *, const char *what, int64_t lo, int64_t hi, int64_t *out);
bool lower_const_bool(Lower *, const Node *, const char *what, bool *out);
bool lower_const_shape(Lower *, const Node *, const char *what, int *rank, int64_t *shape);
bool lower_const_dtype(Lower *, const Node *, DType *out);
Value *lower_index_value(Lower *, const Node *, const char *what); /* any integer scalar, as index */

/* Where a window has a tile of indices for a subscript. */
#define LOWER_GATHER_NOTE \
    "`gather(X[i, t])` reads one element for each index of a tile, `scatter` writes them; elements side by " \
    "side are a window: `X[i, a +: n]`"

/* lower_notes.c: the note for operands of two types, for shapes that do not fit */
const char *lower_mix_note(Lower *, const Node *mixed, V, V);
/* on a number where a list of extents stands; on a number as a condition */
const char *lower_list_note(Lower *, const Node *);
/* `a & b == c` compares first; NULL where the operator takes no comparison as a whole operand. */
const char *lower_tighter_note(Lower *, const Node *);
const char *lower_condition_note(Lower *, const Node *, V);
const char *lower_types_note(Lower *, V, V);
/* where a value is not of the type that is asked for */
const char *lower_type_note(Lower *, V, const char *type);
/* where `what` is no constant; where it is the number i, which it may not be (NULL: none) */
const char *lower_constant_note(const char *what);
const char *lower_range_note(Lower *, const char *what, int64_t i, int64_t hi);
/* On the assignment of a value of another type to a variable. */
const char *lower_assign_note(Lower *, const Var *, V);
const char *lower_shape_note(V, V);
/* What to write instead of an access by indices, `called`, to a tensor without axes. */
const char *lower_no_axis_note(Lower *, const char *called, const char *tensor);
void lower_axis_warning(Lower *, const Node *call, V first, const Node *second);

/* lower_bits.c */
V lower_bits(Lower *, const Node *call, V); /* popcount, clz, ffs */

/* lower_part.c */
Value *lower_cut(Lower *, Loc, Value *, int axis, int64_t base, int64_t extent); /* part of one axis */
V lower_part(Lower *, const Node *, Value *);                /* a tile with subscripts: N_INDEX */
V lower_table(Lower *, const Node *type, const Node *table); /* N_TABLE */
V lower_table_entry(Lower *, const Node *, V table);

/* lower_call.c, lower_memory.c */
V lower_call(Lower *, const Node *);
typedef struct Call {
    const Node *node;
    const Builtin *builtin;
    CallArgs args;
} Call;
#define ARG(c, k) ((c)->args.slot[k])
Value *lower_operand(Lower *, const Node *); /* a tile or scalar as IR; NULL after an error */
Value *lower_tile_operand(
    Lower *, const Call *, const Node *); /* an operand that must be a tile; NULL after a message */
bool lower_flag(Lower *, const Node *, const char *what, bool *out); /* false where it is left out */
bool lower_axis(
    Lower *, const Node *, int rank, int64_t *axis); /* an axis of a tile, from the end when negative */
bool lower_axes(Lower *, const Node *, int rank, int *axes, int *n); /* highest first; all if not given */
V lower_load(Lower *, const Call *);
V lower_store(Lower *, const Call *);
V lower_gather(Lower *, const Call *);
V lower_scatter(Lower *, const Call *);
V lower_atomic(Lower *, const Call *, int rmw);
V lower_atomic_cas(Lower *, const Call *);

/* lower_ordered.c: additions in a fixed order */
typedef struct OrderedAdd {
    int param;   /* the semaphore; -1: the addition has no place in an order */
    Value *step; /* an i32 */
} OrderedAdd;
bool lower_ordered_begin(
    Lower *, const Call *, OrderedAdd *);                  /* reads the arguments; false after a message */
void lower_ordered_wait(Lower *, Loc, const OrderedAdd *); /* before the addition */
void lower_ordered_pass(Lower *, Loc, const OrderedAdd *); /* after it */
bool lower_ordered_falls(const Value *step); /* whether it may be smaller for a later program of a chain */
void lower_ordered_prove(Lower *);           /* lower_ordered_proof.c */
V lower_pass_steps(Lower *, const Call *);   /* a program passes steps at which it does not add */
void lower_ordered_end(Lower *, Loc);        /* where a kernel ends: programs have passed all their steps */

/* lower_shape.c */
V lower_reshape(Lower *, const Call *);
V lower_transpose(Lower *, const Call *);
V lower_permute(Lower *, const Call *);
V lower_broadcast(Lower *, const Call *);
V lower_concat(Lower *, const Call *);
V lower_split(Lower *, const Call *);
V lower_shift(Lower *, const Call *);

/* lower_fn.c */
V lower_fn_call(Lower *, const Node *call, const Node *fn);
/* Whether the function and the functions it calls access no memory, no launch values, and print nothing. */
bool lower_fn_is_pure(Lower *, const Node *fn);
bool lower_is_pure(Lower *, const Node *); /* the same of an expression */
V lower_expand_fn(Lower *, Loc, const Node *fn, const V *args);

V lower_has(Lower *, const Call *);          /* lower_optional.c */
V lower_product(Lower *, const Call *);      /* lower_product.c: mma */
V lower_combined(Lower *, const Call *, Op); /* lower_combine.c: reduce and scan by a fn */

/* lower_stmt.c, lower_flow.c */
void lower_block(Lower *, const Node *block, bool tail);
bool lower_enter_blocks(
    Lower *, Loc, int levels); /* false: a limit is reached; leave_blocks only after true */
void lower_leave_blocks(Lower *, int levels);
Frame lower_frame_new(const Node *, bool is_kernel);
V lower_frame_result(Lower *, Frame *);
