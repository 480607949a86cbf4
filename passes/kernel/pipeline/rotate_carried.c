/* rotate_carried.c: of software-pipelining: a rotated loop (rotate.c) whose first step needs no body of its
 * own, because products in flight are carried to the arithmetic that waits for them.
 *
 *   issue early products of lo; wait for them
 *   while:  wait for the early products of j; arithmetic of j; wait for the late products of the step
 *           before j; give their stages back
 *           if j was the last: end
 *           issue early products of the next step; issue late products of j
 *   late(last)
 *
 * This does what early(lo), for .., late(last) does, operation for operation, with the arithmetic once in
 * the text instead of twice, so that the vendor's compiler has a fifth less to do.
 *
 * Products are issued at the end of one iteration and waited for in the next. Their accumulators are
 * values in flight that the `while` carries, so they must stay in their registers
 * (backends/gpu/emit_loop.c). In the first iteration the early ones are complete, nothing is in flight,
 * and the waits pass. (A wait for the early products at the end of an iteration would separate the
 * arithmetic from them, which is slower.) The stage that the first iteration gives back is none
 * (`ring_none`), whose mbarrier no thread waits for; a branch there would keep what follows from moving
 * up.
 *
 * Requires: only this loop takes stages of the late part's rings; behind the wait for the late products
 * there are only waits and releases; what the early products are waited for comes before all else that
 * follows their issue. Does not handle: loops that carry too many values, and those where it would be
 * slower (hides_branch), whose first step is peeled (rotate.c). */
#include "passes/kernel/pipeline/rotate.h"

typedef struct Carried {
    Rotation *r;
    InstrList waits, rest; /* after the early issue: waits and releases; the arithmetic */
    /* By value: front[v], computed before the arithmetic (by the issue); anew[v], such a value that is
     * computed again at the loop's head. */
    bool *front, *anew;
    ValueList fronts, cross; /* values carried to the head; values carried from there to the late part */
    Instr *gets[2];          /* of the late part's stages */
    int n_gets;
} Carried;

static bool is_outcome(const Instr *i) { return i->op == OP_WGMMA_WAIT || i->op == OP_RING_RELEASE; }

static bool lists(const ValueList *l, const Value *v)
{
    for (size_t k = 0; k < l->len; k++)
        if (l->data[k] == v) return true;
    return false;
}

/* Makes v available at the head of the loop: if the issue computed it, it is carried there or computed again.
 * */
static bool need(void *user, Value *v)
{
    Carried *c = user;
    const Instr *d = v->def;
    if (!c->front[v->id] || c->anew[v->id]) return true;
    if ((op_info[d->op].flags & OPF_PURE) && !d->n_blocks &&
        (v->type->kind == TYPE_SCALAR || v->type->kind == TYPE_TOKEN ||
            (v->type->kind == TYPE_TILE && kernel_is_cheap(v)))) {
        c->anew[v->id] = true;
        return ir_all_operands(d, need, c);
    }
    if (!lists(&c->fronts, v)) vec_push(&c->r->c->s->arena, &c->fronts, v);
    return true;
}

static bool needs(Carried *c, const InstrList *l)
{
    for (size_t k = 0; k < l->len; k++)
        if (!ir_all_operands(l->data[k], need, c)) return false;
    return true;
}

static bool made_in_front(void *user, Value *v) { return ((const Carried *)user)->front[v->id]; }
static void count_products(void *user, Instr *i) { *(int *)user += i->op == OP_WGMMA; }

/* Whether the wait is for a sum that begins with a product of the issue. All of the sum is then computed in
 * the registers that the loop carries. */
static bool begins_anew(const Carried *c, const Instr *wait)
{
    const Value *v = wait->n_operands == 1 ? ir_operand(wait, 0) : NULL;
    while (v && v->def && v->def->op == OP_WGMMA && c->front[v->id] && ir_use_count(v) == 1) {
        v = ir_operand(v->def, 2);
        if (kernel_is_cheap(v)) return true;
    }
    return false;
}

