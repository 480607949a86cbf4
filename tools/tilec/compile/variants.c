/* variants.c: which variants of the kernels are compiled: the products of what the file's `instantiate`
 * lines, -D and the optional tensors say. */
#include "tools/tilec/run/input.h"
#include "tools/tilec/compile/table.h"

enum { MAX_VARIANTS = 4096 };

/* One `-D NAME=A,B` as far as it concerns a kernel. */
typedef struct Define {
    const char *name;
    Strings texts;
    bool used;
} Define;
typedef VEC(Define) Defines;

/* -D names, each with its values. */
static void read_defines(Input *in, Defines *defines)
{
    Arena *a = &in->session.arena;
    const Strings *given = &in->args->flag[FLAG_DEFINE];
    for (size_t i = 0; i < given->len; i++) {
        /* There is one, because the command has checked it. */
        const char *text = given->data[i], *eq = strchr(text, '=');
        Define d = { arena_strndup(a, text, (size_t)(eq - text)), { 0 }, false };
        for (const char *v = eq + 1;; v++) {
            size_t n = strcspn(v, ",");
            vec_push(a, &d.texts, arena_strndup(a, v, n));
            v += n;
            if (!*v) break;
        }
        vec_push(a, defines, d);
    }
}

static bool knows(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_params; i++)
        if (!strcmp(k->params[i].name, name))
            return k->params[i].kind == FRONT_CONST || k->params[i].kind == FRONT_CONST_TYPE ||
                   k->params[i].optional;
    for (int i = 0; i < k->n_dims; i++)
        if (!strcmp(k->dims[i], name)) return true;
    return frontend_hint_name(name);
}

typedef VEC(FrontDomain) Domains;
typedef VEC(const FrontInstance *) Lines;

/* The -Ds that the kernel knows. */
static bool given_domains(Input *in, const FrontKernel *k, Defines *defines, Domains *given)
{
    Session *s = &in->session;
    for (size_t d = 0; d < defines->len; d++) {
        Define *def = &defines->data[d];
        if (!knows(k, def->name)) continue;
        def->used = true;
        FrontValue *values = arena_array(&s->arena, FrontValue, def->texts.len);
        for (size_t v = 0; v < def->texts.len; v++) {
            const char *why = "no such value";
            if (frontend_parse_value(s, k, def->name, def->texts.data[v], &values[v], &why)) continue;
            diag_error(s, (Loc){ 0 }, "-D %s=%s: %s", def->name, def->texts.data[v], why);
            return false;
        }
        vec_push(&s->arena, given, ((FrontDomain){ def->name, (int)def->texts.len, values, { 0 } }));
    }
    return true;
}

static const FrontDomain *domain_of(const FrontDomain *all, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(all[i].name, name)) return &all[i];
    return NULL;
}

static bool lists(const FrontInstance *line, const char *name, const FrontValue *v)
{
    const FrontDomain *d = domain_of(line->domains, (size_t)line->n, name);
    for (int i = 0; d && i < d->n; i++)
        if (tune_same_value(&d->values[i], v)) return true;
    return false;
}

/* A -D chooses among the lines of `instantiate`: those that list one of its values, if there are such. free:
 * of each value, that none does. */
static void choose_lines(const FrontDomain *d, Lines *lines, bool *free)
{
    size_t n = 0;
    bool all_free = true;
    for (int v = 0; v < d->n; v++) {
        free[v] = true;
        for (size_t i = 0; i < lines->len; i++) free[v] &= !lists(lines->data[i], d->name, &d->values[v]);
        all_free &= free[v];
    }
    for (size_t i = 0; !all_free && i < lines->len; i++) {
        bool listed = false;
        for (int v = 0; v < d->n; v++) listed |= lists(lines->data[i], d->name, &d->values[v]);
        if (listed) lines->data[n++] = lines->data[i];
    }
    if (!all_free) lines->len = n;
}

/* Its values for this line: without those that are another's. */
static FrontDomain for_line(Arena *a, const FrontDomain *d, const FrontInstance *line, const bool *free)
{
    FrontValue *values = arena_array(a, FrontValue, (size_t)d->n);
    int n = 0;
    for (int v = 0; v < d->n; v++)
        if (free[v] || lists(line, d->name, &d->values[v])) values[n++] = d->values[v];
    return (FrontDomain){ d->name, n, values, d->loc };
}

static bool already(const Variants *list, const FrontKernel *k, const char *title)
{
    for (size_t i = 0; i < list->len; i++)
        if (list->data[i].kernel == k && !strcmp(list->data[i].title, title)) return true;
    return false;
}

/* Optional tensors that nothing binds: with them and without. */
static void add_presence(Input *in, const FrontKernel *k, Domains *domains)
{
    static const FrontValue both[] = { { FRONT_BOOL, { .b = true } }, { FRONT_BOOL, { .b = false } } };
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].optional && !domain_of(domains->data, domains->len, k->params[i].name))
            vec_push(&in->session.arena, domains, ((FrontDomain){ k->params[i].name, 2, both, { 0 } }));
}

/* The product of the domains, the last fastest. */
static bool add_product(Input *in, const FrontKernel *k, Domains *domains, Variants *list)
{
    Session *s = &in->session;
    int64_t total = 1;
    add_presence(in, k, domains);
    for (size_t d = 0; d < domains->len; d++)
        if (__builtin_mul_overflow(total, domains->data[d].n, &total) || total > MAX_VARIANTS) {
            diag_error(s, k->loc, "kernel `%s` would have more than %d variants", k->name, MAX_VARIANTS);
            return false;
        }
    for (int64_t i = 0; i < total; i++) {
        FrontBinding *b = arena_array(&s->arena, FrontBinding, domains->len + 1);
        int64_t rest = i;
        for (size_t d = domains->len; d-- > 0; rest /= domains->data[d].n)
            b[d] =
                (FrontBinding){ domains->data[d].name, domains->data[d].values[rest % domains->data[d].n] };
        const char *title = compile_title(s, k->name, b, domains->len);
        if (!already(list, k, title)) vec_push(&s->arena, list, ((Variant){ k, b, domains->len, 0, title }));
    }
    return true;
}

