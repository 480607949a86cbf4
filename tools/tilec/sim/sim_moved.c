/* sim_moved.c: sectors and banks of a launch: what access_count says of one tile, as often as the traced
 * program comes to it. */
#include "tools/tilec/sim/sim.h"
#include "backends/gpu/gpu.h"

enum { BANKS_BYTES = 128 }; /* that the banks of a compute unit pass on at once */

/* How often a program comes to an instruction of the kernel IR: as often as to the innermost loop around it
 * that the trace knows, by its place in the source. */
static double times_of(const Instr *i, const SimTrace *t, const SimMeasure *m)
{
    for (const Instr *p = i->block->parent; p; p = p->block->parent) {
        if (p->op != OP_FOR && p->op != OP_WHILE) continue;
        for (int k = 0; k < sim_trace_loops(t); k++) {
            Loc loc = sim_trace_loop(t, k)->loc;
            if (loc.file == p->loc.file && loc.begin == p->loc.begin && loc.end == p->loc.end)
                return m->rounds[k];
        }
    }
    return 1;
}

typedef struct Sums {
    double bytes, sectors;
} Sums; /* by parameter and direction, of one program */

/* What L2 serves of a line, in bytes. Of a line that is read, L1 keeps what else of it is asked for. */
static double of_line(const Sums *s, double asked, int64_t line, int sector, bool write, bool has_l1)
{
    if (s->bytes <= 0 || asked <= 0) return (double)line;
    double least = (asked + sector - 1) / sector * sector, served = asked * s->sectors / s->bytes;
    if (least > (double)line) least = (double)line;
    if (served < least) served = least;
    return !write && has_l1 && served > (double)line ? (double)line : served;
}

static void add_accesses(const GpuCode *code, const Target *target, const SimTrace *t, const SimMeasure *m,
    Sums (*sums)[2], SimMoved *out)
{
    double programs = (double)sim_trace_programs(t);
    EvalEnv env = sim_trace_env(t);
    for (int k = 0; k < code->n_accesses; k++) {
        const EmittedAccess *a = &code->accesses[k];
        AccessCount c;
        access_count(a, target, a->param >= 0 ? env.strides[a->param] : NULL, &c);
        double times = times_of(a->instr, t, m) * programs;
        if (a->shared) {
            out->shared += c.bytes * times;
            out->banks += c.moved * BANKS_BYTES * times;
        } else if (a->param >= 0) {
            Sums *s = &sums[a->param][a->write];
            s->bytes += c.bytes * times;
            s->sectors += c.moved * out->sector * times;
        }
    }
}

void sim_count_moved(
    Input *in, Func *f, const PassOptions *passes, const SimDevice *d, const SimTrace *t, SimMoved *out)
{
    Session *s = &in->session;
    GpuCode code;
    SimMeasure m;
    const Target *target = passes->target;
    KernelOptions options = kernel_options_of(passes);
    PassReport report = { 0 };
    Diag *last = s->last_diag;
    int errors = s->n_errors, params = f->n_params;
    *out = (SimMoved){ .sector = target->request_bytes };
    options.report = &report;
    bool ok = gpu_compile(s, f, target, &options, &code, NULL);
    diag_forget(s, last, errors);
    if (!ok) out->why_not = "the kernel does not fit as declared";
    else if (sim_measure(t, d->line, in->tool->alloc, &m)) out->why_not = "no program runs to its end";
    if (out->why_not) return;
    Sums(*sums)[2] = arena_calloc(&s->arena, (size_t)params + 1, sizeof *sums);
    double (*line_bytes)[2] = arena_calloc(&s->arena, (size_t)params + 1, sizeof *line_bytes);
    add_accesses(&code, target, t, &m, sums, out);
    for (int p = 0; p < params; p++)
        for (int w = 0; w < 2; w++) {
            const Sums *x = &sums[p][w];
            double asked = m.bytes[p][w] * (double)sim_trace_programs(t);
            out->asked += asked;
            out->sectors += x->bytes > 0 ? asked * x->sectors / x->bytes : 0;
            line_bytes[p][w] = of_line(x, m.of_line[p][w], d->line, out->sector, w, d->l1_bytes > 0);
        }
    out->line_bytes = (const double (*)[2])line_bytes;
}
