/* amx_preload.c: what a program that is run with libamx_machine.so finds: amx_machine.h. */
#define _GNU_SOURCE
#include "amx_machine.h"
#include "amx_model.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *cpu_name(void)
{
    const char *name = getenv("AMX_MACHINE_CPU");
    return name && *name ? name : "graniterapids";
}

/* LLVM's functions, which its callers find here first. Their results are freed by LLVMDisposeMessage. */
AMX_EXPORT char *LLVMGetHostCPUName(void);
AMX_EXPORT char *LLVMGetHostCPUFeatures(void);

char *LLVMGetHostCPUName(void)
{
    char *(*real)(void) = (char *(*)(void))dlsym(RTLD_NEXT, "LLVMGetHostCPUName");
    return amx_machine_is_real() && real ? real() : strdup(cpu_name());
}

char *LLVMGetHostCPUFeatures(void)
{
    char *(*real)(void) = (char *(*)(void))dlsym(RTLD_NEXT, "LLVMGetHostCPUFeatures");
    char *list = real ? real() : NULL, *more = NULL;
    if (!list || amx_machine_is_real()) return list;
    bool halves = !strcmp(cpu_name(), "graniterapids");
    if (asprintf(&more, "%s,+amx-tile,+amx-bf16,+amx-int8,%camx-fp16", list, halves ? '+' : '-') < 0) abort();
    free(list);
    return more;
}

static pid_t owner;

__attribute__((constructor)) static void start(void)
{
    const char *answer = getenv("AMX_MACHINE_PERMISSION");
    owner = getpid();
    amx_machine_start(answer && !strcmp(answer, "refused"));
}

static void write_counts(const char *path)
{
    FILE *f = fopen(path, "a");
    for (int k = 0; f && k < N_AMX_OPS; k++)
        if (amx_counts->op[k]) fprintf(f, "%s %lld\n", amx_op_names[k], (long long)amx_counts->op[k]);
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
    int64_t products = 0;
    if (getpid() != owner || amx_machine_is_real()) return;
    if (path && *path) write_counts(path);
    for (int k = AMX_TDPBF16PS; k < N_AMX_OPS; k++) products += amx_counts->op[k];
    if (amx_counts->configured) fail("threads that keep their tile registers", amx_counts->configured);
    if (least && products < atoll(least)) fail("too few products of tiles", products);
}
