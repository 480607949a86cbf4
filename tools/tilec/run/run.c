/* run.c: see run.h. */
#include "tools/tilec/run/run.h"
#include "ir/support/number.h"
#include <math.h>
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

static Parameter *find_param(Run *r, const char *name)
{
    for (size_t i = 0; i < r->n_params; i++)
        if (!strcmp(r->params[i].info.name, name)) return &r->params[i];
    return NULL;
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
        Parameter *p = find_param(r, left);
        if (p && p->info.kind == TILE_PARAM_SCALAR) p->set = right;
    }
    r->without = without;
    return EXIT_OK;
}

/* An optional tensor that the command line does not name is left out; --set NAME=true or false decides it,
 * too. An output that is given need not be written to a file. */
static bool left_out(const Run *r, const Parameter *p)
{
    if (!p->info.optional) return false;
    for (size_t i = 0; i < r->n_bindings; i++)
        if (!strcmp(r->bindings[i].name, p->info.name))
            return !strcmp(r->bindings[i].value.text, "false") || !strcmp(r->bindings[i].value.text, "0");
    return !p->in && !p->out;
}

const char *run_tensor_names(Run *r)
{
    Text names;
    text_init(&names, &r->tool->arena);
    for (size_t i = 0; i < r->n_params; i++)
        if (r->params[i].info.kind != TILE_PARAM_SCALAR)
            text_printf(&names, "%s%s", names.len ? ", " : "", r->params[i].info.name);
    return names.len ? names.data : "none";
}

/* --in and --out by their parameters. */
static int match(Run *r, FlagId flag)
{
    for (size_t i = 0; i < r->args->flag[flag].len; i++) {
        const char *name, *rest, *option = flag_info[flag].spelling;
        if (!split_binding(r->tool, flag, r->args->flag[flag].data[i], &name, &rest)) return EXIT_USAGE;
        Parameter *p = find_param(r, name);
        if (!p || p->info.kind == TILE_PARAM_SCALAR)
            return tool_usage(r->tool, "%s %s: the kernel has no tensor of that name; %s%s", option, name,
                p ? "scalars take --set" : "it has ", p ? "" : run_tensor_names(r));
        if (flag == FLAG_IN && p->info.kind == TILE_PARAM_OUT)
            return tool_usage(r->tool, "--in %s: it is an out argument", name);
        if (flag == FLAG_OUT && p->info.kind == TILE_PARAM_IN)
            return tool_usage(r->tool, "--out %s: it is an in argument", name);
        if (flag == FLAG_IN) p->in = rest;
        else p->out = rest;
    }
    return EXIT_OK;
}

/* --- arguments --------------------------------------------------------------------------------------- */

static int read_scalar(Run *r, Parameter *p, tile_arg *arg)
{
    DType d = DT_INDEX;
    int64_t i = 0;
    char *end = "";
    if (!p->set && p->info.has_default) {
        dtype_of(p->info.dtype, &d);
        *arg = dtype_is_float(d) ? tile_arg_float(p->info.default_value.f)
                                 : tile_arg_int(p->info.default_value.i);
        return EXIT_OK;
    }
    if (!p->set) {
        tool_usage(r->tool, "the scalar %s is missing: --set %s=VALUE", p->info.name, p->info.name);
        run_print_command(r);
        return EXIT_USAGE;
    }
    dtype_of(p->info.dtype, &d);
    const char *why = NULL;
    if (dtype_is_float(d)) {
        double f = number_read(p->set, &end);
        *arg = tile_arg_float(f);
        bool ok = !*end && end != p->set &&
                  (!isinf(scalar_round(d, f)) || strpbrk(p->set, "iI")); /* inf only where it is said */
        if (!ok) why = arena_printf(&r->tool->arena, "no value of type %s", dtype_name(d));
    } else {
        why = text_to_integer(&r->tool->arena, p->set, d, &i);
        *arg = tile_arg_int(i);
    }
    return why ? tool_usage(r->tool, "--set %s=%s: %s", p->info.name, p->set, why) : EXIT_OK;
}

/* The extents of a tensor that --in does not tell: by the kernel's own expressions, from the tensors that are
 * there and from --set. */
static int find_shape(void *user, const tile_param_info *p, int64_t *shape)
{
    Run *r = user;
    size_t at = 0;
    tile_arg *args = arena_array(&r->tool->arena, tile_arg, r->n_params + 1);
    for (int a = 0; a < p->rank; a++) {
        const char *name = p->dims[a];
        if (!extent_is_name(name) || find_param(r, name) || extent_find(&r->known, name)) continue;
        int code = tool_error(r->tool,
            "the extent %s of %s is not known: no --in tells it; give --set %s=...", name, p->name, name);
        run_print_command(r);
        return code;
    }
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *q = &r->params[i];
        if (&q->info == p) at = i;
        if (q->info.kind == TILE_PARAM_SCALAR) {
            int code = read_scalar(r, q, &args[i]);
            if (code) return code;
        } else if (q->host.data) {
            q->tensor = (tile_tensor){ NULL, q->host.shape, q->host.strides, q->host.rank, q->info.dtype };
            args[i] = tile_arg_tensor(&q->tensor);
        } else if (q->info.optional && !q->left_out) { /* given, without a shape yet */
            q->tensor = (tile_tensor){ NULL, NULL, NULL, -1, q->info.dtype };
            args[i] = tile_arg_tensor(&q->tensor);
        }
    }
    TRY(r, tile_kernel_extents(r->kernel, args, r->n_params, at, shape));
    return EXIT_OK;
}

