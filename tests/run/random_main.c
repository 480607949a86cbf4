/* random_main.c: tile_random_test: random kernels on one executor against the interpreter without passes.
 *
 *     tile_random_test --device=interp --first=1 --count=200
 *     tile_random_test --device=cpu finds/one.tile finds/two.tile
 *
 * A file begins with the lines `// sizes:`, `// scalars:`, `// tensors:` and `// seed:`; its kernel is `random` with the parameters that random kernels have, or what a line
 * `// launch: KERNEL ARGUMENTS..` says. Sizes are alternatives divided by `|`, and so are views in a line `// views: A:r B:s | -` (cases.h; `-`: none); each is run with each.
 * `// special: A` puts NaN and infinities into A.
 *
 * A kernel that fails is printed whole, in the form in which it can be kept as a file and run again. Exit status 0, 1, 2 for wrong
 * options, 77 where the device is not there. */
#include "oracle.h"
#include "random_kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Fuzz { Oracle z; int number; } Fuzz;

static void show(const RandomKernel *k, uint64_t seed)
{
    printf("// sizes: %s\n// scalars: %s\n// tensors: %s\n// seed: %llu\n%s", k->sizes, k->scalars, k->tensors, (unsigned long long)seed, k->text);
}

static bool run_kernel(Fuzz *z, const RandomKernel *k, const char *views, const char *special, uint64_t seed)
{
    char name[32], why[400] = "";
    snprintf(name, sizeof name, "random%d", z->number++);
    /* Integers must be equal. Floats may move by rounding, which the kernels keep from growing: 2^-10 of the typical value; 16 bits by four ulp of it */
    Recipe r = {name, name, k->tensors, k->scalars, "", {k->launch}, oracle_no_reference, 4, 8192, 0, FLOOR_RMS};
    Verdict v = {.ok = oracle_write(&z->z, name, k->text)};
    Problem *p = v.ok ? problem_make(&r, k->sizes, NULL, views, special, seed, why, sizeof why) : NULL;
    if (p) v = oracle_check(&z->z, p, z->z.executor != z->z.oracle, true);
    else snprintf(v.text, sizeof v.text, "%s", *why ? why : "cannot write the kernel's file"), v.ok = false;
    if (!v.ok) {
        printf("FAIL seed %llu: %s\n", (unsigned long long)seed, v.text);
        show(k, seed);
    }
    oracle_forget(&z->z, name);
    problem_free(p);
    return v.ok;
}

static bool run_seed(Fuzz *z, uint64_t seed)
{
    RandomKernel *k = malloc(sizeof *k);
    random_kernel(seed, k);
    bool ok = run_kernel(z, k, NULL, NULL, seed);
    free(k);
    return ok;
}

/* The rest of the line of `text` that starts with `key`. */
static bool field(const char *text, const char *key, char *out, size_t size)
{
    const char *at = strstr(text, key);
    if (at) snprintf(out, size, "%.*s", (int)strcspn(at + strlen(key), "\n"), at + strlen(key));
    return at != NULL;
}

/* The alternative at *s, without blanks around it; what follows, or NULL. */
static char *cut(char **s, char *out, size_t size)
{
    size_t n = strcspn(*s, "|");
    char *next = (*s)[n] ? *s + n + 1 : NULL;
    while (n && **s == ' ') { ++*s; n--; }
    while (n && (*s)[n - 1] == ' ') n--;
    snprintf(out, size, "%.*s", (int)n, *s);
    return next;
}

static bool run_file(Fuzz *z, const char *path)
{
    RandomKernel *k = calloc(1, sizeof *k);
    char seed[32] = "", sizes[sizeof k->sizes], views[256] = "-", special[64] = "";
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(k->text, 1, sizeof k->text - 1, f) : 0;
    if (f) fclose(f);
    if (!field(k->text, "// launch: ", k->launch, sizeof k->launch)) snprintf(k->launch, sizeof k->launch, "random A B C S Y Z R k s");
    bool ok = n && field(k->text, "// sizes: ", k->sizes, sizeof k->sizes) && field(k->text, "// scalars: ", k->scalars, sizeof k->scalars)
           && field(k->text, "// tensors: ", k->tensors, sizeof k->tensors) && field(k->text, "// seed: ", seed, sizeof seed);
    if (!ok) printf("FAIL %s: cannot be read, or does not start with sizes, scalars, tensors and seed\n", path);
    field(k->text, "// views: ", views, sizeof views);
    field(k->text, "// special: ", special, sizeof special);
    memcpy(sizes, k->sizes, sizeof sizes);
    for (char *s = sizes, *next; ok && s; s = next) {
        next = cut(&s, k->sizes, sizeof k->sizes);
        char each[256], view[256];
        memcpy(each, views, sizeof each);
        for (char *v = each, *rest; ok && v; v = rest) {
            rest = cut(&v, view, sizeof view);
            ok = run_kernel(z, k, strcmp(view, "-") ? view : NULL, *special ? special : NULL, strtoull(seed, NULL, 0));
            if (!ok) printf("// in %s, sizes %s, views %s\n", path, k->sizes, view);
        }
    }
    free(k);
    return ok;
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static const char usage[] = "usage: tile_random_test [--device=NAME] [--first=SEED] [--count=N] [--show=SEED] [FILE...]\n";

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 100, failed = 0, n_files = 0;
    const char *device = "interp", *v;
    for (int i = 1; i < argc; i++) {
        if ((v = value_of(argv[i], "--device"))) device = v;
        else if ((v = value_of(argv[i], "--first"))) first = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--count"))) count = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--show"))) {
            RandomKernel *k = malloc(sizeof *k);
            random_kernel(strtoull(v, NULL, 0), k);
            show(k, strtoull(v, NULL, 0));
            free(k);
            return 0;
        } else if (*argv[i] == '-') return fputs(usage, stderr), 2;
        else n_files++;
    }
    Fuzz z = {.number = 0};
    int status = oracle_open(&z.z, device);
    if (status) return status;
    for (int i = 1; i < argc; i++) if (*argv[i] != '-') failed += !run_file(&z, argv[i]);
    for (uint64_t seed = first; !n_files && seed < first + count; seed++) failed += !run_seed(&z, seed);
    oracle_close(&z.z);
    printf("%llu random kernels on %s, %llu failed\n", (unsigned long long)(n_files ? n_files : count), device, (unsigned long long)failed);
    return failed > 0;
}
