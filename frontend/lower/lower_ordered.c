/* lower_ordered.c: additions to windows in a fixed order, atomic_add(X[..], v, step = t, semaphore = S).
 * Programs that differ in the first axis of the grid only are a chain. S has an element for each program: how
 * far it is. A program adds when the one before it in its chain has passed the step, and then passes it
 * itself. In the language's own words:
 *
 *     if program_id(0) > 0 { while atomic_add(S[before], 0, order = acquire) <= t {} }
 *     atomic_add(X[..], v);
 *     let was = atomic_exch(S[own], t + 1, order = release);
 *     assert(was <= t, ..);
 *
 * pass_steps(S, t) is atomic_exch(S[own], t, order = release): programs that begin at late steps are not
 * waited for at those before. Where the kernel ends, also for programs that had no step:
 *
 *     if program_id(0) > 0 {
 *         while atomic_add(S[before], 0, order = acquire) < LAST {}
 *         atomic_exch(S[before], 0);
 *     }
 *     atomic_exch(S[own], program_id(0) + 1 < num_programs(0) ? LAST : 0, order = release);
 *
 * Nobody else looks at S[before] by then, so that S is 0 again when the launch ends.
 *
 * A program that has passed t waited until the one before it passed t; so all that come before in the chain
 * did. Every program waits only for the one whose number is lower by one, whatever t is: programs that start
 * in the order of their numbers cannot wait for ever (ir_waits_for_programs), nor those that start in another
 * order that keeps that of each chain, as program-order finds one. What would start them in any other order
 * is refused here and in passes/kernel/program. */
#include "frontend/lower/lower_clauses.h"
#include "frontend/lower/lower_flow.h"
#include "frontend/program.h"
#include "ir/hints.h"

enum { LAST = INT32_MAX };

/* --- syntax trees ------------------------------------------------------------------------------------- */

static Node *node(Lower *l, NodeKind kind, Loc loc, const char *name, Node *a, Node *b)
{
    Node *n = arena_new(&l->s->arena, Node), *kids[] = { a, b };
    *n = (Node){ .kind = (uint8_t)kind, .height = 1, .loc = loc, .name_loc = loc };
    n->name = name ? session_intern(l->s, name, strlen(name)) : NULL;
    n->n = (uint32_t)(a != NULL) + (uint32_t)(b != NULL);
    n->kids = arena_array(&l->s->arena, Node *, 4);
    for (uint32_t k = 0; k < n->n; k++) n->kids[k] = kids[k];
    return n;
}

static Node *named(Lower *l, Loc loc, const char *name) { return node(l, N_NAME, loc, name, NULL, NULL); }

static Node *number(Lower *l, Loc loc, uint64_t u)
{
    Node *n = node(l, N_INT, loc, NULL, NULL, NULL);
    n->u = u;
    return n;
}

static Node *binary(Lower *l, Operator op, Node *a, Node *b)
{
    Node *n = node(l, N_BINARY, a->loc, NULL, a, b);
    n->op = (uint8_t)op;
    return n;
}

static Node *program(Lower *l, Loc loc, int axis)
{ return node(l, N_CALL, loc, "program_id", number(l, loc, (uint64_t)axis), NULL); }

/* S[program_id(2), program_id(1), program_id(0) - before] */
static Node *element(Lower *l, Loc loc, const char *semaphore, int rank, int before)
{
    Node *n = node(l, N_INDEX, loc, NULL, named(l, loc, semaphore), NULL);
    for (int axis = rank - 1; axis >= 0; axis--) n->kids[n->n++] = program(l, loc, axis);
    if (before) n->kids[rank] = binary(l, OPR_SUB, n->kids[rank], number(l, loc, 1));
    return n;
}

static Node *atomic(Lower *l, const char *name, Node *at, Node *value, const char *order)
{
    Node *n = node(l, N_CALL, at->loc, name, at, value);
    if (order) n->kids[n->n++] = node(l, N_ARG, at->loc, "order", named(l, at->loc, order), NULL);
    return n;
}

