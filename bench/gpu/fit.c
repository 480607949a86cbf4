/* fit: how well a device model ranks and predicts measured configurations, and a model that does so better.
 *
 *     tile_bench_fit [--model=NAME] [--fields=A,B,..] [--folds=N] [--rounds=N] [--keep=X] [--kernels=FOLDER]
 *                    [--problems] [--no-fit] TARGET TSV
 *
 * TSV is what measure.c prints: problem, configuration, microseconds of each pass. Without a device: each
 * configuration is compiled as far as its emission and counted (problem.h), then estimates are compared with
 * the times.
 *
 * Two figures are reported for each kernel and for all. The error is |ln(estimate / measured)|, its median
 * and its 95th percentile. The regret of a problem is the time of the chosen configuration over the best
 * time, both measured; 1 means that the model picks the best one. Chosen is what the choice would take of the
 * lines of the problem: the one with the least estimate, with the doubts of the choice, of those that fit.
 * Its inverse, chosen / best, is said by its median, tenth percentile and minimum, and by the share of
 * problems that are within 3% and 10% of the best. The least of many times is low by chance. So where there
 * are times of two passes, the best configuration is that of the least first time, and it and the chosen one
 * are compared by the second, which nothing was selected by. A comment between the lines of a problem makes
 * two of it: what was timed in different runs is not compared.
 *
 * A fit changes fields of the model (--fields; all of device_model.def by default) in steps by coordinate
 * descent, each round with smaller steps, until its loss stops falling. The loss of a problem is the mean
 * squared error, in which fast configurations weigh most, plus the regret of a soft choice, which differs
 * little among configurations of nearly the same estimate; and --keep times the squared logarithm of what
 * each field was changed by, so that a field of which the file says nothing stays as it is. Fields that
 * counts depend on (fma_*_cost, mma_f64_*) do not change.
 *
 * Held-out figures come from N folds (default 5): problem k is judged by a model that was fitted without the
 * problems of its fold. The fitted fields are printed as lines of a model file. */
#define _GNU_SOURCE
#include "bench/gpu/open.h"
#include "bench/gpu/source.h"
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LINES = 1 << 14, MOST_PROBLEMS = 1024, MOST_WORDS = 48, MOST_CONFIG = 64, MOST_FIELDS = 200 };

typedef struct Line {
    int problem;
    char *config;
    double us, again;        /* of the first half of the passes, and of the others; of one pass the same */
    double estimate, judged; /* judged: with the doubts of the choice */
    bool counted, fits;
    Cost cost;
} Line;

/* Lines from .. to - 1 of the file. */
typedef struct Measured {
    char *text, *words[MOST_WORDS];
    int n_words, from, to;
    Problem p;
} Measured;

typedef struct Field {
    const char *name;
    size_t offset;
    bool fitted;
} Field;

