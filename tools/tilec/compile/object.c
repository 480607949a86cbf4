/* object.c: see object.h. Every variant is compiled for what a launch may promise (input_facts) and for the
 * levels of its machine (machine.h); the launcher picks the first that fits. */
#include "ir/analysis/work.h"
#include "tools/tilec/fit.h"
#include "tools/tilec/compile/object.h"
#include "tools/tilec/compile/elf.h"
#include "tools/tilec/compile/embed.h"
#include "tools/tilec/emit.h"
#include "tools/tilec/compile/machine.h"

static bool add_variant(Input *in, const Variant *v, unsigned assume, const ObjectLevel *level,
    const CompileOptions *options, Elf *elf, Builts *out)
{
    Session *s = &in->session;
    CompileOptions o = *options;
    Func *f;
    Artifact *a = arena_new(&s->arena, Artifact);
    const char *symbol = arena_printf(
        &s->arena, "%s__%s_%s", variant_symbol(&s->arena, v), assume_name(assume), level->suffix);
    o.backend.emit = EMIT_OBJECT;
    o.backend.cpu = level->cpu;
    o.backend.features = level->features;
    o.backend.symbol = symbol;
    const LaunchFacts *facts = input_facts(in, v, assume);
    const Variant *sized = fit_autos(in, v, facts, &o);
    CompileJob job = input_job(in, sized, facts, &o);
    Module *m = compile_to_ir(&job, NULL, &f);
    if (!driver_backend(TARGET_CPU)) {
        diag_error(s, (Loc){ 0 }, "this build has no backend for the CPU");
        return false;
    }
    if (m && !object_level_serves(level, f)) return true;
    const Block *work = m ? work_of_program(f, false, work_of_instr, NULL) : NULL;
    if (!m || !compile_backend(s, m, f, &o, a)) {
        if (m) diag_error(s, v->kernel->loc, "%s does not compile for %s", v->title, o.backend.cpu);
        return false;
    }
    const char *why = elf_add_object(elf, a->data, a->size, NULL);
    if (why) {
        diag_error(s, v->kernel->loc, "internal error: the object of %s: %s", v->title, why);
        return false;
    }
    a->entry = a->entry ? a->entry : symbol;
    vec_push(
        &s->arena, out, ((Built){ v, level->level, (int)assume, 0, f, a, work, sized != v ? sized : NULL }));
    return true;
}

/* "_bf16_f32" from the types its const type parameters have; "" without such. */
static const char *types_suffix(Input *in, const Variant *v)
{
    Text t;
    text_init(&t, &in->session.arena);
    for (int i = 0; i < v->kernel->n_params; i++) {
        const FrontParam *p = &v->kernel->params[i];
        FrontValue value = p->default_value;
        if (p->kind != FRONT_CONST_TYPE) continue;
        for (size_t b = 0; b < v->n; b++)
            if (!strcmp(v->bindings[b].name, p->name)) value = v->bindings[b].value;
        text_putc(&t, '_');
        frontend_print_value(value, &t);
    }
    return t.data ? t.data : "";
}

/* Whether the variants of this kernel differ in types. */
static bool typed(Input *in, const Variants *list, const FrontKernel *k)
{
    const char *first = NULL;
    for (size_t i = 0; i < list->len; i++) {
        if (list->data[i].kernel != k) continue;
        const char *types = types_suffix(in, &list->data[i]);
        if (first && strcmp(first, types)) return true;
        first = types;
    }
    return false;
}

Launcher *object_launcher(Input *in, Launchers *list, const Variants *all, const Variant *v)
{
    const char *name = typed(in, all, v->kernel)
                           ? arena_printf(&in->session.arena, "%s%s", v->kernel->name, types_suffix(in, v))
                           : v->kernel->name;
    for (size_t i = 0; i < list->len; i++)
        if (!strcmp(list->data[i].name, name)) return &list->data[i];
    vec_push(&in->session.arena, list, ((Launcher){ name, v->kernel, { 0 }, { 0 }, &in->session.arena }));
    return &list->data[list->len - 1];
}

static const char *add_launcher(Input *in, Elf *elf, Launcher *l)
{
    Session *s = &in->session;
    Words plan = { 0 };
    size_t n = l->variants.len;
    ElfReloc *relocs = arena_array(&s->arena, ElfReloc, n);
    for (size_t i = 0; i < n; i++) {
        l->variants.data[i].entry = (int)i;
        relocs[i] = (ElfReloc){ 8 * i, l->variants.data[i].artifact->entry };
    }
    l->choices = plan_choices(s, l->kernel, &l->variants);
    if (!plan_write(s, l->kernel, &l->variants, &l->choices, &plan)) return "";
    const char *why =
        elf_add_data(elf, arena_printf(&s->arena, "%s__plan", l->name), plan.data, 8 * plan.len, NULL, 0);
    if (!why)
        why = elf_add_data(elf, arena_printf(&s->arena, "%s__entries", l->name),
            arena_alloc(&s->arena, 8 * n), 8 * n, relocs, n);
    if (!why) why = elf_add_alias(elf, arena_printf(&s->arena, "%s__launch", l->name), "tile_aot_launch");
    return why ? why : elf_add_alias(elf, arena_printf(&s->arena, "%s__error", l->name), "tile_aot_error");
}

const void *object_bytes(
    Input *in, const Variants *list, const CompileOptions *o, bool ffi, Launchers *launchers, size_t *size)
{
    static const char *const local[] = { "tile_aot_launch", "tile_aot_error", "tile_aot_call", NULL };
    Session *s = &in->session;
    Elf *elf = elf_new(&s->arena);
    const ObjectMachine *machine = object_machine(o->target);
    if (machine->launch == machine->launch_end) {
        diag_error(s, (Loc){ 0 },
            "this tilec has no launcher for %s: it was built without a C compiler for that machine",
            o->target->name);
        return NULL;
    }
    for (size_t i = 0; i < list->len; i++) {
        const Variant *v = &list->data[i];
        Launcher *l = object_launcher(in, launchers, list, v);
        unsigned assume[6];
        int n = input_assumptions(v, false, assume);
        for (int p = 0; p < n; p++)
            for (int k = 0; k < machine->n_levels; k++)
                if (!add_variant(in, v, assume[p], &machine->levels[k], o, elf, &l->variants)) return NULL;
    }
    const char *why =
        elf_add_object(elf, machine->launch, (size_t)(machine->launch_end - machine->launch), local);
    for (size_t i = 0; i < launchers->len && !why; i++) why = add_launcher(in, elf, &launchers->data[i]);
    if (!why && ffi) why = object_add_ffi(s, elf, machine, launchers);
    const void *bytes = why ? NULL : elf_write(elf, size);
    if (!bytes && (!why || *why))
        diag_error(s, (Loc){ 0 }, "the object cannot be written: %s", why ? why : "too many sections");
    return bytes;
}

int object_compile(Input *in, const Variants *list, const CompileOptions *o, const char *path,
    const char *header, Outputs *outputs)
{
    Session *s = &in->session;
    Launchers launchers = { 0 };
    size_t size = 0;
    const void *bytes = object_bytes(in, list, o, true, &launchers, &size);
    if (!bytes) return EXIT_INPUT;
    outputs_add(in->tool, outputs, path, bytes, size);
    if (!header) return EXIT_OK;
    Text text;
    text_init(&text, &s->arena);
    header_write(in, &launchers, header, &text);
    outputs_add(in->tool, outputs, header, text.data, text.len);
    return EXIT_OK;
}
