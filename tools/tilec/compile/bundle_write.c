/* bundle_write.c: the C file and the manifest of a bundle. */
#include "tools/tilec/json.h"
#include "tools/tilec/compile/bundle_parts.h"
#include "tools/tilec/compile/embed.h"
#include "tools/tilec/compile/compress.h"
#include "runtime/drivers/driver_gpu.h"

static const char *on(TargetKind k) { return k == TARGET_CUDA ? "TILE_ON_CUDA" : "TILE_ON_HIP"; }
static bool is_exact(const Target *t) { return t->kind == TARGET_HIP || target_has(t, TF_ARCH_SPECIFIC); }
static const char *kind_name(int kind)
{ return kind == IMAGE_BINARY ? "IMAGE_BINARY" : kind == IMAGE_PTX ? "IMAGE_PTX" : "IMAGE_TEXT"; }

/* Bytes as words of a little-endian machine, which every host of these GPUs is. */
static void write_words(const void *bytes, size_t size, Text *t)
{
    const unsigned char *p = bytes;
    for (size_t at = 0; at < size; at += 8) {
        uint64_t w = 0;
        for (size_t i = 0; i < 8 && at + i < size; i++) w |= (uint64_t)p[at + i] << 8 * i;
        text_printf(t, "%s0x%llx,", at % 64 ? " " : "\n    ", (unsigned long long)w);
    }
}

/* The first image with the same bytes, which is the one that stores them. */
static size_t stored_as(const Bundle *b, size_t i)
{
    const MadeImage *m = b->images.data;
    for (size_t k = 0; k < i; k++)
        if (m[k].size == m[i].size && !memcmp(m[k].bytes, m[i].bytes, m[i].size)) return k;
    return i;
}

/* The stored form: compressed if that saves an eighth. *packed: its size then, else 0. */
static const void *stored_bytes(Arena *a, const MadeImage *m, size_t *packed)
{
    const void *block = compress_lz4(a, m->bytes, m->size, packed);
    if (*packed <= m->size - m->size / 8 && m->size > 64) return block;
    *packed = 0;
    return m->bytes;
}

static void write_images(Bundle *b, Text *t)
{
    Arena *a = &b->in->session.arena;
    for (size_t i = 0; i < b->images.len; i++) {
        MadeImage *m = &b->images.data[i];
        m->stored = (int)stored_as(b, i);
        if (m->stored < (int)i) {
            m->packed = b->images.data[m->stored].packed;
            continue;
        }
        const void *bytes = stored_bytes(a, m, &m->packed);
        text_printf(
            t, "\n/* %s, %s */\nstatic const uint64_t image_%zu[] = {", m->title, m->aim.target->name, i);
        write_words(bytes, m->packed ? m->packed : m->size, t);
        text_puts(t, "\n};\n");
    }
    text_printf(t, "\nenum { N_IMAGES = %zu, N_ENTRIES = %zu };\nstatic const Image images[N_IMAGES] = {\n",
        b->images.len, b->entries.len);
    for (size_t i = 0; i < b->images.len; i++) {
        const MadeImage *m = &b->images.data[i];
        text_printf(t, "    { %s, %s, %d, %s, \"%s\", image_%d, %zu, %zu },\n", on(m->aim.target->kind),
            kind_name(m->aim.kind), m->aim.target->arch, is_exact(m->aim.target) ? "true" : "false",
            m->aim.target->name, m->stored, m->size, m->packed);
    }
    text_puts(t, "};\n");
}