/* if program_id(0) > 0 { while atomic_add(S[before], 0, order = acquire) OP t {} then } */
static void wait_for(Lower *l, Loc loc, const char *semaphore, int rank, Operator op, Node *t, Node *then)
{
    Node *now = atomic(l, "atomic_add", element(l, loc, semaphore, rank, 1), number(l, loc, 0), "acquire"),
         *loop = node(l, N_WHILE, loc, NULL, binary(l, op, now, t), node(l, N_BLOCK, loc, NULL, NULL, NULL)),
         *test = node(l, N_IF, loc, NULL, binary(l, OPR_GT, program(l, loc, 0), number(l, loc, 0)),
             node(l, N_BLOCK, loc, NULL, loop, then));
    test->kids[test->n++] = NULL;
    lower_stmt(l, test, false);
}

/* --- what may be a semaphore -------------------------------------------------------------------------- */

static bool same(const Node *a, const Node *b)
{
    if (a->kind != b->kind || a->op != b->op || a->n != b->n) return false;
    bool value = a->kind == N_INT || a->kind == N_BOOL;
    if (value ? a->u != b->u : a->name != b->name) return false;
    for (uint32_t k = 0; k < a->n; k++)
        if (!a->kids[k] || !b->kids[k] || !same(a->kids[k], b->kids[k])) return false;
    return true;
}

/* Whether each program has an element: extents as the grid's, which a launch checks, the last one first. */
static bool fits_grid(const Node *kernel, const KParam *p)
{
    const Node *grid = lower_find_clause(kernel, "grid"), *params = kernel->kids[0], *tensor = NULL;
    for (uint32_t i = 0; i < params->n; i++)
        if (params->kids[i]->name && !strcmp(params->kids[i]->name, p->var->name)) tensor = params->kids[i];
    uint32_t rank = grid ? grid->kids[0]->n : 0;
    bool fits = tensor && rank && tensor->n == rank + 1;
    for (uint32_t k = 0; fits && k < rank; k++)
        fits = same(tensor->kids[k + 1], grid->kids[0]->kids[rank - 1 - k]);
    return fits;
}

/* The first clause or hint that starts programs in another order; NULL: none. */
static const char *other_order(const Lower *l, const Node *kernel)
{
    const Hints *h = &l->func->hints;
    if (l->func->remap || lower_find_clause(kernel, "remap") || (h->remap && strcmp(h->remap, "none")))
        return "`remap`";
    if (h->raster_group) return "`raster`";
    return h->cluster > 1 ? "`cluster`" : h->split_k > 1 ? "`split_k`" : NULL;
}

static bool may_order(Lower *l, Loc at, const KParam *p)
{
    const Node *kernel = program_kernel_node(l->ast, l->front);
    const char *why = other_order(l, kernel);
    if (why)
        lower_error_note(l, at, "leave it out, or add in any order: without `semaphore`",
            "with %s a program may start before one that it waits for, which then may never start", why);
    else if (p->kind != PARAM_INOUT || p->type->dtype != DT_I32)
        lower_error_note(l, at,
            arena_printf(&l->s->arena,
                "declare `inout i32 %s[...]`; launches find zeros in it, and leave zeros", p->var->name),
            "a semaphore is an `inout` tensor of `i32`, which `%s` is not", p->var->name);
    else if (!fits_grid(kernel, p))
        lower_error_note(l, at,
            "grid (cdiv(N, TN), H, B) needs semaphore[B, H, cdiv(N, TN)]: an element for each program",
            "the extents of the semaphore `%s` must be those of the grid in reverse order", p->var->name);
    else return true;
    return false;
}

/* --- how a step follows from the program ------------------------------------------------------------------
 */

/* Whether a number may be larger, or smaller, for a later program of a chain. */
enum { SAME = 0, GROWS = 1, FALLS = 2, ANY = GROWS | FALLS, TREND_DEPTH = 32 };

static int turned(int trend) { return (trend & GROWS ? FALLS : 0) | (trend & FALLS ? GROWS : 0); }

static int trend_of(const Value *v, int depth);

/* Of an operation that is no sum: the same where its operands are. */
static int trend_of_operands(const Instr *d, int depth)
{
    int all = SAME;
    for (int k = 0; k < d->n_operands; k++) all |= trend_of(ir_operand(d, k), depth);
    return all ? ANY : SAME;
}

/* A product or quotient, by a constant or of numbers that are the same. */
static int scaled_trend(const Instr *d, int depth)
{
    for (int k = 0; k < (d->op == OP_MUL ? 2 : 1); k++) {
        int64_t by;
        if (!ir_is_const(ir_operand(d, 1 - k), &by) || (d->op != OP_MUL && by <= 0)) continue;
        int t = trend_of(ir_operand(d, k), depth);
        return by < 0 ? turned(t) : t;
    }
    return trend_of_operands(d, depth);
}

