/* exec_tile.c: problems through libtile's public API, on the CPU or a GPU. */
#include "exec_tile.h"
#include "runtime/include/tile/tile.h"
#include "runtime/launch/inside.h"
#include "used.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kernels are kept by what they were made from, so that a compiled variant serves later cases as it does in a
 * program. */
typedef struct Kept {
    char key[512];
    tile_kernel *kernel;
    struct Kept *next;
} Kept;
typedef struct Loaded {
    char path[512];
    tile_module *module;
    struct Loaded *next;
} Loaded;

typedef struct Device {
    tile_context *context;
    DLDevice where;
    Loaded *modules;
    Kept *kernels;
    int n_kernels;
} Device;

enum { MOST_KERNELS = 64 }; /* compiled code is not small */

typedef struct State {
    Device device[2];
    char messages[600], *text;
    bool checked;
} State; /* without and with passes; text: the code that was emitted last; checked: a warning is a failure */

static void collect(void *user, const tile_diagnostic *d)
{
    State *s = user;
    size_t n = strlen(s->messages);
    if (d->severity == TILE_SEVERITY_DEBUG) {
        free(s->text);
        s->text = strdup(d->message); /* the rendered form is cut off */
    }
    if (d->severity == TILE_SEVERITY_ERROR || (s->checked && d->severity == TILE_SEVERITY_WARNING))
        snprintf(s->messages + n, sizeof s->messages - n, "%s ", d->rendered);
}

static bool open_device(State *s, Device *d, const char *name, bool passes, char *why, size_t why_size)
{
    char target[64];
    snprintf(target, sizeof target, "%.*s", (int)strcspn(name, ","), name);
    tile_context_desc desc = {
        .struct_size = sizeof desc,
        .target = target,
        .flags = TILE_CONTEXT_NO_CACHE | (strstr(name, ",checked") ? TILE_CONTEXT_CHECKED : 0) |
                 (strstr(name, ",early") ? TILE_CONTEXT_EARLY_START : 0),
        .on_diagnostic = collect,
        .on_diagnostic_user = s,
        .debug = "text",
        .opt_level = passes ? 0 : -1,
    };
    if (tile_context_create_error(&desc, &d->context, why, why_size) != TILE_OK) return false;
    tile_device_info info = { .struct_size = sizeof info };
    if (tile_context_device(d->context, &info) != TILE_OK)
        return snprintf(why, why_size, "the device does not say what it is"), false;
    d->where = info.device;
    return true;
}

static void forget(Device *d)
{
    for (Kept *k = d->kernels, *next; k; k = next) {
        next = k->next;
        tile_kernel_destroy(k->kernel);
        free(k);
    }
    for (Loaded *m = d->modules, *next; m; m = next) {
        next = m->next;
        tile_module_destroy(m->module);
        free(m);
    }
    d->kernels = NULL;
    d->modules = NULL;
    d->n_kernels = 0;
}

static void close_device(Device *d)
{
    forget(d);
    tile_context_destroy(d->context);
}

void exec_tile_close(void *state)
{
    State *s = state;
    close_device(&s->device[0]);
    close_device(&s->device[1]);
    free(s->text);
    free(s);
}

const char *exec_tile_text(const void *state) { return ((const State *)state)->text; }

void *exec_tile_open(const char *name, char *why, size_t why_size)
{
    State *s = calloc(1, sizeof *s);
    if (s) s->checked = !strcmp(name, "cpu,checked");
    if (!s || !open_device(s, &s->device[0], name, false, why, why_size) ||
        !open_device(s, &s->device[1], name, true, why, why_size)) {
        if (s) exec_tile_close(s);
        return NULL;
    }
    return s;
}

/* Notes what failed with all that the library said about it. */
static bool complain(State *s, Device *d, const char *what, tile_status status, char *why, size_t why_size)
{
    char text[300] = "";
    tile_context_error(d->context, text, sizeof text);
    bool other = executor_too_large(text) || executor_too_large(s->messages) ||
                 (s->checked && status == TILE_ERROR_CHECK); /* Special values make NaNs. */
    snprintf(why, why_size, "%s%s: %s: %s %s", other ? "SKIP: " : "", what, tile_status_name(status), text,
        s->messages);
    return false;
}

static tile_status find_module(Device *d, const char *path, tile_module **out)
{
    for (Loaded *m = d->modules; m; m = m->next)
        if (!strcmp(m->path, path)) return *out = m->module, TILE_OK;
    tile_status status = tile_module_load_file(d->context, path, NULL, out);
    Loaded *m = status == TILE_OK ? calloc(1, sizeof *m) : NULL;
    if (!m) return status;
    snprintf(m->path, sizeof m->path, "%s", path);
    m->module = *out;
    m->next = d->modules;
    d->modules = m;
    return TILE_OK;
}