static const Field fields[] = {
#define FIELD(name, fitted, unit, meaning) { #name, offsetof(DeviceModel, name), false },
#include "runtime/choice/estimate/device_model.def"
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static Line line[MOST_LINES];
static int n_lines, next_line;
static Measured measured[MOST_PROBLEMS];
static int n_problems;
static bool ended; /* a comment lies between the last line and the next one */
static bool fitted[N_FIELDS];
static double keep = 0.01;
static int rounds = 6;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double *value_of(DeviceModel *m, int field) { return (double *)((char *)m + fields[field].offset); }

/* --- reading and counting ---------------------------------------------------------------------------- */

static bool open_problem(const char *folder, const char *target, const char *text)
{
    Measured *m = &measured[n_problems];
    char path[1000];
    if (n_problems == MOST_PROBLEMS) return false;
    char *rest = strdup(text);
    m->text = strdup(text);
    for (char *w; m->n_words < MOST_WORDS && (w = strtok_r(rest, " ", &rest));) m->words[m->n_words++] = w;
    if (m->n_words < 2) return false;
    m->from = m->to = n_lines;
    snprintf(path, sizeof path, "%s/%s.tile", folder, m->words[0]);
    n_problems++;
    return problem_open(&m->p, strdup(path), m->words[1], target, m->n_words - 2, m->words + 2);
}

static void read_times(char *text, Line *l)
{
    enum { MOST_PASSES = 8 };
    double t[MOST_PASSES];
    int n = 0, half;
    for (char *at = text, *end = NULL; n < MOST_PASSES && (!n || *end == '\t'); at = end)
        t[n++] = strtod(at, &end);
    half = (n + 1) / 2;
    for (int i = 0; i < half; i++) l->us += t[i] / half;
    for (int i = half; i < n; i++) l->again += t[i] / (n - half);
    if (n == 1) l->again = l->us;
}

static bool read_lines(const char *folder, const char *target, char *text)
{
    for (char *rest = text, *t; n_lines < MOST_LINES && (t = strtok_r(rest, "\n", &rest));) {
        char *config = strchr(t, '\t'), *us = config ? strchr(config + 1, '\t') : NULL;
        ended |= *t == '#';
        if (*t == '#') continue;
        if (!us) return false;
        *config++ = *us++ = 0;
        bool same = n_problems && !ended && !strcmp(measured[n_problems - 1].text, t);
        ended = false;
        if (!same && !open_problem(folder, target, t)) return false;
        line[n_lines] = (Line){ .problem = n_problems - 1, .config = config };
        read_times(us, &line[n_lines++]);
        measured[n_problems - 1].to = n_lines;
    }
    return n_lines > 0;
}

static void count_line(Line *l)
{
    Session s;
    ProblemView v;
    ProblemCount c = { 0 };
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom) && problem_view(&measured[l->problem].p, &s, &v)) {
        FrontBinding b[MOST_CONFIG];
        problem_count(&v, &s, b, problem_read_config(&v, &s, l->config, b, MOST_CONFIG), &c);
    }
    l->counted = c.ok;
    l->fits = c.fits;
    l->cost = c.cost;
    session_free(&s);
}

static void *count(void *unused)
{
    for (;;) {
        pthread_mutex_lock(&lock);
        int i = next_line < n_lines ? next_line++ : -1;
        pthread_mutex_unlock(&lock);
        if (i < 0) return NULL;
        count_line(&line[i]);
    }
}

/* What does not compile any more is left out. */
static int count_all(void)
{
    pthread_t thread[64];
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0, counted = 0;
    while (started < n && started < 64 && !pthread_create(&thread[started], NULL, count, NULL)) started++;
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < n_lines; i++) counted += line[i].counted;
    return counted;
}

/* --- how well ---------------------------------------------------------------------------------------- */

static void estimate(const Measured *p, const DeviceModel *m)
{
    CostDevice d = p->p.device;
    Bound bound;
    d.model = m;
    for (int i = p->from; i < p->to; i++)
        if (line[i].counted) {
            line[i].estimate = cost_estimate(&line[i].cost, &d, &bound) * 1e-3;
            line[i].judged = line[i].estimate * search_doubt(&line[i].cost, m, false);
        }
}

/* The line that was fastest in the first half of the passes; -1: none counts. */
static int fastest_of(const Measured *p)
{
    int best = -1;
    for (int i = p->from; i < p->to; i++)
        if (line[i].counted && (best < 0 || line[i].us < line[best].us)) best = i;
    return best;
}

static double best_of(const Measured *p)
{
    int best = fastest_of(p);
    return best < 0 ? INFINITY : line[best].us;
}

static double error_of(const Line *l) { return log(l->estimate / l->us); }

/* The line that the choice would take; -1: none counts. */
static int chosen_of(const Measured *p)
{
    int chosen = -1;
    for (int i = p->from; i < p->to; i++) {
        if (!line[i].counted || (chosen >= 0 && line[chosen].fits && !line[i].fits)) continue;
        bool better = chosen < 0 || line[i].fits > line[chosen].fits;
        if (better || line[i].judged < line[chosen].judged) chosen = i;
    }
    return chosen;
}

/* Time of the chosen configuration over the best one. */
static double regret(const Measured *p)
{
    int chosen = chosen_of(p);
    return chosen < 0 ? 1 : line[chosen].again / line[fastest_of(p)].again;
}

/* The temperature of the soft choice: estimates that differ by less are told apart little. */
static const double TEMPERATURE = 0.02;

static double problem_loss(const Measured *p)
{
    double best = best_of(p), least = INFINITY, sum = 0, error = 0, parts = 0, soft = 0;
    for (int i = p->from; i < p->to; i++)
        if (line[i].counted && line[i].fits) least = fmin(least, line[i].judged);
    for (int i = p->from; i < p->to; i++) {
        const Line *l = &line[i];
        if (!l->counted) continue;
        double weight = best / l->us, part = l->fits ? exp((1 - l->judged / least) / TEMPERATURE) : 0;
        sum += weight;
        error += weight * error_of(l) * error_of(l);
        parts += part;
        soft += part * (l->us / best - 1);
    }
    return sum > 0 ? error / sum + (parts > 0 ? soft / parts : 0) : 0;
}

