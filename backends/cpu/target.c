/* target.c: what the processor can do, optimisation and code emission; the backend's table. */
#include "backends/cpu/cpu.h"
#include "passes/kernel/kernel.h"
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_once_t llvm_once = PTHREAD_ONCE_INIT;

static void llvm_init(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static bool has_feature(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && (p = strstr(p, name)); p += n)
        if (p > list && p[-1] == '+' && (p[n] == ',' || p[n] == 0)) return true;
    return false;
}

/* Vector units by LLVM's name of a processor; the features asked for come on top. */
static const struct {
    const char *cpu;
    bool avx512, bf16, vnni;
} avx512_cpus[] = {
    { "x86-64-v4", true, false, false },
    { "skylake-avx512", true, false, false },
    { "cascadelake", true, false, true },
    { "icelake-server", true, false, true },
    { "sapphirerapids", true, true, true },
    { "emeraldrapids", true, true, true },
    { "graniterapids", true, true, true },
    { "znver4", true, true, true },
    { "znver5", true, true, true },
    { "icelake-client", true, false, true },
    { "tigerlake", true, false, true },
    { "rocketlake", true, false, true },
    { "cooperlake", true, true, true },
};
static const char *const avx2_cpus[] = {
    "x86-64-v3",
    "haswell",
    "broadwell",
    "skylake",
    "alderlake",
    "raptorlake",
    "meteorlake",
    "arrowlake",
    "lunarlake",
    "gracemont",
    "sierraforest",
    "znver1",
    "znver2",
    "znver3",
};
static const char *const baseline_cpus[] = {
    "x86-64",
    "x86-64-v2",
    "generic",
    "core2",
    "penryn",
    "nehalem",
    "westmere",
    "sandybridge",
    "ivybridge",
    "silvermont",
    "goldmont",
    "tremont",
    "btver2",
};

static void describe(CpuTarget *t)
{
    bool known = t->features[0] && has_feature(t->features, "avx2");
    bool baseline = false;
    for (size_t k = 0; k < sizeof baseline_cpus / sizeof *baseline_cpus; k++)
        baseline |= !strcmp(t->cpu, baseline_cpus[k]);
    t->avx2 = known || !baseline;
    t->f16c = t->avx2 || has_feature(t->features, "f16c");
    t->avx512 = has_feature(t->features, "avx512f") && has_feature(t->features, "avx512bw") &&
                has_feature(t->features, "avx512vl") && has_feature(t->features, "avx512dq");
    t->bf16 = has_feature(t->features, "avx512bf16");
    t->vnni = has_feature(t->features, "avx512vnni");
    for (size_t k = 0; k < sizeof avx512_cpus / sizeof *avx512_cpus; k++) {
        if (strcmp(t->cpu, avx512_cpus[k].cpu) || strstr(t->features, "-avx512f")) continue;
        t->avx512 |= avx512_cpus[k].avx512;
        t->bf16 |= avx512_cpus[k].bf16 && !strstr(t->features, "-avx512bf16");
        t->vnni |= avx512_cpus[k].vnni;
    }
    if (t->avx512) t->avx2 = t->f16c = true;
    t->vector_bytes = t->avx512 ? 64 : t->avx2 ? 32 : 16;
    t->n_vector_regs = t->avx512 ? 32 : 16;
}

static void dispose_message(void *p) { LLVMDisposeMessage(p); }

/* The host's features that LLVM found, for `cpu` NULL or "": then true. */
static bool resolve(Session *s, const BackendOptions *o, CpuTarget *t)
{
    bool host = !o->cpu || !*o->cpu || !strcmp(o->cpu, "host") || !strcmp(o->cpu, "native");
    *t = (CpuTarget){ 0 };
    if (host) {
        char *name = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
        t->cpu = arena_strdup(&s->arena, name);
        t->features = arena_strdup(&s->arena, features);
        LLVMDisposeMessage(name);
        LLVMDisposeMessage(features);
        if (o->features && *o->features)
            t->features = arena_printf(&s->arena, "%s,%s", t->features, o->features);
    } else {
        t->cpu = o->cpu;
        t->features = o->features ? o->features : "";
    }
    describe(t);
    /* The list of features is complete: a feature that is not in it is not available. A hypervisor may hide
     * features. */
    if (host) {
        t->avx2 = has_feature(t->features, "avx2") && has_feature(t->features, "fma");
        if (!has_feature(t->features, "avx512f")) t->avx512 = t->bf16 = t->vnni = false;
        if (!has_feature(t->features, "avx512bf16")) t->bf16 = false;
        t->vector_bytes = t->avx512 ? 64 : t->avx2 ? 32 : 16;
        t->n_vector_regs = t->avx512 ? 32 : 16;
    }
    return host;
}

