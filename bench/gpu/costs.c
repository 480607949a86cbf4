/* costs: what the choice without a table sees of every configuration of a kernel's `tune` block at one shape,
 * as JSON: what estimates are fitted on.
 *
 *     costs [--device-model=NAME] FILE KERNEL TARGET [NAME=VALUE ...]    the whole block; problem.h says what
 *         the words are
 *     costs --configs=LIST FILE KERNEL TARGET [NAME=VALUE ...]    the configurations of LIST instead, one a
 *         line, NAME=VALUE ...
 *     costs --choose [--thorough] [--second-cache=BYTES] FILE KERNEL TARGET [NAME=VALUE ...]    what the
 *         library would choose, of how many it looked at, and how long that took; if it compiled all that it
 *         considers; for a CPU with such a second cache */
#define _GNU_SOURCE
#include "bench/gpu/open.h"
#include "bench/gpu/source.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

static int choose(const Problem *p)
{
    Session s;
    ProblemView v;
    SearchResult r;
    session_init(&s, allocator_libc);
    if (setjmp(s.oom) || !problem_view(p, &s, &v)) return 1;
    double begin = clock_ms();
    clock_t used = clock();
    if (!problem_choose(&v, &s, &r)) return 1;
    printf("%s: %.1f us by %s (declared %.1f), of %d, in %.1f ms, %.1f of processors\n", search_text(&s, &r),
        r.ns * 1e-3, bound_name(r.bound), r.declared_ns * 1e-3, r.tried, clock_ms() - begin,
        (double)(clock() - used) * 1e3 / CLOCKS_PER_SEC);
    session_free(&s);
    return 0;
}

static void print_count(const Problem *p, const char *config, const ProblemCount *c)
{
    const Cost *cost = &c->cost;
    printf("{\"config\": \"%s\", \"ok\": %s, \"lower_ms\": %.2f, \"count_ms\": %.2f", config,
        c->ok ? "true" : "false", c->lower_ms, c->count_ms);
#define D(x) printf(", \"" #x "\": %.6g", (double)cost->x)
    D(wgmma), D(mma), D(feed), D(shared), D(alu), D(special), D(in), D(own), D(fetched), D(out), D(stored),
        D(wasted), D(outside), D(cp_async), D(cp_classes), D(cp_apart), D(cp_steps), D(copies), D(given),
        D(nearby), D(added), D(queued);
    D(torn), D(split), D(ends), D(cut), D(joins), D(loading), D(panels), D(scalar), D(steps), D(puts),
        D(again), D(iterations), D(stalls), D(waits), D(trips), D(trips_ahead), D(meets);
    D(heaviest), D(unique), D(memory), D(ring), D(stages), D(ahead), D(programs), D(groups), D(consumers);
    D(threads), D(registers), D(words), D(live), D(gathered), D(round), D(held), D(room), D(persistent),
        D(bulk), D(cluster), D(clusters), D(left);
    D(shared_bytes), D(before);
#undef D
    Bound bound = BOUND_PROGRAMS;
    if (c->ok && p->device.model) printf(", \"estimate\": %.6g", cost_estimate(cost, &p->device, &bound));
    if (c->ok && p->device.model) printf(", \"careful\": %.6g", cost_estimate_carefully(cost, &p->device));
    printf(", \"limit\": \"%s\"}", bound_name(bound));
}

/* Line `number` of the list; NULL: there is none. */
static const char *line_of(const char *list, int64_t number)
{
    for (; number && list; number--)
        if ((list = strchr(list, '\n'))) list++;
    return list && *list ? list : NULL;
}

static bool count_in(Session *s, const Problem *p, const char *list, int64_t number, bool *first)
{
    ProblemView v;
    ProblemCount c;
    FrontBinding config[64];
    if (setjmp(s->oom) || !problem_view(p, s, &v) || (!list && !v.tune)) return false;
    int n = list ? 64 : v.tune->n;
    const char *line = list ? line_of(list, number) : NULL;
    if (list ? !line : number >= frontend_tune_count(v.tune)) return false;
    if (line) {
        const char *end = strchr(line, '\n');
        char *text = arena_strndup(&s->arena, line, end ? (size_t)(end - line) : strlen(line));
        n = problem_read_config(&v, s, text, config, 64);
    }
    if (line || problem_config(&v, number, config)) {
        problem_count(&v, s, config, n, &c);
        if (!*first) printf(",\n");
        *first = false;
        print_count(p, problem_config_text(s, config, n), &c);
    }
    return true;
}

/* Prints configuration `number`. False: there are no more. */
static bool count_one(const Problem *p, const char *list, int64_t number, bool *first)
{
    Session s;
    session_init(&s, allocator_libc);
    bool more = count_in(&s, p, list, number, first);
    session_free(&s);
    return more;
}

static int usage(void)
{
    fprintf(stderr,
        "costs [--choose [--thorough] | --configs=LIST] [--device-model=NAME] [--second-cache=BYTES] FILE "
        "KERNEL TARGET [NAME=VALUE ...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *configs = NULL, *model = NULL;
    long l2 = 0;
    bool chooses = false, thorough = false, first = true;
    size_t n;
    int at = 1, status = 0;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strcmp(argv[at], "--choose")) chooses = true;
        else if (!strcmp(argv[at], "--thorough")) thorough = true;
        else if (!strncmp(argv[at], "--configs=", 10)) configs = argv[at] + 10;
        else if (!strncmp(argv[at], "--device-model=", 15)) model = argv[at] + 15;
        else if (!strncmp(argv[at], "--second-cache=", 15)) l2 = atol(argv[at] + 15);
        else return usage();
    }
    Problem p;
    if (argc - at < 3) return usage();
    if (!problem_open(&p, argv[at], argv[at + 1], argv[at + 2], argc - at - 3, argv + at + 3)) {
        fprintf(stderr, "cannot read %s, or there is no target %s\n", argv[at], argv[at + 2]);
        return 2;
    }
    if (model && !(p.device.model = device_model_find(model))) {
        fprintf(stderr, "there is no device model %s\n", model);
        return 2;
    }
    if (model && device_model_serves(p.device.model, p.device.target))
        p.device = device_of_model(p.device.model, p.device.target);
    /* Of this machine, as launches have it, unless another is asked about. */
    if (!l2 && !getenv("TILE_CPU_LEVEL")) l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (p.device.target->kind == TARGET_CPU && l2 > 0) p.device.l2_bytes = l2;
    char *list = configs ? read_all(configs, &n) : NULL;
    if (configs && !list) {
        fprintf(stderr, "cannot read %s\n", configs);
        return 2;
    }
    p.thorough = thorough;
    if (chooses) status = choose(&p);
    else {
        printf("[");
        for (int64_t c = 0; count_one(&p, list, c, &first); c++) {}
        printf("]\n");
    }
    free(list);
    problem_close(&p);
    return status;
}
