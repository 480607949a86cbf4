/* variant.c: making one variant: from the disk cache, or through the whole compiler; then into the device. */
#define _GNU_SOURCE
#include "runtime/cache/artifact.h"
#include "runtime/launch/making.h"
#include <stdio.h>

const FrontBinding *variant_bindings(const tile_kernel *k, const uint64_t *key, Arena *a, size_t *n)
{
    int row = (int)(key[0] >> 8) - 1, n_config = 0;
    const FrontBinding *config = NULL;
    if (row >= k->n_rows) config = kernel_choice_config(k, row - k->n_rows + 1, &n_config);
    else if (row >= 0) {
        config = k->rows[row].config;
        n_config = k->rows[row].n_config;
    }
    return variant_bindings_with(k, key, config, n_config, a, n);
}

const FrontBinding *variant_bindings_with(
    const tile_kernel *k, const uint64_t *key, const FrontBinding *config, int n_config, Arena *a, size_t *n)
{
    size_t most = (size_t)(k->n_bindings + n_config + k->n_key_dims + k->n_params) + 1;
    FrontBinding *b = arena_array(a, FrontBinding, most);
    memcpy(b, k->bindings, (size_t)k->n_bindings * sizeof *b);
    *n = (size_t)k->n_bindings;
    for (int i = 0; i < n_config; i++) b[(*n)++] = config[i];
    const uint64_t *extents = key + 1 + (k->n_dims + 63) / 64;
    for (int d = 0; d < k->n_dims; d++) {
        /* -1: the dimension belongs only to tensors that are not given */
        int64_t extent = k->dims[d].key ? (int64_t)*extents++ : -1;
        if (extent >= 0) b[(*n)++] = (FrontBinding){ k->dims[d].name, { FRONT_INT, { .i = extent } } };
    }
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional)
            b[(*n)++] =
                (FrontBinding){ k->params[i].name, { FRONT_BOOL, { .b = kernel_key_gives(k, key, i) } } };
    return b;
}

static const char *copy_text(tile_kernel *k, const char *text)
{ return text && *text ? arena_strdup(&k->session.arena, text) : NULL; }

/* The first name of a list that no pass has; NULL: all have one. */
static const char *unknown_pass(tile_kernel *k, const char *list)
{
    PassId id;
    while (list && *list) {
        size_t n = strcspn(list, ",");
        if (n && !pass_find(list, n, &id)) return arena_strndup(&k->session.arena, list, n);
        list += n + (list[n] != 0);
    }
    return NULL;
}

tile_status kernel_set_passes(tile_kernel *k, const KernelPasses *p)
{
    int jumped = setjmp(k->session.oom);
    if (jumped) return context_session_failed(k->context, &k->session, jumped, k->name);
    const char *unknown = unknown_pass(k, p->skip);
    if (!unknown) unknown = unknown_pass(k, p->with);
    if (unknown)
        return context_fail(k->context, TILE_ERROR_NOT_FOUND,
            "no pass is named `%s` (`tilec --help=passes` lists them)", unknown);
    k->passes = (KernelPasses){ copy_text(k, p->skip), copy_text(k, p->with), copy_text(k, p->remap),
        p->approx, p->ftz };
    collapse_open(k);
    return TILE_OK;
}

const Ast *module_program(const tile_module *m) { return m->ast; }
const Target *context_target(const tile_context *c) { return c->target; }

bool context_note_read(const tile_context *c, const char *name, char *out, size_t room)
{
    CacheKey key = cache_note_key(name, strlen(name) + 1);
    return cache_read_text(&c->cache, &key, out, room);
}

void context_note_write(const tile_context *c, const char *name, const char *text)
{
    CacheKey key = cache_note_key(name, strlen(name) + 1);
    cache_write(&c->cache, &key, text, strlen(text));
}

bool kernel_tile_ir(tile_kernel *k, Session *s, const FrontBinding *more, size_t n, Func **out)
{
    CompileOptions o = compile_options_default(k->context->target);
    FrontBinding *b = arena_array(&s->arena, FrontBinding, (size_t)k->n_bindings + n + 1);
    memcpy(b, k->bindings, (size_t)k->n_bindings * sizeof *b);
    memcpy(b + k->n_bindings, more, n * sizeof *b);
    o.passes.opt_level = 1; /* constants are folded, loops stay whole */
    Ast *ast = module_parse(k->module, s);
    CompileJob job = { s, ast, k->name, b, (size_t)k->n_bindings + n, NULL, &o };
    return ast && compile_to_ir(&job, NULL, out);
}

