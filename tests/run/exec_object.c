/* exec_object.c: problems through objects that tilec makes for AArch64, linked with object_call.c by that
 * machine's C compiler and run by qemu-aarch64. Each kernel is compiled and linked once; a launch is a
 * process, to which the tensors go as a file that it maps. */
#include "exec_object.h"
#include "launch_facts.h"
#include "object_call.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COMPILER "aarch64-linux-gnu-gcc"
#define EMULATOR "qemu-aarch64"

typedef struct Linked {
    char *command; /* of tilec: what was compiled */
    int number;    /* the program is called after it */
    struct Linked *next;
} Linked;

typedef struct State {
    char folder[256];
    Linked *linked;
    int n_linked;
} State;

static bool there(const char *program)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return !system(command);
}

/* Runs a command; what it printed is the reason where it fails. */
static bool shell(State *s, const char *command, char *why, size_t why_size)
{
    char line[8192], path[300];
    snprintf(path, sizeof path, "%s/log", s->folder);
    int n = snprintf(line, sizeof line, "%s >%s 2>&1", command, path);
    if (n >= (int)sizeof line) return snprintf(why, why_size, "too long a command"), false;
    if (!system(line)) return true;
    FILE *f = fopen(path, "r");
    size_t got = f ? fread(why, 1, why_size - 1, f) : 0;
    why[got] = 0;
    if (f) fclose(f);
    return false;
}

void exec_object_close(void *state)
{
    State *s = state;
    char command[300];
    for (Linked *l = s->linked, *next; l; l = next) {
        next = l->next;
        free(l->command);
        free(l);
    }
    snprintf(command, sizeof command, "rm -rf %s", s->folder);
    if (s->folder[0] && system(command)) perror(s->folder);
    free(s);
}

void *exec_object_open(const char *name, char *why, size_t why_size)
{
    static const char *const programs[] = { COMPILER, EMULATOR };
    const char *temporary = getenv("TMPDIR");
    char command[1024];
    for (int i = 0; i < 2; i++)
        if (!there(programs[i])) return snprintf(why, why_size, "there is no %s", programs[i]), NULL;
    State *s = calloc(1, sizeof *s);
    snprintf(s->folder, sizeof s->folder, "%.200s/tile-object-XXXXXX",
        temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(s->folder)) {
        snprintf(why, why_size, "no folder for temporary files");
        return free(s), NULL;
    }
    snprintf(command, sizeof command,
        COMPILER " -std=gnu11 -O1 -I%s -c %s/tests/run/object_call.c -o %s/call.o", TILE_ROOT, TILE_ROOT,
        s->folder);
    if (shell(s, command, why, why_size)) return s;
    exec_object_close(s);
    return NULL;
}

/* --- compiling and linking --------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*size + 1);
    if (text && fread(text, 1, *size, f) != *size) free(text), text = NULL;
    fclose(f);
    return text;
}

static bool link_kernel(
    State *s, const char *compile, const char *kernel, int number, char *why, size_t why_size)
{
    char command[4096], object[300];
    snprintf(object, sizeof object, "%s/%d.o", s->folder, number);
    snprintf(command, sizeof command, "%s -o %s", compile, object);
    if (!shell(s, command, why, why_size)) return false;
    snprintf(command, sizeof command,
        COMPILER
        " -static -pthread %s/call.o %s -Wl,--defsym=kernel_plan=%s__plan,--defsym=kernel_entries=%s__entries"
        ",--defsym=kernel_launch=%s__launch,--defsym=kernel_error=%s__error -lm -o %s/%d",
        s->folder, object, kernel, kernel, kernel, kernel, s->folder, number);
    return shell(s, command, why, why_size);
}

/* The value of a const by default, or an extent as the tensors have it. */
static FrontValue value_of(const FrontKernel *k, const Launch *l, const char *name)
{
    FrontValue none = { FRONT_NOTHING };
    for (int i = 0, arg = 0; i < k->n_params && arg < l->n_args; i++) {
        const FrontParam *p = &k->params[i];
        bool is_const = p->kind == FRONT_CONST || p->kind == FRONT_CONST_TYPE;
        if (is_const && !strcmp(p->name, name)) return p->default_value;
        if (is_const) continue;
        const Arg *a = &l->args[arg++];
        for (int axis = 0; a->tensor && axis < p->rank; axis++)
            if (p->dims[axis].name && !strcmp(p->dims[axis].name, name))
                return (FrontValue){ FRONT_INT, { .i = a->tensor->shape[a->drop + axis] } };
    }
    for (int i = 0; i < k->n_params; i++)
        if (!strcmp(k->params[i].name, name)) return k->params[i].default_value;
    return none;
}

static void add_binding(FrontBinding *list, int *n, const char *name, FrontValue v)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(list[i].name, name)) return;
    if (v.kind != FRONT_NOTHING) list[(*n)++] = (FrontBinding){ name, v };
}

/* -D for everything that the launch says of a kernel: its constants, the extents that it is specialized on,
 * which optional tensors it has; and for what else an `instantiate` of the file varies. */
static void add_bindings(Session *s, const Ast *ast, const FrontKernel *k, const Launch *l, Text *command)
{
    FrontBinding given[64], list[128];
    int n_given = launch_bind(s, k, l, given), n = 0;
    for (int i = 0; i < n_given; i++) add_binding(list, &n, given[i].name, given[i].value);
    for (int i = 0; i < frontend_instance_count(ast); i++) {
        const FrontInstance *instance = frontend_instance(ast, i);
        for (int d = 0; d < instance->n && n < 128 && !strcmp(instance->kernel, k->name); d++)
            add_binding(list, &n, instance->domains[d].name, value_of(k, l, instance->domains[d].name));
    }
    for (int i = 0; i < n; i++) {
        text_printf(command, " -D '%s=", list[i].name);
        frontend_print_value(list[i].value, command);
        text_puts(command, "'");
    }
}

