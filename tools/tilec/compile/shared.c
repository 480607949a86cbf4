/* shared.c: see shared.h. What an object or a bundle would write goes into a folder for temporary files; the
 * compiler runs there, and the library that it makes is the output. */
#include "tools/tilec/compile/shared.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Folder {
    Tool *tool;
    const char *path;
    Outputs files; /* paths below it */
} Folder;

static const char *inside(const Folder *f, const char *name)
{ return arena_printf(&f->tool->arena, "%s/%s", f->path, name); }

static void remove_folder(void *p)
{
    static const char *const made[] = { "k.so", "log" };
    Folder *f = p;
    char path[4096];
    for (size_t i = 0; i < f->files.list.len; i++) unlink(f->files.list.data[i].path);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (format_text(path, sizeof path, "%s/%s", f->path, made[i]) < (int)sizeof path) unlink(path);
    rmdir(f->path);
}

/* Runs `cc` with the sources and objects of the folder. -Bsymbolic: a library calls its own kernels, whatever
 * other libraries of the process call theirs. 127: there is no such program; -1: no process. */
static int run_compiler(const Folder *f, const char *cc)
{
    const char *argv[16 + 8] = { cc, "-shared", "-fPIC", "-Wl,-Bsymbolic", "-O2", "-w", "-o",
        inside(f, "k.so") };
    int n = 8, status = 0, devnull;
    const char *log = inside(f, "log");
    for (size_t i = 0; i < f->files.list.len && n < 16; i++) {
        const char *path = f->files.list.data[i].path, *dot = strrchr(path, '.');
        if (dot && (!strcmp(dot, ".c") || !strcmp(dot, ".o"))) argv[n++] = path;
    }
    argv[n++] = "-ldl";
    argv[n++] = "-lpthread";
    pid_t child = fork();
    if (child == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd >= 0) {
            dup2(fd, 1);
            dup2(fd, 2);
        }
        if ((devnull = open("/dev/null", O_RDONLY)) >= 0) dup2(devnull, 0);
        execvp(cc, (char **)argv);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool write_files(const Folder *f)
{
    for (size_t i = 0; i < f->files.list.len; i++) {
        const Output *o = &f->files.list.data[i];
        FILE *file = fopen(o->path, "wb");
        bool ok = file && fwrite(o->data, 1, o->len, file) == o->len;
        if (!file || fclose(file) || !ok) return false;
    }
    return true;
}

/* The compiler of the machine that the library is for, if that is another one than this. */
static const char *cross_compiler(const Strings *targets)
{
#if !defined(__aarch64__)
    for (size_t i = 0; i < targets->len; i++)
        if (target_find(targets->data[i])->triple) return "aarch64-linux-gnu-gcc";
#endif
    return NULL;
}

static bool link_files(Input *in, const Strings *targets, const Folder *f)
{
    enum { MOST = 1 << 30 };
    static const char *const names[] = { "cc", "gcc", "clang" };
    const char *named = getenv("TILE_CC");
    FileText log = { 0 };
    int code = 127;
    if (!named) named = cross_compiler(targets);
    if (named) code = run_compiler(f, named);
    for (size_t i = 0; !named && code == 127 && i < sizeof names / sizeof *names; i++)
        code = run_compiler(f, names[i]);
    if (code == 127)
        diag_error(&in->session, (Loc){ 0 },
            "--shared: no C compiler here (looked for %s); TILE_CC names one",
            named ? named : "cc, gcc, clang");
    else if (code)
        diag_error(&in->session, (Loc){ 0 }, "--shared: the C compiler failed: %.600s",
            file_read(in->tool, inside(f, "log"), MOST, &log) && log.len ? log.data : "no output");
    return code == 0;
}

/* The files of an object or a bundle, with names in the folder. */
static int make_files(Input *in, const Variants *list, const Strings *targets, Folder *f)
{
    CompileOptions o;
    const Target *first = target_find(targets->len ? targets->data[0] : "cpu");
    if (first->kind == TARGET_CPU && targets->len < 2) {
        if (!input_options(in, first, &o)) return EXIT_USAGE;
        return object_compile(in, list, &o, inside(f, "k.o"), inside(f, "k.h"), &f->files);
    }
    return bundle_compile(in, list, targets, inside(f, "k.c"), inside(f, "k.h"), &f->files);
}

int shared_compile(Input *in, const Variants *list, const Strings *targets, Outputs *outputs)
{
    enum { MOST = 1 << 30 };
    Tool *t = in->tool;
    Folder *f = arena_new(&t->arena, Folder);
    ToolCleanup *cleanup = arena_new(&t->arena, ToolCleanup);
    const char *temporary = getenv("TMPDIR"), *header = args_last(in->args, FLAG_HEADER, NULL);
    char *path = arena_printf(&t->arena, "%s/tilec-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    FileText library;
    if (!mkdtemp(path)) return tool_error(t, "cannot make a folder for temporary files");
    f->tool = t;
    f->path = path;
    tool_at_end(t, cleanup, remove_folder, f);
    int code = make_files(in, list, targets, f);
    if (!code && !write_files(f)) code = tool_error(t, "cannot write to %s", path);
    if (!code && !link_files(in, targets, f)) code = EXIT_INPUT;
    if (!code && !file_read(t, inside(f, "k.so"), MOST, &library)) code = EXIT_INPUT;
    if (!code) outputs_add(t, outputs, args_last(in->args, FLAG_OUTPUT, NULL), library.data, library.len);
    for (size_t i = 0; !code && header && i < f->files.list.len; i++) {
        const Output *o = &f->files.list.data[i];
        if (!strcmp(o->path, inside(f, "k.h"))) outputs_add(t, outputs, header, o->data, o->len);
    }
    tool_end(t, cleanup);
    return code;
}
