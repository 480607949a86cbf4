/* launch.c: the full path of a launch, for launches that memo.c does not know: read and check the arguments
 * (arguments.c), make the key (key.c), find the variant, evaluate the grid (grid.c), fill the slots, hand
 * over to the driver. When the variant is there, nothing here allocates, locks or compiles. */
#include "runtime/launch/pitch.h"
#include "ir/analysis/threads.h"
#include "runtime/drivers/gpu_facts.h"

/* The variant for the arguments; NULL, and success, if there is nothing to compute. */
tile_status launch_variant(tile_kernel *k, const LaunchArgs *l, Variant **out)
{
    uint64_t key[k->key_words];
    bool nothing;
    tile_status st = kernel_key(k, l, key);
    if (st || (*out = kernel_ready(k, key))) return st;
    st = kernel_nothing(k, l, key, &nothing);
    return st || nothing ? st : kernel_variant(k, l, key, out);
}

/* The threads that a launch on the CPU is worth. */
static int64_t cpu_threads(
    const tile_context *c, const Compiled *compiled, const EvalEnv *env, int64_t programs)
{
    int64_t work = -1;
    if (programs > 1 && compiled->work && !eval_run(compiled->work, env, &work, 1)) work = -1;
    return threads_worth(work, programs, c->driver->info.multiprocessors, THREAD_WAKE_WORK);
}

/* The programs of one warp that a CTA has. */
static int abreast(const tile_context *c, const LaunchShape *s, int64_t programs)
{ return gpu_abreast(s->abreast, programs, (int64_t)c->target->sm_ctas * c->driver->info.multiprocessors); }

static GpuGrid gpu_grid(const tile_context *c, const LaunchShape *s, const EvalEnv *env, int64_t programs)
{
    return (GpuGrid){ programs, env->grid[s->cluster_axis], s->persistent, s->cluster, s->clusters, s->shares,
        c->driver->info.multiprocessors, abreast(c, s, programs) };
}

LaunchSize launch_size(const tile_context *c, const Compiled *compiled, const EvalEnv *env, int64_t programs)
{
    const LaunchShape *s = &compiled->artifact.shape;
    GpuGrid g = gpu_grid(c, s, env, programs);
    bool cpu = c->driver->ops->kind == TARGET_CPU;
    int64_t blocks = cpu ? cpu_threads(c, compiled, env, programs) : gpu_blocks(&g),
            shared = cpu ? s->workspace_per_block * c->driver->info.multiprocessors
                         : gpu_workspace(&g, s->workspace_per_block, blocks);
    return (LaunchSize){ programs, blocks, (size_t)(s->workspace_bytes + shared) };
}

typedef struct LaunchState {
    tile_kernel *k;
    Variant *v;
    const LaunchArgs *args;
    const int64_t *dims;
    const EvalEnv *env;
    const tile_launch_desc *desc;
    const tile_arg *given; /* by which the launch is recalled; NULL: a later one may be another */
    size_t workspace;
    CheckRecord *check;
    Printer *printer;
} LaunchState;

