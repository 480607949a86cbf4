/* llvm.c: opens LLVM's library, and has it know the processors (llvm.h). */
#define _GNU_SOURCE
#include "backends/cpu/llvm/llvm.h"
#include "ir/support/format.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

LlvmFunctions llvm_functions;

static const char *const names[] = {
#define LLVM_FUNCTION(NAME) \
    "LLVM" #NAME \
    ,
#include "backends/cpu/llvm/llvm.def"
#undef LLVM_FUNCTION
};
enum { N_NAMES = sizeof names / sizeof *names };
_Static_assert(sizeof(LlvmFunctions) == N_NAMES * sizeof(void *), "a function has a name each");

static char reason[600];

static const char *named_file(void)
{
    const char *name = getenv("TILE_LLVM");
    return name && *name ? name : NULL;
}

const char *llvm_file(void) { return named_file() ? named_file() : TILE_LLVM_FILE; }

/* Symbols are bound when they are first called: most of LLVM's are not. The library stays, since its threads'
 * own data and what it leaves to the process's end cannot be taken back. */
static void *open_file(const char *name) { return dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE); }

/* By its name where the system's loader finds it, else where it was when this was built. */
static void *open_library(void)
{
    const char *named = named_file();
    void *library = open_file(named ? named : TILE_LLVM_NAME);
    if (library) return library;
    format_text(reason, sizeof reason,
        "code for a CPU needs LLVM's library, which does not open: %s; install it (Debian: libllvm22), or "
        "name the file of libLLVM 22 by TILE_LLVM",
        dlerror());
    if (!named && (library = open_file(TILE_LLVM_FILE))) *reason = 0;
    return library;
}

static bool find_functions(void)
{
    void *library = open_library();
    for (int i = 0; library && i < N_NAMES; i++) {
        void *function = dlsym(library, names[i]);
        if (!function)
            format_text(reason, sizeof reason, "LLVM's library is not that of LLVM 22: %s", dlerror());
        if (!function) return false;
        memcpy((char *)&llvm_functions + (size_t)i * sizeof function, &function, sizeof function);
    }
    return library;
}

static void open_once(void)
{
    if (&llvm_linked) llvm_functions = llvm_linked;
    else if (!find_functions()) return;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
}

const char *llvm_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return *reason ? reason : NULL;
}
