/* computed_inputs.c: gives an input of which a kernel takes nothing but what it computes from it, element by
 * element, that result in its place.
 *
 *   %g = load %G[%i, %k] : f16[128, 64]
 *   %u = load %U[%i, %k] : f16[128, 64]                    in %G: tensor<f16, 2>, which holds silu(G) * U
 *   %a = ..silu(%g) * %u.. : f16[128, 64]         ->       %a = load %G[%i, %k] : f16[128, 64]
 *   %n = mma %a, %w, %s                                    %n = mma %a, %w, %s
 *
 * A product whose operand is computed does so in every program that reads an element: once for each tile of
 * columns. A launch may compute the whole operand once instead (runtime/launch/pitch.c), by a kernel with the
 * same operations, which this file writes as text. It is what converted_inputs.c does for casts.
 *
 * Requires: an operand of at most 16 bits of a product, of element-wise operations without attributes,
 * constants, and loads of one window of inputs with two axes of the same dimensions, padded with zeros, of
 * which zeros make a zero. Vectors may scale rows or columns of the window. A window may also lie behind that
 * one by a constant or by the extent of a dimension, as the second half of rows that hold gates and values
 * does. Every access to the input must be such a load, and all operands that are computed from it must be
 * computed in the same way. Nothing else may use the input or what is made of it on the way. Keeps:
 * everything, within the bounds of functions, whose form may depend on what uses them. A NaN or an infinity
 * in a vector is not multiplied by the zeros beyond the end of rows. */
#include "passes/tile/launch/computed.h"
#include <math.h>

static int visit(Computing *x, Value *v);

static int known(const Computing *x, const Value *v)
{
    for (int k = 0; k < x->n; k++)
        if (x->value[k] == v) return k;
    return -1;
}

static int fail(Computing *x)
{
    x->fails = true;
    return 0;
}

static int add(Computing *x, Value *v, Entry entry)
{
    if (x->n == MAX_VALUES) return fail(x);
    x->value[x->n] = v;
    x->entry[x->n] = entry;
    return x->n++;
}

/* The number of the window or vector among those that the expression is computed from; -1: there are too
 * many.
 */
static int take_from(ComputedInput *made, ComputedFrom from)
{
    int at = 0;
    while (at < made->n && memcmp(&made->from[at], &from, sizeof from)) at++;
    if (at == MOST_COMPUTED_FROM) return -1;
    made->from[at] = from;
    made->n += at == made->n;
    return at;
}

/* A window of known columns. Rows behind the tensors are zeros, elements of columns need not be. */
static int visit_rows(Computing *x, Instr *i)
{
    MemParts m;
    if (!computed_is_read(x, i, &m)) return fail(x);
    ComputedFrom from = { m.param, -1, -1, 0, 0 };
    int at = computed_is_of_rows(x, i, &m, &from) ? take_from(x->made, from) : -1;
    bool host = m.param == x->host;
    if (at < 0) return fail(x);
    x->loads += host;
    return add(x, ir_result(i),
        (Entry){ arena_printf(&x->s->arena, "x%d", at), { 0 }, from.axis == 1, host, (int)from.axis });
}

static int visit_load(Computing *x, Instr *i)
{
    MemParts m;
    if (x->rows) return visit_rows(x, i);
    if (!computed_is_window(x, i, &m)) return fail(x);
    ComputedFrom from = { m.param, -1, -1, 0, 0 };
    if (!(m.rank == 1 ? computed_is_vector(x, &m, &from) : computed_same_window(x, i, &m, &from)))
        return fail(x);
    int at = take_from(x->made, from);
    if (at < 0) return fail(x);
    bool host = m.param == x->host;
    x->loads += host;
    return add(x, ir_result(i),
        (Entry){ arena_printf(&x->s->arena, "x%d", at), { 0 }, m.rank == 1, host, (int)from.axis });
}

static int visit_const(Computing *x, Value *v)
{
    DType d = v->type->dtype;
    int64_t n = 0;
    double r = 0;
    Arena *a = &x->s->arena;
    if (ir_is_const_float(v, &r) && isfinite(r))
        return add(x, v,
            (Entry){ arena_printf(a, "%s(%.17g)", dtype_name(d), r), scalar_float(r), false, false, -1 });
    if (d == DT_BOOL || !ir_is_const(v, &n)) return fail(x);
    return add(x, v,
        (Entry){ arena_printf(a, "%s(%lld)", dtype_name(d), (long long)n), scalar_int(n), false, false, -1 });
}

