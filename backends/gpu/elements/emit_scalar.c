/* emit_scalar.c: expressions of scalars, and of elements: what an operation of the IR is in C. */
#include "backends/gpu/elements/emit_run.h"
#include <math.h>

const char *round_to(Emit *e, DType d, const char *x)
{
    if (!dtype_is_float(d) || dtype_bits(d) >= 32) return x;
    if (e->raw)
        return d == DT_F8E5M2 ? str(e, "%s(%s)", use(e, "finite_f8e5m2"), x)
                              : x; /* packing keeps an infinity */
    return str(e, "%s(%s)", use(e, str(e, "round_%s", dtype_name(d))), x);
}

const char *cast_expr(Emit *e, DType from, DType to, const char *x)
{
    if (from == to) return x;
    if (to == DT_BOOL) return str(e, "(%s != 0)", x);
    if (dtype_is_float(to)) {
        if (to == DT_F64) return str(e, "(double)(%s)", x);
        bool exact = dtype_is_float(from) && dtype_bits(from) < dtype_bits(to) && to == DT_F32;
        if (exact) return x;
        if (to == DT_F32) return str(e, "(float)(%s)", x);
        /* Narrow floats must be rounded once. Therefore f64 and wide integers have conversions of their own.
         */
        if (from == DT_F64) return str(e, "%s(%s)", use(e, str(e, "round_%s_f64", dtype_name(to))), x);
        if (dtype_is_int(from) && dtype_bits(from) > 16)
            return str(e, "%s((double)(%s))", use(e, str(e, "round_%s_f64", dtype_name(to))), x);
        /* 8 bits fit the mantissa of both f16 and bf16. */
        if (!dtype_is_float(from) && dtype_bits(from) <= 8 && dtype_bits(to) == 16)
            return str(e, "(float)(%s)", x);
        return round_to(e, to, dtype_is_float(from) ? x : str(e, "(float)(%s)", x));
    }
    if (dtype_is_float(from))
        return str(e, "%s(%s)",
            use(e,
                str(e, "%s_to_%s", from == DT_F64 ? "f64" : "f32", to == DT_INDEX ? "i64" : dtype_name(to))),
            x);
    return str(e, "(%s)(%s)", ctype(to), x);
}

const char *wrapped(Emit *e, DType d, const char *op, const char *a, const char *b)
{
    if (d == DT_INDEX || d == DT_U32 || d == DT_U64) return str(e, "(%s %s %s)", a, op, b);
    if (d == DT_I32) return str(e, "(i32)((u32)%s %s (u32)%s)", a, op, b);
    if (d == DT_I64) return str(e, "(i64)((u64)%s %s (u64)%s)", a, op, b);
    return str(e, "(%s)(%s %s %s)", ctype(d), a, op, b);
}

/* The type in which to divide, if both operands are known to be unsigned numbers and the divisor is above 0.
 * Such a division has a third of the instructions, and takes a third of the vendor compiler's time. */
static const char *unsigned_division(Emit *e, const Instr *i, DType d)
{
    if (!dtype_is_signed(d) || dtype_bits(d) < 32) return NULL;
    if (!e->ranges) e->ranges = ranges_new(e->f);
    RangeInfo a = range_of(e->ranges, ir_operand(i, 0)), b = range_of(e->ranges, ir_operand(i, 1));
    if (a.lo < 0 || b.lo < 1) return NULL;
    return a.hi <= UINT32_MAX && b.hi <= UINT32_MAX ? "u32" : "u64";
}

static const char *div_expr(Emit *e, const Instr *i, DType d, const char *a, const char *b)
{
    int64_t c;
    const char *op = i->op == OP_DIV ? "/" : "%";
    if (ir_is_const(ir_operand(i, 1), &c) && c != 0 && c != -1)
        return str(e, "(%s)(%s %s %s)", ctype(d), a, op, b);
    const char *u = unsigned_division(e, i, d);
    if (u) return str(e, "(%s)((%s)%s %s (%s)%s)", ctype(d), u, a, op, u, b);
    return str(e, "%s(%s, %s)",
        use(e, str(e, "%s_%s", i->op == OP_DIV ? "div" : "rem", d == DT_INDEX ? "i64" : dtype_name(d))), a,
        b);
}

