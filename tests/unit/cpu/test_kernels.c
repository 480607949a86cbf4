/* test_kernels.c: every example kernel at ragged sizes, compiled by the CPU backend and run, against the
 * interpreter: without passes and launch facts, with all passes and facts, and for processors with and
 * without AVX-512 and AVX2, and, if they have products of 8 or 16 bits, with AMX by its model.
 *
 * test_kernels EXAMPLES-DIRECTORY [kernel] */
#include "amx_model.h"
#include "cpu_run.h"
#include "tests/passes/example_case.h"
#include "passes/passes.h"
#include <stdio.h>
#include <stdlib.h>

static const char *directory;
static int failures;

typedef struct Mode {
    const char *name, *cpu;
    bool passes, facts, checked, debug, amx;
} Mode;
static const Mode modes[] = {
    { "plain", NULL, false, false, false, false },
    { "passes", NULL, true, false, false, false },
    { "facts", NULL, true, true, false, true },
    { "checked", NULL, true, true, true, false },
    { "avx2", "x86-64-v3", true, true, false, false },
    { "sse", "x86-64-v2", true, true, false, false },
    { "avx512", "x86-64-v4", true, true, false, false },
    { "amx", "x86-64-v3", true, true, false, false, true },
};

static bool can_run(const char *cpu)
{
    if (!cpu || !strcmp(cpu, "x86-64-v2")) return true;
    if (!strcmp(cpu, "x86-64-v3")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_narrow_product(const Block *b)
{
    for (const Instr *i = b->first; i; i = i->next) {
        if (i->op == OP_MMA && dtype_bits(ir_operand(i, 0)->type->dtype) <= 16) return true;
        for (int k = 0; k < i->n_blocks; k++)
            if (has_narrow_product(i->blocks[k])) return true;
    }
    return false;
}

/* Lowers and runs the case, by the interpreter (NULL mode) or the backend. False after a message. */
static bool run_case(Problem *p, const Case *c, const char *text, size_t len, const Mode *m)
{
    volatile bool ok = false;
    memset(p, 0, sizeof *p);
    session_init(&p->s, allocator_libc);
    CpuRun r = { 0 };
    if (!setjmp(p->s.oom)) {
        ok = case_lower(p, c, text, len) && case_args(p, c);
        if (ok && m && m->facts) case_facts(p, c);
        PassOptions o = pass_options_default(target_find("cpu"));
        o.opt_level = m && m->passes ? 3 : 0;
        o.check = m && m->checked;
        ok = ok && passes_run(p->module, &o, NULL) && ir_verify(p->module);
        if (ok && !m) ok = interp_run(&p->s, p->func, p->args, p->func->n_params);
        if (ok && m) {
            BackendOptions b = { .opt_level = 2,
                .cpu = m->cpu,
                .checked = m->checked,
                .debug_info = m->debug,
                .features = m->amx ? "+amx-tile,+amx-bf16,+amx-int8,+amx-fp16" : NULL,
                .amx_model = m->amx,
                .verify_each = true };
            ok = cpu_run_compile(&p->s, p->func, &b, &r) && cpu_run_bind(&p->s, p->func, p->args, &r) &&
                 cpu_run_launch(&r) == 0;
        }
    } else ok = false;
    if (!ok) case_diags(p);
    cpu_run_free(&r);
    return ok;
}

static void test_case(const Case *c)
{
    size_t len = 0;
    Problem plain, q;
    char *text = case_read(directory, c->file, &len);
    if (!text || !run_case(&plain, c, text, len, NULL)) {
        fprintf(stderr, "%s: does not run in the interpreter\n", c->kernel);
        failures++;
        if (text) case_free(&plain);
        free(text);
        return;
    }
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
        if (!can_run(modes[k].cpu) || (modes[k].amx && !has_narrow_product(plain.func->body))) continue;
        if (!run_case(&q, c, text, len, &modes[k])) {
            fprintf(stderr, "%s (%s; %s), %s: failed\n", c->kernel, c->consts, c->dims, modes[k].name);
            failures++;
        } else if (!case_same(&q, &plain, c, modes[k].name)) failures++;
        case_free(&q);
    }
    case_free(&plain);
    free(text);
}

int main(int argc, char **argv)
{
    int ran = 0;
    if (argc < 2) {
        fprintf(stderr, "test_kernels EXAMPLES-DIRECTORY [kernel]\n");
        return 1;
    }
    directory = argv[1];
    for (size_t k = 0; k < (size_t)n_example_cases; k++) {
        if (argc > 2 && strcmp(argv[2], example_cases[k].kernel)) continue;
        test_case(&example_cases[k]);
        ran++;
    }
    if (argc == 2 && can_run("x86-64-v3") && !amx_products) {
        fprintf(stderr, "no example uses AMX\n");
        failures++;
    }
    printf("%d cases, %d failures\n", ran, failures);
    return failures || !ran;
}