/* A vector as rows or columns of a tile. */
static int visit_reshape(Computing *x, Value *v)
{
    Value *from = ir_operand(v->def, 0);
    if (from->type->rank != 1 || v->type->rank != 2) return fail(x);
    int at = visit(x, from);
    if (x->fails) return 0;
    Entry e = x->entry[at];
    if (e.axis < 0 || v->type->shape[1 - e.axis] != 1) return fail(x);
    e.name = arena_printf(&x->s->arena, e.axis ? "%s[None, :]" : "%s[:, None]", e.name);
    return add(x, v, e);
}

static const char *operator_of(Op op)
{
    static const struct {
        Op op;
        const char *sign;
    } of[] = { { OP_ADD, "+" }, { OP_SUB, "-" }, { OP_MUL, "*" }, { OP_DIV, "/" }, { OP_AND, "&" },
        { OP_OR, "|" }, { OP_XOR, "^" }, { OP_SHL, "<<" }, { OP_SHR, ">>" }, { OP_EQ, "==" }, { OP_NE, "!=" },
        { OP_LT, "<" }, { OP_LE, "<=" }, { OP_GT, ">" }, { OP_GE, ">=" } };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        if (of[k].op == op) return of[k].sign;
    return NULL;
}

/* Whether the language calls the operation by its name in the IR. */
static bool is_called(Op op)
{
    static const Op names[] = { OP_ABS, OP_FMA, OP_MIN, OP_MAX, OP_MINNUM, OP_MAXNUM, OP_CLAMP, OP_WHERE };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (names[k] == op) return true;
    return op_family(op) == OPS_FUNCTION;
}

static char *expression(Computing *x, const Instr *i, const int *at)
{
    Arena *a = &x->s->arena;
    const char *sign = operator_of(i->op), *first = x->entry[at[0]].name;
    if (i->op == OP_CAST) return arena_printf(a, "%s(%s)", dtype_name(i->results[0].type->dtype), first);
    if (i->op == OP_NEG || i->op == OP_NOT) return arena_printf(a, i->op == OP_NEG ? "-%s" : "!%s", first);
    if (sign) return arena_printf(a, "%s %s %s", first, sign, x->entry[at[1]].name);
    char *t = arena_printf(a, "%s(%s", op_info[i->op].name, first);
    for (int k = 1; k < i->n_operands; k++) t = arena_printf(a, "%s, %s", t, x->entry[at[k]].name);
    return arena_printf(a, "%s)", t);
}

/* What is known of the result of operands of which this is known. A product with zero is zero whatever a
 * vector holds. */
static bool result_of(const Instr *i, const Entry *of, Entry *result)
{
    const Type *t = i->results[0].type;
    DType d = ir_operand(i, i->op == OP_WHERE)->type->dtype;
    Scalar v[MAX_OPERANDS];
    bool zero = false;
    for (int k = 0; k < i->n_operands; k++) {
        v[k] = of[k].of_zeros;
        result->unknown |= of[k].unknown;
        result->of_host |= of[k].of_host;
        if (t->rank == 1 && of[k].axis >= 0) result->axis = of[k].axis;
        zero |= i->op == OP_MUL && !of[k].unknown && (dtype_is_float(d) ? v[k].f == 0 : v[k].i == 0);
    }
    if (zero && result->unknown) {
        result->unknown = false;
        result->of_zeros = dtype_is_float(d) ? scalar_float(0) : scalar_int(0);
        return true;
    }
    if (i->op == OP_CAST) result->of_zeros = scalar_cast(t->dtype, d, v[0]);
    return i->op == OP_CAST || scalar_op(i->op, d, v, &result->of_zeros);
}

