/* interp_impl.h: what the files of the interpreter share. */
#pragma once
#include "ir/interp/interp.h"

typedef struct Interp {
    Session *s;
    const Func *kernel;
    const InterpArg *args;
    InterpOptions *opt;
    Arena arena;     /* holds values; freed at the end of the run, or with the session */
    jmp_buf stop;    /* the recovery point of a run that cannot continue */
    Scalar **values; /* by value id: its elements in row-major order, or NULL */
    size_t n_values;
    int64_t *dims; /* extents of kernel->dims */
    int64_t grid[3], n_programs, coord[3], program;
    int64_t steps_left, bytes_left;
    int calls;
    void *keys;
    int64_t n_keys; /* for sorting */
    Scalar *stage;
    int64_t n_stage; /* holds carried values while they are exchanged */
} Interp;

_Noreturn void interp_stop(Interp *, Loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void interp_count(Interp *, const Instr *, int64_t elements);
/* The buffer of a value (results and arguments: made when first asked for). */
Scalar *interp_value(Interp *, const Value *);
/* A buffer of n elements that lives as long as the run. */
Scalar *interp_buffer(Interp *, Loc, int64_t n);
void interp_block(Interp *, const Block *);

/* false: the operation is not one of those that it computes */
bool interp_shape_op(Interp *, const Instr *);
bool interp_reduce_op(Interp *, const Instr *);
bool interp_mem_op(Interp *, const Instr *);
void interp_message(Interp *, const Instr *); /* print and assert */

/* A row-major walk over a box of extents e[0..rank): coordinates in c. */
static inline bool interp_next(int rank, const int64_t *e, int64_t *c)
{
    for (int a = rank - 1; a >= 0; a--) {
        if (++c[a] < e[a]) return true;
        c[a] = 0;
    }
    return false;
}
static inline int interp_rank(const Type *t) { return t->kind == TYPE_SCALAR ? 0 : t->rank; }
static inline void interp_strides(const Type *t, int64_t *st)
{
    int64_t n = 1;
    for (int a = interp_rank(t) - 1; a >= 0; a--) {
        st[a] = n;
        n *= t->shape[a];
    }
}
