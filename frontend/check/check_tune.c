/* check_tune.c: checks tune blocks and the domains of `instantiate`. */
#include "frontend/check/check.h"

static bool is_optional(const Node *kernel, const char *name)
{
    const Node *p = check_find_tensor(kernel, name);
    return p && p->u;
}

static bool has_const(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++)
        if (kernel->kids[0]->kids[i]->kind == N_PCONST && kernel->kids[0]->kids[i]->name == name) return true;
    return false;
}

bool check_is_placement(const Node *kernel, const char *name)
{ return frontend_placement_name(name) && !has_const(kernel, name) && !check_is_dimension(kernel, name); }

void check_placement(Check *c, const Node *value)
{
    if (value->kind == N_STRING || value->kind == N_NONE) return;
    if (value->kind == N_NAME && frontend_placement_word(value->name)) return;
    check_note(c,
        check_fault(c, value->loc, "expected a placement of programs: auto, xcd, chunk, head, none"),
        "remap in {none, xcd, \"head+raster:8\"}");
}

/* "the largest are TM (16 values) and TN (8); ..." */
static const char *largest_domains(Check *c, const Node *n)
{
    const Node *a = NULL, *b = NULL;
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *d = n->kids[i];
        if (d->kind != N_DOMAIN) continue;
        if (!a || d->n > a->n) {
            b = a;
            a = d;
        } else if (!b || d->n > b->n) b = d;
    }
    if (!a || !b) return "give fewer values";
    return arena_printf(&c->s->arena,
        "the largest domains are %s (%u values) and %s (%u): give fewer values, or list the configurations "
        "by "
        "`config (...)`",
        a->name, a->n, b->name, b->n);
}

/* A domain of a name that the kernel does not have: a note says which one may be meant, or which there are.
 */
static void unknown_domain(Check *c, const Node *kernel, const Node *d, bool hints)
{
    Diag *e = check_fault(
        c, d->name_loc, "kernel `%s` has no const, type or dimension `%s`", kernel->name, d->name);
    Text has;
    text_init(&has, &c->s->arena);
    for (uint32_t i = 0; i < kernel->kids[0]->n; i++) {
        const Node *p = kernel->kids[0]->kids[i];
        if (p->kind == N_PCONST) text_printf(&has, "%s`%s`", has.len ? ", " : "its consts are ", p->name);
    }
    const char *nearest = NULL;
    int least = 3;
    for (int i = 0; hints && frontend_hints[i]; i++) {
        int distance = diag_distance(d->name, strlen(d->name), frontend_hints[i]);
        if (distance >= least || 2 * distance >= (int)strlen(frontend_hints[i])) continue;
        least = distance;
        nearest = frontend_hints[i];
    }
    if (nearest) check_note(c, e, arena_printf(&c->s->arena, "did you mean `%s`?", nearest));
    else if (hints)
        check_note(c, e,
            "a tune block may also set occupancy, warps, pack, raster_group, cluster, cluster_axis, "
            "split_k, stream_k, stages, persistent, warp_specialize, cp_async_producer, "
            "deterministic, pingpong and remap");
    if (has.len && !nearest) check_note(c, e, has.data);
}

void check_domains(Check *c, const Node *n, const Node *kernel, bool hints)
{
    int64_t product = 1;
    for (uint32_t i = 0; i < n->n && !diag_full(c->s); i++) {
        const Node *d = n->kids[i];
        if (d->kind != N_DOMAIN) continue;
        bool known = has_const(kernel, d->name) || check_is_dimension(kernel, d->name) ||
                     (hints ? frontend_hint_name(d->name) : is_optional(kernel, d->name));
        if (hints && is_optional(kernel, d->name))
            check_note(c,
                check_fault(
                    c, d->name_loc, "whether `%s` is given is not tuned: a launch decides it", d->name),
                arena_printf(&c->s->arena, "`require (...)` may ask for `has(%s)`", d->name));
        else if (!known) unknown_domain(c, kernel, d, hints);
        if (!d->n) check_fault(c, d->loc, "the domain of `%s` is empty", d->name);
        for (uint32_t j = 0; j < i; j++)
            if (n->kids[j]->kind == N_DOMAIN && n->kids[j]->name == d->name) {
                check_fault(c, d->name_loc, "`%s` has two domains", d->name);
                break;
            }
        const bool placement = hints && check_is_placement(kernel, d->name);
        for (uint32_t v = 0; v < d->n; v++)
            if (placement) check_placement(c, d->kids[v]);
            else check_expr(c, d->kids[v]);
        if (product <= LIMIT_TUNE_CONFIGS) product *= d->n ? d->n : 1;
    }
    if (product > LIMIT_TUNE_CONFIGS)
        check_note(c,
            check_fault(c, n->loc, "the domains have more than %d combinations", LIMIT_TUNE_CONFIGS),
            largest_domains(c, n));
}

