/* random_reduce.c: see random_reduce.h. Text is taken as lines; a line that opens a block goes with what it
 * holds, or its head and end go alone. */
#include "random_reduce.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reducer {
    RandomKernel *k, *tried;
    StillFails *fails;
    void *user;
} Reducer;

/* Keeps what was tried if it fails as before. */
static bool keep(Reducer *r)
{
    if (!r->fails(r->tried, r->user)) return false;
    *r->k = *r->tried;
    return true;
}

static void cut(char *text, size_t from, size_t to)
{ memmove(text + from, text + to, strlen(text + to) + 1); }

/* --- lines --- */

static size_t line_end(const char *text, size_t at) { return at + strcspn(text + at, "\n") + 1; }
static size_t indent(const char *text, size_t at) { return strspn(text + at, " "); }

/* The start of the line that ends the block that the line at `at` opens; 0: it opens none. */
static size_t block_end(const char *text, size_t at)
{
    size_t end = line_end(text, at), deep = indent(text, at);
    if (end < 2 || text[end - 2] != '{') return 0;
    for (size_t l = end; text[l]; l = line_end(text, l))
        if (indent(text, l) == deep && text[l + deep] == '}') return l;
    return 0;
}

static bool lines(Reducer *r)
{
    bool changed = false;
    const char *brace = strstr(r->k->text, "\n{\n");
    size_t at = brace ? (size_t)(brace - r->k->text) + 3 : 0;
    while (r->k->text[at] && r->k->text[at] != '}') {
        const char *text = r->k->text;
        size_t end = line_end(text, at), close = block_end(text, at);
        *r->tried = *r->k;
        cut(r->tried->text, at, close ? line_end(text, close) : end);
        if (keep(r)) {
            changed = true;
            continue;
        }
        if (close) {
            *r->tried = *r->k;
            cut(r->tried->text, close, line_end(text, close));
            cut(r->tried->text, at, end);
            if (keep(r)) {
                changed = true;
                continue;
            }
        }
        at = line_end(r->k->text, at);
    }
    return changed;
}

/* --- options, written as what begins them up to a stop --- */

static bool options(Reducer *r)
{
    static const struct {
        const char *begin, *stops;
        bool with_stop;
    } all[] = {
        { ", latency = ", ",)", false },
        { ", cache = ", ",)", false },
        { ", pad = ", ",)", false },
        { ", mask = ", "\n", false },
        { ", precision = ", ",)", false },
        { " hint (", ")", true },
        { " raster (", ")", true },
        { " remap = ", " \n", false },
        { " remap (w) = num_programs() - 1 - w", "\n ", false },
    };
    bool changed = false;
    for (size_t o = 0; o < sizeof all / sizeof *all; o++)
        for (size_t at = 0;;) {
            const char *found = strstr(r->k->text + at, all[o].begin);
            if (!found) break;
            at = (size_t)(found - r->k->text);
            size_t end = at + strlen(all[o].begin);
            end += strcspn(r->k->text + end, all[o].stops) + all[o].with_stop;
            *r->tried = *r->k;
            cut(r->tried->text, at, end);
            if (keep(r)) changed = true;
            else at++;
        }
    return changed;
}

/* --- parameters: the text's, the tensors' and the launch's lists are parallel --- */

/* Cuts element i of a list from `at`, up to the stop. */
static bool cut_element(char *text, size_t at, const char *separator, char stop, int i)
{
    size_t n = strlen(separator), from = at;
    int depth = 0;
    for (size_t p = at; text[p]; p++) {
        depth += (text[p] == '[') - (text[p] == ']');
        bool here = !depth && !strncmp(text + p, separator, n), last = !depth && text[p] == stop;
        if (!here && !last) continue;
        if (i-- == 0) {
            if (here) cut(text, from, p + n);
            else cut(text, from > at ? from - n : from, p);
            return true;
        }
        if (last) return false;
        from = p + n;
    }
    if (i) return false;
    text[from > at ? from - n : from] = 0;
    return true;
}

static bool parameters(Reducer *r)
{
    bool changed = false;
    for (int i = 0; i < 32;) {
        static const char head[] = "kernel random(";
        *r->tried = *r->k;
        const char *at = strstr(r->tried->text, head);
        if (!at || !cut_element(r->tried->text, (size_t)(at - r->tried->text) + strlen(head), ", ", ')', i) ||
            !cut_element(r->tried->tensors, 0, "; ", 0, i) ||
            !cut_element(r->tried->launch, strlen("random "), " ", 0, i))
            break;
        if (keep(r)) changed = true;
        else i++;
    }
    return changed;
}

/* --- what is filled in, and sizes --- */

static bool facts(Reducer *r)
{
    bool changed = false;
    *r->tried = *r->k;
    *r->tried->views = 0;
    if (*r->k->views) changed |= keep(r);
    for (char *at; *r->tried = *r->k, at = strstr(r->tried->tensors, "extremes:");) {
        size_t from = (size_t)(at - r->tried->tensors);
        memcpy(at, "int:", 4);
        cut(r->tried->tensors, from + 4, from + strlen("extremes:"));
        if (!keep(r)) break;
        changed = true;
    }
    for (size_t at = 0; r->k->sizes[at]; at += strcspn(r->k->sizes + at, " "), at += r->k->sizes[at] == ' ') {
        size_t value = at + strcspn(r->k->sizes + at, "=") + 1;
        int v = atoi(r->k->sizes + value);
        for (int to = 1; to < v; to = to * 2 < v && to < v / 2 ? to * 2 : v - (v > 1) > to ? v - 1 : v) {
            char rest[256];
            *r->tried = *r->k;
            snprintf(rest, sizeof rest, "%s", r->k->sizes + value + strcspn(r->k->sizes + value, " "));
            snprintf(r->tried->sizes + value, sizeof r->tried->sizes - value, "%d%s", to, rest);
            if (keep(r)) {
                changed = true;
                break;
            }
            if (to == v - 1) break;
        }
    }
    return changed;
}

void random_reduce(RandomKernel *k, StillFails *fails, void *user)
{
    Reducer r = { .k = k, .tried = malloc(sizeof *k), .fails = fails, .user = user };
    bool changed = r.tried != NULL;
    for (int round = 0; changed && round < 4; round++) {
        changed = lines(&r);
        changed |= options(&r);
        changed |= parameters(&r);
        changed |= facts(&r);
    }
    free(r.tried);
}
