/* oracle.c: see oracle.h. */
#include "oracle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An executor's name may have an architecture and modes behind it. */
static const Executor *find(const char *name)
{
    size_t n = strcspn(name, ":,");
    for (const Executor *e = executors; e->name; e++)
        if (!strncmp(e->name, name, n) && !e->name[n]) return e;
    return NULL;
}

int oracle_open(Oracle *z, const char *device)
{
    char why[400] = "";
    *z = (Oracle){ .oracle = find("interp"), .executor = find(device), .folder = "/tmp/tile-random-XXXXXX" };
    if (!z->oracle || !z->executor) return fprintf(stderr, "no device '%s' in this build\n", device), 2;
    if (!(z->state = z->executor->open(device, why, sizeof why)))
        return printf("SKIP: %s: %s\n", device, why), 77;
    z->oracle_state = z->oracle == z->executor ? z->state : z->oracle->open("interp", why, sizeof why);
    return mkdtemp(z->folder) ? 0 : (perror(z->folder), 1);
}

void oracle_close(Oracle *z)
{
    rmdir(z->folder);
    if (z->oracle_state != z->state) z->oracle->close(z->oracle_state);
    z->executor->close(z->state);
}

void oracle_no_reference(Problem *p) {}

static void path_of(const Oracle *z, const char *name, char *out, size_t size)
{ snprintf(out, size, "%s/%s.tile", z->folder, name); }

bool oracle_write(const Oracle *z, const char *name, const char *text)
{
    char path[160];
    path_of(z, name, path, sizeof path);
    FILE *f = fopen(path, "w");
    bool ok = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

void oracle_forget(const Oracle *z, const char *name)
{
    char path[160];
    path_of(z, name, path, sizeof path);
    unlink(path);
}

static void keep_as_wanted(Problem *p)
{
    int64_t count;
    double *all = problem_outputs(p, &count), *at = all;
    for (int i = 0; i < p->n_tensors; i++) {
        Tensor *t = &p->tensors[i];
        if (t->role != ROLE_OUT && t->role != ROLE_INOUT) continue;
        memcpy(t->want, at, (size_t)t->count * sizeof *at);
        at += t->count;
    }
    free(all);
}

/* Integers of 64 bits do not all fit in the doubles by which outputs are compared. Their words, one after
 * another, of all such outputs (malloc); NULL: there are none. */
static int64_t *wide_words(const Problem *p)
{
    size_t n = 0;
    int64_t *all = NULL;
    for (int i = 0; i < p->n_tensors; i++) {
        const Tensor *t = &p->tensors[i];
        const bool wide = t->type == REF_I64 || t->type == REF_U64;
        if (!wide || !t->count || (t->role != ROLE_OUT && t->role != ROLE_INOUT)) continue;
        all = realloc(all, (n + (size_t)t->count) * sizeof *all);
        if (!all) abort();
        for (int64_t e = 0; e < t->count; e++)
            memcpy(&all[n++], t->base + (int64_t)t->offset + tensor_offset(t, e) * 8, sizeof *all);
    }
    return all;
}

static void check_words(const Problem *p, const int64_t *want, Verdict *v)
{
    int64_t *got = wide_words(p), at = 0;
    for (int i = 0; i < p->n_tensors && v->ok; i++) {
        const Tensor *t = &p->tensors[i];
        const bool wide = t->type == REF_I64 || t->type == REF_U64;
        if (!wide || (t->role != ROLE_OUT && t->role != ROLE_INOUT)) continue;
        for (int64_t e = 0; e < t->count && v->ok; e++, at++)
            if (got[at] != want[at]) {
                v->ok = false;
                snprintf(v->text, sizeof v->text, "%s, element %lld in row-major order: %#llx, want %#llx",
                    t->name, (long long)e, (unsigned long long)got[at], (unsigned long long)want[at]);
            }
    }
    free(got);
}

static bool run_on(const Executor *e, void *state, Run *run, Problem *p, bool passes, Verdict *v)
{
    problem_reset(p);
    run->passes = passes;
    return v->ok = e->run(state, run, v->text, sizeof v->text);
}

Verdict oracle_check(Oracle *z, Problem *p, bool without, bool with)
{
    Verdict v = { .ok = false };
    Run run;
    char path[160];
    if (!run_prepare(&run, p, z->folder, path, sizeof path, v.text, sizeof v.text)) return v;
    run.skip = z->skip;
    z->unfit = !run_on(z->oracle, z->oracle_state, &run, p, false, &v);
    if (z->unfit) return v;
    keep_as_wanted(p);
    int64_t *words = wide_words(p);
    for (int passes = 0; passes < 2 && v.ok; passes++) {
        if (!(passes ? with : without)) continue;
        if (!run_on(z->executor, z->state, &run, p, passes, &v)) {
            /* A kernel that needs more than the device has without passes has to run with them. */
            if (passes || !with || strncmp(v.text, "SKIP:", 5)) break;
            v.ok = true;
            continue;
        }
        v = problem_check(p);
        if (v.ok) check_words(p, words, &v);
    }
    free(words);
    return v;
}
