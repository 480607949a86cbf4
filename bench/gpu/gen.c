/* gen: a .tile kernel, bound and specialized as a launch with contiguous, aligned tensors would bind it, to
 * CUDA C and a description of the launch for the bench harness.
 *
 *     gen FILE KERNEL TARGET OUT [NAME=VALUE ...] [div:DIM=N ...]
 *         [no:PASS] [with:PASS] [early_start]
 *         [l2:PERCENT] [warps:N] [cluster:N] [cluster_axis:N] [occupancy:N]
 *                                [skip:pass,pass] [schedule:DECISION;DECISION] [pos:SCALAR] [t:TENSOR] [ir]
 *                                    [kernel-ir]
 *
 * Writes OUT.cu and OUT.json. div: gives what an extent is divisible by; tensors are taken as C-contiguous
 * and 16-byte aligned, those of t:NAME with their last two axes exchanged in memory. skip: takes the names of
 * --skip-pass, no: one of them; with: one of --with-pass; in schedule: (docs/schedule.md) "_" stands for a
 * blank. */
#include "bench/gpu/source.h"
#include "backends/gpu/gpu.h"
#include "frontend/frontend.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

static uint32_t import_file(void *dir, Session *s, uint32_t from, const char *path)
{
    size_t n;
    (void)from;
    const char *full = arena_printf(&s->arena, "%s/%s", (const char *)dir, path);
    for (uint32_t i = 1; i < s->sources.len; i++)
        if (!strcmp(s->sources.data[i].name, full)) return i;
    char *t = read_all(full, &n);
    if (!t) return 0;
    uint32_t id = diag_add_source(s, full, dir, t, n);
    free(t);
    return id;
}

/* What a launch with contiguous tensors knows. */
static void facts(Func *f, int argc, char **argv)
{
    for (int d = 0; d < f->n_dims; d++) {
        for (int k = 0; k < argc; k++) {
            const char *eq = strchr(argv[k], '=');
            if (strncmp(argv[k], "div:", 4) || !eq || !f->dims[d].name) continue;
            if (strlen(f->dims[d].name) == (size_t)(eq - argv[k] - 4) &&
                !strncmp(f->dims[d].name, argv[k] + 4, (size_t)(eq - argv[k] - 4)))
                f->dims[d].div = atoll(eq + 1);
        }
    }
    for (int i = 0; i < f->n_params; i++) {
        Param *p = &f->params[i];
        for (int k = 0; k < argc; k++)
            if (!strncmp(argv[k], "pos:", 4) && !strcmp(argv[k] + 4, p->name)) p->lo = 1e-30;
        if (p->type->kind != TYPE_TENSOR) continue;
        p->align = 16;
        bool turned = false;
        for (int k = 0; k < argc; k++) turned |= !strncmp(argv[k], "t:", 2) && !strcmp(argv[k] + 2, p->name);
        int64_t stride = 1, div = 1;
        for (int at = p->type->rank - 1; at >= 0; at--) {
            int a = turned && at >= p->type->rank - 2 ? 2 * p->type->rank - 3 - at : at;
            p->stride[a] = stride > 0 ? stride : FACT_UNKNOWN;
            p->stride_div[a] = div;
            const Dim *d = &f->dims[p->dims[a]];
            stride = stride > 0 && d->extent >= 0 ? stride * d->extent : -1;
            div *= d->extent > 0 ? d->extent : d->extent < 0 ? d->div : 1; /* 0: of a tensor left out */
        }
    }
    f->fits32 = true;
}

