/* gen_ir.c: makes the kernel, its parameters, grid and outputs (gen_ir.h). A pool of values grows by random
 * steps; each value carries whether it is exact and a bound of its magnitude, from which each step knows what
 * it may do. */
#include "gen_state.h"

static int64_t extent(Gen *g, int64_t most)
{
    if (g->flags & GEN_BIG_TILES) most *= 4;
    if (!(g->flags & GEN_POW2)) return 1 + irgen_below(g, (int)most);
    int64_t e = 1;
    while (e < most && irgen_chance(g, 75)) e *= 2;
    return e;
}

static void make_params(Gen *g)
{
    Func *f = g->f;
    int m = ir_dim_new(f, "M", -1), n = ir_dim_new(f, "N", -1), k = ir_dim_new(f, "K", -1),
        l = ir_dim_new(f, "L", -1), h = ir_dim_new(f, NULL, 8);
    DType d =
        (DType)ONE_OF(g, DT_F16, DT_F16, DT_BF16, DT_F32, DT_F32, DT_I8, DT_U8, DT_F64, DT_F8E4M3, DT_F8E5M2);
    if ((g->flags & GEN_NO_WIDE) && d == DT_F64) d = DT_F16;
    if ((g->flags & GEN_NO_FP8) && dtype_is_float(d) && dtype_bits(d) == 8) d = DT_BF16;
    g->mma_type[0] = g->mma_type[1] = d;
    if (dtype_bits(d) == 8 && irgen_chance(g, 40))
        g->mma_type[1] = d == DT_I8 ? DT_U8 : d == DT_U8 ? DT_I8 : d == DT_F8E4M3 ? DT_F8E5M2 : DT_F8E4M3;
    g->rmw = ONE_OF(g, RMW_ADD, RMW_ADD, RMW_MAX, RMW_MIN, RMW_AND, RMW_OR, RMW_XOR);
    g->j_type = irgen_any_int(g);
    if (g->j_type == DT_INDEX) g->j_type = DT_I32;
    g->w_type = irgen_chance(g, 35)   ? DT_F32
                : irgen_chance(g, 50) ? DT_I32
                : irgen_chance(g, 50) ? irgen_any_float(g)
                                      : irgen_any_int(g);
    if (g->w_type == DT_INDEX) g->w_type = DT_U8;
    ir_param_new(f, "A", PARAM_IN, type_tensor(g->s, irgen_chance(g, 50) ? DT_F32 : irgen_any_float(g), 2),
        (int[]){ m, n });
    ir_param_new(f, "B", PARAM_IN, type_tensor(g->s, g->mma_type[0], 2), (int[]){ m, k });
    ir_param_new(f, "C", PARAM_IN, type_tensor(g->s, g->mma_type[1], 2), (int[]){ k, n });
    ir_param_new(f, "I", PARAM_IN, type_tensor(g->s, DT_I32, 1), (int[]){ l });
    ir_param_new(f, "J", PARAM_IN, type_tensor(g->s, g->j_type, 2), (int[]){ m, n });
    ir_param_new(f, "W", PARAM_INOUT, type_tensor(g->s, g->w_type, 2), (int[]){ m, n });
    ir_param_new(f, "H", PARAM_INOUT, type_tensor(g->s, DT_I32, 1), (int[]){ h });
    ir_param_new(f, "n", PARAM_SCALAR, type_scalar(g->s, DT_INDEX), NULL);
    ir_param_new(f, "alpha", PARAM_SCALAR, type_scalar(g->s, DT_F32), NULL);
    g->out_type[0] = DT_F32;
    g->out_type[1] = DT_I32;
    g->out_type[2] = irgen_any_float(g);
    g->out_type[3] = irgen_any_int(g);
    for (int o = 0; o < N_OUT; o++) {
        if (g->out_type[o] == DT_INDEX) g->out_type[o] = DT_U16;
        ir_param_new(f, (const char *[]){ "O0", "O1", "O2", "O3" }[o], PARAM_OUT,
            type_tensor(g->s, g->out_type[o], 2), (int[]){ m, n });
    }
    f->params[P_N].lo = 0;
    f->params[P_N].hi = 5;
    f->params[P_ALPHA].lo = -3;
    f->fits32 = irgen_chance(g, 60);
    f->extents31 = irgen_chance(g, 60);
    for (int p = 0; p < f->n_params; p++) {
        Param *q = &f->params[p];
        if (q->type->kind != TYPE_TENSOR) continue;
        if (irgen_chance(g, 70)) q->stride[q->type->rank - 1] = 1;
        if (q->type->rank == 2 && irgen_chance(g, 40)) q->stride_div[0] = 16;
        if (irgen_chance(g, 50)) q->align = 16;
    }
    if (irgen_chance(g, 30)) f->dims[m].div = g->tm;
    if (irgen_chance(g, 30)) f->dims[n].div = g->tn;
}

static void make_grid(Gen *g)
{
    Func *f = g->f;
    f->grid = ir_block_new(f, NULL);
    for (int p = 0; p < f->n_params; p++) ir_block_arg(f->grid, f->params[p].type, f->params[p].name);
    Builder b = ir_at_end(f->grid);
    Value *axes[2];
    for (int a = 0; a < 2; a++)
        axes[a] = ir_bin(&b, OP_CDIV, ir_emit(&b, OP_DIM, NULL, 0, ATTRS(a_int(ATTR_DIM, a)), NULL),
            ir_index(&b, a ? g->tn : g->tm));
    ir_build(&b, OP_YIELD, axes, 2, NO_ATTRS, NULL, 0);
}