static int visit_elementwise(Computing *x, Instr *i)
{
    int at[MAX_OPERANDS] = { 0 };
    Entry of[MAX_OPERANDS], result = { .axis = -1 };
    Value *r = ir_result(i);
    bool written = i->op == OP_CAST || i->op == OP_NEG || (i->op == OP_NOT && r->type->dtype == DT_BOOL) ||
                   operator_of(i->op) || is_called(i->op);
    if (!written || i->n_attrs || i->n_operands > MAX_OPERANDS) return fail(x);
    for (int k = 0; k < i->n_operands && !x->fails; k++) of[k] = x->entry[at[k] = visit(x, ir_operand(i, k))];
    if (x->fails || !result_of(i, of, &result)) return fail(x);
    result.name = arena_printf(&x->s->arena, "v%d", x->n);
    text_printf(&x->text, "    let %s = %s;\n", result.name, expression(x, i, at));
    return add(x, r, result);
}

/* A reduction of rows. */
static int visit_reduction(Computing *x, Instr *i)
{
    const char *name = i->op == OP_REDUCE_SUM   ? "sum"
                       : i->op == OP_REDUCE_MAX ? "max"
                       : i->op == OP_REDUCE_MIN ? "min"
                                                : NULL;
    const Type *t = ir_operand(i, 0)->type;
    if (!x->rows || !name || t->rank != 2 || ir_attr_int(i, ATTR_AXIS, -1) != 1 ||
        ir_attr_int(i, ATTR_DROP, 0) || i->n_attrs > 2 || !dtype_is_float(t->dtype))
        return fail(x);
    int at = visit(x, ir_operand(i, 0));
    if (x->fails) return 0;
    Entry e = x->entry[at];
    if (i->op == OP_REDUCE_SUM && e.of_zeros.f != 0) e.unknown = true;
    char *from = e.name;
    e.axis = -1;
    e.name = arena_printf(&x->s->arena, "v%d", x->n);
    text_printf(&x->text, "    let %s = %s(%s, axis = 1);\n", e.name, name, from);
    return add(x, ir_result(i), e);
}

/* Columns side by side, all of which are zeros where windows are. */
static int visit_concat(Computing *x, Instr *i)
{
    char *list = "";
    Entry e = { .axis = -1 };
    if (!x->rows || ir_attr_int(i, ATTR_AXIS, -1) != 1 || ir_result(i)->type->rank != 2 ||
        !dtype_is_float(ir_result(i)->type->dtype))
        return fail(x);
    for (int k = 0; k < i->n_operands; k++) {
        int at = visit(x, ir_operand(i, k));
        if (x->fails || x->entry[at].unknown || x->entry[at].of_zeros.f != 0) return fail(x);
        e.of_host |= x->entry[at].of_host;
        list = arena_printf(&x->s->arena, "%s%s, ", list, x->entry[at].name);
    }
    e.of_zeros = scalar_float(0);
    e.name = arena_printf(&x->s->arena, "v%d", x->n);
    text_printf(&x->text, "    let %s = concat(%saxis = 1);\n", e.name, list);
    return add(x, ir_result(i), e);
}

/* The number of the value among those of the expression. */
static int visit(Computing *x, Value *v)
{
    int at = known(x, v);
    Instr *i = v->def;
    if (at >= 0 || x->fails) return at < 0 ? 0 : at;
    if (!i || x->n > MAX_VALUES - 2) return fail(x);
    if (i->op == OP_SPLAT || i->op == OP_BROADCAST) return visit(x, ir_operand(i, 0));
    if (i->op == OP_CONST) return visit_const(x, v);
    if (i->op == OP_RESHAPE) return visit_reshape(x, v);
    if (i->op == OP_CONCAT) return visit_concat(x, i);
    if (op_family(i->op) == OPS_REDUCE) return visit_reduction(x, i);
    return i->op == OP_LOAD ? visit_load(x, i) : op_is_elementwise(i->op) ? visit_elementwise(x, i) : fail(x);
}

/* Whether the user takes the value to the operand: directly, or where vectors repeat. */
static bool is_on_the_way(const Computing *x, const Instr *user)
{
    if (!user->n_results) return false;
    if (user->op == OP_BROADCAST || user->op == OP_SPLAT) {
        for (const Use *u = user->results[0].uses; u; u = u->next)
            if (!is_on_the_way(x, u->user)) return false;
        return true;
    }
    return known(x, &user->results[0]) >= 0;
}

