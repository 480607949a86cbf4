/* bench_check.c: whether the results of a step are right: against a file, the interpreter, another kernel of
 * the file, or the first step. */
#include "tools/tilec/bench/bench.h"
#include <math.h>
#include <stdlib.h>

static bool is_output(const Parameter *p)
{ return (p->info.kind == TILE_PARAM_OUT || p->info.kind == TILE_PARAM_INOUT) && !p->left_out; }

/* A tensor of the shape of `p`'s. */
static void *room_for(Run *r, const Parameter *p)
{
    void *data = calloc(1, p->host.bytes + 64);
    if (!data) arena_oom(&r->tool->arena);
    return data;
}

void reference_free(Run *r, Reference *ref)
{
    for (size_t i = 0; i < r->n_params && ref->data; i++) free(ref->data[i]);
    *ref = (Reference){ 0 };
}

static void begin(Run *r, Reference *ref, const char *name)
{ *ref = (Reference){ arena_array(&r->tool->arena, void *, r->n_params + 1), name }; }

int reference_take(Run *r, Reference *ref, const char *name)
{
    begin(r, ref, name);
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (!is_output(p)) continue;
        ref->data[i] = room_for(r, p);
        TRY(r, tile_copy(r->context, ref->data[i], p->device, p->host.bytes, NULL));
    }
    TRY(r, tile_context_synchronize(r->context));
    return EXIT_OK;
}

/* --- --expect ---------------------------------------------------------------------------------------- */

/* What a file holds, in the order of the parameter's own elements (row-major). */
static int read_file(Run *r, Reference *ref, const char *text)
{
    const char *name, *path;
    HostTensor h;
    if (!split_binding(r->tool, FLAG_EXPECT, text, &name, &path)) return EXIT_USAGE;
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (strcmp(p->info.name, name)) continue;
        if (!is_output(p)) return tool_usage(r->tool, "--expect %s: it is no output of the kernel", name);
        int code = tensor_read(r->tool, &p->info, path, &(ShapeSource){ 0 }, &h);
        if (code) return code;
        bool same = h.rank == p->host.rank &&
                    !memcmp(h.shape, p->host.shape, sizeof *h.shape * (size_t)h.rank) &&
                    !memcmp(h.strides, p->host.strides, sizeof *h.strides * (size_t)h.rank);
        if (!same) {
            free(h.data);
            return tool_error(
                r->tool, "--expect %s: %s has another shape or order than the kernel's %s", name, path, name);
        }
        ref->data[i] = h.data;
        return EXIT_OK;
    }
    return tool_usage(
        r->tool, "--expect %s: the kernel has no tensor of that name; it has %s", name, run_tensor_names(r));
}

/* The interpreter on copies in host memory, without the passes that the command line asks for. */
static int by_interpreter(Run *r, Reference *ref)
{
    Args plain = *r->args;
    static const FlagId passes[] = { FLAG_SKIP_PASS, FLAG_WITH_PASS, FLAG_REMAP, FLAG_APPROX, FLAG_FTZ };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) plain.flag[passes[i]] = (Strings){ 0 };
    plain.flag[FLAG_OPT] = (Strings){ 0 };
    void **data = arena_array(&r->tool->arena, void *, r->n_params + 1);
    for (size_t i = 0; i < r->n_params; i++) {
        const Parameter *p = &r->params[i];
        if (p->info.kind == TILE_PARAM_SCALAR || p->left_out) continue;
        data[i] = p->host.data;
        if (!is_output(p)) continue;
        ref->data[i] = data[i] = room_for(r, p);
        memcpy(data[i], p->host.data, p->host.bytes);
    }
    return run_interpret(r, &plain, data);
}

static const Parameter *find_param(const Run *r, const char *name)
{
    for (size_t i = 0; i < r->n_params; i++)
        if (!strcmp(r->params[i].info.name, name)) return &r->params[i];
    return NULL;
}

static tile_arg default_of(const tile_param_info *info)
{
    DType d = DT_INDEX;
    dtype_of(info->dtype, &d);
    return dtype_is_float(d) ? tile_arg_float(info->default_value.f) : tile_arg_int(info->default_value.i);
}

