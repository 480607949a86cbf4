/* emit_examples: every kernel of the example files, in the variants that `instantiate` lists, emitted for GPU
 * targets and, where NVRTC is found, compiled to a cubin; registers, spills and stack are reported. HIP C is
 * compiled by clang-22 (hip_report.h).
 *
 *     emit_examples [--target=cuda:sm_80[,cuda:sm_90]] [--kernel=NAME] [--all] [--no-compile] [--no-roles]
 *         [--quiet] [--save=DIR] [--limits]
 *                   [--special] [--skip=TEXT] [--check] [--round] FILE.tile...
 *
 * Of each `instantiate` the first and the last variant are taken (--all: every one), each without and with
 * the launch facts of contiguous, aligned tensors (--special: with them only). --skip: variants whose name
 * holds the text are left out. --limits: a kernel with a matrix product must not spill nor use local memory.
 * A variant that needs more shared memory, or on AMD more registers, than the target has is taken with other
 * tiles of its `tune` block, as tilec and the library do; where there are none, it is reported and with
 * --limits a failure. --check: libclang reads every emission. --round: the schedule printed is read back, and
 * must give the same text. Exit 0 when all were emitted and compiled, 1 otherwise, 77 when compiling was
 * asked for and there is no NVRTC. */
#include "backends/gpu/check.h"
#include "tests/emit/example.h"
#include "tests/emit/hip_need.h"
#include "tests/emit/nvrtc.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct Run {
    Nvrtc *nvrtc;
    const char *kernel, *save;
    const char *skip;
    bool all, quiet, limits, special, check, round;
    bool clang; /* HIP is compiled, in `folder` */
    char folder[64];
    KernelOptions options;
    int emitted, compiled, failed, unfit;
} Run;

static long number_before(const char *log, const char *what)
{
    const char *p = strstr(log, what);
    if (!p) return 0;
    while (p > log && p[-1] == ' ') p--;
    while (p > log && p[-1] >= '0' && p[-1] <= '9') p--;
    return strtol(p, NULL, 10);
}

static long number_after(const char *log, const char *what)
{
    const char *p = strstr(log, what);
    return p ? strtol(p + strlen(what), NULL, 10) : 0;
}

static void count_product(void *user, Instr *i) { *(int *)user += i->op == OP_MMA_SYNC || i->op == OP_WGMMA; }

static bool has_product(const Func *f)
{
    int n = 0;
    ir_walk(f->body, count_product, &n);
    return n > 0;
}

static bool compile_hip(Run *r, const Func *f, const GpuCode *code, const Target *t, const char *title)
{
    static char log[8192];
    HipReport h;
    HipNeed need;
    hip_need(&need, f, t, code->threads / t->wave);
    if (!hip_report(code, t, r->folder, need.depth, &h, log, sizeof log)) {
        printf("FAIL %s: does not compile\n%.3000s\n", title, log);
        return false;
    }
    int budget = kernel_lane_file(t) / code->planned_waves;
    const char *wrong = hip_need_unmet(&need, &h, code, budget, r->limits);
    if (!r->quiet || wrong)
        printf("%s %-60s threads %4d VGPRs %3ld (plan %3d) spills %3ld scratch %4ld LDS %6ld waves %2ld "
               "matrix %3d of %lld, ahead %d drained %d%s%s\n",
            wrong ? "FAIL" : "ok  ", title, code->threads, h.vgprs + h.agprs, code->planned_registers,
            h.spills, h.scratch, h.lds, h.occupancy, h.waits.matrix, (long long)(need.n ? need.count[0] : 0),
            h.waits.ahead, h.waits.drained, wrong ? ": " : "", wrong ? wrong : "");
    return !wrong;
}

static bool compile(Run *r, const Func *f, const GpuCode *code, const Target *t, const char *title)
{
    char arch[32], *log;
    snprintf(arch, sizeof arch, "sm_%d%s", t->arch, target_has(t, TF_ARCH_SPECIFIC) ? "a" : "");
    bool compiled = nvrtc_compile(r->nvrtc, code->text, arch, &log);
    if (!compiled) {
        printf("FAIL %s: does not compile\n%.3000s\n", title, log ? log : "");
        free(log);
        return false;
    }
    long regs = number_after(log, "Used "), spill = number_before(log, "bytes spill stores"),
         stack = number_before(log, "bytes stack frame");
    bool over = r->limits && (spill || stack) && has_product(f);
    if (!r->quiet || over)
        printf("%s %-60s threads %4d registers %3ld spill %4ld stack %4ld shared %6lld\n",
            over ? "FAIL" : "ok  ", title, code->threads, regs, spill, stack, (long long)code->shared_bytes);
    free(log);
    return !over;
}

