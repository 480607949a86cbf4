/* bodies: every function of the CUDA prelude that holds inline assembly has a body of the same name for the
 * host, in the headers named. */
#include "backends/gpu/prelude/prelude.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool names(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n) {
        bool before = p > text && (isalnum((unsigned char)p[-1]) || p[-1] == '_'),
             after = isalnum((unsigned char)p[n]) || p[n] == '_';
        if (!before && !after) return true;
    }
    return false;
}

/* EMU_LOAD(ldg) stands for ldg_b32, ldg_b64 and ldg_b128. */
static bool made(const char *text, const char *name)
{
    char call[80];
    const char *width = strrchr(name, '_');
    if (!width || (strcmp(width, "_b32") && strcmp(width, "_b64") && strcmp(width, "_b128"))) return false;
    snprintf(call, sizeof call, "EMU_%s(%.*s)", strncmp(name, "stg", 3) ? "LOAD" : "STORE",
        (int)(width - name), name);
    return strstr(text, call) != NULL;
}

int main(int argc, char **argv)
{
    static char text[1 << 18];
    size_t length = 0;
    int bad = 0, n = 0;
    for (int k = 1; k < argc; k++) {
        FILE *f = fopen(argv[k], "rb");
        if (f) length += fread(text + length, 1, sizeof text - 1 - length, f);
        if (f) fclose(f);
    }
    if (!length) {
        fprintf(stderr, "bodies: no header\n");
        return 2;
    }
    const PreludeEntry *const tables[] = { cuda_prelude, cuda_prelude_fp8 };
    for (int k = 0; k < 2; k++)
        for (const PreludeEntry *e = tables[k]; e->name; e++) {
            if (!strstr(e->text, "asm(") && !strstr(e->text, "asm ")) continue;
            n++;
            if (names(text, e->name) || made(text, e->name)) continue;
            printf("%s has no body on the host\n", e->name);
            bad++;
        }
    printf("%d functions with assembly, %d without a body\n", n, bad);
    return bad || n < 80;
}
