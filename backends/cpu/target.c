/* target.c: LLVM's machine, optimisation and code emission; the backend's table. */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/llvm/use.h"
#include "ir/c_names.h"
#include "passes/kernel/kernel.h"
#include <stdlib.h>

static void dispose_message(void *p) { LLVMDisposeMessage(p); }

static void dispose_machine(void *p) { LLVMDisposeTargetMachine(p); }

/* What a target's code is compiled for: LLVM's name of the machine. */
static const char *triple_of(Session *s, const Target *target)
{
    if (target->triple) return target->triple;
    char *triple = LLVMGetDefaultTargetTriple();
    session_defer(s, dispose_message, triple);
    return triple;
}

static LLVMTargetMachineRef target_machine(
    Session *s, const BackendOptions *o, const Target *target, CpuTarget *out)
{
    char *err = NULL;
    LLVMTargetRef llvm;
    const char *missing = llvm_open();
    if (missing) {
        diag_error(s, (Loc){ 0 }, "%s", missing);
        return NULL;
    }
    cpu_resolve(s, o, target, triple_of(s, target), out);
    if ((out->level_error || !cpu_is_host(o, target)) && !cpu_check_name(s, out)) return NULL;
    if (LLVMGetTargetFromTriple(out->triple, &llvm, &err)) {
        diag_error(s, (Loc){ 0 }, "LLVM has no target for %s: %s", out->triple, err);
        LLVMDisposeMessage(err);
        return NULL;
    }
    /* The level Less has no measurable cost at run time, because the passes that it leaves out look for
     * patterns that the emitted loops do not have. */
    LLVMCodeGenOptLevel level = o->opt_level == 0   ? LLVMCodeGenLevelNone
                                : o->opt_level <= 2 ? LLVMCodeGenLevelLess
                                                    : LLVMCodeGenLevelDefault;
#ifdef CPU_QUICK_LLVM
    if (!o->use) level = LLVMCodeGenLevelNone; /* what code takes is asked of the code that users get */
#endif
    LLVMTargetMachineRef m = LLVMCreateTargetMachine(
        llvm, out->triple, out->cpu, out->features, level, LLVMRelocPIC, LLVMCodeModelDefault);
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
    LLVMTargetMachineRef tm = target_machine(s, o, target, cpu);
    if (!tm) return false;
    *out = (Artifact){ .registers = -1, .spill_bytes = -1, .stack_bytes = -1, .static_shared_bytes = -1 };
    if (o->opt_level > 0) cpu_as_written(f, cpu);
    if (o->opt_level > 0) kernel_reciprocal(f, false);
    if (o->opt_level > 0 && !o->checked) cpu_few_rows(s, f);
    if (o->opt_level > 0 && !o->checked) cpu_few_columns(s, f, cpu);
    if (o->opt_level > 0 && !o->checked) cpu_deepen(s, f, cpu);
    Plan *p = cpu_plan(s, f, cpu, o);
    cpu_buffers(p);
    if (cpu->amx_refused && p->narrow_products)
        diag_warning(s, f->loc, "kernel `%s` does not use AMX: %s", f->name, cpu->amx_refused);
    Text plan;
    text_init(&plan, &s->arena);
    cpu_plan_print(p, &plan);
    out->schedule = plan.data;
    /* A kernel named `exp` must not become the function that its own code may call. */
    const char *own =
        c_name_taken(f->name, C_LIBRARY | C_DEVICE) ? arena_printf(&s->arena, "%s_kernel", f->name) : f->name;
    const char *symbol = out->entry = o->symbol ? o->symbol : own;
    LLVMContextRef ctx = LLVMContextCreate();
    session_defer(s, dispose_context, ctx);
    LLVMModuleRef mod = cpu_generate(s, p, o, ctx, symbol, out);
    session_defer(s, dispose_module, mod);
    if (!small_enough(s, f, mod)) return false;
    LLVMSetTarget(mod, cpu->triple);
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
    if (o->use) cpu_use_begin(ctx, mod, o->use);
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
    if (o->use) cpu_use_registers(cpu, out->data, o->use);
    return true;
}

static const char *fingerprint(Session *s, const Target *target, const BackendOptions *o)
{
    unsigned major, minor, patch;
    CpuTarget t;
    const char *identity = cpu_identity(s, o, target);
    if (identity) return arena_printf(&s->arena, "cpu backend 4, %s", identity);
    if (llvm_open()) return NULL;
    LLVMGetVersion(&major, &minor, &patch);
    cpu_resolve(s, o, target, triple_of(s, target), &t);
    /* t.has, because the system may refuse AMX now, and may have allowed it when a kernel was kept. */
    return arena_printf(&s->arena, "cpu backend 4, llvm %u.%u.%u, %s, %s, %s, %x, %lld, %lld, %lld%s", major,
        minor, patch, t.triple, t.cpu, t.features, t.has, (long long)t.first_cache, (long long)t.second_cache,
        (long long)t.third_cache, t.level_error ? ", no level" : "");
}

/* This machine; without LLVM, which compiling will miss, any. */
static CpuTarget host_of(Session *s, const Target *target)
{
    CpuTarget t;
    BackendOptions host = { 0 };
    bool known = !llvm_open();
    if (!known) host.cpu = "generic";
    cpu_resolve(s, &host, target, known ? triple_of(s, target) : "x86_64", &t);
    return t;
}

static double product_rate(Session *s, const Target *target, DType d)
{
    CpuTarget t = host_of(s, target);
    return cpu_product_rate(&t, d);
}

static double row_begin(Session *s, const Target *target) { return host_of(s, target).cost[COST_ROW_BEGIN]; }

static ProductMoves product_moves(Session *s, const Target *target, Func *f, const Instr *mma)
{
    CpuTarget t = host_of(s, target);
    bool amx = mma_is_amx(mma_kind(&t, mma));
    int64_t depth = cpu_product_depth(s, f, &t, mma);
    return (ProductMoves){ .depth = depth,
        .packed = { amx && in_place_window(f, mma, depth) ? 0 : 1, amx ? keep_grouped_part(f, mma) : 1 } };
}

CpuModule *cpu_load(
    const void *object, size_t size, const char *entry, CpuKernelFn **fn, char *err, size_t err_size);
void cpu_unload(CpuModule *);

const Backend backend_cpu = { .name = "cpu",
    .kind = TARGET_CPU,
    .compile = compile,
    .load = cpu_load,
    .unload = cpu_unload,
    .fingerprint = fingerprint,
    .product_rate = product_rate,
    .product_moves = product_moves,
    .row_begin = row_begin };
