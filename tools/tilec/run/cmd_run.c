/* cmd_run.c: `tilec run`, and `tilec bench` of one kernel at one size: tensors from files or made up, through
 * the public API, on any target. */
#include "tools/tilec/bench/bench.h"
#include <stdlib.h>

/* --- running ----------------------------------------------------------------------------------------- */

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

/* Marks the tensors that --print names; without a name those that the kernel writes. */
static int match_prints(Run *r)
{
    const Strings *names = &r->args->flag[FLAG_PRINT];
    for (size_t k = 0; k < names->len; k++) {
        const char *name = names->data[k];
        bool found = !*name;
        for (size_t i = 0; i < r->n_params; i++) {
            Parameter *p = &r->params[i];
            if (p->info.kind == TILE_PARAM_SCALAR || p->left_out) continue;
            if (*name ? strcmp(name, p->info.name) : p->info.kind == TILE_PARAM_IN) continue;
            p->print = found = true;
        }
        if (!found)
            return tool_usage(r->tool, "--print=%s: the launch has no tensor of that name; it has %s", name,
                run_tensor_names(r));
    }
    return EXIT_OK;
}

static int download(Run *r, Outputs *outputs)
{
    Text text;
    text_init(&text, &r->tool->arena);
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        if (!p->out && !p->print) continue;
        TRY(r, tile_copy(r->context, p->host.data, p->device, p->host.bytes, NULL));
        TRY(r, tile_context_synchronize(r->context));
        if (p->print) tensor_print(&p->host, p->info.name, &text);
        if (!p->out) continue;
        HostTensor h = row_major(r, &p->host);
        tensor_write(r->tool, &h, p->out, outputs);
    }
    if (text.len) fwrite(text.data, 1, text.len, r->tool->out);
    return EXIT_OK;
}

/* The time, and the rates of the work that is counted or given by --work. */
static int measure(Run *r)
{
    Measured m;
    BenchWork work;
    const char *bound, *noise;
    double given = 0;
    MachineLoad before = measure_load();
    if (!bench_number(r->tool, r->args, FLAG_WORK, 0, &given)) return EXIT_USAGE;
    int code = run_time(r, 1, &m);
    if (code) return code;
    tile_variant_info v = { .struct_size = sizeof v };
    TRY(r, tile_kernel_variant(r->kernel, r->launch_args, r->n_params, &v));
    bench_count(r, &work);
    if (given > 0) work.flops = given;
    FILE *out = r->tool->out;
    format_file(out, "%s, %s\n%s\n%lld programs; compiled in %.1f ms%s\n", r->device.name, r->device.target,
        v.specialization, (long long)v.programs, v.compile_ms, v.from_cache ? " (from the cache)" : "");
    format_file(out, "%d launches: median %.4f ms, least %.4f, most %.4f; %.2f GB/s of arguments", m.n,
        m.median, m.least, m.most, work.bytes * 1e-6 / m.median);
    if (work.flops > 0)
        format_file(out, ", %s TFLOPS", measure_text(&r->tool->arena, work.flops * 1e-9 / m.median, 0.05));
    double peak = bench_peak(r, &work, m.median, &bound);
    if (peak > 0) format_file(out, ", %.0f%% of the peak of %s", 100 * peak, bound);
    format_file(out, "\n");
    noise = measure_noise(
        &r->tool->arena, before, context_target(r->context)->kind == TARGET_CPU, measure_spread(&m));
    if (noise) tool_warning(r->tool, "%s", noise);
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

/* --- --expect ---------------------------------------------------------------------------------------- */

static bool expects(const Run *r) { return r->args->command == CMD_RUN && args_has(r->args, FLAG_EXPECT); }

/* Computes the results that are right. Outputs are poisoned again, and inout tensors hold what they held. */
static int take_reference(Run *r, Bench *b, Reference *ref)
{
    *b = (Bench){ .tool = r->tool, .args = r->args, .atol = -1, .rtol = -1 };
    if (!expects(r)) return EXIT_OK;
    if (!bench_number(r->tool, r->args, FLAG_ATOL, 0, &b->atol) ||
        !bench_number(r->tool, r->args, FLAG_RTOL, 0, &b->rtol))
        return EXIT_USAGE;
    int code = run_keep_originals(r);
    if (!code) code = reference_make(b, r, ref);
    return code ? code : run_poison(r);
}

static int compare_results(Run *r, Bench *b, Reference *ref)
{
    double worst = 0;
    const char *poisoned;
    if (!expects(r)) return EXIT_OK;
    const char *reason = reference_compare(b, r, ref, &worst, &poisoned);
    if (reason) return tool_error(r->tool, "%s", reason);
    bool followed = !strcmp(ref->name, "interp") || r->interp || args_has(r->args, FLAG_CHECK);
    if (!poisoned || followed) return EXIT_OK; /* a report has said it */
    if (args_has(r->args, FLAG_WERROR)) return tool_error(r->tool, "%s", poisoned);
    tool_warning(r->tool, "%s", poisoned);
    return EXIT_OK;
}

static int run(Run *r, bool timed, Outputs *outputs)
{
    Bench bench;
    Reference ref = { 0 };
    const char *target = args_last(r->args, FLAG_TARGET, "cpu");
    r->interp = !strcmp(target, "interp");
    if (r->interp && timed) return tool_usage(r->tool, "the interpreter is an oracle, it is not timed");
    watch_begin(&r->watch, r->tool, how_far, r);
    int code = run_open(r);
    if (!code) code = match_prints(r);
    if (!code) code = take_reference(r, &bench, &ref);
    if (!code && timed && !expects(r)) code = run_keep_originals(r);
    if (!code) code = r->interp ? run_interpret(r, r->args, NULL) : run_launch(r);
    if (!code && r->n_warned && args_has(r->args, FLAG_WERROR)) code = EXIT_INPUT;
    if (!code) code = compare_results(r, &bench, &ref);
    reference_free(r, &ref);
    if (!code) code = download(r, outputs); /* of the first launch */
    if (!code && timed) code = measure(r);
    watch_end(&r->watch);
    return code;
}

int run_plain(Tool *t, const Args *a, bool timed)
{
    if (a->inputs.len != 1) return args_one_file(t, a);
    Run *r = arena_new(&t->arena, Run);
    Outputs outputs = { 0 };
    run_init(r, t, a);
    int code = run(r, timed, &outputs);
    run_close(r);
    return code ? code : outputs_commit(t, &outputs);
}

int cmd_run(Tool *t, const Args *a)
{ return run_plain(t, a, args_has(a, FLAG_TIME) || args_has(a, FLAG_REPEAT)); }
