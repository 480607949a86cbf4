/* cmd_bench.c: `tilec bench`: steps of a ladder, or one kernel, and other providers, at the sizes of a sweep.
 * A step that fails is listed with its reason, and the others go on. */
#include "tools/tilec/bench/bench.h"
#include "ir/support/number.h"
#include <stdlib.h>
#include <time.h>

void bench_log(Bench *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    text_vprintf(&b->log, fmt, ap);
    va_end(ap);
    text_putc(&b->log, '\n');
}

const BenchRow *bench_row(const Bench *b, size_t size, int column)
{
    for (size_t i = 0; i < b->rows.len; i++)
        if (b->rows.data[i].size == size && b->rows.data[i].column == column) return &b->rows.data[i];
    return NULL;
}

const BenchRow *bench_baseline(const Bench *b, size_t size)
{
    for (size_t i = 0; i < b->rows.len; i++)
        if (b->rows.data[i].size == size && b->rows.data[i].time.n) return &b->rows.data[i];
    return NULL;
}

const BenchRow *bench_previous(const Bench *b, const BenchRow *row)
{
    for (const BenchRow *p = row; p-- > b->rows.data && p->size == row->size;)
        if (p->time.n) return p;
    return NULL;
}

/* --- one step ---------------------------------------------------------------------------------------- */

/* The first line of what was captured or of the context's error, without its place. */
static const char *reason_of(Run *r)
{
    Arena *a = &r->tool->arena;
    const char *text = r->captured, *error = strstr(text, "error: ");
    char own[1024];
    if (!*text) {
        tile_context_error(r->context, own, sizeof own);
        text = own;
    } else if (error) text = error + 7;
    return arena_strndup(a, text, strcspn(text, "\n"));
}

static void fail(Bench *b, Run *r, BenchRow *row)
{
    row->state = BENCH_FAILED;
    row->reason = reason_of(r);
    if (*r->captured) bench_log(b, "%s", r->captured);
}

static const char *list_with(Arena *a, const char *list, Strings more)
{
    for (size_t i = 0; i < more.len; i++)
        list = list ? arena_printf(a, "%s,%s", list, more.data[i]) : more.data[i];
    return list;
}

/* Replaces the run's kernel by the step's. False: `row` says why not. */
static bool make_kernel(Bench *b, Run *r, const FrontStep *step, const char *config, BenchRow *row)
{
    const Args *a = b->args;
    Arena *arena = &r->tool->arena;
    size_t n;
    const tile_binding *bindings = bench_bindings(r, step, config, &n);
    tile_kernel_destroy(r->kernel);
    r->kernel = NULL;
    tile_status st = tile_kernel_create(r->module, r->kernel_name, bindings, n, &r->kernel);
    KernelPasses passes = { list_with(arena, step ? step->skip : NULL, args_list(r->tool, a, FLAG_SKIP_PASS)),
        list_with(arena, step ? step->with : NULL, args_list(r->tool, a, FLAG_WITH_PASS)),
        step && step->remap ? step->remap : args_last(a, FLAG_REMAP, NULL),
        args_has(a, FLAG_APPROX) || (step && step->approx), args_has(a, FLAG_FTZ) || (step && step->ftz) };
    if (!st) st = kernel_set_passes(r->kernel, &passes);
    if (st) fail(b, r, row);
    return !st;
}

/* The fastest configuration of the tune block for this size becomes the step's kernel. */
static bool tune_step(Bench *b, Run *r, const FrontStep *step, BenchRow *row)
{
    tile_tune *results;
    tile_tune_desc desc = { .struct_size = sizeof desc };
    tile_tune_entry best = { .struct_size = sizeof best };
    char *end;
    const char *budget = args_last(b->args, FLAG_BUDGET, "20");
    desc.budget_seconds = number_read(budget, &end);
    if (tile_kernel_tune(r->kernel, r->launch_args, r->n_params, NULL, &desc, &results)) {
        fail(b, r, row);
        return false;
    }
    tile_tune_result(results, 0, &best);
    for (size_t i = 0; i < tile_tune_count(results); i++) {
        tile_tune_entry e = { .struct_size = sizeof e };
        tile_tune_result(results, i, &e);
        bench_log(b, "  %s: %s%s%s", e.config,
            e.state == TILE_TUNE_TIMED ? measure_text(&r->tool->arena, e.ms, 0) : "-",
            e.state == TILE_TUNE_TIMED ? " ms" : ": ", e.reason);
    }
    row->config = arena_strdup(&r->tool->arena, best.config);
    bool timed = best.state == TILE_TUNE_TIMED;
    tile_tune_destroy(results);
    if (timed) return make_kernel(b, r, step, row->config, row);
    row->state = BENCH_FAILED;
    row->reason = "no configuration of its tune block could be timed";
    return false;
}

