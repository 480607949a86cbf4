/* cmd_compile.c: `tilec k.tile`: objects, sources, stages, dependency rules. */
#include "tools/tilec/compile/bundle.h"
#include "tools/tilec/emit.h"
#include "tools/tilec/compile/object.h"
#include "tools/tilec/compile/shared.h"
#include "tile/tile.h"
#include <unistd.h>

/* -o is missing. `path` is the .tile file, `ending` that of the file to write. A file that cannot be read is
 * the greater fault. */
static int no_output(Tool *t, const char *path, const char *ending)
{
    FileText text;
    if (!file_read(t, path, MAX_SOURCE, &text)) return EXIT_INPUT;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *point = strrchr(name, '.');
    size_t stem = point ? (size_t)(point - name) : strlen(name);
    return tool_usage(t, "-o FILE is missing, such as `-o %.*s%s`", (int)stem, name, ending);
}

static StageId find_stage(const char *name)
{
    int s = 0;
    while (s < STAGE_COUNT && strcmp(stage_info[s].name, name)) s++;
    return (StageId)s;
}

/* --- dependency rules -------------------------------------------------------------------------------- */

/* make's way of writing a name: blanks and # behind a backslash, $ twice. */
static void make_name(Text *t, const char *name)
{
    for (; *name; name++) {
        if (*name == ' ' || *name == '#') text_putc(t, '\\');
        if (*name == '$') text_putc(t, '$');
        text_putc(t, *name);
    }
}

static const char *with_suffix(Arena *a, const char *path, const char *suffix)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t n = dot && (!slash || dot > slash + 1) && dot != path ? (size_t)(dot - path) : strlen(path);
    return arena_printf(a, "%.*s%s", (int)n, path, suffix);
}

static void add_rule(Input *in, Outputs *outputs)
{
    Arena *a = &in->tool->arena;
    bool only = args_has(in->args, FLAG_DEPS);
    const char *out = args_last(in->args, FLAG_OUTPUT, with_suffix(a, in->path, ".o"));
    const char *to = args_last(in->args, FLAG_DEPS_FILE, only ? "-" : with_suffix(a, out, ".d"));
    Text t;
    text_init(&t, a);
    make_name(&t, out);
    text_putc(&t, ':');
    for (size_t i = 0; i < in->files.len; i++) {
        text_puts(&t, " ");
        make_name(&t, in->files.data[i]);
    }
    text_putc(&t, '\n');
    for (size_t i = 1; i < in->files.len; i++) { /* An import that was deleted must not stop make. */
        make_name(&t, in->files.data[i]);
        text_puts(&t, ":\n");
    }
    outputs_add(in->tool, outputs, to, t.data, t.len);
}

/* The stage that --emit names; that of the IR which --stop-after prints; NULL: none. */
static const char *stage_of(const Args *a)
{
    const char *stage = args_last(a, FLAG_EMIT, NULL), *stop = args_last(a, FLAG_STOP_AFTER, NULL);
    PassId id;
    if (stage || !stop) return stage;
    bool kernel = pass_find(stop, strlen(stop), &id) && pass_is_kernel(id);
    return stage_info[kernel ? STAGE_KERNEL_IR : STAGE_IR].name;
}

/* --- the command ------------------------------------------------------------------------------------- */

static void add_text(Input *in, Outputs *outputs, const char *path, const Text *text)
{
    outputs_add(in->tool, outputs, path,
        arena_strndup(&in->tool->arena, text->data ? text->data : "", text->len), text->len);
}

static int print_stage(Input *in, Outputs *outputs, StageId stage, const Target *target)
{
    CompileOptions o;
    Variants list = { 0 };
    Text text;
    text_init(&text, &in->session.arena);
    if (!input_options(in, target, &o) || !input_checker(in, stage == STAGE_CUDA || stage == STAGE_HIP, &o))
        return EXIT_USAGE;
    if (stage != STAGE_AST && !input_variants(in, &list)) return EXIT_INPUT;
    int code = emit_stage(in, stage, &list, &o, &text);
    if (!code) add_text(in, outputs, args_last(in->args, FLAG_OUTPUT, "-"), &text);
    return code;
}

