/* spills: what the vendor's compiler keeps in memory of the configurations that the library chooses. Needs
 * NVRTC and no device.
 *
 *     tile_bench_spills [--device-model=NAME] [--kernels=FOLDER] [--text=FOLDER] [--most=BYTES] TARGET LIST
 *
 * A line of LIST is a problem as sample.c takes it, FILE KERNEL NAME=VALUE ..., and may give a configuration
 * behind a tab, as measure.c takes it; without one, that is meant which the library would choose, or what is
 * declared where there is nothing to choose. Prints registers and spilled bytes of each, the words that
 * products hold and have room for, and the estimate.
 * --text: writes the programs there. --most: fails if one spills more. 77: there is no NVRTC. */
#define _GNU_SOURCE
#include "bench/gpu/open.h"
#include "bench/gpu/source.h"
#include "tests/emit/nvrtc.h"
#include <string.h>

enum { SKIP = 77, MOST_WORDS = 48, MOST_NAMES = 32 };

typedef struct Spills {
    Nvrtc nvrtc;
    const Target *target;
    const DeviceModel *model;
    const char *kernels, *texts, *arch;
    long most;
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

/* Prints what became of one configuration; false: it spills too much, or does not compile. */
static bool compile(Spills *z, Session *s, const Problem *p, ProblemView *v, const FrontBinding *b, int n)
{
    CompileOptions o = compile_options_default(z->target);
    ProblemCount c;
    Compiled compiled;
    Bound bound = BOUND_PROGRAMS;
    problem_count(v, s, b, n, &c);
    if (!c.ok ||
        !compile_kernel(s, v->ast, p->kernel, v->fixed, (size_t)(v->n_fixed + n), &v->facts, &o, &compiled))
        return false;
    write_text(z, &compiled.artifact);
    char *text = arena_strndup(&s->arena, compiled.artifact.data, compiled.artifact.size), *log = NULL;
    bool ok = nvrtc_compile(&z->nvrtc, text, z->arch, &log);
    long spilled = ok ? number_before(log, "bytes spill stores") : -1;
    printf("%ld registers, %ld spilled, %d threads, %d held of %d, %.1f us", number_after(log, "Used "),
        spilled, c.cost.threads, c.cost.held, c.cost.room, cost_estimate(&c.cost, &p->device, &bound) * 1e-3);
    if (!ok) printf("\n%.400s", log ? log : "");
    free(log);
    return ok && spilled <= z->most;
}

static bool of_problem(Spills *z, Session *s, const Problem *p, const char *config)
{
    ProblemView v;
    SearchResult r = { 0 };
    FrontBinding given[MOST_NAMES];
    if (setjmp(s->oom) || !problem_view(p, s, &v)) return false;
    if (config) {
        r.n = problem_read_config(&v, s, config, given, MOST_NAMES);
        r.config = given;
    } else problem_choose(&v, s, &r); /* false: there is nothing to choose, and it is compiled as declared */
    printf("\t%s\t", search_text(s, &r));
    return compile(z, s, p, &v, r.config, r.n);
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
    fprintf(stderr,
        "spills [--device-model=NAME] [--kernels=FOLDER] [--text=FOLDER] [--most=BYTES] TARGET LIST\n");
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
