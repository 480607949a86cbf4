/* test_diff.c: what passes must not change. Every example kernel, at ragged sizes, lowered and run by the
 * interpreter: without passes against all passes, with the launch facts that hold and with none, with each
 * pass left out in turn, and with approx. The interpreter reports an access that a pass wrongly proved in
 * range.
 *
 * test_diff EXAMPLES-DIRECTORY [case] */
#include "example_case.h"
#include "frontend/frontend.h"
#include "passes/passes.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static const char *directory;
static int failures;

/* Lowers and runs the case; NULL options: no passes. False after a message. */
static bool run_case(Problem *p, const Case *c, const char *text, size_t len, const PassOptions *o,
    bool facts, PassReport *report)
{
    volatile bool ok = false;
    memset(p, 0, sizeof *p);
    session_init(&p->s, allocator_libc);
    if (!setjmp(p->s.oom)) {
        ok = case_lower(p, c, text, len) && case_args(p, c);
        if (ok && facts) case_facts(p, c);
        if (ok && o) ok = passes_run(p->module, o, report);
        ok = ok && ir_verify(p->module) && interp_run(&p->s, p->func, p->args, p->func->n_params);
    }
    if (!ok) case_diags(p);
    return ok;
}

static void check(const Case *c, const char *text, size_t len, const Problem *plain, const PassOptions *o,
    bool facts, const char *what)
{
    Problem q;
    PassReport report = { 0 };
    if (!run_case(&q, c, text, len, o, facts, &report)) {
        fprintf(stderr, "%s (%s; %s), %s: failed\n", c->kernel, c->consts, c->dims, what);
        failures++;
    } else if (!case_same(&q, plain, c, what)) failures++;
    case_free(&q);
}

static void test_case(const Case *c)
{
    size_t len = 0;
    Problem plain;
    char *text = case_read(directory, c->file, &len);
    if (!text || !run_case(&plain, c, text, len, NULL, false, NULL)) {
        fprintf(stderr, "%s: does not run without passes\n", c->kernel);
        failures++;
        if (text) case_free(&plain);
        free(text);
        return;
    }
    PassOptions o = pass_options_default(target_find("cuda:sm_90a"));
    o.opt_level = 3;
    o.verify_each = true;
    check(c, text, len, &plain, &o, true, "all passes, all facts, sm_90a");
    o.target = target_find("cpu");
    check(c, text, len, &plain, &o, false, "all passes, no facts");
    check(c, text, len, &plain, &o, true, "all passes, all facts");
    for (int id = 0; id < TILE_PASS_COUNT; id++) {
        char what[64];
        snprintf(what, sizeof what, "without %s", pass_info[id].name);
        o.skip = pass_info[id].name;
        check(c, text, len, &plain, &o, true, what);
    }
    o.skip = NULL;
    o.approx = o.ftz =
        true; /* The interpreter ignores the marks, but divisions that became products matter. */
    check(c, text, len, &plain, &o, true, "with approx");
    case_free(&plain);
    free(text);
}

/* Every kernel of every example stands in the table. */
static void check_complete(const char *file)
{
    size_t len = 0;
    char name[256], *text;
    snprintf(name, sizeof name, "%.*s", (int)(strlen(file) - strlen(".tile")), file);
    if (!(text = case_read(directory, name, &len))) {
        fprintf(stderr, "%s cannot be read\n", file);
        failures++;
        return;
    }
    Session s;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Ast *ast = frontend_parse(&s, diag_add_source(&s, file, NULL, text, len), NULL, NULL);
        for (int i = 0; frontend_check(ast) && i < frontend_kernel_count(ast); i++) {
            bool found = false;
            for (size_t k = 0; k < (size_t)n_example_cases; k++)
                found |= !strcmp(example_cases[k].file, name) &&
                         !strcmp(example_cases[k].kernel, frontend_kernel(ast, i)->name);
            if (!found) {
                fprintf(stderr, "%s: kernel %s has no case here\n", file, frontend_kernel(ast, i)->name);
                failures++;
            }
        }
    }
    session_free(&s);
    free(text);
}

static void check_all_complete(void)
{
    DIR *d = opendir(directory);
    int files = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (strlen(e->d_name) > 5 && !strcmp(e->d_name + strlen(e->d_name) - 5, ".tile")) {
            check_complete(e->d_name);
            files++;
        }
    if (d) closedir(d);
    if (!files) {
        fprintf(stderr, "no examples in %s\n", directory);
        failures++;
    }
}

int main(int argc, char **argv)
{
    int ran = 0;
    if (argc < 2) {
        fprintf(stderr, "test_diff EXAMPLES-DIRECTORY [kernel]\n");
        return 1;
    }
    directory = argv[1];
    for (size_t k = 0; k < (size_t)n_example_cases; k++) {
        if (argc > 2 && strcmp(argv[2], example_cases[k].kernel)) continue;
        test_case(&example_cases[k]);
        ran++;
    }
    if (argc < 3) check_all_complete();
    printf("%d cases, %d failures\n", ran, failures);
    return failures || !ran;
}