/* The row of this size whose code is the same, or NULL. */
static const BenchRow *same_code(Bench *b, Run *r, const BenchRow *row, uint8_t (*digests)[32])
{
    uint8_t *mine = digests[row->column];
    if (kernel_code_digest(r->kernel, r->launch_args, r->n_params, mine)) return NULL;
    for (size_t k = b->rows.len; k-- > 0 && b->rows.data[k].size == row->size;) {
        const BenchRow *p = &b->rows.data[k];
        if (p->time.n && !b->columns.data[p->column].provider && !memcmp(digests[p->column], mine, 32))
            return p;
    }
    return NULL;
}

void bench_check_results(Bench *b, Run *r, Reference *ref, BenchRow *row)
{
    const char *name = b->columns.data[row->column].name;
    if (!ref->name) {
        row->checked =
            b->columns.len > 1 && !reference_take(r, ref, name) ? BENCH_REFERENCE : BENCH_UNCHECKED;
        return;
    }
    const char *poisoned;
    row->reason = reference_compare(b, r, ref, &row->worst, &poisoned);
    row->checked = BENCH_CORRECT;
    if (poisoned && !row->reason) {
        tool_warning(b->tool, "%s: %s", name, poisoned);
        bench_log(b, "warning: %s: %s", name, poisoned);
    }
    if (row->reason) row->state = BENCH_WRONG;
    else row->reason = "";
}

/* Compiles, launches, checks and times. */
static void run_step(Bench *b, Run *r, Reference *ref, uint8_t (*digests)[32], BenchRow *row)
{
    const BenchColumn *c = &b->columns.data[row->column];
    bool made = make_kernel(b, r, c->step, "", row);
    if (made && c->step && c->step->tune) made = tune_step(b, r, c->step, row);
    if (!made) return;
    if (run_poison(r) || run_launch(r)) {
        fail(b, r, row);
        return;
    }
    row->notes = arena_strdup(&b->tool->arena, r->notes);
    const BenchRow *same = same_code(b, r, row, digests);
    bench_check_results(b, r, ref, row);
    if (same && row->state == BENCH_OK) {
        row->state = BENCH_SAME;
        row->time = same->time;
        row->reason = b->columns.data[same->column].name;
        row->why = bench_same_remark(b, r, row, same);
        return;
    }
    bool graph = args_has(b->args, FLAG_GRAPH);
    size_t before = b->profile.launches.len;
    if (graph ? graph_time(b, r, &row->time) : run_time(r, b->seconds, &row->time)) fail(b, r, row);
    else if (r->profile) bench_count_events(b, r, before);
}

/* --- one size ---------------------------------------------------------------------------------------- */

static void log_row(Bench *b, const BenchRow *row)
{
    static const char *const states[] = { "ok", "the same code as", "left out:", "wrong:", "failed:" };
    const BenchColumn *c = &b->columns.data[row->column];
    bench_log(b, "%s %s: %s %s%s%s%s%s", sweep_title(&b->tool->arena, &b->sweep, row->size), c->name,
        states[row->state], row->reason, *row->config ? "; " : "", row->config, *row->why ? ": " : "",
        row->why);
    if (row->time.n)
        bench_log(b, "  %d launches: median %.6f ms, least %.6f, most %.6f, quartiles %.6f and %.6f",
            row->time.n, row->time.median, row->time.least, row->time.most, row->time.low, row->time.high);
}

static void finish_row(Bench *b, Run *r, const BenchWork *work, BenchRow *row)
{
    row->work = *work;
    if (row->time.n) row->peak = bench_peak(r, &row->work, row->time.median, &row->bound);
    vec_push(&b->tool->arena, &b->rows, *row);
    log_row(b, row);
}

