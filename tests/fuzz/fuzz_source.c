/* fuzz_source.c: any text as a .tile file: parsed, checked, and each of its kernels lowered to IR that
 * verifies, with 16 for every extent that must be known. What is wrong must end in diagnostics that can be
 * rendered. */
#include "fuzz_text.h"

static void lower_all(Session *s, Ast *ast)
{
    for (int k = 0; k < frontend_kernel_count(ast) && k < 4; k++) {
        const FrontKernel *kernel = frontend_kernel(ast, k);
        FrontBinding bindings[MAX_KEYS];
        size_t n = fuzz_bind(kernel, 16, bindings);
        int errors = s->n_errors;
        Module *m = frontend_lower(ast, kernel->name, bindings, n, NULL);
        if (!m && s->n_errors == errors) fuzz_fail(s, "refused without a word");
        if (m && !ir_verify(m)) fuzz_fail(s, "lowered to IR that does not verify");
    }
}

static void fuzz_text(Session *s, Ast *ast, const uint8_t *text, size_t size)
{
    Text out;
    bool ok = frontend_check(ast);
    (void)text, (void)size;
    if (!ok && !s->n_errors) fuzz_fail(s, "refused without a word");
    text_init(&out, &s->arena);
    if (ok) frontend_print_ast(ast, &out);
    if (ok) lower_all(s, ast);
    diag_render_all(s, &out);
}