static bool add_kernel(Input *in, const FrontKernel *k, Defines *defines, Variants *list)
{
    Arena *a = &in->session.arena;
    Domains given = { 0 };
    Lines lines = { 0 };
    if (!given_domains(in, k, defines, &given)) return false;
    for (int i = 0; i < frontend_instance_count(in->ast); i++)
        if (!strcmp(frontend_instance(in->ast, i)->kernel, k->name))
            vec_push(a, &lines, frontend_instance(in->ast, i));
    if (!lines.len) return add_product(in, k, &given, list);
    bool **free = arena_array(a, bool *, given.len);
    for (int p = 0; p <= k->n_params; p++) /* In the order of its parameters, because types come first. */
        for (size_t d = 0; d < given.len; d++) {
            if (free[d] || (p < k->n_params && strcmp(k->params[p].name, given.data[d].name))) continue;
            free[d] = arena_array(a, bool, (size_t)given.data[d].n);
            choose_lines(&given.data[d], &lines, free[d]);
        }
    for (size_t i = 0; i < lines.len; i++) {
        const FrontInstance *line = lines.data[i];
        Domains all = { 0 };
        for (int d = 0; d < line->n; d++)
            if (!domain_of(given.data, given.len, line->domains[d].name)) vec_push(a, &all, line->domains[d]);
        for (size_t d = 0; d < given.len; d++) vec_push(a, &all, for_line(a, &given.data[d], line, free[d]));
        if (!add_product(in, k, &all, list)) return false;
    }
    return true;
}

static void add_name(Session *s, Strings *names, const char *name)
{
    for (size_t i = 0; i < names->len; i++)
        if (!strcmp(names->data[i], name)) return;
    vec_push(&s->arena, names, name);
}

/* What -D can bind in the kernels that are compiled: `T, N, and hints such as warps`. */
static const char *names_of(Session *s, const Variants *list)
{
    Strings names = { 0 };
    Text text;
    for (size_t v = 0; v < list->len; v++) {
        const FrontKernel *k = list->data[v].kernel;
        for (int i = 0; i < k->n_params; i++)
            if (knows(k, k->params[i].name)) add_name(s, &names, k->params[i].name);
        for (int i = 0; i < k->n_dims; i++) add_name(s, &names, k->dims[i]);
    }
    text_init(&text, &s->arena);
    for (size_t i = 0; i < names.len; i++) text_printf(&text, "%s%s", i ? ", " : "", names.data[i]);
    text_printf(&text, "%shints such as warps", names.len ? ", and " : "");
    return text.data;
}

void input_no_kernel(Input *in, const char *name)
{
    Text names;
    text_init(&names, &in->tool->arena);
    int n = frontend_kernel_count(in->ast);
    for (int i = 0; i < n; i++) text_printf(&names, "%s%s", i ? ", " : "", frontend_kernel(in->ast, i)->name);
    const char *has = n ? names.data : "none";
    if (name) diag_error(&in->session, (Loc){ 0 }, "%s has no kernel `%s`; it has %s", in->path, name, has);
    else if (n) diag_error(&in->session, (Loc){ 0 }, "which kernel? --kernel=NAME, one of %s", has);
    else {
        Diag *d = diag_error(&in->session, (Loc){ 0 }, "%s has no kernel", in->path);
        diag_note(
            &in->session, d, (Loc){ 0 }, "write `kernel name(in f32 X[N], out f32 Y[N]) grid (...) { ... }`");
    }
}

CompileJob input_job(Input *in, const Variant *v, const LaunchFacts *facts, const CompileOptions *o)
{ return (CompileJob){ &in->session, in->ast, v->kernel->name, v->bindings, v->n, facts, o }; }

bool input_variants(Input *in, Variants *list)
{
    Session *s = &in->session;
    Defines defines = { 0 };
    Strings only = args_list(in->tool, in->args, FLAG_KERNEL);
    read_defines(in, &defines);
    for (size_t i = 0; i < only.len; i++)
        if (!frontend_kernel_find(in->ast, only.data[i])) {
            input_no_kernel(in, only.data[i]);
            return false;
        }
    for (int i = 0; i < frontend_kernel_count(in->ast); i++) {
        const FrontKernel *k = frontend_kernel(in->ast, i);
        bool wanted = !only.len && k->loc.file == in->file;
        for (size_t n = 0; n < only.len; n++) wanted |= !strcmp(only.data[n], k->name);
        if (wanted && !add_kernel(in, k, &defines, list)) return false;
    }
    for (size_t d = 0; d < defines.len; d++)
        if (!defines.data[d].used && list->len) {
            diag_error(s, (Loc){ 0 },
                "-D %s: no kernel compiled here has a const, dimension, hint or optional tensor of that "
                "name; there are %s",
                defines.data[d].name, names_of(s, list));
            return false;
        }
    if (!list->len) input_no_kernel(in, NULL);
    TuneFile table;
    if (!table_read(in, &table)) return false;
    for (size_t i = 0; i < list->len; i++) table_apply(in, &table, &list->data[i]);
    return list->len > 0;
}
