/* tile-opt: IR text (or a kernel of a .tile file) in, passes, IR text out; the driver of the tests of this
 * folder.
 *
 *     tile-opt [--kernel=name] [-DNAME=value] [--fits32] [--contiguous] [--div=DIM:n] [--positive=scalar]
 *         launch facts
 *              [--passes=a,b] [--skip-pass=a] [-O2] [--target=cuda:sm_80] [--check] [--approx] [--ftz]
 *                  [--remap=xcd] [--xcds=8]
 *              [--kernel-passes=a,b] [--warps=N] [--plan]
 *              [--stats] [--census] [--time-passes] [--quiet] file.ir | -
 *
 * With --kernel-passes these passes of the kernel IR run on each kernel, and those of the tile IR only where
 * --passes names some; --warps says how many warps hold a program's tiles (else they are chosen),
 * --plan prints what the passes wrote into the plan.
 *
 * Prints the module after the passes (not with --quiet), then statistics. The module is verified before and
 * after every pass and must print the same after being parsed again. Exit 0, or 1 with diagnostics on
 * standard error. */
#include "frontend/frontend.h"
#include "ir/verify/verify.h"
#include "passes/kernel/kernel.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_FACTS = 16 };
typedef struct Args {
    PassOptions options;
    const char *kernel_passes;
    int warps;
    bool stats, census, quiet, plan, fits32, contiguous;
    const char *file, *kernel;
    const char *binds[MAX_FACTS], *divs[MAX_FACTS], *positives[MAX_FACTS];
    int n_binds, n_divs, n_positives;
} Args;

static const char *value_of(const char *arg, const char *flag)
{
    size_t n = strlen(flag);
    return !strncmp(arg, flag, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

/* A flag that stands alone sets a bool. */
static bool take_switch(Args *a, const char *s)
{
    const struct {
        const char *name;
        bool *to;
    } switches[] = { { "--fits32", &a->fits32 }, { "--contiguous", &a->contiguous },
        { "--check", &a->options.check }, { "--approx", &a->options.approx }, { "--ftz", &a->options.ftz },
        { "--stats", &a->stats }, { "--census", &a->census }, { "--time-passes", &a->options.time_passes },
        { "--quiet", &a->quiet }, { "--plan", &a->plan } };
    for (size_t k = 0; k < sizeof switches / sizeof *switches; k++)
        if (!strcmp(s, switches[k].name)) return *switches[k].to = true;
    return false;
}

static bool take_text(Args *a, const char *s)
{
    const struct {
        const char *name, **to;
    } texts[] = { { "--passes", &a->options.passes }, { "--skip-pass", &a->options.skip },
        { "--dump-after", &a->options.dump_after }, { "--with-pass", &a->options.with },
        { "--stop-after", &a->options.stop_after }, { "--kernel-passes", &a->kernel_passes },
        { "--remap", &a->options.remap }, { "--kernel", &a->kernel } };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        const char *v = value_of(s, texts[k].name);
        if (!v) continue;
        *texts[k].to = v;
        return true;
    }
    return false;
}

static bool parse_args(int argc, char **argv, Args *a)
{
    for (int i = 1; i < argc; i++) {
        const char *s = argv[i], *v;
        if (take_switch(a, s) || take_text(a, s)) continue;
        if ((v = value_of(s, "--target"))) {
            if (!(a->options.target = target_find(v))) return false;
        } else if ((v = value_of(s, "--warps"))) a->warps = atoi(v);
        else if ((v = value_of(s, "--xcds"))) a->options.xcds = atoi(v);
        else if ((v = value_of(s, "--div")) && a->n_divs < MAX_FACTS) a->divs[a->n_divs++] = v;
        else if ((v = value_of(s, "--positive")) && a->n_positives < MAX_FACTS)
            a->positives[a->n_positives++] = v;
        else if (!strncmp(s, "-D", 2) && s[2] && a->n_binds < MAX_FACTS) a->binds[a->n_binds++] = s + 2;
        else if (!strncmp(s, "-O", 2) && s[2]) a->options.opt_level = atoi(s + 2);
        else if ((s[0] == '-' && s[1]) || a->file) return false;
        else a->file = s;
    }
    if (a->kernel_passes && !a->options.passes) a->options.passes = "";
    return a->file != NULL && (!a->kernel_passes || a->options.target);
}

static char *read_all(const char *path, size_t *len)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    size_t cap = 1 << 16, n = 0, got;
    char *text = malloc(cap);
    if (!f || !text) {
        free(text);
        return NULL;
    }
    while ((got = fread(text + n, 1, cap - n, f)) > 0) {
        n += got;
        if (n == cap) {
            char *bigger = realloc(text, cap *= 2);
            if (!bigger) {
                free(text);
                return NULL;
            }
            text = bigger;
        }
    }
    if (f != stdin) fclose(f);
    *len = n;
    return text;
}

