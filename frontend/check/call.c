/* call.c: see call.h. */
#include "frontend/check/call.h"
#include "frontend/parse/habits.h"
#include "ir/target/target.h"

struct Builtin {
    const char *name, *signature;
};

static const Builtin builtins[] = {
#define BUILTIN(name, signature, handler, op) { #name, signature },
#include "frontend/check/builtins.def"
#undef BUILTIN
};

int builtin_count(void) { return (int)(sizeof builtins / sizeof *builtins); }
int builtin_index(const Builtin *b) { return (int)(b - builtins); }
const Builtin *builtin_at(int i) { return &builtins[i]; }
const char *builtin_name(const Builtin *b) { return b->name; }

const Builtin *builtin_find(const char *name)
{
    for (int i = 0; i < builtin_count(); i++)
        if (!strcmp(builtins[i].name, name)) return &builtins[i];
    return NULL;
}

/* --- targets ----------------------------------------------------------------------------------------- */

int call_target_match(const char *name, const char *target)
{
    if (!target) return 0;
    const char *colon = strchr(target, ':');
    size_t family = colon ? (size_t)(colon - target) : strlen(target);
    if (strlen(name) == family && !memcmp(name, target, family)) return 1;
    return colon && !strcmp(name, colon + 1) ? 2 : 0;
}

bool call_target_known(const char *name)
{
    const Target *t;
    for (size_t i = 0; (t = target_at(i)); i++)
        if (call_target_match(name, t->name)) return true;
    return false;
}

/* --- signatures -------------------------------------------------------------------------------------- */

typedef struct Parameter {
    const char *name;
    size_t len;
    bool optional, positional;
} Parameter;
typedef struct Signature {
    Parameter p[CALL_SLOTS];
    int n, n_positional, n_needed;
    bool rest;
} Signature;

static Signature read_signature(const char *s)
{
    Signature g = { .n = 0 };
    bool positional = true;
    while (*s) {
        size_t len = strcspn(s, " ");
        if (len == 1 && *s == '*') positional = false;
        else if (len == 3 && !memcmp(s, "...", 3)) g.rest = true;
        else {
            bool optional = s[len - 1] == '?';
            g.p[g.n++] = (Parameter){ s, len - optional, optional, positional };
            g.n_positional += positional;
            g.n_needed += positional && !optional;
        }
        s += len;
        while (*s == ' ') s++;
    }
    return g;
}

static int find_parameter(const Signature *g, const char *name)
{
    for (int i = 0; i < g->n; i++)
        if (strlen(name) == g->p[i].len && !memcmp(name, g->p[i].name, g->p[i].len)) return i;
    return -1;
}

static bool is_hint(const Parameter *p)
{ return !strncmp(p->name, "latency", p->len) || !strncmp(p->name, "cache", p->len); }

static const char *name_list(Session *s, const Signature *g)
{
    Text t;
    text_init(&t, &s->arena);
    for (int i = 0; i < g->n; i++) text_printf(&t, "%s`%.*s`", i ? ", " : "", (int)g->p[i].len, g->p[i].name);
    return t.data ? t.data : "nothing";
}

const char *builtin_example(Session *s, const Builtin *b)
{
    const Signature g = read_signature(b->signature);
    Text t;
    text_init(&t, &s->arena);
    text_printf(&t, "%s(", b->name);
    for (int i = 0; i < g.n_needed; i++)
        text_printf(&t, "%s%.*s", i ? ", " : "", (int)g.p[i].len, g.p[i].name);
    text_puts(&t, g.rest ? ", ..)" : ")");
    return t.data;
}

typedef struct Match {
    Session *s;
    const Node *call;
    const Signature *g;
    const char *target;
    bool report;
    CallArgs *out;
    int rank[CALL_SLOTS];
} Match;

static void note(Match *m, Diag *d, const char *text) { diag_note(m->s, d, (Loc){ 0, 0, 0 }, "%s", text); }