static void save_as(const Run *r, const char *title, const char *ending, const char *text)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%s%s", r->save, title, ending);
    for (char *p = path + strlen(r->save) + 1; *p; p++)
        if (strchr(" ,:<>", *p)) *p = '_';
    FILE *f = n < (int)sizeof path ? fopen(path, "wb") : NULL;
    if (!f || fputs(text, f) < 0 || fclose(f)) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
}

static void save(const Run *r, const GpuCode *code, const char *title)
{
    save_as(r, title, ".cu", code->text);
    save_as(r, title, ".schedule", code->schedule);
}

static bool comes_round(Run *r, Session *s, Func *f, const Target *t, const GpuCode *code, const char *title)
{
    KernelOptions options = r->options;
    GpuCode again;
    options.schedule = code->schedule;
    options.schedule_name = "printed";
    bool ok = gpu_compile(s, f, t, &options, &again, NULL),
         same = ok && !strcmp(code->text, again.text) && !strcmp(code->schedule, again.schedule);
    if (!same)
        printf("FAIL %s: its schedule read back gives %s\n%s%s", title, ok ? "other code" : "none",
            code->schedule, ok ? again.schedule : "");
    return same;
}

/* Every helper of the prelude is mentioned again behind its definition. */
static bool no_idle_helpers(const char *text, const char *title)
{
    static const char head[] = "static __device__ __forceinline__ ";
    for (const char *p = text; (p = strstr(p, head)); p++) {
        char name[128];
        const char *open = strchr(p, '('), *b = open;
        while (b > p && b[-1] != ' ' && b[-1] != '*') b--;
        snprintf(name, sizeof name, "%.*s", (int)(open - b), b);
        size_t n = strlen(name);
        const char *use = open;
        while ((use = strstr(use, name)) && (isalnum((unsigned char)use[n]) || use[n] == '_' ||
                                                isalnum((unsigned char)use[-1]) || use[-1] == '_'))
            use++;
        if (!use) {
            printf("FAIL %s: nothing uses %s\n", title, name);
            return false;
        }
    }
    return true;
}

/* What an estimate is made of does not need the text. */
static bool measures_alike(
    Run *r, Session *s, Func *f, const Target *t, const GpuCode *code, const char *title)
{
    KernelOptions options = r->options;
    GpuCode m;
    options.measure = true;
    bool ok = gpu_compile(s, f, t, &options, &m, NULL);
    bool same = ok && m.threads == code->threads && m.shared_bytes == code->shared_bytes &&
                m.scratch_bytes == code->scratch_bytes && m.registers == code->registers &&
                m.consumer_registers == code->consumer_registers && m.largest.words == code->largest.words &&
                m.persistent == code->persistent && m.cluster == code->cluster && m.n_maps == code->n_maps;
    if (!same)
        printf("FAIL %s: measured without its text it differs (%d threads, %lld bytes, %d words)\n", title,
            m.threads, (long long)m.shared_bytes, m.largest.words);
    if (!same || !code->plan->producer_warps) return same;
    /* Roles that fail give way where no text is wanted, too. */
    options.roles_fail = true;
    same = gpu_compile(s, f, t, &options, &m, NULL) && !m.plan->producer_warps;
    if (!same) printf("FAIL %s: measured where its roles fail it still has them\n", title);
    return same;
}

/* A variant of a kernel, as it is declared or as it fits. */
typedef struct Variant {
    const char *path, *kernel;
    const Target *t;
    bool special;
    char title[256];
    Ast *ast;
    Func *lowered, *f;
    GpuCode code;
    bool emitted, fits;
} Variant;

static void make(Run *r, Session *s, Variant *v, const FrontBinding *b, int n)
{
    v->f = example_lower(s, v->ast, v->kernel, b, (size_t)n, v->t, v->special);
    v->emitted = v->f && gpu_compile(s, v->f, v->t, &r->options, &v->code, &v->lowered);
    v->fits =
        v->code.shared_bytes <= v->t->shared_bytes && v->code.planned_registers <= v->code.lane_registers;
}