/* LLVM would print a message for a name that it does not know, and end the process if the name means 32 bits.
 * */
static bool check_name(Session *s, const char *cpu)
{
    Text t;
    text_init(&t, &s->arena);
    bool found = false;
#define LOOK(name) \
    do { \
        found |= !strcmp(cpu, (name)); \
        text_printf(&t, ", %s", (name)); \
    } while (0)
    for (size_t k = 0; k < sizeof baseline_cpus / sizeof *baseline_cpus; k++) LOOK(baseline_cpus[k]);
    for (size_t k = 0; k < sizeof avx2_cpus / sizeof *avx2_cpus; k++) LOOK(avx2_cpus[k]);
    for (size_t k = 0; k < sizeof avx512_cpus / sizeof *avx512_cpus; k++) LOOK(avx512_cpus[k].cpu);
#undef LOOK
    if (!found) diag_error(s, (Loc){ 0 }, "there is no processor `%s`; there are host%s", cpu, t.data);
    return found;
}

static void dispose_machine(void *p) { LLVMDisposeTargetMachine(p); }

LLVMTargetMachineRef cpu_target_machine(Session *s, const BackendOptions *o, CpuTarget *out)
{
    pthread_once(&llvm_once, llvm_init);
    bool host = resolve(s, o, out);
    if (!host && !check_name(s, out->cpu)) return NULL;
    char *triple = LLVMGetDefaultTargetTriple(), *err = NULL;
    session_defer(s, dispose_message, triple);
    LLVMTargetRef target;
    if (LLVMGetTargetFromTriple(triple, &target, &err)) {
        diag_error(s, (Loc){ 0 }, "LLVM has no target for %s: %s", triple, err);
        LLVMDisposeMessage(err);
        return NULL;
    }
    /* The level Less has no measurable cost at run time, because the passes that it leaves out look for
     * patterns that the emitted loops do not have. */
    LLVMCodeGenOptLevel level = o->opt_level == 0   ? LLVMCodeGenLevelNone
                                : o->opt_level <= 2 ? LLVMCodeGenLevelLess
                                                    : LLVMCodeGenLevelDefault;
    LLVMTargetMachineRef m = LLVMCreateTargetMachine(
        target, triple, out->cpu, out->features, level, LLVMRelocPIC, LLVMCodeModelDefault);
    if (m) session_defer(s, dispose_machine, m);
    else diag_error(s, (Loc){ 0 }, "LLVM cannot compile for %s", out->cpu);
    return m;
}