static int trend_of(const Value *v, int depth)
{
    const Instr *d = v->def, *parent = d ? NULL : v->block->parent;
    if (!depth--) return ANY;
    if (!d && !parent) return SAME; /* a parameter */
    if (!d) return parent->op == OP_FOR && v->index == 0 ? trend_of(ir_operand(parent, 0), depth) : ANY;
    const Op op = d->op;
    if (op == OP_PROGRAM_ID) return ir_attr_int(d, ATTR_AXIS, 0) > 0 ? SAME : GROWS;
    if (op == OP_ADD || op == OP_MIN || op == OP_MAX)
        return trend_of(ir_operand(d, 0), depth) | trend_of(ir_operand(d, 1), depth);
    if (op == OP_SUB) return trend_of(ir_operand(d, 0), depth) | turned(trend_of(ir_operand(d, 1), depth));
    if (op == OP_CAST) return trend_of(ir_operand(d, 0), depth);
    if (op == OP_MUL || op == OP_DIV || op == OP_CDIV) return scaled_trend(d, depth);
    return d->n_blocks || ir_has_effects(d) ? ANY : trend_of_operands(d, depth);
}

bool lower_ordered_falls(const Value *step) { return trend_of(step, TREND_DEPTH) & FALLS; }

/* Programs before this one may still add at steps below the one that it passes, unless they passed it too. */
static void check_passes(Lower *l)
{
    for (size_t k = 0; k < l->passes.len; k++) {
        MemParts m;
        const PassedSteps *p = &l->passes.data[k];
        if (!ir_mem_parts(p->atomic, &m) || !(trend_of(m.values[0], TREND_DEPTH) & GROWS)) continue;
        lower_error_note(l, p->at,
            "number the steps from the end: let i = num_programs(0) - 1 - program_id(0)",
            "the step that a program passes must not grow with `program_id(0)`: programs before it would "
            "still add below it");
    }
}

/* --- additions ---------------------------------------------------------------------------------------- */

/* Names that no program can have. */
static const char semaphore_name[] = "the semaphore", step_name[] = "the step", before_name[] = "was before";

static void declare(Lower *l, Loc loc, const char *name, V v)
{ lower_scope_add(l, session_intern(l->s, name, strlen(name)), loc, v, false); }

static void declare_all(Lower *l, Loc loc, const OrderedAdd *o)
{
    declare(l, loc, semaphore_name, (V){ .kind = V_TENSOR, .param = o->param });
    if (o->step) declare(l, loc, step_name, value_ir(o->step));
}

static Value *read_step(Lower *l, const Node *n)
{
    V v = lower_expr(l, n);
    if (v.kind == V_ERROR) return NULL;
    if (value_is_untyped(v)) v = lower_adapt(l, v, DT_I32, n->loc);
    if (v.kind == V_ERROR) return NULL;
    if ((v.kind != V_CONST && v.kind != V_IR) || !dtype_is_int(value_dtype(v)) || value_rank(v)) {
        lower_error(l, n->loc, "a step is an integer, not %s", value_describe(l, v));
        return NULL;
    }
    return lower_materialize(l, lower_cast(l, v, DT_I32, n->loc), n->loc);
}

/* Reads a semaphore and a step. Without a semaphore, or where no order is wanted, there is no place in one.
 */
static bool read_place(Lower *l, const Node *semaphore, const Node *step, OrderedAdd *o)
{
    V v = lower_expr(l, semaphore);
    if (v.kind == V_ABSENT || hint_off(l->func->hints.deterministic)) return true;
    if (v.kind != V_TENSOR || v.param < 0) {
        if (v.kind != V_ERROR)
            lower_error(l, semaphore->loc, "a semaphore is a tensor, not %s", value_describe(l, v));
        return false;
    }
    if (!may_order(l, semaphore->loc, &l->params[v.param])) return false;
    o->step = read_step(l, step);
    if (o->step) o->param = v.param;
    return o->step != NULL;
}

bool lower_ordered_begin(Lower *l, const Call *c, OrderedAdd *o)
{
    const Node *step = ARG(c, 5), *semaphore = ARG(c, 6);
    *o = (OrderedAdd){ .param = -1 };
    if (!step && !semaphore) return true;
    if (step && semaphore) return read_place(l, semaphore, step, o);
    lower_error_note(l, c->node->loc, "atomic_add(X[..], v, step = i, semaphore = S)",
        "`step` and `semaphore` fix an order together: one of them is missing");
    return false;
}

