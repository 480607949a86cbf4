/* cpu_ir.c: shows what the CPU backend makes of a module in text form.
 *
 * cpu_ir FILE plan|llvm|asm [cpu] */
#include "cpu_run.h"
#include <stdio.h>
#include <stdlib.h>

static int show(Session *s, const char *path, const char *what, const char *cpu)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) return 1;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    Module *m = ir_parse(s, diag_add_source(s, path, NULL, text, n));
    if (!m || !ir_verify(m)) return 1;
    CpuRun r;
    BackendOptions o = {
        .opt_level = 2, .cpu = cpu, .emit = *what == 'a' ? EMIT_ASM : EMIT_LLVM, .verify_each = true
    };
    if (!cpu_run_compile(s, m->funcs, &o, &r)) return 1;
    puts(*what == 'p' ? r.artifact.schedule : r.artifact.data);
    return 0;
}

int main(int argc, char **argv)
{
    Session s;
    volatile int rc = 1;
    if (argc < 3) {
        fprintf(stderr, "cpu_ir FILE plan|llvm|asm [cpu]\n");
        return 1;
    }
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) rc = show(&s, argv[1], argv[2], argc > 3 ? argv[3] : NULL);
    Text t;
    if (s.n_errors && !setjmp(s.oom)) {
        text_init(&t, &s.arena);
        diag_render_all(&s, &t);
        fputs(t.data, stderr);
    }
    session_free(&s);
    return rc;
}