static int run_columns(Bench *b, Run *r, Reference *ref, size_t size)
{
    BenchWork work;
    uint8_t (*digests)[32] = arena_alloc(&b->tool->arena, 32 * (b->columns.len + 1));
    const FrontStep *first = NULL;
    for (size_t c = 0; c < b->columns.len && !first; c++) first = b->columns.data[c].step;
    BenchRow ignored = { 0 };
    if (first) make_kernel(b, r, first, "", &ignored);
    if (r->kernel) bench_count(r, &work);
    else work = (BenchWork){ .bytes = run_bytes(r) };
    if (b->work > 0) work.flops = b->work;
    for (size_t c = 0; c < b->columns.len; c++) {
        BenchRow row = {
            .size = size, .column = (int)c, .reason = "", .config = "", .bound = "", .why = "", .notes = ""
        };
        const char *title = sweep_title(&b->tool->arena, &b->sweep, size);
        b->profile.name = arena_printf(&b->tool->arena, "%s%s%s%s%s", b->kernel, b->ladder ? ": " : "",
            b->ladder ? b->columns.data[c].name : "", *title ? ", " : "", title);
        *r->captured = *r->notes = 0;
        if (r->tool->err == stderr && b->columns.len * b->sweep.sizes.len > 1)
            watch_doing(&r->watch, b->columns.data[c].name, "");
        if (!b->columns.data[c].provider) run_step(b, r, ref, digests, &row);
        else if (!run_poison(r)) against_run(b, r, ref, &row);
        finish_row(b, r, &work, &row);
    }
    return EXIT_OK;
}

static void how_far(void *user, WatchCount *c)
{
    Run *r = user;
    if (r->measuring) c->done = atomic_load(&r->timed);
    else if (r->context) tile_context_progress(r->context, &c->done, &c->total);
}

/* The columns are known when the first size is open: the ladder is in the file. */
static int find_columns(Bench *b, Run *r)
{
    const FrontLadder *l = frontend_ladder(module_program(r->module), r->kernel_name);
    Arena *a = &b->tool->arena;
    b->kernel = arena_strdup(a, r->kernel_name);
    b->device = arena_strdup(a, r->device.name);
    b->target = arena_strdup(a, r->device.target);
    bench_log(b, "%s on %s, %s; load %.2f on %d processors", b->kernel, b->device, b->target, b->load.load,
        b->load.processors);
    int code = against_open(b);
    for (int i = 0; b->ladder && i < l->n && !code; i++)
        vec_push(a, &b->columns,
            ((BenchColumn){
                arena_strdup(a, l->steps[i].name), arena_strdup(a, l->steps[i].text), NULL, false }));
    if (!b->ladder) vec_push(a, &b->columns, ((BenchColumn){ b->kernel, "", NULL, false }));
    return code;
}

/* The steps are those of the module that is open. */
static void find_steps(Bench *b, Run *r)
{
    const FrontLadder *l = frontend_ladder(module_program(r->module), r->kernel_name);
    for (size_t i = 0, step = 0; i < b->columns.len && b->ladder; i++)
        if (!b->columns.data[i].provider) b->columns.data[i].step = &l->steps[step++];
}

static int run_size(Bench *b, size_t size)
{
    Run *r = arena_new(&b->tool->arena, Run);
    Reference ref = { 0 };
    run_init(r, b->tool, b->args);
    r->made_up = true;
    r->ladder = b->ladder;
    r->captured = NULL;
    r->profile = args_has(b->args, FLAG_PROFILE) ? &b->profile : NULL;
    for (size_t k = 0; k < b->sweep.names.len; k++)
        vec_push(&b->tool->arena, &r->more_set,
            arena_printf(&b->tool->arena, "%s=%lld", b->sweep.names.data[k],
                (long long)b->sweep.sizes.data[size].values[k]));
    watch_begin(&r->watch, b->tool, how_far, r);
    int code = run_open(r);
    if (!code && !b->columns.len) code = find_columns(b, r);
    if (!code) find_steps(b, r);
    if (!code) code = run_keep_originals(r);
    if (!code) code = reference_make(b, r, &ref);
    r->captured = arena_alloc(&b->tool->arena, CAPTURED);
    r->notes = arena_alloc(&b->tool->arena, CAPTURED);
    if (!code) code = run_columns(b, r, &ref, size);
    reference_free(r, &ref);
    watch_end(&r->watch);
    run_close(r);
    return code;
}

/* --- the command ------------------------------------------------------------------------------------- */

bool bench_number(Tool *t, const Args *a, FlagId flag, double least, double *value)
{
    const char *text = args_last(a, flag, NULL);
    char *end;
    if (!text) return true;
    *value = number_read(text, &end);
    if (end != text && !*end && *value >= least && *value < 1e30) return true;
    tool_usage(t, "%s wants a number of at least %g, not `%s`", flag_info[flag].spelling, least, text);
    return false;
}

