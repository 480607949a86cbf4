/* test_access.c: the accesses that passes/sim derives are those that the interpreter makes: for every example
 * of the repository, with all passes and with none, program by program. Compared for each memory operation:
 * how many elements, and a sum over hashes of their addresses. Where an address comes from data, at least as
 * many: the made-up ones are never out of range. */
#include "executor.h"
#include "launch_facts.h"
#include "frontend/frontend.h"
#include "ir/interp/interp.h"
#include "passes/passes.h"
#include "passes/sim/sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROGRAMS = 24 };
static int checked, failed;

typedef struct Tally {
    int64_t n;
    uint64_t sum;
} Tally; /* by instruction: Instr.mark */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * 0x7fb5d329728ea185ull;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44dull;
    return x ^ x >> 33;
}

static void on_access(void *user, const Instr *i, int param, int64_t offset)
{
    Tally *t = &((Tally *)user)[i->mark];
    t->n++;
    t->sum += mix((uint64_t)offset);
}

static void number(void *user, Instr *i) { i->mark = (uint32_t)(*(int *)user)++; }

static void add_box(const SimSite *s, const SimAccess *a, int64_t base, Tally *t)
{
    int64_t c[TILE_MAX_RANK] = { 0 };
    for (;;) {
        int64_t at = a->at - base;
        int k = 0;
        for (int x = 0; x < s->rank; x++) at += c[x] * s->step[x];
        t->n++;
        t->sum += mix((uint64_t)at);
        while (k < s->rank && ++c[k] == a->n[k]) c[k++] = 0;
        if (k == s->rank) return;
    }
}

static void derived(const SimTrace *trace, const SimStep *step, Tally *t)
{
    for (int64_t k = 0; k < step->n; k++) {
        const SimAccess *a = &step->access[k];
        const SimSite *s = sim_trace_site(trace, a->site);
        int64_t base = sim_trace_tensor(trace, s->param);
        Tally *mine = &t[s->instr->mark];
        if (!s->indexed) {
            add_box(s, a, base, mine);
            continue;
        }
        for (int32_t e = 0; e < a->n[0]; e++) {
            mine->n++;
            mine->sum += mix((uint64_t)(step->elements[a->first + e] - base));
        }
    }
}

/* --- one launch -------------------------------------------------------------------------------------- */

static bool compare(const Func *f, const SimTrace *trace, const Tally *want, const Tally *got, int n,
    int64_t program, const char *what)
{
    bool *assumed = calloc((size_t)n, sizeof *assumed), *unsure = calloc((size_t)n, sizeof *unsure);
    bool same = true;
    for (int k = 0; k < sim_trace_sites(trace); k++) {
        const SimSite *s = sim_trace_site(trace, k);
        assumed[s->instr->mark] |= s->assumed || s->cut;
        unsure[s->instr->mark] |= s->unsure;
    }
    for (int k = 0; k < n && same; k++) {
        same = unsure[k] ||
               (assumed[k] ? want[k].n <= got[k].n : want[k].n == got[k].n && want[k].sum == got[k].sum);
        if (!same)
            printf("FAIL %s @%s program %lld, operation %d: %lld elements, derived %lld%s\n", what, f->name,
                (long long)program, k, (long long)want[k].n, (long long)got[k].n,
                want[k].n == got[k].n ? " elsewhere" : "");
    }
    free(assumed);
    free(unsure);
    return same;
}

