/* ladder.c: `ladder` blocks, which name variants of one kernel that `tilec bench --ladder` compares: their
 * nodes, their checks and their description. docs/bench.md has the syntax. Whether a pass of the name exists
 * is known above the front end (runtime/compile/ladder.c). */
#include "frontend/check/check.h"
#include "frontend/parse/parse.h"
#include "frontend/program_info.h"

/* --- parsing ----------------------------------------------------------------------------------------- */

bool parse_begins_item(const Parse *p)
{
    const Source *src = diag_source(p->session, p->file);
    char last = p->before.end && src && p->before.end <= src->len ? src->text[p->before.end - 1] : ';';
    return p->brackets == 0 && (last == ';' || last == '}');
}

NodeList parse_prepend(Parse *p, Node *first, NodeList rest)
{
    NodeList all = parse_push(p, (NodeList){ 0 }, first);
    for (uint32_t i = 0; i < rest.len; i++) all = parse_push(p, all, rest.data[i]);
    return all;
}

Node *parse_step(Parse *p, Loc loc, const char *word, Loc word_loc, Node *step)
{
    if (!strcmp(word, "step")) return step;
    Diag *d = diag_error(p->session, word_loc, "unexpected name `%s`, expected `step`", word);
    diag_note(p->session, d, (Loc){ 0 },
        "a ladder has steps (`step tiled \"what changed\" (TM = 64, skip exp2);`)"
        " and `at (...)`");
    return parse_node(p, N_ERROR, loc);
}

const char *parse_hyphen(Parse *p, const char *a, const char *b)
{
    const char *name = arena_printf(&p->session->arena, "%s-%s", a, b);
    return session_intern(p->session, name, strlen(name));
}

/* --- checks ------------------------------------------------------------------------------------------ */

static const Node *find_param(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++)
        if (kernel->kids[0]->kids[i]->name == name) return kernel->kids[0]->kids[i];
    return NULL;
}

static bool is_remap(const Node *n) { return !strcmp(n->name, "remap"); }

/* NAME = VALUE of a step, or of `at`. */
static void check_change(Check *c, const Node *d, const Node *kernel, bool is_step)
{
    const Node *p = find_param(kernel, d->name), *v = d->kids[0];
    if (is_step && is_remap(d) && !p) {
        if (v->kind != N_NAME && v->kind != N_STRING && v->kind != N_NONE)
            check_note(c, check_fault(c, v->loc, "expected a placement of programs"),
                "remap = xcd, or remap = \"head+raster:8\"");
        return;
    }
    bool known = (p && (program_takes_value(p) || (p->kind == N_PSCALAR && !is_step))) ||
                 check_is_dimension(kernel, d->name) || (is_step && frontend_hint_name(d->name));
    if (!known && p && p->kind == N_PSCALAR)
        check_note(c, check_fault(c, d->name_loc, "a step does not set the scalar `%s`", d->name),
            "`at (...)` sets scalars for all steps");
    else if (!known)
        check_note(c,
            check_fault(
                c, d->name_loc, "kernel `%s` has no const, type or dimension `%s`", kernel->name, d->name),
            is_step ? "a step may also set `remap` and the hints of a tune block"
                    : "`at (...)` also sets scalars");
    check_expr(c, v);
}

static void check_step(Check *c, const Node *step, const Node *kernel)
{
    for (uint32_t i = 1; i < step->n; i++) {
        const Node *e = step->kids[i];
        if (e->kind == N_DOMAIN) check_change(c, e, kernel, true);
        else if (e->kind == N_CLAUSE && strcmp(e->name, "skip") && strcmp(e->name, "with") &&
                 strcmp(e->name, "tune"))
            check_note(c, check_fault(c, e->name_loc, "unknown word `%s` in a step", e->name),
                "a step has NAME = VALUE, `skip PASS`, `with PASS` and `tune`");
        for (uint32_t k = 1; k < i; k++)
            if (e->kind == N_DOMAIN && step->kids[k]->kind == N_DOMAIN && step->kids[k]->name == e->name)
                check_fault(c, e->name_loc, "step `%s` sets `%s` twice", step->name, e->name);
    }
}

/* Names that an `at` of the ladder gave before argument `last` of `n`. */
static bool given_before(const Node *ladder, const Node *n, uint32_t last)
{
    const char *name = n->kids[0]->kids[last]->name;
    for (uint32_t i = 0; i < ladder->n; i++) {
        const Node *at = ladder->kids[i];
        if (at->kind != N_CLAUSE) continue;
        for (uint32_t k = 0; k < (at == n ? last : at->kids[0]->n); k++)
            if (at->kids[0]->kids[k]->kind == N_ARG && at->kids[0]->kids[k]->name == name) return true;
        if (at == n) break;
    }
    return false;
}

