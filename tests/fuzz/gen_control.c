/* gen_control.c: loops, branches and products, whose bodies are steps again, and the choice of a step. */
#include "gen_state.h"

/* A window as an operand of a product; turned: one of other elements, read across. Sometimes it goes through
 * arithmetic first. */
static Value *operand(Gen *g, Value *const *ops, const int64_t *extents, bool turned)
{
    int64_t across[2] = { extents[1], extents[0] }, order[2] = { 1, 0 };
    Value *swapped[3] = { ops[0], ops[2], ops[1] };
    Attr attrs[3] = { a_ints(ATTR_EXTENTS, turned ? across : extents, 2),
        a_int(ATTR_LATENCY, 1 + irgen_below(g, 3)), a_ints(ATTR_ORDER, order, 2) };
    Value *v =
        ir_emit(&g->b, OP_LOAD, turned ? swapped : (Value **)ops, 3, (Attrs){ attrs, turned ? 3 : 2 }, NULL);
    return irgen_chance(g, 20)
               ? ir_bin(&g->b, OP_MIN, v, irgen_splat(g, v->type, irgen_constant(g, v->type->dtype, 2)))
               : v;
}

/* A product of two windows (of A, cast), summed over a loop or alone. */
static void step_mma(Gen *g)
{
    if (g->huge && dtype_is_float(g->mma_type[0])) return;
    int64_t shape[2] = { g->tm, g->tn };
    DType d = g->mma_type[0], acc_type = d == DT_F64 ? DT_F64 : dtype_is_int(d) ? DT_I32 : DT_F32;
    Value *acc =
        irgen_splat(g, type_tile(g->s, acc_type, 2, shape), irgen_constant(g, acc_type, irgen_below(g, 3)));
    Value *zero = ir_index(&g->b, 0), *one = ir_index(&g->b, 1), *size = ir_index(&g->b, g->tk);
    Value *trips =
        irgen_chance(g, 50)
            ? ir_index(&g->b, irgen_below(g, 4))
            : ir_bin(&g->b, OP_CDIV, ir_emit(&g->b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, 2)), NULL), size);
    Value *init[4] = { zero, trips, one, acc };
    Instr *loop = ir_build(&g->b, OP_FOR, init, 4, NO_ATTRS, NULL, 0);
    Builder outer = g->b;
    g->b = ir_at_end(loop->blocks[0]);
    Value *at = ir_bin(&g->b, OP_MUL, loop->blocks[0]->args[0], size);
    int64_t ea[2] = { g->tm, g->tk }, eb[2] = { g->tk, g->tn };
    Value *oa[3] = { g->f->body->args[P_B], g->row, at }, *ob[3] = { g->f->body->args[P_C], at, g->col };
    Value *a = operand(g, oa, ea, irgen_chance(g, 30)), *b = operand(g, ob, eb, irgen_chance(g, 30));
    bool tf32 = d == DT_F32 && irgen_chance(g, 50); /* small whole numbers are exact in tf32 */
    Value *next = ir_op(&g->b, OP_MMA, NULL,
        ATTRS(a_int(ATTR_PRECISION, tf32 ? PRECISION_TF32 : PRECISION_FULL)), a, b, loop->blocks[0]->args[1]);
    ir_build(&g->b, OP_YIELD, &next, 1, NO_ATTRS, NULL, 0);
    g->b = outer;
    const Val sum = { ir_result(loop), 0, acc_type == DT_I32 ? INFINITY : 3 + 3 * 16 * (double)g->tk };
    irgen_keep_settled(g, sum.v, irgen_sum_taint(g, &sum, 0), sum.mag);
}

/* Values to carry: exact, floats within what every round can promise. */
static int carried(Gen *g, Value **out, int most)
{
    int n = 0;
    for (int k = 0; k < most; k++) {
        Val x = irgen_pick(g, irgen_chance(g, 70) ? is_number : is_any);
        if (!x.v || x.taint) continue;
        out[n++] = dtype_is_float(x.v->type->dtype) && x.mag > 4 ? irgen_clamped(g, x.v, -4, 4) : x.v;
    }
    return n;
}

static Value *promised(Gen *g, const Type *t)
{
    Val x = irgen_like(g, t);
    return dtype_is_float(t->dtype) && x.mag > 4 ? irgen_clamped(g, x.v, -4, 4) : x.v;
}

static double carried_mag(const Type *t) { return dtype_is_float(t->dtype) ? 4 : INFINITY; }

static void step_for(Gen *g)
{
    Value *ops[12], *yields[8];
    int n = 5;
    ops[0] = ir_index(&g->b, irgen_below(g, 3) - 1);
    ops[1] = irgen_chance(g, 50) ? g->f->body->args[P_N] : ir_index(&g->b, irgen_below(g, 5));
    ops[2] = ir_index(&g->b, 1 + irgen_below(g, 2));
    ops[3] = g->tok_w;
    ops[4] = g->tok_h;
    n += carried(g, ops + n, 1 + irgen_below(g, 3));
    Instr *loop = ir_build(&g->b, OP_FOR, ops, n, NO_ATTRS, NULL, 0);
    Builder outer = g->b;
    int pool = g->n_pool;
    Block *b = loop->blocks[0];
    g->b = ir_at_end(b);
    g->tok_w = b->args[1];
    g->tok_h = b->args[2];
    irgen_keep(g, b->args[0], 0, 8);
    for (int k = 3; k < b->n_args; k++) irgen_keep(g, b->args[k], 0, carried_mag(b->args[k]->type));
    irgen_steps(g, 3 + irgen_below(g, 5));
    for (int k = 3; k < b->n_args; k++) yields[k - 1] = promised(g, b->args[k]->type);
    yields[0] = g->tok_w;
    yields[1] = g->tok_h;
    ir_build(&g->b, OP_YIELD, yields, b->n_args - 1, NO_ATTRS, NULL, 0);
    g->b = outer;
    g->n_pool = pool;
    g->tok_w = &loop->results[0];
    g->tok_h = &loop->results[1];
    for (int k = 2; k < loop->n_results; k++)
        irgen_keep(g, &loop->results[k], 0, carried_mag(loop->results[k].type));
}

