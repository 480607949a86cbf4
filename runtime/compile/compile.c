/* compile.c: see compile.h. */
#include "runtime/compile/compile.h"
#include "ir/analysis/work.h"
#include "runtime/cache/artifact.h"
#include "backends/gpu/check.h"
#include "backends/gpu/gpu.h"
#include "passes/kernel/kernel.h"
#include <math.h>
#include <stdio.h>

CompileOptions compile_options_default(const Target *t)
{
    CompileOptions o = { .target = t, .passes = pass_options_default(t) };
    o.backend.opt_level = 3;
    o.passes.opt_level = 3;
    return o;
}

const char *compile_title(Session *s, const char *kernel, const FrontBinding *b, size_t n)
{
    Text t;
    text_init(&t, &s->arena);
    text_puts(&t, kernel);
    for (size_t i = 0; i < n; i++) {
        bool later = false;
        for (size_t k = i + 1; k < n; k++) later |= !strcmp(b[i].name, b[k].name);
        if (later) continue;
        text_puts(&t, t.len > strlen(kernel) ? ", " : "<");
        text_puts(&t, b[i].name);
        text_putc(&t, '=');
        frontend_print_value(b[i].value, &t);
    }
    if (t.len > strlen(kernel)) text_putc(&t, '>');
    return t.data;
}

void compile_time(const CompileOptions *o, const char *stage, int64_t begin)
{
    if (o->times) text_printf(o->times, "%-14s      %9.3f ms\n", stage, (double)(clock_ns() - begin) * 1e-6);
}

static bool is_call(const void *none, const Instr *i) { return i->op == OP_CALL; }

/* No backend has calls of device functions. */
static bool calls_are_gone(Session *s, const Func *f)
{
    const bool gone = !ir_any_in(f->body, is_call, NULL);
    if (!gone)
        diag_error(s, f->loc,
            "`%s` calls device functions: the pass `inline`, which puts their bodies in, was left out",
            f->name);
    return gone;
}

bool compile_backend(Session *s, Module *m, Func *f, const CompileOptions *o, Artifact *out)
{
    int64_t begin = clock_ns();
    bool ok = calls_are_gone(s, f) &&
              driver_backend(o->target->kind)->compile(s, m, f, o->target, &o->backend, out);
    compile_time(o, o->target->kind == TARGET_CPU ? "code" : "kernel IR, C", begin);
    return ok;
}

static const char *title_of(const CompileJob *j)
{ return compile_title(j->session, j->kernel, j->bindings, j->n_bindings); }

/* Adds to the last error the specialization for which it occurred. */
static void name_specialization(const CompileJob *j)
{
    Diag *last = NULL;
    for (Diag *d = j->session->diags; d; d = d->next)
        if (d->severity == SEV_ERROR) last = d;
    diag_note(j->session, last, (Loc){ 0 }, "while compiling %s", title_of(j));
}

Module *compile_to_ir(const CompileJob *j, PassReport *report, Func **func)
{
    Session *s = j->session;
    const CompileOptions *o = j->options;
    const FrontKernel *k = frontend_kernel_find(j->ast, j->kernel);
    PassReport own = { 0 };
    if (!k) {
        diag_error(s, (Loc){ 0 }, "no kernel is named `%s`", j->kernel);
        return NULL;
    }
    if (o->times && !report) report = &own;
    if (o->times) text_printf(o->times, "%s for %s\n", title_of(j), o->target->name);
    int64_t begin = clock_ns();
    Module *m =
        frontend_lower(j->ast, j->kernel, j->bindings, j->n_bindings, o->target ? o->target->name : NULL);
    compile_time(o, "to tile IR", begin);
    *func = m ? ir_func_find(m, j->kernel) : NULL;
    if (*func && j->facts) launch_facts_promise(*func, k, j->facts, o->passes.converted);
    if (!*func || !passes_run(m, &o->passes, report)) {
        if (!s->n_errors) diag_error(s, k->loc, "kernel `%s` does not compile", j->kernel);
        name_specialization(j);
        return NULL;
    }
    if (o->times) passes_print_times(report, o->times);
    *func = ir_func_find(m, j->kernel);
    if (o->target && o->target->kind == TARGET_CPU && (*func)->hints.occupancy > 0)
        diag_perf(s, k->loc, "occupancy = %d: a CPU has no multiprocessors that programs share",
            (int)(*func)->hints.occupancy);
    return m;
}

