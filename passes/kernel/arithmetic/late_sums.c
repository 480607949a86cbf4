/* late-sums: a loop that adds sums of integer tiles to what it carries adds the tiles, and sums once behind
 * it.
 *
 *   for (.., %n = %init) { %r = reduce_sum %x {axis = 0}; yield %n + %r }
 *
 * becomes
 *
 *   %a = for (.., %t = zeros) { yield %t + %x };  %n = %init + reduce_sum %a {axis = 0}
 *
 * Threads then add what they hold, and meet behind the loop instead of in each step. Counts that compare many
 * elements with each of some values are such loops.
 *
 * Requires: what is carried is used by its addition alone, and the sum too; integers, whose sums wrap and so
 * do not depend on their order; several warps; registers for the tiles (MOST_WORDS). Keeps: everything. Does
 * not handle floats, whose sums round. Sums of sums take one turn each. */
#include "passes/kernel/kernel.h"

enum { MOST_WORDS = 32 }; /* of a thread, for the tiles of one loop */

/* Operand k of the loop's yield, if it adds a sum of a tile to what the loop carries; else NULL. */
static Instr *sum_of_step(const Instr *loop, int k)
{
    const Block *body = loop->blocks[0];
    const Value *carried = body->args[k + 1];
    const Instr *add = ir_operand(ir_terminator(body), k)->def;
    if (!add || add->op != OP_ADD || add->block != body || ir_use_count(carried) != 1 ||
        ir_use_count(ir_result(add)) != 1 || !dtype_is_int(carried->type->dtype))
        return NULL;
    int own = ir_operand(add, 1) == carried;
    Instr *sum = ir_operand(add, own ? 0 : 1)->def;
    if (ir_operand(add, own) != carried || !sum || sum->op != OP_REDUCE_SUM || sum->block != body ||
        ir_use_count(ir_result(sum)) != 1)
        return NULL;
    return ir_operand(sum, 0)->type->dtype == carried->type->dtype ? sum : NULL;
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
    Value *x = ir_operand(sum, 0), *init = ir_operand(loop, k + 3), *carried = body->args[k + 1],
          *all = &loop->results[k];
    Builder before = ir_before(loop), inside = ir_before(add), behind = ir_after(loop);
    ir_set_operand(loop, k + 3,
        ir_splat(&before, ir_const_int(&before, x->type->dtype, 0), x->type->rank, x->type->shape));
    const Type *of_sum = ir_result(sum)->type;
    carried->type = all->type = x->type;
    ir_set_operand(end, k, ir_bin(&inside, OP_ADD, carried, x));
    ir_erase(add);
    Value *late = ir_emit(&behind, OP_REDUCE_SUM, &all, 1, (Attrs){ sum->attrs, sum->n_attrs }, of_sum);
    ir_erase(sum);
    Value *total = ir_bin(&behind, OP_ADD, init, late);
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
