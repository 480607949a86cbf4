/* cmd_explain.c: `tilec explain`: what was done to a kernel, and what its main loop has become. */
#include "tools/tilec/chosen.h"
#include "tools/tilec/explain/explain_page.h"
#include "tools/tilec/run/problem.h"
#include "tools/tilec/fit.h"
#include "passes/kernel/schedule/schedule.h"

typedef struct Explain {
    Input *in;
    const Variant *v;
    CompileOptions o;
    const LaunchFacts *facts;
    /* The device whose choice is explained; NULL: the declared defaults are explained. */
    const DeviceModel *card;
    bool memory; /* --memory: that report in place of the passes */
    Roofline roofline;
    bool measure; /* one variant: the vendor's compiler is asked */
    Text *out;
} Explain;

/* Reports and pages that show the threads of a GPU. */
static bool needs_gpu(const Args *a) { return args_has(a, FLAG_MEMORY) || args_has(a, FLAG_HTML); }

/* The first target that --device serves; without one the CPU, or a GPU where what is asked for needs threads
 * or is drawn by an estimate, of which a CPU has none. */
static const Target *default_target(const Args *a, const DeviceModel *card)
{
    if (card) return device_model_target(card);
    return target_find(needs_gpu(a) || args_has(a, FLAG_ROOFLINE) ? "cuda:sm_90a" : "cpu");
}

static const DeviceModel *card_of(const Args *a)
{
    const char *name = args_last(a, FLAG_DEVICE, NULL);
    return name ? device_model_find(name) : NULL;
}

/* What each pass counted. */
static void print_passes(Explain *x, const PassReport *r)
{
    text_puts(x->out, "passes that changed something:\n");
    for (int id = 0; id < TILE_PASS_COUNT; id++) {
        const char *sep = NULL;
        for (size_t i = 0; i < r->stats.len; i++) {
            const PassStat *s = &r->stats.data[i];
            if ((int)s->pass != id) continue;
            if (sep) text_printf(x->out, ", %s: %lld", s->what, (long long)s->count);
            else text_printf(x->out, "  %-13s %s: %lld", pass_info[id].name, s->what, (long long)s->count);
            sep = ", ";
        }
        if (sep) text_putc(x->out, '\n');
    }
}

