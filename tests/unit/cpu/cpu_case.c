/* cpu_case.c: see cpu_case.h. */
#include "cpu_case.h"
#include "frontend/frontend.h"
#include <stdio.h>
#include <stdlib.h>

char *case_read(const char *directory, const char *name, size_t *len)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.tile", directory, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(1 << 16);
    *len = text ? fread(text, 1, 1 << 16, f) : 0;
    fclose(f);
    return text;
}

/* --- modules and arguments ------------------------------------------------------------------------------------------------- */

static bool lookup(const char *list, const char *name, double *out)
{
    size_t len = strlen(name);
    for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, name, len) && p[len] == '=') { *out = atof(p + len + 1); return true; }
    return false;
}

bool case_lower(Problem *p, const Case *c, const char *text, size_t len)
{
    FrontBinding binds[MAX_BINDS];
    size_t n = 0;
    char all[256], *save = NULL;
    Ast *ast = frontend_parse(&p->s, diag_add_source(&p->s, c->file, NULL, text, len), NULL, NULL);
    if (!ast || !frontend_check(ast)) return false;
    const FrontKernel *k = frontend_kernel_find(ast, c->kernel);
    if (!k) return false;
    snprintf(all, sizeof all, "%s", c->consts);
    for (char *w = strtok_r(all, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        const char *why;
        *strchr(w, '=') = 0;
        binds[n].name = session_intern(&p->s, w, strlen(w));
        if (!frontend_parse_value(&p->s, k, w, w + strlen(w) + 1, &binds[n++].value, &why)) return false;
    }
    for (int x = 0; x < k->n_keys; x++) {
        double v;
        if (!lookup(c->dims, k->keys[x], &v)) continue;
        binds[n].name = k->keys[x];
        binds[n++].value = (FrontValue){ FRONT_INT, { .i = (int64_t)v } };
    }
    p->module = frontend_lower(ast, c->kernel, binds, n, NULL);
    if (!p->module) return false;
    p->func = ir_func_find(p->module, c->kernel);
    return p->func != NULL;
}

static uint64_t random_next(uint64_t *s)
{
    *s += 0x9E3779B97F4A7C15ull;
    uint64_t z = *s;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

static Scalar random_scalar(DType d, uint64_t *seed)
{
    uint64_t r = random_next(seed);
    if (dtype_is_float(d)) return scalar_float(scalar_round(d, (double)(int64_t)(r >> 11) * 0x1p-52 - 1));
    return scalar_int(scalar_wrap(d, (int64_t)(r % 7)));
}

static int64_t extent(const Problem *p, const Case *c, int dim)
{
    double v = -1;
    const Dim *d = &p->func->dims[dim];
    if (d->extent >= 0) return d->extent;
    return d->name && lookup(c->dims, d->name, &v) ? (int64_t)v : -1;
}

bool case_args(Problem *p, const Case *c)
{
    uint64_t seed = 42;
    for (int k = 0; k < p->func->n_params; k++) {
        const Param *q = &p->func->params[k];
        DType d = q->type->dtype;
        double v = 1;
        if (q->kind == PARAM_SCALAR) {
            if (!lookup(c->scalars, q->name, &v)) return false;
            p->args[k].scalar = dtype_is_float(d) ? scalar_float(scalar_round(d, v)) : scalar_int((int64_t)v);
            continue;
        }
        int64_t n = 1;
        for (int a = q->type->rank - 1; a >= 0; a--) {
            int64_t e = extent(p, c, q->dims[a]);
            if (e < 0) { fprintf(stderr, "%s: extent of axis %d of %s unknown\n", c->kernel, a, q->name); return false; }
            p->args[k].shape[a] = e;
            p->args[k].stride[a] = n;
            n *= e;
        }
        p->bytes[k] = (size_t)n * (size_t)dtype_bytes(d);
        p->data[k] = p->args[k].data = aligned_alloc(64, (p->bytes[k] + 64) & ~(size_t)63);
        if (!p->data[k]) return false;
        for (int64_t i = 0; i < n; i++) scalar_store(d, random_scalar(d, &seed), (char *)p->data[k] + i * dtype_bytes(d));
    }
    return true;
}

/* The facts that the launch with these arguments could promise. */
void case_facts(Problem *p, const Case *c)
{
    Func *f = p->func;
    f->fits32 = true;
    for (int d = 0; d < f->n_dims; d++)
        if (f->dims[d].extent < 0) {
            int64_t e = extent(p, c, d), div = 1;
            while (e > 0 && div < 16 && e % (2 * div) == 0) div *= 2;
            f->dims[d].div = div;
        }
    for (int k = 0; k < f->n_params; k++) {
        Param *q = &f->params[k];
        if (q->kind == PARAM_SCALAR && dtype_is_float(q->type->dtype) && p->args[k].scalar.f > 0) q->lo = 0x1p-100;
        if (q->kind == PARAM_SCALAR || q->type->rank == 0) continue;
        q->align = 64;
        q->stride[q->type->rank - 1] = 1;
    }
}

void case_free(Problem *p)
{
    for (int k = 0; k < MAX_ARGS; k++) free(p->data[k]);
    session_free(&p->s);
}

void case_diags(Problem *p)
{
    Text t;
    text_init(&t, &p->s.arena);
    diag_render_all(&p->s, &t);
    fputs(t.data, stderr);
}