static tile_status fill_slots(
    const LaunchState *l, uint64_t *slots, void **params, unsigned char (*maps)[128])
{
    const Compiled *c = &l->v->compiled;
    const Artifact *a = &c->artifact;
    for (int i = 0; i < a->n_slots; i++) {
        const Slot *s = &a->slots[i];
        params[i] = &slots[i];
        switch (s->kind) {
        case SLOT_DATA: slots[i] = (uint64_t)(uintptr_t)l->args->views[s->param].data; break;
        case SLOT_EXTENT: slots[i] = (uint64_t)l->dims[s->index]; break;
        case SLOT_STRIDE: slots[i] = (uint64_t)l->args->strides[s->param][s->index]; break;
        case SLOT_SCALAR: slots[i] = l->args->views[s->param].word; break;
        case SLOT_GRID:
            slots[i] = (uint64_t)(s->index < 0 ? l->env->grid[0] * l->env->grid[1] * l->env->grid[2]
                                               : l->env->grid[s->index]);
            break;
        case SLOT_TENSOR_MAP: {
            const TensorMapDesc *m = &a->maps[s->index];
            DriverTensorMap t = { m, l->args->views[m->param].data, l->args->views[m->param].extent,
                l->args->strides[m->param] };
            DriverError e;
            tile_status st =
                l->k->context->driver->ops->tensor_map(l->k->context->driver, &t, maps[s->index], &e);
            if (st) return launch_bad(l->k, st, m->param, "%s", e.text);
            params[i] = maps[s->index];
            break;
        }
        case SLOT_CHECK: slots[i] = (uint64_t)(uintptr_t)l->check; break;
        case SLOT_PRINT: slots[i] = (uint64_t)(uintptr_t)l->printer; break;
        case SLOT_SCHEDULER:
        case SLOT_WORKSPACE: slots[i] = 0; break; /* launch_borrowing fills them */
        }
    }
    return TILE_OK;
}

static COLD tile_status check_failed(tile_kernel *k, const Variant *v, const CheckRecord *r)
{
    const Artifact *a = &v->compiled.artifact;
    if (r->message == CHECK_WAIT)
        return context_fail(k->context, TILE_ERROR_CHECK,
            "%s:%u: %s: the launch does not end: warp %u of CTA %lld waits for the mbarrier at byte %u of "
            "its shared memory, for a phase of parity %u",
            k->module->sources.files.data[0].name, r->line, k->title,
            r->wait >> CHECK_WAIT_WARP & ((1u << (CHECK_WAIT_PARITY - CHECK_WAIT_WARP)) - 1),
            (long long)r->program, r->wait & ((1u << CHECK_WAIT_WARP) - 1), r->wait >> CHECK_WAIT_PARITY);
    const char *what = r->message < (uint32_t)a->n_messages ? a->messages[r->message] : "check failed";
    return context_fail(k->context, TILE_ERROR_CHECK, "%s:%u: %s: %s (program %lld)",
        k->module->sources.files.data[0].name, r->line, k->title, what, (long long)r->program);
}

tile_status launch_driver(tile_kernel *k, const Variant *v, const uint64_t *slots, void **params,
    int64_t programs, int64_t blocks, void *stream)
{
    tile_context *c = k->context;
    const LaunchShape *s = &v->compiled.artifact.shape;
    int warps = abreast(c, s, programs);
    DriverLaunch d = { .slots = slots,
        .params = params,
        .programs = programs,
        .blocks = blocks,
        .threads = s->threads * warps,
        .shared_bytes = (size_t)s->shared_bytes * (size_t)warps,
        .cluster = s->cluster,
        .early_start = s->early_start,
        .scratch_bytes = (size_t)s->scratch_bytes,
        .neighbours = s->neighbours,
        .stream = stream };
    DriverError e;
    tile_status st = c->driver->ops->launch(c->driver, v->function, &d, &e);
    if (st) return context_driver_fail(c, st, &e, v->title);
    context_launched(c, v->title);
    return TILE_OK;
}

tile_status launch_borrowing(tile_kernel *k, const Variant *v, uint64_t *slots, void **params,
    const LaunchSize *size, const tile_launch_desc *desc)
{
    void *stream = desc ? desc->stream : NULL, *own = desc ? desc->workspace : NULL;
    Borrowed b = { .workspace = own };
    bool borrows = size->workspace && !own;
    tile_status st;
    if (borrows && (st = context_borrow(k->context, stream, size->workspace, k->title, &b))) return st;
    if (v->memos.scheduler >= 0) {
        if (!b.counter && !(b.counter = context_counter(k->context, stream))) return TILE_ERROR_RESOURCES;
        slots[v->memos.scheduler] = (uint64_t)(uintptr_t)b.counter;
    }
    if (v->memos.workspace >= 0) slots[v->memos.workspace] = (uint64_t)(uintptr_t)b.workspace;
    st = launch_driver(k, v, slots, params, size->programs, size->blocks, stream);
    if (!borrows) return st;
    tile_status freed = context_give_back(k->context, stream, k->title, &b);
    return st ? st : freed;
}