static void write_maps(const MadeEntry *e, size_t number, Text *t)
{
    const Artifact *a = e->artifact;
    if (!a->n_maps) return;
    text_printf(t, "static const Map maps_%zu[] = {\n", number);
    for (int i = 0; i < a->n_maps; i++) {
        const TensorMapDesc *m = &a->maps[i];
        text_printf(t, "    { %d, %d, %d, %d, %d, { ", m->param, m->rank, gpudrv_map_dtype(m->dtype),
            dtype_bytes(m->dtype), m->swizzle_bytes);
        for (int k = 0; k < 5; k++) text_printf(t, "%s%d", k ? ", " : "", k < m->rank ? m->axes[k] : 0);
        text_puts(t, " }, { ");
        for (int k = 0; k < 5; k++)
            text_printf(t, "%s%lld", k ? ", " : "", k < m->rank ? (long long)m->split[k] : 0);
        text_puts(t, " }, { ");
        for (int k = 0; k < 5; k++) text_printf(t, "%s%u", k ? ", " : "", k < m->rank ? m->box[k] : 0);
        text_puts(t, " }, { ");
        for (int k = 0; k < 5; k++) text_printf(t, "%s%u", k ? ", " : "", k < m->rank ? m->step[k] : 0);
        text_printf(t, " }, %d, { %d, %d, %d }, { %d, %d, %d } },\n", m->pixels, m->lower[0], m->lower[1],
            m->lower[2], m->upper[0], m->upper[1], m->upper[2]);
    }
    text_puts(t, "};\n");
}

static void write_entries(const Bundle *b, Text *t)
{
    for (size_t i = 0; i < b->entries.len; i++) write_maps(&b->entries.data[i], i, t);
    text_puts(t, "static const Entry entries[N_ENTRIES] = {\n");
    for (size_t i = 0; i < b->entries.len; i++) {
        const Artifact *a = b->entries.data[i].artifact;
        text_printf(t, "    { \"%s\", %d, %d, %d, %d, %d, %d, %d, %d, %lld, %d, ", a->entry,
            b->entries.data[i].image, a->shape.threads, a->shape.cluster < 1 ? 1 : a->shape.cluster,
            a->shape.cluster_axis, a->shape.clusters < 1 ? 1 : a->shape.clusters, a->shape.persistent,
            a->shape.shares, a->shape.early_start, (long long)a->shape.shared_bytes, a->n_maps);
        if (a->n_maps) text_printf(t, "maps_%zu },\n", i);
        else text_puts(t, "NULL },\n");
    }
    text_puts(t, "};\n");
}

