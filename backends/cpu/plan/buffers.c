/* buffers.c: how long each buffer lives, which buffers are one, and where they lie in the scratch memory.
 *
 * Steps get positions in program order. A buffer lives from its definition to its last read, stretched to the
 * end of every loop that holds the read but not the definition. Two buffers become one (no copy) where one
 * dies as the other is born: the accumulator of a product, element-wise work on a tile nobody else reads, a
 * loop-carried tile and its next value. */
#include "backends/cpu/cpu.h"

static void number(Steps *in, int *pos)
{
    for (Step *s = in->first; s; s = s->next) {
        s->pos = (*pos)++;
        if (s->blocks[0]) (*pos)++; /* the start of its blocks */
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) number(s->blocks[b], pos);
        s->end = (*pos)++;
    }
}

typedef struct Touch {
    Plan *p;
    Step *step;
    Sink *sink;
} Touch;

static void touch(Buf *b, Step *s)
{
    int pos = s->pos;
    for (Step *x = s; x && x->in != b->home; x = x->in->parent)
        if (x->in->parent && x->in->parent->kind != STEP_IF) pos = x->in->parent->end;
    if (b->first < 0 || s->pos < b->first) b->first = s->pos;
    if (pos > b->last) b->last = pos;
}

static void touch_leaf(void *user, Value *leaf, bool same)
{
    Touch *t = user;
    Buf *b = plan_info(t->p, leaf)->buf;
    if (b) touch(b, t->step);
}

static void read_value(Plan *p, Step *s, Value *v)
{
    Touch t = { p, s, NULL };
    plan_leaves(p, v, true, touch_leaf, &t);
}

static void read_operands(Plan *p, Step *s, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++) read_value(p, s, ir_operand(i, k));
}

static bool filled_here(Plan *p, Sink *k) { return k->value->def && plan_info(p, k->value)->buf == k->buf; }

/* What the product `s` reads and writes where step `at` is. */
static void touch_product(Plan *p, const Step *s, Step *at)
{
    for (int k = 0; k < 2 && s->thin; k++)
        if (k == 1 || !s->a) read_value(p, at, ir_operand(s->instr, k));
    if (s->a) touch(s->a, at);
    if (s->b) touch(s->b, at);
    touch(s->buf, at);
    if (s->acc) touch(s->acc, at);
}

static void touch_sink(Plan *p, Step *s, Sink *k)
{
    if (k->kind == SINK_STORE || k->kind == SINK_SCATTER || k->kind == SINK_ATOMIC || k->kind == SINK_PRINT)
        read_operands(p, s, k->instr);
    else if (k->kind == SINK_BUFFER && filled_here(p, k)) read_operands(p, s, k->value->def);
    else read_value(p, s, k->value);
    if (k->buf) touch(k->buf, s);
    if (k->aux) touch(k->aux, s);
}

static void touch_results(Plan *p, Step *s)
{
    for (int k = 0; k < s->instr->n_results; k++)
        if (s->instr->results[k].type->kind == TYPE_TILE) touch(plan_info(p, &s->instr->results[k])->buf, s);
    if (s->aux) touch(s->aux, s);
}

static void touch_steps(Plan *p, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        for (Sink *k = s->sinks; k; k = k->next) touch_sink(p, s, k);
        switch (s->kind) {
        case STEP_NEST:
        case STEP_WINDOW: break;
        case STEP_TRANSPOSE:
            if (plan_info(p, s->value)->buf == s->buf) read_operands(p, s, s->value->def);
            else read_value(p, s, s->value);
            touch(s->buf, s);
            break;
        case STEP_MMA:
            if (s->joined) break; /* does nothing where it stands */
            touch_product(p, s, s);
            for (const Step *w = s->with; w; w = w->with) touch_product(p, w, s);
            break;
        case STEP_SCAN:
        case STEP_COMBINED:
        case STEP_SORT:
            read_operands(p, s, s->instr);
            touch_results(p, s);
            break;
        case STEP_SCALAR:
        case STEP_YIELD: read_operands(p, s, s->instr); break;
        case STEP_FOR:
        case STEP_WHILE:
        case STEP_IF:
            read_operands(p, s, s->instr);
            for (int b = 0; b < 2; b++)
                if (s->blocks[b]) touch_steps(p, s->blocks[b]);
            break;
        }
    }
}

