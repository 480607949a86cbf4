/* converted.c: the form of a kernel on inputs that its launch has converted ahead.
 *
 *   kernel on f32 A, B, which multiplies bf16(load(A..)), bf16(load(B..))
 *   form:   the same on bf16 A, B                 (passes/converted_inputs.c)
 *
 * The form is a kernel of its own, with its own choices and variants. Which inputs it has converted is found
 * once for a kernel, from its tile IR. Inputs of one axis stay as they are, since each program reads little
 * of them, and so do those of f16 and bf16, which matrix units take. */
#define _GNU_SOURCE
#include "passes/converted_inputs.h"
#include "runtime/launch/pitch.h"

/* Whether the parameter may be an input that is converted, by its type and axes. */
static bool may_be_converted(const KernelParam *q)
{ return q->kind == PARAM_IN && q->rank >= 2 && q->dtype != DT_F16 && q->dtype != DT_BF16; }

bool converted_possible(const tile_kernel *k)
{
    if (!k->front->products || k->converted) return false;
    CompileOptions o = kernel_compile_options(k);
    PassSet skip = pass_set_of(o.passes.skip);
    if (o.passes.approx || o.passes.ftz || o.passes.passes || o.passes.opt_level < 1 ||
        pass_in(&skip, PASS_SPECIALIZE))
        return false;
    for (int i = 0; i < k->n_params; i++)
        if (may_be_converted(&k->params[i])) return true;
    return false;
}

typedef struct Finding {
    tile_kernel *k;
    const uint64_t *key;
    DType *to;
    bool found;
} Finding;

/* The types, from the tile IR. */
static tile_status find_types(Session *s, void *finding)
{
    Finding *q = finding;
    Func *f;
    size_t n;
    CompileOptions o = compile_options_default(q->k->context->target);
    o.passes.passes = "inline,check"; /* what runs before specialize, which converts */
    const FrontBinding *b = variant_bindings(q->k, q->key, &s->arena, &n);
    Ast *ast = module_parse(q->k->module, s);
    if (!ast || !compile_to_ir(&(CompileJob){ s, ast, q->k->name, b, n, NULL, &o }, NULL, &f)) return TILE_OK;
    for (int i = 0; i < q->k->n_params; i++) {
        q->to[i] = may_be_converted(&q->k->params[i]) ? input_converted_to(f, i) : DT_COUNT;
        q->found |= q->to[i] != DT_COUNT;
    }
    return TILE_OK;
}

static void form_free(tile_context *c, ConvertedForm *f)
{
    if (!f) return;
    tile_kernel_destroy(f->kernel);
    context_free(c, f, f->bytes);
}

static tile_status form_new(tile_kernel *k, const uint64_t *key, ConvertedForm **out)
{
    size_t bytes = sizeof(ConvertedForm) + (size_t)k->n_params * sizeof(DType);
    ConvertedForm *f = *out = context_alloc(k->context, bytes);
    if (!f) return context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    *f = (ConvertedForm){ NULL, bytes };
    Finding q = { k, key, f->to, false };
    tile_status st = context_in_session(k->context, k->title, find_types, &q);
    if (!st && q.found) st = kernel_create_converted(k, f->to, &f->kernel);
    if (st == TILE_ERROR_OUT_OF_MEMORY) {
        form_free(k->context, f);
        *out = NULL;
        return st;
    }
    if (st) f->kernel = NULL;
    return TILE_OK;
}

tile_status converted_form(tile_kernel *k, const uint64_t *key, const ConvertedForm **out)
{
    *out = NULL;
    if (!converted_possible(k)) return TILE_OK;
    ConvertedForm *f = atomic_load_explicit(&k->converted_form, memory_order_acquire), *other = NULL;
    if (!f) {
        tile_status st = form_new(k, key, &f);
        if (st) return st;
        if (!atomic_compare_exchange_strong(&k->converted_form, &other, f)) {
            form_free(k->context, f);
            f = other;
        }
    }
    *out = f->kernel ? f : NULL;
    return TILE_OK;
}

void converted_close(tile_kernel *k) { form_free(k->context, atomic_load(&k->converted_form)); }