static void describe(const Func *f, const GpuCode *c, Text *t, int argc, char **argv)
{
    static const char *const kinds[] = { "data", "extent", "stride", "scalar", "grid", "map", "check",
        "scheduler", "workspace" };
    text_printf(t,
        "{\"name\": \"%s\", \"threads\": %d, \"shared\": %lld, \"persistent\": %s, \"cluster\": %d, "
        "\"early_start\": %s, \"slots\": [",
        c->name, c->threads, (long long)c->shared_bytes, c->persistent ? "true" : "false", c->cluster,
        c->early_start ? "true" : "false");
    for (int k = 0; k < c->n_slots; k++) {
        const Slot *s = &c->slots[k];
        text_printf(t,
            "%s{\"kind\": \"%s\", \"param\": \"%s\", \"index\": %d, \"dim\": \"%s\", \"dtype\": \"%s\"}",
            k ? ", " : "", kinds[s->kind], f->params[s->param].name, s->index,
            s->kind == SLOT_EXTENT && f->dims[s->index].name ? f->dims[s->index].name : "",
            dtype_name(s->dtype));
    }
    text_puts(t, "], \"maps\": [");
    for (int k = 0; k < c->n_maps; k++) {
        const TensorMapDesc *m = &c->maps[k];
        text_printf(t, "%s{\"param\": \"%s\", \"rank\": %d, \"dtype\": \"%s\", \"swizzle\": %d, \"axes\": [",
            k ? ", " : "", f->params[m->param].name, m->rank, dtype_name(m->dtype), m->swizzle_bytes);
        for (int a = 0; a < m->rank; a++) text_printf(t, "%s%d", a ? ", " : "", m->axes[a]);
        text_puts(t, "], \"box\": [");
        for (int a = 0; a < m->rank; a++) text_printf(t, "%s%u", a ? ", " : "", m->box[a]);
        text_puts(t, "], \"step\": [");
        for (int a = 0; a < m->rank; a++) text_printf(t, "%s%u", a ? ", " : "", m->step[a] ? m->step[a] : 1);
        text_puts(t, "]}");
    }
    text_puts(t, "], \"const\": {");
    for (int k = 0, n = 0; k < argc; k++) {
        const char *eq = strchr(argv[k], '=');
        if (eq && !strchr(argv[k], ':'))
            text_printf(t, "%s\"%.*s\": \"%s\"", n++ ? ", " : "", (int)(eq - argv[k]), argv[k], eq + 1);
    }
    text_puts(t, "}}\n");
}

static void write_file(const char *path, const char *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) return;
    fwrite(data, 1, n, f);
    fclose(f);
}

/* What the arguments behind OUT ask for. */
typedef struct Request {
    Session *s;
    const FrontKernel *kernel;
    PassOptions passes;
    KernelOptions options;
    FrontBinding *bindings;
    size_t n_bindings;
    int cluster, cluster_axis, occupancy; /* 0, -1, 0: the kernel's own */
    bool show_ir, show_kernel_ir;
} Request;

/* What stands behind `name` if the argument begins so, else NULL. */
static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) ? NULL : arg + n;
}

static bool add_pass(PassSet *set, const char *arg, const char *name)
{
    PassId id;
    if (!pass_find(name, strlen(name), &id)) {
        fprintf(stderr, "%s: no such pass\n", arg);
        return false;
    }
    pass_add(set, id);
    return true;
}

static void set_schedule(Request *r, const char *decisions)
{
    char *text = arena_strndup(&r->s->arena, decisions, strlen(decisions));
    for (char *c = text; *c; c++)
        if (*c == '_') *c = ' ';
    r->options.schedule = text;
    r->options.schedule_name = "schedule";
}

/* NAME=VALUE; a name that the kernel does not have is reported and left out. */
static void bind(Request *r, const char *arg, const char *eq)
{
    FrontBinding *b = &r->bindings[r->n_bindings];
    const char *why = NULL;
    b->name = arena_strndup(&r->s->arena, arg, (size_t)(eq - arg));
    if (frontend_parse_value(r->s, r->kernel, b->name, eq + 1, &b->value, &why)) r->n_bindings++;
    else fprintf(stderr, "%s: %s\n", arg, why ? why : "no such name");
}

/* False, with a message, for a pass that does not exist. What `facts` reads is left to it. */
static bool read_argument(Request *r, const char *arg)
{
    const char *v, *eq = strchr(arg, '=');
    if ((v = value_of(arg, "no:"))) return add_pass(&r->options.skip, arg, v);
    if ((v = value_of(arg, "with:"))) return add_pass(&r->options.with, arg, v);
    if ((v = value_of(arg, "schedule:"))) set_schedule(r, v);
    else if ((v = value_of(arg, "l2:"))) r->options.l2_percent = atoi(v);
    else if ((v = value_of(arg, "warps:"))) r->options.warps = atoi(v);
    else if ((v = value_of(arg, "cluster:"))) r->cluster = atoi(v);
    else if ((v = value_of(arg, "cluster_axis:"))) r->cluster_axis = atoi(v);
    else if ((v = value_of(arg, "occupancy:"))) r->occupancy = atoi(v);
    else if (!strcmp(arg, "early_start")) r->options.early_start = true;
    else if (!strcmp(arg, "ir")) r->show_ir = true;
    else if (!strcmp(arg, "kernel-ir")) r->show_kernel_ir = true;
    else if (eq && !value_of(arg, "div:") && !value_of(arg, "skip:")) bind(r, arg, eq);
    return true;
}