/* Any value as a tile [TM, TN]. */
static Value *as_tile(Gen *g, Value *v)
{
    int64_t shape[2] = { g->tm, g->tn };
    const Type *t = v->type, *want = type_tile(g->s, t->dtype, 2, shape);
    if (t == want) return v;
    if (t->kind == TYPE_TILE && t->rank == 2 && (t->shape[0] == 1 || t->shape[0] == g->tm) &&
        (t->shape[1] == 1 || t->shape[1] == g->tn))
        return ir_op(&g->b, OP_BROADCAST, want, NO_ATTRS, v);
    if (t->kind == TYPE_TILE) {
        int64_t n = type_elements(t);
        Value *flat = ir_op(&g->b, OP_RESHAPE, type_tile(g->s, t->dtype, 1, &n), NO_ATTRS, v);
        v = ir_op(&g->b, OP_REDUCE_MAX, NULL, ATTRS(a_int(ATTR_AXIS, 0), a_int(ATTR_DROP, 1)), flat);
    }
    return irgen_splat(g, want, v);
}

static void make_outputs(Gen *g, GenKernel *k)
{
    int64_t extents[2] = { g->tm, g->tn };
    const bool one = g->flags & GEN_SHORT;
    const int first = one ? irgen_below(g, N_OUT) : 0, last = one ? first : N_OUT - 1;
    for (int o = first; o <= last; o++) {
        Val x = irgen_pick(g, is_number);
        DType d = g->out_type[o];
        if (!dtype_is_float(d) || dtype_bits(d) == 8) x = irgen_pick(g, is_exact_number);
        if (dtype_is_float(d) && x.mag > irgen_exact_limit(d))
            x.v = dtype_is_signed(x.v->type->dtype) || x.taint || dtype_is_float(x.v->type->dtype)
                      ? irgen_clamped(g, x.v, -4, 4)
                      : irgen_clamped(g, x.v, 0, 4);
        Value *v = ir_cast(&g->b, as_tile(g, x.v), d),
              *t = ir_emit(&g->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, P_OUT + o)), NULL);
        Value *ops[5] = { g->f->body->args[P_OUT + o], g->row, g->col, v, t };
        ir_build(&g->b, OP_STORE, ops, 5, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0);
        k->exact[P_OUT + o] = !x.taint;
    }
    ir_build(&g->b, OP_RETURN, NULL, 0, NO_ATTRS, NULL, 0);
}

static void make_body(Gen *g, GenKernel *k)
{
    Func *f = g->f;
    g->b = ir_at_end(f->body);
    Value *pid[2];
    for (int a = 0; a < 2; a++) {
        pid[a] = ir_emit(&g->b, OP_PROGRAM_ID, NULL, 0, ATTRS(a_int(ATTR_AXIS, a)), NULL);
        irgen_keep(g, pid[a], 0, INFINITY);
    }
    g->row = ir_bin(&g->b, OP_MUL, pid[0], ir_index(&g->b, g->tm));
    g->col = ir_bin(&g->b, OP_MUL, pid[1], ir_index(&g->b, g->tn));
    ir_set_name(g->row, "row");
    ir_set_name(g->col, "col");
    g->tok_w = ir_emit(&g->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, P_W)), NULL);
    g->tok_h = ir_emit(&g->b, OP_TOKEN, NULL, 0, ATTRS(a_int(ATTR_PARAM, P_H)), NULL);
    irgen_keep(g, f->body->args[P_N], 0, 5);
    irgen_keep(g, f->body->args[P_ALPHA], 0, 3);
    irgen_keep(g,
        ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), type_tile(g->s, DT_I32, 1, &g->tn)),
        0, 64);
    irgen_load_window(g, P_A, g->tm, g->tn);
    irgen_load_window(g, P_J, g->tm, g->tn);
    irgen_steps(g, g->flags & GEN_SHORT ? 2 + irgen_below(g, 7) : 12 + irgen_below(g, 24));
    make_outputs(g, k);
}

static Gen *begin(Session *s, uint64_t seed, unsigned flags, GenKernel *k)
{
    Gen *g = arena_new(&s->arena, Gen);
    *k = (GenKernel){ .seed = seed };
    *g = (Gen){ .huge = irgen_huge(seed),
        .tiny = irgen_tiny(seed),
        .s = s,
        .rng = seed * 2654435761u + 12345,
        .flags = flags,
        .budget = flags & GEN_SHORT ? 16 : 90 };
    g->tm = extent(g, 8);
    g->tn = extent(g, 16);
    g->tk = extent(g, 8);
    return g;
}

void gen_kernel(Session *s, uint64_t seed, unsigned flags, GenKernel *k)
{
    Gen *g = begin(s, seed, flags, k);
    k->module = ir_module_new(s);
    k->func = g->f = ir_func_new(k->module, "random", true);
    make_params(g);
    make_grid(g);
    k->n = g->f->n_params;
    for (int p = 0; p < k->n; p++) k->exact[p] = true;
    make_body(g, k);
    irgen_args(g, k);
    gen_fill(k);
}

void gen_replay(Session *s, Module *m, uint64_t seed, unsigned flags, GenKernel *k)
{
    Gen *g = begin(s, seed, flags, k);
    k->module = m;
    k->func = g->f = m->funcs;
    k->n = g->f->n_params;
    irgen_args(g, k);
    gen_fill(k);
}
