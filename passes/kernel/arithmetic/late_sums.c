/* late-sums: a loop that adds sums of integer tiles to what it carries adds the tiles, and sums once behind
 * it. Maxima and minima likewise.
 *
 *   for (.., %n = %init) { %r = reduce_sum %x {axis = 0}; yield %n + %r }
 *
 * becomes
 *
 *   %a = for (.., %t = zeros) { yield %t + %x };  %n = %init + reduce_sum %a {axis = 0}
 *
 * Threads then add what they hold, and meet behind the loop instead of in each step. Typical
 * loops count how many elements equal each of some values, or search the maximum of a long row.
 *
 * Requires: the carried value and the sum have no other user than the addition; sums of integers, whose order
 * does not matter because they wrap, or maxima and minima; several warps; registers for the tiles
 * (MOST_WORDS). Keeps: everything. Does not handle: sums of floats, which round. Each run of the pass moves
 * one sum of a chain of sums. */
#include "ir/interp/scalar.h"
#include "passes/kernel/kernel.h"

enum { MOST_WORDS = 32 }; /* of a thread, for the tiles of one loop */

/* The reduction whose results `combine` puts together, if their order does not matter; else OP_COUNT. */
static Op reduction_by(Op combine, DType d)
{
    if (combine == OP_ADD && dtype_is_int(d)) return OP_REDUCE_SUM;
    if (combine == OP_MAX) return OP_REDUCE_MAX;
    return combine == OP_MIN ? OP_REDUCE_MIN : OP_COUNT;
}

/* What changes nothing that it is put together with. */
static Value *identity(Builder *b, Op combine, DType d)
{
    if (combine == OP_ADD) return ir_const_int(b, d, 0);
    Scalar x = combine == OP_MAX ? scalar_lowest(d) : scalar_highest(d);
    return dtype_is_float(d) ? ir_const_float(b, d, x.f) : ir_const_int(b, d, x.i);
}

/* The reduction of a tile that operand k of the loop's yield puts together with what the loop carries; NULL:
 * it is something else. */
static Instr *sum_of_step(const Instr *loop, int k)
{
    const Block *body = loop->blocks[0];
    const Value *carried = body->args[k + 1];
    const DType d = carried->type->dtype;
    const Instr *add = ir_operand(ir_terminator(body), k)->def;
    const Op by = add ? reduction_by(add->op, d) : OP_COUNT;
    if (by == OP_COUNT || add->block != body || ir_use_count(carried) != 1 ||
        ir_use_count(ir_result(add)) != 1)
        return NULL;
    int own = ir_operand(add, 1) == carried;
    Instr *sum = ir_operand(add, own ? 0 : 1)->def;
    if (ir_operand(add, own) != carried || !sum || sum->op != by || sum->block != body ||
        ir_use_count(ir_result(sum)) != 1)
        return NULL;
    return ir_operand(sum, 0)->type->dtype == d ? sum : NULL;
}

/* Of a thread, for what is summed. */
static int64_t words_of(const KernelPlan *p, const Instr *sum)
{
    const Type *t = ir_operand(sum, 0)->type;
    int64_t bytes = (int64_t)4 * p->warps * p->target->wave;
    return (type_elements(t) * dtype_bytes(t->dtype) + bytes - 1) / bytes;
}

/* Lets the loop carry the tile that `sum` sums, as its value k. */
static void carry_tile(Instr *loop, int k, Instr *sum)
{
    Block *body = loop->blocks[0];
    Instr *end = ir_terminator(body), *add = ir_operand(end, k)->def;
    const Op combine = add->op;
    Value *x = ir_operand(sum, 0), *init = ir_operand(loop, k + 3), *carried = body->args[k + 1],
          *all = &loop->results[k];
    Builder before = ir_before(loop), inside = ir_before(add), behind = ir_after(loop);
    ir_set_operand(loop, k + 3,
        ir_splat(&before, identity(&before, combine, x->type->dtype), x->type->rank, x->type->shape));
    const Type *of_sum = ir_result(sum)->type;
    carried->type = all->type = x->type;
    ir_set_operand(end, k, ir_bin(&inside, combine, carried, x));
    ir_erase(add);
    Value *late = ir_emit(&behind, sum->op, &all, 1, (Attrs){ sum->attrs, sum->n_attrs }, of_sum);
    ir_erase(sum);
    Value *total = ir_bin(&behind, combine, init, late);
    ir_replace(all, total);
    ir_set_operand(late->def, 0, all);
}

static void visit(void *user, Instr *i)
{
    KernelContext *k = user;
    /* A loop at an edge has few steps (mask-peel). */
    if (i->op != OP_FOR || ir_loop_is(i, LOOP_EDGE) || ir_over_programs(i)) return;
    for (int64_t n = 0, left = MOST_WORDS; n < i->n_results; n++) {
        Instr *sum = sum_of_step(i, (int)n);
        int64_t words = sum ? words_of(k->p, sum) : 0;
        if (!sum || words > left) continue;
        left -= words;
        carry_tile(i, (int)n, sum);
    }
}

bool kernel_pass_late_sums(KernelContext *k)
{
    uint32_t before = kernel_values(k);
    if (k->p->warps > 1) ir_walk(k->f->body, visit, k);
    return kernel_grew(k, before);
}
