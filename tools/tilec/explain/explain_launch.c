/* explain_launch.c: the launch that `tilec explain` examines. Extents that -D gives are in the function; the
 * others are made up, so that the launch has some thousand programs at most. */
#include "tools/tilec/explain/explain.h"
#include "tools/tilec/run/problem.h"

enum {
    MOST_PROGRAMS = 1024,
    LEAST_EXTENT = 2,
    PROBES = 1024,
    MOST_PROBED = 1 << 17,
    MOST_REPLAYED = 1 << 18, /* steps */
    LEAST_REPLAYED = 16,
    LONG_PROGRAM = 1 << 14, /* steps, behind which made-up extents are smaller */
    SMALL_EXTENT = 16,
    MOST_ACCESSES = 1 << 18,
    MOST_STEPS = 1 << 18
};

static bool is_free(const Dim *d) { return d->extent < 0 && !d->text; }

/* How many axes of its tensor lie inside of the dimension: outer ones are made smaller first. */
static int inside_of(const Func *f, const Dim *d)
{
    const Param *p = &f->params[d->param];
    return p->type->kind == TYPE_TENSOR ? p->type->rank - 1 - d->axis : 0;
}

/* Strides of tensors that are contiguous where the function knows no others. */
static void find_strides(Explained *x)
{
    const Func *f = x->tile;
    for (int p = 0; p < f->n_params; p++) {
        const Param *q = &f->params[p];
        int64_t pitch = 1;
        for (int a = q->type->kind == TYPE_TENSOR ? q->type->rank - 1 : -1; a >= 0; a--) {
            x->launch.strides[p][a] = q->stride[a] != FACT_UNKNOWN ? q->stride[a] : pitch;
            pitch *= x->launch.dims[q->dims[a]];
        }
    }
}

/* What a block of the function may read. */
static EvalEnv launch_env(Explained *x)
{
    find_strides(x);
    const ExplainLaunch *l = &x->launch;
    return (EvalEnv){
        .dims = l->dims, .scalars = l->scalars, .strides = (const int64_t (*)[TILE_MAX_RANK])l->strides
    };
}

/* The extents that the launch derives from the others. */
static bool derive(Explained *x)
{
    const Func *f = x->tile;
    int64_t value[EVAL_MAX_RESULTS];
    EvalEnv env = launch_env(x);
    if (!f->extents) return true;
    int n = ir_terminator(f->extents)->n_operands;
    if (!ir_eval_block(f, f->extents, &env, value, n)) return false;
    for (int d = f->n_dims - 1; d >= 0; d--)
        if (f->dims[d].text) x->launch.dims[d] = value[--n];
    return true;
}

static int64_t programs_of(Explained *x)
{
    int64_t grid[3] = { 1, 1, 1 };
    EvalEnv env = launch_env(x);
    int n = ir_terminator(x->tile->grid)->n_operands;
    if (n > 3 || !ir_eval_block(x->tile, x->tile->grid, &env, grid, n)) return 0;
    double all = (double)grid[0] * (double)grid[1] * (double)grid[2];
    return all > 1e15 ? INT64_MAX : (int64_t)all;
}

static void make_up(Explained *x, int64_t extent)
{
    const Func *f = x->tile;
    int64_t *dims = x->launch.dims;
    for (int d = 0; d < f->n_dims; d++) dims[d] = is_free(&f->dims[d]) ? extent : f->dims[d].extent;
    derive(x);
    for (int level = TILE_MAX_RANK - 1; level >= 0; level--) {
        bool smaller = true;
        while (smaller && programs_of(x) > MOST_PROGRAMS) {
            smaller = false;
            for (int d = 0; d < f->n_dims; d++) {
                if (!is_free(&f->dims[d]) || inside_of(f, &f->dims[d]) != level) continue;
                if (dims[d] <= LEAST_EXTENT) continue;
                dims[d] /= 2;
                smaller = true;
            }
            derive(x);
        }
    }
}

static const char *name_assumed(Explained *x)
{
    const Func *f = x->tile;
    Text t;
    int n = 0;
    text_init(&t, &x->in->session.arena);
    for (int d = 0; d < f->n_dims; d++)
        if (is_free(&f->dims[d]) && f->dims[d].name)
            text_printf(&t, "%s%s = %lld", n++ ? ", " : "", f->dims[d].name, (long long)x->launch.dims[d]);
    return n ? t.data : NULL;
}

/* What stands for the scalars: their defaults, else 1. */
static const Scalar *find_scalars(Explained *x)
{
    const Func *f = x->tile;
    const FrontKernel *k = x->v->kernel;
    Scalar *out = arena_array(&x->in->session.arena, Scalar, (size_t)f->n_params + 1);
    for (int p = 0; p < f->n_params; p++) {
        const Param *q = &f->params[p];
        if (q->kind != PARAM_SCALAR) continue;
        bool real = dtype_is_float(q->type->dtype);
        out[p] = real ? scalar_float(1) : scalar_int(1);
        for (int i = 0; i < k->n_params; i++) {
            FrontValue d = k->params[i].default_value;
            if (strcmp(k->params[i].name, q->name)) continue;
            if (d.kind == FRONT_INT) out[p] = real ? scalar_float((double)d.i) : scalar_int(d.i);
            if (d.kind == FRONT_FLOAT && real) out[p] = scalar_float(d.f);
        }
    }
    return out;
}

/* The cache model's device: the card of --device, else one that runs the target's code, else one of its kind.
 */
