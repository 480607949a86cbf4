/* explain_roofline.c: `tilec explain --roofline`: the variants under the roofs of a device. */
#include "tools/tilec/explain/explain_page.h"
#include "tools/tilec/bench/host_peak.h"
#include "tools/tilec/run/problem.h"
#include <math.h>

/* The roofs: 10^12 operations or bytes a second; 0: there is none. */
typedef struct Roofs {
    const char *device;
    double products, arithmetic, memory, l2;
} Roofs;

/* The measured peaks of this machine, if its processor runs the code of the target. */
static bool roofs_of_host(const Explained *x, Roofs *r)
{
    Tool *tool = x->in->tool;
    Run run = { .tool = tool, .device = { .struct_size = sizeof run.device } };
    HostPeak p;
    const tile_context_desc d = { .struct_size = sizeof d,
        .target = x->o->target->name,
        .allocator = { tool->alloc.realloc, tool->alloc.user } };
    if (x->o->backend.cpu || tile_context_create(&d, &run.context)) return false;
    bool known = !tile_context_device(run.context, &run.device);
    if (known) {
        host_peak(&run, x->launch.bytes, false, &p);
        *r = (Roofs){ arena_strdup(&tool->arena, run.device.name), p.tflops_16, p.tflops_32, p.memory_tbs };
    }
    tile_context_destroy(run.context);
    return known;
}

static bool roofs_of(const Explained *x, Roofs *r)
{
    if (x->o->target->kind == TARGET_CPU) return roofs_of_host(x, r);
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

/* "3.35", "989": two digits behind the point below 10. */
static const char *rate_text(Arena *a, double rate)
{ return arena_printf(a, rate < 0.1 ? "%.3f" : rate < 10 ? "%.2f" : "%.0f", rate); }

/* The lines of the roofs. */
static int draw_roofs(Arena *a, const Roofs *r, double lo, double hi, DrawSeries *all)
{
    int n = 0;
    const char *memory = rate_text(a, r->memory), *products = rate_text(a, r->products),
               *arithmetic = rate_text(a, r->arithmetic);
    bool matrix = r->products > r->arithmetic;
    all[n++] = roof(a,
        matrix ? arena_printf(a, "memory, %s TB/s, and the matrix unit, %s TFLOPS", memory, products)
               : arena_printf(a, "memory, %s TB/s, and arithmetic, %s TFLOPS", memory, arithmetic),
        r->memory, matrix ? r->products : r->arithmetic, lo, hi, NULL);
    if (r->l2 > 0)
        all[n++] = roof(a, arena_printf(a, "L2, %.1f TB/s", r->l2), r->l2, r->products, lo, hi, "6 3");
    if (matrix)
        all[n++] =
            roof(a, arena_printf(a, "arithmetic, %s TFLOPS", arithmetic), 0, r->arithmetic, lo, hi, "2 3");
    return n;
}

/* Where no times are known, as on a CPU, a point lies on the roof at its intensity. */
static double attainable(const Roofs *r, double intensity)
{
    double most = r->products > r->arithmetic ? r->products : r->arithmetic;
    return intensity * r->memory < most ? intensity * r->memory : most;
}

/* The points that have a rate, each with its number. */
static int draw_points(Arena *a, const RoofPoint *points, size_t count, DrawSeries *all)
{
    int n = 0;
    for (size_t k = 0; k < count; k++) {
        const RoofPoint *p = &points[k];
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
    return n;
}

static const char *note_of(Arena *a, const Roofline *r, bool host, int without)
{
    const char *assumed = r->first->launch.assumed, *times = "times are the best case of the cache model";
    if (r->points.data[0].estimated) times = "times are estimates";
    if (host) times = "no times: points lie where the roofs are (tilec bench measures)";
    return arena_printf(a, "%s; bytes are those of the tensors, each once%s%s%s", times,
        without ? arena_printf(a,
                      "; %d variants without floating-point operations or an estimate are left out", without)
                : "",
        assumed ? "; " : "", assumed ? assumed : "");
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
    bool host = r->first->o->target->kind == TARGET_CPU;
    double lo = 0.1, hi = roofs.memory > 0 ? 8 * roofs.products / roofs.memory : 1000;
    int without = 0;
    RoofPoint *points = arena_array(a, RoofPoint, r->points.len);
    for (size_t k = 0; k < r->points.len; k++) {
        RoofPoint *p = &points[k];
        *p = r->points.data[k];
        if (host) p->rate = attainable(&roofs, p->intensity);
        if (p->intensity > 0 && p->intensity / 2 < lo) lo = p->intensity / 2;
        if (p->intensity * 2 > hi) hi = p->intensity * 2;
        without += !(p->intensity > 0 && p->rate > 0);
    }
    DrawSeries *all = arena_array(a, DrawSeries, r->points.len + 3);
    int n = draw_roofs(a, &roofs, lo, hi, all);
    n += draw_points(a, points, r->points.len, all + n);
    const char *note = note_of(a, r, host, without);
    double width = 96 + (draw_text_width(note, 11) > 700 ? draw_text_width(note, 11) : 700);
    draw_chart(&(DrawChart){ .title = arena_printf(a, "Roofline of %s", roofs.device),
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
