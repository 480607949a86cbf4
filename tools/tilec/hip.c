/* hip.c: see hip.h. clang links with lld, which stands beside it. */
#include "tools/tilec/hip.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

const char *hip_compiler(char *path, size_t room)
{
    static const char *const names[] = { "clang-22", "clang-23", "clang" };
    static const char *const places[] = { "/opt/rocm/llvm/bin/clang", "/usr/lib/llvm-22/bin/clang" };
    const char *named = getenv("TILE_CLANG"), *folders = getenv("PATH");
    if (named) return access(named, X_OK) ? NULL : named;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (const char *p = folders ? folders : ""; *p; p += strcspn(p, ":"), p += *p == ':') {
            int n = format_text(path, room, "%.*s/%s", (int)strcspn(p, ":"), p, names[i]);
            if (n > 0 && n < (int)room && !access(path, X_OK)) return path;
        }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!access(places[i], X_OK)) return places[i];
    return NULL;
}

static void run_child(const char *clang, const char *arch, const char *in, const char *out, bool assembly,
    bool debug_info, const char *log)
{
    char option[48];
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_RDONLY);
    if (fd >= 0) {
        dup2(fd, 1);
        dup2(fd, 2);
    }
    if (null >= 0) dup2(null, 0);
    format_text(option, sizeof option, "--offload-arch=%s", arch);
    const char *argv[24] = { clang, "-x", "hip", "--cuda-device-only", option, "-nogpuinc", "-nogpulib",
        "--no-gpu-bundle-output", "-std=c++17", "-O3", "-w", "-Rpass-analysis=kernel-resource-usage", "-o",
        out, in };
    int n = 15;
    if (assembly) argv[n++] = "-S";
    if (debug_info) argv[n++] = "-gline-tables-only";
    execv(clang, (char **)argv);
    _exit(127);
}

static bool write_file(const char *path, const char *text, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool ok = fwrite(text, 1, size, f) == size;
    return fclose(f) == 0 && ok;
}

static bool read_file(Arena *a, const char *path, char **data, size_t *size)
{
    FILE *f = fopen(path, "rb");
    Text t;
    char buffer[1 << 14];
    text_init(&t, a);
    for (size_t n; f && (n = fread(buffer, 1, sizeof buffer, f)) > 0;) text_write(&t, buffer, n);
    bool ok = f && !ferror(f);
    if (f) fclose(f);
    *data = t.data;
    *size = t.len;
    return ok && t.len;
}

/* The number behind a word of clang's remarks, or -1. */
static int number_behind(const char *log, const char *word)
{
    const char *p = strstr(log, word);
    return p ? atoi(p + strlen(word)) : -1;
}

/* Reads the remarks of -Rpass-analysis=kernel-resource-usage. */
static HipUse read_use(const char *log)
{
    int spilled = number_behind(log, " VGPRs Spill: ");
    return (HipUse){ number_behind(log, " VGPRs: "), spilled < 0 ? -1 : 4 * spilled };
}

bool hip_compile(Session *s, const Target *t, const char *text, size_t text_size, bool assembly,
    bool debug_info, const void **data, size_t *size, HipUse *use, char *why, size_t why_room)
{
    char path[1024], *log_text, *bytes = NULL;
    const char *clang = hip_compiler(path, sizeof path), *temporary = getenv("TMPDIR");
    size_t log_size;
    int status = -1;
    if (!clang) {
        format_text(why, why_room, "no clang here (looked for clang-22 and ROCm's; TILE_CLANG names one)");
        return false;
    }
    char *folder = arena_printf(&s->arena, "%s/tilec-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        format_text(why, why_room, "cannot make a folder for temporary files");
        return false;
    }
    const char *in = arena_printf(&s->arena, "%s/kernel.hip", folder),
               *out = arena_printf(&s->arena, "%s/kernel.out", folder),
               *log = arena_printf(&s->arena, "%s/log", folder);
    bool ok = write_file(in, text, text_size);
    pid_t child = ok ? fork() : -1;
    if (child == 0) run_child(clang, strchr(t->name, ':') + 1, in, out, assembly, debug_info, log);
    ok = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status) &&
         read_file(&s->arena, out, &bytes, size);
    if (!ok)
        format_text(why, why_room, "clang failed: %.300s",
            read_file(&s->arena, log, &log_text, &log_size) ? log_text : "no output");
    if (ok && use)
        *use = read_file(&s->arena, log, &log_text, &log_size) ? read_use(log_text) : (HipUse){ -1, -1 };
    *data = bytes;
    unlink(in);
    unlink(out);
    unlink(log);
    rmdir(folder);
    return ok;
}
