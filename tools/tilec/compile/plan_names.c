/* plan_names.c: the names of a plan (tools/aot/plan.h), by which a launcher explains what is wrong, and what
 * its variants have in common. */
#include "tools/tilec/compile/plan.h"
#include "runtime/tune/tune.h"

/* The value that a variant's own bindings, without those of a tuning table, give to a name, or NULL. */
static const FrontValue *bound(const Built *b, const char *name)
{
    const Variant *v = b->variant;
    for (size_t i = v->n - v->n_config; i-- > 0;)
        if (!strcmp(v->bindings[i].name, name)) return &v->bindings[i].value;
    return NULL;
}

/* The value that all variants bind the name to, or NULL. */
static const FrontValue *common(const Builts *b, const char *name)
{
    const FrontValue *v = bound(&b->data[0], name);
    for (size_t i = 1; v && i < b->len; i++) {
        const FrontValue *w = bound(&b->data[i], name);
        if (!w || !tune_same_value(v, w)) return NULL;
    }
    return v;
}

int64_t plan_common_extent(const Builts *b, const char *dim)
{
    const FrontValue *v = common(b, dim);
    return v && v->kind == FRONT_INT ? v->i : -1;
}

static void put(Text *t, const char *name) { text_write(t, name, strlen(name) + 1); }

/* The bindings that all variants have, in the order of the first one. */
static FrontBinding *common_bindings(Session *s, const Builts *b, size_t *n)
{
    const Variant *v = b->data[0].variant;
    FrontBinding *out = arena_array(&s->arena, FrontBinding, v->n + 1);
    *n = 0;
    for (size_t i = 0; i < v->n - v->n_config; i++)
        if (common(b, v->bindings[i].name)) out[(*n)++] = v->bindings[i];
    return out;
}

static void put_param(Session *s, const FrontKernel *k, const FrontParam *p, const Param *q,
    const FrontBinding *bindings, size_t n, Text *t)
{
    put(t, p->name);
    put(t, dtype_name(q->type->dtype));
    for (int a = 0; a < p->rank; a++)
        put(t, p->dims[a].name ? p->dims[a].name : frontend_extent_text(s, k, bindings, n, p->dims[a].text));
}

/* A const that is an argument of the launcher has no value yet: it stays a name in extents. */
static const FrontKernel *without_choices(Session *s, const FrontKernel *k, const Choices *choices)
{
    FrontKernel *copy = arena_new(&s->arena, FrontKernel);
    FrontParam *params = arena_array(&s->arena, FrontParam, (size_t)k->n_params + 1);
    *copy = *k;
    copy->params = params;
    for (int i = 0; i < k->n_params; i++) {
        params[i] = k->params[i];
        for (size_t c = 0; c < choices->len; c++)
            if (choices->data[c].param == &k->params[i]) params[i].default_value.kind = FRONT_NOTHING;
    }
    return copy;
}

void plan_write_names(Session *s, const FrontKernel *k, const Builts *b, const Choices *choices, Words *w)
{
    const Func *f = b->data[0].func;
    const Source *file = diag_source(s, 1);
    size_t n;
    const FrontBinding *bindings = common_bindings(s, b, &n);
    const FrontKernel *named = without_choices(s, k, choices);
    Text t;
    text_init(&t, &s->arena);
    put(&t, compile_title(s, k->name, bindings, n));
    for (int i = 0, p = 0; i < k->n_params; i++)
        if (k->params[i].kind != FRONT_CONST && k->params[i].kind != FRONT_CONST_TYPE)
            put_param(s, named, &k->params[i], &f->params[p++], bindings, n, &t);
    for (int d = 0; d < k->n_dims; d++) put(&t, k->dims[d]);
    for (int d = 0; d < k->n_derived; d++)
        put(&t, frontend_extent_text(s, named, bindings, n, k->derived[d]));
    for (size_t c = 0; c < choices->len; c++) put(&t, choices->data[c].name);
    put(&t, file ? file->name : "");
    for (size_t i = 0; i < b->len; i++)
        for (int m = 0; m < b->data[i].artifact->n_messages; m++) put(&t, b->data[i].artifact->messages[m]);
    for (size_t at = 0; at < t.len; at += 8) {
        uint64_t word = 0;
        for (size_t i = 0; i < 8 && at + i < t.len; i++)
            word |= (uint64_t)(unsigned char)t.data[at + i] << 8 * i;
        vec_push(&s->arena, w, (int64_t)word);
    }
}
