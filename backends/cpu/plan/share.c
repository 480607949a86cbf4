/* share.c: virtual tiles that several steps would compute. Such a tile gets a buffer where it is first
 * needed: in the nest that reads it first, if the nest walks the same elements, else in a nest of its own
 * before that. Consumers are decided before producers, and everything is counted again after each decision,
 * as it changes what the others cost. */
#include "backends/cpu/plan/plan.h"

/* A step that computes a tile. same: element by element as it goes; few: only a few elements of many, which
 * costs nothing, but a buffer has to be filled before it. */
typedef struct EvalAt {
    Step *step;
    bool same, few;
} EvalAt;
typedef struct Evals {
    VEC(EvalAt) steps;
} Evals;

static void add_eval(Plan *p, Evals *e, EvalAt at)
{
    for (size_t k = 0; k < e->steps.len; k++)
        if (e->steps.data[k].step == at.step) {
            e->steps.data[k].same &= at.same;
            e->steps.data[k].few &= at.few;
            return;
        }
    vec_push(p->arena, &e->steps, at);
}

typedef struct Marker {
    Plan *p;
    Evals *evals;
    Step *step;
    bool few;
} Marker;

/* A few elements of many: computing them twice costs nothing. */
static bool small_slice(const Instr *i)
{
    return i->op == OP_SLICE &&
           8 * type_elements(ir_result(i)->type) <= type_elements(ir_operand(i, 0)->type);
}

/* Records that `v` is computed in `step`, and the values from which it is computed. */
static void mark_virtual(Marker *m, Value *v, bool same)
{
    ValInfo *info = plan_info(m->p, v);
    uint32_t *walk = &info->walk[same + 2 * m->few];
    if (!is_tile(v) || plan_has_buffer(m->p, v) || *walk == m->p->n_walks) return;
    *walk = m->p->n_walks;
    add_eval(m->p, &m->evals[v->id], (EvalAt){ m->step, same && m->step->kind == STEP_NEST, m->few });
    const Instr *i = v->def;
    bool keeps = (op_info[i->op].flags & OPF_ELEM) || i->op == OP_GATHER ||
                 ((i->op == OP_RESHAPE || i->op == OP_BROADCAST) && is_tile(ir_operand(i, 0)) &&
                     plan_same_squeezed(ir_operand(i, 0)->type, v->type));
    const bool few = m->few;
    m->few |= small_slice(i);
    for (int k = 0; k < i->n_operands && i->op != OP_LOAD; k++)
        mark_virtual(m, ir_operand(i, k), same && keeps);
    m->few = few;
}

static void mark_operands(Marker *m, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) mark_virtual(m, ir_operand(i, k), true);
}

static void mark_steps(Plan *p, Evals *evals, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        Marker m = { p, evals, s };
        p->n_walks++;
        for (Sink *k = s->sinks; k; k = k->next) {
            if (k->kind == SINK_STORE || k->kind == SINK_SCATTER || k->kind == SINK_ATOMIC ||
                k->kind == SINK_PRINT)
                mark_operands(&m, k->instr);
            else if (k->kind == SINK_BUFFER && k->value->def && plan_can_be_virtual(k->value->def->op) &&
                     k->buf == plan_info(p, k->value)->buf)
                mark_operands(&m, k->value->def);
            else mark_virtual(&m, k->value, true);
        }
        if (s->kind == STEP_TRANSPOSE) {
            if (plan_info(p, s->value)->buf == s->buf) mark_operands(&m, s->value->def);
            else mark_virtual(&m, s->value, false);
        }
        for (int k = 0; k < 2 && s->kind == STEP_MMA && s->thin; k++)
            if (k == 1 || !s->a) mark_virtual(&m, ir_operand(s->instr, k), false);
        if (s->kind == STEP_FOR || s->kind == STEP_WHILE) mark_operands(&m, s->instr);
        if (s->kind == STEP_SCALAR && s->instr->op != OP_STORE) mark_operands(&m, s->instr);
        for (int b = 0; b < 2; b++)
            if (s->blocks[b] && !plan_rare(s->blocks[b])) mark_steps(p, evals, s->blocks[b]);
    }
}

/* The step of block `home` that holds `s`. */
static Step *ancestor_in(Step *s, Steps *home)
{
    while (s && s->in != home) s = s->in->parent;
    return s;
}

static Steps *find_steps(Steps *from, const Block *b)
{
    if (from->block == b) return from;
    for (Step *s = from->first; s; s = s->next)
        for (int k = 0; k < 2; k++) {
            Steps *r = s->blocks[k] ? find_steps(s->blocks[k], b) : NULL;
            if (r) return r;
        }
    return NULL;
}

static void insert_before(Steps *in, Step *at, Step *s)
{
    Step **link = &in->first;
    while (*link != at) link = &(*link)->next;
    s->next = at;
    *link = s;
}

typedef struct Reads {
    const Value *value;
    bool found;
} Reads;

static void is_read(void *user, Value *leaf, bool same)
{
    Reads *r = user;
    r->found |= leaf == r->value;
}

static bool sink_reads(Plan *p, Sink *s, const Value *v)
{
    Reads r = { v, false };
    plan_sink_leaves(p, s, is_read, &r);
    return r.found;
}

