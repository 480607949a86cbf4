/* cmd_run.c: `tilec run` and `tilec bench`: one kernel on tensors from files or made up, through the public
 * API, on any target. */
#include "tools/tilec/interpret.h"
#include "tools/tilec/run.h"
#include <stdlib.h>

/* --- running ----------------------------------------------------------------------------------------- */

static int launch(Run *r)
{
    r->desc = (tile_launch_desc){ .struct_size = sizeof r->desc };
    watch_doing(&r->watch, "compiling", "");
    TRY(r, tile_kernel_workspace(r->kernel, r->launch_args, r->n_params, &r->desc.workspace_size));
    if (r->desc.workspace_size) {
        TRY(r, tile_memory_alloc(r->context, TILE_MEMORY_DEVICE, r->desc.workspace_size, &r->desc.workspace));
        TRY(r, tile_fill(r->context, r->desc.workspace, 0, r->desc.workspace_size, NULL));
    }
    if (strcmp(r->device.target, "cpu")) watch_doing(&r->watch, "waiting for the device", "");
    else watch_doing(&r->watch, "running", "programs");
    TRY(r, tile_launch(r->kernel, r->launch_args, r->n_params, &r->desc));
    TRY(r, tile_context_synchronize(r->context));
    return EXIT_OK;
}

/* The kernel on the tensors where they lie: the context's memory is the host's. */
static int interpret_kernel(Run *r)
{
    static char nothing[64] __attribute__((aligned(64))); /* the address of tensors without elements */
    InterpArg *args = arena_array(&r->tool->arena, InterpArg, r->n_params + 1);
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (p->info.kind == TILE_PARAM_SCALAR) {
            const tile_arg *a = &r->launch_args[i];
            DType d = DT_F32;
            dtype_of(p->info.dtype, &d);
            args[i].scalar = a->kind == TILE_ARG_FLOAT ? scalar_cast(d, DT_F64, scalar_float(a->value.f))
                                                       : scalar_cast(d, DT_I64, scalar_int(a->value.i));
            continue;
        }
        args[i].data = p->left_out ? nothing : p->device;
        memcpy(args[i].shape, p->host.shape, sizeof args[i].shape);
        memcpy(args[i].stride, p->host.strides, sizeof args[i].stride);
    }
    const char **absent = arena_array(&r->tool->arena, const char *, r->n_params + 1);
    size_t n_absent = 0;
    for (size_t i = 0; i < r->n_params; i++)
        if (r->params[i].left_out) absent[n_absent++] = r->params[i].info.name;
    InterpretJob job = { r->kernel_name, r->bindings, r->n_bindings, &r->known, args, (int)r->n_params,
        &r->progress, absent, n_absent };
    watch_doing(&r->watch, "interpreting", "programs");
    return interpret(r->tool, r->args, &job);
}

/* Row-major, whatever the order of what came in. */
static HostTensor row_major(Run *r, const HostTensor *h)
{
    HostTensor out = *h;
    int64_t step = 1, index[TILE_MAX_RANK] = { 0 }, size = dtype_bytes(h->dtype), n = h->bytes / (size_t)size;
    bool same = true;
    for (int a = h->rank; a-- > 0; step *= h->shape[a] ? h->shape[a] : 1) {
        out.strides[a] = step;
        same &= h->strides[a] == step || h->shape[a] <= 1;
    }
    if (same) return out;
    out.data = arena_alloc(&r->tool->arena, h->bytes);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = 0;
        for (int a = 0; a < h->rank; a++) from += index[a] * h->strides[a];
        memcpy((char *)out.data + i * size, (char *)h->data + from * size, (size_t)size);
        for (int a = h->rank; a-- > 0 && ++index[a] == h->shape[a];) index[a] = 0;
    }
    return out;
}

static int download(Run *r, Outputs *outputs)
{
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        if (!p->out) continue;
        TRY(r, tile_copy(r->context, p->host.data, p->device, p->host.bytes, NULL));
        TRY(r, tile_context_synchronize(r->context));
        HostTensor h = row_major(r, &p->host);
        tensor_write(r->tool, &h, p->out, outputs);
    }
    return EXIT_OK;
}

static int compare(const void *a, const void *b)
{ return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

/* Saves the contents of inout tensors on the device, so that every timed launch begins with the same. */
static int keep_originals(Run *r)
{
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        if (p->info.kind != TILE_PARAM_INOUT || !p->host.bytes) continue;
        TRY(r, tile_memory_alloc(r->context, TILE_MEMORY_DEVICE, p->host.bytes, &p->original));
        TRY(r, tile_copy(r->context, p->original, p->device, p->host.bytes, NULL));
    }
    return EXIT_OK;
}

