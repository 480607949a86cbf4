/* header.c: the C header of an object: the common part (tools/aot/launch.h), then a typed launcher for each
 * kernel. */
#include "tools/tilec/compile/embed.h"
#include "tools/tilec/compile/object.h"
#include "ir/c_names.h"

static bool begins_tile(const char *name) { return !strncmp(name, "tile_", 5); }

/* An argument's name in the header: one that C knows already gets a `_`, and so does one that ends in `_`, so
 * that no two names become one. */
static const char *argument_name(const Launcher *l, const char *name)
{
    size_t n = strlen(l->name);
    bool own = !strncmp(name, l->name, n) && (!strcmp(name + n, "_kernel") || !strncmp(name + n, "__", 2));
    bool taken = own || begins_tile(name) || name[strlen(name) - 1] == '_' ||
                 c_name_taken(name, C_KEYWORDS | C_HEADER);
    return taken ? arena_printf(l->arena, "%s_", name) : name;
}

/* A launcher has the kernel's name, which a program may need for something else. */
static void check_names(Input *in, const Launchers *list)
{
    for (size_t i = 0; i < list->len; i++) {
        const char *name = list->data[i].name;
        const char *whose = c_name_taken(name, C_KEYWORDS)             ? "is a word of C or C++"
                            : c_name_taken(name, C_HEADER | C_LIBRARY) ? "is a name of the C library"
                            : begins_tile(name)                        ? "begins like the names of the header"
                                                                       : NULL;
        if (!whose) continue;
        Diag *d = diag_error(&in->session, list->data[i].kernel->loc,
            "there can be no C function `%s` for this kernel: its name %s", name, whose);
        diag_note(&in->session, d, (Loc){ 0, 0, 0 }, "rename the kernel, for example `kernel %s_kernel(..)`",
            begins_tile(name) ? name + 5 : name);
    }
}

/* The C type of a scalar argument. Narrow floats are passed as their bits. */
static const char *c_type(DType d)
{
    switch (d) {
    case DT_BOOL: return "bool";
    case DT_I8: return "int8_t";
    case DT_I16: return "int16_t";
    case DT_I32: return "int32_t";
    case DT_I64:
    case DT_INDEX: return "int64_t";
    case DT_U8:
    case DT_F8E4M3:
    case DT_F8E5M2: return "uint8_t";
    case DT_U16:
    case DT_F16:
    case DT_BF16: return "uint16_t";
    case DT_U32: return "uint32_t";
    case DT_U64: return "uint64_t";
    case DT_F32: return "float";
    case DT_F64: return "double";
    case DT_COUNT: break;
    }
    return "int64_t";
}

static bool is_launch_param(const FrontParam *p)
{ return p->kind != FRONT_CONST && p->kind != FRONT_CONST_TYPE; }

static const char *kind_word(FrontParamKind k)
{
    switch (k) {
    case FRONT_IN: return "in ";
    case FRONT_OUT: return "out ";
    case FRONT_INOUT: return "inout ";
    case FRONT_SCALAR:
    case FRONT_CONST:
    case FRONT_CONST_TYPE: return "";
    }
    return "";
}

/* attention(in f16 Q[B, H, M, D], ..., f32 scale) */
static void write_signature(const Launcher *l, Text *t)
{
    const Func *f = l->variants.data[0].func;
    text_printf(t, "%s(", l->kernel->name);
    for (int i = 0, n = 0; i < l->kernel->n_params; i++) {
        const FrontParam *p = &l->kernel->params[i];
        if (!is_launch_param(p)) continue;
        text_printf(
            t, "%s%s%s %s", n ? ", " : "", kind_word(p->kind), dtype_name(f->params[n].type->dtype), p->name);
        n++;
        for (int a = 0; a < p->rank; a++)
            text_printf(t, "%s%s", a ? ", " : "[", p->dims[a].name ? p->dims[a].name : p->dims[a].text);
        if (p->rank) text_putc(t, ']');
        if (p->optional) text_puts(t, p->rank ? "?" : "[]?");
    }
    text_putc(t, ')');
}

