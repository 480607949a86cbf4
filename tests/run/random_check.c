/* random_check.c: see random_check.h. */
#include "random_check.h"
#include <string.h>

void random_show(FILE *f, const RandomKernel *k, uint64_t seed)
{
    fprintf(f, "// sizes: %s\n", k->sizes);
    if (*k->scalars) fprintf(f, "// scalars: %s\n", k->scalars);
    fprintf(f, "// tensors: %s\n", k->tensors);
    if (*k->views) fprintf(f, "// views: %s\n", k->views);
    if (*k->bounds) fprintf(f, "// bounds: %s\n", k->bounds);
    fprintf(f, "// seed: %llu\n%s", (unsigned long long)seed, k->text);
}

bool random_check(Oracle *z, const RandomKernel *k, uint64_t seed, char *why, size_t why_size)
{
    char name[32];
    snprintf(name, sizeof name, "random%llu", (unsigned long long)seed);
    /* Integers must be equal. Floats may move by rounding, which the kernels keep from growing: 2^-10 of the typical value; 16 bits by four ulp of it */
    Recipe r = {name, name, k->tensors, k->scalars, "", {k->launch}, oracle_no_reference, 4, 8192, 0, FLOOR_RMS};
    if (*k->bounds) sscanf(k->bounds, "%lf %lf %lf", &r.narrow, &r.f32, &r.f64);
    *why = 0;
    if (!oracle_write(z, name, k->text)) return snprintf(why, why_size, "cannot write the kernel's file"), false;
    Problem *p = problem_make(&r, k->sizes, NULL, *k->views ? k->views : NULL, NULL, seed, why, why_size);
    Verdict v = {.ok = false};
    if (p) v = oracle_check(z, p, z->executor != z->oracle, true);
    if (p) snprintf(why, why_size, "%s", v.text);
    oracle_forget(z, name);
    problem_free(p);
    return v.ok || !strncmp(why, "SKIP:", 5);       /* tiles that no chip's shared memory holds: said, and no wrong result */
}
