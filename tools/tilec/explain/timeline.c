/* timeline.c: see timeline.h. */
#include "tools/tilec/explain/timeline.h"
#include "passes/kernel/kernel.h"
#include <stdlib.h>

/* --- the loop to draw -------------------------------------------------------------------------------- */

static bool is_loop(const Instr *i) { return i->op == OP_FOR || i->op == OP_WHILE; }
static bool is_tile(const Instr *i) { return i->n_results && i->results[0].type->kind == TYPE_TILE; }

/* Work of a block apart from loops inside it. */
static int work_of(const Block *b)
{
    int n = 0;
    for (const Instr *i = b->first; i; i = i->next) {
        n += op_family(i->op) == OPS_PRODUCT ? 1000 : kernel_copies(i->op) ? 100 : is_tile(i);
        for (int k = 0; !is_loop(i) && k < i->n_blocks; k++) n += work_of(i->blocks[k]);
    }
    return n;
}

/* The loop that does most in one iteration, a loop in another counting four times as much; marked edges (what
 * mask-peel left over) count little. */
static void main_loop(const Block *b, int64_t weight, const Instr **best, int64_t *most)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (kernel_is_roles(i->op)) continue;
        int64_t inside = is_loop(i) && weight < (int64_t)1 << 40 ? 4 * weight : weight;
        int64_t n =
            is_loop(i)
                ? (work_of(i->blocks[i->n_blocks - 1]) + (i->n_blocks > 1 ? work_of(i->blocks[0]) : 0)) *
                      inside / (ir_loop_is(i, LOOP_EDGE) ? 8 : 1)
                : 0;
        if (n > *most) {
            *most = n;
            *best = i;
        }
        for (int k = 0; k < i->n_blocks; k++) main_loop(i->blocks[k], inside, best, most);
    }
}

static const Instr *find_roles(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (kernel_is_roles(i->op)) return i;
        for (int k = 0; k < i->n_blocks; k++) {
            const Instr *r = find_roles(i->blocks[k]);
            if (r) return r;
        }
    }
    return NULL;
}

/* --- steps ------------------------------------------------------------------------------------------- */

typedef struct Draw {
    Session *s;
    const Func *f;
    Track *track;
    VEC(struct {
        const Value *v;
        size_t span;
    })
    flying;
    bool math; /* the last span is arithmetic, to which more may be added */
} Draw;

static const char *value_name(Draw *d, const Value *v)
{
    if (v->name) return v->name;
    if (!v->def && v->block == d->f->body && v->index < d->f->n_params) return d->f->params[v->index].name;
    return arena_printf(&d->s->arena, "%%%u", v->id);
}

/* "K_ring" is K's. */
static const char *ring_name(Draw *d, const Value *v)
{
    const char *name = value_name(d, v);
    size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, "_ring") ? arena_strndup(&d->s->arena, name, n - 5) : name;
}

static const char *shape(Draw *d, const Type *t)
{
    Text text;
    text_init(&text, &d->s->arena);
    for (int a = 0; a < t->rank; a++) text_printf(&text, "%s%lld", a ? "x" : "", (long long)t->shape[a]);
    return text.data ? text.data : "1";
}

static void step(Draw *d, const Instr *i, Lane lane, const char *name, const char *text)
{
    int line = 0, column = 0;
    if (i->loc.file) diag_position(d->s, i->loc, &line, &column);
    int at = d->track->steps++;
    vec_push(&d->s->arena, &d->track->spans, ((Span){ lane, at, at, false, name, text, line }));
    d->math = false;
}

/* Neighbours become one step: "fma, exp2 x2". */
static void add_math(Draw *d, const Instr *i)
{
    const char *op = op_info[i->op].name;
    if (!d->math) {
        step(d, i, LANE_MATH, op, op);
        d->math = true;
        return;
    }
    Span *span = &d->track->spans.data[d->track->spans.len - 1];
    size_t n = strlen(op);
    const char *end = span->text + strlen(span->text), *last = end;
    while (last > span->text && last[-1] != ' ') last--;
    bool counted = *last == 'x' && last[1] >= '0' && last[1] <= '9';
    const char *word = last;
    if (counted) {
        word = last - 1;
        while (word > span->text && word[-1] != ' ') word--;
    }
    if (!strncmp(word, op, n) && (word[n] == 0 || word[n] == ' ')) {
        int count = counted ? atoi(last + 1) : 1;
        span->text =
            arena_printf(&d->s->arena, "%.*s%s x%d", (int)(word - span->text), span->text, op, count + 1);
    } else if (strlen(span->text) < 160) span->text = arena_printf(&d->s->arena, "%s, %s", span->text, op);
}

