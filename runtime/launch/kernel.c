/* kernel.c: making kernels: bindings, parameters, tuning rows. */
#include "runtime/launch/kernel.h"
#include "runtime/choice/cost.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- bindings ---------------------------------------------------------------------------------------- */

static const FrontParam *front_param(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_params; i++)
        if (!strcmp(k->params[i].name, name)) return &k->params[i];
    return NULL;
}

static int front_dim(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_dims; i++)
        if (!strcmp(k->dims[i], name)) return i;
    return -1;
}

static bool is_const(const FrontParam *p)
{ return p && (p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE); }

/* May a binding name it? */
static bool takes_binding(const FrontParam *p) { return is_const(p) || (p && p->optional); }

/* Converts a number that is given for a const of another kind, if that loses nothing. */
static void adapt(const FrontParam *p, FrontValue *v)
{
    FrontValueKind wanted = p ? p->default_value.kind : FRONT_NOTHING;
    bool real = p && !p->optional && p->type_known && dtype_is_float(p->dtype),
         truth = p && (p->optional || (p->type_known && p->dtype == DT_BOOL));
    if (v->kind == FRONT_INT && (wanted == FRONT_BOOL || truth) && (v->i == 0 || v->i == 1))
        *v = (FrontValue){ FRONT_BOOL, { .b = v->i != 0 } };
    else if (v->kind == FRONT_INT && (wanted == FRONT_FLOAT || real))
        *v = (FrontValue){ FRONT_FLOAT, { .f = (double)v->i } };
    else if (v->kind == FRONT_UINT && (wanted == FRONT_FLOAT || real))
        *v = (FrontValue){ FRONT_FLOAT, { .f = (double)(uint64_t)v->i } };
}

/* Appends a name to a list of available names, for an error. */
static void list_name(char *list, size_t room, const char *name)
{
    size_t n = strlen(list);
    format_text(list + n, room - n, "%s%s", n ? ", " : "", name);
}

static tile_status no_such_name(const tile_kernel *k, const char *name, bool argument)
{
    const FrontKernel *f = k->front;
    char list[400] = "";
    for (int i = 0; i < f->n_params; i++)
        if (takes_binding(&f->params[i])) list_name(list, sizeof list, f->params[i].name);
    for (int i = 0; i < f->n_dims; i++) list_name(list, sizeof list, f->dims[i]);
    return context_fail(k->context, TILE_ERROR_NOT_FOUND,
        "kernel %s has no const, dimension or hint named `%s`%s; consts and dimensions are %s", f->name, name,
        argument ? " (it is an argument of the launch)" : "", *list ? list : "none");
}

static tile_status take_binding(tile_kernel *k, const tile_binding *b, FrontBinding *out)
{
    tile_context *c = k->context;
    const FrontKernel *f = k->front;
    if (!b->name)
        return context_fail(c, TILE_ERROR_INVALID_ARGUMENT, "kernel %s: a binding without a name", f->name);
    const FrontParam *p = front_param(f, b->name);
    if (!takes_binding(p) && front_dim(f, b->name) < 0 && !frontend_hint_name(b->name))
        return no_such_name(k, b->name, p != NULL);
    out->name = session_intern(&k->session, b->name, strlen(b->name));
    const char *why = NULL;
    switch (b->kind) {
    case TILE_BIND_INT: out->value = (FrontValue){ FRONT_INT, { .i = b->value.i } }; break;
    case TILE_BIND_FLOAT: out->value = (FrontValue){ FRONT_FLOAT, { .f = b->value.f } }; break;
    case TILE_BIND_BOOL: out->value = (FrontValue){ FRONT_BOOL, { .b = b->value.i != 0 } }; break;
    case TILE_BIND_DTYPE:
        out->value = (FrontValue){ FRONT_TYPE, { .type = dtype_of_public(b->value.dtype) } };
        if (out->value.type == DT_COUNT) why = "no element type";
        break;
    case TILE_BIND_TEXT:
        if (!b->value.text) why = "no text";
        else if (!frontend_parse_value(&k->session, f, b->name, b->value.text, &out->value, &why) && !why)
            why = "not such a value";
        break;
    default:
        return context_fail(
            c, TILE_ERROR_INVALID_ARGUMENT, "kernel %s: binding `%s` is of no kind", f->name, b->name);
    }
    if (why) return context_fail(c, TILE_ERROR_DTYPE, "kernel %s: binding `%s`: %s", f->name, b->name, why);
    adapt(p, &out->value);
    bool wants_type = p && p->kind == FRONT_CONST_TYPE, wants_bool = p && p->optional;
    if (wants_type != (out->value.kind == FRONT_TYPE) || (wants_bool && out->value.kind != FRONT_BOOL) ||
        (!p && out->value.kind != FRONT_INT))
        return context_fail(c, TILE_ERROR_DTYPE, "kernel %s: `%s` wants %s", f->name, b->name,
            wants_type   ? "an element type"
            : wants_bool ? "true or false: whether the optional tensor is given"
            : p          ? "a number"
                         : "an integer");
    return TILE_OK;
}

