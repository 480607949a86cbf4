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
#include "tests/emit/hip_plan.h"
#include "tests/emit/hip_report.h"
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

/* pipelined: loads of the loop run ahead, none of them by half words, which are packed as they come;
 * depth: iterations that those to LDS stay in flight; adds: the loop adds to memory, and its barriers wait
 * for that and so for all loads that were issued before */
typedef struct Needed {
    Arena *arena;
    const Target *t;
    const Func *f;
    int64_t warps, count[64];
    const Block *block[64];
    int n, depth;
    bool pipelined, packed, adds;
} Needed;

/* How much of K one instruction multiplies: by the type and the chip, as the ISA guides list them. */
static int depth_of(const Target *t, const LayoutMmaInfo *m, DType d, bool tf32)
{
    bool exchanged = !strcmp(m->name + strlen(m->name) - 2, "_r");
    if (!exchanged || m->lanes == 32) return m->k;
    if (m->bits == 16) return t->arch == 0x950 ? 16 : 8;
    if (m->bits == 8)
        return t->arch == 0x90a ? 8 : t->arch == 0x942 ? 16 : d == DT_I8 ? 32 : m->k == 64 ? 64 : 16;
    return tf32 && t->arch == 0x942 ? 4 : 2;
}

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Matrix instructions of a wave for one product, from arithmetic alone: 2 M N K over what one instruction
 * computes, shared by the waves. Where the tile is not whole instructions, or the waves do not share them
 * evenly, those of the busiest wave in the best of all arrangements of waves along M and N. No layout is
 * asked. */
static int64_t need_of_product(
    const LayoutMmaInfo *m, int64_t deep, int64_t rows, int64_t columns, int64_t k, int64_t waves)
{
    int64_t flops = 2 * rows * columns * k, one = 2 * (int64_t)m->m * m->n * deep, best = INT64_MAX;
    bool whole = rows % m->m == 0 && columns % m->n == 0 && k % deep == 0;
    if (whole && rows / m->m * (columns / m->n) % waves == 0) return flops / one / waves;
    for (int64_t down = 1; down <= waves; down++) {
        int64_t busiest = waves % down
                              ? INT64_MAX
                              : up(up(rows, m->m), down) * up(up(columns, m->n), waves / down) * up(k, deep);
        if (busiest < best) best = busiest;
    }
    return best;
}

/* The same for all products of one iteration of each block. */
static void need_of(void *user, Instr *i)
{
    Needed *u = user;
    const Instr *loop = i->block->parent;
    if (loop && loop->op == OP_FOR && i->op == OP_COPY_WAIT) {
        u->pipelined = true;
        u->depth = (int)ir_attr_int(i, ATTR_DEPTH, 0);
    }
    if (i->op == OP_LOAD && loop && loop->op == OP_IF && loop->n_results && loop->results[0].name &&
        strstr(loop->results[0].name, "_next"))
        *(kernel_access_bytes(u->f, i) < 4 ? &u->packed : &u->pipelined) = true;
    u->adds |= loop && loop->op == OP_FOR && i->op == OP_STORE && ir_attr(i, ATTR_RMW);
    if (i->op != OP_MMA_SYNC) return;
    const char *name = ir_attr(i, ATTR_INSTR)->s;
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++) {
        const LayoutMmaInfo *m = layout_mma_info((LayoutMma)k);
        if (strcmp(m->name, name) || u->n == 64) continue;
        const Type *c = ir_result(i)->type, *a = ir_operand(i, 0)->type;
        int64_t deep = depth_of(u->t, m, a->dtype, ir_attr_int(i, ATTR_PRECISION, 0) == PRECISION_TF32);
        int at = 0;
        while (at < u->n && u->block[at] != i->block) at++;
        if (at == u->n) {
            u->block[u->n] = i->block;
            u->count[u->n++] = 0;
        }
        u->count[at] += need_of_product(m, deep, c->shape[0], c->shape[1], a->shape[1], u->warps);
    }
}

/* No scratch, no spill, LDS and registers as planned, a workgroup fits; in the loop of products as many
 * matrix instructions as the arithmetic needs, and no wait ahead of them for what a later step loads, where
 * the plan loads ahead at all. */
