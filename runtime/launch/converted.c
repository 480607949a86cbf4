/* converted.c: the form of a kernel on inputs that its launch has converted or computed ahead.
 *
 *   kernel on f32 A, B, which multiplies bf16(load(A..)), bf16(load(B..))
 *   form:   the same on bf16 A, B                 (passes/tile/launch/converted_inputs.c)
 *   kernel on G, U, which multiplies f16(silu(f32(load(G..)))) * load(U..)
 *   form:   the same on the operand, in the place of G                 (passes/tile/launch/computed_inputs.c)
 *
 * The form is a kernel of its own, with its own choices and variants. The inputs to convert or to compute
 * are found in the tile IR of the kernel, once for each set of constants that launches give it: an operand
 * may be divided by an extent, for example, and operations may depend on which optional tensors are given.
 * Inputs of one axis stay as they are, since each program reads little of them. Conversions alone are not
 * made of f16 and bf16, which matrix units take. */
#define _GNU_SOURCE
#include "passes/tile/launch/converted_inputs.h"
#include "runtime/launch/pitch.h"

/* Whether the parameter may be an input that is converted, by its type and axes. */
static bool may_be_converted(const KernelParam *q)
{ return q->kind == PARAM_IN && q->rank >= 2 && q->dtype != DT_F16 && q->dtype != DT_BF16; }

static bool may_be_computed(const KernelParam *q) { return q->kind == PARAM_IN && q->rank >= 2; }

/* --- the constants of a launch ------------------------------------------------------------------------ */

static size_t fact_words(const tile_kernel *k)
{ return (size_t)k->n_key_dims + (size_t)(k->n_params + 63) / 64; }

static void facts_of_key(const tile_kernel *k, const uint64_t *key, uint64_t *facts)
{
    uint64_t *given = facts + k->n_key_dims;
    memset(facts, 0, fact_words(k) * sizeof *facts);
    memcpy(facts, key + 1 + (k->n_dims + 63) / 64, (size_t)k->n_key_dims * sizeof *facts);
    for (int i = 0; i < k->n_params; i++) given[i / 64] |= (uint64_t)kernel_key_gives(k, key, i) << i % 64;
}

static void facts_of_launch(const tile_kernel *k, const LaunchArgs *l, uint64_t *facts)
{
    uint64_t *given = facts + k->n_key_dims, *at = facts;
    memset(facts, 0, fact_words(k) * sizeof *facts);
    for (int d = 0; d < k->n_dims; d++)
        if (k->dims[d].key) *at++ = (uint64_t)l->dims[d];
    for (int i = 0; i < k->n_params; i++)
        given[i / 64] |= (uint64_t)!(l->views[i].facts & FACT_ABSENT) << i % 64;
}

static ConvertedForm *form_of(const tile_kernel *k, const uint64_t *facts)
{
    ConvertedForm *f = atomic_load_explicit(&k->converted_form, memory_order_acquire);
    while (f && memcmp(f->facts, facts, fact_words(k) * sizeof *facts)) f = f->older;
    return f;
}

/* --- what is found ------------------------------------------------------------------------------------ */

static bool may_have_form(const tile_kernel *k)
{
    if (!k->front->products || k->converted) return false;
    CompileOptions o = kernel_compile_options(k);
    PassSet skip = pass_set_of(o.passes.skip);
    if (o.passes.approx || o.passes.ftz || o.passes.passes || o.passes.opt_level < 1 ||
        pass_in(&skip, PASS_SPECIALIZE))
        return false;
    for (int i = 0; i < k->n_params; i++)
        if (may_be_computed(&k->params[i])) return true;
    return false;
}

bool converted_possible(const tile_kernel *k, const LaunchArgs *l)
{
    uint64_t facts[fact_words(k) + 1];
    facts_of_launch(k, l, facts);
    const ConvertedForm *f = form_of(k, facts);
    return f ? f->kernel != NULL : may_have_form(k);
}

const ComputedInput *converted_by_operations(const ConvertedForm *f, int param)
{
    for (int i = 0; i < f->n_computed; i++)
        if (f->computed[i].from[0].param == param) return &f->computed[i];
    return NULL;
}

typedef struct Finding {
    tile_kernel *k;
    const uint64_t *key;
    ConvertedForm *form; /* NULL: there was no memory for it */
} Finding;

/* Whether one of the inputs is converted or computed already. */
static bool is_taken(const ConvertedForm *f, const ComputedInput *c)
{
    for (int i = 0; i < c->n; i++) {
        if (f->to[c->from[i].param] != DT_COUNT) return true;
        for (int k = 0; k < f->n_computed; k++)
            for (int j = 0; j < f->computed[k].n; j++)
                if (f->computed[k].from[j].param == c->from[i].param) return true;
    }
    return false;
}

/* Gives dimensions their numbers in the kernel. False: one of them is none of the kernel's. */
static bool dims_of_kernel(const tile_kernel *k, const Func *f, ComputedInput *c)
{
    for (int i = 0; i < c->n; i++) {
        int d = 0;
        if (c->from[i].dim < 0) continue;
        const char *name = f->dims[c->from[i].dim].name;
        while (d < k->front->n_dims && (!name || strcmp(k->dims[d].name, name))) d++;
        if (d == k->front->n_dims) return false;
        c->from[i].dim = d;
    }
    return true;
}