static const FrontValue *bound_value(const tile_kernel *k, const char *name)
{
    for (int i = k->n_bindings; i-- > 0;)
        if (!strcmp(k->bindings[i].name, name)) return &k->bindings[i].value;
    const FrontParam *p = front_param(k->front, name);
    return is_const(p) && p->default_value.kind != FRONT_NOTHING ? &p->default_value : NULL;
}

/* --- parameters -------------------------------------------------------------------------------------- */

/* The text of an extent with the kernel's integer consts replaced by their values. */
static const char *with_consts(tile_kernel *k, const char *text)
{ return frontend_extent_text(&k->session, k->front, k->bindings, (size_t)k->n_bindings, text); }

static tile_status take_param(tile_kernel *k, const FrontParam *f, KernelParam *p)
{
    p->name = f->name;
    p->type_name = f->type_name ? f->type_name : "";
    p->kind = f->kind == FRONT_IN      ? PARAM_IN
              : f->kind == FRONT_OUT   ? PARAM_OUT
              : f->kind == FRONT_INOUT ? PARAM_INOUT
                                       : PARAM_SCALAR;
    p->dtype = f->dtype;
    if (!f->type_known) {
        const FrontValue *v = bound_value(k, f->type_name);
        if (!v || v->kind != FRONT_TYPE)
            return context_fail(k->context, TILE_ERROR_NOT_FOUND,
                "kernel %s: the type %s of `%s` has no default: bind it", k->name, f->type_name, f->name);
        p->dtype = v->type;
    }
    p->size = dtype_bytes(p->dtype);
    p->public = dtype_to_public(p->dtype);
    p->real = dtype_is_float(p->dtype);
    if (p->kind == PARAM_SCALAR) p->otherwise = f->default_value;
    p->dl_bits = (uint8_t)dtype_bits(p->dtype);
    p->dl_code = p->dtype == DT_BF16         ? kDLBfloat
                 : dtype_is_float(p->dtype)  ? kDLFloat
                 : dtype_is_signed(p->dtype) ? kDLInt
                                             : kDLUInt;
    if (p->kind == PARAM_SCALAR) return TILE_OK;
    p->optional = f->optional;
    const FrontValue *given = f->optional ? bound_value(k, f->name) : NULL;
    p->bound = given ? given->b : -1;
    p->rank = f->rank;
    for (int a = 0; a < f->rank; a++) {
        p->text[a] = f->dims[a].name ? f->dims[a].name : with_consts(k, f->dims[a].text);
        p->dim[a] = f->dims[a].name           ? front_dim(k->front, f->dims[a].name)
                    : f->dims[a].derived >= 0 ? k->front->n_dims + f->dims[a].derived
                                              : -1;
        k->anonymous |= !f->dims[a].name;
    }
    return TILE_OK;
}

