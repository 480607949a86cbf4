/* run.c: see run.h. */
#include "tools/tilec/run/run.h"
#include <stdlib.h>

static void capture(char *to, const char *text)
{
    size_t n = strlen(to);
    format_text(to + n, CAPTURED - n, "%s", text);
}

static void on_diagnostic(void *user, const tile_diagnostic *d)
{
    Run *r = user;
    if (d->severity == TILE_SEVERITY_PERFORMANCE && r->notes) capture(r->notes, d->rendered);
    if (d->severity == TILE_SEVERITY_PERFORMANCE && !args_has(r->args, FLAG_WPERF)) return;
    if (d->severity == TILE_SEVERITY_ERROR) r->n_diagnosed++;
    if (d->severity == TILE_SEVERITY_WARNING) r->n_warned++;
    bool once = d->severity == TILE_SEVERITY_PRINT || d->severity == TILE_SEVERITY_WARNING ||
                d->severity == TILE_SEVERITY_NOTE;
    if (once && r->measuring) return; /* The first launch has given it. */
    if (r->captured && d->severity != TILE_SEVERITY_PRINT && d->severity != TILE_SEVERITY_DEBUG) {
        capture(r->captured, d->rendered);
        return;
    }
    fputs(d->rendered, d->severity == TILE_SEVERITY_DEBUG || d->severity == TILE_SEVERITY_PRINT
                           ? r->tool->out
                           : r->tool->err);
    if (d->severity == TILE_SEVERITY_PRINT)
        fflush(r->tool->out); /* A kernel that never ends has printed too. */
}

/* Says why a call failed, unless diagnostics have. */
int run_failed(Run *r, tile_status st)
{
    char text[1024];
    if (r->captured) return EXIT_INPUT; /* The caller says it. */
    if (tile_context_error(r->context, text, sizeof text) == 0)
        format_text(text, sizeof text, "%s", tile_status_name(st));
    int code = r->n_diagnosed && st == TILE_ERROR_COMPILE ? EXIT_INPUT : tool_error(r->tool, "%s", text);
    if (st == TILE_ERROR_COMPILE && r->args->command == CMD_RUN && r->kernel &&
        run_next_without_value(r, NULL))
        run_print_command(r);
    return code;
}

/* --- what the command line says ---------------------------------------------------------------------- */

static int open_context(Run *r)
{
    const Args *a = r->args;
    int64_t level = 3, threads = 0, device = 0;
    if (!args_int(r->tool, a, FLAG_OPT, 0, 3, &level) ||
        !args_int(r->tool, a, FLAG_THREADS, 0, 4096, &threads) ||
        !args_int(r->tool, a, FLAG_DEVICE, 0, 1023, &device))
        return EXIT_USAGE;
    char why[512] = "";
    tile_context_desc d = {
        .struct_size = sizeof d,
        .target = r->interp ? "cpu" : args_last(a, FLAG_TARGET, "cpu"),
        .device = (int)device,
        .on_diagnostic = on_diagnostic,
        .on_diagnostic_user = r,
        .flags = (args_has(a, FLAG_CHECK) ? TILE_CONTEXT_CHECKED : 0u) |
                 (args_has(a, FLAG_NO_CACHE) ? TILE_CONTEXT_NO_CACHE : 0u) |
                 (args_has(a, FLAG_DEBUG) ? TILE_CONTEXT_DEBUG_INFO : 0u) |
                 (args_has(a, FLAG_AS_DECLARED) || r->ladder ? TILE_CONTEXT_AS_DECLARED : 0u) |
                 (args_has(a, FLAG_EARLY_START) ? TILE_CONTEXT_EARLY_START : 0u) |
                 (a->command == CMD_RUN ? TILE_CONTEXT_PRINT : 0u),
        .opt_level = level ? (int)level : -1,
        .threads = (int)threads,
        .allocator = { r->tool->alloc.realloc, r->tool->alloc.user },
    };
    tile_status st = tile_context_create_error(&d, &r->context, why, sizeof why);
    if (st == TILE_ERROR_INVALID_ARGUMENT) return tool_usage(r->tool, "%s", why);
    if (st) return tool_error(r->tool, "%s", *why ? why : tile_status_name(st));
    r->device.struct_size = sizeof r->device;
    TRY(r, tile_context_device(r->context, &r->device));
    return EXIT_OK;
}