/* Where in the nest the buffer of `v`, which it has by now, is filled: before the first sink that reads it.
 * What it is computed from stands before that already, since the sink read it through `v`. A concat's sinks
 * read their operand without being its fill. */
static Sink **place_of(Plan *p, Step *nest, const Value *v)
{
    Sink **place = &nest->sinks;
    while (*place && !sink_reads(p, *place, v)) place = &(*place)->next;
    return place;
}

/* Whether the elements are positions, one scalar or those of a smaller buffer or window, at other
 * coordinates: reading them takes as long as computing them again. */
static bool only_renamed(Plan *p, const Value *v)
{
    const Value *whole = v;
    while (is_tile(v) && v->def && !plan_has_buffer(p, (Value *)v)) {
        const Value *x = v->def->n_operands ? ir_operand(v->def, 0) : NULL;
        bool unit = v->def->op == OP_RESHAPE && is_tile(x) && plan_same_squeezed(x->type, v->type);
        if (v->def->op == OP_ARANGE || v->def->op == OP_SPLAT) return true;
        if (v->def->op == OP_LOAD) return !plan_same_squeezed(v->type, whole->type);
        if (v->def->op != OP_BROADCAST && !unit) return false;
        v = x;
    }
    return true;
}

/* Whether a row of `v` is one element: it is computed before the row's chunks, once. */
static bool same_in_rows(const Value *v)
{
    const Instr *i = v->def;
    int last = plan_last_axis(v->type);
    if (i->op != OP_BROADCAST || last < 0 || !is_tile(ir_operand(i, 0))) return false;
    return v->type->shape[last] > 1 && ir_operand(i, 0)->type->shape[last] == 1;
}

/* Is `v` widened by so many instructions that reading it again is faster than widening it again? From f16, a
 * processor that has the instruction and no halves of 64 bytes to join takes one. */
static bool costly_widening(const Plan *p, const Value *v)
{
    if (v->def->op != OP_CAST || v->type->dtype != DT_F32) return false;
    DType from = ir_operand(v->def, 0)->type->dtype;
    bool one = from == DT_F16 && p->target->fma && !p->target->avx512;
    return dtype_is_float(from) && !one;
}

static bool share(Plan *p, Evals *evals, Value *v)
{
    Evals *e = &evals[v->id];
    if (e->steps.len == 0 || plan_has_buffer(p, v) || only_renamed(p, v) || same_in_rows(v)) return false;
    Steps *home = find_steps(p->body, plan_block_of(v));
    if (!home) return false;
    int c = plan_cost_at(p, v), n = 0;
    bool in_loop = false;
    for (size_t k = 0; k < e->steps.len; k++) {
        n += !e->steps.data[k].few;
        in_loop |= !e->steps.data[k].few && e->steps.data[k].step->in != home;
    }
    if (n == 0 || (n == 1 && !in_loop)) return false;
    if (c <= (in_loop || n == 2 ? 8 : 2) && (in_loop || !costly_widening(p, v))) return false;
    if (v->def->op == OP_LOAD && !in_loop && c <= 3) return false;
    Step *first = NULL;
    for (size_t k = 0; k < e->steps.len; k++) {
        Step *a = ancestor_in(e->steps.data[k].step, home);
        if (!a) return false;
        if (!first) first = a;
        for (Step *s = a; s; s = s->next)
            if (s == first) {
                first = a;
                break;
            }
    }
    ValInfo *info = plan_info(p, v);
    info->wanted = true;
    Buf *b = plan_value_buf(p, v, home);
    Sink *k = plan_sink(p, SINK_BUFFER, v->def, v, b);
    bool here = first->kind == STEP_NEST && plan_shape_is(first, v->type);
    for (size_t x = 0; x < e->steps.len; x++)
        if (e->steps.data[x].step == first) here &= e->steps.data[x].same;
    Step *nest = first;
    if (!here) {
        nest = plan_step(p, home, STEP_NEST, v->def);
        nest->rank = squeeze(v->type, nest->shape);
        insert_before(home, first, nest);
    }
    Sink **place = place_of(p, nest, v);
    k->next = *place;
    *place = k;
    if (!k->next) nest->sinks_end = &k->next;
    info->avail = info->at = nest;
    return true;
}

static void renumber(Steps *in)
{
    in->n = 0;
    for (Step *s = in->first; s; s = s->next) {
        s->index = in->n++;
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) renumber(s->blocks[b]);
    }
}

/* Consumers before producers, so that each decision sees those after it. */
static bool share_block(Plan *p, Evals *evals, Block *b)
{
    Instr *i = b->last;
    for (; i; i = i->prev) {
        for (int k = i->n_blocks - 1; k >= 0; k--)
            if (i->op != OP_REDUCE && i->op != OP_SCAN && share_block(p, evals, i->blocks[k])) return true;
        if (i->n_results && is_tile(ir_result(i)) && plan_can_be_virtual(i->op) &&
            share(p, evals, ir_result(i)))
            return true;
    }
    return false;
}

void plan_share(Plan *p)
{
    Evals *evals = arena_array(p->arena, Evals, p->n_info);
    bool again = true;
    while (again) {
        for (uint32_t k = 0; k < p->n_info; k++) evals[k].steps.len = 0;
        mark_steps(p, evals, p->body);
        again = share_block(p, evals, p->func->body);
        renumber(p->body);
    }
}
