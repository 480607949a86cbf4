/* random_main.c: tile_random_test: random kernels on one executor against the interpreter without passes.
 *
 *     tile_random_test --device=interp --first=1 --count=200
 *     tile_random_test --device=cpu finds/one.tile finds/two.tile
 *
 * A kernel that fails is printed whole, in the form in which it can be kept as a file and run again. Exit status 0, 1, 2 for wrong
 * options, 77 where the device is not there. */
#include "executor.h"
#include "random_kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Fuzz { const Executor *oracle, *executor; void *oracle_state, *state; char path[64]; int number; } Fuzz;

/* The wanted values come from the oracle's run. */
static void no_reference(Problem *p) {}

static bool write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

static void keep_as_wanted(Problem *p)
{
    int64_t count;
    double *all = problem_outputs(p, &count), *at = all;
    for (int i = 0; i < p->n_tensors; i++) {
        Tensor *t = &p->tensors[i];
        if (t->role != ROLE_OUT && t->role != ROLE_INOUT) continue;
        memcpy(t->want, at, (size_t)t->count * sizeof *at);
        at += t->count;
    }
    free(all);
}

static bool run_on(const Executor *e, void *state, Run *run, Problem *p, bool passes, Verdict *v)
{
    problem_reset(p);
    run->passes = passes;
    return v->ok = e->run(state, run, v->text, sizeof v->text);
}

static Verdict check(Fuzz *z, Problem *p)
{
    Verdict v = {.ok = false};
    Run run;
    char path[128];
    if (!run_prepare(&run, p, z->path, path, sizeof path, v.text, sizeof v.text)) return v;
    if (!run_on(z->oracle, z->oracle_state, &run, p, false, &v)) return v;
    keep_as_wanted(p);
    for (int passes = z->executor == z->oracle; passes < 2; passes++) {
        if (!run_on(z->executor, z->state, &run, p, passes, &v)) return v;
        v = problem_check(p);
        if (!v.ok) return v;
    }
    return v;
}

static void show(const RandomKernel *k, uint64_t seed)
{
    printf("// sizes: %s\n// scalars: %s\n// tensors: %s\n// seed: %llu\n%s", k->sizes, k->scalars, k->tensors, (unsigned long long)seed, k->text);
}

static bool run_kernel(Fuzz *z, const RandomKernel *k, uint64_t seed)
{
    char file[128], name[32], why[400] = "";
    snprintf(name, sizeof name, "random%d", z->number++);
    snprintf(file, sizeof file, "%s/%s.tile", z->path, name);
    /* Integers must be equal. Floats may move by rounding, which the kernels keep from growing: 2^-10 of the typical value */
    Recipe r = {name, name, k->tensors, k->scalars, "", {k->launch}, no_reference, 0, 8192, 0, FLOOR_RMS};
    Verdict v = {.ok = write_text(file, k->text)};
    Problem *p = v.ok ? problem_make(&r, k->sizes, NULL, NULL, NULL, seed, why, sizeof why) : NULL;
    if (p) v = check(z, p);
    else snprintf(v.text, sizeof v.text, "%s", *why ? why : "cannot write the kernel's file"), v.ok = false;
    if (!v.ok) {
        printf("FAIL seed %llu: %s\n", (unsigned long long)seed, v.text);
        show(k, seed);
    }
    unlink(file);
    problem_free(p);
    return v.ok;
}

static bool run_seed(Fuzz *z, uint64_t seed)
{
    RandomKernel *k = malloc(sizeof *k);
    random_kernel(seed, k);
    bool ok = run_kernel(z, k, seed);
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

static bool run_file(Fuzz *z, const char *path)
{
    RandomKernel *k = calloc(1, sizeof *k);
    char seed[32] = "";
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(k->text, 1, sizeof k->text - 1, f) : 0;
    if (f) fclose(f);
    snprintf(k->launch, sizeof k->launch, "random A B C S Y Z R k s");
    bool ok = n && field(k->text, "// sizes: ", k->sizes, sizeof k->sizes) && field(k->text, "// scalars: ", k->scalars, sizeof k->scalars)
           && field(k->text, "// tensors: ", k->tensors, sizeof k->tensors) && field(k->text, "// seed: ", seed, sizeof seed);
    if (!ok) printf("FAIL %s: cannot be read, or does not start with sizes, scalars, tensors and seed\n", path);
    else if (!(ok = run_kernel(z, k, strtoull(seed, NULL, 0)))) printf("// in %s\n", path);
    free(k);
    return ok;
}

static const Executor *find(const char *name)
{
    for (const Executor *e = executors; e->name; e++)
        if (!strcmp(e->name, name)) return e;
    return NULL;
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
    char why[400] = "";
    Fuzz z = {.oracle = find("interp"), .executor = find(device), .path = "/tmp/tile-random-XXXXXX"};
    if (!z.oracle || !z.executor) return fprintf(stderr, "tile_random_test: no device '%s' in this build\n", device), 2;
    if (!(z.state = z.executor->open(device, why, sizeof why))) return printf("SKIP: %s: %s\n", device, why), 77;
    z.oracle_state = z.oracle == z.executor ? z.state : z.oracle->open("interp", why, sizeof why);
    if (!mkdtemp(z.path)) return perror(z.path), 1;
    for (int i = 1; i < argc; i++) if (*argv[i] != '-') failed += !run_file(&z, argv[i]);
    for (uint64_t seed = first; !n_files && seed < first + count; seed++) failed += !run_seed(&z, seed);
    rmdir(z.path);
    if (z.oracle_state != z.state) z.oracle->close(z.oracle_state);
    z.executor->close(z.state);
    printf("%llu random kernels on %s, %llu failed\n", (unsigned long long)(n_files ? n_files : count), device, (unsigned long long)failed);
    return failed > 0;
}
