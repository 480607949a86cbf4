/* random_check.c: see random_check.h. */
#include "random_check.h"
#include "random_again.h"
#include <stdlib.h>
#include <string.h>

void random_show(FILE *f, const RandomKernel *k, uint64_t seed)
{
    fprintf(f, "// sizes: %s\n", k->sizes);
    if (*k->scalars) fprintf(f, "// scalars: %s\n", k->scalars);
    fprintf(f, "// tensors: %s\n", k->tensors);
    if (*k->views) fprintf(f, "// views: %s\n", k->views);
    if (strstr(k->launch, " -") || strchr(k->launch, ';')) /* a tensor is left out; there are several */
        fprintf(f, "// launch: %s\n", k->launch);
    if (*k->bounds) fprintf(f, "// bounds: %s\n", k->bounds);
    fprintf(f, "// seed: %llu\n%s", (unsigned long long)seed, k->text);
}

static void field(const char *text, const char *key, char *out, size_t size)
{
    const char *at = strstr(text, key);
    *out = 0;
    if (at) snprintf(out, size, "%.*s", (int)strcspn(at + strlen(key), "\n"), at + strlen(key));
}

bool random_read(const char *path, RandomKernel *k, uint64_t *seed)
{
    char number[32], text[sizeof k->text + 4096];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *body = text; /* behind the comments of the head: functions, the kernel */
    while (!strncmp(body, "//", 2)) body += strcspn(body, "\n"), body += *body != 0;
    if (!strstr(body, "kernel random(") || strlen(body) >= sizeof k->text) return false;
    memset(k, 0, sizeof *k);
    memcpy(k->text, body, strlen(body) + 1);
    field(text, "// sizes: ", k->sizes, sizeof k->sizes);
    field(text, "// scalars: ", k->scalars, sizeof k->scalars);
    field(text, "// tensors: ", k->tensors, sizeof k->tensors);
    field(text, "// views: ", k->views, sizeof k->views);
    field(text, "// bounds: ", k->bounds, sizeof k->bounds);
    field(text, "// seed: ", number, sizeof number);
    *seed = strtoull(number, NULL, 0);
    field(text, "// launch: ", k->launch, sizeof k->launch);
    if (*k->launch) return true;
    snprintf(k->launch, sizeof k->launch, "random");
    for (const char *p = k->tensors; (p = strchr(p, '[')); p++) { /* role NAME[ */
        const char *name = p;
        while (name > k->tensors && name[-1] != ' ') name--;
        snprintf(k->launch + strlen(k->launch), sizeof k->launch - strlen(k->launch), " %.*s",
            (int)(p - name), name);
    }
    for (const char *p = k->scalars; (p = strchr(p, '=')); p++) { /* type NAME= */
        const char *name = p;
        while (name > k->scalars && name[-1] != ' ') name--;
        snprintf(k->launch + strlen(k->launch), sizeof k->launch - strlen(k->launch), " %.*s",
            (int)(p - name), name);
    }
    return true;
}

bool random_check(
    Oracle *z, const RandomKernel *k, uint64_t seed, bool both, int again, char *why, size_t size)
{
    char name[32];
    snprintf(name, sizeof name, "random%llu", (unsigned long long)seed);
    /* Integers must be equal. Floats may move by rounding, which the kernels keep from growing: 2^-10 of the
     * typical value; 16 bits by four ulp of it */
    char launches[sizeof k->launch];
    Recipe r = { name, name, k->tensors, k->scalars, "", { launches }, oracle_no_reference, 4, 8192, 0,
        FLOOR_RMS };
    snprintf(launches, sizeof launches, "%s", k->launch);
    for (char *at = launches, n = 1; (at = strstr(at, "; "));) *at = 0, at += 2, r.launch[(int)n++] = at;
    if (*k->bounds) sscanf(k->bounds, "%lf %lf %lf", &r.narrow, &r.f32, &r.f64);
    *why = 0;
    if (!oracle_write(z, name, k->text)) return snprintf(why, size, "cannot write the kernel's file"), false;
    Verdict v = { .ok = true };
    for (int launch = 0; v.ok && launch <= again; launch++) {
        RandomAgain other;
        random_again(k, seed, launch, &other);
        const char *sizes = launch ? other.sizes : k->sizes, *views = launch ? other.views : k->views;
        Problem *p = problem_make(&r, sizes, NULL, *views ? views : NULL, NULL, seed, why, size);
        v.ok = false;
        if (p) v = oracle_check(z, p, both && !launch && z->executor != z->oracle, true);
        if (p && launch && z->unfit) v.ok = true; /* the text depends on the extents */
        else if (p && launch && !v.ok)
            snprintf(why, size, "launch %d, sizes %s, views %s: %s", launch, sizes, views, v.text);
        else if (p) snprintf(why, size, "%s", v.text);
        problem_free(p);
    }
    oracle_forget(z, name);
    /* Tiles that the shared memory of no chip holds are reported, and are no wrong result. */
    return v.ok || strstr(why, "SKIP:");
}