/* The command that compiles the kernel of `text` for this launch, but for its output; freed by the caller.
 * NULL: it cannot be bound, or memory ran out. */
static char *command_of(Session *s, const Run *run, const Launch *l, const char *text, size_t size)
{
    if (setjmp(s->oom)) return NULL;
    Text command;
    text_init(&command, &s->arena);
    Ast *ast = frontend_parse(s, diag_add_source(s, run->path, NULL, text, size), launch_import, NULL);
    const FrontKernel *k = frontend_check(ast) ? frontend_kernel_find(ast, l->kernel) : NULL;
    text_printf(&command, "%s %s --target=cpu:aarch64 --kernel=%s -O%d", TILE_TILEC, run->path, l->kernel,
        run->passes ? 2 : 0);
    if (k) add_bindings(s, ast, k, l, &command);
    return k && !s->n_errors ? strdup(command.data) : NULL;
}

/* The same of the file that `run` names. NULL and the reason. */
static char *compile_command(const Run *run, const Launch *l, char *why, size_t why_size)
{
    size_t size;
    char *text = read_file(run->path, &size);
    Session s;
    session_init(&s, allocator_libc);
    char *result = text ? command_of(&s, run, l, text, size) : NULL;
    if (!text) snprintf(why, why_size, "%s cannot be read", run->path);
    else if (!result) snprintf(why, why_size, "the kernel %s cannot be bound", l->kernel);
    session_free(&s);
    free(text);
    return result;
}

/* The number of the program for this launch's kernel and constants; -1 and the reason. */
static int find_program(State *s, const Run *run, const Launch *l, char *why, size_t why_size)
{
    char *compile = compile_command(run, l, why, why_size);
    if (!compile) return -1;
    for (Linked *k = s->linked; k; k = k->next)
        if (!strcmp(k->command, compile)) return free(compile), k->number;
    int number = s->n_linked++;
    if (!link_kernel(s, compile, l->kernel, number, why, why_size)) return free(compile), -1;
    Linked *k = calloc(1, sizeof *k);
    *k = (Linked){ compile, number, s->linked };
    s->linked = k;
    return number;
}

/* --- running ----------------------------------------------------------------------------------------- */

static uint64_t word_of(const ScalarArg *v)
{
    uint64_t word = 0;
    if (ref_type_is_float(v->type)) ref_put(v->type, &word, 0, v->value);
    else memcpy(&word, &v->whole, ref_type_size(v->type));
    return word;
}

static bool launch(
    State *s, const Run *run, const Launch *l, const int64_t *place, char *why, size_t why_size)
{
    static Call call;
    char path[300], command[1024];
    int program = find_program(s, run, l, why, why_size);
    if (program < 0) return false;
    call = (Call){ .n_args = l->n_args };
    for (int i = 0; i < l->n_args; i++) {
        const Arg *a = &l->args[i];
        CallArg *c = &call.args[i];
        c->offset = a->tensor ? place[a->tensor - run->problem->tensors] + (int64_t)a->tensor->offset : -1;
        if (a->scalar) c->word = word_of(a->scalar);
        for (int axis = 0; a->tensor && axis < a->tensor->rank - a->drop; axis++) {
            c->shape[axis] = a->tensor->shape[a->drop + axis];
            c->strides[axis] = a->tensor->stride[a->drop + axis];
        }
    }
    snprintf(path, sizeof path, "%s/call", s->folder);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(&call, sizeof call, 1, f) != 1 || fclose(f))
        return snprintf(why, why_size, "%s cannot be written", path), false;
    snprintf(command, sizeof command, EMULATOR " %s/%d %s %s/memory", s->folder, program, path, s->folder);
    return shell(s, command, why, why_size);
}

/* The tensors, guards and all, in one file. */
static unsigned char *map_memory(State *s, const Problem *p, int64_t *place, size_t *size)
{
    char path[300];
    enum { PAGE = 4096 };
    *size = 0;
    for (int i = 0; i < p->n_tensors; i++) {
        place[i] = (int64_t)*size;
        *size += (p->tensors[i].bytes + PAGE - 1) / PAGE * PAGE;
    }
    snprintf(path, sizeof path, "%s/memory", s->folder);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)*size)) return MAP_FAILED;
    unsigned char *memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory;
}

bool exec_object_run(void *state, const Run *run, char *why, size_t why_size)
{
    State *s = state;
    const Problem *p = run->problem;
    int64_t place[MAX_TENSORS];
    size_t size;
    bool ok = true;
    unsigned char *memory = map_memory(s, p, place, &size);
    if (memory == MAP_FAILED) return snprintf(why, why_size, "no memory for the tensors"), false;
    for (int i = 0; i < p->n_tensors; i++) memcpy(memory + place[i], p->tensors[i].base, p->tensors[i].bytes);
    for (int i = 0; ok && i < run->n_launches; i++)
        ok = launch(s, run, &run->launches[i], place, why, why_size);
    for (int i = 0; i < p->n_tensors; i++) memcpy(p->tensors[i].base, memory + place[i], p->tensors[i].bytes);
    munmap(memory, size);
    return ok;
}