static void check_at(Check *c, const Node *ladder, const Node *n, const Node *kernel)
{
    if (strcmp(n->name, "at")) {
        check_note(c, check_fault(c, n->name_loc, "unknown entry `%s`", n->name),
            "a ladder has steps and `at (M = 1024, ..)`");
        return;
    }
    for (uint32_t i = 0; i < n->kids[0]->n; i++) {
        const Node *a = n->kids[0]->kids[i];
        if (a->kind != N_ARG) check_fault(c, a->loc, "`at` takes NAME = VALUE");
        else if (given_before(ladder, n, i)) check_fault(c, a->name_loc, "`at` gives `%s` twice", a->name);
        else check_change(c, a, kernel, false);
    }
}

void check_ladder(Check *c, const Node *n)
{
    const Node *kernel = names_get(&c->ast->kernels, n->name), *o = names_get(&c->ladders, n->name);
    int steps = 0;
    if (!kernel) {
        check_fault(c, n->name_loc, "no kernel `%s`", n->name);
        return;
    }
    if (o)
        diag_note(c->s, check_fault(c, n->name_loc, "kernel `%s` has two ladders", n->name), o->name_loc,
            "first here");
    else names_put(&c->s->arena, &c->ladders, n->name, (Node *)n);
    for (uint32_t i = 0; i < n->n && !diag_full(c->s); i++) {
        const Node *e = n->kids[i];
        if (e->kind == N_CLAUSE) check_at(c, n, e, kernel);
        if (e->kind != N_STEP) continue;
        steps++;
        check_step(c, e, kernel);
        for (uint32_t k = 0; k < i; k++)
            if (n->kids[k]->kind == N_STEP && n->kids[k]->name == e->name) {
                check_fault(c, e->name_loc, "the ladder has two steps `%s`", e->name);
                break;
            }
    }
    if (!steps) check_fault(c, n->loc, "the ladder of `%s` has no steps", n->name);
}

/* --- description ------------------------------------------------------------------------------------- */

static FrontBinding binding_of(Lower *eval, const Node *kernel, const Node *d)
{
    const Node *p = find_param(kernel, d->name);
    return (FrontBinding){ d->name, lower_eval_domain_value(eval, false, p, d->kids[0]) };
}

static const char *add_name(Session *s, const char *list, const char *name)
{ return list ? arena_printf(&s->arena, "%s,%s", list, name) : name; }

static void describe_step(Session *s, Lower *eval, const Node *kernel, const Node *n, FrontStep *out)
{
    FrontBinding *b = arena_array(&s->arena, FrontBinding, n->n + 1);
    FrontPassName *passes = arena_array(&s->arena, FrontPassName, n->n + 1);
    *out = (FrontStep){
        .name = n->name, .text = n->kids[0]->name, .loc = n->name_loc, .bindings = b, .passes = passes
    };
    if (!out->text) out->text = "";
    for (uint32_t i = 1; i < n->n; i++) {
        const Node *e = n->kids[i];
        if (e->kind == N_DOMAIN && is_remap(e) && !find_param(kernel, e->name))
            out->remap = e->kids[0]->kind == N_NONE ? "none" : e->kids[0]->name;
        else if (e->kind == N_DOMAIN) b[out->n++] = binding_of(eval, kernel, e);
        else if (!strcmp(e->name, "tune")) out->tune = true;
        else if (e->n) {
            bool skip = !strcmp(e->name, "skip");
            const char **list = skip ? &out->skip : &out->with, *name = e->kids[0]->name;
            passes[out->n_passes++] = (FrontPassName){ name, skip, e->kids[0]->loc };
            if (!skip && !strcmp(name, "ftz")) out->ftz = true;
            else if (!skip && !strcmp(name, "approx")) out->approx = true;
            else *list = add_name(s, *list, name);
        }
    }
}

void describe_ladder(Session *s, Lower *eval, KernelInfo *info, const Node *n)
{
    FrontLadder *l = arena_new(&s->arena, FrontLadder);
    FrontStep *steps = arena_array(&s->arena, FrontStep, n->n + 1);
    size_t most = 1;
    for (uint32_t i = 0; i < n->n; i++) most += n->kids[i]->kind == N_CLAUSE ? n->kids[i]->kids[0]->n : 0;
    FrontBinding *at = arena_array(&s->arena, FrontBinding, most);
    *l = (FrontLadder){ .kernel = info->k.name, .steps = steps, .at = at, .loc = n->name_loc };
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *e = n->kids[i];
        lower_eval_scope(eval, info->node);
        if (e->kind == N_STEP) describe_step(s, eval, info->node, e, &steps[l->n++]);
        for (uint32_t k = 0; e->kind == N_CLAUSE && k < e->kids[0]->n; k++)
            at[l->n_at++] = binding_of(eval, info->node, e->kids[0]->kids[k]);
    }
    info->ladder = l;
}