static bool has_optional(const FrontKernel *k)
{
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional) return true;
    return false;
}

static void write_comment(const Launcher *l, Text *t)
{
    text_puts(t, "\n/* ");
    write_signature(l, t);
    text_puts(t, "\n * Compiled for:");
    const Variant *last = NULL;
    for (size_t i = 0; i < l->variants.len; i++) {
        const Variant *v = l->variants.data[i].variant;
        if (v == last) continue;
        last = v;
        text_printf(t, "\n *   %s", v->title);
    }
    for (size_t i = 0; i < l->choices.len; i++)
        text_printf(t, "%s%s", i ? ", " : "\n * Choose by: ", l->choices.data[i].name);
    if (has_optional(l->kernel))
        text_puts(t, "\n * A tensor marked `?` is left out by a view whose data is NULL.");
    text_puts(t, "\n * Narrow floats (f16, bf16, fp8) are passed as their bits. */\n");
}

static const char *choice_type(const Choice *c)
{
    return c->param->type_known && dtype_is_float(c->param->dtype) ? "double"
           : c->param->type_known && c->param->dtype == DT_BOOL    ? "bool"
                                                                   : "int64_t";
}

/* tile_view Q, float scale, bool CAUSAL,  */
static void write_parameters(const Launcher *l, Text *t)
{
    int n = 0;
    for (int i = 0; i < l->kernel->n_params; i++) {
        const FrontParam *p = &l->kernel->params[i];
        if (!is_launch_param(p)) continue;
        text_printf(t, "%s %s, ",
            p->kind == FRONT_SCALAR ? c_type(l->variants.data[0].func->params[n].type->dtype) : "tile_view",
            argument_name(l, p->name));
        n++;
    }
    for (size_t i = 0; i < l->choices.len; i++)
        text_printf(
            t, "%s %s, ", choice_type(&l->choices.data[i]), argument_name(l, l->choices.data[i].name));
}

/* The arguments into tile_args_ and tile_consts_. */
static void write_packing(const Launcher *l, Text *t)
{
    int n = l->variants.data[0].func->n_params;
    text_printf(t,
        "    tile_launch_arg tile_args_[%d];\n    int64_t tile_consts_[%zu];\n"
        "    memset(tile_args_, 0, sizeof tile_args_);\n    memset(tile_consts_, 0, sizeof tile_consts_);\n",
        n ? n : 1, l->choices.len ? l->choices.len : 1);
    n = 0;
    for (int i = 0; i < l->kernel->n_params; i++) {
        const FrontParam *p = &l->kernel->params[i];
        if (!is_launch_param(p)) continue;
        const char *name = argument_name(l, p->name);
        if (p->kind == FRONT_SCALAR)
            text_printf(t, "    memcpy(&tile_args_[%d].word, &%s, sizeof %s);\n", n, name, name);
        else text_printf(t, "    tile_args_[%d].view = %s;\n", n, name);
        n++;
    }
    for (size_t i = 0; i < l->choices.len; i++) {
        const char *c = argument_name(l, l->choices.data[i].name);
        if (!strcmp(choice_type(&l->choices.data[i]), "double"))
            text_printf(t, "    memcpy(&tile_consts_[%zu], &%s, sizeof %s);\n", i, c, c);
        else text_printf(t, "    tile_consts_[%zu] = %s;\n", i, c);
    }
}

void header_cpu_symbols(const Launcher *l, Text *t)
{
    const char *name = l->name;
    text_printf(t, "extern const int64_t %s__plan[];\n", name);
    text_printf(
        t, "extern int (*const %s__entries[])(const uint64_t *, int64_t, int64_t, void *, int32_t);\n", name);
    text_printf(t,
        "int %s__launch(const int64_t *, int (*const *)(const uint64_t *, int64_t, int64_t, void *, "
        "int32_t),\n"
        "    const tile_launch_arg *, const int64_t *, const tile_threads *);\nconst char "
        "*%s__error(void);\n",
        name, name);
}

