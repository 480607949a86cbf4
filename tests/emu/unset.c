/* unset.c: tile_emu_unset DEVICE: a variable that is declared in a loop holds a pattern in each iteration
 * until it is written, not the value of the iteration before, whoever compiles the kernel. */
#include "tests/emu/exec_emu.h"
#include <inttypes.h>
#include <stdio.h>

enum { SKIP = 77, STEPS = 3, WRITTEN = 7 };

static const char text[] = "typedef unsigned int u32;\n"
                           "typedef unsigned long long u64;\n"
                           "\n"
                           "extern \"C\" __global__ void\n"
                           "left(u32 *Y)\n"
                           "{\n"
                           "    for (int i = 0; i < 3; i++) {\n"
                           "        u32 one, two[2];\n"
                           "        if (threadIdx.x == 0) Y[i] = one;\n"
                           "        if (threadIdx.x == 0) Y[3 + i] = two[1];\n"
                           "        one = 7;\n"
                           "        two[1] = 7;\n"
                           "    }\n"
                           "}\n";

int main(int argc, char **argv)
{
    char why[400] = "";
    uint32_t y[2 * STEPS] = { 0 };
    const uint64_t words[] = { (uint64_t)(uintptr_t)y };
    GpuCode code = { .name = "left", .text = (char *)text, .threads = 32, .cluster = 1 };
    void *emu = exec_emu_open_once(argc > 1 ? argv[1] : "one_sm_80", why, sizeof why);
    if (!emu) return printf("SKIP: %s\n", why), SKIP;
    EmuLaunchFn *launch = exec_emu_build(emu, &code, why, sizeof why);
    const char *err = launch ? launch(words, 1, code.threads, 0, 0) : why;
    bool ok = !err;
    if (err) printf("%s\n", err);
    for (int i = 0; i < 2 * STEPS; i++) {
        printf("%#" PRIx32 "%s", y[i], i + 1 < 2 * STEPS ? " " : "\n");
        ok &= y[i] != WRITTEN && y[i] == y[0] && y[i];
    }
    exec_emu_close(emu);
    printf("%s\n", ok ? "ok" : "FAIL");
    return !ok;
}