/* --- coalescing -------------------------------------------------------------------------------------- */

static bool overlap(const Buf *a, const Buf *b) { return a->first <= b->last && b->first <= a->last; }

/* Makes a and b one buffer if no two of their members live at once; x and y may touch (one is read where the
 * other is written, element by element). */
static bool join(Buf *a, Buf *b, const Buf *x, const Buf *y)
{
    a = buf_root(a);
    b = buf_root(b);
    if (a == b) return true;
    if (a->bytes != b->bytes || a->form != b->form || dtype_bits(a->dtype) != dtype_bits(b->dtype))
        return false;
    for (Buf *i = a; i; i = i->next_member)
        for (Buf *j = b; j; j = j->next_member) {
            bool may_touch = (i == x && j == y) || (i == y && j == x);
            if (may_touch ? (i->first < j->last && j->first < i->last) : overlap(i, j)) return false;
        }
    Buf *tail = a;
    while (tail->next_member) tail = tail->next_member;
    tail->next_member = b;
    b->same = a;
    return true;
}

typedef struct InPlace {
    Plan *p;
    Sink *sink;
    Step *step;
    Buf *best;
    bool clash;
} InPlace;

/* Whether the step runs at most once for each time that the buffer is filled: no loop lies between. */
static bool at_home(const Buf *b, const Step *s)
{
    const Steps *in = s->in;
    while (in != b->home && in->parent && in->parent->kind == STEP_IF) in = in->parent->in;
    return in == b->home;
}

static void in_place_leaf(void *user, Value *leaf, bool same)
{
    InPlace *x = user;
    Buf *b = plan_info(x->p, leaf)->buf;
    if (!b || b->form != FORM_DENSE || b->last != x->step->pos || !at_home(b, x->step)) return;
    if (!type_same_shape(leaf->type, x->sink->value->type) ||
        dtype_bits(leaf->type->dtype) != dtype_bits(x->sink->value->type->dtype))
        return;
    if (!same) {
        x->clash = true;
        return;
    }
    x->best = b;
}

/* Is `b` read in the step at other positions than its own, by any sink? */
typedef struct Elsewhere {
    Plan *p;
    const Buf *buf;
    bool found;
} Elsewhere;
static void elsewhere_leaf(void *user, Value *leaf, bool same)
{
    Elsewhere *e = user;
    if (!same && plan_info(e->p, leaf)->buf == e->buf) e->found = true;
}

static bool read_elsewhere(Plan *p, Step *s, const Buf *b)
{
    Elsewhere e = { p, b, false };
    for (Sink *k = s->sinks; k; k = k->next) {
        const Instr *i = NULL;
        if (k->kind == SINK_STORE || k->kind == SINK_SCATTER || k->kind == SINK_ATOMIC ||
            k->kind == SINK_PRINT)
            i = k->instr;
        else if (k->kind == SINK_BUFFER && filled_here(p, k)) i = k->value->def;
        if (!i) {
            plan_leaves(p, k->value, true, elsewhere_leaf, &e);
            continue;
        }
        bool keeps = !(i->op == OP_PERMUTE || i->op == OP_SLICE ||
                       (i->op == OP_RESHAPE && k->kind == SINK_BUFFER) || i->op == OP_BROADCAST);
        for (int x = 0; x < i->n_operands; x++) plan_leaves(p, ir_operand(i, x), keeps, elsewhere_leaf, &e);
    }
    return e.found;
}

/* Does the thin product compute an operand from `b` while it writes its sums? */
static bool multiplies_from(Plan *p, const Step *s, const Buf *b)
{
    Elsewhere e = { p, b, false };
    for (int k = 0; k < 2 && s->thin; k++)
        if (k == 1 || !s->a) plan_leaves(p, ir_operand(s->instr, k), false, elsewhere_leaf, &e);
    return e.found;
}