static const EvalCode *host_code(Session *s, Func *f, Block *block, const char *what)
{
    const char *why = NULL;
    const EvalCode *code = eval_compile(&s->arena, f, block, &why);
    if (!code) diag_error(s, f->loc, "the %s of `%s` cannot be evaluated at launch: %s", what, f->name, why);
    return code;
}

/* Records the code that a launch evaluates before any program runs. False after diagnostics. */
static bool host_blocks(Session *s, Func *f, Compiled *out)
{
    out->grid = host_code(s, f, f->grid, "grid");
    if (f->extents) out->extents = host_code(s, f, f->extents, "extents");
    return out->grid && (!f->extents || out->extents);
}

int compiled_derive(const Compiled *c, const EvalEnv *env, int64_t *dims)
{
    int64_t value[EVAL_MAX_RESULTS];
    int other = -1;
    if (!c->extents) return -1;
    if (!eval_run(c->extents, env, value, EVAL_MAX_RESULTS)) return -2;
    for (int d = c->n_dims - 1, n = eval_results(c->extents); d >= 0; d--) {
        if (!c->dims[d].derived) continue;
        if (dims[d] != value[--n]) other = d;
        dims[d] = value[n];
    }
    return other;
}

static void copy_signature(Session *s, const Func *f, Compiled *out)
{
    CompiledParam *params = arena_array(&s->arena, CompiledParam, (size_t)f->n_params);
    for (int i = 0; i < f->n_params; i++) {
        const Param *p = &f->params[i];
        params[i] =
            (CompiledParam){ p->kind, p->type->dtype, p->kind == PARAM_SCALAR ? 0 : p->type->rank, { 0 } };
        memcpy(params[i].dims, p->dims, (size_t)params[i].rank * sizeof *p->dims);
        /* The extents of axes that the code has as one were known when it was compiled. */
        for (int a = p->joined_from; p->joined_from < p->joined_to && a <= p->joined_to; a++)
            params[i].dims[a] = -1;
    }
    CompiledDim *dims = arena_array(&s->arena, CompiledDim, (size_t)f->n_dims);
    for (int i = 0; i < f->n_dims; i++) {
        const Dim *d = &f->dims[i];
        dims[i] = (CompiledDim){ d->extent, -1, -1, d->text != NULL };
        for (int p = f->n_params; p-- > 0;) /* the first parameter that has the dimension */
            for (int a = params[p].rank; a-- > 0;)
                if (params[p].dims[a] == i) {
                    dims[i].param = p;
                    dims[i].axis = a;
                }
    }
    out->params = params;
    out->n_params = f->n_params;
    out->dims = dims;
    out->n_dims = f->n_dims;
    out->spec = f->spec ? f->spec : "";
}

bool compile_clauses(const CompileJob *j, Compiled *out)
{
    *out = (Compiled){ 0 };
    Module *m = frontend_lower_clauses(j->ast, j->kernel, j->bindings, j->n_bindings);
    bool ok = m && passes_run(m, &j->options->passes, NULL);
    Func *f = ok ? ir_func_find(m, j->kernel) : NULL;
    if (f) copy_signature(j->session, f, out);
    ok = f && host_blocks(j->session, f, out);
    if (!ok) name_specialization(j);
    return ok;
}

/* Whether a packed kernel should be compiled again with one warp. If tiles of a pack go through shared memory
 * (`shared` bytes of the CTA), all warps of the CTA wait for each other there; a single warp does not wait.
 * Kernels whose sizes are searched keep the number of warps that the estimate assumed. */
static bool packs_meet(const Ast *ast, const Func *f, const CompileOptions *o, int64_t shared)
{
    enum { FEW = 256 }; /* bytes of reductions' results, for which warps need not wait long */
    return f->packed > 1 && f->hints.warps > 1 && !o->passes.pack_warps && shared > FEW &&
           !frontend_tune(ast, f->name);
}

