/* amx_preload.c: what a program that is run with libamx_machine.so finds: amx_machine.h. */
#define _GNU_SOURCE
#include "amx_machine.h"
#include "amx_model.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* NULL: the processor's own. */
static const char *cpu_name(void)
{
    const char *name = getenv("AMX_MACHINE_CPU");
    return name && *name ? name : amx_machine_is_real() ? NULL : "graniterapids";
}

/* LLVM's functions as the CPU backend finds them, which opens this library for LLVM's: the other functions
 * are those of the LLVM that it is linked with. The results are freed by LLVMDisposeMessage. */
AMX_EXPORT char *LLVMGetHostCPUName(void);
AMX_EXPORT char *LLVMGetHostCPUFeatures(void);

typedef char *Ask(void);

static Ask *own_function(const char *name)
{
    Ask *own = (Ask *)dlsym(RTLD_NEXT, name);
    if (own) return own;
    fprintf(stderr, "AMX: there is no LLVM behind libamx_machine.so\n");
    exit(1);
}

static void stand_for_llvm(void)
{
    Dl_info self;
    if (!dladdr((void *)stand_for_llvm, &self) || setenv("TILE_LLVM", self.dli_fname, 1)) abort();
}

char *LLVMGetHostCPUName(void)
{ return cpu_name() ? strdup(cpu_name()) : own_function("LLVMGetHostCPUName")(); }

static const char *more_features(char *list)
{
    if (!strcmp(cpu_name(), "sapphirerapids")) return "+amx-tile,+amx-bf16,+amx-int8,-amx-fp16";
    if (strcmp(cpu_name(), "alderlake")) return "+amx-tile,+amx-bf16,+amx-int8,+amx-fp16";
    static const char *const none[] = { "+avx512", "+amx", "+evex512" };
    for (int k = 0; k < 3; k++)
        for (char *at = list; (at = strstr(at, none[k]));) *at = '-';
    return "+avxvnni";
}

char *LLVMGetHostCPUFeatures(void)
{
    char *list = own_function("LLVMGetHostCPUFeatures")(), *all = NULL;
    if (!list || !cpu_name()) return list;
    const char *more = more_features(list);
    if (asprintf(&all, "%s,%s", list, more) < 0) abort();
    free(list);
    return all;
}

static pid_t owner;

__attribute__((constructor)) static void start(void)
{
    const char *answer = getenv("AMX_MACHINE_PERMISSION");
    owner = getpid();
    stand_for_llvm();
    amx_machine_start(answer && !strcmp(answer, "refused"));
}

static void write_counts(const char *path)
{
    FILE *f = fopen(path, "a");
    for (int k = 0; f && k < N_AMX_OPS; k++)
        if (amx_counts->op[k]) fprintf(f, "%s %lld\n", amx_op_names[k], (long long)amx_counts->op[k]);
    if (f && amx_counts->dots) fprintf(f, "dots %lld\n", (long long)amx_counts->dots);
    if (f) fclose(f);
}

static void fail(const char *what, int64_t n)
{
    fprintf(stderr, "AMX: %s: %lld\n", what, (long long)n);
    fflush(NULL);
    _exit(1);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("AMX_MACHINE_COUNTS"), *least = getenv("AMX_MACHINE_PRODUCTS");
    int64_t products = amx_counts->dots;
    if (getpid() != owner || amx_machine_is_real()) return;
    if (path && *path) write_counts(path);
    for (int k = AMX_TDPBF16PS; k < N_AMX_OPS; k++) products += amx_counts->op[k];
    if (amx_counts->configured) fail("threads that keep their tile registers", amx_counts->configured);
    if (least && products < atoll(least)) fail("too few products of tiles", products);
}
