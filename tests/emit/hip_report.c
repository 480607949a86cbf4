/* hip_report.c: see hip_report.h. */
#include "tests/emit/hip_report.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *hip_compiler(void)
{
    static const char name[] = "clang-22";
    static int known; /* 1: it is there, -1: not */
    if (!known) known = system("clang-22 --version > /dev/null 2>&1") ? -1 : 1;
    return known > 0 ? name : NULL;
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = n < 0 ? NULL : malloc((size_t)n + 1);
    if (text) text[fread(text, 1, (size_t)n, f)] = 0;
    fclose(f);
    return text;
}

static long after(const char *text, const char *what)
{
    const char *p = strstr(text, what);
    return p ? strtol(p + strlen(what), NULL, 10) : -1;
}

static bool has(const char *line, size_t n, const char *what)
{
    size_t len = strlen(what);
    for (size_t i = 0; i + len <= n; i++)
        if (!memcmp(line + i, what, len)) return true;
    return false;
}

/* The length of a label with its comment, which goes on in the next lines. */
static size_t label_length(const char *label)
{
    size_t n = strcspn(label, "\n");
    while (label[n] == '\n' && label[n + 1 + strspn(label + n + 1, " \t")] == ';')
        n += 1 + strcspn(label + n + 1, "\n");
    return n;
}

/* Whether the comment says that a loop begins here: `=>This`, with two blanks for each loop around. */
static bool begins_loop(const char *label, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++) {
        if (label[i] != '=' || label[i + 1] != '>') continue;
        size_t k = i + 2 + strspn(label + i + 2, " ");
        if (!strncmp(label + k, "This", 4)) return true;
    }
    return false;
}

/* The block at `label` is of the loop: its header, or said by clang to lie in it. */
static bool of_loop(const char *label, size_t n, const char *header)
{
    char own[44], in[60];
    snprintf(own, sizeof own, ".L%s:", header);
    snprintf(in, sizeof in, "in Loop: Header=%s ", header);
    return !strncmp(label, own, strlen(own)) || has(label, n, in);
}

typedef struct Loop {
    const char *head, *from, *to; /* its header, and the stretch that its blocks lie in */
    HipWaits waits;               /* read from the header on, all around */
} Loop;

/* The loop of which the block at `head` is the header. False: it is none, or has no matrix instructions. */
static bool read_loop(const char *text, const char *head, int depth, Loop *l)
{
    char header[40];
    *l = (Loop){ .head = head };
    if (!begins_loop(head, label_length(head)) || sscanf(head, ".L%30[A-Z0-9_]", header) != 1) return false;
    for (const char *p = strstr(text, "\n.LBB"); p;) {
        const char *next = strstr(++p, "\n.LBB"), *end = next ? next + 1 : p + strcspn(p, "\n");
        if (of_loop(p, label_length(p), header)) {
            l->from = l->from ? l->from : p;
            l->to = end;
        }
        p = next;
    }
    hip_waits((const char *const[]){ head, l->from }, (const char *const[]){ l->to, head }, depth, &l->waits);
    return l->waits.matrix > 0;
}

/* Of the loops with matrix instructions that have no such loop in them, that with the most of them. */
static void read_loops(const char *text, int depth, HipReport *r)
{
    Loop loop[64];
    int n = 0;
    for (const char *head = strstr(text, "\n.LBB"); head && n < 64; head = strstr(head, "\n.LBB"))
        n += read_loop(text, ++head, depth, &loop[n]);
    for (int k = 0; k < n; k++) {
        bool innermost = loop[k].waits.matrix > r->waits.matrix;
        for (int j = 0; j < n; j++)
            innermost &= j == k || loop[j].from < loop[k].from || loop[j].to > loop[k].to;
        if (innermost) r->waits = loop[k].waits;
    }
}

bool hip_report(const GpuCode *code, const Target *t, const char *folder, int depth, HipReport *r, char *log,
    size_t log_size)
{
    char source[320], out[320], words[320], command[1400];
    snprintf(source, sizeof source, "%s/k.hip", folder);
    snprintf(out, sizeof out, "%s/k.s", folder);
    snprintf(words, sizeof words, "%s/k.log", folder);
    FILE *f = fopen(source, "wb");
    if (!f) return false;
    fwrite(code->text, 1, code->text_len, f);
    fclose(f);
    snprintf(command, sizeof command,
        "%s -x hip --offload-device-only --offload-arch=%s -nogpuinc -nogpulib -O3 -w -S "
        "-Rpass-analysis=kernel-resource-usage -o %s %s > %s 2>&1",
        hip_compiler(), strchr(t->name, ':') + 1, out, source, words);
    bool ok = system(command) == 0;
    char *said = read_all(words), *text = ok ? read_all(out) : NULL;
    *r = (HipReport){ 0 };
    if (said) snprintf(log, log_size, "%s", said);
    if (text && said) {
        r->vgprs = after(said, " VGPRs: ");
        r->agprs = after(said, " AGPRs: ");
        r->scratch = after(said, "ScratchSize [bytes/lane]: ");
        r->spills = after(said, "VGPRs Spill: ");
        r->lds = after(said, "LDS Size [bytes/block]: ");
        r->occupancy = after(said, "Occupancy [waves/SIMD]: ");
        read_loops(text, depth, r);
    }
    ok = ok && text && said && r->vgprs >= 0;
    free(said);
    free(text);
    return ok;
}
