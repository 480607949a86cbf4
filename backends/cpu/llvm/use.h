/* use.h: what code for the CPU takes of a processor (CpuUse of backends/backend.h). */
#pragma once
#include "backends/cpu/cpu.h"

/* Asks LLVM for what the code of the module takes. The context and *use must outlive its compilation. */
void cpu_use_begin(LLVMContextRef, LLVMModuleRef, CpuUse *);
/* Counts the vector registers that the assembly names. */
void cpu_use_registers(const CpuTarget *, const char *assembly, CpuUse *);
