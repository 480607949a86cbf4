/* cmd_tune.c: `tilec tune`: tile_kernel_tune on a launch from the command line; progress on standard error,
 * the list of results on standard output, the best into a table. */
#include "tools/tilec/json.h"
#include "tools/tilec/bench/bench.h"
#include "ir/support/number.h"
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { SHOWN = 24 };

typedef struct Tuning {
    Run run;
    tile_tune_desc desc;
    double work, bytes;
    int failed;
    int64_t said;               /* when the last line of progress was printed */
    int64_t stage_begin, begin; /* of the stage and round that runs, and of all */
    tile_tune_stage stage;
    int round;
    tile_tune *results;
    ToolCleanup cleanup; /* of the results */
} Tuning;

/* --- progress ---------------------------------------------------------------------------------------- */

static volatile int stop; /* Ctrl-C was pressed */

/* The first Ctrl-C ends the tuning with what is known, the second the process. */
static void interrupted(int signal_number)
{
    if (stop) {
        signal(signal_number, SIG_DFL);
        raise(signal_number);
    }
    stop = 1;
}

/* How long this stage goes on, by what was done of it; not longer than the budget lasts. */
static void say_time_left(Tuning *t, const tile_tune_progress *p)
{
    int64_t now = clock_ns();
    if (p->stage != t->stage || p->round != t->round || !t->stage_begin) {
        t->stage = p->stage;
        t->round = p->round;
        t->stage_begin = now;
        return;
    }
    double budget = t->desc.budget_seconds > 0 ? t->desc.budget_seconds : 60,
           left = p->done > 1 ? (double)(now - t->stage_begin) * 1e-9 * (double)(p->total - p->done) /
                                    (double)(p->done - 1)
                              : 0,
           most = budget - (double)(now - t->begin) * 1e-9;
    if (left > most) left = most;
    if (left >= 1) format_file(t->run.tool->err, " (about %.0f s left)", left);
}

/* Every line of the last four, a failure at once, else at most two a second. */
static void on_progress(void *user, const tile_tune_progress *p)
{
    Tuning *t = user;
    FILE *err = t->run.tool->err;
    const tile_tune_entry *e = p->entry;
    bool bad = e->state == TILE_TUNE_FAILED || e->state == TILE_TUNE_WRONG, last = p->done == p->total;
    t->failed += bad;
    if (!bad && !last && p->done > 1 && clock_ns() - t->said < 500000000) return;
    t->said = clock_ns();
    switch (p->stage) {
    case TILE_TUNE_COMPILING: format_file(err, "compiling %zu/%zu: %s", p->done, p->total, e->config); break;
    case TILE_TUNE_CHECKING: format_file(err, "checking %zu/%zu: %s", p->done, p->total, e->config); break;
    case TILE_TUNE_TIMING:
        format_file(err, "round %d, %zu/%zu: %s: %.4f ms", p->round, p->done, p->total, e->config, e->ms);
        break;
    }
    say_time_left(t, p);
    format_file(err, "%s%s\n", bad ? ": " : "", bad ? e->reason : "");
}

/* --- the command line -------------------------------------------------------------------------------- */

static bool number(Tool *t, const Args *a, FlagId flag, double *value)
{
    const char *text = args_last(a, flag, NULL);
    char *end;
    if (!text) return true;
    *value = number_read(text, &end);
    if (end != text && !*end && *value > 0 && *value < 1e30) return true;
    tool_usage(t, "%s wants a number above 0, not `%s`", flag_info[flag].spelling, text);
    return false;
}

static bool options(Tuning *t)
{
    const Args *a = t->run.args;
    Tool *tool = t->run.tool;
    int64_t repeat = 0, jobs = 0, sample = 0;
    t->desc =
        (tile_tune_desc){ .struct_size = sizeof t->desc, .on_progress = on_progress, .on_progress_user = t };
    t->desc.flags = (args_has(a, FLAG_UNCHECKED) ? TILE_TUNE_NO_CHECK : 0u) |
                    (args_has(a, FLAG_WARM) ? TILE_TUNE_WARM_CACHES : 0u);
    bool ok = args_int(tool, a, FLAG_REPEAT, 1, 1000, &repeat) &&
              args_int(tool, a, FLAG_JOBS, 1, 64, &jobs) &&
              args_int(tool, a, FLAG_SAMPLE, 1, 16384, &sample) &&
              number(tool, a, FLAG_BUDGET, &t->desc.budget_seconds) &&
              number(tool, a, FLAG_TOLERANCE, &t->desc.tolerance) && number(tool, a, FLAG_WORK, &t->work);
    t->desc.repeat = (int)repeat;
    t->desc.threads = (int)jobs;
    t->desc.sample = (size_t)sample;
    t->desc.stop = &stop;
    return ok;
}