static void issue(Draw *d, const Instr *i)
{
    const Value *r = ir_result(i);
    const Type *a = ir_operand(i, 0)->type;
    const char *text = arena_printf(&d->s->arena, "product %s: %s by %lld%s", value_name(d, r),
        shape(d, r->type), (long long)a->shape[a->rank - 1], i->op == OP_WGMMA ? ", issued" : "");
    step(d, i, LANE_MATRIX, value_name(d, r), text);
    if (i->op != OP_WGMMA) return;
    Span *span = &d->track->spans.data[d->track->spans.len - 1];
    span->open = true;
    vec_push(&d->s->arena, &d->flying, ((__typeof__(*d->flying.data)){ r, d->track->spans.len - 1 }));
}

/* Values that a `while` carries in flight to its head were issued at its end. */
static const Value *issued_before(const Value *v)
{
    const Instr *loop = v->def ? NULL : v->block->parent;
    return loop && loop->op == OP_WHILE && v->block == loop->blocks[0]
               ? ir_operand(ir_terminator(loop->blocks[1]), v->index)
               : v;
}

static void wait_products(Draw *d, const Instr *i)
{
    Text names;
    text_init(&names, &d->s->arena);
    for (int k = 0; k < i->n_operands; k++) {
        const Value *v = issued_before(ir_operand(i, k));
        for (size_t n = 0; n < d->flying.len; n++) {
            if (d->flying.data[n].v != v) continue;
            Span *span = &d->track->spans.data[d->flying.data[n].span];
            span->open = false;
            span->end = d->track->steps;
        }
        text_printf(&names, "%s%s", k ? ", " : "", value_name(d, v));
    }
    const char *list = names.data ? names.data : "";
    step(d, i, LANE_WAIT, arena_printf(&d->s->arena, "wait %s", list),
        arena_printf(&d->s->arena, "wait for product %s", list));
}

static const char *param_of(Draw *d, const Instr *i)
{
    MemParts p;
    return ir_mem_parts(i, &p) ? d->f->params[p.param].name : "";
}

/* A step on a stage of a ring: a copy to it, the wait for it, or its release. */
static void ring_step(Draw *d, const Instr *i)
{
    Arena *a = &d->s->arena;
    const char *name = ring_name(d, ir_operand(i, 0));
    if (i->op == OP_RING_GET)
        step(d, i, LANE_WAIT, arena_printf(a, "wait %s", name),
            arena_printf(a, "wait for a full stage of %s", name));
    else if (i->op == OP_RING_RELEASE)
        step(d, i, LANE_WAIT, arena_printf(a, "free %s", name),
            arena_printf(a, "release the stage of %s", name));
    else
        step(d, i, LANE_COPY, name,
            arena_printf(
                a, "copy %s into a free stage of %lld", name, (long long)ir_operand(i, 0)->type->shape[0]));
}

static void walk(Draw *d, const Block *b);

static void shared_step(Draw *d, const Instr *i)
{
    const char *name;
    switch (op_as_shared(i->op)) {
    case KERNEL_COPY:
        name = value_name(d, ir_operand(i, 1));
        step(d, i, LANE_COPY, name, arena_printf(&d->s->arena, "copy %s, started", name));
        return;
    case KERNEL_COPY_WAIT:
        step(d, i, LANE_WAIT, "copies",
            arena_printf(&d->s->arena, "wait until %lld groups of copies are in flight",
                (long long)ir_attr_int(i, ATTR_DEPTH, 0)));
        return;
    case KERNEL_BULK_FLUSH: step(d, i, LANE_COPY, "bulk_flush", "start the additions"); return;
    case KERNEL_ATOMICS_OPEN:
    case KERNEL_ATOMICS_CLOSE: step(d, i, LANE_MEMORY, "atomics", op_info[i->op].name); return;
    case KERNEL_BARRIER: step(d, i, LANE_WAIT, "barrier", "barrier"); return;
    case KERNEL_SHARED_READ:
    case KERNEL_SHARED_WRITE: step(d, i, LANE_MEMORY, "shared", op_info[i->op].name); return;
    case KERNEL_SHARED_ALLOC: /* no step */
    case KERNEL_SHARED_STAGE:
    case KERNEL_SHARED_SLICE:
    case KERNEL_SHARED_TRANSPOSE:
    case KERNEL_COPY_COMMIT: return;
    }
}

/* Operations that take no time worth drawing. */
static bool is_silent(Op op)
{
    return op == OP_SPLAT || op == OP_ARANGE || op == OP_BROADCAST || op == OP_RESHAPE ||
           op == OP_MATERIALIZE;
}

