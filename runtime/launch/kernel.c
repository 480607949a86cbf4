/* kernel.c: making kernels: bindings and parameters. */
#include "runtime/launch/kernel_parts.h"

/* --- bindings ---------------------------------------------------------------------------------------- */

const FrontParam *kernel_front_param(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_params; i++)
        if (!strcmp(k->params[i].name, name)) return &k->params[i];
    return NULL;
}

int kernel_front_dim(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_dims; i++)
        if (!strcmp(k->dims[i], name)) return i;
    return -1;
}

bool kernel_is_const(const FrontParam *p)
{ return p && (p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE); }

/* May a binding name it? */
static bool takes_binding(const FrontParam *p) { return kernel_is_const(p) || (p && p->optional); }

void kernel_adapt(const FrontParam *p, FrontValue *v)
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
    const FrontParam *p = kernel_front_param(f, b->name);
    if (!takes_binding(p) && kernel_front_dim(f, b->name) < 0 && !frontend_hint_name(b->name))
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
    kernel_adapt(p, &out->value);
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

const FrontValue *kernel_bound_value(const tile_kernel *k, const char *name)
{
    for (int i = k->n_bindings; i-- > 0;)
        if (!strcmp(k->bindings[i].name, name)) return &k->bindings[i].value;
    const FrontParam *p = kernel_front_param(k->front, name);
    return kernel_is_const(p) && p->default_value.kind != FRONT_NOTHING ? &p->default_value : NULL;
}

/* --- parameters -------------------------------------------------------------------------------------- */

/* The text of an extent with the kernel's integer consts replaced by their values. */
static const char *with_consts(tile_kernel *k, const char *text)
{ return frontend_extent_text(&k->session, k->front, k->bindings, (size_t)k->n_bindings, text); }

static void set_type(KernelParam *p, DType type)
{
    p->dtype = type;
    p->size = dtype_bytes(type);
    p->public = dtype_to_public(type);
    p->real = dtype_is_float(type);
    p->dl_bits = (uint8_t)dtype_bits(type);
    p->dl_code = type == DT_BF16         ? kDLBfloat
                 : dtype_is_float(type)  ? kDLFloat
                 : dtype_is_signed(type) ? kDLInt
                                         : kDLUInt;
}

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
        const FrontValue *v = kernel_bound_value(k, f->type_name);
        if (!v || v->kind != FRONT_TYPE)
            return context_fail(k->context, TILE_ERROR_NOT_FOUND,
                "kernel %s: the type %s of `%s` has no default: bind it", k->name, f->type_name, f->name);
        p->dtype = v->type;
    }
    set_type(p, p->dtype);
    if (p->kind == PARAM_SCALAR) p->otherwise = f->default_value;
    if (p->kind == PARAM_SCALAR) return TILE_OK;
    p->optional = f->optional;
    const FrontValue *given = f->optional ? kernel_bound_value(k, f->name) : NULL;
    p->bound = given ? given->b : -1;
    p->rank = f->rank;
    for (int a = 0; a < f->rank; a++) {
        p->text[a] = f->dims[a].name ? f->dims[a].name : with_consts(k, f->dims[a].text);
        p->dim[a] = f->dims[a].name           ? kernel_front_dim(k->front, f->dims[a].name)
                    : f->dims[a].derived >= 0 ? k->front->n_dims + f->dims[a].derived
                                              : -1;
        k->anonymous |= !f->dims[a].name;
    }
    return TILE_OK;
}

/* Whether code may hold several whole rows of the tensor. */
static bool has_rows(const tile_kernel *k, const KernelParam *p)
{
    const int dim = p->rank > 1 ? p->dim[p->rank - 1] : -1;
    return dim >= 0 && k->dims[dim].specialized && ir_gaps_matter(p->size, 2 * p->size, p->size);
}

/* Of tensors that atomics change, a GPU holds small ones in shared memory (shared_atomics.c). */
static void mark_counted(tile_kernel *k)
{
    bool gpu = k->context->target->kind != TARGET_CPU;
    for (int i = 0; i < k->n_params && gpu; i++)
        for (int a = 0; a < k->params[i].rank && k->params[i].atomics; a++) {
            int d = k->params[i].dim[a];
            if (d >= 0 && d < k->front->n_dims && !k->dims[d].specialized) k->dims[d].counted = true;
        }
    for (int d = 0; d < k->n_dims; d++) k->n_counted += k->dims[d].counted;
}

/* The axes in front of the last one whose strides the code knows if the tensor has no gaps, because the
 * extents behind them are known: where windows of several of them may become windows of one (flatten). The
 * outermost one begins no window of its own. */