/* What is computed, from the tile IR. The statements stay in the memory of the session. An input of which
 * whole rows can be computed is not converted alone, which would leave the rest to the kernel:
 * converted_inputs.c takes its type for that of these rows. */
static void find_computed(Session *s, Func *f, const tile_kernel *k, ConvertedForm *form)
{
    for (int i = 0; i < k->n_params; i++) {
        if (f->params[i].kind != PARAM_IN || f->params[i].type->rank < 2) continue;
        ComputedInput c = input_computed(s, f, i);
        if (c.to == DT_COUNT || (form->to[i] != DT_COUNT && !c.columns)) continue;
        form->to[i] = DT_COUNT;
        if (form->n_computed == MOST_PITCHED || is_taken(form, &c) || !dims_of_kernel(k, f, &c)) continue;
        form->to[i] = c.to;
        form->computed[form->n_computed++] = c;
    }
}

/* The form with its constants and statements behind its types; NULL: there is no memory for it. */
static ConvertedForm *form_copy(tile_kernel *k, const uint64_t *key, const ConvertedForm *f)
{
    size_t head = sizeof *f + (size_t)k->n_params * sizeof(DType), own = fact_words(k) * sizeof(uint64_t),
           facts = (head + 7) / 8 * 8, bytes = facts + own;
    for (int i = 0; i < f->n_computed; i++) bytes += strlen(f->computed[i].body) + 1;
    ConvertedForm *made = context_alloc(k->context, bytes);
    if (!made) return NULL;
    memcpy(made, f, head);
    made->bytes = bytes;
    made->facts = (uint64_t *)((char *)made + facts);
    facts_of_key(k, key, (uint64_t *)((char *)made + facts));
    char *at = (char *)made + facts + own;
    for (int i = 0; i < f->n_computed; i++) {
        made->computed[i].body = strcpy(at, f->computed[i].body);
        at += strlen(at) + 1;
    }
    return made;
}

static tile_status find_types(Session *s, void *finding)
{
    Finding *q = finding;
    Func *f = NULL;
    size_t n;
    int n_params = q->k->n_params;
    CompileOptions o = compile_options_default(q->k->context->target);
    o.passes.passes = "inline,check"; /* what runs before specialize, which converts */
    ConvertedForm *form = arena_calloc(&s->arena, 1, sizeof *form + (size_t)n_params * sizeof(DType));
    const FrontBinding *b = variant_bindings(q->k, q->key, &s->arena, &n);
    if (converted_read(q->k, s, b, n, form)) {
        q->form = form_copy(q->k, q->key, form);
        return TILE_OK;
    }
    *form = (ConvertedForm){ 0 }; /* what was read of an entry that cannot be used */
    Ast *ast = module_parse(q->k->module, s);
    bool lowered = ast && compile_to_ir(&(CompileJob){ s, ast, q->k->name, b, n, NULL, &o }, NULL, &f);
    for (int i = 0; i < n_params; i++)
        form->to[i] = lowered && may_be_converted(&q->k->params[i]) ? input_converted_to(f, i) : DT_COUNT;
    if (lowered) {
        find_computed(s, f, q->k, form);
        converted_write(q->k, s, b, n, form);
    }
    q->form = form_copy(q->k, q->key, form);
    return TILE_OK;
}

static void form_free(tile_context *c, ConvertedForm *f)
{
    if (!f) return;
    pitch_close_converter(c, f);
    tile_kernel_destroy(f->kernel);
    context_free(c, f, f->bytes);
}

static tile_status form_new(tile_kernel *k, const uint64_t *key, ConvertedForm **out)
{
    Finding q = { k, key, NULL };
    tile_status st = context_in_session(k->context, k->title, find_types, &q);
    ConvertedForm *f = *out = q.form;
    if (!f) return st ? st : context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    bool found = false;
    for (int i = 0; i < k->n_params; i++) found |= f->to[i] != DT_COUNT;
    st = found ? kernel_create_converted(k, f->to, &f->kernel) : TILE_OK;
    if (st == TILE_ERROR_OUT_OF_MEMORY) {
        form_free(k->context, f);
        *out = NULL;
        return st;
    }
    if (st) f->kernel = NULL;
    return TILE_OK;
}

tile_status converted_form(tile_kernel *k, const uint64_t *key, ConvertedForm **out)
{
    uint64_t facts[fact_words(k) + 1];
    *out = NULL;
    if (!may_have_form(k)) return TILE_OK;
    facts_of_key(k, key, facts);
    ConvertedForm *f = form_of(k, facts), *made;
    if (!f) {
        tile_status st = form_new(k, key, &made);
        if (st) return st;
        made->older = atomic_load(&k->converted_form);
        while (!(f = form_of(k, facts)) &&
               !atomic_compare_exchange_strong(&k->converted_form, &made->older, made));
        if (f) form_free(k->context, made);
        else f = made;
    }
    *out = f->kernel ? f : NULL;
    return TILE_OK;
}

void converted_close(tile_kernel *k)
{
    for (ConvertedForm *f = atomic_load(&k->converted_form), *older; f; f = older) {
        older = f->older;
        form_free(k->context, f);
    }
}
