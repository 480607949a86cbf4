/* test_load_arm.c: the loader's relocations for AArch64. Examples are compiled for AArch64 here; load_run.c,
 * which is built for AArch64 and run by an emulator, loads and launches them. Results are compared with the
 * interpreter's.
 *
 * test_load_arm EXAMPLES-DIRECTORY FOLDER RUNNER...: the words of RUNNER run load_run */
#include "cpu_run.h"
#include "load_run.h"
#include "passes/passes.h"
#include "tests/passes/example_case.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Calls of libm and the C library, tables, constants, products, a sort. */
static const char *const kernels[] = { "softmax", "gemm", "rope_table", "topk_rows", "transpose", "attention",
    "dropout" };
static const char *directory, *in, *out;
static char **runner;
static int failures;

static bool write_case(const Problem *p, const CpuRun *r, const char *path)
{
    LoadRun h = { .programs = r->programs,
        .scratch_bytes = r->artifact.shape.scratch_bytes,
        .object_bytes = (int64_t)r->artifact.size,
        .n_slots = r->artifact.n_slots,
        .n_tensors = p->func->n_params };
    snprintf(h.entry, sizeof h.entry, "%s", r->artifact.entry);
    for (int k = 0; k < h.n_slots; k++) {
        bool data = r->artifact.slots[k].kind == SLOT_DATA;
        h.slots[k].tensor = data ? r->artifact.slots[k].param : -1;
        h.slots[k].word = r->slots[k];
    }
    for (int k = 0; k < h.n_tensors; k++) h.tensor_bytes[k] = (int64_t)p->bytes[k];
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    fwrite(&h, sizeof h, 1, f);
    fwrite(r->artifact.data, 1, r->artifact.size, f);
    for (int k = 0; k < h.n_tensors; k++) fwrite(p->data[k], 1, p->bytes[k], f);
    return !fclose(f);
}

static bool read_case(Problem *p, const char *path)
{
    FILE *f = fopen(path, "rb");
    bool ok = f;
    for (int k = 0; ok && k < p->func->n_params; k++)
        ok = fread(p->data[k], 1, p->bytes[k], f) == p->bytes[k];
    if (f) fclose(f);
    return ok;
}

static bool run_runner(void)
{
    int status = 1;
    pid_t child = fork();
    if (child == 0) {
        execvp(runner[0], runner);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* By the interpreter, or on AArch64. */
static bool run_case(Problem *p, const Case *c, const char *text, size_t len, bool arm)
{
    volatile bool ok = false;
    CpuRun r = { 0 };
    memset(p, 0, sizeof *p);
    session_init(&p->s, allocator_libc);
    if (!setjmp(p->s.oom)) {
        ok = case_lower(p, c, text, len) && case_args(p, c);
        PassOptions o = pass_options_default(target_find("cpu:aarch64"));
        o.opt_level = arm ? 3 : 0;
        ok = ok && passes_run(p->module, &o, NULL);
        if (ok && !arm) ok = interp_run(&p->s, p->func, p->args, p->func->n_params);
        BackendOptions b = { .opt_level = 2 };
        if (ok && arm)
            ok =
                backend_cpu.compile(&p->s, p->module, p->func, target_find("cpu:aarch64"), &b, &r.artifact) &&
                cpu_run_bind(&p->s, p->func, p->args, &r) && write_case(p, &r, in) && run_runner() &&
                read_case(p, out);
    } else ok = false;
    if (!ok) case_diags(p);
    cpu_run_free(&r);
    return ok;
}

static void test_case(const Case *c)
{
    Problem plain, arm;
    size_t len;
    char *text = case_read(directory, c->file, &len);
    bool ok = text && run_case(&plain, c, text, len, false);
    if (ok) {
        ok = run_case(&arm, c, text, len, true) && case_same(&arm, &plain, c, "aarch64");
        case_free(&arm);
    }
    if (text) case_free(&plain);
    free(text);
    if (ok) return;
    printf("%s (%s; %s): failed\n", c->kernel, c->consts, c->dims);
    failures++;
}

int main(int argc, char **argv)
{
    char in_path[256], out_path[256], *words[16] = { NULL };
    int n = argc - 3;
    if (n < 1 || n > 12) {
        fprintf(stderr, "test_load_arm EXAMPLES-DIRECTORY FOLDER RUNNER...\n");
        return 1;
    }
    directory = argv[1];
    snprintf(in_path, sizeof in_path, "%s/load_run.%d.in", argv[2], (int)getpid());
    snprintf(out_path, sizeof out_path, "%s/load_run.%d.out", argv[2], (int)getpid());
    for (int k = 0; k < n; k++) words[k] = argv[3 + k];
    words[n] = in_path;
    words[n + 1] = out_path;
    runner = words;
    in = in_path;
    out = out_path;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (size_t c = 0; c < (size_t)n_example_cases; c++)
            if (!strcmp(kernels[k], example_cases[c].kernel)) {
                test_case(&example_cases[c]);
                break;
            } else if (c + 1 == (size_t)n_example_cases) {
                printf("there is no example %s\n", kernels[k]);
                failures++;
            }
    remove(in);
    remove(out);
    printf("%d failures\n", failures);
    return failures != 0;
}
