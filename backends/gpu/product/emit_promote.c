/* emit_promote.c: wgmma_promoted (passes/kernel/matrix/promote.c): acc += a b, whose sums leave the matrix
 * unit every few steps of K.
 *
 *     for each group of K, block of 64 rows, group of columns:
 *         part = wgmma of the first step (scale-d 0), part += wgmma of the others; commit; wait
 *         acc += part                                                                  in f32
 *
 * One array of registers serves all parts. Another warpgroup's products run during this one's waits and
 * additions. */
#include "backends/gpu/product/emit_wgmma.h"
#include "backends/gpu/hopper/emit_roles.h"

typedef struct Promoted {
    const Instr *instr;
    WgmmaOperands o;                  /* at_a: the name of the words of `a` when they are in registers */
    const char *sum, *part, *product; /* two arrays; the function of the prelude */
    /* the columns and registers of a part; the blocks of 64 rows that a warpgroup has */
    int columns, words, blocks;
    bool fresh; /* there is no accumulator yet: the first group of K gives the sum */
} Promoted;

static void declare_operands(Emit *e, Promoted *p)
{
    const Instr *i = p->instr;
    p->o = wgmma_operands(e, i);
    if (p->columns % p->o.b.mn_unit)
        ir_fail(e->s, i->loc, "%d columns of a product are no multiple of %d", p->columns, p->o.b.mn_unit);
    p->o.at_b = tmp(e, "b");
    p->o.at_a = p->o.registers ? registers_of(e, ir_operand(i, 0)) : tmp(e, "a");
    wgmma_declare(e, i, &p->o);
    if (p->o.registers) pin_registers(e, p->o.at_a, p->blocks * p->o.b.ksteps * 4, false);
}

/* Emits steps from .. from + n of K, for one block of rows and one group of columns, into `part`. */
static void multiply(Emit *e, const Promoted *p, int from, int n, int block, int column)
{
    const WgmmaOperands *o = &p->o;
    line(e, "%s();", use(e, "wgmma_fence"));
    begin_unrolled(e, "k", n);
    const char *b_at = entry_text(e, wgmma_steps(e, &o->b, column, from, n), n, "k"),
               *b = str(e, "%s + %s, 0x%xu", o->at_b, b_at, o->b.hi);
    if (o->registers)
        line(e, "%s(%s, %s + %d + 4 * k, %s, k > 0);", p->product, p->part, o->at_a,
            (block * o->b.ksteps + from) * 4, b);
    else {
        const char *a = entry_text(e, wgmma_steps(e, &o->a, 64 * block, from, n), n, "k");
        line(e, "%s(%s, %s + %s, 0x%xu, %s, k > 0);", p->product, p->part, o->at_a, a, o->a.hi, b);
    }
    end_block(e);
    line(e, "%s();", use(e, "wgmma_commit"));
    line(e, "%s(0);", use(e, "wgmma_wait"));
    pin_registers(e, p->part, p->words, true);
}

void emit_promoted(Emit *e, Instr *i)
{
    const Value *acc = ir_operand(i, 2);
    int all = (int)layout_regs(layout_of(e, ir_result(i))), n = (int)ir_result(i)->type->shape[1];
    Promoted p = { .instr = i,
        .columns = (int)ir_attr_int(i, ATTR_COUNT, n),
        .blocks = all / (n / 2),
        .fresh = !acc->type->layout };
    declare_operands(e, &p);
    p.words = p.columns / 2;
    p.sum = p.fresh ? declare_tile(e, ir_result(i)) : product_accumulator(e, i);
    p.part = tmp(e, "part");
    p.product = use_product(e, wgmma_function(e, i, &p.o, p.columns));
    int group = (int)ir_attr_int(i, ATTR_PROMOTE, 0) / p.o.b.kinst, steps = p.o.b.ksteps;
    line(e, "float %s[%d];", p.part, p.words);
    for (int k = 0; k < steps; k += group)
        for (int m = 0; m < p.blocks; m++)
            for (int c = 0; c < n; c += p.columns) {
                multiply(e, &p, k, steps - k < group ? steps - k : group, m, c);
                begin_unrolled(e, "i", p.words);
                line(e, "%s[%d + i] %s %s[i];", p.sum, m * (n / 2) + c / 2,
                    p.fresh && !k ? "=" : "+=", p.part);
                end_block(e);
            }
}