/* Sorts the rest of the early part: waits and releases that end the issue come first. False when arithmetic
 * comes before the wait for a product of the issue: the number of products in flight would then differ
 * between the first iteration and the others. */
static bool split_rest(Carried *c)
{
    Arena *a = &c->r->c->s->arena;
    const Parts *p = &c->r->p;
    size_t k = 0;
    for (; k < p->early_rest.len && is_outcome(p->early_rest.data[k]); k++)
        vec_push(a, &c->waits, p->early_rest.data[k]);
    for (; k < p->early_rest.len; k++) vec_push(a, &c->rest, p->early_rest.data[k]);
    for (size_t i = 0; i < p->early_issue.len; i++)
        for (int v = 0; v < p->early_issue.data[i]->n_results; v++)
            c->front[p->early_issue.data[i]->results[v].id] = true;
    for (size_t i = 0; i < c->waits.len; i++)
        if (c->waits.data[i]->op == OP_WGMMA_WAIT && !begins_anew(c, c->waits.data[i])) return false;
    for (size_t i = 0; i < c->rest.len; i++) {
        const Instr *w = c->rest.data[i];
        if (w->op == OP_WGMMA_WAIT && (w->n_operands != 1 || made_in_front(c, ir_operand(w, 0))))
            return false;
        if (w->op == OP_WGMMA && made_in_front(c, ir_operand(w, 2)) && ir_operand(w, 2)->def->op == OP_WGMMA)
            return false;
    }
    return true;
}

static bool only_within(const Block *body, const Value *v, const Instr *by)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (ir_within(body, u->user) != by) return false;
    return true;
}

/* Whether the product's sum continues in the registers in which the loop carries it, from the carried value
 * or from the only value that reads it. */
static bool stays(const Block *body, const Instr *product, const Value *arg)
{
    const Value *acc = ir_operand(product, 2);
    if (ir_use_count(acc) != 1) return false;
    if (acc == arg) return true;
    return acc->def && acc->def->block == body &&
           (acc->def->op == OP_IF || (op_info[acc->def->op].flags & OPF_ELEM)) &&
           only_within(body, arg, acc->def);
}

/* Late products: each is carried from its issue to its wait, and the result of the wait is the loop's next
 * value. */
static bool late_waits(Carried *c)
{
    Rotation *r = c->r;
    const Block *body = r->s.body;
    for (size_t k = 0; k < r->p.late_issue.len; k++) {
        Instr *i = r->p.late_issue.data[k];
        if (i->op == OP_RING_GET && c->n_gets == 2) return false;
        if (i->op == OP_RING_GET) c->gets[c->n_gets++] = i;
        if (i->op == OP_WGMMA &&
            (ir_use_count(ir_result(i)) != 1 || ir_result(i)->uses->user->op != OP_WGMMA_WAIT))
            return false;
    }
    for (size_t k = 0; k < r->p.late_wait.len; k++) {
        const Instr *w = r->p.late_wait.data[k];
        if (!is_outcome(w)) return false;
        if (w->op == OP_RING_RELEASE) continue;
        if (w->n_operands != 1 || ir_use_count(ir_result(w)) != 1 || ir_result(w)->uses->user != r->yield)
            return false;
        const Instr *product = ir_operand(w, 0)->def;
        int at = (int)(ir_result(w)->uses - r->yield->operands);
        if (!product || product->op != OP_WGMMA || product->block != body ||
            !stays(body, product, body->args[at + 1]))
            return false;
    }
    return true;
}

/* Checks that all releases of a ring are of one kind: no other loop may take stages of the late part's rings.
 * */
static bool own_rings(const Carried *c)
{
    for (int k = 0; k < c->n_gets; k++)
        for (const Use *u = ir_operand(c->gets[k], 0)->uses; u; u = u->next)
            if (u->user->op == OP_RING_READ || (u->user->op == OP_RING_GET && u->user != c->gets[k]))
                return false;
    return true;
}

