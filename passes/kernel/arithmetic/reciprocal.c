/* reciprocal: replaces the division of a row by one value by a product with the value's reciprocal.
 *
 *   %y = div %x, broadcast %l; %h = cast %y : f16     ->  %r = div 1, %l; %h = cast (mul %x, broadcast %r)
 *
 * The value is a tile that repeats along the row, or a scalar. The reciprocal of a constant is a constant.
 * f32 has no reciprocal of a number below 2^-128. So where a value is below 2^-64, both it and the dividends
 * are multiplied by 2^64 before. That is a second product an element, which is left out where the value
 * cannot be so small (never_small.c): a softmax's sum, a square root, what is at least a constant.
 *
 * Requires: every use of the quotient rounds it to 16 bits, at once or behind the sum or difference with a
 * selection between 0 and a constant. Quotients are often exactly between two numbers of 8 bits, where the
 * error would decide. The product's error of 2 ulp of f32 (1 of the reciprocal, as the hardware gives it,
 * also for denormal numbers) then moves about one result in three thousand by one of its own ulps. It
 * replaces a division an element by a multiplication. A correctly rounded reciprocal would need a branch and
 * a call for a row in a million, and take a twentieth of NVRTC's time for attention. */
#include "passes/kernel/kernel.h"
#include <math.h>

/* The value, at least four times smaller, that repeats to make this divisor, or NULL. */
static Value *repeated(const Value *divisor)
{
    const Instr *b = divisor->def;
    if (!b || (b->op != OP_BROADCAST && b->op != OP_SPLAT)) return NULL;
    Value *l = ir_operand(b, 0);
    int64_t elements = l->type->kind == TYPE_TILE ? type_elements(l->type) : 1;
    return 4 * elements <= type_elements(divisor->type) ? l : NULL;
}

static bool is_narrowing(const Instr *i)
{
    return i->op == OP_CAST && dtype_is_float(ir_result(i)->type->dtype) &&
           dtype_bits(ir_result(i)->type->dtype) == 16;
}

/* Whether v is 0 or one other constant for each element, as the label's is in the gradient of a cross
 * entropy: where it is 0, the sum with it is the quotient, and elsewhere the quotient's error counts beside
 * the constant. */
static bool is_zero_or_one_constant(const Value *v)
{
    double a, b;
    return v->def && v->def->op == OP_WHERE && ir_is_const_float(ir_operand(v->def, 1), &a) &&
           ir_is_const_float(ir_operand(v->def, 2), &b) && (a == 0 || b == 0);
}

static bool only_narrowed(const Value *v, bool beside)
{
    for (const Use *u = v->uses; u; u = u->next) {
        const Instr *i = u->user;
        if (is_narrowing(i)) continue;
        if (beside || (i->op != OP_ADD && i->op != OP_SUB)) return false;
        const Value *other = ir_operand(i, ir_operand(i, 0) == v);
        if (!is_zero_or_one_constant(other) || !only_narrowed(ir_result(i), true)) return false;
    }
    return v->uses;
}

/* What makes a quotient of its dividend: one factor, or two. */
typedef struct Factors {
    Value *first, *then; /* then: NULL: there is none */
} Factors;

/* 1 / l of a constant; NULL: it would lose bits. */
static Value *constant_inverse(Builder *b, const Value *l, double c)
{
    if (!isnormal((float)(1 / c))) return NULL;
    Value *r = ir_const_float(b, DT_F32, (double)(float)(1 / c));
    return l->type->kind == TYPE_TILE ? ir_splat(b, r, l->type->rank, l->type->shape) : r;
}

/* A constant of l's shape. */
static Value *alike(Builder *b, const Value *l, double c)
{
    Value *v = ir_const_float(b, DT_F32, c);
    return l->type->kind == TYPE_TILE ? ir_splat(b, v, l->type->rank, l->type->shape) : v;
}

static Value *divided(Builder *b, Value *l)
{ return ir_op(b, OP_DIV, NULL, ATTRS(a_int(ATTR_APPROX, 2)), alike(b, l, 1), l); }

/* The factors for a value that may be so small that f32 has no reciprocal of it. */
static Factors scaled_inverse(Builder *b, Value *l)
{
    const double scale = 0x1p64;
    Value *least = alike(b, l, 1 / scale), *magnitude = ir_un(b, OP_ABS, l),
          *small = ir_bin(b, OP_LT, magnitude, least), *large = alike(b, l, scale), *one = alike(b, l, 1),
          *s = ir_op(b, OP_WHERE, NULL, NO_ATTRS, small, large, one);
    return (Factors){ s, divided(b, ir_bin(b, OP_MUL, l, s)) };
}

static Factors factors_of(Builder *b, Value *l, bool flushed)
{
    double c;
    if (ir_is_const_float(l, &c)) return (Factors){ constant_inverse(b, l, c), NULL };
    return kernel_never_small(l, flushed) ? (Factors){ divided(b, l), NULL } : scaled_inverse(b, l);
}

static Value *times(Builder *b, Value *x, Value *factor)
{
    const Type *t = x->type;
    if (factor->type->kind == TYPE_TILE) factor = ir_emit(b, OP_BROADCAST, &factor, 1, NO_ATTRS, t);
    else factor = ir_splat(b, factor, t->rank, t->shape);
    return ir_bin(b, OP_MUL, x, factor);
}

static void visit(void *user, Instr *i)
{
    const bool flushed = *(const bool *)user;
    const Type *t = i->n_results == 1 ? ir_result(i)->type : NULL;
    if (i->op != OP_DIV || t->kind != TYPE_TILE || t->dtype != DT_F32 || !only_narrowed(ir_result(i), false))
        return;
    Value *l = repeated(ir_operand(i, 1));
    Builder at = ir_before(i);
    Factors f = l ? factors_of(&at, l, flushed) : (Factors){ 0 };
    if (!f.first) return;
    Value *q = times(&at, ir_operand(i, 0), f.first);
    if (f.then) q = times(&at, q, f.then);
    ir_replace(ir_result(i), q);
    ir_erase(i);
}

void kernel_reciprocal(Func *f, bool flushed) { ir_walk(f->body, visit, &flushed); }

bool kernel_pass_reciprocal(KernelContext *c)
{
    uint32_t before = kernel_values(c);
    kernel_reciprocal(c->f, true);
    return kernel_grew(c, before);
}