static int open_module(Run *r)
{
    const char *path = r->args->inputs.data[0];
    const Strings *dirs = &r->args->flag[FLAG_IMPORT_DIR];
    tile_module_desc d = { .struct_size = sizeof d,
        .import_directories = dirs->data,
        .n_import_directories = dirs->len,
        .tune_file = r->args->command == CMD_TUNE || r->ladder ? "" : args_last(r->args, FLAG_TABLE, NULL) };
    if (strcmp(path, "-")) {
        TRY(r, tile_module_load_file(r->context, path, &d, &r->module));
        return EXIT_OK;
    }
    FileText text;
    if (!file_read(r->tool, path, 16 << 20, &text)) return EXIT_INPUT;
    TRY(r, tile_module_load_memory(r->context, "<stdin>", text.data, text.len, &d, &r->module));
    return EXIT_OK;
}

static const char *kernel_name(Run *r)
{
    const char *name = args_last(r->args, FLAG_KERNEL, NULL), *ladder = args_last(r->args, FLAG_LADDER, NULL);
    size_t n = tile_module_kernel_count(r->module), with = 0;
    if (ladder && *ladder) return ladder;
    for (size_t i = 0; i < n && ladder && !name; i++) /* the only kernel that has one */
        if (frontend_ladder(module_program(r->module), tile_module_kernel_name(r->module, i))) {
            if (with++) break;
            name = tile_module_kernel_name(r->module, i);
        }
    if (with > 1) name = NULL;
    if (name || n == 1) return name ? name : tile_module_kernel_name(r->module, 0);
    Text names;
    text_init(&names, &r->tool->arena);
    for (size_t i = 0; i < n; i++)
        text_printf(&names, "%s%s", i ? ", " : "", tile_module_kernel_name(r->module, i));
    tool_usage(r->tool, n ? "which kernel? --kernel=NAME, one of %s" : "%s%s has no kernel",
        n ? names.data : "", n ? "" : r->args->inputs.data[0]);
    return NULL;
}

static int read_params(Run *r, tile_kernel *k)
{
    r->n_params = tile_kernel_param_count(k);
    r->params = arena_array(&r->tool->arena, Parameter, r->n_params + 1);
    for (size_t i = 0; i < r->n_params; i++) {
        r->params[i].info.struct_size = sizeof r->params[i].info;
        TRY(r, tile_kernel_param(k, i, &r->params[i].info));
    }
    return EXIT_OK;
}

static bool binds(const Strings *set, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < set->len; i++)
        if (!strncmp(set->data[i], name, n) && set->data[i][n] == '=') return true;
    return false;
}

const FrontParam *run_next_without_value(const Run *r, const FrontParam *after)
{
    if (!r->front) return NULL;
    for (const FrontParam *p = after ? after + 1 : r->front->params;
        p < r->front->params + r->front->n_params; p++)
        if ((p->kind == FRONT_CONST_TYPE || p->kind == FRONT_CONST) &&
            p->default_value.kind == FRONT_NOTHING && !binds(&r->set, p->name))
            return p;
    return NULL;
}

static bool is_scalar(const FrontKernel *k, const char *name)
{
    for (int i = 0; k && i < k->n_params; i++)
        if (k->params[i].kind == FRONT_SCALAR && !strcmp(k->params[i].name, name)) return true;
    return false;
}

/* All values: those of the command line, of the sweep, and what the ladder has for other names. */
static int gather_set(Run *r, const char *name)
{
    Tool *t = r->tool;
    const Strings *given = &r->args->flag[FLAG_SET];
    const FrontLadder *l = r->ladder ? frontend_ladder(module_program(r->module), name) : NULL;
    if (r->ladder && !l && frontend_kernel_find(module_program(r->module), name))
        return tool_usage(
            t, "kernel %s has no ladder; write `ladder %s { step plain \"as written\"; .. }`", name, name);
    for (size_t i = 0; i < given->len; i++) vec_push(&t->arena, &r->set, given->data[i]);
    for (size_t i = 0; i < r->more_set.len; i++) {
        const char *text = r->more_set.data[i], *own = arena_strndup(&t->arena, text, strcspn(text, "="));
        if (binds(given, own)) return tool_usage(t, "%s is given by --set and by --sweep", own);
        vec_push(&t->arena, &r->set, text);
    }
    for (int i = 0; l && i < l->n_at; i++) {
        Text value;
        if (binds(&r->set, l->at[i].name)) continue;
        text_init(&value, &t->arena);
        text_printf(&value, "%s=", l->at[i].name);
        frontend_print_value(l->at[i].value, &value);
        vec_push(&t->arena, &r->set, value.data);
    }
    return EXIT_OK;
}

static const char *joined(Tool *t, Strings list)
{
    Text text;
    text_init(&text, &t->arena);
    for (size_t i = 0; i < list.len; i++) text_printf(&text, "%s%s", i ? "," : "", list.data[i]);
    return text.data;
}