static const SimDevice *find_device(const Explained *x, bool *other)
{
    const SimDevice *d = x->card ? sim_device_find(x->card->name) : NULL;
    *other = false;
    for (size_t i = 0; !d && sim_device_at(i); i++)
        if (!strcmp(sim_device_at(i)->target, x->o->target->name)) d = sim_device_at(i);
    *other = !d;
    for (size_t i = 0; !d && sim_device_at(i); i++)
        if (target_find(sim_device_at(i)->target)->kind == x->o->target->kind) d = sim_device_at(i);
    return d;
}

/* Operations of all programs. Of a large grid some are run: a step that shares no factor with the grid
 * reaches all positions of every axis. Programs that run long, whose extents are read from a tensor for
 * example, are fewer: no further one begins behind MOST_PROBED steps, and each ends after MOST_ACCESSES
 * operations on memory or `most` steps. With `ask` it stops as soon as programs are longer than
 * LONG_PROGRAM in the mean. */
static double count_operations(Explained *x, SimTrace *trace, int64_t most, bool ask)
{
    int64_t all = sim_trace_programs(trace), n = all < PROBES ? all : PROBES,
            step = n == all ? 1 : sim_spread(all);
    SimProgram *p = sim_program_new(trace, x->in->tool->alloc);
    int64_t done = 0, steps = 0;
    double sum = 0;
    if (!p) arena_oom(&x->in->session.arena);
    sim_program_limit(p, MOST_ACCESSES, most);
    x->launch.cut = false;
    for (; done < n && steps < MOST_PROBED; done++) {
        SimStep s;
        if (sim_program_run(p, done * step % all, &s)) break;
        sum += s.operations;
        steps += s.steps;
        x->launch.cut |= s.cut;
        if (ask && steps > (done + 2) * LONG_PROGRAM) {
            done++;
            break;
        }
    }
    sim_program_free(p);
    x->launch.counted = done;
    x->launch.steps = done ? steps / done : 0;
    return done ? sum * (double)all / (double)done : 0;
}

static double tensor_bytes(const Explained *x)
{
    const Func *f = x->tile;
    double all = 0;
    for (int p = 0; p < f->n_params; p++) {
        const Param *q = &f->params[p];
        double n = q->type->kind == TYPE_TENSOR ? dtype_bytes(q->type->dtype) : 0;
        for (int a = 0; n > 0 && a < q->type->rank; a++) n *= (double)x->launch.dims[q->dims[a]];
        all += n;
    }
    return all;
}

/* A launch whose free extents are `extent` at most. False: its programs run so long that a smaller extent is
 * to be tried. */
static bool try_launch(Explained *x, int64_t extent)
{
    ExplainLaunch *l = &x->launch;
    make_up(x, extent);
    l->assumed = name_assumed(x);
    SimLaunch launch = { l->dims, l->scalars };
    l->trace = sim_trace(x->tile, &launch, &l->why_not);
    if (!l->trace) return true;
    bool smaller = l->assumed && extent > SMALL_EXTENT;
    l->operations = count_operations(x, l->trace, smaller ? 2 * LONG_PROGRAM : MOST_STEPS, smaller);
    if (smaller && l->steps > LONG_PROGRAM) return false;
    if (smaller && l->cut) l->operations = count_operations(x, l->trace, MOST_STEPS, false);
    return true;
}

void explain_launch(Explained *x)
{
    ExplainLaunch *l = &x->launch;
    Arena *a = &x->in->session.arena;
    if (l->dims) return;
    l->dims = arena_array(a, int64_t, (size_t)x->tile->n_dims + 1);
    l->strides = arena_calloc(a, (size_t)x->tile->n_params + 1, sizeof *l->strides);
    l->scalars = find_scalars(x);
    for (int64_t extent = PROBLEM_EXTENT; !try_launch(x, extent);) extent /= 4;
    l->bytes = tensor_bytes(x);
    l->device = find_device(x, &l->other);
}

void explain_replay(Explained *x)
{
    ExplainLaunch *l = &x->launch;
    explain_launch(x);
    if (!l->trace || !l->device || l->tensors) return;
    if (sim_trace_bytes(l->trace) / l->device->line > INT32_MAX - 2) return;
    Session *s = &x->in->session;
    SimTensor *tensors = arena_calloc(&s->arena, (size_t)x->tile->n_params + 1, sizeof *tensors);
    const char *why = NULL;
    const EvalCode *remap = x->tile->remap ? eval_compile(&s->arena, x->tile, x->tile->remap, &why) : NULL;
    int64_t programs = l->steps > 0 ? MOST_REPLAYED / l->steps : sim_trace_programs(l->trace);
    l->replayed = programs < LEAST_REPLAYED ? LEAST_REPLAYED : programs;
    if (l->replayed > sim_trace_programs(l->trace)) l->replayed = sim_trace_programs(l->trace);
    SimOptions o = { .programs = l->replayed,
        .most_steps = EXPLAIN_REPLAYED_STEPS,
        .per_unit = x->tile->hints.occupancy > 0 ? x->tile->hints.occupancy : 1,
        .max_lines = 1 << 18,
        .tensors = tensors,
        .alloc = x->in->tool->alloc };
    SimStatus st = sim_replay(l->trace, l->device, remap, &o, &l->result);
    if (st == SIM_NO_MEMORY) arena_oom(&s->arena);
    if (st == SIM_OK) l->tensors = tensors;
}
