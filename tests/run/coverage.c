/* coverage.c: see coverage.h. */
#include "coverage.h"
#include "backends/gpu/prelude/prelude.h"
#include "frontend/frontend.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char hint_kind[] = "hint", cache_kind[] = "cache", function_kind[] = "prelude",
                  product_kind[] = "wgmma";

static int *bucket(Coverage *c, const char *name, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)name[i]) * 16777619u;
    return &c->bucket[(h ^ h >> 16) % (sizeof c->bucket / sizeof *c->bucket)];
}

static Covered *find(Coverage *c, const char *name, size_t n)
{
    for (int i = *bucket(c, name, n); i; i = c->all[i - 1].next)
        if (!strncmp(c->all[i - 1].name, name, n) && !c->all[i - 1].name[n]) return &c->all[i - 1];
    return NULL;
}

static Covered *add(Coverage *c, const char *kind, const char *name, size_t n)
{
    Covered *x = find(c, name, n);
    if (x) return x;
    if (c->n == c->room) {
        c->room = c->room ? 2 * c->room : 256;
        c->all = realloc(c->all, (size_t)c->room * sizeof *c->all);
        if (!c->all) abort();
    }
    x = &c->all[c->n++];
    int *first = bucket(c, name, n);
    *x = (Covered){ .kind = kind, .next = *first };
    *first = c->n;
    snprintf(x->name, sizeof x->name, "%.*s", (int)n, name);
    return x;
}

/* A row that is one function, named so; others hold types, constants and macros of functions. */
static void add_function(void *user, const char *name, const PreludeEntry *e)
{
    if (!strchr(e->text, '(') || (!e->dtypes && !strstr(e->text, name))) return;
    add(user, function_kind, name, strlen(name))->instruction =
        strstr(e->text, "asm") || strstr(e->text, "__");
}

void coverage_open(Coverage *c)
{
    static const char *const calls[] = { "load", "store", "gather", "scatter" }, *const modes[] = { "stream",
        "keep", "bypass" };
    *c = (Coverage){ 0 };
    prelude_each(cuda_prelude, add_function, c);
    prelude_each(cuda_prelude_fp8, add_function, c);
    for (int i = 0; frontend_hints[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "hint %s", frontend_hints[i]);
        add(c, hint_kind, name, strlen(name));
    }
    for (int i = 0; i < 4; i++)
        for (int m = 0; m < 3; m++) {
            char name[64];
            snprintf(name, sizeof name, "%s, cache = %s", calls[i], modes[m]);
            add(c, cache_kind, name, strlen(name));
        }
}

void coverage_close(Coverage *c) { free(c->all); }

static size_t word_length(const char *p)
{
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
    return n;
}

static void write_hints(FILE *f, const char *source)
{
    for (const char *p = source; (p = strstr(p, " hint (")) != NULL;) {
        const char *end = strchr(p, ')');
        for (p += strlen(" hint ("); end && p < end; p += strcspn(p, ",)") + 1) {
            p += strspn(p, " ");
            fprintf(f, "hint %.*s\n", (int)word_length(p), p);
        }
    }
}

/* The call that an option belongs to is the one whose bracket is open there. */
static void write_cache(FILE *f, const char *source)
{
    static const char option[] = ", cache = ";
    for (const char *p = source; (p = strstr(p, option)); p++) {
        const char *open = p;
        for (int depth = 0; open > source && depth <= 0;) {
            open--;
            depth += (*open == '(') - (*open == ')');
        }
        const char *name = open;
        while (name > source && (isalnum((unsigned char)name[-1]) || name[-1] == '_')) name--;
        const char *mode = p + sizeof option - 1;
        fprintf(f, "%.*s, cache = %.*s\n", (int)(open - name), name, (int)word_length(mode), mode);
    }
}

void coverage_write(Coverage *c, FILE *f, const char *source, const char *emitted)
{
    write_hints(f, source);
    write_cache(f, source);
    for (int i = 0; i < c->n; i++) c->all[i].times = 0;
    for (const char *p = emitted ? emitted : ""; *p;) {
        size_t n = word_length(p);
        if (!n) {
            p++;
            continue;
        }
        Covered *x = find(c, p, n);
        if (!x && n < sizeof x->name && !strncmp(p, "wgmma_m", 7)) x = add(c, product_kind, p, n);
        if (x && !x->times++) fprintf(f, "%s\n", x->name);
        p += n;
    }
}

uint64_t coverage_count(Coverage *c, const char *name)
{
    const char *kind = !strncmp(name, "wgmma_m", 7) ? product_kind
                       : !strncmp(name, "hint ", 5) ? hint_kind
                                                    : cache_kind;
    return ++add(c, kind, name, strlen(name))->times;
}

void coverage_read(Coverage *c, FILE *f)
{
    char name[128];
    while (fgets(name, sizeof name, f)) {
        name[strcspn(name, "\n")] = 0;
        if (*name) coverage_count(c, name);
    }
}

void coverage_print(const Coverage *c, FILE *f)
{
    static const char *const kinds[] = { hint_kind, cache_kind, product_kind, function_kind };
    for (int used = 0; used < 2; used++)
        for (int k = 0; k < 4; k++) {
            int n = 0;
            for (int i = 0; i < c->n; i++) n += c->all[i].kind == kinds[k] && !c->all[i].times == !used;
            fprintf(f, "%s: %d %s\n", kinds[k], n, used ? "used" : "never used");
            for (int i = 0; i < c->n; i++) {
                const Covered *x = &c->all[i];
                if (x->kind != kinds[k] || !x->times != !used) continue;
                if (used) fprintf(f, "    %s: %llu\n", x->name, (unsigned long long)x->times);
                else fprintf(f, "    %s%s\n", x->name, x->instruction ? " (an instruction)" : "");
            }
        }
}