static int dense_axes(const tile_kernel *k, const KernelParam *p)
{
    int n = 0;
    for (int a = p->rank - 1; a > 0 && k->front && !k->front->products; a--, n++) {
        int inner = p->dim[a], outer = p->dim[a - 1];
        if (inner < 0 || outer < 0 || !k->dims[inner].specialized || !k->dims[outer].specialized) break;
    }
    return n;
}

static tile_status take_params(tile_kernel *k)
{
    const FrontKernel *f = k->front;
    k->params = arena_array(&k->session.arena, KernelParam, (size_t)f->n_params + 1);
    for (int i = 0; i < f->n_params; i++) {
        if (f->params[i].kind == FRONT_CONST || f->params[i].kind == FRONT_CONST_TYPE) continue;
        tile_status st = take_param(k, &f->params[i], &k->params[k->n_params++]);
        if (st) return st;
        k->params[k->n_params - 1].atomics = i < 64 && f->atomics >> i & 1;
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
        const FrontValue *v = kernel_bound_value(k, f->dims[d]);
        KernelDim *dim = &k->dims[d];
        *dim = (KernelDim){ f->dims[d], .bound = v && v->kind == FRONT_INT ? v->i : -1 };
        for (int i = 0; i < f->n_keys; i++) dim->key |= !strcmp(f->keys[i], f->dims[d]);
        dim->specialized = dim->key || dim->bound >= 0;
        if (dim->bound >= 0) dim->key = false; /* part of every variant alike */
        k->n_key_dims += k->dims[d].key;
        for (int i = 0; i < f->n_counted && gpu && dim->bound < 0; i++)
            dim->counted |= !strcmp(f->counted[i], f->dims[d]);
    }
    mark_counted(k);
    for (int i = 0; i < k->n_params; i++) {
        k->params[i].rows = gpu && has_rows(k, &k->params[i]);
        if (k->params[i].rows) k->gap_words = (k->n_params + 63) / 64;
        if (gpu) k->params[i].dense = dense_axes(k, &k->params[i]);
        if (k->params[i].dense) k->dense_words = (k->n_params + 63) / 64;
    }
    k->key_words = 1 + (k->n_dims + 63) / 64 + k->n_key_dims + (k->n_params + 3) / 4 + k->gap_words +
                   k->dense_words + (k->n_counted + 7) / 8;
    return TILE_OK;
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
    kernel_take_rows(k);
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

/* The same with inputs of other types. It chooses its configurations itself. */
static tile_status converted_body(tile_kernel *k, const tile_kernel *of, const DType *to)
{
    tile_status st = like_body(k, of, NULL, 0);
    if (st) return st;
    DType *converted = arena_array(&k->session.arena, DType, (size_t)k->n_params + 1);
    for (int i = 0; i < k->n_params; i++) {
        converted[i] = to[i];
        if (to[i] != DT_COUNT) set_type(&k->params[i], to[i]);
    }
    k->converted = converted;
    return chooser_open(k);
}

/* Makes a kernel from bindings, or like another one with more bindings or with converted inputs. */
typedef struct Create {
    tile_kernel *k;
    const tile_binding *b;
    size_t n;
    const tile_kernel *of;
    const FrontBinding *more;
    int n_more;
    const DType *converted;
    tile_status status;
} Create;

static void create_guarded(void *p)
{
    Create *c = p;
    int jumped = setjmp(c->k->session.oom);
    if (jumped) c->status = context_session_failed(c->k->context, &c->k->session, jumped, c->k->name);
    else if (c->converted) c->status = converted_body(c->k, c->of, c->converted);
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
    Create made = { .k = k, .b = b, .n = n };
    return create(c, &made, out);
}

tile_status kernel_create_like(
    const tile_kernel *of, tile_context *c, const FrontBinding *more, int n, tile_kernel **out)
{
    tile_kernel *k = kernel_new(c, of->module, of->front);
    *out = NULL;
    if (!k) return TILE_ERROR_OUT_OF_MEMORY;
    Create made = { .k = k, .of = of, .more = more, .n_more = n };
    return create(c, &made, out);
}

tile_status kernel_create_converted(const tile_kernel *of, const DType *to, tile_kernel **out)
{
    tile_kernel *k = kernel_new(of->context, of->module, of->front);
    *out = NULL;
    if (!k) return TILE_ERROR_OUT_OF_MEMORY;
    Create made = { .k = k, .of = of, .converted = to };
    return create(of->context, &made, out);
}

void tile_kernel_destroy(tile_kernel *k)
{
    if (k && atomic_fetch_sub_explicit(&k->references, 1, memory_order_acq_rel) == 1) kernel_free(k);
}