int run_set_passes(Run *r)
{
    const Args *a = r->args;
    const KernelPasses passes = { joined(r->tool, args_list(r->tool, a, FLAG_SKIP_PASS)),
        joined(r->tool, args_list(r->tool, a, FLAG_WITH_PASS)), args_last(a, FLAG_REMAP, NULL),
        args_has(a, FLAG_APPROX), args_has(a, FLAG_FTZ) };
    TRY(r, kernel_set_passes(r->kernel, &passes));
    return EXIT_OK;
}

/* A kernel with types that nothing binds, each as f32, so that its parameters can be described. `first` gets
 * the first of them. */
static tile_status create_with_any_types(Run *r, const FrontParam **first)
{
    tile_binding *b = arena_array(&r->tool->arena, tile_binding, r->n_bindings + (size_t)r->front->n_params);
    size_t n = r->n_bindings;
    for (size_t i = 0; i < n; i++) b[i] = r->bindings[i];
    *first = NULL;
    for (const FrontParam *p = NULL; (p = run_next_without_value(r, p));) {
        if (p->kind != FRONT_CONST_TYPE) continue;
        if (!*first) *first = p;
        b[n++] = (tile_binding){ .name = p->name, .kind = TILE_BIND_TEXT, .value.text = "f32" };
    }
    return tile_kernel_create(r->module, r->kernel_name, b, n, &r->kernel);
}

/* --set binds scalars, consts, types and extents. What is no scalar argument is a binding of the kernel. */
static int make_kernel(Run *r)
{
    const char *name = kernel_name(r), *left, *right;
    const Strings *set = &r->set;
    if (!name) return EXIT_USAGE;
    int gathered = gather_set(r, name);
    if (gathered) return gathered;
    r->front = frontend_kernel_find(module_program(r->module), name);
    tile_binding *b = arena_array(&r->tool->arena, tile_binding, set->len + 2);
    size_t n = 0;
    for (size_t i = 0; i < set->len; i++) {
        if (!split_binding(r->tool, FLAG_SET, set->data[i], &left, &right)) return EXIT_USAGE;
        if (is_scalar(r->front, left)) continue;
        int64_t extent;
        b[n].name = left;
        b[n].kind = TILE_BIND_TEXT;
        b[n++].value.text = right;
        if (text_to_int(right, &extent))
            vec_push(&r->tool->arena, &r->known, ((Extent){ left, extent, "--set" }));
    }
    r->kernel_name = name;
    r->bindings = b;
    r->n_bindings = n;
    tile_status st = tile_kernel_create(r->module, name, b, n, &r->kernel);
    const FrontParam *without = st == TILE_ERROR_NOT_FOUND ? run_next_without_value(r, NULL) : NULL;
    if (without) st = create_with_any_types(r, &without);
    if (st) return run_failed(r, st);
    int code = run_set_passes(r);
    if (code || (code = read_params(r, r->kernel))) return code;
    for (size_t i = 0; i < set->len; i++) {
        split_binding(r->tool, FLAG_SET, set->data[i], &left, &right);
        Parameter *p = run_find_param(r, left);
        if (p && p->info.kind == TILE_PARAM_SCALAR) p->set = right;
    }
    r->without = without;
    return EXIT_OK;
}

int run_open(Run *r)
{
    int code = open_context(r);
    if (!code) code = open_module(r);
    if (!code) code = make_kernel(r);
    return code ? code : run_read_arguments(r);
}

static void close_run(void *p)
{
    Run *r = p;
    if (r->begin) tile_event_destroy(r->context, r->begin);
    if (r->end) tile_event_destroy(r->context, r->end);
    if (r->context && r->desc.workspace) tile_memory_free(r->context, TILE_MEMORY_DEVICE, r->desc.workspace);
    for (size_t i = 0; i < r->n_params && r->params; i++) {
        if (r->params[i].device) tile_memory_free(r->context, TILE_MEMORY_DEVICE, r->params[i].device);
        if (r->params[i].original) tile_memory_free(r->context, TILE_MEMORY_DEVICE, r->params[i].original);
        free(r->params[i].host.data);
    }
    tile_kernel_destroy(r->kernel);
    tile_module_destroy(r->module);
    tile_context_destroy(r->context);
}

void run_init(Run *r, Tool *t, const Args *a)
{
    *r = (Run){ .tool = t, .args = a };
    tool_at_end(t, &r->cleanup, close_run, r);
}

void run_close(Run *r) { tool_end(r->tool, &r->cleanup); }
