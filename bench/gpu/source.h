/* source.h: a kernel's text, for the programs of this folder. */
#pragma once
#include <stdio.h>
#include <stdlib.h>

/* The file's bytes and a terminating zero, which the caller frees; their number in *n. NULL: not to be read,
 * or longer than a .tile file may be (1 MiB). */
static inline char *read_all(const char *path, size_t *n)
{
    enum { MOST = 1 << 20 };
    FILE *f = fopen(path, "rb");
    char *p = f ? malloc(MOST + 1) : NULL;
    if (p) p[ *n = fread(p, 1, MOST, f)] = 0;
    if (p && (ferror(f) || !feof(f))) {
        free(p);
        p = NULL;
    }
    if (f) fclose(f);
    return p;
}