static void add_bindings(Session *s, Variant *v, const FrontBinding *b, int n)
{
    Text t;
    for (int k = 0; k < n; k++) {
        size_t at = strlen(v->title);
        text_init(&t, &s->arena);
        frontend_print_value(b[k].value, &t);
        snprintf(v->title + at, sizeof v->title - at, ",%s=%s", b[k].name, t.data);
    }
}

/* Makes the variant again with other tiles of its `tune` block, if there are some that fit. */
static void make_fit(Run *r, Session *s, Variant *v, const FrontBinding *given, int n)
{
    FrontBinding fit[32];
    Diag *first = s->diags, *last = s->last_diag;
    int errors = s->n_errors;
    s->diags = s->last_diag = NULL;
    s->n_errors = 0; /* the front end counts them */
    int more = example_fit(s, v->path, v->ast, v->kernel, given, n, v->t, fit, 32);
    s->diags = more ? NULL : first;
    s->last_diag = more ? NULL : last;
    s->n_errors = more ? 0 : errors;
    if (!more) return;
    make(r, s, v, fit, more);
    add_bindings(s, v, fit + n, more - n);
}

/* Saves the text, reads it and compiles it, as far as the options ask for that. */
static bool holds(Run *r, Session *s, const Variant *v)
{
    const char *why, *title = v->title;
    const GpuCode *code = &v->code;
    EmissionChecker *checker = r->check ? emission_checker(s, getenv("TILE_LIBCLANG"), &why) : NULL;
    bool hip = v->t->kind == TARGET_HIP;
    if (r->save) save(r, code, title);
    if (r->round &&
        (!comes_round(r, s, v->f, v->t, code, title) || !measures_alike(r, s, v->f, v->t, code, title)))
        return false;
    if (r->check && !no_idle_helpers(code->text, title)) return false;
    if (checker && !emission_check(checker, s, v->t, code->text, code->text_len, title)) return false;
    if (hip ? !r->clang : !r->nvrtc) return true;
    bool compiled =
        hip ? compile_hip(r, v->lowered, code, v->t, title) : compile(r, v->lowered, code, v->t, title);
    r->compiled += compiled;
    return compiled;
}

static void judge(Run *r, Session *s, const Variant *v)
{
    const GpuCode *c = &v->code;
    bool ok = false, unfit = v->f && !v->fits;
    if (v->emitted && (!unfit || c->shared_bytes <= v->t->shared_bytes)) {
        r->emitted++;
        ok = holds(r, s, v);
    } else printf("%s %s: not emitted\n", unfit ? "fit " : "FAIL", v->title);
    if (unfit && v->t->kind == TARGET_HIP && r->limits) {
        printf("FAIL %s: plan of %d registers of %d, and %lld bytes of LDS; nothing smaller is found\n",
            v->title, c->planned_registers, c->lane_registers, (long long)c->shared_bytes);
        unfit = ok = false;
    }
    for (const Diag *d = s->diags; d && !ok; d = d->next)
        if (d->severity == SEV_ERROR) printf("     %s\n", d->message);
    if (unfit && !ok) r->unfit++;
    else if (!ok) r->failed++;
}

static void variant(Run *r, const char *path, const char *kernel, const FrontBinding *given, int n,
    const Target *t, bool special)
{
    Session s;
    Variant v = { .path = path, .kernel = kernel, .t = t, .special = special };
    session_init(&s, allocator_libc);
    snprintf(v.title, sizeof v.title, "%s %s", t->name + (t->kind == TARGET_HIP ? 4 : 5), kernel);
    int left = setjmp(s.oom);
    if (left) {
        printf("FAIL %s: left early (%d)\n", v.title, left);
        for (const Diag *d = left == 1 ? NULL : s.diags; d; d = d->next)
            if (d->severity == SEV_ERROR) printf("     %s\n", d->message);
        r->failed++;
    } else {
        v.ast = example_parse(&s, path);
        add_bindings(&s, &v, given, n);
        if (special) strcat(v.title, " special");
        if (!r->skip || !strstr(v.title, r->skip)) {
            if (v.ast) make(r, &s, &v, given, n);
            if (v.f && !v.fits) make_fit(r, &s, &v, given, n);
            judge(r, &s, &v);
        }
    }
    fflush(stdout);
    session_free(&s);
}

