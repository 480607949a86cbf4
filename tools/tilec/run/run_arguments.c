/* run_arguments.c: the arguments of a run: scalars and tensors as the command line gives them, made on the
 * host and brought to the device. */
#include "tools/tilec/run/run.h"
#include "ir/support/number.h"
#include <math.h>

Parameter *run_find_param(Run *r, const char *name)
{
    for (size_t i = 0; i < r->n_params; i++)
        if (!strcmp(r->params[i].info.name, name)) return &r->params[i];
    return NULL;
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
        Parameter *p = run_find_param(r, name);
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
        if (!extent_is_name(name) || run_find_param(r, name) || extent_find(&r->known, name)) continue;
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

int run_read_arguments(Run *r)
{
    int code = match(r, FLAG_IN);
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
