/* random_main.c: tile_random_test: random kernels on one executor against the interpreter without passes.
 *
 *     tile_random_test --device=interp --first=1 --count=200
 *     tile_random_test --device=cpu finds/one.tile finds/two.tile
 *
 * --products: kernels of matrix products (random_product.c); --arrangements: of products in every arrangement
 * (arrange.h); before --show. Files: kernel_file.h. --draws: of sizes that are drawn, how many (3); --from:
 * the first of them. --skip=LIST: passes that are left out of runs with passes. --most=N: of a file whose
 * alternatives are more than N with each other, each comes once, with one of the others, and no more than N
 * come. --passes=on: not without passes too. --fits: of each file some problem has to fit the device.
 *
 * A kernel that fails is printed whole, in the form in which it can be kept as a file and run again. Exit
 * status 0, 1, 2 for wrong options, 77 where the device is not there. */
#include "kernel_file.h"
#include "oracle.h"
#include "random_check.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Fuzz {
    Oracle z;
    void (*make)(uint64_t, RandomKernel *);
    int number, draws, most;
    bool without; /* .. passes too */
    uint64_t first_draw;
    int ran, refused; /* problems of the file: that ran; that need more than the device has */
    char why[400];    /* the last of those */
    bool fits;        /* a file of which no problem ran has failed */
} Fuzz;

static bool run_seed(Fuzz *z, uint64_t seed)
{
    RandomKernel *k = malloc(sizeof *k);
    z->make(seed, k);
    char why[2000];
    bool ok = random_check(&z->z, k, seed, true, 0, why, sizeof why);
    if (!ok) printf("FAIL seed %llu: %s\n", (unsigned long long)seed, why), random_show(stdout, k, seed);
    free(k);
    return ok;
}

static bool run_problem(Fuzz *z, const KernelFile *k, const char *sizes, const char *consts,
    const char *views, const char *special, uint64_t seed)
{
    char name[32], why[2000] = "";
    snprintf(name, sizeof name, "random%d", z->number++);
    Recipe r = { name, name, k->tensors, k->scalars, k->defaults,
        { k->launch[0], *k->launch[1] ? k->launch[1] : NULL, *k->launch[2] ? k->launch[2] : NULL,
            *k->launch[3] ? k->launch[3] : NULL },
        oracle_no_reference, k->exact ? 0 : 4, k->exact ? 0 : 8192, k->exact ? 0 : 1 << 20, FLOOR_RMS };
    if (*k->bounds) sscanf(k->bounds, "%lf %lf %lf", &r.narrow, &r.f32, &r.f64);
    Verdict v = { .ok = oracle_write(&z->z, name, k->text) };
    Problem *p = v.ok ? problem_make(&r, sizes, consts, views, special, seed, why, sizeof why) : NULL;
    if (p) v = oracle_check(&z->z, p, z->without && z->z.executor != z->z.oracle, true);
    else snprintf(v.text, sizeof v.text, "%s", *why ? why : "cannot write the kernel's file"), v.ok = false;
    oracle_forget(&z->z, name);
    problem_free(p);
    if (!v.ok && !strncmp(v.text, "SKIP:", 5)) {
        z->refused++;
        return snprintf(z->why, sizeof z->why, "%s", v.text), true;
    }
    z->ran++;
    if (!v.ok) printf("FAIL seed %llu: %s\n", (unsigned long long)seed, v.text);
    return v.ok;
}

static int alternatives(const char *text)
{
    int n = 1;
    for (; (text = strchr(text, '|')); text++) n++;
    return n;
}

static const char *alternative(const char *text, int k, char *out, size_t size)
{
    char all[512], *at = all;
    snprintf(all, sizeof all, "%s", text);
    while (k-- > 0 && at) at = kernel_file_cut(&at, out, size);
    if (at) kernel_file_cut(&at, out, size);
    return out;
}

/* Alternative `of_sizes` with `of_consts`, and of the views either all or the one with the number `of_views`.
 */
static bool run_alternative(
    Fuzz *z, const char *path, const KernelFile *k, int of_sizes, int of_consts, int of_views)
{
    char views[256], one[512], each[256], view[256], drawn[512];
    bool ok = true;
    alternative(k->sizes, of_sizes, one, sizeof one);
    alternative(k->consts, of_consts, each, sizeof each);
    for (int draw = 0; ok && draw < (strstr(one, "..") ? z->draws : 1); draw++) {
        uint64_t seed = k->seed + z->first_draw + (uint64_t)draw;
        const char *special = *k->special && (!k->drawn || draw & 1) ? k->special : NULL;
        if (!kernel_file_sizes(one, seed, drawn, sizeof drawn))
            return printf("FAIL %s: sizes '%s' are not understood\n", path, one), false;
        if (*k->views) memcpy(views, k->views, sizeof views);
        else if (k->drawn && draw) kernel_file_views(k, seed, views, sizeof views);
        else strcpy(views, "-");
        int n = alternatives(views), first = of_views < 0 ? 0 : of_views % n;
        for (int v = first; ok && v < (of_views < 0 ? n : first + 1); v++) {
            alternative(views, v, view, sizeof view);
            ok = run_problem(z, k, drawn, each, strcmp(view, "-") ? view : NULL, special, seed);
            if (!ok)
                printf("// in %s, sizes %s, consts %s, views %s%s%s\n", path, drawn, *each ? each : "-",
                    *view ? view : "-", special ? ", special " : "", special ? special : "");
        }
    }
    return ok;
}