V lower_pass_steps(Lower *l, const Call *c)
{
    Scope inner;
    Loc loc = c->node->loc;
    OrderedAdd o = { .param = -1 };
    if (!read_place(l, ARG(c, 0), ARG(c, 1), &o)) return value_error();
    if (o.param < 0) return value_void();
    lower_scope_push(l, &inner);
    declare_all(l, loc, &o);
    Node *own = element(l, loc, semaphore_name, l->params[o.param].type->rank, 0);
    V was = lower_expr(l, atomic(l, "atomic_exch", own, named(l, loc, step_name), "release"));
    if (was.kind == V_IR)
        vec_push(&l->s->arena, &l->passes, ((PassedSteps){ was.value->def, ARG(c, 1)->loc }));
    lower_scope_pop(l);
    l->params[o.param].is_semaphore = true;
    return value_void();
}

void lower_ordered_wait(Lower *l, Loc loc, const OrderedAdd *o)
{
    Scope inner;
    if (o->param < 0) return;
    lower_scope_push(l, &inner);
    declare_all(l, loc, o);
    wait_for(l, loc, semaphore_name, l->params[o->param].type->rank, OPR_LE, named(l, loc, step_name), NULL);
    lower_scope_pop(l);
}

static const Instr *last_store(const Lower *l)
{
    const Instr *i = l->b.before ? l->b.before->prev : l->b.block->last;
    while (i && i->op != OP_STORE) i = i->prev;
    return i;
}

void lower_ordered_pass(Lower *l, Loc loc, const OrderedAdd *o)
{
    Scope inner;
    const Instr *store = last_store(l);
    if (o->param < 0) return;
    if (store) vec_push(&l->s->arena, &l->ordered, ((OrderedStore){ store, o->step, loc }));
    KParam *p = &l->params[o->param];
    lower_scope_push(l, &inner);
    declare_all(l, loc, o);
    Node *next = binary(l, OPR_ADD, named(l, loc, step_name), number(l, loc, 1)),
         *own = element(l, loc, semaphore_name, p->type->rank, 0);
    declare(l, loc, before_name, lower_expr(l, atomic(l, "atomic_exch", own, next, "release")));
    Node *grows = binary(l, OPR_LE, named(l, loc, before_name), named(l, loc, step_name)),
         *text = node(
             l, N_STRING, loc, "the steps of a program do not grow, or the semaphore was not 0", NULL, NULL);
    lower_expr(l, node(l, N_CALL, loc, "assert", grows, text));
    lower_scope_pop(l);
    p->is_semaphore = true;
}

/* i32(program_id(0) + 1 < num_programs(0) ? LAST : 0) */
static Node *end_value(Lower *l, Loc loc)
{
    Node *next = binary(l, OPR_ADD, program(l, loc, 0), number(l, loc, 1)),
         *all = node(l, N_CALL, loc, "num_programs", number(l, loc, 0), NULL),
         *which = node(l, N_COND, loc, NULL, binary(l, OPR_LT, next, all), number(l, loc, LAST));
    which->kids[which->n++] = number(l, loc, 0);
    return node(l, N_CALL, loc, "i32", which, NULL);
}

void lower_ordered_end(Lower *l, Loc loc)
{
    check_passes(l);
    lower_ordered_prove(l);
    l->passes.len = l->ordered.len = 0;
    l->frame->done.v = value_bool(false);
    for (int i = 0; i < l->n_params; i++) {
        Scope inner;
        if (!l->params[i].is_semaphore) continue;
        int rank = l->params[i].type->rank;
        lower_scope_push(l, &inner);
        declare_all(l, loc, &(OrderedAdd){ .param = i });
        Node *clear =
            atomic(l, "atomic_exch", element(l, loc, semaphore_name, rank, 1), number(l, loc, 0), NULL);
        wait_for(l, loc, semaphore_name, rank, OPR_LT, number(l, loc, LAST),
            node(l, N_EXPR, loc, NULL, clear, NULL));
        Node *own = element(l, loc, semaphore_name, rank, 0);
        lower_expr(l, atomic(l, "atomic_exch", own, end_value(l, loc), "release"));
        lower_scope_pop(l);
    }
}