/* Whether what is computed of the host is used on the way to the operand alone. */
static bool is_used_here_alone(const Computing *x, const Value *operand)
{
    for (int k = 0; k < x->n; k++)
        for (const Use *u = x->value[k]->uses; u && x->entry[k].of_host && x->value[k] != operand;
            u = u->next)
            if (!is_on_the_way(x, u->user)) return false;
    return true;
}

/* Whether the operand is computed from the host, which is x0, at the window of this load, and how. */
static bool find_expression(Computing *x, Value *operand, Instr *load)
{
    const Type *t = operand->type;
    MemParts m;
    if (x->rows && !computed_is_host_of_rows(x, operand, load)) return false;
    *x->made = (ComputedInput){ .to = t->dtype, .n = 1, .columns = x->rows ? t->shape[1] : 0 };
    memset(x->made->from, 0, sizeof x->made->from);
    x->made->from[0] = (ComputedFrom){ x->host, -1, -1, 0, 0 };
    x->load = load;
    if (x->rows && !(ir_mem_parts(load, &m) && computed_known_columns(x, load, &m, &x->made->from[0])))
        return false;
    x->n = x->loads = 0;
    x->fails = false;
    text_init(&x->text, &x->s->arena);
    int last = visit(x, operand);
    if (x->fails || !is_used_here_alone(x, operand)) return false;
    const Entry *e = &x->entry[last];
    text_printf(&x->text, "    let y = %s;\n", e->name);
    x->made->body = x->text.data;
    return !e->unknown && (dtype_is_float(t->dtype) ? e->of_zeros.f == 0 : e->of_zeros.i == 0);
}

/* The loads of the parameter that the value is computed of, without what other parameters give. */
static void collect_loads(Arena *a, const Value *v, int param, int depth, InstrList *loads)
{
    MemParts m;
    Instr *i = v->def;
    bool there = !i || depth > MAX_DEPTH;
    for (size_t k = 0; k < loads->len && !there; k++) there = loads->data[k] == i;
    if (there) return;
    if (i->op == OP_LOAD && ir_mem_parts(i, &m) && m.param == param) vec_push(a, loads, i);
    bool follows = op_is_elementwise(i->op) || i->op == OP_BROADCAST || i->op == OP_RESHAPE ||
                   i->op == OP_CONCAT || op_family(i->op) == OPS_REDUCE;
    for (int k = 0; follows && k < i->n_operands; k++)
        collect_loads(a, ir_operand(i, k), param, depth + 1, loads);
}

/* --- the function ------------------------------------------------------------------------------------- */

/* The operands of products that are computed from the host, each once. */
static void collect_operands(const Func *f, Arena *a, ValueList *operands)
{
    InstrList products = { 0 };
    ir_collect(a, f->body, OP_MMA, &products);
    for (size_t n = 0; n < 2 * products.len; n++) {
        Value *v = ir_operand(products.data[n / 2], n % 2);
        while (v->def && v->def->op == OP_PERMUTE) v = ir_operand(v->def, 0);
        bool there = false;
        for (size_t k = 0; k < operands->len; k++) there |= operands->data[k] == v;
        if (!there) vec_push(a, operands, v);
    }
}

static bool same_expression(const ComputedInput *a, const ComputedInput *b)
{
    return a->to == b->to && a->n == b->n && a->columns == b->columns &&
           !memcmp(a->from, b->from, sizeof a->from) && !strcmp(a->body, b->body);
}

/* An operand that is computed of the parameter, and the load whose window is that of the result. */
typedef struct Found {
    Value *operand;
    Instr *load;
} Found;
typedef VEC(Found) FoundList;

/* Whether the operand is one of products that something computes, in a type of matrices. */
static bool is_computed(const Value *v)
{
    const Type *t = v->type;
    return v->def && (op_is_elementwise(v->def->op) || v->def->op == OP_CONCAT) && t->rank == 2 &&
           dtype_bytes(t->dtype) <= 2 && t->dtype != DT_BOOL;
}

/* The operands that are computed from the parameter, all in the same way: element by element, or whole rows.
 * False: there are none. */
