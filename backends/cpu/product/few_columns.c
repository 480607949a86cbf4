/* few_columns.c: products of few columns, of whose sums every iteration computes something. Tile IR before
 * the plan is made:
 *
 *     s = mma(w, a, 0)         [64, 4]            s = mma(transpose a, transpose w, 0)  [4, 64]
 *     acc = fma(x, s, acc)     [64, 4]     ->     acc = fma(transpose x, s, acc)        [4, 64]
 *     store transpose(acc)     [4, 64]            store acc                             [4, 64]
 *
 * Nests walk along the last axis. Rows of a few elements take no vectors, and what is the same for a row, as
 * the scale of a row of w is, is computed for each by itself. So all tiles that the sums become are
 * transposed, if those that leave them are transposed anyway. A sum of integers is the same in any order;
 * products whose sums are floats stay as they are. */
#include "backends/cpu/product/mma.h"
#include "backends/cpu/product/thin.h"

typedef struct Transposed {
    Session *session;
    int64_t rows, columns;
    uint8_t *marked; /* by value */
    VEC(Value *) all;
    int computed; /* element-wise operations in loops */
} Transposed;

static bool mark(Transposed *t, Value *v)
{
    const Type *type = v->type;
    if (t->marked[v->id]) return true;
    if (type->kind != TYPE_TILE || type->rank != 2) return false;
    if (type->shape[0] != t->rows || type->shape[1] != t->columns) return false;
    t->marked[v->id] = 1;
    vec_push(&t->session->arena, &t->all, v);
    return true;
}

static bool mark_carried(Transposed *t, Instr *loop, int k)
{
    const Block *body = loop->blocks[0];
    return mark(t, &loop->results[k]) && mark(t, body->args[k + 1]) && mark(t, ir_operand(loop, k + 3)) &&
           mark(t, ir_operand(body->last, k));
}

static bool swaps(const Instr *i) { return i->op == OP_PERMUTE && ir_attr(i, ATTR_ORDER)->v[0] == 1; }

static bool is_window(const Instr *i) { return i->op == OP_LOAD && i->n_results == 1; }

static bool mark_operands(Transposed *t, const Instr *i)
{
    for (int k = 0; k < i->n_operands; k++)
        if (ir_operand(i, k)->type->kind == TYPE_TILE && !mark(t, ir_operand(i, k))) return false;
    t->computed += i->block->parent != NULL;
    return true;
}

/* What makes the value can make it turned. */
static bool mark_source(Transposed *t, Value *v)
{
    Instr *i = v->def, *loop = v->def ? v->def : v->block->parent;
    if (!i) return loop && loop->op == OP_FOR && v->index > 0 && mark_carried(t, loop, v->index - 1);
    if (i->op == OP_FOR) return mark_carried(t, i, v->index);
    if (i->op == OP_SPLAT || swaps(i) || is_window(i)) return true;
    if (i->op == OP_BROADCAST) return ir_operand(i, 0)->type->rank == 2;
    if (i->op == OP_MMA) return !dtype_is_float(v->type->dtype) && mark(t, ir_operand(i, 2));
    return op_is_elementwise(i->op) && i->n_results == 1 && mark_operands(t, i);
}

/* What takes the value can take it turned. */
static bool mark_use(Transposed *t, const Use *u)
{
    Instr *i = u->user;
    int k = (int)(u - i->operands);
    if (swaps(i)) return true;
    if (i->op == OP_YIELD) {
        Instr *loop = i->block->parent;
        return loop && loop->op == OP_FOR && mark_carried(t, loop, k);
    }
    if (i->op == OP_FOR) return k >= 3 && mark_carried(t, i, k - 3);
    if (i->op == OP_MMA) return k == 2 && mark(t, ir_result(i));
    return op_is_elementwise(i->op) && i->n_results == 1 && mark(t, ir_result(i));
}

static bool mark_all(Transposed *t, Value *sums)
{
    if (!mark(t, sums)) return false;
    for (size_t k = 0; k < t->all.len; k++) {
        Value *v = t->all.data[k];
        if (!mark_source(t, v)) return false;
        for (const Use *u = v->uses; u; u = u->next)
            if (!mark_use(t, u)) return false;
    }
    return t->computed > 0;
}

/* --- turning ----------------------------------------------------------------------------------------- */

static const Type *transposed_type(Session *s, const Type *t)
{ return type_tile(s, t->dtype, 2, (int64_t[]){ t->shape[1], t->shape[0] }); }

