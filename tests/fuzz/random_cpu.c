/* random_cpu.c: random programs compiled by the CPU backend, after all passes or none, against the interpreter.
 *
 *     random_cpu [first [count]]      seeds; a failure is shown, the first one reduced */
#include "gen_ir.h"
#include "reduce_ir.h"
#include "passes/passes.h"
#include "tests/unit/cpu/cpu_run.h"
#include <stdio.h>
#include <stdlib.h>

static const unsigned flag_sets[] = { 0, GEN_POW2, GEN_ONLY_EXACT, GEN_NO_WIDE, GEN_BIG_TILES | GEN_ONLY_EXACT };

typedef struct Outcome { bool ran, same; char why[400]; } Outcome;

/* Runs the program of the seed, or `text` in its place on the seed's tensors. */
static Outcome try(uint64_t seed, const char *text, bool passes)
{
    Outcome o = { 0 };
    Session s;
    CpuRun run = { 0 };
    GenKernel k = { 0 };
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) {
        snprintf(o.why, sizeof o.why, "left through session.oom: %s", s.last_diag ? s.last_diag->message : "");
        session_free(&s);
        return o;
    }
    gen_kernel(&s, seed, flag_sets[seed % (sizeof flag_sets / sizeof *flag_sets)], &k);
    if (text) k.module = ir_parse(&s, diag_add_source(&s, "reduced", NULL, text, strlen(text)));
    k.func = k.module->funcs;
    bool ok = ir_verify(k.module) && interp_run(&s, k.func, k.args, k.n);
    void *want = gen_save(&s, &k);
    PassOptions opt = pass_options_default(target_find("cpu"));
    opt.opt_level = 3;
    ok = ok && (!passes || passes_run(k.module, &opt, NULL));
    BackendOptions bo = { .opt_level = 2, .verify_each = true };
    gen_fill(&k);
    ok = ok && cpu_run_compile(&s, k.func, &bo, &run) && cpu_run_bind(&s, k.func, k.args, &run) && cpu_run_launch(&run) == 0;
    o.ran = ok;
    if (!ok) snprintf(o.why, sizeof o.why, "does not run: %s", s.last_diag ? s.last_diag->message : "no diagnostics");
    else o.same = gen_same(&k, want, gen_save(&s, &k), o.why, sizeof o.why);
    cpu_run_free(&run);
    session_free(&s);
    return o;
}

typedef struct Failure { uint64_t seed; bool passes, ran; } Failure;

static bool still_fails(void *user, const char *text)
{
    const Failure *f = user;
    Outcome o = try(f->seed, text, f->passes);
    return o.ran == f->ran && !o.same;
}

static void explain(Failure f)
{
    Session s;
    GenKernel k;
    Text t;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom)) return;
    gen_kernel(&s, f.seed, flag_sets[f.seed % (sizeof flag_sets / sizeof *flag_sets)], &k);
    text_init(&t, &s.arena);
    ir_print(k.module, &t);
    char *small = reduce_ir(t.data, still_fails, &f);
    printf("%s%s\n", small, try(f.seed, small, f.passes).why);
    free(small);
    session_free(&s);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int bad = 0;
    for (uint64_t seed = first; seed < first + count && bad < 40; seed++)
        for (int passes = 0; passes < 2; passes++) {
            Outcome o = try(seed, NULL, passes);
            if (o.ran && o.same) continue;
            printf("seed %llu, %s passes: %s\n", (unsigned long long)seed, passes ? "all" : "no", o.why);
            if (bad++ == 0) explain((Failure){ seed, passes, o.ran });
        }
    printf("%llu random programs, %d runs differ\n", (unsigned long long)count, bad);
    return bad != 0;
}
