/* lower_combine.c: reduce and scan by a fn, of one tile or of a tuple of tiles. The fn is lowered into the
 * operation's block, over the scalars of two positions. */
#include "frontend/lower/lower.h"

/* Branches in a combining block become choices: everything in it is pure, so both sides may be computed. What
 * stays is element-wise, and every backend runs it on as many elements at once as it likes. The first
 * instruction that does not fit, or NULL. */
static const Instr *straighten(Block *b)
{
    for (Instr *i = b->first, *next; i; i = next) {
        next = i->next;
        if (i->op == OP_IF) {
            for (int k = 0; k < 2; k++) {
                const Instr *bad = straighten(i->blocks[k]);
                if (bad) return bad;
                Builder before = ir_before(i);
                while (i->blocks[k]->first->op != OP_YIELD) {
                    Instr *x = i->blocks[k]->first;
                    ir_unlink(x);
                    ir_place(&before, x);
                }
            }
            Builder before = ir_before(i);
            before.loc = i->loc;
            for (int k = 0; k < i->n_results; k++) {
                Value *v[3] = { ir_operand(i, 0), ir_operand(i->blocks[0]->last, k),
                    ir_operand(i->blocks[1]->last, k) };
                ir_replace(&i->results[k], ir_emit(&before, OP_WHERE, v, 3, NO_ATTRS, NULL));
            }
            ir_erase(i);
            continue;
        }
        bool plain = i->op == OP_CONST || i->op == OP_YIELD || (op_info[i->op].flags & OPF_ELEM);
        for (int k = 0; k < i->n_results; k++) plain &= i->results[k].type->kind == TYPE_SCALAR;
        if (!plain) return i;
    }
    return NULL;
}

/* The operands of a combination: the tiles of one shape, and the function that `combine =` names. */
typedef struct Combined {
    const Call *call;
    const Node *name, *fn;
    bool tuple; /* the fn takes and gives tuples */
    int n, rank;
    Value *x[IR_MAX_COMBINED];
} Combined;

/* The values that the function takes or must give, for messages. */
static const char *position_text(Lower *l, const Combined *q)
{
    Text t;
    text_init(&t, &l->s->arena);
    for (int k = 0; k < q->n; k++)
        text_printf(&t, "%s%s", k ? ", " : q->tuple ? "(" : "", dtype_name(q->x[k]->type->dtype));
    if (q->tuple) text_puts(&t, ")");
    return t.data;
}

/* The result of the function, as a value for each component; NULL and no message after an error in it. */
static bool results_of(Lower *l, const Combined *q, V result, Value **out)
{
    if (result.kind == V_ERROR) return false;
    bool tuple = result.kind == V_TUPLE, ok = tuple == q->tuple && (!tuple || result.n == q->n);
    for (int k = 0; k < q->n && ok; k++) {
        V v = tuple ? result.items[k] : result;
        DType d = q->x[k]->type->dtype;
        if (value_is_untyped(v)) v = lower_adapt(l, v, d, q->name->loc);
        if (v.kind == V_ERROR) return false;
        ok = (v.kind == V_IR || v.kind == V_CONST) && value_rank(v) == 0 && value_dtype(v) == d;
        if (ok) out[k] = lower_materialize(l, v, q->name->loc);
        else if (tuple)
            lower_error(l, q->name->loc, "`%s` must give `%s` as part %d of its tuple, not %s", q->name->name,
                dtype_name(d), k, value_describe(l, v));
        if (!ok && tuple) return false;
    }
    if (!ok)
        lower_error(l, q->name->loc, "`%s` of two `%s` must give one `%s`, not %s", q->name->name,
            position_text(l, q), position_text(l, q), value_describe(l, result));
    return ok;
}

/* The two positions as the fn's arguments. */
static V position_of(Lower *l, const Combined *q, Block *b, int from)
{
    V v[IR_MAX_COMBINED];
    for (int k = 0; k < q->n; k++) v[k] = value_ir(b->args[from + k]);
    return q->tuple ? value_tuple(l, q->n, v) : v[0];
}

static bool fill_block(Lower *l, const Combined *q, Block *block)
{
    Builder outer = l->b;
    Value *results[IR_MAX_COMBINED];
    l->b = ir_at_end(block);
    l->b.loc = q->name->loc;
    l->in_combine++;
    V args[2] = { position_of(l, q, block, 0), position_of(l, q, block, q->n) };
    bool ok = results_of(l, q, lower_expand_fn(l, q->name->loc, q->fn, args), results);
    l->in_combine--;
    if (ok) {
        ir_build(&l->b, OP_YIELD, results, q->n, NO_ATTRS, NULL, 0);
        const Instr *bad = straighten(block);
        bool loop = bad && (bad->op == OP_FOR || bad->op == OP_WHILE);
        if (bad)
            lower_error_note(l, bad->loc,
                loop ? "`const for` writes the steps out" : "it is called for each pair of elements",
                loop ? "`%s` holds a loop, and a combine function must not"
                     : "`%s` makes a tile here; a combine function computes with scalars alone",
                q->name->name);
        ok = !bad;
    }
    l->b = outer;
    return ok;
}