static int compile_file(Input *in, Outputs *outputs)
{
    const Args *a = in->args;
    const Target *target = target_find(args_last(a, FLAG_TARGET, "cpu"));
    const char *stage = stage_of(a);
    if (args_has(a, FLAG_DEPS) || args_has(a, FLAG_DEPS_TOO)) add_rule(in, outputs);
    if (args_has(a, FLAG_DEPS)) return EXIT_OK;
    if (stage) return print_stage(in, outputs, find_stage(stage), target);
    CompileOptions o;
    Variants list = { 0 };
    const char *path = args_last(a, FLAG_OUTPUT, NULL), *header = args_last(a, FLAG_HEADER, NULL);
    if (args_has(a, FLAG_BUNDLE)) {
        Strings targets = args_list(in->tool, a, FLAG_TARGET);
        if (!input_variants(in, &list)) return EXIT_INPUT;
        return bundle_compile(in, &list, &targets, path, header, outputs);
    }
    if (args_has(a, FLAG_SHARED)) {
        Strings targets = args_list(in->tool, a, FLAG_TARGET);
        return input_variants(in, &list) ? shared_compile(in, &list, &targets, outputs) : EXIT_INPUT;
    }
    if (!input_options(in, target, &o) || !input_checker(in, true, &o)) return EXIT_USAGE;
    if (!input_variants(in, &list)) return EXIT_INPUT;
    if (target->kind == TARGET_CPU) return object_compile(in, &list, &o, path, header, outputs);
    Text text;
    text_init(&text, &in->session.arena);
    int code = emit_source(in, &list, &o, &text);
    if (!code) add_text(in, outputs, path, &text);
    return code;
}

/* Targets of --bundle and --shared. *gpu: is there a GPU among them? */
static int check_targets(Tool *t, const Args *a, bool *gpu)
{
    Strings targets = args_list(t, a, FLAG_TARGET);
    *gpu = false;
    for (size_t i = 0; i < targets.len; i++) {
        const Target *target = target_find(targets.data[i]);
        if (!target) return args_no_target(t, targets.data[i]);
        *gpu |= target->kind != TARGET_CPU;
    }
    return EXIT_OK;
}

static int check_shared(Tool *t, const Args *a)
{
    bool gpu;
    int code = check_targets(t, a, &gpu);
    if (code) return code;
    if (args_has(a, FLAG_BUNDLE))
        return tool_usage(t, "--shared makes a bundle of several targets by itself");
    if (args_has(a, FLAG_EMIT)) return tool_usage(t, "--shared does not go with --emit");
    if (args_has(a, FLAG_BUNDLE_SOURCE) && !gpu)
        return tool_usage(t, "--bundle-source goes with a GPU among the targets");
    return args_has(a, FLAG_OUTPUT) || args_has(a, FLAG_DEPS) ? EXIT_OK
                                                              : no_output(t, a->inputs.data[0], ".so");
}

static int check_bundle(Tool *t, const Args *a)
{
    const char *out = args_last(a, FLAG_OUTPUT, "");
    bool gpu;
    int code = check_targets(t, a, &gpu);
    if (code) return code;
    if (args_has(a, FLAG_EMIT)) return tool_usage(t, "--bundle does not go with --emit");
    if (args_has(a, FLAG_DEPS)) return EXIT_OK;
    if (!gpu) return tool_usage(t, "a bundle wants a GPU among its targets: --target=cuda:sm_80,cpu");
    if (strlen(out) < 3 || strcmp(out + strlen(out) - 2, ".c") || !args_has(a, FLAG_HEADER))
        return tool_usage(t, "--bundle wants -o NAME.c and -h NAME.h");
    return EXIT_OK;
}

static const char *stage_names(Tool *t)
{
    Text names;
    text_init(&names, &t->arena);
    for (int s = 0; s < STAGE_COUNT; s++) text_printf(&names, "%s%s", s ? ", " : "", stage_info[s].name);
    return names.data;
}

/* One target of each kind that has the stage, as options: `--target=cuda:sm_80`. */
static const char *stage_targets(Tool *t, const StageInfo *stage)
{
    unsigned listed = 0;
    Text text;
    text_init(&text, &t->arena);
    for (size_t i = 0; target_at(i); i++) {
        unsigned kind = 1u << target_at(i)->kind;
        if (!(stage->targets & kind & ~listed)) continue;
        text_printf(&text, "%s--target=%s", listed ? " or " : "", target_at(i)->name);
        listed |= kind;
    }
    return text.data;
}