static tile_status hand_over(const LaunchState *l, int64_t programs, int64_t blocks)
{
    const Artifact *a = &l->v->compiled.artifact;
    uint64_t slots[a->n_slots + 1];
    void *params[a->n_slots + 1];
    _Alignas(64) unsigned char maps[a->n_maps + 1][128];
    tile_status st = fill_slots(l, slots, params, maps);
    LaunchSize size = { programs, blocks, l->workspace };
    if (!st) st = launch_borrowing(l->k, l->v, slots, params, &size, l->desc);
    if (!st && l->given) memo_keep(l->k, l->v, l->given, l->args, &(MemoMade){ slots, maps, size });
    return st;
}

static bool is_tracked(const tile_context *c)
{ return (c->flags & TILE_CONTEXT_CHECKED) && c->driver->ops->kind == TARGET_CPU; }

/* A checked launch waits for its record. */
static COLD tile_status checked_launch(LaunchState *l, int64_t programs, int64_t blocks)
{
    tile_context *c = l->k->context;
    const DriverOps *ops = c->driver->ops;
    DriverError e;
    void *record = NULL;
    tile_status st = ops->memory_alloc(c->driver, TILE_MEMORY_PINNED, sizeof(CheckRecord), &record, &e);
    if (st) return context_driver_fail(c, st, &e, l->k->title);
    memset(record, 0, sizeof(CheckRecord));
    l->check = record;
    Faults *faults = NULL;
    if (is_tracked(c)) {
        faults = track_begin(l->k, l->args, programs);
        if (!faults) st = context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory to follow the accesses");
        else l->check->accesses = faults_sink(faults);
    }
    if (!st) st = hand_over(l, programs, blocks);
    if (!st && (st = ops->stream_synchronize(c->driver, l->desc->stream, &e)))
        context_driver_fail(c, st, &e, l->k->title);
    CheckRecord copy = *l->check;
    DriverError ignored;
    ops->memory_free(c->driver, TILE_MEMORY_PINNED, record, &ignored);
    /* After a wait that did not end, the driver has an error too, which says less. */
    if (copy.failed && (!st || copy.message == CHECK_WAIT)) st = check_failed(l->k, l->v, &copy);
    if (!st && faults) return track_end(l->k, faults, l->env->grid);
    faults_free(faults);
    return st;
}

/* No program runs: outputs that have elements keep what they held. */
static tile_status no_programs(tile_kernel *k, const LaunchArgs *a, const int64_t *grid)
{
    if (!is_tracked(k->context)) return TILE_OK;
    Faults *faults = track_begin(k, a, 0);
    if (!faults)
        return context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory to follow the accesses");
    return track_end(k, faults, grid);
}

static tile_status run_launch(LaunchState *l, int64_t programs, int64_t blocks)
{
    return l->k->context->flags & TILE_CONTEXT_CHECKED ? checked_launch(l, programs, blocks)
                                                       : hand_over(l, programs, blocks);
}

static COLD tile_status printing_launch(LaunchState *l, int64_t programs, int64_t blocks)
{
    Printer printer;
    printer_open(&printer, l->k->context, l->k->title);
    l->printer = &printer;
    tile_status st = run_launch(l, programs, blocks);
    printer_close(&printer);
    return st;
}

