/* emit_scalar.c: expressions of scalars, and of elements: what an operation of the IR is in C. */
#include "backends/gpu/emit.h"
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
    if (from == to || (to == DT_I32 && !strncmp(x, "(i32)", 5) && !strpbrk(x + 5, " (?"))) return x;
    if (to == DT_BOOL) return str(e, "(%s != 0)", x);
    if (dtype_is_float(to)) {
        if (to == DT_F64) return str(e, "(double)(%s)", x);
        bool exact = dtype_is_float(from) && dtype_bits(from) < dtype_bits(to) && to == DT_F32;
        if (exact) return x;
        if (to == DT_F32) return str(e, "(float)(%s)", x);
        /* narrow floats round once: from f64 and wide integers by a conversion of their own */
        if (from == DT_F64) return str(e, "%s(%s)", use(e, str(e, "round_%s_f64", dtype_name(to))), x);
        if (dtype_is_int(from) && dtype_bits(from) > 16)
            return str(e, "%s((double)(%s))", use(e, str(e, "round_%s_f64", dtype_name(to))), x);
        if (!dtype_is_float(from) && dtype_bits(from) <= 8 && dtype_bits(to) == 16)
            return str(e, "(float)(%s)", x); /* 8 bits fit either's mantissa */
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
    switch ((int)d) {
    case DT_INDEX:
    case DT_U32:
    case DT_U64: return str(e, "(%s %s %s)", a, op, b);
    case DT_I32: return str(e, "(i32)((u32)%s %s (u32)%s)", a, op, b);
    case DT_I64: return str(e, "(i64)((u64)%s %s (u64)%s)", a, op, b);
    default: return str(e, "(%s)(%s %s %s)", ctype(d), a, op, b);
    }
}

/* Both operands of a division are known to be of unsigned numbers, the divisor above 0: the type to divide
 * in. It is a third of the instructions, and of the vendor's compiler's time. */
static const char *unsigned_division(Emit *e, const Instr *i, DType d)
{
    if (!dtype_is_signed(d) || dtype_bits(d) < 32) return NULL;
    if (!e->ranges) e->ranges = ranges_new(e->f);
    RangeInfo a = range_of(e->ranges, ir_operand(i, 0)), b = range_of(e->ranges, ir_operand(i, 1));
    if (a.lo < 0 || b.lo < 1) return NULL;
    return a.hi <= UINT32_MAX && b.hi <= UINT32_MAX ? "u32" : "u64";
}

