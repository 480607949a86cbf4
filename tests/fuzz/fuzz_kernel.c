/* fuzz_kernel.c: any text as a .tile file, whose kernels go through all passes, verified after each, and the
 * emission for one of the GPU targets. Which target, and how large the constants are, the text's own bytes
 * draw. A refusal must say why; an internal error is a fault. */
#include "backends/gpu/gpu.h"
#include "passes/passes.h"
#include "fuzz_text.h"

enum { MOST_KERNELS = 2 };

static bool emit(Session *s, Module *m, const char *name, const Target *target)
{
    GpuCode code;
    int errors = s->n_errors;
    PassOptions o = pass_options_default(target);
    o.verify_each = true;
    bool ok = passes_run(m, &o, NULL);
    Func *f = ok ? ir_func_find(m, name) : NULL;
    if (ok && !f) fuzz_fail(s, "a kernel that the passes lost");
    ok = ok && gpu_compile(s, f, target, &(KernelOptions){ 0 }, &code, NULL);
    if (!ok && s->n_errors == errors) fuzz_fail(s, "refused without a word");
    return ok;
}

static void emit_all(Session *s, Ast *ast, uint32_t drawn)
{
    static const char *const targets[] = { "cuda:sm_90a", "cuda:sm_80", "hip:gfx942", "hip:gfx1100" };
    const Target *target = target_find(targets[drawn % 4]);
    for (int k = 0; k < frontend_kernel_count(ast) && k < MOST_KERNELS; k++) {
        const FrontKernel *kernel = frontend_kernel(ast, k);
        FrontBinding bindings[MAX_KEYS];
        size_t n = fuzz_bind(kernel, 8 << (drawn >> 2) % 4, bindings);
        Module *m = frontend_lower(ast, kernel->name, bindings, n, target->name);
        if (!m || !emit(s, m, kernel->name, target)) return; /* a session with errors compiles no more */
    }
}

static uint32_t number_of(const uint8_t *data, size_t size)
{
    uint32_t number = 0;
    for (size_t k = 0; k < size; k++) number = number * 31 + data[k];
    return number >> 4;
}

static void fuzz_text(Session *s, Ast *ast, const uint8_t *text, size_t size)
{
    if (frontend_check(ast)) emit_all(s, ast, number_of(text, size));
}
