/* check_names.c: the scopes of a program while it is checked, the names in them, and what a wrong name may
 * mean. */
#include "frontend/check/check.h"
#include "frontend/parse/habits.h"

Diag *check_fault(Check *c, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(&c->s->arena, fmt, ap);
    va_end(ap);
    return diag_error(c->s, loc, "%s", text);
}

void check_note(Check *c, Diag *d, const char *text) { diag_note(c->s, d, (Loc){ 0, 0, 0 }, "%s", text); }

Name *check_find(const Check *c, const char *name) { return names_get(&c->map, name); }

void check_leave_to(Check *c, Name *outer)
{
    for (; c->names != outer; c->names = c->names->outer) {
        names_put(&c->s->arena, &c->map, c->names->name, c->names->hidden);
        names_put(&c->s->arena, &c->ended, c->names->name, c->names);
    }
}

void check_declare(Check *c, const char *name, Loc loc, bool is_var)
{
    if (!strcmp(name, "_")) return;
    Name *old = check_find(c, name);
    if (old && old->level == c->level) {
        diag_note(c->s, check_fault(c, loc, "`%s` is declared twice", name), old->loc, "first here");
        return;
    }
    Name *n = arena_new(&c->s->arena, Name);
    *n = (Name){ name, loc, is_var, c->level, c->names, old };
    c->names = n;
    names_put(&c->s->arena, &c->map, name, n);
}

bool check_is_type(const char *name)
{
    DType d;
    return dtype_parse(name, strlen(name), &d);
}

/* Whether an axis of a tensor has this name as its extent. */
bool check_is_extent(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; kernel && i < kernel->kids[0]->n; i++) {
        const Node *p = kernel->kids[0]->kids[i];
        for (uint32_t k = 1; p->kind == N_PTENSOR && k < p->n; k++)
            if (p->kids[k]->kind == N_NAME && p->kids[k]->name == name) return true;
    }
    return false;
}

bool check_is_dimension(const Node *kernel, const char *name)
{ return check_is_extent(kernel, name) && !program_is_scalar(kernel, name); }

const Node *check_find_tensor(const Node *kernel, const char *name)
{
    for (uint32_t i = 0; kernel && i < kernel->kids[0]->n; i++)
        if (kernel->kids[0]->kids[i]->kind == N_PTENSOR && kernel->kids[0]->kids[i]->name == name)
            return kernel->kids[0]->kids[i];
    return NULL;
}

typedef struct Near {
    const char *wanted, *best;
    int distance;
} Near;

static void consider(Near *n, const char *name)
{
    int d = diag_distance(n->wanted, strlen(n->wanted), name);
    if (d < n->distance && 2 * d < (int)strlen(name)) {
        n->best = name;
        n->distance = d;
    }
}

/* N, TILE_M: the way in which sizes and types are written. */
static bool in_capitals(const char *name)
{
    for (const char *p = name; *p; p++)
        if (*p >= 'a' && *p <= 'z') return false;
    return true;
}

/* A name that the writer may have meant, one or two letters away. */
void check_suggest(Check *c, Diag *d, const char *wanted, bool function)
{
    if (function ? habit_of_call(c->s, d, wanted) : habit_of_name(c->s, d, wanted)) return;
    Near near = { wanted, NULL, 3 };
    int most = 1000;
    for (const Name *n = c->names; n && most--; n = n->outer) consider(&near, n->name);
    for (uint32_t i = 0; c->kernel && i < c->kernel->kids[0]->n; i++) {
        const Node *p = c->kernel->kids[0]->kids[i];
        for (uint32_t k = 1; p->kind == N_PTENSOR && k < p->n; k++)
            if (p->kids[k]->kind == N_NAME) consider(&near, p->kids[k]->name);
    }
    for (int i = 0; function && i < builtin_count(); i++) consider(&near, builtin_name(builtin_at(i)));
    for (size_t i = 0; function && i < c->ast->items.len && i < 1000; i++)
        if (c->ast->items.data[i]->kind == N_FN) consider(&near, c->ast->items.data[i]->name);
    const char *keyword = near.best ? NULL : habit_keyword(wanted, strlen(wanted));
    if (near.best || keyword)
        diag_note(c->s, d, (Loc){ 0, 0, 0 }, "did you mean `%s`?", near.best ? near.best : keyword);
    else if (!function && c->kernel && !c->in_fn && in_capitals(wanted))
        diag_note(c->s, d, (Loc){ 0, 0, 0 },
            "sizes and tensors are parameters of the kernel: `const int %s = 64`, `in f32 %s[N]`", wanted,
            wanted);
}