static void visit(Draw *d, const Instr *i)
{
    OpFamily f = op_family(i->op);
    if (f == OPS_SHARED) shared_step(d, i);
    else if (f == OPS_PRODUCT) issue(d, i);
    else if (i->op == OP_WGMMA_WAIT) wait_products(d, i);
    else if (i->op == OP_RING_CP_ASYNC || i->op == OP_RING_PUT || i->op == OP_RING_GET ||
             i->op == OP_RING_RELEASE)
        ring_step(d, i);
    else if (i->op == OP_PINGPONG_WAIT)
        step(d, i, LANE_WAIT, "turn", "wait for the turn to use the matrix unit");
    else if (i->op == OP_PINGPONG_PASS) step(d, i, LANE_WAIT, "turn", "pass on the turn");
    else if (f == OPS_MEMORY)
        step(d, i, LANE_MEMORY, param_of(d, i),
            arena_printf(&d->s->arena, "%s %s", op_info[i->op].name, param_of(d, i)));
    else if (i->n_blocks && f != OPS_COMBINED)
        for (int k = 0; k < i->n_blocks; k++) walk(d, i->blocks[k]);
    else if (is_tile(i) && !is_silent(i->op) && !kernel_is_cheap(ir_result(i))) add_math(d, i);
}

static void walk(Draw *d, const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) visit(d, i);
}

static void add_track(Session *s, const Func *f, const char *title, const Block *b, Timeline *out)
{
    Track track = { .title = title };
    Draw d = { s, f, &track };
    const Instr *loop = NULL;
    int64_t most = 0;
    int column = 0;
    main_loop(b, 1, &loop, &most);
    if (loop && loop->loc.file) diag_position(s, loop->loc, &track.line, &column);
    walk(&d, loop ? loop->blocks[loop->n_blocks - 1] : b);
    /* The arithmetic on results that the end of the previous iteration issued. */
    if (loop && loop->n_blocks > 1) walk(&d, loop->blocks[0]);
    for (size_t k = 0; k < track.spans.len; k++)
        if (track.spans.data[k].open) track.spans.data[k].end = track.steps;
    vec_push(&s->arena, out, track);
}

void timeline_build(Session *s, const Func *f, Timeline *out)
{
    const Instr *roles = find_roles(f->body);
    if (!roles) {
        add_track(s, f, "every program", f->body, out);
        return;
    }
    add_track(s, f, "producer", roles->blocks[0], out);
    if (roles->op == OP_CP_ASYNC_ROLES) add_track(s, f, "cp.async producers", roles->blocks[2], out);
    add_track(s, f, "consumers", roles->blocks[1], out);
}

/* --- text -------------------------------------------------------------------------------------------- */

enum { FLIGHTS = 4, CELL = 6 };

/* Products in flight stand in columns of their own: a name where one is issued, bars until it is waited for.
 */
static void text_track(const Track *t, Text *out)
{
    size_t in[FLIGHTS] = { 0 }; /* span + 1 */
    bool flights = false;
    for (size_t k = 0; k < t->spans.len; k++) flights |= t->spans.data[k].end > t->spans.data[k].begin;
    text_printf(out, "%s: ", t->title);
    if (t->line) text_printf(out, "one iteration of the loop at line %d\n", t->line);
    else text_puts(out, "the whole program\n");
    text_printf(out, "  step%s  line  what\n", flights ? "  products in flight      " : "");
    for (size_t k = 0; k < t->spans.len; k++) {
        const Span *s = &t->spans.data[k];
        text_printf(out, "  %4d  ", s->begin + 1);
        for (int slot = 0; flights && slot < FLIGHTS; slot++) {
            const Span *flying = in[slot] ? &t->spans.data[in[slot] - 1] : NULL;
            if (flying && !flying->open && flying->end == s->begin) {
                text_printf(out, "%-*s", CELL, "'");
                in[slot] = 0;
                continue;
            }
            if (flying) {
                text_printf(out, "%-*s", CELL, "|");
                continue;
            }
            bool here = s->end > s->begin;
            for (int other = 0; other < slot; other++) here &= in[other] != k + 1;
            if (here) {
                in[slot] = k + 1;
                text_printf(out, "%-*.*s", CELL, CELL - 1, s->name);
            } else text_printf(out, "%-*s", CELL, "");
        }
        if (s->line) text_printf(out, "%6d  %s\n", s->line, s->text);
        else text_printf(out, "%6s  %s\n", "", s->text);
    }
    for (int slot = 0; slot < FLIGHTS; slot++)
        if (in[slot])
            text_printf(
                out, "        %s is waited for in the next iteration\n", t->spans.data[in[slot] - 1].name);
}

void timeline_text(const Timeline *t, Text *out)
{
    for (size_t k = 0; k < t->len; k++) text_track(&t->data[k], out);
}
