/* cpu_case.c: see cpu_case.h. */
#include "cpu_case.h"
#include "passes/passes.h"
#include <stdlib.h>
#include <string.h>

bool cpu_case_run(const CpuCase *x)
{
    volatile bool ok = false;
    Case c = { "k", "k", x->consts, "", "", 0 };
    Problem *p = calloc(1, sizeof *p);
    CpuRun *code = calloc(1, sizeof *code);
    BackendOptions o = { .opt_level = 2, .cpu = x->cpu, .verify_each = true };
    session_init(&p->s, allocator_libc);
    if (!setjmp(p->s.oom) && case_lower(p, &c, x->source, strlen(x->source))) {
        PassOptions passes = pass_options_default(target_find("cpu"));
        x->promise(p, x->user);
        ok = passes_run(p->module, &passes, NULL) && cpu_run_compile(&p->s, p->func, &o, code);
        if (ok) x->launch(p, code, x->user);
    }
    case_diags(p);
    cpu_run_free(code);
    free(code);
    case_free(p);
    free(p);
    return ok;
}
