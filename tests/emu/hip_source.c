/* hip_source.c: see hip_source.h. Taken out: what holds assembly, address spaces or types that the host
 * compiler lacks, and the loads and stores that hip_device.h checks for alignment. Accesses to memory by type
 * tell the machine where they go. */
#include "tests/emu/hip_source.h"
#include <ctype.h>
#include <string.h>

static bool line_has(const char *p, size_t n, const char *what)
{
    size_t len = strlen(what);
    for (size_t i = 0; i + len <= n; i++)
        if (!memcmp(p + i, what, len)) return true;
    return false;
}

static bool is_ours(const char *p, size_t n)
{
    static const char *const marks[] = { "asm(", "asm ", "address_space", "typedef __bf16 bf16x2",
        "void ldg_b32(", "void ldg_b64(", "void ldg_b128(", "void stg_b32(", "void stg_b64(",
        "void stg_b128(", "nontemporal" };
    if (n > 5 && !strncmp(p, "#line", 5)) return true;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (line_has(p, n, marks[i])) return true;
    return false;
}

static const struct {
    const char *call, *what;
    bool more;
} planted[] = {
    { "block_barrier(", "a barrier left out", false },
    { "memory_barrier(", "a barrier left out", false },
    { "memory_barrier(", "a barrier that lets memory be", true },
    { "warp_sync(", "a wave barrier left out", false },
    { "wait_loads(", "a wait left out", false },
    { "wait_loads(", "one load more in flight", true },
};

static void copy_line(char *out, size_t size, const char *p, size_t n)
{
    while (n && *p == ' ') {
        p++;
        n--;
    }
    snprintf(out, size, "%.*s", (int)n, p);
}

/* before: the last line above that is code. */
static void note(Faults *faults, int line, const char *what, const char *p, size_t n, const char *before)
{
    Fault *x = &faults->list[faults->n++];
    *x = (Fault){ .line = line, .what = what };
    copy_line(x->text, sizeof x->text, p, n);
    copy_line(x->before, sizeof x->before, before, strcspn(before, "\n"));
}

/* call(n);  ->  if (emu_mutant == 7) {} else if (emu_mutant == 8) call((n) + 1); else call(n); */
void hip_plant(FILE *f, Faults *faults, int line, const char *p, size_t n, const char *before)
{
    for (size_t k = 0; k < sizeof planted / sizeof *planted; k++) {
        size_t at = 0, len = strlen(planted[k].call);
        while (at + len < n && (memcmp(p + at, planted[k].call, len) ||
                                   (at && (isalnum((unsigned char)p[at - 1]) || p[at - 1] == '_'))))
            at++;
        if (at + len >= n) continue;
        if (faults->n == MAX_FAULTS) {
            faults->full = true;
            break;
        }
        const char *end = memchr(p + at, ')', n - at);
        if (!planted[k].more) fprintf(f, "if (emu_mutant == %d) {} else ", faults->n);
        else if (planted[k].call[0] == 'm')
            fprintf(f, "if (emu_mutant == %d) block_barrier(); else ", faults->n);
        else
            fprintf(f, "if (emu_mutant == %d) wait_loads((%.*s) + 1); else ", faults->n,
                (int)(end - (p + at + len)), p + at + len);
        note(faults, line, planted[k].what, p, n, before);
    }
    fwrite(p, 1, n, f);
}

static void prelude_line(FILE *f, const char *p, size_t n)
{
    static const char builtin[] = "__has_builtin(";
    const char *brace = line_has(p, n, " ldg_") || line_has(p, n, " stg_") ? memchr(p, '{', n) : NULL;
    bool load = line_has(p, n, " ldg_"), typed = brace && line_has(p, (size_t)(brace - p), "*p") &&
                                                 !line_has(p, (size_t)(brace - p), "void *p");
    for (size_t i = 0; i < n; i++) {
        if (n - i >= sizeof builtin - 1 && !memcmp(p + i, builtin, sizeof builtin - 1)) {
            fputs("EMU_HAS_BUILTIN(", f);
            i += sizeof builtin - 2;
            continue;
        }
        fputc(p[i], f);
        if (typed && p + i == brace) fprintf(f, " hip_memory(p, sizeof *p, %d);", !load);
    }
}

/* May a statement stand before this line? Then the line before ends one. */
static bool starts_statement(char last) { return last == ';' || last == '{' || last == '}'; }

/* Of LDS: the prelude holds only what the kernel uses. */
int hip_smallest_access(const char *text)
{
    static const char *const marks[2][8] = { { "LDS(u8", "LDS(i8", "LDS(bool", "LDS(const u8", NULL },
        { "LDS(u16", "LDS(i16", "LDS(const u16", "LDS(_Float16", NULL } };
    for (int k = 0; k < 2; k++)
        for (int i = 0; marks[k][i]; i++)
            if (strstr(text, marks[k][i])) return 1 + k;
    return 4;
}

void hip_write_source(FILE *f, const GpuCode *code, Faults *faults)
{
    int line = 3;
    char last = 0;
    bool kernel = false, body = false;
    const char *before = "";
    if (faults) faults->emissions++;
    /* A kernel may have the name of a function of libc. */
    fprintf(f, "#include \"hip_device.h\"\n#define %s emu_kernel_%s\n", code->name, code->name);
    for (const char *p = code->text; *p;) {
        size_t n = strcspn(p, "\n");
        if (!is_ours(p, n)) {
            if (!strncmp(p, "KERNEL(", 7)) kernel = true;
            bool call =
                body && memchr(p, '(', n) && starts_statement(last) && *p == ' ' && !line_has(p, n, "else ");
            if (call) fprintf(f, "hip_line = %d; ", line);
            if (body && faults) hip_plant(f, faults, line, p, n, before);
            else if (body) fwrite(p, 1, n, f);
            else prelude_line(f, p, n);
            fputc('\n', f);
            line++;
            if (kernel && n == 1 && *p == '{') body = true;
            if (n && !line_has(p, n, "#pragma") && !line_has(p, n, "/* ")) before = p;
            if (n && !line_has(p, n, "#pragma")) {
                const char *end = p;
                while (end < p + n && strncmp(end, "/*", 2)) end++;
                while (end > p && (end[-1] == ' ' || end[-1] == '\t')) end--;
                if (end > p) last = end[-1];
            }
        }
        p += n + (p[n] == '\n');
    }
    fprintf(f, "EMU_ENTRY(%s, %lld, %d)\n", code->name,
        (long long)(code->shared_bytes ? code->shared_bytes : 16), hip_smallest_access(code->text));
}
