/* repeat.c: loops of products by AMX get nine products in an iteration, or three where fewer are left. Tile
 * IR before the plan is made; of three:
 *
 *     for k = lo to hi with (acc)              for k = lo to mid step 3 with (acc)
 *         a = reshape(load X[..k..])               a0 = .. k ..; a1 = .. k + 1 ..; a2 = .. k + 2 ..
 *         b = load W[..k..]             ->         acc = mma(a2, b2, mma(a1, b1, mma(a0, b0, acc)))
 *         acc = mma(a, b, acc)                 for k = mid to hi ...: as before
 *
 * amx.c computes such products at once: their sums stay in tile registers, and are moved once for all of them
 * (amx_before). This serves loops whose windows do not lie side by side, such as the taps of a convolution;
 * deepen.c makes one deeper product of the others. The sums are added in the same order. A loop is left as it
 * is if it stores something, holds other loops, or has products that are deep already or of few rows. */
#include "backends/cpu/product/mma.h"

/* All taps of a filter of 3 x 3, and those of a row. */
static const int times_of[] = { 9, 3 };
enum { DEEP = 256 /* bytes along K of products that hardly gain */ };

bool cpu_can_be_repeated(const Instr *i)
{
    MemParts m;
    if (i->op == OP_LOAD) return ir_mem_parts(i, &m) && !m.token;
    OpFamily family = op_family(i->op);
    bool pure = family == OPS_CONSTANT || family == OPS_ARITHMETIC || family == OPS_BITS ||
                family == OPS_COMPARE || family == OPS_SELECT || family == OPS_FUNCTION ||
                family == OPS_CONVERSION || family == OPS_SHAPE || family == OPS_LAUNCH;
    return pure && i->n_blocks == 0;
}

/* The product of the loop, if it does nothing else; NULL: it does. */
static const Instr *product_of(const CpuTarget *t, const Instr *loop)
{
    int64_t step;
    if (loop->op != OP_FOR || loop->n_results != 1 || ir_loop_is(loop, LOOP_EDGE)) return NULL;
    if (!ir_is_const(ir_operand(loop, 2), &step) || step != 1) return NULL;
    const Block *body = loop->blocks[0];
    const Instr *mma = ir_operand(body->last, 0)->def;
    if (!mma || mma->op != OP_MMA || mma->block != body || !mma_is_amx(mma_kind(t, mma))) return NULL;
    if (ir_operand(mma, 2) != body->args[1] || ir_use_count(body->args[1]) != 1) return NULL;
    const Type *a = ir_operand(mma, 0)->type;
    if (ir_use_count(ir_result(mma)) != 1 || a->shape[0] <= MOST_THIN_ROWS) return NULL;
    if (a->shape[1] * dtype_bytes(a->dtype) >= DEEP) return NULL;
    for (const Instr *i = body->first; i != body->last; i = i->next)
        if (i != mma && !cpu_can_be_repeated(i)) return NULL;
    return mma;
}

/* `loop` is left with what remains. */
static void repeat(Session *s, Instr *loop, int n_times)
{
    ValueMap map;
    Builder b = ir_before(loop);
    DType t = loop->blocks[0]->args[0]->type->dtype;
    Value *lo = ir_operand(loop, 0), *hi = ir_operand(loop, 1), *times = ir_const_int(&b, t, n_times);
    /* mid = lo + max(hi - lo, 0) / times * times */
    Value *n = ir_bin(&b, OP_SUB, ir_bin(&b, OP_MAX, hi, lo), lo);
    Value *mid = ir_bin(&b, OP_ADD, lo, ir_bin(&b, OP_MUL, ir_bin(&b, OP_DIV, n, times), times));
    value_map_init(&map, &s->arena);
    Instr *wide = ir_clone(&b, loop, &map);
    ir_set_operand(wide, 1, mid);
    ir_set_operand(wide, 2, times);
    Block *body = wide->blocks[0];
    Instr *yield = body->last;
    Value *sums = ir_operand(yield, 0);
    for (int k = 1; k < n_times; k++) {
        const Block *from = loop->blocks[0];
        Builder in = ir_before(yield);
        value_map_init(&map, &s->arena);
        value_map_set(&map, from->args[0], ir_bin(&in, OP_ADD, body->args[0], ir_const_int(&in, t, k)));
        value_map_set(&map, from->args[1], sums);
        ir_clone_block_into(&in, from, &map, false);
        sums = value_map_get(&map, ir_operand(from->last, 0));
    }
    ir_set_operand(yield, 0, sums);
    ir_set_operand(loop, 0, mid);
    ir_set_operand(loop, 3, ir_result(wide));
}

void cpu_repeat(Session *s, const CpuTarget *t, Instr *loop)
{
    if (!product_of(t, loop)) return;
    for (size_t k = 0; k < sizeof times_of / sizeof *times_of; k++) repeat(s, loop, times_of[k]);
}