/* The rows of gpu.def as one macro. */
static void write_calls(Arena *a, Text *t)
{
    const char *p = arena_strndup(a, bundle_calls, (size_t)(bundle_calls_end - bundle_calls));
    text_puts(t, "\n#define GPU_CALLS");
    p = strstr(p, "\nFN(");
    for (p = p ? p + 1 : ""; *p;) {
        size_t n = strcspn(p, "\n");
        text_printf(t, " \\\n    %.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
    text_puts(t, "\n");
}

static bool write_kernel(Bundle *b, const Launcher *l, Text *t)
{
    Session *s = &b->in->session;
    Words plan = { 0 };
    if (!plan_write(s, l->kernel, &l->variants, &l->choices, &plan)) return false;
    text_printf(t, "\nstatic const int64_t %s_plan[] = {", l->name);
    for (size_t i = 0; i < plan.len; i++) {
        int64_t w = plan.data[i];
        text_puts(t, i % 16 ? " " : "\n    ");
        if (w == INT64_MIN) text_puts(t, "INT64_MIN,");
        else text_printf(t, "%lld,", (long long)w);
    }
    text_puts(t, "\n};\n");
    if (b->cpu) header_cpu_symbols(l, t);
    text_printf(t, "static const Kernel %s_kernel = { \"%s\", %s_plan, ", l->name, l->name, l->name);
    if (b->cpu)
        text_printf(
            t, "%s__launch, %s__error, %s__plan, %s__entries };\n", l->name, l->name, l->name, l->name);
    else text_puts(t, "NULL, NULL, NULL, NULL };\n");
    return true;
}

/* __tvm_ffi_NAME of a kernel, for the launchers of `only` or of all its types. */
static void write_ffi_function(
    const Bundle *b, const char *name, const FrontKernel *k, const Launcher *only, Text *t)
{
    int n = 0;
    text_printf(t, "\nstatic const Kernel *const %s_ffi[] = { ", name);
    for (size_t i = 0; i < b->launchers.len; i++) {
        const Launcher *l = &b->launchers.data[i];
        if (l->kernel != k || (only && only != l)) continue;
        text_printf(t, "%s&%s_kernel", n++ ? ", " : "", l->name);
    }
    text_printf(t,
        " };\n__attribute__((visibility(\"default\"))) int __tvm_ffi_%s(void *, const FfiAny *, int32_t, "
        "FfiAny *);\n"
        "int __tvm_ffi_%s(void *handle, const FfiAny *args, int32_t n, FfiAny *result)\n{\n"
        "    (void)handle;\n    (void)result;\n    return ffi_call(%s_ffi, %d, args, n);\n}\n",
        name, name, name, n);
}

static void write_ffi(const Bundle *b, Text *t)
{
    for (size_t i = 0; i < b->launchers.len; i++) {
        const Launcher *l = &b->launchers.data[i];
        bool first = true;
        for (size_t k = 0; k < i; k++) first &= b->launchers.data[k].kernel != l->kernel;
        if (first) write_ffi_function(b, l->kernel->name, l->kernel, NULL, t);
        if (strcmp(l->name, l->kernel->name)) write_ffi_function(b, l->name, l->kernel, l, t);
    }
}

bool bundle_write_c(Bundle *b, const char *header, Text *t)
{
    Arena *a = &b->in->session.arena;
    const char *slash = strrchr(header, '/'), *file = strrchr(b->in->path, '/');
    text_printf(t, "/* The kernels of %s with code for", file ? file + 1 : b->in->path);
    for (size_t i = 0; i < b->aims.len; i++)
        text_printf(t, "%s %s%s", i ? "," : "", b->aims.data[i].target->name,
            b->aims.data[i].kind == IMAGE_PTX    ? " (PTX, for later ones)"
            : b->aims.data[i].kind == IMAGE_TEXT ? " (source)"
                                                 : "");
    text_printf(t, "%s. Written by tilec. C11; link with the C library%s. */\n",
        b->cpu ? ", and for the CPU in an object beside it" : "", b->cpu ? " and that object" : "");
    text_printf(t,
        "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#include \"%s\"\n#include <dlfcn.h>\n#include "
        "<pthread.h>\n#include <stdarg.h>\n#include <stdio.h>\n#include <stdlib.h>\n\n",
        slash ? slash + 1 : header);
    header_copy(a, launch_plan, launch_plan_end, "", t);
    header_copy(a, bundle_tables, bundle_tables_end, "", t);
    write_images(b, t);
    write_entries(b, t);
    write_calls(a, t);
    header_copy(a, bundle_facts, bundle_facts_end, "", t);
    header_copy(a, launch_check, launch_check_end, "", t);
    header_copy(a, launch_args, launch_args_end, "", t);
    header_copy(a, bundle_driver, bundle_driver_end, "", t);
    header_copy(a, bundle_unpack, bundle_unpack_end, "", t);
    header_copy(a, bundle_gpu, bundle_gpu_end, "", t);
    header_copy(a, bundle_devices, bundle_devices_end, "", t);
    header_copy(a, bundle_ffi, bundle_ffi_end, "", t);
    header_copy(a, launch_ffi, launch_ffi_end, "", t);
    header_copy(a, bundle_ffi, bundle_ffi_end, "call", t);
    text_puts(t, "\n/* --- the kernels "
                 "-------------------------------------------------------------------------------------------"
                 "--------------- */\n");
    for (size_t i = 0; i < b->launchers.len; i++)
        if (!write_kernel(b, &b->launchers.data[i], t)) return false;
    text_printf(t,
        "\nint %s_open_device(int kind, int ordinal, tile_device *device) { return bundle_open(kind, "
        "ordinal, %s, device); }\n"
        "const char *%s_error(void) { return error_text; }\n",
        b->stem, b->cpu ? "true" : "false", b->stem);
    for (size_t i = 0; i < b->launchers.len; i++) header_bundle_function(&b->launchers.data[i], t);
    write_ffi(b, t);
    return true;
}
