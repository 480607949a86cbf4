/* held.c: operands that an operation takes from registers, and so must be held there.
 *
 * Two kinds of tiles are held nowhere. One without a layout is a function of coordinates. A `broadcast` has
 * the layout in which its users see it, but its elements are read from its operand's registers. Both will do
 * where elements are read one by one. They do not where an operation takes or overwrites whole registers:
 * accumulators and fragments of products; and what a block hands on to the next iteration of its loop, for by
 * then the operand of a broadcast may have its next value. `materialize` puts such tiles into registers.
 *
 * All of this is asked of kernel IR once layouts are there: of an operation whose result has one. */
#include "ir/ir.h"
#include <string.h>

static bool is_zero(const Value *v)
{
    double f;
    int64_t k;
    return (ir_is_const_float(v, &f) && f == 0 && !__builtin_signbit(f)) || (ir_is_const(v, &k) && k == 0);
}

/* The value that the operand of a block's end becomes: a result of the enclosing loop or if; NULL: of another
 * operation. */
static const Value *handed_to(const Instr *end, int k)
{
    const Instr *i = end->block->parent;
    int at = end->op == OP_CONDITION ? k - 1 : k;
    return i && at >= 0 && (i->op == OP_FOR || i->op == OP_WHILE || i->op == OP_IF) ? &i->results[at] : NULL;
}

bool ir_held_operand(const Instr *i, int k)
{
    const Value *v = ir_operand(i, k), *made = NULL;
    if (v->type->kind != TYPE_TILE) return false;
    bool wgmma = op_is_wgmma(i->op);
    /* The product "fma" reads elements of a and b one by one, through shared memory. */
    if (i->op == OP_MMA_SYNC && (k == 2 || strcmp(ir_attr(i, ATTR_INSTR)->s, "fma"))) made = ir_result(i);
    /* The first step of a wgmma does not add an accumulator that is zero. */
    if (wgmma && (k != 2 || v->type->layout || !is_zero(v))) made = ir_result(i);
    if (i->op == OP_OPAQUE || i->op == OP_SLIDE) made = ir_result(i);
    if (i->op == OP_WGMMA_WAIT) made = &i->results[k];
    if (i->op == OP_YIELD || i->op == OP_CONDITION) made = handed_to(i, k);
    return made && made->type->layout;
}

bool ir_is_held(const Value *v) { return v->type->layout && !(v->def && v->def->op == OP_BROADCAST); }

typedef struct Search {
    const Instr *at;
    int operand;
} Search;

static void look(void *user, Instr *i)
{
    Search *s = user;
    for (int k = 0; k < i->n_operands && !s->at; k++)
        if (ir_held_operand(i, k) && !ir_is_held(ir_operand(i, k))) *s = (Search){ i, k };
}

const Instr *ir_held_fault(const Func *f, int *operand)
{
    Search s = { 0 };
    ir_walk(f->body, look, &s);
    *operand = s.operand;
    return s.at;
}