static bool find_in_form(Session *s, Func *f, int param, bool rows, ComputedInput *made, FoundList *found)
{
    ValueList operands = { 0 };
    found->len = 0;
    int loads = 0, uses = 0;
    const Param *p = &f->params[param];
    if (p->kind != PARAM_IN || p->type->kind != TYPE_TENSOR) return false;
    Computing *x = arena_array(&s->arena, Computing, 1);
    ComputedInput one;
    *x = (Computing){
        .s = s, .f = f, .host = param, .rows = rows, .made = &one, .facts = facts_new(&s->arena, f)
    };
    collect_operands(f, &s->arena, &operands);
    for (size_t n = 0; n < operands.len; n++) {
        Value *v = operands.data[n];
        InstrList its = { 0 };
        size_t k = 0;
        if (is_computed(v)) collect_loads(&s->arena, v, param, 0, &its);
        while (k < its.len && !find_expression(x, v, its.data[k])) k++;
        if (k == its.len) continue;
        if (found->len && !same_expression(made, &one)) return false;
        *made = one;
        loads += x->loads;
        vec_push(&s->arena, found, ((Found){ v, its.data[k] }));
    }
    for (const Use *u = f->body->args[param]->uses; u; u = u->next) uses++;
    return loads && loads == uses;
}

static bool find_operands(Session *s, Func *f, int param, ComputedInput *made, FoundList *found)
{
    return (f->params[param].type->rank == 2 && find_in_form(s, f, param, false, made, found)) ||
           find_in_form(s, f, param, true, made, found);
}

ComputedInput input_computed(Session *s, Func *f, int param)
{
    ComputedInput made;
    FoundList found = { 0 };
    return find_operands(s, f, param, &made, &found) ? made : (ComputedInput){ .to = DT_COUNT };
}

/* Zeros in the place of what the load gave. */
static void without(Instr *load)
{
    Builder b = ir_before(load);
    const Type *t = ir_result(load)->type;
    ir_replace(ir_result(load), dtype_is_float(t->dtype) ? build_float(&b, t, 0) : build_int(&b, t, 0));
}

/* Makes the window one of whole rows. */
static void whole_rows(Session *s, Instr *load, const MemParts *m, int64_t columns)
{
    Attr e = *ir_attr(load, ATTR_EXTENTS);
    int last = m->rank - 1;
    int64_t *v = arena_array(&s->arena, int64_t, (size_t)e.n);
    memcpy(v, e.v, (size_t)e.n * sizeof *v);
    v[last] = columns;
    e.v = v;
    ir_set_attr(s, load, e);
    Builder b = ir_before(load);
    Value *zero = ir_const_int(&b, m->idx[last]->type->dtype, 0);
    for (int k = load->n_operands - 1; k >= 0; k--)
        if (ir_operand(load, k) == m->idx[last] && k == 1 + last) ir_set_operand(load, k, zero);
}

/* Makes the load one of the operand itself, and erases the other loads of the parameter. What was computed of
 * them is left to dce. */
static void load_instead(Session *s, const Found *found, const ComputedInput *made, int param)
{
    Instr *i = found->load;
    Value *operand = found->operand;
    Builder b = ir_before(i);
    InstrList its = { 0 };
    MemParts m;
    collect_loads(&s->arena, operand, param, 0, &its);
    for (size_t k = 0; k < its.len; k++) {
        without(its.data[k]);
        if (its.data[k] != i) ir_erase(its.data[k]);
    }
    ir_mem_parts(i, &m);
    m.result->type = operand->type;
    if (made->columns) whole_rows(s, i, &m, made->columns);
    if (m.pad) {
        const Type *t = type_with_dtype(s, m.pad->type, operand->type->dtype);
        Value *pad = dtype_is_float(t->dtype) ? build_float(&b, t, 0) : build_int(&b, t, 0);
        for (int k = 0; k < i->n_operands; k++)
            if (ir_operand(i, k) == m.pad) ir_set_operand(i, k, pad);
    }
    ir_replace(operand, m.result);
}

bool compute_input(Session *s, Func *f, int param, DType to)
{
    ComputedInput made;
    FoundList found = { 0 };
    if (!find_operands(s, f, param, &made, &found) || made.to != to) return false;
    for (size_t n = 0; n < found.len; n++) load_instead(s, &found.data[n], &made, param);
    ir_set_element_type(s, f, param, to);
    Param *p = &f->params[param];
    if (p->align < dtype_bytes(to)) p->align = dtype_bytes(to);
    return true;
}