static int choose_tensors(Run *r)
{
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        p->left_out = left_out(r, p);
        if (p->left_out && (p->in || p->out))
            return tool_usage(r->tool, "--set %s=false leaves %s out, but --%s names it", p->info.name,
                p->info.name, p->in ? "in" : "out");
    }
    return EXIT_OK;
}

static int read_tensor(Run *r, Parameter *p, const ShapeSource *shape)
{
    bool out = p->info.kind == TILE_PARAM_OUT;
    int code = out ? tensor_make(r->tool, &p->info, shape, &p->host)
                   : tensor_read(r->tool, &p->info, p->in, shape, &p->host);
    const char *from = out ? "--out" : arena_printf(&r->tool->arena, "--in %s", p->info.name);
    return code ? code : tensor_bind(r->tool, &p->info, &p->host, from, &r->known);
}

/* Whether its --in says its extents. */
static bool tells_extents(const Parameter *p)
{ return p->in && (strchr(p->in, '[') || strstr(p->in, ".npy")); }

/* Some tensor is missing: the message, and a command with the extents that those given have. */
static int refuse_missing(Run *r, const Parameter *missing, const ShapeSource *shape)
{
    const char *name = missing->info.name;
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        bool told = tells_extents(p);
        int code = told ? read_tensor(r, p, shape) : EXIT_OK;
        if (code) return code;
    }
    tool_usage(r->tool, "the tensor %s is missing: --in %s=FILE.npy, or random:%s[...]:SEED", name, name,
        tile_dtype_name(missing->info.dtype));
    run_print_command(r);
    return EXIT_USAGE;
}

/* Tensors that say their extents come first, then in tensors of the extents that these say, then outputs. */
static int turn_of(const Parameter *p)
{ return p->info.kind == TILE_PARAM_OUT ? 2 : tells_extents(p) ? 0 : 1; }

static int read_tensors(Run *r)
{
    const ShapeSource shape = { find_shape, r };
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        bool input = p->info.kind != TILE_PARAM_SCALAR && p->info.kind != TILE_PARAM_OUT;
        if (input && !p->in && !p->left_out && r->made_up)
            p->in = arena_printf(&r->tool->arena, "random:%zu", i + 1);
        if (input && !p->in && !p->left_out) return refuse_missing(r, p, &shape);
    }
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < r->n_params; i++) {
            Parameter *p = &r->params[i];
            if (p->info.kind == TILE_PARAM_SCALAR || turn_of(p) != turn || p->left_out) continue;
            int code = read_tensor(r, p, &shape);
            if (code) return code;
        }
    return EXIT_OK;
}

static int upload(Run *r)
{
    r->launch_args = arena_array(&r->tool->arena, tile_arg, r->n_params + 1);
    for (size_t i = 0; i < r->n_params; i++) {
        Parameter *p = &r->params[i];
        if (p->info.kind == TILE_PARAM_SCALAR) {
            int code = read_scalar(r, p, &r->launch_args[i]);
            if (code) return code;
            continue;
        }
        if (p->left_out) {
            r->launch_args[i] = tile_arg_none();
            continue;
        }
        TRY(r,
            tile_memory_alloc(r->context, TILE_MEMORY_DEVICE, p->host.bytes ? p->host.bytes : 1, &p->device));
        TRY(r, tile_copy(r->context, p->device, p->host.data, p->host.bytes, NULL));
        p->tensor = (tile_tensor){ p->device, p->host.shape, p->host.strides, p->host.rank, p->info.dtype };
        r->launch_args[i] = tile_arg_tensor(&p->tensor);
    }
    return EXIT_OK;
}

int run_open(Run *r)
{
    int code = open_context(r);
    if (!code) code = open_module(r);
    if (!code) code = make_kernel(r);
    if (!code) code = match(r, FLAG_IN);
    if (!code) code = match(r, FLAG_OUT);
    if (!code) code = choose_tensors(r);
    if (!code && r->without) {
        code = tool_usage(
            r->tool, "the type %s has no value: --set %s=TYPE", r->without->name, r->without->name);
        run_print_command(r);
    }
    if (!code) code = read_tensors(r);
    if (!code) code = run_draw_indices(r);
    return code ? code : upload(r);
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
