/* main.c: tile_run_test: runs the examples and compares with the references.
 *
 *     tile_run_test --device=cpu --example=gemm
 *
 * One line a case: "ok" or "FAIL", the case, its error and the bound. Every case runs with all passes and
 * with none; both are compared with the reference and with each other. Exit status 0, 1 after a failure, 2
 * for wrong options, 77 where the device is not there. */
#include "executor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Options {
    const char *device, *example, *kernels;
    bool light, list, help;
    bool expect_failure; /* planted faults: a case that passes is the failure */
    int only;            /* number of the one case to run, -1: all */
    /* Of each selection, the cases share, share + shares and so on, or one case if there are fewer. */
    int share, shares;
    int passes; /* 0 off, 1 on, 2 both and compared */
    uint64_t seed;
} Options;

typedef struct Tally {
    int run, failed;
} Tally;

typedef struct Session {
    const Options *options;
    const Executor *executor;
    void *state;
    Tally tally;
    int number, chosen, all;
} Session;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes the next of a list separated by '|'. False when there is none. */
static bool next_part(const char **list, char *out, size_t size)
{
    if (!*list) return false;
    size_t n = strcspn(*list, "|");
    snprintf(out, size, "%.*s", (int)n, *list);
    while (n && out[strlen(out) - 1] == ' ') out[strlen(out) - 1] = 0;
    memmove(out, out + strspn(out, " "), strlen(out + strspn(out, " ")) + 1);
    *list = (*list)[n] ? *list + n + 1 : NULL;
    return true;
}

static bool run_once(Session *s, Run *run, Problem *p, bool passes, Verdict *v, double **outputs)
{
    int64_t count;
    problem_reset(p);
    run->passes = passes;
    v->ok = s->executor->run(s->state, run, v->text, sizeof v->text);
    if (v->ok) *v = problem_check(p);
    if (v->ok) *outputs = problem_outputs(p, &count);
    else {
        char text[sizeof v->text];
        memcpy(text, v->text, sizeof text);
        snprintf(v->text, sizeof v->text, "%s: %.370s", passes ? "all passes" : "no passes", text);
    }
    return v->ok;
}

/* Both pass settings, each against the reference, then one against the other. */
static Verdict run_problem(Session *s, Problem *p)
{
    Verdict v = { .ok = false }, off;
    Run run;
    char path[512];
    double *with = NULL, *without = NULL;
    int passes = s->options->passes;
    if (run_prepare(&run, p, s->options->kernels, path, sizeof path, v.text, sizeof v.text)) {
        v.ok = true;
        if (passes != 0) run_once(s, &run, p, true, &v, &with);
        if (v.ok && passes != 1) {
            run_once(s, &run, p, false, &off, &without);
            if (passes == 0 || !off.ok) v = off;
        }
        if (v.ok && passes == 2) {
            Verdict both = problem_agree(p, with, without);
            if (!both.ok) {
                v.ok = false;
                snprintf(v.text, sizeof v.text, "all passes against none: %.340s", both.text);
            }
        }
    }
    free(with);
    free(without);
    return v;
}

static void run_case(Session *s, const Case *c, const char *sizes, const char *consts)
{
    const Recipe *r = recipe_find(c->recipe);
    char why[400] = "";
    double start = now();
    Verdict v = { .ok = false };
    Problem *p = r ? problem_make(r, sizes, consts, c->views, c->special,
                         s->options->seed + (uint64_t)s->number, why, sizeof why)
                   : NULL;
    if (p) v = run_problem(s, p);
    else snprintf(v.text, sizeof v.text, "%s", r ? why : "table: no such recipe");
    bool skipped = !v.ok && strstr(v.text, "SKIP: "), ok = skipped || v.ok != s->options->expect_failure;
    printf("%-4s %3d %s %s", skipped ? "skip" : ok ? "ok" : "FAIL", s->number, c->recipe, sizes);
    if (*consts) printf(" %s", consts);
    if (c->views) printf(" %s", c->views);
    if (c->special) printf(" special:%s", c->special);
    if (v.ok)
        printf(": %.2g of %g ulp, norm %.2g, %.0f ms\n", v.error.ulp, v.bound, v.error.norm,
            1e3 * (now() - start));
    else printf("\n     %s\n", v.text);
    fflush(stdout);
    s->tally.run += !skipped; /* an example of which no case ran has failed */
    s->tally.failed += !ok;
    problem_free(p);
}

