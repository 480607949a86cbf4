/* lower_memory.c: load, store, gather, scatter, atomics. An out or inout tensor carries a token, the state of
 * its memory: each access takes the last one and leaves the next, so accesses to one tensor keep their order
 * and others are free. */
#include "frontend/lower/lower_window.h"

static bool unit_axis(V v)
{
    for (int i = 0; i < value_rank(v); i++)
        if (value_shape(v)[i] == 1) return true;
    return false;
}

/* A value of the tensor's type and the window's shape. */
static bool push_value(Lower *l, Window *w, const Node *n, const char *what)
{
    DType d = w->param->type->dtype;
    V v = lower_expr(l, n);
    if (value_is_untyped(v)) v = lower_adapt(l, v, d, n->loc);
    if (v.kind == V_ERROR) return false;
    if (v.kind == V_IR || v.kind == V_CONST) {
        if (value_dtype(v) != d) {
            lower_error_note(l, n->loc, lower_type_note(l, v, dtype_name(d)), "%s is `%s`, the tensor `%s`",
                what, dtype_name(value_dtype(v)), dtype_name(d));
            return false;
        }
        bool fits = value_rank(v) == 0 || value_rank(v) == w->rank;
        for (int i = 0; fits && i < value_rank(v); i++)
            fits = value_shape(v)[i] == w->shape[i] || value_shape(v)[i] == 1;
        if (!fits) {
            const char *window = value_describe(
                l, (V){ .kind = V_IR, .value = &(Value){ .type = type_value(l->s, d, w->rank, w->shape) } });
            if (!unit_axis(v) || value_rank(v) <= w->rank)
                lower_error(l, n->loc, "%s is %s, the window %s", what, value_describe(l, v), window);
            else
                lower_error_note(l, n->loc,
                    "an axis of extent 1 is too many: `reshape` it away, or give a reduction `drop = true`",
                    "%s is %s, the window %s", what, value_describe(l, v), window);
            return false;
        }
    }
    Value *x = lower_materialize(l, v, n->loc);
    if (!x) return false;
    w->operands[w->n++] = lower_to_shape(l, x, w->rank, w->shape);
    return true;
}

static bool push_mask(Lower *l, Window *w, const Node *n)
{
    if (!n) return true;
    V v = lower_expr(l, n);
    if (v.kind == V_ERROR) return false;
    bool fits = (v.kind == V_CONST || v.kind == V_IR) && value_dtype(v) == DT_BOOL &&
                (value_rank(v) == 0 || value_rank(v) == w->rank);
    for (int i = 0; fits && i < value_rank(v); i++)
        fits = value_shape(v)[i] == w->shape[i] || value_shape(v)[i] == 1;
    if (!fits) {
        V shape = { .kind = V_IR, .value = &(Value){ .type = type_value(l->s, DT_BOOL, w->rank, w->shape) } };
        lower_error(l, n->loc, "the mask is %s, must be %s", value_describe(l, v), value_describe(l, shape));
        return false;
    }
    Value *x = lower_materialize(l, v, n->loc);
    if (!x) return false;
    w->operands[w->n++] = lower_to_shape(l, x, w->rank, w->shape);
    return true;
}

static bool push_pad(Lower *l, Window *w, const Node *n)
{
    if (!n) return true;
    DType d = w->param->type->dtype;
    V v = lower_expr(l, n);
    if (value_is_untyped(v)) v = lower_adapt(l, v, d, n->loc);
    if (v.kind == V_ERROR) return false;
    if ((v.kind != V_CONST && v.kind != V_IR) || value_rank(v) || value_dtype(v) != d) {
        lower_error(l, n->loc, "pad is %s, must be a scalar `%s`", value_describe(l, v), dtype_name(d));
        return false;
    }
    Value *x = lower_materialize(l, v, n->loc);
    if (x) w->operands[w->n++] = x;
    return x != NULL;
}

static bool writable(Lower *l, const Call *c, const Window *w)
{
    if (w->param->kind != PARAM_IN) return true;
    lower_error_note(l, ARG(c, 0)->loc, "declare it `out` or `inout`",
        "`%s` is an `in` tensor: it cannot be written", w->param->var->name);
    return false;
}

/* --- attributes -------------------------------------------------------------------------------------- */

enum { MAX_ATTRS = 10 };
typedef struct AttrList {
    Attr v[MAX_ATTRS];
    int n;
} AttrList;
static void push_attr(AttrList *a, Attr x) { a->v[a->n++] = x; }

/* An argument that is one of a few words. */
static bool push_word(Lower *l, AttrList *a, AttrKey key, const Node *n, const char *what)
{
    if (!n) return true;
    int v = n->kind == N_NAME ? attr_enum_parse(key, n->name, strlen(n->name)) : -1;
    if (v < 0) {
        Text t;
        text_init(&t, &l->s->arena);
        for (int i = 0; attr_enum_name(key, i); i++)
            text_printf(&t, "%s%s", i ? ", " : "", attr_enum_name(key, i));
        lower_error(l, n->loc, "%s must be one of %s", what, t.data);
        return false;
    }
    push_attr(a, a_int(key, v));
    return true;
}

