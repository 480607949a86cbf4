/* table.c: configurations of a tuning table for variants that are compiled ahead of time (--table). */
#include "tools/tilec/compile/table.h"
#include "runtime/tune/tune.h"
#include <math.h>

static const FrontValue *value_of(const FrontKernel *k, const FrontBinding *b, size_t n, const char *name)
{
    for (size_t i = n; i-- > 0;)
        if (!strcmp(b[i].name, name)) return &b[i].value;
    for (int i = 0; i < k->n_params; i++)
        if (k->params[i].kind >= FRONT_CONST && !strcmp(k->params[i].name, name) &&
            k->params[i].default_value.kind != FRONT_NOTHING)
            return &k->params[i].default_value;
    return NULL;
}

static bool is_dim(const FrontKernel *k, const char *name)
{
    for (int i = 0; i < k->n_dims; i++)
        if (!strcmp(k->dims[i], name)) return true;
    return false;
}

/* The distance of the entry from the variant in the extents that both know, in powers of two; below 0: the
 * entry is for another variant, or chooses another value than was bound. */
static double distance(const TuneEntry *e, const FrontKernel *k, const FrontBinding *b, size_t n)
{
    double sum = 0;
    for (int i = 0; i < e->n_key; i++) {
        const FrontValue *mine = value_of(k, b, n, e->key[i].name), *its = &e->key[i].value;
        if (!is_dim(k, e->key[i].name)) {
            if (!mine || !tune_same_value(mine, its)) return -1;
        } else if (mine && mine->kind == FRONT_INT && its->kind == FRONT_INT && mine->i > 0 && its->i > 0)
            sum += fabs(log2((double)mine->i / (double)its->i));
    }
    for (int i = 0; i < e->n_config; i++)
        for (size_t j = 0; j < n; j++)
            if (!strcmp(b[j].name, e->config[i].name) && !tune_same_value(&b[j].value, &e->config[i].value))
                return -1;
    return sum;
}

bool table_read(Input *in, TuneFile *out)
{
    const char *path = args_last(in->args, FLAG_TABLE, NULL);
    FileText text;
    *out = (TuneFile){ NULL, 0 };
    if (!path) return true;
    if (!file_read(in->tool, path, 16 << 20, &text)) {
        diag_error(&in->session, (Loc){ 0 }, "no table");
        return false;
    }
    return tune_parse(&in->session, diag_add_source(&in->session, path, NULL, text.data, text.len), out);
}

static bool names(const FrontBinding *b, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(b[i].name, name)) return true;
    return false;
}

void table_apply(Input *in, const TuneFile *table, Variant *v)
{
    Strings targets = args_list(in->tool, in->args, FLAG_TARGET);
    const TuneEntry *best = NULL;
    for (size_t t = 0; t < (targets.len ? targets.len : 1) && !best; t++) {
        const char *target = targets.len ? targets.data[t] : "cpu";
        double least = INFINITY;
        for (int i = 0; i < table->n; i++) {
            const TuneEntry *e = &table->entries[i];
            double d = strcmp(e->kernel, v->kernel->name) || (*e->target && strcmp(e->target, target))
                           ? -1
                           : distance(e, v->kernel, v->bindings, v->n);
            if (d >= 0 && d < least) {
                least = d;
                best = e;
            }
        }
    }
    if (!best) return;
    FrontBinding *b = arena_array(&in->session.arena, FrontBinding, v->n + (size_t)best->n_config + 1);
    size_t n = v->n;
    memcpy(b, v->bindings, n * sizeof *b);
    for (int i = 0; i < best->n_config; i++)
        if (!names(v->bindings, v->n, best->config[i].name))
            b[n++] = (FrontBinding){ best->config[i].name, best->config[i].value };
    v->n_config = n - v->n;
    v->bindings = b;
    v->n = n;
}