static int options(Bench *b)
{
    const Args *a = b->args;
    bool files = false;
    double budget = 0;
    int64_t repeat = 0;
    b->atol = b->rtol = -1;
    b->ladder = args_has(a, FLAG_LADDER);
    b->directory = args_last(a, FLAG_OUTPUT_DIR, NULL);
    if (!bench_number(b->tool, a, FLAG_ATOL, 0, &b->atol) ||
        !bench_number(b->tool, a, FLAG_RTOL, 0, &b->rtol) ||
        !bench_number(b->tool, a, FLAG_WORK, 0, &b->work) ||
        !bench_number(b->tool, a, FLAG_BUDGET, 0.001, &budget) ||
        !args_int(b->tool, a, FLAG_REPEAT, 1, args_has(a, FLAG_GRAPH) ? 1000 : 10000, &repeat))
        return EXIT_USAGE;
    int code = sweep_read(b->tool, a, &b->sweep);
    if (code) return code;
    for (size_t i = 0; i < a->flag[FLAG_EXPECT].len; i++)
        files |= strchr(a->flag[FLAG_EXPECT].data[i], '=') != NULL;
    if (files && b->sweep.sizes.len > 1)
        return tool_usage(
            b->tool, "--expect NAME=FILE is for one size, and --sweep gives %zu", b->sweep.sizes.len);
    if (!strcmp(args_last(a, FLAG_TARGET, "cpu"), "interp"))
        return tool_usage(
            b->tool, "the interpreter is an oracle, it is not timed; --expect=interp compares with it");
    if (args_has(a, FLAG_GRAPH) && (code = graph_check(b))) return code;
    return b->directory ? bench_check_directory(b) : EXIT_OK;
}

static void find_noise(Bench *b)
{
    double worst = 0;
    for (size_t i = 0; i < b->rows.len; i++)
        if (b->rows.data[i].time.n && measure_spread(&b->rows.data[i].time) > worst)
            worst = measure_spread(&b->rows.data[i].time);
    b->noise = measure_noise(&b->tool->arena, b->load, !strncmp(b->target, "cpu", 3), worst);
    if (!b->noise) return;
    bench_log(b, "warning: %s", b->noise);
}

/* Whether the command asks for more than the time of one kernel at one size. */
static bool wants_table(const Args *a)
{
    static const FlagId table[] = { FLAG_LADDER, FLAG_SWEEP, FLAG_AGAINST, FLAG_EXPECT, FLAG_OUTPUT_DIR,
        FLAG_JSON, FLAG_CSV, FLAG_PLOT, FLAG_GRAPH, FLAG_PROFILE };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (args_has(a, table[i])) return true;
    return false;
}

/* Without a file the only one of the folder is measured. NULL after a message. */
static const Args *with_file(Tool *t, const Args *a)
{
    Args *own = arena_new(&t->arena, Args);
    const char *only = a->inputs.len ? NULL : file_only(t, ".tile");
    *own = *a;
    if (only) vec_push(&t->arena, &own->inputs, only);
    if (own->inputs.len == 1) return own;
    if (own->inputs.len) args_one_file(t, own);
    else
        tool_usage(
            t, "no .tile file given, and the folder has not exactly one (`tilec bench --help` shows how)");
    return NULL;
}

int cmd_bench(Tool *t, const Args *a)
{
    if (!(a = with_file(t, a))) return EXIT_USAGE;
    if (!wants_table(a)) return run_plain(t, a, true);
    Bench *b = arena_new(&t->arena, Bench);
    Outputs outputs = { 0 };
    Text table;
    *b = (Bench){ .tool = t, .args = a, .load = measure_load(), .seconds = 1 };
    text_init(&b->log, &t->arena);
    text_init(&table, &t->arena);
    int code = options(b);
    for (size_t size = 0; size < b->sweep.sizes.len && !code; size++) code = run_size(b, size);
    bench_close_profile(b);
    if (code && !b->rows.len) return code;
    find_noise(b);
    bench_text(b, &table);
    fwrite(table.data, 1, table.len, t->out);
    int written = bench_outputs(b, &outputs);
    if (!written) written = outputs_commit(t, &outputs);
    if (code || written) return code ? code : written;
    for (size_t i = 0; i < b->rows.len; i++)
        if (b->rows.data[i].state >= BENCH_WRONG) code = EXIT_INPUT;
    return code;
}
