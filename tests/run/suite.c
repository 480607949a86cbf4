/* suite.c: see suite.h. */
#include "suite.h"
#include <stdio.h>
#include <string.h>

bool suite_wants(const Suite *s, const char *name) { return !s->only || strstr(name, s->only); }

int suite_open(Suite *s, const char *device)
{
    char why[400] = "";
    for (const Executor *e = executors; e->name; e++)
        if (!strcmp(e->name, device)) s->executor = e;
    if (!s->executor) {
        fprintf(stderr, "%s: no device '%s' in this build\n", s->program, device);
        return 2;
    }
    s->state = s->executor->open(device, why, sizeof why);
    if (s->state) return 0;
    printf("SKIP: %s: %s\n", device, why);
    return 77;
}

void suite_case(Suite *s, const char *name, const Recipe *r, const char *sizes, const char *consts,
    void (*fill)(Problem *))
{
    char why[400] = "", path[512];
    Problem *p = problem_make(r, sizes, consts, NULL, NULL, 7, why, sizeof why);
    Run run;
    Verdict v = { .ok = p && run_prepare(&run, p, s->folder, path, sizeof path, why, sizeof why) };
    if (v.ok && fill) fill(p);
    for (int passes = 0; v.ok && passes < 2; passes++) {
        problem_reset(p);
        run.passes = passes;
        v.ok = s->executor->run(s->state, &run, why, sizeof why);
        if (v.ok) v = problem_check(p);
        if (!v.ok && *v.text)
            snprintf(why, sizeof why, "%s: %.370s", passes ? "all passes" : "no passes", v.text);
    }
    if (v.ok) printf("ok   %s: %.2g of %g ulp\n", name, v.error.ulp, v.bound);
    else printf("FAIL %s\n     %s\n", name, why);
    fflush(stdout);
    s->run++;
    s->failed += !v.ok;
    problem_free(p);
}

int suite_close(Suite *s)
{
    s->executor->close(s->state);
    printf("%d cases, %d failed\n", s->run, s->failed);
    return s->failed || !s->run;
}