/* The fn that `combine =` names; false after a message. */
static bool find_fn(Lower *l, Combined *q, const Node *name)
{
    q->name = name;
    q->fn = name->kind == N_NAME ? ast_find_fn(l->ast, name->name) : NULL;
    if (!q->fn)
        lower_error_note(l, name->loc, "fn larger(a, b) { return max(a, b); } ... combine = larger",
            "combine must be the name of a fn of two values");
    else if (q->fn->kids[0]->n != 2)
        lower_error(l, name->loc, "`%s` takes %d arguments; a combine function takes two", name->name,
            (int)q->fn->kids[0]->n);
    else if (!lower_fn_is_pure(l, q->fn))
        lower_error(l, name->loc,
            "`%s` touches memory, asks about the launch or prints; a combine function must not", name->name);
    else return true;
    return false;
}

#define MAX_COMBINED 16 /* values of one reduce or scan */
_Static_assert(MAX_COMBINED <= IR_MAX_COMBINED, "values of the source are values of the IR");

/* A tile, or a tuple of tiles and scalars, brought to one shape. */
static bool take_operands(Lower *l, Combined *q, V x)
{
    const char *what = q->call->node->name, *quoted = arena_printf(&l->s->arena, "`%s`", what);
    Loc loc = ARG(q->call, 0)->loc;
    int64_t shape[TILE_MAX_RANK];
    V v[MAX_COMBINED];
    q->tuple = x.kind == V_TUPLE;
    q->n = q->tuple ? x.n : 1;
    if (x.kind == V_ERROR) return false;
    if (q->n > MAX_COMBINED) {
        lower_error(l, loc, "`%s` of %d values; %d at most", what, q->n, MAX_COMBINED);
        return false;
    }
    for (int k = 0; k < q->n; k++) {
        v[k] = lower_concretize(l, q->tuple ? x.items[k] : x, loc);
        if (v[k].kind == V_ERROR) return false;
    }
    if (!lower_join_shapes(l, loc, quoted, v, q->n, &q->rank, shape)) return false;
    for (int k = 0; k < q->n; k++) {
        q->x[k] = lower_materialize(l, v[k], loc);
        if (!q->x[k]) return false;
    }
    if (q->rank == 0) {
        if (q->tuple) lower_error(l, loc, "`%s` takes a tile, and these are %d scalars", what, q->n);
        else
            lower_error(
                l, loc, "`%s` takes a tile, not the scalar `%s`", what, dtype_name(q->x[0]->type->dtype));
        return false;
    }
    for (int k = 0; k < q->n; k++) {
        if (!lower_tile_type(l, loc, q->x[k]->type->dtype, q->rank, shape)) return false;
        l->b.loc = loc;
        q->x[k] = lower_to_shape(l, q->x[k], q->rank, shape);
    }
    return true;
}

/* `init`, the neutral element, says nothing that is needed: what is combined are the elements alone. Its type
 * is checked. */
static bool check_init(Lower *l, const Combined *q, const Node *node)
{
    if (!node) return true;
    V init = lower_expr(l, node);
    bool tuple = init.kind == V_TUPLE, ok = tuple == q->tuple && (!tuple || init.n == q->n);
    if (init.kind == V_ERROR) return false;
    for (int k = 0; k < q->n && ok; k++) {
        V v = tuple ? init.items[k] : init;
        if (value_is_untyped(v)) v = lower_adapt(l, v, q->x[k]->type->dtype, node->loc);
        if (v.kind == V_ERROR) return false;
        ok =
            (v.kind == V_CONST || v.kind == V_IR) && !value_rank(v) && value_dtype(v) == q->x[k]->type->dtype;
    }
    if (!ok)
        lower_error(
            l, node->loc, "init is %s, must be a scalar `%s`", value_describe(l, init), position_text(l, q));
    return ok;
}

V lower_combined(Lower *l, const Call *c, Op op)
{
    Combined q = { .call = c };
    V x = lower_expr(l, ARG(c, 0));
    int axes[TILE_MAX_RANK], n;
    bool last, ok = lower_flag(l, ARG(c, 4), op == OP_SCAN ? "reverse" : "drop", &last);
    ok &= take_operands(l, &q, x);
    if (!ok || !find_fn(l, &q, ARG(c, 3)) || !check_init(l, &q, ARG(c, 2))) return value_error();
    if (!lower_axes(l, ARG(c, 1), q.rank, axes, &n)) return value_error();
    if (op == OP_SCAN && n != 1)
        return lower_error_note(
            l, c->node->loc, "give `axis = a`", "`scan` of a tile of %d axes needs one axis", q.rank);
    for (int a = 0; a < n; a++) {
        Attr attrs[2] = { a_int(ATTR_AXIS, axes[a]),
            op == OP_SCAN ? a_int(ATTR_REVERSE, last) : a_int(ATTR_DROP, last) };
        V v = lower_emit(l, c->node->loc, c->node->name, op, q.x, q.n,
            (Attrs){ attrs, op == OP_SCAN && !last ? 1 : 2 }, NULL);
        if (v.kind == V_ERROR) return v;
        Instr *i = v.value->def;
        for (int k = 0; k < q.n; k++) q.x[k] = &i->results[k];
        if (!fill_block(l, &q, i->blocks[0])) return value_error();
    }
    V results[IR_MAX_COMBINED];
    for (int k = 0; k < q.n; k++) results[k] = value_ir(q.x[k]);
    return q.tuple ? value_tuple(l, q.n, results) : results[0];
}