static void print_dump(void *user, const char *pass, const char *text)
{ printf("// after %s\n%s", pass, text); }

static void print_stats(const PassReport *r)
{
    for (size_t i = 0; i < r->stats.len; i++) {
        const PassStat *s = &r->stats.data[i];
        printf("stat %s: %s: %lld\n", pass_info[s->pass].name, s->what, (long long)s->count);
    }
}

static void print_census(const Module *m)
{
    Census n = passes_census(m);
    printf("census instrs %d tiles %d exp %d exp2 %d div %d permute %d ordered %d\n", n.instrs, n.tile_instrs,
        n.exps, n.exp2s, n.divs, n.permutes, n.ordered_loads);
    printf("census loads %d stores %d masked %d index64 %d loops %d selects %d\n", n.loads, n.stores,
        n.masked, n.index64, n.loops, n.selects);
    printf("census in main loops: masked %d selects %d\n", n.loop_masked, n.loop_selects);
    printf("census calls %d asserts %d asks %d in-loops %d fma %d approx %d buffers %d remaps %d "
           "one-row %d\n",
        n.calls, n.asserts, n.asks, n.in_loops, n.fmas, n.approx, n.buffers, n.remaps, n.one_row);
}

/* Prints, parses what was printed and prints again: both texts must be the same. */
static bool round_trip(Session *s, const Module *m, Text *out)
{
    Text again;
    text_init(out, &s->arena);
    ir_print(m, out);
    Module *read = ir_parse(s, diag_add_source(s, "<printed>", NULL, out->data, out->len));
    if (!read) return false;
    text_init(&again, &s->arena);
    ir_print(read, &again);
    if (!strcmp(out->data, again.data)) return true;
    diag_error(s, (Loc){ 0 }, "internal error: the printed module reads back differently");
    return false;
}

/* --- modules from source text, launch facts ---------------------------------------------------------- */

static Module *lower(Session *s, const Args *a, uint32_t file)
{
    FrontBinding binds[MAX_FACTS];
    Ast *ast = frontend_parse(s, file, NULL, NULL);
    if (!ast || !frontend_check(ast) || s->n_errors) return NULL;
    const FrontKernel *k = a->kernel ? frontend_kernel_find(ast, a->kernel) : frontend_kernel(ast, 0);
    if (!k) {
        diag_error(s, (Loc){ 0 }, "no such kernel");
        return NULL;
    }
    for (int n = 0; n < a->n_binds; n++) {
        const char *eq = strchr(a->binds[n], '='), *why = "expected NAME=value";
        if (eq) binds[n].name = session_intern(s, a->binds[n], (size_t)(eq - a->binds[n]));
        if (!eq || !frontend_parse_value(s, k, binds[n].name, eq + 1, &binds[n].value, &why)) {
            diag_error(s, (Loc){ 0 }, "-D%s: %s", a->binds[n], why);
            return NULL;
        }
    }
    return frontend_lower(
        ast, k->name, binds, (size_t)a->n_binds, a->options.target ? a->options.target->name : NULL);
}

