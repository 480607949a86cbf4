/* explain_roofline.c: `tilec explain --roofline`: the variants under the roofs of a device. */
#include "tools/tilec/explain_page.h"
#include "tools/tilec/problem.h"
#include <math.h>

/* The roofs: 10^12 operations or bytes a second; 0: there is none. */
typedef struct Roofs {
    const char *device;
    double products, arithmetic, memory, l2;
} Roofs;

static bool roofs_of(const Explained *x, Roofs *r)
{
    const DeviceModel *m = x->card ? x->card : device_model(x->o->target);
    const SimDevice *d = x->launch.device;
    if (m) {
        double units = m->multiprocessors, matrix = m->wgmma > m->mma ? m->wgmma : m->mma;
        *r = (Roofs){ m->name, 2e-3 * matrix * units, 2e-3 * m->alu * units, 1e-3 * m->memory,
            1e-3 * m->l2 * units };
        return true;
    }
    if (!d) return false;
    *r = (Roofs){ d->name, d->tflops_16, d->tflops_32, d->memory_tbs, d->l2_tbs };
    return true;
}

bool roofline_known(const Explained *x)
{
    Roofs roofs;
    return roofs_of(x, &roofs);
}

static Ast *parse_again(void *user, Session *s) { return input_parse_again(user, s); }

/* Seconds of the launch by the cost model of its card; 0: not known. */
static double estimated(const Explained *x)
{
    const DeviceModel *m = x->card ? x->card : device_model(x->o->target);
    Session *s = &x->in->session;
    const Func *f = x->tile;
    CompileOptions quiet = *x->o;
    ProblemView view;
    ProblemCount count;
    Bound bound;
    if (!m || !x->kernel) return 0;
    quiet.passes.dump_after = NULL;
    FrontBinding *given = arena_array(&s->arena, FrontBinding, x->v->n + (size_t)f->n_dims + 1);
    size_t n = x->v->n;
    memcpy(given, x->v->bindings, n * sizeof *given);
    for (int d = 0; d < f->n_dims; d++)
        if (f->dims[d].name && !f->dims[d].text && f->dims[d].extent < 0) {
            given[n].name = f->dims[d].name;
            given[n++].value = (FrontValue){ .kind = FRONT_INT, .i = x->launch.dims[d] };
        }
    Problem p = { .parse = parse_again,
        .user = x->in,
        .kernel = x->v->kernel->name,
        .device = device_of_model(m, x->o->target),
        .options = &quiet };
    if (!problem_view_bound(&p, s, given, (int)n, &view)) return 0;
    problem_count(&view, s, NULL, 0, &count);
    return count.ok ? cost_estimate(&count.cost, &p.device, &bound) * 1e-9 : 0;
}

bool roofline_add(Explained *x, Roofline *r)
{
    Session *s = &x->in->session;
    explain_launch(x);
    if (!x->launch.trace) {
        diag_error(s, x->tile->loc, "--roofline: the accesses of %s cannot be derived: %s", x->v->title,
            x->launch.why_not);
        return false;
    }
    double seconds = estimated(x);
    bool model = seconds > 0;
    if (!model) {
        explain_replay(x);
        seconds = x->launch.tensors ? x->launch.result.seconds : 0;
    }
    RoofPoint p = { .name = x->title,
        .intensity = x->launch.bytes > 0 ? x->launch.operations / x->launch.bytes : 0,
        .rate = seconds > 0 ? x->launch.operations / seconds * 1e-12 : 0,
        .estimated = model };
    if (!r->first) r->first = x;
    vec_push(&s->arena, &r->points, p);
    return true;
}

static DrawSeries roof(
    Arena *a, const char *name, double tbs, double peak, double lo, double hi, const char *dash)
{
    double *xy = arena_array(a, double, 6), ridge = tbs > 0 ? peak / tbs : lo;
    int n = 0;
    if (tbs > 0 && ridge > lo) {
        xy[n] = lo;
        xy[3 + n++] = lo * tbs;
    }
    if (ridge > lo && ridge < hi) {
        xy[n] = ridge;
        xy[3 + n++] = peak;
    }
    xy[n] = hi;
    xy[3 + n++] = ridge < hi ? peak : hi * tbs;
    if (!tbs) {
        xy[0] = lo;
        xy[1] = hi;
        xy[3] = xy[4] = peak;
        n = 2;
    }
    return (DrawSeries){ .name = name, .x = xy, .y = xy + 3, .n = n, .mark = DRAW_LINE, .dash = dash };
}

bool roofline_draw(const Roofline *r, Text *t)
{
    Session *s = &r->first->in->session;
    Arena *a = t->arena;
    Roofs roofs;
    if (!roofs_of(r->first, &roofs)) {
        diag_error(s, (Loc){ 0 }, "--roofline: no roofs are known of a device that runs code for %s",
            r->first->o->target->name);
        return false;
    }
    double lo = 0.1, hi = roofs.memory > 0 ? 8 * roofs.products / roofs.memory : 1000;
    int without = 0;
    for (size_t k = 0; k < r->points.len; k++) {
        const RoofPoint *p = &r->points.data[k];
        if (p->intensity > 0 && p->intensity / 2 < lo) lo = p->intensity / 2;
        if (p->intensity * 2 > hi) hi = p->intensity * 2;
        without += !(p->intensity > 0 && p->rate > 0);
    }
    DrawSeries *all = arena_array(a, DrawSeries, r->points.len + 4);
    int n = 0;
    all[n++] = roof(a,
        arena_printf(a, "memory, %.2f TB/s, and the matrix unit, %.0f TFLOPS", roofs.memory, roofs.products),
        roofs.memory, roofs.products, lo, hi, NULL);
    all[n++] = roof(a, arena_printf(a, "L2, %.1f TB/s", roofs.l2), roofs.l2, roofs.products, lo, hi, "6 3");
    all[n++] = roof(
        a, arena_printf(a, "arithmetic, %.0f TFLOPS", roofs.arithmetic), 0, roofs.arithmetic, lo, hi, "2 3");
    for (size_t k = 0; k < r->points.len; k++) {
        const RoofPoint *p = &r->points.data[k];
        const char **label = arena_array(a, const char *, 1);
        *label = arena_printf(a, "%zu", k + 1);
        if (p->intensity > 0 && p->rate > 0)
            all[n++] = (DrawSeries){ .name = arena_printf(a, "%zu %s", k + 1, p->name),
                .x = &p->intensity,
                .y = &p->rate,
                .n = 1,
                .mark = DRAW_POINTS,
                .labels = label };
    }
    const char *assumed = r->first->launch.assumed,
               *note = arena_printf(a, "%s; bytes are those of the tensors, each once%s%s%s",
                   r->points.data[0].estimated ? "times are estimates"
                                               : "times are the best case of the cache model",
                   without
                       ? arena_printf(a,
                             "; %d variants without floating-point operations or an estimate are left out",
                             without)
                       : "",
                   assumed ? "; " : "", assumed ? assumed : "");
    const char *title = arena_printf(a, "Roofline of %s", roofs.device);
    double width = 96 + (draw_text_width(note, 11) > 700 ? draw_text_width(note, 11) : 700);
    draw_chart(&(DrawChart){ .title = title,
                   .note = note,
                   .x = { "operations on floats for each byte of the tensors", DRAW_LOG10, lo, hi },
                   .y = { "TFLOPS", DRAW_LOG10 },
                   .series = all,
                   .n = n,
                   .width = width,
                   .height = 460 + 18 * n },
        t);
    return true;
}
