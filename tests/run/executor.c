/* executor.c: a recipe's launches from text to arguments. */
#include "executor.h"
#include <stdio.h>
#include <string.h>

static bool add_arg(Launch *l, const Problem *p, char *word, char *why, size_t why_size)
{
    if (l->n_args == MAX_ARGS) return snprintf(why, why_size, "table: too many arguments"), false;
    Arg *a = &l->args[l->n_args++];
    if (!strcmp(word, "-")) return true;
    char *bracket = strchr(word, '[');
    if (bracket) *bracket = 0, a->drop = 1; /* X[0] */
    a->scalar = problem_scalar(p, word);
    if (!a->scalar) a->tensor = problem_tensor(p, word);
    return true;
}

static void add_const(Launch *l, const Bind *b) { l->consts[l->n_consts++] = *b; }

static bool read_launch(Launch *l, const Problem *p, const char *text, char *why, size_t why_size)
{
    char copy[160], *rest = copy;
    bool in_consts = false;
    snprintf(copy, sizeof copy, "%s", text);
    snprintf(l->kernel, sizeof l->kernel, "%s", strtok_r(rest, " ", &rest));
    for (char *w; (w = strtok_r(NULL, " ", &rest));) {
        if (!strcmp(w, "/")) in_consts = true;
        else if (!in_consts && !add_arg(l, p, w, why, why_size)) return false;
        for (int i = 0; in_consts && i < p->n_consts; i++)
            if (!strcmp(p->consts[i].name, w)) add_const(l, &p->consts[i]);
    }
    for (int i = 0; !in_consts && i < p->n_consts; i++) add_const(l, &p->consts[i]);
    return true;
}

bool run_prepare(
    Run *run, const Problem *p, const char *folder, char *path, size_t path_size, char *why, size_t why_size)
{
    memset(run, 0, sizeof *run);
    snprintf(path, path_size, "%s/%s.tile", folder, p->recipe->file);
    run->problem = p;
    run->path = path;
    for (int i = 0; i < MAX_LAUNCHES && p->recipe->launch[i]; i++)
        if (!read_launch(&run->launches[run->n_launches++], p, p->recipe->launch[i], why, why_size))
            return false;
    return true;
}

bool executor_too_large(const char *message)
{
    bool shared = strstr(message, "bytes of shared memory") && strstr(message, " needs ");
    return shared || (strstr(message, " registers of each of ") && strstr(message, "and at most "));
}
