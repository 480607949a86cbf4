/* cmd_sim.c: `tilec sim`: a kernel's launch through the cache model, one placement of its programs after the
 * other. */
#define _GNU_SOURCE
#include "tools/tilec/sim/sim.h"
#include "ir/support/number.h"
#include "ir/target/processors.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MAX_CASES = 64, MAX_BINDINGS = 256 };

typedef struct Sim {
    Input *in;
    const FrontKernel *kernel;
    FrontBinding bindings[MAX_BINDINGS];
    size_t n;
    SimDevice device;
    const Target *target;
    Func *func;
    SimLaunch launch;
    SimReport report;
    int64_t sample;
    CompileOptions options;
    bool refused; /* some formula was */
    atomic_int next;
} Sim;

/* --- the command line -------------------------------------------------------------------------------- */

static const char *device_names(Arena *a)
{
    Text t;
    text_init(&t, a);
    for (size_t i = 0; sim_device_at(i); i++) text_printf(&t, "%s%s", i ? ", " : "", sim_device_at(i)->name);
    return t.data;
}

/* The passes of --skip-pass, or NULL. */
static const char *skipped(Input *in)
{
    Strings list = args_list(in->tool, in->args, FLAG_SKIP_PASS);
    Text t;
    text_init(&t, &in->session.arena);
    for (size_t i = 0; i < list.len; i++) text_printf(&t, "%s%s", i ? "," : "", list.data[i]);
    return t.data;
}

static bool find_device(Sim *s)
{
    Tool *t = s->in->tool;
    const char *name = args_last(s->in->args, FLAG_DEVICE, "mi300x");
    const SimDevice *known = sim_device_find(name);
    FileText text;
    if (known) s->device = *known;
    else if (!strpbrk(name, "./")) {
        tool_usage(
            t, "there is no device `%s`; there are %s, or a file's path", name, device_names(&t->arena));
        return false;
    } else {
        if (!file_read(t, name, 1 << 20, &text)) return false;
        uint32_t file = diag_add_source(&s->in->session, name, NULL, text.data, text.len);
        if (!sim_device_parse(&s->in->session, file, &s->device)) return false;
    }
    s->target = target_find(s->device.target ? s->device.target : "hip:gfx942");
    s->options = compile_options_default(s->target);
    s->options.passes.xcds = s->device.chiplets > 1 ? (int)s->device.chiplets : 0;
    s->options.passes.skip = skipped(s->in);
    return true;
}

static const FrontKernel *find_kernel(Sim *s)
{
    const char *name = args_last(s->in->args, FLAG_KERNEL, NULL);
    int n = frontend_kernel_count(s->in->ast);
    for (int i = 0; i < n; i++) {
        const FrontKernel *k = frontend_kernel(s->in->ast, i);
        if (name ? !strcmp(k->name, name) : n == 1) return k;
    }
    input_no_kernel(s->in, name);
    return NULL;
}

static bool is_scalar(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_params; i++)
        if (!strcmp(k->params[i].name, name)) return k->params[i].kind == FRONT_SCALAR;
    return false;
}

/* NAME=VALUE taken apart; scalars wait for the lowered kernel. */
static bool read_set(Sim *s, const char *text, const char **name, const char **value)
{
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1]) {
        tool_usage(s->in->tool, "--set wants NAME=VALUE, not `%s`", text);
        return false;
    }
    *name = session_intern(&s->in->session, text, (size_t)(eq - text));
    *value = eq + 1;
    return true;
}

static bool bind_all(Sim *s)
{
    const Strings *set = &s->in->args->flag[FLAG_SET];
    for (size_t i = 0; i < set->len; i++) {
        const char *name, *value, *why = NULL;
        if (!read_set(s, set->data[i], &name, &value)) return false;
        if (is_scalar(s->kernel, name)) continue;
        FrontBinding *b = &s->bindings[s->n];
        b->name = name;
        if (s->n == MAX_BINDINGS ||
            !frontend_parse_value(&s->in->session, s->kernel, name, value, &b->value, &why)) {
            diag_error(
                &s->in->session, (Loc){ 0 }, "--set %s=%s: %s", name, value, why ? why : "no such value");
            return false;
        }
        s->n++;
    }
    return true;
}