CompileOptions kernel_compile_options(const tile_kernel *k)
{
    CompileOptions o = context_compile_options(k->context);
    const KernelPasses *p = &k->passes;
    o.passes.converted = k->converted;
    if (!p->skip && !p->with && !p->remap && !p->approx && !p->ftz) return o;
    o.passes.skip = p->skip;
    o.passes.with = p->with;
    o.passes.remap = p->remap;
    o.passes.approx = p->approx;
    o.passes.ftz = p->ftz;
    o.passes.any_target = true;
    return o;
}

/* The configuration that is chosen for the variant's key; NULL: there is none. */
static const Choice *chosen_for(const tile_kernel *k, const uint64_t *key)
{
    int row = (int)(key[0] >> 8) - 1;
    return row >= k->n_rows ? kernel_chosen(k, row - k->n_rows + 1) : NULL;
}

static void gather(Making *m)
{
    tile_kernel *k = m->k;
    Arena *a = &m->s->arena;
    m->bindings = variant_bindings(k, m->v->key, a, &m->n_bindings);
    kernel_facts(k, m->v->key, arena_array(a, ParamFacts, (size_t)k->n_params + 1),
        arena_array(a, bool, (size_t)k->n_dims + 1), arena_array(a, int64_t, (size_t)k->n_dims + 1),
        &m->facts);
    m->title = compile_title(m->s, k->name, m->bindings, m->n_bindings);
    m->options = kernel_compile_options(k);
}

void kernel_key_passes(const tile_kernel *k, Text *t)
{
    const KernelPasses *p = &k->passes;
    for (int i = 0; k->converted && i < k->n_params; i++)
        cache_key_text(t, k->converted[i] == DT_COUNT ? "" : dtype_name(k->converted[i]));
    if (!p->skip && !p->with && !p->remap && !p->approx && !p->ftz) return;
    cache_key_text(t, p->skip ? p->skip : "");
    cache_key_text(t, p->with ? p->with : "");
    cache_key_text(t, p->remap ? p->remap : "");
    cache_key_text(t, p->approx ? p->ftz ? "approx ftz" : "approx" : p->ftz ? "ftz" : "");
}

/* Whether warps and CTAs are chosen: where no table's entry, choice or tuner says what to compile. */
static bool searches_programs(const Making *m)
{ return !(m->v->key[0] >> 8) && !m->k->accept && chooses_programs(m->k); }

void making_key(Making *m)
{
    tile_kernel *k = m->k;
    tile_context *c = k->context;
    Text t;
    text_init(&t, &m->s->arena);
    cache_key_text(&t, "tile-code");
    cache_key_text(&t, context_key(c));
    const char *print =
        c->backend->fingerprint ? c->backend->fingerprint(m->s, c->target, &m->options.backend) : NULL;
    cache_key_text(&t, print ? print : "");
    text_write(&t, (const char *)k->module->digest, sizeof k->module->digest);
    cache_key_text(&t, m->title);
    kernel_key_passes(k, &t);
    /* fits32, extents31 and all facts. The row of the table only selected bindings, which are part of the
     * title, but its number costs little. */
    text_write(&t, (const char *)m->v->key, (size_t)k->key_words * 8);
    if (searches_programs(m)) chooser_key_device(k, &t);
    m->cache_key = cache_key(t.data, t.len);
}