static tile_status take_params(tile_kernel *k)
{
    const FrontKernel *f = k->front;
    k->params = arena_array(&k->session.arena, KernelParam, (size_t)f->n_params + 1);
    for (int i = 0; i < f->n_params; i++) {
        if (f->params[i].kind == FRONT_CONST || f->params[i].kind == FRONT_CONST_TYPE) continue;
        tile_status st = take_param(k, &f->params[i], &k->params[k->n_params++]);
        if (st) return st;
    }
    if (k->n_params > MAX_PARAMS)
        return context_fail(
            k->context, TILE_ERROR_UNSUPPORTED, "kernel %s has more than %d arguments", k->name, MAX_PARAMS);
    k->n_dims = f->n_dims + f->n_derived;
    k->dims = arena_array(&k->session.arena, KernelDim, (size_t)k->n_dims + 1);
    for (int d = 0; d < f->n_derived; d++)
        k->dims[f->n_dims + d] = (KernelDim){ with_consts(k, f->derived[d]), .bound = -1 };
    bool gpu = k->context->target->kind == TARGET_CUDA; /* where programs are packed */
    for (int d = 0; d < f->n_dims; d++) {
        const FrontValue *v = bound_value(k, f->dims[d]);
        KernelDim *dim = &k->dims[d];
        *dim = (KernelDim){ f->dims[d], .bound = v && v->kind == FRONT_INT ? v->i : -1 };
        for (int i = 0; i < f->n_keys; i++) dim->key |= !strcmp(f->keys[i], f->dims[d]);
        dim->specialized = dim->key || dim->bound >= 0;
        if (dim->bound >= 0) dim->key = false; /* part of every variant alike */
        k->n_key_dims += k->dims[d].key;
        for (int i = 0; i < f->n_counted && gpu && dim->bound < 0; i++)
            dim->counted |= !strcmp(f->counted[i], f->dims[d]);
        k->n_counted += dim->counted;
    }
    k->key_words = 1 + (k->n_dims + 63) / 64 + k->n_key_dims + (k->n_params + 3) / 4 + (k->n_counted + 7) / 8;
    return TILE_OK;
}

/* --- tuning ------------------------------------------------------------------------------------------ */

/* log2(v) in units of 1 / ONE, accurate to a few units, which suffices for distances between shapes. */
static int64_t log2_fixed(int64_t v)
{
    /* BEND: the coefficient of the parabola between powers of two, in the same units */
    enum { ONE = 1 << 16, BEND = 22550 };
    if (v < 1) return -ONE;
    int e = 63 - __builtin_clzll((uint64_t)v);
    uint64_t m = e > 16 ? (uint64_t)v >> (e - 16) : (uint64_t)v << (16 - e); /* 1.16 */
    uint64_t x = m - ONE;
    return ((int64_t)e << 16) + (int64_t)(x + (x * (ONE - x) >> 16) * BEND / ONE);
}

/* Reads the words of a key that tile_kernel_write_choices wrote; false: another version of the library did.
 */
static bool read_promises(tile_kernel *k, const char *text, TuneRow *row)
{
    uint64_t *words = arena_array(&k->session.arena, uint64_t, (size_t)k->key_words + 1);
    int n = 0;
    for (char *end; *text && n < k->key_words; text = end + (*end == '.'), n++) {
        words[n] = strtoull(text, &end, 16);
        if (end == text || (*end && *end != '.')) return false;
    }
    row->promises = words;
    return n == k->key_words && !*text;
}

/* Whether the entry may bind this extent: it speaks for one launch alone, which has it. */
static bool binds_own_extent(const TuneEntry *e, const TuneItem *bound)
{
    for (int i = 0; i < e->n_key && *e->promises; i++)
        if (!strcmp(e->key[i].name, bound->name)) return tune_same_value(&e->key[i].value, &bound->value);
    return false;
}

