/* random_again.c: see random_again.h. */
#include "random_again.h"
#include "ref_random.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void __attribute__((format(printf, 3, 4))) put(char *out, size_t size, const char *format, ...)
{
    const size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    if (n < size) vsnprintf(out + n, size - n, format, args);
    va_end(args);
}

static bool chance(RefRandom *r, int percent) { return (int)ref_random_below(r, 100) < percent; }

static int64_t near(RefRandom *r, int64_t v)
{
    const int64_t others[] = { v - 1, v + 1, v / 2, v < 200 ? 2 * v : v, v + 16, 1, v + 3 };
    const int64_t other = others[ref_random_below(r, sizeof others / sizeof *others)];
    return other > 0 ? other : v;
}

static void sizes(RefRandom *r, const char *from, char *out, size_t size)
{
    for (const char *s = from; *s; s += strspn(s, " ")) {
        const int n = (int)strcspn(s, "=");
        if (!s[n]) return;
        char *end;
        const int64_t v = strtoll(s + n + 1, &end, 10);
        const bool kept = !strncmp(s, "FILL=", 5) || !chance(r, 40);
        put(out, size, "%s%.*s=%lld", *out ? " " : "", n, s, (long long)(kept ? v : near(r, v)));
        s = end;
    }
}

/* "role NAME[dims] type fill; ..." */
static void views(RefRandom *r, const char *tensors, char *out, size_t size)
{
    for (const char *s = tensors; *s; s += strcspn(s, ";"), s += strspn(s, "; ")) {
        const bool in = !strncmp(s, "in ", 3);
        const char *name = s + strcspn(s, " ") + 1, *dims = name + strcspn(name, "[");
        int rank = *dims && dims[1] != ']', depth = 0;
        for (const char *c = dims; *c && *c != ']'; c++) {
            depth += (*c == '(') - (*c == ')');
            rank += *c == ',' && !depth;
        }
        const char kind = "sxrbwdtzo"[ref_random_below(r, in ? 9 : 7)];
        if (!chance(r, 30) || rank < (strchr("tzo", kind) ? 2 : 1) || !strncmp(name, "ORDER[", 6)) continue;
        put(out, size, "%s%.*s:%c", *out ? " " : "", (int)(dims - name), name, kind);
    }
}

void random_again(const RandomKernel *k, uint64_t seed, int launch, RandomAgain *out)
{
    RefRandom r = { seed * 64 + (uint64_t)launch };
    memset(out, 0, sizeof *out);
    if (chance(&r, 30) || strstr(k->text, "ORDER[")) /* whose extent is derived */
        snprintf(out->sizes, sizeof out->sizes, "%s", k->sizes);
    else sizes(&r, k->sizes, out->sizes, sizeof out->sizes);
    if (chance(&r, 25)) snprintf(out->views, sizeof out->views, "%s", k->views);
    else if (chance(&r, 60)) views(&r, k->tensors, out->views, sizeof out->views);
}
