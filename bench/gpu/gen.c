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
        Ast *ast = frontend_parse(&s, diag_add_source(&s, argv[1], dir, text, n), import_file, dir);
        const Target *target = target_find(argv[3]);
        FrontBinding b[64];
        size_t nb = 0;
        PassOptions po = pass_options_default(target);
        for (int i = 5; i < argc; i++)
            if (!strncmp(argv[i], "skip:", 5)) po.skip = argv[i] + 5;
        KernelOptions ko = kernel_options_of(&po);
        bool show_ir = false, show_kernel_ir = false;
        int cluster = 0, cluster_axis = -1, occupancy = 0;
        const FrontKernel *k = ast && frontend_check(ast) ? frontend_kernel_find(ast, argv[2]) : NULL;
        for (int i = 5; i < argc && k; i++) {
            char *eq = strchr(argv[i], '=');
            PassId id;
            if (!strncmp(argv[i], "no:", 3) && pass_find(argv[i] + 3, strlen(argv[i] + 3), &id))
                pass_add(&ko.skip, id);
            else if (!strncmp(argv[i], "with:", 5) && pass_find(argv[i] + 5, strlen(argv[i] + 5), &id))
                pass_add(&ko.with, id);
            else if (!strncmp(argv[i], "no:", 3) || !strncmp(argv[i], "with:", 5)) {
                fprintf(stderr, "%s: no such pass\n", argv[i]);
                return 2;
            } else if (!strcmp(argv[i], "early_start")) ko.early_start = true;
            else if (!strncmp(argv[i], "l2:", 3)) ko.l2_percent = atoi(argv[i] + 3);
            else if (!strncmp(argv[i], "skip:", 5)) continue;
            else if (!strncmp(argv[i], "schedule:", 9)) {
                char *text = arena_strndup(&s.arena, argv[i] + 9, strlen(argv[i] + 9));
                for (char *c = text; *c; c++)
                    if (*c == '_') *c = ' ';
                ko.schedule = text;
                ko.schedule_name = "schedule";
            } else if (!strncmp(argv[i], "warps:", 6)) ko.warps = atoi(argv[i] + 6);
            else if (!strncmp(argv[i], "cluster:", 8)) cluster = atoi(argv[i] + 8);
            else if (!strncmp(argv[i], "cluster_axis:", 13)) cluster_axis = atoi(argv[i] + 13);
            else if (!strncmp(argv[i], "occupancy:", 10)) occupancy = atoi(argv[i] + 10);
            else if (!strcmp(argv[i], "ir")) show_ir = true;
            else if (!strcmp(argv[i], "kernel-ir")) show_kernel_ir = true;
            else if (eq && strncmp(argv[i], "div:", 4)) {
                const char *why = NULL;
                b[nb].name = arena_strndup(&s.arena, argv[i], (size_t)(eq - argv[i]));
                if (!frontend_parse_value(&s, k, b[nb].name, eq + 1, &b[nb].value, &why))
                    fprintf(stderr, "%s: %s\n", argv[i], why ? why : "no such name");
                else nb++;
            }
        }
        Module *m = k ? frontend_lower(ast, argv[2], b, nb, argv[3]) : NULL;
        Func *f = m ? ir_func_find(m, argv[2]) : NULL;
        if (f && target) {
            GpuCode code;
            Text out;
            text_init(&out, &s.arena);
            facts(f, argc - 5, argv + 5);
            if (cluster) f->hints.cluster = cluster;
            if (cluster_axis >= 0) f->hints.cluster_axis = cluster_axis + 1;
            if (occupancy) f->hints.occupancy = occupancy;
            po.verify_each = true;
            if (passes_run(m, &po, NULL)) {
                if (show_ir) {
                    ir_print(m, &out);
                    fputs(out.data, stdout);
                    text_init(&out, &s.arena);
                }
                Func *lowered = NULL;
                bool ok = gpu_compile(&s, f, target, &ko, &code, &lowered);
                if (show_kernel_ir && lowered) {
                    ir_print(lowered->module, &out);
                    fputs(out.data, stdout);
                    text_init(&out, &s.arena);
                }
                if (ok) {
                    write_file(arena_printf(&s.arena, "%s.cu", argv[4]), code.text, code.text_len);
                    describe(f, &code, &out, argc - 5, argv + 5);
                    write_file(arena_printf(&s.arena, "%s.json", argv[4]), out.data, out.len);
                    status = 0;
                }
            }
        }
    }
    Text err;
    s.arena.on_oom = &s.oom;
    if (!setjmp(s.oom)) {
        text_init(&err, &s.arena);
        diag_render_all(&s, &err);
        fputs(err.data, stderr);
    }
    session_free(&s);
    free(text);
    return status;
}