static int restore_originals(Run *r)
{
    for (size_t i = 0; i < r->n_params; i++)
        if (r->params[i].original)
            TRY(r, tile_copy(r->context, r->params[i].device, r->params[i].original, r->params[i].host.bytes,
                       NULL));
    return EXIT_OK;
}

/* Launches until `seconds` have gone or `repeat` are done; times by events. */
static int measure(Run *r)
{
    enum { MAX = 10000 };
    int64_t repeat = 0;
    if (!args_int(r->tool, r->args, FLAG_REPEAT, 1, MAX, &repeat)) return EXIT_USAGE;
    double *ms = arena_array(&r->tool->arena, double, MAX), bytes = 0;
    int n = 0;
    r->measuring = true;
    watch_doing(&r->watch, "timing", "launches");
    TRY(r, tile_event_create(r->context, &r->begin));
    TRY(r, tile_event_create(r->context, &r->end));
    for (int64_t start = clock_ns();
        n < (repeat ? repeat : MAX) && (repeat || n < 3 || clock_ns() - start < 1000000000); n++) {
        int code = restore_originals(r); /* not timed */
        if (code) return code;
        TRY(r, tile_event_record(r->context, r->begin, NULL));
        TRY(r, tile_launch(r->kernel, r->launch_args, r->n_params, &r->desc));
        TRY(r, tile_event_record(r->context, r->end, NULL));
        TRY(r, tile_event_synchronize(r->context, r->end));
        TRY(r, tile_event_elapsed(r->context, r->begin, r->end, &ms[n]));
        atomic_store(&r->timed, n + 1);
    }
    qsort(ms, (size_t)n, sizeof *ms, compare);
    for (size_t i = 0; i < r->n_params; i++)
        bytes += (double)r->params[i].host.bytes * (r->params[i].info.kind == TILE_PARAM_INOUT ? 2 : 1);
    tile_variant_info v = { .struct_size = sizeof v };
    TRY(r, tile_kernel_variant(r->kernel, r->launch_args, r->n_params, &v));
    format_file(r->tool->out, "%s, %s\n%s\n%lld programs; compiled in %.1f ms%s\n", r->device.name,
        r->device.target, v.specialization, (long long)v.programs, v.compile_ms,
        v.from_cache ? " (from the cache)" : "");
    format_file(r->tool->out, "%d launches: median %.4f ms, least %.4f, most %.4f; %.2f GB/s of arguments\n",
        n, ms[n / 2], ms[0], ms[n - 1], bytes * 1e-6 / ms[n / 2]);
    return EXIT_OK;
}

/* For the watch: launches that were timed, programs of the interpreter or of the launch that runs. */
static void how_far(void *user, WatchCount *c)
{
    Run *r = user;
    if (r->measuring) c->done = atomic_load(&r->timed);
    else if (r->interp)
        *c = (WatchCount){ atomic_load(&r->progress.done), atomic_load(&r->progress.total),
            atomic_load(&r->progress.steps) };
    else if (r->context) tile_context_progress(r->context, &c->done, &c->total);
}

static int run(Run *r, bool timed, Outputs *outputs)
{
    const char *target = args_last(r->args, FLAG_TARGET, "cpu");
    r->interp = !strcmp(target, "interp");
    if (r->interp && timed) return tool_usage(r->tool, "the interpreter is an oracle, it is not timed");
    watch_begin(&r->watch, r->tool, how_far, r);
    int code = run_open(r);
    if (!code && timed) code = keep_originals(r);
    if (!code) code = r->interp ? interpret_kernel(r) : launch(r);
    if (!code) code = download(r, outputs); /* of the first launch */
    if (!code && timed) code = measure(r);
    watch_end(&r->watch);
    return code;
}

static int run_or_bench(Tool *t, const Args *a, bool timed)
{
    if (a->inputs.len != 1)
        return tool_usage(t,
            a->inputs.len ? "one .tile file at a time, not %zu"
                          : "no .tile file given (`tilec run --help` shows how)",
            a->inputs.len);
    Run *r = arena_new(&t->arena, Run);
    Outputs outputs = { 0 };
    run_init(r, t, a);
    int code = run(r, timed, &outputs);
    run_close(r);
    return code ? code : outputs_commit(t, &outputs);
}

int cmd_run(Tool *t, const Args *a)
{ return run_or_bench(t, a, args_has(a, FLAG_TIME) || args_has(a, FLAG_REPEAT)); }
int cmd_bench(Tool *t, const Args *a) { return run_or_bench(t, a, true); }
