/* lower_notes.c: what to write instead, for mistakes of types and shapes that lowering reports. Nothing here
 * decides whether there is a mistake. */
#include "frontend/lower/lower.h"

/* The source text of an expression, for a note; NULL where it is long or over several lines. */
static const char *source_text(Lower *l, const Node *n)
{
    enum { LONGEST = 40 };
    const Source *src = diag_source(l->s, n->loc.file);
    uint32_t len = n->loc.end - n->loc.begin;
    if (!src || len == 0 || len > LONGEST || memchr(src->text + n->loc.begin, '\n', len)) return NULL;
    return arena_printf(&l->s->arena, "%.*s", (int)len, src->text + n->loc.begin);
}

/* A variable that an integer without a type made one of type index. */
static const char *began_note(Lower *l, const Var *var, const char *type)
{
    const bool real = !strcmp(type, "f32");
    return arena_printf(&l->s->arena,
        "`%s` is of type index, because it begins with an integer; write `var %s = %s%lld%s;` for %s",
        var->name, var->name, real ? "" : arena_printf(&l->s->arena, "%s(", type), (long long)var->began_as,
        real ? ".0" : ")", type);
}

/* The variable of that kind whose value v is; NULL: none. */
static const Var *began_as_integer(const Lower *l, V v)
{
    for (const Scope *s = v.kind == V_IR ? l->scope : NULL; s; s = s->outer)
        for (const Var *x = s->vars; x; x = x->next)
            if (x->is_var && x->began_as_integer && x->v.kind == V_IR && x->v.value == v.value) return x;
    return NULL;
}

const char *lower_type_note(Lower *l, V v, const char *type)
{
    const Var *x = began_as_integer(l, v);
    return x && strcmp(type, "bool")
               ? arena_printf(&l->s->arena, "write `%s(%s)`; %s", type, x->name, began_note(l, x, type))
               : arena_printf(&l->s->arena, "write `%s(...)`", type);
}

const char *lower_types_note(Lower *l, V a, V b)
{
    const char *da = dtype_name(value_dtype(a)), *db = dtype_name(value_dtype(b));
    const Var *x = began_as_integer(l, a), *y = began_as_integer(l, b);
    if ((x || y) && value_dtype(a) != DT_BOOL && value_dtype(b) != DT_BOOL)
        return began_note(l, x ? x : y, x ? db : da);
    if (value_dtype(a) == DT_BOOL || value_dtype(b) == DT_BOOL)
        return arena_printf(&l->s->arena, "nothing converts by itself; write `%s(...)` around the bool",
            value_dtype(a) == DT_BOOL ? db : da);
    return arena_printf(
        &l->s->arena, "nothing converts by itself; write `%s(...)` or `%s(...)` around one of them", da, db);
}

const char *lower_assign_note(Lower *l, const Var *var, V v)
{
    bool scalar = (v.kind == V_CONST || v.kind == V_IR) && !value_rank(v);
    return var->began_as_integer && scalar ? began_note(l, var, dtype_name(value_dtype(v)))
                                           : "a variable keeps its type and shape";
}

static bool is_comparison(const Node *n)
{ return n->kind == EXPR_BINARY && n->op >= OPR_EQ && n->op <= OPR_GE; }

const char *lower_tighter_note(Lower *l, const Node *n)
{
    if (n->op != OPR_AND && n->op != OPR_OR && n->op != OPR_XOR) return NULL;
    const Node *a = n->kids[0], *b = n->kids[1], *compared = is_comparison(b) ? b : a;
    if (is_comparison(a) == is_comparison(b)) return NULL;
    const char *of = ast_operator_text((Operator)n->op), *by = ast_operator_text((Operator)compared->op);
    const char *first = source_text(l, compared == b ? a : compared->kids[0]),
               *second = source_text(l, compared == b ? b->kids[0] : compared->kids[1]),
               *third = source_text(l, compared == b ? b->kids[1] : b);
    if (!first || !second || !third) return NULL;
    if (compared == b)
        return arena_printf(&l->s->arena, "as in C, `%s` binds tighter than `%s`; write `(%s %s %s) %s %s`",
            by, of, first, of, second, by, third);
    return arena_printf(&l->s->arena, "as in C, `%s` binds tighter than `%s`; write `%s %s (%s %s %s)`", by,
        of, first, by, second, of, third);
}

