/* cmd_explain.c: `tilec explain`: what was done to a kernel, and what its main loop has become. */
#include "tools/tilec/chosen.h"
#include "tools/tilec/emit.h"
#include "tools/tilec/timeline.h"
#include "passes/kernel/schedule/schedule.h"

typedef struct Explain {
    Input *in;
    const Variant *v;
    CompileOptions o;
    const LaunchFacts *facts;
    /* The device whose choice is explained; NULL: the declared defaults are explained. */
    const DeviceModel *card;
    Text *out;
} Explain;

/* The target of --target, or the first that --device serves. */
static const Target *target_of(const Args *a, const DeviceModel *card)
{
    const char *name = args_last(a, FLAG_TARGET, NULL);
    if (name) return target_find(name);
    return card ? device_model_target(card) : target_find("cpu");
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

static Module *lowered(Explain *x, bool plain, PassReport *report, Func **f)
{
    CompileOptions o = x->o;
    if (plain) {
        o.passes.passes = "inline,check";
        o.passes.skip = o.passes.with = o.passes.dump_after = NULL;
    }
    return compile_to_ir(
        &x->in->session, x->in->ast, x->v->kernel->name, x->v->bindings, x->v->n, x->facts, &o, report, f);
}

static bool explain_variant(Explain *x, Timeline *line)
{
    Session *s = &x->in->session;
    PassReport ignored = { 0 }, report = { 0 };
    Func *f;
    text_printf(x->out, "%s for %s\n", x->v->title, x->o.target->name);
    if (x->card) {
        CostDevice device = device_of_model(x->card, x->o.target);
        if (!(x->v = chosen_on(x->in, x->v, &x->o, &device, x->out))) return false;
        x->facts = emit_assumed(x->in, x->v);
    }
    Module *m = lowered(x, true, &ignored, &f);
    if (!m) return false;
    Census before = passes_census(m);
    if (!(m = lowered(x, false, &report, &f))) return false;
    Census after = passes_census(m);
    print_passes(x, &report);
    print_census(x, &before, &after);
    if (x->o.target->kind != TARGET_CPU) {
        KernelPlan plan;
        KernelOptions options = kernel_options_of(&x->o.passes);
        PassReport lowering = { 0 };
        options.report = &lowering;
        if (!kernel_lower(s, f, x->o.target, &options, &plan)) return false;
        passes_warn_unrun(s, &x->o.passes, &lowering, f->name);
        text_printf(x->out, "schedule: %d warps%s", plan.warps, plan.producer_warps ? " of consumers" : "");
        if (plan.producer_warps)
            text_printf(x->out, " (%d registers), %d of the producer (%d registers)", plan.consumer_registers,
                plan.producer_warps, plan.producer_registers);
        text_printf(
            x->out, "%s\n%s", plan.persistent ? "; persistent" : "", plan.schedule ? plan.schedule : "");
        if (plan.schedule && *plan.schedule && plan.schedule[strlen(plan.schedule) - 1] != '\n')
            text_putc(x->out, '\n');
        const char *lines = strchr(schedule_text(&plan, f, NULL), '\n');
        for (lines += *lines == '\n'; *lines; lines += strcspn(lines, "\n") + 1)
            text_printf(x->out, "  %.*s\n", (int)strcspn(lines, "\n"), lines);
    }
    timeline_build(s, f, line);
    timeline_text(line, x->out);
    return true;
}

static int explain(Input *in, Outputs *outputs)
{
    const char *plot = args_last(in->args, FLAG_PLOT, NULL);
    Variants list = { 0 };
    Text out, svg;
    Explain x = { .in = in, .out = &out, .card = card_of(in->args) };
    text_init(&out, &in->session.arena);
    text_init(&svg, &in->session.arena);
    if (!input_options(in, target_of(in->args, x.card), &x.o)) return EXIT_USAGE;
    if (!input_variants(in, &list)) return EXIT_INPUT;
    for (size_t i = 0; i < list.len; i++) {
        Timeline line = { 0 };
        x.v = &list.data[i];
        x.facts = emit_assumed(in, x.v);
        if (i) text_putc(&out, '\n');
        if (!explain_variant(&x, &line)) return EXIT_INPUT;
        if (plot && i) {
            diag_error(&in->session, (Loc){ 0 },
                "--plot draws one variant, here are %zu; choose with --kernel and -D", list.len);
            return EXIT_INPUT;
        }
        if (plot)
            timeline_svg(
                arena_printf(&in->session.arena, "%s for %s", x.v->title, x.o.target->name), &line, &svg);
    }
    outputs_add(in->tool, outputs, args_last(in->args, FLAG_OUTPUT, "-"),
        arena_strndup(&in->tool->arena, out.data, out.len), out.len);
    if (plot)
        outputs_add(in->tool, outputs, plot, arena_strndup(&in->tool->arena, svg.data, svg.len), svg.len);
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

int cmd_explain(Tool *t, const Args *a)
{
    const char *target = args_last(a, FLAG_TARGET, "cpu"), *device = args_last(a, FLAG_DEVICE, NULL);
    const DeviceModel *card = card_of(a);
    if (a->inputs.len != 1)
        return tool_usage(t,
            a->inputs.len ? "one .tile file at a time, not %zu"
                          : "no .tile file given (`tilec explain --help` shows how)",
            a->inputs.len);
    if (!target_find(target)) return tool_usage(t, "there is no target `%s`", target);
    if (device && !card) return unknown_card(t, device);
    if (card && !device_model_serves(card, target_of(a, card)))
        return tool_usage(t, "%s runs code for %s, not for %s", card->name, card->targets, target);
    for (size_t i = 0; i < a->flag[FLAG_DEFINE].len; i++) {
        const char *text = a->flag[FLAG_DEFINE].data[i], *eq = strchr(text, '=');
        if (!eq || eq == text || !eq[1]) return tool_usage(t, "-D wants NAME=VALUE, not `%s`", text);
    }
    return input_with(t, a, a->inputs.data[0], explain, NULL);
}