static void file(Run *r, const char *path, const Target *t)
{
    Session s;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Ast *ast = example_parse(&s, path);
        if (!ast) {
            printf("FAIL %s: does not parse\n", path);
            r->failed++;
        }
        for (int k = 0; ast && k < frontend_kernel_count(ast); k++) {
            const char *name = frontend_kernel(ast, k)->name;
            bool any = false;
            if (r->kernel && strcmp(r->kernel, name)) continue;
            for (int i = 0; i < frontend_instance_count(ast); i++) {
                const FrontInstance *x = frontend_instance(ast, i);
                FrontBinding b[16];
                int64_t total = 1;
                if (strcmp(x->kernel, name) || x->n > 16) continue;
                any = true;
                for (int d = 0; d < x->n; d++) total *= x->domains[d].n;
                for (int64_t c = 0; c < total; c++) {
                    if (!r->all && c && c != total - 1) continue;
                    if (!example_instance(x, c, b)) continue;
                    for (int special = r->special; special < 2; special++)
                        variant(r, path, name, b, x->n, t, special);
                }
            }
            for (int special = r->special; !any && special < 2; special++)
                variant(r, path, name, NULL, 0, t, special);
        }
    }
    session_free(&s);
}

static bool have_libclang(void)
{
    Session s;
    const char *why;
    session_init(&s, allocator_libc);
    bool have = emission_checker(&s, getenv("TILE_LIBCLANG"), &why) != NULL;
    session_free(&s);
    return have;
}

/* The options; the files are moved to the front of argv. Returns how many there are, -1: bad arguments. */
static int read_options(Run *r, int argc, char **argv, const char **targets, bool *no_compile)
{
    const struct {
        const char *name;
        bool *to;
    } switches[] = { { "--special", &r->special }, { "--all", &r->all }, { "--check", &r->check },
        { "--round", &r->round }, { "--quiet", &r->quiet }, { "--limits", &r->limits },
        { "--no-compile", no_compile } };
    const struct {
        const char *name;
        const char **to;
    } values[] = { { "--target=", targets }, { "--kernel=", &r->kernel }, { "--skip=", &r->skip },
        { "--save=", &r->save } };
    int n = 0;
    for (int i = 1; i < argc; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof switches / sizeof *switches; k++)
            if (!strcmp(argv[i], switches[k].name)) found = *switches[k].to = true;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            size_t len = strlen(values[k].name);
            if (strncmp(argv[i], values[k].name, len)) continue;
            *values[k].to = argv[i] + len;
            found = true;
        }
        if (found) continue;
        if (!strcmp(argv[i], "--no-roles")) pass_add(&r->options.skip, PASS_WARP_SPECIALIZATION);
        else if (argv[i][0] != '-') argv[n++] = argv[i];
        else return -1;
    }
    return n;
}

static void remove_folder(const char *folder)
{
    static const char *const files[] = { "k.hip", "k.s", "k.log" };
    char name[128];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%s/%s", folder, files[k]);
        unlink(name);
    }
    rmdir(folder);
}

int main(int argc, char **argv)
{
    Run r = { 0 };
    Nvrtc nvrtc;
    const char *targets = "cuda:sm_80";
    bool no_compile = false;
    int n = read_options(&r, argc, argv, &targets, &no_compile);
    if (n < 0) {
        fprintf(stderr, "emit_examples: bad arguments; see the head of emit_examples.c\n");
        return 2;
    }
    bool hip = !strncmp(targets, "hip", 3);
    if (!no_compile && !hip && nvrtc_open(&nvrtc)) r.nvrtc = &nvrtc;
    strcpy(r.folder, "hip-XXXXXX");
    r.clang = !no_compile && hip && hip_compiler() && mkdtemp(r.folder);
    if (r.check && !have_libclang()) {
        printf("no libclang here: emissions are made, and not read\n");
        r.check = false;
    }
    char name[64];
    for (const char *p = targets; *p; p += strcspn(p, ","), p += *p == ',') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        const Target *t = target_find(name);
        if (!t) {
            fprintf(stderr, "no target %s\n", name);
            return 2;
        }
        for (int k = 0; k < n; k++) file(&r, argv[k], t);
    }
    printf("%d emitted, %d compiled, %d do not fit, %d failed\n", r.emitted, r.compiled, r.unfit, r.failed);
    if (r.clang) remove_folder(r.folder);
    if (r.failed) return 1;
    if (no_compile || r.clang || r.nvrtc) return 0;
    printf("SKIP: no %s here\n", hip ? "clang-22" : "NVRTC");
    return 77;
}
