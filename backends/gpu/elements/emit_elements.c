/* emit_elements.c: runs of element-wise operations, in one loop over the registers of their layout. Runs that
 * compute on words of several elements are in emit_pairs.c. */
#include "backends/gpu/elements/emit_run.h"

static bool is_alias(const Instr *i) { return i->op == OP_BROADCAST; }

bool is_run_op(const Instr *i)
{
    return (op_info[i->op].flags & OPF_ELEM) && i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE &&
           ir_result(i)->type->layout;
}

/* Whether the instruction emits nothing and so does not end a run. Between products, whose neighbours are
 * chosen with care, constants end runs. */
static bool is_silent(const Emit *e, const Instr *i)
{
    return is_alias(i) || (op_family(i->op) == OPS_CONSTANT && !e->multiplies) ||
           (i->n_results == 1 && ir_result(i)->type->kind == TYPE_TILE && !ir_result(i)->type->layout &&
               (op_info[i->op].flags & OPF_PURE));
}

bool run_used_outside(const Value *v, uint32_t mark)
{
    for (const Use *u = v->uses; u; u = u->next) {
        if (u->user->op == OP_BROADCAST && !u->user->operands[0].value->def) return true;
        if (u->user->mark != mark || !is_run_op(u->user)) return true;
    }
    return false;
}

static bool used_inside(const Value *v, uint32_t mark)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->mark == mark && is_run_op(u->user)) return true;
    return false;
}

/* Whether i reads a value of the run as a broadcast, from the array that the run fills only after its last
 * instruction. */
static bool reads_back(const Instr *i, uint32_t mark)
{
    for (int k = 0; k < i->n_operands; k++) {
        const Instr *d = ir_operand(i, k)->def;
        if (!d || !is_alias(d)) continue;
        while (d && is_alias(d)) d = ir_operand(d, 0)->def;
        if (d && d->mark == mark && is_run_op(d)) return true;
    }
    return false;
}

/* A run of element-wise operations from `first` to `last`, which have one layout and are emitted in one loop
 * over registers. `mark` marks its instructions. A step computes `p` elements, which share a word of the
 * narrowest result. */
typedef struct Run {
    Instr *first, *last;
    uint32_t mark;
    const Layout *l;
    int p;
    bool loop;
    const char **names; /* by value id * 4 + the element of the step */
    Emit *e;
    int group; /* the step that is emitted, where there is no loop */
    Arms arms;
} Run;

static bool in_run(const Run *q, const Instr *i) { return i->mark == q->mark && is_run_op(i); }

/* Whether a scalar that stands in a run is computed in front of it. It depends on no tile. */
static bool goes_ahead(const Emit *e, const Instr *i)
{ return !e->multiplies && op_is_elementwise(i->op) && ir_result(i)->type->kind == TYPE_SCALAR; }

static void emit_scalars(Emit *e, const Run *q)
{
    for (Instr *i = q->first; i != q->last; i = i->next)
        if (goes_ahead(e, i)) emit_elementwise(e, i);
}

/* Finds the last instruction of the run that begins with `first`, and marks its instructions. `beyond`: the
 * run goes on behind scalars. */
static Instr *mark_run(const Emit *e, Instr *first, uint32_t mark, bool beyond)
{
    const Type *t0 = ir_result(first)->type;
    Instr *last = first;
    for (Instr *i = first; i; i = i->next) {
        if (is_silent(e, i) || (beyond && goes_ahead(e, i))) continue;
        if (!is_run_op(i) || ir_result(i)->type->layout != t0->layout ||
            !type_same_shape(ir_result(i)->type, t0) || reads_back(i, mark))
            break;
        i->mark = mark;
        last = i;
    }
    return last;
}

/* Whether an operand is computed where it is used, as arithmetic of coordinates. */
static bool is_computed(Emit *e, const Value *v)
{
    while (v->def && op_family(v->def->op) == OPS_SHAPE && v->def->n_operands == 1 && !e->storage[v->id])
        v = ir_operand(v->def, 0);
    return v->type->kind == TYPE_TILE && v->def && op_is_elementwise(v->def->op) && !e->storage[v->id];
}

/* The expression as a statement of its own. As an arm of a selection, the C compiler would branch around it.
 */
static const char *as_statement(Emit *e, DType d, const char *x)
{
    const char *name = tmp(e, "arm");
    line(e, "const %s %s = %s;", ctype(d), name, x);
    return name;
}

static Index *step_place(const Run *q, int x)
{ return q->loop ? index_linear(q->e, q->p, "i", x) : index_number(q->e, q->group * q->p + x); }

/* Element x of the step that is emitted. */
static const char *step_element(void *user, const Value *v, int x)
{
    const Run *q = user;
    if (v->def && in_run(q, v->def)) return q->names[v->id * 4 + (uint32_t)x];
    return element(q->e, v, q->l, step_place(q, x));
}

static const char *step_expr(const Run *q, const Instr *i, int x, const char *const *args)
{
    double plus;
    const Value *v = byte_to_float_plus(q->e, i, &plus);
    bool held = v && !(v->def && in_run(q, v->def));
    const char *whole = held ? byte_to_float(q->e, v, plus, q->l, step_place(q, x)) : NULL;
    return whole ? whole : arms_expr(&q->arms, q->e, i, args);
}

static void name_element(void *user, const Value *v, int x, const char *name)
{ ((Run *)user)->names[v->id * 4 + (uint32_t)x] = name; }