/* Each alternative of a file with each other; of sizes that are drawn, as many as asked for. */
static bool run_file(Fuzz *z, const char *path)
{
    KernelFile *k = malloc(sizeof *k);
    char why[2000] = "";
    bool ok = kernel_file_read(path, k, why, sizeof why);
    if (!ok) printf("FAIL %s: %s\n", path, why);
    z->ran = z->refused = 0;
    int sizes = alternatives(k->sizes), consts = alternatives(k->consts), views = alternatives(k->views);
    if (ok && sizes * consts * views > z->most) {
        int n = sizes > consts ? sizes : consts;
        n = n > views ? n : views;
        for (int at = 0; ok && at < n && at < z->most; at++)
            ok = run_alternative(z, path, k, at % sizes, at % consts, at % views);
    } else {
        for (int at = 0; ok && at < sizes * consts; at++)
            ok = run_alternative(z, path, k, at / consts, at % consts, -1);
    }
    if (ok && z->refused && !z->ran) {
        printf("%s%s: no problem fits: %s\n", z->fits ? "FAIL " : "// ", path, z->why);
        ok = !z->fits;
    }
    fflush(stdout);
    free(k);
    return ok;
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static const char usage[] =
    "usage: tile_random_test [--device=NAME] [--products | --structures | --mixtures | "
    "--rows | --counts | --programs | --rare | --sums | --floats | --scores | --places | --patterns | "
    "--columns | "
    "--arrangements] "
    "[--first=SEED] [--count=N] [--show=SEED] [--draws=N] [--from=N] [--most=N] [--passes=on] [--fits] "
    "[--skip=LIST] "
    "[FILE...]\n";

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 100, failed = 0, n_files = 0;
    const char *device = "interp", *skip = NULL, *v;
    Fuzz z = { .draws = 3, .most = INT_MAX, .without = true, .make = random_kernel };
    for (int i = 1; i < argc; i++) {
        if ((v = value_of(argv[i], "--device"))) device = v;
        else if ((v = value_of(argv[i], "--first"))) first = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--count"))) count = strtoull(v, NULL, 0);
        else if (!strcmp(argv[i], "--products")) z.make = random_product;
        else if (!strcmp(argv[i], "--structures")) z.make = random_structure;
        else if (!strcmp(argv[i], "--mixtures")) z.make = random_mixture;
        else if (!strcmp(argv[i], "--rows")) z.make = random_rows;
        else if (!strcmp(argv[i], "--programs")) z.make = random_program;
        else if (!strcmp(argv[i], "--rare")) z.make = random_rare;
        else if (!strcmp(argv[i], "--sums")) z.make = random_sums;
        else if (!strcmp(argv[i], "--floats")) z.make = random_floats;
        else if (!strcmp(argv[i], "--scores")) z.make = random_scores;
        else if (!strcmp(argv[i], "--places")) z.make = random_places;
        else if (!strcmp(argv[i], "--patterns")) z.make = random_patterns;
        else if (!strcmp(argv[i], "--counts")) z.make = random_counts;
        else if (!strcmp(argv[i], "--columns")) z.make = random_columns;
        else if (!strcmp(argv[i], "--arrangements")) z.make = random_arrangement;
        else if ((v = value_of(argv[i], "--draws"))) z.draws = atoi(v);
        else if ((v = value_of(argv[i], "--most"))) z.most = atoi(v);
        else if (!strcmp(argv[i], "--passes=on")) z.without = false;
        else if (!strcmp(argv[i], "--fits")) z.fits = true;
        else if ((v = value_of(argv[i], "--skip"))) skip = v;
        else if ((v = value_of(argv[i], "--from"))) z.first_draw = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--show"))) {
            RandomKernel *k = malloc(sizeof *k);
            z.make(strtoull(v, NULL, 0), k);
            random_show(stdout, k, strtoull(v, NULL, 0));
            free(k);
            return 0;
        } else if (*argv[i] == '-') return fputs(usage, stderr), 2;
        else n_files++;
    }
    int status = oracle_open(&z.z, device);
    if (status) return status;
    z.z.skip = skip;
    for (int i = 1; i < argc; i++)
        if (*argv[i] != '-') failed += !run_file(&z, argv[i]);
    for (uint64_t seed = first; !n_files && seed < first + count; seed++) failed += !run_seed(&z, seed);
    oracle_close(&z.z);
    printf("%llu random kernels on %s, %llu failed\n", (unsigned long long)(n_files ? n_files : count),
        device, (unsigned long long)failed);
    return failed > 0;
}