/* The arguments of the other kernel: this launch's by name. */
static int other_args(Run *r, tile_kernel *k, const char *name, tile_arg **out)
{
    size_t n = tile_kernel_param_count(k);
    tile_arg *args = arena_array(&r->tool->arena, tile_arg, n + 1);
    for (size_t i = 0; i < n; i++) {
        tile_param_info info = { .struct_size = sizeof info };
        TRY(r, tile_kernel_param(k, i, &info));
        const Parameter *p = find_param(r, info.name);
        if (!p && info.has_default && info.kind == TILE_PARAM_SCALAR) args[i] = default_of(&info);
        else if (!p || p->info.kind != info.kind || p->info.dtype != info.dtype || p->info.rank != info.rank)
            return tool_usage(
                r->tool, "--expect=%s: its parameter %s is not one of %s's", name, info.name, r->kernel_name);
        else args[i] = r->launch_args[p - r->params];
    }
    *out = args;
    return EXIT_OK;
}

static int launch_other(Run *r, tile_kernel *k, const char *name)
{
    tile_arg *args = NULL;
    size_t n = tile_kernel_param_count(k);
    tile_launch_desc d = { .struct_size = sizeof d };
    int code = other_args(r, k, name, &args);
    if (code || (code = run_restore_originals(r))) return code;
    TRY(r, tile_kernel_workspace(k, args, n, &d.workspace_size));
    if (d.workspace_size) {
        TRY(r, tile_memory_alloc(r->context, TILE_MEMORY_DEVICE, d.workspace_size, &d.workspace));
        tile_fill(r->context, d.workspace, 0, d.workspace_size, NULL);
    }
    tile_status st = tile_launch(k, args, n, &d);
    tile_status end = tile_context_synchronize(r->context);
    tile_memory_free(r->context, TILE_MEMORY_DEVICE, d.workspace);
    TRY(r, st ? st : end);
    return EXIT_OK;
}

static bool has_kernel(const Run *r, const char *name)
{
    for (size_t i = 0; i < tile_module_kernel_count(r->module); i++)
        if (!strcmp(tile_module_kernel_name(r->module, i), name)) return true;
    return false;
}

/* The values of this launch that the other kernel has a name for. */
static int by_kernel(Bench *b, Run *r, Reference *ref, const char *name)
{
    const FrontKernel *front = frontend_kernel_find(module_program(r->module), name);
    tile_binding *bindings = arena_array(&r->tool->arena, tile_binding, r->n_bindings + 1);
    size_t n = 0;
    tile_kernel *k;
    for (size_t i = 0; i < r->n_bindings; i++) {
        bool known = false;
        for (int p = 0; p < front->n_params; p++)
            known |= !strcmp(front->params[p].name, r->bindings[i].name);
        for (int d = 0; d < front->n_dims; d++) known |= !strcmp(front->dims[d], r->bindings[i].name);
        if (known) bindings[n++] = r->bindings[i];
    }
    TRY(r, tile_kernel_create(r->module, name, bindings, n, &k));
    int code = launch_other(r, k, name);
    tile_kernel_destroy(k);
    return code ? code : reference_take(r, ref, name);
}

int reference_make(Bench *b, Run *r, Reference *ref)
{
    const Strings *expect = &b->args->flag[FLAG_EXPECT];
    begin(r, ref, NULL);
    for (size_t i = 0; i < expect->len; i++) {
        const char *text = expect->data[i];
        int code;
        if (strchr(text, '=')) code = read_file(r, ref, text);
        else if (!strcmp(text, "interp")) code = by_interpreter(r, ref);
        else if (has_kernel(r, text)) code = by_kernel(b, r, ref, text);
        else
            return tool_usage(
                r->tool, "--expect=%s: expected NAME=FILE.npy, interp, or a kernel of the file", text);
        if (code) return code;
        ref->name = strchr(text, '=') ? "--expect" : text;
    }
    return EXIT_OK;
}

/* --- comparing --------------------------------------------------------------------------------------- */

static double value_at(DType d, const void *data, size_t i)
{
    Scalar s = scalar_load(d, (const char *)data + i * (size_t)dtype_bytes(d));
    if (dtype_is_float(d)) return s.f;
    return dtype_is_signed(d) ? (double)s.i : (double)(uint64_t)s.i;
}

/* Relative to the size of the results, by the type that they are stored in. */
static double default_tolerance(DType d)
{
    if (!dtype_is_float(d)) return 0;
    return d == DT_F64 ? 1e-9 : d == DT_F32 ? 1e-4 : d == DT_F16 ? 1e-2 : d == DT_BF16 ? 4e-2 : 0.25;
}

typedef struct Compared {
    size_t wrong, first, n;
    double worst;
} Compared;

/* |got - want| <= atol + rtol |want|. A NaN only equals a NaN, an infinity only itself; integers are compared
 * as they are where no tolerance is given, as a double does not hold all of them. */