static bool is_number(const Value *v)
{
    const Instr *i = v->def;
    return i && (i->op == OP_CONST || (i->op == OP_SPLAT && is_number(ir_operand(i, 0))));
}

/* A choice between numbers without a type, which became indices because neither has one. */
static bool chooses_numbers(V v)
{
    const Instr *i = v.kind == V_IR ? v.value->def : NULL;
    return i && i->op == OP_WHERE && value_dtype(v) == DT_INDEX && is_number(ir_operand(i, 1)) &&
           is_number(ir_operand(i, 2));
}

const char *lower_mix_note(Lower *l, const Node *mixed, V x, V y)
{
    const Node *a = mixed->kids[0], *b = mixed->kids[1];
    const char *tighter = lower_tighter_note(l, mixed);
    if (tighter) return tighter;
    DType dx = value_dtype(x), dy = value_dtype(y);
    Arena *arena = &l->s->arena;
    if ((mixed->op == OPR_LAND || mixed->op == OPR_LOR) && (dx == DT_BOOL || dy == DT_BOOL))
        return "nothing converts by itself; compare the number, as in `x != 0`";
    const char *either = lower_types_note(l, x, y);
    if (chooses_numbers(x) || chooses_numbers(y))
        return arena_printf(arena,
            "both numbers of the `where` have no type and became `index`; give one a type: `where(c, %s(1), "
            "0)`",
            dtype_name(chooses_numbers(x) ? dy : dx));
    bool position = (dx == DT_INDEX && dtype_is_float(dy)) || (dy == DT_INDEX && dtype_is_float(dx));
    if (!position) return either;
    const Node *n = dx == DT_INDEX ? a : b;
    const char *type = dtype_name(dx == DT_INDEX ? dy : dx), *text = source_text(l, n);
    if (began_as_integer(l, dx == DT_INDEX ? x : y)) return either;
    return text ? arena_printf(arena, "nothing converts by itself; write `%s(%s)`", type, text) : either;
}

const char *lower_list_note(Lower *l, const Node *n)
{
    const char *text = source_text(l, n);
    return text ? arena_printf(&l->s->arena, "write `[%s]`", text) : NULL;
}

const char *lower_condition_note(Lower *l, const Node *n, V v)
{
    const char *text = value_is_number(v) ? source_text(l, n) : NULL;
    return text ? arena_printf(&l->s->arena, "write `%s != 0`", text) : NULL;
}

static bool is_reduction(V v) { return v.kind == V_IR && v.value->def && ir_attr(v.value->def, ATTR_DROP); }

/* Whether `wide` would have the rank of `narrow` without its axes of extent 1. */
static bool drops_to(V wide, V narrow)
{
    int left = 0;
    for (int i = 0; i < value_rank(wide); i++) left += value_shape(wide)[i] != 1;
    return left <= value_rank(narrow);
}

/* For a vector and a matrix: the axis that is missing from the vector. */
static const char *axis_note(V vector, V matrix)
{
    int64_t n = value_shape(vector)[0];
    const int64_t *shape = value_shape(matrix);
    bool columns = shape[1] == n || shape[1] == 1, rows = shape[0] == n || shape[0] == 1;
    if (columns && rows)
        return "ranks must be equal: `[None, :]` makes a row of the vector, `[:, None]` a column";
    if (columns) return "ranks must be equal; add an axis to the vector with `[None, :]`";
    if (rows) return "ranks must be equal; add an axis to the vector with `[:, None]`";
    return "ranks must be equal; `[None, :]` or `[:, None]` adds an axis to the vector";
}

