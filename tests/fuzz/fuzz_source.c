/* fuzz_source.c: any text as a .tile file: parsed, checked, and each of its kernels lowered to IR that
 * verifies, with 16 for every extent that must be known. What is wrong must end in diagnostics that can be
 * rendered. */
#include "frontend/frontend.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_KEYS = 16 };

static void fail(Session *s, const char *what)
{
    Text text;
    text_init(&text, &s->arena);
    diag_render_all(s, &text);
    fprintf(stderr, "%s\n%s", what, text.data ? text.data : "");
    abort();
}

static void lower_all(Session *s, Ast *ast)
{
    for (int k = 0; k < frontend_kernel_count(ast) && k < 4; k++) {
        const FrontKernel *kernel = frontend_kernel(ast, k);
        FrontBinding bindings[MAX_KEYS];
        int n = kernel->n_keys < MAX_KEYS ? kernel->n_keys : MAX_KEYS;
        for (int i = 0; i < n; i++) bindings[i] = (FrontBinding){ kernel->keys[i], { FRONT_INT, .i = 16 } };
        int errors = s->n_errors;
        Module *m = frontend_lower(ast, kernel->name, bindings, (size_t)n, NULL);
        if (!m && s->n_errors == errors) fail(s, "refused without a word");
        if (m && !ir_verify(m)) fail(s, "lowered to IR that does not verify");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session s;
    session_init(&s, allocator_libc);
    int left = setjmp(s.oom);
    if (left) fail(&s, left == 2 ? "internal error" : "out of memory");
    uint32_t file = diag_add_source(&s, "fuzz.tile", NULL, (const char *)data, size);
    Ast *ast = frontend_parse(&s, file, NULL, NULL);
    bool ok = frontend_check(ast);
    if (!ok && !s.n_errors) fail(&s, "refused without a word");
    Text text;
    text_init(&text, &s.arena);
    if (ok) frontend_print_ast(ast, &text);
    if (ok) lower_all(&s, ast);
    diag_render_all(&s, &text);
    session_free(&s);
    return 0;
}