static Value *condition(Gen *g)
{
    Val c = irgen_chance(g, 50) ? irgen_pick(g, is_bool_scalar) : (Val){ 0 };
    if (c.v) return c.v;
    Val x = irgen_pick(g, is_exact_scalar);
    if (!x.v) return ir_const_int(&g->b, DT_BOOL, 1);
    return ir_bin(&g->b, (Op)ONE_OF(g, OP_LT, OP_GE, OP_EQ), x.v, irgen_like(g, x.v->type).v);
}

static void step_if(Gen *g)
{
    const Type *types[8];
    int n = 2;
    Value *c = condition(g);
    types[0] = types[1] = type_token(g->s);
    Value *some[4];
    int extra = carried(g, some, irgen_below(g, 3));
    for (int k = 0; k < extra; k++) types[n++] = some[k]->type;
    Instr *i = ir_build(&g->b, OP_IF, &c, 1, NO_ATTRS, types, n);
    Builder outer = g->b;
    Value *tok_w = g->tok_w, *tok_h = g->tok_h;
    int pool = g->n_pool;
    for (int k = 0; k < 2; k++) {
        Value *yields[8];
        g->b = ir_at_end(i->blocks[k]);
        g->tok_w = tok_w;
        g->tok_h = tok_h;
        if (k == 0 || irgen_chance(g, 60)) irgen_steps(g, 2 + irgen_below(g, 4));
        for (int r = 2; r < n; r++) yields[r] = promised(g, types[r]);
        yields[0] = g->tok_w;
        yields[1] = g->tok_h;
        ir_build(&g->b, OP_YIELD, yields, n, NO_ATTRS, NULL, 0);
        g->n_pool = pool;
    }
    g->b = outer;
    g->tok_w = &i->results[0];
    g->tok_h = &i->results[1];
    for (int r = 2; r < n; r++) irgen_keep(g, &i->results[r], 0, carried_mag(types[r]));
}

static void step_while(Gen *g)
{
    if (g->flags & GEN_NO_WHILE) return;
    Value *ops[8] = { ir_const_int(&g->b, DT_I32, irgen_below(g, 4)), g->tok_w, g->tok_h }, *passed[9],
          *yields[8];
    int n = 3 + carried(g, ops + 3, 1 + irgen_below(g, 2));
    Value *step = ir_const_int(&g->b, DT_I32, 1), *limit = ir_const_int(&g->b, DT_I32, 3);
    Instr *i = ir_build(&g->b, OP_WHILE, ops, n, NO_ATTRS, NULL, 0);
    Builder outer = g->b;
    int pool = g->n_pool;
    g->b = ir_at_end(i->blocks[0]);
    passed[0] = ir_bin(&g->b, OP_LT, i->blocks[0]->args[0], limit);
    for (int k = 0; k < n; k++) passed[k + 1] = i->blocks[0]->args[k];
    ir_build(&g->b, OP_CONDITION, passed, n + 1, NO_ATTRS, NULL, 0);
    Block *b = i->blocks[1];
    g->b = ir_at_end(b);
    g->tok_w = b->args[1];
    g->tok_h = b->args[2];
    for (int k = 3; k < n; k++) irgen_keep(g, b->args[k], 0, carried_mag(b->args[k]->type));
    irgen_steps(g, 2 + irgen_below(g, 4));
    for (int k = 3; k < n; k++) yields[k] = promised(g, b->args[k]->type);
    yields[0] = ir_bin(&g->b, OP_ADD, b->args[0], step);
    yields[1] = g->tok_w;
    yields[2] = g->tok_h;
    ir_build(&g->b, OP_YIELD, yields, n, NO_ATTRS, NULL, 0);
    g->b = outer;
    g->n_pool = pool;
    g->tok_w = &i->results[1];
    g->tok_h = &i->results[2];
    for (int k = 3; k < n; k++) irgen_keep(g, &i->results[k], 0, carried_mag(i->results[k].type));
}

void irgen_steps(Gen *g, int n)
{
    static void (*const all[])(Gen *) = {
        step_unary,
        step_binary,
        step_binary,
        step_binary,
        step_ternary,
        step_ternary,
        step_where,
        step_logic,
        step_function,
        step_function,
        step_cast,
        step_cast,
        step_reduce,
        step_reduce,
        step_reduce_block,
        step_scan,
        step_sort,
        step_shape,
        step_shape,
        step_philox,
        step_load,
        step_gather,
        step_own_tile,
        step_atomic,
        step_scatter,
        step_acquire,
        step_launch,
        step_bitcast,
        step_mma,
        step_for,
        step_for,
        step_if,
        step_while,
    };
    enum { N = sizeof all / sizeof *all };
    g->depth++;
    for (int k = 0; k < n && g->budget > 0; k++, g->budget--) {
        int s = irgen_below(g, N);
        if (g->depth > 3 && s >= N - 5) s = irgen_below(g, N - 5);
        all[s](g);
    }
    g->depth--;
}