/* `require (...)`: its condition may name constants of the kernel and hints that the block chooses. */
static void check_require(Check *c, const Node *n, const Node *e, const Node *kernel)
{
    const Node *args = e->kids[0];
    Name *names = c->names;
    c->tensors = kernel;
    c->level++;
    for (uint32_t p = 0; p < kernel->kids[0]->n; p++)
        if (kernel->kids[0]->kids[p]->kind == N_PCONST)
            check_declare(c, kernel->kids[0]->kids[p]->name, kernel->kids[0]->kids[p]->loc, false);
    for (uint32_t d = 0; d < n->n; d++) /* hints that are chosen */
        if (n->kids[d]->kind == N_DOMAIN && frontend_hint_name(n->kids[d]->name) &&
            !frontend_placement_name(n->kids[d]->name) && !has_const(kernel, n->kids[d]->name))
            check_declare(c, n->kids[d]->name, n->kids[d]->loc, false);
    if (args->n != 1 || args->kids[0]->kind == N_ARG) check_fault(c, e->loc, "`require` takes one condition");
    else check_expr(c, args->kids[0]);
    c->level--;
    c->tensors = NULL;
    check_leave_to(c, names);
}

/* `key (...)` */
static void check_key(Check *c, const Node *e, const Node *kernel)
{
    const Node *args = e->kids[0];
    for (uint32_t k = 0; k < args->n; k++) {
        const Node *a = args->kids[k];
        for (uint32_t j = 0; j < k && a->kind == N_NAME; j++)
            if (args->kids[j]->kind == N_NAME && args->kids[j]->name == a->name) {
                check_fault(c, a->loc, "key `%s` is given twice", a->name);
                break;
            }
        if (a->kind != N_NAME) check_fault(c, a->loc, "a key is the name of a dimension or const");
        else if (is_optional(kernel, a->name))
            check_note(c, check_fault(c, a->loc, "`%s` is an optional tensor and no key", a->name),
                "leave it out: an entry is always for one choice of the tensors that are given");
        else if (!has_const(kernel, a->name) && !check_is_dimension(kernel, a->name))
            check_fault(c, a->loc, "kernel `%s` has no const, type or dimension `%s`", kernel->name, a->name);
    }
}

void check_tune(Check *c, const Node *n)
{
    const Node *kernel = names_get(&c->ast->kernels, n->name);
    if (!kernel) {
        check_fault(c, n->name_loc, "no kernel `%s`", n->name);
        return;
    }
    const Node *o = names_get(&c->tuned, n->name);
    if (o)
        diag_note(c->s, check_fault(c, n->name_loc, "kernel `%s` has two tune blocks", n->name), o->name_loc,
            "first here");
    else names_put(&c->s->arena, &c->tuned, n->name, (Node *)n);
    check_domains(c, n, kernel, true);
    check_configs(c, n, kernel);
    for (uint32_t i = 0; i < n->n; i++) {
        const Node *e = n->kids[i];
        if (e->kind != N_CLAUSE || !strcmp(e->name, "config")) continue;
        for (uint32_t j = 0; j < i; j++)
            if (n->kids[j]->kind == N_CLAUSE && n->kids[j]->name == e->name) {
                Diag *d = check_fault(c, e->name_loc, "`%s` is given twice", e->name);
                check_note(c, d,
                    !strcmp(e->name, "require") ? "one condition: require (A && B)"
                    : !strcmp(e->name, "fit")   ? "one list: fit (TM = 8, TN = 8)"
                                                : "one list: key (M, N)");
                break;
            }
        if (!strcmp(e->name, "require")) check_require(c, n, e, kernel);
        else if (!strcmp(e->name, "key")) check_key(c, e, kernel);
        else if (!strcmp(e->name, "fit")) check_fit(c, n, e);
        else
            check_note(c, check_fault(c, e->name_loc, "unknown entry `%s`", e->name),
                "a tune block has domains (`TM in {64, 128};`), `config (...)`, `fit (...)`, `key (...)` and "
                "`require (...)`");
    }
}