/* The default of the scalar parameter, if the kernel declares one. */
static void take_default(const FrontKernel *k, const Param *p, Scalar *out)
{
    bool real = dtype_is_float(p->type->dtype);
    for (int i = 0; i < k->n_params; i++) {
        FrontValue d = k->params[i].default_value;
        if (strcmp(k->params[i].name, p->name)) continue;
        if (d.kind == FRONT_UINT) *out = real ? scalar_float((double)(uint64_t)d.i) : scalar_int(d.i);
        if (d.kind == FRONT_INT) *out = real ? scalar_float((double)d.i) : scalar_int(d.i);
        if (d.kind == FRONT_FLOAT) out->f = d.f;
        if (d.kind == FRONT_BOOL) out->i = d.b;
    }
}

/* The value of `--set NAME=VALUE` for the scalar parameter. */
static bool take_given(Sim *s, const Param *p, const char *value, Scalar *out)
{
    Session *session = &s->in->session;
    const char *why = NULL;
    char *end = NULL;
    if (dtype_is_float(p->type->dtype)) out->f = number_read(value, &end);
    else why = text_to_integer(&session->arena, value, p->type->dtype, &out->i);
    if (end && (*end || end == value))
        why = arena_printf(&session->arena, "no value of type %s", dtype_name(p->type->dtype));
    if (why) diag_error(session, (Loc){ 0 }, "--set %s=%s: %s", p->name, value, why);
    return !why;
}

static bool read_scalars(Sim *s, Scalar *out)
{
    const Strings *set = &s->in->args->flag[FLAG_SET];
    for (int k = 0; k < s->func->n_params; k++) {
        const Param *p = &s->func->params[k];
        if (p->kind != PARAM_SCALAR) continue;
        take_default(s->kernel, p, &out[k]);
        for (size_t i = 0; i < set->len; i++) {
            const char *name, *value;
            if (!read_set(s, set->data[i], &name, &value) || strcmp(name, p->name)) continue;
            if (!take_given(s, p, value, &out[k])) return false;
        }
    }
    return true;
}

/* --- the kernel -------------------------------------------------------------------------------------- */

/* The tile IR with its programs placed by `remap`. */
static Func *lower(Sim *s, const char *remap, const LaunchFacts *facts, const char **placed)
{
    PassReport report = { 0 };
    Func *f = NULL;
    s->options.passes.remap = remap;
    CompileJob job = { &s->in->session, s->in->ast, s->kernel->name, s->bindings, s->n, facts, &s->options };
    if (!compile_to_ir(&job, &report, &f)) return NULL;
    *placed = report.remap ? report.remap : remap;
    return f;
}

/* The extents that the launch derives from the others. */
static bool derive(Sim *s, int64_t *dims, const Scalar *scalars)
{
    const Func *f = s->func;
    int64_t value[EVAL_MAX_RESULTS];
    EvalEnv env = { .dims = dims, .scalars = scalars };
    if (!f->extents) return true;
    int n = ir_terminator(f->extents)->n_operands;
    bool ok = ir_eval_block(f, f->extents, &env, value, n);
    for (int d = f->n_dims - 1; d >= 0; d--) {
        if (!f->dims[d].text) continue;
        dims[d] = value[--n];
        ok &= dims[d] >= 0;
        if (ok) continue;
        diag_error(
            &s->in->session, s->kernel->loc, "the extent %s is no number of at least 0", f->dims[d].text);
        return false;
    }
    return true;
}

