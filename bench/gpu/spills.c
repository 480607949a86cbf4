/* spills: what the vendor's compiler keeps in memory of the configurations that the library chooses. Needs
 * NVRTC and no device.
 *
 *     tile_bench_spills [--device-model=NAME] [--kernels=FOLDER] [--text=FOLDER] [--most=BYTES] [--again]
 * TARGET LIST
 *
 * A line of LIST is a problem as sample.c takes it, FILE KERNEL NAME=VALUE ..., and may give a configuration
 * behind a tab, as measure.c takes it; without one, that is meant which the library would choose, or what is
 * declared where there is nothing to choose. Prints registers and spilled bytes of each, the words that
 * products hold, that all tiles take together and that there is room for, the estimate, the processor time of
 * the vendor's compiler and the size of its image.
 * --text: writes the programs there. --most: fails if one spills more. --again: compiles again what spills,
 * for fewer CTAs and with other configurations, as a launch does. 77: there is no NVRTC. */
#define _GNU_SOURCE
#include "bench/gpu/open.h"
#include "bench/gpu/source.h"
#include "runtime/launch/making.h"
#include "tests/emit/nvrtc.h"
#include <string.h>
#include <time.h>

enum { SKIP = 77, MOST_WORDS = 48, MOST_NAMES = 32 };

typedef struct Spills {
    Nvrtc nvrtc;
    const Target *target;
    const DeviceModel *model;
    const char *kernels, *texts, *arch;
    long most;
    bool again;
    int line, failed;
} Spills;

static long number_before(const char *log, const char *what)
{
    const char *at = log ? strstr(log, what) : NULL;
    if (!at) return -1;
    while (at > log && at[-1] == ' ') at--;
    while (at > log && at[-1] >= '0' && at[-1] <= '9') at--;
    return atol(at);
}

static long number_after(const char *log, const char *what)
{
    const char *at = log ? strstr(log, what) : NULL;
    return at ? atol(at + strlen(what)) : -1;
}

static void write_text(const Spills *z, const Artifact *a)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.cu", z->texts, z->line);
    FILE *f = z->texts ? fopen(path, "w") : NULL;
    if (!f) return;
    fwrite(a->data, 1, a->size, f);
    fclose(f);
}

/* What the vendor's compiler made of one configuration. */
typedef struct Made {
    Cost cost;
    double ns;        /* the estimate */
    double vendor_ms; /* processor time of NVRTC and ptxas */
    long registers, spilled;
    size_t image; /* bytes of the cubin */
    int ctas;     /* that its launch bounds ask for */
} Made;

static double processor_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Compiles with bounds for at most so many CTAs; 0: as many as derived. */
static bool compile_within(Spills *z, Session *s, const Problem *p, const ProblemView *v, int ctas, Made *m)
{
    CompileOptions o = compile_options_default(z->target);
    Compiled compiled;
    o.passes.most_ctas = ctas;
    CompileJob job = { s, v->ast, p->kernel, v->fixed, (size_t)v->n_fixed, &v->facts, &o };
    if (!compile_kernel(&job, &compiled)) return false;
    write_text(z, &compiled.artifact);
    char *text = arena_strndup(&s->arena, compiled.artifact.data, compiled.artifact.size), *log = NULL;
    double start = processor_ms();
    bool ok = nvrtc_compile_image(&z->nvrtc, text, z->arch, &log, &m->image);
    m->vendor_ms = processor_ms() - start;
    m->spilled = ok ? number_before(log, "bytes spill stores") : -1;
    m->registers = number_after(log, "Used ");
    m->ctas = compiled.artifact.ctas;
    if (!ok) printf("\n%.400s", log ? log : "");
    free(log);
    return ok;
}

/* Compiles one configuration, and again for fewer CTAs as a launch does (compile_again.c). */
static bool make(
    Spills *z, Session *s, const Problem *p, ProblemView *v, const FrontBinding *b, int n, Made *m)
{
    ProblemCount c;
    Bound bound = BOUND_PROGRAMS;
    problem_count(v, s, b, n, &c);
    if (!c.ok) return false;
    ProblemView with = *v;
    with.n_fixed += n;
    *m = (Made){ .cost = c.cost, .ns = cost_estimate(&c.cost, &p->device, &bound) };
    if (!compile_within(z, s, p, &with, 0, m)) return false;
    for (int ctas;
        z->again && (ctas = compile_next_ctas(z->target, m->cost.threads, (int)m->spilled, m->ctas)) > 0;) {
        Made fewer = *m;
        if (!compile_within(z, s, p, &with, ctas, &fewer)) return false;
        if (fewer.spilled >= m->spilled) break;
        *m = fewer;
    }
    return true;
}

