/* bench_work.c: the work of one launch: operations counted in the tile IR over its programs, and bytes of the
 * arguments. The operations are those of products, or where there are none, all on floats. A loop that runs
 * to the diagonal only counts the steps that it runs. */
#include "tools/tilec/bench/bench.h"
#include "passes/sim/sim.h"
#include "runtime/choice/estimate/device_model.h"
#include "tools/tilec/bench/host_peak.h"

/* MOST_STEPS: of a program, and behind which no further program is run. A program whose loops depend on data
 * can be as long as the made-up data say. */
enum { MOST_PROGRAMS = 1 << 14, MOST_STEPS = 1 << 22 };

/* The extents and scalars of the launch, by the function's numbers. */
static bool launch_of(const Run *r, const Func *f, SimLaunch *out, Arena *a)
{
    int64_t *dims = arena_array(a, int64_t, (size_t)f->n_dims + 1);
    Scalar *scalars = arena_array(a, Scalar, (size_t)f->n_params + 1);
    if (f->n_params != (int)r->n_params) return false;
    for (int d = 0; d < f->n_dims; d++) dims[d] = f->dims[d].extent;
    for (int i = 0; i < f->n_params; i++) {
        const Parameter *p = &r->params[i];
        const Param *q = &f->params[i];
        const tile_arg *x = &r->launch_args[i];
        if (q->kind == PARAM_SCALAR) {
            bool real = dtype_is_float(q->type->dtype);
            double v = x->kind == TILE_ARG_FLOAT ? x->value.f : (double)x->value.i;
            scalars[i] = real ? scalar_float(v) : scalar_int(x->value.i);
            continue;
        }
        for (int k = 0; k < q->type->rank && !p->left_out; k++)
            if (dims[q->dims[k]] < 0) dims[q->dims[k]] = p->host.shape[k];
    }
    for (int d = 0; d < f->n_dims; d++)
        if (dims[d] < 0) dims[d] = 0; /* of tensors that are left out */
    *out = (SimLaunch){ dims, scalars };
    return true;
}

static void add(BenchWork *w, const SimStep *s)
{
    w->flops += s->flops;
    w->operations += s->operations;
    w->flops_8 += s->flops_8;
    w->flops_16 += s->flops_16;
    w->flops_32 += s->flops_32;
}

/* All programs, or of a large grid a part that is spread over it. */
static bool count_programs(const SimTrace *t, Allocator alloc, BenchWork *w)
{
    int64_t n = sim_trace_programs(t), take = n < MOST_PROGRAMS ? n : MOST_PROGRAMS;
    SimProgram *p = sim_program_new(t, alloc);
    int64_t spread = sim_spread(n), steps = 0, done = 0;
    bool ok = p != NULL;
    if (ok) sim_program_limit(p, 0, MOST_STEPS);
    for (int64_t i = 0; i < take && ok && steps < MOST_STEPS; i++) {
        SimStep step;
        ok = sim_program_run(p, i * spread % n, &step) == SIM_OK;
        if (!ok) break;
        add(w, &step);
        steps += step.steps;
        w->sampled |= step.cut;
        done++;
    }
    if (p) sim_program_free(p);
    double scale = done ? (double)n / (double)done : 1;
    w->flops *= scale;
    w->operations *= scale;
    w->flops_8 *= scale;
    w->flops_16 *= scale;
    w->flops_32 *= scale;
    w->sampled |= done < n;
    if (w->flops <= 0) w->flops = w->operations;
    return ok;
}

/* The extents of tiles, and the tensors that are left out, as the launch has them. */
static bool count_flops(const Run *r, Session *s, BenchWork *w)
{
    const FrontKernel *k = frontend_kernel_find(module_program(r->module), r->kernel_name);
    FrontBinding *b = arena_array(&s->arena, FrontBinding, (size_t)k->n_keys + r->n_params + 1);
    size_t n = 0;
    Func *f;
    SimLaunch launch;
    const char *why;
    for (int i = 0; i < k->n_keys; i++) {
        const Extent *x = extent_find(&r->known, k->keys[i]);
        if (x) b[n++] = (FrontBinding){ x->name, { FRONT_INT, { .i = x->value } } };
    }
    for (size_t i = 0; i < r->n_params; i++)
        if (r->params[i].left_out)
            b[n++] = (FrontBinding){ r->params[i].info.name, { FRONT_BOOL, { .b = false } } };
    if (!kernel_tile_ir(r->kernel, s, b, n, &f) || !launch_of(r, f, &launch, &s->arena)) return false;
    SimTrace *t = sim_trace(f, &launch, &why);
    return t && count_programs(t, s->arena.alloc, w);
}

bool bench_count(Run *r, BenchWork *w)
{
    Session s;
    *w = (BenchWork){ 0 };
    session_init(&s, r->tool->alloc);
    int jumped = setjmp(s.oom);
    bool ok = !jumped && count_flops(r, &s, w);
    session_free(&s);
    if (!ok) *w = (BenchWork){ 0 };
    w->bytes = run_bytes(r);
    return ok;
}

/* Of both fractions, of the peaks of products and of memory, the larger. `products`: the seconds that the
 * products take at their peak. */
static double larger_part(double products, double memory, double ms, const char **bound)
{
    *bound = products > memory ? "arithmetic" : "memory";
    return (products > memory ? products : memory) * 1e3 / ms;
}

static bool has_doubles(const Run *r)
{
    for (size_t i = 0; i < r->n_params; i++)
        if (!r->params[i].left_out && r->params[i].host.rank > 0 && r->params[i].host.dtype == DT_F64)
            return true;
    return false;
}

/* A fraction above 1 can mean that the peak that is kept was measured while the machine was busy. */
static double host_part(const Run *r, const BenchWork *w, double ms, const char **bound)
{
    double part = 0;
    for (int again = 0; again < 2; again++) {
        HostPeak p;
        host_peak(r, w->bytes, again, &p);
        double wide = has_doubles(r) ? p.tflops_64 : p.tflops_32,
               products = w->flops_8 / p.tflops_8 + w->flops_16 / p.tflops_16 + w->flops_32 / wide,
               memory = p.memory_tbs > 0 ? w->bytes / p.memory_tbs : 0;
        part = larger_part(products * 1e-12, memory * 1e-12, ms, bound);
        if (part <= 1) break;
    }
    return part;
}

double bench_peak(const Run *r, const BenchWork *w, double ms, const char **bound)
{
    const Target *target = context_target(r->context);
    const tile_device_info *d = &r->device;
    *bound = "";
    if (ms <= 0) return 0;
    if (target->kind == TARGET_CPU) return host_part(r, w, ms, bound);
    CostDevice card =
        device_of_card(target, d->name, d->multiprocessors, (int64_t)d->l2_bytes, (int64_t)d->shared_bytes);
    const SimDevice *device = card.model ? sim_device_find(card.model->name) : NULL;
    if (!device) return 0;
    double products = w->flops_8 / (2 * device->tflops_16) + w->flops_16 / device->tflops_16 +
                      w->flops_32 / device->tflops_32;
    return larger_part(products * 1e-12, w->bytes / device->memory_tbs * 1e-12, ms, bound);
}