/* Reports an argument that the operation does not have, and what its author may have meant. */
static void report_unknown(Match *m, const Node *arg)
{
    const char *called = m->call->name, *habit = habit_note(HABIT_ARGUMENT, arg->name, strlen(arg->name));
    bool load = !strcmp(called, "load");
    if (!m->report) return;
    Diag *d = diag_error(m->s, arg->name_loc, "`%s` has no argument `%s`", called, arg->name);
    diag_note(m->s, d, (Loc){ 0, 0, 0 }, "it takes %s", name_list(m->s, m->g));
    if (habit) note(m, d, habit);
    if (!strcmp(arg->name, "axis") && (!strcmp(called, "sort") || !strcmp(called, "topk")))
        note(m, d, "it goes along the last axis; `transpose` or `permute` brings another one there");
    if (!strcmp(arg->name, "mask") && (load || !strcmp(called, "store")))
        diag_note(m->s, d, (Loc){ 0, 0, 0 },
            "elements outside of the tensor are masked already; for others write `%s`",
            load ? "where(m, load(...), pad)" : "scatter(X[i, j], value, mask = m)");
}

/* Whether the value of parameter k may be for one target only (`stages@cuda = 3`), and for one that exists.
 */
static bool target_fits(Match *m, const Node *arg, int k)
{
    bool hint = is_hint(&m->g->p[k]);
    if (hint && call_target_known(arg->text2)) return true;
    if (!m->report) return false;
    if (!hint) {
        diag_error(m->s, arg->name_loc, "`%s` is no hint: it cannot differ between targets", arg->name);
        return false;
    }
    Diag *d = diag_error(m->s, arg->name_loc, "unknown target `%s`", arg->text2);
    note(m, d, "a family (cuda, hip, cpu) or a chip (sm_90a, gfx942, ...)");
    return false;
}

/* Of values for several targets the one that names the target most closely counts (`rank`). */
static bool match_named(Match *m, const Node *arg)
{
    int k = find_parameter(m->g, arg->name), rank = 0;
    if (k < 0) {
        report_unknown(m, arg);
        return false;
    }
    if (arg->text2) {
        if (!target_fits(m, arg, k)) return false;
        rank = call_target_match(arg->text2, m->target);
        if (!rank) return true;
    }
    if (m->out->slot[k] && (m->rank[k] == rank || !arg->text2)) {
        if (m->rank[k] > rank) return true;
        if (m->report) diag_error(m->s, arg->name_loc, "argument `%s` is given twice", arg->name);
        return false;
    }
    if (!m->out->slot[k] || m->rank[k] < rank) {
        m->out->slot[k] = arg->kids[0];
        m->rank[k] = rank;
    }
    return true;
}

bool call_match(
    Session *s, const Node *call, const Builtin *b, const char *target, bool report, CallArgs *out)
{
    Signature g = read_signature(b->signature);
    Match m = { s, call, &g, target, report, out, { 0 } };
    *out = (CallArgs){ { NULL }, NULL, 0 };
    int positional = 0;
    bool named = false, ok = true;
    for (uint32_t i = 0; i < call->n; i++) {
        const Node *arg = call->kids[i];
        if (arg->kind == N_ARG) {
            named = true;
            ok &= match_named(&m, arg);
            continue;
        }
        if (named) {
            if (report) diag_error(s, arg->loc, "a plain argument stands after one given by name");
            return false;
        }
        if (positional < g.n_positional) out->slot[positional] = arg;
        else if (!g.rest) {
            if (report) {
                Diag *d = diag_error(s, arg->loc, "`%s` takes at most %d plain argument%s", b->name,
                    g.n_positional, g.n_positional == 1 ? "" : "s");
                diag_note(s, d, (Loc){ 0, 0, 0 }, "it takes %s", name_list(s, &g));
                const Parameter *next = positional < g.n ? &g.p[positional] : NULL;
                habit_of_plain_argument(s, d, call, arg,
                    next ? arena_printf(&s->arena, "%.*s", (int)next->len, next->name) : NULL);
            }
            return false;
        }
        positional++;
    }
    if (g.rest && positional > g.n_positional) {
        out->rest = (const Node *const *)call->kids + g.n_positional;
        out->n_rest = positional - g.n_positional;
    }
    for (int k = 0; k < g.n && ok; k++) {
        if (out->slot[k] || g.p[k].optional) continue;
        if (report) {
            Diag *d = diag_error(
                s, call->loc, "`%s` needs the argument `%.*s`", b->name, (int)g.p[k].len, g.p[k].name);
            if (k < g.n_needed) diag_note(s, d, (Loc){ 0, 0, 0 }, "write `%s`", builtin_example(s, b));
        }
        return false;
    }
    return ok;
}
