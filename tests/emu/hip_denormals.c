/* hip_denormals: products of the smallest numbers on each chip: gfx90a's matrix unit takes subnormal f16 and
 * bf16 for zero, the others do not, and no chip loses a small fp8, whose products are made of wider numbers
 * where its unit is missing. Exit status 0, 1, 77 without a host compiler. */
#include "tests/emu/exec_emu.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every element of A and B; what every element of C must be: 32 products. */
typedef struct Row {
    const char *chip, *consts;
    unsigned a, b;
    int bytes;
    float want;
} Row;
static const Row rows[] = {
#define EACH(consts, a, b, bytes, on90a, else_) \
    { "one_gfx90a", consts, a, b, bytes, on90a }, { "one_gfx942", consts, a, b, bytes, else_ }, \
        { "one_gfx950", consts, a, b, bytes, else_ }, \
    { "one_gfx1100", consts, a, b, bytes, else_ }
    EACH("T=f16 TO=f32 TM=32 TN=32 TK=32", 0x0001, 0x4000, 2, 0, 0x1p-18f), /* 2^-24 times 2 */
    EACH("T=f16 TO=f32 TM=32 TN=32 TK=32", 0x0400, 0x4000, 2, 0x1p-8f,
        0x1p-8f), /* 2^-14, the smallest normal one */
    EACH("T=bf16 TO=f32 TM=32 TN=32 TK=32", 0x0001, 0x7f00, 2, 0, 0x1p-1f),       /* 2^-133 times 2^127 */
    EACH("T=f8e5m2 TO=f32 TM=32 TN=32 TK=32", 0x01, 0x40, 1, 0x1p-10f, 0x1p-10f), /* 2^-16 times 2 */
    EACH("T=f8e4m3 TO=f32 TM=32 TN=32 TK=32", 0x01, 0x40, 1, 0x1p-3f, 0x1p-3f),   /* 2^-9 times 2 */
};

static bool run(const Row *r, void *emu)
{
    char why[600] = "", path[512];
    Run run;
    Problem *p =
        problem_make(recipe_find("gemm"), "M=32 N=32 K=32", r->consts, NULL, NULL, 1, why, sizeof why);
    bool ok = p && run_prepare(&run, p, TILE_KERNELS, path, sizeof path, why, sizeof why);
    float got = -1;
    if (ok) {
        problem_reset(p);
        for (int t = 0; t < 2; t++)
            for (int k = 0; k < 32 * 32; k++)
                memcpy((char *)p->tensors[t].base + p->tensors[t].offset + k * r->bytes, t ? &r->b : &r->a,
                    (size_t)r->bytes);
        run.passes = true;
        ok = exec_emu_run(emu, &run, why, sizeof why);
        for (int k = 0; k < 32 * 32 && ok; k++) {
            memcpy(&got, (char *)p->tensors[2].base + p->tensors[2].offset + k * 4, 4);
            ok = got == r->want;
        }
    }
    printf("%-4s %s %s %x: %a, must be %a%s%s\n", ok ? "ok" : "FAIL", r->chip, r->consts, r->a, got, r->want,
        *why ? ": " : "", why);
    if (p) problem_free(p);
    return ok;
}

int main(void)
{
    bool ok = true;
    char why[400];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *emu = exec_emu_open_once(rows[i].chip, why, sizeof why);
        if (!emu) {
            printf("SKIP: %s\n", why);
            return 77;
        }
        ok &= run(&rows[i], emu);
        exec_emu_close(emu);
    }
    return !ok;
}
