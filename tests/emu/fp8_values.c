/* fp8_values.c: every number of both fp8 types through a product with ones, as left and as right operand,
 * from memory and from registers, in both orders of the operands' axes, on every emulated machine: the
 * product is the number, infinities and NaN too.
 *
 *     fp8_values DEVICE...                                           exit status 0, 1, 77 without a host
 *         compiler */
#include "tests/emu/exec_emu.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CODES = 256, K = 64, OTHER = 32 };

typedef struct Shape {
    const char *kernel, *tile[3];
    bool left, turned;
} Shape;
static const Shape shapes[] = {
    { "loaded", { "32", "64", "32" }, false, false },
    { "loaded", { "32", "64", "32" }, false, true },
    { "loaded", { "32", "64", "32" }, true, false },
    { "loaded", { "64", "64", "64" }, true, true },
    { "loaded", { "16", "16", "32" }, false, false },
    { "loaded", { "16", "16", "32" }, true, true },
    { "loaded", { "64", "64", "64" }, false, true },
    { "chosen", { "32", "64", "32" }, false, false },
    { "chosen", { "32", "64", "32" }, true, false },
    { "chosen", { "64", "32", "32" }, true, true },
    { "chosen", { "64", "32", "32" }, false, true },
};

static double number(unsigned code, bool e4m3)
{
    int man = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15, e = (int)(code & 127) >> man,
        m = (int)code & ((1 << man) - 1);
    double x = e ? ldexp(m + (1 << man), e - bias - man) : ldexp(m, 1 - bias - man);
    if (e4m3 ? (code & 127) == 127 : e == 31) x = !e4m3 && !m ? INFINITY : NAN;
    return code & 128 ? -x : x;
}

static Tensor matrix(RefType type, void *at, int64_t rows, int64_t columns, bool turned)
{
    return (Tensor){ .type = type,
        .rank = 2,
        .shape = { rows, columns },
        .stride = { turned ? 1 : columns, turned ? rows : 1 },
        .count = rows * columns,
        .base = at };
}

static bool run(const Shape *c, void *emu, const char *device, bool e4m3, bool passes)
{
    static unsigned char numbers[CODES * K], ones[OTHER * K];
    static float out[CODES * OTHER];
    static const char *const names[] = { "TM", "TN", "TK" };
    char why[600] = "";
    RefType type = e4m3 ? REF_F8E4M3 : REF_F8E5M2;
    Run run = { .path = TILE_VALUES, .n_launches = 1, .passes = passes };
    Launch *l = &run.launches[0];
    memset(numbers, 0, sizeof numbers);
    memset(ones, e4m3 ? 0x38 : 0x3c, sizeof ones);
    memset(out, 0x55, sizeof out);
    /* the number of code x at position x % K of its row or column */
    for (int x = 0; x < CODES; x++)
        numbers[c->left != c->turned ? x * K + x % K : x % K * CODES + x] = (unsigned char)x;
    const Tensor all =
        c->left ? matrix(type, numbers, CODES, K, c->turned) : matrix(type, numbers, K, CODES, c->turned);
    const Tensor one =
        c->left ? matrix(type, ones, K, OTHER, c->turned) : matrix(type, ones, OTHER, K, c->turned);
    const Tensor t[3] = { c->left ? all : one, c->left ? one : all,
        matrix(REF_F32, out, c->left ? CODES : OTHER, c->left ? OTHER : CODES, false) };
    snprintf(l->kernel, sizeof l->kernel, "%s", c->kernel);
    for (int k = 0; k < 3; k++) l->args[k].tensor = &t[k];
    l->n_args = 3;
    for (int k = 0; k < 3; k++) {
        snprintf(l->consts[k].name, sizeof l->consts[k].name, "%s", names[k]);
        snprintf(l->consts[k].value, sizeof l->consts[k].value, "%s", c->tile[k]);
    }
    snprintf(l->consts[3].name, sizeof l->consts[3].name, "T");
    snprintf(l->consts[3].value, sizeof l->consts[3].value, "%s", e4m3 ? "f8e4m3" : "f8e5m2");
    l->n_consts = 4;
    bool ok = exec_emu_run(emu, &run, why, sizeof why);
    int wrong = 0;
    for (int x = 0; ok && x < CODES; x++)
        for (int o = 0; o < OTHER; o++) {
            double want = number((unsigned)x, e4m3), got = out[c->left ? x * OTHER + o : o * CODES + x];
            if ((isnan(want) ? !isnan(got) : got != want) && !wrong++)
                snprintf(why, sizeof why, "code %02x is %g, must be %g", x, got, want);
        }
    ok = ok && !wrong;
    if (!ok)
        printf("FAIL %s %s %s %sx%sx%s, %s operand, %s, %s: %s (%d wrong)\n", device, c->kernel,
            e4m3 ? "f8e4m3" : "f8e5m2", c->tile[0], c->tile[1], c->tile[2], c->left ? "left" : "right",
            c->turned ? "transposed views" : "as it lies", passes ? "passes" : "no passes", why, wrong);
    return ok;
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    char why[400];
    for (int d = 1; d < argc; d++) {
        void *emu = exec_emu_open_once(argv[d], why, sizeof why);
        if (!emu) {
            printf("SKIP: %s\n", why);
            return 77;
        }
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            for (int e4m3 = 0; e4m3 < 2; e4m3++, n++)
                failed += !run(&shapes[k], emu, argv[d], e4m3, k % 4 != 3);
        exec_emu_close(emu);
    }
    printf("%d products of all 256 numbers, %d failed\n", n, failed);
    return failed > 0;
}