static bool bind_launch(Sim *s)
{
    Arena *a = &s->in->session.arena;
    const Func *f = s->func;
    int64_t *dims = arena_array(a, int64_t, (size_t)f->n_dims + 1);
    Scalar *scalars = arena_array(a, Scalar, (size_t)f->n_params + 1);
    Text missing;
    text_init(&missing, a);
    for (int d = 0; d < f->n_dims; d++) {
        dims[d] = f->dims[d].extent;
        if (dims[d] < 0 && !f->dims[d].text)
            text_printf(&missing, "%s--set %s=..", missing.len ? " " : "", f->dims[d].name);
    }
    if (missing.len) {
        diag_error(&s->in->session, s->kernel->loc, "extents are missing: %s", missing.data);
        return false;
    }
    s->launch = (SimLaunch){ dims, scalars };
    return read_scalars(s, scalars) && derive(s, dims, scalars);
}

/* A remap of the kernel's own must permute the grid, however well it might look. */
static bool check_remap(Sim *s, const Func *f, const EvalCode *remap)
{
    Session *x = &s->in->session;
    int64_t n = sim_trace_programs(s->report.trace);
    EvalEnv env = sim_trace_env(s->report.trace);
    EvalClash clash = { 0 };
    Loc loc = f->loc;
    for (const Instr *i = f->remap->first; i; i = i->next) /* of the clause, if it is still to be seen */
        if (i->loc.file && (i->loc.begin != f->loc.begin || i->loc.end != f->loc.end)) loc = i->loc;
    switch (eval_check_remap(remap, &env, n, s->in->tool->alloc, &clash)) {
    case EVAL_BIJECTION: return true;
    case EVAL_COLLISION:
        diag_error(x, loc,
            "the remap is no permutation of the %lld programs: programs %lld and %lld both become %lld",
            (long long)n, (long long)clash.a, (long long)clash.b, (long long)clash.to);
        return false;
    case EVAL_OUT_OF_RANGE:
        diag_error(x, loc, "the remap sends program %lld to %lld, outside of the %lld programs",
            (long long)clash.a, (long long)clash.to, (long long)n);
        return false;
    case EVAL_NOT_CHECKED:
        diag_error(x, loc, "a grid of %lld programs is too large to check its remap (at most %d)",
            (long long)n, EVAL_MAX_CHECKED);
        return false;
    case EVAL_FAILED:
        diag_error(x, loc, "the remap's expression does not end for program %lld", (long long)clash.a);
        return false;
    case EVAL_NO_MEMORY: break;
    }
    arena_oom(&x->arena);
}

static bool begin_trace(Sim *s, Func *f)
{
    const char *why = NULL;
    s->func = f;
    if (!bind_launch(s)) return false;
    s->report.trace = sim_trace(f, &s->launch, &why);
    if (!s->report.trace) {
        diag_error(&s->in->session, f->loc, "the accesses of %s cannot be derived: %s", f->name, why);
        return false;
    }
    if (sim_trace_bytes(s->report.trace) / s->device.line <= INT32_MAX - 2) return true;
    diag_error(&s->in->session, f->loc, "the tensors take %lld bytes, more than the model holds",
        (long long)sim_trace_bytes(s->report.trace));
    return false;
}

static bool add_case(Sim *s, const char *name)
{
    Arena *a = &s->in->session.arena;
    SimCase *c = &s->report.cases[s->report.n];
    const char *why = NULL;
    bool formula = frontend_is_formula(name);
    Func *f = lower(s, formula ? "none" : name, NULL, &c->placed);
    if (!f) return false;
    c->name = name;
    if (formula) c->placed = name;
    if (!s->func && !begin_trace(s, f)) return false;
    if (f->remap) {
        c->remap = eval_compile(a, f, f->remap, &why);
        if (!c->remap) {
            diag_error(&s->in->session, f->loc, "the remap cannot be evaluated: %s", why);
            return false;
        }
        if (!f->permutes && !check_remap(s, f, c->remap)) return false;
    }
    if (formula && !sim_place(s->in, s->kernel, s->bindings, s->n, s->report.trace, c->remap, c))
        return false;
    s->refused |= c->refused != NULL;
    c->chiplet_of = arena_alloc(a, (size_t)sim_trace_programs(s->report.trace) + 1);
    memset(c->chiplet_of, 255, (size_t)sim_trace_programs(s->report.trace) + 1);
    s->report.n++;
    return true;
}