/* The loop has one branch more than the peeled one: it leaves from its middle and jumps back from its end.
 * That branch costs nothing when the arithmetic of a step covers at least as many elements as the late sums.
 * With less arithmetic, or under pingpong, it costs up to 2% (bench/notes/decisions.md, "Behind the
 * decisions"). */
static bool hides_branch(const Carried *c)
{
    int64_t early = 0, late = 0;
    for (size_t k = 0; k < c->waits.len; k++)
        if (c->waits.data[k]->op == OP_WGMMA_WAIT) early += type_elements(ir_result(c->waits.data[k])->type);
    for (size_t k = 0; k < c->r->p.late_wait.len; k++)
        if (c->r->p.late_wait.data[k]->op == OP_WGMMA_WAIT)
            late += type_elements(ir_result(c->r->p.late_wait.data[k])->type);
    return !c->r->c->p->pingpong && early >= late;
}

static bool plan_carried(Carried *c)
{
    Rotation *r = c->r;
    Arena *a = &r->c->s->arena;
    if (!split_rest(c) || !hides_branch(c) || !late_waits(c) || !own_rings(c) || !needs(c, &c->waits) ||
        !needs(c, &c->rest) || !needs(c, &r->p.early_casts))
        return false;
    for (int k = 0; k < r->n; k++)
        if (!is_late(r, k) && !need(c, ir_operand(r->yield, k))) return false;
    for (size_t k = 0; k < r->cross.len; k++) {
        need(c, r->cross.data[k]);
        if (!lists(&c->fronts, r->cross.data[k])) vec_push(a, &c->cross, r->cross.data[k]);
    }
    for (size_t k = 0; k < c->cross.len; k++)
        if (c->cross.data[k]->type->kind != TYPE_TILE && c->cross.data[k]->type->kind != TYPE_SCALAR)
            return false;
    return 1 + r->n + (int)c->fronts.len + (int)c->cross.len + c->n_gets <= IR_MAX_RESULTS;
}

/* The order of the carried values: the step, the loop's own, those from the issue, those for the late part,
 * and the stages. */
static int front_at(const Carried *c) { return 1 + c->r->n; }
static int cross_at(const Carried *c) { return front_at(c) + (int)c->fronts.len; }
static int stage_at(const Carried *c) { return cross_at(c) + (int)c->cross.len; }
static int all(const Carried *c) { return stage_at(c) + c->n_gets; }

static Value *stage_for(const Carried *c, const Instr *release, Value *const *args)
{
    for (int k = 0; k < c->n_gets; k++)
        if (ir_operand(c->gets[k], 0) == ir_operand(release, 0)) return args[stage_at(c) + k];
    return NULL;
}

/* Releases of the late part name their stages, because the stages of its rings are taken and released out of
 * step. */
static void release_stage(Builder *b, const Instr *release, Value *stage)
{
    Value *ops[] = { ir_operand(release, 0), stage };
    Builder at = *b;
    at.loc = release->loc;
    ir_build(&at, OP_RING_RELEASE, ops, stage ? 2 : 1, NO_ATTRS, NULL, 0);
}

static Value *yielded(const Carried *c, int k) { return ir_operand(c->r->yield, k); }

/* The product for which a late carried value waits; NULL: no product gives it. */
static Value *in_flight(const Carried *c, int k)
{
    const Instr *w = yielded(c, k)->def;
    return w && w->op == OP_WGMMA_WAIT && w->block == c->r->s.body && is_late(c->r, k) ? ir_operand(w, 0)
                                                                                       : NULL;
}

static void for_late(const Carried *c, ValueMap *map, Value *const *args)
{
    const Rotation *r = c->r;
    value_map_init(map, &r->c->s->arena);
    for (int k = 0; k < r->n; k++)
        if (is_late(r, k)) value_map_set(map, r->s.body->args[k + 1], args[1 + k]);
    for (size_t k = 0; k < c->fronts.len; k++)
        value_map_set(map, c->fronts.data[k], args[front_at(c) + (int)k]);
    for (size_t k = 0; k < c->cross.len; k++)
        value_map_set(map, c->cross.data[k], args[cross_at(c) + (int)k]);
}