static tile_status check_size(
    tile_kernel *k, const LaunchShape *s, const int64_t *grid, int64_t programs, int64_t blocks)
{
    char text[EVAL_GRID_TEXT];
    int axes = grid[2] > 1 ? 3 : grid[1] > 1 ? 2 : 1;
    const tile_context *c = k->context;
    TargetKind kind = c->driver->ops->kind;
    if (kind != TARGET_CPU && blocks > c->driver->info.max_blocks)
        return launch_bad(k, TILE_ERROR_GRID, -1,
            "the grid of %s is too large for %s: it takes %lld blocks, and the device runs at most %lld in "
            "one launch",
            eval_grid_text(grid, axes, text), c->target->name, (long long)blocks,
            (long long)c->driver->info.max_blocks);
    if (kind == TARGET_HIP && blocks * s->threads >= (int64_t)1 << 32)
        return launch_bad(k, TILE_ERROR_GRID, -1,
            "the grid of %s is too large for %s: with %d threads each, it takes 2^32 threads or more, and "
            "HIP runs fewer in one launch",
            eval_grid_text(grid, axes, text), c->target->name, s->threads);
    return TILE_OK;
}

bool launch_has_workspace(tile_context *c, const tile_launch_desc *d, size_t bytes)
{
    if (!d || (!d->workspace && !d->workspace_size)) return context_has_scratch(c);
    return d->workspace && d->workspace_size >= bytes && (uintptr_t)d->workspace % 256 == 0;
}

static tile_status launch(
    tile_kernel *k, const tile_arg *args, size_t n_args, const tile_launch_desc *desc, bool as_given)
{
    tile_status st;
    if (memo_launch(k, args, n_args, desc, &st)) return st;
    tile_launch_desc d;
    if (!context_take_desc(&d, sizeof d, desc, sizeof(size_t)))
        return launch_bad(
            k, TILE_ERROR_INVALID_ARGUMENT, -1, "struct_size of the launch descriptor is not set");
    LAUNCH_ARGS(a, k);
    Variant *v = NULL;
    st = kernel_bind(k, args, n_args, &a);
    if (!st) st = launch_overlap(k, a.views);
    Pitch pitch;
    pitch.for_now = false;
    if (!st && !as_given && pitch_wanted(k, args, n_args, &a, &pitch)) {
        if (pitch_launch(k, n_args, &a, &pitch, &d, &st)) return st;
        st = TILE_OK;
    }
    if (!st) st = launch_variant(k, &a, &v);
    if (st) return st;
    if (!v) return no_programs(k, &a, (const int64_t[3]){ 0 });

    const LaunchShape *shape = &v->compiled.artifact.shape;
    int64_t extents[v->compiled.n_dims + 1], programs;
    EvalEnv env;
    if ((st = launch_grid(k, v, &a, extents, &env, &programs))) return st;
    if (programs == 0) return no_programs(k, &a, env.grid);
    LaunchSize size = launch_size(k->context, &v->compiled, &env, programs);
    int64_t blocks = size.blocks;
    size_t workspace = size.workspace;
    if ((st = check_size(k, shape, env.grid, programs, blocks))) return st;
    if (workspace && !launch_has_workspace(k->context, &d, workspace))
        return launch_bad(k, TILE_ERROR_WORKSPACE, -1,
            "needs a workspace of %zu bytes at a multiple of 256; %zu bytes %s given", workspace,
            d.workspace_size, d.workspace ? "were" : "and no address were");
    LaunchState l = { .k = k,
        .v = v,
        .args = &a,
        .dims = extents,
        .env = &env,
        .desc = &d,
        .given = pitch.for_now ? NULL : args,
        .workspace = workspace };
    return v->prints ? printing_launch(&l, programs, blocks) : run_launch(&l, programs, blocks);
}

tile_status launch_as_given(tile_kernel *k, const tile_arg *args, size_t n_args, const tile_launch_desc *desc)
{ return launch(k, args, n_args, desc, true); }

tile_status tile_launch(tile_kernel *k, const tile_arg *args, size_t n_args, const tile_launch_desc *desc)
{
    FLOAT_STATE_DEFAULT();
    return k ? launch(k, args, n_args, desc, false) : TILE_ERROR_INVALID_ARGUMENT;
}