/* Copies the artifact's bytes to the variant's own memory, and loads them to the device from there. */
static tile_status adopt(Making *m, const void *bytes, size_t size, DriverError *e)
{
    Variant *v = m->v;
    tile_context *c = m->k->context;
    void *copy = arena_alloc(&v->arena, size);
    memcpy(copy, bytes, size);
    if (!artifact_read(&v->arena, copy, size, &v->compiled)) {
        driver_error(e, "the artifact does not read back");
        return TILE_ERROR_INTERNAL;
    }
    const Artifact *a = &v->compiled.artifact;
    if (v->compiled.n_params != m->k->n_params || a->n_maps > MAX_TENSOR_MAPS ||
        (a->n_maps && !c->driver->ops->tensor_map)) {
        driver_error(e, "the artifact does not fit the kernel");
        return TILE_ERROR_INTERNAL;
    }
    int64_t have = c->driver->info.shared_bytes;
    if (have && a->shape.shared_bytes > have) {
        driver_error(e, "needs %lld bytes of shared memory%s%s; the device has %lld",
            (long long)a->shape.shared_bytes, *a->schedule ? ": " : "", a->schedule, (long long)have);
        return TILE_ERROR_RESOURCES;
    }
    v->needs_counter = v->prints = false;
    for (int i = 0; i < a->n_slots; i++) {
        v->needs_counter |= a->slots[i].kind == SLOT_SCHEDULER;
        v->prints |= a->slots[i].kind == SLOT_PRINT;
    }
    if (v->needs_counter && !context_makes_counters(c)) {
        driver_error(e, "no counters for a persistent kernel");
        return TILE_ERROR_OUT_OF_MEMORY;
    }
    if (a->shape.workspace_per_block)
        context_has_scratch(c); /* makes the pool, outside of a graph's capture */
    double start = clock_ms();
    tile_status st = c->driver->ops->module_load(c->driver, a, &v->module, &v->function, e);
    m->load_ms += clock_ms() - start;
    if (!st) {
        v->title = arena_strdup(&v->arena, m->title);
        memo_prepare(m->k, v);
    }
    return st;
}

static void forget(Variant *v)
{
    jmp_buf *oom = v->arena.on_oom;
    Allocator alloc = v->arena.alloc;
    arena_free(&v->arena);
    arena_init(&v->arena, alloc, oom);
    v->compiled = (Compiled){ 0 };
}

static bool from_cache(Making *m)
{
    tile_context *c = m->k->context;
    const void *bytes;
    size_t size;
    DriverError e = { "", false };
    if ((c->flags & TILE_CONTEXT_NO_CACHE) || c->dump[0] ||
        !cache_read(&c->cache, &m->cache_key, &m->s->arena, &bytes, &size))
        return false;
    if (adopt(m, bytes, size, &e) == TILE_OK) {
        if (!making_is_open(m, &m->v->compiled)) return m->v->from_cache = true;
        c->driver->ops->module_unload(c->driver, m->v->module);
        m->v->module = NULL;
        forget(m->v);
        return false;
    }
    cache_drop(&c->cache, &m->cache_key); /* This library or the device does not accept the entry. */
    forget(m->v);
    return false;
}

/* Handles a binary that the driver refused: tries PTX for the driver's own compiler, then a binary that
 * nvJitLink makes of it. The text has the failure of each step. */
static tile_status other_forms(Making *m, Compiled *text, DriverError *e, const void **bytes, size_t *size)
{
    static const char *const names[] = { [DRIVER_PTX] = "PTX", [DRIVER_LINKED] = "nvJitLink" };
    tile_context *c = m->k->context;
    DriverError all = { "", false };
    tile_status st = TILE_ERROR_DRIVER;
    driver_error(&all, "binary: %s", e->text);
    for (int form = DRIVER_PTX; form < DRIVER_FORMS; form++) {
        DriverError mine = { "", false };
        Compiled compiled = *text;
        st = compile_to_form(m->s, c->driver, &m->options, &compiled, (DriverForm)form, &mine);
        if (!st) {
            artifact_write(m->s, &compiled, bytes, size);
            forget(m->v);
            st = adopt(m, *bytes, *size, &mine);
            if (!st) return TILE_OK;
        }
        size_t n = strlen(all.text);
        format_text(all.text + n, sizeof all.text - n, "; %s: %s", names[form], mine.text);
        if (!st || (!mine.refused && st == TILE_ERROR_OUT_OF_MEMORY)) break;
    }
    *e = all;
    return st == TILE_ERROR_OUT_OF_MEMORY ? st : TILE_ERROR_UNSUPPORTED;
}