/* Lets a load, whose result gets the other type, read its window along the other axis. */
static void exchange_axes(Session *s, Instr *load)
{
    const Attr *had = ir_attr(load, ATTR_ORDER);
    if (had && had->v[0] == 1) ir_del_attr(load, ATTR_ORDER);
    else ir_set_attr(s, load, a_ints(ATTR_ORDER, ((const int64_t[]){ 1, 0 }), 2));
}

/* Whether a row becomes a matrix of one row or one column, whose elements follow each other in either. */
static bool is_row(const Instr *i)
{
    const Type *from = i->op == OP_RESHAPE ? ir_operand(i, 0)->type : NULL, *to = ir_result(i)->type;
    return from && from->kind == TYPE_TILE && from->rank == 1 && (to->shape[0] == 1 || to->shape[1] == 1);
}

/* A tile of rank 2 that is not marked, transposed for instruction `user`. */
static Value *transposed(Transposed *t, Value *v, Instr *user)
{
    Instr *i = v->def;
    Builder b = ir_before(user);
    const Type *type = transposed_type(t->session, v->type);
    if (i && swaps(i)) return ir_operand(i, 0);
    if (i && is_row(i)) return ir_op(&b, OP_RESHAPE, type, NO_ATTRS, ir_operand(i, 0));
    if (i && is_window(i) && ir_use_count(v) == 1) {
        exchange_axes(t->session, i);
        v->type = type;
        return v;
    }
    return ir_op(&b, OP_PERMUTE, NULL, ATTRS(a_ints(ATTR_ORDER, ((const int64_t[]){ 1, 0 }), 2)), v);
}

static void erase_unused(Instr *i)
{
    if (i && !ir_is_used(i)) ir_erase(i);
}

static void transpose_operands(Transposed *t, Instr *i)
{
    if (is_window(i)) exchange_axes(t->session, i);
    if (i->op != OP_BROADCAST && i->op != OP_MMA) return;
    Value *by[2];
    Instr *before[2] = { NULL, NULL };
    int n = i->op == OP_MMA ? 2 : 1;
    for (int k = 0; k < n; k++) before[k] = ir_operand(i, k)->def;
    for (int k = 0; k < n; k++) by[k] = transposed(t, ir_operand(i, k), i);
    for (int k = 0; k < n; k++) ir_set_operand(i, k, by[n - 1 - k]);
    for (int k = 0; k < n; k++)
        if (!k || before[1] != before[0]) erase_unused(before[k]);
}

/* What turns `v` back is `by`. */
static void replace_permuted(Value *v, Value *by)
{
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (!swaps(u->user)) continue;
        ir_replace(ir_result(u->user), by);
        ir_erase(u->user);
    }
}

/* A marked tile that is another one, turned, is that one now; the others have their own elements, turned. */
static void transpose(Transposed *t)
{
    for (size_t k = 0; k < t->all.len; k++) {
        Value *v = t->all.data[k];
        if (v->def && swaps(v->def)) {
            replace_permuted(v, ir_operand(v->def, 0));
            ir_replace(v, ir_operand(v->def, 0));
            ir_erase(v->def);
            continue;
        }
        v->type = transposed_type(t->session, v->type);
        if (v->def) transpose_operands(t, v->def);
        replace_permuted(v, v);
    }
}

/* Few columns, of which a vector has as many rows. */
static bool may_transpose(const CpuTarget *target, const Instr *mma)
{
    const Type *r = ir_result(mma)->type;
    int64_t lanes = target->vector_bytes / 4;
    if (target->avx512 &&
        (dtype_bits(ir_operand(mma, 0)->type->dtype) != 8 || mma_is_amx(mma_kind(target, mma))))
        return false;
    return r->rank == 2 && r->shape[0] != r->shape[1] && r->shape[1] > 1 && r->shape[1] <= MOST_THIN_ROWS &&
           r->shape[0] % lanes == 0;
}

void cpu_few_columns(Session *s, Func *f, const CpuTarget *target)
{
    InstrList products = { 0 };
    if (target->arm) return;
    ir_collect(&s->arena, f->body, OP_MMA, &products);
    for (size_t k = 0; k < products.len; k++) {
        Value *r = ir_result(products.data[k]);
        Transposed t = { .session = s, .rows = r->type->shape[0], .columns = r->type->shape[1] };
        if (!may_transpose(target, products.data[k])) continue;
        t.marked = arena_array(&s->arena, uint8_t, f->module->next_id);
        if (!mark_all(&t, r)) continue;
        transpose(&t);
    }
}
