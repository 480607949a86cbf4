/* bundle_hip.c: launches code objects from a bundle on the HIP driver in memory of tests/api. */
#include "fake_gpu.h"
#include "h.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define SAID h_error()
#include "expect.h"

int main(void)
{
    void *library = dlopen("libamdhip64.so", RTLD_NOW);
    FakeStateFn *state = library ? (FakeStateFn *)(uintptr_t)dlsym(library, "fake_state") : NULL;
    static _Alignas(16) float x[4 * 16], z[4];
    int64_t rows[] = { 4, 16 }, m[] = { 4 };
    tile_device d;
    if (!state) return puts("the driver in memory is not there"), 1;
    FakeState *gpu = state();
    gpu->arch = 0x942;
    EXPECT("open", h_open_device(TILE_ON_ANY, 0, &d), TILE_LAUNCH_OK);
    EXPECT("target", strcmp(d.target, "hip:gfx942"), 0);
    EXPECT("dot",
        dot((tile_view){ x, rows, NULL }, (tile_view){ x, rows, NULL }, (tile_view){ z, m, NULL }, &d.queue),
        TILE_LAUNCH_OK);
    EXPECT("a code object",
        memcmp(gpu->last_image,
            "\x7f"
            "ELF",
            4),
        0);
    EXPECT("programs", gpu->last.grid[0], 4);
    EXPECT("launches", gpu->launches, 1);
    EXPECT("name", strcmp(gpu->last.name, "dot"), 0);
    EXPECT("an address that is NULL",
        dot((tile_view){ NULL, rows, NULL }, (tile_view){ x, rows, NULL }, (tile_view){ z, m, NULL },
            &d.queue),
        TILE_LAUNCH_INVALID);
    EXPECT("CUDA", h_open_device(TILE_ON_CUDA, 0, &d), TILE_LAUNCH_NO_DEVICE);
    if (!failures) puts("all launches as expected");
    return failures != 0;
}
