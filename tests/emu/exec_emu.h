/* exec_emu.h: the executor of emitted CUDA C on the host. */
#pragma once
#include "executor.h"
#include "tests/emu/cuda_source.h"

/* Names of executors.c. A name that begins with tcc_ is opened by exec_emu_open_quick. */
void *exec_emu_open(const char *name, char *why, size_t why_size);
void *exec_emu_open_once(const char *name, char *why,
    size_t why_size); /* compiles faster and runs slower, for kernels that run once */
void *exec_emu_open_quick(
    const char *name, char *why, size_t why_size); /* by TinyCC (quick.h) where it can */
/* Whether launches from now on are compiled as by exec_emu_open_once. False: they always are. */
bool exec_emu_thorough(void *state, bool thorough);
bool exec_emu_run(void *state, const Run *, char *why, size_t why_size);
void exec_emu_close(void *state);

/* Fixes what is drawn (emu.h) instead of changing it from launch to launch; -1 undoes it. */
void exec_emu_draw(void *state, int order, int late);
/* The pass that a device's name asks for (`,with=PASS`) wherever it is possible, which it is else where it
 * pays. A name of no pass ends the program. */
void exec_emu_take_pass(const char *name, KernelOptions *);
/* For launches from now on. */
void exec_emu_options(void *state, const KernelOptions *);
/* Did the last launch have a producer that copies by TMA? */
bool exec_emu_roles(const void *state);
/* Libraries that are made from now on hold faults that emu_mutant chooses from. */
void exec_emu_plant(void *state, Faults *);

/* The emission of the last launch. */
const char *exec_emu_text(const void *state);

/* The library made of emitted text; NULL with the reason. Kept until 64 others were made. */
typedef const char *EmuLaunchFn(const uint64_t *args, int64_t blocks, int threads, int order, int late);
EmuLaunchFn *exec_emu_build(void *state, const GpuCode *, char *why, size_t why_size);
