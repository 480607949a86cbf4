/* float-sums: sums of bytes that become floats are sums of floats.
 *
 *   %i = cast %q : i32[8, 32]                       %f = cast %q : f32[8, 32]
 *   %s = add %i, -32 : i32[8, 32]           ->      %w = add %f, -32.0 : f32[8, 32]
 *   %w = cast %s : f32[8, 32]
 *
 * A byte of a word becomes a float by one permutation and one sum, without being taken out of its word first
 * (u8_of_word). To take it out, add to it and convert what comes out takes three instructions of pipes with
 * half the rate.
 *
 * Proof. All sums and differences, and what they are made of, are integers of at most 2^24 in magnitude,
 * which f32 holds: no operation rounds. No sum wraps, and no cast of a byte changes its value (u16 of an i8
 * may). A sum that is 0 is +0, as no operand is -0.
 *
 * Requires: CUDA; tiles; sums and differences of casts of integers of 8 bits and of constants, of which each
 * one has no other use; ranges (ir/analysis/range.h). Keeps: everything. Does not handle: products, whose
 * zeros may be negative. */
#include "ir/analysis/range.h"
#include "passes/kernel/kernel.h"

enum { MOST_DEPTH = 4, MOST = 1 << 24 };

typedef struct FloatSums {
    Func *f;
    Ranges *ranges; /* NULL until they are asked for */
} FloatSums;

static bool is_sum(Op op) { return op == OP_ADD || op == OP_SUB; }

static RangeInfo range(FloatSums *x, const Value *v)
{
    if (!x->ranges) x->ranges = ranges_new(x->f);
    return range_of(x->ranges, v);
}

/* Whether f32 holds the value. */
static bool is_exact(FloatSums *x, const Value *v)
{
    RangeInfo r = range(x, v);
    return r.lo >= -MOST && r.hi <= MOST;
}

/* Whether the value is a sum of the kind; *bytes: of a byte at least. */
static bool is_of_bytes(FloatSums *x, const Value *v, int depth, bool *bytes)
{
    const Instr *i = v->def;
    if (ir_is_const(v, NULL)) return is_exact(x, v);
    if (!i || depth > MOST_DEPTH || i->n_results != 1) return false;
    DType from = i->n_operands ? ir_operand(i, 0)->type->dtype : DT_F32;
    if (i->op == OP_CAST && dtype_is_int(from) && dtype_bits(from) == 8)
        return *bytes = range_fits(range(x, ir_operand(i, 0)), v->type->dtype);
    if (ir_use_count(v) != 1) return false;
    if (op_has(i->op, OPF_MOVES) && i->n_operands == 1)
        return is_of_bytes(x, ir_operand(i, 0), depth + 1, bytes);
    return is_sum(i->op) && is_exact(x, v) && range_exact(x->ranges, v) &&
           is_of_bytes(x, ir_operand(i, 0), depth + 1, bytes) &&
           is_of_bytes(x, ir_operand(i, 1), depth + 1, bytes);
}

/* The value as floats, in front of what it is itself. */
static Value *as_floats(Session *s, Value *v, DType d, Builder *before)
{
    Instr *i = v->def;
    int64_t c;
    Builder b = i ? ir_before(i) : *before;
    if (ir_is_const(v, &c)) {
        Value *f = ir_const_float(before, d, (double)c);
        return v->type->kind == TYPE_TILE ? ir_splat(before, f, v->type->rank, v->type->shape) : f;
    }
    if (i->op == OP_CAST) return ir_cast(&b, ir_operand(i, 0), d);
    Value *in[2];
    for (int k = 0; k < i->n_operands; k++) in[k] = as_floats(s, ir_operand(i, k), d, &b);
    return ir_emit(
        &b, i->op, in, i->n_operands, (Attrs){ i->attrs, i->n_attrs }, type_with_dtype(s, v->type, d));
}

/* Whether the cast makes floats of such a sum. */
static bool is_candidate(FloatSums *x, const Instr *cast)
{
    const Value *v = ir_operand(cast, 0);
    bool bytes = false;
    return ir_result(cast)->uses && ir_result(cast)->type->dtype == DT_F32 && v->type->kind == TYPE_TILE &&
           dtype_is_int(v->type->dtype) && v->def && is_sum(v->def->op) && is_of_bytes(x, v, 0, &bytes) &&
           bytes;
}

bool kernel_pass_float_sums(KernelContext *c)
{
    FloatSums x = { .f = c->f };
    InstrList casts = { 0 }, sums = { 0 };
    ir_collect(&c->s->arena, c->f->body, OP_CAST, &casts);
    for (size_t k = 0; k < casts.len; k++)
        if (is_candidate(&x, casts.data[k])) vec_push(&c->s->arena, &sums, casts.data[k]);
    for (size_t k = 0; k < sums.len; k++) {
        Instr *cast = sums.data[k];
        Block *block = cast->block;
        Builder b = ir_before(cast);
        ir_replace(ir_result(cast), as_floats(c->s, ir_operand(cast, 0), DT_F32, &b));
        if (k + 1 == sums.len || sums.data[k + 1]->block != block) ir_sweep(block);
    }
    return sums.len > 0;
}