static tile_status compile(Making *m)
{
    tile_context *c = m->k->context;
    Compiled compiled, text;
    const void *bytes;
    size_t size;
    Ast *ast = module_parse(m->k->module, m->s);
    if (searches_programs(m)) making_programs(m);
    CompileJob job = making_job(m, ast, &m->options);
    bool ok = ast && compile_kernel(&job, &compiled);
    if (ok && m->k->accept && !m->k->accept(m->k->accept_user, &compiled)) return TILE_ERROR_UNSUPPORTED;
    if (ok && m->k->accept && compiled.artifact.kind == ARTIFACT_TEXT && from_cache(m)) return TILE_OK;
    if (ok && compiled.artifact.kind == ARTIFACT_TEXT && context_debug_has(c, "text")) {
        const Artifact *a = &compiled.artifact;
        context_debug(c, arena_printf(&m->s->arena, "%.*s", (int)a->size, (const char *)a->data), m->title);
    }
    if (ok) {
        double start = clock_ms();
        text = compiled;
        ok = compile_to_binary(m->s, c->driver, &m->options, &compiled) &&
             compile_for_fewer(m, ast, &compiled, &text) && compile_for_other(m, ast, &compiled, &text) &&
             compile_for_more(m, ast, &compiled, &text);
        m->vendor_ms += clock_ms() - start;
    }
    context_report(c, m->s, m->title);
    if (!ok) return TILE_ERROR_COMPILE;
    artifact_write(m->s, &compiled, &bytes, &size);
    DriverError e = { "", false };
    tile_status st = adopt(m, bytes, size, &e);
    if (st && e.refused && text.artifact.kind == ARTIFACT_TEXT) st = other_forms(m, &text, &e, &bytes, &size);
    if (st) return context_fail(c, st, "%s: %s", m->title, e.text);
    if (!(c->flags & TILE_CONTEXT_NO_CACHE) && !m->cut_short)
        cache_write(&c->cache, &m->cache_key, bytes, size);
    return TILE_OK;
}

static tile_status make(Making *m)
{
    tile_context *c = m->k->context;
    gather(m);
    if (!c->backend)
        return context_fail(
            c, TILE_ERROR_UNSUPPORTED, "this build of libtile has no backend for %s", c->target->name);
    making_key(m);
    m->chosen = chosen_for(m->k, m->v->key);
    m->v->other = 0;
    making_recall(m);
    /* A caller that asks for the text gets it first. On the CPU, this is all of the compilation, and the
     * cache comes before it. */
    bool shown = m->k->accept && c->target->kind != TARGET_CPU;
    return !shown && from_cache(m) ? TILE_OK : compile(m);
}

/* Another launch of the same variant reports again what this one reported. */
static void remember(tile_kernel *k, Variant *v)
{
    size_t n = tile_context_error(k->context, NULL, 0) + 1;
    v->error = context_alloc(k->context, n);
    v->error_size = v->error ? n : 0;
    if (v->error) tile_context_error(k->context, v->error, n);
}

typedef struct Make {
    tile_kernel *k;
    const LaunchArgs *l;
    Variant *v;
    bool *permanent;
    tile_status status;
} Make;

static void make_guarded(void *p)
{
    Make *call = p;
    tile_kernel *k = call->k;
    Variant *v = call->v;
    tile_context *c = k->context;
    Session s;
    double start = clock_ms();
    session_init(&s, c->alloc);
    s.binder = BINDER;
    arena_init(&v->arena, c->alloc, &s.oom);
    Making m = { .k = k, .v = v, .s = &s, .launch = call->l };
    int jumped = setjmp(s.oom);
    tile_status st = jumped ? context_session_failed(c, &s, jumped, k->title) : make(&m);
    v->ms = clock_ms() - start;
    if (!st && context_debug_has(c, "time")) {
        char text[200];
        if (v->from_cache) format_text(text, sizeof text, "loaded from the cache in %.2f ms", v->ms);
        else
            format_text(text, sizeof text,
                "compiled in %.2f ms, %.2f of them in the vendor's compiler, %.2f loading", v->ms,
                m.vendor_ms, m.load_ms);
        context_debug(c, text, k->title);
    }
    session_free(&s);
    v->arena.on_oom = NULL; /* The variant is complete, and nothing is added to it any more. */
    if (st) {
        arena_free(&v->arena);
        v->compiled = (Compiled){ 0 };
        v->from_cache = false;
        *call->permanent =
            st == TILE_ERROR_COMPILE || st == TILE_ERROR_RESOURCES || st == TILE_ERROR_INTERNAL;
        if (*call->permanent) remember(k, v);
    }
    call->status = st;
}

tile_status variant_make(tile_kernel *k, const LaunchArgs *l, Variant *v, bool *permanent)
{
    Make call = { k, l, v, permanent, TILE_OK };
    tile_status st = context_on_stack(k->context, make_guarded, &call);
    return st ? st : call.status;
}

void variant_free(tile_kernel *k, Variant *v)
{
    tile_context *c = k->context;
    if (v->title) context_forget(c, v->title);
    if (v->module) c->driver->ops->module_unload(c->driver, v->module);
    arena_free(&v->arena);
    context_free(c, v->error, v->error_size);
    context_free(c, v, v->bytes);
}