/* Whether the entry is for this kernel with these consts. Fills in the row's dimensions. */
static bool fit_row(tile_kernel *k, const TuneEntry *e, TuneRow *row)
{
    if (strcmp(e->kernel, k->name) || (*e->target && strcmp(e->target, k->context->target->name)))
        return false;
    int *dims = arena_array(&k->session.arena, int, (size_t)e->n_key + 1);
    int64_t *logs = arena_array(&k->session.arena, int64_t, (size_t)e->n_key + 1);
    int64_t *values = arena_array(&k->session.arena, int64_t, (size_t)e->n_key + 1);
    FrontBinding *tensors = arena_array(&k->session.arena, FrontBinding, (size_t)e->n_key + 1);
    *row = (TuneRow){ .dims = dims,
        .log2 = logs,
        .values = values,
        .tensors = tensors,
        .apart = *e->device && strcmp(e->device, k->context->driver->info.name) ? 1 << 15 : 0 };
    for (int i = 0; i < e->n_key; i++) {
        int d = front_dim(k->front, e->key[i].name);
        if (d >= 0 && e->key[i].value.kind == FRONT_INT) {
            dims[row->n] = d;
            values[row->n] = e->key[i].value.i;
            logs[row->n++] = log2_fixed(e->key[i].value.i);
            continue;
        }
        const FrontParam *p = front_param(k->front, e->key[i].name);
        if (p && p->optional) {
            tensors[row->n_tensors++] = (FrontBinding){ p->name, e->key[i].value };
            continue;
        }
        const FrontValue *v = bound_value(k, e->key[i].name);
        FrontValue wanted = e->key[i].value;
        adapt(front_param(k->front, e->key[i].name), &wanted);
        if (!v) return false;
        if (tune_same_value(v, &wanted)) continue;
        /* bf16 in place of f16: the code is the same except for the names of instructions */
        if (v->kind != FRONT_TYPE || wanted.kind != FRONT_TYPE ||
            dtype_bytes(v->type) != dtype_bytes(wanted.type) ||
            dtype_is_float(v->type) != dtype_is_float(wanted.type))
            return false;
        row->apart += 1 << 14;
    }
    FrontBinding *config = arena_array(&k->session.arena, FrontBinding, (size_t)e->n_config + 1);
    for (int i = 0; i < e->n_config; i++) {
        const FrontParam *p = front_param(k->front, e->config[i].name);
        bool extent = front_dim(k->front, e->config[i].name) >= 0 && binds_own_extent(e, &e->config[i]);
        if (!is_const(p) && !extent && !frontend_hint_name(e->config[i].name))
            return false; /* The entry was written for another version of the kernel. */
        FrontValue value = e->config[i].value;
        const FrontValue *given = NULL;
        adapt(p, &value);
        for (int b = 0; b < k->n_bindings; b++)
            if (!strcmp(k->bindings[b].name, e->config[i].name)) given = &k->bindings[b].value;
        /* Bindings of the caller stay. If the entry was found with another value of such a binding, the entry
         * does not apply. */
        if (given && !tune_same_value(given, &value)) return false;
        if (!given) config[row->n_config++] = (FrontBinding){ e->config[i].name, value };
    }
    row->config = config;
    return !*e->promises || (!row->apart && read_promises(k, e->promises, row));
}

static void take_rows(tile_kernel *k)
{
    if (!k->tune) return;
    k->rows = arena_array(&k->session.arena, TuneRow, (size_t)k->tune->file.n + 1);
    for (int i = 0; i < k->tune->file.n; i++)
        if (fit_row(k, &k->tune->file.entries[i], &k->rows[k->n_rows])) k->n_rows++;
}

/* The factors of two of an extent, up to 16, because code is specialized on what divides an extent. */
static int64_t twos(int64_t v) { return v ? __builtin_ctzll((uint64_t)v | 16) : 4; }