static void join_products(Plan *p, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        if (s->kind == STEP_MMA && s->acc && !multiplies_from(p, s, s->acc))
            join(s->acc, s->buf, s->acc, s->buf);
        for (Sink *k = s->sinks; k; k = k->next) {
            if (k->kind != SINK_BUFFER || !filled_here(p, k) ||
                !(op_info[k->value->def->op].flags & OPF_ELEM))
                continue;
            InPlace x = { p, k, s, NULL, false };
            for (int o = 0; o < k->value->def->n_operands; o++)
                plan_leaves(p, ir_operand(k->value->def, o), true, in_place_leaf, &x);
            if (x.best && !x.clash && !read_elsewhere(p, s, x.best)) join(x.best, k->buf, x.best, k->buf);
        }
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) join_products(p, s->blocks[b]);
    }
}

static Buf *operand_buf(Plan *p, const Instr *i, int k)
{
    Value *v = ir_operand(i, k);
    return v->type->kind == TYPE_TILE ? plan_info(p, v)->buf : NULL;
}

/* Joins the buffer of result k of a loop or `if` with those of the values that it takes over. */
static void join_result(Plan *p, Step *s, int k)
{
    const Instr *i = s->instr;
    Buf *c = s->carried[k], *c2 = s->carried2 ? s->carried2[k] : NULL, *y;
    if (s->kind == STEP_FOR) {
        Buf *arg = plan_info(p, i->blocks[0]->args[k + 1])->buf;
        join(c, arg, NULL, NULL);
        if ((y = operand_buf(p, i->blocks[0]->last, k))) join(c, y, NULL, NULL);
        if ((y = operand_buf(p, i, k + 3))) join(c, y, arg, y);
    } else if (s->kind == STEP_WHILE) {
        join(c, plan_info(p, i->blocks[1]->args[k])->buf, NULL, NULL);
        if (ir_operand(i->blocks[0]->last, k + 1) == i->blocks[0]->args[k]) join(c, c2, c, c2);
        if ((y = operand_buf(p, i->blocks[1]->last, k))) join(c2, y, NULL, NULL);
        if ((y = operand_buf(p, i, k))) join(c2, y, c2, y);
    } else {
        for (int b = 0; b < 2; b++)
            if ((y = operand_buf(p, i->blocks[b]->last, k))) join(c, y, NULL, NULL);
    }
}

static void join_carried(Plan *p, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) join_carried(p, s->blocks[b]);
        for (int k = 0; s->blocks[0] && k < s->instr->n_results; k++)
            if (s->carried[k]) join_result(p, s, k);
    }
}

/* Carried buffers: the result lives from the end of the step on. The argument of a loop's first block is
 * written where the step begins, one after the other, so it must not take the place of what another one is
 * still to be written from; that of a while's body lives from the end of its condition on. */
static void carried_lives(Plan *p, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        const Instr *i = s->instr;
        for (int k = 0; s->blocks[0] && k < i->n_results; k++) {
            Buf *c = s->carried[k];
            if (!c) continue;
            c->first = s->end;
            if (c->last < s->end) c->last = s->end;
            for (int b = 0; b < i->n_blocks && s->kind != STEP_IF; b++) {
                Buf *a = plan_info(p, i->blocks[b]->args[k + (s->kind == STEP_FOR)])->buf;
                int begin = b == 1 && s->blocks[0]->last ? s->blocks[0]->last->end : s->pos;
                a->first = begin;
                if (a->last < begin) a->last = begin;
            }
        }
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) carried_lives(p, s->blocks[b]);
    }
}

