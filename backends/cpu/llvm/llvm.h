/* llvm.h: LLVM's C API. Nothing links with LLVM: its library is opened when code for a CPU is first asked
 * for, because opening it takes longer than compiling a kernel for a GPU. A call such as LLVMGetVersion(...)
 * goes through llvm_functions, by the macros of llvm_calls.h, which the build makes from llvm.def. Files of
 * this backend include LLVM's headers from here only. */
#pragma once
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/Error.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

typedef struct LlvmFunctions {
#define LLVM_FUNCTION(NAME) __typeof__(&LLVM##NAME) NAME;
#include "backends/cpu/llvm/llvm.def"
#undef LLVM_FUNCTION
} LlvmFunctions;

/* Set by llvm_open; nothing may be called before. */
extern LlvmFunctions llvm_functions;

/* Opens the library, by the first call of the process, from any thread: the file that TILE_LLVM names, else
 * the library that the build found. NULL, or why there is none; then each call says the same. */
const char *llvm_open(void);

/* The file that TILE_LLVM names, else the one that was there when this was built. */
const char *llvm_file(void);

/* A program that is linked with LLVM itself has this one (llvm_linked.c), and opens no library. */
extern const LlvmFunctions llvm_linked __attribute__((weak));

#ifndef LLVM_ITSELF
#include "backends/cpu/llvm_calls.h"
#endif