/* Does v + c not wrap? */
static bool sum_fits(Emit *e, const Value *v, int64_t c, DType d)
{
    if (dtype_bits(d) < 32) return true; /* C computes in int */
    if (!e->ranges) e->ranges = ranges_new(e->f);
    RangeInfo sum = range_of(e->ranges, v);
    return !__builtin_add_overflow(sum.hi, c, &sum.hi) && (d != DT_U64 || sum.lo >= 0) &&
           range_fits((RangeInfo){ sum.hi, sum.hi, 1 }, d);
}

/* Whether ranges prove that `a op b` of i32 does not wrap, so that it can be written as it is. */
static const char *integer(Emit *e, const Instr *i, DType d, const char *op, const char *a, const char *b)
{
    if (d == DT_I32) {
        if (!e->ranges) e->ranges = ranges_new(e->f);
        RangeInfo r = range_of(e->ranges, ir_result(i));
        if (r.lo > INT32_MIN && r.hi < INT32_MAX) return str(e, "(%s %s %s)", a, op, b);
    }
    return wrapped(e, d, op, a, b);
}

static bool reaches_sum(const Value *v, int depth);

static bool argument_reaches_sum(const Block *b, int k, int depth)
{ return k >= b->n_args || reaches_sum(b->args[k], depth); }

static bool result_reaches_sum(const Instr *i, int k, int depth)
{ return k >= i->n_results || reaches_sum(&i->results[k], depth); }

/* Calls a function for the values to which a yield or a condition passes its operand `u`: results of its
 * branch or loop, and arguments of the loop's blocks. */
static bool yield_reaches_sum(const Use *u, int depth)
{
    const Instr *parent = u->user->block->parent;
    int k = (int)(u - u->user->operands);
    if (!parent || op_family(parent->op) != OPS_CONTROL) return true;
    switch (op_as_control(parent->op)) {
    case CONTROL_IF: return result_reaches_sum(parent, k, depth);
    case CONTROL_FOR:
        return result_reaches_sum(parent, k, depth) || argument_reaches_sum(parent->blocks[0], k + 1, depth);
    case CONTROL_WHILE: /* the first operand is the condition itself */
        if (u->user->op == OP_YIELD) return argument_reaches_sum(parent->blocks[0], k, depth);
        return k > 0 && (result_reaches_sum(parent, k - 1, depth) ||
                            argument_reaches_sum(parent->blocks[1], k - 1, depth));
    }
    return true;
}

/* Whether a sum or a difference uses the value, directly or negated, moved or selected. After a number of
 * steps, the answer is yes. */
static bool reaches_sum(const Value *v, int depth)
{
    enum { DEEP = 6 };
    if (depth > DEEP) return true;
    for (const Use *u = v->uses; u; u = u->next) {
        Op op = u->user->op;
        if (op == OP_ADD || op == OP_SUB) return true;
        if ((op == OP_NEG || op == OP_WHERE || op_has(op, OPF_MOVES)) &&
            reaches_sum(ir_result(u->user), depth + 1))
            return true;
        if ((op == OP_YIELD || op == OP_CONDITION) && yield_reaches_sum(u, depth + 1)) return true;
    }
    return false;
}

/* The compilers of the vendors combine a product and a sum into one fma. The pass `contract` decides which of
 * them are rounded once. A product that is still an operand of a sum must not be combined. */
static const char *product(Emit *e, const Instr *i, DType d, const char *const *x)
{
    bool alone =
        (d == DT_F32 || d == DT_F64) && !ir_attr_int(i, ATTR_APPROX, 0) && reaches_sum(ir_result(i), 0);
    return alone ? str(e, "%s(%s, %s)", use(e, d == DT_F64 ? "mul_alone_f64" : "mul_alone_f32"), x[0], x[1])
                 : round_to(e, d, str(e, "(%s * %s)", x[0], x[1]));
}

