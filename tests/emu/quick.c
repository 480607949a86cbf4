/* quick.c: see quick.h. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "tests/emu/quick.h"
#include "tests/emu/emu.h"
#include "tests/emu/headers.h"
#include "tests/emu/hip_machine.h"
#include "tests/emu/quick_text.h"
#include <dlfcn.h>
#include <libtcc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Quick {
    const Target *target;
    void *library; /* of the prelude's functions */
    char *header;  /* quick_device.h */
    TCCState *tcc; /* of the kernel that was built last */
    char *text;    /* its emission */
    char said[200];
};

/* What was built last. A launch function has no argument that could tell it. */
static struct {
    void (*thread)(const uint64_t *);
    const Target *target;
    size_t shared_bytes;
    int cluster, granule;
    bool persistent, early_start;
} built;

/* Called before the kernel: fills the stack with the pattern that variables hold before they are written. */
static void quick_unset(void)
{
    char stack[8192];
    memset(stack, 0xfe, sizeof stack);
    __asm__ volatile("" ::"r"(stack) : "memory");
}

/* Called after the declaration of a variable without a value, which in a loop would keep the one before. */
static void quick_unset_variable(void *p, unsigned long n) { memset(p, 0xfe, n); }

/* --- the library of the prelude --- */

static char *whole_file(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = f ? calloc(1, 1 << 17) : NULL;
    if (text && !fread(text, 1, (1 << 17) - 1, f)) free(text), text = NULL;
    if (f) fclose(f);
    return text;
}

/* The prelude's functions as C++, and a number for these, the headers that they need and the command. */
static char *library_text(const Target *t)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    Session s;
    if (!f) return NULL;
    session_init(&s, allocator_libc);
    int left = setjmp(s.oom);
    if (!left) quick_write_library(f, &s, t);
    session_free(&s);
    if (!fclose(f) && !left) return text;
    free(text);
    return NULL;
}

/* Compiles to a name of this process's own, then renames: other tests may make the same library now. */
static bool compile_library(const char *text, const char *folder, const char *compile, const char *library,
    char *why, size_t why_size)
{
    char path[320], own[340], command[2400];
    snprintf(path, sizeof path, "%s/prelude.cpp", folder);
    snprintf(own, sizeof own, "%s.%d", library, (int)getpid());
    FILE *f = fopen(path, "w");
    if (f) fputs(text, f);
    if (!f || fclose(f)) return snprintf(why, why_size, "%s cannot be written", path), false;
    snprintf(command, sizeof command, "%s %s -o %s -lgcc", compile, path, own);
    /* Where there is a compiler, a prelude that it refuses is a failure, not a missing device. */
    if (system(command)) {
        snprintf(
            command, sizeof command, "%.*s --version >/dev/null 2>&1", (int)strcspn(compile, " "), compile);
        snprintf(why, why_size, "%s does not compile", path);
        if (system(command)) return false;
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    unlink(path);
    if (rename(own, library)) return snprintf(why, why_size, "%s cannot be written", library), false;
    return true;
}

/* The library is kept under a name that tells its content, in the folder that holds those of the processes:
 * the tests of a build compile it once. In the folder TILE_EMU_PRELUDES, for machines whose compiler is too
 * old for device.h, the target alone is its name. */
static bool make_library(
    Quick *q, const char *source, const char *folder, const char *compile, char *why, size_t why_size)
{
    const char *kept = getenv("TILE_EMU_PRELUDES"), *chip = strchr(q->target->name, ':');
    char library[320];
    chip = chip ? chip + 1 : q->target->name;
    if (kept) snprintf(library, sizeof library, "%s/prelude_%s.so", kept, chip);
    if (!kept || access(library, R_OK)) {
        char *text = library_text(q->target);
        if (!text) return snprintf(why, why_size, "the prelude cannot be written"), false;
        if (!kept)
            snprintf(library, sizeof library, "%.*s/prelude_%s_%016llx.so",
                (int)(strrchr(folder, '/') - folder), folder, chip,
                (unsigned long long)headers_hash(text, source, compile));
        bool made = !access(library, R_OK) || compile_library(text, folder, compile, library, why, why_size);
        free(text);
        if (!made) return false;
    }
    q->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!q->library) return snprintf(why, why_size, "%s", dlerror()), false;
    return true;
}

Quick *quick_open(
    const Target *t, const char *source, const char *folder, const char *compile, char *why, size_t why_size)
{
    char path[320];
    Quick *q = calloc(1, sizeof *q);
    if (!q) return NULL;
    q->target = t;
    snprintf(path, sizeof path, "%s/tests/emu/quick_device.h", source);
    q->header = whole_file(path);
    if (!q->header) snprintf(why, why_size, "%s cannot be read", path);
    else if (make_library(q, source, folder, compile, why, why_size)) return q;
    quick_close(q);
    return NULL;
}

void quick_close(Quick *q)
{
    if (q->tcc) tcc_delete(q->tcc);
    if (q->library) dlclose(q->library);
    free(q->text);
    free(q->header);
    free(q);
}

/* --- a kernel --- */

/* What TinyCC calls for conversions that the processor does not have. */
static float float_of_u64(uint64_t x) { return (float)x; }
static double double_of_u64(uint64_t x) { return (double)x; }
static uint64_t u64_of_float(float x) { return (uint64_t)x; }
static uint64_t u64_of_double(double x) { return (uint64_t)x; }