/* Whether rows of all tensors begin at multiples of 16 bytes, as in the model's row-major launch. */
static bool is_aligned(const Sim *s)
{
    for (int p = 0; p < s->func->n_params; p++) {
        const Param *q = &s->func->params[p];
        if (q->type->kind != TYPE_TENSOR || q->type->rank < 1) continue;
        double bytes = dtype_bytes(q->type->dtype);
        int64_t row = s->launch.dims[q->dims[q->type->rank - 1]];
        for (int a = 0; a < q->type->rank; a++) bytes *= (double)s->launch.dims[q->dims[a]];
        if (row > FITS32_EXTENT || row * dtype_bytes(q->type->dtype) % 16 || bytes > INT32_MAX) return false;
    }
    return true;
}

/* Sectors and banks of the kernel as a launch of these tensors would get it. */
static bool count_moved(Sim *s)
{
    Variant v = { .kernel = s->kernel, .bindings = s->bindings, .n = s->n };
    const char *placed;
    Func *f = lower(s, "none", is_aligned(s) ? input_facts(s->in, &v, ASSUME_ALIGNED) : NULL, &placed);
    if (!f) return false;
    sim_count_moved(s->in, f, &s->options.passes, &s->device, s->report.trace, &s->report.moved);
    return true;
}

/* --- running ----------------------------------------------------------------------------------------- */

/* Placements that come to the same thing are simulated once. */
static SimCase *same_case(const SimReport *r, int k)
{
    for (int i = 0; i < k; i++)
        if (!strcmp(r->cases[i].placed, r->cases[k].placed)) return &r->cases[i];
    return NULL;
}

static void *work(void *user)
{
    Sim *s = user;
    for (int k; (k = atomic_fetch_add(&s->next, 1)) < s->report.n;) {
        SimCase *c = &s->report.cases[k];
        SimOptions o = { .per_unit = s->report.per_unit,
            .sample = s->sample,
            .drift = s->report.drift,
            .order = c->order,
            .line_bytes = s->report.moved.line_bytes,
            .shared_bytes = s->report.moved.banks,
            .chiplet_of = c->chiplet_of,
            .alloc = s->in->tool->alloc };
        if (!same_case(&s->report, k))
            c->status = sim_replay(s->report.trace, &s->device, c->remap, &o, &c->result);
    }
    return NULL;
}

static bool run_cases(Sim *s)
{
    int64_t threads = 0;
    if (!args_int(s->in->tool, s->in->args, FLAG_THREADS, 0, 256, &threads)) return false;
    if (!threads) threads = processors_usable();
    if (threads > s->report.n) threads = s->report.n;
    pthread_t *ids = arena_array(&s->in->tool->arena, pthread_t, (size_t)threads + 1);
    int64_t started = 0;
    while (started + 1 < threads && !pthread_create(&ids[started], NULL, work, s)) started++;
    work(s);
    while (started > 0) pthread_join(ids[--started], NULL);
    for (int k = 0; k < s->report.n; k++) {
        SimCase *c = &s->report.cases[k], *of = same_case(&s->report, k);
        if (of) {
            c->result = of->result;
            c->status = of->status;
            c->chiplet_of = of->chiplet_of;
        }
        if (c->status == SIM_NO_MEMORY) arena_oom(&s->in->session.arena);
        if (c->status) {
            diag_error(&s->in->session, s->func->loc,
                "%s cannot be simulated: a loop does not end, or the device is too large", s->func->name);
            return false;
        }
    }
    return true;
}