/* The whole class of a carried buffer lives through its loop. */
static void stretch(Plan *p, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        for (int k = 0; s->blocks[0] && k < s->instr->n_results; k++)
            for (int w = 0; w < 2; w++) {
                Buf *c = w ? s->carried2[k] : s->carried[k];
                if (!c) continue;
                c = buf_root(c);
                if (s->pos < c->life_first) c->life_first = s->pos;
                if (s->end > c->life_last) c->life_last = s->end;
            }
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) stretch(p, s->blocks[b]);
    }
}

/* The buffer to which operand k of a block's last step is copied. */
static Buf *destination(const Step *parent, const Step *yield, int k)
{
    if (parent->kind == STEP_WHILE)
        return yield->instr->op == OP_CONDITION ? parent->carried[k - 1] : parent->carried2[k];
    return parent->carried[k];
}

/* Passing values on is a parallel assignment: a value in a buffer that another value will overwrite is copied
 * aside first. */
static void set_aside(Plan *p, Steps *in)
{
    for (Step *s = in->first; s; s = s->next) {
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) set_aside(p, s->blocks[b]);
        if (s->kind != STEP_YIELD || !in->parent) continue;
        const Instr *i = s->instr;
        int from = i->op == OP_CONDITION ? 1 : 0;
        s->carried = arena_array(p->arena, Buf *, (size_t)i->n_operands);
        for (int k = from; k < i->n_operands; k++) {
            Buf *y = operand_buf(p, i, k);
            if (!y || buf_root(y) == buf_root(destination(in->parent, s, k))) continue;
            for (int j = from; j < i->n_operands; j++) {
                Buf *d = ir_operand(i, j)->type->kind == TYPE_TILE ? destination(in->parent, s, j) : NULL;
                if (j == k || !d || buf_root(d) != buf_root(y) || s->carried[k]) continue;
                Buf *t = arena_new(p->arena, Buf);
                *t = (Buf){ .dtype = y->dtype,
                    .rank = y->rank,
                    .bytes = y->bytes,
                    .home = in,
                    .first = s->pos,
                    .last = s->pos,
                    .life_first = s->pos,
                    .life_last = s->pos };
                memcpy(t->shape, y->shape, sizeof t->shape);
                *p->bufs_end = t;
                p->bufs_end = &t->next;
                s->carried[k] = t;
            }
        }
    }
}

static void place(Plan *p)
{
    VEC(Buf *) roots = { 0 };
    for (Buf *b = p->bufs; b; b = b->next) {
        if (b->same || b->life_last < 0) continue;
        vec_push(p->arena, &roots, b);
    }
    /* Place large and early buffers first. The rule is simple and close to optimal for the few dozen buffers
     * of a kernel. */
    for (size_t i = 1; i < roots.len; i++)
        for (size_t j = i; j > 0 && keep_bytes(roots.data[j]) > keep_bytes(roots.data[j - 1]); j--) {
            Buf *t = roots.data[j];
            roots.data[j] = roots.data[j - 1];
            roots.data[j - 1] = t;
        }
    for (size_t i = 0; i < roots.len; i++) {
        Buf *b = roots.data[i];
        int64_t at = line_ends_before(p);
        bool moved = true;
        while (moved) {
            moved = false;
            for (size_t j = 0; j < i; j++) {
                Buf *o = roots.data[j];
                bool live = o->life_first <= b->life_last && b->life_first <= o->life_last;
                if (live && at < o->offset + keep_bytes(o) && o->offset < at + keep_bytes(b)) {
                    at = (o->offset + keep_bytes(o) + 63) / 64 * 64;
                    moved = true;
                }
            }
        }
        b->offset = at;
        if (at + keep_bytes(b) > p->scratch_bytes) p->scratch_bytes = at + keep_bytes(b);
    }
    p->scratch_bytes = (p->scratch_bytes + 63) / 64 * 64;
    p->kept_at = p->scratch_bytes;
    p->scratch_bytes += (p->n_kept * (int64_t)sizeof(int64_t) + 63) / 64 * 64;
    p->line_ends_at = p->scratch_bytes;
    p->scratch_bytes += (line_ends_bytes(p) + 63) / 64 * 64;
}

