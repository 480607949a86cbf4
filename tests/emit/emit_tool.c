/* emit_tool: IR text to CUDA or HIP C, for golden tests: emit_tool FILE.ir TARGET [--kernel-ir] [--no-roles] ... */
#include "backends/gpu/gpu.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    FILE *in = fopen(argv[1], "rb");
    if (!in) return 2;
    static char text[1 << 20];
    size_t n = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    Session s;
    session_init(&s, allocator_libc);
    int status = 1;
    bool kernel_ir = false;
    KernelOptions o = { 0 };
    for (int k = 3; k < argc; k++) {
        if (!strcmp(argv[k], "--kernel-ir")) kernel_ir = true;
        if (!strcmp(argv[k], "--no-roles")) o.no_roles = true;
        if (!strncmp(argv[k], "--warps=", 8)) o.warps = atoi(argv[k] + 8);
    }
    if (!setjmp(s.oom)) {
        Module *m = ir_parse(&s, diag_add_source(&s, argv[1], NULL, text, n));
        const Target *t = target_find(argv[2]);
        GpuCode code;
        Func *lowered = NULL;
        Text out;
        text_init(&out, &s.arena);
        if (m && t) {
            bool ok = gpu_compile(&s, m->funcs, t, &o, &code, &lowered);
            if (kernel_ir && lowered) { ir_print(lowered->module, &out); fputs(out.data, stdout); }
            else if (ok) fwrite(code.text, 1, code.text_len, stdout);
            status = !ok;
        }
    }
    Text err;
    text_init(&err, &s.arena);
    diag_render_all(&s, &err);
    fputs(err.data, stderr);
    session_free(&s);
    return status;
}