/* FILE.tune beside FILE.tile, where a module looks for it. */
static const char *table_path(Run *r)
{
    const char *path = args_last(r->args, FLAG_OUTPUT, NULL), *in = r->args->inputs.data[0];
    size_t n = strlen(in), ext = n > 5 && !strcmp(in + n - 5, ".tile") ? 5 : 0;
    if (path || !strcmp(in, "-")) return path;
    return arena_printf(&r->tool->arena, "%.*s.tune", (int)(n - ext), in);
}

/* --- results ----------------------------------------------------------------------------------------- */

static void print_rate(const Tuning *t, double ms)
{
    FILE *out = t->run.tool->out;
    format_file(out, "%10.4f ms %9.1f GB/s", ms, t->bytes * 1e-6 / ms);
    if (t->work > 0) format_file(out, " %8.1f TFLOPS", t->work * 1e-9 / ms);
}

static void print_results(Tuning *t)
{
    Run *r = &t->run;
    FILE *out = r->tool->out;
    size_t n = tile_tune_count(t->results), shown = 0, count[5] = { 0 };
    tile_tune_entry e = { .struct_size = sizeof e };
    format_file(out, "%s on %s, %s:", r->kernel_name, r->device.name, r->device.target);
    for (size_t i = 0; i < r->known.len; i++)
        format_file(
            out, "%s %s=%lld", i ? "," : "", r->known.data[i].name, (long long)r->known.data[i].value);
    format_file(out, "\n");
    for (size_t i = 0; i < n; i++) {
        tile_tune_result(t->results, i, &e);
        count[e.state]++;
        if (e.state == TILE_TUNE_TIMED && (shown++ < SHOWN || e.is_default)) {
            print_rate(t, e.ms);
            format_file(out, "  %s%s", e.config, e.is_default ? " (declared)" : "");
            if (e.registers > 0) format_file(out, "; %d registers", e.registers);
            if (e.spill_bytes > 0) format_file(out, ", %d bytes spilled", e.spill_bytes);
            if (e.shared_bytes) format_file(out, ", %llu bytes shared", (unsigned long long)e.shared_bytes);
            format_file(out, "\n");
        }
        if (e.state == TILE_TUNE_FAILED || e.state == TILE_TUNE_WRONG)
            format_file(
                out, "%14s  %s: %s\n", e.state == TILE_TUNE_WRONG ? "wrong" : "failed", e.config, e.reason);
    }
    format_file(out,
        "%zu configurations: %zu timed, %zu failed, %zu wrong, %zu the same as another, %zu not tried\n", n,
        count[TILE_TUNE_TIMED], count[TILE_TUNE_FAILED], count[TILE_TUNE_WRONG], count[TILE_TUNE_SAME],
        count[TILE_TUNE_UNTRIED]);
}

static void add_json(Tuning *t, Outputs *outputs)
{
    static const char *const states[] = { "timed", "failed", "wrong", "same", "untried" };
    const char *path = args_last(t->run.args, FLAG_JSON, NULL);
    if (!path) return;
    Arena *a = &t->run.tool->arena;
    Text *x = arena_new(a, Text);
    tile_tune_entry e = { .struct_size = sizeof e };
    text_init(x, a);
    text_puts(x, "[\n");
    for (size_t i = 0; i < tile_tune_count(t->results); i++) {
        tile_tune_result(t->results, i, &e);
        text_printf(x, "%s  { \"config\": ", i ? ",\n" : "");
        json_string(x, e.config);
        text_printf(x,
            ", \"default\": %s, \"state\": \"%s\", \"ms\": %.6g, \"launches\": %d, \"deviation\": %.3g, "
            "\"registers\": %d, \"spilled\": %d, \"shared\": %llu, \"reason\": ",
            e.is_default ? "true" : "false", states[e.state], e.ms, e.launches,
            e.deviation < 1e30 ? e.deviation : 1e30, e.registers, e.spill_bytes,
            (unsigned long long)e.shared_bytes);
        json_string(x, e.reason);
        text_puts(x, " }");
    }
    text_puts(x, "\n]\n");
    outputs_add(t->run.tool, outputs, path, x->data, x->len);
}