static bool selected(const Options *o, const Case *c)
{
    if (o->light && c->heavy) return false;
    if (!o->example) return true;
    const Recipe *r = recipe_find(c->recipe);
    return !strcmp(o->example, c->recipe) || (r && !strcmp(o->example, r->file));
}

/* --share=K/N: cases K, K + N, ... of the selection; where it has no more than K, the one whose turn it is.
 */
static bool in_share(const Options *o, int at, int all)
{
    if (!o->shares) return true;
    return all > o->share ? at % o->shares == o->share : at == o->share % all;
}

/* Every size with every set of consts. Cases are numbered over the whole table, so that --only=N is the same
 * case under any selection. count: only says how many there are. */
static void run_row(Session *s, const Case *c, bool count)
{
    char sizes[160], consts[160];
    for (const char *sl = c->sizes; next_part(&sl, sizes, sizeof sizes);)
        for (const char *cl = c->consts ? c->consts : ""; next_part(&cl, consts, sizeof consts);) {
            s->number += !count;
            if (!selected(s->options, c) || (s->options->only >= 0 && s->options->only != s->number))
                continue;
            if (count) {
                s->all++;
                continue;
            }
            if (!in_share(s->options, s->chosen++, s->all)) continue;
            if (s->options->list) printf("%3d %s %s %s\n", s->number, c->recipe, sizes, consts);
            else run_case(s, c, sizes, consts);
        }
}

static const char *value_of(const char *arg, const char *name)
{
    size_t n = strlen(name);
    return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
}

static bool read_options(Options *o, int argc, char **argv)
{
    static const char *const settings[] = { "off", "on", "both" };
    const char *v;
    for (int i = 1; i < argc; i++) {
        if ((v = value_of(argv[i], "--device"))) o->device = v;
        else if ((v = value_of(argv[i], "--example"))) o->example = v;
        else if ((v = value_of(argv[i], "--kernels"))) o->kernels = v;
        else if ((v = value_of(argv[i], "--seed"))) o->seed = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--only"))) o->only = atoi(v);
        else if ((v = value_of(argv[i], "--share"))) {
            if (sscanf(v, "%d/%d", &o->share, &o->shares) != 2 || o->share < 0 || o->share >= o->shares)
                return false;
        } else if (!strcmp(argv[i], "--light")) o->light = true;
        else if (!strcmp(argv[i], "--list")) o->list = true;
        else if (!strcmp(argv[i], "--help")) o->help = true;
        else if (!strcmp(argv[i], "--expect-failure")) o->expect_failure = true;
        else if ((v = value_of(argv[i], "--passes"))) {
            for (o->passes = 0; o->passes < 3 && strcmp(settings[o->passes], v); o->passes++) {}
            if (o->passes == 3) return false;
        } else return false;
    }
    return true;
}

static void usage(FILE *f)
{
    fprintf(f, "usage: tile_run_test [--device=NAME] [--example=NAME] [--only=N] [--light] [--share=K/N] "
               "[--passes=both|on|off] [--seed=N] [--kernels=FOLDER] [--list] [--expect-failure]\n");
    for (const Executor *e = executors; e->name; e++) fprintf(f, "  --device=%-8s %s\n", e->name, e->doc);
}

static const Executor *executor_find(const char *name)
{
    for (const Executor *e = executors; e->name; e++)
        if (!strcmp(e->name, name)) return e;
    return NULL;
}

int main(int argc, char **argv)
{
    Options o = { .device = "cpu", .kernels = TILE_KERNELS, .passes = 2, .seed = 1, .only = -1 };
    char why[400] = "";
    if (!read_options(&o, argc, argv)) return usage(stderr), 2;
    if (o.help) return usage(stdout), 0;
    Session s = { .options = &o, .executor = executor_find(o.device) };
    if (!s.executor) {
        fprintf(stderr, "tile_run_test: no device '%s' in this build\n", o.device);
        return 2;
    }
    double start = now();
    if (!o.list && !(s.state = s.executor->open(o.device, why, sizeof why))) {
        printf("SKIP: %s: %s\n", o.device, why);
        return 77;
    }
    for (int i = 0; i < n_cases && o.shares; i++) run_row(&s, &cases[i], true);
    for (int i = 0; i < n_cases; i++) run_row(&s, &cases[i], false);
    if (o.list) return 0;
    s.executor->close(s.state);
    printf("%s: %d cases on %s, %d failed, %.1f s\n", o.example ? o.example : "all examples", s.tally.run,
        o.device, s.tally.failed, now() - start);
    if (!s.tally.run) printf("nothing selected\n");
    return s.tally.failed || !s.tally.run;
}