static void add_output(Sim *s, Outputs *outputs, FlagId flag, void (*fn)(const SimReport *, Text *))
{
    const char *path = flag == FLAG_COUNT ? "-" : args_last(s->in->args, flag, NULL);
    if (!path) return;
    Text *t = arena_new(&s->in->tool->arena, Text);
    text_init(t, &s->in->tool->arena);
    fn(&s->report, t);
    outputs_add(s->in->tool, outputs, path, t->data, t->len);
}

static bool add_history(Sim *s, Outputs *outputs)
{
    const char *path = args_last(s->in->args, FLAG_HISTORY, NULL);
    Text *t = arena_new(&s->in->tool->arena, Text);
    text_init(t, &s->in->tool->arena);
    if (!path) return true;
    if (!sim_history(s->in, &s->report, path, t)) return false;
    outputs_add(s->in->tool, outputs, path, t->data, t->len);
    outputs->list.data[outputs->list.len - 1].keeps_mode = true;
    return true;
}

static bool read_numbers(Sim *s)
{
    Tool *t = s->in->tool;
    if (!args_int(t, s->in->args, FLAG_PER_UNIT, 1, 64, &s->report.per_unit) ||
        !args_int(t, s->in->args, FLAG_SAMPLE, 1, 1024, &s->sample) ||
        !args_int(t, s->in->args, FLAG_DRIFT, 0, 99, &s->report.drift))
        return false;
    if (s->sample & (s->sample - 1)) {
        tool_usage(t, "--sample wants a power of two, not %lld", (long long)s->sample);
        return false;
    }
    return true;
}

static int simulate(Input *in, Outputs *outputs)
{
    Sim *s = arena_new(&in->session.arena, Sim);
    s->in = in;
    Strings remaps = sim_remaps(in->tool, in->args);
    static const char *const all[] = { "none", "xcd", "chunk", "head", "auto" };
    if (!find_device(s)) return in->session.n_errors ? EXIT_INPUT : EXIT_USAGE;
    in->session.binder = "--set";
    if (!read_numbers(s)) return EXIT_USAGE;
    for (size_t i = 0, n = remaps.len ? 0 : s->device.chiplets > 1 ? 5 : 1; i < n; i++)
        vec_push(&in->tool->arena, &remaps, all[i]);
    if (remaps.len > MAX_CASES) return tool_usage(in->tool, "at most %d remaps at a time", MAX_CASES);
    s->report = (SimReport){ .device = &s->device,
        .per_unit = s->report.per_unit,
        .drift = s->report.drift,
        .cases = arena_array(&in->session.arena, SimCase, remaps.len + 1) };
    if (!(s->kernel = find_kernel(s)) || !bind_all(s)) return in->session.n_errors ? EXIT_INPUT : EXIT_USAGE;
    s->report.title = compile_title(&in->session, s->kernel->name, s->bindings, s->n);
    for (size_t i = 0; i < remaps.len; i++)
        if (!add_case(s, remaps.data[i])) return EXIT_INPUT;
    if (!s->report.per_unit) s->report.per_unit = s->func->hints.occupancy > 0 ? s->func->hints.occupancy : 1;
    if (!count_moved(s) || !run_cases(s)) return EXIT_INPUT;
    add_output(s, outputs, FLAG_COUNT, sim_print);
    if (!add_history(s, outputs)) return EXIT_INPUT;
    add_output(s, outputs, FLAG_JSON, sim_json);
    add_output(s, outputs, FLAG_PLOT, sim_svg);
    *(bool *)in->user = s->refused;
    return EXIT_OK;
}

int cmd_sim(Tool *t, const Args *a)
{
    if (a->inputs.len != 1) return args_one_file(t, a);
    bool refused = false;
    int code = input_with(t, a, a->inputs.data[0], simulate, &refused);
    return code == EXIT_OK && refused ? EXIT_INPUT : code;
}
