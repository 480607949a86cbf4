/* remap_auto.c: of remap: chooses the placement for `remap = auto`. It tries every placement that could
 * help in the cache model (passes/sim), and takes the one that keeps L2's misses and memory busy for the
 * shortest time. The result depends on the function and the target alone.
 *
 * The model's quick form suffices to tell placements apart: caches of whole windows instead of lines, and
 * no more than MAX_ACCESSES memory operations of the programs that the device runs first. Extents that are
 * known only at launch are assumed. */
#include "passes/tile/program/remap.h"
#include "passes/sim/sim.h"

enum { MAX_ACCESSES = 8000 };

/* The grid's own extents count programs, or heads and batches: small. Others are the data's: large, if that
 * fits the model. */
static bool stand_in(Func *f, int64_t large, int64_t *dims)
{
    bool any = false;
    for (int d = 0; d < f->n_dims; d++) {
        dims[d] = f->dims[d].extent;
        if (dims[d] >= 0) continue;
        any = true;
        dims[d] = large;
        const Instr *end = ir_terminator(f->grid);
        for (int k = 0; k < end->n_operands; k++) {
            const Instr *i = ir_operand(end, k)->def;
            if (i && i->op == OP_DIM && ir_attr_int(i, ATTR_DIM, 0) == d) dims[d] = k == 1 ? 32 : 8;
        }
    }
    return any;
}

static SimTrace *trace_of(PassContext *c, Func *f, SimLaunch *launch)
{
    Arena *a = &c->session->arena;
    const char *why;
    int64_t *dims = arena_array(a, int64_t, (size_t)f->n_dims + 1);
    *launch = (SimLaunch){ dims, arena_array(a, Scalar, (size_t)f->n_params + 1) };
    for (int64_t large = 4096; large >= 64; large /= 8) {
        bool assumed = stand_in(f, large, dims);
        SimTrace *t = sim_trace(f, launch, &why);
        if (t && sim_trace_bytes(t) / 128 < INT32_MAX - 2) return t;
        if (!assumed) break;
    }
    return NULL;
}

/* Nanoseconds that what misses L2 keeps the last-level cache busy, and what misses that keeps memory busy.
 * False: not to be had. */
static bool cost_of(PassContext *c, Func *f, const SimTrace *t, const SimDevice *d, RemapSpec s, double *cost)
{
    const char *why;
    Block *own = f->remap, *b = remap_block(c, f, s);
    const EvalCode *code = NULL;
    if (b) {
        f->remap = b;
        code = eval_compile(c->scratch, f, b, &why);
        f->remap = own;
        if (!code) return false;
    }
    int64_t per_unit = f->hints.occupancy > 0 ? f->hints.occupancy : 1;
    SimOptions o = {
        .per_unit = per_unit, .windows = true, .max_accesses = MAX_ACCESSES, .alloc = c->session->arena.alloc
    };
    SimResult r;
    SimStatus st = sim_replay(t, d, code, &o, &r);
    if (st == SIM_NO_MEMORY) arena_oom(&c->session->arena);
    *cost = (d->llc_tbs > 0 ? r.llc_bytes / d->llc_tbs : 0) + (r.read_bytes + r.write_bytes) / d->memory_tbs;
    return st == SIM_OK;
}

RemapSpec remap_choose(PassContext *c, Func *f, int rank, int64_t raster)
{
    RemapSpec best = { REMAP_NONE, 0, raster }, tries[] = { { REMAP_XCD, 0, raster },
        { REMAP_CHUNK, 0, raster }, { REMAP_HEAD, 0, raster }, { REMAP_CHUNK, 0, 8 } };
    const SimDevice *known = sim_device_of(c->options->target);
    SimDevice device = known ? *known : *sim_device_find("mi300x");
    SimLaunch launch;
    double least, cost;
    device.chiplets = remap_chiplets(c->options);
    SimTrace *t = trace_of(c, f, &launch);
    if (!t || !cost_of(c, f, t, &device, best, &least)) {
        diag_perf(c->session, f->loc,
            "remap = auto: the accesses of %s are not known well enough to place its programs", f->name);
        return best;
    }
    double none = least;
    for (int k = 0; k < 4; k++) {
        if ((k == 2 && rank < 2) || (k == 3 && (rank != 2 || raster > 0 || f->remap))) continue;
        if (!cost_of(c, f, t, &device, tries[k], &cost) || cost >= 0.98 * least)
            continue; /* Prefer the simpler placement unless the other one is better by a margin. */
        least = cost;
        best = tries[k];
    }
    diag_perf(c->session, f->loc,
        "remap = auto: %s, by the model of %s (traffic %.0f%% of that in the order of ids)",
        remap_text(c->scratch, best), device.name, none > 0 ? 100 * least / none : 100);
    return best;
}