/* fma(x, y, -0.0) is how the language spells a product that is rounded by itself (docs/language.md). */
static const char *multiply_add(Emit *e, const Instr *i, DType d, const char *const *x)
{
    double z;
    if (!dtype_is_float(d)) return wrapped(e, d, "+", wrapped(e, d, "*", x[0], x[1]), x[2]);
    if (ir_is_const_float(ir_operand(i, 2), &z) && z == 0 && signbit(z)) return product(e, i, d, x);
    return round_to(
        e, d, str(e, "%s(%s, %s, %s)", use(e, d == DT_F64 ? "fma_f64" : "fma_f32"), x[0], x[1], x[2]));
}

static const char *division(Emit *e, const Instr *i, const char *const *x)
{
    DType d = ir_operand(i, 0)->type->dtype, rd = ir_result(i)->type->dtype;
    int64_t approx = ir_attr_int(i, ATTR_APPROX, 0);
    if (!dtype_is_float(d)) return div_expr(e, i, d, x[0], x[1]);
    if (d == DT_F64) return str(e, "(%s / %s)", x[0], x[1]);
    double one;
    if (approx == 2 && !is_hip(e))
        return ir_is_const_float(ir_operand(i, 0), &one) && one == 1
                   ? str(e, "%s(%s)", use(e, "rcp_ulp"), x[1])
                   : round_to(e, rd, str(e, "%s(%s, %s)", use(e, "div_narrow"), x[0], x[1]));
    if (approx == 2) return str(e, "%s(%s, %s)", use(e, "div_f32"), x[0], x[1]);
    if (approx) return round_to(e, rd, str(e, "(%s * %s(%s))", x[0], use(e, "rcp_approx"), x[1]));
    return round_to(e, rd, str(e, "%s(%s, %s)", use(e, "div_f32"), x[0], x[1]));
}

/* Of integers: rounded up. */
static const char *division_up(Emit *e, const Instr *i, DType d, const char *const *x)
{
    int64_t c;
    if (ir_is_const(ir_operand(i, 1), &c) && c > 0 && sum_fits(e, ir_operand(i, 0), c - 1, d))
        return str(e, "((%s + %lld) / %s)", x[0], (long long)c - 1, x[1]);
    const char *u = d == DT_I32 ? unsigned_division(e, i, d) : NULL; /* of i32: their sum fits u32 */
    if (u) return str(e, "(i32)(((u32)%s + (u32)%s - 1) / (u32)%s)", x[0], x[1], x[1]);
    const char *name = dtype_name(d == DT_INDEX ? DT_I64 : d);
    return str(e, "%s(%s, %s)", use(e, str(e, "cdiv_%s", name)), x[0], x[1]);
}

static const char *integer_arithmetic(Emit *e, const Instr *i, const char *const *x)
{
    DType d = ir_operand(i, 0)->type->dtype;
    switch (op_as_arithmetic(i->op)) {
    case ARITHMETIC_ADD: return integer(e, i, d, "+", x[0], x[1]);
    case ARITHMETIC_SUB: return integer(e, i, d, "-", x[0], x[1]);
    case ARITHMETIC_MUL: return integer(e, i, d, "*", x[0], x[1]);
    case ARITHMETIC_DIV: return division(e, i, x);
    case ARITHMETIC_REM: return div_expr(e, i, d, x[0], x[1]);
    case ARITHMETIC_CDIV: return division_up(e, i, d, x);
    case ARITHMETIC_NEG: return wrapped(e, d, "-", "0", x[0]);
    case ARITHMETIC_ABS:
        if (!dtype_is_signed(d)) return x[0];
        return str(e, "(%s < 0 ? %s : %s)", x[0], wrapped(e, d, "-", "0", x[0]), x[0]);
    case ARITHMETIC_FMA: return multiply_add(e, i, d, x);
    case ARITHMETIC_MIN:
    case ARITHMETIC_MINNUM: return str(e, "(%s < %s ? %s : %s)", x[0], x[1], x[0], x[1]);
    case ARITHMETIC_MAX:
    case ARITHMETIC_MAXNUM: return str(e, "(%s > %s ? %s : %s)", x[0], x[1], x[0], x[1]);
    case ARITHMETIC_CLAMP:
        return str(e, "(%s < %s ? (%s < %s ? %s : %s) : (%s > %s ? %s : %s))", x[0], x[1], x[1], x[2], x[1],
            x[2], x[0], x[2], x[2], x[0]);
    }
    return NULL;
}

