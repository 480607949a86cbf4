/* lower_scope.c: what every part of lowering needs: diagnostics that name the calls on the way, limits of
 * work and depth, and the scopes of names. */
#include "frontend/lower/lower.h"

static void note_callers(Lower *l, Diag *d)
{
    int n = 0;
    Loc last = { 0, 0, 0 };
    for (const Active *a = l->active; a && n < 3; last = a->loc, a = a->outer, n++)
        if (a->loc.file != last.file || a->loc.begin != last.begin)
            diag_note(l->s, d, a->loc, "in `%s`, called here", a->fn->name);
}

V lower_error_note(Lower *l, Loc loc, const char *note, const char *fmt, ...)
{
    if (l->stopped) return value_error();
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&l->s->arena, fmt, ap);
    va_end(ap);
    Diag *d = diag_error(l->s, loc, "%s", text);
    if (note) diag_note(l->s, d, (Loc){ 0, 0, 0 }, "%s", note);
    note_callers(l, d);
    if (diag_full(l->s)) l->stopped = true;
    return value_error();
}

V lower_error(Lower *l, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&l->s->arena, fmt, ap);
    va_end(ap);
    return lower_error_note(l, loc, NULL, "%s", text);
}

bool lower_step(Lower *l, Loc loc)
{
    if (l->stopped) return false;
    if (++l->steps <= LIMIT_STEPS && l->module->next_id < LIMIT_INSTRS) return true;
    lower_error_note(l, loc, "unrolled loops and expanded functions multiply", "the kernel is too large");
    l->stopped = true;
    return false;
}

bool lower_descend(Lower *l, Loc loc)
{
    if (!lower_step(l, loc)) return false;
    if (++l->recursion <= LIMIT_RECURSION) return true;
    lower_error_note(l, loc, "name a part with `let`", "expressions and functions are nested too deeply");
    l->stopped = true;
    l->recursion--;
    return false;
}

void lower_scope_push(Lower *l, Scope *s)
{
    *s = (Scope){ .outer = l->scope };
    l->scope = s;
}

void lower_scope_pop(Lower *l) { l->scope = l->scope->outer; }

/* Small scopes are lists; a scope of many names gets a map. */
enum { SCOPE_LIST = 16 };

Var *lower_scope_find(const Lower *l, const char *name)
{
    for (const Scope *s = l->scope; s; s = s->outer) {
        if (s->n > SCOPE_LIST) {
            Var *v = names_get(&s->map, name);
            if (v) return v;
            continue;
        }
        for (Var *v = s->vars; v; v = v->next)
            if (v->name == name) return v;
    }
    return NULL;
}

Var *lower_scope_add(Lower *l, const char *name, Loc loc, V v, bool is_var)
{
    Var *var = arena_new(&l->s->arena, Var);
    Scope *s = l->scope;
    *var = (Var){ .name = name, .v = v, .is_var = is_var, .loc = loc, .next = s->vars };
    s->vars = var;
    s->n++;
    if (s->n == SCOPE_LIST + 1) {
        Var *all[SCOPE_LIST + 1];
        int n = 0;
        for (Var *x = var; x; x = x->next) all[n++] = x;
        while (n--) names_put(&l->s->arena, &s->map, all[n]->name, all[n]);
    } else if (s->n > SCOPE_LIST) names_put(&l->s->arena, &s->map, name, var);
    return var;
}
