/* promote: continues sums of fp8 products in f32 where the matrix unit adds them to fewer bits
 * (ir/target/sums.def).
 *
 *   %c = mma_sync %a, %b, %acc
 *
 * becomes, for mma.sync,
 *
 *   %p = mma_sync %a, %b, zeros
 *   %c = add %acc, %p
 *
 * and for wgmma (warp_specialization.c asks for it where it makes the product)
 *
 *   %c = wgmma_promoted %a, %b, %acc {promote = 128, count = columns}
 *
 * The unit then adds at most 128 products, beginning at zero, and everything else is an addition of f32,
 * so that the error does not grow with K. Products of one block that add to each other share a sum as long
 * as their K together is at most 128. A product with a larger K is cut into parts of its K (`part`).
 *
 * wgmma_promoted needs registers for a second sum. It computes the product in groups of columns, so that
 * the second sum has room beside the accumulators. While one warpgroup waits for a group and adds it,
 * another one's products run.
 *
 * Requires: fp8 operands, and no `precision = fast_accum`. Keeps: the meaning of every product; only the
 * places where sums are rounded change. Does not handle: a product that begins at zero and whose K is at
 * most 128, which stays as it is. */
#include "passes/kernel/kernel.h"

int kernel_promote_after(const KernelPlan *p, const Instr *product, const char *instr)
{
    const Type *a = ir_operand(product, 0)->type;
    const UnitSum *u = target_unit_sum(p->target, instr);
    bool fp8 = a->dtype == DT_F8E4M3 || a->dtype == DT_F8E5M2;
    if (!u || !fp8 || kernel_skips(p, PASS_PROMOTE)) return 0;
    if (ir_attr_int(product, ATTR_PRECISION, PRECISION_FULL) == PRECISION_FAST_ACCUM) return 0;
    return kernel_is_zero(ir_operand(product, 2)) && a->shape[1] <= u->promote ? 0 : u->promote;
}

int kernel_promote_columns(const KernelPlan *p, int columns, int held)
{
    enum {
        OTHERS = 32,
        LEAST = 64
    }; /* registers for addresses and counters; the columns of a product that keep the matrix unit busy */
    int room = (p->consumer_registers ? p->consumer_registers : p->target->max_registers) - OTHERS - held,
        n = columns;
    while (n / 2 > room && n % 16 == 0 && n / 2 >= LEAST) n /= 2;
    return n;
}

/* --- mma.sync ---------------------------------------------------------------------------------------- */

typedef struct Promotion {
    Session *s;
    KernelPlan *p;
    InstrList products;
} Promotion;

static Value *zeros(Builder *b, const Type *t)
{ return ir_splat(b, ir_const_float(b, t->dtype, 0), t->rank, t->shape); }

static int64_t positions(const Instr *product) { return ir_operand(product, 0)->type->shape[1]; }

static int after(const Promotion *c, const Instr *product)
{ return kernel_promote_after(c->p, product, ir_attr(product, ATTR_INSTR)->s); }

/* The product of this block that is the only user of this one's sum, and adds to it. */
static Instr *next_of(const Instr *product)
{
    const Use *u = ir_result(product)->uses;
    bool adds = u && !u->next && u->user->op == OP_MMA_SYNC && u == &u->user->operands[2];
    return adds && u->user->block == product->block ? u->user : NULL;
}

/* The products first .. last add to `start`. They begin at zero instead, and their sum is added to `start`.
 * `n`: their number of positions, which the last product records for the estimate, because the registers of
 * both sums count. */
static void add_apart(Session *s, Value *start, Instr *first, Instr *last, int n)
{
    Builder b = ir_before(first);
    ir_set_operand(first, 2, zeros(&b, ir_result(first)->type));
    if (kernel_is_zero(start)) return;
    ir_set_attr(s, last, a_int(ATTR_PROMOTE, n));
    b = ir_after(last);
    b.loc = last->loc;
    Value *sum = ir_result(last), *all = ir_bin(&b, OP_ADD, start, sum);
    all->name = sum->name;
    ir_replace(sum, all);
    ir_set_operand(all->def, 1, sum);
}

/* Divides a product of more than n positions into one product for each n of them. */
static void cut(Promotion *c, Instr *product, int n)
{
    Value *sum = ir_operand(product, 2);
    for (int64_t at = 0; at < positions(product); at += n) {
        int64_t part[2] = { at, positions(product) - at < n ? positions(product) - at : n };
        Builder b = ir_before(product);
        ValueMap none;
        value_map_init(&none, &c->s->arena);
        Instr *one = ir_clone(&b, product, &none);
        ir_set_attr(c->s, one, a_ints(ATTR_PART, part, 2));
        ir_set_operand(one, 2, sum);
        sum = ir_result(one);
        add_apart(c->s, ir_operand(one, 2), one, one, n);
        if (one->next != product) sum = ir_result(one->next); /* the addition */
    }
    ir_replace(ir_result(product), sum);
    ir_erase(product);
}

static void promote_from(Promotion *c, size_t at, bool *done)
{
    Instr *first = c->products.data[at], *last = first, *next;
    int n = after(c, first);
    int64_t k = positions(first);
    done[at] = true;
    if (!n) return;
    if (k > n) {
        cut(c, first, n);
        return;
    }
    while ((next = next_of(last)) && after(c, next) == n && k + positions(next) <= n) {
        k += positions(next);
        last = next;
        for (size_t j = at; j < c->products.len; j++) done[j] |= c->products.data[j] == next;
    }
    add_apart(c->s, ir_operand(first, 2), first, last, n);
}

bool kernel_pass_promote(KernelContext *k)
{
    Promotion c = { .s = k->s, .p = k->p };
    uint32_t before = kernel_values(k);
    ir_collect(&k->s->arena, k->f->body, OP_MMA_SYNC, &c.products);
    bool *done = arena_array(&k->s->arena, bool, c.products.len + 1);
    for (size_t i = 0; i < c.products.len; i++)
        if (!done[i]) promote_from(&c, i, done);
    return kernel_grew(k, before);
}