static const char *float_arithmetic(Emit *e, const Instr *i, const char *const *x)
{
    DType d = ir_operand(i, 0)->type->dtype, rd = ir_result(i)->type->dtype;
    const char *sfx = d == DT_F64 ? "f64" : "f32";
    switch (op_as_arithmetic(i->op)) {
    case ARITHMETIC_ADD: return round_to(e, rd, str(e, "(%s + %s)", x[0], x[1]));
    case ARITHMETIC_SUB: return round_to(e, rd, str(e, "(%s - %s)", x[0], x[1]));
    case ARITHMETIC_MUL: return product(e, i, d, x);
    case ARITHMETIC_DIV: return division(e, i, x);
    case ARITHMETIC_NEG: return str(e, "(-%s)", x[0]);
    case ARITHMETIC_ABS: return str(e, "%s(%s)", use(e, str(e, "abs_%s", sfx)), x[0]);
    case ARITHMETIC_FMA: return multiply_add(e, i, d, x);
    case ARITHMETIC_MIN:
    case ARITHMETIC_MAX:
    case ARITHMETIC_MINNUM:
    case ARITHMETIC_MAXNUM:
        return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", op_info[i->op].name, sfx)), x[0], x[1]);
    case ARITHMETIC_CLAMP:
        return str(e, "%s(%s(%s, %s), %s)", use(e, str(e, "min_%s", sfx)), use(e, str(e, "max_%s", sfx)),
            x[0], x[1], x[2]);
    case ARITHMETIC_REM: /* of integers alone */
    case ARITHMETIC_CDIV: break;
    }
    return NULL;
}

/* Whether the shift is by at least 0 and less than the width of its operand. C defines only such shifts. */
static bool shifts_within(Emit *e, const Instr *i)
{
    if (!e->ranges) e->ranges = ranges_new(e->f);
    RangeInfo by = range_of(e->ranges, ir_operand(i, 1));
    return by.lo >= 0 && by.hi < dtype_bits(ir_result(i)->type->dtype);
}

static const char *bits_expr(Emit *e, const Instr *i, const char *const *x)
{
    DType d = ir_operand(i, 0)->type->dtype;
    const char *c = ctype(ir_result(i)->type->dtype), *name = dtype_name(d == DT_INDEX ? DT_I64 : d);
    bool logic = d == DT_BOOL;
    switch (op_as_bits(i->op)) {
    case BITS_AND: return logic ? str(e, "(%s & %s)", x[0], x[1]) : str(e, "(%s)(%s & %s)", c, x[0], x[1]);
    case BITS_OR: return logic ? str(e, "(%s | %s)", x[0], x[1]) : str(e, "(%s)(%s | %s)", c, x[0], x[1]);
    case BITS_XOR: return logic ? str(e, "(%s != %s)", x[0], x[1]) : str(e, "(%s)(%s ^ %s)", c, x[0], x[1]);
    case BITS_NOT: return logic ? str(e, "!(%s)", x[0]) : str(e, "(%s)~%s", c, x[0]);
    case BITS_SHL:
    case BITS_SHR:
        if (i->op == OP_SHR && shifts_within(e, i)) return str(e, "(%s)(%s >> %s)", c, x[0], x[1]);
        return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", op_info[i->op].name, name)), x[0], x[1]);
    }
    return NULL;
}

static const char *compare_expr(Emit *e, const Instr *i, const char *const *x)
{
    switch (op_as_compare(i->op)) {
    case COMPARE_EQ: return str(e, "(%s == %s)", x[0], x[1]);
    case COMPARE_NE: return str(e, "(%s != %s)", x[0], x[1]);
    case COMPARE_LT: return str(e, "(%s < %s)", x[0], x[1]);
    case COMPARE_LE: return str(e, "(%s <= %s)", x[0], x[1]);
    case COMPARE_GT: return str(e, "(%s > %s)", x[0], x[1]);
    case COMPARE_GE: return str(e, "(%s >= %s)", x[0], x[1]);
    }
    return NULL;
}

