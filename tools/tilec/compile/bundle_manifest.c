/* bundle_manifest.c: k.json, which describes a bundle to programs: parameters, and for each variant what it
 * was compiled for, what it asks of its arguments, its grid, and what its code takes of the device. */

#include "tools/tilec/compile/bundle_parts.h"
#include "tools/tilec/json.h"
#include "tools/tilec/compile/machine.h"

static void write_value(Bundle *b, FrontValue v, Text *t)
{
    Text value;
    text_init(&value, &b->in->session.arena);
    frontend_print_value(v, &value);
    if (v.kind == FRONT_TYPE) json_string(t, value.data ? value.data : "");
    else text_puts(t, value.data ? value.data : "null");
}

static void write_parameter(Bundle *b, const FrontParam *p, const Param *q, bool first, Text *t)
{
    static const char *const kinds[] = {
        [FRONT_IN] = "in", [FRONT_OUT] = "out", [FRONT_INOUT] = "inout", [FRONT_SCALAR] = "scalar"
    };
    text_printf(t, "%s\n        { \"name\": \"%s\", \"kind\": \"%s\", \"type\": \"%s\"", first ? "" : ",",
        p->name, kinds[p->kind], dtype_name(q->type->dtype));
    if (p->kind != FRONT_SCALAR) {
        text_puts(t, ", \"shape\": [");
        for (int a = 0; a < p->rank; a++) {
            if (a) text_puts(t, ", ");
            json_string(t, p->dims[a].name ? p->dims[a].name : p->dims[a].text ? p->dims[a].text : "?");
        }
        text_puts(t, "]");
    } else if (p->default_value.kind != FRONT_NOTHING) {
        text_puts(t, ", \"default\": ");
        write_value(b, p->default_value, t);
    }
    text_puts(t, p->optional ? ", \"optional\": true }" : " }");
}

/* What was compiled: title, bindings, promises, and the extents of the grid with its consts. */
static void write_variant(Bundle *b, const Built *v, bool first, Text *t)
{
    static const char *const names[] = { "aligned", "divisible", "positive" };
    const Variant *made = v->made ? v->made : v->variant;
    const FrontKernel *k = made->kernel;
    int n = 0;
    text_printf(t, "%s\n        { \"title\": ", first ? "" : ",");
    json_string(t, made->title);
    text_puts(t, ", \"bindings\": { ");
    for (size_t i = 0; i < made->n; i++) {
        bool later = false;
        for (size_t j = i + 1; j < made->n; j++)
            later |= !strcmp(made->bindings[i].name, made->bindings[j].name);
        if (later) continue;
        text_printf(t, "%s\"%s\": ", n++ ? ", " : "", made->bindings[i].name);
        write_value(b, made->bindings[i].value, t);
    }
    text_puts(t, " }, \"requires\": [");
    n = 0;
    for (int i = 0; i < 3; i++)
        if (v->assume >> i & 1) text_printf(t, "%s\"%s\"", n++ ? ", " : "", names[i]);
    text_puts(t, "], \"grid\": [");
    for (int i = 0; i < k->grid_rank; i++) {
        if (i) text_puts(t, ", ");
        json_string(t, frontend_extent_text(&b->in->session, k, made->bindings, made->n, k->grid[i]));
    }
    text_puts(t, "],\n          ");
}

/* The code of a variant for a GPU. */
static void write_code(const Bundle *b, const Built *v, Text *t)
{
    const MadeEntry *e = &b->entries.data[v->entry];
    const MadeImage *m = &b->images.data[e->image];
    const LaunchShape *shape = &e->artifact->shape;
    static const char *const kinds[] = { "binary", "ptx", "source" };
    text_printf(t,
        "\"target\": \"%s\", \"form\": \"%s\", \"image\": %d, \"bytes\": %zu, \"stored_bytes\": %zu, "
        "\"threads\": %d, \"shared_bytes\": %lld, \"cluster\": %d, \"persistent\": %d",
        m->aim.target->name, kinds[m->aim.kind], m->stored, m->size, m->packed ? m->packed : m->size,
        shape->threads, (long long)shape->shared_bytes, shape->cluster < 1 ? 1 : shape->cluster,
        shape->persistent);
    if (shape->cluster > 1 && shape->persistent)
        text_printf(t, ", \"cluster_axis\": %d", shape->cluster_axis);
    if (shape->clusters > 1) text_printf(t, ", \"clusters\": %d", shape->clusters);
    if (shape->shares > 1) text_printf(t, ", \"shares\": %d", shape->shares);
    if (shape->early_start) text_puts(t, ", \"early_start\": true");
    if (m->registers >= 0)
        text_printf(t, ", \"registers\": %d, \"spill_bytes\": %d", m->registers,
            m->spill_bytes < 0 ? 0 : m->spill_bytes);
    text_puts(t, " }");
}

static void write_cpu_variants(Bundle *b, const char *name, Text *t)
{
    for (size_t i = 0; i < b->cpu_launchers.len; i++) {
        const Launcher *l = &b->cpu_launchers.data[i];
        for (size_t k = 0; !strcmp(l->name, name) && k < l->variants.len; k++) {
            write_variant(b, &l->variants.data[k], k == 0, t);
            text_printf(t, "\"target\": \"%s\", \"cpu\": \"%s\" }", b->cpu->name,
                object_level(b->cpu, l->variants.data[k].level)->cpu);
        }
    }
}

static void write_kernel(Bundle *b, const Launcher *l, bool first, Text *t)
{
    const Func *f = l->variants.data[0].func;
    text_printf(t, "%s\n    { \"kernel\": \"%s\", \"function\": \"%s\",\n      \"parameters\": [",
        first ? "" : ",", l->kernel->name, l->name);
    for (int k = 0, n = 0; k < l->kernel->n_params; k++) {
        const FrontParam *p = &l->kernel->params[k];
        if (p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE) continue;
        write_parameter(b, p, &f->params[n], n == 0, t);
        n++;
    }
    text_puts(t, " ],\n      \"choices\": [");
    for (size_t k = 0; k < l->choices.len; k++)
        text_printf(t, "%s\"%s\"", k ? ", " : "", l->choices.data[k].name);
    text_puts(t, "],\n      \"variants\": [");
    for (size_t k = 0; k < l->variants.len; k++) {
        write_variant(b, &l->variants.data[k], k == 0, t);
        write_code(b, &l->variants.data[k], t);
    }
    text_puts(t, " ],\n      \"cpu_variants\": [");
    write_cpu_variants(b, l->name, t);
    text_puts(t, " ] }");
}

void bundle_write_manifest(Bundle *b, Text *t)
{
    const char *file = strrchr(b->in->path, '/');
    text_puts(t, "{ \"format\": \"tile-bundle-1\", \"source\": ");
    json_string(t, file ? file + 1 : b->in->path);
    text_printf(t, ", \"cpu\": %s,\n  \"kernels\": [", b->cpu ? "true" : "false");
    for (size_t i = 0; i < b->launchers.len; i++) write_kernel(b, &b->launchers.data[i], i == 0, t);
    text_puts(t, " ] }\n");
}
