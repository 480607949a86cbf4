/* beside_fma.c: of shared: what stands beside products by fused multiply-adds. Their sums and operands fill
 * the registers, so nothing else should wait there, and operands are read from shared memory whoever loads
 * them.
 *
 *   %x = load X[..];  %s = reduce_sum %x          %x = load X[..];  %s = reduce_sum %x;  %x' = load X[..]
 *   %w = add broadcast(%s), broadcast(%t)   ->    for .. { %p = mma_sync %x', %y', %zero
 *   for .. { %p = mma_sync %x, %y, %zero              %w = add broadcast(%s), broadcast(%t)
 *       .. add %p, %w }                               .. add %p, %w }
 *
 * Requires: products by fused multiply-adds. Keeps: everything. */
#include "passes/kernel/pipeline/multistage.h"

/* --- loads --------------------------------------------------------------------------------------------- */

/* Whether it is the operand of a product by fused multiply-adds, which reads both from shared memory. */
static bool feeds_fma(const Use *u)
{
    const Instr *i = u->user;
    return i->op == OP_MMA_SYNC && u != &i->operands[2] && !strcmp(ir_attr(i, ATTR_INSTR)->s, "fma");
}

static bool only_feeds_fma(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (!feeds_fma(u)) return false;
    return v->uses != NULL;
}

/* The products that use `v` use a load of their own instead, in the order of `v`. */
static void load_again(Session *s, Instr *load, Value *v)
{
    Builder b = ir_before(load);
    ValueMap map;
    Instr *own = NULL;
    for (Use *u = v->uses, *next; u; u = next) {
        next = u->next;
        if (!feeds_fma(u)) continue;
        if (!own) {
            value_map_init(&map, &s->arena);
            own = ir_clone(&b, load, &map);
            if (v->def != load) {
                ir_set_attr(s, own, *ir_attr(v->def, ATTR_ORDER));
                ir_result(own)->type = v->type;
            }
        }
        ir_set_operand(u->user, (int)(u - u->user->operands), ir_result(own));
    }
}

/* A tile that products by fused multiply-adds share with others lies in registers, and each of these products
 * would write it to shared memory again, between two barriers. They get a load of their own, which L1 or L2
 * serves. */
static void separate_loads(Session *s, Func *f)
{
    InstrList all = { 0 };
    ir_collect(&s->arena, f->body, OP_LOAD, &all);
    for (size_t k = 0; k < all.len; k++) {
        Instr *load = all.data[k];
        if (!stage_may(load) || load->n_results != 1 || only_feeds_fma(ir_result(load))) continue;
        for (Use *u = ir_result(load)->uses, *next; u; u = next) {
            next = u->next;
            /* Rows whose positions a tile gives are loaded in the order of that tile. */
            if (u->user->op == OP_PERMUTE && !ir_attr(load, ATTR_ORDER) && !kernel_parts(load, NULL))
                load_again(s, load, ir_result(u->user));
        }
        load_again(s, load, ir_result(load));
    }
    ir_drop_unused(f->body);
}

/* --- tiles that wait ------------------------------------------------------------------------------------ */

enum { MOST_DEPTH = 8 };

/* Whether the tile is computed anew from smaller ones, which are there at any place behind its own. */
static bool from_smaller(const Value *v, int depth)
{
    const Instr *i = v->def;
    if (!i || depth > MOST_DEPTH) return false;
    if (i->op == OP_SPLAT || i->op == OP_BROADCAST) return true;
    if (!op_is_elementwise(i->op) || i->n_results != 1 || v->type->kind != TYPE_TILE) return false;
    for (int k = 0; k < i->n_operands; k++)
        if (!from_smaller(ir_operand(i, k), depth + 1)) return false;
    return true;
}

/* The first user of `v` in its block; NULL: a use lies elsewhere. */
static Instr *first_user(const Value *v)
{
    for (Instr *i = v->def->next; i; i = i->next)
        for (int k = 0; k < i->n_operands; k++)
            if (ir_operand(i, k) == v) return i;
    return NULL;
}

static bool used_in_block(const Value *v)
{
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user->block != v->def->block) return false;
    return v->uses != NULL;
}

static bool product_between(const Instr *from, const Instr *to)
{
    for (const Instr *i = from; i != to; i = i->next)
        if (i->op == OP_MMA_SYNC && !strcmp(ir_attr(i, ATTR_INSTR)->s, "fma")) return true;
    return false;
}

/* Moves such tiles behind the products that they would wait for: the last first, so that what they are
 * computed from can follow. */
static void compute_late(Block *b)
{
    for (Instr *i = b->last, *before; i; i = before) {
        before = i->prev;
        for (int k = 0; k < i->n_blocks; k++) compute_late(i->blocks[k]);
        if (!op_is_elementwise(i->op) || i->n_results != 1 || !from_smaller(ir_result(i), 0) ||
            !used_in_block(ir_result(i)))
            continue;
        Instr *to = first_user(ir_result(i));
        if (!to || !product_between(i, to)) continue;
        ir_unlink(i);
        Builder at = ir_before(to);
        ir_place(&at, i);
    }
}

void stage_beside_fma(Session *s, Func *f)
{
    separate_loads(s, f);
    compute_late(f->body);
}