static CompileOptions of_one_warp(const CompileOptions *o)
{
    CompileOptions one = *o;
    one.passes.pack_warps = 1;
    return one;
}

static void count_work(Session *s, Func *f, Compiled *out)
{
    const char *too_long;
    out->work = eval_compile(&s->arena, f, work_of_program(f, false, work_of_instr, NULL), &too_long);
}

bool compile_tiles(const CompileJob *j, Compiled *out, Func **func)
{
    *out = (Compiled){ 0 };
    if (!compile_to_ir(j, NULL, func) || !calls_are_gone(j->session, *func)) return false;
    copy_signature(j->session, *func, out);
    if (!host_blocks(j->session, *func, out)) return false;
    if (j->options->target->kind == TARGET_CPU) count_work(j->session, *func, out);
    return true;
}

bool compile_from_tiles(const CompileJob *j, const CompileTest *may_fit, Func *tiles, Compiled *out,
    Func **lowered, struct GpuCode *code)
{
    const CompileOptions *o = j->options;
    KernelOptions options = kernel_options_of(&o->passes);
    options.measure = true;
    options.declined = o->declined;
    options.expected = o->expected;
    options.unplayed = o->unplayed;
    *code = (GpuCode){ 0 };
    if (!gpu_compile(j->session, tiles, o->target, &options, code, lowered)) return false;
    if (!packs_meet(j->ast, tiles, o, code->shared_bytes)) return true;
    CompileOptions one = of_one_warp(o);
    CompileJob again = *j;
    again.options = &one;
    return compile_lowered(&again, may_fit, out, lowered, code);
}

bool compile_lowered(
    const CompileJob *j, const CompileTest *may_fit, Compiled *out, Func **lowered, struct GpuCode *code)
{
    Func *tiles;
    *code = (GpuCode){ 0 };
    return compile_tiles(j, out, &tiles) && (!may_fit || may_fit->holds(may_fit->user, tiles)) &&
           compile_from_tiles(j, may_fit, tiles, out, lowered, code);
}

/* Runs the backend on the kernel, reports its passes, and completes and checks the artifact. False after
 * diagnostics. */
static bool run_backend(const CompileJob *j, Module *m, Func *f, Compiled *out)
{
    Session *s = j->session;
    const CompileOptions *o = j->options;
    Artifact *a = &out->artifact;
    PassReport lowering = { 0 };
    KernelOptions kernel_options = kernel_options_of(&o->passes);
    kernel_options.report = &lowering;
    CompileOptions with = *o;
    if (!with.backend.kernel) with.backend.kernel = &kernel_options;
    bool ok = compile_backend(s, m, f, &with, a);
    if (o->times && lowering.runs.len) passes_print_times(&lowering, o->times);
    if (!ok) return false;
    if (o->target->kind != TARGET_CPU) passes_warn_unrun(s, &o->passes, &lowering, j->kernel);
    if (!a->entry) a->entry = j->kernel;
    if (!a->schedule) a->schedule = "";
    if (!a->shape.threads) a->shape.threads = 1;
    if (!a->shape.cluster) a->shape.cluster = 1;
    if (o->check && a->kind == ARTIFACT_TEXT && o->target->kind != TARGET_CPU)
        ok = emission_check(
            o->check, s, o->target, a->data, a->size, arena_printf(&s->arena, "%s.cu", a->entry));
    if (!ok || compiled_valid(out)) return ok;
    diag_error(s, f->loc, "internal error: the %s backend's artifact is inconsistent",
        driver_backend(o->target->kind)->name);
    return false;
}

