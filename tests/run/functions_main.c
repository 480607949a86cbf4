/* functions_main.c: tile_functions_test: for the functions of the CUDA prelude that few kernels use, a kernel
 * each that makes the compiler emit it, against the interpreter without passes.
 *
 *     tile_functions_test --device=cuda [--name=PART] [--share=K/N] [--show]
 *
 * The functions are those of the prelude's tables that a row of functions.c serves. Where the device is an
 * sm_90a, the emission must hold the function. --name: only those whose names hold PART; --share: one of
 * N parts of them; --show: prints the kernels that fail. Exit status 0, 1, 2 for wrong options, 77 where the
 * device is not there. */
#include "backends/gpu/prelude/prelude.h"
#include "functions.h"
#include "oracle.h"
#include "random/random_check.h"
#include <ctype.h>
#include <string.h>

typedef struct Test {
    Oracle z;
    const char *part;
    bool show;
    int share, shares, served, ran, failed;
} Test;

static bool is_word(const char *at, const char *text, size_t n)
{
    bool before = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
    return !before && !isalnum((unsigned char)at[n]) && at[n] != '_';
}

static bool mentions(const char *text, const char *name)
{
    for (const char *p = text; (p = strstr(p, name)); p++)
        if (is_word(p, text, strlen(name))) return true;
    return false;
}

static void run(void *user, const char *name, const PreludeEntry *e)
{
    static RandomKernel k;
    Test *t = user;
    char why[2000];
    (void)e;
    for (int r = 0; r < n_function_rows; r++) {
        if ((t->part && !strstr(name, t->part)) || !function_kernel(&function_rows[r], name, &k)) continue;
        if (t->served++ % t->shares != t->share) return;
        /* the seed names the kernel's file, which executors remember */
        bool ok = random_check(&t->z, &k, (uint64_t)t->ran, true, 0, why, sizeof why);
        const char *(*emission)(const void *) = t->z.executor->text;
        const char *text = emission ? emission(t->z.state) : NULL;
        if (!ok) printf("FAIL %s: %s\n", name, why);
        if (text && strstr(text, "sm_90a") && !mentions(text, name)) {
            printf("FAIL %s: its kernel does not use it\n", name);
            ok = false;
        }
        if (!ok && t->show) random_show(stdout, &k, (uint64_t)t->ran);
        t->ran++;
        t->failed += !ok;
        return;
    }
}

static const char usage[] =
    "usage: tile_functions_test [--device=NAME] [--name=PART] [--share=K/N] [--show]\n";

int main(int argc, char **argv)
{
    static Test t = { .shares = 1 };
    const char *device = "interp";
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--device=", 9)) device = argv[i] + 9;
        else if (!strncmp(argv[i], "--name=", 7)) t.part = argv[i] + 7;
        else if (sscanf(argv[i], "--share=%d/%d", &t.share, &t.shares) == 2 && t.shares > 0) continue;
        else if (!strcmp(argv[i], "--show")) t.show = true;
        else return fputs(usage, stderr), 2;
    }
    int status = oracle_open(&t.z, device);
    if (status) return status;
    prelude_each(cuda_prelude, run, &t);
    prelude_each(cuda_prelude_fp8, run, &t);
    oracle_close(&t.z);
    printf("%d functions of the CUDA prelude on %s, %d failed\n", t.ran, device, t.failed);
    return t.failed > 0;
}
