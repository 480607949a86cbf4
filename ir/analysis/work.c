/* work.c: see work.h. The work of a block is a constant, the work of its instructions, and for each loop in
 * it the number of iterations times the work of the loop's body. The number of iterations is computed by the
 * same scalar operations as in the kernel, copied into the new block. */
#include "ir/analysis/work.h"

enum {
    MOST_DEPTH = 32,   /* operations from a bound back to what a launch knows */
    MOST_OPERANDS = 3, /* of an element-wise operation */
    MEMORY_WORK = 2,   /* of an element that is loaded or stored: its place, and the access */
    ATOMIC_WORK = 64,  /* of an element that is changed atomically, without vectors */
};

typedef struct Counter {
    Func *f;
    Builder b;
    ValueMap copies; /* of values of the kernel */
    int depth;
    WorkOf *of;
    void *user;
    bool lower; /* of two programs in the middle */
} Counter;

static Value *number(Counter *c, int64_t n) { return ir_index(&c->b, n); }
static Value *binary(Counter *c, Op op, Value *x, Value *y) { return ir_bin(&c->b, op, x, y); }

static Value *scalar_of(Counter *, Value *);

/* The lower bound, the upper bound and the step of a loop as index scalars; false if one is not known. */
static bool bounds_of(Counter *c, const Instr *loop, Value *bound[3])
{
    for (int k = 0; k < 3; k++) {
        Value *v = scalar_of(c, ir_operand(loop, k));
        if (!v) return false;
        bound[k] = ir_cast(&c->b, v, DT_INDEX);
    }
    return true;
}

/* The value that stands for an argument of a block: an argument of the kernel, or the middle of the range of
 * a loop's counter. */
static Value *argument_of(Counter *c, const Value *v)
{
    const Instr *loop = v->block->parent;
    Value *bound[3];
    if (v->block == c->f->body) return c->b.block->args[v->index];
    if (!loop || loop->op != OP_FOR || v->index != 0 || !bounds_of(c, loop, bound)) return NULL;
    Value *half = binary(c, OP_DIV, binary(c, OP_SUB, bound[1], bound[0]), number(c, 2));
    return ir_cast(&c->b, binary(c, OP_ADD, bound[0], half), v->type->dtype);
}

/* The middle program of the grid. */
static Value *middle_program(Counter *c, const Instr *i)
{
    Value *programs =
        ir_emit(&c->b, OP_NUM_PROGRAMS, NULL, 0, ATTRS(a_int(ATTR_AXIS, ir_attr_int(i, ATTR_AXIS, 0))), NULL);
    if (c->lower) programs = binary(c, OP_SUB, programs, number(c, 1));
    return ir_cast(&c->b, binary(c, OP_DIV, programs, number(c, 2)), i->results[0].type->dtype);
}

static Value *result_of(Counter *c, const Instr *i)
{
    Value *operands[MOST_OPERANDS];
    if (i->op == OP_PROGRAM_ID) return middle_program(c, i);
    bool computed = op_is_pure(i->op) && op_is_elementwise(i->op) && i->n_operands <= MOST_OPERANDS;
    if (i->n_results != 1 || (!computed && i->op != OP_CONST && op_family(i->op) != OPS_LAUNCH)) return NULL;
    for (int k = 0; k < i->n_operands; k++)
        if (!(operands[k] = scalar_of(c, ir_operand(i, k)))) return NULL;
    return ir_emit(
        &c->b, i->op, operands, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, i->results[0].type);
}

/* A copy of the scalar in the new block; NULL: a launch does not know it. */
static Value *scalar_of(Counter *c, Value *v)
{
    Value *copy = value_map_get(&c->copies, v);
    if (copy != v) return copy;
    if (v->type->kind != TYPE_SCALAR || dtype_is_float(v->type->dtype) || c->depth >= MOST_DEPTH) return NULL;
    c->depth++;
    copy = v->def ? result_of(c, v->def) : argument_of(c, v);
    c->depth--;
    if (copy) value_map_set(&c->copies, v, copy);
    return copy;
}

static Value *trips_of(Counter *c, const Instr *loop)
{
    Value *bound[3];
    if (loop->op != OP_FOR || !bounds_of(c, loop, bound)) return number(c, WORK_UNKNOWN_TRIPS);
    Value *range = binary(c, OP_MAX, binary(c, OP_SUB, bound[1], bound[0]), number(c, 0));
    return binary(c, OP_CDIV, range, bound[2]);
}

static int64_t elements_of(const Value *v) { return type_is_value(v->type) ? type_elements(v->type) : 0; }

/* Comparisons of a sorting network: about half of log2(n) squared for each element. */
static int64_t sort_work(const Type *t)
{
    int64_t n = t->rank ? t->shape[t->rank - 1] : 1, log = 64 - __builtin_clzll((uint64_t)n | 1);
    return log * (log + 1) / 2;
}

int64_t work_of_instr(void *none, const Instr *i)
{
    (void)none;
    int64_t most = 0;
    for (int k = 0; k < i->n_results + i->n_operands; k++) {
        int64_t n = elements_of(k < i->n_results ? &i->results[k] : ir_operand(i, k - i->n_results));
        most = most > n ? most : n;
    }
    if (op_family(i->op) == OPS_PRODUCT) {
        const Type *a = ir_operand(i, 0)->type;
        return type_elements(i->results[0].type) * a->shape[a->rank - 1];
    }
    if (op_family(i->op) == OPS_SORT) return most * sort_work(ir_operand(i, 0)->type);
    if (ir_attr(i, ATTR_RMW) || i->op == OP_ATOMIC_CAS) return most * ATOMIC_WORK;
    return most * (op_family(i->op) == OPS_MEMORY ? MEMORY_WORK : op_info[i->op].cost);
}

static Value *work_of_block(Counter *c, const Block *b)
{
    int64_t fixed = 0;
    Value *loops = NULL;
    for (const Instr *i = b->first; i; i = i->next) {
        bool control = op_family(i->op) == OPS_CONTROL;
        if (!control) fixed += c->of(c->user, i);
        for (int k = 0; control && k < i->n_blocks; k++) {
            Value *inside = work_of_block(c, i->blocks[k]);
            if (i->op != OP_IF) inside = binary(c, OP_MUL, trips_of(c, i), inside);
            loops = loops ? binary(c, OP_ADD, loops, inside) : inside;
        }
    }
    Value *all = number(c, fixed);
    return loops ? binary(c, OP_ADD, all, loops) : all;
}

Block *work_of_program(Func *f, bool lower, WorkOf *of, void *user)
{
    Block *b = ir_block_new(f, NULL);
    Counter c = { .f = f, .b = ir_at_end(b), .of = of, .user = user, .lower = lower };
    for (int k = 0; k < f->body->n_args; k++) ir_block_arg(b, f->body->args[k]->type, f->body->args[k]->name);
    value_map_init(&c.copies, &f->module->session->arena);
    Value *work = work_of_block(&c, f->body);
    ir_build(&c.b, OP_YIELD, &work, 1, NO_ATTRS, NULL, 0);
    return b;
}