static tile_status find_kernel(
    Device *d, const char *path, const char *skip, const Launch *l, tile_kernel **out)
{
    char key[512];
    size_t n = (size_t)snprintf(key, sizeof key, "%s %s without %s", path, l->kernel, skip ? skip : "");
    tile_binding bindings[MAX_BINDS];
    for (int i = 0; i < l->n_consts; i++) {
        bindings[i] = (tile_binding){
            .name = l->consts[i].name, .kind = TILE_BIND_TEXT, .value.text = l->consts[i].value
        };
        if (n < sizeof key)
            n += (size_t)snprintf(key + n, sizeof key - n, " %s=%s", l->consts[i].name, l->consts[i].value);
    }
    for (Kept *k = d->kernels; k; k = k->next)
        if (!strcmp(k->key, key)) return *out = k->kernel, TILE_OK;
    if (d->n_kernels >= MOST_KERNELS) forget(d); /* launches wait for the device before they return */
    tile_module *module;
    tile_status status = find_module(d, path, &module);
    if (status == TILE_OK) status = tile_kernel_create(module, l->kernel, bindings, (size_t)l->n_consts, out);
    const KernelPasses passes = { .skip = skip };
    if (status == TILE_OK && skip && (status = kernel_set_passes(*out, &passes)) != TILE_OK)
        tile_kernel_destroy(*out);
    Kept *k = status == TILE_OK ? calloc(1, sizeof *k) : NULL;
    if (!k) return status;
    memcpy(k->key, key, sizeof key);
    k->kernel = *out;
    k->next = d->kernels;
    d->kernels = k;
    d->n_kernels++;
    return TILE_OK;
}

static tile_dtype dtype_of(RefType t)
{
    for (int d = TILE_BOOL; d <= TILE_F64; d++)
        if (!strcmp(tile_dtype_name((tile_dtype)d), ref_type_name(t))) return (tile_dtype)d;
    return TILE_NONE;
}

/* On a GPU the whole allocation, guards and all, has a copy on the device; on the CPU it is used where it is.
 */
static unsigned char *device_base(
    const Device *d, const Problem *p, unsigned char *const *copies, const Tensor *t)
{ return d->where.device_type == kDLCPU ? t->base : copies[(t->within ? t->within : t) - p->tensors]; }

static bool launch(State *s, Device *d, const Run *run, const Launch *l, unsigned char *const *copies,
    char *why, size_t why_size)
{
    tile_tensor tensors[MAX_ARGS];
    tile_arg args[MAX_ARGS];
    for (int i = 0; i < l->n_args; i++) {
        const Tensor *t = l->args[i].tensor;
        const ScalarArg *v = l->args[i].scalar;
        if (v) {
            args[i] = ref_type_is_float(v->type) ? tile_arg_float(v->value) : tile_arg_int((int64_t)v->whole);
            continue;
        }
        if (!t) {
            args[i] = tile_arg_none();
            continue;
        }
        int drop = l->args[i].drop;
        tensors[i] = (tile_tensor){
            .data = device_base(d, run->problem, copies, t) + t->offset,
            .shape = t->shape + drop,
            .strides = t->stride + drop,
            .rank = t->rank - drop,
            .dtype = dtype_of(t->type),
        };
        args[i] = tile_arg_tensor(&tensors[i]);
    }
    tile_kernel *kernel;
    s->messages[0] = 0;
    tile_status status = find_kernel(d, run->path, run->passes ? run->skip : NULL, l, &kernel);
    if (status != TILE_OK) return complain(s, d, l->kernel, status, why, why_size);
    size_t bytes = 0;
    void *workspace = NULL;
    status = tile_kernel_workspace(kernel, args, (size_t)l->n_args, &bytes);
    if (status == TILE_OK && bytes)
        status = tile_memory_alloc(d->context, TILE_MEMORY_DEVICE, bytes, &workspace);
    tile_launch_desc desc = { .struct_size = sizeof desc, .workspace = workspace, .workspace_size = bytes };
    if (status == TILE_OK) status = tile_launch(kernel, args, (size_t)l->n_args, &desc);
    if (status == TILE_OK) status = tile_context_synchronize(d->context);
    tile_memory_free(d->context, TILE_MEMORY_DEVICE, workspace);
    if (status != TILE_OK) return complain(s, d, l->kernel, status, why, why_size);
    if (s->messages[0]) return snprintf(why, why_size, "%s: %s", l->kernel, s->messages), false;
    used_note(run->path, s->text);
    return true;
}

static tile_status upload(Device *d, const Problem *p, unsigned char **copies)
{
    for (int i = 0; i < p->n_tensors; i++) {
        const Tensor *t = &p->tensors[i];
        void *memory;
        if (t->within) continue;
        tile_status status = tile_memory_alloc(d->context, TILE_MEMORY_DEVICE, t->bytes, &memory);
        if (status != TILE_OK) return status;
        copies[i] = memory;
        status = tile_copy(d->context, memory, t->base, t->bytes, NULL);
        if (status != TILE_OK) return status;
    }
    return TILE_OK;
}

static tile_status download(Device *d, const Problem *p, unsigned char *const *copies)
{
    for (int i = 0; i < p->n_tensors; i++) {
        const Tensor *t = &p->tensors[i];
        if (t->within) continue;
        tile_status status = tile_copy(d->context, t->base, copies[i], t->bytes, NULL);
        if (status != TILE_OK) return status;
    }
    return tile_context_synchronize(d->context);
}

bool exec_tile_run(void *state, const Run *run, char *why, size_t why_size)
{
    State *s = state;
    Device *d = &s->device[run->passes];
    const Problem *p = run->problem;
    unsigned char *copies[MAX_TENSORS] = { 0 };
    bool on_device = d->where.device_type != kDLCPU, ok = true;
    tile_status status = on_device ? upload(d, p, copies) : TILE_OK;
    if (status != TILE_OK) ok = complain(s, d, "copy to the device", status, why, why_size);
    for (int i = 0; ok && i < run->n_launches; i++)
        ok = launch(s, d, run, &run->launches[i], copies, why, why_size);
    if (ok && on_device && (status = download(d, p, copies)) != TILE_OK)
        ok = complain(s, d, "copy from the device", status, why, why_size);
    for (int i = 0; i < p->n_tensors; i++) tile_memory_free(d->context, TILE_MEMORY_DEVICE, copies[i]);
    return ok;
}
