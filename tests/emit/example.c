/* example.c: see example.h. */
#include "tests/emit/example.h"
#include "passes/passes.h"
#include <stdio.h>

char *read_text(Session *s, const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    char chunk[4096];
    size_t got;
    Text t;
    if (!f) return NULL;
    text_init(&t, &s->arena);
    text_puts(&t, "");
    while ((got = fread(chunk, 1, sizeof chunk, f)) > 0) text_write(&t, chunk, got);
    fclose(f);
    *len = t.len;
    return t.data;
}

Ast *example_parse(Session *s, const char *path)
{
    size_t len;
    const char *text = read_text(s, path, &len), *base = strrchr(path, '/');
    if (!text) {
        diag_error(s, (Loc){ 0 }, "cannot read %s", path);
        return NULL;
    }
    Ast *ast = frontend_parse(s, diag_add_source(s, base ? base + 1 : path, NULL, text, len), NULL, NULL);
    return frontend_check(ast) ? ast : NULL;
}

static void launch_facts(Func *f)
{
    for (int i = 0; i < f->n_params; i++) {
        Param *p = &f->params[i];
        if (p->kind == PARAM_SCALAR) {
            if (dtype_is_float(p->type->dtype)) p->lo = 1e-30; /* scales are positive at most launches */
            continue;
        }
        int size = dtype_bytes(p->type->dtype), rank = p->type->rank;
        p->align = size > 16 ? size : 16;
        for (int a = 0; a < rank; a++) {
            if (a == rank - 1) p->stride[a] = 1;
            else p->stride_div[a] = size < 16 ? 16 / size : 1;
        }
    }
    for (int d = 0; d < f->n_dims; d++)
        if (f->dims[d].extent < 0) f->dims[d].div = 16;
    f->fits32 = true;
}

Func *example_lower(
    Session *s, Ast *ast, const char *kernel, const FrontBinding *b, size_t n, const Target *t, bool special)
{
    Module *m = frontend_lower(ast, kernel, b, n, t->name);
    Func *f = m ? ir_func_find(m, kernel) : NULL;
    if (!f) return NULL;
    if (special) launch_facts(f);
    PassOptions o = pass_options_default(t);
    o.verify_each = true;
    return passes_run(m, &o, NULL) ? ir_func_find(m, kernel) : NULL;
}

bool example_bind(Session *s, const FrontKernel *k, const char *text, FrontBinding *out)
{
    const char *eq = strchr(text, '='), *why = "not NAME=VALUE";
    if (eq) {
        out->name = session_intern(s, text, (size_t)(eq - text));
        if (frontend_parse_value(s, k, out->name, eq + 1, &out->value, &why)) return true;
    }
    fprintf(stderr, "-D %s: %s\n", text, why);
    return false;
}

bool example_instance(const FrontInstance *x, int64_t k, FrontBinding *out)
{
    for (int d = x->n; d-- > 0;) {
        out[d] = (FrontBinding){ x->domains[d].name, x->domains[d].values[k % x->domains[d].n] };
        k /= x->domains[d].n;
    }
    return k == 0;
}
