/* cost_spans.c: of cost: windows of a loop's iterations that lie over each other, as those of the taps of a
 * convolution do. A program loads them soon after one another, so that memory brings once what they have in
 * common. A walk of one program through the iterations finds how far their places reach. */
#include "runtime/choice/cost/cost_walk.h"
#include <math.h>

/* Counts the place `v` along an axis; false: it is not known. */
static bool reach(const CostWalk *w, const Value *v, int64_t span[2], bool first)
{
    int64_t at = 0;
    if (!cost_as_int(w, v, &at)) return false;
    if (first || at < span[0]) span[0] = at;
    if (first || at > span[1]) span[1] = at;
    return true;
}

static TrafficSpan *span_of(Traffic *t, const Instr *i)
{
    for (int k = 0; k < t->n_spans; k++)
        if (t->span[k].i == i) return &t->span[k];
    return NULL;
}

void cost_span_meet(CostWalk *w, const TrafficStep *s)
{
    Traffic *t = w->traffic;
    TrafficSpan *x = span_of(t, s->i);
    if (!x && t->n_spans == MOST_SPANS) return;
    if (!x) *(x = &t->span[t->n_spans++]) = (TrafficSpan){ .i = s->i, .known = s->extents != NULL };
    const Attr *pixels = ir_attr(s->i, ATTR_IM2COL);
    const int taps = pixels ? pixels->n / 4 : 0;
    x->known &= !ir_attr(s->i, ATTR_STEPS) && s->first + s->rank + taps <= s->i->n_operands;
    for (int k = 0; x->known && k < s->rank + taps; k++)
        x->known = k < MOST_PLACES && reach(w, ir_operand(s->i, s->first + k), x->place[k], !x->times);
    for (int k = 0; k < taps; k++) x->known &= pixels->v[4 * k + 1] == 1;
    x->times++;
}

/* Whether windows of tensors of more than two axes are loaded in each iteration, as those of taps are, and
 * their places follow from the counter alone. */
static bool may_span(const Block *b)
{
    bool may = false;
    if (b->n_args != 1) return false;
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->n_blocks) return false;
        may |= i->op == OP_RING_PUT && ir_operand(i, 1)->type->rank > 2;
    }
    return may;
}

void cost_spans(CostWalk *w, const Block *b, int64_t lo, int64_t step, int64_t iterations)
{
    Traffic *t = w->traffic;
    if (!t || !t->wants_spans || t->spans || t->n_spans || iterations < 2 || !may_span(b)) return;
    const int64_t n = iterations < MOST_ITERATIONS_NAMED ? iterations : MOST_ITERATIONS_NAMED;
    t->spans = true;
    for (int64_t k = 0; k < n; k++) {
        cost_put(w, b->args[0], scalar_int(lo + step * (k * (iterations - 1) / (n - 1))));
        cost_walk_block(w, b, 1);
    }
    t->spans = false;
    for (int k = 0; k < t->n_spans; k++) t->span[k].times = (double)iterations;
    cost_put(w, b->args[0], scalar_int(lo));
}

/* By how many pixels the taps' rows, which go on in the next image, are away from each other. */
static double pixels_away(const CostWalk *w, const TrafficStep *s, const TrafficSpan *x, const Attr *pixels)
{
    const int *dims = w->f->params[s->param].dims;
    double away = 0, pitch = 1;
    for (int k = 0; 4 * k < pixels->n; k++) {
        const int64_t *tap = x->place[s->rank + k];
        away += pitch * (double)(tap[1] - tap[0]);
        pitch *= (double)w->env->dims[dims[pixels->v[4 * k]]];
    }
    return away;
}

double cost_span_part(const CostWalk *w, const TrafficStep *s)
{
    const TrafficSpan *x = span_of(w->traffic, s->i);
    if (!x || !x->known) return 1;
    const Attr *pixels = ir_attr(s->i, ATTR_IM2COL);
    const Param *p = &w->f->params[s->param];
    double all = 1, one = 1;
    for (int a = 0; a < s->rank && a < s->extents->n; a++) {
        const double extent = s->extents->v[a] > 1 ? (double)s->extents->v[a] : 1;
        const double reached = (double)(x->place[a][1] - x->place[a][0]) + extent;
        const bool runs = pixels && extent > 1 && p->stride[a] != 1;
        one *= extent;
        all *=
            runs ? reached + pixels_away(w, s, x, pixels) : fmin(reached, (double)w->env->dims[p->dims[a]]);
    }
    return fmin(1, all / (one * x->times));
}