const char *lower_shape_note(V a, V b)
{
    int ra = value_rank(a), rb = value_rank(b);
    if (ra == rb) return "extents must be equal or 1";
    V wide = ra > rb ? a : b, narrow = ra > rb ? b : a;
    if (is_reduction(wide) && drops_to(wide, narrow))
        return "ranks must be equal; a reduction keeps its axis with extent 1, and `drop = true` drops it";
    if (value_rank(narrow) == 1 && value_rank(wide) == 2) return axis_note(narrow, wide);
    return "ranks must be equal; add an axis with `x[:, None]`";
}

/* `max(x, 0)` reads like a reduction to whoever knows NumPy. */
void lower_axis_warning(Lower *l, const Node *call, V first, const Node *second)
{
    bool minus = second->kind == N_UNARY && second->op == OPR_NEG && second->kids[0]->kind == N_INT;
    const Node *literal = minus ? second->kids[0] : second;
    uint64_t rank = (uint64_t)value_rank(first);
    if (literal->kind != N_INT || !rank || (minus ? !literal->u || literal->u > rank : literal->u >= rank))
        return;
    const char *x = source_text(l, call->kids[0]);
    const char *sign = minus ? "-" : "", *name = call->name;
    if (!x) x = "x";
    Diag *d = diag_warning(l->s, call->loc,
        "`%s(%s, %s%llu)` compares each element with %s%llu; it does not reduce", name, x, sign,
        (unsigned long long)literal->u, sign, (unsigned long long)literal->u);
    diag_note(l->s, d, (Loc){ 0, 0, 0 },
        "`%s(%s, axis = %s%llu)` reduces; `%s(%s%llu, %s)` compares without a warning", name, x, sign,
        (unsigned long long)literal->u, name, sign, (unsigned long long)literal->u, x);
}

const char *lower_no_axis_note(Lower *l, const char *called, const char *tensor)
{
    const char *plain = !strcmp(called, "gather") ? "load" : !strcmp(called, "scatter") ? "store" : NULL;
    return plain ? arena_printf(&l->s->arena, "`%s` takes `%s[]`", plain, tensor)
                 : arena_printf(&l->s->arena,
                       "declare an axis, `%s[1]`, and name its element: `%s(%s[0], ...)`", tensor, called,
                       tensor);
}

const char *lower_constant_note(const char *what)
{
    static const struct {
        const char *what, *note;
    } notes[] = {
        { "the subscript of a tile", "load the element itself, or pick it: `sum(where(arange(n) == i, x, 0), "
                                     "drop = true)`; the counter "
                                     "of a `const for` is known" },
        { "the subscript of an array", "the counter of a `const for` is known" },
        { "start", "add it: `a + arange(n)` counts from any number" },
        { "the count of shift",
            "read what is so far away: `load(X[i - n +: 64])`, or `gather(X[arange(64) - n])`" },
        { "the extent of a window",
            "load windows of a constant extent, and mask what is behind the end: `where(arange(64) < n, "
            "load(X[i +: 64]), 0)`; a `const` parameter and a dimension of a tensor are known too" },
    };
    for (size_t k = 0; k < sizeof notes / sizeof *notes; k++)
        if (!strcmp(notes[k].what, what)) return notes[k].note;
    return "make it a `const` parameter, or a dimension of a tensor (then it is a specialization key)";
}

const char *lower_range_note(Lower *l, const char *what, int64_t i, int64_t hi)
{
    if (!strcmp(what, "axis") && hi >= 0)
        return hi ? arena_printf(&l->s->arena, "there are %lld axes, numbered from 0", (long long)hi + 1)
                  : "there is one axis, 0";
    if (i >= 0 || strcmp(what, "the step of a window")) return NULL;
    return "backwards: `gather(X[i - arange(n)])`, or a tensor with a negative stride";
}