static void write_launcher(const Launcher *l, Text *t)
{
    write_comment(l, t);
    header_cpu_symbols(l, t);
    text_printf(t, "static inline int %s(", l->name);
    write_parameters(l, t);
    text_puts(t, "const tile_threads *tile_threads_)\n{\n");
    write_packing(l, t);
    text_printf(t,
        "    return %s__launch(%s__plan, %s__entries, tile_args_, tile_consts_, tile_threads_);\n}\n",
        l->name, l->name, l->name);
    text_printf(t,
        "/* What was wrong with this thread's last launch of a kernel of the object: \"\" after success. */\n"
        "static inline const char *%s_error(void) { return %s__error(); }\n",
        l->name, l->name);
}

void header_bundle_function(const Launcher *l, Text *t)
{
    text_printf(t, "\nint %s(", l->name);
    write_parameters(l, t);
    text_puts(t, "const tile_queue *tile_queue_)\n{\n");
    write_packing(l, t);
    text_printf(
        t, "    return bundle_launch(&%s_kernel, tile_args_, tile_consts_, tile_queue_);\n}\n", l->name);
}

/* "out/attention.h" -> ATTENTION_H */
static const char *guard(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *g = arena_printf(a, "TILE_KERNELS_%s", slash ? slash + 1 : path);
    for (char *p = g; *p; p++) {
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
        else if (!((*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) *p = '_';
    }
    return g;
}

void header_copy(Arena *a, const char *text, const char *end, const char *mark, Text *t)
{
    const char *all = arena_strndup(a, text, (size_t)(end - text));
    char *first = arena_printf(a, "/* begin%s%s */\n", *mark ? " " : "", mark),
         *last = arena_printf(a, "/* end%s%s */\n", *mark ? " " : "", mark);
    const char *from = strstr(all, first), *to = strstr(all, last);
    if (from && to) text_write(t, from + strlen(first), (size_t)(to - from) - strlen(first));
}

void header_write(Input *in, const Launchers *list, const char *path, Text *t)
{
    Arena *a = &in->session.arena;
    const char *slash = strrchr(in->path, '/'), *g = guard(a, path);
    check_names(in, list);
    text_printf(t,
        "/* Launchers of the kernels of %s. Written by tilec; link the object written with it. C11 or C++.\n"
        " * They are safe to call from several threads at once. */\n#ifndef %s\n#define %s\n\n",
        slash ? slash + 1 : in->path, g, g);
    header_copy(a, launch_header, launch_header_end, "", t);
    text_puts(t, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (size_t i = 0; i < list->len; i++) write_launcher(&list->data[i], t);
    text_puts(t, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

void header_write_bundle(Input *in, const Launchers *list, const char *path, const char *stem, Text *t)
{
    Arena *a = &in->session.arena;
    const char *slash = strrchr(in->path, '/'), *g = guard(a, path);
    check_names(in, list);
    text_printf(t,
        "/* Launchers of the kernels of %s for the devices named below. Written by tilec; compile the C file "
        "written with it. C11 or C++.\n"
        " * They are safe to call from several threads at once, for several devices. No vendor's header is "
        "needed. */\n#ifndef %s\n#define %s\n\n",
        slash ? slash + 1 : in->path, g, g);
    header_copy(a, launch_header, launch_header_end, "", t);
    header_copy(a, launch_header, launch_header_end, "bundle", t);
    text_puts(t, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    text_printf(t,
        "\n/* Opens device `ordinal` of a kind; TILE_ON_ANY: a GPU that this bundle has code for, else the "
        "CPU. */\n"
        "int %s_open_device(int kind, int ordinal, tile_device *device);\n"
        "/* What was wrong with the last launch or call of a tile_device by this thread: \"\" after success. "
        "*/\nconst char *%s_error(void);\n",
        stem, stem);
    for (size_t i = 0; i < list->len; i++) {
        write_comment(&list->data[i], t);
        text_printf(t, "int %s(", list->data[i].name);
        write_parameters(&list->data[i], t);
        text_puts(t, "const tile_queue *tile_queue_);\n");
    }
    text_puts(t, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}