bool cpu_optimise(Session *s, LLVMModuleRef m, LLVMTargetMachineRef tm, const BackendOptions *o)
{
    /* instcombine is left out: it takes a tenth of the time, and it rewrites maxima of NaN in a way that
     * later passes do not recognize. */
    const char *passes =
        o->opt_level == 0 ? "function(sroa)" : "function(sroa,early-cse,simplifycfg,loop-mssa(licm),adce)";
    LLVMPassBuilderOptionsRef po = LLVMCreatePassBuilderOptions();
    LLVMErrorRef e = LLVMRunPasses(m, passes, tm, po);
    LLVMDisposePassBuilderOptions(po);
    if (!e) return true;
    char *text = LLVMGetErrorMessage(e);
    diag_error(s, (Loc){ 0 }, "LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static void dispose_buffer(void *p) { LLVMDisposeMemoryBuffer(p); }
static void dispose_context(void *p) { LLVMContextDispose(p); }
static void dispose_module(void *p) { LLVMDisposeModule(p); }

static void set_data(Session *s, Artifact *out, ArtifactKind kind, const char *data, size_t size)
{
    char *copy = arena_alloc(&s->arena, size + 1);
    memcpy(copy, data, size);
    copy[size] = 0;
    out->kind = kind;
    out->data = copy;
    out->size = size;
}

/* LLVM takes seconds for as many instructions, and more than in proportion beyond; attention has 5000. */
enum { MAX_LLVM_INSTRUCTIONS = 1 << 16 };

static bool small_enough(Session *s, const Func *f, LLVMModuleRef m)
{
    int64_t n = 0;
    for (LLVMValueRef fn = LLVMGetFirstFunction(m); fn; fn = LLVMGetNextFunction(fn))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) n++;
    if (n > MAX_LLVM_INSTRUCTIONS)
        diag_error(s, f->loc,
            "kernel `%s` becomes %lld instructions of LLVM; the CPU backend takes at most %d", f->name,
            (long long)n, MAX_LLVM_INSTRUCTIONS);
    return n <= MAX_LLVM_INSTRUCTIONS;
}

static bool compile(
    Session *s, Module *m, Func *f, const Target *target, const BackendOptions *o, Artifact *out)
{
    CpuTarget *cpu = arena_new(&s->arena, CpuTarget);
    LLVMTargetMachineRef tm = cpu_target_machine(s, o, cpu);
    if (!tm) return false;
    *out = (Artifact){ .registers = -1, .spill_bytes = -1, .stack_bytes = -1, .static_shared_bytes = -1 };
    if (o->opt_level > 0) kernel_reciprocal(f);
    Plan *p = cpu_plan(s, f, cpu, o->checked, true, o->debug_info && o->opt_level == 0);
    cpu_buffers(p);
    Text plan;
    text_init(&plan, &s->arena);
    cpu_plan_print(p, &plan);
    out->schedule = plan.data;
    const char *symbol = out->entry = o->symbol ? o->symbol : f->name;
    LLVMContextRef ctx = LLVMContextCreate();
    session_defer(s, dispose_context, ctx);
    LLVMModuleRef mod = cpu_generate(s, p, o, ctx, symbol, out);
    session_defer(s, dispose_module, mod);
    if (!small_enough(s, f, mod)) return false;
    char *triple = LLVMGetTargetMachineTriple(tm);
    LLVMSetTarget(mod, triple);
    LLVMDisposeMessage(triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
    LLVMSetModuleDataLayout(mod, layout);
    LLVMDisposeTargetData(layout);
    char *err = NULL;
    if (o->verify_each) {
        if (LLVMVerifyModule(mod, LLVMReturnStatusAction, &err))
            ir_fail(s, f->loc, "LLVM rejects the module: %s", err);
        LLVMDisposeMessage(err);
    }
    if (!cpu_optimise(s, mod, tm, o)) return false;
    if (o->emit == EMIT_LLVM) {
        char *text = LLVMPrintModuleToString(mod);
        set_data(s, out, ARTIFACT_TEXT, text, strlen(text));
        LLVMDisposeMessage(text);
        return true;
    }
    LLVMMemoryBufferRef buf = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(
            tm, mod, o->emit == EMIT_ASM ? LLVMAssemblyFile : LLVMObjectFile, &err, &buf)) {
        diag_error(s, f->loc, "LLVM: %s", err);
        LLVMDisposeMessage(err);
        return false;
    }
    session_defer(s, dispose_buffer, buf);
    set_data(s, out, o->emit == EMIT_ASM ? ARTIFACT_TEXT : ARTIFACT_OBJECT, LLVMGetBufferStart(buf),
        LLVMGetBufferSize(buf));
    return true;
}

static const char *fingerprint(Session *s, const Target *target, const BackendOptions *o)
{
    unsigned major, minor, patch;
    CpuTarget t;
    pthread_once(&llvm_once, llvm_init);
    LLVMGetVersion(&major, &minor, &patch);
    resolve(s, o, &t);
    return arena_printf(
        &s->arena, "cpu backend 2, llvm %u.%u.%u, %s, %s", major, minor, patch, t.cpu, t.features);
}

CpuModule *cpu_load(
    const void *object, size_t size, const char *entry, CpuKernelFn **fn, char *err, size_t err_size);
void cpu_unload(CpuModule *);

const Backend backend_cpu = { .name = "cpu",
    .kind = TARGET_CPU,
    .compile = compile,
    .load = cpu_load,
    .unload = cpu_unload,
    .fingerprint = fingerprint };