static const char *div_expr(Emit *e, const Instr *i, DType d, const char *a, const char *b, const char *op)
{
    int64_t c;
    if (ir_is_const(ir_operand(i, 1), &c) && c != 0 && c != -1)
        return str(e, "(%s)(%s %s %s)", ctype(d), a, op, b);
    const char *u = unsigned_division(e, i, d);
    if (u) return str(e, "(%s)((%s)%s %s (%s)%s)", ctype(d), u, a, op, u, b);
    return str(e, "%s(%s, %s)",
        use(e, str(e, "%s_%s", *op == '/' ? "div" : "rem", d == DT_INDEX ? "i64" : dtype_name(d))), a, b);
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

/* a op b of i32 where ranges prove that it does not wrap reads as it stands. */
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

/* For the values that a yield or a condition hands its operand `u` on to: results of its branch or loop,
 * arguments of the loop's blocks. */
static bool yield_reaches_sum(const Use *u, int depth)
{
    const Instr *parent = u->user->block->parent;
    int k = (int)(u - u->user->operands);
    if (!parent) return true;
    switch ((int)parent->op) {
    case OP_IF: return result_reaches_sum(parent, k, depth);
    case OP_FOR:
        return result_reaches_sum(parent, k, depth) || argument_reaches_sum(parent->blocks[0], k + 1, depth);
    case OP_WHILE: /* condition's first operand is the condition itself */
        if (u->user->op == OP_YIELD) return argument_reaches_sum(parent->blocks[0], k, depth);
        return k > 0 && (result_reaches_sum(parent, k - 1, depth) ||
                            argument_reaches_sum(parent->blocks[1], k - 1, depth));
    default: return true;
    }
}

/* Whether a sum or a difference takes the value, as it is or negated, moved, selected. Beyond some steps:
 * yes. */
static bool reaches_sum(const Value *v, int depth)
{
    enum { DEEP = 6 };
    if (depth > DEEP) return true;
    for (const Use *u = v->uses; u; u = u->next) switch ((int)u->user->op) {
        case OP_ADD:
        case OP_SUB: return true;
        case OP_NEG:
        case OP_SPLAT:
        case OP_BROADCAST:
        case OP_RESHAPE:
        case OP_PERMUTE:
        case OP_SLICE:
        case OP_CONCAT:
        case OP_CONVERT:
        case OP_MATERIALIZE:
        case OP_WHERE:
            if (reaches_sum(ir_result(u->user), depth + 1)) return true;
            break;
        case OP_YIELD:
        case OP_CONDITION:
            if (yield_reaches_sum(u, depth + 1)) return true;
            break;
        default: break;
        }
    return false;
}

/* The vendors' compilers make one fma of a product and a sum. Which of them are rounded once is for the pass
 * `contract` to say: a product that still meets a sum is one that they must leave alone. */
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

const char *op_expr(Emit *e, const Instr *i, const char *const *x)
{
    const Value *r = ir_result(i);
    DType d = i->n_operands ? ir_operand(i, 0)->type->dtype : r->type->dtype, rd = r->type->dtype;
    bool fl = dtype_is_float(d), f64 = d == DT_F64;
    const char *sfx = f64 ? "f64" : "f32", *name = dtype_name(d == DT_INDEX ? DT_I64 : d);
#define ROUND(text) round_to(e, rd, (text))
    switch ((int)i->op) {
    case OP_ADD: return fl ? ROUND(str(e, "(%s + %s)", x[0], x[1])) : integer(e, i, d, "+", x[0], x[1]);
    case OP_SUB: return fl ? ROUND(str(e, "(%s - %s)", x[0], x[1])) : integer(e, i, d, "-", x[0], x[1]);
    case OP_MUL: return fl ? product(e, i, d, x) : integer(e, i, d, "*", x[0], x[1]);
    case OP_DIV:
        if (!fl) return div_expr(e, i, d, x[0], x[1], "/");
        if (ir_attr_int(i, ATTR_APPROX, 0) == 2 && !f64)
            return is_hip(e) ? str(e, "%s(%s, %s)", use(e, "div_f32"), x[0], x[1])
                             : str(e, "%s(%s)", use(e, "rcp_ulp"), x[1]); /* x[0] is 1 */
        if (ir_attr_int(i, ATTR_APPROX, 0) && !f64)
            return ROUND(str(e, "(%s * %s(%s))", x[0], use(e, "rcp_approx"), x[1]));
        return f64 ? str(e, "(%s / %s)", x[0], x[1])
                   : ROUND(str(e, "%s(%s, %s)", use(e, "div_f32"), x[0], x[1]));
    case OP_REM: return div_expr(e, i, d, x[0], x[1], "%");
    case OP_CDIV: {
        int64_t c;
        if (ir_is_const(ir_operand(i, 1), &c) && c > 0 && sum_fits(e, ir_operand(i, 0), c - 1, d))
            return str(e, "((%s + %lld) / %s)", x[0], (long long)c - 1, x[1]);
        const char *u = d == DT_I32 ? unsigned_division(e, i, d) : NULL; /* of i32: their sum fits u32 */
        if (u) return str(e, "(i32)(((u32)%s + (u32)%s - 1) / (u32)%s)", x[0], x[1], x[1]);
        return str(e, "%s(%s, %s)", use(e, str(e, "cdiv_%s", name)), x[0], x[1]);
    }
    case OP_NEG: return fl ? str(e, "(-%s)", x[0]) : wrapped(e, d, "-", "0", x[0]);
    case OP_ABS:
        return fl                   ? str(e, "%s(%s)", use(e, f64 ? "abs_f64" : "abs_f32"), x[0])
               : dtype_is_signed(d) ? str(e, "(%s < 0 ? %s : %s)", x[0], wrapped(e, d, "-", "0", x[0]), x[0])
                                    : x[0];
    case OP_FMA: return multiply_add(e, i, d, x);
    case OP_MIN:
    case OP_MAX: {
        const char *m = i->op == OP_MIN ? "min" : "max";
        if (fl) return str(e, "%s(%s, %s)", use(e, str(e, "%s_%s", m, sfx)), x[0], x[1]);
        return str(e, "(%s %s %s ? %s : %s)", x[0], i->op == OP_MIN ? "<" : ">", x[1], x[0], x[1]);
    }
    case OP_MINNUM:
        return fl ? str(e, "%s(%s, %s)", use(e, f64 ? "minnum_f64" : "minnum_f32"), x[0], x[1])
                  : str(e, "(%s < %s ? %s : %s)", x[0], x[1], x[0], x[1]);
    case OP_MAXNUM:
        return fl ? str(e, "%s(%s, %s)", use(e, f64 ? "maxnum_f64" : "maxnum_f32"), x[0], x[1])
                  : str(e, "(%s > %s ? %s : %s)", x[0], x[1], x[0], x[1]);
    case OP_CLAMP:
        if (fl)
            return str(e, "%s(%s(%s, %s), %s)", use(e, str(e, "min_%s", sfx)), use(e, str(e, "max_%s", sfx)),
                x[0], x[1], x[2]);
        return str(e, "(%s < %s ? (%s < %s ? %s : %s) : (%s > %s ? %s : %s))", x[0], x[1], x[1], x[2], x[1],
            x[2], x[0], x[2], x[2], x[0]);
    case OP_AND:
        return d == DT_BOOL ? str(e, "(%s & %s)", x[0], x[1])
                            : str(e, "(%s)(%s & %s)", ctype(rd), x[0], x[1]);
    case OP_OR:
        return d == DT_BOOL ? str(e, "(%s | %s)", x[0], x[1])
                            : str(e, "(%s)(%s | %s)", ctype(rd), x[0], x[1]);
    case OP_XOR:
        return d == DT_BOOL ? str(e, "(%s != %s)", x[0], x[1])
                            : str(e, "(%s)(%s ^ %s)", ctype(rd), x[0], x[1]);
    case OP_NOT: return d == DT_BOOL ? str(e, "!(%s)", x[0]) : str(e, "(%s)~%s", ctype(rd), x[0]);
    case OP_SHL:
    case OP_SHR:
        return str(
            e, "%s(%s, %s)", use(e, str(e, "%s_%s", i->op == OP_SHL ? "shl" : "shr", name)), x[0], x[1]);
    case OP_EQ: return str(e, "(%s == %s)", x[0], x[1]);
    case OP_NE: return str(e, "(%s != %s)", x[0], x[1]);
    case OP_LT: return str(e, "(%s < %s)", x[0], x[1]);
    case OP_LE: return str(e, "(%s <= %s)", x[0], x[1]);
    case OP_GT: return str(e, "(%s > %s)", x[0], x[1]);
    case OP_GE: return str(e, "(%s >= %s)", x[0], x[1]);
    case OP_WHERE: return str(e, "(%s ? %s : %s)", x[0], x[1], x[2]);
    case OP_EXP:
    case OP_EXP2:
    case OP_LOG:
    case OP_LOG2:
    case OP_SQRT:
    case OP_RSQRT:
    case OP_SIN:
    case OP_COS:
    case OP_TANH:
    case OP_ERF:
    case OP_SIGMOID:
    case OP_FLOOR:
    case OP_CEIL:
    case OP_ROUND: {
        bool approx = ir_attr_int(i, ATTR_APPROX, 0) && !f64 &&
                      (i->op == OP_EXP || i->op == OP_TANH || i->op == OP_SIGMOID || i->op == OP_SQRT ||
                          i->op == OP_RSQRT || i->op == OP_LOG || i->op == OP_LOG2 || i->op == OP_SIN ||
                          i->op == OP_COS);
        return ROUND(str(
            e, "%s(%s)", use(e, str(e, "%s_%s%s", op_info[i->op].name, sfx, approx ? "_approx" : "")), x[0]));
    }
    case OP_CAST: return cast_expr(e, d, rd, x[0]);
    case OP_BITCAST: {
        if (d == rd) return x[0];
        if (fl == dtype_is_float(rd) && dtype_bits(d) >= 32 && !fl)
            return str(e, "(%s)(%s)", ctype(rd), x[0]);
        return str(
            e, "%s(%s)", use(e, str(e, "bits_%s_%s", name, dtype_name(rd == DT_INDEX ? DT_I64 : rd))), x[0]);
    }
    case OP_PHILOX: return str(e, "%s((u64)%s, (u64)%s)", use(e, "philox"), x[0], x[1]);
    default: ir_fail(e->s, i->loc, "%s is not element-wise", op_info[i->op].name);
    }
#undef ROUND
}