static int write_table(Tuning *t)
{
    const char *path = table_path(&t->run);
    char date[40] = "";
    time_t now = time(NULL);
    struct tm tm;
    if (!path) return EXIT_OK;
    if (gmtime_r(&now, &tm)) strftime(date, sizeof date, "%Y-%m-%d", &tm);
    TRY(&t->run, tile_tune_write(t->results, path, date));
    format_file(t->run.tool->out, "written to %s\n", path);
    return EXIT_OK;
}

/* Says what to bind where the block has more configurations than are looked at. */
static void warn_of_size(Tuning *t)
{
    enum { LOOKED_AT = 16384 };
    Run *r = &t->run;
    const FrontTune *f = frontend_tune(module_program(r->module), r->kernel_name);
    const FrontDomain *largest = NULL;
    double all = 1;
    for (int d = 0; f && d < f->n; d++) {
        bool bound = false;
        for (size_t i = 0; i < r->n_bindings; i++) bound |= !strcmp(r->bindings[i].name, f->domains[d].name);
        if (bound) continue;
        all *= f->domains[d].n;
        if (!largest || f->domains[d].n > largest->n) largest = &f->domains[d];
    }
    if (all <= LOOKED_AT || t->desc.sample) return;
    tool_warning(r->tool,
        "the `tune` block has %.0f combinations, and at most %d are looked at; bind %s (%d values) by --set "
        "%s=.., or "
        "choose how many by --sample=N",
        all, LOOKED_AT, largest->name, largest->n, largest->name);
}

static int tune(Tuning *t, Outputs *outputs)
{
    Run *r = &t->run;
    if (!options(t)) return EXIT_USAGE;
    int code = run_open(r);
    if (code) return code;
    warn_of_size(t);
    t->begin = clock_ns();
    for (size_t i = 0; i < r->n_params; i++)
        t->bytes += (double)r->params[i].host.bytes * (r->params[i].info.kind == TILE_PARAM_INOUT ? 2 : 1);
    TRY(r, tile_kernel_tune(r->kernel, r->launch_args, r->n_params, NULL, &t->desc, &t->results));
    print_results(t);
    add_json(t, outputs);
    tile_tune_entry best = { .struct_size = sizeof best };
    tile_tune_result(t->results, 0, &best);
    if (best.state != TILE_TUNE_TIMED)
        return tool_error(r->tool, "no configuration of %s could be timed", r->kernel_name);
    return write_table(t);
}

static void free_results(void *p) { tile_tune_destroy(((Tuning *)p)->results); }

/* One size of the sweep. */
static int tune_size(Tool *tool, const Args *a, const Sweep *sweep, size_t size, Outputs *outputs)
{
    Tuning *t = arena_new(&tool->arena, Tuning);
    run_init(&t->run, tool, a);
    t->run.made_up = sweep->names.len > 0;
    for (size_t k = 0; k < sweep->names.len; k++)
        vec_push(&tool->arena, &t->run.more_set,
            arena_printf(
                &tool->arena, "%s=%lld", sweep->names.data[k], (long long)sweep->sizes.data[size].values[k]));
    tool_at_end(tool, &t->cleanup, free_results, t);
    int code = tune(t, outputs);
    run_close(&t->run);
    return code;
}

int cmd_tune(Tool *tool, const Args *a)
{
    if (a->inputs.len != 1) return args_one_file(tool, a);
    Sweep sweep;
    Outputs outputs = { 0 };
    int code = sweep_read(tool, a, &sweep);
    if (!code && sweep.sizes.len > 1 && args_has(a, FLAG_JSON))
        return tool_usage(tool, "--json has the results of one size, and --sweep gives %zu", sweep.sizes.len);
    stop = 0;
    void (*before)(int) = signal(SIGINT, interrupted);
    if (before == SIG_IGN) signal(SIGINT, SIG_IGN); /* A signal that is ignored stays ignored. */
    for (size_t size = 0; size < sweep.sizes.len && !code && !stop; size++)
        code = tune_size(tool, a, &sweep, size, &outputs);
    signal(SIGINT, before);
    if (stop)
        tool_warning(tool, "interrupted: %s",
            code ? "nothing is known of the last size" : "the results known so far were written");
    int written = outputs_commit(tool, &outputs);
    return code ? code : written;
}