/* Problems of fold `but` are left out; -1: none is. */
static double loss(DeviceModel *m, DeviceModel *start, int but, int folds)
{
    double all = 0, changed = 0;
    int n = 0;
    for (int k = 0; k < n_problems; k++) {
        if (k % folds == but || isinf(best_of(&measured[k]))) continue;
        estimate(&measured[k], m);
        all += problem_loss(&measured[k]);
        n++;
    }
    for (int f = 0; f < N_FIELDS; f++) {
        double x = *value_of(m, f), y = *value_of(start, f);
        if (fitted[f] && x > 0 && y > 0) changed += log(x / y) * log(x / y);
    }
    return n ? all / n + keep * changed / n : 0;
}

/* --- fitting ----------------------------------------------------------------------------------------- */

static void fit(DeviceModel *m, int but, int folds)
{
    DeviceModel start = *m;
    double now = loss(m, &start, but, folds), step = 0.2;
    for (int round = 0; round < rounds; round++) {
        double before = now;
        for (int f = 0; f < N_FIELDS; f++) {
            double *x = value_of(m, f);
            for (int side = 0; side < 2 && fitted[f]; side++) {
                double was = *x;
                *x = side ? was / (1 + step) : was * (1 + step);
                double next = loss(m, &start, but, folds);
                if (next < now) {
                    now = next;
                    break;
                }
                *x = was;
            }
        }
        if (before - now < 1e-3 * before) step /= 2;
    }
}

/* --- reports ----------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{ return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

/* Figures of the problems of one kernel; kernel NULL: of all. */
typedef struct Figures {
    double error[MOST_LINES], regret[MOST_PROBLEMS];
    int n_errors, n_regrets;
} Figures;

static void add_figures(Figures *x, const Measured *p)
{
    for (int i = p->from; i < p->to; i++)
        if (line[i].counted) x->error[x->n_errors++] = fabs(error_of(&line[i]));
    if (!isinf(best_of(p))) x->regret[x->n_regrets++] = regret(p);
}

static void print_figures(Figures *x, const char *what, const char *kernel)
{
    double sum = 0;
    if (!x->n_errors) return;
    qsort(x->error, (size_t)x->n_errors, sizeof *x->error, by_value);
    qsort(x->regret, (size_t)x->n_regrets, sizeof *x->regret, by_value);
    int near = 0, within = 0;
    for (int i = 0; i < x->n_regrets; i++) {
        sum += x->regret[i];
        near += x->regret[i] <= 1.03;
        within += x->regret[i] <= 1.1;
    }
    printf("%-24s %-18s %3d problems, %4d configurations: error median %5.1f%%, p95 %5.1f%%; "
           "regret mean %.3f, p95 %.3f, worst %.3f; "
           "chosen / best median %.2f, tenth %.2f, minimum %.2f, within 3%% %d%%, 10%% %d%%\n",
        what, kernel ? kernel : "all", x->n_regrets, x->n_errors, 100 * (exp(x->error[x->n_errors / 2]) - 1),
        100 * (exp(x->error[x->n_errors * 95 / 100]) - 1), sum / x->n_regrets,
        x->regret[(x->n_regrets - 1) * 95 / 100], x->regret[x->n_regrets - 1],
        1 / x->regret[x->n_regrets / 2], 1 / x->regret[(9 * x->n_regrets - 1) / 10],
        1 / x->regret[x->n_regrets - 1], 100 * near / x->n_regrets, 100 * within / x->n_regrets);
    *x = (Figures){ 0 };
}

/* Of the estimates as they stand in the lines, kernel by kernel. */
static void report(const char *what)
{
    static Figures x;
    for (int k = 0; k < n_problems; k++) {
        bool first = true;
        for (int i = 0; i < k; i++) first &= strcmp(measured[i].words[1], measured[k].words[1]) != 0;
        for (int i = k; i < n_problems && first; i++)
            if (!strcmp(measured[i].words[1], measured[k].words[1])) add_figures(&x, &measured[i]);
        if (first) print_figures(&x, what, measured[k].words[1]);
    }
    for (int k = 0; k < n_problems; k++) add_figures(&x, &measured[k]);
    print_figures(&x, what, NULL);
}

