/* headers.c: see headers.h. */
#include "tests/emu/headers.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t hash_more(uint64_t h, const char *text)
{
    for (; text && *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211ull;
    return h;
}

uint64_t headers_hash(const char *text, const char *source, const char *command)
{
    char pattern[320];
    glob_t headers = { 0 };
    uint64_t h = hash_more(hash_more(1469598103934665603ull, text), command);
    snprintf(pattern, sizeof pattern, "%s/tests/emu/*.h", source);
    if (!glob(pattern, 0, NULL, &headers))
        for (size_t i = 0; i < headers.gl_pathc; i++) {
            FILE *f = fopen(headers.gl_pathv[i], "r");
            for (int c; f && (c = getc(f)) != EOF;) h = (h ^ (unsigned char)c) * 1099511628211ull;
            if (f) fclose(f);
        }
    globfree(&headers);
    return h;
}

/* In a folder of this process's own, which is then renamed: other tests may compile the same header now. */
bool headers_compile(
    const char *header, const char *command, const char *source, const char *work, char *folder, size_t size)
{
    char own[320], path[400], all[2000];
    snprintf(
        folder, size, "%s/header_%016llx", work, (unsigned long long)headers_hash(header, source, command));
    snprintf(path, sizeof path, "%s/%s.gch", folder, header);
    if (!access(path, R_OK)) return true;
    snprintf(own, sizeof own, "%s.%d", folder, (int)getpid());
    snprintf(path, sizeof path, "%s/%s.gch", own, header);
    snprintf(all, sizeof all, "%s%s 2> /dev/null", command, path);
    bool ok = !mkdir(own, 0777) && !system(all);
    if (ok && !rename(own, folder)) return true;
    unlink(path);
    rmdir(own);
    return ok;
}
