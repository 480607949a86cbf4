/* gen_state.h: what the parts of gen_ir share: the program under construction and the pool of its values
 * (gen_pool.c), from which each step (gen_steps.c, gen_memory.c, gen_control.c) takes its operands. */
#pragma once
#include "gen_ir.h"
#include <math.h>

typedef struct Val {
    Value *v;
    int taint;  /* 0: exact; otherwise the number of steps since an inexact operation */
    double mag; /* |x| <= mag; INFINITY: unknown (integers) */
} Val;

enum { POOL = 400, P_A = 0, P_B, P_C, P_I, P_J, P_W, P_H, P_N, P_ALPHA, P_OUT, N_OUT = 4, MAX_TAINT = 3 };

typedef struct Gen {
    Session *s;
    Func *f;
    Builder b;
    uint64_t rng;
    unsigned flags;
    Val pool[POOL];
    int n_pool, budget, depth;
    int64_t tm, tn, tk;
    DType mma_type[2], j_type, w_type, out_type[N_OUT];
    int rmw;
    bool huge; /* inputs near the largest float: no sums and products of floats */
    bool tiny; /* denormals among the inputs: sums and products of floats are inexact (irgen_sum_taint) */
    Value *row, *col; /* first row and column of this program's tile */
    Value *tok_w, *tok_h;
} Gen;

/* gen_pool.c. The next number of a sequence that `state` begins. */
uint64_t irgen_random(uint64_t *state);
static inline int irgen_below(Gen *g, int n) { return (int)(irgen_random(&g->rng) % (uint64_t)n); }
static inline bool irgen_chance(Gen *g, int percent) { return irgen_below(g, 100) < percent; }
#define ONE_OF(g, ...) \
    ((const int[]){ \
        __VA_ARGS__ }[irgen_below((g), (int)(sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))])

/* Puts a value into the pool; irgen_keep_settled first gives it a magnitude that its dtype holds exactly,
 * with room for a step or two. */
Val irgen_keep(Gen *, Value *, int taint, double mag);
Val irgen_keep_settled(Gen *, Value *, int taint, double mag);
double irgen_exact_limit(DType); /* integers of this magnitude and below are exact in the dtype */
/* What a sum or product of numbers of this taint is marked with. Of small whole numbers it is exact. One of
 * 6e-8 or a denormal beside them is lost or not by the order of the additions and by contraction, and some
 * units take a denormal operand for zero: 2 - 6e-8 is 2 in one order and just below 2 in another, and
 * differs by a whole number once it is rounded down or converted to an integer. */
int irgen_sum_taint(const Gen *, const Val *, int taint);
Value *irgen_constant(Gen *, DType, int v);
Value *irgen_splat(Gen *, const Type *, Value *scalar); /* the scalar as a value of this type */
Value *irgen_clamped(Gen *, Value *, int lo, int hi);
DType irgen_any_int(Gen *);
DType irgen_any_float(Gen *);
/* A random value of the pool for which `fits` holds; v == NULL when there is none. */
Val irgen_pick(Gen *, bool (*fits)(const Val *));
/* An exact value of just this type, of the pool or made up. */
Val irgen_like(Gen *, const Type *);

static inline bool is_number(const Val *x) { return x->v->type->dtype != DT_BOOL; }
static inline bool is_tile(const Val *x) { return x->v->type->kind == TYPE_TILE; }
static inline bool is_any(const Val *x) { return x->v != NULL; }
static inline bool is_exact_number(const Val *x) { return is_number(x) && !x->taint; }
static inline bool is_exact_tile(const Val *x) { return is_tile(x) && is_exact_number(x); }
static inline bool is_exact_float(const Val *x) { return dtype_is_float(x->v->type->dtype) && !x->taint; }
static inline bool is_integer(const Val *x) { return dtype_is_int(x->v->type->dtype); }
static inline bool is_index_scalar(const Val *x)
{ return x->v->type->kind == TYPE_SCALAR && x->v->type->dtype == DT_INDEX; }
static inline bool is_exact_scalar(const Val *x)
{ return x->v->type->kind == TYPE_SCALAR && !x->taint && is_number(x); }
static inline bool is_bool(const Val *x) { return x->v->type->dtype == DT_BOOL; }
static inline bool is_bool_tile(const Val *x) { return is_tile(x) && is_bool(x); }
static inline bool is_bool_scalar(const Val *x) { return x->v->type->kind == TYPE_SCALAR && is_bool(x); }

/* gen_steps.c: values from values */
void step_unary(Gen *);
void step_binary(Gen *);
void step_ternary(Gen *);
void step_where(Gen *);
void step_logic(Gen *);
void step_function(Gen *);
void step_cast(Gen *);
void step_reduce(Gen *);
void step_reduce_block(Gen *);
void step_scan(Gen *);
void step_sort(Gen *);
void step_shape(Gen *);
void step_philox(Gen *);
void step_launch(Gen *);
void step_bitcast(Gen *);

/* gen_memory.c: loads, stores and atomics */
Val irgen_load_window(Gen *, int param, int64_t m, int64_t n);
void step_load(Gen *);
void step_gather(Gen *);
void step_own_tile(Gen *);
void step_atomic(Gen *);
void step_scatter(Gen *);
void step_acquire(Gen *);

/* gen_control.c: random steps of every kind, products, loops and branches among them */
void irgen_steps(Gen *, int n);

/* gen_tensors.c: whether the seed's inputs have numbers near the largest, or denormals; the tensors that a
 * kernel of these parameters is run on */
bool irgen_huge(uint64_t seed);
bool irgen_tiny(uint64_t seed);
void irgen_args(Gen *, GenKernel *);
