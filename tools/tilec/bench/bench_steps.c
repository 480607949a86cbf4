/* bench_steps.c: the values that a step of `tilec bench` binds, and what its code being that of another step
 * says about them. */
#include "tools/tilec/bench/bench.h"
#include "frontend/frontend.h"

static bool is_const(const Run *r, const char *name)
{
    const FrontKernel *k = frontend_kernel_find(module_program(r->module), r->kernel_name);
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].kind >= FRONT_CONST && !strcmp(k->params[i].name, name)) return true;
    return false;
}

/* Hints have no meaning on a CPU. They are left out, and noted as the compiler notes what it cannot do. */
static bool leaves_out(Run *r, const char *name, const char *text)
{
    bool out =
        context_target(r->context)->kind == TARGET_CPU && frontend_hint_name(name) && !is_const(r, name);
    size_t used = r->notes ? strlen(r->notes) : 0;
    if (out && r->notes)
        format_text(r->notes + used, CAPTURED - used,
            "performance: %s = %s is left out: hints have no meaning on a CPU\n", name, text);
    return out;
}

/* Replaces the value of a name, or adds it. */
static void put_binding(Run *r, tile_binding *b, size_t *n, const char *name, const char *text)
{
    size_t at = 0;
    if (leaves_out(r, name, text)) return;
    while (at < *n && strcmp(b[at].name, name)) at++;
    b[at] = (tile_binding){ name, TILE_BIND_TEXT, { .text = text } };
    if (at == *n) ++*n;
}

static const char *value_text(Arena *a, const FrontStep *step, int i)
{
    Text t;
    text_init(&t, a);
    frontend_print_value(step->bindings[i].value, &t);
    return t.data;
}

const tile_binding *bench_bindings(Run *r, const FrontStep *step, const char *config, size_t *n)
{
    Arena *a = &r->tool->arena;
    size_t most = r->n_bindings + (size_t)(step ? step->n : 0) + 1;
    for (const char *p = config; *p; p++) most += *p == '=';
    tile_binding *b = arena_array(a, tile_binding, most);
    *n = 0;
    for (size_t i = 0; i < r->n_bindings; i++)
        put_binding(r, b, n, r->bindings[i].name, r->bindings[i].value.text);
    for (int i = 0; step && i < step->n; i++)
        put_binding(r, b, n, step->bindings[i].name, value_text(a, step, i));
    while (*config) {
        size_t name = strcspn(config, "="), end = strcspn(config, ",");
        put_binding(
            r, b, n, arena_strndup(a, config, name), arena_strndup(a, config + name + 1, end - name - 1));
        config += end;
        config += strspn(config, ", ");
    }
    return b;
}

/* The first line "...: performance: TEXT" that `others` has not, without its place; NULL: there is none. */
static const char *new_remark(Arena *a, const char *notes, const char *others)
{
    static const char kind[] = "performance: ";
    for (const char *p = notes; (p = strstr(p, kind)); p += sizeof kind - 1) {
        const char *line = arena_strndup(a, p, strcspn(p, "\n"));
        if (!strstr(others, line)) return line + sizeof kind - 1;
    }
    return NULL;
}

static bool has_value(Arena *a, const FrontStep *step, const char *name, const char *text)
{
    for (int i = 0; i < step->n; i++)
        if (!strcmp(step->bindings[i].name, name)) return !strcmp(value_text(a, step, i), text);
    return false;
}

/* A kernel that the cache holds was compiled without remarks: then the values themselves are named. */
const char *bench_same_remark(Bench *b, Run *r, const BenchRow *row, const BenchRow *same)
{
    Arena *a = &b->tool->arena;
    const FrontStep *mine = b->columns.data[row->column].step, *other = b->columns.data[same->column].step;
    const char *remark = new_remark(a, row->notes, same->notes);
    Text t;
    if (remark || !mine || !other) return remark ? remark : "";
    text_init(&t, a);
    for (int i = 0; i < mine->n; i++) {
        const char *name = mine->bindings[i].name, *text = value_text(a, mine, i);
        if (!has_value(a, other, name, text)) text_printf(&t, "%s%s = %s", t.len ? ", " : "", name, text);
    }
    if (t.len) text_printf(&t, " changes nothing on %s", r->device.target);
    return t.len ? t.data : "";
}