static void print_census(Explain *x, const Census *before, const Census *after)
{
    const struct {
        const char *name;
        int before, after;
    } rows[] = {
        { "instructions", before->instrs, after->instrs },
        { "in loops", before->in_loops, after->in_loops },
        { "loops", before->loops, after->loops },
        { "exp", before->exps, after->exps },
        { "exp2", before->exp2s, after->exp2s },
        { "divisions", before->divs, after->divs },
        { "fused multiply-adds", before->fmas, after->fmas },
        { "transposes", before->permutes, after->permutes },
        { "accesses with masks", before->masked, after->masked },
        { "those in main loops", before->loop_masked, after->loop_masked },
        { "selects in main loops", before->loop_selects, after->loop_selects },
        { "64-bit index values", before->index64, after->index64 },
    };
    text_puts(x->out, "tile IR before and after them:\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].before || rows[i].after)
            text_printf(x->out, "  %-22s %5d -> %d\n", rows[i].name, rows[i].before, rows[i].after);
}

/* The promises of a launch of the library, of which code is explained: on a GPU it also tells of rows without
 * gaps. */
static const LaunchFacts *launched_facts(const Explain *x, const Variant *v)
{ return emit_assumed(x->in, v, x->o.target->kind == TARGET_CPU ? 0 : ASSUME_DENSE); }

static Module *lowered(Explain *x, bool plain, PassReport *report, Func **f)
{
    CompileOptions o = x->o;
    if (plain) {
        o.passes.passes = "inline,check";
        o.passes.skip = o.passes.with = o.passes.dump_after = NULL;
    }
    CompileJob job = input_job(x->in, x->v, x->facts, &o);
    return compile_to_ir(&job, report, f);
}

/* The kernel IR and the emitted text. False after diagnostics; a kernel that does not fit is none. */
static bool emit_kernel(Explain *x, Explained *e)
{
    Session *s = &x->in->session;
    PassReport lowering = { 0 };
    KernelOptions options = kernel_options_of(&x->o.passes);
    Diag *before = s->last_diag;
    int errors = s->n_errors;
    options.report = &lowering;
    if (x->o.target->kind == TARGET_CPU) return true;
    bool ok = gpu_compile(s, e->tile, x->o.target, &options, &e->code, &e->kernel);
    if (!ok && e->code.shared_bytes <= x->o.target->shared_bytes) return false;
    if (!ok) {
        diag_forget(s, before, errors);
        e->kernel = NULL;
    }
    passes_warn_unrun(s, &x->o.passes, &lowering, e->tile->name);
    return true;
}

static void print_schedule(Explain *x, const Func *f, KernelPlan *plan)
{
    text_printf(x->out, "schedule: %d warps%s", plan->warps, plan->producer_warps ? " of consumers" : "");
    if (plan->producer_warps)
        text_printf(x->out, " (%d registers), %d of the producer (%d registers)", plan->consumer_registers,
            plan->producer_warps, plan->producer_registers);
    text_printf(
        x->out, "%s\n%s", plan->persistent ? "; persistent" : "", plan->schedule ? plan->schedule : "");
    if (plan->schedule && *plan->schedule && plan->schedule[strlen(plan->schedule) - 1] != '\n')
        text_putc(x->out, '\n');
    const char *lines = strchr(schedule_text(plan, f, NULL), '\n');
    for (lines += *lines == '\n'; *lines; lines += strcspn(lines, "\n") + 1)
        text_printf(x->out, "  %.*s\n", (int)strcspn(lines, "\n"), lines);
}

/* The passes' work as text. */
static bool print_variant(Explain *x, Explained *e, const PassReport *report, const Timeline *line)
{
    PassReport ignored = { 0 };
    Func *plain;
    Module *m = lowered(x, true, &ignored, &plain);
    if (!m) return false;
    Census before = passes_census(m), after = passes_census(e->tile->module);
    print_passes(x, report);
    print_census(x, &before, &after);
    if (e->kernel) print_schedule(x, e->kernel, e->code.plan);
    explain_resources(e, x->measure, x->out);
    timeline_text(line, x->out);
    return true;
}

static bool explain_variant(Explain *x, Explained *e, Timeline *line)
{
    Session *s = &x->in->session;
    if (!x->memory) text_printf(x->out, "%s for %s\n", x->v->title, x->o.target->name);
    CompileOptions *o = arena_new(&s->arena, CompileOptions);
    *o = x->o; /* x goes on to other targets */
    *e = (Explained){ .in = x->in, .o = o, .card = x->card };
    e->title = arena_printf(&s->arena, "%s for %s", x->v->title, x->o.target->name);
    if (x->card) {
        CostDevice device = device_of_model(x->card, x->o.target);
        if (!(x->v = chosen_on(x->in, x->v, &x->o, &device, x->out))) return false;
        x->facts = launched_facts(x, x->v);
    } else {
        const Variant *v = x->v;
        size_t n = v->n;
        x->v = fit_autos(x->in, v, x->facts, &x->o);
        if (x->v != v && !x->memory)
            text_printf(
                x->out, "chosen: %s\n", problem_config_text(s, x->v->bindings + n, (int)(x->v->n - n)));
    }
    e->v = x->v;
    e->facts = x->facts;
    if (!lowered(x, false, &e->report, &e->tile)) return false;
    if (!emit_kernel(x, e)) return false;
    CostDevice card = x->card ? device_of_model(x->card, x->o.target) : device_of_target(x->o.target);
    if (args_has(x->in->args, FLAG_WPERF)) fit_advise(x->in, x->v, x->facts, &x->o, &card);
    timeline_build(s, e->kernel ? e->kernel : e->tile, line);
    if (!x->memory) return print_variant(x, e, &e->report, line);
    explain_memory(e, x->out);
    return true;
}

/* --- pictures and pages ------------------------------------------------------------------------------ */

/* One `--plot=KIND`, `--plot=KIND:FILE` or `--plot=FILE`, which is the timeline. */
static PictureKind picture_kind(Arena *a, const char *value, const char **path)
{
    for (int k = 0; k < PICTURE_COUNT; k++) {
        size_t n = strlen(picture_name[k]);
        if (strncmp(value, picture_name[k], n) || (value[n] && value[n] != ':')) continue;
        *path = value[n] ? value + n + 1 : arena_printf(a, "%s.svg", picture_name[k]);
        return (PictureKind)k;
    }
    *path = value;
    return PICTURE_TIMELINE;
}

static void add_text(Input *in, Outputs *outputs, const char *path, const Text *t)
{
    outputs_add(
        in->tool, outputs, path, arena_strndup(&in->tool->arena, t->data ? t->data : "", t->len), t->len);
}

static bool draw_pictures(Explain *x, Explained *e, const Timeline *line, Outputs *outputs)
{
    Strings plots = args_list(x->in->tool, x->in->args, FLAG_PLOT);
    for (size_t k = 0; k < plots.len; k++) {
        const char *path;
        Text svg;
        text_init(&svg, &x->in->session.arena);
        PictureKind kind = picture_kind(&x->in->tool->arena, plots.data[k], &path);
        if (!explain_picture(e, kind, line, &svg)) return false;
        add_text(x->in, outputs, path, &svg);
    }
    return true;
}

/* The page of the variant. Its report is the text that is printed without --memory. */
static bool write_page(Explain *x, Explained *e, const Timeline *line, Outputs *outputs)
{
    Session *s = &x->in->session;
    Text page, report;
    Roofline roofline = { 0 };
    Explain quiet = *x;
    text_init(&page, &s->arena);
    text_init(&report, &s->arena);
    quiet.out = &report;
    quiet.measure = false;
    if (!e->kernel) {
        diag_error(s, e->tile->loc, "--html: the kernel does not fit as declared");
        return false;
    }
    if (!print_variant(&quiet, e, &e->report, line)) return false;
    explain_launch(e);
    if (e->launch.trace && !roofline_add(e, &roofline)) return false;
    explain_page(e, line, &report, &roofline, &page);
    add_text(x->in, outputs, args_last(x->in->args, FLAG_HTML, NULL), &page);
    return true;
}

static int one_only(Explain *x, const char *flag, size_t n)
{
    Session *s = &x->in->session;
    if (n > 1)
        diag_error(s, (Loc){ 0 }, "%s draws one variant, here are %zu; choose with --kernel and -D", flag, n);
    else diag_error(s, (Loc){ 0 }, "%s draws one variant, for one target; choose one --target", flag);
    return EXIT_INPUT;
}

/* The variant of a step of the ladder: what the ladder's `at` gives, the variant, the step. */
static const Variant *step_variant(Session *s, const Variant *v, const FrontLadder *l, const FrontStep *step)
{
    Variant *w = arena_new(&s->arena, Variant);
    FrontBinding *b = arena_array(&s->arena, FrontBinding, v->n + (size_t)(l->n_at + step->n) + 1);
    size_t n = 0;
    for (int i = 0; i < l->n_at; i++) {
        bool scalar = false;
        for (int p = 0; p < v->kernel->n_params; p++)
            scalar |= v->kernel->params[p].kind == FRONT_SCALAR &&
                      !strcmp(v->kernel->params[p].name, l->at[i].name);
        if (!scalar) b[n++] = l->at[i];
    }
    for (size_t i = 0; i < v->n; i++) b[n++] = v->bindings[i];
    for (int i = 0; i < step->n; i++) b[n++] = step->bindings[i];
    *w = (Variant){ v->kernel, b, n, 0, arena_printf(&s->arena, "%s, step %s", v->kernel->name, step->name) };
    return w;
}

static const char *both(Session *s, const char *a, const char *b)
{ return !a ? b : !b ? a : arena_printf(&s->arena, "%s,%s", a, b); }

/* Adds the steps of the kernel's ladder to the roofline. False after diagnostics. */
static bool add_steps(Explain *x, const Variant *v)
{
    Session *s = &x->in->session;
    const FrontLadder *l = frontend_ladder(x->in->ast, v->kernel->name);
    for (int k = 0; l && k < l->n; k++) {
        const FrontStep *step = &l->steps[k];
        Explain *of = arena_new(&s->arena, Explain);
        Explained *e = arena_new(&s->arena, Explained);
        PassReport report = { 0 };
        *of = *x;
        of->v = step_variant(s, v, l, step);
        of->facts = launched_facts(x, of->v);
        of->o.passes.skip = both(s, x->o.passes.skip, step->skip);
        of->o.passes.with = both(s, x->o.passes.with, step->with);
        if (step->remap) of->o.passes.remap = step->remap;
        of->o.passes.approx |= step->approx;
        of->o.passes.ftz |= step->ftz;
        *e = (Explained){ .in = x->in, .o = &of->o, .card = x->card, .v = of->v, .facts = of->facts };
        e->title = arena_printf(&s->arena, "%s for %s", of->v->title, x->o.target->name);
        if (!lowered(of, false, &report, &e->tile) || !emit_kernel(of, e) || !roofline_add(e, &x->roofline))
            return false;
    }
    return true;
}

/* All variants for one target. */
static int explain_target(Explain *x, const Target *target, Outputs *outputs, size_t *n)
{
    Input *in = x->in;
    Variants list = { 0 };
    if (!input_options(in, target, &x->o)) return EXIT_USAGE;
    if (!input_variants(in, &list)) return EXIT_INPUT;
    x->measure = list.len == 1 && !args_has(in->args, FLAG_HTML);
    for (size_t i = 0; i < list.len; i++) {
        Timeline line = { 0 };
        Explained *e = arena_new(&in->session.arena, Explained);
        x->v = &list.data[i];
        x->facts = launched_facts(x, x->v);
        if ((*n)++) text_putc(x->out, '\n');
        if (!explain_variant(x, e, &line)) return EXIT_INPUT;
        if (args_has(in->args, FLAG_PLOT) && *n > 1) return one_only(x, "--plot", list.len);
        if (!draw_pictures(x, e, &line, outputs)) return EXIT_INPUT;
        if (args_has(in->args, FLAG_HTML) && *n > 1) return one_only(x, "--html", list.len);
        if (args_has(in->args, FLAG_HTML) && !write_page(x, e, &line, outputs)) return EXIT_INPUT;
        if (args_has(in->args, FLAG_ROOFLINE) && !roofline_add(e, &x->roofline)) return EXIT_INPUT;
    }
    for (size_t i = 0; args_has(in->args, FLAG_ROOFLINE) && i < list.len; i++)
        if ((!i || list.data[i].kernel != list.data[i - 1].kernel) && !add_steps(x, &list.data[i]))
            return EXIT_INPUT;
    return EXIT_OK;
}

static int explain(Input *in, Outputs *outputs)
{
    Text out;
    Explain x = {
        .in = in, .out = &out, .card = card_of(in->args), .memory = args_has(in->args, FLAG_MEMORY)
    };
    Strings targets = args_list(in->tool, in->args, FLAG_TARGET);
    size_t n = 0;
    text_init(&out, &in->session.arena);
    for (size_t i = 0; i < targets.len || !i; i++) {
        const Target *t = targets.len ? target_find(targets.data[i]) : default_target(in->args, x.card);
        int code = explain_target(&x, t, outputs, &n);
        if (code != EXIT_OK) return code;
    }
    if (args_has(in->args, FLAG_ROOFLINE)) {
        Text svg;
        text_init(&svg, &in->session.arena);
        if (!roofline_draw(&x.roofline, &svg)) return EXIT_INPUT;
        add_text(in, outputs, args_last(in->args, FLAG_ROOFLINE, NULL), &svg);
    }
    add_text(in, outputs, args_last(in->args, FLAG_OUTPUT, "-"), &out);
    return EXIT_OK;
}

static int unknown_card(Tool *t, const char *name)
{
    Text known;
    text_init(&known, &t->arena);
    for (size_t i = 0; device_model_at(i); i++)
        text_printf(&known, "%s%s", i ? ", " : "", device_model_at(i)->name);
    return tool_usage(t, "there is no device `%s`; known are %s", name, known.data);
}

static int check_targets(Tool *t, const Args *a, const DeviceModel *card)
{
    Strings targets = args_list(t, a, FLAG_TARGET);
    for (size_t i = 0; i < targets.len; i++) {
        const Target *target = target_find(targets.data[i]);
        if (!target) return args_no_target(t, targets.data[i]);
        if (card && !device_model_serves(card, target))
            return tool_usage(t, "%s runs code for %s, not for %s", card->name, card->targets, target->name);
        if (needs_gpu(a) && target->kind == TARGET_CPU)
            return tool_usage(t, "--%s shows the threads of a GPU; choose a --target that is one",
                args_has(a, FLAG_MEMORY) ? "memory" : "html");
    }
    return EXIT_OK;
}

int cmd_explain(Tool *t, const Args *a)
{
    const char *device = args_last(a, FLAG_DEVICE, NULL);
    const DeviceModel *card = card_of(a);
    if (a->inputs.len != 1) return args_one_file(t, a);
    if (device && !card) return unknown_card(t, device);
    int code = check_targets(t, a, card);
    if (code != EXIT_OK) return code;
    for (size_t i = 0; i < a->flag[FLAG_DEFINE].len; i++) {
        const char *text = a->flag[FLAG_DEFINE].data[i], *eq = strchr(text, '=');
        if (!eq || eq == text || !eq[1]) return tool_usage(t, "-D wants NAME=VALUE, not `%s`", text);
    }
    return input_with(t, a, a->inputs.data[0], explain, NULL);
}
