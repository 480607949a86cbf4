/* emit_promote.c: wgmma_promoted (passes/kernel/matrix/promote.c): acc += a b, whose sums leave the matrix
 * unit every few steps of K.
 *
 *     for each group of K, block of 64 rows, group of columns:
 *         part = wgmma of the first step (scale-d 0), part += wgmma of the others; commit; wait
 *         acc += part                                                                  in f32
 *
 * One array of registers serves all parts. Another warpgroup's products run during this one's waits and
 * additions. */
#include "backends/gpu/emit.h"

typedef struct Promoted {
    const Instr *instr;
    LayoutWgmma a, b;
    bool registers;                   /* a is in registers */
    const char *at_a, *at_b;          /* names of descriptors, or of a's words */
    const char *sum, *part, *product; /* arrays; the prelude's function */
    int columns, words, blocks; /* of a part: columns, registers; blocks of 64 rows that a warpgroup has */
    bool fresh;                 /* nothing to add to: the first group of K gives the sum */
} Promoted;

static void operands(Emit *e, Promoted *p)
{
    const Value *a = ir_operand(p->instr, 0), *b = ir_operand(p->instr, 1);
    const Layout *c = layout_of(e, ir_result(p->instr));
    p->registers = a->type->kind == TYPE_TILE;
    if (!layout_wgmma_view(layouts_shared(&e->plan->layouts, b->type), 0, &p->b) ||
        (!p->registers && !layout_wgmma_view(layouts_shared(&e->plan->layouts, a->type), 1, &p->a)))
        ir_fail(e->s, p->instr->loc, "an operand's shared layout has no wgmma descriptor");
    if (p->columns % p->b.mn_unit)
        ir_fail(
            e->s, p->instr->loc, "%d columns of a product are no multiple of %d", p->columns, p->b.mn_unit);
    p->at_b = tmp(e, "b");
    line(e, "const u32 %s = %s >> 4 | 0x%xu;", p->at_b, own_offset(e, name_of(e, b)), p->b.lo_or);
    if (p->registers) {
        p->at_a = registers_of(e, a);
        pin_registers(e, p->at_a, p->blocks * p->b.ksteps * 4, false);
        return;
    }
    int32_t c0[2], c1[2];
    const char *row = "";
    p->at_a = tmp(e, "a");
    layout_element(c, 0, 0, 0, 0, c0);
    if (layout_warps(c) > 4) {
        layout_element(c, 0, 0, 4, 0, c1);
        row = str(e, " + (warp >> 2) * %d", layout_wgmma_offset(&p->a, c1[0] - c0[0], 0) / 16);
    }
    line(e, "const u32 %s = (%s >> 4 | 0x%xu)%s;", p->at_a, own_offset(e, name_of(e, a)), p->a.lo_or, row);
}

/* Steps from .. from + n of K, of one block of rows and one group of columns, into `part`. */
static void multiply(Emit *e, const Promoted *p, int from, int n, int block, int column)
{
    int32_t *ta = arena_array(&e->s->arena, int32_t, (size_t)n),
            *tb = arena_array(&e->s->arena, int32_t, (size_t)n);
    for (int k = 0; k < n; k++) {
        tb[k] = layout_wgmma_offset(&p->b, column, from + k) / 16;
        if (!p->registers) ta[k] = layout_wgmma_offset(&p->a, 64 * block, from + k) / 16;
    }
    line(e, "%s();", use(e, "wgmma_fence"));
    begin_unrolled(e, "k", n);
    const char *b = str(e, "%s + %s, 0x%xu", p->at_b, index_formula(e, tb, n, "k"), p->b.hi);
    if (p->registers)
        line(e, "%s(%s, %s + %d + 4 * k, %s, k > 0);", p->product, p->part, p->at_a,
            (block * p->b.ksteps + from) * 4, b);
    else
        line(e, "%s(%s, %s + %s, 0x%xu, %s, k > 0);", p->product, p->part, p->at_a,
            index_formula(e, ta, n, "k"), p->a.hi, b);
    end_block(e);
    line(e, "%s();", use(e, "wgmma_commit"));
    line(e, "%s(0);", use(e, "wgmma_wait"));
    pin_registers(e, p->part, p->words, true);
}

void emit_promoted(Emit *e, Instr *i)
{
    const Value *a = ir_operand(i, 0), *b = ir_operand(i, 1), *acc = ir_operand(i, 2);
    int all = (int)layout_regs(layout_of(e, ir_result(i))), n = (int)ir_result(i)->type->shape[1];
    Promoted p = { .instr = i,
        .columns = (int)ir_attr_int(i, ATTR_COUNT, n),
        .blocks = all / (n / 2),
        .fresh = !acc->type->layout };
    operands(e, &p);
    p.words = p.columns / 2;
    p.sum = p.fresh ? declare_tile(e, ir_result(i)) : product_accumulator(e, i);
    p.part = tmp(e, "part");
    p.product =
        use(e, str(e, "wgmma_m64n%dk%d_%s_%s%s%s", p.columns, 32 / dtype_bytes(b->type->dtype),
                   dtype_name(a->type->dtype),
                   a->type->dtype == b->type->dtype ? "" : str(e, "%s_", dtype_name(b->type->dtype)),
                   p.registers ? "rs" : "ss",
                   str(e, "%s%s", !p.registers && p.a.mn_major ? "_ta" : "", p.b.mn_major ? "_tb" : "")));
    int group = (int)ir_attr_int(i, ATTR_PROMOTE, 0) / p.b.kinst, steps = p.b.ksteps;
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