static void for_early(const Carried *c, ValueMap *map, Value *const *args)
{
    const Rotation *r = c->r;
    value_map_init(map, &r->c->s->arena);
    value_map_set(map, r->s.body->args[0], args[0]);
    for (int k = 0; k < r->n; k++)
        if (!is_late(r, k)) value_map_set(map, r->s.body->args[k + 1], args[1 + k]);
}

static void clone_all(Builder *b, const InstrList *l, ValueMap *map)
{
    for (size_t k = 0; k < l->len; k++) ir_clone(b, l->data[k], map);
}

static int products_behind(const InstrList *l, const Instr *product)
{
    int n = 0;
    for (size_t k = l->len; k-- > 0 && l->data[k] != product;) n += l->data[k]->op == OP_WGMMA;
    return n;
}

/* Emits the waits for the early products at the loop's head. The late ones were issued after them. */
static void wait_for_early(const Carried *c, Builder *b, ValueMap *early)
{
    const Parts *p = &c->r->p;
    for (size_t k = 0; k < c->waits.len; k++) {
        Instr *i = c->waits.data[k], *n = ir_clone(b, i, early);
        if (i->op == OP_WGMMA_WAIT)
            ir_set_attr(c->r->c->s, n,
                a_int(ATTR_DEPTH, products_behind(&p->early_issue, ir_operand(i, 0)->def) +
                                      products_behind(&p->late_issue, NULL)));
    }
}

/* Emits the waits for the late products at the loop's head. Products that were issued later, in the previous
 * iteration and here, stay in flight. */
static void wait_for_late(const Carried *c, Builder *b, ValueMap *late, Value *const *args)
{
    const Rotation *r = c->r;
    int here = 0;
    for (size_t k = 0; k < c->rest.len; k++) count_products(&here, c->rest.data[k]);
    for (int k = 0; k < r->n; k++)
        if (in_flight(c, k)) value_map_set(late, in_flight(c, k), args[1 + k]);
    for (size_t k = 0; k < r->p.late_wait.len; k++) {
        Instr *i = r->p.late_wait.data[k];
        if (i->op == OP_RING_RELEASE) {
            release_stage(b, i, stage_for(c, i, args));
            continue;
        }
        ir_set_attr(r->c->s, ir_clone(b, i, late),
            a_int(ATTR_DEPTH, here + products_behind(&r->p.late_issue, ir_operand(i, 0)->def)));
    }
}

static void head(const Carried *c, Instr *loop, Value *step, Value *hi)
{
    const Rotation *r = c->r;
    Value **args = loop->blocks[0]->args, *out[IR_MAX_RESULTS + 1];
    Builder b = ir_at_end(loop->blocks[0]);
    b.loc = r->loop->loc;
    ValueMap early, late;
    for_early(c, &early, args);
    for_late(c, &late, args);
    for (size_t k = 0; k < c->fronts.len; k++)
        value_map_set(&early, c->fronts.data[k], args[front_at(c) + (int)k]);
    for (size_t k = 0; k < r->p.early_issue.len; k++) {
        Instr *i = r->p.early_issue.data[k];
        if (i->n_results && c->anew[ir_result(i)->id]) ir_clone(&b, i, &early);
    }
    wait_for_early(c, &b, &early);
    rotate_clone_rest(r->c, &b, &c->rest, &early);
    wait_for_late(c, &b, &late, args);
    clone_all(&b, &r->p.early_casts, &early);
    out[1] = ir_bin(&b, OP_ADD, args[0], step);
    out[0] = ir_bin(&b, OP_LT, out[1], hi);
    for (int k = 0; k < r->n; k++)
        out[2 + k] = !is_late(r, k)    ? value_map_get(&early, yielded(c, k))
                     : in_flight(c, k) ? value_map_get(&late, yielded(c, k))
                                       : args[1 + k];
    for (size_t k = 0; k < c->fronts.len; k++) out[1 + front_at(c) + (int)k] = args[front_at(c) + (int)k];
    for (size_t k = 0; k < c->cross.len; k++)
        out[1 + cross_at(c) + (int)k] = value_map_get(&early, c->cross.data[k]);
    for (int k = 0; k < c->n_gets; k++) out[1 + stage_at(c) + k] = args[stage_at(c) + k];
    ir_build(&b, OP_CONDITION, out, 1 + all(c), NO_ATTRS, NULL, 0);
}