static bool check_launch(Session *s, Ast *ast, const Launch *l, bool passes, const char *what)
{
    FrontBinding b[64];
    const FrontKernel *k = frontend_kernel_find(ast, l->kernel);
    int n = launch_bind(s, k, l, b);
    Module *m = frontend_lower(ast, l->kernel, b, (size_t)n, NULL);
    PassOptions o = pass_options_default(NULL);
    o.opt_level = 3;
    if (passes) o.skip = "remap";
    else o.passes = "inline";
    if (!m || !passes_run(m, &o, NULL)) return false;
    Func *f = ir_func_find(m, l->kernel);
    InterpArg args[MAX_ARGS];
    int64_t dims[64];
    Scalar scalars[MAX_ARGS];
    memset(args, 0, sizeof args);
    memset(scalars, 0, sizeof scalars);
    for (int d = 0; d < f->n_dims; d++) dims[d] = f->dims[d].extent;
    for (int i = 0; i < l->n_args; i++) {
        const Arg *a = &l->args[i];
        if (a->scalar) {
            if (ref_type_is_float(a->scalar->type)) args[i].scalar.f = a->scalar->value;
            else args[i].scalar.i = (int64_t)a->scalar->value;
            scalars[i] = args[i].scalar;
            continue;
        }
        if (!a->tensor) continue; /* an optional one that is left out */
        args[i].data = a->tensor->base + a->tensor->offset;
        for (int axis = 0; axis < a->tensor->rank - a->drop; axis++) {
            args[i].shape[axis] = a->tensor->shape[a->drop + axis];
            args[i].stride[axis] = a->tensor->stride[a->drop + axis];
            dims[f->params[i].dims[axis]] = args[i].shape[axis];
        }
    }
    const char *why;
    SimLaunch launch = { dims, scalars };
    SimTrace *trace = sim_trace(f, &launch, &why);
    if (!trace) {
        printf("FAIL %s @%s: %s\n", what, f->name, why);
        return false;
    }
    int count = 0;
    ir_walk(f->body, number, &count);
    SimProgram *p = sim_program_new(trace, allocator_libc);
    bool ok = p != NULL;
    int64_t programs = sim_trace_programs(trace), step = programs / MAX_PROGRAMS + 1;
    for (int64_t w = 0; w < programs && ok; w += step) {
        Tally *want = calloc((size_t)count + 1, sizeof *want), *got = calloc((size_t)count + 1, sizeof *got);
        InterpOptions io = { .on_access = on_access, .on_access_user = want, .first = w, .count = 1 };
        SimStep done;
        Block *remap = f->remap;
        f->remap = NULL;
        ok = interp_run_with(s, f, args, l->n_args, &io) && sim_program_run(p, w, &done) == SIM_OK;
        f->remap = remap;
        if (ok) {
            derived(trace, &done, got);
            ok = compare(f, trace, want, got, count, w, what);
        } else printf("FAIL %s @%s: does not run\n", what, f->name);
        free(want);
        free(got);
        checked++;
    }
    sim_program_free(p);
    return ok;
}

/* --- the table of cases ------------------------------------------------------------------------------ */

static uint32_t add_source(Session *s, const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = arena_alloc(&s->arena, 1 << 20);
    size_t n = f ? fread(text, 1, 1 << 20, f) : 0;
    if (f) fclose(f);
    return diag_add_source(s, path, NULL, text, n);
}

static bool check_run(const Run *run, bool passes)
{
    Session s;
    char path[512];
    volatile bool ok = true;
    snprintf(path, sizeof path, "%s", run->path);
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Ast *ast = frontend_parse(&s, add_source(&s, path), NULL, NULL);
        ok = frontend_check(ast);
        for (int i = 0; i < run->n_launches && ok; i++)
            ok = check_launch(&s, ast, &run->launches[i], passes, run->problem->recipe->name);
    } else ok = false;
    if (!ok && s.diags) {
        Text t;
        text_init(&t, &s.arena);
        diag_render_all(&s, &t);
        printf("%s", t.data);
    }
    session_free(&s);
    return ok;
}

/* The last of a list separated by '|': the most ragged one that is there. */
static void last_part(const char *list, char *out, size_t size)
{
    const char *bar = list ? strrchr(list, '|') : NULL;
    snprintf(out, size, "%s", bar ? bar + 1 : list ? list : "");
}

int main(int argc, char **argv)
{
    for (int c = 0; c < n_cases && argc > 1; c++) {
        const Case *k = &cases[c];
        char sizes[200], consts[200], why[300], path[512];
        if (k->heavy || k->views || k->special || (c && !strcmp(cases[c - 1].recipe, k->recipe))) continue;
        last_part(k->sizes, sizes, sizeof sizes);
        last_part(k->consts, consts, sizeof consts);
        Problem *p = problem_make(recipe_find(k->recipe), sizes, consts, NULL, NULL, 1, why, sizeof why);
        Run run;
        if (!p || !run_prepare(&run, p, argv[1], path, sizeof path, why, sizeof why)) {
            printf("FAIL %s: %s\n", k->recipe, why);
            failed++;
            continue;
        }
        for (int passes = 0; passes < 2; passes++) {
            problem_reset(p);
            bool ok = check_run(&run, passes);
            failed += !ok;
            printf("%s %s [%s] [%s] %s\n", ok ? "ok  " : "FAIL", k->recipe, sizes, consts,
                passes ? "all passes" : "no passes");
        }
        problem_free(p);
    }
    printf("%d programs compared, %d launches failed\n", checked, failed);
    return failed || !checked;
}