static bool push_latency(Lower *l, AttrList *a, const Node *n)
{
    int64_t v;
    if (!n) return true;
    if (!lower_const_int(l, n, "latency", 0, 64, &v)) return false;
    push_attr(a, a_int(ATTR_LATENCY, v));
    return true;
}

/* order = (1, 0): result axis i is window axis order[i]. */
static bool push_order(Lower *l, AttrList *a, const Node *n, const Window *w, int64_t *order)
{
    if (!n) return true;
    if (n->kind != N_TUPLE || (int)n->n != w->rank) {
        lower_error(l, n->loc, "order must be a tuple of the window's %d axes", w->rank);
        return false;
    }
    unsigned seen = 0;
    for (int i = 0; i < w->rank; i++) {
        if (!lower_const_int(l, n->kids[i], "an axis in order", 0, w->rank - 1, &order[i])) return false;
        if (seen >> order[i] & 1) {
            lower_error(l, n->loc, "order names axis %lld twice", (long long)order[i]);
            return false;
        }
        seen |= 1u << order[i];
    }
    push_attr(a, a_ints(ATTR_ORDER, order, w->rank));
    return true;
}

static void push_window(AttrList *a, const Window *w)
{
    int rank = w->param->type->rank;
    push_attr(a, a_ints(ATTR_EXTENTS, w->extents, rank));
    if (w->strided) push_attr(a, a_ints(ATTR_STEPS, w->steps, rank));
}

/* Builds the access with the tensor's token, if it has one, and takes the new token. */
static V finish(Lower *l, const Call *c, Op op, Window *w, AttrList *a, bool has_result)
{
    bool token = w->param->kind != PARAM_IN;
    if (token) w->operands[w->n++] = w->param->token.v.value;
    const Type *results[IR_MAX_RESULTS] = { 0 };
    int n_results = 0;
    const char *why = ir_infer(l->s, op, w->operands, w->n, (Attrs){ a->v, a->n }, results, &n_results);
    if (why) return lower_error(l, c->node->loc, "%s: %s", c->node->name, why);
    l->b.loc = c->node->loc;
    Instr *i = ir_build(&l->b, op, w->operands, w->n, (Attrs){ a->v, a->n }, NULL, 0);
    if (token) w->param->token.v = value_ir(&i->results[i->n_results - 1]);
    return has_result ? value_ir(&i->results[0]) : value_void();
}

/* --- accesses ---------------------------------------------------------------------------------------- */

V lower_load(Lower *l, const Call *c)
{
    Window w;
    AttrList a = { .n = 0 };
    int64_t order[TILE_MAX_RANK];
    if (!lower_window(l, c, &w)) return value_error();
    push_window(&a, &w);
    bool ok = push_order(l, &a, ARG(c, 2), &w, order);
    ok &= push_pad(l, &w, ARG(c, 1));
    ok &= push_latency(l, &a, ARG(c, 3));
    ok &= push_word(l, &a, ATTR_CACHE, ARG(c, 4), "cache");
    if (!ok) return value_error();
    if (ARG(c, 1)) push_attr(&a, a_int(ATTR_HAS_PAD, 1));
    return finish(l, c, OP_LOAD, &w, &a, true);
}

V lower_store(Lower *l, const Call *c)
{
    Window w;
    AttrList a = { .n = 0 };
    if (!lower_window(l, c, &w)) {
        lower_expr(l, ARG(c, 1));
        return value_error();
    }
    push_window(&a, &w);
    bool ok = writable(l, c, &w);
    ok &= push_value(l, &w, ARG(c, 1), "the value");
    ok &= push_word(l, &a, ATTR_CACHE, ARG(c, 2), "cache");
    return ok ? finish(l, c, OP_STORE, &w, &a, false) : value_error();
}

V lower_gather(Lower *l, const Call *c)
{
    Window w;
    AttrList a = { .n = 0 };
    if (!lower_indices(l, c, &w)) return value_error();
    if (w.rank && !lower_tile_type(l, c->node->loc, w.param->type->dtype, w.rank, w.shape))
        return value_error();
    bool ok = push_mask(l, &w, ARG(c, 1));
    ok &= push_pad(l, &w, ARG(c, 2));
    ok &= push_word(l, &a, ATTR_CACHE, ARG(c, 3), "cache");
    if (!ok) return value_error();
    if (ARG(c, 1)) push_attr(&a, a_int(ATTR_HAS_MASK, 1));
    if (ARG(c, 2)) push_attr(&a, a_int(ATTR_HAS_PAD, 1));
    return finish(l, c, OP_GATHER, &w, &a, true);
}