static bool compile_hip(
    Run *r, Session *s, const Func *f, const GpuCode *code, const Target *t, const char *title)
{
    static char log[8192];
    HipReport h;
    Needed need = { .arena = &s->arena, .t = t, .f = f, .warps = code->threads / t->wave };
    ir_walk(f->body, need_of, &need);
    if (!hip_report(code, t, r->folder, need.depth, &h, log, sizeof log)) {
        printf("FAIL %s: does not compile\n%.3000s\n", title, log);
        return false;
    }
    int budget = kernel_lane_file(t) / code->planned_waves;
    const char *wrong = NULL;
    bool as_needed = !need.n;
    for (int k = 0; k < need.n; k++) as_needed |= need.count[k] == h.waits.matrix || need.block[k] == f->body;
    if (r->limits && h.scratch) wrong = "scratch";
    else if (r->limits && h.spills) wrong = "spills";
    else if (r->limits && !hip_plan_holds(code->planned_registers, h.vgprs + h.agprs, budget))
        wrong = "other registers than planned";
    else if (h.lds != code->shared_bytes) wrong = "another size of LDS than planned";
    else if (r->limits && h.occupancy < code->planned_waves) wrong = "fewer waves than planned";
    else if (r->limits && !as_needed) wrong = "not as many matrix instructions as needed";
    else if (r->limits && need.n && need.pipelined && !need.packed && !h.waits.ahead)
        wrong = "no load runs ahead";
    else if (r->limits && (need.pipelined || need.packed) && !need.adds && h.waits.drained)
        wrong = "waits for what a later step loads before the products end";
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
    if (!compiled) printf("FAIL %s: does not compile\n%.3000s\n", title, log ? log : "");
    if (!compiled) {
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

/* The variant as it is declared, or as it fits. The reason where it does not. */
typedef struct Made {
    Func *lowered, *f;
    GpuCode code;
    bool emitted, fits;
} Made;

static void make(Run *r, Session *s, Ast *ast, const char *kernel, const FrontBinding *b, int n,
    const Target *t, bool special, Made *m)
{
    *m = (Made){ .f = example_lower(s, ast, kernel, b, (size_t)n, t, special) };
    m->emitted = m->f && gpu_compile(s, m->f, t, &r->options, &m->code, &m->lowered);
    m->fits = m->code.shared_bytes <= t->shared_bytes && m->code.planned_registers <= m->code.lane_registers;
}

static void add_bindings(Session *s, char *title, size_t size, const FrontBinding *b, int n)
{
    Text v;
    for (int k = 0; k < n; k++) {
        size_t at = strlen(title);
        text_init(&v, &s->arena);
        frontend_print_value(b[k].value, &v);
        snprintf(title + at, size - at, ",%s=%s", b[k].name, v.data);
    }
}

static void variant(Run *r, const char *path, const char *kernel, const FrontBinding *given, int n,
    const Target *t, bool special)
{
    Session s;
    session_init(&s, allocator_libc);
    volatile bool ok = false, unfit = false;
    char title[256];
    snprintf(title, sizeof title, "%s %s", t->name + (t->kind == TARGET_HIP ? 4 : 5), kernel);
    int left = setjmp(s.oom);
    if (!left) {
        Ast *ast = example_parse(&s, path);
        FrontBinding fit[32];
        Made m = { 0 };
        add_bindings(&s, title, sizeof title, given, n);
        if (special) strcat(title, " special");
        if (r->skip && strstr(title, r->skip)) {
            session_free(&s);
            return;
        }
        if (ast) make(r, &s, ast, kernel, given, n, t, special, &m);
        if (m.f && !m.fits) {
            Diag *first = s.diags, *last = s.last_diag;
            int errors = s.n_errors;
            s.diags = s.last_diag = NULL;
            s.n_errors = 0; /* the front end counts them */
            int more = example_fit(&s, path, ast, kernel, given, n, t, fit, 32);
            s.diags = s.last_diag = NULL;
            s.n_errors = 0;
            if (!more) {
                s.diags = first;
                s.last_diag = last;
                s.n_errors = errors;
            } else {
                make(r, &s, ast, kernel, fit, more, t, special, &m);
                add_bindings(&s, title, sizeof title, fit + n, more - n);
            }
        }
        unfit = m.f && !m.fits;
        if (m.emitted && (!unfit || m.code.shared_bytes <= t->shared_bytes)) {
            r->emitted++;
            if (r->save) save(r, &m.code, title);
            const char *why;
            EmissionChecker *checker = r->check ? emission_checker(&s, getenv("TILE_LIBCLANG"), &why) : NULL;
            bool hip = t->kind == TARGET_HIP, tried = hip ? r->clang : r->nvrtc != NULL;
            ok = (!r->round || (comes_round(r, &s, m.f, t, &m.code, title) &&
                                   measures_alike(r, &s, m.f, t, &m.code, title))) &&
                 (!r->check || no_idle_helpers(m.code.text, title)) &&
                 (!checker || emission_check(checker, &s, t, m.code.text, m.code.text_len, title)) &&
                 (!tried || (hip ? compile_hip(r, &s, m.lowered, &m.code, t, title)
                                 : compile(r, m.lowered, &m.code, t, title)));
            if (ok && tried) r->compiled++;
        } else printf("%s %s: not emitted\n", unfit ? "fit " : "FAIL", title);
        if (unfit && t->kind == TARGET_HIP && r->limits) {
            printf("FAIL %s: plan of %d registers of %d, and %lld bytes of LDS; nothing smaller is found\n",
                title, m.code.planned_registers, m.code.lane_registers, (long long)m.code.shared_bytes);
            unfit = ok = false;
        }
    } else printf("FAIL %s: left early (%d)\n", title, left);
    for (const Diag *d = left == 1 ? NULL : s.diags; d && !ok; d = d->next)
        if (d->severity == SEV_ERROR) printf("     %s\n", d->message);
    if (unfit && !ok) r->unfit++;
    else if (!ok) r->failed++;
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

int main(int argc, char **argv)
{
    Run r = { 0 };
    Nvrtc nvrtc;
    const char *targets = "cuda:sm_80", *files[256];
    bool want = true;
    int n = 0;
    for (int k = 1; k < argc; k++) {
        const char *a = argv[k];
        if (!strncmp(a, "--target=", 9)) targets = a + 9;
        else if (!strncmp(a, "--kernel=", 9)) r.kernel = a + 9;
        else if (!strncmp(a, "--skip=", 7)) r.skip = a + 7;
        else if (!strcmp(a, "--special")) r.special = true;
        else if (!strncmp(a, "--save=", 7)) r.save = a + 7;
        else if (!strcmp(a, "--all")) r.all = true;
        else if (!strcmp(a, "--check")) r.check = true;
        else if (!strcmp(a, "--round")) r.round = true;
        else if (!strcmp(a, "--quiet")) r.quiet = true;
        else if (!strcmp(a, "--limits")) r.limits = true;
        else if (!strcmp(a, "--no-roles")) pass_add(&r.options.skip, PASS_WARP_SPECIALIZATION);
        else if (!strcmp(a, "--no-compile")) want = false;
        else if (a[0] != '-' && n < 256) files[n++] = a;
        else {
            fprintf(stderr, "emit_examples: bad arguments; see the head of emit_examples.c\n");
            return 2;
        }
    }
    bool hip = !strncmp(targets, "hip", 3);
    if (want && !hip && nvrtc_open(&nvrtc)) r.nvrtc = &nvrtc;
    strcpy(r.folder, "hip-XXXXXX");
    r.clang = want && hip && hip_compiler() && mkdtemp(r.folder);
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
        for (int k = 0; k < n; k++) file(&r, files[k], t);
    }
    printf("%d emitted, %d compiled, %d do not fit, %d failed\n", r.emitted, r.compiled, r.unfit, r.failed);
    if (r.clang) {
        static const char *const left[] = { "k.hip", "k.s", "k.log" };
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "%.30s/%s", r.folder, left[k]);
            unlink(name);
        }
        rmdir(r.folder);
    }
    if (r.failed) return 1;
    if (want && hip && !r.clang) {
        printf("SKIP: no clang-22 here\n");
        return 77;
    }
    if (want && !hip && !r.nvrtc) {
        printf("SKIP: no NVRTC here\n");
        return 77;
    }
    return 0;
}