static void issue(const Carried *c, Instr *loop)
{
    const Rotation *r = c->r;
    Value **args = loop->blocks[1]->args, *out[IR_MAX_RESULTS];
    Builder b = ir_at_end(loop->blocks[1]);
    b.loc = r->loop->loc;
    ValueMap early, late;
    for_early(c, &early, args);
    for_late(c, &late, args);
    pingpong_build(r->c->p, &b, OP_PINGPONG_WAIT);
    clone_all(&b, &r->p.early_issue, &early);
    clone_all(&b, &r->p.late_issue, &late);
    pingpong_build(r->c->p, &b, OP_PINGPONG_PASS);
    memcpy(out, args, (size_t)all(c) * sizeof *out);
    for (int k = 0; k < r->n; k++)
        if (is_late(r, k))
            out[1 + k] = value_map_get(&late, in_flight(c, k) ? in_flight(c, k) : yielded(c, k));
    for (size_t k = 0; k < c->fronts.len; k++)
        out[front_at(c) + (int)k] = value_map_get(&early, c->fronts.data[k]);
    for (int k = 0; k < c->n_gets; k++) out[stage_at(c) + k] = value_map_get(&late, ir_result(c->gets[k]));
    ir_build(&b, OP_YIELD, out, all(c), NO_ATTRS, NULL, 0);
}

/* The initial value of a carried value that the loop's head computes before it is read. */
static Value *nothing(Builder *b, const Type *t)
{
    Value *zero = dtype_is_float(t->dtype) ? ir_const_float(b, t->dtype, 0) : ir_const_int(b, t->dtype, 0);
    return t->kind == TYPE_SCALAR ? zero : ir_splat(b, zero, t->rank, t->shape);
}

static Instr *begin(const Carried *c, Builder *in)
{
    const Rotation *r = c->r;
    const Block *body = r->s.body;
    Value *init[IR_MAX_RESULTS];
    ValueMap first;
    value_map_init(&first, &r->c->s->arena);
    value_map_set(&first, body->args[0], ir_operand(r->loop, 0));
    for (int k = 0; k < r->n; k++) value_map_set(&first, body->args[k + 1], ir_operand(r->loop, k + 3));
    pingpong_build(r->c->p, in, OP_PINGPONG_WAIT);
    clone_all(in, &r->p.early_issue, &first);
    pingpong_build(r->c->p, in, OP_PINGPONG_PASS);
    for (size_t k = 0; k < c->waits.len; k++) {
        Instr *w = c->waits.data[k];
        if (w->op != OP_WGMMA_WAIT) continue;
        rotate_clone_rest(r->c, in, &(InstrList){ .data = &w, .len = 1 }, &first);
        value_map_set(&first, ir_operand(w, 0), value_map_get(&first, ir_result(w)));
    }
    init[0] = ir_operand(r->loop, 0);
    for (int k = 0; k < r->n; k++) init[1 + k] = ir_operand(r->loop, k + 3);
    for (size_t k = 0; k < c->fronts.len; k++)
        init[front_at(c) + (int)k] = value_map_get(&first, c->fronts.data[k]);
    for (size_t k = 0; k < c->cross.len; k++)
        init[cross_at(c) + (int)k] = nothing(in, c->cross.data[k]->type);
    for (int k = 0; k < c->n_gets; k++)
        init[stage_at(c) + k] = ir_op(in, OP_RING_NONE, NULL, NO_ATTRS, ir_operand(c->gets[k], 0));
    Instr *loop = ir_build(in, OP_WHILE, init, all(c), ATTRS(a_int(ATTR_LOOP, LOOP_CARRIED)), NULL, 0);
    for (int k = 0; k < 2; k++) {
        Value **args = loop->blocks[k]->args;
        for (int j = 0; j <= r->n; j++) ir_set_name(args[j], body->args[j]->name);
        for (size_t j = 0; j < c->fronts.len; j++)
            ir_set_name(args[front_at(c) + (int)j], c->fronts.data[j]->name);
        for (size_t j = 0; j < c->cross.len; j++)
            ir_set_name(args[cross_at(c) + (int)j], c->cross.data[j]->name);
        for (int j = 0; j < c->n_gets; j++) ir_set_name(args[stage_at(c) + j], ir_result(c->gets[j])->name);
    }
    return loop;
}

