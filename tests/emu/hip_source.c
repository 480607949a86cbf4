/* hip_source.c: see hip_source.h. Taken out: what holds assembly, address spaces or types that the host compiler lacks, and the loads and stores
 * that hip_device.h checks for alignment. */
#include "tests/emu/hip_source.h"
#include <string.h>

static bool line_has(const char *p, size_t n, const char *what)
{
    size_t len = strlen(what);
    for (size_t i = 0; i + len <= n; i++) if (!memcmp(p + i, what, len)) return true;
    return false;
}

static bool is_ours(const char *p, size_t n)
{
    static const char *const marks[] = { "asm(", "asm ", "address_space", "typedef __bf16 bf16x2", "void ldg_b32(", "void ldg_b64(", "void ldg_b128(",
                                         "void stg_b32(", "void stg_b64(", "void stg_b128(" };
    if (n > 5 && !strncmp(p, "#line", 5)) return true;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) if (line_has(p, n, marks[i])) return true;
    return false;
}

void hip_write_source(FILE *f, const GpuCode *code)
{
    /* a kernel may be named as a function of libc */
    fprintf(f, "#include \"hip_device.h\"\n#define %s emu_kernel_%s\n", code->name, code->name);
    for (const char *p = code->text; *p;) {
        size_t n = strcspn(p, "\n");
        if (!is_ours(p, n)) {
            for (size_t i = 0; i < n; i++) {
                static const char builtin[] = "__has_builtin(";
                if (n - i >= sizeof builtin - 1 && !memcmp(p + i, builtin, sizeof builtin - 1)) { fputs("EMU_HAS_BUILTIN(", f); i += sizeof builtin - 2; }
                else fputc(p[i], f);
            }
            fputc('\n', f);
        }
        p += n + (p[n] == '\n');
    }
    fprintf(f, "EMU_ENTRY(%s, %lld)\n", code->name, (long long)(code->shared_bytes ? code->shared_bytes : 16));
}
