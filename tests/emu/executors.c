/* executors.c: emulated architectures, and the interpreter as the oracle of random kernels. */
#include "tests/emu/exec_emu.h"
#include "passes/passes.h"
#include "tests/run/exec_interp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMULATED exec_emu_close, exec_emu_text, exec_emu_draw
#define QUICK(name) \
    { "tcc_" name, name ", compiled by TinyCC, in campaigns", exec_emu_open_quick, exec_emu_run, EMULATED, \
        exec_emu_thorough }

const Executor executors[] = {
    { "emu_sm_80", "emitted CUDA C for sm_80 on the host", exec_emu_open, exec_emu_run, EMULATED },
    { "emu_sm_89", "the same for sm_89", exec_emu_open, exec_emu_run, EMULATED },
    { "emu_sm_90a", "the same for sm_90a", exec_emu_open, exec_emu_run, EMULATED },
    { "emu_gfx942", "emitted HIP C for gfx942 on the host", exec_emu_open, exec_emu_run, EMULATED },
    { "emu_gfx90a", "the same for gfx90a", exec_emu_open, exec_emu_run, EMULATED },
    { "emu_gfx950", "the same for gfx950", exec_emu_open, exec_emu_run, EMULATED },
    { "emu_gfx1100", "the same for gfx1100", exec_emu_open, exec_emu_run, EMULATED },
    { "one_sm_80", "sm_80, for kernels that run once", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_sm_89", "sm_89, likewise", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_sm_90a", "sm_90a, likewise", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_sm_90", "sm_90, without what only sm_90a has", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_sm_100a", "sm_100a, likewise", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_sm_120", "sm_120, likewise", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_gfx942", "gfx942, compiled faster, run slower", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_gfx90a", "the same for gfx90a", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_gfx950", "the same for gfx950", exec_emu_open_once, exec_emu_run, EMULATED },
    { "one_gfx1100", "the same for gfx1100", exec_emu_open_once, exec_emu_run, EMULATED },
    QUICK("sm_80"),
    QUICK("sm_89"),
    QUICK("sm_90a"),
    QUICK("sm_90"),
    QUICK("sm_100a"),
    QUICK("sm_120"),
    QUICK("gfx942"),
    QUICK("gfx90a"),
    QUICK("gfx950"),
    QUICK("gfx1100"),
    { "interp", "the interpreter of the tile IR: the oracle of random kernels", exec_interp_open,
        exec_interp_run, exec_interp_close },
    { 0 },
};

void exec_emu_take_pass(const char *name, KernelOptions *o)
{
    const char *with = strstr(name, ",with=");
    PassId id;
    if (!with) return;
    with += strlen(",with=");
    if (!pass_find(with, strcspn(with, ","), &id)) fprintf(stderr, "%s: no such pass\n", name), exit(2);
    pass_add(&o->with, id);
}
