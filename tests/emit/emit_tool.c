/* emit_tool: IR text or a kernel of a .tile file to CUDA or HIP C, for golden tests.
 *
 *     emit_tool FILE.ir|FILE.tile TARGET [--kernel=NAME] [-DNAME=VALUE ...] [--special] [--ir] [--kernel-ir]
 *         [--no-roles]
 *               [--no-async] [--warps=N]
 *
 * .tile: the first kernel unless named; --special gives it the launch facts of contiguous, aligned tensors.
 * --ir and --kernel-ir print the IR after the passes of that level instead of C. Exit 0, or 1 with
 * diagnostics. */
#include "tests/emit/example.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct Args {
    const char *file, *target, *kernel, *defs[32];
    int n_defs;
    bool special, ir, kernel_ir;
    KernelOptions options;
} Args;

static bool parse_args(int argc, char **argv, Args *a)
{
    for (int k = 1; k < argc; k++) {
        const char *s = argv[k];
        if (!strcmp(s, "--special")) a->special = true;
        else if (!strcmp(s, "--ir")) a->ir = true;
        else if (!strcmp(s, "--kernel-ir")) a->kernel_ir = true;
        else if (!strcmp(s, "--no-roles")) pass_add(&a->options.skip, PASS_WARP_SPECIALIZATION);
        else if (!strcmp(s, "--no-merge-loads")) pass_add(&a->options.skip, PASS_MERGE_LOADS);
        else if (!strcmp(s, "--no-epilogue-loads")) pass_add(&a->options.skip, PASS_EPILOGUE_LOADS);
        else if (!strcmp(s, "--no-async")) pass_add(&a->options.skip, PASS_MULTISTAGE);
        else if (!strcmp(s, "--no-keep-rows")) pass_add(&a->options.skip, PASS_KEEP_ROWS);
        else if (!strncmp(s, "--warps=", 8)) a->options.warps = atoi(s + 8);
        else if (!strncmp(s, "--kernel=", 9)) a->kernel = s + 9;
        else if (!strncmp(s, "-D", 2) && a->n_defs < 32) a->defs[a->n_defs++] = s + 2;
        else if (s[0] == '-') return false;
        else if (!a->file) a->file = s;
        else if (!a->target) a->target = s;
        else return false;
    }
    return a->file && a->target;
}

static Func *input(Session *s, const Args *a, const Target *t)
{
    size_t len = strlen(a->file);
    if (len < 5 || strcmp(a->file + len - 5, ".tile")) {
        const char *text = read_text(s, a->file, &len);
        Module *m = text ? ir_parse(s, diag_add_source(s, a->file, NULL, text, len)) : NULL;
        return m && ir_verify(m) ? m->funcs : NULL;
    }
    Ast *ast = example_parse(s, a->file);
    if (!ast || !frontend_kernel_count(ast)) return NULL;
    const FrontKernel *k = a->kernel ? frontend_kernel_find(ast, a->kernel) : frontend_kernel(ast, 0);
    FrontBinding b[32];
    if (!k) return NULL;
    for (int d = 0; d < a->n_defs; d++)
        if (!example_bind(s, k, a->defs[d], &b[d])) return NULL;
    return example_lower(s, ast, k->name, b, (size_t)a->n_defs, t, a->special);
}

static bool process(Session *s, const Args *a)
{
    const Target *t = target_find(a->target);
    Func *f = t ? input(s, a, t) : NULL;
    Func *lowered = NULL;
    GpuCode code;
    Text out;
    if (!f) return false;
    bool ok = a->ir || gpu_compile(s, f, t, &a->options, &code, &lowered);
    if (a->ir || (a->kernel_ir && lowered)) {
        text_init(&out, &s->arena);
        ir_print(a->ir ? f->module : lowered->module, &out);
        fputs(out.data, stdout);
        return ok;
    }
    if (!ok) return false;
    fwrite(code.text, 1, code.text_len, stdout);
    return true;
}

int main(int argc, char **argv)
{
    Args a = { 0 };
    if (!parse_args(argc, argv, &a)) {
        fprintf(stderr, "emit_tool: bad arguments; see the head of emit_tool.c\n");
        return 2;
    }
    Session s;
    session_init(&s, allocator_libc);
    volatile bool ok = false;
    int left = setjmp(s.oom);
    if (!left) ok = process(&s, &a);
    if (left != 1 && !setjmp(s.oom)) {
        Text err;
        text_init(&err, &s.arena);
        text_puts(&err, "");
        diag_render_all(&s, &err);
        fputs(err.data, stderr);
    }
    session_free(&s);
    return ok ? 0 : 1;
}
