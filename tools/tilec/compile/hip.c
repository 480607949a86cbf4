/* hip.c: see hip.h. clang links with lld, which stands beside it. */
#include "tools/tilec/compile/hip.h"
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

/* One call of clang: its files lie in a folder of their own. */
typedef struct Call {
    const char *clang, *arch, *folder, *in, *out, *log;
    HipOutput output;
    bool debug_info;
} Call;

/* In the child process. */
static void run_child(const Call *c)
{
    char option[48];
    int fd = open(c->log, O_WRONLY | O_CREAT | O_TRUNC, 0600), null = open("/dev/null", O_RDONLY);
    if (fd >= 0) {
        dup2(fd, 1);
        dup2(fd, 2);
    }
    if (null >= 0) dup2(null, 0);
    format_text(option, sizeof option, "--offload-arch=%s", c->arch);
    const char *argv[24] = { c->clang, "-x", "hip", "--cuda-device-only", option, "-nogpuinc", "-nogpulib",
        "--no-gpu-bundle-output", "-std=c++17", "-O3", "-w", "-Rpass-analysis=kernel-resource-usage", "-o",
        c->out, c->in };
    int n = 15;
    if (c->output == HIP_ASSEMBLY) argv[n++] = "-S";
    if (c->debug_info) argv[n++] = "-gline-tables-only";
    execv(c->clang, (char **)argv);
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
static void read_use(const char *log, HipCode *out)
{
    int spilled = number_behind(log, " VGPRs Spill: ");
    out->registers = number_behind(log, " VGPRs: ");
    out->spill_bytes = spilled < 0 ? -1 : 4 * spilled;
}

/* Makes the folder of the call, and names the files in it. False: there is no compiler, or no folder. */
static bool begin_call(Session *s, char *path, size_t path_room, Call *c, HipCode *out)
{
    const char *temporary = getenv("TMPDIR");
    c->clang = hip_compiler(path, path_room);
    if (!c->clang) {
        format_text(out->why, sizeof out->why,
            "no clang here (looked for clang-22 and ROCm's; TILE_CLANG names one)");
        return false;
    }
    char *folder = arena_printf(&s->arena, "%s/tilec-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        format_text(out->why, sizeof out->why, "cannot make a folder for temporary files");
        return false;
    }
    c->folder = folder;
    c->in = arena_printf(&s->arena, "%s/kernel.hip", folder);
    c->out = arena_printf(&s->arena, "%s/kernel.out", folder);
    c->log = arena_printf(&s->arena, "%s/log", folder);
    return true;
}

static void end_call(const Call *c)
{
    unlink(c->in);
    unlink(c->out);
    unlink(c->log);
    rmdir(c->folder);
}

bool hip_compile(Session *s, const Target *t, const char *text, size_t text_size, HipOutput output,
    bool debug_info, HipCode *out)
{
    char path[1024], *bytes = NULL, *log = NULL;
    size_t log_size;
    int status = -1;
    Call c = { .arch = strchr(t->name, ':') + 1, .output = output, .debug_info = debug_info };
    *out = (HipCode){ .registers = -1, .spill_bytes = -1 };
    if (!begin_call(s, path, sizeof path, &c, out)) return false;
    pid_t child = write_file(c.in, text, text_size) ? fork() : -1;
    if (child == 0) run_child(&c);
    bool ok = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status) &&
              read_file(&s->arena, c.out, &bytes, &out->size);
    bool told = read_file(&s->arena, c.log, &log, &log_size);
    if (!ok) format_text(out->why, sizeof out->why, "clang failed: %.300s", told ? log : "no output");
    else if (told) read_use(log, out);
    out->data = bytes;
    end_call(&c);
    return ok;
}