/* A function of the prelude by the operation's name. exp2 has one form, which is the fast one. */
static const char *function_expr(Emit *e, const Instr *i, const char *const *x)
{
    DType d = ir_operand(i, 0)->type->dtype;
    bool may = d != DT_F64 && op_has(i->op, OPF_APPROX) && i->op != OP_EXP2;
    int64_t approx = may ? ir_attr_int(i, ATTR_APPROX, 0) : 0;
    const char *name = str(e, "%s_%s%s", op_info[i->op].name, d == DT_F64 ? "f64" : "f32",
        approx == 2 ? "_narrow"
        : approx    ? "_approx"
                    : "");
    return round_to(e, ir_result(i)->type->dtype, str(e, "%s(%s)", use(e, name), x[0]));
}

static const char *bitcast_expr(Emit *e, const Instr *i, const char *const *x)
{
    DType d = ir_operand(i, 0)->type->dtype, rd = ir_result(i)->type->dtype;
    bool both_int = !dtype_is_float(d) && !dtype_is_float(rd);
    if (d == rd) return x[0];
    if (both_int && dtype_bits(d) >= 32) return str(e, "(%s)(%s)", ctype(rd), x[0]);
    const char *name = dtype_name(d == DT_INDEX ? DT_I64 : d);
    return str(
        e, "%s(%s)", use(e, str(e, "bits_%s_%s", name, dtype_name(rd == DT_INDEX ? DT_I64 : rd))), x[0]);
}

static const char *table_name(Emit *e, const Instr *i)
{ return str(e, "%s_table", name_of(e, ir_result(i))); }

/* Entry `lane` of the n entries from `first` on, n a power of two. */
static const char *entry_of_lane(Emit *e, const int64_t *first, int n)
{
    bool alike = true;
    for (int k = 1; k < n; k++) alike = alike && first[k] == first[0];
    if (alike) return str(e, "0x%xu", (unsigned)*first);
    const char *low = entry_of_lane(e, first, n / 2), *high = entry_of_lane(e, first + n / 2, n / 2);
    return str(e, "(lane & %d ? %s : %s)", n / 2, high, low);
}

void declare_table(Emit *e, const Instr *i)
{
    const Attr *t = ir_attr(i, ATTR_TABLE);
    line(e, "const u32 %s = %s;", table_name(e, i), entry_of_lane(e, t->v, t->n));
}

static const char *lookup_expr(Emit *e, const Instr *i, const char *x)
{
    DType d = ir_result(i)->type->dtype;
    const char *word = str(e, "%s(%s, %s)", use(e, "shuffle_index_u32"), table_name(e, i), x);
    return d == DT_F32 ? str(e, "%s(%s)", use(e, "float_bits"), word) : str(e, "(%s)%s", ctype(d), word);
}

const char *op_expr(Emit *e, const Instr *i, const char *const *x)
{
    const char *text = NULL;
    OpFamily f = op_family(i->op);
    if (f == OPS_ARITHMETIC)
        text = dtype_is_float(ir_operand(i, 0)->type->dtype) ? float_arithmetic(e, i, x)
                                                             : integer_arithmetic(e, i, x);
    else if (f == OPS_BITS) text = bits_expr(e, i, x);
    else if (f == OPS_COMPARE) text = compare_expr(e, i, x);
    else if (f == OPS_FUNCTION) text = function_expr(e, i, x);
    else if (i->op == OP_WHERE) text = str(e, "(%s ? %s : %s)", x[0], x[1], x[2]);
    else if (i->op == OP_LOOKUP) text = lookup_expr(e, i, x[0]);
    else if (i->op == OP_CAST)
        text = cast_expr(e, ir_operand(i, 0)->type->dtype, ir_result(i)->type->dtype, x[0]);
    else if (i->op == OP_BITCAST) text = bitcast_expr(e, i, x);
    else if (f == OPS_RANDOM) text = str(e, "%s((u64)%s, (u64)%s)", use(e, op_info[i->op].name), x[0], x[1]);
    if (!text) ir_fail(e->s, i->loc, "the GPU emitter has no expression for %s", op_info[i->op].name);
    return text;
}
