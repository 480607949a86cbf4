/* arrange_text.c: of arrange.h: draws, and the text of a kernel line by line. */
#include "arrange.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int below(Arranger *a, int n) { return (int)ref_random_below(&a->random, (uint64_t)n); }
bool chance(Arranger *a, int percent) { return below(a, 100) < percent; }

void arrange_write(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(out, size, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < size) return;
    fprintf(stderr, "an expression is longer than %zu characters\n", size - 1);
    abort();
}

void arrange_line(Arranger *a, const char *format, ...)
{
    va_list args;
    size_t room = sizeof a->body - a->length;
    int n = snprintf(a->body + a->length, room, "%*s", 4 * a->indent, "");
    a->length += (size_t)n < room ? (size_t)n : room - 1;
    room = sizeof a->body - a->length;
    va_start(args, format);
    n = vsnprintf(a->body + a->length, room, format, args);
    va_end(args);
    a->length += (size_t)n < room ? (size_t)n : room - 1;
    if (a->length + 2 < sizeof a->body) a->body[a->length++] = '\n', a->body[a->length] = 0;
}

void arrange_append(char *out, size_t size, const char *format, ...)
{
    size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + n, size - n, format, args);
    va_end(args);
}

void arrange_expand(const char *template, ArrangePart *part, void *user, char *out, size_t size)
{
    char text[900];
    *out = 0;
    for (const char *p = template; *p; p++) {
        if (*p != '$') {
            arrange_append(out, size, "%c", *p);
            continue;
        }
        const char *inner = part(user, *++p, text, sizeof text);
        if (inner) arrange_expand(inner, part, user, text, sizeof text);
        arrange_append(out, size, "%s", text);
    }
}

void arrange_order(Arranger *a, int *order, int n)
{
    for (int k = 0; k < n; k++) order[k] = k;
    for (int k = n - 1; k > 0; k--) {
        const int other = below(a, k + 1), kept = order[k];
        order[k] = order[other];
        order[other] = kept;
    }
}

void arrange_branch(Arranger *a, const char *condition, int returns, void (*inside)(void *), void *user)
{
    arrange_line(a, "if %s {", condition);
    if (returns && chance(a, returns)) arrange_line(a, "    return;");
    else inside(user);
    if (chance(a, 40)) {
        arrange_line(a, "} else {");
        inside(user);
    }
    arrange_line(a, "}");
}