/* Among the chosen configuration and those that a launch compiles where it spills, the one that it takes. */
static bool make_best(Spills *z, Session *s, const Problem *p, ProblemView *v, const SearchResult *r, Made *m,
    const char **name)
{
    if (!make(z, s, p, v, r->config, r->n, m)) return false;
    double least = compile_with_spills(r->ns, r->spilled, (int)m->spilled);
    *name = "";
    for (int k = 0; z->again && m->spilled > COMPILE_FEW_BYTES && k < r->n_others; k++) {
        const SearchOther *o = &r->other[k];
        Made other;
        if (o->ns >= least || !make(z, s, p, v, o->config, o->n, &other)) continue;
        double ns = compile_with_spills(o->ns, o->spilled, (int)other.spilled);
        if (ns >= least) continue;
        least = ns;
        *m = other;
        *name = search_text(s, &(SearchResult){ .config = o->config, .n = o->n });
    }
    return true;
}

static bool of_problem(Spills *z, Session *s, const Problem *p, const char *config)
{
    ProblemView v;
    SearchResult r = { 0 };
    FrontBinding given[MOST_NAMES];
    const char *other;
    Made m;
    if (setjmp(s->oom) || !problem_view(p, s, &v)) return false;
    if (config) {
        r.n = problem_read_config(&v, s, config, given, MOST_NAMES);
        r.config = given;
    } else problem_choose(&v, s, &r); /* false: there is nothing to choose, and it is compiled as declared */
    printf("\t%s\t", search_text(s, &r));
    if (!make_best(z, s, p, &v, &r, &m, &other)) return false;
    printf("%ld registers, %ld spilled, %d threads, %d CTAs, %d held, %d live of %d, %.1f us, "
           "%.0f ms, %zu KiB%s%s",
        m.registers, m.spilled, m.cost.threads, m.ctas, m.cost.held, m.cost.live, m.cost.room, m.ns * 1e-3,
        m.vendor_ms, m.image / 1024, *other ? ", taken: " : "", other);
    return m.spilled <= z->most;
}

static void one(Spills *z, char *line)
{
    char *words[MOST_WORDS], *config = strchr(line, '\t'), *rest, path[4096];
    int n = 0;
    if (config) *config++ = 0;
    printf("%s", line);
    for (char *w = strtok_r(line, " ", &rest); w && n < MOST_WORDS; w = strtok_r(NULL, " ", &rest))
        words[n++] = w;
    Problem p;
    Session s;
    if (n < 2) return;
    snprintf(path, sizeof path, "%s/%s.tile", z->kernels, words[0]);
    bool ok = problem_open(&p, path, words[1], z->target->name, n - 2, words + 2);
    if (ok && z->model) p.device = device_of_model(z->model, z->target);
    session_init(&s, allocator_libc);
    ok = ok && of_problem(z, &s, &p, config);
    printf("%s\n", ok ? "" : " FAIL");
    fflush(stdout);
    z->failed += !ok;
    session_free(&s);
    problem_close(&p);
}

static int usage(void)
{
    fprintf(stderr, "spills [--device-model=NAME] [--kernels=FOLDER] [--text=FOLDER] [--most=BYTES] "
                    "[--again] TARGET LIST\n");
    return 2;
}

int main(int argc, char **argv)
{
    Spills z = { .kernels = "examples/kernels", .most = 1 << 30 };
    const char *model = NULL;
    char *rest;
    size_t n;
    int at = 1;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strncmp(argv[at], "--device-model=", 15)) model = argv[at] + 15;
        else if (!strncmp(argv[at], "--kernels=", 10)) z.kernels = argv[at] + 10;
        else if (!strncmp(argv[at], "--text=", 7)) z.texts = argv[at] + 7;
        else if (!strncmp(argv[at], "--most=", 7)) z.most = atol(argv[at] + 7);
        else if (!strcmp(argv[at], "--again")) z.again = true;
        else return usage();
    }
    z.target = argc - at == 2 ? target_find(argv[at]) : NULL;
    z.model = model ? device_model_find(model) : NULL;
    char *list = z.target ? read_all(argv[at + 1], &n) : NULL;
    if (!list || (model && !z.model) || strncmp(z.target->name, "cuda:", 5)) return usage();
    z.arch = z.target->name + 5;
    if (!nvrtc_open(&z.nvrtc)) return SKIP;
    for (char *l = strtok_r(list, "\n", &rest); l; l = strtok_r(NULL, "\n", &rest)) {
        z.line++;
        if (*l != '#') one(&z, l);
    }
    free(list);
    return z.failed > 0;
}
