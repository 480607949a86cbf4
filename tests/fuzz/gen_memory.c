/* gen_memory.c: steps that load, gather, store and update tensors. */
#include "gen_state.h"

static Value *offset(Gen *g, Value *base)
{
    int c = irgen_below(g, 10) - 3;
    Val x = irgen_chance(g, 20) ? irgen_pick(g, is_index_scalar) : (Val){ 0 };
    if (x.v) return irgen_clamped(g, x.v, -5, 40);
    return irgen_chance(g, 50) ? base : ir_bin(&g->b, OP_ADD, base, ir_index(&g->b, c));
}

static double param_mag(Gen *g, int p)
{
    DType d = g->f->params[p].type->dtype;
    return dtype_is_float(d) || p == P_I ? 4 : INFINITY;
}

Val irgen_load_window(Gen *g, int p, int64_t m, int64_t n)
{
    Value *ops[8] = { g->f->body->args[p] };
    int k = 1;
    Attr attrs[6];
    int64_t extents[2] = { m, n }, steps[2] = { irgen_chance(g, 15) ? 2 : 1, irgen_chance(g, 15) ? 3 : 1 },
            order[2] = { 1, 0 };
    int na = 0, dropped = irgen_chance(g, 15) ? irgen_below(g, 2) : -1;
    ops[k++] = offset(g, g->row);
    ops[k++] = offset(g, g->col);
    if (dropped >= 0) extents[dropped] = -1;
    attrs[na++] = a_ints(ATTR_EXTENTS, extents, 2);
    if (irgen_chance(g, 25)) attrs[na++] = a_ints(ATTR_STEPS, steps, 2);
    if (irgen_chance(g, 25) && dropped < 0) attrs[na++] = a_ints(ATTR_ORDER, order, 2);
    if (irgen_chance(g, 25)) attrs[na++] = a_int(ATTR_LATENCY, 1 + irgen_below(g, 4));
    if (irgen_chance(g, 40)) {
        ops[k++] = irgen_constant(g, g->f->params[p].type->dtype, irgen_below(g, 4));
        attrs[na++] = a_int(ATTR_HAS_PAD, 1);
    }
    return irgen_keep(g, ir_emit(&g->b, OP_LOAD, ops, k, (Attrs){ attrs, na }, NULL), 0, param_mag(g, p));
}

void step_load(Gen *g) { irgen_load_window(g, ONE_OF(g, P_A, P_J, P_A), g->tm, g->tn); }

void step_gather(Gen *g)
{
    Val i = irgen_pick(g, is_integer);
    if (!i.v || type_elements(i.v->type) > 4096) return;
    Value *ops[5] = { g->f->body->args[P_I], i.v };
    int n = 2, na = 0;
    Attr attrs[2];
    if (irgen_chance(g, 50)) {
        ops[n++] = irgen_like(g, type_with_dtype(g->s, i.v->type, DT_BOOL)).v;
        attrs[na++] = a_int(ATTR_HAS_MASK, 1);
    }
    if (irgen_chance(g, 50)) {
        ops[n++] = ir_const_int(&g->b, DT_I32, irgen_below(g, 5));
        attrs[na++] = a_int(ATTR_HAS_PAD, 1);
    }
    irgen_keep(g, ir_emit(&g->b, OP_GATHER, ops, n, (Attrs){ attrs, na }, NULL), 0, 4);
}

/* All or a part of this program's own tile: parts overlap one another. */
void step_own_tile(Gen *g)
{
    int64_t extents[2] = { g->tm, g->tn };
    Value *w = g->f->body->args[P_W], *at[2] = { g->row, g->col };
    for (int a = 0; a < 2 && irgen_chance(g, 40); a++) {
        int from =
            (g->flags & GEN_POW2) ? (int)extents[a] / 2 * irgen_below(g, 2) : irgen_below(g, (int)extents[a]);
        if (from) at[a] = ir_bin(&g->b, OP_ADD, at[a], ir_index(&g->b, from));
        extents[a] = (g->flags & GEN_POW2) && extents[a] > 1 ? extents[a] / 2
                                                             : 1 + irgen_below(g, (int)extents[a] - from);
    }
    if (irgen_chance(g, 50)) {
        Value *ops[4] = { w, at[0], at[1], g->tok_w };
        Instr *i = ir_build(&g->b, OP_LOAD, ops, 4, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0);
        g->tok_w = &i->results[1];
        irgen_keep(g, &i->results[0], 0, dtype_is_float(g->w_type) ? 4 : INFINITY);
        return;
    }
    Val x = irgen_like(g, type_tile(g->s, g->w_type, 2, extents));
    if (x.mag > 4 && dtype_is_float(g->w_type)) x.v = irgen_clamped(g, x.v, -4, 4);
    Value *ops[5] = { w, at[0], at[1], x.v, g->tok_w };
    g->tok_w = ir_result(ir_build(&g->b, OP_STORE, ops, 5, ATTRS(a_ints(ATTR_EXTENTS, extents, 2)), NULL, 0));
}

