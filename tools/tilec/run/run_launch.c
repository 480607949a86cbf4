/* run_launch.c: launching what run.c opened: once, in the interpreter, and many times by the clock. */
#include "tools/tilec/run/interpret.h"
#include "tools/tilec/run/run.h"

int run_launch(Run *r)
{
    size_t had = r->desc.workspace_size;
    r->desc = (tile_launch_desc){ .struct_size = sizeof r->desc, .workspace = r->desc.workspace };
    watch_doing(&r->watch, "compiling", "");
    TRY(r, tile_kernel_workspace(r->kernel, r->launch_args, r->n_params, &r->desc.workspace_size));
    if (r->desc.workspace_size > had) {
        tile_memory_free(r->context, TILE_MEMORY_DEVICE, r->desc.workspace);
        r->desc.workspace = NULL;
        TRY(r, tile_memory_alloc(r->context, TILE_MEMORY_DEVICE, r->desc.workspace_size, &r->desc.workspace));
        TRY(r, tile_fill(r->context, r->desc.workspace, 0, r->desc.workspace_size, NULL));
    }
    if (strcmp(r->device.target, "cpu")) watch_doing(&r->watch, "waiting for the device", "");
    else watch_doing(&r->watch, "running", "programs");
    TRY(r, tile_launch(r->kernel, r->launch_args, r->n_params, &r->desc));
    TRY(r, tile_context_synchronize(r->context));
    return EXIT_OK;
}

int run_interpret(Run *r, const Args *a, void *const *data)
{
    static char nothing[64] __attribute__((aligned(64))); /* the address of tensors without elements */
    InterpArg *args = arena_array(&r->tool->arena, InterpArg, r->n_params + 1);
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (p->info.kind == TILE_PARAM_SCALAR) {
            const tile_arg *x = &r->launch_args[i];
            DType d = DT_F32;
            dtype_of(p->info.dtype, &d);
            args[i].scalar = x->kind == TILE_ARG_FLOAT ? scalar_cast(d, DT_F64, scalar_float(x->value.f))
                                                       : scalar_cast(d, DT_I64, scalar_int(x->value.i));
            continue;
        }
        args[i].data = p->left_out ? nothing : data && data[i] ? data[i] : p->device;
        memcpy(args[i].shape, p->host.shape, sizeof args[i].shape);
        memcpy(args[i].stride, p->host.strides, sizeof args[i].stride);
    }
    const char **absent = arena_array(&r->tool->arena, const char *, r->n_params + 1);
    const char **names = arena_array(&r->tool->arena, const char *, r->n_params + 1);
    bool *left_out = arena_array(&r->tool->arena, bool, r->n_params + 1);
    size_t n_absent = 0;
    for (size_t i = 0; i < r->n_params; i++) {
        names[i] = r->params[i].info.name;
        left_out[i] = r->params[i].left_out;
        if (left_out[i]) absent[n_absent++] = names[i];
    }
    bool reported = data && (r->interp || args_has(a, FLAG_CHECK)); /* by the launch itself */
    InterpretJob job = { r->kernel_name, r->bindings, r->n_bindings, &r->known, args, (int)r->n_params,
        &r->progress, absent, n_absent, a->command == CMD_RUN && !reported, names, left_out };
    watch_doing(&r->watch, "interpreting", "programs");
    return interpret(r->tool, a, &job);
}

/* --- timing ------------------------------------------------------------------------------------------ */

int run_keep_originals(Run *r)
{
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        if (p->info.kind != TILE_PARAM_INOUT || !p->host.bytes) continue;
        TRY(r, tile_memory_alloc(r->context, TILE_MEMORY_DEVICE, p->host.bytes, &p->original));
        TRY(r, tile_copy(r->context, p->original, p->device, p->host.bytes, NULL));
    }
    return EXIT_OK;
}

int run_restore_originals(Run *r)
{
    for (size_t i = 0; i < r->n_params; i++)
        if (r->params[i].original)
            TRY(r, tile_copy(r->context, r->params[i].device, r->params[i].original, r->params[i].host.bytes,
                       NULL));
    return EXIT_OK;
}

int run_poison(Run *r)
{
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        if (p->info.kind == TILE_PARAM_OUT && !p->left_out && p->host.bytes)
            TRY(r,
                tile_fill(r->context, p->device, (uint8_t)tensor_poison(p->host.dtype), p->host.bytes, NULL));
    }
    return run_restore_originals(r);
}

double run_bytes(const Run *r)
{
    double bytes = 0;
    for (size_t i = 0; i < r->n_params; i++)
        bytes += (double)r->params[i].host.bytes * (r->params[i].info.kind == TILE_PARAM_INOUT ? 2 : 1);
    return bytes;
}

static int timed_launch(Run *r, double *ms)
{
    int code = run_restore_originals(r); /* not timed */
    if (code) return code;
    int64_t begin = clock_ns();
    TRY(r, tile_event_record(r->context, r->begin, NULL));
    TRY(r, tile_launch(r->kernel, r->launch_args, r->n_params, &r->desc));
    TRY(r, tile_event_record(r->context, r->end, NULL));
    TRY(r, tile_event_synchronize(r->context, r->end));
    TRY(r, tile_event_elapsed(r->context, r->begin, r->end, ms));
    if (r->profile)
        vec_push(&r->tool->arena, &r->profile->launches, ((ProfileLaunch){ r->profile->name, begin, *ms }));
    return EXIT_OK;
}

int run_time(Run *r, double seconds, Measured *out)
{
    enum { MAX = 10000, LEAST = 3 };
    int64_t repeat = 0, limit = (int64_t)(seconds * 1e9);
    if (!args_int(r->tool, r->args, FLAG_REPEAT, 1, MAX, &repeat)) return EXIT_USAGE;
    double *ms = arena_array(&r->tool->arena, double, MAX);
    int n = 0;
    r->measuring = true;
    watch_doing(&r->watch, "timing", "launches");
    if (!r->begin) TRY(r, tile_event_create(r->context, &r->begin));
    if (!r->end) TRY(r, tile_event_create(r->context, &r->end));
    for (int64_t start = clock_ns();
        n < (repeat ? repeat : MAX) && (repeat || n < LEAST || clock_ns() - start < limit); n++) {
        int code = timed_launch(r, &ms[n]);
        if (code) return code;
        atomic_store(&r->timed, n + 1);
    }
    r->measuring = false;
    *out = measure_summary(ms, n);
    return EXIT_OK;
}