/* All that a kernel may call except the prelude's functions. */
static void add_symbols(Quick *q)
{
    static const char *const machine[] = { "emu_line", "emu_mutant", "threadIdx", "blockIdx", "blockDim",
        "gridDim", "emu_wgmma", "emu_syncthreads", "emu_copy_wait", "emu_bulk_wait", "emu_bulk_written",
        "emu_wgmma_wait", "emu_registers", "hip_line", "hip_wait_loads", "hip_fence", NULL };
    void *shared = dlsym(q->library, "shared");
    for (int i = 0; machine[i]; i++) tcc_add_symbol(q->tcc, machine[i], dlsym(RTLD_DEFAULT, machine[i]));
    tcc_add_symbol(q->tcc, "shared", shared ? shared : q); /* for HIP any address */
    tcc_add_symbol(q->tcc, "quick_unset", (void *)quick_unset);
    tcc_add_symbol(q->tcc, "quick_unset_variable", (void *)quick_unset_variable);
    tcc_add_symbol(q->tcc, "memcpy", (void *)memcpy);
    tcc_add_symbol(q->tcc, "memmove", (void *)memmove);
    tcc_add_symbol(q->tcc, "memset", (void *)memset);
    tcc_add_symbol(q->tcc, "__floatundisf", (void *)float_of_u64);
    tcc_add_symbol(q->tcc, "__floatundidf", (void *)double_of_u64);
    tcc_add_symbol(q->tcc, "__fixunssfdi", (void *)u64_of_float);
    tcc_add_symbol(q->tcc, "__fixunsdfdi", (void *)u64_of_double);
}

static const char *launch(const uint64_t *args, int64_t blocks, int threads, int order, int late)
{
    static char why[1200];
    if (built.target->kind == TARGET_HIP) {
        const HipRun r = { built.target->arch, built.target->wave, (uint32_t)built.shared_bytes, blocks,
            threads, (order & 1) != 0, (late & 3) != 0, (void (*)(void *))built.thread, (void *)args,
            (uint32_t)built.granule };
        return hip_run(&r);
    }
    const EmuLaunch l = { built.thread, args, blocks * built.cluster, threads, 32, built.shared_bytes,
        built.persistent, built.cluster, order, late, built.early_start };
    return emu_run(&l, why, sizeof why) ? NULL : why;
}

static void said(void *user, const char *message)
{
    Quick *q = user;
    /* a call of an undeclared function compiles, but converts its arguments wrongly; pointers to other types
     * are errors in CUDA C and HIP C */
    if (!strstr(message, "warning:") || strstr(message, "implicit declaration") ||
        strstr(message, "incompatible pointer type"))
        snprintf(q->said, sizeof q->said, "%s", message);
}

static void uses(void *user, const char *name)
{
    Quick *q = user;
    void *at = dlsym(q->library, name);
    if (at) tcc_add_symbol(q->tcc, name, at);
}

static char *source_of(Quick *q, const GpuCode *code, Faults *faults)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f) return NULL;
    fputs(q->header, f);
    bool ok = quick_write_kernel(f, code, q->target->kind == TARGET_HIP, faults, uses, q);
    if (!fclose(f) && ok) return text;
    free(text);
    return NULL;
}

static bool compile(Quick *q, const GpuCode *code, Faults *faults, char *why, size_t why_size)
{
    if (q->tcc) tcc_delete(q->tcc);
    built.thread = NULL;
    q->tcc = tcc_new();
    if (!q->tcc) return snprintf(why, why_size, "out of memory"), false;
    *q->said = 0;
    tcc_set_error_func(q->tcc, q, said);
    tcc_set_options(q->tcc, "-nostdlib -Wimplicit-function-declaration");
    tcc_set_output_type(q->tcc, TCC_OUTPUT_MEMORY);
    if (q->target->kind == TARGET_HIP) tcc_define_symbol(q->tcc, "EMU_CHIP", "1");
    add_symbols(q);
    FaultsMark before = faults_mark(faults);
    char *text = source_of(q, code, faults);
    bool ok = text && !tcc_compile_string(q->tcc, text) && !*q->said &&
              !tcc_relocate(q->tcc, TCC_RELOCATE_AUTO) && !*q->said;
    if (!ok) snprintf(why, why_size, "%s", text ? q->said : "a use of shared memory that is not C");
    free(text);
    if (ok) *(void **)&built.thread = tcc_get_symbol(q->tcc, "emu_thread");
    if (!built.thread) faults_forget(faults, before); /* g++ plants them anew */
    return built.thread != NULL;
}

QuickLaunch *quick_build(Quick *q, const GpuCode *code, Faults *faults, char *why, size_t why_size)
{
    bool same = q->text && !strcmp(q->text, code->text);
    if (!same) {
        free(q->text);
        q->text = compile(q, code, faults, why, why_size) ? strdup(code->text) : NULL;
        if (!q->text) return NULL;
    }
    built.target = q->target;
    built.shared_bytes =
        (size_t)(code->shared_bytes || q->target->kind != TARGET_HIP ? code->shared_bytes : 16);
    if (code->abreast > 1) built.shared_bytes *= (size_t)code->abreast; /* CTAs with all of them fit too */
    built.cluster = code->cluster;
    built.persistent = code->persistent;
    built.early_start = code->early_start;
    built.granule = hip_smallest_access(code->text);
    return launch;
}