static void unknown_name(Check *c, const Node *n)
{
    if (!c->in_extent && names_get(&c->unknown, n->name)) return;
    if (!c->in_extent) {
        Name *said = arena_new(&c->s->arena, Name);
        *said = (Name){ .name = n->name, .loc = n->loc };
        names_put(&c->s->arena, &c->unknown, n->name, said);
    }
    if (!strcmp(n->name, "break") || !strcmp(n->name, "continue")) {
        check_note(c, check_fault(c, n->loc, "there is no `%s`", n->name),
            "a loop ends by its bound or its `while` condition; an `if` guards what is to be left out");
        return;
    }
    Diag *d = check_fault(c, n->loc, "unknown name `%s`", n->name);
    if (!strcmp(n->name, "auto")) {
        check_note(
            c, d, "`auto` stands for the value of a const parameter: kernel k(.., const int TN = auto)");
        return;
    }
    if (c->in_extent) {
        check_note(c, d,
            "a dimension's name stands by itself in one of the tensors; else declare a `const int` or an "
            "integer scalar");
        return;
    }
    for (size_t i = 0; c->in_fn && d && i < c->ast->items.len; i++) {
        if (c->ast->items.data[i]->kind != N_KERNEL || !check_is_dimension(c->ast->items.data[i], n->name))
            continue;
        check_note(c, d,
            "a fn sees its parameters and global constants only; hand the dimension over, or use extent(X, "
            "axis)");
        return;
    }
    const Name *ended = names_get(&c->ended, n->name);
    if (ended)
        diag_note(c->s, d, ended->loc,
            "declared here, in a block that has ended; declare `var %s` before the block and assign it there",
            n->name);
    else check_suggest(c, d, n->name, false);
}

void check_name(Check *c, const Node *n)
{
    if (c->in_extent && program_is_scalar(c->kernel, n->name)) return; /* it may stand further on */
    if (c->in_extent && check_find_tensor(c->kernel, n->name)) {
        check_note(c, check_fault(c, n->loc, "`%s` is a tensor", n->name),
            "an extent is made of dimensions, integer scalars and constants");
        return;
    }
    if (check_find(c, n->name) || check_is_dimension(c->kernel, n->name) || check_is_type(n->name) ||
        !strcmp(n->name, "inf") || !strcmp(n->name, "nan"))
        return;
    if (ast_find_fn(c->ast, n->name) || builtin_find(n->name))
        check_fault(c, n->loc, "`%s` is a function: call it with (...)", n->name);
    else unknown_name(c, n);
}

void check_type_name(Check *c, const Node *type, bool is_const)
{
    if (check_is_type(type->name)) return;
    const Name *n = check_find(c, type->name);
    bool word = !strcmp(type->name, "int") || !strcmp(type->name, "float");
    if (n || (is_const && (word || !strcmp(type->name, "type")))) return;
    Diag *d = check_fault(c, type->loc, "unknown type `%s`", type->name);
    if (word)
        check_note(c, d,
            type->name[0] == 'i' ? "write `i32`, or `index` for sizes and subscripts; `int` is for constants"
                                 : "write `f32`; `float` is for constants");
    else habit_of_type(c->s, d, type->name);
}
