/* sass.c: see sass.h. NVIDIA's disassemblers are programs; they want a file and write to standard output. */
#include "tools/tilec/explain/sass.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Tried in this order; cuobjdump wants an option of its own. */
static const char *const programs[] = { "nvdisasm", "/usr/local/cuda/bin/nvdisasm", "cuobjdump",
    "/usr/local/cuda/bin/cuobjdump" };

static void run_child(const char *file, int to)
{
    const char *named = getenv("TILE_NVDISASM");
    dup2(to, STDOUT_FILENO);
    close(to);
    for (size_t i = 0; i < (named ? 1 : sizeof programs / sizeof *programs); i++) {
        const char *program = named ? named : programs[i];
        if (strstr(program, "cuobjdump")) execlp(program, program, "-sass", file, (char *)NULL);
        else execlp(program, program, file, (char *)NULL);
    }
    _exit(127);
}

static bool read_all(int from, Text *out)
{
    char buffer[1 << 16];
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0) text_write(out, buffer, (size_t)n);
    return n == 0;
}

static int disassemble(const char *file, Text *out)
{
    int ends[2], status = 0;
    if (pipe(ends)) return -1;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_child(file, ends[1]);
    }
    close(ends[1]);
    bool ok = child > 0 && read_all(ends[0], out);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || !ok || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

bool sass_print(Input *in, const void *cubin, size_t size, Text *out)
{
    const char *folder = getenv("TMPDIR");
    char *path = arena_printf(&in->session.arena, "%s/tilec-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(path), code = -1;
    bool written = fd >= 0 && write(fd, cubin, size) == (ssize_t)size;
    if (fd >= 0) close(fd);
    if (written) code = disassemble(path, out);
    if (fd >= 0) unlink(path);
    if (!written) diag_error(&in->session, (Loc){ 0 }, "--emit=sass: cannot write %s", path);
    else if (code == 127)
        diag_error(&in->session, (Loc){ 0 },
            "--emit=sass: no disassembler here (looked for nvdisasm and cuobjdump; TILE_NVDISASM names one)");
    else if (code) diag_error(&in->session, (Loc){ 0 }, "--emit=sass: the disassembler failed (%d)", code);
    return written && code == 0;
}
