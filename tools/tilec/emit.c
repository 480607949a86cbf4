/* emit.c: see emit.h. */
#include "tools/tilec/emit.h"
#include "tools/tilec/fit.h"
#include "tools/tilec/compile/hip.h"
#include "tools/tilec/explain/sass.h"
#include "backends/gpu/check.h"
#include "passes/kernel/kernel.h"
#include "runtime/drivers/rtc.h"
#include <stdlib.h>

enum {
    CPU = 1 << TARGET_CPU,
    CUDA = 1 << TARGET_CUDA,
    HIP = 1 << TARGET_HIP,
    GPU = CUDA | HIP,
    ANY = CPU | GPU
};

const StageInfo stage_info[STAGE_COUNT] = {
#define STAGE(ID, name, targets, doc) { name, targets, doc },
#include "tools/tilec/stages.def"
#undef STAGE
};

const char *variant_symbol(Arena *a, const Variant *v)
{
    Text t;
    text_init(&t, a);
    text_puts(&t, v->kernel->name);
    for (size_t i = 0; i < v->n; i++) {
        text_printf(&t, "_%s", v->bindings[i].name);
        Text value;
        text_init(&value, a);
        frontend_print_value(v->bindings[i].value, &value);
        for (const char *p = value.data; p && *p; p++) {
            bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
            text_putc(&t, plain ? *p : *p == '-' ? 'm' : '_');
        }
    }
    return t.data;
}

const LaunchFacts *emit_assumed(Input *in, const Variant *v, unsigned others)
{
    const char *assume = args_last(in->args, FLAG_ASSUME, "best");
    return input_facts(in, v,
        !strcmp(assume, "any")       ? ASSUME_ANY
        : !strcmp(assume, "aligned") ? ASSUME_ALIGNED | others
                                     : ASSUME_ALIGNED | ASSUME_DIVISIBLE | ASSUME_POSITIVE | others);
}

static bool compiled(
    Input *in, const Variant *v, const CompileOptions *o, EmitKind kind, const char *symbol, Compiled *c)
{
    CompileOptions mine = *o;
    mine.backend.emit = kind;
    mine.backend.symbol = symbol;
    const LaunchFacts *facts = emit_assumed(in, v, 0);
    v = fit_autos(in, v, facts, o);
    const Diag *before = in->session.last_diag;
    CompileJob job = input_job(in, v, facts, &mine);
    bool ok = compile_kernel(&job, c);
    const Variant *smaller = fit_smaller(in, v, facts, &mine, &c->artifact, before);
    if (smaller) {
        job = input_job(in, smaller, facts, &mine);
        ok = compile_kernel(&job, c);
    }
    CostDevice device = device_of_target(o->target);
    if (ok && args_has(in->args, FLAG_WPERF)) fit_advise(in, smaller ? smaller : v, facts, o, &device);
    return ok;
}

bool emit_cpu_use(Input *in, const Variant *v, const CompileOptions *o, CpuUse *use)
{
    CompileOptions mine = *o;
    Compiled c;
    mine.backend.use = use;
    return compiled(in, v, &mine, EMIT_ASM, NULL, &c);
}

static bool emit_ir(Input *in, const Variant *v, const CompileOptions *o, bool lowered, Text *out)
{
    Func *f;
    const LaunchFacts *facts = emit_assumed(in, v, 0);
    v = fit_autos(in, v, facts, o);
    CompileJob job = input_job(in, v, facts, o);
    Module *m = compile_to_ir(&job, NULL, &f);
    KernelPlan plan;
    PassReport report = { 0 };
    KernelOptions options = kernel_options_of(&o->passes);
    int64_t begin = clock_ns();
    options.report = &report;
    lowered = lowered && !passes_stop_in_tile_ir(&o->passes);
    if (!m || (lowered && !kernel_lower(&in->session, f, o->target, &options, &plan))) return false;
    if (lowered) compile_time(o, "kernel IR", begin);
    if (lowered && o->times) passes_print_times(&report, o->times);
    passes_warn_unrun(&in->session, &o->passes, &report, f->name);
    ir_print(m, out);
    return true;
}

static bool emit_text(
    Input *in, const Variant *v, const CompileOptions *o, StageId stage, bool several, Text *out)
{
    bool amd = o->target->kind == TARGET_HIP;
    EmitKind kind = stage == STAGE_LLVM          ? EMIT_LLVM
                    : stage == STAGE_ASM && !amd ? EMIT_ASM
                    : stage == STAGE_SCHEDULE    ? EMIT_DEFAULT
                                                 : EMIT_TEXT;
    Compiled c;
    if (!compiled(in, v, o, kind, several ? variant_symbol(&in->session.arena, v) : NULL, &c)) return false;
    if (stage == STAGE_PTX || stage == STAGE_CUBIN || stage == STAGE_SASS) {
        const void *data;
        size_t size;
        if (!emit_binary(in, v, o, &c, stage == STAGE_PTX, &data, &size)) return false;
        if (stage == STAGE_SASS) return sass_print(in, data, size, out);
        text_write(out, data, stage == STAGE_PTX ? strnlen(data, size) : size);
    } else if (stage == STAGE_HSACO || (stage == STAGE_ASM && amd)) {
        HipCode code;
        int64_t begin = clock_ns();
        bool made = hip_compile(&in->session, o->target, c.artifact.data, c.artifact.size,
            stage == STAGE_ASM ? HIP_ASSEMBLY : HIP_CODE_OBJECT, o->backend.debug_info, &code);
        compile_time(o, "clang", begin);
        if (!made) {
            diag_error(&in->session, v->kernel->loc, "%s for %s: %s", v->title, o->target->name, code.why);
            return false;
        }
        text_write(out, code.data, code.size);
    } else if (stage == STAGE_SCHEDULE && o->target->kind == TARGET_CPU)
        text_printf(
            out, "%s\n%s\n", v->title, *c.artifact.schedule ? c.artifact.schedule : "nothing was derived");
    else if (stage == STAGE_SCHEDULE) text_puts(out, c.artifact.schedule);
    else text_write(out, c.artifact.data, c.artifact.size);
    return true;
}