static void add_facts(const Args *a, Func *f)
{
    f->fits32 |= a->fits32;
    for (int n = 0; n < a->n_divs; n++)
        for (int d = 0; d < f->n_dims; d++) {
            const char *colon = strchr(a->divs[n], ':');
            size_t len = colon ? (size_t)(colon - a->divs[n]) : 0;
            if (len && f->dims[d].name && strlen(f->dims[d].name) == len &&
                !memcmp(f->dims[d].name, a->divs[n], len))
                f->dims[d].div = atoi(colon + 1);
        }
    for (int k = 0; k < f->n_params; k++) {
        Param *p = &f->params[k];
        for (int n = 0; n < a->n_positives; n++)
            if (!strcmp(p->name, a->positives[n])) p->lo = 0x1p-126;
        if (!a->contiguous || p->type->kind != TYPE_TENSOR || p->type->rank == 0) continue;
        p->align = 16;
        for (int x = 0; x < p->type->rank; x++)
            p->stride_div[x] = x + 1 < p->type->rank ? 16 / dtype_bytes(p->type->dtype) : 1;
        p->stride[p->type->rank - 1] = 1;
    }
}

static Module *read_module(Session *s, const Args *a, const char *text, size_t len)
{
    size_t n = strlen(a->file);
    uint32_t file = diag_add_source(s, a->file, NULL, text, len);
    Module *m = n > 5 && !strcmp(a->file + n - 5, ".tile") ? lower(s, a, file) : ir_parse(s, file);
    for (Func *f = m ? m->funcs : NULL; f; f = f->next)
        if (f->is_kernel) add_facts(a, f);
    return m;
}

static void print_plan(const Func *f, const KernelPlan *p)
{
    printf(
        "plan of %s: warps %d producer %d cp_async %d ctas %d cluster %d split_k %d multicast %d abreast %d "
        "registers %d\n",
        f->name, p->warps, p->producer_warps, p->cp_async_warps, p->min_ctas, p->cluster, p->split_k,
        p->multicast, p->abreast, p->registers);
    if (p->schedule) printf("%s", p->schedule);
}

static bool run_kernel_passes(Session *s, const Args *a, Module *m, PassReport *report)
{
    KernelOptions o = kernel_options_of(&a->options);
    o.report = report;
    o.warps = a->warps;
    for (Func *f = m->funcs; f && a->kernel_passes; f = f->next) {
        KernelPlan *plan = arena_new(&s->arena, KernelPlan);
        if (!f->is_kernel) continue;
        if (!kernel_run_list(s, f, a->options.target, &o, a->kernel_passes, plan)) return false;
        if (a->plan) print_plan(f, plan);
    }
    return true;
}

static bool process(Session *s, const Args *a, const char *text, size_t len)
{
    PassReport report = { 0 };
    Text out;
    Module *m = read_module(s, a, text, len);
    bool (*verify)(Module *) = a->kernel_passes ? ir_verify_before_layout : ir_verify;
    if (!m || !verify(m) || !passes_run(m, &a->options, &report) || !run_kernel_passes(s, a, m, &report) ||
        !verify(m) || !round_trip(s, m, &out))
        return false;
    if (!a->quiet) fputs(out.data, stdout);
    if (a->options.time_passes) {
        text_init(&out, &s->arena);
        passes_print_times(&report, &out);
        fputs(out.data, stdout);
    }
    if (a->stats) print_stats(&report);
    if (a->census) print_census(m);
    return true;
}

int main(int argc, char **argv)
{
    Args a = { .options = pass_options_default(NULL) };
    volatile size_t len = 0;
    size_t read = 0;
    a.options.verify_each = true;
    a.options.on_dump = print_dump;
    if (!parse_args(argc, argv, &a)) {
        fprintf(stderr, "tile-opt: bad arguments; see the head of tile-opt.c\n");
        return 1;
    }
    char *volatile text = read_all(a.file, &read);
    len = read;
    if (!text) {
        fprintf(stderr, "tile-opt: cannot read %s\n", a.file);
        return 1;
    }
    Session s;
    Text diags;
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        ok = process(&s, &a, text, len);
        text_init(&diags, &s.arena);
        diag_render_all(&s, &diags);
        fputs(diags.data, stderr);
    } else
        fprintf(stderr, "tile-opt: left early: %s\n", s.last_diag ? s.last_diag->message : "out of memory");
    session_free(&s);
    free(text);
    return ok ? 0 : 1;
}