/* Emits the late part of the last step, and gives the results of the loop. */
static void end(const Carried *c, Builder *in, Instr *loop)
{
    const Rotation *r = c->r;
    Value *args[IR_MAX_RESULTS], *out[IR_MAX_RESULTS];
    ValueMap last;
    for (int k = 0; k < all(c); k++) args[k] = &loop->results[k];
    for_late(c, &last, args);
    pingpong_build(r->c->p, in, OP_PINGPONG_WAIT);
    clone_all(in, &r->p.late_issue, &last);
    pingpong_build(r->c->p, in, OP_PINGPONG_PASS);
    for (int k = 0; k < c->n_gets; k++) args[stage_at(c) + k] = value_map_get(&last, ir_result(c->gets[k]));
    for (size_t k = 0; k < r->p.late_wait.len; k++) {
        Instr *i = r->p.late_wait.data[k];
        if (i->op == OP_RING_RELEASE) release_stage(in, i, stage_for(c, i, args));
        else rotate_clone_rest(r->c, in, &(InstrList){ .data = &i, .len = 1 }, &last);
    }
    for (int k = 0; k < r->n; k++) out[k] = is_late(r, k) ? value_map_get(&last, yielded(c, k)) : args[1 + k];
    ir_build(in, OP_YIELD, out, r->n, NO_ATTRS, NULL, 0);
}

bool rotate_carried(Rotation *r)
{
    Session *s = r->c->s;
    const uint32_t n = r->c->f->module->next_id; /* of values, those too that planning the rotation made */
    Carried c = { .r = r, .front = arena_array(&s->arena, bool, n), .anew = arena_array(&s->arena, bool, n) };
    if (!plan_carried(&c)) return false;
    Instr *loop = r->loop;
    Builder b = ir_before(loop);
    Value *any = ir_bin(&b, OP_LT, ir_operand(loop, 0), ir_operand(loop, 1)), *same[IR_MAX_RESULTS];
    const Type *types[IR_MAX_RESULTS];
    for (int k = 0; k < r->n; k++) types[k] = loop->results[k].type;
    Instr *cond = ir_build(&b, OP_IF, &any, 1, NO_ATTRS, types, r->n);
    Builder in = ir_at_end(cond->blocks[0]);
    in.loc = loop->loc;
    Instr *steps = begin(&c, &in);
    head(&c, steps, ir_operand(loop, 2), ir_operand(loop, 1));
    issue(&c, steps);
    end(&c, &in, steps);
    in = ir_at_end(cond->blocks[1]);
    for (int k = 0; k < r->n; k++) same[k] = ir_operand(loop, k + 3);
    ir_build(&in, OP_YIELD, same, r->n, NO_ATTRS, NULL, 0);
    for (int k = 0; k < r->n; k++) ir_replace(&loop->results[k], &cond->results[k]);
    ir_erase(loop);
    text_printf(&r->c->note,
        "  rotation: the early product runs one step ahead, both products are carried in flight; %d values "
        "cross\n",
        (int)r->cross.len);
    return true;
}