static void close_rtc(void *p)
{
    if (*(Rtc **)p) rtc_close(*(Rtc **)p);
}

/* The output of the vendor's compiler, which is kept until the session ends. */
typedef struct Made {
    Tool *tool;
    DriverCompile d;
} Made;

static void free_made(void *p)
{
    Made *m = p;
    driver_blob_free(m->tool->alloc, &m->d.binary);
    driver_blob_free(m->tool->alloc, &m->d.log);
}

/* The vendor's log, a line a note. */
static void note_log(Session *s, Diag *to, const char *log, size_t n)
{
    for (int lines = 0; n && lines < 40; lines++) {
        const char *end = memchr(log, '\n', n);
        size_t len = end ? (size_t)(end - log) : n;
        if (len) diag_note(s, to, (Loc){ 0 }, "%.*s", (int)len, log);
        n -= end ? len + 1 : len;
        log += len + 1;
    }
}

static bool open_compiler(Input *in, const Target *t, DriverError *e)
{
    if (in->rtc) return true;
    session_defer(&in->session, close_rtc, &in->rtc);
    return !rtc_open(t->kind, getenv("TILE_NVRTC"), in->tool->alloc, &in->rtc, e);
}

bool emit_compiler(Input *in, const Target *t)
{
    DriverError e = { "" };
    return open_compiler(in, t, &e);
}

bool emit_binary(Input *in, const Variant *v, const CompileOptions *o, Compiled *c, bool ptx,
    const void **data, size_t *size)
{
    Session *s = &in->session;
    DriverError e = { "" };
    if (!open_compiler(in, o->target, &e)) {
        diag_error(s, (Loc){ 0 }, "%s", e.text);
        return false;
    }
    Made *made = arena_new(&s->arena, Made);
    DriverCompile *d = &made->d;
    *made = (Made){ in->tool, { .text = c->artifact.data,
                                  .name = arena_printf(&s->arena, "%s.cu", c->artifact.entry),
                                  .entry = c->artifact.entry,
                                  .target = o->target,
                                  .debug_info = o->backend.debug_info } };
    session_defer(s, free_made, made);
    int64_t begin = clock_ns();
    tile_status st =
        rtc_compile(in->rtc, d, strchr(o->target->name, ':') + 1, ptx ? RTC_PTX : RTC_BINARY, &e);
    compile_time(o, "NVRTC", begin);
    if (st) {
        Diag *to = diag_error(s, v->kernel->loc, "%s for %s: %s", v->title, o->target->name, e.text);
        if (d->log.data) note_log(s, to, d->log.data, strnlen(d->log.data, d->log.size));
        return false;
    }
    c->artifact.registers = d->registers;
    c->artifact.spill_bytes = d->spill_bytes;
    *data = d->binary.data;
    *size = d->binary.size;
    return true;
}

int emit_stage(Input *in, StageId stage, const Variants *list, const CompileOptions *o, Text *out)
{
    if (stage == STAGE_AST) {
        frontend_print_ast(in->ast, out);
        return EXIT_OK;
    }
    for (size_t i = 0; i < list->len; i++) {
        const Variant *v = &list->data[i];
        if ((stage == STAGE_CUBIN || stage == STAGE_HSACO) && list->len > 1) {
            diag_error(&in->session, (Loc){ 0 },
                "%zu variants do not go into one binary; choose one with --kernel and -D", list->len);
            return EXIT_INPUT;
        }
        const char *comment = stage == STAGE_LLVM ? ";" : stage == STAGE_ASM ? "#" : "//";
        if (list->len > 1 && stage == STAGE_SCHEDULE) text_puts(out, i ? "\n" : "");
        else if (list->len > 1) text_printf(out, "%s%s %s\n", i ? "\n" : "", comment, v->title);
        bool ok = stage == STAGE_IR || stage == STAGE_KERNEL_IR
                      ? emit_ir(in, v, o, stage == STAGE_KERNEL_IR, out)
                      : emit_text(in, v, o, stage, list->len > 1, out);
        if (!ok) return EXIT_INPUT;
    }
    return EXIT_OK;
}

int emit_source(Input *in, const Variants *list, const CompileOptions *o, Text *out)
{
    bool several = list->len > 1;
    CompileOptions alone = *o;
    if (several) alone.check = NULL; /* All of them are read together below, so no name may occur twice. */
    for (size_t i = 0; i < list->len; i++) {
        const Variant *v = &list->data[i];
        const char *symbol = several ? variant_symbol(&in->session.arena, v) : NULL;
        Compiled c;
        if (!compiled(in, v, &alone, EMIT_TEXT, symbol, &c)) return EXIT_INPUT;
        if (several) text_printf(out, "// %s\nnamespace variant_%s {\n", v->title, symbol);
        text_write(out, c.artifact.data, c.artifact.size);
        if (several) text_printf(out, "}\n\n");
    }
    if (several && o->check &&
        !emission_check(o->check, &in->session, o->target, out->data, out->len, "all.cu"))
        return EXIT_INPUT;
    return EXIT_OK;
}