V lower_scatter(Lower *l, const Call *c)
{
    Window w;
    AttrList a = { .n = 0 };
    if (!lower_indices(l, c, &w)) return value_error();
    bool ok = writable(l, c, &w);
    ok &= push_value(l, &w, ARG(c, 1), "the value");
    ok &= push_mask(l, &w, ARG(c, 2));
    ok &= push_word(l, &a, ATTR_CACHE, ARG(c, 3), "cache");
    if (!ok) return value_error();
    if (ARG(c, 2)) push_attr(&a, a_int(ATTR_HAS_MASK, 1));
    return finish(l, c, OP_SCATTER, &w, &a, false);
}

/* An atomic with acquire or release orders the plain accesses of every tensor: it stands after all of them
 * and before all that follow. */
static V finish_atomic(Lower *l, const Call *c, Op op, Window *w, AttrList *a)
{
    int sem = SEM_RELAXED;
    for (int i = 0; i < a->n; i++)
        if (a->v[i].key == ATTR_SEM) sem = (int)a->v[i].i;
    if (sem == SEM_RELAXED) return finish(l, c, op, w, a, true);
    Value **tokens = arena_array(&l->s->arena, Value *, (size_t)l->n_params + 1);
    int n = 0;
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].type->kind == TYPE_TENSOR && l->params[i].kind != PARAM_IN)
            tokens[n++] = l->params[i].token.v.value;
    l->b.loc = c->node->loc;
    if (n > 1) w->param->token.v = value_ir(ir_emit(&l->b, OP_JOIN_TOKENS, tokens, n, NO_ATTRS, NULL));
    V result = finish(l, c, op, w, a, true);
    for (int i = 0; i < l->n_params; i++)
        if (l->params[i].type->kind == TYPE_TENSOR && l->params[i].kind != PARAM_IN)
            l->params[i].token.v = w->param->token.v;
    return result;
}

static V atomic(Lower *l, const Call *c, Op op, int rmw, int n_values)
{
    static const char *const names[] = { "the expected value", "the desired value" };
    Window w;
    AttrList a = { .n = 0 };
    for (int k = 5; k < 7 && n_values == 1; k++)
        if (ARG(c, k))
            return lower_error_note(l, ARG(c, k)->loc,
                "atomic_add(X[i*T +: T], tile, step = i, semaphore = S)",
                "`%s` is for an addition to a window, not for tiles of indices",
                k == 5 ? "step" : "semaphore");
    if (!lower_indices(l, c, &w)) return value_error();
    bool ok = writable(l, c, &w);
    for (int k = 0; k < n_values; k++)
        ok &= push_value(l, &w, ARG(c, 1 + k), n_values == 1 ? "the value" : names[k]);
    const Node *mask = ARG(c, 1 + n_values);
    ok &= push_mask(l, &w, mask);
    if (op == OP_ATOMIC_RMW) push_attr(&a, a_int(ATTR_RMW, rmw));
    ok &= push_word(l, &a, ATTR_SEM, ARG(c, 2 + n_values), "order");
    ok &= push_word(l, &a, ATTR_SCOPE, ARG(c, 3 + n_values), "scope");
    if (!ok) return value_error();
    if (mask) push_attr(&a, a_int(ATTR_HAS_MASK, 1));
    return finish_atomic(l, c, op, &w, &a);
}

/* Whether a subscript is a range of positions, and not a tile of them. */
static bool is_of_window(const Node *n)
{
    for (size_t k = 1; n->kind == N_INDEX && k < n->n; k++)
        if (n->kids[k]->kind == N_WINDOW || n->kids[k]->kind == N_ALL) return true;
    return false;
}

/* atomic_add(X[i +: n, :], tile): a store that adds. It gives no old values, so the pieces of the tile may
 * reach memory in any order and by any unit. */
static V add_to_window(Lower *l, const Call *c)
{
    static const char *const absent[] = { "mask", "order", "scope" };
    Window w;
    AttrList a = { .n = 0 };
    for (int k = 0; k < 3; k++)
        if (ARG(c, 2 + k))
            return lower_error_note(l, ARG(c, 2 + k)->loc, "write tiles of indices, with arange(n)",
                "`%s` is for tiles of indices, not for a window", absent[k]);
    if (!lower_window(l, c, &w)) return value_error();
    push_window(&a, &w);
    push_attr(&a, a_int(ATTR_RMW, RMW_ADD));
    OrderedAdd order;
    if (!writable(l, c, &w) || !push_value(l, &w, ARG(c, 1), "the value") ||
        !lower_ordered_begin(l, c, &order))
        return value_error();
    lower_ordered_wait(l, c->node->loc, &order);
    V done = finish(l, c, OP_STORE, &w, &a, false);
    lower_ordered_pass(l, c->node->loc, &order);
    return done;
}

V lower_atomic(Lower *l, const Call *c, int rmw)
{
    return rmw == RMW_ADD && is_of_window(ARG(c, 0)) ? add_to_window(l, c)
                                                     : atomic(l, c, OP_ATOMIC_RMW, rmw, 1);
}
V lower_atomic_cas(Lower *l, const Call *c) { return atomic(l, c, OP_ATOMIC_CAS, 0, 2); }