static bool read_arguments(Request *r, const Target *target, int argc, char **argv)
{
    r->passes = pass_options_default(target);
    r->passes.verify_each = true;
    for (int i = 0; i < argc; i++)
        if (value_of(argv[i], "skip:")) r->passes.skip = value_of(argv[i], "skip:");
    r->options = kernel_options_of(&r->passes);
    r->bindings = arena_array(&r->s->arena, FrontBinding, (size_t)argc + 1);
    for (int i = 0; i < argc; i++)
        if (!read_argument(r, argv[i])) return false;
    return true;
}

static void set_hints(Func *f, const Request *r)
{
    if (r->cluster) f->hints.cluster = r->cluster;
    if (r->cluster_axis >= 0) f->hints.cluster_axis = r->cluster_axis + 1;
    if (r->occupancy) f->hints.occupancy = r->occupancy;
}

static void show(Session *s, const Module *m)
{
    Text out;
    text_init(&out, &s->arena);
    ir_print(m, &out);
    fputs(out.data, stdout);
}

/* The exit status; what is wrong is among the session's diagnostics. */
static int generate(Session *s, Ast *ast, int argc, char **argv)
{
    const Target *target = target_find(argv[3]);
    const FrontKernel *kernel = ast && frontend_check(ast) ? frontend_kernel_find(ast, argv[2]) : NULL;
    Request r = { .s = s, .kernel = kernel, .cluster_axis = -1 };
    if (!target) fprintf(stderr, "%s: no such target\n", argv[3]);
    else if (!kernel && !s->n_errors) fprintf(stderr, "%s: no such kernel\n", argv[2]);
    if (!kernel || !target) return 1;
    if (!read_arguments(&r, target, argc - 5, argv + 5)) return 2;
    Module *m = frontend_lower(ast, argv[2], r.bindings, r.n_bindings, argv[3]);
    Func *f = m ? ir_func_find(m, argv[2]) : NULL, *lowered = NULL;
    if (!f) return 1;
    facts(f, argc - 5, argv + 5);
    set_hints(f, &r);
    if (!passes_run(m, &r.passes, NULL)) return 1;
    if (r.show_ir) show(s, m);
    GpuCode code;
    bool ok = gpu_compile(s, f, target, &r.options, &code, &lowered);
    if (r.show_kernel_ir && lowered) show(s, lowered->module);
    if (!ok) return 1;
    Text description;
    text_init(&description, &s->arena);
    describe(f, &code, &description, argc - 5, argv + 5);
    write_file(arena_printf(&s->arena, "%s.cu", argv[4]), code.text, code.text_len);
    write_file(arena_printf(&s->arena, "%s.json", argv[4]), description.data, description.len);
    return 0;
}

static void print_diagnostics(Session *s)
{
    s->arena.on_oom = &s->oom;
    if (setjmp(s->oom)) return;
    Text text;
    text_init(&text, &s->arena);
    diag_render_all(s, &text);
    fputs(text.data, stderr);
}

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    size_t n;
    char *text = read_all(argv[1], &n);
    if (!text) {
        fprintf(stderr, "cannot read %s\n", argv[1]);
        return 2;
    }
    Session s;
    session_init(&s, allocator_libc);
    volatile int status = 1;
    if (!setjmp(s.oom)) {
        char *slash = strrchr(argv[1], '/'),
             *dir = slash ? arena_strndup(&s.arena, argv[1], (size_t)(slash - argv[1])) : ".";
        uint32_t source = diag_add_source(&s, argv[1], dir, text, n);
        status = generate(&s, frontend_parse(&s, source, import_file, dir), argc, argv);
    }
    print_diagnostics(&s);
    session_free(&s);
    free(text);
    return status;
}