void step_atomic(Gen *g)
{
    Val i = irgen_pick(g, is_integer);
    if (!i.v || (g->flags & GEN_NO_ATOMICS) || type_elements(i.v->type) > 4096) return;
    Value *ops[5] = { g->f->body->args[P_H], i.v, irgen_like(g, type_with_dtype(g->s, i.v->type, DT_I32)).v };
    int n = 3, na = 1;
    Attr attrs[2] = { a_int(
        ATTR_RMW, g->rmw) }; /* one operation for each tensor, so that the order does not matter */
    if (irgen_chance(g, 50)) {
        ops[n++] = irgen_like(g, type_with_dtype(g->s, i.v->type, DT_BOOL)).v;
        attrs[na++] = a_int(ATTR_HAS_MASK, 1);
    }
    ops[n++] = g->tok_h;
    g->tok_h = &ir_build(&g->b, OP_ATOMIC_RMW, ops, n, (Attrs){ attrs, na }, NULL, 0)->results[1];
}

/* start, start + step, ... along one axis of [TM, TN], as index. */
static Value *along(Gen *g, int axis, Value *start, bool backwards)
{
    int64_t shape[2] = { g->tm, g->tn }, line[2] = { axis ? 1 : g->tm, axis ? g->tn : 1 }, n = shape[axis];
    const Type *flat = type_tile(g->s, DT_INDEX, 1, &n);
    Value *r = ir_emit(&g->b, OP_ARANGE, NULL, 0, ATTRS(a_int(ATTR_START, 0)), flat);
    if (backwards) r = ir_bin(&g->b, OP_SUB, ir_splat(&g->b, ir_index(&g->b, n - 1), 1, &n), r);
    r = ir_bin(&g->b, OP_ADD, r, ir_splat(&g->b, start, 1, &n));
    r = ir_op(&g->b, OP_RESHAPE, type_tile(g->s, DT_INDEX, 2, line), NO_ATTRS, r);
    return ir_op(&g->b, OP_BROADCAST, type_tile(g->s, DT_INDEX, 2, shape), NO_ATTRS, r);
}

/* Into this program's own tile by index tiles, each element at most once, so that no order matters. */
void step_scatter(Gen *g)
{
    int64_t shape[2] = { g->tm, g->tn };
    bool cas = g->w_type == DT_I32 && irgen_chance(g, 50) && !(g->flags & GEN_NO_ATOMICS);
    const Type *t = type_tile(g->s, g->w_type, 2, shape);
    Value *ops[7] = { g->f->body->args[P_W], along(g, 0, g->row, irgen_chance(g, 50)),
        along(g, 1, g->col, irgen_chance(g, 50)) };
    int n = 3, na = 0;
    Attr attrs[1];
    for (int k = 0; k < 1 + cas; k++) {
        Val x = irgen_like(g, t);
        ops[n++] = dtype_is_float(g->w_type) && x.mag > 4 ? irgen_clamped(g, x.v, -4, 4) : x.v;
    }
    if (irgen_chance(g, 60)) {
        ops[n++] = irgen_like(g, type_with_dtype(g->s, t, DT_BOOL)).v;
        attrs[na++] = a_int(ATTR_HAS_MASK, 1);
    }
    ops[n++] = g->tok_w;
    Instr *i = ir_build(&g->b, cas ? OP_ATOMIC_CAS : OP_SCATTER, ops, n, (Attrs){ attrs, na }, NULL, 0);
    g->tok_w = &i->results[i->n_results - 1];
    if (cas) irgen_keep(g, &i->results[0], 0, INFINITY);
}

/* An atomic that orders both tensors: the chains join before it and part after it. */
void step_acquire(Gen *g)
{
    if (g->flags & GEN_NO_ATOMICS) return;
    Value *both[2] = { g->tok_w, g->tok_h };
    Value *ops[4] = { g->f->body->args[P_H], ir_index(&g->b, irgen_below(g, 8)),
        ir_const_int(&g->b, DT_I32, irgen_below(g, 5)),
        ir_emit(&g->b, OP_JOIN_TOKENS, both, 2, NO_ATTRS, NULL) };
    Instr *i = ir_build(
        &g->b, OP_ATOMIC_RMW, ops, 4, ATTRS(a_int(ATTR_RMW, g->rmw), a_int(ATTR_SEM, SEM_ACQ_REL)), NULL, 0);
    g->tok_w = g->tok_h = &i->results[1];
}
