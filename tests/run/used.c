/* used.c: see used.h. */
#include "used.h"
#include "coverage.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *read_text(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    FILE *in = fopen(path, "r"), *out = open_memstream(&text, &n);
    if (!out) abort();
    for (int c; in && (c = getc(in)) != EOF;) putc(c, out);
    if (in) fclose(in);
    fclose(out);
    return text;
}

void used_note(const char *path, const char *emitted)
{
    static Coverage of_kernel, written;
    const char *folder = getenv("TILE_TEST_USED");
    char *lines = NULL, name[512];
    size_t n = 0;
    if (!folder || !*folder) return;
    if (!written.n) coverage_open(&of_kernel), coverage_open(&written);
    char *source = read_text(path);
    FILE *list = open_memstream(&lines, &n);
    if (!list) abort();
    coverage_write(&of_kernel, list, source, emitted);
    fclose(list);
    snprintf(name, sizeof name, "%s/used.%ld", folder, (long)getpid());
    FILE *out = NULL;
    for (char *at = lines, *line; (line = strtok_r(at, "\n", &at)) != NULL;)
        if (coverage_count(&written, line) == 1 && (out || (out = fopen(name, "a"))))
            fprintf(out, "%s\n", line);
    if (out) fclose(out);
    free(lines);
    free(source);
}
