/* amx_machine.h: a machine with AMX, for programs on one without: the instructions of AMX, which raise SIGILL
 * there, are decoded and carried out by the functions of amx_model.h. LD_PRELOAD=libamx_machine.so gives it
 * to a program that was not built for it; then LLVM also finds AMX among the features of this machine, and
 * the operating system grants the state of tile registers. On a machine with AMX nothing of this happens, and
 * the processor's own instructions run. At the end of the process it is a failure if a thread's tile
 * registers are still configured. The environment says more:
 *
 *     AMX_MACHINE_CPU=sapphirerapids     the processor's name; without it graniterapids, which has amx-fp16;
 *                                        alderlake has no AMX and no AVX-512, but AVX-VNNI, whose
 *                                        instructions are carried out too
 *     AMX_MACHINE_PERMISSION=refused     the operating system grants nothing
 *     AMX_MACHINE_COUNTS=FILE            appends how often each instruction was carried out
 *     AMX_MACHINE_PRODUCTS=N             fewer products of tiles, or instructions of AVX-VNNI, are a failure
 *
 * In a program whose instructions `cpuid` and `xgetbv` were replaced (amx_cpuid.sh), these answer as on such
 * a machine too. */
#pragma once
#include "amx_decode.h"
#include <stdatomic.h>

/* Of all threads, and of the processes that are forked: the instructions carried out (`dots`: of AVX-VNNI),
 * and the threads whose tile registers are configured. */
typedef struct AmxCounts {
    _Atomic int64_t op[N_AMX_OPS], dots, configured;
} AmxCounts;
extern AmxCounts *amx_counts;

/* Whether the processor has AMX itself. */
bool amx_machine_is_real(void);
/* Takes SIGILL, unless the processor has AMX, and answers the requests for the state of tile registers. */
void amx_machine_start(bool refuses);