static Compared compare(DType d, const void *got, const void *want, size_t n, double atol, double rtol)
{
    Compared c = { .n = n };
    size_t bytes = (size_t)dtype_bytes(d);
    bool exact = !dtype_is_float(d) && atol == 0 && rtol == 0;
    for (size_t i = 0; i < n; i++) {
        double g = value_at(d, got, i), w = value_at(d, want, i), off = fabs(g - w);
        bool equal = exact ? !memcmp((const char *)got + i * bytes, (const char *)want + i * bytes, bytes)
                           : g == w || (isnan(g) && isnan(w));
        if (equal) continue;
        if (off > c.worst || isnan(off)) c.worst = isnan(off) ? (double)INFINITY : off;
        if (!exact && isfinite(w) && off <= atol + rtol * fabs(w)) continue;
        if (!c.wrong++) c.first = i;
    }
    return c;
}

static double mean_size(DType d, const void *want, size_t n)
{
    double sum = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++) {
        double w = fabs(value_at(d, want, i));
        if (!isfinite(w)) continue;
        sum += w;
        finite++;
    }
    return finite ? sum / (double)finite : 0;
}

static const char *place_text(Arena *a, const HostTensor *h, size_t at)
{
    Text t;
    int64_t index[TILE_MAX_RANK] = { 0 };
    text_init(&t, a);
    for (int k = h->rank; k-- > 0; at /= (size_t)h->shape[k]) index[k] = (int64_t)(at % (size_t)h->shape[k]);
    text_putc(&t, '[');
    for (int k = 0; k < h->rank; k++) text_printf(&t, "%s%lld", k ? ", " : "", (long long)index[k]);
    text_putc(&t, ']');
    return t.data;
}

static const char *say(
    Bench *b, const Parameter *p, const Compared *c, const void *got, const void *want, const Reference *ref)
{
    DType d = p->host.dtype;
    return arena_printf(&b->tool->arena,
        "%zu of %zu elements of %s differ from %s, the first at %s: %.6g, expected %.6g", c->wrong, c->n,
        p->info.name, ref->name, place_text(&b->tool->arena, &p->host, c->first), value_at(d, got, c->first),
        value_at(d, want, c->first));
}

/* Elements of one byte are not looked at: results have any of their values. */
static const char *find_poison(
    Bench *b, const Parameter *p, const void *got, const void *want, const Reference *ref)
{
    size_t size = (size_t)dtype_bytes(p->host.dtype), n = p->host.bytes / size, both = 0, first = 0;
    uint8_t poison[16];
    if (p->info.kind != TILE_PARAM_OUT || size < 2) return NULL;
    memset(poison, tensor_poison(p->host.dtype), size);
    for (size_t i = 0; i < n; i++) {
        if (memcmp((const char *)got + i * size, poison, size)) continue;
        if (memcmp((const char *)want + i * size, poison, size)) continue;
        if (!both++) first = i;
    }
    if (!both) return NULL;
    return arena_printf(&b->tool->arena,
        "%zu of %zu elements of %s, the first at %s, agree with %s because neither stores them", both, n,
        p->info.name, place_text(&b->tool->arena, &p->host, first), ref->name);
}

const char *reference_compare(Bench *b, Run *r, const Reference *ref, double *worst, const char **poisoned)
{
    const char *reason = NULL;
    *worst = 0;
    *poisoned = NULL;
    for (size_t i = 0; i < r->n_params && !reason; i++) {
        const Parameter *p = &r->params[i];
        DType d = p->host.dtype;
        if (!is_output(p) || !ref->data[i]) continue;
        void *got = room_for(r, p);
        if (tile_copy(r->context, got, p->device, p->host.bytes, NULL) ||
            tile_context_synchronize(r->context)) {
            free(got);
            return "the results cannot be copied from the device";
        }
        size_t n = p->host.bytes / (size_t)dtype_bytes(d);
        double by_type = default_tolerance(d), atol = b->atol, rtol = b->rtol;
        if (atol < 0) atol = rtol < 0 ? by_type * mean_size(d, ref->data[i], n) : 0;
        if (rtol < 0) rtol = b->atol < 0 ? by_type : 0;
        Compared c = compare(d, got, ref->data[i], n, atol, rtol);
        if (c.worst > *worst) *worst = c.worst;
        if (c.wrong) reason = say(b, p, &c, got, ref->data[i], ref);
        if (!*poisoned) *poisoned = find_poison(b, p, got, ref->data[i], ref);
        free(got);
    }
    return reason;
}
