/* chosen.c: see chosen.h. */
#include "tools/tilec/chosen.h"
#include "tools/tilec/run/problem.h"
#include <math.h>

static Ast *parse(void *user, Session *s) { return input_parse_again(user, s); }

/* Extents that nothing binds, with the value that stands for them. */
static void print_unbound(const Variant *v, Text *out)
{
    int n = 0;
    for (int d = 0; d < v->kernel->n_dims; d++) {
        bool bound = false;
        for (size_t i = 0; i < v->n; i++) bound |= !strcmp(v->bindings[i].name, v->kernel->dims[d]);
        if (!bound)
            text_printf(out, "%s%s", n++ ? ", " : "  extents that -D does not give: ", v->kernel->dims[d]);
    }
    if (n) text_printf(out, "; %d stands for %s\n", PROBLEM_EXTENT, n > 1 ? "each" : "it");
}

/* A kernel whose `tune` block leaves nothing free: the estimate alone. */
static void print_declared(const ProblemView *v, Session *s, Text *out)
{
    ProblemCount c;
    Bound bound = BOUND_PROGRAMS;
    problem_count(v, s, NULL, 0, &c);
    text_puts(out, "  nothing is to be chosen");
    if (c.ok) {
        double ns = cost_estimate(&c.cost, &v->problem->device, &bound);
        text_printf(out, "; estimated at %.1f us, bound by %s", ns * 1e-3, bound_name(bound));
    }
    text_putc(out, '\n');
}

static void print_choice(Session *s, const SearchResult *r, Text *out)
{
    text_printf(out, "  %s, of %d configurations", search_text(s, r), r->tried);
    if (r->ns < INFINITY)
        text_printf(out, "; estimated at %.1f us, bound by %s", r->ns * 1e-3, bound_name(r->bound));
    if (r->n && r->declared_ns < INFINITY)
        text_printf(out, "; %s %.1f us", r->automatic ? "by default" : "as declared", r->declared_ns * 1e-3);
    text_puts(out, r->ns < INFINITY ? "\n" : "; none of them fits\n");
}

const Variant *chosen_variant(Session *s, const Variant *v, const SearchResult *r)
{
    Variant *w = arena_new(&s->arena, Variant);
    FrontBinding *b = arena_array(&s->arena, FrontBinding, v->n + (size_t)r->n + 1);
    memcpy(b, v->bindings, v->n * sizeof *b);
    memcpy(b + v->n, r->config, (size_t)r->n * sizeof *b);
    *w = *v;
    w->bindings = b;
    w->n = v->n + (size_t)r->n;
    w->n_config = v->n_config + (size_t)r->n;
    return w;
}

const Variant *chosen_on(
    Input *in, const Variant *v, const CompileOptions *o, const CostDevice *device, Text *out)
{
    Session *s = &in->session;
    ProblemView view;
    SearchResult r;
    CompileOptions quiet = *o;
    quiet.passes.dump_after = NULL; /* For the chosen configuration only, not for candidates. */
    Problem p = {
        .parse = parse, .user = in, .kernel = v->kernel->name, .device = *device, .options = &quiet
    };
    if (!problem_view_bound(&p, s, v->bindings, (int)v->n, &view)) return NULL;
    text_printf(out, "chosen for %s (%s, %d multiprocessors):\n", device->model->card, device->model->name,
        device->units);
    print_unbound(v, out);
    if (!problem_choose(&view, s, &r)) {
        print_declared(&view, s, out);
        return v;
    }
    print_choice(s, &r, out);
    return r.n ? chosen_variant(s, v, &r) : v;
}