/* The stage that is printed, NULL for none: that there is one of this name, and that the target has it. */
static int check_stage(Tool *t, const char *stage, const Target *target)
{
    if (!stage) return EXIT_OK;
    if (find_stage(stage) == STAGE_COUNT)
        return tool_usage(t, "there is no stage `%s`; there are %s", stage, stage_names(t));
    const StageInfo *info = &stage_info[find_stage(stage)];
    if (info->targets >> target->kind & 1) return EXIT_OK;
    return tool_usage(
        t, "--emit=%s needs another target than %s: %s", stage, target->name, stage_targets(t, info));
}

static int check_defines(Tool *t, const Args *a)
{
    for (size_t i = 0; i < a->flag[FLAG_DEFINE].len; i++) {
        const char *text = a->flag[FLAG_DEFINE].data[i], *eq = strchr(text, '=');
        if (!eq || eq == text || !eq[1]) return tool_usage(t, "-D wants NAME=VALUE, not `%s`", text);
    }
    return EXIT_OK;
}

/* An object or a source of one target, without a stage to print: where it goes. */
static int check_output(Tool *t, const Args *a, const Target *target)
{
    const char *ending = target->kind == TARGET_CPU ? ".o" : target->kind == TARGET_CUDA ? ".cu" : ".hip";
    if (!args_has(a, FLAG_DEPS) && !args_has(a, FLAG_OUTPUT)) return no_output(t, a->inputs.data[0], ending);
    if (target->kind != TARGET_CPU && args_has(a, FLAG_HEADER))
        return tool_usage(t, "-h goes with an object for the CPU");
    return EXIT_OK;
}

static int check_usage(Tool *t, const Args *a)
{
    const char *name = args_last(a, FLAG_TARGET, "cpu"), *stage = stage_of(a);
    bool several = args_has(a, FLAG_BUNDLE) || args_has(a, FLAG_SHARED);
    const Target *target = target_find(several ? "cpu" : name);
    int code;
    if (a->inputs.len != 1) return args_one_file(t, a);
    if (!several && args_list(t, a, FLAG_TARGET).len > 1)
        return tool_usage(t, "several targets want --bundle or --shared");
    if (!target) return args_no_target(t, name);
    if (!several && (code = check_stage(t, stage, target))) return code;
    if ((code = check_defines(t, a))) return code;
    if (several && args_has(a, FLAG_STOP_AFTER))
        return tool_usage(
            t, "%s does not go with --stop-after", args_has(a, FLAG_BUNDLE) ? "--bundle" : "--shared");
    if (args_has(a, FLAG_STOP_AFTER) && find_stage(stage) != STAGE_IR && find_stage(stage) != STAGE_KERNEL_IR)
        return tool_usage(t,
            "--stop-after prints IR: it goes with --emit=ir or --emit=kernel-ir, not with --emit=%s", stage);
    if (args_has(a, FLAG_CHECK_EMISSION) && args_has(a, FLAG_NO_CHECK_EMISSION))
        return tool_usage(t, "--check-emission and --no-check-emission contradict each other");
    if (args_has(a, FLAG_SHARED)) return check_shared(t, a);
    if (args_has(a, FLAG_BUNDLE)) return check_bundle(t, a);
    if (args_has(a, FLAG_BUNDLE_SOURCE)) return tool_usage(t, "--bundle-source goes with --bundle");
    if (stage && args_has(a, FLAG_HEADER)) return tool_usage(t, "-h goes with an object, not with --emit");
    if (args_known_word(t, a)) return EXIT_USAGE;
    return stage ? EXIT_OK : check_output(t, a, target);
}

int cmd_compile(Tool *t, const Args *a)
{
    if (args_has(a, FLAG_VERSION)) {
        format_file(t->out, "tilec %d.%d.%d\ntargets: %s\n", TILE_VERSION_MAJOR, TILE_VERSION_MINOR,
            TILE_VERSION_PATCH, args_targets(t));
        return EXIT_OK;
    }
    int code = check_usage(t, a);
    return code ? code : input_with(t, a, a->inputs.data[0], compile_file, NULL);
}
