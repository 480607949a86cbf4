/* random_chain.c: see random_chain.h. */
#include "random_chain.h"
#include "ref_random.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 40 };

/* Of a list "role NAME[dims] type fill; ...". */
typedef struct Item {
    const char *at; /* the role */
    char name[16], like[64], fill[24];
    bool in;
} Item;

static int items(const char *tensors, Item *out)
{
    int n = 0;
    for (const char *s = tensors; *s && n < MOST; s += strcspn(s, ";"), s += strspn(s, "; ")) {
        Item *t = &out[n];
        char role[8], type[16];
        *t = (Item){ .at = s };
        const int read = sscanf(s, "%7s %15[^[]%39[^]]] %15s %23[^;]", role, t->name, t->like, type, t->fill);
        if (read < 4) return 0;
        strncat(t->like, type, sizeof t->like - strlen(t->like) - 1); /* the extents and the type */
        t->in = !strcmp(role, "in");
        n += t->in || !strcmp(role, "inout");
    }
    return n;
}

/* Whether its elements may be written: no two lie in one place. */
static bool is_whole(const RandomKernel *k, const Item *t)
{
    char view[24];
    snprintf(view, sizeof view, "%s:", t->name);
    for (const char *v = k->views; (v = strstr(v, view)); v++)
        if (v == k->views || v[-1] == ' ') return !strchr("zoa", v[strlen(view)]);
    return !strstr(k->views, ":a"); /* another one may lie in its memory */
}

static bool are_alike(const RandomKernel *k, const Item *a, const Item *b)
{
    return a->in && !b->in && !strcmp(a->like, b->like) && !strncmp(a->fill, "int:", 4) &&
           !strncmp(b->fill, "int:", 4) && is_whole(k, a) && is_whole(k, b);
}

/* The launch with two names exchanged. */
static void exchanged(const char *launch, const char *a, const char *b, char *out, size_t size)
{
    *out = 0;
    for (const char *s = launch; *s; s += strcspn(s, " "), s += strspn(s, " ")) {
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(s, " "), s);
        const char *as = !strcmp(word, a) ? b : !strcmp(word, b) ? a : word;
        const size_t n = strlen(out);
        snprintf(out + n, size - n, "%s%s", n ? " " : "", as);
    }
}

/* What the second launch writes is no longer an input. */
static void becomes_inout(RandomKernel *k, const Item *t)
{
    char rest[sizeof k->tensors];
    const size_t before = (size_t)(t->at - k->tensors);
    if (strlen(k->tensors) + 4 > sizeof k->tensors) return;
    snprintf(rest, sizeof rest, "%s", t->at + strlen("in"));
    snprintf(k->tensors + before, sizeof k->tensors - before, "inout%s", rest);
}

void random_chain(RandomKernel *k, uint64_t seed)
{
    static Item list[MOST];
    RefRandom r = { seed * 3 + 1 };
    char first[sizeof k->launch], second[sizeof k->launch];
    const Item *in = NULL, *out = NULL;
    const int n = items(k->tensors, list);
    for (int a = 0, met = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (are_alike(k, &list[a], &list[b]) && !ref_random_below(&r, ++met))
                in = &list[a], out = &list[b];
    snprintf(first, sizeof first, "%s", k->launch);
    if (3 * strlen(first) + 8 > sizeof k->launch) return;
    if (in) exchanged(first, in->name, out->name, second, sizeof second);
    else snprintf(second, sizeof second, "%s", first);
    if (in) becomes_inout(k, in);
    snprintf(k->launch, sizeof k->launch, "%s; %s; ", first, second);
    strcat(k->launch, first);
}
