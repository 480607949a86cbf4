/* roofline.c: how far a launch falls short of its roofline by its estimate, and which line of the source
 * takes most of the resource that limits it (cost.h). */
#include "runtime/choice/cost/cost.h"
#include <math.h>

/* The part of the roofline from which on nothing is said. */
static const double NEAR = 0.75;

/* The time of the bytes of the tensors, each moved once. What was written before must leave L2, as in the
 * estimate. */
static double memory_roof(const Cost *c, const CostDevice *d)
{
    const DeviceModel *m = d->model;
    double left = fmin(m->dirty * c->unique, m->dirty_most * (double)d->l2_bytes);
    return (c->unique + left) / m->memory;
}

double cost_roof(const Cost *c, const CostDevice *d, Bound *roof)
{
    const DeviceModel *m = d->model;
    double memory = memory_roof(c, d), all = (double)c->programs * c->cluster,
           products = all * (c->wgmma / m->wgmma + c->mma / m->mma) / d->units,
           arithmetic = all * fmax(c->alu / m->alu, c->special / m->special) / d->units;
    *roof = memory >= fmax(products, arithmetic) ? BOUND_MEMORY
            : products >= arithmetic             ? BOUND_PRODUCTS
                                                 : BOUND_ARITHMETIC;
    return fmax(memory, fmax(products, arithmetic));
}

static const char *remedy(Bound b)
{
    switch (b) {
    case BOUND_PROGRAMS: return "smaller tiles make more programs";
    case BOUND_LOADS:
        return "more bytes must be under way: several programs on a multiprocessor, larger tiles, or a "
               "larger `latency` of the loads of a loop";
    case BOUND_MEMORY:
        return "more bytes move than the tensors have: windows that programs read again, sectors of which "
               "they use a part, or tiles that registers do not hold";
    case BOUND_L2: return "larger tiles read the same data fewer times";
    case BOUND_SHARED_MEMORY: return "larger tiles of a product read its operands fewer times";
    case BOUND_ARITHMETIC:
        return "the operations of this line are not hidden behind products and loads: do them once instead "
               "of "
               "in each step, or in a narrower tile";
    case BOUND_PRODUCTS: return "larger tiles, and warps that only load, keep the matrix unit busy";
    case BOUND_COUNT: break;
    }
    return "";
}

/* The kernel with what tells it from the other variants of the file: gemm<T=f16, TO=f16>. */
static const char *title(Session *s, const Func *f)
{ return *f->spec ? arena_printf(&s->arena, "%s<%s>", f->name, f->spec) : f->name; }

/* A launch at the roofline of its own arithmetic, which takes longer than its bytes do: whoever expects the
 * speed of a copy is told where the time goes. */
static void advise_arithmetic(
    Session *s, const Func *f, const Cost *c, const CostDevice *d, Loc at, double ns)
{
    double memory = memory_roof(c, d);
    if (memory >= NEAR * ns) return;
    Diag *note = diag_perf(s, at.file ? at : f->loc,
        "%s is estimated to be bound by arithmetic on %s, most of all in this line", title(s, f),
        d->model->name);
    diag_note(s, note, (Loc){ 0 },
        "%.1f us, and memory alone would take %.1f us; fewer operations an element, or functions with "
        "`approx`, bring it nearer to a copy",
        ns * 1e-3, memory * 1e-3);
}

void cost_advise(
    Session *s, const Func *f, const GpuCode *code, const EvalEnv *env, int64_t programs, const CostDevice *d)
{
    Cost c;
    Bound bound, roof;
    if (!d->model || programs <= 0) return;
    cost_count(s, f, code, env, programs, d, &c);
    double ns = cost_estimate(&c, d, &bound) - d->model->launch, least = cost_roof(&c, d, &roof);
    if (c.uncertain) return;
    if (least >= NEAR * ns) {
        if (roof == BOUND_ARITHMETIC)
            advise_arithmetic(s, f, &c, d, cost_line(s, f, code, env, programs, d, BOUND_ARITHMETIC), ns);
        return;
    }
    if (c.programs * c.cluster < d->units) bound = BOUND_PROGRAMS;
    Loc at = bound == BOUND_PROGRAMS ? f->loc : cost_line(s, f, code, env, programs, d, bound);
    Diag *note =
        bound == BOUND_PROGRAMS
            ? diag_perf(s, f->loc,
                  "%s is estimated to reach %.0f%% of the roofline of %s: %lld programs do not fill "
                  "%d multiprocessors",
                  title(s, f), 100 * least / ns, d->model->name, (long long)programs, d->units)
            : diag_perf(s, at.file ? at : f->loc,
                  "%s is estimated to reach %.0f%% of the roofline of %s: it is bound by %s, most of "
                  "all in this line",
                  title(s, f), 100 * least / ns, d->model->name, bound_name(bound));
    diag_note(s, note, (Loc){ 0 }, "%.1f us, and %s alone would take %.1f us; %s", ns * 1e-3,
        bound_name(roof), least * 1e-3, remedy(bound));
}

const char *bound_name(Bound b)
{
    switch (b) {
    case BOUND_PROGRAMS: return "the number of programs";
    case BOUND_LOADS: return "loads in flight";
    case BOUND_MEMORY: return "memory";
    case BOUND_L2: return "L2";
    case BOUND_SHARED_MEMORY: return "shared memory";
    case BOUND_ARITHMETIC: return "arithmetic";
    case BOUND_PRODUCTS: return "products";
    case BOUND_COUNT: break;
    }
    return "";
}