static void print_problems(void)
{
    for (int k = 0; k < n_problems; k++) {
        const Measured *p = &measured[k];
        int chosen = chosen_of(p), best = fastest_of(p);
        if (best < 0) continue;
        printf(
            "%s: regret %.3f\n  chosen %s: %.1f us, estimated %.1f\n  best   %s: %.1f us, estimated %.1f\n",
            p->text, line[chosen].again / line[best].again, line[chosen].config, line[chosen].again,
            line[chosen].estimate, line[best].config, line[best].again, line[best].estimate);
    }
}

static void estimate_all(const DeviceModel *m)
{
    for (int k = 0; k < n_problems; k++) estimate(&measured[k], m);
}

/* Each fold's problems are estimated by a model that was fitted on the other folds. */
static void estimate_held_out(const DeviceModel *start, int folds)
{
    DeviceModel m[64];
    for (int fold = 0; fold < folds; fold++) {
        m[fold] = *start;
        fit(&m[fold], fold, folds);
    }
    for (int k = 0; k < n_problems; k++) estimate(&measured[k], &m[k % folds]);
}

static bool choose_fields(const char *list)
{
    for (int f = 0; f < N_FIELDS; f++) fitted[f] = !list;
    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ",");
        bool found = false;
        for (int f = 0; f < N_FIELDS; f++)
            if (strlen(fields[f].name) == n && !memcmp(fields[f].name, at, n)) fitted[f] = found = true;
        if (!found) {
            fprintf(stderr, "device_model.def has no field %.*s\n", (int)n, at);
            return false;
        }
        at += n + (at[n] == ',');
    }
    return true;
}

static int usage(void)
{
    fprintf(stderr, "tile_bench_fit [--model=NAME] [--fields=A,B,..] [--folds=N] [--rounds=N] [--keep=X] "
                    "[--kernels=FOLDER] [--problems] [--no-fit] TARGET TSV\n");
    return 2;
}

static int run(const DeviceModel *start, int folds, bool fits, bool problems)
{
    DeviceModel m = *start;
    printf("%d of %d lines counted, %d problems\n", count_all(), n_lines, n_problems);
    estimate_all(&m);
    report(start->name);
    if (problems) print_problems();
    if (!fits) return 0;
    estimate_held_out(start, folds);
    report("held out");
    fit(&m, -1, folds);
    estimate_all(&m);
    report("fitted, in sample");
    if (problems) print_problems();
    for (int f = 0; f < N_FIELDS; f++)
        if (*value_of(&m, f) != *value_of((DeviceModel *)start, f))
            printf("%s %.4g    # %g\n", fields[f].name, *value_of(&m, f), *value_of((DeviceModel *)start, f));
    return 0;
}

int main(int argc, char **argv)
{
    const char *name = NULL, *folder = "examples/kernels", *list = NULL;
    int at = 1, folds = 5;
    bool fits = true, problems = false;
    size_t size;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        const char *eq = strchr(argv[at], '='), *value = eq ? eq + 1 : "";
        if (!strcmp(argv[at], "--no-fit")) fits = false;
        else if (!strcmp(argv[at], "--problems")) problems = true;
        else if (!strncmp(argv[at], "--model=", 8)) name = value;
        else if (!strncmp(argv[at], "--fields=", 9)) list = value;
        else if (!strncmp(argv[at], "--kernels=", 10)) folder = value;
        else if (!strncmp(argv[at], "--folds=", 8)) folds = atoi(value);
        else if (!strncmp(argv[at], "--rounds=", 9)) rounds = atoi(value);
        else if (!strncmp(argv[at], "--keep=", 7)) keep = strtod(value, NULL);
        else return usage();
    }
    if (at + 2 != argc || folds < 2 || folds > 64 || !choose_fields(list)) return usage();
    const Target *t = target_find(argv[at]);
    const DeviceModel *model = name ? device_model_find(name) : t ? device_model(t) : NULL;
    char *text = read_all(argv[at + 1], &size);
    if (!model || !text || !read_lines(folder, argv[at], text)) {
        fprintf(stderr, "no such target, no model for it, or %s is no list of measurements\n", argv[at + 1]);
        return 2;
    }
    return run(model, folds, fits, problems);
}