static bool gives_its_tensors(const tile_kernel *k, const TuneRow *row, const View *views)
{
    for (int i = 0; i < row->n_tensors; i++)
        for (int p = 0; p < k->n_params; p++)
            if (!strcmp(k->params[p].name, row->tensors[i].name) &&
                (views[p].facts & FACT_ABSENT) != (row->tensors[i].value.b ? 0 : FACT_ABSENT))
                return false;
    return true;
}

/* Whether a row that is for one launch alone is for this one. */
static bool is_its_launch(const tile_kernel *k, const TuneRow *row, const int64_t *dims, const uint64_t *key)
{
    if (memcmp(row->promises, key, (size_t)k->key_words * sizeof *key)) return false;
    for (int j = 0; j < row->n; j++)
        if (dims[row->dims[j]] != row->values[j]) return false;
    return true;
}

/* When estimates are available, an entry is not used for launches whose extents differ by more than a factor
 * of two in total, or that are as far away by other differences. Measured entries speak of axes as they were
 * given. */
int kernel_tune_row(const tile_kernel *k, const LaunchArgs *l, const uint64_t *key)
{
    const int64_t *dims = l->dims;
    int best = -1;
    int64_t least = k->chooser && device_model(k->context->target) ? (1 << 16) + 1 : INT64_MAX;
    for (int i = 0; i < k->n_rows; i++) {
        if (k->rows[i].promises) {
            if (is_its_launch(k, &k->rows[i], dims, key)) return i;
            continue;
        }
        if (*l->collapsed || !gives_its_tensors(k, &k->rows[i], l->views)) continue;
        int64_t distance = k->rows[i].apart;
        for (int j = 0; j < k->rows[i].n; j++) {
            int64_t n = dims[k->rows[i].dims[j]], d = log2_fixed(n) - k->rows[i].log2[j],
                    t = twos(n) - twos(k->rows[i].values[j]);
            distance += (d < 0 ? -d : d) + ((t < 0 ? -t : t) << 13);
        }
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

/* --- create and destroy ------------------------------------------------------------------------------ */

static void kernel_free(tile_kernel *k)
{
    tile_context *c = k->context;
    pitch_close(k);
    for (Variant *v = k->variants, *next; v; v = next) {
        next = v->next;
        variant_free(k, v);
    }
    for (VariantTable *t = atomic_load(&k->table), *older; t; t = older) {
        older = t->older;
        context_free(c, t, t->bytes);
    }
    chooser_close(k);
    session_free(&k->session);
    tune_release(k->tune);
    lock_destroy(&k->lock);
    module_release(k->module); /* This also releases its reference to the context. */
    context_free(c, k, sizeof *k);
    context_release(c);
}

static tile_status create_body(tile_kernel *k, const tile_binding *b, size_t n)
{
    Session *s = &k->session;
    k->bindings = arena_array(&s->arena, FrontBinding, n + 1);
    for (size_t i = 0; i < n; i++) {
        tile_status st = take_binding(k, &b[i], &k->bindings[i]);
        if (st) return st;
        k->n_bindings++;
    }
    k->title = compile_title(s, k->name, k->bindings, (size_t)k->n_bindings);
    tile_status st = take_params(k);
    if (st) return st;
    take_rows(k);
    collapse_open(k);
    return chooser_open(k);
}

/* Makes an empty kernel that holds references to its context and module. NULL when out of memory. */
static tile_kernel *kernel_new(tile_context *c, tile_module *m, const FrontKernel *f)
{
    tile_kernel *k = context_alloc(c, sizeof *k);
    if (!k) {
        context_fail(c, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
        return NULL;
    }
    k->context = c;
    k->module = m;
    k->front = f;
    k->name = f->name;
    atomic_store(&k->references, 1);
    atomic_fetch_add(&m->references, 1);
    atomic_fetch_add(&c->references, 1);
    lock_init(&k->lock);
    session_init(&k->session, c->alloc);
    k->session.binder = BINDER;
    return k;
}

static tile_status no_such_kernel(const tile_module *m, const char *name)
{
    char list[400] = "";
    for (int i = 0; i < frontend_kernel_count(m->ast); i++)
        list_name(list, sizeof list, frontend_kernel(m->ast, i)->name);
    return context_fail(m->context, TILE_ERROR_NOT_FOUND, "%s has no kernel named `%s`; it has %s",
        m->sources.files.data[0].name, name, *list ? list : "none");
}

static tile_status like_body(tile_kernel *k, const tile_kernel *of, const FrontBinding *more, int n)
{
    k->bindings = arena_array(&k->session.arena, FrontBinding, (size_t)(of->n_bindings + n) + 1);
    for (int i = 0; i < of->n_bindings; i++) k->bindings[k->n_bindings++] = of->bindings[i];
    for (int i = 0; i < n; i++) k->bindings[k->n_bindings++] = more[i];
    k->title = compile_title(&k->session, k->name, k->bindings, (size_t)k->n_bindings);
    k->passes = of->passes;
    return take_params(k);
}

/* Makes a kernel from bindings, or like another one with more bindings. */
typedef struct Create {
    tile_kernel *k;
    const tile_binding *b;
    size_t n;
    const tile_kernel *of;
    const FrontBinding *more;
    int n_more;
    tile_status status;
} Create;

static void create_guarded(void *p)
{
    Create *c = p;
    int jumped = setjmp(c->k->session.oom);
    if (jumped) c->status = context_session_failed(c->k->context, &c->k->session, jumped, c->k->name);
    else c->status = c->of ? like_body(c->k, c->of, c->more, c->n_more) : create_body(c->k, c->b, c->n);
}

/* Fills the new kernel of `made`, or frees it and says why not. */
static tile_status create(tile_context *c, Create *made, tile_kernel **out)
{
    tile_status st = context_on_stack(c, create_guarded, made);
    if (!st) st = made->status;
    if (st) kernel_free(made->k);
    else *out = made->k;
    return st;
}

tile_status tile_kernel_create(
    tile_module *m, const char *name, const tile_binding *b, size_t n, tile_kernel **out)
{
    FLOAT_STATE_DEFAULT();
    if (!m || !out) return TILE_ERROR_INVALID_ARGUMENT;
    tile_context *c = m->context;
    *out = NULL;
    if (!name || (n && !b))
        return context_fail(c, TILE_ERROR_INVALID_ARGUMENT, "tile_kernel_create: %s is NULL",
            name ? "the list of bindings" : "the name");
    const FrontKernel *f = frontend_kernel_find(m->ast, name);
    if (!f) return no_such_kernel(m, name);
    tile_kernel *k = kernel_new(c, m, f);
    if (!k) return TILE_ERROR_OUT_OF_MEMORY;
    lock_enter(&m->lock);
    k->tune = m->tune;
    if (k->tune) atomic_fetch_add(&k->tune->references, 1);
    lock_leave(&m->lock);
    Create made = { k, b, n, NULL, NULL, 0, TILE_OK };
    return create(c, &made, out);
}

tile_status kernel_create_like(
    const tile_kernel *of, tile_context *c, const FrontBinding *more, int n, tile_kernel **out)
{
    tile_kernel *k = kernel_new(c, of->module, of->front);
    *out = NULL;
    if (!k) return TILE_ERROR_OUT_OF_MEMORY;
    Create made = { k, NULL, 0, of, more, n, TILE_OK };
    return create(c, &made, out);
}

void tile_kernel_destroy(tile_kernel *k)
{
    if (k && atomic_fetch_sub_explicit(&k->references, 1, memory_order_acq_rel) == 1) kernel_free(k);
}