/* Computes element x of an operation. */
static void compute(void *user, const Instr *i, int x)
{
    Run *q = user;
    Emit *e = q->e;
    const char *args[4];
    if (arms_emit(&q->arms, e, i, x)) return;
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = ir_operand(i, k);
        args[k] = step_element(q, v, x);
        if (i->op == OP_WHERE && k > 0 && !(v->def && in_run(q, v->def)) && is_computed(e, v))
            args[k] = as_statement(e, v->type->dtype, args[k]);
    }
    Value *r = ir_result(i);
    const char **name = &q->names[r->id * 4 + (uint32_t)x];
    const Instr *partner = sincos_partner(e, i, q->mark);
    int of_block = random_elements_of_block(e, i, q->l);
    e->raw = per_word(r->type->dtype) > 1 && !used_inside(r, q->mark);
    if (of_block > 1) emit_random_block(e, i, q->l, q->loop ? "i" : str(e, "%d", q->group), args, name);
    else if (partner)
        *name = emit_sincos(e, i, partner, x, args[0], &q->names[ir_result(partner)->id * 4 + (uint32_t)x]);
    else {
        *name = str(e, "%s%c", name_of(e, r), "abcd"[x]);
        line(e, "const %s %s = %s;", ctype(r->type->dtype), *name, step_expr(q, i, x, args));
    }
    e->raw = false;
}

/* Whether elements are computed by the operation alone, one by one. */
static bool is_alone(void *user, const Instr *i)
{
    const Run *q = user;
    return random_elements_of_block(q->e, i, q->l) == 1 && !sincos_partner(q->e, i, q->mark);
}

/* Computes element x of a step. */
static void compute_element(Run *q, int x)
{
    for (Instr *i = q->first;; i = i->next) {
        int of_block = in_run(q, i) ? random_elements_of_block(q->e, i, q->l) : 1;
        const Instr *partner = in_run(q, i) ? sincos_partner(q->e, i, q->mark) : NULL;
        if (in_run(q, i) && x % of_block == 0 && !(partner && sincos_is_done(i, partner)) &&
            !arms_move(&q->arms, i))
            compute(q, i, x);
        if (i == q->last) return;
    }
}

/* Writes the `here` elements of step g to the arrays of the results that are read outside of the run. */
static void keep_results(Emit *e, const Run *q, int g, int here)
{
    int p = q->p;
    for (Instr *i = q->first;; i = i->next) {
        Value *r = in_run(q, i) ? ir_result(i) : NULL;
        int pr = r ? per_word(r->type->dtype) : 1;
        for (int x = 0; r && e->storage[r->id] && x < here; x += pr) {
            const char *slot = !q->loop  ? str(e, "%d", (g * p + x) / pr)
                               : p == pr ? "i"
                                         : str(e, "%d * i + %d", p / pr, x / pr);
            const char *const *elements = &q->names[r->id * 4 + (uint32_t)x];
            line(e, "%s[%s] = %s;", e->storage[r->id], slot,
                pack_word_of(e, r, elements, here - x < pr ? here - x : pr));
        }
        if (i == q->last) return;
    }
}

static bool find_arms(Run *q)
{
    q->arms = (Arms){ .first = q->first,
        .mark = q->mark,
        .user = q,
        .alone = is_alone,
        .emit = compute,
        .element = step_element,
        .name = name_element };
    return arms_find(&q->arms, q->e, q->last);
}

/* The run goes on behind scalars if what stands in front of them and behind them shares an arm. Longer runs
 * hold more at once, which other runs would not gain by. */
static void find_run(Run *q)
{
    q->last = mark_run(q->e, q->first, q->mark, true);
    if (find_arms(q)) return;
    q->mark ^= 0x40000000u; /* another one */
    q->last = mark_run(q->e, q->first, q->mark, false);
}

Instr *emit_run(Emit *e, Instr *first)
{
    Run q = { .first = first,
        .mark = (uint32_t)++e->next_tmp | 0x80000000u,
        .l = layout_of(e, ir_result(first)),
        .p = 1,
        .e = e };
    find_run(&q);
    emit_scalars(e, &q);
    for (Instr *i = first; !e->measure; i = i->next) {
        if (i->op == OP_LOOKUP) declare_table(e, i);
        if (i == q.last) break;
    }
    if (emit_paired_run(e, first, q.last, q.mark)) return q.last;
    for (Instr *i = first;; i = i->next) {
        if (in_run(&q, i) && run_used_outside(ir_result(i), q.mark)) {
            declare_tile(e, ir_result(i));
            if (per_word(ir_result(i)->type->dtype) > q.p) q.p = per_word(ir_result(i)->type->dtype);
        }
        int of_block = in_run(&q, i) ? random_elements_of_block(e, i, q.l) : 1;
        if (of_block > q.p) q.p = of_block;
        if (i == q.last) break;
    }
    if (e->measure) return q.last;
    q.names = arena_array(&e->s->arena, const char *, e->n_values * 4);
    find_arms(&q);
    arms_begin(&q.arms, e, q.last);
    declare_random_blocks(e, q.first, q.last, q.mark, q.l);
    int n = (int)layout_regs(q.l), groups = (n + q.p - 1) / q.p;
    q.loop = n % q.p == 0 && groups > 1;
    if (q.loop) begin_unrolled(e, "i", groups);
    for (int g = 0; g < (q.loop ? 1 : groups); g++) {
        if (!q.loop) {
            line(e, "{");
            e->indent++;
        }
        int here = n - g * q.p < q.p ? n - g * q.p : q.p;
        q.group = g;
        for (int x = 0; x < here; x++) compute_element(&q, x);
        keep_results(e, &q, g, here);
        if (!q.loop) end_block(e);
    }
    if (q.loop) end_block(e);
    return q.last;
}
