/* used_main.c: tile_used_names: what the kernels of test programs used and what they never used, from the
 * files that those wrote to the folder TILE_TEST_USED (used.h).
 *
 *     tile_used_names [--kept=LIST] FILE...
 *
 * LIST holds a name a line that no kernel uses, then blanks and the reason; `#` begins a comment. With it,
 * a name that was never used and is not in the list is a failure, and so is one of the list that was used or
 * that the tables do not have. Without FILE only the latter is looked at. Exit status 0, 1, 2 for wrong
 * options. */
#include "coverage.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT = 1024 };

typedef struct Kept {
    char name[80];
    bool found;
} Kept;

static int read_kept(const char *path, Kept *kept)
{
    char line[400];
    int n = 0;
    FILE *f = fopen(path, "r");
    if (!f) return -1;
    while (n < MOST_KEPT && fgets(line, sizeof line, f)) {
        const char *reason = strstr(line, "  ");
        size_t length = reason ? (size_t)(reason - line) : strcspn(line, "\n");
        if (*line == '#' || *line == '\n') continue;
        snprintf(kept[n++].name, sizeof kept->name, "%.*s", (int)length, line);
    }
    fclose(f);
    return n;
}

static int compare(const Coverage *c, Kept *kept, int n, bool ran)
{
    int failed = 0;
    for (int i = 0; i < c->n; i++) {
        Kept *k = NULL;
        for (int j = 0; j < n && !k; j++)
            if (!strcmp(kept[j].name, c->all[i].name)) k = &kept[j];
        if (k) k->found = true;
        if (ran && !k && !c->all[i].times)
            failed += printf("FAIL %s: no kernel used it\n", c->all[i].name) > 0;
        if (ran && k && c->all[i].times)
            failed += printf("FAIL %s: listed as never used, but a kernel used it\n", k->name) > 0;
    }
    for (int j = 0; j < n; j++)
        if (!kept[j].found) failed += printf("FAIL %s: listed, but no table has it\n", kept[j].name) > 0;
    return failed;
}

int main(int argc, char **argv)
{
    static Kept kept[MOST_KEPT];
    static Coverage c;
    const char *list = NULL;
    int n = 0, files = 0;
    coverage_open(&c);
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--kept=", 7)) {
            list = argv[i] + 7;
            continue;
        }
        FILE *f = fopen(argv[i], "r");
        if (!f) return fprintf(stderr, "tile_used_names: %s cannot be read\n", argv[i]), 2;
        coverage_read(&c, f);
        fclose(f);
        files++;
    }
    if (list && (n = read_kept(list, kept)) < 0)
        return fprintf(stderr, "tile_used_names: %s cannot be read\n", list), 2;
    if (files) coverage_print(&c, stdout);
    int failed = list ? compare(&c, kept, n, files > 0) : 0;
    coverage_close(&c);
    return failed > 0;
}