void cpu_buffers(Plan *p)
{
    int pos = 0;
    number(p->body, &pos);
    touch_steps(p, p->body);
    carried_lives(p, p->body);
    join_products(p, p->body);
    join_carried(p, p->body);
    for (Buf *b = p->bufs; b; b = b->next) {
        b->life_first = b->places ? 0 : b->first;
        b->life_last = b->places ? pos : b->last;
    }
    for (Buf *b = p->bufs; b; b = b->next) {
        Buf *r = buf_root(b);
        if (b->last < 0 || b->places) continue;
        if (b->first < r->life_first || r->life_last < 0) r->life_first = b->first;
        if (b->last > r->life_last) r->life_last = b->last;
    }
    stretch(p, p->body);
    set_aside(p, p->body);
    place(p);
}

#define TEXT_OF(name, text) text,

/* The blocks of a product, its unit, and what they were chosen by: the vector registers, and the cache that
 * the operands share. */
static void print_product(const Plan *p, const Step *s, Text *out)
{
    static const char *const thin[] = { "", "of few rows, by rows of B as they lie",
        "of few rows, by columns of B as they lie", "of few columns, by rows of A as they lie" };
    text_printf(out, " %%%u ", ir_result(s->instr)->id);
    if (s->thin) text_puts(out, thin[s->thin]);
    else text_printf(out, "mr %d nv %d", s->mr, s->nv);
    text_printf(out, "%s%s, ",
        s->joined ? ", with the next"
        : s->with ? ", and the last"
                  : "",
        s->zero_acc ? " zero" : "");
    if (!s->thin && s->a->form == FORM_DENSE) text_puts(out, "A as it lies, ");
    if (!s->thin && s->a->in_memory) text_puts(out, "A from memory where in range, ");
    if (s->mma == MMA_I8_PAIRS) text_puts(out, "by sums of pairs that fit 16 bits, instead of ");
    mma_unit_print(p->target, s->instr, out);
    if (s->thin || p->amx) return;
    text_printf(out, "; %d sums in %d registers, %lld deep with %lld KB packed for a second cache of %lld KB",
        s->mr * s->nv, p->target->n_vector_regs, (long long)ir_operand(s->instr, 0)->type->shape[1],
        (long long)((s->a->bytes + s->b->bytes) >> 10), (long long)(p->target->second_cache >> 10));
}

static void print_steps(const Plan *p, Steps *in, Text *out, int indent)
{
    static const char *const names[] = { STEP_KINDS(TEXT_OF) };
    static const char *const sinks[] = { SINK_KINDS(TEXT_OF) };
    for (Step *s = in->first; s; s = s->next) {
        if (s->kind == STEP_SCALAR) continue;
        text_printf(out, "%*s%d %s", indent, "", s->pos, names[s->kind]);
        if (s->kind == STEP_NEST)
            for (int i = 0; i < s->rank; i++)
                text_printf(out, "%c%lld", i ? 'x' : ' ', (long long)s->shape[i]);
        if (s->kind == STEP_MMA) print_product(p, s, out);
        if (s->buf) text_printf(out, " -> @%lld", (long long)buf_root(s->buf)->offset);
        for (Sink *k = s->sinks; k; k = k->next) {
            text_printf(
                out, " %s(%%%u %s", sinks[k->kind], k->value->id, k->value->name ? k->value->name : "");
            if (k->buf)
                text_printf(
                    out, " -> @%lld+%lld", (long long)buf_root(k->buf)->offset, (long long)k->buf->bytes);
            text_puts(out, ")");
        }
        text_putc(out, '\n');
        for (int b = 0; b < 2; b++)
            if (s->blocks[b]) print_steps(p, s->blocks[b], out, indent + 2);
    }
}

void cpu_plan_print(const Plan *p, Text *out)
{
    print_steps(p, p->body, out, 0);
    if (p->target->amx_refused) text_printf(out, "no AMX: %s\n", p->target->amx_refused);
    text_printf(out, "scratch %lld bytes\n", (long long)p->scratch_bytes);
}
