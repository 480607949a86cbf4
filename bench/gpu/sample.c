/* sample: which configurations of a kernel are worth measuring for a device model: prints them as the list
 * that measure.c takes.
 *
 *     tile_bench_sample [--draws=N] [--best=N] [--others=N] [--model=NAME] [--kernels=FOLDER] TARGET PROBLEMS
 *         > LIST
 *
 * PROBLEMS holds a problem a line: FILE KERNEL NAME=VALUE ... (problem.h). Of each kernel's tune block it
 * draws configurations at random, and prints those that are estimated fastest (`best`), some of the others,
 * what the library would choose, and configurations that differ from that choice in one name. Of the fast
 * ones there are more than chance gives, because a model must rank these; the others keep it from being right
 * about fast ones alone. */
#define _GNU_SOURCE
#include "bench/gpu/open.h"
#include "bench/gpu/source.h"
#include <string.h>

enum { MOST_WORDS = 48, MOST_DRAWS = 2000, MOST_TRIES = 20000, MOST_NAMES = 32 };

/* A configuration that compiles and fits the device. */
typedef struct Drawn {
    char *text;
    Cost cost;
    double ns;
} Drawn;

typedef struct Sample {
    int draws, best, others;
    const char *model; /* of runtime/choice/models; NULL: the target's */
    uint64_t random;
    Drawn drawn[MOST_DRAWS];
    int n;
} Sample;

static uint64_t next(Sample *x)
{
    x->random ^= x->random << 13;
    x->random ^= x->random >> 7;
    x->random ^= x->random << 17;
    return x->random;
}

static void count(const Problem *p, const char *config, ProblemCount *out)
{
    Session s;
    ProblemView v;
    *out = (ProblemCount){ 0 };
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom) && problem_view(p, &s, &v)) {
        FrontBinding b[MOST_NAMES];
        problem_count(&v, &s, b, problem_read_config(&v, &s, config, b, MOST_NAMES), out);
    }
    session_free(&s);
}

/* Configurations of which the same is counted count as the same: an estimate cannot rank them. */
static void add(Sample *x, const Problem *p, const char *text)
{
    ProblemCount c;
    Bound bound;
    if (x->n == MOST_DRAWS) return;
    count(p, text, &c);
    if (!c.ok || c.cost.shared_bytes > p->device.shared_bytes || c.cost.programs <= 0) return;
    double ns = cost_estimate(&c.cost, &p->device, &bound);
    for (int i = 0; i < x->n; i++)
        if (!memcmp(&x->drawn[i].cost, &c.cost, sizeof c.cost) || !strcmp(x->drawn[i].text, text)) return;
    x->drawn[x->n++] = (Drawn){ strdup(text), c.cost, ns };
}

/* A configuration that `require` allows; false: none was found in some tries. */
static bool draw(Sample *x, const ProblemView *v, FrontBinding *out)
{
    int64_t all = frontend_tune_count(v->tune);
    for (int t = 0; t < MOST_TRIES; t++)
        if (problem_config(v, (int64_t)(next(x) % (uint64_t)all), out)) return true;
    return false;
}

/* The choice, and what differs from it in one name. Names that the choice leaves as declared are left out of
 * its text. */
static void add_choice(Sample *x, const Problem *p, const ProblemView *v, Session *s)
{
    SearchResult r;
    FrontBinding config[MOST_NAMES];
    if (!problem_choose(v, s, &r) || r.n >= MOST_NAMES) return;
    add(x, p, problem_config_text(s, r.config, r.n));
    for (int d = 0; d < v->tune->n; d++)
        for (int k = 0; k < v->tune->domains[d].n; k++) {
            int n = 0;
            for (int i = 0; i < r.n; i++)
                if (strcmp(r.config[i].name, v->tune->domains[d].name)) config[n++] = r.config[i];
            config[n++] = (FrontBinding){ v->tune->domains[d].name, v->tune->domains[d].values[k] };
            FrontBinding whole[MOST_NAMES];
            if (v->tune->n < MOST_NAMES && frontend_tune_config_with(v->ast, v->tune, 0, config, n, whole))
                add(x, p, problem_config_text(s, config, n));
        }
}

static int by_estimate(const void *a, const void *b)
{
    double x = ((const Drawn *)a)->ns, y = ((const Drawn *)b)->ns;
    return (x > y) - (x < y);
}

static void print(Sample *x, const char *words)
{
    int fit = x->n, from;
    qsort(x->drawn, (size_t)x->n, sizeof *x->drawn, by_estimate);
    from = x->best < fit ? x->best : fit;
    for (int i = 0; i < from; i++) printf("%s\t%s\n", words, x->drawn[i].text);
    for (int i = 0; i < x->others && from < fit; i++) {
        int k = from + (int)(next(x) % (uint64_t)(fit - from));
        Drawn d = x->drawn[k];
        printf("%s\t%s\n", words, d.text);
        x->drawn[k] = x->drawn[--fit];
        x->drawn[fit] = d;
    }
    fflush(stdout);
    for (int i = 0; i < x->n; i++) free(x->drawn[i].text);
    x->n = 0;
}

static bool sample(Sample *x, const char *folder, const char *target, char *line)
{
    char path[1000], *words[MOST_WORDS], *text = strdup(line);
    int n = 0;
    Problem p;
    Session s;
    ProblemView v;
    for (char *rest = line, *w; n < MOST_WORDS && (w = strtok_r(rest, " ", &rest));) words[n++] = w;
    if (n < 2) return false;
    snprintf(path, sizeof path, "%s/%s.tile", folder, words[0]);
    if (!problem_open(&p, path, words[1], target, n - 2, words + 2)) return false;
    if (x->model) p.device = device_of_model(device_model_find(x->model), target_find(target));
    session_init(&s, allocator_libc);
    bool good = !setjmp(s.oom) && problem_view(&p, &s, &v) && v.tune && v.tune->n < MOST_NAMES;
    if (good) {
        FrontBinding config[MOST_NAMES];
        add_choice(x, &p, &v, &s);
        for (int i = 0; i < x->draws && draw(x, &v, config); i++)
            add(x, &p, problem_config_text(&s, config, v.tune->n));
        print(x, text);
    }
    session_free(&s);
    problem_close(&p);
    free(text);
    return good;
}

int main(int argc, char **argv)
{
    static Sample x = { .draws = 150, .best = 24, .others = 12, .random = 88172645463325252u };
    const char *folder = "examples/kernels";
    int at = 1;
    size_t size;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strncmp(argv[at], "--draws=", 8)) x.draws = atoi(argv[at] + 8);
        else if (!strncmp(argv[at], "--best=", 7)) x.best = atoi(argv[at] + 7);
        else if (!strncmp(argv[at], "--others=", 9)) x.others = atoi(argv[at] + 9);
        else if (!strncmp(argv[at], "--model=", 8)) x.model = argv[at] + 8;
        else if (!strncmp(argv[at], "--kernels=", 10)) folder = argv[at] + 10;
        else break;
    }
    char *text = at + 2 == argc ? read_all(argv[at + 1], &size) : NULL;
    if (!text || (x.model && !device_model_find(x.model))) {
        fprintf(stderr, "tile_bench_sample [--draws=N] [--best=N] [--others=N] [--model=NAME] "
                        "[--kernels=FOLDER] TARGET PROBLEMS\n");
        return 2;
    }
    for (char *rest = text, *line; (line = strtok_r(rest, "\n", &rest));)
        if (*line != '#' && !sample(&x, folder, argv[at], line)) {
            fprintf(stderr, "cannot sample %s\n", line);
            return 1;
        }
    free(text);
    return 0;
}