bool compile_kernel(const CompileJob *j, Compiled *out)
{
    Session *s = j->session;
    const CompileOptions *o = j->options;
    const Backend *backend = driver_backend(o->target->kind);
    Func *f = NULL;
    *out = (Compiled){ 0 };
    if (!backend) {
        diag_error(s, (Loc){ 0 }, "this build has no backend for %s", o->target->name);
        return false;
    }
    Module *m = compile_to_ir(j, NULL, &f);
    if (!m) return false;
    copy_signature(s, f, out);
    bool ok = host_blocks(s, f, out);
    /* The host only checks the remap; the kernel itself applies it. */
    bool check = f->remap && !f->permutes;
    if (check) out->remap = host_code(s, f, f->remap, "remap");
    ok &= !check || out->remap;
    if (o->target->kind == TARGET_CPU) count_work(s, f, out);
    out->artifact =
        (Artifact){ .registers = -1, .spill_bytes = -1, .stack_bytes = -1, .static_shared_bytes = -1 };
    ok = ok && run_backend(j, m, f, out);
    if (ok && packs_meet(j->ast, f, o, out->artifact.shape.shared_bytes)) {
        CompileOptions one = of_one_warp(o);
        CompileJob again = *j;
        again.options = &one;
        return compile_kernel(&again, out);
    }
    if (!ok) {
        if (!s->n_errors)
            diag_error(
                s, f->loc, "the %s backend gave up on `%s` without saying why", backend->name, j->kernel);
        name_specialization(j);
    }
    return ok;
}

/* Reports the vendor's log, with one note for each line. */
static void log_notes(Session *s, Diag *to, const char *log)
{
    for (int lines = 0; log && *log && lines < 40; lines++) {
        size_t n = strcspn(log, "\n");
        if (n) diag_note(s, to, (Loc){ 0 }, "%.*s", (int)n, log);
        log += n + (log[n] == '\n');
    }
}

typedef struct BlobOwner {
    Allocator alloc;
    DriverBlob blob;
} BlobOwner;
static void free_owned(void *p)
{
    BlobOwner *o = p;
    driver_blob_free(o->alloc, &o->blob);
}

static tile_status vendor_compile(Session *s, Driver *d, const CompileOptions *o, Compiled *c,
    DriverForm form, DriverError *e, const char **log_text)
{
    Artifact *a = &c->artifact;
    BlobOwner *binary = arena_new(&s->arena, BlobOwner), *log = arena_new(&s->arena, BlobOwner);
    binary->alloc = log->alloc = s->arena.alloc;
    session_defer(s, free_owned, binary);
    session_defer(s, free_owned, log);
    char *name =
        arena_printf(&s->arena, "%s.%s", a->entry, o->target->kind == TARGET_CUDA ? "cu" : "hip.cpp");
    DriverCompile dc = { .form = form,
        .text = a->data,
        .name = name,
        .entry = a->entry,
        .target = o->target,
        .debug_info = o->backend.debug_info };
    tile_status st = d->ops->compile(d, &dc, e);
    binary->blob = dc.binary;
    log->blob = dc.log;
    *log_text = dc.log.size ? dc.log.data : NULL;
    if (st == TILE_ERROR_OUT_OF_MEMORY) arena_oom(&s->arena);
    if (st) return st;
    a->kind = ARTIFACT_BINARY;
    a->data = dc.binary.data;
    /* PTX includes its terminating NUL, because the driver is not given the size. */
    a->size = dc.binary.size + (dc.binary.size < 4 || memcmp(dc.binary.data,
                                                          "\x7f"
                                                          "ELF",
                                                          4));
    if (form == DRIVER_BINARY) {
        a->registers = dc.registers;
        a->spill_bytes = dc.spill_bytes;
        a->stack_bytes = dc.stack_bytes;
        a->static_shared_bytes = dc.static_shared_bytes;
    }
    return TILE_OK;
}

bool compile_to_binary(Session *s, Driver *d, const CompileOptions *o, Compiled *c)
{
    DriverError e = { "", false };
    const char *log;
    if (c->artifact.kind != ARTIFACT_TEXT) return true;
    if (!d->ops->compile) {
        diag_error(s, (Loc){ 0 }, "the %s driver compiles no text", d->ops->name);
        return false;
    }
    if (!vendor_compile(s, d, o, c, DRIVER_BINARY, &e, &log)) return true;
    Diag *to = diag_error(s, (Loc){ 0 }, "compiling %s%s%s for %s: %s", c->artifact.entry,
        *c->spec ? " with " : "", c->spec, o->target->name, e.text);
    if (log) log_notes(s, to, log);
    return false;
}

tile_status compile_to_form(
    Session *s, Driver *d, const CompileOptions *o, Compiled *c, DriverForm form, DriverError *e)
{
    const char *log;
    return vendor_compile(s, d, o, c, form, e, &log);
}
