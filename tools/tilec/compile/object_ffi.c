/* object_ffi.c: the functions of an object by tvm-ffi's C ABI: __tvm_ffi_NAME for each kernel, which takes
 * the launcher whose element types are its tensors', and for each launcher that is named after types too.
 * Each is the compiled tools/aot/ffi_entry.c once more, under its own names. */
#include "tools/tilec/compile/elf.h"
#include "tools/tilec/compile/machine.h"
#include "tools/tilec/compile/object.h"

/* NAME__ffi: how many launchers, then the plan and the entries of each (FfiKernel of launch.c). */
static const char *add_kernel(Session *s, Elf *elf, const char *symbol, const Launchers *list,
    const FrontKernel *k, const Launcher *only)
{
    int64_t *words = arena_array(&s->arena, int64_t, 1 + 2 * list->len);
    ElfReloc *relocs = arena_array(&s->arena, ElfReloc, 2 * list->len + 1);
    size_t n = 0;
    for (size_t i = 0; i < list->len; i++) {
        const Launcher *l = &list->data[i];
        if (l->kernel != k || (only && only != l)) continue;
        relocs[n] = (ElfReloc){ 8 * (n + 1), arena_printf(&s->arena, "%s__plan", l->name) };
        relocs[n + 1] = (ElfReloc){ 8 * (n + 2), arena_printf(&s->arena, "%s__entries", l->name) };
        n += 2;
    }
    words[0] = (int64_t)n / 2;
    return elf_add_data(elf, symbol, words, 8 * (n + 1), relocs, n);
}

static const char *add_function(Session *s, Elf *elf, const ObjectMachine *m, const char *name,
    const Launchers *list, const FrontKernel *k, const Launcher *only)
{
    const char *kernel = arena_printf(&s->arena, "%s__ffi", name),
               *call = arena_printf(&s->arena, "%s__call", name);
    const ElfName names[] = { { "tile_ffi_entry", arena_printf(&s->arena, "__tvm_ffi_%s", name) },
        { "tile_ffi_kernel", kernel }, { "tile_ffi_call", call }, { NULL, NULL } };
    const char *why = add_kernel(s, elf, kernel, list, k, only);
    if (!why) why = elf_add_alias(elf, call, "tile_aot_call");
    return why ? why : elf_add_renamed(elf, m->ffi, (size_t)(m->ffi_end - m->ffi), NULL, names);
}

const char *object_add_ffi(Session *s, Elf *elf, const ObjectMachine *m, const Launchers *list)
{
    const char *why = NULL;
    for (size_t i = 0; i < list->len && !why; i++) {
        const Launcher *l = &list->data[i];
        bool first = true;
        for (size_t k = 0; k < i; k++) first &= list->data[k].kernel != l->kernel;
        if (first) why = add_function(s, elf, m, l->kernel->name, list, l->kernel, NULL);
        if (!why && strcmp(l->name, l->kernel->name))
            why = add_function(s, elf, m, l->name, list, l->kernel, l);
    }
    return why;
}
